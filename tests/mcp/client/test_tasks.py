"""Tasks of a client, with a server of this package and with one that breaks the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jsonrpc_fast.errors import CallTimeout, RpcError, StateError
from jsonrpc_fast.mcp import connect
from jsonrpc_fast.mcp.client import Client
from jsonrpc_fast.mcp.protocol.capabilities import ClientCapabilities, Elicitation
from jsonrpc_fast.mcp.protocol.meta import TASKS_EXTENSION
from jsonrpc_fast.mcp.server import Context, Server, TaskStore
from jsonrpc_fast.transports import memory_pair

FORM = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}


def answer(params: dict[str, Any]) -> dict[str, Any]:
    assert params["message"] == "Name?"
    return {"action": "accept", "content": {"name": "Ann"}}


@asynccontextmanager
async def connected(
    mode: str = "2026-07-28", extensions: bool = True
) -> AsyncIterator[tuple[Client, Server, asyncio.Event]]:
    """Yield a client, its server, and the event that the tool "wait" waits for."""
    gate = asyncio.Event()
    server = Server("tasks", "1", tasks=TaskStore(poll_interval_ms=20))

    @server.tool(task_support="optional")
    async def wait() -> str:
        await gate.wait()
        return "waited"

    @server.tool(task_support="required")
    async def ask(context: Context) -> str:
        answers = [(await context.call("elicitation/create", FORM))["content"]["name"] for _ in range(2)]
        return " ".join(answers)

    @server.tool(task_support="optional")
    async def refuse() -> str:
        raise RpcError(-32050, "no", {"why": 1})

    @server.tool
    def plain() -> str:
        return "plain"

    ours, theirs = memory_pair(profile=server.profile)
    serving = asyncio.create_task(server.run(theirs))
    declared = {TASKS_EXTENSION: {}} if extensions else {}
    capabilities = ClientCapabilities(elicitation=Elicitation(), extensions=declared)
    try:
        async with connect(
            ours, mode=mode, handlers={"elicitation/create": answer}, capabilities=capabilities
        ) as client:
            yield client, server, gate
    finally:
        await serving
        await server.tasks.close()


@pytest.mark.virtual_time
async def test_the_result_of_a_task() -> None:
    async with connected() as (client, _, gate):
        task = await client.start_task("wait")
        assert task.status == "working"
        assert (await task.get())["taskId"] == task.id
        with pytest.raises(CallTimeout):
            await task.result(timeout=0.1)
        waiting = asyncio.ensure_future(task.result())
        await asyncio.sleep(0)
        gate.set()
        assert (await waiting)["content"] == [{"type": "text", "text": "waited"}]
        assert await task.result() is await waiting
        assert (await task.get())["status"] == task.status == "completed"


async def test_a_task_asks_the_handlers() -> None:
    async with connected() as (client, _, _):
        result = await (await client.start_task("ask")).result(timeout=30)
        assert result["content"] == [{"type": "text", "text": "Ann Ann"}]


async def test_a_task_fails_or_is_cancelled() -> None:
    async with connected() as (client, server, _):
        with pytest.raises(RpcError) as caught:
            await (await client.start_task("refuse")).result(timeout=30)
        assert (caught.value.code, caught.value.message, caught.value.data) == (-32050, "no", {"why": 1})
        task = await client.start_task("wait")
        await task.cancel()
        with pytest.raises(RpcError) as caught:
            await task.result(timeout=30)
        assert caught.value.code == -32600
        assert len(server.tasks) == 2


async def test_a_server_may_return_the_result_at_once() -> None:
    async with connected() as (client, _, _):
        task = await client.start_task("plain")
        assert (task.id, task.status) == (None, "completed")
        assert (await task.result())["content"] == [{"type": "text", "text": "plain"}]
        with pytest.raises(StateError):
            await task.get()


async def test_a_client_that_does_not_declare_the_extension_starts_no_task() -> None:
    async with connected(extensions=False) as (client, _, _):
        with pytest.raises(StateError, match="extension"):
            await client.start_task("wait")


async def test_earlier_revisions_have_no_tasks() -> None:
    async with connected("2025-11-25") as (client, _, _):
        with pytest.raises(StateError, match="does not run tools as tasks"):
            await client.start_task("wait")
