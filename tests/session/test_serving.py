"""Serving: handlers, their failures, their cancellation and their context; what waits, and what is given up."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import re
import socket
import sys
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from jsonrpc_fast import (
    Decoder,
    Error,
    Notification,
    Request,
    Response,
    encode,
    encode_notification,
    encode_request,
    encode_result,
)
from jsonrpc_fast.errors import CallTimeout, ConnectionLost, RpcError
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import Convention, LspConvention, McpConvention, Outcome, Session, SessionContext
from jsonrpc_fast.transports import Transport, connection, memory_pair

from ..support.memory import collect
from ..support.session_pairs import Faults, Wire, session_and_wire, sessions
from ..support.tables import rows
from ..support.transports import reset, serving
from ..support.waiting import eventually, forever, settle

pytestmark = pytest.mark.usefixtures("each_loop")


async def asynchronous(function: Any) -> Any:
    await asyncio.sleep(0)
    return function()


def divide() -> float:
    return 1 / 0


def refuse() -> None:
    raise RpcError(-32001, "not now", {"wait": 5})


def refuse_unwritable() -> None:
    raise RpcError(-32001, "not now", object())


@rows("is_async", [False, True])
@rows(
    ("function", "code", "message", "data", "fault"),
    [
        (refuse, -32001, "not now", {"wait": 5}, None),
        (refuse_unwritable, -32603, "Internal error", None, "EncodeError"),
        (divide, -32603, "Internal error", None, "ZeroDivisionError"),
        (object, -32603, "Internal error", None, "EncodeError"),
        (lambda: asyncio.current_task().undefined, -32603, "Internal error", None, "AttributeError"),  # type: ignore[union-attr]
    ],
)
async def test_faults_of_a_handler(
    function: Any, code: int, message: str, data: object, fault: str | None, is_async: bool
) -> None:
    faults = Faults()

    handler = (lambda: asynchronous(function)) if is_async else function
    async with sessions({"m": handler}, hooks=faults) as (client, _):
        with pytest.raises(RpcError) as caught:
            await client.call("m")
        error = caught.value
        assert (error.code, error.message) == (code, message)
        assert (error.data or None) == data
        assert [type(error).__name__ for error in faults.seen] == ([fault] if fault else [])


class Ending(BaseException):
    pass


class Odd:
    """A result whose attributes all raise."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(name)


class OddError(RpcError):
    def __init__(self) -> None:
        super().__init__(-32001, "not now")
        self.code = "none"  # type: ignore[assignment]


def raise_(error: type[BaseException]) -> None:
    raise error


@pytest.mark.parametrize("kind", ["sync", "async", "async at once"])
@rows(
    ("function", "fault"),
    [
        (lambda: raise_(Ending), "Ending"),
        (lambda: raise_(GeneratorExit), "GeneratorExit"),
        (lambda: raise_(SystemExit), "SystemExit"),
        (lambda: raise_(OddError), "ValueError"),
        (Odd, "EncodeError"),
    ],
)
async def test_each_request_is_answered_whatever_its_handler_does(function: Any, fault: str, kind: str) -> None:
    faults = Faults()
    # The result and the error of a notification are not encoded, so encoding cannot fail.
    expected = [fault] if fault == "EncodeError" else [fault, "OddError"] if fault == "ValueError" else [fault, fault]

    async def at_once() -> Any:
        return function()

    handler = {"sync": function, "async": lambda: asynchronous(function), "async at once": at_once}[kind]

    async with session_and_wire({"odd": handler, "even": lambda: 2}, hooks=faults) as (session, wire):
        wire.send(b'{"jsonrpc":"2.0","id":1,"method":"odd"}')
        wire.send(b'{"jsonrpc":"2.0","id":2,"method":"even"}')
        wire.send(b'{"jsonrpc":"2.0","method":"odd"}')
        answers = {answer.id: answer for answer in [await wire.next(), await wire.next()]}
        await settle()
        assert answers[1].error.code == -32603
        assert answers[2].result == 2
        assert wire.received == []
        assert session.is_idle
    assert [type(error).__name__ for error in faults.seen] == expected


