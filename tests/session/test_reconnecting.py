"""Reconnecting: calls in flight, calls that wait, delays, bounds and the end."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from jsonrpc_fast import Notification, encode_error, encode_notification
from jsonrpc_fast.errors import CallTimeout, ConnectionLost, RpcError, StateError
from jsonrpc_fast.session import (
    Handlers,
    JsonRpcConvention,
    LspConvention,
    ReconnectingSession,
    Session,
    SessionContext,
)
from jsonrpc_fast.transports import TcpClient, TcpServer, memory_pair

from ..support.clock import moving_clock
from ..support.session_pairs import Faults, Wire
from ..support.tables import rows
from ..support.waiting import eventually, forever, results_of, settle

pytestmark = pytest.mark.usefixtures("each_loop")
QUICK: dict[str, Any] = {"min_delay_seconds": 0.001, "max_delay_seconds": 0.01}


class Service:
    """A server that is stopped and started again on the same port."""

    def __init__(self) -> None:
        self.served: list[int] = []
        self.connections: list[Any] = []
        self.hold = asyncio.Event()
        self.address: tuple[str, int] = ("127.0.0.1", 0)
        self._server: TcpServer | None = None

    async def start(self) -> None:
        self._server = TcpServer(self._serve, *self.address)
        await self._server.start()
        self.address = self._server.address[:2]

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.close(0)

    async def lose(self) -> None:
        """Break all connections, but accept new ones."""
        for transport in self.connections:
            await transport.disconnect()
        self.connections.clear()

    async def _serve(self, transport: Any) -> None:
        self.connections.append(transport)
        async with Session(transport, {"note": self._note, "hold": self._hold}) as session:
            await session.wait_closed()

    def _note(self, number: int) -> int:
        self.served.append(number)
        return number

    async def _hold(self, number: int) -> int:
        self.served.append(number)
        await self.hold.wait()
        return number

    def client(self, **options: Any) -> ReconnectingSession:
        return ReconnectingSession(lambda: TcpClient(*self.address), **{**QUICK, **options})


@contextlib.asynccontextmanager
async def service() -> AsyncIterator[Service]:
    running = Service()
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


async def test_calls_in_flight_fail_and_nothing_is_sent_twice() -> None:
    async with service() as server, server.client() as client:
        calls = [asyncio.ensure_future(client.call("hold", [number])) for number in range(5)]
        await eventually(lambda: len(server.served) >= 5)
        await server.lose()
        outcomes = await results_of(*calls)
        assert [type(outcome) for outcome in outcomes] == [ConnectionLost] * 5
        assert await client.call("note", [5]) == 5
        await client.notify("note", [6])
        assert await client.call_batch([("note", [7])]) == [7]
        assert server.served == [0, 1, 2, 3, 4, 5, 6, 7]


async def primes(below: int) -> AsyncIterator[int]:
    for number in (2, 3, 5, 7):
        if number < below:
            yield number
        await asyncio.sleep(0)


async def one(below: int) -> AsyncIterator[int]:
    yield below
    await forever()


STREAMS: dict[str, Any] = {**QUICK, "convention": LspConvention()}


def server_of_streams(ends: list[Session]) -> Any:
    """Return a transport to a new server."""
    here, there = memory_pair()
    ends.append(Session(there, {"primes": primes, "one": one}, convention=LspConvention()))
    return here


async def test_a_stream_waits_for_a_connection() -> None:
    ends: list[Session] = []

    async def connected() -> Any:
        await settle()
        here = server_of_streams(ends)
        await ends[-1].start()
        return here

    client = ReconnectingSession(connected, **STREAMS)
    starting = asyncio.ensure_future(client.start())
    await asyncio.sleep(0)
    stream = client.stream("primes", {"below": 6})
    with pytest.raises(StateError, match="no result"):
        _ = stream.result
    left = client.stream("primes", {"below": 6})
    reading = asyncio.ensure_future(anext(left))
    await asyncio.sleep(0)
    with pytest.raises(StateError, match="another task"):
        await anext(left)
    left.close()
    assert ends == []
    assert [item async for item in stream] == [2, 3, 5]
    assert stream.result is None
    with pytest.raises(StopAsyncIteration):
        await reading
    await starting
    assert [item async for item in client.stream("primes", {"below": 1})] == []
    with pytest.raises(RpcError, match="Method not found"):
        await anext(failed := client.stream("none"))
    assert [item async for item in failed] == []
    async with client.stream("primes", {"below": 9}) as left:
        assert await anext(left) == 2
    with pytest.raises(StopAsyncIteration):
        await anext(left)
    closed = client.stream("primes")
    closed.close()
    assert [item async for item in closed] == []
    with pytest.raises(ValueError, match="max_items"):
        client.stream("primes", max_items=0)
    await client.close()
    await ends[0].close()


async def test_a_stream_ends_with_its_connection() -> None:
    ends: list[Session] = []

    async def connected() -> Any:
        here = server_of_streams(ends)
        await ends[-1].start()
        return here

    async with ReconnectingSession(connected, **STREAMS) as client:
        stream = client.stream("one", {"below": 1})
        assert await anext(stream) == 1
        await ends[0].close(0)
        with pytest.raises((ConnectionLost, RpcError)):
            await anext(stream)
        await eventually(lambda: client.session is not None and len(ends) == 2)
        async with client.stream("one", {"below": 2}) as again:
            assert await anext(again) == 2
    for end in ends:
        await end.close(0)


async def test_calls_wait_for_the_next_connection() -> None:
    async with service() as server, server.client() as client:
        first = client.session
        await server.stop()
        waiting = [asyncio.ensure_future(client.call("note", [number])) for number in range(3)]
        notifying = asyncio.ensure_future(client.notify("note", [3]))
        await eventually(lambda: client.session is None)
        await settle()
        assert server.served == []
        assert client.session is None
        assert not any(call.done() for call in waiting)
        await server.start()
        assert await asyncio.gather(*waiting) == [0, 1, 2]
        await notifying
        assert await client.call("note", [4]) == 4
        assert sorted(server.served) == [0, 1, 2, 3, 4]
        assert client.session is await client.connected()
        assert client.session is not first


async def test_waiting_counts_in_the_timeout() -> None:
    async with service() as server, server.client(timeout=0.05) as client:
        await server.stop()
        await eventually(lambda: client.session is None)
        with pytest.raises(CallTimeout):
            await client.call("note", [1])
        with pytest.raises(CallTimeout):
            await client.notify("note", [1], timeout=0.01)
        with pytest.raises(CallTimeout):
            await client.call_batch([("note", [1])], timeout=0)
        with pytest.raises(TypeError, match="an item of a batch"):  # at once, without a connection
            await client.call_batch([1], timeout=None)  # type: ignore[list-item]
        with pytest.raises(ValueError, match="2 types for 1 items"):
            await client.call_batch([("note", [1])], returns=[int, int], timeout=None)
        await server.start()
        await client.connected()
        with pytest.raises(CallTimeout):
            await client.call("hold", [2], timeout=0.05)
        assert server.served == [2]
        server.hold.set()


async def test_on_connect_comes_first_each_time() -> None:
    async def log_in(session: Session) -> None:
        await session.call("note", [-1])

    async with service() as server, server.client(on_connect=log_in) as client:
        assert await client.call("note", [1]) == 1
        await server.stop()
        waiting = asyncio.ensure_future(client.call("note", [2]))
        await settle()
        await server.start()
        assert await waiting == 2
        assert server.served == [-1, 1, -1, 2]


async def test_on_connect_need_not_be_async() -> None:
    begun: list[Session] = []
    async with service() as server, server.client(on_connect=begun.append) as client:
        assert begun == [client.session]


async def test_it_serves_its_peer_on_each_connection() -> None:
    peers: list[Session] = []

    async def make() -> Any:
        one, other = memory_pair()
        peer = Session(other, {"ask": ask})
        await peer.start()
        peers.append(peer)
        return one

    async def ask(context: SessionContext) -> Any:
        return await context.session.call("who")

    ask.__annotations__["context"] = SessionContext
    async with ReconnectingSession(make, {"who": lambda: "Ann"}, **QUICK) as client:
        for _ in range(3):
            assert await client.call("ask") == "Ann"
            await peers[-1].close(0)
    assert len(peers) >= 3
    for peer in peers:
        await peer.close()


# Attempts.


class Delays:
    """Records the bounds of the delays, which are 0 in the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bounds: list[float] = []
        monkeypatch.setattr(random, "uniform", self._draw)

    def _draw(self, least: float, bound: float) -> float:
        assert least == 0
        self.bounds.append(bound)
        return 0.0


