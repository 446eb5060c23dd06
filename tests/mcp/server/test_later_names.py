"""Annotations that name a class which is defined below the function."""

from __future__ import annotations  # Python 3.14 behaves so without it (PEP 649)

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from jsonrpc_fast import mcp
from jsonrpc_fast.mcp.server import Server

above = Server("above", "1.0")


@above.tool()
def total(order: Order, tip: int = 1) -> Bill:
    """Add up."""
    return Bill(order.price + tip)


@above.tool(scopes=["write"])
def drop(order: Order) -> None: ...


@above.prompt()
def ask(order: Order) -> str:
    return f"Is {order.price} too much?"


@above.resource("orders://{number}")
def show(number: Number) -> str:
    return f"order {number + 1}"


@dataclass
class Order:
    price: int


@dataclass
class Bill:
    sum: int


Number = int


async def test_they_are_looked_up_at_the_first_use_of_the_server() -> None:
    assert above.may_need_scopes
    async with mcp.connect(above) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["total", "drop"]
        result: Any = await client.call_tool("total", {"order": {"price": 7}})
        assert result["structuredContent"] == {"sum": 8}
        assert result["content"][0]["text"] == '{"sum":8}'
        read: Any = await client.read_resource("orders://4")
        assert read["contents"][0]["text"] == "order 5"
    assert above.tool_scopes("drop") == {"write"}


def test_they_are_looked_up_at_the_next_decorator() -> None:
    server = Server("local", "1.0")

    @server.tool
    def first(place: Place) -> str:
        return place.name

    @dataclass
    class Place:  # a local class, which nobody can look up when this function has returned
        name: str

    @server.tool
    def second(place: Place) -> str:
        return place.name

    assert [*server.own("tools/list")] == ["first", "second"]


def test_the_scopes_of_such_a_tool_are_known_before_it_is_called() -> None:
    server = Server("scopes", "1.0")

    @server.tool(scopes=["admin"])
    def remove(place: Place) -> str:
        return place.name

    @dataclass
    class Place:
        name: str

    assert server.may_need_scopes
    assert server.tool_scopes("remove") == {"admin"}


USES: dict[str, Callable[[Server], Any]] = {
    "connection": mcp.connect,
    "capabilities": lambda server: server.capabilities(),
    "mount": lambda server: Server("outer", "1.0").mount(server),
    "own": lambda server: server.own("tools/list"),
    "tool_scopes": lambda server: server.tool_scopes("find"),
    "unregister": lambda server: server.unregister("tools", "find"),
}


@pytest.mark.parametrize("use", USES)
async def test_a_name_that_is_never_defined_is_an_error_of_the_first_use(use: str) -> None:
    server = Server("typo", "1.0")

    @server.tool()
    def find(place: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for _ in range(2):
        with pytest.raises(TypeError, match=r"^tool find: an annotation uses a name that is not defined: Nowhere$"):
            async with mcp.connect(server) if use == "connection" else USES[use](server):
                pass
