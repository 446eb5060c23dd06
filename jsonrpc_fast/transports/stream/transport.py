"""Transports over a socket, the same for clients and for the connections of a server.

Rules:
  - A connection that closes writes all accepted messages, half-closes the socket and waits for the peer to do the same.
    Closing with unread data would reset the connection, and the peer could lose what was sent to it. TLS half-closes
    with its close_notify (see tls.py).
  - The system probes a silent TCP peer (SO_KEEPALIVE), so that a connection to a lost machine ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import socket
import struct
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias, Unpack

from ...errors import ConnectionLost
from ...support import check_seconds, checked_path
from ...types import TURN_SECONDS
from ..channel import LOW_WATER_BYTES, Channel, Events
from ..connection import Connection
from ..heartbeat import Heartbeat
from ..protocol import MAX_FAULTS, TransportOptions

if TYPE_CHECKING:
    import ssl

READ_BYTES: Final = 256 * 1024
"""How many bytes are read from a socket at a time. A message that arrives in one piece is decoded in place."""


class PeerCredentials(NamedTuple):
    """The process at the other end of a Unix socket, when it connected or began to listen.

    Attributes:
        pid: Its id.
        uid: Its user.
        gid: Its group.
    """

    pid: int
    uid: int
    gid: int


class SocketOptions(TransportOptions, total=False):
    """Keyword options of transports of bytes over a socket; `StreamTransport` and `Connection` describe them."""

    idle_seconds: float | None


Connect = Callable[[asyncio.BufferedProtocol], Awaitable[None]]
"""Connects a protocol to a server."""


class Meter:
    """Counts the bytes that a socket receives and sends. A server's meter bounds them (admission.py).

    `traffic` is their number since the last check. When it is `check_at`, `check_soon` is due.
    """

    def __init__(self) -> None:
        self.traffic: int = 0
        self.check_at: float = inf

    def check_soon(self) -> None:
        """Check soon whether the connections hold too many bytes."""


class SocketChannel(Channel, asyncio.BufferedProtocol):
    """A channel over a socket: the protocol of an asyncio transport.

    Attributes:
        transport: The transport of asyncio; None before the connection is made.
        events: What the channel calls; a server sets them before it accepts the connection.
        tls: The TLS object that encrypts the bytes, and knows the peer's certificate; None without TLS.
        fault: Why this side aborted the channel; None if it did not, or gave no reason.
    """

    writes_lone_frames = True
    events: Events
    read_bytes: int = READ_BYTES
    _probes: ClassVar[bool] = True  # whether the keep-alive of the system is set here
    _dropped: asyncio.Future[None] | None = None  # what `drop` waits for

    def __init__(self, connect: Connect | None, meter: Meter) -> None:
        self.transport: Any = None
        self.tls: ssl.SSLObject | None = None
        self.fault: Exception | None = None
        self._connect = connect
        self._meter = meter
        self._buffer: memoryview
        self._reads = False
        self._has_ended = False  # the peer's stream has ended
        self._is_finishing = False  # the socket is half-closed when everything is written
        self._is_lost = False

    @property
    def name(self) -> str:
        address = self.info("peername")
        return f"connection with {address[0]}:{address[1]}" if isinstance(address, tuple) else "connection"

    def info(self, name: str) -> Any:
        """Return `get_extra_info(name)` of the asyncio transport; None before the connection is made."""
        return None if self.transport is None else self.transport.get_extra_info(name)

    # The methods of a channel.

    async def open(self, events: Events) -> None:
        self.events = events
        if self._connect is not None:
            self.transport = None  # remove the transport of a failed attempt
            await self._connect(self)

    async def drop(self) -> None:
        """Abort an open channel, and wait until it is lost: the loss must not reach the next attempt to open it."""
        if self.transport is not None and not self._is_lost:
            self._dropped = asyncio.get_running_loop().create_future()
            self.abort()
            await self._dropped

    def write(self, data: bytes) -> None:
        transport, meter = self.transport, self._meter
        if not transport.is_closing():  # otherwise the loss is about to be reported, and asyncio would log each write
            transport.write(data)
        # Written out here and in `buffer_updated`: two calls of a method would cost 2 % of a request that is served
        # alone.
        meter.traffic += len(data)
        if meter.traffic >= meter.check_at:
            meter.check_soon()

    @property
    def unwritten(self) -> int:
        unwritten: int = self.transport.get_write_buffer_size()
        return unwritten

    def set_reading(self, on: bool) -> None:
        self._reads = on
        if on:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    @property
    def ends_at_once(self) -> bool:
        """Whether `finish` is followed by the loss, whatever the peer does."""
        return self._has_ended and not self.unwritten

    def finish(self) -> None:
        # A half-closed socket still reads: data that the peer sends before it sees the end is not lost. Closing with
        # unread data would cause a reset, which would drop the data on its way to the peer.
        if self._has_ended or not self.transport.can_write_eof():
            self.close()
            return
        self.set_reading(True)
        # Half-closed here, when everything is written: asyncio's `write_eof` would act later, and hide the system's
        # error. With the limit 0, asyncio calls `resume_writing` when its buffer is empty.
        self._is_finishing = True
        if self.unwritten:
            self.transport.set_write_buffer_limits(0)
        else:
            self._write_end()

    def close(self) -> None:
        """Write all unwritten data, without waiting for the peer to end its stream."""
        self.transport.close()

    def abort(self) -> None:
        # After the loss, asyncio would report it again and fail.
        if self.transport is not None and not self._is_lost:
            self.transport.abort()

    def _write_end(self) -> None:
        transport = self.transport
        if self._is_lost or transport.is_closing():
            return
        try:
            transport.write_eof()
        except OSError as fault:  # the peer has reset the connection
            self.fault = fault
            self.abort()

    # The events of asyncio.

    def connection_made(self, transport: Any) -> None:  # uvloop's class is not one of asyncio
        self.use(transport)
        self.pause_soon()

    def use(self, transport: Any) -> None:
        """Use a new transport of asyncio."""
        self.transport = transport
        self._is_lost = self._has_ended = self._is_finishing = False
        # asyncio reports a fall to the low mark only after a rise above the high mark.
        transport.set_write_buffer_limits(LOW_WATER_BYTES, LOW_WATER_BYTES)
        if self._probes:
            keep_alive(transport.get_extra_info("socket"))
        self._buffer = read_buffer(self.read_bytes)

    def pause_soon(self) -> None:
        """Read nothing until that is wanted."""
        # With uvloop, reading begins after `connection_made`, and a pause there has no effect.
        if not self._reads:
            asyncio.get_running_loop().call_soon(self._pause_if_unwanted)

    def _pause_if_unwanted(self) -> None:
        if not self._reads:
            self.transport.pause_reading()

    def _resume_if_wanted(self) -> None:
        if self._reads and not self._is_lost:
            self.transport.resume_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        # More may have arrived, and uvloop reads up to 32 times before it serves anything else.
        end = monotonic() + TURN_SECONDS / 2 if nbytes == len(self._buffer) else inf
        self.events.received(self._buffer[:nbytes])
        if not self._reads:
            self.transport.pause_reading()  # uvloop reads before `call_soon`
        elif end < inf and monotonic() > end:
            self.transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._resume_if_wanted)
        meter = self._meter
        meter.traffic += nbytes
        if meter.traffic >= meter.check_at:
            meter.check_soon()

    def eof_received(self) -> bool:
        self._has_ended = True
        self.events.received(b"")
        if self._is_finishing:
            self.close()
        return not self.transport.is_closing()  # sending continues

    def pause_writing(self) -> None:
        pass  # the connection reads `unwritten` instead

    def resume_writing(self) -> None:
        if self._is_finishing:
            asyncio.get_running_loop().call_soon(self._write_end)
        else:
            self.events.drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        if self._dropped is not None and not self._dropped.done():
            self._dropped.set_result(None)
        fault = self.fault or exc
        if fault is not None:
            fault.__traceback__ = None  # its frames refer to this channel
        self.events.lost(fault)


class LayeredChannel(Channel):
    """A channel over the channel of a socket, such as TLS and WebSocket. It begins with a handshake.

    Attributes:
        socket: The channel below.
        socket_events: What that calls.
        handshake: Whether the handshake succeeded, when that is known.
    """

    writes_lone_frames = True
    events: Events
    handshake: asyncio.Future[bool]

    def __init__(self, socket: SocketOrLayer) -> None:
        self.socket: SocketOrLayer = socket
        self.is_accepted: bool = socket.is_accepted
        self.socket_events: Events = Events(self._received, self._drained, self._socket_lost)
        socket.events = self.socket_events

    @property
    def name(self) -> str:
        return self.socket.name

    async def open(self, events: Events) -> None:
        self.events = events  # a server's channel: whoever serves it waits for the handshake first

    async def shake_hands(self, begin: Callable[[], None]) -> bool:
        """Open the channel of a client below this one, and wait for the handshake. Return whether it succeeded.

        Args:
            begin: Sends the first data.
        """
        await self.socket.open(self.socket_events)
        is_open = False
        try:
            self.socket.set_reading(True)
            begin()
            is_open = await self.handshake
        finally:
            if not is_open:
                await self.socket.drop()
        return is_open

    async def drop(self) -> None:
        """Do what `SocketChannel.drop` does."""
        await self.socket.drop()

    @property
    def unwritten(self) -> int:
        return self.socket.unwritten

    def _received(self, data: Any) -> None:
        raise NotImplementedError

    def _drained(self) -> None:
        self.events.drained()

    def _socket_lost(self, fault: Exception | None) -> None:
        raise NotImplementedError


SocketOrLayer: TypeAlias = SocketChannel | LayeredChannel


class SocketTransport(Connection):
    """The common base of TCP, Unix and WebSocket connections.

    Attributes:
        socket: The channel of the socket. The transport's channel may be one over it.
        released: Called when the connection is closed, by the server that accepted it; None for a client's.
    """

    waits_for_peer = True
    channel: SocketOrLayer
    released: Callable[[SocketTransport], None] | None = None
    _connect_seconds: float | None = None  # of clients
    _peer: Any = None
    _heartbeat: Heartbeat | None = None

    def __init__(self, channel: SocketOrLayer, **options: Unpack[TransportOptions]) -> None:
        options.setdefault("max_faults", MAX_FAULTS)
        super().__init__(channel, **options)
        # Before `open`: a server's channel has its socket, and can lose it, before it is opened.
        channel.events = self.channel_events
        while isinstance(channel, LayeredChannel):
            channel = channel.socket
        self.socket: SocketChannel = channel

    async def connect(self) -> None:
        opening = super().connect()
        await (opening if self._connect_seconds is None else within(self._connect_seconds, opening))

    def begin(self) -> None:
        super().begin()
        if self._heartbeat is not None and not self.is_closing:
            self._heartbeat.start()

    def _limit_closing(self, seconds: float | None) -> None:
        if self.channel is not self.socket or not self.socket.ends_at_once:
            super()._limit_closing(seconds)

    def closed(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None  # it refers to this connection
        if self.released is not None:
            self.released(self)
            del self.released

    @property
    def peer(self) -> Any:
        """The peer: the address of a TCP socket, the `PeerCredentials` of a Unix socket on Linux.

        None before `connect`, or if it is not known.
        """
        if self._peer is None and self.socket.transport is not None:
            address = self.socket.info("peername")
            self._peer = address if isinstance(address, tuple) else _peer_credentials(self.socket.transport)
        return self._peer

    @property
    def peer_certificate(self) -> dict[str, Any] | None:
        """The verified certificate of the peer, as `ssl.SSLSocket.getpeercert` returns it.

        None without TLS, or if the peer sent none: a server requests one if its context has `verify_mode` set.
        """
        return None if self.socket.tls is None else self.socket.tls.getpeercert() or None


class StreamTransport(SocketTransport):
    """A transport of bytes over a socket: `TcpClient`, `UnixClient`, or a connection that a server accepted.

    Args:
        channel: The channel: the socket's, or TLS over it.
        idle_seconds: A connection on which nothing arrives for this time, or up to an eighth longer, is aborted. Time
            in which this side does not read is not counted. None: without limit.
        options: Options of `Connection`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    def __init__(
        self, channel: SocketOrLayer, *, idle_seconds: float | None = None, **options: Unpack[TransportOptions]
    ) -> None:
        super().__init__(channel, **options)
        if idle_seconds is not None:
            check_seconds("idle_seconds", idle_seconds)
            fault = ConnectionLost(f"nothing arrived for {idle_seconds} seconds")
            self._heartbeat = Heartbeat(idle_seconds / 2, self, lambda _: None, partial(self.abort, fault))


