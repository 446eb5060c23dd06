"""TCP and Unix sockets on loopback: connections, their ends, and a server's."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import Notification, Request, Response, encode_request, encode_result
from jsonrpc_fast.errors import ConnectionLost, ParseError, StateError
from jsonrpc_fast.framing.frames import FRAMINGS, Framing
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import (
    StdioClient,
    StdioServer,
    StreamServer,
    StreamTransport,
    TcpClient,
    TcpServer,
    UnixClient,
    UnixServer,
)
from jsonrpc_fast.transports.base import HIGH_WATER_BYTES

pytestmark = [pytest.mark.timeout(40), pytest.mark.usefixtures("each_loop", "no_descriptor_left")]
needs_unix = pytest.mark.skipif(sys.platform == "win32", reason="asyncio has no Unix sockets on Windows")


class Notes:
    """What a transport told, in order."""

    def __init__(self, transport: StreamTransport) -> None:
        self.told: list[Any] = []
        transport.onmessage = self.told.append
        transport.onerror = self.told.append
        transport.onclose = lambda: self.told.append("closed")

    async def tells(self, count: int) -> None:
        while len(self.told) < count:
            await asyncio.sleep(0.001)


async def echo(transport: StreamTransport) -> None:
    def answer(message: Any) -> None:
        if isinstance(message, Request):
            transport.send(Response(message.id, message.params))

    transport.onmessage = answer
    await transport.start()


@contextlib.asynccontextmanager
async def serving(serve: Any = echo, **options: Any) -> Any:
    server = TcpServer(serve, "127.0.0.1", 0, **options)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


async def eventually(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def connected(server: StreamServer, **options: Any) -> tuple[TcpClient, Notes]:
    client = TcpClient(*server.address[:2], **options)
    notes = Notes(client)
    await client.start()
    return client, notes


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_echo_on_tcp(framing: Framing) -> None:
    async with serving(framing=framing) as server:
        client, notes = await connected(server, framing=framing)
        assert client.peer_address == server.address
        assert client._channel.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        for number in range(500):
            client.send(Request(number, "echo", [number]))
        client.send(Request("large", "echo", ["x" * 3_000_000]))
        await notes.tells(501)
        assert notes.told[:500] == [Response(number, [number]) for number in range(500)]
        assert notes.told[500] == Response("large", ["x" * 3_000_000])
        await client.close()
        assert notes.told[501:] == ["closed"]
        await eventually(lambda: server.connections == 0)


@pytest.mark.parametrize("spoken", ["newline", "content-length"])
async def test_auto_answers_as_it_is_asked(spoken: Framing) -> None:
    async with serving(framing="auto") as server:
        client, notes = await connected(server, framing=spoken)
        client.send(Request(1, "echo"))
        await notes.tells(1)
        client.send(Request(2, "echo"))
        await notes.tells(2)
        assert notes.told == [Response(1), Response(2)]
        await client.close()


async def test_a_fault_of_the_framing_closes_the_connection() -> None:
    told: list[Any] = []
    ended: list[bool] = []

    async def serve(transport: StreamTransport) -> None:
        notes = Notes(transport)
        notes.told = told
        transport.onmessage = lambda message: transport.send(Response(1))
        transport.onerror = told.append
        transport.onclose = lambda: told.append("closed")
        transport.onend = lambda: ended.append(True)
        await transport.start()

    async with serving(serve, framing="content-length") as server:
        reader, writer = await asyncio.open_connection(*server.address)
        body = encode_request(1, "m", delimited=False)
        writer.write(b"Content-Length: %d\r\n\r\n%bContent-Length: -5\r\n\r\n" % (len(body), body))
        assert await reader.read() == b'Content-Length: 38\r\n\r\n{"jsonrpc":"2.0","id":1,"result":null}'
        writer.close()
        await writer.wait_closed()
        await eventually(lambda: "closed" in told)
        assert isinstance(told[0], ParseError)
        assert told[1:] == ["closed"]
        assert ended == []


@needs_unix
async def test_echo_on_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    for _ in range(2):
        server = UnixServer(echo, path)
        await server.start()
        assert server.address == str(path)
        client = UnixClient(path)
        notes = Notes(client)
        await client.start()
        client.send(Request(1, "echo", ["x" * 1_000_000]))
        await notes.tells(1)
        assert notes.told == [Response(1, ["x" * 1_000_000])]
        await client.close()
        await server.close()
        assert not path.exists()
    with pytest.raises(FileNotFoundError):
        await UnixClient(path).connect()


@needs_unix
async def test_a_unix_server_leaves_another_ones_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    one, other = UnixServer(echo, path), UnixServer(echo, path)
    await one.start()
    path.unlink()
    await other.start()  # in its place
    await one.close()
    assert path.exists()
    client = UnixClient(path)
    await client.start()
    await client.close()
    await other.close()
    assert not path.exists()


async def test_states_of_a_server() -> None:
    server = TcpServer(echo, "127.0.0.1", 0)
    with pytest.raises(StateError):
        _ = server.address
    await server.start()
    with pytest.raises(StateError):
        await server.start()
    other = TcpServer(echo, "127.0.0.1", server.address[1])
    with pytest.raises(OSError, match="in use"):
        await other.start()
    address = server.address
    await asyncio.gather(server.close(), server.close())
    await server.close()
    with pytest.raises(StateError):
        _ = server.address
    with pytest.raises(StateError):
        await server.start()
    await TcpServer(echo, "127.0.0.1", 0).close()
    client = TcpClient(*address)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            await client.start()
    await client.close()


async def test_a_server_that_is_started_twice_or_closed_while_it_starts_listens_once_or_not_at_all() -> None:
    server = TcpServer(echo, "127.0.0.1", 0)
    results = await asyncio.gather(server.start(), server.start(), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), StateError]
    port = server.address[1]
    await server.close()
    with pytest.raises(StateError):
        await server.start()

    taken = socket.create_server(("127.0.0.1", 0))
    server = TcpServer(echo, *taken.getsockname())
    with pytest.raises(OSError, match="address already in use"):
        await server.start()
    taken.close()
    await server.start()
    await server.close()

    server = TcpServer(echo, "127.0.0.1", port)
    starting = asyncio.Task(server.start())  # an eager one has started it
    await asyncio.sleep(0)
    await server.close()
    with pytest.raises(StateError):
        await starting
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_connection_over_the_limit_is_closed() -> None:
    async with serving(max_connections=2) as server:
        one, _ = await connected(server)
        two, _ = await connected(server)
        three, notes = await connected(server)
        await three.wait_closed()
        assert notes.told[-1] == "closed"
        assert server.connections == 2
        await one.close()
        await eventually(lambda: server.connections == 1)
        four, notes = await connected(server)
        four.send(Request(1, "echo"))
        await notes.tells(1)
        await two.close()
        await four.close()


async def test_what_comes_before_start_waits() -> None:
    started = asyncio.Event()

    async def slow(transport: StreamTransport) -> None:
        await started.wait()
        await echo(transport)

    async with serving(slow) as server:
        client, notes = await connected(server)
        client.send(Request(1, "echo"))
        await asyncio.sleep(0.05)
        assert notes.told == []
        started.set()
        await notes.tells(1)
        assert notes.told == [Response(1)]
        await client.close()


async def test_the_peers_end() -> None:
    async with serving() as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(encode_request(1, "echo") + encode_request(2, "echo", delimited=False))
        writer.write_eof()
        # What is answered in time still arrives.
        assert (await reader.read()).count(b'"result":null}\n') == 2
        writer.close()
        await writer.wait_closed()
        await eventually(lambda: server.connections == 0)


@pytest.mark.usefixtures("loop")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell the memory in use")
async def test_a_connection_that_is_little_used_takes_little_memory() -> None:
    def memory() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    server = TcpServer(echo, "127.0.0.1", 0)
    await server.start()
    before = memory()
    clients = [TcpClient(*server.address[:2]) for _ in range(200)]
    notes = [Notes(client) for client in clients]
    for client in clients:
        await client.start()
        client.send(Request(1, "m"))
    for note in notes:
        await note.tells(1)
    assert memory() - before < 400 * 64 * 1024
    for client in clients:
        await client.disconnect()
    await server.close()


async def test_writing_to_a_connection_that_was_reset_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    reset = asyncio.Event()

    async def serve(transport: StreamTransport) -> None:
        Notes(transport)
        await transport.start()
        await reset.wait()
        with contextlib.suppress(ConnectionLost):
            for _ in range(20):
                transport.send(Notification("n", ["x" * 200_000]))
        await transport.wait_closed()

    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    peer = socket.create_connection(server.address[:2])
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await asyncio.sleep(0.05)
    peer.close()
    reset.set()
    await asyncio.sleep(0.05)
    await server.close()
    assert caplog.records == []


@pytest.mark.parametrize("cause", [asyncio.CancelledError, GeneratorExit])
async def test_an_exception_that_is_no_error_costs_neither_messages_nor_the_connection(
    cause: type[BaseException],
) -> None:
    contexts: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    methods: list[str] = []

    async def serve(transport: StreamTransport) -> None:
        def note(message: Any) -> None:
            methods.append(message.method)
            if message.method == "a":
                raise cause

        transport.onmessage = note
        transport.onerror = contexts.append  # type: ignore[assignment]
        await transport.start()

    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    client = TcpClient(*server.address[:2])
    await client.start()
    for method in "abc":
        client.send(Notification(method))
    await client.close()
    await server.close()
    assert methods == ["a", "b", "c"]
    assert [type(context["exception"]) for context in contexts] == [cause]


async def test_a_reset() -> None:
    notes: list[Notes] = []

    async def serve(transport: StreamTransport) -> None:
        notes.append(Notes(transport))
        await transport.start()

    async with serving(serve) as server:
        peer = socket.create_connection(server.address)
        await asyncio.sleep(0.05)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        await eventually(lambda: server.connections == 0)
        assert isinstance(notes[0].told[0], ConnectionResetError)
        assert notes[0].told[1:] == ["closed"]


async def test_a_peer_that_is_gone_before_it_is_served() -> None:
    contexts: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))

    async def serve(transport: StreamTransport) -> None:
        await asyncio.sleep(0.1)
        await transport.start()

    async with serving(serve) as server:
        peer = socket.create_connection(server.address)
        await asyncio.sleep(0.05)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        await asyncio.sleep(0.2)
        assert server.connections == 0
    assert contexts == []


async def test_what_serve_raises() -> None:
    contexts: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    fault = KeyError("mine")

    async def serve(transport: StreamTransport) -> None:
        raise fault

    async with serving(serve) as server:
        client, notes = await connected(server)
        await client.wait_closed()
        assert notes.told[-1] == "closed"
        await eventually(lambda: server.connections == 0)
    assert [context["exception"] for context in contexts] == [fault]


async def test_a_server_that_closes_writes_what_was_accepted() -> None:
    cancelled: list[bool] = []

    async def serve(transport: StreamTransport) -> None:
        await transport.start()
        for number in range(3000):
            transport.send(Notification("n", [number, "x" * 1000]))
        try:
            await asyncio.sleep(100)
        finally:
            cancelled.append(True)

    async with serving(serve) as server:
        address = server.address
        clients = []
        for _ in range(3):
            client = TcpClient(*address)
            notes = Notes(client)
            await client.connect()
            clients.append((client, notes))
        idle = socket.create_connection(address)  # reads nothing, closes nothing
        await eventually(lambda: server.connections == 4)
        await asyncio.sleep(0.05)
        closing = asyncio.ensure_future(server.close(drain_seconds=1.0))
        await asyncio.sleep(0.05)
        with pytest.raises(ConnectionRefusedError):
            await TcpClient(*address).connect()
        started = time.monotonic()
        for client, _ in clients:
            await client.start()
        for client, notes in clients:
            await client.wait_closed()
            assert [message.params[0] for message in notes.told[:-1]] == list(range(3000))
            assert notes.told[-1] == "closed"
        assert time.monotonic() - started < 0.9
        await closing
        assert 0.8 < time.monotonic() - started < 3
        assert cancelled == [True] * 4
        idle.close()


async def test_close_writes_what_was_accepted_although_the_peer_sends() -> None:
    """Bytes that were not read when a socket closes make it a reset, which may take away what was sent."""

    received: list[Any] = []

    async def serve(transport: StreamTransport) -> None:
        transport.onmessage = received.append
        await transport.start()
        for _ in range(200):
            transport.send(Notification("n", ["x" * 1000]))

    async with serving(serve) as server:
        client, _ = await connected(server)
        client.pause_reading()
        for number in range(1000):
            client.send(Notification("n", [number, "x" * 2000]))
        await client.close()
        await eventually(lambda: len(received) == 1000)
        assert [message.params[0] for message in received] == list(range(1000))


@pytest.mark.usefixtures("loop")
async def test_an_echo_with_a_slow_reader_stays_bounded() -> None:
    transports: list[StreamTransport] = []

    async def serve(transport: StreamTransport) -> None:
        transports.append(transport)
        await echo(transport)

    async with serving(serve) as server:
        client, notes = await connected(server)
        client.pauses_when_blocked = False
        client.pause_reading()
        sent = 0
        most = 0
        while sent < 20_000:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(client.drain(), 0.2)
            if client.write_buffer_bytes > HIGH_WATER_BYTES:
                break
            client.send(Request(sent, "echo", ["x" * 1000]))
            sent += 1
            most = max(most, *[transport.write_buffer_bytes for transport in transports], 0)
        assert 1000 < sent < 20_000  # it was stopped
        assert most < HIGH_WATER_BYTES + 140_000
        client.resume_reading()
        await notes.tells(sent)
        assert [message.id for message in notes.told] == list(range(sent))
        await client.close()


async def test_a_connection_may_close_the_server() -> None:
    closing: list[str] = []

    async def serve(transport: StreamTransport) -> None:
        await transport.start()
        await server.close()
        closing.append("done")

    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    client, notes = await connected(server)
    await client.wait_closed()
    assert notes.told == ["closed"]
    await eventually(lambda: closing == ["done"])


async def test_disconnect_drops_at_once() -> None:
    async with serving() as server:
        client, notes = await connected(server)
        client.send(Request(1, "echo"))
        await client.disconnect()
        assert notes.told == ["closed"]
        with pytest.raises(ConnectionLost):
            client.send(Request(1, "echo"))
        await eventually(lambda: server.connections == 0)


async def test_a_close_while_connecting() -> None:
    async with serving() as server:
        client = TcpClient(*server.address)
        notes = Notes(client)
        connecting = asyncio.ensure_future(client.start())
        await asyncio.sleep(0)
        with pytest.raises(StateError, match="connecting"):
            await client.connect()
        await client.close()
        with pytest.raises(ConnectionLost):
            await connecting
        assert notes.told == ["closed"]


async def test_a_cancelled_connect_may_be_tried_again() -> None:
    async with serving() as server:
        client = TcpClient(*server.address)
        notes = Notes(client)
        connecting = asyncio.ensure_future(client.start())
        await asyncio.sleep(0)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        await client.start()
        client.send(Request(1, "echo"))
        await notes.tells(1)
        await client.close()


def test_a_wrong_option_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="framing"):
        TcpServer(echo, "127.0.0.1", 0, framing="morse")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        TcpClient("127.0.0.1", 0, framming="newline")  # type: ignore[call-arg]


@pytest.mark.parametrize("seconds", [0, 0.02])
async def test_what_comes_before_start_is_kept(seconds: float) -> None:
    """A client that writes and ends its stream at once, and a server that takes its time."""

    async def serve(transport: StreamTransport) -> None:
        notes.append(Notes(transport))
        await asyncio.sleep(seconds)
        await transport.connect()
        await asyncio.sleep(seconds)
        assert notes[0].told == []
        await transport.start()
        assert notes[0].told == []

    notes: list[Notes] = []
    async with serving(serve) as server:
        with socket.create_connection(server.address, 5) as peer:
            peer.sendall(encode_request(1, "first") + encode_request(2, "second", ["x" * 500_000]))
            peer.shutdown(socket.SHUT_WR)
            await eventually(lambda: bool(notes))
            await notes[0].tells(3)
            assert notes[0].told == [Request(1, "first"), Request(2, "second", ["x" * 500_000]), "closed"]


async def test_a_server_that_speaks_first_is_heard() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        listener.setblocking(False)
        client = TcpClient(*listener.getsockname())
        notes = Notes(client)
        await client.connect()
        peer, _ = await asyncio.get_running_loop().sock_accept(listener)
        with peer:
            peer.sendall(encode_request(1, "hello"))
            await asyncio.sleep(0.02)
            assert notes.told == []
            await client.start()
            await notes.tells(1)
            assert notes.told == [Request(1, "hello")]
            peer.shutdown(socket.SHUT_WR)
            await client.wait_closed()


HTTP = b"POST /rpc HTTP/1.1\r\nHost: localhost:4000\r\nContent-Type: text/plain\r\nContent-Length: 60\r\n\r\n"
"""What a browser sends for a form or a `no-cors` request of a web page."""
MINE = b'{"jsonrpc":"2.0","id":1,"method":"first"}'
HTTP_STARTS = {
    "post": HTTP,
    "get": b"GET / HTTP/1.1\r\n",
    "options": b"OPTIONS * HTTP/1.1\r\n",
    "absolute": b"GET http://localhost:4000/x?a=b:c HTTP/1.0\r\n",
    "long target": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n",
    "own method": b"M-SEARCH * HTTP/1.1\r\n",
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "blank lines": b"\r\n\r\n" + HTTP,
}


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("start", HTTP_STARTS)
async def test_http_is_refused_unread(start: str, framing: Framing) -> None:
    body = MINE + b"\n" + b"Content-Length: %d\r\n\r\n" % len(MINE) + MINE + b"\n"
    request = HTTP_STARTS[start] + body

    seen: list[Notes] = []

    async def serve(transport: StreamTransport) -> None:
        seen.append(Notes(transport))
        await transport.start()

    async def ask(pieces: list[bytes]) -> None:
        seen.clear()
        reader, writer = await asyncio.open_connection(*server.address)
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.001)
            assert await reader.read() == b""
        await eventually(lambda: server.connections == 0)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        if seen:
            assert [str(told) for told in seen[0].told] == ["the peer speaks HTTP", "closed"]

    async with serving(serve, framing=framing) as server:
        await ask([request])
        assert seen
        for cut in range(1, 30) if start in ("post", "blank lines") else ():
            await ask([request[:cut], request[cut:]])


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize(
    ("first", "faults"),
    [
        (b"", 0),
        (b" \t\r\n", 0),
        (b"\xef\xbb\xbf", 0),
        (b"GET\n", 1),
        (b"GET / HTTQ/1.1\n", 1),
        (b"GET / HTTP\n", 1),
        (b"GET /\n", 1),
        (b"get  HTTP1\n", 1),
        (b"Content-Length: HTTP/1.1\n", 1),
        (b'"a" / HTTP/1.1\n', 1),
        (b"A" * 33 + b" / HTTP/1.1\n", 1),
    ],
)
async def test_what_only_looks_a_little_like_http_is_read(first: bytes, faults: int) -> None:
    seen: list[Notes] = []

    async def serve(transport: StreamTransport) -> None:
        seen.append(Notes(transport))
        await transport.start()

    async with serving(serve) as server:
        for size in (1, 1000):
            seen.clear()
            _, writer = await asyncio.open_connection(*server.address)
            text = first + MINE + b"\n"
            for at in range(0, len(text), size):
                writer.write(text[at : at + size])
                await asyncio.sleep(0.0001)
            writer.close()
            await eventually(lambda: bool(seen) and seen[0].told[-1:] == ["closed"])
            assert [isinstance(told, ParseError) for told in seen[0].told[:-2]] == [True] * faults
            assert seen[0].told[-2:] == [Request(1, "first"), "closed"]


@pytest.mark.parametrize("text", [b"x\n" * 5000, b"{}\n" * 5000, (b"[" + b",".join([b"1"] * 400) + b"]\n") * 10])
async def test_a_connection_that_brings_only_faults_is_closed(text: bytes) -> None:
    seen: list[Notes] = []

    async def serve(transport: StreamTransport) -> None:
        seen.append(Notes(transport))
        await transport.start()

    async with serving(serve) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(text)
        assert await reader.read() == b""
        writer.close()
        await eventually(lambda: seen[0].told[-1:] == ["closed"])
        faults = sum(len(told) if isinstance(told, list) else isinstance(told, ParseError) for told in seen[0].told)
        assert 1000 < faults <= 1200
        assert isinstance(seen[0].told[-2], ConnectionLost)
        assert str(seen[0].told[-2]) == "the peer sent more than 1000 invalid messages"


@pytest.mark.parametrize("bound", [0, 5, None])
async def test_the_bound_of_faults_is_an_option(bound: int | None) -> None:
    seen: list[Notes] = []

    async def serve(transport: StreamTransport) -> None:
        seen.append(Notes(transport))
        await transport.start()

    async with serving(serve, max_faults=bound) as server:
        with socket.create_connection(server.address, 5) as peer:
            peer.sendall(b"x\n" * 3000)
            peer.shutdown(socket.SHUT_WR)
            await eventually(lambda: bool(seen) and seen[0].told[-1:] == ["closed"])
    assert sum(isinstance(told, ParseError) for told in seen[0].told) == (3000 if bound is None else bound + 1)


def reset(peer: socket.socket) -> None:
    """Closes a connection with RST."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


