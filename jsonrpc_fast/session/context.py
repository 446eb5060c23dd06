"""The context that a session passes to the functions that serve its peer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..codec import Raw
from ..codec._backend import decoded
from ..handlers import RequestContext
from ..types import MessageId
from .calling import Calling
from .requests import Destination, InboundRequest


class SessionContext(RequestContext):
    """The message that a handler serves, and its session.

    Attributes:
        session: The session, for calls back to the peer.
        method: The method of the message.
        id: The id of the request; None for a notification.
        is_notification: Whether the message is a notification, which gets no response.
        context: The `context` of the session when the handler was called.
        destination: The exchange that brought the message, such as an HTTP request; None: the stream.
    """

    __slots__ = ("_request", "destination", "session")

    def __init__(
        self, session: Calling, method: str, request: InboundRequest | None, destination: Destination | None
    ) -> None:
        # Without `super().__init__`: it is made for each message.
        self.context: Any = session.context
        self.id: MessageId = None if request is None else request.id
        self.is_notification: bool = request is None
        self.method: str = method
        self.session: Calling = session
        self.destination: Destination | None = destination
        self._request = request

    @property
    def peer(self) -> Any:
        """The other end of the session: see `Session.peer`."""
        return self.session.peer

    @property
    def is_cancelled(self) -> bool:
        """Whether the peer has cancelled the request. An async handler is cancelled as well."""
        return self._request is not None and self._request.is_cancelled

    async def send_item(self, item: Any) -> bool:
        return self._request is not None and await self.session.send_item(self._request, item)

    def result_of(self, items: list[Any] | None) -> Any:
        return self.session.convention.result_of(items)

    def without_token(self, params: Any, taken: Collection[str]) -> Any:
        members = self.session.convention.token_members.difference(taken)
        if not isinstance(params, (dict, Raw)) or members.isdisjoint(params.keys()):
            return params
        return {name: value for name, value in decoded(params).items() if name not in members}

    def report_progress(self, value: Any) -> bool:
        """Report progress on the request to the peer.

        Args:
            value: The progress, as the session's convention defines it.

        Returns:
            False if the peer did not ask for progress.
        """
        return self._request is not None and self.session.report_progress(self._request, value)
