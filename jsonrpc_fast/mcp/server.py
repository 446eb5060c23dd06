"""A server: what it offers, and its connections.

    server = Server("weather", "1.0")

    @server.tool()
    async def forecast(city: str, days: int = 1) -> str:
        "The weather of the next days."
        ...

    server.serve_stdio()

Rules:
  - what a connection offers is settled when it begins: a kind (tools, prompts, resources) of which nothing is
    registered by then is not declared, and its methods are not found. What is registered later, of a kind that was
    declared, is told by `list_changed`, once for all that changes in one turn of the loop;
  - every request goes through the handshake first, in the order of arrival, and so do notifications;
  - every request is checked when it comes, whatever the transport lets through, and every result before it leaves. A
    result that is none becomes error -32603, and the log says why;
  - a batch is taken from a client of 2025-03-26 alone, after `initialize`. Any other is a fault, like a line that is
    no message: it is reported, and gets no answer;
  - a client that ends its stream gets the answers to what it asked before that, and its subscriptions are ended;
  - a function may ask its client back: a legacy one by a request of its own, from `notifications/initialized` on, a
    modern one as `inputs.py` says;
  - lists, `ping`, the handshake and subscriptions are served however many functions run. Functions run `max_handlers`
    at a time (see `Session`);
  - a client that reads nothing is told of changes when it reads again, once; log messages are dropped meanwhile.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from ..codec import Notification, ParseError, Raw, Request, Response
from ..codes import ErrorCode, Unset
from ..errors import ConnectionLost, RpcError, StateError
from ..profile import Profile
from ..session import McpConvention, Session, SessionOptions
from ..session.handlers import Handler, Handlers, SessionContext
from ..session.options import check_options
from ..transports.base import Options, Received, Transport, is_strict_enough
from ..transports.stdio import run_stdio
from ..validator import JsonRpcValidator, Report
from .answers import Answering, Answers, call_method
from .capabilities import Implementation, ServerCapabilities
from .context import Context
from .handshake import LOG_LEVELS, Answer, RequestRules, ServerHandshake
from .inputs import Inputs, cannot_ask, check_input_required
from .registry import Registry
from .resources import check_uri
from .subscriptions import Message, Stream, Subscriptions
from .versions import REVISIONS, VERSIONS, in_order

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEFAULT_LOG_LEVEL: Final = "info"
"""What a legacy client gets that has set no level."""

_BLOCKED_BYTES: Final = 1024 * 1024
_BLOCKED_SECONDS: Final = 0.5
_LISTEN: Final = "subscriptions/listen"
_LISTS: Final = frozenset({"prompts/list", "resources/list"})
"""What is awaited for the sources."""
_ENDS: Final = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)  # of a task, whatever it served


class ServeOptions(Options, SessionOptions, total=False):
    """What `Server.serve_stdio` may be given: options of `StdioServer`, of `Session` and of `run_stdio`."""

    grace_seconds: float | None


class Server(Registry):
    """An MCP server. What it offers is registered as `Registry` says.

    Args:
        name: Who it is.
        version: Which version of it.
        title: The name for people.
        description: What it does, for people.
        instructions: How to use it, for the client's model.
        versions: The revisions that it serves.
        page_size: Items on a page of a list.
        ttl_ms: How long clients may keep lists and resources, in milliseconds (2026-07-28).
        cache_scope: Who may keep them: "private" to the client, or "public".
        capabilities: What to declare beside what is registered, or instead of it: extensions, tasks, experimental
            capabilities. Their methods are registered by `method`, their results made by `WholeResult`.
    """

    def __init__(
        self,
        name: str,
        version: str,
        *,
        title: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        versions: Sequence[str] = VERSIONS,
        page_size: int = 100,
        ttl_ms: int = 0,
        cache_scope: Literal["private", "public"] = "private",
        capabilities: ServerCapabilities | None = None,
    ) -> None:
        super().__init__(provider=name)
        said = {"title": title, "description": description}
        told: dict[str, Any] = {member: text for member, text in said.items() if text is not None}
        self._info = Implementation(name=name, version=version, **told)
        self._instructions = instructions
        self._versions = in_order(versions)
        self._cache_hints: dict[str, Any] = {"ttl_ms": ttl_ms, "cache_scope": cache_scope}
        self._declared = ServerCapabilities() if capabilities is None else capabilities
        self._answers = Answers(self, page_size)
        self._connections: set[_Connection] = set()

    @property
    def profile(self) -> Profile:
        """The rules that a transport of this server has to read by: those of its latest revision, with batches if any
        revision has them. Which client may send one is judged later.
        """
        profiles = [REVISIONS[version].profile for version in self._versions]
        return profiles[-1].replace(batches=any(profile.batches for profile in profiles))

    def capabilities(self) -> ServerCapabilities:
        """What there is to be offered now, and what is declared beside it."""
        names = [name for name in ServerCapabilities.__struct_fields__ if name != "order"]
        declared = {name: getattr(self._declared, name) for name in names}
        return msgspec.structs.replace(
            super().capabilities(), **{name: value for name, value in declared.items() if value is not msgspec.UNSET}
        )

    async def run(self, transport: Transport, **options: Unpack[SessionOptions]) -> None:
        """Serves one client until its connection is gone.

        Cancelled, it closes the connection. One server may serve any number of connections at a time.

        Args:
            transport: Not started, made with `profile=server.profile`.
            options: Those of `Session`: `hooks`, `timeout` (of what functions ask the client), `max_handlers`, … The
                convention is MCP's and the reply policy "never", unless they are given.

        Raises:
            TypeError, ValueError: An option has a wrong value.
            Exception: What the transport raises when it starts.
        """
        connection = _Connection(self, transport, options)
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)

    def serve_stdio(self, **options: Unpack[ServeOptions]) -> int:
        """Serves the client on this process's stdin and stdout, until it or a signal ends that: a program's `main`.

        Args:
            options: Those of `StdioServer`, those of `Session` as `run` takes them, and `grace_seconds`: how long
                functions at work may take after a signal, in seconds; None: as long as it takes. The default is 5.

        Returns:
            The exit code: see `transports/stdio.py`.

        Raises:
            TypeError, ValueError: An option has a wrong value.
        """
        of_session: Any = {name: value for name, value in options.items() if name in SessionOptions.__optional_keys__}
        of_transport: Any = {name: value for name, value in options.items() if name not in of_session}
        check_options(**of_session)

        async def serve(transport: Transport) -> None:
            await self.run(transport, **of_session)

        return run_stdio(serve, on_signal=self.end_subscriptions, **{"profile": self.profile, **of_transport})

    def list_changed(self, kind: Literal["tools", "prompts", "resources"]) -> None:
        """Tells all clients that may know that a list has changed. Registering does so by itself."""
        for connection in self._connections:
            connection.list_changed(kind)

    def resource_updated(self, uri: str) -> None:
        """Tells the clients that subscribed to a resource that it has changed."""
        for connection in self._connections:
            connection.resource_updated(uri)

    def end_subscriptions(self) -> None:
        """Ends what modern clients subscribed to, each with its answer: for a server that is about to end."""
        for connection in self._connections:
            connection.end_streams()

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Sends a log message to the legacy clients that want this level. Modern ones get such of a request alone.

        level   one of `LOG_LEVELS`
        data    any JSON value
        logger  who says it
        """
        for connection in self._connections:
            connection.log(level, data, logger, None)

    def _changed(self, kind: Literal["tools", "prompts", "resources"]) -> None:
        self.list_changed(kind)


