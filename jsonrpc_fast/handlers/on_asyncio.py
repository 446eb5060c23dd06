"""What of handlers needs asyncio: deadlines, and sync functions in a thread or a process.

Deadlines:
  - The time runs from the call of the function, even while the handler waits for a slot in a session. A handler whose
    deadline passes before its first step does not begin.
  - A handler that is late is cancelled, and its request gets DEADLINE_EXCEEDED as soon as it has ended. If it returns
    or raises something else after it was cancelled, that is its outcome. A cancellation from outside propagates.

Executors:
  - The function and the check of its params run there; the response is encoded on the loop's thread. A thread runs the
    function in a copy of the context (`contextvars`) of the request. Another process gets neither that nor the
    `RequestContext`, and the function, its params and its result must be picklable.
  - A cancelled or late handler that waits in the executor's queue is not called, even if a thread takes it before the
    loop's next turn. One that runs continues, and its result is dropped: nothing can interrupt a thread. A cancellation
    by the executor, such as `shutdown(cancel_futures=True)`, fails only this request.
  - Without a running asyncio loop, such as in `Handlers.dispatch`, the function runs in the calling thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from ..codes import DEADLINE_MESSAGE, SessionErrorCode
from ..errors import RpcError, StateError
from ..support import TaskPart, on_failure
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
    """Return a coroutine that awaits `work` for some seconds, and then raises what `late_error` makes."""
    try:
        # The time runs from the call, so a handler that waits for a slot uses it up.
        deadline = asyncio.get_running_loop().time() + seconds
    except RuntimeError:
        deadline = None
    return OuterCoroutine(work, _in_time(work, deadline, late_error))


async def _in_time(work: Awaitable[Any], deadline: float | None, late_error: Callable[[], Exception]) -> Any:
    # Without a loop, or on a loop other than asyncio's, there is no timer.
    task = None if deadline is None else asyncio.current_task()
    if deadline is None or task is None:
        discard(work)
        raise StateError("the timeout of a handler needs asyncio: use the timeouts of this event loop")
    loop = asyncio.get_running_loop()
    if loop.time() >= deadline:
        discard(work)
        raise late_error()
    part = TaskPart()
    # Not in the context of the request: asyncio keeps a cancelled timer until its time comes, and its context with it.
    timer = loop.call_at(deadline, part.cancel, context=contextvars.Context())
    try:
        with part:
            return await work
    finally:
        timer.cancel()
    raise late_error()


class ExecutorHandler(OuterHandler):
    """A sync handler that runs in an executor; None: the default executor of the loop, which has threads.

    Raises TypeError if `executor` is not an Executor, `function` is async, or takes the context but runs in another
    process.
    """

    __slots__ = ("_executor", "_has_context")

    def __init__(self, inner: Handler, function: object, executor: Executor | None) -> None:
        if executor is not None and not isinstance(executor, Executor):
            raise TypeError(f"executor must be a concurrent.futures.Executor, not {type(executor).__name__}")
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("an async function runs on the loop: it needs no thread and no executor")
        # InterpreterPoolExecutor (Python 3.14) is a subclass of ThreadPoolExecutor, but its threads share no objects.
        interpreters: type | tuple[()] = getattr(concurrent.futures, "InterpreterPoolExecutor", ())
        has_threads = isinstance(executor, ThreadPoolExecutor) and not isinstance(executor, interpreters)
        self._has_context = executor is None or has_threads
        if inner.wants_context and not self._has_context:
            raise TypeError("a function in another process cannot take the RequestContext")
        super().__init__(inner)
        self.takes_raw: bool = inner.takes_raw and self._has_context
        self._executor = executor

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """Return an awaitable of the function's result; otherwise like `Handler.invoke`."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self._inner.invoke(params, context)
        return self._run(loop, params, context)

    async def _run(self, loop: asyncio.AbstractEventLoop, params: Any, context: RequestContext | None) -> Any:
        end = _End(loop=loop)
        if self._has_context:
            # Threads do not inherit the context of the task.
            run = contextvars.copy_context().run
            future = loop.run_in_executor(
                self._executor, run, _call_unless_cancelled, end, self._inner, params, context
            )
        else:
            future = loop.run_in_executor(self._executor, _call, self._inner, params, None)
        # The future itself is not awaited: its cancellation by the executor could not be distinguished from that of
        # this task.
        future.add_done_callback(end.reach)
        with on_failure(future.cancel):
            await end  # raises CancelledError only if this task is cancelled
        try:
            return future.result()
        except asyncio.CancelledError as error:
            raise RuntimeError("the executor or the function cancelled the work") from error


class _End(asyncio.Future[None]):
    """The end of a function in an executor. All threads see when the waiting task is cancelled."""

    is_cancelled = False

    def reach(self, _: object) -> None:
        if not self.done():
            self.set_result(None)

    def cancel(self, msg: Any = None) -> bool:
        self.is_cancelled = True
        return super().cancel(msg)


def _call_unless_cancelled(end: _End, handler: Handler, params: Any, context: RequestContext | None) -> Any:
    # Checked in the thread, because the loop may not have had a turn to cancel the future.
    return None if end.is_cancelled else _call(handler, params, context)


def _call(handler: Handler, params: Any, context: RequestContext | None) -> Any:
    try:
        return handler.invoke(params, context)
    # A future cannot hold a StopIteration: `await` would take it for the end of the coroutine.
    except StopIteration as error:
        raise RuntimeError("the function raised StopIteration") from error
