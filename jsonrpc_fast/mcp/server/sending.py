"""What the functions of a server return, as JSON; and why a value cannot be sent.

Rules:
  - Nothing is altered without a word: NaN and infinity, which the codec writes as null, are refused.
  - The reason names the place of the value and its type, never the value. For a tool it is a result with `isError`, so
    that the model gets it; for other functions it is in the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, Final

from ...codec import dumps
from ...errors import EncodeError
from ...handlers import to_json
from ...support import has_surrogates, pointer_to

_MAX_SHOWN: Final = 200


class NotSendable(EncodeError):
    """A value cannot be sent: the text says why, and where in the value."""


def sendable(value: Any) -> tuple[Any, bytes]:
    """Return a value in JSON types, as `to_json` makes them, and the JSON text.

    Raises:
        NotSendable: The value cannot be sent.
    """
    try:
        converted = to_json(value)
        text = dumps(converted)
        # A text with fewer brackets can be a part of any result: the codec writes values of a depth of 254.
        if text.count(b"[") + text.count(b"{") >= 200:
            check_depth(converted)
    except EncodeError as error:
        raise NotSendable(f"{error}{_at(_place_of(value, _is_refused))}") from error
    # Only where a null may stand for one of them.
    if b"null" in text and _is_not_finite(converted):
        place = _place_of(converted, _is_not_finite)
        raise NotSendable(f"NaN and infinity are no values of JSON{_at(place)}")
    return converted, text


def check_depth(value: Any) -> None:
    """Raise EncodeError for a value that is too deep for a response, although it can be written alone."""
    # At most 8 containers are around a value in a response.
    for _ in range(8):
        value = [value]
    dumps(value)


def sendable_text(text: str) -> str:
    """Return a text if it can be sent.

    Raises:
        NotSendable: It has a lone surrogate, as names of files that are not UTF-8 do.
    """
    if not text.isascii() and has_surrogates(text):
        raise NotSendable("str is not valid UTF-8: surrogates not allowed")
    return text


def shown_text(text: str) -> str:
    """Return a text for people that can be sent: a lone surrogate is shown as its escape."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _is_refused(value: Any) -> bool:
    try:
        dumps(to_json(value))
    except EncodeError:
        return True
    return False


def _is_not_finite(value: Any) -> bool:
    """Whether a value of JSON types has NaN or infinity in it."""
    values = [value]
    for each in values:  # the list grows: by level, without recursion
        if type(each) is float:
            if not isfinite(each):
                return True
        elif type(each) is dict:
            values += each.values()
        elif type(each) in (list, tuple):
            values += each
    return False


def _place_of(value: Any, is_it: Callable[[Any], bool]) -> list[str | int] | None:
    """Return the way to the part of a value that is refused, as far as it can be found; None for a circular value."""
    place: list[str | int] = []
    seen = {id(value)}
    # Each try takes as long as writing the value.
    left = 1000
    while True:
        for name, part in _named_parts(value):
            left -= 1
            if left < 0:
                return place
            if id(part) in seen and is_it(part):
                return [*place, name]
            if is_it(part):
                place.append(name)
                value = part
                seen.add(id(part))
                break
        else:
            return place


def _named_parts(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return [*value.items()]
    if isinstance(value, (list, tuple)):
        return enumerate(value)
    names: Iterable[str] = getattr(type(value), "__struct_fields__", getattr(type(value), "__dataclass_fields__", ()))
    return [(name, getattr(value, name, None)) for name in names]


def _at(place: list[str | int] | None) -> str:
    if not place:
        return ""
    shown = shown_text(pointer_to(place))
    return f", at {shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + '...'}"