@pytest.mark.parametrize("unwritten", [0, 20_000_000])
@pytest.mark.parametrize("who", ["transport", "server", "session"])
async def test_closing_after_the_peer_has_reset_raises_nothing(who: str, unwritten: int) -> None:
    """In the same turn of the loop: the transport has not heard of the reset."""

    transports: list[StreamTransport] = []
    reports: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))

    async def serve(transport: StreamTransport) -> None:
        if who == "session":
            sessions.append(Session(transport))
            await sessions[-1].start()
        else:
            await transport.start()
        transports.append(transport)

    sessions: list[Session] = []
    async with serving(serve) as server:
        peers = [socket.create_connection(server.address) for _ in range(3)]
        await eventually(lambda: len(transports) == 3)
        for transport in transports:
            if unwritten:
                transport.send(Notification("n", ["x" * unwritten]))
                await asyncio.sleep(0)
        for peer in peers:
            reset(peer)
        if who == "server":
            await server.close()
        else:
            await (sessions or transports)[0].close()
        if who != "server":
            await server.close()
        assert server.connections == 0
    assert reports == []


@pytest.mark.parametrize("size", [10, 300_000, 8_000_000])
async def test_a_half_closing_client_gets_a_large_answer(size: int) -> None:
    """As `nc -N` does it."""

    reports: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))

    async def serve(transport: StreamTransport) -> None:
        transport.onmessage = lambda message: transport.send(Response(1, "x" * size))
        await transport.start()

    async with serving(serve) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(encode_request(1, "large"))
        writer.write_eof()
        await asyncio.sleep(0.05)
        assert len(await reader.read()) == size + len(encode_result(1, ""))
        writer.close()
        await writer.wait_closed()
        await eventually(lambda: server.connections == 0)
    assert reports == []


