"""The servers of `bench_serving`: each echoes the params of a request, on TCP, line by line.

    python -m benchmarks.echo_servers NAME [LOOP]

runs on the loop `asyncio` (the default) or `uvloop`. It prints its port and runs until it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

HOST: Final = "127.0.0.1"

SESSION: Final = "session"
SESSION_ASYNC: Final = "session, async handler"
SESSION_WAITING: Final = "session, async handler that waits a turn"
BARE: Final = "bare asyncio.Protocol with orjson"


class Bare(asyncio.Protocol):
    """The minimum that works: it checks nothing, and calls no handler."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        from orjson import OPT_APPEND_NEWLINE, dumps, loads

        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is not a subclass
        self._rest = b""
        self._loads, self._dumps, self._option = loads, dumps, OPT_APPEND_NEWLINE

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        loads, dumps, option = self._loads, self._dumps, self._option
        self._transport.write(
            b"".join(
                [
                    dumps({"jsonrpc": "2.0", "id": request["id"], "result": request["params"]}, option=option)
                    for request in map(loads, lines)
                ]
            )
        )


async def _session(handler: Callable[..., Any]) -> int:
    from jsonrpc_fast.session import Session
    from jsonrpc_fast.transports.stream import StreamTransport, TcpServer

    async def serve(transport: StreamTransport) -> None:
        async with Session(transport, {"echo": handler}) as session:
            await session.wait_closed()

    server = TcpServer(serve, HOST, 0)
    await server.start()
    port: int = server.address[1]
    _held.append(server)
    return port


async def session() -> int:
    def echo(name: str, arguments: Any) -> Any:
        return {"name": name, "arguments": arguments}

    return await _session(echo)


async def session_async() -> int:
    async def echo(name: str, arguments: Any) -> Any:
        return {"name": name, "arguments": arguments}

    return await _session(echo)


async def session_waiting() -> int:
    async def echo(name: str, arguments: Any) -> Any:
        await asyncio.sleep(0)
        return {"name": name, "arguments": arguments}

    return await _session(echo)


async def bare() -> int:
    server = await asyncio.get_running_loop().create_server(Bare, HOST, 0)
    port: int = server.sockets[0].getsockname()[1]
    return port


SERVERS: Final[dict[str, Callable[[], Awaitable[int]]]] = {
    BARE: bare,
    SESSION: session,
    SESSION_ASYNC: session_async,
    SESSION_WAITING: session_waiting,
}

_held: list[object] = []


async def main(name: str) -> None:
    print(await SERVERS[name](), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[2:] == ["uvloop"]:
        import uvloop

        uvloop.run(main(sys.argv[1]))
    else:
        asyncio.run(main(sys.argv[1]))
