"""What a connection costs, counted: bytes, objects and attributes. `python -m benchmarks.connections` has the table."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import sys
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import jsonrpc_fast
from jsonrpc_fast.session import Session, serving
from jsonrpc_fast.transports import TcpServer, UnixServer
from jsonrpc_fast.transports.websocket import WebSocketServer

from ..support import memory
from ..support.waiting import eventually, settle

REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}'
RESPONSE = b'{"jsonrpc":"2.0","id":1,"result":3}\n'
MASKED = b"\x81" + bytes([0x80 | len(REQUEST)]) + b"\0\0\0\0" + REQUEST
"""The request as a frame of a WebSocket, with a mask that changes nothing."""
HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


MOST_BYTES = 5000
"""What the package may allocate for an idle session."""


MOST_FRAMES = 145
"""How many Python functions of the package, except its codec, may be called for a connection and one request.

It is 123 with the core, and 140 or 141 with the pure backend: the loop decides when it hands over a waiting task.
"""


class Client:
    """A client of few objects, which has called once."""

    def __init__(self, kind: str, address: Any) -> None:
        self._kind = kind
        self._address = address

    async def __aenter__(self) -> None:
        if self._kind == "unix":
            reader, self._writer = await asyncio.open_unix_connection(self._address)
        else:
            reader, self._writer = await asyncio.open_connection(*self._address)
        if self._kind == "websocket":
            self._writer.write(HANDSHAKE)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
            self._writer.write(MASKED)
            assert (await reader.readexactly(len(RESPONSE) + 1))[2:] == RESPONSE[:-1]
        else:
            self._writer.write(REQUEST + b"\n")
            assert await reader.readline() == RESPONSE

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def served(kind: str, folder: Path) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server of sessions. Yield it with its address."""
    serve: Any = serving({"add": lambda a, b: a + b})
    server: Any
    if kind == "unix":
        server = UnixServer(serve, folder / "socket")
    else:
        server = (TcpServer if kind == "tcp" else WebSocketServer)(serve, "127.0.0.1", 0)
    await server.start()
    try:
        yield server, str(folder / "socket") if kind == "unix" else server.address
    finally:
        await server.close()


@pytest.mark.parametrize("kind", ["tcp", "unix", "websocket"])
async def test_a_connection_that_ends_leaves_no_cycle(kind: str, tmp_path: Path) -> None:
    async with served(kind, tmp_path) as (server, address):

        async def run(times: int) -> None:
            for _ in range(times):
                async with Client(kind, address):
                    pass
            await eventually(lambda: not server.connections)
            await asyncio.sleep(0)

        await run(3)
        memory.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            await run(10)
            gc.collect()
            found = {type(each).__name__ for each in gc.garbage if type(each).__module__.startswith("jsonrpc_fast")}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert found == set()


@pytest.mark.parametrize("kind", ["tcp", "unix", "websocket"])
async def test_a_served_connection_needs_no_task(kind: str, tmp_path: Path) -> None:
    async with served(kind, tmp_path) as (_, address):
        before = asyncio.all_tasks()
        async with Client(kind, address):
            assert asyncio.all_tasks() <= before


async def test_a_server_waits_for_a_handler_that_cleans_up_after_the_loss() -> None:
    is_running, may_end, is_clean = asyncio.Event(), asyncio.Event(), False

    async def work() -> None:
        nonlocal is_clean
        is_running.set()
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()
            is_clean = True

    serve: Any = serving({"work": work})
    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    client = socket.create_connection(server.address)
    client.sendall(b'{"jsonrpc":"2.0","id":1,"method":"work"}\n')
    await is_running.wait()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, not an end
    client.close()
    await eventually(lambda: not server.connections)
    assert not is_clean
    asyncio.get_running_loop().call_later(0.05, may_end.set)
    await server.close()
    assert is_clean


async def test_a_session_that_cannot_begin_ends_its_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served("unix", tmp_path) as (server, address):
        reports: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
        monkeypatch.setattr(Session, "_begin_accepted", lambda *_: 1 / 0)
        reader, writer = await asyncio.open_unix_connection(address)
        assert await reader.read() == b""
        writer.close()
        await eventually(lambda: not server.connections)
    assert [(each["message"], type(each["exception"])) for each in reports] == [
        ("exception in serve of a transport", ZeroDivisionError)
    ]


async def frames_of_a_connection(address: Any) -> int:
    """Return how many functions of the package, except its codec, are called for a connection and one request.

    It is the least of three connections: how many bytes arrive together decides on a few calls.
    """
    package = Path(jsonrpc_fast.__file__).parent
    entered: list[str] = []

    def count(frame: Any, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(package) and not path.is_relative_to(package / "codec"):
            entered.append(frame.f_code.co_qualname)

    async with Client("unix", address):
        pass
    await settle()
    counts = []
    for _ in range(3):
        entered.clear()
        sys.setprofile(count)
        try:
            async with Client("unix", address):
                pass
            await settle()
        finally:
            sys.setprofile(None)
        counts.append(len(entered))
    return min(counts)


async def test_a_connection_calls_few_functions(tmp_path: Path) -> None:
    """Each costs 1,500 instructions; asyncio itself calls about 300 for a connection."""
    async with served("unix", tmp_path) as (_, address):
        assert await frames_of_a_connection(address) <= MOST_FRAMES


async def test_an_idle_session_is_small(tmp_path: Path) -> None:
    async with served("unix", tmp_path) as (_, address), AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(Client("unix", address))
        memory.collect()
        tracemalloc.start()
        try:
            for _ in range(20):
                await stack.enter_async_context(Client("unix", address))
            package = str(Path(jsonrpc_fast.__file__).parent / "*")
            ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, package)])
        finally:
            tracemalloc.stop()
    # Without what asyncio allocates for both ends.
    assert sum(trace.size for trace in ours.traces) / 20 < MOST_BYTES


@pytest.mark.parametrize("kind", ["tcp", "unix", "websocket"])
async def test_no_object_of_a_conversation_has_keys_of_its_own(kind: str, tmp_path: Path) -> None:
    """CPython shares the keys of the instances of a class up to 30 attributes; beyond, each takes 1.5 KB."""
    async with served(kind, tmp_path) as (server, address), Client(kind, address):
        (connection,) = server._connections
        session = connection.onclose.__self__
        assert isinstance(session, Session)
        parts = (connection, connection.channel, connection.socket, session, session._driver)
        sizes = {type(part).__name__: len(vars(part)) for part in parts}
        assert not hasattr(session._engine, "__dict__")
    assert max(sizes.values()) <= 30, sizes


async def test_a_peer_is_served_before_those_that_flood_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after their next turns: in each of them, each of ten peers is served one request here."""
    monkeypatch.setattr("jsonrpc_fast.transports.connection.TURN_SECONDS", 0.0)
    served_requests = 0

    def flood() -> None:
        nonlocal served_requests
        served_requests += 1

    serve: Any = serving({"flood": flood, "add": lambda a, b: a + b})
    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    writers = []
    for _ in range(10):
        _, writer = await asyncio.open_connection(*server.address)
        writer.write(b'{"jsonrpc":"2.0","id":1,"method":"flood"}\n' * 300)
        writers.append(writer)
    reader, writer = await asyncio.open_connection(*server.address)
    writers.append(writer)
    await eventually(lambda: served_requests > 50)
    before = served_requests
    writer.write(REQUEST + b"\n")
    assert await reader.readline() == RESPONSE
    assert served_requests - before <= 20
    assert served_requests < 3000
    for each in writers:
        each.transport.abort()
    await server.close()
