"""Parts of a task that can be cancelled on their own, such as a handler with a deadline or the opening of a channel."""

from __future__ import annotations

import asyncio
from typing import Any, Self


class TaskPart:
    """A context manager that can be cancelled without the rest of the running task, like `asyncio.timeout`.

    Its own cancellation ends with the block. A cancellation of the whole task is passed on.

    Args:
        task: The running task; None: it is looked up.

    Attributes:
        task: The running task.
        cancellations: How many times the part was cancelled. It may still have ended in another way.
    """

    task: Any
    cancellations: int = 0
    _has_ended = False

    def __init__(self, task: Any = None) -> None:
        self.task = task = asyncio.current_task() if task is None else task
        self._before = task.cancelling()

    def cancel(self, msg: Any = None) -> bool:
        """Cancel the block. Return False, and do nothing, if it has ended."""
        if self._has_ended:
            return False
        self.cancellations += 1
        cancelled: bool = self.task.cancel()
        return cancelled

    @property
    def is_task_cancelled(self) -> bool:
        """Whether something else has cancelled the whole task since the part has begun; known when it has ended."""
        return bool(self.task.cancelling() > self._before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        self._has_ended = True
        if not self.cancellations:
            return False
        # A cancellation that is not taken back would make an `asyncio.timeout` around this block fail.
        for _ in range(self.cancellations):
            self.task.uncancel()
        return isinstance(error, asyncio.CancelledError) and not self.is_task_cancelled
