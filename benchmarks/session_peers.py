"""The contestants of `bench_sessions`: a client and a server of one library, in one loop, over memory or TCP.

Each contestant is an async context manager that yields a function. The function calls the method `add` and returns an
object with the sum. The handler of each server is a plain function, or the closest equivalent in the library.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp.web
import aiorpcx  # type: ignore[import-untyped]
import anyio
import mcp.server.stdio
import mcp.shared.jsonrpc_dispatcher
import mcp.shared.memory
import pjrpc
import pjrpc.client.backend.aiohttp
import pjrpc.server.integration.aiohttp
import pygls.client
import pygls.io_
import pygls.protocol
import pygls.server

from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import memory_pair
from jsonrpc_fast.transports.stream import StreamTransport, TcpClient, TcpServer

Call = Callable[[int, int], Awaitable[Any]]
HOST: Final = "127.0.0.1"

OURS: Final = "jsonrpc_fast"
OURS_ASYNC: Final = "jsonrpc_fast, async handler"
PYGLS: Final = "pygls"
PJRPC: Final = "pjrpc"
PJRPC_DIRECT: Final = "pjrpc, no channel between"
AIORPCX: Final = "aiorpcX"
MCP: Final = "MCP SDK"


@dataclass(frozen=True)
class Contestant:
    name: str
    channel: str
    open: Callable[[], AbstractAsyncContextManager[Call]]


def add(a: int, b: int) -> dict[str, int]:
    return {"sum": a + b}


async def add_async(a: int, b: int) -> dict[str, int]:
    return {"sum": a + b}


# jsonrpc_fast


@contextlib.asynccontextmanager
async def ours_over_memory(handler: Callable[[int, int], Any] = add) -> AsyncIterator[Call]:
    one, other = memory_pair()
    async with Session(other, {"add": handler}), Session(one) as client:
        yield lambda a, b: client.call("add", {"a": a, "b": b})


@contextlib.asynccontextmanager
async def ours_over_tcp(handler: Callable[[int, int], Any] = add) -> AsyncIterator[Call]:
    async def serve(transport: StreamTransport) -> None:
        async with Session(transport, {"add": handler}) as session:
            await session.wait_closed()

    server = TcpServer(serve, HOST, 0)
    await server.start()
    async with Session(TcpClient(HOST, server.address[1])) as client:
        yield lambda a, b: client.call("add", {"a": a, "b": b})
    await server.close()


# pygls: both ends read an asyncio.StreamReader, like its own start_tcp.


class PipeEnd:
    """A writer for pygls that feeds the reader of the other end in the next turn of the loop."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def write(self, data: bytes) -> None:
        asyncio.get_running_loop().call_soon(self._reader.feed_data, data)

    def close(self) -> None:
        self._reader.feed_eof()


def pygls_server() -> pygls.server.JsonRPCServer:
    server = pygls.server.JsonRPCServer(pygls.protocol.JsonRPCProtocol, pygls.protocol.default_converter)

    @server.feature("add")
    def serve(params: Any) -> dict[str, int]:
        return add(params.a, params.b)

    return server


async def run_pygls(protocol: Any, reader: asyncio.StreamReader, writer: Any) -> None:
    protocol.set_writer(writer)
    await pygls.io_.run_async(threading.Event(), reader, protocol)


def pygls_call(protocol: Any) -> Call:
    return lambda a, b: protocol.send_request_async("add", {"a": a, "b": b})


@contextlib.asynccontextmanager
async def pygls_over_memory() -> AsyncIterator[Call]:
    server, client = pygls_server(), pygls.client.JsonRPCClient()
    readers = asyncio.StreamReader(), asyncio.StreamReader()
    tasks = [
        asyncio.create_task(run_pygls(end.protocol, reader, PipeEnd(other)))
        for end, reader, other in ((server, readers[0], readers[1]), (client, readers[1], readers[0]))
    ]
    await asyncio.sleep(0)
    yield pygls_call(client.protocol)
    for reader in readers:
        reader.feed_eof()
    await asyncio.gather(*tasks)


