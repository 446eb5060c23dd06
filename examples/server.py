"""A server on standard input and output, for an editor or another program to start.

jsonrpc-fast call add a=1 b=2 -- python examples/server.py
"""

from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import StdioServer, run_stdio


def add(a: float, b: float) -> float:
    return a + b


async def serve(transport: StdioServer) -> None:
    async with Session(transport, {"add": add}) as session:
        await session.wait_closed()


raise SystemExit(run_stdio(serve))
