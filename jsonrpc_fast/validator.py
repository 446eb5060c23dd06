"""Validation that reports every fault of a message, not only the first: for relays, logs and tests of peers.

    report = JsonRpcValidator(MCP_2025_11_25).validate_request(obj)
    if not report.valid:
        for fault in report.errors: ...              # fault.code, fault.path, fault.message, fault.index
        reply = report.error_response()

Rules:
  - messages are decoded from JSON already. Validation agrees with `parse`, except that the method of a request or a
    notification must not be empty in any profile;
  - a report holds nothing of the message except its id. Paths contain only members that JSON-RPC defines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any, Concatenate, Final, Generic, Literal, ParamSpec, TypeVar, overload

from .codec import Error, Notification, ParseError, Raw, Request, Response, parse
from .codec._json import has_surrogates, is_integer_longer, is_longer
from .codes import RPC_MESSAGES, ErrorCode, ParseErrorCode, is_error_code
from .profile import JSONRPC, Profile
from .types import ENVELOPE_MEMBERS, ERROR_MEMBERS, MessageId

P = ParamSpec("P")
T = TypeVar("T")

ExpectedKind = Literal["request", "notification", "response", "batch"]

_CLASSES: Final[dict[str, Any]] = {"request": Request, "notification": Notification, "response": Response}

# The texts of codes, for a message of a known kind.
_MISSING_ID: Final = "id is missing"
_MISSING_METHOD: Final = "method is missing"
_NEITHER: Final = "the response has no result or error"
_NO_BATCH: Final = "the batch is not an array"
_WRONG_MEMBER: Final = "a {} does not have this member"


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule that a message breaks. Fields are also readable as `fault["code"]`.

    Attributes:
        code: the rule.
        path: a JSON pointer (RFC 6901) into the message; "" for the whole message.
        message: the rule in words.
        index: the position in the batch, counted from 0, or None.
    """

    code: ParseErrorCode
    path: str
    message: str
    index: int | None = None

    def __getitem__(self, name: Literal["code", "path", "message", "index"]) -> Any:
        return _field(self, name, ("code", "path", "message", "index"))


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a validation. Also readable as `report["valid"]` and `report["errors"]`.

    Attributes:
        valid: there is no fault.
        errors: every fault; for a batch, those of its items too.
        kind: the expected kind of message.
        id: the id of the message if it is certain, else None.
        items: the reports of the items of a batch.
    """

    valid: bool
    errors: tuple[Fault, ...]
    kind: ExpectedKind
    id: MessageId = None
    items: tuple[Report, ...] = ()

    @overload
    def __getitem__(self, name: Literal["valid"]) -> bool: ...

    @overload
    def __getitem__(self, name: Literal["errors"]) -> tuple[Fault, ...]: ...

    def __getitem__(self, name: str) -> Any:
        return _field(self, name, ("valid", "errors"))

    def error_response(self) -> Response | list[Response] | None:
        """Return the error response to an invalid message, or the one to send instead of an invalid response.

        Returns:
            None for a valid message and for a notification. For a request, -32600 with its id, if that is certain. For
            a response, -32603 with the same id; its faults are a bug of this side, and are logged as `jsonrpc_fast`.
            For a batch, a list with the responses to its items, or -32600 if it is not a batch.
        """
        if self.valid or self.kind == "notification":
            return None
        if self.kind == "response":
            _log(self.errors)
            return _response(self.id, ErrorCode.INTERNAL_ERROR)
        if self.items:
            return [response for item in self.items if isinstance(response := item.error_response(), Response)]
        return _response(self.id, ErrorCode.INVALID_REQUEST)


class _OnClassToo(Generic[P, T]):
    """A method that may also be called on the class, which uses a validator with the default profile."""

    def __init__(self, function: Callable[Concatenate[JsonRpcValidator, P], T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, validator: JsonRpcValidator | None, cls: type[JsonRpcValidator]) -> Callable[P, T]:
        return MethodType(self._function, cls() if validator is None else validator)


class JsonRpcValidator:
    """Validate messages that are dicts by the rules of a profile.

    Args:
        profile: the rules. The methods may also be called on the class, for those of `JSONRPC`.

    Raises:
        TypeError: `profile` is not a Profile.
    """

    __slots__ = ("_profile",)

    def __init__(self, profile: Profile = JSONRPC) -> None:
        if not isinstance(profile, Profile):
            raise TypeError(f"profile must be a Profile, not {type(profile).__name__}")
        self._profile = profile

    @_OnClassToo
    def validate_request(self, obj: object) -> Report:
        """Return the report on a request: a call with an id."""
        return self._validate(obj, "request")

    @_OnClassToo
    def validate_notification(self, obj: object) -> Report:
        """Return the report on a notification: a call without an id."""
        return self._validate(obj, "notification")

    @_OnClassToo
    def validate_response(self, obj: object) -> Report:
        """Return the report on a response: a result or an error."""
        return self._validate(obj, "response")

    @_OnClassToo
    def validate_batch(self, obj: object) -> Report:
        """Return the report on a batch. The kind of each item is the one that `parse` would see."""
        profile = self._profile
        if not isinstance(obj, list):
            return Report(False, (Fault(ParseErrorCode.NOT_AN_OBJECT, "", _NO_BATCH),), "batch")
        parsed: Any = parse(obj, profile)
        if isinstance(parsed, ParseError):
            return Report(False, (_fault(parsed.code),), "batch")
        items = tuple(
            _with_reply_kind(self._validate(item, _kind_of(item, profile), index), parsed[index])
            for index, item in enumerate(obj)
        )
        errors = tuple(fault for item in items for fault in item.errors)
        return Report(not errors, errors, "batch", items=items)

    def _validate(self, obj: object, kind: ExpectedKind, index: int | None = None) -> Report:
        # A valid message costs one `parse`, and the two cannot disagree.
        message: Any = ParseError.not_an_object() if isinstance(obj, list) else parse(obj, self._profile)
        if type(message) is _CLASSES[kind] and (kind == "response" or message.method):
            return Report(True, (), kind, None if isinstance(message, Notification) else message.id)
        errors = tuple(_faults(obj, kind, self._profile, index))
        return Report(False, errors, kind, None if isinstance(message, Notification) else message.id)


def _faults(obj: object, kind: ExpectedKind, profile: Profile, index: int | None) -> Iterator[Fault]:
    """Every fault of a message of an expected kind, in the order of `parse`."""
    if not isinstance(obj, dict):
        yield _fault(ParseErrorCode.NOT_AN_OBJECT, "", index)
        return
    method, id = obj.get("method"), obj.get("id")
    if isinstance(method, str) and is_longer(method, profile.limits.method_bytes):
        yield _fault(ParseErrorCode.METHOD_TOO_LONG, "/method", index)
    if _is_id_too_long(id, profile):
        yield _fault(ParseErrorCode.ID_TOO_LONG, "/id", index)
    if "jsonrpc" not in obj:
        if not profile.optional_jsonrpc:
            yield _fault(ParseErrorCode.MISSING_JSONRPC, "/jsonrpc", index)
    elif obj["jsonrpc"] != "2.0":
        yield _fault(ParseErrorCode.INVALID_JSONRPC_VERSION, "/jsonrpc", index)
    yield from _response_faults(obj, profile, index) if kind == "response" else _call_faults(obj, kind, profile, index)
    if not profile.extra_members and not obj.keys() <= ENVELOPE_MEMBERS:
        yield _fault(ParseErrorCode.UNEXPECTED_MEMBER, "", index)


def _call_faults(obj: dict[str, Any], kind: ExpectedKind, profile: Profile, index: int | None) -> Iterator[Fault]:
    if "id" not in obj or _has_null_for_no_id(obj, profile):
        if kind == "request":
            yield Fault(ParseErrorCode.MISSING_ID, "/id", _MISSING_ID, index)
    elif kind == "notification":
        yield Fault(ParseErrorCode.UNEXPECTED_MEMBER, "/id", _WRONG_MEMBER.format(kind), index)
    elif not _is_valid_id(obj["id"], profile.null_request_ids, profile):
        yield _fault(ParseErrorCode.INVALID_ID_TYPE, "/id", index)
    for name in ("result", "error"):
        if name in obj:
            yield Fault(ParseErrorCode.AMBIGUOUS_MESSAGE, f"/{name}", _WRONG_MEMBER.format(kind), index)
    if "method" not in obj:
        yield Fault(ParseErrorCode.MISSING_METHOD, "/method", _MISSING_METHOD, index)
    elif not isinstance(obj["method"], str):
        yield _fault(ParseErrorCode.INVALID_METHOD_TYPE, "/method", index)
    elif not obj["method"]:
        yield _fault(ParseErrorCode.EMPTY_METHOD, "/method", index)
    if "params" in obj and not _are_valid_params(obj["params"], profile):
        yield _fault(ParseErrorCode.INVALID_PARAMS_TYPE, "/params", index)


def _response_faults(obj: dict[str, Any], profile: Profile, index: int | None) -> Iterator[Fault]:
    for name in ("method", "params"):
        # `params` is an extra member, ignored unless the profile refuses those.
        if name in obj and (name == "method" or not profile.extra_members):
            code = ParseErrorCode.AMBIGUOUS_MESSAGE if name == "method" else ParseErrorCode.UNEXPECTED_MEMBER
            yield Fault(code, f"/{name}", _WRONG_MEMBER.format("response"), index)
    present = {name for name in ("result", "error") if name in obj}
    if profile.null_companions and len(present) == 2:
        if _is_null(obj["error"]):
            present = {"result"}
        elif _is_null(obj["result"]):
            present = {"error"}
    is_error = present == {"error"}
    if "id" not in obj:
        if not (is_error and profile.errors_without_id):
            yield Fault(ParseErrorCode.MISSING_ID, "/id", _MISSING_ID, index)
    elif not _is_valid_id(obj["id"], is_error or profile.null_result_ids, profile):
        yield _fault(ParseErrorCode.INVALID_ID_TYPE, "/id", index)
    if not present:
        yield Fault(ParseErrorCode.MISSING_METHOD, "", _NEITHER, index)
    if len(present) == 2:
        yield _fault(ParseErrorCode.RESULT_AND_ERROR, "", index)
    if "result" in present and profile.object_results and not _is_object(obj["result"]):
        yield _fault(ParseErrorCode.INVALID_RESULT_TYPE, "/result", index)
    if "error" in present:
        yield from _error_faults(obj["error"], profile, index)


def _error_faults(error: object, profile: Profile, index: int | None) -> Iterator[Fault]:
    if not isinstance(error, dict):
        yield _fault(ParseErrorCode.INVALID_ERROR_TYPE, "/error", index)
        return
    if not is_error_code(error.get("code")):
        yield _fault(ParseErrorCode.INVALID_ERROR_CODE, "/error/code", index)
    if not isinstance(error.get("message"), str):
        yield _fault(ParseErrorCode.INVALID_ERROR_MESSAGE, "/error/message", index)
    if not profile.extra_members and not error.keys() <= ERROR_MEMBERS:
        yield _fault(ParseErrorCode.UNEXPECTED_MEMBER, "/error", index)


def _has_null_for_no_id(obj: dict[str, Any], profile: Profile) -> bool:
    """Whether the null id of an object marks a notification of JSON-RPC 1.0."""
    return profile.optional_jsonrpc and "jsonrpc" not in obj and obj.get("id", "") is None


def _kind_of(item: object, profile: Profile) -> ExpectedKind:
    """The kind of an item of a batch, by the same members as in `parse`."""
    if not isinstance(item, dict) or "method" in item or not item.keys() & {"result", "error"}:
        is_notification = (
            isinstance(item, dict) and "method" in item and ("id" not in item or _has_null_for_no_id(item, profile))
        )
        return "notification" if is_notification else "request"
    return "response"


def _with_reply_kind(report: Report, parsed: object) -> Report:
    """The report, as one on a request if the sender of an invalid notification expects a reply."""
    is_request = report.kind == "notification" and isinstance(parsed, ParseError) and parsed.reply_expected
    return replace(report, kind="request") if is_request else report


def _is_valid_id(id: object, null_allowed: bool, profile: Profile) -> bool:
    if isinstance(id, str):
        return not has_surrogates(id)
    if isinstance(id, float):
        return profile.float_ids and math.isfinite(id)
    return null_allowed if id is None else isinstance(id, int) and not isinstance(id, bool)


def _is_id_too_long(id: object, profile: Profile) -> bool:
    limit = profile.limits.id_bytes
    if isinstance(id, str):
        return is_longer(id, limit)
    return isinstance(id, int) and is_integer_longer(id, limit)


def _are_valid_params(params: object, profile: Profile) -> bool:
    if _is_object(params) or (profile.null_params and _is_null(params)):
        return True
    is_array = isinstance(params, list) or (isinstance(params, Raw) and bytes(params).startswith(b"["))
    return profile.array_params and is_array


def _is_object(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, Raw) and bytes(value).startswith(b"{"))


def _is_null(value: object) -> bool:
    return value is None or (isinstance(value, Raw) and bytes(value) == b"null")


def _fault(code: ParseErrorCode, path: str = "", index: int | None = None) -> Fault:
    return Fault(code, path, code.value, index)


def _field(record: object, name: str, names: tuple[str, ...]) -> Any:
    if name not in names:
        raise KeyError(name)
    return getattr(record, name)


def _response(id: MessageId, code: ErrorCode) -> Response:
    return Response(id, error=Error(code, RPC_MESSAGES[code]))


def _log(errors: tuple[Fault, ...]) -> None:
    from ._logs import logger_of  # `import jsonrpc_fast` must not load logging

    found = ", ".join(f"{fault.code.name} at {fault.path or 'the message'}" for fault in errors)
    logger_of("validator").error("an outgoing response is invalid: %s", found)
