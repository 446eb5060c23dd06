"""Transports: channels of messages in both directions, on asyncio; see `Transport`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .channel import Channel as Channel
    from .channel import Events as Events
    from .connection import Connection as Connection
    from .memory import MemoryTransport as MemoryTransport
    from .memory import memory_pair as memory_pair
    from .protocol import Received as Received
    from .protocol import Sendable as Sendable
    from .protocol import Transport as Transport
    from .stdio import StdioClient as StdioClient
    from .stdio import StdioServer as StdioServer
    from .stdio import run_stdio as run_stdio
    from .stream import PeerCredentials as PeerCredentials
    from .stream import StreamServer as StreamServer
    from .stream import StreamTransport as StreamTransport
    from .stream import TcpClient as TcpClient
    from .stream import TcpServer as TcpServer
    from .stream import UnixClient as UnixClient
    from .stream import UnixServer as UnixServer
    from .stream import inherited_sockets as inherited_sockets
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "channel": "Channel Events",
            "connection": "Connection",
            "memory": "MemoryTransport memory_pair",
            "protocol": "Received Sendable Transport",
            "stdio": "StdioClient StdioServer run_stdio",
            "stream": (
                "PeerCredentials StreamServer StreamTransport TcpClient TcpServer UnixClient UnixServer "
                "inherited_sockets"
            ),
        },
    )
