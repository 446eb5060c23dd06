"""The package's loggers: `jsonrpc_fast` and its children. The application configures them.

Importing sets no level, adds no handler and reads no environment variable. So Python prints warnings and errors on
stderr if the application has not configured logging: the exception of a handler is not lost.
"""

from __future__ import annotations

import logging
from typing import Final

NAME: Final = "jsonrpc_fast"


def logger_of(part: str) -> logging.Logger:
    """Return the logger of a part of the package, such as "session"."""
    return logging.getLogger(f"{NAME}.{part}")


class Seldom:
    """Limits a line of the log that others can cause: once a second, with the number of those that were left out."""

    __slots__ = ("_left_out", "_next")

    def __init__(self) -> None:
        self._next = -1.0
        self._left_out = 0

    def take(self, now: float) -> str | None:
        """Return what to append to the line, or None if it is left out.

        Args:
            now: The time in seconds, from any monotonic clock.
        """
        if now < self._next:
            self._left_out += 1
            return None
        self._next = now + 1.0
        count, self._left_out = self._left_out, 0
        return f" ({count} more were not logged before)" if count else ""
