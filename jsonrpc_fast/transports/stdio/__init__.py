"""Transports over stdin and stdout: `StdioServer` of this process, `StdioClient` of a child process."""

from __future__ import annotations

from .client import ChildChannel, StdioClient, signal_children
from .descriptors import PipeChannel
from .main import StdioServer, fill_closed_descriptors, run_stdio

__all__ = [
    "ChildChannel",
    "PipeChannel",
    "StdioClient",
    "StdioServer",
    "fill_closed_descriptors",
    "run_stdio",
    "signal_children",
]
