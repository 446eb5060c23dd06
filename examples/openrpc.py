"""A server that describes itself with OpenRPC, and from which a typed interface is made. It needs the extra `typed`.

jsonrpc-fast list -- python examples/openrpc.py
jsonrpc-fast call rpc.discover -- python examples/openrpc.py > shop.json
jsonrpc-fast stubs shop.json
"""

from dataclasses import dataclass

from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import Transport, run_stdio


@dataclass
class Item:
    name: str
    price: float


def find(words: list[str], limit: int = 10) -> list[Item]:
    """Find items by their names.

    Args:
        words: What the names contain.
        limit: The largest number of items.
    """
    return [Item(word, 2.5) for word in words][:limit]


async def serve(transport: Transport) -> None:
    handlers = Handlers(discover={"title": "Shop", "version": "1.0"})
    handlers.register("shop.find", find, typed=True)
    async with Session(transport, handlers) as session:
        await session.wait_closed()


raise SystemExit(run_stdio(serve))
