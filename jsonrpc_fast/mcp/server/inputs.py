"""What a serving function asks its client for, in 2026-07-28, where a server sends no requests.

Rules:
  - a run of the function that lacks an answer ends there. Its request is answered with `input_required` and all that
    the run has asked for; the client sends the request again with the answers, and the function runs from its start;
  - what a run without all answers returns or raises is void, whatever it made of its end;
  - an answer counts for the very request that it was given to, by method and params: to a function that asks something
    else the second time nothing was answered yet. The same request asked twice has two answers. A request with a key of
    the function's own is known by that key alone;
  - a client sends the answers of the last round alone. Those of earlier rounds go with it as `requestState`, which
    holds nothing else: no secret, and nothing to trust. A client that alters it gives other answers, as it may. They
    are read as such, and bounded. A function that keeps a `requestState` of its own returns a `WholeResult`, and reads
    the answers and the state from `Context.params`;
  - only `tools/call`, `prompts/get` and `resources/read` can be answered so, and only what the client has declared may
    be asked for.

Source: specification 2026-07-28, "Multi Round-Trip Requests".
"""

from __future__ import annotations

import hashlib
import types
from collections import Counter
from collections.abc import Generator, Mapping
from typing import Any, Final

from ...codec._json import dumps, loads
from ...codes import ErrorCode
from ...errors import EncodeError, RpcError, invalid_params
from ...types import Unset
from ..protocol.meta import MAX_INPUTS
from .handshake import RequestRules

MAX_STATE_BYTES: Final = 1024 * 1024
"""How large `requestState` may be: what a client has answered in all rounds but the last."""

_CAN_WANT_INPUT: Final = frozenset({"prompts/get", "resources/read", "tools/call"})
_CAN_BE_INPUT: Final = frozenset({"elicitation/create", "roots/list", "sampling/createMessage"})


class InputRequired(BaseException):
    """Ends a run that lacks an answer. It is no Exception, so that a function does not take it for a failed request."""


class Inputs:
    """What one request has brought, and what it still lacks.

    method, params  of the request

    Raises RpcError -32602 for answers that are none.
    """

    def __init__(self, method: str, params: Mapping[str, Any]) -> None:
        self._can_want_input = method in _CAN_WANT_INPUT
        self._given: dict[str, bytes] = {}  # as text: what the function makes of an answer is its own business
        if self._can_want_input:
            self._given = _answers("inputResponses", params.get("inputResponses", {}))
            # The function's own, perhaps: it is read as answers when the first one is looked for.
            self._state: str | None = _state(params.get("requestState", "{}"))
        self._keys: dict[str, str] = {}  # chosen by the function, with what was asked
        self._used: dict[str, bytes] = {}
        self._missing: dict[str, dict[str, Any]] = {}
        self._times: Counter[str] = Counter()

    @property
    def are_missing(self) -> bool:
        """Something was asked that the client has not answered yet."""
        return bool(self._missing)

    async def call(
        self, method: str, params: Mapping[str, Any] | None, timeout: float | Unset | None, key: str | None
    ) -> dict[str, Any]:
        """The client's answer.

        Args:
            method: What the client is asked for.
            params: Its params.
            timeout: Means nothing here: nobody waits.
            key: The name of the request in `inputRequests`; None: made of method and params.

        Raises:
            InputRequired: There is no answer yet.
            RpcError: It cannot be asked for, or the client sent a `requestState` that holds no answers.
            ValueError: Two requests of one run have the same key.
        """
        if not self._can_want_input or method not in _CAN_BE_INPUT:
            raise cannot_ask()
        request = {"method": method} if params is None else {"method": method, "params": dict(params)}
        digest = hashlib.sha256(dumps(request)).hexdigest()[:32]
        if key is None:
            self._times[digest] += 1
            key = f"{digest}-{self._times[digest]}"
        if self._keys.setdefault(key, digest) != digest:
            raise ValueError("the key is that of another request")
        if self._state is not None:
            self._given, self._state = _earlier_answers(self._state) | self._given, None
        if key not in self._given:
            self._missing[key] = request
            await _next_turn()  # tasks that start eagerly ask for what they need in the same round
            raise InputRequired
        self._used[key] = self._given[key]
        answer: dict[str, Any] = loads(self._given[key])
        return answer

    def result(self) -> dict[str, Any]:
        """The result that wants the rest (`InputRequiredResult`). Raises RpcError -32603 for too large a state."""
        result = {"resultType": "input_required", "inputRequests": dict(self._missing)}
        if not self._used:
            return result
        state = b"{%b}" % b",".join([b"%b:%b" % (dumps(key), answer) for key, answer in self._used.items()])
        if len(state) > MAX_STATE_BYTES:
            raise RpcError(ErrorCode.INTERNAL_ERROR, f"the answers so far have more than {MAX_STATE_BYTES} bytes")
        return {**result, "requestState": state.decode()}