def refuse() -> Any:
    raise ConnectionRefusedError("nobody listens")


@pytest.mark.virtual_time
async def test_the_delays_double_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    delays = Delays(monkeypatch)
    client = ReconnectingSession(refuse, min_delay_seconds=0.5, max_delay_seconds=3, max_attempts=6)
    with pytest.raises(ConnectionLost) as caught:
        await client.start()
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
    assert delays.bounds == [0.5, 1, 2, 3, 3]


async def test_a_peer_that_accepts_and_closes_is_not_contacted_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    delays = Delays(monkeypatch)
    made = 0

    async def make() -> Any:
        nonlocal made
        made += 1
        if made > 5:
            raise LookupError("enough")
        one, other = memory_pair()
        await other.start()
        asyncio.get_running_loop().call_soon(lambda: closing.append(asyncio.ensure_future(other.disconnect())))
        return one

    closing: list[Any] = []
    client = ReconnectingSession(make, min_delay_seconds=60, max_delay_seconds=200, max_attempts=2)
    with contextlib.suppress(ConnectionLost):
        await client.start()
    with pytest.raises(ConnectionLost) as caught:
        await client.wait_closed()
    assert isinstance(caught.value.__cause__, LookupError)
    assert delays.bounds == [60, 120, 200, 200, 200]
    await client.close()
    await asyncio.gather(*closing)


