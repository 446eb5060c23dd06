"""One connection of a server: its session, and the requests in it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from ...codec import Notification, Request, Response
from ...codec._payloads import decoded
from ...codes import ErrorCode
from ...errors import ConnectionLost, RpcError, StateError
from ...profile import Profile
from ...session import SessionOptions
from ...session.context import SessionContext
from ...transports.protocol import Transport, is_strict_enough
from ...types import Unset
from ...validator import JsonRpcValidator, Report
from ..protocol.capabilities import ServerCapabilities
from ..protocol.meta import LISTEN_METHOD, LOG_LEVELS, HandshakeReply
from ..protocol.uris import check_uri
from ..protocol.versions import Revision
from ..session import McpSession
from .context import Context
from .functions import ServingFunction
from .handshake import RequestRules, ServerHandshake
from .inputs import Inputs, cannot_ask, check_input_required
from .methods import Method, Methods, call_method
from .subscriptions import Message, Stream, Subscriptions

DEFAULT_LOG_LEVEL: Final = "info"
"""What a legacy client gets that has set no level."""


_BLOCKED_BYTES: Final = 1024 * 1024


_BLOCKED_SECONDS: Final = 0.5


_LISTS: Final = frozenset({"prompts/list", "resources/list"})
"""What is awaited for the sources."""


_ENDS: Final = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)  # of a task, whatever it served


class _ServerSession(McpSession):
    """A session that ends the subscriptions first when the client ends its stream."""

    def __init__(self, connection: ServerConnection, transport: Transport, options: SessionOptions) -> None:
        super().__init__(transport, connection.serve, options)
        self._connection = connection

    @property
    def revision(self) -> Revision | None:
        return self._connection.revision

    def _on_end(self) -> None:
        self._connection.end_streams()
        super()._on_end()


class ServerConnection:
    """One client of a server."""

    def __init__(
        self,
        handshake: ServerHandshake,
        capabilities: ServerCapabilities,
        answers: Methods,
        notifications: Mapping[str, ServingFunction],
        profile: Profile,
        transport: Transport,
        options: SessionOptions,
    ) -> None:
        self._handshake = handshake
        self._capabilities = capabilities
        self._answers = answers
        self._notifications = notifications
        self._validator = JsonRpcValidator(profile)
        self._must_validate = not is_strict_enough(transport, profile)
        self._subscriptions = Subscriptions(self._capabilities)
        self._ends: dict[Stream, tuple[asyncio.Future[Any], Context]] = {}  # of the streams that are open
        self._log_level = DEFAULT_LOG_LEVEL
        self._lists: dict[str, None] = {}  # that have changed, and of which the client was not told yet
        self._uris: dict[str, None] = {}
        self._own: dict[str, Method] = {"logging/setLevel": self._set_level, LISTEN_METHOD: self._listen}
        if self._capabilities.supports("resources.subscribe"):
            self._own |= {"resources/subscribe": self._subscribe, "resources/unsubscribe": self._unsubscribe}
        self._transport = transport
        self._session = _ServerSession(self, transport, options)

    async def run(self) -> None:
        await self._session.start()
        try:
            await self._session.wait_closed()
        finally:
            self.end_streams()
            await self._session.close()

    # What comes.

    @property
    def revision(self) -> Revision | None:
        """The revision that `initialize` agreed on; None without it."""
        session = self._handshake.session
        return None if session is None else session.revision

    def serve(self, request: SessionContext, params: Any) -> Any:
        """Takes a message: a request gives its result, or an awaitable of one."""
        params = decoded(params)
        if request.is_notification:
            return self._take_notification(request, params)
        message = Request(request.id, request.method, params)
        if self._must_validate:
            _raise_fallback(self._validator.validate_request(message.to_dict()))
        rules = self._handshake.receive_request(message)
        if isinstance(rules, HandshakeReply):
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
        function = self._notifications.get(request.method)
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
                end.set_result(self._handshake.complete(context._rules, LISTEN_METHOD, {"_meta": stream.meta()}))

    # What goes out unasked.

    async def _call(
        self, method: str, params: Mapping[str, Any] | None, timeout: float | Unset | None, key: str | None
    ) -> dict[str, Any]:
        """Asks a legacy client, which has no use for a key."""
        params = None if params is None else dict(params)
        if not self._handshake.may_send(Request(0, method, params)):
            raise cannot_ask()
        result = decoded(await self._session.call(method, params, timeout=timeout))
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
