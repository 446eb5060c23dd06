"""The session of one client of a server or a gateway, and the messages to this client.

Rules:
  - A legacy client gets requests after `notifications/initialized`, a modern one gets none.
  - A client that does not read gets no log messages until it reads again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ...codec import Notification, decoded
from ...codec import Request as Message
from ...errors import ConnectionLost, StateError
from ...session import Destination, InboundRequest, SessionOptions
from ...transports import Transport
from ...types import UNSET, MessageId, Unset
from ..protocol.meta import LOG_LEVELS, UNKNOWN_LEVEL
from ..protocol.sessions import McpSession
from ..protocol.versions import Revision
from .handshake import ServerHandshake
from .inputs import cannot_send
from .subscriptions import Announcer, Client, ClientSubscriptions


class HttpRequest(Protocol):
    """The HTTP request that carried a message.

    Attributes:
        claims: The result of the check of the bearer token; None without authorization.
        subject: The subject that the bearer token identifies; None without authorization.
        scope: The scope of the HTTP request, as ASGI defines it: headers, client, path.
    """

    claims: Any
    subject: object
    scope: Mapping[str, Any]


class HttpExchange(Client, Destination, Protocol):
    """The HTTP request that carried a message, and its response.

    Attributes:
        subscriptions: The subscriptions of the client, if the request has no session.
    """

    @property
    def request(self) -> HttpRequest | None: ...

    @property
    def subscriptions(self) -> ClientSubscriptions: ...

    def close_stream(self) -> bool:
        """Close the connection of the response without ending the response. See `Context.close_stream`."""
        ...

    async def tell_client(self, method: str, params: dict[str, Any] | None, destination: Destination | None) -> None:
        """Send a notification: see `Context.notify`."""
        ...


class Request(Protocol):
    """A message that a server serves: a `SessionContext`, or a request that came over HTTP.

    Attributes:
        id: The id of the request; None for a notification.
        session: The session; None for a request without one.
        destination: The HTTP request; None: the stream of the session.
    """

    @property
    def id(self) -> MessageId: ...

    @property
    def method(self) -> str: ...

    @property
    def is_notification(self) -> bool: ...

    @property
    def is_cancelled(self) -> bool: ...

    @property
    def peer(self) -> Any: ...

    @property
    def session(self) -> Any: ...

    @property
    def destination(self) -> Any: ...

    def report_progress(self, value: Any) -> bool:
        """Report progress. Return False if the client did not ask for it."""


class FrontSession(McpSession):
    """The session of one client, and the server's side of the handshake.

    It ends the subscriptions first when the client ends its stream.

    Attributes:
        log_level: The minimum level of log messages for a legacy client; "info" if it has set none.
    """

    def __init__(
        self,
        handshake: ServerHandshake,
        transport: Transport,
        options: SessionOptions,
        announcer: Announcer,
    ) -> None:
        super().__init__(transport, options)
        self._handshake = handshake
        self.subscriptions: ClientSubscriptions = ClientSubscriptions(handshake.capabilities, self, announcer)
        self.log_level: str = "info"

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
        self.subscriptions.end()

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
        return self._transport.write_buffer_bytes > 1024 * 1024

    def report_progress(self, request: InboundRequest, value: Any) -> bool:
        """Report progress on a request. Return False if the client did not ask for it, or does not read."""
        return not self.is_blocked and super().report_progress(request, value)

    async def ask_client(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        timeout: float | Unset | None,
        destination: Destination | None,
    ) -> dict[str, Any]:
        """Send a request to a legacy client: see `Context.call`."""
        if not self._handshake.may_send(Message(0, method)):
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

    def serve(self, params: Any, request: Request) -> Any:
        raise NotImplementedError

    def call_plain(self, message: Message, subject: object) -> Any:
        """Call a tool that takes no context. Return its result or a coroutine of it.

        Returns:
            None if the request must be served in the ordinary way. Then no function was called.
        """

    def log(self, level: str, data: Any, logger: str | None) -> None:
        """Send a log message that belongs to no request: see `Server.log`."""
        if is_logged(level, self.log_level) and self._handshake.session is not None and not self.is_blocked:
            self.push([log_message(level, data, logger)])

    def notifications_of(self, method: str, subject: str) -> Iterable[Notification]:
        """Return the notifications of a change."""
        return self.subscriptions.changed(method, subject, self._handshake.is_initialized)

    def push(
        self,
        notifications: Iterable[Notification],
        destination: Destination | None = None,
        texts: dict[Any, bytes] | None = None,
    ) -> None:
        """Send notifications without waiting for the client to read. If the client has disconnected, do nothing."""
        for notification in notifications:
            method, params = notification.method, notification.params
            shared = None if texts is None or (params is not None and "_meta" in params) else texts
            try:
                if shared is None or not self.notify_as(method, params, shared):
                    self.notify_soon(method, params, destination=destination)
            except (ConnectionLost, StateError):
                return


def is_logged(level: str, minimum: str | None) -> bool:
    """Return whether a log message is sent. Raises ValueError for an unknown level."""
    check_level(level)
    return minimum is not None and LOG_LEVELS.index(level) >= LOG_LEVELS.index(minimum)


def log_message(level: str, data: Any, logger: str | None) -> Notification:
    """Return the notification with a log message."""
    params = {"level": level, "data": data}
    return Notification("notifications/message", params if logger is None else {**params, "logger": logger})


def check_level(level: str) -> None:
    """Raise ValueError for an unknown level of log messages."""
    if level not in LOG_LEVELS:
        raise ValueError(UNKNOWN_LEVEL)
