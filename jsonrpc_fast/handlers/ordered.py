"""Methods that say whether they keep the order of a session: `ordered` in `HandlerOptions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .handler import Handler, RequestContext


class OrderedHandler(Handler):
    """A handler with the option `ordered`. What it does is up to the session."""

    __slots__ = ("_inner", "is_ordered")

    def __init__(self, inner: Handler, is_ordered: bool) -> None:
        self.plain: Callable[..., Any] | None = None
        # A session registers the requests of a function with a context before the call, and so those of this one.
        self.wants_context: bool = is_ordered or inner.wants_context
        self.takes_raw: bool = inner.takes_raw
        self.is_ordered: bool | None = is_ordered
        self._inner = self._function = inner

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """Call the function; see `Handler.invoke`."""
        return self._inner.invoke(params, context)
