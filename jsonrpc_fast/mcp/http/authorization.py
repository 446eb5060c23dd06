"""Bearer tokens in front of an MCP server, which is a resource server of OAuth 2.1.

    async def check(token: str) -> dict[str, Any] | None:
        ...  # or a `JwtVerifier`, or an `IntrospectionVerifier`: see `verifiers`

    app = McpEndpoint(
        server,
        authorization=Authorization(
            check, resource="https://example.org/mcp", authorization_servers=["https://login.example.org"]
        )
    )

Rules:
  - Each HTTP request needs a token in the header `Authorization`. The user's function checks it: signature, expiry,
    issuer and audience. Without a valid token the response is 401, without the scopes it is 403.
  - `WWW-Authenticate` names the metadata of the resource, which anyone may read: there a client finds the authorization
    server.
  - With `proofs`, a token may be bound to a key of its sender, who then proves possession of the key with each request.
  - A session belongs to the subject that began it. For any other subject it does not exist.

Sources: specification 2025-11-25 and 2026-07-28 "Authorization"; RFC 6750, RFC 9449, RFC 9728.
"""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ...codec import dumps
from ...handlers import is_awaitable
from ...http import Refusal
from ...http.guard import awaited, user_failures, within
from ...support import check_callable, logger_of
from ...support import check_seconds as check_seconds_option
from ..server.registry import SCOPE, as_scopes, declared_scopes, scopes_of
from .headers import BEARER_TOKEN, value_of

if TYPE_CHECKING:
    from .proofs import ProofVerifier  # needs another extra

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
"""The path of the metadata, before the path of the resource (RFC 9728, section 3.1)."""


_UNREADABLE: Final = "The rights of the token could not be determined."
_logger: Final = logger_of("mcp")


