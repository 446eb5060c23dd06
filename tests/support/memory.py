"""Measure the memory that a block of a test allocates."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import sys
from collections.abc import Iterator

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
