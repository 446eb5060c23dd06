"""Measure the memory of a decoded message with tracemalloc, which counts everything that Python allocates.

The text is released after decoding, so it only counts if a contestant keeps it or a part of it. Strings that all
messages share, such as the names of members, are made before the measurement.
"""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any, Final

from .contests import Contestant, decoders
from .data import payloads
from .site import KEEPERS, KEPT

BYTES_DECODED: Final = 300_000
FREE_OBJECTS: Final = 5000
"""More objects than any of CPython's free lists holds."""

Kept = dict[str, dict[str, float]]
"""Bytes per message, by payload and contestant."""


def measure() -> Kept:
    """Return the bytes that one decoded message keeps."""
    messages = payloads()
    return {
        name: {
            contestant.name: kept(contestant, messages[name].text)
            for contestant in decoders(messages[name])
            if contestant.name in KEEPERS
        }
        for name in KEPT
    }


def kept(contestant: Contestant, text: bytes) -> float:
    """Return the bytes that one decoded message keeps after its text is released."""
    names = dict(contestant.names)
    code = compile(contestant.expression, "<contestant>", "eval")
    count = max(2, min(1000, BYTES_DECODED // len(text)))
    messages: list[Any] = [None] * count
    # The first messages make the shared strings, and use up the free lists.
    first = [eval(code, names) for _ in range(count + FREE_OBJECTS * (len(text) < 1000))]
    gc.collect()
    tracemalloc.start()
    try:
        for at in range(count):
            names["data"] = bytes(bytearray(text))  # a text of its own
            messages[at] = eval(code, names)
        del names["data"]
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del first
    return round(size / count, 1)
