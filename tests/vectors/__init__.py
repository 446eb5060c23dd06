"""Data that both backends read: one JSON object for each row, literal texts and their expected results.

rules.ndjson            the rules of docs/rules.md, row by row, written by hand: a text and its result in each preset
peers.ndjson            messages that programs write, and their kind or fault in three presets
faults_of_texts.ndjson  texts that are not JSON or not UTF-8, and the byte at which they stop being it
utf_8.ndjson            characters that strings may hold
numbers.ndjson          tokens of numbers, and the number that is written exactly so, or null
exact_values.ndjson     texts with integers beyond 64 bits, and their values
wide_numbers.ndjson     texts with long numbers, and the byte of the fault

A text that is not UTF-8 is the member `bytes`, in which the characters U+0000 to U+00FF stand for bytes.

A result is `{"request": [id, method, params]}`, `{"notification": [method, params]}`, `{"result": [id, value]}`,
`{"error": [id, code, message, [data]]}`, each with the members that are kept as `extra`; a fault
`{"fault": code, "id": …, "index": …, "reply": …}`, which is one of the text if it has an `offset`; or a list of these.
The default of a preset is `jsonrpc`; of a revision of MCP, `mcp`; of 2026-07-28, the result of 2025-11-25; of `acp`,
that of `lsp`; of `client`, that of `lenient`.
`text_only` says that a dict of the text does not show the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from ..support.describe import Description, error, fault, notification, request, result, text_fault

PRESET_NAMES = (
    "jsonrpc",
    "lenient",
    "client",
    "jsonrpc-1",
    "lsp",
    "mcp-2024-11-05",
    "mcp-2025-03-26",
    "mcp-2025-06-18",
    "mcp-2025-11-25",
    "mcp-2026-07-28",
)
_MAKERS = {"request": request, "notification": notification, "result": result, "error": error}


class Vector(NamedTuple):
    """A text, its result in each preset, and whether a dict of it shows the same."""

    row: str
    text: bytes
    expected: dict[str, Description]
    text_only: bool


def read(name: str) -> list[dict[str, Any]]:
    """Return the rows of a file, whose `text` is bytes."""
    lines = (Path(__file__).parent / f"{name}.ndjson").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    for row in found:
        if "bytes" in row:
            row["text"] = row.pop("bytes").encode("latin-1")
        elif "text" in row:
            row["text"] = row["text"].encode()
    return found


def described(item: Any) -> Description:
    """Return the result of a row as `describe` writes it."""
    if isinstance(item, list):
        return [described(each) for each in item]
    if "fault" in item:
        members = dict(item)
        make = text_fault if "offset" in item else fault
        return make(members.pop("fault"), **members)
    members = dict(item)
    extra = [{"extra": members.pop("extra")}] if "extra" in members else []
    [(kind, values)] = members.items()
    return *_MAKERS[kind](*values), *extra


def _vector(row: dict[str, Any]) -> Vector:
    mcp = row.get("mcp", row["jsonrpc"])
    newest = row.get("mcp-2025-11-25", mcp)
    inherited = {
        "mcp-2025-11-25": newest,
        "mcp-2026-07-28": newest,
        "client": row.get("lenient", row["jsonrpc"]),
    }
    expected = {
        name: described(row.get(name, inherited.get(name, mcp if name.startswith("mcp") else row["jsonrpc"])))
        for name in PRESET_NAMES
    }
    return Vector(row["row"], row["text"], expected, row.get("text_only", False))


VECTORS = [_vector(row) for row in read("rules")]