async def test_the_delay_starts_anew_after_a_connection_that_lasted(monkeypatch: pytest.MonkeyPatch) -> None:
    delays = Delays(monkeypatch)
    move = moving_clock()
    async with service() as server, server.client(min_delay_seconds=0.001, max_delay_seconds=10) as client:
        for number in range(3):
            assert await client.call("note", [number]) == number
            move(0.02)
            await server.lose()
            while client.session is not None:
                await asyncio.sleep(0)
        assert await client.call("note", [3]) == 3
    assert delays.bounds[0] == 0.001
    assert set(delays.bounds) <= {0.001, 0.002, 0.004}


@pytest.mark.parametrize("failure", [LookupError, RpcError])
async def test_a_failure_that_remains_is_not_tried_again(failure: type[Exception]) -> None:
    attempts = 0

    async def log_in(session: Session) -> None:
        nonlocal attempts
        attempts += 1
        raise RpcError(-32001, "wrong password") if failure is RpcError else failure("a bug")

    async with service() as server:
        client = server.client(on_connect=log_in)
        with pytest.raises(ConnectionLost) as caught:
            await client.start()
        assert type(caught.value.__cause__) is failure
        assert attempts == 1
        with pytest.raises(ConnectionLost):
            await client.call("note", [1])
        with pytest.raises(ConnectionLost):
            await client.wait_closed()


async def test_waiting_calls_fail_when_nothing_more_is_tried() -> None:
    async with service() as server:
        client = server.client(max_attempts=3, min_delay_seconds=0.02)
        await client.start()
        await server.stop()
        await eventually(lambda: client.session is None)
        calls = [asyncio.ensure_future(client.call("note", [number])) for number in range(3)]
        outcomes = await results_of(*calls)
        assert [type(outcome) for outcome in outcomes] == [ConnectionLost] * 3
        assert all(isinstance(outcome.__cause__, ConnectionRefusedError) for outcome in outcomes)
        await client.close()


