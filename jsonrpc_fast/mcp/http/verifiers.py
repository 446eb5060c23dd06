"""Verifiers of bearer tokens, for the argument `check` of `Authorization`.

    Authorization(
        JwtVerifier(
            jwks_url="https://login.example.org/jwks.json",
            issuer="https://login.example.org",
            audience="https://example.org/mcp",
        ),
        resource="https://example.org/mcp",
        authorization_servers=["https://login.example.org"],
    )

PyJWT and cryptography verify signatures. httpx2 fetches keys and queries issuers.

Rules:
  - A token that is not valid gets 401. If its validity cannot be determined, because the issuer's server is down, slow
    or sends invalid responses, it gets 503 after at most five seconds.
  - Keys are fetched again after ten minutes. If that fails, the old ones are used for up to an hour, and no
    token waits for the next attempts.
  - A token whose key is unknown causes the keys to be fetched again, once for all tokens that wait, and not within
    ten seconds after the last time. So new keys are found, but made-up key ids cause no additional requests.
  - A time is a number (NumericDate of RFC 7519), with a leeway of ten seconds.
  - Only algorithms with public keys are allowed, never `none`; the type and the `alg` of a key must fit the token's.
  - No redirect is followed, and no response of more than 256 KiB is read.

Sources: RFC 7517, RFC 7519, RFC 7662, RFC 8725.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable
from contextlib import nullcontext
from math import inf
from typing import Any, Final, cast
from urllib.parse import quote

from ...codec import Raw
from ...errors import InvalidResponse
from ...http import Refusal
from ...http.library import check_client, tls_context, url_of
from ...support import check_type, logger_of
from .sending import read

try:
    import httpx2
    import jwt
    from jwt.algorithms import has_crypto

    if not has_crypto:
        raise ImportError("cryptography is not installed")
except ImportError as _error:
    raise ImportError(
        'verifying tokens needs the extra `mcp-server-auth`: pip install "jsonrpc_fast[mcp-server-auth]"'
    ) from _error

__all__ = ["IntrospectionVerifier", "JwtVerifier"]

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""The algorithms of signatures that may be allowed, all by default."""
FETCH_SECONDS: Final = 5.0
"""How long fetching keys, or querying an issuer, may take."""
RETRY_SECONDS: Final = 10
"""How long keys are not fetched again, for an unknown key or after a failure."""
LEEWAY_SECONDS: Final = 10.0
"""How far the clock of an issuer may differ."""
KEY_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
"""The types of keys by the prefix of the algorithms' names."""
_logger: Final = logger_of("mcp")


def requiring(*claims: str) -> jwt.PyJWT:
    """Return a verifier of a JWT's signature and of the presence of claims. The caller checks their values."""
    ours = {f"verify_{name}": False for name in ("exp", "nbf", "iat", "iss", "aud")}
    return jwt.PyJWT(cast("Any", {"enforce_minimum_key_length": True, "require": [*claims], **ours}))


