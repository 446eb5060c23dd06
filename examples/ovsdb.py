"""A client of the database of Open vSwitch (OVSDB, RFC 7047): it prints a column of a table, and each change of it.

python examples/ovsdb.py /var/run/openvswitch/db.sock Open_vSwitch Bridge name
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from jsonrpc_fast import JSONRPC_1
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import UnixClient


async def main(path: str, database: str, table: str, column: str) -> None:
    def show(updates: dict[str, Any]) -> None:
        for row in updates.get(table, {}).values():
            print(*[row[when][column] if when in row else None for when in ("old", "new")], sep=" -> ", flush=True)

    # The server asks `echo` of a client that is idle, and closes the connection if it gets no answer.
    handlers: dict[str, Callable[..., Any]] = {
        "update": lambda monitor, updates: show(updates),
        "echo": lambda *params: list(params),
    }
    # JSON-RPC 1.0, with nothing between messages, and errors that are strings or objects of its own.
    transport = UnixClient(path, framing="concatenated", profile=JSONRPC_1)
    async with Session(transport, handlers, timeout=30) as session:
        try:
            show(await session.call("monitor", [database, "all", {table: {"columns": [column]}}]))
        except RpcError as error:
            sys.exit(f"the server refuses: {error.message}")
        await session.wait_closed()


if len(sys.argv) != 5:
    sys.exit(__doc__)
asyncio.run(main(*sys.argv[1:]))
