from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("jsonrpc_websocket", reason="the group `bench` is not installed")
pytest.importorskip("web3", reason="the group `bench` is not installed")

from . import bench_websocket as bench


def test_bars() -> None:
    found = {(name, 64, client): 1e-5 for name in ("small", "80 kB") for client in bench.CLIENTS}
    for name, seconds in (("small", 1.9e-5), ("80 kB", 2.2e-5)):
        for client in (bench.BY_HAND, bench.JSONRPC_WEBSOCKET, bench.WEB3):
            found[name, 64, client] = seconds
    shown = bench.table(found)
    assert (shown.count("| yes"), shown.count("**MISSED**")) == (3, 3)


@pytest.mark.timeout(120)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_client_gets_its_params_back() -> None:
    with bench.running() as uri:
        found = asyncio.run(bench.measure(uri, rounds=1, milliseconds=1))
    assert len(found) == len(bench.CASES) * len(bench.CLIENTS)
    assert all(seconds > 0 for seconds in found.values())
