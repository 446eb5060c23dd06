"""MCP over HTTP on real sockets, with plain requests: sessions, streams, single requests, refusals."""

from __future__ import annotations

import asyncio
import base64
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from jsonrpc_fast.codec import Request
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.http.requests import Admitted
from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.mcp.http.exchange import Exchanges
from jsonrpc_fast.mcp.http.headers import accepts, check_modern, check_parameters
from jsonrpc_fast.mcp.server import Context, Server

from ...support.asgi_servers import serving
from ...support.clock import moving_clock
from ...support.mcp_http import (
    ACCEPT,
    LEGACY,
    MODERN,
    Exchange,
    Gate,
    begin,
    call,
    client_of,
    events_of,
    initialize,
    message_of,
    modern,
    request,
)
from ...support.pages import write_scripts
from ...support.places import ROOT
from ...support.tables import rows
from ...support.waiting import eventually


def progress(id: int | str, value: int, **more: Any) -> dict[str, Any]:
    params = {"progressToken": f"token {id}", "progress": value, **more}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def text_result(id: int | str, text: str) -> dict[str, Any]:
    result = {"content": [{"type": "text", "text": text}], "structuredContent": {"result": text}}
    return {"jsonrpc": "2.0", "id": id, "result": result}


async def test_a_session_from_initialize_to_delete() -> None:
    async with client_of(McpEndpoint(Gate().server)) as client:
        await begin(client)
        answer = await client.post("/mcp", json=request(1, "tools/list"))
        assert [tool["name"] for tool in answer.json()["result"]["tools"]][:2] == ["add", "count"]
        answer = await client.post("/mcp", json=call("x", "add", a=1, b=2))
        assert answer.headers["content-type"] == "application/json"
        assert answer.content == (
            b'{"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text","text":"3"}],"structuredContent":{"result":3}}}'
        )
        assert (await client.delete("/mcp")).status_code == 200
        for answer in (
            await client.delete("/mcp"),
            await client.get("/mcp"),
            await client.post("/mcp", json=request(2, "tools/list")),
        ):
            assert (answer.status_code, answer.text) == (404, "There is no session with this id.\n")


async def test_a_function_that_reports_progress_is_answered_with_events() -> None:
    async with client_of(McpEndpoint(Gate().server, event_store=None)) as client:
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "count", to=2))
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-cache, no-transform"
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.content == (
            b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress",'
            b'"params":{"progressToken":"token 1","progress":0,"total":2}}\n\n'
            b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress",'
            b'"params":{"progressToken":"token 1","progress":1,"total":2}}\n\n'
            b'event: message\ndata: {"jsonrpc":"2.0","id":1,'
            b'"result":{"content":[{"type":"text","text":"counted"}],"structuredContent":{"result":"counted"}}}\n\n'
        )


async def test_each_call_in_flight_gets_its_own_messages() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server, event_store=None)) as client:
        await begin(client)
        calls = [asyncio.create_task(client.post("/mcp", json=call(id, "wait"))) for id in (1, "1", 2)]
        await eventually(gate.entered.is_set)
        counted = await client.post("/mcp", json=call(4, "count", to=1))
        gate.opened.set()
        for id, task in zip((1, "1", 2), calls, strict=True):
            messages = [message_of(event) async for event in events_of(await task)]
            assert messages == [progress(id, 0), progress(id, 1), text_result(id, "waited")]
        messages = [message_of(event) async for event in events_of(counted)]
        assert messages == [progress(4, 0, total=1), text_result(4, "counted")]


async def test_a_question_goes_to_the_stream_of_its_call_and_its_answer_is_posted() -> None:
    async with client_of(McpEndpoint(Gate().server, event_store=None)) as client:
        await begin(client, elicitation={})

        async def ask(id: int, question: str) -> Any:
            async with client.stream("POST", "/mcp", json=call(id, "ask", question=question)) as answer:
                events = events_of(answer)
                asked = message_of(await anext(events))
                assert asked["method"] == "elicitation/create"
                assert asked["params"]["message"] == question
                accepted = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": f"accept {question}"}}
                posted = await client.post("/mcp", json=accepted)
                assert (posted.status_code, posted.content) == (202, b"")
                return [message_of(event) async for event in events]

        first, second = await asyncio.gather(ask(1, "one"), ask(2, "two"))
        assert first == [text_result(1, "accept one")]
        assert second == [text_result(2, "accept two")]


