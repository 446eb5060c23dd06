"""The fast path of the pure backend: valid messages of the usual forms, and every text that a dict shows whole.

It accepts or leaves a text, and knows no rule: `Rules` says which kinds make a valid message. What it leaves takes the
slow path, and tests compare the two on every input (`tests/codec/test_pure_fast.py`, `tests/fuzz`).

Theory of operation:
  - A text that orjson reads is JSON. The dict shows nearly everything in it, except duplicate members, integers that
    became floats, and the places of payloads. `_is_lossless` proves that the text has none of these.
  - Most messages have one payload, and around it members that a regular expression can read. orjson reads only the
    payload: if that is a single value, the text is JSON and has exactly these members. So `Raw` payloads need no
    scanner, and larger texts are not read twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from ..profile import MAX_DEPTH
from ..types import ENVELOPE_MEMBERS
from ._json import JSONDecodeError, dumps_unchecked, exact_number, loads
from ._messages import (
    Message,
    ParseError,
    Request,
    Rules,
    make_notification,
    make_raw,
    make_request,
    make_response,
    message_of,
    new,
    set_request_id,
    set_request_method,
    set_request_params,
)
from ._scanner import ScannedValue, scan_error

_DIGITS_AS_ZEROS: Final = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))


def _pattern(text: bytes) -> re.Pattern[bytes]:
    """V: the version. I: an id that is certainly valid. M: a method. S: space, bounded because `re` backtracks."""
    following = rb"(?:,S(?=\")|(?=\}))"
    text = text.replace(b"V", rb'"jsonrpc"S:S"2\.0"S' + following)
    text = text.replace(b"I", rb'"id"S:S(0|-?[1-9][0-9]{0,17}|"[ !#-\[\]-~]*")S' + following)
    text = text.replace(b"M", rb'"method"S:S"([ !#-\[\]-~]+)"S' + following)
    return re.compile(text.replace(b"S", rb"[ \t\n\r]{0,64}"))


_SMALL_BYTES: Final = 768  # for smaller texts, dicts are faster
_BATCH_ITEM_BYTES: Final = 2048  # for smaller items, dicts are faster
_TAIL_BYTES: Final = 128
_head = _pattern(rb'S\{S(V)?(?:I)?(V)?(?:M)?(V)?(?:I)?(?:"(params|result|error)"S:S|\})').match
_tail = _pattern(rb"(V)?(?:I)?\}").fullmatch
_next_item = _pattern(rb'\}S,S(?=\{S"(?:jsonrpc|id|method|params|result|error)")').search


def decode_fast(text: bytes, rules: Rules, raw: bool) -> Message | list[Message] | None:
    """Return the message or the batch in a text, or its fault; None for a text that takes the slow path."""
    if raw or len(text) > _SMALL_BYTES:
        found = _read_by_pattern(text, rules, raw)
        if raw or found is not None:
            return found
    try:
        value = loads(text)
    except JSONDecodeError:
        return None
    if type(value) is dict:
        # The smallest request: no profile refuses it, and the number of colons says that no member occurs twice.
        try:
            if len(value) == 3 == text.count(b":") and value["jsonrpc"] == "2.0":
                id = value["id"]
                method = value["method"]
                if type(id) is int and type(method) is str and 0 < len(method) <= rules.method_characters:
                    request = new(Request)  # `make_request`, without a call
                    set_request_id(request, id)
                    set_request_method(request, method)
                    set_request_params(request, None)
                    return request
        except KeyError:  # another member
            pass
        if not _is_lossless(text, value, rules):
            return None
        items = _read_items((value,), rules, None)
        return items and items[0]
    if type(value) is list and rules.batch_fault(len(value)) is None and _is_lossless(text, value, rules):
        return _read_items(value, rules, 0)
    return None


# Dicts.

_ABSENT: Final[Any] = object()


def _read_items(items: Sequence[Any], rules: Rules, index: int | None) -> list[Message] | None:
    """The messages in decoded objects, or their faults; None for a batch with an id that became a float.

    A call whose id is an integer or a string, and whose params have a usual type, needs no look at its kinds; nor does
    such a result. index: of the first item; None outside a batch.
    """
    id_characters = rules.limits.id_bytes // 4
    messages: list[Message] = []
    for item in items:
        if type(item) is dict and "jsonrpc" in item and item["jsonrpc"] == "2.0":
            id = item.get("id", _ABSENT)
            if type(id) is int or id is _ABSENT or (type(id) is str and len(id) <= id_characters):
                size = len(item) - 2 if id is _ABSENT else len(item) - 3
                if "method" in item:
                    method = item["method"]
                    if type(method) is str and 0 < len(method) <= rules.method_characters:
                        params = None
                        if size == 1 and "params" in item:
                            params = item["params"]
                            if type(params) in rules.usual_params:
                                size = 0
                        if size == 0:
                            if id is _ABSENT:
                                messages.append(make_notification(method, params))
                            else:
                                messages.append(make_request(id, method, params))
                            continue
                elif (
                    size == 0 and "result" in item and id is not _ABSENT and type(item["result"]) in rules.usual_results
                ):
                    messages.append(make_response(id, item["result"], None))
                    continue
        if index is None:
            return [message_of(item, rules)]
        if type(item) is dict and type(item.get("id")) is float:
            return None
        messages.append(message_of(item, rules, index + len(messages)))
    return messages


# Patterns.


def _read_by_pattern(text: bytes, rules: Rules, raw: bool) -> Message | list[Message] | None:
    """The valid message or batch in a text of a usual form; None for any other text."""
    if not _is_within_limits(text, rules):
        return None
    head = _head(text)
    stripped = text.rstrip(_SPACE)
    if head is not None:
        return _read_message(text, head, len(stripped) - 1, rules, raw)
    begin = text[:_TAIL_BYTES].lstrip(_SPACE)
    if not begin.startswith(b"[") or not stripped.endswith(b"]") or rules.batch_fault(1) is not None:
        return None
    if not raw:
        first_items = text[: 4 * _BATCH_ITEM_BYTES]
        if len(first_items) < _BATCH_ITEM_BYTES * first_items.count(_QUOTED["jsonrpc"]):
            return None
    at = text.index(b"[") + 1
    last = len(stripped[:-1].rstrip(_SPACE)) - 1
    messages: list[Message] = []
    while len(messages) < rules.limits.batch_items:
        head = _head(text, at)
        if head is None:
            return None
        following = _next_item(text, head.end() - 1)
        message = _read_message(text, head, last if following is None else following.start(), rules, raw)
        if message is None:
            return None
        messages.append(message)
        if following is None:
            return messages
        at = following.end()
    return None


def _read_message(text: bytes, head: re.Match[bytes], last: int, rules: Rules, raw: bool) -> Message | None:
    """The valid message that begins with `head` and ends with the brace text[last]; None for any other text."""
    version, id_token, second_version, method_token, third_version, second_id_token, name = head.groups()
    at = head.end()
    end = last
    if version is None or id_token is None:
        fourth_version = third_id_token = None
        if name is not None:
            has_version = version is not None or second_version is not None or third_version is not None
            quoted = _QUOTED["id" if has_version else "jsonrpc"]
            place = text.rfind(quoted, max(at, last - _TAIL_BYTES), last)
            tail = None if place < 0 else _tail(text, place, last + 1)
            if tail is not None:
                fourth_version, third_id_token = tail.groups()
                end = at + len(text[at:place].rstrip(_SPACE)) - 1
                if end < at or text[end] != _COMMA:
                    return None
        versions = (version, second_version, third_version, fourth_version)
        if versions.count(None) != 3 or (id_token, second_id_token, third_id_token).count(None) < 2:
            return None
        id_token = id_token or second_id_token or third_id_token
    elif second_version is not None or third_version is not None or second_id_token is not None:
        return None
    if text[last : last + 1] != b"}":
        return None
    obj: dict[str, Any] = {"jsonrpc": "2.0"}
    if id_token is not None:
        obj["id"] = id_token[1:-1].decode() if id_token.startswith(b'"') else int(id_token)
    if method_token is not None:
        obj["method"] = method_token.decode()
    if name is None:
        if at != last + 1:
            return None
    else:
        token = text[at:end].strip(_SPACE)
        try:
            values = loads(b"[%b]" % token)  # as deep as in the message
        except JSONDecodeError:
            return None
        if len(values) != 1:
            return None
        obj[name.decode()] = _raw_payload(token, name, values[0]) if raw else values[0]
    message = message_of(obj, rules)
    return None if type(message) is ParseError else message


def _raw_payload(token: bytes, name: bytes, value: Any) -> Any:
    """A payload as `Raw`; an error as a dict with raw data."""
    if name != b"error":
        return make_raw(token, False)
    if type(value) is dict and "data" in value:
        found = scan_error(token, ScannedValue(0, len(token), 0, False))
        data = found.members["data"]  # type: ignore[union-attr, index]  # it is an object
        value["data"] = make_raw(token[data.start : data.end], False)
    return value


# What a dict does not show.

_QUOTED: Final = {name: b'"%b"' % name.encode() for name in ENVELOPE_MEMBERS}
_SPACE: Final = b" \t\n\r"
_COMMA: Final = ord(",")
_BACKSLASH: Final = ord("\\")
# Ids that orjson reads as floats.
_find_float_ids = re.compile(rb'"id"[ \t\n\r]*:[ \t\n\r]*(-?[0-9]+[.eE][0-9.eE+-]*|-?[0-9]{19,})').findall
_has_escaped_letter = re.compile(rb"\\u00(?:6[1-9a-fA-F]|7[0-9aA])").search


def _is_lossless(text: bytes, value: dict[str, Any] | list[Any], rules: Rules) -> bool:
    """Whether `value`, which orjson read from `text`, shows all that the slow path would find.

    An id that became a float is replaced by the exact number.
    """
    if not _is_within_limits(text, rules):
        return False
    if type(value) is dict:
        has_duplicates = text.count(b":") != len(value) and _has_duplicates(text, value)
        return not has_duplicates and (type(value.get("id")) is not float or _make_id_exact(text, value, rules))
    return not _has_duplicates(text, value)


def _has_duplicates(text: bytes, value: object) -> bool:
    """Whether an object in `text`, which orjson read as `value`, may have a member twice.

    orjson drops the first one, and with it the quotes of its name.
    """
    try:
        written = dumps_unchecked(value)
    except TypeError:  # too deep to write
        return True
    if _BACKSLASH in text and b"\\u0022" in text:  # orjson writes this escape as \"
        text, written = _without_escapes(text), _without_escapes(written)
    return text.count(b'"') != written.count(b'"')


def _without_escapes(text: bytes) -> bytes:
    """A JSON text without the escaped quotes and backslashes of its strings."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"")


