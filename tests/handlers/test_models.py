"""Results that are made of models: circles are refused, as deep values are."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections import UserDict, UserList, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import attrs
import msgspec
import pydantic
import pydantic.dataclasses
import pytest

from jsonrpc_fast.errors import EncodeError
from jsonrpc_fast.handlers import Handlers, to_jsonable
from jsonrpc_fast.handlers.json_values import to_json

from ..support.tables import rows


@pytest.fixture(autouse=True)
def _unsafe_recursion_limit() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)
    yield
    sys.setrecursionlimit(before)


@dataclasses.dataclass(eq=False)
class Data:
    inner: Any = None


@dataclasses.dataclass(slots=True)
class Slotted:
    inner: Any = None


@pydantic.dataclasses.dataclass
class Checked:
    inner: Any = None


@attrs.define
class Attrs:
    inner: Any = None


class Struct(msgspec.Struct, eq=False):
    inner: Any = None


class Array(msgspec.Struct, array_like=True, tag=True):
    inner: Any = None


class Model(pydantic.BaseModel):
    inner: Any = None


class Tuple(NamedTuple):
    inner: Any = None


class Endless(Mapping[str, Any]):
    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return iter("a")

    def __getitem__(self, name: str) -> Any:
        return Data([Endless()])


WRAPPERS: list[Callable[[Any], Any]] = [
    Data,
    Slotted,
    Checked,
    Attrs,
    Struct,
    Array,
    Tuple,
    lambda inner: [inner, inner],
    lambda inner: {"a": inner},
    lambda inner: UserDict(a=inner),
    lambda inner: UserList([inner]),
    lambda inner: deque([inner]),
    lambda inner: types.MappingProxyType({"a": inner}),
]


def circle(*wrappers: Callable[[Any], Any]) -> Any:
    head = Struct()
    value: Any = head
    for wrapper in wrappers:
        value = wrapper(value)
    head.inner = value
    return head


def chain(wrapper: Callable[[Any], Any], length: int) -> Any:
    value: Any = 1
    for _ in range(length):
        value = wrapper(value)
    return value


@rows("wrapper", WRAPPERS, ids=range(len(WRAPPERS)))
@rows("write", [to_json, to_jsonable])
def test_a_circular_value_is_refused(write: Callable[[Any], Any], wrapper: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError):
        write(circle(wrapper))


def test_a_circle_of_many_kinds_is_refused() -> None:
    with pytest.raises(EncodeError):
        to_json(circle(*WRAPPERS))
    inside = Data()
    inside.inner = frozenset([inside])
    with pytest.raises(EncodeError):
        to_json(inside)


@rows("wrapper", WRAPPERS[:7] + WRAPPERS[8:], ids=range(len(WRAPPERS) - 1))
@pytest.mark.ci
def test_a_deep_value_is_refused_and_a_flat_one_is_written(wrapper: Callable[[Any], Any]) -> None:
    with pytest.raises(EncodeError):
        to_json(chain(wrapper, 100_000))  # CPython 3.14 recurses as deep as the C stack allows
    to_json(chain(wrapper, 250))
    to_json([chain(wrapper, 2)] * 2000)


def test_a_value_without_an_end_is_refused() -> None:
    with pytest.raises(EncodeError):
        to_json(Endless())


def test_a_circle_through_pydantic_is_refused() -> None:
    model = Model()
    model.__dict__["inner"] = {"a": model}
    for write in (to_json, to_jsonable):
        with pytest.raises((TypeError, ValueError)):
            write(Struct([model]))


def test_the_response_to_a_circular_result_is_an_error() -> None:
    reply = Handlers({"m": lambda: circle(Data)}).dispatch(b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    assert reply == b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}\n'


def test_what_is_not_written_may_be_circular() -> None:
    @dataclasses.dataclass
    class Node:
        known: ClassVar[list[Any]] = []
        name: str = "a"

    @attrs.define
    class Private:
        name: str
        _parent: Any = None

    Node.known.append(Node.known)
    node = Node()
    node.parent = node  # type: ignore[attr-defined]
    private = Private("b")
    private._parent = private
    assert to_json([node, private]) == [{"name": "a"}, {"name": "b"}]