async def test_messages_that_belong_to_no_request_go_to_the_stream_of_a_get() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server, event_store=None)) as client:
        await begin(client)
        gate.server.log("error", "before")
        async with client.stream("GET", "/mcp") as answer:
            events = events_of(answer)
            assert message_of(await anext(events))["params"] == {"level": "error", "data": "before"}
            gate.server.list_changed("tools")
            changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
            assert message_of(await anext(events)) == changed
            second = await client.get("/mcp")
            assert (second.status_code, second.text) == (409, "This stream of the session is already open.\n")
            await client.delete("/mcp")
            assert [event async for event in events] == []


async def test_a_cancelled_call_ends_without_a_response() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server, event_store=None)) as client:
        await begin(client)
        async with client.stream("POST", "/mcp", json=call(7, "wait")) as answer:
            events = events_of(answer)
            assert message_of(await anext(events)) == progress(7, 0)
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            assert (await client.post("/mcp", json=cancel)).status_code == 202
            assert [event async for event in events] == []
        assert gate.cancelled == 1


@rows("id", [True, 1.0, "1", None])
async def test_a_cancellation_of_another_id_cancels_nothing(id: Any) -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server, event_store=None)) as client:
        await begin(client)
        call_1 = asyncio.create_task(client.post("/mcp", json=call(1, "wait")))
        await eventually(gate.entered.is_set)
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
        assert (await client.post("/mcp", json=cancel)).status_code == 202
        gate.opened.set()
        assert [message_of(event) async for event in events_of(await call_1)][-1] == text_result(1, "waited")


@rows(("place", "replies"), [(0, [1, 2]), (1, [2])])
async def test_a_batch_is_served_in_its_order(place: int, replies: list[int]) -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server, event_store=None)) as client:
        await begin(client, "2025-03-26")
        gate.opened.set()
        batch: list[Any] = [call(1, "wait"), call(2, "count", to=1)]
        # A cancellation applies to the requests before it.
        batch.insert(place, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        messages: list[Any] = [message_of(event) async for event in events_of(await client.post("/mcp", json=batch))]
        assert [each["id"] for each in messages[-1]] == replies


async def test_a_log_message_that_nobody_wants_makes_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("sums", "1.0")

    @server.tool
    def look(context: Context) -> str:
        context.debug("unseen")
        return "seen"

    made: list[object] = []
    make = Exchanges.exchange
    monkeypatch.setattr(Exchanges, "exchange", lambda *arguments: made.append(arguments) or make(*arguments))
    async with client_of(McpEndpoint(server)) as client:
        answer = await client.post("/mcp", **modern(call(1, "look")))
        assert answer.json()["result"]["content"][0]["text"] == "seen"
    assert made == []


async def test_a_call_goes_on_when_its_client_disconnects() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server, event_store=None)) as client:
        await begin(client)
        async with client.stream("POST", "/mcp", json=call(1, "wait")) as answer:
            events = events_of(answer)
            await anext(events)
        again = await client.post("/mcp", json=call(1, "add", a=1, b=1))
        assert (again.status_code, again.json()["error"]["message"]) == (400, "the id is in flight")
        gate.opened.set()
        while again.status_code != 200:
            again = await client.post("/mcp", json=call(1, "add", a=1, b=1))
        assert gate.cancelled == 0


async def test_a_silent_call_becomes_a_stream_with_comments() -> None:
    gate = Gate()
    app = McpEndpoint(gate.server, event_store=None, keep_alive_seconds=0.05)

    @gate.server.tool
    async def keep_silent() -> str:
        await gate.opened.wait()
        return "done"

    async with client_of(app) as client:
        await begin(client)
        async with client.stream("POST", "/mcp", json=call(1, "keep_silent")) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            chunks = answer.aiter_bytes()
            assert (await anext(chunks)).startswith(b": keep-alive\n\n")
            gate.opened.set()
            assert b"".join([chunk async for chunk in chunks]).endswith(b'"result":"done"}}}\n\n')


