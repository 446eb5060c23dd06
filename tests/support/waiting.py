"""Wait for a condition, no longer than necessary. Find an unused port."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import os
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

HOST: Final = "127.0.0.1"
SECONDS: Final = 20.0
POLL_SECONDS: Final = 0.001
_PORTS: Final = range(12_000, 32_000)
"""Systems assign ports to clients from 32768 on (Linux) or from 49152 on (others), so the ports below are free."""
_numbers: Final = itertools.count()


async def eventually(condition: Callable[[], Any], seconds: float = SECONDS, poll_seconds: float = POLL_SECONDS) -> Any:
    """Wait until a condition is true, and fail after some seconds of the loop's clock. It may be a coroutine function.

    Returns:
        The true value of the condition.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert loop.time() < end, f"{condition} did not hold within {seconds:g} s"
        await asyncio.sleep(poll_seconds)


def blocking_eventually(condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Wait for a condition without an event loop, in real time."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"{condition} did not hold within {seconds:g} s"
        time.sleep(POLL_SECONDS)
    return found


async def forever(*_: object, **__: object) -> None:
    """Wait until the task is cancelled; a handler that never ends."""
    await asyncio.get_running_loop().create_future()


async def settle(turns: int = 20) -> None:
    """Wait for some iterations of the event loop."""
    for _ in range(turns):
        await asyncio.sleep(0)


def accepts(port: int, host: str = HOST) -> bool:
    """Return whether a TCP port accepts connections."""
    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True


def accepts_at(path: Path) -> bool:
    """Return whether a Unix socket accepts connections: its file is there before."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def free_port(host: str = HOST) -> int:
    """Return an unused TCP port of the loopback interface.

    No other socket gets this port before the test uses it: the system does not assign it, and each process of a test
    run begins its search at a different port.
    """
    while True:
        port = _PORTS[(101 * os.getpid() + next(_numbers)) % len(_PORTS)]
        with socket.socket() as probe, contextlib.suppress(OSError):  # it is in use
            probe.bind((host, port))
            return port


async def results_of(*awaitables: Awaitable[Any]) -> list[Any]:
    """Await all, and return for each its result, or the exception that it raised.

    It fails if one returns an exception: `asyncio.gather` with `return_exceptions=True` shows that as if it was raised.
    """
    futures = [asyncio.ensure_future(each) for each in awaitables]
    found = await asyncio.gather(*futures, return_exceptions=True)
    for future in futures:
        returned = None if future.cancelled() or future.exception() else future.result()
        assert not isinstance(returned, BaseException), f"returned, and not raised: {returned!r}"
    return found
