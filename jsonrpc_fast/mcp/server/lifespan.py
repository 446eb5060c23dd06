"""The lifespan of a server: resources that it opens before it serves and closes afterwards, such as a connection pool.

Rules:
  - It begins with the first user and ends with the last one: a connection, an HTTP application, or code that enters
    `Server.lifespan`. It runs in its own task, so users may enter and leave in any order and in any task.
  - If it cannot begin, each user that waits for it gets the exception. If it fails at the end, the last user gets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Any, Final

from ...errors import StateError
from ...support import is_failure, on_failure

_CANCEL_SECONDS: Final = 1.0
"""How long a lifespan that was cancelled may take to end."""

MakeLifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
"""A function that takes the server and returns an async context manager."""


class Lifespan:
    """The lifespan of a server. Enter it with `async with`.

    Args:
        make: The user's function; None: there is nothing to begin.
        check: Called before a user enters; what it raises is the failure to begin.

    Attributes:
        value: What the context manager yielded; None before, and without one.
    """

    def __init__(self, make: MakeLifespan | None, server: Any, check: Callable[[], object] | None) -> None:
        self._make = make
        self._check = check
        self._others: list[Callable[[], AbstractAsyncContextManager[Any] | None]] = []
        self._server = server
        self._users = 0
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._end: asyncio.Event | None = None
        self.value: Any = None

    @property
    def exists(self) -> bool:
        """Whether there is anything to begin."""
        return self._make is not None or any(make() is not None for make in self._others)

    def add(self, make: Callable[[], AbstractAsyncContextManager[Any] | None]) -> None:
        """Add a function whose context manager, if it returns one, begins before this lifespan and ends after it."""
        self._others.append(make)

    def check_idle(self) -> None:
        """Raise StateError if there are users."""
        if self._users:
            raise StateError("the server is already running")

    async def __aenter__(self) -> Any:
        if self._check is not None:
            self._check()
        # Counted even without a lifespan: `check_idle` asks whether the server runs.
        self._users += 1
        if not self.exists:
            return None
        # A new lifespan while an earlier one may still be ending: `_run` waits for that one.
        if self._users == 1 or self._ready is None:
            self._ready, self._end = asyncio.get_running_loop().create_future(), asyncio.Event()
            self._task = asyncio.create_task(self._run(self._ready, self._end, self._task))
        assert self._ready is not None
        with on_failure(self._leave):
            # Other users wait for the same lifespan, so the cancellation of one must not end it.
            await asyncio.shield(self._ready)
        return self.value

    async def __aexit__(self, *_: object) -> None:
        if (task := self._leave()) is not None:
            await asyncio.shield(task)

    async def cancel(self) -> None:
        """Cancel a lifespan that does not end, and wait for it for a second."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_CANCEL_SECONDS)

    def _leave(self) -> asyncio.Task[None] | None:
        """Decrement the user count. Return the task that ends, if this was the last one."""
        self._users -= 1
        # Others still use it, or it has never begun.
        if self._users or self._end is None or self._ready is None or self._task is None:
            return None
        self._end.set()
        if not self._ready.done():
            self._task.cancel()
        return self._task

    async def _run(self, ready: asyncio.Future[None], end: asyncio.Event, previous: asyncio.Task[None] | None) -> None:
        # If the earlier task belongs to another loop, as in consecutive tests, it cannot be awaited.
        if previous is not None and previous.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([previous])
        try:
            # In one task: a user's context managers must be left in the task in which they were entered.
            async with AsyncExitStack() as stack:
                # Mounted servers come first, so that their functions can be called as soon as this server serves.
                for other in filter(None, [make() for make in self._others]):
                    await stack.enter_async_context(other)
                if self._make is not None:
                    self.value = await stack.enter_async_context(self._make(self._server))
                # All users may have left meanwhile, and cancelled it.
                if not ready.done():
                    ready.set_result(None)
                await end.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)
            ready.exception()  # the last user may have left
        finally:
            ready.cancel()  # does nothing if it is done
            self.value = None


class LifespanHolder:
    """One user of a lifespan, which enters it when it is first needed.

    Args:
        seconds: How long it may take to begin, and to end; None: no limit.

    Attributes:
        is_entered: Whether the lifespan has begun for this user.
    """

    def __init__(self, lifespan: Lifespan, seconds: float | None) -> None:
        self._lifespan = lifespan
        self._seconds = seconds
        self._entering: asyncio.Task[Any] | None = None
        self.is_entered: bool = False

    async def enter(self) -> None:
        """Enter the lifespan, once.

        Raises:
            TimeoutError: It does not begin in time, and was cancelled. The next call tries again.
            StateError: `leave` was called meanwhile.
            RuntimeError: It raised CancelledError without being cancelled.
            Exception: What the lifespan raises. The next call tries again.
        """
        if self._entering is None:
            self._entering = asyncio.ensure_future(self._enter())
        entering = self._entering
        with on_failure(partial(self._forget, entering)):
            try:
                await asyncio.shield(entering)
            except asyncio.CancelledError:
                # `leave` has cancelled the task; this coroutine was not cancelled.
                if entering.cancelled() and self._entering is not entering:
                    raise StateError("the server is closed") from None
                raise
        self.is_entered = True

    def _forget(self, entering: asyncio.Future[None]) -> None:
        # A caller that was cancelled leaves the task running: the next one waits for it.
        if entering.done() and self._entering is entering:
            self._entering = None

    async def _enter(self) -> None:
        await self._in_time(self._lifespan.__aenter__(), "the lifespan did not begin in time")

    async def _in_time(self, step: Awaitable[Any], late: str) -> None:
        """Await the begin or the end of the lifespan."""
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                await step
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(late) from None
            raise
        except asyncio.CancelledError as error:
            if not is_failure(error):
                raise
            raise RuntimeError("the lifespan raised CancelledError") from None

    async def leave(self) -> None:
        """Leave the lifespan, if it was entered or is being entered.

        Raises:
            TimeoutError: It does not end in time, and was cancelled.
            RuntimeError: It raised CancelledError without being cancelled.
            Exception: What the lifespan raises.
        """
        if self._entering is not None and not self._entering.done():
            entering, self._entering = self._entering, None
            entering.cancel()
            await asyncio.wait([entering])
        if self.is_entered and self._entering is not None:
            self.is_entered, self._entering = False, None
            async with on_failure(self._lifespan.cancel):
                await self._in_time(self._lifespan.__aexit__(None, None, None), "the lifespan did not end in time")