async def within(seconds: float | None, opening: Coroutine[Any, Any, None]) -> None:
    """Open a connection in a limited time.

    Raises:
        TimeoutError: It took too long.
    """
    try:
        await asyncio.wait_for(opening, seconds)
    # Before Python 3.11 it is a separate class, not an OSError like TimeoutError.
    except TimeoutError:
        raise TimeoutError(f"the connection was not open after {seconds} seconds") from None


def _peer_credentials(channel: Any) -> PeerCredentials | None:
    """Return the credentials that the kernel gives for the peer of a Unix socket; None but on Linux with CPython."""
    connected = channel.get_extra_info("socket")
    if sys.platform != "linux" or not hasattr(socket, "SO_PEERCRED") or connected is None:
        return None
    try:
        found = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:  # the socket is closed
        return None
    return PeerCredentials(*struct.unpack("3i", found))


def keep_alive(connected: Any) -> None:
    """Let the system probe the peer of a TCP socket."""
    if connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):  # closed already
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # A lost machine is noticed after two minutes: the first probe after 60 seconds without traffic, and 4 of them,
        # 15 seconds apart. The defaults of Linux are two hours, 9 probes and 75 seconds (tcp(7)).
        for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
            if hasattr(socket, name):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _Buffers(threading.local):
    """The read buffer of each thread, and its beginnings by their sizes."""

    def __init__(self) -> None:
        self.by_size: dict[int, memoryview] = {READ_BYTES: _new_buffer(READ_BYTES)}


