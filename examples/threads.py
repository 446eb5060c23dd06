"""Threads that make calls through one session, which belongs to the event loop of another thread.

python examples/threads.py python examples/server.py
"""

import asyncio
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import StdioClient


async def hold(command: list[str], ready: Future[Session], done: threading.Event) -> None:
    async with Session(StdioClient(command)) as session:
        ready.set_result(session)
        await asyncio.to_thread(done.wait)


def main(command: list[str]) -> None:
    ready: Future[Session] = Future()
    done = threading.Event()
    loop = threading.Thread(target=lambda: asyncio.run(hold(command, ready, done)))
    loop.start()
    session = ready.result(timeout=30)
    with ThreadPoolExecutor(4) as pool:
        sums = pool.map(lambda number: session.call_threadsafe("add", [number, 1]).result(timeout=30), range(10))
    print(list(sums))
    done.set()
    loop.join()


if len(sys.argv) < 2:
    sys.exit(__doc__)
main(sys.argv[1:])
