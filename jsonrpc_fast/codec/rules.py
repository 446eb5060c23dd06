"""The rules of a message. This is the specification: no rule is stated anywhere else.

A scanner names the *kind* of each member (`Kinds`); `faults` returns the faults of these kinds in a profile, in order.
Decoding reports the first fault, the validator all of them. Section numbers are those of the JSON-RPC specification.

Rules:
  - This module reads no input and no values, only kinds.
  - A backend writes kinds as one number (`bits`), and caches by profile what `verdict` returns for it. The function is
    pure: it depends only on the number and on the fields of the profile.
  - Reading a profile runs no code of the caller: backends pass what `plain_profile` returns.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, get_args

from ..codes import ParseErrorCode
from ..profile import Profile

VersionKind = Literal["absent", "2.0", "other"]
IdKind = Literal["absent", "null", "integer", "string", "float", "too long", "other"]
"""The kind of an id. A number that cannot be echoed exactly, and a string with a lone surrogate, are "other"."""

MethodKind = Literal["absent", "string", "empty", "too long", "other"]
ParamsKind = Literal["absent", "null", "object", "array", "other"]
ObjectKind = Literal["absent", "null", "object", "other"]
MessageKind = Literal["request", "notification", "result", "error"]
ExpectedKind = Literal["request", "notification", "response"]
BatchSize = Literal["empty", "allowed", "too large"]


class Kinds(NamedTuple):
    """The report of a scanner on a message.

    Attributes:
        jsonrpc: The kind of the member, as are the next five.
        has_error_code: The error has a code, which is a 64-bit integer.
        has_error_message: The error has a message, which is a string.
        has_extra_in_error: The error has a member that JSON-RPC does not define.
        has_extra: The message has a member that JSON-RPC does not define.
        is_too_deep: A member nests deeper than the limit.
        has_wide_integer: There is an integer beyond 64 bits that the profile does not decode.
        has_duplicate: A member of the envelope occurs twice.
        is_no_object: The message is another JSON value.
    """

    jsonrpc: VersionKind = "absent"
    id: IdKind = "absent"
    method: MethodKind = "absent"
    params: ParamsKind = "absent"
    result: ObjectKind = "absent"
    error: ObjectKind = "absent"
    has_error_code: bool = False
    has_error_message: bool = False
    has_extra_in_error: bool = False
    has_extra: bool = False
    is_too_deep: bool = False
    has_wide_integer: bool = False
    has_duplicate: bool = False
    is_no_object: bool = False


class RuleFault(NamedTuple):
    """A broken rule, and the member that breaks it: its path from the message; "" for the message as a whole."""

    code: ParseErrorCode
    member: str = ""


def faults(kinds: Kinds, profile: Profile, expected: ExpectedKind | None = None) -> tuple[RuleFault, ...]:
    """Return every fault of a message, in the order in which decoding reports them.

    `expected` is the kind of message that it must be; None for the kind that it looks like.
    """
    found: list[RuleFault] = []
    # Bounds come before rules: a scanner replaces a value beyond a bound by a placeholder, to which the rules do not
    # apply.
    if kinds.is_too_deep:
        found.append(RuleFault(ParseErrorCode.TOO_DEEP))
    if kinds.is_no_object:  # no member to check
        found.append(RuleFault(ParseErrorCode.NOT_AN_OBJECT))
        return tuple(found)
    if kinds.method == "too long":
        found.append(RuleFault(ParseErrorCode.METHOD_TOO_LONG, "method"))
    if kinds.id == "too long":
        found.append(RuleFault(ParseErrorCode.ID_TOO_LONG, "id"))
    if kinds.has_wide_integer:
        found.append(RuleFault(ParseErrorCode.INTEGER_TOO_LARGE))
    if kinds.has_duplicate:
        found.append(RuleFault(ParseErrorCode.DUPLICATE_MEMBER))
    # The version is checked before the members whose meaning it defines.
    if kinds.jsonrpc == "other":  # section 4: it must be exactly "2.0"
        found.append(RuleFault(ParseErrorCode.INVALID_JSONRPC_VERSION, "jsonrpc"))
    elif kinds.jsonrpc == "absent" and not profile.optional_jsonrpc:
        found.append(RuleFault(ParseErrorCode.MISSING_JSONRPC, "jsonrpc"))
    if (expected or apparent_kind(kinds, profile)) == "response":
        found += _response_faults(kinds, profile)
    else:
        found += _call_faults(kinds, profile, expected)
    if kinds.has_extra and not profile.extra_members:
        found.append(RuleFault(ParseErrorCode.UNEXPECTED_MEMBER))
    return tuple(found)


def _call_faults(kinds: Kinds, profile: Profile, expected: ExpectedKind | None) -> list[RuleFault]:
    """The faults of a request or a notification (section 4)."""
    found: list[RuleFault] = []
    is_notification = _is_notification(kinds, profile)
    # Only the validator passes `expected`: for decoding, a call without an id is simply a notification.
    if is_notification and expected == "request":
        found.append(RuleFault(ParseErrorCode.MISSING_ID, "id"))
    elif not is_notification and expected == "notification":
        found.append(RuleFault(ParseErrorCode.UNEXPECTED_MEMBER, "id"))
    elif not is_notification and not _is_id_allowed(kinds.id, profile.null_request_ids, profile):
        found.append(RuleFault(ParseErrorCode.INVALID_ID_TYPE, "id"))
    if kinds.result != "absent":
        found.append(RuleFault(ParseErrorCode.AMBIGUOUS_MESSAGE, "result"))
    if kinds.error != "absent":
        found.append(RuleFault(ParseErrorCode.AMBIGUOUS_MESSAGE, "error"))
    if kinds.method == "absent":
        found.append(RuleFault(ParseErrorCode.MISSING_METHOD, "method"))
    elif kinds.method == "other":
        found.append(RuleFault(ParseErrorCode.INVALID_METHOD_TYPE, "method"))
    elif kinds.method == "empty" and not profile.empty_methods:
        found.append(RuleFault(ParseErrorCode.EMPTY_METHOD, "method"))
    allowed = {"absent": True, "null": bool(profile.null_members), "object": True, "array": profile.array_params}
    if not allowed.get(kinds.params, False):  # section 4.2
        found.append(RuleFault(ParseErrorCode.INVALID_PARAMS_TYPE, "params"))
    return found


def _response_faults(kinds: Kinds, profile: Profile) -> list[RuleFault]:
    """The faults of a response (section 5)."""
    found: list[RuleFault] = []
    has_result, has_error = _outcome(kinds, profile)
    is_error = has_error and not has_result
    if kinds.method != "absent" and not profile.repeated_calls:
        found.append(RuleFault(ParseErrorCode.AMBIGUOUS_MESSAGE, "method"))
    if kinds.id == "absent":
        if profile.missing_ids is not True and not (is_error and profile.missing_ids):
            found.append(RuleFault(ParseErrorCode.MISSING_ID, "id"))
    # Section 5: the id of an error is null if the id of the request could not be read.
    elif not _is_id_allowed(kinds.id, is_error or profile.null_result_ids, profile):
        found.append(RuleFault(ParseErrorCode.INVALID_ID_TYPE, "id"))
    # Only if a response is expected: otherwise a message with neither looks like a request.
    if not has_result and not has_error:
        found.append(RuleFault(ParseErrorCode.MISSING_METHOD))
    if has_result and has_error:
        found.append(RuleFault(ParseErrorCode.RESULT_AND_ERROR))
    if has_result and profile.object_results and kinds.result != "object":
        found.append(RuleFault(ParseErrorCode.INVALID_RESULT_TYPE, "result"))
    is_usual = kinds.has_error_code and kinds.has_error_message
    # Section 5.1. JSON-RPC 1.0 does not say what an error is, except that it is not null.
    if has_error and kinds.error != "object" and (kinds.error == "null" or not profile.any_errors):
        found.append(RuleFault(ParseErrorCode.INVALID_ERROR_TYPE, "error"))
    elif has_error and (is_usual or not profile.any_errors):
        if not kinds.has_error_code:
            found.append(RuleFault(ParseErrorCode.INVALID_ERROR_CODE, "error/code"))
        if not kinds.has_error_message:
            found.append(RuleFault(ParseErrorCode.INVALID_ERROR_MESSAGE, "error/message"))
        if kinds.has_extra_in_error and not profile.extra_members:
            found.append(RuleFault(ParseErrorCode.UNEXPECTED_MEMBER, "error"))
    # `params` has no meaning in a response.
    if kinds.params != "absent" and not (profile.extra_members or profile.repeated_calls):
        found.append(RuleFault(ParseErrorCode.UNEXPECTED_MEMBER, "params"))
    return found


def _outcome(kinds: Kinds, profile: Profile) -> tuple[bool, bool]:
    """Whether a response has a result, and whether it has an error; null companions are absent."""
    has_result, has_error = kinds.result != "absent", kinds.error != "absent"
    # JSON-RPC 1.0 requires both members, one of them null (specification 1.0, section 1.2). If both are null, the
    # result is null.
    if profile.null_members is True and has_result and has_error:
        if kinds.error == "null":
            has_error = False
        elif kinds.result == "null":
            has_result = False
    return has_result, has_error


def _is_notification(kinds: Kinds, profile: Profile) -> bool:
    """Whether a call is a notification: it has no id or, in JSON-RPC 1.0 (without `jsonrpc`), the id null."""
    return kinds.id == "absent" or (kinds.id == "null" and kinds.jsonrpc == "absent" and profile.optional_jsonrpc)


def _is_id_allowed(kind: IdKind, null_allowed: bool, profile: Profile) -> bool:
    if kind == "null":
        return null_allowed
    return kind in ("integer", "string", "too long") or (kind == "float" and profile.float_ids)


def _looks_like_response(kinds: Kinds) -> bool:
    return kinds.result != "absent" or kinds.error != "absent"


def _is_repeated(kinds: Kinds, profile: Profile) -> bool:
    """Whether the method is that of the request which this response repeats."""
    return profile.repeated_calls and _looks_like_response(kinds)


def apparent_kind(kinds: Kinds, profile: Profile) -> ExpectedKind:
    """Return which kind of message this looks like, valid or not."""
    if kinds.method != "absent" and not _is_repeated(kinds, profile):
        return "notification" if _is_notification(kinds, profile) else "request"
    return "response" if _looks_like_response(kinds) else "request"


def message_kind(kinds: Kinds, profile: Profile) -> MessageKind:
    """Return the kind of a valid message."""
    if kinds.method == "absent" or _is_repeated(kinds, profile):
        return "result" if _outcome(kinds, profile)[0] else "error"
    return "notification" if _is_notification(kinds, profile) else "request"


def is_id_certain(kinds: Kinds, profile: Profile) -> bool:
    """Return whether a fault of a message may carry the message's id: it is unambiguous, not null, and allowed."""
    return not kinds.has_duplicate and kinds.id != "too long" and _is_id_allowed(kinds.id, False, profile)


