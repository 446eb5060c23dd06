"""Streams: results that come in parts, as progress on the call.

    async for item in session.stream("search", {"text": "tea"}):
        print(item)

Rules:
  - The request is sent when the first item is requested.
  - A stream that is left early, by `break`, by an exception or by `close`, cancels its request. So does a task that is
    cancelled while it waits for an item.
  - Items that have arrived are read before the error of a call is raised.
  - While `max_items`, or MAX_BYTES of them, are unread, this side stops reading, so that the peer has to wait. It keeps
    reading while it waits for anything else, a response or room to write, because that may follow the items. If twice
    as much is unread then, the stream ends with a StateError, and its request is cancelled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from .._typing import Self
from ..errors import StateError
from ..handlers.failures import on_failure
from ..hooks import Outcome
from ..transports.waiters import Waiters
from .calls import Call
from .engine import Engine
from .room import memory_of
from .running import waiting

MAX_BYTES: Final = 64 * 1024 * 1024
"""How much memory the unread items of a stream may take, as an estimate."""
CHECK_SECONDS: Final = 0.05
"""How often a full stream checks whether this side waits for something else."""


class _Items:
    """The items that a call has brought. The call refers to it, not to the `Stream`, so that a lost stream is freed."""

    def __init__(
        self, engine: Engine, loop: asyncio.AbstractEventLoop, is_writing: Callable[[], bool], max_items: int
    ) -> None:
        self.call: Call | None = None
        self.has_ended = False
        self.error: Exception | None = None
        self._engine = engine
        self._loop = loop
        self._is_writing = is_writing
        self._max_items = max_items
        self._queue: deque[tuple[Any, int]] = deque()  # with their sizes in bytes
        self._size = 0
        self._waiters = Waiters()
        self._timer: asyncio.TimerHandle | None = None  # while the queue is full
        self._is_resting = False

    def add(self, item: Any) -> None:
        if self.has_ended:
            return
        size = memory_of([item], MAX_BYTES)
        # Kept before the bounds are checked: what has arrived is read before the error.
        self._queue.append((item, size))
        self._size += size
        self._waiters.wake()
        if self._is_beyond(2):
            self.end(StateError(f"{len(self._queue)} items of the stream are not read"))
        elif self._is_beyond(1) and self._timer is None:
            self._check()

    def _is_beyond(self, part: float) -> bool:
        return len(self._queue) >= part * self._max_items or self._size >= part * MAX_BYTES

    def _check(self) -> None:
        """Stop reading while the queue is full and this side waits for nothing else."""
        engine = self._engine
        reading, call = engine.inbox.reading, self.call
        if call is not None and self._is_resting:
            call.progressed = self._loop.time()  # nothing arrives, because this side does not read
        # Not counting this call and those of full streams, whose responses may come after the items.
        others = len(engine.calls) - reading.full_streams - (not self._is_resting)
        self._rest(others <= 0 and not self._is_writing())
        self._timer = self._loop.call_later(CHECK_SECONDS, self._check)

    def _rest(self, wanted: bool) -> None:
        if wanted is not self._is_resting:
            self._is_resting = wanted
            reading = self._engine.inbox.reading
            reading.full_streams += 1 if wanted else -1
            reading.update()

    def _go_on(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._rest(False)

    def settle(self, _: Any, error: Exception | None) -> None:
        """Record the outcome of the call."""
        self.end(error)

    def end(self, error: Exception | None) -> None:
        """End the stream, and cancel the call if it is in flight."""
        if not self.has_ended:
            self.has_ended = True  # first, because cancelling the call settles it, and that ends the stream again
            self.error = error
            self._go_on()
            self._waiters.wake()
            if self.call is not None:
                self._engine.cancel(self.call)

    def leave(self) -> None:
        """End the stream without its items."""
        self._queue.clear()
        self.end(None)

    async def next(self) -> Any:
        while not self._queue:
            if self.has_ended:
                if self.error is not None:
                    raise self.error
                raise StopAsyncIteration
            await self._waiters.wait()
        item, size = self._queue.popleft()
        self._size -= size
        # Resumes at half of the bound, so that reading does not stop and resume with each item.
        if self._timer is not None and not (self._queue and self._is_beyond(0.5)):
            self._go_on()
        return item


class Stream:
    """An async iterator over the parts of one result, which `Session.stream` makes; also an async context manager."""

    def __init__(
        self,
        engine: Engine,
        loop: asyncio.AbstractEventLoop,
        begin: Callable[[Callable[[Any], object], Callable[..., object]], Awaitable[Call]],
        is_writing: Callable[[], bool],
        max_items: int,
    ) -> None:
        self._items = _Items(engine, loop, is_writing, max_items)
        self._loop = loop
        self._begin = begin
        self._is_begun = False
        self._is_read = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Return the next part.

        Raises:
            StopAsyncIteration: The peer has responded; see `result`. Or the stream was closed.
            StateError: Too many parts were not read, or another task is reading.
            Exception: What `Session.call` raises.
        """
        if self._is_read:
            raise StateError("another task reads this stream")
        items = self._items
        self._is_read = True
        try:
            with waiting():
                if not self._is_begun and not items.has_ended:
                    self._is_begun = True
                    with on_failure(items.leave):
                        items.call = await self._begin(items.add, items.settle)
                return await items.next()
        except asyncio.CancelledError:
            items.leave()
            raise
        finally:
            self._is_read = False

    @property
    def result(self) -> Any:
        """The result in the response: what the convention keeps of it when the peer has sent the parts.

        If the peer sends no parts, all of it is here.

        Raises:
            StateError: The peer has not responded with a result.
        """
        call = self._items.call
        if call is None or call.outcome is not Outcome.RESULT:
            raise StateError("there is no result")
        return call.settled_by

    def close(self) -> None:
        """End the iteration, and cancel the request unless there is a response. A second call does nothing."""
        self._items.leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # The collector may run this in any thread.
        if self._is_begun and not self._items.has_ended:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._items.leave)


class ReconnectingStream:
    """An async iterator like `Stream`, which `ReconnectingSession.stream` makes."""

    def __init__(self, begin: Callable[[], Awaitable[tuple[Stream, list[Any]]]]) -> None:
        self._begin = begin
        self._stream: Stream | None = None
        self._first: list[Any] = []  # the item that `begin` has read
        self._is_closed = False
        self._is_begun = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Return the next part.

        Raises:
            StopAsyncIteration: The peer has responded; see `result`. Or the stream was closed.
            StateError: Too many parts were not read, or another task is reading.
            Exception: What `ReconnectingSession.call` raises.
        """
        if self._is_closed:
            raise StopAsyncIteration
        if self._stream is None:
            if self._is_begun:
                raise StateError("another task reads this stream, or it has failed to begin")
            self._is_begun = True
            self._stream, self._first = await self._begin()
            if self._is_closed:  # meanwhile
                self._stream.close()
                raise StopAsyncIteration
        return self._first.pop() if self._first else await anext(self._stream)

    @property
    def result(self) -> Any:
        """The result in the response, like `Stream.result`.

        Raises:
            StateError: The peer has not responded with a result.
        """
        if self._stream is None:
            raise StateError("there is no result")
        return self._stream.result

    def close(self) -> None:
        """End the iteration, and cancel the request unless there is a response. A second call does nothing."""
        self._is_closed = True
        if self._stream is not None:
            self._stream.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
