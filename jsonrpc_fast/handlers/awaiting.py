"""Awaitables of handlers: to end one that will not be awaited, and to continue a coroutine that has begun.

Nothing here needs an event loop, or imports asyncio.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator
from types import TracebackType
from typing import Any

from ..support import is_future
from ..types import T


def discard(work: Any) -> None:
    """End an awaitable that will not be awaited. One that has ended is left unchanged.

    Otherwise CPython would warn about a coroutine that was never awaited, and a future could continue to run.
    """
    if isinstance(work, Coroutine):
        work.close()
    elif is_future(work):
        work.cancel()


class OuterCoroutine(Coroutine[Any, Any, T]):
    """A coroutine around an awaitable. If it ends before its first step, it discards the awaitable.

    The coroutine of a function could not do that. `runner` awaits `work`; None: a coroutine that does only this.
    """

    __slots__ = ("_runner", "_work")

    def __init__(self, work: Awaitable[Any], runner: Coroutine[Any, Any, T] | None) -> None:
        self._work = work
        self._runner: Coroutine[Any, Any, T] = awaited(work) if runner is None else runner

    def __await__(self) -> Generator[Any, Any, T]:
        return self._runner.__await__()

    def send(self, value: Any) -> Any:
        return self._runner.send(value)

    def throw(self, kind: Any, value: Any = None, trace: TracebackType | None = None) -> Any:
        try:
            return self._runner.throw(kind if value is None else value)
        except BaseException:
            discard(self._work)
            raise

    def close(self) -> None:
        self._runner.close()
        discard(self._work)


async def awaited(work: Awaitable[T]) -> T:
    """Return what an awaitable returns, as a coroutine."""
    return await work


def resume(work: Coroutine[Any, Any, T], waiting: Any) -> Generator[Any, Any, T]:
    """Continue a coroutine that has begun, in the task of the caller: a separate task would cost a turn of the loop.

    `waiting` is the object that its last `send` returned.
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
