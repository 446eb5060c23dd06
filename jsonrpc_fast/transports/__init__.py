"""Transports: channels of messages in both directions, on asyncio; see `Transport`."""

from __future__ import annotations

from .channel import Channel, Events
from .connection import Connection
from .memory import MemoryTransport, memory_pair
from .protocol import Received, Sendable, Transport
from .stdio import StdioClient, StdioServer, run_stdio
from .stream import (
    PeerCredentials,
    StreamServer,
    StreamTransport,
    TcpClient,
    TcpServer,
    UnixClient,
    UnixServer,
    inherited_sockets,
)

__all__ = [
    "Channel",
    "Connection",
    "Events",
    "MemoryTransport",
    "PeerCredentials",
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
    "inherited_sockets",
    "memory_pair",
    "run_stdio",
]
