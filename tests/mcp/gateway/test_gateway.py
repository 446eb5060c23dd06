"""The gateway: what clients see of servers in this process, and what servers see of clients, in both eras."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

import pytest

from jsonrpc_fast import Notification, Request, Response
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.hooks import Outcome
from jsonrpc_fast.mcp import Gateway, connect
from jsonrpc_fast.mcp.protocol.capabilities import Implementation
from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS
from jsonrpc_fast.mcp.server import Context, Server
from jsonrpc_fast.profile import MCP_2025_11_25
from jsonrpc_fast.transports.memory import memory_pair

from ...support.mcp_conversation import modern_meta
from ...support.mcp_gateway import Scripted, Shop, client_of, text_of, two
from ...support.mcp_revisions import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from ...support.mcp_script import INITIALIZED
from ...support.tables import rows
from ...support.waiting import eventually, settle

pytestmark = pytest.mark.virtual_time


async def test_a_resource_that_is_not_listed_is_looked_for_in_every_server() -> None:
    other = Scripted({"resources/read": {"contents": [{"uri": "hidden://a", "text": "hidden"}]}})
    async with client_of(Gateway({"one": Shop().server, "other": other})) as client:
        assert (await client.read_resource("hidden://a"))["contents"][0]["text"] == "hidden"


@rows("uri", ["files://a/../b", "files://a/%00", "files:///etc/passwd"])
async def test_a_server_decides_itself_about_unsafe_parts_of_its_uris(uri: str) -> None:
    templates = [{"name": "file", "uriTemplate": "files://{+path}"}]
    files = Scripted(
        {
            "resources/templates/list": {"resourceTemplates": templates},
            "resources/read": {"contents": [{"uri": "files://x", "text": "of the server"}]},
        }
    )
    async with client_of(Gateway({"one": Shop().server, "files": files})) as client:
        assert (await client.read_resource(uri))["contents"][0]["text"] == "of the server"


async def test_a_resource_that_a_lost_server_may_have() -> None:
    """The servers listed before and after it do not have the URI."""
    servers: Any = {"one": Shop().server, "lost": ["/nowhere/program"], "other": Shop("other").server}
    async with client_of(Gateway(servers)) as client:
        with pytest.raises(RpcError) as caught:
            await client.read_resource("hidden://a")
        text = "the server 'lost' cannot be started: it cannot be run: No such file or directory"
        assert (caught.value.code, caught.value.message) == (-32000, text)


@rows(
    ("method", "params", "code"),
    [
        ("tools/call", {"name": "three_price"}, -32602),
        ("tools/call", {"name": "price"}, -32602),
        ("tools/call", {"name": 1}, -32602),
        ("tools/call", {}, -32602),
        ("prompts/get", {"name": "greet"}, -32602),
        ("tools/list", {"cursor": "x"}, -32602),
        ("logging/setLevel", {"level": "loud"}, -32602),
        ("resources/read", {"uri": 1}, -32602),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "nobody"}}, -32602),
        ("tasks/list", {}, -32601),
        ("nothing", {}, -32601),
    ],
)
async def test_a_request_for_nothing_is_refused(method: str, params: dict[str, Any], code: int) -> None:
    _, _, gateway = two()
    async with client_of(gateway) as client:
        with pytest.raises(RpcError) as caught:
            await client.call(method, params)
        assert caught.value.code == code


async def test_servers_start_when_they_are_needed_and_see_the_client() -> None:
    _, _, gateway = two()
    async with client_of(gateway):  # the first client gets their instructions, and later ones, too
        assert gateway.running == ["one", "other"]
    async with client_of(gateway, info=Implementation(name="Ada's", version="3")) as client:
        assert not gateway.running
        assert text_of(await client.call_tool("one_who", {})) == "Ada's 2025-11-25"
        assert gateway.running == ["one"]
    assert not gateway.running


@pytest.mark.parametrize("mode", ["legacy", "modern"])
@pytest.mark.parametrize("versions", [RELEASED_VERSIONS, MODERN_VERSIONS])
@rows(
    ("servers", "own", "instructions"),
    [
        (["Count."], None, "Count."),
        (["Count."], "Ask first.", "Ask first.\n\nCount."),
        (["Count.", None, "Sum."], None, "# s0\n\nCount.\n\n# s2\n\nSum."),
        ([None], None, None),
    ],
)
async def test_the_instructions_of_the_servers_are_passed(
    servers: list[str | None], own: str | None, instructions: str | None, versions: Any, mode: str
) -> None:
    entries: Any = {
        f"s{number}": Server("any", "1", versions=versions, instructions=text) for number, text in enumerate(servers)
    }
    gateway = Gateway(entries, instructions=own)
    for _ in range(2):
        async with client_of(gateway, mode) as client:
            assert client.server.instructions == instructions


async def test_a_server_that_is_slow_or_gone_does_not_keep_the_client_waiting(caplog: Any) -> None:
    entries: Any = {
        "good": Server("good", "1", instructions="Count."),
        "slow": Scripted({"initialize": None}),
        "gone": ["/nowhere/program"],
    }
    gateway = Gateway(entries, list_seconds=3)
    for seconds in (3, 0):  # once
        begun = asyncio.get_running_loop().time()
        async with client_of(gateway) as client:
            assert asyncio.get_running_loop().time() - begun == pytest.approx(seconds, abs=0.5)
            assert client.server.instructions == "# good\n\nCount."
    assert "slow: its instructions are left out, because it is slow" in caplog.messages


async def test_capabilities_that_are_not_passed_are_logged_once(caplog: Any) -> None:
    capabilities = {
        "tools": {"listChanged": True, "filter": True},
        "experimental": {"one": {}},
        "extensions": {"com.example/a.b": {}},
        "later": {},
        "never": False,
    }
    gateway = Gateway({"one": Scripted({"initialize": {**INITIALIZED, "capabilities": capabilities}})})
    for _ in range(2):
        async with client_of(gateway) as client:
            await client.call("resources/list")
    names = "tools.filter, experimental.one, extensions.com.example/a.b, later"
    said = [text for text in caplog.messages if "capabilities" in text]
    assert said == [f"one: these of its capabilities are not passed on: {names}"]


async def test_a_server_that_asks_at_its_start_waits_for_the_client() -> None:
    shop = Server("shop", "1")
    found: list[Any] = []

    @shop.notification("notifications/initialized")
    async def ask(context: Context) -> None:
        found.extend(await context.list_roots())

    handlers = {"roots/list": lambda _: {"roots": [{"uri": "file:///data"}]}}
    async with client_of(Gateway({"one": shop}), handlers=handlers):
        await eventually(lambda: found)
    assert found == [{"uri": "file:///data"}]


async def test_a_client_that_leaves_cancels_its_calls_and_ends_its_servers_only() -> None:
    one, _, gateway = two()
    async with client_of(gateway) as other:
        await other.call_tool("one_price", {"item": "a"})
        async with client_of(gateway) as client:
            call = asyncio.ensure_future(client.call_tool("one_hang", {}))
            await eventually(lambda: "hang" in one.seen)
            assert gateway.running == ["one", "one", "other"]
        call.cancel()
        await eventually(lambda: one.cancelled)
        assert gateway.running == ["one", "other"]


async def test_a_client_that_closed_its_side_and_reads_on_is_waited_for_half_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one on pipes does."""
    one, _, gateway = two()
    ours, theirs = memory_pair(profile=MCP_2025_11_25)
    monkeypatch.setattr(type(ours), "responds_after_end", True)
    loop = asyncio.get_running_loop()
    serving = asyncio.ensure_future(gateway.run(ours))
    received: list[Any] = []
    theirs.onmessage = received.append
    await theirs.start()
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    theirs.send(Request(1, "initialize", params))
    await eventually(lambda: received)
    theirs.send(Notification("notifications/initialized"))
    theirs.send(Request(2, "tools/call", {"name": "one_hang", "arguments": {}}))
    await eventually(lambda: "hang" in one.seen)
    begun = loop.time()
    await theirs.close()
    await serving
    assert 30 <= loop.time() - begun < 40


