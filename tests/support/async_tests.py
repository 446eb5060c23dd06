"""Tests that are coroutine functions: each runs in its own event loop, for a limited time, and must clean up.

Rules:
- The fixtures `loop` and `each_loop` choose the loop (see loops.py). Without them it is asyncio's.
- A test fails after `SECONDS`, or after the seconds of its mark `time_limit(seconds)`; a slow one later. A loop with a
  virtual clock has other limits (see clock.py).
- A test fails when it leaves a task or a timer, or when an exception was reported to the loop's exception handler.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest

from .clock import VirtualLoop

SECONDS: Final = 50.0


def run(test: Coroutine[Any, Any, object], seconds: float = SECONDS) -> None:
    """Run a test to its end, and check that it leaves no task, no timer and no reported exception."""
    reports: list[dict[str, Any]] = []

    async def guarded() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, report: reports.append(report))
        before = asyncio.all_tasks()
        await (test if isinstance(loop, VirtualLoop) else asyncio.wait_for(test, seconds))
        # The loop closes an async generator that was freed before its end, such as that of a request body in httpx2.
        closing = {task for task in asyncio.all_tasks() if type(task.get_coro()).__name__ == "async_generator_athrow"}
        left = asyncio.all_tasks() - before - closing
        assert left == set(), left
        timers = [timer for timer in getattr(loop, "_scheduled", ()) if not timer.cancelled()]
        # uvicorn leaves that of a connection that the client resets.
        timers = [timer for timer in timers if "timeout_keep_alive_handler" not in repr(timer)]
        assert timers == [], timers

    asyncio.run(guarded())
    assert reports == [], reports


def make_callable(item: pytest.Function) -> None:
    """Replace the test of an item, if it is a coroutine function, by a function that runs it."""
    mark = item.get_closest_marker("time_limit")
    seconds = mark.args[0] if mark else SECONDS
    if item.get_closest_marker("slow"):
        seconds = max(seconds, 3000)

    def to_function(test: Callable[..., Any]) -> Callable[..., None]:
        return functools.wraps(test)(lambda *args, **kwargs: run(test(*args, **kwargs), seconds))

    table = getattr(item.obj, "rows", None)
    made_by_hypothesis = getattr(item.obj, "hypothesis", None)
    if table and inspect.iscoroutinefunction(table.test):
        table.test = to_function(table.test)
    elif made_by_hypothesis and inspect.iscoroutinefunction(made_by_hypothesis.inner_test):
        made_by_hypothesis.inner_test = to_function(made_by_hypothesis.inner_test)
    elif inspect.iscoroutinefunction(item.obj):
        item.obj = to_function(item.obj)
