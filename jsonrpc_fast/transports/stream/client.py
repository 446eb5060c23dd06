"""A connection to a TCP or Unix server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from functools import partial
from typing import Final, Unpack

from ..._checks import MAX_PORT, check_count, check_seconds, check_type
from .tls import TlsChannel, check_context
from .tls import ssl as tls
from .transport import SocketChannel, SocketOptions, StreamTransport, is_abstract, socket_path

CONNECT_SECONDS: Final = 30.0
"""The default of `connect_seconds`."""


def tcp_channel(
    host: str, port: int, context: tls.SSLContext | None, server_hostname: str | None = None
) -> SocketChannel | TlsChannel:
    """Return the channel to a TCP server, with TLS if there is a context."""

    async def connect(protocol: asyncio.BufferedProtocol) -> None:
        await asyncio.get_running_loop().create_connection(lambda: protocol, host, port)

    socket = SocketChannel(connect)
    return socket if context is None else TlsChannel(socket, context, server_hostname or host)


class TcpClient(StreamTransport):
    """A TCP connection.

    Args:
        host: The host to connect to.
        port: Its port.
        ssl: The TLS settings, such as `ssl.create_default_context()`; None: no TLS.
        server_hostname: The name that the server's certificate must have; `host` by default.
        connect_seconds: How long connecting may take, including TLS; None: as long as the system tries.
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
        super().__init__(tcp_channel(host, port, ssl, server_hostname), **options)
        check_type("host", host, str)
        check_count("port", port, 1, MAX_PORT, may_be_none=False)
        check_context(ssl)
        check_type("server_hostname", server_hostname, str, may_be_none=True)
        check_seconds("connect_seconds", connect_seconds)
        self._connect_seconds = connect_seconds


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
