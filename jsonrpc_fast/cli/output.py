"""Exit statuses, error messages, escaped names and closed outputs, shared by all commands."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Final

SUCCESS: Final = 0
INVALID: Final = 1
"""`check` found an invalid message."""
FAILURE: Final = 2
"""The command line is wrong, or something cannot be read or written."""
CANNOT_RUN: Final = 126
NOT_FOUND: Final = 127
INTERRUPTED: Final = 130
OUTPUT_CLOSED: Final = 141
"""The status that a shell shows for a process ended by SIGPIPE."""


def print_error(text: str, program: str = "jsonrpc-fast") -> None:
    """Print an error message on stderr, if that is open."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"{program}: {text}", file=sys.stderr)


def escape(text: str) -> str:
    """Return a text with escapes for characters that are not printable."""
    return "".join([char if char.isprintable() else char.encode("unicode_escape").decode() for char in text])


def printable(name: str) -> str:
    """Return a file name with escapes for characters that stdout cannot show."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return escape(name).encode(encoding, "backslashreplace").decode(encoding)


def point_at_null(descriptor: int, flags: int) -> None:
    """Replace a descriptor's file by the null device, so that the number stays in use."""
    nothing = os.open(os.devnull, flags)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def silence_closed_outputs() -> None:
    """Point outputs that cannot be written at the null device: the interpreter flushes them at exit and complains."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            point_at_null(stream.fileno(), os.O_WRONLY)
