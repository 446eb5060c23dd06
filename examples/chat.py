"""A chat over TCP: both sides call, and the server sends notifications to all clients.

python examples/chat.py 4000
jsonrpc-fast call --follow tcp://127.0.0.1:4000 join name=Ada
"""

import sys
from typing import Any

from jsonrpc_fast import RpcError
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import Session, SessionContext, broadcast
from jsonrpc_fast.transports import StreamTransport, TcpServer

members: dict[Any, str] = {}  # by session


async def join(context: SessionContext, name: str) -> list[str]:
    members[context.session] = name
    await tell(f"{name} joined")
    return sorted(members.values())


async def say(context: SessionContext, text: str) -> None:
    if context.session not in members:
        raise RpcError(1, "Join first")
    await tell(f"{members[context.session]}: {text}")


async def tell(text: str) -> None:
    await broadcast(members, "said", {"text": text})


handlers = Handlers({"join": join, "say": say})  # for all clients


async def serve(transport: StreamTransport) -> None:
    async with Session(transport, handlers) as session:
        await session.wait_closed()
        if name := members.pop(session, None):
            await tell(f"{name} left")


if len(sys.argv) < 2:
    sys.exit(__doc__)
sys.exit(TcpServer(serve, "127.0.0.1", int(sys.argv[1])).run())
