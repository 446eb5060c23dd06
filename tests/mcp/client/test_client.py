"""The client: against servers built with other libraries, and against one that says what a test wants."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from jsonrpc_fast import ErrorCode, ParseError, ParseErrorCode, mcp
from jsonrpc_fast.codec import parse
from jsonrpc_fast.errors import CallTimeout, ConnectionLost, HandshakeError, RpcError, StateError
from jsonrpc_fast.mcp.client import client as client_module
from jsonrpc_fast.mcp.client.client import MAX_PAGES, MAX_ROUNDS, Client, connect
from jsonrpc_fast.mcp.protocol.capabilities import ClientCapabilities, Implementation, Roots
from jsonrpc_fast.mcp.server.server import Server
from jsonrpc_fast.profile import JSONRPC, MCP_2025_11_25, Profile
from jsonrpc_fast.transports.memory import MemoryTransport, memory_pair
from jsonrpc_fast.transports.stdio.client import StdioClient

from ...peers.node import node_command
from ...support.places import PEERS
from ...support.session_pairs import Faults

pytestmark = pytest.mark.timeout(60)

INITIALIZED = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
DISCOVERED = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete", "ttlMs": 0}


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 50))


# Servers of other libraries.


def command_of(server: str) -> list[str]:
    if server.endswith(".mjs"):
        return node_command(server)
    pytest.importorskip("mcp.server.mcpserver", reason="mcp 2 is not installed")
    return [sys.executable, str(PEERS / server)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "mode", "version"),
    [
        ("mcpserver.py", "auto", "2026-07-28"),
        ("mcpserver.py", "legacy", "2025-11-25"),
        ("mcpserver.py", "2024-11-05", "2024-11-05"),
        ("sdk1_server.mjs", "auto", "2025-11-25"),
        ("sdk1_server.mjs", "2025-03-26", "2025-03-26"),
        ("sdk2_server.mjs", "auto", "2026-07-28"),
        ("sdk2_server.mjs", "legacy", "2025-11-25"),
        ("sdk2_server.mjs", "modern", "2026-07-28"),
    ],
)
def test_a_server_of_another_library(server: str, mode: str, version: str) -> None:
    async def test() -> None:
        told: list[tuple[str, dict[str, Any]]] = []
        asked: list[dict[str, Any]] = []

        async def elicit(params: dict[str, Any]) -> dict[str, Any]:
            asked.append(params)
            return {"action": "accept", "content": {"name": "Ann"}}

        transport = StdioClient(command_of(server), profile=MCP_2025_11_25)
        client = connect(
            transport,
            mode=mode,
            handlers={"elicitation/create": elicit},
            on_notification=lambda *what: told.append(what),
        )
        async with client:
            assert client.server.revision.version == version
            assert client.server.info is not None
            assert client.server.capabilities.supports("tools")
            await client.ping()

            tools = await client.list_tools()
            assert [tool["name"] for tool in tools] == ["add", "fail", "count", "wait", "cancelled", "ask", "log"]
            assert (await client.call_tool("add", {"a": 1, "b": 2}))["structuredContent"] == {"sum": 3}
            assert (await client.call_tool("add", {"a": 1, "b": "two"}))["isError"] is True
            assert (await client.call_tool("fail"))["isError"] is True

            steps: list[dict[str, Any]] = []
            counted = await client.call_tool("count", {"to": 3}, on_progress=steps.append)
            assert counted["content"] == [{"type": "text", "text": "3"}]
            assert steps == [{"progress": step, "total": 3} for step in (1, 2, 3)]

            with pytest.raises(CallTimeout):
                await client.call_tool("wait", timeout=0.1)
            waiting = asyncio.create_task(client.call_tool("wait"))
            await client.ping()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            # The first one may have been given up before the server had begun with it.
            assert (await client.call_tool("cancelled"))["content"][0]["text"] in ("1", "2")

            if version >= "2025-06-18":
                assert (await client.call_tool("ask"))["content"][0]["text"] == "Ann"
                [question] = asked
                assert (question["message"], "name" in question["requestedSchema"]["properties"]) == ("Who?", True)

            if client.server.revision.is_modern or client.server.capabilities.supports("logging"):
                await client.set_level("error")
            await client.call_tool("log")
            assert ("notifications/message", {"level": "error", "data": "from the tool"}) in told

            [prompt] = await client.list_prompts()
            assert prompt["name"] == "greet"
            got = await client.get_prompt("greet", {"name": "Bob"})
            assert got["messages"] == [{"role": "user", "content": {"type": "text", "text": "Hello Bob"}}]
            with pytest.raises(RpcError):
                await client.get_prompt("nothing")

            [resource] = await client.list_resources()
            assert resource["uri"] == "memo://one"
            assert (await client.read_resource("memo://one"))["contents"][0]["text"] == "first"
            with pytest.raises(RpcError) as caught:
                await client.read_resource("memo://two")
            assert caught.value.code == ErrorCode.INVALID_PARAMS
            assert await client.list_resource_templates() == []
        assert transport.returncode == 0

    run(test)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_what_a_server_asks_and_tells(mode: str) -> None:
    """Pages, completion, roots and sampling, input by state alone, errors with data, subscriptions."""

    async def test() -> None:
        told: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        said = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "4"}}
        handlers = {
            "roots/list": lambda params: {"roots": [{"uri": "file:///a"}]},
            "sampling/createMessage": lambda params: said,
        }
        command = command_of("lowlevel_server.py")
        async with connect(
            *command, mode=mode, handlers=handlers, on_notification=lambda *what: told.put_nowait(what)
        ) as client:
            is_modern = client.server.revision.is_modern
            assert is_modern is (mode == "auto")
            assert client.server.instructions == "Use it."
            assert [tool["name"] for tool in await client.list_tools()] == ["ask", "changed", "error", "again", "level"]
            page = await client.call("tools/list", {"cursor": "4"})
            assert [tool["name"] for tool in page["tools"]] == ["level"]
            assert (await client.call_tool("ask"))["content"][0]["text"] == "file:///a 4"
            with pytest.raises(RpcError) as caught:
                await client.call_tool("error")
            error = caught.value
            assert (error.code, error.message, error.data) == (-32050, "of the server's own", {"why": [1, None]})
            values = await client.complete({"type": "ref/prompt", "name": "p"}, "colour", "gr", {"other": "x"})
            assert values == {"values": ["green", "grey"], "total": 2}
            if is_modern:
                assert (await client.call_tool("again"))["content"][0]["text"] == "3"
                wanted = {"notifications": {"toolsListChanged": True}}
                listening = asyncio.create_task(client.call("subscriptions/listen", wanted, timeout=None))
                assert (await told.get())[0] == "notifications/subscriptions/acknowledged"
            else:
                await client.set_level("warning")
                assert (await client.call_tool("level"))["content"][0]["text"] == "warning"
            await client.call_tool("changed")
            assert (await told.get())[0] == "notifications/tools/list_changed"
        if is_modern:
            with pytest.raises(ConnectionLost):
                await listening

    run(test)


# A server of this package.


def own_server() -> Server:
    server = Server("own", "1.0", instructions="Try.")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @server.prompt()
    def greet(name: str) -> str:
        return f"Hello {name}"

    @server.resource("memo://{name}")
    def memo(name: str) -> str | None:
        return {"one": "first"}.get(name)

    return server


async def use(client: Client) -> None:
    assert client.server.info == Implementation(name="own", version="1.0")
    assert [tool["name"] for tool in await client.list_tools()] == ["add"]
    assert (await client.call_tool("add", {"a": 1, "b": 2}))["content"] == [{"type": "text", "text": "3"}]
    faulty = await client.call_tool("add", {"a": 1, "b": "two"})
    assert (faulty["isError"], "/b" in faulty["content"][0]["text"]) == (True, True)
    with pytest.raises(RpcError):
        await client.call_tool("nothing")
    got = await client.get_prompt("greet", {"name": "Bob"})
    assert got["messages"] == [{"role": "user", "content": {"type": "text", "text": "Hello Bob"}}]
    assert (await client.read_resource("memo://one"))["contents"][0]["text"] == "first"
    assert [template["uriTemplate"] for template in await client.list_resource_templates()] == ["memo://{name}"]
    with pytest.raises(RpcError):
        await client.read_resource("memo://two")
    await client.ping()


@pytest.mark.parametrize("mode", ["auto", "legacy", "2024-11-05", "2025-03-26", "2025-06-18", "2026-07-28"])
def test_our_own_server(mode: str) -> None:
    async def test() -> None:
        server = own_server()
        ours, theirs = memory_pair(profile=server.profile)
        serving = asyncio.create_task(server.run(theirs))
        async with connect(ours, mode=mode) as client:
            await use(client)
        await serving

    run(test)


def test_our_own_server_as_a_program() -> None:
    async def test() -> None:
        code = "from tests.mcp.client.test_client import own_server; own_server().serve_stdio()"
        client = connect(sys.executable, "-c", code, cwd=PEERS.parent.parent)
        async with client:
            await use(client)

    run(test)


# A server that says what a test wants.

Answer = Callable[[dict[str, Any]], object]


class Script:
    """The server's end: answers requests by their methods, and keeps all that came.

    An answer is a result, an RpcError, bytes to be sent as they are (`%s` is the id), or None for none. A list is
    used up, one answer after the other; a function is called with the params.
    """

    def __init__(self, transport: MemoryTransport, answers: Mapping[str, Any]) -> None:
        self.transport = transport
        self.answers = {"initialize": INITIALIZED, "server/discover": DISCOVERED, **answers}
        self.requests: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []
        self.responses: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        transport.onmessage = self.take

    def take(self, received: Any) -> None:
        if isinstance(received, list):
            for item in received:
                self.take(item)
            return
        message = received.to_dict()
        if "method" not in message:
            self.responses.put_nowait(message)
        elif "id" not in message:
            self.told.append(message)
        else:
            self.requests.append(message)
            answer = self.answers.get(message["method"], RpcError(-32601, "Method not found"))
            if isinstance(answer, list):
                answer = answer.pop(0)
            if callable(answer):
                answer = answer(message.get("params"))
            self.answer(message["id"], answer)

    def answer(self, id: int, answer: object) -> None:
        if isinstance(answer, bytes):
            self.write(answer.replace(b"%s", b"%d" % id))
        elif isinstance(answer, RpcError):
            self.write({"id": id, "error": {"code": answer.code, "message": answer.message}})
        elif answer is not None:
            self.write({"id": id, "result": answer})

    def write(self, message: bytes | dict[str, Any]) -> None:
        text = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.transport._write(text + b"\n")

    async def ask(self, method: str, params: Any = None, id: Any = "q") -> dict[str, Any]:
        self.write({"id": id, "method": method, **({} if params is None else {"params": params})})
        return await self.responses.get()


@asynccontextmanager
async def scripted(answers: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[tuple[Client, Script]]:
    """A client that is connected to a script, in legacy mode where nothing else is said."""
    profile = options.pop("profile", MCP_2025_11_25)
    ours, theirs = memory_pair(profile=profile)
    script = Script(theirs, answers or {})
    await theirs.start()
    try:
        async with connect(ours, **{"mode": "legacy", "timeout": 5, **options}) as client:
            yield client, script
    finally:
        await theirs.disconnect()


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_the_first_messages_of_each_mode() -> None:
    info = {"name": "t", "version": "9"}

    async def first(mode: str, answers: Mapping[str, Any]) -> tuple[list[tuple[str, Any]], list[str]]:
        options: dict[str, Any] = {"mode": mode, "info": Implementation(name="t", version="9")}
        async with scripted(answers, **options) as (_, script):
            await turns()
            return [(sent["method"], sent["params"]) for sent in script.requests], [t["method"] for t in script.told]

    async def test() -> None:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": info,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        discover = ("server/discover", {"_meta": meta})
        initialize = ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        older = ("initialize", {**initialize[1], "protocolVersion": "2025-06-18"})
        said = {**INITIALIZED, "protocolVersion": "2025-06-18"}
        refused = RpcError(-32601, "Method not found")
        assert await first("auto", {}) == ([discover], [])
        assert await first("modern", {}) == ([discover], [])
        assert await first("2026-07-28", {}) == ([discover], [])
        assert await first("legacy", {}) == ([initialize], ["notifications/initialized"])
        assert await first("2025-06-18", {"initialize": said}) == ([older], ["notifications/initialized"])
        fallen_back = ([discover, initialize], ["notifications/initialized"])
        assert await first("auto", {"server/discover": refused}) == fallen_back
        # What is no answer at all counts as an error, too.
        assert await first("auto", {"server/discover": b'{"jsonrpc":"2.0","id":%s,"result":[]}'}) == fallen_back

    run(test)


@pytest.mark.parametrize(
    ("mode", "answers"),
    [
        ("legacy", {"initialize": {**INITIALIZED, "protocolVersion": "2026-07-28"}}),
        ("legacy", {"initialize": {**INITIALIZED, "protocolVersion": "1999-01-01"}}),
        ("2025-06-18", {}),
        ("legacy", {"initialize": {**INITIALIZED, "capabilities": {"tools": []}}}),
        ("legacy", {"initialize": RpcError(-32603, "no")}),
        ("legacy", {"initialize": b'{"jsonrpc":"2.0","id":%s,"result":1}'}),
        ("modern", {"server/discover": RpcError(-32601, "no")}),
        ("modern", {"server/discover": {**DISCOVERED, "supportedVersions": ["2031-01-01"]}}),
    ],
)
def test_a_client_leaves_where_no_beginning_is_found(mode: str, answers: dict[str, Any]) -> None:
    async def test() -> None:
        ours, theirs = memory_pair(profile=MCP_2025_11_25)
        script = Script(theirs, answers)
        await theirs.start()
        client = connect(ours, mode=mode, timeout=5)
        with pytest.raises(HandshakeError):
            await client.__aenter__()
        assert not ours.is_connected
        assert script.told == []
        with pytest.raises(StateError):
            await client.ping()
        await theirs.disconnect()

    run(test)


def test_a_silent_server_times_out() -> None:
    async def test() -> None:
        with pytest.raises(HandshakeError, match="did not answer initialize"):
            async with scripted({"initialize": lambda params: None}, timeout=0.05):
                pass

    run(test)


def test_what_the_client_can_do_follows_from_its_handlers() -> None:
    def nothing(params: dict[str, Any]) -> dict[str, Any]:
        return {}

    async def told(**options: Any) -> Any:
        async with scripted({}, **options) as (_, script):
            return script.requests[0]["params"]["capabilities"]

    async def test() -> None:
        handlers = dict.fromkeys(["roots/list", "sampling/createMessage", "elicitation/create"], nothing)
        assert await told(handlers=handlers) == {"roots": {}, "sampling": {}, "elicitation": {"form": {}}}
        assert await told(handlers={"roots/list": nothing}) == {"roots": {}}
        capabilities = ClientCapabilities(roots=Roots(list_changed=True))
        assert await told(capabilities=capabilities, handlers=handlers) == {"roots": {"listChanged": True}}

    run(test)


# Answers that break the protocol.

TOOL = {"name": "t", "inputSchema": {"type": "object"}}


@pytest.mark.parametrize(
    ("call", "answers", "said"),
    [
        ("list_tools", {"tools/list": {}}, "/tools must be an array"),
        ("list_tools", {"tools/list": {"tools": {}}}, "/tools must be an array"),
        ("list_tools", {"tools/list": {"tools": [TOOL, 1]}}, "/tools/1 must be an object"),
        ("list_tools", {"tools/list": {"tools": [{"name": 1}]}}, "/tools/0/name must be a string"),
        ("list_prompts", {"prompts/list": {"prompts": [{}]}}, "/prompts/0/name must be a string"),
        ("list_resources", {"resources/list": {"resources": [{"name": "x"}]}}, "/resources/0/uri must be a string"),
        ("list_tools", {"tools/list": {"tools": [], "nextCursor": 1}}, "/nextCursor must be a string"),
        ("list_tools", {"tools/list": {"tools": [], "nextCursor": "a"}}, "/nextCursor was given before"),
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
def test_an_answer_of_another_shape_is_told(call: str, answers: dict[str, Any], said: str) -> None:
    async def test() -> None:
        async with scripted(answers) as (client, _):
            name, *arguments = call.split()
            if name == "complete":
                calling = client.complete({"type": "ref/prompt", "name": "p"}, "a", "")
            else:
                calling = getattr(client, name)(*arguments)
            with pytest.raises(ValueError, match=f"^the server's answer to [a-z/]+ is wrong: {said}"):
                await calling
            with pytest.raises(RpcError):  # and the client goes on
                await client.ping()

    run(test)


def test_a_list_without_an_end() -> None:
    async def test() -> None:
        pages = iter(range(10**6))
        answers = {"tools/list": lambda params: {"tools": [TOOL], "nextCursor": str(next(pages))}}
        async with scripted(answers) as (client, script):
            with pytest.raises(ValueError, match="there are more than 1000 pages"):
                await client.list_tools()
            assert len(script.requests) == 1 + MAX_PAGES

    run(test)


def test_a_list_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MAX_LIST_BYTES", 10_000)

    async def test() -> None:
        pages = iter(range(10**6))
        large = {**TOOL, "description": "x" * 3000}
        answers = {
            "tools/list": lambda params: {"tools": [large], "nextCursor": str(next(pages))},
            "prompts/list": {"prompts": [{"name": "x" * 20_000}]},
            "resources/list": b'{"jsonrpc":"2.0","id":%s,"result":{"resources":[],"nextCursor":"1","a":'
            + b"[" * 500
            + b"]" * 500
            + b"}}",
        }
        async with scripted(answers) as (client, script):
            with pytest.raises(ValueError, match=r"^the server's answer to tools/list is wrong: its pages have more"):
                await client.list_tools()
            assert len(script.requests) == 1 + 4
            assert len(await client.list_prompts()) == 1  # one page is bounded as a message
            with pytest.raises(ValueError, match="a page nests too deep"):
                await client.list_resources()

    run(test)


def test_an_empty_cursor_is_a_cursor_and_null_is_none() -> None:
    async def test() -> None:
        pages = [{"tools": [TOOL], "nextCursor": ""}, {"tools": [TOOL], "nextCursor": None}]
        async with scripted({"tools/list": pages}) as (client, script):
            assert await client.list_tools() == [TOOL, TOOL]
            assert script.requests[2]["params"] == {"cursor": ""}

    run(test)


def test_an_answer_that_is_no_object() -> None:
    async def test() -> None:
        async with scripted({"tools/call": b'{"jsonrpc":"2.0","id":%s,"result":[]}'}) as (client, _):
            with pytest.raises(ParseError) as caught:
                await client.call_tool("t")
            assert caught.value.code is ParseErrorCode.INVALID_RESULT_TYPE
        async with scripted({"tools/call": [[], "x"]}, profile=JSONRPC) as (client, _):
            for _ in range(2):
                with pytest.raises(ValueError, match="it must be an object"):
                    await client.call_tool("t")

    run(test)


def test_structured_results_are_checked_by_the_schema_that_was_listed() -> None:
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

    async def test() -> None:
        answers = {"tools/call": [secret, *results, secret, secret, secret], "tools/list": listed}
        hooks = Faults()
        async with scripted(answers, hooks=hooks) as (client, _):
            assert await client.call_tool("t") == secret  # nobody has asked for the list
            await client.list_tools()
            assert await client.call_tool("t") == results[0]
            with pytest.raises(ValueError, match="/structuredContent/n: ") as caught:
                await client.call_tool("t")
            assert "secret" not in str(caught.value)
            with pytest.raises(ValueError, match="/structuredContent is missing"):
                await client.call_tool("t")
            assert await client.call_tool("t") == results[3]
            for _ in range(2):  # the tool has run: its result is not lost
                assert await client.call_tool("broken") == secret
            assert await client.call_tool("u") == secret
            [fault] = hooks.seen
            assert "an outputSchema cannot be used: the schema cannot be used: /: " in str(fault)

    run(test)


def test_structured_content_of_60_megabytes_is_refused_at_once() -> None:
    listed = {"tools": [{**TOOL, "outputSchema": {"type": "object"}}]}

    async def test() -> None:
        async with scripted({"tools/list": listed}) as (client, _):
            await client.list_tools()
            schema = client._output_schema("t")
            assert schema is not None
            began = time.monotonic()
            assert schema.faults({"a": [[]] * 20_000_000})[0].message == "has more than 1000000 values"
            assert time.monotonic() - began < 1

    run(test)


def test_contents_of_a_type_that_is_not_known_are_handed_on() -> None:
    result = {"content": [{"type": "of_an_extension", "x": 1}]}

    async def test() -> None:
        async with scripted({"tools/call": result}) as (client, _):
            assert await client.call_tool("t") == result

    run(test)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"resultType": "task"}, "/resultType is of a kind"),
        ({"resultType": 7}, "/resultType is of a kind"),
        ({"resultType": "input_required"}, "does not say which"),
        ({"resultType": "input_required", "inputRequests": {}}, "does not say which"),
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
def test_a_result_that_is_not_complete(result: dict[str, Any], said: str) -> None:
    async def test() -> None:
        async with scripted({"tools/call": result}, mode="modern") as (client, _):
            with pytest.raises(ValueError, match=said):
                await client.call_tool("t")
        # A legacy server may call its members what it likes.
        async with scripted({"tools/call": {**result, "content": []}}) as (client, _):
            assert await client.call_tool("t") == {**result, "content": []}

    run(test)


def test_input_is_asked_for_again_and_again() -> None:
    async def test() -> None:
        asking = {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}, "requestState": "s"}
        handlers = {"roots/list": lambda params: {"roots": []}}
        async with scripted({"tools/call": asking}, mode="modern", handlers=handlers) as (client, script):
            with pytest.raises(ValueError, match="it wants input again and again"):
                await client.call_tool("t", {"a": 1})
            first, *others = [sent["params"] for sent in script.requests[1:]]
            assert len(others) == MAX_ROUNDS
            assert (first.keys(), first["arguments"]) == ({"name", "arguments", "_meta"}, {"a": 1})
            for repeated in others:
                assert repeated["inputResponses"] == {"r": {"roots": []}}
                assert (repeated["requestState"], repeated["arguments"]) == ("s", {"a": 1})

    run(test)


def test_input_that_nobody_gives() -> None:
    async def test() -> None:
        asking = {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list", "params": {}}}}
        async with scripted({"tools/call": asking}, mode="modern") as (client, _):
            with pytest.raises(StateError, match="no handler"):
                await client.call_tool("t")
        handlers = {"roots/list": lambda params: []}
        async with scripted({"tools/call": asking}, mode="modern", handlers=handlers) as (client, _):  # type: ignore
            with pytest.raises(TypeError, match="must return a dict"):
                await client.call_tool("t")

    run(test)


# What a server asks and tells.


def test_requests_of_the_server() -> None:
    class Hooks:
        def __init__(self) -> None:
            self.faults: list[Exception] = []

        def fault(self, error: Exception) -> None:
            self.faults.append(error)

    def refuse(params: dict[str, Any]) -> dict[str, Any]:
        raise RpcError(-1, "no roots")

    async def sample(params: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"model": params["x"]}

    async def test() -> None:
        hooks = Hooks()
        handlers: dict[str, Any] = {
            "roots/list": refuse,
            "sampling/createMessage": sample,
            "elicitation/create": lambda params: None,
        }
        async with scripted(handlers=handlers, hooks=hooks) as (_, script):
            base = {"jsonrpc": "2.0", "id": "q"}
            assert await script.ask("ping") == {**base, "result": {}}
            assert await script.ask("roots/list") == {**base, "error": {"code": -1, "message": "no roots"}}
            said = await script.ask("sampling/createMessage", {"x": "m"})
            assert said == {**base, "result": {"model": "m"}}
            internal = {"code": -32603, "message": "Internal error"}
            assert await script.ask("elicitation/create", {}) == {**base, "error": internal}
            assert await script.ask("sampling/createMessage", {}) == {**base, "error": internal}
            unknown = {"code": -32601, "message": "Method not found"}
            assert await script.ask("unknown/method") == {**base, "error": unknown}
            assert [type(fault) for fault in hooks.faults] == [TypeError, KeyError]

    run(test)


def test_requests_are_checked_although_the_transport_lets_all_through() -> None:
    async def test() -> None:
        async with scripted(profile=JSONRPC) as (client, script):
            assert (await script.ask("roots/list", [1]))["error"]["code"] == -32602
            assert (await script.ask("", {}))["error"] == {"code": -32600, "message": "Invalid Request"}
            await client.notify("notifications/roots/list_changed")
            await turns()
            assert script.told[1:] == [{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}]

    run(test)


@pytest.mark.parametrize(("profile", "times"), [(MCP_2025_11_25, 0), (JSONRPC, 1)])
def test_requests_are_judged_again_only_where_the_transport_is_looser(
    profile: Profile, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[Any] = []

    def counted(obj: Any, rules: Profile) -> Any:
        judged.append(obj["method"])
        return parse(obj, rules)

    async def test() -> None:
        async with scripted(profile=profile, handlers={"roots/list": lambda params: {"roots": []}}) as (_, script):
            monkeypatch.setattr("jsonrpc_fast.validator.parse", counted)
            assert (await script.ask("roots/list"))["result"] == {"roots": []}
            assert (await script.ask("sampling/createMessage", {}))["error"]["code"] == -32601
        assert judged == times * ["roots/list", "sampling/createMessage"]

    run(test)


def test_requests_before_the_handshake() -> None:
    async def test() -> None:
        ours, theirs = memory_pair(profile=MCP_2025_11_25)
        script = Script(theirs, {"initialize": lambda params: None})
        await theirs.start()
        connecting = asyncio.create_task(connect(ours, mode="legacy").__aenter__())
        await turns()
        assert (await script.ask("ping"))["result"] == {}
        assert (await script.ask("roots/list"))["error"]["code"] == -32600
        script.answer(1, INITIALIZED)
        client = await connecting
        assert (await script.ask("roots/list"))["error"]["code"] == -32601
        await client.close()
        await theirs.disconnect()

    run(test)


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_batch_comes_from_one_revision_alone(version: str) -> None:
    async def test() -> None:
        told: list[str] = []
        faults: list[Any] = []

        class Hooks:
            fault = staticmethod(faults.append)

        answers = {"initialize": {**INITIALIZED, "protocolVersion": version}, "ping": {}}
        options: dict[str, Any] = {"on_notification": lambda method, params: told.append(method), "hooks": Hooks()}
        profile = MCP_2025_11_25.replace(batches=True)
        async with scripted(answers, profile=profile, **options) as (client, script):
            script.write(b'[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":"q","method":"ping"}]')
            await client.ping()
            if version == "2025-03-26":
                await turns()
                assert (told, faults) == (["a"], [])
            else:
                assert (told, [fault.code for fault in faults]) == ([], [ParseErrorCode.BATCH_NOT_ALLOWED])

    run(test)


def test_notifications() -> None:
    told: list[Any] = []

    async def listen(method: str, params: dict[str, Any]) -> None:
        told.append((method, params))
        if method == "a":
            raise ValueError("of the callback")

    async def test() -> None:
        faults: list[Exception] = []

        class Hooks:
            fault = staticmethod(faults.append)

        async with scripted({"ping": {}}, on_notification=listen, hooks=Hooks()) as (client, script):
            script.write({"method": "a", "params": {"x": 1}})
            script.write({"method": "b"})
            script.write(b"not a message at all")
            script.write({"method": "notifications/progress", "params": {"progressToken": 77, "progress": 1}})
            await client.ping()
            await turns()
            assert told == [
                ("a", {"x": 1}),
                ("b", {}),
                ("notifications/progress", {"progressToken": 77, "progress": 1}),
            ]
            assert {type(fault) for fault in faults} == {ValueError, ParseError}
        async with scripted({"ping": {}}) as (client, script):
            script.write({"method": "nobody/listens"})
            await client.ping()

    run(test)


def test_a_timeout_is_told_to_the_server() -> None:
    async def test() -> None:
        async with scripted({"tools/call": lambda params: None}) as (client, script):
            with pytest.raises(CallTimeout):
                await client.call_tool("t", timeout=0.01)
            await turns()
            assert script.told[1] == {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": 2, "reason": "timeout"},
            }
            with pytest.raises(CallTimeout):
                await client.call_tool("t", idle_timeout=0.01)
            assert script.requests[2]["params"]["_meta"] == {"progressToken": 3}

    run(test)


def test_the_level_of_log_messages() -> None:
    async def test() -> None:
        async with scripted({"logging/setLevel": {}}) as (client, script):
            await client.set_level("debug")
            assert script.requests[1]["params"] == {"level": "debug"}
            with pytest.raises(ValueError, match="level must be one of"):
                await client.set_level("loud")
        async with scripted({"tools/call": {"content": []}}, mode="modern") as (client, script):
            await client.set_level("debug")
            await client.call_tool("t")
            assert script.requests[1]["params"]["_meta"]["io.modelcontextprotocol/logLevel"] == "debug"

    run(test)


@pytest.mark.parametrize(
    ("method", "member", "listing"),
    [
        ("tools/list", "tools", "list_tools"),
        ("prompts/list", "prompts", "list_prompts"),
        ("resources/list", "resources", "list_resources"),
        ("resources/templates/list", "resourceTemplates", "list_resource_templates"),
    ],
)
def test_the_timeout_of_a_list_is_that_of_all_its_pages(method: str, member: str, listing: str) -> None:
    async def test() -> None:
        async with scripted() as (client, script):
            pages = iter(range(1000))

            def page(params: Any) -> None:
                result = {member: [], "nextCursor": str(next(pages))}
                asyncio.get_running_loop().call_later(0.02, script.answer, script.requests[-1]["id"], result)

            script.answers[method] = page
            started = asyncio.get_running_loop().time()
            with pytest.raises(CallTimeout):
                await getattr(client, listing)(timeout=0.2)
            assert 0.19 <= asyncio.get_running_loop().time() - started < 1
            assert 2 < next(pages) < 20
            with pytest.raises(ValueError, match="timeout must be 0 seconds or more"):
                await getattr(client, listing)(timeout=-1)
        # Without one it is the client's own.
        async with scripted({method: lambda params: None}, timeout=0.05) as (client, _):
            with pytest.raises(CallTimeout):
                await getattr(client, listing)()

    run(test)


def test_the_timeout_of_a_call_is_that_of_all_its_rounds() -> None:
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

    async def test() -> None:
        for handler in (forever, soon):
            handlers = {"roots/list": handler}
            async with scripted({"tools/call": asking}, mode="modern", handlers=handlers) as (client, script):
                with pytest.raises(CallTimeout):
                    await client.call_tool("t", timeout=0.1)
                assert 2 <= len(script.requests) <= 4
        await turns()
        assert cancelled == [True]

    run(test)


def progress_of(token: object, **members: Any) -> dict[str, Any]:
    return {"method": "notifications/progress", "params": {"progressToken": token, **members}}


@pytest.mark.parametrize("factory", [None, getattr(asyncio, "eager_task_factory", None)])
def test_an_async_on_progress_is_awaited(factory: Any) -> None:
    heard: list[Any] = []
    faults: list[BaseException] = []

    class Hooks:
        fault = faults.append

    async def hear(progress: dict[str, Any]) -> None:
        heard.append(progress["progress"])
        for _ in range(3):
            await asyncio.sleep(0)
        heard.append(-progress["progress"])
        if progress["progress"] == 2:
            raise KeyError("two")

    async def test() -> None:
        if factory is not None:
            asyncio.get_running_loop().set_task_factory(factory)

        def tell(params: dict[str, Any]) -> dict[str, Any]:
            for step in (1, 2, 3):
                script.write(progress_of(params["_meta"]["progressToken"], progress=step))
            return {"content": []}

        async with scripted({"tools/call": tell}, hooks=Hooks()) as (client, script):
            await client.call_tool("t", on_progress=hear)
            assert heard == [1, -1, 2, -2, 3, -3]
            assert [repr(fault) for fault in faults] == ["KeyError('two')"]

    run(test)


def test_an_async_on_progress_ends_with_its_call() -> None:
    ended: list[str] = []
    begun: list[int] = []

    async def hear(progress: dict[str, Any]) -> None:
        begun.append(progress["progress"])
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def test() -> None:
        async with scripted() as (client, script):
            for answer in (None, {"content": []}, RpcError(-32000, "no")):

                def tell(params: dict[str, Any], answer: Any = answer) -> Any:
                    for step in range(3):
                        script.write(progress_of(params["_meta"]["progressToken"], progress=step))
                    return answer

                script.answers["tools/call"] = tell
                calling = client.call_tool("t", on_progress=hear, timeout=0.3)
                if isinstance(answer, dict):
                    assert await calling == answer  # it came in time
                else:
                    with pytest.raises((CallTimeout, RpcError)):
                        await calling
                await turns()
            assert ended == ["cancelled"] * 3
            assert begun == [0, 0, 0]

    run(test)


def test_reports_that_are_too_many_are_dropped() -> None:
    heard: list[int] = []

    async def hear(progress: dict[str, Any]) -> None:
        heard.append(progress["progress"])

    async def test() -> None:
        def tell(params: dict[str, Any]) -> dict[str, Any]:
            for step in range(1000):
                script.write(progress_of(params["_meta"]["progressToken"], progress=step))
            return {"content": []}

        async with scripted({"tools/call": tell}) as (client, script):
            await client.call_tool("t", on_progress=hear)
            assert heard[0] == 0
            assert heard[-1] == 999
            assert heard == sorted(heard)

    run(test)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"progress": "1"},
        {"progress": True},
        {"progress": None},
        {"progress": [1]},
        {"progress": 1, "total": "2"},
        {"progress": 1, "total": False},
        {"progress": 1, "message": 3},
    ],
)
def test_malformed_progress_does_not_reach_on_progress(wrong: dict[str, Any]) -> None:
    async def test() -> None:
        heard: list[Any] = []

        def tell(params: dict[str, Any]) -> dict[str, Any]:
            token = params["_meta"]["progressToken"]
            script.write(progress_of(token, **wrong))
            script.write(progress_of(token, progress=0.5, total=None, message=None))
            script.write(progress_of(token, progress=1, total=2, message="m"))
            return {"content": []}

        async with scripted({"tools/call": tell}) as (client, script):
            await client.call_tool("t", on_progress=heard.append)
            assert heard == [{"progress": 0.5}, {"progress": 1, "total": 2, "message": "m"}]

    run(test)


def test_handlers_of_notifications() -> None:
    async def test() -> None:
        heard: list[Any] = []
        faults: list[BaseException] = []

        class Hooks:
            fault = faults.append

        async def updated(params: dict[str, Any]) -> None:
            await asyncio.sleep(0)
            heard.append(("updated", params))

        def changed(params: dict[str, Any]) -> None:
            heard.append(("changed", params))
            raise KeyError("of its own")

        handlers = {"notifications/resources/updated": updated, "notifications/tools/list_changed": changed}
        told: dict[str, Any] = {"hooks": Hooks(), "on_notification": lambda *what: heard.append(what)}
        async with scripted(handlers=handlers, **told) as (_, script):
            assert script.requests[0]["params"]["capabilities"] == {}
            script.write({"method": "notifications/tools/list_changed"})
            script.write({"method": "notifications/prompts/list_changed"})
            script.write({"method": "notifications/resources/updated", "params": {"uri": "a:b"}})
            await turns()
            assert heard == [
                ("changed", {}),
                ("notifications/prompts/list_changed", {}),
                ("updated", {"uri": "a:b"}),
            ]
            assert [repr(fault) for fault in faults] == ["KeyError('of its own')"]
            # They serve no requests, and a handler of requests hears nothing.
            assert (await script.ask("notifications/tools/list_changed"))["error"]["code"] == -32601
            assert len(heard) == 3
        async with scripted(handlers={"roots/list": changed}, on_notification=lambda *what: None) as (_, script):
            script.write({"method": "roots/list"})
            await turns()
            assert len(heard) == 3

    run(test)


def test_a_result_of_an_extension() -> None:
    task = {"resultType": "task", "taskId": "t1", "status": "working"}
    answers: dict[str, Any] = dict.fromkeys(("tools/call", "prompts/get", "resources/read", "tasks/get"), task)
    capabilities = ClientCapabilities(extensions={"io.modelcontextprotocol/tasks": {}})

    async def test() -> None:
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
                with pytest.raises(ValueError, match="/resultType is of a kind"):
                    await client.call_tool("t")
        async with scripted(answers, mode="modern", capabilities=ClientCapabilities(extensions={})) as (client, _):
            with pytest.raises(ValueError, match="/resultType is of a kind"):
                await client.call_tool("t")

    run(test)


@pytest.mark.slow
def test_an_extension_of_an_sdk_server() -> None:
    pytest.importorskip("mcp.server.extension", reason="mcp 2 is not installed")

    async def test() -> None:
        declared = ClientCapabilities(extensions={"io.modelcontextprotocol/tasks": {}})
        async with connect(*command_of("extension_server.py"), capabilities=declared) as client:
            assert client.server.capabilities.supports("extensions.io.modelcontextprotocol/tasks")
            begun = await client.call_tool("slow")
            assert (begun["resultType"], begun["taskId"]) == ("task", "t1")
            assert (await client.call("tasks/get", {"taskId": "t1"}))["status"] == "completed"

    run(test)


def test_tasks_of_our_own_server() -> None:
    from ..server.test_server import TASKS, server_of_tasks

    async def test() -> None:
        server = server_of_tasks()
        for mode, declared in (
            ("modern", ClientCapabilities(extensions={TASKS: {}})),
            ("legacy", ClientCapabilities()),
        ):
            ours, theirs = memory_pair(profile=server.profile)
            serving = asyncio.create_task(server.run(theirs))
            async with connect(ours, mode=mode, capabilities=declared) as client:
                path = f"extensions.{TASKS}" if mode == "modern" else "tasks.requests.tools.call"
                assert client.server.capabilities.supports(path)
                begun = await client.call("tools/call", {"name": "begin", "task": {"ttl": 60}})
                assert (begun if mode == "modern" else begun["task"])["taskId"] == "t1"
                assert (await client.call("tasks/get", {"taskId": "t1"}))["status"] == "working"
            await serving

    run(test)


# What goes out.


def test_arguments_that_the_protocol_does_not_allow() -> None:
    async def test() -> None:
        async with scripted() as (client, script):
            for wrong in (
                client.call_tool(1),  # type: ignore[arg-type]
                client.call_tool("t", [1]),  # type: ignore[arg-type]
                client.call_tool("t", {"a": object()}),
                client.get_prompt("p", {"a": 1}),  # type: ignore[dict-item]
            ):
                with pytest.raises(TypeError):
                    await wrong
            for uri in ("no uri", "resource:///x", 5):
                with pytest.raises(ValueError, match="URI"):
                    await client.read_resource(uri)  # type: ignore[arg-type]
            for wrong in (client.call(""), client.notify("")):
                with pytest.raises(ValueError, match="the method is empty"):
                    await wrong
            assert len(script.requests) == 1

    run(test)


def test_arguments_of_connect() -> None:
    ours, _ = memory_pair()
    with pytest.raises(ValueError, match='mode must be "auto", "legacy", "modern" or one of 2024-11-05'):
        connect(ours, mode="2023-01-01")
    with pytest.raises(TypeError, match="those of a program"):
        connect(ours, "argument")
    with pytest.raises(TypeError, match="those of a program"):
        connect(ours, cwd="/")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_what_goes_out_is_valid_by_the_official_schema(version: str, corpora: Path) -> None:
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

    async def test() -> None:
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
            for sent in script.told:
                validator("ClientNotification").validate(sent)

    run(test)


# The end.


def test_a_server_that_dies() -> None:
    async def test() -> None:
        transport = StdioClient([sys.executable, "-c", SERVER_THAT_HANGS], profile=MCP_2025_11_25)
        async with connect(transport, mode="legacy") as client:
            calls = [asyncio.ensure_future(client.call_tool("t")) for _ in range(10)]
            await asyncio.sleep(0.05)
            assert transport.pid is not None
            os.kill(transport.pid, signal.SIGKILL)
            for call in calls:
                with pytest.raises(ConnectionLost):
                    await call
            with pytest.raises(ConnectionLost):
                await client.ping()
        assert transport.returncode == -signal.SIGKILL

    run(test)


SERVER_THAT_HANGS = f"""
import json, sys
request = json.loads(sys.stdin.readline())
print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], "result": {INITIALIZED}}}), flush=True)
for line in sys.stdin:
    pass
