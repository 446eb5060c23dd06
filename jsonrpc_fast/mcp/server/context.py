"""The context of a registered function: the request it serves, and messages to the client."""

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

_SENT_BY_NOTIFY: Final = frozenset({"notifications/elicitation/complete", "notifications/tasks/status"})
_SENT_OTHERWISE: Final = (
    frozenset().union(*[revision.server_notifications for revision in REVISIONS.values()]) - _SENT_BY_NOTIFY
)


class Log(Protocol):
    """Sends a log message if the client wants it. `rules` are those of the request it belongs to, or None."""

    def __call__(self, level: str, data: Any, logger: str | None, rules: RequestRules | None) -> None: ...


class AskClient(Protocol):
    """Sends a request to the client and returns its result. See `Context.call`."""

    async def __call__(
        self, method: str, params: Mapping[str, Any] | None, timeout: float | Unset | None, key: str | None
    ) -> dict[str, Any]: ...


class Notify(Protocol):
    """Sends a notification to the client. See `Context.notify`."""

    async def __call__(self, method: str, params: dict[str, Any] | None) -> None: ...


@dataclass(frozen=True, slots=True)
class WholeResult:
    """The whole result of a request, returned by the function of a tool, a prompt or a resource.

        return WholeResult({"resultType": "task", "taskId": id, …})       # of an extension that the client declares
        return WholeResult({"resultType": "input_required", "inputRequests": {"login": {…}}, "requestState": state})

    A client can send any `requestState` back. Sign it if it must not be altered, and check whose it is.

    Args:
        members: The members of the result. Without `resultType` it is "complete"; before 2026-07-28 it is left out.
    """

    members: Mapping[str, Any]


class Context:
    """The request or notification that a registered function serves.

    A function gets it as the parameter that is annotated with this class:

        @server.tool
        async def search(query: str, context: Context) -> list[str]:
            context.report_progress(0, total=100)
            ...
    """

    __slots__ = ("_call", "_log", "_notify", "_params", "_request", "_rules")

    def __init__(
        self,
        request: SessionContext,
        rules: RequestRules,
        params: Mapping[str, Any],
        log: Log,
        call: AskClient,
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
        """The params as the client sent them, including `_meta`, `task`, `inputResponses` and `requestState`.

        They are not checked, with one exception: in 2026-07-28 `inputResponses` is an object of objects and
        `requestState` a string, if present.
        """
        return self._params

    @property
    def revision(self) -> Revision:
        """The protocol revision of the request."""
        return self._rules.revision

    @property
    def client_info(self) -> Implementation | None:
        """Name and version of the client, or None. Nothing verifies them."""
        return self._rules.client_info

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """The capabilities of the client."""
        return self._rules.client_capabilities

    @property
    def is_cancelled(self) -> bool:
        """Whether the client has cancelled the request. An async function is cancelled, too."""
        return self._request.is_cancelled

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
        once the client has. So everything before the last `call` must be repeatable, and must make the same requests
        with the same params. Concurrent requests, as with `asyncio.gather`, take one round; clients allow about ten.

        Args:
            method: The method of the request.
            params: The params of the request.
            timeout: Seconds to wait for the result; None: no limit. By default the session's timeout. Ignored in
                2026-07-28.
            key: The name of the request in `inputRequests`, if it matters to the client (2026-07-28). Each request of a
                function needs a name of its own.

        Returns:
            The client's result, not validated.

        Raises:
            RpcError: The client responds with an error, lacks the capability (see `require`), or cannot receive this
                request (-32600).
            CallTimeout: The client did not respond in time. Not in 2026-07-28.
            ConnectionLost: The connection closed before the response. Not in 2026-07-28.
        """
        if (capability := capability_for(method, params)) is not None:
            self.require(capability)
        return await self._call(method, params, timeout, key)

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
        if method in _SENT_OTHERWISE:
            raise ValueError(f"notify cannot send {method}: the server sends it itself")
        await self._notify(method, None if params is None else to_json(dict(params)))

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> bool:
        """Report progress on the request to the client.

        Args:
            progress: The progress so far. It must increase with each report.
            total: The progress at the end, if known.
            message: A text for people (2025-03-26 and later).

        Returns:
            Whether the client asked for progress; if not, nothing is sent.
        """
        value: dict[str, Any] = {"progress": progress}
        if total is not None:
            value["total"] = total
        if message is not None:
            value["message"] = message
        return self._request.report_progress(value)

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a log message to the client, if it wants this level.

        Args:
            level: One of `LOG_LEVELS`, from "debug" to "emergency".
            data: Any JSON value.
            logger: The name of the logger.

        Raises:
            ValueError: The level is unknown.
        """
        self._log(level, data, logger, self._rules)