@contextlib.asynccontextmanager
async def pygls_over_tcp() -> AsyncIterator[Call]:
    server: Any = pygls_server()
    client: Any = pygls.client.JsonRPCClient()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await run_pygls(server.protocol, reader, writer)
        writer.close()

    listener = await asyncio.start_server(serve, HOST, 0)
    await client.start_tcp(HOST, listener.sockets[0].getsockname()[1])
    yield pygls_call(client.protocol)
    client.protocol.writer.close()
    await client.stop()
    listener.close()
    await listener.wait_closed()


# aiorpcX


class AioRpcxSession(aiorpcx.RPCSession):  # type: ignore[misc]
    cost_hard_limit = 0  # it would slow down a client with many requests

    async def handle_request(self, request: Any) -> Any:
        return await aiorpcx.handler_invocation(add_async, request)()


class MemoryChannel(asyncio.Transport):
    """A transport for aiorpcX that reaches the protocol of the other end in the next turn of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.other: Any = None
        self._is_closed = False

    def write(self, data: Any) -> None:
        asyncio.get_running_loop().call_soon(self.other.data_received, data)

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            asyncio.get_running_loop().call_soon(self.other.connection_lost, None)


@contextlib.asynccontextmanager
async def aiorpcx_over_memory() -> AsyncIterator[Call]:
    kinds = aiorpcx.SessionKind.SERVER, aiorpcx.SessionKind.CLIENT
    server, client = [aiorpcx.rawsocket.RSTransport(AioRpcxSession, None, kind) for kind in kinds]
    for end, other in ((server, client), (client, server)):
        channel = MemoryChannel()
        channel.other = other
        end.connection_made(channel)
    yield lambda a, b: client.session.send_request("add", {"a": a, "b": b})
    await asyncio.gather(client.session.close(), server.session.close())


@contextlib.asynccontextmanager
async def aiorpcx_over_tcp() -> AsyncIterator[Call]:
    listener = await aiorpcx.serve_rs(AioRpcxSession, HOST, 0)
    port = listener.sockets[0].getsockname()[1]
    async with aiorpcx.connect_rs(HOST, port, session_factory=AioRpcxSession) as client:
        yield lambda a, b: client.send_request("add", {"a": a, "b": b})
    listener.close()


# The only persistent connection that pjrpc supports is AMQP. Here a queue replaces it in memory, and HTTP with
# keep-alive replaces it over TCP.

PJRPC_METHODS: Final = pjrpc.server.MethodRegistry()
PJRPC_METHODS.add("add")(add_async)


class PjrpcClient(pjrpc.client.AbstractAsyncClient):
    def __init__(self, exchange: Callable[[str], Awaitable[str]]) -> None:
        super().__init__()
        self._exchange = exchange

    async def _request(self, request_text: str, is_notification: bool, request_kwargs: Any) -> str:
        return await self._exchange(request_text)


def pjrpc_dispatcher() -> Callable[[str], Awaitable[str]]:
    dispatcher: pjrpc.server.AsyncDispatcher[None] = pjrpc.server.AsyncDispatcher()
    dispatcher.add_methods(PJRPC_METHODS)

    async def dispatch(text: str) -> str:
        reply = await dispatcher.dispatch(text, context=None)
        return "" if reply is None else reply[0]

    return dispatch


@contextlib.asynccontextmanager
async def pjrpc_direct() -> AsyncIterator[Call]:
    client = PjrpcClient(pjrpc_dispatcher())
    yield lambda a, b: client("add", a=a, b=b)


@contextlib.asynccontextmanager
async def pjrpc_over_memory() -> AsyncIterator[Call]:
    queue: asyncio.Queue[tuple[str, asyncio.Future[str]]] = asyncio.Queue()
    dispatch = pjrpc_dispatcher()

    async def serve() -> None:
        while True:
            text, reply = await queue.get()
            reply.set_result(await dispatch(text))

    async def exchange(text: str) -> str:
        reply: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        queue.put_nowait((text, reply))
        return await reply

    client, server = PjrpcClient(exchange), asyncio.create_task(serve())
    yield lambda a, b: client("add", a=a, b=b)
    server.cancel()
    await asyncio.wait([server])


@contextlib.asynccontextmanager
async def pjrpc_over_tcp() -> AsyncIterator[Call]:
    application = pjrpc.server.integration.aiohttp.Application("/rpc")
    application.add_methods(PJRPC_METHODS)
    runner = aiohttp.web.AppRunner(application.http_app, access_log=None)
    await runner.setup()
    site = aiohttp.web.TCPSite(runner, HOST, 0)
    await site.start()
    port = runner.addresses[0][1]
    async with pjrpc.client.backend.aiohttp.Client(f"http://{HOST}:{port}/rpc") as client:
        yield lambda a, b: client("add", a=a, b=b)
    await runner.cleanup()


# The MCP SDK: the dispatcher below its ClientSession and ServerSession, over its memory streams, which carry objects
# and not bytes, and over its stdio transport, whose files are a TCP connection here.


async def mcp_serve(context: Any, method: str, params: Any) -> dict[str, int]:
    return add(params["a"], params["b"])


async def mcp_ignore(context: Any, method: str, params: Any) -> None:
    pass


@contextlib.asynccontextmanager
async def mcp_between(server_streams: Any, client_streams: Any) -> AsyncIterator[Call]:
    server, client = [
        mcp.shared.jsonrpc_dispatcher.JSONRPCDispatcher(*streams) for streams in (server_streams, client_streams)
    ]
    async with anyio.create_task_group() as group:
        for dispatcher in (server, client):
            await group.start(functools.partial(dispatcher.run, mcp_serve, mcp_ignore))
        yield lambda a, b: client.send_raw_request("add", {"a": a, "b": b})
        group.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def mcp_over_memory() -> AsyncIterator[Call]:
    async with (
        mcp.shared.memory.create_client_server_memory_streams() as (client_streams, server_streams),
        mcp_between(server_streams, client_streams) as call,
    ):
        yield call


class TextFile:
    """A TCP connection as a text file, for the stdio transport."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def __aiter__(self) -> TextFile:
        return self

    async def __anext__(self) -> str:
        line = await self._reader.readline()
        if not line:
            raise StopAsyncIteration
        return line.decode()

    async def write(self, text: str) -> None:
        self._writer.write(text.encode())

    async def flush(self) -> None:
        await self._writer.drain()


