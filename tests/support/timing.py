"""Measure times robustly on a loaded machine: the minimum of several rounds in which all sides take turns."""

from __future__ import annotations

import time
from collections.abc import Callable


def thread_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time that this thread spends on `work`."""
    started = time.thread_time()
    work()
    return time.thread_time() - started


def min_seconds(*sides: Callable[[], float], rounds: int = 3) -> list[float]:
    """Call all sides in turn in each round, and return the minimum of each."""
    measured = [[side() for side in sides] for _ in range(rounds)]
    return [min(seconds) for seconds in zip(*measured, strict=True)]
