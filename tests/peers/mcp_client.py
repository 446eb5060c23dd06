"""A client of a Python package that uses the server of conformance/, over HTTP or stdio, and prints what it got.

python mcp_client.py CLIENT[,MODE] URL
python mcp_client.py CLIENT[,MODE] COMMAND…

The variable MCP_PREFIX is the prefix that a gateway adds to the names of tools and prompts. A client whose package does
not support progress or elicitation leaves these out.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

PREFIX = os.environ.get("MCP_PREFIX", "")
CONTENT = {"response": "yes"}
TEXT, PROGRESS, ASK, PROMPT = (
    f"{PREFIX}{name}"
    for name in ("test_simple_text", "test_tool_with_progress", "test_elicitation", "test_prompt_with_arguments")
)
URI = "test://static-text"
QUESTION = {"message": "Sure?"}
ARGUMENTS = {"arg1": "a", "arg2": "b"}


class Progress(list[Any]):
    """A callback that keeps what was reported."""

    async def __call__(self, value: float, total: float | None, message: str | None, *context: Any) -> None:
        self.append([value, total])


def text_of(content: Any) -> str:
    """Return the text of a content, or of its first block."""
    if isinstance(content, str):
        return content
    first = content[0] if isinstance(content, (list, tuple)) else content
    if isinstance(first, dict):
        return str(first["text"])
    return str(first.text if hasattr(first, "text") else first.content)


async def converse(client: Any, progress: Progress, *, progress_of_call: bool = True) -> dict[str, Any]:
    """Use the server through a client whose methods are those of the SDK."""
    listed = await client.list_tools()
    text = await client.call_tool(TEXT, {})
    options = {"progress_callback": progress} if progress_of_call else {}
    await client.call_tool(PROGRESS, {}, **options)
    asked = await client.call_tool(ASK, QUESTION)
    resource = await client.read_resource(URI)
    prompt = await client.get_prompt(PROMPT, ARGUMENTS)
    return {
        "has_tool": TEXT in [tool.name for tool in getattr(listed, "tools", listed)],
        "text": text_of(text.content),
        "progress": progress,
        "asked": text_of(asked.content),
        "resource": text_of(getattr(resource, "contents", resource)),
        "prompt": text_of(prompt.messages[0].content),
    }


async def accept(context: Any, params: Any, *more: Any) -> Any:
    from mcp import types

    return types.ElicitResult(action="accept", content=CONTENT)


def stdio_parameters(target: list[str]) -> Any:
    from mcp.client.stdio import StdioServerParameters

    return StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ))


def entry_of(target: list[str], **of_url: str) -> dict[str, Any]:
    """Return an entry of mcpServers."""
    if len(target) == 1:
        return {"url": target[0], **of_url}
    return {"command": target[0], "args": target[1:], "env": dict(os.environ)}


async def sdk1(target: list[str]) -> dict[str, Any]:
    from mcp import ClientSession
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamablehttp_client

    streams = streamablehttp_client(target[0]) if len(target) == 1 else stdio_client(stdio_parameters(target))
    async with streams as (read, write, *_), ClientSession(read, write, elicitation_callback=accept) as session:
        begun = await session.initialize()
        return {"version": begun.protocolVersion, **await converse(session, Progress())}


async def sdk2(target: list[str], mode: str = "auto") -> dict[str, Any]:
    from mcp.client import Client
    from mcp.client.stdio import stdio_client

    server = target[0] if len(target) == 1 else stdio_client(stdio_parameters(target))
    async with Client(server, mode=mode, elicitation_callback=accept) as client:
        return {"version": client.protocol_version, **await converse(client, Progress())}


async def fastmcp(target: list[str]) -> dict[str, Any]:
    from fastmcp import Client

    async def elicit(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return CONTENT if response_type is None else response_type(**CONTENT)

    progress = Progress()
    server = target[0] if len(target) == 1 else {"mcpServers": {"s": entry_of(target)}}
    async with Client(server, elicitation_handler=elicit, progress_handler=progress) as client:
        return await converse(client, progress, progress_of_call=False)


async def langchain(target: list[str]) -> dict[str, Any]:
    from langchain_mcp_adapters.callbacks import Callbacks
    from langchain_mcp_adapters.client import MultiServerMCPClient

    progress = Progress()
    transport = "streamable_http" if len(target) == 1 else "stdio"
    connections: Any = {"s": {"transport": transport, **entry_of(target)}}
    client = MultiServerMCPClient(connections, callbacks=Callbacks(on_progress=progress, on_elicitation=accept))
    tools = {tool.name: tool for tool in await client.get_tools()}
    text = await tools[TEXT].ainvoke({})
    await tools[PROGRESS].ainvoke({})
    asked = await tools[ASK].ainvoke(QUESTION)
    [resource] = await client.get_resources("s", uris=URI)
    [message] = await client.get_prompt("s", PROMPT, arguments=ARGUMENTS)
    return {
        "has_tool": TEXT in tools,
        "text": text_of(text),
        "progress": progress,
        "asked": text_of(asked),
        "resource": resource.as_string(),
        "prompt": message.content,
    }


async def openai_agents(target: list[str]) -> dict[str, Any]:
    from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

    if len(target) == 1:
        server: Any = MCPServerStreamableHttp(params={"url": target[0]}, client_session_timeout_seconds=60)
    else:
        server = MCPServerStdio(params=entry_of(target), client_session_timeout_seconds=60)
    async with server:
        tools = await server.list_tools()
        text = await server.call_tool(TEXT, {})
        resource = await server.read_resource(URI)
        prompt = await server.get_prompt(PROMPT, ARGUMENTS)
        return {
            "has_tool": TEXT in [tool.name for tool in tools],
            "text": text_of(text.content),
            "resource": text_of(resource.contents),
            "prompt": text_of(prompt.messages[0].content),
        }


async def mcp_use(target: list[str]) -> dict[str, Any]:
    from mcp_use import MCPClient

    client = MCPClient({"mcpServers": {"s": entry_of(target)}}, elicitation_callback=accept)
    session: Any = await client.create_session("s")
    try:
        tools = await session.list_tools()
        text = await session.call_tool(TEXT, {})
        asked = await session.call_tool(ASK, QUESTION)
        resource = await session.read_resource(URI)
        prompt = await session.get_prompt(PROMPT, ARGUMENTS)
        return {
            "has_tool": TEXT in [tool.name for tool in tools],
            "text": text_of(text.content),
            "asked": text_of(asked.content),
            "resource": text_of(resource.contents),
            "prompt": text_of(prompt.messages[0].content),
        }
    finally:
        await client.close_all_sessions()


async def pydantic_ai(target: list[str]) -> dict[str, Any]:
    from pydantic_ai.mcp import MCPToolset, StdioTransport

    async def elicit(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return CONTENT if response_type is None else response_type(**CONTENT)

    progress = Progress()
    server = target[0] if len(target) == 1 else StdioTransport(target[0], target[1:], env=dict(os.environ))
    async with MCPToolset(server, elicitation_handler=elicit, progress_handler=progress) as toolset:
        tools = await toolset.list_tools()
        text = await toolset.direct_call_tool(TEXT, {})
        await toolset.direct_call_tool(PROGRESS, {})
        asked = await toolset.direct_call_tool(ASK, QUESTION)
        resource = await toolset.read_resource(URI)
        prompt = await toolset.get_prompt(PROMPT, ARGUMENTS)
        return {
            "has_tool": TEXT in [tool.name for tool in tools],
            "text": text_of(text),
            "progress": progress,
            "asked": text_of(asked),
            "resource": text_of(resource),
            "prompt": text_of(prompt.messages[0].content),
        }


CLIENTS = {
    "fastmcp": fastmcp,
    "langchain": langchain,
    "mcp-use": mcp_use,
    "openai-agents": openai_agents,
    "pydantic-ai": pydantic_ai,
    "sdk1": sdk1,
    "sdk2": sdk2,
}

if __name__ == "__main__":
    client, *mode = sys.argv[1].split(",")
    print(json.dumps(asyncio.run(asyncio.wait_for(CLIENTS[client](sys.argv[2:], *mode), 120))))
