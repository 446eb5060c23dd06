"""The codec in plain Python: the specification that the compiled core agrees with on every input.

Rules:
  - The scanner (`_scanner`) finds the members of each message. They are read into a dict, and the dict becomes a
    message or a fault (`_messages`) by the rules of `rules.py`.
  - The scanner also reports what a dict cannot show: duplicate members, numbers that a float would change, the depth,
    and where the input stops being JSON.
"""

from __future__ import annotations

import codecs
from contextlib import suppress
from typing import Any, Final, Literal, overload

from ..codes import Hint, ParseErrorCode
from ..errors import not_a_dict, with_hint
from ..framing.frames import Framing
from ..profile import HEAD_BYTES, JSONRPC, Limits, Profile
from ..support import HANDLER_FAILURES
from ..types import ENVELOPE_MEMBERS, ERROR_MEMBERS, Classification, has_type, is_awaitable
from ._dicts import check_faults, dicts_of, write_dict
from ._json import Default, JSONDecodeError, check_option, exact_number, loads
from ._json import dumps as dumps_json  # noqa: F401  # the core has one of its own
from ._kinds import is_error_object, kinds_of
from ._messages import (
    Error,
    M,
    Message,
    Notification,
    ParseError,
    Raw,
    RawMessage,
    Request,
    Response,
    Rules,
    as_it_is,
    default_in,
    encode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    fault_in,
    fault_with_id,
    message_of,
    refused_batch,
    rules_of,
    settled_by,
    to_bytes,
)
from ._messages import make_fault as _make_fault
from ._messages import make_raw as _make_raw
from ._messages import make_with_extra as _make_with_extra
from ._pure_fast import read_dicts, with_fast_path
from ._scanner import (
    Envelope,
    Head,
    Malformed,
    ScannedValue,
    scan,
    scan_begun,
    scan_error,
    scan_head,
    scan_unexpected,
    without_surrogates,
)
from ._serving import Called, Find, call_plain
from ._serving import PlainServer as PlainServer
from ._serving import ServedCoroutine as ServedCoroutine
from ._shared import DECIMALS, NO_WIDE_INTEGERS, check_numbers, loads_as
from ._stream import Place, StreamDecoder
from .rules import bits

_TOO_DEEP: Final = bits("is_too_deep")
_WIDE_INTEGER: Final = bits("has_wide_integer")
_DUPLICATE: Final = bits("has_duplicate")
_NO_JSON_TYPE: Final = object()


def parse(obj: object, profile: Profile = JSONRPC) -> Message | list[Message]:
    """Validate a message or a batch that is decoded from JSON already.

    What only the text shows is not checked: duplicate members, the size and the depth.

    Args:
        obj: A dict, or a list or a tuple of them.
        profile: The rules.

    Returns:
        What `decode` returns.

    Raises:
        TypeError: `profile` is not a Profile.
    """
    rules = rules_of(profile)
    if type(obj) is tuple:
        obj = list(obj)
    if not has_type(obj, list):
        return message_of(as_it_is(obj), rules)
    code = rules.batch_fault(len(obj))
    if code is not None:
        return refused_batch(code, [message_of(as_it_is(item), rules) for item in obj[: rules.limits.batch_items]])
    return [message_of(as_it_is(item), rules, index) for index, item in enumerate(obj)]


@overload
def decode(
    data: bytes | bytearray | memoryview | str, profile: Profile = JSONRPC, *, raw: Literal[False] = False
) -> Message | list[Message]: ...


@overload
def decode(
    data: bytes | bytearray | memoryview | str, profile: Profile = JSONRPC, *, raw: Literal[True]
) -> RawMessage | list[RawMessage]: ...


@overload
def decode(
    data: bytes | bytearray | memoryview | str, profile: Profile = JSONRPC, *, raw: bool
) -> Message | RawMessage | list[Message] | list[RawMessage]: ...


