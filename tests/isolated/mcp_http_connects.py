"""What clients of MCP over HTTP leave behind: `python -m tests.isolated.mcp_http_connects`.

Clients connect one after another, then many at a time, make a call and leave. Afterwards both processes must have the
descriptors, the tasks and about the memory that they had before. Linux is needed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

from jsonrpc_fast import mcp

from ..support.processes import resident_bytes

MODES = ("legacy", "2026-07-28")
SERVER = """
import asyncio, gc, os, sys
from jsonrpc_fast.mcp.server import Server
server = Server("counted", "1")
@server.tool
def add(a: int, b: int) -> int:
    return a + b
@server.tool
async def usage() -> dict[str, int]:
    gc.collect()
    with open("/proc/self/statm") as file:
        memory = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    return {"files": len(os.listdir("/proc/self/fd")), "tasks": len(asyncio.all_tasks()), "memory": memory}
sys.exit(server.serve_http("127.0.0.1", 0, uvicorn_options={"log_level": "info"}))
"""


@dataclass(frozen=True)
class Usage:
    """What a process has open, and its resident memory in bytes."""

    files: int
    tasks: int
    memory: int


def own_usage() -> Usage:
    gc.collect()
    return Usage(len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), resident_bytes())


@contextlib.asynccontextmanager
async def server_process() -> AsyncIterator[str]:
    """Run a server in a process of its own and yield its URL."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        while b"running on " not in (line := await asyncio.wait_for(process.stderr.readline(), 60)):
            if not line:
                raise RuntimeError("the server did not start")
        yield line.decode().partition("running on ")[2].split()[0] + "/mcp"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


async def use(url: str, mode: str) -> None:
    """Connect, make a call, and leave."""
    async with mcp.connect(url, mode=mode) as client:
        result = await client.call_tool("add", {"a": 2, "b": 3})
        assert result["structuredContent"] == {"result": 5}, result


async def usage_of(url: str) -> Usage:
    """Return what the server has while one client is connected."""
    async with mcp.connect(url, mode="2026-07-28") as client:
        return Usage(**(await client.call_tool("usage"))["structuredContent"])


async def usage_like(url: str, first: tuple[Usage, Usage] | None) -> tuple[Usage, Usage]:
    """Return the usage of this process and of the server, once both have no more open than the first time.

    Closing takes a moment. Connections that are open after 20 seconds are counted.
    """
    deadline = asyncio.get_running_loop().time() + 20
    previous = first
    while True:
        served = await usage_of(url)
        found = own_usage(), served
        if previous is not None and all(
            (now.files, now.tasks) == (before.files, before.tasks) for now, before in zip(found, previous, strict=True)
        ):
            return found
        if asyncio.get_running_loop().time() > deadline:
            return found
        if first is None:
            previous = found
        await asyncio.sleep(0.1)


async def run(mode: str, in_turn: int, together: int) -> list[tuple[Usage, Usage]]:
    """Return what this process and the server have after some clients, after many in turn, and after many together."""
    async with server_process() as url:
        found: list[tuple[Usage, Usage]] = []
        await asyncio.gather(*[use(url, mode) for _ in range(together)])  # what is kept for the next clients is there
        for count, at_a_time in ((in_turn // 10, 1), (in_turn, 1), (together, together)):
            for _ in range(count // at_a_time):
                await asyncio.gather(*[use(url, mode) for _ in range(at_a_time)])
            found.append(await usage_like(url, found[0] if found else None))
        return found


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in-turn", type=int, default=1000)
    parser.add_argument("--together", type=int, default=200)
    options = parser.parse_args()
    status = 0
    for mode in MODES:
        found = await run(mode, options.in_turn, options.together)
        for name, usages in (("client", [own for own, _ in found]), ("server", [served for _, served in found])):
            print(f"{mode}, {name}: " + "; ".join(map(str, usages)))
            first, last = usages[0], usages[-1]
            if (last.files, last.tasks) != (first.files, first.tasks) or last.memory - first.memory > 8 * 1024 * 1024:
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