@rows("is_async", [False, True])
def test_system_exit_in_a_handler(is_async: bool) -> None:
    received: list[Any] = []

    async def main() -> None:
        end = lambda: raise_(KeyboardInterrupt)  # noqa: E731
        handler = (lambda: asynchronous(end)) if is_async else end
        async with session_and_wire({"m": handler}, hooks=Faults()) as (_, wire):
            wire.transport.onmessage = received.append
            wire.send(b'{"jsonrpc":"2.0","id":1,"method":"m"}')
            await forever()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert received == [Response(1, error=Error(-32603, "Internal error"))]


class Served:
    """Hooks that record the served requests."""

    def __init__(self) -> None:
        self.served: list[Any] = []

    def request_started(self, id: object, method: str) -> str:
        return f"trace of {id}"

    def request_served(self, trace: object, id: object, method: str, outcome: Outcome, *_: object) -> None:
        self.served.append((trace, outcome))


async def test_a_handler_that_cancels_itself_and_returns_is_served_once() -> None:
    served = Served()

    async def handler() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done"

    async with session_and_wire({"m": handler}, hooks=served) as (_, wire):
        wire.send(b'{"jsonrpc":"2.0","id":1,"method":"m"}')
        assert (await wire.next()).result == "done"
        await settle()
        assert served.served == [("trace of 1", Outcome.RESULT)]


@pytest.mark.virtual_time
async def test_the_trace_of_a_handler_that_is_cancelled_before_its_first_step_ends() -> None:
    served = Served()

    async with session_and_wire({"m": lambda: asyncio.sleep(10)}, hooks=served, convention=LspConvention()) as (
        _,
        wire,
    ):
        wire.other.onread = None  # as in a transport that reads one message at a time
        wire.send(b'{"jsonrpc":"2.0","id":1,"method":"m"}')
        wire.send(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}')
        assert (await wire.next()).error.code == -32800
        assert served.served == [("trace of 1", Outcome.CANCELLED)]


@pytest.mark.virtual_time
async def test_a_second_cancellation_does_not_interrupt_the_clean_up() -> None:
    ended: list[str] = []

    async def handler() -> None:
        try:
            await forever()
        finally:
            await settle(5)
            ended.append("tidy")

    async with session_and_wire({"m": handler}, convention=LspConvention()) as (_, wire):
        wire.send(b'{"jsonrpc":"2.0","id":1,"method":"m"}')
        await settle(3)
        for _ in range(2):
            wire.send(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}')
            await settle(2)
        assert (await wire.next()).error.code == -32800
        assert ended == ["tidy"]


async def test_a_type_error_inside_a_handler_is_not_invalid_params() -> None:
    def handler(text: str) -> str:
        return text + 1  # type: ignore[operator, no-any-return]

    async with sessions({"m": handler}, hooks=Faults()) as (client, _):
        with pytest.raises(RpcError) as mismatch:
            await client.call("m", [])
        with pytest.raises(RpcError) as inside:
            await client.call("m", ["a"])
        assert (mismatch.value.code, inside.value.code) == (-32602, -32603)


@rows("is_async", [False, True])
async def test_a_handler_that_raises_cancelled_error_has_failed(is_async: bool) -> None:
    def handler() -> None:
        raise asyncio.CancelledError

    async with sessions({"m": (lambda: asynchronous(handler)) if is_async else handler}, hooks=Faults()) as (client, _):
        with pytest.raises(RpcError, match="Internal error"):
            await client.call("m")


