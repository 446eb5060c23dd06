"""One server of a gateway, for one client.

Rules:
  - A client with a handshake is served by the handshake if the server has one, and a client of 2026-07-28 without it. A
    server with a handshake gets nothing that only 2026-07-28 has.
  - A progress token is replaced by one of the gateway: two clients, or a client and another server, may use the same. A
    message of the server that does not say which request it belongs to goes to the latest one in flight.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ...codec import Raw, decoded
from ...codes import McpErrorCode
from ...errors import (
    CallTimeout,
    ConnectionLost,
    HandshakeError,
    HttpStatusError,
    InvalidResponse,
    ParseError,
    ProgramStartError,
    RpcError,
    SignInError,
    StateError,
)
from ...hooks import Hooks
from ...profile import Profile
from ...session import SessionContext, SessionOptions, detached, waits_for_peer
from ...support import logger_of, on_failure
from ...transports import Transport
from ..client.client import MAX_ROUNDS
from ..client.entries import ServerEntry
from ..client.handshake import PROBE_SECONDS, ClientHandshake, SendRequest, ServerContext
from ..client.results import all_pages
from ..client.session import ClientSession, Restarts, wait_until
from ..protocol.capabilities import ClientCapabilities, Implementation, ListChanged, Resources, ServerCapabilities
from ..protocol.meta import (
    LIST_METHODS,
    LISTEN_METHOD,
    LOG_LEVEL_KEY,
    MAX_INPUTS,
    RESOURCES_FILTER,
    changes_filter,
    method_not_found,
)
from ..protocol.records import EmptyObject
from .payloads import GATEWAY_ERROR, Tokens, as_raw, member, object_of, text_member, with_members, with_meta

CAPABILITIES: Final = ServerCapabilities(
    tools=ListChanged(list_changed=True),
    prompts=ListChanged(list_changed=True),
    resources=Resources(subscribe=True, list_changed=True),
    logging=EmptyObject(),
    completions=EmptyObject(),
)
"""What a gateway passes on of its servers."""
MIN_IDLE_SECONDS: Final = 10.0
"""A server is ended to make room for another one only if it has been idle for this long."""
INPUT_MEMBERS: Final = ("inputResponses", "requestState")
"""The members of params by which a client of 2026-07-28 repeats a request."""
_LISTEN_SECONDS: Final = 5.0
"""The minimum time between two openings of a subscription, and how long the old one is kept while the new one opens."""

_FAULTS: Final = (
    CallTimeout,
    ConnectionLost,
    HandshakeError,
    HttpStatusError,
    InvalidResponse,
    ParseError,
    SignInError,
    StateError,
)
"""A server has failed. The client gets the error -32000, which names the server."""

_logger: Final = logger_of("gateway")


@dataclass(eq=False)
class Places:
    """The bounds of the servers of one gateway, and those that run.

    Attributes:
        profile: The rules for the messages of the servers.
        max_calls: Maximum number of requests in flight to one of them.
        idle_seconds: How long a server may be idle; None: no limit.
        list_seconds: How long a list waits for a server.
        timeout: Seconds until a request is given up; None: never.
        schemas: The input schemas of tools that require headers over HTTP, by their names for the clients.
        legacy: The names of servers that were found to have only a handshake; they are not probed again.
        checked: The names of servers whose rules for tools were compared with their tools.
        instructions: The instructions of the servers that have been started, as of their last start.
        is_ending: Whether the process ends: no server is started.
    """

    profile: Profile
    max_servers: int
    max_calls: int
    idle_seconds: float | None
    list_seconds: float
    timeout: float | None
    hooks: Mapping[str, Hooks]
    running: dict[Upstream, None] = field(default_factory=dict)
    schemas: dict[str, Any] = field(default_factory=dict)
    legacy: set[str] = field(default_factory=set)
    checked: set[str] = field(default_factory=set)
    instructions: dict[str, str | None] = field(default_factory=dict)
    is_ending: bool = False

    async def enter(self, upstream: Upstream) -> None:
        """Give a server a place to run, if necessary by ending the one that has been idle longest.

        Raises RpcError: too many servers run, or the process ends.
        """
        while len(self.running) >= self.max_servers:
            now = asyncio.get_running_loop().time()
            # Servers of other clients may have to end. `MIN_IDLE_SECONDS` prevents two clients from ending each other's
            # servers at every request.
            idle = [other for other in self.running if other.is_idle and now - other.used >= MIN_IDLE_SECONDS]
            if not idle:
                raise RpcError(GATEWAY_ERROR, "too many servers are running")
            # Checked again after the wait: another request may have taken the place.
            await min(idle, key=lambda other: other.used).end()
        if self.is_ending:
            raise RpcError(GATEWAY_ERROR, "the gateway is ending")
        self.running[upstream] = None

    def leave(self, upstream: Upstream) -> None:
        """Free the place of a server."""
        self.running.pop(upstream, None)


class _Faults:
    """The hooks of a session with a server that has none of its own: its faults, with its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def fault(self, error: BaseException) -> None:
        """Log a fault. The loss of a server is told as what comes of it."""
        if isinstance(error, (*_FAULTS, OSError)):
            _logger.debug("%s: %s", self._name, _reason(error))
        else:
            _logger.error("%s: an exception in a callback or a hook", self._name, exc_info=error)


