"""A server for browsers, over WebSocket. It needs the extra `websocket`.

python examples/websocket_server.py 8001
jsonrpc-fast call ws://127.0.0.1:8001/ add a=1 b=2
"""

import asyncio
import sys

from jsonrpc_fast.session import serving
from jsonrpc_fast.transports.websocket import WebSocketServer


async def main(port: int) -> None:
    serve = serving({"add": lambda a, b: a + b})
    server = WebSocketServer(serve, "127.0.0.1", port, origins=["http://localhost:3000"])  # pages that may connect
    await server.start()
    print("listening on port", server.address[1], flush=True)
    await asyncio.Event().wait()


if len(sys.argv) < 2:
    sys.exit(__doc__)
asyncio.run(main(int(sys.argv[1])))
