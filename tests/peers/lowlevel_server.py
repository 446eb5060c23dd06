"""A server on the lower layer of the Python SDK, over stdio: pages, completion, calls to the client, subscriptions."""

from __future__ import annotations

import logging
import warnings

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

logging.disable()
warnings.simplefilter("ignore")

NAMES = ("ask", "changed", "error", "again", "level")
PAGE = 2
bus = InMemorySubscriptionBus()
level = "none"
SAMPLING = types.CreateMessageRequestParams(
    messages=[types.SamplingMessage(role="user", content=types.TextContent(type="text", text="2+2?"))], max_tokens=5
)


def text(value: object) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=str(value))])


async def list_tools(context, params) -> types.ListToolsResult:
    start = int(params.cursor) if params is not None and params.cursor is not None else 0
    tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in NAMES[start : start + PAGE]]
    end = start + PAGE
    return types.ListToolsResult(tools=tools, next_cursor=str(end) if end < len(NAMES) else None)


async def call_tool(context, params) -> types.CallToolResult | types.InputRequiredResult:
    is_modern = context.protocol_version == "2026-07-28"
    if params.name == "ask":
        if not is_modern:
            roots = await context.session.list_roots()
            said = await context.session.create_message(SAMPLING.messages, max_tokens=5)
        elif params.input_responses is None:
            asked = {"roots": types.ListRootsRequest(), "said": types.CreateMessageRequest(params=SAMPLING)}
            return types.InputRequiredResult(input_requests=asked, request_state="kept")
        else:
            roots, said = params.input_responses["roots"], params.input_responses["said"]
            assert params.request_state == "kept"
        return text(f"{roots.roots[0].uri} {said.content.text}")
    if params.name == "changed":
        if is_modern:
            await bus.publish(ToolsListChanged())
        else:
            await context.session.send_tool_list_changed()
        return text("")
    if params.name == "again":
        times = int(params.request_state or 0)
        return text(times) if times == 3 else types.InputRequiredResult(request_state=str(times + 1))
    if params.name == "level":
        return text(level)
    raise MCPError(-32050, "of the server's own", {"why": [1, None]})


async def complete(context, params) -> types.CompleteResult:
    values = [value for value in ("red", "green", "grey") if value.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values)))


async def set_level(context, params) -> types.EmptyResult:
    global level
    level = params.level
    return types.EmptyResult()


async def main() -> None:
    server = Server(
        "lowlevel",
        version="3",
        instructions="Use it.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_completion=complete,
        on_set_logging_level=set_level,
        on_subscriptions_listen=ListenHandler(bus),
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
