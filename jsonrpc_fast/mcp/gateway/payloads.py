"""Members of payloads that are passed on raw: read without decoding the rest, and replaced in the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...codec import Raw
from ...codec._backend import dumps
from ...errors import invalid_params

TOKEN: Final = ("_meta", "progressToken")
"""The path of the progress token in the params of a request."""


def as_raw(payload: Any) -> Raw:
    """Return a payload as `Raw`; an absent one as an empty object."""
    return payload if type(payload) is Raw else Raw(dumps({} if payload is None else payload))


def member(payload: Raw, path: Sequence[str]) -> Any:
    """Return a member decoded; None if it is absent."""
    found = payload.get(path)
    return None if found is None else found.decode()


def text_member(payload: Raw, *path: str) -> str:
    """Return a member that must be a string.

    Raises:
        RpcError: It is absent or not a string (-32602).
    """
    value = member(payload, path)
    if not isinstance(value, str):
        raise invalid_params(f"{'/'.join(path)} must be a string")
    return value


def replaced(payload: Raw, path: Sequence[str], value: Any) -> Raw:
    """Return an object with another value for a member that it has. All other bytes stay the same."""
    name, rest = path[0], path[1:]
    parts = []
    # `items` drops all but the last of several members with one name, as `decode` would.
    for key, part in payload.items():
        text = bytes(part)
        if key == name:
            text = bytes(replaced(part, rest, value)) if rest else bytes(value) if type(value) is Raw else dumps(value)
        parts.append(dumps(key) + b":" + text)
    return Raw(b"{" + b",".join(parts) + b"}")
