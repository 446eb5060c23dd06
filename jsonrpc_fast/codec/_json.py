"""The JSON engine, with the checks of options, depth, numbers and lengths that it lacks.

The engine is orjson where it can be imported and works: with the GIL, and from Python 3.12 on only in the main
interpreter. Otherwise it is `_standard.py`, which has orjson's values, bytes and errors, but not its speed; the core
reads and writes nearly everything itself. `JSONRPC_FAST_WITHOUT_ORJSON=1` selects it everywhere. Only this module
imports orjson.
"""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from ..errors import EncodeError
from ..support import check_type
from ..support import has_surrogates as has_surrogates
from ..types import plain_int
from ._parts import MAX_WRITTEN_DEPTH, WIDE_LEVEL, fields_of, members_of, parts_of


def is_set(variable: str) -> bool:
    """Return whether an environment variable turns something on: it is not empty, 0, false or no."""
    return os.environ.get(variable, "").strip().lower() not in ("", "0", "false", "no")


def _why_not_orjson() -> str | None:
    """The reason not to try to import orjson, or None."""
    if is_set("JSONRPC_FAST_WITHOUT_ORJSON"):
        return "JSONRPC_FAST_WITHOUT_ORJSON is set"
    if sys.version_info >= (3, 12):
        import _thread

        # orjson shares its exception class between interpreters. This crashes since each interpreter has its own cache
        # for the methods of classes.
        if not _thread._is_main_interpreter():  # type: ignore[attr-defined]
            return "orjson works in the main interpreter only, from Python 3.12 on"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "orjson needs the GIL"  # its import would enable it
    return None


ORJSON_FAULT: str | None = _why_not_orjson()
"""Why orjson is not in use, or None."""

if TYPE_CHECKING:
    import orjson as engine
elif ORJSON_FAULT is not None:
    from . import _standard as engine
else:
    try:
        import orjson as engine

        # After a second `Py_Initialize` its functions know no keywords.
        if engine.loads(engine.dumps([1, "a"], option=engine.OPT_SORT_KEYS)) != [1, "a"]:
            ORJSON_FAULT = "orjson does not read what it has written"
        elif not hasattr(engine, "Fragment"):  # it was installed without the package's requirements
            ORJSON_FAULT = f"orjson {engine.__version__} is too old"
    except ImportError as error:
        ORJSON_FAULT = str(error)
    except Exception as error:  # the package must be importable whatever is wrong with it
        ORJSON_FAULT = f"orjson cannot be used: {type(error).__name__}: {error}"
    if ORJSON_FAULT is not None:
        from . import _standard as engine

ORJSON_VERSION: Final[str | None] = engine.__version__
"""The version of orjson, or None where it is not in use."""

Default = Callable[[Any], Any] | None
"""orjson's `default`: called with a value that orjson cannot write, returns one that it can."""

JSONDecodeError = engine.JSONDecodeError
OPT_SORT_KEYS: Final = engine.OPT_SORT_KEYS
Fragment: Final = engine.Fragment
loads = engine.loads
dumps_unchecked = engine.dumps  # raises TypeError instead of EncodeError

HARMLESS_OPTIONS: Final = (
    engine.OPT_NAIVE_UTC
    | engine.OPT_NON_STR_KEYS
    | engine.OPT_OMIT_MICROSECONDS
    | engine.OPT_PASSTHROUGH_DATACLASS
    | engine.OPT_PASSTHROUGH_DATETIME
    | engine.OPT_PASSTHROUGH_SUBCLASS
    | engine.OPT_SERIALIZE_NUMPY
    | engine.OPT_UTC_Z
)
"""Options that change nothing about values of exactly the types of JSON, with str as names."""

# These two options would put a line break inside a message.
FORBIDDEN_OPTIONS: Final = engine.OPT_INDENT_2 | engine.OPT_APPEND_NEWLINE


def check_option(option: int) -> None:
    """Raise ValueError for an option that breaks lines, and TypeError for a value that is not an option."""
    if type(option) is not int:
        check_type("option", option, int)
    if option & FORBIDDEN_OPTIONS:
        raise ValueError("OPT_INDENT_2 and OPT_APPEND_NEWLINE would break the framing")
    if option >> 32:  # orjson would cut it off
        raise ValueError("option must consist of orjson's constants OPT_…")


