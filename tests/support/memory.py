"""Measure the memory that a block of a test allocates."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import sys
from collections.abc import Callable, Iterator

import pytest

try:
    import tracemalloc
except ImportError:  # PyPy
    tracemalloc = None  # type: ignore[assignment]


def collect() -> None:
    """Free the garbage of earlier tests, and exclude the objects that are still in use from later collections."""
    gc.collect()
    if sys.implementation.name == "cpython":
        gc.freeze()


def growth(work: Callable[[], object], rounds: int = 3) -> int:
    """Return how many blocks of memory some work leaves each time: the least of several rounds.

    The count is that of the whole process. What other threads, free lists and earlier tests do changes it in some
    rounds; a leak does so in each.
    """
    collect()
    found = []
    for _ in range(rounds + 1):  # the first fills caches
        before = sys.getallocatedblocks()
        work()
        gc.collect()
        found.append(sys.getallocatedblocks() - before)
    return min(found[1:])


@dataclasses.dataclass
class Memory:
    """Bytes: those held at the end, and the peak."""

    held: int = 0
    peak: int = 0


@contextlib.contextmanager
def measured() -> Iterator[Memory]:
    """Measure the memory that the block allocates. Skips the test on a Python that cannot measure it."""
    if tracemalloc is None:
        pytest.skip("this Python does not count what is allocated")
    memory = Memory()
    tracemalloc.start()
    try:
        yield memory
        memory.held, memory.peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
