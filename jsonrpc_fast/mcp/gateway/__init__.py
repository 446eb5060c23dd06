"""One MCP server made of many.

gateway     `Gateway`: the servers; and the connection of each client
modern      the clients of 2026-07-28: which client sent a request, and calls of several rounds
catalog     the servers of one client: names, lists, resources
upstream    one server, for one client: started, ended, restarted
payloads    members of payloads that are passed on undecoded
"""

from __future__ import annotations

from .gateway import Gateway as Gateway

__all__ = ["Gateway"]
