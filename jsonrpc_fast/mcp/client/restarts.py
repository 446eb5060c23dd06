"""A limit on how often a server that ended by itself is started again."""

from __future__ import annotations

from collections import deque
from typing import Final

RESTART_SECONDS: Final = 60.0
"""The period that the maximum number of restarts applies to."""


class Restarts:
    """Counts the restarts of one server.

    Args:
        most: The maximum number within RESTART_SECONDS.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._times: deque[float] = deque()

    def take(self, now: float) -> bool:
        """Count a restart. Return False if there were too many.

        Args:
            now: The time by the loop's clock.
        """
        # Only the times within the period are kept, so the queue stays as short as the limit.
        while self._times and self._times[0] <= now - RESTART_SECONDS:
            self._times.popleft()
        if len(self._times) >= self._most:
            return False
        self._times.append(now)
        return True
