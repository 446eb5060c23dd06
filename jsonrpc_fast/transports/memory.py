"""Two transports connected to each other in one event loop: for tests, and for a server inside its client.

They exchange bytes, framed as on a wire. The loop moves these bytes; nothing is delivered inside `send`.
"""

from __future__ import annotations

import errno
from collections import deque
from typing import TYPE_CHECKING

from .base import HIGH_WATER_BYTES, LOW_WATER_BYTES, READ_BYTES, State
from .byte_transport import ByteTransport
from .options import TransportOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


def memory_pair(**options: Unpack[TransportOptions]) -> tuple[MemoryTransport, MemoryTransport]:
    """Return the two ends of one channel.

    Each end is connected and started separately. Messages sent to an end that is not started wait in the channel.

    Args:
        options: Options of `ByteTransport`, for both ends.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """
    one, other = MemoryTransport(**options), MemoryTransport(**options)
    one._peer, other._peer = other, one
    return one, other


class MemoryTransport(ByteTransport):
    """One end of a channel made by `memory_pair`."""

    waits_for_peer = True

    def __init__(self, **options: Unpack[TransportOptions]) -> None:
        super().__init__(**options)
        self._peer: MemoryTransport
        self._wire: deque[memoryview] = deque()  # written by this end, not yet read by the other
        self._wire_bytes = 0
        self._wire_has_ended = False
        self._saw_end = False  # of the other end's wire
        self._wants_bytes = False
        self._is_read_due = False
        self._is_flushing = False
        self._is_receiving = False

    async def open_channel(self) -> None:
        if self._peer._state is State.CLOSED:
            raise ConnectionRefusedError("the other end is closed")

    def channel_name(self) -> str:
        return "memory"

    def set_reading(self, wanted: bool) -> None:
        self._wants_bytes = wanted
        self._schedule_read()

    def write_bytes(self, data: bytes) -> None:
        if self._peer._state is State.CLOSED:
            if self._saw_end:  # otherwise the end is still to arrive
                self._loop.call_soon(self.channel_lost, BrokenPipeError(errno.EPIPE, "the other end is closed"))
            return
        if self._is_flushing and self._peer._receive_now(data):
            return
        self._wire.append(memoryview(data))
        self._wire_bytes += len(data)
        if self._wire_bytes > HIGH_WATER_BYTES and not self._is_blocked:
            self.set_blocked(True)
        self._peer._schedule_read()

    def _flush(self) -> None:
        self._is_flushing = True
        try:
            super()._flush()
        finally:
            self._is_flushing = False

    def _receive_now(self, data: bytes) -> bool:
        """Receive bytes without another turn of the loop, if possible. Return whether it was.

        Not while receiving: two ends that reply to each other would recurse without bound.
        """
        if self._is_receiving or not self._wants_bytes or self._peer._wire or len(data) > READ_BYTES:
            return False
        self._is_receiving = True
        try:
            self.receive(data)
        finally:
            self._is_receiving = False
        return True

    def unwritten_bytes(self) -> int:
        return self._wire_bytes

    def finish_channel(self) -> None:
        self._wire_has_ended = True
        self._peer._schedule_read()
        self.set_reading(True)
        self._close_if_done()

    def abort_channel(self) -> None:
        self._loop.call_soon(self.channel_lost)

    def release_channel(self) -> None:
        self._wire_has_ended = True
        if not self._peer._saw_end:
            self._wire_bytes = 0
            self._wire.clear()
        self._wants_bytes = False
        self._peer._schedule_read()
        self._peer._close_if_done()

    def _schedule_read(self) -> None:
        """Schedule the reading of what the other end wrote."""
        if self._wants_bytes and not self._is_read_due:
            self._is_read_due = True
            self._loop.call_soon(self._read_wire)

    def _read_wire(self) -> None:
        self._is_read_due = False
        if not self._wants_bytes:
            return
        peer = self._peer
        if peer._wire:
            data = peer._wire.popleft()
            if len(data) > READ_BYTES:
                peer._wire.appendleft(data[READ_BYTES:])
                data = data[:READ_BYTES]
            peer._wire_bytes -= len(data)
            if peer._is_blocked and peer._wire_bytes <= LOW_WATER_BYTES:
                peer.set_blocked(False)
            self.receive(data)
            self._schedule_read()
        elif peer._wire_has_ended:
            self._wants_bytes = False
            self._saw_end = True
            self.end_received()
            self._close_if_done()
            peer._close_if_done()

    def _close_if_done(self) -> None:
        """Close this end when nothing more can arrive or leave."""
        is_written = self._wire_has_ended and (not self._wire or self._peer._state is State.CLOSED)
        is_read = self._saw_end or self._peer._state is State.CLOSED
        if self._state is State.CLOSING and is_written and is_read:
            self.abort_channel()
