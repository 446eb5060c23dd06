"""An MCP client that shows what a server offers, and calls a tool. It needs the extra `mcp`.

python examples/mcp_client.py python examples/mcp_server.py
"""

import asyncio
import sys

from jsonrpc_fast import mcp


async def main(command: list[str]) -> None:
    async with mcp.connect(*command, timeout=30) as client:
        for tool in await client.list_tools():
            print("tool", tool["name"], "-", tool["description"])
        result = await client.call_tool(
            "convert", {"celsius": 20}, on_progress=lambda progress: print(progress["message"])
        )
        print(result["structuredContent"])
        print((await client.read_resource("weather://Rome/now"))["contents"][0]["text"])


if len(sys.argv) < 2:
    sys.exit(__doc__)
asyncio.run(main(sys.argv[1:]))
