"""A server under attack serves others, and processes on pipes lose nothing: short runs of isolated/."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from jsonrpc_fast import Notification, Response

from ..isolated import transport_soak
from ..isolated.hostile_clients import MAX_BUFFERED_BYTES, attack
from ..support.tables import rows

IDLE = 300
CLIENTS = 10


@pytest.mark.slow
@pytest.mark.time_limit(150)
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


pytestmark = [
    pytest.mark.usefixtures("loop"),
    pytest.mark.skipif(sys.platform == "win32", reason="the scenes use signals"),
]


@pytest.mark.slow
@rows("scene", transport_soak.SCENES)
async def test_scene(scene: str) -> None:
    await transport_soak.SCENES[scene](4000)


def test_a_lost_or_torn_message_is_found() -> None:
    transport: Any = types.SimpleNamespace()
    check = transport_soak.Check(transport, 1, 10)
    size = transport_soak.sizes(1, 10)
    transport.onmessage(Notification("n", [0, transport_soak.text_of(0, size[0])]))
    text = transport_soak.text_of(1, size[1])
    for wrong in ([2, transport_soak.text_of(2, size[2])], [1, text[:-1]]):
        with pytest.raises(AssertionError, match="message 1 is missing, torn or out of order"):
            transport.onmessage(Notification("n", wrong))
    with pytest.raises(AssertionError):
        transport.onmessage(Response(2, [1, text]))
    transport.onmessage(Response(1, [1, text]))
    assert check.received == 2
