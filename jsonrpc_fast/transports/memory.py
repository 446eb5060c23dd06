"""Two transports connected to each other in one event loop: for tests, and for a server inside its client.

They exchange bytes, framed as on a wire. The loop moves these bytes; nothing is delivered inside `send`.

Rules:
  - An end keeps what it has written (`_wire`) until the other end reads it, one chunk in a turn of the loop.
  - An end that has finished is lost when its wire is empty and it has seen the end of the other wire, so that both
    sides get what was written before either closed.
  - A lost end accepts no more data. Data written to it is dropped, and the writer is lost when it notices.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from typing import Unpack

from .channel import READ_BYTES, Channel, Events
from .connection import Connection
from .protocol import TransportOptions


def memory_pair(**options: Unpack[TransportOptions]) -> tuple[MemoryTransport, MemoryTransport]:
    """Return the two ends of one channel.

    Each end is connected and started separately. Messages sent to an end that is not started wait in the channel.

    Args:
        options: Options of `Connection`, for both ends.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """
    one, other = MemoryChannel.pair()
    return MemoryTransport(one, **options), MemoryTransport(other, **options)


class MemoryChannel(Channel):
    """One end of a channel in memory. `other` is the other one."""

    other: MemoryChannel

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None  # set by `open`
        self._events: Events
        self._wire: deque[memoryview] = deque()  # written by this end, not yet read by the other
        self._unwritten = 0  # bytes of the wire
        self._has_finished = False  # nothing follows on the wire
        self._saw_end = False  # of the other end's wire
        self._reads = False
        self._is_read_due = False
        self._is_receiving = False  # inside `received`: data written meanwhile waits for the next turn
        self._is_lost = False  # `lost` was reported, or is about to be

    @classmethod
    def pair(cls) -> tuple[MemoryChannel, MemoryChannel]:
        """Return two ends of one channel; the first is of this class."""
        one, other = cls(), MemoryChannel()
        one.other, other.other = other, one
        return one, other

    @property
    def name(self) -> str:
        return "memory"

    async def open(self, events: Events) -> None:
        if self.other._is_lost:
            raise ConnectionRefusedError("the other end is closed")
        self._events = events
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes) -> None:
        if self.other._is_lost:
            if self._saw_end:  # otherwise the end is still to arrive
                assert self._loop is not None
                self._loop.call_soon(self._lose, BrokenPipeError(errno.EPIPE, "the other end is closed"))
            return
        # Small data is read in this turn of the loop. Larger data may come from inside `send`, where nothing may be
        # delivered: a connection writes there when WRITE_BYTES are queued.
        if len(data) < READ_BYTES and self.other._receive_now(data):
            return
        self._wire.append(memoryview(data))
        self._unwritten += len(data)
        self.other._schedule_read()

    @property
    def unwritten(self) -> int:
        return self._unwritten

    def set_reading(self, on: bool) -> None:
        self._reads = on
        self._schedule_read()

    def finish(self) -> None:
        self._has_finished = True
        self.other._schedule_read()
        self.set_reading(True)
        self._lose_if_done()

    def abort(self) -> None:
        if self._is_lost:
            return
        if self._loop is None:
            self._end()
        else:
            self._loop.call_soon(self._lose)

    def _receive_now(self, data: bytes) -> bool:
        """Receive bytes in this turn of the loop, if possible, and return whether it was possible.

        It is not while this end is receiving: two ends that respond to each other would recurse without bound.
        """
        if self._is_receiving or not self._reads or self.other._wire:
            return False
        self._is_receiving = True
        try:
            self._events.received(data)
        finally:
            self._is_receiving = False
        return True

    def _schedule_read(self) -> None:
        """Schedule the reading of the other end's wire."""
        if self._reads and not self._is_read_due and self._loop is not None:
            self._is_read_due = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._is_read_due = False
        if not self._reads:
            return
        other = self.other
        if other._wire:
            data = other._wire.popleft()
            # In chunks, like a socket, so that a reader that pauses leaves the rest with the writer.
            if len(data) > READ_BYTES:
                other._wire.appendleft(data[READ_BYTES:])
                data = data[:READ_BYTES]
            other._unwritten -= len(data)
            other._events.drained()  # in each step: a writer that waits may continue before this end has read all
            self._events.received(data)
            self._schedule_read()
        elif other._has_finished and not self._saw_end:
            self._reads = False
            self._saw_end = True
            self._events.received(b"")
            self._lose_if_done()
            other._lose_if_done()

    def _lose_if_done(self) -> None:
        """Close this end when it is finished, and nothing more can arrive or leave."""
        is_written = not self._wire or self.other._is_lost
        if self._has_finished and is_written and (self._saw_end or self.other._is_lost):
            self.abort()

    def _lose(self, fault: Exception | None = None) -> None:
        if not self._is_lost:
            self._end()
            self._events.lost(fault)

    def _end(self) -> None:
        self._is_lost = self._has_finished = True
        self._reads = False
        if not self.other._saw_end:
            self._unwritten = 0
            self._wire.clear()
        self.other._schedule_read()
        self.other._lose_if_done()


class MemoryTransport(Connection):
    """One end of a channel made by `memory_pair`.

    Args:
        channel: The channel.
        options: Options of `Connection`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    waits_for_peer = True

    def __init__(self, channel: MemoryChannel, **options: Unpack[TransportOptions]) -> None:
        super().__init__(channel, **options)
