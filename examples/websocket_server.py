"""A server for browsers, over WebSocket. It needs the extra `websocket`.

python examples/websocket_server.py 8001
jsonrpc-fast call ws://127.0.0.1:8001/ add a=1 b=2
"""

import asyncio
import sys

from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import Transport
from jsonrpc_fast.transports.websocket import WebSocketServer


async def serve(transport: Transport) -> None:
    async with Session(transport, {"add": lambda a, b: a + b}) as session:
        await session.wait_closed()


async def main(port: int) -> None:
    server = WebSocketServer(serve, "127.0.0.1", port, origins=["http://localhost:3000"])  # pages that may connect
    await server.start()
    print("listening on port", server.address[1], flush=True)
    await asyncio.Event().wait()


if len(sys.argv) < 2:
    sys.exit(__doc__)
asyncio.run(main(int(sys.argv[1])))