@with_fast_path
def decode(
    data: bytes | bytearray | memoryview | str, profile: Profile = JSONRPC, *, raw: bool = False
) -> Message | RawMessage | list[Message] | list[RawMessage]:
    """Decode and validate one JSON text.

    Args:
        data: UTF-8 bytes, or a str.
        profile: The rules.
        raw: Leave `params`, `result` and the `data` of an error as `Raw`: checked but not decoded.

    Returns:
        A Request, a Notification, a Response or a ParseError; for a batch a list of these, each item checked on its
        own. A fault of the text is returned, never raised.

    Raises:
        TypeError: `data` or `profile` has another type.
    """
    rules = rules_of(profile)
    text = to_bytes(data)
    if len(text) > rules.message_bytes:
        return too_large_fault(text[: min(rules.message_bytes, HEAD_BYTES)], profile)
    # Faults of the text come first: bytes that are not UTF-8 are not JSON, whatever the rest looks like. The decoded
    # text is dropped, because offsets count bytes.
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return _fault_of_text(ParseErrorCode.INVALID_UTF8, text, error.start, rules)
    try:
        found = scan(text, batch_items=rules.limits.batch_items)
    except Malformed as malformed:
        return _malformed(text, malformed.offset, rules)
    if not found.is_batch:
        return _read_envelope(text, found.envelopes[0], rules, None, raw)
    code = rules.batch_fault(len(found.envelopes) + found.too_many)
    if code is not None:
        return refused_batch(code, (_read_envelope(text, item, rules, None, True) for item in found.envelopes))
    return [_read_envelope(text, item, rules, index, raw) for index, item in enumerate(found.envelopes)]


def _malformed(text: bytes, offset: int, rules: Rules) -> ParseError:
    """The fault of input that stops being JSON at `offset`, with the id if lone surrogates are the only fault."""
    # A lone surrogate is reported at its backslash. Only after this fault is the rest of the input readable. The peer
    # may wait for a response, so the id is worth a second scan.
    if text[offset : offset + 1] == b"\\":
        try:
            found = scan(without_surrogates(text), batch_items=1)
        except Malformed:
            pass
        else:
            members = found.envelopes[0].members
            if members is not None and not found.is_batch:
                obj = {name: _read_certain(text, name, value, rules) for name, value in members.items()}
                kinds = _DUPLICATE if found.envelopes[0].duplicates else 0
                return fault_with_id(ParseErrorCode.MALFORMED_JSON, obj, rules, kinds, offset)
    fault = _fault_of_text(ParseErrorCode.MALFORMED_JSON, text, offset, rules)
    if text[offset : offset + 1] in (b"{", b"["):
        with suppress(Malformed):  # what stands before it is no whole message
            if not scan(text[:offset], batch_items=1).is_batch:
                with_hint(fault, Hint.SEVERAL_MESSAGES)
    return fault


def _fault_of_text(code: ParseErrorCode, text: bytes, offset: int, rules: Rules) -> ParseError:
    """The fault of a text that is readable up to `offset`, with the ids of the responses before it."""
    begun, head, end = scan_begun(text[:offset], rules.limits.batch_items)
    settles = settled_by(_read_envelope(text, envelope, rules, None, True) for envelope in begun)
    last = _fault_of_head(code, text, head, end, rules)
    expected = last.reply_expected and not settles
    return ParseError(code, offset=offset, reply_expected=expected, settles=(*settles, *last.settles))


def too_large_fault(head: bytes, profile: Profile) -> ParseError:
    """The fault of input over the size limit, from its beginning.

    The id is certain if the head is the beginning of JSON, has no duplicate member, holds the whole id, and holds the
    name of a member that distinguishes a request from a response. A second id after the head is not seen: its sender
    breaks the rules, and the fault carries the first id.
    """
    try:
        # The head may end inside a character: `final=False` drops the bytes of an incomplete one.
        head = head[: codecs.utf_8_decode(head, "strict", False)[1]]
    except UnicodeDecodeError:
        return ParseError(ParseErrorCode.MESSAGE_TOO_LARGE)
    found = scan_head(without_surrogates(head))
    if found is None or not {"method", "params", "result", "error"}.intersection(found.names):
        return ParseError(ParseErrorCode.MESSAGE_TOO_LARGE)
    return _fault_of_head(ParseErrorCode.MESSAGE_TOO_LARGE, head, found, len(head), rules_of(profile))