@pytest.mark.parametrize("versions", [RELEASED_VERSIONS, MODERN_VERSIONS])
async def test_a_change_of_a_list_and_of_a_resource_is_told(versions: Any) -> None:
    one, other, gateway = two(versions)
    notes: list[Any] = []
    async with client_of(gateway, on_notification=lambda method, params: notes.append((method, params))) as client:
        await client.list_tools()
        one.server.tool("new")(lambda: "new")
        other.server.list_changed("tools")
        await eventually(lambda: notes)
        await asyncio.sleep(1)
        assert notes == [("notifications/tools/list_changed", {})]
        assert "one_new" in [tool["name"] for tool in await client.list_tools()]
        await client.call("resources/subscribe", {"uri": "shop://other/stock"})
        await asyncio.sleep(1)
        one.server.resource_updated("shop://one/stock")
        other.server.resource_updated("shop://other/stock")
        await eventually(lambda: len(notes) > 1)
        await client.call("resources/unsubscribe", {"uri": "shop://other/stock"})
        await asyncio.sleep(1)
        other.server.resource_updated("shop://other/stock")
        await asyncio.sleep(1)
        assert notes[1:] == [("notifications/resources/updated", {"uri": "shop://other/stock"})]


async def test_a_completion_is_made_by_the_server_of_the_prompt_or_the_template() -> None:
    shop = Server("shop", "1.0")

    @shop.prompt(complete={"who": ["Ada", "Alan"]})
    def greet(who: str) -> str:
        return who

    @shop.resource("shop://item/{item}", complete={"item": ["tea"]})
    def item(item: str) -> str:
        return item

    async with client_of(Gateway({"one": Shop().server, "a": shop})) as client:
        found = await client.complete({"type": "ref/prompt", "name": "a_greet"}, "who", "A")
        assert found["values"] == ["Ada", "Alan"]
        found = await client.complete({"type": "ref/resource", "uri": "shop://item/{item}"}, "item", "")
        assert found["values"] == ["tea"]


