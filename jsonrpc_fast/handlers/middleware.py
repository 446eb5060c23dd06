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
  - A middleware of a method with typed params gets them decoded. If it passes on equal ones, the types are read from
    the text, as without it.
  - Middleware is called for requests and notifications whose method has a handler, not for unknown methods.
"""

from __future__ import annotations

import inspect
import marshal
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from ..codec import Raw
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

    __slots__ = ("_invoke", "_links")

    def __init__(self, inner: Handler, middleware: Iterable[Middleware]) -> None:
        super().__init__(inner)
        self.wants_context: bool = True
        self._links: list[_Link] = [_link(each) for each in middleware]
        self._invoke: _Invoke = _chain(inner.invoke, self._links)

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """Call the middleware; otherwise as `Handler.invoke`."""
        assert context is not None
        if not (type(params) is Raw and self.takes_raw):
            return self._invoke(params, context)
        value = params.decode()
        received = _content(value)

        def invoke(given: Any, context: RequestContext) -> Any:
            # Not by identity: a middleware may change what it got in place.
            is_changed = received is None or _content(given) != received
            return self._inner.invoke(given if is_changed else params, context)

        return _chain(invoke, self._links)(value, context)


def within(
    invoke: Callable[[Any, C], Any], middleware: Iterable[Callable[[C, Any, CallNext], Any]]
) -> Callable[[Any, C], Any]:
    """Return a function of params and context inside all of the middleware, of which the first is the outermost.

    Raises:
        TypeError: A middleware is not callable.
    """
    return _chain(invoke, [_link(each) for each in middleware])


_Invoke: TypeAlias = Callable[[Any, Any], Any]
_Link: TypeAlias = Callable[[_Invoke], _Invoke]


def _chain(invoke: _Invoke, links: list[_Link]) -> _Invoke:
    for link in reversed(links):
        invoke = link(invoke)
    return invoke


def _link(middleware: Callable[[Any, Any, CallNext], Any]) -> _Link:
    """Return a function that puts the middleware around what it is called with."""
    if not callable(middleware):
        raise TypeError(f"a middleware must be callable, not {type(middleware).__name__}")
    # An object with an async `__call__` is async, too.
    is_async = inspect.iscoroutinefunction(middleware) or inspect.iscoroutinefunction(type(middleware).__call__)

    def link(invoke: _Invoke) -> _Invoke:
        async def invoke_async(params: Any, context: Any) -> Any:
            # A sync handler has run by now: only what it returns, such as a future, may be awaited.
            result = invoke(params, context)
            return await result if is_awaitable(result) else result

        inner = invoke_async if is_async else invoke
        return lambda params, context: middleware(context, params, lambda params: inner(params, context))

    return link


def _content(value: Any) -> bytes | None:
    """Return bytes that are equal for equal JSON values of the same types; None for other values, such as a Decimal."""
    try:
        return marshal.dumps(value, 2)  # the last version whose bytes do not depend on the references to an object
    except ValueError:
        return None
