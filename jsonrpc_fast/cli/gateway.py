"""The command `gateway`: the servers of an `mcpServers` file as one MCP server, on stdin and stdout or over HTTP.

On stdin and stdout, stdout carries the protocol only. The stderr of the servers goes to stderr, and so do the reasons
why one of them does not run, without payloads.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Final

from .arguments import address_of
from .output import WAITING_FOR_CLIENT, announce_waiting, run_server_command

_PROGRAM: Final = "jsonrpc-fast gateway"


def run(options: argparse.Namespace) -> int:
    """Run the command until the client, or a signal, ends it. Return the exit status."""
    extra = "mcp" if options.http is None else "mcp-http"
    return run_server_command(_PROGRAM, extra, options.debug, partial(_serve, options))


def _serve(options: argparse.Namespace) -> int:
    place = address_of(options)
    from ..mcp.gateway import Gateway

    gateway = Gateway(
        options.file,
        separator=options.separator,
        max_servers=options.max_servers,
        idle_seconds=options.idle_seconds or None,
        list_seconds=options.list_seconds,
    )
    if place is None:
        announce_waiting(WAITING_FOR_CLIENT, _PROGRAM)
        return gateway.serve_stdio()
    return gateway.serve_http(*place, allowed_hosts=options.allow_host, allowed_origins=options.allow_origin)
