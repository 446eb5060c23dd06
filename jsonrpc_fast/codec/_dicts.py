"""Messages as plain dicts, with all their members, for both backends."""

from __future__ import annotations

import sys
from typing import Any

from ..errors import ParseError
from ._json import Default, JSONDecodeError, dumps, loads_exact, loads_valid


def dicts_of(text: bytes, judged: Any, exact: bool) -> Any:
    """Return the dicts of a JSON text that `decode` accepts.

    Args:
        text: The text.
        judged: What `decode` returned for it, not a ParseError.
        exact: Decode integers of any width (`big_ints="exact"`).

    Returns:
        A dict; for a batch a list, with a ParseError in place of each invalid item.
    """
    messages = judged if type(judged) is list else [judged]
    try:
        value = loads_exact(text) if exact else loads_valid(text)
        found = value if type(judged) is list else [value]
    except ValueError:  # it nests deeper than orjson reads as a whole, or an integer is too large for it
        found = _read_members(text, messages, exact)
    for index, message in enumerate(messages):
        if isinstance(message, ParseError):
            found[index] = message
        elif type(found[index].get("id")) is float:  # perhaps a wide integer
            found[index]["id"] = message.id
    return found if type(judged) is list else found[0]


def _read_members(text: bytes, messages: list[Any], exact: bool) -> list[Any]:
    """Return the dicts of the valid messages, read member by member; None in place of the others."""
    from ._scanner import scan, scan_unexpected  # loaded only for such texts

    def read(token: bytes) -> Any:
        try:
            return loads_exact(token) if exact else loads_valid(token)
        except JSONDecodeError:  # too large for a float, in a member that the profile does not define
            return loads_exact(token)

    found: list[Any] = []
    envelopes = scan(text, any_width=True, batch_items=sys.maxsize).envelopes
    for message, envelope in zip(messages, envelopes, strict=True):
        if isinstance(message, ParseError):
            found.append(None)
            continue
        found.append({})
        for name, value in scan_unexpected(text, envelope.start, frozenset()):
            found[-1][name] = getattr(message, "id", None) if name == "id" else read(text[value.start : value.end])
    return found


def write_dict(obj: dict[Any, Any], raw_type: type[Any], default: Default, option: int) -> bytes:
    """Return a valid message, or its error object, as JSON.

    Raises:
        EncodeError: A value cannot be written as JSON.
    """
    members = dict(obj)  # a subclass of dict may be passed to `default`
    text = _write_members(members, raw_type, default, option)
    return dumps(members, default, option) if text is None else text


def _write_members(members: dict[Any, Any], raw_type: type[Any], default: Default, option: int) -> bytes | None:
    """Return an object written member by member; None if orjson can write it as a whole."""
    written: dict[Any, bytes] = {}
    for name, value in members.items():
        if type(value) is raw_type:
            written[name] = bytes(value).replace(b"\n", b" ").replace(b"\r", b" ")
        elif name == "error" and isinstance(value, dict):
            error = _write_members(dict(value), raw_type, default, option)
            if error is not None:
                written[name] = error
        elif name == "id" and isinstance(value, int) and not -(2**63) <= value < 2**64:
            written[name] = b"%d" % value
    if not written:
        return None
    return (
        b"{"
        + b",".join(
            [
                dumps({name: None}, default, option)[1:-5]
                + (written[name] if name in written else dumps(value, default, option))
                for name, value in members.items()
            ]
        )
        + b"}"
    )
