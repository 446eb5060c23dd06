"""The event loops that `asyncio.run` uses in a test.

A module or a test requests them with `pytest.mark.usefixtures` (see conftest.py):

    loop       asyncio and uvloop
    each_loop  also asyncio in debug mode and with eager tasks (Python 3.12); a slow test of such a module requests
               `loop` instead
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest import SkipTest

NewLoop = Callable[[], asyncio.AbstractEventLoop]

LOOPS: Final = ("asyncio", "uvloop", "debug", "eager")
FIXTURES: Final = {
    "loop": ("asyncio", "uvloop"),
    "each_loop": LOOPS,
}
"""The fixtures and their loops."""

current = "asyncio"
"""The loop of the running test."""

_new_event_loop: Final = asyncio.events.new_event_loop


def _debug() -> asyncio.AbstractEventLoop:
    loop = _new_event_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 3600  # a busy machine must not add warnings to what a test collects
    return loop


def _eager() -> asyncio.AbstractEventLoop:
    loop = _new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
    return loop


def factory(name: str) -> NewLoop:
    """Return a function that makes a loop of that name. Raises SkipTest, which skips a test, if it is not available."""
    if name == "uvloop":
        try:
            import uvloop
        except ImportError:
            raise SkipTest("uvloop is not installed") from None
        uvloop.new_event_loop().close()  # the first loop opens descriptors that the process keeps
        return uvloop.new_event_loop
    if name == "eager" and sys.version_info < (3, 12):
        raise SkipTest("eager tasks need Python 3.12")
    return {"asyncio": _new_event_loop, "debug": _debug, "eager": _eager}[name]


@contextmanager
def running_on(name: str) -> Iterator[None]:
    """Make `asyncio.run` use the loop of that name in this process."""
    global current
    new_event_loop: Any = factory(name)
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
