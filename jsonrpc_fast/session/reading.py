"""Whether the stream of a conversation is read.

Rules:
  - Nothing is read while a batch is served over several turns.
  - Nothing is read while reading is paused, because too much is held for a peer that does not read.
  - A peer that reads nothing for PAUSE_SECONDS may have paused as well: reading resumes, and what there is no room for
    is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

from .driver import Driver

PAUSE_SECONDS: Final = 0.5
"""Seconds for which reading pauses for a peer that reads nothing."""


class Reading:
    """Stops and resumes the reading of one stream.

    Args:
        driver: The driver of the engine.
        clock: The clock of the engine.

    Attributes:
        is_paused: Whether reading is paused.
        is_in_batch: Whether a batch is being served over several turns.
        ignores_bounds: Whether reading goes on although too much is held.
        deadline: When to call `tick`, in seconds; infinite if there is no need.
    """

    __slots__ = ("_clock", "_driver", "_level", "deadline", "ignores_bounds", "is_in_batch", "is_paused")

    def __init__(self, driver: Driver, clock: Callable[[], float]) -> None:
        self._driver = driver
        self._clock = clock
        self._level = 0  # of the unwritten bytes, when reading was paused or checked
        self.is_paused: bool = False
        self.is_in_batch: bool = False
        self.ignores_bounds: bool = False
        self.deadline: float = inf

    def begin_batch(self) -> None:
        """Stop reading until `end_batch`."""
        self.is_in_batch = True
        if not self.is_paused:
            self._driver.set_reading(False)

    def end_batch(self) -> None:
        """Resume reading, unless it is paused."""
        self.is_in_batch = False
        if not self.is_paused:
            self._driver.set_reading(True)

    def pause(self) -> None:
        """Stop reading until `resume`."""
        if not self.is_paused:
            self.is_paused = True
            if not self.is_in_batch:
                self._driver.set_reading(False)

    def pause_for_a_while(self) -> None:
        """Stop reading until the peer reads, or for PAUSE_SECONDS if it does not."""
        if not self.is_paused:
            self.pause()
            self.watch()

    def resume(self) -> None:
        """Resume reading, unless a batch is being served."""
        self.is_paused = False
        if not self.is_in_batch:
            self._driver.set_reading(True)

    def watch(self) -> None:
        """Check after PAUSE_SECONDS whether the peer has read anything."""
        self._level = self._driver.unwritten_bytes
        self.deadline = self._clock() + PAUSE_SECONDS
        self._driver.wake_at(self.deadline)

    def drained(self) -> None:
        """Note that the peer has read."""
        self.ignores_bounds = False
        self.deadline = inf

    def tick(self, now: float) -> None:
        """Resume reading if the peer has read nothing since reading was paused."""
        if now < self.deadline:
            return
        self.deadline = inf
        if self._driver.unwritten_bytes < self._level:
            self.watch()
        else:
            self.ignores_bounds = True
            self.resume()
