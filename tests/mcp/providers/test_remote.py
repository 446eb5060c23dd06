"""A remote server behind another one: what is passed on, what is refused, and how connections end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jsonrpc_fast import mcp
from jsonrpc_fast.errors import RpcError, StateError
from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS
from jsonrpc_fast.mcp.providers import Proxy
from jsonrpc_fast.mcp.server import Context, Server

from ...support.mcp_conversation import answered, converse
from ...support.mcp_sample import sample
from ...support.mcp_script import DISCOVERED, scripted
from ...support.tables import rows
from ...support.waiting import eventually

REFUSED = (-32600, "it is not certain which call this request belongs to", None)
BOTH = ("2025-11-25", "2026-07-28")


def proxy_of(server: Server, mode: str = "auto", **options: Any) -> Proxy:
    return Proxy(lambda handlers: mcp.connect(server, mode=mode, handlers=handlers), **options)


def behind(remote: Server, mode: str = "auto", prefix: str | None = "far") -> Server:
    server = Server("near", "1")
    server.mount(proxy_of(remote, mode), prefix=prefix)
    return server


@rows("mode", RELEASED_VERSIONS)
@rows("version", RELEASED_VERSIONS)
@pytest.mark.ci
async def test_a_remote_server_answers_as_it_does_alone(version: str, mode: str) -> None:
    remote = sample()
    async with mcp.connect(remote, mode=version) as alone, mcp.connect(behind(remote, mode), mode=version) as client:
        tools = await client.list_tools()
        assert [tool["name"] for tool in tools] == [f"far_{tool['name']}" for tool in await alone.list_tools()]
        assert len(await client.list_prompts()) == len(await alone.list_prompts()) > 0
        if mode == version:
            assert await client.list_resources() == await alone.list_resources() != []
            assert await client.list_resource_templates() == await alone.list_resource_templates() != []
        for name, arguments in (("add", {"a": 1}), ("echo", {"text": "a"}), ("add", {"a": "no"}), ("fail", {})):
            one, other = await alone.call_tool(name, arguments), await client.call_tool(f"far_{name}", arguments)
            assert one["content"] == other["content"]
            assert one.get("isError") == other.get("isError")
        with pytest.raises(RpcError, match="not today"):
            await client.call_tool("far_refuse")
        for name in ("add", "far_none"):
            with pytest.raises(RpcError, match="Unknown tool"):
                await client.call_tool(name)
        with pytest.raises(RpcError, match="Resource not found"):
            await client.read_resource("unknown:a")


def asking() -> Server:
    server = Server("far", "1")

    @server.tool
    async def roots(context: Context) -> int:
        context.report_progress(1, 2, "asking")
        return len(await context.list_roots())

    @server.tool
    async def wait() -> None:
        await asyncio.Event().wait()

    return server


@rows("mode", BOTH)
@rows("version", BOTH)
async def test_requests_and_progress_reach_the_client_that_called(version: str, mode: str) -> None:
    params: dict[str, Any] = {"name": "far_roots", "_meta": {"progressToken": 1}}
    async with converse(behind(asking(), mode), version, {"roots": {}}) as client:
        id = client.request("tools/call", params)
        if version == "2025-11-25":
            request = await client.notification("roots/list")
            client.send({"jsonrpc": "2.0", "id": request["id"], "result": {"roots": []}})
            result = (await client.answer(id))["result"]
            assert result["structuredContent"] == {"result": 0}
        elif mode == "2026-07-28":
            again = {**params, **answered((await client.answer(id))["result"], {"roots": []})}
            assert (await client.result("tools/call", again))["structuredContent"] == {"result": 0}
        else:  # the remote server cannot ask in rounds
            assert (await client.answer(id))["error"]["code"] == REFUSED[0]
        assert (await client.notification("notifications/progress"))["params"]["message"] == "asking"


@pytest.mark.virtual_time  # the closing waits for the call that does not end
async def test_a_request_of_one_of_two_calls_is_refused() -> None:
    async with converse(behind(asking(), "2025-11-25"), "2025-11-25", {"roots": {}}) as client:
        client.request("tools/call", {"name": "far_wait"})
        assert await client.error("tools/call", {"name": "far_roots"}) == REFUSED
        assert not [message for message in client.notifications if message["method"] == "roots/list"]


@rows("mode", BOTH)
async def test_changes_of_lists_are_announced(mode: str) -> None:
    remote = asking()
    async with converse(behind(remote, mode), "2025-11-25") as client:
        assert len((await client.result("tools/list"))["tools"]) == 2
        await client.settle()  # the proxy has subscribed
        remote.tool("later")(lambda: "now")
        await client.notification("notifications/tools/list_changed")
        result = await client.result("tools/call", {"name": "far_later"})
        assert result["content"][0]["text"] == "now"


@rows(
    ("answer", "reason"),
    [(RpcError(-32601, "secret"), "error -32601"), ({"resultType": "complete"}, "it has ended the subscription")],
)
async def test_a_server_that_announces_no_changes_is_in_the_log(
    answer: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    answers = {
        "server/discover": {**DISCOVERED, "capabilities": {"tools": {"listChanged": True}}},
        "subscriptions/listen": answer,
    }

    @asynccontextmanager
    async def connect(handlers: Any) -> AsyncIterator[mcp.Client]:
        async with scripted(answers, mode="2026-07-28", handlers=handlers) as (client, _):
            yield client

    server = Server("near", "1")
    server.mount(Proxy(connect), prefix="far")
    async with mcp.connect(server):
        await eventually(lambda: reason in caplog.text)
    assert "secret" not in caplog.text


async def test_it_is_connected_while_the_server_runs() -> None:
    remote = asking()
    proxy = proxy_of(remote)
    server = Server("near", "1")
    server.mount(proxy)
    for _ in range(2):
        async with mcp.connect(server) as client:
            assert len(await client.list_tools()) == 2
            assert len(remote.connections) == 1
        assert remote.connections == set()
    with pytest.raises(StateError, match="the server does not run"):
        await proxy.list_tools(None)  # type: ignore[arg-type]


async def test_a_call_that_is_cancelled_is_cancelled_there() -> None:
    remote, ended = Server("far", "1"), asyncio.Event()
    begun = asyncio.Event()

    @remote.tool
    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with mcp.connect(behind(remote)) as client:
        call = asyncio.create_task(client.call_tool("far_wait"))
        await begun.wait()
        call.cancel()
        await asyncio.wait_for(ended.wait(), 10)


def test_connect_must_be_a_function() -> None:
    with pytest.raises(TypeError, match="connect must be callable"):
        Proxy("python")  # type: ignore[arg-type]
