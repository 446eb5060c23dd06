"""A line of coroutines that wait for their turn, each until a deadline of its own."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from math import inf

from ..errors import CallTimeout


class Line:
    """First come, first served: only the first of the line looks whether it may pass.

    It makes no task, so no cancellation is lost on the way.
    """

    __slots__ = ("_line",)

    def __init__(self) -> None:
        self._line: OrderedDict[object, asyncio.Future[None] | None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._line)

    async def wait(self, may_pass: Callable[[], bool], deadline: float = inf) -> None:
        """Returns when all who came before are gone and `may_pass()` is true, which `look` has it ask.

        What the caller does before it awaits something else is done before the next one looks.
        deadline: by the loop's clock, in seconds; then it raises CallTimeout.
        """
        loop = asyncio.get_running_loop()
        place = object()
        self._line[place] = None
        is_late = False

        def expire() -> None:
            # It may have been told to look a moment ago, and may not pass even so.
            nonlocal is_late
            is_late = True
            self._wake(place)

        timer = None if deadline == inf else loop.call_at(deadline, expire)
        try:
            while next(iter(self._line)) is not place or not may_pass():
                waiter = self._line[place] = loop.create_future()
                await waiter
                if is_late:
                    raise CallTimeout("it could not be sent in time")
        finally:
            del self._line[place]
            if timer is not None:
                timer.cancel()
            self.look()

    def look(self) -> None:
        """Has the first of the line look again."""
        if self._line:
            self._wake(next(iter(self._line)))

    def _wake(self, place: object) -> None:
        waiter = self._line[place]
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
