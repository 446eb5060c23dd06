"""Take over this process's stdin and stdout for one transport.

Rules:
  - The wire moves to private descriptors, which child processes do not inherit.
  - Descriptor 0 becomes /dev/null and descriptor 1 becomes stderr, for Python, C libraries and child processes alike:
    nothing that they write reaches the wire, and nothing that they read comes from it.
"""

from __future__ import annotations

import contextlib
import os
import sys

from ...errors import ConnectionLost, StateError
from .descriptors import duplicate

STDIN, STDOUT, STDERR = 0, 1, 2

# Global, because the descriptors belong to the process.
_are_taken = False


class StandardStreams:
    """Descriptors 0 and 1, taken over on construction.

    Attributes:
        input: The descriptor to read the wire from; the caller closes it.
        output: The descriptor to write the wire to; the caller closes it.

    Raises:
        StateError: They are taken over already.
        ConnectionLost: One of them is closed, or open in the wrong direction.
    """

    def __init__(self) -> None:
        global _are_taken
        if _are_taken:
            raise StateError("another transport uses this process's stdin and stdout")
        # The number of a descriptor that was closed at startup may be in use by now, for example by the loop. The
        # interpreter still knows.
        if sys.__stdin__ is None or sys.__stdout__ is None:
            raise ConnectionLost("this process was started with a closed stdin or stdout")
        _check_access(STDIN, "stdin", "reading")
        _check_access(STDOUT, "stdout", "writing")
        taken: list[int] = []
        try:
            taken += (duplicate(STDIN), duplicate(STDOUT), duplicate(STDIN), duplicate(STDOUT))
            nothing = os.open(os.devnull, os.O_RDWR)
        except OSError as fault:
            for descriptor in taken:
                os.close(descriptor)
            raise ConnectionLost("stdin or stdout is closed") from fault
        self.input: int
        self.output: int
        self.input, self.output, self._saved_input, self._saved_output = taken
        # `dup2` closes the old file and takes its number in one step, so no other thread can get that number.
        os.dup2(nothing, STDIN)
        os.dup2(nothing if sys.__stderr__ is None else STDERR, STDOUT)
        os.close(nothing)
        # Text that was printed before and is still buffered must not reach the wire either.
        _flush_stdout()
        if sys.platform == "win32":
            import msvcrt

            for descriptor in taken:
                msvcrt.setmode(descriptor, os.O_BINARY)
        _are_taken = True

    def restore(self) -> None:
        """Restore 0 and 1. Text that is still buffered goes to stderr."""
        _flush_stdout()
        _flush_stdout_of_c()
        os.dup2(self._saved_input, STDIN)
        os.dup2(self._saved_output, STDOUT)
        self.keep_away()

    def keep_away(self) -> None:
        """Keep 0 and 1 off the wire, for a program that does not use them again."""
        global _are_taken
        os.close(self._saved_input)
        os.close(self._saved_output)
        _are_taken = False


def fill_closed_descriptors() -> None:
    """Open /dev/null for each of 0, 1 and 2 that is closed: uvloop aborts if the loop gets one of these numbers."""
    for descriptor in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


def _check_access(descriptor: int, name: str, what_for: str) -> None:
    """Raise ConnectionLost if a descriptor is open only in the other direction. Opening it again would hide that."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
    except OSError:  # closed: `duplicate` reports that
        return
    if access == (os.O_WRONLY if what_for == "reading" else os.O_RDONLY):
        raise ConnectionLost(f"this process was started with a {name} that is not open for {what_for}")


def _flush_stdout() -> None:
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):  # a full disk, or a closed stream
                stream.flush()


def _flush_stdout_of_c() -> None:
    if sys.platform != "win32":
        # An extension module may have printed with C's stdio, which has its own buffer.
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).fflush(None)
