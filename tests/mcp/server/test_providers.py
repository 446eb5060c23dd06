"""Providers: what a user's class offers through a server, and which names are refused."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp.server import (
    Context,
    Prompt,
    Provider,
    Resource,
    ResourceTemplate,
    Server,
    Text,
    Tool,
    ToolError,
    ToolResult,
)

from ...support.mcp_conversation import converse
from ...support.tables import rows

SCHEMA = {"type": "object"}


class Notes(Provider):
    """A provider with some of everything, whose names are given."""

    def __init__(self, *names: str) -> None:
        self.shown = names
        self.calls: list[Any] = []

    async def list_tools(self, context: Context) -> list[Tool]:
        return [Tool(name=name, input_schema=SCHEMA) for name in self.shown]

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context) -> Any:
        self.calls.append((name, arguments, context.method))
        if name == "fail":
            raise ValueError("a secret")
        if name == "refuse":
            raise RpcError(-32000, "no")
        if name == "explain":
            raise ToolError("because")
        return ToolResult([Text(f"{name}!")], structured_content={"n": 1}) if name in self.shown else None

    async def list_prompts(self, context: Context) -> list[Prompt]:
        return [Prompt(name=name) for name in self.shown]

    async def get_prompt(self, name: str, arguments: dict[str, str], context: Context) -> Any:
        return {"messages": [{"role": "user", "content": name}]} if name in self.shown else None

    async def list_resources(self, context: Context) -> list[Resource]:
        return [Resource(uri=f"notes:{name}", name=name) for name in self.shown]

    async def list_resource_templates(self, context: Context) -> list[ResourceTemplate]:
        return [ResourceTemplate(uri_template=f"{name}:{{part}}", name=name) for name in self.shown]

    async def read_resource(self, uri: str, context: Context) -> Any:
        name = uri.removeprefix("notes:")
        return {"uri": uri, "text": name} if name in self.shown else None

    async def complete(self, reference: Any, argument: Any, others: Any, context: Context) -> Any:
        name = reference.get("name") or reference["uri"].partition(":")[0]
        return {"values": [f"{name} {argument['name']} {others}"]} if name in self.shown else None


async def names(client: Any, method: str, key: str = "name") -> list[str]:
    result = await client.result(method)
    [items] = [items for items in result.values() if isinstance(items, list)]
    return sorted(item[key] for item in items)


@rows("version", ["2025-11-25", "2026-07-28"])
async def test_a_provider_behind_a_prefix(version: str) -> None:
    server = Server("outer", "1")
    notes = Notes("one", "two")
    server.mount(notes, prefix="n")
    server.tool("own")(lambda: None)
    async with converse(server, version) as client:
        assert await names(client, "tools/list") == ["n_one", "n_two", "own"]
        assert await names(client, "prompts/list") == ["n_one", "n_two"]
        assert await names(client, "resources/list", "uri") == ["notes:one", "notes:two"]
        assert await names(client, "resources/templates/list", "uriTemplate") == ["one:{part}", "two:{part}"]
        result = await client.result("tools/call", {"name": "n_one", "arguments": {"a": 1}})
        assert (result["content"], result["structuredContent"]) == ([{"type": "text", "text": "one!"}], {"n": 1})
        assert notes.calls == [("one", {"a": 1}, "tools/call")]
        [message] = (await client.result("prompts/get", {"name": "n_two"}))["messages"]
        assert message["content"]["text"] == "two"
        [contents] = (await client.result("resources/read", {"uri": "notes:two"}))["contents"]
        assert contents["text"] == "two"
        for reference in ({"type": "ref/prompt", "name": "n_one"}, {"type": "ref/resource", "uri": "one:{part}"}):
            params = {"ref": reference, "argument": {"name": "a", "value": ""}, "context": {"arguments": {"b": "c"}}}
            assert (await client.result("completion/complete", params))["completion"]["values"] == ["one a {'b': 'c'}"]
        # Only the names of the server itself are suggested: a provider may not show all of its own to this client.
        for name, hint in {"one": ": try own", "n_three": "", "n_": "", "x_one": ""}.items():
            assert await client.error("tools/call", {"name": name}) == (-32602, f"Unknown tool{hint}", None)
            assert await client.error("prompts/get", {"name": name}) == (-32602, "Unknown prompt", None)
        assert (await client.error("resources/read", {"uri": "notes:three"}))[1] == "Resource not found: notes:three"


async def test_what_a_tool_of_a_provider_raises(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("outer", "1")
    server.mount(Notes())
    async with converse(server, "2025-11-25") as client:
        result = await client.result("tools/call", {"name": "fail"})
        assert result == {"content": [{"type": "text", "text": "The tool failed"}], "isError": True}
        assert "ValueError: a secret" in caplog.text
        assert await client.error("tools/call", {"name": "refuse"}) == (-32000, "no", None)
        result = await client.result("tools/call", {"name": "explain"})
        assert result == {"content": [{"type": "text", "text": "because"}], "isError": True}


async def test_lists_are_merged_and_paged() -> None:
    server = Server("outer", "1", page_size=2)
    server.mount(Notes("b", "d"))
    server.mount(Notes("a", "c"))
    server.tool("e")(lambda: None)
    found: list[list[str]] = []
    params: dict[str, Any] = {}
    async with converse(server, "2025-11-25") as client:
        while True:
            page = await client.result("tools/list", params)
            found.append([tool["name"] for tool in page["tools"]])
            if "nextCursor" not in page:
                break
            params = {"cursor": page["nextCursor"]}
    assert found == [["a", "b"], ["c", "d"], ["e"]]


async def test_the_first_of_two_with_a_name_is_shown_and_called(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("outer", "1")
    first, second = Notes("b", "c"), Notes("a", "b", "c")
    server.mount(first)
    server.mount(second)
    server.tool("c")(lambda: "own")
    async with converse(server, "2025-11-25") as client:
        for _ in range(2):
            assert await names(client, "tools/list") == ["a", "b", "c"]
        await client.result("tools/call", {"name": "b"})
        assert (await client.result("tools/call", {"name": "c"}))["content"][0]["text"] == "own"
    assert [call[0] for call in first.calls] == ["b"]
    assert second.calls == []
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 2  # b, and c


async def test_a_list_without_the_provider_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Notes):
        async def list_tools(self, context: Context) -> list[Tool]:
            raise ConnectionError("a secret")

    server = Server("outer", "1")
    server.mount(Broken("x"))
    server.mount(Notes("a"))
    async with converse(server, "2025-11-25") as client:
        assert await names(client, "tools/list") == ["a"]
    assert "ConnectionError" in caplog.text


JUNK: dict[str, Any] = {
    "nothing": None,
    "a number": 5,
    "dicts": [{"name": "x", "inputSchema": SCHEMA}],
    "items of another list": [Prompt(name="x")],
    "a name that is no text": [Tool(name=5, input_schema=SCHEMA)],  # type: ignore[arg-type]
    "a schema that is no object": [Tool(name="x", input_schema=[])],  # type: ignore[arg-type]
    "a schema that is not JSON": [Tool(name="x", input_schema={"default": object()})],
    "a text that is not UTF-8": [Tool(name="x", description="\ud800", input_schema=SCHEMA)],
    "an output schema that is no object": [Tool(name="x", input_schema=SCHEMA, output_schema=[])],  # type: ignore[arg-type]
    "good ones and a bad one": [Tool(name="x", input_schema=SCHEMA), None],
}


@rows("kind", JUNK)
@rows("prefix", ["", "p"])
async def test_a_list_without_the_junk_of_a_provider(kind: str, prefix: str, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Notes):
        async def list_tools(self, context: Context) -> Any:
            return JUNK[kind]

    server = Server("outer", "1")
    server.mount(Broken("x"), prefix=prefix)
    server.mount(Notes("a"))
    async with converse(server, "2025-11-25") as client:
        kept = [f"{prefix}_x" if prefix else "x"] if kind == "good ones and a bad one" else []
        assert await names(client, "tools/list") == ["a", *kept]
        assert await names(client, "prompts/list") == ["a", f"{prefix}_x" if prefix else "x"]
    has_items = isinstance(JUNK[kind], list)
    expected = "an item of a provider is left out of tools/list" if has_items else "tools of a provider failed"
    assert expected in caplog.text


async def test_a_provider_sees_who_asks_and_announces_changes() -> None:
    class Personal(Notes):
        async def list_tools(self, context: Context) -> list[Tool]:
            return [Tool(name=str(context.meta["user"]), input_schema=SCHEMA)]

    server = Server("outer", "1")
    provider = Personal()
    server.mount(provider)
    async with converse(server, "2025-11-25") as client:
        for user in ("ann", "bob"):
            [tool] = (await client.result("tools/list", {"_meta": {"user": user}}))["tools"]
            assert tool["name"] == user
        await client.result("resources/subscribe", {"uri": "a:b"})
        provider.list_changed("prompts")
        provider.resource_updated("a:b")
        await client.notification("notifications/prompts/list_changed")
        await client.notification("notifications/resources/updated")


async def test_only_the_kinds_of_a_provider_are_declared_and_asked() -> None:
    class Tools(Notes):
        kinds = ("tools",)

    server = Server("outer", "1")
    server.mount(Tools("a"))
    async with converse(server, "") as client:
        capabilities = (await client.initialize("2025-11-25"))["capabilities"]
        assert "tools" in capabilities
        assert not {"prompts", "resources", "completions"} & capabilities.keys()
        server.prompt("p")(lambda: "")
    async with converse(server, "2025-11-25") as client:
        assert await names(client, "prompts/list") == ["p"]


async def test_what_a_provider_begins_with_is_open_while_the_server_runs() -> None:
    events: list[str] = []

    class Open:
        async def __aenter__(self) -> None:
            await asyncio.sleep(0)
            events.append("open")

        async def __aexit__(self, *error: object) -> None:
            events.append("closed")

    class Opened(Notes):
        def lifespan(self) -> Open:
            return Open()

    server = Server("outer", "1")
    server.mount(Opened("a"))
    for _ in range(2):
        async with converse(server, "2025-11-25") as client:
            assert await names(client, "tools/list") == ["a"]
            assert events.pop() == "open"
            with pytest.raises(Exception, match="the server is already running"):
                server.mount(Opened("b"))
            server.mount(Notes("c"))
            server.mounts.pop()
        assert events.pop() == "closed"


class Known(Notes):
    def names(self, kind: Any) -> list[str]:
        return list(self.shown) if kind == "tools" else []


def test_names_that_are_known_are_refused() -> None:
    server = Server("outer", "1")
    server.tool("a")(lambda: None)
    with pytest.raises(ValueError, match="a: already registered; mount the provider with a prefix"):
        server.mount(Known("b", "a"))
    assert server.mounts == []
    server.mount(Known("b", "a"), prefix="p")
    with pytest.raises(ValueError, match="p_b is already registered"):
        server.tool("p_b")(lambda: None)
    with pytest.raises(ValueError, match="names in common"):
        server.mount(Known("c"), prefix="p_q")
    server.prompt("p_b")(lambda: "")


@rows("options", [{"other": 1}, {"other": Notes(), "prefix": 1}, {"other": Notes(), "separator": None}])
def test_the_arguments_of_mount_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="must be"):
        Server("outer", "1").mount(**options)