class Refused(Exception):
    """As raised by websockets."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.response = SimpleNamespace(status_code=status)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionRefusedError(), True),
        (ConnectionLost(), True),
        (TimeoutError(), True),
        (CallTimeout(), True),
        (Refused(503), True),
        (Refused(403), False),
        (ssl.SSLCertVerificationError(), False),
        (RpcError(1, "no"), False),
        (RpcError(-32009, "Server busy"), True),
        (LookupError(), False),
    ],
)
async def test_after_which_exceptions_a_new_attempt_is_made(error: Exception, expected: bool) -> None:
    attempts = 0

    def make() -> Any:
        nonlocal attempts
        attempts += 1
        raise error

    faults = Faults()
    client = ReconnectingSession(make, max_attempts=3, hooks=faults, **QUICK)
    with pytest.raises(ConnectionLost) as caught:
        await client.start()
    assert caught.value.__cause__ is error
    assert attempts == (3 if expected else 1)
    assert faults.seen == [error] * attempts


async def test_an_own_rule_for_attempts() -> None:
    client = ReconnectingSession(refuse, retry=lambda error: False, max_delay_seconds=1)
    with pytest.raises(ConnectionLost):
        await client.start()


@rows("failure", ["raises", "closes", "is closed by the peer"])
@pytest.mark.virtual_time
async def test_an_attempt_that_ends_in_on_connect_has_failed(failure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    delays = Delays(monkeypatch)
    servers: list[Session] = []

    async def on_connect(session: Session) -> None:
        await asyncio.sleep(100)  # however long it takes, the connection has not lasted
        if failure == "raises":
            raise OSError("no answer")
        await (session if failure == "closes" else servers[-1]).close(0)
        await settle()

    faults = Faults()
    client = ReconnectingSession(
        lambda: transport_of(servers),
        on_connect=on_connect,
        min_delay_seconds=1,
        max_delay_seconds=3,
        max_attempts=5,
        hooks=faults,
    )
    with pytest.raises(ConnectionLost) as caught:
        await client.start()
    assert isinstance(caught.value.__cause__, OSError)
    assert len(servers) == len(faults.seen) == 5
    assert delays.bounds == [1, 2, 3, 3]


@pytest.mark.virtual_time
async def test_without_a_least_delay_only_the_first_attempt_is_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    delays = Delays(monkeypatch)
    with pytest.raises(ConnectionLost):
        await ReconnectingSession(refuse, min_delay_seconds=0, max_delay_seconds=0.05, max_attempts=6).start()
    assert delays.bounds == [0, 0.01, 0.02, 0.04, 0.05]


# The end.


@pytest.mark.virtual_time
async def test_closing_ends_what_waits() -> None:
    client = ReconnectingSession(refuse, min_delay_seconds=30)
    starting = asyncio.ensure_future(client.start())
    await asyncio.sleep(0.01)
    waiting = asyncio.ensure_future(client.call("m"))
    await asyncio.sleep(0)
    await client.close()
    for task in (starting, waiting):
        with pytest.raises(ConnectionLost, match="closed"):
            await task
    await client.close()
    await client.wait_closed()
    with pytest.raises(StateError):
        await client.start()


@pytest.mark.virtual_time
async def test_closing_while_a_connection_is_made() -> None:
    begun = asyncio.Event()

    async def make() -> Any:
        begun.set()
        await asyncio.sleep(60)

    client = ReconnectingSession(make)
    starting = asyncio.ensure_future(client.start())
    await begun.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    with pytest.raises(ConnectionLost):
        await client.call("m")


async def test_closing_lets_handlers_and_calls_finish() -> None:
    async with service() as server:
        client = server.client()
        await client.start()
        waiter = asyncio.ensure_future(client.wait_closed())
        call = asyncio.ensure_future(client.call("hold", [1]))
        await eventually(lambda: server.served)
        await client.close()
        with pytest.raises(ConnectionLost):
            await call
        await waiter
        server.hold.set()


async def cancelled(*_: Any) -> Any:
    """Await a future that is cancelled, as user code may."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def transport_of(servers: list[Session]) -> Any:
    """Return a transport whose peer is a new session."""
    mine, theirs = memory_pair()
    servers.append(Session(theirs, {"add": lambda a, b: a + b}))
    await servers[-1].start()
    return mine


