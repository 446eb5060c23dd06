"""A client that starts a program and calls it.

python examples/client.py python examples/server.py
"""

import asyncio
import sys

from jsonrpc_fast import CallTimeout, ConnectionLost, RpcError
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import StdioClient


async def main(command: list[str]) -> None:
    async with Session(StdioClient(command)) as session:
        print("1 + 2 =", await session.call("add", [1, 2], timeout=10))
        try:
            await session.call("divide", [1, 0], timeout=10)
        except RpcError as error:  # the server responded with an error
            print("error", error.code, error.message)
        except (CallTimeout, ConnectionLost) as error:  # it did not respond
            print("no response:", error)


if len(sys.argv) < 2:
    sys.exit(__doc__)
asyncio.run(main(sys.argv[1:]))
