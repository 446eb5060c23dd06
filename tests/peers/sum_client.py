"""A client of the MCP SDK for Python: `sum_client.py COMMAND`. It prints what the server sends."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters, stdio_client


async def main(command: list[str]) -> None:
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        initialized = await session.initialize()
        tools = await session.list_tools()
        total = await session.call_tool("add", {"a": 2, "b": 3})
        repeated = await session.call_tool("repeat", {"text": "\u2713\u2028", "times": 100_000})
        wrong = await session.call_tool("add", {"a": "x", "b": 3})
        seen = [
            initialized.server_info.name,
            [tool.name for tool in tools.tools],
            total.content[0].text,
            len(repeated.content[0].text),
            wrong.is_error,
        ]
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(sys.argv[1:]), 50))
