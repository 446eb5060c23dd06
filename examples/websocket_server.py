"""A server for browsers, over WebSocket. It needs the extra `websocket`.

python examples/websocket_server.py 8001
jsonrpc-fast call ws://127.0.0.1:8001/ add a=1 b=2
"""

import sys

from jsonrpc_fast.session import serving
from jsonrpc_fast.transports.websocket import WebSocketServer

if len(sys.argv) < 2:
    sys.exit(__doc__)
serve = serving({"add": lambda a, b: a + b})
origins = ["http://localhost:3000"]  # pages that may connect
sys.exit(WebSocketServer(serve, "127.0.0.1", int(sys.argv[1]), origins=origins).run())