@rows("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_revision_with_sessions(version: str) -> None:
    async with client_of(McpEndpoint(Gate().server)) as client:
        await begin(client, version)
        batch = [call(1, "add", a=1, b=2), {"jsonrpc": "2.0", "method": "x"}, call(2, "count", to=1), {}]
        answer = await client.post("/mcp", json=batch)
        if version != "2025-03-26":
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)
            return
        messages = [message_of(event) async for event in events_of(answer)]
        assert messages[0] == progress(2, 0, total=1)
        first, second, third = messages[1]
        assert (first["id"], first["result"]["content"][0]["text"]) == (1, "3")
        assert (second["id"], second["result"]["content"][0]["text"]) == (2, "counted")
        assert third["error"]["code"] == -32600
        answer = await client.post("/mcp", json=[call(3, "add", a=1, b=2), call(4, "add", a=2, b=2)])
        assert [reply["id"] for reply in answer.json()] == [3, 4]
        answer = await client.post("/mcp", json=[{"jsonrpc": "2.0", "method": "x"}])
        assert (answer.status_code, answer.content) == (202, b"")
        answer = await client.post("/mcp", json=[request(5, "ping"), request(5, "ping")])
        assert answer.status_code == 400
        many = [request(number, "ping") for number in range(300)]
        assert [reply["id"] for reply in (await client.post("/mcp", json=many)).json()] == list(range(300))


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"method": "PUT"}, 405, "Messages are sent with POST.\n"),
    ({"method": "OPTIONS"}, 405, "Messages are sent with POST.\n"),
    ({"url": "/other"}, 404, "Nothing is served at this path.\n"),
    ({"headers": {"origin": "https://example.org"}}, 403, "This origin is not allowed here: see allowed_origins.\n"),
    ({"headers": {"host": "example.org"}}, 421, "This host is not allowed here: see allowed_hosts.\n"),
    ({"headers": {"content-type": "text/plain"}}, 415, "The content type must be application/json, in UTF-8.\n"),
    (
        {"headers": {"accept": "application/json"}},
        406,
        "The client must accept application/json and text/event-stream.\n",
    ),
    (
        {"headers": {"accept": "application/json, text/event-stream;q=0"}},
        406,
        "The client must accept application/json and text/event-stream.\n",
    ),
    ({"headers": {"content-encoding": "gzip"}}, 415, "Content codings are not supported.\n"),
    ({"content": b" " * 1001}, 413, "The body must have at most 1000 bytes.\n"),
    ({"headers": {"mcp-session-id": "guessed"}}, 404, "There is no session with this id.\n"),
    (
        {"method": "GET"},
        400,
        "The header Mcp-Session-Id is missing: a client gets it with the response to initialize.\n",
    ),
    ({"method": "GET", "headers": {"mcp-session-id": "x"}}, 404, "There is no session with this id.\n"),
    ({"method": "GET", "headers": {"mcp-session-id": "x", "last-event-id": "x/1-1"}}, 404, ""),
    ({"method": "GET", "headers": {"mcp-session-id": "x", "accept": "text/html"}}, 406, ""),
    (
        {"method": "DELETE"},
        400,
        "The header Mcp-Session-Id is missing: a client gets it with the response to initialize.\n",
    ),
    (
        {"content": b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'},
        400,
        "The header Mcp-Session-Id is missing: a client gets it with the response to initialize.\n",
    ),
    (
        {"content": b'{"jsonrpc":"2.0","method":"x"}'},
        400,
        "The header Mcp-Session-Id is missing: a client gets it with the response to initialize.\n",
    ),
    ({"content": b"["}, 400, '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'),
    ({"content": b"3"}, 400, '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}'),
    (
        {"content": b'{"jsonrpc":"2.0","id":4,"method":1}'},
        400,
        '{"jsonrpc":"2.0","id":4,"error":{"code":-32600,"message":"Invalid Request"}}',
    ),
]


@rows(("changes", "status", "text"), REFUSED)
@pytest.mark.ci
async def test_what_is_refused(changes: dict[str, Any], status: int, text: str) -> None:
    async with client_of(McpEndpoint(Gate().server, max_body_bytes=1000)) as client:
        headers = {"content-type": "application/json", **changes.get("headers", {})}
        arguments = {"method": "POST", "url": "/mcp", "content": PING, **changes, "headers": headers}
        assert (await client.post("/mcp", json=initialize())).status_code == 200  # what it allows is remembered
        answer = await client.request(**arguments)
        assert answer.status_code == status
        assert text in ("", answer.text)
        if status == 405:
            assert answer.headers["allow"] == "GET, POST, DELETE"
        assert (await client.post("/mcp", json=initialize())).status_code == 200


