"""A client that reconnects when the server restarts, and repeats the calls that certainly did not run.

python examples/reconnect.py 127.0.0.1 4000
"""

import asyncio
import sys

from jsonrpc_fast import CallTimeout, ConnectionLost, RpcError
from jsonrpc_fast.session import ReconnectingSession
from jsonrpc_fast.transports import TcpClient


async def main(host: str, port: int) -> None:
    async with ReconnectingSession(lambda: TcpClient(host, port), max_delay_seconds=5, timeout=60) as session:
        for number in range(3):
            while True:
                try:
                    print(await session.call("add", [number, 1]), flush=True)
                    break
                except ConnectionLost as error:
                    if error.was_sent:  # "maybe": the server may have served it
                        print("lost:", error, flush=True)
                        break
                except (CallTimeout, RpcError) as error:
                    print("failed:", error, flush=True)
                    break
            await asyncio.sleep(0.2)


if len(sys.argv) < 3:
    sys.exit(__doc__)
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
