"""`loads` and `dumps` for libraries that accept stand-ins for those of the json module.

    from jsonrpc_fast.adapters import json    # instead of import json

Rules:
  - The arguments, results and exceptions are those of the json module, which does the rest: hooks, `parse_float` and
    similar arguments, indentation, `ensure_ascii`, UTF-16, and a `str` with characters beyond ASCII.
  - The json module also reads and writes NaN and lone surrogates, reports invalid texts, and writes integers beyond 64
    bits, keys that are not strings and what it leaves to `default`. They are found only after orjson or the core has
    begun, so they take longer than with the json module alone.
  - `default` and the method `default` of `cls` get exactly the values that they get from the json module.
  - `dumps` without `separators` writes no spaces. Without `ensure_ascii` it escapes characters only where the json
    module writes the value. If both are given, the output is that of the json module, except that 1e-05 is spelled
    0.00001 and 1e-07 is spelled 1e-7.
"""

from __future__ import annotations

import json as _json
import marshal
import re
from collections.abc import Callable
from functools import cache, wraps
from json import JSONDecodeError, JSONDecoder, JSONEncoder, dump, load
from typing import Any, Final

from ..codec import BACKEND, Response, decode
from ..codec import dumps as _dumps
from ..profile import JSONRPC

__all__ = ["JSONDecodeError", "JSONDecoder", "JSONEncoder", "dump", "dumps", "load", "loads"]

_PROFILE: Final = JSONRPC.replace(name="json", extra_members=False)
# A binary float is its type code ("g", with a flag 0x80 if it may be referred to) and eight bytes, little-endian. NaN
# and infinities have an exponent of all ones: the last byte is 7F or FF, and the four highest bits of the one before
# are set.
_find_nan, _find_negative_nan = (
    re.compile(last + rb"(?<=[g\xe7].{6}[\xf0-\xff]" + last + rb")", re.DOTALL).search for last in (rb"\x7f", rb"\xff")
)
"""Find NaN and infinities in the format of `marshal` by the last byte, which is rare. A few other values match too."""
_ENCODER: Final = JSONEncoder(separators=(",", ":"))


def loads(s: str | bytes | bytearray, **options: Any) -> Any:
    """Return the value of a JSON text, like `json.loads`.

    Args:
        s: The text.
        options: The options of `json.loads`. It reads the text if one of them is not None.

    Raises:
        JSONDecodeError: `s` is not JSON.
        UnicodeDecodeError: `s` is not in a Unicode encoding.
        TypeError: `s` has another type.
    """
    if not options or all(option is None for option in options.values()):
        # The json module is faster for other characters, because it does not encode them first.
        text = s.encode() if isinstance(s, str) and s.isascii() else s
        if isinstance(text, (bytes, bytearray)):
            message = _read(text)
            if type(message) is Response:
                return message.result
    return _json.loads(s, **options)


if BACKEND == "python":
    loads = _json.loads  # it is faster than the pure backend


def loads_or(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does what `own` does: it reads the JSON text that is its last argument.

    `own` reads whatever the core reads differently from the json module, and arguments that are not `bytes`. Without
    the compiled core the function is `own` itself, which is faster there.
    """
    if BACKEND == "python":
        return own

    @wraps(own)
    def loads(*args: Any) -> Any:
        if isinstance(args[-1], bytes):
            message = _read(args[-1])
            if type(message) is Response:
                return message.result
        return own(*args)

    return loads


def _read(text: bytes | bytearray) -> Any:
    """Return a `Response` with the value of a JSON text as result; any other object if the json module must read it."""
    # The value is decoded as the result of a response. Input that would add members to that response is refused: the
    # profile allows no other members, and duplicates are a fault in any.
    return decode(b"".join((b'{"jsonrpc":"2.0","id":0,"result":', text, b"}")), _PROFILE)


def dumps(
    obj: Any,
    *,
    skipkeys: bool = False,
    ensure_ascii: bool | None = None,
    check_circular: bool = True,
    allow_nan: bool = True,
    cls: type[JSONEncoder] | None = None,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    default: Callable[[Any], Any] | None = None,
    sort_keys: bool = False,
    **kw: Any,
) -> str:
    """Return a value as JSON, like `json.dumps`.

    Raises:
        TypeError: A value or a key cannot be written.
        ValueError: The value contains itself, or NaN without `allow_nan`.
    """
    encoder: Any = cls
    is_usual = (separators is None or tuple(separators) == (",", ":")) and not ensure_ascii
    if is_usual and indent is None and not skipkeys and not kw and (encoder is None or _has_only_default(encoder)):
        text = to_bytes(obj, sort_keys)
        if text is not None:
            return text.decode()
        # `_ENCODER` has exactly these options. Making an encoder takes longer than writing a small value.
        is_default = ensure_ascii is None and check_circular and allow_nan and not sort_keys
        if is_default and cls is None and default is None:
            return _ENCODER.encode(obj)
    return _json.dumps(
        obj,
        skipkeys=skipkeys,
        ensure_ascii=ensure_ascii is not False,
        check_circular=check_circular,
        allow_nan=allow_nan,
        cls=cls,
        indent=indent,
        separators=(",", ":") if separators is None and indent is None else separators,
        default=default,
        sort_keys=sort_keys,
        **kw,
    )


def to_bytes(value: Any, sort_keys: bool = False) -> bytes | None:
    """Return a value as compact UTF-8; None if orjson would not write what the json module writes."""
    try:
        # orjson.OPT_SORT_KEYS
        text = _dumps(value, None, (1 << 5) if sort_keys else 0)
        # It refuses what orjson and the json module write differently, or only one of them without `default`: values
        # that are not plain. A search in Python would take much longer.
        marked = marshal.dumps(value)
    except (TypeError, ValueError):
        return None
    # orjson writes NaN and infinities as null, the json module as NaN and Infinity.
    if b"null" in text and (_find_nan(marked) or _find_negative_nan(marked)):
        return None
    return text


@cache
def _has_only_default(cls: Any) -> bool:
    """Return whether an encoder class overrides nothing but `default`."""
    return all(getattr(cls, name) is getattr(JSONEncoder, name) for name in ("__init__", "encode", "iterencode"))
