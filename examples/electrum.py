"""A client of an Electrum server: it prints the server's software, and the height of the chain as it grows.

python examples/electrum.py 127.0.0.1 50001 3
python examples/electrum.py electrum.example.org 50002 3
"""

import asyncio
import ssl
import sys
from typing import Any

from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import TcpClient

TLS_PORT = 50002


async def main(host: str, port: int, blocks: int) -> None:
    headers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    # The server announces a block by a notification with the name of the method that subscribes.
    handlers = {"blockchain.headers.subscribe": headers.put_nowait}
    transport = TcpClient(host, port, ssl=ssl.create_default_context() if port == TLS_PORT else None)
    async with Session(transport, handlers, timeout=30) as session:
        software, protocol = await session.call("server.version", ["example", "1.4"])
        print(software, protocol, flush=True)
        tip = await session.call("blockchain.headers.subscribe")
        print(tip["height"], flush=True)
        for _ in range(blocks):
            print((await headers.get())["height"], flush=True)


if len(sys.argv) < 4:
    sys.exit(__doc__)
asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
