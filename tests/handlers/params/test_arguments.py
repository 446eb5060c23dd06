"""Arguments: the one pass over the text gives what the conversion of each argument gives, for methods and for MCP."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import Raw
from jsonrpc_fast.codec._json import dumps
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.handlers.params.arguments import Arguments, hints_of, parameters_of
from jsonrpc_fast.handlers.params.problems import Misfit
from jsonrpc_fast.mcp.server.server import Server

from ...support.mcp_conversation import converse
from ...support.tables import rows


@dataclass
class Point:
    x: int
    y: int = 5


class Model(pydantic.BaseModel):
    x: int


def add(a: int, b: int) -> dict[str, int]:
    return {"sum": a + b}


def place(point: Point, names: list[str] = [], *, scale: float = 1.0) -> dict[str, Any]: ...  # type: ignore[empty-body]  # noqa: B006


def named(*, key: str, count: int | None = None) -> dict[str, Any]: ...  # type: ignore[empty-body]


def both(point: Point, model: Model, anything=None) -> dict[str, Any]: ...  # type: ignore[no-untyped-def,empty-body]


def nothing() -> dict[str, Any]: ...  # type: ignore[empty-body]


FUNCTIONS = {function.__name__: function for function in (add, place, named, both, nothing)}
NAMES = sorted({name for function in FUNCTIONS.values() for name in parameters_of(function, hints_of(function))})
VALUES: Any = st.recursive(
    st.one_of(st.integers(-3, 3), st.sampled_from([1.0, 0.5, "a", None, True]), st.just({"x": 1})),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "y", "z"]), inner, max_size=2),
    max_leaves=4,
)
PARAMS = st.lists(VALUES, max_size=4) | st.dictionaries(st.sampled_from([*NAMES, "other"]), VALUES, max_size=4)


def outcome(read: Any, params: Any, names: list[str]) -> Any:
    """Return the arguments by name, or the problems."""
    try:
        found = read(params)
    except Misfit as misfit:
        return misfit.problems
    return found if isinstance(found, dict) else dict(zip(names, found, strict=False))


@pytest.mark.parametrize("name", FUNCTIONS)
@given(params=PARAMS)
def test_one_pass_over_the_text_gives_what_conversion_gives(name: str, params: Any) -> None:
    arguments = Arguments(parameters_of(FUNCTIONS[name], hints_of(FUNCTIONS[name])))
    read, names = arguments.reader(), list(arguments.parameters)
    defaults = {each: arguments.default_of(each) for each in names if each not in arguments.required}
    raw, plain = outcome(read, Raw(dumps(params)), names), outcome(read, params, names)
    if isinstance(plain, dict):
        raw, plain = {**defaults, **raw}, {**defaults, **plain}
    assert raw == plain
    assert repr(raw) == repr(plain)  # 1 and 1.0 are different


@rows(
    ("method", "params", "problems"),
    [
        ("add", [1], [("/b", "is required")]),
        ("add", [], [("/a", "is required"), ("/b", "is required")]),
        ("add", {"b": 1}, [("/a", "is required")]),
        ("add", {"c": 1}, [("/a", "is required"), ("/b", "is required"), ("", "has an unknown member")]),
        ("add", [1, 2, 3], [("", "must have at most 2 items")]),
        ("add", ["x", "y"], [("/a", "Expected `int`, got `str`"), ("/b", "Expected `int`, got `str`")]),
        (
            "place",
            {"point": {"y": 1}, "names": [1]},
            [("/point/x", "is required"), ("/names/0", "Expected `str`, got `int`")],
        ),
        ("named", [1], [("", "must be an object")]),
        ("both", [{"x": "a"}, {}], [("/point/x", "Expected `int`, got `str`"), ("/model/x", "is required")]),
        ("nothing", {"a": 1}, [("", "has an unknown member")]),
    ],
)
async def test_a_method_and_mcp_name_the_same_problems(method: str, params: Any, problems: Any) -> None:
    handlers, server = Handlers(), Server("test", "1")
    handlers.register(method, FUNCTIONS[method], typed=True)
    server.method(f"x/{method}")(FUNCTIONS[method])
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    error = json.loads(handlers.dispatch(text))["error"]
    assert [(problem["path"], problem["reason"]) for problem in error["data"]] == problems
    if isinstance(params, dict):
        async with converse(server, "2025-11-25") as client:
            listed = "; ".join(f"{path or '/'}: {reason}" for path, reason in problems)
            assert await client.error(f"x/{method}", params) == (-32602, f"arguments: {listed}", None)


@rows(("params", "problems"), [([1], [("/b", "is required")]), ({"a": 1}, [("/b", "is required")])])
def test_a_method_without_types_names_what_is_missing(params: Any, problems: Any) -> None:
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "add", "params": params})
    error = json.loads(Handlers({"add": add}).dispatch(text))["error"]
    assert [(problem["path"], problem["reason"]) for problem in error["data"]] == problems


def test_msgspec_and_pydantic_in_one_signature() -> None:
    handlers = Handlers()
    handlers.register("both", _both, typed=True)
    text = '{"jsonrpc":"2.0","id":1,"method":"both","params":[{"x":1},{"x":"2"}]}'
    assert json.loads(handlers.dispatch(text))["result"] == ["Point", "Model"]


def _both(point: Point, model: Model) -> list[str]:
    return [type(point).__name__, type(model).__name__]
