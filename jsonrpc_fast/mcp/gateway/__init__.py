"""One MCP server made of many.

gateway     `Gateway`: the servers, and how clients are served
connection  one client: names, lists, resources
upstream    one server, for one client: started, ended, restarted
payloads    members of payloads that are passed on undecoded
"""

from __future__ import annotations

from .gateway import Gateway as Gateway

__all__ = ["Gateway"]
