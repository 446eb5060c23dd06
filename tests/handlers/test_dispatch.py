"""From a text to its response, for sync and async functions: which messages get one, failures, bounds."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import importlib.util
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

import pytest

import jsonrpc_fast
from jsonrpc_fast import session as session_handlers
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.handlers import Handler, Handlers, RequestContext
from jsonrpc_fast.profile import JSONRPC, LSP, MCP_2025_11_25, Limits, Profile
from jsonrpc_fast.types import UNSET

from ..support.clock import moving_clock
from ..support.dispatching import INTERNAL, RESULT, SECRET, Pause, call, error, exit_now, fail, misfit, on_another_loop
from ..support.memory import collect
from ..support.places import SPEC
from ..support.tables import rows
from ..support.waiting import forever

EXAMPLES = json.loads((SPEC / "jsonrpc20_examples.json").read_bytes())


Dispatch = Callable[..., bytes]


@pytest.fixture(params=["sync", "asyncio", "other loop"])
def dispatch(request: pytest.FixtureRequest) -> Dispatch:
    """Each way to the response."""

    def run(handlers: Handlers, *arguments: Any, **options: Any) -> bytes:
        if request.param == "sync":
            return handlers.dispatch(*arguments, **options)
        work = handlers.dispatch_async(*arguments, **options)
        return asyncio.run(work) if request.param == "asyncio" else on_another_loop(work)

    return run


def subtract(minuend: Any, subtrahend: Any) -> Any:
    return minuend - subtrahend


def refuse(data: Any = UNSET) -> None:
    raise RpcError(4, "refused", data)


class Incomplete(RpcError):
    def __init__(self) -> None:
        Exception.__init__(self, SECRET)


def refuse_incompletely() -> None:
    raise Incomplete


def unwritable() -> object:
    return object()


class Hostile(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        raise SystemExit(SECRET)


FUNCTIONS: dict[str, Any] = {
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
METHODS = Handlers(FUNCTIONS)


@rows("example", EXAMPLES, ids=lambda example: example["name"])
def test_examples_of_the_specification(dispatch: Dispatch, example: dict[str, Any]) -> None:
    methods = Handlers()
    for name in ("subtract", "sum", "get_data", "update", "notify_hello", "notify_sum"):
        methods.register(name, FUNCTIONS[name])
    reply = dispatch(methods, example["raw"])
    if example["response"] is None:
        assert reply == b""
    else:
        assert json.loads(reply) == example["response"]
        assert reply.endswith(b"\n")
        assert reply.count(b"\n") == 1


def notification(method: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "method": method})


REPLIES = [
    (call("subtract", 1, [5, 3]), RESULT % b"2"),
    (call("subtract", 1, {"subtrahend": 3, "minuend": 5}), RESULT % b"2"),
    (call("subtract", "ä", [5, 3]), '{"jsonrpc":"2.0","id":"ä","result":2}'.encode()),
    (call("sum", 10**40, [1]), b'{"jsonrpc":"2.0","id":%d,"result":1}' % 10**40),
    ('{"jsonrpc":"2.0","id":null,"method":"sum"}', b'{"jsonrpc":"2.0","id":null,"result":0}'),
    (call("update"), RESULT % b"null"),
    (call("nothing"), error(-32601, "Method not found")),
    (call("subtract", 1, [5]), misfit(b"/subtrahend", b"is required")),
    (call("subtract", 1, {"minuend": 1, "subtrahend": 1, "x": 2}), misfit(b"", b"has an unknown member")),
    (call("subtract", 1, ["a", "b"]), INTERNAL),
    (call("fail"), INTERNAL),
    (call("exit"), INTERNAL),
    (call("unwritable"), INTERNAL),
    (call("wide"), RESULT % b"1180591620717411303424"),
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


@rows("text, reply", REPLIES)
def test_replies(dispatch: Dispatch, text: str, reply: bytes) -> None:
    assert dispatch(METHODS, text, delimited=False) == reply
    for data in (text, text.encode(), bytearray(text.encode()), memoryview(text.encode()), jsonrpc_fast.decode(text)):
        assert dispatch(METHODS, data) == (reply + b"\n" if reply else b"")


@rows("method", ["sum", "nothing", "fail", "refuse", "exit", "unwritable", "refuse_incompletely"])
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


def test_raw_params(dispatch: Dispatch) -> None:
    methods = Handlers({"sum": lambda *numbers: sum(numbers)})
    methods.register("echo", lambda params: params, unpack=False)
    methods.register("kind", lambda params: type(params).__name__, unpack=False)
    text = '[{"jsonrpc":"2.0","id":1,"method":"%s","params":[1.0,  2]}]'
    assert dispatch(methods, text % "echo") == b'[{"jsonrpc":"2.0","id":1,"result":[1.0,2]}]\n'
    assert dispatch(methods, text % "echo", raw=True) == b'[{"jsonrpc":"2.0","id":1,"result":[1.0,  2]}]\n'
    assert dispatch(methods, text % "kind", raw=True) == b'[{"jsonrpc":"2.0","id":1,"result":"Raw"}]\n'
    assert dispatch(methods, text % "sum", raw=True) == b'[{"jsonrpc":"2.0","id":1,"result":3.0}]\n'


def test_options_of_the_encoder(dispatch: Dispatch) -> None:
    methods = Handlers({"complex": lambda: 1j, "refuse": lambda: refuse(1j)})
    assert dispatch(methods, call("complex"), default=repr) == RESULT % b'"1j"' + b"\n"
    assert b'"data":"1j"' in dispatch(methods, call("refuse"), default=repr)
    assert dispatch(methods, call("complex"), default=lambda _: sys.exit(SECRET)) == INTERNAL + b"\n"


@rows("data", [None, 1, {}, (), [1], [None]])
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


@rows(
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
    for params, reason in (({"a": 1, "context": 2}, b"has an unknown member"), ([1, 2], b"must have at most 1 item")):
        assert dispatch(methods, call("m", 1, params)) == misfit(b"", reason) + b"\n"


@rows("annotation", ["MyRequestContext", "SessionContexts", "RequestContexts", "RequestContext2", int, None])
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


@rows("method", ["nothing", "refuse", "subtract"])
def test_mistakes_of_the_peer_are_not_logged(dispatch: Dispatch, caplog: pytest.LogCaptureFixture, method: str) -> None:
    dispatch(METHODS, call(method))
    dispatch(METHODS, notification(method))
    dispatch(METHODS, "[1, {")
    assert caplog.records == []


@rows("method", ["fail", "exit"])
def test_a_notifications_failure_is_logged(dispatch: Dispatch, caplog: pytest.LogCaptureFixture, method: str) -> None:
    dispatch(METHODS, notification(method))
    [record] = caplog.records
    assert record.getMessage() == f"the handler of '{method}' failed, id None"


def test_a_failure_is_logged_whether_or_not_the_application_configures_logging() -> None:
    code = """
