"""Memory between two guard pages, and Python objects placed in it."""

from __future__ import annotations

import ctypes
import mmap
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

REFERENCES: Final = 1 << 20
"""The reference count of a placed object, so that it is never freed."""
POINTER: Final = ctypes.sizeof(ctypes.c_void_p)


@contextmanager
def guarded_page() -> Iterator[tuple[int, int]]:
    """Yield the address and the size of a page between two pages that cannot be accessed (Linux)."""
    size = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for guard in (address, address + 2 * size):
        assert protect(guard, size, 0) == 0
    yield address + size, size
    for guard in (address, address + 2 * size):
        protect(guard, size, 3)


def place(value: Any, page: tuple[int, int], at_end: bool) -> Any:
    """Return a copy of an object, at the beginning or the end of a page. Its memory must be one block.

    The copy of a str or bytes has no zero after its characters: only its size says where it ends. Drop all references
    to the copy before you place the next one, because that overwrites it.

    From Python 3.14 on, the interpreter marks references in their two lowest bits: an object at an address that is not
    a multiple of four crashes it. So the copy ends up to three bytes before the end of the page.
    """
    size = type(value).__sizeof__(value)
    if type(value) is str:
        size -= 1 if ord(max(value, default="a")) < 256 else 2 if ord(max(value)) < 65536 else 4
    elif type(value) is bytes:
        size -= 1
    elif type(value) is int:
        size = max(size, int.__sizeof__(1))  # zero has one digit, too
    start, length = page
    address = start + length - size if at_end else start
    if sys.version_info >= (3, 14):
        address &= ~3
    ctypes.memmove(address, id(value), size)
    ctypes.c_ssize_t.from_address(address).value = REFERENCES
    return ctypes.cast(address, ctypes.py_object).value


def place_items(value: list[Any], page: tuple[int, int], at_end: bool) -> Any:
    """Return a list with the same items as another, which must stay alive. Its array is in a page, as in `place`."""
    start, length = page
    size = POINTER * len(value)
    address = start + length - size if at_end else start
    head = list.__sizeof__([])
    copy = ctypes.create_string_buffer(head)
    ctypes.memmove(copy, id(value), head)
    words = (ctypes.c_ssize_t * (head // POINTER)).from_buffer(copy)
    # The reference count, the class, the size, the pointer to the array.
    ctypes.memmove(address, words[3], size)
    words[0] = REFERENCES
    words[3] = address
    found = ctypes.cast(copy, ctypes.py_object).value
    _HEADS.append(copy)
    return found


_HEADS: Final[list[Any]] = []


def is_possible() -> bool:
    """Return whether objects have the layout of CPython with the GIL, and the system can guard pages."""
    has_gil = not sysconfig.get_config_var("Py_GIL_DISABLED")
    return sys.platform.startswith("linux") and sys.implementation.name == "cpython" and has_gil
