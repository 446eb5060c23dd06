"""The example `elicitation.py` of fastmcp, ported: a tool that asks its user. It needs the extra `mcp`.

jsonrpc-fast list --mcp -- python examples/port_survey.py
"""

from __future__ import annotations

from dataclasses import dataclass

from jsonrpc_fast.mcp.server import Context, Server

server = Server("Elicitation Demo", "1.0")


@dataclass
class Name:
    value: str


@dataclass
class Survey:
    favorite_color: str
    lucky_number: int


@server.tool
async def greet(context: Context) -> str:
    """Ask for a name, and greet."""
    answer = await context.elicit("What is your name?", Name)
    return "Maybe next time!" if answer.content is None else f"Hello, {answer.content.value}!"


@server.tool
async def survey(context: Context) -> str:
    """Ask for a color and a number."""
    answer = await context.elicit("Quick survey — tell us about yourself:", Survey)
    if answer.content is None:
        return "Survey skipped."
    color, number = answer.content.favorite_color, answer.content.lucky_number
    return f"Got it — you like {color} and your lucky number is {number}."


if __name__ == "__main__":
    raise SystemExit(server.serve_stdio())
