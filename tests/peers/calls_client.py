"""A client of a Python package that lists tools and makes calls over HTTP, and prints what it got.

python calls_client.py sdk1|sdk2|fastmcp URL CALLS

CALLS is an array of names and arguments, in JSON. The output is the names of the tools, the text of each result, the
number of the resources and the names of the prompts.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any


async def use(client: Any, calls: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """Use the server through a client, whose methods have the same names in all packages."""
    tools, resources, prompts = [
        getattr(listed, kind, listed)
        for kind, listed in (
            ("tools", await client.list_tools()),
            ("resources", await client.list_resources()),
            ("prompts", await client.list_prompts()),
        )
    ]
    results = [await client.call_tool(name, arguments) for name, arguments in calls]
    return {
        "tools": sorted(tool.name for tool in tools),
        "texts": [result.content[0].text for result in results],
        "resources": len(resources),
        "prompts": sorted(prompt.name for prompt in prompts),
    }


async def main(package: str, url: str, calls: str) -> dict[str, Any]:
    if package == "sdk1":
        from mcp import ClientSession
        from mcp.client.streamable_http import streamablehttp_client

        async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as session:
            await session.initialize()
            return await use(session, json.loads(calls))
    if package == "sdk2":
        from mcp.client import Client
    else:
        from fastmcp import Client
    async with Client(url) as client:
        return await use(client, json.loads(calls))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 200))))
