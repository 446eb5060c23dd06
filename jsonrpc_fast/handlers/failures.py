"""The rule for exceptions of a user's function, in handlers, HTTP and MCP.

Rules:
  - An `Exception`, SystemExit, and a foreign cancellation, such as the cancellation of a future that the function
    awaits, fail only the message or the request that called the function (`is_failure`).
  - Everything else propagates: KeyboardInterrupt, the cancellation of the task itself, and those of anyio and trio.
  - Whatever is raised, begun work is undone, and the exception propagates (`on_failure`). This needs no `except
    BaseException`; the few that remain carry an exception from one task or coroutine to another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ..errors import HANDLER_FAILURES
from ..types import is_awaitable

CancelledError = asyncio.CancelledError
is_future: Final = asyncio.isfuture


def is_foreign_cancellation(error: BaseException | None) -> bool:
    """Return whether an exception is a CancelledError although the current task was not cancelled."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop is running
        return True
    # `cancelling` counts the calls of `cancel` that the task has not taken back (`uncancel`).
    return task is None or not task.cancelling()


def is_failure(error: BaseException | None) -> bool:
    """Return whether an exception of a user's function fails only the message or the request that called it."""
    return isinstance(error, HANDLER_FAILURES) or is_foreign_cancellation(error)


class on_failure:  # as a function, like `contextlib.suppress`
    """A context manager that undoes begun work if its block raises. The exception propagates.

        with on_failure(process.kill):
            read_first_line(process)

    Args:
        undo: Called without arguments. It may be async in an `async with`.
    """

    __slots__ = ("_undo",)

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self._undo()

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            undone = self._undo()
            if is_awaitable(undone):
                await undone  # type: ignore[misc]
