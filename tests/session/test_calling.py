"""Calls: how they settle, what they wait for, and how their outcome is reported."""

from __future__ import annotations

import asyncio
import math
import re
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from jsonrpc_fast import (
    JSONRPC,
    Notification,
    ParseError,
    Request,
    Response,
    decode,
    encode_notification,
    encode_result,
)
from jsonrpc_fast.errors import (
    CallCancelled,
    CallTimeout,
    ConnectionLost,
    EncodeError,
    InvalidResponse,
    RpcError,
    StateError,
)
from jsonrpc_fast.session import (
    Convention,
    LspConvention,
    McpConvention,
    ReconnectingSession,
    Session,
    SessionContext,
    broadcast,
)
from jsonrpc_fast.transports import MemoryTransport, TcpClient, memory_pair

from ..support.payloads_of_all_types import PARAMS
from ..support.session_pairs import Faults, Wire, fail, session_and_wire, sessions
from ..support.tables import rows
from ..support.waiting import eventually, results_of, settle

pytestmark = pytest.mark.usefixtures("each_loop")


class NotFound(RpcError):
    pass


class Unlike(RpcError):
    def __init__(self, only: str) -> None:
        super().__init__(1, only)


async def test_an_error_class_with_other_arguments_leaves_the_error() -> None:
    faults = Faults()

    options = {"errors": {-32002: Unlike}, "hooks": faults}
    async with sessions({"fail": fail}, client_options=options) as (client, _):
        with pytest.raises(RpcError) as caught:
            await client.call("fail", [-32002])
        assert (type(caught.value), caught.value.code) == (RpcError, -32002)
    assert [type(error) for error in faults.seen] == [TypeError]


async def test_a_remote_error_is_raised_by_its_code() -> None:
    async with sessions({"fail": fail}, client_options={"errors": {-32002: NotFound}}) as (client, _):
        with pytest.raises(NotFound) as caught:
            await client.call("fail", [-32002])
        assert (caught.value.code, caught.value.message, caught.value.data) == (-32002, "no", {"code": -32002})
        with pytest.raises(RpcError) as other:
            await client.call("fail", [-32003])
        assert type(other.value) is RpcError


async def test_a_result_with_a_type() -> None:
    pytest.importorskip("msgspec", reason="the extra `typed` is not installed")
    async with sessions({"echo": lambda value: value}) as (client, _):
        assert await client.call("echo", [[1, 2]], returns=set[int]) == {1, 2}
        with pytest.raises(
            InvalidResponse, match=r'^the result of echo has another type: /1: is not of type "integer"'
        ):
            await client.call("echo", [[1, "secret"]], returns=list[int])
        with pytest.raises(TypeError):
            await client.call("unknown", returns=object)  # nothing is sent: the method would be an RpcError


async def test_a_batch_with_types() -> None:
    pytest.importorskip("msgspec", reason="the extra `typed` is not installed")
    handlers = {"echo": lambda value: value, "fail": fail}
    async with sessions(handlers) as (client, _):
        items: Any = [("echo", [[1, 2]]), Notification("echo", [[3]]), ("echo", [["secret"]]), ("fail", [5])]
        one, nothing, other, failed = await client.call_batch(items, returns=set[int])
        assert (one, nothing) == ({1, 2}, None)
        assert (type(other), type(failed)) == (InvalidResponse, RpcError)
        assert str(other) == 'the result of echo has another type: /0: is not of type "integer"'
        found = await client.call_batch(items[:3], returns=[list[int], None, tuple[str]])
        assert found == [[1, 2], None, ("secret",)]
        assert await client.call_batch(items[:2]) == [[1, 2], None]
        with pytest.raises(ValueError, match=r"^returns has 1 types for 3 items$"):
            await client.call_batch(items[:3], returns=[int])
        future = await asyncio.to_thread(client.call_threadsafe, "echo", [[1, 2]], returns=set[int])
        assert await asyncio.wrap_future(future) == {1, 2}


