"""Serving in order: nothing that arrived after a message of an ordered method begins before its handler has ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from jsonrpc_fast import Notification, Request, Response, encode
from jsonrpc_fast.errors import ConnectionLost
from jsonrpc_fast.handlers import CallNext, Handlers, RequestContext
from jsonrpc_fast.session import (
    Convention,
    JsonRpcConvention,
    LspConvention,
    McpConvention,
    Outcome,
    Session,
    SessionContext,
)
from jsonrpc_fast.transports import memory_pair

from ..support.session_pairs import Faults, Wire, session_and_wire, sessions
from ..support.tables import rows
from ..support.waiting import forever, settle

pytestmark = [pytest.mark.usefixtures("each_loop"), pytest.mark.virtual_time]


class Log:
    """The functions that a test serves, and when they began and ended."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.gate = asyncio.Event()

    async def slow(self, name: str) -> str:
        self.lines.append(f"{name} begins")
        await self.gate.wait()
        self.lines.append(f"{name} ends")
        return name

    def quick(self, name: str) -> str:
        self.lines.append(name)
        return name


def with_order(log: Log, **options: Any) -> Handlers:
    handlers = Handlers({"slow": log.slow, "quick": log.quick})
    handlers.register("change", log.slow, ordered=True, **options)
    return handlers


def request(id: int, method: str) -> bytes:
    return encode(Request(id, method, [method]))


def note(method: str, name: str = "") -> bytes:
    return encode(Notification(method, [name or method]))


@rows("change", [note("change"), request(9, "change")])
@rows("later", [request(1, "quick"), note("quick"), request(1, "slow"), encode([Request(1, "quick", ["quick"])])])
@rows("options", [{}, {"max_handlers": 1}, {"hooks": Faults()}])
async def test_what_came_later_waits(change: bytes, later: bytes, options: Any) -> None:
    log = Log()
    async with session_and_wire(with_order(log), **options) as (_, wire):
        wire.send(change)
        wire.send(later)
        await settle()
        assert log.lines == ["change begins"]
        log.gate.set()
        await settle()
        assert log.lines[1] == "change ends"
        assert log.lines[2].startswith(("quick", "slow begins"))


async def test_what_came_before_goes_on() -> None:
    log = Log()
    async with session_and_wire(with_order(log), max_handlers=2) as (_, wire):
        for message in (request(1, "slow"), note("change"), request(2, "quick")):
            wire.send(message)
        await settle()
        assert log.lines == ["slow begins", "change begins"]
        log.gate.set()
        assert [(await wire.next()).id, (await wire.next()).id] == [1, 2]


async def test_one_that_waits_for_a_slot_holds_the_later_ones_up() -> None:
    log = Log()
    async with session_and_wire(with_order(log), max_handlers=1) as (_, wire):
        for message in (request(1, "slow"), note("change"), request(2, "quick")):
            wire.send(message)
        await settle()
        assert log.lines == ["slow begins"]
        log.gate.set()
        assert [(await wire.next()).id, (await wire.next()).id] == [1, 2]
        assert log.lines[1:] == ["slow ends", "change begins", "change ends", "quick"]


async def test_a_batch_keeps_the_order_of_its_items() -> None:
    log = Log()
    async with session_and_wire(with_order(log)) as (_, wire):
        items = [Request(1, "quick", ["a"]), Notification("change", ["b"]), Request(2, "quick", ["c"])]
        wire.send(encode(items))
        wire.send(request(3, "quick"))
        await settle()
        assert log.lines == ["a", "b begins"]
        log.gate.set()
        assert await wire.next() == [Response(1, "a"), Response(2, "c")]
        assert await wire.next() == Response(3, "quick")


@asynccontextmanager
async def one_change(method: str, options: Any, convention: Convention) -> AsyncIterator[tuple[Log, Any]]:
    log = Log()
    handlers = Handlers({"quick": log.quick})
    handlers.register(method, log.slow, **options)
    async with session_and_wire(handlers, convention=convention) as (_, wire):
        yield log, wire


