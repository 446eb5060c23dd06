"""A session that connects again when its connection is lost.

    async with ReconnectingSession(lambda: TcpClient("127.0.0.1", 5000), handlers) as client:
        print(await client.call("subtract", [42, 23]))

Rules:
  - Each connection is a new `Session` over a new transport. No message that may have been served is sent twice:
    calls in flight fail with ConnectionLost when the connection is lost, and a notification may be lost without an
    error. A message that was certainly not served is sent again in the next connection, until its timeout: one that was
    not sent, that the peer had not read when it said goodbye, or that the peer refused after the goodbye (SERVER_BUSY).
    Calls and notifications made while there is no connection wait for the next one, within their timeout.
  - After the peer's goodbye the next connection is not delayed by the calls in flight. They end in the old session,
    which is closed by the peer, or by this side when nothing is in flight any more.
  - The delay before an attempt is random, between 0 and a bound that doubles with each attempt, up to
    `max_delay_seconds`. It is reset after a connection that lasted longer than the bound before it: a peer that accepts
    and closes at once is not contacted more often than one that refuses.
  - An attempt fails by any exception of `make_transport`, the start and `on_connect`, and if the connection has ended
    when `on_connect` returns. It is reported to the hook `fault`, or logged at debug level without one. A connection
    that this side has to end because of what arrived, such as another framing, counts like a failed attempt. After
    `max_attempts` of them in a row, and after an exception for which `retry` returns False, no more attempts are made:
    the log says why, and calls fail with ConnectionLost, whose cause is that exception.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Protocol, Self, Unpack

from ..codec import Notification, Params, ParseError
from ..codes import SessionErrorCode
from ..errors import CallTimeout, ConnectionLost, RpcError, StateError, run_callback
from ..handlers import Handlers
from ..handlers.caller import BatchItem
from ..hooks import FoundHooks, logger
from ..support import check_callable, check_count, check_seconds, is_failure, on_failure, shorten, within
from ..transports.protocol import Transport
from ..transports.stream.tls import is_certificate_fault
from ..types import TIMEOUT_SECONDS, UNSET, T, Unset, is_awaitable
from .options import Rules, SessionOptions
from .requests import detached, waits_for_peer
from .session import Session
from .streams import Items, Stream, StreamCaller, begun


class Backoff:
    """The delays between attempts, in seconds: random, below a bound that doubles with each.

    Attributes:
        bound: The bound of the next delay.
    """

    def __init__(self, min_delay_seconds: float, max_delay_seconds: float) -> None:
        self._min_delay_seconds = min_delay_seconds
        self._max_delay_seconds = max_delay_seconds
        self.bound: float = 0.0
        self.reset()

    def reset(self) -> None:
        """Start again with the first bound."""
        self.bound = min(self._min_delay_seconds, self._max_delay_seconds)

    def next_delay(self) -> float:
        """Return the next delay."""
        import random  # imported here, because most sessions do not reconnect

        delay = random.uniform(0, self.bound)
        # A `min_delay_seconds` of 0 does not grow by doubling.
        self.bound = min(2 * self.bound or 0.01, self._max_delay_seconds)
        return delay


class Follower(Protocol):
    """An object that is notified about the sessions of a `ReconnectingSession`, in this order."""

    def session_began(self, session: Session) -> None:
        """A session begins, before calls that wait are sent."""

    def session_ended(self) -> None:
        """The session takes no more calls."""

    def connecting_ended(self, loss: ConnectionLost) -> None:
        """There will be no more sessions."""


def is_temporary(error: Exception) -> bool:
    """Return whether a new attempt may help after an exception.

    It may after an OSError, such as ConnectionLost, unless the certificate is invalid; after a timeout; and after the
    error SERVER_BUSY of the peer. It also may if an HTTP server refused the handshake of WebSocket with the status 500,
    502, 503 or 504.
    """
    if isinstance(error, (OSError, asyncio.TimeoutError)):
        return not is_certificate_fault(error)
    if isinstance(error, RpcError):
        return error.code == SessionErrorCode.SERVER_BUSY
    return getattr(getattr(error, "response", None), "status_code", None) in (500, 502, 503, 504)


class ReconnectingSession(StreamCaller):
    """Calls a peer and serves it, over one connection after another.

    Args:
        make_transport: Returns a new transport that is not started, or an awaitable of one. Called for each attempt.
        handlers: As in `Session`.
        on_connect: Called with each new session; may be async. The attempt has failed if it raises an exception.
        on_disconnect: Called with each of these sessions when it takes no more calls. Its `fault` is the exception
            that broke the connection; None after a close or a goodbye of either side.
        min_delay_seconds: Bound of the first delay, in seconds.
        max_delay_seconds: Bound of all delays, in seconds.
        max_attempts: Maximum number of failed attempts in a row; None: no limit.
        retry: Called with an exception of `make_transport`, of the start or of `on_connect`, and with the `fault` of a
            session whose peer sent what cannot be read; returns whether to try again. By default True for lost
            connections, timeouts and busy servers.
        options: As in `Session`, for each of them.

    Raises:
        TypeError, ValueError: An option is of the wrong type or out of range.
    """

    def __init__(
        self,
        make_transport: Callable[[], Transport | Awaitable[Transport]],
        handlers: Handlers | Mapping[str, Callable[..., Any]] | None = None,
        *,
        on_connect: Callable[[Session], object] | None = None,
        on_disconnect: Callable[[Session], object] | None = None,
        min_delay_seconds: float = 0.1,
        max_delay_seconds: float = 30.0,
        max_attempts: int | None = None,
        retry: Callable[[Exception], bool] = is_temporary,
        **options: Unpack[SessionOptions],
    ) -> None:
        check_callable("make_transport", make_transport, may_be_none=False, may_be_async=True)
        check_callable("on_connect", on_connect, may_be_async=True)
        check_callable("on_disconnect", on_disconnect)
        check_callable("retry", retry, may_be_none=False)
        Rules(**options)
        check_seconds("min_delay_seconds", min_delay_seconds, may_be_none=False)
        check_seconds("max_delay_seconds", max_delay_seconds, may_be_none=False)
        check_count("max_attempts", max_attempts, 1)
        self._make_transport = make_transport
        self._handlers = handlers if isinstance(handlers, Handlers) else Handlers(handlers)
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._min_delay_seconds = min_delay_seconds
        self._max_delay_seconds = max_delay_seconds
        self._max_attempts = max_attempts
        self._retry = retry
        self._hooks = FoundHooks(options.get("hooks"))
        self._options = options
        self._timeout = options.get("timeout", TIMEOUT_SECONDS)
        self._session: Session | None = None
        self._followers: list[Follower] = []
        self._leaving: dict[Session, asyncio.Task[None]] = {}  # sessions that take no more calls, and are not closed
        self._changed: asyncio.Event  # a session has begun, or no more attempts are made
        self._driver: asyncio.Task[None] | None = None
        self._is_closed = False
        self._reason: BaseException | None = None  # why no more attempts are made
        self._failure: BaseException | None = None  # of the last attempt or connection

    @property
    def session(self) -> Session | None:
        """The session of the current connection; None while no session takes calls."""
        session = self._session
        if session is None or session.is_leaving or not session.is_connected:
            return None
        return session

    async def start(self) -> None:
        """Wait for the first connection.

        Raises:
            StateError: It was started already.
            ConnectionLost: `max_attempts` attempts have failed, or one failed for a reason that `retry` refuses.
        """
        if self._driver is not None or self._is_closed:
            raise StateError("the session was already started")
        self._changed = asyncio.Event()
        # Not in the context of a handler that starts it: the handler would be marked as waiting during each attempt.
        self._driver = detached(lambda: asyncio.Task(self._run(), loop=asyncio.get_running_loop()))
        async with on_failure(partial(self.close, 0)):
            await self.connected()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {self._session or 'no session'}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connected(self, timeout: float | None = None) -> Session:
        """Wait for a connection and return its session.

        Args:
            timeout: Seconds; None: no limit.

        Raises:
            CallTimeout: There was no connection in time. The cause is the last failure, if any.
            StateError: It is not started.
            ConnectionLost: It is closed, or no more attempts are made.
            TypeError, ValueError: The timeout is not a duration.
        """
        check_seconds("timeout", timeout, may_be_infinite=True)  # a NaN would break the order of the loop's timers
        if self._driver is None:
            raise StateError("the session is not started")
        with waits_for_peer():
            try:
                return await asyncio.wait_for(self._wait_connected(), timeout)
            except TimeoutError:
                text, failure = f"there was no connection {within(timeout)}", self._failure
                raise CallTimeout(text if failure is None else f"{text}: {_text_of(failure)}") from failure

    async def _wait_connected(self) -> Session:
        while True:
            if self._is_closed or self._reason is not None:
                raise self._loss()
            session = self.session
            if session is not None:
                return session
            self._changed.clear()
            await self._changed.wait()

    async def wait_closed(self) -> None:
        """Wait until it is closed.

        Raises:
            StateError: It is not started.
            ConnectionLost: No more attempts are made.
        """
        if self._driver is None:
            raise StateError("the session is not started")
        await asyncio.wait([self._driver])
        if self._reason is not None:
            raise self._loss()

    async def close(self, grace_seconds: float | Unset | None = UNSET) -> None:
        """Close the session and stop connecting. Calls that wait for a connection fail with ConnectionLost.

        Args:
            grace_seconds: As in `Session.close`.
        """
        self._is_closed = True  # before anything is awaited: no attempt begins from here on
        driver = self._driver
        if driver is None:
            self._end_followers()
            return
        self._changed.set()
        # All at the same time, so that closing takes no longer than the slowest of them.
        sessions = [*self._leaving] if self._session is None else [self._session, *self._leaving]
        await asyncio.gather(*[session.close(grace_seconds) for session in sessions])
        driver.cancel()
        await asyncio.wait([driver, *self._leaving.values()])

    # Calling.

    def _send(
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
    ) -> Coroutine[Any, Any, Any]:
        def send(session: Session, left: float | None) -> Awaitable[Any]:
            return session._send(
                method,
                params,
                is_call,
                is_typed,
                timeout=left if is_call else UNSET,
                idle_timeout=idle_timeout,
                on_progress=on_progress,
                extra=extra,
            )

        return self.use(send, timeout)

    async def _send_batch(
        self,
        items: list[BatchItem],
        is_typed: bool,
        *,
        timeout: float | Unset | None = UNSET,
        extra: Mapping[str, Any] | None = None,
    ) -> list[Any]:
        results: list[Any] = []

        async def send(session: Session, left: float | None) -> None:
            results[:] = await session.call_batch(items, timeout=left, extra=extra)
            outcomes = [
                result for item, result in zip(items, results, strict=True) if not isinstance(item, Notification)
            ]
            # The peer reads a batch as a whole.
            if outcomes and all(_is_unserved(session, outcome) for outcome in outcomes):
                raise outcomes[0]

        try:
            await self.use(send, timeout)
        except (ConnectionLost, CallTimeout, RpcError):
            if not results:
                raise
        return results

    def _begin_stream(
        self, method: str, params: Params, timeout: float | None, idle_timeout: float | Unset | None, *rest: Any
    ) -> Callable[[], Awaitable[Items]]:
        async def begin(session: Session, left: float | None) -> Items:
            seconds = None if timeout is None else left
            return await begun(Stream(session._begin_stream(method, params, seconds, idle_timeout, *rest)))

        return lambda: self.use(begin, idle_timeout if timeout is None else timeout)

    async def use(
        self, send: Callable[[Session, float | None], Awaitable[T]], timeout: float | Unset | None = UNSET
    ) -> T:
        """Send a message in the session of a connection. If it was certainly not served, send it again in the next one.

        Args:
            send: Sends it. Gets the session, and the timeout that is left. Its ConnectionLost says whether it was sent.
                An RpcError with the code SERVER_BUSY says that it was not served, if the peer has said goodbye.
            timeout: Seconds, including the time spent waiting for a connection; None: no limit. The default is the
                option `timeout`.

        Returns:
            What `send` returns.

        Raises:
            CallTimeout: No connection served it in time. The cause is the last refusal, if any.
            ConnectionLost: It is closed, or no more attempts are made.
            Exception: What `send` raises.
        """
        seconds = self._timeout if isinstance(timeout, Unset) else timeout
        check_seconds("timeout", seconds, may_be_infinite=True)
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        backoff: Backoff | None = None
        refusal: Exception | None = None

        def left() -> float | None:  # one time limit for all connections in which the message is tried
            return None if deadline is None else max(0.0, deadline - loop.time())

        while True:
            if refusal is not None and left() == 0:
                raise CallTimeout(f"no peer has served it {within(seconds)}: {_text_of(refusal)}") from refusal
            try:
                session = self.session or await self.connected(left())
            except CallTimeout as error:
                raise error from refusal or error.__cause__
            try:
                return await send(session, left())
            except (ConnectionLost, RpcError) as error:
                if self._is_closed or not _is_unserved(session, error):
                    raise
                refusal = error
            if self.session is session:  # `send` has lost another connection
                backoff = backoff or self.backoff()
                await asyncio.sleep(backoff.next_delay())

    def _loss(self) -> ConnectionLost:
        text = "the session is closed" if self._reason is None else "no more connections are made"
        loss = ConnectionLost(text if self._reason is None else f"{text}: {_text_of(self._reason)}", was_sent=False)
        loss.__cause__ = self._reason
        return loss

    # Connecting.

    async def _run(self) -> None:
        try:
            await self._keep_connected()
        except (Exception, asyncio.CancelledError) as error:  # a callback may raise it, which only `close` should cause
            if not self._is_closed or isinstance(error, Exception):
                self._reason = error
            if not is_failure(error):
                raise
            if not self._is_closed:
                logger.error(
                    "no more connections are made, after %s: %s", type(error).__qualname__, shorten(str(error))
                )
        finally:
            self._changed.set()
            self._end_followers()

    def _end_followers(self) -> None:
        for follower in self._followers:
            follower.connecting_ended(self._loss())

    async def _keep_connected(self) -> None:
        loop = asyncio.get_running_loop()
        backoff = self.backoff()
        failed = broken = 0
        while not self._is_closed:
            try:
                session = await self._connect()
            except (Exception, asyncio.CancelledError) as error:
                if not is_failure(error):
                    raise
                self._hooks.peer_fault(error)
                self._failure = error
                failed += 1
                if not isinstance(error, Exception) or not self.may_retry(error, failed):
                    raise
            else:
                failed = 0
                began = loop.time()
                await self._run_session(session)
                fault = session.fault
                self._failure = fault or session.refusal()
                if isinstance(fault, ConnectionLost) and isinstance(fault.__cause__, ParseError):
                    broken += 1
                    if not self.may_retry(fault, broken):
                        raise fault
                else:
                    broken = 0
                    # Otherwise a peer that accepts and closes at once would be contacted without a pause.
                    if loop.time() - began > backoff.bound:
                        backoff.reset()
            await asyncio.sleep(backoff.next_delay())

    def backoff(self) -> Backoff:
        """Return the delays between attempts."""
        return Backoff(self._min_delay_seconds, self._max_delay_seconds)

    def may_retry(self, error: Exception, failed: int) -> bool:
        """Return whether to try again after `failed` failures in a row, the last one with this exception."""
        return failed != self._max_attempts and self._retry(error)

    async def _run_session(self, session: Session) -> None:
        """Let a session take calls as long as it can."""
        self._session = session
        for follower in self._followers:
            run_callback(self._hooks.fault, follower.session_began, session)
        self._changed.set()
        try:
            async with on_failure(partial(session.close, 0)):  # for example because the loop ends
                if self._is_closed:  # `on_connect` has caught the cancellation by `close`
                    await session.close(0)
                await session.wait_leaving()
        finally:
            self._session = None
            for follower in self._followers:
                run_callback(self._hooks.fault, follower.session_ended)
            if self._on_disconnect is not None:
                run_callback(self._hooks.fault, self._on_disconnect, session)
        self._leaving[session] = task = asyncio.Task(self._leave(session), loop=asyncio.get_running_loop())
        task.add_done_callback(lambda _: self._leaving.pop(session))

    async def _leave(self, session: Session) -> None:
        """Let a session finish the calls in flight. The peer closes it, or this side when no call is left."""
        closed = asyncio.ensure_future(session.wait_closed())
        async with on_failure(partial(session.close, 0)):  # for example because the loop ends
            while not (await asyncio.wait([closed], timeout=5.0))[0]:
                if session.is_idle:
                    await session.close(0)

    def follow(self, follower: Follower) -> None:
        """Notify an object about the sessions, beginning with the current one.

        Raises:
            StateError: There will be no more session.
            Exception: What `session_began` raises.
        """
        if self._is_closed or self._reason is not None:
            raise StateError("the session is closed")
        if self._session is not None:
            follower.session_began(self._session)
        self._followers.append(follower)

    async def _connect(self) -> Session:
        made: Any = self._make_transport()
        transport = await made if is_awaitable(made) else made
        session = Session(transport, self._handlers, **self._options)
        # The session first: its start may have failed before it took over the transport.
        async with on_failure(transport.disconnect), on_failure(partial(session.close, 0)):
            await session.start()
            if self._on_connect is not None:
                done: Any = self._on_connect(session)
                if is_awaitable(done):
                    await done
                if not session.is_connected:
                    raise ConnectionLost("the connection ended in on_connect")
        return session


def _text_of(error: BaseException) -> str:
    return shorten(str(error)) or type(error).__qualname__


def _is_unserved(session: Session, outcome: Any) -> bool:
    """Return whether the peer has certainly not served a message with this outcome, and never will."""
    if isinstance(outcome, ConnectionLost):
        return outcome.was_sent is False
    return session.is_leaving and isinstance(outcome, RpcError) and outcome.code == SessionErrorCode.SERVER_BUSY
