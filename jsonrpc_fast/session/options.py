"""The options of a session, and what their values have to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Final, TypedDict

from ..codes import UNSET, Unset
from ..errors import RpcError
from .conventions import Convention
from .hooks import Hooks
from .peer import ReplyBudget, ReplyPolicy

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEFAULT_TIMEOUT: Final = 300.0
"""Seconds until a call is given up, unless something else is asked for."""

_MINIMUMS: Final = {"max_pending": 1, "max_handlers": 1, "max_inbox": 0, "inbox_bytes": 0, "reply_bytes": 0}


class SessionOptions(TypedDict, total=False):
    """Every keyword option of `Session`, which describes them."""

    timeout: float | None
    convention: Convention | None
    hooks: Hooks | None
    errors: Mapping[int, type[RpcError]] | None
    reply_policy: ReplyPolicy | ReplyBudget
    id_factory: Callable[[], int | str] | None
    unique_ids: bool
    max_pending: int
    max_handlers: int
    max_inbox: int
    inbox_bytes: int
    reply_bytes: int
    close_seconds: float
    end_seconds: float | Unset | None


def check_options(**options: Unpack[SessionOptions]) -> None:
    """Checks the values of options.

    Raises:
        TypeError: A value is of the wrong type.
        ValueError: A value is out of range.
    """
    given: dict[str, Any] = dict(options)
    for name, minimum in _MINIMUMS.items():
        if name in given:
            value = given[name]
            if type(value) is not int:
                raise TypeError(f"{name} must be an int, not {type(value).__name__}")
            if value < minimum:
                raise ValueError(f"{name} must be {minimum} or more")
    if given.get("timeout") is not None:
        check_seconds("timeout", given["timeout"], may_be_infinite=True)
    if "close_seconds" in given:
        check_seconds("close_seconds", given["close_seconds"])
    if given.get("end_seconds", UNSET) is not UNSET and given["end_seconds"] is not None:
        check_seconds("end_seconds", given["end_seconds"])
    if not isinstance(given.get("convention"), Convention | None):
        raise TypeError(f"convention must be a Convention, not {type(given['convention']).__name__}")
    if given.get("id_factory") is not None and not callable(given["id_factory"]):
        raise TypeError("id_factory must be callable")
    if not isinstance(given.get("unique_ids", True), bool):
        raise TypeError("unique_ids must be a bool")
    for code, kind in dict(given.get("errors") or {}).items():
        if not isinstance(code, int):
            raise TypeError("errors must have error codes as keys")
        if not (isinstance(kind, type) and issubclass(kind, RpcError)):
            raise TypeError("errors must have subclasses of RpcError as values")


def check_seconds(name: str, value: object, *, may_be_infinite: bool = False) -> None:
    """Raises TypeError or ValueError for what is not a time of 0 seconds or more."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if not value >= 0 or not (isfinite(value) or (may_be_infinite and value == inf)):
        raise ValueError(f"{name} must be 0 seconds or more")
