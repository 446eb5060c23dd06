"""TCP and Unix sockets: clients, and servers that accept connections."""

from __future__ import annotations

from .client import TcpClient, UnixClient
from .listening import inherited_sockets
from .server import StreamServer, TcpServer, UnixServer
from .transport import PeerCredentials, StreamTransport

__all__ = [
    "PeerCredentials",
    "StreamServer",
    "StreamTransport",
    "TcpClient",
    "TcpServer",
    "UnixClient",
    "UnixServer",
    "inherited_sockets",
]
