"""Checks of options that are numbers."""

from __future__ import annotations

from math import inf, isfinite


def check_seconds(name: str, value: object, *, may_be_none: bool = True, may_be_infinite: bool = False) -> None:
    """Checks a time.

    Raises:
        TypeError: `value` is not a number.
        ValueError: It is negative, NaN, or infinite.
    """
    if value is None and may_be_none:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if not value >= 0 or not (isfinite(value) or (may_be_infinite and value == inf)):
        raise ValueError(f"{name} must be 0 seconds or more")


def check_count(name: str, value: object, minimum: int, *, may_be_none: bool = True) -> None:
    """Checks a bound.

    Raises:
        TypeError: `value` is not an int.
        ValueError: It is below `minimum`.
    """
    if value is None and may_be_none:
        return
    if type(value) is not int:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if value < minimum:
        raise ValueError(f"{name} must be {minimum} or more")
