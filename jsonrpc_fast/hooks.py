"""Hooks: methods that sessions, endpoints and clients call, for metrics, traces and access logs.

Hooks are one object with any of these methods. They are looked up once, when the session, endpoint or client is
created; absent ones cost nothing. They are called on the loop's thread, or on the caller's where there is no loop. They
are not async, must not block, and never receive params, results or error data. An exception that a hook raises is
logged and otherwise ignored, and so is an invalid trace context.

Each method has a protocol of its own below, and `Hooks` is any of them. Their arguments:

    trace    what `call_started` or `request_started` returned, such as a span; None without that hook. With the hooks
             of a trace context, what `call_prepared` or `request_received` returned
    id       of the call or of the peer's request; None for a notification
    outcome  an `Outcome`
    code     the error's code if the outcome is ERROR, else None
    seconds  since the start
"""

from __future__ import annotations

import enum
import inspect
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol, Self, TypeAlias, get_args

from .errors import (
    CallTimeout,
    ConnectionLost,
    HttpStatusError,
    InvalidResponse,
    ParseError,
    RpcError,
    internal_error,
    run_callback,
)
from .support import Seldom, check_callable, logger_of
from .types import MessageId

__all__ = [
    "CallPreparedHook",
    "CallSettledHook",
    "CallStartedHook",
    "FaultHook",
    "HandlerFaultHook",
    "Hooks",
    "Outcome",
    "RequestReceivedHook",
    "RequestServedHook",
    "RequestStartedHook",
]

logger: Final = logger_of("session")

Hook = Callable[..., Any]

TRACE_MEMBERS: Final = ("traceparent", "tracestate")
"""The names of W3C Trace Context, in lower case as in HTTP's headers."""


class Outcome(enum.Enum):
    """How a call settled, or how a request was served."""

    RESULT = "result"
    ERROR = "error"  # an error response
    FAULT = "fault"  # a malformed response
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    LOST = "lost"


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
            error: A ParseError; a StateError for a response with an unknown id (the cause is the RpcError of an error),
                for a request with an id in flight, or for a message that the session had no room or no time to serve;
                an exception of a handler or a callback; an OSError of the transport.
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
"""An object with at least one of these methods. The members of this union are the table of the hooks."""

HOOKS: Final[dict[str, str]] = {
    kind.__name__: name for kind in get_args(Hooks) for name in vars(kind) if not name.startswith("_")
}
"""The method of each hook, by the name of its protocol. A `fault` has one argument or three: it has two protocols."""


class FoundHooks:
    """The methods of a hooks object; None for those that it does not have.

    Without a `fault` hook, faults are logged: this side's own as errors, with the exception's text and traceback; the
    peer's only at debug level, because it can cause any number of them. A message that cannot be read and gets no
    response is a warning, at most once a second, and so is what broke a connection, unless the peer has only left: that
    is at debug level, too.

    Raises:
        TypeError: A hook is not callable, or is async; or the object has none.
    """

    __slots__ = (*dict.fromkeys(HOOKS.values()), "broken", "handler_fault", "peer_fault", "unanswered")
    call_prepared: Hook | None
    call_started: Hook | None
    call_settled: Hook | None
    request_received: Hook | None
    request_started: Hook | None
    request_served: Hook | None

    def __init__(self, hooks: Hooks | None) -> None:
        found = {name: _find(hooks, name, _checked if name == "call_prepared" else None) for name in HOOKS.values()}
        if hooks is not None and not any(found.values()):
            raise TypeError(f"hooks must have a method such as request_served: {type(hooks).__name__} has none")
        # The hooks with a trace context replace those without one: each call gets one trace.
        for name, other in (("call_prepared", "call_started"), ("request_received", "request_started")):
            found[other] = None if found[name] else found[other]
        told = found.pop("fault")
        for name, hook in found.items():
            setattr(self, name, hook)
        # The signature tells which `fault` it is, once: a call that raises TypeError may have failed inside the hook.
        names_handler = told is not None and _takes_three(hooks.fault)  # type: ignore[union-attr]
        fault = (lambda error: told(error, None, None)) if told and names_handler else told
        self.fault: Hook = fault or log_fault
        self.peer_fault: Hook = fault or log_peer_fault
        self.unanswered: Hook = fault or log_unanswered
        self.broken: Hook = fault or log_broken
        self.handler_fault: Hook = internal_error
        if told is not None:
            self.handler_fault = told if names_handler else lambda error, *_: told(error)


def trace_in(members: object) -> dict[str, str]:
    """Return the trace context among the members of a message."""
    if not isinstance(members, Mapping):
        return {}
    return {name: value for name in TRACE_MEMBERS if isinstance(value := members.get(name), str)}


