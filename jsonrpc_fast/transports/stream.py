"""TCP and Unix sockets, as a client and as a server.

Rules:
  - a connection that closes writes what was accepted, tells the peer that nothing more comes, and waits for the peer's
    own end before it lets go of the socket: one closed earlier, with something unread, would be reset, and the peer
    could lose what it was sent;
  - a server that closes accepts nothing more, and has its connections finish what they work on and close, all at the
    same time;
  - a connection over the server's limit is closed at once;
  - a connection to a server whose first line is HTTP's (a method, a target, `HTTP/`) is dropped at once, unread: a web
    page can have a browser send such a request, with messages in its body, to a server on localhost;
  - after MAX_FAULTS faulty messages a connection is closed, unless `max_faults` says otherwise;
  - small messages leave at once (TCP_NODELAY, which asyncio sets).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import mmap
import os
import socket
import stat
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, cast

from ..errors import ConnectionLost, StateError
from ..framing.http import HttpDetector
from .base import HIGH_WATER_BYTES, LOW_WATER_BYTES, OVERDUE_SECONDS, SERVE_SECONDS, ByteTransport, Options, State
from .options import check_count, check_seconds

if TYPE_CHECKING:
    from typing_extensions import Unpack

READ_BYTES: Final = 256 * 1024
"""How much is read from a socket at once: a message that comes in one piece is decoded where it lies.

Each connection has a buffer of that size, of which the system gives what is used (not on Windows)."""


BIND_ATTEMPTS: Final = 10
"""How often a free port is looked for that all addresses of a host have."""

MAX_FAULTS: Final = 1000
"""How many faulty messages a connection may bring, unless `max_faults` is given."""


class StreamTransport(ByteTransport):
    """A connected socket. `TcpClient` and `UnixClient` make one, and a server gives one for each connection."""

    waits_for_peer = True
    _channel: asyncio.Transport

    def __init__(self, **options: Unpack[Options]) -> None:
        options.setdefault("max_faults", MAX_FAULTS)
        super().__init__(**options)
        self._is_channel_lost = False
        self._is_finishing = False

    @property
    def peer_address(self) -> Any:
        """The address of the other side, as the socket module gives it; None before `connect`."""
        channel = getattr(self, "_channel", None)
        return None if channel is None else channel.get_extra_info("peername")

    def _label(self) -> str:
        address = self.peer_address
        return f"connection with {address[0]}:{address[1]}" if isinstance(address, tuple) else "connection"

    def _read_channel(self, wanted: bool) -> None:
        if wanted:
            self._channel.resume_reading()
        else:
            self._channel.pause_reading()

    def _write(self, data: bytes) -> None:
        if not self._channel.is_closing():  # broken, which is about to be told; asyncio would log each write
            self._channel.write(data)

    def _unwritten_bytes(self) -> int:
        return self._channel.get_write_buffer_size()

    def _finish(self) -> None:
        if self._has_ended or not self._channel.can_write_eof():
            self._channel.close()
            return
        self._is_finishing = True
        self._channel.resume_reading()
        # Not `write_eof` before all is written: asyncio lets out what the system says about it later.
        if self._channel.get_write_buffer_size():
            self._channel.set_write_buffer_limits(0)
        else:
            self._write_end()

    def _write_end(self) -> None:
        if self._is_channel_lost or self._channel.is_closing():
            return
        try:
            self._channel.write_eof()
        except OSError as fault:  # the peer has reset the connection
            self._fault = self._fault or fault
            self._abort()

    def _abort(self) -> None:
        if not self._is_channel_lost:  # asyncio would tell of the loss again, and fail
            self._channel.abort()

    def _block(self, is_blocked: bool) -> None:
        super()._block(is_blocked)
        if self._is_finishing and not is_blocked:
            self._loop.call_soon(self._write_end)

    def _end_received(self) -> None:
        super()._end_received()
        if self._state is State.CLOSING:
            self._channel.close()


def _buffer() -> memoryview:
    if sys.platform == "win32":
        return memoryview(bytearray(READ_BYTES))
    # A bytearray is filled with zeros, and so takes all of its memory at once.
    return memoryview(mmap.mmap(-1, READ_BYTES, mmap.MAP_PRIVATE))


class _Protocol(asyncio.BufferedProtocol):
    """What asyncio tells, for a transport."""

    def __init__(self, transport: StreamTransport) -> None:
        self._transport = transport
        self._buffer = _buffer()

    def connection_made(self, channel: asyncio.BaseTransport) -> None:
        channel = cast("asyncio.Transport", channel)  # uvloop's is no subclass
        self._transport._channel = channel
        channel.set_write_buffer_limits(HIGH_WATER_BYTES, LOW_WATER_BYTES)
        # Before Python 3.11, and with uvloop, reading begins after this call, whatever is said here.
        asyncio.get_running_loop().call_soon(self._rest)

    def _rest(self) -> None:
        if self._transport._state in (State.IDLE, State.CONNECTING, State.CONNECTED):
            self._transport._channel.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        transport = self._transport
        transport._bytes_received(self._buffer[:nbytes])
        if not transport._delivers:
            self._rest()  # uvloop reads before `call_soon`

    def eof_received(self) -> bool:
        self._transport._end_received()
        return True  # sending goes on

    def pause_writing(self) -> None:
        self._transport._block(True)

    def resume_writing(self) -> None:
        self._transport._block(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport._is_channel_lost = True
        self._transport._lost(exc or self._transport._fault)


class TcpClient(StreamTransport):
    """A connection to `host` and `port`. options: those of `ByteTransport`."""

    def __init__(self, host: str, port: int, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self._host = host
        self._port = port

    async def _open(self) -> None:
        await self._loop.create_connection(lambda: _Protocol(self), self._host, self._port)


class UnixClient(StreamTransport):
    """A connection to the Unix socket at `path`. options: those of `ByteTransport`."""

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self._path = os.fspath(path)

    async def _open(self) -> None:
        if not _is_abstract(self._path):
            await self._loop.create_unix_connection(lambda: _Protocol(self), self._path)
            return
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.setblocking(False)
            await self._loop.sock_connect(connected, self._path)
            await self._loop.create_unix_connection(lambda: _Protocol(self), sock=connected)
        except BaseException:
            connected.close()
            raise


def _is_abstract(path: str | bytes) -> bool:
    """Whether a path is a name in Linux's abstract namespace, which uvloop does not know."""
    return os.fsdecode(path).startswith("\0")


