"""A server and a client of fastmcp on the adapter of the MCP SDK: fastmcp_adapter.py FOLDER FOLDER server|client

The folders contain this package and orjson.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys

sys.path += sys.argv[1:3]

from jsonrpc_fast.adapters import mcp  # isort: skip

mcp.install()

from fastmcp import Client, Context, FastMCP  # noqa: E402
from fastmcp.client.transports import StdioTransport  # noqa: E402

server = FastMCP("adapter")


def is_on_adapter() -> bool:
    """Whether a stream of the adapter exists in this process."""
    return any(type(object).__module__ == mcp.__name__ for object in gc.get_objects())


@server.tool
def add(a: int, b: int) -> int:
    print("a print that must not reach the wire")
    return a + b


@server.tool
def letters(count: int) -> str:
    return "x" * count


@server.tool
def fail() -> None:
    raise ValueError("no")


@server.tool
async def report(context: Context) -> bool:
    await context.report_progress(0.5, 1.0)
    return is_on_adapter()


async def use() -> dict[str, object]:
    progress: list[float | None] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.extend((done, total))

    transport = StdioTransport(sys.executable, [*sys.argv[:-1], "server"], log_file=None)
    async with Client(transport) as client:
        found: dict[str, object] = {"sum": (await client.call_tool("add", {"a": 1, "b": 2})).data}
        found["letters"] = len((await client.call_tool("letters", {"count": 1_000_000})).data)
        calls = [client.call_tool("add", {"a": number, "b": 0}) for number in range(100)]
        found["many"] = [result.data for result in await asyncio.gather(*calls)]
        error = await client.call_tool("fail", raise_on_error=False)
        found["error"] = error.content[0].text
        on_adapter = (await client.call_tool("report", progress_handler=on_progress)).data
        found["progress"] = progress
        found["on adapter"] = [on_adapter, is_on_adapter()]
    return found


if sys.argv[3] == "server":
    server.run(show_banner=False)
else:
    print(json.dumps(asyncio.run(use())))
