"""Bearer tokens: who gets access, what others are told, and who owns a session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from jsonrpc_fast.http import Refusal
from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.mcp.http.authorization import Authorization
from jsonrpc_fast.mcp.server import Context, Server
from jsonrpc_fast.mcp.server.registry import scopes_of

from ...support.failing import FAILING
from ...support.mcp_conversation import answered
from ...support.mcp_http import Exchange, Gate, begin, body_of, call, client_of, initialize, modern, request
from ...support.tables import rows

RESOURCE = "https://example.org/mcp"
ISSUER = "https://login.example.org"
METADATA = "https://example.org/.well-known/oauth-protected-resource/mcp"
CHALLENGE = f'resource_metadata="{METADATA}", scope="read"'
USERS: Mapping[str, Any] = {
    "anna": {"sub": "anna", "scope": "read write"},
    "anna2": {"sub": "anna", "scope": "read write", "exp": 2},
    "bert": {"sub": "bert", "scope": "read"},
    "client": {"client_id": "client", "scp": ["read"]},
    "object": SimpleNamespace(scopes=["read"]),
}


def check(token: str) -> Any:
    if token == "error":
        raise ValueError("the signature is wrong")
    if token == "away":
        raise Refusal(503, "The authorization server cannot be reached.")
    return USERS.get(token)


async def check_later(token: str) -> Any:
    return check(token)


def authorization(**options: Any) -> Authorization:
    return Authorization(
        options.pop("check", check),
        resource=RESOURCE,
        authorization_servers=[ISSUER],
        **{"scopes": ["read"], **options},
    )


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@rows(
    ("header", "status", "challenge"),
    [
        (None, 401, f'Bearer resource_metadata="{METADATA}", scope="read"'),
        ("", 401, f'Bearer resource_metadata="{METADATA}", scope="read"'),
        ("Basic YTpi", 401, f'Bearer resource_metadata="{METADATA}", scope="read"'),
        ("Bearer", 401, f'Bearer resource_metadata="{METADATA}", scope="read"'),
        (
            "Bearer nobody",
            401,
            f'Bearer error="invalid_token", error_description="The token is not valid.", {CHALLENGE}',
        ),
        ("Bearer error", 500, None),
        ("Bearer a b", 400, None),
        ('Bearer a"b', 400, None),
        ("Bearer " + "a" * 20000, 400, None),
        ("Bearer away", 503, None),
        ("Bearer anna", 200, None),
        ("bearer anna", 200, None),
    ],
)
@rows("function", [check, check_later])
@pytest.mark.ci
async def test_who_gets_in(header: str | None, status: int, challenge: str | None, function: Any) -> None:
    app = McpEndpoint(Gate().server, authorization=authorization(check=function))
    async with client_of(app) as client:
        headers = {} if header is None else {"authorization": header}
        answer = await client.post("/mcp", json=initialize(), headers=headers)
        assert answer.status_code == status
        assert ("www-authenticate" in answer.headers) is (status in (400, 401))
        if challenge is not None:
            assert answer.headers["www-authenticate"] == challenge
        for method in ("GET", "DELETE"):
            answer = await client.request(method, "/mcp", headers=headers)
            assert answer.status_code == (400 if status == 200 else status)


async def test_a_missing_scope_is_named() -> None:
    app = McpEndpoint(Gate().server, authorization=authorization(scopes=["read", "write"]))
    async with client_of(app) as client:
        answer = await client.post("/mcp", json=initialize(), headers=bearer("bert"))
        assert (answer.status_code, answer.text) == (403, "The token lacks a scope.\n")
        assert answer.headers["www-authenticate"] == (
            'Bearer error="insufficient_scope", error_description="The token lacks a scope.", '
            f'resource_metadata="{METADATA}", scope="read write"'
        )


async def test_a_message_may_need_more_scopes() -> None:
    def scopes(method: str, name: str | None) -> list[str]:
        return ["read", "write"] if (method, name) == ("tools/call", "add") else ["read"]

    app = McpEndpoint(Gate().server, authorization=authorization(scopes=scopes))
    async with client_of(app) as client:
        client.headers.update(bearer("bert"))
        await begin(client)
        assert (await client.post("/mcp", json=call(1, "who"))).status_code == 200
        assert (await client.post("/mcp", json=call(1, "add", a=1, b=2))).status_code == 403
        client.headers.update(bearer("anna"))
        await begin(client)
        assert (await client.post("/mcp", json=call(1, "add", a=1, b=2))).status_code == 200


async def test_a_session_belongs_to_its_subject() -> None:
    app = McpEndpoint(Gate().server, authorization=authorization())
    async with client_of(app) as client:
        client.headers.update(bearer("anna"))
        id = await begin(client)
        assert (await client.post("/mcp", json=request(1, "ping"), headers=bearer("anna2"))).status_code == 200
        for token in ("bert", "client", "object"):
            for method in ("POST", "GET", "DELETE"):
                body = request(1, "ping") if method == "POST" else None
                answer = await client.request(method, "/mcp", json=body, headers=bearer(token))
                assert (answer.status_code, answer.text) == (404, "There is no session with this id.\n")
        answer = await client.post("/mcp", json=call(1, "count", to=2))
        event_id = answer.text.split("id: ")[1].split("\n")[0]
        assert event_id.startswith(id)
        resume = {"last-event-id": event_id}
        assert (await client.get("/mcp", headers={**resume, **bearer("bert")})).status_code == 404
        assert (await client.get("/mcp", headers=resume)).status_code == 200


async def test_the_state_of_a_request_in_several_rounds_belongs_to_its_subject() -> None:
    server = Server("asking", "1")

    @server.tool
    async def ask(context: Context) -> str:
        await context.list_roots()
        return f"for {context.claims['sub']}"

    capabilities = {"io.modelcontextprotocol/clientCapabilities": {"roots": {}}}
    async with client_of(McpEndpoint(server, authorization=authorization())) as client:

        async def ask_as(token: str, **members: Any) -> Any:
            message = request(1, "tools/call", name="ask", _meta=capabilities, **members)
            return (await client.post("/mcp", **modern(message, authorization=f"Bearer {token}"))).json()

        given = answered((await ask_as("anna"))["result"], {"roots": []})
        assert (await ask_as("bert", **given))["error"]["code"] == -32602
        assert (await ask_as("anna2", **given))["result"]["structuredContent"] == {"result": "for anna"}


async def test_functions_get_the_claims_of_their_own_request() -> None:
    app = McpEndpoint(Gate().server, authorization=authorization())
    async with client_of(app) as client:
        client.headers.update(bearer("anna"))
        await begin(client)
        for token in ("anna", "anna2"):
            answer = await client.post("/mcp", json=call(1, "who"), headers=bearer(token))
            assert answer.json()["result"]["structuredContent"] == {"claims": USERS[token], "path": "/mcp"}
        answer = await client.post("/mcp", **modern(call(1, "who"), authorization="Bearer bert"))
        assert answer.json()["result"]["structuredContent"] == {"claims": USERS["bert"], "path": "/mcp"}


async def test_without_authorization_there_are_no_claims() -> None:
    async with client_of(McpEndpoint(Gate().server)) as client:
        answer = await client.post("/mcp", **modern(call(1, "who")))
        assert answer.json()["result"]["structuredContent"] == {"claims": None, "path": "/mcp"}
        assert (await client.get("/.well-known/oauth-protected-resource")).status_code == 404


async def test_anybody_may_read_the_metadata() -> None:
    app = McpEndpoint(Gate().server, authorization=authorization(metadata={"resource_name": "Sums"}))
    async with client_of(app) as client:
        for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
            answer = await client.get(path, headers={"origin": "https://example.com"})
            assert answer.json() == {
                "resource": RESOURCE,
                "authorization_servers": [ISSUER],
                "bearer_methods_supported": ["header"],
                "scopes_supported": ["read"],
                "resource_name": "Sums",
            }
            assert answer.headers["access-control-allow-origin"] == "*"
            assert (await client.head(path)).content == b""
            answer = await client.post(path)
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


@rows(
    ("options", "error"),
    [
        ({"resource": "example.org"}, ValueError),
        ({"resource": "https://example.org/mcp#a"}, ValueError),
        ({"authorization_servers": []}, ValueError),
        ({"authorization_servers": ISSUER}, TypeError),
        ({"scopes": "read"}, TypeError),
        ({"check": None}, TypeError),
        ({"subject": "sub"}, TypeError),
        ({"scopes": [1]}, TypeError),
    ],
)
def test_an_invalid_argument_is_refused(options: dict[str, Any], error: type[Exception]) -> None:
    arguments: dict[str, Any] = {"check": check, "resource": RESOURCE, "authorization_servers": [ISSUER], **options}
    with pytest.raises(error):
        Authorization(**arguments)


@rows(
    ("claims", "scopes"),
    [
        ({"scope": "a b"}, {"a", "b"}),
        ({"scope": " a  b "}, {"a", "b"}),
        ({"scope": "a\tb\u00a0c"}, {"a\tb\u00a0c"}),  # only a blank separates scopes
        ({"scp": ["a"]}, {"a"}),
        ({"scopes": ("a",)}, {"a"}),
        ({"scope": None}, set()),
        ({}, set()),
        (True, set()),
        (SimpleNamespace(scopes=["a"]), {"a"}),
    ],
)
def test_scopes_of(claims: Any, scopes: set[str]) -> None:
    assert scopes_of(claims) == scopes


@rows("claims", [{"scope": {"read": False}}, {"scope": 5}, {"scp": ["read", 1]}, {"scopes": [["read"]]}], ids=str)
@rows("scopes", [["read"], []], ids=str)
async def test_scopes_of_another_type_let_nobody_in(
    claims: Any, scopes: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    app = McpEndpoint(Gate().server, authorization=authorization(check=lambda token: claims, scopes=scopes))
    async with client_of(app) as client:
        assert (await client.post("/mcp", json=initialize(), headers=bearer("x"))).status_code == 500
    assert f"{next(iter(claims))} of the claims must be several strings" in caplog.text


@rows("claims", [None, False, "", 0, b"", []])
async def test_an_empty_result_of_the_check_lets_nobody_in(claims: Any) -> None:
    app = McpEndpoint(Gate().server, authorization=authorization(check=lambda token: claims, scopes=[]))
    async with client_of(app) as client:
        assert (await client.post("/mcp", json=initialize(), headers=bearer("x"))).status_code == 401


async def test_a_check_that_hangs_is_ended() -> None:
    ended = []

    async def hang(token: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(token)

    app = McpEndpoint(Gate().server, authorization=authorization(check=hang, check_seconds=0.05))
    async with client_of(app) as client:
        answer = await client.post("/mcp", json=initialize(), headers=bearer("x"))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert ended == ["x"]


class Claims:
    @property
    def scope(self) -> str:
        raise ValueError("no such claim in secret-token")


class NoTruth:
    def __bool__(self) -> bool:
        raise ValueError("neither")


async def awaits_nothing(*arguments: Any) -> Any:
    return check_later("anna")


async def yields(*arguments: Any) -> Any:
    yield "read"


def later(function: Any) -> Any:
    async def call_later(*arguments: Any) -> Any:
        await asyncio.sleep(0)
        return function(*arguments)

    return call_later


UNCHECKED = "The token cannot be checked.\n"
UNREADABLE = "The rights of the token could not be determined.\n"


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@rows(
    ("option", "function", "text"),
    [
        *[("check", function, UNCHECKED) for function in FAILING],
        *[("subject", function, UNREADABLE) for function in FAILING],
        *[("scopes", function, UNREADABLE) for function in FAILING],
        ("check", lambda token: Future(), UNCHECKED),
        ("check", lambda token: (token for _ in ()), UNCHECKED),
        ("check", lambda token: NoTruth(), UNCHECKED),
        ("check", awaits_nothing, UNCHECKED),
        ("check", yields, UNCHECKED),
        ("check", lambda token: Claims(), UNREADABLE),
        ("subject", lambda claims: object(), UNREADABLE),
        ("scopes", lambda method, name: None, UNREADABLE),
        ("scopes", lambda method, name: [1], UNREADABLE),
        ("scopes", lambda method, name: "read", UNREADABLE),
        ("scopes", later(lambda method, name: "read"), UNREADABLE),
        ("scopes", yields, UNREADABLE),
    ],
)
@pytest.mark.ci
async def test_a_function_that_fails_gives_500_and_is_logged_once(
    option: str, function: Any, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = McpEndpoint(
        Gate().server, authorization=authorization(**{"check": lambda token: USERS["anna"], option: function})
    )
    exchange = Exchange(app, initialize(), headers=bearer("secret-token"))
    await asyncio.wait_for(exchange.events(), 20)
    assert (exchange.sent[0]["status"], body_of(exchange.sent).decode()) == (500, text)
    assert b"www-authenticate" not in dict(exchange.sent[0]["headers"])
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "the check of a bearer token failed\nTraceback" in caplog.text
    assert option == "scopes" or "secret-token" not in caplog.text


async def test_the_cancellation_of_a_request_passes_through_the_check(caplog: pytest.LogCaptureFixture) -> None:
    entered = asyncio.Event()

    async def wait(token: str) -> None:
        entered.set()
        await asyncio.Event().wait()

    app = McpEndpoint(Gate().server, authorization=authorization(check=wait))
    running = asyncio.create_task(Exchange(app, initialize(), headers=bearer("anna")).events())
    await asyncio.wait_for(entered.wait(), 20)
    running.cancel()
    await asyncio.wait([running], timeout=20)
    assert running.cancelled()
    assert caplog.records == []


async def test_every_function_may_be_async() -> None:
    app = McpEndpoint(
        Gate().server,
        authorization=authorization(
            check=check_later,
            subject=later(lambda claims: claims["sub"]),
            scopes=later(lambda method, name: ["write"] if name == "add" else ["read"]),
        ),
    )
    async with client_of(app) as client:
        client.headers.update(bearer("anna"))
        await begin(client)
        assert (await client.post("/mcp", json=call(1, "add", a=1, b=2))).status_code == 200
        assert (await client.post("/mcp", json=request(1, "ping"), headers=bearer("bert"))).status_code == 404
        assert (await client.post("/mcp", json=call(1, "add", a=1, b=2), headers=bearer("bert"))).status_code == 403


@pytest.mark.virtual_time
@rows("option", ["subject", "scopes"])
async def test_every_async_function_is_ended(option: str) -> None:
    async def hang(*arguments: Any) -> None:
        await asyncio.Event().wait()

    app = McpEndpoint(Gate().server, authorization=authorization(check_seconds=0.05, **{option: hang}))
    start, _ = await Exchange(app, initialize(), headers=bearer("anna")).events()
    assert start["status"] == 503


async def test_clients_without_a_subject_share_no_session() -> None:
    options = {"check": lambda token: USERS["anna"], "subject": lambda claims: claims.get("uid")}
    app = McpEndpoint(Gate().server, authorization=authorization(**options))
    async with client_of(app) as client:
        client.headers.update(bearer("one"))
        await begin(client)
        assert (await client.post("/mcp", json=request(1, "ping"))).status_code == 200
        assert (await client.post("/mcp", json=request(1, "ping"), headers=bearer("two"))).status_code == 404


async def test_the_log_does_not_show_the_token(caplog: pytest.LogCaptureFixture) -> None:
    app = McpEndpoint(Gate().server, authorization=authorization(check=lambda token: USERS[token]))
    with caplog.at_level(logging.WARNING):
        async with client_of(app) as client:
            answer = await client.post("/mcp", json=initialize(), headers=bearer("nearly-valid"))
            assert (answer.status_code, answer.text) == (500, "The token cannot be checked.\n")
    assert "KeyError: '[the token]'" in caplog.text
    assert "nearly-valid" not in caplog.text


@rows("name", ['a", resource_metadata="https://evil.example', "\u65e5", "a\r\nx-evil: 1", "a\\", ""])
async def test_the_challenge_names_only_valid_scopes(name: str) -> None:
    def scopes(method: str, called: str | None) -> list[str]:
        return ["write", called or " "]

    app = McpEndpoint(Gate().server, authorization=authorization(scopes=scopes))
    async with client_of(app) as client:
        answer = await client.post("/mcp", json=call(1, name), headers=bearer("bert"))
        assert answer.status_code == 403
        assert answer.headers["www-authenticate"].endswith(f'resource_metadata="{METADATA}", scope="write"')
        assert "x-evil" not in answer.headers