Serve = Callable[[StreamTransport], Coroutine[Any, Any, object]]


class _Connection(StreamTransport):
    """An accepted socket, which its server knows until it is closed."""

    def __init__(self, server: StreamServer, options: Options) -> None:
        super().__init__(**options)
        self._server = server
        self._detector: HttpDetector | None = HttpDetector()

    async def _open(self) -> None:
        if self._channel.is_closing():
            raise ConnectionResetError("the peer has gone")

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

    def _put_away(self) -> None:
        self._abort()  # one that was never connected has its socket nevertheless
        self._server._connections.discard(self)


class _AcceptedProtocol(_Protocol):
    def __init__(self, connection: _Connection) -> None:
        super().__init__(connection)
        self._connection = connection

    def connection_made(self, channel: asyncio.BaseTransport) -> None:
        super().connection_made(channel)
        self._connection._server._accept(self._connection)


class StreamServer:
    """Accepts connections. `TcpServer` and `UnixServer` say where.

    serve            is called with each new connection, a transport that is not yet started: it sets the callbacks and
                     starts it. It may return then, or go on; it is cancelled when the server closes. What it raises,
                     but for a lost connection, goes to the loop's exception handler, and the connection is dropped
    max_connections  how many may be open at a time
    options          for each connection, those of `ByteTransport`
    """

    def __init__(self, serve: Serve, *, max_connections: int = 1000, **options: Unpack[Options]) -> None:
        check_count("max_connections", max_connections, 1, may_be_none=False)
        self._serve = serve
        self._max_connections = max_connections
        self._options = options
        ByteTransport(**options)  # what is wrong with them is to be told here, and not to the first client
        self._server: asyncio.Server | None = None
        self._is_started = self._is_closed = False  # closed: it accepts nothing more
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[object]] = set()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    @property
    def address(self) -> Any:
        """Where it listens, as the socket module gives it: the first address of several, which have one port.

        Raises StateError before `start` and after `close`.
        """
        if self._server is None or self._is_closed:
            raise StateError("the server does not listen")
        return self._server.sockets[0].getsockname()

    async def start(self) -> None:
        """Begins to listen. Raises StateError the second time, OSError where the address cannot be used."""
        if self._is_started or self._is_closed:
            raise StateError("the server is closed" if self._is_closed else "the server was started before")
        self._is_started = True
        try:
            self._server = await self._listen(asyncio.get_running_loop())
        finally:
            self._is_started = self._server is not None  # else it may be tried again
        if self._is_closed:
            self._server.close()
            raise StateError("the server was closed while it was starting")

    def stop_accepting(self) -> None:
        """Accepts nothing more. Connections that are open go on. A second call does nothing."""
        if self._server is not None and not self._is_closed:
            self._server.close()
            self._free_address()
        self._is_closed = True

    async def close(self, drain_seconds: float | None = 5.0, grace_seconds: float | None = 5.0) -> None:
        """Accepts nothing more, has all connections finish what they work on, and closes them.

        Sessions finish their handlers. A connection that has neither `onstop` nor `onend` set is closed at once. What
        is left of the `serve` tasks at the end is cancelled. A second call does nothing but wait.

        Args:
            drain_seconds: How long each connection may take to write what it accepted, in seconds; None: as long as it
                takes.
            grace_seconds: How long what is being worked on may take, in seconds; None: as long as it takes.

        Raises:
            TypeError, ValueError: One of them is not a time.
        """
        check_seconds("drain_seconds", drain_seconds)
        check_seconds("grace_seconds", grace_seconds)
        self.stop_accepting()
        loop = asyncio.get_running_loop()
        end = None if grace_seconds is None else loop.time() + grace_seconds
        connections = list(self._connections)
        for connection in connections:
            connection._ask_to_end(grace_seconds, drain_seconds)
        overdue = None if end is None else loop.call_at(end + OVERDUE_SECONDS, self._close_all, drain_seconds)
        try:
            for connection in connections:
                await connection.wait_closed()
        finally:
            if overdue is not None:
                overdue.cancel()
        tasks = self._tasks - {asyncio.current_task()}  # which may be a connection's own
        if tasks:
            await asyncio.wait(tasks, timeout=SERVE_SECONDS)  # they may see for themselves that all is closed
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    def _close_all(self, drain_seconds: float | None) -> None:
        for connection in list(self._connections):
            connection._begin_closing(drain_seconds)

    def _free_address(self) -> None:
        """What a subclass does when it listens no more."""

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
        raise NotImplementedError

    def _protocol(self) -> _AcceptedProtocol:
        return _AcceptedProtocol(_Connection(self, self._options))

    def _accept(self, connection: _Connection) -> None:
        if self._is_closed or len(self._connections) >= self._max_connections:
            connection._abort()
            return
        self._connections.add(connection)
        task = asyncio.get_running_loop().create_task(self._run(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, connection: _Connection) -> None:
        try:
            await self._serve(connection)
        except Exception as error:
            # A peer that has gone already leaves a transport that cannot be started.
            if not isinstance(error, (ConnectionError, StateError)):
                connection._report_unhandled(error, "serve")
            connection._abort()


class TcpServer(StreamServer):
    """Listens on `host` and `port`; port 0 takes a free one, which `address` tells. The rest as in `StreamServer`."""

    def __init__(
        self, serve: Serve, host: str, port: int, *, max_connections: int = 1000, **options: Unpack[Options]
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
                port = self._port  # the port is free on the first address alone
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
    """Listens on a Unix socket at `path`, in place of one that is left there and answers no more.

    A path that begins with a NUL byte is a name in Linux's abstract namespace. `start` raises OSError (EADDRINUSE) when
    another server listens on the path. The rest as in `StreamServer`.
    """

    def __init__(
        self,
        serve: Serve,
        path: str | os.PathLike[str],
        *,
        max_connections: int = 1000,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(serve, max_connections=max_connections, **options)
        self._path = os.fspath(path)
        self._inode = 0

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
        path = self._path
        if _is_abstract(path):
            bound = socket.socket(socket.AF_UNIX)
            try:
                bound.bind(path)
                return await loop.create_unix_server(self._protocol, sock=bound)
            except BaseException:
                bound.close()
                raise
        _refuse_live(path)
        server = await loop.create_unix_server(self._protocol, path)
        try:
            self._inode = os.stat(path).st_ino
        except BaseException:
            server.close()
            raise
        return server

    def _free_address(self) -> None:
        # Another server may have taken the place.
        with contextlib.suppress(OSError, ValueError):
            found = os.stat(self._path)
            if self._inode == found.st_ino and stat.S_ISSOCK(found.st_mode):
                os.unlink(self._path)


def _refuse_live(path: str | bytes) -> None:
    """Raises OSError (EADDRINUSE) when something listens on the Unix socket at `path`."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # whoever listens and does not accept lets others wait
        try:
            probe.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):  # nothing is there, or nothing listens
            return
        except OSError as fault:
            if fault.errno == errno.ENOTSOCK:
                return  # which binding is going to tell
    raise OSError(errno.EADDRINUSE, "another server listens on this path", os.fsdecode(path))