@pytest.mark.parametrize("kind", ["sync", "async", "unwritable"])
async def test_the_exception_of_a_handler_is_logged(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """With method, id and traceback. Faults of the peer are logged at debug level, without its data."""

    def fail() -> None:
        raise KeyError("the key")

    with caplog.at_level(logging.DEBUG, "jsonrpc_fast.session"):
        handler = {"sync": fail, "async": lambda: asynchronous(fail), "unwritable": object}[kind]
        async with session_and_wire({"fail": handler}) as (_, wire):
            wire.send(b'{"jsonrpc":"2.0","id":"number 7","method":"fail"}')
            wire.send(b'{"jsonrpc":"2.0","method":"fail"}')
            wire.send(b'{"sesame')
            await settle()
            failed = '{"jsonrpc":"2.0","id":"number 7","error":{"code":-32603,"message":"Internal error"}}'
            unread = '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
            texts = [message.to_str() for message in wire.received]
            # An async handler runs later: its response may come after that to the text that is not JSON.
            assert texts == [failed, unread] or (kind == "async" and texts == [unread, failed])
    messages = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    if kind == "unwritable":
        assert messages == ["the handler of 'fail' failed, id 'number 7'"]
        assert "EncodeError: " in caplog.text
    else:
        assert messages == ["the handler of 'fail' failed, id 'number 7'", "the handler of 'fail' failed, id None"]
        assert 'raise KeyError("the key")' in caplog.text
        assert "KeyError: 'the key'" in caplog.text
    assert "ParseError: " in caplog.text
    assert "sesame" not in caplog.text


async def test_the_log_shortens_methods_and_ids(caplog: pytest.LogCaptureFixture) -> None:
    """An id may be long and contain line breaks."""
    async with session_and_wire({"divide": divide}) as (_, wire):
        wire.send(b'{"jsonrpc":"2.0","id":"a\\n%s","method":"divide"}' % (b"x" * 500))
        await wire.next()
    [message] = caplog.messages
    assert message.startswith("the handler of 'divide' failed, id 'a\\nxxx")
    assert len(message) < 150


async def test_notifications_are_never_answered() -> None:
    faults = Faults()
    served: list[Any] = []

    async def later(value: int) -> int:
        await asyncio.sleep(0)
        served.append(value)
        return value

    handlers: dict[str, Any] = {
        "now": served.append,
        "later": later,
        "divide": divide,
        "refuse": refuse,
        "object": object,
    }
    async with session_and_wire(handlers, hooks=faults) as (_, wire):
        for method in ("now", "later"):
            wire.send(b'{"jsonrpc":"2.0","method":"%b","params":[1]}' % method.encode())
        for method in ("divide", "refuse", "object", "unknown", "now"):
            wire.send(b'{"jsonrpc":"2.0","method":"%b"}' % method.encode())
        await settle()
        assert wire.received == []
        assert served == [1, 1]
        # A missing argument is not reported to the peer either.
        assert [type(error).__name__ for error in faults.seen] == ["ZeroDivisionError", "RpcError", "RpcError"]


async def test_a_wrapped_async_handler() -> None:
    """A handler is async if it returns an awaitable, however it is defined."""

    async def work(value: int) -> int:
        await asyncio.sleep(0)
        return value

    class Callable:
        async def __call__(self, value: int) -> int:
            return await work(value)

    def future(value: int) -> asyncio.Future[int]:
        return asyncio.ensure_future(work(value))

    async with sessions({"wrapped": lambda value: work(value), "object": Callable(), "future": future}) as (client, _):
        assert [await client.call(method, [7]) for method in ("wrapped", "object", "future")] == [7, 7, 7]


# Cancellation by the peer.


@pytest.mark.parametrize(
    ("convention", "cancellation", "answer"),
    [
        (LspConvention(), b'"$/cancelRequest","params":{"id":1}', -32800),
        (McpConvention(), b'"notifications/cancelled","params":{"requestId":1}', None),
    ],
    ids=["lsp", "mcp"],
)
@rows("where", ["running", "inbox", "result", "other error"])
@pytest.mark.virtual_time
async def test_a_cancelled_request(convention: Convention, cancellation: bytes, answer: int | None, where: str) -> None:
    seen: list[bool] = []
    is_unblocked = asyncio.Event()

    async def work(context: SessionContext) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append(context.is_cancelled)
            if where == "result":
                return "partial"
            if where == "other error":
                raise RpcError(5, "stopped") from None
            raise
        return "done"

    async with session_and_wire(
        {"work": work, "block": lambda: is_unblocked.wait()}, convention=convention, max_handlers=1
    ) as (_, wire):
        if where == "inbox":
            wire.send(b'{"jsonrpc":"2.0","id":9,"method":"block"}')
        wire.send(b'{"jsonrpc":"2.0","id":1,"method":"work"}')
        await settle()
        wire.send(b'{"jsonrpc":"2.0","method":%b}' % cancellation)
        await settle()
        is_unblocked.set()
        await settle()
        # Its id is free again.
        wire.send(b'{"jsonrpc":"2.0","id":1,"method":"unknown"}')
        await settle()
        replies = [message for message in wire.received if message.id == 1][:-1]
    assert seen == ([] if where == "inbox" else [True])
    if answer is None:
        assert replies == []
    elif where == "result":
        assert replies == [Response(1, "partial")]
    else:
        assert [reply.error.code for reply in replies] == [5 if where == "other error" else answer]


@pytest.mark.virtual_time
async def test_a_cancelled_request_of_a_batch() -> None:
    async with session_and_wire({"wait": lambda: asyncio.sleep(5)}, convention=McpConvention()) as (_, wire):
        wire.send(b'[{"jsonrpc":"2.0","id":1,"method":"wait"},{"jsonrpc":"2.0","id":2,"method":"none"}]')
        await settle()
        assert wire.received == []
        wire.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')
        assert [reply.id for reply in await wire.next()] == [2]


async def test_a_handler_that_is_cancelled_before_its_first_step() -> None:
    async def work() -> None:
        await asyncio.sleep(0)  # an eager task runs up to here
        raise AssertionError("it must not run")

    async with session_and_wire({"work": work}, convention=LspConvention()) as (session, wire):
        wire.send(
            b'[{"jsonrpc":"2.0","id":1,"method":"work"},{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}]'
        )
        [reply] = await wire.next()
        assert (reply.id, reply.error.code) == (1, -32800)
        assert session.is_idle


# The context.


async def test_the_context() -> None:
    seen: list[Any] = []

    def request(context: SessionContext, value: int) -> None:
        seen.append((context.id, context.method, context.is_notification, context.is_cancelled, value))
        assert not context.report_progress(1)

    async with session_and_wire({"m": request}) as (session, wire):
        wire.send(b'{"jsonrpc":"2.0","id":"x","method":"m","params":[5]}')
        wire.send(b'{"jsonrpc":"2.0","method":"m","params":{"value":6}}')
        await settle()
        assert session.is_connected
    assert seen == [("x", "m", False, False, 5), (None, "m", True, False, 6)]


# Bounds.


async def test_cancelled_requests_leave_no_reference_cycles() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    async with session_and_wire({"wait": wait}, convention=LspConvention()) as (_, wire):
        gc.collect()
        gc.disable()
        try:
            for number in range(100):
                wire.send(Request(number, "wait"))
                await settle()
                wire.send(Notification("$/cancelRequest", {"id": number}))
                await settle()
            assert len(wire.received) == 100
            assert gc.collect() < 100
        finally:
            gc.enable()


@pytest.mark.virtual_time
async def test_served_requests_leave_no_reference_cycles() -> None:
    async def work(value: int) -> int:
        await asyncio.sleep(0)
        return value

    async def fail_or_cancel(number: int) -> None:
        with pytest.raises((RpcError, CallTimeout)):
            await client.call(("unknown", "forever")[number % 2], timeout=0.01)

    options: dict[str, Any] = {"convention": LspConvention()}
    async with sessions({"work": work, "forever": forever}, **options) as (client, _):
        await client.call("work", [1])
        gc.collect()
        gc.disable()
        try:
            for number in range(300):
                assert await client.call("work", [number]) == number
            assert gc.collect() < 100
            for number in range(200):
                await fail_or_cancel(number)
            assert gc.collect() < 100
        finally:
            gc.enable()


def fail_now() -> None:
    raise LookupError


@rows("method", ["now", "none", "fail"])
async def test_an_id_in_flight_is_refused_to_a_sync_function_too(method: str) -> None:
    done = asyncio.get_running_loop().create_future()
    served: list[str] = []

    async def later() -> str:
        await done
        return "later"

    handlers = {"later": later, "now": lambda: served.append("now"), "fail": fail_now}
    async with session_and_wire(handlers) as (_, wire):
        for name in ("later", method):
            wire.send(encode(Request(1, name)))
        refusal = await wire.next()
        assert (refusal.id, refusal.error.code) == (1, -32600)
        assert served == []
        wire.send(encode(Request(1.0, "now")))  # another id
        assert await wire.next() == Response(1.0, None)
        done.set_result(None)
        assert await wire.next() == Response(1, "later")
        wire.send(encode(Request(1, "now")))
        assert await wire.next() == Response(1, None)


async def test_a_request_that_is_answered_at_once_is_not_registered() -> None:
    seen: list[int] = []
    async with session_and_wire() as (session, wire):
        session.register("count", lambda: seen.append(session.is_idle))

        def count(context: SessionContext) -> None:
            seen.append(session.is_idle)

        session.register("count with context", count)
        for method in ("count", "count with context"):
            wire.send(encode(Request(1, method)))
            assert await wire.next() == Response(1, None)
        assert seen == [True, False]
        assert session.is_idle


async def test_a_sync_function_that_closes_the_connection() -> None:
    faults = Faults()
    async with session_and_wire(hooks=faults) as (session, wire):
        tasks: list[asyncio.Task[None]] = []
        end = wire.other.disconnect
        session.register("end", lambda: tasks.append(asyncio.get_running_loop().create_task(end())))
        wire.send(encode(Request(1, "end")))
        await session.wait_closed()
        await asyncio.gather(*tasks)
        assert session.dropped_requests == 0
    assert faults.seen == []


async def test_the_task_of_a_handler_is_named_after_its_method() -> None:
    async def name() -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    async with sessions({"math/name": name}) as (client, _):
        assert await client.call("math/name") == "math/name"


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


@rows("sends", ["results", "notifications"])
async def test_nothing_is_served_while_the_peer_does_not_read(sends: str) -> None:
    """What handlers send is counted like their responses."""
    served: list[int] = []

    def work(context: SessionContext, number: int) -> str | None:
        served.append(number)
        if sends == "results":
            return "x" * 100_000
        context.session.notify_soon("note", ["x" * 100_000])
        return None

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
        assert one.write_buffer_bytes < 1_000_000
        other.resume_reading()
        while len(received) < (100 if sends == "results" else 200):
            await asyncio.sleep(0)
        assert served == [each.id for each in received if isinstance(each, Response)] == list(range(100))
    await other.disconnect()


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
@pytest.mark.ci
async def test_a_peer_that_does_not_read_cannot_fill_the_memory_with_faults(message: bytes) -> None:
    """They get responses until too many of these wait to be sent; in the end all have one."""
    count = 8000

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
    monkeypatch.setattr(connection, "TURN_SECONDS", 0.0)
    served: list[int] = []
    asked: list[str] = []
    answers: list[object] = []

    async def ask(session: Session) -> None:
        try:
            answers.append(await session.call("ask"))
        except ConnectionLost as error:
            answers.append(error)

    handlers = {"n": served.append, "last": lambda: asked.append("last") or served[-1]}
    async with session_and_wire(handlers) as (session, wire):
        call = asyncio.create_task(ask(session))
        await wire.next()
        answer = encode_result(1, "answer")
        wire.send(BATCH.rstrip()[:-1] + b"," + answer.rstrip() + b"]\n")
        if how != "loss":
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
            assert len(served) < 40
        elif how == "close":
            await session.close()
        while not call.done():
            await asyncio.sleep(0)
        assert served[:1000] == list(range(1000))  # the notifications even behind a loss
        assert answers == ["answer"]
        if how in ("goes on", "message"):
            assert await wire.next() == Response(7, served[-1])
        if how == "message":
            assert served == list(range(1001))


async def test_a_batch_of_requests_over_several_turns_is_answered_by_one_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TURN_SECONDS", 0.0)
    async with session_and_wire({"f": lambda number: number}) as (_, wire):
        wire.send(encode([Request(number, "f", [number]) for number in range(200)]))
        assert await wire.next() == [Response(number, number) for number in range(200)]


async def test_the_fault_that_closes_a_connection_is_answered_although_the_turn_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "TURN_SECONDS", 0.0)
    one, other = memory_pair(max_faults=0)
    wire = Wire(other)
    await other.start()
    async with Session(one, hooks=Faults()):
        wire.send(b"{}\n")
        assert (await wire.next()).error.code == -32600
    await other.disconnect()


