"""The target of the substitute for orjson: it reads and writes what orjson does, with the same errors."""

from __future__ import annotations

import datetime
import marshal
import random
import re
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from typing import Any, Final

from jsonrpc_fast.codec import _standard

from ..support.oracle import TOO_WIDE, loads_exact, orjson
from .mutate import Values
from .objects import FLOATS, INTEGERS, OTHERS, Objects
from .target import Target, check

OPTIONS: Final = [
    *(orjson.OPT_NAIVE_UTC, orjson.OPT_NON_STR_KEYS, orjson.OPT_OMIT_MICROSECONDS, orjson.OPT_SORT_KEYS),
    *(orjson.OPT_STRICT_INTEGER, orjson.OPT_UTC_Z, orjson.OPT_PASSTHROUGH_DATACLASS),
    *(orjson.OPT_PASSTHROUGH_DATETIME, orjson.OPT_PASSTHROUGH_SUBCLASS),
]


class Number(IntEnum):
    ONE = 1


class Word(str, Enum):  # noqa: UP042  # the pair of classes is what is tested
    ONE = "one"


Word.ONE._value_ = "another"


class Bits(Flag):
    A = 1
    B = 2


class Text(str):
    pass


class Whole(int):
    pass


class Real(float):
    pass


class Row(list[Any]):
    pass


class Pair(tuple[Any, ...]):
    __slots__ = ()


@dataclass
class Point:
    x: object
    _hidden: int = 1
    y: object = None


@dataclass(slots=True)
class Slotted:
    x: object
    _hidden: int = 1


class Derived(Point):
    pass


class AnyObjects(Objects):
    """Values of all types that orjson writes, keys of other types than `str`, and values that it refuses."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._random = rng

    def next(self) -> Any:
        self._has_others = self._random.random() < 0.2
        return self._any(0)

    def _any(self, level: int) -> Any:
        choice = self._random.random()
        if choice < 0.5:
            return self._value(3)
        if choice < 0.7 or level > 3:
            return self._other()
        count = self._random.randrange(4)
        if choice < 0.85:
            return {self._key(): self._any(level + 1) for _ in range(count)}
        return [self._any(level + 1) for _ in range(count)]

    def _other(self) -> Any:
        rng = self._random
        value = self._value(4)
        choices: list[Callable[[], Any]] = [
            *(self._time, lambda: self._time().date(), lambda: self._time().time(), lambda: self._time().timetz()),
            *(lambda: uuid.UUID(int=rng.getrandbits(128)), lambda: rng.choice([*Number, *Word, *Bits])),
            *(lambda: Text(self.text()), lambda: Whole(self._integer()), lambda: Real(1.5), lambda: Row([value])),
            *(lambda: Pair([value]), lambda: OrderedDict(a=value), lambda: rng.choice(FLOATS)),
            *(lambda: Point(value, y=1), lambda: Slotted(value), lambda: Derived(value), lambda: rng.choice(OTHERS)),
            *(lambda: rng.choice(INTEGERS), lambda: rng.choice([Decimal(1), deque([1]), 1j, Point, Number])),
        ]
        return rng.choice(choices)()

    def _key(self) -> Any:
        rng = self._random
        if rng.random() < 0.7:
            return self.text()
        choices: list[Callable[[], Any]] = [
            *(self._integer, self._float, self._time, lambda: self._time().date(), lambda: self._time().timetz()),
            *(lambda: rng.choice([None, True, False, *Number, *Word, Text("s"), Whole(4), Real(2.5)]),),
            *(lambda: uuid.UUID(int=5), lambda: rng.choice([b"x", (1,), 2**64])),
        ]
        return rng.choice(choices)()

    def _time(self) -> datetime.datetime:
        rng = self._random
        seconds = rng.choice([0, 0, 30, -30, 3585, -3585, 7200, rng.randrange(-86399, 86400)])
        zone = rng.choice([None, datetime.UTC, datetime.timezone(datetime.timedelta(seconds=seconds))])
        day = (rng.choice([1, 99, 1970, 2026, 9999]), rng.randrange(1, 13), rng.randrange(1, 29))
        fraction = rng.choice([0, 1, 999_999, rng.randrange(1_000_000)])
        return datetime.datetime(*day, rng.randrange(24), rng.randrange(60), rng.randrange(60), fraction, tzinfo=zone)


_without_zero = re.compile(rb'"[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{5}"').search
"""Finds how orjson 3.13 writes a time with less than a tenth of a second: it loses a zero, which gives another time."""


OLD_ORJSON: Final = tuple(map(int, (orjson.__version__ or "9.9").split(".")[:2])) < (3, 12)
"""orjson before 3.12 writes dataclasses one level deeper, has fewer causes, and another text for times with a zone."""
_A_TIME_WITH_A_ZONE: Final = {
    "datetime's timezone library is not supported: use datetime.timezone.utc, pendulum, pytz, or dateutil": (
        "datetime.time must not have tzinfo set"
    )
}


def found_by(function: Callable[..., Any], *arguments: Any) -> Hashable:
    """What a function returns or raises, and the cause."""
    try:
        value = function(*arguments)
    except orjson.JSONEncodeError as error:
        cause = None if OLD_ORJSON and isinstance(error.__cause__, (UnicodeError, OverflowError)) else error.__cause__
        text = str(error)
        return _A_TIME_WITH_A_ZONE.get(text, text) if OLD_ORJSON else text, repr(cause)
    except ValueError:
        return "not JSON"
    # `repr` does not go as deep.
    return value if type(value) is bytes else marshal.dumps(value, 0)


def _raise(_: object) -> None:
    raise ZeroDivisionError


DEFAULTS: Final = [repr, repr, lambda value: [type(value).__name__], lambda value: {value.__class__}, _raise]


def standard(data: bytes) -> Hashable:
    """orjson and its substitute read a text alike, or write a value alike."""
    if not data:
        return None
    if not data[0] & 1:
        expected = found_by(loads_exact, data[1:])
        check(found_by(_standard.loads, data[1:]) == expected, expected)
        return expected == "not JSON"
    rng = random.Random(data)
    value = AnyObjects(rng).next()
    option = 0
    for _ in range(rng.choice((0, 0, 1, 2, 3))):
        option |= rng.choice(OPTIONS)
    arguments = [value, rng.choice(DEFAULTS), option] if rng.random() < 0.6 else [value]
    expected = found_by(orjson.dumps, *arguments)
    found = found_by(_standard.dumps, *arguments)
    if type(expected) is tuple and expected[0] in TOO_WIDE:
        check(type(found) is bytes or found != expected, value, found, expected)
        return "too wide for orjson"
    check(found == expected or (type(expected) is bytes and _without_zero(expected)), value, found, expected)
    return type(value).__name__, type(expected).__name__


class _Make:
    """Half of them texts, half of them seeds of values."""

    def __init__(self) -> None:
        self._values: Values | None = None

    def __call__(self, rng: random.Random) -> bytes:
        if self._values is None:
            self._values = Values(rng)
        return b"\x01" + rng.randbytes(8) if rng.random() < 0.5 else b"\x00" + self._values.next()


TARGETS: Final[dict[str, Target]] = {"standard": Target(standard, _Make())}
"""The target, by name."""