@rows("versions", [["2025-11-25"], [MODERN]])
@rows("path", ["/", "/mcp"])
async def test_a_browser_is_told_what_this_is(versions: list[str], path: str) -> None:
    async with client_of(McpEndpoint(Gate(versions=versions).server)) as client:
        headers = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "host": "localhost:8000"}
        answer = await client.get(path, headers=headers)
        text = "This is an MCP server. Connect an MCP client to http://localhost:8000/mcp\n"
        assert (answer.status_code, answer.text) == (406, text)
        assert answer.headers["content-type"].startswith("text/plain")


async def test_a_host_that_was_allowed_at_one_address_is_refused_at_loopback() -> None:
    app, headers = McpEndpoint(Gate().server), {"host": "example.org"}
    for address, status in (("192.0.2.1", 200), ("127.0.0.1", 421), ("192.0.2.1", 200)):
        start, _ = await Exchange(app, initialize(), headers=headers, server=(address, 80)).events()
        assert start["status"] == status
    await app.close()


@rows("header", ["mcp-session-id", "mcp-protocol-version", "authorization", "last-event-id"])
async def test_a_header_with_two_values_is_refused(header: str) -> None:
    async with client_of(McpEndpoint(Gate().server)) as client:
        answer = await client.post("/mcp", json=initialize(), headers=[*ACCEPT.items(), (header, "a"), (header, "b")])
        assert (answer.status_code, answer.text) == (400, "A header that may have one value has two.\n")


async def test_an_unsupported_version_is_refused() -> None:
    async with client_of(McpEndpoint(Gate(versions=["2025-06-18"]).server)) as client:
        await begin(client, "2025-06-18")
        for version, status in ((LEGACY, 400), ("1999", 400), (MODERN, 400), ("2025-06-18", 200)):
            answer = await client.post("/mcp", json=request(1, "ping"), headers={"mcp-protocol-version": version})
            assert answer.status_code == status, version
            if status == 400:
                assert answer.text == "This MCP-Protocol-Version is not supported; a session may have 2025-06-18.\n"


@rows("agreed", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_the_revision_of_a_session_counts_whatever_supported_version_its_requests_name(agreed: str) -> None:
    """A client SHOULD name the negotiated revision. The conformance suite always names 2025-03-26."""
    async with client_of(McpEndpoint(Gate().server)) as client:
        await begin(client, agreed)
        for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
            headers = {"mcp-protocol-version": version}
            answer = await client.post("/mcp", json=call(1, "add", a=1, b=2), headers=headers)
            assert answer.status_code == 200
            has_structure = "structuredContent" in answer.json()["result"]
            assert has_structure is (agreed >= "2025-06-18")
            answer = await client.post("/mcp", json=[request(1, "ping")], headers=headers)
            assert answer.status_code == (200 if agreed == "2025-03-26" else 400)
            async with client.stream("GET", "/mcp", headers=headers) as answer:
                assert answer.status_code == 200


async def test_a_refused_handshake_begins_no_session() -> None:
    app = McpEndpoint(Gate().server)
    async with client_of(app) as client:
        answer = await client.post("/mcp", json=request(0, "initialize"))
        assert answer.status_code == 200
        assert answer.json()["error"]["code"] == -32602
        assert "mcp-session-id" not in answer.headers
        assert app.sessions == 0


async def test_it_is_mounted_under_a_path() -> None:
    server = Gate().server
    apps = McpEndpoint(server), McpEndpoint(server, path="/here")
    mounted = Starlette(routes=[Mount("/api/tools", apps[0]), Mount("/", apps[1])])
    async with client_of(mounted) as client:
        for path in ("/api/tools/", "/api/tools/mcp", "/here"):
            assert (await client.post(path, json=initialize())).status_code == 200, path
        assert (await client.post("/there", json=initialize())).status_code == 404
    for app in apps:  # a framework does not pass its lifespan on
        await app.close()


async def test_sessions_are_bounded_and_idle_ones_end(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server, max_sessions=2)) as client:
        ids = [await begin(client), await begin(client)]
        del client.headers["mcp-session-id"]
        refused = await client.post("/mcp", json=initialize())
        assert (refused.status_code, refused.text) == (503, "There are too many sessions.\n")
        monkeypatch.setattr("jsonrpc_fast.mcp.http.sessions.MIN_IDLE_SECONDS", 0.0)
        async with client.stream("GET", "/mcp", headers={"mcp-session-id": ids[0]}):
            third = (await client.post("/mcp", json=initialize())).headers["mcp-session-id"]
            statuses = [
                (await client.post("/mcp", json=request(1, "ping"), headers={"mcp-session-id": id})).status_code
                for id in (*ids, third)
            ]
            assert statuses == [200, 404, 200]  # the first one is not idle


