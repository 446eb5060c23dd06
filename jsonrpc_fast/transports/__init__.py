"""Transports: channels of messages in both directions, on asyncio; see `Transport`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import loader
from .channel import Channel, Events
from .connection import Connection
from .protocol import Received, Sendable, Transport

if TYPE_CHECKING:
    from .memory import MemoryTransport, memory_pair
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
else:
    __getattr__ = loader(
        __name__,
        {
            "memory": ("MemoryTransport", "memory_pair"),
            "stdio": ("StdioClient", "StdioServer", "run_stdio"),
            "stream": (
                "PeerCredentials",
                "StreamServer",
                "StreamTransport",
                "TcpClient",
                "TcpServer",
                "UnixClient",
                "UnixServer",
                "inherited_sockets",
            ),
        },
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
