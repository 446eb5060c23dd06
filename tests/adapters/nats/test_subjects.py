"""Sessions over two subjects of NATS, against a real `nats-server`."""

from __future__ import annotations

import asyncio
import contextlib
from operator import add
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.adapters.nats import SubjectTransport
from jsonrpc_fast.errors import ConnectionLost, StateError
from jsonrpc_fast.session import Session

from ...support.nats_server import NatsServer, nats_server, needs_server
from ...support.waiting import forever, settle

pytestmark = [needs_server, pytest.mark.usefixtures("each_loop")]


@pytest.mark.usefixtures("impatient")
async def test_a_broker_that_reads_nothing_does_not_delay_the_end(server: NatsServer) -> None:
    transports: list[SubjectTransport] = []
    async with sessions(server, {}, {}, transports) as (one, _):
        server.pause()
        try:
            for _ in range(300):
                one.notify_soon("m", ["x" * 100_000])
            await settle()
            await asyncio.wait_for(transports[0].disconnect(), 8)
            await asyncio.wait_for(one.wait_closed(), 8)
        finally:
            server.resume()


async def test_both_sides_call(server: NatsServer) -> None:
    async with sessions(server, {"double": lambda number: number * 2}, {"add": add}) as (one, other):
        assert await one.call("add", [1, 2]) == 3
        assert await other.call("double", [4]) == 8
        found = await asyncio.gather(*[one.call("add", [number, 1]) for number in range(1000)])
        assert found == [number + 1 for number in range(1000)]
        big = "x" * 500_000
        assert await asyncio.gather(*[one.call("add", [big, str(n)]) for n in range(9)]) == [
            big + str(n) for n in range(9)
        ]


async def test_close_ends_the_peer(server: NatsServer) -> None:
    async with sessions(server, {}, {"add": add}) as (one, other):
        await one.call("add", [1, 2])
        await one.close()
        await asyncio.wait_for(other.wait_closed(), 10)


async def test_without_a_peer(server: NatsServer) -> None:
    transport = SubjectTransport("a", "b", servers=server.url)
    session = Session(transport, {})
    await session.start()
    with pytest.raises(ConnectionLost):
        await asyncio.wait_for(session.call("add", [1, 2]), 20)
    await asyncio.wait_for(session.wait_closed(), 10)


async def test_the_server_dies(server: NatsServer) -> None:
    has_begun = asyncio.Event()

    async def sleep() -> None:
        has_begun.set()
        await forever()

    async with sessions(server, {}, {"sleep": sleep}) as (one, other):
        call = asyncio.create_task(one.call("sleep"))
        await has_begun.wait()
        server.kill()
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(call, 10)
        await asyncio.wait_for(asyncio.gather(one.wait_closed(), other.wait_closed()), 10)


async def test_a_reader_that_is_too_slow_is_closed(server: NatsServer) -> None:
    one = SubjectTransport("a", "b", servers=server.url)
    one.channel._max_waiting = 100  # type: ignore[attr-defined]
    other = SubjectTransport("b", "a", servers=server.url)
    received: list[Any] = []
    faults: list[Exception] = []
    one.onmessage, one.onerror = received.append, faults.append
    for transport in (one, other):
        await transport.connect()
        await transport.start()
    one.pause_reading()
    for _ in range(500):
        other.send(b'{"jsonrpc":"2.0","method":"m"}\n')
    await asyncio.wait_for(one.wait_closed(), 10)
    assert isinstance(faults[-1], ConnectionLost)
    assert "slow consumer" in str(faults[-1])
    await other.close()


async def test_a_message_over_the_maximum_closes_it(tmp_path: Path) -> None:
    with nats_server(tmp_path, "max_payload: 4096") as server:
        for size in (5000, 3000):  # with 3000 the response is over it
            async with sessions(server, {}, {"double": lambda text: text * 2}) as (one, other):
                assert await one.call("double", ["x"]) == "xx"
                with pytest.raises(ConnectionLost):
                    await asyncio.wait_for(one.call("double", ["x" * size]), 10)
                await asyncio.wait_for(asyncio.gather(one.wait_closed(), other.wait_closed()), 10)


async def test_connect_fails() -> None:
    options = {"reconnect_time_wait": 0.01}
    transport = SubjectTransport("a", "b", servers="nats://127.0.0.1:1", nats_options=options)
    with pytest.raises(OSError, match=r"."):
        await asyncio.wait_for(transport.connect(), 20)


async def test_connect_is_cancelled(server: NatsServer) -> None:
    for turns in range(40):
        transport = SubjectTransport("a", "b", servers=server.url)
        connecting = asyncio.create_task(transport.connect())
        await settle(20 * turns)  # the broker takes some hundred turns
        connecting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await connecting
        await transport.close()
    async with sessions(server, {}, {"add": add}) as (one, _):
        assert await one.call("add", [1, 2]) == 3


async def test_closing_without_starting(server: NatsServer) -> None:
    transport = SubjectTransport("a", "b", servers=server.url)
    await transport.connect()
    await transport.close()
    with pytest.raises((StateError, ConnectionLost)):
        transport.send(b"{}")


@contextlib.asynccontextmanager
async def sessions(server: NatsServer, mine: Any, theirs: Any, transports: list[SubjectTransport] | None = None) -> Any:
    made = [SubjectTransport(*subjects, servers=server.url) for subjects in (("a", "b"), ("b", "a"))]
    if transports is not None:
        transports += made
    ends = [Session(made[0], mine), Session(made[1], theirs)]
    for session in ends:
        await session.start()
    try:
        yield ends
    finally:
        for session in ends:
            await session.close()
