from __future__ import annotations

import asyncio
import importlib
from typing import Any

import pytest


@pytest.fixture
def bench() -> Any:
    for library in ("aiohttp", "aiorpcx", "mcp.shared.jsonrpc_dispatcher", "pjrpc", "pygls"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    return importlib.import_module("benchmarks.bench_sessions")


# The compared libraries leave resources open.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(60)
def test_every_contestant_adds(bench: Any) -> None:
    async def main() -> None:
        for contestant in bench.CONTESTANTS:
            async with contestant.open() as call:
                assert bench.is_right(await asyncio.wait_for(call(2, 3), 20), 5), contestant

    asyncio.run(main())
    entered = {(contestant.channel, contestant.name) for contestant in bench.CONTESTANTS}
    assert entered >= {(channel, name) for channel in bench.BARS for name in (bench.OURS, *bench.OPPONENTS)}


def times_of(bench: Any, ours: float) -> Any:
    """Return times in which the others take 100 µs, and two of them longer."""
    others = dict(zip(bench.OPPONENTS, (100.0, 300.0, 100.0, 200.0), strict=True))
    return {(channel, count): {**others, bench.OURS: ours} for channel in bench.BARS for count in bench.IN_FLIGHT}


def test_bars(bench: Any) -> None:
    reached = bench.bar_table(times_of(bench, 50.0))
    assert "2.00x" in reached
    assert "MISSED" not in reached
    assert bench.bar_table(times_of(bench, 51.0)).count("**MISSED**") == 2
    assert bench.bar_table(times_of(bench, 80.0)).count("**MISSED**") == 4
    assert "| jsonrpc_fast | 50.0            | 0.50 " in bench.round_trip_tables(times_of(bench, 50.0))


def test_what_keeping_track_of_a_call_costs(bench: Any) -> None:
    assert all(0 < seconds < 0.01 for seconds in bench.calls_seconds(100, count=50))
