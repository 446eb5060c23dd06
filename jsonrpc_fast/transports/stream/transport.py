"""A transport over a socket, the same for clients and for the connections of a server.

Rules:
  - A connection that closes writes what was accepted, half-closes the socket and waits for the peer to do the same.
    Closing with unread data would reset the connection, and the peer could lose what was sent to it.
  - A connection is closed after MAX_FAULTS invalid messages, unless `max_faults` is given.
  - Small messages leave at once (TCP_NODELAY, which asyncio sets).
"""

from __future__ import annotations

import asyncio
import mmap
import os
import sys
from typing import TYPE_CHECKING, Any, Final, cast

from ..base import HIGH_WATER_BYTES, LOW_WATER_BYTES, ByteTransport, State
from ..options import TransportOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

READ_BYTES: Final = 256 * 1024
"""How many bytes are read from a socket at a time. A message that arrives in one piece is decoded in place.

Each connection has a buffer of this size, of which the system allocates only the used part (not on Windows).
"""

MAX_FAULTS: Final = 1000
"""The default of `max_faults`."""


class StreamTransport(ByteTransport):
    """A transport over a socket: `TcpClient`, `UnixClient`, or a connection that a server accepted."""

    waits_for_peer = True
    _channel: asyncio.Transport

    def __init__(self, **options: Unpack[TransportOptions]) -> None:
        options.setdefault("max_faults", MAX_FAULTS)
        super().__init__(**options)
        self._is_channel_lost = False
        self._is_finishing = False

    @property
    def peer_address(self) -> Any:
        """The peer's address in the format of the `socket` module; None before `connect`."""
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
        if not self._channel.is_closing():  # the loss is about to be reported; asyncio would log each write
            self._channel.write(data)

    def _unwritten_bytes(self) -> int:
        return self._channel.get_write_buffer_size()

    def _finish(self) -> None:
        if self._has_ended or not self._channel.can_write_eof():
            self._channel.close()
            return
        self._is_finishing = True
        self._channel.resume_reading()
        # `write_eof` only when all is written: otherwise asyncio raises the system's error later, out of reach.
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
        if not self._is_channel_lost:  # asyncio would report the loss again, and fail
            self._channel.abort()

    def _set_blocked(self, is_blocked: bool) -> None:
        super()._set_blocked(is_blocked)
        if self._is_finishing and not is_blocked:
            self._loop.call_soon(self._write_end)

    def _end_received(self) -> None:
        super()._end_received()
        if self._state is State.CLOSING:
            self._channel.close()


def _buffer() -> memoryview:
    if sys.platform == "win32":
        return memoryview(bytearray(READ_BYTES))
    # A bytearray is filled with zeros, which allocates all of its memory at once.
    return memoryview(mmap.mmap(-1, READ_BYTES, mmap.MAP_PRIVATE))


class StreamProtocol(asyncio.BufferedProtocol):
    """Passes the events of an asyncio transport to a `StreamTransport`."""

    def __init__(self, transport: StreamTransport) -> None:
        self._transport = transport
        self._buffer = _buffer()

    def connection_made(self, channel: asyncio.BaseTransport) -> None:
        channel = cast("asyncio.Transport", channel)  # uvloop's class is not a subclass
        self._transport._channel = channel
        channel.set_write_buffer_limits(HIGH_WATER_BYTES, LOW_WATER_BYTES)
        # Before Python 3.11 and with uvloop, reading begins after this method, and a pause here has no effect.
        asyncio.get_running_loop().call_soon(self._pause_if_not_started)

    def _pause_if_not_started(self) -> None:
        if self._transport._state in (State.IDLE, State.CONNECTING, State.CONNECTED):
            self._transport._channel.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        transport = self._transport
        transport._bytes_received(self._buffer[:nbytes])
        if not transport._may_deliver:
            self._pause_if_not_started()  # uvloop reads before `call_soon`

    def eof_received(self) -> bool:
        self._transport._end_received()
        return True  # sending goes on

    def pause_writing(self) -> None:
        self._transport._set_blocked(True)

    def resume_writing(self) -> None:
        self._transport._set_blocked(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport._is_channel_lost = True
        self._transport._channel_lost(exc or self._transport._fault)


def is_abstract(path: str | bytes) -> bool:
    """Return whether a path is a name in Linux's abstract namespace, which uvloop does not support."""
    return os.fsdecode(path).startswith("\0")