@pytest.mark.parametrize("place", ["make_transport", "on_connect", "retry"])
async def test_a_callback_that_raises_cancelled_error_leaves_nobody_waiting(place: str) -> None:
    def cancel(_: object) -> bool:
        raise asyncio.CancelledError

    servers: list[Session] = []
    callbacks: dict[str, Any] = {
        "make_transport": {"make_transport": cancelled},
        "on_connect": {"make_transport": lambda: transport_of(servers), "on_connect": cancelled},
        "retry": {"make_transport": refuse, "retry": cancel},
    }
    client = ReconnectingSession(**callbacks[place], **QUICK)
    with pytest.raises(ConnectionLost) as info:
        await client.start()
    assert isinstance(info.value.__cause__, asyncio.CancelledError)
    with pytest.raises(ConnectionLost):
        await client.call("add", [1, 2])


@pytest.mark.virtual_time
async def test_closing_ends_although_on_connect_catches_the_cancellation() -> None:
    servers: list[Session] = []
    connecting = asyncio.Event()

    async def on_connect(_: Session) -> None:
        connecting.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)

    client = ReconnectingSession(lambda: transport_of(servers), on_connect=on_connect, **QUICK)
    starting = asyncio.ensure_future(client.start())
    await connecting.wait()
    await client.close()
    with pytest.raises(ConnectionLost):
        await starting
    await servers[0].wait_closed()


async def test_the_connection_is_closed_when_all_tasks_are_cancelled() -> None:
    servers: list[Session] = []
    before = asyncio.all_tasks()
    client = ReconnectingSession(lambda: transport_of(servers), **QUICK)
    await client.start()
    cancelled = asyncio.all_tasks() - before
    for task in cancelled:  # as `asyncio.run` does at its end
        task.cancel()
    await client.close()
    await servers[0].wait_closed()
    # A task that swallowed its own cancellation would be taken for one that has ended by itself.
    assert [task for task in cancelled if "_run" in repr(task.get_coro()) and not task.cancelled()] == []
    with pytest.raises(ConnectionLost):
        await client.call("add", [1, 2])


async def test_wrong_options_are_refused_while_there_is_no_connection() -> None:
    client: Any = ReconnectingSession(refuse, **QUICK)
    starting = asyncio.ensure_future(client.start())
    await asyncio.sleep(0)
    for send in (partial(client.call, "add"), partial(client.notify, "add"), client.connected):
        for timeout in (-1, float("nan")):
            with pytest.raises(ValueError, match="timeout must be 0 seconds or more"):
                await send(timeout=timeout)
        with pytest.raises(TypeError, match=r"has no option 'time'|unexpected keyword argument 'time'"):
            await send(time=1)
    await client.close()
    with pytest.raises(ConnectionLost):
        await starting


async def test_before_it_is_started() -> None:
    client = ReconnectingSession(refuse)
    for work in (client.call("m"), client.connected(), client.wait_closed()):
        with pytest.raises(StateError):
            await work
    await client.close()


