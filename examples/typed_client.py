"""Results as dataclasses: one call, and a class whose methods are the calls. It needs the extra `typed`.

python examples/typed_client.py
"""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from jsonrpc_fast.errors import InvalidResponse
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import Session
from jsonrpc_fast.session.proxies import proxy
from jsonrpc_fast.transports import memory_pair


@dataclass
class Item:
    name: str
    price: float


class Shop(Protocol):
    async def find(self, words: list[str]) -> list[Item]: ...


class CornerShop:
    async def find(self, words: list[str]) -> list[Item]:
        return [Item(word, 2.5) for word in words]


async def main() -> None:
    handlers = Handlers()
    handlers.add(CornerShop(), Shop, prefix="shop.")
    here, there = memory_pair(raw=True)  # raw: a result is decoded once, to its type
    async with Session(there, handlers), Session(here) as session:
        items = await session.call("shop.find", {"words": ["tea"]}, returns=list[Item])
        print(items[0].name, items[0].price)
        print(await proxy(session, Shop, prefix="shop.").find(["salt", "rice"]))
        try:
            await session.call("shop.find", {"words": ["tea"]}, returns=list[str])
        except InvalidResponse as error:
            print(error)


asyncio.run(main())
