"""A server: what it declares, tasks and extensions, options."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from jsonrpc_fast.errors import CallTimeout
from jsonrpc_fast.mcp.protocol.capabilities import ServerCapabilities
from jsonrpc_fast.mcp.protocol.meta import SERVER_INFO_KEY
from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS
from jsonrpc_fast.mcp.server.blocks import WholeResult
from jsonrpc_fast.mcp.server.context import Context
from jsonrpc_fast.mcp.server.server import Server
from jsonrpc_fast.transports import memory_pair

from ...support.mcp_conversation import Conversation, converse
from ...support.mcp_sample import sample
from ...support.mcp_schemas import Schemas
from ...support.tables import rows

LEGACY = RELEASED_VERSIONS[:-1]
NOT_FOUND = (-32601, "Method not found", None)


@rows("version", LEGACY)
async def test_initialize_declares_what_is_registered(version: str, schemas: Schemas) -> None:
    async with converse(sample(), "") as client:
        result = await client.initialize(version)
    schemas.check(version, "InitializeResult", result)
    assert result["capabilities"] == {
        "logging": {},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "tools": {"listChanged": True},
    } | ({} if version == "2024-11-05" else {"completions": {}})
    assert (result["protocolVersion"], result["instructions"]) == (version, "Ask.")
    assert result["serverInfo"] == {"name": "sample", "version": "1.0"} | (
        {"title": "Sample"} if version >= "2025-06-18" else {}
    ) | ({"description": "Some of everything"} if version >= "2025-11-25" else {})


async def test_an_empty_server_declares_nothing_and_finds_no_methods() -> None:
    async with converse(Server("empty", "1"), "") as client:
        assert (await client.initialize("2025-11-25"))["capabilities"] == {"logging": {}}
        for method in ("tools/list", "prompts/get", "resources/read", "completion/complete", "resources/subscribe"):
            assert await client.error(method, {"name": "a", "uri": "a:b"}) == NOT_FOUND


@rows("raw", [False, True])
async def test_a_method_of_an_extension(raw: bool) -> None:
    server = Server("extended", "1")

    @server.method("vendor/sum")
    async def total(numbers: list[int]) -> dict[str, int]:
        return {"sum": sum(numbers)}

    with pytest.raises(ValueError, match="tools/list is a method of the protocol"):
        server.method("tools/list")(dict)

    async with converse(server, "2025-11-25", raw=raw) as client:
        if not raw:
            assert await client.result("vendor/sum", {"numbers": [1, 2], "_meta": {}}) == {"sum": 3}
        assert (await client.error("vendor/sum", {"numbers": ["1"]}))[0] == -32602


async def test_one_server_has_many_clients() -> None:
    server = sample()
    async with converse(server, "2025-11-25") as one, converse(server, "2026-07-28") as other:
        assert "resultType" in await other.result("tools/list")
        assert "resultType" not in await one.result("tools/list")
        await one.result("logging/setLevel", {"level": "error"})
        server.tool("new")(lambda: None)
        await one.notification("notifications/tools/list_changed")
        await other.result("tools/list")
        assert other.notifications == []


TASKS = "io.modelcontextprotocol/tasks"


def server_of_tasks() -> Server:
    """A server that declares tasks in the form of each revision."""
    declared = {
        "tasks": {"requests": {"tools": {"call": {}}}},
        "extensions": {TASKS: {}, "com.example/more": {"depth": 2}},
        "experimental": {"own": {}},
        "tools": {},
        "vendor": {"of": "its own"},
    }
    server = Server("tasks", "1", capabilities=ServerCapabilities.from_dict(declared))

    @server.tool()
    def begin(context: Context) -> WholeResult:
        if context.revision.is_modern:
            context.require(f"extensions.{TASKS}")
            return WholeResult({"resultType": "task", "taskId": "t1", "status": "working"})
        return WholeResult({"task": {"taskId": "t1", "ttl": context.params["task"]["ttl"]}})

    @server.method("tasks/get")
    def get(taskId: str) -> dict[str, Any]:
        return {"taskId": taskId, "status": "working"}

    return server


async def test_tasks_are_declared_and_served_in_2025_11_25(schemas: Schemas) -> None:
    async with converse(server_of_tasks(), "") as client:
        declared = (await client.initialize("2025-11-25"))["capabilities"]
        assert declared == {
            "tasks": {"requests": {"tools": {"call": {}}}},
            "experimental": {"own": {}},
            "logging": {},
            "tools": {},
            "vendor": {"of": "its own"},
        }
        begun = await client.result("tools/call", {"name": "begin", "task": {"ttl": 60}})
        assert begun == {"task": {"taskId": "t1", "ttl": 60}}
        assert await client.result("tasks/get", {"taskId": "t1"}) == {"taskId": "t1", "status": "working"}
        assert await client.error("tasks/list") == NOT_FOUND


async def test_an_extension_is_declared_and_served_in_2026_07_28(schemas: Schemas) -> None:
    async with converse(server_of_tasks(), "2026-07-28", {"extensions": {TASKS: {}}}) as client:
        result = await client.result("server/discover")
        schemas.check("2026-07-28", "DiscoverResult", result)
        assert result["capabilities"] == {
            "extensions": {TASKS: {}, "com.example/more": {"depth": 2}},
            "experimental": {"own": {}},
            "logging": {},
            "tools": {},
            "vendor": {"of": "its own"},
        }
        begun = await client.result("tools/call", {"name": "begin"})
        server_info = begun.pop("_meta")
        assert server_info == {SERVER_INFO_KEY: {"name": "tasks", "version": "1"}}
        assert begun == {"resultType": "task", "taskId": "t1", "status": "working"}
        got = await client.result("tasks/get", {"taskId": "t1"})
        assert (got["resultType"], got["taskId"]) == ("complete", "t1")
        assert await client.error("tasks/list") == NOT_FOUND
    async with converse(server_of_tasks(), "2026-07-28") as client:
        code, _, data = await client.error("tools/call", {"name": "begin"})
        assert (code, data) == (-32021, {"requiredCapabilities": {"extensions": {TASKS: {}}}})


@pytest.mark.ci
async def test_an_sdk_client_reads_the_results_of_an_extension() -> None:
    extension = pytest.importorskip("mcp.client.extension", reason="mcp 2 is not installed")
    import mcp_types as types
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    class Task(types.Result):
        result_type: Literal["task"] = "task"
        task_id: str

    async def resolve(task: Task, context: Any) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text=task.task_id)])

    class Tasks(extension.ClientExtension):  # type: ignore[misc, name-defined]
        identifier = TASKS

        def claims(self) -> Any:
            return [extension.ResultClaim(result_type="task", model=Task, resolve=resolve)]

    code = "from tests.mcp.server.test_server import server_of_tasks; server_of_tasks().serve_stdio()"
    root = Path(__file__).resolve().parents[3]
    server = StdioServerParameters(command=sys.executable, args=["-c", code], cwd=root)
    async with Client(stdio_client(server), extensions=[Tasks()]) as client:
        assert (await client.call_tool("begin")).content[0].text == "t1"


async def test_a_declared_kind_is_served_before_anything_is_registered() -> None:
    server = Server("late", "1", capabilities=ServerCapabilities.from_dict({"tools": {"listChanged": True}}))
    async with converse(server, "2025-11-25") as client:
        assert (await client.result("tools/list"))["tools"] == []
        server.tool("late")(lambda: None)
        await client.notification("notifications/tools/list_changed")
        assert [tool["name"] for tool in (await client.result("tools/list"))["tools"]] == ["late"]


def test_notifications_that_the_session_handles_are_refused() -> None:
    server = Server("listening", "1")
    for method in ("notifications/cancelled", "notifications/progress"):
        with pytest.raises(ValueError, match=f"the session handles {method}"):
            server.notification(method)(lambda: None)
    server.notification("notifications/initialized")(lambda: None)
    with pytest.raises(ValueError, match="notifications/initialized is already registered"):
        server.notification("notifications/initialized")(lambda: None)


@pytest.mark.virtual_time
async def test_run_accepts_the_options_of_a_session() -> None:
    class Hooks:
        def __init__(self) -> None:
            self.served: list[Any] = []

        def request_served(self, trace: Any, id: Any, method: str, outcome: Any, code: Any, seconds: float) -> None:
            self.served.append((method, code))

    async def ask(context: Context) -> dict[str, Any]:
        try:
            return await context.call("roots/list")
        except CallTimeout as error:
            return {"error": type(error).__name__}

    hooks, server = Hooks(), Server("options", "1")
    server.method("vendor/ask")(ask)
    ours, theirs = memory_pair(profile=server.profile)
    serving = asyncio.create_task(server.run(theirs, hooks=hooks, timeout=0.01))
    client = Conversation(ours, "2025-11-25", {"roots": {}})
    await ours.start()
    await client.initialize("2025-11-25")
    await client.error("vendor/none")
    # The client does not respond to requests.
    assert await client.result("vendor/ask") == {"error": "CallTimeout"}
    await ours.close()
    await serving
    assert ("vendor/none", -32601) in hooks.served
    for options in ({"max_handlers": 0}, {"timeout": -1}, {"unknown": 1}):
        with pytest.raises((ValueError, TypeError)):
            await server.run(memory_pair()[0], **options)  # type: ignore[arg-type]


@pytest.mark.ci
@rows(("options", "end_seconds"), [({}, None), ({"end_seconds": None}, None), ({"end_seconds": 0}, 0)])
def test_serve_stdio_passes_its_time_on(
    options: dict[str, Any], end_seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("jsonrpc_fast.transports.run_stdio", lambda _, **options: given.update(options))
    Server("one", "1").serve_stdio(**options)
    assert given["end_seconds"] == end_seconds


def test_serve_stdio_accepts_the_options_of_a_session_and_a_transport() -> None:
    code = (
        "import sys\n"
        "from jsonrpc_fast.mcp.server import Server\n"
        "from jsonrpc_fast.profile import Limits\n"
        "class Hooks:\n"
        "    def fault(self, error): print(error, file=sys.stderr)\n"
        "server = Server('options', '1')\n"
        "for wrong in ({'max_handlers': 0}, {'timeout': -1}, {'drain_seconds': None, 'unknown': 1}):\n"
        "    try: server.serve_stdio(**wrong)\n"
        "    except (TypeError, ValueError): continue\n"
        "    raise SystemExit('it takes anything')\n"
        "sys.exit(server.serve_stdio(hooks=Hooks(), max_handlers=3, limits=Limits(method_bytes=9)))\n"
    )
    lines = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n{"jsonrpc":"2.0","id":2,"method":"0123456789"}\n'
    done = subprocess.run([sys.executable, "-c", code], input=lines, capture_output=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, b"method is longer than the limit\n")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
