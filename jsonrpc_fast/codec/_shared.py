"""What both backends do in Python: extra members, paths into `Raw`, numbers, errors of any shape, and pickles."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..codes import is_error_code
from ..errors import EncodeError
from ..profile import Profile
from ..support import INDEX_DIGITS, index_of, pointer_parts
from ..types import ENVELOPE_MEMBERS, T, has_type, plain_int
from ._json import MAX_EXPONENT_DIGITS, Default, dumps, has_long_digits, loads_exact

RESERVED_IN_RESPONSES: Final = ENVELOPE_MEMBERS - {"params"}
"""The names that cannot be extra members of a response: `params` has no meaning there."""


def check_extra(extra: object, reserved: frozenset[str]) -> dict[str, Any] | None:
    """Return a copy of extra members; None for an empty dict. Raises TypeError, and ValueError for a reserved name."""
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
    """Return an object as JSON with extra members at its end. They are checked again, because the dict is mutable."""
    members = check_extra(extra, reserved)
    return text if members is None else text[:-1] + b"," + dumps(members, default, option)[1:]


def find(
    raw: T, path: str | Sequence[str | int], default: Any, part_of: Callable[[T, str | None, int], T | None]
) -> Any:
    """Return what `Raw.get` does.

    `part_of` returns the member of an object with a name, or the item of an array with an index; or None. For a step
    that cannot be a name, the name is None; for one that cannot be an index, the index is -1.
    """
    found: T | None = raw
    for name, index in _steps_of(path):
        found = part_of(found, name, index)  # type: ignore[arg-type]  # not None
        if found is None:
            return default
    return found


def _steps_of(path: object) -> list[tuple[str | None, int]]:
    """The steps of a path, each as a name and as an index."""
    if isinstance(path, str):
        if path and not path.startswith("/"):
            raise ValueError('path must be "" or begin with "/"; or pass a list of names')
        if "~" in path and re.search(r"~(?![01])", path):
            raise ValueError('a "~" in a path must be written "~0"')
        return [(part, index_of(part)) for part in pointer_parts(path)]
    if not isinstance(path, (list, tuple)):
        raise TypeError(f"path must be a str, a list or a tuple, not {type(path).__name__}")
    steps: list[tuple[str | None, int]] = []
    for step in path:
        if isinstance(step, str):
            steps.append((step, -1))
        elif type(step) is int:
            steps.append((None, step if 0 <= step < 10**INDEX_DIGITS else -1))
        else:
            raise TypeError(f"a step of a path must be a str or an int, not {type(step).__name__}")
    return steps


DECIMALS: Final = 1  # floats="decimal"
NO_WIDE_INTEGERS: Final = 2  # big_ints="reject"
"""How a profile reads the numbers of a payload, as bits. Integers are exact, whatever their width."""


def numbers_of(profile: Profile) -> int:
    """Return how a profile reads numbers."""
    numbers = NO_WIDE_INTEGERS if profile.big_ints == "reject" else 0
    return numbers | DECIMALS if profile.floats == "decimal" else numbers


def loads_as(text: bytes, numbers: int) -> Any:
    """Return the value of valid JSON that is at most 1024 deep, with numbers as in `numbers`.

    Raises:
        ValueError: `check_numbers` raises it.
    """
    if numbers & DECIMALS:
        from ._decimals import loads_decimals  # loaded only for such profiles

        return loads_decimals(text)
    return loads_exact(text)


def check_numbers(text: bytes, numbers: int) -> None:
    """Raise ValueError if `loads_as` would: for an integer with more digits than CPython converts, or an exponent that
    is too large."""
    exponent = rb"[0-9][eE][+-]?[0-9]{%d}" % (MAX_EXPONENT_DIGITS + 1)
    if has_long_digits(text) or (numbers & DECIMALS and re.search(exponent, text)):
        loads_as(text, numbers)


def code_and_message(error: Any) -> tuple[int, str]:
    """Return the code and the message of a decoded error of any shape, which the `Error` has as `data`.

    They are those of an object that has them. Otherwise the code is 0, and the message is the text: the string itself,
    or the value as JSON.
    """
    if has_type(error, str):
        return 0, str(error)
    members = error if has_type(error, dict) else {}
    code: Any = members.get("code")
    message: Any = members.get("message")
    if not has_type(message, str):
        try:
            message = dumps(error, _decimal_text).decode()
        except EncodeError:  # too deep, or not decoded from JSON
            message = "the error has no message"
    return plain_int(code) if is_error_code(code) else 0, message


def _decimal_text(value: object) -> str:
    if type(value).__module__ != "decimal":
        raise TypeError
    return str(value)


def remake(backend: str, maker: str, *fields: Any) -> Any:
    """Return what `maker` of the backend that pickled an object makes of its fields, if that backend is loaded;
    otherwise what `maker` of the backend in use does."""
    # A pickle of the core must load where only the pure backend is available, and vice versa.
    module = sys.modules.get(backend) or sys.modules[f"{__package__}._backend"].backend
    return getattr(module, maker)(*fields)