async def test_params_that_cannot_be_written_are_named() -> None:
    params = {"items": [1, {"a/b": object(), "secret": "secret"}]}
    async with sessions({}) as (client, _):
        for sending in (client.call("shop.buy", params), client.notify("shop.buy", params)):
            with pytest.raises(EncodeError) as caught:
                await sending
            assert str(caught.value) == "Type is not JSON serializable: object: /items/1/a~1b of shop.buy"
        with pytest.raises(EncodeError, match=r": /0 of shop\.buy$"):
            await client.call("shop.buy", [{(): 1}])
        with pytest.raises(EncodeError, match=r": the params of shop\.buy$"):
            await client.call("shop.buy", {(): 1})
        with pytest.raises(EncodeError, match=r": the method$"):
            await client.call("shop\ud800", [1])
    async with sessions({}, client_options={"id_factory": lambda: "\ud800"}) as (client, _):
        for sending in (client.call("shop.buy"), client.call_batch([("shop.buy", [1])])):
            with pytest.raises(EncodeError, match=r": the id$"):
                await sending


async def test_sessions_write_a_value_as_the_codec_does() -> None:
    async def read(wire: Wire, sending: Any) -> Any:
        """The next message of the session, or None if it refuses what it is to send."""
        task = asyncio.ensure_future(sending)
        waiting = asyncio.ensure_future(wire.next())
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        if task.done() and isinstance(task.exception(), (EncodeError, TypeError)):
            waiting.cancel()
            return None
        message = await waiting
        task.cancel()
        return message

    value: Any = None
    async with session_and_wire({"get": lambda: value}) as (session, wire):
        for value in PARAMS:
            try:
                expected = decode(encode_notification("m", value)).params
            except TypeError:
                expected = "refused"
            for sending in (session.notify("m", value), session.call("m", value)):
                found = await read(wire, sending)
                assert repr(found.params if found else "refused") == repr(expected), value
                while wire.received:
                    wire.received.pop()  # a cancellation
            found = await read(wire, session.call_batch([("m", value), Notification("m", [1])]))
            assert repr(found[0].params if found else "refused") == repr(expected), value
            wire.send(b'{"jsonrpc":"2.0","id":1,"method":"get"}\n')
            try:
                expected = decode(encode_result(1, value)).result
            except TypeError:
                expected = None
            found = await wire.next()
            assert repr(found.result) == repr(expected), value


async def test_a_malformed_answer_is_raised() -> None:
    async with session_and_wire() as (session, wire):
        call = asyncio.create_task(session.call("m"))
        await wire.next()
        wire.send(b'{"jsonrpc":"2.0","id":1,"error":{"code":1}}')
        with pytest.raises(
            InvalidResponse,
            match=r"^the response is malformed: the message of the error is not a string; the profile CLIENT accepts",
        ) as raised:
            await call
        assert isinstance(raised.value.__cause__, ParseError)


@pytest.mark.parametrize(
    ("convention", "expected"),
    [
        (Convention(), None),
        (LspConvention(), Notification("$/cancelRequest", {"id": 1})),
        (McpConvention(), Notification("notifications/cancelled", {"requestId": 1, "reason": "timeout"})),
    ],
    ids=["none", "lsp", "mcp"],
)
@pytest.mark.virtual_time
async def test_a_timeout(convention: Convention, expected: Notification | None) -> None:
    faults = Faults()

    async with session_and_wire(convention=convention, hooks=faults) as (session, wire):
        started = asyncio.get_running_loop().time()
        with pytest.raises(CallTimeout):
            await session.call("m", timeout=0.03)
        assert 0.025 < asyncio.get_running_loop().time() - started < 20
        assert await wire.next() == Request(1, "m")
        if expected is not None:
            assert await wire.next() == expected
        # The late response is recognised: it is not a fault.
        wire.send(b'{"jsonrpc":"2.0","id":1,"result":1}')
        await settle()
        assert faults.seen == []
        wire.send(b'{"jsonrpc":"2.0","id":1,"result":1}')
        await settle()
        assert [type(error) for error in faults.seen] == [StateError]


