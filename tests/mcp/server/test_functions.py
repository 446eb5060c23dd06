"""Signatures of registered functions: schemas, conversion of arguments, unsupported ones."""

from __future__ import annotations

import functools
import inspect
import sys
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest

from jsonrpc_fast.mcp.server.context import Context
from jsonrpc_fast.mcp.server.functions import RegisteredFunction

from ...support.tables import rows

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
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
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
    assert function.invoke(function.convert({}), NO_CONTEXT) == "pong"


def test_arguments_are_converted_to_the_annotated_types() -> None:
    def at(point: Point, day: date, count: int = 1) -> tuple[Any, ...]:
        return point, day, count

    function = RegisteredFunction(at)
    converted = function.convert({"point": {"x": 1}, "day": "2026-07-28"})
    assert function.invoke(converted, NO_CONTEXT) == (Point(1, 0), date(2026, 7, 28), 1)
    texts = function.convert({"point": {"x": "1"}, "day": "2026-07-28", "count": "3"}, strict=False)
    assert function.invoke(texts, NO_CONTEXT) == (Point(1, 0), date(2026, 7, 28), 3)


@rows(
    ("arguments", "text"),
    [
        ({}, "/point: is required; /day: is required"),
        ({"point": {"x": 1}, "day": "2026-07-28", "secret": 1}, "/: has an unknown member"),
        ({"point": {"x": "secret"}, "day": "2026-07-28"}, '/point/x: is not of type "integer"'),
        ({"point": {"x": 1}, "day": "secret"}, "/day: Invalid RFC3339 encoded date"),
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
    assert function.invoke({"name": "a"}, context) == ("a", context)
    with pytest.raises(ValueError, match=r"^/: has an unknown member$"):
        function.convert({"name": "a", "context": 1})


def test_a_second_context_is_refused() -> None:
    def twice(context: Context, other: Context | None = None) -> None: ...

    with pytest.raises(TypeError, match=r"^tool twice: context and other are both a Context$"):
        RegisteredFunction(twice, role="tool")


def test_arguments_without_conversion() -> None:
    def anything(**members: Any) -> dict[str, Any]:
        return members

    function = RegisteredFunction(anything, converts=False)
    assert function.invoke(function.convert({"a": "1", "b": [2]}), NO_CONTEXT) == {"a": "1", "b": [2]}


def test_a_bound_method_and_a_callable_object() -> None:
    class Adder:
        def add(self, a: int, b: int) -> int:
            return a + b

        def __call__(self, a: int) -> int:
            return a

    assert RegisteredFunction(Adder().add).invoke({"a": 1, "b": 2}, NO_CONTEXT) == 3
    assert RegisteredFunction(Adder().add).name == "add"
    called = RegisteredFunction(Adder())
    assert (called.invoke({"a": 1}, NO_CONTEXT), called.name, called.description) == (1, "Adder", None)


def test_unsupported_signatures_are_refused() -> None:
    def positional(a: int, /) -> None: ...
    def more(*values: int) -> None: ...
    def named(**values: int) -> None: ...

    unknown: dict[str, Any] = {}
    exec("from __future__ import annotations\ndef unknown(a: Nowhere): ...", unknown)
    for function in (positional, more, named):
        with pytest.raises(TypeError, match="must not be positional-only"):
            RegisteredFunction(function)
    with pytest.raises(TypeError, match="Nowhere"):
        RegisteredFunction(unknown["unknown"])
    with pytest.raises(TypeError, match="must be callable, not str"):
        RegisteredFunction("function")  # type: ignore[arg-type]


@dataclass
class Stay:
    start: datetime
    prices: dict[date, dict[str, UUID]]

    def __post_init__(self) -> None:
        if not self.prices:
            raise ValueError("SECRET - at `$[0].SECRET`")


@rows(
    ("value", "text"),
    [
        (
            [{"start": "2026-07-28T10:00:00", "prices": {"2026-07-28": {}}}, {"start": "SECRET"}],
            "/1/start: Invalid RFC3339 encoded datetime",
        ),
        ([{"start": "2026-07-28T10:00:00", "prices": {"SECRET": {}}}], "/0/prices: Invalid RFC3339 encoded date"),
        ([{"start": "2026-07-28T10:00:00", "prices": {"2026-07-28": {"SECRET": "SECRET"}}}], "/0/prices: Invalid UUID"),
        ([{"start": "2026-07-28T10:00:00", "prices": {}}], "/0: Invalid value"),
    ],
)
@rows("strict", [True, False])
def test_a_fault_inside_a_plain_type_names_its_place(value: Any, text: str, strict: bool) -> None:
    def book(stays: list[Stay]) -> None: ...

    with pytest.raises(ValueError, match=f"^/stays{text}$"):
        RegisteredFunction(book).convert({"stays": value}, strict=strict)


def test_an_annotation_may_be_a_name_of_the_function_around_it() -> None:
    def register() -> RegisteredFunction:
        from jsonrpc_fast.mcp.server import Context as Inner

        @dataclass
        class Place:
            name: str

        def find(place: Place, context: Inner) -> str:
            return place.name

        return RegisteredFunction(find, role="tool")

    function = register()
    assert list(function.parameters) == ["place"]
    assert function.invoke(function.convert({"place": {"name": "here"}}), NO_CONTEXT) == "here"


def test_a_name_of_a_function_that_is_not_around_it_is_not_defined() -> None:
    def other() -> Any:
        Place = str  # noqa: F841
        return RegisteredFunction(find)

    def find(place: Place) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TypeError, match=r"find: an annotation uses a name that is not defined: Place"):
        other()


def test_a_partial_keeps_annotations_context_name_and_docstring() -> None:
    def scale(value: int, factor: int, context: Context) -> int:
        """Scale a value."""
        return value * factor

    by_name = RegisteredFunction(functools.partial(functools.partial(scale), factor=3), role="tool")
    assert (by_name.name, by_name.description, by_name.returns) == ("scale", "Scale a value.", int)
    assert by_name.schema()["properties"] == {"value": {"type": "integer"}, "factor": {"type": "integer", "default": 3}}
    assert by_name.invoke({"value": 2}, NO_CONTEXT) == 6
    by_position = RegisteredFunction(functools.partial(scale, 2))
    assert list(by_position.parameters) == ["factor"]
    assert by_position.invoke({"factor": 5}, NO_CONTEXT) == 10


def test_a_class_is_a_function_that_returns_its_instances() -> None:
    function = RegisteredFunction(Point, role="tool")
    assert function.returns is Point
    assert function.schema()["properties"] == {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}}
    assert function.invoke(function.convert({"x": 1}), NO_CONTEXT) == Point(1)


