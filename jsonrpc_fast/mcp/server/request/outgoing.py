"""What a server sends to one client on its own initiative: requests, notifications, log messages.

Rules:
  - A legacy client gets requests after `notifications/initialized`, a modern one none.
  - A client that does not read gets no log messages until it reads again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ....codec import Notification, Request
from ....codec._backend import decoded
from ....errors import ConnectionLost, StateError
from ....session import Destination, Session
from ....transports.protocol import Transport
from ....types import Unset
from ...protocol.meta import LOG_LEVELS
from .handshake import RequestRules, ServerHandshake
from .inputs import cannot_send

DEFAULT_LOG_LEVEL: Final = "info"
"""The minimum level of log messages for a legacy client that has set none."""

_MAX_UNWRITTEN_BYTES: Final = 1024 * 1024  # a client with more unwritten bytes than this does not read


class Outgoing:
    """The messages to one client.

    Args:
        handshake: Says what may be sent.
        session: The session.
        transport: Its transport.

    Attributes:
        transport: The transport.
        log_level: The minimum level of log messages for a legacy client.
    """

    def __init__(self, handshake: ServerHandshake, session: Session, transport: Transport) -> None:
        self._handshake = handshake
        self._session = session
        self.transport: Transport = transport
        self.log_level: str = DEFAULT_LOG_LEVEL

    @property
    def is_blocked(self) -> bool:
        """Whether the client does not read at the moment."""
        return self.transport.write_buffer_bytes > _MAX_UNWRITTEN_BYTES

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        timeout: float | Unset | None,
        destination: Destination | None,
    ) -> dict[str, Any]:
        """Send a request to a legacy client: see `Context.call`."""
        if not self._handshake.may_send(Request(0, method)):
            raise cannot_send()
        members = None if params is None else dict(params)
        result = decoded(await self._session.call(method, members, timeout=timeout, destination=destination))
        if not isinstance(result, dict):  # possible if the transport's profile is not MCP's
            raise ValueError(f"the client's response to {method} is invalid: the result must be an object")
        return result

    async def notify(self, method: str, params: dict[str, Any] | None, destination: Destination | None) -> None:
        """Send a notification: see `Context.notify`."""
        if not self._handshake.may_send(Notification(method)):
            raise cannot_send()
        await self._session.notify(method, params, destination=destination)

    def log(
        self,
        level: str,
        data: Any,
        logger: str | None,
        rules: RequestRules | None = None,
        destination: Destination | None = None,
    ) -> None:
        """Send a log message if the client wants its level. `rules` are those of the request it belongs to."""
        check_level(level)
        # A modern request says itself which level it wants. A message of the server goes only to legacy clients.
        if rules is not None and rules.revision.is_modern:
            minimum = rules.log_level
        else:
            minimum = self.log_level if self._handshake.session is not None else None
        if minimum is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(minimum) or self.is_blocked:
            return
        params = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        self.send([Notification("notifications/message", params)], destination)

    def send(self, notifications: Iterable[Notification], destination: Destination | None = None) -> None:
        """Send notifications without waiting for the client to read. One that has gone needs none."""
        for notification in notifications:
            try:
                self._session.notify_soon(notification.method, notification.params, destination=destination)
            except (ConnectionLost, StateError):
                return


def check_level(level: str) -> None:
    """Raise ValueError for an unknown level of log messages."""
    if level not in LOG_LEVELS:
        raise ValueError(f"level must be one of {', '.join(LOG_LEVELS)}")
