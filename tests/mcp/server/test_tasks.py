"""Tasks of a server: the extension for 2026-07-28."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp.protocol.meta import SUBSCRIPTION_ID_KEY, TASKS_EXTENSION
from jsonrpc_fast.mcp.server import Context, Server, TaskStore

from ...support.mcp_conversation import Conversation, converse
from ...support.tables import rows
from ...support.waiting import eventually

LEGACY, MODERN = "2025-11-25", "2026-07-28"
CAN_ASK = {"elicitation": {}, "extensions": {TASKS_EXTENSION: {}}}
FORM = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
ANSWER = {"action": "accept", "content": {"name": "Ann"}}


class Tools:
    """A server with tools that run as tasks.

    Attributes:
        gate: What the tool "wait" waits for.
        running: Set while "wait" runs.
        cancelled: Set when "wait" is cancelled.
    """

    def __init__(self, tasks: TaskStore | None = None) -> None:
        self.gate, self.running, self.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.server = Server("tasks", "1", tasks=tasks)
        self.server.tool(task_support="optional")(self.wait)
        self.server.tool(task_support="required")(self.ask)
        self.server.tool(task_support="optional")(self.fail)
        self.server.tool(task_support="optional")(self.refuse)
        self.server.tool(task_support="required", task_start="function")(self.later)
        self.server.tool(self.plain)

    async def wait(self) -> str:
        self.running.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "waited"

    async def ask(self, context: Context) -> str:
        answer = await context.call("elicitation/create", FORM)
        return f"Hello, {answer['content']['name']}!"

    async def fail(self) -> str:
        raise RuntimeError("a secret")

    async def refuse(self) -> str:
        raise RpcError(-32050, "no", {"why": 1})

    async def later(self, context: Context) -> str:
        answer = await context.call("elicitation/create", FORM, key="name")
        await context.start_task()
        await self.gate.wait()
        return f"Hello, {answer['content']['name']}!"

    def plain(self) -> str:
        return "plain"


@asynccontextmanager
async def talk(tools: Tools, version: str, capabilities: dict[str, Any] | None = None) -> AsyncIterator[Conversation]:
    """Yield a conversation, and drop the tasks at its end."""
    async with converse(tools.server, version, capabilities) as client:
        yield client
    await tools.server.tasks.close()


async def started(client: Conversation, name: str, **params: Any) -> dict[str, Any]:
    """Start a task and return its members."""
    task: dict[str, Any] = await client.result("tools/call", {"name": name, **params})
    assert (task["resultType"], task["status"]) == ("task", "working")
    return task


async def reached(client: Conversation, id: str, status: str) -> dict[str, Any]:
    """Poll a task until it has a status."""

    async def shown() -> dict[str, Any] | None:
        task: dict[str, Any] = await client.result("tasks/get", {"taskId": id})
        assert task["status"] in (status, "working", "input_required"), task
        return task if task["status"] == status else None

    found: dict[str, Any] = await eventually(shown)
    return found


async def test_only_the_latest_revision_has_tasks() -> None:
    tools = Tools()
    tools.gate.set()
    async with talk(tools, MODERN) as client:
        capabilities = (await client.result("server/discover"))["capabilities"]
        assert capabilities["extensions"] == {TASKS_EXTENSION: {}}
        assert "tasks" not in capabilities
        assert all("execution" not in tool for tool in (await client.result("tools/list"))["tools"])
    async with talk(tools, "") as client:
        assert (await client.initialize(LEGACY))["capabilities"].keys().isdisjoint({"tasks", "extensions"})
        assert all("execution" not in tool for tool in (await client.result("tools/list"))["tools"])
        for method in ("tasks/get", "tasks/result", "tasks/list", "tasks/update"):
            assert (await client.error(method, {"taskId": "x"}))[0] == -32601
        result = await client.result("tools/call", {"name": "wait", "task": {"ttl": 1000}})
        assert result["content"] == [{"type": "text", "text": "waited"}]
        assert (await client.error("tools/call", {"name": "ask", "task": {}}))[0] == -32601
        assert len(tools.server.tasks) == 0


async def test_a_modern_task_holds_its_result() -> None:
    tools = Tools()
    async with talk(tools, MODERN, CAN_ASK) as client:
        task = await started(client, "wait")
        assert (task["ttlMs"], task["pollIntervalMs"]) == (3_600_000, 1000)
        assert "result" not in task
        tools.gate.set()
        done = await reached(client, task["taskId"], "completed")
        assert done["result"]["content"] == [{"type": "text", "text": "waited"}]
        assert (done["resultType"], done["result"]["resultType"]) == ("complete", "complete")
        failed = await reached(client, (await started(client, "fail"))["taskId"], "completed")
        assert failed["result"]["isError"]
        refused = await reached(client, (await started(client, "refuse"))["taskId"], "failed")
        assert refused["error"] == {"code": -32050, "message": "no", "data": {"why": 1}}
        assert refused["statusMessage"] == "no"


async def test_a_client_without_the_extension_gets_no_task() -> None:
    tools = Tools()
    tools.gate.set()
    needed = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
    async with talk(tools, MODERN) as client:
        result = await client.result("tools/call", {"name": "wait", "task": {"ttl": 1}})
        assert (result["resultType"], result["content"][0]["text"]) == ("complete", "waited")
        for method, params in [("tools/call", {"name": "ask"}), ("tasks/get", {"taskId": "x"})]:
            code, _, data = await client.error(method, params)
            assert (code, data) == (-32021, needed)
        code, _, data = await client.error("subscriptions/listen", {"notifications": {"taskIds": ["x"]}})
        assert (code, data) == (-32021, needed)
        assert (await client.error("tasks/result", {"taskId": "x"}))[0] == -32601


async def test_a_modern_task_asks_with_its_input_requests() -> None:
    async with talk(Tools(), MODERN, CAN_ASK) as client:
        task = await started(client, "ask")
        waiting = await reached(client, task["taskId"], "input_required")
        [(key, request)] = waiting["inputRequests"].items()
        assert request == {"method": "elicitation/create", "params": FORM}
        update = {"taskId": task["taskId"], "inputResponses": {"unknown": ANSWER}}
        assert (await client.result("tasks/update", update))["resultType"] == "complete"
        assert (await reached(client, task["taskId"], "input_required"))["inputRequests"] == {key: request}
        await client.result("tasks/update", {"taskId": task["taskId"], "inputResponses": {key: ANSWER}})
        done = await reached(client, task["taskId"], "completed")
        assert done["result"]["content"] == [{"type": "text", "text": "Hello, Ann!"}]
        assert (await client.error("tasks/update", {"taskId": task["taskId"]}))[0] == -32602


async def test_a_function_asks_before_it_starts_its_task() -> None:
    tools = Tools()
    async with talk(tools, MODERN, CAN_ASK) as client:
        first = await client.result("tools/call", {"name": "later"})
        assert (first["resultType"], list(first["inputRequests"])) == ("input_required", ["name"])
        assert len(tools.server.tasks) == 0
        task = await started(client, "later", inputResponses={"name": ANSWER})
        tools.gate.set()
        done = await reached(client, task["taskId"], "completed")
        assert done["result"]["content"] == [{"type": "text", "text": "Hello, Ann!"}]


async def test_cancelling_a_modern_task_is_acknowledged_twice() -> None:
    tools = Tools()
    async with talk(tools, MODERN, CAN_ASK) as client:
        task = await started(client, "wait")
        await tools.running.wait()
        for _ in range(2):
            acknowledged = await client.result("tasks/cancel", {"taskId": task["taskId"]})
            assert acknowledged.keys() == {"resultType", "_meta"}
        await asyncio.wait_for(tools.cancelled.wait(), 30)
        assert (await client.result("tasks/get", {"taskId": task["taskId"]}))["status"] == "cancelled"


async def test_a_stream_carries_the_changes_of_the_tasks_it_names() -> None:
    tools = Tools()
    async with talk(tools, MODERN, CAN_ASK) as client:
        task, other = await started(client, "wait"), await started(client, "ask")
        stream = client.request("subscriptions/listen", {"notifications": {"taskIds": [task["taskId"], "unknown"]}})
        acknowledged = await client.notification("notifications/subscriptions/acknowledged")
        assert acknowledged["params"]["notifications"] == {"taskIds": [task["taskId"]]}
        tools.gate.set()
        changed = (await client.notification("notifications/tasks"))["params"]
        assert changed["_meta"] == {SUBSCRIPTION_ID_KEY: stream}
        assert (changed["taskId"], changed["status"]) == (task["taskId"], "completed")
        assert changed["result"]["content"] == [{"type": "text", "text": "waited"}]
        await client.result("tasks/cancel", {"taskId": other["taskId"]})
        assert [message["method"] for message in client.notifications] == []


@pytest.mark.virtual_time
async def test_the_number_of_tasks_is_limited_and_they_are_dropped_in_time() -> None:
    tools = Tools(TaskStore(max_tasks=1, ttl_ms=300))
    async with talk(tools, MODERN, CAN_ASK) as client:
        task = await started(client, "wait")
        assert (await client.error("tools/call", {"name": "wait"}))[:2] == (-32000, "too many tasks")
        await asyncio.wait_for(tools.cancelled.wait(), 30)
        assert (await client.error("tasks/get", {"taskId": task["taskId"]}))[0] == -32602
        await started(client, "wait")
        await tools.server.tasks.close()
        assert len(tools.server.tasks) == 0


async def test_a_call_that_is_cancelled_before_its_task_starts_leaves_none() -> None:
    tools = Tools()
    gate, cancelled = asyncio.Event(), asyncio.Event()

    @tools.server.tool(task_support="optional", task_start="function")
    async def slow(context: Context) -> str:
        gate.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return ""

    async with talk(tools, MODERN, CAN_ASK) as client:
        call = client.request("tools/call", {"name": "slow"})
        await gate.wait()
        client.notify("notifications/cancelled", {"requestId": call})
        await asyncio.wait_for(cancelled.wait(), 30)
        assert len(tools.server.tasks) == 0


@rows("turns", range(6))
async def test_a_call_that_is_cancelled_at_any_moment_leaves_no_task_behind(turns: int) -> None:
    tools = Tools()
    serve_call = tools.server.tasks.serve_call
    serving: asyncio.Future[asyncio.Task[Any]] = asyncio.get_running_loop().create_future()

    async def spied(*arguments: Any) -> dict[str, Any]:
        current = asyncio.current_task()
        assert current is not None
        serving.set_result(current)
        return await serve_call(*arguments)

    tools.server.tasks.serve_call = spied  # type: ignore[method-assign]
    async with talk(tools, MODERN, CAN_ASK) as client:
        id = client.request("tools/call", {"name": "wait"})
        call = await serving
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        answer = await client.answer(id)
        await client.settle()
        if "error" in answer:
            assert len(tools.server.tasks) == 0
            assert tools.cancelled.is_set() or not tools.running.is_set()
        else:
            assert answer["result"]["taskId"]


class Stubborn:
    """A tool that ends only when its gate opens.

    Attributes:
        gate: What it waits for.
        refused: Set when it was cancelled.
        ended: Whether it has ended.
    """

    def __init__(self) -> None:
        self.gate, self.refused = asyncio.Event(), asyncio.Event()
        self.ended = False

    async def stay(self) -> None:
        while not self.gate.is_set():
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.refused.set()
        self.ended = True


async def test_closing_the_store_can_be_cancelled() -> None:
    tools, stubborn = Tools(), Stubborn()
    tools.server.tool(task_support="optional")(stubborn.stay)
    async with talk(tools, MODERN, CAN_ASK) as client:
        await started(client, "stay")
        closing = asyncio.ensure_future(tools.server.tasks.close())
        await asyncio.wait_for(stubborn.refused.wait(), 30)
        closing.cancel()
        await asyncio.wait([closing], timeout=30)
        is_cancelled = closing.done() and closing.cancelled()
        stubborn.gate.set()
        await asyncio.wait([closing])
        assert is_cancelled


@pytest.mark.virtual_time
@rows("ends", [True, False])
async def test_closing_the_store_waits_for_functions_of_dropped_tasks(
    ends: bool, caplog: pytest.LogCaptureFixture
) -> None:
    tools, stubborn = Tools(), Stubborn()
    tools.server.tool(task_support="optional")(stubborn.stay)
    async with converse(tools.server, MODERN, CAN_ASK) as client:
        task = await started(client, "stay")
        await client.result("tasks/cancel", {"taskId": task["taskId"]})
    await asyncio.wait_for(stubborn.refused.wait(), 30)
    closing = asyncio.ensure_future(tools.server.tasks.close())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not closing.done()
    if ends:
        stubborn.gate.set()
    await asyncio.wait_for(closing, 30)
    assert stubborn.ended == ends
    logged = [record.getMessage() for record in caplog.records]
    assert logged == ([] if ends else ["a task continues although it was cancelled"])
    stubborn.gate.set()
    await eventually(lambda: stubborn.ended)


@rows("name", ["max_tasks", "max_client_tasks", "ttl_ms", "poll_interval_ms"])
def test_limits_are_positive(name: str) -> None:
    with pytest.raises(ValueError, match="must be 1 or more"):
        TaskStore(**{name: 0})


async def test_one_client_cannot_take_all_tasks() -> None:
    """A client that a token identifies: without tokens, clients cannot be told apart."""
    tools = Tools(TaskStore(max_tasks=8))
    async with asyncio.timeout(30):
        for _ in range(2):
            assert tools.server.tasks._add("ann").owner == "ann"
        with pytest.raises(RpcError, match="too many tasks"):
            tools.server.tasks._add("ann")
        tools.server.tasks._add("bob")
        async with talk(tools, MODERN, CAN_ASK) as nobody:
            for _ in range(5):
                await started(nobody, "wait")
            assert (await nobody.error("tools/call", {"name": "wait"}))[:2] == (-32000, "too many tasks")
