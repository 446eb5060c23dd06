"""From a text to its reply: what is answered, in which order, and the effects of failing functions."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import json
import logging
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from types import ModuleType
from typing import Any, Final

import pytest

import jsonrpc_fast
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.handlers import Handler, Handlers, RequestContext
from jsonrpc_fast.handlers import dispatch as dispatch_module
from jsonrpc_fast.handlers import handler as handler_module
from jsonrpc_fast.profile import JSONRPC, LSP, MCP_2025_11_25, Limits
from jsonrpc_fast.session import context as session_handlers
from jsonrpc_fast.types import UNSET

from ..support.places import SPEC

EXAMPLES = json.loads((SPEC / "jsonrpc20_examples.json").read_bytes())
SECRET = "the secret text"


@pytest.fixture(autouse=True)
def backend(impl: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module under test, with the codec of one backend."""
    for name in (
        *("Notification", "ParseError", "Request", "Response"),
        *("decode", "encode", "encode_error", "encode_result"),
    ):
        monkeypatch.setattr(dispatch_module, name, getattr(impl, name))
    monkeypatch.setattr(handler_module, "Raw", impl.Raw)
    return impl


Dispatch = Callable[..., bytes]


@pytest.fixture(params=["sync", "asyncio", "other loop"])
def dispatch(request: pytest.FixtureRequest) -> Dispatch:
    """Each way to the reply."""

    def run(handlers: Handlers, *arguments: Any, **options: Any) -> bytes:
        if request.param == "sync":
            return handlers.dispatch(*arguments, **options)
        work = handlers.dispatch_async(*arguments, **options)
        return asyncio.run(work) if request.param == "asyncio" else on_another_loop(work)

    return run


def on_another_loop(work: Awaitable[bytes]) -> bytes:
    """The result of what no loop of asyncio runs. `pause` gives control away."""
    steps = work.__await__()
    while True:
        try:
            assert next(steps) == "pause"
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]


class Pause:
    def __await__(self) -> Generator[str, None, None]:
        yield "pause"


def subtract(minuend: Any, subtrahend: Any) -> Any:
    return minuend - subtrahend


def fail() -> None:
    raise LookupError(SECRET)


def refuse(data: Any = UNSET) -> None:
    raise RpcError(4, "refused", data)


class Incomplete(RpcError):
    def __init__(self) -> None:
        Exception.__init__(self, SECRET)


def refuse_incompletely() -> None:
    raise Incomplete


def exit_now() -> None:
    sys.exit(SECRET)


def unwritable() -> object:
    return object()


class Hostile(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        raise SystemExit(SECRET)


METHODS = Handlers(
    {
        "subtract": subtract,
        "sum": lambda *numbers: sum(numbers),
        "get_data": lambda: ["hello", 5],
        "update": lambda *params: None,
        "notify_hello": lambda *params: None,
        "notify_sum": lambda *params: None,
        "fail": fail,
        "refuse": refuse,
        "refuse_incompletely": refuse_incompletely,
        "exit": exit_now,
        "unwritable": unwritable,
        "unwritable_data": lambda: refuse(object()),
        "wide": lambda: 2**70,
        "hostile": Hostile,
    }
)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["name"])
def test_examples_of_the_specification(dispatch: Dispatch, example: dict[str, Any]) -> None:
    methods = Handlers()
    for name in ("subtract", "sum", "get_data", "update", "notify_hello", "notify_sum"):
        found = METHODS.find(name)
        assert found is not None
        methods.register(name, found._function)
    reply = dispatch(methods, example["raw"])
    if example["response"] is None:
        assert reply == b""
    else:
        assert json.loads(reply) == example["response"]
        assert reply.endswith(b"\n")
        assert reply.count(b"\n") == 1


def call(method: str, id: Any = 1, params: Any = None) -> str:
    members = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    return json.dumps({name: value for name, value in members.items() if value is not None})


def notification(method: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "method": method})


def error(code: int, message: str, id: bytes = b"1") -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"error":{"code":%d,"message":"%b"}}' % (id, code, message.encode())


