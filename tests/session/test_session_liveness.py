"""Sessions that call each other never deadlock, and a hostile peer costs bounded memory."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jsonrpc_fast import Request, Response
from jsonrpc_fast.session import LspConvention, Session, SessionContext
from jsonrpc_fast.session.inbound import PAUSE_SECONDS, STALL_SECONDS, Flow
from jsonrpc_fast.transports import StdioClient, TcpClient, TcpServer, Transport, memory_pair

from ..support import loops
from ..support.session_pairs import Faults, asking_handlers, session_and_wire, sessions
from ..support.tables import rows
from ..support.waiting import eventually, settle

pytestmark = pytest.mark.usefixtures("each_loop")
BUSY = -32009


@asynccontextmanager
async def over_memory() -> AsyncIterator[Session]:
    one, other = memory_pair()
    async with Session(other, asking_handlers()), Session(one, asking_handlers()) as session:
        yield session


@asynccontextmanager
async def over_tcp() -> AsyncIterator[Session]:
    async def serve(transport: Transport) -> None:
        async with Session(transport, asking_handlers()) as session:
            await session.wait_closed()

    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    try:
        async with Session(TcpClient("127.0.0.1", server.address[1]), asking_handlers()) as session:
            yield session
    finally:
        await server.close()


CHANNELS = {"memory": over_memory, "tcp": over_tcp}


@pytest.mark.time_limit(100)
@pytest.mark.slow
@pytest.mark.parametrize("channel", CHANNELS)
async def test_the_defaults_survive_many_requests_that_are_called_back(channel: str) -> None:
    """Each method alone, then all concurrently in both directions."""
    # More requests than slots in each case, and once more than all bounds.
    is_large = channel == "tcp" and loops.current in ("asyncio", "uvloop")
    notes, asks = (20_000, 9_000) if is_large else (1000, 1000)

    async def noted(session: Session, count: int) -> None:
        while await session.call("noted") < count:
            await asyncio.sleep(0.01)

    async with CHANNELS[channel]() as session:
        calls = [session.call("ask", [number]) for number in range(300)]
        assert await asyncio.gather(*calls) == [2 * number for number in range(300)]
        calls = [session.call("ask", [number, 3]) for number in range(300)]
        assert await asyncio.gather(*calls) == [2 * number for number in range(300)]
        await asyncio.gather(session.call("notify", [notes]), session.call("call", [300, 2]))
        for number in range(notes):
            session.notify_soon("note", [number])
        calls = [session.call("ask", [number]) for number in range(asks)]
        results = await asyncio.gather(*calls, session.call("call", [asks]))
        assert results == [*[2 * number for number in range(asks)], True]
        await noted(session, notes)
        mine = session.handlers.find("noted")
        assert mine is not None
        while mine.invoke(None, None) < notes:
            await asyncio.sleep(0.01)


@pytest.mark.time_limit(100)
@pytest.mark.slow
async def test_nine_thousand_requests_at_once() -> None:
    """The peer sends all of them before it responds to the first request."""
    count = 9000

    async with session_and_wire(asking_handlers()) as (_, wire):
        for number in range(count):
            wire.send(b'{"jsonrpc":"2.0","id":%d,"method":"ask","params":[%d]}' % (number, number))
        results: dict[Any, Any] = {}
        while len(results) < count:
            message = await wire.next()
            if isinstance(message, Request):
                assert isinstance(message.params, list)
                wire.send(Response(message.id, 2 * message.params[0]).to_bytes())
            else:
                assert message.error is None
                results[message.id] = message.result
        assert results == {number: 2 * number for number in range(count)}


# Handlers without a slot.


async def awaits(context: SessionContext) -> Any:
    return await context.session.call("ask")


async def awaits_with_a_timeout(context: SessionContext) -> Any:
    return await asyncio.wait_for(context.session.call("ask"), 30)


async def gathers(context: SessionContext) -> Any:
    return (await asyncio.gather(context.session.call("ask"), context.session.call("ask")))[0]


async def calls_in_a_batch(context: SessionContext) -> Any:
    return (await context.session.call_batch([("ask", None), ("ask", None)]))[0]


async def asks_in_a_thread(context: SessionContext) -> Any:
    return await asyncio.to_thread(lambda: context.session.call_threadsafe("ask").result(30))


async def waits_for_a_callback(context: SessionContext) -> Any:
    done = asyncio.get_running_loop().create_future()
    context.session.call_soon("ask", on_result=done.set_result)
    return await done


def returns_a_future(context: SessionContext) -> Any:
    return asyncio.gather(context.session.call("ask"))


def returns_a_task(context: SessionContext) -> Any:
    return asyncio.ensure_future(context.session.call("ask"))


@rows(
    "handler",
    [
        awaits,
        awaits_with_a_timeout,
        gathers,
        calls_in_a_batch,
        asks_in_a_thread,
        waits_for_a_callback,
        returns_a_future,
        returns_a_task,
    ],
)
async def test_a_handler_that_waits_for_its_peer_holds_no_slot(handler: Callable[..., Any]) -> None:
    """The peer responds only after this side has served another request."""

    async def work() -> str:
        await asyncio.sleep(0)
        return "worked"

    async with session_and_wire({"m": handler, "work": work}, max_handlers=1) as (session, wire):
        for number in (1, 2, 3):
            wire.send(b'{"jsonrpc":"2.0","id":"m%d","method":"m"}' % number)
        asked = [await wire.next()]
        wire.send(b'{"jsonrpc":"2.0","id":"work","method":"work"}')
        while not isinstance(message := await wire.next(), Response):
            asked.append(message)
        assert message == Response("work", "worked")
        answered = 0
        while answered < 3:
            for message in asked:
                for item in message if isinstance(message, list) else [message]:
                    if isinstance(item, Request):
                        wire.send(b'{"jsonrpc":"2.0","id":%d,"result":"yes"}' % item.id)
                    else:
                        answered += 1
            if answered < 3:
                asked = [await wire.next()]
        await settle()
        assert session.is_idle


async def test_a_handler_that_waits_for_the_peer_of_another_session_holds_no_slot() -> None:
    """A gateway: while it calls upstream, its client sends it another request."""

    upstream: Session

    async def forward(depth: int) -> int:
        return int(await upstream.call("up", [depth]))

    async def up(context: SessionContext, depth: int) -> int:
        return int(await context.session.call("down", [depth]))

    async def down(context: SessionContext, depth: int) -> int:
        return int(await gateway.call("down", [depth]))

    async def client_down(context: SessionContext, depth: int) -> int:
        return depth if depth == 0 else 1 + await context.session.call("forward", [depth - 1])

    async with sessions({"up": up}, {"down": down}, {"max_handlers": 1}, max_handlers=1) as (one, _):
        upstream = one
        handlers = {"forward": forward}
        async with sessions(handlers, {"down": client_down}, {"max_handlers": 1}, max_handlers=1) as (client, gateway):
            assert await client.call("forward", [5]) == 5


@pytest.mark.virtual_time
async def test_awaitables_that_need_no_slot_are_served_at_once() -> None:
    async def sleep() -> None:
        await asyncio.sleep(30)

    async with session_and_wire({"ping": dict, "sleep": sleep}, max_handlers=1, close_seconds=0) as (_, wire):
        wire.send(b'{"jsonrpc":"2.0","id":1,"method":"sleep"}')
        wire.send(b'{"jsonrpc":"2.0","id":2,"method":"sleep"}')
        wire.send(b'{"jsonrpc":"2.0","id":3,"method":"ping"}')
        wire.send(b'{"jsonrpc":"2.0","id":4,"method":"unknown"}')
        wire.send(b'{"jsonrpc":"2.0","id":5,"method":"sleep","params":[1,2,3]}')
        answers = [await wire.next() for _ in range(3)]
        assert [(answer.id, answer.error and answer.error.code) for answer in answers] == [
            (3, None),
            (4, -32601),
            (5, -32602),
        ]


# Beyond the bounds.


async def test_beyond_the_bounds_requests_are_refused_and_notifications_dropped() -> None:
    """Responses and cancellations are still read, and accepted messages are served in order."""
    order: list[Any] = []
    gate = asyncio.Event()
    faults = Faults()

    async def work(value: Any) -> Any:
        await gate.wait()
        order.append(value)
        return value

    async with session_and_wire(
        {"work": work, "ping": lambda: "pong"}, max_handlers=2, max_inbox=3, hooks=faults, convention=LspConvention()
    ) as (session, wire):
        call = asyncio.create_task(session.call("m"))
        await wire.next()
        for number in range(1, 8):
            wire.send(b'{"jsonrpc":"2.0","id":%d,"method":"work","params":[%d]}' % (number, number))
        wire.send(b'{"jsonrpc":"2.0","method":"work","params":["dropped"]}')
        wire.send(b'{"jsonrpc":"2.0","id":8,"method":"ping"}')
        wire.send(b'{"jsonrpc":"2.0","id":1,"result":"answer"}')
        assert await call == "answer"
        wire.send(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":4}}')
        refused = [await wire.next() for _ in range(4)]
        assert [(answer.id, answer.error and answer.error.code) for answer in refused] == [
            (6, BUSY),
            (7, BUSY),
            (8, None),
            (4, -32800),
        ]
        assert refused[0].error.message == "Server busy"
        assert [type(error).__name__ for error in faults.seen] == ["StateError"] * 3
        gate.set()
        assert sorted([(await wire.next()).id for _ in range(4)]) == [1, 2, 3, 5]
        assert order == [1, 2, 3, 5]
        wire.send(b'{"jsonrpc":"2.0","id":9,"method":"work","params":[9]}')
        assert (await wire.next()).result == 9


@rows("raw", [False, True])
async def test_waiting_messages_are_bounded_in_bytes(raw: bool) -> None:
    one, other = memory_pair(raw=raw)
    answers: list[Any] = []
    other.onmessage = answers.append
    await other.start()
    gate = asyncio.Event()

    async def handler(**_: Any) -> str:
        await gate.wait()
        return "done"

    session = Session(one, {"m": handler}, max_handlers=1, inbox_bytes=1_000_000, hooks=Faults())
    async with session:
        for _ in range(2):  # the second time is like the first: the count of bytes is back at zero
            for number in range(100):
                other.send(Request(number, "m", {"list": [["x" * 50_000], {"y" * 50_000: True}]}))
            await eventually(lambda: len(answers) >= 89)
            await settle(200)
            assert 89 <= len(answers) <= 91  # one is served, and 8 to 10 wait
            assert {answer.error.code for answer in answers} == {BUSY}
            gate.set()
            await eventually(lambda: len(answers) == 100)
            answers.clear()
            gate.clear()
    await other.disconnect()


async def test_handlers_that_wait_for_the_peer_are_bounded() -> None:
    """The peer never responds to the calls back, so in the end its own requests are refused."""

    options: dict[str, Any] = {"max_inbox": 50, "inbox_bytes": 10_000_000, "hooks": Faults(), "close_seconds": 0}
    async with session_and_wire(asking_handlers(), **options) as (session, wire):
        for number in range(500):
            wire.send(b'{"jsonrpc":"2.0","id":%d,"method":"ask","params":[1]}' % number)
        while len(wire.received) < 500:
            await asyncio.sleep(0)
        refused = [message for message in wire.received if isinstance(message, Response)]
        asked = [message for message in wire.received if isinstance(message, Request)]
        assert 50 <= len(asked) <= 50 + 256
        assert {answer.error and answer.error.code for answer in refused} == {BUSY}
        for message in asked:
            wire.send(b'{"jsonrpc":"2.0","id":%d,"result":2}' % message.id)
        while len(wire.received) < 500 + len(asked):
            await asyncio.sleep(0)
        assert session.is_idle


# Peers that do not read.


class Unread:
    """The other end of a memory channel, which reads on command."""

    def __init__(self, session_options: dict[str, Any], handlers: dict[str, Any]) -> None:
        one, self.transport = memory_pair()
        self.answers: list[Any] = []
        self.transport.onmessage = self.answers.append
        self.transport.pauses_when_blocked = False
        self.mine = one
        self.session = Session(one, handlers, **{"close_seconds": 0, "hooks": Faults(), **session_options})


@rows("method", ["large", "small", "async", "asks", "notes", "unknown", 'x","params":1,"y":"'])
@rows("is_request", [True, False], ids=["request", "notification"])
@pytest.mark.slow
async def test_a_peer_that_never_reads_cannot_fill_the_memory(method: str, is_request: bool) -> None:
    count = 3000

    async def later() -> str:
        await asyncio.sleep(0)
        return "y" * 1000

    async def asks(context: SessionContext) -> Any:
        return await context.session.call("x", ["y" * 100])

    def notes(context: SessionContext) -> None:
        context.session.notify_soon("x", ["y" * 1000])

    unread = Unread(
        {"response_bytes": 20_000, "max_inbox": 500, "max_calls": 300},
        {"large": lambda: "x" * 10_000, "small": lambda: 1, "async": later, "asks": asks, "notes": notes},
    )

    def answer(message: Any) -> None:
        unread.answers.append(message)
        if type(message) is Request:
            unread.transport.send(Response(message.id, "answered"))

    unread.transport.onmessage = answer
    await unread.transport.start()
    unread.transport.pause_reading()
    async with unread.session as session:
        for number in range(count):
            id = f'"id":{number},' if is_request else ""
            unread.transport.send(f'{{"jsonrpc":"2.0",{id}"method":"{method}"}}'.encode())
        for _ in range(10):
            await asyncio.sleep(0.01)
            assert len(session._engine.queue) <= 501
            assert unread.mine.write_buffer_bytes <= 1_000_000
        unread.transport.resume_reading()
        while unread.transport.write_buffer_bytes or not session.is_idle:
            await asyncio.sleep(0)
        if is_request:
            while sum(type(message) is Response for message in unread.answers) < count:
                await asyncio.sleep(0)
    await unread.transport.disconnect()


@pytest.mark.virtual_time
async def test_a_peer_that_reads_none_of_its_refusals_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise two peers that do not read from each other for this reason would wait forever."""
    monkeypatch.setattr("jsonrpc_fast.session.inbound._REFUSAL_FACTOR", 1)
    faults = Faults()
    unread = Unread({"response_bytes": 300_000, "max_inbox": 0, "hooks": faults}, {"m": lambda: "x" * 400_000})
    await unread.transport.start()
    unread.transport.pause_reading()
    async with unread.session as session:
        for number in range(2000):
            unread.transport.send(b'{"jsonrpc":"2.0","id":"%0200d","method":"m"}' % number)
        await asyncio.sleep(STALL_SECONDS)
        assert session.is_connected
        await asyncio.wait_for(session.wait_closed(), 2 * PAUSE_SECONDS)
        assert str(session.fault) == "the peer reads none of the responses"
        assert session.fault in faults.seen
    await unread.transport.disconnect()


