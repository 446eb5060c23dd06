"""The gateway over HTTP for clients of 2026-07-28: requests without a session, with and without a user."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Final

import pytest

pytest.importorskip("httpx2", reason="the extra `http` is not installed")

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp import Gateway, connect
from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.mcp.http.authorization import Authorization

from ...support.http_script import HttpRequest, Reply, http_script, legacy
from ...support.mcp_conversation import answered
from ...support.mcp_gateway import Shop
from ...support.mcp_http import begin, client_of, events_of, message_of, modern, request
from ...support.mcp_revisions import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from ...support.tables import rows
from ...support.waiting import eventually

CAN_SAMPLE = {"io.modelcontextprotocol/clientCapabilities": {"sampling": {}}}
SAID = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}}


def add_where(shop: Shop) -> None:
    """Add a tool that requires its argument as a header, too."""
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}

    @shop.server.tool(input_schema=schema)
    def where(region: str) -> str:
        return region


def gateway_of(shop: Shop) -> Gateway:
    return Gateway({"one": shop.server})


@pytest.mark.parametrize("versions", [HANDSHAKE_VERSIONS, MODERN_VERSIONS])
async def test_requests_stand_alone(versions: Any) -> None:
    shop = Shop("one", versions)
    add_where(shop)
    gateway = gateway_of(shop)
    app = McpEndpoint(gateway)
    async with client_of(app) as client:
        found = (await client.post("/mcp", **modern(request(1, "server/discover")))).json()["result"]
        assert found["supportedVersions"] == ["2026-07-28"]
        listed = (await client.post("/mcp", **modern(request(1, "tools/list")))).json()["result"]
        assert listed["resultType"] == "complete"
        assert (listed["ttlMs"], listed["cacheScope"], len(listed["tools"])) == (0, "private", 8)
        for number in range(3):
            call = request(number, "tools/call", name="one_price", arguments={"item": f"{number}"})
            result = (await client.post("/mcp", **modern(call))).json()["result"]
            assert (result["resultType"], result["content"][0]["text"]) == ("complete", f"one: {number}")
        read = (await client.post("/mcp", **modern(request(1, "resources/read", uri="shop://one/stock")))).json()
        assert read["result"]["contents"][0]["text"] == "stock of one"
        assert read["result"]["cacheScope"] == "private"
        unknown = await client.post("/mcp", **modern(request(1, "tools/call", name="two_price")))
        assert unknown.json()["error"]["code"] == -32602
        other = await client.post("/mcp", **modern(request(1, "tools/call", name="one_price"), mcp_name="one_fail"))
        assert (other.status_code, other.json()["error"]["code"]) == (400, -32020)
        for region, status in [("Rome", 200), ("Oslo", 400)]:
            call = modern(request(1, "tools/call", name="one_where", arguments={"region": "Rome"}))
            call["headers"]["mcp-param-region"] = region
            assert (await client.post("/mcp", **call)).status_code == status
        await eventually(lambda: gateway.running == ["one"])  # a process of one call ends after it
        assert app.sessions == 0
    assert gateway.running == []


@pytest.mark.parametrize("versions", [HANDSHAKE_VERSIONS, MODERN_VERSIONS])
async def test_the_rounds_of_a_call_are_of_one_user(versions: Any) -> None:
    users = {"anna": {"sub": "anna"}, "anna2": {"sub": "anna"}, "bert": {"sub": "bert"}}
    authorization = Authorization(
        users.get, resource="https://example.org/mcp", authorization_servers=["https://login.example.org"]
    )
    gateway = gateway_of(Shop("one", versions))
    async with client_of(McpEndpoint(gateway, authorization=authorization)) as client:

        async def ask_as(token: str, **members: Any) -> Any:
            message = request(1, "tools/call", name="one_ask", arguments={"question": "?"}, _meta=CAN_SAMPLE, **members)
            return (await client.post("/mcp", **modern(message, authorization=f"Bearer {token}"))).json()

        given = answered((await ask_as("anna"))["result"], SAID)
        assert (await ask_as("bert", **given))["error"]["code"] == -32602
        assert (await ask_as("anna2", **given))["result"]["content"][0]["text"] == "yes"
        assert gateway.running == ["one"]  # nothing was started for bert
        await ask_as("bert")
        assert gateway.running == ["one", "one"]


async def test_a_call_that_is_broken_off_is_cancelled() -> None:
    shop = Shop("one", HANDSHAKE_VERSIONS)
    async with client_of(McpEndpoint(gateway_of(shop))) as client:
        call = asyncio.ensure_future(client.post("/mcp", **modern(request(1, "tools/call", name="one_hang"))))
        await eventually(lambda: shop.seen)
        call.cancel()
        await eventually(lambda: shop.cancelled)


@rows("method", ["tools/list", "resources/subscribe", "tools/call"])
async def test_the_servers_of_a_client_that_vanishes_end_with_its_session(method: str) -> None:
    """The client sends no DELETE, and breaks off its last request."""
    shop = Shop("one")
    gateway = Gateway({"one": shop.server}, timeout=0.1)
    app = McpEndpoint(gateway, idle_seconds=0.1)
    async with client_of(app) as client:
        client.headers["mcp-session-id"] = await begin(client)
        last = request(7, method, name="one_hang", uri="shop://one/stock")
        call = asyncio.ensure_future(client.post("/mcp", json=last))
        await eventually(lambda: call.done() or shop.seen)
        call.cancel()
        assert gateway.running == ["one"]
        await eventually(lambda: (gateway.running, app.sessions) == ([], 0))


async def test_a_subscription_is_a_stream_of_its_own() -> None:
    shop = Shop("one", HANDSHAKE_VERSIONS)
    app = McpEndpoint(gateway_of(shop))
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["shop://one/stock"]}
    async with client_of(app) as client:
        listen = modern(request(7, "subscriptions/listen", notifications=wanted))
        async with client.stream("POST", "/mcp", **listen) as answer:
            events = (message_of(event) async for event in events_of(answer) if event.data)
            acknowledged = await anext(events)
            assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
            assert acknowledged["params"]["notifications"] == wanted
            shop.server.resource_updated("shop://one/stock")
            meta = {"io.modelcontextprotocol/subscriptionId": 7}
            updated = {"uri": "shop://one/stock", "_meta": meta}
            assert (await anext(events))["params"] == updated
            closing = asyncio.ensure_future(app.close())
            ended = await anext(events)
            assert (ended["id"], ended["result"]["resultType"]) == (7, "complete")
            await events.aclose()
        await closing


async def test_progress_and_log_messages_are_of_the_request() -> None:
    shop = Shop("one", HANDSHAKE_VERSIONS)
    async with client_of(McpEndpoint(gateway_of(shop))) as client:
        meta = {"progressToken": "mine", "io.modelcontextprotocol/logLevel": "debug"}
        for name, arguments, params in [
            ("one_work", {"steps": 1}, [{"progressToken": "mine", "progress": 1, "total": 1}]),
            ("one_log", {}, [{"level": "error", "data": "one is full"}]),
        ]:
            call = modern(request(1, "tools/call", name=name, arguments=arguments, _meta=meta))
            async with client.stream("POST", "/mcp", **call) as answer:
                messages = [message_of(event) async for event in events_of(answer) if event.data]
            assert [message["params"] for message in messages[:-1]] == params
            assert messages[-1]["result"]["resultType"] == "complete"


REMEMBERING: Final = """
import json, sys
said = "nobody"
for line in sys.stdin:
    message = json.loads(line)
    method, id = message["method"], message.get("id")
    answer = {"result": {}}
    if method == "initialize":
        info = {"name": "one", "version": "1"}
        capabilities = {"tools": {}, "logging": {}}
        answer = {"result": {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}}
    elif method == "server/discover":
        answer = {"error": {"code": -32601, "message": "no"}}
    elif method == "tools/call":
        before, said = said, message["params"]["arguments"]["who"]
        told = {"level": "error", "data": said + " asked"}
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": told}), flush=True)
        answer = {"result": {"content": [{"type": "text", "text": before + " was here"}]}}
    if id is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id, **answer}), flush=True)