INTERNAL = error(-32603, "Internal error")
RESULT = b'{"jsonrpc":"2.0","id":1,"result":%b}'
REPLIES = [
    (call("subtract", 1, [5, 3]), RESULT % b"2"),
    (call("subtract", 1, {"subtrahend": 3, "minuend": 5}), RESULT % b"2"),
    (call("subtract", "ä", [5, 3]), '{"jsonrpc":"2.0","id":"ä","result":2}'.encode()),
    (call("sum", 10**40, [1]), b'{"jsonrpc":"2.0","id":%d,"result":1}' % 10**40),
    ('{"jsonrpc":"2.0","id":null,"method":"sum"}', b'{"jsonrpc":"2.0","id":null,"result":0}'),
    (call("update"), RESULT % b"null"),
    (call("nothing"), error(-32601, "Method not found")),
    (call("subtract", 1, [5]), error(-32602, "Invalid params")),
    (call("subtract", 1, {"minuend": 1, "x": 2}), error(-32602, "Invalid params")),
    (call("subtract", 1, ["a", "b"]), INTERNAL),
    (call("fail"), INTERNAL),
    (call("exit"), INTERNAL),
    (call("unwritable"), INTERNAL),
    (call("wide"), INTERNAL),
    (call("unwritable_data"), INTERNAL),
    (call("refuse_incompletely"), INTERNAL),
    (call("refuse"), error(4, "refused")),
    (call("refuse", 1, [None]), b'{"jsonrpc":"2.0","id":1,"error":{"code":4,"message":"refused","data":null}}'),
    (call("hostile"), RESULT % b"{}"),
    ("{", error(-32700, "Parse error", b"null")),
    ("[]", error(-32600, "Invalid Request", b"null")),
    ("[1]", b"[" + error(-32600, "Invalid Request", b"null") + b"]"),
    ('{"jsonrpc":"2.0","id":"x","method":1}', error(-32600, "Invalid Request", b'"x"')),
    ('{"jsonrpc":"2.0","id":1,"result":1}', b""),
    ('{"jsonrpc":"2.0","id":1,"error":{}}', b""),
    ('{"jsonrpc":"2.0","id":1,"method":"m","result":1}', b""),
    ('{"jsonrpc":"2.0","method":"m","params":1}', b""),
]


@pytest.mark.parametrize(("text", "reply"), REPLIES)
def test_replies(dispatch: Dispatch, backend: ModuleType, text: str, reply: bytes) -> None:
    assert dispatch(METHODS, text, delimited=False) == reply
    for data in (text, text.encode(), bytearray(text.encode()), memoryview(text.encode()), backend.decode(text)):
        assert dispatch(METHODS, data) == (reply + b"\n" if reply else b"")


@pytest.mark.parametrize("method", ["sum", "nothing", "fail", "refuse", "exit", "unwritable", "refuse_incompletely"])
def test_a_notification_is_never_answered(dispatch: Dispatch, method: str) -> None:
    text = notification(method)
    assert dispatch(METHODS, text) == b""
    assert dispatch(METHODS, f"[{text},{text}]") == b""


def test_each_item_of_a_batch_is_served_separately(dispatch: Dispatch) -> None:
    served = [(text, reply) for text, reply in REPLIES if isinstance(json_or_none(text), dict)]
    assert len(served) > 20
    batch = f"[{','.join([text for text, _ in served])}]"
    expected = b",".join([reply for _, reply in served if reply])
    assert dispatch(METHODS, batch, delimited=False) == b"[" + expected + b"]"


def json_or_none(text: str) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return None


