"""The hostile inputs of `hostile_rows.py`, in small sizes, and the bounds of `hostile_inputs.py`."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import pytest

try:
    from jsonrpc_fast.codec import _core, _pure

    from . import hostile_inputs
except ImportError:  # it shares code with the fuzz targets, which compare both backends
    pytest.skip("the fuzz targets need the core", allow_module_level=True)
from ..support.tables import table
from .hostile_codec import INPUTS, Input
from .hostile_inputs import measure, ratios
from .hostile_rows import ROWS


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
                assert each.ways[""](_core, each.make(each.size // 3))


@pytest.mark.slow
def test_the_core_is_not_slower_than_the_pure_backend() -> None:
    assert [ratio for ratio in ratios(INPUTS, 0.5) if ratio.is_broken] == []


@pytest.mark.ci
def test_a_core_that_is_slower_breaks_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def read(backend: ModuleType, data: bytes) -> str:
        nonlocal now
        now += len(data) * (2e-8 if backend is _core else 1e-8)
        return "read"

    monkeypatch.setattr(hostile_inputs, "time", SimpleNamespace(process_time=lambda: now))
    [ratio] = ratios([Input("sse", "name", 1000, bytes, {"eager": read})])
    assert (ratio.ratio, ratio.core, ratio.pure) == pytest.approx((2.0, 20.0, 10.0))
    assert [each.is_broken for each in (ratio, ratio._replace(ratio=1.0), ratio._replace(core=1.0))] == [True, 0, 0]


@pytest.mark.slow
def test_a_quadratic_input_and_one_that_takes_much_memory_are_faults() -> None:
    def quadratic(_: ModuleType, data: bytes) -> str:
        for _ in range(len(data) // 1000):
            bytes(100 * len(data))
        return "read"

    result = measure(Input("layer", "name", 20_000, bytes, {"": quadratic}), "core")
    assert result.growth is not None
    assert result.growth > hostile_inputs.MAX_GROWTH
    assert result.has_fault
    result = measure(
        Input("layer", "name", 1000, bytes, {"": lambda _, data: f"{len(bytes(500 * len(data)))}"}), "core"
    )
    assert 450 < result.memory < 550
    assert result.has_fault
    result = measure(Input("layer", "name", 1000, bytes, {"": lambda _, data: f"{sum(data)}"}), "core")
    assert (result.bytes, result.outcome, result.has_fault) == (4000, "0", False)
