"""A connection to a TCP or Unix server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from functools import partial
from typing import Final, Unpack

from ...support import MAX_PORT, check_count, check_seconds, check_type
from .tls import TlsChannel, check_context
from .tls import ssl as tls
from .transport import Meter, SocketChannel, SocketOptions, StreamTransport, is_abstract, socket_path

CONNECT_SECONDS: Final = 30.0
"""The default of `connect_seconds`."""


def tcp_channel(
    host: str, port: int, context: tls.SSLContext | None, server_hostname: str | None = None
) -> SocketChannel | TlsChannel:
    """Return the channel to a TCP server, with TLS if there is a context."""

    async def connect(protocol: asyncio.BufferedProtocol) -> None:
        with _naming(f"{host}:{port}"):
            await asyncio.get_running_loop().create_connection(lambda: protocol, host, port)

    socket = SocketChannel(connect, Meter())
    return socket if context is None else TlsChannel(socket, context, server_hostname or host)


@contextlib.contextmanager
def _naming(place: str) -> Iterator[None]:
    """Let an OSError say what cannot be reached: the loops name it in some of their errors only."""
    try:
        yield
    except OSError as error:
        if error.filename is None and "Connect call failed" not in str(error):  # asyncio's own, with the address
            error.filename = place
        raise


def _open_channel(opened: socket.socket) -> SocketChannel:
    """Return the channel over a socket that is connected already. Raises TypeError, ValueError for another socket."""
    check_type("sock", opened, socket.socket)
    if opened.fileno() < 0:
        raise ValueError("sock is closed")
    if opened.type != socket.SOCK_STREAM:
        raise ValueError("sock must be a stream: SOCK_STREAM")

    async def connect(protocol: asyncio.BufferedProtocol) -> None:
        opened.setblocking(False)
        await asyncio.get_running_loop().create_connection(lambda: protocol, sock=opened)

    return SocketChannel(connect, Meter())


class TcpClient(StreamTransport):
    """A TCP connection, or any other over a socket that is connected already: through a proxy, of ssh, vsock.

    Args:
        host: The host to connect to. With `sock` it is only the default of `server_hostname`.
        port: Its port. Not needed with `sock`.
        sock: A connected socket, which belongs to the transport from now on; None: one is made.
        ssl: The TLS settings, such as `ssl.create_default_context()`; None: no TLS.
        server_hostname: The name that the server's certificate must have; `host` by default.
        connect_seconds: How long connecting may take, including TLS; None: as long as the system tries.
        options: Options of `StreamTransport` and `Connection`.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value.
    """

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        *,
        sock: socket.socket | None = None,
        ssl: tls.SSLContext | None = None,
        server_hostname: str | None = None,
        connect_seconds: float | None = CONNECT_SECONDS,
        **options: Unpack[SocketOptions],
    ) -> None:
        check_type("host", host, str, may_be_none=sock is not None)
        check_count("port", port, 1, MAX_PORT, may_be_none=sock is not None)
        check_context(ssl)
        check_type("server_hostname", server_hostname, str, may_be_none=True)
        if sock is None:
            assert host is not None
            assert port is not None
            channel = tcp_channel(host, port, ssl, server_hostname)
        else:
            name = server_hostname or host
            if ssl is not None and name is None:
                raise TypeError("TLS over sock needs server_hostname, the name that the certificate must have")
            below = _open_channel(sock)
            channel = below if ssl is None else TlsChannel(below, ssl, name)
        super().__init__(channel, **options)
        check_seconds("connect_seconds", connect_seconds)
        self._connect_seconds = connect_seconds


class UnixClient(StreamTransport):
    """A connection to a Unix socket.

    Args:
        path: The socket's path; a leading NUL byte makes it a name in Linux's abstract namespace. None with `sock`.
        sock: A connected socket, such as one of `socket.socketpair`, which belongs to the transport from now on.
        options: Options of `StreamTransport` and `Connection`.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        sock: socket.socket | None = None,
        **options: Unpack[SocketOptions],
    ) -> None:
        if (path is None) is (sock is None):
            raise TypeError("a UnixClient must have either a path or sock")
        if path is not None:
            channel = SocketChannel(partial(_connect_unix, socket_path(path)), Meter())
        elif sock is not None:
            channel = _open_channel(sock)
        super().__init__(channel, **options)


async def _connect_unix(path: str, protocol: asyncio.BufferedProtocol) -> None:
    loop = asyncio.get_running_loop()
    if not is_abstract(path):
        with _naming(path):
            await loop.create_unix_connection(lambda: protocol, path)
        return
    # uvloop does not support such names, so the socket is connected here.
    with contextlib.ExitStack() as on_failure:
        connected = on_failure.enter_context(socket.socket(socket.AF_UNIX))
        connected.setblocking(False)
        await loop.sock_connect(connected, path)
        await loop.create_unix_connection(lambda: protocol, sock=connected)
        on_failure.pop_all()
