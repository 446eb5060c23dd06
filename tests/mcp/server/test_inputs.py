"""Requests of functions to their client: sent directly, or in input_required results."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from typing import Any

import pytest

from jsonrpc_fast import RpcError, mcp
from jsonrpc_fast.errors import CallTimeout
from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS
from jsonrpc_fast.mcp.server.blocks import WholeResult
from jsonrpc_fast.mcp.server.context import Context
from jsonrpc_fast.mcp.server.inputs import MAX_STATE_BYTES
from jsonrpc_fast.mcp.server.server import Server
from jsonrpc_fast.transports import memory_pair

from ...peers import asking_server
from ...support.mcp_conversation import Conversation, answered, converse
from ...support.mcp_schemas import Schemas
from ...support.places import PEERS
from ...support.tables import rows
from ...support.waiting import results_of

LEGACY = RELEASED_VERSIONS[:-1]
MODERN = RELEASED_VERSIONS[-1]
ALL = {"roots": {}, "sampling": {}, "elicitation": {"form": {}}}
ROOTS = {"roots": [{"uri": "file:///a"}]}
ACCEPTED = {"action": "accept", "content": {"name": "Ada"}}
SAID = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Hello!"}}
KINDS = {
    "elicitation/create": ("ElicitRequest", ACCEPTED),
    "roots/list": ("ListRootsRequest", ROOTS),
    "sampling/createMessage": ("CreateMessageRequest", SAID),
}


def asking(*methods: str, params: dict[str, Any] | None = None, **options: Any) -> Server:
    """A server with a tool that makes these requests in turn and returns all responses."""
    server = Server("asking", "1")

    @server.tool()
    async def ask(context: Context) -> dict[str, Any]:
        return {"answers": [await context.call(method, params, **options) for method in methods]}

    return server


class Plain:
    """A cipher that hides nothing."""

    def encrypt(self, data: bytes) -> bytes:
        return data.hex().encode()

    def decrypt(self, token: bytes) -> bytes:
        return bytes.fromhex(token.decode())


def contents_of(result: dict[str, Any]) -> Any:
    """What `Plain` wrote into a `requestState`, without the time (8 bytes) and the digest (32) before it."""
    return json.loads(bytes.fromhex(result["requestState"])[40:])


def answer(client: Conversation, request: dict[str, Any], **outcome: Any) -> None:
    client.send({"jsonrpc": "2.0", "id": request["id"], **outcome})


def text_of(result: dict[str, Any]) -> str:
    [content] = result["content"]
    text: str = content["text"]
    return text


@rows("version", LEGACY)
async def test_a_legacy_client_gets_requests(version: str, schemas: Schemas) -> None:
    async with converse(asking_server.server, version, ALL) as client:
        id = client.request("tools/call", {"name": "introduce"})
        methods = ["elicitation/create", "sampling/createMessage", "roots/list"]
        if version in ("2024-11-05", "2025-03-26"):
            error = (await client.answer(id))["error"]
            assert error == {"code": -32600, "message": "the client cannot receive this message"}
            methods, id = ["roots/list"], client.request("prompts/get", {"name": "where"})
        for method in methods:
            request = await client.notification(method)
            kind, result = KINDS[method]
            schemas.check(version, kind, request)
            answer(client, request, result=result)
        result = (await client.answer(id))["result"]
        if "messages" in result:
            assert result["messages"][0]["content"]["text"] == "file:///a"
        else:
            assert text_of(result) == "Hello! file:///a"


async def test_a_legacy_client_without_the_capability() -> None:
    async with converse(asking("roots/list"), "2025-11-25", {"elicitation": {}}) as client:
        error = await client.error("tools/call", {"name": "ask"})
        assert error == (-32600, "the client lacks the capability roots", None)
        assert client.notifications == []


async def test_a_legacy_client_gets_no_request_before_it_is_initialized() -> None:
    async with converse(asking("roots/list"), "") as client:
        client.send(
            {
                "jsonrpc": "2.0",
                "id": "i",
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": ALL,
                    "clientInfo": {"name": "test", "version": "1"},
                },
            }
        )
        await client.answer("i")
        error = await client.error("tools/call", {"name": "ask"})
        assert error == (-32600, "the client cannot receive this message", None)


async def test_an_error_response_of_a_legacy_client() -> None:
    server = Server("asking", "1")

    @server.tool()
    async def ask(context: Context) -> str:
        try:
            await context.call("roots/list")
        except RpcError as error:
            return f"{error.code} {error.message} {error.data}"
        return ""

    async with converse(server, "2025-11-25", ALL) as client:
        id = client.request("tools/call", {"name": "ask"})
        request = await client.notification("roots/list")
        answer(client, request, error={"code": -1, "message": "no", "data": [1]})
        assert text_of((await client.answer(id))["result"]) == "-1 no [1]"


async def test_cancelling_a_request_cancels_the_requests_of_its_function() -> None:
    async with converse(asking("roots/list"), "2025-11-25", ALL) as client:
        id = client.request("tools/call", {"name": "ask"})
        request = await client.notification("roots/list")
        client.notify("notifications/cancelled", {"requestId": id})
        cancelled = await client.notification("notifications/cancelled")
        assert cancelled["params"]["requestId"] == request["id"]
        answer(client, request, result=ROOTS)  # too late: it is ignored
        assert await client.result("ping") == {}


@pytest.mark.virtual_time
async def test_a_request_to_the_client_has_a_deadline() -> None:
    server = Server("asking", "1")

    @server.tool()
    async def ask(context: Context) -> str:
        with pytest.raises(CallTimeout):
            await context.call("roots/list", timeout=0.05)
        return "late"

    async with converse(server, "2025-11-25", ALL) as client:
        assert text_of(await client.result("tools/call", {"name": "ask"})) == "late"


async def rounds(client: Conversation, method: str, params: dict[str, Any], schemas: Schemas) -> tuple[list[Any], Any]:
    """Respond to all input requests. Return the methods of each round, and the result."""
    asked = []
    inputs: dict[str, Any] = {}
    while True:
        result = await client.result(method, {**params, **inputs})
        if result["resultType"] != "input_required":
            return asked, result
        schemas.check(MODERN, "InputRequiredResult", result)
        assert "ttlMs" not in result
        requests = result["inputRequests"]
        asked.append([request["method"] for request in requests.values()])
        inputs = {
            "inputResponses": {key: KINDS[request["method"]][1] for key, request in requests.items()},
            "requestState": result["requestState"],
        }


async def test_a_modern_client_gets_input_required_results(schemas: Schemas) -> None:
    async with converse(asking_server.server, MODERN, ALL) as client:
        asked, result = await rounds(client, "tools/call", {"name": "introduce"}, schemas)
        assert asked == [["elicitation/create"], ["sampling/createMessage", "roots/list"]]
        schemas.check(MODERN, "CallToolResult", result)
        assert text_of(result) == "Hello! file:///a"
        asked, result = await rounds(client, "prompts/get", {"name": "where"}, schemas)
        assert asked == [["roots/list"]]
        assert result["messages"][0]["content"]["text"] == "file:///a"
        asked, result = await rounds(client, "resources/read", {"uri": "memo://where"}, schemas)
        assert asked == [["roots/list"]]
        assert result["contents"][0]["text"] == "file:///a"
        assert client.notifications == []  # and no requests


async def test_the_same_request_sent_twice_has_two_answered(schemas: Schemas) -> None:
    async with converse(asking("roots/list", "roots/list"), MODERN, ALL) as client:
        first = await client.result("tools/call", {"name": "ask"})
        [key] = first["inputRequests"]
        second = await client.result("tools/call", {"name": "ask", **answered(first, {"roots": []})})
        [other] = second["inputRequests"]
        assert other != key
        last = await client.result("tools/call", {"name": "ask", **answered(second, ROOTS)})
        assert last["structuredContent"] == {"answers": [{"roots": []}, ROOTS]}


async def test_a_response_belongs_to_its_request_only(schemas: Schemas) -> None:
    server = Server("asking", "1")
    files = ["a", "b"]

    @server.tool()
    async def delete(context: Context) -> str:
        name = files.pop(0)
        params = {"message": f"Delete {name}?", "requestedSchema": {"type": "object", "properties": {}}}
        await context.call("elicitation/create", params)
        return f"deleted {name}"

    async with converse(server, MODERN, ALL) as client:
        first = await client.result("tools/call", {"name": "delete"})
        second = await client.result("tools/call", {"name": "delete", **answered(first, {"action": "accept"})})
        assert second["resultType"] == "input_required"
        [request] = second["inputRequests"].values()
        assert request["params"]["message"] == "Delete b?"


TOOLS = {"messages": [], "maxTokens": 1, "tools": []}
FORM = asking_server.form("Sure?")
URL = {"mode": "url", "message": "Sign in", "url": "https://a.test/"}


@rows(
    ("method", "params", "lacks", "has", "required"),
    [
        ("roots/list", None, {}, {"roots": {}}, {"roots": {}}),
        ("sampling/createMessage", {"messages": [], "maxTokens": 1}, {"roots": {}}, {"sampling": {}}, {"sampling": {}}),
        ("sampling/createMessage", TOOLS, {"sampling": {}}, {"sampling": {"tools": {}}}, {"sampling": {"tools": {}}}),
        ("elicitation/create", FORM, {"elicitation": {"url": {}}}, {"elicitation": {}}, {"elicitation": {"form": {}}}),
        ("elicitation/create", URL, {"elicitation": {}}, {"elicitation": {"url": {}}}, {"elicitation": {"url": {}}}),
    ],
)
async def test_a_modern_client_without_the_capability(
    method: str, params: Any, lacks: Any, has: Any, required: Any, schemas: Schemas
) -> None:
    async with converse(asking(method, params=params), MODERN, lacks) as client:
        whole = await client.answer(client.request("tools/call", {"name": "ask"}))
        schemas.check(MODERN, "MissingRequiredClientCapabilityError", whole)
        assert whole["error"]["data"] == {"requiredCapabilities": required}
    async with converse(asking(method, params=params), MODERN, has) as client:
        result = await client.result("tools/call", {"name": "ask"})
        schemas.check(MODERN, "InputRequiredResult", result)


@rows("factory", [None, getattr(asyncio, "eager_task_factory", None)])
async def test_the_outcome_of_a_run_without_a_response_is_ignored(
    caplog: pytest.LogCaptureFixture, factory: Any
) -> None:
    server = Server("asking", "1")
    done: list[str] = []

    @server.tool()
    async def swallow(context: Context) -> str:
        try:
            return str(await context.call("roots/list"))
        except BaseException:
            return "a result without an answer"

    @server.tool()
    async def stumble(context: Context) -> str:
        [roots] = await results_of(context.call("roots/list"))
        return str(roots["roots"][0])

    @server.tool()
    async def careful(context: Context) -> str:
        try:
            await context.call("roots/list")
        except Exception:
            done.append("took it for a failed request")
        finally:
            done.append("cleaned up")
        return ""

    @server.tool()
    async def grouped(context: Context) -> str:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(context.call("roots/list")) for _ in range(2)]
        return str(len(tasks))

    names = ["swallow", "stumble", "careful", "grouped"]

    asyncio.get_running_loop().set_task_factory(factory)
    async with converse(server, MODERN, ALL) as client:
        for name in names:
            wants = await client.result("tools/call", {"name": name})
            assert wants["resultType"] == "input_required"
            assert len(wants["inputRequests"]) == (2 if name == "grouped" else 1)
            result = await client.result("tools/call", {"name": name, **answered(wants, ROOTS)})
            assert result["resultType"] == "complete"
            assert "isError" not in result
    assert done == ["cleaned up", "cleaned up"]


async def test_requests_that_2026_07_28_does_not_allow() -> None:
    server = asking("ping")

    @server.method("own/method")
    async def own(context: Context) -> Any:
        return await context.call("roots/list")

    async with converse(server, MODERN, ALL) as client:
        expected = (-32600, "the client cannot receive this message", None)
        assert await client.error("tools/call", {"name": "ask"}) == expected
        assert await client.error("own/method") == expected


@rows(
    "given",
    [
        {"inputResponses": []},
        {"inputResponses": None},
        {"inputResponses": {f"x{number}": {} for number in range(1001)}},
        {"inputResponses": {"x": 1}},
        {"inputResponses": {"x": {"action": "accept"}, "y": None}},
        {"requestState": 1},
        {"requestState": None},
        {"requestState": ""},
        {"requestState": "not base64"},
        {"requestState": "AAAA"},
        {"requestState": "\udcff"},
        {"requestState": '{"asked":[],"responses":{},"values":{}}'},
        {"requestState": "A" * 3 * MAX_STATE_BYTES},
    ],
)
async def test_invalid_input_answered(given: dict[str, Any]) -> None:
    async with converse(asking("roots/list"), MODERN, ALL) as client:
        if given.get("requestState") == "\udcff":
            client.transport.send(
                b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"ask","requestState":"\\udcff"}}'
            )
            await client.settle()  # it is not a valid message, so there is no response
        else:
            code, message, data = await client.error("tools/call", {"name": "ask", **given})
            [name] = given
            assert (code, data) == (-32602, None)
            assert message.startswith(name)
        assert (await client.result("tools/call", {"name": "ask"}))["resultType"] == "input_required"


async def test_responses_to_unknown_requests_are_ignored_and_not_kept() -> None:
    server = Server("asking", "1", state_key=Plain())

    @server.tool()
    async def ask(context: Context) -> None:
        await context.call("roots/list")

    async with converse(server, MODERN, ALL) as client:
        result = await client.result("tools/call", {"name": "ask", "inputResponses": {"unknown": ROOTS}})
        assert list(contents_of(result)["responses"]) == []
        result = await client.result("tools/call", {"name": "ask", **answered(result, ROOTS)})
        assert result["resultType"] == "complete"


async def test_a_response_to_a_request_that_was_not_made_is_ignored() -> None:
    async with converse(asking("roots/list"), MODERN, ALL) as client:
        first = await client.result("tools/call", {"name": "ask"})
        given = {"inputResponses": answered(first, ROOTS)["inputResponses"]}  # without the state
        again = await client.result("tools/call", {"name": "ask", **given})
        assert again["resultType"] == "input_required"
    # A name is the function's own, so a client may know it.
    async with converse(asking("roots/list", key="folders"), MODERN, ALL) as client:
        given = {"inputResponses": {"folders": ROOTS}}
        result = await client.result("tools/call", {"name": "ask", **given})
        assert result["structuredContent"] == {"answers": [ROOTS]}


async def test_a_response_stays_as_it_was_given_first() -> None:
    async with converse(asking("roots/list", "roots/list"), MODERN, ALL) as client:
        first = await client.result("tools/call", {"name": "ask"})
        second = await client.result("tools/call", {"name": "ask", **answered(first, {"roots": []})})
        given = answered(second, ROOTS)
        given["inputResponses"] |= dict.fromkeys(first["inputRequests"], ROOTS)
        result = await client.result("tools/call", {"name": "ask", **given})
        assert result["structuredContent"] == {"answers": [{"roots": []}, ROOTS]}


async def test_a_function_chooses_the_keys_of_its_requests(schemas: Schemas) -> None:
    server = Server("naming", "1")

    @server.tool()
    async def login(context: Context) -> str:
        who = {"message": "Who?", "requestedSchema": FORM}
        user = await context.call("elicitation/create", who, key="github_login")
        again = await context.call("elicitation/create", who, key="github_login")
        code = await context.call("elicitation/create", {**who, "message": "Code?"}, key='the "code"')
        return f"{user['content']['name']} {again['content']['name']} {code['content']['name']}"

    @server.tool()
    async def twice(context: Context) -> None:
        await results_of(context.call("roots/list", key="same"), context.call("roots/list", {}, key="same"))

    async with converse(server, MODERN, ALL) as client:
        first = await client.result("tools/call", {"name": "login"})
        schemas.check(MODERN, "InputRequiredResult", first)
        assert first["inputRequests"] == {"github_login": LOGIN}
        second = await client.result("tools/call", {"name": "login", **answered(first, ACCEPTED)})
        assert list(second["inputRequests"]) == ['the "code"']
        result = await client.result("tools/call", {"name": "login", **answered(second, ACCEPTED)})
        assert text_of(result) == "Ada Ada Ada"
        # Of two requests with one key only the first one is sent.
        result = await client.result("tools/call", {"name": "twice"})
        assert result["inputRequests"] == {"same": {"method": "roots/list"}}
    # A legacy client does not see the key.
    async with converse(server, "2025-11-25", ALL) as client:
        id = client.request("tools/call", {"name": "login"})
        for _ in range(3):
            answer(client, await client.notification("elicitation/create"), result=ACCEPTED)
        assert text_of((await client.answer(id))["result"]) == "Ada Ada Ada"


FORM = {"type": "object", "properties": {}}
LOGIN = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": FORM}}


def stateful(result: Any) -> Server:
    """A server whose functions return input_required results, and then what they kept."""
    server = Server("stateful", "1")

    def serve(context: Context) -> Any:
        if "round" in context.state:
            return [json.dumps([context.state["round"], context.params.get("inputResponses")])]
        context.state["round"] = 1
        return WholeResult(result)

    @server.tool()
    async def login(context: Context) -> Any:
        return serve(context)

    @server.prompt()
    def greet(context: Context) -> Any:
        return serve(context)

    @server.resource("memo://one")
    def memo(context: Context) -> Any:
        kept = serve(context)
        return kept if isinstance(kept, WholeResult) else kept[0]

    @server.method("vendor/own")
    def own() -> Any:
        return result

    return server


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/call", {"name": "login"}),
    ("prompts/get", {"name": "greet"}),
    ("resources/read", {"uri": "memo://one"}),
]


@rows("requests", [{"github_login": LOGIN, "more": {"method": "roots/list"}}, None])
async def test_a_function_returns_an_input_required_result(schemas: Schemas, requests: Any) -> None:
    required: dict[str, Any] = {"resultType": "input_required"}
    if requests is not None:
        required["inputRequests"] = requests

    async with converse(stateful(required), MODERN, ALL) as client:
        for method, params in REQUESTS:
            result = await client.result(method, params)
            schemas.check(MODERN, "InputRequiredResult", result)
            state = result.pop("requestState")
            assert {name: value for name, value in result.items() if name != "_meta"} == required
            given = {"requestState": state, "inputResponses": {"github_login": ACCEPTED}}
            result = await client.result(method, {**params, **given})
            assert result["resultType"] == "complete"
            assert json.dumps(json.dumps([1, given["inputResponses"]])) in json.dumps(result)
    async with converse(stateful(required), "2025-11-25", ALL) as client:
        for method, params in REQUESTS:
            assert await client.error(method, params) == (-32600, "the client cannot receive this message", None)


@rows(
    "wrong",
    [
        {"inputRequests": [LOGIN]},
        {"inputRequests": {"a": "elicitation/create"}},
        {"inputRequests": {"a": {"method": "tools/list"}}},
        {"requestState": "one of the function's own"},
    ],
)
async def test_an_invalid_input_required_result_is_an_error(
    wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "jsonrpc_fast"):
        async with converse(stateful({"resultType": "input_required", **wrong}), MODERN, ALL) as client:
            for method, params in REQUESTS:
                assert await client.error(method, params) == (-32603, "Internal error", None)
    assert "check_input_required" in caplog.text


async def test_an_input_required_result_that_the_client_does_not_support() -> None:
    required = {"resultType": "input_required", "inputRequests": {"login": LOGIN}}

    async with converse(stateful(required), MODERN, {"roots": {}}) as client:
        for method, params in REQUESTS:
            code, _, data = await client.error(method, params)
            assert (code, data) == (-32021, {"requiredCapabilities": {"elicitation": {"form": {}}}})
        assert await client.error("vendor/own") == (-32600, "the client cannot receive this message", None)


async def test_responses_that_are_too_large_for_the_state() -> None:
    async with converse(asking("roots/list", "roots/list"), MODERN, ALL) as client:
        first = await client.result("tools/call", {"name": "ask"})
        large = {"roots": [{"uri": "file:///" + "x" * MAX_STATE_BYTES}]}
        error = await client.error("tools/call", {"name": "ask", **answered(first, large)})
        assert error == (-32603, "requestState would have more than 1048576 bytes", None)


async def test_a_response_that_the_function_changes_is_kept_unchanged() -> None:
    server = Server("asking", "1", state_key=Plain())

    @server.tool()
    async def ask(context: Context) -> str:
        (await context.call("roots/list"))["roots"].clear()
        await context.call("elicitation/create", asking_server.form("Sure?"))
        return ""

    async with converse(server, MODERN, ALL) as client:
        first = await client.result("tools/call", {"name": "ask"})
        second = await client.result("tools/call", {"name": "ask", **answered(first, ROOTS)})
        assert list(contents_of(second)["responses"].values()) == [ROOTS]


HANDLERS: Any = {method: lambda params, result=result: result for method, (_, result) in KINDS.items()}
COMMAND = [sys.executable, str(PEERS / "asking_server.py")]


@rows("version", ["2025-06-18", "2025-11-25", MODERN])
async def test_the_client_of_this_package(version: str) -> None:
    ours, theirs = memory_pair(profile=asking_server.server.profile)
    serving = asyncio.create_task(asking_server.server.run(theirs))
    async with mcp.connect(ours, mode=version, handlers=HANDLERS) as client:
        assert text_of(await client.call_tool("introduce")) == "Hello! file:///a"
        assert (await client.get_prompt("where"))["messages"][0]["content"]["text"] == "file:///a"
        assert (await client.read_resource("memo://where"))["contents"][0]["text"] == "file:///a"
    await serving


@pytest.mark.parametrize("mode", ["legacy", MODERN])
async def test_the_python_sdk(mode: str) -> None:
    pytest.importorskip("mcp")
    from mcp import types
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    asked: list[str] = []

    async def elicit(context: Any, params: Any) -> Any:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def sample(context: Any, params: Any) -> Any:
        content = params.messages[0].content
        asked.append(content.text)
        text = types.TextContent(type="text", text="Hello!")
        return types.CreateMessageResult(role="assistant", model="m", content=text)

    async def list_roots(context: Any) -> Any:
        asked.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri="file:///a")])

    server = stdio_client(StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=dict(os.environ)))
    callbacks: Any = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": list_roots}
    async with Client(server, mode=mode, **callbacks) as client:
        assert (await client.call_tool("introduce")).content[0].text == "Hello! file:///a"
        assert asked[0] == "Who?"
        assert sorted(asked[1:]) == ["Greet Ada.", "roots"]
        assert (await client.get_prompt("where")).messages[0].content.text == "file:///a"
        assert (await client.read_resource("memo://where")).contents[0].text == "file:///a"