async def test_an_idle_server_is_ended_and_starts_again() -> None:
    one, _, _ = two()
    gateway = Gateway({"one": one.server}, idle_seconds=60)
    async with client_of(gateway) as client:
        call = asyncio.ensure_future(client.call_tool("one_hang", {}))
        await asyncio.sleep(100)
        assert gateway.running  # a call is in flight
        call.cancel()
        await asyncio.sleep(59)
        assert gateway.running
        await asyncio.sleep(2)
        assert not gateway.running
        assert text_of(await client.call_tool("one_price", {"item": "tea"})) == "one: tea"
        await client.call("resources/subscribe", {"uri": "shop://one/stock"})
        await asyncio.sleep(100)
        assert gateway.running  # it reports changes


async def test_a_server_is_ended_for_another_one_only_if_it_is_idle() -> None:
    one, other, _ = two()
    gateway = Gateway({"one": one.server, "other": other.server}, max_servers=1)
    async with client_of(gateway) as client:
        await client.call_tool("one_price", {"item": "a"})
        with pytest.raises(RpcError, match="too many servers are running"):
            await client.call_tool("other_price", {"item": "a"})
        await asyncio.sleep(11)
        await client.call_tool("other_price", {"item": "a"})
        assert gateway.running == ["other"]


async def test_one_server_that_does_not_respond_delays_nobody(caplog: pytest.LogCaptureFixture) -> None:
    slow = Scripted({"tools/list": None})
    gateway = Gateway({"one": slow, "other": Shop().server})
    notes: list[str] = []
    async with client_of(gateway, on_notification=lambda method, _: notes.append(method)) as client:
        clock = asyncio.get_running_loop().time
        begun = clock()
        assert len(await client.list_tools()) == 7
        assert clock() - begun == pytest.approx(10, abs=0.1)
        begun = clock()
        assert len(await client.list_tools()) == 7
        await client.call_tool("other_price", {"item": "a"})
        assert clock() - begun < 0.1  # it is known to be slow
        assert notes == []
        slow.script.reply(slow.script.requests[-1]["id"], {"tools": [{"name": "late", "inputSchema": {}}]})
        await eventually(lambda: notes == ["notifications/tools/list_changed"])
        slow.script.answers["tools/list"] = {"tools": [{"name": "late", "inputSchema": {}}]}
        assert len(await client.list_tools()) == 8


