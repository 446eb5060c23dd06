"""Exit codes, messages to stderr, and outputs that close early."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Final

_VALID: Final = 0


_INVALID: Final = 1


_USAGE: Final = 2


_INTERRUPTED: Final = 130


_CLOSED_OUTPUT: Final = 141  # what a shell shows for a process that SIGPIPE ended


def _complain(text: str) -> None:
    # Nobody is left to be told that this output is closed.
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"jsonrpc-fast: {text}", file=sys.stderr)


def _forsake_closed_outputs() -> None:
    """Points an output that cannot be written at nothing: the interpreter flushes once more, and would complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, stream.fileno())
            os.close(nothing)
