"""A server under attack serves others: the figures of `hostile_clients`, at a size that a test can afford."""

from __future__ import annotations

import sys

import pytest

from ..isolated.hostile_clients import MAX_BUFFERED_BYTES, attack

IDLE = 300
CLIENTS = 10


@pytest.mark.slow
@pytest.mark.time_limit(150)
@pytest.mark.timeout(180)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("kind", "server_loop", "seconds"),
    [
        ("tcp", "asyncio", 2.0),
        ("websocket", "asyncio", 2.0),
        ("websocket", "debug", 0.5),
        ("websocket", "eager", 0.5),
        ("asgi", "asyncio", 0.5),
    ],
)
async def test_others_are_served_meanwhile(kind: str, server_loop: str, seconds: float) -> None:
    if kind != "tcp":
        pytest.importorskip("websockets", reason="the extra `websocket` is not installed")
    if kind == "asgi":
        pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    if server_loop == "eager" and sys.version_info < (3, 12):
        pytest.skip("eager tasks need Python 3.12")
    report = await attack(kind, server_loop, IDLE, seconds=seconds, clients=CLIENTS)
    for phase in ("alone", "idle", "slow", "flood", "large"):
        assert report[phase]["worst_ms"] < 10_000, report
        assert report[phase]["calls"] >= 1, report
    if kind != "asgi":
        assert report["at_limit"]["worst_ms"] < 10_000, report
        assert report["refused"] >= CLIENTS, report
        assert report["dropped"] >= 1, report
    assert report["memory_of_an_idle_connection"] < 64 * 1024, report
    assert report["flood_memory"] < 4 * MAX_BUFFERED_BYTES, report
