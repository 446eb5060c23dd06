"""The context of a function that may run as a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .context import Context, copy_to
from .tasks import Task


class TaskContext(Context):
    """The context of a function that may run as a task."""

    __slots__ = ("_start", "_task")

    def __init__(self, context: Context, start: Callable[[], Task] | None) -> None:
        copy_to(self, context)
        self._start = start
        self._task: Task | None = None

    async def start_task(self) -> None:
        """Start the task: see `Context.start_task`."""
        if self._start is not None:
            start, self._start = self._start, None
            self._task = start()
            self._ask = self._task.ask

    @property
    def is_cancelled(self) -> bool:
        """Whether the client has cancelled the request or the task."""
        return super().is_cancelled if self._task is None else self._task.status == "cancelled"

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> bool:
        """Report progress: see `Context.report_progress`. The tasks of 2026-07-28 show it as their status message."""
        if self._task is None:
            return super().report_progress(progress, total, message)
        if message is not None:
            self._task.change(self._task.status, message)
        return False

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a log message: see `Context.log`. The tasks of 2026-07-28 send none."""
        if self._task is None or not self._task.is_modern:
            super().log(level, data, logger)