"""


def test_a_program_that_ends_at_once_or_is_not_there() -> None:
    async def test() -> None:
        with pytest.raises(ConnectionLost):
            async with connect(sys.executable, "-c", ""):
                pass
        with pytest.raises(FileNotFoundError):
            async with connect("/no/such/program"):
                pass

    run(test)


def test_the_program_has_ended_when_the_client_has() -> None:
    async def test() -> None:
        transport = StdioClient([sys.executable, "-c", SERVER_THAT_HANGS], profile=MCP_2025_11_25)
        calls: list[asyncio.Future[Any]] = []

        async def fail() -> None:
            async with connect(transport, mode="legacy") as client:
                calls.append(asyncio.ensure_future(client.call_tool("t")))
                await asyncio.sleep(0)
                raise KeyError

        with pytest.raises(KeyError):
            await fail()
        assert transport.returncode == 0
        with pytest.raises(ConnectionLost):
            await calls[0]

    run(test)


SERVER_THAT_ENDS = """
import json, sys
how = sys.argv[1]
for line in sys.stdin:
    request = json.loads(line)
    print(request["method"], file=sys.stderr, flush=True)
    if request["method"] == "initialize":
        if how == "always":
            sys.exit(3)
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": %r}), flush=True)
    elif request["method"] == "server/discover":
        if how == "answers":
            error = {"code": -32600, "message": "no"}
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
        sys.exit(3)
    elif "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {}}), flush=True)