def dumps(value: object, default: Default = None, option: int = 0) -> bytes:
    """Return a value as JSON on one line, with the checks of the encoders.

    Args:
        value: Any value that the encoders write.
        default: As in `encode`.
        option: As in `encode`, but not checked.

    Raises:
        EncodeError: The value cannot be written as JSON.
    """
    check_depth(value, option)
    return dumps_bounded(value, default, option)


def dumps_bounded(value: object, default: Default = None, option: int = 0) -> bytes:
    """As `dumps`, of a value that `check_depth` accepts."""
    bounded = None if default is None else _Bounded(default, option, value)
    try:
        # orjson would call None.
        return engine.dumps(value, option=option) if bounded is None else engine.dumps(value, bounded, option)
    except engine.JSONEncodeError as error:
        if not is_too_wide(error):
            raise refusal(error) from cause_of(error)
    try:
        return dumps_wide(value, None if bounded is None else bounded.repeated(), option)
    except engine.JSONEncodeError as error:
        raise refusal(error) from cause_of(error)


def is_too_wide(error: TypeError) -> bool:
    """Return whether orjson has refused a value only because of an integer beyond 64 bits."""
    return str(error) in ("Integer exceeds 64-bit range", "Dict integer key must be within 64-bit range")


def dumps_wide(value: object, repeated: Default, option: int) -> bytes:
    """Return a value with integers beyond 64 bits, which orjson refuses, as JSON. Raises TypeError.

    repeated: A `default` that first returns again what it has returned to orjson: it may have used up its argument.
    """
    from . import _standard

    def by_orjson(value: object) -> str | None:
        if type(value) is not Fragment and not (
            option & engine.OPT_SERIALIZE_NUMPY and type(value).__module__.partition(".")[0] == "numpy"
        ):
            return None
        # orjson would call None.
        written = engine.dumps(value, option=option) if repeated is None else engine.dumps(value, repeated, option)
        return written.decode()

    return _standard.dumps(value, repeated, option, by_orjson)


class _Bounded:
    """A `default` whose results are checked, too, and can be repeated in the order of its calls.

    orjson may leave an object to `default`, which may return a deep value. The depth of the object is looked up when a
    result has parts, which is rare.
    """

    __slots__ = ("_calls", "_default", "_left", "_option", "_whole")

    def __init__(self, default: Callable[[Any], Any], option: int, whole: object) -> None:
        self._default = default
        self._option = option
        self._whole = whole  # the value that is written
        self._left: Left = {}
        self._calls: list[tuple[object, object]] = []

    def __call__(self, value: object) -> object:
        written = self._default(value)
        if type(written) not in _SCALARS and type(written) is not Fragment:
            if not self._left:
                check_depth(self._whole, self._option, 0, self._left)
            depth = self._left[id(value)][1] if id(value) in self._left else 0
            check_depth(written, self._option, depth, self._left)
        self._calls.append((value, written))
        return written

    def repeated(self) -> Callable[[Any], Any]:
        """Return the same `default`, which begins with the results of its calls so far."""
        calls = deque(self._calls)

        def again(value: object) -> object:
            return calls.popleft()[1] if calls and calls[0][0] is value else self(value)

        return again


def refusal(error: TypeError) -> EncodeError:
    """Return the error for the caller in place of orjson's: its text names a type or a limit, never a value."""
    if isinstance(error.__cause__, EncodeError) and str(error.__cause__) in (
        TOO_DEEP,
        DECIMAL_NOT_FINITE,
        DECIMAL_TOO_LARGE,
    ):
        return EncodeError(str(error.__cause__))
    # orjson names a class of the core with its module, and one of the pure backend without.
    return EncodeError(str(error).replace("jsonrpc_fast.", ""))


def cause_of(error: TypeError) -> BaseException | None:
    """Return what `default` raised, which is the cause of an error of orjson; None if it raised nothing."""
    # Before orjson 3.12 the cause may also be orjson's own UnicodeEncodeError, which holds the string.
    cause = error.__cause__
    return None if str(error).startswith("str is not valid UTF-8") or isinstance(cause, NoDefault) else cause


class NoDefault(TypeError):
    """Raised by a `default` of this package where the caller has passed none."""


TOO_DEEP: Final = "Recursion limit reached"
"""orjson's text about lists and dicts that nest deeper than MAX_WRITTEN_DEPTH."""

