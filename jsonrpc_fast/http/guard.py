"""Cancel the work of an HTTP request when its time is over or its client has disconnected.

Rules:
  - Work that ends without suspending needs neither a timer nor a task.
  - The work runs in the task that awaits it. The guard cancels it by cancelling that task, and catches the
    cancellation.
  - Any other cancellation propagates.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Generator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Generic, TypeVar

from ..handlers.awaiting import resume
from .requests import RETRY_SOON, Receive, Refusal

Result = TypeVar("Result")

WATCH_SECONDS: Final = 0.05
"""How long work continues before a task watches for the client's disconnection."""

_WATCHER_SECONDS: Final = 1.0


@dataclass(slots=True, eq=False, repr=False)
class Cancellable(Generic[Result]):
    """An awaitable of the result of a coroutine that may be cancelled; then its result is None.

        work = serve()
        try:
            result = await Cancellable(work, work.send(None), seconds=5)
        except StopIteration as end:  # the coroutine ended without suspending
            result = end.value

    Args:
        work: The coroutine, which has begun.
        waiting: What its `send` returned.
        seconds: How long it may take; None: no limit.
        receive: The `receive` of an ASGI application that has received the whole body. The coroutine is cancelled when
            the client disconnects.

    Attributes:
        is_cancelled: Whether the coroutine was cancelled. It may still have returned a result.
    """

    _work: Coroutine[Any, Any, Result]
    _waiting: Any
    _: KW_ONLY
    seconds: float | None = None
    receive: Receive | None = None
    is_cancelled: bool = field(default=False, init=False)
    _has_ended: bool = field(default=False, init=False)
    _watcher: asyncio.Task[None] | None = field(default=None, init=False)
    _handle: asyncio.TimerHandle | None = field(default=None, init=False)
    _task: asyncio.Task[Any] = field(init=False)

    def __await__(self) -> Generator[Any, Any, Result | None]:
        self._start()
        try:
            result = yield from resume(self._work, self._waiting)
            # The watcher is inside `receive`, and could still cancel this task: it has to end first.
            if self._watcher is not None:
                yield from self._end_watcher(self._watcher).__await__()
            return result
        except asyncio.CancelledError:
            # The cancellation was not this object's, so it is the caller's to handle.
            if not self.is_cancelled:
                raise
            return None
        finally:
            self._stop()

    def _start(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        loop = task.get_loop()
        if self.receive is not None:
            # Most requests end sooner, and never pay for the watching task.
            self._handle = loop.call_later(WATCH_SECONDS, self._watch, self.receive)
        elif self.seconds is not None:
            self._handle = loop.call_later(self.seconds, self._cancel)

    def _stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if self.is_cancelled and sys.version_info >= (3, 11) and self._task.uncancel() > 0:
            # `uncancel` returns how many requests for cancellation are left (Python 3.11): another one still has to be
            # obeyed.
            raise asyncio.CancelledError  # the task was also cancelled by someone else

    async def _end_watcher(self, watcher: asyncio.Task[None]) -> None:
        """End the watching task when the work has ended."""
        self._has_ended = True
        watcher.cancel()
        await asyncio.wait([watcher], timeout=_WATCHER_SECONDS)

    def _cancel(self) -> None:
        # The work may have ended in this turn of the loop: cancelling then would hit whatever the task does next.
        if not self._has_ended:
            self.is_cancelled = True
            self._task.cancel()

    def _watch(self, receive: Receive) -> None:
        self._watcher = self._task.get_loop().create_task(self._await_disconnect(receive))

    async def _await_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass  # the end of the body, if its declared length was enough
        self._cancel()


async def within(seconds: float | None, work: Coroutine[Any, Any, Result], status: int, reason: str) -> Result | None:
    """Return the result of a coroutine. It needs neither a timer nor a task if it ends without suspending.

    Args:
        seconds: How long it may take; None: no limit.
        work: The coroutine.
        status: The status of the refusal if it takes longer.
        reason: The reason.

    Raises:
        Refusal: It took longer.
    """
    try:
        waiting = work.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    guarded = Cancellable(work, waiting, seconds=seconds)
    found = await guarded
    if guarded.is_cancelled:
        raise Refusal(status, reason, [RETRY_SOON] if status == 503 else ())
    return found
