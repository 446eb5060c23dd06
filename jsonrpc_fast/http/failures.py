"""User callbacks of an HTTP server: an exception fails only the current request.

Rules, besides those of `handlers.failures`:
  - An endpoint of JSON-RPC leaves an exception to the server, which sends 500 and logs it, as for any application. MCP
    does both itself, because no log may show a token. A `Refusal` becomes the response.
"""

from __future__ import annotations

from collections.abc import Callable

from ..handlers.failures import is_failure
from .requests import Refusal


class UserFailures:
    """A context manager around the call of a user's function.

        with UserFailures("The user could not be identified.", log):
            user = find_user(scope)

    Args:
        reason: The text of the response if the request is refused because of a failure.
        log: Called with the exception in that case. None: every failure becomes an `Exception`.

    Raises:
        Refusal: The function raised it, or failed (500) and there is a `log`.
        RuntimeError: The function raised SystemExit or a foreign cancellation.
        Exception: Any other exception of the function.
    """

    __slots__ = ("_log", "_reason")

    def __init__(self, reason: str = "", log: Callable[[BaseException], object] | None = None) -> None:
        self._reason = reason
        self._log = log

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not is_failure(error) or error is None or isinstance(error, Refusal):
            return
        if self._log is not None:
            self._log(error)
            raise Refusal(500, self._reason) from None
        if not isinstance(error, Exception):
            raise RuntimeError(f"a function raised {type(error).__name__}") from error
