"""The members of a message or an error object that JSON-RPC does not define, for both backends."""

from __future__ import annotations

from typing import Any, Final

from ..types import ENVELOPE_MEMBERS
from ._json import Default, dumps

RESERVED_IN_RESPONSES: Final = ENVELOPE_MEMBERS - {"params"}
"""The names that cannot be extra members of a response: `params` has no meaning there."""


def check_extra(extra: object, reserved: frozenset[str]) -> dict[str, Any] | None:
    """Return a copy of extra members; None for an empty dict.

    Raises:
        TypeError: `extra` is neither None nor a dict with keys of type str.
        ValueError: A name is in `reserved`.
    """
    if extra is None:
        return None
    if not isinstance(extra, dict):
        raise TypeError(f"extra must be a dict or None, not {type(extra).__name__}")
    copied = dict(extra)
    for name in copied:
        # A subclass of str may compare equal to a name other than the one that is written.
        if type(name) is not str:
            raise TypeError(f"the names of extra members must be of type str, not {type(name).__name__}")
        if name in reserved:
            raise ValueError(f"{name} is not an extra member")
    return copied or None


def extra_of(obj: dict[Any, Any], known: frozenset[str]) -> dict[str, Any] | None:
    """Return the members of a decoded object whose names are not in `known`; None without any."""
    return {name: value for name, value in obj.items() if type(name) is str and name not in known} or None


def append_extra(text: bytes, extra: object, reserved: frozenset[str], default: Default, option: int) -> bytes:
    """Return an object as JSON with extra members at its end.

    The dict is checked again, because it is mutable.

    Raises:
        EncodeError: A value cannot be written as JSON.
        TypeError, ValueError: As in `check_extra`.
    """
    members = check_extra(extra, reserved)
    return text if members is None else text[:-1] + b"," + dumps(members, default, option)[1:]