async def test_the_requests_in_flight_to_a_server_are_bounded() -> None:
    one, _, _ = two()
    gateway = Gateway({"one": one.server}, max_calls=3)
    async with client_of(gateway) as client:
        calls = [asyncio.ensure_future(client.call_tool("one_hang", {})) for _ in range(3)]
        await eventually(lambda: len(one.seen) == 3)
        with pytest.raises(RpcError, match="too many requests") as caught:
            await client.call_tool("one_price", {"item": "a"})
        assert caught.value.code == -32000
        for call in calls:
            call.cancel()


@rows(
    ("servers", "options", "said"),
    [
        ({"a": "x", "a_b": "y"}, {}, "'a' and 'a_b' would have names in common"),
        ({"a b": "x", "a_b": "y"}, {}, "in common"),
        ({"": "x"}, {}, "must have a name"),
        ({"a": 1}, {}, "must be a URL, a command"),
        ({"a": []}, {}, "must be a URL, a command"),
        ({"a": "x", "b": "y"}, {"separator": ""}, "separator"),
        ({"a": "x"}, {"separator": "/"}, "separator"),
        ({"a": "x"}, {"max_servers": 0}, "max_servers"),
        ({"a": "x"}, {"idle_seconds": -1}, "idle_seconds"),
    ],
)
def test_wrong_arguments(servers: Any, options: Any, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        Gateway(servers, **options)


def test_names_that_a_tool_may_not_have() -> None:
    Gateway({"a": "x", "ab": "y", "my server": "z"})
    Gateway({"a": "x", "a_b": "y"}, separator=".")


async def test_the_log_names_the_server_and_holds_no_payload(caplog: pytest.LogCaptureFixture) -> None:
    answers = {
        "tools/list": {"tools": "xyzzy"},
        "prompts/list": {"prompts": [{"name": 5, "x": "xyzzy"}, {"name": "p"}, {"name": "p"}]},
    }
    gateway = Gateway({"one": Scripted(answers), "other": Shop().server})
    with caplog.at_level(logging.INFO, "jsonrpc_fast.gateway"):
        async with client_of(gateway) as client:
            assert len(await client.list_tools()) == 7
            assert [prompt["name"] for prompt in await client.list_prompts()] == ["one_p", "other_greet"]
    assert "one: is left out of tools/list" in caplog.text
    assert "one: an item of prompts/list is left out: /prompts/0/name must be a string" in caplog.text
    assert "one: an item of prompts/list is left out: it has the name of an item before it" in caplog.text
    assert "xyzzy" not in caplog.text


PAIRS = pytest.mark.parametrize(
    ("mode", "versions", "spoken"),
    [
        ("legacy", HANDSHAKE_VERSIONS, "2025-11-25"),
        ("legacy", RELEASED_VERSIONS, "2025-11-25"),
        ("legacy", MODERN_VERSIONS, "2026-07-28"),
        ("modern", HANDSHAKE_VERSIONS, "2025-11-25"),
        ("modern", RELEASED_VERSIONS, "2026-07-28"),
        ("modern", MODERN_VERSIONS, "2026-07-28"),
    ],
)


def answering(text: str) -> Any:
    def sample(params: dict[str, Any]) -> dict[str, Any]:
        asked = params["messages"][0]["content"]["text"]
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": f"{text}: {asked}"}}

    return {"sampling/createMessage": sample}


@PAIRS
async def test_tools_prompts_and_resources(mode: str, versions: Any, spoken: str) -> None:
    one, other, gateway = two(versions)
    async with client_of(gateway, mode) as client:
        assert client.server.revision.version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        names = [tool["name"] for tool in await client.list_tools()]
        assert (names[0], len(names)) == ("one_price", 14)
        assert text_of(await client.call_tool("other_price", {"item": "tea", "count": 2})) == "other: tea"
        assert (one.seen, other.seen) == ([], [("tea", 2)])
        assert text_of(await client.call_tool("one_who", {})) == f"jsonrpc_fast {spoken}"
        assert [prompt["name"] for prompt in await client.list_prompts()] == ["one_greet", "other_greet"]
        prompt = await client.get_prompt("other_greet", {"who": "Ada"})
        assert prompt["messages"][0]["content"]["text"] == "other greets Ada"
        uris = [resource["uri"] for resource in await client.list_resources()]
        assert uris == ["shop://one/stock", "shop://other/stock"]
        assert len(await client.list_resource_templates()) == 2
        for uri, text in {"shop://other/stock": "stock of other", "shop://one/item/tea": "one has tea"}.items():
            assert (await client.read_resource(uri))["contents"][0]["text"] == text
        with pytest.raises(RpcError) as caught:
            await client.read_resource("shop://nowhere/stock")
        assert caught.value.code == (-32002 if (mode, spoken) == ("legacy", "2025-11-25") else -32602)
        with pytest.raises(RpcError) as caught:
            await client.call_tool("one_fail", {})
        assert (caught.value.code, caught.value.message, caught.value.data) == (-5, "closed", {"why": [1.5]})
    assert gateway.running == []


@PAIRS
async def test_a_server_asks_the_client_that_called_it(mode: str, versions: Any, spoken: str) -> None:
    _, _, gateway = two(versions)
    async with (
        client_of(gateway, mode, handlers=answering("a")) as a,
        client_of(gateway, mode, handlers=answering("b")) as b,
        client_of(gateway, mode) as mute,
    ):
        asked = [client.call_tool("one_ask", {"question": f"{n}"}) for n, client in enumerate([a, b, a, a])]
        texts = [text_of(result) for result in await asyncio.gather(*asked)]
        assert texts == ["a: 0", "b: 1", "a: 2", "a: 3"]
        with pytest.raises(RpcError):
            await mute.call_tool("one_ask", {"question": "4"})


@PAIRS
async def test_progress_and_cancellation(mode: str, versions: Any, spoken: str) -> None:
    one, _, gateway = two(versions)
    async with client_of(gateway, mode) as client, client_of(gateway, mode) as another:
        progress: dict[str, list[Any]] = {"a": [], "b": [], "c": []}
        await asyncio.gather(
            client.call_tool("one_work", {"steps": 2}, on_progress=progress["a"].append),
            client.call_tool("other_work", {"steps": 3}, on_progress=progress["b"].append),
            another.call_tool("one_work", {"steps": 4}, on_progress=progress["c"].append),
        )
        assert {name: [each["progress"] for each in seen] for name, seen in progress.items()} == {
            "a": [1, 2],
            "b": [1, 2, 3],
            "c": [1, 2, 3, 4],
        }
        call = asyncio.ensure_future(client.call_tool("one_hang", {}))
        await eventually(lambda: one.seen)
        call.cancel()
        await eventually(lambda: one.cancelled)
        assert text_of(await client.call_tool("one_price", {"item": "tea"})) == "one: tea"


@PAIRS
async def test_log_messages_have_the_level_that_the_client_asks_for(mode: str, versions: Any, spoken: str) -> None:
    _, _, gateway = two(versions)
    notes: list[Any] = []
    async with client_of(gateway, mode, on_notification=lambda method, params: notes.append(params)) as client:
        await client.set_level("error")
        await client.call_tool("one_log", {})
        await settle()
        assert [(note["level"], note["data"]) for note in notes] == [("error", "one is full")]
        await client.set_level("critical")
        await client.call_tool("one_log", {})
        await client.call_tool("other_log", {})
        await settle()
        assert len(notes) == 1


@pytest.mark.parametrize("versions", [HANDSHAKE_VERSIONS, MODERN_VERSIONS])
async def test_a_subscription_tells_what_it_asks_for(versions: Any) -> None:
    one, other, gateway = two(versions)
    notes: list[Any] = []

    def keep(method: str, params: dict[str, Any]) -> None:
        notes.append((method, {name: value for name, value in params.items() if name != "_meta"}))

    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["shop://other/stock"]}
    async with client_of(gateway, "modern", on_notification=keep) as client:
        await client.list_tools()
        listen = client.call("subscriptions/listen", {"notifications": wanted}, timeout=None)
        stream = asyncio.ensure_future(listen)
        await eventually(lambda: notes)
        assert notes == [("notifications/subscriptions/acknowledged", {"notifications": wanted})]
        one.server.tool("new")(lambda: "new")
        one.server.prompt("also")(lambda: "new")
        one.server.resource_updated("shop://one/stock")
        other.server.resource_updated("shop://other/stock")
        await asyncio.sleep(1)
        assert sorted(notes[1:]) == [
            ("notifications/resources/updated", {"uri": "shop://other/stock"}),
            ("notifications/tools/list_changed", {}),
        ]
        stream.cancel()
        await settle()
        other.server.resource_updated("shop://other/stock")
        one.server.tool("newer")(lambda: "new")
        await asyncio.sleep(10)
        assert len(notes) == 3


