"""The sessions of a group share bounds, and slots in turn; one message of each always has room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.session import Session, SessionContext, SessionGroup

from ..support.session_pairs import sessions
from ..support.tables import rows
from ..support.waiting import results_of, settle

pytestmark = pytest.mark.usefixtures("each_loop")


@rows(
    ("kept", "size", "has_room"),
    [
        ([], 1000, True),
        ([1000], 1, False),
        ([60], 40, True),
        ([60], 41, False),
        ([1, 1], 1, True),
        ([1, 1, 1], 1, False),
    ],
)
def test_a_group_is_bounded(kept: list[int], size: int, has_room: bool) -> None:
    group = SessionGroup(max_inbox=3, inbox_bytes=100)
    for each in kept:
        assert group.has_room(each)
        group.keep(1, each)
    assert group.has_room(size) is has_room
    assert (group.waiting, group.waiting_bytes) == (len(kept), sum(kept))


class Work:
    """A function that waits, and its calls in the order in which they began."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    async def __call__(self, name: str) -> str:
        self.begun.append(name)
        await self.gates.setdefault(name, asyncio.Event()).wait()
        return name

    def end(self, name: str) -> None:
        self.gates.setdefault(name, asyncio.Event()).set()


@asynccontextmanager
async def grouped(group: SessionGroup, count: int, handlers: Any, **options: Any) -> AsyncIterator[list[Session]]:
    """Connect clients to servers that are in a group. The group is empty at the end."""
    async with AsyncExitStack() as stack:
        pairs = [await stack.enter_async_context(sessions(handlers, **options, group=group)) for _ in range(count)]
        yield [client for client, _ in pairs]
    assert (group.running, group.waiting, group.waiting_bytes) == (0, 0, 0)
    assert not group._queue


def calling(client: Session, *names: str) -> list[asyncio.Future[Any]]:
    return [asyncio.ensure_future(client.call("work", [name])) for name in names]


async def test_slots_go_to_the_sessions_in_turn() -> None:
    work = Work()
    group = SessionGroup(max_handlers=2)
    async with grouped(group, 2, {"work": work}) as (one, other):
        first = calling(one, *(f"a{number}" for number in range(5)))
        await settle()
        second = calling(other, "b0", "b1")
        await settle()
        assert work.begun == ["a0", "a1"]
        assert (group.running, group.waiting) == (2, 5)
        for name in ("a0", "a1", "a2", "b0", "a3", "b1", "a4"):
            work.end(name)
            await settle()
            assert group.running <= 2
        assert work.begun == ["a0", "a1", "a2", "b0", "a3", "b1", "a4"]
        assert await asyncio.gather(*first, *second) == ["a0", "a1", "a2", "a3", "a4", "b0", "b1"]


async def test_the_bounds_of_a_session_hold_too() -> None:
    work = Work()
    async with grouped(SessionGroup(max_handlers=3), 2, {"work": work}, max_handlers=1) as (one, other):
        first = calling(one, "a0", "a1", "a2")
        second = calling(other, "b0")
        await settle()
        assert work.begun == ["a0", "b0"]
        for name in ("a0", "a1", "a2", "b0"):
            work.end(name)
        assert await asyncio.gather(*first, *second) == ["a0", "a1", "a2", "b0"]


@rows("bounds", [{"max_inbox": 3}, {"inbox_bytes": 3500}])
async def test_a_full_inbox_refuses_what_is_more_but_one_for_each_session(bounds: Any) -> None:
    work = Work()
    async with grouped(SessionGroup(max_handlers=1, **bounds), 2, {"work": work}) as (one, other):
        names = [f"{number}" * 1000 for number in range(6)]
        first = calling(one, *names)
        await settle()
        second = calling(other, "b0", "y" * 1000)
        await settle()
        for name in (*names, "b0", "y" * 1000):
            work.end(name)
        found = await results_of(*first, *second)
        assert found[:4] == names[:4]
        assert found[6] == "b0"
        refused = [*found[4:6], found[7]]
        assert [error.code for error in refused if isinstance(error, RpcError)] == [-32009] * 3


@pytest.mark.virtual_time
async def test_handlers_that_wait_for_their_peers_hold_no_slot() -> None:
    async def ask(context: SessionContext, depth: int) -> int:
        return depth if not depth else 1 + int(await context.session.call("ask", [depth - 1]))

    group = SessionGroup(max_handlers=1)
    async with sessions({"ask": ask}, {"ask": ask}, {"group": group}, group=group) as (client, _):
        assert await asyncio.wait_for(client.call("ask", [20]), 20) == 20
        assert await asyncio.gather(*[client.call("ask", [3]) for _ in range(20)]) == [3] * 20
    assert (group.running, group.waiting, group.waiting_bytes) == (0, 0, 0)


@pytest.mark.virtual_time
async def test_a_session_that_ends_frees_its_slots_and_its_place() -> None:
    work = Work()
    group = SessionGroup(max_handlers=2)
    async with grouped(group, 1, {"work": work}) as (one,):
        async with sessions({"work": work}, group=group, close_seconds=0.01) as (other, server):
            lost = calling(other, "b0", "b1", "b2", "b3")
            await settle()
            waiting = calling(one, "a0", "a1")
            await settle()
            assert work.begun == ["b0", "b1"]
            await server.close()
        await results_of(*lost)
        await settle()
        assert work.begun == ["b0", "b1", "a0", "a1"]
        work.end("a0")
        work.end("a1")
        assert await asyncio.gather(*waiting) == ["a0", "a1"]


async def test_futures_count_among_what_waits() -> None:
    futures: list[asyncio.Future[int]] = []

    def begin() -> asyncio.Future[int]:
        futures.append(asyncio.get_running_loop().create_future())
        return futures[-1]

    async with grouped(SessionGroup(max_inbox=2), 1, {"begin": begin}) as (one,):
        calls = [asyncio.ensure_future(one.call("begin")) for _ in range(3)]
        await settle()
        for future in futures[:2]:
            future.set_result(1)
        found = await results_of(*calls)
        assert found[:2] == [1, 1]
        assert isinstance(found[2], RpcError)


@rows(("option", "value"), [("max_handlers", 0), ("max_inbox", -1), ("inbox_bytes", 1.5)])
def test_options(option: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=option):
        SessionGroup(**{option: value})
