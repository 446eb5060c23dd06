"""A search that sends what it finds while it searches, and a client that stops it early.

python examples/stream.py
"""

import asyncio
from collections.abc import AsyncIterator

from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import LspConvention, Session
from jsonrpc_fast.transports import memory_pair

handlers = Handlers()


@handlers.register("primes")
async def primes(below: int) -> AsyncIterator[int]:
    try:
        for number in range(2, below):
            if all(number % divisor for divisor in range(2, number)):
                await asyncio.sleep(0)  # work
                yield number
    finally:
        print("searched below", below)


async def main() -> None:
    here, there = memory_pair()
    convention = LspConvention()
    async with Session(there, handlers, convention=convention), Session(here, convention=convention) as client:
        async for prime in client.stream("primes", {"below": 1_000_000}):
            print(prime)
            if prime > 5:
                break
        print(await client.call("primes", {"below": 12}))


asyncio.run(main())
