"""The client's side of the handshake, message by message, and both sides together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import Notification
from jsonrpc_fast.errors import CallTimeout, HandshakeError, RpcError
from jsonrpc_fast.mcp.client.handshake import PROBE_SECONDS, ClientHandshake, SendRequest, Step
from jsonrpc_fast.mcp.protocol.capabilities import ClientCapabilities, Implementation, ServerCapabilities
from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS
from jsonrpc_fast.mcp.server.handshake import RequestRules, ServerHandshake

from ...support.mcp_revisions import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from ...support.mcp_schemas import schema_of
from ...support.tables import rows

SERVER = Implementation(name="server", version="1", title="The server")

CLIENT = Implementation(name="client", version="2")

OFFERS = ServerCapabilities.from_dict({"prompts": {"listChanged": True}, "completions": {}, "logging": {}})

CAN = ClientCapabilities.from_dict({"roots": {"listChanged": True}, "elicitation": {}})


def client(mode: Any = "auto", probe_seconds: float | None = PROBE_SECONDS) -> ClientHandshake:
    return ClientHandshake(CLIENT, CAN, mode, probe_seconds)


INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "server", "version": "1"},
    "instructions": "Be kind.",
}

DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "server", "version": "1"}},
    "ttlMs": 0,
    "cacheScope": "private",
}


def unsupported(*supported: str) -> RpcError:
    return RpcError(-32022, "Unsupported protocol version", {"supported": list(supported), "requested": "2026-07-28"})


def test_legacy_client(corpora: Path) -> None:
    handshake = client("legacy")
    call = handshake.start()
    assert call == SendRequest(
        "initialize",
        {
            "protocolVersion": "2025-11-25",
            "capabilities": {"roots": {"listChanged": True}, "elicitation": {}},
            "clientInfo": {"name": "client", "version": "2"},
        },
    )
    schema_of(corpora, "2025-11-25", "InitializeRequestParams").validate(call.params)
    assert handshake.server is None
    assert handshake.succeeded(INITIALIZED) == Notification("notifications/initialized")
    server = handshake.server
    assert server is not None
    assert (server.revision.version, server.instructions) == ("2025-11-25", "Be kind.")
    assert server.capabilities.supports("tools")
    assert server.info == Implementation(name="server", version="1")
    assert server.params() is None
    assert server.params({"a": 1}) == {"a": 1}
    assert server.params({"a": 1}, progressToken=3) == {"a": 1, "_meta": {"progressToken": 3}}


def test_a_client_with_one_version() -> None:
    handshake = client("2025-03-26")
    assert handshake.start().params["protocolVersion"] == "2025-03-26"
    with pytest.raises(HandshakeError):
        handshake.succeeded({**INITIALIZED, "protocolVersion": "2024-11-05"})
    with pytest.raises(ValueError, match="mode must be"):
        client("new")


@rows(
    ("result", "text"),
    [
        ({**INITIALIZED, "protocolVersion": "2026-07-28"}, "chose a version that this client does not support"),
        ({**INITIALIZED, "protocolVersion": 5}, "chose a version that this client does not support"),
        ([], "chose a version that this client does not support"),
        ({**INITIALIZED, "capabilities": 1}, "/capabilities must be an object"),
        ({**INITIALIZED, "serverInfo": {}}, "/serverInfo/name is missing"),
    ],
)
def test_an_unusable_result_of_initialize_fails(result: Any, text: str) -> None:
    handshake = client("legacy")
    handshake.start()
    with pytest.raises(HandshakeError, match=text):
        handshake.succeeded(result)
    assert handshake.server is None


def test_a_probe_leaves_time_for_the_handshake() -> None:
    probe, other = SendRequest("server/discover", {}, 10.0, is_probe=True), SendRequest("initialize", {})
    patient = SendRequest("server/discover", {}, None, is_probe=True)  # over HTTP, where a person may have to log in
    cases = [
        (probe, None, 10.0),
        (probe, 300.0, 10.0),
        (probe, 15.0, 7.5),
        (probe, 3.0, 1.5),
        (patient, None, None),
        (patient, 300.0, 290.0),
        (patient, 3.0, 1.5),
        (other, None, None),
        (other, 3.0, 3.0),
    ]
    assert [(step, left, step.seconds(left)) for step, left, _ in cases] == cases


def test_modern_client(corpora: Path) -> None:
    handshake = client("modern")
    call = handshake.start()
    assert (call.method, call.timeout_seconds) == ("server/discover", None)
    schema_of(corpora, "2026-07-28", "RequestParams").validate(call.params)
    assert handshake.succeeded(DISCOVERED) is None
    server = handshake.server
    assert server is not None
    params = server.params({"name": "x", "_meta": {"mine": 1}}, progressToken=3)
    assert params == {
        "name": "x",
        "_meta": {
            "mine": 1,
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "2"},
            "io.modelcontextprotocol/clientCapabilities": {"roots": {}, "elicitation": {}},
            "progressToken": 3,
        },
    }
    schema_of(corpora, "2026-07-28", "CallToolRequestParams").validate(params)
    assert client("modern").start() == call


@rows("error", [RpcError(-32601, "no"), unsupported("2099-01-01"), CallTimeout()])
def test_a_modern_client_does_not_fall_back(error: Any) -> None:
    handshake = client("modern")
    handshake.start()
    with pytest.raises(HandshakeError) as caught:
        handshake.failed(error)
    assert caught.value.__cause__ is error


@rows(
    "error",
    [
        RpcError(-32601, "Method not found"),
        RpcError(-32602, "Invalid request parameters", ""),
        RpcError(-32600, "the session is not initialized"),
        RpcError(-32020, "Header mismatch"),
        RpcError(-32022, "no data"),
        RpcError(-32022, "bad data", {"supported": "2026-07-28"}),
        unsupported("2025-11-25", "2024-11-05"),
        CallTimeout(),
    ],
)
def test_auto_falls_back(error: Any) -> None:
    handshake = client()
    assert handshake.start().method == "server/discover"
    call = handshake.failed(error)
    assert isinstance(call, SendRequest)
    assert call.method == "initialize"
    assert isinstance(handshake.succeeded(INITIALIZED), Notification)


@rows(
    "result",
    [
        {},
        {**DISCOVERED, "supportedVersions": ["2025-11-25"]},
        {**DISCOVERED, "supportedVersions": [1]},
        {**DISCOVERED, "capabilities": []},
    ],
)
def test_auto_falls_back_after_an_unusable_result_of_discover(result: Any) -> None:
    handshake = client()
    handshake.start()
    call = handshake.succeeded(result)
    assert isinstance(call, SendRequest)
    assert call.method == "initialize"
    handshake = client("modern")
    handshake.start()
    with pytest.raises(HandshakeError):
        handshake.succeeded(result)


def test_auto_tries_a_common_version_once() -> None:
    handshake = client()
    first = handshake.start()
    assert handshake.failed(unsupported("2099-01-01", "2026-07-28")) == first
    call = handshake.failed(unsupported("2026-07-28", "2025-11-25"))
    assert isinstance(call, SendRequest)
    assert call.method == "initialize"


def test_auto_fails_without_a_common_version() -> None:
    handshake = client()
    handshake.start()
    with pytest.raises(HandshakeError, match="the server and this client support no common version"):
        handshake.failed(unsupported("2099-01-01"))


def test_auto_and_a_slow_modern_server() -> None:
    handshake = client()
    handshake.start()
    handshake.failed(CallTimeout())
    call = handshake.failed(unsupported("2026-07-28"))
    assert isinstance(call, SendRequest)
    assert call.method == "server/discover"
    assert handshake.succeeded(DISCOVERED) is None


def test_a_refused_initialize() -> None:
    handshake = client()
    handshake.start()
    handshake.failed(RpcError(-32601, "no"))
    with pytest.raises(HandshakeError, match=r"did not respond to initialize with a result: no licence \(-32603\)$"):
        handshake.failed(RpcError(-32603, "no licence"))


def test_server_info_is_optional() -> None:
    for meta in ({}, {"io.modelcontextprotocol/serverInfo": {"name": 5}}, 5):
        handshake = client()
        handshake.start()
        assert handshake.succeeded({**DISCOVERED, "_meta": meta}) is None
        assert handshake.server is not None
        assert handshake.server.info is None


def test_requests_of_the_server_before_and_after_the_handshake() -> None:
    handshake = client()
    handshake.start()
    assert handshake.receive_request("ping") == {}
    with pytest.raises(RpcError) as caught:
        handshake.receive_request("roots/list")
    assert caught.value.code == -32600
    handshake.succeeded(DISCOVERED)
    for method in ("ping", "roots/list", "sampling/createMessage"):
        with pytest.raises(RpcError) as caught:
            handshake.receive_request(method)
        assert caught.value.code == -32601
    handshake = client("legacy")
    handshake.start()
    handshake.succeeded(INITIALIZED)
    assert handshake.receive_request("ping") == {}
    assert handshake.receive_request("roots/list") is None


@pytest.mark.parametrize("mode", ["auto", "legacy", "modern"])
@rows("versions", [RELEASED_VERSIONS, HANDSHAKE_VERSIONS, MODERN_VERSIONS, ("2025-03-26",)])
def test_every_client_with_every_server(mode: str, versions: tuple[str, ...]) -> None:
    ours, theirs = (
        client(mode),
        ServerHandshake(SERVER, OFFERS, versions, None, {"ttlMs": 0, "cacheScope": "private"}, ()),
    )
    step: Step = ours.start()
    steps = 0
    try:
        while isinstance(step, SendRequest):
            steps += 1
            assert steps < 5
            try:
                answer = theirs.receive_request(step.method, step.params)
            except RpcError as error:
                step = ours.failed(error)
            else:
                assert isinstance(answer, dict)
                step = ours.succeeded(answer)
    except HandshakeError:
        assert (mode, versions) in [
            ("legacy", MODERN_VERSIONS),
            ("modern", HANDSHAKE_VERSIONS),
            ("modern", ("2025-03-26",)),
        ]
        return
    if step is not None:
        assert theirs.receive_notification(step.method)
    server = ours.server
    assert server is not None
    context = theirs.receive_request("prompts/list", server.params())
    assert isinstance(context, RequestRules)
    assert context.revision is server.revision
    assert server.revision.version in versions
    assert server.revision.is_modern is (mode != "legacy" and "2026-07-28" in versions)
