"""A server of the Python SDK, over its own stdio transport or the adapter's: `adapter_server.py sdk|fast [uvloop]`."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server

if sys.argv[1] == "sdk":
    from mcp.server.stdio import stdio_server
else:
    from jsonrpc_fast.adapters.mcp import stdio_server


async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema={"type": "object"})])


async def call_tool(context: Any, params: Any) -> types.CallToolResult:
    arguments = params.arguments or {}
    print("a print that must not reach the wire")
    if "progress" in arguments:
        await context.session.report_progress(0.5, 1.0)
    if "hangs" in arguments:
        await anyio.sleep_forever()
    if "letters" in arguments:
        return types.CallToolResult(content=[types.TextContent(text="x" * arguments["letters"])])
    return types.CallToolResult(content=[types.TextContent(text="echo")], structured_content=arguments)


server: Server[Any] = Server("adapter", on_list_tools=list_tools, on_call_tool=call_tool)


async def main() -> None:
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


anyio.run(main, backend_options={"use_uvloop": "uvloop" in sys.argv})
