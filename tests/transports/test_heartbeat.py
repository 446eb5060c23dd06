"""The heartbeat: any data is a sign of life, a peer without one is lost, and pauses of this side do not count."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import Request, encode_error, encode_notification, encode_result
from jsonrpc_fast.errors import ConnectionLost, HttpStatusError, InvalidResponse
from jsonrpc_fast.session import Convention, LspConvention, McpConvention, ReconnectingSession, Session
from jsonrpc_fast.transports import (
    Sendable,
    StdioClient,
    TcpClient,
    TcpServer,
    Transport,
    UnixClient,
    UnixServer,
    memory_pair,
)
from jsonrpc_fast.transports.heartbeat import READ_SECONDS, Heartbeat

from ..support.certificates import contexts
from ..support.session_pairs import Faults, Wire, session_and_wire, sessions
from ..support.tables import rows
from ..support.waiting import eventually, settle

SECONDS = 10.0


async def lost(call: Any) -> float:
    """Return the time of the loop at which a call failed."""
    with pytest.raises(ConnectionLost) as caught:
        await call
    assert caught.value.was_sent == "maybe"
    assert "silent" in str(caught.value.__cause__)
    return asyncio.get_running_loop().time()


@rows("convention, method", [(None, "rpc.ping"), (LspConvention(), "$/ping"), (McpConvention(), "ping")])
@pytest.mark.virtual_time
async def test_a_silent_peer_is_pinged_and_any_answer_will_do(convention: Convention | None, method: str) -> None:
    async with session_and_wire(heartbeat_seconds=SECONDS, convention=convention) as (session, wire):
        for number in range(1, 5):
            began = asyncio.get_running_loop().time()
            assert await next_request(wire) == Request(number, method)
            assert SECONDS <= asyncio.get_running_loop().time() - began <= 1.25 * SECONDS + 0.1
            wire.send(encode_result(number, {}) if number % 2 else encode_error(number, -32601, "Method not found"))
        await settle()
        assert session.is_idle


async def next_request(wire: Wire) -> Any:
    await eventually(lambda: wire.received, 10 * SECONDS, 0.05)  # of virtual time
    return wire.received.pop(0)


@pytest.mark.virtual_time
async def test_a_peer_without_a_sign_of_life_is_lost() -> None:
    settled: list[Any] = []

    class Hooks(Faults):
        def call_settled(self, trace: Any, id: Any, method: str, outcome: Any, code: Any, seconds: float) -> None:
            settled.append((method, outcome.value))

    hooks = Hooks()
    async with session_and_wire(heartbeat_seconds=SECONDS, hooks=hooks, timeout=None) as (session, wire):
        began = asyncio.get_running_loop().time()
        ended = await lost(session.call("m"))
        assert 2 * SECONDS <= ended - began <= 2.25 * SECONDS + 0.1
        assert not session.is_connected
        await session.wait_closed()
        assert [message.method for message in wire.received] == ["m", "rpc.ping"]
        assert sorted(settled) == [("m", "lost"), ("rpc.ping", "timeout")]
        assert [str(fault) for fault in hooks.seen] == ["the peer is silent"]
        assert isinstance(session.fault, ConnectionLost)


@pytest.mark.virtual_time
async def test_handlers_are_cancelled_and_the_closing_does_not_wait_for_the_peer() -> None:
    ended: list[float] = []

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(asyncio.get_running_loop().time())

    async with session_and_wire({"work": work}, heartbeat_seconds=SECONDS) as (session, wire):
        began = asyncio.get_running_loop().time()
        wire.send(encode_notification("work"))
        await session.wait_closed()
        assert ended[0] - began <= 2.25 * SECONDS + 0.1
        assert asyncio.get_running_loop().time() - began <= 2.25 * SECONDS + 0.1


@pytest.mark.virtual_time
async def test_an_idle_peer_that_answers_is_pinged_in_each_interval() -> None:
    """A middlebox may cut connections that are idle for longer."""
    pings: list[float] = []

    class Hooks(Faults):
        def call_started(self, id: Any, method: str) -> None:
            pings.append(asyncio.get_running_loop().time())

    async with sessions(client_options={"heartbeat_seconds": SECONDS, "hooks": Hooks()}):
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(100 * SECONDS)
        intervals = [after - before for before, after in zip([began, *pings], pings, strict=False)]
        assert min(intervals) == pytest.approx(SECONDS)
        assert max(intervals) == pytest.approx(1.25 * SECONDS)
        assert len(pings) == 80


@rows("kind", ["messages", "parts of a message"])
@pytest.mark.virtual_time
async def test_whatever_arrives_is_a_sign_of_life(kind: str) -> None:
    async with session_and_wire(heartbeat_seconds=SECONDS) as (session, wire):
        text = encode_notification("news", ["x" * 100])
        for at in range(100):
            if kind == "messages":
                wire.send(text)
            else:
                wire.transport.channel.write(text[at : at + 1])
            await asyncio.sleep(SECONDS / 2)
        assert session.is_connected
        assert wire.received == []


@pytest.mark.virtual_time
async def test_time_in_which_this_side_does_not_read_does_not_count() -> None:
    one, other = memory_pair()
    wire = Wire(other)
    await other.start()
    async with Session(one, heartbeat_seconds=SECONDS) as session:
        one.pause_reading()
        await asyncio.sleep(10 * SECONDS)
        assert session.is_connected
        assert wire.received == []
        one.resume_reading()
        await session.wait_closed()
        assert session.fault is not None
    await other.disconnect()


@pytest.mark.virtual_time
async def test_a_ping_needs_no_room_among_the_calls() -> None:
    async with session_and_wire(heartbeat_seconds=SECONDS, max_calls=1, timeout=None) as (session, wire):
        call = asyncio.ensure_future(session.call("long"))
        waiting = asyncio.ensure_future(session.call("waits"))
        assert (await next_request(wire)).method == "long"
        for _ in range(10):
            ping = await next_request(wire)
            assert ping.method == "rpc.ping"
            wire.send(encode_result(ping.id, None))
        wire.send(encode_result(1, "done"))
        assert await call == "done"
        request = await next_request(wire)
        wire.send(encode_result(request.id, "also"))
        assert await waiting == "also"


@pytest.mark.virtual_time
async def test_the_loop_may_read_once_more_before_a_peer_is_given_up() -> None:
    """After a process was suspended, its timers are due before it has read what arrived."""
    seen: list[str] = []
    heartbeat = Heartbeat(
        SECONDS, Foreign(memory_pair()[0]), lambda _: seen.append("ping"), lambda: seen.append("lose")
    )
    heartbeat.start()
    await asyncio.sleep(2 * SECONDS + READ_SECONDS / 2)
    heartbeat.count()  # just after the second check
    await asyncio.sleep(2 * SECONDS)
    assert seen == ["ping", "ping"]
    heartbeat.stop()


class Foreign(Transport):
    """A transport that defines only what has no default."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    @property
    def is_connected(self) -> bool:
        return self._inner.is_connected

    @property
    def write_buffer_bytes(self) -> int:
        return self._inner.write_buffer_bytes

    async def start(self) -> None:
        self._inner.onmessage, self._inner.onerror = self.onmessage, self.onerror
        self._inner.onclose = self.onclose
        await self._inner.start()
        self._inner.onmessage = lambda message: self.onmessage(message)  # type: ignore[misc]

    async def connect(self) -> None:
        await self._inner.connect()

    def send(self, message: Sendable) -> None:
        self._inner.send(message)

    async def drain(self) -> None:
        await self._inner.drain()

    def pause_reading(self) -> None:
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._inner.resume_reading()

    async def close(self) -> None:
        await self._inner.close()

    async def disconnect(self) -> None:
        await self._inner.disconnect()


