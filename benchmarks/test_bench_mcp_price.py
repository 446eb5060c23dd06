from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("processor times are read from /proc", allow_module_level=True)

from . import bench_mcp_price as bench
from .summary import digest


def test_the_page_and_the_picture_are_those_of_the_stored_run() -> None:
    figures = json.loads(bench.FIGURES.read_text())
    page = bench.PAGE.read_text(encoding="utf-8")
    assert bench.MARKED.search(page)
    assert bench.with_table(page, figures) == page
    assert digest(figures) in bench.PLOT.read_text(encoding="utf-8")


def test_rows_without_figures_are_left_out() -> None:
    figures = {
        "microseconds": {
            "jsonrpc_fast": {"HTTP": {"1": 60.0, "32": 50.0}},
            "MCP SDK 2": {"HTTP": {"1": 630, "32": 500}},
        },
        "start_milliseconds": {"jsonrpc_fast": 200.0},
        "versions": {"jsonrpc_fast": "1.0", "MCP SDK 2": "2.3"},
        "machine": "CPython 3.11",
    }
    lines = [re.sub(" +", " ", line) for line in bench.table(figures).splitlines()]
    assert lines[2:] == [
        "| jsonrpc_fast | | | 60 µs | 50 µs | 200 ms |",
        "| MCP SDK 2 | | | 630 µs (10.5) | 500 µs (10.0) | |",
        "",
        "Measured with jsonrpc_fast 1.0, mcp 2.3; CPython 3.11.",
    ]


@pytest.mark.slow
def test_each_server_responds(tmp_path: Path) -> None:
    figures = bench.measure(rounds=1, calls=32)
    assert figures["microseconds"][bench.FAST].keys() == {"stdio", "HTTP"}
    bench.plot(figures, tmp_path / "price.svg")
    assert (tmp_path / "price.svg").stat().st_size > 1000
