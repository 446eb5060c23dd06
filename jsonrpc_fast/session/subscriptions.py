"""Subscriptions like those of Ethereum's `eth_subscribe`: a call returns an id, and notifications with that id follow.

    subscriptions = Subscriptions(session)
    async with await subscriptions.subscribe("newHeads") as heads:
        async for head in heads:
            print(head["number"])

Rules:
  - The params of a notification are an object with the members `subscription`, the id, and `result`, or `error`, which
    ends the subscription: the reader gets the results before it, then RpcError. One that is none of these is a fault of
    the peer. It may arrive before the caller has seen the id: while a call of `subscribe` is in flight, those with
    unknown ids are kept, at most as many as unread results. One more ends the new subscription with a StateError.
    Others with unknown ids are dropped: their subscription is closed.
  - A subscription keeps at most `max_items` unread results, and at most MAX_BYTES of them, if it keeps several. One
    more ends it with a StateError: if results were dropped instead, the reader would not notice the gap. One that ends
    is unsubscribed, so that the peer stops sending: when it is closed, after an error, and when the response arrives
    after `subscribe` was cancelled or has timed out. When the connection is closed, the reader gets the results that
    have arrived, then ConnectionLost.
  - Over a `ReconnectingSession` a subscription continues instead: it is made again with the same params in each new
    session, and gets a new id. The reader gets a `Gap` in place of what may be missing. The new subscription exists by
    then, so a reader that requests the missing part when it sees the gap misses nothing. If the peer refuses the new
    request, or does not respond, the session's rules for attempts decide whether it is repeated. If it is not, the
    reader gets the error.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Coroutine
from contextvars import Context
from functools import partial
from typing import Any, NamedTuple, Self

from ..codec import Raw
from ..errors import ConnectionLost, RpcError, StateError, lost, no_response
from ..support import Waiters, check_count, shorten
from ..types import UNSET, T, Unset
from .inbound import memory_of
from .reconnecting import ReconnectingSession
from .requests import detached, waits_for_peer
from .session import Session
from .streams import MAX_BYTES


class Gap(NamedTuple):
    """An item in the place of results that may be missing, because the connection was lost.

    Attributes:
        seconds: How long there was no subscription: from the end of the connection until the peer has subscribed again.
    """

    seconds: float


class Subscription:
    """An async iterator over the results of one subscription; `Subscriptions.subscribe` makes it.

    Over a `ReconnectingSession` some items are a `Gap`.

    Attributes:
        id: The peer's id of the subscription. It changes with each connection.
    """

    def __init__(self, owner: Subscriptions, params: list[Any], timeout: float | Unset) -> None:
        self.id: int | str = ""
        self._owner = owner
        self._params = params
        self._timeout = timeout  # of each call that subscribes
        self._lost_at: float | None = None  # when the connection ended
        self._unread = _Unread(owner._max_items)
        self._waiters = Waiters()
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
            RpcError: The peer has ended the subscription with an error.
            StateError: Too many results were not read, or another task is reading.
            Exception: The peer has not subscribed again in a new connection.
        """
        while not self._unread.items:
            if self._fault is not None:
                raise self._fault
            if self._is_closed:
                raise StopAsyncIteration
            if len(self._waiters):
                raise StateError("another task reads this subscription")
            await self._waiters.wait()
        return self._unread.take()

    async def close(self) -> None:
        """End the iteration, and unsubscribe. A second call does nothing.

        Raises:
            RpcError: The peer does not unsubscribe.
            CallTimeout: It does not respond in time.
        """
        self._end(None)
        task, self._unsubscribing = self._unsubscribing, None
        if task is not None:
            # Shielded: the peer must be notified even if the caller no longer waits.
            error = await asyncio.shield(task)
            if error is not None:
                raise error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(RpcError):
            await self.close()

    def _resume(self, now: float) -> None:
        assert self._lost_at is not None
        gap = Gap(now - self._lost_at)
        self._lost_at = None
        items = self._unread.items
        last = items[-1][0] if items else None
        if isinstance(last, Gap):  # an unstable connection must not fill the queue
            items[-1] = (Gap(last.seconds + gap.seconds), 0)
        else:
            self._add(gap)

    def _add(self, result: Any) -> None:
        if self._is_closed:
            return
        if self._unread.add(result):
            self._waiters.wake()
        else:
            self._end(StateError(f"more than {self._unread.bound} of the subscription are not read"))

    def _receive(self, params: dict[str, Any]) -> None:
        """Take a notification: a result, or the error that ends the subscription."""
        error = params.get("error")
        if error is None:
            self._add(params["result"])
        else:
            self._end(_error_of(error))

    def _end(self, fault: Exception | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._fault = fault
        self._unsubscribing = self._owner._forget(self)
        self._waiters.wake()


class _Unread:
    """Results that wait for their reader."""

    def __init__(self, max_items: int) -> None:
        self.items: deque[tuple[Any, int]] = deque()  # with their sizes in bytes
        self._max_items = max_items
        self._size = 0

    def add(self, item: Any) -> bool:
        """Keep an item. Return False if there are too many, or if they take too much memory together."""
        size = memory_of([item], MAX_BYTES)
        if len(self.items) >= self._max_items or (self.items and self._size + size > MAX_BYTES):
            return False
        self.items.append((item, size))
        self._size += size
        return True

    def take(self) -> Any:
        item, size = self.items.popleft()
        self._size -= size
        return item

    @property
    def bound(self) -> str:
        """What `add` has refused to exceed, as text."""
        if len(self.items) >= self._max_items:
            return f"{self._max_items} results"
        return f"{MAX_BYTES} bytes of results"


class _Routes:
    """The subscriptions that the peer knows in one session.

    Attributes:
        ended: A future that is done when the session takes no more calls.
        subscribing: The number of calls in flight that subscribe.
        early: The ids and params of the notifications with unknown ids that arrived meanwhile.
        overrun: The bound of `early` because of which one was dropped, as text; "" if none was.
        abandoned: The ids of subscriptions that were closed meanwhile. The peer may use one of them again.
    """

    def __init__(self, session: Session, max_items: int) -> None:
        self.session: Session = session
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.by_id: dict[int | str, Subscription] = {}
        self.subscribing: int = 0
        self.early: _Unread = _Unread(max_items)
        self.overrun: str = ""
        self.abandoned: list[int | str] = []


class Subscriptions:
    """The subscriptions of one session, or of the sessions of a `ReconnectingSession`.

    Args:
        session: A session that is started, or a `ReconnectingSession`. A handler for the notifications is registered in
            it.
        methods: The method that subscribes and returns the id, that which takes the id, and that of the notifications.
        max_items: Maximum number of results that a subscription keeps, 1 or more. It keeps at most 64 MiB of them.

    Raises:
        StateError: The session is not started, or it is closed.
        TypeError, ValueError: An argument has the wrong type or value, or the notifications already have a handler.
    """

    def __init__(
        self,
        session: Session | ReconnectingSession,
        *,
        methods: tuple[str, str, str] = ("eth_subscribe", "eth_unsubscribe", "eth_subscription"),
        max_items: int = 10_000,
    ) -> None:
        check_count("max_items", max_items, 1, may_be_none=False)
        self._subscribe_method, self._unsubscribe_method, self._notification = methods
        self._max_items = max_items
        self._source = session
        self._routes: _Routes | None = None  # None while there is no connection
        self._loss: ConnectionLost | None = None  # why there will be no other session
        self._open: dict[Subscription, None] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        if isinstance(session, ReconnectingSession):
            session.follow(self)
        elif not session.is_connected:
            raise StateError("the session is not started")
        else:
            self.session_began(session)
            session.add_close_callback(lambda: self.connecting_ended(_loss_of(session)))

    async def subscribe(self, *params: Any, timeout: float | None = None) -> Subscription:
        """Subscribe.

        Args:
            params: The params, such as "newHeads", or "logs" and a filter.
            timeout: Seconds until the call times out, including the time spent waiting for a connection, and until each
                call times out that subscribes again; None: the timeout of the session's options.

        Raises:
            Exception: What `Session.call` raises.
            StateError: The peer returned something that is not an id, or the id of a subscription that is open.
        """
        seconds = UNSET if timeout is None else timeout
        subscription = Subscription(self, list(params), seconds)
        if isinstance(self._source, ReconnectingSession):
            await self._source.use(lambda session, left: self._establish(session, subscription, left), seconds)
        else:
            await self._establish(self._source, subscription, seconds)
        return subscription

    async def _establish(self, session: Session, subscription: Subscription, timeout: float | Unset | None) -> None:
        """Call the method that subscribes, and route the results.

        Raises:
            Exception: As in `subscribe`.
        """
        routes = self._routes
        if routes is None or routes.session is not session:
            raise self._loss or StateError("another handler in the session takes the notifications")
        routes.subscribing += 1
        try:
            id = _id_of(await self._call(routes, subscription._params, timeout))
            # The response and the end of the session may arrive together, before this task runs.
            if routes is not self._routes:
                self._on_missed(session, subscription)
                return
            if id in routes.by_id:
                raise StateError("the peer returned the id of another subscription")
            if subscription._is_closed:
                self._abandon(routes, id)
                return
            subscription.id = id
            self._open[subscription] = None
            routes.by_id[id] = subscription
            if subscription._lost_at is not None:
                subscription._resume(_now())
            # Results that came before the response are delivered first, in order.
            early, routes.early = routes.early, _Unread(self._max_items)
            while early.items:
                early_id, params = early.take()
                if early_id == id:
                    subscription._receive(params)
                else:
                    routes.early.add((early_id, params))
            if routes.overrun:
                subscription._end(StateError(f"more than {routes.overrun} arrived before the id was known"))
        finally:
            routes.subscribing -= 1
            # Only now is it certain that the remaining results belong to no subscription.
            if not routes.subscribing:
                routes.early = _Unread(self._max_items)
                routes.overrun = ""
                abandoned, routes.abandoned = routes.abandoned, []
                for late in abandoned:
                    self._abandon(routes, late)

    def _on_missed(self, session: Session, subscription: Subscription) -> None:
        """The session ended between the response and its arrival at the task that waits for it."""
        if subscription._is_closed or subscription in self._open:
            return  # the next session subscribes again
        self._open[subscription] = None
        subscription._lost_at = _now()
        if self._loss is not None:
            subscription._end(self._loss)
        elif self._routes is not None:
            self._run(self._subscribe_again(self._routes, subscription))

    # Reconnecting: the methods of a `Follower`.

    def session_began(self, session: Session) -> None:
        """Subscribe again in a new session."""
        routes = _Routes(session, self._max_items)
        try:
            session.register(self._notification, partial(self._receive, routes), unpack=False)
        except ValueError as error:
            for subscription in list(self._open):
                subscription._end(error)
            raise
        self._routes = routes
        for subscription in self._open:
            self._run(self._subscribe_again(routes, subscription))

    def session_ended(self) -> None:
        """Keep the subscriptions for the next session."""
        routes, self._routes = self._routes, None
        if routes is None:
            return
        routes.ended.set_result(None)
        for subscription in self._open:
            if subscription._lost_at is None:
                subscription._lost_at = _now()

    def connecting_ended(self, loss: ConnectionLost) -> None:
        """End the subscriptions: there will be no more sessions."""
        self._loss = loss
        self.session_ended()
        for subscription in list(self._open):
            subscription._end(loss)

    async def _subscribe_again(self, routes: _Routes, subscription: Subscription) -> None:
        assert isinstance(self._source, ReconnectingSession)
        backoff = self._source.backoff()
        failed = 0
        while routes is self._routes and not subscription._is_closed:
            try:
                await self._establish(routes.session, subscription, subscription._timeout)
                return
            except ConnectionLost:
                return  # the next session subscribes again
            except Exception as error:
                if routes is not self._routes:
                    return
                failed += 1
                if not self._may_retry(subscription, error, failed):
                    return
            await asyncio.wait([routes.ended], timeout=backoff.next_delay())

    def _may_retry(self, subscription: Subscription, error: Exception, failed: int) -> bool:
        """Return whether to subscribe again; otherwise end the subscription."""
        assert isinstance(self._source, ReconnectingSession)
        try:
            if self._source.may_retry(error, failed):
                return True
        except Exception as fault:
            error = fault
        subscription._end(error)
        return False

    def _run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.Task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Calling and receiving.

    async def _call(self, routes: _Routes, params: list[Any], timeout: float | Unset | None) -> Any:
        """Call the method that subscribes. If the caller has stopped waiting, unsubscribe when the response arrives."""
        loop = asyncio.get_running_loop()
        response: asyncio.Future[Any] = loop.create_future()

        def settle(error: Exception | None, result: Any = None) -> None:
            if response.done():
                if error is None:
                    self._abandon(routes, result)
            elif error is None:
                response.set_result(result)
            else:
                response.set_exception(error)

        with waits_for_peer(), contextlib.ExitStack() as stack:
            seconds, waited_seconds = await routes.session.wait_to_send(1, timeout, self._subscribe_method)
            call = partial(routes.session.call_soon, on_result=partial(settle, None), on_error=settle)
            # The response is expected for 5 minutes after the timeout, to unsubscribe.
            late_seconds = None if seconds is None else seconds + 300.0
            # Detached: a late response must not keep a handler marked as waiting.
            detached(partial(call, timeout=late_seconds), self._subscribe_method, params)
            if seconds is not None:
                error = no_response(shorten(self._subscribe_method), seconds + waited_seconds)
                # Not in the context of a handler: asyncio keeps the context of a timer until its time comes.
                stack.callback(loop.call_later(seconds, settle, error, context=Context()).cancel)
            try:
                return await response
            except asyncio.CancelledError:
                if response.done() and not response.cancelled() and response.exception() is None:
                    self._abandon(routes, response.result())
                raise

    def _abandon(self, routes: _Routes, response: Any) -> None:
        """Unsubscribe from a subscription whose response came too late."""
        with contextlib.suppress(StateError):
            id = _id_of(response)
            # A call in flight may get the same id, if the peer uses ids again: then it must not end.
            if routes.subscribing:
                routes.abandoned.append(id)
            elif id not in routes.by_id:
                self._unsubscribe(routes, id)

    def _receive(self, routes: _Routes, params: Any) -> None:
        if routes is not self._routes:  # its peer has said goodbye
            return
        if isinstance(params, Raw):
            params = params.decode()
        id = params.get("subscription") if isinstance(params, dict) else None
        is_result = isinstance(params, dict) and ("result" in params or params.get("error") is not None)
        if isinstance(id, bool) or not isinstance(id, int | str) or not is_result:
            fault = StateError("a notification of a subscription has no id, or neither a result nor an error")
            routes.session.report_fault(fault)
            return
        subscription = routes.by_id.get(id)
        if subscription is not None:
            subscription._receive(params)
        elif routes.subscribing and not routes.early.add((id, params)):
            routes.overrun = routes.early.bound

    def _forget(self, subscription: Subscription) -> asyncio.Task[Exception | None] | None:
        """Forget a subscription, and begin to unsubscribe if the peer knows it."""
        self._open.pop(subscription, None)
        # In an older session there is nothing to unsubscribe: the peer has forgotten it with the connection.
        routes = self._routes
        if routes is None or routes.by_id.get(subscription.id) is not subscription:
            return None
        del routes.by_id[subscription.id]
        return self._unsubscribe(routes, subscription.id)

    def _unsubscribe(self, routes: _Routes, id: int | str) -> asyncio.Task[Exception | None] | None:
        """Begin to unsubscribe. The task returns the peer's error or the timeout, if any."""
        if routes is not self._routes or not routes.session.is_connected:
            return None
        return self._run(self._call_unsubscribe(routes.session, id))

    async def _call_unsubscribe(self, session: Session, id: int | str) -> Exception | None:
        try:
            await session.call(self._unsubscribe_method, [id])
        except (ConnectionLost, StateError):
            pass
        except Exception as error:
            return error
        return None


def _error_of(value: Any) -> RpcError:
    """Return the exception for the error that ends a subscription. Some peers send any value as the error."""
    if isinstance(value, dict) and type(value.get("code")) is int and isinstance(value.get("message"), str):
        return RpcError(value["code"], value["message"], value.get("data", UNSET))
    message = value if isinstance(value, str) else "the peer has ended the subscription with an error"
    return RpcError(0, message, value)


def _loss_of(session: Session) -> ConnectionLost:
    error = lost("the connection is closed", "the connection broke", session.fault)
    error.was_sent = False
    return error


def _now() -> float:
    return asyncio.get_running_loop().time()


def _id_of(response: Any) -> int | str:
    """Return the id of a subscription.

    Raises:
        StateError: The response is not an id.
    """
    if isinstance(response, Raw):
        response = response.decode()
    if isinstance(response, bool) or not isinstance(response, int | str):
        raise StateError("the peer returned something that is not the id of a subscription")
    return response
