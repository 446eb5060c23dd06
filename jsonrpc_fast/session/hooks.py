"""What a session tells about itself, for metrics and traces.

Hooks are one object with any of these methods. They are looked up once, when the session is made; those that are not
there cost nothing. They are called on the loop's thread, must not block, and are never handed params, results or error
data. An exception out of one goes to the log, and changes nothing else.

    call_started(id, method)                                        a call was sent. What it returns is its `trace`
    call_settled(trace, id, method, outcome, code, seconds)         exactly once for each call that was sent
    request_started(id, method)                                     a handler is about to run, in its own context
                                                                    (`contextvars`). What it returns is its `trace`
    request_served(trace, id, method, outcome, code, seconds)       after the handler, in the same context; `trace` is
                                                                    None when no handler was run
    fault(error)                                                    something went wrong that no caller hears of: a
                                                                    ParseError, a StateError for an answer to no call or
                                                                    an id that is in flight, an exception of a handler
                                                                    or of a callback, an OSError of the channel

id       of the call or of the peer's request; None for a notification
outcome  an `Outcome`
code     the error's code where the outcome is ERROR, else None
seconds  since the start
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any, Final

logger: Final = logging.getLogger("jsonrpc_fast.session")

Hook = Callable[..., Any]


class FoundHooks:
    """The methods that an object of hooks has; None for the others.

    Where nobody takes the faults, they are logged: this side's own as errors, the peer's for debugging only, since it
    can make as many as it likes.
    """

    __slots__ = ("call_settled", "call_started", "fault", "peer_fault", "request_served", "request_started")

    def __init__(self, hooks: object) -> None:
        self.call_started = _find(hooks, "call_started")
        self.call_settled = _find(hooks, "call_settled")
        self.request_started = _find(hooks, "request_started")
        self.request_served = _find(hooks, "request_served")
        fault = _find(hooks, "fault")
        self.fault: Hook = fault or log_fault
        self.peer_fault: Hook = fault or log_peer_fault


def _find(hooks: object, name: str) -> Hook | None:
    method = getattr(hooks, name, None)
    if method is None:
        return None

    def guarded(*arguments: Any) -> Any:
        try:
            return method(*arguments)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            log_fault(error)

    return guarded


def log_fault(error: BaseException) -> None:
    """Logs what kind of fault it is and where it came from. Its text may hold what a peer sent, and is left out."""
    place = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    logger.error("%s%s%s", type(error).__qualname__, "\n" if place else "", place)


def log_peer_fault(error: BaseException) -> None:
    logger.debug("%s: %s", type(error).__qualname__, error)
