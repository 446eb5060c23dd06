"""JSON pointers (RFC 6901): how the place of a value in a document is written, read and followed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from .types import UNSET

INDEX_DIGITS: Final = 18
"""The maximum number of digits of an index of an array: it fits into a Py_ssize_t."""


def pointer_to(parts: Iterable[str | int]) -> str:
    """Return the pointer to a place: the names and indexes on the way to it."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def parts_of(pointer: str) -> list[str]:
    """Return the names and indexes of a pointer, which is "" or begins with a slash."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def index_of(part: str) -> int:
    """Return the index of an array that a part of a pointer is (section 4); -1 if it is none."""
    is_index = part.isascii() and part.isdigit() and len(part) <= INDEX_DIGITS and (part[0] != "0" or part == "0")
    return int(part) if is_index else -1


def child_of(value: Any, part: str) -> Any:
    """Return the member or the item that one part of a pointer leads to; UNSET if it leads nowhere."""
    if isinstance(value, Mapping):
        return value.get(part, UNSET)
    if isinstance(value, list) and 0 <= (index := index_of(part)) < len(value):
        return value[index]
    return UNSET


def target_of(document: Any, reference: str) -> Any:
    """Return the value to which a `$ref` within a document leads.

    Args:
        document: The JSON value that contains the reference.
        reference: A URI reference. Only a fragment that is a pointer (section 6) is followed.

    Returns:
        The value; UNSET if the reference leads nowhere, or out of the document.
    """
    if not (reference == "#" or reference.startswith("#/")):
        return UNSET
    from urllib.parse import unquote  # imported here: the codec imports this module, and few documents have references

    for part in parts_of(unquote(reference[1:])):
        document = child_of(document, part)
    return document