@pytest.mark.slow
async def test_an_idle_session_ends() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server, idle_seconds=0.2)) as client:
        await begin(client)
        async with client.stream("POST", "/mcp", json=call(1, "wait")) as answer:
            events = events_of(answer)
            await anext(events)
            await asyncio.sleep(0.4)
            assert len(gate.server.connections) == 1
            gate.opened.set()
            assert len([event async for event in events]) > 0
        await eventually(lambda: not gate.server.connections)
        assert (await client.post("/mcp", json=request(1, "ping"))).status_code == 404


async def test_requests_in_progress_are_bounded() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server, max_requests=2, max_session_requests=1)) as client:
        await begin(client)
        async with client.stream("POST", "/mcp", json=call(1, "wait")) as answer:
            events = events_of(answer)
            await anext(events)
            refused = await client.post("/mcp", json=request(2, "ping"))
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert refused.text == "The session has too many requests in progress.\n"
            await begin(client)
            async with client.stream("GET", "/mcp"):
                refused = await client.post("/mcp", json=request(2, "ping"))
                assert (refused.status_code, refused.text) == (503, "The server is busy.\n")
            gate.opened.set()


@rows(
    "options",
    [
        {"path": "mcp"},
        {"max_sessions": 0},
        {"max_body_bytes": 0},
        {"idle_seconds": -1},
        {"keep_alive_seconds": None},
        {"allowed_hosts": "example.org"},
        {"session_options": {"unknown": 1}},
        {"retry_ms": 0.5},
    ],
)
def test_an_invalid_option_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        McpEndpoint(Server("a", "1"), **options)


async def test_close_ends_streams_and_lets_calls_finish() -> None:
    gate = Gate()
    app = McpEndpoint(gate.server, event_store=None)
    async with client_of(app) as client:
        await begin(client)
        listen = request(3, "subscriptions/listen", notifications={"toolsListChanged": True})
        async with (
            client.stream("GET", "/mcp") as listening,
            client.stream("POST", "/mcp", json=call(1, "wait")) as waiting,
            client.stream("POST", "/mcp", **modern(listen)) as subscribed,
        ):
            events, subscription = events_of(waiting), events_of(subscribed)
            await anext(events)
            assert message_of(await anext(subscription))["method"] == "notifications/subscriptions/acknowledged"
            closing = asyncio.create_task(app.close(20))
            assert message_of(await anext(subscription))["id"] == 3
            assert not closing.done()
            gate.opened.set()
            assert [message_of(event) async for event in events] == [progress(1, 1), text_result(1, "waited")]
            assert [event async for event in events_of(listening)] == []
            await closing
        assert not gate.server.connections
        assert (await client.post("/mcp", json=initialize())).status_code == 503


async def test_it_serves_over_the_sdk_of_the_protocol() -> None:
    mcp = pytest.importorskip("mcp")
    gate = Gate()
    async with client_of(McpEndpoint(gate.server)) as http, mcp.Client(f"{http.base_url}/mcp") as client:
        assert (await client.call_tool("add", {"a": 1, "b": 3})).structured_content == {"result": 4}


def encoded(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


async def test_a_request_needs_no_session() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server)) as client:
        answer = await client.post("/mcp", **modern(request(1, "server/discover")))
        assert answer.status_code == 200
        assert answer.json()["result"]["supportedVersions"] == [MODERN]
        assert "mcp-session-id" not in answer.headers
        answer = await client.post("/mcp", **modern(call(1, "add", a=1, b=2), mcp_session_id="ignored"))
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["result"]["structuredContent"] == {"result": 3}
        answer = await client.post("/mcp", **modern(call(1, "count", to=1)))
        messages = [message_of(event) async for event in events_of(answer)]
        assert [message.get("method") for message in messages] == ["notifications/progress", None]
        assert b"id:" not in answer.content.replace(b'"id":', b"")  # nothing can be resumed
    assert not gate.server.connections


