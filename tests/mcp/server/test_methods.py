"""The results of a server: their exact values, and the schema of each revision."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jsonrpc_fast.mcp.protocol.meta import LOG_LEVEL_KEY
from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS, REVISIONS
from jsonrpc_fast.mcp.server.blocks import ToolError
from jsonrpc_fast.mcp.server.context import Context
from jsonrpc_fast.mcp.server.server import Server

from ...support.mcp_conversation import converse
from ...support.mcp_sample import sample
from ...support.mcp_schemas import Schemas
from ...support.tables import rows


@rows("version", RELEASED_VERSIONS)
@pytest.mark.ci
async def test_every_result_matches_the_schema(version: str, schemas: Schemas) -> None:
    requests: list[tuple[str, dict[str, Any], str]] = [
        ("tools/list", {}, "ListToolsResult"),
        ("tools/call", {"name": "add", "arguments": {"a": 1}}, "CallToolResult"),
        ("tools/call", {"name": "raw", "arguments": {"n": 1}}, "CallToolResult"),
        ("tools/call", {"name": "fail"}, "CallToolResult"),
        ("tools/call", {"name": "echo", "arguments": {}}, "CallToolResult"),
        ("prompts/list", {}, "ListPromptsResult"),
        ("prompts/get", {"name": "review", "arguments": {"code": "x"}}, "GetPromptResult"),
        ("prompts/get", {"name": "dialogue", "arguments": {"count": "2"}}, "GetPromptResult"),
        ("resources/list", {}, "ListResourcesResult"),
        ("resources/templates/list", {}, "ListResourceTemplatesResult"),
        ("resources/read", {"uri": "notes://index"}, "ReadResourceResult"),
        ("resources/read", {"uri": "notes://blob"}, "ReadResourceResult"),
        ("resources/read", {"uri": "notes://a/1"}, "ReadResourceResult"),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "language", "value": "P"}},
            "CompleteResult",
        ),
    ]

    async with converse(sample(), version) as client:
        for method, params, kind in requests:
            schemas.check(version, kind, await client.result(method, params))
        id = client.request("prompts/get", {"name": "none"})
        error_response = "JSONRPCErrorResponse" if version >= "2025-11-25" else "JSONRPCError"
        schemas.check(version, error_response, await client.answer(id))
        if version == "2026-07-28":
            schemas.check(version, "DiscoverResult", await client.result("server/discover"))
        else:
            assert await client.result("ping") == {}
            assert await client.result("logging/setLevel", {"level": "debug"}) == {}
        level = {"_meta": {"progressToken": "p", LOG_LEVEL_KEY: "info"}} if version == "2026-07-28" else {}
        level = level or {"_meta": {"progressToken": "p"}}
        await client.result("tools/call", {"name": "work", "arguments": {"steps": 2}, **level})
        for kind, method in (
            ("ProgressNotification", "notifications/progress"),
            ("LoggingMessageNotification", "notifications/message"),
        ):
            schemas.check(version, kind, await client.notification(method))


async def test_calling_tools() -> None:
    async with converse(sample(), "2025-11-25") as client:

        async def call(name: str, **arguments: Any) -> Any:
            return await client.result("tools/call", {"name": name, "arguments": arguments})

        assert await call("add", a=1, b=2) == {
            "content": [{"type": "text", "text": '{"sum":3}'}],
            "structuredContent": {"sum": 3},
        }
        assert await call("echo", text="Grüße") == {
            "content": [{"type": "text", "text": "Grüße"}],
            "structuredContent": {"result": "Grüße"},
        }
        assert await call("picture", wide=True) == {
            "content": [{"type": "text", "text": '{"width":2}'}],
            "structuredContent": {"width": 2},
        }
        assert await call("raw", n=3, m=[1]) == {
            "content": [{"type": "text", "text": '{"n": 3, "m": [1]}'}],
            "isError": True,
        }


async def test_an_invalid_call_is_an_error_result_without_values(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "jsonrpc_fast"):
        async with converse(sample(), "2025-11-25") as client:

            async def text_of(name: str, **arguments: Any) -> str:
                result = await client.result("tools/call", {"name": name, "arguments": arguments})
                assert result["isError"] is True
                [block] = result["content"]
                assert "secret" not in block["text"]
                return str(block["text"])

            text = await text_of("add", a="a secret argument", b=1000, c="a secret argument")
            assert text.startswith("Invalid arguments for tool add:\n")
            assert {line.partition(":")[0] for line in text.splitlines()[1:]} == {"/a", "/b", "/"}
            assert await text_of("add") == "Invalid arguments for tool add:\n/a: is required"
            assert await text_of("fail") == "Tool fail failed"
            assert (await text_of("picture", wide=False)).startswith("The result of tool picture does not match")
    [record] = caplog.records
    assert (record.name, record.levelname) == ("jsonrpc_fast.mcp", "ERROR")
    assert record.getMessage().startswith("tool fail failed, request ")
    assert "ValueError: a secret" in caplog.text  # only the log has the text of the exception
    assert "a secret argument" not in caplog.text


@rows(
    ("params", "error"),
    [
        ({"name": "none"}, (-32602, "Unknown tool", None)),
        ({"name": "addd"}, (-32602, "Unknown tool: try add", None)),
        ({}, (-32602, "name must be a string", None)),
        ({"name": 1}, (-32602, "name must be a string", None)),
        ({"name": "add", "arguments": [1, 2]}, (-32602, "arguments must be an object", None)),
        ({"name": "refuse"}, (-32000, "not today", {"why": "closed"})),
    ],
)
async def test_a_call_that_is_a_jsonrpc_error(params: dict[str, Any], error: tuple[int, str, Any]) -> None:
    async with converse(sample(), "2025-11-25") as client:
        assert await client.error("tools/call", params) == error


@pytest.mark.virtual_time
async def test_calls_run_concurrently_and_can_be_cancelled() -> None:
    server = Server("slow", "1")
    ended: list[str] = []

    @server.tool()
    async def wait(name: str, context: Context) -> str:
        try:
            await asyncio.sleep(30 if name == "long" else 0)
        finally:
            ended.append(f"{name} {context.is_cancelled}")
        return name

    async with converse(server, "2025-11-25") as client:
        long = client.request("tools/call", {"name": "wait", "arguments": {"name": "long"}})
        await client.result("tools/call", {"name": "wait", "arguments": {"name": "short"}})
        client.notify("notifications/cancelled", {"requestId": long, "reason": "enough"})
        assert await client.result("ping") == {}
        assert ended == ["short False", "long True"]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.answer(long), 0.05)


async def test_prompts() -> None:
    async with converse(sample(), "2025-11-25") as client:
        assert (await client.result("prompts/list"))["prompts"] == [
            {"name": "dialogue", "arguments": [{"name": "count", "required": True}]},
            {
                "name": "review",
                "title": "Review",
                "description": "Reviews code.",
                "arguments": [{"name": "code", "required": True}, {"name": "language", "required": False}],
            },
        ]
        assert await client.result("prompts/get", {"name": "review", "arguments": {"code": "x"}}) == {
            "description": "Reviews code.",
            "messages": [{"role": "user", "content": {"type": "text", "text": "Review this Python: x"}}],
        }
        got = await client.result("prompts/get", {"name": "dialogue", "arguments": {"count": "1"}})
        assert got["messages"] == [
            {"role": "user", "content": {"type": "text", "text": "Hello"}},
            {"role": "assistant", "content": {"type": "text", "text": "Yes?"}},
        ]


@rows(
    ("params", "message"),
    [
        ({"name": "none"}, "Unknown prompt"),
        ({"name": "revue"}, "Unknown prompt: try review"),
        ({"name": None}, "name must be a string"),
        ({"name": "review"}, "arguments: /code: is required"),
        ({"name": "review", "arguments": {"code": 1}}, "arguments must be an object of strings"),
        ({"name": "review", "arguments": {"code": "", "x": ""}}, "arguments: /: has an unknown member"),
        ({"name": "review", "arguments": {"code": "", "language": "B"}}, "arguments: /language: Invalid enum value"),
        ({"name": "dialogue", "arguments": {"count": "many"}}, 'arguments: /count: is not of type "integer"'),
    ],
)
async def test_an_invalid_request_for_a_prompt(params: dict[str, Any], message: str) -> None:
    async with converse(sample(), "2025-11-25") as client:
        assert await client.error("prompts/get", params) == (-32602, message, None)


@rows("version", RELEASED_VERSIONS)
async def test_resources(version: str) -> None:
    async with converse(sample(), version) as client:

        async def read(uri: str) -> Any:
            return (await client.result("resources/read", {"uri": uri}))["contents"]

        listed = (await client.result("resources/list"))["resources"]
        assert listed == [
            {"uri": "notes://blob", "name": "blob"},
            {"uri": "notes://index", "name": "index", "description": "All notes.", "mimeType": "text/plain"},
        ]
        [template] = (await client.result("resources/templates/list"))["resourceTemplates"]
        assert template == {"uriTemplate": "notes://{name}/{number}", "name": "note", "mimeType": "text/x-note"}
        assert await read("notes://index") == [{"uri": "notes://index", "mimeType": "text/plain", "text": "one, two"}]
        assert await read("notes://blob") == [{"uri": "notes://blob", "blob": "AAE="}]
        assert await read("notes://a%20b/3") == [{"uri": "notes://a%20b/3", "mimeType": "text/x-note", "text": "a b 3"}]
        code = -32602 if version == "2026-07-28" else -32002
        for uri in ("notes://none", "notes://a/many", "notes://a/99", "other:one"):
            error = await client.error("resources/read", {"uri": uri})
            assert (error[0], error[1].partition(". ")[0], error[2]) == (
                code,
                f"Resource not found: {uri}",
                {"uri": uri},
            )
        for wrong in ({}, {"uri": None}, {"uri": "no uri"}, {"uri": "resource:///path"}):
            code, message, data = await client.error("resources/read", wrong)
            assert (code, data) == (-32602, None)
            assert "no uri" not in message


async def test_the_definition_of_a_tool() -> None:
    async with converse(sample(), "2025-11-25") as client:
        [add, _] = (await client.result("tools/list"))["tools"]
        assert add == {
            "name": "add",
            "title": "Addition",
            "description": "Adds two numbers.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "a": {"type": "integer"},
                    "b": {"type": "integer", "description": "the second", "maximum": 100, "default": 1},
                },
                "required": ["a"],
                "additionalProperties": False,
            },
            "outputSchema": {"type": "object", "additionalProperties": {"type": "integer"}},
            "annotations": {"readOnlyHint": True},
        }


async def test_completion() -> None:
    async with converse(sample(), "2025-11-25") as client:

        async def complete(ref: Any, name: str, value: str, **context: Any) -> Any:
            params = {"ref": ref, "argument": {"name": name, "value": value}, **context}
            return (await client.result("completion/complete", params))["completion"]

        prompt = {"type": "ref/prompt", "name": "review"}
        template = {"type": "ref/resource", "uri": "notes://{name}/{number}"}
        assert await complete(prompt, "language", "p") == {"values": ["Python", "Prolog"], "total": 2, "hasMore": False}
        assert (await complete(prompt, "code", "p"))["values"] == []
        found = await complete(template, "name", "n", context={"arguments": {"kind": "!"}})
        assert (found["values"][:2], len(found["values"])) == (["n0!", "n1!"], 100)
        assert (found["total"], found["hasMore"]) == (150, True)


@rows(
    ("ref", "argument", "message"),
    [
        ({"type": "ref/prompt", "name": "none"}, {"name": "a", "value": ""}, "ref is unknown"),
        ({"type": "ref/resource", "uri": "notes://index"}, {"name": "a", "value": ""}, "ref is unknown"),
        ({"type": "ref/prompt", "name": "review"}, {"name": "none", "value": ""}, "argument/name is unknown"),
        ({"type": "ref/prompt", "name": "review"}, {"name": "code"}, "argument/value must be a string"),
        ({"type": "ref/prompt", "name": "review"}, {"name": 1, "value": ""}, "argument/name must be a string"),
        ({"type": "ref/tool"}, {"name": "a", "value": ""}, 'ref/type must be "ref/prompt" or "ref/resource"'),
        (7, {"name": "a", "value": ""}, "ref must be an object"),
    ],
)
async def test_an_invalid_request_for_a_completion(ref: Any, argument: Any, message: str) -> None:
    async with converse(sample(), "2025-11-25") as client:
        error = await client.error("completion/complete", {"ref": ref, "argument": argument})
        assert error == (-32602, message, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = ("_meta", "argument", "arguments", "context", "cursor", "level", "name", "notifications", "ref", "uri")
NAMES = st.sampled_from(
    ["add", "echo", "review", "dialogue", "notes://index", "notes://a/1", "notes://{name}/{number}"]
)
PARTS = st.sampled_from(["name", "value", "type", "uri", "arguments", "code", "language", "a", "text"])
VALUES = NAMES | JSON | st.dictionaries(PARTS, NAMES | JSON, max_size=3)


@given(
    st.sampled_from(sorted({method for revision in REVISIONS.values() for method in revision.client_requests})),
    st.dictionaries(st.sampled_from(MEMBERS), VALUES, max_size=4),
    st.sampled_from(RELEASED_VERSIONS),
)
@pytest.mark.ci
async def test_arbitrary_params_cause_no_internal_error(method: str, params: dict[str, Any], version: str) -> None:
    assume(method != "subscriptions/listen" or "notifications" not in params)  # it would stay open
    if version == "2026-07-28" and "_meta" in params:
        del params["_meta"]

    async with converse(sample(), version) as client:
        answer = await client.answer(client.request(method, params))
        assert answer.get("error", {}).get("code") != -32603
        client.version = "2026-07-28"
        await client.result("tools/list")


async def test_the_text_of_a_tool_error_reaches_the_client(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test", "1")

    @server.tool
    def fail(text: str) -> dict[str, int]:
        raise ToolError(text)

    async with converse(server, "2025-11-25") as client:
        result = await client.result("tools/call", {"name": "fail", "arguments": {"text": "There is no such city."}})
    assert result == {"content": [{"type": "text", "text": "There is no such city."}], "isError": True}
    assert caplog.records == []


@rows(
    ("shown", "of_tool", "text"),
    [
        (False, None, ""),
        (True, None, ": a secret"),
        ((LookupError,), None, ""),
        ((LookupError, ValueError), None, ": a secret"),
        (True, False, ""),
        (False, (ValueError,), ": a secret"),
    ],
)
async def test_the_texts_of_exceptions_are_shown_on_demand(
    shown: Any, of_tool: Any, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("test", "1", show_errors=shown)

    @server.tool(show_errors=of_tool)
    def fail() -> None:
        raise ValueError("a secret")

    async with converse(server, "2025-11-25") as client:
        result = await client.result("tools/call", {"name": "fail"})
    assert result == {"content": [{"type": "text", "text": f"Tool fail failed{text}"}], "isError": True}
    assert "ValueError: a secret" in caplog.text


async def test_an_exception_without_a_text_shows_its_class() -> None:
    server = Server("test", "1", show_errors=True)

    @server.tool
    async def fail() -> None:
        raise KeyError

    async with converse(server, "2025-11-25") as client:
        result = await client.result("tools/call", {"name": "fail"})
    assert result["content"][0]["text"] == "Tool fail failed: KeyError"


@rows("shown", ["all", (KeyError(),), (BaseException,), [ValueError], 1])
def test_show_errors_is_a_bool_or_classes(shown: Any) -> None:
    with pytest.raises(TypeError, match="show_errors must be"):
        Server("test", "1", show_errors=shown)


@pytest.mark.virtual_time
async def test_a_tool_that_is_late() -> None:
    server = Server("test", "1")
    ended: list[str] = []

    @server.tool(timeout=5)
    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return ""

    @server.tool(timeout=60)
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    async with converse(server, "2025-11-25") as client:
        result = await client.result("tools/call", {"name": "wait"})
        assert (await client.result("tools/call", {"name": "work"}))["content"][0]["text"] == "done"
    text = "Tool wait did not finish within 5 seconds"
    assert result == {"content": [{"type": "text", "text": text}], "isError": True}
    assert ended == ["cancelled"]


def test_the_timeout_of_a_tool_is_checked() -> None:
    server = Server("test", "1")
    with pytest.raises(TypeError, match="tool now: timeout needs an async function, or thread=True"):
        server.tool("now", timeout=1)(lambda: None)
    server.tool("now", timeout=1, thread=True)(lambda: None)
    with pytest.raises(ValueError, match="timeout"):
        server.tool("never", timeout=0, thread=True)(lambda: None)


async def test_arguments_that_are_json_texts() -> None:
    server = Server("test", "1")

    @server.tool
    def join(words: list[str], options: dict[str, int], text: str) -> str:
        return f"{words} {options} {text}"

    async def call(**arguments: str) -> str:
        result = await client.result("tools/call", {"name": "join", "arguments": arguments})
        return str(result["content"][0]["text"])

    async with converse(server, "2025-11-25") as client:
        assert await call(words='["a"]', options=' {"b": 1}', text="[c") == "['a'] {'b': 1} [c"
        for words in ("[1]", "[", '"a"', "a"):
            text = await call(words=words, options="{}", text="c")
            assert sorted(text.splitlines()) == ['/words: is not of type "array"', "Invalid arguments for tool join:"]


@dataclass
class Order:
    count: int
    tags: list[str]


async def test_arguments_are_converted_unless_the_tool_or_the_server_is_strict() -> None:
    def order(count: int, order: Order | None = None, name: str = "") -> str:
        return f"{count!r} {order!r} {name!r}"

    lax, strict = Server("lax", "1"), Server("strict", "1", strict=True)
    for server in (lax, strict):
        server.tool("default")(order)
        server.tool("lax", strict=False)(order)
        server.tool("strict", strict=True)(order)
    arguments = {"count": "3", "order": {"count": "4", "tags": '["5"]'}, "name": "6"}
    refusal = (
        'Invalid arguments for tool {}:\n/count: is not of type "integer"\n'
        '/order/count: is not of type "integer"\n/order/tags: is not of type "array"'
    )
    for server, default in ((lax, "lax"), (strict, "strict")):
        async with converse(server, "2025-11-25") as client:
            for name in ("default", "lax", "strict"):
                result = await client.result("tools/call", {"name": name, "arguments": arguments})
                text = result["content"][0]["text"]
                if (default if name == "default" else name) == "lax":
                    assert text == "3 Order(count=4, tags=['5']) '6'"
                else:
                    assert result["isError"]
                    assert sorted(text.splitlines()) == sorted(refusal.format(name).splitlines())


async def test_unknown_arguments_are_refused_unless_the_tool_or_the_server_ignores_them() -> None:
    def f(a: int = 1) -> int:
        return a

    refusing, ignoring = Server("refusing", "1"), Server("ignoring", "1", ignore_unknown=True)
    for server in (refusing, ignoring):
        server.tool("default")(f)
        server.tool("ignoring", ignore_unknown=True)(f)
        server.tool("refusing", ignore_unknown=False)(f)
    for server, default in ((refusing, "refusing"), (ignoring, "ignoring")):
        async with converse(server, "2025-11-25") as client:
            tools = {tool["name"]: tool["inputSchema"] for tool in (await client.result("tools/list"))["tools"]}
            for name, schema in tools.items():
                arguments = {"a": "2", "SECRET": 3}
                result = await client.result("tools/call", {"name": name, "arguments": arguments})
                if (default if name == "default" else name) == "ignoring":
                    assert "additionalProperties" not in schema
                    assert result["structuredContent"] == {"result": 2}
                else:
                    assert schema["additionalProperties"] is False
                    assert '/: has an unknown member; known are "a"' in result["content"][0]["text"]
                    assert "SECRET" not in result["content"][0]["text"]


async def test_a_list_has_one_page_by_default() -> None:
    server = Server("large", "1")
    for number in range(500):
        server.tool(f"tool{number}")(lambda: None)
    async with converse(server, "2025-11-25") as client:
        result = await client.result("tools/list")
        assert len(result["tools"]) == 500
        assert "nextCursor" not in result


async def test_the_variables_of_a_template_are_parameters() -> None:
    server = Server("repositories", "1")

    @server.resource("repo://{owner}{/path*}{?ref,depth}")
    def files(owner: str, path: list[str], ref: str = "main", depth: int = 1) -> str:
        return f"{owner} {path} {ref} {depth}"

    async with converse(server, "2025-11-25") as client:

        async def read(uri: str) -> str:
            text: str = (await client.result("resources/read", {"uri": uri}))["contents"][0]["text"]
            return text

        assert await read("repo://ann/a/b%20c.py") == "ann ['a', 'b c.py'] main 1"
        assert await read("repo://ann/a?depth=2&ref=old&other=1") == "ann ['a'] old 2"
        for uri in ("repo://ann", "repo://ann/a?depth=deep", "repo://ann/a/../b"):
            assert (await client.error("resources/read", {"uri": uri}))[0] == -32002
        [template] = (await client.result("resources/templates/list"))["resourceTemplates"]
        assert template["uriTemplate"] == "repo://{owner}{/path*}{?ref,depth}"


@dataclass
class Even:
    number: int

    def __post_init__(self) -> None:
        raise LookupError("SECRET")


async def test_a_class_that_fails_while_arguments_are_converted_fails_the_tool(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("test", "1")

    @server.tool
    def half(value: Even) -> int:
        return value.number // 2

    async with converse(server, "2025-11-25") as client:
        result = await client.result("tools/call", {"name": "half", "arguments": {"value": {"number": 1}}})
    assert result == {"content": [{"type": "text", "text": "Tool half failed"}], "isError": True}
    assert "LookupError: SECRET" in caplog.text


@dataclass
class Chain:
    next: Chain | None = None


async def test_an_argument_of_a_prompt_is_a_json_text_where_the_function_takes_a_list_or_an_object() -> None:
    server = Server("test", "1")

    @server.prompt
    def total(numbers: list[int], chain: Chain | None = None) -> str:
        return f"{sum(numbers)} {chain}"

    async with converse(server, "2025-11-25") as client:
        arguments = {"numbers": "[1, 2]", "chain": '{"next": null}'}
        result = await client.result("prompts/get", {"name": "total", "arguments": arguments})
        assert result["messages"][0]["content"]["text"] == "3 Chain(next=None)"
        for numbers in ("1, 2", '["SECRET"]', "[1"):
            error = await client.error("prompts/get", {"name": "total", "arguments": {"numbers": numbers}})
            assert error[:2] == (-32602, 'arguments: /numbers: is not of type "array"')


async def test_params_that_nest_too_deep_for_their_class_are_invalid(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test", "1")

    @server.method("vendor/follow")
    def follow(chain: Chain) -> dict[str, bool]:
        return {"ends": chain.next is None}

    deep = b'{"next":' * 1000 + b"{}" + b"}" * 1000
    async with converse(server, "2025-11-25") as client:
        assert await client.result("vendor/follow", {"chain": {"next": {}}}) == {"ends": False}
        text = b'{"jsonrpc":"2.0","id":"deep","method":"vendor/follow","params":{"chain":%b}}'
        client.transport.send(text % deep)
        assert (await client.answer("deep"))["error"]["code"] == -32602
    assert caplog.text == ""
