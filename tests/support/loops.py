"""The event loops that tests run on, chosen for whatever calls `asyncio.run` in a test.

A module or a test asks for them with `pytest.mark.usefixtures`, see conftest.py:

    loop       asyncio and uvloop
    each_loop  asyncio in debug mode and with eager tasks (Python 3.12) as well; a slow test of such a module asks for
               `loop` to leave them out
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
"""The fixtures, and the loops that a test runs on with each."""

current = "asyncio"
"""The loop of the test that runs."""

_new_event_loop: Final = asyncio.events.new_event_loop


def _debug() -> asyncio.AbstractEventLoop:
    loop = _new_event_loop()
    loop.set_debug(True)
    return loop


def _eager() -> asyncio.AbstractEventLoop:
    loop = _new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
    return loop


def factory(name: str) -> NewLoop:
    """A function that makes a loop of that name. Raises SkipTest, which skips a test, where there is none."""
    if name == "uvloop":
        try:
            import uvloop
        except ImportError:
            raise SkipTest("uvloop is not installed") from None
        uvloop.new_event_loop().close()  # the first one opens descriptors that the process keeps
        return uvloop.new_event_loop
    if name == "eager" and sys.version_info < (3, 12):
        raise SkipTest("eager tasks came with Python 3.12")
    return {"asyncio": _new_event_loop, "debug": _debug, "eager": _eager}[name]


@contextmanager
def running_on(name: str) -> Iterator[None]:
    """`asyncio.run` uses the loop of that name, in this process."""
    global current
    new_event_loop: Any = factory(name)
    before = asyncio.events.new_event_loop, current
    asyncio.events.new_event_loop, current = new_event_loop, name
    try:
        yield
    finally:
        asyncio.events.new_event_loop, current = before


def prelude() -> str:
    """The first lines of a script that runs on the current loop, in a process of its own."""
    if current == "uvloop":
        return "import asyncio.events, uvloop\nasyncio.events.new_event_loop = uvloop.new_event_loop\n"
    return ""
