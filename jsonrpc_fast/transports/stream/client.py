"""A connection to a TCP or Unix server."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from ..options import TransportOptions
from .transport import StreamProtocol, StreamTransport, is_abstract

if TYPE_CHECKING:
    from typing_extensions import Unpack


class TcpClient(StreamTransport):
    """A TCP connection.

    Args:
        host: The host to connect to.
        port: Its port.
        options: Options of `ByteTransport`.
    """

    def __init__(self, host: str, port: int, **options: Unpack[TransportOptions]) -> None:
        super().__init__(**options)
        self._host = host
        self._port = port

    async def _open(self) -> None:
        await self._loop.create_connection(lambda: StreamProtocol(self), self._host, self._port)


class UnixClient(StreamTransport):
    """A connection to a Unix socket.

    Args:
        path: The socket's path; a leading NUL byte makes it a name in Linux's abstract namespace.
        options: Options of `ByteTransport`.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[TransportOptions]) -> None:
        super().__init__(**options)
        self._path = os.fspath(path)

    async def _open(self) -> None:
        if not is_abstract(self._path):
            await self._loop.create_unix_connection(lambda: StreamProtocol(self), self._path)
            return
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.setblocking(False)
            await self._loop.sock_connect(connected, self._path)
            await self._loop.create_unix_connection(lambda: StreamProtocol(self), sock=connected)
        except BaseException:
            connected.close()
            raise
