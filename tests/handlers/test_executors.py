"""Sync handlers in threads and processes: outcomes, context, cancellation and bounds."""

from __future__ import annotations

import asyncio
import contextvars
import json
import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError as CancelledInThread
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

from jsonrpc_fast import encode_notification, encode_request
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.handlers import CallNext, Handlers, RequestContext
from jsonrpc_fast.session import LspConvention, SessionContext

from ..support.session_pairs import Faults, session_and_wire, sessions
from ..support.waiting import eventually, results_of, settle

pytestmark = pytest.mark.usefixtures("each_loop")

CALL = '{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}'
RESULT = b'{"jsonrpc":"2.0","id":1,"result":%b}\n'
INTERNAL = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}\n'
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")


def add(a: int, b: int) -> int:
    return a + b


def fail(kind: str) -> None:
    if kind == "rpc":
        raise RpcError(7, "refused", {"why": 1})
    raise {"lookup": LookupError, "exit": SystemExit, "stop": StopIteration}[kind]("secret")


def process() -> int:
    return os.getpid()


def thread_name() -> str:
    return threading.current_thread().name


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2, "pool") as pool:
        yield pool


async def test_in_a_thread() -> None:
    handlers = Handlers()
    handlers.register("add", add, thread=True)
    handlers.register("fail", fail, thread=True)
    handlers.register("name", thread_name, thread=True)
    assert await handlers.dispatch_async(CALL % ("add", "[1,2]")) == RESULT % b"3"
    assert b"-32602" in await handlers.dispatch_async(CALL % ("add", "[1]"))
    refusal = b'{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"refused","data":{"why":1}}}\n'
    assert await handlers.dispatch_async(CALL % ("fail", '["rpc"]')) == refusal
    for kind in ("lookup", "exit", "stop"):
        assert await handlers.dispatch_async(CALL % ("fail", f'["{kind}"]')) == INTERNAL
    name = json.loads(await handlers.dispatch_async(CALL % ("name", "[]")))["result"]
    assert name != threading.current_thread().name


def test_sync_dispatch_runs_it_in_the_calling_thread() -> None:
    handlers = Handlers()
    handlers.register("name", thread_name, thread=True)
    name = threading.current_thread().name.encode()
    assert handlers.dispatch(CALL % ("name", "[]")) == RESULT % (b'"' + name + b'"')


async def test_an_executor_of_threads(pool: ThreadPoolExecutor) -> None:
    handlers = Handlers()
    handlers.register("name", thread_name, executor=pool)
    assert (await handlers.dispatch_async(CALL % ("name", "[]"))).startswith(RESULT[:-4] + b'"pool_')


async def test_a_batch_runs_in_several_threads(pool: ThreadPoolExecutor) -> None:
    barrier = threading.Barrier(2)  # a single thread would wait forever
    handlers = Handlers()
    handlers.register("meet", lambda: barrier.wait(20) >= 0, executor=pool)
    reply = json.loads(await handlers.dispatch_async(f"[{CALL % ('meet', '[]')},{CALL % ('meet', '[]')}]"))
    assert [item["result"] for item in reply] == [True, True]


