"""Input from a modern client (2026-07-28): such a client accepts no requests, so input takes several rounds.

Rules:
  - A function that needs a response it does not have yet stops there. The server returns `input_required` with all
    requests of that run. The client repeats its request with the responses, and the function runs from the start.
  - A response is matched to its request by method and params; if a function makes the same request twice, each gets its
    own response. If the function chose a key for a request, the response is matched only by that key.
  - A client sends only the responses of the last round. `requestState` carries those of earlier rounds, the keys of the
    requests that were made, and the values of `Context.state`.

Source: specification 2026-07-28, "Multi Round-Trip Requests".
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
import types
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from ...codec import Raw, dumps
from ...codes import ErrorCode
from ...errors import EncodeError, RpcError
from ...support import check_seconds, logger_of
from ..protocol.meta import INPUT_REQUESTS, MAX_INPUTS
from ..protocol.versions import Revision

MAX_STATE_BYTES: Final = 1024 * 1024
"""Maximum size of a token's content: the responses of all rounds but the last, and the values of the function."""
STATE_SECONDS: Final = 3600.0
"""How long a token is valid by default."""

_MIN_KEY_BYTES: Final = 32
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
    """Makes the `requestState` that a client carries from round to round, and opens it.

    It is bound to the server, the request, the subject and a time, and is signed (HMAC-SHA-256) or encrypted by the
    user's cipher. A client can read a signed one, and may use it twice while it is valid. If it is altered, too old, or
    of another request, the client gets one text for all three (-32602), and the log the reason.

    Args:
        key: 32 bytes or more, to sign with; several of these: the first one signs, all of them are accepted; or a
            cipher. None: a random key, which only this process knows.
        clock: Returns the time in seconds. It must be the same for all processes with the same key.

    Raises:
        TypeError: `key` has another type, or a cipher that does not work; or `seconds` is not a number.
        ValueError: A key is too short, no key is given, or `seconds` is not positive and finite.
    """

    def __init__(self, key: StateKey | None, server: str, seconds: float) -> None:
        check_seconds("state_seconds", seconds, may_be_none=False, may_be_zero=False)
        self._cipher = _cipher_of(key)
        self._server = server
        self._seconds = seconds

    def seal(self, contents: bytes, method: str, params: Mapping[str, Any], subject: object) -> str:
        """Return the token for the result of a request.

        Args:
            subject: The sender of the request, with the same `repr` each time; None if unknown.
        """
        claims = _CLAIMS.pack(time.time() + self._seconds, self._digest(method, params, subject))
        return self._cipher.encrypt(claims + contents).decode("ascii")

    def open(self, token: object, method: str, params: Mapping[str, Any], subject: object) -> bytes:
        """Return the content of a token. The arguments are those of `seal`.

        Raises RpcError: the token is not valid for this request (-32602).
        """
        # Checked before it is decoded, because the client chooses its length.
        if not isinstance(token, str) or len(token) > 2 * MAX_STATE_BYTES:  # base64 takes a third more
            raise refusal("is not a string, or too long")
        try:
            data = self._cipher.decrypt(token.encode("ascii"))
            expiry, digest = _CLAIMS.unpack_from(data)
        except Exception:  # of a class of the cipher
            raise refusal("was not made with a key of this server, or was altered") from None
        # Not `>=`: a time of NaN, which may get past the user's cipher, must be treated as expired.
        if not time.time() < expiry:
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
    """Signs data, which stays readable."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        # The signing keys are derived, so that signatures made here are not valid elsewhere, even if the program uses
        # its key there, too.
        self._keys = [hmac.digest(key, b"jsonrpc_fast.mcp requestState", hashlib.sha256) for key in keys]

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


MAY_NEED_INPUT: Final = frozenset({"prompts/get", "resources/read", "tools/call"})
"""The requests whose result may ask for input."""


class InputRequired(BaseException):
    """Stops a run that needs a response. A BaseException, so that functions do not handle it as a failed request."""


class Inputs:
    """The input for one request: the responses received, the requests still without one, and the function's values.

    Args:
        subject: The subject that the request's bearer token identifies; None without authorization.

    Attributes:
        state: The values that the function keeps between rounds (`Context.state`).

    Raises RpcError: `inputResponses` or `requestState` is invalid (-32602).
    """

    def __init__(self, method: str, params: Mapping[str, Any], seal: StateSeal, subject: object) -> None:
        self._method, self._params, self._seal, self._subject = method, params, seal, subject
        self._may_need_input = method in MAY_NEED_INPUT
        self._responses: dict[str, bytes] = {}  # encoded: a function may change the dict that it gets
        self._asked: frozenset[str] = frozenset()  # the keys of the requests that were made in earlier rounds
        self._digests: dict[str, str] = {}  # the digests of the requests, by key
        self._used: dict[str, bytes] = {}
        self._missing: dict[str, dict[str, Any]] = {}
        self._repeats: dict[str, int] = {}
        self.state: dict[str, Any] = {}
        if self._may_need_input:
            if "inputResponses" in params:
                self._responses = _read_responses(params["inputResponses"])
            if "requestState" in params:
                contents = Raw(seal.open(params["requestState"], method, params, subject)).decode()
                self._responses |= _written(contents["responses"])  # earlier responses take precedence
                self._asked, self.state = frozenset(contents["asked"]), contents["values"]

    @property
    def are_missing(self) -> bool:
        """Whether the function made a request that has no response yet."""
        return bool(self._missing)

    async def ask(self, method: str, params: Mapping[str, Any] | None, key: str | None) -> dict[str, Any]:
        """Return the client's response to a request.

        Args:
            key: The key of the request in `inputRequests`; None: derive one from method and params.

        Raises:
            InputRequired: There is no response yet.
            RpcError: The client cannot receive this request.
            ValueError: Two requests of one run have the same key.
        """
        if not self._may_need_input or method not in INPUT_REQUESTS:
            raise cannot_send()
        request = {"method": method} if params is None else {"method": method, "params": dict(params)}
        # The key names the request by its content: the order in which a function asks may differ from run to run.
        # 128 bits are enough: the key is in each round's `inputRequests` and in the state, so it should be short.
        digest = hashlib.sha256(dumps(request)).hexdigest()[:32]
        is_named = key is not None
        if key is None:
            self._repeats[digest] = self._repeats.get(digest, 0) + 1
            key = f"{digest}-{self._repeats[digest]}"
        if self._digests.setdefault(key, digest) != digest:
            raise ValueError("two requests of one run have the same key")
        # A response to a key that was never sent could be a guess of the client, before the function asks.
        if key not in self._responses or not (is_named or key in self._asked):
            self._missing[key] = request
            await _next_turn()  # with eager tasks, the other tasks make their requests in this round
            raise InputRequired
        # Only responses that this run used go into the next state: otherwise a client could make it grow.
        self._used[key] = self._responses[key]
        response: dict[str, Any] = Raw(self._responses[key]).decode()
        return response

    def result(self, whole: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the `InputRequiredResult` with the missing requests.

        Args:
            whole: An `InputRequiredResult` that the function built, without `requestState`; None: build one.

        Raises:
            RpcError: `requestState` would be too large (-32603).
            EncodeError: A value of `state` does not survive a round trip through JSON.
        """
        if whole is None:
            whole = {"resultType": "input_required", "inputRequests": dict(self._missing)}
        # Including the requests of this round: the next round accepts only responses to requests that were made.
        asked = [*self._used, *whole.get("inputRequests", ())]
        responses = b",".join([b"%b:%b" % (dumps(key), response) for key, response in self._used.items()])
        values = _encode_values(self.state)
        state = b'{"asked":%b,"responses":{%b},"values":%b}' % (dumps(asked), responses, values)
        # Checked here, because the server would have to refuse it when the client sends it back.
        if len(state) > MAX_STATE_BYTES:
            raise RpcError(ErrorCode.INTERNAL_ERROR, f"requestState would have more than {MAX_STATE_BYTES} bytes")
        return {**whole, "requestState": self._seal.seal(state, self._method, self._params, self._subject)}