DECIMAL_NOT_FINITE: Final = "a Decimal that is not finite is not a JSON number"
DECIMAL_TOO_LARGE: Final = "a Decimal is beyond a double, or its exponent is too large"

Left = dict[int, tuple[object, int]]
"""Objects that orjson may leave to `default`, by id, and how deep they are."""

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_is_plain: Final = (_SCALARS | {dict, list, tuple}).issuperset


def check_depth(value: object, option: int = 0, depth: int = 0, left: Left | None = None) -> None:
    """Raise EncodeError for a value that nests deeper than orjson writes lists.

    orjson has no limit for tuples, nor for enumerations of enumerations, and would overflow the stack. `depth`: how
    many containers are around the value. `left` gets the objects that have no parts.
    """
    if type(value) in _SCALARS:
        return
    # Level by level, many values in one call. This works for plain values only, which refer only to their parts.
    level = [value]
    for _ in range(depth, MAX_WRITTEN_DEPTH):
        # The level contains other values, or may have grown by a cycle: check value by value.
        if not _is_plain(map(type, level)) or len(level) > WIDE_LEVEL:
            break
        level = parts_of(*level)
        if not level:
            return
    _check_parts(value, option, depth, left)


def _check_parts(value: object, option: int, depth: int, left: Left | None) -> None:
    """Like `check_depth`, but value by value."""
    kind = type(value)
    parts: Iterable[Any] | None
    if kind is dict:
        parts = list(value.values())  # type: ignore[attr-defined]  # another thread may change it meanwhile
    elif kind is list or kind is tuple:
        parts = value  # type: ignore[assignment]
    else:
        parts = _parts(value, option)
    if parts is None:
        if left is not None:
            left[id(value)] = value, max(depth, left.get(id(value), (None, 0))[1])
        return
    if depth == MAX_WRITTEN_DEPTH:
        raise EncodeError(TOO_DEEP)
    for part in parts:
        if type(part) not in _SCALARS:
            _check_parts(part, option, depth + 1, left)


def _parts(value: object, option: int) -> Iterable[object] | None:
    """The values that orjson writes for an object of another type; None if it has no parts."""
    kind = type(value)
    if issubclass(kind, dict) and not option & engine.OPT_PASSTHROUGH_SUBCLASS:
        return list(dict.values(value))  # type: ignore[arg-type]
    if issubclass(kind, list) and not option & engine.OPT_PASSTHROUGH_SUBCLASS:
        return list.__iter__(value)  # type: ignore[arg-type]
    if issubclass(kind, Enum):
        return (value.value,)  # type: ignore[attr-defined]
    # orjson looks only at the class, not at a base or a metaclass.
    if "__dataclass_fields__" in members_of(kind) and not option & engine.OPT_PASSTHROUGH_DATACLASS:
        return [part for _, part in fields_of(value)]
    return None


def exact_number(token: bytes) -> int | float | None:
    """Return the number in `token`, a valid JSON number; None if a float would change it.

    A response must carry the same number as its request: 0.1 and 1e2 are accepted, 12345678901234567.8 is not. The
    spelling may differ: 1e2 is written as 100.0.
    """
    if b"." not in token and b"e" not in token and b"E" not in token:
        return int(token)
    # The repr of a float is the shortest text that reads back as the same float, so equal decimals mean an exact
    # number.
    number = float(token)
    written = repr(number).encode()
    return number if token == written or _decimal(token) == _decimal(written) else None


def _decimal(token: bytes) -> tuple[bool, bytes, int]:
    """Return the sign, the digits without zeros at either end, and the power of ten."""
    mantissa, _, exponent = token.lower().partition(b"e")
    whole, _, fraction = mantissa.removeprefix(b"-").partition(b".")
    digits = (whole + fraction).rstrip(b"0")
    if not digits:
        return token.startswith(b"-"), b"", 0
    power = int(exponent or b"0") + len(whole) - len(digits)
    return token.startswith(b"-"), digits.lstrip(b"0"), power


def on_one_line(text: bytes) -> bytes:
    """Return JSON with spaces in place of its line breaks, which can only be between tokens (RFC 8259, section 7)."""
    return text.replace(b"\n", b" ").replace(b"\r", b" ")


