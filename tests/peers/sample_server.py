# may be forked
"""A small server of this package on stdin and stdout."""

from __future__ import annotations

import asyncio
import sys

from jsonrpc_fast.mcp.server.context import Context
from jsonrpc_fast.mcp.server.server import Server

server = Server("sample", "1.0", page_size=2)


@server.tool()
def add(a: int, b: int = 1) -> dict[str, int]:
    """Adds two numbers."""
    return {"sum": a + b}


@server.tool()
async def count(to: int, context: Context) -> str:
    for number in range(1, to + 1):
        context.report_progress(number, to)
        await asyncio.sleep(0.02)  # clients of the TypeScript SDKs lose the progress that comes with the response
    context.log("warning", f"counted to {to}")
    return context.revision.version


@server.tool()
def grow() -> str:
    """Register another tool."""
    server.tool("grown")(lambda: "I am new")
    return "done"


@server.prompt()
def greet(name: str) -> str:
    return f"Hello {name}"


@server.resource("memo://{name}", mime_type="text/plain")
def memo(name: str) -> str | None:
    return f"about {name}" if name != "none" else None


if __name__ == "__main__":
    sys.exit(server.serve_stdio())
