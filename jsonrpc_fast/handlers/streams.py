"""Async generators as handlers: their items are the result, and go to the peer one by one if it asks for that.

Rules:
  - In a session, the convention says how the peer asks, how an item is sent, and what the result is then. The generator
    waits while the peer does not read.
  - Otherwise, and without a session, the result is the list of the items. More than MAX_ITEMS of them are an error.
  - The items of a notification are dropped.
  - However the request ends, the generator is closed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final

from ..codes import ErrorCode
from ..errors import RpcError
from .handler import Handler, RequestContext

MAX_ITEMS: Final = 100_000
"""The largest number of items in one response."""


class StreamHandler(Handler):
    """A handler whose function returns an async generator."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Handler) -> None:
        self.plain: Callable[..., Any] | None = None
        self.wants_context: bool = True
        self.takes_raw: bool = inner.takes_raw
        self._inner = inner

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """Return an awaitable of the result; otherwise as `Handler.invoke`."""
        assert context is not None
        return _run(self._inner.invoke(params, context), context)


async def _run(items: AsyncGenerator[Any, None], context: RequestContext) -> Any:
    kept: list[Any] | None = []
    async with aclosing(items):
        async for item in items:
            if await context.send_item(item):
                kept = None
            elif kept is not None and not context.is_notification:
                if len(kept) == MAX_ITEMS:
                    raise RpcError(ErrorCode.INTERNAL_ERROR, "too many items for one response")
                kept.append(item)
    return context.result_of(kept)