@pytest.mark.parametrize(
    "options", [{"min_delay_seconds": -1}, {"max_delay_seconds": float("nan")}, {"max_attempts": 0}]
)
async def test_options_out_of_range(options: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        ReconnectingSession(refuse, **options)


async def awaited(*_: object) -> bool:
    return False


@pytest.mark.parametrize("name", ["on_disconnect", "retry"])
async def test_what_nothing_awaits_must_not_be_async(name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} must not be async$"):
        ReconnectingSession(refuse, **{name: awaited})


# Goodbyes.


class Nodes:
    """Peers over memory, one for each connection."""

    def __init__(self, *handlers: Any, **options: Any) -> None:
        self.sessions: list[Session] = []
        self.transports: list[tuple[Any, Any]] = []  # of the near end and of the far one
        self.served: list[Any] = []
        self.hold: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._options = options
        self.handlers = {"add": self._add, "hold": self._hold}

    async def make(self) -> Any:
        one, other = memory_pair()
        session = Session(other, self.handlers, convention=JsonRpcConvention(says_goodbye=True), **self._options)
        await session.start()
        self.sessions.append(session)
        self.transports.append((one, other))
        return one

    def stop(self, grace_seconds: float | None = None) -> None:
        """Let the latest peer end, like a server that stops."""
        self.transports[-1][1].onstop(grace_seconds)

    async def lose(self) -> None:
        await self.transports[-1][1].disconnect()
        await settle()  # the other end learns of it

    def _add(self, a: int, b: int) -> int:
        self.served.append(a)
        return a + b

    async def _hold(self, value: Any) -> Any:
        self.served.append(value)
        await asyncio.shield(self.hold)
        return value

    def client(self, **options: Any) -> ReconnectingSession:
        return ReconnectingSession(self.make, **{**QUICK, **options})

    async def close(self) -> None:
        for session in self.sessions:
            await session.close(0)


@contextlib.asynccontextmanager
async def nodes(**options: Any) -> AsyncIterator[Nodes]:
    made = Nodes(**options)
    try:
        yield made
    finally:
        await made.close()


@pytest.mark.virtual_time
async def test_what_the_peer_has_not_read_before_its_goodbye_is_sent_once_more() -> None:
    async with nodes() as peers, peers.client() as client:
        begun = asyncio.ensure_future(client.call("hold", [0]))
        await settle()
        unread = [
            asyncio.ensure_future(client.call("add", [1, 1])),
            asyncio.ensure_future(client.call_batch([("add", [2, 2]), Notification("add", [3, 3]), ("add", [4, 4])])),
        ]
        await asyncio.sleep(0)  # sent, but not received
        peers.stop()
        assert await asyncio.gather(*unread) == [2, [4, None, 8]]
        late = [client.call("add", [5, 5]), client.notify("add", [6, 6])]
        assert await asyncio.gather(*late) == [10, None]
        assert not begun.done()  # it continues in the first session
        peers.hold.set_result(None)
        assert await begun == 0
        await peers.sessions[0].wait_closed()
        assert len(peers.sessions) == 2
        assert peers.served == [0, 1, 2, 3, 4, 5, 6]


async def goodbye_to_each(wires: list[Wire], last: Any = None) -> Any:
    """Return a transport whose peer says goodbye as soon as it reads a request."""
    one, other = memory_pair()
    wire = Wire(other)
    wires.append(wire)

    def leave(message: Any) -> None:
        wire.received.append(message)
        wire.send(encode_notification("rpc.goodbye", {"last": last}))

    other.onmessage = leave
    await other.start()
    return one


async def leave_all(wires: list[Wire]) -> None:
    for wire in wires:
        await wire.transport.disconnect()


SLOW: dict[str, Any] = {
    "min_delay_seconds": 1.0,
    "max_delay_seconds": 8.0,
}  # at 0, 1, 3, 7, 15, 23, 31, 39, 47, 55 s, with full delays


@pytest.mark.virtual_time
async def test_what_no_peer_serves_is_sent_again_until_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda least, bound: bound)
    for send, sent in (("call", 10), ("call_batch", 10), ("notify", 1)):
        wires: list[Wire] = []
        async with ReconnectingSession(lambda to=wires: goodbye_to_each(to), **SLOW) as client:
            began = asyncio.get_running_loop().time()
            if send == "call":
                with pytest.raises(CallTimeout) as caught:
                    await client.call("m", timeout=60)
                assert isinstance(caught.value.__cause__, ConnectionLost)
                assert caught.value.__cause__.was_sent is False
            elif send == "call_batch":
                first, second = await client.call_batch([("m", None), ("m", None)], timeout=60)
                assert (first.was_sent, second.was_sent) == (False, False)
            else:
                await client.notify("m", timeout=60)
                await asyncio.sleep(60)
            assert sum(len(wire.received) for wire in wires) == sent, send
            assert asyncio.get_running_loop().time() - began <= 64
        await leave_all(wires)


@pytest.mark.virtual_time
async def test_what_several_peers_in_turn_do_not_serve_is_served_by_the_next() -> None:
    wires: list[Wire] = []
    async with nodes() as peers:

        async def make() -> Any:
            return await (goodbye_to_each(wires) if len(wires) < 5 else peers.make())

        async with ReconnectingSession(make, **SLOW) as client:
            assert await client.call("add", [1, 2]) == 3
            assert [len(wire.received) for wire in wires] == [1] * 5
            assert peers.served == [1]
    await leave_all(wires)


