"""WebSocket clients and servers, with each other and with those of `websockets`."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import socket
import ssl
import struct
from http import HTTPStatus
from typing import Any

import pytest

pytest.importorskip("websockets", reason="the extra `websocket` is not installed")

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import apply_mask  # type: ignore[attr-defined]

from jsonrpc_fast import JSONRPC, Limits, Notification, encode_notification
from jsonrpc_fast.errors import ConnectionLost
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports.channel import HIGH_WATER_BYTES
from jsonrpc_fast.transports.websocket import CloseCode, WebSocketClient, WebSocketServer
from jsonrpc_fast.transports.websocket.frames import MaskedFrames

from ...support.clock import moving_clock
from ...support.tables import rows
from ...support.transports import RecordedConnections, Recorder, flood
from ...support.waiting import eventually, settle
from ...support.websocket_peers import (
    CALL,
    HANDLERS,
    REPLY,
    connected,
    frame,
    raw_client,
    serve_session,
    server_by_hand,
    serving,
    uri_of,
)

pytestmark = pytest.mark.usefixtures("each_loop")


async def test_sessions_call_each_other() -> None:
    async def call_back(transport: Any) -> None:
        async with Session(transport, HANDLERS) as session:
            assert await session.call("twice", [21]) == 42
            await session.wait_closed()

    async with serving(call_back) as server:
        client = WebSocketClient(uri_of(server))
        async with Session(client, {"twice": lambda value: 2 * value}) as session:
            assert await asyncio.gather(*[session.call("add", [n, 1]) for n in range(300)]) == list(range(1, 301))
        assert (client.close_code, client.close_reason) == (1000, "")
        await eventually(lambda: server.connections == 0)


@rows("size", [0, 1, 124, 125, 126, 127, 65_534, 65_535, 65_536, 65_537, 3_000_000])
async def test_messages_of_all_lengths(size: int) -> None:
    async with serving() as server, Session(WebSocketClient(uri_of(server))) as session:
        text = "x" * max(0, size - len('{"jsonrpc":"2.0","id":1,"method":"echo","params":[""]}'))
        assert await session.call("echo", [text]) == text
        assert await session.call("echo", ["é" * size]) == "é" * size


async def test_a_client_of_websockets() -> None:
    async with serving() as server, connect(uri_of(server)) as client:
        await client.send('{\n "jsonrpc": "2.0",\r\n "id": 1, "method": "add", "params": [1, 2]\n}\n')
        assert await client.recv() == REPLY.decode()
        await client.send(CALL)  # a binary frame
        assert await client.recv() == REPLY.decode()  # always text
        await client.send([CALL[:10].decode(), "", CALL[10:11].decode(), CALL[11:].decode()])  # fragments
        assert await client.recv() == REPLY.decode()
        await client.send(f"[{CALL.decode()},1]")
        assert (await client.recv()).startswith("[")
        await client.send("{")
        assert '"code":-32700' in str(await client.recv())
        assert await (await client.ping()) < 10


async def test_a_server_of_websockets() -> None:
    async def handle(connection: Any) -> None:
        async for text in connection:
            assert isinstance(text, str)
            request = text.replace('"method":"m"', '"result":[7]')
            await connection.send([request[:5], request[5:]])

    async with server_by_hand(handle) as uri, Session(WebSocketClient(uri)) as session:
        assert await asyncio.gather(*[session.call("m") for _ in range(100)]) == [[7]] * 100


async def test_compression() -> None:
    async with serving(compression=True) as server:
        text = "abc" * 100_000
        async with connect(uri_of(server)) as peer:
            assert peer.response is not None
            assert "permessage-deflate" in peer.response.headers["Sec-WebSocket-Extensions"]
        async with Session(WebSocketClient(uri_of(server), compression=True)) as session:
            assert await session.call("echo", [text]) == text
            assert await asyncio.gather(*[session.call("echo", [n]) for n in range(50)]) == list(range(50))
        async with connect(uri_of(server)) as peer:
            await peer.send(CALL.decode())
            assert await peer.recv() == REPLY.decode()
    async with serving() as server, connect(uri_of(server)) as peer:
        assert peer.response is not None
        assert "Sec-WebSocket-Extensions" not in peer.response.headers


async def test_a_compressed_message_over_the_limit_is_not_inflated() -> None:
    async with (
        serving(compression=True, limits=Limits(message_bytes=10_000)) as server,
        connect(uri_of(server)) as peer,
    ):
        await peer.send(" " * 10_000_000)
        with pytest.raises(ConnectionClosed):
            await peer.recv()
        assert peer.close_code == 1009


async def test_the_limit_of_compressed_messages() -> None:
    text = encode_notification("n", ["x" * 2_000_000])
    for limits, code in ((None, 1009), (Limits(), None)):
        connections = RecordedConnections()
        async with (
            serving(connections, compression=True, limits=limits) as server,
            connect(uri_of(server), compression="deflate") as client,
        ):
            await client.send(text.decode())
            if code is None:
                await eventually(lambda: bool(connections[0].events))  # noqa: B023
                assert isinstance(connections[0].events[0], Notification)
            else:
                await client.wait_closed()
                assert client.close_code == code
    small = WebSocketClient("ws://localhost", compression=True)
    assert small.profile.limits == Limits(message_bytes=1024 * 1024)
    tiny = WebSocketClient("ws://localhost", compression=True, profile=JSONRPC.replace(limits=Limits(message_bytes=9)))
    assert tiny.profile.limits == Limits(message_bytes=9)


async def test_any_chunking_gives_the_same_messages() -> None:
    connections = RecordedConnections()
    stream = (
        frame(0x81, encode_notification("a", delimited=False))
        + frame(0x01, b'{"jsonrpc":"2.0",')
        + frame(0x89, b"ping")
        + frame(0x00, b'"method":')
        + frame(0x80, b'"b"}')
        + frame(0x82, encode_notification("c" * 300, delimited=False))
        + frame(0x8A, b"")
        + frame(0x81, encode_notification("d", delimited=False))
        + frame(0x88, struct.pack("!H", 1000))
    )
    expected = [Notification("a"), Notification("b"), Notification("c" * 300), Notification("d"), "closed"]
    async with serving(connections) as server:
        for size in (1, 2, 3, 7, 50, 1000):
            async with raw_client(server) as (reader, writer):
                for at in range(0, len(stream), size):
                    writer.write(stream[at : at + size])
                    await writer.drain()
                    await asyncio.sleep(0)
                assert await reader.read() == b"\x8a\x04ping" + b"\x88\x02" + struct.pack("!H", 1000)
            await eventually(lambda: server.connections == 0)
            assert connections[-1].events == expected


@rows(
    ("data", "code"),
    [
        (b"\x81\x05hello", 1002),  # not masked
        (frame(0x91, b"{}"), 1002),  # a reserved bit
        (frame(0xC1, b"{}"), 1002),  # compressed, without an agreement
        (frame(0x83, b"{}"), 1002),  # a reserved opcode
        (frame(0x80, b"{}"), 1002),  # the continuation of nothing
        (frame(0x01, b"{") + frame(0x81, b"{}"), 1002),  # a message inside a message
        (frame(0x09, b"x"), 1002),  # a ping in fragments
        (frame(0x89, b"x" * 126), 1002),  # a long ping
        (frame(0x88, b"x"), 1002),  # half a close code
        (frame(0x81, b'"\xff"'), 1007),
        (frame(0x82, b'"\xff"'), 1007),
        (frame(0x81, b" " * 1001), 1009),
        (frame(0x81, b" " * 1001)[:8], 1009),  # before it has arrived
        (frame(0x01, b" " * 600) + frame(0x00, b" " * 600), 1009),
        (bytes((0x81, 255)) + b"\x7f" + b"\xff" * 7, 1009),
        (frame(0x81, b"{") * 3, 1008),
    ],
)
async def test_violations_close_with_a_code_that_the_peer_can_read(data: bytes, code: int) -> None:
    connections = RecordedConnections()
    async with serving(connections, limits=Limits(message_bytes=1000), max_faults=2, drain_seconds=0.3) as server:
        async with raw_client(server) as (reader, writer):
            writer.write(data + frame(0x81, encode_notification("rest")) * 5000)
            received = await reader.read()
        assert received[0] == 0x88
        assert struct.unpack("!H", received[2:4]) == (code,)
        await eventually(lambda: server.connections == 0)
        assert isinstance(connections[0].events[-2], ConnectionLost)
        assert connections[0].events[-1] == "closed"
        async with Session(WebSocketClient(uri_of(server))):  # others are served
            pass


CLOSED_1007 = b"\x88\x02\x03\xef"


@rows(
    "first, text",
    [(0x81, b'"\xff"'), (0x82, b'{"jsonrpc":"2.0","id":9,"result":"\xff"}'), (0x81, b"[{},\xed\xa0\x80]")],
)
async def test_what_follows_a_text_that_is_not_utf8_is_not_served(first: int, text: bytes) -> None:
    async def count(transport: Any) -> None:
        async with Session(transport, {"add": lambda a, b: served.append(a)}) as session:
            await session.wait_closed()

    served: list[int] = []
    async with serving(count) as server, raw_client(server) as (reader, writer):
        writer.write(frame(0x81, CALL) + frame(first, text) + frame(0x81, CALL))
        assert (await reader.read()).endswith(CLOSED_1007)
    assert len(served) == 1
    for behind in (frame(0x81, CALL), frame(0x01, CALL[:5]) + frame(0x80, CALL[5:]), frame(0x89, b"x")):
        async with serving() as server, raw_client(server) as (reader, writer):
            writer.write(frame(0x81, CALL) + frame(first, text) + behind)
            assert await reader.read() == b"\x81\x23" + REPLY + CLOSED_1007  # and no error response


async def test_a_fragment_that_is_not_utf8_is_refused_before_the_last_one() -> None:
    async with serving() as server:
        for fragments in (frame(0x01, b"\xff"), frame(0x01, b'"\xf0\x9f') + frame(0x00, b"\x98") + frame(0x00, b'"')):
            async with raw_client(server) as (reader, writer):
                writer.write(frame(0x81, CALL) + fragments)
                assert await reader.read() == b"\x81\x23" + REPLY + CLOSED_1007
        async with raw_client(server) as (reader, writer):  # a character may be cut
            text = '{"jsonrpc":"2.0","id":1,"method":"echo","params":["😀"]}'.encode()
            at = text.index(b"\xf0") + 2
            writer.write(frame(0x01, text[:at]) + frame(0x80, text[at:]))
            assert "😀".encode() in await reader.readuntil(b"}")


@rows("data", [frame(0x81, b"{}"), frame(0x81, b'"\xff"'), frame(0x83, b""), frame(0x88, b"\x03\xe8")])
async def test_a_peer_that_goes_on_after_its_fault_or_close_is_cut_off(data: bytes) -> None:
    async with serving(max_faults=0) as server:
        async with raw_client(server) as (reader, writer):
            writer.write(data)
            assert await reader.readexactly(1)
            assert await flood(writer, frame(0x81, b" " * 60_000))
        await eventually(lambda: server.connections == 0)


async def test_a_peer_that_goes_on_after_a_refused_handshake_is_cut_off() -> None:
    async with serving() as server:
        reader, writer = await asyncio.open_connection(*server.address[:2])
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 426")
        assert await flood(writer, b" " * 60_000)


async def test_close_codes_of_the_peer() -> None:
    for code, is_fault in ((1000, False), (1001, False), (1011, True), (3000, True), (4999, True)):

        async def handle(connection: Any, code: int = code) -> None:
            await connection.close(code, "reason")

        async with server_by_hand(handle) as uri:
            client = WebSocketClient(uri)
            recorder = Recorder(client)
            await client.start()
            await client.wait_closed()
            assert (client.close_code, client.close_reason) == (code, "reason")
            assert [type(event) for event in recorder.events] == [ConnectionLost] * is_fault + [str]
            if is_fault:
                assert str(recorder.events[0]) == f"the peer closed the connection with {code}: 'reason'"
            with pytest.raises(ConnectionLost):
                client.send(Notification("n"))


async def test_close_codes_of_this_side() -> None:
    received: list[tuple[int | None, str | None]] = []

    async def handle(connection: Any) -> None:
        await connection.wait_closed()
        received.append((connection.close_code, connection.close_reason))

    async with server_by_hand(handle) as uri:
        client = WebSocketClient(uri)
        await client.start()
        await client.close()
        assert client.close_code == 1000
        await eventually(lambda: received == [(1000, "")])
    async with serving() as server, connect(uri_of(server)) as peer:
        await server.close()
        with pytest.raises(ConnectionClosed):
            await peer.recv()
        assert peer.close_code == CloseCode.GOING_AWAY


async def test_a_peer_that_ends_without_a_close_frame() -> None:
    connections = RecordedConnections()
    async with serving(connections) as server:
        async with raw_client(server) as (_, writer):
            writer.write(frame(0x81, encode_notification("n", delimited=False)))
            await writer.drain()
            await eventually(lambda: bool(connections and connections[0].events))
        await eventually(lambda: server.connections == 0)
    assert connections[0].events[0] == Notification("n")
    assert isinstance(connections[0].events[1], ConnectionLost)
    assert connections[0].events[2:] == ["closed"]


@pytest.mark.time_limit(3600)  # of the clock that it moves
async def test_pings_are_answered_and_a_silent_peer_is_lost() -> None:
    move = moving_clock()

    async def move_by_checks(count: int) -> None:
        for _ in range(count):
            move(5)
            await settle()

    connections = RecordedConnections()
    async with serving(connections, ping_seconds=20) as server:
        async with connect(uri_of(server), ping_interval=None) as peer:
            for _ in range(6):
                await move_by_checks(4)
                await (await peer.ping())
        async with raw_client(server) as (reader, writer):
            await eventually(lambda: len(connections) == 2)
            for _ in range(3):
                await move_by_checks(5)
                assert await reader.readexactly(2) == b"\x89\x00"
                writer.write(b"\x8a\x80\0\0\0\0" + b"\x89\x80\0\0\0\0")  # a pong, and a ping
                assert await reader.readexactly(2) == b"\x8a\x00"
            await move_by_checks(5)
            assert await reader.readexactly(2) == b"\x89\x00"
            await move_by_checks(4)
            assert await reader.read() == b""
        await eventually(lambda: server.connections == 0)
    lost = connections[1].events
    assert isinstance(lost[0], ConnectionLost)
    assert "pings" in str(lost[0])
    assert lost[1:] == ["closed"]


async def test_pings_of_a_peer_that_does_not_read_take_no_memory() -> None:
    connections = RecordedConnections()
    transports: list[Any] = []

    async def serve(transport: Any) -> None:
        transport.pauses_when_blocked = False  # as with a session
        transports.append(transport)
        await connections(transport)

    async with serving(serve) as server, raw_client(server) as (_, writer):
        await eventually(lambda: bool(transports))
        transports[0].socket.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(20):
            writer.write(frame(0x89, b"x" * 125) * 1000)
            await writer.drain()
        writer.write(frame(0x81, encode_notification("last")))
        await connections[0].wait_for(1)
        assert transports[0].write_buffer_bytes < HIGH_WATER_BYTES + 1000  # of 2.5 MB
        writer.transport.abort()
        await eventually(lambda: server.connections == 0)


async def test_a_connection_that_serve_does_not_start_is_closed() -> None:
    async def serve(transport: Any) -> None:
        pass

    async with serving(serve) as server:
        client, recorder = await connected(server)
        client.send(Notification("n"))
        await client.wait_closed()
        assert (recorder.events, client.close_code) == (["closed"], 1000)
        await eventually(lambda: server.connections == 0)


async def test_a_ping_that_ends_a_turn_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsonrpc_fast.transports.websocket.channel.TURN_SECONDS", 0.0)
    async with serving() as server, raw_client(server) as (reader, writer):
        for pings in (1, 3):
            writer.write(frame(0x89, b"first") * (pings - 1) + frame(0x89, b"last"))
            assert await reader.readexactly(6) == b"\x8a\x04last"


async def test_of_pings_that_arrive_together_the_last_one_is_answered() -> None:
    async with serving() as server, raw_client(server) as (reader, writer):
        writer.write(frame(0x89, b"first") * 10_000 + frame(0x8A, b"a pong") + frame(0x89, b"last") + frame(0x81, CALL))
        received = await reader.readuntil(REPLY)
        assert received.endswith(b"\x8a\x04last" + bytes((0x81, len(REPLY))) + REPLY)
        assert received.count(b"\x8a\x05first") < 100
        writer.write(frame(0x89, b"x" * 125))
        assert await reader.readexactly(127) == b"\x8a\x7d" + b"x" * 125
        writer.write(frame(0x89, b"x" * 126))  # a control frame has 125 bytes at most
        closed = await reader.read()
        assert (closed[:1], closed[2:4]) == (b"\x88", struct.pack("!H", 1002))


def test_options() -> None:
    with pytest.raises(ValueError, match="wss"):
        WebSocketClient("ws://localhost", ssl=ssl.create_default_context())
    with pytest.raises(TypeError, match="ssl"):
        WebSocketClient("wss://localhost", ssl=True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="origins"):
        WebSocketServer(serve_session, "localhost", 0, origins="https://a.example")
    with pytest.raises(TypeError):
        WebSocketServer(serve_session, "localhost", 0, framing="newline")
    for option in ("ping_seconds", "connect_seconds"):
        with pytest.raises(ValueError, match=option):
            WebSocketClient("ws://localhost", **{option: -1})  # type: ignore[arg-type]


def test_masking_keys_differ() -> None:
    text = b'{"jsonrpc":"2.0","id":1,"method":"m"}'
    mask = MaskedFrames()
    frames = [mask(text) for _ in range(1500)]  # the keys are made 1024 at a time
    assert len({data[2:6] for data in frames}) == 1500
    assert all(apply_mask(data[6:], data[2:6]) == text for data in frames)


async def test_random_bytes_never_stop_the_server() -> None:
    async with serving() as server:
        for _ in range(60):
            async with raw_client(server) as (reader, writer):
                writer.write(os.urandom(300))
                writer.write_eof()
                with contextlib.suppress(ConnectionError):
                    await reader.read()
        async with Session(WebSocketClient(uri_of(server))) as session:
            assert await session.call("add", [1, 2]) == 3


async def test_frames_right_behind_the_handshake() -> None:
    async with serving() as server:
        reader, writer = await asyncio.open_connection(*server.address[:2])
        head = (
            b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        message = frame(0x81, CALL)
        writer.write(head + message + message[:9])
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(2 + len(REPLY)) == bytes((0x81, len(REPLY))) + REPLY
        writer.write(message[9:])
        assert await reader.readexactly(2 + len(REPLY)) == bytes((0x81, len(REPLY))) + REPLY
        writer.close()
        await writer.wait_closed()


async def test_the_handshake_has_headers_subprotocols_and_an_origin() -> None:
    seen: list[Any] = []

    async def serve(transport: Any) -> None:
        seen.append(transport)
        await serve_session(transport)

    options: Any = {
        "origins": ["https://a.example", re.compile(r"https://.*\.b\.example")],
        "subprotocols": ["v2", "v1"],
    }
    async with serving(serve, **options) as server:
        uri = uri_of(server, "/rpc?x=1").replace("ws://", "ws://user:secret@")
        headers = {"X-Tenant": "7", "Origin": "https://x.b.example"}
        client = WebSocketClient(uri, headers=headers, subprotocols=["v0", "v1"])
        async with Session(client) as session:
            assert await session.call("add", [1, 2]) == 3
            assert client.subprotocol == seen[0].subprotocol == "v1"
            assert (seen[0].path, seen[0].headers["X-Tenant"]) == ("/rpc?x=1", "7")
            assert seen[0].headers["Authorization"] == "Basic dXNlcjpzZWNyZXQ="
        for origin, status in (("https://a.example", 101), (None, 101), ("https://a.example.evil", 403), ("null", 403)):
            sent = {} if origin is None else {"Origin": origin}
            client = WebSocketClient(uri_of(server), headers=sent, subprotocols=["v1"])
            if status == 101:
                await client.connect()
                await client.close()
            else:
                with pytest.raises(InvalidStatus, match="403"):
                    await client.connect()
                await client.disconnect()
        with pytest.raises(InvalidStatus, match="400"):  # without one of the subprotocols
            await WebSocketClient(uri_of(server)).connect()


async def test_a_page_of_any_origin_is_refused_unless_it_is_allowed() -> None:
    async with serving() as server:
        with pytest.raises(InvalidStatus, match="403"):
            await WebSocketClient(uri_of(server), headers={"Origin": "http://localhost"}).connect()
    async with serving(origins=None) as server:
        client = WebSocketClient(uri_of(server), headers={"Origin": "http://localhost"})
        await client.connect()
        await client.close()


async def test_the_server_may_refuse_a_request() -> None:
    def authorize(path: str, headers: Any) -> HTTPStatus | None:
        return None if headers.get("Authorization") == "Bearer t" else HTTPStatus.UNAUTHORIZED

    async with serving(authorize=authorize) as server:
        client = WebSocketClient(uri_of(server))
        with pytest.raises(InvalidStatus, match="401"):
            await client.connect()
        with pytest.raises(InvalidStatus, match="401"):  # again
            await client.connect()
        assert not client.is_connected
        async with Session(WebSocketClient(uri_of(server), headers={"Authorization": "Bearer t"})) as session:
            assert await session.call("add", [1, 2]) == 3
        await eventually(lambda: server.connections == 0)


@rows("outcome", [KeyError("mine"), asyncio.CancelledError(), "no status"])
async def test_a_check_of_requests_that_fails_refuses_them(outcome: Any) -> None:
    contexts: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))

    def authorize(path: str, headers: Any) -> Any:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async with serving(authorize=authorize) as server:
        with pytest.raises(InvalidStatus, match="500"):
            await WebSocketClient(uri_of(server)).connect()
        await eventually(lambda: server.connections == 0)
    assert [context["message"] for context in contexts] == ["exception in authorize of a transport"]


async def test_what_is_not_a_handshake_gets_a_status() -> None:
    async with serving() as server:
        for request, status in (
            (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 426 "),
            (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", b"HTTP/1.1 405 "),
            (b"nonsense\r\n\r\n", b"HTTP/1.1 400 "),
            (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"HTTP/1.1 400 "),
            (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", b"HTTP/1.1 431 "),
            (b"GET / HTTP/1.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n", b"HTTP/1.1 431 "),
            (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000, b"HTTP/1.1 431 "),  # without an end
        ):
            reader, writer = await asyncio.open_connection(*server.address[:2])
            writer.write(request)
            received = await reader.read()
            assert received[: len(status)] == status
            assert received.endswith(b"\r\n\r\n") or status == b"HTTP/1.1 426 "
            assert (b"\r\nAllow: GET\r\n" in received) is (status == b"HTTP/1.1 405 ")
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        await eventually(lambda: server.connections == 0)


async def test_a_head_that_goes_on_after_its_refusal_is_dropped() -> None:
    contexts: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    async with serving() as server:
        reader, writer = await asyncio.open_connection(*server.address[:2])
        writer.write(b"GET / HTTP/1.1\r\nX: " + b"y" * 66_000)
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 431 ")
        for _ in range(3):
            writer.write(b"y" * 66_000)
            await writer.drain()
        assert await reader.read() == b"Content-Length: 0\r\nConnection: close\r\n\r\n"
        writer.close()
        await writer.wait_closed()
        await eventually(lambda: server.connections == 0)
    assert contexts == []


async def test_a_request_and_a_close_in_one_chunk_with_the_handshake_are_answered() -> None:
    key = base64.b64encode(bytes(16)).decode()
    head = f"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
    stream = (head + "Sec-WebSocket-Version: 13\r\n\r\n").encode()
    stream += frame(0x81, CALL) + frame(0x88, struct.pack("!H", 1000))
    async with serving() as server:
        for size in (len(stream), len(stream) - 1, 1):
            reader, writer = await asyncio.open_connection(*server.address[:2])
            for at in range(0, len(stream), size):
                writer.write(stream[at : at + size])
                await asyncio.sleep(0)
            received = await reader.read()
            frames = received.partition(b"\r\n\r\n")[2]
            assert frames == bytes((0x81, len(REPLY))) + REPLY + b"\x88\x02\x03\xe8"
            writer.close()


async def test_a_slow_handshake_is_dropped_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsonrpc_fast.transports.stream.server.HANDSHAKE_SECONDS", 0.1)
    async with serving() as server:
        reader, writer = await asyncio.open_connection(*server.address[:2])
        writer.write(b"GET / HT")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        await eventually(lambda: server.connections == 0)

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        has_ended.set()

    has_ended = asyncio.Event()
    listener = await asyncio.start_server(hang, "127.0.0.1", 0)
    client = WebSocketClient(f"ws://127.0.0.1:{listener.sockets[0].getsockname()[1]}", connect_seconds=0.1)
    with pytest.raises(TimeoutError):
        await client.connect()
    await has_ended.wait()
    listener.close()
    await listener.wait_closed()


async def test_a_cancelled_connect_leaves_nothing() -> None:
    async with serving() as server:
        for turns in range(12):
            client = WebSocketClient(uri_of(server))
            task = asyncio.ensure_future(client.connect())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await client.disconnect()
        await eventually(lambda: server.connections == 0)
