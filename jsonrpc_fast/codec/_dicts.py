"""Messages as plain dicts with all their members, for both backends."""

from __future__ import annotations

import sys
from typing import Any, Final

from ..codes import ParseErrorCode
from ..errors import ParseError
from ..profile import Profile, is_plain
from ._json import Default, JSONDecodeError, dumps, loads_exact, on_one_line
from ._numbers import loads_as

# The types of an id that orjson reads exactly. A float may be an integer beyond 64 bits that was rounded.
_EXACT_IDS: Final = (str, int, type(None))


def dicts_of(text: bytes, decoded: Any, numbers: int, fault_class: type[ParseError]) -> Any:
    """Return the dicts of a JSON text that `decode` accepts.

    Args:
        text: The text.
        decoded: The result of `decode` for it, not a ParseError.
        numbers: How the profile reads numbers (`numbers_of`).
        fault_class: The ParseError of the backend.

    Returns:
        A dict; for a batch a list, with a ParseError in place of each invalid item. A ParseError if a number is too
        large, in a member of a single message that the profile does not define.
    """
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
        elif type(found[index]) is dict and type(found[index].get("id")) not in _EXACT_IDS:
            # orjson has read a wide integer as a float; the decoded message has the exact id.
            found[index]["id"] = message.id
    return found if type(decoded) is list else found[0]


def _read_members(text: bytes, decoded: Any, numbers: int, fault_class: type[ParseError]) -> list[Any]:
    """Return the dicts of the valid messages, read member by member; None in place of the others.

    A message with a number that is too large becomes a fault: `decode` drops the member, which the profile does not
    define.
    """
    from ._scanner import scan, scan_unexpected  # loaded only for such texts

    def read(token: bytes) -> Any:
        try:
            return loads_as(token, numbers)
        except JSONDecodeError:  # too large for a float, in a member that the profile does not define
            return loads_exact(token)

    found: list[Any] = []
    is_batch = type(decoded) is list
    messages = decoded if is_batch else [decoded]
    envelopes = scan(text, any_width=True, batch_items=sys.maxsize).envelopes
    for index, (message, envelope) in enumerate(zip(messages, envelopes, strict=True)):
        if isinstance(message, ParseError):
            found.append(None)
            continue
        id = getattr(message, "id", None)
        tokens = scan_unexpected(text, envelope.start, frozenset())
        members: dict[str, Any] = dict.fromkeys([name for name, _ in tokens])
        try:
            for name, value in tokens:
                members[name] = id if name == "id" else read(text[value.start : value.end])
            found.append(members)
        except ValueError:
            code, place = ParseErrorCode.INTEGER_TOO_LARGE, index if is_batch else None
            found.append(fault_class(code, id, index=place, reply_expected={"method", "id"} <= members.keys()))
    return found


def write_dicts(
    message: Any, judged: Any, profile: Profile, raw_type: type[Any], delimited: bool, default: Default, option: int
) -> bytes:
    """Return a message, or a batch of them, as one line of JSON.

    Args:
        message: A dict, or a list of them.
        judged: The result of `parse` for it.
        profile: The profile, as `plain_profile` returns it.
        raw_type: The `Raw` of the backend.
        delimited: End in `\\n`.
        default: As in `encode`.
        option: As in `encode`.

    Raises:
        ParseError: A message is not valid.
        EncodeError: A value cannot be written as JSON.
    """
    for item in judged if isinstance(judged, list) else [judged]:
        if isinstance(item, ParseError):
            raise item
    if not is_plain(profile):
        from ._forms import default_of  # loaded only for such profiles

        default = default_of(profile, default)
    if isinstance(message, list):
        text = b"[" + b",".join([_write_dict(item, raw_type, default, option) for item in message]) + b"]"
    else:
        text = _write_dict(message, raw_type, default, option)
    return text + b"\n" if delimited else text


def _write_dict(obj: dict[Any, Any], raw_type: type[Any], default: Default, option: int) -> bytes:
    """Return a valid message, or its error object, as JSON."""
    members = dict(obj)  # orjson would pass a subclass of dict to `default` under OPT_PASSTHROUGH_SUBCLASS
    text = _write_members(members, raw_type, default, option)
    return dumps(members, default, option) if text is None else text


def _write_members(members: dict[Any, Any], raw_type: type[Any], default: Default, option: int) -> bytes | None:
    """Return an object written member by member; None if orjson can write it as a whole."""
    written: dict[Any, bytes] = {}
    for name, value in members.items():
        if type(value) is raw_type:
            written[name] = on_one_line(bytes(value))
        elif name == "error" and isinstance(value, dict):
            error = _write_members(dict(value), raw_type, default, option)
            if error is not None:
                written[name] = error
        elif name == "id" and isinstance(value, int) and not -(2**63) <= value < 2**64:
            written[name] = b"%d" % value  # orjson refuses integers beyond 64 bits
    if not written:
        return None
    return (
        b"{"
        + b",".join(
            [
                dumps({name: None}, default, option)[1:-5]  # the name and its colon, without "{" and "null}"
                + (written[name] if name in written else dumps(value, default, option))
                for name, value in members.items()
            ]
        )
        + b"}"
    )
