"""Tokens that are bound to a key (DPoP): which proofs are accepted, and that each is accepted once."""

from __future__ import annotations

import base64
import hashlib
import json
import runpy
import time
from functools import cache
from typing import Any

import pytest

pytest.importorskip("jwt", reason="the extra `mcp-server-auth` is not installed")
pytest.importorskip("cryptography", reason="the extra `mcp-server-auth` is not installed")

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import get_default_algorithms

from jsonrpc_fast.http import Refusal
from jsonrpc_fast.mcp.http import McpEndpoint, proofs
from jsonrpc_fast.mcp.http.authorization import Authorization
from jsonrpc_fast.mcp.http.proofs import ProofVerifier

from ...support.mcp_http import Exchange, Gate, call, modern
from ...support.places import ROOT
from ...support.tables import rows

RESOURCE = "https://example.org/mcp"
ISSUER = "https://login.example.org"
METADATA = "https://example.org/.well-known/oauth-protected-resource/mcp"
TOKEN = "bound"
ALGS = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA"


@cache
def key_of(name: str) -> Any:
    if name.startswith("rsa"):
        return rsa.generate_private_key(65537, 1024 if name == "rsa short" else 2048)
    return Ed25519PrivateKey.generate() if name == "ed" else ec.generate_private_key(ec.SECP256R1())


def public(name: str, algorithm: str = "ES256", *, private: bool = False) -> dict[str, Any]:
    key = key_of(name)
    found: dict[str, Any] = json.loads(get_default_algorithms()[algorithm].to_jwk(key if private else key.public_key()))
    return {name: value for name, value in found.items() if name != "key_ops"}


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def thumbprint(name: str, algorithm: str = "ES256") -> str:
    members = {"ES256": ("crv", "kty", "x", "y"), "EdDSA": ("crv", "kty", "x")}.get(algorithm, ("e", "kty", "n"))
    key = public(name, algorithm)
    return digest(json.dumps({name: key[name] for name in members}, separators=(",", ":")).encode())


def proof(
    name: str = "ec",
    algorithm: str = "ES256",
    *,
    jwk: Any = None,
    typ: Any = "dpop+jwt",
    signer: Any = None,
    **claims: Any,
) -> str:
    said = {
        "jti": "1",
        "htm": "POST",
        "htu": RESOURCE,
        "iat": int(time.time()),
        "ath": digest(TOKEN.encode()),
        **claims,
    }
    said = {name: value for name, value in said.items() if value is not None}
    header = {"typ": typ, "jwk": public(name, algorithm) if jwk is None else jwk}
    made: str = jwt.encode(said, key_of(name) if signer is None else signer, algorithm=algorithm, headers=header)
    return made


def fault_of(made: str | None, claims: Any = None, resource: str = RESOURCE) -> tuple[str, str] | None:
    claims = {"cnf": {"jkt": thumbprint("ec")}} if claims is None else claims
    return ProofVerifier().fault(claims, TOKEN, made, "POST", resource)


@rows(("name", "algorithm"), [("ec", "ES256"), ("ed", "EdDSA"), ("rsa", "RS256"), ("rsa", "PS512")])
def test_a_proof_by_the_key_of_the_token_is_accepted(name: str, algorithm: str) -> None:
    claims = {"cnf": {"jkt": thumbprint(name, algorithm)}}
    assert fault_of(proof(name, algorithm), claims) is None


@rows(
    "changes",
    [
        {"htu": "https://example.org/mcp?a=b#c"},
        {"htu": "HTTPS://EXAMPLE.ORG:443/mcp"},
        {"htu": "https://example.org/mcp/"},
        {"iat": -65},
        {"iat": 8},
        {"iat": 0.5},
        {"jti": ""},
        {"nbf": 5, "exp": 5, "aud": "x", "nonce": "x"},
    ],
)
def test_how_a_proof_may_differ(changes: dict[str, Any]) -> None:
    if "iat" in changes:
        changes = {"iat": time.time() + changes["iat"]}
    assert fault_of(proof(**changes)) is None


MALFORMED = ("invalid_dpop_proof", "The proof is malformed.")
OTHER = ("invalid_dpop_proof", "The proof belongs to another request.")
ANOTHER_KEY = ("invalid_token", "The token is bound to another key.")


