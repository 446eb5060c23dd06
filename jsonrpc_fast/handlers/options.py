"""The options of a method, and the handler that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import CO_ASYNC_GENERATOR, isasyncgenfunction
from math import inf
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypedDict

from ..errors import RpcError
from ..support import check_seconds, check_type, unknown_option
from .handler import Handler, OuterHandler, RequestContext
from .middleware import Middleware, MiddlewareHandler

if TYPE_CHECKING:
    from concurrent.futures import Executor
from collections.abc import AsyncGenerator
from contextlib import aclosing
from inspect import Parameter, signature
from typing import Final

from ..codes import ErrorCode


class HandlerOptions(TypedDict, total=False):
    """The keyword options of `Handlers.register`.

    Middleware runs outside the deadline, and the deadline applies outside the executor.

    Attributes:
        unpack: If False, pass the params as one argument, as received: a dict, a list, a `Raw` or None. By default
            they are the arguments.
        params: Decode the params into this type, and pass them as one argument: a msgspec Struct, a pydantic model or
            `TypeAdapter`, a dataclass, a TypedDict, or any other type that msgspec decodes. Invalid params give
            -32602, and `data` says where and why without values of the input.
        typed: Whether to decode each argument into the type of its annotation, as `params` does. False by default.
        timeout: Seconds for an async function, or for a sync one in an executor; None: no limit. A request whose
            function takes longer gets `SessionErrorCode.DEADLINE_EXCEEDED`. The default is the `timeout` of
            the `Handlers`. Needs asyncio.
        thread: Whether to run a sync function in a thread of the loop's default executor. False by default.
        executor: Run a sync function in this executor of threads or processes, which the caller shuts down.
        ordered: Whether messages that a session receives after one of this method, except pings, wait until the
            function has ended. When its request is cancelled or late, a function in an executor keeps running, since
            nothing can interrupt it, but later messages begin. The convention of the session sets the default: True for
            the notifications of LSP that change documents, and otherwise False.
        errors: The errors that callers of the function should know, such as `[RpcError(1, "Sold out")]`. The document
            of `openrpc` lists them. They are not enforced.
    """

    unpack: bool
    params: Any
    typed: bool
    timeout: float | None
    thread: bool
    executor: Executor | None
    ordered: bool
    errors: Sequence[RpcError]


class OrderedHandler(OuterHandler):
    """A handler with the option `ordered`, which sessions implement."""

    __slots__ = ("is_ordered",)

    def __init__(self, inner: Handler, is_ordered: bool) -> None:
        super().__init__(inner)
        # If a handler wants the context, a session registers its requests before the call; an ordered handler needs
        # that.
        self.wants_context: bool = inner.wants_context or is_ordered
        self.is_ordered: bool | None = is_ordered

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """Call the function; see `Handler.invoke`."""
        return self._inner.invoke(params, context)


def make_handler(
    function: Callable[..., Any],
    options: HandlerOptions,
    middleware: Sequence[Middleware],
    default_timeout: float | None,
) -> Handler:
    """Return the handler of a function. Unused options add no per-call cost. Raises what `Handlers.register` does."""
    for name in options:
        if name not in HandlerOptions.__annotations__:
            raise unknown_option("a method", name, HandlerOptions.__annotations__)
    if "errors" in options:
        check_type("errors", options["errors"], Sequence)
        if not all(isinstance(error, RpcError) for error in options["errors"]):
            raise TypeError("errors must be a list of RpcError")
    if "params" in options or options.get("typed", False):
        if sum(name in options for name in ("unpack", "params", "typed")) > 1:
            raise TypeError("unpack, params and typed are mutually exclusive")
        from . import typed

        if "params" in options:
            handler = typed.handler_of_type(function, options["params"])
        else:
            handler = typed.handler_of_annotations(function)
    else:
        handler = Handler(function, options.get("unpack", True))
    if type(function) is FunctionType:
        has_items = bool(function.__code__.co_flags & CO_ASYNC_GENERATOR)  # as below, without six more calls
    else:
        has_items = isasyncgenfunction(function) or isasyncgenfunction(type(function).__call__)
    if has_items:
        is_unpacked = "params" not in options and options.get("unpack", True)
        handler = StreamHandler(handler, names_of(function) if is_unpacked else None)
    executor = options.get("executor")
    if executor is not None or options.get("thread", False):
        if executor is not None and options.get("thread", False):
            raise TypeError("thread and executor are mutually exclusive")
        from .on_asyncio import ExecutorHandler  # imports asyncio

        handler = ExecutorHandler(handler, function, executor)
    # From the inside out: the deadline covers the executor, and the middleware gets the error of the deadline.
    timeout = options.get("timeout", default_timeout)
    check_seconds("timeout", timeout, may_be_infinite=True)
    if timeout is not None and timeout != inf:
        from .on_asyncio import DeadlineHandler  # imports asyncio

        handler = DeadlineHandler(handler, timeout)
    if middleware:
        handler = MiddlewareHandler(handler, middleware)
    if "ordered" not in options:
        return handler
    check_type("ordered", options["ordered"], bool)
    return OrderedHandler(handler, options["ordered"])


MAX_ITEMS: Final = 100_000
"""The largest number of items in one response."""


class StreamHandler(OuterHandler):
    """A handler whose function returns an async generator, which is closed however the request ends.

    In a session, the convention defines how the peer asks for the items, how one is sent, and what the result then is;
    the generator waits while the peer does not read. Otherwise the result is the list of the items. `names`: the
    params that the function takes; others that ask for items are dropped. None: it takes any.
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