class _Session(ClientSession):
    """The session with a server; its messages go to the upstream, undecoded."""

    def __init__(
        self,
        transport: Transport,
        handshake: ClientHandshake,
        receive: Callable[[Any, SessionContext], Any],
        hooks: Hooks | None,
    ) -> None:
        # A server may have 1000 requests to its client in flight.
        options = SessionOptions(max_inbox=1000, inbox_bytes=16 * 1024 * 1024, max_handlers=100, hooks=hooks)
        super().__init__(transport, handshake, {}, None, **options)
        self._receive_message = receive

    def serve(self, params: Any, context: SessionContext) -> Any:
        if not context.is_notification:
            # The handshake itself responds to `ping`, and refuses requests before `initialize` is done.
            result = self._handshake.receive_request(context.method)
            if result is not None:
                return result
        return self._receive_message(as_raw(params), context)


@dataclass(eq=False, repr=False)
class Upstream:
    """One server, for one client.

    Args:
        ask: Takes a request of the server: this object, the method, the params and the origin of the client's request
            that it belongs to, as far as that is known; returns an awaitable of the result.

    Attributes:
        requests: The origins of the client's requests in flight, the latest one last.
        server: The facts about the server; None before its first start.
        level: The level of log messages that the client set; None: none.
        subscriptions: The URIs of the resources that the client subscribed to.
        used: When the last request ended, by the loop's clock.
    """

    name: str
    _entry: ServerEntry
    _places: Places
    _info: Implementation
    _capabilities: ClientCapabilities
    _is_modern: bool
    _ask: Callable[[Upstream, str, Raw, Any], Awaitable[Any]]
    _tell: Callable[[Upstream, str, Raw, Any], None]
    _lost: Callable[[Upstream], None]
    server: ServerContext | None = None
    level: str | None = None
    subscriptions: dict[str, None] = field(default_factory=dict)
    used: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    _session: _Session | None = None
    _starting: asyncio.Task[_Session] | None = None
    _ending: asyncio.Task[None] | None = None
    _restarts: Restarts = field(default_factory=lambda: Restarts(3))
    _failure: str = ""  # why it does not run; "" if it runs, or was ended
    _is_closed: bool = False
    _timer: asyncio.TimerHandle | None = None
    requests: dict[object, Any] = field(default_factory=dict)
    _tokens: Tokens[Any] = field(default_factory=Tokens)  # of the client
    _listener: asyncio.Task[None] | None = None
    _filter_changed: asyncio.Event = field(default_factory=asyncio.Event)
    _acknowledged: asyncio.Event = field(default_factory=asyncio.Event)

    # Requests of the client.

    async def call(self, method: str, params: Any = None, origin: Any = None) -> Any:
        """Send a request, and start the server if necessary. Return the result as it arrived.

        Args:
            origin: The origin with which the server's messages about this request are passed on.

        Raises RpcError: the server's error; or -32000 if the server cannot be started, was lost or is too busy.
        """
        # Refused, not queued: no peer would bound the memory of requests that wait here.
        if self.is_full:
            raise self._error("has too many requests in flight")
        # An object, not a number: only its identity and its place in the order matter.
        request = object()
        self.requests[request] = origin
        try:
            # The handler keeps no slot while it waits: the server may send a request back through this session before
            # it responds.
            with waits_for_peer():
                session = await self._started()
            if self.is_modern:
                return await self._call_modern(session, method, as_raw(params), origin)
            if self._is_modern:
                # A server with a handshake does not know rounds, so the members of 2026-07-28 are not passed on.
                params = with_meta(as_raw(params), {}, INPUT_MEMBERS)
            return await self._send(session, method, params, origin)
        except _FAULTS as error:
            raise self._error(_reason(error)) from None
        finally:
            self.used = asyncio.get_running_loop().time()
            del self.requests[request]
            self._watch()

    async def _send(self, session: ClientSession, method: str, params: Any, origin: Any) -> Any:
        with self._tokens.replaced(params, origin) as params:
            return await session.call(method, params, timeout=self._places.timeout)

    async def _call_modern(self, session: ClientSession, method: str, params: Raw, origin: Any) -> Any:
        assert self.server is not None
        meta = self.server.meta if self.level is None else {**self.server.meta, LOG_LEVEL_KEY: self.level}
        # A modern client sends the level with each request; one with a handshake has set it once.
        found = params.get(("_meta", LOG_LEVEL_KEY)) if self._is_modern else None
        params = with_meta(params, meta if found is None else {**meta, LOG_LEVEL_KEY: found})
        # Over stdio there are no headers.
        may_list = method == "tools/call" and bool(self._entry.url)
        for _ in range(MAX_ROUNDS + 1):
            try:
                result = await self._send(session, method, params, origin)
            except RpcError as error:
                # Over HTTP a tool may require its own headers, which are only in the list of tools.
                if not may_list or error.code != McpErrorCode.HEADER_MISMATCH:
                    raise
                may_list = False
                await self.list("tools/list")
                continue
            if self._is_modern or not is_input_required(result):
                return result
            params = with_members(params, await self._inputs(as_raw(result), origin), INPUT_MEMBERS)
        raise self._error("asked for input too many times")

    async def _inputs(self, result: Raw, origin: Any) -> Mapping[str, Any]:
        """Send the requests in a result to a client with a handshake. Return the params' members for the repetition."""
        requests, state = result.get(("inputRequests",)), result.get(("requestState",))
        asked = {} if requests is None else dict(requests.items())
        methods = [member(request, ("method",)) for request in asked.values()]
        # The client gets these requests, so they must be ones that the protocol allows.
        is_valid = all(isinstance(method, str) for method in methods) and (asked or state is not None)
        if not is_valid or len(asked) > MAX_INPUTS:
            raise self._error("sent an invalid message")
        members = {} if state is None else {"requestState": state}
        if not asked:
            await asyncio.sleep(0.25)
            return members
        tasks = [
            asyncio.ensure_future(self._ask(self, method, as_raw(request.get(("params",))), origin))
            for method, request in zip(methods, asked.values(), strict=True)
        ]
        try:
            # Sent together, as the server has asked, so that the client may show them together.
            responses = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return {**members, "inputResponses": object_of(dict(zip(asked, map(as_raw, responses), strict=True)))}

    async def start(self) -> None:
        """Start the server if it does not run. Raises the RpcError that `call` raises."""
        with waits_for_peer():
            await self._started()

    async def subscribe(self, method: str, params: Raw, origin: Any = None) -> Any:
        """Subscribe the client to a resource, or end that. Return the result.

        Raises RpcError: as in `call`; or there are too many subscriptions.
        """
        uri = text_member(params, "uri")
        is_new = method == "resources/subscribe"
        if is_new and len(self.subscriptions) >= 1000:
            raise RpcError.invalid_params("there are too many subscriptions")
        await self.start()
        result: Any = {}
        if not self.is_modern:
            result = await self.call(method, params, origin)
        elif not self.supports("resources.subscribe"):
            raise method_not_found()
        if is_new:
            self.subscriptions[uri] = None
        else:
            self.subscriptions.pop(uri, None)
        # A server of 2026-07-28 has no request for it: a new subscription replaces the old one.
        self._filter_changed.set()
        return result

    async def list(self, method: str) -> list[dict[str, Any]]:
        """Return all items of a list; none of a server that has no such list.

        Raises:
            RpcError: As in `call`.
            ValueError: The result is invalid.
        """
        await self.start()
        if not self.supports(LIST_METHODS[method].kind):
            return []

        async def page(params: Any) -> dict[str, Any]:
            result = decoded(await self.call(method, params))
            return result if isinstance(result, dict) else {}

        return await all_pages(method, page, self.name)

    def supports(self, capability: str) -> bool:
        """Return whether the server has a capability, as far as it is known."""
        return self.server is not None and self.server.capabilities.supports(capability)

    @property
    def is_modern(self) -> bool:
        """Whether the server is one of 2026-07-28, as far as it is known."""
        return self.server is not None and self.server.revision.is_modern

    @property
    def is_full(self) -> bool:
        """Whether it has the maximum number of requests in flight."""
        return len(self.requests) >= self._places.max_calls

    @property
    def is_ended(self) -> bool:
        """Whether no process or connection runs, starts or ends."""
        is_starting = self._starting is not None and not self._starting.done()
        return self._session is None and self._ending is None and not is_starting and not self.requests

    @property
    def is_running(self) -> bool:
        """Whether the server can be reached."""
        return self._session is not None and self._session.is_connected

    def notify(self, method: str, params: Raw | None) -> None:
        """Send a notification, if the server runs, and has a handshake: others take none."""
        if self._session is not None and self._session.is_connected and not self.is_modern:
            self._session.notify_soon(method, params)

    # The server's messages.

    def _receive(self, params: Raw, context: SessionContext) -> Any:
        # JSON-RPC does not say which request of the client a message of the server belongs to. Up to 2025-11-25 neither
        # does MCP, so the latest one is a guess; over stdio all of them share one stream.
        latest = next(reversed(self.requests.values()), None)
        if not context.is_notification:
            if self.is_modern:
                raise method_not_found()
            return self._ask(self, context.method, params, latest)
        if context.method == "notifications/progress":
            if (found := self._tokens.restored(params)) is not None:
                self._tell(self, context.method, *found)
        elif context.method == "notifications/subscriptions/acknowledged":
            self._acknowledged.set()
        else:
            self._tell(self, context.method, params, latest)
        return None

    # The subscription to a server of 2026-07-28.

    async def _listen(self, session: _Session) -> None:
        """Keep a subscription to the changes that the client may need. A new one replaces it when these differ."""
        assert self.server is not None
        loop = asyncio.get_running_loop()
        stream: asyncio.Future[Any] | None = None
        try:
            while session.is_connected:
                self._filter_changed.clear()
                begun = loop.time()
                before, stream = stream, None
                if wanted := self._wanted():
                    self._acknowledged.clear()
                    params = self.server.params({"notifications": wanted})
                    # Without a timeout, because the response comes when the subscription ends.
                    stream = asyncio.ensure_future(session.call(LISTEN_METHOD, params, timeout=None))
                    stream.add_done_callback(retrieve)
                    if before is not None and not before.done():  # the old one stays in use until the new one is open
                        await first(self._acknowledged, stream, _LISTEN_SECONDS)
                if before is not None:
                    before.cancel()
                await first(self._filter_changed, stream)
                if stream is not None and stream.done():
                    # A server that ends each subscription at once would otherwise be queried in a busy loop.
                    await first(self._filter_changed, None, begun + _LISTEN_SECONDS - loop.time())
        finally:
            if stream is not None:
                stream.cancel()

    def _wanted(self) -> dict[str, Any]:
        wanted = {} if self.server is None else changes_filter(self.server.capabilities)
        if self.subscriptions and self.supports("resources.subscribe"):
            wanted[RESOURCES_FILTER] = list(self.subscriptions)
        return wanted

    # Starting and ending.

    async def _started(self) -> ClientSession:
        if self._session is not None and self._session.is_connected:
            return self._session
        if self._starting is None or self._starting.done():
            # The task does not belong to the request that starts it: other requests wait for it, too, and its
            # cancellation would affect them.
            self._starting = detached(asyncio.ensure_future, self._start())
            self._starting.add_done_callback(retrieve)
        # Shielded: a cancelled request stops waiting, but the start continues.
        return await asyncio.shield(self._starting)

    async def _start(self) -> _Session:
        now = asyncio.get_running_loop().time()
        # A request may have waited for a start that `close` has cancelled.
        if self._is_closed:
            raise self._error("is closed")
        if self._session is not None and self._ending is None:
            # The connection has ended, but its close callback has not run yet.
            self._on_loss(self._session)
        if self._ending is not None:
            await asyncio.shield(self._ending)  # `close` may cancel this
        # Only starts after a failure are counted. A server that was ended because it was idle may start any number of
        # times.
        if self._failure and not self._restarts.take(now):
            raise self._error(f"{self._failure}; it is started again at most {self._restarts.most} times in a minute")
        # Done before the place is taken: signing in may take minutes, in which other servers could run.
        try:
            await self._entry.sign_in()
        except SignInError as error:  # its text shows no data that was sent
            _logger.warning("%s: %s", self.name, error)
            raise self._error(_reason(error)) from None
        await self._places.enter(self)
        what = "cannot be reached" if self._entry.url else "cannot be started"
        self._failure = what  # until it runs: any exception below is a failure
        try:
            async with on_failure(partial(self._places.leave, self)):
                # A package may have to be downloaded first.
                session = await self._connect(now + 60.0)
        except (*_FAULTS, OSError, ValueError, ImportError, RpcError) as error:
            reason = _reason(error)
            _logger.warning("%s: %s: %s", self.name, what, reason)
            self._failure = f"{what}: it {reason}"
            raise self._error(self._failure) from None
        self._session = session  # set only now: no request may overtake the handshake
        session.add_close_callback(partial(self._on_loss, session))
        self._failure = ""
        return session

    async def _connect(self, deadline: float) -> _Session:
        # For a client with a handshake, the server gets a handshake, so that it may ask the client at any time.
        probes = self._is_modern and self.name not in self._places.legacy
        # A server over HTTP always responds.
        probe_seconds = None if self._entry.url else PROBE_SECONDS
        handshake = ClientHandshake(self._info, self._capabilities, "auto", probe_seconds)
        step = handshake.start(probes=probes)
        while True:
            transport = self._entry.transport(self._places.profile, raw=True)
            hooks = self._places.hooks.get(self.name) or _Faults(self.name)
            session = _Session(transport, handshake, self._receive, hooks)
            async with on_failure(partial(session.close, 0.0)):
                try:
                    begun = self._begin(session, handshake, step)
                    await wait_until(deadline, begun, "it did not start")
                    if self._is_modern and not self.is_modern:
                        self._places.legacy.add(self.name)
                    return session
                except ConnectionLost:
                    # A program may end because of the probe.
                    again = handshake.restarted() if probes else None
                    if again is None:
                        raise
            step, probes = again, False
            await session.close(0.0)

    async def _begin(self, session: _Session, handshake: ClientHandshake, step: SendRequest) -> None:
        await session.start()
        await session.shake_hands(step)
        assert handshake.server is not None
        self.server = handshake.server
        if self.name not in self._places.instructions and (names := unpassed(self.server.capabilities)):
            _logger.warning("%s: these of its capabilities are not passed on: %s", self.name, ", ".join(names))
        self._places.instructions[self.name] = self.server.instructions
        if self.is_modern:
            self._listener = detached(asyncio.ensure_future, self._listen(session))
            self._listener.add_done_callback(retrieve)
            return
        if self.level is not None and self.supports("logging"):
            await session.call("logging/setLevel", {"level": self.level})
        # Restore the state that the client has set in an earlier process of the server.
        for uri in self.subscriptions:
            await session.call("resources/subscribe", {"uri": uri})

    def _on_loss(self, session: _Session) -> None:
        """Give the place back after a loss."""
        # Ignore the loss of an earlier session, and an end that this side has begun.
        if self._session is session and not self._is_closed and self._ending is None:
            self._failure = "has ended"
            self._end_soon()
            if not self._places.is_ending:
                _logger.warning("%s: has ended", self.name)
                self._lost(self)

    def _watch(self) -> None:
        """End the server later, if it is idle until then."""
        seconds = self._places.idle_seconds
        # One timer for any number of requests: when it expires, it checks the time of the last one.
        if seconds is None or self._timer is not None or self.requests or not self.is_running:
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(self.used + seconds, self._end_if_idle, context=Context())

    def _end_if_idle(self) -> None:
        self._timer = None
        seconds = self._places.idle_seconds or 0.0
        # The server was used after the timer was set, so set the timer again.
        if asyncio.get_running_loop().time() < self.used + seconds:
            self._watch()
        elif self.is_idle:
            self._end_soon()

    @property
    def is_idle(self) -> bool:
        """Whether the server runs, and its client has no request and no subscription that needs it."""
        return self.is_running and not self.requests and not self.subscriptions

    def _end_soon(self) -> asyncio.Task[None]:
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        return self._ending

    async def end(self) -> None:
        """End the server; the next request starts it again."""
        await asyncio.shield(self._end_soon())

    async def _end(self) -> None:
        session, self._session = self._session, None
        if self._listener is not None:
            self._listener.cancel()
            self._listener = None
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
        """End the server permanently."""
        # Set first, so that a request that waits for the end does not start the server again.
        self._is_closed = True
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            # A cancelled start still has to end the program that it has started.
            await asyncio.wait([self._starting])
        await self.end()

    def _error(self, what: str) -> RpcError:
        return RpcError(GATEWAY_ERROR, f"the server {self.name!r} {what}")