@pytest.mark.virtual_time
async def test_what_came_before_too_many_faults_is_served() -> None:
    served: list[int] = []

    async def later(number: int) -> int:
        await asyncio.sleep(0.01)
        served.append(number)
        return number

    one, other = memory_pair(max_faults=3)
    wire = Wire(other)
    await other.start()
    async with Session(one, {"later": later, "now": lambda number: number}, hooks=Faults()):
        wire.send(Request(1, "later", [1]))
        batch = b'[{"jsonrpc":"2.0","id":2,"method":"now","params":[2]}' + b",7" * 2000 + b"]\n"
        wire.send(batch)
        wire.send(Request(3, "now", [3]))
        first, *faults = await wire.next()
        assert (first, len(faults)) == (Response(2, 2), 2000)
        assert await wire.next() == Response(1, 1)  # and none to the message behind the batch
        await eventually(lambda: not one.is_connected)
    assert str(one.fault) == "the peer sent more invalid messages than max_faults allows"
    await other.disconnect()


async def test_what_waits_for_a_later_turn_is_served_although_the_peer_has_ended_its_stream() -> None:
    def busy(number: int) -> int:
        end = time.monotonic() + 0.02  # more than a turn
        while time.monotonic() < end:
            pass
        return number

    async def serve(transport: Transport) -> None:
        # Where requests can be cancelled, the stream is read although some wait.
        async with Session(transport, {"busy": busy}, convention=LspConvention()) as session:
            await session.wait_closed()

    async with serving(serve) as server:
        reader, writer = await asyncio.open_connection(*server.address[:2])
        messages: list[Any] = [Request(number, "busy", [number]) for number in range(5)]
        messages.append([Request(number, "busy", [number]) for number in (5, 6)])
        writer.write(b"".join(map(encode, messages)))
        writer.write_eof()
        received = Decoder().feed(await asyncio.wait_for(reader.read(), 10))
        assert received == [*[Response(id, id) for id in range(5)], [Response(5, 5), Response(6, 6)]]
        writer.close()


