"""orjson, with the checks of options, numbers and lengths that it lacks. Only this module imports orjson."""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Callable
from typing import Any, Final

import orjson

from ..errors import EncodeError

ORJSON_VERSION: Final[str] = orjson.__version__

Default = Callable[[Any], Any] | None
"""orjson's `default`: called with a value that orjson cannot write, returns one that it can."""

JSONDecodeError = orjson.JSONDecodeError
OPT_APPEND_NEWLINE: Final = orjson.OPT_APPEND_NEWLINE
OPT_NON_STR_KEYS: Final = orjson.OPT_NON_STR_KEYS
OPT_SORT_KEYS: Final = orjson.OPT_SORT_KEYS
OPT_PASSTHROUGH: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
"""Pass what the json module cannot write to `default`. Enumerations and UUIDs are still written."""
loads = orjson.loads
dumps_unchecked = orjson.dumps  # raises TypeError instead of EncodeError

# These two options would put a line break inside a message.
FORBIDDEN_OPTIONS: Final = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def check_option(option: int) -> None:
    """Raise ValueError for an option that breaks lines."""
    if option & FORBIDDEN_OPTIONS:
        raise ValueError("OPT_INDENT_2 and OPT_APPEND_NEWLINE would break the framing")


def dumps(value: object, default: Default = None, option: int = 0) -> bytes:
    """Return `value` as JSON on one line. Raises EncodeError. `option` is checked already."""
    try:
        if default is None:  # orjson would call it
            return orjson.dumps(value, option=option)
        return orjson.dumps(value, default, option)
    except orjson.JSONEncodeError as error:
        # The message of orjson names a type or a limit, never a value.
        raise EncodeError(str(error)) from error.__cause__


def exact_number(token: bytes) -> int | float | None:
    """Return the number in `token`, a valid JSON number; None if a float would change it.

    A response must carry the same number as its request: 0.1 and 1e2 are accepted, 12345678901234567.8 is not. The
    spelling may differ: 1e2 is written as 100.0.
    """
    if b"." not in token and b"e" not in token and b"E" not in token:
        return int(token)
    number = float(token)
    written = repr(number).encode()
    return number if token == written or _decimal(token) == _decimal(written) else None


def _decimal(token: bytes) -> tuple[bool, bytes, int]:
    """Sign, digits without zeros at either end, and power of ten."""
    mantissa, _, exponent = token.lower().partition(b"e")
    whole, _, fraction = mantissa.removeprefix(b"-").partition(b".")
    digits = (whole + fraction).rstrip(b"0")
    if not digits:
        return token.startswith(b"-"), b"", 0
    power = int(exponent or b"0") + len(whole) - len(digits)
    return token.startswith(b"-"), digits.lstrip(b"0"), power


# An integer of 19 digits or more outside strings, which may be wider than 64 bits.
_WIDE_INTEGER: Final = re.compile(rb"(?<![0-9.eE+-])(-?[0-9]{19,})(?![0-9.eE])")


def loads_valid(text: bytes) -> Any:
    """Return the value of valid JSON that is at most 1024 deep.

    orjson 3.13 refuses some: where two spaces follow the first bracket, it expects an indented text, and many short
    values without indentation exhaust its own memory. It reads the same text without those spaces.
    """
    try:
        return loads(text)
    except JSONDecodeError:
        return loads(text[:1] + text[1:].lstrip(b" \n\r\t"))


def loads_exact(text: bytes) -> Any:
    """Return `orjson.loads` of valid JSON, with exact integers of any width.

    orjson converts wide integers to floats. Each is passed to it as a string with an unpredictable prefix, and becomes
    an integer in the result. The parser of the standard library is no alternative, because its depth depends on the
    stack of the caller.

    Raises:
        ValueError: an integer has more digits than CPython converts (`sys.set_int_max_str_digits`).
    """
    if _WIDE_INTEGER.search(text) is None:
        return loads_valid(text)
    mark = uuid.uuid4().hex
    opening = b'"' + mark.encode()
    # Replace escapes by text of the same length without a quote, so that strings end at the next quote.
    masked = text.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in text else text
    parts = masked.split(b'"')
    at = 0
    for place, part in enumerate(parts):
        end = at + len(part)
        if place % 2:  # a string
            parts[place] = text[at:end]
        elif len(part) >= 19:
            pieces = _WIDE_INTEGER.split(part)  # each second one is an integer
            count = len(pieces) // 2
            marked = [b""] * (4 * count + 1)
            marked[0::4] = pieces[0::2]
            marked[1::4] = [opening] * count
            marked[2::4] = pieces[1::2]
            marked[3::4] = [b'"'] * count
            parts[place] = b"".join(marked)
        at = end + 1
    top = [loads_valid(b'"'.join(parts))]
    size = len(mark)
    containers: list[Any] = [top]
    while containers:
        container = containers.pop()
        for key, item in container.items() if type(container) is dict else enumerate(container):
            if type(item) is str:
                if item.startswith(mark):
                    container[key] = int(item[size:])
            elif type(item) is dict or type(item) is list:
                containers.append(item)
    return top[0]


def check_exact(text: bytes) -> None:
    """Raise ValueError if `loads_exact` would."""
    # Absent from the first releases of 3.10.
    limit = getattr(sys, "get_int_max_str_digits", int)()
    if 0 < limit < len(text) and re.search(rb"(?<![0-9])[0-9]{%d}" % (limit + 1), text) is not None:
        loads_exact(text)


def is_wide_integer(token: bytes) -> bool:
    """Return whether a string or number token is an integer beyond 64 bits, signed or unsigned."""
    digits = token.removeprefix(b"-")
    if not digits.isdigit() or len(digits) < 19:
        return False
    bound = b"9223372036854775808" if token.startswith(b"-") else b"18446744073709551615"
    return (len(digits), digits) > (len(bound), bound)


def is_longer(text: str, limit: int) -> bool:
    """Return whether `text` is more than `limit` bytes of UTF-8; a lone surrogate counts as three."""
    # The methods of `str`, because a subclass may override them.
    length = str.__len__(text)
    if length * 4 <= limit:
        return False
    return length > limit or len(str.encode(text, "utf-8", "surrogatepass")) > limit


def is_integer_longer(number: int, limit: int) -> bool:
    """Return whether `number` has more than `limit` characters, which must be 20 or more."""
    number = int.__int__(number)
    # 64 bits are at most 20 characters.
    return number.bit_length() > 64 and not -(10 ** (limit - 1)) < number < 10**limit


def has_surrogates(text: str) -> bool:
    """Return whether `text` holds a lone surrogate, so that it cannot be written as UTF-8."""
    try:
        str.encode(text)
    except UnicodeEncodeError:
        return True
    return False
