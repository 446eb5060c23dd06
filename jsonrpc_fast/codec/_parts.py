"""The parts of many plain values in one call, to search large payloads; and the bounds of this search."""

from __future__ import annotations

import dataclasses
import gc
import sys
from typing import Any, Final

from ..errors import EncodeError


def _parts_of(*values: Any) -> list[Any]:
    parts: list[Any] = []
    for value in values:
        if type(value) is dict:
            parts += list(value)
            parts += list(value.values())
        elif type(value) is list or type(value) is tuple:
            parts += value
    return parts


# `gc.get_referents` visits the parts in C (`tp_traverse`), many values in one call. A dict, a list and a tuple refer
# only to their parts, and the scalars of JSON to nothing. Without the GIL the collector stops all threads in each call;
# PyPy has a different collector.
is_fast = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
parts_of = gc.get_referents if is_fast else _parts_of
"""The keys, values and items of dicts, lists and tuples; other JSON values have no parts."""

MAX_WRITTEN_DEPTH: Final = 254
"""How deep orjson writes dicts and lists."""

TOO_MANY_DIGITS: Final = "an int has more digits than CPython converts, as sys.set_int_max_str_digits sets"

WIDE_LEVEL: Final = 1_000_000
"""A level with more values is left to a slower check: it may be due to a cycle, or to a few shared values, whose number
doubles with each level."""

# The descriptor of `type` itself, because a metaclass could override the attribute of a class.
members_of: Final = type.__dict__["__dict__"].__get__
"""Returns the members that a class itself defines."""


def fields_of(value: Any) -> list[tuple[Any, Any]]:
    """Return the names and values that orjson writes for a dataclass: its `__dict__`, or its fields where it has slots.

    Raises:
        EncodeError: A slot has no value: orjson 3.13 would end the process.
    """
    kind = type(value)
    members = getattr(value, "__dict__", None)
    if members is not None and "__slots__" not in members_of(kind):
        return [pair for pair in list(members.items()) if type(pair[0]) is not str or not pair[0].startswith("_")]
    names = [field.name for field in dataclasses.fields(kind) if not field.name.startswith("_")]
    try:
        return [(name, getattr(value, name)) for name in names]
    except AttributeError:
        raise EncodeError(f"a field of {kind.__name__} has no value") from None
