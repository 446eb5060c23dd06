"""Cancellation, and coroutines that have begun, for code without an event loop.

A CancelledError cancels the current task, or comes from a future that the task awaits.

Before Python 3.11, where tasks do not count their cancellations, each one is taken as the cancellation of the task.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Generator
from typing import Any, Final, TypeVar

T = TypeVar("T")

CancelledError = asyncio.CancelledError
is_future: Final = asyncio.isfuture


def is_foreign_cancellation(error: BaseException | None) -> bool:
    """Return whether an exception is a CancelledError although the current task was not cancelled."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no loop
        return True
    # `cancelling` counts the calls of `cancel` that the task has not taken back (`uncancel`).
    return task is None or (sys.version_info >= (3, 11) and not task.cancelling())


def resume(work: Coroutine[Any, Any, T], waiting: Any) -> Generator[Any, Any, T]:
    """Continue a coroutine that has begun in the task of the caller. A task of its own would cost a turn of the loop.

    Args:
        work: The coroutine.
        waiting: What its last `send` returned.
    """
    try:
        while True:
            try:
                value = yield waiting
            except BaseException as error:
                waiting = work.throw(error)
            else:
                waiting = work.send(value)
    except StopIteration as end:
        result: T = end.value
        return result
