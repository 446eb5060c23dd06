"""A server of a Python package over HTTP, for this package's client: python http_server.py sdk1|sdk2|fastmcp PORT."""

from __future__ import annotations

import sys
from typing import Any


def make(package: str, port: int) -> tuple[Any, dict[str, Any]]:
    """Return a server and the options that run it."""
    if package == "sdk1":
        from mcp.server.fastmcp import FastMCP

        return FastMCP("peer", port=port), {"transport": "streamable-http"}
    if package == "sdk2":
        from mcp.server.mcpserver import MCPServer

        return MCPServer("peer"), {"transport": "streamable-http", "port": port}
    from fastmcp import FastMCP as FastMCP4

    return FastMCP4("peer"), {"transport": "http", "port": port, "show_banner": False}


server, options = make(sys.argv[1], int(sys.argv[2]))


@server.tool()
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@server.prompt()
def hello(name: str) -> str:
    """Greet."""
    return f"Hello {name}"


@server.resource("memo://{name}")
def memo(name: str) -> str:
    """Return a memo."""
    return f"about {name}"


server.run(**options)