def test_profile_and_limits(dispatch: Dispatch) -> None:
    calls = []
    methods = Handlers({"m": lambda *params: calls.append(1)})
    item = call("m", 1, [1])
    few = JSONRPC.replace(limits=Limits(batch_items=2))
    refusal = error(-32600, "Invalid Request", b"null") + b"\n"
    assert dispatch(methods, f"[{item},{item},{item}]", few) == refusal
    assert dispatch(methods, f"[{item}]", MCP_2025_11_25) == refusal
    assert dispatch(methods, item, JSONRPC.replace(limits=Limits(message_bytes=10))).startswith(b'{"jsonrpc":"2.0"')
    assert calls == []
    assert dispatch(methods, '{"jsonrpc":"2.0","id":1,"method":"m","params":null}', LSP) == RESULT % b"null" + b"\n"


def test_raw_params(dispatch: Dispatch, backend: ModuleType) -> None:
    methods = Handlers({"sum": lambda *numbers: sum(numbers)})
    methods.register("echo", lambda params: params, unpack=False)
    methods.register("kind", lambda params: type(params).__name__, unpack=False)
    text = '[{"jsonrpc":"2.0","id":1,"method":"%s","params":[1.0,  2]}]'
    assert dispatch(methods, text % "echo") == b'[{"jsonrpc":"2.0","id":1,"result":[1.0,2]}]\n'
    assert dispatch(methods, text % "echo", raw=True) == b'[{"jsonrpc":"2.0","id":1,"result":[1.0,  2]}]\n'
    assert dispatch(methods, text % "kind", raw=True) == b'[{"jsonrpc":"2.0","id":1,"result":"Raw"}]\n'
    assert dispatch(methods, text % "sum", raw=True) == b'[{"jsonrpc":"2.0","id":1,"result":3.0}]\n'


def test_options_of_the_encoder(dispatch: Dispatch) -> None:
    methods = Handlers({"complex": lambda: 1j, "keys": lambda: {1: 2}, "refuse": lambda: refuse(1j)})
    assert dispatch(methods, call("complex"), default=repr) == RESULT % b'"1j"' + b"\n"
    assert b'"data":"1j"' in dispatch(methods, call("refuse"), default=repr)
    assert dispatch(methods, call("keys"), option=4) == RESULT % b'{"1":2}' + b"\n"
    with pytest.raises(ValueError, match="framing"):
        dispatch(methods, call("keys"), option=1)
    assert dispatch(methods, call("complex"), default=lambda _: sys.exit(SECRET)) == INTERNAL + b"\n"


@pytest.mark.parametrize("data", [None, 1, {}, (), [1], [None]])
def test_data_of_another_type(dispatch: Dispatch, data: Any) -> None:
    with pytest.raises(TypeError, match=r"^data must be"):
        dispatch(METHODS, data)


# The context.


def test_the_context(dispatch: Dispatch) -> None:
    def describe(context: RequestContext, *params: Any) -> Any:
        assert not context.is_notification
        return [context.context, context.method, context.id, params]

    def describe_optional(*params: Any, request: RequestContext | None) -> Any:
        assert request is not None
        return describe(request, *params)

    seen = []
    methods = Handlers({"describe": describe, "optional": describe_optional, "plain": lambda context: context})

    @methods.register("notified")
    def notified(context: RequestContext) -> None:
        seen.append((context.id, context.is_notification))

    for method in ("describe", "optional"):
        expected = b'["me","%b",1,[7]]' % method.encode()
        assert dispatch(methods, call(method, 1, [7]), context="me") == RESULT % expected + b"\n"
    assert dispatch(methods, call("describe"), context=None) == RESULT % b'[null,"describe",1,[]]' + b"\n"
    assert dispatch(methods, call("plain", 1, ["theirs"]), context="me") == RESULT % b'"theirs"' + b"\n"
    assert dispatch(methods, '{"jsonrpc":"2.0","method":"notified"}') == b""
    assert seen == [(None, True)]


def annotated(annotation: object) -> Any:
    def function(context: Any, a: Any) -> Any:
        return type(context).__name__

    function.__annotations__["context"] = annotation
    return function


