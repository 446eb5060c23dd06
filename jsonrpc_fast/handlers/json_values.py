"""Conversion of results of functions to JSON types, and of strings that contain JSON to values."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import PurePath
from typing import Any, Final

from ..codec._json import loads
from ..errors import EncodeError
from .depth import check_depth
from .params.annotations import is_from_pydantic
from .params.types import msgspec_module

_msgspec = msgspec_module()


def to_json(value: Any) -> Any:
    """Convert a value to JSON types: dicts, lists or tuples, strings, numbers, booleans, None. Containers are copied.

    Raises:
        EncodeError: The value has no JSON form.
    """
    try:
        check_depth(value, _to_basic)
        return _msgspec.to_builtins(value, str_keys=True, enc_hook=_to_basic)
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(str(error)) from error


def json_of(text: str) -> Any:
    """Return the value of a string that is JSON, or Python's True, False or None; any other string unchanged."""
    try:
        value = _PYTHON_TEXTS[text] if text in _PYTHON_TEXTS else loads(text)
    except ValueError:
        return text
    return text if isinstance(value, str) else value


def _to_basic(value: Any) -> Any:
    """Convert a value that msgspec cannot write to one that it can write."""
    core = sys.modules.get("pydantic_core")
    if core is not None and is_from_pydantic(type(value)):
        return core.to_jsonable_python(value)
    # msgspec writes the exact types only, so subclasses and other containers come here.
    for base, convert in _BASES.items():
        if isinstance(value, base):
            return convert(value)
    raise TypeError(f"{type(value).__qualname__} is not a JSON value")


_PYTHON_TEXTS: Final = {"True": True, "False": False, "None": None}
"""Literals of Python that language models write in place of JSON's true, false and null."""

# In order: a str is a Sequence, too.
_BASES: Final[dict[type, Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    Mapping: dict,
    AbstractSet: list,
    deque: list,
    Sequence: list,
    PurePath: str,
}
