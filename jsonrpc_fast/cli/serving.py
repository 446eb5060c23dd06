"""The commands that serve MCP on stdin and stdout, or over HTTP, until the client or a signal ends them.

    serve    the text templates of a folder
    gateway  the servers of an `mcpServers` file as one server
    relay    a server of the other transport: a URL on stdin and stdout, or a program over HTTP

On stdin and stdout, stdout carries only the protocol. Everything else goes to stderr, without payloads: why a server
does not start or has failed, which templates are invalid, and with `--debug` a line for each message and fault.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .arguments import headers_of, parse_address
from .output import Faults, OutputError, Status, announce_waiting, escape, is_coloured, run_reporting, styled


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
        if place is not None:
            raise ValueError("--status serves nothing: leave out --http")
        return asyncio.run(_show_status(options.file))
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
    text = (
        "waiting for messages of an MCP client on the terminal; usually the client starts this command; Ctrl-D ends it"
    )
    announce_waiting(text, f"jsonrpc-fast {options.command}")
    return serve()


async def _show_status(path: str) -> int:
    """Print for each server of a file whether it responds, and what it offers. Return 1 if one does not respond."""
    from ..mcp.client.entries import read_servers
    from ..mcp.gateway import Gateway

    entries = read_servers(path)
    Gateway(entries)  # checks what only a gateway refuses
    # Each for itself, so that a server that fails shows its own reason, and together, because some are slow.
    tasks = {name: asyncio.ensure_future(_status_of(entry)) for name, entry in entries.items()}
    width = max(map(len, entries))
    status = Status.SUCCESS
    for name, task in tasks.items():
        is_up, *lines = await task
        status = status if is_up else Status.FAILED
        word = styled("ok" if is_up else "FAILED", "green" if is_up else "red", is_coloured(sys.stdout))
        first, *more = [escape(line) for line in lines] or [""]
        try:
            print(f"{escape(name):{width}}  {word}  {first}", *[f"    {line}" for line in more], sep="\n", flush=True)
        except OSError as error:
            raise OutputError(error) from error
    return status


async def _status_of(entry: Any) -> list[Any]:
    """Return whether a server responds, and lines about it."""
    from ..mcp import connect
    from .call import offered_by

    begun = time.monotonic()
    try:
        # A reason shows the last lines of stderr.
        rules: dict[str, Any] = {"stderr": "discard"} if entry.command else {}
        rules |= {"timeout": 60.0, "max_restarts": 0, "hooks": Faults("gateway", 0)}
        # How long a server may take to start, as in a gateway: a package may have to be downloaded first.
        async with connect(entry, **rules) as client:
            server, found = client.server, await offered_by(client)
    except Exception as error:  # whatever is wrong with one server, the others are shown
        text = error.strerror if isinstance(error, OSError) else str(error)
        return [False, *(text or str(error) or type(error).__name__).splitlines()]
    if templates := found.pop("resourceTemplates", []):
        found["resources"] = [*found.get("resources", []), *templates]
    counts = [f"{len(items)} {kind if len(items) != 1 else kind[:-1]}" for kind, items in found.items()]
    tools = found.get("tools", [])
    if hidden := len([tool for tool in tools if entry.tools.item(tool) is None]):
        counts[0] += f" ({hidden} not shown)"
    about = "" if server.info is None else f"{server.info.name} {server.info.version}, "
    offered = ", ".join(counts) or "nothing offered"
    lines = [f"{about}{server.revision.version}: {offered}; {time.monotonic() - begun:.1f} s"]
    if unfit := entry.tools.unfit(tools):
        lines.append(f"its rules name tools or arguments that it does not have: {', '.join(unfit)}")
    return [True, *lines]
