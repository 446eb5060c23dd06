"""Python values that resemble payloads: all types that orjson writes, and some that it refuses."""

from __future__ import annotations

import datetime
import enum
import random
import struct
import uuid
from typing import Any

INTEGERS = [power + step for power in (0, 10, 2**30, 2**53, 2**60, 2**63, 2**64) for step in (-1, 0, 1)]
FLOATS = [0.0, -0.0, 1e-5, 9.999999999999999e-6, 1e-4, 0.1, 1e15, 1e16, 9999999999999998.0, 5e-324, 1e-323,
          2.2250738585072014e-308, 1.7976931348623157e308, float("inf"), float("nan")]  # fmt: skip
CHARACTERS = ["a", " ", "~", "\x7f", '"', "\\", "\n", "\x00", "\x1f", "\x80", "\xe9", "\u07ff", "\u0800", "\u4e2d",
              "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0001f600", "\U0010ffff"]  # fmt: skip


class Text(str):
    __slots__ = ()


class Level(enum.Enum):
    LOW = 1
    NAMES = ("a", "b")


OTHERS = [
    *(datetime.datetime(2026, 11, 22, 1, 2, 3), datetime.date(2026, 11, 22), datetime.time(1, 2, 3)),
    *(uuid.UUID(int=2**100), Level.LOW, Level.NAMES, Text("text"), {1: 2}, {Text("name"): 1}, b"bytes", {1}, object),
]


class Objects:
    """Values of any depth up to a few levels; one of a hundred payloads holds something unusual."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def next(self) -> Any:
        self._has_others = self._rng.random() < 0.02
        return self._value(0)

    def _value(self, level: int) -> Any:
        rng = self._rng
        choice = rng.random()
        if choice < 0.35:
            return self.text()
        if choice < 0.5:
            return self._integer()
        if choice < 0.6:
            return self._float()
        if choice < 0.7 or level > 4:
            return rng.choice((True, False, None, {}, [], ()))
        if self._has_others and rng.random() < 0.05:
            return rng.choice(OTHERS)
        count = rng.choice((1, 1, 2, 3, 5, 40)) if level < 2 else rng.choice((1, 2, 3))
        if choice < 0.85:
            return {self.text(): self._value(level + 1) for _ in range(count)}
        items = [self._value(level + 1) for _ in range(count)]
        return tuple(items) if choice < 0.88 else items

    def text(self) -> str:
        rng = self._rng
        length = rng.choice((0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 66, 130))
        if rng.random() < 0.02:
            length *= 100
        text = rng.choice(("a", "name", "x" * 16)) * length
        text = text[:length]
        while rng.random() < 0.4:
            place = rng.randrange(length + 1)
            text = text[:place] + rng.choice(CHARACTERS) * rng.choice((1, 1, 2, 9)) + text[place:]
        if rng.random() < 0.0005:
            text += "\ud800"
        return text

    def _integer(self) -> int:
        rng = self._rng
        if rng.random() < 0.1:
            number = rng.choice(INTEGERS[:-2])
        elif self._has_others and rng.random() < 0.05:
            number = rng.choice(INTEGERS)
        else:
            number = rng.randrange(10 ** rng.randrange(1, 19))
        return -number if number <= 2**63 and rng.random() < 0.3 else number

    def _float(self) -> float:
        rng = self._rng
        choice = rng.random()
        if choice < 0.1:
            number = rng.choice(FLOATS)
        elif choice < 0.4:
            number = float(struct.unpack("d", rng.randbytes(8))[0])
        elif choice < 0.7:
            number = round(rng.uniform(0, 10 ** rng.randrange(6)), rng.randrange(8))
        else:
            number = rng.randrange(10**17) * 10.0 ** rng.randrange(-24, 10)
        return -number if rng.random() < 0.3 else number
