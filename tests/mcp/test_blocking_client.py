"""The blocking client, with a real server."""

from __future__ import annotations

import inspect
import queue
import sys
from typing import Any

import pytest

from jsonrpc_fast import mcp
from jsonrpc_fast.errors import ConnectionLost, HandshakeError, ProgramStartError, RpcError, StateError
from jsonrpc_fast.mcp import BlockingClient
from jsonrpc_fast.mcp.client import Client
from jsonrpc_fast.mcp.server import Context, Server


def served() -> Server:
    server = Server("sums", "1.0")

    @server.tool()
    def add(a: int, b: int = 1) -> dict[str, int]:
        return {"sum": a + b}

    @server.tool()
    async def slow(context: Context) -> str:
        context.report_progress(1, 2)
        return "done"

    return server


def test_it_calls_a_server() -> None:
    progress: list[Any] = []
    client = mcp.blocking(served(), timeout=20)
    with pytest.raises(StateError, match="not connected"):
        client.list_tools()
    with client:
        assert client.server.revision.is_modern
        assert sorted(tool["name"] for tool in client.list_tools()) == ["add", "slow"]
        assert client.call_tool("add", {"a": 2})["structuredContent"] == {"sum": 3}
        assert client.call_tool("slow", on_progress=progress.append)["content"][0]["text"] == "done"
        client.ping()
        with pytest.raises(RpcError):
            client.call("none/such")
    assert progress == [{"progress": 1, "total": 2}]
    client.close()
    with pytest.raises(ConnectionLost, match="it is closed"):
        client.ping()


def test_every_method_of_the_client_has_its_blocking_form() -> None:
    methods = {
        name
        for name, function in vars(Client).items()
        if inspect.iscoroutinefunction(function) and not name.startswith("_")
    }
    # A task of the server has methods of its own, which await.
    assert methods - set(dir(BlockingClient)) == {"start_task"}
    assert inspect.signature(BlockingClient.listen).parameters == inspect.signature(Client.listen).parameters
    for name in methods - {"start", "close", "start_task"}:
        form = getattr(BlockingClient, name)
        assert not inspect.iscoroutinefunction(form)
        assert inspect.signature(form) == inspect.signature(getattr(Client, name))
        assert form.__doc__ == getattr(Client, name).__doc__


@pytest.mark.parametrize("mode", ["2025-11-25", "2026-07-28"])
def test_it_listens(mode: str) -> None:
    server = Server("notes", "1.0")
    text = "old"

    @server.resource("notes://today")
    def today() -> str:
        return text

    @server.tool
    def write(new: str) -> None:
        nonlocal text
        text = new
        server.resource_updated("notes://today")

    changes: queue.SimpleQueue[tuple[str, dict[str, Any]]] = queue.SimpleQueue()

    def on_notification(method: str, params: dict[str, Any]) -> None:
        changes.put((method, params))

    with mcp.blocking(server, timeout=20, mode=mode, on_notification=on_notification) as client:
        with client.listen("notes://today"):
            client.call_tool("write", {"new": "new"})
            while (change := changes.get(timeout=20))[0] != "notifications/resources/updated":
                pass
            assert change[1]["uri"] == "notes://today"
            assert client.read_resource("notes://today")["contents"][0]["text"] == "new"
        client.call_tool("write", {"new": "newer"})
        client.ping()
        assert changes.empty()
        with pytest.raises(ValueError, match="URI"), client.listen("no uri"):
            pass
        with client.listen():
            client.close()  # the block ends without an error
    with pytest.raises(ConnectionLost, match="it is closed"), client.listen():
        pass


def test_a_program_that_cannot_be_started() -> None:
    for command in (["/nonexistent/program"], [sys.executable, "-c", "raise SystemExit(3)"]):
        with pytest.raises((ProgramStartError, HandshakeError, OSError)), mcp.blocking(*command, timeout=20):
            pass