@rows(
    ("message", "headers", "status", "code"),
    [
        (call(1, "add", a=1, b=2), {"mcp_protocol_version": None}, 400, -32020),
        (call(1, "add", a=1, b=2), {"mcp_protocol_version": LEGACY}, 400, -32020),
        (call(1, "add", a=1, b=2), {"mcp_protocol_version": "2030-01-01"}, 400, -32020),
        (call(1, "add", a=1, b=2), {"mcp_method": None}, 400, -32020),
        (call(1, "add", a=1, b=2), {"mcp_method": "Tools/call"}, 400, -32020),
        (call(1, "add", a=1, b=2), {"mcp_name": None}, 400, -32020),
        (call(1, "add", a=1, b=2), {"mcp_name": "count"}, 400, -32020),
        (call(1, "add", a=1, b=2), {"mcp_name": "=?base64?!?="}, 400, -32020),
        (call(1, "add", a=1, b=2), {"mcp_name": encoded("count")}, 400, -32020),
        (call(1, "add", a=1, b=2), {"mcp_name": encoded("add")}, 200, None),
        (request(1, "resources/read", uri="x:y"), {"mcp_name": "x:z"}, 400, -32020),
        (request(1, "prompts/get", name="a"), {"mcp_name": None}, 400, -32020),
        (request(1, "nothing"), {}, 404, -32601),
        (request(1, "ping"), {}, 404, -32601),
        (request(1, "initialize"), {}, 404, -32601),
        (request(1, "tools/call", name=3), {"mcp_name": None}, 200, -32602),
    ],
)
@pytest.mark.ci
async def test_headers_are_checked_against_the_body(
    message: dict[str, Any], headers: dict[str, str | None], status: int, code: int | None
) -> None:
    async with client_of(McpEndpoint(Gate().server)) as client:
        answer = await client.post("/mcp", **modern(message, **headers))
        assert (answer.status_code, answer.json().get("error", {}).get("code")) == (status, code)
        assert answer.json()["id"] == 1


async def test_whitespace_around_a_header_is_not_part_of_its_value() -> None:
    transport = httpx2.ASGITransport(McpEndpoint(Gate().server))  # no server in between could remove the whitespace
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:80", headers=ACCEPT) as client:
        padded = {"mcp_name": "  add\t", "mcp_method": " tools/call ", "mcp_protocol_version": f"{MODERN} "}
        answer = await client.post("/mcp", **modern(call(1, "add", a=1, b=2), **padded))
        assert (answer.status_code, answer.json().get("error")) == (200, None)


async def test_an_unknown_version_is_answered_with_the_supported_ones() -> None:
    async with client_of(McpEndpoint(Gate().server)) as client:
        message = request(1, "tools/list", _meta={"io.modelcontextprotocol/protocolVersion": "2030-01-01"})
        answer = await client.post("/mcp", **modern(message, mcp_protocol_version="2030-01-01"))
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == -32022
        assert answer.json()["error"]["data"] == {"supported": [MODERN], "requested": "2030-01-01"}


@rows(
    ("message", "id"),
    [
        (request(1, "ping"), 1),
        (request(1, "tools/list", _meta={"io.modelcontextprotocol/clientCapabilities": {}}), 1),
        (request(1, "initialize"), 1),
        ({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}, None),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, None),
        ([request(1, "ping")], None),
    ],
)
async def test_an_unknown_version_of_the_header_alone_is_a_fault_of_the_header(message: Any, id: int | None) -> None:
    """A client up to 2025-11-25 has no `_meta` with a version, and a notification that is dropped is no success."""
    async with client_of(McpEndpoint(Gate(versions=["2025-03-26", LEGACY, MODERN]).server)) as client:
        await begin(client)
        answer = await client.post("/mcp", json=message, headers={"mcp-protocol-version": "1999-01-01"})
        error = {
            "code": -32022,
            "message": "Unsupported protocol version in the header MCP-Protocol-Version",
            "data": {"supported": [MODERN, LEGACY, "2025-03-26"], "requested": "1999-01-01"},
        }
        assert (answer.status_code, answer.json()) == (400, {"jsonrpc": "2.0", "id": id, "error": error})


async def test_a_version_of_the_header_that_is_too_long_is_not_repeated() -> None:
    async with client_of(McpEndpoint(Gate().server)) as client:
        answer = await client.post("/mcp", json=request(1, "ping"), headers={"mcp-protocol-version": "1" * 65})
        error = {"code": -32602, "message": "MCP-Protocol-Version must be a string of at most 64 characters"}
        assert (answer.status_code, answer.json()["error"]) == (400, error)


