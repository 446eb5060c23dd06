"""A document whose changes are made in the order of arrival, however long each takes.

python examples/order.py
"""

import asyncio

from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import memory_pair

handlers = Handlers()
words: list[str] = []


@handlers.register("write", ordered=True)
async def write(word: str) -> None:
    await asyncio.sleep(0.1 / len(word))  # a short word takes longer
    words.append(word)


@handlers.register("read")
async def read() -> str:
    return " ".join(words)


async def main() -> None:
    here, there = memory_pair()
    async with Session(there, handlers), Session(here) as client:
        for word in ("a", "longer", "text"):
            await client.notify("write", [word])
        print(await client.call("read"))


asyncio.run(main())
