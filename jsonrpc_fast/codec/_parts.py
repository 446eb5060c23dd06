"""The parts of many plain values in one call, which is how large payloads are looked at."""

from __future__ import annotations

import gc
import sys
from typing import Any


def _parts_of(*values: Any) -> list[Any]:
    parts: list[Any] = []
    for value in values:
        if type(value) is dict:
            parts += list(value)
            parts += list(value.values())
        elif type(value) is list or type(value) is tuple:
            parts += value
    return parts


# Without the GIL the collector stops all threads in each call; PyPy has another one.
is_fast = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
parts_of = gc.get_referents if is_fast else _parts_of
"""The keys, values and items of dicts, lists and tuples; other values that JSON has are without parts."""