@contextlib.asynccontextmanager
async def mcp_over_tcp() -> AsyncIterator[Call]:
    accepted: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    accepted = asyncio.get_running_loop().create_future()
    listener = await asyncio.start_server(lambda *streams: accepted.set_result(streams), HOST, 0)
    ends = [await asyncio.open_connection(HOST, listener.sockets[0].getsockname()[1]), await accepted]
    files: list[Any] = [TextFile(*end) for end in ends]
    async with (
        mcp.server.stdio.stdio_server(files[0], files[0]) as client_streams,
        mcp.server.stdio.stdio_server(files[1], files[1]) as server_streams,
        mcp_between(server_streams, client_streams) as call,
    ):
        yield call
        for _, writer in ends:
            writer.close()
    listener.close()


CONTESTANTS: Final = [
    Contestant(OURS, "memory", ours_over_memory),
    Contestant(OURS_ASYNC, "memory", functools.partial(ours_over_memory, add_async)),
    Contestant(PYGLS, "memory", pygls_over_memory),
    Contestant(PJRPC, "memory", pjrpc_over_memory),
    Contestant(PJRPC_DIRECT, "memory", pjrpc_direct),
    Contestant(AIORPCX, "memory", aiorpcx_over_memory),
    Contestant(MCP, "memory", mcp_over_memory),
    Contestant(OURS, "TCP", ours_over_tcp),
    Contestant(OURS_ASYNC, "TCP", functools.partial(ours_over_tcp, add_async)),
    Contestant(PYGLS, "TCP", pygls_over_tcp),
    Contestant(PJRPC, "TCP", pjrpc_over_tcp),
    Contestant(AIORPCX, "TCP", aiorpcx_over_tcp),
    Contestant(MCP, "TCP", mcp_over_tcp),
]


def is_right(result: Any, expected: int) -> bool:
    """Return whether the result of a call, a dict or an object of the library, has the expected sum."""
    found = result["sum"] if isinstance(result, dict) else result.sum
    return bool(found == expected)