async def test_a_missing_capability_has_status_400() -> None:
    async with client_of(McpEndpoint(Gate().server)) as client:
        answer = await client.post("/mcp", **modern(call(1, "ask", question="?")))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32021)


async def test_a_notification_is_accepted_and_another_body_is_not() -> None:
    async with client_of(McpEndpoint(Gate().server)) as client:
        headers = {"mcp-protocol-version": MODERN}
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        assert (await client.post("/mcp", json=note, headers=headers)).status_code == 202
        response = {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert (await client.post("/mcp", json=response, headers=headers)).status_code == 400
        for batch in ([request(1, "ping")], [note], [response], []):
            answer = await client.post("/mcp", json=batch, headers=headers)
            assert (answer.status_code, answer.json()) == (
                400,
                {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Invalid Request"}},
            )


async def test_a_disconnection_cancels_the_call() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server)) as client:
        async with client.stream("POST", "/mcp", **modern(call(1, "wait"))) as answer:
            events = events_of(answer)
            assert message_of(await anext(events))["method"] == "notifications/progress"
        await eventually(lambda: gate.cancelled and not gate.server.connections)


async def test_a_subscription_gets_the_changes_that_it_asked_for() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server)) as client:
        listen = request("s", "subscriptions/listen", notifications={"toolsListChanged": True})
        async with client.stream("POST", "/mcp", **modern(listen)) as answer:
            events = events_of(answer)
            assert message_of(await anext(events))["method"] == "notifications/subscriptions/acknowledged"
            gate.server.log("error", "not for a subscription")
            gate.server.list_changed("tools")
            changed = message_of(await anext(events))
            assert changed["method"] == "notifications/tools/list_changed"
            assert changed["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "s"}
            gate.server.on_signal()
            assert [message_of(event)["id"] async for event in events] == ["s"]


async def test_a_server_without_sessions() -> None:
    async with client_of(McpEndpoint(Gate(versions=[MODERN]).server)) as client:
        for method in ("GET", "DELETE"):
            answer = await client.request(method, "/mcp", headers={"mcp-session-id": "x"})
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        answer = await client.post("/mcp", json=initialize())
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32022)
        answer = await client.post("/mcp", json=request(1, "tools/list"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32602)


async def test_a_server_with_sessions_only_knows_no_modern_request() -> None:
    async with client_of(McpEndpoint(Gate(versions=[LEGACY]).server)) as client:
        answer = await client.post("/mcp", **modern(request(1, "server/discover")))
        assert (answer.status_code, answer.text) == (
            400,
            "The header Mcp-Session-Id is missing: a client gets it with the response to initialize.\n",
        )


async def test_the_headers_of_parameters_are_checked(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    properties = {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "number": {"type": "integer", "x-mcp-header": "Number"},
    }

    @gate.server.tool(input_schema={"type": "object", "properties": properties})
    def locate(**given: Any) -> str:
        return f"{given}"

    @gate.server.tool(input_schema={"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}})
    def unused(**given: Any) -> str:
        return ""

    async with client_of(McpEndpoint(gate.server)) as client:
        for _ in range(2):
            assert (await client.post("/mcp", **modern(call(1, "unused")))).status_code == 200
        text = "the tool 'unused' is left out by clients: x-mcp-header must belong to a string, an integer or a boolean"
        assert [record.getMessage() for record in caplog.records] == [text]
        for arguments, headers, status in (
            ({"region": "west"}, {"mcp_param_region": "west"}, 200),
            ({"region": "wést"}, {"mcp_param_region": encoded("wést")}, 200),
            ({"number": 42}, {"mcp_param_number": "42.0"}, 200),
            ({"region": None}, {}, 200),
            ({}, {}, 200),
            ({"region": "west"}, {}, 400),
            ({"region": "west"}, {"mcp_param_region": "east"}, 400),
            ({"region": "west"}, {"mcp_param_region": "=?base64?!?="}, 400),
            ({"number": 42}, {"mcp_param_number": "43"}, 400),
            ({}, {"mcp_param_region": "west"}, 400),
        ):
            answer = await client.post("/mcp", **modern(call(1, "locate", **arguments), **headers))
            assert answer.status_code == status, (arguments, headers, answer.text)
            assert answer.json().get("error", {}).get("code") == (-32020 if status == 400 else None)


@rows(
    ("accept", "is_accepted"),
    [
        (None, True),
        (b"application/json, text/event-stream", True),
        (b"Text/Event-Stream;q=0.5,application/JSON;charset=utf-8", True),
        (b"*/*", True),
        (b"application/*, text/*", True),
        (b"application/json", False),
        (b"text/event-stream", False),
        (b"application/json, text/event-stream; q=0", False),
        (b"", False),
        (b"*/*" + b" " * 2000, False),
    ],
)
def test_accept(accept: bytes | None, is_accepted: bool) -> None:
    assert accepts(accept, b"application/json", b"text/event-stream") is is_accepted


def test_the_errors_name_the_header() -> None:
    with pytest.raises(RpcError, match="Header mismatch: the header MCP-Protocol-Version is missing"):
        check_modern({}, Request(1, "x", modern(request(1, "x"))["json"]["params"]), Admitted(), [MODERN])
    with pytest.raises(RpcError, match="Header mismatch: the header mcp-param-a is missing"):
        check_parameters({}, {"mcp-param-a": ("a",)}, {"a": "1"})


NAMES = ["weather", "mounted", "browser", "report", "protected"]


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The modules of the page, by name."""
    assert [script.stem for script in write_scripts(ROOT / "docs" / "mcp-http.md", tmp_path)] == NAMES
    monkeypatch.syspath_prepend(str(tmp_path))
    yield {name: importlib.import_module(name) for name in NAMES}
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name)


async def test_the_mounted_application(modules: dict[str, Any]) -> None:
    async with (
        serving(modules["mounted"].app) as url,
        httpx2.AsyncClient(base_url=f"{url}/tools", headers={**ACCEPT, "host": "example.org"}) as client,
    ):
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "forecast", city="Rome"))
        messages = [message_of(event) async for event in events_of(answer) if event.data]
        assert messages[-1]["result"]["content"] == [{"type": "text", "text": "Sunny in Rome"}]
        assert (await client.post("/mcp", headers={"host": "localhost"})).status_code == 421
    assert modules["mounted"].mcp.is_closing


async def test_a_page_of_an_allowed_origin(modules: dict[str, Any]) -> None:
    origin = "https://app.example.org"
    names = "authorization,content-type,last-event-id,mcp-param-region,mcp-protocol-version,mcp-session-id"
    asked = {"access-control-request-method": "DELETE", "access-control-request-headers": names}
    async with client_of(modules["browser"].app) as client:
        answer = await client.options("/mcp", headers={"origin": origin, **asked})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
        allowed = answer.headers["access-control-allow-headers"].replace(" ", "")
        assert set(names.split(",")) <= set(allowed.split(","))
        assert "DELETE" in answer.headers["access-control-allow-methods"]
        client.headers["origin"] = origin
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "forecast", city="Rome"))
        assert answer.headers["access-control-allow-origin"] == origin
        assert answer.headers["access-control-expose-headers"] == "Mcp-Session-Id, WWW-Authenticate"
        client.headers["origin"] = "https://other.example.org"
        assert (await client.options("/mcp", headers=asked)).status_code == 400
        answer = await client.post("/mcp", json=call(1, "forecast", city="Rome"))
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


async def test_the_report_comes_after_the_connection_is_closed(modules: dict[str, Any]) -> None:
    move = moving_clock()
    async with client_of(modules["report"].app) as client:
        await begin(client)
        [primer] = [event async for event in events_of(await client.post("/mcp", json=call(1, "report")))]
        assert (primer.data, primer.retry) == (b"", 500)
        move(1)  # the tool sleeps
        answer = await client.get("/mcp", headers={"last-event-id": primer.id})
        [event] = [event async for event in events_of(answer)]
        assert message_of(event)["result"]["content"] == [{"type": "text", "text": "the report"}]


async def test_the_protected_application(modules: dict[str, Any]) -> None:
    async with client_of(modules["protected"].app) as client:
        assert (await client.post("/mcp", json=call(1, "whoami"))).status_code == 401
        client.headers["authorization"] = "Bearer secret"
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "whoami"))
        assert answer.json()["result"]["content"] == [{"type": "text", "text": "anna"}]
        metadata = await client.get("/.well-known/oauth-protected-resource/mcp")
        assert metadata.json()["authorization_servers"] == ["https://login.example.org"]
