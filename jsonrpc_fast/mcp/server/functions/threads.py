"""Sync functions in a thread, and their context.

Rules:
  - A function runs in a thread of the loop's default executor, in a copy of the context variables of its request.
  - Its context may be used from the thread: log messages and progress are sent by the loop. `Context.wait` waits for
    the methods that are coroutines.
  - A thread cannot be interrupted: if the request is cancelled, the function continues and its result is dropped. It
    can check `Context.is_cancelled`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from ....handlers.executors import ExecutorHandler
from ....handlers.handler import Handler
from ..request.context import Context, copy_to
from ..request.outgoing import check_level

T = TypeVar("T")


class ThreadContext(Context):
    """The context of a function in a thread.

    Args:
        context: The context of the request, which may be of a subclass.
    """

    __slots__ = ("_is_ended", "_loop", "_waits")

    def __init__(self, context: Context) -> None:
        copy_to(self, context)
        self._loop = asyncio.get_running_loop()
        self._is_ended = False
        # `set.add` and `set.discard` are atomic, so the thread and the loop need no lock.
        self._waits: set[concurrent.futures.Future[Any]] = set()

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop, and return its result: see `Context.wait`."""
        # The coroutine runs on the loop: the session and the transport may be used only in its thread.
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        self._waits.add(future)
        if self._is_ended:  # checked after the addition: `end_waits` runs in another thread
            future.cancel()
        try:
            return future.result()
        finally:
            self._waits.discard(future)

    def end_waits(self) -> None:
        """Cancel the coroutines that the thread waits for, now and later."""
        self._is_ended = True
        for future in [*self._waits]:
            future.cancel()

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> bool:
        """Report progress: see `Context.report_progress`."""
        # The session writes on the loop: a transport is not made for two threads.
        self._loop.call_soon_threadsafe(super().report_progress, progress, total, message)
        return self._rules.progress_token is not None

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a log message: see `Context.log`."""
        # Checked here: no caller could catch an exception on the loop.
        check_level(level)
        self._loop.call_soon_threadsafe(super().log, level, data, logger)


class ThreadFunction:
    """A sync function that is called in a thread.

    Args:
        function: The function.
        context_name: The name of its parameter for the context, if it has one.

    Raises:
        TypeError: The function is async.
    """

    __slots__ = ("_context_name", "_function", "_handler")

    def __init__(self, function: Callable[..., Any], context_name: str | None) -> None:
        self._function = function
        self._context_name = context_name
        self._handler = ExecutorHandler(Handler(self._call, unpack=False), function, None)

    async def __call__(self, arguments: Mapping[str, Any], context: Context) -> Any:
        """Call the function in a thread, and return its result."""
        if self._context_name is None:
            return await self._handler.invoke(arguments, None)
        thread_context = ThreadContext(context)
        try:
            return await self._handler.invoke({**arguments, self._context_name: thread_context}, None)
        except asyncio.CancelledError:
            # The thread cannot be interrupted, but it must not wait for a client that has gone.
            thread_context.end_waits()
            raise

    def _call(self, arguments: Mapping[str, Any]) -> Any:
        return self._function(**arguments)
