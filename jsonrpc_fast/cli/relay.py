"""The command `relay`: an MCP server of one transport for clients of another.

Rules:
  - stdout carries the protocol only. Faults go to stderr, without payloads.
  - With a URL, this process is a server on stdin and stdout, and every message goes to the URL.
  - With `--http`, this process is an HTTP server, and each session is a process of the command.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .output import FAILURE, WAITING_FOR_CLIENT, announce_waiting, logging_to_stderr, print_error, printable

_PROGRAM: Final = "jsonrpc-fast relay"
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HEADER: Final = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([ -~]*?)[ \t]*")


def run(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run the command until the client, or a signal, ends it. Return the exit status."""
    try:
        headers = headers_of(options.header, os.environ)
        place = None if options.http is None else place_of(options.http)
    except ValueError as error:
        return _fail(str(error))
    try:
        with logging_to_stderr(_PROGRAM, options.debug):
            if place is None:
                return _run_stdio(options.url, headers)
            from ..mcp.http.programs import serve_program

            processes, idle = max(1, options.max_processes), max(0.0, options.idle_seconds)
            return serve_program(command, *place, max_processes=processes, idle_seconds=idle)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(__package__.partition(".")[0]):
            raise
        return _fail(f"{error.name} is missing; install the extra: pip install 'jsonrpc_fast[mcp-http]'")
    except ImportError as error:
        return _fail(str(error))
    except (OSError, ValueError) as error:
        return _fail(getattr(error, "strerror", None) or str(error))


def headers_of(given: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return headers given as "NAME: VALUE", with variables of the environment in their values.

    Raises:
        ValueError: A header is malformed, or a variable is missing. The error's text holds no value.
    """
    headers = {}
    for text in given:
        name, colon, value = text.partition(":")
        missing = [found for found in _VARIABLE.findall(value) if found not in environment]
        if missing:
            raise ValueError(f"the environment has no variable {missing[0]}")
        match = _HEADER.fullmatch(f"{name}{colon}{_VARIABLE.sub(lambda found: environment[found[1]], value)}")
        if match is None:
            raise ValueError("a header must be NAME: VALUE")
        headers[match[1]] = match[2]
    return headers


def place_of(text: str) -> tuple[str, int]:
    """Return host and port of "HOST:PORT".

    Raises:
        ValueError: The text has another form.
    """
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"{printable(text)} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _run_stdio(url: str, headers: dict[str, str]) -> int:
    from ..mcp.http.client import StreamableHttpClient
    from ..mcp.relay import FaultLog, Relay
    from ..profile import MCP_2025_11_25
    from ..transports.stdio.main import run_stdio

    options: dict[str, Any] = {"profile": MCP_2025_11_25.replace(name="mcp", batches=True), "raw": True}
    announce_waiting(WAITING_FOR_CLIENT, _PROGRAM)
    remote = StreamableHttpClient(url, headers=headers, **options)

    async def serve(transport: Any) -> None:
        async with Relay(transport, remote, on_fault=FaultLog()) as relay:
            await relay.wait_closed()

    return run_stdio(serve, **options)


def _fail(message: str) -> int:
    print_error(message, _PROGRAM)
    return FAILURE