def _fault_of_head(code: ParseErrorCode, text: bytes, head: Head, end: int, rules: Rules) -> ParseError:
    """The fault of a message whose members up to `end` are known, with the id if it is certain."""
    # Only the names of the members matter here: `kinds_of` sees null in place of every value but the id. It is not
    # known whether the message has an id, so that it does not look like a notification.
    obj: dict[str, Any] = dict.fromkeys(head.names)
    value = head.members.get("id")
    if value is not None and value.end < end:  # a number at the end may continue
        obj["id"] = _read_certain(text, "id", value, rules)
    kinds = _DUPLICATE if len(obj) < len(head.names) else 0
    return fault_with_id(code, obj, rules, kinds)


def _read_certain(text: bytes, name: str, value: ScannedValue, rules: Rules) -> object:
    """The member for `fault_with_id`: the id, without lone surrogates, or a str if the method is a string."""
    token = text[value.start : value.end]
    if name == "method":
        return "" if token.startswith(b'"') else None
    if name != "id":
        return None
    try:
        return _read_id(token, rules.limits.id_bytes)
    except JSONDecodeError:
        return None


def _read_envelope(text: bytes, envelope: Envelope, rules: Rules, index: int | None, raw: bool) -> Message:
    """The message in an envelope, or its fault."""
    profile = rules.profile
    depth = rules.limits.depth
    kinds = _TOO_DEEP if envelope.depth > depth else 0
    # Decoding reports the first fault, so `is_too_deep` is passed on: it comes before NOT_AN_OBJECT.
    if envelope.members is None:
        return message_of(None, rules, index, kinds)
    if envelope.duplicates:
        kinds |= _DUPLICATE
    obj: dict[str, Any] = {}
    members = list(envelope.members.items())
    if envelope.unexpected:
        if profile.extra_members == "keep":
            members += scan_unexpected(text, envelope.start, ENVELOPE_MEMBERS)
        else:
            # `kinds_of` only checks whether there is such a member, so one name is enough.
            obj["?"] = None
    for name, value in members:
        # Values beyond a bound are never decoded: None replaces them, and the fault of the bound is reported first.
        if name == "id":
            obj[name] = _read_id(text[value.start : value.end], rules.limits.id_bytes)
        elif value.depth > depth:
            obj[name] = None
        elif not _are_numbers_allowed(text, value, rules):
            kinds |= _WIDE_INTEGER
            obj[name] = None
        elif raw and name == "error":
            obj[name] = _read_error(text, value, rules)
        else:
            obj[name] = _read(text, value, rules, raw and name in ("params", "result"))
    message = message_of(obj, rules, index, kinds)
    if envelope.duplicates == 1 and has_type(message, ParseError) and not message.reply_expected:
        # The id of the response is there once.
        is_certain = rules[kinds_of(obj, rules.limits, Raw)].is_id_certain
        if message.code is ParseErrorCode.DUPLICATE_MEMBER and is_certain:
            return ParseError(message.code, index=index, reply_expected=False, settles=(obj["id"],))
    return message


def _read_error(text: bytes, value: ScannedValue, rules: Rules) -> Any:
    """An error object with its data as `Raw`; an error of another shape, if the profile allows it, as a whole."""
    error = scan_error(text, value)
    if error is None:
        return _read(text, value, rules, raw=rules.profile.any_errors)
    keeps_extra = rules.profile.extra_members == "keep"
    inside = list((error.members or {}).items())
    if error.unexpected and keeps_extra:
        inside += scan_unexpected(text, error.start, ERROR_MEMBERS)
    obj = {name: _read(text, at, rules, raw=name == "data") for name, at in inside}
    if rules.profile.any_errors and not is_error_object(obj):
        return _read(text, value, rules, raw=True)
    if error.unexpected and not keeps_extra:
        obj["?"] = None
    return obj


