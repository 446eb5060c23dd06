"""The json module, made to behave like orjson: the same functions, values, bytes and error texts.

Rules:
  - Values that the C functions of the json module read or write as orjson does are passed to them as a whole. The
    Python functions here handle all others.
  - JSON is read up to 1024 levels deep, whatever the depth of the caller's stack.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from enum import EnumMeta
from itertools import accumulate
from json import JSONDecodeError, JSONDecoder, decoder, encoder, scanner
from json.encoder import encode_basestring
from math import isfinite, isinf
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from ..types import plain_int
from ._parts import MAX_WRITTEN_DEPTH, TOO_MANY_DIGITS, WIDE_LEVEL, fields_of, members_of, parts_of

# The functions in C; PyPy has none.
make_encoder: Any = getattr(encoder, "c_make_encoder", None)
make_scanner: Any = getattr(scanner, "c_make_scanner", None)
scanstring: Callable[[str, int, bool], tuple[str, int]] = decoder.scanstring  # type: ignore[attr-defined]

__version__: Final = None

JSONEncodeError = TypeError
# The bits of orjson, so that options mean the same with either engine.
OPT_APPEND_NEWLINE: Final = 1 << 10
OPT_INDENT_2: Final = 1 << 0
OPT_NAIVE_UTC: Final = 1 << 1
OPT_NON_STR_KEYS: Final = 1 << 2
OPT_OMIT_MICROSECONDS: Final = 1 << 3
OPT_PASSTHROUGH_DATACLASS: Final = 1 << 11
OPT_PASSTHROUGH_DATETIME: Final = 1 << 9
OPT_PASSTHROUGH_SUBCLASS: Final = 1 << 8
OPT_SERIALIZE_NUMPY: Final = 1 << 4
OPT_SORT_KEYS: Final = 1 << 5
OPT_STRICT_INTEGER: Final = 1 << 6
OPT_UTC_Z: Final = 1 << 7

_READ_DEPTH: Final = 1024

_Parts = Iterator[tuple[str, Any]]
"""The parts of a container, each after its encoded name and a colon; an item of an array has no name."""

# Reading.

# A number that may be infinite. A double ends at 1.8e308, so a number whose exponent has fewer than three digits is
# infinite only with many more than 19 digits in a row.
_find_unusual = re.compile(r"[eE]\+?[0-9]{3}|[0-9]{19}").search
# Matches every escape. Its group matches only the backslash of one that is not allowed, such as a lone surrogate.
_find_bad_escape = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|[\"\\/bfnrt])|(\\)"
).finditer
_skip_space = re.compile(r"[ \t\n\r]*").match
_match_number = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][+-]?[0-9]+)?").match
_LITERALS: Final = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}


def loads(data: bytes | bytearray | memoryview | str) -> Any:
    """Return the value of a JSON text, as orjson reads it, but with integers of any width.

    Raises JSONDecodeError for what is not JSON, nests deeper than 1024, has an integer with more digits than CPython
    converts, or another type. The error does not contain it.
    """
    try:
        if isinstance(data, str):
            text = data
            if not data.isascii():
                data.encode()
        elif isinstance(data, (bytes, bytearray)) or (isinstance(data, memoryview) and data.c_contiguous):
            text = codecs.utf_8_decode(data, "strict", True)[0]  # str() of PyPy lets surrogates through
        else:
            raise JSONDecodeError("Input must be bytes, bytearray, memoryview, or str", "", 0)
        value = _read(text)
        # The text is JSON, so its escapes are in strings. The json module accepts lone surrogates; orjson refuses them.
        if "\\u" in text and any(found.group(1) for found in _find_bad_escape(text)):
            raise ValueError
    except JSONDecodeError as error:
        # An exception of the json module holds the whole document.
        raise JSONDecodeError(error.msg, "", 0) from None
    except ValueError:  # UTF-8, a number or an escape
        raise JSONDecodeError("not JSON", "", 0) from None
    return value


def _read(text: str) -> Any:
    return read_with(text, _read_unusual if _find_unusual(text) else _read_usual, int, _float)


_find_brackets = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]').findall
"""Matches brackets and strings, so that brackets in strings are not counted."""


def _depth_of(text: str) -> int:
    steps = {"[": 1, "{": 1, "]": -1, "}": -1}
    return max(accumulate(steps.get(found, 0) for found in _find_brackets(text)))


def read_with(
    text: str, decode: Callable[[str], Any], integer: Callable[[str], Any], real: Callable[[str], Any]
) -> Any:
    """Return the value of a JSON text of at most 1024 levels. Raises ValueError.

    `decode` is the method of a `JSONDecoder` made with the two functions: `integer` returns the number in a token
    without fraction and exponent, `real` that in another token.
    """
    # On Emscripten the scanner of the json module overflows the stack, instead of raising RecursionError.
    if make_scanner is None or (sys.platform == "emscripten" and text.count("[") + text.count("{") > _READ_DEPTH):
        return _read_in_steps(text, integer, real)
    try:
        value = decode(text)
    # The C scanner recurses, and the caller may have used up most of the stack.
    except RecursionError:
        return _read_in_steps(text, integer, real)
    # The number of brackets bounds the depth: usual input is not walked a second time. The text is walked, because the
    # value lacks the first of two members of one name.
    if text.count("[") + text.count("{") > _READ_DEPTH and _depth_of(text) > _READ_DEPTH:
        raise ValueError
    return value


def _float(token: str) -> float:
    number = float(token)
    # orjson refuses a number beyond a double, and `float` returns infinity for it.
    if isinf(number):
        raise ValueError
    return number


def refuse_constant(_: str) -> None:
    """Refuse NaN and infinities."""
    raise ValueError


_read_usual = JSONDecoder(parse_constant=refuse_constant).decode
_read_unusual = JSONDecoder(parse_constant=refuse_constant, parse_float=_float).decode


def loads_checked(text: str) -> Any:
    """Return the value of valid JSON that is at most 1024 deep.

    Raises:
        ValueError: An integer has more digits than CPython converts.
    """
    return read_with(text, _read_unusual, int, _float)


def _read_in_steps(text: str, integer: Callable[[str], Any] = int, real: Callable[[str], Any] = _float) -> Any:
    """Return the value of a JSON text, without recursion. Raises ValueError."""
    top: list[Any] = []
    container: Any = top
    name = ""
    around: list[tuple[Any, str]] = []  # the containers around this one, and the names in them
    at = 0
    while True:
        # A value begins here.
        at = _skip_space(text, at).end()  # type: ignore[union-attr]
        first = text[at : at + 1]
        if first in ("{", "["):
            if len(around) == _READ_DEPTH:
                raise ValueError
            opened: Any = {} if first == "{" else []
            _put(container, name, opened)
            around.append((container, name))
            container = opened
            at = _skip_space(text, at + 1).end()  # type: ignore[union-attr]
            if text[at : at + 1] != ("}" if first == "{" else "]"):
                if first == "{":
                    name, at = _read_name(text, at)
                continue
            container, name = around.pop()
            at += 1
        else:
            value, at = _read_scalar(text, at, first, integer, real)
            _put(container, name, value)
        # The value ends here, and perhaps containers around it: each closing bracket ends one more.
        while True:
            at = _skip_space(text, at).end()  # type: ignore[union-attr]
            if container is top:
                if at != len(text):
                    raise ValueError
                return top[0]
            last = text[at : at + 1]
            at += 1
            if last == ",":
                break
            if last != ("}" if type(container) is dict else "]"):
                raise ValueError
            container, name = around.pop()
        if type(container) is dict:
            name, at = _read_name(text, _skip_space(text, at).end())  # type: ignore[union-attr]


def _put(container: Any, name: str, value: Any) -> None:
    if type(container) is dict:
        container[name] = value
    else:
        container.append(value)


def _read_name(text: str, at: int) -> tuple[str, int]:
    """Return the name at `at`, and the place after its colon."""
    if text[at : at + 1] != '"':
        raise ValueError
    name, at = scanstring(text, at + 1, True)
    at = _skip_space(text, at).end()  # type: ignore[union-attr]
    if text[at : at + 1] != ":":
        raise ValueError
    return name, at + 1


def _read_scalar(
    text: str, at: int, first: str, integer: Callable[[str], Any], real: Callable[[str], Any]
) -> tuple[Any, int]:
    if first == '"':
        return scanstring(text, at + 1, True)
    if first in _LITERALS:
        word, value = _LITERALS[first]
        if not text.startswith(word, at):
            raise ValueError
        return value, at + len(word)
    found = _match_number(text, at)
    if found is None:
        raise ValueError
    token, fraction, exponent = found.groups("")
    return real(found.group()) if fraction or exponent else integer(token), found.end()


# Writing.


def dumps(
    value: Any,
    default: Callable[[Any], Any] | None = None,
    option: int | None = None,
    foreign: Callable[[Any], str | None] | None = None,
) -> bytes:
    """Return a value as JSON, in the bytes of orjson, with integers of any width.

    Args:
        value: The value.
        default: As in orjson.
        option: As in orjson.
        foreign: Returns the JSON of a value that is left to orjson, where that is installed; None for any other.

    Raises:
        JSONEncodeError: A value cannot be written. Its cause is the exception of `default`, if any.
    """
    if option is None:
        option = 0
    elif type(option) is not int or not 0 <= option < 1 << 12:
        raise JSONEncodeError("Invalid opts")
    if make_encoder is not None and option & ~OPT_SORT_KEYS == 0 and _is_plain(value):
        try:
            return "".join((_write_sorted if option else _write_plain)(value, 0)).encode()
        except (UnicodeEncodeError, RecursionError, TypeError, ValueError):  # another thread may change the value
            pass
    return _Writer(default, option, foreign).write(value).encode()


def _refuse(value: object) -> None:
    raise TypeError


if make_encoder is not None:
    # markers, default, encoder, indent, key_separator, item_separator, sort_keys, skipkeys, allow_nan. No markers: they
    # find cycles, and `_is_plain` has bounded the depth.
    _write_plain, _write_sorted = (
        make_encoder(None, _refuse, encode_basestring, None, ":", ",", is_sorted, False, True)
        for is_sorted in (False, True)
    )

_PLAIN_KINDS: Final = frozenset({str, int, float, bool, type(None), dict, list, tuple})


def _is_plain(value: object) -> bool:
    """Return whether the json module writes a value as orjson does, except strings with lone surrogates."""
    level = [value]
    for _ in range(MAX_WRITTEN_DEPTH + 1):
        kinds = set(map(type, level))
        # Not `issuperset`: without the GIL, on Python 3.13, it waits for a lock that it holds itself.
        if not kinds <= _PLAIN_KINDS or len(level) > WIDE_LEVEL:
            return False
        # `repr` and orjson differ in their notation for very small and very large floats.
        if float in kinds and not all(map(_is_usual, [item for item in level if type(item) is float])):
            return False
        if dict in kinds and not all({str}.issuperset(map(type, list(item))) for item in level if type(item) is dict):
            return False
        level = parts_of(*level)
        if not level:
            return True
    return False


def _is_usual(number: float) -> bool:
    """Return whether `repr` has the notation of orjson."""
    return 1e-4 <= number < 1e16 or -1e16 < number <= -1e-4 or number == 0.0


def _write_float(number: float) -> str:
    text = float.__repr__(number)
    if "e" in text:
        digits, exponent = text.split("e")
        # orjson writes 1e-05 as 0.00001, and other exponents without their zeros.
        if exponent == "-05":
            sign = "-" if digits[0] == "-" else ""
            return f"{sign}0.0000{digits.lstrip('-').replace('.', '')}"
        return f"{digits}e{exponent[0]}{exponent[1:].lstrip('0')}"
    return text if isfinite(number) else "null"


def _write_string(text: str) -> str:
    if not str.isascii(text):
        try:
            str.encode(text)
        except UnicodeEncodeError:
            raise JSONEncodeError("str is not valid UTF-8: surrogates not allowed") from None
    return encode_basestring(text)


class Fragment:
    """Text that is written unchanged, like orjson's `Fragment`."""

    __slots__ = ("contents",)

    def __init__(self, contents: str | bytes) -> None:
        self.contents: str = contents if isinstance(contents, str) else contents.decode()


