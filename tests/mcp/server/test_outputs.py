"""Structured content: schemas from annotations, wrapped values, checks of what tools returned."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, TypeVar, Union
from uuid import UUID

import msgspec
import pydantic
import pytest
from typing_extensions import TypedDict

from jsonrpc_fast.errors import EncodeError
from jsonrpc_fast.mcp.protocol.definitions import Tool
from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS
from jsonrpc_fast.mcp.server import Image, Server, ToolResult, WholeResult
from jsonrpc_fast.mcp.server.functions import RegisteredFunction
from jsonrpc_fast.mcp.server.tools import WRAPPED, OutputType, output_type

from ...support.mcp_conversation import converse
from ...support.mcp_schemas import schema_of
from ...support.tables import rows

T = TypeVar("T")


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Reading(msgspec.Struct, rename="camel"):
    sensor_id: str
    level: Annotated[float, msgspec.Meta(ge=0)]


class City(pydantic.BaseModel):
    """A city."""

    name: str = pydantic.Field(alias="cityName", description="in English")
    people: int = pydantic.Field(default=0, ge=0)
    founded: datetime | None = None

    model_config = pydantic.ConfigDict(populate_by_name=True)


class Capital(City):
    country: str


class Node(pydantic.BaseModel):
    inner: Optional[Node] = None  # noqa: UP045


class Pair(NamedTuple):
    left: int
    right: str


class Even(pydantic.RootModel[int]):
    @pydantic.field_validator("root")
    @classmethod
    def check(cls, root: int) -> int:
        if root % 2:
            raise ValueError(f"SECRET {root}")
        return root


@dataclass
class Circle:
    radius: float


class Colour(enum.Enum):
    RED = "red"


def known(annotation: Any) -> OutputType:
    output = output_type(annotation)
    assert output is not None
    return output


POINT = {
    "title": "Point",
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
}


def wrapped(schema: dict[str, Any], **definitions: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {"type": "object", "properties": {"result": schema}, "required": ["result"], WRAPPED: True}
    return {**whole, "$defs": definitions} if definitions else whole


@rows(
    ("annotation", "schema"),
    [
        (Point, POINT),
        (
            Movie,
            {
                "title": "Movie",
                "type": "object",
                "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
                "required": ["title"],
            },
        ),
        (
            Reading,
            {
                "title": "Reading",
                "type": "object",
                "properties": {"sensorId": {"type": "string"}, "level": {"type": "number", "minimum": 0}},
                "required": ["sensorId", "level"],
            },
        ),
        (
            City,
            {
                "title": "City",
                "description": "A city.",
                "type": "object",
                "properties": {
                    "cityName": {"title": "Cityname", "type": "string", "description": "in English"},
                    "people": {"title": "People", "type": "integer", "minimum": 0, "default": 0},
                    "founded": {"title": "Founded", "anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                },
                "required": ["cityName"],
            },
        ),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (dict, {"type": "object"}),
        (int, wrapped({"type": "integer"})),
        (str, wrapped({"type": "string"})),
        (bool, wrapped({"type": "boolean"})),
        (list[int], wrapped({"type": "array", "items": {"type": "integer"}})),
        (list[Point], wrapped({"type": "array", "items": {"$ref": "#/$defs/Point"}}, Point=POINT)),
        (Optional[int], wrapped({"anyOf": [{"type": "integer"}, {"type": "null"}]})),  # noqa: UP045
        (Point | None, wrapped({"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]}, Point=POINT)),
        (Literal["a", "b"], wrapped({"type": "string", "enum": ["a", "b"]})),
        (Colour, wrapped({"type": "string", "title": "Colour", "enum": ["red"]})),
        (UUID, wrapped({"type": "string", "format": "uuid"})),
        (Decimal, wrapped({"type": "string", "format": "decimal"})),
        (Awaitable[int], wrapped({"type": "integer"})),
        (Annotated[int, msgspec.Meta(ge=1)], wrapped({"type": "integer", "minimum": 1})),
        (Annotated[int, pydantic.Field(ge=1)], wrapped({"type": "integer", "minimum": 1})),
        (Annotated[ToolResult, Point], POINT),
        (Union[Point, WholeResult], POINT),  # noqa: UP007
    ],
    ids=repr,
)
def test_the_schema_of_an_annotation(annotation: Any, schema: dict[str, Any]) -> None:
    assert known(annotation).schema == schema


@rows(
    "annotation",
    [
        *(Any, None, object, T, list, tuple, list[Any], Sequence[Any], ToolResult, WholeResult, Image, PurePath),
        *(list[str | Image], Image | None, str | ToolResult, tuple[str, Image]),
    ],
    ids=repr,
)
def test_annotations_without_a_schema(annotation: Any) -> None:
    assert output_type(annotation) is None
    with pytest.raises(TypeError, match=r"^(structured output needs|the result has no schema)"):
        output_type(annotation, is_required=True)


def test_a_union_of_dataclasses() -> None:
    schema = known(Point | Circle).schema
    assert schema["properties"] == {"result": {"anyOf": [{"$ref": "#/$defs/Point"}, {"$ref": "#/$defs/Circle"}]}}
    assert [*schema["$defs"]] == ["Circle", "Point"]
    function = RegisteredFunction(_area)
    assert function.convert({"shape": {"radius": 2}}) == {"shape": Circle(2.0)}
    assert function.convert({"shape": {"x": 2}}) == {"shape": Point(2)}


def _area(shape: Point | Circle) -> float:
    return 0.0


def test_a_root_that_refers_to_itself() -> None:
    for annotation, name in ((Tree, "Tree"), (Node, "Node")):
        schema = known(annotation).schema
        assert schema["type"] == "object"
        assert "$ref" not in schema
        assert list(schema["$defs"]) == [name]


@rows(
    ("annotation", "value", "text", "structured"),
    [
        (Point, Point(1), '{"x":1,"y":0}', {"x": 1, "y": 0}),
        (Point, {"x": 1}, '{"x":1}', {"x": 1}),
        (Movie, {"title": "M"}, '{"title":"M"}', {"title": "M"}),
        (Reading, Reading("a", 0.5), '{"sensorId":"a","level":0.5}', {"sensorId": "a", "level": 0.5}),
        (
            City,
            City(name="Bern"),
            '{"cityName":"Bern","people":0,"founded":null}',
            {"cityName": "Bern", "people": 0, "founded": None},
        ),
        (
            City,
            {"name": "Bern", "founded": datetime(1191, 1, 1)},
            '{"cityName":"Bern","people":0,"founded":"1191-01-01T00:00:00"}',
            {"cityName": "Bern", "people": 0, "founded": "1191-01-01T00:00:00"},
        ),
        (
            City,
            Capital(name="Bern", country="CH"),
            '{"cityName":"Bern","people":0,"founded":null,"country":"CH"}',
            {"cityName": "Bern", "people": 0, "founded": None, "country": "CH"},
        ),
        (list[Point], [Point(1)], '[{"x":1,"y":0}]', {"result": [{"x": 1, "y": 0}]}),
        (
            list[City],
            [City(name="Bern")],
            '[{"cityName":"Bern","people":0,"founded":null}]',
            {"result": [{"cityName": "Bern", "people": 0, "founded": None}]},
        ),
        (Point | Circle, Circle(2.5), '{"radius":2.5}', {"result": {"radius": 2.5}}),
        (str, "Grüße", "Grüße", {"result": "Grüße"}),
        (int, 3, "3", {"result": 3}),
        (int, True, "true", None),
        (float, 2.5, "2.5", {"result": 2.5}),
        (float, 2, "2", {"result": 2}),
        (bool, False, "false", {"result": False}),
        (int, 1.0, "1.0", {"result": 1.0}),
        (Optional[int], None, "null", {"result": None}),  # noqa: UP045
        (Pair, Pair(1, "a"), '[1,"a"]', {"result": (1, "a")}),
        (Decimal, Decimal("1.50"), "1.50", {"result": "1.50"}),
        (datetime, datetime(2026, 7, 28), "2026-07-28T00:00:00", {"result": "2026-07-28T00:00:00"}),
    ],
    ids=repr,
)
def test_the_structured_content_of_a_value(annotation: Any, value: Any, text: str, structured: Any) -> None:
    written, content, faults = known(annotation).structure(value)
    assert written == text
    if structured is None:
        assert [fault.path for fault in faults] == ["/result"]
    else:
        assert (content, faults) == (structured, [])


@rows(
    ("annotation", "value", "path", "message"),
    [
        (Point, Point("SECRET"), "/x", 'is not of type "integer"'),  # type: ignore[arg-type]
        (Point, {"y": 1}, "/x", "is required"),
        (Point, None, "", "is missing"),
        (list[int], [1, "SECRET"], "/result/1", 'is not of type "integer"'),
        (Reading, Reading("a", -1), "/level", "is less than the minimum of 0"),
        (City, City.model_construct(name="Bern", people="SECRET"), "/people", 'is not of type "integer"'),
        (City, {"people": 1}, "/cityName", "is required"),
        (Even, 3, "", "does not match the type"),
        (Annotated[int, msgspec.Meta(ge=1)], 0, "/result", "is less than the minimum of 1"),
    ],
    ids=repr,
)
def test_a_fault_names_the_place_and_shows_no_value(annotation: Any, value: Any, path: str, message: str) -> None:
    _, _, faults = known(annotation).structure(value)
    assert [(fault.path, fault.message) for fault in faults] == [(path, message)]


def test_a_value_without_a_json_form() -> None:
    for annotation in (Point, City, int, dict[str, Any]):
        with pytest.raises(EncodeError):
            known(annotation).structure(object())


async def test_a_tool_with_structured_output() -> None:
    server = Server("test", "1")

    @server.tool
    def move(point: Point) -> Point:
        return Point(point.x + 1, point.y)

    @server.tool(structured_output=False)
    def plain(point: Point) -> Point:
        return point

    @server.tool
    def whole(is_valid: bool) -> Annotated[ToolResult, Movie]:
        return ToolResult(["see below"], {"title": "M"} if is_valid else {"year": 1}, meta={"example.com/a": 1})

    for version in RELEASED_VERSIONS:
        async with converse(server, version) as client:
            tools = {tool["name"]: tool for tool in (await client.result("tools/list"))["tools"]}
            is_known = version >= "2025-06-18"
            assert tools["move"].get("outputSchema") == (POINT if is_known else None)
            assert "outputSchema" not in tools["plain"]
            result = await client.result("tools/call", {"name": "move", "arguments": {"point": {"x": 1}}})
            assert result["content"] == [{"type": "text", "text": '{"x":2,"y":0}'}]
            assert result.get("structuredContent") == ({"x": 2, "y": 0} if is_known else None)
            result = await client.result("tools/call", {"name": "plain", "arguments": {"point": {"x": 1}}})
            assert result["content"] == [{"type": "text", "text": '{"x":1,"y":0}'}]
            assert "structuredContent" not in result
            result = await client.result("tools/call", {"name": "whole", "arguments": {"is_valid": True}})
            assert result["content"] == [{"type": "text", "text": "see below"}]
            assert result["_meta"]["example.com/a"] == 1
            result = await client.result("tools/call", {"name": "whole", "arguments": {"is_valid": False}})
            assert result["isError"] is True
            assert result["content"][0]["text"].endswith("output schema:\n/title: is required")


def test_structured_output_that_is_required() -> None:
    server = Server("test", "1")

    def silent() -> Any: ...

    def unknown() -> Path: ...

    with pytest.raises(TypeError, match="structured output needs an annotated result"):
        server.tool(structured_output=True)(silent)
    with pytest.raises(TypeError, match="the result has no schema"):
        server.tool(structured_output=True)(unknown)
    server.tool(silent)
    assert server.tools["silent"].checked.tool.output_schema is msgspec.UNSET


@rows("version", RELEASED_VERSIONS)
@rows("annotation", [Point, Movie, Reading, City, Tree, Node, list[Point], str, Pair], ids=repr)
@pytest.mark.ci
def test_definitions_match_the_official_schemas(corpora: Path, version: str, annotation: Any) -> None:
    tool = Tool(name="x", input_schema={"type": "object"}, output_schema=known(annotation).schema)
    schema_of(corpora, version, "Tool").validate(tool.to_dict(version))
