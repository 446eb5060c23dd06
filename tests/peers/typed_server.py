"""A server with typed arguments and results for clients of other libraries, and with a tool that fails."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, Field

from jsonrpc_fast.mcp.server.server import Server
from jsonrpc_fast.mcp.server.values.results import ToolResult

logging.basicConfig(format="%(message)s")
server = Server("typed", "1")


class Order(BaseModel):
    items: list[Annotated[int, Field(ge=1)]]


@dataclass
class Total:
    sum: Decimal
    kinds: set[int]


@server.tool
def order(order: Order, count: Annotated[int, Field(ge=1, le=5)] = 1) -> Total:
    return Total(Decimal(sum(order.items) * count), {1})


@server.tool
def image() -> ToolResult:
    return ToolResult([{"type": "image", "data": b"\0", "mimeType": "image/png"}, "x"])


@server.tool
def fail(argument: str) -> str:
    raise ValueError("why it failed")


@server.tool
def wrong() -> ToolResult:
    return ToolResult([{"type": "text"}])


@server.prompt
def ask(count: Annotated[int, Field(le=3)]) -> list[str]:
    return ["?"] * count


@server.resource("data://config")
def config() -> dict[str, Any]:
    return {"a": 1}


@server.resource("data://file/{name}")
def file(name: str) -> str:
    return name


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s")
    server.serve_stdio()
