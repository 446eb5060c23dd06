"""An MCP server that contains another server, and has the methods of a JSON-RPC service as tools.

jsonrpc-fast list --mcp -- python examples/mcp_composed.py
jsonrpc-fast call --mcp shop_price name=tea -- python examples/mcp_composed.py
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.handlers.openrpc import openrpc
from jsonrpc_fast.mcp.providers import openrpc_server
from jsonrpc_fast.mcp.server import Server
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import memory_pair

clock = Server("clock", "1.0")


@clock.tool
def later(hour: int, hours: int = 1) -> int:
    """Return the hour of the day after some hours."""
    return (hour + hours) % 24


def price(name: str, count: int = 1) -> float:
    """Return the price of some packets."""
    return {"tea": 2.5, "coffee": 4.0}[name] * count


# The service: anything with an OpenRPC document, here in the same process.
service = Handlers({"price": price})
ours, theirs = memory_pair()
session = Session(ours)


@asynccontextmanager
async def lifespan(server: Server) -> AsyncIterator[None]:
    async with Session(theirs, service), session:
        yield


server = Server("composed", "1.0", lifespan=lifespan)
server.mount(clock, prefix="clock")
server.mount(openrpc_server(openrpc(service, title="Shop", version="1.0"), session.call), prefix="shop")

if __name__ == "__main__":
    raise SystemExit(server.serve_stdio())
