"""Write the README's table of ratios from the stored figures: `python -m benchmarks.summary`.

The README has a table because a package index cannot show the plot, which is only in the repository.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from .tables import markdown

HERE: Final = Path(__file__).parent
README: Final = HERE.parent / "README.md"
BEGIN: Final = "<!-- ratios: python -m benchmarks.summary -->\n"
END: Final = "\n<!-- end of ratios -->"

PANELS: Final = [
    ("decode", "tiny_request", "Reading a tiny request"),
    ("decode", "tools_call_325", "Reading an MCP tools/call request"),
    ("decode", "tools_list_14k", "Reading an MCP tools/list response"),
    ("decode", "logs_1m", "Reading a large result"),
    ("encode", "tools_call_response", "Writing an MCP tools/call response"),
    ("call decode_dict", "tools_call_325", "Reading the same request as a dict"),
    ("call encode_dict", "tools_call_325", "Writing a dict"),
    ("stream", "tiny_request", "Reading 64 KB of tiny requests"),
]
"""The rows of the table and the panels of the plot: work, payload, title."""

COLUMNS: Final = {
    "jsonrpc_fast": "jsonrpc_fast",
    "with raw=True": "jsonrpc_fast, raw=True",
    "pure Python": "jsonrpc_fast, pure backend",
    "msgspec Struct": "msgspec Struct",
    "pydantic (MCP SDK)": "MCP SDK's pydantic adapter",
    "json": "json",
}
"""The columns of the table, and the contestant in each."""


def table(figures: dict[str, Any]) -> str:
    """Return the ratios to orjson alone as a Markdown table."""
    rows = [("work", "orjson", *COLUMNS)]
    for work, payload, title in PANELS:
        found = figures["nanoseconds"][work][payload]
        ratios = [f"{found[name] / found['orjson']:.2f}" if name in found else "" for name in COLUMNS.values()]
        rows.append((f"{title} ({figures['sizes'][payload]})", shown(found["orjson"]), *ratios))
    return markdown(rows)


def shown(nanoseconds: float) -> str:
    """Return a time with its unit."""
    for unit, size in (("ms", 1e6), ("\u00b5s", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def digest(figures: dict[str, Any]) -> str:
    """Return a hash of the figures, which the plot contains."""
    return hashlib.sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest()[:16]


def with_table(text: str, figures: dict[str, Any]) -> str:
    """Return the README with the table of these figures. Raises ValueError if a marker is missing."""
    begin = text.index(BEGIN) + len(BEGIN)
    return text[:begin] + "\n" + table(figures) + "\n" + text[text.index(END, begin) :]


def write(figures: dict[str, Any], readme: Path = README) -> None:
    """Write the table of these figures into the README."""
    readme.write_text(with_table(readme.read_text(encoding="utf-8"), figures), encoding="utf-8")


def main() -> None:
    write(json.loads((HERE / "figures.json").read_bytes()))


if __name__ == "__main__":
    main()
