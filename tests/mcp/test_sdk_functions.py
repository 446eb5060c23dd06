"""The same functions as tools of the SDK's server and of this one: the results, and the differences by name."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, NotRequired

import pydantic
import pytest
from typing_extensions import TypedDict

from jsonrpc_fast import mcp
from jsonrpc_fast.mcp.server import Server

sdk = pytest.importorskip("mcp.server.mcpserver", reason="the SDK is not installed, or is older than 2")
sdk_client = pytest.importorskip("mcp").Client

pytestmark = pytest.mark.usefixtures("quiet")


class Address(pydantic.BaseModel):
    street: str
    city: str = pydantic.Field(description="the city")
    code: str | None = None


class User(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=1)
    address: Address
    tags: list[str] = []
    born: date | None = None


@dataclass
class Point:
    x: float
    y: float = 0.0


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


def weather(city: str, unit: Literal["c", "f"] = "c") -> dict[str, float]:
    return {city + unit: 1.5}


def keep_user(user: User) -> User:
    return user


def users(count: Annotated[int, pydantic.Field(ge=0, le=3, description="how many")]) -> list[User]:
    return [User(name="a", address=Address(street="s", city="c")) for _ in range(count)]


def keep_point(point: Point) -> Point:
    return point


def keep_movie(movie: Movie) -> Movie:
    return movie


def optional(x: int | None = None) -> int | None:
    return x


def either(x: int | str) -> int | str:
    return x


def words(count: int) -> list[str]:
    return ["a"] * count


def pair() -> tuple[int, str]:
    return 1, "a"


def anything() -> dict[str, Any]:
    return {"a": [1, {"b": None}]}


def fail(x: int) -> int:
    raise ValueError("SECRET")


USER = {"name": "n", "address": {"street": "s", "city": "c"}, "born": "2000-01-01"}
SAME: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    *[(add, arguments) for arguments in ({"a": 1}, {"a": 1, "b": 5}, {"a": "x"}, {"a": 1.0}, {"a": 1.5}, {})],
    *[(add, {"a": a}) for a in ("1", " 2 ", "1.0", "1.5", "", "SECRET", "true", [1])],
    *[(optional, {"x": x}) for x in ("3", "null", "[3]")],
    *[(keep_point, {"point": {"x": x}}) for x in ("1", "x")],
    *[(weather, arguments) for arguments in ({"city": "x"}, {"city": "x", "unit": "f"}, {"city": "x", "unit": "k"})],
    *[(keep_user, {"user": user}) for user in (USER, {**USER, "name": ""}, {"name": "a"}, "x", '{"name": "a"}')],
    (keep_user, {"user": '{"name": "n", "address": {"street": "s", "city": "c"}}'}),
    *[(users, {"count": count}) for count in (0, 2, 5, -1)],
    *[(keep_point, {"point": point}) for point in ({"x": 1}, {"x": 1, "y": 2.5}, {"y": 1})],
    *[(keep_movie, {"movie": movie}) for movie in ({"title": "t"}, {"title": "t", "year": 1}, {"year": 1})],
    *[(optional, arguments) for arguments in ({}, {"x": None}, {"x": 3}, {"x": "a"})],
    *[(either, {"x": x}) for x in (1, "a", [])],
    *[(words, {"count": 2}), (words, {}), (pair, {}), (anything, {}), (fail, {"x": 1})],
]
FUNCTIONS = list(dict.fromkeys(function for function, _ in SAME))


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Drop the log messages about failures."""
    caplog.set_level(logging.CRITICAL)


@asynccontextmanager
async def both() -> AsyncIterator[tuple[Any, Any]]:
    """Yield a client of the SDK's server, and one of this package's."""
    theirs, ours = sdk.MCPServer("test"), Server("test", "1")
    for function in FUNCTIONS:
        theirs.tool()(function)
        ours.tool()(function)
    async with sdk_client(theirs) as their_client, mcp.connect(ours.in_process(), mode="legacy") as our_client:
        yield their_client, our_client


async def test_results() -> None:
    async with both() as (theirs, ours):
        for function, arguments in SAME:
            expected = await theirs.call_tool(function.__name__, arguments)
            result = await ours.call_tool(function.__name__, arguments)
            found = result.get("structuredContent"), result.get("isError", False)
            assert found == (expected.structured_content, bool(expected.is_error)), (function.__name__, arguments)
            assert "SECRET" not in str(result)


async def test_schemas() -> None:
    async with both() as (theirs, ours):
        expected = {tool.name: tool.model_dump(by_alias=True) for tool in (await theirs.list_tools()).tools}
        tools = {tool["name"]: tool for tool in await ours.list_tools()}
        assert tools.keys() == expected.keys()
        for name, tool in tools.items():
            for kind in ("inputSchema", "outputSchema"):
                schema, model = tool[kind], expected[name][kind]
                assert schema["type"] == model["type"] == "object"
                assert schema.get("properties", {}).keys() == model.get("properties", {}).keys()
                if kind == "inputSchema":
                    assert set(schema.get("required", ())) == set(model.get("required", ()))
        assert tools["add"]["description"] == expected["add"]["description"] == "Add."
        assert tools["users"]["inputSchema"]["properties"]["count"]["description"] == "how many"


async def test_differences() -> None:
    async with both() as (theirs, ours):
        arguments = {"a": 1, "other": 1}
        assert (await theirs.call_tool("add", arguments)).structured_content == {"result": 3}
        assert (await ours.call_tool("add", arguments))["isError"] is True
        blocks = (await theirs.call_tool("words", {"count": 2})).content
        assert [block.text for block in blocks] == ["a", "a"]
        assert (await ours.call_tool("words", {"count": 2}))["content"] == [{"type": "text", "text": '["a","a"]'}]
