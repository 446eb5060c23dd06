"""Providers for servers: what other servers and services have.

    remote      `Proxy`: a remote MCP server

Needs the extra `mcp`.
"""

from __future__ import annotations

from .remote import Proxy

__all__ = ["Proxy"]
