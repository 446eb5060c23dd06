"""Providers that a server can mount: remote servers, and services that a document describes.

    remote      `Proxy`: a remote MCP server
    documents   tools from a document of OpenRPC, and the schemas in documents
    openapi     tools from a document of OpenAPI 3

Needs the extra `mcp`.
"""

from __future__ import annotations

from .openapi import openapi_server, openrpc_server
from .remote import Proxy

__all__ = ["Proxy", "openapi_server", "openrpc_server"]
