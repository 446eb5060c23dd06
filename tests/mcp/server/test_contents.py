"""Return values of functions: converted to MCP results that match each revision's schema, or refused."""

from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest

pytest.importorskip("mcp_types", reason="the MCP SDK is not installed")

from mcp_types import EmbeddedResource, ResourceLink, TextContent, TextResourceContents
from pydantic import BaseModel

from jsonrpc_fast.mcp.protocol.uris import safe_join
from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS, REVISIONS
from jsonrpc_fast.mcp.server.blocks import ToolResult, WholeResult
from jsonrpc_fast.mcp.server.contents import made_blocks
from jsonrpc_fast.mcp.server.context import Context
from jsonrpc_fast.mcp.server.providers import Provider
from jsonrpc_fast.mcp.server.server import Server

from ...support.mcp_conversation import converse
from ...support.mcp_schemas import Schemas
from ...support.tables import rows


@dataclass
class Point:
    x: int


class Struct(msgspec.Struct):
    x: Decimal


class Model(BaseModel):
    x: int | None = None


@dataclass
class Reading:
    value: float


@dataclass
class Message:
    role: str
    content: Any


LINK = {"type": "resource_link", "uri": "a:b", "name": "b"}
TEXT = {"type": "text", "text": "a"}
IMAGE = {"type": "image", "data": "AA==", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}
CONTENTS = {"uri": "a:b", "text": "x"}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


BLOCKS: list[tuple[Any, dict[str, Any]]] = [
    ("a", TEXT),
    (TEXT, TEXT),
    ({**TEXT, "annotations": None, "_meta": None}, TEXT),
    (
        {"type": "image", "data": b"\0", "mimeType": "image/png"},
        {"type": "image", "data": "AA==", "mimeType": "image/png"},
    ),
    ({"type": "resource", "resource": {**CONTENTS, "mimeType": None}}, {"type": "resource", "resource": CONTENTS}),
    (TextContent(type="text", text="a"), TEXT),
    (
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="a:b", text="x")),
        {"type": "resource", "resource": CONTENTS},
    ),
    (ResourceLink(type="resource_link", uri="a:b", name="b"), LINK),
    (LINK, LINK),
    (
        {"type": "audio", "data": b"\0", "mimeType": "audio/wav"},
        {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
    ),
]


@rows("version", RELEASED_VERSIONS)
async def test_content_blocks(version: str, schemas: Schemas) -> None:
    server = Server("contents", "1")
    server.tool("blocks")(lambda: ToolResult([block for block, _ in BLOCKS]))
    server.prompt("blocks")(lambda: [{"role": "user", "content": block} for block, _ in BLOCKS])
    expected = [block for _, block in BLOCKS]
    if version < "2025-06-18":
        expected = [text("a:b") if block == LINK else block for block in expected]
    if version < "2025-03-26":
        expected[-1] = text("[audio: audio/wav]")

    async with converse(server, version) as client:
        called = await client.result("tools/call", {"name": "blocks"})
        assert called["content"] == expected
        schemas.check(version, "CallToolResult", called)
        got = await client.result("prompts/get", {"name": "blocks"})
        assert got["messages"] == [{"role": "user", "content": block} for block in expected]
        schemas.check(version, "GetPromptResult", got)


UNSENT = "returned a value that cannot be sent:"

FAULTY_BLOCKS: list[tuple[Any, str]] = [
    (1, "must not be of type int"),
    ({}, "/type must be a string"),
    ({"type": "video"}, "/type must be one of text, image, audio, resource_link, resource"),
    ({"type": "text"}, "/text must be a string"),
    ({"type": "text", "text": 1}, "/text must be a string"),
    ({"type": "image", "data": ""}, "/mimeType must be a string"),
    ({"type": "image", "data": "not base64", "mimeType": "image/png"}, "/data must be bytes or base64"),
    ({"type": "audio", "data": "AAA", "mimeType": "audio/wav"}, "/data must be bytes or base64"),
    ({"type": "image", "data": "data:image/png;base64,AA==", "mimeType": "image/png"}, "/data must be bytes or base64"),
    ({"type": "resource", "resource": {"uri": "a:b", "blob": "-_=="}}, "/resource/blob must be bytes or base64"),
    ({"type": "resource", "resource": {"uri": "a:b"}}, "/resource must have a text or a blob that is a string"),
    ({"type": "resource", "resource": {"text": ""}}, "/resource/uri must be a string"),
    ({"type": "resource", "resource": {"uri": "no uri", "text": ""}}, "must have a valid URI"),
    ({"type": "resource_link", "uri": "no uri", "name": ""}, "must have a valid URI"),
    ({**TEXT, "annotations": []}, "/annotations must be an object"),
]