def _are_numbers_allowed(text: bytes, value: ScannedValue, rules: Rules) -> bool:
    """Whether the profile decodes each number in a value."""
    if value.wide and rules.numbers & NO_WIDE_INTEGERS:
        return False
    if value.wide or rules.numbers & DECIMALS:
        try:
            check_numbers(text[value.start : value.end], rules.numbers & DECIMALS)
        except ValueError:
            return False
    return True


def _read(text: bytes, value: ScannedValue, rules: Rules, raw: bool) -> Any:
    token = text[value.start : value.end]
    numbers = rules.numbers & DECIMALS
    return _make_raw(token, numbers) if raw else loads_as(token, numbers)


def _read_id(token: bytes, limit: int) -> object:
    if token[0] in b"-0123456789":
        if len(token) > limit:
            # Any integer over the limit gives ID_TOO_LONG. `int` of a long token would take quadratic time, or raise.
            return 10**limit
        number = exact_number(token)
        return _NO_JSON_TYPE if number is None else number
    # An array or an object is not an id, and is not decoded: it may be of any size.
    if token[0] in b"{[":
        return _NO_JSON_TYPE
    return loads(token)


def classify(data: bytes | bytearray | memoryview | str) -> Classification:
    """Return the kind, method and id of the message that `decode(data)` returns.

    Raises:
        TypeError: `data` has another type than `decode` takes.
    """
    message = decode(data)
    if has_type(message, Request):
        return Classification("request", message.method, message.id)
    if has_type(message, Notification):
        return Classification("notification", message.method)
    if has_type(message, Response):
        return Classification("error" if message.is_error else "result", None, message.id)
    if has_type(message, list):
        return Classification("batch")
    return Classification("invalid", None, message.id)


@overload
def decode_dict(
    data: bytes | bytearray | memoryview | str, profile: Profile = JSONRPC, *, faults: Literal["raise"] = "raise"
) -> dict[str, Any] | list[dict[str, Any]]: ...


@overload
def decode_dict(
    data: bytes | bytearray | memoryview | str, profile: Profile = JSONRPC, *, faults: Literal["keep"]
) -> dict[str, Any] | list[dict[str, Any] | ParseError]: ...


def decode_dict(
    data: bytes | bytearray | memoryview | str,
    profile: Profile = JSONRPC,
    *,
    faults: Literal["raise", "keep"] = "raise",
) -> dict[str, Any] | list[dict[str, Any]] | list[dict[str, Any] | ParseError]:
    """Validate one JSON text and return it as a dict, or a list of them, that holds everything in the text.

    The rules are those of `decode`, but no member is dropped.

    Args:
        data: UTF-8 bytes, or a str.
        profile: The rules.
        faults: What to do with an invalid item of a batch: raise the first one's fault ("raise"), whose `index` says
            which it is, or put the ParseError in place of the item ("keep").

    Returns:
        The message; for a batch a list of them.

    Raises:
        ParseError: `data` is not a valid message or batch; with `faults="raise"`, also for an item of a batch.
        TypeError: `data` or `profile` has another type.
        ValueError: `faults` has another value.
    """
    rules = rules_of(profile)  # raises TypeError for an argument that is not a Profile, whatever the text is
    check_faults(faults)
    text = to_bytes(data)  # a copy of a buffer, which may change between the two reads
    found: Any = read_dicts(text, rules)
    if found is None:
        found = dicts_of(text, decode(text, profile, raw=True), rules.numbers, ParseError, faults)
    if has_type(found, ParseError):
        del data, text  # the traceback holds this frame
        raise found
    return found  # type: ignore[no-any-return]


