"""Helpers for tests of transports: record what a transport reports, serve on loopback, wait for a condition."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

from jsonrpc_fast import Request, Response
from jsonrpc_fast.transports import Connection, StreamServer, StreamTransport, TcpClient, TcpServer

from .waiting import eventually


class Recorder:
    """Records what a transport reports, in order: messages, errors and "closed"."""

    def __init__(self, transport: Connection) -> None:
        self.events: list[Any] = []
        transport.onmessage = self.events.append
        transport.onerror = self.events.append
        transport.onclose = lambda: self.events.append("closed")

    async def wait_for(self, count: int) -> None:
        await eventually(lambda: len(self.events) >= count)


class RecordedConnections(list[Recorder]):
    """A `serve` function that starts each connection and records it."""

    async def __call__(self, transport: StreamTransport) -> None:
        self.append(Recorder(transport))
        await transport.start()


async def echo(transport: StreamTransport) -> None:
    """Serve a connection: respond to each request with its params."""

    def reply(message: Any) -> None:
        if isinstance(message, Request):
            transport.send(Response(message.id, message.params))

    transport.onmessage = reply
    await transport.start()


@contextlib.asynccontextmanager
async def serving(serve: Any = echo, **options: Any) -> AsyncIterator[TcpServer]:
    """Run a server on a free port, and close it at the end of the block."""
    server = TcpServer(serve, "127.0.0.1", 0, **options)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


async def connected(server: StreamServer, **options: Any) -> tuple[TcpClient, Recorder]:
    """Return a started client of a server, and its recorder."""
    client = TcpClient(*server.address[:2], **options)
    recorder = Recorder(client)
    await client.start()
    return client, recorder


async def flood(writer: asyncio.StreamWriter, data: bytes) -> bool:
    """Write the same data a thousand times. Return whether the peer resets the connection meanwhile."""
    try:
        for _ in range(1000):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        return True
    finally:
        writer.close()
    return False


def inheriting(command: list[str], pid: str = "$$") -> list[str]:
    """Return a command that passes its stdin on as a listening socket, as systemd does."""
    launch = f'exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_FDNAMES=rpc LISTEN_PID={pid} exec "$@"'
    return ["sh", "-c", launch, "sh", *command]


def reset(peer: socket.socket) -> None:
    """Close a connection with RST."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
