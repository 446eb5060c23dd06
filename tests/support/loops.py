"""The event loops that `asyncio.run` uses in a test.

A module or a test requests them with `pytest.mark.usefixtures` (see conftest.py):

    loop       asyncio; with `--all-loops` also uvloop
    each_loop  asyncio; with `--all-loops` also uvloop, asyncio in debug mode, and asyncio with eager tasks (since
               Python 3.12)

They are for tests of code that depends on the loop: transports and sessions. A loop that is not installed adds no test.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest import SkipTest

from .clock import VirtualLoop

NewLoop = Callable[[], asyncio.AbstractEventLoop]

LOOPS: Final = ("asyncio", "uvloop", "debug", "eager")
FIXTURES: Final = {"loop": ("asyncio", "uvloop"), "each_loop": LOOPS}
"""The fixtures and their loops."""

current = "asyncio"
"""The loop of the running test."""

_plain: Final = asyncio.events.new_event_loop


def names_of(fixture: str, *, all_loops: bool, is_virtual: bool) -> list[str]:
    """Return the loops on which a test with that fixture runs. uvloop has no virtual clock."""
    if not all_loops:
        return ["asyncio"]
    missing = {"uvloop"} if is_virtual or importlib.util.find_spec("uvloop") is None else set()
    if sys.version_info < (3, 12):
        missing.add("eager")
    return [name for name in FIXTURES[fixture] if name not in missing]


def _debug(new_event_loop: NewLoop) -> asyncio.AbstractEventLoop:
    loop = new_event_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 3600  # else a busy machine adds warnings to those that a test collects
    return loop


def _eager(new_event_loop: NewLoop) -> asyncio.AbstractEventLoop:
    loop = new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
    return loop


def factory(name: str, *, is_virtual: bool = False) -> NewLoop:
    """Return a function that makes a loop of that name. Raises SkipTest, which skips a test, if it is not available."""
    if name == "uvloop":
        try:
            import uvloop
        except ImportError:
            raise SkipTest("uvloop is not installed") from None
        uvloop.new_event_loop().close()  # the first loop of a process opens descriptors that it never closes
        return uvloop.new_event_loop
    if name == "eager" and sys.version_info < (3, 12):
        raise SkipTest("eager tasks need Python 3.12")
    new_event_loop: NewLoop = VirtualLoop if is_virtual else _plain
    made = {"asyncio": new_event_loop, "debug": lambda: _debug(new_event_loop), "eager": lambda: _eager(new_event_loop)}
    return made[name]


@contextmanager
def running_on(name: str, *, is_virtual: bool = False) -> Iterator[None]:
    """Make `asyncio.run` use the loop of that name in this process, with a virtual clock or the real one."""
    global current
    new_event_loop: Any = factory(name, is_virtual=is_virtual)
    before = asyncio.events.new_event_loop, current
    asyncio.events.new_event_loop, current = new_event_loop, name
    try:
        yield
    finally:
        asyncio.events.new_event_loop, current = before


def prelude() -> str:
    """Return the first lines of a script that runs on the current loop in another process."""
    if current == "uvloop":
        return "import asyncio.events, uvloop\nasyncio.events.new_event_loop = uvloop.new_event_loop\n"
    return ""
