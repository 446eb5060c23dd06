"""An event loop with a virtual clock: when nothing is ready, its time jumps to the next timer.

    @pytest.mark.virtual_time
    async def test_a_call_times_out(): ...  # five minutes pass in a millisecond

Rules:
- The mark is for tests in which everything happens in one loop: memory transports, futures, tasks. `asyncio.run` uses
  such a loop in the whole test, and in a test that runs on other loops, too, it replaces asyncio's.
- A loop for which nothing is ready, and that has no timer, would wait forever: `Deadlock` is raised instead, and names
  the places at which its tasks wait.
- The time does not jump while a thread of `run_in_executor` works. The loop does not know of other threads.
- A file descriptor is refused: whether it is ready depends on real time.
- A loop may take `REAL_SECONDS` of real time. A loop in which something is always ready never reaches its timers.

With real sockets and processes a test moves the clock of asyncio's loop itself:

    move = moving_clock()
    move(60)  # the timers of the next minute are due; the clock also runs on its own
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, Final, TypeVar, TypeVarTuple
from unittest import SkipTest

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START: Final = 1000.0
"""The time of a new loop. It is not zero, because code could mistake zero for None."""
REAL_SECONDS: Final = 50.0


def moving_clock() -> Callable[[float], None]:
    """Return a function that moves the clock of the running loop forward by some seconds. Skips the test on uvloop.

    The time limit of an async test uses the same clock, so raise it: `@pytest.mark.time_limit(3600)`.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, asyncio.BaseEventLoop):
        raise SkipTest("the clock of uvloop cannot be moved")
    moved = 0.0
    time_of_loop = loop.time

    def move(seconds: float) -> None:
        nonlocal moved
        moved += seconds

    loop.time = lambda: time_of_loop() + moved  # type: ignore[method-assign]
    return move


async def virtual_sleep(seconds: float) -> None:
    """Sleep on a loop with a virtual clock. It fails on any other loop, where the test would really take that time."""
    assert isinstance(asyncio.get_running_loop(), VirtualLoop), "the test lacks pytest.mark.virtual_time"
    await asyncio.sleep(seconds)


class Deadlock(AssertionError):
    """Nothing is ready, and no timer will change that."""


class _Selector(selectors.BaseSelector):
    """A selector that moves the clock of its loop instead of waiting."""

    def __init__(self) -> None:
        self.now = START
        self.threads = 0
        self.stuck: Callable[[], str] = str
        self._real = selectors.DefaultSelector()
        self._end = time.monotonic() + REAL_SECONDS

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self._real.get_map():  # the first descriptor is the loop's own: other threads wake it up through it
            raise RuntimeError(
                "a loop with a virtual clock has no file descriptors: use a memory transport, or real time"
            )
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        left = self._end - time.monotonic()
        if left < 0:
            self._end += REAL_SECONDS  # time to cancel the remaining tasks in this loop
            raise TimeoutError(f"the loop took more than {REAL_SECONDS:g} s of real time: {self.stuck()}")
        ready = self._real.select(left if self.threads and timeout != 0 else 0)
        if not ready and not self.threads:
            if timeout is None:
                raise Deadlock(f"nothing is ready, and there is no timer: {self.stuck()}")
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's loop with a virtual clock."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)
        self._clock.stuck = self._waiting
        self.slow_callback_duration = float("inf")

    def time(self) -> float:
        return self._clock.now

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._clock.threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        self._clock.threads += 1
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self._clock.threads -= 1

    def _thread_ended(self, _: object) -> None:
        self._clock.threads -= 1

    def _waiting(self) -> str:
        places = []
        for task in asyncio.all_tasks(self):
            frames = task.get_stack(limit=1)
            where = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "?"
            places.append(f"{task.get_name()} waits at {where}")
        return "; ".join(sorted(places)) or "no task is left"
