"""A text and its result in each preset."""

from __future__ import annotations

from typing import NamedTuple

from ..support.describe import Description

PRESET_NAMES = (
    "jsonrpc",
    "lenient",
    "jsonrpc-1",
    "lsp",
    "mcp-2024-11-05",
    "mcp-2025-03-26",
    "mcp-2025-06-18",
    "mcp-2025-11-25",
    "mcp-2026-07-28",
)


class Vector(NamedTuple):
    """A text, its result in each preset, and whether a dict of it shows the same."""

    row: str
    text: bytes
    expected: dict[str, Description]
    text_only: bool


def vector(
    row: str,
    text: str | bytes,
    jsonrpc: Description,
    *,
    text_only: bool = False,
    lenient: Description | None = None,
    jsonrpc_1: Description | None = None,
    lsp: Description | None = None,
    mcp: Description | None = None,
    mcp_2025_03_26: Description | None = None,
    mcp_2025_11_25: Description | None = None,
) -> Vector:
    """The default of a preset is `jsonrpc`; of a revision of MCP, `mcp`; of 2026-07-28, the result of 2025-11-25."""
    mcp = mcp or jsonrpc
    newest = mcp_2025_11_25 or mcp
    expected = (
        jsonrpc,
        lenient or jsonrpc,
        jsonrpc_1 or jsonrpc,
        lsp or jsonrpc,
        mcp,
        mcp_2025_03_26 or mcp,
        mcp,
        newest,
        newest,
    )
    data = text if isinstance(text, bytes) else text.encode()
    return Vector(row, data, dict(zip(PRESET_NAMES, expected, strict=True)), text_only)
