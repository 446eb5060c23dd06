"""The parts of many plain values in one call, which is how large payloads are looked at; and the bounds for it."""

from __future__ import annotations

import gc
import sys
from typing import Any, Final


def _parts_of(*values: Any) -> list[Any]:
    parts: list[Any] = []
    for value in values:
        if type(value) is dict:
            parts += list(value)
            parts += list(value.values())
        elif type(value) is list or type(value) is tuple:
            parts += value
    return parts


# `gc.get_referents` visits the parts in C (`tp_traverse`), many values in one call. A dict, a list and a tuple refer to
# their parts alone, and the scalars of JSON to nothing. Without the GIL the collector stops all threads in each call;
# PyPy has another one.
is_fast = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
parts_of = gc.get_referents if is_fast else _parts_of
"""The keys, values and items of dicts, lists and tuples; other values that JSON has are without parts."""

MAX_WRITTEN_DEPTH: Final = 254
"""How deep orjson writes dicts and lists."""

WIDE_LEVEL: Final = 1_000_000
"""A level with more values is left to a slower check: it may be a cycle, or a few values that are shared, whose number
doubles with each level."""

# The descriptor of `type` itself: an attribute of a class could be overridden by its metaclass.
members_of: Final = type.__dict__["__dict__"].__get__
"""Returns the members that a class itself defines."""
