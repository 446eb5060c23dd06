"""An MCP client, for scripts and tests."""

from __future__ import annotations

from .client import Client, connect

__all__ = ["Client", "connect"]
