"""One MCP server made of many.

gateway     `Gateway`: the servers, and how clients are served
connection  one client: its session, and what a client with a handshake is asked and told
modern      the clients of 2026-07-28: whose a request is, and calls of several rounds
catalog     the servers of one client: names, lists, resources
upstream    one server, for one client: started, ended, restarted
payloads    members of payloads that are passed on undecoded
"""

from __future__ import annotations

from .gateway import Gateway as Gateway

__all__ = ["Gateway"]
