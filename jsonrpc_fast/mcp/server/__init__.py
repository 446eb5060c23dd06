"""An MCP server: `Server` and the `Context` of its functions."""

from __future__ import annotations

from .context import Context
from .server import Server

__all__ = ["Context", "Server"]
