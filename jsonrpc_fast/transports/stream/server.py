"""Servers on TCP ports and Unix sockets.

Rules:
  - A server that closes stops accepting, then lets all its connections finish their work and close, at the same time.
  - A connection over a limit (see admission.py) is closed at once, before TLS and before anything is read.
  - A connection that begins with an HTTP request line is dropped, unread: a web page can make a browser send messages
    to a server on localhost in the body of a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl as tls
import stat
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, cast

from ..._checks import check_seconds
from ...errors import ConnectionLost, StateError
from ...framing.http import HttpDetector
from ..base import OVERDUE_SECONDS, SERVE_SECONDS, State
from .admission import MAX_BUFFERED_BYTES, MAX_CONNECTIONS, Admission
from .client import check_context
from .tls import HANDSHAKE_SECONDS, TlsChannel
from .transport import SocketOptions, SocketTransport, StreamProtocol, StreamTransport, is_abstract

if TYPE_CHECKING:
    from typing_extensions import Unpack

BIND_ATTEMPTS: Final = 10
"""How many ports are tried to find one that is free on all addresses of a host."""


class ServerOptions(SocketOptions, total=False):
    """Keyword options of servers; `StreamServer` describes them."""

    max_connections: int
    max_connections_per_host: int | None
    max_buffered_bytes: int | None


Serve = Callable[[StreamTransport], Coroutine[Any, Any, object]]


class AcceptedTransport(SocketTransport):
    """What the connections that a server accepted have in common, above the transport of one kind."""

    _server: StreamServer

    async def open_channel(self) -> None:
        if self._channel.is_closing():
            raise ConnectionResetError("the peer closed the connection")

    async def opened(self) -> bool:
        """Wait until the connection may be served. Return False if it may not."""
        return True

    def release_channel(self) -> None:
        super().release_channel()
        self.abort_channel()  # even a transport that was never connected has a socket
        self._server._connections.discard(self)
        self._server._admission.released(self)


class _AcceptedStream(AcceptedTransport, StreamTransport):
    def __init__(self, server: StreamServer, options: SocketOptions) -> None:
        super().__init__(**options)
        self._server = server
        self._admission = server._admission
        self._detector: HttpDetector | None = HttpDetector()

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        if self._detector is not None:
            is_http = self._detector.feed(data)
            if is_http:
                self._break(ConnectionLost("the peer speaks HTTP"))
                self.abort_channel()
                return
            if is_http is not None:
                self._detector = None
        super().receive(data)
        self._admission.received(len(data))

    def write_bytes(self, data: bytes) -> None:
        super().write_bytes(data)
        self._admission.sent(len(data))


class _AcceptedProtocol(StreamProtocol):
    def __init__(self, connection: _AcceptedStream) -> None:
        super().__init__(connection)
        self._connection = connection

    def connection_made(self, channel: asyncio.BaseTransport) -> None:
        self._connection._channel = cast("asyncio.Transport", channel)
        if self._connection._server._admits(self._connection._channel):
            super().connection_made(channel)
            self._connection._server._accept(self._connection)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection._server._leave(self._connection._channel)
        super().connection_lost(exc)


class StreamServer:
    """The base of servers that accept connections; see `TcpServer` and `UnixServer`.

    Args:
        serve: Called with each new connection, a transport that is not started: it sets the callbacks and starts it.
            It may then return or go on; it is cancelled when the server closes. A connection that is not started when
            it returns is closed. If it raises, the connection is dropped, and the exception goes to the loop's
            exception handler unless the connection was lost.
        options: Options of `Admission`, and those of `SocketTransport` and `ByteTransport` for each connection.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    def __init__(self, serve: Serve, **options: Unpack[ServerOptions]) -> None:
        rest = cast("dict[str, Any]", options)
        self._connections: set[AcceptedTransport] = set()
        self._admission = Admission(
            self._connections,
            rest.pop("max_connections", MAX_CONNECTIONS),
            rest.pop("max_connections_per_host", None),
            rest.pop("max_buffered_bytes", MAX_BUFFERED_BYTES),
        )
        self._serve: Callable[[Any], Coroutine[Any, Any, object]] = serve
        self._options = rest
        self._check_options()  # here, not when the first client connects
        self._ssl: tls.SSLContext | None = None
        self._handshake_seconds: float | None = None
        self._hosts: dict[Any, str] = {}  # of each socket that counts
        self._server: asyncio.Server | None = None
        self._is_started = self._is_closed = False  # closed: accepts no more connections
        self._tasks: set[asyncio.Task[object]] = set()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    @property
    def refused(self) -> int:
        """The number of connections that were refused because of a maximum, or dropped because of all bytes."""
        return self._admission.refused + self._admission.dropped

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

    def _check_options(self) -> None:
        StreamTransport(**self._options)

    def _new_protocol(self) -> asyncio.BufferedProtocol:
        """Return the protocol of a new connection, which calls `_admits`, `_accept` and `_leave`."""
        return _AcceptedProtocol(_AcceptedStream(self, cast("SocketOptions", self._options)))

    def _protocol(self) -> asyncio.BufferedProtocol:
        protocol = self._new_protocol()
        if self._ssl is None:
            return protocol
        return TlsChannel(
            protocol, self._ssl, admit=self._enter, leave=self._leave, handshake_seconds=self._handshake_seconds
        )

    def _enter(self, channel: asyncio.Transport) -> bool:
        """Count a new socket. Return False if it has to be closed."""
        host = None if self._is_closed else self._admission.enter(channel)
        if host is None:
            return False
        self._hosts[channel] = host
        return True

    def _leave(self, channel: asyncio.Transport) -> None:
        host = self._hosts.pop(channel, None)
        if host is not None:
            self._admission.leave(host)

    def _admits(self, channel: asyncio.Transport) -> bool:
        """Return whether a connection may be accepted; abort it if not. With TLS its socket was counted before."""
        if self._is_closed or (self._ssl is None and not self._enter(channel)):
            channel.abort()
            return False
        return True

    def _accept(self, connection: AcceptedTransport) -> None:
        self._connections.add(connection)
        task = asyncio.get_running_loop().create_task(self._run(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, connection: AcceptedTransport) -> None:
        try:
            if await connection.opened():
                await self._serve(connection)
                await self._close_unstarted(connection)
        except Exception as error:
            # A transport cannot be started when its peer closed the connection already.
            if not isinstance(error, (ConnectionError, StateError)):
                connection._report_unhandled(error, "serve")
            connection.abort_channel()

    async def _close_unstarted(self, connection: AcceptedTransport) -> None:
        if connection._state is State.IDLE:
            await connection.connect()  # so that what TLS and WebSocket send at a close is sent
        if connection._state is State.CONNECTED:
            connection._begin_closing(connection._drain_seconds)


class TcpServer(StreamServer):
    """A server on a TCP port.

    Args:
        serve: As in `StreamServer`.
        host: The host to listen on, on all its addresses.
        port: The port; 0 takes a free one, which `address` returns.
        ssl: The TLS settings, with a certificate; None: no TLS.
        handshake_seconds: How long a client may take for the TLS handshake; None: no limit.
        options: As in `StreamServer`.
    """

    def __init__(
        self,
        serve: Serve,
        host: str,
        port: int,
        *,
        ssl: tls.SSLContext | None = None,
        handshake_seconds: float | None = HANDSHAKE_SECONDS,
        **options: Unpack[ServerOptions],
    ) -> None:
        super().__init__(serve, **options)
        check_context(ssl)
        check_seconds("handshake_seconds", handshake_seconds)
        self._ssl = ssl
        self._handshake_seconds = handshake_seconds
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
        options: As in `StreamServer`.
    """

    def __init__(self, serve: Serve, path: str | os.PathLike[str], **options: Unpack[ServerOptions]) -> None:
        super().__init__(serve, **options)
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
