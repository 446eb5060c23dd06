"""The fast path of serving, on both backends: what it serves, and what it leaves."""

from __future__ import annotations

import asyncio
import importlib.util
from contextvars import ContextVar, copy_context
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast import Raw
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.handlers import Handlers, RequestContext

from ..support.tables import rows

seen: ContextVar[str] = ContextVar("seen", default="nothing")
calls: list[Any] = []


class Keeps:
    """A class is a function that is not called by `vectorcall`."""

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
    "wide": lambda: 1 << 70,
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
    (b'"wide"', "1180591620717411303424"),
    (b'"value error"', "ValueError('v')"),
    (b'"refusal"', "RpcError(7, 'no', UNSET)"),
    (b'"exit"', "SystemExit(3)"),
    (b'"add","params":[1,2,3]', "TypeError"),
    (b'"add","params":{"c":1}', "TypeError"),
    *[(b'"typed","params":["1",2]', "RpcError(<ErrorCode.INVALID_PARAMS: -32602>")] * HAS_MSGSPEC,
    (b'"object"', "<object object at"),
    (b'"keeps","params":{"a":1}', "<tests.codec.test_serving.Keeps object at"),
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
        assert impl._serve_plain(call(method), handlers.find, False) == response(result)
        assert handlers.dispatch(call(method)) == response(result)
        if b"whole" not in method and impl.Raw is Raw:
            assert impl._serve_plain(call(method), handlers.find, True) == response(result)

    @rows("method, outcome", CONCLUDED)
    def test_concluded(self, impl: ModuleType, handlers: Handlers, method: bytes, outcome: str) -> None:
        message, handler, result, error = impl._serve_plain(call(method), handlers.find, False)
        assert message == impl.decode(call(method))
        assert handler is handlers.find(message.method)
        assert repr(result if error is None else error).startswith(outcome)
        if method == b'"wait"':
            result.close()

    @rows("text", LEFT)
    def test_left(self, impl: ModuleType, handlers: Handlers, text: bytes) -> None:
        assert impl._serve_plain(text, handlers.find, False) == (impl.decode(text), None, None, None)
        assert seen.get() == "nothing"

    def test_raw_params_are_for_handlers_that_take_them(self, impl: ModuleType, handlers: Handlers) -> None:
        found = impl._serve_plain(call(b'"whole","params":[1]'), handlers.find, True)
        assert found == (impl.Request("x", "whole", impl.Raw(b"[1]")), None, None, None)

    @rows("method, kind", [(b'"cancelled"', asyncio.CancelledError), (b'"interrupt"', KeyboardInterrupt)])
    def test_what_passes_on(self, impl: ModuleType, handlers: Handlers, method: bytes, kind: Any) -> None:
        with pytest.raises(kind):
            impl._serve_plain(call(method), handlers.find, False)

    def test_a_function_gets_a_dict_of_its_own(self, impl: ModuleType, handlers: Handlers) -> None:
        message, _, _, _ = impl._serve_plain(call(b'"keeps","params":{"a":1}'), handlers.find, False)
        assert calls == [{"a": 1, "kept": True}]
        assert message.params == {"a": 1}


class Conversation:
    """A `PlainServer`, and what it does not serve."""

    def __init__(self, impl: ModuleType, handlers: Handlers) -> None:
        self.impl = impl
        self.left: list[Any] = []
        self.concluded: list[Any] = []
        self.serving: dict[Any, Any] = {}
        self.server = impl.PlainServer(
            handlers.find, self.serving, impl.encode_result, copy_context(), self.leave, self.conclude
        )
        self.server.room = 1000

    def leave(self, message: Any, destination: Any) -> bytes:
        self.left.append((message, destination))
        return b"later"

    def conclude(self, message: Any, handler: Any, context: Any, result: Any, error: Any) -> None:
        self.concluded.append((message.id, handler, context.get(seen, None), result, error))