@pytest.mark.virtual_time
async def test_timeouts_of_the_session_and_of_the_call() -> None:
    async with session_and_wire(timeout=0.02) as (session, wire):
        longer = asyncio.create_task(session.call("longer", timeout=None))
        await settle()
        with pytest.raises(CallTimeout):
            await session.call("m")
        await asyncio.sleep(0.03)
        assert not longer.done()
        wire.send(b'{"jsonrpc":"2.0","id":1,"result":"late"}')
        assert await longer == "late"


async def test_the_default_timeout_is_300_seconds() -> None:
    async with session_and_wire() as (session, _):
        now = asyncio.get_running_loop().time()
        session.call_soon("m")
        call = session._engine.calls.find(1)
        assert call is not None
        assert call.expires - now == pytest.approx(300, abs=1)


@pytest.mark.virtual_time
async def test_calls_expire_in_the_order_of_their_deadlines() -> None:
    async with session_and_wire() as (session, _):
        ended: list[float] = []

        async def call(timeout: float) -> None:
            with pytest.raises(CallTimeout):
                await session.call("m", timeout=timeout)
            ended.append(timeout)

        await asyncio.gather(*[call(timeout) for timeout in (0.15, 0.05, 0.1, 0.0)])
        assert ended == [0.0, 0.05, 0.1, 0.15]


@pytest.mark.parametrize("convention", [LspConvention(), McpConvention()], ids=["lsp", "mcp"])
@pytest.mark.virtual_time
async def test_progress_keeps_a_call_alive(convention: Convention) -> None:
    seen: list[Any] = []
    seconds = 0.6  # a busy machine may delay a progress notification for two thirds of it

    async def work(context: SessionContext, **_: Any) -> str:
        for number in range(5):
            await asyncio.sleep(seconds / 3)
            assert context.report_progress({"progress": number})
        return "done"

    async with sessions({"work": work}, convention=convention, client_options={"convention": convention}) as (
        client,
        _,
    ):
        assert await client.call("work", idle_timeout=seconds, on_progress=seen.append) == "done"
        assert seen == [{"progress": number} for number in range(5)]
        with pytest.raises(CallTimeout):
            await client.call("work", idle_timeout=seconds, timeout=seconds * 1.2)


@pytest.mark.virtual_time
async def test_a_call_without_progress_idles_out() -> None:
    async with session_and_wire(convention=McpConvention()) as (session, wire):
        with pytest.raises(CallTimeout):
            await session.call("m", {}, idle_timeout=0.02)
        assert (await wire.next()).params == {"_meta": {"progressToken": 1}}


@pytest.mark.parametrize(
    ("convention", "expected"),
    [
        (Convention(), []),
        (LspConvention(), [Notification("$/cancelRequest", {"id": 1})]),
        (McpConvention(), [Notification("notifications/cancelled", {"requestId": 1})]),
    ],
    ids=["none", "lsp", "mcp"],
)
async def test_a_cancelled_task_cancels_its_call(convention: Convention, expected: list[Notification]) -> None:
    async with session_and_wire(convention=convention) as (session, wire):
        call = asyncio.create_task(session.call("m"))
        await wire.next()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert session.is_idle
        await settle()
        assert wire.received == expected


async def test_a_call_is_cancelled_by_its_id() -> None:
    async with session_and_wire(convention=McpConvention()) as (session, wire):
        results: list[Any] = []
        id = session.call_soon("m", on_error=results.append)
        assert session.cancel(id, "enough")
        assert [type(result) for result in results] == [CallCancelled]
        assert not session.cancel(id)
        assert not session.cancel("unknown")
        await wire.next()
        assert await wire.next() == Notification("notifications/cancelled", {"requestId": 1, "reason": "enough"})


