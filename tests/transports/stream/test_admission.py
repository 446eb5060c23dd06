"""The bounds of a server: its connections, those of one host, and the bytes that all of them hold."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from jsonrpc_fast import Notification
from jsonrpc_fast.errors import ConnectionLost
from jsonrpc_fast.session import Session
from jsonrpc_fast.support import Seldom
from jsonrpc_fast.transports import TcpClient, TcpServer, UnixClient, UnixServer
from jsonrpc_fast.transports.stream import server as server_module
from jsonrpc_fast.transports.stream.admission import Admission, host_of
from jsonrpc_fast.types import UNSET

from ...support.tables import rows
from ...support.transports import RecordedConnections, connected, echo, serving
from ...support.waiting import eventually, results_of, settle

pytestmark = pytest.mark.usefixtures("loop")


class Channel:
    """A channel that only knows its peer's address."""

    def __init__(self, address: Any) -> None:
        self._address = address

    def get_extra_info(self, name: str) -> Any:
        assert name == "peername"
        return self._address


@rows(
    ("address", "host"),
    [
        (("10.0.0.1", 80), "10.0.0.1"),
        (("2001:db8:1:2:3:4:5:6", 80, 0, 0), "2001:db8:1:2::"),
        (("2001:db8:1:2:ffff::", 80, 0, 0), "2001:db8:1:2::"),
        (("fe80::1%eth0", 80, 0, 2), "fe80::"),
        (("::ffff:10.0.0.1", 80, 0, 0), "10.0.0.1"),
        ("", ""),
        (None, ""),
    ],
)
def test_hosts(address: Any, host: str) -> None:
    assert host_of(address) == host


def test_each_host_has_its_maximum() -> None:
    limits: Any = Admission((), 5, 2, None)
    ones, others, unix = ([Channel((host, 1)) for _ in range(3)] for host in ("10.0.0.1", "10.0.0.2", ""))
    assert [limits.enter(one) for one in ones] == [True, True, False]
    assert [limits.enter(other) for other in others] == [True, True, False]
    assert [limits.enter(one) for one in unix[:2]] == [True, False]  # 5 in total
    assert (limits.open, limits.refused) == (5, 3)
    limits.leave(ones[0])
    limits.leave(ones[2])  # it did not enter
    assert limits.open == 4
    assert not limits.enter(others[2])
    assert limits.enter(ones[2])
    for channel in (*ones, *others, *unix):
        limits.leave(channel)
    assert (limits.open, limits._hosts) == (0, {})


async def test_a_connection_over_a_maximum_is_closed_and_the_next_is_served() -> None:
    for options in ({"max_connections": 2}, {"max_connections_per_host": 2}):
        async with serving(**options) as server:
            first, _ = await connected(server)
            second, _ = await connected(server)
            await eventually(lambda: server.connections == 2)
            _, refused = await connected(server)
            await refused.wait_for(1)
            assert refused.events[-1] == "closed"
            assert server.refused == 1
            await first.close()
            await eventually(lambda: server.connections == 1)
            third, _ = await connected(server)
            await eventually(lambda: server.connections == 2)
            await second.close()
            await third.disconnect()
            await eventually(lambda: server.admission.open == 0)


async def test_connections_of_a_unix_socket_have_no_host(tmp_path: Any) -> None:
    server = UnixServer(echo, str(tmp_path / "socket"), max_connections_per_host=1)
    await server.start()
    clients = [UnixClient(str(tmp_path / "socket")) for _ in range(3)]
    for client in clients:
        await client.start()
    await eventually(lambda: server.connections == 3)
    for client in clients:
        await client.close()
    await server.close()


async def test_the_connection_that_holds_the_most_bytes_is_dropped() -> None:
    connections = RecordedConnections()
    async with serving(connections, max_buffered_bytes=500_000) as server:
        small, _ = await connected(server)
        large, _ = await connected(server)
        small.send(Notification("n", ["x" * 100_000]))
        await eventually(lambda: len(connections) == 2 and bool(connections[0].events))
        small.socket.transport.write(b'{"jsonrpc":"2.0","method":"' + b"x" * 100_000)  # no message ends in it
        large.socket.transport.write(b'{"jsonrpc":"2.0","method":"' + b"x" * 600_000)
        await large.wait_closed()
        assert isinstance(connections[1].events[0], ConnectionLost)
        assert (server.connections, server.refused) == (1, 1)
        await settle()
        assert server.connections == 1
        await small.disconnect()


async def test_bytes_that_a_client_does_not_read_count() -> None:

    async def flood(transport: Any) -> None:
        await transport.start()
        transport.send(Notification("n", ["x" * 20_000_000]))

    async with serving(flood, max_buffered_bytes=1_000_000) as server:
        reader, writer = await asyncio.open_connection(*server.address[:2], limit=1000)
        await eventually(lambda: server.refused == 1)
        with contextlib.suppress(ConnectionError):
            while await reader.read(100_000):
                pass
        writer.close()


