"""Hooks: what a session reports about itself, for metrics and traces.

Hooks are one object with any of these methods. They are looked up once, when the session is created; absent ones cost
nothing. They are called on the loop's thread, are not async, must not block, and never receive params, results or error
data. An exception that a hook raises is logged and otherwise ignored, and so is an invalid trace context.

Each method has a protocol of its own below, and `Hooks` is any of them. Their arguments:

    trace    what `call_started` or `request_started` returned, such as a span; None without that hook. With the hooks
             of a trace context, what `call_prepared` or `request_received` returned
    id       of the call or of the peer's request; None for a notification
    outcome  an `Outcome`
    code     the error's code if the outcome is ERROR, else None
    seconds  since the start
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from .._checks import check_callable
from .._logs import logger_of
from .._repr import shorten
from ..errors import run_callback
from ..types import MessageId
from .conventions import TRACE_MEMBERS
from .tracker import Outcome

logger: Final = logger_of("session")

Hook = Callable[..., Any]


class CallStartedHook(Protocol):
    def call_started(self, id: int | str, method: str, /) -> Any:
        """A call was sent."""


class CallPreparedHook(Protocol):
    def call_prepared(self, id: int | str | None, method: str, /) -> tuple[Any, dict[str, str]]:
        """A call or a notification is about to be encoded. Called instead of `call_started`.

        If sending fails, nothing more is reported about it.

        Returns:
            The trace, and the trace context for the message: `traceparent` and `tracestate` (W3C Trace Context), or
            nothing.
        """


class CallSettledHook(Protocol):
    def call_settled(
        self, trace: Any, id: int | str, method: str, outcome: Outcome, code: int | None, seconds: float, /
    ) -> object:
        """A call settled. Called exactly once for each call that was sent."""


class RequestStartedHook(Protocol):
    def request_started(self, id: MessageId, method: str, /) -> Any:
        """A handler is about to be called, in a context of its own (`contextvars`). An async one may have to wait."""


class RequestReceivedHook(Protocol):
    def request_received(self, id: MessageId, method: str, context: dict[str, str], /) -> Any:
        """A handler is about to be called. Called instead of `request_started`.

        Args:
            context: `traceparent` and `tracestate` of the message (W3C Trace Context), as far as it has them. Next to
                the members of JSON-RPC they need `Profile(extra_members="keep")`; MCP always keeps them.
        """


class RequestServedHook(Protocol):
    def request_served(
        self, trace: Any, id: MessageId, method: str, outcome: Outcome, code: int | None, seconds: float, /
    ) -> object:
        """A handler has ended; called in the same context. `trace` is also None if no handler ran."""


class FaultHook(Protocol):
    def fault(self, error: BaseException, /) -> object:
        """A failure that no exception reports to a caller.

        Args:
            error: A ParseError; a StateError for a response with an unknown id, for a request with an id in flight, or
                for a message that the session had no room or no time to serve; an exception of a handler or a callback;
                an OSError of the transport.
        """


class HandlerFaultHook(Protocol):
    def fault(self, error: BaseException, method: str | None, id: MessageId, /) -> object:
        """A failure, as for `FaultHook`, together with the request whose handler failed.

        Args:
            error: As in `FaultHook`.
            method: The method of the request or notification whose handler raised `error`, or returned a value that
                cannot be encoded; None for any other error.
            id: The id of that request; None for a notification, and for any other error.
        """


Hooks: TypeAlias = (
    CallStartedHook
    | CallPreparedHook
    | CallSettledHook
    | RequestStartedHook
    | RequestReceivedHook
    | RequestServedHook
    | FaultHook
    | HandlerFaultHook
)
"""An object with at least one of these methods."""


class FoundHooks:
    """The methods of a hooks object; None for those that it does not have.

    Without a `fault` hook, faults are logged: this side's own as errors, with the exception's text and traceback; the
    peer's at debug level only, because it can cause any number of them.

    Raises:
        TypeError: A hook is not callable, or is async.
    """

    __slots__ = (
        "call_prepared",
        "call_settled",
        "call_started",
        "fault",
        "handler_fault",
        "peer_fault",
        "request_received",
        "request_served",
        "request_started",
    )

    def __init__(self, hooks: Hooks | None) -> None:
        self.call_prepared: Hook | None = _find(hooks, "call_prepared", _checked)
        self.call_started: Hook | None = None if self.call_prepared else _find(hooks, "call_started")
        self.call_settled: Hook | None = _find(hooks, "call_settled")
        self.request_received: Hook | None = _find(hooks, "request_received")
        self.request_started: Hook | None = None if self.request_received else _find(hooks, "request_started")
        self.request_served: Hook | None = _find(hooks, "request_served")
        found = _find(hooks, "fault")
        names_handler = found is not None and _takes_three(hooks.fault)  # type: ignore[union-attr]
        fault = (lambda error: found(error, None, None)) if found and names_handler else found
        self.fault: Hook = fault or log_fault
        self.peer_fault: Hook = fault or log_peer_fault
        self.handler_fault: Hook = log_handler_fault
        if found is not None:
            self.handler_fault = found if names_handler else lambda error, *_: found(error)


def _takes_three(hook: Hook) -> bool:
    try:
        inspect.signature(hook).bind(None, None, None)
    except (TypeError, ValueError):  # ValueError: unknown, as of some builtins
        return False
    return True


def _checked(trace: Any, context: dict[str, str]) -> tuple[Any, dict[str, str]]:
    """Return what `call_prepared` returned. Raises TypeError if the trace context would spoil the message."""
    for name, text in context.items():
        if name not in TRACE_MEMBERS or not isinstance(text, str) or not text.isascii():
            raise TypeError("a trace context holds the ASCII strings traceparent and tracestate, or nothing")
    return trace, context


def _find(hooks: object, name: str, check: Hook | None = None) -> Hook | None:
    method = getattr(hooks, name, None)
    check_callable(f"the hook {name}", method)
    if method is None:
        return None
    if inspect.iscoroutinefunction(method):
        raise TypeError(f"the hook {name} must not be async")

    hook = method if check is None else lambda *arguments: check(*method(*arguments))
    return partial(run_callback, log_fault, hook)


def log_fault(error: BaseException) -> None:
    """Log a fault of this side as an error, with its traceback."""
    if error.__traceback__ is None:
        logger.error("%s: %s", type(error).__qualname__, error)
    else:
        logger.error("an exception in a callback or a hook", exc_info=error)


def log_handler_fault(error: BaseException, method: str, id: MessageId) -> None:
    """Log what a handler raised as an error, with its traceback, the method and the id (None for a notification)."""
    logger.error("the handler of %s failed, id %s", shorten(method), shorten(id), exc_info=error)


def log_peer_fault(error: BaseException) -> None:
    """Log a fault of the peer at debug level."""
    logger.debug("%s: %s", type(error).__qualname__, error)