async def test_an_answer_and_a_cancellation_in_one_turn() -> None:
    """The response has arrived, but the waiting task is cancelled before it runs again."""

    async with session_and_wire(convention=LspConvention()) as (session, wire):
        call = asyncio.create_task(session.call("m"))
        await wire.next()
        session._engine.receive(Response(1, "there"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await settle()
        assert wire.received == []


async def test_a_call_is_cancelled_whose_connection_is_lost_meanwhile() -> None:
    async with session_and_wire() as (session, wire):
        call = asyncio.create_task(session.call("m"))
        await wire.next()
        call.cancel()
        await wire.other.disconnect()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_callbacks() -> None:
    results: list[Any] = []
    loops: list[int] = []

    def note(result: Any) -> None:
        loops.append(threading.get_ident())
        results.append(result)

    async with sessions({"fail": fail, "add": lambda a, b: a + b}) as (client, _):
        assert client.call_soon("add", [1, 2], on_result=note, on_error=note) == 1
        assert client.call_soon("fail", [5], on_result=note, on_error=note) == 2
        client.call_soon("add", [1, 2])
        client.call_soon("fail", [5])
        assert results == []
        await settle()
    assert results[0] == 3
    assert isinstance(results[1], RpcError)
    assert len(results) == 2
    assert set(loops) == {threading.get_ident()}


async def test_a_callback_that_fails_is_a_fault() -> None:
    faults = Faults()

    cancelled = asyncio.get_running_loop().create_future()
    cancelled.cancel()
    async with sessions({"add": lambda a, b: a + b}, client_options={"hooks": faults}) as (client, _):
        client.call_soon("add", [1, 2], on_result=lambda result: 1 / 0)
        client.call_soon("add", [1, 2], on_result=lambda result: cancelled.result())
        assert await client.call("add", [1, 2]) == 3
        assert [type(error) for error in faults.seen] == [ZeroDivisionError, asyncio.CancelledError]


async def test_params_that_cannot_be_encoded_raise_and_leave_no_call() -> None:
    async with sessions() as (client, _):
        for send in (client.call, client.notify):
            with pytest.raises(EncodeError):
                await send("m", [object()])
            with pytest.raises(TypeError):
                await send("m", 5)
        with pytest.raises(EncodeError):
            await client.call_batch([("m", None), ("m", [object()])])
        assert client.is_idle


async def test_a_batch() -> None:
    noted: list[Any] = []

    async with sessions({"fail": fail, "add": lambda a, b: a + b, "note": noted.append}) as (client, _):
        results = await client.call_batch(
            [("add", [1, 2]), Notification("note", [7]), ("fail", [5]), ("none", None), ("add", {"a": 1, "b": 1})]
        )
        assert results[:2] == [3, None]
        assert [(type(error), error.code) for error in results[2:4]] == [(RpcError, 5), (RpcError, -32601)]
        assert results[4] == 2
        assert await client.call_batch([Notification("note", [8])]) == [None]
        with pytest.raises(ValueError, match="empty"):
            await client.call_batch([])
        await settle()
        assert noted == [7, 8]


@pytest.mark.virtual_time
async def test_a_batch_times_out_call_by_call() -> None:
    async with session_and_wire() as (session, wire):
        batch = asyncio.create_task(session.call_batch([("a", None), ("b", None)], timeout=0.5))
        await wire.next()
        wire.send(b'[{"jsonrpc":"2.0","id":2,"result":"b"}]')
        first, second = await batch
        assert isinstance(first, CallTimeout)
        assert second == "b"


async def test_a_cancelled_batch_cancels_its_calls() -> None:
    async with session_and_wire(convention=LspConvention()) as (session, wire):
        batch = asyncio.create_task(session.call_batch([("a", None), ("b", None)]))
        await wire.next()
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
        assert [(await wire.next()).params for _ in range(2)] == [{"id": 1}, {"id": 2}]
        assert session.is_idle


# Room.


async def answer_all(wire: Wire, count: int) -> list[str]:
    methods = []
    for _ in range(count):
        request = await wire.next()
        methods.append(request.method)
        wire.send(b'{"jsonrpc":"2.0","id":%d,"result":null}' % request.id)
    return methods


async def test_calls_wait_while_too_many_are_in_flight() -> None:
    async with session_and_wire(max_calls=2) as (session, wire):
        calls = [asyncio.create_task(session.call(f"m{number}")) for number in range(6)]
        await settle()
        assert [request.method for request in wire.received] == ["m0", "m1"]
        with pytest.raises(StateError):
            session.call_soon("m")
        assert await answer_all(wire, 6) == [f"m{number}" for number in range(6)]
        await asyncio.gather(*calls)


async def test_the_notifications_of_handlers_do_not_wait_behind_calls_that_wait_for_room() -> None:
    """The peer responds to no call before the handler has ended; no timeout ends the calls."""

    async def work(context: SessionContext) -> str:
        await context.session.notify("half")
        await asyncio.gather(*[context.session.notify(f"part {number}") for number in range(3)])
        return "whole"

    async with session_and_wire({"work": work}, max_calls=1, timeout=None) as (session, wire):
        calls = [asyncio.create_task(session.call("m")) for _ in range(3)]
        await settle()
        wire.send(b'{"jsonrpc":"2.0","id":"w","method":"work"}')
        assert [(await wire.next()).method for _ in range(5)] == ["m", "half", "part 0", "part 1", "part 2"]
        assert (await wire.next()).result == "whole"
        assert await broadcast([session], "price") == []  # the peer reads
        assert (await wire.next()).method == "price"
        for call in calls:
            call.cancel()


async def test_a_cancelled_waiting_call_lets_the_next_one_pass() -> None:
    async with session_and_wire(max_calls=1) as (session, wire):
        calls = [asyncio.create_task(session.call(f"m{number}")) for number in range(4)]
        await settle()
        calls[1].cancel()
        await settle()
        assert (await wire.next()).method == "m0"
        # The next waiter is woken, and cancelled before it runs.
        session._engine.receive(Response(1, None))
        calls[2].cancel()
        assert await answer_all(wire, 1) == ["m3"]
        await calls[3]
        assert [call.cancelled() for call in calls] == [False, True, True, False]


@pytest.mark.virtual_time
async def test_a_waiting_call_times_out() -> None:
    async with session_and_wire(max_calls=1) as (session, wire):
        session.call_soon("m")
        with pytest.raises(CallTimeout):
            await session.call("waits", timeout=0.02)
        assert len(session._driver.wait_queue) == 0
        assert [request.method for request in wire.received] == ["m"]


@rows("timeout", [-1, math.nan, -math.inf])
async def test_an_invalid_timeout_is_refused_before_the_call_waits(timeout: float) -> None:
    async with session_and_wire(max_calls=1) as (session, wire):
        with pytest.raises(ValueError, match="timeout"):
            await session.call("m", timeout=timeout)
        session.call_soon("fills the place")
        with pytest.raises(ValueError, match="timeout"):
            await session.call("m", timeout=timeout)
        await settle()
        assert [request.method for request in wire.received] == ["fills the place"]


async def test_a_waiting_call_is_lost_with_the_connection() -> None:
    async with session_and_wire(max_calls=1) as (session, wire):
        calls = [asyncio.create_task(session.call("m")) for _ in range(3)]
        await settle()
        await wire.transport.disconnect()
        results = await results_of(*calls)
        assert [type(result) for result in results] == [ConnectionLost] * 3


@rows(
    "items, error, text",
    [
        ([("m", None)] * 3, ValueError, "a batch of 3 calls exceeds max_calls, which is 2"),
        ([("m", None), 1], TypeError, "an item of a batch must be a tuple (method, params) or a Notification"),
        (["ab"], TypeError, "an item of a batch must be a tuple (method, params) or a Notification"),
        ([("m",)], TypeError, "an item of a batch must be a tuple (method, params) or a Notification"),
    ],
)
async def test_a_batch_that_cannot_be_sent_is_refused(items: Any, error: type[Exception], text: str) -> None:
    async with session_and_wire(max_calls=2) as (session, wire):
        with pytest.raises(error, match=f"^{re.escape(text)}$"):
            await session.call_batch(items)
        assert session.is_idle
        await settle()
        assert wire.received == []


@pytest.mark.virtual_time
async def test_calls_wait_for_a_peer_that_does_not_read() -> None:
    one, other = memory_pair()
    await other.connect()
    async with Session(one) as session:
        payload = ["x" * 10_000]
        sending = [asyncio.create_task(session.notify("m", payload)) for _ in range(100)]
        sending += [asyncio.create_task(session.call("m", payload)) for _ in range(100)]
        await settle()
        assert one.write_buffer_bytes < 700_000
        assert not all(task.done() for task in sending[:100])
        with pytest.raises(CallTimeout):
            await session.call("m", payload, timeout=0.02)
        other.onmessage = lambda message: (
            other.send(Response(message.id, None)) if isinstance(message, Request) else None
        )
        await other.start()
        await asyncio.gather(*sending)
    await other.disconnect()


@pytest.mark.usefixtures("each_loop")
async def test_notifications_wait_for_a_peer_that_does_not_read() -> None:
    """The bytes that the system has not taken are counted on every loop."""
    silent = socket.create_server(("127.0.0.1", 0))
    transport = TcpClient(*silent.getsockname())
    sent = 0

    async def send() -> None:
        nonlocal sent
        for _ in range(5000):
            await session.notify("m", ["x" * 100_000])
            sent += 1

    async with Session(transport) as session:
        sending = asyncio.ensure_future(send())
        await eventually(lambda: transport.write_buffer_bytes > 256 * 1024)
        await settle(1000)
        assert sent < 500  # the system takes some megabytes
        assert transport.write_buffer_bytes < 500_000
        await transport.disconnect()
        with pytest.raises(ConnectionLost):
            await sending
    silent.close()


# Other threads.


async def test_an_id_factory() -> None:
    names: Callable[[], str] = iter(["first", "second", "first"]).__next__

    async with session_and_wire(id_factory=names) as (session, wire):
        assert [session.call_soon("m"), session.call_soon("m")] == ["first", "second"]
        assert [(await wire.next()).id for _ in range(2)] == ["first", "second"]
        with pytest.raises(StateError):
            session.call_soon("m")


async def test_an_id_that_no_peer_reads_is_refused() -> None:
    ids: Callable[[], str | int] = iter(["x" * 512, 10**511, "x" * 513, 10**512, "\u00e9" * 257]).__next__

    async with session_and_wire(id_factory=ids) as (session, _):
        assert session.call_soon("m") == "x" * 512
        assert session.call_soon("m") == 10**511
        for _ in range(3):
            with pytest.raises(ValueError, match="an id must have at most 512 bytes"):
                session.call_soon("m")


async def test_calls_that_wait_for_the_write_buffer_are_lost_with_the_connection() -> None:
    one, other = memory_pair()
    await other.connect()
    async with Session(one) as session:
        for _ in range(10):
            session.notify_soon("m", ["x" * 100_000])
        await settle()
        sending = [asyncio.create_task(session.notify("m")), asyncio.create_task(session.call("m"))]
        await settle()
        assert not any(task.done() for task in sending)
        await other.disconnect()
        results = await results_of(*sending)
        assert [type(result) for result in results] == [ConnectionLost] * 2


async def test_a_transport_with_a_higher_high_water_mark() -> None:
    """`drain` returns while the session considers the buffer full: one call is sent in each turn of the loop."""

    class Large(MemoryTransport):
        @property
        def write_buffer_bytes(self) -> int:
            return 10**9

    one, other = memory_pair()
    one.__class__ = Large
    async with Session(other, {"add": lambda a, b: a + b}), Session(one) as session:
        results = await asyncio.gather(*[session.call("add", [number, 1]) for number in range(20)])
        assert results == list(range(1, 21))


async def test_a_failed_send_leaves_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = memory_pair()
    send = one.send
    is_broken = False

    def send_unless_broken(message: Any) -> None:
        if is_broken:
            raise ConnectionLost("broken, and not yet known to be")
        send(message)

    monkeypatch.setattr(one, "send", send_unless_broken)
    async with Session(one) as client, Session(other):
        is_broken = True
        for sending in (client.call("a"), client.call_batch([("a", None), ("b", None)]), client.notify("a")):
            with pytest.raises(ConnectionLost):
                await sending
        is_broken = False
        assert client.is_idle


@pytest.mark.parametrize("kind", ["call", "call_soon", "call_batch"])
async def test_a_hook_that_cancels_its_call(kind: str) -> None:
    class Canceller(Faults):
        def call_started(self, id: int | str, method: str) -> None:
            assert session.cancel(id)

    session: Session

    async with session_and_wire(hooks=Canceller()) as (session, _):
        if kind == "call":
            with pytest.raises(CallCancelled):
                await session.call("m", timeout=None)
        elif kind == "call_batch":
            results = await session.call_batch([("m", None), ("m", None)], timeout=None)
            assert [type(result) for result in results] == [CallCancelled] * 2
        else:
            settled: list[Any] = []
            assert session.call_soon("m", on_error=settled.append, timeout=None) == 1
            assert settled == []
            await settle()
            assert [type(error) for error in settled] == [CallCancelled]


@pytest.mark.virtual_time
@rows("response_bytes", [10_000, 200_000])
async def test_eager_tasks_that_wait_for_the_write_buffer_continue(response_bytes: int) -> None:
    """Below the transport's own high-water mark, `drain` returns at once."""

    async with sessions({"echo": lambda text: text}, response_bytes=response_bytes) as (client, _):
        for _ in range(3):
            calls = [client.call("echo", ["x" * 20_000], timeout=15) for _ in range(50)]
            assert await asyncio.gather(*calls) == ["x" * 20_000] * 50


async def test_a_notification_that_is_cancelled_when_it_has_room_is_not_sent() -> None:
    """The other thread cancels after the write buffer has room and before the task continues."""
    async with session_and_wire() as (session, wire):
        wire.transport.pause_reading()
        session.notify_soon("large", ["x" * 1_000_000])
        future = session.notify_threadsafe("m")
        await settle()
        assert len(session._driver.wait_queue) == 1
        may_send = session._may_send

        def may_send_then_cancel(calls: int, has_drained: bool) -> bool:
            return may_send(calls, has_drained) and future.cancel()

        session._may_send = may_send_then_cancel  # type: ignore[method-assign]
        wire.transport.resume_reading()
        while not wire.received:
            await asyncio.sleep(0)
        await settle()
        assert future.cancelled()
        assert [message.method for message in wire.received] == ["large"]


# Further members of the messages, from callers.

KEEPING = JSONRPC.replace(extra_members="keep")


async def test_further_members_of_a_call_come_before_those_of_the_session() -> None:
    members = {"auth": "a", "src": "user"}
    async with session_and_wire(profile=KEEPING, extra=members, convention=LspConvention()) as (session, wire):
        id = session.call_soon("m", [1])
        assert await wire.next() == Request(id, "m", [1], extra=members)
        session.cancel(id)
        assert await wire.next() == Notification("$/cancelRequest", {"id": id}, extra=members)
        task = asyncio.create_task(session.call("m", extra={"auth": "b", "n": 2**70}))
        request = await wire.next()
        assert request.extra == {"auth": "b", "src": "user", "n": 2**70}
        wire.send(Response(request.id, 1).to_bytes())
        assert await task == 1
        members["auth"] = "after a login"
        await session.notify("n")
        assert await wire.next() == Notification("n", extra=members)
        await session.notify("n", extra={"src": "x"})
        assert await wire.next() == Notification("n", extra={"auth": "after a login", "src": "x"})


async def test_further_members_of_a_batch() -> None:
    async with session_and_wire(profile=KEEPING) as (session, wire):
        items: list[Any] = [("m", [1]), Notification("n"), Notification("n", extra={"a": "own"})]
        task = asyncio.create_task(session.call_batch(items, extra={"a": 1}))
        received = await wire.next()
        assert [message.extra for message in received] == [{"a": 1}, {"a": 1}, {"a": "own"}]
        wire.send(Response(received[0].id, 1).to_bytes())
        assert await task == [1, None, None]


async def test_further_members_through_a_reconnecting_session() -> None:
    one, other = memory_pair(profile=KEEPING)
    wire = Wire(other)
    await other.start()
    async with ReconnectingSession(lambda: one, extra={"auth": "a"}) as session:
        await session.notify("n", extra={"src": 1})
        assert await wire.next() == Notification("n", extra={"auth": "a", "src": 1})
        for send in (
            session.call("m", extra={"auth": "b"}),
            session.call_batch([("m", None)], extra={"auth": "b"}),
        ):
            task = asyncio.ensure_future(send)
            found = await wire.next()
            [request] = found if isinstance(found, list) else [found]
            assert request.extra == {"auth": "b"}
            wire.send(Response(request.id, 1).to_bytes())
            assert await task in (1, [1])
    await other.disconnect()


@rows("convention", [Convention(), McpConvention()])
async def test_further_members_beside_a_trace_context(convention: Convention) -> None:
    class Traced:
        def call_prepared(self, id: object, method: str) -> Any:
            return None, {"traceparent": "00-1-2-03"}

    options: dict[str, Any] = {"hooks": Traced(), "extra": {"auth": "a", "src": 1}, "convention": convention}
    async with session_and_wire(profile=KEEPING, **options) as (session, wire):
        session.call_soon("m")
        first = await wire.next()
        task = asyncio.create_task(session.call("m", extra={"auth": "b"}))
        second = await wire.next()
        is_mcp = isinstance(convention, McpConvention)
        trace = {} if is_mcp else {"traceparent": "00-1-2-03"}
        assert first.extra == {"auth": "a", "src": 1, **trace}
        assert second.extra == {"auth": "b", "src": 1, **trace}
        assert (second.params is not None) is is_mcp
        task.cancel()
        await settle()


@rows(
    ("extra", "kind", "text"),
    [
        ({"id": 1}, ValueError, "id is not an extra member"),
        ({1: 1}, TypeError, "the names of extra members must be of type str, not int"),
        ({"a": {"b": object()}}, EncodeError, "Type is not JSON serializable: object: /a/b of extra, in m"),
    ],
)
async def test_further_members_that_cannot_be_sent(extra: Any, kind: type[Exception], text: str) -> None:
    async with session_and_wire() as (session, wire):
        for send in (session.call, session.notify):
            with pytest.raises(kind, match=re.escape(text)):
                await send("m", extra=extra)
        with pytest.raises(kind, match=re.escape(text)):
            await session.call_batch([("m", None)], extra=extra)
        assert (session.is_idle, wire.received) == (True, [])
    if kind is not EncodeError:
        with pytest.raises(kind, match=re.escape(text)):
            Session(memory_pair()[0], extra=extra)


@rows(("timeout", "error"), [(-1, ValueError), (float("nan"), ValueError), ("5", TypeError)])
async def test_a_wrong_timeout_of_a_notification_is_refused_although_it_need_not_wait(
    timeout: Any, error: type[Exception]
) -> None:
    async with session_and_wire() as (session, wire):
        with pytest.raises(error, match="timeout"):
            await session.notify("m", timeout=timeout)
        await session.notify("m", timeout=5)
        assert await wire.next() == Notification("m")


def test_a_deadline_that_has_passed_is_one_of_uvloop_too() -> None:
    """uvloop returns a handle without a time for it."""
    uvloop = pytest.importorskip("uvloop")

    async def call() -> list[Any]:
        near, far = memory_pair()
        async with Session(near) as session, Session(far, {"m": lambda: 1}):
            calls = [session.call("m", timeout=timeout) for timeout in (0.0, 0.0, 20)]
            return await results_of(*calls)

    assert {found if found == 1 else type(found) for found in uvloop.run(call())} <= {1, CallTimeout}