async def test_a_resource_that_no_stream_asks_for_is_not_watched() -> None:
    uri = "shop://one/stock"
    listed = {"resources": [{"uri": uri, "name": "stock"}]}
    shop = Scripted({"resources/list": listed, "resources/subscribe": {}, "resources/unsubscribe": {}})
    shop.answers["server/discover"] = RpcError(-32601, "Method not found")
    async with client_of(Gateway({"one": shop}), "modern") as client:
        assert [each["uri"] for each in await client.list_resources()] == [uri]
        wanted = {"notifications": {"resourceSubscriptions": [uri]}}
        stream = asyncio.ensure_future(client.call("subscriptions/listen", wanted, timeout=None))

        def asked(method: str) -> list[str]:
            return [each["params"]["uri"] for each in shop.script.requests if each["method"] == f"resources/{method}"]

        await eventually(lambda: asked("subscribe"))
        assert asked("unsubscribe") == []
        stream.cancel()
        await eventually(lambda: asked("unsubscribe"))
        assert (asked("subscribe"), asked("unsubscribe")) == ([uri], [uri])


async def test_an_idle_server_of_a_client_without_a_handshake_is_ended() -> None:
    gateway = Gateway({"one": Shop("one").server}, idle_seconds=60)
    async with client_of(gateway, "modern") as client:
        await client.call_tool("one_price", {"item": "tea"})
        await asyncio.sleep(59)
        assert gateway.running == ["one"]
        await asyncio.sleep(2)
        assert gateway.running == []
        assert text_of(await client.call_tool("one_price", {"item": "tea"})) == "one: tea"