async def test_a_thread_has_the_context_and_the_variables_of_the_request() -> None:
    def show(context: RequestContext) -> Any:
        before = variable.get()
        variable.set("changed")
        return [before, context.context, context.id]

    async def set_variable(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        variable.set("set")
        result = await call_next(params)
        assert variable.get() == "set"
        return result

    handlers = Handlers(middleware=[set_variable])
    handlers.register("show", show, thread=True)
    assert await handlers.dispatch_async(CALL % ("show", "[]"), context="me") == RESULT % b'["set","me",1]'


@pytest.mark.ci
async def test_in_another_process() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        handlers = Handlers()
        for name, function in {"process": process, "add": add, "fail": fail}.items():
            handlers.register(name, function, executor=pool)
        handlers.register("lambda", lambda: 1, executor=pool)
        reply = json.loads(await handlers.dispatch_async(CALL % ("process", "[]")))
        assert reply["result"] not in (None, os.getpid())
        assert await handlers.dispatch_async(CALL % ("add", '{"a":1,"b":2}'), raw=True) == RESULT % b"3"
        assert b"-32602" in await handlers.dispatch_async(CALL % ("add", "[1]"))
        assert b'"data":{"why":1}' in await handlers.dispatch_async(CALL % ("fail", '["rpc"]'))
        assert await handlers.dispatch_async(CALL % ("lambda", "[]")) == INTERNAL  # it cannot be pickled


async def test_an_executor_that_is_shut_down(caplog: pytest.LogCaptureFixture) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    handlers = Handlers()
    handlers.register("add", add, executor=pool)
    assert await handlers.dispatch_async(CALL % ("add", "[1,2]")) == INTERNAL
    assert "shutdown" in caplog.text


class Inline(Executor):
    """Another kind of executor."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*args, **kwargs))
        return future


async def test_any_executor() -> None:
    handlers = Handlers()
    handlers.register("add", add, executor=Inline())
    assert await handlers.dispatch_async(CALL % ("add", "[1,2]")) == RESULT % b"3"


async def asynchronous() -> None:
    raise AssertionError


def with_context(context: RequestContext) -> None:
    raise AssertionError


def test_what_does_not_fit() -> None:
    handlers = Handlers()
    for function, options, text in (
        (asynchronous, {"thread": True}, "async"),
        (with_context, {"executor": Inline()}, "RequestContext"),
        (add, {"executor": 5}, "Executor"),
        (add, {"executor": Inline(), "thread": True}, "mutually exclusive"),
        (add, {"threads": True}, "no option 'threads'"),
    ):
        with pytest.raises(TypeError, match=text):
            handlers.register("m", function, **options)  # type: ignore[call-overload]
    handlers.register("m", add)  # none of them was registered


async def test_a_late_thread_is_left_behind(pool: ThreadPoolExecutor) -> None:
    go_on = threading.Event()
    called = []
    handlers = Handlers()
    handlers.register("wait", lambda: (called.append(1), go_on.wait(20))[1], executor=pool, timeout=0.02)
    texts = ",".join([CALL % ("wait", "[]")] * 4)
    replies = json.loads(await handlers.dispatch_async(f"[{texts}]"))
    assert [reply["error"]["code"] for reply in replies] == [-32008] * 4
    go_on.set()
    handlers.register("name", thread_name, executor=pool)
    assert b"pool_" in await handlers.dispatch_async(CALL % ("name", "[]"))
    assert len(called) <= 2  # those that waited for a thread were cancelled: no thread calls them


# Sessions.


async def test_a_session_serves_others_meanwhile(pool: ThreadPoolExecutor) -> None:
    go_on = threading.Event()
    handlers = Handlers({"add": add})
    handlers.register("wait", lambda: go_on.wait(20), executor=pool)
    async with sessions(handlers) as (client, _):
        waiting = asyncio.ensure_future(client.call("wait"))
        assert await client.call("add", [1, 2]) == 3
        assert not waiting.done()
        go_on.set()
        assert await waiting is True


async def test_a_cancelled_request_that_waits_is_not_called(pool: ThreadPoolExecutor) -> None:
    go_on = threading.Event()
    called = []
    handlers = Handlers()
    handlers.register("wait", lambda number: (called.append(number), go_on.wait(20))[1], executor=pool)
    async with session_and_wire(handlers, convention=LspConvention()) as (_, wire):
        for number in range(3):
            wire.send(encode_request(number, "wait", [number]))
        await eventually(lambda: len(called) >= 2)
        for number in range(3):
            wire.send(encode_notification("$/cancelRequest", {"id": number}))
        await settle()
        go_on.set()
        answers = [await wire.next() for _ in range(3)]
        assert {answer.id: answer.error.code for answer in answers} == dict.fromkeys(range(3), -32800)
    pool.shutdown()
    assert called == [0, 1]


async def test_max_handlers_bounds_the_threads() -> None:
    running = peak = 0
    lock = threading.Lock()
    go_on = threading.Event()

    def work() -> None:
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)
        go_on.wait(20)
        with lock:
            running -= 1

    handlers = Handlers()
    handlers.register("work", work, thread=True)
    async with sessions(handlers, max_handlers=2) as (client, _):
        calls = [asyncio.ensure_future(client.call("work")) for _ in range(20)]
        await eventually(lambda: running == 2)
        await settle()
        go_on.set()
        await asyncio.gather(*calls)
    assert peak == 2


async def test_a_thread_calls_back() -> None:
    def ask(context: SessionContext) -> Any:
        return context.session.call_threadsafe("who").result(20)

    ask.__annotations__["context"] = SessionContext
    handlers = Handlers()
    handlers.register("ask", ask, thread=True)
    async with sessions(handlers, {"who": lambda: "Ann"}, max_handlers=1) as (client, _):
        assert await client.call("ask") == "Ann"


async def test_closing_does_not_wait_for_a_thread_for_ever(pool: ThreadPoolExecutor) -> None:
    go_on = threading.Event()
    handlers = Handlers()
    handlers.register("wait", lambda: go_on.wait(20), executor=pool)
    async with sessions(handlers, hooks=Faults()) as (client, server):
        waiting = asyncio.ensure_future(client.call("wait"))
        await settle()
        await server.close(0)
        go_on.set()
        await results_of(waiting)
    assert server.dropped_requests == 1


def test_registering_alone_starts_no_thread_and_no_process() -> None:
    before = threading.active_count()
    handlers = Handlers()
    handlers.register("add", add, thread=True)
    assert handlers.find("add") is not None
    assert threading.active_count() == before


@pytest.mark.parametrize("kind", [CancelledInThread, asyncio.CancelledError])
async def test_a_function_that_raises_a_cancellation(kind: type[BaseException]) -> None:
    def fail() -> None:
        raise kind

    with ThreadPoolExecutor(1) as pool:
        handlers = Handlers()
        handlers.register("fail", fail, executor=pool)
        assert await handlers.dispatch_async(CALL % ("fail", "[]")) == INTERNAL
        async with sessions(handlers) as (client, _):
            with pytest.raises(RpcError, match="Internal error"):
                await asyncio.wait_for(client.call("fail"), 10)


async def test_an_executor_that_cancels_its_queue() -> None:
    started, release = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        release.wait(10)

    pool = ThreadPoolExecutor(1)
    handlers = Handlers()
    handlers.register("wait", wait, executor=pool)
    first, second = [asyncio.create_task(handlers.dispatch_async(CALL % ("wait", "[]"))) for _ in range(2)]
    await eventually(started.is_set)
    pool.shutdown(wait=False, cancel_futures=True)
    assert await second == INTERNAL
    release.set()
    assert await first == RESULT % b"null"


async def test_functions_in_threads_notify_call_and_cancel() -> None:
    """They use the session of their context, whose loop runs in another thread."""
    heard: list[int] = []
    ended: list[bool] = []
    go_on = threading.Event()

    def work(context: SessionContext, first: int) -> int:
        session = context.session
        sent = [session.notify_threadsafe("hear", [first + number]) for number in range(50)]
        total = sum(session.call_threadsafe("double", [number]).result(20) for number in range(10))
        abandoned = session.call_threadsafe("forever")
        assert abandoned.cancel()
        for future in sent:
            future.result(20)
        return total

    async def forever() -> None:
        try:
            await forever()
        finally:
            ended.append(True)

    handlers = Handlers()
    handlers.register("work", work, thread=True)
    handlers.register("wait", lambda: go_on.wait(20), thread=True)
    mine = {"hear": heard.append, "double": lambda number: 2 * number, "forever": forever}
    options = {"convention": LspConvention()}
    async with sessions(handlers, mine, options, **options) as (client, server):
        assert await asyncio.gather(*[client.call("work", [first]) for first in range(0, 200, 50)]) == [90] * 4
        assert sorted(heard) == list(range(200))
        for first in range(0, 200, 50):  # those of one thread arrive in order
            assert [number for number in heard if first <= number < first + 50] == list(range(first, first + 50))
        waiting = asyncio.ensure_future(client.call("wait"))
        await settle()
        waiting.cancel()
        await settle()
        assert waiting.cancelled()
        assert await client.call("work", [0]) == 90  # while the thread still waits
        go_on.set()
        await eventually(lambda: client.is_idle and server.is_idle)
