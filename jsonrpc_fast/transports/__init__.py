"""Ways in and out for messages: each transport is a `Transport` (protocol.py) over a channel of its own, on asyncio."""

from __future__ import annotations

from .base import ByteTransport, Received, Sendable, Transport
from .memory import MemoryTransport, memory_pair
from .stdio.client import StdioClient
from .stdio.main import run_stdio
from .stdio.server import StdioServer
from .stream import StreamServer, StreamTransport, TcpClient, TcpServer, UnixClient, UnixServer

__all__ = [
    "ByteTransport",
    "MemoryTransport",
    "Received",
    "Sendable",
    "StdioClient",
    "StdioServer",
    "StreamServer",
    "StreamTransport",
    "TcpClient",
    "TcpServer",
    "Transport",
    "UnixClient",
    "UnixServer",
    "memory_pair",
    "run_stdio",
]
