"""How a session ends: by either side, by a loss, and with handlers at work. Nothing is left afterwards."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import warnings
import weakref
from contextvars import ContextVar
from typing import Any

import pytest

from jsonrpc_fast import Notification, Request, Response, encode_notification, encode_request, encode_result
from jsonrpc_fast.codes import SessionErrorCode
from jsonrpc_fast.errors import CallCancelled, CallTimeout, ConnectionLost, RpcError, StateError
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.hooks import Outcome
from jsonrpc_fast.session import (
    AcpConvention,
    Convention,
    JsonRpcConvention,
    LspConvention,
    McpConvention,
    Session,
    SessionContext,
)
from jsonrpc_fast.transports import MemoryTransport, TcpClient, memory_pair

from ..support.session_pairs import Faults, session_and_wire, sessions, slow
from ..support.tables import rows
from ..support.waiting import eventually, forever, results_of, settle

pytestmark = pytest.mark.usefixtures("each_loop")

SAYS_GOODBYE = JsonRpcConvention(says_goodbye=True)


async def test_after_close() -> None:
    async with sessions() as (client, server):
        await client.close()
        await client.close()
        assert not client.is_connected
        with pytest.raises(ConnectionLost):
            await client.call("m")
        with pytest.raises(ConnectionLost):
            await client.notify("m")
        with pytest.raises(ConnectionLost):
            await client.call_batch([("m", None)])
        await server.wait_closed()
        assert not server.is_connected


@pytest.mark.virtual_time
async def test_close_lets_the_inbox_finish() -> None:
    async with sessions({"slow": slow}, max_handlers=1) as (client, server):
        calls = [asyncio.create_task(client.call("slow", [0.01])) for _ in range(4)]
        await settle()
        await server.close()
        assert await asyncio.gather(*calls) == ["done"] * 4


@pytest.mark.virtual_time
async def test_a_handler_may_call_while_the_session_closes() -> None:
    async def work(context: SessionContext) -> Any:
        await asyncio.sleep(0.02)
        return await context.session.call("ask")

    async with sessions({"work": work}, {"ask": lambda: "answer"}) as (client, server):
        call = asyncio.create_task(client.call("work"))
        await settle()
        await server.close()
        assert await call == "answer"


@pytest.mark.virtual_time
async def test_close_cancels_handlers_after_the_grace_period() -> None:
    ended = []

    async def work() -> None:
        try:
            await forever()
        finally:
            ended.append(True)

    async with sessions({"work": work}, close_seconds=0.05) as (client, server):
        call = asyncio.create_task(client.call("work"))
        await settle()
        started = asyncio.get_running_loop().time()
        await server.close()
        assert 0.04 < asyncio.get_running_loop().time() - started < 20
        assert ended == [True]
        with pytest.raises(ConnectionLost):
            await call


@pytest.mark.virtual_time
async def test_a_handler_with_a_cancellation_of_its_own_is_answered_while_the_session_closes() -> None:
    async def cancels_itself() -> None:
        await asyncio.sleep(0.01)
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await asyncio.sleep(0)

    async def waits_for_a_cancelled_task() -> None:
        waiting = asyncio.ensure_future(forever())
        asyncio.get_running_loop().call_later(0.01, waiting.cancel)
        await waiting

    handlers = {"itself": cancels_itself, "other": waits_for_a_cancelled_task}
    async with sessions(handlers, hooks=Faults()) as (client, server):
        calls = [asyncio.create_task(client.call(method)) for method in handlers]
        await settle()
        await server.close()
        assert [(type(error), error.code) for error in await results_of(*calls)] == [(RpcError, -32603)] * 2
        assert server.dropped_requests == 0


@pytest.mark.virtual_time
async def test_a_handler_that_ignores_its_cancellation_is_reported() -> None:
    release = asyncio.Event()
    faults = Faults()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    handlers = {"stubborn too": stubborn, "stubborn": stubborn, "forever": forever}
    async with sessions(handlers, close_seconds=0.02, hooks=faults) as (client, server):
        calls = [asyncio.create_task(client.call(method)) for method in handlers]
        await settle()
        await asyncio.wait_for(server.close(), 2)
        assert [(type(fault), str(fault)) for fault in faults.seen] == [
            (StateError, "a handler continues although it was cancelled: 'stubborn', 'stubborn too'"),
            (StateError, "the session was closed before it responded to 3 requests"),
        ]
        release.set()
        await settle()
        assert [type(error) for error in await results_of(*calls)] == [ConnectionLost] * 3


@pytest.mark.virtual_time
async def test_requests_during_close_are_refused() -> None:
    served: list[int] = []

    async with session_and_wire({"slow": slow, "count": served.append}) as (session, wire):
        wire.send(encode_request(1, "slow", [0.05]))
        await settle()
        closing = asyncio.create_task(session.close())
        await settle()
        wire.send(encode_request(2, "count", [1]))
        assert (await wire.next()).error.code == -32009
        assert await wire.next() == Response(1, "done")
        await wire.transport.close()
        await closing
        assert served == []


async def outcome_of(call: Any) -> Any:
    """Return the result of a call; for a loss, whether the call was sent."""
    try:
        return await call
    except ConnectionLost as error:
        return error.was_sent


@rows("how", ["the server stops", "the session closes"])
@rows("ids", ["numbers", "own ids"])
@pytest.mark.virtual_time
async def test_after_a_goodbye_it_is_known_what_was_not_served(how: str, ids: str) -> None:
    served: list[int] = []
    numbers = iter(range(100, 200))
    options: dict[str, Any] = {"id_factory": lambda: f"call {next(numbers)}"} if ids == "own ids" else {}

    async def work(number: int) -> int:
        served.append(number)
        await asyncio.sleep(0.02)
        return number

    one, transport = memory_pair()
    client, server = Session(one, **options), Session(transport, {"work": work}, convention=SAYS_GOODBYE)
    async with server, client:
        read = [asyncio.create_task(client.call("work", [number])) for number in (1, 2)]
        batch = asyncio.create_task(client.call_batch([("work", [3]), ("work", [4])]))
        await settle()
        assert served == [1, 2, 3, 4]
        unread = [asyncio.create_task(outcome_of(client.call("work", [number]))) for number in (5, 6)]
        unread.append(asyncio.create_task(client.call_batch([("work", [7]), Notification("work", [8])])))
        if how == "the session closes":
            closing = asyncio.create_task(server.close())
        if asyncio.get_running_loop().get_task_factory() is None:  # an eager task has sent its call already
            await asyncio.sleep(0)  # the calls are sent, but not received
        if how == "the server stops":
            assert transport.onstop is not None
            transport.onstop(5.0)
        await client.wait_leaving()
        assert (client.is_connected, client.is_leaving) == (True, True)
        results: list[Any] = await asyncio.gather(*unread)
        assert results[:2] == [False, False]
        assert [outcome and outcome.was_sent for outcome in results[2]] == [False, None]
        for late in (client.call("work", [9]), client.notify("work", [9]), client.call_batch([("work", [9])])):
            assert await outcome_of(late) is False
        assert await asyncio.gather(*read) == [1, 2]
        assert await batch == [3, 4]
        await server.wait_closed()
        if how == "the session closes":
            await closing
        assert served == [1, 2, 3, 4]
        assert client.fault is None
        assert await outcome_of(client.call("work", [10])) is False


async def test_what_the_transport_refuses_was_not_sent() -> None:
    """The transport has just begun to close, and the session does not know it yet."""
    async with session_and_wire() as (session, wire):
        assert isinstance(wire.other, MemoryTransport)
        wire.other.begin_closing()
        for sending in (session.call("m"), session.call_batch([("m", None)]), session.notify("m")):
            assert await outcome_of(sending) is False


@pytest.mark.virtual_time
async def test_what_has_not_begun_when_the_time_is_over_is_refused() -> None:
    """The goodbye says that they were read. Only the call that has begun may have been served."""
    served: list[int] = []

    async def work(number: int) -> None:
        served.append(number)
        await forever()

    one, other = memory_pair()
    async with Session(other, {"work": work}, max_handlers=1, hooks=Faults()) as server, Session(one) as client:
        calls = [client.call("work", [number]) for number in (1, 2)]
        outcomes = [asyncio.ensure_future(call) for call in (*calls, client.call_batch([("work", [3]), ("work", [4])]))]
        await settle()
        await server.close(1)
        first, second, batch = await results_of(*outcomes)
        assert (type(first), first.was_sent) == (ConnectionLost, "maybe")
        for error in (second, *batch):
            assert (type(error), error.code) == (RpcError, SessionErrorCode.SERVER_BUSY)
        assert served == [1]
        assert server.dropped_requests == 1


async def test_a_goodbye_wakes_what_waits_for_room() -> None:
    async with session_and_wire(max_calls=1) as (session, wire):
        first = asyncio.create_task(session.call("m"))
        waiting = asyncio.create_task(outcome_of(session.call("m")))
        await settle()
        wire.send(encode_notification("rpc.goodbye", {"last": 1}))
        assert await waiting is False
        assert not first.done()
        wire.send(encode_result(1, "done"))
        assert await first == "done"


@rows("params", [None, [], {}, {"last": True}, {"last": [1]}, {"last": {}}])
async def test_a_goodbye_that_cannot_be_read_is_a_notification_like_others(params: Any) -> None:
    async with session_and_wire() as (session, wire):
        call = asyncio.create_task(session.call("m"))
        await settle()
        wire.send(encode_notification("rpc.goodbye", params))
        await settle()
        assert not session.is_leaving
        wire.send(encode_result(1, "done"))
        assert await call == "done"


@pytest.mark.parametrize("convention", [JsonRpcConvention, Convention, LspConvention, McpConvention])
async def test_no_goodbye_is_sent_unless_it_is_asked_for(convention: type[Convention]) -> None:
    async with session_and_wire({"m": lambda: 1}, convention=convention()) as (session, wire):
        wire.send(encode_request(1, "m", {}))
        assert await wire.next() == Response(1, 1)
        closing = asyncio.create_task(session.close())
        await settle()
        assert wire.received == []
        await wire.transport.close()
        await closing


@rows(
    "id, sent",
    [
        (2**64, [Notification("rpc.goodbye", {"last": 2**64})]),
        (-(2**63) - 1, [Notification("rpc.goodbye", {"last": -(2**63) - 1})]),
        (1.5, [Notification("rpc.goodbye", {"last": 1.5})]),
        (None, []),  # it would say that no request was read
    ],
)
async def test_an_id_that_a_goodbye_cannot_name_does_not_keep_a_session_open(id: Any, sent: list[Any]) -> None:
    async with session_and_wire({"m": lambda: 1}, convention=SAYS_GOODBYE) as (session, wire):
        wire.send(encode_request(id, "m"))
        assert await wire.next() == Response(id, 1)
        await session.close()
        assert not session.is_connected
        await settle()
        assert wire.received == sent


@rows("convention", [LspConvention(), McpConvention(), AcpConvention()])
@rows("ends_by", ["timeout", "task", "cancel"])
@pytest.mark.virtual_time
async def test_calls_whose_ids_exceed_64_bits_are_cancelled_by_their_ids(convention: Convention, ends_by: str) -> None:
    ids = iter(range(2**64, 2**64 + 2))
    async with session_and_wire(convention=convention, id_factory=lambda: next(ids)) as (session, wire):
        calls = [asyncio.create_task(session.call("m", timeout=10)) for _ in range(2)]
        assert [(await wire.next()).id for _ in calls] == [2**64, 2**64 + 1]
        if ends_by == "task":
            for call in calls:
                call.cancel()
        elif ends_by == "cancel":
            assert session.cancel(2**64)
            assert session.cancel(2**64 + 1)
        expected = {"timeout": CallTimeout, "task": asyncio.CancelledError, "cancel": CallCancelled}[ends_by]
        outcomes = await results_of(*calls)
        assert [type(outcome) for outcome in outcomes] == [expected, expected]
        await settle()
        ids_of = [next(iter(message.params.values())) for message in wire.received]
        assert ids_of == [2**64, 2**64 + 1]


async def test_a_client_that_served_nothing_leaves_without_a_word() -> None:
    async with session_and_wire({"news": print}) as (session, wire):
        wire.send(encode_notification("other"))
        closing = asyncio.create_task(session.close())
        await settle()
        assert wire.received == []
        await wire.transport.close()
        await closing


async def test_calls_that_were_lost_in_flight_may_have_been_sent() -> None:
    async with session_and_wire() as (session, wire):
        with pytest.raises(StateError):
            await Session(memory_pair()[0]).wait_leaving()
        calls = [asyncio.create_task(outcome_of(session.call("m"))) for _ in range(2)]
        await settle()
        await wire.transport.disconnect()
        assert await asyncio.gather(*calls) == ["maybe", "maybe"]
        await session.wait_leaving()
        assert await outcome_of(session.call("m")) is False


@pytest.mark.virtual_time
async def test_a_cancelled_close_does_not_wait() -> None:
    async with sessions({"forever": forever}) as (client, server):
        call = asyncio.create_task(client.call("forever"))
        await settle()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(server.close(), 0.05)
        assert not server.is_connected
        with pytest.raises(ConnectionLost):
            await call


@pytest.mark.virtual_time
async def test_two_concurrent_closes_of_which_one_is_cancelled() -> None:
    async with sessions({"forever": forever}) as (client, server):
        call = asyncio.create_task(client.call("forever"))
        await settle()
        patient = asyncio.create_task(server.close())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(server.close(), 0.05)
        await patient
        with pytest.raises(ConnectionLost):
            await call


@pytest.mark.virtual_time
async def test_a_peer_that_does_not_read_cannot_block_a_cancelled_close() -> None:
    one, other = memory_pair()
    await other.connect()
    session = Session(one)
    await session.start()
    for _ in range(20):
        session.notify_soon("m", ["x" * 100_000])
    started = asyncio.get_running_loop().time()
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(session.close(), 0.05)
    assert not one.is_connected
    assert asyncio.get_running_loop().time() - started < 4
    await other.disconnect()


@rows("pause", [0, 0.01])
@pytest.mark.virtual_time
async def test_a_handler_may_close_the_session(pause: float) -> None:
    ended = []

    async def leave(context: SessionContext) -> None:
        if pause:
            await asyncio.sleep(pause)
        await context.session.close()
        ended.append(True)

    class Hooks:
        def request_served(self, trace: Any, id: Any, method: str, outcome: Outcome, code: Any, seconds: float) -> None:
            ended.append(outcome)

    async with sessions({"leave": leave}, hooks=Hooks()) as (client, server):
        started = asyncio.get_running_loop().time()
        with pytest.raises(ConnectionLost):
            await client.call("leave")
        await server.wait_closed()
        await settle()
        assert ended == [True, Outcome.CANCELLED]
        assert server.dropped_requests == 1  # its own request has no response, either
        assert asyncio.get_running_loop().time() - started < 4


async def test_a_handler_may_respond_before_its_session_is_closed() -> None:
    tasks = []

    async def leave(context: SessionContext) -> str:
        tasks.append(asyncio.create_task(context.session.close()))
        return "bye"

    async with sessions({"leave": leave}) as (client, server):
        assert await client.call("leave") == "bye"
        await server.wait_closed()
        assert server.dropped_requests == 0


@pytest.mark.virtual_time
async def test_requests_that_a_second_signal_cuts_off_are_counted() -> None:
    """The server aborts the connection while the session waits for its handlers."""
    async with sessions({"slow": slow}) as (client, server):
        call = asyncio.ensure_future(client.call("slow", [9]))
        await settle()
        closing = asyncio.ensure_future(server.close())
        await settle()
        await server._transport.disconnect()
        await closing
        assert server.dropped_requests == server._transport.dropped_requests == 1
        with pytest.raises(ConnectionLost):
            await call


@pytest.mark.virtual_time
async def test_the_loss_of_the_connection_settles_calls_and_cancels_handlers() -> None:
    cancelled = []

    async def work() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async with session_and_wire({"work": work}, close_seconds=0.02) as (session, wire):
        call = asyncio.create_task(session.call("m"))
        results: list[Any] = []
        session.call_soon("m", on_result=results.append, on_error=results.append)
        wire.send(b'{"jsonrpc":"2.0","id":1,"method":"work"}')
        await settle()
        await wire.transport.disconnect()
        with pytest.raises(ConnectionLost):
            await call
        assert isinstance(results[0], ConnectionLost)
        await session.wait_closed()
        assert cancelled == [True]
        assert not session.is_connected


@pytest.mark.virtual_time
async def test_the_error_of_the_transport_is_the_cause() -> None:
    broken = OSError("the cable")

    async with session_and_wire(close_seconds=0.01, hooks=Faults()) as (session, wire):
        call = asyncio.create_task(session.call("m", timeout=None))
        await asyncio.sleep(0)
        wire.other.channel_events.lost(broken)
        with pytest.raises(ConnectionLost) as lost:
            await call
        assert lost.value.__cause__ is broken


@rows("kind", ["timed out", "in flight"])
@pytest.mark.virtual_time
async def test_close_does_not_wait_for_a_peer_that_works_on_a_lost_call(kind: str) -> None:
    async with sessions({"forever": forever}, hooks=Faults(), close_seconds=4) as (client, server):
        if kind == "timed out":
            with pytest.raises(CallTimeout):
                await client.call("forever", timeout=0.01)
        else:
            client.call_soon("forever")
            await settle()
        started = asyncio.get_running_loop().time()
        await client.close()
        assert asyncio.get_running_loop().time() - started < 4
        await server.close(grace_seconds=0)


@rows(
    ("convention", "notified"),
    [
        (McpConvention(), [Notification("notifications/cancelled", {"requestId": 1})]),
        (LspConvention(), [Notification("$/cancelRequest", {"id": 1})]),
        (AcpConvention(), [Notification("$/cancel_request", {"requestId": 1})]),
        (Convention(), []),
    ],
)
async def test_close_cancels_the_calls_at_the_peer(convention: Convention, notified: list[Notification]) -> None:
    async with session_and_wire(convention=convention) as (session, wire):
        call = asyncio.create_task(session.call("forever"))
        assert await wire.next() == Request(1, "forever")
        await session.close()
        await settle()
        assert wire.received == notified
        with pytest.raises(ConnectionLost, match="this session was closed by this side"):
            await call


@pytest.mark.parametrize("turns", range(5))
async def test_a_handler_with_a_timeout_whose_task_has_not_begun_is_closed(turns: int) -> None:
    """The connection is lost some turns of the loop after the ordered handler before it has ended."""
    gate = asyncio.get_running_loop().create_future()

    async def first() -> None:
        await gate

    handlers = Handlers({"second": forever}, timeout=5)
    handlers.register("first", first, ordered=True)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        async with session_and_wire(handlers) as (session, wire):
            wire.send(encode_request(1, "first"))
            wire.send(encode_request(2, "second"))
            await settle()
            gate.set_result(None)
            for _ in range(turns):
                await asyncio.sleep(0)
            wire.other.abort()
            await session.wait_closed()
        gc.collect()  # a coroutine that was never awaited is reported now
    assert [str(each.message) for each in warned] == []


async def test_a_closed_session_is_freed() -> None:
    """Timers that were cancelled stay with the loop while an earlier one waits."""
    earlier = asyncio.get_running_loop().call_later(60, print)

    async def ask(context: SessionContext) -> Any:
        return await context.session.call("double", [1], timeout=600)

    handlers = Handlers({"ask": ask}, timeout=1200)
    async with session_and_wire(handlers, timeout=300) as (session, wire):
        wire.send(encode_request(1, "ask"))
        assert await wire.next() == Request(1, "double", [1])
        wire.send(encode_result(1, 2))
        assert await wire.next() == Response(1, 2)
    freed = weakref.ref(session)
    del session, wire
    await settle()
    gc.collect()
    assert freed() is None
    earlier.cancel()


@rows("waits", (False, True))
async def test_a_timer_of_a_handler_does_not_keep_its_session(waits: bool) -> None:
    timers: list[asyncio.TimerHandle] = []

    async def remind() -> int:
        if waits:
            await asyncio.sleep(0)
        timers.append(asyncio.get_running_loop().call_later(600, print))
        return 1

    async with session_and_wire({"remind": remind}) as (session, wire):
        wire.send(encode_request(1, "remind"))
        assert await wire.next() == Response(1, 1)
    freed = weakref.ref(session)
    del session, wire
    await settle()
    gc.collect()
    assert freed() is None
    timers.pop().cancel()


async def test_a_deadline_is_not_in_the_context_of_a_request() -> None:
    place: ContextVar[str] = ContextVar("place")
    place.set("session")

    class Settled:
        def call_settled(self, *_: Any) -> None:
            seen.append(place.get())

    async def ask(context: SessionContext) -> None:
        place.set("request")
        with pytest.raises(CallTimeout):
            await context.session.call("nothing", timeout=0.01)

    seen: list[str] = []
    async with session_and_wire({"ask": ask}, hooks=Settled()) as (_, wire):
        wire.send(encode_request(1, "ask"))
        await wire.next()
        assert await wire.next() == Response(1, None)
    assert seen == ["session"]


@rows("how", ["the peer ends", "this side closes"])
async def test_a_request_that_is_cut_off_is_no_error_in_the_log(caplog: pytest.LogCaptureFixture, how: str) -> None:
    caplog.set_level(logging.DEBUG, "jsonrpc_fast.session")
    async with session_and_wire({"forever": forever}, close_seconds=0) as (session, wire):
        wire.send(encode_request(1, "forever"))
        await settle()
        if how == "the peer ends":
            await wire.transport.close()
        else:
            await session.close()
        await session.wait_closed()
        assert session.dropped_requests == 1
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("DEBUG", "StateError: the session was closed before it responded to 1 requests")
    ]


@pytest.mark.virtual_time
async def test_a_handler_that_continues_after_its_cancellation_is_counted_once() -> None:
    async def linger() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(60)

    async with sessions({"linger": linger}, hooks=Faults()) as (client, server):
        call = asyncio.create_task(client.call("linger"))
        await settle()
        await server.close(grace_seconds=0)
        assert server.dropped_requests == 1
        with pytest.raises(ConnectionLost):
            await call
        await asyncio.sleep(60)


async def test_requests_that_a_cancelled_close_cuts_off_are_counted() -> None:
    async with session_and_wire({"forever": forever, "add": lambda a, b: a + b}) as (session, wire):
        wire.send(encode_request(1, "forever"))
        wire.send([Request(2, "add", [1, 2]), Request(3, "forever")])
        await settle()
        closing = asyncio.create_task(session.close())
        await settle()
        closing.cancel()
        assert [type(result) for result in await results_of(closing)] == [asyncio.CancelledError]
        assert session.dropped_requests == session._transport.dropped_requests == 2


async def test_a_batch_whose_request_closes_the_session_gets_its_other_responses() -> None:
    async def leave(context: SessionContext) -> None:
        await context.session.close()

    async with session_and_wire({"leave": leave, "add": lambda a, b: a + b}) as (session, wire):
        wire.send([Request(1, "leave"), Request(2, "add", [1, 2])])
        assert await wire.next() == [Response(2, 3)]
        await session.wait_closed()


@pytest.mark.virtual_time
async def test_the_earlier_deadline_of_two_closes_applies() -> None:
    faults = Faults()

    async with sessions({"forever": forever}, hooks=faults) as (client, server):
        calls = [asyncio.create_task(client.call("forever")) for _ in range(2)]
        await settle()
        patient = asyncio.create_task(server.close(grace_seconds=None))
        await asyncio.sleep(0.02)
        assert not patient.done()
        await server.close(grace_seconds=0.01)
        await patient
        assert server.dropped_requests == 2
        for result in await results_of(*calls):
            assert isinstance(result, ConnectionLost)
    assert [str(fault) for fault in faults.seen] == ["the session was closed before it responded to 2 requests"]


@rows("value", [-1, "5", float("nan")])
async def test_an_invalid_grace_period(value: Any) -> None:
    async with sessions() as (client, _):
        with pytest.raises((TypeError, ValueError), match="grace_seconds"):
            await client.close(grace_seconds=value)
        assert client.is_connected


@rows(("end_seconds", "answered"), [(None, True), (0.05, False), (5, True)])
@pytest.mark.virtual_time
async def test_requests_received_before_the_peer_half_closed(end_seconds: float | None, answered: bool) -> None:
    one, other = memory_pair()
    answers: list[Any] = []
    other.onmessage = answers.append
    await other.start()
    session = Session(one, {"slow": slow}, close_seconds=0.05, end_seconds=end_seconds, hooks=Faults())
    async with session:
        other.send(Request(1, "slow", [0.3]))
        await settle()
        other.channel.finish()  # it still reads
        await session.wait_closed()
        assert answers == ([Response(1, "done")] if answered else [])
        assert session.dropped_requests == one.dropped_requests == (0 if answered else 1)
    await other.disconnect()


@rows("ends", ["end", "end close", "close end", "part end"])
@pytest.mark.virtual_time
async def test_a_handler_notifies_while_its_session_ends(ends: str) -> None:
    """As for a pipeline that ends its stream and reads what comes, and for a host that ends a child."""

    async def work(context: SessionContext) -> str:
        await asyncio.sleep(0.1)
        await context.session.notify("m", [1])
        context.session.notify_soon("m", [2])
        with pytest.raises(ConnectionLost):
            await context.session.call("m")  # there will be no response
        return "done"

    one, other = memory_pair()
    received: list[Any] = []
    other.onmessage = received.append
    await other.start()
    async with Session(one, {"work": work}, hooks=Faults()) as session:
        other.send(Request(1, "work"))
        await settle()
        tasks = []
        for end in ends.split():
            if end == "end":
                other.channel.finish()
            elif end == "part":
                other.channel.write(b'{"jsonrpc')
            else:
                tasks.append(asyncio.create_task(session.close()))
            await settle()
        await session.wait_closed()
        await asyncio.gather(*tasks)
        assert received[-3:] == [Notification("m", [1]), Notification("m", [2]), Response(1, "done")]
        with pytest.raises(ConnectionLost):
            await session.notify("m")
    await other.disconnect()


@rows("reads", [True, False])
async def test_a_handler_waits_for_a_peer_that_has_half_closed_and_does_not_read(reads: bool) -> None:
    sent = 0
    served = asyncio.Event()

    async def work(context: SessionContext) -> None:
        nonlocal sent
        await context.session.wait_leaving()
        try:
            for _ in range(200):
                await context.session.notify("m", ["x" * 100_000])
                sent += 1
        finally:
            served.set()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        transport = TcpClient(*listening.getsockname())
        async with Session(transport, {"work": work}, end_seconds=None):
            with listening.accept()[0] as peer:
                peer.sendall(encode_request(1, "work"))
                peer.shutdown(socket.SHUT_WR)
                await eventually(lambda: transport.write_buffer_bytes > 256 * 1024)
                await settle(1000)
                assert sent < 100  # the system takes some megabytes
                assert transport.write_buffer_bytes < 500_000
                if reads:
                    received = b"".join(await asyncio.to_thread(lambda: [*iter(lambda: peer.recv(65536), b"")]))
                    assert received.count(b'"m"') == 200
                    assert received.endswith(b'{"jsonrpc":"2.0","id":1,"result":null}\n')
            await served.wait()
    assert (sent == 200) is reads


@rows(("grace", "answered"), [(None, True), (0.05, False), (5, True)])
@pytest.mark.virtual_time
async def test_a_transport_asks_its_session_to_close(grace: float | None, answered: bool) -> None:
    """Like a server that closes: running handlers may still call their peer."""

    async def work(context: SessionContext) -> Any:
        await asyncio.sleep(0.2)
        return await context.session.call("ask")

    one, transport = memory_pair()
    client = Session(one, {"ask": lambda: "answer"})
    server = Session(transport, {"work": work}, hooks=Faults())
    async with server, client:
        call = asyncio.create_task(client.call("work"))
        await settle()
        assert transport.onstop is not None
        transport.onstop(grace)
        if answered:
            assert await call == "answer"
        else:
            with pytest.raises(ConnectionLost):
                await call
        await server.wait_closed()
        assert server.dropped_requests == transport.dropped_requests == (not answered)


@rows("how", ["wait_for", "task", "gather"])
@pytest.mark.virtual_time
async def test_a_handler_may_close_the_session_from_a_task_of_its_own(how: str) -> None:
    ended = []

    async def leave(context: SessionContext) -> None:
        await asyncio.sleep(0.02)
        closing = context.session.close()
        if how == "wait_for":
            await asyncio.wait_for(closing, 10)
        elif how == "task":
            await asyncio.create_task(closing)
        else:
            await asyncio.gather(closing, asyncio.sleep(0))
        ended.append(True)

    async with sessions({"leave": leave, "slow": slow}, max_handlers=1) as (client, server):
        started = asyncio.get_running_loop().time()
        leaving = asyncio.create_task(client.call("leave"))
        also = asyncio.create_task(client.call("slow", [0.01]))
        with pytest.raises(ConnectionLost):
            await leaving
        assert await also == "done"
        await server.wait_closed()
        await settle()
        assert ended == [True]
        assert asyncio.get_running_loop().time() - started < 4
