"""The hostile inputs of `hostile_rows.py`, in small sizes, and the bounds of `hostile_inputs.py`."""

from __future__ import annotations

from types import ModuleType

import pytest

try:
    from jsonrpc_fast.codec import _core, _pure

    from . import hostile_inputs
except ImportError:  # it shares code with the fuzz targets, which compare both backends
    pytest.skip("the fuzz targets need the core", allow_module_level=True)
from ..support.tables import table
from . import hostile_ratios
from .hostile_codec import INPUTS, Input
from .hostile_inputs import measure
from .hostile_rows import ROWS, Row


@pytest.mark.ci
def test_the_backends_read_each_input_alike() -> None:
    with table() as row:
        for source in INPUTS:
            data = source.make(source.size // 32)
            for way, read in source.ways.items():
                with row(f"{source.layer}: {source.name} ({way})"):
                    assert read(_core, data) == read(_pure, data)


@pytest.mark.ci
def test_inputs_of_the_other_layers() -> None:
    with table() as row:
        for each in ROWS[len(INPUTS) :]:
            with row(f"{each.layer}: {each.name}"):
                assert each.ways[0](each.make(each.size // 3))


@pytest.mark.slow
def test_the_core_is_not_slower_than_the_pure_backend() -> None:
    assert [ratio for ratio in hostile_ratios.measure_all(INPUTS, 0.5) if ratio.is_broken] == []


@pytest.mark.slow
def test_a_core_that_is_slower_breaks_the_law() -> None:
    def read(backend: ModuleType, data: bytes) -> str:
        return str(sum(range(20_000 if backend is _core else 10_000)))

    source = Input("sse", "name", 1000, bytes, {"eager": read})
    [ratio] = hostile_ratios.measure_all([source])
    assert 1.5 < ratio.ratio < 2.5
    assert ratio.is_broken
    assert not ratio._replace(ratio=1.0).is_broken
    assert not ratio._replace(core=1.0).is_broken


@pytest.mark.slow
def test_a_quadratic_input_is_a_fault() -> None:
    def run(data: bytes) -> str:
        for _ in range(len(data) // 1000):
            bytes(100 * len(data))
        return "read"

    result = measure(Row("layer", "name", 20_000, bytes, (run,)), "core")
    assert result.growth is not None
    assert result.growth > hostile_inputs.MAX_GROWTH
    assert result.has_fault


@pytest.mark.slow
def test_an_input_that_takes_much_memory_is_a_fault() -> None:
    result = measure(Row("layer", "name", 1000, bytes, (lambda data: str(len(bytes(500 * len(data)))),)), "core")
    assert 450 < result.memory < 550
    assert result.has_fault


@pytest.mark.slow
def test_an_input_within_the_bounds_is_no_fault() -> None:
    result = measure(Row("layer", "name", 1000, bytes, (lambda data: f"{sum(data)}",)), "core")
    assert (result.bytes, result.outcome, result.has_fault) == (4000, "0", False)
