"""stdin and stdout as a channel: `StdioServer` on those of this process, `StdioClient` on those of a child process."""

from __future__ import annotations

from .client import StdioClient
from .main import run_stdio
from .server import StdioServer

__all__ = ["StdioClient", "StdioServer", "run_stdio"]
