"""Times of two ways to do the same work, which take turns: the minimum of many rounds."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

SECONDS: Final = 1.5
ROUND_SECONDS: Final = 0.0002
"""A round is short, so that other processes interrupt few of them."""
MINIMUM_ROUNDS: Final = 40


def interleaved(without: Callable[[], object], with_it: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that two functions take."""

    def seconds(function: Callable[[], object], number: int) -> float:
        begun = time.perf_counter()
        for _ in range(number):
            function()
        return time.perf_counter() - begun

    functions = (without, with_it)
    number = max(1, int(ROUND_SECONDS / min(seconds(without, 1) for _ in range(3))))
    best = [float("inf"), float("inf")]
    end = time.perf_counter() + SECONDS
    count = 0
    while count < MINIMUM_ROUNDS or time.perf_counter() < end:
        for which in (0, 1) if count % 2 else (1, 0):
            best[which] = min(best[which], seconds(functions[which], number))
        count += 1
    return best[0] / number, best[1] / number


async def interleaved_calls(
    without: Callable[[], Awaitable[object]], with_it: Callable[[], Awaitable[object]]
) -> tuple[float, float]:
    """Return the seconds that two coroutine functions take; one call is one round."""
    functions = (without, with_it)
    best = [float("inf"), float("inf")]
    end = time.perf_counter() + SECONDS
    count = 0
    while count < MINIMUM_ROUNDS or time.perf_counter() < end:
        for which in (0, 1) if count % 2 else (1, 0):
            begun = time.perf_counter()
            await functions[which]()
            best[which] = min(best[which], time.perf_counter() - begun)
        count += 1
    return best[0], best[1]
