"""An MCP server: functions as tools, prompts and resources.

    server         `Server`, and how it runs
    registry       what is registered: the decorators, sources
    functions      signatures of registered functions
    values         annotated types: JSON Schemas, conversion from and to JSON
    constraints    finds pydantic constraints that always fail
    tools          validation of arguments and results of tools
    contents       content blocks, messages and contents from what functions return
    context        `Context`: the request of a function, and messages to the client
    inputs         requests to modern clients, in several rounds
    connection     one connection: its session and requests
    handshake      the server's side of the handshake, without IO
    methods        the methods of MCP
    subscriptions  the changes that a client is notified of
    paging         pages of lists, and cursors

Needs the extra `mcp`.
"""

from __future__ import annotations

from .context import Context
from .server import Server

__all__ = ["Context", "Server"]
