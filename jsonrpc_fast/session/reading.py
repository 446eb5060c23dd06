"""Whether the stream of a conversation is read.

Rules:
  - This side does not read while a batch is served over several turns.
  - It does not read while too much is held for a peer that does not read: reading is paused.
  - A peer that reads nothing for PAUSE_SECONDS may have paused as well: reading resumes, and messages without room are
    refused.
  - It does not read while the consumer of a stream (streams.py) is behind, unless this side waits for anything else.
  - Nothing more is read from a peer that does not read its refusals either: when there are too many, or when it has
    read nothing for STALL_SECONDS and this side waits for no response. After STALL_SECONDS more in which it reads
    nothing, the connection ends: two ends that do this to each other would wait forever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from .driver import Driver

PAUSE_SECONDS: Final = 0.5
"""Seconds for which reading pauses for a peer that reads nothing."""
STALL_SECONDS: Final = 30.0
"""Seconds after which a peer that reads none of its refusals is no longer read, and then given up."""


@dataclass(slots=True, eq=False, repr=False)
class Reading:
    """Stops and resumes the reading of one stream.

    The owners of `is_in_batch` and `full_streams` call `update` after each change.

    Args:
        driver: The driver of the engine.
        clock: The clock of the engine.

    Attributes:
        is_paused: Whether reading is paused.
        is_in_batch: Whether a batch is being served over several turns.
        full_streams: The number of streams that have room for no more items.
        ignores_bounds: Whether reading has continued although too much is held; messages beyond the bounds are refused
            then.
        refused_bytes: The size of the refusals that were written since the peer has read.
        deadline: When to call `tick`, in seconds; infinite if there is no need.
    """

    _driver: Driver
    _clock: Callable[[], float]
    _level: int = 0  # of the unwritten bytes without refusals, when reading was paused or checked
    _seconds: float = PAUSE_SECONDS  # how long the peer may read nothing
    _rests: bool = False  # the last instruction to the driver
    is_paused: bool = False
    is_in_batch: bool = False
    full_streams: int = 0
    ignores_bounds: bool = False
    refused_bytes: int = 0
    deadline: float = inf

    def update(self) -> None:
        """Stop or resume reading, if a reason to stop has begun or the last one has ended."""
        # Compared with the last instruction to the driver: several reasons may hold, and reading must resume only after
        # the last.
        rests = self.is_paused or self.is_in_batch or bool(self.full_streams)
        if rests is not self._rests:
            self._rests = rests
            self._driver.set_reading(not rests)

    def pause(self, seconds: float = PAUSE_SECONDS) -> None:
        """Stop reading until `resume`, and watch whether the peer reads anything within this many seconds."""
        # A longer time replaces a shorter one, never the reverse: only a peer that leaves refusals unread is given up.
        if not self.is_paused or seconds > self._seconds:
            self._seconds = seconds
            self.is_paused = True
            self.update()
            self.watch()

    def resume(self, ignores_bounds: bool = False) -> None:
        """Resume reading if it is paused, unless there is another reason to stop."""
        if self.is_paused:
            self.ignores_bounds = ignores_bounds
            self.is_paused = False
            self.update()

    def watch(self) -> None:
        """Check in a few seconds whether the peer has read anything."""
        self._level = self._driver.unwritten_bytes - self.refused_bytes
        self.deadline = self._clock() + self._seconds
        self._driver.wake_at(self.deadline)

    def drained(self) -> None:
        """Record that the peer has read."""
        self.refused_bytes = 0
        self.deadline = inf
        self._seconds = PAUSE_SECONDS

    def tick(self, now: float, waits: bool) -> bool:
        """Resume or stop reading if the peer has read nothing since the last check.

        Args:
            now: The time, in seconds.
            waits: Whether this side waits for a response, which must be read.

        Returns:
            Whether the peer must be given up.
        """
        if now < self.deadline:
            return False
        self.deadline = inf
        if self._driver.unwritten_bytes - self.refused_bytes < self._level:
            self.watch()  # a slow peer, which still reads
        elif not self.is_paused:
            if self.refused_bytes and not waits:
                self.pause(STALL_SECONDS)
            else:
                self.watch()
        elif self._seconds == STALL_SECONDS:
            return True
        else:
            self.resume(ignores_bounds=True)
            self._seconds = STALL_SECONDS
            self.watch()
        return False
