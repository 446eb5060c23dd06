"""Streams: results that come in parts, as progress on the call.

    async for item in session.stream("search", {"text": "tea"}):
        print(item)

Rules:
  - The request is sent when the first item is requested. A stream that is left early, by `break`, by an exception or by
    `close`, cancels its request. So does a task that is cancelled while it waits for an item.
  - Items that have arrived are read before the error of a call is raised. While `max_items`, or MAX_BYTES of them, are
    unread, this side stops reading, so that the peer has to wait. It keeps reading while it waits for anything else, a
    response or to write, because that may follow the items. If twice as much is unread then, the stream ends with
    a StateError, and its request is cancelled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Never, Self

from ..codec import Params
from ..errors import StateError
from ..handlers.caller import BatchCaller, several_params
from ..hooks import Outcome
from ..support import Waiters, check_count, on_failure
from ..types import UNSET, Unset
from .calls import Call
from .engine import Engine
from .inbound import memory_of
from .requests import Destination, waits_for_peer

MAX_BYTES: Final = 64 * 1024 * 1024
"""How much memory the unread items of a stream may take, as an estimate."""


class Items:
    """The items that a call has brought. The call refers to it, not to the `Stream`, so that a lost stream is freed."""

    def __init__(
        self, engine: Engine, loop: asyncio.AbstractEventLoop, is_writing: Callable[[], bool], max_items: int
    ) -> None:
        self.call: Call | None = None
        self.has_ended: bool = False
        self.error: Exception | None = None
        self._engine = engine
        self.loop: asyncio.AbstractEventLoop = loop
        self._is_writing = is_writing
        self._max_items = max_items
        self._queue: deque[tuple[Any, int]] = deque()  # with their sizes in bytes
        self._size = 0
        self._waiters = Waiters()
        self._timer: asyncio.TimerHandle | None = None  # while the queue is full
        self._has_stopped_reading = False

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
        call = self.call
        if call is not None and self._has_stopped_reading:
            call.progressed = self.loop.time()  # nothing arrives, because this side does not read
        # The responses of full streams, of which this is one, may come after their items: this side waits for others.
        full_streams = engine.full_streams if self._has_stopped_reading else engine.full_streams + 1
        waits_for_others = len(engine.calls) > full_streams
        self._stop_reading(not waits_for_others and not self._is_writing())
        self._timer = self.loop.call_later(0.05, self._check)

    def _stop_reading(self, wanted: bool) -> None:
        """Stop or resume reading, because of this stream."""
        if wanted is not self._has_stopped_reading:
            self._has_stopped_reading = wanted
            engine = self._engine
            engine.full_streams += 1 if wanted else -1
            engine.update_reading()

    def _resume_reading(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._stop_reading(False)

    def settle(self, _: Any, error: Exception | None) -> None:
        """Record the outcome of the call."""
        self.end(error)

    def end(self, error: Exception | None) -> None:
        """End the stream, and cancel the call if it is in flight."""
        if not self.has_ended:
            self.has_ended = True  # first, because cancelling the call settles it, and that ends the stream again
            self.error = error
            self._resume_reading()
            self._waiters.wake()
            if self.call is not None:
                self._engine.cancel(self.call)

    def leave(self) -> None:
        """End the stream without its items."""
        self._queue.clear()
        self.end(None)

    async def first(self) -> None:
        """Wait for the next item, or the end. Raises the error that has ended the call, if no item is left."""
        while not self._queue and not self.has_ended:
            await self._waiters.wait()
        if not self._queue and self.error is not None:
            raise self.error

    async def next(self) -> Any:
        await self.first()
        if not self._queue:
            raise StopAsyncIteration
        item, size = self._queue.popleft()
        self._size -= size
        # Resumes at half of the bound, so that reading does not stop and resume with each item.
        if self._timer is not None and not (self._queue and self._is_beyond(0.5)):
            self._resume_reading()
        return item


class Stream:
    """An async iterator over the parts of one result, which `Session.stream` makes; also an async context manager."""

    def __init__(self, begin: Callable[[], Awaitable[Items]]) -> None:
        self._begin = begin
        self._items: Items | None = None  # of a call that has begun
        self._is_begun = self._is_closed = self._is_read = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Return the next part.

        Raises:
            StopAsyncIteration: The peer has responded; see `result`. Or the stream was closed.
            StateError: Too many parts were not read, or another task is reading.
            Exception: What the `call` of the session raises.
        """
        if self._is_read:
            raise StateError("another task reads this stream")
        self._is_read = True
        try:
            with waits_for_peer():
                if not self._is_begun and not self._is_closed:
                    self._is_begun = True
                    self._items = await self._begin()
                    if self._is_closed:  # meanwhile
                        self._items.leave()
                if self._items is None:
                    raise StopAsyncIteration
                return await self._items.next()
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            self._is_read = False

    @property
    def result(self) -> Any:
        """The result in the response.

        If the peer has sent the parts, the convention defines what is left for the response.

        If the peer sends no parts, all of it is here.

        Raises:
            StateError: The peer has not responded with a result.
        """
        call = None if self._items is None else self._items.call
        if call is None or call.outcome is not Outcome.RESULT:
            raise StateError("there is no result")
        return call.settled_by

    def close(self) -> None:
        """End the iteration, and cancel the request unless there is a response. A second call does nothing."""
        self._is_closed = True
        if self._items is not None:
            self._items.leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # The collector may run this in any thread.
        if self._items is not None and not self._items.has_ended:
            with suppress(RuntimeError):  # the loop is closed
                self._items.loop.call_soon_threadsafe(self._items.leave)


