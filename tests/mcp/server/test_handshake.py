"""The server's side of the handshake, message by message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from jsonrpc_fast import Notification, Raw, Request
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp.protocol.capabilities import Implementation, ServerCapabilities
from jsonrpc_fast.mcp.protocol.meta import CLIENT_INFO_KEY, LOG_LEVEL_KEY, LOG_LEVELS
from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS, REVISIONS
from jsonrpc_fast.mcp.server.handshake import RequestRules, ServerHandshake

from ...support.mcp_revisions import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from ...support.mcp_schemas import schema_of
from ...support.tables import rows

SERVER = Implementation(name="server", version="1", title="The server")
CLIENT = Implementation(name="client", version="2")
OFFERS = ServerCapabilities.from_dict({"prompts": {"listChanged": True}, "completions": {}, "logging": {}})
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "2"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}},
}
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"roots": {"listChanged": True}},
    "clientInfo": {"name": "client", "version": "2"},
}


def server(
    versions: tuple[str, ...] = RELEASED_VERSIONS,
    instructions: str | None = None,
    cache_hints: dict[str, Any] | None = None,
    methods: tuple[str, ...] = (),
) -> ServerHandshake:
    hints = cache_hints or {"ttlMs": 0, "cacheScope": "private"}
    return ServerHandshake(SERVER, OFFERS, versions, instructions, hints, methods)


def ask(handshake: ServerHandshake, method: str, params: Any = None) -> RequestRules | dict[str, Any]:
    return handshake.receive_request(method, params)


def error_of(handshake: ServerHandshake, method: str, params: Any = None) -> tuple[int, str]:
    with pytest.raises(RpcError) as caught:
        ask(handshake, method, params)
    return caught.value.code, caught.value.message


def initialized(**changes: Any) -> ServerHandshake:
    handshake = server()
    ask(handshake, "initialize", {**INITIALIZE, **changes})
    assert handshake.receive_notification("notifications/initialized")
    return handshake


def test_initialize() -> None:
    handshake = server(instructions="Be kind.")
    assert handshake.session is None
    assert ask(handshake, "initialize", INITIALIZE) == {
        "protocolVersion": "2025-06-18",
        "capabilities": {"prompts": {"listChanged": True}, "completions": {}, "logging": {}},
        "serverInfo": {"name": "server", "version": "1", "title": "The server"},
        "instructions": "Be kind.",
    }
    assert handshake.session is not None
    assert not handshake.is_initialized
    assert handshake.receive_notification("notifications/initialized")
    assert handshake.is_initialized
    assert not handshake.receive_notification("notifications/initialized")
    context = ask(handshake, "prompts/list")
    assert isinstance(context, RequestRules)
    assert context.revision is REVISIONS["2025-06-18"]
    assert context.client_capabilities.supports("roots.listChanged")
    assert context.client_info == CLIENT


@rows(
    ("requested", "supported", "negotiated"),
    [
        ("2024-11-05", RELEASED_VERSIONS, "2024-11-05"),
        ("2026-07-28", RELEASED_VERSIONS, "2025-11-25"),
        ("1999-01-01", RELEASED_VERSIONS, "2025-11-25"),
        ("", RELEASED_VERSIONS, "2025-11-25"),
        ("2025-11-25", RELEASED_VERSIONS[:2], "2025-03-26"),
    ],
)
def test_version_negotiation(requested: str, supported: tuple[str, ...], negotiated: str) -> None:
    reply = ask(server(supported), "initialize", {**INITIALIZE, "protocolVersion": requested})
    assert isinstance(reply, dict)
    assert reply["protocolVersion"] == negotiated


def test_a_second_initialize_is_an_error() -> None:
    assert error_of(initialized(), "initialize", INITIALIZE) == (-32600, "the session is already initialized")


@rows(
    ("params", "message"),
    [
        (None, "protocolVersion must be a string of at most 64 characters"),
        ({}, "protocolVersion must be a string of at most 64 characters"),
        ({**INITIALIZE, "protocolVersion": "S" * 65}, "protocolVersion must be a string of at most 64 characters"),
        ({"protocolVersion": "2025-06-18"}, "capabilities is missing"),
        ({**INITIALIZE, "capabilities": "SECRET"}, "capabilities: the value must be an object"),
        ({**INITIALIZE, "capabilities": {"roots": 1}}, "capabilities: /roots must be an object"),
        ({**INITIALIZE, "clientInfo": {"name": "SECRET"}}, "clientInfo: /version is missing"),
    ],
)
def test_an_invalid_initialize_can_be_repeated(params: Any, message: str) -> None:
    handshake = server()
    assert error_of(handshake, "initialize", params) == (-32602, message)
    assert handshake.session is None
    assert isinstance(ask(handshake, "initialize", INITIALIZE), dict)


def test_before_initialize() -> None:
    handshake = server()
    assert ask(handshake, "ping") == {}
    assert error_of(handshake, "prompts/list") == (-32600, "the session is not initialized")
    assert error_of(handshake, "prompts/list", {"_meta": {"progressToken": 1}}) == (
        -32600,
        "the session is not initialized",
    )
    assert error_of(handshake, "nothing/known") == (-32601, "Method not found")
    assert error_of(handshake, "subscriptions/listen") == (-32601, "Method not found")
    for method in ("notifications/initialized", "notifications/roots/list_changed", "x"):
        assert not handshake.receive_notification(method)
    assert handshake.receive_notification("notifications/cancelled")


def test_requests_may_follow_initialize_immediately() -> None:
    handshake = server()
    ask(handshake, "initialize", INITIALIZE)
    assert isinstance(ask(handshake, "prompts/list"), RequestRules)
    assert ask(handshake, "ping") == {}


def test_methods_of_other_revisions_are_not_found() -> None:
    handshake = initialized()
    assert error_of(handshake, "tasks/list") == (-32601, "Method not found")
    assert error_of(handshake, "subscriptions/listen") == (-32601, "Method not found")
    assert isinstance(ask(handshake, "vendor/own"), RequestRules)


def test_messages_that_the_server_may_send() -> None:
    ping, roots, elicit = (Request(1, method) for method in ("ping", "roots/list", "elicitation/create"))
    log, changed = Notification("notifications/message"), Notification("notifications/prompts/list_changed")
    handshake = server(versions=HANDSHAKE_VERSIONS)
    messages = (ping, roots, elicit, log, changed)
    assert [handshake.may_send(message) for message in messages] == [False] * 5
    ask(handshake, "initialize", {**INITIALIZE, "protocolVersion": "2025-03-26"})
    assert [handshake.may_send(message) for message in messages] == [True, False, False, True, False]
    handshake.receive_notification("notifications/initialized")
    assert [handshake.may_send(message) for message in messages] == [True, True, False, True, True]
    assert [server().may_send(message) for message in messages] == [False, False, False, True, True]


def test_a_modern_request_does_not_affect_the_next_one() -> None:
    handshake = server()
    context = ask(handshake, "prompts/list", {"_meta": {**META, "progressToken": "p", LOG_LEVEL_KEY: "info"}})
    assert isinstance(context, RequestRules)
    assert context.revision.version == "2026-07-28"
    assert context.client_capabilities.supports("elicitation.url")
    assert context.client_info == CLIENT
    assert (context.progress_token, context.log_level) == ("p", "info")
    # The session is still not initialized.
    assert error_of(handshake, "prompts/list") == (-32600, "the session is not initialized")


def test_modern_and_legacy_requests_on_one_stream() -> None:
    handshake = initialized()
    modern = ask(handshake, "prompts/list", {"_meta": META})
    legacy = ask(handshake, "prompts/list", {"_meta": {"progressToken": 5}})
    assert isinstance(modern, RequestRules)
    assert isinstance(legacy, RequestRules)
    assert (modern.revision.version, legacy.revision.version) == ("2026-07-28", "2025-06-18")
    assert legacy.progress_token == 5
    assert error_of(handshake, "ping", {"_meta": META}) == (-32601, "Method not found")
    assert error_of(handshake, "logging/setLevel", {"_meta": META}) == (-32601, "Method not found")
    assert isinstance(ask(handshake, "subscriptions/listen", {"_meta": META}), RequestRules)


def test_initialize_is_not_found_in_a_modern_request() -> None:
    handshake = server()
    assert isinstance(ask(handshake, "prompts/list", {"_meta": META}), RequestRules)
    assert error_of(handshake, "initialize", {**INITIALIZE, "_meta": META}) == (-32601, "Method not found")
    assert handshake.session is None
    # Other members of `_meta` do not make a request modern.
    reply = ask(handshake, "initialize", {**INITIALIZE, "_meta": {CLIENT_INFO_KEY: {}, "progressToken": 1}})
    assert isinstance(reply, dict)
    assert reply["protocolVersion"] == "2025-06-18"
    assert error_of(handshake, "initialize", {**INITIALIZE, "_meta": META}) == (-32601, "Method not found")
    assert error_of(server(versions=MODERN_VERSIONS), "initialize", {**INITIALIZE, "_meta": META})[0] == -32601
    meta = {**META, "io.modelcontextprotocol/protocolVersion": "1900-01-01"}
    assert error_of(handshake, "initialize", {**INITIALIZE, "_meta": meta})[0] == -32022
    # A server with legacy versions only ignores it.
    reply = ask(server(versions=HANDSHAKE_VERSIONS), "initialize", {**INITIALIZE, "_meta": META})
    assert isinstance(reply, dict)


def test_registered_methods_are_found_in_every_revision() -> None:
    handshake = server(methods={"tasks/get", "logging/setLevel", "vendor/x"})
    for method in ("tasks/get", "vendor/x"):
        assert error_of(handshake, method) == (-32600, "the session is not initialized")
        assert isinstance(ask(handshake, method, {"_meta": META}), RequestRules)
    assert error_of(handshake, "tasks/cancel", {"_meta": META})[0] == -32601
    ask(handshake, "initialize", INITIALIZE)
    assert isinstance(ask(handshake, "tasks/get"), RequestRules)
    assert error_of(handshake, "tasks/cancel")[0] == -32601


def test_raw_params() -> None:
    context = ask(server(), "prompts/list", Raw(json.dumps({"_meta": META})))
    assert isinstance(context, RequestRules)
    assert context.revision.is_modern


def test_discover(corpora: Path) -> None:
    reply = ask(
        server(instructions="Be kind.", cache_hints={"ttlMs": 5, "cacheScope": "public"}),
        "server/discover",
        {"_meta": META},
    )
    assert reply == {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"prompts": {"listChanged": True}, "completions": {}, "logging": {}},
        "instructions": "Be kind.",
        "ttlMs": 5,
        "cacheScope": "public",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "server", "version": "1", "title": "The server"}},
    }
    assert isinstance(reply, dict)
    schema_of(corpora, "2026-07-28", "DiscoverResult").validate(reply)


@rows(
    ("meta", "message"),
    [
        (None, "_meta lacks io.modelcontextprotocol/protocolVersion"),
        ([], "_meta lacks io.modelcontextprotocol/protocolVersion"),
        ({"protocolVersion": 5}, "io.modelcontextprotocol/protocolVersion must be a string of at most 64 characters"),
        ({"clientCapabilities": ...}, "io.modelcontextprotocol/clientCapabilities is missing"),
        (
            {"clientCapabilities": {"sampling": "SECRET"}},
            "io.modelcontextprotocol/clientCapabilities: /sampling must be an object",
        ),
        ({"clientInfo": {"name": "SECRET"}}, "io.modelcontextprotocol/clientInfo: /version is missing"),
        ({"logLevel": "SECRET"}, f"io.modelcontextprotocol/logLevel: level must be one of {', '.join(LOG_LEVELS)}"),
    ],
)
def test_invalid_meta(meta: Any, message: str) -> None:
    if isinstance(meta, dict):
        changes = {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()}
        meta = {name: value for name, value in {**META, **changes}.items() if value is not ...}
    assert error_of(server(), "server/discover", {"_meta": meta}) == (-32602, message)


def test_one_modern_member_of_meta_is_enough_to_be_modern() -> None:
    meta = {"io.modelcontextprotocol/clientCapabilities": {}}
    message = "_meta lacks io.modelcontextprotocol/protocolVersion"
    assert error_of(server(), "prompts/list", {"_meta": meta}) == (-32602, message)


@rows(
    ("requested", "versions", "supported"),
    [
        ("1900-01-01", RELEASED_VERSIONS, ["2026-07-28"]),
        ("2025-11-25", RELEASED_VERSIONS, ["2026-07-28"]),
        ("1900-01-01", MODERN_VERSIONS, ["2026-07-28"]),
    ],
)
def test_unsupported_version(corpora: Path, requested: str, versions: tuple[str, ...], supported: list[str]) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": requested}
    with pytest.raises(RpcError) as caught:
        ask(server(versions=versions), "prompts/list", {"_meta": meta})
    error = caught.value
    assert (error.code, error.data) == (-32022, {"supported": supported, "requested": requested})
    discovered = ask(server(versions=versions), "server/discover", {"_meta": META})
    assert isinstance(discovered, dict)
    assert discovered["supportedVersions"] == supported
    whole = {"jsonrpc": "2.0", "id": 1, "error": {"code": error.code, "message": error.message, "data": error.data}}
    schema_of(corpora, "2026-07-28", "UnsupportedProtocolVersionError").validate(whole)


def test_a_server_with_modern_versions_only() -> None:
    handshake = server(versions=MODERN_VERSIONS)
    with pytest.raises(RpcError) as caught:
        ask(handshake, "initialize", INITIALIZE)
    assert (caught.value.code, caught.value.data) == (-32022, {"supported": ["2026-07-28"], "requested": "2025-06-18"})
    assert error_of(handshake, "prompts/list")[0] == -32602
    assert isinstance(ask(handshake, "prompts/list", {"_meta": META}), RequestRules)


def test_a_server_with_legacy_versions_only() -> None:
    handshake = server(versions=HANDSHAKE_VERSIONS)
    assert error_of(handshake, "server/discover", {"_meta": META}) == (-32601, "Method not found")
    assert not handshake.receive_notification("notifications/cancelled")
    assert isinstance(ask(handshake, "initialize", INITIALIZE), dict)
    context = ask(handshake, "prompts/list", {"_meta": META})
    assert isinstance(context, RequestRules)
    assert context.revision.version == "2025-06-18"


def test_required_capability(corpora: Path) -> None:
    modern = ask(server(), "prompts/list", {"_meta": META})
    assert isinstance(modern, RequestRules)
    modern.require("elicitation.url")
    with pytest.raises(RpcError) as caught:
        modern.require("sampling.tools")
    error = caught.value
    assert (error.code, error.data) == (-32021, {"requiredCapabilities": {"sampling": {"tools": {}}}})
    whole = {"jsonrpc": "2.0", "id": 1, "error": {"code": error.code, "message": error.message, "data": error.data}}
    schema_of(corpora, "2026-07-28", "MissingRequiredClientCapabilityError").validate(whole)
    legacy = ask(initialized(), "prompts/list")
    assert isinstance(legacy, RequestRules)
    with pytest.raises(RpcError) as caught:
        legacy.require("sampling")
    assert caught.value.code == -32600


def test_complete_adds_the_members_of_the_revision() -> None:
    handshake = server(cache_hints={"ttlMs": 7, "cacheScope": "private"})
    modern, legacy = ask(handshake, "prompts/list", {"_meta": META}), ask(initialized(), "prompts/list")
    assert isinstance(modern, RequestRules)
    assert isinstance(legacy, RequestRules)
    info = {"io.modelcontextprotocol/serverInfo": SERVER.to_dict()}
    assert handshake.complete(modern.revision, "prompts/list", {"prompts": [], "_meta": {"a": 1}}) == {
        "resultType": "complete",
        "ttlMs": 7,
        "cacheScope": "private",
        "prompts": [],
        "_meta": {"a": 1, **info},
    }
    assert handshake.complete(modern.revision, "tools/call", {"content": []}) == {
        "resultType": "complete",
        "content": [],
        "_meta": info,
    }
    required = {"resultType": "input_required", "requestState": "x"}
    assert handshake.complete(modern.revision, "resources/read", required) == {**required, "_meta": info}
    assert handshake.complete(legacy.revision, "prompts/list", {"prompts": [], "ttlMs": 1, "resultType": "x"}) == {
        "prompts": []
    }


def test_official_requests_are_served(corpora: Path) -> None:
    """Each request in the examples of the specification, with the handshake of its revision."""
    served = 0
    for line in (corpora / "mcp/spec_messages.ndjson").read_text().splitlines():
        entry = json.loads(line)
        message = json.loads(entry["raw"])
        if not isinstance(message, dict) or not {"id", "method"} <= message.keys():
            continue
        version, method = entry["version"], message["method"]
        if method not in REVISIONS[version].client_requests or method == "initialize":
            continue
        if REVISIONS[version].is_modern:  # some examples omit it
            params = message.setdefault("params", {})
            params["_meta"] = {**META, **params.get("_meta", {})}
        handshake = server() if REVISIONS[version].is_modern else initialized(protocolVersion=version)
        decision = ask(handshake, method, message.get("params"))
        if isinstance(decision, RequestRules):
            assert decision.revision.version == version
        else:
            assert method in ("ping", "server/discover")
        served += 1
    assert served > 30


def test_wire_of_another_client(corpora: Path) -> None:
    lines = (corpora / "wire/mcp-python-sdk-2.3.0-client-2026-07-28.ndjson").read_text().splitlines()
    handshake = server()
    for line in lines:
        message = json.loads(line)
        if "id" in message:
            context = ask(handshake, message["method"], message["params"])
            assert isinstance(context, RequestRules)
            assert context.client_info == Implementation(name="py-client", version="1.0.0")
            assert context.client_capabilities.supports("roots.listChanged")


def test_completed_results_match_the_schema(corpora: Path) -> None:
    handshake = server()
    context = ask(handshake, "prompts/list", {"_meta": META})
    assert isinstance(context, RequestRules)
    for method, name, result in (
        ("prompts/list", "ListPromptsResult", {"prompts": []}),
        ("resources/read", "ReadResourceResult", {"contents": []}),
        ("tools/call", "CallToolResult", {"content": []}),
        ("completion/complete", "CompleteResult", {"completion": {"values": []}}),
    ):
        schema: jsonschema_rs.Validator = schema_of(corpora, "2026-07-28", name)
        schema.validate(handshake.complete(context.revision, method, result))


def test_the_info_of_a_result_belongs_to_the_caller() -> None:
    handshake, revision = server(), REVISIONS["2026-07-28"]
    first = handshake.complete(revision, "tools/call", {"content": []})
    first["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] = "changed"
    second = handshake.complete(revision, "tools/call", {"content": []})
    info = {"name": "server", "version": "1", "title": "The server"}
    assert second["_meta"] == {"io.modelcontextprotocol/serverInfo": info}


def test_each_request_has_the_info_of_its_own_client() -> None:
    infos: list[dict[str, Any]] = [
        {"name": "a", "version": "1"},
        {"version": "1", "name": "a"},
        {"name": "b", "version": "1"},
        {"name": "a", "version": "1", "own": True},
        {"name": "a", "version": "1", "own": 1},
        {"name": "a" * 300, "version": "1"},
    ]
    capabilities: list[dict[str, Any]] = [{}, {"own": {}}, {"roots": {}}]
    handshake = server()
    for _ in range(2):
        for info in infos:
            for declared in capabilities:
                meta = {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": info,
                    "io.modelcontextprotocol/clientCapabilities": declared,
                }
                rules = ask(handshake, "tools/list", {"_meta": meta})
                assert isinstance(rules, RequestRules)
                assert rules.client_info is not None
                assert json.dumps(rules.client_info.to_dict()) == json.dumps(info)
                assert json.dumps(rules.client_capabilities.to_dict()) == json.dumps(declared)
    for wrong in ({"name": "a", "versions": "1"}, {"name": 1, "version": "1"}):
        code, _ = error_of(handshake, "tools/list", {"_meta": {**META, "io.modelcontextprotocol/clientInfo": wrong}})
        assert code == -32602
