"""An MCP client, for scripts and tests. `mcp.connect` and `mcp.blocking` make one.

    entries     where a server is: a program or a URL
    program     a server that is a program, and its last output
    client      `Client` and its methods
    session     serves the server's requests and notifications
    handshake   which request to send next, without IO
    results     checks of the server's results, the pages of a list, and tasks on the server
    oauth       sign-in: in the browser, or as a program
    token_stores  where tokens are kept

Needs the extra `mcp`.
"""

from __future__ import annotations

from ..protocol.uris import expand_uri_template
from .client import Client
from .results import ClientTask

__all__ = ["Client", "ClientTask", "expand_uri_template"]
