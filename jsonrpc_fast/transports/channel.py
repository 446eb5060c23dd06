"""The channel below a transport: it carries bytes or texts, and knows nothing about messages.

A channel has six methods and reports three events. A `Connection` over it is a transport: it has the states, the
framing, the bounds and the callbacks.

Rules for a channel:
  - Everything happens on the event loop's thread. No event is reported inside `write`, `set_reading` and `abort`.
  - `open` comes first, and once. Data is reported while reading is wanted; at first it is not. Data that arrives
    nevertheless may be reported: the connection keeps it.
  - `lost` is reported exactly once after a successful `open`, even after `finish` and `abort`, and is the last event.
  - `abort` may come at any time, even before `open`, during it and after `lost`. It then releases
    everything that the channel holds.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from ..errors import ConnectionLost
from ..support import shorten

Data = bytes | bytearray | memoryview | str | list[bytes]
"""Received data: bytes; on a channel of texts, a whole text, or several that have arrived together."""

# Each open socket has a buffer of this size.
READ_BYTES: Final = 64 * 1024
"""How many bytes a channel reads at a time."""
HIGH_WATER_BYTES: Final = 256 * 1024
"""With more unwritten bytes than this, a connection is blocked."""
LOW_WATER_BYTES: Final = 64 * 1024
"""A blocked connection is unblocked when at most this many bytes are unwritten."""


def _ignore(*_: object) -> None:
    pass


@dataclass(slots=True, eq=False, repr=False)
class Events:
    """The events of a channel.

    Attributes:
        received: Called with received data: any part of a stream of bytes; on a channel of texts, one whole text, or a
            list of texts, whose responses are written together. A memoryview may be of a buffer that is used again.
            Called with `b""` once, when the peer has ended its stream and may still read. An empty text is reported as
            `b" "`.
        drained: Called when some of the unwritten bytes have been taken, at the latest when LOW_WATER_BYTES or fewer
            are left.
        lost: Called when the channel is closed, with the exception that broke it; None if either side closed it.
    """

    received: Callable[[Data], None]
    drained: Callable[[], None]
    lost: Callable[[Exception | None], None]

    def end(self) -> None:
        """Call nobody any more, and refer to nobody: the channel is lost."""
        self.received = self.drained = self.lost = _ignore


class Channel:
    """A channel of bytes, or of whole texts, in both directions."""

    carries_texts: ClassVar[bool] = False
    """Whether the channel keeps the boundaries of texts, like WebSocket or datagrams. If not, it carries bytes."""
    writes_lone_frames: ClassVar[bool] = False
    """Whether a write costs a system call, so that a single response is written as soon as it is sent."""
    is_accepted: bool = False
    """Whether it is open when it is made, as that of an accepted socket is: a connection does not call `open` then."""

    @property
    def name(self) -> str:
        """The name of the channel, for the log."""
        return type(self).__name__

    async def open(self, events: Events) -> None:
        """Open the channel, without reading from it. Leave nothing open on failure, and when this is cancelled.

        Args:
            events: What to call from now on.

        Raises:
            OSError: It cannot be opened.
        """
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        """Write bytes, or one text, in order and without blocking. Keep what the system does not take yet.

        Raises:
            OSError: Nothing more can be written. `lost` follows.
        """
        raise NotImplementedError

    def write_texts(self, texts: list[bytes]) -> None:
        """Write several texts; for a channel that can write them together."""
        for text in texts:
            self.write(text)

    @property
    def unwritten(self) -> int:
        """How many bytes were written to the channel and are still buffered in this process."""
        return 0

    def set_reading(self, on: bool) -> None:
        """Start or stop reading. The default is for channels that cannot make the peer wait."""

    def finish(self) -> None:
        """Write all unwritten data, then close the channel and report `lost`, during this call or later.

        Data that arrives until then is reported, or dropped.
        """
        raise NotImplementedError

    def abort(self) -> None:
        """Close the channel at once, drop unwritten data, and report `lost` later."""
        raise NotImplementedError


class QueuedChannel(Channel):
    """A channel of texts whose subclass has a task that writes the queued texts, and reads while it may.

    The task that writes waits for `_may_write`, which it clears, then takes the texts off `_outgoing` and subtracts
    their sizes from `_unwritten`. The reading task waits for `_may_read`.
    """

    carries_texts = True
    _events: Events

    def __init__(self) -> None:
        self._outgoing: deque[bytes] = deque()
        self._unwritten = 0
        self._is_finishing = False
        self._may_read = asyncio.Event()
        self._may_write = asyncio.Event()

    def set_reading(self, on: bool) -> None:
        if on:
            self._may_read.set()
        else:
            self._may_read.clear()

    def write(self, data: bytes) -> None:
        self._outgoing.append(data)
        self._unwritten += len(data)
        self._may_write.set()

    @property
    def unwritten(self) -> int:
        return self._unwritten

    def finish(self) -> None:
        self._is_finishing = True
        # Reading continues, so that the end of the peer's stream is noticed.
        self._may_read.set()
        self._may_write.set()


class CloseCode(enum.IntEnum):
    """The close codes that this package sends, and those that stand for the absence of one (section 7.4.1)."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    NO_CODE = 1005  # a close frame without a code
    ABNORMAL = 1006  # a connection that ended without a close frame
    INVALID_TEXT = 1007
    POLICY_VIOLATION = 1008
    TOO_BIG = 1009


def fault_of(code: int, reason: str | None) -> ConnectionLost | None:
    """Return the fault of a connection that the peer has closed; None if the code is that of a normal end."""
    if code in (CloseCode.NORMAL, CloseCode.GOING_AWAY, CloseCode.NO_CODE):
        return None
    fault = ConnectionLost(f"the peer closed the connection with {code}{f': {shorten(reason)}' if reason else ''}")
    if code == CloseCode.ABNORMAL:
        fault.__cause__ = EOFError("the socket ended")
    return fault
