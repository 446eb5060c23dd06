"""The standard streams of this process, taken over by one transport.

While they are taken the wire is on private descriptors, which child processes do not inherit. Descriptor 0 is /dev/null
and descriptor 1 is stderr, for Python, for libraries in C and for child processes alike: nothing they write reaches the
wire, and nothing they read is taken from it.
"""

from __future__ import annotations

import contextlib
import os
import sys

from ...errors import ConnectionLost, StateError
from .descriptors import duplicate

STDIN, STDOUT, STDERR = 0, 1, 2

_are_taken = False


class StandardStreams:
    """Takes descriptors 0 and 1. Raises StateError when they are taken, ConnectionLost when one of them is closed.

    input, output   the wire: descriptors for the caller to close
    """

    def __init__(self) -> None:
        global _are_taken
        if _are_taken:
            raise StateError("another transport has this process's stdin and stdout")
        # A closed descriptor's number may be in use by now: for the loop's own, say. The interpreter saw it in time.
        if sys.__stdin__ is None or sys.__stdout__ is None:
            raise ConnectionLost("this process was started with a closed stdin or stdout")
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
        os.dup2(nothing, STDIN)
        os.dup2(nothing if sys.__stderr__ is None else STDERR, STDOUT)
        os.close(nothing)
        # What was printed before and waits in the buffer is not for the wire, either.
        _flush_stdout()
        if sys.platform == "win32":
            import msvcrt

            for descriptor in taken:
                msvcrt.setmode(descriptor, os.O_BINARY)
        _are_taken = True

    def restore(self) -> None:
        """Puts 0 and 1 back as they were. What is still in a buffer goes to stderr."""
        _flush_stdout()
        _flush_stdout_of_c()
        os.dup2(self._saved_input, STDIN)
        os.dup2(self._saved_output, STDOUT)
        self.keep_away()

    def keep_away(self) -> None:
        """Leaves 0 and 1 as they are, away from the wire: for a program that does not use them again."""
        global _are_taken
        os.close(self._saved_input)
        os.close(self._saved_output)
        _are_taken = False


def fill_closed_descriptors() -> None:
    """Opens /dev/null for each of 0, 1 and 2 that is closed. Else the loop may get its number, and uvloop aborts."""
    for descriptor in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def _flush_stdout() -> None:
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):  # a full disk; a stream that was closed
                stream.flush()


def _flush_stdout_of_c() -> None:
    if sys.platform != "win32":
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).fflush(None)