def is_reply_expected(kinds: Kinds) -> bool:
    """Return whether the sender of an invalid message expects an error response: not for what looks like a response or
    a notification."""
    looks_like_notification = kinds.id == "absent" and kinds.method in ("string", "empty", "too long")
    # Two sides that sent an error response to each error response would never end; section 4.1 forbids any response to
    # a notification.
    return not _looks_like_response(kinds) and not looks_like_notification


def batch_fault(size: BatchSize, profile: Profile) -> ParseErrorCode | None:
    """Return the fault of a batch as a whole (section 6); None for a batch whose items are checked."""
    if not profile.batches:
        return ParseErrorCode.BATCH_NOT_ALLOWED
    if size == "too large":
        return ParseErrorCode.BATCH_TOO_LARGE
    return ParseErrorCode.EMPTY_BATCH if size == "empty" else None


# Kinds and verdicts as numbers, for the tables of the backends.

_FLAG: Final = (False, True)
DOMAIN: Final[dict[str, tuple[Any, ...]]] = {
    "jsonrpc": get_args(VersionKind),
    "id": get_args(IdKind),
    "method": get_args(MethodKind),
    "params": get_args(ParamsKind),
    "result": get_args(ObjectKind),
    "error": get_args(ObjectKind),
    **{name: _FLAG for name in Kinds._fields if name.startswith(("has_", "is_"))},
}
"""Each field of `Kinds` with its values. A message without members has the first value of each."""