@pytest.mark.parametrize(
    "annotation",
    [
        RequestContext,
        session_handlers.SessionContext,
        RequestContext | None,
        "RequestContext",
        "'RequestContext'",
        "handlers.RequestContext",
        "None | RequestContext",
        "Optional[session.SessionContext]",
        "SessionContext",
    ],
)
def test_the_peer_can_neither_set_the_context_nor_leave_it_out(dispatch: Dispatch, annotation: object) -> None:
    methods = Handlers({"m": annotated(annotation)})
    assert dispatch(methods, call("m", 1, [1])) == RESULT % b'"RequestContext"' + b"\n"
    for params in ({"a": 1, "context": 2}, [1, 2]):
        assert dispatch(methods, call("m", 1, params)) == error(-32602, "Invalid params") + b"\n"


@pytest.mark.parametrize(
    "annotation", ["MyRequestContext", "SessionContexts", "RequestContexts", "RequestContext2", int, None]
)
def test_parameters_with_other_annotations_come_from_the_peer(dispatch: Dispatch, annotation: object) -> None:
    assert dispatch(Handlers({"m": annotated(annotation)}), call("m", 1, ["x", 1])) == RESULT % b'"str"' + b"\n"


# The log.


def test_the_log_has_method_id_and_traceback(dispatch: Dispatch, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        dispatch(METHODS, call("fail", "seven"))
    [record] = [record for record in caplog.records if record.name.startswith("jsonrpc_fast")]
    assert (record.levelno, record.name) == (logging.ERROR, "jsonrpc_fast.handlers")
    assert record.getMessage() == "the handler of 'fail' failed, id 'seven'"
    shown = logging.Formatter().format(record)
    assert "in fail\n" in shown
    assert shown.endswith(f"LookupError: {SECRET}")


def test_payloads_are_not_logged(dispatch: Dispatch, caplog: pytest.LogCaptureFixture) -> None:
    methods = Handlers({"fail": lambda **_: fail(), "unwritable": lambda **params: {**params, "b": object()}})
    for method in ("fail", "unwritable"):
        dispatch(methods, call(method, 1, {"a": "payload-payload"}))
    assert len(caplog.records) == 2
    assert "payload-payload" not in caplog.text


def test_long_methods_and_ids_are_shortened_in_the_log(dispatch: Dispatch, caplog: pytest.LogCaptureFixture) -> None:
    class All(Handlers):
        def find(self, method: str) -> Any:
            raise LookupError

    assert dispatch(All(), call("m\n" * 400, "i\n" * 200)).endswith(b'"message":"Internal error"}}\n')
    [record] = caplog.records
    assert len(record.getMessage()) < 250
    assert "\n" not in record.getMessage()


def test_find_may_be_overridden(dispatch: Dispatch) -> None:
    class Named(Handlers):
        def find(self, method: str) -> Handler:
            return Handler(lambda: method)

    assert dispatch(Named(), call("a", 1)) == b'{"jsonrpc":"2.0","id":1,"result":"a"}\n'
    handlers = Handlers({"a": lambda: "registered"})
    handlers.find = Named().find  # type: ignore[method-assign]
    assert dispatch(handlers, call("a", 1)) == b'{"jsonrpc":"2.0","id":1,"result":"a"}\n'


@pytest.mark.parametrize("method", ["nothing", "refuse", "subtract"])
def test_mistakes_of_the_peer_are_not_logged(dispatch: Dispatch, caplog: pytest.LogCaptureFixture, method: str) -> None:
    dispatch(METHODS, call(method))
    dispatch(METHODS, notification(method))
    dispatch(METHODS, "[1, {")
    assert caplog.records == []


@pytest.mark.parametrize("method", ["fail", "exit"])
def test_a_notifications_failure_is_logged(dispatch: Dispatch, caplog: pytest.LogCaptureFixture, method: str) -> None:
    dispatch(METHODS, notification(method))
    [record] = caplog.records
    assert record.getMessage() == f"the handler of '{method}' failed, id None"


def test_without_logging_configuration_a_failure_is_written_to_stderr() -> None:
    code = """
from jsonrpc_fast.handlers import Handlers
import sys
import time
def fail(): raise LookupError("why")
Handlers({"fail": fail}).dispatch('{"jsonrpc":"2.0","id":1,"method":"fail"}')
assert "asyncio" not in sys.modules
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=60)
    assert run.stderr.startswith("the handler of 'fail' failed, id 1\nTraceback")
    assert run.stderr.endswith("LookupError: why\n")


# What passes on.


class Cancelled(BaseException):
    """As trio has it."""


@pytest.mark.parametrize("failure", [KeyboardInterrupt, asyncio.CancelledError, Cancelled])
def test_exceptions_that_concern_more_than_one_message_are_raised(
    dispatch: Dispatch, caplog: pytest.LogCaptureFixture, failure: type[BaseException]
) -> None:
    def end() -> None:
        raise failure

    for text in (call("end"), f"[{call('sum')},{call('end')}]"):
        with pytest.raises(failure):
            dispatch(Handlers({"end": end, "sum": sum}), text)


# Async functions.


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
    await asyncio.sleep(60)


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
    (call("echo", 1, []), error(-32602, "Invalid params")),
    ('{"jsonrpc":"2.0","method":"echo","params":[1]}', b""),
    ('{"jsonrpc":"2.0","method":"fail"}', b""),
]


@pytest.mark.parametrize(("text", "reply"), ASYNC_CALLS)
async def test_async_functions(text: str, reply: bytes) -> None:
    assert await ASYNC.dispatch_async(text, delimited=False) == reply


@pytest.fixture
def nothing_unawaited(each_loop: None) -> Iterator[None]:
    """On each loop; a coroutine that the test never awaits is reported in this test."""
    yield
    gc.collect()


on_each_loop = pytest.mark.usefixtures("nothing_unawaited")


@on_each_loop
async def test_async_functions_in_a_batch() -> None:
    texts = [text for text, _ in ASYNC_CALLS] + [call("cancel")]
    replies = [reply for _, reply in ASYNC_CALLS if reply] + [INTERNAL]
    reply = await ASYNC.dispatch_async(f"[{','.join(texts)}]")
    assert reply == b"[" + b",".join(replies) + b"]\n"


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


@on_each_loop
@pytest.mark.parametrize("when", ["begun", "before its first step"])
async def test_a_cancelled_batch_leaves_nothing_running(when: str) -> None:
    ended: list[str] = []
    begun = asyncio.Event()
    before = asyncio.all_tasks()

    async def slow() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
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
            await asyncio.sleep(60)
        finally:
            ended.append("slow")

    methods = Handlers({"slow": slow, "interrupt": interrupt})
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(methods.dispatch_async(f"[{call('slow')},{call('interrupt')},{call('slow')}]"))
    gc.collect()
    assert ended == []


@on_each_loop
async def test_each_item_has_its_own_context_variables() -> None:
    variable = contextvars.ContextVar("variable", default=0)

    async def add() -> int:
        variable.set(variable.get() + 1)
        await asyncio.sleep(0)
        return variable.get()

    reply = await Handlers({"add": add}).dispatch_async(f"[{call('add')},{call('add')}]")
    assert [each["result"] for each in json.loads(reply)] == [1, 1]


# Bounds and deadlines.

LATE: Final = error(-32008, "Deadline exceeded")


class Slow:
    """Functions that take their time, and what became of them."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.running = self.max_running = 0
        self.handlers = Handlers(
            {"wait": self.wait, "stubborn": self.stubborn, "block": time.sleep, "sum": lambda *numbers: sum(numbers)}
        )

    async def wait(self, name: str, seconds: float = 60) -> str:
        self.running += 1
        self.max_running = max(self.running, self.max_running)
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            self.ended.append(name)
            raise
        finally:
            self.running -= 1
        return name

    async def stubborn(self) -> int:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return 7


@on_each_loop
@pytest.mark.parametrize(
    ("text", "reply"),
    [
        (call("wait", 1, ["a"]), LATE),
        (call("wait", 1, ["a", 0]), RESULT % b'"a"'),
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


@on_each_loop
async def test_a_batch_with_a_deadline() -> None:
    slow = Slow()
    texts = [
        call("sum", 1, [1, 2]),
        call("wait", 1, ["a"]),
        call("stubborn"),
        call("wait", 1, ["b", 0]),
        '{"jsonrpc":"2.0","method":"wait","params":["c"]}',
        "1",
    ]
    started = time.monotonic()
    reply = await slow.handlers.dispatch_async(f"[{','.join(texts)}]", timeout=1, delimited=False)
    invalid = error(-32600, "Invalid Request").replace(b'"id":1', b'"id":null')
    replies = [RESULT % b"3", LATE, RESULT % b"7", RESULT % b'"b"', invalid]
    assert reply == b"[" + b",".join(replies) + b"]"
    assert sorted(slow.ended) == ["a", "c"]
    assert 0.9 < time.monotonic() - started < 30


@on_each_loop
async def test_after_the_deadline_no_function_is_called() -> None:
    slow = Slow()
    batch = ",".join([call("block", 1, [1]), call("wait", 1, ["a"]), call("sum", 1, [1]), "1"])
    invalid = error(-32600, "Invalid Request").replace(b'"id":1', b'"id":null')
    reply = await slow.handlers.dispatch_async(f"[{batch}]", timeout=0.5, delimited=False)
    assert reply == b"[" + b",".join([RESULT % b"null", LATE, LATE, invalid]) + b"]"
    assert await slow.handlers.dispatch_async(call("sum"), timeout=0, delimited=False) == LATE
    assert slow.max_running == 0


@on_each_loop
async def test_the_deadline_counts_while_items_wait_for_room() -> None:
    slow = Slow()
    batch = ",".join([call("wait", 1, [str(number)]) for number in range(5)])
    reply = await slow.handlers.dispatch_async(f"[{batch}]", timeout=0.05, max_handlers=2, delimited=False)
    assert reply == b"[" + b",".join([LATE] * 5) + b"]"
    assert (slow.max_running, slow.ended) == (2, ["0", "1"])


@on_each_loop
@pytest.mark.parametrize("count", [1, 2])
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
    slow = Slow()
    work = asyncio.ensure_future(slow.handlers.dispatch_async(call("wait", 1, ["a"]), timeout=0.02))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.01, time.sleep, 0.05)  # both timers are due in the same turn of the loop
    asyncio.get_running_loop().call_later(0.03, work.cancel)
    with pytest.raises(asyncio.CancelledError):
        await work


@on_each_loop
@pytest.mark.parametrize("max_handlers", [1, 3, 256])
async def test_a_batch_has_a_bound_of_concurrent_functions(max_handlers: int) -> None:
    slow = Slow()
    batch = ",".join([call("wait", number, [str(number), 0]) for number in range(300)])
    before = len(asyncio.all_tasks())
    work = asyncio.ensure_future(slow.handlers.dispatch_async(f"[{batch}]", max_handlers=max_handlers))
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) <= before + 1 + max_handlers
    assert [reply["result"] for reply in json.loads(await work)] == [str(number) for number in range(300)]
    assert slow.max_running == max_handlers


@pytest.mark.parametrize(
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


def test_importing_loads_no_event_loop_and_no_log() -> None:
    code = """
import sys, jsonrpc_fast
assert "jsonrpc_fast.handlers" not in sys.modules
from jsonrpc_fast.handlers import Handlers
work = Handlers({"m": lambda: 1}).dispatch_async('[{"jsonrpc":"2.0","id":1,"method":"m"}]')
try:
    work.send(None)
except StopIteration as stop:
    assert stop.value == b'[{"jsonrpc":"2.0","id":1,"result":1}]\\n'
assert not {"asyncio", "logging", "anyio", "trio", "jsonrpc_fast.session"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_sessions_have_the_same_classes() -> None:
    assert session_handlers.Handlers is Handlers
    assert issubclass(session_handlers.SessionContext, RequestContext)
    assert jsonrpc_fast.RpcError is RpcError
