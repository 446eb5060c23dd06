"""Subscriptions as Ethereum's `eth_subscribe` has them: a call returns an id, and notifications with it follow.

    subscriptions = Subscriptions(session)
    async with await subscriptions.subscribe("newHeads") as heads:
        async for head in heads:
            print(head["number"])

Rules:
  - the params of a notification are an object with the members `subscription`, the id, and `result`;
  - notifications may arrive before the caller has seen the id: while a call of `subscribe` is in flight, those with
    unknown ids are kept, at most `max_items` in all. One more ends the new subscription with a StateError. Others with
    unknown ids are dropped: their subscription is closed;
  - a subscription keeps at most `max_items` that are not read yet. One more ends it with a StateError, because a reader
    of the rest would not notice the gap;
  - a subscription that ends is unsubscribed, so that the peer stops sending: when it is closed, when it has ended with
    a StateError, and when the peer answers after `subscribe` was cancelled or has timed out;
  - when the connection is closed, by either side or by a loss, the reader gets what has arrived, then ConnectionLost.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from .._checks import check_count
from ..codec import Raw
from ..errors import CallTimeout, ConnectionLost, RpcError, StateError
from ..types import UNSET
from .running import current_run
from .session import Session
from .tracker import invalid_timeout

if TYPE_CHECKING:
    from typing_extensions import Self

LATE_SECONDS: Final = 300.0
"""How long after the timeout of a `subscribe` the answer is expected, to unsubscribe."""


class Subscription:
    """An async iterator over the results of one subscription; `Subscriptions.subscribe` makes it.

    Attributes:
        id: The peer's id of the subscription.
    """

    def __init__(self, owner: Subscriptions, id: int | str) -> None:
        self.id: int | str = id
        self._owner = owner
        self._items: deque[Any] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._is_closed = False
        self._fault: Exception | None = None
        self._unsubscribing: asyncio.Task[Exception | None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Return the next result.

        Raises:
            StopAsyncIteration: The subscription was closed.
            ConnectionLost: The connection was closed.
            StateError: Too many results were not read, or another task is reading.
        """
        while not self._items:
            if self._fault is not None:
                raise self._fault
            if self._is_closed:
                raise StopAsyncIteration
            if self._waiter is not None:
                raise StateError("another task reads this subscription")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._items.popleft()

    async def close(self) -> None:
        """End the iteration, and unsubscribe. A second call does nothing.

        Raises:
            RpcError: The peer does not unsubscribe.
            CallTimeout: It does not answer in time.
        """
        self._end(None)
        task, self._unsubscribing = self._unsubscribing, None
        if task is not None:
            error = await asyncio.shield(task)
            if error is not None:
                raise error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(RpcError):
            await self.close()

    def _add(self, result: Any, max_items: int) -> None:
        if len(self._items) >= max_items:
            self._end(StateError(f"more than {max_items} results of the subscription are not read"))
        elif not self._is_closed:
            self._items.append(result)
            self._wake()

    def _end(self, fault: Exception | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._fault = fault
        self._owner._by_id.pop(self.id, None)
        self._unsubscribing = self._owner._unsubscribe(self.id)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Subscriptions:
    """The subscriptions of one session.

    Args:
        session: A session that is started. A handler for the notifications is registered in it.
        notification: The method of the notifications.
        subscribe: The method that subscribes and returns the id.
        unsubscribe: The method that takes the id.
        max_items: Maximum number of results that a subscription keeps, 1 or more.

    Raises:
        StateError: The session is not started.
        TypeError, ValueError: An argument has the wrong type or value, or `notification` has a handler already.
    """

    def __init__(
        self,
        session: Session,
        *,
        notification: str = "eth_subscription",
        subscribe: str = "eth_subscribe",
        unsubscribe: str = "eth_unsubscribe",
        max_items: int = 10_000,
    ) -> None:
        check_count("max_items", max_items, 1, may_be_none=False)
        if not session.is_connected:
            raise StateError("the session is not started")
        self._session = session
        self._subscribe_method = subscribe
        self._unsubscribe_method = unsubscribe
        self._max_items = max_items
        self._by_id: dict[int | str, Subscription] = {}
        self._subscribing = 0  # calls in flight
        self._early: list[tuple[int | str, Any]] = []
        self._has_dropped = False  # there was no room in `_early`
        self._tasks: set[asyncio.Task[Exception | None]] = set()
        session.register(notification, self._receive, unpack=False)
        session._closed.add_done_callback(self._on_lost)

    async def subscribe(self, *params: Any, timeout: float | None = None) -> Subscription:
        """Subscribe.

        Args:
            params: The params, such as "newHeads", or "logs" and a filter.
            timeout: Seconds until the call times out; None: as the session's options say.

        Raises:
            Exception: What `Session.call` raises.
            StateError: The peer returned something that is not an id, or the id of a subscription that is open.
        """
        self._subscribing += 1
        try:
            id = _id_of(await self._call(list(params), timeout))
            if id in self._by_id:
                raise StateError("the peer returned the id of another subscription")
            subscription = Subscription(self, id)
            self._by_id[id] = subscription
            for early_id, result in self._early:
                if early_id == id:
                    subscription._add(result, self._max_items)
            if self._has_dropped:
                subscription._end(StateError(f"more than {self._max_items} results arrived before the id was known"))
        finally:
            self._subscribing -= 1
            if not self._subscribing:
                self._early.clear()
                self._has_dropped = False
        if not self._session.is_connected:
            subscription._end(ConnectionLost("the connection is closed"))
        return subscription

    async def _call(self, params: list[Any], timeout: float | None) -> Any:
        """Call the method that subscribes. If nobody waits for the answer any more, unsubscribe when it arrives."""
        session = self._session
        seconds = session._seconds(UNSET if timeout is None else timeout)
        if seconds is not None and not seconds >= 0:
            raise invalid_timeout()
        run = current_run.get()
        if run is not None:
            run.begin_wait()
        try:
            if session._must_wait(1):
                seconds = await session._wait_for_room(1, seconds)
            return await self._answer(params, seconds)
        finally:
            if run is not None:
                run.end_wait()

    async def _answer(self, params: list[Any], seconds: float | None) -> Any:
        session = self._session
        answer: asyncio.Future[Any] = session._loop.create_future()

        def settle(set_outcome: Callable[[Any], None], is_late: bool, outcome: Any) -> None:
            if not answer.done():
                set_outcome(outcome)
            elif is_late:
                self._abandon(outcome)

        token = current_run.set(None)  # a handler does not wait for an answer that comes too late
        try:
            session.call_soon(
                self._subscribe_method,
                params,
                on_result=partial(settle, answer.set_result, True),
                on_error=partial(settle, answer.set_exception, False),
                timeout=None if seconds is None else seconds + LATE_SECONDS,
            )
        finally:
            current_run.reset(token)
        error = CallTimeout("no answer came in time")
        timer = (
            None if seconds is None else session._loop.call_later(seconds, settle, answer.set_exception, False, error)
        )
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                self._abandon(answer.result())
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _abandon(self, answer: Any) -> None:
        """Unsubscribe what the peer subscribed too late."""
        with contextlib.suppress(StateError):
            id = _id_of(answer)
            if id not in self._by_id:
                self._unsubscribe(id)

    def _receive(self, params: Any) -> None:
        if isinstance(params, Raw):
            params = params.decode()
        if not isinstance(params, dict):
            return
        id = params.get("subscription")
        if isinstance(id, bool) or not isinstance(id, int | str):
            return
        subscription = self._by_id.get(id)
        if subscription is not None:
            subscription._add(params.get("result"), self._max_items)
        elif self._subscribing and len(self._early) < self._max_items:
            self._early.append((id, params.get("result")))
        elif self._subscribing:
            self._has_dropped = True

    def _unsubscribe(self, id: int | str) -> asyncio.Task[Exception | None] | None:
        """Begin to unsubscribe. The task returns the error that the peer answers, or the timeout."""
        if not self._session.is_connected:
            return None
        task = asyncio.Task(self._call_unsubscribe(id), loop=self._session._loop)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _call_unsubscribe(self, id: int | str) -> Exception | None:
        try:
            await self._session.call(self._unsubscribe_method, [id])
        except (ConnectionLost, StateError):
            pass
        except Exception as error:
            return error
        return None

    def _on_lost(self, closed: asyncio.Future[None]) -> None:
        for subscription in list(self._by_id.values()):
            subscription._end(ConnectionLost("the connection is closed"))


def _id_of(answer: Any) -> int | str:
    """Return the id of a subscription.

    Raises:
        StateError: The answer is not one.
    """
    if isinstance(answer, Raw):
        answer = answer.decode()
    if isinstance(answer, bool) or not isinstance(answer, int | str):
        raise StateError("the peer returned something that is not the id of a subscription")
    return answer