@pytest.mark.virtual_time
async def test_what_a_peer_has_not_begun_in_the_time_of_its_close_is_sent_again() -> None:
    async def forever_first(number: int) -> int:
        served.append((len(peers), number))
        return number if len(peers) > 1 else await forever()

    async def make() -> Any:
        one, other = memory_pair()
        convention = JsonRpcConvention(says_goodbye=True)
        peers.append(Session(other, {"work": forever_first}, max_handlers=1, convention=convention))
        await peers[-1].start()
        return one

    served: list[tuple[int, int]] = []
    peers: list[Session] = []
    async with ReconnectingSession(make, **QUICK) as client:
        calls = [asyncio.ensure_future(client.call("work", [number])) for number in (1, 2, 3)]
        await eventually(lambda: served == [(1, 1)])
        await peers[0].close(5)
        first, *others = await results_of(*calls)
        assert (type(first), first.was_sent) == (ConnectionLost, "maybe")
        assert others == [2, 3]
        assert sorted(served) == [(1, 1), (2, 2), (2, 3)]


@pytest.mark.virtual_time
async def test_what_a_peer_refuses_after_its_goodbye_is_sent_again() -> None:
    """A goodbye with an unknown id settles no call."""
    wires: list[Wire] = []
    async with nodes() as peers:

        async def make() -> Any:
            if wires:
                return await peers.make()
            one, other = memory_pair()
            wire = Wire(other)
            wires.append(wire)

            def refuse(message: Any) -> None:
                wire.send(encode_notification("rpc.goodbye", {"last": "unknown"}))
                for request in message if isinstance(message, list) else [message]:
                    if request.method == "add":
                        wire.send(encode_error(request.id, -32009, "Server busy"))
                    else:
                        wire.send(encode_error(request.id, -32601, "Method not found"))

            other.onmessage = refuse
            await other.start()
            return one

        for send in ("call", "call_batch"):
            ids = iter(f"id {number}" for number in range(100))
            async with ReconnectingSession(make, id_factory=lambda to=ids: next(to), **QUICK) as client:
                if send == "call":
                    assert await client.call("add", [1, 2]) == 3
                else:
                    assert await client.call_batch([("add", [3, 4]), ("add", [5, 6])]) == [7, 11]
            await leave_all(wires)
            wires.clear()
        assert peers.served == [1, 3, 5]
        async with ReconnectingSession(make, **QUICK) as client:
            with pytest.raises(RpcError, match="not found"):  # another error is an outcome
                await client.call("subtract", [1, 2])
    await leave_all(wires)


@pytest.mark.virtual_time
async def test_a_busy_peer_that_stays_is_the_matter_of_the_caller() -> None:
    attempts: list[int] = []

    def busy(number: int) -> None:
        attempts.append(number)
        raise RpcError(-32009, "Server busy")

    async with nodes() as peers, peers.client() as client:
        peers.sessions[0].register("busy", busy)
        with pytest.raises(RpcError, match="busy"):
            await client.call("busy", [1])
        assert attempts == [1]


@pytest.mark.virtual_time
async def test_a_loss_elsewhere_is_tried_again_after_a_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """`send` may use another connection, too, as a gateway does."""
    monkeypatch.setattr(random, "uniform", lambda least, bound: bound)
    times: list[float] = []

    async def send(session: Session, left: Any) -> None:
        times.append(asyncio.get_running_loop().time())
        raise ConnectionLost("another one", was_sent=False)

    async with nodes() as peers, ReconnectingSession(peers.make, **SLOW) as client:
        with pytest.raises(CallTimeout):
            await client.use(send, 20)
        assert [time - times[0] for time in times] == [0, 1, 3, 7, 15]
        assert len(peers.sessions) == 1


@pytest.mark.virtual_time
async def test_a_peer_that_says_goodbye_and_stays_is_left() -> None:
    wires: list[Wire] = []
    async with ReconnectingSession(lambda: goodbye_to_each(wires, 1), **QUICK) as client:
        call = asyncio.ensure_future(client.call("m", timeout=60))
        await asyncio.sleep(30)
        assert not wires[0].is_closed  # the response may come
        assert not call.done()
        with pytest.raises(CallTimeout):
            await call
        await asyncio.sleep(10)
        assert wires[0].is_closed
        assert client.session is not None
    for wire in wires:
        await wire.transport.disconnect()


