"""What a fuzz target is: a function of bytes that raises where an oracle does not hold."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

CANARY: Final = "c4n4ry"
"""A text that inputs contain. It must not appear in an error or a log record."""

MAX_INPUT_BYTES: Final = 8192


class Finding(AssertionError):
    """An oracle does not hold."""


@dataclass(frozen=True)
class Target:
    """A function of bytes.

    Attributes:
        run: Runs one input. Returns what kind of outcome it had, a coarse value: the corpus keeps the shortest input of
            each kind. Raises a `Finding`, or any exception that is not documented.
        make: Makes an input from the target's grammar.
    """

    run: Callable[[bytes], Hashable]
    make: Callable[[random.Random], bytes]


def check(is_true: bool, *details: object) -> None:
    """Raise a `Finding` unless an oracle holds."""
    if not is_true:
        raise Finding(" ".join(map(repr, details)))
