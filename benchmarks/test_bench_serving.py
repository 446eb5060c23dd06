from __future__ import annotations

import pytest

from . import bench_serving as bench
from .echo_servers import BARE, SESSION, SESSION_ASYNC, SESSION_WAITING


def made_up_figures(sync: float) -> bench.Seconds:
    """Return figures in which the bare protocol takes a microsecond, and async handlers five."""
    seconds = {BARE: 1e-6, SESSION: sync, SESSION_ASYNC: 5e-6, SESSION_WAITING: 9e-6}
    return {(loop, name): found for loop in bench.LOOPS for name, found in seconds.items()}


def test_bars() -> None:
    reached = bench.table(made_up_figures(1.4e-6))
    assert reached.count("| yes") == 4
    assert "MISSED" not in reached
    missed = bench.table(made_up_figures(1.6e-6))
    assert missed.count("| 1.60                  | 1.60 ") == missed.count("**MISSED**") == 2


@pytest.mark.timeout(60)
@pytest.mark.parametrize("loop", bench.LOOPS)
@pytest.mark.parametrize("name", bench.NAMES)
def test_every_server_echoes_and_refuses_nothing(name: str, loop: str) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    with bench.running(name, loop) as server:
        assert server.time_requests(5000) > 0
