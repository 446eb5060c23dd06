"""Transports over stdin and stdout: `StdioServer` of this process, `StdioClient` of a child process."""

from __future__ import annotations

from .client import StdioClient
from .descriptors import PipeChannel
from .main import run_stdio
from .server import StdioServer

__all__ = ["PipeChannel", "StdioClient", "StdioServer", "run_stdio"]
