"""The fast path of the pure backend: valid messages of the usual forms, and input that a dict represents in full.

The law: `decode` returns the same with it and without it, for every input. The fast path accepts the input or leaves
it to the slow path, and knows no rule: `Rules` says which kinds make a valid message. `tests/codec/test_pure_fast.py`
and `tests/fuzz` test the law.

Theory of operation:
  - A text that orjson reads is JSON. The dict shows everything in it except duplicate members, numbers that orjson
    alters, and the places of payloads. `_is_lossless` and `may_be_altered` prove that the first two are absent.
  - Most messages have one payload, and around it members that a regular expression can read. orjson reads only the
    payload: if that is a single value, the input is JSON and has exactly these members. Therefore `Raw` payloads need
    no scanner, and larger messages are not read twice.
  - Calls dominate the time in Python. Therefore the usual request is made where it is read, and any other usual message
    is made from a dict without naming its kinds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Final, TypeVar

from ..codes import is_error_code
from ..profile import JSONRPC, MAX_DEPTH, Profile
from ..types import ENVELOPE_MEMBERS, UNSET
from ._json import JSONDecodeError, dumps_unchecked, loads, may_be_altered
from ._kinds import is_error_object
from ._messages import (
    MAX_DICT_BYTES,
    Message,
    ParseError,
    Raw,
    Request,
    Rules,
    fault_in,
    known_rules,
    make_error,
    make_notification,
    make_raw,
    make_request,
    make_response,
    message_of,
    new,
    rules_of,
    set_request_id,
    set_request_method,
    set_request_params,
    to_bytes,
)
from ._scanner import ScannedValue, scan_error
from ._shared import DECIMALS

F = TypeVar("F", bound=Callable[..., Any])
"""The plain `decode`."""


def _pattern(text: bytes) -> re.Pattern[bytes]:
    """Compile an abbreviated pattern. V: the version. I: an id that is valid in every profile. M: a method. S: space.

    Repetitions of space are bounded: `re` backtracks, and two of them in a row would take quadratic time.
    """
    following = rb"(?:,S(?=\")|(?=\}))"
    text = text.replace(b"V", rb'"jsonrpc"S:S"2\.0"S' + following)
    # 18 digits fit in 64 bits with either sign. The strings hold neither escapes nor bytes beyond ASCII, so that
    # slicing them decodes them.
    text = text.replace(b"I", rb'"id"S:S(0|-?[1-9][0-9]{0,17}|"[ !#-\[\]-~]*")S' + following)
    text = text.replace(b"M", rb'"method"S:S"([ !#-\[\]-~]+)"S' + following)
    return re.compile(text.replace(b"S", rb"[ \t\n\r]{0,64}"))


# Members after the payload are searched for in this many bytes at the end.
_TAIL_BYTES: Final = 128
# A request without params that is shorter than this, its method aside, has no space for the shortest duplicate: an id.
_ANOTHER_ID_BYTES: Final = len('{"jsonrpc":"2.0","id":0,"id":0,"method":""}')
# A message with a version, up to this size, has no space for a number that orjson alters.
_LONG_NUMBER_BYTES: Final = len('{"jsonrpc":"2.0","result":}') + 18
# The members before the payload, in any order: none of them matches where its group has matched before.
_head = _pattern(rb'S\{S(?:(?(1)(?!)|(V))|(?(2)(?!)|I)|(?(3)(?!)|M)){0,3}(?:"(params|result|error)"S:S|\})').match
_tail = _pattern(rb"(V)?(?:I)?\}").fullmatch
_next_item = _pattern(rb'\}S,S(?=\{S"(?:jsonrpc|id|method|params|result|error)")').search


def with_fast_path(plain_decode: F) -> F:
    """Return a `decode` that takes the fast path, and calls the plain one for all other input."""
    jsonrpc_rules = rules_of(JSONRPC)

    def decode(
        data: bytes | bytearray | memoryview | str, profile: Profile = JSONRPC, *, raw: bool = False
    ) -> Message | list[Message]:
        # Inlined `rules_of`, because a call takes longer than the look-up.
        rules = jsonrpc_rules if profile is JSONRPC else known_rules.get(id(profile)) or rules_of(profile)
        if type(data) is not bytes:
            data = to_bytes(data)
        if len(data) > _LONG_NUMBER_BYTES and may_be_altered(data):
            return plain_decode(data, profile, raw=raw)  # type: ignore[no-any-return]
        found: Message | list[Message] | None = None
        if not raw and len(data) <= rules.max_dict_bytes:
            try:
                value = loads(data)
            except JSONDecodeError:
                return plain_decode(data, profile)  # type: ignore[no-any-return]
            try:
                # The usual request is made here, without calls of `_check_value`, `_usual_message` and `make_request`.
                # No profile refuses it without params.
                if type(value) is dict and "method" in value and "id" in value:
                    request_id, method, size = value["id"], value["method"], len(value)
                    if (
                        type(method) is str
                        and value["jsonrpc"] == "2.0"
                        and 0 < len(method) <= rules.method_characters
                        and (
                            type(request_id) is int
                            or (type(request_id) is str and len(request_id) <= rules.id_characters)
                            or (request_id is None and rules.null_ids)
                        )
                    ):
                        # The text has a colon for each member. If there are as many colons as remaining members, no
                        # member occurs twice.
                        if size == 3:
                            params = None
                            is_usual = len(data) - len(method) < _ANOTHER_ID_BYTES or data.count(b":") == 3
                        else:
                            params = value["params"]
                            is_usual = size == 4 and type(params) in rules.usual_params and not rules.has_text_limits
                            if is_usual and data.count(b":") != 4:
                                is_usual = _is_lossless(data, value)
                        if is_usual:
                            request = new(Request)
                            set_request_id(request, request_id)
                            set_request_method(request, method)
                            set_request_params(request, params)
                            return request
            except KeyError:  # no version, or a member that JSON-RPC does not define
                pass
            found = _check_value(data, value, rules)
        elif len(data) <= rules.message_bytes:
            found = _read_by_pattern(data, rules, raw)
            if found is None and not raw:
                found = _read_as_dict(data, rules)
        return plain_decode(data, profile, raw=raw) if found is None else found

    return update_wrapper(decode, plain_decode)  # type: ignore[return-value]


# Dicts.


def _read_as_dict(text: bytes, rules: Rules) -> Message | list[Message] | None:
    try:
        return _check_value(text, loads(text), rules)
    except JSONDecodeError:
        return None


def _check_value(text: bytes, value: Any, rules: Rules) -> Message | list[Message] | None:
    """The message or the batch that orjson read as `value`, or its fault; None if the slow path would find more."""
    is_message = type(value) is dict
    if not is_message and (type(value) is not list or rules.batch_fault(len(value)) is not None):
        return None
    if rules.has_text_limits and not _is_within_limits(text, rules):
        return None
    if not _is_lossless(text, value):
        return None
    usual = _usual_message(value, rules) if is_message else None
    if usual is not None:
        return usual
    if len(text) <= _LONG_NUMBER_BYTES and may_be_altered(text):  # without a version there is space for such a number
        return None
    if is_message:
        return message_of(value, rules)
    messages: list[Message] = []
    for item in value:
        message = _usual_message(item, rules) if type(item) is dict else None
        if message is None:
            # The slow path finds out whether a double keeps the id.
            if type(item) is dict and type(item.get("id")) is float:
                return None
            message = message_of(item, rules, len(messages))
        messages.append(message)
    return messages


def read_dicts(text: bytes, rules: Rules) -> dict[str, Any] | list[dict[str, Any]] | None:
    """Return the valid message or batch that a JSON text holds in full, for `decode_dict`; None for another text."""
    try:
        value = None if len(text) > rules.message_bytes or may_be_altered(text) else loads(text)
    except JSONDecodeError:
        return None
    if type(value) is not dict and type(value) is not list:
        return None
    if fault_in(value, rules) is not None or (rules.has_text_limits and not _is_within_limits(text, rules)):
        return None
    for item in (value,) if type(value) is dict else value:
        if type(item.get("id")) is float:  # which may differ from the number in the text
            return None
    return value if _is_lossless(text, value) else None


def _usual_message(item: dict[str, Any], rules: Rules, raw: Raw | None = None) -> Message | None:
    """The message in a decoded object, if it is a usual one, for which no kinds have to be determined.

    That is a call whose id is an integer, a string or null and whose params have a usual type, or a response whose id
    is an integer or a string. `raw` is the payload as `Raw`, which takes the place of the decoded one.
    """
    if "jsonrpc" not in item or item["jsonrpc"] != "2.0":
        return None
    size = len(item)
    if "method" in item:
        method = item["method"]
        # `method_characters` is a quarter of `Limits.method_bytes`, because a character has up to four bytes of UTF-8.
        if type(method) is not str or not 0 < len(method) <= rules.method_characters:
            return None
        params = None
        if "params" in item:
            params = item["params"]
            if type(params) not in rules.usual_params:
                return None
            size -= 1
            if raw is not None:
                params = raw
        if "id" not in item:
            return make_notification(method, params) if size == 2 else None
        id = item["id"]
        # `size` excludes params, so three members are exactly jsonrpc, id and method: none that JSON-RPC does not
        # define. An int here has at most 64 bits, which every `Limits.id_bytes` allows.
        if (size == 3 or (rules.ignores_extra and "result" not in item and "error" not in item)) and (
            type(id) is int or (type(id) is str and len(id) <= rules.id_characters) or (id is None and rules.null_ids)
        ):
            return make_request(id, method, params)
    elif size == 3 and "id" in item:
        id = item["id"]
        if type(id) is not int and (type(id) is not str or len(id) > rules.id_characters):
            return None
        if "result" in item:
            result = item["result"]
            return (
                make_response(id, result if raw is None else raw, None) if type(result) in rules.usual_results else None
            )
        error = item.get("error")
        if type(error) is dict and raw is None and rules.has_usual_errors and "code" in error and "message" in error:
            code, message = error["code"], error["message"]
            if type(code) is int and is_error_code(code) and type(message) is str:
                if len(error) == 2:
                    return make_response(id, None, make_error(code, message, UNSET))
                if len(error) == 3 and "data" in error:
                    return make_response(id, None, make_error(code, message, error["data"]))
    return None


# Patterns.


def _read_by_pattern(text: bytes, rules: Rules, raw: bool) -> Message | list[Message] | None:
    """The valid message or batch in input of a usual form; None for any other input."""
    if rules.has_text_limits and not _is_within_limits(text, rules):
        return None
    head = _head(text)
    stripped = text.rstrip(_SPACE)
    if head is not None:
        return _read_message(text, head, len(stripped) - 1, rules, raw)
    begin = text[:_TAIL_BYTES].lstrip(_SPACE)
    if not begin.startswith(b"[") or not stripped.endswith(b"]") or rules.batch_fault(1) is not None:
        return None
    # A batch of small items is faster as a list of dicts. The versions in its beginning show their size.
    if not raw and text.count(_QUOTED["jsonrpc"], 0, MAX_DICT_BYTES) > 1:
        return None
    at = text.index(b"[") + 1
    last = len(stripped[:-1].rstrip(_SPACE)) - 1
    messages: list[Message] = []
    while len(messages) < rules.limits.batch_items:
        # A separator inside a string of the payload splits the item in the wrong place. Then its payload is not a JSON
        # value, and the whole batch is left to the slow path.
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
    """The valid message that begins with `head` and ends with the brace text[last]; None for any other input."""
    version, id_token, method_token, name = head.groups()
    at = head.end()
    end = last
    if name is not None and (version is None or id_token is None):
        # The members that are still missing may follow the payload: the id, or without a version also `jsonrpc`.
        quoted = _QUOTED["jsonrpc" if version is None else "id"]
        place = text.rfind(quoted, max(at, last - _TAIL_BYTES), last)
        tail = None if place < 0 else _tail(text, place, last + 1)
        if tail is not None:
            late_version, late_id_token = tail.groups()
            end = at + len(text[at:place].rstrip(_SPACE)) - 1
            if end < at or text[end : end + 1] != b"," or (version and late_version) or (id_token and late_id_token):
                return None
            version, id_token = version or late_version, id_token or late_id_token
    # Section 4: `jsonrpc` is required; a message without id is a notification.
    if version is None:
        return None
    if text[last : last + 1] != b"}":
        return None
    # The pattern of the version matches only "2.0".
    obj: dict[str, Any] = {"jsonrpc": "2.0"}
    value: Any = None
    payload: Raw | None = None
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
            # One bracket stands for the object around the value, so that the depth is that in the message. If the
            # result has two values, the token contains another member, or is not JSON.
            values = loads(b"[%b]" % token)
        except JSONDecodeError:
            return None
        if len(values) != 1:
            return None
        value = obj[_NAMES[name]] = values[0]
        if raw:
            payload = make_raw(token, rules.numbers & DECIMALS)
    message = _usual_message(obj, rules, payload)
    if message is None:
        if payload is not None:
            is_whole = name != b"error" or (rules.profile.any_errors and not is_error_object(value))
            obj[_NAMES[name]] = payload if is_whole else _with_raw_data(token, value, rules)
        message = message_of(obj, rules)
    return None if type(message) is ParseError else message


def _with_raw_data(token: bytes, error: Any, rules: Rules) -> Any:
    """The error, with its data as `Raw` if it is an object that has data."""
    if type(error) is dict and "data" in error:
        found = scan_error(token, ScannedValue(0, len(token), 0, False))
        data = found.members["data"]  # type: ignore[union-attr, index]  # it is an object
        error["data"] = make_raw(token[data.start : data.end], rules.numbers & DECIMALS)
    return error


# The faults that a dict cannot show.

_NAMES: Final = {name.encode(): name for name in ENVELOPE_MEMBERS}
_QUOTED: Final = {name: b'"%b"' % name.encode() for name in ENVELOPE_MEMBERS}
_SPACE: Final = b" \t\n\r"
_has_float = re.compile(rb"[0-9][.eE]").search  # also in strings


def _is_lossless(text: bytes, value: dict[str, Any] | list[Any]) -> bool:
    """Whether `value`, which orjson read from `text`, shows every member and the exact id.

    Usually orjson writes `value` as `text`. Otherwise no quote may be lost, because orjson keeps the last of two
    members with one name; and the id must not be a float, which may differ from the number in the text.
    """
    try:
        written = dumps_unchecked(value)
    except TypeError:  # too deep to write
        return False
    if written == text:
        return True
    if type(value) is dict and type(value.get("id")) is float:
        return False
    # orjson writes the escape \u0022 as \", which adds a quote that `text` does not have.
    if b"\\" in text and b"\\u0022" in text:
        text, written = _without_escapes(text), _without_escapes(written)
    return text.count(b'"') == written.count(b'"')


def _without_escapes(text: bytes) -> bytes:
    """A JSON text without the escaped quotes and backslashes of its strings."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"")


def _is_within_limits(text: bytes, rules: Rules) -> bool:
    """Whether `text`, which is JSON, certainly nests no deeper than the limit, and has no Decimal."""
    depth = rules.limits.depth
    # The number of brackets bounds the depth from above. Brackets in strings only make the fast path leave more.
    if depth < MAX_DEPTH and text.count(b"[") + text.count(b"{") > depth:
        return False
    return not (rules.numbers & DECIMALS and _has_float(text))
