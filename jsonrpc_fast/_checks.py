"""The old home of `support`."""

from __future__ import annotations

from typing import Final

from .support import MAX_PORT as MAX_PORT
from .support import check_callable as check_callable
from .support import check_count as check_count
from .support import check_headers as check_headers
from .support import check_items as check_items
from .support import check_number as check_number
from .support import check_seconds as check_seconds
from .support import check_serve as check_serve
from .support import check_texts as check_texts
from .support import check_type as check_type
from .support import checked_path as checked_path

MISSING: Final = object()
"""The default of a required argument, to find that it is missing. Unlike UNSET, callers never pass it."""


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
