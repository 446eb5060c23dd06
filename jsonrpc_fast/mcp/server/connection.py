"""One connection of an MCP server: its session, its requests, its notifications.

Rules:
  - Each request and notification goes through the handshake first, in the order of arrival.
  - Requests are checked again only if the transport's profile is looser than the server's. Results are checked before
    they are sent: an invalid result becomes error -32603 and is logged.
  - A call of a tool without a context does not need the session: over HTTP it is served in the task of its request.
  - A client that does not read gets no notifications of changes until it reads again, then one for each change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, cast

from ...codec import Raw, Request, Response
from ...errors import RpcError
from ...handlers import is_awaitable, with_middleware
from ...profile import Profile
from ...session import Run, SessionContext, SessionOptions
from ...support import check_type
from ...transports import Transport, is_strict_enough
from ..protocol.capabilities import ServerCapabilities
from ..protocol.meta import (
    LIST_CHANGES,
    LIST_METHODS,
    LISTEN_METHOD,
    LOG_LEVELS,
    TASKS_CAPABILITY,
    UNKNOWN_LEVEL,
    UPDATED,
    FeatureKind,
)
from ..protocol.uris import check_uri
from .context import Context, open_inputs, opened_inputs
from .functions import RegisteredFunction
from .handshake import RequestRules, ServerHandshake
from .inputs import Inputs, check_input_required
from .methods import CAPABILITIES, Method, Methods, call_method, run_within
from .session import FrontSession
from .subscriptions import TASK_IDS
from .tasks import Task

if TYPE_CHECKING:
    from ...validator import JsonRpcValidator, Report

_WITHOUT_SLOT: Final = frozenset({*LIST_METHODS, LISTEN_METHOD})
"""Methods that may wait for providers (the lists), or for the end of a subscription."""

_TASK_EXITS: Final = (KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit)  # these end the task itself


class ServerConnection(FrontSession):
    """The connection to one client.

    Args:
        handshake: The server's side of the handshake.
        capabilities: What the server declares to this client.
        methods: The methods that all connections share.
        notifications: Functions by notification.
        profile: The rules for the client's messages.
        transport: A transport that is not started.
        options: Options of `Session`.
    """

    def __init__(
        self,
        handshake: ServerHandshake,
        capabilities: ServerCapabilities,
        methods: Methods,
        notifications: Mapping[str, RegisteredFunction],
        profile: Profile,
        transport: Transport,
        options: SessionOptions,
    ) -> None:
        super().__init__(handshake, capabilities, transport, options)
        self._methods = methods
        self._declared = frozenset(name for name in CAPABILITIES if capabilities.supports(name))
        self._notifications = notifications
        # Always for results, and for requests if the rules of the transport are looser.
        self._profile = profile
        self._must_validate = not is_strict_enough(transport, profile)
        self._has_state = False
        self._subscribes = capabilities.supports("resources.subscribe")

    def _own_method(self, name: str) -> Method | None:
        """Return a method that belongs to the connection, not to the functions of the server."""
        own = _OWN_METHODS.get(name)
        if own is None or (name.startswith("resources/") and not self._subscribes):
            return None
        return cast("Method", partial(own, self))

    def can_serve(self, request: Request | None = None) -> bool:
        """Return whether it can serve a request of another client: it is open, and has no state of earlier clients."""
        return not self._has_state and self._handshake.session is None and self.is_idle

    def serve(self, params: Any, request: SessionContext) -> Any:
        """Serve a request or a notification. Return the result or an awaitable of it."""
        if type(params) is Raw:
            params = params.decode()
        if request.is_notification:
            return self._on_notification(request, params)
        name = request.method
        if self._must_validate:
            _raise_error(_validator_of(self._profile).validate_request(Request(request.id, name, params).to_dict()))
        rules = self._handshake.receive_request(name, params)
        if isinstance(rules, dict):
            return rules
        members = params if type(params) is dict else {}
        context = Context(request, rules, members, self._methods.shared)
        # Checked first: an altered state is refused before the function runs, even if the function asks for no input.
        if rules.revision.is_modern and ("inputResponses" in members or "requestState" in members):
            open_inputs(context)
        method = self._own_method(name)
        is_async = False
        if method is None:
            method, is_async = self._methods.find(name, members, self._declared)
        else:
            # A level or a subscription belongs to this client: the connection cannot serve another one.
            self._has_state = True
            is_async = name == LISTEN_METHOD
        # Inside middleware, which is async, a sync method needs no slot either.
        needs_slot = (is_async or name == "tools/call") and name not in _WITHOUT_SLOT
        if self._methods.middleware:
            invoke = with_middleware(self._call_method, self._methods.middleware)
            method, is_async = partial(run_within, invoke), True
        if is_async:
            work = self._run_async(partial(method, members, context), context)
            # For the session this is a task that has already started, so it needs no slot.
            return work if needs_slot else asyncio.ensure_future(work)
        result = method(members, context)
        if type(result) is dict:
            return self._complete(result, context)
        return self._run_async(lambda: result, context)

    def serve_at_once(self, message: Request, subject: object) -> bytes | Run | None:
        params, name = message.params, message.method
        if type(params) is not dict or name != "tools/call" or self._methods.middleware or self._must_validate:
            return None
        tool = self._methods.own_tool(params, self._declared)
        # A context may send messages, which need the registered request and its destination.
        if tool is None or tool.function.takes_context or "inputResponses" in params or "requestState" in params:
            return None
        try:
            rules = self._handshake.receive_request(name, params)
        except RpcError:
            return None  # raised again on the ordinary path
        assert isinstance(rules, RequestRules)
        revision, require = rules.revision, rules.require

        def complete(result: dict[str, Any]) -> dict[str, Any]:
            if result.get("resultType") == "input_required":
                check_input_required(name, result, revision, require)
                result = Inputs(name, params, self._methods.shared.seal, subject).result(result)
            return self._handshake.complete(revision, name, result)

        def call() -> Any:
            result = self._methods.run_tool(tool, params, None, message.id, revision, complete)
            return complete(result) if type(result) is dict else result

        return self._engine.serve_at_once(message, call)

    def _on_notification(self, request: SessionContext, params: Any) -> Any:
        # First, even if no function is registered: `notifications/initialized` opens the session.
        is_due = self._handshake.receive_notification(request.method)
        function = self._notifications.get(request.method)
        rules = self._handshake.session
        if function is None or rules is None or not is_due:
            return None
        members = params if isinstance(params, dict) else {}
        handle = with_middleware(self._call_notification, self._methods.middleware)
        return handle(members, Context(request, rules, members, self._methods.shared))

    def _call_method(self, params: dict[str, Any], context: Context) -> Any:
        """Serve a request inside the middleware, which may have changed the params."""
        check_type("the params that a middleware passes on", params, dict)
        # Looked up again, because a middleware may have passed on another name.
        method = self._own_method(context.method)
        if method is None:
            method, _ = self._methods.find(context.method, params, self._declared)
        return method(params, context)

    def _call_notification(self, params: dict[str, Any], context: Context) -> Any:
        return call_method(self._notifications[context.method], params, context)

    async def _run_async(self, method: Callable[[], Any], context: Context) -> Any:
        try:
            # Called here, not earlier: if this is cancelled before it starts, no coroutine is left unawaited.
            result = method()
            if type(result) is CoroutineType or is_awaitable(result):
                result = await result
        # Any exception: a run that stopped for input may raise `InputRequired`, an exception group of a TaskGroup, or
        # another exception that the function raised because of it.
        except BaseException as error:
            inputs = opened_inputs(context)
            if inputs is None or not inputs.are_missing or isinstance(error, _TASK_EXITS):
                raise
            result = {}  # `_complete` replaces it
        return self._complete(result, context)

    def _complete(self, result: Any, context: Context) -> Any:
        """Complete a result for its revision. If it is invalid, raise the RpcError for the client."""
        if not isinstance(result, dict):
            _raise_error(
                _validator_of(self._profile).validate_response(
                    {"jsonrpc": "2.0", "id": context.request_id, "result": result}
                )
            )
            return result
        inputs, revision, method = opened_inputs(context), context.revision, context.method
        if inputs is not None and inputs.are_missing and revision.is_modern:
            result = inputs.result()
        elif result.get("resultType") == "input_required":
            check_input_required(method, result, revision, context.require)
            result = open_inputs(context).result(result)
        return self._handshake.complete(revision, method, result)

    def _set_level(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        level: Any = params.get("level")
        if level not in LOG_LEVELS:
            raise RpcError.invalid_params(UNKNOWN_LEVEL)
        self.log_level = level
        return {}

    def _subscribe(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        self._subscriptions.subscribe(check_uri(params.get("uri")))
        return {}

    def _unsubscribe(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        self._subscriptions.unsubscribe(check_uri(params.get("uri")))
        return {}

    async def _listen(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        """Serve a subscription until it is cancelled or the server ends it."""
        filter = params.get("notifications")
        # Before the stream is opened: a refused request must not occupy one of the streams.
        if isinstance(filter, dict) and filter.get(TASK_IDS):
            context.require(TASKS_CAPABILITY)
        stream = self._subscriptions.open(context.request_id, filter, context.destination)
        try:
            if TASK_IDS in stream.filter:
                # Tasks of other clients are left out without an error, as if they did not exist.
                stream.filter[TASK_IDS] = self._methods.tasks.owned(stream.filter[TASK_IDS], context)
            self.push([stream.acknowledgement()], stream.destination)
            await stream.ended.wait()
        finally:
            self._subscriptions.close(stream)
        return {"_meta": stream.meta()}

    # Changes.

    def list_changed(self, kind: FeatureKind) -> None:
        """Notify the client soon that a list has changed."""
        # Sent later, and once: registering many tools in a row is one change for the client.
        self.add_change(LIST_CHANGES[kind].method, kind)

    def resource_updated(self, uri: str) -> None:
        """Notify the client soon that a resource has changed, if it subscribed to it."""
        if self._subscriptions.has(uri):
            self.add_change(UPDATED, uri)

    def task_changed(self, task: Task) -> None:
        """Notify the client that a task has changed, if it subscribed to the task and reads."""
        if not self.is_blocked:
            for stream, notification in self._subscriptions.task_changed(task.id, task.details):
                self.push([notification], stream.destination)


def _raise_error(report: Report) -> None:
    """Raise the error response for an invalid message, if the message is invalid. An invalid result is logged, too."""
    response = report.error_response()
    if isinstance(response, Response) and response.error is not None:
        raise RpcError(response.error.code, response.error.message)


_OWN_METHODS: Final[dict[str, Callable[[ServerConnection, dict[str, Any], Context], Any]]] = {
    "logging/setLevel": ServerConnection._set_level,
    LISTEN_METHOD: ServerConnection._listen,
    "resources/subscribe": ServerConnection._subscribe,
    "resources/unsubscribe": ServerConnection._unsubscribe,
}


@lru_cache(maxsize=8)
def _validator_of(profile: Profile) -> JsonRpcValidator:
    from ...validator import JsonRpcValidator  # loaded for the first message that may break a rule

    return JsonRpcValidator(profile)
