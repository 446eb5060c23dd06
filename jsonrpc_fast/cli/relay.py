"""The command `relay`: an MCP server of one transport for clients of another.

Rules:
  - stdout carries the protocol only. Faults go to stderr, without payloads.
  - With a URL, this process is a server on stdin and stdout, and every message goes to the URL.
  - With `--http`, this process is an HTTP server, and each session is a process of the command.
  - If a server has failed and never sent a message, the exit status says so.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import Any, Final

from .arguments import headers_of, parse_address
from .output import SUCCESS, WAITING_FOR_CLIENT, announce_waiting, run_server_command

_PROGRAM: Final = "jsonrpc-fast relay"
_UNREACHED: Final = 3
"""The server of the URL failed, and never sent a message."""


def run(options: argparse.Namespace) -> int:
    """Run the command until the client, or a signal, ends it. Return the exit status."""
    return run_server_command(_PROGRAM, "mcp-http", options.debug, partial(_run, options))


def _run(options: argparse.Namespace) -> int:
    headers = headers_of(options.header, os.environ)
    if options.http is None:
        return _run_stdio(options.url, headers)
    place = parse_address(options.http)
    from ..mcp.http.programs import serve_program

    return serve_program(
        options.program, *place, max_processes=options.max_processes, idle_seconds=max(0.0, options.idle_seconds)
    )


def _run_stdio(url: str, headers: dict[str, str]) -> int:
    from ..mcp.http.client import StreamableHttpClient
    from ..mcp.relay import FaultLog, Relay
    from ..profile import MCP_2025_11_25
    from ..transports.stdio.main import run_stdio

    # Rules that every revision's messages pass: client and server agree on a revision, and the relay is no party to it.
    options: dict[str, Any] = {"profile": MCP_2025_11_25.replace(name="mcp", batches=True), "raw": True}
    announce_waiting(WAITING_FOR_CLIENT, _PROGRAM)
    remote = StreamableHttpClient(url, headers=headers, **options)

    log = FaultLog()
    has_failed = is_heard = False

    def on_fault(side: Any, fault: Exception) -> None:
        nonlocal has_failed
        has_failed = has_failed or side == "right"
        log(side, fault)

    async def serve(transport: Any) -> None:
        async with Relay(transport, remote, on_fault=on_fault) as relay:
            receive: Any = remote.onmessage

            def hear(*message: Any) -> None:
                nonlocal is_heard
                is_heard = True
                receive(*message)

            remote.onmessage = hear
            await relay.wait_closed()

    status = run_stdio(serve, **options)
    return _UNREACHED if status == SUCCESS and has_failed and not is_heard else status
