"""Dispatch of async functions: batches that run concurrently, their bounds, deadlines and cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import json
import sys
from collections.abc import Generator, Iterator
from typing import Any, Final

import pytest

from jsonrpc_fast.handlers import Handlers

from ..support.clock import moving_clock
from ..support.dispatching import (
    INTERNAL,
    RESULT,
    Pause,
    call,
    error,
    exit_now,
    fail,
    misfit,
    on_another_loop,
)
from ..support.memory import collect
from ..support.tables import rows
from ..support.waiting import forever


async def echo(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


async def fail_later() -> None:
    await asyncio.sleep(0)
    fail()


async def exit_later() -> None:
    await asyncio.sleep(0)
    exit_now()


def cancel_this_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def cancel_itself() -> None:
    cancel_this_task()
    await forever()


ASYNC = Handlers(
    {
        "echo": echo,
        "fail": fail_later,
        "exit": exit_later,
        "cancel": cancel_itself,
        "sum": lambda *numbers: sum(numbers),
    }
)


ASYNC_CALLS = [
    (call("echo", 1, [5]), RESULT % b"5"),
    (call("sum", 1, [5, 6]), RESULT % b"11"),
    (call("fail"), INTERNAL),
    (call("exit"), INTERNAL),
    (call("echo", 1, []), misfit(b"/value", b"is required")),
    ('{"jsonrpc":"2.0","method":"echo","params":[1]}', b""),
    ('{"jsonrpc":"2.0","method":"fail"}', b""),
]


@rows("text, reply", ASYNC_CALLS)
async def test_async_functions(text: str, reply: bytes) -> None:
    assert await ASYNC.dispatch_async(text, delimited=False) == reply


@pytest.fixture
def nothing_unawaited(each_loop: None) -> Iterator[None]:
    """On each loop; a coroutine that the test never awaits is reported in this test."""
    yield
    collect()


on_each_loop = pytest.mark.usefixtures("nothing_unawaited")


@pytest.mark.virtual_time
@on_each_loop
async def test_async_functions_in_a_batch() -> None:
    texts = [text for text, _ in ASYNC_CALLS] + [call("cancel")]
    replies = [reply for _, reply in ASYNC_CALLS if reply] + [INTERNAL]
    reply = await ASYNC.dispatch_async(f"[{','.join(texts)}]")
    assert reply == b"[" + b",".join(replies) + b"]\n"


@pytest.mark.virtual_time
@on_each_loop
async def test_a_batch_runs_concurrently_and_is_answered_in_order() -> None:
    order: list[int] = []
    events = [asyncio.Event() for _ in range(4)]

    async def wait(index: int) -> int:
        # The last one begins: one after another, they would wait for ever.
        if index < 3:
            await events[index + 1].wait()
        order.append(index)
        events[index].set()
        return index

    methods = Handlers({"wait": wait})
    batch = ",".join([call("wait", index, [index]) for index in range(4)])
    reply = await methods.dispatch_async(f"[{batch}]")
    assert json.loads(reply) == [{"jsonrpc": "2.0", "id": index, "result": index} for index in range(4)]
    assert order == [3, 2, 1, 0]


@pytest.mark.virtual_time
@on_each_loop
async def test_other_awaitables() -> None:
    class Later:
        def __await__(self) -> Generator[Any, None, int]:
            yield from asyncio.sleep(0).__await__()
            return 7

    future = asyncio.get_running_loop().create_future()
    future.set_result(8)
    methods = Handlers({"later": Later, "future": lambda: future})
    replies = json.loads(await methods.dispatch_async(f"[{call('later')},{call('future')}]"))
    assert [reply["result"] for reply in replies] == [7, 8]


@pytest.mark.virtual_time
@on_each_loop
@rows("when", ["begun", "before its first step"])
async def test_a_cancelled_batch_leaves_nothing_running(when: str) -> None:
    ended: list[str] = []
    begun = asyncio.Event()
    before = asyncio.all_tasks()

    async def slow() -> None:
        begun.set()
        try:
            await forever()
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
                work.cancel()  # a second time, while it waits for this
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            ended.append("slow")

    methods = Handlers({"slow": slow, "cancel": cancel_this_task, "sum": lambda: 0})
    names = ["slow", "sum", "slow"] if when == "begun" else ["slow", "cancel", "slow"]
    work = asyncio.ensure_future(methods.dispatch_async("[" + ",".join(map(call, names)) + "]"))
    if when == "begun":
        await begun.wait()
        work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert asyncio.all_tasks() == before
    if when == "begun":
        assert ended == ["slow", "slow"]


def test_an_interrupt_in_a_batch_leaves_nothing_running() -> None:
    ended = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    async def slow() -> None:
        try:
            await forever()
        finally:
            ended.append("slow")

    methods = Handlers({"slow": slow, "interrupt": interrupt})
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(methods.dispatch_async(f"[{call('slow')},{call('interrupt')},{call('slow')}]"))
    gc.collect()
    assert ended == []


@pytest.mark.virtual_time
@on_each_loop
async def test_each_item_has_its_own_context_variables() -> None:
    variable = contextvars.ContextVar("variable", default=0)

    async def add() -> int:
        variable.set(variable.get() + 1)
        await asyncio.sleep(0)
        return variable.get()

    reply = await Handlers({"add": add}).dispatch_async(f"[{call('add')},{call('add')}]")
    assert [each["result"] for each in json.loads(reply)] == [1, 1]


LATE: Final = error(-32008, "Deadline exceeded")


class Slow:
    """Functions that take their time, and what became of them."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.running = self.max_running = 0
        self.handlers = Handlers({"wait": self.wait, "stubborn": self.stubborn, "sum": lambda *numbers: sum(numbers)})

    async def wait(self, name: str, is_ready: bool = False) -> str:
        self.running += 1
        self.max_running = max(self.running, self.max_running)
        try:
            await (asyncio.sleep(0) if is_ready else forever())
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            self.ended.append(name)
            raise
        finally:
            self.running -= 1
        return name

    async def stubborn(self) -> int:
        with contextlib.suppress(asyncio.CancelledError):
            await forever()
        return 7


