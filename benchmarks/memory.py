"""Measure the memory of a decoded message with tracemalloc, which counts everything that Python allocates.

The text is released after decoding, so it only counts if a contestant keeps it or a part of it. Strings that all
messages share, such as the names of members, are made before the measurement.
"""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any, Final

from . import peers
from .contests import Contestant, decoders
from .data import payloads
from .pages import markdown

MESSAGES: Final = ("tiny_request", "small_request", "tools_call_217", "tools_call_325", "tools_call_response")
DOCUMENTS: Final = ("tools_list_14k", "completion_80k", "logs_1m", "blob_1m")
CONTESTANTS: Final = (
    peers.CORE,
    peers.CORE_RAW,
    peers.ORJSON,
    peers.MSGSPEC,
    peers.MSGSPEC_UNTRACKED,
    peers.MSGSPEC_RAW,
    peers.PYDANTIC_CORE,
    peers.PYDANTIC,
)
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
            if contestant.name in CONTESTANTS
        }
        for name in (*MESSAGES, *DOCUMENTS)
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


def table(figures: dict[str, Any]) -> str:
    """Return the memory as Markdown: bytes per message for small messages, MB per MB of text for large ones."""
    found: Kept = figures["bytes_kept"]
    names = [name for name in CONTESTANTS if any(name in by_name for by_name in found.values())]
    rows: list[tuple[str, ...]] = [("payload", *names)]
    sizes = {name: len(payload.text) for name, payload in payloads().items()}
    for payload, by_name in found.items():
        unit, scale = ("bytes", 1.0) if payload in MESSAGES else ("MB per MB", 1 / sizes[payload])
        shown = "{:,.0f}" if payload in MESSAGES else "{:.2f}"
        cells = [shown.format(by_name[name] * scale) if name in by_name else "" for name in names]
        rows.append((f"{payload}, {unit}", *cells))
    return markdown(rows)
