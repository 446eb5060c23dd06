"""Transports over a socket, the same for clients and for the connections of a server.

Rules:
  - A connection that closes writes what was accepted, half-closes the socket and waits for the peer to do the same.
    Closing with unread data would reset the connection, and the peer could lose what was sent to it. TLS half-closes
    with its close_notify (see tls.py).
  - A connection is closed after MAX_FAULTS invalid messages, unless `max_faults` is given.
  - Small messages leave at once (TCP_NODELAY, which asyncio sets).
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
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from ..._checks import check_seconds, check_type
from ..._typing import Unpack
from ...errors import ConnectionLost
from ..channel import LOW_WATER_BYTES, Channel, Events
from ..connection import Connection
from ..options import MAX_FAULTS, MessageOptions, TransportOptions

READ_BYTES: Final = 256 * 1024
"""How many bytes are read from a socket at a time. A message that arrives in one piece is decoded in place.

Each connection has a buffer of this size, of which the system allocates only the used part (not on Windows).
"""

# A lost machine is noticed after two minutes. The defaults of Linux are two hours, 75 seconds and 9 probes (tcp(7)).
KEEPALIVE_SECONDS: Final = 60
"""After this time without traffic, the system probes a TCP peer."""
KEEPALIVE_INTERVAL: Final = 15
"""Seconds between two probes."""
KEEPALIVE_PROBES: Final = 4
"""After this many probes without a response the connection is lost."""

_PEER_OPTION: Final[int | None] = getattr(socket, "SO_PEERCRED", None)  # Linux
_PEER_FORMAT: Final = struct.Struct("3i")


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


class MessageSocketOptions(MessageOptions, total=False):
    """Keyword options of every transport over a socket; `SocketTransport` describes them."""

    idle_seconds: float | None


class SocketOptions(MessageSocketOptions, TransportOptions, total=False):
    """Keyword options of transports of bytes over a socket; `SocketTransport` and `Connection` describe them."""


Connect = Callable[[asyncio.BufferedProtocol], Awaitable[None]]
"""Connects a protocol to a server."""


class SocketChannel(Channel, asyncio.BufferedProtocol):
    """A channel over a socket: the protocol of an asyncio transport.

    Args:
        connect: Opens the channel; None for one that a server accepts.

    Attributes:
        transport: The transport of asyncio; None before the connection is made.
        events: What the channel calls; a server sets them before it accepts the connection.
        idle_seconds: After this time in which nothing arrives, the channel is aborted. Time in which it is not read
            does not count. None: without limit.
        on_idle: Called to abort it then, with the reason.
        fault: Why the channel was aborted here; None if it was not, or without a reason.
    """

    writes_lone_frames = True
    events: Events

    def __init__(self, connect: Connect | None = None) -> None:
        self.transport: Any = None
        self.idle_seconds: float | None = None
        self.on_idle: Callable[[ConnectionLost], None] = self.abort_because
        self.fault: Exception | None = None
        self._connect = connect
        self._buffer: memoryview
        self._reads = False
        self._heard = 0.0  # when something last arrived, or reading began; only with `idle_seconds`
        self._idle_timer: asyncio.TimerHandle | None = None
        self._has_ended = False  # the peer's stream
        self._is_finishing = False  # the socket is half-closed when all is written
        self._is_lost = False

    @property
    def name(self) -> str:
        address = self.info("peername")
        return f"connection with {address[0]}:{address[1]}" if isinstance(address, tuple) else "connection"

    def info(self, name: str) -> Any:
        """Return what the transport of asyncio knows by this name; None before the connection is made."""
        return None if self.transport is None else self.transport.get_extra_info(name)

    # The methods of a channel.

    async def open(self, events: Events) -> None:
        self.events = events
        if self._connect is not None:
            self.transport = None  # that of an attempt that failed
            await self._connect(self)
        elif self.transport.is_closing():
            raise ConnectionResetError("the peer closed the connection")

    def write(self, data: bytes) -> None:
        transport = self.transport
        if not transport.is_closing():  # the loss is about to be reported; asyncio would log each write
            transport.write(data)

    @property
    def unwritten(self) -> int:
        unwritten: int = self.transport.get_write_buffer_size()
        return unwritten

    def set_reading(self, on: bool) -> None:
        self._reads = on
        if on:
            self.count_sign()
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def finish(self) -> None:
        # A half-closed socket still reads: what the peer has sent before it sees the end is not lost, and an unread
        # byte does not turn the close into a reset, which would drop what is on its way to the peer.
        if self._has_ended or not self.transport.can_write_eof():
            self.transport.close()
            return
        self.set_reading(True)
        self._end_when_written()

    def abort(self) -> None:
        if self.transport is not None and not self._is_lost:  # asyncio would report the loss again, and fail
            self.transport.abort()

    def abort_because(self, fault: Exception) -> None:
        """Abort, and report a fault as the reason."""
        self.fault = self.fault or fault
        self.abort()

    def _end_when_written(self) -> None:
        """Half-close the socket when all is written: asyncio would do it later, and keep the error of the system."""
        self._is_finishing = True
        # With the limit 0, asyncio calls `resume_writing` when the buffer is empty.
        if self.unwritten:
            self.transport.set_write_buffer_limits(0)
        else:
            self._write_end()

    def _write_end(self) -> None:
        transport = self.transport
        if self._is_lost or transport.is_closing():
            return
        try:
            transport.write_eof()
        except OSError as fault:  # the peer has reset the connection
            self.abort_because(fault)

    # The events of asyncio.

    def connection_made(self, transport: Any) -> None:  # uvloop's class is not one of asyncio
        self.transport = transport
        self._is_lost = self._has_ended = self._is_finishing = False
        # asyncio reports the fall to the low mark only if it has reported the rise above the high one.
        transport.set_write_buffer_limits(LOW_WATER_BYTES, LOW_WATER_BYTES)
        _keep_alive(transport.get_extra_info("socket"))
        self._buffer = read_buffer()
        # Before Python 3.11 and with uvloop, reading begins after this method, and a pause here has no effect.
        asyncio.get_running_loop().call_soon(self._pause_if_unwanted)
        if self.idle_seconds is not None:
            self.count_sign()
            self._watch_idle()

    def _pause_if_unwanted(self) -> None:
        if not self._reads:
            self.transport.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.count_sign()
        self.events.received(self._buffer[:nbytes])
        if not self._reads:
            self.transport.pause_reading()  # uvloop reads before `call_soon`

    def eof_received(self) -> bool:
        self._has_ended = True
        self.events.received(b"")
        if self._is_finishing:
            self.transport.close()
        return True  # sending goes on

    def pause_writing(self) -> None:
        pass  # the connection asks for the unwritten bytes

    def resume_writing(self) -> None:
        if self._is_finishing:
            asyncio.get_running_loop().call_soon(self._write_end)
        else:
            self.events.drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self.events.lost(self.fault or exc)

    def count_sign(self) -> None:
        """Note that the peer may be silent for `idle_seconds` from now on."""
        if self.idle_seconds is not None:
            self._heard = asyncio.get_running_loop().time()

    def _watch_idle(self) -> None:
        """Abort a channel on which nothing has arrived: a silent peer closes nothing."""
        assert self.idle_seconds is not None
        loop = asyncio.get_running_loop()
        if not self._reads:
            self._heard = loop.time()
        left = self._heard + self.idle_seconds - loop.time()
        if left > 0:
            self._idle_timer = loop.call_later(left, self._watch_idle)
        else:
            self.on_idle(ConnectionLost(f"nothing arrived for {self.idle_seconds} seconds"))


class SocketTransport(Connection):
    """What TCP, Unix and WebSocket connections have in common.

    Args:
        channel: The channel.
        socket: The channel over the socket: `channel` itself, or the one below it.
        idle_seconds: A connection on which nothing arrives for this time is aborted. Time in which this side does not
            read does not count. None: without limit.
        options: Options of `Connection`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    waits_for_peer = True

    def __init__(
        self,
        channel: Channel,
        socket: SocketChannel,
        *,
        idle_seconds: float | None = None,
        **options: Unpack[TransportOptions],
    ) -> None:
        options.setdefault("max_faults", MAX_FAULTS)
        super().__init__(channel, **options)
        check_seconds("idle_seconds", idle_seconds)
        socket.idle_seconds = idle_seconds
        self.socket = socket
        self._peer: Any = None

    @property
    def peer_address(self) -> Any:
        """The peer's address in the format of the `socket` module; None before `connect`."""
        return self.socket.info("peername")

    @property
    def peer(self) -> Any:
        """Who is at the other end: the address of a TCP socket, the `PeerCredentials` of a Unix socket on Linux.

        None before `connect`, and if it is not known.
        """
        if self._peer is None and self.socket.transport is not None:
            address = self.peer_address
            self._peer = address if isinstance(address, tuple) else _peer_credentials(self.socket.transport)
        return self._peer

    @property
    def peer_certificate(self) -> dict[str, Any] | None:
        """The verified certificate of the peer, as `ssl.SSLSocket.getpeercert` returns it.

        None without TLS, and if the peer sent none: a server asks for one if its context has `verify_mode` set.
        """
        return self.socket.info("peercert") or None


