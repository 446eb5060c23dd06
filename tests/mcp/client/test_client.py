"""The client's methods: the requests they send, and the checks of the results they return."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from jsonrpc_fast import ParseError, ParseErrorCode
from jsonrpc_fast.errors import CallTimeout, InvalidResponse, RpcError
from jsonrpc_fast.mcp import connect
from jsonrpc_fast.mcp.protocol.capabilities import ClientCapabilities
from jsonrpc_fast.mcp.server import Server
from jsonrpc_fast.profile import JSONRPC

from ...support.mcp_script import INITIALIZED, scripted
from ...support.session_pairs import Faults
from ...support.tables import rows
from ...support.waiting import eventually, settle

TOOL = {"name": "t", "inputSchema": {"type": "object"}}


@rows(
    ("call", "method", "items", "valid", "fault"),
    [
        ("list_tools", "tools", [TOOL, 1], [TOOL], "/tools/1 must be an object"),
        ("list_tools", "tools", [{"name": 1}, TOOL], [TOOL], "/tools/0/name must be a string"),
        ("list_prompts", "prompts", [{}], [], "/prompts/0/name must be a string"),
        ("list_resources", "resources", [{"name": "x"}], [], "/resources/0/uri must be a string"),
    ],
    ids=str,
)
async def test_an_invalid_item_of_a_list_is_left_out(
    call: str, method: str, items: Any, valid: Any, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted({f"{method}/list": {method: items}}) as (client, _):
        assert await getattr(client, call)() == valid
    assert f"the server: an item of {method}/list is left out: {fault}" in caplog.text


@rows(
    ("call", "answers", "fault"),
    [
        ("list_tools", {"tools/list": {}}, "/tools must be an array"),
        ("list_tools", {"tools/list": {"tools": {}}}, "/tools must be an array"),
        ("list_tools", {"tools/list": {"tools": [], "nextCursor": 1}}, "/nextCursor must be a string"),
        ("list_tools", {"tools/list": {"tools": [], "nextCursor": "a"}}, "/nextCursor repeats an earlier cursor"),
        ("call_tool t", {"tools/call": {}}, "/content must be an array"),
        ("call_tool t", {"tools/call": {"content": ["text"]}}, "/content/0 must be an object"),
        ("call_tool t", {"tools/call": {"content": [{}]}}, "/content/0/type must be a string"),
        ("call_tool t", {"tools/call": {"content": [{"type": "text"}]}}, "/content/0/text must be a string"),
        (
            "call_tool t",
            {"tools/call": {"content": [{"type": "image", "data": "", "mimeType": None}]}},
            "/content/0/mimeType must be a string",
        ),
        (
            "call_tool t",
            {"tools/call": {"content": [{"type": "resource", "resource": {"uri": "a:b"}}]}},
            "/content/0/resource must have a text or a blob",
        ),
        ("call_tool t", {"tools/call": {"content": [{}] * 100_001}}, "/content has more than 100000 items"),
        ("get_prompt p", {"prompts/get": {"messages": "no"}}, "/messages must be an array"),
        ("get_prompt p", {"prompts/get": {"messages": [{"role": "system"}]}}, "/messages/0/role must be one of user,"),
        ("get_prompt p", {"prompts/get": {"messages": [{"role": "user"}]}}, "/messages/0/content must be an object"),
        ("read_resource a:b", {"resources/read": {"contents": [{"a": 1}]}}, "/contents/0 must have a text or a blob"),
        ("read_resource a:b", {"resources/read": {"contents": [{"text": ""}]}}, "/contents/0/uri must be a string"),
        ("get_prompt p", {"prompts/get": {"messages": None}}, "/messages must be an array"),
        ("read_resource a:b", {"resources/read": {"contents": {}}}, "/contents must be an array"),
        (
            "complete",
            {"completion/complete": {"completion": {"values": [1]}}},
            "/completion/values must be an array of",
        ),
        ("complete", {"completion/complete": {"completion": []}}, "/completion/values must be an array of"),
    ],
)
async def test_an_invalid_result_is_refused(call: str, answers: dict[str, Any], fault: str) -> None:
    async with scripted(answers) as (client, _):
        name, *arguments = call.split()
        if name == "complete":
            calling = client.complete({"type": "ref/prompt", "name": "p"}, "a", "")
        else:
            calling = getattr(client, name)(*arguments)
        with pytest.raises(InvalidResponse, match=f"^the server sent an invalid result for [a-z/]+: {fault}"):
            await calling
        with pytest.raises(RpcError):  # the client is still usable
            await client.ping()


async def test_a_result_must_be_an_object() -> None:
    async with scripted({"tools/call": b'{"jsonrpc":"2.0","id":%s,"result":[]}'}) as (client, _):
        with pytest.raises(InvalidResponse) as caught:
            await client.call_tool("t")
        assert isinstance(caught.value.__cause__, ParseError)
        assert caught.value.__cause__.code is ParseErrorCode.INVALID_RESULT_TYPE
    async with scripted({"tools/call": [[], "x"]}, profile=JSONRPC) as (client, _):
        for _ in range(2):
            with pytest.raises(InvalidResponse, match="it must be an object"):
                await client.call_tool("t")


async def test_structured_results_are_checked_against_the_listed_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    results = [
        {"content": [], "structuredContent": {"n": 1}},
        {"content": [], "structuredContent": {"n": "secret"}},
        {"content": []},
        {"content": [], "isError": True},
    ]
    secret = {"content": [], "structuredContent": {"n": "secret"}}
    broken = {"name": "broken", "inputSchema": {}, "outputSchema": {"$ref": "https://example.org/schema"}}
    listed = {"tools": [{**TOOL, "outputSchema": schema}, broken, {"name": "u", "inputSchema": {}}]}

    answers = {"tools/call": [secret, *results, secret, secret, secret], "tools/list": listed}
    hooks = Faults()
    async with scripted(answers, hooks=hooks) as (client, _):
        assert await client.call_tool("t") == secret  # the tools have not been listed
        await client.list_tools()
        assert await client.call_tool("t") == results[0]
        with pytest.raises(InvalidResponse, match="/structuredContent/n: ") as caught:
            await client.call_tool("t")
        assert "secret" not in str(caught.value)
        with pytest.raises(InvalidResponse, match="/structuredContent is missing"):
            await client.call_tool("t")
        assert await client.call_tool("t") == results[3]
        for _ in range(2):  # the tool has run: its result is returned
            assert await client.call_tool("broken") == secret
        assert await client.call_tool("u") == secret
        [fault] = hooks.seen
        assert "an outputSchema cannot be used: the schema cannot be used: /: " in str(fault)


async def test_structured_content_of_60_megabytes_is_refused_at_once() -> None:
    listed = {"tools": [{**TOOL, "outputSchema": {"type": "object"}}]}

    async with scripted({"tools/list": listed}) as (client, _):
        await client.list_tools()
        schema = client._output_schema("t")
        assert schema is not None
        value = {"a": [[]] * 20_000_000}
        began = time.thread_time()
        assert schema.faults(value)[0].message == "has more than 1000000 values"
        assert time.thread_time() - began < 1


async def test_content_of_an_unknown_type_is_returned() -> None:
    result = {"content": [{"type": "of_an_extension", "x": 1}]}

    async with scripted({"tools/call": result}) as (client, _):
        assert await client.call_tool("t") == result


@rows(
    ("result", "fault"),
    [
        ({"resultType": "task"}, "/resultType is unknown"),
        ({"resultType": 7}, "/resultType is unknown"),
        ({"resultType": "input_required"}, "without inputRequests or requestState"),
        ({"resultType": "input_required", "inputRequests": {}}, "without inputRequests or requestState"),
        ({"resultType": "input_required", "inputRequests": []}, "/inputRequests must be an object"),
        ({"resultType": "input_required", "inputRequests": {"a": 1}}, "/inputRequests must be an object"),
        (
            {"resultType": "input_required", "inputRequests": {str(n): 1 for n in range(1001)}},
            "/inputRequests has more than 1000",
        ),
        ({"resultType": "input_required", "inputRequests": {"a": {}}}, "/inputRequests must be an object"),
        ({"resultType": "input_required", "requestState": 1}, "/requestState must be a string"),
    ],
)
async def test_an_incomplete_result_is_checked(result: dict[str, Any], fault: str) -> None:
    async with scripted({"tools/call": result}, mode="modern") as (client, _):
        with pytest.raises(InvalidResponse, match=fault):
            await client.call_tool("t")
    # In legacy revisions these members have no meaning.
    async with scripted({"tools/call": {**result, "content": []}}) as (client, _):
        assert await client.call_tool("t") == {**result, "content": []}


@pytest.mark.virtual_time
async def test_a_timeout_cancels_the_request_at_the_server() -> None:
    async with scripted({"tools/call": lambda params: None}) as (client, script):
        with pytest.raises(CallTimeout):
            await client.call_tool("t", timeout=0.01)
        await settle()
        assert script.notifications[1] == {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": 2, "reason": "timeout"},
        }
        with pytest.raises(CallTimeout):
            await client.call_tool("t", idle_timeout=0.01)
        assert script.requests[2]["params"]["_meta"] == {"progressToken": 3}


async def test_the_level_of_log_messages() -> None:
    async with scripted({"logging/setLevel": {}}) as (client, script):
        await client.set_level("debug")
        assert script.requests[1]["params"] == {"level": "debug"}
        with pytest.raises(ValueError, match="level must be one of"):
            await client.set_level("loud")
    async with scripted({"tools/call": {"content": []}}, mode="modern") as (client, script):
        await client.set_level("debug")
        await client.call_tool("t")
        assert script.requests[1]["params"]["_meta"]["io.modelcontextprotocol/logLevel"] == "debug"


@pytest.mark.virtual_time
@rows(
    ("method", "member", "listing"),
    [
        ("tools/list", "tools", "list_tools"),
        ("prompts/list", "prompts", "list_prompts"),
        ("resources/list", "resources", "list_resources"),
        ("resources/templates/list", "resourceTemplates", "list_resource_templates"),
    ],
)
async def test_the_timeout_covers_all_pages_of_a_list(method: str, member: str, listing: str) -> None:
    async with scripted() as (client, script):
        pages = iter(range(1000))

        def page(params: Any) -> None:
            result = {member: [], "nextCursor": str(next(pages))}
            asyncio.get_running_loop().call_later(0.02, script.reply, script.requests[-1]["id"], result)

        script.answers[method] = page
        started = asyncio.get_running_loop().time()
        with pytest.raises(CallTimeout):
            await getattr(client, listing)(timeout=0.2)
        assert 0.19 <= asyncio.get_running_loop().time() - started < 1
        assert 2 < next(pages) < 20
        with pytest.raises(ValueError, match="timeout must be 0 seconds or more"):
            await getattr(client, listing)(timeout=-1)
    # By default the client's own timeout applies.
    async with scripted({method: lambda params: None}, timeout=0.05) as (client, _):
        with pytest.raises(CallTimeout):
            await getattr(client, listing)()


@pytest.mark.virtual_time
async def test_the_timeout_covers_all_rounds_of_a_call() -> None:
    asking = {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}}
    cancelled: list[bool] = []

    async def forever(params: dict[str, Any]) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)
        return {}

    async def soon(params: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.05)
        return {"roots": []}

    for handler in (forever, soon):
        handlers = {"roots/list": handler}
        async with scripted({"tools/call": asking}, mode="modern", handlers=handlers) as (client, script):
            with pytest.raises(CallTimeout):
                await client.call_tool("t", timeout=0.1)
            assert 2 <= len(script.requests) <= 4
    await settle()
    assert cancelled == [True]


async def test_a_result_of_an_extension() -> None:
    task = {"resultType": "task", "taskId": "t1", "status": "working"}
    answers: dict[str, Any] = dict.fromkeys(("tools/call", "prompts/get", "resources/read", "tasks/get"), task)
    capabilities = ClientCapabilities(extensions={"io.modelcontextprotocol/tasks": {}})

    async with scripted(answers, mode="modern", capabilities=capabilities) as (client, script):
        assert await client.call_tool("t") == task
        assert await client.get_prompt("p") == task
        assert await client.read_resource("a:b") == task
        assert await client.call("tasks/get", {"taskId": "t1"}) == task
        meta = script.requests[1]["params"]["_meta"]
        assert meta["io.modelcontextprotocol/clientCapabilities"] == {
            "extensions": {"io.modelcontextprotocol/tasks": {}}
        }
        for wrong in (5, None, ["task"]):
            script.answers["tools/call"] = {**task, "resultType": wrong}
            with pytest.raises(InvalidResponse, match="/resultType is unknown"):
                await client.call_tool("t")
    async with scripted(answers, mode="modern", capabilities=ClientCapabilities(extensions={})) as (client, _):
        with pytest.raises(InvalidResponse, match="/resultType is unknown"):
            await client.call_tool("t")


async def test_arguments_that_the_protocol_does_not_allow() -> None:
    async with scripted() as (client, script):
        for wrong in (
            client.call_tool(1),  # type: ignore[arg-type]
            client.call_tool("t", [1]),  # type: ignore[arg-type]
            client.call_tool("t", {"a": object()}),
            client.get_prompt("p", {"a": 1}),  # type: ignore[dict-item]
        ):
            with pytest.raises(TypeError):
                await wrong
        for call, method in ((client.call_tool, "call_tool"), (client.get_prompt, "get_prompt")):
            cure = f'{method} takes the arguments as one dict: {method}("add", {{"a": 1}})'
            for arguments, options in (((1, 2), {}), ((), {"a": 1})):
                with pytest.raises(TypeError, match=f"^{re.escape(cure)}$"):
                    await call("add", *arguments, **options)  # type: ignore[operator]
        with pytest.raises(TypeError, match=r"^the params of MCP are a dict, not list$"):
            await client.call("tools/call", [1])
        for uri in ("no uri", "resource:///x", 5):
            with pytest.raises(ValueError, match="URI"):
                await client.read_resource(uri)  # type: ignore[arg-type]
        for wrong in (client.call(""), client.notify("")):
            with pytest.raises(ValueError, match="method must not be empty"):
                await wrong
        assert len(script.requests) == 1


@rows("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_the_messages_of_a_client_match_the_official_schema(version: str, corpora: Path) -> None:
    schema = json.loads((corpora / "mcp" / "schema" / f"{version}.schema.json").read_text())
    place = "$defs" if "$defs" in schema else "definitions"

    def validator(name: str) -> Any:
        return jsonschema_rs.validator_for({**schema, "$ref": f"#/{place}/{name}"})

    is_modern = version == "2026-07-28"
    done = {"content": [], "messages": [], "contents": [], "completion": {"values": []}}
    asking = {"resultType": "input_required", "requestState": "s", "inputRequests": {"r": {"method": "roots/list"}}}
    answers: dict[str, Any] = {
        "initialize": {**INITIALIZED, "protocolVersion": version},
        "tools/call": [asking, done] if is_modern else done,
        **{f"{name}/list": {name: []} for name in ("tools", "prompts", "resources")},
        "resources/templates/list": {"resourceTemplates": []},
        **dict.fromkeys(["prompts/get", "resources/read", "completion/complete", "logging/setLevel", "ping"], done),
    }
    handlers = {"roots/list": lambda params: {"roots": [{"uri": "file:///a"}]}}

    async with scripted(answers, mode=version, handlers=handlers) as (client, script):
        await client.ping()
        await client.set_level("info")
        await client.list_tools()
        await client.list_prompts()
        await client.list_resources()
        await client.list_resource_templates()
        await client.call_tool("t", {"a": [1]}, on_progress=lambda value: None)
        await client.get_prompt("p", {"a": "b"})
        await client.read_resource("memo://one")
        await client.complete({"type": "ref/prompt", "name": "p"}, "a", "b")
        for sent in script.requests:
            validator("ClientRequest").validate(sent)
        if not is_modern:
            validator("ClientResult").validate((await script.ask("roots/list"))["result"])
        assert len(script.requests) == 11
        for sent in script.notifications:
            validator("ClientNotification").validate(sent)


@pytest.mark.parametrize("mode", ["2025-11-25", "2026-07-28"])
async def test_a_client_listens_to_resources_and_lists(mode: str) -> None:
    server = Server("notes", "1")
    server.resource("note://a", name="a")(lambda: "a")
    server.resource("note://b", name="b")(lambda: "b")
    server.tool("t")(lambda: "t")
    told: list[tuple[str, Any]] = []

    def tell(method: str, params: dict[str, Any]) -> None:
        told.append((method.removeprefix("notifications/"), params.get("uri")))

    async with connect(server, mode=mode, on_notification=tell) as client:
        async with client.listen("note://a"):
            server.resource_updated("note://a")
            server.resource_updated("note://b")
            server.tool("u")(lambda: "u")
            await eventually(lambda: ("resources/updated", "note://a") in told)
            await eventually(lambda: ("tools/list_changed", None) in told)
        assert ("resources/updated", "note://b") not in told
        told.clear()
        server.resource_updated("note://a")
        await client.ping() if mode == "2025-11-25" else await client.list_tools()
        assert ("resources/updated", "note://a") not in told
        with pytest.raises(ValueError, match="not a valid URI"):
            async with client.listen("no uri"):
                pass