def framed(text: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(text), text)


END_FAULTS = rows(
    ("faults", "reason"),
    [
        (b"Content-Length: x\r\n\r\n", "the framing is invalid; Content-Length is not a whole number"),
        (framed(b"7") + b"Content-Length: x\r\n\r\n", "the framing is invalid; Content-Length is not a whole number"),
        (framed(b"7") * 5, "the peer sent more invalid messages than max_faults allows"),
        (framed(b"7") * 3 + b"Content-Length: x\r\n\r\n", "the peer sent more invalid messages than max_faults allows"),
        (framed(b"[7,7,7,7,7]"), "the peer sent more invalid messages than max_faults allows"),
    ],
)
"""Faults that end a stream with `max_faults=3`, and the reason that calls in flight are told."""


@END_FAULTS
async def test_the_fault_that_ends_a_stream_fails_calls_at_once_and_what_came_before_is_served(
    faults: bytes, reason: str
) -> None:
    """Over TCP: the loss of a channel in memory, unlike that of a socket, follows its end at once."""
    is_lost = asyncio.Event()
    failures: list[ConnectionLost] = []

    async def later(number: int) -> int:
        await is_lost.wait()
        return number

    async def serve(transport: Transport) -> None:
        async with Session(transport, {"later": later, "now": lambda number: number}, hooks=Faults()) as session:
            with pytest.raises(ConnectionLost) as caught:
                await session.call("m")
            failures.append(caught.value)
            is_lost.set()
            await session.wait_closed()

    options: Any = {"framing": "content-length", "max_faults": 3, "drain_seconds": None}
    async with serving(serve, **options) as server:
        reader, writer = await asyncio.open_connection(*server.address[:2])
        await reader.readuntil(b'"method":"m"}')
        decoder = Decoder("content-length")
        messages: list[Any] = [Request(number, ("later", "now")[number % 2], [number]) for number in range(50)]
        messages.append([Request(number, "now", [number]) for number in range(1000, 3000)])
        writer.write(b"".join(framed(encode(message, delimited=False)) for message in messages) + faults)
        received = decoder.feed(await asyncio.wait_for(reader.read(), 10))  # although this side has not ended its own
        assert [message for message in received if type(message) is list and len(message) > 5] == [
            [Response(number, number) for number in range(1000, 3000)]
        ]
        answered = {message.id: message.result for message in received if type(message) is Response}
        assert {id: result for id, result in answered.items() if id is not None} == {id: id for id in range(50)}
        assert [str(failure) for failure in failures] == [f"the connection broke: {reason}"]
        writer.close()


