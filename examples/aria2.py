"""A client of aria2: it downloads files, and prints the events of the downloads. It needs the extra `websocket`.

aria2c --enable-rpc --rpc-secret=secret
python examples/aria2.py ws://127.0.0.1:6800/jsonrpc secret https://example.org/
"""

import asyncio
import sys
from functools import partial

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports.websocket import WebSocketClient


async def main(url: str, secret: str, addresses: list[str]) -> None:
    events: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def put(name: str, event: dict[str, str]) -> None:
        events.put_nowait((name, event["gid"]))

    # Only over WebSocket does aria2 send events.
    names = ("aria2.onDownloadStart", "aria2.onDownloadComplete", "aria2.onDownloadError")
    async with Session(WebSocketClient(url), {name: partial(put, name) for name in names}, timeout=30) as session:
        downloads = {}
        for address in addresses:
            try:
                gid = await session.call("aria2.addUri", [f"token:{secret}", [address]])
                downloads[gid] = address
            except RpcError as error:
                sys.exit(f"{error.code}: {error.message}")
        while downloads:
            name, gid = await events.get()
            print(name, downloads[gid], flush=True)
            if name != "aria2.onDownloadStart":
                del downloads[gid]


if len(sys.argv) < 4:
    sys.exit(__doc__)
asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