@rows(
    ("made", "fault"),
    [
        (lambda: "", MALFORMED),
        (lambda: "a.b.c", MALFORMED),
        (lambda: "é" * 20, MALFORMED),
        (lambda: proof(jti="x" * 8000), MALFORMED),
        (lambda: proof(typ="JWT"), MALFORMED),
        (lambda: proof(typ=None), MALFORMED),
        (lambda: proof(jwk={}), MALFORMED),
        (lambda: proof(jwk="x"), MALFORMED),
        (lambda: proof(jwk={"kty": "EC", "crv": "P-256", "x": 5, "y": []}), MALFORMED),
        (lambda: proof(jwk={**public("ec"), "kty": "oct", "k": "AAAA"}), MALFORMED),
        (lambda: proof(jwk=public("ec", private=True)), MALFORMED),
        (lambda: proof("ec", jwk=public("other")), MALFORMED),
        (lambda: proof("rsa short", "RS256"), MALFORMED),
        (lambda: proof("ec", jwk=public("rsa", "RS256")), MALFORMED),
        (lambda: proof("ec", "HS256", jwk=public("ec"), signer="k" * 32), MALFORMED),
        (lambda: proof("ec", "none", jwk=public("ec"), signer=""), MALFORMED),
        *[(lambda name=name: proof(**{name: None}), MALFORMED) for name in ("jti", "htm", "htu", "iat", "ath")],
        (lambda: proof("other"), ANOTHER_KEY),
        (lambda: proof(htm="GET"), OTHER),
        (lambda: proof(htm="post"), OTHER),
        (lambda: proof(htu="https://example.org/other"), OTHER),
        (lambda: proof(htu="http://example.org/mcp"), OTHER),
        (lambda: proof(htu="https://example.org:8443/mcp"), OTHER),
        (lambda: proof(htu="https://[/mcp"), OTHER),
        (lambda: proof(htu=5), OTHER),
        (lambda: proof(ath=digest(b"other")), OTHER),
        (lambda: proof(ath=5), OTHER),
        (lambda: proof(iat=time.time() - 71), OTHER),
        (lambda: proof(iat=time.time() + 15), OTHER),
        (lambda: proof(iat="1"), OTHER),
        (lambda: proof(iat=True), OTHER),
        (lambda: proof(iat=10**400), OTHER),
        (lambda: proof(jti=5), MALFORMED),
    ],
)
@pytest.mark.filterwarnings("ignore:The RSA key")
def test_a_proof_that_is_wrong(made: Any, fault: tuple[str, str]) -> None:
    assert fault_of(made()) == fault


@rows(
    ("claims", "has_proof", "fault"),
    [
        ({"sub": "anna"}, False, None),
        ("a subject", False, None),
        ({"cnf": {"x5t#S256": "x"}}, False, None),
        ({"cnf": {"jkt": "x"}}, False, ("invalid_token", "The token needs a proof.")),
        ({"sub": "anna"}, True, ("invalid_token", "The token is not bound to a key.")),
        ("a subject", True, ("invalid_token", "The token is not bound to a key.")),
        ({"cnf": {"jkt": 5}}, True, ("invalid_token", "The token is not bound to a key.")),
        ({"cnf": "x"}, True, ("invalid_token", "The token is not bound to a key.")),
    ],
)
def test_a_bound_token_and_a_proof_need_each_other(claims: Any, has_proof: bool, fault: Any) -> None:
    assert fault_of(proof() if has_proof else None, claims) == fault


def test_a_proof_is_used_once_and_forgotten_when_it_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    monkeypatch.setattr(proofs, "MAX_PROOFS", 3)
    verifier = ProofVerifier()
    claims = {"cnf": {"jkt": thumbprint("ec")}}

    def fault(**said: Any) -> Any:
        return verifier.fault(claims, TOKEN, proof(**said), "POST", RESOURCE)

    first = proof(jti="a")
    assert verifier.fault(claims, TOKEN, first, "POST", RESOURCE) is None
    used = ("invalid_dpop_proof", "The proof was used before.")
    assert verifier.fault(claims, TOKEN, first, "POST", RESOURCE) == used
    assert fault(jti="a", htu=f"{RESOURCE}?again") == used
    assert fault(jti="b") is None
    assert fault(jti="c") is None
    with pytest.raises(Refusal) as refused:
        fault(jti="d")
    assert refused.value.status == 503
    now += 69
    assert verifier.fault(claims, TOKEN, first, "POST", RESOURCE) == used
    now += 1
    assert verifier.fault(claims, TOKEN, first, "POST", RESOURCE) == OTHER
    now += 10
    assert fault(jti="d") is None
    assert fault(jti="a") is None


