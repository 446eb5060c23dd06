"""The hostile inputs of `hostile_rows.py`, in small sizes, and the bounds of `hostile_inputs.py`."""

from __future__ import annotations

import pytest

try:
    from . import hostile_inputs
except ImportError:  # it shares code with the fuzz targets, which compare both backends
    pytest.skip("the fuzz targets need the core", allow_module_level=True)
from .hostile_inputs import measure
from .hostile_rows import ROWS, Row


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.layer}, {row.name}" for row in ROWS])
def test_input(row: Row) -> None:
    assert row.run(row.make(row.size // 3))


def test_a_quadratic_input_is_a_fault() -> None:
    def run(data: bytes) -> str:
        for _ in range(len(data) // 1000):
            bytes(100 * len(data))
        return "read"

    result = measure(Row("layer", "name", 20_000, bytes, run), "core")
    assert result.growth is not None
    assert result.growth > hostile_inputs.MAX_GROWTH
    assert result.has_fault


def test_an_input_that_takes_much_memory_is_a_fault() -> None:
    result = measure(Row("layer", "name", 1000, bytes, lambda data: str(len(bytes(500 * len(data))))), "core")
    assert 450 < result.memory < 550
    assert result.has_fault


def test_an_input_within_the_bounds_is_no_fault() -> None:
    result = measure(Row("layer", "name", 1000, bytes, lambda data: f"{sum(data)}"), "core")
    assert (result.bytes, result.outcome, result.has_fault) == (4000, "0", False)