def trace_in_headers(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return the trace context among headers with names in lower case."""
    # Latin-1 decodes any bytes. The hook checks the values of the peer: W3C Trace Context has a stricter grammar.
    found = {name: headers.get(name.encode()) for name in TRACE_MEMBERS}
    return {name: value.decode("latin-1") for name, value in found.items() if value is not None}


def _takes_three(hook: Hook) -> bool:
    try:
        inspect.signature(hook).bind(None, None, None)
    except (TypeError, ValueError):  # ValueError: some builtins have no signature
        return False
    return True


def _checked(trace: Any, context: dict[str, str]) -> tuple[Any, dict[str, str]]:
    """Return what `call_prepared` returned. Raises TypeError if the trace context would make the message invalid."""
    # The context becomes members of a message, or HTTP headers: other names could mean something else there, and text
    # that is not ASCII could not be sent over HTTP.
    for name, text in context.items():
        if name not in TRACE_MEMBERS or not isinstance(text, str) or not text.isascii():
            raise TypeError("a trace context may contain only the ASCII strings traceparent and tracestate")
    return trace, context


def _find(hooks: object, name: str, check: Hook | None = None) -> Hook | None:
    method = getattr(hooks, name, None)
    check_callable(f"the hook {name}", method)
    if method is None:
        return None
    hook = method if check is None else lambda *arguments: check(*method(*arguments))
    return partial(run_callback, log_fault, hook)


def log_fault(error: BaseException) -> None:
    """Log a fault of this side as an error, with its traceback."""
    # One that was made here but not raised, such as a StateError for an unknown id, has no traceback to show.
    if error.__traceback__ is None:
        logger.error("%s: %s", type(error).__qualname__, error)
    else:
        logger.error("an exception in a callback or a hook", exc_info=error)


def log_peer_fault(error: BaseException) -> None:
    """Log a fault of the peer at debug level."""
    logger.debug("%s: %s", type(error).__qualname__, error)


_unanswered: Final = Seldom()


def log_unanswered(error: BaseException) -> None:
    """Log a message of the peer that cannot be read and gets no response: as a warning at most once a second, otherwise
    at debug level."""
    if (left_out := _unanswered.take(time.monotonic())) is None:
        log_peer_fault(error)
    else:
        logger.warning("a message of the peer cannot be read, and gets no response: %s%s", error, left_out)


_broken: Final = Seldom()


def log_broken(error: BaseException) -> None:
    """Log what broke a connection as a warning, at most once a second; at debug level if the peer has only left."""
    cause = error.__cause__ if isinstance(error, ConnectionLost) else error
    if isinstance(cause, (ConnectionError, EOFError, TimeoutError)):
        log_peer_fault(error)
    elif (left_out := _broken.take(time.monotonic())) is not None:
        logger.warning("a connection broke: %s%s", error, left_out)


_OUTCOMES: Final = (
    ((ParseError, InvalidResponse, HttpStatusError), Outcome.FAULT),
    (CallTimeout, Outcome.TIMEOUT),
    (ConnectionLost, Outcome.LOST),
)


def outcome_of(error: BaseException | None) -> tuple[Outcome, int | None]:
    """Return how a call settled, by the exception that it raised (None: it returned a result), and the error's code."""
    if error is None:
        return Outcome.RESULT, None
    if isinstance(error, RpcError):
        return Outcome.ERROR, error.code
    # Any other exception means that this side ended the call, for example by cancelling its task.
    return next((outcome for kinds, outcome in _OUTCOMES if isinstance(error, kinds)), Outcome.CANCELLED), None


class Exchange:
    """A context manager in which a client sends messages and reads the responses. This one has no hooks."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        pass

    def headers(self, given: Mapping[str, str] | None) -> Mapping[str, str] | None:
        """Return the headers to send: the given ones, and the trace context."""
        return given

    def settled(self, results: list[Any]) -> list[Any]:
        """Report the results of the calls, where exceptions are failures, and return them."""
        return results


_UNOBSERVED: Final = Exchange()


class _ObservedExchange(Exchange):
    """An exchange that is reported to hooks.

    A header can name one trace context, so messages that are sent together carry none.
    """

    __slots__ = ("_calls", "_carrier", "_hooks", "_started", "_traces")

    def __init__(self, hooks: FoundHooks, calls: Mapping[int | None, str]) -> None:
        self._hooks = hooks
        self._calls = dict(calls)
        self._carrier: dict[str, str] = {}
        self._traces: dict[int | None, Any] = {}

    def __enter__(self) -> Self:
        prepared, started = self._hooks.call_prepared, self._hooks.call_started
        for id, method in self._calls.items():
            if prepared is not None:
                # A hook that failed has returned None, and the call continues without a trace.
                self._traces[id], self._carrier = prepared(id, method) or (None, {})
            elif started is not None and id is not None:
                self._traces[id] = started(id, method)
        self._started = time.monotonic()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        # After `settled` no call is left. Otherwise the whole exchange failed, and so did all its calls.
        self._settle([error] * len(self._calls))

    def headers(self, given: Mapping[str, str] | None) -> Mapping[str, str] | None:
        return {**self._carrier, **(given or {})} if len(self._calls) == 1 else given

    def settled(self, results: list[Any]) -> list[Any]:
        self._settle(results)
        return results

    def _settle(self, results: list[Any]) -> None:
        settled, calls = self._hooks.call_settled, self._calls
        # Emptied first: `__exit__` settles the remaining calls, and each call must be reported once.
        self._calls = {}
        seconds = time.monotonic() - self._started
        for (id, method), result in zip(calls.items(), results, strict=True):
            if id is not None and settled is not None:
                outcome, code = outcome_of(result if isinstance(result, BaseException) else None)
                settled(self._traces.get(id), id, method, outcome, code, seconds)


def exchange(hooks: FoundHooks | None, calls: Mapping[int | None, str]) -> Exchange:
    """Return the context in which a client sends calls by id, or a notification with the id None."""
    return _UNOBSERVED if hooks is None else _ObservedExchange(hooks, calls)
