"""Annotated types: schema and conversion agree, in both directions."""

from __future__ import annotations

import enum
import json
import subprocess
import sys
import types
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from inspect import Parameter
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import annotated_types
import msgspec
import pydantic
import pytest
from pydantic import BaseModel, Field

from jsonrpc_fast.codec._json import dumps, loads
from jsonrpc_fast.handlers import to_json
from jsonrpc_fast.handlers.params import Arguments, MsgspecType, PydanticType, type_of
from jsonrpc_fast.handlers.schemas import arguments_schema
from jsonrpc_fast.mcp.protocol.schemas import Schema
from jsonrpc_fast.mcp.server.server import Server

from ...support.mcp_conversation import converse
from ...support.tables import rows


def schema_of(**annotations: Any) -> dict[str, Any]:
    """Return the schema of required arguments."""
    parameters = {name: Parameter(name, Parameter.KEYWORD_ONLY, annotation=of) for name, of in annotations.items()}
    return arguments_schema(Arguments(parameters))


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Point:
    x: int
    tags: set[str] = field(default_factory=set)


class Struct(msgspec.Struct):
    x: int
    when: date


class Typed(TypedDict):
    x: int


class Named(NamedTuple):
    x: int
    y: str


class Model(BaseModel):
    x: int = Field(ge=1, le=5)
    name: str = "a"


