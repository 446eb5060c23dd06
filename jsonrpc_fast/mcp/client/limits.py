"""Limits by the loop's clock: deadlines of methods that wait for more than one message, and restarts of a server."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from math import inf
from typing import TypeVar

from ...errors import CallTimeout

T = TypeVar("T")


def seconds_left(deadline: float) -> float | None:
    """Return the seconds until a deadline; None for an infinite one."""
    return None if deadline == inf else max(0.0, deadline - asyncio.get_running_loop().time())


async def wait_until(deadline: float, work: Awaitable[T], late: str) -> T:
    """Await something until the deadline. Then cancel it, and raise CallTimeout with the text `late`."""
    if (seconds := seconds_left(deadline)) is None:
        return await work
    task = asyncio.ensure_future(work)
    try:
        # Not `wait_for`, which waits for the end of a task that it has cancelled: a deadline must hold.
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise CallTimeout(late)
        return task.result()
    finally:
        task.cancel()


class Restarts:
    """Counts the restarts of one server.

    Args:
        most: The maximum number within a minute.
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
        while self._times and self._times[0] <= now - 60.0:
            self._times.popleft()
        if len(self._times) >= self._most:
            return False
        self._times.append(now)
        return True
