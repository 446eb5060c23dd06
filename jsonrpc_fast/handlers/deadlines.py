"""Deadlines of handlers, on asyncio.

Rules:
  - The time runs from the call of the function, even while the handler waits for a slot in a session. A handler whose
    deadline passes before its first step does not begin.
  - A handler that is late is cancelled, and its request gets DEADLINE_EXCEEDED as soon as it has ended. If
    it returns or raises something else after it was cancelled, that is its outcome.
  - A cancellation from outside propagates, even if the deadline has passed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any

from ..codes import DEADLINE_MESSAGE, SessionErrorCode
from ..errors import RpcError, StateError
from ..support import TaskPart
from ..types import is_awaitable
from .awaiting import OuterCoroutine, discard
from .handler import Handler, OuterHandler, RequestContext


class DeadlineHandler(OuterHandler):
    """A handler with a deadline for its awaitable."""

    __slots__ = ("_seconds",)

    def __init__(self, inner: Handler, seconds: float) -> None:
        super().__init__(inner)
        self._seconds = seconds

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """Call the function; otherwise like `Handler.invoke`."""
        result = self._inner.invoke(params, context)
        return timed(result, self._seconds) if is_awaitable(result) else result


def _deadline_exceeded() -> Exception:
    return RpcError(SessionErrorCode.DEADLINE_EXCEEDED, DEADLINE_MESSAGE)


def timed(
    work: Awaitable[Any], seconds: float, late_error: Callable[[], Exception] = _deadline_exceeded
) -> OuterCoroutine[Any]:
    """Return a coroutine that awaits `work` for some seconds.

    Args:
        work: The awaitable.
        seconds: The time limit.
        late_error: Makes the exception to raise after that time.
    """
    try:
        # The time runs from the call, so a handler that waits for a slot uses it up.
        deadline = asyncio.get_running_loop().time() + seconds
    except RuntimeError:
        deadline = None
    return OuterCoroutine(work, _run(work, deadline, late_error))


async def _run(work: Awaitable[Any], deadline: float | None, late_error: Callable[[], Exception]) -> Any:
    # Without a loop, or on a loop other than asyncio's, there is no timer.
    task = None if deadline is None else asyncio.current_task()
    if deadline is None or task is None:
        discard(work)
        raise StateError("the timeout of a handler needs asyncio: use the timeouts of this event loop")
    loop = asyncio.get_running_loop()
    if loop.time() >= deadline:
        discard(work)
        raise late_error()
    part = TaskPart(task)
    # Not in the context of the request: asyncio keeps a cancelled timer until its time comes, and its context with it.
    timer = loop.call_at(deadline, part.cancel, context=Context())
    try:
        with part:
            return await work
    finally:
        timer.cancel()
    raise late_error()
