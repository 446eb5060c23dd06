"""Transports: channels of messages in both directions, on asyncio; see `Transport`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..support import loader
from .channel import Channel, Events, QueuedChannel
from .connection import Connection, State
from .protocol import MessageOptions, Received, Sendable, Transport, TransportOptions, drop_callbacks, is_strict_enough

if TYPE_CHECKING:
    from .memory import MemoryChannel, MemoryTransport, memory_pair
    from .stdio import ChildChannel, PipeChannel, StdioClient, StdioServer, run_stdio
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
            "memory": ("MemoryChannel", "MemoryTransport", "memory_pair"),
            "stdio": ("ChildChannel", "PipeChannel", "StdioClient", "StdioServer", "run_stdio"),
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
    "ChildChannel",
    "Connection",
    "Events",
    "MemoryChannel",
    "MemoryTransport",
    "MessageOptions",
    "PeerCredentials",
    "PipeChannel",
    "QueuedChannel",
    "Received",
    "Sendable",
    "State",
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
    "drop_callbacks",
    "inherited_sockets",
    "is_strict_enough",
    "memory_pair",
    "run_stdio",
]
