"""Clients that disconnect leave nothing behind, and neither do those whose loop ends."""

from __future__ import annotations

import asyncio
import sys

import pytest

from jsonrpc_fast import mcp
from jsonrpc_fast.mcp.http import McpEndpoint

from ...support.asgi_servers import serving
from ...support.forking import MARK
from ...support.mcp_http import Gate
from ...support.tables import rows
from ...support.waiting import eventually

pytestmark = [pytest.mark.time_limit(80), pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.usefixtures("no_descriptor_left")
@pytest.mark.ci
async def test_clients_that_come_and_go_leave_nothing(mode: str) -> None:
    gate = Gate()

    async def use() -> None:
        async with mcp.connect(f"{url}/mcp", mode=mode) as client:
            assert (await client.call_tool("add", {"a": 2, "b": 3}))["structuredContent"] == {"result": 5}

    async with serving(McpEndpoint(gate.server)) as url:
        before = asyncio.all_tasks()
        for _ in range(5):
            await asyncio.gather(*[use() for _ in range(4)])
        await eventually(lambda: not gate.server.connections)
        assert asyncio.all_tasks() <= before


CLOSED_LOOP = (
    MARK
    + """
import asyncio, gc, sys
from jsonrpc_fast import mcp
async def main(url):
    client = mcp.connect(url, mode=sys.argv[2])
    await client.__aenter__()
    has_begun = asyncio.Event()
    call = asyncio.ensure_future(client.call_tool("wait", {}, on_progress=lambda progress: has_begun.set()))
    await has_begun.wait()
    return client, call
if sys.argv[3] == "run":
    asyncio.run(main(sys.argv[1]))
else:
    loop = asyncio.new_event_loop()
    left = loop.run_until_complete(main(sys.argv[1]))
    loop.close()
    if sys.argv[3] == "drop":
        del left
        gc.collect()
print("end", flush=True)
"""
)


@pytest.mark.parametrize("mode", [pytest.param("legacy", marks=pytest.mark.slow), "auto"])
@rows("how", ["run", "close", "drop"])
@pytest.mark.ci
async def test_a_loop_that_ends_under_an_open_connection(mode: str, how: str) -> None:
    """The client's program ends, and its output does not mention the package."""
    gate = Gate()
    async with serving(McpEndpoint(gate.server)) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CLOSED_LOOP, f"{url}/mcp", mode, how),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await asyncio.wait_for(process.communicate(), 60)
        assert (process.returncode, output) == (0, b"end\n"), errors
        assert errors == b""
        gate.opened.set()