@pytest.mark.virtual_time
@rows("in_batches", [False, True])
async def test_calls_back_go_on_although_the_calls_in_flight_wait_for_them(in_batches: bool) -> None:
    """Each side has `max_calls` calls in flight, and each of these needs a call back. No timeout would end them."""

    async def back(context: SessionContext, depth: int) -> int:
        if not depth:
            return 0
        if in_batches:
            return 1 + (await context.session.call_batch([("back", [depth - 1])]))[0]  # type: ignore[no-any-return]
        return 1 + await context.session.call("back", [depth - 1])  # type: ignore[no-any-return]

    one, other = memory_pair()
    options: dict[str, Any] = {"max_calls": 1, "timeout": None}
    async with Session(one, {"back": back}, **options) as first, Session(other, {"back": back}, **options) as second:
        calls = [session.call("back", [depth]) for session in (first, second) for depth in (4, 5)]
        assert await asyncio.wait_for(asyncio.gather(*calls), 100) == [4, 5, 4, 5]


@pytest.mark.parametrize("channel", ["tcp", "pipes"])
@pytest.mark.ci
async def test_the_loss_of_the_peer_is_noticed_while_reading_is_paused(channel: str) -> None:
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "m"}) + "\n"
    flood = (
        "import os, socket, sys\n"
        f"data = {request!r}.encode() * 1000\n"
        "if sys.argv[1:]:\n"
        "    channel = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "    write = channel.sendall\n"
        "else:\n"
        "    write = sys.stdout.buffer.write\n"
        "while True:\n"
        "    write(data)\n"
    )
    handlers = {"m": lambda: "x" * 1000}
    options: dict[str, Any] = {"response_bytes": 10_000, "max_inbox": 100, "hooks": Faults()}

    async def check(session: Session, pid: int | None) -> None:
        assert pid is not None
        engine, time = session._engine, asyncio.get_running_loop().time
        await eventually(lambda: engine.flow is Flow.STALLS and engine.deadline > time() + 2 * PAUSE_SECONDS)
        os.kill(pid, signal.SIGKILL)
        await asyncio.wait_for(session.wait_closed(), 5)

    async def over_tcp() -> None:
        arrived: asyncio.Queue[Session] = asyncio.Queue()

        async def serve(transport: Transport) -> None:
            async with Session(transport, handlers, **options) as session:
                arrived.put_nowait(session)
                await session.wait_closed()

        server = TcpServer(serve, "127.0.0.1", 0)
        await server.start()
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", flood, str(server.address[1]))
        try:
            await check(await arrived.get(), process.pid)
        finally:
            await process.wait()
            await server.close()

    async def over_pipes() -> None:
        transport = StdioClient([sys.executable, "-c", flood])
        async with Session(transport, handlers, **options) as session:
            await check(session, transport.pid)

    await (over_tcp() if channel == "tcp" else over_pipes())
