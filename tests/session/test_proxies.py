"""Calls as methods of a class that both sides know."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, overload

import pytest

pytest.importorskip("msgspec", reason="the extra `typed` is not installed")

from jsonrpc_fast.errors import CallTimeout, InvalidResponse, RpcError
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import BlockingCaller, Session
from jsonrpc_fast.session.proxies import proxy
from jsonrpc_fast.transports import memory_pair

from ..support.tables import rows
from ..support.waiting import forever


@dataclass
class Item:
    name: str
    price: float


class Base(Protocol):
    async def ping(self) -> str: ...


class Shop(Base, Protocol):
    async def price(self, item: Item, count: int = 1) -> float: ...

    async def find(self, *, words: list[str]) -> list[Item]: ...

    async def both(self, a: int, b: int, /) -> Any: ...

    async def _private(self) -> None: ...


class Blocking(Protocol):
    def price(self, item: Item) -> float: ...


class Corner:
    async def ping(self) -> str:
        return "pong"

    async def price(self, item: Item, count: int = 1) -> float:
        return item.price * count

    async def find(self, *, words: list[str]) -> list[Item]:
        return [Item(word, 1.5) for word in words]

    async def both(self, a: int, b: int) -> Any:
        return [a, b]


class Half:
    async def ping(self) -> str:
        return "pong"


@rows("raw", [False, True])
async def test_calls(raw: bool) -> None:
    handlers = Handlers()
    handlers.add(Corner(), Shop, prefix="shop.")
    here, there = memory_pair(raw=raw)
    async with Session(there, handlers), Session(here) as session:
        shop = proxy(session, Shop, prefix="shop.", timeout=30)
        assert await shop.ping() == "pong"
        assert await shop.price(Item("tea", 2.5)) == 2.5
        assert await shop.price(count=2, item=Item("tea", 2.5)) == 5
        assert await shop.find(words=["tea"]) == [Item("tea", 1.5)]
        assert await shop.both(1, 2) == [1, 2]
        with pytest.raises(TypeError, match="missing a required argument: 'item'"):
            await shop.price()  # type: ignore[call-arg]
        with pytest.raises(RpcError) as caught:
            await shop.price(Item("tea", "dear"))  # type: ignore[arg-type]
        data = caught.value.data.decode() if raw else caught.value.data
        assert data == [{"path": "/item/price", "reason": 'is not of type "number"'}]
        assert not hasattr(shop, "_private")


async def test_what_is_sent() -> None:
    """Params by name without those that are left out; an array for positional-only parameters; none for none."""
    found: list[Any] = []
    handlers = Handlers()
    for name in ("ping", "price", "both"):
        handlers.register(name, found.append, unpack=False)
    here, there = memory_pair()
    async with Session(there, handlers), Session(here) as session:
        shop = proxy(session, Shop)
        await shop.both(1, 2)
        for calling in (shop.ping(), shop.price(Item("tea", 2.5))):
            with pytest.raises(InvalidResponse):  # the result is null
                await calling
    assert found == [[1, 2], None, {"item": {"name": "tea", "price": 2.5}}]


async def test_a_result_of_another_type() -> None:
    here, there = memory_pair()
    handlers = {"find": lambda words: [{"name": "secret"}]}
    async with Session(there, handlers), Session(here) as session:
        with pytest.raises(InvalidResponse) as caught:
            await proxy(session, Shop).find(words=[])
    said = "the result of find has another type: /0/price: is required"
    assert str(caught.value) == said


@pytest.mark.virtual_time
async def test_options_are_those_of_call() -> None:
    here, there = memory_pair()
    async with Session(there, {"ping": forever}, close_seconds=0), Session(here, close_seconds=0) as session:
        with pytest.raises(CallTimeout):
            await proxy(session, Shop, timeout=1).ping()


def test_a_blocking_caller() -> None:
    class Priced(BlockingCaller):
        def _wait(self, method: Any, *args: Any, **kwargs: Any) -> Any:
            return {"price": 1}[args[0]]

    assert proxy(Priced(), Blocking).price(Item("tea", 2)) == 1


class Several(Protocol):
    async def f(self, *several: int) -> int: ...


class Mixed(Protocol):
    async def f(self, a: int, /, *, b: int) -> int: ...


class Static(Protocol):
    @staticmethod
    async def f(a: int) -> int: ...


class Generator(Protocol):
    async def f(self) -> AsyncIterator[int]:
        yield 1


class Gaps(Protocol):
    async def f(this, self: int = 1, /, b: int = 2, c: int = 3) -> Any: ...

    async def g(this, self: int) -> Any: ...


async def test_an_array_has_the_defaults_before_what_is_given() -> None:
    here, there = memory_pair()
    handlers = {"f": lambda *values: list(values), "g": lambda **values: values}
    async with Session(there, handlers), Session(here) as session:
        gaps = proxy(session, Gaps)
        assert await gaps.f(c=9) == [1, 2, 9]
        assert await gaps.f(5, b=7) == [5, 7]
        assert await gaps.f() == []
        assert await gaps.g(self=4) == {"self": 4}
    assert Gaps.f.__name__ == "f"


class Without(Shop, Protocol):
    price = None  # type: ignore[assignment]


class Empty(Protocol): ...


class Attribute(Protocol):
    value: int

    async def f(self) -> int: ...


class Function(Protocol):
    f: Callable[[int], Awaitable[int]]


class Property(Shop, Protocol):
    @property
    def name(self) -> str: ...


class Cached(Shop, Protocol):
    @lru_cache  # noqa: B019
    def cached(self) -> int: ...


class Overloaded(Protocol):
    @overload
    async def f(self, a: int) -> int: ...

    @overload
    async def f(self, a: str) -> str: ...


@rows(
    ("interface", "said"),
    [
        (Blocking, "price must be async def, like the caller's call"),
        (Several, "f must not have *args or **kwargs"),
        (Mixed, "f must not have both positional-only and keyword-only parameters"),
        (Static, "f must be an ordinary method"),
        (Generator, "f must be an ordinary method"),
        (Empty, "Empty must declare a method"),
        (Attribute, "value must be an ordinary method"),
        (Function, "f must be an ordinary method"),
        (Property, "name must be an ordinary method"),
        (Cached, "cached must be an ordinary method"),
        (Overloaded, "f must have one signature after its overloads"),
        (Corner(), "interface must be a class, not Corner"),
    ],
)
async def test_a_class_that_does_not_fit(interface: Any, said: str) -> None:
    here, _ = memory_pair()
    with pytest.raises(TypeError) as caught:
        proxy(Session(here), interface)
    assert str(caught.value) == said


class Both(Protocol):
    class Word(str): ...

    @overload
    async def f(self, a: int) -> int: ...

    @overload
    async def f(self, a: str) -> str: ...

    async def f(self, a: Any) -> Any: ...


class Concrete:
    count: int = 1

    @property
    def name(self) -> str:
        return "concrete"

    async def f(self, a: int) -> int:
        return a


@rows("interface", [Both, Concrete])
async def test_a_class_with_more_than_methods(interface: Any) -> None:
    """A Protocol with types and overloads. Another class may have attributes, which are not served."""
    handlers = Handlers()
    handlers.add(Concrete(), interface)
    assert list(handlers.functions()) == ["f"]
    here, there = memory_pair()
    async with Session(there, handlers), Session(here) as session:
        assert await proxy(session, interface).f(5) == 5


def test_what_is_added() -> None:
    handlers = Handlers()
    handlers.add(Corner(), Base)
    assert list(handlers.functions()) == ["ping"]
    handlers.add(Corner(), Base, prefix="b.", timeout=5)
    assert list(handlers.functions()) == ["ping", "b.ping"]
    with pytest.raises(TypeError, match=r"^Half must have the method price of Shop$"):
        handlers.add(Half(), Shop, prefix="c.")
    assert list(handlers.functions()) == ["ping", "b.ping"]
    handlers.add(Corner(), Without, prefix="d.")
    assert "d.price" not in handlers.functions()
    with pytest.raises(ValueError, match="the method already has a handler"):
        handlers.add(Corner(), Base)