def _shifts() -> dict[str, tuple[int, int]]:
    """The place of each field in the number: its lowest bit, and the mask of its value."""
    shifts = {}
    lowest = 0
    for name, values in DOMAIN.items():
        width = (len(values) - 1).bit_length()
        shifts[name] = lowest, (1 << width) - 1
        lowest += width
    return shifts


_SHIFTS: Final = _shifts()
KIND_BITS: Final = sum([mask.bit_length() for _, mask in _SHIFTS.values()])
"""How many bits a number of kinds has. Nearly all messages differ only in the lower half of them."""


def bits(field: str, value: str | bool = True) -> int:
    """Return one kind as a number. The numbers of different fields add up to that of a message."""
    return DOMAIN[field].index(value) << _SHIFTS[field][0]


def kinds_of_bits(number: int) -> Kinds:
    """Return the kinds whose number this is."""
    return Kinds(*[DOMAIN[name][number >> shift & mask] for name, (shift, mask) in _SHIFTS.items()])


MAX_PROFILES: Final = 64
"""The number of profiles for which a backend keeps verdicts. One more clears them all: programs make few profiles."""


class Verdict(NamedTuple):
    """The verdict on a message: its fault, or its kind.

    Attributes:
        fault: The first fault; None for a valid message.
        kind: The kind of a valid message.
        is_id_certain: The fault carries the id.
        reply_expected: The sender of an invalid message expects an error response.
    """

    fault: ParseErrorCode | None
    kind: MessageKind
    is_id_certain: bool
    reply_expected: bool


MESSAGE_KINDS: Final[tuple[MessageKind, ...]] = get_args(MessageKind)
VERDICTS: Final[tuple[Verdict, ...]] = tuple(
    [
        Verdict(fault, kind, certain, expected)
        for fault, kinds in ((None, MESSAGE_KINDS), *[(code, MESSAGE_KINDS[:1]) for code in ParseErrorCode])
        for kind in kinds
        for certain in _FLAG
        for expected in _FLAG
    ]
)
"""Every verdict, so that a table needs one byte for each. All faults have the first kind."""

_PLACES: Final = {verdict: place for place, verdict in enumerate(VERDICTS)}


def verdict(number: int, profile: Profile) -> int:
    """Return the place in `VERDICTS` of the verdict on a message with these kinds. It is less than 255."""
    kinds = kinds_of_bits(number)
    found = faults(kinds, profile)
    kind = MESSAGE_KINDS[0] if found else message_kind(kinds, profile)
    # The key is a plain tuple, which equals a `Verdict`.
    return _PLACES[found[0].code if found else None, kind, is_id_certain(kinds, profile), is_reply_expected(kinds)]  # type: ignore[index]
