"""Transports over stdin and stdout: `StdioServer` of this process, `StdioClient` of a child process."""

from __future__ import annotations

from .child import signal_children
from .client import ChildChannel, StdioClient
from .descriptors import PipeChannel
from .main import StdioServer, run_stdio
from .takeover import fill_closed_descriptors

__all__ = [
    "ChildChannel",
    "PipeChannel",
    "StdioClient",
    "StdioServer",
    "fill_closed_descriptors",
    "run_stdio",
    "signal_children",
]
