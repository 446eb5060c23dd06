"""Requests of 2026-07-28, which stand alone: headers, statuses, cancellation, subscriptions."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest

from jsonrpc_fast.codec import Request
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.http.requests import Admitted
from jsonrpc_fast.mcp.http.headers import accepts, check_modern, check_parameters

from ...support.mcp_http import (
    ACCEPT,
    LEGACY,
    MODERN,
    Gate,
    call,
    client_of,
    events_of,
    initialize,
    message_of,
    modern,
    request,
)
from ...support.tables import rows
from ...support.waiting import eventually


def encoded(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


async def test_a_request_needs_no_session() -> None:
    gate = Gate()
    async with client_of(gate.server.asgi_app()) as client:
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
async def test_headers_are_checked_against_the_body(
    message: dict[str, Any], headers: dict[str, str | None], status: int, code: int | None
) -> None:
    async with client_of(Gate().server.asgi_app()) as client:
        answer = await client.post("/mcp", **modern(message, **headers))
        assert (answer.status_code, answer.json().get("error", {}).get("code")) == (status, code)
        assert answer.json()["id"] == 1


async def test_whitespace_around_a_header_is_not_part_of_its_value() -> None:
    transport = httpx.ASGITransport(Gate().server.asgi_app())  # no server in between could remove the whitespace
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:80", headers=ACCEPT) as client:
        padded = {"mcp_name": "  add\t", "mcp_method": " tools/call ", "mcp_protocol_version": f"{MODERN} "}
        answer = await client.post("/mcp", **modern(call(1, "add", a=1, b=2), **padded))
        assert (answer.status_code, answer.json().get("error")) == (200, None)


async def test_an_unknown_version_is_answered_with_the_supported_ones() -> None:
    async with client_of(Gate().server.asgi_app()) as client:
        message = request(1, "tools/list", _meta={"io.modelcontextprotocol/protocolVersion": "2030-01-01"})
        answer = await client.post("/mcp", **modern(message, mcp_protocol_version="2030-01-01"))
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == -32022
        assert answer.json()["error"]["data"] == {"supported": [MODERN], "requested": "2030-01-01"}


async def test_a_missing_capability_has_status_400() -> None:
    async with client_of(Gate().server.asgi_app()) as client:
        answer = await client.post("/mcp", **modern(call(1, "ask", question="?")))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32021)


async def test_a_notification_is_accepted_and_another_body_is_not() -> None:
    async with client_of(Gate().server.asgi_app()) as client:
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
    async with client_of(gate.server.asgi_app()) as client:
        async with client.stream("POST", "/mcp", **modern(call(1, "wait"))) as answer:
            events = events_of(answer)
            assert message_of(await anext(events))["method"] == "notifications/progress"
        await eventually(lambda: gate.cancelled and not gate.server.connections)


async def test_a_subscription_gets_the_changes_that_it_asked_for() -> None:
    gate = Gate()
    async with client_of(gate.server.asgi_app()) as client:
        listen = request("s", "subscriptions/listen", notifications={"toolsListChanged": True})
        async with client.stream("POST", "/mcp", **modern(listen)) as answer:
            events = events_of(answer)
            assert message_of(await anext(events))["method"] == "notifications/subscriptions/acknowledged"
            gate.server.log("error", "not for a subscription")
            gate.server.list_changed("tools")
            changed = message_of(await anext(events))
            assert changed["method"] == "notifications/tools/list_changed"
            assert changed["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "s"}
            gate.server.end_subscriptions()
            assert [message_of(event)["id"] async for event in events] == ["s"]


async def test_a_server_without_sessions() -> None:
    async with client_of(Gate(versions=[MODERN]).server.asgi_app()) as client:
        for method in ("GET", "DELETE"):
            answer = await client.request(method, "/mcp", headers={"mcp-session-id": "x"})
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        answer = await client.post("/mcp", json=initialize())
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32022)
        answer = await client.post("/mcp", json=request(1, "tools/list"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32602)


async def test_a_server_with_sessions_only_knows_no_modern_request() -> None:
    async with client_of(Gate(versions=[LEGACY]).server.asgi_app()) as client:
        answer = await client.post("/mcp", **modern(request(1, "server/discover")))
        assert (answer.status_code, answer.text) == (400, "The header Mcp-Session-Id is missing.\n")


async def test_the_headers_of_parameters_are_checked() -> None:
    gate = Gate()
    properties = {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "number": {"type": "integer", "x-mcp-header": "Number"},
    }

    @gate.server.tool(input_schema={"type": "object", "properties": properties})
    def locate(**given: Any) -> str:
        return f"{given}"

    async with client_of(gate.server.asgi_app()) as client:
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
        check_modern({}, Request(1, "x", modern(request(1, "x"))["json"]["params"]), Admitted())
    with pytest.raises(RpcError, match="Header mismatch: the header mcp-param-a is missing"):
        check_parameters({}, {"mcp-param-a": ("a",)}, {"a": "1"})
