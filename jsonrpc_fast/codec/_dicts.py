"""Messages as plain dicts with all their members, for both backends."""

from __future__ import annotations

import sys
from types import NoneType
from typing import Any

from ..codes import ParseErrorCode
from ..errors import EncodeError, ParseError
from ._json import OPT_SORT_KEYS, Default, check_depth, dumps, dumps_bounded, on_one_line
from ._shared import loads_as


def check_faults(faults: object) -> None:
    """Raise ValueError for a value that `decode_dict` does not know."""
    if type(faults) is not str or faults not in ("raise", "keep"):
        raise ValueError('faults must be "raise" or "keep"')


def dicts_of(text: bytes, decoded: Any, numbers: int, fault_class: type[ParseError], faults: str) -> Any:
    """Return what `decode_dict` returns for a text, or the ParseError that it raises.

    `decoded` is the result of `decode` for the text, `numbers` says how the profile reads numbers (`numbers_of`).
    """
    if isinstance(decoded, ParseError):
        return decoded
    found = _dicts_of(text, decoded, numbers, fault_class)
    if faults == "raise" and type(found) is list:
        for item in found:
            if isinstance(item, ParseError):
                return item
    return found


def _dicts_of(text: bytes, decoded: Any, numbers: int, fault_class: type[ParseError]) -> Any:
    """As `dicts_of`, of a text that has no fault as a whole, and with a ParseError in place of each invalid item."""
    messages = decoded if type(decoded) is list else [decoded]
    try:
        value = loads_as(text, numbers)
        found = value if type(decoded) is list else [value]
    except ValueError:
        # orjson refuses more than 1024 levels in total, but `Limits.depth` applies to each member. Or a number is too
        # large.
        found = _read_members(text, decoded, numbers, fault_class)
    for index, message in enumerate(messages):
        if isinstance(message, ParseError):
            found[index] = message
        elif type(found[index]) is dict and type(found[index].get("id")) not in (str, int, NoneType):
            found[index]["id"] = message.id  # a float, whatever the profile reads other numbers as
    return found if type(decoded) is list else found[0]


def _read_members(text: bytes, decoded: Any, numbers: int, fault_class: type[ParseError]) -> list[Any]:
    """Return the dicts of the valid messages, read member by member; None in place of the others.

    A message with a number that is too large becomes a fault: `decode` drops the member, which the profile does not
    define.
    """
    from ._scanner import scan, scan_unexpected  # loaded only for such texts

    found: list[Any] = []
    is_batch = type(decoded) is list
    messages = decoded if is_batch else [decoded]
    envelopes = scan(text, batch_items=sys.maxsize).envelopes
    for index, (message, envelope) in enumerate(zip(messages, envelopes, strict=True)):
        if isinstance(message, ParseError):
            found.append(None)
            continue
        id = getattr(message, "id", None)
        tokens = scan_unexpected(text, envelope.start, frozenset())
        members: dict[str, Any] = dict.fromkeys([name for name, _ in tokens])
        try:
            for name, value in tokens:
                members[name] = id if name == "id" else loads_as(text[value.start : value.end], numbers)
            found.append(members)
        except ValueError:
            code, place = ParseErrorCode.INTEGER_TOO_LARGE, index if is_batch else None
            found.append(fault_class(code, id, index=place, reply_expected={"method", "id"} <= members.keys()))
    return found


def has_odd_parts(message: dict[Any, Any], raw_type: type[Any]) -> bool:
    """Return whether a message has what orjson does not write: a `Raw`."""
    error = message.get("error")
    parts = [*message.values(), *(error.values() if isinstance(error, dict) else ())]
    return raw_type in map(type, parts)


def write_dict(message: dict[Any, Any], raw_type: type[Any], default: Default, option: int) -> bytes:
    """Return a valid message as JSON. Arguments and exceptions as in `write_parts`."""
    if type(message) is dict and not has_odd_parts(message, raw_type):
        try:
            check_depth(message, option)  # before `default` is called
        except EncodeError:
            pass
        else:
            return dumps_bounded(message, default, option)
    return write_parts(message, raw_type, default, option)


def write_parts(message: dict[Any, Any], raw_type: type[Any], default: Default, option: int) -> bytes:
    """Return a valid message, or its error object, written member by member: it has odd parts, or as a whole it is too
    deep for orjson. `raw_type`: the `Raw` of the backend."""
    members = []
    for name, value in dict(message).items():
        if type(value) is raw_type:
            token = on_one_line(bytes(value))
        elif name == "error" and isinstance(value, dict):
            token = write_parts(value, raw_type, default, option)
        else:
            token = dumps(value, default, option)
        members.append((dumps({name: None}, default, option)[1:-5], token))  # without "{" and "null}"
    if option & OPT_SORT_KEYS:
        members.sort()
    return b"{" + b",".join([name + token for name, token in members]) + b"}"
