"""Measure how long invalid messages take: `python -m benchmarks.faults` prints microseconds for both backends.

The ratio compares the time with that of a valid message of the same shape. A fault at the end of a text is found only
after the rest has been read.
"""

from __future__ import annotations

import argparse
import gc
from timeit import Timer
from types import ModuleType
from typing import Final

from jsonrpc_fast import codec
from jsonrpc_fast.codec import _pure

from .tables import markdown

_VALID: Final = b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1]}'
_STRING: Final = b'{"jsonrpc":"2.0","id":1,"method":"add","params":{"a":"' + b"x" * 9900 + b'"}}'
_OBJECTS: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"add","params":['
    + b",".join(b'{"k%d":"v","n":%d}' % (number, number) for number in range(500))
    + b"]}"
)

TEXTS: Final[dict[str, tuple[bytes, bytes]]] = {
    "not JSON": (b"hello", _VALID),
    "a message that is cut": (_VALID[:35], _VALID),
    "NaN": (_VALID.replace(b"[1]", b"[NaN]"), _VALID),
    "1e400": (_VALID.replace(b"[1]", b"[1e400]"), _VALID),
    "bytes that are not UTF-8": (_VALID.replace(b"add", b"\xff"), _VALID),
    "a lone surrogate": (_VALID.replace(b"add", b"\\ud800"), _VALID),
    "no `jsonrpc`": (_VALID.replace(b'"jsonrpc":"2.0",', b""), _VALID),
    "`id` true": (_VALID.replace(b":1,", b":true,"), _VALID),
    "`method` 5": (_VALID.replace(b'"add"', b"5"), _VALID),
    "`id` twice": (_VALID.replace(b'"id":1', b'"id":1,"id":1'), _VALID),
    "one long string, cut": (_STRING[:-3], _STRING),
    "one long string, `method` 5": (_STRING.replace(b'"add"', b"5"), _STRING),
    "500 objects, cut": (_OBJECTS[:-3], _OBJECTS),
    "500 objects, `method` 5": (_OBJECTS.replace(b'"add"', b"5"), _OBJECTS),
    "500 objects, then `id` again": (_OBJECTS[:-1] + b',"id":2}', _OBJECTS),
}


def microseconds(backend: ModuleType, text: bytes, rounds: int) -> float:
    """Return the time of one call of `decode`: the minimum of all rounds."""
    timer = Timer("decode(text)", globals={"decode": backend.decode, "text": text})
    number = 1
    while timer.timeit(number) < 0.0005:
        number *= 2
    return min(timer.timeit(number) for _ in range(rounds)) / number * 1e6


def rows(rounds: int) -> list[tuple[str, ...]]:
    """Return the table: kind, bytes, and for each backend the time and the ratio to a valid message."""
    found: list[tuple[str, ...]] = [
        ("what is wrong", "bytes", "core, µs", "of a valid one", "pure backend, µs", "of a valid one")
    ]
    for kind, (text, valid) in TEXTS.items():
        cells = [kind, f"{len(text):,}"]
        for backend in (codec, _pure):
            time = microseconds(backend, text, rounds)
            cells += [f"{time:.3g}", f"{time / microseconds(backend, valid, rounds):.2g}"]
        found.append(tuple(cells))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="rounds (default: 50)")
    options = parser.parse_args()
    if codec.BACKEND != "cython":
        raise RuntimeError(f"the benchmarks measure the compiled core, which is not in use: {codec.CORE_FAULT}")
    gc.disable()
    print(markdown(rows(options.rounds)))


if __name__ == "__main__":
    main()
