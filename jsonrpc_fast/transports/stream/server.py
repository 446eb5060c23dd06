"""Servers on TCP ports and Unix sockets.

Rules:
  - A closing server stops accepting, then lets all its connections finish their work and close, concurrently.
  - A connection over a limit (see admission.py) is closed at once, before TLS and before anything is read. One that
    begins with an HTTP request line is dropped: a web page can make a browser send messages to a server on localhost in
    the body of a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ClassVar, Final, TypedDict, Unpack, cast

from ...errors import ConnectionLost, StateError
from ...framing.hints import HttpDetector
from ...support import MAX_PORT, Seldom, check_count, check_seconds, check_serve, check_type, logger_of, say
from ...types import CANCEL_SECONDS, UNSET
from ..connection import SERVE_SECONDS, State, unknown_transport_option
from ..protocol import Acceptor, Ending
from .admission import Admission
from .listening import bind_path, check_socket, inode_of, listen_on, listen_on_port
from .tls import HANDSHAKE_SECONDS, TlsChannel, check_context
from .tls import ssl as tls
from .transport import (
    SocketChannel,
    SocketOptions,
    SocketOrLayer,
    SocketTransport,
    StreamTransport,
    keep_alive,
    socket_path,
)

_logger: Final = logger_of("transports")
_refusals: Final = Seldom()

_ACCEPTED_SOCKETS_INHERIT: Final = sys.platform == "linux"
"""Whether accepted sockets have the keep-alive of the listening one, which costs four system calls."""


class ListeningOptions(TypedDict, total=False):
    """Keyword options of servers, except those of their connections; `StreamServer` describes them."""

    max_connections: int
    max_connections_per_host: int | None
    max_buffered_bytes: int | None
    sock: socket.socket | None


class ServerOptions(SocketOptions, ListeningOptions, total=False):
    """Keyword options of stream servers; `StreamServer` describes them."""

    first_message_seconds: float | None


Serve = Callable[[StreamTransport], Coroutine[Any, Any, object]]


class AcceptedSocket(SocketChannel):
    """The channel of an accepted socket.

    Attributes:
        connection: The connection over it; set by the server.
    """

    connection: SocketTransport
    is_accepted: bool = True
    _probes = not _ACCEPTED_SOCKETS_INHERIT

    def __init__(self, server: StreamServer) -> None:
        super().__init__(None, server.admission)
        self._server = server

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        if self._server.admits(transport):
            self.use(transport)
            # First: whoever serves usually begins to read in the first step, and a pause before that would cost two
            # system calls.
            self._server.accept(self.connection)
            self.pause_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.admission.leave(self.transport)
        super().connection_lost(exc)
        del self.connection


class _AcceptedStream(StreamTransport):
    # Looks at the beginning of the stream, until that is known not to be HTTP.
    _detector: HttpDetector | None

    def __init__(
        self, channel: SocketOrLayer, options: SocketOptions, spoke: Callable[[SocketTransport], None]
    ) -> None:
        super().__init__(channel, **options)
        self._detector = HttpDetector()
        self._spoke = spoke
        self.channel_events.received = self._receive_first

    def _receive_first(self, data: Any) -> None:
        """Receive until the first message is complete."""
        if self._detector is not None and (is_http := self._detector.feed(data)) is not None:
            self._detector = None
            if is_http:
                self.abort(ConnectionLost("the peer speaks HTTP"))
                return
        self.received(data)
        if self._detector is None and not self.is_inside_message:
            self._spoke(self)
            # Not if somebody else, such as the adapter of pygls, has put something in front of this.
            if self.channel_events.received == self._receive_first:
                self.channel_events.received = self.received


def _address_text(listening: socket.socket) -> str:
    address = listening.getsockname()
    if isinstance(address, tuple):  # of an IPv6 socket there are four parts
        return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
    return os.fsdecode(address)


class StreamServer:
    """The base of servers that accept connections; see `TcpServer` and `UnixServer`.

    Args:
        serve: A coroutine function, called with each new connection: a transport that is not started. It sets the
            callbacks and starts the transport. It may then return or keep running; it is cancelled when the server
            closes. A connection that is not started when `serve` returns is closed. If `serve` raises, the connection
            is dropped, and the exception goes to the loop's exception handler unless the connection was lost.
        sock: A bound socket to listen on, such as one that several processes share, or an inherited one
            (`inherited_sockets`). The server takes ownership of it. None: the server binds a socket to its address.
        first_message_seconds: Seconds that a client may take until its first message is complete, after which it is
            dropped; 30 by default, None for clients that only listen. WebSocket has a limit for the handshake instead.
        options: The bounds of `Admission`, such as `max_connections`; the options of `StreamTransport` and
            `Connection`, which apply to each connection.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    _known: ClassVar[Mapping[str, Any]] = ServerOptions.__annotations__

    def __init__(self, serve: Serve, **options: Unpack[ServerOptions]) -> None:
        check_serve(serve)
        rest = cast("dict[str, Any]", options)
        for name in rest.keys() - self._known.keys():
            raise unknown_transport_option(type(self), name, self._known)
        self._connections: dict[SocketTransport, Ending | None] = {}
        self._ending: dict[SocketTransport, None] = {}  # asked to finish; `close` counts what they have dropped
        self.admission: Admission = Admission(
            self._connections,
            rest.pop("max_connections", 1000),
            rest.pop("max_connections_per_host", UNSET),
            rest.pop("max_buffered_bytes", 1024 * 1024 * 1024),
        )
        self._sock: socket.socket | None = rest.pop("sock", None)
        if self._sock is not None:
            check_socket(self._sock)
        self._first_message_seconds: float | None = rest.pop("first_message_seconds", 30.0)
        check_seconds("first_message_seconds", self._first_message_seconds, may_be_zero=False)
        # Connections that have sent no whole message, in the order of their deadlines.
        self._silent: dict[SocketTransport, float] = {}
        self._silent_timer: asyncio.TimerHandle | None = None
        self._serve: Callable[[Any], Coroutine[Any, Any, object]] = serve
        self._begin: Callable[[Any], Ending] | None = serve.begin if isinstance(serve, Acceptor) else None
        self._options = rest
        self._check_options()  # checked here, not when the first client connects
        self._ssl: tls.SSLContext | None = None
        self._server: asyncio.Server | None = None
        self._is_started = self._is_closed = False  # `_is_closed`: no more connections are accepted
        self._tasks: dict[SocketTransport, asyncio.Task[object]] = {}

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "not started"
        if self._server is not None and not self._is_closed:
            places = ", ".join(map(_address_text, self._server.sockets))
            state = f"listening on {places}{' with TLS' if self._ssl else ''}, connections={self.connections}"
        return f"<{type(self).__name__} {state}>"

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    @property
    def refused(self) -> int:
        """The number of connections refused at a maximum, or dropped because max_buffered_bytes was exceeded."""
        return self.admission.refused + self.admission.dropped

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
        """Start listening.

        Raises:
            StateError: The server is already started, or closed.
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
                self._server = await listen_on(loop, self._protocol, self._sock)
        finally:
            self._is_started = self._server is not None  # if it failed, `start` may be called again
        if _ACCEPTED_SOCKETS_INHERIT:
            for listening in self._server.sockets:
                keep_alive(listening)
        if self._is_closed:  # `close` was called while the address was being resolved or bound
            self._server.close()
            raise StateError("the server was closed while it was starting")

    def stop_accepting(self) -> None:
        """Stop accepting connections. Open ones continue. A second call does nothing."""
        if self._server is not None and not self._is_closed:
            self._server.close()
            self._free_address()
        elif self._sock is not None and not self._is_started:
            self._sock.close()  # the server owns it although it has never listened
        self._is_closed = True

    async def close(self, drain_seconds: float | None = 5.0, grace_seconds: float | None = 5.0) -> None:
        """Stop accepting, let all connections finish their work, and close them.

        Sessions finish their handlers. A connection with neither `onstop` nor `onend` set is closed at once. `serve`
        tasks that are still running at the end are cancelled. A second call only waits.

        Args:
            drain_seconds: Seconds that each connection may take to write the messages it accepted; None: no limit.
            grace_seconds: Seconds that the work in progress may take; None: no limit.

        Raises:
            TypeError, ValueError: An argument is not a duration.
        """
        check_seconds("drain_seconds", drain_seconds)
        check_seconds("grace_seconds", grace_seconds)
        self.stop_accepting()
        self._silent.clear()  # the time limits of the closing apply
        if self._silent_timer is not None:
            self._silent_timer.cancel()
        # What has arrived over the connections is read first: a request that closing drops unread gets a reset.
        for _ in range(3):
            await asyncio.sleep(0)
        # All connections end at the same time, so the server takes no longer than the slowest of them.
        for connection in list(self._connections):
            self._request_stop(connection, grace_seconds, drain_seconds)
        for connection in list(self._ending):
            await connection.wait_closed()
        tasks = set(self._tasks.values()) - {asyncio.current_task()}  # `serve` itself may close the server
        if tasks:
            await asyncio.wait(tasks, timeout=SERVE_SECONDS)  # they may return without being cancelled
            for task in tasks:
                task.cancel()
            _, left = await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
            if left:
                _logger.warning("functions that serve connections continue although they were cancelled: %d", len(left))
        if dropped := sum(connection.dropped_requests for connection in self._ending):
            _logger.warning("the server ended with requests without a response: %d", dropped)
        self._ending.clear()  # a second call does not say it again
        # Last: from Python 3.12 on it waits for all connections.
        if self._server is not None:
            await self._server.wait_closed()

    def run(self, *, grace_seconds: float | None = 5.0) -> int:
        """Run the server until a signal ends it: the main function of a program.

            raise SystemExit(TcpServer(serving(handlers), "127.0.0.1", 4000).run())

        SIGINT (Ctrl-C), SIGTERM and SIGHUP close it; a second one does not wait for the work in progress, also while a
        function blocks the loop or runs in a thread. stderr says where the server listens. A program that has an event
        loop calls `start` and `close`.

        Args:
            grace_seconds: As in `close`. Child processes of clients in this process are killed after that time.

        Returns:
            The exit code: 0 if something else has closed the server, 1 if the address cannot be used, which stderr
            says, or 130 after Ctrl-C on Windows. After a signal the process ends by it, and nothing is returned.

        Raises:
            StateError: The thread runs an event loop.
            TypeError, ValueError: `grace_seconds` is not a duration.
        """
        from ..stdio.main import Signals, fill_closed_descriptors  # not needed by servers that `start`

        check_seconds("grace_seconds", grace_seconds)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass  # as it should be
        else:
            raise StateError("a program that runs an event loop awaits `start` and `close` of its server, not `run`")
        fill_closed_descriptors()
        stopped = asyncio.Event()
        signals = Signals(stopped.set, self._abort_all, grace_seconds)

        async def main() -> int:
            signals.handle()
            try:
                await self.start()
            except OSError as error:
                say(f"cannot listen: {error}")
                return 1
            assert self._server is not None
            say(f"listening on {', '.join(map(_address_text, self._server.sockets))}")
            loop = asyncio.get_running_loop()
            waiting = [loop.create_task(stopped.wait()), loop.create_task(self._server.wait_closed())]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            await self.close(grace_seconds=grace_seconds)
            waiting[0].cancel()
            await signals.finish()
            return 0

        try:
            code = asyncio.run(main())
        except KeyboardInterrupt:  # Windows, where the loop handles no signals
            return 130
        signals.end_process()
        return code

    async def _abort_all(self) -> None:
        for connection in list(self._connections):
            if connection not in self._ending:  # two signals came together, and `close` has not asked yet
                self._request_stop(connection, 0, 0)
            await connection.disconnect()

    def _request_stop(
        self, connection: SocketTransport, grace_seconds: float | None, drain_seconds: float | None
    ) -> None:
        self._ending[connection] = None
        connection.request_stop(grace_seconds, drain_seconds)

    def _free_address(self) -> None:
        """Free the address after the server has stopped listening; subclasses override this."""

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
        """Bind a socket to the address, and listen on it."""
        raise NotImplementedError

    def _check_options(self) -> None:
        StreamTransport(SocketChannel(None, self.admission), **self._options)

    def _new_connection(self, channel: SocketOrLayer) -> SocketTransport:
        """Return the connection over the channel of an accepted socket."""
        return _AcceptedStream(channel, cast("SocketOptions", self._options), self._spoke)

    def _protocol(self) -> asyncio.BufferedProtocol:
        socket = AcceptedSocket(self)
        socket.connection = self._new_connection(socket if self._ssl is None else TlsChannel(socket, self._ssl, None))
        socket.connection.released = self.released
        return socket

    def admits(self, transport: asyncio.Transport) -> bool:
        """Return whether a connection may be accepted; abort it if not."""
        # asyncio accepts a socket in one turn and creates its protocol in a later one: the server may be closed by
        # then.
        is_admitted = not self._is_closed and self.admission.enter(transport)
        if not is_admitted:
            transport.abort()
            if not self._is_closed and (left_out := _refusals.take(asyncio.get_running_loop().time())) is not None:
                _logger.warning("a connection was refused: %d are open%s", self.admission.open, left_out)
        return is_admitted

    def accept(self, connection: SocketTransport) -> None:
        """Serve a connection. Its channel calls this."""
        self._connections[connection] = None
        if self._first_message_seconds is not None and isinstance(connection, _AcceptedStream):
            loop = asyncio.get_running_loop()
            self._silent[connection] = loop.time() + self._first_message_seconds
            if self._silent_timer is None:
                self._silent_timer = loop.call_later(self._first_message_seconds, self._close_silent)
        if self._begin is None or connection.channel is not connection.socket:
            self._run(connection)
            return
        try:
            self._connections[connection] = self._begin(connection)
        except Exception as error:
            self._failed(connection, error)

    def released(self, connection: SocketTransport) -> None:
        """Forget a connection that is closed."""
        ending = self._connections.pop(connection, None)
        self._spoke(connection)
        self.admission.released(connection)
        if ending is not None and (work := ending()) is not None:
            self._run(connection, work)

    def _spoke(self, connection: SocketTransport) -> None:
        """Note that a connection has sent a whole message, or is closed."""
        self._silent.pop(connection, None)  # the timer stays: the next connection needs it

    def _close_silent(self) -> None:
        """Close the connections whose first message is not complete in time. One timer serves all of them."""
        loop = asyncio.get_running_loop()
        self._silent_timer = None
        for connection, deadline in list(self._silent.items()):
            if deadline > loop.time():
                self._silent_timer = loop.call_at(deadline, self._close_silent)
                break
            del self._silent[connection]
            # What was read while reading was paused was decoded later.
            if not connection.received_chunks or connection.is_inside_message:
                connection.abort(
                    ConnectionLost(f"the first message was not complete in {self._first_message_seconds} s")
                )

    def _run(self, connection: SocketTransport, ending: Coroutine[Any, Any, object] | None = None) -> None:
        task = asyncio.get_running_loop().create_task(self._work(connection, ending))
        if not task.done():  # an eager one may be
            self._tasks[connection] = task

    async def _work(self, connection: SocketTransport, ending: Coroutine[Any, Any, object] | None) -> None:
        try:
            if ending is not None:
                await ending
            elif connection.channel is connection.socket or await self._is_ready(connection.channel):
                if self._begin is not None:
                    self._connections[connection] = self._begin(connection)
                    return
                await self._serve(connection)
                if connection.state is State.IDLE:
                    await connection.connect()  # TLS and WebSocket can still send their goodbye
                if connection.state is State.CONNECTED:
                    connection.begin_closing()
        except Exception as error:
            self._failed(connection, error)
        finally:
            self._tasks.pop(connection, None)

    def _failed(self, connection: SocketTransport, error: Exception) -> None:
        # Whatever is done with a connection that is lost fails. While it is not, the failure is another one.
        if not (connection.socket.transport.is_closing() and isinstance(error, (ConnectionError, StateError))):
            connection.report_unhandled(error, "serve")
        connection.channel.abort()

    async def _is_ready(self, channel: SocketOrLayer) -> bool:
        """Wait for the handshakes of TLS and of WebSocket. Return False if one fails, or takes too long."""
        if isinstance(channel, SocketChannel):
            return True
        if not await self._is_ready(channel.socket):
            return False
        channel.socket.set_reading(True)  # nothing else reads before `serve` has started the transport
        await asyncio.wait([channel.handshake], timeout=HANDSHAKE_SECONDS)
        if channel.handshake.done():
            return channel.handshake.result()
        channel.abort()
        return False


class TcpServer(StreamServer):
    """A server on a TCP port, with the methods of `StreamServer`: `run`, or `start` and `close`.

    Args:
        serve: As in `StreamServer`.
        host: The host name or address to listen on; None: all interfaces.
        port: The port; 0 picks a free one, which `address` returns; None with `sock`.
        ssl: An SSLContext with a certificate; None: no TLS.
        options: As in `StreamServer`.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value, or not exactly one of `port` and `sock`.
    """

    def __init__(
        self,
        serve: Serve,
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: tls.SSLContext | None = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        super().__init__(serve, **options)
        check_context(ssl)
        check_type("host", host, str, may_be_none=True)
        check_count("port", port, 0, MAX_PORT)
        if (port is None) is (self._sock is None):
            raise ValueError("a server needs either a port or sock")
        if self._sock is not None and host is not None:
            raise ValueError("host is for a port, not for sock")
        self._ssl = ssl
        self._host = host
        self._port = port

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
        assert self._port is not None
        return await listen_on_port(loop, self._protocol, self._host, self._port)


class UnixServer(StreamServer):
    """A server on a Unix socket, with the methods of `StreamServer`: `run`, or `start` and `close`.

    `start` replaces a stale socket of another server, and raises OSError (EADDRINUSE) if a server still listens on it.

    Args:
        serve: As in `StreamServer`.
        path: The socket's path; a leading NUL byte makes it a name in Linux's abstract namespace. None with `sock`.
        mode: The permissions of the path, such as 0o660; None: those that the umask leaves. A client needs permission
            to write to the path.
        options: As in `StreamServer`.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value, or not exactly one of `path` and `sock`.
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
        # Known only if the server has bound the path. If another server has replaced the path, its inode number
        # differs.
        self._inode = 0

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
        assert self._path is not None
        bound = bind_path(self._path, self._mode)
        self._inode = inode_of(self._path)
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(self._free_address)
            server = await listen_on(loop, self._protocol, bound)
            on_failure.pop_all()
        return server

    def _free_address(self) -> None:
        if self._path is not None and self._inode and self._inode == inode_of(self._path):
            with contextlib.suppress(OSError):
                os.unlink(self._path)
