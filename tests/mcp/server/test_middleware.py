"""Middleware of a server: what it is called for, what it may do, and what its exceptions become."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.handlers import CallNext
from jsonrpc_fast.mcp.server import Context, Middleware, Server, ToolError

from ...support.mcp_conversation import Conversation, answered, converse
from ...support.tables import rows

VERSIONS = ("2025-11-25", "2026-07-28")


def served(*middleware: Middleware, **options: Any) -> Server:
    server = Server("middle", "1", middleware=middleware, **options)

    @server.tool
    def add(a: int, b: int = 1) -> int:
        return a + b

    @server.tool
    async def echo(text: str) -> str:
        await asyncio.sleep(0)
        return text

    @server.prompt
    def ask(topic: str) -> str:
        return topic

    @server.resource("a:{part}", complete={"part": ["x"]})
    def part(part: str) -> str:
        return part

    @server.method("vendor/do")
    def do() -> dict[str, int]:
        return {"done": 1}

    return server


async def text_of(client: Conversation, name: str, **arguments: Any) -> str:
    result = await client.result("tools/call", {"name": name, "arguments": arguments})
    return ("failed: " if result.get("isError") else "") + str(result["content"][0]["text"])


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    ("tools/call", {"name": "add", "arguments": {"a": 1}}),
    ("tools/call", {"name": "echo", "arguments": {"text": "a"}}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "ask", "arguments": {"topic": "a"}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "a:b"}),
    (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "a:{part}"}, "argument": {"name": "part", "value": ""}},
    ),
    ("vendor/do", {}),
]


@rows("version", VERSIONS)
@rows("is_async", [True, False])
async def test_it_is_around_every_method_and_changes_no_result(version: str, is_async: bool) -> None:
    seen: list[str] = []

    async def note(context: Context, params: dict[str, Any], call_next: CallNext) -> Any:
        seen.append(context.method)
        return await call_next(params)

    def note_sync(context: Context, params: dict[str, Any], call_next: CallNext) -> Any:
        seen.append(context.method)
        return call_next(params)

    async with (
        converse(served(), version) as plain,
        converse(served(note if is_async else note_sync), version) as client,
    ):
        for method, params in REQUESTS:
            assert await client.result(method, params) == await plain.result(method, params)
        await client.result("ping") if version == "2025-11-25" else None
        assert (await client.error("vendor/unknown"))[0] == -32601
        if version == "2025-11-25":
            await client.result("logging/setLevel", {"level": "error"})
            await client.result("resources/subscribe", {"uri": "a:b"})
    own = ["logging/setLevel", "resources/subscribe"] if version == "2025-11-25" else []
    assert seen == [method for method, _ in REQUESTS] + own


async def test_it_alters_params_and_results() -> None:
    async def double(context: Context, params: dict[str, Any], call_next: CallNext) -> Any:
        if context.method != "tools/call":
            return await call_next(params)
        result = await call_next({**params, "name": "echo", "arguments": {"text": f"{params['arguments']['a']}!"}})
        assert context.params["name"] == "add"
        return {**result, "structuredContent": {"result": "altered"}}

    async with converse(served(double), "2026-07-28") as client:
        result = await client.result("tools/call", {"name": "add", "arguments": {"a": 1}})
    assert result["content"][0]["text"] == "1!"
    assert result["structuredContent"] == {"result": "altered"}


async def test_it_hides_caches_and_refuses() -> None:
    calls: list[Any] = []
    cache: dict[str, Any] = {}

    async def hide(context: Context, params: dict[str, Any], call_next: CallNext) -> Any:
        if context.method == "tools/call" and params.get("name") == "echo":
            raise RpcError(-32602, "Unknown tool")
        result = await call_next(params)
        if context.method == "tools/list":
            result["tools"] = [tool for tool in result["tools"] if tool["name"] != "echo"]
        return result

    async def remember(context: Context, params: dict[str, Any], call_next: CallNext) -> Any:
        key = str(params.get("arguments"))
        if key not in cache:
            calls.append(key)
            cache[key] = await call_next(params)
        return cache[key]

    async with converse(served(hide, remember), "2026-07-28") as client:
        assert [tool["name"] for tool in (await client.result("tools/list"))["tools"]] == ["add"]
        assert await client.error("tools/call", {"name": "echo", "arguments": {"text": ""}}) == (
            -32602,
            "Unknown tool",
            None,
        )
        assert [await text_of(client, "add", a=3) for _ in range(3)] == ["4"] * 3
    assert calls == ["None", "{'a': 3}"]


@rows("error, expected", [(ToolError("not now"), "failed: not now"), (RpcError(-32000, "no"), (-32000, "no", None))])
async def test_its_errors_of_a_call(error: Exception, expected: Any) -> None:
    def refuse(context: Context, params: dict[str, Any], call_next: CallNext) -> Any:
        raise error

    async with converse(served(refuse), "2025-11-25") as client:
        if isinstance(expected, str):
            assert await text_of(client, "add", a=1) == expected
            assert (await client.error("tools/list"))[0] == -32603
        else:
            assert await client.error("tools/call", {"name": "add"}) == expected


async def test_params_that_are_no_dict_are_an_error_that_is_logged() -> None:
    async def wrong(context: Context, params: dict[str, Any], call_next: CallNext) -> Any:
        return await call_next(["a"])

    async with converse(served(wrong), "2025-11-25") as client:
        assert await client.error("tools/list") == (-32603, "Internal error", None)


async def test_it_runs_again_with_a_function_that_asks() -> None:
    rounds: list[str] = []

    async def note(context: Context, params: dict[str, Any], call_next: CallNext) -> Any:
        rounds.append("begun")
        result = await call_next(params)
        rounds.append("ended")
        return result

    server = served(note)

    @server.tool
    async def roots(context: Context) -> int:
        return len(await context.list_roots())

    async with converse(server, "2026-07-28", {"roots": {}}) as client:
        params = {"name": "roots"}
        asked = await client.result("tools/call", params)
        assert asked["resultType"] == "input_required"
        result = await client.result("tools/call", {**params, **answered(asked, {"roots": []})})
    assert result["structuredContent"] == {"result": 0}
    assert rounds == ["begun", "begun", "ended"]


async def test_a_notification_and_a_subscription() -> None:
    seen: list[str] = []

    async def note(context: Context, params: dict[str, Any], call_next: CallNext) -> Any:
        seen.append(f"{context.method} {params.get('n', '')}")
        return await call_next({**params, "n": 2} if context.request_id is None else params)

    server = served(note)
    given: list[int] = []
    server.notification("notifications/vendor")(lambda n: given.append(n))
    async with converse(server, "2025-11-25") as client:
        client.notify("notifications/vendor", {"n": 1})
        client.notify("notifications/unknown", {"n": 1})
        await client.settle()
    assert given == [2]
    async with converse(server, "2026-07-28", session={"max_handlers": 1}) as client:
        id = client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await client.notification("notifications/subscriptions/acknowledged")
        assert await text_of(client, "echo", text="a") == "a"  # the subscription needs no slot
        server.on_signal()
        assert (await client.answer(id))["result"]["resultType"] == "complete"
    assert seen == ["notifications/vendor 1", "subscriptions/listen ", "tools/call "]


@rows("middleware", [[None], "ab", 3, None])
def test_a_middleware_must_be_callable(middleware: Any) -> None:
    with pytest.raises(TypeError, match="middleware must be"):
        Server("a", "1", middleware=middleware)