_find_type = re.compile(r"received a '(.*)'$", re.DOTALL).search
_name_of_class: Final = type.__dict__["__name__"].__get__


def _name_of(value: object) -> str:
    """Return the name of the class of a value; for a class in C it begins with the module."""
    name: str = _name_of_class(type(value))
    try:
        # The text of this TypeError is the only place where CPython shows the full name of a class in C.
        str.__len__(value)  # type: ignore[arg-type]
    except TypeError as error:
        found = _find_type(str(error))
        if found is not None and found.group(1).endswith(f".{name}"):
            return found.group(1)
    return name


class _Writer:
    """Writes a value of any type, part by part, without recursion."""

    __slots__ = ("_default", "_foreign", "_option")

    def __init__(
        self, default: Callable[[Any], Any] | None, option: int, foreign: Callable[[Any], str | None] | None
    ) -> None:
        self._default = default
        self._option = option
        self._foreign = foreign

    def write(self, value: Any) -> str:
        texts: list[str] = []
        around: list[tuple[_Parts, str, int, int]] = []
        # For the open container: its remaining parts, its closing bracket, and the numbers of containers and
        # enumerations, and of calls of `default`, around its parts.
        left: _Parts = iter((("", value),))
        closing = ""
        depth = calls = 0
        while True:
            for name, item in left:
                texts.append(name)
                text = self._scalar_text(item)
                inner_depth, inner_calls = depth, calls
                # `default` may return a value that has to go to `default` again, and an enumeration may hold another
                # one.
                while text is None:
                    opened = self._open(item)
                    if opened is not None:
                        _check_depth(inner_depth)
                        around.append((left, closing, depth, calls))
                        text, left, closing = opened
                        depth, calls = inner_depth + 1, inner_calls
                        texts.append(text)
                        break
                    if type(type(item)) is EnumMeta:
                        _check_depth(inner_depth)
                        inner_depth += 1
                        item = item.value
                    else:
                        item = self._call_default(item, inner_calls)
                        inner_calls += 1
                    text = self._scalar_text(item)
                else:
                    texts += (text, ",")
                    continue
                break
            else:
                # The comma after the last part becomes the bracket.
                if texts[-1] == ",":
                    texts[-1] = closing
                else:
                    texts.append(closing)
                if not around:
                    return "".join(texts)
                texts.append(",")
                left, closing, depth, calls = around.pop()

    def _scalar_text(self, value: Any) -> str | None:
        """Return a value without parts as JSON; None for another value."""
        kind = type(value)
        option = self._option
        if kind is str:
            return _write_string(value)
        if kind is int:
            return self._write_integer(value)
        if value is None:
            return "null"
        if kind is bool:
            return "true" if value else "false"
        if kind is float:
            return _write_float(value)
        if kind in (datetime, date, time) and not option & OPT_PASSTHROUGH_DATETIME:
            return f'"{_time_text(value, option)}"'
        if kind is UUID:
            return f'"{value}"'
        if kind is Fragment:
            return value.contents  # type: ignore[no-any-return]
        if not option & OPT_PASSTHROUGH_SUBCLASS:
            if issubclass(kind, str):
                return _write_string(value)
            if issubclass(kind, int):
                return self._write_integer(plain_int(value))
        return None

    def _write_integer(self, number: int) -> str:
        if self._option & OPT_STRICT_INTEGER and not -(1 << 53) < number < 1 << 53:
            raise JSONEncodeError("Integer exceeds 53-bit range")
        return _digits_of(number)

    def _open(self, value: Any) -> tuple[str, _Parts, str] | None:
        """Return the opening bracket, the parts and the closing bracket of a value; None if it has no parts."""
        kind = type(value)
        option = self._option
        takes_subclass = not option & OPT_PASSTHROUGH_SUBCLASS
        if kind is list or kind is tuple or (takes_subclass and issubclass(kind, list)):
            items = tuple.__iter__(value) if kind is tuple else list.__iter__(value)
            return "[", (("", item) for item in items), "]"
        if kind is dict or (takes_subclass and issubclass(kind, dict)):
            pairs = list(dict.items(value))  # a copy: `default` and other threads may change the dict
            if option & OPT_NON_STR_KEYS:
                pairs = [(self._key_text(name), item) for name, item in pairs]
            elif option & OPT_SORT_KEYS:
                for name, _ in pairs:  # an error is raised before any value is written
                    _name_text(name)
            if option & OPT_SORT_KEYS:
                pairs.sort(key=itemgetter(0))
            return "{", ((_name_text(name), item) for name, item in pairs), "}"
        if (
            type(kind) is not EnumMeta
            and "__dataclass_fields__" in members_of(kind)
            and not option & OPT_PASSTHROUGH_DATACLASS
        ):
            return "{", ((_name_text(name), item) for name, item in fields_of(value)), "}"
        return None

    def _key_text(self, key: Any) -> str:
        kind = type(key)
        if kind is str:
            text: str = key
        elif key is None:
            text = "null"
        elif kind is bool:
            text = "true" if key else "false"
        elif kind is float:
            text = _write_float(key)
        elif kind in (datetime, date, time):
            text = _time_text(key, self._option)
        elif kind is UUID:
            text = str(key)
        elif issubclass(kind, str):
            text = str.__str__(key)
        elif issubclass(kind, int):
            text = _digits_of(plain_int(key))
        elif type(kind) is EnumMeta:
            return self._key_text(key.value)
        else:
            raise JSONEncodeError("Dict key must a type serializable with OPT_NON_STR_KEYS")
        _write_string(text)
        return text

    def _call_default(self, value: Any, calls: int) -> Any:
        written = None if self._foreign is None else self._foreign(value)
        if written is not None:
            return Fragment(written)
        if self._option & OPT_SERIALIZE_NUMPY and type(value).__module__.partition(".")[0] == "numpy":
            raise JSONEncodeError(f"orjson, which is not installed, is needed to write {_name_of(value)}")
        if self._default is None:
            raise JSONEncodeError(f"Type is not JSON serializable: {_name_of(value)}")
        # Like orjson: a `default` that returns its argument would never end.
        # Nested calls of `default` for its own result.
        if calls == 255:
            raise JSONEncodeError("default serializer exceeds recursion limit")
        try:
            return self._default(value)
        except BaseException as error:  # as orjson does
            raise JSONEncodeError(f"Type is not JSON serializable: {_name_of(value)}") from error