class StreamTransport(SocketTransport):
    """A transport of bytes over a socket: `TcpClient`, `UnixClient`, or a connection that a server accepted.

    Args:
        channel: The channel.
        options: Options of `SocketTransport` and `Connection`.
    """

    channel: SocketChannel

    def __init__(self, channel: SocketChannel, **options: Unpack[SocketOptions]) -> None:
        super().__init__(channel, channel, **options)
        channel.events = self.channel_events


def _peer_credentials(channel: Any) -> PeerCredentials | None:
    """Return the credentials of the peer of a Unix socket, as the kernel vouches for them; None outside of Linux.

    Args:
        channel: An asyncio transport.
    """
    connected = channel.get_extra_info("socket")
    if _PEER_OPTION is None or connected is None:
        return None
    try:
        return PeerCredentials(
            *_PEER_FORMAT.unpack(connected.getsockopt(socket.SOL_SOCKET, _PEER_OPTION, _PEER_FORMAT.size))
        )
    except OSError:  # the socket is closed
        return None


def _keep_alive(connected: Any) -> None:
    """Let the system probe the peer of a TCP socket."""
    if connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):  # closed already
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", KEEPALIVE_SECONDS),
            ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL),
            ("TCP_KEEPCNT", KEEPALIVE_PROBES),
        ):
            if hasattr(socket, name):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def read_buffer(size: int = READ_BYTES) -> memoryview:
    """Return the buffer that a connection is read into.

    asyncio would allocate READ_BYTES for each chunk: depending on the heap that takes three calls of the system.
    """
    if sys.platform == "win32":
        return memoryview(bytearray(size))
    # A bytearray is filled with zeros, which allocates all of its memory at once.
    return memoryview(mmap.mmap(-1, size, mmap.MAP_PRIVATE))


def is_abstract(path: str | bytes) -> bool:
    """Return whether a path is a name in Linux's abstract namespace, which uvloop does not support."""
    return os.fsdecode(path).startswith("\0")


def socket_path(path: str | os.PathLike[str]) -> str:
    """Return the path of a Unix socket as a str.

    Raises:
        TypeError: It is not a path.
        ValueError: It is empty, or has a NUL after its beginning.
    """
    check_type("path", path, str, os.PathLike)
    text = os.fspath(path)
    check_type("path", text, str)
    if not text:
        raise ValueError("path must not be empty")
    if "\0" in text[1:] and not is_abstract(text):
        raise ValueError("path must not hold a NUL after its beginning")
    return text
