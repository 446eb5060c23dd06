"""A server with the decorators of the Python SDK, over stdio, with the tools of sdk1_server.mjs."""

from __future__ import annotations

import logging

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from pydantic import BaseModel

logging.disable()
server = MCPServer("mcpserver")
cancelled = 0


class Sum(BaseModel):
    sum: int


class Who(BaseModel):
    name: str


@server.tool()
def add(a: int, b: int) -> Sum:
    return Sum(sum=a + b)


@server.tool()
def fail() -> str:
    raise ValueError("it failed")


@server.tool(structured_output=False)
async def count(to: int, context: Context) -> str:
    for progress in range(1, to + 1):
        await context.report_progress(progress, to)
    return str(to)


@server.tool(structured_output=False)
async def wait() -> str:
    global cancelled
    try:
        await anyio.sleep_forever()
    finally:
        cancelled += 1


@server.tool(name="cancelled", structured_output=False)
def how_many_cancelled() -> str:
    return str(cancelled)


@server.tool(structured_output=False)
async def ask(context: Context) -> str | InputRequiredResult:
    if context.protocol_version != "2026-07-28":
        reply = await context.elicit("Who?", Who)
        return reply.data.name
    if context.input_responses is None:
        params = ElicitRequestFormParams(message="Who?", requested_schema=Who.model_json_schema())
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=params)})
    return context.input_responses["who"].content["name"]


@server.tool(structured_output=False)
async def log(context: Context) -> str:
    await context.request_context.session.send_log_message("error", "from the tool")
    return ""


@server.prompt()
def greet(name: str) -> list[UserMessage]:
    return [UserMessage(f"Hello {name}")]


@server.resource("memo://one")
def one() -> str:
    return "first"


if __name__ == "__main__":
    server.run("stdio")
