"""A connection to a TCP or Unix server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl as tls
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from ..._checks import MAX_PORT, check_count, check_seconds, check_type
from ..._typing import Unpack
from .tls import TlsLayer
from .transport import SocketChannel, SocketOptions, StreamTransport, is_abstract, socket_path

T = TypeVar("T")

CONNECT_SECONDS: Final = 30.0
"""The default of `connect_seconds`."""


async def within(seconds: float | None, opening: Coroutine[Any, Any, T]) -> T:
    """Open a connection in a limited time.

    Raises:
        TimeoutError: It took too long.
    """
    try:
        return await asyncio.wait_for(opening, seconds)
    # Before Python 3.11 it is a class of its own, and no OSError as TimeoutError is.
    except asyncio.TimeoutError:
        raise TimeoutError(f"the connection was not open after {seconds} seconds") from None


async def open_connection(
    protocol: asyncio.BufferedProtocol,
    host: str,
    port: int,
    context: tls.SSLContext | None,
    server_hostname: str | None = None,
) -> None:
    """Connect a protocol to a TCP server, with TLS if there is a context."""
    loop = asyncio.get_running_loop()
    if context is None:
        await loop.create_connection(lambda: protocol, host, port)
        return
    # Not with the TLS of asyncio, which loses data at the end (tls.py). The time is limited by the caller.
    secured = TlsLayer(protocol, context, server_hostname=server_hostname or host, handshake_seconds=None)
    assert secured.opened is not None
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(secured.abort)
        on_failure.callback(secured.opened.cancel)
        await loop.create_connection(lambda: secured, host, port)
        await secured.opened
        on_failure.pop_all()


class TcpClient(StreamTransport):
    """A TCP connection.

    Args:
        host: The host to connect to.
        port: Its port.
        ssl: The TLS settings, such as `ssl.create_default_context()`; None: no TLS.
        server_hostname: The name that the server's certificate must have; `host` by default.
        connect_seconds: Until when the connection has to be open, with TLS; None: no limit but the system's.
        options: Options of `SocketTransport` and `Connection`.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        ssl: tls.SSLContext | None = None,
        server_hostname: str | None = None,
        connect_seconds: float | None = CONNECT_SECONDS,
        **options: Unpack[SocketOptions],
    ) -> None:
        async def connect(protocol: asyncio.BufferedProtocol) -> None:
            await within(connect_seconds, open_connection(protocol, host, port, ssl, server_hostname))

        super().__init__(SocketChannel(connect), **options)
        check_type("host", host, str)
        check_count("port", port, 1, MAX_PORT, may_be_none=False)
        check_type("ssl", ssl, tls.SSLContext, may_be_none=True)
        check_type("server_hostname", server_hostname, str, may_be_none=True)
        check_seconds("connect_seconds", connect_seconds)


class UnixClient(StreamTransport):
    """A connection to a Unix socket.

    Args:
        path: The socket's path; a leading NUL byte makes it a name in Linux's abstract namespace.
        options: Options of `SocketTransport` and `Connection`.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[SocketOptions]) -> None:
        super().__init__(SocketChannel(partial(_connect_unix, socket_path(path))), **options)


async def _connect_unix(path: str, protocol: asyncio.BufferedProtocol) -> None:
    loop = asyncio.get_running_loop()
    if not is_abstract(path):
        await loop.create_unix_connection(lambda: protocol, path)
        return
    # uvloop does not support such names, so the socket is connected here.
    with contextlib.ExitStack() as on_failure:
        connected = on_failure.enter_context(socket.socket(socket.AF_UNIX))
        connected.setblocking(False)
        await loop.sock_connect(connected, path)
        await loop.create_unix_connection(lambda: protocol, sock=connected)
        on_failure.pop_all()
