"""A worker of NATS; several of them share the calls. With `call` it is a client. It needs the extra `nats`.

python examples/nats_worker.py nats://127.0.0.1:4222
python examples/nats_worker.py nats://127.0.0.1:4222 call 1 2
"""

import asyncio
import os
import sys

import nats

from jsonrpc_fast.adapters.nats import Service, ServiceClient

SUBJECT = "rpc.sums"


async def add(a: int, b: int) -> dict[str, int]:
    await asyncio.sleep(0.1)
    return {"sum": a + b, "worker": os.getpid()}


async def main(url: str, numbers: list[str]) -> None:
    connection = await nats.connect(url, max_reconnect_attempts=-1)
    if numbers:
        client = ServiceClient(connection, SUBJECT, timeout=10)
        print(await client.call("add", [int(number) for number in numbers]))
        await connection.close()
        return
    async with Service(connection, SUBJECT, {"add": add}, timeout=30, max_handlers=100):
        print("serving", SUBJECT, flush=True)
        await asyncio.Event().wait()


if len(sys.argv) < 2:
    sys.exit(__doc__)
asyncio.run(main(sys.argv[1], sys.argv[3:]))
