"""The handshake of WebSocket: what both sides agree on, who is refused, and how long it may take."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import struct
from http import HTTPStatus
from typing import Any

import pytest

pytest.importorskip("websockets", reason="the extra `websocket` is not installed")

from websockets.exceptions import InvalidStatus

from jsonrpc_fast.session import Session
from jsonrpc_fast.transports.websocket import WebSocketClient

from ...support.tables import rows
from ...support.waiting import eventually
from ...support.websocket_peers import CALL, REPLY, frame, serve_session, serving, uri_of

pytestmark = [pytest.mark.timeout(30), pytest.mark.usefixtures("each_loop")]


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
        headers = {"X-Tenant": "7"}
        client = WebSocketClient(uri, headers=headers, origin="https://x.b.example", subprotocols=["v0", "v1"])
        async with Session(client) as session:
            assert await session.call("add", [1, 2]) == 3
            assert client.subprotocol == seen[0].subprotocol == "v1"
            assert (seen[0].path, seen[0].headers["X-Tenant"]) == ("/rpc?x=1", "7")
            assert seen[0].headers["Authorization"] == "Basic dXNlcjpzZWNyZXQ="
        for origin, status in (("https://a.example", 101), (None, 101), ("https://a.example.evil", 403), ("null", 403)):
            client = WebSocketClient(uri_of(server), origin=origin, subprotocols=["v1"])
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
            await WebSocketClient(uri_of(server), origin="http://localhost").connect()
    async with serving(origins=None) as server:
        client = WebSocketClient(uri_of(server), origin="http://localhost")
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


async def test_a_slow_handshake_is_dropped_on_both_sides() -> None:
    async with serving(handshake_seconds=0.1) as server:
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
