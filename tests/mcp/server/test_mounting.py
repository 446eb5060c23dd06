"""A server inside another one: contexts, middleware, lifespans, changes, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jsonrpc_fast.handlers import CallNext
from jsonrpc_fast.mcp.server import Context, Server

from ...support.mcp_conversation import answered, converse
from ...support.mcp_sample import sample
from ...support.tables import rows

VERSIONS = ("2024-11-05", "2025-11-25", "2026-07-28")


@rows("version", VERSIONS)
async def test_a_mounted_server_answers_as_it_does_alone(version: str) -> None:
    inner, outer = sample(), Server("outer", "1", ttl_ms=60_000, cache_scope="public")
    outer.mount(inner)
    requests: list[tuple[str, dict[str, Any]]] = [
        ("tools/call", {"name": "add", "arguments": {"a": "1"}}),
        ("tools/call", {"name": "echo", "arguments": {"text": "a"}}),
        ("tools/call", {"name": "fail"}),
        ("tools/call", {"name": "picture", "arguments": {"wide": True}}),
        ("tools/call", {"name": "raw", "arguments": {"n": 1}}),
    ]
    async with converse(inner, version) as alone, converse(outer, version) as client:
        for method, member in (
            ("tools/list", "tools"),
            ("prompts/list", "prompts"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ):
            items: list[Any] = []
            params: dict[str, Any] = {}
            while True:
                page = await alone.result(method, params)
                items += page[member]
                if "nextCursor" not in page:
                    break
                params = {"cursor": page["nextCursor"]}
            assert (await client.result(method))[member] == items != []
        for method, params in requests:
            one, other = await alone.result(method, params), await client.result(method, params)
            one.pop("_meta", None)
            other.pop("_meta", None)
            assert one == other
        assert await client.error("tools/call", {"name": "refuse"}) == await alone.error(
            "tools/call", {"name": "refuse"}
        )


def nested(events: list[str]) -> tuple[Server, Server]:
    def note(name: str) -> Any:
        async def middleware(context: Context, params: dict[str, Any], call_next: CallNext) -> Any:
            events.append(f"{name} {context.method} {params.get('name')}")
            return await call_next(params)

        return middleware

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        events.append("begun")
        yield "of the inner one"
        events.append("ended")

    inner = Server("inner", "1", middleware=[note("inner")], lifespan=lifespan)
    outer = Server("outer", "1", middleware=[note("outer")])

    @inner.tool
    async def know(context: Context) -> list[str]:
        context.report_progress(1)
        [contents] = await context.read_resource("a:b")
        return [context.lifespan, contents["text"]]

    @inner.tool
    async def ask(context: Context) -> int:
        return len(await context.list_roots())

    inner.resource("a:b", name="a")(lambda: "the inner resource")
    outer.mount(inner, prefix="in")
    return inner, outer


async def test_contexts_middleware_and_lifespans() -> None:
    events: list[str] = []
    _, outer = nested(events)
    async with converse(outer, "2025-11-25") as client:
        assert events == ["begun"]
        result = await client.result("tools/call", {"name": "in_know", "_meta": {"progressToken": 1}})
        assert result["structuredContent"] == {"result": ["of the inner one", "the inner resource"]}
        await client.notification("notifications/progress")
    assert events == ["begun", "outer tools/call in_know", "inner tools/call know", "ended"]


async def test_a_function_inside_asks_the_client() -> None:
    _, outer = nested([])
    async with converse(outer, "2026-07-28", {"roots": {}}) as client:
        asked = await client.result("tools/call", {"name": "in_ask"})
        params = {"name": "in_ask", **answered(asked, {"roots": []})}
        assert (await client.result("tools/call", params))["structuredContent"] == {"result": 0}
    async with converse(outer, "2025-11-25", {"roots": {}}) as client:
        id = client.request("tools/call", {"name": "in_ask"})
        request = await client.notification("roots/list")
        client.send({"jsonrpc": "2.0", "id": request["id"], "result": {"roots": []}})
        assert (await client.answer(id))["result"]["structuredContent"] == {"result": 0}


async def test_changes_inside_are_announced_outside() -> None:
    inner, outer = nested([])
    async with converse(outer, "2025-11-25") as client:
        await client.result("resources/subscribe", {"uri": "a:b"})
        inner.tool("later")(lambda: "now")
        inner.resource_updated("a:b")
        await client.notification("notifications/tools/list_changed")
        await client.notification("notifications/resources/updated")
        tools = (await client.result("tools/list"))["tools"]
        assert [tool["name"] for tool in tools] == ["in_know", "in_ask", "in_later"]


async def test_tools_that_may_be_tasks_are_called_plainly() -> None:
    inner, outer = Server("inner", "1"), Server("outer", "1")
    inner.tool("may", task_support="optional")(lambda: "done")
    inner.tool("must", task_support="required")(lambda: "done")
    outer.mount(inner)
    extension: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with converse(outer, "2026-07-28", extension) as client:
        assert [tool["name"] for tool in (await client.result("tools/list"))["tools"]] == ["may", "must"]
        result = await client.result("tools/call", {"name": "may"})
        assert result["content"][0]["text"] == "done"
    async with converse(outer, "2025-11-25") as client:
        assert not any("execution" in tool for tool in (await client.result("tools/list"))["tools"])
        assert (await client.result("tools/call", {"name": "must"}))["content"][0]["text"] == "done"


def test_a_server_that_would_contain_itself() -> None:
    a, b, c = Server("a", "1"), Server("b", "1"), Server("c", "1")
    a.mount(b)
    b.mount(c)
    for outer, inner in ((a, a), (b, a), (c, a), (c, b)):
        with pytest.raises(ValueError, match="a server cannot contain itself"):
            outer.mount(inner, prefix="x")
    a.mount(c, prefix="c")


def test_names_of_both_servers() -> None:
    inner, outer = Server("inner", "1"), Server("outer", "1")
    inner.tool("a")(lambda: None)
    outer.tool("a")(lambda: None)
    with pytest.raises(ValueError, match="a: already registered"):
        outer.mount(inner)
    outer.mount(inner, prefix="in", separator=".")
    with pytest.raises(ValueError, match="already registered"):
        outer.tool("in.a")(lambda: None)
