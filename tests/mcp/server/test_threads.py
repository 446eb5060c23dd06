"""Functions in a thread: the loop continues, the context works from the thread, cancellation."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from jsonrpc_fast.mcp.protocol.meta import TASKS_EXTENSION
from jsonrpc_fast.mcp.server import Context, Server

from ...support.mcp_conversation import answered, converse
from ...support.tables import rows
from ...support.waiting import eventually

pytestmark = pytest.mark.usefixtures("each_loop")

LEGACY, MODERN = "2025-11-25", "2026-07-28"
FORM: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
NAME: ContextVar[str] = ContextVar("NAME")


@rows("version", [LEGACY, MODERN])
async def test_the_loop_goes_on_while_a_thread_works(version: str) -> None:
    server = Server("test", "1")
    go = threading.Event()

    @server.tool(thread=True)
    def slow(count: int) -> str:
        assert go.wait(20)
        return f"{count} {threading.current_thread() is threading.main_thread()}"

    @server.tool
    def quick() -> str:
        go.set()
        return "quick"

    @server.prompt(thread=True)
    def ask(name: str) -> str:
        return f"{name} {threading.current_thread() is threading.main_thread()}"

    @server.resource("x://{part}", thread=True)
    def read(part: str, somewhere: Context | None = None) -> str | None:
        assert somewhere is not None
        return part if part != "none" else None

    async with converse(server, version) as client:
        id = client.request("tools/call", {"name": "slow", "arguments": {"count": 1}})
        assert (await client.result("tools/call", {"name": "quick"}))["content"][0]["text"] == "quick"
        assert (await client.answer(id))["result"]["content"][0]["text"] == "1 False"
        result = await client.result("prompts/get", {"name": "ask", "arguments": {"name": "a"}})
        assert result["messages"][0]["content"]["text"] == "a False"
        result = await client.result("resources/read", {"uri": "x://a"})
        assert result["contents"] == [{"uri": "x://a", "text": "a"}]
        assert (await client.error("resources/read", {"uri": "x://none"}))[1].startswith("Resource not found: x://none")


@rows("version", [LEGACY, MODERN])
async def test_the_context_in_a_thread(version: str) -> None:
    server = Server("test", "1")

    @server.tool(thread=True)
    def work(context: Context) -> str:
        assert context.report_progress(1, 2, "half") is True
        context.info("from a thread")
        with pytest.raises(ValueError, match="level must be"):
            context.log("loud", 1)
        answer = context.wait(context.elicit("Name?", FORM))
        assert answer.content is not None
        return f"{answer.content['name']} {context.request_id}"

    meta = {"progressToken": "t", "io.modelcontextprotocol/logLevel": "info"}
    async with converse(server, version, {"elicitation": {}}) as client:
        response = {"action": "accept", "content": {"name": "Ada"}}
        params: dict[str, Any] = {"name": "work", "_meta": meta}
        if version == MODERN:
            first = await client.result("tools/call", params)
            params |= answered(first, response)
            id = client.request("tools/call", params)
        else:
            id = client.request("tools/call", params)
            asked = await client.notification("elicitation/create")
            client.send({"jsonrpc": "2.0", "id": asked["id"], "result": response})
        assert (await client.answer(id))["result"]["content"][0]["text"] == f"Ada {id}"
        progress = await client.notification("notifications/progress")
        assert progress["params"] == {"progressToken": "t", "progress": 1, "total": 2, "message": "half"}
        assert (await client.notification("notifications/message"))["params"]["data"] == "from a thread"


async def test_a_cancelled_request_ends_what_its_thread_waits_for() -> None:
    server = Server("test", "1")
    ended: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    @server.tool(thread=True)
    def work(context: Context) -> None:
        try:
            context.wait(context.elicit("Name?", FORM, timeout=None))
        except BaseException as error:
            loop.call_soon_threadsafe(ended.put_nowait, f"{type(error).__name__} {context.is_cancelled}")
            raise

    async with converse(server, LEGACY, {"elicitation": {}}) as client:
        id = client.request("tools/call", {"name": "work"})
        asked = await client.notification("elicitation/create")
        client.notify("notifications/cancelled", {"requestId": id})
        assert await asyncio.wait_for(ended.get(), 20) == "CancelledError True"
        cancelled = await client.notification("notifications/cancelled")
        assert cancelled["params"]["requestId"] == asked["id"]


async def test_a_thread_that_runs_as_a_task() -> None:
    server = Server("test", "1")

    @server.tool(thread=True, task_support="required", task_start="function")
    def work(context: Context) -> str:
        answer = context.wait(context.elicit("Name?", FORM, key="name"))
        assert answer.content is not None
        context.wait(context.start_task())
        answer = context.wait(context.elicit("Again?", FORM))
        assert answer.content is not None
        return str(answer.content["name"])

    async with converse(server, MODERN, {"elicitation": {}, "extensions": {TASKS_EXTENSION: {}}}) as client:
        first = await client.result("tools/call", {"name": "work"})
        assert [*first["inputRequests"]] == ["name"]
        responses = {"name": {"action": "accept", "content": {"name": "Ada"}}}
        task = await client.result("tools/call", {"name": "work", "inputResponses": responses})
        assert task["resultType"] == "task"
        params: dict[str, Any] = {"taskId": task["taskId"]}

        async def shown(status: str) -> dict[str, Any] | None:
            task: dict[str, Any] = await client.result("tasks/get", params)
            return task if task["status"] == status else None

        asking = await eventually(lambda: shown("input_required"))
        [key] = asking["inputRequests"]
        responses = {key: {"action": "accept", "content": {"name": "Bob"}}}
        await client.result("tasks/update", {**params, "inputResponses": responses})
        done = await eventually(lambda: shown("completed"))
        assert done["result"]["content"] == [{"type": "text", "text": "Bob"}]
        await server.tasks.close()


async def test_a_cancelled_task_ends_what_its_thread_waits_for() -> None:
    """Even if the thread itself has started the task."""
    server = Server("test", "1")
    ended: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    @server.tool(thread=True, task_support="required", task_start="function")
    def work(context: Context) -> None:
        context.wait(context.start_task())
        try:
            context.wait(asyncio.Event().wait())
        except BaseException as error:
            loop.call_soon_threadsafe(ended.put_nowait, f"{type(error).__name__} {context.is_cancelled}")
            raise

    async with converse(server, MODERN, {"extensions": {TASKS_EXTENSION: {}}}) as client:
        task = await client.result("tools/call", {"name": "work"})
        await client.result("tasks/cancel", {"taskId": task["taskId"]})
        assert await asyncio.wait_for(ended.get(), 20) == "CancelledError True"
        await server.tasks.close()


async def test_wait_on_the_loop_is_refused() -> None:
    server = Server("test", "1")

    @server.tool
    async def work(context: Context) -> str:
        with pytest.raises(RuntimeError, match="wait is for functions that run in a thread"):
            context.wait(context.list_roots())
        return "refused"

    async with converse(server, LEGACY) as client:
        assert (await client.result("tools/call", {"name": "work"}))["content"][0]["text"] == "refused"


def test_an_async_function_needs_no_thread() -> None:
    async def work() -> None: ...

    with pytest.raises(TypeError, match="an async function runs on the loop"):
        Server("test", "1").tool(thread=True)(work)
