"""TLS on TCP and WebSocket: nothing is lost at a close, and peers that break the handshake are dropped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jsonrpc_fast import Limits, Notification, Request, Response, encode_notification
from jsonrpc_fast.errors import ConnectionLost
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import TcpClient, TcpServer

from ...isolated.tls_closes import close_many_times
from ...support.certificates import contexts, new_client_context
from ...support.clock import moving_clock
from ...support.memory import measured
from ...support.session_pairs import Faults
from ...support.tables import rows
from ...support.transports import RecordedConnections, Recorder, echo, serving
from ...support.waiting import eventually, settle

pytest.importorskip("trustme", reason="trustme is not installed")

pytestmark = pytest.mark.usefixtures("each_loop")

HANDLERS = {"add": lambda a, b: a + b, "echo": lambda value: value}


@contextlib.asynccontextmanager
async def secured(serve: Any = echo, **options: Any) -> AsyncIterator[TcpServer]:
    async with serving(serve, ssl=contexts()[0], **options) as server:
        yield server


def client_of(server: TcpServer, **options: Any) -> TcpClient:
    return TcpClient("127.0.0.1", server.address[1], **{"ssl": contexts()[1], **options})


async def serve_session(transport: Any) -> None:
    session = Session(transport, HANDLERS)
    await session.start()
    await session.wait_closed()


async def test_sessions_call_each_other() -> None:
    async with secured(serve_session) as server, Session(client_of(server)) as session:
        assert await asyncio.gather(*[session.call("add", [n, 1]) for n in range(300)]) == list(range(1, 301))
        for size in (16_383, 16_384, 16_385, 3_000_000):
            assert await session.call("echo", ["é" * size]) == "é" * size


@rows("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_each_version_of_tls(version: ssl.TLSVersion) -> None:
    client_context = new_client_context()
    client_context.minimum_version = client_context.maximum_version = version
    async with secured(serve_session) as server:
        client = client_of(server, ssl=client_context)
        async with Session(client) as session:
            assert await session.call("add", [1, 2]) == 3
            assert client.socket.tls.version() == version.name.replace("_", ".")


async def test_a_peer_of_asyncio() -> None:
    """Clients and servers that use the TLS of asyncio."""
    async with secured(serve_session) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.address[1], ssl=contexts()[1])
        writer.write(b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}\n')
        assert await reader.readline() == b'{"jsonrpc":"2.0","id":1,"result":3}\n'
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        await eventually(lambda: server.connections == 0)

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line.replace(b'"method":"m"', b'"result":1'))
        writer.close()

    listener = await asyncio.start_server(reply, "127.0.0.1", 0, ssl=contexts()[0])
    port = listener.sockets[0].getsockname()[1]
    async with Session(TcpClient("localhost", port, ssl=contexts()[1])) as session:
        assert await asyncio.gather(*[session.call("m") for _ in range(20)]) == [1] * 20
    listener.close()
    await listener.wait_closed()


async def test_nothing_is_lost_at_a_close_while_the_peer_sends() -> None:
    assert await close_many_times(8, *contexts()) == 0


async def test_the_peer_half_closes_and_still_gets_its_replies() -> None:
    begun, half_closed = asyncio.Event(), asyncio.Event()

    async def serve(transport: Any) -> None:
        async def slow(value: int) -> int:
            begun.set()
            await half_closed.wait()
            await settle()
            return value

        session = Session(transport, {"slow": slow})
        await session.start()
        await session.wait_closed()

    async with secured(serve) as server:
        client = client_of(server)
        recorder = Recorder(client)
        await client.start()
        client.send(Request(1, "slow", [7]))
        await begun.wait()
        client.channel.finish()
        half_closed.set()
        await client.wait_closed()
        assert recorder.events == [Response(1, 7), "closed"]


async def test_what_follows_the_end_of_tls_is_not_kept() -> None:
    """The peer ends TLS while a handler runs, and keeps sending without TLS."""
    begun, ended = asyncio.Event(), asyncio.Event()
    channels: list[Any] = []

    async def wait() -> None:
        begun.set()
        await ended.wait()

    async def serve(transport: Any) -> None:
        channels.append(transport.channel)
        async with Session(transport, {"wait": wait}) as session:
            await session.wait_closed()

    async with secured(serve, drain_seconds=1) as server:
        client = client_of(server)
        await client.start()
        client.send(Request(1, "wait"))
        await begun.wait()
        raw = client.socket.transport
        client.channel.finish()
        await settle(100)
        for _ in range(100):
            raw.write(bytes(65536))
        with contextlib.suppress(AssertionError):  # not everything is read
            await eventually(lambda: not raw.get_write_buffer_size(), 1)
        await settle(100)
        assert channels[0]._incoming.pending < 300_000
        ended.set()
        raw.abort()


async def test_certificates_are_checked() -> None:
    async with secured() as server:
        for options in ({"ssl": ssl.create_default_context()}, {"server_hostname": "example.org"}):
            client = client_of(server, **options)
            with pytest.raises(ssl.SSLCertVerificationError):
                await client.connect()
            with pytest.raises(OSError, match="certificate"):  # it may be tried again
                await client.connect()
            await client.disconnect()
        async with Session(client_of(server, server_hostname="localhost")) as session:
            assert await session.call("m", [1]) == [1]
        await eventually(lambda: server.connections == 0)


async def test_what_is_not_tls_is_dropped_and_others_are_served() -> None:
    async with secured() as server:
        for data in (b"GET / HTTP/1.1\r\n\r\n", encode_notification("n"), os.urandom(1000), b"\x16\x03\x01\xff\xff"):
            reader, writer = await asyncio.open_connection(*server.address[:2])
            writer.write(data)
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
        client = TcpClient(*server.address[:2])  # without TLS
        recorder = Recorder(client)
        await client.start()
        client.send(Request(1, "m"))
        await client.wait_closed()
        assert recorder.events[-1] == "closed"
        async with Session(client_of(server)) as session:
            assert await session.call("m", [1]) == [1]
        await eventually(lambda: server.admission.open == 0)


async def test_slow_handshakes_are_dropped_and_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsonrpc_fast.transports.stream.server.HANDSHAKE_SECONDS", 0.2)
    async with secured(max_connections=2) as server:
        slow = [await asyncio.open_connection(*server.address[:2]) for _ in range(2)]
        await eventually(lambda: server.admission.open == 2)
        reader, writer = await asyncio.open_connection(*server.address[:2])
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        assert server.refused == 1
        for reader, writer in slow:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
        async with Session(client_of(server)) as session:
            assert await session.call("m", [1]) == [1]


async def test_a_server_that_closes_drops_handshakes() -> None:
    async with secured() as server:
        reader, writer = await asyncio.open_connection(*server.address[:2])
        await eventually(lambda: server.admission.open == 1)
        await server.close()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        assert (server.connections, server.admission.open) == (0, 0)


async def test_a_server_that_does_not_answer_the_handshake() -> None:
    hanging = []

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hanging.append(asyncio.current_task())
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(hang, "127.0.0.1", 0)
    client = TcpClient("127.0.0.1", listener.sockets[0].getsockname()[1], ssl=contexts()[1], connect_seconds=0.1)
    with pytest.raises(TimeoutError):
        await client.connect()
    listener.close()
    await listener.wait_closed()
    await asyncio.gather(*hanging)


async def test_a_cancelled_connect_leaves_nothing() -> None:
    async with secured() as server:
        for turns in range(14):
            client = client_of(server)
            task = asyncio.ensure_future(client.connect())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await client.disconnect()
        await eventually(lambda: server.admission.open == 0)


async def test_a_stream_that_is_damaged_or_cut_off_ends_the_connection() -> None:
    for damage in (b"\x17\x03\x03\x00\x20" + b"x" * 32, b""):
        connections = RecordedConnections()
        async with secured(connections) as server:
            client = client_of(server)
            await client.start()
            client.send(Notification("n"))
            await eventually(lambda: bool(connections and connections[0].events))  # noqa: B023
            raw = client.socket.transport
            if damage:
                raw.write(damage)
            else:
                raw.abort()
            await eventually(lambda: server.connections == 0)
            assert connections[0].events[0] == Notification("n")
            assert connections[0].events[-1] == "closed"
            if damage:
                assert isinstance(connections[0].events[1], ssl.SSLError)
            await client.disconnect()


async def test_websocket_over_tls() -> None:
    pytest.importorskip("websockets", reason="the extra `websocket` is not installed")
    from websockets.asyncio.client import connect

    from jsonrpc_fast.transports.websocket import WebSocketClient, WebSocketServer

    limits = Limits(message_bytes=1_000_000)
    server = WebSocketServer(serve_session, "127.0.0.1", 0, ssl=contexts()[0], limits=limits)
    await server.start()
    uri = f"wss://127.0.0.1:{server.address[1]}"
    async with Session(WebSocketClient(uri, ssl=contexts()[1])) as session:
        assert await session.call("echo", ["x" * 300_000]) == "x" * 300_000
    async with connect(uri, ssl=contexts()[1]) as peer:
        await peer.send('{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}')
        assert await peer.recv() == '{"jsonrpc":"2.0","id":1,"result":3}'
        await peer.send("x" * 2_000_000)
        await peer.wait_closed()
        assert peer.close_code == 1009
    with pytest.raises(ssl.SSLCertVerificationError):
        await WebSocketClient(uri).connect()
    await server.close()


@rows("scheme", ["tcp", "tls", "ws", "wss"])
async def test_small_messages_are_read_without_large_allocations(scheme: str) -> None:
    """For a `Protocol` asyncio allocates 256 KiB for each chunk, which can cost three system calls."""
    options, client_options = ({"ssl": context} if scheme in ("tls", "wss") else {} for context in contexts())
    server: Any
    client: Any
    if scheme in ("tcp", "tls"):
        server = TcpServer(serve_session, "127.0.0.1", 0, **options)
        await server.start()
        client = TcpClient("127.0.0.1", server.address[1], **client_options)
    else:
        pytest.importorskip("websockets", reason="the extra `websocket` is not installed")
        from jsonrpc_fast.transports.websocket import WebSocketClient, WebSocketServer

        server = WebSocketServer(serve_session, "127.0.0.1", 0, **options)
        await server.start()
        client = WebSocketClient(f"{scheme}://127.0.0.1:{server.address[1]}", **client_options)
    async with Session(client) as session:
        assert await session.call("add", [1, 2]) == 3
        with measured() as memory:
            for _ in range(10):
                assert await session.call("add", [1, 2]) == 3
    await server.close()
    assert memory.peak < 128 * 1024


async def test_options() -> None:
    for option in ("connect_seconds", "idle_seconds"):
        with pytest.raises(ValueError, match=option):
            TcpClient("localhost", 1, **{option: -1})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ssl"):
        TcpServer(echo, "localhost", 0, ssl=True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ssl"):
        TcpClient("localhost", 1, ssl=True)  # type: ignore[arg-type]


@pytest.mark.time_limit(3600)  # of the clock that it moves
async def test_an_idle_tcp_connection_is_closed() -> None:
    move = moving_clock()
    connections = RecordedConnections()
    async with serving(connections, idle_seconds=60) as server:
        client = TcpClient(*server.address[:2])
        recorder = Recorder(client)
        await client.start()
        for count in range(1, 5):
            client.send(Notification("n"))
            await eventually(lambda count=count: connections and len(connections[0].events) == count)  # type: ignore[misc]
            move(40)
            await settle()
        for seconds in range(0, 60, 5):
            assert recorder.events == [], seconds
            move(5)
            await settle()
        for _ in range(6):  # an eighth more, and time in which the loop did not run does not count
            move(5)
            await settle()
        await client.wait_closed()
        assert recorder.events == ["closed"]
        await eventually(lambda: server.connections == 0)
        assert connections[0].events[:4] == [Notification("n")] * 4
        assert isinstance(connections[0].events[4], ConnectionLost)


async def test_the_system_probes_silent_peers() -> None:
    import socket

    async with serving() as server:
        client = TcpClient(*server.address[:2])
        await client.start()
        connected = client.socket.transport.get_extra_info("socket")
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
        await client.close()


@rows("inside", [False, True])
@rows("announced", [False, True])
async def test_a_peer_that_ends_its_stream_inside_a_message_is_told_from_one_that_ends_it_after_one(
    inside: bool, announced: bool
) -> None:
    """With close_notify or without: a message that was cut off shows itself."""

    def serve(listening: socket.socket) -> None:
        connection = contexts()[0].wrap_socket(listening.accept()[0], server_side=True)
        connection.recv(1000)
        connection.sendall(b'{"jsonrpc":"2.0","method":"x"}\n' + b'{"jsonrpc":"2.0","id' * inside)
        with contextlib.suppress(OSError):
            if announced:
                connection.unwrap()
            else:
                connection.shutdown(socket.SHUT_WR)
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        peer = asyncio.ensure_future(asyncio.to_thread(serve, listening))
        client = TcpClient("127.0.0.1", listening.getsockname()[1], ssl=contexts()[1])
        async with Session(client, hooks=Faults()) as session:
            with pytest.raises(ConnectionLost) as caught:
                await session.call("x")
        await peer
    cut = "the connection broke: the stream ended inside a message"
    assert str(caught.value) == (cut if inside else "the connection is closed")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@rows("version, letter, goes_on", [("-tls1_3", b"K", True), ("-tls1_2", b"R", False)])
@pytest.mark.ci
async def test_a_client_may_ask_for_new_keys_and_not_negotiate_again(
    version: str, letter: bytes, goes_on: bool
) -> None:
    pipe = asyncio.subprocess.PIPE
    request = b'{"jsonrpc":"2.0","id":7,"method":"add","params":[1,2]}\n'
    async with secured(serve_session) as server:
        command = ("openssl", "s_client", version, "-connect", f"127.0.0.1:{server.address[1]}")
        client = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
        assert client.stdin is not None
        assert client.stdout is not None
        assert client.stderr is not None
        client.stdin.write(request)
        await client.stdout.readuntil(b'{"jsonrpc":"2.0","id":7,"result":3}\n')
        client.stdin.write(letter + b"\n")  # a command of the program
        await client.stderr.readuntil(b"KEYUPDATE\n" if goes_on else b"RENEGOTIATING\n")
        client.stdin.write(request)
        if goes_on:
            await client.stdout.readuntil(b'{"jsonrpc":"2.0","id":7,"result":3}\n')
        answers, _ = await client.communicate(b"")
        assert b"jsonrpc" not in answers
        async with Session(client_of(server)) as session:  # others are served
            assert await session.call("add", [1, 2]) == 3
