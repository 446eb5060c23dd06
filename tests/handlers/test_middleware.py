"""Middleware: order, params, results and exceptions, in dispatch and in sessions."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import json
import logging
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from jsonrpc_fast import decode
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.handlers import CallNext, Handler, Handlers, RequestContext
from jsonrpc_fast.session import SessionContext

from ..support.session_pairs import Faults, sessions
from ..support.tables import rows

on_each_loop = pytest.mark.usefixtures("each_loop")

CALL = '{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}'
RESULT = b'{"jsonrpc":"2.0","id":1,"result":%b}\n'
INTERNAL = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}\n'


def add(a: int, b: int) -> int:
    return a + b


async def add_later(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


FUNCTIONS: dict[str, Any] = {"add": add, "add_later": add_later}


class Noting:
    """A middleware, in both forms, that notes when it is entered and left."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def sync(self, name: str) -> Any:
        def middleware(context: RequestContext, params: Any, call_next: CallNext) -> Any:
            self.seen.append(f"{name} in {context.method} {context.id} {params}")
            result = call_next(params)
            self.seen.append(f"{name} out {result}")
            return result

        return middleware

    def asynchronous(self, name: str) -> Any:
        async def middleware(context: RequestContext, params: Any, call_next: CallNext) -> Any:
            self.seen.append(f"{name} in {context.method} {context.id} {params}")
            result = await call_next(params)
            self.seen.append(f"{name} out {result}")
            return result

        return middleware


def test_the_first_is_the_outermost() -> None:
    noting = Noting()
    handlers = Handlers({"add": add}, middleware=[noting.sync("a"), noting.sync("b")])
    assert handlers.dispatch(CALL % ("add", "[1,2]")) == RESULT % b"3"
    assert noting.seen == ["a in add 1 [1, 2]", "b in add 1 [1, 2]", "b out 3", "a out 3"]


@on_each_loop
@rows("method", ["add", "add_later"])
async def test_an_async_middleware_awaits_sync_and_async_functions(method: str) -> None:
    noting = Noting()
    handlers = Handlers(FUNCTIONS, middleware=[noting.asynchronous("a"), noting.asynchronous("b")])
    assert await handlers.dispatch_async(CALL % (method, "[1,2]")) == RESULT % b"3"
    assert noting.seen == [f"a in {method} 1 [1, 2]", f"b in {method} 1 [1, 2]", "b out 3", "a out 3"]


@on_each_loop
async def test_both_forms_together() -> None:
    noting = Noting()
    mixed = [noting.asynchronous("a"), noting.sync("b"), noting.asynchronous("c")]
    handlers = Handlers(FUNCTIONS, middleware=mixed)
    batch = f"[{CALL % ('add', '[1,2]')},{CALL % ('add_later', '[3,4]')}]"
    reply = json.loads(await handlers.dispatch_async(batch))
    assert [item["result"] for item in reply] == [3, 7]
    assert [entry[:5] for entry in noting.seen if " in " in entry] == ["a in ", "b in ", "c in "] * 2
    assert [entry for entry in noting.seen if entry[0] in "ac" and "out" in entry].count("a out 7") == 1


def test_it_changes_params_and_results_and_may_answer_itself() -> None:
    def double(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        if params == []:
            return "nothing to add"
        return call_next([2 * value for value in params]) + call_next([0, 1])

    handlers = Handlers({"add": add}, middleware=[double])
    assert handlers.dispatch(CALL % ("add", "[1,2]")) == RESULT % b"7"
    assert handlers.dispatch(CALL % ("add", "[]")) == RESULT % b'"nothing to add"'


def test_the_context_and_what_the_function_gets_of_it() -> None:
    def check(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        if context.context != "admin":
            raise RpcError(-32001, "not allowed")
        return call_next(params)

    def whole(context: RequestContext, params: Any) -> Any:
        return [context.context, params]

    handlers = Handlers({"add": add}, middleware=[check])
    handlers.register("whole", whole, unpack=False)
    assert handlers.dispatch(CALL % ("whole", "[1]"), context="admin") == RESULT % b'["admin",[1]]'
    refusal = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"not allowed"}}\n'
    assert handlers.dispatch(CALL % ("add", "[1,2]"), context="guest") == refusal