@rows(
    ("convention", "method", "options", "is_ordered"),
    [
        (LspConvention(), "textDocument/didChange", {}, True),
        (LspConvention(), "textDocument/didOpen", {}, True),
        (LspConvention(), "notebookDocument/didChange", {}, True),
        (LspConvention(), "textDocument/didChange", {"timeout": 5}, True),
        (LspConvention(), "textDocument/didChange", {"ordered": False}, False),
        (LspConvention(), "textDocument/hover", {}, False),
        (LspConvention(), "textDocument/hover", {"ordered": True}, True),
        (LspConvention(), "workspace/didChangeConfiguration", {}, False),
        (Convention(), "textDocument/didChange", {}, False),
        (Convention(), "note", {"ordered": False}, False),
    ],
)
async def test_the_convention_says_what_is_ordered(
    convention: Convention, method: str, options: Any, is_ordered: bool
) -> None:
    async with one_change(method, options, convention) as (log, wire):
        wire.send(note(method))
        wire.send(request(1, "quick"))
        await settle()
        assert ("quick" not in log.lines) is is_ordered
        log.gate.set()
        assert await wire.next() == Response(1, "quick")


async def test_a_request_named_as_an_ordered_notification_is_not_ordered() -> None:
    async with one_change("textDocument/didSave", {}, LspConvention()) as (log, wire):
        wire.send(request(1, "textDocument/didSave"))
        wire.send(request(2, "quick"))
        assert await wire.next() == Response(2, "quick")
        log.gate.set()


