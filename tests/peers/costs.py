"""The processor time of servers, for each call: python -m tests.peers.costs [adapters] [gateway]

adapters    MCPServer of the SDK and fastmcp, without and with the adapter, over stdio, in both kinds of revisions
gateway     the gateway, and fastmcp's proxy with persistent sessions, each in front of two servers

Each writes its table, into docs/adapters.md and docs/mcp-gateway.md.
Servers that are compared run at the same time and take turns; a row has the minimum of many rounds. The figures are
from the system's scheduler, for all threads of the process that is measured, without its children.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.pages import DOCS, markdown, shown, write
from jsonrpc_fast import BACKEND
from jsonrpc_fast.mcp import connect

from ..support.places import PEERS
from .adapters.mcp import FOLDERS
from .venvs import python_for

IN_FLIGHT: Final = (1, 32)
ROUNDS: Final = 6
CALLS: Final = 128
MODES: Final = ("2025-11-25", "2026-07-28")

SERVER: Final = """
import sys
library, adapter, *folders = sys.argv[1:]
if adapter == "adapter":
    sys.path += folders
    from jsonrpc_fast.adapters import mcp
    mcp.install()
if library == "MCPServer":
    from mcp.server.mcpserver import MCPServer
    server = MCPServer("cost", log_level="ERROR")
else:
    from fastmcp import FastMCP
    server = FastMCP("cost")

@server.tool()
async def add(a: int, b: int) -> int:
    return a + b

server.run("stdio") if library == "MCPServer" else server.run(show_banner=False, log_level="ERROR")
"""
PROXY: Final = """
import asyncio, json, sys
from fastmcp import Client
from fastmcp.server import create_proxy

async def main():
    async with Client({"mcpServers": json.loads(sys.argv[1])}) as client:  # it keeps its sessions
        await create_proxy(client).run_stdio_async(show_banner=False, log_level="ERROR")

asyncio.run(main())
"""


def used_seconds(pid: int) -> float:
    """Return the processor time that a process has used, in all its threads."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


@asynccontextmanager
async def calling(command: list[str], tool: str, mode: str) -> AsyncIterator[Callable[[int, int], Any]]:
    """Yield a function that makes calls, and returns the processor time of the server for one."""
    pid_file = Path(tempfile.mkstemp()[1])
    shell = ["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(pid_file), *command]
    async with connect(*shell, mode=mode, timeout=120, stderr="discard") as client:
        pid = int(pid_file.read_text())
        pid_file.unlink()

        async def cost(calls: int, in_flight: int) -> float:
            begun = used_seconds(pid)
            for _ in range(calls // in_flight):
                made = [client.call_tool(tool, {"a": 2, "b": 3}) for _ in range(in_flight)]
                for result in await asyncio.gather(*made):
                    assert result["content"][0]["text"] == "5"
            return (used_seconds(pid) - begun) / calls

        yield cost


async def least(commands: dict[str, tuple[list[str], str]], mode: str) -> dict[int, dict[str, float]]:
    """Return the minimum processor time of a call by the number of calls in flight, for each command with its tool."""
    async with AsyncExitStack() as stack:
        made = {
            name: await stack.enter_async_context(calling(command, tool, mode))
            for name, (command, tool) in commands.items()
        }
        found: dict[int, dict[str, float]] = {}
        for in_flight in IN_FLIGHT:
            best = found[in_flight] = dict.fromkeys(made, float("inf"))
            for number in range(ROUNDS):
                for name in list(made) if number % 2 else reversed(made):
                    best[name] = min(best[name], await made[name](CALLS, in_flight))
        return found


def rows(what: str, found: dict[int, dict[str, float]]) -> Iterator[tuple[str, ...]]:
    for in_flight, costs in found.items():
        slowest, fastest = costs.values()
        yield what, str(in_flight), *(shown(seconds * 1e9) for seconds in costs.values()), f"{slowest / fastest:.1f}"


async def adapters() -> list[tuple[str, ...]]:
    """Return what a call of servers of the SDK and of fastmcp costs, without and with the adapter."""
    found: list[tuple[str, ...]] = [("server, revision", "in flight", "without", "with the adapter", "ratio")]
    for library, python in (("MCPServer", python_for("sdk2")), ("fastmcp", python_for("fastmcp"))):
        for mode in MODES:
            commands = {
                kind: ([python, "-c", SERVER, library, kind, *FOLDERS], "add") for kind in ("without", "adapter")
            }
            found += rows(f"{library}, {mode}", await least(commands, mode))
    return found


async def gateway() -> list[tuple[str, ...]]:
    """Return what a call costs the gateway, and fastmcp's proxy."""
    found: list[tuple[str, ...]] = [("client of", "in flight", "fastmcp's proxy", "gateway", "ratio")]
    sample = {"command": sys.executable, "args": [str(PEERS / "sum_server.py")]}
    servers = {"one": sample, "two": sample}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "servers.json"
        path.write_text(json.dumps({"mcpServers": servers}))
        commands = {
            "proxy": ([python_for("fastmcp"), "-c", PROXY, json.dumps(servers)], "one_add"),
            "gateway": ([sys.executable, "-m", "jsonrpc_fast", "gateway", str(path)], "one_add"),
        }
        for mode in MODES:
            found += rows(mode, await least(commands, mode))
    return found


if __name__ == "__main__":
    if BACKEND != "cython":
        sys.exit("the figures are about the core, which is not in use")
    for chosen in sys.argv[1:] or ("adapters", "gateway"):
        function, page = {"adapters": (adapters, "adapters.md"), "gateway": (gateway, "mcp-gateway.md")}[chosen]
        made = markdown(asyncio.run(function()))
        write({chosen: made}, DOCS / page)
        print(made, flush=True)
