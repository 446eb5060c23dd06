"""Checks of arguments, for all layers: a wrong argument is refused where it is passed, and the error names it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from math import inf, isfinite
from typing import Any, Final

MAX_PORT: Final = 65535
MISSING: Final = object()
"""The default of a required argument, to find that it is missing. Unlike UNSET, callers never pass it."""

HEADER_NAME: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
"""The name of an HTTP header (RFC 9110, section 5.1)."""
HEADER_VALUE: Final = r"(?:[!-~](?:[ -~]*[!-~])?)?"
"""The value of an HTTP header, in ASCII only (RFC 9110, section 5.5)."""


def check_seconds(
    name: str, value: object, *, may_be_none: bool = True, may_be_zero: bool = True, may_be_infinite: bool = False
) -> None:
    """Check a duration.

    Args:
        name: The name of the option, for the error's text.
        value: What the caller gave.
        may_be_none: Whether None is accepted.
        may_be_zero: Whether 0 is accepted.
        may_be_infinite: Whether infinity is accepted.

    Raises:
        TypeError: `value` is not a number.
        ValueError: `value` is negative or NaN, or 0 or infinite where that is not accepted.
    """
    if value is None and may_be_none:
        return
    # bool is a subclass of int: `timeout=True` is a mistake, not one second.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    # `not value >= 0` instead of `value < 0`, because every comparison with NaN is false.
    # An int beyond the range of floats could not be added to the time.
    is_too_large = value > sys.float_info.max and not (may_be_infinite and value == inf)
    if not value >= 0 or (value == 0 and not may_be_zero) or is_too_large:
        wanted = "0 seconds or more" if may_be_zero else "more than 0 seconds"
        bound = "" if may_be_infinite and not is_too_large else ", and finite"
        raise ValueError(f"{name} must be {wanted}{bound}")


def check_count(
    name: str,
    value: object,
    minimum: int,
    maximum: int | None = sys.maxsize,
    *,
    may_be_none: bool = True,
    show: Callable[[int], str] = str,
) -> None:
    """Check a whole number that has a minimum.

    Args:
        name: The name of the option, for the error's text.
        value: What the caller gave.
        minimum: The smallest accepted value.
        maximum: The largest accepted value; None: no limit. By default the largest that C can hold.
        may_be_none: Whether None is accepted.
        show: How the error's text writes the range, such as `oct`.

    Raises:
        TypeError: `value` is not an int.
        ValueError: `value` is out of range.
    """
    if value is None and may_be_none:
        return
    if type(value) is not int:  # not True, which is an int in Python
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if value >= minimum and (maximum is None or value <= maximum):
        return
    if maximum is None or (maximum == sys.maxsize and value < minimum):
        raise ValueError(f"{name} must be {show(minimum)} or more")
    raise ValueError(f"{name} must be {show(minimum)} to {show(maximum)}")


def check_number(name: str, value: object, *, may_be_none: bool = True) -> None:
    """Check a number that is sent.

    Raises:
        TypeError: `value` is not a number.
        ValueError: `value` is NaN or infinite, which JSON does not have.
    """
    if value is None and may_be_none:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{name} must be finite")


def check_type(name: str, value: object, *kinds: Any, may_be_none: bool = False) -> None:
    """Check the type of an argument.

    Args:
        name: The name of the argument, for the error's text.
        value: What the caller gave.
        kinds: The classes that are accepted, which may be protocols.
        may_be_none: Whether None is accepted.

    Raises:
        TypeError: `value` is not an instance of any of them.
    """
    if not (value is None and may_be_none) and not isinstance(value, kinds):
        wanted = " or ".join([f"{'an' if kind.__name__[0] in 'AEIOaeio' else 'a'} {kind.__name__}" for kind in kinds])
        raise TypeError(f"{name} must be {wanted}, not {type(value).__name__}")


def check_items(name: str, value: object, *kinds: Any) -> None:
    """Check a list or tuple, or None. A string is refused, because it is a sequence of its characters.

    Raises:
        TypeError: `value` is neither, or an item of it is not an instance of any of `kinds`.
    """
    check_type(name, value, list, tuple, may_be_none=True)
    if isinstance(value, list | tuple):
        for item in value:
            check_type(f"an item of {name}", item, *kinds)


def check_callable(name: str, value: object, *, may_be_none: bool = True) -> None:
    """Check an argument that is a function.

    Raises:
        TypeError: `value` is not callable.
    """
    if not (value is None and may_be_none) and not callable(value):
        raise TypeError(f"{name} must be callable, not {type(value).__name__}")


def check_serve(serve: object) -> None:
    """Check the function that serves connections.

    Raises:
        TypeError: It is not callable. For handlers the text says what makes a function of them.
    """
    if not callable(serve):
        kind = type(serve).__name__
        raise TypeError(f"serve must be a function, not {kind}: jsonrpc_fast.session.serving(handlers) makes one")


def check_texts(name: str, value: object) -> None:
    """Check a mapping of names to strings, such as headers, or None.

    Raises:
        TypeError: `value` is not a mapping, or a name or a value in it is not a str.
    """
    check_type(name, value, Mapping, may_be_none=True)
    if isinstance(value, Mapping):
        for key, text in value.items():
            check_type(f"a name in {name}", key, str)
            check_type(f"a value in {name}", text, str)


def checked_path(name: str, value: object, at: int = 0) -> str:
    """Return text that is passed to the system, such as a path or a part of a command.

    Args:
        name: The name of the argument, for the error's text.
        value: What the caller gave: a str or a path.
        at: The index from which a NUL is refused.

    Raises:
        TypeError: It is neither.
        ValueError: It contains a NUL or a lone surrogate, which cannot be passed to the system.
    """
    check_type(name, value, str, os.PathLike)
    text = os.fspath(value)  # type: ignore[call-overload]
    check_type(name, text, str)
    if "\0" in text[at:]:
        raise ValueError(f"{name} must not contain a NUL{' after its first character' if at else ''}")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ValueError(f"{name} must not contain a lone surrogate") from None
    return str(text)


def check_header_names(headers: Mapping[str, str] | None) -> None:
    """Check the names of the user's headers.

    Raises:
        TypeError: They do not map strings to strings.
        ValueError: HTTP does not allow a name. The text contains no name.
    """
    check_texts("headers", headers)
    if not all(re.fullmatch(HEADER_NAME, name) for name in headers or ()):
        raise ValueError("the names of headers must consist of letters, digits, - and _")


def check_headers(headers: Mapping[str, str] | None) -> None:
    """Check the user's headers. The HTTP library would show their values in its errors and logs.

    Raises:
        TypeError: They do not map strings to strings.
        ValueError: HTTP does not allow a name or a value. The text contains the name, but no value.
    """
    check_header_names(headers)
    for name, value in (headers or {}).items():
        if not re.fullmatch(HEADER_VALUE, value):
            raise ValueError(f"the header {name} must be one line of ASCII characters, without blanks around it")


def missing_arguments(callee: str, **arguments: object) -> TypeError:
    """Return the error for missing arguments of a class of the core, worded like CPython's.

    Args:
        callee: The name of the class.
        arguments: All required ones; MISSING for each that is missing.
    """
    names = [repr(name) for name, value in arguments.items() if value is MISSING]
    plural = "s" * (len(names) != 1)
    text = f"missing {len(names)} required positional argument{plural}: {' and '.join(names)}"
    return TypeError(f"{callee}.__new__() {text}")


def not_a_message(value: object) -> TypeError:
    """Return the error for a value that is passed to an encoder and is not a message."""
    text = f"message must be a Request, a Notification or a Response, not {type(value).__name__}"
    return TypeError(f"{text}; use encode_dict" if issubclass(type(value), dict) else text)