from jsonrpc_fast.handlers import Handlers
import sys
def fail(): raise LookupError("why")
Handlers({"fail": fail}).dispatch('{"jsonrpc":"2.0","id":1,"method":"fail"}')
assert "asyncio" not in sys.modules
"""
    written = []
    for begin in ("", "import logging; logging.basicConfig(format='%(message)s')"):
        command = [sys.executable, "-c", begin + code]
        run = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
        written.append(run.stderr)
    for shown in written:
        assert "the handler of 'fail' failed, id 1\nTraceback" in shown  # PyPy may warn before it
        assert shown.endswith("LookupError: why\n")


# The fast path.


async def later(a: int) -> None: ...


FIT: Final[dict[str, Callable[..., Any]]] = {
    "two": lambda a, b: [a, b],
    "default": lambda a, b=2: [a, b],
    "named": lambda *, a: a,
    "any": lambda *values, **named: [values, named],
    "none": lambda: None,
    "positional": max,
    "without a signature": int,
    "fails": fail,
    "type error": lambda a: a + "",
    "exits": exit_now,
    "refuses": refuse,
    "refuses incompletely": refuse_incompletely,
    "unwritable": unwritable,
    "hostile": Hostile,
    "async": later,
}


async def test_requests_with_the_same_id_in_a_batch_are_each_served() -> None:
    """The specification does not forbid it."""
    handlers = Handlers({"add": lambda a, b: a + b})
    text = b"[%s]" % b",".join([b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}'] * 2)
    expected = [{"jsonrpc": "2.0", "id": 1, "result": 3}] * 2
    for response in (handlers.dispatch(text), await handlers.dispatch_async(text)):
        assert response is not None
        assert json.loads(response) == expected


def test_the_fast_path_gives_what_the_path_of_a_batch_gives() -> None:
    handlers = Handlers(FIT)
    all_params = [None, [], [1], [1, 2], [1, 2, 3], {}, {"a": 1}, {"a": 1, "b": 2}, {"b": 1}, {"x": 1}, ["x"]]
    different = []
    for method in (*FIT, "unknown"):
        for params in all_params:
            text = call(method, 7, params)
            alone, [item] = handlers.dispatch(text), json.loads(handlers.dispatch(f"[{text}]"))
            if json.loads(alone) != item:
                different.append((method, params, alone, item))
    assert different == []


WITH_RAW = Handlers(FIT)
if importlib.util.find_spec("msgspec"):
    WITH_RAW.register("typed", str, params=list[int] | dict[str, float])  # reads `Raw` params


@pytest.mark.ci
@rows("profile", [JSONRPC, MCP_2025_11_25, JSONRPC.replace(floats="decimal")])
@rows("options", [{}, {"delimited": False}, {"raw": True}, {"default": str}])
@rows("handlers", [WITH_RAW, WITH_RAW.child()])
async def test_a_decoded_message_gets_the_response_of_its_text(
    profile: Profile, options: dict[str, Any], handlers: Handlers
) -> None:
    """By every way to a response, whichever of them is fast."""
    dispatcher = handlers.prepare(profile, **options)

    async def start(data: Any) -> bytes:
        started = dispatcher.start(data)
        return started if isinstance(started, bytes) else await started

    for method in ("two", "any", "positional", "refuses", "typed", "unknown"):
        for params in (None, [1, 2], {"a": 1.5, "b": 2}):
            text = call(method, 7, params)
            data: list[Any] = [text, text.encode(), jsonrpc_fast.decode(text, profile, raw=options.get("raw", False))]
            responses = {handlers.dispatch(each, profile, **options) for each in data}
            responses |= {dispatcher.serve(each) for each in data}
            responses |= {await start(each) for each in data}
            assert len(responses) == 1, (method, params, responses)


def test_a_decoded_message_is_served_without_a_call_more_than_its_text() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    def called(function: Callable[[Any], Any], data: Any) -> list[str]:
        names = []
        sys.setprofile(lambda frame, event, _: names.append(frame.f_code.co_name) if event == "call" else None)
        try:
            assert function(data) == RESULT % b"3" + b"\n"
        finally:
            sys.setprofile(None)
        return names

    handlers = Handlers({"add": add})
    dispatcher = handlers.prepare()
    text = call("add", params=[1, 2]).encode()
    message = jsonrpc_fast.decode(text)
    for function in (handlers.dispatch, dispatcher.serve, dispatcher.start):
        assert set(called(function, message)) <= set(called(function, text))
        if jsonrpc_fast.BACKEND == "cython":
            assert called(function, message) == [function.__name__, "add"]


async def test_a_prepared_dispatcher_takes_messages_and_texts_and_returns_a_response_or_a_coroutine() -> None:
    async def later(a: int) -> int:
        await asyncio.sleep(0)
        return a

    found: list[str] = []

    class Seen(Handlers):
        def find(self, method: str) -> Handler | None:
            found.append(method)
            return super().find(method)

    handlers = Seen({"now": lambda a: a})
    dispatcher = handlers.prepare(delimited=False)
    handlers.register("later", later)  # what is registered later is found
    response = RESULT % b"5"
    for method in ("now", "later"):
        text = call(method, params=[5])
        for data in (text, text.encode(), jsonrpc_fast.decode(text)):
            started = dispatcher.start(data)
            assert isinstance(started, bytes) == (method == "now")
            assert (started if isinstance(started, bytes) else await started) == response
    assert dispatcher.serve(call("now", params=[5])) == response
    assert dispatcher.start('{"jsonrpc":"2.0","method":"now","params":[5]}') == b""
    assert found == ["now"] * 3 + ["later"] * 3 + ["now"] * 2


# What propagates.


class Cancelled(BaseException):
    """Like trio's."""


@rows("failure", [KeyboardInterrupt, asyncio.CancelledError, Cancelled])
def test_exceptions_that_concern_more_than_one_message_are_raised(
    dispatch: Dispatch, caplog: pytest.LogCaptureFixture, failure: type[BaseException]
) -> None:
    def end() -> None:
        raise failure

    for text in (call("end"), f"[{call('sum')},{call('end')}]"):
        with pytest.raises(failure):
            dispatch(Handlers({"end": end, "sum": sum}), text)


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
        # The last one begins: one after another, they would wait forever.
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
    """Functions that take some time, and what became of them."""

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
    gc.collect()  # a coroutine that was never awaited is reported now
    assert len(caplog.records) == 3
    assert "dispatch_async" in caplog.text
