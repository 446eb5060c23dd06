"""The schemas of annotated functions pass the published rules of models' APIs and hosts."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict

import msgspec
import pytest

pytest.importorskip("pydantic", reason="pydantic is not installed")

import pydantic

from jsonrpc_fast.mcp.protocol.schemas import Schema
from jsonrpc_fast.mcp.server import Server

from ...support.mcp_conversation import converse
from ...support.tables import rows
from ...support.tool_rules import faults


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"
    AMBER = "amber"


class Size(enum.IntEnum):
    LARGE = 3
    SMALL = 1


class Word(enum.StrEnum):
    YES = "yes"
    NO = "no"


@dataclass
class Address:
    street: str
    city: str = "Bern"


@dataclass
class Person:
    """A person."""

    name: str
    home: Address
    colour: Colour = Colour.RED
    others: list[Address] = field(default_factory=list)


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


@dataclass
class Chain:
    following: Chain | None = None
    home: Address | None = None


class Options(TypedDict, total=False):
    deep: bool
    colour: Colour


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Circle(msgspec.Struct, tag="circle"):
    radius: float


class Square(msgspec.Struct, tag="square"):
    side: float
    at: Point | None = None


class Model(pydantic.BaseModel):
    name: str
    colour: Colour = Colour.BLUE
    kind: Literal["b", "a"] = "b"
    part: Inner | None = None


class Inner(pydantic.BaseModel):
    size: Annotated[int, pydantic.Field(ge=0)] = 1


class Node(pydantic.BaseModel):
    value: int
    children: list[Node] = pydantic.Field(default_factory=list)


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    name: str


Model.model_rebuild()


class Pair(NamedTuple):
    first: int
    second: str


Id = NewType("Id", str)
TYPES: list[Any] = [
    *(str, int, float, bool, bytes, decimal.Decimal, uuid.UUID, Id),
    *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta),
    *(list, dict, tuple, Any, list[int], list[Any], set[str], frozenset[int], Sequence[str], Mapping[str, int]),
    *(tuple[int, str], tuple[int, ...], tuple[int, int], list[tuple[str, int]], Pair),
    *(int | None, int | str, int | str | None, list[str | None], dict[str, list[int]]),
    *(
        Literal["b", "a"],
        Literal[2, 1],
        Literal["x", 1],
        Literal["x"] | None,
        Literal["b", "a"] | None,
        Literal[True],
    ),
    *(Colour, Size, Word, Colour | None, list[Colour], dict[Colour, int], dict[Word, Address], set[Word]),
    *(Address, Person, list[Person], Person | None, dict[str, Person], Tree, Tree | None, Chain, Options),
    *(Point, Circle | Square, list[Circle | Square], Point | None),
    *(Model, list[Model], Node, Cat | Dog, Inner | None, dict[Colour, Inner]),
    *(Annotated[int, msgspec.Meta(ge=1, le=5, description="how many")], Annotated[str, msgspec.Meta(pattern="^a")]),
    Annotated[list[int], msgspec.Meta(min_length=1, max_length=3)],
    Annotated[Cat | Dog, pydantic.Field(discriminator="kind")],
]


def test_the_corpus_is_large_enough() -> None:
    assert len(TYPES) >= 60


def tool_of(annotation: Any, server: Server) -> None:
    def f(value: Any, other: Any = None) -> str:
        return "done"

    f.__annotations__ = {"value": annotation, "other": annotation | None, "return": annotation}
    server.tool(name="f")(f)


@rows("annotation", TYPES, ids=str)
@pytest.mark.ci
async def test_a_schema_passes_the_rules_of_models_and_hosts(annotation: Any) -> None:
    server = Server("t", "1")
    tool_of(annotation, server)
    async with converse(server, "2025-11-25") as client:
        [tool] = (await client.result("tools/list"))["tools"]
    assert faults(tool["inputSchema"]) == []
    Schema(tool["inputSchema"])
    output = tool.get("outputSchema", {"type": "object", "properties": {}})
    assert [fault for fault in faults({"properties": {}, **output}) if "x-fastmcp" not in fault] == []


async def test_references_stay_where_the_server_wants_them() -> None:
    server = Server("t", "1", inline_schemas=False)
    tool_of(Person, server)
    async with converse(server, "2025-11-25") as client:
        [tool] = (await client.result("tools/list"))["tools"]
    assert tool["inputSchema"]["properties"]["value"] == {"$ref": "#/$defs/Person"}
    assert [*tool["inputSchema"]["$defs"]] == ["Person", "Address", "Colour"]


async def test_everything_is_in_the_order_of_its_definition() -> None:
    server = Server("t", "1")

    @dataclass
    class Form:
        word: Word
        size: Literal["large", "small"]
        alpha: str = ""

    @server.tool
    def zebra(colour: Colour, kind: Literal["b", "a"], size: Size, model: Model, a: Form) -> Form:
        return a

    @server.tool
    def ant() -> None: ...

    server.prompt("z")(lambda: "x")
    server.prompt("b")(lambda: "x")
    async with converse(server, "2025-11-25") as client:
        tools = (await client.result("tools/list"))["tools"]
        assert [tool["name"] for tool in tools] == ["zebra", "ant"]
        assert [prompt["name"] for prompt in (await client.result("prompts/list"))["prompts"]] == ["z", "b"]
    members = tools[0]["inputSchema"]["properties"]
    assert [*members] == ["colour", "kind", "size", "model", "a"]
    assert members["colour"]["enum"] == ["red", "blue", "amber"]
    assert members["kind"] == {"type": "string", "enum": ["b", "a"]}
    assert (members["size"]["type"], members["size"]["enum"]) == ("integer", [3, 1])
    assert members["model"]["properties"]["kind"]["enum"] == ["b", "a"]
    assert members["model"]["properties"]["colour"]["enum"] == ["red", "blue", "amber"]
    assert [*members["a"]["properties"]] == ["word", "size", "alpha"]
    assert members["a"]["properties"]["word"]["enum"] == ["yes", "no"]
    assert tools[0]["outputSchema"]["properties"]["size"]["enum"] == ["large", "small"]