@pytest.mark.virtual_time
async def test_a_transport_of_another_library() -> None:
    one, other = memory_pair()
    wire = Wire(other)
    await other.start()
    async with Session(Foreign(one), heartbeat_seconds=SECONDS) as session:
        for _ in range(20):
            wire.send(encode_notification("news"))
            await asyncio.sleep(SECONDS / 2)
        assert wire.received == []
        await session.wait_closed()
        assert [message.method for message in wire.received] == ["rpc.ping"]
    await other.disconnect()


@rows(
    ("error", "is_alive"),
    [(HttpStatusError(400, {}, b""), True), (InvalidResponse("malformed"), True), (ConnectionLost("refused"), False)],
)
@pytest.mark.virtual_time
async def test_a_ping_that_fails_alone(error: Exception, is_alive: bool) -> None:
    """Over HTTP each ping is a request of its own, and any status shows that the peer is alive."""
    one, other = memory_pair()
    transport = Foreign(one)

    def receive(message: Any) -> None:
        assert transport.onfail is not None
        transport.onfail(message.id, error)

    other.onmessage = receive
    await other.start()
    async with Session(transport, heartbeat_seconds=SECONDS) as session:
        await asyncio.sleep(10 * SECONDS)
        assert session.is_connected is is_alive
    await other.disconnect()


@pytest.mark.virtual_time
async def test_two_sessions_keep_each_other_alive() -> None:
    async with sessions(heartbeat_seconds=SECONDS, client_options={"heartbeat_seconds": 3}) as (client, server):
        await asyncio.sleep(1000)
        assert client.is_idle
        assert server.is_idle


@pytest.mark.virtual_time
async def test_a_reconnecting_session_goes_on_with_another_peer() -> None:
    peers: list[Any] = []

    async def make() -> Any:
        one, other = memory_pair()
        if peers:
            peers.append(Session(other, {"add": lambda a, b: a + b}))
        else:
            peers.append(other)  # accepts, and says nothing
        await peers[-1].start()
        return one

    async with ReconnectingSession(make, heartbeat_seconds=SECONDS, max_delay_seconds=0.1) as client:
        first = asyncio.ensure_future(client.call("add", [1, 2]))
        await lost(first)
        assert await client.call("add", [1, 2]) == 3
    await peers[0].disconnect()
    await peers[1].wait_closed()


@pytest.mark.parametrize("channel", ["tcp", "tls", "unix", "stdio"])
@pytest.mark.usefixtures("each_loop")
async def test_a_peer_that_stopped_is_noticed(channel: str, tmp_path: Path) -> None:
    released = asyncio.Event()

    async def hold(_: Any) -> None:
        await released.wait()

    server: Any = None
    transport: Any
    if channel == "unix":
        server = UnixServer(hold, tmp_path / "socket")
        transport = UnixClient(tmp_path / "socket")
    elif channel == "stdio":
        transport = StdioClient([sys.executable, "-c", "import time; time.sleep(60)"])
    else:
        server_ssl, client_ssl = contexts() if channel == "tls" else (None, None)
        server = TcpServer(hold, "localhost", 0, ssl=server_ssl)
    if server is not None:
        await server.start()
    if channel in ("tcp", "tls"):
        transport = TcpClient("localhost", server.address[1], ssl=client_ssl)
    async with Session(transport, heartbeat_seconds=0.05) as session:
        await lost(session.call("m"))
        await session.wait_closed()
    released.set()
    if server is not None:
        await server.close()