def check(token: str) -> Any:
    return {"sub": "anna", "cnf": {"jkt": thumbprint("ec")}} if token == TOKEN else {"free": {"sub": "bert"}}.get(token)


def app_of(*, required: bool = False) -> Any:
    authorization = Authorization(
        check, resource=RESOURCE, authorization_servers=[ISSUER], proofs=ProofVerifier(required=required)
    )
    return McpEndpoint(Gate().server, authorization=authorization)


async def status_of(app: Any, authorization: str | None, made: str | None = None) -> tuple[int, str]:
    sent = modern(call(1, "add", a=1, b=2), authorization=authorization, dpop=made)
    start, *_ = await Exchange(app, sent["json"], headers=sent["headers"]).events()
    return start["status"], dict(start["headers"]).get(b"www-authenticate", b"").decode()


async def test_requests() -> None:
    app = app_of()
    bearer = f'Bearer resource_metadata="{METADATA}", DPoP algs="{ALGS}"'
    assert await status_of(app, None) == (401, bearer)
    assert await status_of(app, "Basic free") == (401, bearer)
    assert await status_of(app, "Bearer free") == (200, "")
    assert await status_of(app, f"DPoP {TOKEN}", proof()) == (200, "")
    assert await status_of(app, f"dpop {TOKEN}", proof(jti="2")) == (200, "")
    said = 'error_description="The proof was used before."'
    challenge = f'DPoP error="invalid_dpop_proof", {said}, resource_metadata="{METADATA}", algs="{ALGS}"'
    assert await status_of(app, f"DPoP {TOKEN}", proof()) == (401, challenge)
    status, challenge = await status_of(app, f"Bearer {TOKEN}", proof(jti="3"))
    assert (status, challenge.partition(",")[0]) == (401, 'Bearer error="invalid_token"')
    status, challenge = await status_of(app, f"DPoP {TOKEN}")
    assert (status, challenge.partition(",")[0]) == (401, 'DPoP error="invalid_dpop_proof"')
    assert (await status_of(app, "DPoP wrong", proof(jti="4")))[0] == 401


async def test_every_token_may_have_to_be_bound() -> None:
    app = app_of(required=True)
    challenge = f'DPoP resource_metadata="{METADATA}", algs="{ALGS}"'
    assert await status_of(app, None) == (401, challenge)
    assert await status_of(app, "Bearer free") == (401, challenge)
    assert await status_of(app, f"DPoP {TOKEN}", proof()) == (200, "")
    start, body = await Exchange(app, method="GET", path="/.well-known/oauth-protected-resource").events()
    metadata = json.loads(body["body"])
    assert start["status"] == 200
    assert metadata["dpop_bound_access_tokens_required"] is True
    assert metadata["dpop_signing_alg_values_supported"] == ALGS.split()


async def test_two_proofs_are_refused() -> None:
    sent = modern(call(1, "add", a=1, b=2), authorization=f"DPoP {TOKEN}", dpop=proof())
    exchange = Exchange(app_of(), sent["json"], headers=sent["headers"])
    exchange.headers.append((b"dpop", proof(jti="2").encode()))
    start, *_ = await exchange.events()
    assert start["status"] == 400


async def test_without_proofs_the_scheme_is_unknown() -> None:
    authorization = Authorization(check, resource=RESOURCE, authorization_servers=[ISSUER])
    app = McpEndpoint(Gate().server, authorization=authorization)
    status, challenge = await status_of(app, f"DPoP {TOKEN}", proof())
    assert (status, challenge) == (401, f'Bearer resource_metadata="{METADATA}"')


async def test_the_proofs_of_the_example_are_accepted() -> None:
    pytest.importorskip("httpx2", reason="the extra `mcp-client-oauth` is not installed")
    import httpx2

    class Bearer(httpx2.Auth):
        def auth_flow(self, request: httpx2.Request) -> Any:
            request.headers["authorization"] = f"Bearer {TOKEN}"
            yield request

    pytest.importorskip("mcp.client.auth", reason="the extra `mcp-client-oauth` is not installed")
    proving = runpy.run_path(str(ROOT / "examples" / "mcp_dpop.py"))["Proving"]
    request = await anext(proving(Bearer()).async_auth_flow(httpx2.Request("POST", RESOURCE)))
    header = jwt.get_unverified_header(request.headers["dpop"])["jwk"]
    members = json.dumps({name: header[name] for name in ("crv", "kty", "x", "y")}, separators=(",", ":"))
    assert fault_of(request.headers["dpop"], {"cnf": {"jkt": digest(members.encode())}}) is None