REQUESTS = 600
CODES = {None, -5, -32000, -32021, -32022, -32600, -32601, -32602}
"""The codes of responses: -5 is a tool's, and a server with a handshake sends -32600 for a missing capability."""
JUNK = [None, True, 5, 1.5, "", "x", [], {}, {"a": 1}, 2**53, "shop://one/stock", "one_ask"]
SAID = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}}
METHODS = [
    *["tools/call"] * 8,
    *("tools/list", "prompts/get", "resources/list", "resources/read", "completion/complete", "server/discover"),
    *("subscriptions/listen", "logging/setLevel", "resources/subscribe", "ping", "unknown"),
]


class Chaos:
    """Makes requests, and remembers what the gateway asked for."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.asked: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def often(self, share: float) -> bool:
        return self.random.random() < share

    def meta(self) -> dict[str, Any]:
        some = self.random.choice
        meta = modern_meta(some([{}, {"sampling": {}}, {"sampling": {}, "roots": {}}]))
        if self.often(0.3):
            meta["progressToken"] = some([1, "t", *JUNK])
        if self.often(0.3):
            meta["io.modelcontextprotocol/logLevel"] = some(["debug", "error", "x"])
        if self.often(0.05):
            meta[some(list(meta))] = some(JUNK)
        return meta

    def request(self, id: int) -> Request:
        some = self.random.choice
        method = some(METHODS)
        params: dict[str, Any] = {
            "name": some(["one_ask", "two_ask", "one_price", "two_log", "one_fail", "two_work", "one_greet", *JUNK]),
            "arguments": some([{"question": "1"}, {"item": "a"}, {"steps": 2}, {"who": "x"}, *JUNK]),
            "uri": some(["shop://one/stock", "shop://two/item/x", *JUNK]),
            "ref": some([{"type": "ref/prompt", "name": "one_greet"}, *JUNK]),
            "notifications": some([{"toolsListChanged": True}, {"resourceSubscriptions": ["shop://two/stock"]}, *JUNK]),
        }
        if self.asked and self.often(0.6):
            params, result = some(self.asked)
            responses = {key: some([SAID, SAID, *JUNK]) for key in result["inputRequests"]}
            params = {**params, "requestState": result["requestState"], "inputResponses": responses}
        if self.often(0.1):
            params[some(["requestState", "inputResponses", "cursor"])] = some(JUNK)
        return Request(id, method, {"_meta": self.meta(), **params})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.ci
async def test_each_request_gets_one_response(seed: int) -> None:
    chaos = Chaos(seed)
    one, two = Shop("one", HANDSHAKE_VERSIONS), Shop("two", MODERN_VERSIONS)
    gateway = Gateway({"one": one.server, "two": two.server}, max_servers=20)
    ours, theirs = memory_pair(profile=MCP_2025_11_25)
    sent: dict[int, Request] = {}
    received: dict[int, Response] = {}
    cancelled: set[int] = set()

    def receive(message: Any) -> None:
        assert type(message) is not Request  # such a client takes none
        if type(message) is Response:
            assert message.id not in received
            received[message.id] = message
            if message.error is None and message.result["resultType"] == "input_required":
                chaos.asked = [*chaos.asked[-20:], (dict(sent[message.id].params), message.result)]

    theirs.onmessage = receive
    serving = asyncio.ensure_future(gateway.run(ours))
    await theirs.start()
    for id in range(REQUESTS):
        sent[id] = chaos.request(id)
        theirs.send(sent[id])
        if chaos.often(0.15) or sent[id].method == "subscriptions/listen":
            cancelled.add(id)
        for _ in range(chaos.random.choice([0, 0, 1, 5, 30])):
            await asyncio.sleep(0)
        if id in cancelled:
            theirs.send(Notification("notifications/cancelled", {"requestId": id}))
        if chaos.often(0.05):
            two.server.resource_updated("shop://two/stock")
            one.server.list_changed("tools")
    await asyncio.sleep(1)
    assert sent.keys() - received.keys() <= cancelled
    codes = {None if response.error is None else response.error.code for response in received.values()}
    assert codes <= CODES
    assert sum(response.error is None for response in received.values()) > REQUESTS // 10
    await theirs.close()
    await serving
    await settle()
    assert gateway.running == []


async def test_calls_of_servers_are_reported_to_hooks_with_their_name() -> None:
    told: list[tuple[str, str, Outcome]] = []

    class Told:
        def __init__(self, name: str) -> None:
            self.name = name

        def call_prepared(self, id: int | str | None, method: str) -> tuple[str, dict[str, str]]:
            return method, {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}

        def call_settled(
            self, trace: str, id: int | str, method: str, outcome: Outcome, code: int | None, seconds: float
        ) -> None:
            assert trace == method
            told.append((self.name, method, outcome))

    one, two = Server("one", "1"), Server("two", "1")
    seen: list[Any] = []

    @one.tool
    def look(context: Context) -> None:
        seen.append(dict(context.meta))

    @two.tool
    def fail() -> None:
        raise RpcError(7, "no")

    async with connect(Gateway({"one": one, "two": two}, hooks=Told)) as client:
        await client.call_tool("one_look")
        with pytest.raises(RpcError):
            await client.call_tool("two_fail")
    calls = [each for each in told if each[1] == "tools/call"]
    assert calls == [("one", "tools/call", Outcome.RESULT), ("two", "tools/call", Outcome.ERROR)]
    assert {each[:2] for each in told} >= {("one", "server/discover"), ("two", "server/discover")}
    assert seen[0]["traceparent"] == f"00-{'a' * 32}-{'b' * 16}-01"
