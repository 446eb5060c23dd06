"""What a session gives to the functions that serve its peer, beside what `jsonrpc_fast.handlers` says."""

from __future__ import annotations

from typing import Any

from ..handlers import Function, Handler, Handlers, RequestContext
from .calling import Caller
from .events import InboundRequest

__all__ = ["Function", "Handler", "Handlers", "SessionContext"]


class SessionContext(RequestContext):
    """What a handler may want to know of the message that it serves.

    session  the calling half of the session, to call the peer back
    method   of the message
    id       of the request; None for a notification, too
    is_notification  no answer is going to be sent
    """

    __slots__ = ("_request", "session")

    def __init__(self, session: Caller, method: str, request: InboundRequest | None) -> None:
        super().__init__(method, None if request is None else request.id, request is None)
        self.session: Caller = session
        self._request = request

    @property
    def is_cancelled(self) -> bool:
        """The peer has no use for the answer any more. An async handler is cancelled as well."""
        return self._request is not None and self._request.is_cancelled

    def report_progress(self, value: Any) -> bool:
        """Tells the peer how far its request is, by the session's convention: False when it did not ask for that."""
        return self._request is not None and self.session.report_progress(self._request, value)
