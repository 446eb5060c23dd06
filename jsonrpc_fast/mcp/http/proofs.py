"""Proofs that the sender of a token has the key to which the token is bound (DPoP, RFC 9449), on the side of a server.

    Authorization(JwtVerifier(...), ..., proofs=ProofVerifier())

Rules:
  - A token that is bound to a key (`cnf.jkt`) needs a proof by that key, and the scheme DPoP; a token that is not bound
    must not come with one.
  - A proof covers this method, this resource and this token, and is at most PROOF_SECONDS old.
  - A proof is used once. Those that were used are remembered in this process, by digest, until they are too old; while
    there are MAX_PROOFS of them, requests get 503.
  - A proof is checked only if the token of the request is valid.

Source: RFC 9449, sections 4.3, 7.1 and 11.1; RFC 7638.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import jwt

from ...http import Refusal
from .verifiers import ALGORITHMS, KEY_TYPES, LEEWAY_SECONDS, requiring

PROOF_SECONDS: Final = 60.0
"""How old a proof may be."""
MAX_PROOFS: Final = 100_000
"""Maximum number of used proofs that are remembered."""

_THUMBPRINT: Final = {"EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x"), "RSA": ("e", "kty", "n")}
"""The members of a key that its thumbprint is made of, in order."""
_PRIVATE: Final = frozenset({"d", "dp", "dq", "k", "oth", "p", "q", "qi"})


class ProofVerifier:
    """Verifies proofs.

    Args:
        required: Whether every token must be bound. Otherwise bearer tokens are accepted, too.

    Attributes:
        is_required: Whether every token must be bound.
        algorithms: The algorithms that proofs may be signed with.
    """

    def __init__(self, *, required: bool = False) -> None:
        self.is_required: bool = required
        self.algorithms: tuple[str, ...] = ALGORITHMS
        self._jwt = requiring("ath", "htm", "htu", "iat", "jti")
        self._used: OrderedDict[bytes, float] = OrderedDict()  # digests with their expiry, the oldest first

    def fault(self, claims: Any, token: str, proof: str | None, method: str, resource: str) -> tuple[str, str] | None:
        """Return the fault of a request: an error code of OAuth and a text; None if it is valid.

        Args:
            claims: The claims of its token, which is valid.
            token: The token.
            proof: The header `DPoP`; None if the scheme is not DPoP.
            method: The HTTP method.
            resource: The URL of the resource.

        Raises:
            Refusal: Too many proofs were used recently (503).
        """
        bound = claims.get("cnf") if isinstance(claims, Mapping) else None
        thumbprint = bound.get("jkt") if isinstance(bound, Mapping) else None
        if proof is None:
            return None if thumbprint is None else ("invalid_token", "The token needs a proof.")
        if not isinstance(thumbprint, str):
            return "invalid_token", "The token is not bound to a key."
        found = self._verified(proof)
        if found is None:
            return "invalid_dpop_proof", "The proof is malformed."
        key, said = found
        if key != thumbprint:
            return "invalid_token", "The token is bound to another key."
        now = time.time()
        # A proof is bound to its token, too; otherwise a stolen proof would be valid for another token of the same key.
        digest = _digest(token)
        made = said["iat"]
        is_number = type(made) is int or type(made) is float
        is_timely = is_number and now - PROOF_SECONDS - LEEWAY_SECONDS < made < now + LEEWAY_SECONDS
        is_ours = said["htm"] == method and said["ath"] == digest and _place_of(said["htu"]) == _place_of(resource)
        if not is_timely or not is_ours:
            return "invalid_dpop_proof", "The proof belongs to another request."
        # Checked last, so that only proofs that are otherwise valid take room.
        if not self._is_first(hashlib.sha256(f"{key} {said['jti']}".encode()).digest(), now):
            return "invalid_dpop_proof", "The proof was used before."
        return None

    def _verified(self, proof: str) -> tuple[str, dict[str, Any]] | None:
        """Return the thumbprint of the key of a proof, and its claims; None if it is malformed."""
        try:
            header = jwt.get_unverified_header(proof) if len(proof) <= 8192 else {}
            algorithm, key = header.get("alg"), header.get("jwk")
            if header.get("typ") != "dpop+jwt" or algorithm not in self.algorithms or not isinstance(key, dict):
                return None
            members = _THUMBPRINT.get(str(key.get("kty")), ())
            if not members or key["kty"] != KEY_TYPES[algorithm[:2]] or not _PRIVATE.isdisjoint(key):
                return None
            # Only these members: others, such as `alg` or `kid`, are the sender's own additions, not part of the key.
            named = {name: key.get(name) for name in members}
            # 8192 bits: verifying takes longer with the size.
            if not all(isinstance(value, str) and len(value) <= 1400 for value in named.values()):
                return None
            claims: dict[str, Any] = self._jwt.decode(proof, jwt.PyJWK(named, algorithm), algorithms=[algorithm])
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        return _digest(json.dumps(named, separators=(",", ":"))), claims

    def _is_first(self, digest: bytes, now: float) -> bool:
        while self._used and next(iter(self._used.values())) <= now:
            self._used.popitem(last=False)
        if digest in self._used:
            return False
        # A forgotten proof could be used again.
        if len(self._used) >= MAX_PROOFS:
            raise Refusal(503, "Too many proofs.")
        # Kept as long as the proof would be accepted, if the clock of its sender is fast or slow.
        self._used[digest] = now + PROOF_SECONDS + 2 * LEEWAY_SECONDS
        return True


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def _place_of(url: object) -> tuple[str, str, int | None, str] | None:
    """Return the normalized parts of a URL, without the query, which are equal for all URLs of one resource."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.hostname is None:
            return None
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return parts.scheme, parts.hostname, port, parts.path.rstrip("/")