@pytest.mark.virtual_time
@on_each_loop
@rows(
    ("text", "reply"),
    [
        (call("wait", 1, ["a"]), LATE),
        (call("wait", 1, ["a", True]), RESULT % b'"a"'),
        (call("stubborn"), RESULT % b"7"),
        (call("sum", 1, [1, 2]), RESULT % b"3"),
        ('{"jsonrpc":"2.0","method":"wait","params":["a"]}', b""),
        ("[]", error(-32600, "Invalid Request").replace(b'"id":1', b'"id":null')),
    ],
)
async def test_a_message_with_a_deadline(text: str, reply: bytes) -> None:
    task = asyncio.current_task()
    assert task is not None
    slow = Slow()
    assert await slow.handlers.dispatch_async(text, timeout=0.05, delimited=False) == reply
    assert slow.ended == (["a"] if reply == LATE or not reply else [])
    if sys.version_info >= (3, 11):
        assert task.cancelling() == 0
    await asyncio.sleep(0)  # the cancellation is over


@pytest.mark.virtual_time
@on_each_loop
async def test_a_batch_with_a_deadline() -> None:
    slow, loop = Slow(), asyncio.get_running_loop()
    texts = [
        call("sum", 1, [1, 2]),
        call("wait", 1, ["a"]),
        call("stubborn"),
        call("wait", 1, ["b", True]),
        '{"jsonrpc":"2.0","method":"wait","params":["c"]}',
        "1",
    ]
    started = loop.time()
    reply = await slow.handlers.dispatch_async(f"[{','.join(texts)}]", timeout=1, delimited=False)
    invalid = error(-32600, "Invalid Request").replace(b'"id":1', b'"id":null')
    replies = [RESULT % b"3", LATE, RESULT % b"7", RESULT % b'"b"', invalid]
    assert reply == b"[" + b",".join(replies) + b"]"
    assert sorted(slow.ended) == ["a", "c"]
    assert loop.time() - started == 1


@on_each_loop
async def test_after_the_deadline_no_function_is_called() -> None:
    slow = Slow()
    slow.handlers.register("block", moving_clock())
    batch = ",".join([call("block", 1, [1]), call("wait", 1, ["a"]), call("sum", 1, [1]), "1"])
    invalid = error(-32600, "Invalid Request").replace(b'"id":1', b'"id":null')
    reply = await slow.handlers.dispatch_async(f"[{batch}]", timeout=0.5, delimited=False)
    assert reply == b"[" + b",".join([RESULT % b"null", LATE, LATE, invalid]) + b"]"
    assert await slow.handlers.dispatch_async(call("sum"), timeout=0, delimited=False) == LATE
    assert slow.max_running == 0


