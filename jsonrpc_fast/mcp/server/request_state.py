"""The state that a modern client carries from one round of a request to the next (`requestState`, 2026-07-28).

Rules:
  - A token says until when it is valid and which request it belongs to: the server, the method, the name or URI, the
    arguments, and the subject of the client. It is therefore useless for another call, or for another user.
  - A token is signed (HMAC-SHA-256), or encrypted by the user's cipher. A client can read a signed one.
  - A token that was altered, is too old or belongs to another request is error -32602. The client gets the same text
    for all three; the log has the reason.
  - A client may use a token twice while it is valid. An action that must happen only once needs a record on the server.

Source: specification 2026-07-28, "Multi Round-Trip Requests", "Server Requirements".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from ...errors import RpcError
from ...support import check_seconds, logger_of

MAX_STATE_BYTES: Final = 1024 * 1024
"""Maximum size of a token's content: the responses of all rounds but the last, and the values of the function."""
STATE_SECONDS: Final = 3600.0
"""How long a token is valid by default."""

_MIN_KEY_BYTES: Final = 32
_MAX_TOKEN_CHARACTERS: Final = 2 * MAX_STATE_BYTES  # base64 takes a third more
_LABEL: Final = b"jsonrpc_fast.mcp requestState"
"""Signed together with each token, so that data signed elsewhere with the same key is not valid here."""
_CLAIMS: Final = struct.Struct(">d32s")  # the time of expiry and the digest of the request, before the contents
_SIGNATURE_BYTES: Final = 32
_logger: Final = logger_of("mcp")


@runtime_checkable
class StateCipher(Protocol):
    """Authenticated encryption: `Fernet` or `MultiFernet` of the package `cryptography`, or a similar object."""

    def encrypt(self, data: bytes, /) -> bytes:
        """Return an ASCII token that hides the data."""

    def decrypt(self, token: bytes, /) -> bytes:
        """Return the data of a token. Raise an exception if `encrypt` did not make the token."""


StateKey = bytes | Sequence[bytes] | StateCipher


class StateSeal:
    """Makes tokens, and opens those it made.

    Args:
        key: 32 bytes or more, to sign with; several of these: the first one signs, all of them are accepted; or a
            cipher. None: a random key, which only this process knows.
        server: The name of the server.
        seconds: How long a token is valid.
        clock: Returns the time in seconds. It must be the same for all processes with the same key.

    Raises:
        TypeError: `key` has another type, or a cipher that does not work; or `seconds` is not a number.
        ValueError: A key is too short, no key is given, or `seconds` is not positive and finite.
    """

    def __init__(
        self, key: StateKey | None, server: str, seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        check_seconds("state_seconds", seconds, may_be_none=False, may_be_zero=False)
        self._cipher = _cipher_of(key)
        self._server = server
        self._seconds = seconds
        self._clock = clock

    def seal(self, contents: bytes, method: str, params: Mapping[str, Any], subject: object) -> str:
        """Return the token for the result of a request.

        Args:
            contents: The content of the token.
            method: The method of the request.
            params: The params of the request.
            subject: The sender of the request, with the same `repr` each time; None if unknown.
        """
        claims = _CLAIMS.pack(self._clock() + self._seconds, self._digest(method, params, subject))
        return self._cipher.encrypt(claims + contents).decode("ascii")

    def open(self, token: object, method: str, params: Mapping[str, Any], subject: object) -> bytes:
        """Return the content of a token. The arguments are those of `seal`.

        Raises:
            RpcError: The token is not valid for this request (-32602).
        """
        # Checked before it is decoded, because the client chooses its length.
        if not isinstance(token, str) or len(token) > _MAX_TOKEN_CHARACTERS:
            raise refusal("is not a string, or too long")
        try:
            data = self._cipher.decrypt(token.encode("ascii"))
            expiry, digest = _CLAIMS.unpack_from(data)
        except Exception:  # of a class of the cipher
            raise refusal("was not made with a key of this server, or was altered") from None
        # Not `>=`: a time of NaN, which may get past the user's cipher, must be treated as expired.
        if not self._clock() < expiry:
            raise refusal("has expired")
        if not hmac.compare_digest(digest, self._digest(method, params, subject)):
            raise refusal("belongs to another request")
        return data[_CLAIMS.size :]

    def _digest(self, method: str, params: Mapping[str, Any], subject: object) -> bytes:
        request: list[Any] = [self._server, method, repr(subject)]
        # `_meta`, `inputResponses` and `requestState` differ from round to round, so they do not identify a request.
        request += [params.get("uri")] if method == "resources/read" else [params.get("name"), params.get("arguments")]
        try:
            # Sorted, because a client may write the members of the arguments in another order in the next round.
            return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).digest()
        except RecursionError:
            raise RpcError.invalid_params("arguments nest too deeply for a request that takes several rounds") from None


class _Signer:
    """Signs data, which stays readable.

    Args:
        keys: The first one signs, all of them are accepted.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        # The signing keys are derived, so that signatures made here are not valid elsewhere, even if the program uses
        # its key there, too.
        self._keys = [hmac.digest(key, _LABEL, hashlib.sha256) for key in keys]

    def encrypt(self, data: bytes) -> bytes:
        return base64.urlsafe_b64encode(hmac.digest(self._keys[0], data, hashlib.sha256) + data)

    def decrypt(self, token: bytes) -> bytes:
        signed = base64.b64decode(token, b"-_", validate=True)
        signature, data = signed[:_SIGNATURE_BYTES], signed[_SIGNATURE_BYTES:]
        # Not `any`, whose time would reveal which key it was.
        if not sum([hmac.compare_digest(signature, hmac.digest(key, data, hashlib.sha256)) for key in self._keys]):
            raise binascii.Error
        return data


def _cipher_of(key: object) -> StateCipher:
    if key is None:
        return _Signer([os.urandom(_MIN_KEY_BYTES)])
    # Recognized by its methods, because this package does not depend on `cryptography`.
    if isinstance(key, StateCipher):
        return _checked(key)
    keys = [key] if isinstance(key, bytes) else key
    if not isinstance(keys, Sequence) or not all(isinstance(each, bytes) for each in keys):
        raise TypeError("state_key must be bytes, several of these, or a cipher such as Fernet")
    if not keys or min(map(len, keys)) < _MIN_KEY_BYTES:
        raise ValueError(f"state_key must have {_MIN_KEY_BYTES} random bytes: secrets.token_bytes({_MIN_KEY_BYTES})")
    return _Signer(keys)


def _checked(cipher: StateCipher) -> StateCipher:
    """Return a cipher after a check that it decrypts its own tokens. Raises TypeError if it does not."""
    try:
        # Checked at once, not with the first request: a program with a wrong key must not start.
        token: object = cipher.encrypt(b"state")
        is_usable = isinstance(token, bytes) and token.isascii() and cipher.decrypt(token) == b"state"
    except Exception as error:
        raise TypeError("state_key must be a cipher that encrypts bytes, which this one does not") from error
    if not is_usable:
        raise TypeError("state_key must be a cipher whose tokens are ASCII bytes, which it decrypts to the same bytes")
    return cipher


def refusal(reason: str) -> RpcError:
    """Return the error for an invalid state, and log the reason, which the client does not get."""
    _logger.warning("a requestState was refused: it %s", reason)
    return RpcError.invalid_params("requestState is invalid or has expired")
