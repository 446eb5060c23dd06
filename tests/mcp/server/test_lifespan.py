"""The lifespan of a server: once for all connections, in any order of users, failures at both ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jsonrpc_fast.mcp.server import Context, Server

from ...support import loops
from ...support.mcp_conversation import converse
from ...support.tables import rows
from ...support.waiting import results_of


def counting(**failures: Exception) -> tuple[Server, list[str]]:
    """A server that lists when its lifespan begins and ends."""
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[dict[str, Any]]:
        events.append("begin")
        if "begin" in failures:
            raise failures["begin"]
        await asyncio.sleep(0)
        try:
            yield {"number": len(events), "server": server}
        finally:
            await asyncio.sleep(0)
            events.append("end")
            if "end" in failures:
                raise failures["end"]

    server = Server("test", "1", lifespan=lifespan)

    @server.tool
    def number(context: Context) -> int:
        assert context.lifespan["server"] is server
        return context.lifespan["number"]  # type: ignore[no-any-return]

    return server, events


async def test_all_connections_share_one_lifespan() -> None:
    server, events = counting()
    async with converse(server, "2025-11-25") as first:
        async with converse(server, "2026-07-28") as second:
            for client in (first, second):
                result = await client.result("tools/call", {"name": "number"})
                assert result["structuredContent"] == {"result": 1}
        assert events == ["begin"]
    assert events == ["begin", "end"]


async def test_a_program_keeps_the_lifespan_between_connections() -> None:
    server, events = counting()
    async with server.lifespan as value:
        assert value["number"] == 1
        for _ in range(2):
            async with converse(server, "2025-11-25") as client:
                await client.result("tools/call", {"name": "number"})
        assert events == ["begin"]
    assert events == ["begin", "end"]
    assert server.lifespan.value is None
    async with converse(server, "2025-11-25") as client:
        result = await client.result("tools/call", {"name": "number"})
        assert result["structuredContent"] == {"result": 3}
    assert events == ["begin", "end"] * 2


async def test_users_come_and_go_in_any_order() -> None:
    server, events = counting()
    stops = [asyncio.Event() for _ in range(3)]

    async def use(stop: asyncio.Event) -> None:
        async with server.lifespan:
            await stop.wait()

    users = [asyncio.create_task(use(stop)) for stop in stops]
    while not events:
        await asyncio.sleep(0)
    for index in (0, 2, 1):
        assert events == ["begin"]
        stops[index].set()
        await users[index]
    assert events == ["begin", "end"]


async def test_the_next_lifespan_begins_after_the_end_of_the_previous_one() -> None:
    server, events = counting()
    for _ in range(3):
        async with server.lifespan:
            pass
    entered = asyncio.create_task(server.lifespan.__aenter__())
    await entered
    leaving = asyncio.create_task(server.lifespan.__aexit__(None, None, None))
    await asyncio.sleep(0)
    async with server.lifespan as value:
        assert value is not None
    await leaving
    assert events == ["begin", "end"] * 5


async def test_a_lifespan_that_cannot_begin() -> None:
    server, events = counting(begin=OSError("no database"))

    async def use() -> None:
        async with server.lifespan:
            raise AssertionError

    results = await results_of(use(), use())
    assert [str(result) for result in results] == ["no database"] * 2
    with pytest.raises(OSError, match="no database"):
        async with converse(server, ""):
            await asyncio.sleep(0)
    # An eager task ends before the next one is made, which tries again.
    assert events == ["begin"] * (3 if loops.current == "eager" else 2)


async def test_a_lifespan_that_fails_at_its_end() -> None:
    server, _ = counting(end=OSError("closed twice"))
    with pytest.raises(OSError, match="closed twice"):
        async with server.lifespan:
            pass


@rows("turns", range(4))
async def test_a_user_that_is_cancelled(turns: int) -> None:
    server, events = counting()

    async def use() -> None:
        async with server.lifespan:
            await asyncio.Event().wait()

    user = asyncio.create_task(use())
    for _ in range(turns):
        await asyncio.sleep(0)
    user.cancel()
    with pytest.raises(asyncio.CancelledError):
        await user
    async with server.lifespan:
        pass
    assert events.count("begin") - events.count("end") in (0, 1)  # the first one may not have reached its yield
    assert events[-1] == "end"


async def test_a_server_without_a_lifespan() -> None:
    server = Server("test", "1")

    @server.tool
    def value(context: Context) -> Any:
        return repr(context.lifespan)

    async with converse(server, "2025-11-25") as client:
        assert (await client.result("tools/call", {"name": "value"}))["content"][0]["text"] == "None"
