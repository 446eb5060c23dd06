"""Clients of stream sockets: sockets that are connected already, also through a proxy."""

from __future__ import annotations

import asyncio
import contextlib
import runpy
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import TcpClient, TcpServer, UnixClient

from ...support.places import ROOT
from ...support.tables import rows

HANDLERS = {"add": lambda a, b: a + b}


async def serve(transport: Any) -> None:
    async with Session(transport, HANDLERS) as session:
        await session.wait_closed()


@rows("client", [TcpClient, UnixClient])
async def test_a_client_takes_a_socket_that_is_connected(client: Any) -> None:
    one, other = socket.socketpair()
    async with Session(UnixClient(sock=one), HANDLERS), Session(client(sock=other)) as session:
        assert await session.call("add", [1, 2]) == 3
    assert (one.fileno(), other.fileno()) == (-1, -1)


@rows(
    "make, kind, text",
    [
        (lambda one: TcpClient(sock=cast("Any", 3)), TypeError, "sock must be a socket, not int"),
        (lambda one: UnixClient("/x", sock=one), TypeError, "a UnixClient must have either a path or sock"),
        (lambda one: UnixClient(), TypeError, "a UnixClient must have either a path or sock"),
        (lambda one: TcpClient(), TypeError, "host must be a str, not NoneType"),
    ],
)
def test_what_is_no_socket_for_a_client_is_refused(make: Any, kind: type[Exception], text: str) -> None:
    one, other = socket.socketpair()
    with one, other, pytest.raises(kind, match=text):
        make(one)


def test_a_socket_of_datagrams_or_a_closed_one_is_refused() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as sock, pytest.raises(ValueError, match="sock must be a stream"):
        TcpClient(sock=sock)
    with pytest.raises(ValueError, match="sock is closed"):
        UnixClient(sock=sock)


@asynccontextmanager
async def socks_proxy(reply: int, address: tuple[str, int]) -> AsyncIterator[tuple[Any, list[bytes]]]:
    """Serve SOCKS5 on loopback: connect every client to `address`. Yield where, and the asked names."""
    asked: list[bytes] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        await reader.readexactly(count)
        writer.write(b"\x05\x00")
        assert await reader.readexactly(4) == b"\x05\x01\x00\x03"
        asked.append(await reader.readexactly((await reader.readexactly(1))[0]))
        await reader.readexactly(2)
        writer.write(bytes([5, reply, 0, 3, 4]) + b"here\0\0" if reply == 0 else bytes([5, reply, 0, 1]))
        if reply:
            writer.close()
            return
        to_reader, to_writer = await asyncio.open_connection(*address)
        await asyncio.gather(pump(reader, to_writer), pump(to_reader, writer))

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname(), asked
    finally:
        server.close()


async def test_the_recipe_for_socks() -> None:
    through_socks = runpy.run_path(str(ROOT / "examples" / "socks.py"))["through_socks"]
    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    async with socks_proxy(0, server.address) as (proxy, asked):
        sock = await through_socks(proxy, "xyz.onion", 50001)
        async with Session(TcpClient("xyz.onion", 50001, sock=sock)) as session:
            assert await session.call("add", [1, 2]) == 3
        assert asked == [b"xyz.onion"]
    async with socks_proxy(5, server.address) as (proxy, _):
        with pytest.raises(ConnectionError, match="the proxy cannot connect: reply 5"):
            await through_socks(proxy, "xyz.onion", 50001)
    await server.close()
