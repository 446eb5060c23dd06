"""Connections over TCP and Unix sockets on loopback: how they open, carry messages and end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import Notification, Request, Response, encode_request, encode_result
from jsonrpc_fast.errors import ConnectionLost, ParseError, StateError
from jsonrpc_fast.framing.frames import FRAMINGS, Framing
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import (
    StreamTransport,
    TcpClient,
    TcpServer,
    UnixClient,
    UnixServer,
)
from jsonrpc_fast.transports.channel import HIGH_WATER_BYTES

from ...support.processes import resident_bytes
from ...support.tables import rows
from ...support.transports import RecordedConnections, Recorder, connected, echo, flood, reset, serving
from ...support.waiting import eventually, settle

pytestmark = [pytest.mark.timeout(40), pytest.mark.usefixtures("each_loop", "no_descriptor_left")]
needs_unix = pytest.mark.skipif(sys.platform == "win32", reason="asyncio has no Unix sockets on Windows")


@rows("framing", FRAMINGS)
async def test_echo_on_tcp(framing: Framing) -> None:
    async with serving(framing=framing) as server:
        client, recorder = await connected(server, framing=framing)
        assert client.peer == server.address
        assert client.socket.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        for number in range(500):
            client.send(Request(number, "echo", [number]))
        client.send(Request("large", "echo", ["x" * 3_000_000]))
        await recorder.wait_for(501)
        assert recorder.events[:500] == [Response(number, [number]) for number in range(500)]
        assert recorder.events[500] == Response("large", ["x" * 3_000_000])
        await client.close()
        assert recorder.events[501:] == ["closed"]
        await eventually(lambda: server.connections == 0)


@rows("spoken", ["newline", "content-length"])
async def test_auto_framing_replies_in_the_framing_of_the_peer(spoken: Framing) -> None:
    async with serving(framing="auto") as server:
        client, recorder = await connected(server, framing=spoken)
        client.send(Request(1, "echo"))
        await recorder.wait_for(1)
        client.send(Request(2, "echo"))
        await recorder.wait_for(2)
        assert recorder.events == [Response(1), Response(2)]
        await client.close()


async def test_a_framing_fault_closes_the_connection() -> None:
    told: list[Any] = []
    ended: list[bool] = []

    async def serve(transport: StreamTransport) -> None:
        recorder = Recorder(transport)
        recorder.events = told
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
        recorder = Recorder(client)
        await client.start()
        client.send(Request(1, "echo", ["x" * 1_000_000]))
        await recorder.wait_for(1)
        assert recorder.events == [Response(1, ["x" * 1_000_000])]
        await client.close()
        await server.close()
        assert not path.exists()
    with pytest.raises(FileNotFoundError):
        await UnixClient(path).connect()


async def test_a_request_waits_for_start() -> None:
    started = asyncio.Event()

    async def slow(transport: StreamTransport) -> None:
        await started.wait()
        await echo(transport)

    async with serving(slow) as server:
        client, recorder = await connected(server)
        client.send(Request(1, "echo"))
        await settle(50)
        assert recorder.events == []
        started.set()
        await recorder.wait_for(1)
        assert recorder.events == [Response(1)]
        await client.close()


async def test_the_end_of_the_peers_stream() -> None:
    async with serving() as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(encode_request(1, "echo") + encode_request(2, "echo", delimited=False))
        writer.write_eof()
        # Responses that are ready in time still arrive.
        assert (await reader.read()).count(b'"result":null}\n') == 2
        writer.close()
        await writer.wait_closed()
        await eventually(lambda: server.connections == 0)


@pytest.mark.usefixtures("loop")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell the memory in use")
async def test_a_connection_with_little_traffic_uses_little_memory() -> None:
    server = TcpServer(echo, "127.0.0.1", 0)
    await server.start()
    before = resident_bytes()
    clients = [TcpClient(*server.address[:2]) for _ in range(50)]  # a process may have 256 open files
    recorders = [Recorder(client) for client in clients]
    try:
        for client in clients:
            await client.start()
            client.send(Request(1, "m"))
        for recorder in recorders:
            await recorder.wait_for(1)
        assert resident_bytes() - before < 2 * len(clients) * 64 * 1024
    finally:
        for client in clients:
            await client.disconnect()
        await server.close()


async def test_writing_to_a_connection_that_was_reset_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    reset = asyncio.Event()

    async def serve(transport: StreamTransport) -> None:
        Recorder(transport)
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
    await eventually(lambda: server.connections == 1)
    peer.close()
    reset.set()
    await eventually(lambda: server.connections == 0)
    await server.close()
    assert caplog.records == []


@rows("cause", [asyncio.CancelledError, GeneratorExit])
async def test_a_base_exception_of_a_callback_does_not_break_the_connection(
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


async def test_a_reset_by_the_peer() -> None:
    seen = RecordedConnections()
    async with serving(seen) as server:
        peer = socket.create_connection(server.address)
        await eventually(lambda: len(seen) == 1)
        reset(peer)
        await eventually(lambda: server.connections == 0)
        assert isinstance(seen[0].events[0], ConnectionResetError)
        assert seen[0].events[1:] == ["closed"]


async def test_close_writes_what_was_accepted_while_the_peer_sends() -> None:
    """Closing a socket with unread bytes resets the connection, and the peer may lose what was sent."""

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
        client, recorder = await connected(server)
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
        assert 1000 < sent < 20_000  # it was blocked
        assert most < HIGH_WATER_BYTES + 140_000
        client.resume_reading()
        await recorder.wait_for(sent)
        assert [message.id for message in recorder.events] == list(range(sent))
        await client.close()


async def test_disconnect_closes_at_once() -> None:
    async with serving() as server:
        client, recorder = await connected(server)
        client.send(Request(1, "echo"))
        await client.disconnect()
        assert recorder.events == ["closed"]
        with pytest.raises(ConnectionLost):
            client.send(Request(1, "echo"))
        await eventually(lambda: server.connections == 0)


async def test_a_close_while_connecting() -> None:
    async with serving() as server:
        client = TcpClient(*server.address)
        recorder = Recorder(client)
        connecting = asyncio.ensure_future(client.start())
        await asyncio.sleep(0)
        with pytest.raises(StateError, match="connecting"):
            await client.connect()
        await client.close()
        with pytest.raises(ConnectionLost):
            await connecting
        assert recorder.events == ["closed"]


async def test_a_cancelled_connect_may_be_tried_again() -> None:
    async with serving() as server:
        client = TcpClient(*server.address)
        recorder = Recorder(client)
        connecting = asyncio.ensure_future(client.start())
        await asyncio.sleep(0)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        await client.start()
        client.send(Request(1, "echo"))
        await recorder.wait_for(1)
        await client.close()


@rows("turns", [0, 50])
async def test_messages_and_the_end_before_start_are_kept(turns: int) -> None:
    """The client writes and ends its stream at once, and the server starts late."""

    async def serve(transport: StreamTransport) -> None:
        recorders.append(Recorder(transport))
        await settle(turns)
        await transport.connect()
        await settle(turns)
        assert recorders[0].events == []
        await transport.start()
        assert recorders[0].events == []

    recorders: list[Recorder] = []
    async with serving(serve) as server:
        with socket.create_connection(server.address, 5) as peer:
            peer.sendall(encode_request(1, "first") + encode_request(2, "second", ["x" * 500_000]))
            peer.shutdown(socket.SHUT_WR)
            await eventually(lambda: bool(recorders))
            await recorders[0].wait_for(3)
            assert recorders[0].events == [Request(1, "first"), Request(2, "second", ["x" * 500_000]), "closed"]


async def test_messages_of_a_server_that_speaks_first_are_kept() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        listener.setblocking(False)
        client = TcpClient(*listener.getsockname())
        recorder = Recorder(client)
        await client.connect()
        peer, _ = await asyncio.get_running_loop().sock_accept(listener)
        with peer:
            peer.sendall(encode_request(1, "hello"))
            await settle(50)
            assert recorder.events == []
            await client.start()
            await recorder.wait_for(1)
            assert recorder.events == [Request(1, "hello")]
            peer.shutdown(socket.SHUT_WR)
            await client.wait_closed()


@rows("text", [b"x\n" * 5000, b"{}\n" * 5000, (b"[" + b",".join([b"1"] * 400) + b"]\n") * 10])
async def test_a_connection_with_too_many_faults_is_closed(text: bytes) -> None:
    seen = RecordedConnections()
    async with serving(seen) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(text)
        assert await reader.read() == b""
        writer.close()
        await eventually(lambda: seen[0].events[-1:] == ["closed"])
        faults = sum(len(told) if isinstance(told, list) else isinstance(told, ParseError) for told in seen[0].events)
        assert 1000 < faults <= 1200
        assert isinstance(seen[0].events[-2], ConnectionLost)
        assert str(seen[0].events[-2]) == "the peer sent more than 1000 invalid messages"


async def test_a_peer_that_goes_on_after_too_many_faults_is_cut_off() -> None:
    async with serving(max_faults=0) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(b"{}\n")
        assert await reader.read() == b""
        assert await flood(writer, b"{}\n" * 20_000)
        await eventually(lambda: server.connections == 0)


@rows("bound", [0, 5, None])
async def test_max_faults(bound: int | None) -> None:
    seen = RecordedConnections()
    async with serving(seen, max_faults=bound) as server:
        with socket.create_connection(server.address, 5) as peer:
            peer.sendall(b"x\n" * 3000)
            peer.shutdown(socket.SHUT_WR)
            await eventually(lambda: bool(seen) and seen[0].events[-1:] == ["closed"])
    assert sum(isinstance(told, ParseError) for told in seen[0].events) == (3000 if bound is None else bound + 1)


@rows("unwritten", [0, 20_000_000])
@rows("who", ["transport", "server", "session"])
async def test_closing_after_a_reset_raises_nothing(who: str, unwritten: int) -> None:
    """In the same turn of the loop, before the transport notices the reset."""

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


@rows("size", [10, 300_000, 8_000_000])
async def test_a_half_closing_client_gets_a_large_response(size: int) -> None:
    """Like `nc -N`."""

    reports: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))

    async def serve(transport: StreamTransport) -> None:
        transport.onmessage = lambda message: transport.send(Response(1, "x" * size))
        await transport.start()

    async with serving(serve) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(encode_request(1, "large"))
        writer.write_eof()
        await settle(50)
        assert len(await reader.read()) == size + len(encode_result(1, ""))
        writer.close()
        await writer.wait_closed()
        await eventually(lambda: server.connections == 0)
    assert reports == []