@pytest.mark.virtual_time
@on_each_loop
async def test_the_deadline_counts_while_items_wait_for_room() -> None:
    slow = Slow()
    batch = ",".join([call("wait", 1, [str(number)]) for number in range(5)])
    reply = await slow.handlers.dispatch_async(f"[{batch}]", timeout=0.05, max_handlers=2, delimited=False)
    assert reply == b"[" + b",".join([LATE] * 5) + b"]"
    assert (slow.max_running, slow.ended) == (2, ["0", "1"])


@pytest.mark.virtual_time
@on_each_loop
@rows("count", [1, 2])
async def test_a_cancellation_is_not_taken_for_the_deadline(count: int) -> None:
    slow = Slow()
    batch = ",".join([call("wait", 1, ["a"])] * count)
    work = asyncio.ensure_future(slow.handlers.dispatch_async(f"[{batch}]" if count > 1 else batch, timeout=30))
    await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert slow.ended == ["a"] * count


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before Python 3.11 tasks do not count cancellations")
@on_each_loop
async def test_a_cancellation_at_the_deadline_is_not_lost() -> None:
    slow, move = Slow(), moving_clock()
    work = asyncio.ensure_future(slow.handlers.dispatch_async(call("wait", 1, ["a"]), timeout=0.02))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.03, work.cancel)
    move(0.06)  # both timers are due in the same turn of the loop
    with pytest.raises(asyncio.CancelledError):
        await work


@pytest.mark.virtual_time
@on_each_loop
@rows("max_handlers", [1, 3, 256])
async def test_a_batch_has_a_bound_of_concurrent_functions(max_handlers: int) -> None:
    slow = Slow()
    batch = ",".join([call("wait", number, [str(number), True]) for number in range(300)])
    before = len(asyncio.all_tasks())
    work = asyncio.ensure_future(slow.handlers.dispatch_async(f"[{batch}]", max_handlers=max_handlers))
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) <= before + 1 + max_handlers
    assert [reply["result"] for reply in json.loads(await work)] == [str(number) for number in range(300)]
    assert slow.max_running == max_handlers


@rows(
    ("options", "message"),
    [
        ({"timeout": -1}, "timeout must be 0 seconds or more"),
        ({"timeout": float("nan")}, "timeout must be 0 seconds or more"),
        ({"max_handlers": 0}, "max_handlers must be 1 or more"),
    ],
)
async def test_bounds_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        await ASYNC.dispatch_async(call("sum"), **options)


def test_a_deadline_needs_asyncio() -> None:
    with pytest.raises(RuntimeError, match="timeout needs asyncio"):
        on_another_loop(ASYNC.dispatch_async(call("sum"), timeout=1))


def test_without_asyncio_a_batch_is_served_item_by_item() -> None:
    order: list[str] = []

    async def slow(name: str) -> str:
        order.append(name)
        await Pause()
        order.append(name)
        if name == "b":
            fail()
        return name

    methods = Handlers({"slow": slow})
    batch = ",".join([call("slow", 1, [name]) for name in "abc"])
    reply = on_another_loop(methods.dispatch_async(f"[{batch}]"))
    assert reply == b"[" + b",".join([RESULT % b'"a"', INTERNAL, RESULT % b'"c"']) + b"]\n"
    assert order == list("aabbcc")
    assert on_another_loop(methods.dispatch_async(call("slow", 1, ["d"]))) == RESULT % b'"d"' + b"\n"


async def test_another_event_loop_hosted_by_asyncio() -> None:
    # trio's guest mode runs its tasks in callbacks: there is a running loop, and no task.
    done = asyncio.get_running_loop().create_future()

    async def slow() -> int:
        await Pause()
        return 1

    work = Handlers({"slow": slow}).dispatch_async(f"[{call('slow')},{call('slow')}]")
    asyncio.get_running_loop().call_soon(lambda: done.set_result(on_another_loop(work)))
    assert [reply["result"] for reply in json.loads(await done)] == [1, 1]


def test_sync_dispatch_of_an_async_function(caplog: pytest.LogCaptureFixture) -> None:
    assert ASYNC.dispatch(call("echo", 1, [5])) == INTERNAL + b"\n"
    assert ASYNC.dispatch('{"jsonrpc":"2.0","method":"echo","params":[5]}') == b""
    reply = ASYNC.dispatch(f"[{call('sum', 1, [1])},{call('echo', 1, [5])}]")
    assert reply == b"[" + RESULT % b"1" + b"," + INTERNAL + b"]\n"
    gc.collect()  # a coroutine that was never awaited is told now
    assert len(caplog.records) == 3
    assert "dispatch_async" in caplog.text
