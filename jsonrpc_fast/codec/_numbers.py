"""How a profile reads the numbers of a payload, for both backends. Integers are exact, whatever their width."""

from __future__ import annotations

import re
from typing import Any, Final

from ..profile import Profile
from ._json import MAX_EXPONENT_DIGITS, has_long_digits, loads_exact

DECIMALS: Final = 1  # floats="decimal"
NO_WIDE_INTEGERS: Final = 2  # big_ints="reject"
"""How a profile reads the numbers of a payload, as bits."""


def numbers_of(profile: Profile) -> int:
    """Return how a profile reads numbers."""
    numbers = NO_WIDE_INTEGERS if profile.big_ints == "reject" else 0
    return numbers | DECIMALS if profile.floats == "decimal" else numbers


def loads_as(text: bytes, numbers: int) -> Any:
    """Return the value of valid JSON that is at most 1024 deep, with numbers as in `numbers`.

    Raises:
        ValueError: `check_numbers` raises it.
    """
    if numbers & DECIMALS:
        from ._decimals import loads_decimals  # loaded only for such profiles

        return loads_decimals(text)
    return loads_exact(text)


def check_numbers(text: bytes, numbers: int) -> None:
    """Raise ValueError if `loads_as` would: for an integer with more digits than CPython converts, or an exponent that
    is too large."""
    exponent = rb"[0-9][eE][+-]?[0-9]{%d}" % (MAX_EXPONENT_DIGITS + 1)
    if has_long_digits(text) or (numbers & DECIMALS and re.search(exponent, text)):
        loads_as(text, numbers)
