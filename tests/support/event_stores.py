"""What every `EventStore` does: for two stores that share their events, or one store as both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from jsonrpc_fast.errors import EventsLost
from jsonrpc_fast.mcp.http import EventStore

Followed = Callable[[], Awaitable[object]]
"""Waits until the followers that were started wait for events."""

_FORGED: Final = [
    *("", "-", "-1", "s-1", "s/1", "s/2-1", "t/1-1", "/1-1", "s/1\0-1"),
    *[
        f"s/1-{number}"
        for number in ("", "0", "4", "01", "+1", "-1", "1_0", "\u0661", " 1", "1 ", "1.0", "1\n", "9" * 5000)
    ],
]


async def append(store: EventStore, stream: str, data: bytes | None) -> str:
    event_id = await store.append(stream, data)
    assert event_id is not None
    return event_id


async def rest_of(store: EventStore, event_id: str) -> list[tuple[str, bytes]]:
    return [event async for event in store.follow(event_id)]


async def a_stream_is_followed_from_any_event(one: EventStore, other: EventStore, _: Followed) -> None:
    ids = [await append(one, "s/1", data) for data in (None, b"a", None, b"b\0\xff\r\n", b"")]
    assert ids == ["s/1-1", "s/1-2", "s/1-3", "s/1-4", "s/1-5"]
    assert await append(one, "s/2", b"other") == "s/2-1"
    await one.end("s/1")
    await one.end("s/1")
    assert await rest_of(other, "s/1-1") == [("s/1-2", b"a"), ("s/1-4", b"b\0\xff\r\n"), ("s/1-5", b"")]
    assert await rest_of(one, "s/1-3") == [("s/1-4", b"b\0\xff\r\n"), ("s/1-5", b"")]
    assert await rest_of(other, "s/1-5") == []
    assert await other.stream_of("s/1-5") == "s/1"


async def those_who_follow_get_what_comes_later(one: EventStore, other: EventStore, followed: Followed) -> None:
    first = [await append(one, f"s/{stream}", None) for stream in range(3)]
    followers = [asyncio.create_task(rest_of(other, first[number % 3])) for number in range(9)]
    await followed()
    expected: list[list[tuple[str, bytes]]] = [[], [], []]
    for number in range(250):
        data = b"%d" % number
        for stream in range(3):
            expected[stream].append((await append(one, f"s/{stream}", data), data))
        if number % 3 == 0:
            await asyncio.sleep(0)
    for stream in range(3):
        await one.end(f"s/{stream}")
    for number, follower in enumerate(followers):
        assert await follower == expected[number % 3]


async def a_forged_id_resumes_nothing(store: EventStore, _: EventStore, __: Followed) -> None:
    for _ in range(3):
        await append(store, "s/1", b"secret")
    for event_id in _FORGED:
        assert await store.stream_of(event_id) is None
        with pytest.raises(EventsLost):
            await rest_of(store, event_id)


async def a_session_is_forgotten(one: EventStore, other: EventStore, followed: Followed) -> None:
    for stream in ("s/1", "s/2", "t/1"):
        await append(one, stream, b"x")
    await one.end("s/2")
    followers = [asyncio.create_task(rest_of(other, event_id)) for event_id in ("s/1-1", "t/1-1")]
    await followed()
    for session in ("s", "s", "unknown"):
        await other.forget(session)
    with pytest.raises(EventsLost):
        await followers[0]
    assert await one.stream_of("s/1-1") is None
    assert await one.stream_of("s/2-1") is None
    await append(one, "t/1", b"y")
    await one.end("t/1")
    assert await followers[1] == [("t/1-2", b"y")]


CONTRACT: Final[list[Callable[..., Any]]] = [
    a_stream_is_followed_from_any_event,
    those_who_follow_get_what_comes_later,
    a_forged_id_resumes_nothing,
    a_session_is_forgotten,
]
