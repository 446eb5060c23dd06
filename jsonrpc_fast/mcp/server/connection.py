"""The connection of one client of a server: its session, its requests and notifications.

Rules:
  - Each request and notification goes through the handshake first, in the order of arrival.
  - Requests are checked again only if the transport's profile is looser than the server's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...codec import Raw, Request
from ...handlers import with_middleware
from ...profile import Profile
from ...session import SessionOptions
from ...transports import Transport, is_strict_enough
from .context import Context
from .functions import RegisteredFunction
from .handshake import ServerHandshake
from .methods import Methods, call_method, raise_error, validator_of
from .session import FrontSession
from .session import Request as ServedRequest
from .subscriptions import Announcer


class ServerConnection(FrontSession):
    """The connection of one client.

    Args:
        handshake: The server's side of the handshake.
        methods: The methods of the server.
        notifications: Functions by notification.
        profile: The rules for the client's messages.
        transport: A transport that is not started.
        options: Options of `Session`.
        announcer: Notifies the clients of the server.
    """

    def __init__(
        self,
        handshake: ServerHandshake,
        methods: Methods,
        notifications: Mapping[str, RegisteredFunction],
        profile: Profile,
        transport: Transport,
        options: SessionOptions,
        announcer: Announcer,
    ) -> None:
        super().__init__(handshake, transport, options, announcer)
        self._methods = methods
        self._notifications = notifications
        self._profile = profile
        self._must_validate = not is_strict_enough(transport, profile)

    def serve(self, params: Any, request: ServedRequest) -> Any:
        if type(params) is Raw:
            params = params.decode()
        if request.is_notification:
            return self._on_notification(request, params)
        if self._must_validate:
            message = Request(request.id, request.method, params)
            raise_error(validator_of(self._profile).validate_request(message.to_dict()))
        rules = self._handshake.receive_request(request.method, params)
        if isinstance(rules, dict):
            return rules
        return self._methods.serve(self._handshake, rules, params, request)

    def call_plain(self, message: Request, subject: object) -> Any:
        return self._methods.call_plain(self._handshake, message, subject)

    def _on_notification(self, request: ServedRequest, params: Any) -> Any:
        # First, even if no function is registered: `notifications/initialized` opens the session.
        is_due = self._handshake.receive_notification(request.method)
        function = self._notifications.get(request.method)
        rules = self._handshake.session
        if function is None or rules is None or not is_due:
            return None
        members = params if isinstance(params, dict) else {}
        handle = with_middleware(self._call_notification, self._methods.middleware)
        return handle(members, Context(request, rules, members, self._methods.shared))

    def _call_notification(self, params: dict[str, Any], context: Context) -> Any:
        return call_method(self._notifications[context.method], params, context)
