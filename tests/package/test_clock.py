"""The virtual clock: time passes when nothing is ready, and what would wait forever fails."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ..support import clock, loops
from ..support.clock import START, Deadlock, VirtualLoop
from ..support.waiting import eventually


def run(test: Callable[[], Coroutine[Any, Any, object]], loop: str = "asyncio") -> None:
    with loops.running_on(loop, is_virtual=True):
        asyncio.run(test())


@pytest.mark.virtual_time
async def test_an_hour_passes_at_once() -> None:
    began, loop = time.monotonic(), asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    assert loop.time() == START
    await asyncio.sleep(3600)
    assert loop.time() == pytest.approx(START + 3600)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(loop.create_future(), 300)
    assert loop.time() == pytest.approx(START + 3900)
    assert time.monotonic() - began < 60


@pytest.mark.virtual_time
@pytest.mark.usefixtures("each_loop")
async def test_timers_keep_their_order() -> None:
    seen: list[float] = []

    async def note(seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append(seconds)

    await asyncio.gather(*[note(seconds) for seconds in (5.0, 0.001, 86400.0 * 30, 0.5, 0.0)])
    assert seen == [0.0, 0.001, 0.5, 5.0, 86400.0 * 30]


@pytest.mark.virtual_time
async def test_a_thread_has_the_time_that_it_needs() -> None:
    loop = asyncio.get_running_loop()
    assert await asyncio.wait_for(asyncio.to_thread(lambda: time.sleep(0.02) or "done"), 0.001 + 1) == "done"
    assert loop.time() < START + 1


def test_what_waits_forever_fails() -> None:
    async def test() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match=r"waits at .*test_clock\.py:\d+"):
        run(test)


def test_a_loop_that_is_always_ready_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        while True:
            await asyncio.sleep(0)

    monkeypatch.setattr(clock, "REAL_SECONDS", 0.05)
    with pytest.raises(TimeoutError, match="real time"):
        run(test)


def test_sockets_are_refused() -> None:
    async def test() -> None:
        one, other = socket.socketpair()
        with one, other:
            asyncio.get_running_loop().add_reader(one, print)

    with pytest.raises(RuntimeError, match="no file descriptors"):
        run(test)


@pytest.mark.virtual_time
async def test_a_condition_that_never_holds_fails() -> None:
    with pytest.raises(AssertionError, match="did not hold within 5 s"):
        await eventually(lambda: False, 5)
