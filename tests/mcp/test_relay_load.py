"""The relay under load: random conversations, thousands of calls, and real processes."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import JSONRPC
from jsonrpc_fast.errors import ConnectionLost, RpcError
from jsonrpc_fast.mcp.client import connect
from jsonrpc_fast.mcp.relay import RELAY_ERROR, Relay
from jsonrpc_fast.session import McpConvention, Session, SessionContext
from jsonrpc_fast.transports.memory import memory_pair
from jsonrpc_fast.transports.stdio.client import StdioClient

from ..support.examples import scaled_examples
from ..support.mcp_relay import End, relayed
from ..support.places import PEERS
from ..support.waiting import forever, settle

pytestmark = [pytest.mark.timeout(60), pytest.mark.time_limit(50)]

ids = st.sampled_from([0, 1, "1", ""])

actions = st.one_of(
    st.tuples(st.just("ask"), st.lists(ids, min_size=1, max_size=3)),
    st.tuples(st.just("cancel"), ids),
    st.tuples(st.just("answer"), st.integers(0, 5)),
    st.tuples(
        st.just("garbage"), st.sampled_from([b"{", b"[]", b"1", b'{"jsonrpc":"2.0","id":1,"result":1}', b"[[]]"])
    ),
)


class Talker:
    """One side of a conversation.

    Attributes:
        end: The peer.
        unanswered: How many requests with each id are not answered yet.
        cancelled: How many requests with each id were cancelled.
        requests: The ids of the requests that it has received and not responded to.
    """

    def __init__(self, end: End) -> None:
        self.end = end
        self.unanswered: Counter[str] = Counter()
        self.cancelled: Counter[str] = Counter()
        self.requests: list[int] = []

    async def act(self, action: str, value: Any) -> None:
        if action == "ask":
            items = [{"jsonrpc": "2.0", "id": id, "method": "m"} for id in value]
            self.unanswered.update(map(json.dumps, value))
            await self.end.send(json.dumps(items if len(items) > 1 else items[0]).encode())
        elif action == "cancel":
            self.cancelled[json.dumps(value)] += self.unanswered[json.dumps(value)] > 0
            params = {"requestId": value}
            message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            await self.end.send(json.dumps(message).encode())
        elif action == "answer" and self.requests:
            id = self.requests.pop(value % len(self.requests))
            await self.end.send(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % id)
        elif action == "garbage":
            self.end.transport.channel.write(value + b"\n")
            await settle()

    def receive(self) -> None:
        for line in self.end.received():
            messages = json.loads(line)
            for message in messages if isinstance(messages, list) else [messages]:
                if "method" not in message:
                    self.unanswered[json.dumps(message["id"])] -= 1
                elif "id" in message:
                    self.requests.append(message["id"])
                else:
                    self.requests = [id for id in self.requests if id != message["params"]["requestId"]]


@scaled_examples(0.2)
@given(st.lists(st.tuples(st.booleans(), actions), max_size=30))
async def test_each_request_gets_one_response(conversation: list[tuple[bool, tuple[str, Any]]]) -> None:
    """A cancelled request may get none."""

    async with relayed(JSONRPC) as (left, right, _, relay):
        talkers = Talker(left), Talker(right)
        for is_right, (action, value) in conversation:
            await talkers[is_right].act(action, value)
            for talker in talkers:
                talker.receive()
        await relay.close()
        await settle()
        for talker in talkers:
            talker.receive()
            assert all(0 <= left <= talker.cancelled[id] for id, left in talker.unanswered.items())


class Server:
    """The handlers of both sides."""

    def __init__(self) -> None:
        self.cancelled = 0

    async def echo(self, name: str, number: int) -> list[object]:
        if number % 3:
            await asyncio.sleep(0)
        return [name, number]

    def fail(self, number: int) -> None:
        raise RpcError(number, "failed", {"number": number})

    async def wait(self, context: SessionContext, number: int, **members: object) -> None:
        context.report_progress({"progress": number})
        try:
            await forever()
        finally:
            self.cancelled += 1

    def handlers(self) -> dict[str, Callable[..., Any]]:
        return {"echo": self.echo, "fail": self.fail, "wait": self.wait}


async def talk(session: Session, name: str, chance: random.Random, calls: int) -> dict[str, int]:
    """Make calls, 50 at a time, and check every response. Returns the number of calls by outcome."""
    ends = {"result": 0, "error": 0, "cancelled": 0}
    limit = asyncio.Semaphore(50)

    async def one(number: int) -> None:
        async with limit:
            kind = chance.random()
            if kind < 0.7:
                assert (await session.call("echo", [name, number])).decode() == [name, number]
                ends["result"] += 1
            elif kind < 0.85:
                with pytest.raises(RpcError) as caught:
                    await session.call("fail", [number])
                assert (caught.value.code, caught.value.data.decode()) == (number, {"number": number})
                ends["error"] += 1
            else:
                reported: list[Any] = []

                def stop(value: Any) -> None:
                    reported.append(value)
                    call.cancel()

                params = {"number": number}
                call = asyncio.ensure_future(session.call("wait", params, on_progress=stop))
                with pytest.raises(asyncio.CancelledError):
                    await call
                assert reported == [{"progress": number}]
                ends["cancelled"] += 1

    await asyncio.gather(*map(one, range(calls)))
    return ends


@pytest.mark.time_limit(100)
@pytest.mark.timeout(120)
@pytest.mark.parametrize("calls", [400, pytest.param(3000, marks=pytest.mark.slow)])
async def test_calls_in_both_directions(calls: int) -> None:
    (outer_left, left), (outer_right, right) = memory_pair(raw=True), memory_pair(raw=True)
    one, other = Server(), Server()
    faults: list[Any] = []
    relay = Relay(left, right, on_fault=lambda *fault: faults.append(fault))
    first = Session(outer_left, one.handlers(), convention=McpConvention())
    second = Session(outer_right, other.handlers(), convention=McpConvention())
    async with relay, first, second:
        talks = talk(first, "first", random.Random(1), calls), talk(second, "second", random.Random(2), calls)
        ends = await asyncio.gather(*talks)
        assert all(min(found.values()) > calls / 10 and sum(found.values()) == calls for found in ends)
        await settle()
        assert (one.cancelled, other.cancelled) == (ends[1]["cancelled"], ends[0]["cancelled"])
        assert faults == []
        for side in (relay._left, relay._right):
            assert side.engine.is_idle


ECHO = """
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports.stdio import run_stdio