def unpassed(capabilities: ServerCapabilities) -> list[str]:
    """Return the names of the capabilities of a server that no client gets."""
    passed: dict[str, Any] = {**CAPABILITIES.to_dict(), "experimental": {}, "extensions": {}}
    names = []
    for name, value in capabilities.to_dict().items():
        if name not in passed:
            names.append(name)
        elif isinstance(value, dict):
            names += [f"{name}.{inner}" for inner in value if inner not in passed[name]]
    return [name for name in names if capabilities.supports(name)]


def is_input_required(result: Any) -> bool:
    """Return whether a result of 2026-07-28 asks the client for input."""
    kind = member(result, ("resultType",)) if type(result) is Raw else result.get("resultType")
    return bool(kind == "input_required")


async def first(event: asyncio.Event, task: asyncio.Future[Any] | None, seconds: float | None = None) -> None:
    """Wait for an event or the end of a task, at most for this many seconds."""
    waiter = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([waiter] if task is None else [waiter, task], timeout=seconds, return_when="FIRST_COMPLETED")
    finally:
        waiter.cancel()


def _reason(error: Exception) -> str:
    """Describe an error without data from the server and without the server's command."""
    if isinstance(error, HandshakeError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # the server's error, or that it did not respond
    if isinstance(error, HttpStatusError):
        return f"responded with the HTTP status {error.status}"
    if isinstance(error, CallTimeout):
        return "did not respond in time"
    if isinstance(error, SignInError):
        return "needs a sign-in, which failed"
    if isinstance(error, (ConnectionLost, StateError)):
        text = str(error.__cause__ if isinstance(error.__cause__, ConnectionLost) else error)
        child = "the child process "
        if text.startswith(child):
            return text.removeprefix(child)
        # The other texts may hold an address, and so may what is wrong with a certificate.
        _, is_unreached, why = text.partition(" cannot be reached: ")
        if "certificate" in why.lower():
            return "has a certificate that is refused"
        return f"has no connection: {why}" if is_unreached else "was lost"
    if isinstance(error, RpcError):
        return f"responded with the error {error.code}"
    if isinstance(error, OSError):
        # Its own text may hold the command.
        known = os.strerror(error.errno) if error.errno else type(error).__name__
        where = " in its working directory" if isinstance(error, ProgramStartError) and error.is_of_cwd else ""
        return f"cannot be run{where}: {known}"
    return "sent an invalid message"


def retrieve(task: asyncio.Future[Any]) -> None:
    """Retrieve the exception of a future that may not be awaited, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
