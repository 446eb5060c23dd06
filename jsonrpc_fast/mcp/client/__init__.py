"""An MCP client, for scripts and tests.

    connecting  `connect`: starts a program, or uses a transport
    client      `Client` and its methods
    session     serves the server's requests and notifications
    handshake   which request to send next, without IO
    progress    passes the progress of a call to a function
    results     checks of the server's results

Needs the extra `mcp`.
"""

from __future__ import annotations

from .client import Client
from .connecting import connect

__all__ = ["Client", "connect"]