def test_the_annotations_of_a_signature_that_a_decorator_has_made() -> None:
    def wrapper(**members: Any) -> Any: ...

    wrapper.__signature__ = inspect.signature(lambda a: None).replace(  # type: ignore[attr-defined]
        parameters=[inspect.Parameter("a", inspect.Parameter.KEYWORD_ONLY, annotation=int)]
    )
    assert RegisteredFunction(wrapper).schema()["properties"] == {"a": {"type": "integer"}}


@rows("annotation", ["int |", "str.no_such_name", "list[int", "1 / 0"])
def test_an_annotation_that_cannot_be_evaluated(annotation: str) -> None:
    def broken(value: Any) -> None: ...

    broken.__annotations__["value"] = annotation
    with pytest.raises(TypeError, match=r"^tool broken: an annotation cannot be evaluated: "):
        RegisteredFunction(broken, role="tool")


def test_parameters_that_cannot_be_passed() -> None:
    def context_first(context: Context, /, a: int) -> None: ...

    def by_position(a: int, /) -> None: ...

    with pytest.raises(TypeError, match=r"^tool context_first: parameter context must not be positional-only$"):
        RegisteredFunction(context_first, role="tool")
    with pytest.raises(TypeError, match=r"^tool by_position: parameter a must not be positional-only$"):
        RegisteredFunction(by_position, converts=False, role="tool")


def test_the_error_of_an_async_function_in_a_thread_names_it() -> None:
    async def slow() -> None: ...

    with pytest.raises(TypeError, match=r"^tool slow: an async function"):
        RegisteredFunction(slow, role="tool", thread=True)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs the type statement")
def test_an_alias_that_refers_to_itself() -> None:
    names: dict[str, Any] = {}
    exec("type Json = dict[str, Json] | list[Json] | int\ndef store(value: Json) -> Json: return value", names)
    function = RegisteredFunction(names["store"], role="tool")
    assert function.convert({"value": {"a": [1, {}]}}) == {"value": {"a": [1, {}]}}
    with pytest.raises(ValueError, match=r"^/value"):
        function.convert({"value": {"a": "text"}})
