"""A client of a mining pool (Stratum): it prints the jobs, and why the pool refuses a share.

python examples/stratum.py pool.example.org 3333 worker password
"""

import asyncio
import sys
from typing import Any

from jsonrpc_fast import JSONRPC_1
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import TcpClient


async def main(host: str, port: int, worker: str, password: str) -> None:
    jobs: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()
    handlers = {"mining.notify": lambda *job: jobs.put_nowait(job), "mining.set_difficulty": lambda difficulty: None}
    # JSON-RPC 1.0: errors are arrays, and notifications have a null id.
    async with Session(TcpClient(host, port, profile=JSONRPC_1), handlers, timeout=30) as session:
        _, _, size = await session.call("mining.subscribe", ["example/1.0"])
        if not await session.call("mining.authorize", [worker, password]):
            sys.exit("the pool does not know the worker")
        while True:
            job, *_, time, _clean = await jobs.get()
            print("job", job, "at", time, flush=True)
            # A miner looks for a nonce here. This share is not valid.
            try:
                await session.call("mining.submit", [worker, job, "00" * size, time, "00000000"])
            except RpcError as error:
                code, text, _ = error.data
                print("refused:", code, text, flush=True)


if len(sys.argv) != 5:
    sys.exit(__doc__)
asyncio.run(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
