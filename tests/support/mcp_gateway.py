"""Servers in this process for a gateway: one with every kind of entry, and one with prepared responses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp import Gateway, connect
from jsonrpc_fast.mcp.client import Client
from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS
from jsonrpc_fast.mcp.server import Context, Server
from jsonrpc_fast.profile import MCP_2025_11_25
from jsonrpc_fast.transports.memory import MemoryChannel, MemoryTransport

from .mcp_script import INITIALIZED, Script
from .waiting import forever


class Shop:
    """A server with every kind of entry, which records what it receives."""

    def __init__(self, name: str = "shop", versions: Sequence[str] = RELEASED_VERSIONS) -> None:
        self.seen: list[Any] = []
        self.cancelled = 0
        self.server = server = Server(name, "1.0", versions=versions)

        @server.tool
        def price(item: str, count: int = 1) -> str:
            self.seen.append((item, count))
            return f"{name}: {item}"

        @server.tool
        async def ask(question: str, context: Context) -> str:
            result = await context.sample(
                [{"role": "user", "content": {"type": "text", "text": question}}], max_tokens=10
            )
            return str(result["content"]["text"])

        @server.tool
        async def work(steps: int, context: Context) -> str:
            for step in range(steps):
                context.report_progress(step + 1, steps)
            return "done"

        @server.tool
        async def hang() -> None:
            self.seen.append("hang")
            try:
                await forever()
            finally:
                self.cancelled += 1

        @server.tool
        def fail() -> None:
            raise RpcError(-5, "closed", {"why": [1.50]})

        @server.tool
        async def log(context: Context) -> str:
            context.log("error", f"{name} is full")
            return "logged"

        @server.tool
        def who(context: Context) -> str:
            info = context.client_info
            return f"{info.name if info else None} {context.revision.version}"

        @server.prompt
        def greet(who: str) -> str:
            return f"{name} greets {who}"

        @server.resource(f"shop://{name}/stock")
        def stock() -> str:
            return f"stock of {name}"

        @server.resource(f"shop://{name}/item/{{item}}")
        def item(item: str) -> str:
            return f"{name} has {item}"


class Scripted:
    """A server with prepared responses."""

    def __init__(self, answers: dict[str, Any]) -> None:
        capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "prompts": {}}
        self.answers = {"initialize": {**INITIALIZED, "capabilities": capabilities}, **answers}
        self.scripts: list[Script] = []

    @property
    def script(self) -> Script:
        return self.scripts[-1]

    def tool_scopes(self, name: str) -> frozenset[str]:
        return frozenset()

    def in_process(self) -> MemoryTransport:
        one, other = MemoryChannel.pair()
        ours = MemoryTransport(one, profile=MCP_2025_11_25, raw=True)
        theirs = MemoryTransport(other, profile=MCP_2025_11_25)
        self.scripts.append(Script(theirs, self.answers))
        self.starting = asyncio.ensure_future(theirs.start())
        return ours


def two(versions: Sequence[str] = RELEASED_VERSIONS) -> tuple[Shop, Shop, Gateway]:
    one, other = Shop("one", versions), Shop("other", versions)
    return one, other, Gateway({"one": one.server, "other": other.server})


def text_of(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


def client_of(gateway: Gateway, mode: str = "legacy", **options: Any) -> Client:
    return connect(gateway, mode=mode, **options)
