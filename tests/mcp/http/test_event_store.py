"""Event stores: what they keep, what they drop, and that a stream is resumed whole or not at all."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jsonrpc_fast.errors import EventsLost
from jsonrpc_fast.mcp.http.event_store import MemoryEventStore

from ...support.event_stores import CONTRACT, append, rest_of
from ...support.tables import rows
from ...support.waiting import settle


@rows("law", CONTRACT)
async def test_the_contract(law: Any) -> None:
    store = MemoryEventStore()
    await law(store, store, settle)


async def test_a_stream_that_has_ended_takes_no_more_events() -> None:
    store = MemoryEventStore()
    await append(store, "s/1", b"x")
    await store.end("s/1")
    with pytest.raises(ValueError, match="the stream has ended"):
        await store.append("s/1", b"late")


async def test_a_cancelled_follower_leaves_nothing() -> None:
    store = MemoryEventStore()
    first = await append(store, "s/1", None)
    follower = asyncio.create_task(rest_of(store, first))
    await asyncio.sleep(0)
    follower.cancel()
    with pytest.raises(asyncio.CancelledError):
        await follower
    assert len(store._find("s/1").waiters) == 0  # type: ignore[union-attr]
    await append(store, "s/1", b"x")


async def test_too_many_events() -> None:
    store = MemoryEventStore(max_events=3)
    for number in range(5):
        await append(store, "s/1", b"%d" % number)
    await append(store, "t/1", None)
    await store.end("s/1")
    assert [await store.stream_of(f"s/1-{number}") for number in range(1, 6)] == [None, None, "s/1", "s/1", "s/1"]
    assert await rest_of(store, "s/1-3") == [("s/1-4", b"3"), ("s/1-5", b"4")]
    with pytest.raises(EventsLost):
        await rest_of(store, "s/1-2")


async def test_too_many_bytes() -> None:
    store = MemoryEventStore(max_bytes=10_000)
    for _ in range(100):
        await append(store, "s/1", bytes(1000))
    assert await store.stream_of("s/1-90") is None
    assert await store.stream_of("s/1-91") == "s/1"
    assert await append(store, "s/1", bytes(20_000)) == "s/1-101"
    assert await store.stream_of("s/1-100") is None
    assert await store.stream_of("s/1-101") == "s/1"  # nothing after it is missing


async def test_a_live_stream_outlives_its_events() -> None:
    """A client can resume after the first event of a long request, however much other streams store."""
    store = MemoryEventStore(max_events=10)
    first = await append(store, "s/1", None)
    for number in range(1000):
        await append(store, f"t/{number}", b"x")
        await store.end(f"t/{number}")
    await append(store, "s/1", b"result")
    await store.end("s/1")
    assert await rest_of(store, first) == [("s/1-2", b"result")]


async def test_old_events_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    store = MemoryEventStore(max_age_seconds=60)
    first = await append(store, "s/1", b"1")
    await append(store, "t/1", b"1")
    await store.end("t/1")
    now += 59
    second = await append(store, "s/1", b"2")
    assert await store.stream_of(first) == "s/1"
    now += 2
    assert await store.stream_of(first) == "s/1"
    assert await store.stream_of("t/1-1") is None
    now += 60
    assert await store.stream_of(first) is None
    assert await store.stream_of(second) == "s/1"
    assert await append(store, "s/1", b"3") == "s/1-3"
    await store.end("s/1")
    assert await rest_of(store, second) == [("s/1-3", b"3")]


async def test_too_many_streams() -> None:
    store = MemoryEventStore(max_streams=2)
    await append(store, "s/1", b"1")
    await append(store, "s/2", b"1")
    assert await store.append("s/3", b"1") is None
    await store.end("s/2")
    assert await append(store, "s/4", b"1") == "s/4-1"
    assert await store.stream_of("s/2-1") is None
    assert await store.stream_of("s/1-1") == "s/1"


async def test_a_follower_that_is_too_slow_is_told() -> None:
    store = MemoryEventStore(max_events=2)
    await append(store, "s/1", None)
    await append(store, "s/1", b"1")
    events: AsyncIterator[tuple[str, bytes]] = store.follow("s/1-1")
    assert await anext(events) == ("s/1-2", b"1")
    for _ in range(5):
        await append(store, "s/1", b"x")
    with pytest.raises(EventsLost):
        await anext(events)


async def test_nothing_is_left_of_streams_that_are_gone() -> None:
    store = MemoryEventStore(max_events=50)
    for number in range(1000):
        stream = f"{number % 7}/{number}"
        await append(store, stream, bytes(10))
        if number % 3:
            await store.end(stream)
    for session in range(7):
        await store.forget(str(session))
    assert (store._sessions, store._ended, store._streams, store._bytes) == ({}, {}, 0, 0)
    assert len(store._order) <= 50


async def test_at_random_each_follower_gets_every_event_or_is_told() -> None:
    """Followers join and leave at random, with a store that is too small for what is appended."""
    chance = random.Random(1)
    store = MemoryEventStore(max_events=40)
    sent: dict[str, list[tuple[str, bytes]]] = {f"s/{number}": [] for number in range(4)}
    outcomes = {"whole": 0, "lost": 0}

    async def write(stream: str) -> None:
        for number in range(200):
            data = None if chance.random() < 0.1 else b"%d" % number
            event_id = await append(store, stream, data)
            sent[stream].append((event_id, b"" if data is None else data))
            if chance.random() < 0.5:
                await asyncio.sleep(0)
        await store.end(stream)

    async def read(stream: str) -> None:
        while not sent[stream]:
            await asyncio.sleep(0)
        position = chance.randrange(len(sent[stream]))
        got = []
        try:
            async for event_id, data in store.follow(sent[stream][position][0]):
                got.append((event_id, data))
                if chance.random() < 0.2:
                    await asyncio.sleep(0)
            outcomes["whole"] += 1
            assert got == [event for event in sent[stream][position + 1 :] if event[1]]
        except EventsLost:
            outcomes["lost"] += 1
            expected = [event for event in sent[stream][position + 1 :] if event[1]]
            assert got == expected[: len(got)]

    readers = [read(chance.choice(list(sent))) for _ in range(200)]
    await asyncio.gather(*map(write, sent), *readers)
    assert outcomes["whole"] + outcomes["lost"] == 200
    assert min(outcomes.values()) > 5


@rows("option", ["max_events", "max_bytes", "max_streams"])
def test_wrong_options(option: str) -> None:
    with pytest.raises(ValueError, match=option):
        MemoryEventStore(**{option: 0})
    with pytest.raises(TypeError, match=option):
        MemoryEventStore(**{option: 1.5})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_age_seconds"):
        MemoryEventStore(max_age_seconds=-1)
