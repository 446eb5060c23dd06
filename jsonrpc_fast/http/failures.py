"""Functions that the user gave to an HTTP server: a failure of one fails the request that called it, and nothing else.

Rules:
  - an endpoint of JSON-RPC leaves an exception to the server, which answers with 500 and logs it, as any application
    does. MCP does both itself, because no log may show a token. A `Refusal` is the answer;
  - SystemExit is a failure like any other, as that of a handler is;
  - so is a cancellation that nobody asked for, such as that of a future which the function awaits. The cancellation of
    the task itself passes on. Before Python 3.11, where tasks do not count their cancellations, any passes on.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from ..errors import HANDLER_FAILURES
from ..handlers.cancellation import is_stray
from .requests import Refusal


class PlainFailures:
    """A context in which a function of the user is called: whatever fails raises an `Exception`.

        with PlainFailures():
            user = find_user(scope)

    Raises:
        RuntimeError: The function raised SystemExit, or a cancellation that nobody asked for.
        Exception: What else the function raised.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, SystemExit) or is_stray(error):
            raise RuntimeError(f"a function raised {type(error).__name__}") from error


class RefusedFailures:
    """A context in which a function of the user is called: whatever fails is logged and refused.

        with RefusedFailures("The user cannot be found out.", log):
            user = find_user(scope)

    Args:
        reason: The text of the answer.
        log: Called with the exception.

    Raises:
        Refusal: The function raised it, or failed (500).
    """

    __slots__ = ("_log", "_reason")

    def __init__(self, reason: str, log: Callable[[BaseException], object]) -> None:
        self._reason = reason
        self._log = log

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, Refusal):
            return
        if isinstance(error, HANDLER_FAILURES) or is_stray(error):
            self._log(error)
            raise Refusal(500, self._reason) from None
