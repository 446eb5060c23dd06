"""Write the README's bars and its table of ratios from the stored figures: `python -m benchmarks.summary`.

Both are text because a package index cannot show a picture of the repository.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from .tables import markdown

HERE: Final = Path(__file__).parent
README: Final = HERE.parent / "README.md"
BEGIN: Final = "<!-- {}: python -m benchmarks.summary -->\n"
END: Final = "\n<!-- end of {} -->"

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


BLOCK: Final = "\u2588"

BARS: Final = {
    "jsonrpc_fast, rules checked": "jsonrpc_fast",
    "orjson, nothing checked": "orjson",
    "json, nothing checked": "json",
    "the MCP SDK's pydantic models": "MCP SDK's pydantic adapter",
}
"""The bars, and the contestant of each."""


def bars(figures: dict[str, Any]) -> str:
    """Return the ratios to orjson alone for one message as bars in a block of text."""
    found = figures["nanoseconds"]["decode"]["tools_call_325"]
    width = max(map(len, BARS))
    ratios = {label: found[name] / found["orjson"] for label, name in BARS.items()}
    lines = [f"{label:{width}}  {BLOCK * max(1, round(at * 2))} {at:.2f}\u00d7" for label, at in ratios.items()]
    return "\n".join(["```text", *lines, "```"])


def table(figures: dict[str, Any]) -> str:
    """Return the ratios to orjson alone as a Markdown table."""
    rows = [("work", "orjson", *COLUMNS)]
    for work, payload, title in PANELS:
        found = figures["nanoseconds"][work][payload]
        ratios = [f"{found[name] / found['orjson']:.2f}\u00d7" if name in found else "" for name in COLUMNS.values()]
        rows.append((f"{title} ({figures['sizes'][payload]})", shown(found["orjson"]), *ratios))
    return markdown(rows)


def shown(nanoseconds: float) -> str:
    """Return a time with its unit."""
    for unit, size in (("ms", 1e6), ("\u00b5s", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def digest(figures: dict[str, Any]) -> str:
    """Return a hash of the figures, which the plot contains. The rows of `calls.py` are on no plot."""
    shown = {name: value for name, value in figures.items() if name != "nanoseconds"}
    works = figures.get("nanoseconds", {}).items()
    shown["nanoseconds"] = {work: found for work, found in works if not work.startswith("call")}
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]


def with_figures(text: str, figures: dict[str, Any]) -> str:
    """Return the README with the bars and the table of these figures. Raises ValueError if a marker is missing."""
    for name, part in (("bars", bars(figures)), ("ratios", table(figures))):
        begin = text.index(BEGIN.format(name)) + len(BEGIN.format(name))
        text = text[:begin] + "\n" + part + "\n" + text[text.index(END.format(name), begin) :]
    return text


def write(figures: dict[str, Any], readme: Path = README) -> None:
    """Write the bars and the table of these figures into the README."""
    readme.write_text(with_figures(readme.read_text(encoding="utf-8"), figures), encoding="utf-8")


def main() -> None:
    write(json.loads((HERE / "figures.json").read_bytes()))


if __name__ == "__main__":
    main()
