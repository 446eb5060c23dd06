"""`gateway --status`: whether each server of a file responds, and what it offers, for a person."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from ..codes import ErrorCode
from ..errors import RpcError
from .output import ERROR, SUCCESS, OutputError, escape, is_coloured, styled


def show_status(path: str) -> int:
    """Print a line for each server of a file. Return 1 if one does not respond.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is wrong.
        OutputError: stdout cannot be written.
    """
    return asyncio.run(_show(path))


async def _show(path: str) -> int:
    from ..mcp.client.entries import read_servers
    from ..mcp.gateway import Gateway

    entries = read_servers(path)
    Gateway(entries)  # checks what only a gateway refuses
    # Each for itself, so that a server that fails shows its own reason, and together, because some are slow.
    tasks = {name: asyncio.ensure_future(_status_of(entry)) for name, entry in entries.items()}
    width = max(map(len, entries))
    status = SUCCESS
    for name, task in tasks.items():
        is_up, *lines = await task
        status = status if is_up else ERROR
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

    begun = time.monotonic()
    try:
        # A reason shows the last lines of stderr.
        stderr: dict[str, Any] = {"stderr": "discard"} if entry.command else {}
        # How long a server may take to start, as in a gateway: a package may have to be downloaded first.
        async with connect(entry, timeout=60.0, max_restarts=0, **stderr) as client:
            server = client.server
            lists = {
                "tools": [client.list_tools],
                "prompts": [client.list_prompts],
                "resources": [client.list_resources, client.list_resource_templates],
            }
            found: dict[str, list[Any]] = {}
            for capability, functions in lists.items():
                for list_items in functions if server.capabilities.supports(capability) else ():
                    try:
                        found.setdefault(capability, []).extend(await list_items())
                    except RpcError as error:
                        # A server with resources may have no templates.
                        if error.code != ErrorCode.METHOD_NOT_FOUND:
                            raise
    except Exception as error:  # whatever is wrong with one server, the others are shown
        return [False, *(str(error) or type(error).__name__).splitlines()]
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
