"""The fast path of serving, on both backends: what it serves, and what it leaves to the owner."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import inspect
import sys
import weakref
from contextvars import ContextVar, copy_context
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast import Raw
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.handlers import Handlers, RequestContext
from jsonrpc_fast.profile import LSP

from ..support.tables import rows

seen: ContextVar[str] = ContextVar("seen", default="nothing")
current: ContextVar[Any] = ContextVar("current", default=None)
calls: list[Any] = []


class Keeps:
    """A class, as a function that is not called by `vectorcall`."""

    def __init__(self, **members: Any) -> None:
        calls.append(members)
        members["kept"] = True


class Awaitable:
    def __await__(self) -> Any:
        yield


class AwaitableResult(dict[str, Any]):
    def __await__(self) -> Any:
        yield


class Metered(dict[str, Any]):
    pass


def add(a: int, b: int = 10) -> int:
    return a + b


def fail(error: BaseException) -> Any:
    raise error


def note(value: str) -> str:
    before = seen.get()
    seen.set(value)
    return before


async def wait() -> None: ...


FUNCTIONS: dict[str, Any] = {
    "add": add,
    "all": lambda *positional, **named: [list(positional), named],
    "bound": "abc".replace,
    "partial": partial(add, 1),
    "length": len,
    "note": note,
    "null": lambda: None,
    "metered": lambda: Metered(a=1),
    "with context": lambda: None,
    "value error": partial(fail, ValueError("v")),
    "refusal": partial(fail, RpcError(7, "no")),
    "exit": partial(fail, SystemExit(3)),
    "cancelled": partial(fail, asyncio.CancelledError()),
    "interrupt": partial(fail, KeyboardInterrupt()),
    "object": object,
    "keeps": Keeps,
    "wait": wait,
    "awaitable": Awaitable,
    "awaitable result": AwaitableResult,
}


def with_context(context: RequestContext) -> None: ...


HAS_MSGSPEC = importlib.util.find_spec("msgspec") is not None


@pytest.fixture
def handlers() -> Handlers:
    made = Handlers({name: function for name, function in FUNCTIONS.items() if name != "with context"})
    made.register("with context", with_context)
    made.register("whole", lambda params: repr(params), unpack=False)
    if HAS_MSGSPEC:
        made.register("typed", add, typed=True)
    calls.clear()
    return made


SERVED = [
    (b'"add","params":[1,2]', b"3"),
    (b'"add","params":{"b":1,"a":2}', b"3"),
    (b'"add","params":[5]', b"15"),
    (b'"all"', b"[[],{}]"),
    (b'"all","params":[]', b"[[],{}]"),
    (b'"all","params":{}', b"[[],{}]"),
    (b'"all","params":{"\xc3\xa9":[1],"self":{"a":null}}', b'[[],{"\xc3\xa9":[1],"self":{"a":null}}]'),
    (b'"all","params":[[1],{"a":2}]', b'[[[1],{"a":2}],{}]'),
    (b'"bound","params":["b","x"]', b'"axc"'),
    (b'"partial","params":{"b":4}', b"5"),
    (b'"length","params":["four"]', b"4"),
    (b'"null"', b"null"),
    (b'"metered"', b'{"a":1}'),
    *[(b'"typed","params":[1,2]', b"3")] * HAS_MSGSPEC,
    (b'"whole","params":[1]', b'"[1]"'),
    (b'"whole"', b'"None"'),
]
CONCLUDED = [
    (b'"value error"', "ValueError('v')"),
    (b'"refusal"', "RpcError(7, 'no', UNSET)"),
    (b'"exit"', "SystemExit(3)"),
    (b'"add","params":[1,2,3]', "TypeError"),
    (b'"add","params":{"c":1}', "TypeError"),
    *[(b'"typed","params":["1",2]', "RpcError(<ErrorCode.INVALID_PARAMS: -32602>")] * HAS_MSGSPEC,
    (b'"object"', "<object object at"),
    (b'"keeps","params":{"a":1}', "<tests.codec.test_serving.Keeps object at"),
]
AWAITABLE = [
    (b'"wait"', "<coroutine object wait at"),
    (b'"awaitable"', "<tests.codec.test_serving.Awaitable object at"),
    (b'"awaitable result"', "{}"),
]
LEFT = [
    b'{"jsonrpc":"2.0","id":1,"method":"unknown"}',
    b'{"jsonrpc":"2.0","id":1,"method":"with context"}',
    b'{"jsonrpc":"2.0","method":"note","params":["a"]}',
    b'[{"jsonrpc":"2.0","id":1,"method":"note","params":["a"]}]',
    b'{"jsonrpc":"2.0","id":1,"result":2}',
    b'{"jsonrpc":"2.0","id":true,"method":"add"}',
    b"{",
]


def call(method: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":"x","method":' + method + b"}"


def response(result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":"x","result":' + result + b"}\n"


class TestTexts:
    @rows("method, result", SERVED)
    def test_served(self, impl: ModuleType, handlers: Handlers, method: bytes, result: bytes) -> None:
        assert impl.serve_plain(call(method), handlers.find, False) == response(result)
        for data in (impl.decode(call(method)), call(method).decode(), bytearray(call(method))):
            assert impl.serve_plain(data, handlers.find, False, LSP, False) == response(result)[:-1]
        assert handlers.dispatch(call(method)) == response(result)
        if b"whole" not in method and impl.Raw is Raw:
            assert impl.serve_plain(call(method), handlers.find, True) == response(result)

    @rows("method, outcome", [*CONCLUDED, *AWAITABLE])
    def test_concluded(self, impl: ModuleType, handlers: Handlers, method: bytes, outcome: str) -> None:
        message, handler, result, error = impl.serve_plain(call(method), handlers.find, False)
        assert message == impl.decode(call(method))
        assert handler is handlers.find(message.method)
        assert repr(result if error is None else error).startswith(outcome)
        if method == b'"wait"':
            result.close()

    @rows("text", LEFT)
    def test_left(self, impl: ModuleType, handlers: Handlers, text: bytes) -> None:
        for data in (text, impl.decode(text), text.decode()):
            assert impl.serve_plain(data, handlers.find, False) == (impl.decode(text), None, None, None)
        assert seen.get() == "nothing"

    def test_a_look_up_that_fails_is_left_to_the_ordinary_path(self, impl: ModuleType) -> None:
        def find(method: str) -> Any:
            raise RuntimeError(method)

        message = impl.decode(call(b'"m"'))
        assert impl.serve_plain(call(b'"m"'), find, False) == (message, None, None, None)

    def test_raw_params_are_for_handlers_that_take_them(self, impl: ModuleType, handlers: Handlers) -> None:
        found = impl.serve_plain(call(b'"whole","params":[1]'), handlers.find, True)
        assert found == (impl.Request("x", "whole", impl.Raw(b"[1]")), None, None, None)

    @rows("method, kind", [(b'"cancelled"', asyncio.CancelledError), (b'"interrupt"', KeyboardInterrupt)])
    def test_what_passes_on(self, impl: ModuleType, handlers: Handlers, method: bytes, kind: Any) -> None:
        with pytest.raises(kind):
            impl.serve_plain(call(method), handlers.find, False)

    def test_a_function_gets_a_dict_of_its_own(self, impl: ModuleType, handlers: Handlers) -> None:
        message, _, _, _ = impl.serve_plain(call(b'"keeps","params":{"a":1}'), handlers.find, False)
        assert calls == [{"a": 1, "kept": True}]
        assert message.params == {"a": 1}


class Run:
    task: Any = None


def server_class(impl: ModuleType, talk: Conversation) -> Any:
    class Server(impl.PlainServer):  # type: ignore[misc, name-defined]
        def receive_other(self, *arguments: Any) -> Any:
            return talk.leave(*arguments)

        def may_start(self) -> bool:
            return talk.may_start()

        def begin(self, *arguments: Any) -> None:
            talk.begin(*arguments)

        def make_run(self, *arguments: Any) -> Any:
            return talk.make_run(*arguments)

        def ended(self, *arguments: Any) -> None:
            talk.ended(*arguments)

        def conclude(self, *arguments: Any) -> None:
            talk.conclude(*arguments)

    return Server


class Conversation:
    """The owner of a `PlainServer`, which records what that does not serve."""

    def __init__(self, impl: ModuleType, handlers: Handlers, **options: Any) -> None:
        self.impl = impl
        self.left: list[Any] = []
        self.concluded: list[Any] = []
        self.begun: list[Any] = []
        self.ends: list[Any] = []
        self.has_slot = True
        runs = options.get("runs", {})
        encode = options.get("encode", impl.encode_result)
        self.server = server_class(impl, self)(handlers.find, encode, copy_context(), current)
        self.server.runs.update(runs)
        self.server.credit = 1000

    def leave(self, message: Any, destination: Any) -> bytes:
        self.left.append((message, destination))
        return b"later"

    def conclude(self, message: Any, handler: Any, result: Any, error: Any) -> None:
        self.concluded.append((message.id, handler, seen.get(), result, error))

    def may_start(self) -> bool:
        return self.has_slot

    def begin(self, message: Any, work: Any, context: Any) -> None:
        self.begun.append((message.id, work, context.get(seen, None), seen.get()))

    def make_run(self, work: Any, message: Any, context: Any) -> Run:
        self.run = Run()
        return self.run

    def ended(self, run: Any, result: Any, error: BaseException | None) -> None:
        assert run is self.run
        self.ends.append((result, error))

    def start(self, served: Any, **options: Any) -> Any:
        """Imitate an eager task: the coroutine has taken its first step, in a context of its own."""
        self.task = served
        self.options = options
        copy_context().run(next, served, None)
        return served


class TestConversations:
    @pytest.fixture
    def talk(self, impl: ModuleType, handlers: Handlers) -> Conversation:
        return Conversation(impl, handlers)

    @rows("method, result", SERVED)
    def test_served(self, talk: Conversation, method: bytes, result: bytes) -> None:
        talk.server.credit = 1000
        assert talk.server.serve(talk.impl.decode(call(method))) == response(result)
        assert talk.server.credit == 1000 - len(response(result))
        assert talk.server.last_read == "x"

    @rows("method, outcome", [*CONCLUDED, (b'"cancelled"', "CancelledError()")])
    def test_concluded(self, talk: Conversation, method: bytes, outcome: str) -> None:
        assert talk.server.serve(talk.impl.decode(call(method))) is None
        _, handler, _, result, error = talk.concluded.pop()
        assert handler is talk.server.find(talk.impl.decode(call(method)).method)
        assert repr(result if error is None else error).startswith(outcome)
        assert (talk.server.credit, talk.server.last_read) == (1000, "x")

    @rows("method, outcome", AWAITABLE)
    def test_begun_by_the_owner(self, talk: Conversation, method: bytes, outcome: str) -> None:
        assert talk.server.serve(talk.impl.decode(call(method))) is None
        id, work, _, _ = talk.begun.pop()
        assert id == "x"
        assert repr(work).startswith(outcome)
        if method == b'"wait"':
            work.close()

    @rows("text", LEFT)
    def test_left(self, talk: Conversation, text: bytes) -> None:
        message = talk.impl.decode(text)
        assert talk.server.serve(message) == b"later"
        assert talk.left.pop() == (message, None)
        assert not talk.concluded

    def test_raw_params(self, talk: Conversation) -> None:
        if talk.impl.Raw is not Raw:
            pytest.skip("handlers know only the Raw of the backend in use")
        message = talk.impl.decode(call(b'"add","params":[1,2]'), raw=True)
        assert talk.server.serve(message) == response(b"3")
        message = talk.impl.decode(call(b'"whole","params":[1,2]'), raw=True)
        assert talk.server.serve(message) == response(b"\"Raw(b'[1,2]')\"")

    def test_an_interrupt_is_concluded_and_passes_on(self, talk: Conversation) -> None:
        with pytest.raises(KeyboardInterrupt):
            talk.server.serve(talk.impl.Request(1, "interrupt"))
        assert isinstance(talk.concluded[0][4], KeyboardInterrupt)

    def test_without_room_everything_is_left(self, talk: Conversation) -> None:
        talk.server.credit = 30
        assert talk.server.serve(talk.impl.Request(1, "null")) == b'{"jsonrpc":"2.0","id":1,"result":null}\n'
        assert talk.server.credit == -9
        assert talk.server.serve(talk.impl.Request(2, "null")) == b"later"
        assert talk.server.last_read == 1

    def test_a_message_with_a_destination_is_left(self, talk: Conversation) -> None:
        message = talk.impl.Request(1, "null")
        assert talk.server.serve(message, "there") == b"later"
        assert talk.left == [(message, "there")]

    @rows(
        "id, is_left",
        [(7, True), (7.0, True), ("7", False), (8, False), ("s", True), (None, True), (0.5, True), (1 << 80, False)],
    )
    def test_an_id_in_flight(self, talk: Conversation, id: Any, is_left: bool) -> None:
        talk.server.requests.update({7: None, "s": None})
        assert (talk.server.serve(talk.impl.Request(id, "null")) == b"later") is is_left

    def test_each_function_has_a_context_of_its_own(self, talk: Conversation) -> None:
        for _ in range(2):
            message = talk.impl.Request("x", "note", ["here"])
            assert talk.server.serve(message) == response(b'"nothing"')
        assert seen.get() == "nothing"

    def test_the_owner_is_called_in_the_context_of_the_function(self, talk: Conversation, handlers: Handlers) -> None:
        handlers.register("note and wait", lambda: (seen.set("here"), wait())[1])
        talk.server.serve(talk.impl.Request("x", "note and wait"))
        id, work, noted, now = talk.begun.pop()
        assert (id, noted, now) == ("x", "here", "here")
        work.close()
        handlers.register("note and fail", lambda: (seen.set("here"), 1 / 0))
        talk.server.serve(talk.impl.Request("x", "note and fail"))
        assert talk.concluded.pop()[2] == "here"
        assert seen.get() == "nothing"

    def test_an_encoder_of_its_own(self, impl: ModuleType, handlers: Handlers) -> None:
        talk = Conversation(impl, handlers, encode=partial(impl.encode_result, default=repr))
        handlers.register("complex", lambda: 1j)
        assert talk.server.serve(impl.Request("x", "complex")) == response(b'"1j"')

    def test_methods_may_be_found_elsewhere(self, talk: Conversation) -> None:
        talk.server.find = Handlers({"null": lambda: "other"}).find
        assert talk.server.serve(talk.impl.Request("x", "null")) == response(b'"other"')


async def give(value: Any) -> Any:
    return value


async def give_later(value: Any) -> Any:
    try:
        return await Pause() or value
    except ValueError:
        return "mended"


async def raise_at_once(kind: str) -> None:
    raise {"ValueError": ValueError, "SystemExit": SystemExit, "GeneratorExit": GeneratorExit}[kind](kind)


class Kept:
    pass


class Pause:
    def __await__(self) -> Any:
        return (yield "a future")


class TestCoroutines:
    """Coroutines that start at once."""

    @pytest.fixture
    def talk(self, impl: ModuleType, handlers: Handlers) -> Conversation:
        for function in (give, give_later, raise_at_once):
            handlers.register(function.__name__, function)
        talk = Conversation(impl, handlers)
        talk.server.make_task, talk.server.loop = talk.start, "the loop"
        return talk

    @rows("value, text", [(1, b"1"), (None, b"null"), ("s", b'"s"'), ({}, b"{}"), (AwaitableResult(a=1), b'{"a":1}')])
    def test_a_result_at_once_is_the_response(self, talk: Conversation, value: Any, text: bytes) -> None:
        talk.server.credit = 1000
        assert talk.server.serve(talk.impl.Request("x", "give", [value])) == response(text)
        assert talk.server.credit == 1000 - len(response(text))
        assert talk.options == {"loop": "the loop", "name": "give", "eager_start": True}
        assert talk.task.get_run() is None
        assert (talk.begun, talk.concluded, talk.ends) == ([], [], [])

    def test_a_result_that_cannot_be_written_is_concluded(self, talk: Conversation) -> None:
        assert talk.server.serve(talk.impl.Request("x", "give", [1j])) is None
        assert talk.concluded[0][3:] == (1j, None)

    def test_the_served_coroutine_is_current_in_the_context_of_the_handler_alone(
        self, talk: Conversation, handlers: Handlers
    ) -> None:
        async def ask() -> bool:
            return current.get() is talk.task

        handlers.register("ask", ask)
        assert talk.server.serve(talk.impl.Request("x", "ask")) == response(b"true")
        assert current.get() is None

    def test_a_handler_that_needs_its_run_at_once(self, talk: Conversation, handlers: Handlers) -> None:
        async def need() -> int:
            assert current.get().get_run() is current.get().get_run() is talk.run
            return 1

        handlers.register("need", need)
        assert talk.server.serve(talk.impl.Request("x", "need")) is None
        assert talk.ends == [(1, None)]

    @rows(
        "step, end",
        [
            (lambda served: served.send(None), "later"),
            (lambda served: next(served), "later"),
            (lambda served: served.throw(ValueError("v")), "mended"),
        ],
    )
    def test_a_handler_that_waits(self, talk: Conversation, step: Any, end: str) -> None:
        assert talk.server.serve(talk.impl.Request("x", "give_later", ["later"])) is None
        assert talk.run.task is talk.task
        with pytest.raises(StopIteration) as raised:
            step(talk.task)
        assert raised.value.value is None
        assert talk.ends.pop() == (end, None)

    def test_what_it_waits_for_is_passed_on(self, talk: Conversation) -> None:
        work = give_later(1)
        first = talk.impl.ServedCoroutine(talk, work, None)
        assert next(first) == "a future"
        assert first.cr_frame.f_code is give_later.__code__
        first.close()
        assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
        assert talk.ends == []

    @rows("method, outcome", AWAITABLE[1:])
    def test_another_awaitable_is_begun_by_the_owner(self, talk: Conversation, method: bytes, outcome: str) -> None:
        assert talk.server.serve(talk.impl.decode(call(method))) is None
        assert repr(talk.begun.pop()[1]).startswith(outcome)

    @pytest.mark.skipif(sys.implementation.name != "cpython", reason="objects are freed later")
    @rows("needs_run", [False, True])
    def test_its_context_is_freed_when_the_handler_has_ended(
        self, talk: Conversation, handlers: Handlers, needs_run: bool
    ) -> None:
        kept: list[Any] = []

        async def end() -> None:
            if needs_run:
                current.get().get_run()

        def keep() -> Any:
            value: Any = Kept()
            kept.append(weakref.ref(value))
            seen.set(value)
            return end()

        method = f"keep {needs_run}"
        handlers.register(method, keep)
        gc.disable()
        try:
            talk.server.serve(talk.impl.Request("x", method))
            assert kept.pop()() is None
        finally:
            gc.enable()

    @rows("kind", ["ValueError", "SystemExit", "GeneratorExit"])
    def test_an_exception_at_once(self, talk: Conversation, kind: str) -> None:
        talk.ends.clear()
        assert talk.server.serve(talk.impl.Request("x", "raise_at_once", [kind])) is None
        result, error = talk.ends.pop()
        assert (result, type(error).__name__, str(error)) == (None, kind, kind)

    def test_an_exception_later(self, talk: Conversation) -> None:
        talk.server.serve(talk.impl.Request("x", "give_later", [1]))
        with pytest.raises(StopIteration):
            talk.task.throw(KeyError("k"))
        assert repr(talk.ends.pop()) == "(None, KeyError('k'))"

    def test_an_interrupt_passes_on(self, talk: Conversation, handlers: Handlers) -> None:
        async def interrupt() -> None:
            raise KeyboardInterrupt

        handlers.register("interrupted", interrupt)
        with pytest.raises(KeyboardInterrupt):
            talk.server.serve(talk.impl.Request("x", "interrupted"))
        assert isinstance(talk.ends.pop()[1], KeyboardInterrupt)
        assert talk.concluded == []

    @rows(
        "runs, has_slot, starts",
        [({}, False, True), ({1: 2}, True, True), ({1: 2}, False, False)],
    )
    def test_when_it_starts(
        self, impl: ModuleType, handlers: Handlers, runs: Any, has_slot: bool, starts: bool
    ) -> None:
        if handlers.find("give") is None:
            handlers.register("give", give)
        talk = Conversation(impl, handlers, runs=runs)
        talk.server.make_task, talk.has_slot = talk.start, has_slot
        assert (talk.server.serve(impl.Request("x", "give", [1])) is not None) is starts
        assert len(talk.begun) == (not starts)
        for _, work, _, _ in talk.begun:
            work.close()
