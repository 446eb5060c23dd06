"""Signatures of registered functions: schemas, conversion of arguments, unsupported ones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import msgspec
import pytest

from jsonrpc_fast.mcp.server.context import Context
from jsonrpc_fast.mcp.server.functions import RegisteredFunction

NO_CONTEXT: Any = None


@dataclass
class Point:
    x: int
    y: int = 0


def test_the_schema_of_a_signature() -> None:
    def plot(
        points: list[Point],
        colour: Literal["red", "blue"] = "red",
        width: Annotated[float, msgspec.Meta(description="in millimetres", ge=0)] = 1.0,
        labels: list[str] = [],  # noqa: B006
        *,
        note: Any = 0,
    ) -> None: ...

    assert RegisteredFunction(plot).schema() == {
        "type": "object",
        "properties": {
            "points": {"type": "array", "items": {"$ref": "#/$defs/Point"}},
            "colour": {"enum": ["blue", "red"], "default": "red"},
            "width": {"type": "number", "description": "in millimetres", "minimum": 0, "default": 1.0},
            "labels": {"type": "array", "items": {"type": "string"}},
            "note": {"default": 0},
        },
        "required": ["points"],
        "additionalProperties": False,
        "$defs": {
            "Point": {
                "title": "Point",
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
            }
        },
    }
    assert RegisteredFunction(plot).descriptions() == {"width": "in millimetres"}
    assert RegisteredFunction(plot).required == {"points"}


def test_a_function_without_arguments() -> None:
    def ping() -> str:
        """Answers."""
        return "pong"

    function = RegisteredFunction(ping)
    assert function.schema() == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    assert (function.name, function.description) == ("ping", "Answers.")
    assert function.call(function.convert({}), NO_CONTEXT) == "pong"


def test_arguments_are_converted_to_the_annotated_types() -> None:
    def at(point: Point, day: date, count: int = 1) -> tuple[Any, ...]:
        return point, day, count

    function = RegisteredFunction(at)
    converted = function.convert({"point": {"x": 1}, "day": "2026-07-28"})
    assert function.call(converted, NO_CONTEXT) == (Point(1, 0), date(2026, 7, 28), 1)
    texts = function.convert({"point": {"x": "1"}, "day": "2026-07-28", "count": "3"}, strict=False)
    assert function.call(texts, NO_CONTEXT) == (Point(1, 0), date(2026, 7, 28), 3)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "missing: point, day"),
        ({"point": {"x": 1}, "day": "2026-07-28", "secret": 1}, "unknown name; expected: point, day"),
        ({"point": {"x": "secret"}, "day": "2026-07-28"}, "wrong type: point"),
        ({"point": {"x": 1}, "day": "secret"}, "wrong type: day"),
    ],
)
def test_a_fault_names_the_argument_and_shows_no_value(arguments: dict[str, Any], text: str) -> None:
    def at(point: Point, day: date) -> None: ...

    with pytest.raises(ValueError, match=f"^{text}$") as raised:
        RegisteredFunction(at).convert(arguments)
    assert "secret" not in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_the_context_is_not_an_argument() -> None:
    def named(name: str, context: Context) -> tuple[str, Any]:
        return name, context

    function = RegisteredFunction(named)
    assert list(function.parameters) == ["name"]
    context: Any = object()
    assert function.call({"name": "a"}, context) == ("a", context)
    with pytest.raises(ValueError, match=r"^unknown name; expected: name$"):
        function.convert({"name": "a", "context": 1})


def test_arguments_without_conversion() -> None:
    def anything(**members: Any) -> dict[str, Any]:
        return members

    function = RegisteredFunction(anything, converts=False)
    assert function.call(function.convert({"a": "1", "b": [2]}), NO_CONTEXT) == {"a": "1", "b": [2]}


def test_a_bound_method_and_a_callable_object() -> None:
    class Adder:
        def add(self, a: int, b: int) -> int:
            return a + b

        def __call__(self, a: int) -> int:
            return a

    assert RegisteredFunction(Adder().add).call({"a": 1, "b": 2}, NO_CONTEXT) == 3
    assert RegisteredFunction(Adder().add).name == "add"
    called = RegisteredFunction(Adder())
    assert (called.call({"a": 1}, NO_CONTEXT), called.name, called.description) == (1, "Adder", None)


def test_unsupported_signatures_are_refused() -> None:
    def positional(a: int, /) -> None: ...
    def more(*values: int) -> None: ...
    def named(**values: int) -> None: ...

    unknown: dict[str, Any] = {}
    exec("from __future__ import annotations\ndef unknown(a: Nowhere): ...", unknown)
    for function in (positional, more, named):
        with pytest.raises(TypeError, match="it must be possible to pass"):
            RegisteredFunction(function)
    with pytest.raises(TypeError, match="Nowhere"):
        RegisteredFunction(unknown["unknown"])
    with pytest.raises(TypeError, match="must be callable, not str"):
        RegisteredFunction("function")  # type: ignore[arg-type]
