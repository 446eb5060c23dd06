"""Checks of numeric options, for all layers."""

from __future__ import annotations

from math import inf, isfinite


def check_seconds(name: str, value: object, *, may_be_none: bool = True, may_be_infinite: bool = False) -> None:
    """Check a duration.

    Args:
        name: The name of the option, for the error's text.
        value: What the caller gave.
        may_be_none: Whether None is accepted.
        may_be_infinite: Whether infinity is accepted.

    Raises:
        TypeError: `value` is not a number.
        ValueError: `value` is negative, NaN, or infinite.
    """
    if value is None and may_be_none:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if not value >= 0 or not (isfinite(value) or (may_be_infinite and value == inf)):
        raise ValueError(f"{name} must be 0 seconds or more")


def check_count(name: str, value: object, minimum: int, *, may_be_none: bool = True) -> None:
    """Check a whole number that has a minimum.

    Args:
        name: The name of the option, for the error's text.
        value: What the caller gave.
        minimum: The smallest accepted value.
        may_be_none: Whether None is accepted.

    Raises:
        TypeError: `value` is not an int.
        ValueError: `value` is below `minimum`.
    """
    if value is None and may_be_none:
        return
    if type(value) is not int:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if value < minimum:
        raise ValueError(f"{name} must be {minimum} or more")
