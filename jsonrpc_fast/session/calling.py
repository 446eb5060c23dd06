"""The calling half of a session: sends calls and notifications, and settles each call exactly once.

Everything except `call_threadsafe` and `notify_threadsafe` runs on the loop's thread.

Rules:
  - If the task that awaits a call is cancelled, the call is cancelled. As after a timeout, the peer is notified if the
    convention has a message for that.
  - Calls and notifications wait while the transport's write buffer is full; calls also wait while `max_calls` calls
    are in flight. A handler's only call or batch does not wait: the peer may need it to complete the calls in flight.
    At most `max_calls` notifications from other threads may be waiting; further ones raise StateError.
  - After the peer's goodbye, only responses are sent. Calls that the peer has read continue; all others have settled.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from inspect import signature
from typing import Any, Concatenate, Final, Never, TypeAlias

from ..codec import Notification, Params
from ..codec._backend import decoded
from ..errors import ConnectionLost, StateError
from ..handlers.caller import BatchItem, Caller, several_params
from ..profile import check_batches
from ..support import check_seconds, shorten
from ..transports.channel import HIGH_WATER_BYTES
from ..transports.connection import Connection
from ..transports.protocol import Transport
from ..types import UNSET, P, T, Unset
from .conventions import Convention
from .engine import Engine
from .loop_driver import LoopDriver
from .requests import Destination, InboundRequest, running, waits_for_peer
from .streams import Items, StreamCaller


def _threadsafe_form(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], concurrent.futures.Future[T]]:
    """Like `blocking_form`, for a method that returns a future to another thread."""

    def begin(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> concurrent.futures.Future[T]:
        """Call a method of the peer from another thread. All arguments are as in `call`.

        `on_progress` is called in the thread of the loop.

        Returns:
            A future for the result or exception of `call`. Cancelling it cancels the call. It fails with
            ConnectionLost if the loop is closed before the call begins, and is cancelled if the loop's tasks are
            cancelled, as `asyncio.run` does on exit. If the loop stops, is closed without cancelling its tasks, or
            begins the call only after cancelling them, the future may stay pending: wait for it with a timeout.

        Raises:
            StateError: The session is not started, or its loop is not running.
        """
        return run_threadsafe(self._started_loop(), lambda _: method(self, *args, **kwargs))

    begin.__name__ = "call_threadsafe"
    begin.__signature__ = signature(method)  # type: ignore[attr-defined]
    return begin


class Calling(StreamCaller):
    """The half of a `Session` that calls the peer; handlers see their session as this class.

    Attributes:
        context: Any object of the application, such as the current user. A handler may replace it; later handlers get
            the new object.
    """

    def __init__(self, driver: LoopDriver, engine: Engine) -> None:
        self.context: Any = engine.rules.context
        self._driver = driver
        self._engine = engine
        self._from_threads: set[concurrent.futures.Future[None]] | None = None  # notifications that wait

    @property
    def _transport(self) -> Transport:
        return self._driver.transport

    async def _send(
        self,
        method: str,
        params: Params,
        is_call: bool,
        is_typed: bool,
        *,
        timeout: float | Unset | None = UNSET,
        idle_timeout: float | None = None,
        on_progress: Callable[[Any], object] | None = None,
        extra: Mapping[str, Any] | None = None,
        destination: Destination | None = None,
    ) -> Any:
        if not is_call:
            if idle_timeout is not None or on_progress is not None:
                raise TypeError("a notification has no progress")
            if timeout is not UNSET:
                self.seconds_of(timeout)  # checked even if it is not needed
            if self._must_wait(0):
                await self._wait_to_notify(timeout, method)
            if self._driver.loop is None:
                self._started_loop()  # raises
            self._engine.notify(method, params, destination, extra)
            return None
        # Like `waits_for_peer`, but without the cost of a context manager, because this runs for each call.
        run = running()
        is_only = False
        if run is not None:
            is_only = run.begin_wait()
        try:
            # The only call of a handler is sent at once: if all calls of both peers waited for calls back, none would
            # end.
            waited_seconds = 0.0
            if not is_only and self._must_wait(1):
                timeout, waited_seconds = await self.wait_to_send(1, timeout, method)
            future = self._started_loop().create_future()
            seconds: Any = self._engine.rules.timeout if timeout is UNSET else timeout
            call = self._engine.call(
                method, params, seconds, idle_timeout, on_progress, destination, future, is_only, False, extra
            )
            call.waited_seconds = waited_seconds
            try:
                return await future
            except asyncio.CancelledError:
                # The future is cancelled by now, so that the call settles without a waiter.
                self._engine.cancel(call)
                raise
            finally:
                del future, call  # the traceback of an error has this frame, which would keep the error
        finally:
            if run is not None:
                run.end_wait()

    def call_soon(
        self,
        method: str,
        params: Params = None,
        *more: Never,
        on_result: Callable[[Any], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
        timeout: float | Unset | None = UNSET,
        idle_timeout: float | None = None,
        on_progress: Callable[[Any], object] | None = None,
    ) -> int | str:
        """Call a method of the peer without waiting. Exactly one of the two callbacks is called later.

        Args:
            method: The method to call. `params` and the options without a description are as in `call`.
            on_result: Called with the result.
            on_error: Called with the exception that `call` would raise after sending.

        Returns:
            The id of the call.

        Raises:
            StateError: The session is not started, or `max_calls` calls are in flight.
            ConnectionLost: The connection was lost or closed.
            EncodeError, TypeError: The params cannot be encoded.
        """
        if more:
            raise several_params("call_soon")
        run = running()
        is_returned = False

        def settle(result: Any, error: Exception | None) -> object:
            if not is_returned:  # a hook cancelled the call before its id was returned: settle it later
                self._started_loop().call_soon(self._engine.run_callback, settle, result, error)
                return None
            if run is not None:
                run.end_wait()
            if error is not None:
                return None if on_error is None else on_error(error)
            return None if on_result is None else on_result(result)

        self._started_loop()
        call = self._engine.call(method, params, self.seconds_of(timeout), idle_timeout, on_progress, None, settle)
        if run is not None:
            run.begin_wait()  # the handler probably waits for a callback
        is_returned = True
        return call.id

    async def _send_batch(
        self,
        items: list[BatchItem],
        is_typed: bool,
        *,
        timeout: float | Unset | None = UNSET,
        extra: Mapping[str, Any] | None = None,
    ) -> list[Any]:
        count = sum(not isinstance(item, Notification) for item in items)
        if count:
            check_batches(self._transport.profile)
        if count > self._engine.rules.max_calls:
            raise ValueError(f"a batch of {count} calls exceeds max_calls, which is {self._engine.rules.max_calls}")
        with waits_for_peer() as may_exceed:
            waited_seconds = 0.0
            if not may_exceed:
                timeout, waited_seconds = await self.wait_to_send(count, timeout)
            return await self._call_batch(items, count, timeout, waited_seconds, may_exceed, extra)

    async def _call_batch(
        self,
        items: list[BatchItem],
        left: int,
        timeout: float | Unset | None,
        waited_seconds: float,
        may_exceed: bool,
        extra: Mapping[str, Any] | None,
    ) -> list[Any]:
        done = self._started_loop().create_future()
        results: list[Any] = [None] * len(items)

        def settle(index: int, result: Any, error: Exception | None) -> None:
            nonlocal left
            results[index] = result if error is None else error
            left -= 1
            # If the waiting task is cancelled, so is `done`; the calls are then cancelled one by one.
            if not left and not done.done():
                done.set_result(None)

        seconds = self.seconds_of(timeout)
        calls = self._engine.call_batch(items, seconds, lambda index: partial(settle, index), may_exceed, extra)
        for call in calls:
            if call is not None:
                call.waited_seconds = waited_seconds
        try:
            if left:
                await done
        except asyncio.CancelledError:
            for call in calls:
                if call is not None:
                    self._engine.cancel(call)
            raise
        return results

    call_threadsafe: Final = _threadsafe_form(Caller.call)

    def notify_threadsafe(self, method: str, params: Params = None, *more: Never) -> concurrent.futures.Future[None]:
        """Send a notification from another thread.

        Args:
            method: The method of the notification.
            params: As in `call`.

        Returns:
            A future that completes when the notification is in the write buffer, or fails with the exception of
            `notify`. If it is cancelled before that, nothing is sent. When the loop ends, it behaves like the future
            of `call_threadsafe`.

        Raises:
            StateError: The session is not started, its loop is not running, or `max_calls` notifications from
                other threads are already waiting: wait for one of their futures first.
        """
        if more:
            raise several_params("notify_threadsafe")
        loop = self._started_loop()
        with lock:
            if self._from_threads is None:
                self._from_threads = set()
            if len(self._from_threads) >= self._engine.rules.max_calls:
                raise StateError("too many notifications from other threads are waiting")
            future = run_threadsafe(loop, partial(self._notify_unless_cancelled, method, params))
            self._from_threads.add(future)
        # Outside the lock: if the future is already done, this is called at once.
        future.add_done_callback(self._from_threads.discard)
        return future

    def _started_loop(self) -> asyncio.AbstractEventLoop:
        loop = self._driver.loop
        if loop is None:
            raise self._engine.refusal() if self._engine.closes else StateError("the session is not started")
        return loop

    async def _notify_unless_cancelled(self, method: str, params: Any, future: concurrent.futures.Future[Any]) -> None:
        if self._must_wait(0):
            await self._wait_to_notify(UNSET, method)
        # From here on the other thread cannot cancel it.
        if future.set_running_or_notify_cancel():
            self.notify_soon(method, params)

    async def _wait_to_notify(self, timeout: float | Unset | None, method: str) -> None:
        seconds = None if timeout is UNSET else self.seconds_of(timeout)
        run = running()
        if run is None or run.state == "ended":
            await self.wait_to_send(0, seconds, method)
        elif not self._reads or self._driver.handler_queue.waiters:
            # Not behind calls that wait for others to end: these may need this handler first, like its call.
            with waits_for_peer():
                await self._driver.handler_queue.wait(self._may_write, seconds, shorten(method))

    def notify_soon(
        self,
        method: str,
        params: Params = None,
        *more: Never,
        extra: Mapping[str, Any] | None = None,
        destination: Destination | None = None,
    ) -> None:
        """Send a notification without waiting for room in the write buffer. The options are as in `notify`."""
        if more:
            raise several_params("notify_soon")
        self._started_loop()
        self._engine.notify(method, params, destination, extra)

    def notify_as(self, method: str, params: Params, texts: dict[Any, bytes]) -> bool:
        """Send a notification at once, if the peer reads: one step of `broadcast`.

        Return False if nothing is sent, because the session is not connected, or the peer does not read. `texts`: what
        has been written of it for other sessions, by their forms. This adds to it.
        """
        engine = self._engine
        if not (self._driver.loop is not None and engine.may_call and self.is_connected and self._reads):
            return False
        form = engine.calls.form
        text = None if form is None else texts.get(form)
        if text is None:
            text = engine.calls.notify(method, params)
            if form is not None:
                texts[form] = text
        engine.send(text, None)
        if isinstance(self._transport, Connection):
            self._transport.flush()  # the writing is a part of the turn
        return True

    def cancel(self, id: int | str, reason: str | None = None) -> bool:
        """Cancel a call in flight, which then raises CallCancelled, and notify the peer.

        Args:
            id: The id of the call.
            reason: The reason, as text for people. It is sent only if the convention has a field for it.

        Returns:
            False if no such call is in flight.
        """
        call = self._engine.calls.find(id)
        return call is not None and self._engine.cancel(call, reason)

    def _begin_stream(
        self,
        method: str,
        params: Params,
        timeout: float | None,
        idle_timeout: float | Unset | None,
        max_items: int,
        destination: Destination | None,
    ) -> Callable[[], Awaitable[Items]]:
        loop = self._started_loop()
        engine, convention = self._engine, self.convention
        if convention.item_token(convention.with_item_token(None, 1)) is None:
            raise StateError("the convention has no progress")
        if convention.item_token(convention.with_item_token(decoded(params), 1)) is None:
            raise TypeError("the params must be an object or None, to carry the token of a stream")
        idle_seconds = self.seconds_of(idle_timeout)

        async def begin() -> Items:
            seconds, waited_seconds = await self.wait_to_send(1, timeout, method)
            items = Items(engine, loop, self._driver.has_waiters, max_items)
            items.call = engine.call(
                method, params, seconds, idle_seconds, items.add, destination, items.settle, is_stream=True
            )
            items.call.waited_seconds = waited_seconds
            return items

        return begin

    async def send_item(self, request: InboundRequest, item: Any) -> bool:
        """Send a part of the result of a request to the peer: see `RequestContext.send_item`."""
        text = self._engine.item(request, item)
        if text:
            if self._transport.write_buffer_bytes > HIGH_WATER_BYTES:
                with waits_for_peer():
                    await self._transport.drain()
            self._engine.send(text, request.destination)
        return bool(text)

    @property
    def convention(self) -> Convention:
        """The convention of the session."""
        return self._engine.rules.convention

    def report_progress(self, request: InboundRequest, value: Any) -> bool:
        """Report progress on a request to the peer: see `SessionContext.report_progress`."""
        text = self._engine.progress(request, value)
        self._engine.send(text, request.destination)
        return bool(text)

    @property
    def is_connected(self) -> bool:
        """Whether the session is started and its connection is open."""
        raise NotImplementedError

    @property
    def is_leaving(self) -> bool:
        """Whether the peer has said goodbye: no more calls can be sent, but those in flight continue."""
        return self._engine.is_leaving

    def refusal(self) -> ConnectionLost:
        """Return what a call raises after the end, with the reason as far as it is known."""
        return self._engine.refusal()

    @property
    def fault(self) -> Exception | None:
        """The exception that broke the connection; None while it is open, and after either side has closed it."""
        return self._engine.fault

    def report_fault(self, fault: Exception) -> None:
        """Report a fault of the peer that gets no response: to the hook `fault`, or as a warning in the log, at most
        once a second."""
        self._engine.rules.hooks.unanswered(fault)

    async def wait_leaving(self) -> None:
        """Wait until no more calls can be sent: the peer has said goodbye, or the connection is closed or lost.

        Raises:
            StateError: The session is not started.
        """
        self._started_loop()
        while self._engine.may_call:
            await self._driver.changed.wait()

    @property
    def peer(self) -> Any:
        """The peer, if the transport knows it: an address, or the `PeerCredentials` of a Unix socket."""
        return self._transport.peer

    async def close(self, grace_seconds: float | Unset | None = UNSET) -> None:
        """End the session: see `Session.close`."""
        raise NotImplementedError

    def seconds_of(self, timeout: float | Unset | None) -> float | None:
        """Return the timeout of a call in seconds; UNSET means the session's timeout.

        Raises:
            TypeError, ValueError: It is not a duration.
        """
        if timeout is UNSET:
            return self._engine.rules.timeout
        check_seconds("timeout", timeout, may_be_infinite=True)  # a NaN would break the order of the loop's timers
        return timeout

    async def wait_to_send(
        self, calls: int, timeout: float | Unset | None, method: str | None = None
    ) -> tuple[float | None, float]:
        """Wait until this many more calls may be sent, and return the remaining timeout and the seconds that passed.

        Returns at once if the session is closed; sending then raises the error. Raises CallTimeout if no room became
        free in time, which names the method.
        """
        seconds = self.seconds_of(timeout)
        if not self._must_wait(calls):
            return seconds, 0.0
        begun = self._driver.time()
        what = f"a batch of {calls}" if method is None else shorten(method)
        await self._driver.wait_queue.wait(lambda has_drained: self._may_send(calls, has_drained), seconds, what)
        waited_seconds = self._driver.time() - begun
        return None if seconds is None else max(0.0, seconds - waited_seconds), waited_seconds

    def _must_wait(self, calls: int) -> bool:
        engine, driver = self._engine, self._driver
        return (engine.may_call or (not calls and engine.may_notify)) and (
            (calls > 0 and not engine.calls.may_begin(calls))
            or driver.transport.write_buffer_bytes > HIGH_WATER_BYTES
            or bool(driver.wait_queue.waiters)  # earlier waiters go first
        )

    def _may_send(self, calls: int, has_drained: bool) -> bool:
        engine = self._engine
        if calls and not engine.may_call:
            return True  # the engine raises the reason
        if engine.may_call and not engine.calls.may_begin(calls):
            return False
        return self._may_write(has_drained)

    def _may_write(self, has_drained: bool) -> bool:
        # If no more may be sent, the engine raises the reason. The buffer may be above HIGH_WATER_BYTES although the
        # transport does not block: one waiter passes then.
        if has_drained or self._reads or not self._engine.may_notify:
            return True
        self._driver.drain()
        return False

    @property
    def _reads(self) -> bool:
        """Whether the peer reads what is sent."""
        return self._transport.write_buffer_bytes <= HIGH_WATER_BYTES


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
    """Run the coroutine that `begin` creates in a loop, for another thread. Return the future of its outcome.

    Raises StateError if the loop is not running.
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
    try:
        task = asyncio.Task(begin(ticket.future), loop=loop)
    except Exception as error:  # wrong arguments, or no coroutine: the other thread waits for the future
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            ticket.future.set_exception(error)
        return
    task.add_done_callback(ticket.ended)
    # Only the loop holds the task. If the future held it, too, a task dropped by a closed loop would never be freed.
    found = weakref.ref(task)

    def cancel(future: concurrent.futures.Future[Any]) -> None:
        task = found()
        if task is not None and future.cancelled():
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(task.cancel)

    ticket.future.add_done_callback(cancel)
