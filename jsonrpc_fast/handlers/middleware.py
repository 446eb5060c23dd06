"""Middleware: functions around every handler.

    async def log(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        result = await call_next(params)
        print(context.method, "is served")
        return result

    handlers = Handlers({"add": add}, middleware=[log])

Rules:
  - It is called for requests and notifications whose method has a handler. The first one is the outermost: it is called
    first and returns last. It may call `call_next` with other params, more than once, or not at all. Its exceptions are
    treated like those of a handler.
  - An async middleware awaits `call_next`, whether the handler is async or not; its methods need `dispatch_async` or a
    session. For a sync one `call_next` returns an awaitable if the handler, or a middleware inside, is async. It may
    return that awaitable. It works in `dispatch` too.
  - A middleware of a method with typed params gets them decoded. If it passes on equal params, they are converted from
    the text, as without middleware.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from ..codec import Raw
from ..support import is_async
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
        self._invoke: _Link = _chain(middleware)

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """Call the middleware; otherwise like `Handler.invoke`."""
        if not (type(params) is Raw and self.takes_raw):
            return self._invoke(params, context, self._inner.invoke)
        value = params.decode()
        received = _content(value)

        def invoke(given: Any, context: RequestContext) -> Any:
            # Compared by content: a middleware may change its params in place.
            is_changed = received is None or _content(given) != received
            return self._inner.invoke(given if is_changed else params, context)

        return self._invoke(value, context, invoke)


def with_middleware(
    invoke: Callable[[Any, C], Any], middleware: Iterable[Callable[[C, Any, CallNext], Any]]
) -> Callable[[Any, C], Any]:
    """Return a function of params and context that runs inside all of the middleware; the first one is the outermost.

    Raises:
        TypeError: A middleware is not callable.
    """
    chain = _chain(middleware)
    return lambda params, context: chain(params, context, invoke)


_Invoke: TypeAlias = Callable[[Any, Any], Any]
_Link: TypeAlias = Callable[[Any, Any, _Invoke], Any]
"""A function of params, the context and the innermost handler."""


def _chain(middleware: Iterable[Callable[[Any, Any, CallNext], Any]]) -> _Link:
    chain: _Link = lambda params, context, invoke: invoke(params, context)  # noqa: E731
    for each in reversed(list(middleware)):
        chain = _link(each, chain)
    return chain


def _link(middleware: Callable[[Any, Any, CallNext], Any], rest: _Link) -> _Link:
    if not callable(middleware):
        raise TypeError(f"a middleware must be callable, not {type(middleware).__name__}")

    async def call_async(params: Any, context: Any, invoke: _Invoke) -> Any:
        # A sync handler has already run: only an awaitable that it returned, such as a future, is awaited.
        result = rest(params, context, invoke)
        return await result if is_awaitable(result) else result

    inner = call_async if is_async(middleware) else rest
    return lambda params, context, invoke: middleware(context, params, lambda params: inner(params, context, invoke))


def _content(value: Any) -> bytes | None:
    """Return bytes that are equal for equal JSON values of the same types; None for other values, such as a Decimal."""
    try:
        return marshal.dumps(value, 2)  # the last version whose output does not depend on reference counts
    except ValueError:
        return None
