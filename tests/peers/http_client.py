"""A client of a Python package that uses the server of conformance/ over HTTP and prints what it got.

python http_client.py sdk1|sdk2|fastmcp URL [MODE]

The variable MCP_PREFIX is what a gateway puts in front of the names of tools and prompts.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

PREFIX = os.environ.get("MCP_PREFIX", "")
CONTENT = {"response": "yes"}


class Progress(list[Any]):
    """What was reported, as a callback."""

    async def __call__(self, value: float, total: float | None, message: str | None) -> None:
        self.append([value, total])


async def converse(client: Any, progress: Progress, *, progress_of_call: bool = True) -> dict[str, Any]:
    """Use the server through a client, whose methods have the same names in all packages."""
    listed = await client.list_tools()
    text = await client.call_tool(f"{PREFIX}test_simple_text", {})
    options = {"progress_callback": progress} if progress_of_call else {}
    await client.call_tool(f"{PREFIX}test_tool_with_progress", {}, **options)
    asked = await client.call_tool(f"{PREFIX}test_elicitation", {"message": "Sure?"})
    resource = await client.read_resource("test://static-text")
    prompt = await client.get_prompt(f"{PREFIX}test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
    return {
        "has_tool": f"{PREFIX}test_simple_text" in [tool.name for tool in getattr(listed, "tools", listed)],
        "text": text.content[0].text,
        "progress": progress,
        "asked": asked.content[0].text,
        "resource": getattr(resource, "contents", resource)[0].text,
        "prompt": prompt.messages[0].content.text,
    }


async def sdk1(url: str) -> dict[str, Any]:
    from mcp import ClientSession, types
    from mcp.client.streamable_http import streamablehttp_client

    async def elicit(context: Any, params: Any) -> Any:
        return types.ElicitResult(action="accept", content=CONTENT)

    async with (
        streamablehttp_client(url) as (read, write, _),
        ClientSession(read, write, elicitation_callback=elicit) as session,
    ):
        begun = await session.initialize()
        return {"version": begun.protocolVersion, **await converse(session, Progress())}


async def sdk2(url: str, mode: str) -> dict[str, Any]:
    import mcp_types as types
    from mcp.client import Client

    async def elicit(context: Any, params: Any) -> Any:
        return types.ElicitResult(action="accept", content=CONTENT)

    async with Client(url, mode=mode, elicitation_callback=elicit) as client:
        return {"version": client.protocol_version, **await converse(client, Progress())}


async def fastmcp(url: str) -> dict[str, Any]:
    from fastmcp import Client

    async def elicit(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return CONTENT if response_type is None else response_type(**CONTENT)

    progress = Progress()
    async with Client(url, elicitation_handler=elicit, progress_handler=progress) as client:
        return await converse(client, progress, progress_of_call=False)


if __name__ == "__main__":
    run = {"sdk1": sdk1, "sdk2": sdk2, "fastmcp": fastmcp}[sys.argv[1]]
    print(json.dumps(asyncio.run(asyncio.wait_for(run(*sys.argv[2:]), 60))))
