from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pjrpc", reason="the group `bench` is not installed")

from . import bench_transports as bench
from .echo_servers import BARE, FAST, SERVERS


def made_up_figures(ours: float) -> dict[str, Any]:
    """Return figures in which the bare protocol takes a microsecond, and the others ten."""
    figures = {name: bench.Figures(10e-6, 10e-6) for name in SERVERS}
    return {**figures, BARE: bench.Figures(1e-6, 1e-6), FAST: bench.Figures(ours, ours)}


def test_bar_reached() -> None:
    table = bench.table(made_up_figures(1.25e-6 * 0.8))
    assert "jsonrpc_fast reaches 1.000 of the bare rate; the bar is 0.85: reached" in table
    assert table.count("10.0x") == 3
    assert "MISSED" not in table


def test_bar_missed() -> None:
    table = bench.table(made_up_figures(2e-6))
    assert "jsonrpc_fast reaches 0.500 of the bare rate; the bar is 0.85: **MISSED**" in table
    assert "By the server's processor time it is 0.500." in table


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", SERVERS)
def test_server_responds(name: str) -> None:
    if name == "jsonrpcserver":
        pytest.importorskip("jsonrpcserver", reason="jsonrpcserver is not installed")
    with bench.running(name) as server:
        assert server.time_requests(200) > 0
        used = server.processor_seconds()
        assert used is None or used > 0
