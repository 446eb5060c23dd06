"""Clients that call all the time while servers stop and others take their ports."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from typing import Any

import pytest

from jsonrpc_fast.session import ReconnectingSession, Session
from jsonrpc_fast.transports import TcpClient, TcpServer
from jsonrpc_fast.transports.websocket import WebSocketClient, WebSocketServer

from ..support.waiting import eventually, settle

pytestmark = pytest.mark.usefixtures("each_loop")


@pytest.mark.parametrize("kind", ["tcp", "websocket"])
async def test_a_restart_loses_no_call(kind: str) -> None:
    """A server stops, and another one takes its port, while clients call all the time."""
    served: Counter[int] = Counter()
    numbers = itertools.count()
    is_over = False

    async def work(number: int) -> int:
        served[number] += 1
        await settle(10)
        return number

    async def serve(transport: Any) -> None:
        async with Session(transport, {"work": work}) as session:
            await session.wait_closed()

    async def call(client: ReconnectingSession) -> None:
        while not is_over:
            number = next(numbers)
            assert await client.call("work", [number], timeout=20) == number

    async def start(port: int) -> Any:
        server = (TcpServer if kind == "tcp" else WebSocketServer)(serve, "127.0.0.1", port)
        await server.start()
        return server

    def connect() -> Any:
        return TcpClient("127.0.0.1", port) if kind == "tcp" else WebSocketClient(f"ws://127.0.0.1:{port}/")

    server = await start(0)
    port = server.address[1]
    async with contextlib.AsyncExitStack() as stack:
        clients = [ReconnectingSession(connect, min_delay_seconds=0.001, max_delay_seconds=0.01) for _ in range(3)]
        for client in clients:
            await stack.enter_async_context(client)
        calls = [asyncio.ensure_future(call(client)) for client in clients for _ in range(10)]
        closings = []
        for count in (50, 100, 150):
            await eventually(lambda count=count: len(served) > count)  # type: ignore[misc]
            server.stop_accepting()
            closings.append(asyncio.ensure_future(server.close()))
            server = await start(port)
        await eventually(lambda: len(served) > 200)
        is_over = True
        await asyncio.gather(*calls, *closings)
    await server.close()
    assert served == Counter(range(len(served)))
