"""Methods that say whether they keep the order of a session: `ordered` in `HandlerOptions`."""

from __future__ import annotations

from typing import Any

from .handler import Handler, OuterHandler, RequestContext


class OrderedHandler(OuterHandler):
    """A handler with the option `ordered`, which the session interprets."""

    __slots__ = ("is_ordered",)

    def __init__(self, inner: Handler, is_ordered: bool) -> None:
        super().__init__(inner)
        # A session registers the requests of a function with a context before the call, and so those of this one.
        self.wants_context: bool = inner.wants_context or is_ordered
        self.is_ordered: bool | None = is_ordered

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """Call the function; see `Handler.invoke`."""
        return self._inner.invoke(params, context)
