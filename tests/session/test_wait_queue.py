"""The queue of coroutines that wait for their turn: its order, deadlines and cancellations."""

from __future__ import annotations

import asyncio

import pytest

from jsonrpc_fast.errors import CallTimeout
from jsonrpc_fast.session import Session
from jsonrpc_fast.session.loop_driver import WaitQueue
from jsonrpc_fast.transports import memory_pair

pytestmark = pytest.mark.usefixtures("each_loop")


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_waiter_that_may_pass_does_not_wait() -> None:
    queue = WaitQueue()
    await queue.wait(lambda _: True)
    assert len(queue) == 0


async def test_waiters_pass_in_the_order_of_arrival() -> None:
    queue = WaitQueue()
    room = 0
    passed: list[int] = []

    async def wait(number: int) -> None:
        nonlocal room
        await queue.wait(lambda _: room > 0)
        room -= 1
        passed.append(number)

    tasks = [asyncio.create_task(wait(number)) for number in range(4)]
    await turns()
    assert (len(queue), passed) == (4, [])
    room = 2
    queue.wake()
    await turns()
    assert (len(queue), passed) == (2, [0, 1])
    tasks[2].cancel()
    await turns()
    room = 1
    queue.wake()
    await turns()
    assert (len(queue), passed) == (0, [0, 1, 3])
    assert [task.cancelled() for task in tasks] == [False, False, True, False]


async def test_a_newcomer_waits_behind_the_first_even_if_there_is_room() -> None:
    queue = WaitQueue()
    asked: list[str] = []

    def may_pass(name: str) -> bool:
        asked.append(name)
        return name == "second"

    first = asyncio.create_task(queue.wait(lambda _: may_pass("first")))
    await turns()
    second = asyncio.create_task(queue.wait(lambda _: may_pass("second")))
    await turns()
    queue.wake()
    await turns()
    assert asked == ["first", "first"]
    first.cancel()
    await turns()
    assert second.done()
    assert asked == ["first", "first", "second"]


async def test_waking_an_empty_queue_does_nothing() -> None:
    WaitQueue().wake()


async def test_a_deadline_applies_in_any_place() -> None:
    queue = WaitQueue()
    first = asyncio.create_task(queue.wait(lambda _: False))
    await turns()
    with pytest.raises(CallTimeout, match=r"^'m' could not be sent in 0\.01 s: too many calls are in fl"):
        await queue.wait(lambda _: True, 0.01, "'m'")
    assert len(queue) == 1
    first.cancel()
    await turns()
    assert len(queue) == 0


async def test_a_deadline_applies_although_the_queue_is_woken_constantly() -> None:
    queue = WaitQueue()
    waiting = asyncio.create_task(queue.wait(lambda _: False, 0.02))
    while not waiting.done():
        queue.wake()
        await asyncio.sleep(0)
    with pytest.raises(CallTimeout):
        await waiting
    assert len(queue) == 0


async def test_a_wait_for_room_says_what_for() -> None:
    async with Session(memory_pair()[0], max_calls=1) as session:
        assert await session.wait_to_send(1, 5) == (5, 0.0)
        session.call_soon("first", on_error=lambda _: None)
        for method, what in ((None, "a batch of 1"), ("second", "'second'")):
            with pytest.raises(CallTimeout, match=rf"^{what} could not be sent in 0\.01 s: too many calls"):
                await session.wait_to_send(1, 0.01, method)
