"""The package's loggers: `jsonrpc_fast` and its children. The application configures them.

Importing sets no level and reads no environment variable. The only handler is a NullHandler: without it, Python would
print warnings if the application has not configured logging.
"""

from __future__ import annotations

import logging
from typing import Final

NAME: Final = "jsonrpc_fast"
logging.getLogger(NAME).addHandler(logging.NullHandler())


def logger_of(part: str) -> logging.Logger:
    """Return the logger of a part of the package, such as "session"."""
    return logging.getLogger(f"{NAME}.{part}")
