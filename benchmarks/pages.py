"""What the benchmarks write: tables into pages, each between two comments that name it, and pictures of figures."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
README: Final = HERE.parent / "README.md"
DOCS: Final = HERE.parent / "docs"
MARKED: Final = re.compile(r"(<!-- (\w+): python -m [\w.]+[^>]*-->\n).*?(\n<!-- end of \2 -->)", re.DOTALL)


def markdown(rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table. The first row is the header, and all rows have the same length."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def shown(nanoseconds: float) -> str:
    """Return a time with its unit."""
    for unit, size in (("ms", 1e6), ("\u00b5s", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def with_tables(text: str, tables: Mapping[str, str]) -> str:
    """Return a page with these tables, by name, in the place of those that it has."""
    return MARKED.sub(
        lambda found: f"{found[1]}\n{tables[found[2]]}\n{found[3]}" if found[2] in tables else found[0], text
    )


def write(tables: Mapping[str, str], *pages: Path) -> None:
    for page in pages:
        page.write_text(with_tables(page.read_text(encoding="utf-8"), tables), encoding="utf-8")


def digest(figures: dict[str, Any]) -> str:
    """Return a hash of the figures, which their picture contains. The rows of `calls.py` are on no picture."""
    drawn = {name: value for name, value in figures.items() if name != "nanoseconds"}
    works = figures.get("nanoseconds", {}).items()
    drawn["nanoseconds"] = {work: found for work, found in works if not work.startswith("call")}
    return hashlib.sha256(json.dumps(drawn, sort_keys=True).encode()).hexdigest()[:16]


def save(figure: Any, output: Path, figures: dict[str, Any]) -> None:
    """Write a picture. The same figures always give the same file."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": output.stem, "svg.fonttype": "none"}):
        figure.savefig(output, metadata={"Date": None, "Description": digest(figures)})
