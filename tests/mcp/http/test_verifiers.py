"""Verifiers of tokens: which tokens are valid, and what happens when the server of their issuer does not respond."""

from __future__ import annotations

import asyncio
import base64
import gzip
import importlib
import json
import logging
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache, partial
from typing import Any

import httpx2
import pytest

pytest.importorskip("jwt", reason="the extra `mcp-server-auth` is not installed")
pytest.importorskip("cryptography", reason="the extra `mcp-server-auth` is not installed")

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import get_default_algorithms

from jsonrpc_fast import mcp
from jsonrpc_fast.http import Refusal
from jsonrpc_fast.mcp.gateway import Gateway
from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.mcp.http.authorization import Authorization
from jsonrpc_fast.mcp.http.verifiers import IntrospectionVerifier, JwtVerifier
from jsonrpc_fast.mcp.providers import Proxy
from jsonrpc_fast.mcp.server import Server

from ...support.clock import virtual_sleep
from ...support.mcp_http import Exchange, Gate, call, modern
from ...support.tables import rows

ISSUER = "https://login.example.org"
AUDIENCE = "https://example.org/mcp"
JWKS = "https://login.example.org/jwks.json"
CLAIMS = {"iss": ISSUER, "aud": AUDIENCE, "sub": "anna", "scope": "read"}

pytestmark = pytest.mark.virtual_time


@cache
def key_of(name: str) -> Any:
    if name.startswith("rsa"):
        return rsa.generate_private_key(65537, 1024 if name.endswith("short") else 2048)
    return Ed25519PrivateKey.generate() if name.startswith("ed") else ec.generate_private_key(ec.SECP256R1())


