"""Transports: channels of messages in both directions, on asyncio; see `Transport`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..support import loader
from .channel import Channel, Events, QueuedChannel
from .connection import Connection
from .protocol import MessageOptions, Received, Sendable, Transport, TransportOptions

if TYPE_CHECKING:
    from .memory import MemoryTransport, memory_pair
    from .stdio import PipeChannel, StdioClient, StdioServer, run_stdio
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
            "stdio": ("PipeChannel", "StdioClient", "StdioServer", "run_stdio"),
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
    "MessageOptions",
    "PeerCredentials",
    "PipeChannel",
    "QueuedChannel",
    "Received",
    "Sendable",
    "StdioClient",
    "StdioServer",
    "StreamServer",
    "StreamTransport",
    "TcpClient",
    "TcpServer",
    "Transport",
    "TransportOptions",
    "UnixClient",
    "UnixServer",
    "inherited_sockets",
    "memory_pair",
    "run_stdio",
]
