"""The repr of messages: whole envelopes, shortened payloads."""

from __future__ import annotations

import reprlib
from itertools import islice
from typing import Any, Final

SHOWN_BYTES: Final = 64
"""Longer bytes are shown by half as many at each end."""


class _Shortener(reprlib.Repr):
    # `reprlib` finds a method by the name of the value's class: `repr_` and the name.

    def __init__(self) -> None:
        super().__init__()
        # Shows a message, its payload, and one level inside the payload.
        self.maxlevel = 3
        # Real methods and ids are shorter, so they are shown whole.
        self.maxstring = 80

    def repr_int(self, x: int, level: int) -> str:
        # CPython refuses to convert a huge int: with the lowest limit, one of 641 digits. 512 bits are 155 digits.
        return repr(x) if x.bit_length() < 512 else f"<int of {x.bit_length()} bits>"

    def repr_bytes(self, x: bytes, level: int) -> str:
        # `reprlib` would make the whole repr first, and then shorten it.
        if len(x) > SHOWN_BYTES:
            x = x[: SHOWN_BYTES // 2] + x[-SHOWN_BYTES // 2 :]
        return self.repr_instance(x, level)

    repr_bytearray = repr_bytes

    def repr_Error(self, x: object, level: int) -> str:
        # An Error shortens its own repr.
        return repr(x)

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        # `reprlib` would sort the whole dict first.
        if x and level <= 0:
            return "{...}"
        items = [f"{self.repr1(key, level - 1)}: {self.repr1(x[key], level - 1)}" for key in islice(x, self.maxdict)]
        return "{" + ", ".join(items + ["..."] * (len(x) > self.maxdict)) + "}"


_shortener = _Shortener()


def shorten(value: object) -> str:
    """Return `repr(value)`, shortened so that its length and its time are bounded."""
    return _shortener.repr(value)
