"""The common part of the sessions of an MCP server and of an MCP client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...codec import ParseError
from ...handlers import Handler, Handlers
from ...session import Destination, McpConvention, Session, SessionContext, SessionOptions
from ...transports import Received, Transport
from .versions import Revision


class McpSession(Session):
    """A session that refuses a batch, unless the revision agreed on has batches (2025-03-26).

    Args:
        options: Options of `Session`. By default parse errors get no response.
    """

    def __init__(self, transport: Transport, options: SessionOptions) -> None:
        # A program may print log lines to its stdout. Responses to these lines would only confuse it.
        merged: SessionOptions = {"convention": _CONVENTION, "response_policy": "never", **options}
        super().__init__(transport, _HANDLERS, **merged)

    def serve(self, params: Any, context: SessionContext) -> Any:
        """Serve a request or a notification of the peer. Return the result or an awaitable of it."""
        raise NotImplementedError

    @property
    def revision(self) -> Revision | None:
        """The revision that `initialize` agreed on; None without it."""
        raise NotImplementedError

    def _receiver(self) -> Callable[..., bytes | None]:
        receive = super()._receiver()

        def receive_checked(message: Received, destination: Destination | None = None) -> bytes | None:
            if type(message) is list and not (self.revision is not None and self.revision.profile.batches):
                return receive(ParseError.batch_not_allowed())
            return receive(message, destination)

        return receive_checked


class _OnlyHandler(Handler):
    """The handler of a function that takes the params, unchecked, and the context."""

    __slots__ = ("invoke",)

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(lambda: None, unpack=False)  # a dummy: no signature has to be read
        self.wants_context = True
        self.invoke = function  # type: ignore[method-assign]


class SingleHandler(Handlers):
    """Handlers with one function for every method."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._only = _OnlyHandler(function)

    def find(self, method: str) -> Handler:
        return self._only


def _serve(params: Any, context: SessionContext) -> Any:
    session = context.session
    assert isinstance(session, McpSession)
    return session.serve(params, context)


_CONVENTION: Final = McpConvention()
_HANDLERS: Final = SingleHandler(_serve)
"""The handlers of all sessions of MCP."""
