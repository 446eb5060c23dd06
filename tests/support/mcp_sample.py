"""A server with every kind of entry."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

import msgspec

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp.protocol.definitions import ToolAnnotations, text_content
from jsonrpc_fast.mcp.server.blocks import ToolResult
from jsonrpc_fast.mcp.server.context import Context
from jsonrpc_fast.mcp.server.server import Server


def sample() -> Server:
    """Return a server with every kind of entry."""
    server = Server(
        "sample",
        "1.0",
        title="Sample",
        description="Some of everything",
        instructions="Ask.",
        page_size=2,
        ttl_ms=60_000,
        cache_scope="public",
    )

    @server.tool(title="Addition", annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: Annotated[int, msgspec.Meta(description="the second", le=100)] = 1) -> dict[str, int]:
        """Adds two numbers."""
        return {"sum": a + b}

    @server.tool()
    async def echo(text: str) -> str:
        return text

    @server.tool()
    def fail() -> None:
        raise ValueError(" ".join(["a", "secret"]))

    @server.tool()
    def refuse() -> None:
        raise RpcError(-32000, "not today", {"why": "closed"})

    @server.tool("picture", output_schema={"type": "object", "required": ["width"]})
    def picture(wide: bool) -> Any:
        return {"width": 2} if wide else {"height": "a secret"}

    @server.tool(input_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    def raw(**members: Any) -> ToolResult:
        return ToolResult([text_content(json.dumps(members))], is_error=True)

    @server.tool()
    async def work(steps: int, context: Context) -> str:
        for step in range(steps):
            context.report_progress(step + 1, steps, "working")
            context.log("info", {"step": step}, "worker")
            await asyncio.sleep(0)
        return context.revision.version

    @server.prompt(title="Review", complete={"language": ["Python", "Prolog", "C"]})
    def review(code: str, language: Literal["Python", "Prolog", "C"] = "Python") -> str:
        """Reviews code."""
        return f"Review this {language}: {code}"

    @server.prompt()
    async def dialogue(count: int) -> list[Any]:
        return ["Hello"] * count + [{"role": "assistant", "content": "Yes?"}]

    async def names(typed: str, others: Any) -> list[str]:
        return [f"{typed}{number}{others.get('kind', '')}" for number in range(150)]

    @server.resource("notes://index", mime_type="text/plain")
    def index() -> str:
        """All notes."""
        return "one, two"

    @server.resource("notes://blob")
    async def blob() -> bytes:
        return b"\x00\x01"

    @server.resource("notes://{name}/{number}", mime_type="text/x-note", complete={"name": names})
    def note(name: str, number: int) -> str | None:
        return f"{name} {number}" if number < 10 else None

    return server
