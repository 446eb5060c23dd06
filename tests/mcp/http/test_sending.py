"""The HTTP clients of the client's transport: how many there are, and when they close."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import httpx2
import pytest

from jsonrpc_fast import mcp
from jsonrpc_fast.errors import ConnectionLost
from jsonrpc_fast.mcp.http import sending as module
from jsonrpc_fast.mcp.http.sending import ClientPool

from ...support.http_script import HttpRequest, Reply, http_script, modern
from ...support.tables import rows
from ...support.waiting import eventually, settle


async def test_calls_in_flight_use_as_many_connections_and_later_calls_the_same_ones() -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        await settle(50)
        await reply.send(request.result({"content": []}), headers={"set-cookie": "worker=3; Path=/"})

    async with http_script(modern(answer)) as server:
        async with mcp.connect(server.url) as client:
            for _ in range(5):
                await asyncio.gather(*[client.call_tool("add") for _ in range(16)])
            assert server.connections == 16
        assert [request.headers.get("cookie") for request in server.requests[-16:]] == ["worker=3"] * 16
        await eventually(lambda: server.open == 0)


async def test_idle_clients_are_bounded_and_closed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = []

    def begin(work: Coroutine[Any, Any, None]) -> None:
        tasks.append(asyncio.ensure_future(work))

    monkeypatch.setattr(module, "MAX_IDLE", 2)
    pool = ClientPool(None, begin)
    one, two, three = clients = [pool.take() for _ in range(3)]
    for client in clients:
        pool.give_back(client)
    await asyncio.gather(*tasks)
    assert [client.is_closed for client in clients] == [False, False, True]
    assert pool.take() is two
    monkeypatch.setattr(module, "IDLE_SECONDS", -1.0)
    other = pool.take()
    await asyncio.gather(*tasks)
    assert other not in clients
    assert one.is_closed
    await pool.close()
    assert two.is_closed
    assert other.is_closed
    pool.give_back(two)
    with pytest.raises(ConnectionLost):
        pool.take()
    assert three.is_closed


class SlowClient:
    """Closes in two turns of the loop, and only once, as httpx2 does."""

    def __init__(self, **options: Any) -> None:
        self.is_begun = self.is_closed = False

    async def aclose(self) -> None:
        if not self.is_begun:
            self.is_begun = True
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.is_closed = True


@rows("turns", range(5))
async def test_closing_that_is_cancelled_goes_on(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transport that is aborted while it closes would leave its connections open."""
    monkeypatch.setattr(httpx2, "AsyncClient", SlowClient)
    pool = ClientPool(None, lambda work: None)
    client = pool.take()
    closing = asyncio.ensure_future(pool.close())
    for _ in range(turns):
        await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    await pool.close()
    assert client.is_closed
    with pytest.raises(ConnectionLost):
        pool.take()
