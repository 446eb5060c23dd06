"""Callers of one's own, and results of calls with a type: what is converted, and what an error says."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("msgspec", reason="the extra `typed` is not installed")
pytest.importorskip("pydantic", reason="pydantic is not installed")

import msgspec
import pydantic

from jsonrpc_fast import Notification, Raw
from jsonrpc_fast.errors import InvalidResponse
from jsonrpc_fast.handlers.caller import result_reader
from jsonrpc_fast.session import BatchCaller, BlockingCaller, ReconnectingSession, Session, blocking
from jsonrpc_fast.session.proxies import proxy
from jsonrpc_fast.transports import memory_pair

from ..support.tables import rows


class Struct(msgspec.Struct):
    name: str


class Model(pydantic.BaseModel):
    name: str


class Named(TypedDict):
    name: str


@dataclass
class Item:
    name: str
    tags: tuple[str, ...] = ()


@dataclass
class Beyond:
    """msgspec finds such a name in JSON only after it has written it."""

    größe: int = 0


@rows(
    ("returns", "text", "expected"),
    [
        (int, b"1", 1),
        (float, b"1", 1.0),
        (type(None), b"null", None),
        (int | None, b"null", None),
        (list[Struct], b'[{"name":"a"}]', [Struct("a")]),
        (Item, b'{"name":"a","tags":["b"]}', Item("a", ("b",))),
        (Model, b'{"name":"a"}', Model(name="a")),
        (dict[str, Model], b'{"x":{"name":"a"}}', {"x": Model(name="a")}),
        (pydantic.TypeAdapter(list[int]), b"[1]", [1]),
        (Named, b'{"name":"a"}', {"name": "a"}),
        (Annotated[int, msgspec.Meta(ge=1)], b"1", 1),
        (Annotated[str, ["not hashable"]], b'"a"', "a"),
        (Any, b'{"a":[1]}', {"a": [1]}),
        (Beyond, '{"größe":1}'.encode(), Beyond(1)),
    ],
)
def test_types(returns: Any, text: bytes, expected: Any) -> None:
    for _ in range(2):  # the second time it is cached
        read = result_reader(returns)
        for result in (Raw(text), Raw(text).decode()):
            found = read("m", result)
            assert found == expected
            assert type(found) is type(expected)


@rows(
    ("returns", "text", "said"),
    [
        (list[Item], b'[{"name":"a"},{"name":7}]', '/1/name: is not of type "string"'),
        (list[Item], b"[{}]", "/0/name: is required"),
        (Model, b'{"name":7}', '/name: is not of type "string"'),
        (int, b'"secret"', 'the result: is not of type "integer"'),
        (Annotated[int, msgspec.Meta(ge=1)], b"0", "the result: is less than the minimum of 1"),
        (dict[str, int], b'{"secret":"secret"}', 'the result: is not of type "integer"'),
    ],
)
def test_results_of_another_type(returns: Any, text: bytes, said: str) -> None:
    for result in (Raw(text), Raw(text).decode()):
        with pytest.raises(InvalidResponse) as caught:
            result_reader(returns)("shop.find", result)
        assert str(caught.value) == f"the result of shop.find has another type: {said}"
        assert caught.value.__cause__ is None


@rows("returns", [object, "int", list[object], 1])
def test_types_that_are_not_supported(returns: Any) -> None:
    for _ in range(2):
        with pytest.raises(TypeError):
            result_reader(returns)


class Own(BatchCaller):
    """A client that answers itself: it returns what it was asked to send."""

    async def _send(
        self, method: str, params: Any, is_call: bool, is_typed: bool, *_: Any, timeout: float | None = None
    ) -> Any:
        sent.append((method, params, is_call, timeout))
        return Raw(b"[1]") if is_typed else params

    async def _send_batch(self, items: list[Any], is_typed: bool, *_: Any, **options: Any) -> list[Any]:
        return [None if isinstance(item, Notification) else await self._send(*item, True, is_typed) for item in items]


class OwnBlocking(BlockingCaller):
    def _wait(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        return asyncio.run(method(Own(), *args, **kwargs))


sent: list[Any] = []


async def test_a_caller_defines_how_a_message_is_sent() -> None:
    sent.clear()
    caller = Own()
    assert await caller.call("a", {"x": 1}, timeout=2) == {"x": 1}
    assert await caller.call("b", returns=set[int]) == {1}
    await caller.notify("c", [1])
    assert sent == [("a", {"x": 1}, True, 2), ("b", None, True, None), ("c", [1], False, None)]
    with pytest.raises(InvalidResponse, match=r"^the result of b has another type"):
        await caller.call("b", returns=str)
    batch: Any = [("a", [1]), Notification("b"), ("c", None)]
    assert await caller.call_batch(batch) == [[1], None, None]
    first, none, wrong = await caller.call_batch(batch, returns=[list[int], None, str])
    assert (first, none, type(wrong)) == ([1], None, InvalidResponse)
    with pytest.raises(TypeError, match="'headers'"):
        await caller.call("a", headers={})
    sent.clear()
    with pytest.raises(TypeError, match=r"must be a tuple \(method, params\)"):
        await caller.call_batch(["a"])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        await caller.call("a", returns=object)
    assert sent == []  # an argument is refused before anything is sent


def test_the_blocking_form_of_a_caller() -> None:
    caller = OwnBlocking()
    assert caller.call("a", [1], timeout=2) == [1]
    assert caller.call("a", returns=tuple[int]) == (1,)
    caller.notify("a")
    assert not inspect.iscoroutinefunction(caller.call)
    assert list(inspect.signature(OwnBlocking.call).parameters) == [
        "self",
        "method",
        "params",
        "more",
        "returns",
        "options",
    ]


@contextlib.asynccontextmanager
async def caller_of(name: str) -> AsyncIterator[Any]:
    """One caller of each kind, connected as far as it has a connection."""
    near, far = memory_pair()
    async with contextlib.AsyncExitStack() as stack:
        if name == "Own":
            yield Own()
        elif name in ("AsyncHttpClient", "HttpClient"):
            yield getattr(pytest.importorskip("jsonrpc_fast.http.client"), name)("http://127.0.0.1:1/")
        elif name == "Client":
            server = pytest.importorskip("jsonrpc_fast.mcp.server").Server("test", "1")
            yield await stack.enter_async_context(pytest.importorskip("jsonrpc_fast.mcp").connect(server))
        else:
            if name == "BlockingSession":
                client, peer = blocking(near), Session(far)
                await asyncio.to_thread(stack.enter_context, client)
                await asyncio.to_thread(client.wait_for, peer.start)
                yield client
            else:
                await stack.enter_async_context(Session(far))
                session: Any = Session(near) if name == "Session" else ReconnectingSession(lambda: near)
                yield await stack.enter_async_context(session)


async def said_by(function: Any, *args: Any, **kwargs: Any) -> str:
    """The text of the TypeError that a method raises, wherever it comes."""
    try:
        if inspect.iscoroutinefunction(function):
            await function(*args, **kwargs)
        elif function.__name__ in ("call_threadsafe", "notify_threadsafe"):
            await asyncio.wrap_future(function(*args, **kwargs))
        else:
            await asyncio.to_thread(lambda: list(function(*args, **kwargs)))
    except TypeError as error:
        return str(error)
    pytest.fail("no TypeError")


SEVERAL = 'takes the params as one list or one dict: {0}("add", [1, 2])'
NO_OPTION = 'has no option \'a\': the params are one list or one dict, as in {0}("add", {{"a": 1}})'


@rows(
    ("name", "methods"),
    [
        ("Own", "call notify call_batch"),
        ("Session", "call notify call_batch call_soon call_threadsafe notify_threadsafe notify_soon stream"),
        ("ReconnectingSession", "call notify call_batch stream"),
        ("BlockingSession", "call notify call_batch stream"),
        ("AsyncHttpClient", "call notify call_batch"),
        ("HttpClient", "call notify call_batch"),
        ("Client", "call notify"),
    ],
)
async def test_what_a_caller_says_of_wrong_arguments(name: str, methods: str) -> None:
    async with caller_of(name) as caller:
        for method in methods.split():
            function = getattr(caller, method)
            if method == "call_batch":
                cure = "call_batch takes one list of tuples (method, params) and of notifications"
                assert await said_by(function, ("a", [1]), ("b", [2])) == cure
                assert await said_by(function, 1) == cure
                continue
            shown = method.replace("call_threadsafe", "call")
            assert await said_by(function, "add", 1, 2) == f"{shown} {SEVERAL.format(shown)}"
            if method in ("call", "notify", "call_threadsafe"):
                assert await said_by(function, "add", a=1) == f"{shown} {NO_OPTION.format(shown)}"


async def test_what_a_proxy_says_of_wrong_arguments() -> None:
    class Shop:
        async def price(self, item: str, *, count: int = 1) -> float:
            raise NotImplementedError

    shop = proxy(Own(), Shop)
    taken = "price takes (item, *, count=1)"
    assert await said_by(shop.price, "tea", 1) == f"{taken}: too many positional arguments"
    assert await said_by(shop.price) == f"{taken}: missing a required argument: 'item'"