@rows(("block", "message"), FAULTY_BLOCKS, ids=lambda value: str(value)[:40])
async def test_an_invalid_block_is_named(block: Any, message: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TypeError, match=f"^/content/0.*{re.escape(message)}"):
        made_blocks([block], REVISIONS["2025-11-25"])
    server = Server("wrong", "1")
    server.tool("wrong")(lambda: ToolResult([block]))
    server.prompt("wrong")(lambda: [{"role": "user", "content": block}])

    with caplog.at_level(logging.ERROR, "jsonrpc_fast"):
        async with converse(server, "2025-11-25") as client:
            result = await client.result("tools/call", {"name": "wrong"})
            assert result["isError"]
            assert result["content"][0]["text"].startswith(f"Tool wrong {UNSENT} /content/0")
            assert message in result["content"][0]["text"]
            code, reason, _ = await client.error("prompts/get", {"name": "wrong"})
            assert code == -32603
            assert reason.startswith(f"prompt wrong {UNSENT} /messages/0/content")
            assert message in reason
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 2


def circular() -> dict[str, Any]:
    value: dict[str, Any] = {"a": []}
    value["a"].append(value)
    return value


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


NOT_FINITE = "NaN and infinity are no values of JSON"
NOT_UTF_8 = "str is not valid UTF-8: surrogates not allowed"


