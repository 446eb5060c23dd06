from __future__ import annotations

import sys

import pytest

if sys.platform != "linux":
    pytest.skip("processor times are read from /proc", allow_module_level=True)

from . import bench_mcp_http as bench
from .mcp_http_servers import CEILING, FAST, SDK_JSON, SDK_STREAM

WORK = bench.Work("a call", "greet", False, (FAST, SDK_JSON, SDK_STREAM))


def test_bars() -> None:
    figures = {
        (WORK, 1, FAST): (100e-6, 90e-6),
        (WORK, 1, CEILING): (50e-6, 20e-6),
        (WORK, 1, SDK_JSON): (310e-6, 280e-6),
        (WORK, 1, SDK_STREAM): (290e-6, 270e-6),
    }
    rows = [[cell.strip() for cell in row.split("|")[2:-1]] for row in bench.table(figures).splitlines()[2:]]
    assert rows == [
        ["1", FAST, "10,000", "90", "", "", ""],
        ["1", CEILING, "20,000", "20", "0.50", "", ""],
        ["1", SDK_JSON, "3,226", "280", "3.10", "3.0", "reached"],
        ["1", SDK_STREAM, "3,448", "270", "2.90", "3.0", "**MISSED**"],
    ]
    assert bench.memory_table({FAST: 10.0, SDK_JSON: 11.0, SDK_STREAM: 9.0}).count("reached") == 1


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_every_server_responds() -> None:
    figures = bench.measure(bench.WORKS, rounds=1, calls=40)
    assert len(figures) == 2 * sum(len(work.servers) for work in bench.WORKS)
    assert all(0 < processor < 1 for _, processor in figures.values())
    assert all(0 < size < 1e6 for size in bench.measure_memory(50).values())
