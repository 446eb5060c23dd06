"""JSON-RPC over HTTP: an ASGI application, a WSGI application, and a client.

The clients are in `jsonrpc_fast.http.client`, which needs the extra `http`.
"""

from __future__ import annotations

from .base import EndpointOptions
from .endpoint import Endpoint
from .requests import Access, Refusal
from .wsgi import WsgiEndpoint

__all__ = ["Access", "Endpoint", "EndpointOptions", "Refusal", "WsgiEndpoint"]
