"""Servers of the MCP SDK for Python on stdin and stdout. The two transports differ in one import.

    python -m benchmarks.mcp_servers session|echo sdk|fast

`session` is the SDK's server with one tool. `echo` responds directly to the messages of the read stream, so that only
the transport is measured.
"""

from __future__ import annotations

import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

TEXT = "hello world"


async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=TEXT)])


async def session(stdio_server: Any) -> None:
    server: Server[Any] = Server("benchmark", on_call_tool=call_tool)
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


async def echo(stdio_server: Any) -> None:
    result = {"content": [{"type": "text", "text": TEXT}], "isError": False}
    async with stdio_server() as (read_stream, write_stream), write_stream:
        async for item in read_stream:
            response = types.JSONRPCResponse(jsonrpc="2.0", id=item.message.id, result=result)
            await write_stream.send(SessionMessage(response))


def main() -> None:
    work, transport = sys.argv[1:]
    if transport == "sdk":
        from mcp.server.stdio import stdio_server
    else:
        from jsonrpc_fast.adapters.mcp import stdio_server
    anyio.run({"session": session, "echo": echo}[work], stdio_server)


if __name__ == "__main__":
    main()
