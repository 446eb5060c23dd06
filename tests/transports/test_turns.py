"""No peer blocks the loop: whatever it sends, no turn of the loop takes TURN_SECONDS of processor time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import sys
import time
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import pytest

pytest.importorskip("websockets", reason="the extra `websocket` is not installed")

from jsonrpc_fast import BACKEND
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import TcpServer
from jsonrpc_fast.transports.asgi import WebSocketEndpoint
from jsonrpc_fast.transports.websocket import WebSocketServer

from ..support import certificates, tiers
from ..support.tables import table
from ..support.waiting import results_of
from ..support.websocket_peers import CALL, HANDLERS, frame

pytestmark = [
    pytest.mark.usefixtures("loop"),
    pytest.mark.skipif(BACKEND != "cython", reason="the pure backend takes longer for one large message"),
]

TURN_SECONDS: Final = 0.02
ATTEMPTS: Final = 5  # processor time is noisy, too: it depends on what else uses the caches
PIECE_BYTES: Final = 256 * 1024

Flood = Callable[[int], bytes]
"""Returns about that many bytes."""
Prepare = Callable[[socket.socket], Awaitable[bytes]]
"""Performs the handshakes of a connection, and returns what to send next."""


async def serve(transport: Any) -> None:
    session = Session(transport, HANDLERS)
    await session.start()
    await session.wait_closed()


async def watch(turns: list[float]) -> None:
    """Add the processor time of each turn of the loop."""
    last = time.thread_time()
    while True:
        await asyncio.sleep(0)
        now = time.thread_time()
        turns.append(now - last)
        last = now


@contextlib.asynccontextmanager
async def watched(turns: list[float]) -> Any:
    watching = asyncio.create_task(watch(turns))
    await asyncio.sleep(0)
    try:
        yield
    finally:
        watching.cancel()
        await results_of(watching)


async def read_to_the_end(client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while await asyncio.get_running_loop().sock_recv(client, PIECE_BYTES):
            pass


async def longest_turn(server: TcpServer, prepare: Prepare) -> float:
    """Send a flood to a server, and read until it ends the connection. Return the longest turn."""
    loop = asyncio.get_running_loop()
    turns: list[float] = []
    with socket.create_connection(server.address[:2]) as client:
        client.setblocking(False)
        flood = await prepare(client)
        reading = asyncio.create_task(read_to_the_end(client))
        async with watched(turns):
            with contextlib.suppress(OSError):  # it is cut off
                for at in range(0, len(flood), PIECE_BYTES):
                    await loop.sock_sendall(client, flood[at : at + PIECE_BYTES])
                client.shutdown(socket.SHUT_WR)
            await reading
    assert len(turns) > 2
    return max(turns)


async def assert_short(server: TcpServer, prepare: Prepare) -> None:
    shortest = 1.0
    await server.start()
    gc.collect()
    gc.freeze()  # a full collection of what other tests have left would be part of a turn
    try:
        for _ in range(ATTEMPTS):
            shortest = min(shortest, await longest_turn(server, prepare))
            if shortest < TURN_SECONDS:
                break
    finally:
        await server.close()
    slowness = max(1.0, tiers.pace() / tiers.PACE)  # a busy machine shares its caches
    assert shortest < TURN_SECONDS * slowness, f"{1000 * shortest:.1f} ms, on a machine {slowness:.1f} times as slow"


# Texts, each a line or a frame.

NOTIFICATION: Final = b'{"jsonrpc":"2.0","method":"add","params":[1,2]}'
UNKNOWN: Final = b'{"jsonrpc":"2.0","id":77,"result":1}'


def batch_of(item: bytes, count: int) -> bytes:
    return b"[" + b",".join([item] * count) + b"]"


TEXTS: Final[dict[str, Callable[[int], list[bytes]]]] = {
    "calls": lambda size: [CALL] * (size // len(CALL)),
    "notifications": lambda size: [NOTIFICATION] * (size // len(NOTIFICATION)),
    "responses to nothing": lambda size: [UNKNOWN] * (size // len(UNKNOWN)),
    "faults": lambda size: [b"{}"] * (size // 3),
    "noise": lambda size: [b"x"] * (size // 2),
    "batches of faults": lambda size: [batch_of(b"{}", 900)] * (size // 2700),
    "the largest batch of faults": lambda size: [batch_of(b"1", 10_000)] * (size // 20_000),
    "the largest batch of calls": lambda size: [batch_of(CALL, 10_000)] * (size // 500_000),
    "a batch that is too large": lambda size: [b"[" + b"{}," * (5 * size) + b"1]"],
    "deep values": lambda size: [b"[" * 500 + b"]" * 500] * (size // 1000),
    "large values": lambda size: (
        [b'{"jsonrpc":"2.0","method":"n","params":[%b1]}' % (b"1," * 200_000)] * (size // 400_000)
    ),
}
LINES: Final[dict[str, Flood]] = {
    **{name: lambda size, texts=texts: b"\n".join(texts(size)) + b"\n" for name, texts in TEXTS.items()},  # type: ignore[misc]
    "blank lines": lambda size: b"\n" * size,
}

# Frames of WebSocket.


def many(data: bytes, size: int) -> bytes:
    return data * (size // len(data))


def compressed(text: bytes) -> bytes:
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    return frame(0xC1, (deflater.compress(text) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4])


FRAMES: Final[dict[str, Flood]] = {
    **{
        name: lambda size, texts=texts: b"".join(frame(0x81, text) for text in texts(size))
        for name, texts in TEXTS.items()
    },  # type: ignore[misc]
    "pings": lambda size: many(frame(0x89, b"x" * 10), size),
    "pongs": lambda size: many(frame(0x8A, b""), size),
    "empty fragments": lambda size: frame(0x01, b"") + many(frame(0x00, b""), size),
    "short fragments": lambda size: frame(0x01, b"[") + many(frame(0x00, b"1"), size),
    "calls in fragments": lambda size: many(frame(0x01, CALL[:9]) + frame(0x80, CALL[9:]), size),
    "pings between fragments": lambda size: frame(0x01, b"[") + many(frame(0x89, b"") + frame(0x00, b"1"), size),
    "frames after a close": lambda size: frame(0x88, b"\x03\xe8") + many(frame(0x81, b"{}"), size),
    "frames after a violation": lambda size: frame(0x83, b"") + many(frame(0x81, b"{}"), size),
}
COMPRESSED: Final[dict[str, Flood]] = {
    "calls": lambda size: many(frame(0x81, CALL), size),
    "compressed calls": lambda size: many(compressed(CALL), size),
    "spaces": lambda size: many(compressed(b" " * 1_000_000), size),
    "large values": lambda size: many(
        compressed(b'{"jsonrpc":"2.0","method":"n","params":[%b1]}' % (b"1," * 200_000)), size
    ),
    "a message over the limit": lambda size: compressed(b" " * (8 << 20)),
    "a batch over the limit": lambda size: compressed(b"[" + b"{}," * 3_000_000),
    "fragments": lambda size: frame(0x01, b"[") + many(frame(0x00, b""), size),
}

UPGRADE: Final = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
HEADS: Final = {
    "lines": b"",
    "frames": UPGRADE + b"\r\n",
    "compressed": UPGRADE + b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
}
FLOODS: Final = {"lines": LINES, "frames": FRAMES, "compressed": COMPRESSED}


async def check_floods(kind: str, size: int) -> None:
    async def prepare(client: socket.socket) -> bytes:
        if head:
            await asyncio.get_running_loop().sock_sendall(client, head)
            assert b" 101 " in await asyncio.get_running_loop().sock_recv(client, PIECE_BYTES)
        return flood

    head = HEADS[kind]
    with table() as row:
        for name, make in FLOODS[kind].items():
            with row(name):
                flood = make(size)
                if kind == "lines":
                    server = TcpServer(serve, "127.0.0.1", 0)
                else:
                    server = WebSocketServer(serve, "127.0.0.1", 0, compression=kind == "compressed")
                await assert_short(server, prepare)


@pytest.mark.skipif(sys.gettrace() is not None, reason="coverage makes each turn several times longer")
@pytest.mark.parametrize("kind", FLOODS)
@pytest.mark.ci
async def test_floods(kind: str) -> None:
    await check_floods(kind, 1 << 14 if kind == "compressed" else 1 << 18)


@pytest.mark.slow
@pytest.mark.time_limit(600)
@pytest.mark.parametrize("kind", FLOODS)
async def test_long_floods(kind: str) -> None:
    await check_floods(kind, 1 << 21 if kind == "compressed" else 1 << 24)


async def test_short_records_of_tls() -> None:
    for_server, for_client = certificates.contexts()

    async def prepare(client: socket.socket) -> bytes:
        loop = asyncio.get_running_loop()
        received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        secured = for_client.wrap_bio(received, sent, server_hostname="localhost")
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                secured.do_handshake()
                break
            await loop.sock_sendall(client, sent.read())
            received.write(await loop.sock_recv(client, PIECE_BYTES))
        for _ in range(30_000):
            secured.write(b"\n")
        return sent.read()

    await assert_short(TcpServer(serve, "127.0.0.1", 0, ssl=for_server), prepare)


async def test_messages_that_an_asgi_server_has_at_hand() -> None:
    """The server's function returns a message each time it is called, and never yields to the loop."""
    events = [{"type": "websocket.connect"}, *[{"type": "websocket.receive", "text": CALL.decode()}] * 20_000]
    events.append({"type": "websocket.disconnect", "code": 1000})

    async def receive() -> MutableMapping[str, Any]:
        return left.pop()

    async def send(event: Any) -> None:
        pass

    shortest = 1.0
    for _ in range(ATTEMPTS):
        left = events[::-1]
        turns: list[float] = []
        async with watched(turns):
            await WebSocketEndpoint(serve)({"type": "websocket", "headers": []}, receive, send)
        shortest = min(shortest, max(turns))
        if shortest < TURN_SECONDS:
            break
    assert shortest < TURN_SECONDS, f"{1000 * shortest:.1f} ms"