def test_an_exception_is_answered_like_a_handlers(caplog: pytest.LogCaptureFixture) -> None:
    def fail(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        raise LookupError("secret")

    handlers = Handlers({"add": add}, middleware=[fail])
    with caplog.at_level(logging.ERROR):
        assert handlers.dispatch(CALL % ("add", "[1,2]")) == INTERNAL
        assert handlers.dispatch('{"jsonrpc":"2.0","method":"add"}') == b""
    assert [record.getMessage() for record in caplog.records] == [
        "the handler of 'add' failed, id 1",
        "the handler of 'add' failed, id None",
    ]


def test_the_exceptions_of_a_handler_pass_through() -> None:
    seen = []

    def note(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        try:
            return call_next(params)
        except RpcError as error:
            seen.append(error.code)
            raise

    handlers = Handlers({"add": add}, middleware=[note])
    assert b'"error":{"code":-32602,"message":"Invalid params","data":' in handlers.dispatch(CALL % ("add", "[1]"))
    assert seen == [-32602]


def test_unknown_methods_pass_it_by() -> None:
    noting = Noting()
    handlers = Handlers({"add": add}, middleware=[noting.sync("a")])
    assert b"-32601" in handlers.dispatch(CALL % ("other", "[]"))
    assert noting.seen == []


def test_async_middleware_needs_dispatch_async(caplog: pytest.LogCaptureFixture) -> None:
    handlers = Handlers({"add": add}, middleware=[Noting().asynchronous("a")])
    assert handlers.dispatch(CALL % ("add", "[1,2]")) == INTERNAL
    gc.collect()  # reports a coroutine that was never awaited
    assert "dispatch_async" in caplog.text


@on_each_loop
async def test_an_object_whose_call_is_async() -> None:
    class Middleware:
        async def __call__(self, context: RequestContext, params: Any, call_next: CallNext) -> Any:
            return [await call_next(params)]

    handlers = Handlers({"add": add}, middleware=[Middleware()])
    assert await handlers.dispatch_async(CALL % ("add", "[1,2]")) == RESULT % b"[3]"


def test_without_middleware_a_handler_is_a_plain_one() -> None:
    handlers = Handlers({"add": add})
    assert type(handlers.find("add")) is Handler
    with pytest.raises(TypeError, match="middleware must be callable"):
        Handlers({"add": add}, middleware=[5])  # type: ignore[list-item]


# Typed params.

WIDE = 123456789012345678901234567890


def forwarded(params: Any) -> Any:
    return params


def copied(params: Any) -> Any:
    return [*params]


def changed(params: Any) -> Any:
    return [params[0], 5]


def changed_in_place(params: Any) -> Any:
    params[1] = True  # which is equal to 1
    return params


@rows(
    ("change", "text", "seen"),
    [
        (forwarded, "[1.10,1]", [Decimal("1.10"), 1]),
        (copied, "[1.10,1]", [Decimal("1.10"), 1]),
        (changed, "[1.10,1]", [Decimal("1.1"), 5]),
        (changed_in_place, "[1.10,1]", [Decimal("1.1"), True]),
        (
            forwarded,
            f"[0.1000000000000000055511151231257827,{WIDE}]",
            [Decimal("0.1000000000000000055511151231257827"), WIDE],
        ),
        (forwarded, f'{{"price":1e400,"more":{WIDE}}}', None),
    ],
)
def test_typed_params_that_it_passes_on_are_read_from_the_text(
    change: Callable[[Any], Any], text: str, seen: list[Any] | None
) -> None:
    pytest.importorskip("msgspec")
    got: list[Any] = []

    def alter(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        assert type(params) is list
        return call_next(change(params))

    def buy(price: Decimal, more: int | bool) -> None:
        got.extend([price, more])

    handlers = Handlers(middleware=[alter])
    handlers.register("buy", buy, typed=True, ordered=True)
    text = CALL % ("buy", text)
    for options in ({}, {"raw": True}):
        handlers.dispatch(text, **options)
        handlers.dispatch(decode(text, raw=True))
        assert [(type(each), each) for each in got] == [(type(each), each) for each in (seen or []) * 2]
        got.clear()


# Sessions.


@on_each_loop
@rows("method", ["add", "add_later"])
@rows("form", ["sync", "asynchronous"])
async def test_sessions(form: str, method: str) -> None:
    noting = Noting()
    handlers = Handlers(FUNCTIONS, middleware=[getattr(noting, form)("a")])
    async with sessions(handlers) as (client, _):
        assert await client.call(method, [1, 2]) == 3
        assert noting.seen[0] == f"a in {method} 1 [1, 2]"
        with pytest.raises(RpcError) as caught:
            await client.call(method, [1])
        assert caught.value.code == -32602


@on_each_loop
async def test_a_middleware_of_a_session_calls_back_and_sets_variables() -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")

    async def authenticate(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        assert isinstance(context, SessionContext)
        user.set(await context.session.call("who"))
        return await call_next(params)

    handlers = Handlers({"greet": lambda: f"hello {user.get()}"}, middleware=[authenticate])
    async with sessions(handlers, {"who": lambda: "Ann"}, max_handlers=1) as (client, _):
        assert await asyncio.gather(client.call("greet"), client.call("greet")) == ["hello Ann"] * 2


@on_each_loop
async def test_exceptions_in_a_session() -> None:
    async def fail(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        raise LookupError("secret")

    faults = Faults()
    async with sessions(Handlers({"add": add}, middleware=[fail]), hooks=faults) as (client, _):
        with pytest.raises(RpcError) as caught:
            await client.call("add", [1, 2])
        assert (caught.value.code, caught.value.message) == (-32603, "Internal error")
    assert [type(error) for error in faults.seen] == [LookupError]


@pytest.mark.virtual_time
@on_each_loop
async def test_cancelling_a_call_cancels_the_middleware() -> None:
    ended = asyncio.Event()
    begun = asyncio.Event()

    async def slow(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        begun.set()
        try:
            return await asyncio.sleep(60)
        finally:
            ended.set()

    async with sessions(Handlers({"add": add}, middleware=[slow])) as (client, server):
        call = asyncio.ensure_future(client.call("add", [1, 2]))
        await begun.wait()
        call.cancel()
        await server.close(0)
        assert ended.is_set()
        with pytest.raises(asyncio.CancelledError):
            await call
