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
import sys
from typing import TYPE_CHECKING, Any, Final, cast

from ..._checks import check_seconds, check_type
from ...errors import ConnectionLost
from ..base import HIGH_WATER_BYTES, LOW_WATER_BYTES, BaseTransport, State
from ..byte_transport import ByteTransport
from ..options import MessageOptions, TransportOptions
from .credentials import peer_credentials

if TYPE_CHECKING:
    from typing_extensions import Unpack

READ_BYTES: Final = 256 * 1024
"""How many bytes are read from a socket at a time. A message that arrives in one piece is decoded in place.

Each connection has a buffer of this size, of which the system allocates only the used part (not on Windows).
"""

MAX_FAULTS: Final = 1000
"""The default of `max_faults`."""

KEEPALIVE_SECONDS: Final = 60
"""After this time without traffic, the system probes a TCP peer."""
KEEPALIVE_INTERVAL: Final = 15
"""Seconds between two probes."""
KEEPALIVE_PROBES: Final = 4
"""After as many probes without an answer, the connection is lost."""


class MessageSocketOptions(MessageOptions, total=False):
    """Keyword options of every transport over a socket; `SocketTransport` describes them."""

    idle_seconds: float | None


class SocketOptions(TransportOptions, total=False):
    """Keyword options of transports of bytes over a socket; `SocketTransport` and `ByteTransport` describe them."""

    idle_seconds: float | None


class SocketTransport(BaseTransport):
    """What TCP, Unix and WebSocket connections have in common.

    Args:
        idle_seconds: A connection on which nothing arrives for this time is aborted. Time in which this side does not
            read does not count. None: without limit.
        options: Options of `BaseTransport`, and of the other base of a subclass.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    waits_for_peer = True
    writes_lone_frames = True
    _channel: asyncio.Transport

    def __init__(self, *, idle_seconds: float | None = None, **options: Unpack[MessageOptions]) -> None:
        options.setdefault("max_faults", MAX_FAULTS)
        super().__init__(**options)
        check_seconds("idle_seconds", idle_seconds)
        self._idle_seconds = idle_seconds
        self._idle_timer: asyncio.TimerHandle | None = None
        self._is_channel_lost = False
        self._is_finishing = False
        self._peer: Any = None

    @property
    def peer_address(self) -> Any:
        """The peer's address in the format of the `socket` module; None before `connect`."""
        channel = getattr(self, "_channel", None)
        return None if channel is None else channel.get_extra_info("peername")

    @property
    def peer(self) -> Any:
        """Who is at the other end: the address of a TCP socket, the `PeerCredentials` of a Unix socket on Linux.

        None before `connect`, and if it is not known.
        """
        if self._peer is None:
            channel = getattr(self, "_channel", None)
            if channel is not None:
                address = self.peer_address
                self._peer = address if isinstance(address, tuple) else peer_credentials(channel)
        return self._peer

    @property
    def peer_certificate(self) -> dict[str, Any] | None:
        """The verified certificate of the peer, as `ssl.SSLSocket.getpeercert` returns it.

        None without TLS, and if the peer sent none: a server asks for one if its context has `verify_mode` set.
        """
        channel = getattr(self, "_channel", None)
        return None if channel is None else channel.get_extra_info("peercert") or None

    def channel_name(self) -> str:
        address = self.peer_address
        return f"connection with {address[0]}:{address[1]}" if isinstance(address, tuple) else "connection"

    def set_reading(self, wanted: bool) -> None:
        if wanted:
            self._channel.resume_reading()
        else:
            self._channel.pause_reading()

    def unwritten_bytes(self) -> int:
        return self._channel.get_write_buffer_size()

    def finish_channel(self) -> None:
        if self._has_ended or not self._channel.can_write_eof():
            self._channel.close()
            return
        self._channel.resume_reading()
        self._write_end_when_written()

    def _write_end_when_written(self) -> None:
        """Half-close the channel when all is written: otherwise asyncio raises the system's error out of reach."""
        self._is_finishing = True
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
            self.abort_channel()

    def abort_channel(self) -> None:
        if not self._is_channel_lost:  # asyncio would report the loss again, and fail
            self._channel.abort()

    def set_blocked(self, is_blocked: bool) -> None:
        super().set_blocked(is_blocked)
        if self._is_finishing and not is_blocked:
            self._loop.call_soon(self._write_end)

    def end_received(self) -> None:
        super().end_received()
        if self._state is State.CLOSING:
            self._channel.close()

    def release_channel(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()

    def _begin_channel(self, channel: asyncio.Transport) -> None:
        """Take a channel that was just opened."""
        self._channel = channel
        channel.set_write_buffer_limits(HIGH_WATER_BYTES, LOW_WATER_BYTES)
        _keep_alive(channel.get_extra_info("socket"))
        if self._idle_seconds is not None:
            self._watch_idle(-1)

    def _watch_idle(self, chunks: int) -> None:
        """Abort a connection on which nothing arrived since there were `chunks`: a silent peer closes nothing."""
        if chunks == self._chunks and self._is_reading and self._fault is None:
            self._abort_idle(ConnectionLost(f"nothing arrived for {self._idle_seconds} seconds"))
            return
        assert self._idle_seconds is not None
        loop = asyncio.get_running_loop()
        self._idle_timer = loop.call_later(self._idle_seconds, self._watch_idle, self._chunks)

    def _abort_idle(self, fault: ConnectionLost) -> None:
        self._break(fault)
        self.abort_channel()


class StreamTransport(SocketTransport, ByteTransport):
    """A transport of bytes over a socket: `TcpClient`, `UnixClient`, or a connection that a server accepted."""

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[SocketOptions]) -> None: ...

    def write_bytes(self, data: bytes) -> None:
        if not self._channel.is_closing():  # the loss is about to be reported; asyncio would log each write
            self._channel.write(data)


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


class StreamProtocol(asyncio.BufferedProtocol):
    """Passes the events of an asyncio transport to a `StreamTransport`."""

    def __init__(self, transport: StreamTransport) -> None:
        self._transport = transport
        self._buffer: memoryview

    def connection_made(self, channel: asyncio.BaseTransport) -> None:
        channel = cast("asyncio.Transport", channel)  # uvloop's class is not a subclass
        self._transport._begin_channel(channel)
        self._buffer = read_buffer()
        # Before Python 3.11 and with uvloop, reading begins after this method, and a pause here has no effect.
        asyncio.get_running_loop().call_soon(self._pause_if_not_started)

    def _pause_if_not_started(self) -> None:
        if self._transport._state in (State.IDLE, State.CONNECTING, State.CONNECTED):
            self._transport._channel.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        transport = self._transport
        transport.receive(self._buffer[:nbytes])
        if not transport._may_deliver:
            self._pause_if_not_started()  # uvloop reads before `call_soon`

    def eof_received(self) -> bool:
        self._transport.end_received()
        return True  # sending goes on

    def pause_writing(self) -> None:
        self._transport.set_blocked(True)

    def resume_writing(self) -> None:
        self._transport.set_blocked(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport._is_channel_lost = True
        self._transport.channel_lost(exc)


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
