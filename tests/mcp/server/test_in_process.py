"""A client and a server in one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jsonrpc_fast import mcp
from jsonrpc_fast.errors import StateError
from jsonrpc_fast.mcp.server import Context, Server

pytestmark = pytest.mark.usefixtures("each_loop")


async def test_a_client_in_the_same_process() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        events.append("begin")
        yield "value"
        events.append("end")

    server = Server("test", "1", lifespan=lifespan)

    @server.tool
    async def roots(context: Context) -> list[str]:
        return [context.lifespan, *[root["uri"] for root in await context.list_roots()]]

    handlers: Any = {"roots/list": lambda params: {"roots": [{"uri": "file:///a"}]}}
    for mode in ("auto", "legacy", "2024-11-05"):
        for given in (server, server.in_process()):
            async with mcp.connect(given, mode=mode, handlers=handlers) as client:
                result = await client.call_tool("roots")
                assert result["content"][0]["text"] == '["value","file:///a"]'
            assert server.connections == set()
    assert events == ["begin", "end"] * 6


async def test_a_server_that_cannot_begin() -> None:
    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    transport = Server("test", "1", lifespan=lifespan).in_process()
    with pytest.raises(OSError, match="no database"):
        await transport.connect()
    await transport.close()


async def test_a_server_whose_connection_cannot_be_made() -> None:
    class Broken(Server):
        def connection(self, transport: Any, options: Any) -> Any:
            raise RuntimeError("no room for a client")

    server = Broken("test", "1")
    with pytest.raises(RuntimeError, match="no room for a client"):
        async with asyncio.timeout(5), mcp.connect(server):
            pass
    assert server.connections == set()


async def test_it_is_used_once() -> None:
    transport = Server("test", "1").in_process()
    await transport.start()
    with pytest.raises(StateError):
        await transport.start()
    await transport.close()
    with pytest.raises(StateError):
        await transport.start()


async def test_a_cancelled_client_leaves_nothing_behind() -> None:
    server = Server("test", "1")
    started = asyncio.Event()

    @server.tool
    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    async def use() -> None:
        async with mcp.connect(server.in_process()) as client:
            await client.call_tool("wait")

    using = asyncio.create_task(use())
    await started.wait()
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert server.connections == set()
