"""`orjson`, with which the codec's reading and writing of JSON is compared.

If orjson cannot be installed, the module that replaces it is used. `tests/codec/test_standard.py` compares the two.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

__all__ = ["TOO_WIDE", "dumps_exact", "loads_exact", "orjson"]

if TYPE_CHECKING:
    import orjson
else:
    try:
        import orjson
    except ImportError:
        from jsonrpc_fast.codec import _standard as orjson

_long_digits = re.compile(rb"[0-9]{19}|[0-9.]{769}").search
_wide_integers = re.compile(rb"(?<![0-9.eE+-])(-?)[1-9][0-9]{299,}(?![0-9.eE])")
TOO_WIDE = ("Integer exceeds 64-bit range", "Dict integer key must be within 64-bit range")


def loads_exact(text: bytes | str) -> Any:
    """`orjson.loads`, with the numbers that it alters or refuses read by the json module."""
    if isinstance(text, str):
        text = text.encode()
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        if _wide_integers.search(text) is None:
            raise
        orjson.loads(_wide_integers.sub(rb"\g<1>1", text))
        return _loads(text)
    return value if _long_digits(text) is None else _loads(text)


def _loads(text: bytes) -> Any:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 2048)  # orjson reads 1,024 levels
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()
        return value
    except ValueError:  # not JSON, half of a surrogate pair, or more digits than Python converts
        raise orjson.JSONDecodeError("not JSON that Python reads", "", 0) from None
    finally:
        sys.setrecursionlimit(limit)


def dumps_exact(value: Any, default: Any = None, option: int = 0) -> bytes:
    """`orjson.dumps`, with integers of any width, which the classes of JSON hold."""
    try:
        return orjson.dumps(value, default, option)
    except orjson.JSONEncodeError as error:
        if str(error) not in TOO_WIDE:
            raise
    return orjson.dumps(_with_fragments(value, bool(option & orjson.OPT_NON_STR_KEYS)), default, option)


def _with_fragments(value: Any, writes_keys: bool) -> Any:
    if type(value) is int:
        return orjson.Fragment(str(value))
    if type(value) is list or type(value) is tuple:
        return [_with_fragments(item, writes_keys) for item in value]
    if type(value) is dict:
        return {
            str(name) if writes_keys and type(name) is int else name: _with_fragments(item, writes_keys)
            for name, item in value.items()
        }
    return value
