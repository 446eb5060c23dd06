"""The progress of one call, passed to a function that may be async."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from ...handlers import is_awaitable

MAX_WAITING: Final = 256
"""Maximum number of progress values that wait for an async function. Beyond it the oldest is dropped."""


class ProgressQueue:
    """Call a function with each progress value, and await its result, one value after another.

    Args:
        function: The function, sync or async.
        report: Called with what an async function raises.
    """

    def __init__(self, function: Callable[[Any], object], report: Callable[[BaseException], object]) -> None:
        self._function = function
        self._report = report
        # A full deque drops its oldest value: the newest progress is the one that matters.
        self._waiting: deque[Any] = deque(maxlen=MAX_WAITING)
        self._task: asyncio.Task[None] | None = None

    def add(self, value: Any) -> None:
        """Call the function with a value, now or after those before it. Raises the exceptions of a sync function."""
        if self._task is not None:
            self._waiting.append(value)
        elif is_awaitable(result := self._function(value)):
            # Not by `create_task`: an eager task may end before it is assigned.
            self._task = asyncio.Task(self._run(result), loop=asyncio.get_running_loop())

    async def finish(self, seconds: float | None) -> None:
        """Wait until all values have been handled, for a limited time; None: without limit."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)

    def cancel(self) -> None:
        """Drop the values that wait, and cancel the running function."""
        self._waiting.clear()
        if self._task is not None:
            # The call has ended: what the function still does would be about something that is over.
            self._task.cancel()

    async def _run(self, result: Any) -> None:
        try:
            while True:
                # A fault of the caller's function must not end the call that it only watches.
                try:
                    if is_awaitable(result):
                        await result
                    if not self._waiting:
                        break
                    result = self._function(self._waiting.popleft())
                except Exception as error:
                    self._report(error)
                    result = None
        finally:
            self._task = None
