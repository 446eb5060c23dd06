"""The client against real servers, those of other libraries."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from jsonrpc_fast import ErrorCode
from jsonrpc_fast.errors import CallTimeout, ConnectionLost, RpcError
from jsonrpc_fast.mcp import connect
from jsonrpc_fast.mcp.protocol.capabilities import ClientCapabilities
from jsonrpc_fast.profile import MCP_2025_11_25
from jsonrpc_fast.transports.stdio.client import StdioClient

from ..peers.node import node_command
from ..support.places import PEERS


def command_of(server: str) -> list[str]:
    if server.endswith(".mjs"):
        return node_command(server)
    pytest.importorskip("mcp.server.mcpserver", reason="mcp 2 is not installed")
    return [sys.executable, str(PEERS / server)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "mode", "version"),
    [
        ("mcpserver.py", "auto", "2026-07-28"),
        ("mcpserver.py", "legacy", "2025-11-25"),
        ("mcpserver.py", "2024-11-05", "2024-11-05"),
        ("sdk1_server.mjs", "auto", "2025-11-25"),
        ("sdk1_server.mjs", "2025-03-26", "2025-03-26"),
        ("sdk2_server.mjs", "auto", "2026-07-28"),
        ("sdk2_server.mjs", "legacy", "2025-11-25"),
        ("sdk2_server.mjs", "modern", "2026-07-28"),
    ],
)
async def test_a_server_of_another_library(server: str, mode: str, version: str) -> None:
    notifications: list[tuple[str, dict[str, Any]]] = []
    questions: list[dict[str, Any]] = []

    async def elicit(params: dict[str, Any]) -> dict[str, Any]:
        questions.append(params)
        return {"action": "accept", "content": {"name": "Ann"}}

    transport = StdioClient(command_of(server), profile=MCP_2025_11_25)
    client = connect(
        transport,
        mode=mode,
        handlers={"elicitation/create": elicit},
        on_notification=lambda *what: notifications.append(what),
    )
    async with client:
        assert client.server.revision.version == version
        assert client.server.info is not None
        assert client.server.capabilities.supports("tools")
        await client.ping()

        tools = await client.list_tools()
        assert [tool["name"] for tool in tools] == ["add", "fail", "count", "wait", "cancelled", "ask", "log"]
        assert (await client.call_tool("add", {"a": 1, "b": 2}))["structuredContent"] == {"sum": 3}
        assert (await client.call_tool("add", {"a": 1, "b": "two"}))["isError"] is True
        assert (await client.call_tool("fail"))["isError"] is True

        steps: list[dict[str, Any]] = []
        counted = await client.call_tool("count", {"to": 3}, on_progress=steps.append)
        assert counted["content"] == [{"type": "text", "text": "3"}]
        assert steps == [{"progress": step, "total": 3} for step in (1, 2, 3)]

        with pytest.raises(CallTimeout):
            await client.call_tool("wait", timeout=0.1)
        waiting = asyncio.create_task(client.call_tool("wait"))
        await client.ping()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        # The first call may have timed out before the server began with it.
        assert (await client.call_tool("cancelled"))["content"][0]["text"] in ("1", "2")

        if version >= "2025-06-18":
            assert (await client.call_tool("ask"))["content"][0]["text"] == "Ann"
            [question] = questions
            assert (question["message"], "name" in question["requestedSchema"]["properties"]) == ("Who?", True)

        if client.server.revision.is_modern or client.server.capabilities.supports("logging"):
            await client.set_level("error")
        await client.call_tool("log")
        assert ("notifications/message", {"level": "error", "data": "from the tool"}) in notifications

        [prompt] = await client.list_prompts()
        assert prompt["name"] == "greet"
        got = await client.get_prompt("greet", {"name": "Bob"})
        assert got["messages"] == [{"role": "user", "content": {"type": "text", "text": "Hello Bob"}}]
        with pytest.raises(RpcError):
            await client.get_prompt("nothing")

        [resource] = await client.list_resources()
        assert resource["uri"] == "memo://one"
        assert (await client.read_resource("memo://one"))["contents"][0]["text"] == "first"
        with pytest.raises(RpcError) as caught:
            await client.read_resource("memo://two")
        assert caught.value.code == ErrorCode.INVALID_PARAMS
        assert await client.list_resource_templates() == []
    assert transport.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_requests_and_notifications_of_a_server(mode: str) -> None:
    """Pages, completion, roots, sampling, input without state on the server, errors with data and subscriptions."""

    notifications: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
    sample = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "4"}}
    handlers = {
        "roots/list": lambda params: {"roots": [{"uri": "file:///a"}]},
        "sampling/createMessage": lambda params: sample,
    }
    command = command_of("lowlevel_server.py")
    async with connect(
        *command, mode=mode, handlers=handlers, on_notification=lambda *what: notifications.put_nowait(what)
    ) as client:
        is_modern = client.server.revision.is_modern
        assert is_modern is (mode == "auto")
        assert client.server.instructions == "Use it."
        assert [tool["name"] for tool in await client.list_tools()] == ["ask", "changed", "error", "again", "level"]
        page = await client.call("tools/list", {"cursor": "4"})
        assert [tool["name"] for tool in page["tools"]] == ["level"]
        assert (await client.call_tool("ask"))["content"][0]["text"] == "file:///a 4"
        with pytest.raises(RpcError) as caught:
            await client.call_tool("error")
        error = caught.value
        assert (error.code, error.message, error.data) == (-32050, "of the server's own", {"why": [1, None]})
        values = await client.complete({"type": "ref/prompt", "name": "p"}, "colour", "gr", {"other": "x"})
        assert values == {"values": ["green", "grey"], "total": 2}
        if is_modern:
            assert (await client.call_tool("again"))["content"][0]["text"] == "3"
            wanted = {"notifications": {"toolsListChanged": True}}
            listening = asyncio.create_task(client.call("subscriptions/listen", wanted, timeout=None))
            assert (await notifications.get())[0] == "notifications/subscriptions/acknowledged"
        else:
            await client.set_level("warning")
            assert (await client.call_tool("level"))["content"][0]["text"] == "warning"
        await client.call_tool("changed")
        assert (await notifications.get())[0] == "notifications/tools/list_changed"
    if is_modern:
        with pytest.raises(ConnectionLost):
            await listening


@pytest.mark.slow
async def test_an_extension_of_an_sdk_server() -> None:
    pytest.importorskip("mcp.server.extension", reason="mcp 2 is not installed")

    declared = ClientCapabilities(extensions={"io.modelcontextprotocol/tasks": {}})
    async with connect(*command_of("extension_server.py"), capabilities=declared) as client:
        assert client.server.capabilities.supports("extensions.io.modelcontextprotocol/tasks")
        begun = await client.call_tool("slow")
        assert (begun["resultType"], begun["taskId"]) == ("task", "t1")
        assert (await client.call("tasks/get", {"taskId": "t1"}))["status"] == "completed"