def _digits_of(number: int) -> str:
    try:
        return int.__repr__(number)
    except ValueError:
        raise JSONEncodeError(TOO_MANY_DIGITS) from None


def _name_text(name: Any) -> str:
    if type(name) is not str:
        raise JSONEncodeError("Dict key must be str")
    return f"{_write_string(name)}:"


def _check_depth(depth: int) -> None:
    if depth == MAX_WRITTEN_DEPTH:
        raise JSONEncodeError("Recursion limit reached")


def _time_text(value: datetime | date | time, option: int) -> str:
    if type(value) is date:
        return value.isoformat()
    if option & OPT_OMIT_MICROSECONDS:
        value = value.replace(microsecond=0)  # type: ignore[call-arg]
    if isinstance(value, time):
        if value.tzinfo is not None:
            raise JSONEncodeError("datetime.time must not have tzinfo set")
        return value.isoformat()
    assert isinstance(value, datetime)
    text = value.replace(tzinfo=None).isoformat()
    if value.tzinfo is None:
        if not option & OPT_NAIVE_UTC:
            return text
        offset = 0
    else:
        offset = round((value.utcoffset() or timedelta()).total_seconds())
    if offset == 0 and option & OPT_UTC_Z:
        return f"{text}Z"
    hours, seconds = divmod(abs(offset), 3600)
    # The time offset of RFC 3339 has no seconds, so they are rounded (section 5.8).
    return f"{text}{'-' if offset < 0 else '+'}{hours:02}:{(seconds + 30) // 60:02}"
