"""Events of streams in a real Redis: several workers, and a Redis that is lost, slow, restarted or full."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
from redis.exceptions import RedisError

from jsonrpc_fast.adapters.redis import RedisEventStore
from jsonrpc_fast.errors import ConnectionLost, EventsLost

from ..support.event_stores import CONTRACT, append, rest_of
from ..support.redis_server import RedisServer, needs_server, redis_server
from ..support.tables import rows
from ..support.waiting import eventually, settle

pytestmark = [needs_server, pytest.mark.time_limit(60)]


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as running:
        yield running


@contextlib.asynccontextmanager
async def store_at(server: RedisServer, **options: Any) -> AsyncIterator[RedisEventStore]:
    client = redis.asyncio.from_url(server.url)
    seconds = {name: options.pop(name) for name in ("lease_seconds", "command_seconds") if name in options}
    store = RedisEventStore(client, **options)
    for name, value in {"command_seconds": 10.0, **seconds}.items():
        setattr(store, f"_{name}", value)
    try:
        yield store
    finally:
        await store.aclose()
        await client.aclose()


@contextlib.asynccontextmanager
async def two_stores(server: RedisServer, **options: Any) -> AsyncIterator[tuple[RedisEventStore, RedisEventStore]]:
    async with store_at(server, **options) as one, store_at(server, **options) as other:
        yield one, other


async def command(server: RedisServer, *words: str) -> Any:
    client = redis.asyncio.from_url(server.url)
    try:
        return await client.execute_command(*words)
    finally:
        await client.aclose()


async def until_subscribed(server: RedisServer) -> None:
    await eventually(lambda: command(server, "PUBSUB", "CHANNELS"))


@rows("law", CONTRACT)
@pytest.mark.ci
async def test_the_contract_of_a_store_at_two_workers(server: RedisServer, law: Any) -> None:
    await command(server, "FLUSHALL")
    async with two_stores(server) as (one, other):
        await law(one, other, partial(until_subscribed, server))

        async def is_quiet() -> bool:
            return not await command(server, "PUBSUB", "CHANNELS")

        await eventually(is_quiet)


@pytest.mark.ci
async def test_too_many_events(server: RedisServer) -> None:
    async with store_at(server, max_events=10) as store:
        first = await append(store, "s/1", None)
        for number in range(1000):
            last = await append(store, "s/1", b"%d" % number)
        assert await store.stream_of(first) is None
        assert await store.stream_of(last) == "s/1"
        assert await command(server, "XLEN", "jsonrpc_fast:s/1") < 300


async def test_streams_expire_after_their_end(server: RedisServer) -> None:
    async with store_at(server, max_age_seconds=0.2) as store:
        first = await append(store, "s/1", b"x")
        await store.end("s/1")

        async def has_expired() -> bool:
            return await store.stream_of(first) is None

        await eventually(has_expired)
        assert await command(server, "KEYS", "*") == []


@pytest.mark.slow
async def test_a_worker_keeps_what_it_writes_and_loses_what_it_does_not(server: RedisServer) -> None:
    async with store_at(server, lease_seconds=0.6) as other:
        async with store_at(server, lease_seconds=0.6) as one:
            first = await append(one, "s/1", None)
            follower = asyncio.create_task(rest_of(other, first))
            await asyncio.sleep(2)
            assert not follower.done()
            assert await append(one, "s/1", b"x") == "s/1-2"
        with pytest.raises(EventsLost):  # the worker is gone
            await follower
        assert await command(server, "KEYS", "*") == []


async def test_a_full_redis_makes_a_stream_end_with_a_fault(server: RedisServer) -> None:
    async with two_stores(server) as (one, other):
        first = await append(one, "s/1", None)
        follower = asyncio.create_task(rest_of(other, first))
        await until_subscribed(server)
        await command(server, "CONFIG", "SET", "maxmemory-policy", "noeviction")
        await command(server, "CONFIG", "SET", "maxmemory", "1")
        assert await append(one, "s/1", b"x") == "s/1-2"
        assert await append(one, "t/1", b"x") == "t/1-1"
        with pytest.raises(EventsLost):
            await follower
        await command(server, "CONFIG", "SET", "maxmemory", "0")
        assert await append(one, "s/1", b"y") == "s/1-3"  # but is not stored: the one before is missing
        assert await append(one, "u/1", b"y") == "u/1-1"
        known = [await other.stream_of(event_id) for event_id in ("s/1-1", "s/1-2", "s/1-3", "t/1-1", "u/1-1")]
        assert known == [None, None, None, None, "u/1"]
        await one.end("s/1")
        await one.end("t/1")
        assert await command(server, "KEYS", "*") == [b"jsonrpc_fast:u/1"]


async def test_a_slow_redis_delays_an_event_only_so_long(server: RedisServer) -> None:
    async with two_stores(server, command_seconds=0.2, lease_seconds=0.8) as (one, other):
        first = await append(one, "s/1", None)
        follower = asyncio.create_task(rest_of(other, first))
        await until_subscribed(server)
        server.send_signal(signal.SIGSTOP)

        async def write() -> None:
            for number in range(100):
                assert await append(one, "s/1", b"x") == f"s/1-{number + 2}"
                await append(one, f"t/{number}", b"x")

        await asyncio.wait_for(write(), 20)  # 200 times 0.2 s would be longer
        with pytest.raises(ConnectionLost):
            await other.stream_of(first)
        server.send_signal(signal.SIGCONT)
        with pytest.raises((EventsLost, ConnectionLost)):  # maybe after the first event, which may be stored
            await follower
        await one.end("s/1")

        async def has_ended() -> bool:
            with contextlib.suppress(ConnectionLost):
                return await other.stream_of(first) is None
            return False

        await eventually(has_ended)


@pytest.mark.ci
async def test_a_redis_that_starts_again_without_its_data(server: RedisServer) -> None:
    async with two_stores(server, lease_seconds=1.5) as (one, other):
        first = await append(one, "s/1", None)
        follower = asyncio.create_task(rest_of(other, first))
        await until_subscribed(server)
        server.kill()
        assert await append(one, "s/1", b"1") == "s/1-2"
        with pytest.raises(ConnectionLost):
            await one.stream_of(first)
        server.start()
        with pytest.raises((EventsLost, ConnectionLost)):
            await follower
        assert await append(one, "s/1", b"2") == "s/1-3"
        numbers = itertools.count()

        async def is_resumable() -> bool:
            return await resumable(other, await append(one, f"t/{next(numbers)}", b"x")) is not None

        await eventually(is_resumable)
        assert [await other.stream_of(f"s/1-{number}") for number in (1, 2, 3)] == [None, None, None]


async def resumable(store: RedisEventStore, event_id: str) -> str | None:
    with contextlib.suppress(ConnectionLost):
        return await store.stream_of(event_id)
    return None


async def test_followers_survive_a_redis_that_starts_again_with_its_data(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jsonrpc_fast.adapters.redis._PAUSE_SECONDS", 0.1)
    await command(server, "CONFIG", "SET", "appendonly", "yes")
    server.kill()
    server.start("appendonly yes", "appendfsync always")
    async with two_stores(server, lease_seconds=20.0) as (one, other):
        first = await append(one, "s/1", None)
        follower = asyncio.create_task(rest_of(other, first))
        await until_subscribed(server)
        server.kill()
        server.start()
        await asyncio.sleep(0)
        assert await append(one, "s/1", b"1") == "s/1-2"
        await until_subscribed(server)
        assert await append(one, "s/1", b"2") == "s/1-3"
        await one.end("s/1")
        assert await follower == [("s/1-2", b"1"), ("s/1-3", b"2")]


@pytest.mark.ci
async def test_at_random_each_follower_gets_every_event(server: RedisServer) -> None:
    """Followers at two workers join and leave at random, and connections to Redis are cut in between."""
    chance = random.Random(1)
    sent: dict[str, list[tuple[str, bytes]]] = {f"s/{number}": [] for number in range(4)}

    async def write(store: RedisEventStore, stream: str) -> None:
        for number in range(30):
            data = None if chance.random() < 0.1 else b"%d" % number
            sent[stream].append((await append(store, stream, data), data or b""))
            await settle(chance.randrange(20))
        await store.end(stream)

    async def read(store: RedisEventStore, stream: str) -> None:
        begin = chance.randrange(1, 25)
        await eventually(lambda: len(sent[stream]) >= begin)
        position = chance.randrange(len(sent[stream]))
        got = await rest_of(store, sent[stream][position][0])
        assert got == [event for event in sent[stream][position + 1 :] if event[1]]

    async def cut() -> None:
        for events in (0, 25, 50, 75):
            await eventually(lambda events=events: sum(map(len, sent.values())) > events)
            with contextlib.suppress(RedisError):
                await command(server, "CLIENT", "KILL", "TYPE", chance.choice(["pubsub", "normal"]))

    async with two_stores(server, lease_seconds=3.0) as stores:
        readers = [read(chance.choice(stores), chance.choice(list(sent))) for _ in range(50)]
        writers = [write(chance.choice(stores), stream) for stream in sent]
        await asyncio.gather(*writers, *readers, cut())


async def test_commands_share_pipelines(server: RedisServer) -> None:
    async with store_at(server) as store:
        ids = await asyncio.gather(*(store.append(f"s/{number}", bytes(20_000)) for number in range(1000)))
        assert ids == [f"s/{number}-1" for number in range(1000)]
        clients = await command(server, "INFO", "clients")
        assert clients["connected_clients"] <= 2


async def test_a_cancelled_append_is_stored_all_the_same(server: RedisServer) -> None:
    async with store_at(server) as store:
        first = await append(store, "s/1", None)
        work = asyncio.create_task(store.append("s/1", b"x"))
        await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert await append(store, "s/1", b"y") == "s/1-3"
        await store.end("s/1")
        assert await rest_of(store, first) == [("s/1-2", b"x"), ("s/1-3", b"y")]


@rows(
    ("words", "can_resume"),
    [
        (("SET", "KEY", "x"), False),
        (("RPUSH", "KEY", "x"), False),
        (("HSET", "KEY", "a", "b"), False),
        (("SADD", "KEY", "x"), False),
        (("ZADD", "KEY", "1", "x"), False),
        (("XADD", "KEY", "5-7", "x", "y"), False),  # a stream with other numbers
        (("XADD", "KEY", "0-1", "x", "y"), True),  # before the first number
    ],
)
async def test_a_key_of_another_type(
    server: RedisServer, caplog: pytest.LogCaptureFixture, words: tuple[str, ...], can_resume: bool
) -> None:
    """The stream cannot be resumed, which is logged once; its events are sent, and other streams are not affected."""
    caplog.set_level(logging.WARNING)
    caplog.clear()
    await command(server, "FLUSHALL")
    async with store_at(server) as store:
        await command(server, *[word.replace("KEY", "jsonrpc_fast:s/1") for word in words])
        assert [await append(store, "s/1", data) for data in (b"a", b"b")] == ["s/1-1", "s/1-2"]
        assert await append(store, "s/2", None) == "s/2-1"
        await append(store, "s/2", b"c")
        await store.end("s/1")
        await store.end("s/2")
        if can_resume:
            assert await rest_of(store, "s/1-1") == [("s/1-2", b"b")]
        else:
            with pytest.raises(EventsLost):
                await rest_of(store, "s/1-1")
        assert await rest_of(store, "s/2-1") == [("s/2-2", b"c")]
        # A key in place of the mark of a forgotten session does not make any of its streams resumable.
        await command(server, *[word.replace("KEY", "jsonrpc_fast:s") for word in words])
        assert await store.stream_of("s/2-1") is None
        await store.forget("s")
        assert await store.stream_of("s/2-1") is None
    assert len(caplog.records) <= 1


@rows(
    ("forbidden", "said"),
    [
        # The stream would expire under its worker.
        ("-pexpire", "Redis refused a command: this user has no permissions to run the 'pexpire' command"),
        ("-subscribe", "Redis does not announce events, so that followers in other workers get them late: "),
    ],
)
async def test_what_redis_refuses_is_logged_once(
    server: RedisServer, caplog: pytest.LogCaptureFixture, forbidden: str, said: str
) -> None:
    caplog.clear()
    await command(server, "FLUSHALL")
    await command(server, "ACL", "SETUSER", "default", forbidden)
    try:
        async with store_at(server) as store:
            for _ in range(3):
                await append(store, f"s/{_}", b"a")
            following = asyncio.ensure_future(anext(store.follow("s/1-1")))
            await eventually(lambda: caplog.records)
            following.cancel()
            await asyncio.wait([following])
    finally:
        await command(server, "ACL", "SETUSER", "default", "+@all")
    assert [record.getMessage().startswith(said) for record in caplog.records] == [True]


async def test_wrong_options() -> None:
    client = redis.asyncio.Redis()
    with pytest.raises(ValueError, match="max_events"):
        RedisEventStore(client, max_events=0)
    with pytest.raises(ValueError, match="max_age_seconds"):
        RedisEventStore(client, max_age_seconds=0)
    with pytest.raises(ValueError, match="decode"):
        RedisEventStore(redis.asyncio.Redis(decode_responses=True))
