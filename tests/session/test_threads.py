"""Calls and notifications from other threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from jsonrpc_fast import Notification, Request
from jsonrpc_fast.errors import ConnectionLost, EncodeError, RpcError, StateError
from jsonrpc_fast.session import LspConvention, Session
from jsonrpc_fast.session.calling import run_threadsafe
from jsonrpc_fast.transports import memory_pair

from ..support.session_pairs import fail, session_and_wire, sessions
from ..support.tables import rows
from ..support.waiting import settle

pytestmark = pytest.mark.usefixtures("each_loop")


async def test_call_threadsafe() -> None:
    threads: list[int] = []

    def add(a: int, b: int) -> int:
        threads.append(threading.get_ident())
        return a + b

    async with sessions({"add": add, "fail": fail}, convention=LspConvention()) as (client, _):

        def work() -> tuple[Any, BaseException | None]:
            futures = [client.call_threadsafe("add", [1, number]) for number in range(50)]
            results = [future.result(10) for future in futures]
            return results, client.call_threadsafe("fail", [5]).exception(10)

        results, error = await asyncio.get_running_loop().run_in_executor(None, work)
        assert results == list(range(1, 51))
        assert isinstance(error, RpcError)
        assert set(threads) == {threading.get_ident()}


async def test_notify_threadsafe() -> None:
    async with session_and_wire() as (session, wire):

        def work() -> None:
            assert session.notify_threadsafe("m", [1]).result(10) is None
            assert isinstance(session.notify_threadsafe("m", [object()]).exception(10), EncodeError)
            session.notify_threadsafe("m", [2]).result(10)

        await asyncio.get_running_loop().run_in_executor(None, work)
        assert await wire.next() == Notification("m", [1])
        assert await wire.next() == Notification("m", [2])
        await session.close()
        future = await asyncio.to_thread(session.notify_threadsafe, "m")
        assert isinstance(await asyncio.to_thread(future.exception, 10), ConnectionLost)


async def test_a_thread_that_does_not_wait_is_refused() -> None:
    async with session_and_wire(max_calls=3) as (session, wire):
        wire.transport.pause_reading()
        session.notify_soon("large", ["x" * 1_000_000])
        waiting = [session.notify_threadsafe("m", [number]) for number in range(3)]
        with pytest.raises(StateError, match="too many notifications"):
            session.notify_threadsafe("m", [3])
        await settle()
        assert not any(future.done() for future in waiting)
        assert waiting[1].cancel()
        waiting.append(session.notify_threadsafe("m", [4]))
        wire.transport.resume_reading()
        assert (await wire.next()).method == "large"
        assert [(await wire.next()).params for _ in range(3)] == [[0], [2], [4]]
        for number in range(10):  # there is room again
            future = await asyncio.to_thread(session.notify_threadsafe, "m", [number])
            assert await asyncio.to_thread(future.result, 10) is None


async def test_messages_from_another_thread_keep_their_order() -> None:
    received: list[int] = []
    async with sessions({"m": received.append}) as (client, _):

        def work() -> None:
            for number in range(100):
                client.notify_threadsafe("m", [2 * number])
                client.call_threadsafe("m", [2 * number + 1])
            client.call_threadsafe("m", [200]).result(10)

        await asyncio.to_thread(work)
        assert received == list(range(201))


async def test_cancelling_from_another_thread() -> None:
    async with session_and_wire(convention=LspConvention()) as (session, wire):

        def work() -> None:
            future = session.call_threadsafe("m")
            with pytest.raises(concurrent.futures.TimeoutError):
                future.result(0.02)
            future.cancel()

        await asyncio.get_running_loop().run_in_executor(None, work)
        assert await wire.next() == Request(1, "m")
        assert await wire.next() == Notification("$/cancelRequest", {"id": 1})
        assert session.is_idle


async def test_what_another_thread_cancels_before_its_turn_is_not_sent() -> None:
    async with session_and_wire() as (session, wire):
        # No turn of the loop passes between the two.
        assert session.call_threadsafe("m").cancel()
        assert session.notify_threadsafe("m").cancel()
        await settle()
        future = session.notify_threadsafe("m")
        asyncio.get_running_loop().call_soon(future.cancel)  # the task has been made, and has not begun
        await settle()
        assert future.cancelled()
        assert wire.received == []


def test_call_threadsafe_is_cancelled_with_the_tasks_of_the_loop() -> None:
    futures: list[concurrent.futures.Future[Any]] = []

    async def main() -> None:
        one, other = memory_pair()
        await other.start()
        session = Session(one)
        await session.start()
        futures.append(session.call_threadsafe("m"))
        await settle()

    asyncio.run(main())
    with pytest.raises(concurrent.futures.CancelledError):
        futures[0].result(10)


def test_call_threadsafe_after_the_end_of_the_loop() -> None:
    async def closed_session() -> Session:
        async with sessions() as (client, _):
            return client

    session = asyncio.run(closed_session())
    with pytest.raises(StateError):
        session.call_threadsafe("m")
    with pytest.raises(StateError):
        session.notify_threadsafe("m")


def test_call_threadsafe_while_the_loop_is_stopped() -> None:
    loop = asyncio.events.new_event_loop()
    try:
        one, other = memory_pair()
        session = Session(one)
        loop.run_until_complete(session.start())
        with pytest.raises(StateError):
            session.call_threadsafe("m")
        loop.run_until_complete(other.disconnect())
        loop.run_until_complete(session.close())
    finally:
        loop.close()


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")  # the loop drops it
@rows("has_task", [False, True])
def test_call_threadsafe_fails_when_the_loop_is_closed(has_task: bool) -> None:
    """The loop stops after the check that it is running and before the first turn of the call, or of its task."""
    loop = asyncio.new_event_loop()
    one, other = memory_pair()
    futures: list[concurrent.futures.Future[Any]] = []

    async def main() -> None:
        await other.start()
        session = Session(one)
        await session.start()
        await settle()
        futures.append(session.call_threadsafe("m"))
        # The turn of the stop is the last one: callbacks after it never run.
        if has_task:
            loop.call_soon(loop.stop)
        else:
            loop.stop()

    task = loop.create_task(main())
    loop.run_forever()
    loop.close()
    assert task.done()
    gc.collect()
    assert isinstance(futures[0].exception(1), ConnectionLost)


def test_call_threadsafe_fails_when_the_loop_is_closed_meanwhile() -> None:
    """A loop that is closed while a callback is added keeps the callback, and never runs it."""
    kept: list[Any] = []
    loop: Any = SimpleNamespace(
        is_running=lambda: True, call_soon_threadsafe=lambda *callback: kept.append(callback), is_closed=lambda: True
    )
    future = run_threadsafe(loop, lambda _: settle())
    assert len(kept) == 1
    assert isinstance(future.exception(1), ConnectionLost)
