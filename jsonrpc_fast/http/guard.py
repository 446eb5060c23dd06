"""Cancel the work of an HTTP request when its time is over or its client has disconnected.

Rules:
  - Work that ends without suspending needs neither a timer nor a task.
  - The work runs in the task that awaits it. The guard cancels it by cancelling that task, and catches the
    cancellation.
  - Any other cancellation propagates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Generic, TypeVar

from .._parts import TaskPart
from ..handlers.awaiting import resume
from .requests import RETRY_SOON, Receive, Refusal

Result = TypeVar("Result")

WATCH_SECONDS: Final = 0.05
"""How long work continues before a task watches for the client's disconnection."""

_WATCHER_SECONDS: Final = 1.0


@dataclass(slots=True, eq=False, repr=False)
class Cancellable(Generic[Result]):
    """An awaitable of the result of a coroutine; None if the coroutine is cancelled.

        work = serve()
        try:
            result = await Cancellable(work, work.send(None), seconds=5)
        except StopIteration as end:  # the coroutine ended without suspending
            result = end.value

    Args:
        work: The coroutine, which has begun.
        waiting: The object that its `send` returned.
        seconds: How long it may take; None: no limit.
        receive: The `receive` of an ASGI application that has received the whole body. The coroutine is cancelled when
            the client disconnects.
    """

    _work: Coroutine[Any, Any, Result]
    _waiting: Any
    _: KW_ONLY
    seconds: float | None = None
    receive: Receive | None = None
    _part: TaskPart = field(init=False)
    _watcher: asyncio.Task[None] | None = field(default=None, init=False)

    @property
    def is_cancelled(self) -> bool:
        """Whether the coroutine was cancelled. It may still have returned a result."""
        return bool(self._part.cancellations)

    def __await__(self) -> Generator[Any, Any, Result | None]:
        part = self._part = TaskPart()
        loop = part.task.get_loop()
        timer = result = None
        if self.receive is not None:
            # Most requests end sooner, and do not pay for the watching task.
            timer = loop.call_later(WATCH_SECONDS, self._watch, self.receive)
        elif self.seconds is not None:
            timer = loop.call_later(self.seconds, part.cancel)
        try:
            with part:
                result = yield from resume(self._work, self._waiting)
            # The watcher is inside `receive`: it has to end first.
            if self._watcher is not None and not self._watcher.done():
                self._watcher.cancel()
                yield from asyncio.wait([self._watcher], timeout=_WATCHER_SECONDS).__await__()
        finally:
            if timer is not None:
                timer.cancel()
            if self._watcher is not None:
                self._watcher.cancel()
        if part.cancellations and part.is_task_cancelled:
            raise asyncio.CancelledError
        return result

    def _watch(self, receive: Receive) -> None:
        self._watcher = self._part.task.get_loop().create_task(self._await_disconnect(receive))

    async def _await_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass  # the end of the body, which was not awaited when its declared length was reached
        self._part.cancel()


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