class TestConversations:
    @pytest.fixture
    def talk(self, impl: ModuleType, handlers: Handlers) -> Conversation:
        return Conversation(impl, handlers)

    @rows("method, result", SERVED)
    def test_served(self, talk: Conversation, method: bytes, result: bytes) -> None:
        talk.server.room = 1000
        assert talk.server.receive(talk.impl.decode(call(method))) == response(result)
        assert talk.server.room == 1000 - len(response(result))
        assert talk.server.last_read == "x"

    @rows("method, outcome", [*CONCLUDED, (b'"cancelled"', "CancelledError()")])
    def test_concluded(self, talk: Conversation, method: bytes, outcome: str) -> None:
        assert talk.server.receive(talk.impl.decode(call(method))) is None
        _, handler, _, result, error = talk.concluded.pop()
        assert handler is talk.server.find(talk.impl.decode(call(method)).method)
        assert repr(result if error is None else error).startswith(outcome)
        assert (talk.server.room, talk.server.last_read) == (1000, "x")
        if method == b'"wait"':
            result.close()

    @rows("text", LEFT)
    def test_left(self, talk: Conversation, text: bytes) -> None:
        message = talk.impl.decode(text)
        assert talk.server.receive(message) == b"later"
        assert talk.left.pop() == (message, None)
        assert not talk.concluded

    def test_raw_params(self, talk: Conversation) -> None:
        if talk.impl.Raw is not Raw:
            pytest.skip("handlers know the Raw of the backend in use alone")
        message = talk.impl.decode(call(b'"add","params":[1,2]'), raw=True)
        assert talk.server.receive(message) == response(b"3")
        message = talk.impl.decode(call(b'"whole","params":[1,2]'), raw=True)
        assert talk.server.receive(message) == response(b"\"Raw(b'[1,2]')\"")

    def test_an_interrupt_is_concluded_and_passes_on(self, talk: Conversation) -> None:
        with pytest.raises(KeyboardInterrupt):
            talk.server.receive(talk.impl.Request(1, "interrupt"))
        assert isinstance(talk.concluded[0][4], KeyboardInterrupt)

    def test_without_room_everything_is_left(self, talk: Conversation) -> None:
        talk.server.room = 30
        assert talk.server.receive(talk.impl.Request(1, "null")) == b'{"jsonrpc":"2.0","id":1,"result":null}\n'
        assert talk.server.room == -9
        assert talk.server.receive(talk.impl.Request(2, "null")) == b"later"
        assert talk.server.last_read == 1

    def test_a_message_with_a_destination_is_left(self, talk: Conversation) -> None:
        message = talk.impl.Request(1, "null")
        assert talk.server.receive(message, "there") == b"later"
        assert talk.left == [(message, "there")]

    @rows(
        "id, is_left",
        [(7, True), (7.0, True), ("7", False), (8, False), ("s", True), (None, True), (0.5, True), (1 << 80, False)],
    )
    def test_an_id_in_flight(self, talk: Conversation, id: Any, is_left: bool) -> None:
        talk.serving.update({7: None, "s": None})
        assert (talk.server.receive(talk.impl.Request(id, "null")) == b"later") is is_left

    def test_each_function_has_a_context_of_its_own(self, talk: Conversation) -> None:
        for _ in range(2):
            message = talk.impl.Request("x", "note", ["here"])
            assert talk.server.receive(message) == response(b'"nothing"')
        assert seen.get() == "nothing"

    def test_the_context_is_given_with_what_is_concluded(self, talk: Conversation, handlers: Handlers) -> None:
        handlers.register("note and wait", lambda: (seen.set("here"), wait())[1])
        talk.server.receive(talk.impl.Request("x", "note and wait"))
        (id, _, noted, result, error) = talk.concluded.pop()
        assert (id, noted, error) == ("x", "here", None)
        result.close()

    def test_an_encoder_of_its_own(self, impl: ModuleType, handlers: Handlers) -> None:
        encode = partial(impl.encode_result, default=repr)
        server = impl.PlainServer(handlers.find, {}, encode, copy_context(), None, None)
        server.room = 1000
        handlers.register("complex", lambda: 1j)
        assert server.receive(impl.Request("x", "complex")) == response(b'"1j"')

    def test_methods_may_be_found_elsewhere(self, talk: Conversation) -> None:
        talk.server.find = Handlers({"null": lambda: "other"}).find
        assert talk.server.receive(talk.impl.Request("x", "null")) == response(b'"other"')