@pytest.mark.parametrize("option", ["drain_seconds", "max_faults"])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "1", True])
def test_options_are_checked_when_they_are_given(option: str, value: Any) -> None:
    for make in (partial(TcpServer, echo, "127.0.0.1", 0), partial(TcpClient, "127.0.0.1", 1), StdioServer):
        with pytest.raises((TypeError, ValueError), match=option):
            make(**{option: value})


@pytest.mark.parametrize("value", [None, 0, -1, 1.5, True, "1"])
def test_the_bound_of_connections_is_checked_when_it_is_given(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="max_connections"):
        TcpServer(echo, "127.0.0.1", 0, max_connections=value)


@pytest.mark.parametrize("option", ["exit_seconds", "terminate_seconds"])
@pytest.mark.parametrize("value", [None, -1, float("nan"), "1"])
def test_the_times_of_a_child_are_checked_when_they_are_given(option: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=option):
        StdioClient(["true"], **{option: value})


async def test_the_times_of_closing_are_checked() -> None:
    async with serving() as server:
        for times in ({"drain_seconds": -1}, {"grace_seconds": float("nan")}):
            with pytest.raises(ValueError, match="seconds"):
                await server.close(**times)
        client, _ = await connected(server)  # it goes on
        await client.close()


async def test_all_addresses_of_a_host_have_one_port() -> None:
    server = TcpServer(echo, None, 0)  # type: ignore[arg-type]
    await server.start()
    assert server._server is not None
    assert {listener.getsockname()[1] for listener in server._server.sockets} == {server.address[1]}
    client = TcpClient("127.0.0.1", server.address[1])
    notes = Notes(client)
    await client.start()
    client.send(Request(1, "echo", [1]))
    await notes.tells(1)
    await client.close()
    await server.close()