class _Handlers(Handlers):
    """All methods have one handler: it is the handshake that says which of them there are."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._only = Handler(function, unpack=False)

    def find(self, method: str) -> Handler | None:
        return self._only


class _Session(Session):
    """A session that asks whether a batch may come, and tells of the end before it waits for what still runs."""

    def __init__(self, connection: _Connection, transport: Transport, options: SessionOptions) -> None:
        own: SessionOptions = {"convention": McpConvention(), "reply_policy": "never"}
        own.update(options)
        super().__init__(transport, _Handlers(connection.serve), **own)
        self._connection = connection

    def _on_message(self, message: Received) -> None:
        if type(message) is list and not self._connection.takes_batches:
            self._on_error(ParseError.batch_not_allowed())
        else:
            super()._on_message(message)

    def _on_end(self) -> None:
        self._connection.end_streams()
        super()._on_end()


class _Connection:
    """One client of a server."""

    def __init__(self, server: Server, transport: Transport, options: SessionOptions) -> None:
        self._server = server
        self._capabilities: ServerCapabilities = server.capabilities()
        self._handshake = ServerHandshake(
            server._info,
            self._capabilities,
            versions=server._versions,
            instructions=server._instructions,
            methods=server.methods,
            **server._cache_hints,
        )
        self._answers = server._answers
        self._validator = JsonRpcValidator(server.profile)
        self._must_validate = not is_strict_enough(transport, server.profile)
        self._subscriptions = Subscriptions(self._capabilities)
        self._ends: dict[Stream, tuple[asyncio.Future[Any], Context]] = {}  # of the streams that are open
        self._log_level = DEFAULT_LOG_LEVEL
        self._lists: dict[str, None] = {}  # that have changed, and of which the client was not told yet
        self._uris: dict[str, None] = {}
        self._own: dict[str, Answering] = {"logging/setLevel": self._set_level, _LISTEN: self._listen}
        if self._capabilities.supports("resources.subscribe"):
            self._own |= {"resources/subscribe": self._subscribe, "resources/unsubscribe": self._unsubscribe}
        self._transport = transport
        self._session = _Session(self, transport, options)

    async def run(self) -> None:
        await self._session.start()
        try:
            await self._session.wait_closed()
        finally:
            self.end_streams()
            await self._session.close()

    # What comes.

    @property
    def takes_batches(self) -> bool:
        session = self._handshake.session
        return session is not None and session.revision.profile.batches

    def serve(self, request: SessionContext, params: Any) -> Any:
        """Takes a message: a request gives its result, or an awaitable of one."""
        if isinstance(params, Raw):
            params = params.decode()
        if request.is_notification:
            return self._take_notification(request, params)
        message = Request(request.id, request.method, params)
        if self._must_validate:
            _raise_fallback(self._validator.validate_request(message.to_dict()))
        rules = self._handshake.receive_request(message)
        if isinstance(rules, Answer):
            return rules.result
        answering = self._own.get(request.method) or self._answers.find(request.method, self._capabilities)
        inputs = Inputs(request.method, params or {}) if rules.revision.is_modern else None
        call = self._call if inputs is None else inputs.call
        context = Context(request, rules, params or {}, self.log, call, self._notify)
        if not inspect.iscoroutinefunction(answering):
            result = answering(params or {}, context)
            return result if asyncio.isfuture(result) else self._finished(request, result, rules)
        work = self._awaited(request, partial(answering, params or {}, context), rules, inputs)
        # The session takes a task for work that has begun, which needs no slot.
        return asyncio.ensure_future(work) if request.method in _LISTS else work

    def _take_notification(self, request: SessionContext, params: Any) -> Any:
        is_due = self._handshake.receive_notification(Notification(request.method, params))
        function = self._server.notifications.get(request.method)
        rules = self._handshake.session
        if function is None or rules is None or not is_due:
            return None
        params = params if isinstance(params, dict) else {}
        return call_method(function, params, Context(request, rules, params, self.log, self._call, self._notify))

    async def _awaited(
        self,
        request: SessionContext,
        answering: Callable[[], Awaitable[Any]],
        rules: RequestRules,
        inputs: Inputs | None,
    ) -> Any:
        try:
            # Called here and not before: what is cancelled before it begins must not leave a coroutine behind.
            result = await answering()
        except BaseException as error:
            if inputs is None or not inputs.are_missing or isinstance(error, _ENDS):
                raise
        if inputs is not None and inputs.are_missing:
            result = inputs.result()
        elif isinstance(result, dict) and result.get("resultType") == "input_required":
            check_input_required(request.method, result, rules)
        return self._finished(request, result, rules)

    def _finished(self, request: SessionContext, result: Any, rules: RequestRules) -> Any:
        """Complete a result. Raises the RpcError that is the answer instead if MCP does not allow the result."""
        if isinstance(result, dict):
            return self._handshake.complete(rules, request.method, result)
        _raise_fallback(self._validator.validate_response({"jsonrpc": "2.0", "id": request.id, "result": result}))
        return result

    # Requests that are the connection's own.

    def _set_level(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        level = params.get("level")
        if level not in LOG_LEVELS:
            raise RpcError(ErrorCode.INVALID_PARAMS, f"level must be one of {', '.join(LOG_LEVELS)}")
        self._log_level = level
        return {}

    def _subscribe(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        self._subscriptions.subscribe(check_uri(params.get("uri")))
        return {}

    def _unsubscribe(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        self._subscriptions.unsubscribe(check_uri(params.get("uri")))
        return {}

    def _listen(self, params: dict[str, Any], context: Context) -> asyncio.Future[Any]:
        """Opens a stream. The result comes when the server ends it; to the session a future needs no slot."""
        stream = self._subscriptions.open(context.request_id, params.get("notifications"))
        end = asyncio.get_running_loop().create_future()
        end.add_done_callback(partial(self._close_stream, stream))
        self._ends[stream] = end, context
        self._send([stream.acknowledgement()])
        return end

    def _close_stream(self, stream: Stream, end: asyncio.Future[Any]) -> None:
        self._subscriptions.close(stream)
        del self._ends[stream]

    def end_streams(self) -> None:
        """Ends all subscriptions, each with its answer."""
        for stream, (end, context) in self._ends.items():
            if not end.done():
                end.set_result(self._handshake.complete(context._rules, _LISTEN, {"_meta": stream.meta()}))

    # What goes out unasked.

    async def _call(
        self, method: str, params: Mapping[str, Any] | None, timeout: float | Unset | None, key: str | None
    ) -> dict[str, Any]:
        """Asks a legacy client, which has no use for a key."""
        params = None if params is None else dict(params)
        if not self._handshake.may_send(Request(0, method, params)):
            raise cannot_ask()
        result = await self._session.call(method, params, timeout=timeout)
        if isinstance(result, Raw):
            result = result.decode()
        if not isinstance(result, dict):  # the profile of the transport is not that of the protocol
            raise ValueError(f"the client's answer to {method} is wrong: it must be an object")
        return result

    async def _notify(self, method: str, params: dict[str, Any] | None) -> None:
        if not self._handshake.may_send(Notification(method, params)):
            raise cannot_ask()
        await self._session.notify(method, params)

    def list_changed(self, kind: str) -> None:
        self._tell_soon()
        self._lists[kind] = None

    def resource_updated(self, uri: str) -> None:
        if self._subscriptions.has(uri):
            self._tell_soon()
            self._uris[uri] = None

    def _tell_soon(self) -> None:
        if not self._lists and not self._uris:
            asyncio.get_running_loop().call_soon(self._tell_changes)

    def _tell_changes(self) -> None:
        if self._is_blocked:
            asyncio.get_running_loop().call_later(_BLOCKED_SECONDS, self._tell_changes)
            return
        (lists, self._lists), (uris, self._uris) = (self._lists, {}), (self._uris, {})
        for kind in lists:
            self._send(self._subscriptions.list_changed(kind, self._handshake.is_initialized))
        for uri in uris:
            self._send(self._subscriptions.resource_updated(uri, self._handshake.is_initialized))

    @property
    def _is_blocked(self) -> bool:
        """A client that reads nothing is told nothing more, for the time being."""
        return self._transport.write_buffer_bytes > _BLOCKED_BYTES

    def log(self, level: str, data: Any, logger: str | None, rules: RequestRules | None) -> None:
        """Sends a log message if the client wants it; `rules`: those of the request that it belongs to."""
        if level not in LOG_LEVELS:
            raise ValueError(f"level must be one of {', '.join(LOG_LEVELS)}")
        if rules is not None and rules.revision.is_modern:
            least = rules.log_level
        else:
            least = self._log_level if self._handshake.session is not None else None
        if least is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(least) or self._is_blocked:
            return
        params = {"level": level, "data": data}
        self._send([("notifications/message", params if logger is None else {**params, "logger": logger})])

    def _send(self, messages: Iterable[Message]) -> None:
        for method, params in messages:
            try:
                self._session.notify_soon(method, params)
            except (ConnectionLost, StateError):
                return


def _raise_fallback(report: Report) -> None:
    """Raises the error that is due instead of an invalid message. An invalid result is logged, too."""
    fallback = report.error_response()
    if isinstance(fallback, Response) and fallback.error is not None:
        raise RpcError(fallback.error.code, fallback.error.message)
