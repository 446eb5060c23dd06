"""Authorization of a client over HTTP: any `httpx2.Auth`, and the provider of the official SDK in an OAuth flow."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx2
import pytest

from jsonrpc_fast import mcp
from jsonrpc_fast.errors import ConnectionLost, HttpStatusError

from ...support.clock import moving_clock
from ...support.http_script import Answer, HttpRequest, HttpScript, Reply, http_script, legacy, modern
from ...support.waiting import settle
from .test_client import TEXT

pytestmark = pytest.mark.usefixtures("loop")


class Authorization:
    """An authorization server with the code flow and PKCE, in front of an MCP server on the same port."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.server: HttpScript
        self.challenges: dict[str, str] = {}
        self.tokens: list[str] = []

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    async def __call__(self, request: HttpRequest, reply: Reply) -> None:
        path, _, query = request.path.partition("?")
        if path == "/mcp":
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            if token in self.tokens:
                await self.answer(request, reply)
                return
            metadata = f'Bearer resource_metadata="{self.base}/.well-known/oauth-protected-resource"'
            await reply.send(status=401, headers={"www-authenticate": metadata})
        elif path == "/.well-known/oauth-protected-resource":
            await self.send(reply, {"resource": f"{self.base}/mcp", "authorization_servers": [self.base]})
        elif path == "/.well-known/oauth-authorization-server":
            places = {f"{name}_endpoint": f"{self.base}/{name}" for name in ("authorization", "token", "registration")}
            await self.send(
                reply,
                {
                    "issuer": self.base,
                    **places,
                    "response_types_supported": ["code"],
                    "grant_types_supported": ["authorization_code", "refresh_token"],
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["none"],
                },
            )
        elif path == "/registration":
            await self.send(reply, {**request.message, "client_id": "client"}, 201)
        elif path == "/authorization":
            asked = dict(parse_qsl(query))
            code = f"code-{len(self.challenges)}"
            self.challenges[code] = asked["code_challenge"]
            location = f"{asked['redirect_uri']}?code={code}&state={asked['state']}"
            await reply.send(status=302, headers={"location": location})
        elif path == "/token":
            form = dict(parse_qsl(request.body.decode()))
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == self.challenges.pop(form["code"])
            self.tokens.append(f"token-{len(self.tokens)}")
            await self.send(reply, {"access_token": self.tokens[-1], "token_type": "Bearer", "expires_in": 3600})
        else:
            await reply.send(status=404)

    async def send(self, reply: Reply, value: Any, status: int = 200) -> None:
        await reply.send(json.dumps(value).encode(), status)


class Storage:
    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


def provider_of_the_sdk(url: str, wait: Callable[[], object] = bool) -> Any:
    auth = pytest.importorskip("mcp.client.auth")
    shared = pytest.importorskip("mcp.shared.auth")
    visited: list[str] = []

    async def redirect(address: str) -> None:
        async with httpx2.AsyncClient() as browser:
            visited.append((await browser.get(address)).headers["location"])

    async def callback() -> Any:
        wait()
        await settle()
        found = parse_qs(urlsplit(visited[-1]).query)
        code, state = found["code"][0], found["state"][0]
        result = getattr(shared, "AuthorizationCodeResult", None)  # SDK 1.x: a tuple
        return (code, state) if result is None else result(code=code, state=state)

    metadata = shared.OAuthClientMetadata(
        client_name="test",
        redirect_uris=["http://localhost:1/callback"],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    return auth.OAuthClientProvider(url, metadata, Storage(), redirect, callback)


async def answer(request: HttpRequest, reply: Reply) -> None:
    if request.method == "GET":
        await reply.send(status=405)
    elif "id" in request.message:
        await reply.send(request.result(TEXT))
    else:
        await reply.accept()


@pytest.mark.parametrize("revision", [legacy, modern])
async def test_the_provider_of_the_sdk(revision: Any) -> None:
    authorization = Authorization(revision(answer))
    async with http_script(authorization) as server:
        authorization.server = server
        auth = provider_of_the_sdk(server.url)
        async with mcp.connect(server.url, auth=auth, headers={"x-key": "secret"}) as client:
            assert await asyncio.gather(*[client.call_tool("add") for _ in range(4)]) == [TEXT] * 4
            authorization.tokens[0] = "revoked"
            assert await asyncio.gather(*[client.call_tool("add") for _ in range(4)]) == [TEXT] * 4
        assert len([request for request in server.requests if request.path == "/registration"]) == 1
        assert {request.headers.get("x-key") for request in server.requests if request.path != "/mcp"} == {None}


async def test_the_user_may_take_longer_than_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    move = moving_clock()
    monkeypatch.setattr("jsonrpc_fast.mcp.client.client.PROBE_SECONDS", 0.5)
    authorization = Authorization(modern(answer))
    async with http_script(authorization) as server:
        authorization.server = server
        async with mcp.connect(server.url, auth=provider_of_the_sdk(server.url, lambda: move(1))) as client:
            assert client.server.revision.version == "2026-07-28"
        assert len([request for request in server.requests if request.path == "/token"]) == 1


class Signed(httpx2.Auth):
    requires_request_body = True

    def auth_flow(self, request: httpx2.Request) -> Any:
        request.headers["x-digest"] = hashlib.sha256(request.content).hexdigest()
        yield request


async def test_an_auth_that_reads_the_body() -> None:
    async with http_script(modern(answer)) as server, mcp.connect(server.url, auth=Signed()) as client:
        await client.call_tool("add")
        for request in server.requests:
            assert request.headers["x-digest"] == hashlib.sha256(request.body).hexdigest()


async def test_user_and_password() -> None:
    async with http_script(modern(answer)) as server, mcp.connect(server.url, auth=("a", "b")) as client:
        await client.ping()
        assert {request.headers["authorization"] for request in server.requests} == {"Basic YTpi"}


class Refusing(httpx2.Auth):
    async def async_auth_flow(self, request: httpx2.Request) -> Any:
        raise LookupError("no token")
        yield request


async def test_what_auth_raises_is_raised() -> None:
    async with http_script(modern(answer)) as server:
        with pytest.raises(LookupError, match="no token"):
            async with mcp.connect(server.url, auth=Refusing()):
                pass
        assert server.requests == []


class Stray(httpx2.Auth):
    """Raises CancelledError without being cancelled, as soon as it is told to."""

    def __init__(self) -> None:
        self.is_asked = False

    async def async_auth_flow(self, request: httpx2.Request) -> Any:
        if self.is_asked:
            raise asyncio.CancelledError("of a future")
        yield request


@pytest.mark.parametrize("revision", [legacy, modern])
async def test_a_cancellation_that_auth_raises_fails_its_call(revision: Any) -> None:
    auth = Stray()
    async with http_script(revision(answer)) as server, mcp.connect(server.url, auth=auth) as client:
        auth.is_asked = True
        with pytest.raises(ConnectionLost, match="the sending of a request was cancelled"):
            await asyncio.wait_for(client.call_tool("add"), 20)
        auth.is_asked = False
        assert await client.call_tool("add") == TEXT
        auth.is_asked = True  # closing still ends


async def test_a_refusal_says_how_to_authorize() -> None:
    authorization = Authorization(modern(answer))
    async with http_script(authorization) as server:
        authorization.server = server
        with pytest.raises(HttpStatusError) as caught:
            async with mcp.connect(server.url):
                pass
    assert caught.value.status == 401
    assert caught.value.headers["www-authenticate"].startswith("Bearer resource_metadata=")
