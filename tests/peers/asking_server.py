# may be forked
"""A server of this package on stdin and stdout whose functions call the client."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from jsonrpc_fast.mcp.server.context import Context
from jsonrpc_fast.mcp.server.server import Server

server = Server("asking", "1.0")


def form(message: str, **properties: Any) -> dict[str, Any]:
    """Return the params of an elicitation."""
    return {"message": message, "requestedSchema": {"type": "object", "properties": properties}}


@server.tool()
async def introduce(context: Context) -> str:
    """Ask for a name, and then for two things at once."""
    who = await context.call("elicitation/create", form("Who?", name={"type": "string"}))
    if who["action"] != "accept":
        return who["action"]
    content = {"type": "text", "text": f"Greet {who['content']['name']}."}
    said, roots = await asyncio.gather(
        context.call("sampling/createMessage", {"messages": [{"role": "user", "content": content}], "maxTokens": 9}),
        context.call("roots/list"),
    )
    return f"{said['content']['text']} {roots['roots'][0]['uri']}"


@server.prompt()
async def where(context: Context) -> str:
    return (await context.call("roots/list"))["roots"][0]["uri"]


@server.resource("memo://where")
async def memo(context: Context) -> str:
    return (await context.call("roots/list"))["roots"][0]["uri"]


if __name__ == "__main__":
    sys.exit(server.serve_stdio())
