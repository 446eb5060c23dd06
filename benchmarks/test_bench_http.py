from __future__ import annotations

import sys

import pytest

pytest.importorskip("fastapi_jsonrpc", reason="the group `bench` is not installed")
if sys.platform != "linux":
    pytest.skip("processor times are read from /proc", allow_module_level=True)

from . import bench_http as bench
from .http_servers import FACTORIES, FAST, RECEIVED

SMALL = bench.LOADS[0]


def made_up_figures(ours: float) -> dict[str, float]:
    """Return figures in which the ceiling takes ten microseconds, and the other libraries a hundred."""
    return {**dict.fromkeys(FACTORIES, 100e-6), RECEIVED: 10e-6, FAST: ours}


def test_bars_reached() -> None:
    rows, verdict = bench.rows_of("uvicorn", SMALL, made_up_figures(12e-6))
    assert ("pjrpc on Starlette", "100.0", "10.00", "8.33x") in rows
    assert "1.20 of the ceiling (the bar is 1.3: reached); 8.33 times less" in verdict
    assert "MISSED" not in verdict


def test_bars_missed() -> None:
    _, verdict = bench.rows_of("uvicorn", SMALL, made_up_figures(50e-6))
    assert "5.00 of the ceiling (the bar is 1.3: **MISSED**)" in verdict
    assert "2.00 times less than pjrpc on Starlette (the bar is 2.5: **MISSED**)" in verdict


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("program", bench.OPTIONS)
def test_every_application_responds(program: str) -> None:
    for load in bench.LOADS:
        found = bench.measure(program, load, list(FACTORIES), rounds=1, requests=20)
        assert found.keys() == FACTORIES.keys()
        assert all(0 < seconds < 1 for seconds in found.values())