async def serve(transport):
    session = Session(transport, {"echo": lambda *params: params})
    await session.start()
    await session.wait_closed()

run_stdio(serve)
"""


async def test_requests_to_a_killed_process_get_errors() -> None:
    outer, left = memory_pair(raw=True)
    right = StdioClient([sys.executable, "-c", ECHO], raw=True)
    faults: list[Any] = []
    async with Relay(left, right, on_fault=lambda *fault: faults.append(fault)) as relay, Session(outer) as session:
        calls = [asyncio.ensure_future(session.call("echo", [number])) for number in range(2000)]
        assert (await calls[500]).decode() == [500]
        assert right.pid is not None
        os.kill(right.pid, signal.SIGSTOP)
        calls += [asyncio.ensure_future(session.call("echo", [number])) for number in range(100)]
        await settle()
        os.kill(right.pid, signal.SIGKILL)
        done = await asyncio.gather(*calls, return_exceptions=True)
        await relay.wait_closed()
    lost = [error for error in done if isinstance(error, Exception)]
    assert len(lost) >= 100
    assert {(type(error), getattr(error, "code", None)) for error in lost} == {(RpcError, RELAY_ERROR)}
    assert right.returncode == -signal.SIGKILL
    assert [(side, type(fault)) for side, fault in faults] == [("right", ConnectionLost)]


def test_requests_from_a_pipe_are_answered_before_the_relay_exits() -> None:
    """The pipe ends at once, and the requests are still answered."""
    relay = [sys.executable, str(PEERS / "relay.py"), sys.executable, "-c", ECHO]
    requests = b"".join([b'{"jsonrpc":"2.0","id":"%d","method":"echo","params":{}}\n' % id for id in range(200)])
    done = subprocess.run(relay, input=requests, capture_output=True, timeout=30)
    # The server's results are arrays, which MCP does not allow.
    refused = b'{"code":-32603,"message":"the other side sent an invalid response"}'
    assert sorted(done.stdout.splitlines()) == sorted(
        [b'{"jsonrpc":"2.0","id":"%d","error":%b}' % (id, refused) for id in range(200)]
    )
    assert (done.stderr, done.returncode) == (b"", 0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_and_a_server_of_another_library_through_a_relay(mode: str) -> None:
    pytest.importorskip("mcp.server.mcpserver")

    command = [sys.executable, str(PEERS / "relay.py"), sys.executable, str(PEERS / "lowlevel_server.py")]
    notifications: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
    sample = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "4"}}
    handlers = {
        "roots/list": lambda params: {"roots": [{"uri": "file:///a"}]},
        "sampling/createMessage": lambda params: sample,
    }
    async with connect(
        *command, mode=mode, handlers=handlers, on_notification=lambda *what: notifications.put_nowait(what)
    ) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["ask", "changed", "error", "again", "level"]
        assert (await client.call_tool("ask"))["content"][0]["text"] == "file:///a 4"
        with pytest.raises(RpcError) as caught:
            await client.call_tool("error")
        assert (caught.value.code, caught.value.data) == (-32050, {"why": [1, None]})
        if client.server.revision.is_modern:
            wanted = {"notifications": {"toolsListChanged": True}}
            listening = asyncio.create_task(client.call("subscriptions/listen", wanted, timeout=None))
            method, params = await notifications.get()
            assert method == "notifications/subscriptions/acknowledged"
            await client.call_tool("changed")
            method, changed = await notifications.get()
            assert (method, changed["_meta"]) == ("notifications/tools/list_changed", params["_meta"])
            listening.cancel()
        else:
            await client.call_tool("changed")
            assert (await notifications.get())[0] == "notifications/tools/list_changed"
