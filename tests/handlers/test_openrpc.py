"""OpenRPC documents of handlers, and the method `rpc.discover`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import pytest

msgspec = pytest.importorskip("msgspec", reason="the extra `typed` is not installed")

from jsonrpc_fast.codec._json import dumps  # noqa: E402
from jsonrpc_fast.errors import RpcError  # noqa: E402
from jsonrpc_fast.handlers import Handlers, RequestContext  # noqa: E402
from jsonrpc_fast.handlers.openrpc import openrpc  # noqa: E402

from ..support.openrpc import openrpc_faults  # noqa: E402
from ..support.tables import rows  # noqa: E402


@dataclass
class Item:
    name: str
    price: Annotated[float, msgspec.Meta(ge=0)]


ITEM = {
    "title": "Item",
    "type": "object",
    "properties": {"name": {"type": "string"}, "price": {"type": "number", "minimum": 0}},
    "required": ["name", "price"],
}
REFERENCE = {"$ref": "#/components/schemas/Item"}


def plain(a, b=2):  # type: ignore[no-untyped-def]
    return a


def typed(context: RequestContext, item: Item, count: int = 1) -> list[Item]:
    """Order an item.

    It is sent at once.

    Args:
        item: What to order.
    """
    return [item] * count


def positional(a: int, /) -> int:
    return a


def named(*, a: int) -> int:
    return a


def several(a: int, *rest: int, **more: int) -> int:
    return a


def odd(value: Callable[[], int]) -> Callable[[], int]:
    return value


async def later(item: Item) -> None:
    """Later."""


async def numbers() -> AsyncIterator[int]:
    yield 1


def result(schema: Any) -> dict[str, Any]:
    return {"name": "result", "schema": schema}


def param(name: str, required: bool, schema: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "required": required, "schema": schema, **more}


INTEGER = {"type": "integer"}


@rows(
    ("function", "options", "method"),
    [
        (
            plain,
            {},
            {
                "paramStructure": "either",
                "params": [param("a", True, {}), param("b", False, {"default": 2})],
                "result": result({}),
            },
        ),
        (
            typed,
            {"typed": True},
            {
                "paramStructure": "either",
                "params": [
                    param("item", True, REFERENCE, description="What to order."),
                    param("count", False, {"type": "integer", "default": 1}),
                ],
                "summary": "Order an item.",
                "description": "Order an item.\n\nIt is sent at once.",
                "result": result({"type": "array", "items": REFERENCE}),
            },
        ),
        (
            lambda item: None,
            {"params": Item},
            {
                "paramStructure": "by-name",
                "params": [
                    param("name", True, {"type": "string"}),
                    param("price", True, {"type": "number", "minimum": 0}),
                ],
                "result": result({}),
            },
        ),
        (lambda params: None, {"unpack": False}, {"paramStructure": "either", "params": [], "result": result({})}),
        (
            positional,
            {},
            {"paramStructure": "by-position", "params": [param("a", True, INTEGER)], "result": result(INTEGER)},
        ),
        (named, {}, {"paramStructure": "by-name", "params": [param("a", True, INTEGER)], "result": result(INTEGER)}),
        (several, {}, {"paramStructure": "either", "params": [param("a", True, INTEGER)], "result": result(INTEGER)}),
        (
            numbers,
            {},
            {"paramStructure": "either", "params": [], "result": result({"type": "array", "items": INTEGER})},
        ),
        (odd, {}, {"paramStructure": "either", "params": [param("value", True, {})], "result": result({})}),
        (
            later,
            {"timeout": 5},
            {
                "paramStructure": "either",
                "params": [param("item", True, REFERENCE)],
                "summary": "Later.",
                "result": result({"type": "null"}),
            },
        ),
        (
            lambda: None,
            {"errors": [RpcError(1, "Sold out", {"left": 0}), RpcError(2, "a \ud800 b", object())]},
            {
                "paramStructure": "either",
                "params": [],
                "result": result({}),
                "errors": [{"code": 1, "message": "Sold out", "data": {"left": 0}}, {"code": 2, "message": "a ? b"}],
            },
        ),
        (lambda: None, {"errors": []}, {"paramStructure": "either", "params": [], "result": result({})}),
    ],
)
def test_a_method(function: Callable[..., Any], options: Any, method: dict[str, Any]) -> None:
    handlers = Handlers()
    handlers.register("f", function, **options)
    document = openrpc(handlers, title="T", version="1")
    assert document["methods"] == [{"name": "f", **method}]
    if "Item" in json.dumps(document):
        assert document["components"] == {"schemas": {"Item": ITEM}}
    else:
        assert document == {"openrpc": "1.3.2", "info": {"title": "T", "version": "1"}, "methods": document["methods"]}


@rows("discover", [None, {"title": "T", "version": "1"}])
def test_documents_by_the_schema_of_the_specification(discover: Any) -> None:
    """The schema and its validator are by others."""
    handlers = Handlers(discover=discover)
    for function in (plain, typed, positional, named, several, odd, later, numbers):
        handlers.register(function.__name__, function)
    handlers.register("struct", lambda item: None, params=Item, errors=[RpcError(1, "Sold out", {"left": 0})])
    document = openrpc(handlers, title="T", version="1")
    assert openrpc_faults(document) == []
    document["methods"] = [{"name": "no params"}]
    [fault] = openrpc_faults(document)
    assert fault.startswith('[\'methods\', 0]: {"name":"no params"} is not valid')


def test_two_types_of_one_name() -> None:
    other = msgspec.defstruct("Item", [("x", int)])
    handlers = Handlers({"a": typed})
    handlers.register("b", lambda item: None, params=msgspec.defstruct("Holder", [("item", other)]))
    handlers.register("c", typed)
    document = openrpc(handlers, title="T", version="1")
    assert sorted(document["components"]["schemas"]) == ["Item", "Item_2"]
    assert [method["params"][0]["schema"] for method in document["methods"]] == [
        REFERENCE,
        {"$ref": "#/components/schemas/Item_2"},
        REFERENCE,
    ]


def test_a_model_whose_results_have_another_schema() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("M", d=(Decimal, ...))

    def f(m):  # type: ignore[no-untyped-def]
        return [m]

    f.__annotations__ = {"m": list[model], "return": list[model]}
    document = openrpc(Handlers({"f": f}), title="T", version="1")
    assert sorted(document["components"]["schemas"]) == ["M", "M_2"]


def unresolved(a: Nope) -> Nope:  # type: ignore[name-defined]  # noqa: F821
    return a


def surrogate(a: int) -> int:
    return a


surrogate.__doc__ = "a \ud800 b"


@rows(
    ("function", "schema"),
    [
        (lambda a=10**30: a, {"default": 10**30}),
        (lambda a=float("nan"): a, {}),
        (lambda a="\ud800": a, {}),
        (unresolved, {}),
        (surrogate, INTEGER),
    ],
)
def test_what_cannot_be_written_is_left_out(function: Callable[..., Any], schema: Any) -> None:
    document = openrpc(Handlers({"f": function}), title="T", version="1")
    assert document["methods"][0]["params"][0]["schema"] == schema
    assert json.loads(dumps(document)) == document


def test_what_can_only_be_named() -> None:
    document = openrpc(Handlers({"f": lambda a=1, /, *, c: c}), title="T", version="1")
    assert document["methods"][0]["paramStructure"] == "by-name"
    assert [each["name"] for each in document["methods"][0]["params"]] == ["c"]


def test_what_can_only_be_passed_by_position() -> None:
    document = openrpc(Handlers({"f": lambda a, /, b=2, *, c=1: c}), title="T", version="1")
    assert document["methods"][0]["paramStructure"] == "by-position"
    assert [each["name"] for each in document["methods"][0]["params"]] == ["a", "b"]


def test_discover() -> None:
    """The document includes what is registered later."""
    handlers = Handlers({"a": plain}, discover={"title": "T", "version": "1"})
    request = b'{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}'

    def names(found: Handlers) -> list[str]:
        described = json.loads(found.dispatch(request))["result"]
        assert described["info"] == {"title": "T", "version": "1"}
        return [method["name"] for method in described["methods"]]

    assert names(handlers) == ["a"]
    handlers.register("b", typed, typed=True)
    assert names(handlers) == ["a", "b"]
    child = handlers.child()
    child.register("c", named)
    assert list(child.functions()) == ["a", "b", "c"]
    assert names(child) == ["a", "b", "c"]


@rows("errors", [RpcError(1, "Sold out"), [1], [ValueError()], "Sold out", {1: RpcError(1, "Sold out")}, None])
def test_what_errors_must_be(errors: Any) -> None:
    with pytest.raises(TypeError, match=r"^errors must be "):
        Handlers().register("f", plain, errors=errors)


def test_discover_is_off_by_default() -> None:
    response = json.loads(Handlers({"a": plain}).dispatch(b'{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}'))
    assert response["error"]["code"] == -32601


@rows(
    ("discover", "said"),
    [
        (True, "discover must "),
        ({"title": "T"}, "discover must "),
        ({"title": "T", "version": "1", "x": "y"}, "discover must "),
        ([("title", "T")], "discover must "),
        ({"title": 1, "version": "1"}, "title must be a str"),
        ({"title": "T", "version": "\ud800"}, "surrogates not allowed"),
    ],
)
def test_what_discover_must_be(discover: Any, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        Handlers(discover=discover)
