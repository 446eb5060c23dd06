"""Where a value is that cannot be written as JSON: found again after the encoder has refused the whole."""

from __future__ import annotations

from typing import Any

from .._pointers import pointer_to
from ..errors import EncodeError
from ..types import MessageId
from ._backend import dumps
from ._json import Default
from .encoders import Encoders

_MAX_PARTS = 1000
"""The largest number of values that are tried, so that the search takes less time than the call."""


def explained(error: EncodeError, method: str, params: Any, default: Default = None, option: int = 0) -> EncodeError:
    """Return the error for params of a method, which names the method and the place of the value.

    Args:
        error: What the encoder has raised.
        method: The method of the message.
        params: Its params.
        default: As in `encode`.
        option: As in `encode`.
    """
    # A lone surrogate in the method: the text of the error cannot show it, either.
    try:
        method.encode()
    except UnicodeEncodeError:
        return EncodeError(f"{error}: the method")
    place = _place_of(params, default, option)
    return EncodeError(f"{error}: {place or 'the params'} of {method}")


def write_request(
    id: MessageId,
    method: str,
    params: Any,
    *,
    encoders: Encoders,
    delimited: bool,
    default: Default = None,
    option: int = 0,
) -> bytes:
    """Return a request as `encode_request` does, with an error that says where the value is."""
    try:
        return encoders.encode_request(id, method, params, delimited=delimited, default=default, option=option)
    except EncodeError as error:
        raise explained(error, method, params, encoders.default_of(default), option) from error.__cause__


def write_notification(
    method: str, params: Any, *, encoders: Encoders, delimited: bool, default: Default = None, option: int = 0
) -> bytes:
    """Return a notification as `encode_notification` does, with an error that says where the value is."""
    try:
        return encoders.encode_notification(method, params, delimited=delimited, default=default, option=option)
    except EncodeError as error:
        raise explained(error, method, params, encoders.default_of(default), option) from error.__cause__


def _place_of(value: Any, default: Default, option: int) -> str:
    """Return the JSON pointer to the first value that cannot be written, as deep as it is found."""
    place: list[str | int] = []
    left = _MAX_PARTS
    while isinstance(value, (dict, list, tuple)):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for name, part in parts:
            left -= 1
            if not left:
                return pointer_to(place)
            try:
                # Trying each part anew takes quadratic time at worst, so the number of tries has a bound.
                dumps(part, default, option)
            except (EncodeError, RecursionError):
                place.append(name)
                value = part
                break
            except Exception:  # whatever a `default` raises
                return pointer_to(place)
        else:
            break  # a key
    return pointer_to(place)
