"""The decorators of a server: names, descriptions, and what they refuse."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypedDict

import annotated_types
import pytest
from pydantic import BaseModel, Field

from jsonrpc_fast.mcp.server.blocks import ToolResult
from jsonrpc_fast.mcp.server.context import Context
from jsonrpc_fast.mcp.server.methods import METHODS
from jsonrpc_fast.mcp.server.server import Server

from ...support.mcp_conversation import converse
from ...support.mcp_sample import sample
from ...support.tables import rows


def test_invalid_registrations() -> None:
    server = sample()

    with pytest.raises(ValueError, match="add is already registered"):
        server.tool("add")(lambda: None)
    with pytest.raises(TypeError, match="expected a str, or the function itself, not int"):
        server.tool(1)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="the input schema must have the type"):
        server.tool("bad", input_schema={"type": "array"})(lambda **members: None)
    with pytest.raises(TypeError, match="the parameters must match the names in the URI"):
        server.resource("notes://{name}")(lambda number: "")
    with pytest.raises(ValueError, match="must name a provider"):
        server.resource("resource:///path", name="path")(lambda: "")
    with pytest.raises(TypeError, match="complete names an unknown argument"):
        server.prompt("bad", complete={"x": []})(lambda: "")
    with pytest.raises(TypeError, match="the function that completes x must take two arguments"):
        server.prompt("bad", complete={"x": lambda typed: []})(lambda x: "")  # type: ignore[arg-type,misc]
    with pytest.raises(ValueError, match="page_size must be 1 or more"):
        Server("bad", "1", page_size=0)
    with pytest.raises(ValueError, match="versions must be some of"):
        Server("bad", "1", versions=["1999-01-01"])


@rows("with_parentheses", [False, True])
async def test_decorators_with_and_without_parentheses(with_parentheses: bool) -> None:
    server = Server("my server", "1")
    tool, prompt, resource, method = (
        (server.tool(), server.prompt(), server.resource(), server.method())
        if with_parentheses
        else (server.tool, server.prompt, server.resource, server.method)
    )

    @tool
    def add(a: int) -> int:
        """Adds."""
        return a + 1

    @prompt
    def greet(name: str) -> str:
        return f"Hello {name}"

    @resource
    def index() -> str:
        return "all"

    @resource
    async def note(name: str, number: int) -> str:
        return f"{name} {number}"

    @method
    def own(a: int) -> dict[str, Any]:
        return {"a": a}

    assert (add(1), greet("you"), index()) == (2, "Hello you", "all")

    async with converse(server, "2025-11-25") as client:
        [listed] = (await client.result("tools/list"))["tools"]
        assert (listed["name"], listed["description"]) == ("add", "Adds.")
        called = await client.result("tools/call", {"name": "add", "arguments": {"a": 1}})
        assert called["content"] == [{"type": "text", "text": "2"}]
        [message] = (await client.result("prompts/get", {"name": "greet", "arguments": {"name": "x"}}))["messages"]
        assert message["content"]["text"] == "Hello x"
        [fixed] = (await client.result("resources/list"))["resources"]
        assert fixed == {"uri": "resource://my%20server/index", "name": "index"}
        [template] = (await client.result("resources/templates/list"))["resourceTemplates"]
        assert template == {"uriTemplate": "resource://my%20server/note/{name}/{number}", "name": "note"}
        read = await client.result("resources/read", {"uri": "resource://my%20server/note/a/3"})
        assert read["contents"][0]["text"] == "a 3"
        assert await client.result("own", {"a": 1}) == {"a": 1}


@rows("name", ["", "a b", "a,b", "a/b", "naïve", "x" * 129, "<lambda>", "a\n"])
def test_a_tool_name_follows_the_rule_of_2025_11_25(name: str) -> None:
    server = Server("names", "1")
    with pytest.raises(ValueError, match=r"^tool .*: the name must be 1 to 128 of A-Z, a-z, 0-9, _, - and \.$"):
        server.tool(name)(lambda: None)
    assert server.tools == {}
    for valid in ("a", "x" * 128, "admin.tools-list_2"):
        server.tool(valid)(lambda: None)


class Custom:
    pass


class Inner(BaseModel):
    x: int


class CustomMember(TypedDict):
    x: Custom


def test_an_unsupported_parameter_type_is_refused_at_registration() -> None:
    server = Server("types", "1")

    def taken(value: Custom) -> None: ...
    def nested(value: list[Custom | None]) -> None: ...
    def untold(value: Annotated[int, annotated_types.Predicate(bool)]) -> None: ...
    def mismatched(value: Annotated[str, annotated_types.Ge(1)]) -> None: ...
    def aliased(value: Annotated[int, Field(alias="other")]) -> None: ...
    def file(value: Path) -> None: ...

    for function in (taken, nested, untold, mismatched, aliased, file):
        for decorator, role in ((server.tool, "tool"), (server.prompt, "prompt"), (server.method, "method")):
            with pytest.raises(TypeError, match=f"^{role} given: the type of value is not supported: "):
                decorator("given")(function)
        with pytest.raises(TypeError, match=r"^resource given: the type of value is not supported: "):
            server.resource("x:{value}", name="given")(function)


def returning(annotation: Any) -> Any:
    def function() -> Any: ...

    function.__annotations__["return"] = annotation
    return function


@rows(
    "annotation",
    [
        Custom,
        list[Custom],
        dict[str, Custom],
        Custom | None,
        CustomMember,
        list[CustomMember],
        socket.socket,
        Iterator[int],
        type,
        complex,
    ],
)
def test_an_unsupported_result_type_is_refused_at_registration(annotation: Any) -> None:
    server = Server("types", "1")
    for decorator in (server.tool, server.prompt, server.method):
        with pytest.raises(TypeError, match=r"^(tool|prompt|method) given: a result of type .* is not supported$"):
            decorator("given")(returning(annotation))
    with pytest.raises(TypeError, match=r"^resource given: a result of type .* is not supported$"):
        server.resource("x:y", name="given")(returning(annotation))


def test_result_types_that_a_prompt_a_resource_and_a_method_refuse() -> None:
    server = Server("types", "1")
    for annotation in (int, float, bool, bytes, None, Awaitable[int]):
        with pytest.raises(TypeError, match=r"^prompt given: a result of type"):
            server.prompt("given")(returning(annotation))
    for annotation in (int, float, bool):
        with pytest.raises(TypeError, match=r"^resource given: a result of type"):
            server.resource("x:y", name="given")(returning(annotation))
    for annotation in (int, str, bytes, list[str], None):
        with pytest.raises(TypeError, match=r"^method given: a result of type"):
            server.method("given")(returning(annotation))

    def numbers() -> Any:
        yield 1

    async def more() -> AsyncIterator[int]:
        yield 1

    for function in (numbers, more):
        with pytest.raises(TypeError, match=r"^tool given: a generator is not supported$"):
            server.tool("given")(function)


@rows(
    "annotation",
    [Any, object, None, NoReturn, Path, ToolResult, Inner, list[Inner], Awaitable[dict[str, int]], str | None, tuple],
)
def test_result_types_that_a_tool_accepts(annotation: Any) -> None:
    Server("types", "1").tool("given")(returning(annotation))


def test_the_text_of_a_type_error_is_short() -> None:
    def function(context: Context, value: Custom) -> None: ...

    with pytest.raises(TypeError) as caught:
        Server("types", "1").tool(function)
    assert str(caught.value) == (
        "tool function: the type of value is not supported: "
        "type <class 'tests.mcp.server.test_decorators.Custom'> is not supported: "
        "use a pydantic TypeAdapter"
    )


UNUSABLE: list[dict[str, Any]] = [
    {"meta": {"a": object()}},
    {"meta": {1: 2}},
    {"description": 3},
    {"description": "\ud800"},
    {"title": b"x"},
    {"icons": "abc"},
    {"icons": [{"src": "a"}, 1]},
]


@rows("members", UNUSABLE, ids=lambda members: next(iter(members)))
async def test_a_definition_that_cannot_be_sent_is_refused(members: dict[str, Any]) -> None:
    def nothing() -> None: ...

    server = Server("test", "1")
    for register in (server.tool, server.prompt, server.resource):
        with pytest.raises(TypeError, match=r"^(tool|prompt|resource) "):
            register(**members)(nothing)
    with pytest.raises(TypeError, match=r"^resource a:"):
        server.resource("a://{x}", **members)(lambda x: None)
    assert (server.tools, server.prompts, server.resources, server.resource_templates) == ({}, {}, {}, {})


@rows("members", [{"task_support": "maybe"}, {"task_start": "later"}], ids=str)
def test_an_unknown_kind_of_task_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^tool add: task_support or task_start is unknown$"):
        Server("test", "1").tool("add", **members)(lambda: None)


@rows("name", ["", "rpc.discover"])
def test_methods_that_no_client_may_send(name: str) -> None:
    server = Server("test", "1")
    for register in (server.method, server.notification):
        with pytest.raises(ValueError, match="reserved by JSON-RPC"):
            register(name)(lambda: {"a": 1})
    with pytest.raises(TypeError, match="method must be a str, not int"):
        server.notification(3)(lambda: None)  # type: ignore[arg-type]


def test_the_tables_have_interned_names() -> None:
    """They are looked up by names from the wire, which without the GIL costs less."""
    server = Server("test", "1")
    server.tool(name="".join(["to", "ol-1"]), description="A tool.")(lambda: "x")
    server.resource("".join(["a://", "b"]))(lambda: "x")
    server.method("".join(["own/", "do"]))(lambda: {"a": 1})
    for table in (server.tools, server.resources, server.methods, METHODS):
        assert table
        assert all(sys.intern("".join([*name])) is name for name in table)
