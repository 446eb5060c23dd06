"""Errors that are no error objects of section 5.1, as `Profile.any_errors` accepts them. For both backends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..codes import is_error_code
from ..errors import EncodeError
from ..types import plain_int
from ._json import dumps

if not TYPE_CHECKING:
    from ..types import has_type as isinstance  # noqa: A004  # the core compares types the same way


def code_and_message(error: Any) -> tuple[int, str]:
    """Return the code and the message of a decoded error of any shape.

    Args:
        error: Its value, which the `Error` has as `data`.

    Returns:
        The code and the message of an object that has them. Otherwise the code is 0, and the message is the text: the
        string itself, or the value as JSON.
    """
    if isinstance(error, str):
        return 0, str(error)
    members = error if isinstance(error, dict) else {}
    code, message = members.get("code"), members.get("message")
    if not isinstance(message, str):
        try:
            message = dumps(error, _decimal_text).decode()
        except EncodeError:  # too deep, or not decoded from JSON
            message = "the error has no message"
    return plain_int(code) if is_error_code(code) else 0, message


def _decimal_text(value: object) -> str:
    if type(value).__module__ != "decimal":
        raise TypeError
    return str(value)