def _new_buffer(size: int) -> memoryview:
    if sys.platform == "win32":
        return memoryview(bytearray(size))
    # Not a bytearray, which is filled with zeros, so that all of its memory is allocated at once.
    return memoryview(mmap.mmap(-1, size, mmap.MAP_PRIVATE))


_buffers: Final = _Buffers()


def read_buffer(size: int = READ_BYTES) -> memoryview:
    """Return the buffer into which a connection reads: all connections of a thread have the same one.

    A loop of selectors reads and reports in one callback, and whoever gets the data copies what it keeps. Only the
    proactor of Windows reads while other callbacks run, so that each connection has a buffer of its own there.
    """
    if sys.platform == "win32":
        return _new_buffer(size)
    views = _buffers.by_size
    return views.get(size) or views.setdefault(size, views[READ_BYTES][:size])


def is_abstract(path: str | bytes) -> bool:
    """Return whether a path is a name in Linux's abstract namespace, which uvloop does not support."""
    return os.fsdecode(path).startswith("\0")


def socket_path(path: str | os.PathLike[str]) -> str:
    """Return the path of a Unix socket as a str. Raises TypeError, and ValueError if it is empty or as in
    `checked_path`."""
    text = checked_path("path", path, at=1)
    if not text:
        raise ValueError("path must not be empty")
    return text
