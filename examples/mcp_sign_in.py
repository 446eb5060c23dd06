"""An MCP client that signs a person in, in the browser, and lists the tools. It needs the extra `mcp-client-oauth`.

python examples/mcp_sign_in.py https://example.org/mcp
"""

import asyncio
import sys

from jsonrpc_fast import mcp
from jsonrpc_fast.errors import SignInError


async def main(url: str) -> None:
    try:
        async with mcp.connect(url, auth="oauth", timeout=30) as client:
            for tool in await client.list_tools():
                print("tool", tool["name"])
    except SignInError as error:
        sys.exit(str(error))


if len(sys.argv) != 2:
    sys.exit(__doc__)
asyncio.run(main(sys.argv[1]))
