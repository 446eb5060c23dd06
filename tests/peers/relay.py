"""A relay between its stdin and stdout and those of a program: `relay.py COMMAND`."""

from __future__ import annotations

import sys

from jsonrpc_fast import MCP_2025_11_25
from jsonrpc_fast.mcp.relay import Relay
from jsonrpc_fast.transports.stdio.client import StdioClient
from jsonrpc_fast.transports.stdio.main import run_stdio
from jsonrpc_fast.transports.stdio.server import StdioServer


async def serve(transport: StdioServer) -> None:
    program = StdioClient(sys.argv[1:], profile=MCP_2025_11_25, raw=True)
    async with Relay(transport, program, close_seconds=60.0) as relay:  # a program may be slow to start
        await relay.wait_closed()


if __name__ == "__main__":
    sys.exit(run_stdio(serve, profile=MCP_2025_11_25, raw=True))
