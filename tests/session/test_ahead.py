"""Requests that are cancelled before they begin: among messages read together, and in the queue of an executor."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jsonrpc_fast import Error, Notification, Request, Response, decode, encode
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import Convention, JsonRpcConvention, LspConvention, McpConvention, Session
from jsonrpc_fast.session.conventions import Withdrawn, look_ahead
from jsonrpc_fast.transports import StreamTransport, TcpServer, connection, memory_pair

from ..support.session_pairs import session_and_wire
from ..support.tables import rows
from ..support.waiting import blocking_eventually, forever, settle

REQUESTS = 100
lsp: Any = partial(look_ahead, LspConvention())


def request(id: Any, method: str = "m") -> Request[Any]:
    return Request(id, method)


def cancel(id: Any) -> Notification[Any]:
    return Notification("$/cancelRequest", {"id": id})


@rows(
    ("items", "withdrawn"),
    [
        ([request(1), cancel(1)], [0]),
        ([request(1), request(2), cancel(1), request(3), cancel(2)], [0, 1]),
        ([request("1"), cancel(1), cancel(True), cancel(1.0)], []),
        ([request(1.0), cancel(1)], []),
        ([cancel(1), request(1)], []),
        ([request(1), cancel(1), cancel(1), request(1)], [0]),
        ([request(1), request(1), cancel(1)], [1]),
        ([request(1), cancel(2), Notification("m"), Response(1, 2)], []),
        ([request(1), Notification("$/cancelRequest"), Notification("$/cancelRequest", [1])], []),
        ([request(1), Notification("$/progress", {"token": 1, "value": 2})], []),
        ([request(None), cancel(None)], []),
        ([], []),
    ],
)
def test_requests_that_are_withdrawn(items: list[Any], withdrawn: list[int]) -> None:
    read = list(items)
    lsp(read)
    assert read == [Withdrawn(item) if index in withdrawn else item for index, item in enumerate(items)]


def test_batches() -> None:
    read: Any = [[request(1), request(2), cancel(1)], request(3), [cancel(2), cancel(3)]]
    lsp(read)
    assert read[0][:2] == [Withdrawn(request(1)), Withdrawn(request(2))]
    assert read[1] == Withdrawn(request(3))


def test_conventions() -> None:
    items = [request(1, "initialize"), request(2, "tools/call")]
    read = [*items, *(Notification("notifications/cancelled", {"requestId": id}) for id in (1, 2))]
    for convention in (Convention(), JsonRpcConvention()):
        look_ahead(convention, read)
        assert read[:2] == items
    look_ahead(McpConvention(), read)
    assert read[:2] == [items[0], Withdrawn(items[1])]


messages = st.one_of(st.builds(request, st.integers(1, 4)), st.builds(cancel, st.integers(1, 4)))


@given(st.lists(messages), st.integers(0, 9))
@example([request(1), request(1), cancel(1)], 3)
def test_a_cancellation_that_is_looked_at_again_withdraws_no_other_request(items: list[Any], count: int) -> None:
    at_once, again = list(items), items[:count]
    lsp(at_once)
    lsp(again)
    again += items[count:]
    lsp(again)
    assert again == at_once


@given(st.lists(messages))
def test_exactly_those_are_withdrawn_whose_cancellation_comes_next(items: list[Any]) -> None:
    """The first later message with the id of a request is its cancellation."""
    read = list(items)
    lsp(read)
    for index, (before, after) in enumerate(zip(items, read, strict=True)):
        if type(before) is Request:
            later = (item for item in items[index + 1 :] if item in (request(before.id), cancel(before.id)))
            assert (type(after) is Withdrawn) is (next(later, None) == cancel(before.id))
        else:
            assert after is before


class Served:
    """The numbers that the functions of a test were called with."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def work(self, n: int) -> int:
        self.numbers.append(n)
        return n

    async def work_later(self, n: int) -> int:
        await asyncio.sleep(0)
        return self.work(n)

    def handlers(self, kind: str) -> Handlers:
        handlers = Handlers()
        handlers.register("m", self.work_later if kind == "async" else self.work, thread=kind == "thread")
        return handlers


