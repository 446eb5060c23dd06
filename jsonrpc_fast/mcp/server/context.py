"""What a serving function may want to know of the request that it serves, and may say meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ...session.context import SessionContext
from ...types import UNSET, MessageId, Unset
from ..protocol.capabilities import ClientCapabilities, Implementation
from ..protocol.versions import REVISIONS, Revision
from .handshake import RequestRules
from .inputs import capability_for
from .values import to_json

_BY_HAND: Final = frozenset({"notifications/elicitation/complete", "notifications/tasks/status"})
_BY_ITSELF: Final = frozenset().union(*[revision.server_notifications for revision in REVISIONS.values()]) - _BY_HAND
"""What a server tells in another way than by `Context.notify`."""


class Log(Protocol):
    """Sends a log message, if the client wants it. `rules` are those of the request that it belongs to, if any."""

    def __call__(self, level: str, data: Any, logger: str | None, rules: RequestRules | None) -> None: ...


class Call(Protocol):
    """Asks the client. `timeout` in seconds; None: for ever; the session's own if UNSET."""

    async def __call__(
        self, method: str, params: Mapping[str, Any] | None, timeout: float | Unset | None, key: str | None
    ) -> dict[str, Any]: ...


class Notify(Protocol):
    """Tells the client something, as soon as there is room."""

    async def __call__(self, method: str, params: dict[str, Any] | None) -> None: ...


@dataclass(frozen=True, slots=True)
class WholeResult:
    """What a tool, a prompt or a resource returns to answer its request with these very members.

        return WholeResult({"resultType": "task", "taskId": id, …})       # of an extension that the client declares
        return WholeResult({"resultType": "input_required", "inputRequests": {"login": {…}}, "requestState": state})

    A client may send any `requestState`: sign what must not be altered, and look for who sent it.

    Args:
        members: The result as JSON has it. `resultType` is "complete" if it is absent, and left out before 2026-07-28.
    """

    members: Mapping[str, Any]


class Context:
    """The request, or the notification, that a function is called for.

    A function gets it by a parameter that is annotated with this class.
    """

    __slots__ = ("_call", "_log", "_notify", "_params", "_request", "_rules")

    def __init__(
        self,
        request: SessionContext,
        rules: RequestRules,
        params: Mapping[str, Any],
        log: Log,
        call: Call,
        notify: Notify,
    ) -> None:
        self._request = request
        self._rules = rules
        self._params = params
        self._log = log
        self._call = call
        self._notify = notify

    @property
    def request_id(self) -> MessageId:
        """The id of the request; None for a notification."""
        return self._request.id

    @property
    def params(self) -> Mapping[str, Any]:
        """The params as the client sent them, with `_meta`, `task`, `inputResponses` and `requestState`.

        In 2026-07-28 `inputResponses` is an object of objects, and `requestState` a string, if they are there. Nothing
        else is checked.
        """
        return self._params

    @property
    def revision(self) -> Revision:
        """The protocol's revision that the request is of."""
        return self._rules.revision

    @property
    def client_info(self) -> Implementation | None:
        """Who the client says it is, if it does."""
        return self._rules.client_info

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """What the client can do."""
        return self._rules.client_capabilities

    @property
    def is_cancelled(self) -> bool:
        """The client has no use for the answer any more. An async function is cancelled as well."""
        return self._request.is_cancelled

    def require(self, capability: str) -> None:
        """Raises the RpcError for a client that lacks a capability, named as in `Capabilities.supports`."""
        self._rules.require(capability)

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | Unset | None = UNSET,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Asks the client: "roots/list", "sampling/createMessage", "elicitation/create".

            answer = await context.call("elicitation/create", {"message": "Sure?", "requestedSchema": {…}})

        Up to 2025-11-25 this is a request, which is cancelled when the one that is served is.

        In 2026-07-28 the function ends here when there is no answer yet, and runs again from its start when the client
        has sent it: see `inputs.py`. So what comes before the last `call` has to bear being done again, and has to ask
        for the same things with the same params. What is asked for at the same time, as with `asyncio.gather`, takes
        one round; a client bears about ten. A client that cannot answer fails by itself.

        Args:
            method: What to ask for.
            params: Its params.
            timeout: Seconds; None: for ever; the session's own if not given. Without effect in 2026-07-28.
            key: What the request is called in `inputRequests`, where that matters to the client (2026-07-28). Each
                request of a function has another one.

        Returns:
            The client's result, unchecked.

        Raises:
            RpcError: The client answers with it, lacks the capability (see `require`), or cannot be asked (-32600).
            CallTimeout, ConnectionLost: There is no answer. Not in 2026-07-28.
        """
        if (capability := capability_for(method, params)) is not None:
            self.require(capability)
        return await self._call(method, params, timeout, key)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Tells the client something that this package does not tell itself: of an extension, or of tasks.

            await context.notify("notifications/tasks/status", {"taskId": id, "status": "completed"})

        It waits while the client reads nothing. The context may be kept, and used after the request was answered.

        Args:
            method: The notification. Those of lists, resources, progress and log messages have ways of their own.
            params: Its params, an object in JSON.

        Raises:
            ValueError: The method is one of those that have ways of their own.
            EncodeError: The params have no JSON.
            RpcError: The client cannot be told anything yet (-32600, before `notifications/initialized`).
            ConnectionLost, StateError: The client is gone.
        """
        if method in _BY_ITSELF:
            raise ValueError(f"{method} is not told by notify")
        await self._notify(method, None if params is None else to_json(dict(params)))

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> bool:
        """Tells how far the request is: False when the client did not ask for that.

        progress  it has to grow from one report to the next
        total     what it grows to, if known
        """
        value: dict[str, Any] = {"progress": progress}
        if total is not None:
            value["total"] = total
        if message is not None:
            value["message"] = message
        return self._request.report_progress(value)

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Sends a log message, unless the client wants none of this level.

        level   one of `LOG_LEVELS`
        data    any JSON value
        logger  who says it
        """
        self._log(level, data, logger, self._rules)
