"""Deadlines of methods that wait for more than one message, by the loop's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from math import inf
from typing import TypeVar

from ...errors import CallTimeout

T = TypeVar("T")


def seconds_left(deadline: float) -> float | None:
    """Return the seconds until a deadline; None for an infinite one."""
    return None if deadline == inf else max(0.0, deadline - asyncio.get_running_loop().time())


async def wait_until(deadline: float, work: Awaitable[T], late: str) -> T:
    """Await something until the deadline. Raises CallTimeout with the text `late` then, and cancels it."""
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