@rows("kind", ["sync", "async", "thread"])
@rows(("convention", "code"), [(LspConvention(), -32800), (McpConvention(), None)])
async def test_none_begins_whose_cancellation_is_in_the_same_chunk(
    convention: Convention, code: int | None, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than a transport delivers at a time, and one that is not cancelled."""
    monkeypatch.setattr(connection, "TURN_SECONDS", 60.0)  # the machine may be busy
    served = Served()

    async def serve(transport: StreamTransport) -> None:
        async with Session(transport, served.handlers(kind), convention=convention) as session:
            await session.wait_closed()

    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    reader, writer = await asyncio.open_connection(*server.address)
    chunk = [encode(Request(n, "m", {"n": n})) for n in range(REQUESTS)]
    for n in range(1, REQUESTS):
        notice: Any = convention.cancellation(n, None)
        chunk.append(encode(Notification(*notice)))
    writer.write(b"".join(chunk))
    writer.write_eof()
    responses = [decode(line) for line in (await reader.read()).splitlines()]
    wanted = [Response(0, 0)]
    if code is not None:
        wanted += [Response(n, error=Error(code, "Request cancelled")) for n in range(1, REQUESTS)]
    assert sorted(responses, key=lambda response: response.id) == wanted  # type: ignore[union-attr]
    assert served.numbers == [0]
    writer.close()
    await server.close()


async def test_a_cancellation_is_read_while_requests_wait_for_the_next_turn() -> None:
    """A handler takes longer than a turn, and what cancels the others arrives meanwhile."""
    numbers: list[int] = []
    time = asyncio.get_running_loop().time

    def work(n: int) -> None:
        numbers.append(n)
        end = time() + connection.TURN_SECONDS
        while time() < end:
            pass
        if n == 0:
            writer.write(b"".join(encode(cancel(other)) for other in range(1, 50)))

    async def serve(transport: StreamTransport) -> None:
        async with Session(transport, {"m": work}, convention=LspConvention()) as session:
            await session.wait_closed()

    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(b"".join(encode(Request(n, "m", {"n": n})) for n in range(50)))
    found = [decode(await reader.readline()) for _ in range(50)]
    assert len(numbers) < 10
    assert sum(isinstance(response, Response) and response.is_error for response in found) == 50 - len(numbers)
    writer.close()
    await server.close()


async def test_a_session_goes_on_after_them() -> None:
    served = Served()
    async with session_and_wire(served.handlers("sync"), convention=LspConvention()) as (session, wire):
        for message in (Request(1, "m", {"n": 1}), cancel(1), Request(1, "m", {"n": 2})):
            wire.send(encode(message))
        assert (await wire.next()).error.code == -32800
        assert await wire.next() == Response(1, 2)
        assert session.is_idle


async def test_the_first_is_cancelled_of_two_with_one_id() -> None:
    """The one in flight is cancelled; the other one, whose cancellation it seems to be, is refused."""
    async with session_and_wire({"wait": forever, "m": lambda: "served"}, convention=LspConvention()) as (_, wire):
        wire.send(encode(request(1, "wait")))
        await settle()
        wire.send(encode(request(1)))
        wire.send(encode(cancel(1)))
        second, first = await wire.next(), await wire.next()
        assert first.error.code == -32800
        assert second.error.code == -32600


async def test_a_batch_with_a_cancellation() -> None:
    served = Served()
    async with session_and_wire(served.handlers("sync"), convention=McpConvention()) as (_, wire):
        notice = Notification("notifications/cancelled", {"requestId": 1})
        wire.send(encode([Request(1, "m", {"n": 1}), Request(2, "m", {"n": 2}), notice]))
        assert await wire.next() == [Response(2, 2)]
        assert served.numbers == [2]


async def test_a_side_that_drains_says_that_it_is_busy() -> None:
    async with session_and_wire({"wait": forever, "m": lambda: 1}, convention=LspConvention()) as (session, wire):
        wire.send(encode(request(1, "wait")))
        await settle()
        closing = asyncio.ensure_future(session.close(20))
        await settle()
        wire.send(encode(request(2)))
        wire.send(encode(cancel(2)))
        assert (await wire.next()).error.code == -32009
        wire.send(encode(cancel(1)))
        await closing


async def test_a_peer_that_reads_none_of_the_responses_is_not_read_for_ever() -> None:
    one, other = memory_pair()
    other.pauses_when_blocked = False
    other.onmessage = lambda *_: None
    await other.start()
    other.pause_reading()
    async with Session(one, convention=LspConvention(), response_bytes=1000, close_seconds=0):
        for n in range(10_000):
            other.send(encode(request(n)))
            other.send(encode(cancel(n)))
            if n % 100 == 0:
                await settle(2)
        assert not one.is_reading
        assert one.write_buffer_bytes < 400_000  # half of their size
        await other.disconnect()


async def test_those_in_a_queue_of_threads_are_not_called() -> None:
    """Even if a thread takes them before the loop's next turn, in which their tasks end."""
    served = Served()
    gate, began = threading.Event(), threading.Event()

    def block() -> None:
        began.set()
        gate.wait(20)

    with ThreadPoolExecutor(1) as pool:
        handlers = Handlers()
        handlers.register("block", block, executor=pool)
        handlers.register("m", served.work, executor=pool)
        async with session_and_wire(handlers, convention=LspConvention()) as (_, wire):
            wire.send(encode(request(0, "block")))
            for n in range(1, 6):
                wire.send(encode(Request(n, "m", {"n": n})))
            await settle()
            blocking_eventually(began.is_set)

            def cancel_all() -> None:
                for n in range(1, 6):
                    receive(cancel(n))
                gate.set()
                pool.submit(lambda: None).result(20)  # the thread has taken all

            receive: Any = wire.other.onmessage
            cancel_all()
            assert served.numbers == []
            answers = [await wire.next() for _ in range(6)]
            assert sorted(answer.id for answer in answers if answer.is_error) == [1, 2, 3, 4, 5]
            assert served.numbers == []