class StreamCaller(BatchCaller):
    """A caller that can also receive a result in parts: it defines `_begin_stream`, too."""

    def stream(
        self,
        method: str,
        params: Params = None,
        *more: Never,
        timeout: float | None = None,
        idle_timeout: float | Unset | None = UNSET,
        max_items: int = 1000,
        destination: Destination | None = None,
    ) -> Stream:
        """Call a method of the peer whose result comes in parts, and read them.

            async for item in session.stream("search", {"text": "tea"}):
                print(item)

        The peer sends each part as progress, as the convention defines it. See `Stream`.

        A `ReconnectingSession` begins the call in the session of a connection, and again in the next one if it was
        certainly not served. A stream that has begun ends with its connection: ConnectionLost comes after the items
        that have arrived.

        Args:
            method: The method to call. `destination` is as in `call`.
            params: An object or None: the convention's token is added to them.
            timeout: Seconds for the whole call, with the wait for a connection; None: no limit.
            idle_timeout: Maximum seconds without a part, or without a connection; None: no limit. The default is the
                session's `timeout`.
            max_items: Maximum number of unread parts, 1 or more. At this number, nothing more is read from the peer,
                unless this side waits for something else.

        Raises:
            StateError: The session is not started, or its convention has no progress.
            TypeError, ValueError: An argument has the wrong type or value, or the params are an array, which cannot
                carry a token.
        """
        if more:
            raise several_params("stream")
        check_count("max_items", max_items, 1, may_be_none=False)
        return Stream(self._begin_stream(method, params, timeout, idle_timeout, max_items, destination))

    # `*_`, which is always empty, lets type checkers accept the arguments of each subclass.
    def _begin_stream(self, method: str, params: Params, *_: Any) -> Callable[[], Awaitable[Items]]:
        """Return the function that begins the call. The other arguments are those of `stream`, in its order."""
        raise NotImplementedError


async def begun(stream: Stream) -> Items:
    """Begin a stream, and return its items when the first one, or the result, has arrived.

    Raises:
        Exception: As `Stream.__anext__`.
    """
    items = await stream._begin()
    with on_failure(items.leave):
        await items.first()
    return items
