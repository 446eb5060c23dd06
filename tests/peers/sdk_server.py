"""A server of the MCP SDK 1 or 2 with a tool that returns a text: sdk_server.py sdk|adapter FOLDER…

The argument `size` of the tool is a key of TEXTS. The folders are added to `sys.path`.
"""

from __future__ import annotations

import random
import sys
from base64 import b64encode
from typing import Any, Final

import anyio
from mcp.server.lowlevel import Server

try:
    import mcp_types as types
except ImportError:  # the SDK before 2.0
    from mcp import types  # type: ignore[no-redef]

SENTENCE: Final = "The quick brown fox jumps over the lazy dog. "
TEXTS: Final = {
    "small": "Lisbon: sunny, 24 degrees",
    "14 KB text": (SENTENCE * 320)[:14_000],
    "80 kB": (SENTENCE * 1800)[:80_000],
    "1 MB blob": b64encode(random.Random(1).randbytes(750_000)).decode(),
    "1 MB with escapes": 'a line with "quotes" and\ttabs\n' * 33_000,
}
"""The texts, by what they represent."""
TOOLS: Final = [
    {
        "name": f"tool{number}",
        "description": "Return the result of a calculation",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]},
    }
    for number in range(540)
]


async def list_tools(*_: Any) -> Any:
    return types.ListToolsResult(tools=[types.Tool.model_validate({"name": "text", "inputSchema": {"type": "object"}})])


async def call_tool(_: Any, params: Any) -> Any:
    return types.CallToolResult(content=[types.TextContent(type="text", text=TEXTS[params.arguments["size"]])])


def make_server() -> Server[Any]:
    """Return the server, made as the installed SDK requires."""
    if hasattr(Server, "call_tool"):
        server: Any = Server("texts")

        async def list_all() -> Any:
            return (await list_tools()).tools

        async def call(name: str, arguments: Any) -> Any:
            return (await call_tool(None, types.CallToolRequestParams(name=name, arguments=arguments))).content

        server.list_tools()(list_all)
        server.call_tool()(call)
        return server
    return Server("texts", on_list_tools=list_tools, on_call_tool=call_tool)


async def main(transport: str) -> None:
    if transport == "sdk":
        from mcp.server.stdio import stdio_server
    else:
        sys.path += sys.argv[2:]
        from jsonrpc_fast.adapters.mcp import stdio_server
    server = make_server()
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
