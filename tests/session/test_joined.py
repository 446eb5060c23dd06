"""Features together: calls with progress and subscriptions, over connections that are lost and servers that stop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from typing import Any

import pytest

from jsonrpc_fast.errors import ConnectionLost
from jsonrpc_fast.session import (
    Gap,
    Goodbye,
    LspConvention,
    ReconnectingSession,
    Session,
    SessionContext,
    Subscriptions,
)
from jsonrpc_fast.transports import TcpClient, TcpServer
from jsonrpc_fast.transports.websocket import WebSocketClient, WebSocketServer

from ..support.ledger import Ledger
from ..support.waiting import eventually, settle

pytestmark = pytest.mark.usefixtures("each_loop")

NUMBERS = 60
ROUND = 10
"""After as many numbers the connection is lost or the server stops, in turn. Half a round later all is well again."""


class Feed:
    """Servers, one after the other, that publish the numbers from 0 to everybody, and know the earlier ones."""

    def __init__(self) -> None:
        self.published = 0
        self.served: Counter[int] = Counter()
        self.subscribed: set[Session] = set()
        self.connections: list[Session] = []
        self.server: TcpServer | None = None

    async def start(self) -> None:
        port = 0 if self.server is None else self.port
        self.server = TcpServer(self._serve, "127.0.0.1", port)
        await self.server.start()
        self.port = self.server.address[1]

    async def _serve(self, transport: Any) -> None:
        handlers = {
            "eth_subscribe": self._subscribe,
            "eth_unsubscribe": lambda _: True,
            "history": lambda first: list(range(first, self.published)),
            "work": self._work,
        }
        async with Session(transport, handlers, convention=Feeding()) as session:
            self.connections.append(session)
            await session.wait_closed()
            self.subscribed.discard(session)

    def _subscribe(self, context: SessionContext, kind: str) -> str:
        assert isinstance(context.session, Session)
        self.subscribed.add(context.session)
        return "0x1"  # the same one in each connection

    async def _work(self, context: SessionContext, number: int, workDoneToken: Any = None) -> int:
        self.served[number] += 1
        for step in range(5):
            context.report_progress(step)
            await settle(3)
        return number

    async def publish(self) -> None:
        number, self.published = self.published, self.published + 1
        for session in self.subscribed:
            with contextlib.suppress(ConnectionLost):
                session.notify_soon("eth_subscription", {"subscription": "0x1", "result": number})


class Feeding(LspConvention):
    """LSP's progress, and a goodbye."""

    methods = LspConvention.methods | {"$/goodbye"}

    def goodbye(self, last: Any) -> Any:
        return "$/goodbye", {"last": last}

    def read(self, method: str, params: Any) -> Any:
        return Goodbye(params["last"]) if method == "$/goodbye" else super().read(method, params)


async def test_a_reader_misses_nothing_and_each_call_settles_once() -> None:
    feed, ledger = Feed(), Ledger(OSError)
    await feed.start()
    told: list[str] = []

    async def connected(session: Session) -> None:
        told.append("connected")
        session.register("mine", lambda: len(told))

    make = lambda: TcpClient("127.0.0.1", feed.port)  # noqa: E731
    client = ReconnectingSession(
        make,
        convention=Feeding(),
        hooks=ledger,
        on_connect=connected,
        on_disconnect=lambda _: told.append("disconnected"),
        heartbeat_seconds=5,
        min_delay_seconds=0.001,
        max_delay_seconds=0.01,
    )
    gaps = 0
    outcomes: Counter[str] = Counter()
    progress: Counter[int] = Counter()

    async def history(first: int) -> list[int]:
        while True:
            try:
                return list(await client.call("history", [first]))
            except ConnectionLost:
                pass

    async def read() -> list[int]:
        nonlocal gaps
        read: list[int] = []
        async for item in await subscriptions.subscribe("numbers"):
            if isinstance(item, Gap):
                gaps += 1
                found = await history(len(read))
            else:
                found = [item]
            read += [number for number in found if number >= len(read)]
            if len(read) == NUMBERS:
                break
        return read

    async def work(number: int) -> None:
        def on_progress(step: int) -> None:
            progress[number] += 1

        try:
            params = {"number": number}
            assert await client.call("work", params, on_progress=on_progress, idle_timeout=10) == number
            outcomes["answered"] += 1
        except ConnectionLost as loss:
            outcomes[f"lost, was sent: {loss.was_sent}"] += 1

    async with client:
        subscriptions = Subscriptions(client)
        reading = asyncio.ensure_future(read())
        await eventually(lambda: feed.subscribed)
        calls = []
        for number in range(1, NUMBERS + 1):
            await feed.publish()
            calls += [asyncio.ensure_future(work(2 * number)), asyncio.ensure_future(work(2 * number + 1))]
            await settle(10)
            ended = number // ROUND
            if number % ROUND == ROUND // 2:
                # The reader has fallen behind, and has caught up. A busy machine must not lose two connections at once.
                await eventually(lambda ended=ended: gaps == ended and feed.subscribed)  # type: ignore[misc]
                await asyncio.gather(*calls)
            elif number % ROUND == 0 and number < NUMBERS:
                if ended % 2:
                    await feed.connections[-1].close(0)
                else:
                    assert feed.server is not None
                    stopped = feed.server
                    stopped.stop_accepting()
                    await feed.start()
                    calls.append(asyncio.ensure_future(stopped.close()))
        assert await reading == list(range(NUMBERS))
        await asyncio.gather(*calls)
    assert feed.server is not None
    await feed.server.close()
    assert outcomes.total() == 2 * NUMBERS
    losses = NUMBERS // ROUND - 1
    assert gaps == losses
    assert set(outcomes) <= {"answered", "lost, was sent: maybe"}
    # Only a connection that is closed at once loses calls: those of half a round.
    assert outcomes["lost, was sent: maybe"] <= (losses + 1) // 2 * ROUND
    assert (ledger.open, ledger.violations) == ({}, 0), ledger.faults
    assert ledger.outcomes.total() == ledger.calls
    assert all(count == 1 for count in feed.served.values())  # nothing that may have run was sent again
    assert all(count <= 5 for count in progress.values())
    assert told == ["connected", "disconnected"] * (len(told) // 2)


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
