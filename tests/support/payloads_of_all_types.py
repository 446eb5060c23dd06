"""Params of every type that somebody may pass to a function that writes them: some are written, others are refused."""

from __future__ import annotations

import enum
import importlib.util
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

from jsonrpc_fast.codec._json import Fragment  # of the engine in use


class Words(list[Any]):
    pass


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Real(float):
    pass


class Pair(NamedTuple):
    first: int


class Colour(enum.Enum):
    RED = "red"


class Corner(enum.Enum):
    LEFT = (1, 2)


class Level(enum.IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: int


@dataclass
class Around:
    parts: tuple[Any, ...]


_VALUES: Final[list[Any]] = [
    *(
        None,
        True,
        0,
        2**64,
        1.5,
        float("nan"),
        "a",
        "\ud800",
        b"a",
        1j,
        Text("a"),
        Text("\ud800"),
        Number(7),
        Real(1.5),
    ),
    *({}, {"a": 1}, {"a": (1, (2,))}, OrderedDict(a=1), {1: 2}, {None: 2}, {Text("a"): 1}, {"\ud800": 1}, {"a": {1}}),
    *([], [1], (), (1, 2), ((1,), {"a": ()}), Words([1]), [Words()], [Pair(1)], Pair(1), {1}, frozenset(), range(2)),
    *(Colour.RED, Corner.LEFT, Level.HIGH, Point(1), Around((1, ())), UUID(int=1), Decimal("1.5")),
    *(date(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC), time(1, 2), Fragment("[ 1]")),
]
if importlib.util.find_spec("numpy"):
    import numpy

    _VALUES += [numpy.array([1, 2]), numpy.float64(1.5), numpy.int32(1)]

PARAMS: Final[list[Any]] = [*_VALUES, *([value] for value in _VALUES), *({"a": value} for value in _VALUES)]
"""Each value alone, in an array and in an object."""

BECOMES_PARAMS: Final = (Point, Around, Corner, Fragment)
"""Types of objects whose JSON is an object or an array."""
