"""The options of a session and the checks of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict

from ..errors import RpcError
from ..transports.options import check_count, check_seconds
from ..types import UNSET, Unset
from .budget import ReplyBudget, ReplyPolicy
from .conventions import Convention
from .hooks import Hooks

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEFAULT_TIMEOUT: Final = 300.0
"""Seconds until a call times out, by default."""

_MINIMUMS: Final = {"max_pending": 1, "max_handlers": 1, "max_inbox": 0, "inbox_bytes": 0, "reply_bytes": 0}


class SessionOptions(TypedDict, total=False):
    """The keyword options of `Session`, which describes them."""

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
    """Check the values of options.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value is out of range.
    """
    given: dict[str, Any] = dict(options)
    for name, minimum in _MINIMUMS.items():
        if name in given:
            check_count(name, given[name], minimum, may_be_none=False)
    check_seconds("timeout", given.get("timeout"), may_be_infinite=True)
    if "close_seconds" in given:
        check_seconds("close_seconds", given["close_seconds"], may_be_none=False)
    if given.get("end_seconds") is not UNSET:
        check_seconds("end_seconds", given.get("end_seconds"))
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