@rows(
    ("returned", "reason"),
    [
        (object(), "object is not a JSON value"),
        ({"a": object()}, "object is not a JSON value, at /a"),
        ({"a": [1, (each for each in ())]}, "generator is not a JSON value, at /a/1"),
        (ToolResult([], {"a/b": object()}), "object is not a JSON value, at /a~1b"),
        (ToolResult("no"), "/content must be an array"),
        (ToolResult([], {"x": math.inf}), f"{NOT_FINITE}, at /x"),
        ({"x": [None, -math.inf]}, f"{NOT_FINITE}, at /x/1"),
        (Reading(math.nan), f"{NOT_FINITE}, at /value"),
        (math.nan, NOT_FINITE),
        ("a\ud800", NOT_UTF_8),
        ({"name": ["b\udcff.txt"]}, f"{NOT_UTF_8}, at /name/0"),
        ({"\udcff": 1}, NOT_UTF_8),
        ([TextContent(type="text", text="\ud800")], "str is not valid UTF-8"),
        (["\ud800"], NOT_UTF_8),
        (circular(), "the value is circular, or nests too deep, at /a/0"),
        ({"deep": nested(300)}, "Recursion limit reached, at /deep/0/0"),
        (nested(254), "Recursion limit reached"),
        ({(1, 2): "b"}, "Only dicts with str-like or number-like keys are supported"),
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", ascii(value))[:40],
)
@pytest.mark.ci
async def test_what_a_tool_returns_and_cannot_be_sent_is_a_result_with_the_reason(
    returned: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("wrong", "1")
    server.tool("plain")(lambda: returned)

    async def typed() -> Any:
        return returned

    names = ["plain"]
    if type(returned) in (str, float, dict, list, Reading):  # these may have an output schema
        typed.__annotations__["return"] = dict[str, Any] if type(returned) is dict else type(returned)
        server.tool(typed)
        names.append("typed")
    with caplog.at_level(logging.ERROR, "jsonrpc_fast"):
        for version in ("2024-11-05", "2025-11-25"):
            async with converse(server, version) as client:
                for name in names:
                    result = await client.result("tools/call", {"name": name})
                    assert result["isError"], name
                    assert result["content"][0]["text"].startswith(f"Tool {name} {UNSENT} {reason}"), result
    assert [record.levelname for record in caplog.records] == ["ERROR"] * len(names) * 2
    assert "\ud800" not in caplog.text


@rows("depth", [190, 199, 200, 244, 246, 248, 250, 252, 253])
async def test_a_deep_result_is_sent_or_refused_with_the_reason(depth: int) -> None:
    server = Server("deep", "1")
    server.tool("deep")(lambda: {"a": nested(depth - 1)})

    async with converse(server, "2025-11-25") as client:
        result = await client.result("tools/call", {"name": "deep"})
        assert result.get("isError", False) is (depth > 246), depth


async def test_a_text_of_an_error_with_a_lone_surrogate_is_shown_with_its_escape() -> None:
    server = Server("files", "1")

    @server.tool(show_errors=(OSError,))
    def read() -> str:
        raise FileNotFoundError(2, "No such file or directory", "b\udcff.txt")

    async with converse(server, "2025-11-25") as client:
        result = await client.result("tools/call", {"name": "read"})
        assert result["content"][0]["text"].endswith("'b\\udcff.txt'")


@rows(
    ("value", "place"),
    [(math.nan, "/0"), ({"x": math.inf}, "/x"), (["\ud800"], "/0"), ({"a": {"b": object()}}, "/a/b")],
    ids=ascii,
)
async def test_what_other_functions_return_and_cannot_be_sent_is_an_error_with_the_reason(
    value: Any, place: str
) -> None:
    server = Server("wrong", "1")
    server.resource("a:b", name="r")(lambda: [value] if type(value) is float else value)
    server.prompt("p")(lambda: [value] if type(value) is float else value)
    server.method("vendor/m")(lambda: {"at": value})
    server.prompt("c", complete={"a": lambda typed, others: [value]})(lambda a: "x")

    async with converse(server, "2025-11-25") as client:
        ref = {"type": "ref/prompt", "name": "c"}
        for method, params, what in (
            ("resources/read", {"uri": "a:b"}, "resource r"),
            ("prompts/get", {"name": "p"}, "prompt p"),
            ("vendor/m", None, "method vendor/m"),
            ("completion/complete", {"ref": ref, "argument": {"name": "a", "value": ""}}, "the completer of a"),
        ):
            code, reason, _ = await client.error(method, params)
            assert code == -32603
            assert reason.startswith(f"{what} {UNSENT} "), reason
            assert place in reason or (type(value) is float and method == "vendor/m"), reason


@rows("version", RELEASED_VERSIONS)
@rows(
    ("returned", "written"),
    [
        (Point(1), {"x": 1}),
        (Struct(Decimal("1.5")), {"x": "1.5"}),
        (Model(), {"x": None}),
        ({"k": [{1}, b"\0", Point(2)]}, {"k": [[1], "AA==", {"x": 2}]}),
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", str(value)),
)
async def test_structured_results(version: str, returned: Any, written: Any, schemas: Schemas) -> None:
    server = Server("values", "1")
    server.tool("value")(lambda: returned)
    server.method("own")(lambda: returned)

    async with converse(server, version) as client:
        called = await client.result("tools/call", {"name": "value"})
        assert called.get("structuredContent", written) == written
        assert ("structuredContent" in called) is (version >= "2025-06-18")
        assert msgspec.json.decode(called["content"][0]["text"]) == written
        schemas.check(version, "CallToolResult", called)
        assert (await client.result("own")).items() >= written.items()


@rows(
    ("returned", "expected"),
    [
        ("x", [{"uri": "a:b", "text": "x"}]),
        (b"\0", [{"uri": "a:b", "blob": "AA=="}]),
        (memoryview(b"\0"), [{"uri": "a:b", "blob": "AA=="}]),
        ({"a": None}, [{"uri": "a:b", "mimeType": "application/json", "text": '{"a":null}'}]),
        ({"text": "x"}, [{"uri": "a:b", "mimeType": "application/json", "text": '{"text":"x"}'}]),
        (Point(1), [{"uri": "a:b", "mimeType": "application/json", "text": '{"x":1}'}]),
        (Model(x=1), [{"uri": "a:b", "mimeType": "application/json", "text": '{"x":1}'}]),
        ({"uri": "c:d", "text": "x"}, [{"uri": "c:d", "text": "x"}]),
        ({"uri": "c:d", "blob": b"\0", "mimeType": None}, [{"uri": "c:d", "blob": "AA=="}]),
        (TextResourceContents(uri="c:d", text="x"), [{"uri": "c:d", "text": "x"}]),
        ({"uri": "c:d", "blob": "+/A="}, [{"uri": "c:d", "blob": "+/A="}]),
        (["x", b"\0", CONTENTS], [{"uri": "a:b", "text": "x"}, {"uri": "a:b", "blob": "AA=="}, CONTENTS]),
        ([], []),
        ({"contents": [CONTENTS, "x"]}, [CONTENTS, {"uri": "a:b", "text": "x"}]),
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", str(value)),
)
@pytest.mark.ci
async def test_results_of_a_resource(returned: Any, expected: Any, schemas: Schemas) -> None:
    server = Server("resources", "1")
    server.resource("a:b", name="r")(lambda: returned)

    for version in RELEASED_VERSIONS:
        async with converse(server, version) as client:
            read = await client.result("resources/read", {"uri": "a:b"})
            assert read["contents"] == expected
            schemas.check(version, "ReadResourceResult", read)


async def test_the_mime_type_of_an_object_is_the_registered_one() -> None:
    server = Server("resources", "1")
    server.resource("a:b", name="r", mime_type="application/geo+json")(lambda: {"a": 1})

    async with converse(server, "2025-11-25") as client:
        [contents] = (await client.result("resources/read", {"uri": "a:b"}))["contents"]
        assert contents == {"uri": "a:b", "mimeType": "application/geo+json", "text": '{"a":1}'}


@rows(
    "returned",
    [
        1,
        True,
        [1],
        [["x"]],
        object(),
        {"a": object()},
        {"contents": "no"},
        {"contents": [1]},
        {"uri": "no uri", "text": ""},
        {"uri": 1, "text": ""},
        {"uri": "a:b", "text": 1},
        {"uri": "a:b", "blob": "not base64"},
        {"uri": "a:b", "blob": "AA=A"},
        {"uri": "a:b", "blob": "AA==\n"},
        {"uri": "a:b", "blob": "AAAA===="},
        {"uri": "a:b", "text": "", "blob": 1},
        {"uri": "a:b", "text": "", "mimeType": 1},
        {"contents": [], "_meta": 1},
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", str(value)),
)
async def test_invalid_results_of_a_resource(returned: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("resources", "1")
    server.resource("a:b", name="r")(lambda: returned)

    with caplog.at_level(logging.ERROR, "jsonrpc_fast"):
        async with converse(server, "2025-11-25") as client:
            code, reason, _ = await client.error("resources/read", {"uri": "a:b"})
            assert (code, reason.partition(": ")[0]) == (-32603, f"resource r {UNSENT[:-1]}")
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@rows(
    ("returned", "messages"),
    [
        ("x", [{"role": "user", "content": text("x")}]),
        (("x", "y"), [{"role": "user", "content": text("x")}, {"role": "user", "content": text("y")}]),
        ({"role": "assistant", "content": "x"}, [{"role": "assistant", "content": text("x")}]),
        (Message("assistant", TEXT), [{"role": "assistant", "content": TEXT}]),
        ({"messages": ["x"], "description": None}, [{"role": "user", "content": text("x")}]),
        ([], []),
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", str(value)),
)
async def test_results_of_a_prompt(returned: Any, messages: Any, schemas: Schemas) -> None:
    server = Server("prompts", "1")
    server.prompt("p")(lambda: returned)

    for version in RELEASED_VERSIONS:
        async with converse(server, version) as client:
            got = await client.result("prompts/get", {"name": "p"})
            assert got["messages"] == messages
            schemas.check(version, "GetPromptResult", got)


@rows(
    "returned",
    [
        None,
        1,
        b"x",
        {},
        {"messages": "no"},
        {"messages": None},
        {"messages": [1]},
        {"messages": [], "description": 1},
        {"role": "system", "content": ""},
        {"role": ["user"], "content": ""},
        {"role": "user", "content": ["x"]},
        {"role": "user"},
        [{"content": ""}],
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", str(value)),
)
async def test_invalid_results_of_a_prompt(returned: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("prompts", "1")
    server.prompt("p")(lambda: returned)

    with caplog.at_level(logging.ERROR, "jsonrpc_fast"):
        async with converse(server, "2025-11-25") as client:
            code, reason, _ = await client.error("prompts/get", {"name": "p"})
            assert (code, reason.partition(": ")[0]) == (-32603, f"prompt p {UNSENT[:-1]}")
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_the_known_members_of_a_whole_result_are_checked() -> None:
    server = Server("whole", "1")
    server.tool("t")(lambda: WholeResult({"content": [{"type": "text"}]}))
    server.prompt("p")(lambda: WholeResult({"messages": "no"}))
    server.resource("a:b", name="r")(lambda: WholeResult({"contents": [{"text": ""}]}))
    server.tool("own")(lambda: WholeResult({"content": ["x"], "more": {1}}))

    async with converse(server, "2025-11-25") as client:
        result = await client.result("tools/call", {"name": "t"})
        assert result == {"content": [text(f"Tool t {UNSENT} /content/0/text must be a string")], "isError": True}
        error = await client.error("prompts/get", {"name": "p"})
        assert error == (-32603, f"prompt p {UNSENT} /messages must be an array", None)
        [contents] = (await client.result("resources/read", {"uri": "a:b"}))["contents"]
        assert contents == {"uri": "a:b", "mimeType": "application/json", "text": '{"text":""}'}
        assert await client.result("tools/call", {"name": "own"}) == {"content": [text("x")], "more": [1]}


class Wrong(Provider):
    """A provider that returns invalid values."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context) -> dict[str, Any] | None:
        return {"content": [{"type": "text"}]}

    async def get_prompt(self, name: str, arguments: dict[str, str], context: Context) -> dict[str, Any] | None:
        return {"messages": "no"}

    async def read_resource(self, uri: str, context: Context) -> dict[str, Any] | None:
        return {"contents": [1]}

    async def complete(self, reference: Any, argument: Any, others: Any, context: Context) -> dict[str, Any] | None:
        return {"values": [1]}


async def test_invalid_results_of_providers_and_completers() -> None:
    server = Server("wrong", "1")
    server.mount(Wrong())

    @server.prompt(complete={"a": [1], "b": lambda typed, others: [2]})  # type: ignore[list-item]
    def prompt(a: str, b: str) -> str:
        return a + b

    async with converse(server, "2025-11-25") as client:
        failed = (-32603, "Internal error", None)
        assert await client.error("prompts/get", {"name": "x"}) == failed
        reason = f"resource of a provider {UNSENT} /contents/0 must not be of type int"
        assert await client.error("resources/read", {"uri": "a:b"}) == (-32603, reason, None)
        named = (-32603, f"the completer of b {UNSENT} the values of a completion must be strings", None)
        for name, argument, error in (("x", "a", failed), ("prompt", "a", failed), ("prompt", "b", named)):
            ref = {"type": "ref/prompt", "name": name}
            params = {"ref": ref, "argument": {"name": argument, "value": ""}}
            assert await client.error("completion/complete", params) == error


UNSAFE = {
    "..": (dots := "it has the segment .."),
    "%2e%2e": dots,
    "..%2fetc": dots,
    "a%2F..%2F..%2Fb": dots,
    "..%5Ca": dots,
    "a%00": "it has a NUL",
    "%ff": "it is not UTF-8",
    "%c0%af": "it is not UTF-8",
    "%2Fetc%2Fpasswd": (absolute := "it is an absolute path"),
    "c%3a%5Ca": absolute,
}


@rows("part", [*UNSAFE])
async def test_an_unsafe_part_reaches_no_function(part: str) -> None:
    server = Server("files", "1")
    seen: list[str] = []

    def keep(name: str) -> str:
        seen.append(name)
        return name.encode(errors="replace").decode()

    def complete(typed: str, others: Any) -> list[str]:
        seen.extend([typed, *others.values()])
        return []

    server.resource("file:///safe/{name}", complete={"name": complete})(keep)
    # No later template may serve what one refuses.
    server.resource("file:///{folder}/{name}", name="any", unsafe_parts=True)(lambda folder, name: keep(name))

    async with converse(server, "2025-11-25") as client:
        uri = f"file:///safe/{part}"
        assert await client.error("resources/read", {"uri": uri}) == (
            -32002,
            f"Resource not found: {uri}",
            {"uri": uri},
        )
        assert seen == []
        await client.result("resources/read", {"uri": f"file:///meant/{part}"})
        assert len(seen) == 1
        seen.clear()
        ref = {"type": "ref/resource", "uri": "file:///safe/{name}"}
        if "\ufffd" not in (typed := unquote(part)):
            for given in (
                {"argument": {"name": "name", "value": typed}},
                {"argument": {"name": "name", "value": ""}, "context": {"arguments": {"folder": typed}}},
            ):
                error = await client.error("completion/complete", {"ref": ref, **given})
                assert error[:2] == (-32602, f"a part of the URI is unsafe: {UNSAFE[part]}")
        assert seen == []


@rows("uri", ["x:a/../b", "x:..", "x:a%2f%2e%2e", "x:a?p=../b", "x:a%00", "x:%ff"])
async def test_an_unsafe_uri_reaches_only_providers_that_allow_it(uri: str) -> None:
    class Files(Provider):
        def __init__(self) -> None:
            self.seen: list[str] = []

        async def read_resource(self, uri: str, context: Context) -> dict[str, Any] | None:
            self.seen.append(uri)
            return None

    careful, meaning = Files(), Files()
    server = Server("files", "1")
    meaning.unsafe_uris = True
    server.mount(careful)
    server.mount(meaning)

    async with converse(server, "2025-11-25") as client:
        assert (await client.error("resources/read", {"uri": uri}))[0] == -32002
        assert (await client.error("resources/read", {"uri": "x:a..b/c"}))[0] == -32002
    assert (careful.seen, meaning.seen) == (["x:a..b/c"], [uri, "x:a..b/c"])


@rows("version", RELEASED_VERSIONS)
async def test_null_counts_as_absent(version: str) -> None:
    server = Server("nulls", "1")
    server.tool("t")(lambda: "done")
    server.prompt("p", complete={"a": ["x"]})(lambda a="": a or "none")

    async with converse(server, version) as client:
        called = await client.result("tools/call", {"name": "t", "arguments": None})
        assert called["content"] == [text("done")]
        got = await client.result("prompts/get", {"name": "p", "arguments": None})
        assert got["messages"][0]["content"] == text("none")
        for context in (None, {"arguments": None}):
            params = {
                "ref": {"type": "ref/prompt", "name": "p"},
                "argument": {"name": "a", "value": ""},
                "context": context,
            }
            if version >= "2025-03-26":
                assert (await client.result("completion/complete", params))["completion"]["values"] == ["x"]
        assert len((await client.result("tools/list", {"cursor": None}))["tools"]) == 1


async def test_null_in_the_handshake_counts_as_absent() -> None:
    async with converse(Server("nulls", "1"), "") as client:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"roots": None, "sampling": {}, "experimental": None},
            "clientInfo": {"name": "c", "version": "1", "title": None, "icons": None},
        }
        assert (await client.result("initialize", params))["protocolVersion"] == "2025-11-25"


async def test_too_many_arguments() -> None:
    server = Server("many", "1")
    server.tool("t", input_schema={"type": "object"})(lambda **members: str(len(members)))
    server.prompt("p", complete={"a": lambda typed, others: [typed]})(lambda a: a)

    async with converse(server, "2025-11-25") as client:
        many = {f"a{number}": "" for number in range(1001)}
        assert (await client.result("tools/call", {"name": "t", "arguments": many}))["content"] == [text("1001")]
        assert await client.error("prompts/get", {"name": "p", "arguments": many}) == (
            -32602,
            "arguments has more than 1000 members",
            None,
        )
        ref = {"type": "ref/prompt", "name": "p"}
        argument = {"name": "a", "value": "x" * 65_537}
        assert await client.error("completion/complete", {"ref": ref, "argument": argument}) == (
            -32602,
            "argument/value has more than 65536 characters",
            None,
        )


async def test_a_function_that_uses_safe_join_says_that_there_is_no_such_resource_or_why_a_tool_failed(
    tmp_path: Path,
) -> None:
    server = Server("files", "1")
    (tmp_path / "a.txt").write_text("inside")

    @server.resource("docs://files/{+path}", unsafe_parts=True)
    def resource(path: str) -> str:
        return safe_join(tmp_path, path).read_text()

    @server.tool()
    def read(path: str) -> str:
        return safe_join(tmp_path, path).read_text()

    async with converse(server, "2025-11-25") as client:
        assert (await client.result("resources/read", {"uri": "docs://files/a.txt"}))["contents"][0]["text"] == "inside"
        uri = "docs://files//etc/passwd"
        assert await client.error("resources/read", {"uri": uri}) == (
            -32002,
            f"Resource not found: {uri}",
            {"uri": uri},
        )
        result = await client.result("tools/call", {"name": "read", "arguments": {"path": "../x"}})
        assert result == {"content": [{"type": "text", "text": "the path leads out of the folder"}], "isError": True}


async def test_an_unknown_uri_is_told_the_nearest_template_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("mail", "1")
    server.resource("mail://{address}/inbox{?page}")(lambda address, page=1: "read")

    async with converse(server, "2025-11-25") as client:
        uri = "mail://ann@example.org/outbox"
        error = await client.error("resources/read", {"uri": uri})
        nearest = "mail://{address}/inbox{?page}"
        assert error == (-32002, f"Resource not found: {uri}. The nearest is {nearest}", {"uri": uri})
        assert caplog.messages == [f"a URI belongs to no resource; the nearest is {nearest}"]
        caplog.clear()
        uri = "mail://../inbox"
        assert await client.error("resources/read", {"uri": uri}) == (
            -32002,
            f"Resource not found: {uri}",
            {"uri": uri},
        )
        reason = "a part of the URI is unsafe: it has the segment .."
        assert caplog.messages == [f"a URI matches {nearest}, but {reason}"]
        error = await client.error("resources/read", {"uri": "zz:" + "y" * 8000})
        assert error[1] == "Resource not found: zz:" + "y" * 197 + "..."


@rows(("version", "code"), [("2025-11-25", -32002), ("2026-07-28", -32602)])
async def test_an_argument_that_does_not_fit_is_told_to_the_client_and_the_log_unless_another_template_fits(
    version: str, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("sums", "1")
    caplog.clear()

    @server.resource("sum://{a}/{b}")
    def total(a: int, b: int) -> str:
        return str(a + b)

    @server.resource("sum://{a}/{b}{?round}")
    def rounded(a: float, b: float, round: bool = True) -> str:
        return str(a + b)

    server.resource("sum://one")(lambda: "1")  # it is nearer by its text

    async with converse(server, version) as client:
        assert (await client.result("resources/read", {"uri": "sum://1/2.5"}))["contents"][0]["text"] == "3.5"
        assert caplog.messages == []
        reasons = [
            'sum://{a}/{b}, but /a: is not of type "integer"',
            'sum://{a}/{b}{?round}, but /a: is not of type "number"',
        ]
        assert await client.error("resources/read", {"uri": "sum://one/2"}) == (
            code,
            f"Resource not found: sum://one/2. It matches {reasons[0]}. It matches {reasons[1]}",
            {"uri": "sum://one/2"},
        )
        assert caplog.messages == [f"a URI matches {reason}" for reason in reasons]
