"""The context of a registered function: the request it serves, and messages to the client."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

from ...handlers import to_json
from ...session import Destination
from ...support import check_count, check_number
from ...types import UNSET, MessageId, Unset
from ..protocol.capabilities import ClientCapabilities, Implementation
from ..protocol.versions import REVISIONS, Revision
from .contents import sampling_messages
from .forms import Action, Elicited, action_of, form_of
from .handshake import RequestRules
from .inputs import Inputs, StateSeal, capability_for
from .lifespan import Lifespan
from .session import FrontSession, HttpExchange, HttpRequest, Request, is_logged, log_message
from .tasks import Task

T = TypeVar("T")

_SENT_OTHERWISE: Final = frozenset().union(*[each.server_notifications for each in REVISIONS.values()]) - {
    "notifications/elicitation/complete",
    "notifications/tasks/status",
}


class ContextServer(NamedTuple):
    """The part of a server that its functions reach through their context.

    Attributes:
        seal: Makes and opens the `requestState` of modern clients.
    """

    seal: StateSeal
    lifespan: Lifespan
    read: Callable[[str, Context], Awaitable[dict[str, Any]]]


class Context:
    """The request or notification that a registered function serves.

    A function gets it as the parameter that is annotated with this class:

        @server.tool
        async def search(query: str, context: Context) -> list[str]:
            context.report_progress(0, total=100)
            ...

    Attributes:
        method: The method of the request or notification.
        revision: The protocol revision of the request.
    """

    __slots__ = (
        "_inputs",
        "_params",
        "_request",
        "_rules",
        "_server",
        "_start",
        "_state",
        "_task",
        "method",
        "revision",
    )

    def __init__(self, request: Request, rules: RequestRules, params: Mapping[str, Any], server: ContextServer) -> None:
        self._request = request
        self._rules = rules
        self.method: str = request.method
        self.revision: Revision = rules.revision
        self._params = params
        self._server = server
        self._inputs: Inputs | None = None
        self._state: dict[str, Any] | None = None
        self._start: Callable[[], Task] | None = None  # if the function may run as a task
        self._task: Task | None = None  # once it does

    @property
    def _http_request(self) -> HttpRequest | None:
        exchange = cast("HttpExchange | None", self._request.destination)
        return None if exchange is None else exchange.request

    @property
    def client(self) -> FrontSession | HttpExchange:
        """The way to the client: its session, or the HTTP request if there is no session."""
        found: FrontSession | HttpExchange | None = self._request.session
        return self._request.destination if found is None else found

    @property
    def destination(self) -> Destination | None:
        """The place for the messages that belong to the request; None: the stream of the connection."""
        found: Destination | None = self._request.destination
        return found

    @property
    def request_id(self) -> MessageId:
        """The id of the request; None for a notification."""
        return self._request.id

    @property
    def params(self) -> Mapping[str, Any]:
        """The params as the client sent them, including `_meta`, `inputResponses` and `requestState`.

        They are not checked, with one exception: in 2026-07-28, `inputResponses`, if present, is an object of objects,
        and `requestState`, if present, was issued by this server for this request.
        """
        return self._params

    @property
    def state(self) -> dict[str, Any]:
        """The function's own values, by name, which the next run finds after a `call` that stopped this one.

            if "price" not in context.state:
                context.state["price"] = await quote(item)
            answer = await context.elicit(f"Buy for {context.state['price']}?", Confirmation)

        Up to 2025-11-25 a function runs once, and gets an empty dict. In 2026-07-28 the client carries the values from
        round to round. It cannot alter them, or use them for another call; unless `Server(state_key=…)` is a cipher, it
        can read them. The next run finds them as JSON has them: a tuple as a list, a dataclass as a dict.
        """
        if self._state is None:
            self._state = open_inputs(self).state if self.revision.is_modern else {}
        return self._state

    @property
    def meta(self) -> Mapping[str, Any]:
        """`_meta` of the request, {} without one. Members that the protocol does not define are not checked."""
        # A client may send anything there: legacy requests are not checked.
        meta = self._params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def peer(self) -> Any:
        """The sender of the request as the transport knows it, such as the address of a client; None if unknown."""
        return self._request.peer

    @property
    def lifespan(self) -> Any:
        """The value that the lifespan of the server yielded; None without a lifespan."""
        return self._server.lifespan.value

    @property
    def client_info(self) -> Implementation | None:
        """Name and version of the client, or None. They are not verified."""
        return self._rules.client_info

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """The capabilities of the client."""
        return self._rules.client_capabilities

    @property
    def claims(self) -> Any:
        """The result of the check of this request's bearer token; None without authorization.

        See `jsonrpc_fast.mcp.http.authorization`.
        """
        return None if self._http_request is None else self._http_request.claims

    @property
    def subject(self) -> object:
        """The subject that the bearer token identifies, as in `Authorization`; None without authorization."""
        return None if self._http_request is None else self._http_request.subject

    @property
    def http_scope(self) -> Mapping[str, Any] | None:
        """The scope of the HTTP request, as ASGI defines it: headers, client, path. None on other transports."""
        return None if self._http_request is None else self._http_request.scope

    @property
    def is_cancelled(self) -> bool:
        """Whether the client has cancelled the request, or its task. An async function is cancelled, too."""
        return self._request.is_cancelled if self._task is None else self._task.status == "cancelled"

    @property
    def session(self) -> Any:
        """The session of the request; None for a request of 2026-07-28 over HTTP, which has none."""
        return self._request.session

    async def start_task(self) -> None:
        """Continue the call of a tool as a task: the client gets a response now, the result on request.

        Only for tools with `task_start="function"`. Requests before it belong to the call, later ones to the task.
        This does nothing if the client does not know tasks, or if the call already runs as one.

        Raises:
            RpcError: There are too many tasks (-32000).
        """
        if self._start is not None:
            start, self._start = self._start, None
            self._task = start()

    def require(self, capability: str) -> None:
        """Check that the client has a capability.

        Args:
            capability: Its name as in `Capabilities.supports`, such as "elicitation.url".

        Raises:
            RpcError: The client lacks it (-32021; -32600 before 2026-07-28).
        """
        self._rules.require(capability)

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | Unset | None = UNSET,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Send a request to the client: "roots/list", "sampling/createMessage" or "elicitation/create".

            result = await context.call("elicitation/create", {"message": "Sure?", "requestedSchema": {…}})

        Up to 2025-11-25 the session sends the request, and cancels it if the client cancels the one being served.

        In 2026-07-28 the function stops here if the client has not sent the result yet. It runs again from the start
        once the client has sent it. So everything before the last `call` must be repeatable, and must make the same
        requests with the same params; keep values that must not change, such as a price or a random value, in `state`.
        Concurrent requests, as with `asyncio.gather`, take one round; clients allow about ten.

        Args:
            method: The method of the request.
            params: The params of the request.
            timeout: Seconds to wait for the result; None: no limit. By default the session's timeout. Ignored in
                2026-07-28.
            key: The name of the request in `inputRequests`, if it matters to the client (2026-07-28). Each request of a
                function needs a name of its own. A client that knows the name may respond before it is asked.

        Returns:
            The client's result, not validated.

        Raises:
            RpcError: The client responds with an error, lacks the capability (see `require`), or cannot receive this
                request (-32600).
            CallTimeout: The client did not respond in time. Not in 2026-07-28.
            ConnectionLost: The connection closed before the response. Not in 2026-07-28.
        """
        # The specification forbids requests for which the client has not declared the capability.
        if (capability := capability_for(method, params)) is not None:
            self.require(capability)
        if self._task is not None:
            return await self._task.ask(method, params, key)
        if self.revision.is_modern:
            return await open_inputs(self).ask(method, params, key)
        return await cast("FrontSession", self.client).ask_client(method, params, timeout, self.destination)

    async def elicit(
        self,
        message: str,
        form: type[T] | Mapping[str, Any],
        *,
        timeout: float | Unset | None = UNSET,
        key: str | None = None,
    ) -> Elicited[T]:
        """Ask the user to fill in a form.

            @dataclass
            class Booking:
                seats: Annotated[int, msgspec.Meta(ge=1)]
                meal: Literal["fish", "pasta"] = "pasta"

            answer = await context.elicit("How many?", Booking)
            if answer.content is not None:
                book(answer.content.seats)

        Do not ask for passwords or keys: use `elicit_url`.

        Args:
            message: The question for the user.
            form: A dataclass, TypedDict, msgspec Struct or pydantic model whose fields are strings, numbers, booleans,
                enums of strings, or lists of such enums; or a JSON Schema of such an object.
            timeout, key: As in `call`.

        Returns:
            The user's action, and the input.

        Raises:
            TypeError: The form is not supported.
            ValueError: The response does not match the form. The text does not show the user's input.
            RpcError, CallTimeout, ConnectionLost: As in `call`.
        """
        made = form_of(form)
        params = {"message": message, "requestedSchema": made.schema}
        result = await self.call("elicitation/create", params, timeout=timeout, key=key)
        action = action_of(result)
        return Elicited(action, made.read(result.get("content")) if action == "accept" else None)

    async def elicit_url(
        self,
        message: str,
        url: str,
        *,
        elicitation_id: str | None = None,
        timeout: float | Unset | None = UNSET,
        key: str | None = None,
    ) -> Action:
        """Ask the user to open a URL, such as a page to log in. The client does not see what the user enters.

        Up to 2025-11-25 the server can notify the client when the user has finished: `await
        context.notify("notifications/elicitation/complete", {"elicitationId": id})`.

        Args:
            message: Why the user should open it.
            url: The URL.
            elicitation_id: A unique id; by default a random one, up to 2025-11-25.
            timeout, key: As in `call`.

        Returns:
            What the user did. "accept" means that the user opened the URL.

        Raises:
            ValueError: The response is invalid.
            RpcError, CallTimeout, ConnectionLost: As in `call`.
        """
        params = {"mode": "url", "message": message, "url": url}
        # In 2026-07-28 the same request must be made in each round, and a random id would make it a different one.
        if elicitation_id is None and not self.revision.is_modern:
            elicitation_id = uuid.uuid4().hex
        if elicitation_id is not None:
            params["elicitationId"] = elicitation_id
        return action_of(await self.call("elicitation/create", params, timeout=timeout, key=key))

    async def sample(
        self,
        messages: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
        *,
        max_tokens: int,
        timeout: float | Unset | None = UNSET,
        key: str | None = None,
        **params: Any,
    ) -> dict[str, Any]:
        """Ask the model of the client.

            result = await context.sample("Summarize: …", max_tokens=200, systemPrompt="Be brief.")
            text = result["content"]["text"]

        Args:
            messages: A text of the user; a message such as a `UserMessage`; or a list of these.
            max_tokens: Maximum number of tokens of the model's text.
            timeout, key: As in `call`.
            params: Other params, by their names in the protocol: `systemPrompt`, `temperature`, `stopSequences`,
                `modelPreferences`, `includeContext`, `metadata`, `tools`, `toolChoice`.

        Returns:
            The `CreateMessageResult`, not validated.

        Raises:
            TypeError: A message is invalid, or `max_tokens` is not an int.
            ValueError: `max_tokens` is less than 1.
            RpcError, CallTimeout, ConnectionLost: As in `call`.
        """
        check_count("max_tokens", max_tokens, 1, may_be_none=False)
        # A str or a mapping is itself iterable: a text would become its characters.
        listed = [messages] if isinstance(messages, (str, Mapping)) else list(messages)
        request = {"messages": sampling_messages(listed), "maxTokens": max_tokens, **to_json(params)}
        return await self.call("sampling/createMessage", request, timeout=timeout, key=key)

    async def list_roots(self, *, timeout: float | Unset | None = UNSET) -> list[dict[str, Any]]:
        """Return the roots of the client: the folders that it shares, as dicts with `uri` and perhaps `name`.

        Args:
            timeout: As in `call`.

        Raises:
            ValueError: The response is invalid.
            RpcError, CallTimeout, ConnectionLost: As in `call`.
        """
        roots = (await self.call("roots/list", timeout=timeout)).get("roots")
        if not isinstance(roots, list) or not all(isinstance(root, dict) for root in roots):
            raise ValueError("the client's response to roots/list is invalid: /roots must be an array of objects")
        return roots

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop, and return its result. For functions that run in a thread.

            @server.tool(thread=True)
            def book(context: Context) -> str:
                answer = context.wait(context.elicit("How many?", Booking))

        Raises:
            RuntimeError: The function runs on the event loop: it must be async and use `await`.
            Exception: Whatever the coroutine raises.
        """
        coroutine.close()
        raise RuntimeError("wait is for functions that run in a thread: use await")

    async def read_resource(self, uri: str) -> list[dict[str, Any]]:
        """Read a resource of this server, as a client would.

        Args:
            uri: The URI of the resource.

        Returns:
            Its contents: dicts with `uri` and `text` or `blob` (base64).

        Raises:
            RpcError: The resource is unknown, or its function raised this error.
            Exception: Whatever the function of the resource raises.
        """
        contents: list[dict[str, Any]] = (await self._server.read(uri, self)).get("contents", [])
        return contents

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification of an extension or of tasks to the client.

            await context.notify("notifications/tasks/status", {"taskId": id, "status": "completed"})

        It waits while the client does not read. The context works after the response, too.

        Args:
            method: The method of the notification. Changes, progress and log messages have methods of their own:
                `Server.list_changed`, `Server.resource_updated`, `report_progress`, `log`.
            params: The params, an object in JSON.

        Raises:
            ValueError: The package sends this notification itself.
            EncodeError: The params cannot be written as JSON.
            RpcError: The client cannot receive notifications yet (-32600, before `notifications/initialized`).
            ConnectionLost, StateError: The connection is closed.
        """
        # The server decides who gets these and when. An additional one would break their order, or a subscription.
        if method in _SENT_OTHERWISE:
            raise ValueError(f"notify cannot send {method}: the server sends it itself")
        members = None if params is None else to_json(dict(params))
        await self.client.tell_client(method, members, self.destination)

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> bool:
        """Report progress on the request to the client.

        Args:
            progress: The progress so far. It must increase with each report.
            total: The progress at the end, if known.
            message: A text for people (2025-03-26 and later).

        Returns:
            Whether it was sent: not if the client did not ask for progress, or reads nothing at the moment. A task
            sends none: its status has the text.

        Raises:
            TypeError, ValueError: `progress` or `total` is not a finite number.
        """
        check_number("progress", progress, may_be_none=False)
        check_number("total", total)
        return self._report_progress(progress, total, message)

    def _report_progress(self, progress: float, total: float | None, message: str | None) -> bool:
        if self._task is not None:
            if message is not None:
                self._task.change(self._task.status, message)
            return False
        value: dict[str, Any] = {"progress": progress}
        if total is not None:
            value["total"] = total
        if message is not None:
            value["message"] = message
        return self._request.report_progress(value)

    def close_stream(self) -> bool:
        """Close the HTTP connection that waits for the response, so that a long call does not hold a connection.

        The client reconnects and gets the messages sent meanwhile, including the response. It needs an event store, and
        a client of 2025-11-25.

        Returns:
            Whether the connection is closed. If not, the call continues on it.
        """
        exchange = cast("HttpExchange | None", self._request.destination)
        return exchange is not None and exchange.close_stream()

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a log message to the client, if it wants this level. Tasks send none.

        Args:
            level: One of `LOG_LEVELS`, from "debug" to "emergency".
            data: Any JSON value.
            logger: The name of the logger.

        Raises:
            ValueError: The level is unknown.
        """
        # A modern request says itself which level it wants.
        minimum = self._rules.log_level if self.revision.is_modern else cast("FrontSession", self.client).log_level
        # The way to the client is made only for a message that is sent.
        if is_logged(level, minimum) and self._task is None and not self.client.is_blocked:
            self.client.push([log_message(level, data, logger)], self.destination)

    def debug(self, data: Any, logger: str | None = None) -> None:
        """Send a log message of this level: see `log`."""
        self.log("debug", data, logger)

    def info(self, data: Any, logger: str | None = None) -> None:
        """Send a log message of this level: see `log`."""
        self.log("info", data, logger)

    def warning(self, data: Any, logger: str | None = None) -> None:
        """Send a log message of this level: see `log`."""
        self.log("warning", data, logger)

    def error(self, data: Any, logger: str | None = None) -> None:
        """Send a log message of this level: see `log`."""
        self.log("error", data, logger)


def open_inputs(context: Context) -> Inputs:
    """Return the input of a modern request, which is read when it is first needed.

    Raises RpcError: `inputResponses` or `requestState` is invalid (-32602).
    """
    if context._inputs is None:
        request = context._request
        context._inputs = Inputs(request.method, context._params, context._server.seal, context.subject)
    return context._inputs


def opened_inputs(context: Context) -> Inputs | None:
    """Return the input of a request; None if it was not needed."""
    return context._inputs


def allow_task(context: Context, start: Callable[[], Task]) -> None:
    """Let the function run as a task: `Context.start_task` calls `start`, which returns the task."""
    context._start = start


def mounted(context: Context, method: str, server: ContextServer) -> Context:
    """Return the context of a request that a server serves for another one, which it is mounted at.

    Its requests and notifications to the client go through the other server.
    """
    inner = Context(context._request, context._rules, context._params, server)
    _share(inner, context)
    inner.method = method
    return inner


def begin_as(copy: Context, context: Context) -> None:
    """Begin a context of a subclass that serves the same request as another one, with the same input."""
    Context.__init__(copy, context._request, context._rules, context._params, context._server)
    _share(copy, context)
    copy.method = context.method


def _share(copy: Context, context: Context) -> None:
    # Opened first, so that both contexts share the questions and the state of the function.
    if context.revision.is_modern:
        open_inputs(context)
    copy._inputs, copy._state = context._inputs, context._state
    copy._start, copy._task = context._start, context._task