@END_FAULTS
async def test_calls_learn_at_once_of_the_fault_that_ends_a_stream(faults: bytes, reason: str) -> None:
    """The peer stays connected, and reads."""
    failures: list[ConnectionLost] = []

    async def serve(transport: Transport) -> None:
        async with Session(transport, hooks=Faults()) as session:
            with pytest.raises(ConnectionLost) as caught:
                await session.call("m")
            failures.append(caught.value)
            await session.wait_closed()

    options: Any = {"framing": "content-length", "max_faults": 3, "drain_seconds": None}
    async with serving(serve, **options) as server:
        reader, writer = await asyncio.open_connection(*server.address[:2])
        await reader.readuntil(b'"method":"m"}')
        writer.write(faults)
        await eventually(lambda: failures, 10)
        assert [str(failure) for failure in failures] == [f"the connection broke: {reason}"]
        await asyncio.wait_for(reader.read(), 10)
        writer.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a reset may drop what has arrived and is not read")
@rows(
    ("count", "ending", "max_faults", "reason"),
    [
        (800, b"", 700, "the peer sent more invalid messages than max_faults allows"),
        (800, b"Content-Length: x\r\n\r\n", None, "the framing is invalid; Content-Length is not a whole number"),
        (20, b"", None, r"\[.*, after a message that cannot be read: the message is not an object"),
    ],
)
async def test_the_reset_of_a_peer_does_not_hide_its_faults_from_calls(
    count: int, ending: bytes, max_faults: int | None, reason: str
) -> None:
    failures: list[ConnectionLost] = []

    async def serve(transport: Transport) -> None:
        async with Session(transport, hooks=Faults()) as session:
            with pytest.raises(ConnectionLost) as caught:
                await session.call("m")
            failures.append(caught.value)

    options: Any = {"framing": "content-length", "max_faults": max_faults}
    async with serving(serve, **options) as server:
        peer = socket.create_connection(server.address[:2])
        peer.setblocking(False)
        while b'"method":"m"}' not in await asyncio.get_running_loop().sock_recv(peer, 1000):
            pass
        # Sent and reset in one step, so that the responses to the faults cannot be written.
        peer.send(framed(b"7") * count + ending)
        reset(peer)
        await eventually(lambda: failures)
    assert re.fullmatch(f"the connection broke: {reason}", str(failures[0]))