@rows("max_handlers", [1, 100])
async def test_what_sessions_keep_counts_in_their_inboxes_and_handlers(max_handlers: int) -> None:
    opened: list[Session] = []
    continues = asyncio.Event()

    async def work(text: str) -> int:
        await continues.wait()
        return len(text)

    async def serve(transport: Any) -> None:
        opened.append(Session(transport, {"work": work}, max_handlers=max_handlers))
        await opened[-1].start()
        await opened[-1].wait_closed()

    async with serving(serve, max_buffered_bytes=1_000_000) as server, Session(TcpClient(*server.address[:2])) as small:
        waiting = asyncio.ensure_future(small.call("work", ["x" * 100_000]))
        async with Session(TcpClient(*server.address[:2])) as large:
            calls = [asyncio.ensure_future(large.call("work", ["x" * 100_000])) for _ in range(20)]
            outcomes = await results_of(*calls)
            assert {type(outcome) for outcome in outcomes} == {ConnectionLost}
        assert server.admission.dropped == 1
        continues.set()
        assert await waiting == 100_000


async def test_connections_that_hold_little_are_never_dropped() -> None:
    async with serving(max_buffered_bytes=100_000) as server, Session(TcpClient(*server.address[:2])) as session:
        for _ in range(100):
            assert await session.call("m", ["x" * 20_000]) == ["x" * 20_000]
        assert server.admission.dropped == 0


async def test_one_burst_drops_each_connection_once() -> None:
    """The bytes of many connections are counted in the turn in which they arrive, before the sockets are closed."""
    async with serving(max_buffered_bytes=200_000) as server:
        clients = [(await connected(server))[0] for _ in range(20)]
        for client in clients:
            client.socket.transport.write(b'{"jsonrpc":"2.0","method":"' + b"x" * 50_000)
        await eventually(lambda: server.admission.dropped >= 16)
        await eventually(lambda: server.connections <= 4)
        assert server.admission.dropped + server.connections == 20
        assert server.admission._dropped == set()
        for client in clients:
            await client.disconnect()


async def test_websockets_count_their_frames() -> None:
    pytest.importorskip("websockets", reason="the extra `websocket` is not installed")
    from jsonrpc_fast.transports.websocket import WebSocketClient, WebSocketServer

    async def serve(transport: Any) -> None:
        session = Session(transport, {"add": lambda a, b: a + b})
        await session.start()
        await session.wait_closed()

    server = WebSocketServer(
        serve, "127.0.0.1", 0, max_buffered_bytes=500_000, max_connections_per_host=2, max_faults=None
    )
    await server.start()
    uri = f"ws://127.0.0.1:{server.address[1]}"
    hostile = WebSocketClient(uri)
    async with Session(WebSocketClient(uri)) as session:
        await hostile.start()
        with pytest.raises(ConnectionError):
            await WebSocketClient(uri).connect()
        hostile.socket.transport.write(b"\x81\xff" + (1_000_000).to_bytes(8, "big") + b"x" * 700_000)
        await hostile.wait_closed()
        assert await session.call("add", [1, 2]) == 3
    await server.close()


@rows("option", ["max_connections", "max_connections_per_host", "max_buffered_bytes"])
@rows("value", [0, -1, 1.5, True, "1"])
def test_options(option: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=option):
        TcpServer(echo, "127.0.0.1", 0, **{option: value})


class _Socket:
    """A socket of a host."""

    def __init__(self, host: str) -> None:
        self._host = host

    def get_extra_info(self, name: str) -> Any:
        return (self._host, 1)


@rows(
    "host, expected",
    [("192.0.2.1", 2), ("2001:db8::1", 2), ("::ffff:192.0.2.1", 2), ("127.0.0.1", 4), ("::1", 4)],
)
def test_one_host_has_at_most_half_of_the_connections_unless_it_is_this_machine(host: str, expected: int) -> None:
    admission = Admission([], 4, UNSET, None)
    sockets: list[Any] = [_Socket(host) for _ in range(6)]
    assert sum(map(admission.enter, sockets)) == expected
    assert admission.refused == 6 - expected


async def test_a_refused_connection_is_a_warning_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_refusals", Seldom())
    async with serving(echo, max_connections=1) as server:
        _, kept = await asyncio.open_connection(*server.address)
        await eventually(lambda: server.connections == 1)
        for _ in range(3):
            reader, writer = await asyncio.open_connection(*server.address)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
        kept.close()
        assert server.refused == 3
    assert [record.getMessage() for record in caplog.records] == ["a connection was refused: 1 are open"]
