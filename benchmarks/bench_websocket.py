"""Compare the processor time of WebSocket clients: `python -m benchmarks.bench_websocket`.

All clients call the same echo server, which is a separate process and does not compress. The figure is the processor
time of this process for one call, until its result is a list of Python objects. The clients take turns, round by round,
and the best round is reported. With one call in flight, most of the time is spent in the system, which writes to and
reads from the socket. This part is equal for all clients.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import platform
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import jsonrpc_fast

from .tables import markdown

FAST: Final = "jsonrpc_fast"
BY_HAND: Final = "websockets and json by hand"
JSONRPC_WEBSOCKET: Final = "jsonrpc-websocket"
WEB3: Final = "web3's provider"

SMALL: Final[Any] = ["0x1b4", "latest"]
LARGE: Final[Any] = [
    {"blockNumber": hex(number), "data": f"0x{number:0128x}", "topics": [f"0x{number:064x}"], "removed": False}
    for number in range(310)
]
"""80 kB, similar to the logs of Ethereum."""

CASES: Final = (("small", SMALL, 1), ("small", SMALL, 64), ("80 kB", LARGE, 1), ("80 kB", LARGE, 8))
"""Name, params and number of calls in flight."""
BARS: Final = {"small": 1.9, "80 kB": 2.3}
"""The minimum processor time of the other clients, as a multiple of this package's."""

Call = Callable[[Any], Awaitable[Any]]
Seconds = dict[tuple[str, int, str], float]
"""Processor time of a call by case, calls in flight and client."""


def serve() -> None:
    """Run the echo server, which prints its port on stdout."""
    from jsonrpc_fast.session import Session
    from jsonrpc_fast.transports.websocket import WebSocketServer

    async def run() -> None:
        async def session(transport: Any) -> None:
            session = Session(transport, {"echo": lambda *params: params})
            await session.start()
            await session.wait_closed()

        server = WebSocketServer(session, "127.0.0.1", 0)
        await server.start()
        print(server.address[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    asyncio.run(run())


@contextlib.contextmanager
def running() -> Any:
    """Run the server, and yield its URI."""
    command = [sys.executable, "-m", "benchmarks.bench_websocket", "--serve"]
    folder = Path(__file__).parents[1]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder) as process:
        try:
            assert process.stdout is not None
            yield f"ws://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


@contextlib.asynccontextmanager
async def session(uri: str) -> AsyncIterator[Call]:
    from jsonrpc_fast.session import Session
    from jsonrpc_fast.transports.websocket import WebSocketClient

    async with Session(WebSocketClient(uri)) as session:
        yield lambda params: session.call("echo", params)


@contextlib.asynccontextmanager
async def by_hand(uri: str) -> AsyncIterator[Call]:
    """The code without a library: a future for each id, and a task that reads."""
    from websockets.asyncio.client import connect

    async with connect(uri, compression=None, max_size=None) as connection:
        pending: dict[int, asyncio.Future[Any]] = {}
        last = 0

        async def read() -> None:
            async for text in connection:
                response = json.loads(text)
                pending.pop(response["id"]).set_result(response["result"])

        async def call(params: Any) -> Any:
            nonlocal last
            last += 1
            future = pending[last] = asyncio.get_running_loop().create_future()
            await connection.send(json.dumps({"jsonrpc": "2.0", "id": last, "method": "echo", "params": params}))
            return await future

        reading = asyncio.ensure_future(read())
        try:
            yield call
        finally:
            reading.cancel()


@contextlib.asynccontextmanager
async def jsonrpc_websocket(uri: str) -> AsyncIterator[Call]:
    from jsonrpc_websocket import Server  # type: ignore[import-untyped]

    server = Server(uri)
    await server.ws_connect()
    try:
        yield lambda params: server.echo(*params)
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def web3_provider(uri: str) -> AsyncIterator[Call]:
    from web3 import AsyncWeb3, WebSocketProvider

    async with AsyncWeb3(WebSocketProvider(uri, websocket_kwargs={"compression": None, "max_size": None})) as web3:
        provider: Any = web3.provider

        async def call(params: Any) -> Any:
            return (await provider.make_request("echo", params))["result"]

        yield call


CLIENTS: Final[dict[str, Callable[[str], contextlib.AbstractAsyncContextManager[Call]]]] = {
    FAST: session,
    BY_HAND: by_hand,
    JSONRPC_WEBSOCKET: jsonrpc_websocket,
    WEB3: web3_provider,
}


async def time_calls(call: Call, params: Any, in_flight: int, calls: int) -> float:
    """Return the processor time of a call in seconds."""
    started = time.process_time()
    for _ in range(0, calls, in_flight):
        if in_flight == 1:
            await call(params)
        else:
            await asyncio.gather(*[call(params) for _ in range(in_flight)])
    return (time.process_time() - started) / calls


async def measure(uri: str, rounds: int, milliseconds: float) -> Seconds:
    """Measure all clients in turn. Each turn takes about `milliseconds`."""
    found: Seconds = {}
    async with contextlib.AsyncExitStack() as stack:
        clients = {name: await stack.enter_async_context(open_client(uri)) for name, open_client in CLIENTS.items()}
        for name, params, in_flight in CASES:
            for client, call in clients.items():
                if await call(params) != params:
                    raise RuntimeError(f"{client} returns a wrong result")
            cost = await time_calls(clients[BY_HAND], params, in_flight, 4 * in_flight)
            calls = max(1, int(milliseconds / 1000 / cost / in_flight)) * in_flight
            for number in range(1, rounds + 1):
                print(f"\r{name}, {in_flight} in flight, round {number} ", end="", file=sys.stderr, flush=True)
                for client, call in clients.items():
                    seconds = await time_calls(call, params, in_flight, calls)
                    key = name, in_flight, client
                    found[key] = min(found.get(key, float("inf")), seconds)
    print(file=sys.stderr)
    return found


def table(found: Seconds) -> str:
    """Return the figures as Markdown."""
    rows = [("call", "in flight", "client", "client's µs a call", f"times {FAST}", "bar", "reached")]
    for (name, in_flight, client), seconds in found.items():
        ratio = seconds / found[name, in_flight, FAST]
        bar, reached = "", ""
        if client != FAST:
            bar, reached = f"at least {BARS[name]}", "yes" if ratio >= BARS[name] else "**MISSED**"
        rows.append((name, str(in_flight), client, f"{seconds * 1e6:.1f}", f"{ratio:.2f}", bar, reached))
    return markdown(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_websocket",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=30, help="rounds of each case (default: %(default)s)")
    parser.add_argument("--milliseconds", type=float, default=50, help="a client's turn (default: %(default)s)")
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="asyncio")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return
    if jsonrpc_fast.BACKEND != "cython":
        raise SystemExit("the benchmarks measure the compiled core, which is not in use")
    if arguments.loop == "uvloop":
        import uvloop

        uvloop.install()
    with running() as uri:
        found = asyncio.run(measure(uri, arguments.rounds, arguments.milliseconds))
    print(f"## Calls over WebSocket, {arguments.loop}\n\n{table(found)}\n")
    for name in ("websockets", "jsonrpc-websocket", "web3", "orjson"):
        print(f"- {name}: {version(name)}")
    print(f"- {platform.python_implementation()}: {platform.python_version()}, {platform.system()}")


if __name__ == "__main__":
    main()
