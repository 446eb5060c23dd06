"""Async generators as handlers: their items are the result, and go to the peer one by one if it asks for that.

Rules:
  - In a session, the convention defines how the peer asks, how an item is sent, and what the result then is. The
    generator waits while the peer does not read.
  - Otherwise, and without a session, the result is the list of the items. More than MAX_ITEMS of them are an error.
  - The items of a notification are dropped.
  - However the request ends, the generator is closed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from inspect import Parameter, signature
from typing import Any, Final

from ..codes import ErrorCode
from ..errors import RpcError
from .handler import Handler, OuterHandler, RequestContext

MAX_ITEMS: Final = 100_000
"""The largest number of items in one response."""


class StreamHandler(OuterHandler):
    """A handler whose function returns an async generator.

    Args:
        inner: The handler of the function.
        names: The names of the params that the function takes. Other params that ask for items are dropped. None: it
            takes any.
    """

    __slots__ = ("_taken",)

    def __init__(self, inner: Handler, names: frozenset[str] | None) -> None:
        super().__init__(inner)
        self.wants_context = True
        self._taken = names

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """Return an awaitable of the result; otherwise like `Handler.invoke`."""
        assert context is not None
        # JSON-RPC has no member to ask for parts, so conventions put one into the params (LSP: `partialResultToken`). A
        # function without a parameter for it would refuse it as unknown.
        if self._taken is not None:
            params = context.without_token(params, self._taken)
        return _run(self._inner.invoke(params, context), context)


def names_of(function: Callable[..., Any]) -> frozenset[str] | None:
    """Return the names of the params that a function takes; None if it takes any."""
    parameters = signature(function).parameters.values()
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        return None
    return frozenset([each.name for each in parameters])


async def _run(items: AsyncGenerator[Any, None], context: RequestContext) -> Any:
    kept: list[Any] | None = []
    # The generator is closed in this task, not by the garbage collector at some other time.
    async with aclosing(items):
        async for item in items:
            # Once an item has been sent, the result no longer contains the items.
            if await context.send_item(item):
                kept = None
            elif kept is not None and not context.is_notification:
                if len(kept) == MAX_ITEMS:
                    raise RpcError(ErrorCode.INTERNAL_ERROR, "too many items for one response")
                kept.append(item)
    return context.result_of(kept)
