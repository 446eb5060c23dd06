"""A program without an event loop, whose threads call through one session.

python examples/threads.py python examples/server.py
"""

import sys
from concurrent.futures import ThreadPoolExecutor

from jsonrpc_fast.session import blocking
from jsonrpc_fast.transports import StdioClient

if len(sys.argv) < 2:
    sys.exit(__doc__)
with blocking(StdioClient(sys.argv[1:]), timeout=30) as client, ThreadPoolExecutor(4) as pool:
    print(list(pool.map(lambda number: client.call("add", [number, 1]), range(10))))
