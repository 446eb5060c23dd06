"""Serving: slots, the inbox, a peer that does not read, and large batches."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jsonrpc_fast import Notification, Request, Response, encode, encode_result
from jsonrpc_fast.errors import CallTimeout, ConnectionLost
from jsonrpc_fast.session import LspConvention, Session, SessionContext, engine
from jsonrpc_fast.transports import memory_pair

from ..support.session_pairs import session_and_wire, sessions
from ..support.tables import rows
from ..support.waiting import eventually, forever, settle

pytestmark = pytest.mark.usefixtures("each_loop")


@pytest.mark.virtual_time
async def test_sync_handlers_and_notifications_need_no_slot() -> None:
    order: list[Any] = []

    async def work(number: int) -> None:
        await asyncio.sleep(0.005)
        order.append(number)

    async with sessions({"work": work, "note": order.append}, max_handlers=1) as (client, _):
        calls = [client.call_soon("work", [1]), client.call_soon("work", [2])]
        client.notify_soon("note", ["a"])
        await client.call("note", ["b"])
        assert calls == [1, 2]
    assert order == ["a", "b", 1, 2]


@pytest.mark.virtual_time
async def test_answers_and_cancellations_do_not_wait_in_the_inbox() -> None:
    async def work(context: SessionContext) -> Any:
        return await context.session.call("ask")

    handlers = {"work": work, "wait": lambda: asyncio.sleep(30)}
    async with session_and_wire(handlers, convention=LspConvention(), max_handlers=1, close_seconds=0) as (_, wire):
        for id in (1, 2, 3):
            wire.send(b'{"jsonrpc":"2.0","id":%d,"method":"%b"}' % (id, b"work" if id == 1 else b"wait"))
        ask = await wire.next()
        await settle()
        assert wire.received == []
        wire.send(b'{"jsonrpc":"2.0","id":%d,"result":"answer"}' % ask.id)
        assert await wire.next() == Response(1, "answer")
        wire.send(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":3}}')
        await settle()
        messages = [message for message in wire.received if isinstance(message, Response)]
        assert [(message.id, message.error and message.error.code) for message in messages] == [(3, -32800)]


async def test_nothing_is_served_while_the_peer_does_not_read() -> None:
    served: list[int] = []

    def work(number: int) -> str:
        served.append(number)
        return "x" * 100_000

    one, other = memory_pair()
    answers: list[Any] = []
    other.onmessage = answers.append
    other.pauses_when_blocked = False
    await other.start()
    other.pause_reading()
    async with Session(one, {"work": work}, response_bytes=300_000):
        for number in range(100):
            other.send(b'{"jsonrpc":"2.0","id":%d,"method":"work","params":[%d]}' % (number, number))
        await settle(300)
        assert 3 <= len(served) <= 10
        assert one.write_buffer_bytes < 1_000_000
        other.resume_reading()
        while len(answers) < 100:
            await asyncio.sleep(0)
        assert served == [answer.id for answer in answers] == list(range(100))
    await other.disconnect()


async def test_what_handlers_send_counts_as_much_as_responses() -> None:
    served: list[int] = []

    def work(context: SessionContext, number: int) -> None:
        served.append(number)
        context.session.notify_soon("note", ["x" * 100_000])

    one, other = memory_pair()
    received: list[Any] = []
    other.onmessage = received.append
    other.pauses_when_blocked = False
    await other.start()
    other.pause_reading()
    async with Session(one, {"work": work}, response_bytes=300_000):
        for number in range(100):
            other.send(b'{"jsonrpc":"2.0","id":%d,"method":"work","params":[%d]}' % (number, number))
        await settle(300)
        assert 3 <= len(served) <= 10
        other.resume_reading()
        while len(received) < 200:
            await asyncio.sleep(0)
        assert served == list(range(100))


class Deaf:
    """Hooks that forget the faults."""

    def fault(self, error: BaseException) -> None:
        pass


@rows(
    "message",
    [
        b'{"jsonrpc":"2.0","id":"%s","method":1}' % (b"x" * 400),
        b'{"jsonrpc":"2.0","id":"in flight","method":"wait"}',
        b"[%s]" % b",".join([b"1"] * 8),
        b"no JSON" * 10,
    ],
    ids=["a fault", "a duplicate id", "a batch of faults", "no JSON"],
)
@pytest.mark.virtual_time
async def test_a_peer_that_does_not_read_cannot_fill_the_memory_with_faults(message: bytes) -> None:
    """They get responses until too many of these wait to be sent; in the end all have one."""
    count = 6000

    one, other = memory_pair()
    answers: list[Any] = []
    other.onmessage = answers.append
    other.pauses_when_blocked = False
    await other.start()
    other.pause_reading()
    session = Session(
        one, {"wait": forever, "last": lambda: 7}, response_bytes=10_000, max_inbox=100, close_seconds=0, hooks=Deaf()
    )
    async with session:
        other.send(b'{"jsonrpc":"2.0","id":"in flight","method":"wait"}')
        for _ in range(count):
            other.send(message)
        await settle(300)
        assert 160_000 < one.write_buffer_bytes < 450_000
        assert other.write_buffer_bytes > 0
        other.resume_reading()
        while len(answers) < count:
            await asyncio.sleep(0)
        other.send(b'{"jsonrpc":"2.0","id":"last","method":"last"}')
        await eventually(lambda: answers[-1] == Response("last", 7))  # nothing waits before it
    await other.disconnect()


@pytest.mark.virtual_time
async def test_a_call_without_an_answer_does_not_block_others() -> None:
    async with sessions({"wait": lambda: asyncio.sleep(5), "add": lambda a, b: a + b}, close_seconds=0) as (
        client,
        _,
    ):
        waiting = asyncio.create_task(client.call("wait", timeout=0.05))
        assert [await client.call("add", [number, 1]) for number in range(10)] == list(range(1, 11))
        with pytest.raises(CallTimeout):
            await waiting


async def test_a_notification_wakes_a_waiting_handler() -> None:
    seen: list[Any] = []

    async with session_and_wire({"m": seen.append}) as (_, wire):
        wire.transport.send(Notification("m", [None]))
        await settle()
        assert seen == [None]


@pytest.mark.virtual_time
async def test_waiting_messages_are_dropped_when_the_connection_is_lost() -> None:
    served: list[int] = []

    def work(number: int) -> str:
        served.append(number)
        return "x" * 400_000

    one, other = memory_pair()
    await other.start()
    other.pause_reading()
    async with Session(one, {"work": work}, response_bytes=300_000, close_seconds=0.02) as session:
        for number in range(10):
            other.send(b'{"jsonrpc":"2.0","id":%d,"method":"work","params":[%d]}' % (number, number))
        await settle(100)
        await other.disconnect()
        await session.wait_closed()
    assert served == [0]


BATCH = encode([Notification("n", [number]) for number in range(1000)])


@rows("how", ["goes on", "end", "loss", "close", "message"])
async def test_a_large_batch_is_served_over_several_turns(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "TURN_SECONDS", 0.0)
    served: list[int] = []
    asked: list[str] = []
    answers: list[object] = []

    async def ask(session: Session) -> None:
        try:
            answers.append(await session.call("ask"))
        except ConnectionLost as error:
            answers.append(type(error))

    handlers = {"n": served.append, "last": lambda: asked.append("last") or served[-1]}
    async with session_and_wire(handlers) as (session, wire):
        call = asyncio.create_task(ask(session))
        await wire.next()
        answer = encode_result(1, "answer")
        wire.send(BATCH.rstrip()[:-1] + b"," + answer.rstrip() + b"]\n")
        if how != "loss":  # what follows a batch ends it
            wire.send(b'{"jsonrpc":"2.0","id":7,"method":"last"}\n')
        while not served:
            await asyncio.sleep(0)
        assert len(served) <= 3
        await settle(10)
        assert 5 < len(served) < 40
        assert asked == answers == []
        if how == "end":
            await wire.transport.close()
        elif how == "loss":
            wire.other.channel_events.lost(None)
        elif how == "message":  # although reading is paused
            wire.other.onmessage(Notification("n", [1000]))
            assert served == list(range(1001))
        elif how == "close":
            await session.close()
        while not call.done():
            await asyncio.sleep(0)
        if how == "loss":
            assert len(served) < 40  # no peer is left to get a response, and none of the other requests is begun
        else:
            assert served[:1000] == list(range(1000))
        assert answers == ["answer"] if how != "end" else answers in (["answer"], [ConnectionLost])
        if how in ("goes on", "message"):
            assert await wire.next() == Response(7, served[-1])


async def test_a_batch_of_requests_over_several_turns_is_answered_by_one_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "TURN_SECONDS", 0.0)
    async with session_and_wire({"f": lambda number: number}) as (_, wire):
        wire.send(encode([Request(number, "f", [number]) for number in range(200)]))
        assert await wire.next() == [Response(number, number) for number in range(200)]
