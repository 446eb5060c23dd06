"""Middleware: functions around every handler.

    async def log(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        result = await call_next(params)
        print(context.method, "is served")
        return result

    handlers = Handlers({"add": add}, middleware=[log])

Rules:
  - The first middleware is the outermost: it is called first and returns last.
  - A middleware returns the result. It may call `call_next` with other params, more than once, or not at all.
  - An exception of a middleware is treated like one of a handler, and exceptions of a handler propagate through it.
  - An async middleware awaits `call_next`, whether the handler is async or not. Its methods need `dispatch_async` or a
    session.
  - A sync middleware calls `call_next`, which returns an awaitable if the handler, or a middleware inside, is async. It
    may return that awaitable. It works in `dispatch` too.
  - Middleware is called for requests and notifications whose method has a handler, not for unknown methods.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from ..types import is_awaitable
from .handler import Handler, OuterHandler, RequestContext

CallNext: TypeAlias = Callable[[Any], Any]
"""Calls the next middleware, or the handler, with the params, and returns its result or an awaitable of it."""

Middleware: TypeAlias = Callable[[RequestContext, Any, CallNext], Any]
"""A sync or async function of the context, the params and `call_next`; returns the result."""

C = TypeVar("C")


class MiddlewareHandler(OuterHandler):
    """A handler inside middleware.

    Raises:
        TypeError: A middleware is not callable.
    """

    __slots__ = ("_invoke",)

    def __init__(self, inner: Handler, middleware: Iterable[Middleware]) -> None:
        super().__init__(inner)
        self.wants_context: bool = True
        self.takes_raw: bool = False  # a middleware gets values
        self._invoke: Callable[[Any, RequestContext], Any] = within(inner.invoke, middleware)

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """Call the middleware; otherwise as `Handler.invoke`."""
        assert context is not None
        return self._invoke(params, context)


def within(
    invoke: Callable[[Any, C], Any], middleware: Iterable[Callable[[C, Any, CallNext], Any]]
) -> Callable[[Any, C], Any]:
    """Return a function of params and context inside all of the middleware, of which the first is the outermost.

    Raises:
        TypeError: A middleware is not callable.
    """
    for each in reversed(list(middleware)):
        invoke = _within_one(invoke, each)
    return invoke


def _within_one(invoke: Callable[[Any, C], Any], middleware: Callable[[C, Any, CallNext], Any]) -> Any:
    if not callable(middleware):
        raise TypeError(f"a middleware must be callable, not {type(middleware).__name__}")
    # An object with an async `__call__` is async, too.
    is_async = inspect.iscoroutinefunction(middleware) or inspect.iscoroutinefunction(type(middleware).__call__)

    async def invoke_async(params: Any, context: C) -> Any:
        # A sync handler has run by now: only what it returns, such as a future, may be awaited.
        result = invoke(params, context)
        return await result if is_awaitable(result) else result

    inner = invoke_async if is_async else invoke
    return lambda params, context: middleware(context, params, lambda params: inner(params, context))
