"""One server of a gateway, for one client.

Rules:
  - The server is started with the first request for it, and told the client's own name and capabilities.
  - It is ended after `idle_seconds` without a request, unless the client subscribed to one of its resources. The next
    request starts it again.
  - If it exits, crashes or loses its connection, the next request starts it again, at most MAX_RESTARTS times
    in RESTART_SECONDS. The level of log messages and the subscriptions are set again; other state is lost.
  - A person signs in before the server is started, where it needs that. One sign-in serves all clients.
  - A progress token is replaced by one of the gateway: two clients, or a client and another server, may use the same.
  - A message of the server that belongs to a request, but does not say to which, goes where the response to the latest
    request in flight goes.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ..._logs import logger_of
from ...codec import Raw
from ...codec._payloads import decoded
from ...errors import (
    CallTimeout,
    ConnectionLost,
    HandshakeError,
    HttpStatusError,
    ParseError,
    RpcError,
    SignInError,
    StateError,
)
from ...handlers.failures import on_failure
from ...profile import Profile
from ...session import Destination, SessionContext, SessionOptions
from ...session.running import current_run, waiting
from ...transports.protocol import Transport
from ..client.deadlines import wait_until
from ..client.entries import ServerEntry
from ..client.handshake import ClientHandshake, ServerContext
from ..client.paging import all_pages
from ..client.restarts import Restarts
from ..client.session import ClientSession
from ..protocol.capabilities import ClientCapabilities, Implementation
from ..protocol.meta import LIST_METHODS, HandshakeResult
from ..relay import RELAY_ERROR
from .payloads import Tokens, as_raw

MAX_RESTARTS: Final = 3
START_SECONDS: Final = 60.0
"""How long a server may take to start, and to list what it offers: a package may have to be downloaded first."""
MIN_IDLE_SECONDS: Final = 10.0
"""A server is ended to make room for another one only if it has been idle for this long."""
MAX_SUBSCRIPTIONS: Final = 1000
"""Maximum number of resources of one server that a client subscribes to."""
_SESSION: Final[SessionOptions] = {"max_inbox": 1000, "inbox_bytes": 16 * 1024 * 1024, "max_handlers": 100}
"""How many requests of its own a server may have in flight."""

_logger: Final = logger_of("gateway")


@dataclass(eq=False)
class Places:
    """The bounds of the servers of one gateway, and those that run.

    Attributes:
        profile: The rules for the messages of the servers.
        max_servers: Maximum number of servers that run.
        max_calls: Maximum number of requests in flight to one of them.
        idle_seconds: How long a server may be idle; None: no limit.
        list_seconds: How long a list waits for a server.
        timeout: Seconds until a request is given up; None: never.
        running: The servers that run or start.
    """

    profile: Profile
    max_servers: int
    max_calls: int
    idle_seconds: float | None
    list_seconds: float
    timeout: float | None
    running: dict[Upstream, None] = field(default_factory=dict)

    async def enter(self, upstream: Upstream) -> None:
        """Give a server a place to run, if necessary that of the one that has been idle longest.

        Raises:
            RpcError: Too many servers run.
        """
        while len(self.running) >= self.max_servers:
            now = asyncio.get_running_loop().time()
            # Servers of other clients may have to leave. `MIN_IDLE_SECONDS` keeps two clients from ending each other's
            # servers at every request.
            idle = [other for other in self.running if other.is_idle and now - other.used >= MIN_IDLE_SECONDS]
            if not idle:
                raise RpcError(RELAY_ERROR, "too many servers run")
            # Checked again after the wait: another request may have taken the place.
            await min(idle, key=lambda other: other.used).end()
        self.running[upstream] = None

    def leave(self, upstream: Upstream) -> None:
        """Free the place of a server."""
        self.running.pop(upstream, None)


class _Session(ClientSession):
    """The session with a server; its messages go to the upstream, undecoded."""

    def __init__(
        self, transport: Transport, handshake: ClientHandshake, receive: Callable[[Any, SessionContext], Any]
    ) -> None:
        super().__init__(transport, handshake, {}, None, **_SESSION)
        self._rules = handshake
        self._receive_message = receive

    def serve(self, params: Any, context: SessionContext) -> Any:
        if not context.is_notification:
            # The handshake answers `ping` by itself, and refuses requests before `initialize` is done.
            decision = self._rules.receive_request(context.method)
            if isinstance(decision, HandshakeResult):
                return decision.result
        return self._receive_message(as_raw(params), context)


@dataclass(eq=False, repr=False)
class Upstream:
    """One server, for one client.

    Args:
        name: The name of the server.
        entry: Where it is.
        places: The bounds of the gateway.
        info: The client's name and version.
        capabilities: What the client can.
        ask: Takes a request of the server: this object, the method, the params and the place for it; returns an
            awaitable of the result.
        tell: Takes a notification of the server in the same way.

    Attributes:
        name: The name.
        server: What is known about the server; None before its first start.
        level: The level of log messages that the client set; None: none.
        subscriptions: The URIs of the resources that the client subscribed to.
        used: When the last one ended, by the loop's clock.
    """

    name: str
    _entry: ServerEntry
    _places: Places
    _info: Implementation
    _capabilities: ClientCapabilities
    _ask: Callable[[Upstream, str, Raw, Destination | None], Any]
    _tell: Callable[[Upstream, str, Raw, Destination | None], None]
    server: ServerContext | None = None
    level: str | None = None
    subscriptions: dict[str, None] = field(default_factory=dict)
    used: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    _session: _Session | None = None
    _starting: asyncio.Task[_Session] | None = None
    _ending: asyncio.Task[None] | None = None
    _restarts: Restarts = field(default_factory=lambda: Restarts(MAX_RESTARTS))
    _has_failed: bool = False
    _is_closed: bool = False
    _timer: asyncio.TimerHandle | None = None
    _requests: dict[object, Destination | None] = field(default_factory=dict)  # the places of those in flight, in order
    _tokens: Tokens[Destination | None] = field(default_factory=Tokens)  # of the client

    # Requests of the client.

    async def call(self, method: str, params: Any = None, destination: Destination | None = None) -> Any:
        """Send a request, and start the server if necessary. Return the result as it arrived.

        Args:
            method: The method.
            params: The params.
            destination: Where the response goes.

        Raises:
            RpcError: The server's error; or -32000 if the server cannot be started, was lost or is too busy.
        """
        if len(self._requests) >= self._places.max_calls:
            raise self._error("has too many requests in flight")
        request = object()
        self._requests[request] = destination
        try:
            # The handler keeps no slot while it waits: the server may send a request back through this session before
            # it responds.
            with waiting():
                session = await self._started()
            with self._tokens.replaced(params, destination) as params:
                return await session.call(method, params, timeout=self._places.timeout)
        except (ConnectionLost, CallTimeout, HttpStatusError, ParseError, StateError) as error:
            raise self._error(_reason(error)) from None
        finally:
            self.used = asyncio.get_running_loop().time()
            del self._requests[request]
            self._watch()

    async def list(self, method: str) -> list[dict[str, Any]]:
        """Return all items of a list; none of a server that has no such list.

        Args:
            method: The method, of LIST_METHODS.

        Raises:
            RpcError: As in `call`.
            ValueError: The result is invalid.
        """
        with waiting():
            await self._started()
        if not self.supports(LIST_METHODS[method].kind):
            return []

        async def page(params: Any) -> dict[str, Any]:
            result = decoded(await self.call(method, params))
            return result if isinstance(result, dict) else {}

        return await all_pages(method, page)

    def supports(self, capability: str) -> bool:
        """Return whether the server has a capability, as far as it is known."""
        return self.server is not None and self.server.capabilities.supports(capability)

    @property
    def is_running(self) -> bool:
        """Whether the server can be reached."""
        return self._session is not None and self._session.is_connected

    def notify(self, method: str, params: Raw | None) -> None:
        """Send a notification, if the server runs."""
        if self._session is not None and self._session.is_connected:
            self._session.notify_soon(method, params)

    # The server's messages.

    def _receive(self, params: Raw, context: SessionContext) -> Any:
        # JSON-RPC does not say which request of the client a message of the server belongs to. Up to 2025-11-25 neither
        # does MCP, so the latest one is a guess; over stdio all of them share one stream.
        latest = next(reversed(self._requests.values()), None)
        if not context.is_notification:
            return self._ask(self, context.method, params, latest)
        if context.method == "notifications/progress":
            if (found := self._tokens.restored(params)) is not None:
                self._tell(self, context.method, *found)
        else:
            self._tell(self, context.method, params, latest)
        return None

    # Starting and ending.

    async def _started(self) -> ClientSession:
        if self._session is not None and self._session.is_connected:
            return self._session
        if self._starting is None or self._starting.done():
            # The task does not belong to the request that starts it: others wait for it, too, and must not lose it if
            # that request is cancelled. Without `current_run` its calls do not count as waits of that handler.
            context = contextvars.copy_context()
            context.run(current_run.set, None)
            self._starting = context.run(asyncio.ensure_future, self._start())
            self._starting.add_done_callback(_retrieve)
        # `shield`: a cancelled request stops waiting, and the start goes on.
        return await asyncio.shield(self._starting)

    async def _start(self) -> _Session:
        now = asyncio.get_running_loop().time()
        if self._is_closed:
            raise self._error("is closed")
        if self._session is not None and self._ending is None:
            # The connection has ended, and its close callback has not run yet.
            self._on_loss(self._session)
        if self._ending is not None:
            await asyncio.shield(self._ending)  # `close` may cancel this
        # Only starts after a failure count. A server that was ended for idleness may start any number of times.
        if self._has_failed and not self._restarts.take(now):
            raise self._error("has ended too often")
        await self._sign_in()
        await self._places.enter(self)
        self._has_failed = True  # until it runs: whatever is raised below is a failure
        try:
            async with on_failure(partial(self._places.leave, self)):
                handshake = ClientHandshake(self._info, self._capabilities, "legacy")
                transport = self._entry.transport(self._places.profile, raw=True)
                session = _Session(transport, handshake, self._receive)
                async with on_failure(partial(session.close, 0.0)):
                    begun = self._begin(session, handshake)
                    await wait_until(now + START_SECONDS, begun, "it does not start in time")
        except (OSError, ValueError, ImportError, ConnectionLost, CallTimeout, HandshakeError, RpcError) as error:
            _logger.warning("%s: cannot be started: %s", self.name, _reason(error))
            raise self._error("cannot be started") from None
        self._session = session  # not before: no request may overtake the handshake
        session.add_close_callback(partial(self._on_loss, session))
        self._has_failed = False
        return session

    async def _sign_in(self) -> None:
        try:
            await self._entry.sign_in()
        except SignInError as error:  # whose text shows nothing that was sent
            _logger.warning("%s: %s", self.name, error)
            raise self._error("needs a sign-in, which failed") from None

    async def _begin(self, session: _Session, handshake: ClientHandshake) -> None:
        await session.start()
        await session.shake_hands(handshake.start())
        self.server = handshake.server
        if self.level is not None and self.supports("logging"):
            await session.call("logging/setLevel", {"level": self.level})
        # State that the client has set in an earlier process of the server.
        for uri in self.subscriptions:
            await session.call("resources/subscribe", {"uri": uri})

    def _on_loss(self, session: _Session) -> None:
        """Give the place back after a loss."""
        # Ignore the loss of an earlier session, and the end that this side has begun.
        if self._session is session and not self._is_closed and self._ending is None:
            _logger.warning("%s: has ended", self.name)
            self._has_failed = True
            self._end_soon()

    def _watch(self) -> None:
        """End the server later, if it has nothing to do until then."""
        seconds = self._places.idle_seconds
        if seconds is None or self._timer is not None or self._requests or not self.is_running:
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(self.used + seconds, self._end_if_idle)

    def _end_if_idle(self) -> None:
        self._timer = None
        seconds = self._places.idle_seconds or 0.0
        # The server was used after the timer was set: one timer is enough for any number of requests.
        if asyncio.get_running_loop().time() < self.used + seconds:
            self._watch()
        elif self.is_idle:
            self._end_soon()

    @property
    def is_idle(self) -> bool:
        """Whether the server runs, and its client has no request and no subscription that needs it."""
        return self.is_running and not self._requests and not self.subscriptions

    def _end_soon(self) -> None:
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())

    async def end(self) -> None:
        """End the server; the next request starts it again."""
        self._end_soon()
        if self._ending is not None:
            await asyncio.shield(self._ending)

    async def _end(self) -> None:
        session, self._session = self._session, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            if session is not None:
                await session.close(0.0)
        finally:
            self._places.leave(self)
            self._ending = None

    async def close(self) -> None:
        """End the server for good."""
        self._is_closed = True
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            # A cancelled start still has to end the program that it has begun.
            await asyncio.wait([self._starting])
        await self.end()

    def _error(self, what: str) -> RpcError:
        return RpcError(RELAY_ERROR, f"the server {self.name!r} {what}")


def _reason(error: Exception) -> str:
    """Describe an error without what the server sent and without the command that starts it."""
    if isinstance(error, HttpStatusError):
        return f"answered with the HTTP status {error.status}"
    if isinstance(error, CallTimeout):
        return "did not respond in time"
    if isinstance(error, (ConnectionLost, StateError)):
        return "was lost"
    if isinstance(error, RpcError):
        return f"answered with the error {error.code}"
    if isinstance(error, OSError):
        known = errno.errorcode.get(error.errno or 0)  # not `strerror`: it may hold the command
        return f"cannot be run: {type(error).__name__ if known is None else known}"
    return "sent an invalid message"


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a future that nobody awaits any more, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
