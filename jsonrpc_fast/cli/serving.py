"""The commands that serve MCP on stdin and stdout, or over HTTP, until the client or a signal ends them.

    serve    the text templates of a folder
    gateway  the servers of an `mcpServers` file as one server
    relay    a server of the other transport: a URL on stdin and stdout, or a program over HTTP

On stdin and stdout, stdout carries only the protocol. Everything else goes to stderr, without payloads: why a server
does not start or has failed, which templates are invalid, and with `--debug` a line for each message and fault.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from .arguments import headers_of, parse_address
from .output import announce_waiting, run_reporting

_WAITING: Final = (
    "waiting for messages of an MCP client on the terminal; usually the client starts this command; Ctrl-D ends it"
)


def run(options: argparse.Namespace) -> int:
    """Run the command `serve`, `gateway` or `relay`. Return the exit status."""
    extra = "mcp" if options.http is None and options.command != "relay" else "mcp-http"
    if options.command == "serve":
        extra = "mcp-templates" if options.http is None else "mcp-http,mcp-templates"
    return run_reporting(options, extra, partial(_run, options))


def _run(options: argparse.Namespace) -> int:
    serve = {"serve": _serve_folder, "gateway": _serve_gateway, "relay": _serve_relay}[options.command]
    if options.http is None and (options.allow_host or options.allow_origin):
        raise ValueError("--allow-host and --allow-origin need --http")
    return serve(options, None if options.http is None else parse_address(options.http))


def _serve_folder(options: argparse.Namespace, place: tuple[str, int] | None) -> int:
    if not options.template_dir:
        raise ValueError("the name of the folder is empty")
    os.scandir(options.template_dir).close()  # raises if it cannot be read, which `os.access` does not tell reliably
    from ..mcp.templates.server import TemplateFolder, serve_folder, serve_folder_over_http

    folder = TemplateFolder(Path(options.template_dir).absolute())
    if place is None:
        return _on_stdio(options, lambda: serve_folder(folder))
    hosts, origins = options.allow_host, options.allow_origin
    return serve_folder_over_http(folder, *place, allowed_hosts=hosts, allowed_origins=origins)


def _serve_gateway(options: argparse.Namespace, place: tuple[str, int] | None) -> int:
    if options.status:
        from .status import show_status

        if place is not None:
            raise ValueError("--status serves nothing: leave out --http")
        return show_status(options.file)
    from ..mcp.gateway import Gateway

    gateway = Gateway(
        options.file,
        separator=options.separator,
        max_servers=options.max_servers,
        idle_seconds=options.idle_seconds or None,
        list_seconds=options.list_seconds,
    )
    return _serve(gateway, options, place)


def _serve(gateway: Any, options: argparse.Namespace, place: tuple[str, int] | None) -> int:
    if place is None:
        return _on_stdio(options, gateway.serve_stdio)
    from ..mcp.http import McpEndpoint, run_http

    endpoint = McpEndpoint(gateway, allowed_hosts=options.allow_host, allowed_origins=options.allow_origin)
    return run_http(endpoint, *place)


def _serve_relay(options: argparse.Namespace, place: tuple[str, int] | None) -> int:
    """A relay is a gateway of one server, whose tools keep their names."""
    from ..mcp.gateway import Gateway

    server: dict[str, Any] = {"url": options.url, "headers": headers_of(options.header, os.environ)}
    if place is not None:
        server = {"command": options.program[0], "args": options.program[1:], "env": dict(os.environ)}
    limits = {"max_servers": options.max_processes, "idle_seconds": options.idle_seconds or None}
    gateway = Gateway({"server": server}, separator="", name="jsonrpc_fast relay", **limits)
    return _serve(gateway, options, place)


def _on_stdio(options: argparse.Namespace, serve: Callable[[], int]) -> int:
    # On a terminal, a person would otherwise not know what the command is waiting for.
    announce_waiting(_WAITING, f"jsonrpc-fast {options.command}")
    return serve()
