"""Waiting for a condition, for as short a time as it takes, and a port that nobody uses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

HOST: Final = "127.0.0.1"
SECONDS: Final = 20.0
POLL_SECONDS: Final = 0.001


async def eventually(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Wait until a condition holds; fail after some seconds of the loop's clock."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not condition():
        assert loop.time() < end, f"{condition} did not hold within {seconds:g} s"
        await asyncio.sleep(POLL_SECONDS)


async def settle(turns: int = 20) -> None:
    """Wait for some turns of the loop."""
    for _ in range(turns):
        await asyncio.sleep(0)


def free_port(host: str = HOST) -> int:
    """Return a TCP port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
