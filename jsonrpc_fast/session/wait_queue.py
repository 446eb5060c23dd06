"""A queue of coroutines that wait for their turn, each with its own deadline."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextvars import Context
from math import inf
from typing import Final

from ..errors import CallTimeout

_NONE: Final[OrderedDict[object, asyncio.Future[bool] | None]] = OrderedDict()
"""The waiters of a queue that has had none: most sessions never need more."""


class WaitQueue:
    """A first-in, first-out queue: only the first waiter checks whether it may pass.

    It creates no tasks, so no cancellation gets lost.

    Attributes:
        waiters: The waiters in order of arrival; read-only for callers.
    """

    waiters: OrderedDict[object, asyncio.Future[bool] | None] = _NONE

    def __len__(self) -> int:
        return len(self.waiters)

    async def wait(self, may_pass: Callable[[bool], bool], deadline: float = inf) -> None:
        """Wait until all earlier waiters have left and `may_pass` returns True.

        `may_pass` is called when the caller becomes the first waiter, and after each `wake`. The next waiter checks
        only after the caller has yielded to the loop.

        Args:
            may_pass: Returns whether the caller may pass. Its argument is the `has_drained` of the wake-up.
            deadline: In seconds, by the loop's clock; inf: none.

        Raises:
            CallTimeout: The deadline has passed.
        """
        loop = asyncio.get_running_loop()
        place = object()
        if self.waiters is _NONE:
            self.waiters = OrderedDict()
        self.waiters[place] = None
        is_late = False

        def expire() -> None:
            # A wake-up in the same turn of the loop must not hide the deadline.
            nonlocal is_late
            is_late = True
            self._wake(place)

        timer = None if deadline == inf else loop.call_at(deadline, expire, context=Context())
        try:
            has_drained = False
            while next(iter(self.waiters)) is not place or not may_pass(has_drained):
                waiter = self.waiters[place] = loop.create_future()
                has_drained = await waiter
                if is_late:
                    raise CallTimeout("the call could not be sent in time")
        finally:
            # Even after a cancellation: otherwise the next waiter would not get its turn.
            del self.waiters[place]
            if timer is not None:
                timer.cancel()
            self.wake()

    def wake(self, has_drained: bool = False) -> None:
        """Let the first waiter check again. `has_drained`: because the peer has read."""
        if self.waiters:
            self._wake(next(iter(self.waiters)), has_drained)

    def _wake(self, place: object, has_drained: bool = False) -> None:
        waiter = self.waiters[place]
        if waiter is not None and not waiter.done():
            waiter.set_result(has_drained)