"""


@pytest.mark.parametrize("how", ["silent", "answers"])
def test_a_program_that_ends_when_it_is_probed_is_started_again(how: str) -> None:
    async def test() -> None:
        lines: list[str] = []
        command = [sys.executable, "-c", SERVER_THAT_ENDS % (INITIALIZED,), how]
        async with connect(*command, stderr=lines.append) as client:
            assert client.server.revision.version == "2025-11-25"
            await client.ping()
        assert lines == ["server/discover", "initialize", "notifications/initialized", "ping"]
        # Where nothing else may be spoken there is no second time, nor where the probe was not the reason.
        for mode, said in (("modern", "server/discover"), ("2026-07-28", "server/discover")):
            lines.clear()
            with pytest.raises((ConnectionLost, HandshakeError)):
                async with connect(*command, mode=mode, stderr=lines.append):
                    pass
            assert lines == [said]

    run(test)


def test_a_program_that_always_ends_is_started_twice_at_most() -> None:
    async def test() -> None:
        lines: list[str] = []
        command = [sys.executable, "-c", SERVER_THAT_ENDS % (INITIALIZED,), "always"]
        with pytest.raises(ConnectionLost):
            async with connect(*command, stderr=lines.append):
                pass
        assert lines == ["server/discover", "initialize"]
        lines.clear()
        with pytest.raises(ConnectionLost):
            async with connect(*command, mode="legacy", stderr=lines.append):
                pass
        assert lines == ["initialize"]
        # A transport of the caller's cannot be made again.
        transport = StdioClient(command, stderr=lines.append, profile=MCP_2025_11_25)
        with pytest.raises(ConnectionLost):
            async with connect(transport):
                pass
        assert lines == ["initialize", "server/discover"]

    run(test)


def test_a_program_gets_no_secrets_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SOME_TOKEN", "secret"), ("HOME", "/home/of"), ("USER", "() { :; }"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
    for name in ("LOGNAME", "SHELL"):
        monkeypatch.delenv(name, raising=False)
    code = "import json, os, sys; print(json.dumps(dict(os.environ)), file=sys.stderr)"

    async def given(**options: Any) -> dict[str, str]:
        lines: list[str] = []
        with pytest.raises(ConnectionLost):
            async with connect(sys.executable, "-c", code, mode="legacy", stderr=lines.append, **options):
                pass
        found: dict[str, str] = json.loads(lines[0])
        found.pop("LC_CTYPE", None)  # set by Python itself
        return found

    async def test() -> None:
        safe = {"PATH": os.environ["PATH"], "HOME": "/home/of", "TERM": "dumb"}
        assert await given() == safe
        assert await given(env={"A": "b", "TERM": "ansi"}) == {**safe, "A": "b", "TERM": "ansi"}
        assert (await given(env=os.environ))["SOME_TOKEN"] == "secret"

    run(test)


def test_the_safe_environment_is_that_of_the_sdk() -> None:
    stdio = pytest.importorskip("mcp.client.stdio")
    assert list(client_module._SAFE_VARIABLES) == stdio.DEFAULT_INHERITED_ENV_VARS


def test_connect_takes_the_options_of_a_session() -> None:
    async def test() -> None:
        ids = iter("abc")
        async with scripted(id_factory=lambda: next(ids), max_pending=1) as (_, script):
            assert script.requests[0]["id"] == "a"
        ours, _ = memory_pair()
        for wrong in ({"max_handlers": 0}, {"timeout": -1}, {"close_seconds": None}, {"unknown": 1}):
            with pytest.raises((TypeError, ValueError)):
                connect(ours, **wrong)  # type: ignore[arg-type]

    run(test)


def test_what_the_program_is_given() -> None:
    async def test() -> None:
        lines: list[str] = []
        code = "import os, sys; print(sorted(os.environ), os.getcwd(), sys.argv[1:], file=sys.stderr)"
        with pytest.raises(ConnectionLost):
            async with connect(
                sys.executable, "-c", code, "one", Path("two"), env={"A": "b"}, cwd="/", stderr=lines.append
            ):
                pass
        assert "'A'" in lines[0]
        assert lines[0].endswith(" / ['one', 'two']")

    run(test)


def test_connect_is_found_in_the_package() -> None:
    assert mcp.connect is connect
    with pytest.raises(AttributeError):
        mcp.nothing  # noqa: B018
    code = "import sys, jsonrpc_fast.mcp; print([name for name in sys.modules if name.startswith('jsonrpc_fast.mcp.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
