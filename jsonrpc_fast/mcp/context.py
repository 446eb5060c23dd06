"""What a serving function may want to know of the request that it serves, and may say meanwhile."""

from __future__ import annotations

from typing import Any, Protocol

from ..errors import MessageId
from ..session.handlers import RequestContext
from .capabilities import ClientCapabilities, Implementation
from .handshake import RequestContext as Rules
from .versions import Revision


class Log(Protocol):
    """Sends a log message, if the client wants it. `rules` are those of the request that it belongs to, if any."""

    def __call__(self, level: str, data: Any, logger: str | None, rules: Rules | None) -> None: ...


class Context:
    """The request that a tool, a prompt or a resource is asked for by.

    A function gets it by a parameter that is annotated with this class.
    """

    __slots__ = ("_log", "_request", "_rules")

    def __init__(self, request: RequestContext, rules: Rules, log: Log) -> None:
        self._request = request
        self._rules = rules
        self._log = log

    @property
    def request_id(self) -> MessageId:
        """The id of the request."""
        return self._request.id

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
