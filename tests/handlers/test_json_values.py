"""Values that functions return, as JSON types."""

from __future__ import annotations

import enum
import ipaddress
import types
from collections import OrderedDict, UserDict, deque
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pydantic
import pytest
from pydantic import BaseModel

from jsonrpc_fast.codec._json import dumps, loads
from jsonrpc_fast.errors import EncodeError
from jsonrpc_fast.handlers.json_values import json_of, to_json

from ..support.tables import rows


class Colour(enum.Enum):
    RED = "red"


class Model(BaseModel):
    x: int
    name: str = "a"


class Text(str):
    __slots__ = ()


class Pair(NamedTuple):
    a: int
    b: set[int]


class Number(int):
    pass


@rows(
    ("value", "written"),
    [
        (Text("a"), "a"),
        ({Text("a"): Number(3)}, {"a": 3}),
        (types.MappingProxyType({"a": Decimal(1)}), {"a": "1"}),
        (OrderedDict(a=1), {"a": 1}),
        (UserDict({"a": {1}}), {"a": [1]}),
        (deque([1, b"\0"]), [1, "AA=="]),
        ({"a": 1}.keys(), ["a"]),
        (range(3), [0, 1, 2]),
        (Pair(1, {2}), [1, [2]]),
        (PurePosixPath("/a"), "/a"),
        (pydantic.SecretStr("secret"), "**********"),
        (pydantic.TypeAdapter(pydantic.AnyUrl).validate_python("https://a.example/"), "https://a.example/"),
        ([Model(x=1)], [{"x": 1, "name": "a"}]),
        (memoryview(b"ab"), "YWI="),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_with_a_json_form(value: Any, written: Any) -> None:
    assert loads(dumps(to_json(value))) == written


@rows(
    "value",
    [object(), {"a": object()}, Colour, {None: 1}, {(1, 2): 3}, 1j, (n for n in ()), ipaddress.ip_address("::1")],
    ids=lambda value: type(value).__name__,
)
def test_values_without_a_json_form(value: Any) -> None:
    with pytest.raises(EncodeError):
        to_json(value)


def test_a_circular_value_has_no_json_form() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(EncodeError):
        to_json(circle)


@rows("number", [2**63, -(2**63) - 1, 2**64, 12345678901234567890123, 10**4299], ids=int.bit_length)
def test_integers_of_any_width(number: int) -> None:
    assert json_of(str(number)) == number
    assert type(json_of(f"[{number}]")[0]) is int
    assert to_json({"a": [number, {number}]}) == {"a": [number, [number]]}
    assert dumps([number]) == b"[%d]" % number


def test_an_integer_that_python_does_not_convert_stays_text() -> None:
    assert json_of("9" * 4301) == "9" * 4301