def capability_for(method: str, params: Mapping[str, Any] | None) -> str | None:
    """What a client has to have declared to be asked for something, as of `Capabilities.supports`; None: nothing."""
    params = params or {}
    if method == "roots/list":
        return "roots"
    if method == "sampling/createMessage":
        return "sampling.tools" if "tools" in params or "toolChoice" in params else "sampling"
    if method == "elicitation/create":
        return "elicitation.url" if params.get("mode") == "url" else "elicitation.form"
    return None


def cannot_ask() -> RpcError:
    """The error for what a client cannot be asked for, by its revision or for the time being."""
    return RpcError(ErrorCode.INVALID_REQUEST, "the client cannot be asked for that")


def check_input_required(method: str, result: Mapping[str, Any], rules: RequestRules) -> None:
    """Checks an `input_required` result that a function made by itself.

    Raises:
        RpcError: The client cannot be asked, or lacks a capability.
        TypeError, ValueError: The result breaks the protocol.
    """
    if method not in _CAN_WANT_INPUT or not rules.revision.is_modern:
        raise cannot_ask()
    requests, state = result.get("inputRequests", {}), result.get("requestState", "")
    if not isinstance(requests, Mapping) or not isinstance(state, str):
        raise TypeError("inputRequests must be a mapping, requestState a str")
    if not requests and "requestState" not in result:
        raise ValueError("a result that wants input must have inputRequests or a requestState")
    if len(state) > MAX_STATE_BYTES:
        raise ValueError(f"requestState has more than {MAX_STATE_BYTES} bytes")
    for request in requests.values():
        if not isinstance(request, Mapping) or request.get("method") not in _CAN_BE_INPUT:
            raise ValueError(f"inputRequests must be requests for {', '.join(sorted(_CAN_BE_INPUT))}")
        if (capability := capability_for(request["method"], request.get("params"))) is not None:
            rules.require(capability)


@types.coroutine
def _next_turn() -> Generator[None, None, None]:
    yield


def _state(text: object) -> str:
    if not isinstance(text, str) or len(text) > MAX_STATE_BYTES:
        raise invalid_params(f"requestState must be a string of at most {MAX_STATE_BYTES} bytes")
    return text


def _earlier_answers(state: str) -> dict[str, bytes]:
    try:
        answers = loads(state)
    except ValueError:
        raise invalid_params("requestState is not what the server has sent") from None
    return _answers("requestState", answers)


def _answers(name: str, members: object) -> dict[str, bytes]:
    if isinstance(members, dict) and len(members) > MAX_INPUTS:
        raise invalid_params(f"{name} has more than {MAX_INPUTS} members")
    if not isinstance(members, dict) or not all(isinstance(answer, dict) for answer in members.values()):
        raise invalid_params(f"{name} must be an object of results")
    try:
        return {key: dumps(answer) for key, answer in members.items()}
    except EncodeError:
        raise invalid_params(f"{name} is nested too deeply") from None
