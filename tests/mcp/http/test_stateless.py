"""Requests without a session: nothing of one reaches another, and nothing is left of it."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from jsonrpc_fast.errors import ConnectionLost, RpcError
from jsonrpc_fast.mcp.http.endpoint import McpEndpoint
from jsonrpc_fast.mcp.http.exchange import Exchange as HttpExchange
from jsonrpc_fast.mcp.server import Context, Server

from ...support.mcp_http import Exchange, body_of, client_of, modern, request
from ...support.waiting import eventually, settle


async def call(client: Any, method: str, **params: Any) -> Any:
    params["_meta"] = {"io.modelcontextprotocol/logLevel": "debug", "progressToken": "token"}
    return await client.post("/mcp", **modern(request(1, method, **params)))


def exchanges(server: Server) -> int:
    """Return how many exchanges of a server are still referenced."""
    gc.collect()
    return sum(type(each) is HttpExchange and each.server is server for each in gc.get_objects())


async def test_a_function_that_goes_on_after_its_reply_reaches_no_other_client() -> None:
    server = Server("test", "1.0")
    kept: list[Context] = []
    is_told, has_begun = asyncio.Event(), asyncio.Event()

    @server.tool
    async def keep(context: Context) -> str:
        kept.append(context)
        return "kept"

    @server.tool
    async def wait(context: Context) -> str:
        has_begun.set()
        await is_told.wait()
        return "waited"

    app = McpEndpoint(server)
    async with client_of(app) as client:
        assert '"kept"' in (await call(client, "tools/call", name="keep", arguments={})).text
        waiting = asyncio.create_task(call(client, "tools/call", name="wait", arguments={}))  # with the same id
        await has_begun.wait()
        [context] = kept
        assert context.session is None
        context.log("error", "secret")
        assert not context.report_progress(1)
        with pytest.raises(ConnectionLost):
            await context.notify("notifications/own", {"data": "secret"})
        is_told.set()
        answer = await waiting
        assert answer.headers["content-type"] == "application/json"
        assert "secret" not in answer.text


async def test_what_is_registered_later_is_found() -> None:
    server = Server("test", "1.0")
    app = McpEndpoint(server)
    async with client_of(app) as client:
        assert (await call(client, "tools/list")).json()["error"]["code"] == -32601
        server.tool(name="late", description="Late.")(lambda: "x")
        assert [tool["name"] for tool in (await call(client, "tools/list")).json()["result"]["tools"]] == ["late"]


async def test_nothing_is_left_of_a_request() -> None:
    server = Server("test", "1.0")
    running = 0
    all_run = asyncio.Event()

    @server.tool
    async def meet(context: Context) -> str:
        nonlocal running
        running += 1
        if running == 20:
            all_run.set()
        await all_run.wait()
        return "met"

    app = McpEndpoint(server)
    async with client_of(app) as client:
        answers = await asyncio.gather(*(call(client, "tools/call", name="meet", arguments={}) for _ in range(20)))
        assert all(answer.status_code == 200 for answer in answers)
        answers.clear()
        await eventually(lambda: exchanges(server) == 0)


async def test_a_subscription_ends_with_its_request() -> None:
    server = Server("test", "1.0")

    @server.resource("test://x")
    def x() -> str:
        return "x"

    app = McpEndpoint(server)
    async with client_of(app) as client:
        listen = request(1, "subscriptions/listen", notifications={"resourcesListChanged": True})
        async with client.stream("POST", "/mcp", **modern(listen)) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            assert len(server.connections) == 1
            server.on_signal()
            await answer.aread()
        await call(client, "resources/list")
        await eventually(lambda: not server.connections and exchanges(server) == 0)


async def test_a_progress_token_and_a_level_are_those_of_the_request() -> None:
    server = Server("test", "1.0")

    @server.tool
    async def tell(context: Context) -> str:
        context.log("info", "hidden")
        context.log("error", "shown")
        return str(context.report_progress(1, 2))

    app = McpEndpoint(server)
    async with client_of(app) as client:
        asked = request(1, "tools/call", name="tell", arguments={})
        assert '"text":"False"' in (await client.post("/mcp", **modern(asked))).text
        asked["params"]["_meta"] = {"io.modelcontextprotocol/logLevel": "error", "progressToken": 7}
        text = (await client.post("/mcp", **modern(asked))).text
        assert text.count("event: message") == 3
        assert ("hidden" in text, '"data":"shown"' in text) == (False, True)
        assert '"params":{"progressToken":7,"progress":1,"total":2}' in text


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

    @server.tool
    async def tool(code: int, size: int) -> None:
        await asyncio.sleep(0)
        raise RpcError(code, "no", {"error": "y" * size})

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
                given = modern(request(id, "tools/call", name="tool", arguments={"code": code, "size": size}))
                response = await client.post("/mcp", **given)
                assert (response.json()["error"]["code"], response.status_code) == (code, status)


async def test_an_error_that_cannot_be_written_has_the_status_of_the_error_that_is() -> None:
    server = Server("test", "1.0")

    @server.method("own/fails")
    def fails() -> dict[str, Any]:
        raise RpcError(-32601, "no", object())

    @server.tool
    async def tool() -> None:
        raise RpcError(-32601, "no", object())

    async with client_of(McpEndpoint(server)) as client:
        for given in (request(1, "own/fails"), request(1, "tools/call", name="tool", arguments={})):
            response = await client.post("/mcp", **modern(given))
            assert (response.json()["error"]["code"], response.status_code) == (-32603, 200)


async def test_a_function_that_notifies_waits_while_the_client_does_not_read() -> None:
    server = Server("test", "1.0")
    told: list[int] = []

    @server.tool
    async def tell(count: int, context: Context) -> str:
        for number in range(count):
            await context.notify("com.example/told", {"text": "x" * 10_000})
            told.append(number)
        return "told all"

    def exchange(count: int) -> Exchange:
        message = modern(request(1, "tools/call", name="tell", arguments={"count": count}))
        return Exchange(McpEndpoint(server), message["json"], headers=message["headers"])

    text = body_of(await asyncio.wait_for(exchange(3).events(), 20))
    assert (text.count(b"com.example/told"), text.count(b"told all") > 0) == (3, True)
    stuck = exchange(1000)
    stuck.is_stuck = True
    running = asyncio.create_task(stuck.events())
    await eventually(lambda: len(told) > 3)
    await settle(1000)
    assert 5 < len(told) < 30
    running.cancel()
    await asyncio.wait([running])
