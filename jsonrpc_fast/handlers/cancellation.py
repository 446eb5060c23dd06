"""Cancellation, for code without an event loop.

A CancelledError cancels the current task, or comes from a future that the task awaits.

Before Python 3.11, where tasks do not count their cancellations, each one is taken as the cancellation of the task.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

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
