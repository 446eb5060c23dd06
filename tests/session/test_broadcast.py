"""One notification to many sessions."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import pytest

from jsonrpc_fast import EncodeError
from jsonrpc_fast.profile import JSONRPC, JSONRPC_1
from jsonrpc_fast.session import Session, broadcast
from jsonrpc_fast.transports import memory_pair
from jsonrpc_fast.transports.channel import HIGH_WATER_BYTES

PARAMS = {"symbol": "AB", "value": 7}


class Room:
    """Sessions of a server, and what their clients have received."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.clients: list[Session] = []
        self.received: list[tuple[int, Any]] = []

    async def add(self, **options: Any) -> None:
        profile = options.pop("profile", JSONRPC)
        near, far = memory_pair(profile=profile)
        number = len(self.sessions)
        client = Session(far, {"price": lambda **params: self.received.append((number, params))})
        session = Session(near, **options)
        await client.start()
        await session.start()
        self.sessions.append(session)
        self.clients.append(client)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in (*self.sessions, *self.clients):
            await session.close()


class Written:
    """A value that `default` writes."""


@pytest.mark.virtual_time
async def test_every_session_gets_the_notification() -> None:
    async with Room() as room:
        for _ in range(3):
            await room.add()
        assert await broadcast(room.sessions, "price", PARAMS) == []
        await asyncio.sleep(0.1)
        assert sorted(room.received, key=lambda item: item[0]) == [(0, PARAMS), (1, PARAMS), (2, PARAMS)]


@pytest.mark.virtual_time
async def test_it_is_encoded_once_for_each_form() -> None:
    written: list[object] = []

    def default(value: object) -> Any:
        written.append(value)
        return "written"

    async with Room() as room:
        for _ in range(5):
            await room.add(default=default)
        value = Written()
        assert await broadcast(room.sessions, "price", {"value": value}) == []
        assert written == [value]
        await asyncio.sleep(0.1)
        assert [params for _, params in room.received] == [{"value": "written"}] * 5


@pytest.mark.virtual_time
async def test_each_peer_gets_the_form_that_it_reads() -> None:
    async with Room() as room:
        for profile in (JSONRPC, JSONRPC_1, JSONRPC, JSONRPC_1):
            await room.add(profile=profile)
        texts: dict[Any, bytes] = {}
        assert all(session.notify_as("price", PARAMS, texts) for session in room.sessions)
        assert sorted(texts.values()) == [
            b'{"id":null,"method":"price","params":{"symbol":"AB","value":7}}\n',
            b'{"jsonrpc":"2.0","method":"price","params":{"symbol":"AB","value":7}}\n',
        ]
        await asyncio.sleep(0.1)
        assert room.received == [(number, PARAMS) for number in range(4)]


@pytest.mark.virtual_time
async def test_those_that_do_not_read_or_are_closed_are_returned() -> None:
    async with Room() as room:
        for _ in range(4):
            await room.add()
        reads, slow, closed, ends = room.sessions
        room.clients[1]._transport.pause_reading()
        slow.notify_soon("price", {"text": "x" * (HIGH_WATER_BYTES + 1024 * 1024)})
        await closed.close()
        room.clients[3]._transport.pause_reading()
        ends.notify_soon("price", {"text": "x"})
        await asyncio.sleep(0.1)
        assert await broadcast(room.sessions, "price", PARAMS) == [slow, closed]
        await asyncio.sleep(0.1)
        assert (0, PARAMS) in room.received
        assert reads.is_connected
        room.clients[1]._transport.resume_reading()
        room.clients[3]._transport.resume_reading()


async def test_the_loop_serves_others_meanwhile() -> None:
    async with Room() as room:
        for _ in range(300):
            await room.add()
        turns = 0
        is_done = False

        async def count() -> None:
            nonlocal turns
            while not is_done:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await asyncio.sleep(0)
        before = turns
        assert await broadcast(room.sessions, "price", PARAMS) == []
        is_done = True
        await counting
        assert turns > before + 1


async def test_params_that_cannot_be_written_reach_nobody() -> None:
    async with Room() as room:
        await room.add()
        with pytest.raises(EncodeError):
            await broadcast(room.sessions, "price", {"value": Written()})
        assert await broadcast([], "price", PARAMS) == []
