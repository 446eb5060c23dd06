"""Two transports that are connected to each other in one loop: for tests, and for a server inside its client.

What goes from one to the other is bytes, framed as on a wire. They are carried by the loop, never from inside `send`.
"""

from __future__ import annotations

import errno
from collections import deque
from typing import TYPE_CHECKING

from .base import HIGH_WATER_BYTES, LOW_WATER_BYTES, READ_BYTES, ByteTransport, Options, State

if TYPE_CHECKING:
    from typing_extensions import Unpack


def memory_pair(**options: Unpack[Options]) -> tuple[MemoryTransport, MemoryTransport]:
    """Two ends of one channel. options: those of `ByteTransport`, for both ends.

    Each end is connected and started on its own; what is sent to one that is not yet started waits in the channel.
    """
    one, other = MemoryTransport(**options), MemoryTransport(**options)
    one._peer, other._peer = other, one
    return one, other


class MemoryTransport(ByteTransport):
    """One end of a pair; `memory_pair` makes both."""

    waits_for_peer = True

    def __init__(self, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self._peer: MemoryTransport
        self._wire: deque[memoryview] = deque()  # what this end wrote and the other one did not read
        self._wire_bytes = 0
        self._wire_has_ended = False
        self._saw_end = False  # of the other one's wire
        self._wants_bytes = False
        self._is_taking = False
        self._is_flushing = False
        self._is_receiving = False

    async def _open(self) -> None:
        if self._peer._state is State.CLOSED:
            raise ConnectionRefusedError("the other end is closed")

    def _label(self) -> str:
        return "memory"

    def _read_channel(self, wanted: bool) -> None:
        self._wants_bytes = wanted
        self._take_soon()

    def _write(self, data: bytes) -> None:
        if self._peer._state is State.CLOSED:
            if self._saw_end:  # else the end is on its way here
                self._loop.call_soon(self._lost, BrokenPipeError(errno.EPIPE, "the other end is closed"))
            return
        if self._is_flushing and self._peer._receives(data):
            return
        self._wire.append(memoryview(data))
        self._wire_bytes += len(data)
        if self._wire_bytes > HIGH_WATER_BYTES and not self._is_blocked:
            self._block(True)
        self._peer._take_soon()

    def _flush(self) -> None:
        self._is_flushing = True
        try:
            super()._flush()
        finally:
            self._is_flushing = False

    def _receives(self, data: bytes) -> bool:
        """Takes bytes at once, without another turn of the loop.

        Not while it is receiving: two ends that answer each other would go ever deeper.
        """
        if self._is_receiving or not self._wants_bytes or self._peer._wire or len(data) > READ_BYTES:
            return False
        self._is_receiving = True
        try:
            self._bytes_received(data)
        finally:
            self._is_receiving = False
        return True

    def _unwritten_bytes(self) -> int:
        return self._wire_bytes

    def _finish(self) -> None:
        self._wire_has_ended = True
        self._peer._take_soon()
        self._read_channel(True)
        self._judge_end()

    def _abort(self) -> None:
        self._loop.call_soon(self._lost, self._fault)

    def _put_away(self) -> None:
        self._wire_has_ended = True
        if not self._peer._saw_end:
            self._wire_bytes = 0
            self._wire.clear()
        self._wants_bytes = False
        self._peer._take_soon()
        self._peer._judge_end()

    def _take_soon(self) -> None:
        """Has the loop bring what the other end wrote."""
        if self._wants_bytes and not self._is_taking:
            self._is_taking = True
            self._loop.call_soon(self._take)

    def _take(self) -> None:
        self._is_taking = False
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
                peer._block(False)
            self._bytes_received(data)
            self._take_soon()
        elif peer._wire_has_ended:
            self._wants_bytes = False
            self._saw_end = True
            self._end_received()
            self._judge_end()
            peer._judge_end()

    def _judge_end(self) -> None:
        """Closes this end for good when nothing can come or go any more."""
        nothing_goes = self._wire_has_ended and (not self._wire or self._peer._state is State.CLOSED)
        nothing_comes = self._saw_end or self._peer._state is State.CLOSED
        if self._state is State.CLOSING and nothing_goes and nothing_comes:
            self._abort()
