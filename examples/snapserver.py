"""A client of snapserver, which plays music in several rooms: it prints the rooms, and what others change.

python examples/snapserver.py 127.0.0.1 1705
"""

import asyncio
import sys
from functools import partial
from typing import Any

from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import TcpClient


def show(what: str, **event: Any) -> None:
    print(what, event, flush=True)


async def main(host: str, port: int) -> None:
    events = ("Client.OnConnect", "Client.OnDisconnect", "Client.OnVolumeChanged", "Group.OnNameChanged")
    handlers = {name: partial(show, name) for name in events}
    async with Session(TcpClient(host, port), handlers, timeout=10) as session:
        status = (await session.call("Server.GetStatus"))["server"]
        for stream in status["streams"]:
            show("stream", id=stream["id"], status=stream["status"])
        for group in status["groups"]:
            show("group", id=group["id"], clients=[client["host"]["name"] for client in group["clients"]])
        await session.wait_closed()


if len(sys.argv) != 3:
    sys.exit(__doc__)
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