class Decoder(StreamDecoder[M]):
    __doc__ = StreamDecoder.__doc__
    __slots__ = ()
    _fault_class = ParseError

    @overload
    def __init__(
        self: Decoder[Message],
        framing: Framing = "newline",
        profile: Profile = JSONRPC,
        limits: Limits | None = None,
        raw: Literal[False] = False,
        *,
        resync: bool = False,
    ) -> None: ...

    @overload
    def __init__(
        self: Decoder[RawMessage],
        framing: Framing = "newline",
        profile: Profile = JSONRPC,
        limits: Limits | None = None,
        *,
        raw: Literal[True],
        resync: bool = False,
    ) -> None: ...

    @overload
    def __init__(
        self: Decoder[Message | RawMessage],
        framing: Framing = "newline",
        profile: Profile = JSONRPC,
        limits: Limits | None = None,
        raw: bool = False,
        *,
        resync: bool = False,
    ) -> None: ...

    def __init__(
        self,
        framing: Framing = "newline",
        profile: Profile = JSONRPC,
        limits: Limits | None = None,
        raw: bool = False,
        *,
        resync: bool = False,
    ) -> None:
        super().__init__(framing, profile, limits, raw, resync=resync)

    def _decode(self, text: bytes) -> Any:
        return decode(text, self._profile, raw=self._raw)

    def _too_large(self, head: bytes) -> ParseError:
        return too_large_fault(head, self._profile)


def places(decoder: Decoder[Any]) -> list[Place] | None:
    """The list to which a decoder appends places from its first byte on; None if it keeps none.

    For each item that is or contains a fault: the offsets between which its frame lies, the position of the frame
    counted from the end of that range (1 for the last), and the item. At the end of each call of `feed`, without an
    item: where the last frame read, or an earlier one, ends.
    """
    return None


def encode_dict(
    message: dict[str, Any] | list[Any] | tuple[Any, ...],
    profile: Profile = JSONRPC,
    *,
    delimited: bool = True,
    default: Default = None,
    option: int = 0,
) -> bytes:
    """Validate a message or a batch that is a dict or a list of them, and encode it as one line of JSON.

    Args:
        message: As `decode_dict` returns it; a tuple is an array. `params`, `result` and the data of an error may be
            `Raw`.
        profile: The rules.
        delimited: End in `\\n`.
        default, option: As in `encode`.

    Raises:
        ParseError: `message` is not a valid message, or an item of it is not.
        EncodeError: A value cannot be written as JSON.
        TypeError: `profile` is not a Profile.
        ValueError: The option breaks lines.
    """
    check_option(option)
    rules = rules_of(profile)
    if type(message) is tuple:
        message = list(message)
    fault = fault_in(message, rules)
    if fault is not None:
        refusal = not_a_dict(message, fault, (Request, Notification, Response))
        del message
        raise refusal
    default = default_in(rules, default)
    if has_type(message, list):
        text = b"[" + b",".join([write_dict(item, Raw, default, option) for item in message]) + b"]"
    else:
        text = write_dict(message, Raw, default, option)  # type: ignore[arg-type]  # a valid message
    return text + b"\n" if delimited else text


def serve_plain(data: Any, find: Find, raw: bool, profile: Profile = JSONRPC, delimited: bool = True) -> bytes | Called:
    """Return the response to a request, or the message that has to be served on the ordinary path.

    Only handlers that take `Raw` params get them with `raw`. It writes JSON-RPC 2.0, whatever the profile.
    """
    message: Any = data
    if issubclass(type(data), (bytes, str, bytearray, memoryview)):
        message = decode(data, profile, raw=raw)
    if type(message) is not Request:
        return message, None, None, None
    try:
        handler = find(message.method)
    except HANDLER_FAILURES:
        return message, None, None, None  # the ordinary path gets it again, and reports it
    if handler is None:
        return message, None, None, None
    params = message.params
    if handler.plain is None and (handler.wants_context or (type(params) is Raw and not handler.takes_raw)):
        return message, None, None, None
    try:
        result = call_plain(handler, params)
    except HANDLER_FAILURES as error:
        return message, handler, None, error
    if not is_awaitable(result):
        try:
            return encode_result(message.id, result, delimited=delimited)
        except HANDLER_FAILURES:
            pass  # encoded again on the ordinary path, which says why
    return message, handler, result, None


# Users and pickles find the names here, as they find those of the core in `_core`.
for _made in (
    *(Error, Notification, ParseError, Raw, Request, Response, _make_fault, _make_raw, _make_with_extra),
    *(encode, encode_error, encode_notification, encode_request, encode_result),
):
    _made.__module__ = __name__