def _make_id_exact(text: bytes, message: dict[str, Any], rules: Rules) -> bool:
    """Read a float id again, because the number may be too wide for a float. Return False if it is not found."""
    if b"\\u00" in text and _has_escaped_letter(text):  # the name may be spelled differently
        return False
    tokens = set(_find_float_ids(text))  # payloads may have such members, too
    if len(tokens) != 1:
        return False
    token = tokens.pop()
    if len(token) > rules.limits.id_bytes:
        return False
    number = exact_number(token)
    if number is None:
        return False
    message["id"] = number
    return True


def _is_within_limits(text: bytes, rules: Rules) -> bool:
    """Whether `text`, which is JSON, certainly nests no deeper than allowed and holds no integer that is refused."""
    depth = rules.limits.depth
    if depth < MAX_DEPTH and text.count(b"[") + text.count(b"{") > depth:
        return False
    return rules.profile.big_ints == "float" or not _has_wide_integer(text)


def _has_wide_integer(text: bytes) -> bool:
    """Whether `text` may hold an integer beyond 64 bits: 19 digits in a row, also in strings."""
    # Any 19 bytes in a row contain two neighbours of every ninth byte: where no two of these are digits, there is no
    # such number. `translate` is much faster than a regular expression.
    if b"00" not in text[8::9].translate(_DIGITS_AS_ZEROS):
        return False
    return b"0" * 19 in text.translate(_DIGITS_AS_ZEROS)
