"""Numbers with a fraction or an exponent as `decimal.Decimal`, for `Profile(floats="decimal")`, in both backends.

Each has exactly the value, the digits and the exponent of its token, and is written as that token or an equal one, so
every number that can be read can be written. Only such profiles load this module.
"""

from __future__ import annotations

from decimal import Decimal
from json import JSONDecoder
from math import isinf
from typing import Any

from ..errors import EncodeError
from ._json import (
    DECIMAL_NOT_FINITE,
    DECIMAL_TOO_LARGE,
    MAX_EXPONENT,
    MAX_EXPONENT_DIGITS,
    Default,
    Fragment,
    NoDefault,
)
from ._standard import read_with, refuse_constant


def exact_decimal(token: str) -> Decimal:
    """Return the Decimal of a valid JSON number with any number of digits."""
    try:
        return Decimal(token)
    # The Python version of `decimal`, which PyPy may use, converts the digits to an int of limited size.
    except ValueError:
        mantissa, _, exponent = token.lower().partition("e")
        whole, _, fraction = mantissa.lstrip("-").partition(".")
        digits = tuple(map(int, whole + fraction))
        return Decimal((int(mantissa.startswith("-")), digits, int(exponent or 0) - len(fraction)))


def decimal_of(token: str) -> Decimal:
    """Return the Decimal of a valid JSON number.

    Raises:
        ValueError: Its exponent is too large.
    """
    if _is_exponent_too_large(token):
        raise ValueError
    return exact_decimal(token)


def _is_exponent_too_large(token: str) -> bool:
    return len(token.lower().partition("e")[2].lstrip("+-").lstrip("0")) > MAX_EXPONENT_DIGITS


# `parse_float` gets every number with a fraction or an exponent; NaN and infinities are not JSON.
_read = JSONDecoder(parse_constant=refuse_constant, parse_int=int, parse_float=decimal_of).decode


def loads_decimals(text: bytes) -> Any:
    """Return the value of valid JSON that is at most 1024 deep.

    Raises:
        ValueError: An exponent is too large, or an integer has more digits than CPython converts.
    """
    return read_with(text.decode(), _read, int, decimal_of)


class DecimalDefault:
    """A `default` that writes a Decimal as a number, and leaves other values to `default`.

    max_zeros: The maximum number of zeros written because an exponent may have at most four digits.
    """

    __slots__ = ("_default", "_max_zeros")

    def __init__(self, default: Default, max_zeros: int) -> None:
        self._default = default
        self._max_zeros = max_zeros

    def __call__(self, value: Any) -> Any:
        # The core writes these itself.
        if type(value) is Decimal and is_plain_number(token := str(value)):
            return Fragment(token)
        if isinstance(value, Decimal):
            return Fragment(_token_of(value, self._max_zeros))
        if self._default is None:
            # orjson then reports the value as if there were no `default`, as the caller expects.
            raise NoDefault
        return self._default(value)


def is_plain_number(token: str) -> bool:
    """Return whether the text of a Decimal consists of digits and a point, and is short enough to be that of a double.

    Nearly all are. The largest double has 309 digits.
    """
    return len(token) < 300 and token.replace(".", "").replace("-", "").isdecimal()


def _token_of(number: Decimal, max_zeros: int) -> str:
    """Return a Decimal as a JSON number that `decode` accepts, with the same digits: no exponent is written out.

    If the exponent is too small for four digits, as for a token with many zeros after the point, the rest of it is
    written as such zeros. Raises EncodeError if the number is not finite, too large, or needs too many zeros.
    """
    if not number.is_finite():
        raise EncodeError(DECIMAL_NOT_FINITE)
    token = Decimal.__str__(number)  # a subclass may override `__str__`
    # A number beyond a double is not JSON, neither for the peer's decoder nor for this one.
    if isinf(float(token)):
        raise EncodeError(DECIMAL_TOO_LARGE)
    if not _is_exponent_too_large(token):
        return token
    mantissa, _, exponent = token.lower().partition("e")
    zeros = -int(exponent) - MAX_EXPONENT
    if not 0 < zeros <= max_zeros:
        raise EncodeError(DECIMAL_TOO_LARGE)
    digits = mantissa.lstrip("-").replace(".", "")
    return f"{'-' * mantissa.startswith('-')}0.{'0' * (zeros - 1)}{digits}E-{MAX_EXPONENT}"
