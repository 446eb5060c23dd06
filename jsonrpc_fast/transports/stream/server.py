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
import os
import socket
import ssl as tls
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypedDict, cast

from ..._checks import MAX_PORT, check_callable, check_count, check_seconds, check_type
from ...errors import ConnectionLost, StateError
from ...framing.http import HttpDetector
from ..base import OVERDUE_SECONDS, SERVE_SECONDS, State
from .admission import MAX_BUFFERED_BYTES, MAX_CONNECTIONS, Admission
from .client import check_context
from .listening import BACKLOG, bind_path, check_backlog, check_socket, inode_of, listen_on, listen_on_port
from .tls import HANDSHAKE_SECONDS, TlsChannel
from .transport import SocketOptions, SocketTransport, StreamProtocol, StreamTransport, socket_path

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ListeningOptions(TypedDict, total=False):
    """Keyword options of servers for themselves, not for their connections; `StreamServer` describes them."""

    max_connections: int
    max_connections_per_host: int | None
    max_buffered_bytes: int | None
    sock: socket.socket | None
    backlog: int


class ServerOptions(SocketOptions, ListeningOptions, total=False):
    """Keyword options of servers of streams; `StreamServer` describes them."""


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
        sock: The socket to listen on, bound already: for a socket that several processes share, or that was inherited
            (`inherited_sockets`). The server owns it from now on. None: the server binds a socket to its address.
        backlog: How many connections the system keeps until they are accepted; 100 by default.
        options: Options of `Admission`, and those of `SocketTransport` and `ByteTransport` for each connection.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    def __init__(self, serve: Serve, **options: Unpack[ServerOptions]) -> None:
        check_callable("serve", serve, may_be_none=False)
        rest = cast("dict[str, Any]", options)
        self._connections: set[AcceptedTransport] = set()
        self._admission = Admission(
            self._connections,
            rest.pop("max_connections", MAX_CONNECTIONS),
            rest.pop("max_connections_per_host", None),
            rest.pop("max_buffered_bytes", MAX_BUFFERED_BYTES),
        )
        self._sock: socket.socket | None = rest.pop("sock", None)
        if self._sock is not None:
            check_socket(self._sock)
        self._backlog: int = rest.pop("backlog", BACKLOG)
        check_backlog(self._backlog)
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
            loop = asyncio.get_running_loop()
            if self._sock is None:
                self._server = await self._listen(loop)
            else:
                self._server = await listen_on(loop, self._protocol, self._sock, self._backlog)
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
        elif self._sock is not None and not self._is_started:
            self._sock.close()
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
        """Bind a socket to the address, and listen on it."""
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
        host: The host to listen on, on all its addresses; None: all addresses of the machine.
        port: The port; 0 takes a free one, which `address` returns; None with `sock`.
        ssl: The TLS settings, with a certificate; None: no TLS.
        handshake_seconds: How long a client may take for the TLS handshake; None: no limit.
        reuse_port: Whether several processes may listen on the port (SO_REUSEPORT); the system chooses one for each
            connection. When one closes, connections that it has not accepted yet are lost, unlike those of a shared
            `sock`.
        options: As in `StreamServer`.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value, or there is not exactly one place to listen on.
    """

    def __init__(
        self,
        serve: Serve,
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: tls.SSLContext | None = None,
        handshake_seconds: float | None = HANDSHAKE_SECONDS,
        reuse_port: bool = False,
        **options: Unpack[ServerOptions],
    ) -> None:
        super().__init__(serve, **options)
        check_context(ssl)
        check_seconds("handshake_seconds", handshake_seconds)
        check_type("host", host, str, may_be_none=True)
        check_count("port", port, 0, MAX_PORT)
        check_type("reuse_port", reuse_port, bool)
        if (port is None) is (self._sock is None):
            raise ValueError("a server needs either a port or sock")
        if self._sock is not None and (host is not None or reuse_port):
            raise ValueError("host and reuse_port are for a port, not for sock")
        self._ssl = ssl
        self._handshake_seconds = handshake_seconds
        self._host = host
        self._port = port
        self._reuse_port = reuse_port

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
        assert self._port is not None
        return await listen_on_port(loop, self._protocol, self._host, self._port, self._backlog, self._reuse_port)


class UnixServer(StreamServer):
    """A server on a Unix socket.

    It replaces a socket that another server left behind. `start` raises OSError (EADDRINUSE) if a server still listens
    on it.

    Args:
        serve: As in `StreamServer`.
        path: The socket's path; a leading NUL byte makes it a name in Linux's abstract namespace. None with `sock`.
        mode: The permissions of the path, such as 0o660; None: those that the umask leaves. Whoever may write to the
            path may connect.
        options: As in `StreamServer`.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value, or there is not exactly one place to listen on.
    """

    def __init__(
        self,
        serve: Serve,
        path: str | os.PathLike[str] | None = None,
        *,
        mode: int | None = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        super().__init__(serve, **options)
        check_count("mode", mode, 0, 0o777, show=oct)
        if (path is None) is (self._sock is None):
            raise ValueError("a server needs either a path or sock")
        if self._sock is not None:
            check_socket(self._sock, is_unix=True)
            if mode is not None:
                raise ValueError("mode is for a path, not for sock")
        self._path = None if path is None else socket_path(path)
        self._mode = mode
        self._inode = 0  # of the path, if the server has bound it

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
        assert self._path is not None
        bound = bind_path(self._path, self._mode)
        self._inode = inode_of(self._path)
        try:
            return await listen_on(loop, self._protocol, bound, self._backlog)
        except BaseException:
            self._free_address()
            raise

    def _free_address(self) -> None:
        # Another server may have replaced the socket.
        if self._path is not None and self._inode and self._inode == inode_of(self._path):
            with contextlib.suppress(OSError):
                os.unlink(self._path)