class Authorization:
    """How an endpoint checks bearer tokens.

    Args:
        check: Takes the token and returns its claims, usually a mapping; None if the token is not valid. A `Refusal`
            that it raises is sent unchanged, such as 503 while the authorization server cannot be reached.
        resource: The URL of the MCP endpoint, as clients know it. Tokens must be issued for it (RFC 8707).
        authorization_servers: The issuers of tokens, as URLs.
        scopes: The scopes that every request needs. Or a function that takes the method of a message and the name or
            URI in its params, or None, and returns the scopes that the message needs, as several strings.
        scopes_supported: The scopes for the metadata; by default those of `scopes`, if it is not a function.
        subject: Takes the claims and returns the user or program that they identify; a session belongs to it. By
            default "iss" and "sub" of the claims, or "client_id". For claims without these, claims that are not a
            mapping, and None as the result, it is the token itself. It must have the same `repr` each time, as a str or
            a tuple has.
        metadata: Further members of the metadata, such as `resource_name`.
        proofs: Accepts tokens that are bound to a key (DPoP): a `ProofVerifier`; None: only bearer tokens.
        check_seconds: How long an async function may take; then it is cancelled and the response is 503. None: no
            limit.

    `check`, `scopes` and `subject` may be async. If one of them fails, or returns something else, the response is 500,
    and the exception is logged without the token.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `resource` is not an http or https URL without a fragment, there is no authorization server, or a
            scope has characters that scopes must not have.
    """

    def __init__(
        self,
        check: Callable[[str], Any],
        *,
        resource: str,
        authorization_servers: Collection[str],
        scopes: Collection[str] | Callable[[str, str | None], Iterable[str] | Awaitable[Iterable[str]]] = (),
        scopes_supported: Collection[str] | None = None,
        subject: Callable[[Any], object] | None = None,
        metadata: Mapping[str, Any] | None = None,
        proofs: ProofVerifier | None = None,
        check_seconds: float | None = 30.0,
    ) -> None:
        check_seconds_option("check_seconds", check_seconds)
        parts = urlsplit(resource)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.fragment:
            raise ValueError("resource must be an http or https URL without a fragment")
        if isinstance(authorization_servers, str):
            raise TypeError("authorization_servers must be several strings, not one")
        if not authorization_servers:
            raise ValueError("there must be an authorization server")
        check_callable("check", check, may_be_none=False, may_be_async=True)
        check_callable("subject", subject, may_be_async=True)
        self._check = check
        self._check_seconds = check_seconds
        self._subject = subject
        self._scopes_for: Callable[[str, str | None], Any] | None = scopes if callable(scopes) else None
        self._scopes: frozenset[str] = frozenset() if callable(scopes) else declared_scopes(scopes)
        supported = sorted(
            self._scopes if scopes_supported is None else declared_scopes(scopes_supported, "scopes_supported")
        )
        path = parts.path.rstrip("/")
        self.paths: frozenset[str] = frozenset({WELL_KNOWN, WELL_KNOWN + path})
        self.metadata_url: str = f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{path}"
        self.metadata: dict[str, Any] = {
            "resource": resource,
            "authorization_servers": list(authorization_servers),
            "bearer_methods_supported": ["header"],
        }
        if proofs is not None:
            self.metadata["dpop_signing_alg_values_supported"] = list(proofs.algorithms)
            self.metadata["dpop_bound_access_tokens_required"] = proofs.is_required
        if supported:
            self.metadata["scopes_supported"] = supported
        self.metadata |= metadata or {}
        self.metadata_text: bytes = dumps(self.metadata)
        self._supported = supported
        self._resource = resource
        self._proofs = proofs

    async def authorize(self, method: str, headers: Mapping[bytes, bytes]) -> tuple[Any, object]:
        """Check the token of a request, and its proof. Return the claims and the subject.

        Args:
            method: The HTTP method.
            headers: The headers.

        Raises:
            Refusal: There is no valid token (401), or it lacks a scope (403), or the header is malformed (400), or a
                function failed (500) or took too long (503).
        """
        # The scheme is compared in lower case (RFC 9110, section 11.1); the token may follow several spaces.
        scheme, _, token = (value_of(headers, b"authorization") or b"").partition(b" ")
        token = token.strip(b" ")
        proofs = self._proofs
        has_proof = proofs is not None and scheme.lower() == b"dpop"
        is_bearer = scheme.lower() == b"bearer" and not (proofs is not None and proofs.is_required)
        if not token or not (is_bearer or has_proof):
            raise self._refusal(401, None, "A token is required.", self._supported)
        text = token.decode("latin-1")
        # Checked before the user's function gets it: a parser may be slow with a large token, or log a malformed one.
        if len(token) > 16 * 1024 or not BEARER_TOKEN.fullmatch(text):
            raise self._refusal(400, "invalid_request", "The token is malformed.")
        with user_failures("The token cannot be checked.", partial(_log, text)):
            claims = await self._call(self._check, text)
            # Something that was not awaited, or runs elsewhere, is true in a condition, and would admit every client.
            if isinstance(claims, (Awaitable, Generator, AsyncGenerator, Future)):
                raise TypeError(f"check must not return a {type(claims).__name__}")
            is_valid = bool(claims) or isinstance(claims, Mapping)
        if not is_valid:
            raise self._refusal(401, "invalid_token", "The token is not valid.", self._supported)
        if proofs is not None:
            proof = (value_of(headers, b"dpop") or b"").decode("latin-1") if has_proof else None
            if (fault := proofs.fault(claims, text, proof, method, self._resource)) is not None:
                raise self._refusal(401, *fault, self._supported)
        with user_failures(_UNREADABLE, partial(_log, text)):
            self._require(claims, self._scopes)
            return claims, await self._subject_of(claims, token)

    async def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        found = function(*arguments)
        if not is_awaitable(found):
            return found
        return await within(self._check_seconds, awaited(found), 503, "The token could not be checked in time.")

    async def check_message(self, claims: Any, method: str, name: str | None, scopes: frozenset[str]) -> None:
        """Check that claims have the scopes for a message.

        Args:
            claims: The result of `authorize`.
            method: The method of the message.
            name: The name of the tool or prompt, or the URI; None without one.
            scopes: The scopes of the tool.

        Raises:
            Refusal: A scope is missing (403), or the function for the scopes failed (500) or took too long (503).
        """
        # The scopes depend on the message, so the function is called for each message.
        if self._scopes_for is not None:
            with user_failures(_UNREADABLE, partial(_log, None)):
                scopes |= as_scopes(await self._call(self._scopes_for, method, name))
                self._require(claims, scopes)
        elif scopes:
            self._require(claims, self._scopes | scopes)

    def _require(self, claims: Any, scopes: frozenset[str]) -> None:
        if not scopes <= scopes_of(claims):
            raise self._refusal(403, "insufficient_scope", "The token lacks a scope.", sorted(scopes))

    async def _subject_of(self, claims: Any, token: bytes) -> object:
        if self._subject is not None:
            subject: object = await self._call(self._subject, claims)
            # The default repr contains a memory address, which differs each time.
            if type(subject).__repr__ is object.__repr__:
                raise TypeError(
                    f"subject must return a value with a stable repr, such as a str, not a {type(subject).__name__}"
                )
            if subject is not None:  # clients without a subject must not share their sessions
                return subject
        elif isinstance(claims, Mapping):
            for name in ("sub", "client_id"):
                if claims.get(name) is not None:
                    return claims.get("iss"), name, claims[name]
        # Not the token itself, because the subject is kept as long as the session.
        return hashlib.sha256(token).digest()

    def _refusal(self, status: int, error: str | None, reason: str, scopes: Iterable[str] = ()) -> Refusal:
        parameters = {"resource_metadata": self.metadata_url}
        if error is not None:
            parameters = {"error": error, "error_description": reason, **parameters}
        # A function may derive scopes from the name in a message, which may not be allowed in a header.
        if joined := " ".join([scope for scope in scopes if re.fullmatch(SCOPE, scope)]):
            parameters["scope"] = joined
        challenges = {"Bearer": parameters}
        if self._proofs is not None:
            algorithms = {"algs": " ".join(self._proofs.algorithms)}
            # If there are two challenges, only the first has the common parameters: this keeps the header short, and
            # helps simple parsers.
            is_only = self._proofs.is_required or error == "invalid_dpop_proof"
            challenges = {"DPoP": parameters | algorithms} if is_only else {**challenges, "DPoP": algorithms}
        written = {scheme: ", ".join([f'{k}="{v}"' for k, v in each.items()]) for scheme, each in challenges.items()}
        challenge = ", ".join([f"{scheme} {text}" for scheme, text in written.items()])
        return Refusal(status, reason, [(b"www-authenticate", challenge.encode("latin-1"))])


def _log(token: str | None, error: BaseException) -> None:
    lines = "".join(traceback.format_exception(error))
    # Exceptions of parsers often quote their input.
    if token is not None:
        lines = lines.replace(token, "[the token]")
    _logger.error("the check of a bearer token failed\n%s", lines)
