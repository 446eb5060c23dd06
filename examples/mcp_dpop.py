"""An MCP client whose tokens are bound to a key: who steals one cannot use it (DPoP, RFC 9449).
It needs the extra `mcp-client-oauth`.

python examples/mcp_dpop.py https://example.org/mcp
"""

import asyncio
import base64
import hashlib
import json
import secrets
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from jsonrpc_fast import mcp
from jsonrpc_fast.mcp.client import oauth
from jsonrpc_fast.mcp.client.token_stores import MemoryStore


class Proving(httpx2.Auth):
    """Adds proofs to the requests of another `auth`, whose server and authorization server require them.

    Args:
        auth: Gets the tokens.
        key: The key to which they are bound; None: a new one. Tokens that are kept need the same key again.
    """

    def __init__(self, auth: httpx2.Auth, key: ec.EllipticCurvePrivateKey | None = None) -> None:
        self._auth = auth
        self._key = key or ec.generate_private_key(ec.SECP256R1())
        self._header = {"typ": "dpop+jwt", "jwk": json.loads(ECAlgorithm.to_jwk(self._key.public_key()))}
        self._nonces: dict[str, str] = {}  # by origin (sections 8 and 9)

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the requests of the other `auth` with proofs."""
        flow = self._auth.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                is_exchange = "form" in outgoing.headers.get("content-type", "")
                self._sign(outgoing, is_exchange)
                response = yield outgoing
                origin, nonce = str(outgoing.url.copy_with(raw_path=b"/")), response.headers.get("dpop-nonce")
                if nonce is not None and self._nonces.get(origin) != nonce:
                    self._nonces[origin] = nonce
                    if response.status_code in (400, 401) and "dpop" in outgoing.headers:
                        self._sign(outgoing, is_exchange)  # the server requires its nonce in the proof
                        response = yield outgoing
                if is_exchange and response.status_code == 200:
                    await response.aread()
                    if response.json().get("token_type", "").lower() == "dpop":  # the other `auth` knows bearer tokens
                        found = {**response.json(), "token_type": "Bearer"}
                        response = httpx2.Response(200, json=found, request=outgoing)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _sign(self, request: httpx2.Request, is_exchange: bool) -> None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if not is_exchange and scheme not in ("Bearer", "DPoP"):
            return
        url = request.url.copy_with(query=None, fragment=None)
        claims: dict[str, Any] = {"jti": secrets.token_urlsafe(16), "htm": request.method, "htu": str(url)}
        claims["iat"] = int(time.time())
        if not is_exchange:
            request.headers["authorization"] = f"DPoP {token}"
            digest = hashlib.sha256(token.encode()).digest()
            claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (nonce := self._nonces.get(str(request.url.copy_with(raw_path=b"/")))) is not None:
            claims["nonce"] = nonce
        request.headers["dpop"] = jwt.encode(claims, self._key, algorithm="ES256", headers=self._header)


async def main(url: str) -> None:
    async with mcp.connect(url, auth=Proving(oauth.browser(store=MemoryStore()))) as client:
        for tool in await client.list_tools():
            print("tool", tool["name"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1]))
