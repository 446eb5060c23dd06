"""Proofs that the sender of a token has the key to which the token is bound (DPoP, RFC 9449).

PyJWT signs, with a key of cryptography. `oauth` loads this module when a server asks for proofs.

Rules:
  - One key signs all proofs. A proof contains the public key; the private key is only in `pem`, for the token store.
  - Each request gets a new proof with a new `jti`, because a server refuses a proof that it has seen (section 11.1).
  - A proof for a request with an access token contains a hash of the token (`ath`, section 4.2).
  - The last nonce of each origin is sent to that origin only (sections 8 and 9). At most _MAX_ORIGINS nonces are kept.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import time
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from jwt.algorithms import ECAlgorithm

_MAX_ORIGINS: Final = 8
_NONCE: Final = re.compile(r"[!#-\[\]-~]{1,1024}")  # RFC 9449, section 8.1


class Proofs:
    """Makes proofs with one key, and repeats the nonces that servers give.

    Args:
        pem: The private key; None: a new one.

    Raises:
        ValueError: It is not a private key.
    """

    def __init__(self, pem: str | None = None) -> None:
        found = ec.generate_private_key(ec.SECP256R1()) if pem is None else load_pem_private_key(pem.encode(), None)
        if not isinstance(found, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is of another kind")
        self._key = found
        # Only the members of the public key are listed, because the private key must never be sent.
        public = json.loads(ECAlgorithm.to_jwk(found.public_key()))
        self._header = {"typ": "dpop+jwt", "jwk": {name: public[name] for name in ("kty", "crv", "x", "y")}}
        self._nonces: dict[str, str] = {}

    @property
    def pem(self) -> str:
        """The private key, to be kept with the tokens."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def sign(self, request: httpx2.Request, token: str | None = None) -> None:
        """Add a new proof to a request.

        Args:
            request: The request.
            token: The access token that it carries; None for a request for a token.
        """
        url = urlsplit(str(request.url))
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": request.method,
            # Without query and fragment (RFC 9449, section 4.2).
            "htu": f"{url.scheme}://{url.netloc}{url.path}",
            "iat": int(time.time()),
        }
        if token is not None:
            digest = hashlib.sha256(token.encode()).digest()
            claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (nonce := self._nonces.get(_origin_of(request))) is not None:
            claims["nonce"] = nonce
        request.headers["dpop"] = jwt.encode(claims, self._key, algorithm="ES256", headers=self._header)

    def take_nonce(self, response: httpx2.Response) -> bool:
        """Keep the nonce of a response. Return whether to send the request again with it."""
        origin, nonce = _origin_of(response.request), response.headers.get("dpop-nonce")
        if nonce is None or not _NONCE.fullmatch(nonce) or self._nonces.get(origin) == nonce:
            return False
        # Bounded, because metadata could name any number of origins.
        if origin in self._nonces or len(self._nonces) < _MAX_ORIGINS:
            self._nonces[origin] = nonce
        # With any other status, this request was served, and the nonce is for the next one.
        return response.status_code in (400, 401)


def _origin_of(request: httpx2.Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