"""
"""A server with a handshake that tells each caller who called before."""


@pytest.mark.parametrize("has_tokens", [False, True])
async def test_clients_that_cannot_be_distinguished_share_no_process(has_tokens: bool) -> None:
    authorization = Authorization(
        lambda token: {"sub": token},
        resource="https://example.org/mcp",
        authorization_servers=["https://login.example.org"],
    )
    gateway = Gateway({"one": {"command": sys.executable, "args": ["-ISc", REMEMBERING]}})
    app = McpEndpoint(gateway, authorization=authorization if has_tokens else None)

    async def say(client: Any, who: str) -> tuple[str, list[Any]]:
        meta = {"io.modelcontextprotocol/logLevel": "debug"}
        call = modern(request(1, "tools/call", name="one_say", arguments={"who": who}, _meta=meta))
        call["headers"] |= {"authorization": f"Bearer {who}"} if has_tokens else {}
        async with client.stream("POST", "/mcp", **call) as answer:
            messages = [message_of(event) async for event in events_of(answer) if event.data]
        return messages[-1]["result"]["content"][0]["text"], [message["params"]["data"] for message in messages[:-1]]

    told: list[tuple[str, list[Any]]] = []
    async with client_of(app) as client:
        # Not two calls of a client at a time: what a server with a handshake logs goes to the latest in flight.
        for _ in range(2):
            told += await asyncio.gather(say(client, "alice"), say(client, "bob"))
        assert [log for _, log in told] == [["alice asked"], ["bob asked"], ["alice asked"], ["bob asked"]]
        assert {text for text, _ in told} == (
            {"nobody was here", "alice was here", "bob was here"} if has_tokens else {"nobody was here"}
        )


@pytest.mark.parametrize("versions", [HANDSHAKE_VERSIONS, MODERN_VERSIONS])
@pytest.mark.parametrize("mode", ["legacy", "modern"])
async def test_servers_over_http(mode: str, versions: Any) -> None:
    shop = Shop("one", versions)
    add_where(shop)
    async with client_of(McpEndpoint(shop.server)) as http:
        gateway = Gateway({"one": f"{http.base_url}/mcp"})
        handlers = {"sampling/createMessage": lambda params: SAID}
        notes: list[str] = []
        notify = lambda method, params: notes.append(method)  # noqa: E731
        async with connect(gateway, mode=mode, handlers=handlers, on_notification=notify) as client:
            # Before it has listed the tools: the list says which headers a tool needs.
            assert (await client.call_tool("one_where", {"region": "Rome"}))["content"][0]["text"] == "Rome"
            assert (await client.call_tool("one_ask", {"question": "?"}))["content"][0]["text"] == "yes"
            assert len(await client.list_tools()) == 8
            if mode == "legacy":
                await client.call("resources/subscribe", {"uri": "shop://one/stock"})
            else:
                wanted = {"resourceSubscriptions": ["shop://one/stock"]}
                listen = asyncio.ensure_future(client.call("subscriptions/listen", {"notifications": wanted}))
                await eventually(lambda: notes)
                notes.clear()

            def is_told() -> bool:
                shop.server.resource_updated("shop://one/stock")
                return "notifications/resources/updated" in notes

            await eventually(is_told)
            if mode == "modern":
                listen.cancel()


@rows(
    ("body", "status"),
    [
        (b"garbage", 200),
        (b"[]", 200),
        (b"5", 200),
        (b"", 200),
        (b'{"jsonrpc":"2.0","id":77,"result":{}}', 200),
        (b'{"jsonrpc":"2.0","id":2,"id":2,"result":{}}', 200),
        (b"no", 500),
    ],
)
async def test_the_faults_of_a_server_over_http_name_it(body: bytes, status: int) -> None:
    async def respond(_: HttpRequest, reply: Reply) -> None:
        await reply.send(body, status)

    async with http_script(legacy(respond)) as script, connect(Gateway({"bad": script.url})) as client:
        with pytest.raises(RpcError) as caught:
            await client.call("tools/call", {"name": "bad_t"})
        said = "sent an invalid message" if status == 200 else "responded with the HTTP status 500"
        assert (caught.value.code, caught.value.message) == (-32000, f"the server 'bad' {said}")