@pytest.fixture(autouse=True)
def nothing_unawaited() -> Iterator[None]:
    """A coroutine that the test never awaits is reported in this test."""
    yield
    collect()


class Work:
    """An object with `__await__` that does not have to be ended."""

    def __await__(self) -> Generator[Any, None, None]:
        return forever().__await__()


KINDS: dict[str, Callable[[], Any]] = {
    "coroutine": forever,
    "object": Work,
    "future": lambda: asyncio.get_running_loop().create_future(),
    "task": lambda: asyncio.get_running_loop().create_task(forever()),
}


async def cancel_tasks(session: Session, client: Any, others: set[Any]) -> None:
    while not (tasks := {task for task in asyncio.all_tasks() - others if task.get_name() == "m"}):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()


async def cancel_requests(session: Session, client: Any, others: set[Any]) -> None:
    for id in (2, 1):
        client.send(encode_notification("$/cancelRequest", {"id": id}))


async def lose_connection(session: Session, client: Any, others: set[Any]) -> None:
    client.abort()


async def close_session(session: Session, client: Any, others: set[Any]) -> None:
    await session.close(0)


@rows("give_up", [cancel_tasks, cancel_requests, lose_connection, close_session])
@rows("turns", [0, 1, 2, 3, 4, 5])
@rows("is_timed", [False, True])
@rows("kind", list(KINDS))
@pytest.mark.ci
async def test_what_is_not_awaited_is_ended(kind: str, is_timed: bool, turns: int, give_up: Any) -> None:
    made: list[Any] = []

    def function() -> Any:
        made.append(KINDS[kind]())
        return made[-1]

    server, client = memory_pair()
    await client.start()
    handlers = Handlers({"m": function}, timeout=60 if is_timed else None)
    session = Session(server, handlers, convention=LspConvention(), max_handlers=1, max_inbox=1, close_seconds=0.01)
    await session.start()
    others = asyncio.all_tasks()
    for id in range(1, 5):  # one begins, one waits in the queue, and two are refused
        client.send(encode_request(id, "m"))
    for _ in range(turns):
        await asyncio.sleep(0)
    await give_up(session, client, others)
    await settle()
    await session.close(0)
    await client.disconnect()
    for work in made:
        if inspect.iscoroutine(work):
            assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
        elif not isinstance(work, Work):
            assert work.cancelled()


async def test_nothing_that_is_held_is_called_after_the_connection_is_lost() -> None:
    called: list[str] = []

    async def begin(name: str) -> None:
        called.append(name)
        await forever()

    server, client = memory_pair()
    await client.start()
    handlers = Handlers({"begin": begin}, timeout=60)
    handlers.register("first", begin, ordered=True)
    async with Session(server, handlers, close_seconds=0.01) as session:
        client.send(encode_request(1, "first", ["first"]))
        for id in range(2, 5):
            client.send(encode_request(id, "begin", ["held"]))
        await settle()
        client.abort()
        await session.wait_closed()
        await settle()
    assert called == ["first"]
