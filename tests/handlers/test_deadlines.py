"""Deadlines of handlers: the responses, what is cancelled, and which cancellations pass through."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest

from jsonrpc_fast.codes import SessionErrorCode
from jsonrpc_fast.errors import ConnectionLost, RpcError
from jsonrpc_fast.handlers import CallNext, Handler, Handlers, RequestContext

from ..support.memory import collect
from ..support.session_pairs import Faults, sessions
from ..support.tables import rows
from ..support.waiting import forever, results_of, settle
from .test_dispatch import on_another_loop

CALL = '{"jsonrpc":"2.0","id":1,"method":"%s"}'
LATE = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32008,"message":"Deadline exceeded"}}\n'
INTERNAL = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}\n'
RESULT = b'{"jsonrpc":"2.0","id":1,"result":%b}\n'


@pytest.fixture(autouse=True)
def nothing_unawaited(each_loop: None) -> Iterator[None]:
    """On each loop; a coroutine that the test never awaits is reported in this test."""
    yield
    collect()


async def slow() -> None:
    await forever()


async def quick() -> str:
    await asyncio.sleep(0)
    return "quick"


@pytest.mark.virtual_time
async def test_a_late_handler_is_cancelled_and_answered() -> None:
    ended = []

    async def clean_up() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    handlers = Handlers({"quick": quick, "slow": clean_up, "sync": lambda: 1}, timeout=0.02)
    assert await handlers.dispatch_async(CALL % "slow") == LATE
    assert ended == ["cleaned up"]
    assert await handlers.dispatch_async(CALL % "quick") == RESULT % b'"quick"'
    assert await handlers.dispatch_async(CALL % "sync") == RESULT % b"1"
    assert handlers.dispatch(CALL % "sync") == RESULT % b"1"
    assert await handlers.dispatch_async('{"jsonrpc":"2.0","method":"slow"}') == b""


@pytest.mark.virtual_time
async def test_the_timeout_of_a_method_and_the_default() -> None:
    handlers = Handlers({"default": slow}, timeout=0.01)
    handlers.register("own", quick, timeout=20)
    handlers.register("none", quick, timeout=None)
    handlers.register("infinite", quick, timeout=inf)
    texts = ",".join([CALL % name for name in ("default", "own", "none", "infinite")])
    replies = json.loads(await handlers.dispatch_async(f"[{texts}]"))
    assert replies[0]["error"]["code"] == SessionErrorCode.DEADLINE_EXCEEDED
    assert [reply["result"] for reply in replies[1:]] == ["quick"] * 3
    for name in ("none", "infinite"):
        assert type(handlers.find(name)) is Handler


@pytest.mark.virtual_time
async def test_an_outcome_after_the_deadline_counts() -> None:
    async def return_anyway() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "partial"
        return "whole"

    async def fail_then() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise RpcError(7, "gave up")

    handlers = Handlers({"return": return_anyway, "fail": fail_then}, timeout=0.01)
    task: Any = asyncio.current_task()
    assert await handlers.dispatch_async(CALL % "return") == RESULT % b'"partial"'
    assert b'"code":7' in await handlers.dispatch_async(CALL % "fail")
    assert task.cancelling() == 0


@pytest.mark.virtual_time
async def test_a_cancellation_from_outside_passes_through() -> None:
    handlers = Handlers({"slow": slow}, timeout=30)
    work = asyncio.ensure_future(handlers.dispatch_async(CALL % "slow"))
    await settle(3)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_a_cancellation_in_the_turn_of_the_deadline_passes_through() -> None:
    handlers = Handlers({"slow": slow}, timeout=0.01)
    work = asyncio.ensure_future(handlers.dispatch_async(CALL % "slow"))
    await settle(3)
    loop = asyncio.get_running_loop()
    at = loop.time() + 0.02
    while loop.time() < at:  # both timers are due in the next turn
        pass
    loop.call_soon(loop.call_soon, work.cancel)
    done, _ = await asyncio.wait([work])
    assert done == {work}
    # Either order of the two is fine, as long as the task's own cancellation is not lost.
    if not work.cancelled():
        assert work.result() == LATE


@pytest.mark.virtual_time
async def test_deadlines_inside_deadlines() -> None:
    inner = Handlers({"slow": slow}, timeout=30)
    assert await inner.dispatch_async(CALL % "slow", timeout=0.02) == LATE
    inner = Handlers({"slow": slow}, timeout=0.02)
    assert await inner.dispatch_async(CALL % "slow", timeout=30) == LATE

    async def both(context: RequestContext) -> str:
        return (await inner.dispatch_async(CALL % "slow")).decode()

    outer = Handlers({"both": both}, timeout=30)
    assert json.loads(json.loads(await outer.dispatch_async(CALL % "both"))["result"]) == json.loads(LATE)


@pytest.mark.virtual_time
async def test_a_middleware_sees_the_error() -> None:
    seen = []

    async def note(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        try:
            return await call_next(params)
        except RpcError as error:
            seen.append(error.code)
            return "gave up"

    handlers = Handlers({"slow": slow}, middleware=[note], timeout=0.01)
    assert await handlers.dispatch_async(CALL % "slow") == RESULT % b'"gave up"'
    assert seen == [-32008]


@pytest.mark.virtual_time
async def test_futures_have_deadlines_too() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    handlers = Handlers({"future": lambda: future}, timeout=0.01)
    assert await handlers.dispatch_async(CALL % "future") == LATE
    assert future.cancelled()


def test_without_asyncio_a_timeout_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    handlers = Handlers({"quick": quick}, timeout=5)
    assert on_another_loop(handlers.dispatch_async(CALL % "quick")) == INTERNAL
    assert handlers.dispatch(CALL % "quick") == INTERNAL
    assert "the timeout of a handler needs asyncio" in caplog.text


@rows("timeout", [-1, float("nan")])
def test_timeouts_out_of_range(timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        Handlers(timeout=timeout)
    with pytest.raises(ValueError, match="timeout"):
        Handlers().register("m", quick, timeout=timeout)


@rows("timeout", ["5", True])
def test_timeouts_of_another_type(timeout: Any) -> None:
    with pytest.raises(TypeError, match="timeout"):
        Handlers(timeout=timeout)


# Sessions.


@pytest.mark.virtual_time
async def test_a_late_handler_of_a_session() -> None:
    handlers = Handlers({"slow": slow, "quick": quick}, timeout=0.02)
    async with sessions(handlers) as (client, server):
        with pytest.raises(RpcError) as caught:
            await client.call("slow")
        assert caught.value.code == SessionErrorCode.DEADLINE_EXCEEDED
        assert await client.call("quick") == "quick"
        assert server.is_idle


@pytest.mark.virtual_time
async def test_the_time_in_the_queue_counts() -> None:
    begun = 0

    async def count() -> None:
        nonlocal begun
        begun += 1
        await asyncio.sleep(60)

    handlers = Handlers()
    handlers.register("blocking", slow, timeout=0.05)
    handlers.register("count", count, timeout=0.01)
    async with sessions(handlers, max_handlers=1) as (client, _):
        outcomes = await results_of(*map(client.call, ["blocking", "count", "count"]))
    assert [getattr(error, "code", None) for error in outcomes] == [-32008] * 3
    assert begun == 0


@pytest.mark.virtual_time
async def test_a_handler_that_waits_for_its_peer_has_a_deadline() -> None:
    async def ask(context: Any) -> Any:
        return await context.session.call("slow")

    ask.__annotations__["context"] = "SessionContext"
    handlers = Handlers({"ask": ask}, timeout=0.02)
    async with sessions(handlers, {"slow": slow}) as (client, server):
        with pytest.raises(RpcError) as caught:
            await client.call("ask")
        assert caught.value.code == -32008
        assert server.is_idle


@pytest.mark.virtual_time
async def test_closing_refuses_what_waits_with_a_deadline() -> None:
    handlers = Handlers({"slow": slow}, timeout=30)
    faults = Faults()
    async with sessions(handlers, max_handlers=1, hooks=faults) as (client, server):
        calls = [asyncio.ensure_future(client.call("slow")) for _ in range(3)]
        await settle()
        await server.close(0)
        outcomes = await results_of(*calls)
    assert [type(outcome) for outcome in outcomes] == [ConnectionLost, RpcError, RpcError]
    assert server.dropped_requests == 1
