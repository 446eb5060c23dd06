"""Hooks: what a session reports about itself, for metrics and traces.

Hooks are one object with any of these methods. They are looked up once, when the session is created; absent ones cost
nothing. They are called on the loop's thread, must not block, and never receive params, results or error data. An
exception that one of them raises is logged and otherwise ignored.

Each method has a protocol of its own below, and `Hooks` is any of them. Their arguments:

    trace    what `call_started` or `request_started` returned, such as a span; None without that hook
    id       of the call or of the peer's request; None for a notification
    outcome  an `Outcome`
    code     the error's code if the outcome is ERROR, else None
    seconds  since the start
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from .._repr import shorten
from ..errors import LOOP_EXITS
from ..types import MessageId
from .tracker import Outcome

logger: Final = logging.getLogger("jsonrpc_fast.session")

Hook = Callable[..., Any]


class CallStartedHook(Protocol):
    def call_started(self, id: int | str, method: str, /) -> Any:
        """A call was sent."""


class CallSettledHook(Protocol):
    def call_settled(
        self, trace: Any, id: int | str, method: str, outcome: Outcome, code: int | None, seconds: float, /
    ) -> object:
        """A call settled. Called exactly once for each call that was sent."""


class RequestStartedHook(Protocol):
    def request_started(self, id: MessageId, method: str, /) -> Any:
        """A handler is about to be called, in a context of its own (`contextvars`). An async one may have to wait."""


class RequestServedHook(Protocol):
    def request_served(
        self, trace: Any, id: MessageId, method: str, outcome: Outcome, code: int | None, seconds: float, /
    ) -> object:
        """A handler has ended; called in the same context. `trace` is also None if no handler ran."""


class FaultHook(Protocol):
    def fault(self, error: BaseException, /) -> object:
        """Something went wrong that no exception reports to a caller.

        Args:
            error: A ParseError; a StateError for an answer to no call, for a request with an id in flight, or for a
                message that the session had no room or no time to serve; an exception of a handler or a callback; an
                OSError of the transport.
        """


Hooks: TypeAlias = CallStartedHook | CallSettledHook | RequestStartedHook | RequestServedHook | FaultHook
"""An object with at least one of these methods."""


class FoundHooks:
    """The methods that a hooks object has; None for the others.

    Without a `fault` hook, faults are logged: this side's own as errors, with the exception's text and traceback; the
    peer's at debug level only, because it can cause any number of them.
    """

    __slots__ = (
        "call_settled",
        "call_started",
        "fault",
        "handler_fault",
        "peer_fault",
        "request_served",
        "request_started",
    )

    def __init__(self, hooks: Hooks | None) -> None:
        self.call_started: Hook | None = _find(hooks, "call_started")
        self.call_settled: Hook | None = _find(hooks, "call_settled")
        self.request_started: Hook | None = _find(hooks, "request_started")
        self.request_served: Hook | None = _find(hooks, "request_served")
        fault = _find(hooks, "fault")
        self.fault: Hook = fault or log_fault
        self.peer_fault: Hook = fault or log_peer_fault
        self.handler_fault: Hook = log_handler_fault if fault is None else lambda error, *_: fault(error)


def _find(hooks: object, name: str) -> Hook | None:
    method = getattr(hooks, name, None)
    if method is None:
        return None

    def guarded(*arguments: Any) -> Any:
        try:
            return method(*arguments)
        except LOOP_EXITS:
            raise
        except BaseException as error:
            log_fault(error)

    return guarded


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