def _encode_values(values: dict[str, Any]) -> bytes:
    """Return a function's values as JSON. Raises EncodeError if decoding them would give different values."""
    try:
        text = dumps(values)
    except EncodeError as error:
        raise EncodeError(f"context.state cannot be written as JSON: {error}") from None
    # A value that changes when it is written and read would make the next run differ, without an error.
    if Raw(text).decode() != values:
        raise EncodeError("context.state contains a value that JSON does not preserve, such as a tuple, a date or NaN")
    return text


def capability_for(method: str, params: Mapping[str, Any] | None) -> str | None:
    """Return the capability that a request needs, such as "sampling.tools"; None if it needs none."""
    params = params or {}
    if method == "sampling/createMessage" and ("tools" in params or "toolChoice" in params):
        return "sampling.tools"
    if method == "elicitation/create":
        return "elicitation.url" if params.get("mode") == "url" else "elicitation.form"
    return INPUT_REQUESTS.get(method)


def cannot_send() -> RpcError:
    """Return the error for a message that the client's revision, or the state of the handshake, does not allow."""
    return RpcError(ErrorCode.INVALID_REQUEST, "the client cannot receive this message")


def check_input_required(
    method: str, result: Mapping[str, Any], revision: Revision, require: Callable[[str], None]
) -> None:
    """Check an `input_required` result that a function returned.

    Raises:
        RpcError: The client cannot receive the requests, or lacks a capability.
        TypeError, ValueError: The result violates the protocol.
    """
    if method not in MAY_NEED_INPUT or not revision.is_modern:
        raise cannot_send()
    # A `requestState` that the function wrote would be neither signed nor bound to the request.
    if "requestState" in result:
        raise ValueError("the server makes requestState itself: use Context.state")
    # A mistake of the function that wrote it must not reach the client.
    requests = result.get("inputRequests", {})
    if not isinstance(requests, Mapping):
        raise TypeError("inputRequests must be a mapping")
    for request in requests.values():
        if not isinstance(request, Mapping) or request.get("method") not in INPUT_REQUESTS:
            raise ValueError(f"inputRequests must be requests for {', '.join(sorted(INPUT_REQUESTS))}")
        if (capability := capability_for(request["method"], request.get("params"))) is not None:
            require(capability)


@types.coroutine
def _next_turn() -> Generator[None, None, None]:
    yield


def _read_responses(members: object) -> dict[str, bytes]:
    # Counted first: each response is encoded below.
    if isinstance(members, dict) and len(members) > MAX_INPUTS:
        raise RpcError.invalid_params(f"inputResponses has more than {MAX_INPUTS} members")
    if not isinstance(members, dict) or not all(isinstance(response, dict) for response in members.values()):
        raise RpcError.invalid_params("inputResponses must be an object of results")
    try:
        return _written(members)
    except EncodeError:
        raise RpcError.invalid_params("inputResponses is nested too deeply") from None


def _written(responses: Mapping[str, Any]) -> dict[str, bytes]:
    return {key: dumps(response) for key, response in responses.items()}
