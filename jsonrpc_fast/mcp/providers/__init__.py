"""Providers that a server can mount: remote servers, and services that a document describes.

    remote      `Proxy`: a remote MCP server
    openrpc     tools from a document of OpenRPC
    openapi     tools from a document of OpenAPI 3
    documents   the schemas in such documents

Needs the extra `mcp`.
"""

from __future__ import annotations

from .openapi import openapi_server
from .openrpc import openrpc_server
from .remote import Proxy

__all__ = ["Proxy", "openapi_server", "openrpc_server"]
