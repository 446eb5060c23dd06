"""Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence


def markdown(rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table. The first row is the header, and all rows have the same length."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
