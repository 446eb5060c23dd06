"""A server of the MCP SDK for Python with two tools, over stdio."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("peer")


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


@server.tool()
def repeat(text: str, times: int) -> str:
    return text * times


if __name__ == "__main__":
    server.run("stdio")
