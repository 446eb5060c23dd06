"""Connections that serve one request without a session after another: nothing of a request reaches a later one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jsonrpc_fast.errors import ConnectionLost
from jsonrpc_fast.mcp.http.endpoint import McpEndpoint
from jsonrpc_fast.mcp.server import Context, Server

from ...support.mcp_http import client_of, modern, request
from ...support.waiting import eventually


async def call(client: Any, method: str, **params: Any) -> Any:
    params["_meta"] = {"io.modelcontextprotocol/logLevel": "debug", "progressToken": "token"}
    return await client.post("/mcp", **modern(request(1, method, **params)))


def spare_of(app: McpEndpoint) -> list[Any]:
    return [connection for _, connection in app._stateless_requests._spare]


async def test_a_function_that_goes_on_after_its_reply_reaches_no_other_client() -> None:
    server = Server("test", "1.0")
    kept: list[Context] = []
    is_told = asyncio.Event()

    @server.tool
    async def keep(context: Context) -> str:
        kept.append(context)
        return "kept"

    @server.tool
    async def wait() -> str:
        await is_told.wait()
        return "waited"

    app = server.asgi_app()
    async with client_of(app) as client:
        assert '"kept"' in (await call(client, "tools/call", name="keep", arguments={})).text
        await eventually(lambda: spare_of(app))
        connections = spare_of(app)
        waiting = asyncio.create_task(call(client, "tools/call", name="wait", arguments={}))
        await eventually(lambda: server.connections)
        is_same = set(connections) == server.connections  # and so is the id of the request
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
    app = server.asgi_app()
    async with client_of(app) as client:
        assert (await call(client, "tools/list")).json()["error"]["code"] == -32601
        server.tool(name="late", description="Late.")(lambda: "x")
        assert [tool["name"] for tool in (await call(client, "tools/list")).json()["result"]["tools"]] == ["late"]


async def test_spare_connections_are_few_and_closed_with_the_endpoint() -> None:
    server = Server("test", "1.0")
    running = 0
    all_run = asyncio.Event()

    @server.tool
    async def meet() -> str:
        nonlocal running
        running += 1
        if running == 80:
            all_run.set()
        await all_run.wait()
        return "met"

    app = server.asgi_app()
    async with client_of(app) as client:
        answers = await asyncio.gather(*(call(client, "tools/call", name="meet", arguments={}) for _ in range(80)))
        assert all(answer.status_code == 200 for answer in answers)
        spare = spare_of(app)
        assert 0 < len(spare) <= 64
        assert not server.connections
    assert spare_of(app) == []
    assert not any(connection._session.is_connected for connection in spare)


async def test_a_connection_that_keeps_something_serves_once() -> None:
    server = Server("test", "1.0")

    @server.resource("test://x")
    def x() -> str:
        return "x"

    app = server.asgi_app()
    async with client_of(app) as client:
        listen = request(1, "subscriptions/listen", notifications={"resourcesListChanged": True})
        async with client.stream("POST", "/mcp", **modern(listen)) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            [connection] = server.connections
            server.end_subscriptions()
            await answer.aread()
        await call(client, "resources/list")
        assert connection not in server.connections
        assert connection not in spare_of(app)
        await eventually(lambda: not connection._session.is_connected)