@pytest.mark.virtual_time
async def test_closing_ends_the_sessions_that_are_being_left() -> None:
    async with nodes(close_seconds=0) as peers:
        client = peers.client()
        await client.start()
        held = asyncio.ensure_future(client.call("hold", [1]))
        await settle()
        peers.stop()
        assert await client.call("add", [1, 1]) == 2
        await client.close()
        with pytest.raises(ConnectionLost):
            await held
        with pytest.raises(ConnectionLost):
            await client.call("add", [1, 1])


# Reports.


@pytest.mark.virtual_time
async def test_on_disconnect_is_called_once_for_each_connection() -> None:
    told: list[tuple[str, Any, bool]] = []

    async def connected(session: Session) -> None:
        told.append(("connected", session, session.is_connected))

    def disconnected(session: Session) -> None:
        told.append(("disconnected", session, session.fault is None))
        if len(told) == 2:
            raise LookupError("a bug")

    faults = Faults()
    async with nodes() as peers:
        async with peers.client(on_connect=connected, on_disconnect=disconnected, hooks=faults) as client:
            await peers.sessions[-1].close(0)
            await settle()
            await client.call("add", [1, 1])
            await peers.lose()
            await client.call("add", [2, 2])
            peers.stop()
            await client.call("add", [3, 3])
        assert [kind for kind, _, _ in told] == ["connected", "disconnected"] * 4
        assert [one[1] for one in told[::2]] == [one[1] for one in told[1::2]]
        assert [str(fault) for fault in faults.seen] == ["a bug"]


@pytest.mark.virtual_time
async def test_the_fault_of_a_broken_connection_is_told() -> None:
    told: list[Any] = []
    async with nodes() as peers, peers.client(on_disconnect=lambda session: told.append(session.fault)) as client:
        peers.transports[0][0].onerror(ConnectionResetError("reset"))
        await peers.lose()
        await client.call("add", [1, 1])
        assert [str(fault) for fault in told] == ["reset"]


@pytest.mark.virtual_time
async def test_a_session_may_register_in_on_connect_each_time() -> None:
    async def introduce(session: Session) -> None:
        session.register("name", lambda: "Ann")
        await session.call("add", [0, 0])

    shared = Handlers()
    async with nodes() as peers, ReconnectingSession(peers.make, shared, on_connect=introduce, **QUICK) as client:
        for number in range(1, 4):
            assert await client.call("add", [number, 1]) == number + 1
            assert await peers.sessions[-1].call("name") == "Ann"
            await peers.lose()
        assert len(peers.sessions) >= 3
        assert shared.find("name") is None


@pytest.mark.virtual_time
async def test_whatever_on_connect_raises_is_reported_and_logged_if_it_ends_the_attempts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors: list[BaseException] = [RpcError(-32009, "Server busy"), OSError("no route"), asyncio.CancelledError()]

    async def fail(_: Session) -> None:
        raise errors[len(faults.seen)]

    faults = Faults()
    async with nodes() as peers:
        client = peers.client(on_connect=fail, hooks=faults)
        with pytest.raises(ConnectionLost) as caught:
            await client.start()
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert faults.seen == errors
        assert [record.getMessage() for record in caplog.records] == [
            "no more connections are made, after CancelledError: ''"
        ]


@pytest.mark.virtual_time
async def test_an_ordinary_close_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with nodes() as peers, peers.client() as client:
        assert await client.call("add", [1, 1]) == 2
    assert caplog.records == []


async def test_a_connection_that_is_idle_too_long_is_lost_at_once() -> None:
    """A peer that has been silent for that long would not take part in an orderly close either."""
    silent = socket.create_server(("127.0.0.1", 0))
    faults = Faults()
    async with service() as server:
        addresses = iter([silent.getsockname()])

        def connect() -> Any:
            return TcpClient(*next(addresses, server.address), idle_seconds=0.1, drain_seconds=3600)

        async with ReconnectingSession(connect, hooks=faults, **QUICK) as client:
            with pytest.raises(ConnectionLost) as caught:
                await client.call("note", [1], timeout=30)
            assert "nothing arrived" in str(caught.value.__cause__)
            assert await client.call("note", [2], timeout=30) == 2
    silent.close()
    assert server.served == [2]