def public(name: str, algorithm: str = "ES256", **members: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(get_default_algorithms()[algorithm].to_jwk(key_of(name).public_key()))
    return {**{name: value for name, value in found.items() if name != "key_ops"}, "kid": name, **members}


def token(key: Any = "ec", algorithm: str = "ES256", kid: str | None = "ec", header: Any = None, **claims: Any) -> str:
    now = int(time.time())
    payload = {**CLAIMS, "iat": now, "exp": now + 60, **claims}
    fields = {**({} if kid is None else {"kid": kid}), **(header or {})}
    payload = {name: value for name, value in payload.items() if value is not None}
    secret = key_of(key) if isinstance(key, str) else key
    made: str = jwt.encode(payload, secret, algorithm=algorithm, headers=fields)
    return made


class Issuer:
    """The server of the issuer, in this process.

    Attributes:
        keys: Its key set.
        requests: The requests that it received.
        client: A client that reaches it.
    """

    def __init__(
        self, *keys: Any, answer: Callable[[httpx2.Request], Awaitable[httpx2.Response]] | None = None
    ) -> None:
        self.keys = list(keys)
        self.requests: list[httpx2.Request] = []
        self.client = httpx2.AsyncClient(transport=httpx2.MockTransport(self.serve))
        self.answer = answer or self.send_keys

    async def serve(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return await self.answer(request)

    async def send_keys(self, request: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(0)
        return httpx2.Response(200, json={"keys": self.keys})

    def verifier(self, **options: Any) -> JwtVerifier:
        given = {"jwks_url": JWKS, "issuer": ISSUER, "audience": AUDIENCE, "http_client": self.client, **options}
        return JwtVerifier(**given)


@rows(("name", "algorithm"), [("ec", "ES256"), ("ed", "EdDSA"), ("rsa", "RS256"), ("rsa", "PS512")])
async def test_a_valid_token_has_its_claims(name: str, algorithm: str) -> None:
    verify = Issuer(public(name, algorithm), public("other")).verifier()
    claims = await verify(token(name, algorithm, name))
    assert claims is not None
    assert {name: claims[name] for name in CLAIMS} == CLAIMS


@rows(
    ("name", "seconds"),
    [("exp", -5), ("exp", 60.5), ("exp", 10**400), ("nbf", 8), ("iat", 8), ("iat", -60), ("nbf", -1.5)],
)
async def test_times_have_a_leeway_of_ten_seconds(name: str, seconds: float) -> None:
    assert await Issuer(public("ec")).verifier()(token(**{name: int(time.time()) + seconds})) is not None


def unsigned() -> str:
    payload = token().split(".")[1]
    header = base64.urlsafe_b64encode(b'{"alg":"none","kid":"ec"}').rstrip(b"=").decode()
    return f"{header}.{payload}."


def timed(name: str, made: Callable[[int], Any]) -> str:
    """Return a token with a correct time that is not a number."""
    return token(**{name: made(int(time.time()) + (60 if name == "exp" else -60))})


def signed_with_the_public_key() -> str:
    """The public key as the secret of HS256: a verifier accepts it if it lets the token choose the algorithm."""
    return token(b"x" * 64, "HS256")


@rows(
    "made",
    [
        lambda: "",
        lambda: "a.b.c",
        lambda: "a.b",
        unsigned,
        signed_with_the_public_key,
        lambda: token()[:-8] + "AAAAAAAA",
        lambda: token("other"),  # signed with another key
        lambda: token(iss="https://evil.example"),
        lambda: token(iss=None),
        lambda: token(aud="https://example.org/other"),
        lambda: token(aud=None),
        lambda: token(exp=int(time.time()) - 60),
        lambda: token(exp=None),
        *[
            partial(timed, name, made)
            for name in ("exp", "nbf", "iat")
            for made in (str, "soon".format, bool, lambda n: [n])
        ],
        lambda: token(exp=float("inf")),
        lambda: token(exp=int(time.time()) - 11),
        lambda: token(nbf=int(time.time()) + 15),
        lambda: token(iat=int(time.time()) + 15),
        lambda: token(aud={AUDIENCE: True}),
        lambda: token(aud=[AUDIENCE, 5]),
        lambda: token(kid="unknown"),
        lambda: token(kid=None),  # which of the two keys?
        lambda: token("unfit", kid="unfit"),  # its key is for another algorithm
        lambda: token("cipher", kid="cipher"),  # its key is for encryption
        lambda: token("broken", kid="broken"),
        lambda: token("rsa short", "RS256", "rsa short"),
        lambda: token(header={"crit": ["b64"], "b64": False}),
        lambda: token("rsa", "RS256", "ec"),  # a key of another type by this name
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits")
async def test_no_other_token_is_valid(made: Callable[[], str], caplog: pytest.LogCaptureFixture) -> None:
    """The log says why, without any part of the token."""
    caplog.set_level(logging.INFO, "jsonrpc_fast")
    caplog.clear()
    keys = [
        public("ec"),
        public("another"),
        public("unfit", alg="ES512"),
        public("cipher", use="enc"),
        public("broken", x="?"),
        public("rsa short", "RS256"),
        {"kty": "new", "kid": "new"},
        "no key",
    ]
    assert await Issuer(*keys).verifier()(made()) is None
    assert [record.getMessage().startswith("a token is not valid: ") for record in caplog.records][-1:] == [True]


async def test_only_allowed_algorithms_are_accepted() -> None:
    issuer = Issuer(public("ec"))
    assert await issuer.verifier(algorithms=["RS256"])(token()) is None
    assert issuer.requests == []
    assert await issuer.verifier(algorithms=["RS256", "ES256"])(token()) is not None


async def test_a_token_without_a_key_id_has_the_only_key() -> None:
    assert await Issuer(public("ec"), public("rsa", "RS256")).verifier()(token(kid=None)) is not None


async def test_a_token_may_be_for_several_audiences() -> None:
    verify = Issuer(public("ec")).verifier(audience=["other", AUDIENCE])
    assert await verify(token(aud=["https://x.example", AUDIENCE])) is not None
    assert await verify(token(aud="other")) is not None


async def test_keys_are_fetched_once_and_again_when_they_are_old() -> None:
    issuer = Issuer(public("ec"))
    verify = issuer.verifier()
    assert all(await asyncio.gather(*[verify(token()) for _ in range(5)]))
    assert len(issuer.requests) == 1
    issuer.keys = []
    await virtual_sleep(600 - 1)
    assert await verify(token()) is not None
    await virtual_sleep(1)
    assert await verify(token()) is None  # the issuer has withdrawn the key
    assert len(issuer.requests) == 2


async def test_a_new_key_is_found_but_unknown_ones_are_asked_for_rarely() -> None:
    issuer = Issuer(public("ec"))
    verify = issuer.verifier()
    assert await verify(token()) is not None
    issuer.keys.append(public("new"))
    for _ in range(10):
        assert await verify(token("new", kid="new")) is None
    assert len(issuer.requests) == 1
    await virtual_sleep(10)
    assert all(await asyncio.gather(*[verify(token("new", kid="new")) for _ in range(5)]))
    assert len(issuer.requests) == 2


async def dead(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("refused")


async def silent(request: httpx2.Request) -> httpx2.Response:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


async def endless(request: httpx2.Request) -> httpx2.Response:
    async def parts() -> AsyncIterator[bytes]:
        yield b'{"keys": ['
        while True:
            yield b"{}," * 1000

    return httpx2.Response(200, content=parts())


async def dripping(request: httpx2.Request) -> httpx2.Response:
    async def parts() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await virtual_sleep(1)

    return httpx2.Response(200, content=parts())


async def swelling(request: httpx2.Request) -> httpx2.Response:
    """Send 64 MiB, compressed to a thousandth."""

    async def parts() -> AsyncIterator[bytes]:
        yield BOMB

    return httpx2.Response(200, content=parts(), headers={"content-encoding": "gzip"})


BOMB = gzip.compress(b" " * 2**24)


def sending(status: int = 200, text: bytes = b"", **headers: str) -> Any:
    async def send(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, content=text, headers=headers)

    return send


BROKEN = [
    dead,
    silent,
    endless,
    dripping,
    swelling,
    sending(500),
    sending(302, location="https://evil.example/jwks.json"),
    sending(text=b"{"),
    sending(text=b"[]"),
    sending(text=b"{}"),
    sending(text=b'{"keys": {}}'),
    sending(text=b'{"keys": "none"}'),
    sending(text=b"[" * 100_000),
    sending(text=b"\xff"),
]


@rows("answer", BROKEN, ids=str)
@rows("kind", ["keys", "introspection"])
async def test_an_issuer_that_does_not_answer_is_503_in_time(answer: Any, kind: str) -> None:
    issuer = Issuer(answer=answer)
    verify: Any = issuer.verifier() if kind == "keys" else introspection(issuer)
    began = asyncio.get_running_loop().time()
    with pytest.raises(Refusal) as caught:
        await verify(token())
    assert (caught.value.status, caught.value.headers) == (503, ((b"retry-after", b"10"),))
    assert asyncio.get_running_loop().time() - began <= 5 + 1
    assert len(issuer.requests) == 1


@rows("kind", ["keys", "introspection"])
async def test_what_is_compressed_takes_no_more_room_than_its_limit(kind: str) -> None:
    issuer = Issuer(answer=swelling)
    verify: Any = issuer.verifier() if kind == "keys" else introspection(issuer)
    tracemalloc.start()
    try:
        with pytest.raises(Refusal):
            await verify(token())
        assert tracemalloc.get_traced_memory()[1] < 4 * 256 * 1024
    finally:
        tracemalloc.stop()


async def test_keys_that_were_not_fetched_are_asked_for_rarely() -> None:
    issuer = Issuer(public("ec"), answer=dead)
    verify = issuer.verifier()
    for _ in range(3):
        with pytest.raises(Refusal):
            await verify(token())
    assert len(issuer.requests) == 1
    issuer.answer = issuer.send_keys
    await virtual_sleep(10)
    assert await verify(token()) is not None


async def test_known_keys_serve_while_a_new_one_cannot_be_fetched() -> None:
    issuer = Issuer(public("ec"))
    verify = issuer.verifier()
    assert await verify(token()) is not None
    issuer.answer = dead
    await virtual_sleep(10)
    with pytest.raises(Refusal):
        await verify(token("new", kid="new"))
    assert await verify(token()) is not None


@rows("answer", [dead, silent, sending(text=b'{"keys": {}}')], ids=str)
@pytest.mark.ci
async def test_known_keys_serve_for_an_hour_while_they_cannot_be_fetched_again(answer: Any) -> None:
    issuer = Issuer(public("ec"))
    verify = issuer.verifier()
    assert await verify(token()) is not None
    issuer.answer = answer
    await virtual_sleep(600)
    assert await verify(token()) is not None
    now = asyncio.get_running_loop().time
    end = now() + 3600 - 600 - 20
    while (before := now()) < end:
        assert await verify(token()) is not None
        assert now() == before  # it waits for nothing
        await virtual_sleep(7)
    assert 150 < len(issuer.requests) < 2 + 3000 / 10
    await virtual_sleep(20)
    with pytest.raises(Refusal) as caught:
        await verify(token())
    assert caught.value.status == 503
    issuer.answer, issuer.keys = issuer.send_keys, [public("new")]
    await virtual_sleep(10)
    assert await verify(token()) is None  # the issuer has withdrawn the key
    assert await verify(token("new", kid="new")) is not None


async def test_a_key_that_was_taken_back_serves_until_the_keys_are_fetched_after_an_outage() -> None:
    issuer = Issuer(public("ec"))
    verify = issuer.verifier()
    assert await verify(token()) is not None
    issuer.answer = dead
    await virtual_sleep(600)
    assert await verify(token()) is not None
    issuer.answer, issuer.keys = issuer.send_keys, []
    await virtual_sleep(10)
    assert await verify(token()) is not None  # no request waits for a server that was dead
    await virtual_sleep(1)
    assert await verify(token()) is None


async def test_a_client_that_leaves_does_not_stop_the_others() -> None:
    issuer = Issuer(public("ec"))
    verify = issuer.verifier()
    first, second = asyncio.ensure_future(verify(token())), asyncio.ensure_future(verify(token()))
    await asyncio.sleep(0)
    first.cancel()
    assert await second is not None


def introspection(server: Issuer, **options: Any) -> IntrospectionVerifier:
    given = {"client_id": "a:b", "client_secret": "se cret", "audience": AUDIENCE, **options}
    return IntrospectionVerifier("https://login.example.org/introspect", http_client=server.client, **given)


ACTIVE = {"active": True, "aud": AUDIENCE, "sub": "anna"}


@rows(
    ("found", "is_valid"),
    [
        (ACTIVE, True),
        ({**ACTIVE, "aud": ["x", AUDIENCE], "iss": ISSUER, "exp": +60}, True),
        ({**ACTIVE, "active": False}, False),
        ({**ACTIVE, "active": "true"}, False),
        ({**ACTIVE, "aud": "https://example.org/other"}, False),
        ({**ACTIVE, "aud": {"x": AUDIENCE}}, False),
        ({"active": True, "sub": "anna"}, False),
        ({**ACTIVE, "iss": "https://evil.example"}, False),
        ({**ACTIVE, "exp": -60}, False),
        ({**ACTIVE, "exp": "never"}, False),
        ({**ACTIVE, "exp": True}, False),
        ({**ACTIVE, "exp": str(2**40)}, False),
        ({**ACTIVE, "nbf": +60}, False),
        ({**ACTIVE, "iat": +60}, False),
    ],
)
async def test_an_issuer_that_is_asked_says_which_tokens_are_valid(found: dict[str, Any], is_valid: bool) -> None:
    # Rows are made when the file is imported, so they give times in seconds from the time of the test.
    found = {
        **found,
        **{name: time.time() + found[name] for name in ("exp", "nbf", "iat") if type(found.get(name)) is int},
    }
    issuer = Issuer(answer=sending(text=json.dumps(found).encode()))
    claims = await introspection(issuer, issuer=ISSUER)("opaque")
    assert claims == (found if is_valid else None)
    [request] = issuer.requests
    assert (request.method, request.content) == ("POST", b"token=opaque&token_type_hint=access_token")
    assert request.headers["authorization"] == "Basic " + base64.b64encode(b"a%3Ab:se%20cret").decode()


async def test_nothing_secret_is_logged_or_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    secret = "eyJhbGciOiJFUzI1NiIsImtpZCI6ImVjIn0.c2VjcmV0.c2VjcmV0"
    issuer = Issuer(answer=sending(500, secret.encode()))
    for verify in (issuer.verifier(), introspection(issuer)):
        with pytest.raises(Refusal) as caught:
            await verify(secret)
        assert "secret" not in repr(verify)
        assert secret not in repr(caught.value)
    assert "the keys of the issuer cannot be fetched: the status is 500" in caplog.text
    assert secret not in caplog.text
    assert "se cret" not in caplog.text


@rows(
    ("options", "error"),
    [
        ({"jwks_url": "login.example.org"}, ValueError),
        ({"jwks_url": "file:///jwks.json"}, ValueError),
        ({"algorithms": ["none"]}, ValueError),
        ({"algorithms": ["HS256"]}, ValueError),
        ({"algorithms": []}, TypeError),
        ({"audience": ""}, None),
        ({"audience": []}, TypeError),
        ({"audience": None}, TypeError),
        ({"issuer": None}, TypeError),
        ({"http_client": object()}, TypeError),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[Exception] | None) -> None:
    given = {"jwks_url": JWKS, "issuer": ISSUER, "audience": AUDIENCE, **options}
    if error is None:
        JwtVerifier(**given)
    else:
        with pytest.raises(error):
            JwtVerifier(**given)


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    monkeypatch.delitem(sys.modules, "jsonrpc_fast.mcp.http.verifiers")
    with pytest.raises(ImportError, match=r'pip install "jsonrpc_fast\[mcp-server-auth\]"'):
        importlib.import_module("jsonrpc_fast.mcp.http.verifiers")


# Scopes of tools, with tokens that are verified


def guarded(issuer: Issuer) -> Authorization:
    return Authorization(issuer.verifier(), resource=AUDIENCE, authorization_servers=[ISSUER], scopes=["read"])


async def status_of(app: Any, tool: str, **claims: Any) -> tuple[int, str]:
    sent = modern(call(1, tool, a=1, b=2), authorization=f"Bearer {token(**claims)}")
    start, *_ = await Exchange(app, sent["json"], headers=sent["headers"]).events()
    return start["status"], dict(start["headers"]).get(b"www-authenticate", b"").decode()


def server_with_a_guarded_tool() -> Any:
    server = Gate().server

    @server.tool(scopes=["files:write"])
    def write(a: int, b: int) -> int:
        return a + b

    return server


def proxy_of(server: Any, **options: Any) -> Server:
    outer = Gate().server
    outer.mount(Proxy(lambda handlers: mcp.connect(server, handlers=handlers, **options)), prefix="inner")
    return outer


def mounted(server: Any) -> Server:
    outer = Gate().server
    outer.mount(server, prefix="inner")
    return outer


PLACES: dict[str, Callable[[Any], Any]] = {
    "the server": lambda server: server,
    "a server in it": mounted,
    "behind a proxy": proxy_of,
    "behind a proxy, as a transport": lambda server: proxy_of(server.in_process()),
    "behind a proxy, up to 2025-11-25": lambda server: proxy_of(server, mode="legacy"),
    "behind two proxies": lambda server: proxy_of(mounted(server)),
    "behind a gateway": lambda server: Gateway({"inner": server}),
    "behind a proxy of a gateway": lambda server: proxy_of(Gateway({"inner": server})),
}


@rows("place", PLACES)
async def test_a_tool_has_scopes_of_its_own(place: str) -> None:
    server = PLACES[place](server_with_a_guarded_tool())
    name = "inner_inner_write" if "two" in place or "of a gateway" in place else "inner_write"
    name = "write" if place == "the server" else name
    app = McpEndpoint(server, authorization=guarded(Issuer(public("ec"))))
    assert (await status_of(app, "add"))[0] == 200
    challenge = (
        'Bearer error="insufficient_scope", error_description="The token lacks a scope.", '
        'resource_metadata="https://example.org/.well-known/oauth-protected-resource/mcp", '
        'scope="files:write read"'
    )
    assert await status_of(app, name) == (403, challenge)
    assert (await status_of(app, name, scope="read files:write"))[0] == 200
    assert (await status_of(app, name, scope="files:write"))[0] == 403
    assert (await status_of(app, name, aud="https://example.org/other"))[0] == 401
    await app.close()


async def test_without_authorization_a_tool_with_scopes_is_refused() -> None:
    app = McpEndpoint(server_with_a_guarded_tool())
    assert (await status_of(app, "add"))[0] == 200
    assert (await status_of(app, "write", scope="read files:write"))[0] == 403


@rows("scopes", ["write", [1], None, 5, {"write": True}, [["write"]], b"write"], ids=str)
def test_scopes_are_several_strings(scopes: Any) -> None:
    with pytest.raises(TypeError, match=r"^scopes must be several strings$"):
        server_with_a_guarded_tool().tool("other", scopes=scopes)(lambda: None)


@rows("scope", ["", "a b", "a\r\nb", "a\tb", 'a"b', "a\\b", "\x00", "ü"], ids=ascii)
def test_a_scope_that_no_token_can_have_is_refused(scope: str) -> None:
    server = server_with_a_guarded_tool()
    with pytest.raises(ValueError, match="must consist of visible ASCII characters"):
        server.tool("other", scopes=["read", scope])(lambda: None)
    for name in ("scopes", "scopes_supported"):
        with pytest.raises(ValueError, match=f"^{name}: .* must consist of visible ASCII characters"):
            Authorization(print, resource=AUDIENCE, authorization_servers=[ISSUER], **{name: [scope]})