@needs_unix
@pytest.mark.skipif(sys.platform != "linux", reason="abstract names are Linux's")
async def test_an_abstract_name() -> None:
    name = f"\0jsonrpc_fast test {os.getpid()}"
    for _ in range(2):
        server = UnixServer(echo, name)
        await server.start()
        client = UnixClient(name)
        notes = Notes(client)
        await client.start()
        client.send(Request(1, "echo", [1]))
        await notes.tells(1)
        assert notes.told == [Response(1, [1])]
        await client.close()
        await server.close()


@needs_unix
async def test_a_path_that_answers_is_refused_and_one_that_does_not_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    server, second = UnixServer(echo, path), UnixServer(echo, path)
    await server.start()
    with pytest.raises(OSError, match="another server listens on this path") as caught:
        await second.start()
    assert caught.value.errno == errno.EADDRINUSE
    client = UnixClient(path)
    notes = Notes(client)
    await client.start()
    client.send(Request(1, "echo", [1]))
    await notes.tells(1)
    server.stop_accepting()
    assert not path.exists()
    await second.start()  # now it is free, although the first one serves on
    client.send(Request(2, "echo", [2]))
    await notes.tells(2)
    await client.close()
    await server.close()
    assert path.exists()
    await second.close()
    assert not path.exists()
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    third = UnixServer(echo, path)
    await third.start()
    await third.close()
    path.write_text("no socket")
    with pytest.raises(OSError, match="in use"):
        await UnixServer(echo, path).start()
    assert path.read_text() == "no socket"


