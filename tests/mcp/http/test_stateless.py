"""Connections that serve one request without a session after another: no state of a request reaches a later one."""

from __future__ import annotations

import asyncio
import gc
from typing import Any
from weakref import WeakSet

import pytest

from jsonrpc_fast.errors import ConnectionLost, RpcError
from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.mcp.server import Context, Server
from jsonrpc_fast.mcp.server.connection import ServerConnection

from ...support.mcp_http import Exchange, client_of, modern, request
from ...support.waiting import eventually


async def call(client: Any, method: str, **params: Any) -> Any:
    params["_meta"] = {"io.modelcontextprotocol/logLevel": "debug", "progressToken": "token"}
    return await client.post("/mcp", **modern(request(1, method, **params)))


def count_of(connections: WeakSet[ServerConnection]) -> int:
    """Return how many of the connections are still referenced."""
    gc.collect()
    return len(connections)


async def test_a_function_that_goes_on_after_its_reply_reaches_no_other_client() -> None:
    server = Server("test", "1.0")
    kept: list[Context] = []
    connections: set[ServerConnection] = set()
    is_told = asyncio.Event()

    @server.tool
    async def keep(context: Context) -> str:
        kept.append(context)
        connections.update(server.connections)
        return "kept"

    @server.tool
    async def wait() -> str:
        await is_told.wait()
        return "waited"

    app = McpEndpoint(server)
    async with client_of(app) as client:
        assert '"kept"' in (await call(client, "tools/call", name="keep", arguments={})).text
        await eventually(lambda: not server.connections)
        waiting = asyncio.create_task(call(client, "tools/call", name="wait", arguments={}))
        await eventually(lambda: server.connections)
        is_same = connections == server.connections  # and so is the id of the request
        [context] = kept
        context.log("error", "secret")
        assert not context.report_progress(1)
        with pytest.raises(ConnectionLost):
            await context.notify("notifications/own", {"data": "secret"})
        is_told.set()
        answer = await waiting
        assert is_same
        assert answer.headers["content-type"] == "application/json"
        assert "secret" not in answer.text


async def test_what_is_registered_later_is_found() -> None:
    server = Server("test", "1.0")
    app = McpEndpoint(server)
    async with client_of(app) as client:
        assert (await call(client, "tools/list")).json()["error"]["code"] == -32601
        server.tool(name="late", description="Late.")(lambda: "x")
        assert [tool["name"] for tool in (await call(client, "tools/list")).json()["result"]["tools"]] == ["late"]


@pytest.mark.ci
async def test_spare_connections_are_few_and_closed_with_the_endpoint() -> None:
    server = Server("test", "1.0")
    running = 0
    all_run = asyncio.Event()
    connections: WeakSet[ServerConnection] = WeakSet()

    @server.tool
    async def meet() -> str:
        nonlocal running
        running += 1
        if running == 80:
            connections.update(server.connections)
            all_run.set()
        await all_run.wait()
        return "met"

    app = McpEndpoint(server)
    async with client_of(app) as client:
        answers = await asyncio.gather(*(call(client, "tools/call", name="meet", arguments={}) for _ in range(80)))
        assert all(answer.status_code == 200 for answer in answers)
        assert not server.connections
        await eventually(lambda: 0 < count_of(connections) <= 64)
    await eventually(lambda: count_of(connections) == 0)


async def test_a_connection_that_keeps_something_serves_once() -> None:
    server = Server("test", "1.0")

    @server.resource("test://x")
    def x() -> str:
        return "x"

    app = McpEndpoint(server)
    async with client_of(app) as client:
        listen = request(1, "subscriptions/listen", notifications={"resourcesListChanged": True})
        async with client.stream("POST", "/mcp", **modern(listen)) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            connections = WeakSet(server.connections)
            assert len(connections) == 1
            server.on_signal()
            await answer.aread()
        await call(client, "resources/list")
        await eventually(lambda: count_of(connections) == 0)


@pytest.mark.ci
async def test_the_tools_that_are_remembered_have_a_bound() -> None:
    server = Server("test", "1.0")
    app = McpEndpoint(server)
    for number in range(1100):
        name = f"tool_{number}"
        schema = {"type": "object", "title": name, "required": []}  # the list, so that the collector knows the dict
        server.tool(name=name, description="A tool.", input_schema=schema)(lambda: "x")
        body = modern(request(1, "tools/call", name=name, arguments={}))
        start, _ = await Exchange(app, body["json"], headers=body["headers"]).events()
        assert start["status"] == 200
        server.unregister("tools", name)
    gc.collect()
    schemas = [each for each in gc.get_objects() if type(each) is dict and str(each.get("title")).startswith("tool_")]
    assert len(schemas) < 1000


async def test_the_status_of_an_error_comes_from_its_code() -> None:
    server = Server("test", "1.0")

    @server.method("own/fails")
    def fails(code: int, size: int) -> dict[str, Any]:
        raise RpcError(code, "no", {"error": "y" * size})

    @server.method("own/waits")
    async def waits(code: int, size: int) -> dict[str, Any]:
        await asyncio.sleep(0)
        raise RpcError(code, "no", {"error": "y" * size})

    @server.method("own/returns")
    def returns(code: int, size: int) -> dict[str, Any]:
        return {"error": {"code": code, "message": "y" * size}}

    async with client_of(McpEndpoint(server)) as client:
        for id in (1, "x" * 300, '"error":{"code":-32601,', "é\n"):
            for code, size, status in (
                (-32601, 0, 404),
                (-32601, 70_000, 404),
                (-32020, 70_000, 400),
                (-(2**63), 0, 200),
            ):
                for method in ("own/fails", "own/waits", "own/returns"):
                    response = await client.post("/mcp", **modern(request(id, method, code=code, size=size)))
                    assert response.json()["id"] == id
                    assert response.status_code == (200 if method == "own/returns" else status), (id, code, method)
