"""Servers on TCP ports and Unix sockets.

Rules:
  - A server that closes stops accepting, then lets all its connections finish their work and close, at the same time.
  - A connection over the limit is closed at once.
  - A connection that begins with an HTTP request line is dropped, unread: a web page can make a browser send messages
    to a server on localhost in the body of a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from ...errors import ConnectionLost, StateError
from ...framing.http import HttpDetector
from ..base import OVERDUE_SECONDS, SERVE_SECONDS, ByteTransport
from ..options import TransportOptions, check_count, check_seconds
from .transport import StreamProtocol, StreamTransport, is_abstract

if TYPE_CHECKING:
    from typing_extensions import Unpack

BIND_ATTEMPTS: Final = 10
"""How many ports are tried to find one that is free on all addresses of a host."""

Serve = Callable[[StreamTransport], Coroutine[Any, Any, object]]


class _AcceptedTransport(StreamTransport):
    """The transport of an accepted connection."""

    def __init__(self, server: StreamServer, options: TransportOptions) -> None:
        super().__init__(**options)
        self._server = server
        self._detector: HttpDetector | None = HttpDetector()

    async def _open(self) -> None:
        if self._channel.is_closing():
            raise ConnectionResetError("the peer closed the connection")

    def _bytes_received(self, data: bytes | bytearray | memoryview) -> None:
        if self._detector is not None:
            is_http = self._detector.feed(data)
            if is_http:
                self._break(ConnectionLost("the peer speaks HTTP"))
                self._abort()
                return
            if is_http is not None:
                self._detector = None
        super()._bytes_received(data)

    def _on_closed(self) -> None:
        self._abort()  # even a transport that was never connected has a socket
        self._server._connections.discard(self)


class _AcceptedProtocol(StreamProtocol):
    def __init__(self, connection: _AcceptedTransport) -> None:
        super().__init__(connection)
        self._connection = connection

    def connection_made(self, channel: asyncio.BaseTransport) -> None:
        super().connection_made(channel)
        self._connection._server._accept(self._connection)


class StreamServer:
    """The base of servers that accept connections; see `TcpServer` and `UnixServer`.

    Args:
        serve: Called with each new connection, a transport that is not started: it sets the callbacks and starts it.
            It may then return or go on; it is cancelled when the server closes. If it raises, the connection is
            dropped, and the exception goes to the loop's exception handler unless the connection was lost.
        max_connections: The maximum number of open connections.
        options: Options of `ByteTransport`, for each connection.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    def __init__(self, serve: Serve, *, max_connections: int = 1000, **options: Unpack[TransportOptions]) -> None:
        check_count("max_connections", max_connections, 1, may_be_none=False)
        self._serve = serve
        self._max_connections = max_connections
        self._options = options
        ByteTransport(**options)  # raises here, not when the first client connects, if an option is wrong
        self._server: asyncio.Server | None = None
        self._is_started = self._is_closed = False  # closed: accepts no more connections
        self._connections: set[_AcceptedTransport] = set()
        self._tasks: set[asyncio.Task[object]] = set()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    @property
    def address(self) -> Any:
        """The address it listens on, in the format of the `socket` module; the first one if there are several.

        Raises:
            StateError: The server is not started, or closed.
        """
        if self._server is None or self._is_closed:
            raise StateError("the server is not listening")
        return self._server.sockets[0].getsockname()

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            StateError: The server was started before, or closed.
            OSError: The address cannot be used. `start` may be called again.
        """
        if self._is_started or self._is_closed:
            raise StateError("the server is closed" if self._is_closed else "the server is already started")
        self._is_started = True
        try:
            self._server = await self._listen(asyncio.get_running_loop())
        finally:
            self._is_started = self._server is not None  # if it failed, `start` may be called again
        if self._is_closed:
            self._server.close()
            raise StateError("the server was closed while it was starting")

    def stop_accepting(self) -> None:
        """Stop accepting connections. Open ones go on. A second call does nothing."""
        if self._server is not None and not self._is_closed:
            self._server.close()
            self._free_address()
        self._is_closed = True

    async def close(self, drain_seconds: float | None = 5.0, grace_seconds: float | None = 5.0) -> None:
        """Stop accepting, let all connections finish their work, and close them.

        Sessions finish their handlers. A connection with neither `onstop` nor `onend` set is closed at once. `serve`
        tasks that still run at the end are cancelled. A second call only waits.

        Args:
            drain_seconds: How long each connection may take to write what it accepted; None: without limit.
            grace_seconds: How long the work in progress may take; None: without limit.

        Raises:
            TypeError, ValueError: An argument is not a duration.
        """
        check_seconds("drain_seconds", drain_seconds)
        check_seconds("grace_seconds", grace_seconds)
        self.stop_accepting()
        loop = asyncio.get_running_loop()
        end = None if grace_seconds is None else loop.time() + grace_seconds
        connections = list(self._connections)
        for connection in connections:
            connection._request_stop(grace_seconds, drain_seconds)
        overdue = None if end is None else loop.call_at(end + OVERDUE_SECONDS, self._close_all, drain_seconds)
        try:
            for connection in connections:
                await connection.wait_closed()
        finally:
            if overdue is not None:
                overdue.cancel()
        tasks = self._tasks - {asyncio.current_task()}  # `serve` itself may close the server
        if tasks:
            await asyncio.wait(tasks, timeout=SERVE_SECONDS)  # they may return by themselves
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    def _close_all(self, drain_seconds: float | None) -> None:
        for connection in list(self._connections):
            connection._begin_closing(drain_seconds)

    def _free_address(self) -> None:
        """Free the address when the server no longer listens; for subclasses."""

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
        raise NotImplementedError

    def _protocol(self) -> _AcceptedProtocol:
        return _AcceptedProtocol(_AcceptedTransport(self, self._options))

    def _accept(self, connection: _AcceptedTransport) -> None:
        if self._is_closed or len(self._connections) >= self._max_connections:
            connection._abort()
            return
        self._connections.add(connection)
        task = asyncio.get_running_loop().create_task(self._run(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, connection: _AcceptedTransport) -> None:
        try:
            await self._serve(connection)
        except Exception as error:
            # A transport cannot be started when its peer closed the connection already.
            if not isinstance(error, (ConnectionError, StateError)):
                connection._report_unhandled(error, "serve")
            connection._abort()


class TcpServer(StreamServer):
    """A server on a TCP port.

    Args:
        serve: As in `StreamServer`.
        host: The host to listen on, on all its addresses.
        port: The port; 0 takes a free one, which `address` returns.
        max_connections: As in `StreamServer`.
        options: Options of `ByteTransport`, for each connection.
    """

    def __init__(
        self, serve: Serve, host: str, port: int, *, max_connections: int = 1000, **options: Unpack[TransportOptions]
    ) -> None:
        super().__init__(serve, max_connections=max_connections, **options)
        self._host = host
        self._port = port

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
        port = self._port
        for attempt in range(BIND_ATTEMPTS):
            try:
                server = await loop.create_server(self._protocol, self._host, port, start_serving=False)
            except OSError:
                if port == self._port or attempt == BIND_ATTEMPTS - 1:
                    raise
                port = self._port  # the port is free on the first address only
                continue
            ports = {socket.getsockname()[1] for socket in server.sockets}
            if len(ports) == 1:
                break
            # Port 0 gives each address a port of its own.
            server.close()
            port = ports.pop()
        await server.start_serving()
        return server


class UnixServer(StreamServer):
    """A server on a Unix socket.

    It replaces a socket that another server left behind. `start` raises OSError (EADDRINUSE) if a server still listens
    on it.

    Args:
        serve: As in `StreamServer`.
        path: The socket's path; a leading NUL byte makes it a name in Linux's abstract namespace.
        max_connections: As in `StreamServer`.
        options: Options of `ByteTransport`, for each connection.
    """

    def __init__(
        self,
        serve: Serve,
        path: str | os.PathLike[str],
        *,
        max_connections: int = 1000,
        **options: Unpack[TransportOptions],
    ) -> None:
        super().__init__(serve, max_connections=max_connections, **options)
        self._path = os.fspath(path)
        self._inode = 0

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
        path = self._path
        if is_abstract(path):
            bound = socket.socket(socket.AF_UNIX)
            try:
                bound.bind(path)
                return await loop.create_unix_server(self._protocol, sock=bound)
            except BaseException:
                bound.close()
                raise
        _check_free(path)
        server = await loop.create_unix_server(self._protocol, path)
        try:
            self._inode = os.stat(path).st_ino
        except BaseException:
            server.close()
            raise
        return server

    def _free_address(self) -> None:
        # Another server may have replaced the socket.
        with contextlib.suppress(OSError, ValueError):
            found = os.stat(self._path)
            if self._inode == found.st_ino and stat.S_ISSOCK(found.st_mode):
                os.unlink(self._path)


def _check_free(path: str | bytes) -> None:
    """Raise OSError (EADDRINUSE) if a server listens on the Unix socket at `path`."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # a server that does not accept would block
        try:
            probe.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return
        except OSError as fault:
            if fault.errno == errno.ENOTSOCK:
                return  # binding reports this
    raise OSError(errno.EADDRINUSE, "another server listens on this path", os.fsdecode(path))