class Worker:
    """A server of sessions whose handler takes until it is told."""

    def __init__(self) -> None:
        self.begun = 0
        self.release = asyncio.Event()
        self.server = TcpServer(self.serve, "127.0.0.1", 0)

    async def serve(self, transport: StreamTransport) -> None:
        async with Session(transport, {"work": self.work, "stop": self.stop}) as session:
            await session.wait_closed()

    async def work(self) -> str:
        self.begun += 1
        await self.release.wait()
        return "done"

    async def stop(self) -> str:
        await self.server.close(grace_seconds=None)
        return "stopped"


async def test_a_server_that_closes_lets_handlers_finish() -> None:
    worker = Worker()
    await worker.server.start()
    async with Session(TcpClient(*worker.server.address)) as client, Session(TcpClient(*worker.server.address)):
        call = asyncio.ensure_future(client.call("work"))
        await eventually(lambda: worker.begun == 1)
        closing = asyncio.ensure_future(worker.server.close(grace_seconds=None))
        await eventually(lambda: worker.server.connections == 1)  # who waits for nothing is let go at once
        with pytest.raises(ConnectionRefusedError):
            await TcpClient(*client._transport._channel.get_extra_info("peername")).connect()  # type: ignore[attr-defined]
        assert not closing.done()
        worker.release.set()
        assert await call == "done"
        await closing


async def test_a_server_that_closes_gives_handlers_no_more_than_their_time() -> None:
    worker = Worker()
    await worker.server.start()
    async with Session(TcpClient(*worker.server.address)) as client:
        call = asyncio.ensure_future(client.call("work"))
        await eventually(lambda: worker.begun == 1)
        await asyncio.wait_for(worker.server.close(grace_seconds=0.05), 3)
        with pytest.raises(ConnectionLost):
            await call


async def test_a_server_that_accepts_no_more_serves_on() -> None:
    worker = Worker()
    worker.release.set()
    await worker.server.start()
    address = worker.server.address
    async with Session(TcpClient(*address)) as client:
        assert await client.call("work") == "done"
        worker.server.stop_accepting()
        worker.server.stop_accepting()
        with pytest.raises(StateError):
            _ = worker.server.address
        with pytest.raises(ConnectionRefusedError):
            await TcpClient(*address).connect()
        assert await client.call("work") == "done"
        await worker.server.close()


async def test_a_handler_may_close_its_server() -> None:
    worker = Worker()
    await worker.server.start()
    async with Session(TcpClient(*worker.server.address)) as client:
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(client.call("stop"), 4)
    await worker.server.close()
