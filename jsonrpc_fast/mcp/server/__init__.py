"""An MCP server: what it offers, and its connections."""

from __future__ import annotations

from .context import Context
from .server import Server

__all__ = ["Context", "Server"]
