"""Sign-in with OAuth, against the authorization server of the SDK and an MCP server that verifies its tokens."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import importlib
import inspect
import json
import logging
import os
import runpy
import secrets
import socket
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

pytest.importorskip(
    "mcp.client.auth.extensions.identity_assertion", reason="the extra `mcp-client-oauth` is not installed"
)
pytest.importorskip("httpx2", reason="the extra `mcp-client-oauth` is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from jwt.algorithms import ECAlgorithm
from mcp.server.auth.provider import (
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from jsonrpc_fast import mcp
from jsonrpc_fast.errors import HttpStatusError, RpcError, SignInError
from jsonrpc_fast.mcp.client import oauth
from jsonrpc_fast.mcp.client.token_stores import FileStore, MemoryStore
from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.mcp.http.authorization import Authorization
from jsonrpc_fast.mcp.http.verifiers import JwtVerifier
from jsonrpc_fast.mcp.server import Context, Server

from ...support.asgi_servers import serving
from ...support.clock import moving_clock
from ...support.places import ROOT
from ...support.tables import rows

KEY = ec.generate_private_key(ec.SECP256R1())
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
RESOURCE = "/.well-known/oauth-protected-resource/mcp"
METADATA = "/.well-known/oauth-authorization-server"
OURS = ("mcp", "jsonrpc_fast")
SECRET = "s3cr3t-that-nobody-may-see"

pytestmark = pytest.mark.time_limit(1000)


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, Any]):
    """Admits everybody, as anna."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.refreshing: dict[str, RefreshToken] = {}
        self.grants: list[str] = []
        self.issued: set[str] = set()
        self.rotates = False

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info.model_copy(update={"scope": "read write"})

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = secrets.token_hex(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.pop(authorization_code, None)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        self.grants.append("code")
        return self.issue(authorization_code.scopes, authorization_code.resource, client.client_id)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self.refreshing.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        self.grants.append("refresh")
        if self.rotates:
            del self.refreshing[refresh_token.token]
        return self.issue(scopes, f"{self.base}/mcp", client.client_id)

    def issue(self, scopes: list[str], resource: str | None, client_id: str) -> OAuthToken:
        claims: dict[str, Any] = {"iss": f"{self.base}/", "aud": resource, "sub": "anna", "scope": " ".join(scopes)}
        claims.update(jti=secrets.token_hex(4), exp=int(time.time()) + 60)
        token = jwt.encode(claims, KEY, algorithm="ES256", headers={"kid": "1"})
        refresh = RefreshToken(token=secrets.token_hex(16), client_id=client_id, scopes=scopes)
        self.refreshing[refresh.token] = refresh
        self.issued.add(token)
        return OAuthToken(access_token=token, expires_in=60, scope=" ".join(scopes), refresh_token=refresh.token)


class World:
    """An authorization server, an MCP server, and a person with a browser, at one address.

    Attributes:
        url: The URL of the MCP server.
        answers: What is sent instead, by path: a response or a function that returns one.
        requests: The requests, as method and path.
        visits: How often the browser was opened.
        provider: The authorization server.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[str] = []
        self.visits = 0
        self.store: Any = MemoryStore()
        self.waiting = 0
        self.together = asyncio.Event()

    def open(self, base: str) -> None:
        self.base, self.url, self.issuer = base, f"{base}/mcp", f"{base}/"  # as pydantic writes it
        self.provider = Provider(base)
        registration = ClientRegistrationOptions(enabled=True, valid_scopes=["read", "write"], default_scopes=["read"])
        routes = create_auth_routes(self.provider, AnyHttpUrl(base), client_registration_options=registration)
        self.oauth = Starlette(routes=routes)
        server = Server("files", "1")

        @server.tool
        def read(context: Context) -> str:
            return str(context.claims["sub"])

        @server.tool(scopes=["write"])
        def write(context: Context) -> str:
            return str(context.claims["scope"])

        @server.tool
        async def meet() -> str:
            self.waiting += 1
            if self.waiting == 2:
                self.together.set()
            await self.together.wait()
            return "met"

        verifier = JwtVerifier(jwks_url=f"{base}/jwks.json", issuer=self.issuer, audience=self.url)
        authorization = Authorization(
            verifier, resource=self.url, authorization_servers=[self.issuer], scopes=["read"], scopes_supported=["read"]
        )
        self.mcp = McpEndpoint(server, authorization=authorization)
        key = {**json.loads(ECAlgorithm.to_jwk(KEY.public_key())), "kid": "1", "key_ops": ["verify"]}
        self.answers["/jwks.json"] = lambda: JSONResponse({"keys": [key]})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        self.requests.append(f"{scope.get('method')} {path}")
        answer = self.answers.get(path)
        if answer is not None:
            response = answer if isinstance(answer, Response) else answer(*([Request(scope, receive)] * _wants(answer)))
            if asyncio.iscoroutine(response):
                response = await response
            await response(scope, receive, send)
        elif path == "/mcp" or "protected-resource" in path or scope["type"] == "lifespan":
            await self.mcp(scope, receive, send)
        else:
            await self.oauth(scope, receive, send)

    def metadata(self, **changes: Any) -> JSONResponse:
        """Return the metadata of the authorization server with changes."""
        members = {
            "issuer": self.issuer,
            **{f"{name}_endpoint": f"{self.base}/{path}" for name, path in ENDPOINTS.items()},
            "code_challenge_methods_supported": ["S256"],
            **changes,
        }
        return JSONResponse({name: value for name, value in members.items() if value is not None})

    def at(self, path: str) -> Any:
        """Return what the authorization server serves at a path."""

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await self.oauth({**scope, "path": path, "raw_path": path.encode()}, receive, send)

        return app

    def visit(self, address: str) -> None:
        """Do what a person does whom the authorization server admits at once."""
        self.visits += 1
        httpx2.get(address, follow_redirects=True, timeout=10)

    def browser(self, **options: Any) -> Any:
        return oauth.browser(**{"store": self.store, "open_browser": self.visit, **options})

    def connect(self, auth: Any = None, **options: Any) -> Any:
        return mcp.connect(self.url, auth=self.browser() if auth is None else auth, **options)


ENDPOINTS = {"authorization": "authorize", "token": "token", "registration": "register"}


def _wants(answer: Callable[..., Any]) -> int:
    return len(inspect.signature(answer).parameters)


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[World]:
    made = World()
    async with serving(made, lifespan="off") as base:
        made.open(base)
        yield made


async def text_of(client: Any, tool: str) -> str:
    result = await client.call_tool(tool)
    return str(result["content"][0]["text"])


async def test_a_person_signs_in_once_and_the_tokens_are_kept(tmp_path: Path) -> None:
    async with world() as here:
        here.store = FileStore(tmp_path / "tokens")
        async with here.connect() as client:
            assert await text_of(client, "read") == "anna"
        async with here.connect() as client:  # as if the program ran again
            assert await text_of(client, "read") == "anna"
        assert here.visits == 1
        assert here.provider.grants == ["code"]
        assert here.requests.count("POST /register") == 1
        [kept] = (tmp_path / "tokens").iterdir()
        if os.name == "posix":
            assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)


async def test_a_call_that_needs_more_scopes_asks_the_person_for_them() -> None:
    async with world() as here, here.connect() as client:
        assert await text_of(client, "write") == "read write"
        assert here.visits == 2
        assert await text_of(client, "read") == "anna"
        assert here.visits == 2


async def test_an_expired_token_is_refreshed_without_the_person() -> None:
    async with world() as here:
        async with here.connect() as client:
            await text_of(client, "read")
        record = json.loads(await here.store.load(here.url))
        await here.store.save(here.url, json.dumps({**record, "until": 0}))
        async with here.connect() as client:
            assert await text_of(client, "read") == "anna"
        assert (here.visits, here.provider.grants) == (1, ["code", "refresh"])


@rows(
    ("status", "body", "text"),
    [
        (
            500,
            {"error": "server_error", "error_description": SECRET},
            "responded with the HTTP status 500: server_error",
        ),
        (503, SECRET, "HTTP status 503. Try again later$"),
        (400, {"error": "invalid_request"}, "HTTP status 400: invalid_request"),
        (429, {}, "HTTP status 429"),
        (200, SECRET, "HTTP status 200, but without a token that can be used. Try again later$"),
        (201, {"access_token": "a b", "token_type": "Bearer"}, "HTTP status 201, but without a token that can be used"),
    ],
    ids=str,
)
@pytest.mark.ci
async def test_a_refresh_that_fails_opens_no_browser(status: int, body: Any, text: str) -> None:
    async with world() as here:
        async with here.connect() as client:
            await text_of(client, "read")
        record = json.loads(await here.store.load(here.url))
        await here.store.save(here.url, json.dumps({**record, "until": 0}))
        here.answers["/token"] = JSONResponse(body, status)
        auth = here.browser()
        with pytest.raises(SignInError, match=f"^the token could not be refreshed: .* {text}"):
            await here.connect(auth).__aenter__()
        assert here.visits == 1
        del here.answers["/token"]
        async with here.connect(auth) as client:  # the next one is right
            assert await text_of(client, "read") == "anna"
        assert (here.visits, here.provider.grants) == (1, ["code", "refresh"])


@rows("kind", ["memory", "file"])
@pytest.mark.ci
async def test_two_clients_of_one_store_do_not_race(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, passed, ended = time.time, 0, set()

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        token = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        challenge = {"www-authenticate": f'Bearer resource_metadata="{here.base}{RESOURCE}"'}
        await (Response(None, 401, challenge) if token in ended else here.mcp)(scope, receive, send)

    async with world() as here:
        here.answers["/mcp"] = lambda: serve
        here.provider.rotates = True
        monkeypatch.setattr(time, "time", lambda: now() + passed)
        stores = (
            [FileStore(tmp_path / "tokens"), FileStore(tmp_path / "tokens")] if kind == "file" else [here.store] * 2
        )
        auths = [here.browser(store=store) for store in stores]
        async with here.connect(auths[0]) as one, here.connect(auths[1]) as two:
            assert await text_of(one, "read") == await text_of(two, "read") == "anna"
            for number in range(1, 3):
                passed = 100 * number
                ended |= here.provider.issued
                both = await asyncio.gather(text_of(one, "read"), text_of(two, "read"))
                assert both == ["anna", "anna"]
                assert (here.visits, here.provider.grants) == (1, ["code", *["refresh"] * number])


@rows(("named", "issuer"), [("/", ""), ("", "/"), ("/", "/"), ("", "")])
@pytest.mark.ci
async def test_an_issuer_may_end_in_a_slash(named: str, issuer: str) -> None:
    async with world() as here:
        servers = [f"{here.base}/login{named}"]
        here.answers[RESOURCE] = JSONResponse({"resource": here.url, "authorization_servers": servers})
        for place in (f"{METADATA}/login", f"{METADATA}/login/"):
            here.answers[place] = here.metadata(issuer=f"{here.base}/login{issuer}")

        def back_from(iss: str, address: str) -> None:
            back = httpx2.get(address, timeout=10).headers["location"]
            httpx2.get(f"{back}&{urlencode({'iss': iss})}", timeout=10)

        def browser(end: str) -> Any:
            return here.browser(store=MemoryStore(), open_browser=partial(back_from, f"{here.base}/login{end}"))

        async with here.connect(browser(issuer)) as client:
            assert await text_of(client, "read") == "anna"
        # RFC 9207 compares the very characters.
        with pytest.raises(SignInError, match="from an issuer other than the one requested"):
            await here.connect(browser("" if issuer else "/")).__aenter__()


async def test_a_token_that_was_revoked_leads_to_another_sign_in() -> None:
    async with world() as here:
        async with here.connect() as client:
            await text_of(client, "read")
        record = json.loads(await here.store.load(here.url))
        tokens = {"access_token": "revoked", "refresh_token": "revoked"}
        await here.store.save(here.url, json.dumps({**record, "tokens": tokens}))
        async with here.connect() as client:
            assert await text_of(client, "read") == "anna"
        assert here.visits == 2


@rows(
    "record",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        "\ud800",
        '{"tokens": 5, "client": {}, "until": "soon"}',
        '{"tokens": {}}',
        '{"tokens": {"access_token": "a\\r\\nb"}}',
        '{"tokens": {"access_token": "a", "refresh_token": "b"}, "until": 1e308}',
        '{"tokens": {"access_token": "a"}, "until": -1e308, "key": "no key", "port": 99999}',
    ],
)
@pytest.mark.ci
async def test_a_record_that_is_broken_is_replaced(record: str) -> None:
    async with world() as here:
        await here.store.save(here.url, record)
        async with here.connect() as client:
            assert await text_of(client, "read") == "anna"


@rows("redirect_uris", [None, ["http://127.0.0.1:22/callback"], ["https://example.org/callback"]], ids=str)
@pytest.mark.ci
async def test_a_client_keeps_the_port_that_it_registered_whatever_the_server_says(redirect_uris: Any) -> None:
    async def register(request: Request) -> Response:
        client = OAuthClientInformationFull(**await request.json(), client_id="c", token_endpoint_auth_method="none")
        here.provider.clients["c"] = client.model_copy(update={"scope": "read write"})
        return JSONResponse({"client_id": "c", "redirect_uris": redirect_uris}, 201)

    async with world() as here:
        here.answers["/register"] = register
        async with here.connect() as client:
            await text_of(client, "read")
        record = json.loads(await here.store.load(here.url))
        await here.store.save(here.url, json.dumps({**record, "tokens": None}))
        async with here.connect() as client:
            assert await text_of(client, "read") == "anna"
        assert (here.visits, here.requests.count("POST /register")) == (2, 1)


@rows("query", ["policy=a%20b", "state=evil&policy=a%20b"])
async def test_an_address_that_has_a_query_keeps_it(query: str) -> None:
    def authorize(request: Request) -> Any:
        parameters = list(request.query_params.multi_items())
        policies.append(request.query_params["policy"])
        assert f"?{query}&response_type=code&" in str(request.url)
        clean = {name: value for name, value in parameters if name != "policy" and value != "evil"}
        return RedirectResponse(f"{here.base}/authorize2?{urlencode(clean)}")

    policies: list[str] = []
    async with world() as here:
        here.answers[METADATA] = here.metadata(authorization_endpoint=f"{here.base}/authorize?{query}")
        here.answers["/authorize"] = authorize
        here.answers["/authorize2"] = lambda: here.at("/authorize")
        async with here.connect() as client:
            assert await text_of(client, "read") == "anna"
    assert policies == ["a b"]


async def test_requests_share_a_sign_in_and_do_not_wait_for_each_other() -> None:
    async with world() as here, here.connect() as client:
        assert await asyncio.gather(*[text_of(client, "meet") for _ in range(2)]) == ["met", "met"]
        assert here.visits == 1


async def test_a_person_who_does_not_come_back_is_waited_for_until_a_limit_with_a_name() -> None:
    async with world() as here:
        auth = here.browser(open_browser=lambda address: None, sign_in_seconds=0.3)
        with pytest.raises(SignInError, match=r"not finished within 0\.3 s \(sign_in_seconds\)"):
            await here.connect(auth).__aenter__()


async def test_an_address_that_no_browser_opens_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as here:

        def elsewhere(address: str) -> bool:
            here.visit(address)
            return False

        async with here.connect(here.browser(open_browser=elsewhere)) as client:
            assert await text_of(client, "read") == "anna"
    assert f"Open this address to sign in:\n{here.base}/authorize?" in capsys.readouterr().err


@pytest.mark.ci
async def test_a_redirect_that_is_not_ours_changes_nothing() -> None:
    statuses: list[int] = []

    def attacked(address: str) -> None:
        query = parse_qs(urlsplit(address).query)
        [target] = query["redirect_uri"]
        urls = (
            target,
            f"{target}?code=evil",
            f"{target}?code=evil&state=evil",
            f"{target}?code=evil&state={query['state'][0]}&state=evil",
            f"{target}?code=evil&code=evil&state={query['state'][0]}",
            f"{target}?code=evil&state={query['state'][0]}&iss=evil&iss=evil",
            target.replace("callback", "other"),
        )
        statuses.extend([httpx2.get(url).status_code for url in urls])
        with socket.create_connection(("127.0.0.1", urlsplit(target).port or 0)) as connection:
            connection.sendall(b"GET " + b"a" * 100_000)
        here.visit(address)

    async with world() as here, here.connect(here.browser(open_browser=attacked)) as client:
        assert await text_of(client, "read") == "anna"
    assert statuses == [404] * 7


async def test_connections_that_say_nothing_do_not_keep_the_browser_out() -> None:
    def crowded(address: str) -> None:
        [target] = parse_qs(urlsplit(address).query)["redirect_uri"]
        with contextlib.ExitStack() as stack:
            for _ in range(40):
                stack.enter_context(socket.create_connection(("127.0.0.1", urlsplit(target).port or 0)))
            here.visit(address)

    async with world() as here, here.connect(here.browser(open_browser=crowded)) as client:
        assert await text_of(client, "read") == "anna"


async def test_a_port_that_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        async with world() as here:
            with pytest.raises(SignInError, match="which another program uses"):
                await here.connect(here.browser(redirect_port=taken.getsockname()[1])).__aenter__()
        assert here.visits == 0


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b" " * 10_000
        await asyncio.sleep(0)


def redirecting(**parameters: str) -> Any:
    """Return an authorization endpoint that sends the browser back with these parameters."""

    def answer(request: Request) -> Response:
        query = request.query_params
        return RedirectResponse(construct_redirect_uri(query["redirect_uri"], state=query["state"], **parameters))

    return answer


BAD_ADDRESS = "an address of the authorization server is malformed or not https"
HOSTILE: dict[str, tuple[str, Callable[[World], Any], str, int]] = {
    "another resource": (
        RESOURCE,
        lambda here: JSONResponse({"resource": "https://evil.example/mcp", "authorization_servers": [here.issuer]}),
        "the metadata of the server is that of another server$",
        0,
    ),
    "no resource for now": (
        RESOURCE,
        lambda here: here.answers.update({RESOURCE[:-4]: Response(SECRET, 503)}) or Response(SECRET, 503),
        r"the server did not give its metadata \(HTTP status 503\)$",
        0,
    ),
    "malformed metadata": (
        METADATA,
        lambda here: JSONResponse([SECRET]),
        "the metadata of the authorization server is malformed: it is no JSON object$",
        0,
    ),
    "no metadata": (
        METADATA,
        lambda here: Response(SECRET, 404),
        r"did not give its metadata where the specification expects them \(HTTP status 404\)$",
        0,
    ),
    **{
        name: (METADATA, lambda here, changes=changes: here.metadata(**changes), text, 0)  # type: ignore[misc]
        for name, text, changes in (
            ("another issuer", "names another issuer than the server does$", {"issuer": "https://evil.example"}),
            ("no PKCE", "does not say that it supports PKCE", {"code_challenge_methods_supported": None}),
            ("plain PKCE", "does not say that it supports PKCE", {"code_challenge_methods_supported": ["plain"]}),
            ("registration nowhere", BAD_ADDRESS, {"registration_endpoint": "http://a\x00b/"}),
            ("tokens without https", BAD_ADDRESS, {"token_endpoint": "http://evil.example/token"}),
            *[
                (f"authorization at {address[:50]}", BAD_ADDRESS, {"authorization_endpoint": address})
                for address in (
                    "http://evil.example/authorize",
                    "https://good.example/authorize#fragment",
                    "https://good.example@evil.example/authorize",
                    "javascript://localhost/%0aalert(1)",
                    "file:///etc/passwd",
                    f"https://example.org/{'x' * 100_000}",
                )
            ],
        )
    },
    "endless metadata": (METADATA, lambda here: StreamingResponse(endless()), "is too large", 0),
    "compressed metadata": (
        METADATA,
        lambda here: Response(b"\x1f\x8b" + bytes(100), headers={"content-encoding": "gzip"}),
        "the metadata of the authorization server is malformed: it is no JSON object$",
        0,
    ),
    "endless resource": (RESOURCE, lambda here: StreamingResponse(endless()), "is too large", 0),
    "no registration": (
        "/register",
        lambda here: JSONResponse({"error": SECRET}, 400),
        "did not register this client: ask its owner for a client_id",
        0,
    ),
    "refused": (
        "/authorize",
        lambda here: redirecting(error="access_denied", error_description=SECRET),
        "did not let you in: access_denied$",
        1,
    ),
    "refused with a text": ("/authorize", lambda here: redirecting(error=SECRET), "did not let you in$", 1),
    "mix-up": (
        "/authorize",
        lambda here: redirecting(code=SECRET, iss="https://evil.example"),
        "from an issuer other than the one requested",
        1,
    ),
    "an issuer without its slash": (
        "/authorize",
        lambda here: redirecting(code=SECRET, iss=here.issuer.removesuffix("/")),
        "from an issuer other than the one requested",
        1,
    ),
    "an empty issuer": (
        "/authorize",
        lambda here: redirecting(code=SECRET, iss=""),
        "from an issuer other than the one requested",
        1,
    ),
    "an empty code": ("/authorize", lambda here: redirecting(code=""), "came back without a code", 1),
    "no token": (
        "/token",
        lambda here: JSONResponse({"error": "invalid_grant", "error_description": SECRET}, 400),
        r"gave no token that can be used \(HTTP status 400\): invalid_grant$",
        1,
    ),
    "a text": (
        "/token",
        lambda here: Response(SECRET.encode() + b"\xff", 400),
        r"gave no token that can be used \(HTTP status 400\)$",
        1,
    ),
    "a token by another name": (
        "/token",
        lambda here: JSONResponse({"accessToken": SECRET, "token_type": "Bearer"}),
        "gave no token that can be used$",
        1,
    ),
    "a token that is no text": (
        "/token",
        lambda here: JSONResponse({"access_token": [SECRET], "token_type": SECRET}),
        "gave no token that can be used$",
        1,
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_servers(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """The person is not sent anywhere, or gets an error that says what is wrong and shows nothing that was sent."""
    caplog.set_level(logging.DEBUG)
    path, answer, text, visits = HOSTILE[name]
    async with world() as here:
        here.answers[path] = answer(here)
        with pytest.raises(SignInError, match=text) as caught:
            await here.connect().__aenter__()
        logged = "".join(caplog.handler.format(record) for record in caplog.records if record.name.startswith(OURS))
        shown = f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r} {logged}"
        assert SECRET not in shown
        assert here.visits == visits
        assert "tokens" not in (await here.store.load(here.url) or "")


@rows(
    "members",
    [
        {"access_token": f"{SECRET} "},
        {"access_token": f" {SECRET}"},
        {"access_token": f"{SECRET}\r\nx: y"},
        {"access_token": f"{SECRET}\0"},
        {"access_token": f"{SECRET}\u00fc"},
        {"access_token": f"{SECRET}\ud800"},
        {"access_token": ""},
        {"access_token": SECRET, "token_type": "Bearer\r\n"},
        {"access_token": SECRET, "token_type": "DPoP"},  # which was not requested
        {"access_token": SECRET, "expires_in": 10**300},
        {"access_token": SECRET, "scope": ["read"]},
        {"access_token": SECRET, "refresh_token": 5},
    ],
    ids=ascii,
)
@rows("status", [200, 201])
@pytest.mark.ci
async def test_a_token_that_fits_into_no_header_is_refused_and_not_shown(
    members: dict[str, Any], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    async with world() as here:
        here.answers["/token"] = Response(json.dumps({"token_type": "Bearer", **members}), status)
        with pytest.raises(SignInError, match=r"gave no token that can be used$") as caught:
            await here.connect().__aenter__()
        assert SECRET not in "".join(traceback.format_exception(caught.value)) + caplog.text
        assert "tokens" not in (await here.store.load(here.url) or "")


@rows(
    ("status", "body"),
    [
        (400, {"error": "invalid_grant", "error_description": SECRET}),
        (200, {"error": "bad_refresh_token"}),
    ],
    ids=str,
)
async def test_a_refresh_token_that_is_refused_leads_to_another_sign_in(status: int, body: Any) -> None:
    def answer() -> Any:
        here.provider.grants.append("refused")
        del here.answers["/token"]
        return JSONResponse(body, status)

    async with world() as here:
        async with here.connect() as client:
            await text_of(client, "read")
        record = json.loads(await here.store.load(here.url))
        await here.store.save(here.url, json.dumps({**record, "until": 0}))
        here.answers["/token"] = answer
        async with here.connect() as client:
            assert await text_of(client, "read") == "anna"
        assert (here.visits, here.provider.grants) == (2, ["code", "refused", "code"])


async def test_a_token_that_is_refreshed_with_the_status_201_needs_no_person() -> None:
    async with world() as here:
        async with here.connect() as client:
            await text_of(client, "read")
        record = json.loads(await here.store.load(here.url))
        await here.store.save(here.url, json.dumps({**record, "until": 0}))
        made = here.provider.issue(["read"], here.url, "client")
        here.answers["/token"] = JSONResponse(made.model_dump(), 201)
        async with here.connect() as client:
            assert await text_of(client, "read") == "anna"
        assert here.visits == 1


PARTIAL = {"issuer": "https://login.example", "authorization_endpoint": "https://login.example/authorize"}
METADATA_OF: dict[str, Any] = {
    "/resource": {"resource": "https://example.org/mcp", "authorization_servers": ["https://login.example"]},
    METADATA: {**PARTIAL, "token_endpoint": "https://login.example/token"},
    "/token": {"access_token": "good", "token_type": "Bearer"},
}


def elsewhere(answers: dict[str, Any], store: Any = None) -> Any:
    """Return a connection of a program to a server whose authorization server gives these answers, by path."""

    async def serve(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/mcp":
            challenge = 'Bearer resource_metadata="https://example.org/resource?x=1"'
            return httpx2.Response(401, headers={"www-authenticate": challenge})
        answer = answers.get(request.url.path) or METADATA_OF.get(request.url.path)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = await answer()
        if answer is None or isinstance(answer, httpx2.Response):
            return answer or httpx2.Response(404)
        return httpx2.Response(200, json=answer)

    auth = oauth.client_credentials("reports", SECRET, issuer="https://login.example", store=store)
    http_client = httpx2.AsyncClient(transport=httpx2.MockTransport(serve), auth=auth)
    return mcp.connect("https://example.org/mcp", http_client=http_client)


NO_METADATA = "sign-in failed: the metadata of the authorization server is malformed: "
NOT_GIVEN = "sign-in failed: the authorization server did not give its metadata where the specification expects them"


@rows(
    ("path", "answer", "text"),
    [
        (METADATA, httpx2.Response(503, text=SECRET), f"{NOT_GIVEN} (HTTP status 503)"),
        (METADATA, httpx2.Response(404, text=SECRET), f"{NOT_GIVEN} (HTTP status 404)"),
        (METADATA, httpx2.Response(200, text=f"<p>{SECRET}"), f"{NO_METADATA}it is no JSON object"),
        (METADATA, [SECRET], f"{NO_METADATA}it is no JSON object"),
        (METADATA, PARTIAL, f"{NO_METADATA}these members are missing or malformed: token_endpoint"),
        (
            METADATA,
            {**dict.fromkeys(METADATA_OF[METADATA]), "scopes_supported": SECRET, SECRET: 1},
            (
                f"{NO_METADATA}these members are missing or malformed: "
                "issuer, authorization_endpoint, token_endpoint, scopes_supported"
            ),
        ),
        (
            METADATA,
            {**METADATA_OF[METADATA], "issuer": "https://evil.example"},
            "sign-in failed: the metadata of the authorization server names another issuer than the server does",
        ),
        (
            "/token",
            httpx2.Response(307, headers={"location": "/other"}),
            "sign-in failed: the authorization server gave no token that can be used (HTTP status 404)",
        ),
        (
            "/token",
            httpx2.Response(308, headers={"location": "https://evil.example/token"}),
            "sign-in failed: the authorization server gave no token that can be used (HTTP status 308)",
        ),
        (
            "/token",
            httpx2.ConnectError("Name or service not known"),
            (
                "sign-in failed: no response came from https://login.example (the authorization server): "
                "the server at login.example cannot be reached: Name or service not known"
            ),
        ),
        (
            "/token",
            httpx2.ReadTimeout(""),
            (
                "sign-in failed: no response came from https://login.example (the authorization server): "
                "the network took too long"
            ),
        ),
        (
            METADATA,
            httpx2.RemoteProtocolError(""),
            (
                "sign-in failed: no response came from https://login.example (the authorization server): "
                "the server closed the connection early, or its HTTP is malformed"
            ),
        ),
        (
            "/resource",
            httpx2.ReadError(""),
            (
                "sign-in failed: no response came from https://example.org (the metadata of the server): the "
                "connection broke before the response was complete: the server may have closed it as idle, or want TLS"
            ),
        ),
    ],
    ids=str,
)
async def test_a_sign_in_that_fails_says_why_and_which_server(path: str, answer: Any, text: str) -> None:
    with pytest.raises(SignInError) as caught:
        await elsewhere({path: answer}).__aenter__()
    assert str(caught.value) == text
    assert caught.value.__cause__ is (answer if isinstance(answer, Exception) else None)


async def test_a_token_endpoint_that_redirects_within_its_origin_is_followed() -> None:
    async def token(request: Request) -> Any:
        return await token_endpoint(here, has_secret)(request)

    async with world() as here:
        here.answers.update({"/token": RedirectResponse("/token2", 307), "/token2": token})
        async with here.connect(oauth.client_credentials("reports", SECRET, issuer=here.issuer)) as client:
            assert await text_of(client, "read") == "anna"


async def test_a_refresh_token_is_kept_while_its_server_cannot_be_reached() -> None:
    kept = {
        "tokens": {"access_token": "old", "token_type": "Bearer", "refresh_token": "kept"},
        "until": 0,
        "issuer": METADATA_OF[METADATA],
        "resource": METADATA_OF["/resource"],
    }
    store = MemoryStore()
    await store.save("https://example.org/mcp", json.dumps(kept))
    with pytest.raises(SignInError) as caught:
        await elsewhere({"/token": httpx2.ConnectError("refused")}, store).__aenter__()
    assert str(caught.value) == (
        "the token could not be refreshed: no response came from https://login.example (the authorization server): "
        "the server at login.example cannot be reached: refused"
    )
    assert json.loads(await store.load("https://example.org/mcp") or "") == kept


async def test_a_sign_in_before_the_connection_says_which_server_is_down() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with world() as here:
        here.answers[RESOURCE] = JSONResponse(
            {"resource": here.url, "authorization_servers": [f"http://127.0.0.1:{port}/tenant"]}
        )
        with pytest.raises(SignInError) as caught:
            await here.connect().__aenter__()
    assert str(caught.value).startswith(
        f"sign-in failed: no response came from http://127.0.0.1:{port} (the authorization server): "
        f"the server at 127.0.0.1:{port} cannot be reached: "
    )


async def test_the_log_names_the_server_that_a_call_did_not_wait_for(caplog: pytest.LogCaptureFixture) -> None:
    asked = asyncio.Event()

    async def silent() -> None:
        asked.set()
        await asyncio.Event().wait()

    connecting = asyncio.create_task(elsewhere({"/token": silent}).__aenter__())
    await asked.wait()
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert [record.getMessage() for record in caplog.records] == [
        (
            "sign-in failed: the timeout of a call, or its cancellation, came before a response from "
            "https://login.example (the authorization server)"
        )
    ]


@rows("address", ["http://localhost:1/x", "http://127.0.0.1/x", "http://[::1]/x", "http://evil.example\\@localhost/x"])
async def test_a_server_elsewhere_makes_no_request_to_this_machine(address: str) -> None:
    asked: list[str] = []

    def serve(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return httpx2.Response(401, headers={"www-authenticate": f'Bearer resource_metadata="{address}"'})

    auth = oauth.browser(store=MemoryStore())
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(serve), auth=auth) as client:
        with pytest.raises(SignInError, match="an address of the authorization server is malformed or not https"):
            await client.get("https://example.org/mcp")
    assert asked == ["https://example.org/mcp"]


async def test_metadata_elsewhere_are_not_followed() -> None:
    async with world() as evil, world() as here:
        here.answers[METADATA] = RedirectResponse(f"{evil.base}{METADATA}")
        with contextlib.suppress(SignInError):
            async with here.connect():
                pass
        assert evil.requests == []


async def test_a_token_for_another_server_is_refused() -> None:
    async with world() as other, world() as here:
        token = here.provider.issue(["read"], other.url, "client").access_token
        with pytest.raises(HttpStatusError, match="401"):
            await mcp.connect(here.url, auth=token).__aenter__()
        token = here.provider.issue(["read"], here.url, "client").access_token
        async with mcp.connect(here.url, auth=token) as client:
            assert await text_of(client, "read") == "anna"


async def test_tokens_go_to_no_other_server() -> None:
    async with world() as other, world() as here:
        auth = here.browser()
        async with here.connect(auth) as client:
            assert await text_of(client, "read") == "anna"
        with pytest.raises(SignInError, match="these tokens are for another server"):
            await mcp.connect(other.url, auth=auth).__aenter__()
        assert other.requests == []


async def test_a_token_that_expired_for_good_is_asked_for_before_the_connection() -> None:
    move = moving_clock()

    def slowly(address: str) -> None:
        move(120)
        here.visit(address)

    async with world() as here:
        async with here.connect() as client:
            await text_of(client, "read")
        record = json.loads(await here.store.load(here.url))
        del record["tokens"]["refresh_token"]
        await here.store.save(here.url, json.dumps({**record, "until": 0}))
        async with here.connect(here.browser(open_browser=slowly), timeout=20) as client:
            assert await text_of(client, "read") == "anna"
        assert here.visits == 2


async def test_a_client_that_is_known_does_not_register() -> None:
    async with world() as here:
        auth = here.browser(client_id="app", client_secret=SECRET, redirect_port=oauth._free_port())
        port = urlsplit((await auth._open(here.url)).context.client_metadata.redirect_uris[0].unicode_string()).port
        info = {"client_id": "app", "client_secret": SECRET, "token_endpoint_auth_method": "client_secret_basic"}
        redirect_uris = [f"http://127.0.0.1:{port}/callback"]
        here.provider.clients["app"] = OAuthClientInformationFull(**info, redirect_uris=redirect_uris, scope="read")
        async with here.connect(auth) as client:
            assert await text_of(client, "read") == "anna"
        assert "POST /register" not in here.requests


# Programs


def token_endpoint(here: World, is_right: Callable[[Any, Request], bool]) -> Any:
    async def answer(request: Request) -> Response:
        form = await request.form()
        if not is_right(form, request):
            return JSONResponse({"error": "invalid_client"}, 401)
        return JSONResponse(here.provider.issue(["read"], str(form["resource"]), "reports").model_dump())

    return answer


def has_secret(form: Any, request: Request) -> bool:
    given = base64.b64encode(f"reports:{SECRET}".encode()).decode()
    return form["grant_type"] == "client_credentials" and request.headers["authorization"] == f"Basic {given}"


async def test_a_program_has_credentials_of_its_own() -> None:
    async with world() as here:
        here.answers["/token"] = token_endpoint(here, has_secret)
        async with here.connect(oauth.client_credentials("reports", SECRET, issuer=here.issuer)) as client:
            assert await text_of(client, "read") == "anna"
        with pytest.raises(SignInError, match=r"no token that can be used \(HTTP status 401\): invalid_client"):
            await here.connect(oauth.client_credentials("reports", "wrong", issuer=here.issuer)).__aenter__()
        asked = here.requests.count("POST /token")
        with pytest.raises(SignInError):
            await here.connect(oauth.client_credentials("reports", SECRET, issuer="https://x.example")).__aenter__()
        assert here.requests.count("POST /token") == asked


@rows("kind", ["key", "function", "failing"])
async def test_a_program_signs_who_it_is(kind: str) -> None:
    async def identity(audience: str) -> str:
        if kind == "failing":
            raise LookupError("the platform is away")
        return jwt.encode({"sub": "reports", "aud": audience}, KEY, algorithm="ES256")

    async with world() as here:

        def is_signed(form: Any, request: Request) -> bool:
            claims = jwt.decode(form["client_assertion"], KEY.public_key(), ["ES256"], audience=here.issuer)
            return bool(claims["sub"] == "reports")

        here.answers["/token"] = token_endpoint(here, is_signed)
        auth = oauth.private_key("reports", PEM if kind == "key" else identity, issuer=here.issuer)
        if kind == "failing":
            with pytest.raises(SignInError, match="the assertion for the authorization server could not be made"):
                await here.connect(auth).__aenter__()
            return
        async with here.connect(auth) as client:
            assert await text_of(client, "read") == "anna"


@rows("status", [200, 400])
async def test_a_platform_says_who_a_program_is(status: int, tmp_path: Path) -> None:
    """The example, whose `Auth` is one of httpx2."""
    made = runpy.run_path(str(ROOT / "examples" / "mcp_workload.py"))["Exchanged"]
    forms: list[dict[str, Any]] = []

    async def token() -> str:
        return "a.b.c"

    async with world() as here:

        def is_of_the_platform(form: Any, request: Request) -> bool:
            forms.append(dict(form))
            return status == 200 and form["assertion"] == "a.b.c" and "authorization" not in request.headers

        here.answers["/token"] = token_endpoint(here, is_of_the_platform)
        auth = made(f"{here.base}/token", token, client_id="reports", resource=here.url)
        if status != 200:
            with pytest.raises(SignInError, match="responded with the HTTP status"):
                await here.connect(auth).__aenter__()
            return
        async with here.connect(auth) as client:
            assert await text_of(client, "read") == "anna"
        assert forms == [
            {
                "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
                "assertion": "a.b.c",
                "client_id": "reports",
                "resource": here.url,
            }
        ]


async def test_a_server_of_a_gateway_is_signed_in_to() -> None:
    async with world() as here:
        here.answers["/token"] = token_endpoint(here, has_secret)
        auth = oauth.client_credentials("reports", SECRET, issuer=here.issuer)
        async with mcp.connect(mcp.Gateway({"s": {"url": here.url, "auth": auth}})) as client:
            assert await text_of(client, "s_read") == "anna"
        nobody = here.browser(open_browser=lambda address: None, sign_in_seconds=0.05)
        async with mcp.connect(mcp.Gateway({"s": {"url": here.url, "auth": nobody}})) as client:
            with pytest.raises(RpcError, match="the server 's' needs a sign-in, which failed"):
                await client.call_tool("s_read")


# Tokens that are bound to a key


class Bound:
    """Admits requests whose token is bound to the key of their proof, which has a nonce.

    Attributes:
        faults: What was wrong with proofs.
        keys: The thumbprints of the keys, by token.
    """

    def __init__(self, here: World) -> None:
        self.here = here
        self.faults: list[str] = []
        self.keys: dict[str, str] = {}
        self.seen: set[str] = set()
        here.answers["/mcp"] = self.serve
        here.answers["/token"] = self.issue

    def key_of(self, request: Request, token: str | None = None) -> str | None:
        """Return the key of a proof; None if it has no nonce."""
        proof = request.headers["dpop"]
        header = jwt.get_unverified_header(proof)
        claims = jwt.decode(proof, jwt.PyJWK(header["jwk"], "ES256"), ["ES256"])
        digest = None if token is None else hashlib.sha256(token.encode()).digest()
        expected = {
            "typ": header["typ"] == "dpop+jwt" and "d" not in header["jwk"],
            "htm": claims["htm"] == request.method,
            "htu": claims["htu"] == f"{self.here.base}{request.url.path}",
            "ath": claims.get("ath") == (digest and base64.urlsafe_b64encode(digest).rstrip(b"=").decode()),
            "jti": claims["jti"] not in self.seen,
        }
        self.seen.add(claims["jti"])
        self.faults += [name for name, is_right in expected.items() if not is_right]
        return str(header["jwk"]["x"]) if claims.get("nonce") == request.url.path else None

    async def issue(self, request: Request) -> Response:
        key, form = self.key_of(request), await request.form()
        if key is None:
            return JSONResponse({"error": "use_dpop_nonce"}, 400, {"dpop-nonce": "/token"})
        made = self.here.provider.issue(["read"], str(form["resource"]), "client")
        self.keys[made.access_token] = key
        return JSONResponse({**made.model_dump(), "token_type": "DPoP"})

    def serve(self, request: Request) -> Any:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        challenge = f'DPoP resource_metadata="{self.here.base}{RESOURCE}"'
        if scheme != "DPoP":
            return Response(status_code=401, headers={"www-authenticate": challenge})
        key = self.key_of(request, token)
        if key is None:
            headers = {"www-authenticate": f'{challenge}, error="use_dpop_nonce"', "dpop-nonce": "/mcp"}
            return Response(status_code=401, headers=headers)
        assert self.keys[token] == key

        async def app(scope: Any, receive: Any, send: Any) -> None:
            headers = [field for field in scope["headers"] if field[0] != b"authorization"]
            headers.append((b"authorization", f"Bearer {token}".encode()))
            await self.here.mcp({**scope, "headers": headers}, receive, send)

        return app


async def test_tokens_are_bound_to_a_key() -> None:
    """The example, around an `auth` of this package."""
    proving = runpy.run_path(str(ROOT / "examples" / "mcp_dpop.py"))["Proving"]
    key = ec.generate_private_key(ec.SECP256R1())
    async with world() as here:
        bound = Bound(here)
        for _ in range(2):  # the second time with the token that is kept
            async with here.connect(proving(here.browser(), key)) as client:
                assert [await text_of(client, "read") for _ in range(3)] == ["anna"] * 3
        assert (here.visits, bound.faults, len(bound.keys)) == (1, [], 1)
        assert len(bound.seen) > 8


# Options


async def test_a_server_that_needs_no_token_opens_no_browser() -> None:
    server = Server("open", "1")
    server.tool(name="hello")(lambda: "hello")
    visits: list[str] = []
    async with serving(McpEndpoint(server), lifespan="off") as base:
        auth = oauth.browser(store=MemoryStore(), open_browser=visits.append)
        async with mcp.connect(f"{base}/mcp", auth=auth) as client:
            assert await text_of(client, "hello") == "hello"
    assert visits == []


@rows("text", ["", "two words", "a\r\nb", "ü"])
def test_what_is_no_token_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r'^auth must be "oauth", a bearer token, or an Auth$'):
        mcp.connect("http://localhost/mcp", auth=text)


@rows(
    ("options", "error"),
    [
        ({"client_secret": "x"}, ValueError),
        ({"redirect_port": 0}, ValueError),
        ({"sign_in_seconds": 0}, ValueError),
        ({"sign_in_seconds": None}, TypeError),
        ({"open_browser": None}, TypeError),
        ({"client_id": 5}, TypeError),
    ],
)
def test_wrong_options(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        oauth.browser(**options)


@rows(
    ("make", "error"),
    [
        (lambda: oauth.client_credentials("a", "b", issuer="login.example.org"), ValueError),
        (lambda: oauth.client_credentials("a", "", issuer="https://login.example.org"), ValueError),
        (lambda: oauth.client_credentials("a", None, issuer="https://login.example.org"), TypeError),  # type: ignore
        (lambda: oauth.private_key("a", None, issuer="https://login.example.org"), TypeError),  # type: ignore
        (lambda: oauth.client_credentials("", "b", issuer="https://x.example"), ValueError),
    ],
)
def test_wrong_options_of_a_program(make: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


def test_without_the_sdk_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.client.auth", None)
    monkeypatch.delitem(sys.modules, "jsonrpc_fast.mcp.client.oauth")
    with pytest.raises(ImportError, match=r'pip install "jsonrpc_fast\[mcp-client-oauth\]"'):
        importlib.import_module("jsonrpc_fast.mcp.client.oauth")
