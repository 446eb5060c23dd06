"""The command `gateway`: the servers of an `mcpServers` file as one MCP server, on stdin and stdout or over HTTP.

On stdin and stdout, stdout carries the protocol only. The stderr of the servers goes to stderr, and so do the reasons
why one of them does not run, without payloads.
"""

from __future__ import annotations

import argparse
from typing import Any, Final

from .arguments import parse_address
from .output import FAILURE, WAITING_FOR_CLIENT, announce_waiting, logging_to_stderr, missing_extra, print_error

_PROGRAM: Final = "jsonrpc-fast gateway"


def run(options: argparse.Namespace) -> int:
    """Run the command until the client, or a signal, ends it. Return the exit status."""
    try:
        if options.http is None and (options.allow_host or options.allow_origin):
            raise ValueError("--allow-host and --allow-origin need --http")
        place = None if options.http is None else parse_address(options.http)
        with logging_to_stderr(_PROGRAM, options.debug):
            return _serve(options, place)
    except ModuleNotFoundError as error:
        return _fail(missing_extra(error, "mcp" if options.http is None else "mcp-http"))
    except (ImportError, ValueError) as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(error.strerror or str(error))


def _serve(options: argparse.Namespace, place: tuple[str, int] | None) -> int:
    from ..mcp.gateway import Gateway

    bounds: dict[str, Any] = {"max_servers": max(1, options.max_servers), "idle_seconds": options.idle_seconds or None}
    gateway = Gateway(options.file, separator=options.separator, **bounds)
    if place is None:
        announce_waiting(WAITING_FOR_CLIENT, _PROGRAM)
        return gateway.serve_stdio()
    return gateway.serve_http(*place, allowed_hosts=options.allow_host, allowed_origins=options.allow_origin)


def _fail(message: str) -> int:
    print_error(message, _PROGRAM)
    return FAILURE
