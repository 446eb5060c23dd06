"""WebSocket servers and clients, and frames by hand, for the tests of the transport."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from typing import Any

from websockets.asyncio.server import serve as serve_by_hand
from websockets.frames import apply_mask  # type: ignore[attr-defined]

from jsonrpc_fast.session import Session
from jsonrpc_fast.transports.websocket import WebSocketClient, WebSocketServer

from .transports import Recorder

HANDLERS = {"add": lambda a, b: a + b, "echo": lambda value: value}


async def serve_session(transport: Any) -> None:
    session = Session(transport, HANDLERS)
    await session.start()
    await session.wait_closed()


@contextlib.asynccontextmanager
async def serving(serve: Any = serve_session, **options: Any) -> AsyncIterator[WebSocketServer]:
    server = WebSocketServer(serve, "127.0.0.1", 0, **options)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


def uri_of(server: WebSocketServer, path: str = "") -> str:
    return f"ws://127.0.0.1:{server.address[1]}{path}"


async def connected(server: WebSocketServer, **options: Any) -> tuple[WebSocketClient, Recorder]:
    client = WebSocketClient(uri_of(server), **options)
    recorder = Recorder(client)
    await client.start()
    return client, recorder


@contextlib.asynccontextmanager
async def server_by_hand(handle: Any, **options: Any) -> AsyncIterator[str]:
    """Run a server of the library `websockets`, and yield its URI."""
    async with serve_by_hand(handle, "127.0.0.1", 0, **options) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


@contextlib.asynccontextmanager
async def raw_client(server: WebSocketServer) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Perform the handshake, and yield the streams of a client that can write any bytes."""
    reader, writer = await asyncio.open_connection(*server.address[:2])
    writer.write(
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head  # RFC 6455, section 1.3
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def frame(first: int, payload: bytes, key: bytes = b"\x01\x02\x03\x04") -> bytes:
    """Return a frame of a client."""
    size = len(payload)
    if size < 126:
        head = bytes((first, 128 | size))
    elif size < 65536:
        head = bytes((first, 254)) + struct.pack("!H", size)
    else:
        head = bytes((first, 255)) + struct.pack("!Q", size)
    return head + key + apply_mask(payload, key)


CALL = b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}'


REPLY = b'{"jsonrpc":"2.0","id":1,"result":3}'
