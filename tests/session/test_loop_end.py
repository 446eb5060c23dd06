"""The loop ends while handlers run: they are cancelled, and none of them has failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from jsonrpc_fast import encode_request
from jsonrpc_fast.http import Endpoint
from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.mcp.server import Server
from jsonrpc_fast.session import Outcome, Session
from jsonrpc_fast.transports import memory_pair
from jsonrpc_fast.transports.connection import turns
from jsonrpc_fast.types import TURN_SECONDS

from ..support.asgi import post
from ..support.mcp_conversation import converse
from ..support.mcp_http import Exchange, Gate, begin_session, call, modern
from ..support.tables import rows
from ..support.waiting import settle

pytestmark = pytest.mark.usefixtures("loop")

Left: Any = []


async def wait() -> None:
    await asyncio.Event().wait()


def leave(work: Coroutine[Any, Any, Any]) -> None:
    """Start work that still runs when the loop ends."""
    Left.append(asyncio.ensure_future(work))


async def a_session() -> None:
    ours, theirs = memory_pair()
    client, server = Session(ours), Session(theirs, {"wait": wait})
    await server.start()
    await client.start()
    leave(client.call("wait"))
    leave(client.call_batch([("wait", None), ("wait", None)]))


async def an_mcp_session() -> None:
    server = Server("a", "1")
    server.tool("wait")(wait)

    async def use() -> None:
        async with converse(server, "2025-11-25") as client:
            client.request("tools/call", {"name": "wait", "arguments": {}})
            await wait()

    leave(use())


async def an_mcp_endpoint() -> None:
    app = McpEndpoint(Gate().server)
    session = await begin_session(app)
    leave(Exchange(app, call(1, "wait"), session).events())
    request = modern(call(2, "wait"))
    leave(Exchange(app, request["json"], headers=request["headers"]).events())


async def an_endpoint() -> None:
    one = encode_request(1, "wait", delimited=False)
    leave(post(Endpoint({"wait": wait}), one))
    leave(post(Endpoint({"wait": wait}, timeout=30), one))
    leave(post(Endpoint({"wait": wait}), b"[%s,%s]" % (one, one.replace(b":1", b":2"))))


@rows("begin_to_serve", [a_session, an_mcp_session, an_mcp_endpoint, an_endpoint])
def test_nothing_is_reported_as_failed(
    begin_to_serve: Callable[[], Coroutine[Any, Any, None]], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        await begin_to_serve()
        await settle(100)

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    Left.clear()
    assert "Traceback" not in caplog.text
    assert " failed" not in caplog.text


@rows("is_begun", [False, True])
async def test_a_handler_whose_task_is_cancelled_is_answered(is_begun: bool, caplog: pytest.LogCaptureFixture) -> None:
    served: list[Any] = []

    class Hooks:
        def request_served(self, trace: Any, id: Any, method: str, outcome: Outcome, code: Any, seconds: float) -> None:
            served.append((id, outcome, code))

    ours, theirs = memory_pair()
    received: list[Any] = []
    ours.onmessage = received.append
    async with Session(theirs, {"wait": wait}, hooks=Hooks()):
        await ours.start()
        before = asyncio.all_tasks()
        ours.send(encode_request(1, "wait"))
        while not (tasks := {task for task in asyncio.all_tasks() - before if task.get_name() == "wait"}):
            await asyncio.sleep(0)
        for _ in range(3 if is_begun else 0):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        while not received:
            await asyncio.sleep(0)
    await ours.close()
    assert received[0].to_dict() == {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal error"}}
    assert served == [(1, Outcome.CANCELLED, None)]
    assert caplog.records == []


async def test_a_cancellation_of_its_own_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.cancel)
        await future

    ours, theirs = memory_pair()
    received: list[Any] = []
    ours.onmessage = received.append
    async with Session(theirs, {"fail": fail}):
        await ours.start()
        ours.send(encode_request(1, "fail"))
        while not received:
            await asyncio.sleep(0)
    await ours.close()
    assert received[0].error.code == -32603
    assert [record.getMessage() for record in caplog.records] == ["the handler of 'fail' failed, id 1"]


async def leave_a_turn() -> None:
    ours, theirs = memory_pair()
    theirs.onmessage = lambda message: None
    await ours.start()
    await theirs.start()
    theirs.pause_reading()
    ours.send(encode_request(1, "m"))
    await settle()
    theirs.resume_reading()  # what has arrived is delivered in a later turn


def test_a_loop_that_has_ended_takes_no_time_from_the_next_one() -> None:
    for _ in range(3):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(leave_a_turn())
        loop.close()
    loop = asyncio.new_event_loop()
    assert turns.seconds(loop) == TURN_SECONDS
    loop.close()


def test_turns_beside_many_others_are_long_enough_for_more_than_a_write() -> None:
    loop = asyncio.new_event_loop()
    shares = []
    for _ in range(10):
        shares.append(TURN_SECONDS / turns.seconds(loop))
        turns.due(loop, 1)
    assert shares == [1, 2, 3, 4, 4, 4, 4, 4, 4, 4]
    assert turns.items(loop) == 16
    loop.close()