class Strict(BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    when: date
    tags: tuple[str, ...] = ()


Small = NewType("Small", Annotated[int, annotated_types.Ge(1), annotated_types.Le(5)])
Item = TypeVar("Item")


@dataclass
class Box(Generic[Item]):
    item: Item


@dataclass
class Bounded:
    x: Annotated[int, annotated_types.Ge(1)]


@dataclass
class BoundedByField:
    x: Annotated[int, Field(ge=1)]


@dataclass
class WithDefaults:
    x: int
    y: int = 0


@dataclass
class Nested(WithDefaults):
    inner: list[WithDefaults] = field(default_factory=list)
    name: str = "a"


def test_a_decoded_dataclass_is_written_with_its_defaults() -> None:
    converted = type_of(Nested).convert({"x": 1, "inner": [{"x": 2}]}, strict=True)
    assert to_json(converted) == {"x": 1, "y": 0, "inner": [{"x": 2, "y": 0}], "name": "a"}


def both(annotation: Any, value: Any) -> tuple[bool, bool]:
    """Whether a value matches the schema, and whether it converts."""
    of = type_of(annotation)
    schema = Schema(schema_of(a=annotation))
    try:
        of.convert(value, strict=True)
    except ValueError:
        return schema.faults({"a": value}) == [], False
    return schema.faults({"a": value}) == [], True


BOUNDED = [
    Annotated[int, msgspec.Meta(ge=1, le=5)],
    Annotated[int, Field(ge=1, le=5)],
    Annotated[int, annotated_types.Ge(1), annotated_types.Le(5)],
    Annotated[int, annotated_types.Interval(gt=0, lt=6)],
    Annotated[Annotated[int, annotated_types.Ge(1)], Field(le=5)],
    Annotated[int, Field(gt=0), annotated_types.Lt(6)],
    pydantic.conint(ge=1, le=5),
    Small,
]


@rows("annotation", BOUNDED, ids=str)
@rows("wrap", [None, list, dict, "union", "nested", Box], ids=str)
@pytest.mark.ci
def test_constraints_apply_to_schema_and_conversion(annotation: Any, wrap: Any) -> None:
    annotated: Any
    annotated, around = {
        None: (annotation, lambda value: value),
        list: (list[annotation], lambda value: [value]),
        dict: (dict[str, annotation], lambda value: {"k": value}),
        "union": (annotation | None if hasattr(annotation, "__or__") else annotation, lambda value: value),
        "nested": (list[tuple[str, annotation]], lambda value: [["k", value]]),
        Box: (Box[annotation], lambda value: {"item": value}),
    }[wrap]
    if wrap is Box and type_of(annotation).__class__ is MsgspecType and annotation is not BOUNDED[0]:
        annotated = list[annotation]  # inside a class they are refused: see below
        around = lambda value: [value]  # noqa: E731
    for value in (1, 5):
        assert both(annotated, around(value)) == (True, True)
    for value in (0, 6, 99, "1"):
        schema_fits, fits = both(annotated, around(value))
        assert schema_fits is False
        # pydantic converts a string to a number, but the schema refuses it first.
        assert fits is False or value == "1"


@rows(
    ("annotation", "valid", "invalid"),
    [
        (Annotated[str, Field(min_length=2, max_length=3, pattern="^a")], ["ab", "abc"], ["a", "abcd", "bbb"]),
        (Annotated[str, annotated_types.Len(2, 3)], ["ab", "abc"], ["a", "abcd"]),
        (Annotated[list[int], annotated_types.MinLen(1)], [[1]], [[], ["a"]]),
        (Annotated[list[int], Field(max_length=1)], [[], [1]], [[1, 2]]),
        (Annotated[float, Field(multiple_of=0.5)], [1, 1.5], [1.2]),
        (Annotated[int, annotated_types.MultipleOf(3)], [3, 9], [4]),
        (pydantic.PositiveInt, [1], [0]),
        (pydantic.constr(min_length=2), ["ab"], ["a"]),
        (Model, [{"x": 1}, {"x": 5, "name": "b"}], [{"x": 9}, {}, {"x": 1, "name": 2}]),
        (list[Model], [[{"x": 1}]], [[{"x": 9}]]),
        (Strict, [{"when": "2026-07-28", "tags": ["a"]}], [{"when": "2026-13-01"}, {"when": 1}]),
        (BoundedByField, [{"x": 1}], [{"x": 0}]),
        (Literal[1, "a"], [1, "a"], [2, "b"]),
    ],
    ids=str,
)
def test_other_constraints(annotation: Any, valid: list[Any], invalid: list[Any]) -> None:
    for value in valid:
        assert both(annotation, value) == (True, True)
    for value in invalid:
        assert both(annotation, value)[0] is False or both(annotation, value)[1] is False


@rows(
    ("annotation", "text"),
    [
        (Bounded, "in a class has no effect"),
        (list[Bounded], "in a class has no effect"),
        (Annotated[int, annotated_types.Predicate(bool)], "is not supported"),
        (Annotated[datetime, annotated_types.Timezone(...)], "is not supported"),
        (Annotated[Decimal, annotated_types.Ge(1)], "numeric type"),
        (Annotated[int, msgspec.Meta(ge=1), Field(le=5)], "cannot be mixed"),
        (Annotated[Struct, Field(description="x")], "cannot be mixed"),
        (Annotated[object, Field(ge=1)] | Struct, "cannot be mixed"),
        (Annotated[types.ModuleType, Field()], "Unable to generate"),
        (types.ModuleType, "not supported"),
    ],
    ids=str,
)
def test_a_constraint_that_has_no_effect_is_refused(annotation: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        type_of(annotation)


async def test_defaults_and_descriptions_of_pydantic() -> None:
    server = Server("fields", "1")

    @server.tool
    def field_default(a: int = Field(3, ge=1, description="how many"), b: str = Field(description="what")) -> Any:
        return [a, b]

    @server.tool
    def made_default(a: Annotated[list[int], Field(default_factory=list)]) -> Any:
        a.append(1)
        return a

    @server.tool
    def plain_default(a: Annotated[int, Field(ge=1)] = 2, m: Model | None = None) -> Any:
        return [a, m]

    async with converse(server, "2026-07-28") as client:

        async def call(name: str, **arguments: Any) -> Any:
            result = await client.result("tools/call", {"name": name, "arguments": arguments})
            return result.get("structuredContent", result["content"][0]["text"])

        listed = {tool["name"]: tool["inputSchema"] for tool in (await client.result("tools/list"))["tools"]}
        assert listed["field_default"]["properties"] == {
            "a": {"type": "integer", "minimum": 1, "default": 3, "description": "how many"},
            "b": {"type": "string", "description": "what"},
        }
        assert listed["field_default"]["required"] == ["b"]
        assert listed["plain_default"]["required"] == []
        assert listed["plain_default"]["properties"]["a"] == {"type": "integer", "minimum": 1, "default": 2}
        assert "$defs" not in listed["plain_default"]
        assert await call("field_default", b="x") == [3, "x"]
        assert (await call("field_default", a=0, b="x")).startswith("Invalid arguments for tool field_default:\n/a")
        assert await call("field_default") == "Invalid arguments for tool field_default:\n/b: is required"
        assert [await call("made_default") for _ in range(2)] == [[1], [1]]
        assert await call("plain_default") == [2, None]
        assert await call("plain_default", m={"x": 3}) == [2, {"x": 3, "name": "a"}]
        assert (await call("plain_default", m={"x": 9})).startswith("Invalid arguments for tool plain_default:")


VALUES: list[tuple[Any, Any, Any]] = [
    (Colour, "red", Colour.RED),
    (Level, 1, Level.LOW),
    (Point, {"x": 1, "tags": ["a"]}, Point(1, {"a"})),
    (Struct, {"x": 1, "when": "2026-07-28"}, Struct(1, date(2026, 7, 28))),
    (Typed, {"x": 1}, {"x": 1}),
    (Named, [1, "a"], Named(1, "a")),
    (Decimal, "1.50", Decimal("1.50")),
    (set[int], [1], {1}),
    (frozenset[str], ["a"], frozenset("a")),
    (tuple[int, str], [1, "a"], (1, "a")),
    (bytes, "AP8=", b"\0\xff"),
    (uuid.UUID, "00000000-0000-0000-0000-000000000001", uuid.UUID(int=1)),
    (datetime, "2026-07-28T01:02:03Z", datetime(2026, 7, 28, 1, 2, 3, tzinfo=UTC)),
    (date, "2026-07-28", date(2026, 7, 28)),
    (timedelta, "P1D", timedelta(days=1)),
    (Model, {"x": 1, "name": "b"}, Model(x=1, name="b")),
    (dict[str, list[Point]], {"k": [{"x": 1, "tags": []}]}, {"k": [Point(1)]}),
    (dict[int, str], {"1": "a"}, {1: "a"}),
]


@rows(("annotation", "written", "value"), VALUES, ids=lambda value: str(value)[:40])
def test_converted_values_are_written_in_the_same_form(annotation: Any, written: Any, value: Any) -> None:
    of = type_of(annotation)
    assert of.convert(written, strict=True) == value
    assert loads(dumps(to_json(value))) == written
    assert Schema(schema_of(a=annotation)).faults({"a": written}) == []


@rows(
    ("annotation", "value", "expected"),
    [
        (int, 1.0, 1),
        (int, -0.0, 0),
        (int, 1e15, 10**15),
        (list[int], [1.0, 2], [1, 2]),
        (Point, {"x": 3.0}, Point(3)),
        (Level, 1.0, Level.LOW),
        (Literal[1, 2], 2.0, 2),
        (int | str, 1.0, 1),
        (Annotated[int, Field(ge=1)], 3.0, 3),
        (Model, {"x": 2.0}, Model(x=2)),
    ],
    ids=str,
)
def test_an_integral_number_is_an_integer(annotation: Any, value: Any, expected: Any) -> None:
    converted = type_of(annotation).convert(value, strict=True)
    assert converted == expected
    assert not isinstance(converted, float)
    assert both(annotation, value) == (True, True)


def test_a_fractional_number_is_not_an_integer() -> None:
    for value in (1.5, float("inf"), "1", True):
        with pytest.raises(ValueError, match='is not of type "integer"'):
            MsgspecType(int).convert(value, strict=True)
    assert type(MsgspecType(float).convert(1.0, strict=True)) is float
    assert type(MsgspecType(Any).convert(1.0, strict=True)) is float


def test_two_types_with_the_same_name() -> None:
    class Inner(BaseModel):
        x: int

    first, Other = Inner, type("Inner", (msgspec.Struct,), {"__annotations__": {"y": int}})
    with pytest.raises(TypeError, match="two types have the name Inner"):
        schema_of(a=first, b=Other)


def test_the_schema_of_a_tuple_has_no_false() -> None:
    """Some clients cannot read a schema that is false; `maxItems` means the same."""
    schema = schema_of(a=tuple[int, str], b=list[tuple[int]])
    assert schema["properties"] == {
        "a": {
            "type": "array",
            "minItems": 2,
            "maxItems": 2,
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        },
        "b": {
            "type": "array",
            "items": {
                "type": "array",
                "minItems": 1,
                "maxItems": 1,
                "prefixItems": [{"type": "integer"}],
                "items": {"type": "integer"},
            },
        },
    }
    assert [fault.path for fault in Schema(schema).faults({"a": [1, "a", 2], "b": [[1, 2]]})] == ["/a", "/b/0"]


@pytest.mark.ci
def test_pydantic_is_imported_only_for_its_own_types() -> None:
    script = """
import json, sys
from typing import Annotated
import msgspec
from jsonrpc_fast.mcp.server import Server
server = Server("plain", "1")
@server.tool
def add(a: Annotated[int, msgspec.Meta(ge=1)], b: dict[str, list[int]] | None = None) -> dict[str, int]: ...
print(json.dumps(sorted(name for name in sys.modules if name.partition(".")[0] in ("pydantic", "annotated_types"))))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(ran.stdout) == []


def test_the_kind_of_an_annotation() -> None:
    assert isinstance(type_of(int), MsgspecType)
    assert isinstance(type_of(Annotated[int, annotated_types.Ge(1)]), MsgspecType)
    for annotation in (Model, list[Model | None], Annotated[int, Field()], BoundedByField):
        assert isinstance(type_of(annotation), PydanticType)
