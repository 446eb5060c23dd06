"""What a dispatcher with hooks reports, and that it serves like one without them."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

import pytest

from jsonrpc_fast import JSONRPC, decode
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.hooks import Outcome

from ..support.recorder import Recorder
from ..support.tables import rows
from ..support.waiting import forever, settle

RESULT, ERROR, CANCELLED = Outcome.RESULT, Outcome.ERROR, Outcome.CANCELLED


def refuse() -> None:
    raise RpcError(5, "no")


async def foreign() -> None:
    raise asyncio.CancelledError


async def later() -> int:
    await asyncio.sleep(0)
    return 2


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sync": lambda: 1,
    "later": later,
    "refuse": refuse,
    "fail": lambda: 1 / 0,
    "object": object,
    "forever": forever,
    "foreign": foreign,
}


def text_of(method: str, id: int | None = 1) -> bytes:
    return b'{"jsonrpc":"2.0",%s"method":"%s"}' % (b"" if id is None else b'"id":%d,' % id, method.encode())


OUTCOMES = [
    ("sync", RESULT, None),
    ("later", RESULT, None),
    ("refuse", ERROR, 5),
    ("fail", ERROR, -32603),
    ("object", ERROR, -32603),
]


@rows("method, outcome, code", OUTCOMES)
@rows("id", [1, None])
async def test_each_outcome(method: str, id: int | None, outcome: Outcome, code: int | None) -> None:
    if id is None and outcome is ERROR:  # a notification gets no response
        outcome, code = (RESULT, None) if method == "object" else (ERROR, -32603)
    hooks, handlers = Recorder(), Handlers(FUNCTIONS)
    text = text_of(method, id)
    assert await started(handlers.prepare(hooks=hooks), text) == await started(handlers.prepare(), text)
    assert hooks.events == [("request", id, method), ("served", id, method, outcome, code)]
    if method != "later":
        hooks.events.clear()
        assert handlers.prepare(hooks=hooks).serve(text) == handlers.prepare().serve(text)
        assert hooks.events[1:] == [("served", id, method, outcome, code)]


async def started(dispatch: Any, data: Any, *arguments: Any) -> Any:
    response = dispatch.start(data, *arguments)
    return response if isinstance(response, bytes) else await response


def test_an_async_function_of_a_sync_dispatch() -> None:
    hooks = Recorder()
    Handlers(FUNCTIONS).prepare(hooks=hooks).serve(text_of("later"))
    assert hooks.events == [("request", 1, "later"), ("served", 1, "later", ERROR, -32603)]


def test_a_method_that_is_not_found() -> None:
    hooks = Recorder()
    dispatch = Handlers(FUNCTIONS).prepare(hooks=hooks)
    assert b"-32601" in dispatch.serve(text_of("x"))
    assert dispatch.serve(text_of("x", None)) == b""
    assert hooks.events == [("served without", 1, "x", ERROR, -32601)]


def test_a_find_that_fails() -> None:
    class Broken(Handlers):
        def find(self, method: str) -> Any:
            raise LookupError

    hooks = Recorder()
    assert b"-32603" in Broken().prepare(hooks=hooks).serve(text_of("x"))
    assert hooks.events == [("served without", 1, "x", ERROR, -32603)]


async def test_a_batch() -> None:
    hooks = Recorder()
    methods = ["later", "refuse", "x", "sync"]
    text = b"[%s]" % b",".join(text_of(method, id) for id, method in enumerate(methods))
    assert len(decode(await started(Handlers(FUNCTIONS).prepare(hooks=hooks), text))) == 4  # type: ignore[arg-type]
    served = {event[1]: event[3:] for event in hooks.events if event[0].startswith("served")}
    assert served == {0: (RESULT, None), 1: (ERROR, 5), 2: (ERROR, -32601), 3: (RESULT, None)}
    assert len(hooks.events) == 7


@pytest.mark.virtual_time
@rows("is_batch", [False, True])
async def test_a_deadline(is_batch: bool) -> None:
    hooks = Recorder()
    text = b"[%s,%s]" % (text_of("forever"), text_of("sync", 2)) if is_batch else text_of("forever")
    assert b"-32008" in await started(Handlers(FUNCTIONS).prepare(hooks=hooks), text, None, None, 0.5)
    assert ("served", 1, "forever", ERROR, -32008) in hooks.events
    hooks.events.clear()
    await started(Handlers(FUNCTIONS).prepare(hooks=hooks), text, None, None, 0)  # none is begun
    assert {event[:1] + event[3:4] for event in hooks.events} == {("served without", ERROR)}


@rows("is_batch", [False, True])
@rows("turns", [0, 3])
async def test_a_cancelled_dispatch(is_batch: bool, turns: int) -> None:
    """Even one whose functions have not begun."""
    hooks = Recorder()
    text = b"[%s,%s]" % (text_of("forever"), text_of("forever", 2)) if is_batch else text_of("forever")
    task = asyncio.ensure_future(started(Handlers(FUNCTIONS).prepare(hooks=hooks), text))
    await settle(1 + turns)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    served = [event for event in hooks.events if event[0] == "served"]
    assert sorted(served) == [("served", id, "forever", CANCELLED, None) for id in range(1, 2 + is_batch)]


async def test_a_cancellation_that_the_function_raised_itself() -> None:
    hooks = Recorder()
    with pytest.raises(asyncio.CancelledError):
        await started(Handlers(FUNCTIONS).prepare(hooks=hooks), text_of("foreign"))
    assert hooks.events[1:] in (
        [("served", 1, "foreign", ERROR, -32603)],
        [("served", 1, "foreign", CANCELLED, None)],  # before Python 3.11
    )


def test_a_function_that_ends_the_program() -> None:
    def end() -> None:
        raise KeyboardInterrupt

    hooks = Recorder()
    with pytest.raises(KeyboardInterrupt):
        Handlers({"end": end}).prepare(hooks=hooks).serve(text_of("end"))
    assert hooks.events[1:] == [("served", 1, "end", CANCELLED, None)]


def test_faults() -> None:
    class Faults:
        def __init__(self) -> None:
            self.found: list[Any] = []

        def fault(self, error: BaseException, method: str | None, id: Any) -> None:
            self.found.append((type(error).__name__, method, id))

    hooks = Faults()
    dispatch = Handlers(FUNCTIONS).prepare(hooks=hooks)
    for text in (text_of("fail"), text_of("fail", None), b"{", text_of("refuse"), text_of("object")):
        dispatch.serve(text)
    assert hooks.found == [
        ("ZeroDivisionError", "fail", 1),
        ("ZeroDivisionError", "fail", None),
        ("ParseError", None, None),
        ("EncodeError", "object", 1),
    ]


async def test_each_request_has_its_own_context() -> None:
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable", default=None)
    seen: list[Any] = []

    class Hooks:
        def request_started(self, id: Any, method: str) -> None:
            assert variable.get() is None
            variable.set(id)

        def request_served(self, *event: Any) -> None:
            seen.append(variable.get())

    async def waits() -> Any:
        await asyncio.sleep(0)
        await asyncio.get_running_loop().create_task(asyncio.sleep(0))
        seen.append(variable.get())

    dispatch = Handlers({"waits": waits, "sync": lambda: seen.append(variable.get())}).prepare(hooks=Hooks())
    for method in ("sync", "waits"):
        await started(dispatch, text_of(method, 7))
    await started(dispatch, b"[%s,%s]" % (text_of("waits", 8), text_of("waits", 9)))
    assert seen[:4] == [7, 7, 7, 7]
    assert sorted(seen[4:]) == [8, 8, 9, 9]
    assert variable.get() is None


def test_a_trace_context() -> None:
    seen: list[Any] = []

    class Hooks:
        def request_received(self, id: Any, method: str, carrier: dict[str, str]) -> None:
            seen.append(carrier)

    dispatch = Handlers(FUNCTIONS).prepare(JSONRPC.replace(extra_members="keep"), hooks=Hooks())
    inside = text_of("sync").replace(b"{", b'{"traceparent":"inside",')
    for text in (text_of("sync"), inside):
        dispatch.serve(text)
        dispatch.continuing({"traceparent": "beside"}).serve(text)
    assert [carrier.get("traceparent") for carrier in seen] == [None, "beside", "inside", "inside"]


async def test_hooks_that_fail_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            def fail(*arguments: Any) -> None:
                raise KeyError(*arguments)

            return fail

    dispatch = Handlers(FUNCTIONS).prepare(hooks=Broken())
    for method in ("sync", "later", "refuse", "x", "fail"):
        assert await started(dispatch, text_of(method)) == await started(Handlers(FUNCTIONS).prepare(), text_of(method))
    assert "KeyError" in caplog.text
