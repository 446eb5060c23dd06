"""Run a coroutine in a session's loop on behalf of another thread, which gets a future.

Cancelling the future cancels the coroutine. If the loop is closed before that begins, it fails with ConnectionLost.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

from ..errors import ConnectionLost, StateError

Begin: TypeAlias = Callable[[concurrent.futures.Future[Any]], Coroutine[Any, Any, Any]]
"""Creates the coroutine. Its argument is the future that the thread gets."""


lock: Final = threading.RLock()
"""Held while messages from other threads are counted. All sessions share it: it is held only briefly, and one for each
would cost memory. It is reentrant, because a destructor that the garbage collector runs meanwhile may send a
message."""


class _Ticket:
    """A call or notification from another thread. If a closed loop drops it, it fails with ConnectionLost."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def ended(self, task: asyncio.Task[Any]) -> None:
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # the other thread has just cancelled it
            if task.cancelled():
                self.future.cancel()
            elif (error := task.exception()) is not None:
                self.future.set_exception(error)
            else:
                self.future.set_result(task.result())

    def drop(self) -> None:
        if not self.future.done():
            with contextlib.suppress(concurrent.futures.InvalidStateError):
                self.future.set_exception(ConnectionLost("the message was dropped together with the session's loop"))

    __del__ = drop  # called when the loop or the task that had the last reference drops it


def run_threadsafe(loop: asyncio.AbstractEventLoop, begin: Begin) -> concurrent.futures.Future[Any]:
    """Run a coroutine in a loop, for another thread.

    Args:
        loop: The loop of the session.
        begin: Creates the coroutine; called on the loop's thread.

    Returns:
        A future for the result or exception of the coroutine.

    Raises:
        StateError: The loop is not running.
    """
    if not loop.is_running():
        raise StateError("the session's loop is not running")
    # A loop that is closed drops what was scheduled, including the ticket. The end of the ticket settles the future.
    ticket = _Ticket()
    future = ticket.future
    try:
        loop.call_soon_threadsafe(_begin, loop, ticket, begin)
    except RuntimeError:
        raise StateError("the session's loop is closed") from None
    if loop.is_closed():  # it was closed after the check above, and may keep the ticket
        ticket.drop()
    return future


def _begin(loop: asyncio.AbstractEventLoop, ticket: _Ticket, begin: Begin) -> None:
    if ticket.future.cancelled():  # before anything was sent
        return
    task = asyncio.Task(begin(ticket.future), loop=loop)
    task.add_done_callback(ticket.ended)
    # Only the loop holds the task. If the future held it, too, a task dropped by a closed loop would never be freed.
    found = weakref.ref(task)

    def cancel(future: concurrent.futures.Future[Any]) -> None:
        task = found()
        if task is not None and future.cancelled():
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(task.cancel)

    ticket.future.add_done_callback(cancel)
