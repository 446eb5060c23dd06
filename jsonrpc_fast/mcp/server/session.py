"""The session of one client of a server, a gateway or a program behind HTTP, and the messages to this client.

Rules:
  - A legacy client gets requests after `notifications/initialized`, a modern one gets none.
  - A client that does not read gets no log messages until it reads again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from ...codec import Notification, Request, decoded
from ...errors import ConnectionLost, StateError
from ...session import Destination, Run, SessionOptions
from ...transports import Transport
from ...types import UNSET, Unset
from ..protocol.capabilities import ServerCapabilities
from ..protocol.meta import LOG_LEVELS, UNKNOWN_LEVEL
from ..protocol.sessions import McpSession
from ..protocol.versions import Revision
from .handshake import RequestRules, ServerHandshake
from .inputs import cannot_send
from .subscriptions import ClientSubscriptions

DEFAULT_LOG_LEVEL: Final = "info"
"""The minimum level of log messages for a legacy client that has set none."""

_BLOCKED_SECONDS: Final = 0.5
_MAX_UNWRITTEN_BYTES: Final = 1024 * 1024  # a client with more unwritten bytes than this does not read


class ClientConnection:
    """The connection of one client: the interface for serving it over HTTP."""

    def serve_at_once(self, message: Request, subject: object) -> bytes | Run | None:
        """Serve a request in the task of its HTTP request, if it needs nothing else. By default, no request is.

        Args:
            message: The request.
            subject: The sender: see `Context.subject`.

        Returns:
            See `Serving.serve_at_once`.
        """
        return None

    async def finish(self, run: Run, destination: Destination) -> None:
        """Continue a handler that `serve_at_once` has returned, until it ends. Its response goes to a destination."""
        raise NotImplementedError

    async def start(self) -> None:
        """Begin to serve the client. Raises what the transport raises when it starts."""
        raise NotImplementedError

    async def close(self, grace_seconds: float | Unset | None = UNSET) -> None:
        """Let the functions finish, and close the connection: see `Session.close`."""
        raise NotImplementedError

    def end_streams(self) -> None:
        """End all subscriptions of a modern client with their responses. By default it has no subscriptions."""

    def can_serve(self, request: Request | None = None) -> bool:
        """Return whether it can serve a request of another client; None: any request. By default, it cannot."""
        return False

    @property
    def revision(self) -> Revision | None:
        """The revision that `initialize` agreed on; None without it."""
        raise NotImplementedError


class FrontSession(McpSession, ClientConnection):
    """The session of one client, and the server's side of the handshake.

    It ends the subscriptions first when the client ends its stream.

    Args:
        handshake: The server's side of the handshake.
        capabilities: The declared capabilities.
        transport: A transport that is not started.
        options: Options of `Session`.

    Attributes:
        log_level: The minimum level of log messages for a legacy client.
    """

    _change_seconds: ClassVar[float] = 0.0
    """How long changes are collected, so that the client is notified of each only once."""

    def __init__(
        self,
        handshake: ServerHandshake,
        capabilities: ServerCapabilities,
        transport: Transport,
        options: SessionOptions,
    ) -> None:
        super().__init__(transport, options)
        self._handshake = handshake
        self._subscriptions = ClientSubscriptions(capabilities)
        # Changes that the client has not been notified of yet: each with its notification and its subject, in order.
        self._changes: dict[tuple[str, str], None] = {}
        self.log_level: str = DEFAULT_LOG_LEVEL

    async def finish(self, run: Run, destination: Destination) -> None:
        self._engine.keep(run, destination)
        await self._driver.finish(run)

    async def run(self) -> None:
        """Serve the client until the connection closes."""
        await self.start()
        try:
            await self.wait_closed()
        finally:
            await self.close()

    async def close(self, grace_seconds: float | Unset | None = UNSET) -> None:
        """End the subscriptions, let the functions finish, and close the connection: see `Session.close`."""
        # The subscriptions first, because their responses must be written before the session closes.
        self.end_streams()
        await super().close(grace_seconds)

    def end_streams(self) -> None:
        """End all subscriptions with their responses."""
        self._subscriptions.end()

    @property
    def revision(self) -> Revision | None:
        rules = self._handshake.session
        return None if rules is None else rules.revision

    def _on_end(self) -> None:
        self.end_streams()
        # The session ends afterwards, so the responses that end the subscriptions are written before it closes.
        super()._on_end()

    @property
    def is_blocked(self) -> bool:
        """Whether the client does not read at the moment."""
        return self._transport.write_buffer_bytes > _MAX_UNWRITTEN_BYTES

    async def ask_client(
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
        result = decoded(await self.call(method, members, timeout=timeout, destination=destination))
        if not isinstance(result, dict):  # possible if the transport's profile is not MCP's
            raise ValueError(f"the client's response to {method} is invalid: the result must be an object")
        return result

    async def tell_client(self, method: str, params: dict[str, Any] | None, destination: Destination | None) -> None:
        """Send a notification: see `Context.notify`."""
        if not self._handshake.may_send(Notification(method)):
            raise cannot_send()
        await self.notify(method, params, destination=destination)

    def log(
        self,
        level: str,
        data: Any,
        logger: str | None,
        rules: RequestRules | None = None,
        destination: Destination | None = None,
    ) -> None:
        """Send a log message if the client wants its level. `rules` are those of its request."""
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
        self.push([Notification("notifications/message", params)], destination)

    def add_change(self, method: str, subject: str) -> None:
        """Notify the client soon, and once, of a change: of a list, by its kind, or of a resource, by its URI."""
        if not self._changes:
            asyncio.get_running_loop().call_later(self._change_seconds, self._notify_changes)
        self._changes[method, subject] = None

    def notifications_of(self, method: str, subject: str) -> Iterable[Notification]:
        """Return the notifications of a change."""
        return self._subscriptions.changed(method, subject, self._handshake.is_initialized)

    def _notify_changes(self) -> None:
        if self.is_blocked:
            # Kept, not dropped: a client that misses a change would show an old list forever.
            asyncio.get_running_loop().call_later(_BLOCKED_SECONDS, self._notify_changes)
            return
        # Emptied first, because sending may run code that changes lists again.
        changes, self._changes = self._changes, {}
        for change in changes:
            self.push(self.notifications_of(*change))

    def push(self, notifications: Iterable[Notification], destination: Destination | None = None) -> None:
        """Send notifications without waiting for the client to read. If the client has disconnected, do nothing."""
        for notification in notifications:
            try:
                self.notify_soon(notification.method, notification.params, destination=destination)
            except (ConnectionLost, StateError):
                return


def check_level(level: str) -> None:
    """Raise ValueError for an unknown level of log messages."""
    if level not in LOG_LEVELS:
        raise ValueError(UNKNOWN_LEVEL)
