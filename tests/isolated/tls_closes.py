"""Close TLS connections while both sides send, and count the closes at which a message is lost.

    python -m tests.isolated.tls_closes --closes 10000 [--loop uvloop]

One side sends 200 messages and closes; the other one sends all the time, and begins to read a little later. All 200
must arrive. The sides take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ssl
import time
from collections import Counter
from typing import Any

from jsonrpc_fast import Notification
from jsonrpc_fast.errors import ConnectionLost
from jsonrpc_fast.transports import TcpClient, TcpServer

from ..support import loops
from ..support.certificates import contexts

MESSAGES = 200
PADDING = "x" * 5000
AT_A_TIME = 8
REST_SECONDS = 0.02
"""How long a side does not read, so that what is sent to it waits in the system."""


async def close_many_times(closes: int, server_context: ssl.SSLContext, client_context: ssl.SSLContext) -> int:
    """Return at how many of `closes` a message was lost."""
    received: Counter[int] = Counter()

    def rest(transport: Any) -> None:
        transport.pause_reading()
        asyncio.get_running_loop().call_later(REST_SECONDS, transport.resume_reading)

    async def burst(transport: Any, number: int) -> None:
        for _ in range(MESSAGES):
            transport.send(Notification("burst", [number, PADDING]))
        await transport.close()

    async def noise(transport: Any) -> None:
        with contextlib.suppress(ConnectionLost):
            while True:
                transport.send(Notification("noise", [PADDING]))
                await transport.drain()
                await asyncio.sleep(0)

    async def serve(transport: Any) -> None:
        first: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def receive(message: Any) -> None:
            if message.method == "burst":
                received[message.params[0]] += 1
            elif message.method == "begin":
                first.set_result(message.params)

        transport.onmessage = receive
        await transport.start()
        number, server_closes = await first
        rest(transport)
        await (burst(transport, number) if server_closes else noise(transport))
        await transport.wait_closed()

    server = TcpServer(serve, "127.0.0.1", 0, ssl=server_context)
    await server.start()
    slots = asyncio.Semaphore(AT_A_TIME)

    async def connect(number: int) -> None:
        async with slots:
            client = TcpClient("127.0.0.1", server.address[1], ssl=client_context)

            def receive(message: Any) -> None:
                if message.method == "burst":
                    received[message.params[0]] += 1

            client.onmessage = receive
            await client.start()
            server_closes = number % 2 == 0
            client.send(Notification("begin", [number, server_closes]))
            rest(client)
            await (noise(client) if server_closes else burst(client, number))
            await client.wait_closed()

    await asyncio.gather(*[connect(number) for number in range(closes)])
    await server.close()
    return sum(received[number] != MESSAGES for number in range(closes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--closes", type=int, default=10_000)
    parser.add_argument("--loop", choices=loops.LOOPS, default="asyncio")
    options = parser.parse_args()
    started = time.monotonic()
    with loops.running_on(options.loop):
        lost = asyncio.run(close_many_times(options.closes, *contexts()))
    print(f"{options.closes} closes, {lost} with a loss, {time.monotonic() - started:.1f} s")
    raise SystemExit(bool(lost))


if __name__ == "__main__":
    main()
