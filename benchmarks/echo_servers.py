"""The servers of `bench_transports` and `bench_serving`: each echoes the params of a request, on TCP, line by line.

    python -m benchmarks.echo_servers NAME [LOOP]

runs on the loop `asyncio` (the default) or `uvloop`. It prints its port and runs until it is killed. Each server is
written as a user of its library would write it. If a library has no transport, its server uses the protocol `Lines`,
which splits lines and writes all responses to a chunk at once.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

HOST: Final = "127.0.0.1"

FAST: Final = "jsonrpc_fast"
SESSION: Final = "session"
SESSION_ASYNC: Final = "session, async handler"
SESSION_WAITING: Final = "session, async handler that waits a turn"
BARE: Final = "bare asyncio.Protocol with orjson"
PJRPC: Final = "pjrpc"
AIORPCX: Final = "aiorpcX"
JSONRPCSERVER: Final = "jsonrpcserver"


class Lines(asyncio.Protocol):
    """A protocol that responds to each line. `reply` returns the response with its line feed."""

    def __init__(self, reply: Callable[[bytes], bytes]) -> None:
        self._reply = reply
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is not a subclass

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._transport.write(b"".join(map(self._reply, lines)))


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


def _port(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


async def fast() -> int:
    from jsonrpc_fast import Request, encode_result
    from jsonrpc_fast.transports import StreamTransport, TcpServer

    async def serve(transport: StreamTransport) -> None:
        send = transport.send

        def reply(message: Any) -> None:
            if isinstance(message, Request):
                send(encode_result(message.id, message.params))

        transport.onmessage = reply
        await transport.start()

    server = TcpServer(serve, HOST, 0)
    await server.start()
    port: int = server.address[1]
    _held.append(server)
    return port


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
    return _port(await asyncio.get_running_loop().create_server(Bare, HOST, 0))


async def pjrpc() -> int:
    import pjrpc.server

    def echo(name: str, arguments: Any) -> Any:
        return {"name": name, "arguments": arguments}

    methods = pjrpc.server.MethodRegistry()
    methods.add_method(echo, name="echo")
    dispatcher: Any = pjrpc.server.Dispatcher()
    dispatcher.add_methods(methods)

    def reply(line: bytes) -> bytes:
        text: str = dispatcher.dispatch(line.decode(), None)[0]
        return (text + "\n").encode()

    return _port(await asyncio.get_running_loop().create_server(lambda: Lines(reply), HOST, 0))


async def aiorpcx() -> int:
    import aiorpcx  # type: ignore[import-untyped]

    class Session(aiorpcx.RPCSession):  # type: ignore[misc]
        cost_hard_limit = 0  # it would slow down a client with many requests

        async def handle_request(self, request: Any) -> Any:
            return request.args

    return _port(await aiorpcx.serve_rs(Session, HOST, 0))


async def jsonrpcserver() -> int:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from jsonrpcserver import Result, Success, dispatch

    def echo(name: str, arguments: Any) -> Result:
        return Success({"name": name, "arguments": arguments})

    methods = {"echo": echo}

    def reply(line: bytes) -> bytes:
        text: str = dispatch(line.decode(), methods)
        return (text + "\n").encode()

    return _port(await asyncio.get_running_loop().create_server(lambda: Lines(reply), HOST, 0))


SERVERS: Final[dict[str, Callable[[], Awaitable[int]]]] = {
    FAST: fast,
    BARE: bare,
    PJRPC: pjrpc,
    AIORPCX: aiorpcx,
    JSONRPCSERVER: jsonrpcserver,
}
SESSIONS: Final[dict[str, Callable[[], Awaitable[int]]]] = {
    SESSION: session,
    SESSION_ASYNC: session_async,
    SESSION_WAITING: session_waiting,
}

_held: list[object] = []


async def main(name: str) -> None:
    print(await {**SERVERS, **SESSIONS}[name](), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[2:] == ["uvloop"]:
        import uvloop

        uvloop.run(main(sys.argv[1]))
    else:
        asyncio.run(main(sys.argv[1]))