async def test_middleware_and_deadlines_are_inside() -> None:
    log = Log()

    async def around(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        result = await call_next(params)
        log.lines.append("around")
        return result

    handlers = Handlers(middleware=[around], timeout=5)
    handlers.register("change", log.slow, ordered=True)
    handlers.register("quick", log.quick)
    async with session_and_wire(handlers) as (_, wire):
        wire.send(request(1, "change"))
        wire.send(request(2, "quick"))
        assert [(await wire.next()).error.code, (await wire.next()).result] == [-32008, "quick"]
        assert log.lines == ["change begins", "quick", "around"]


async def test_the_time_of_a_deadline_begins_when_a_message_is_no_longer_held() -> None:
    log = Log()
    handlers = with_order(log)
    handlers.register("timed", log.slow, timeout=5)
    async with session_and_wire(handlers) as (_, wire):
        wire.send(note("change"))
        wire.send(request(1, "timed"))
        await asyncio.sleep(100)
        log.gate.set()
        assert await wire.next() == Response(1, "timed")


async def test_a_function_in_a_thread() -> None:
    gate = threading.Event()
    log = Log()
    handlers = Handlers({"quick": log.quick})
    handlers.register("change", lambda: gate.wait(10) and log.quick("change"), thread=True, ordered=True)
    async with session_and_wire(handlers) as (_, wire):
        wire.send(encode(Notification("change")))
        wire.send(request(1, "quick"))
        await settle()
        assert log.lines == []
        gate.set()
        assert await wire.next() == Response(1, "quick")
        assert log.lines == ["change", "quick"]


async def test_a_late_one_in_a_thread_lets_the_later_ones_begin() -> None:
    """Nothing can interrupt the thread: its function has not ended."""
    gate = threading.Event()
    log = Log()
    handlers = Handlers({"quick": log.quick})
    handlers.register("change", lambda: gate.wait(10) and log.quick("change"), thread=True, ordered=True)
    async with session_and_wire(handlers, convention=LspConvention()) as (_, wire):
        wire.send(encode(Request(1, "change")))
        wire.send(request(2, "quick"))
        await settle()
        assert log.lines == []
        wire.send(encode(Notification("$/cancelRequest", {"id": 1})))
        assert [(await wire.next()).error.code, (await wire.next()).result] == [-32800, "quick"]
        assert log.lines == ["quick"]
        gate.set()


CONVENTIONS = [JsonRpcConvention(), LspConvention(), McpConvention()]


@rows("convention", CONVENTIONS)
@rows("max_handlers", [1, 5])
async def test_pings_do_not_wait(convention: Convention, max_handlers: int) -> None:
    """Neither behind the ordered one nor behind what waits for it; alone and in a batch."""
    log = Log()
    options = {"convention": convention, "max_handlers": max_handlers, "max_inbox": 2}
    async with session_and_wire(with_order(log), **options) as (_, wire):
        wire.send(note("change"))
        assert convention.ping is not None
        ping = convention.ping
        wire.send(encode(Request(1, ping)))
        assert (await wire.next()).error.code == -32601
        wire.send(request(2, "quick"))
        wire.send(encode(Notification(ping)))  # not a ping, so it waits; nothing else has room
        wire.send(encode(Request(3, ping)))
        assert (await wire.next()).error.code == -32601
        wire.send(encode([Request(4, ping)]))
        assert (await wire.next())[0].error.code == -32601
        assert log.lines == ["change begins"]
        log.gate.set()
        assert await wire.next() == Response(2, "quick")


@rows("options", [{}, {"ordered": True}, {"ordered": False}])
async def test_a_ping_of_a_registered_method_does_not_wait_and_lifts_nothing(options: Any) -> None:
    log = Log()
    handlers = with_order(log)

    async def ping() -> str:
        await asyncio.sleep(1)
        return "pong"

    handlers.register("ping", ping, **options)
    async with session_and_wire(handlers, convention=McpConvention()) as (_, wire):
        wire.send(note("change"))
        wire.send(request(1, "quick"))
        wire.send(encode(Request(2, "ping")))
        assert await wire.next() == Response(2, "pong")
        await settle()
        assert log.lines == ["change begins"]
        log.gate.set()
        assert await wire.next() == Response(1, "quick")


@rows("convention", CONVENTIONS)
async def test_heartbeats_outlive_a_slow_one(convention: Convention) -> None:
    """Pings of one side: with both, each ping would itself be a sign of life."""
    handlers = Handlers({"quick": lambda: 6})
    handlers.register("change", lambda: asyncio.sleep(100, 5), ordered=True)
    one, other = memory_pair()
    async with (
        Session(one, handlers, convention=convention),
        Session(other, convention=convention, heartbeat_seconds=1, timeout=None) as client,
    ):
        assert await asyncio.gather(client.call("change"), client.call("quick")) == [5, 6]


async def test_a_ping_that_waits_for_the_peer_to_read_does_not_wait_for_the_ordered_one() -> None:
    """It is held, like everything, while the peer does not read."""
    log = Log()

    async def change(context: SessionContext) -> None:
        context.session.notify_soon("big", ["x" * 1_000_000])
        await log.gate.wait()

    handlers = Handlers({"quick": log.quick})
    handlers.register("change", change, ordered=True)
    async with session_and_wire(handlers, response_bytes=10_000) as (_, wire):
        wire.transport.pauses_when_blocked = False
        wire.transport.pause_reading()
        wire.send(encode(Notification("change")))
        wire.send(request(1, "quick"))
        await settle()
        for id in (2, 3):
            wire.send(encode(Request(id, "rpc.ping")))
        await settle()
        wire.transport.resume_reading()
        assert (await wire.next()).method == "big"
        assert sorted([(await wire.next()).id, (await wire.next()).id]) == [2, 3]
        await settle()
        assert log.lines == []
        log.gate.set()
        assert await wire.next() == Response(1, "quick")


@rows("max_handlers", [1, 5])
async def test_a_cancelled_one_lets_the_later_ones_begin(max_handlers: int) -> None:
    """One that has begun, and one in the queue."""
    log = Log()
    options = {"convention": LspConvention(), "max_handlers": max_handlers}
    async with session_and_wire(with_order(log), **options) as (_, wire):
        for message in (request(1, "slow"), request(2, "change"), request(3, "quick")):
            wire.send(message)
        wire.send(encode(Notification("$/cancelRequest", {"id": 2})))
        answers = [await wire.next(), await wire.next()]
        assert [(answer.id, answer.error and answer.error.code) for answer in answers] == [(2, -32800), (3, None)]
        log.gate.set()


async def test_one_that_waits_is_cancelled_at_once() -> None:
    log = Log()
    async with session_and_wire(with_order(log), convention=LspConvention()) as (_, wire):
        wire.send(note("change"))
        wire.send(request(1, "quick"))
        wire.send(encode(Notification("$/cancelRequest", {"id": 1})))
        assert (await wire.next()).error.code == -32800
        log.gate.set()
        await settle()
        assert log.lines == ["change begins", "change ends"]


@rows("fails", [ValueError("no"), SystemExit(1), asyncio.CancelledError()])
async def test_one_that_fails_lets_the_later_ones_begin(fails: BaseException) -> None:
    log = Log()

    async def change() -> None:
        await asyncio.sleep(1)
        raise fails

    handlers = Handlers({"quick": log.quick})
    handlers.register("change", change, ordered=True)
    async with session_and_wire(handlers, hooks=Faults()) as (_, wire):
        wire.send(encode(Notification("change")))
        wire.send(request(1, "quick"))
        assert await wire.next() == Response(1, "quick")


async def test_its_calls_are_answered_while_later_messages_wait() -> None:
    """Reading continues, however many messages wait. Those without room are refused; the handler needs room, too."""
    log = Log()

    async def change(context: SessionContext) -> None:
        log.lines.append(await context.session.call("ask"))

    faults = Faults()
    handlers = Handlers({"quick": log.quick})
    handlers.register("change", change, ordered=True)
    async with session_and_wire(handlers, max_inbox=3, hooks=faults) as (_, wire):
        wire.send(encode(Notification("change")))
        ask = await wire.next()
        for id in (1, 2, 3):
            wire.send(request(id, "quick"))
        wire.send(note("quick", "dropped"))
        refused = await wire.next()
        assert (refused.id, refused.error.code) == (3, -32009)
        wire.send(encode(Response(ask.id, "answer")))
        assert [(await wire.next()).id, (await wire.next()).id] == [1, 2]
        assert log.lines == ["answer", "quick", "quick"]
        assert len(faults.seen) == 2


async def test_close_serves_what_waits() -> None:
    log = Log()
    async with session_and_wire(with_order(log)) as (session, wire):
        wire.send(note("change"))
        wire.send(request(1, "quick"))
        await settle()
        asyncio.get_running_loop().call_later(1, log.gate.set)
        await session.close()
        assert log.lines == ["change begins", "change ends", "quick"]
        assert session.dropped_requests == 0


async def test_close_refuses_what_waits_for_too_long() -> None:
    log = Log()
    async with session_and_wire(with_order(log)) as (session, wire):
        wire.send(note("change"))
        wire.send(request(1, "quick"))
        await settle()
        await session.close(1)
        assert log.lines == ["change begins"]
        assert [message.error.code for message in wire.received if isinstance(message, Response)] == [-32009]
        assert session.dropped_requests == 0


async def test_one_that_closes_the_session_does_not_wait_for_itself() -> None:
    log = Log()

    async def leave(context: SessionContext) -> None:
        await settle()  # the later one has been read
        await context.session.close(None)
        log.lines.append("closed")

    handlers = Handlers({"quick": log.quick})
    handlers.register("leave", leave, ordered=True)
    async with session_and_wire(handlers) as (session, wire):
        wire.send(encode(Notification("leave")))
        wire.send(request(1, "quick"))
        await session.wait_closed()
        await settle()
        assert log.lines == ["quick", "closed"]


async def test_a_loss_ends_the_wait() -> None:
    async with sessions({"quick": lambda: 1}) as (client, server):
        server.register("change", forever, ordered=True)
        client.notify_soon("change")
        call = asyncio.ensure_future(client.call("quick"))
        await settle()
        await client.close(0)
        with pytest.raises(ConnectionLost):
            await call
        await server.wait_closed()


async def test_hooks_see_a_held_message_when_it_begins() -> None:
    class Seen:
        def request_started(self, id: Any, method: str) -> None:
            seen.append(f"{method} starts")

        def request_served(self, trace: Any, id: Any, method: str, outcome: Outcome, code: Any, seconds: float) -> None:
            seen.append(f"{method} {outcome.value}")

    seen: list[str] = []
    log = Log()
    async with session_and_wire(with_order(log), hooks=Seen()) as (_, wire):
        wire.send(note("change"))
        wire.send(request(1, "quick"))
        await settle()
        assert seen == ["change starts"]
        log.gate.set()
        await wire.next()
        assert seen == ["change starts", "change result", "quick starts", "quick result"]


@rows("seed", range(30))
async def test_the_law_of_order(seed: int) -> None:
    """Whatever arrives, nothing begins before an earlier ordered message has ended, and everything is served."""
    random = Random(seed)
    events: list[tuple[str, int]] = []

    async def work(number: int, seconds: float) -> None:
        await asyncio.sleep(seconds)
        events.append(("end", number))

    def serve(number: int) -> Any:
        events.append(("begin", number))
        if random.random() < 0.3:
            return events.append(("end", number))
        return work(number, random.choice((0.0, 0.1, 1.0)))

    handlers = Handlers({"free": serve})
    handlers.register("ordered", serve, ordered=True)
    ordered = []
    async with session_and_wire(handlers, max_handlers=random.choice((1, 2, 100))) as (_, wire):
        batch: list[Any] = []
        for number in range(40):
            if random.random() < 0.3:
                ordered.append(number)
            method = "ordered" if number in ordered[-1:] else "free"
            is_request = random.random() < 0.5
            batch.append(Request(number, method, [number]) if is_request else Notification(method, [number]))
            if random.random() < 0.7 or number == 39:
                wire.send(encode(batch if len(batch) > 1 else batch[0]))
                batch = []
        await asyncio.sleep(1000)
    assert sorted(events) == [(kind, number) for kind in ("begin", "end") for number in range(40)]
    for number in ordered:
        before = events[: events.index(("end", number))]
        assert all(other <= number for kind, other in before if kind == "begin")


async def test_what_arrives_late_is_received_after_a_batch_that_takes_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jsonrpc_fast.transports.connection.TURN_SECONDS", 0.0)
    async with session_and_wire({"m": lambda: "done"}) as (session, wire):
        session._engine.receive([Notification("m")] * 100)
        session._engine.be_late()
        session._engine.receive(Request(7, "m"))
        assert await asyncio.wait_for(wire.next(), 5) == Response(7, "done")


async def lose(session: Session, _: Wire) -> None:
    session._engine.lose()


@rows(
    ("end", "served"),
    [
        (lambda session, wire: session.close(), []),
        (lambda session, wire: wire.transport.disconnect(), ["m", "n"]),
        (lose, ["n"]),
    ],
    ids=["closed here", "ended by the peer", "lost at once"],
)
async def test_a_batch_that_waits_when_the_connection_ends_settles_calls(end: Any, served: list[str]) -> None:
    seen: list[str] = []
    async with session_and_wire({"m": lambda: seen.append("m"), "n": lambda: seen.append("n")}) as (session, wire):
        calls = [asyncio.ensure_future(session.call("ask")) for _ in range(2)]
        ids = [(await wire.next()).id for _ in calls]
        session._engine.be_late()
        session._engine.receive([Response(ids[0], "first"), Request(7, "m"), Notification("n")])
        session._engine.receive([Response(ids[1], "second")])
        await end(session, wire)
        assert await asyncio.gather(*calls) == ["first", "second"]
    assert seen == served


async def test_the_parts_of_a_result_that_wait_when_the_peer_ends_its_stream_come_before_its_end() -> None:
    async with session_and_wire(convention=LspConvention()) as (session, wire):

        async def read() -> list[Any]:
            return [part async for part in session.stream("gen", {})]

        reading = asyncio.ensure_future(read())
        request = await wire.next()
        session._engine.be_late()
        for part in (1, 2):
            progress = {"token": request.params["partialResultToken"], "value": part}
            session._engine.receive(Notification("$/progress", progress))
        session._engine.receive(Response(request.id, None))
        session._engine.lose_calls()
        assert await reading == [1, 2]
