"""WebSocket (RFC 6455) on the library `websockets`: a client, and a server that accepts connections.

In an ASGI application use `jsonrpc_fast.transports.asgi`, which does not need `websockets`.
"""

from __future__ import annotations

try:
    import websockets as _websockets  # noqa: F401
except ModuleNotFoundError as _missing:
    raise ModuleNotFoundError('WebSocket needs an extra: pip install "jsonrpc_fast[websocket]"') from _missing

from ..channel import CloseCode
from .channel import WebSocketTransport
from .client import WebSocketClient
from .server import WebSocketServer

__all__ = ["CloseCode", "WebSocketClient", "WebSocketServer", "WebSocketTransport"]
