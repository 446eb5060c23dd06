"""Validation that reports every fault of a message, not only the first: for relays, logs and tests of peers.

    report = JsonRpcValidator(MCP_2025_11_25).validate_request(obj)
    if not report.valid:
        for fault in report.errors: ...              # fault.code, fault.path, fault.message, fault.index
        response = report.error_response()

Validation agrees with `parse`, except that no profile allows an empty method in a request or a notification. A report
contains no part of the message except its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any, Concatenate, Final, Generic, Literal, overload

from .codec import Error, Notification, ParseError, Raw, Request, Response, parse, rules
from .codec._kinds import kinds_of
from .codec.rules import Kinds
from .codes import RPC_MESSAGES, ErrorCode, ParseErrorCode
from .profile import JSONRPC, Profile, check_profile, plain_profile
from .support import logger_of
from .types import MessageId, P, T

__all__ = ["Fault", "JsonRpcValidator", "Report"]

ReportKind = Literal["request", "notification", "response", "batch"]


_TEXTS: Final = {
    (ParseErrorCode.MISSING_ID, "id"): "id is missing",
    (ParseErrorCode.MISSING_METHOD, "method"): "method is missing",
    (ParseErrorCode.MISSING_METHOD, ""): "the response has no result or error",
    **{
        (code, member): "a {} does not have this member"
        for code, members in (
            (ParseErrorCode.AMBIGUOUS_MESSAGE, ("method", "result", "error")),
            (ParseErrorCode.UNEXPECTED_MEMBER, ("id", "params")),
        )
        for member in members
    },
}
"""The texts of faults whose wording depends on the expected kind of message."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule that a message breaks. Fields are also readable as `fault["code"]`.

    Attributes:
        code: The rule.
        path: A JSON pointer (RFC 6901) into the message; "" for the whole message.
        message: A description of the fault.
        index: The position in the batch, counted from 0, or None.
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
        valid: Whether there is no fault.
        errors: Every fault; for a batch, those of its items too.
        kind: The expected kind of message.
        id: The id of the message if it is certain, else None.
        items: The reports of the items of a batch.
    """

    valid: bool
    errors: tuple[Fault, ...]
    kind: ReportKind
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
            a response, -32603 with the same id; its faults are a bug on this side, and are logged to `jsonrpc_fast`.
            For a batch, a list with the responses to its items, or -32600 if it is not a batch.
        """
        # Section 4.1: there is no response to a notification, not even to an invalid one.
        if self.valid or self.kind == "notification":
            return None
        # An invalid response must not be sent. Its request still gets one, because its sender waits for it.
        if self.kind == "response":
            _log(self.errors)
            return _response(self.id, ErrorCode.INTERNAL_ERROR)
        if self.items:
            return [response for item in self.items if isinstance(response := item.error_response(), Response)]
        return _response(self.id, ErrorCode.INVALID_REQUEST)


class _OnClassToo(Generic[P, T]):
    """A method that may also be called on the class, which then uses a validator with the default profile."""

    def __init__(self, function: Callable[Concatenate[JsonRpcValidator, P], T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, validator: JsonRpcValidator | None, cls: type[JsonRpcValidator]) -> Callable[P, T]:
        return MethodType(self._function, cls() if validator is None else validator)


class JsonRpcValidator:
    """Validate messages that are dicts against the rules of a profile.

    Args:
        profile: The rules. The methods may also be called on the class, for those of `JSONRPC`.

    Raises:
        TypeError: `profile` is not a Profile.
    """

    __slots__ = ("_profile",)

    def __init__(self, profile: Profile = JSONRPC) -> None:
        check_profile(profile)
        # Section 4 calls the method a name. Decoding accepts "" where the profile does, since real peers send it.
        self._profile = plain_profile(profile).replace(empty_methods=False)

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
            return Report(False, (Fault(ParseErrorCode.NOT_AN_OBJECT, "", "the batch is not an array"),), "batch")
        parsed: Any = parse(obj, profile)
        if isinstance(parsed, ParseError):
            return Report(False, (Fault(parsed.code, "", parsed.code.value),), "batch")
        # Section 6: each item is checked separately, and an invalid one gets a response of its own.
        items = tuple(
            _as_request(self._validate(item, rules.apparent_kind(self._kinds(item), profile), index), parsed[index])
            for index, item in enumerate(obj)
        )
        errors = tuple(fault for item in items for fault in item.errors)
        return Report(not errors, errors, "batch", items=items)

    def _validate(self, obj: object, kind: rules.ExpectedKind, index: int | None = None) -> Report:
        # A valid message costs one `parse`; the kinds of its members are needed only if it has a fault. `parse` would
        # read an array as a batch; here one message is expected.
        message: Any = ParseError.not_an_object() if isinstance(obj, list) else parse(obj, self._profile)
        id = None if isinstance(message, Notification) else message.id
        if type(message) is {"request": Request, "notification": Notification, "response": Response}[kind]:
            return Report(True, (), kind, id)
        return Report(False, tuple(_faults(self._kinds(obj), kind, self._profile, index)), kind, id)

    def _kinds(self, obj: object) -> Kinds:
        return rules.kinds_of_bits(kinds_of(obj, self._profile.limits, Raw))


def _faults(kinds: Kinds, kind: rules.ExpectedKind, profile: Profile, index: int | None) -> Iterator[Fault]:
    """Return every fault of a message of an expected kind, in the order of `parse`."""
    for code, member in rules.faults(kinds, profile, kind):
        text = _TEXTS.get((code, member), code.value).format(kind)
        yield Fault(code, f"/{member}" if member else "", text, index)


def _as_request(report: Report, parsed: object) -> Report:
    """Return the report, or one on a request if the sender of an invalid notification expects a response."""
    is_request = report.kind == "notification" and isinstance(parsed, ParseError) and parsed.reply_expected
    return replace(report, kind="request") if is_request else report


def _field(record: object, name: str, names: tuple[str, ...]) -> Any:
    if name not in names:
        raise KeyError(name)
    return getattr(record, name)


def _response(id: MessageId, code: ErrorCode) -> Response:
    return Response(id, error=Error(code, RPC_MESSAGES[code]))


def _log(errors: tuple[Fault, ...]) -> None:
    found = ", ".join(f"{fault.code.name} at {fault.path or 'the message'}" for fault in errors)
    logger_of("validator").error("an outgoing response is invalid: %s", found)