class JwtVerifier:
    """Verifies tokens that are JWTs, by the public keys of their issuer. Returns their claims.

    Args:
        jwks_url: The URL of the issuer's key set: `jwks_uri` in its metadata.
        issuer: The issuer (`iss`) that a token must have.
        audience: The audience (`aud`) that a token must have; one of them, if there are several. It is the URL of the
            MCP endpoint, unless the issuer knows it by another name.
        algorithms: The algorithms that are allowed, of ALGORITHMS.
        http_client: The `AsyncClient` of httpx2 to use, which is not closed; by default one for each fetch,
            with the settings of the environment (proxies, certificates). Its own hooks and `auth` must not read bodies,
            which have no limit there.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `jwks_url` is not an HTTP URL, or an algorithm is not one of ALGORITHMS.
    """

    def __init__(
        self,
        *,
        jwks_url: str,
        issuer: str,
        audience: str | Collection[str],
        algorithms: Collection[str] = ALGORITHMS,
        http_client: httpx2.AsyncClient | None = None,
    ) -> None:
        check_type("issuer", issuer, str)
        self._audience = _texts("audience", audience)
        self._algorithms = _texts("algorithms", algorithms)
        if not self._algorithms <= frozenset(ALGORITHMS):
            raise ValueError(f"algorithms must be among {', '.join(ALGORITHMS)}")
        self._fetcher = _Fetcher(jwks_url, http_client)
        self._issuer = issuer
        self._jwt = requiring("exp", "iss", "aud")
        self._set: list[dict[str, Any]] = []
        self._keys: dict[tuple[str | None, str], jwt.PyJWK] = {}
        self._fetched = self._tried = -inf
        self._has_failed = False
        self._fetching: asyncio.Task[None] | None = None

    async def __call__(self, token: str) -> dict[str, Any] | None:
        """Return the claims of a token; None if it is not valid.

        Raises:
            Refusal: The keys of the issuer cannot be fetched (503).
        """
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            # Checked before the key is looked up: a made-up algorithm must not cause the keys to be fetched again.
            if not isinstance(algorithm, str) or algorithm not in self._algorithms:
                _report("its algorithm (alg) is not one of `algorithms`")
                return None
            key = await self._key(header.get("kid"), algorithm)
            if key is None:
                _report("the issuer has no such key (kid)")
                return None
            claims: dict[str, Any] = self._jwt.decode(token, key, algorithms=[algorithm])
        except jwt.PyJWTError as error:  # by its kind: its text could hold parts of the token
            _report(type(error).__name__)
            return None
        return claims if _is_for_us(claims, self._issuer, self._audience) else None

    async def _key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key of a token, fetched if necessary; None if the issuer has no such key."""
        now = asyncio.get_running_loop().time()
        # After an outage of this length, a key that was revoked meanwhile would still give access.
        found = self._found(kid, algorithm) if now < self._fetched + 3600 else None
        if found is not None and now < self._fetched + 600:
            return found
        # Both for expired keys and for an unknown key: otherwise tokens with made-up key ids would flood the issuer.
        if now >= self._tried + RETRY_SECONDS:
            self._tried = now
            self._fetching = asyncio.get_running_loop().create_task(self._fetch(now))
        if self._fetching is not None and not (found is not None and self._has_failed):
            await asyncio.wait([self._fetching])  # a client that disconnects must not cancel it for the others
        if self._fetched >= self._tried:
            return self._found(kid, algorithm)
        if found is None:
            raise _unavailable()
        return found

    async def _fetch(self, now: float) -> None:
        try:
            found = await self._fetcher.fetch("GET")
            if not isinstance(found.get("keys"), list):
                raise InvalidResponse("the response is not a key set")
            self._set = [key for key in found["keys"] if isinstance(key, dict)]
            self._keys.clear()
            self._fetched = now
            self._has_failed = False
        except Exception as error:
            self._has_failed = True
            _log("the keys of the issuer cannot be fetched", error)
        finally:
            self._fetching = None

    def _found(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        key = self._keys.get((kid, algorithm))
        if key is not None:
            return key
        fitting = [
            each
            for each in self._set
            if (kid is None or each.get("kid") == kid)
            and each.get("kty") == KEY_TYPES[algorithm[:2]]
            and each.get("alg", algorithm) == algorithm
            and each.get("use", "sig") == "sig"
        ]
        # Trying several keys would let a token choose its key.
        if len(fitting) != 1:
            return None
        try:
            key = self._keys[kid, algorithm] = jwt.PyJWK(fitting[0], algorithm)
        except Exception as error:  # many kinds, for a malformed key
            _log("a key of the issuer cannot be read", error)
        return key


class IntrospectionVerifier:
    """Verifies each token by a request to its issuer (RFC 7662). Returns the claims in the response.

    Args:
        url: The URL of the issuer's introspection endpoint.
        client_id: The id by which the issuer knows this server.
        client_secret: The secret of this server.
        audience: The audience (`aud`) that a token must have; one of them, if there are several.
        issuer: The issuer (`iss`) that a token must have, if the response names one; None: any.
        http_client: As in `JwtVerifier`. With one of your own, connections stay open between requests.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `url` is not an HTTP URL.
    """

    def __init__(
        self,
        url: str,
        *,
        client_id: str,
        client_secret: str,
        audience: str | Collection[str],
        issuer: str | None = None,
        http_client: httpx2.AsyncClient | None = None,
    ) -> None:
        check_type("client_id", client_id, str)
        check_type("client_secret", client_secret, str)
        check_type("issuer", issuer, str, may_be_none=True)
        self._audience = _texts("audience", audience)
        self._issuer = issuer
        self._fetcher = _Fetcher(url, http_client)
        self._credentials = (quote(client_id, safe=""), quote(client_secret, safe=""))  # RFC 6749, section 2.3.1

    async def __call__(self, token: str) -> dict[str, Any] | None:
        """Return the issuer's response about a token; None if it is not valid.

        Raises:
            Refusal: The issuer does not respond (503).
        """
        # The issuer is queried each time, so that a revoked token is refused at once.
        form = {"token": token, "token_type_hint": "access_token"}
        try:
            found = await self._fetcher.fetch("POST", data=form, auth=self._credentials)
            # Exactly True, because the string "false" is a true value.
            is_active = found["active"] is True
        except Exception as error:
            _log("the issuer did not say whether a token is valid", error)
            raise _unavailable() from None
        if not is_active:
            _report("the issuer says that it is not active")
            return None
        return found if _is_for_us(found, self._issuer, self._audience) else None


class _Fetcher:
    """Requests to one URL that return an object of JSON."""

    def __init__(self, url: str, client: httpx2.AsyncClient | None) -> None:
        check_client(client, httpx2.AsyncClient)
        self._url = url_of(url)
        self._client = client

    async def fetch(self, method: str, **options: Any) -> dict[str, Any]:
        """Send a request and return the object in the response.

        Raises:
            Exception: No response was received within five seconds, for any reason.
        """
        return await asyncio.wait_for(self._fetch(method, **options), FETCH_SECONDS)

    async def _fetch(self, method: str, **options: Any) -> dict[str, Any]:
        # The bound applies to decompressed gzip data as well; other codings have no useful bound.
        headers = {"accept": "application/json", "accept-encoding": "gzip"}
        clients: Any = nullcontext(self._client)
        if self._client is None:
            clients = httpx2.AsyncClient(verify=tls_context(), timeout=FETCH_SECONDS)
        async with (
            clients as client,
            client.stream(method, self._url, headers=headers, follow_redirects=False, **options) as response,
        ):
            if response.status_code != 200:
                raise InvalidResponse(f"the status is {response.status_code}")
            found = Raw(await read(response, 256 * 1024)).decode()
        if not isinstance(found, dict):
            raise InvalidResponse("the response is not an object")
        return found


def _is_for_us(claims: dict[str, Any], issuer: str | None, audience: frozenset[str]) -> bool:
    """Return whether claims have the right issuer and audience, and are valid now, as far as they state these."""
    # Not checked by PyJWT, because introspection needs the same rules, and PyJWT accepts "1" and True as times.
    given, now = claims.get("aud"), time.time()
    audiences = given if isinstance(given, list) else [given]
    begins = [claims[name] for name in ("nbf", "iat") if name in claims]
    ends = [claims["exp"]] if "exp" in claims else []
    fault = ""
    if not all(isinstance(each, str) for each in audiences) or audience.isdisjoint(audiences):
        fault = "it is for another audience (aud)"
    elif issuer is not None and claims.get("iss", issuer) != issuer:
        fault = "it is of another issuer (iss)"
    elif not all(type(each) is int or type(each) is float for each in begins + ends):
        fault = "a time is not a number"
    elif any(begin > now + LEEWAY_SECONDS for begin in begins):
        fault = "it is not valid yet (nbf, iat)"
    elif not all(now - LEEWAY_SECONDS < end < inf for end in ends):
        fault = "it has expired (exp)"
    if fault:
        _report(fault)
    return not fault


def _report(fault: str) -> None:
    """Say to the server's people what the client, who may be anybody, is not told."""
    _logger.info("a token is not valid: %s", fault)


def _log(text: str, error: Exception) -> None:
    """Log a failure by its kind: its text could hold parts of a token or of a response."""
    _logger.warning("%s: %s", text, error if isinstance(error, InvalidResponse) else type(error).__name__)


def _unavailable() -> Refusal:
    return Refusal(503, "The token cannot be checked now.", [(b"retry-after", b"%d" % RETRY_SECONDS)])


def _texts(name: str, given: str | Iterable[str]) -> frozenset[str]:
    texts = frozenset([given] if isinstance(given, str) else given)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{name} must be one string or several")
    return texts
