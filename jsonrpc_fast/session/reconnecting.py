"""A session that connects again when its connection is lost.

    async with ReconnectingSession(lambda: TcpClient("127.0.0.1", 5000), handlers) as client:
        print(await client.call("subtract", [42, 23]))

Rules:
  - each connection is a `Session` of its own over a new transport. Nothing is sent twice: calls in flight fail with
    ConnectionLost when the connection is lost, and the peer may or may not have served them;
  - calls and notifications made while there is no connection wait for the next one, within their timeout;
  - the delay before an attempt is random, between 0 and a bound that doubles with each attempt, up to `max_delay`. It
    starts anew after a connection that lasted longer than the bound before it: a peer that accepts and closes at once
    is not contacted more often than one that refuses;
  - `on_connect` is awaited after each connection, before calls that wait: to log in, or to subscribe again;
  - a failed attempt is reported to the hook `fault`, or else logged at debug level;
  - after `max_attempts` failed attempts in a row, and after an exception that no new attempt can help, nothing more is
    tried: calls fail with ConnectionLost, whose cause is that exception.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import random
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from .._checks import check_count, check_seconds
from ..codec import Notification
from ..errors import CallTimeout, ConnectionLost, StateError
from ..handlers import Handlers
from ..transports.protocol import Transport
from ..types import UNSET, Unset
from .hooks import FoundHooks
from .options import DEFAULT_TIMEOUT, SessionOptions
from .running import current_run
from .session import Session
from .tracker import invalid_timeout

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

_TEMPORARY_STATUSES: Final = (500, 502, 503, 504)


def is_temporary(error: Exception) -> bool:
    """Return whether a new attempt may help after an exception.

    It may after an OSError, such as ConnectionLost, unless the certificate is invalid, and after a timeout. It may also
    if an HTTP server refused the handshake of WebSocket with the status 500, 502, 503 or 504.
    """
    if isinstance(error, (OSError, asyncio.TimeoutError)):
        return not isinstance(error, ssl.SSLCertVerificationError)
    return getattr(getattr(error, "response", None), "status_code", None) in _TEMPORARY_STATUSES


class ReconnectingSession:
    """Calls a peer and serves it, over one connection after the other.

    Args:
        make_transport: Returns a new transport that is not started, or an awaitable of one. Called for each attempt.
        handlers: As in `Session`.
        on_connect: Awaited with each new session. The attempt has failed if it raises an exception.
        min_delay: Bound of the first delay, in seconds.
        max_delay: Bound of all delays, in seconds.
        max_attempts: Number of failed attempts in a row after which nothing more is tried; None: no limit.
        retry: Called with an exception of `make_transport`, of the start or of `on_connect`; returns whether to try
            again.
        options: As in `Session`, for each of them.

    Raises:
        TypeError, ValueError: An option is of the wrong type or out of range.
    """

    def __init__(
        self,
        make_transport: Callable[[], Transport | Awaitable[Transport]],
        handlers: Handlers | Mapping[str, Callable[..., Any]] | None = None,
        *,
        on_connect: Callable[[Session], Awaitable[object]] | None = None,
        min_delay: float = 0.1,
        max_delay: float = 30.0,
        max_attempts: int | None = None,
        retry: Callable[[Exception], bool] = is_temporary,
        **options: Unpack[SessionOptions],
    ) -> None:
        check_seconds("min_delay", min_delay, may_be_none=False)
        check_seconds("max_delay", max_delay, may_be_none=False)
        check_count("max_attempts", max_attempts, 1)
        self._make_transport = make_transport
        self._handlers = handlers if isinstance(handlers, Handlers) else Handlers(handlers)
        self._on_connect = on_connect
        self._min_delay = min_delay
        self._max_delay = max_delay
        self._max_attempts = max_attempts
        self._retry = retry
        self._hooks = FoundHooks(options.get("hooks"))
        self._options = options
        self._timeout = options.get("timeout", DEFAULT_TIMEOUT)
        self._session: Session | None = None
        self._changed: asyncio.Event  # there is a session, or there will be none
        self._driver: asyncio.Task[None] | None = None
        self._is_closed = False
        self._reason: BaseException | None = None  # why nothing more is tried

    @property
    def session(self) -> Session | None:
        """The session of the current connection; None while there is none."""
        session = self._session
        return session if session is not None and session.is_connected else None

    async def start(self) -> None:
        """Wait for the first connection.

        Raises:
            StateError: It was started already.
            ConnectionLost: `max_attempts` attempts have failed, or one for a reason that remains.
        """
        if self._driver is not None or self._is_closed:
            raise StateError("the session was started already")
        self._changed = asyncio.Event()
        # If a handler starts it, its waiting is not the handler's.
        context = contextvars.copy_context()
        context.run(current_run.set, None)
        self._driver = context.run(lambda: asyncio.Task(self._run(), loop=asyncio.get_running_loop()))
        try:
            await self.connected()
        except BaseException:
            await self.close(0)
            raise

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connected(self) -> Session:
        """Wait for a connection and return its session.

        Raises:
            StateError: It is not started.
            ConnectionLost: It is closed, or nothing more is tried.
        """
        if self._driver is None:
            raise StateError("the session is not started")
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
            ConnectionLost: Nothing more is tried.
        """
        if self._driver is None:
            raise StateError("the session is not started")
        await asyncio.wait([self._driver])
        if self._reason is not None:
            raise self._loss()

    async def close(self, grace_seconds: float | Unset | None = UNSET) -> None:
        """Close the session and connect no more. Calls that wait for a connection fail with ConnectionLost.

        Args:
            grace_seconds: As in `Session.close`.
        """
        self._is_closed = True
        driver, session = self._driver, self._session
        if driver is None:
            return
        self._changed.set()
        if session is not None:
            await session.close(grace_seconds)
        driver.cancel()
        await asyncio.wait([driver])

    # Calling.

    async def call(
        self,
        method: str,
        params: Any = None,
        *,
        timeout: float | Unset | None = UNSET,
        idle_timeout: float | None = None,
        on_progress: Callable[[Any], object] | None = None,
    ) -> Any:
        """Call a method of the peer, as `Session.call`. The time spent waiting for a connection counts."""
        session, left = await self._connected_within(timeout)
        return await session.call(method, params, timeout=left, idle_timeout=idle_timeout, on_progress=on_progress)

    async def call_batch(
        self, items: Iterable[tuple[str, Any] | Notification], *, timeout: float | Unset | None = UNSET
    ) -> list[Any]:
        """Send several calls in one batch, as `Session.call_batch`. The time spent waiting for a connection counts."""
        session, left = await self._connected_within(timeout)
        return await session.call_batch(items, timeout=left)

    async def notify(self, method: str, params: Any = None, *, timeout: float | Unset | None = UNSET) -> None:
        """Send a notification, as `Session.notify`.

        Args:
            method: The method.
            params: The params.
            timeout: Seconds to wait for a connection; None: no limit. The default is the option `timeout`.

        Raises:
            CallTimeout: There was no connection in time.
        """
        session, _ = await self._connected_within(timeout)
        await session.notify(method, params)

    async def _connected_within(self, timeout: float | Unset | None) -> tuple[Session, float | Unset | None]:
        """Return the session, and what is left of the timeout."""
        session = self.session
        if session is not None:
            return session, timeout
        seconds = self._timeout if isinstance(timeout, Unset) else timeout
        if seconds is not None and not seconds >= 0:  # NaN among the loop's timers would block others
            raise invalid_timeout()
        loop = asyncio.get_running_loop()
        began = loop.time()
        run = current_run.get()
        if run is not None:
            run.begin_wait()
        try:
            session = await asyncio.wait_for(self.connected(), seconds)
        except asyncio.TimeoutError:
            raise CallTimeout("there was no connection in time") from None
        finally:
            if run is not None:
                run.end_wait()
        return session, None if seconds is None else max(0.0, seconds - (loop.time() - began))

    def _loss(self) -> ConnectionLost:
        loss = ConnectionLost("the session is closed" if self._reason is None else "there is no more connection")
        loss.__cause__ = self._reason
        return loss

    # Connecting.

    async def _run(self) -> None:
        try:
            await self._keep_connected()
        except BaseException as error:  # a callback may raise CancelledError, which only `close` should cause
            if not self._is_closed or isinstance(error, Exception):
                self._reason = error
            if not isinstance(error, Exception):
                raise
        finally:
            self._changed.set()

    async def _keep_connected(self) -> None:
        loop = asyncio.get_running_loop()
        bound = min(self._min_delay, self._max_delay)
        failed = 0
        while not self._is_closed:
            began = loop.time()
            try:
                session = await self._connect()
            except Exception as error:
                self._hooks.peer_fault(error)
                failed += 1
                if failed == self._max_attempts or not self._retry(error):
                    raise
            else:
                failed = 0
                self._session = session
                self._changed.set()
                try:
                    if not self._is_closed:  # `on_connect` may have caught the cancellation by `close`
                        await session.wait_closed()
                finally:
                    self._session = None
                    if session.is_connected:
                        await session.close(0)
                if loop.time() - began > bound:
                    bound = min(self._min_delay, self._max_delay)
            await asyncio.sleep(random.uniform(0, bound))
            bound = min(2 * bound, self._max_delay)

    async def _connect(self) -> Session:
        made = self._make_transport()
        transport = await made if inspect.isawaitable(made) else made
        session = Session(transport, self._handlers, **self._options)
        try:
            await session.start()
            if self._on_connect is not None:
                await self._on_connect(session)
        except BaseException:
            await session.close(0)
            await transport.disconnect()
            raise
        return session