# Numbers that orjson alters, or digits in a string: integers beyond 64 bits become floats, and a number of 769
# significant digits or more may be read as the double next to the right one.
_LONG_DIGITS: Final = 19
_LONG_NUMBER: Final = rb"(?<![0-9.eE+-])-?[0-9]{%d,}(?![0-9.eE])|[0-9.]{769}" % _LONG_DIGITS
_INTEGER: Final = b"," + b"0" * 20
_NEGATIVE: Final = b"-" + b"0" * 19
_FRACTION: Final = b"." + b"0" * (769 - 20)  # behind as many digits as an integer may have
_MARKS: Final = bytes(
    0x30 if byte in b"0123456789" else byte if byte in b"-." else 0x2C if byte in b"[,: \t\n\r" else 0x20
    for byte in range(256)
)
"""Digits as zeros, and as commas what stands in front of a number."""


def may_be_altered(text: bytes) -> bool:
    """Return whether orjson may alter a number in `text`, by how many digits in a row stand at the beginning of one.

    19 digits always fit in 64 bits, unless they are negative. The digits may also be in a string, but those inside a
    hexadecimal number or a word are not counted.
    """
    # Any 19 bytes in a row contain two neighbours of every ninth byte: if no two of these are digits, the text has no
    # such number. `translate` is much faster than a regular expression.
    if b"00" not in text[8::9].translate(_MARKS):
        return False
    marks = text.translate(_MARKS)
    return _NEGATIVE[1:] in marks and (
        _INTEGER in marks or _NEGATIVE in marks or _FRACTION in marks or marks.startswith(_INTEGER[1:])
    )


def loads_exact(text: bytes) -> Any:
    """Return the value of valid JSON that is at most 1024 deep, with integers of any width.

    orjson 3.13 refuses some valid texts: if two spaces follow the first bracket, it expects an indented text, and many
    short values without indentation exhaust its buffer. It reads the same text without those spaces. Raises ValueError
    for an integer with more digits than CPython converts (`sys.set_int_max_str_digits`).
    """
    if may_be_altered(text) and re.search(_LONG_NUMBER, text) is not None:
        from ._standard import loads_checked

        return loads_checked(text.decode())
    try:
        return loads(text)
    except JSONDecodeError:
        return loads(text[:1] + text[1:].lstrip(b" \n\r\t"))


MAX_EXPONENT_DIGITS: Final = 4
"""The most digits of the exponent of a Decimal, leading zeros aside. One with a larger exponent takes a few bytes, but
operations on it could take all memory, as `format(number, "f")` and `as_integer_ratio` of "1e-999999999" do."""
MAX_EXPONENT: Final = 10**MAX_EXPONENT_DIGITS - 1


def has_long_digits(text: bytes) -> bool:
    """Return whether there are more digits in a row than CPython converts to an int; they may be in a string."""
    limit = sys.get_int_max_str_digits()
    return 0 < limit < len(text) and re.search(rb"(?<![0-9])[0-9]{%d}" % (limit + 1), text) is not None


def is_wide_integer(token: bytes) -> bool:
    """Return whether a string or number token is an integer beyond 64 bits, signed or unsigned."""
    digits = token.removeprefix(b"-")
    if not digits.isdigit() or len(digits) < 19:
        return False
    # Equal lengths compare like numbers, digit by digit.
    bound = b"9223372036854775808" if token.startswith(b"-") else b"18446744073709551615"
    return (len(digits), digits) > (len(bound), bound)


def is_longer(text: str, limit: int) -> bool:
    """Return whether `text` is more than `limit` bytes of UTF-8. A lone surrogate has three bytes."""
    # The methods of `str`, because a subclass may override them.
    length = str.__len__(text)
    # A character has one to four bytes, so nearly every text is decided without encoding it.
    if length * 4 <= limit:
        return False
    return length > limit or len(str.encode(text, "utf-8", "surrogatepass")) > limit


def is_integer_longer(number: int, limit: int) -> bool:
    """Return whether `number` has more than `limit` characters, which must be 20 or more."""
    number = plain_int(number)
    # 64 bits are at most 20 characters. The power of ten is computed only for wider numbers, because `str` of a long
    # one takes quadratic time, or raises.
    return number.bit_length() > 64 and not -(10 ** (limit - 1)) < number < 10**limit
