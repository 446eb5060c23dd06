"""Arguments: a single pass over the text gives what the conversion of each argument gives, for methods and for MCP."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

import annotated_types
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, Base64Str, BaseModel, ByteSize, Field

from jsonrpc_fast import Raw, decode
from jsonrpc_fast.codec._json import dumps
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.handlers import Handlers, RequestContext
from jsonrpc_fast.handlers.params.arguments import Arguments, hints_of, parameters_of
from jsonrpc_fast.handlers.params.problems import Misfit
from jsonrpc_fast.handlers.params.types import type_of
from jsonrpc_fast.handlers.typed import handler_of_annotations, handler_of_type
from jsonrpc_fast.mcp.server.server import Server

from ...support.mcp_conversation import converse
from ...support.tables import rows

NEW_PYDANTIC = tuple(map(int, pydantic.VERSION.split(".")[:2])) >= (2, 14)


@dataclass
class Point:
    x: int
    y: int = 5


class Model(pydantic.BaseModel):
    x: int


class Shape(msgspec.Struct, forbid_unknown_fields=True):
    x: int
    y: list[Point] | None = None
    z: dict[Literal["x", "1"], float] = {}


class Colour(enum.Enum):
    RED = "red"


Positive = Annotated[int, annotated_types.Gt(0)]
NOTHING: Final[list[int]] = []


def add(a: int, b: int) -> dict[str, int]:
    return {"sum": a + b}


def place(point: Point, names: list[str] = [], *, scale: float = 1.0) -> dict[str, Any]:  # noqa: B006
    return {"point": vars(point), "names": names, "scale": scale}


def named(*, key: str, count: int | None = None) -> dict[str, Any]:
    return {"key": key, "count": count}


def both(point: Point, model: Model, anything=None) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    return {"point": vars(point), "model": model, "anything": anything}


def bounded(
    a: Annotated[int, msgspec.Meta(ge=0)] = 1,
    b: Annotated[list[Positive], annotated_types.MaxLen(1)] = NOTHING,
    *,
    c: Literal["a", 1] = "a",
) -> dict[str, Any]:
    return {"a": a, "b": b, "c": c, "is_same": b is NOTHING}


def keyed(by_number: dict[int, float] | None, x: frozenset[str] | Point = frozenset()) -> dict[str, Any]:
    return {"by_number": by_number, "x": x}


def shown(context: RequestContext, a: bool | float, *, b: tuple[int, str] = (1, "b")) -> dict[str, Any]:
    return {"method": context.method, "a": a, "b": b}


def shown_by_name(a: Decimal, b: Colour | None = None, *, context: RequestContext) -> dict[str, Any]:
    return {"a": a, "b": b, "method": context.method}


def nothing() -> dict[str, Any]:
    return {}


FUNCTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    function.__name__: function for function in (add, place, named, both, bounded, keyed, shown, shown_by_name, nothing)
}
TYPES: dict[str, Any] = {
    "Point": Point,
    "by number": dict[int, list[Point]],
    "struct": Shape,
    "pair": tuple[int, Point],
}
NAMES = sorted({name for function in FUNCTIONS.values() for name in parameters_of(function, hints_of(function))})
VALUES: Any = st.recursive(
    st.one_of(st.integers(-3, 3), st.sampled_from([1.0, 0.5, "a", None, True, "red", "1"]), st.just({"x": 1})),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "y", "z", "1"]), inner, max_size=2)
    ),
    max_leaves=4,
)
PARAMS = st.lists(VALUES, max_size=4) | st.dictionaries(st.sampled_from([*NAMES, "other"]), VALUES, max_size=4)
CONTEXT = RequestContext("m", 1, False)


def outcome(call: Callable[[], Any]) -> Any:
    """Return a result in full, or the problems."""
    try:
        return repr(call())  # 1 and 1.0 are different
    except RpcError as error:
        return error.data
    except Misfit as misfit:
        return misfit.error().data


@pytest.mark.parametrize("name", FUNCTIONS)
@given(params=PARAMS)
@pytest.mark.ci
def test_one_pass_gives_what_the_conversion_of_each_argument_gives(name: str, params: Any) -> None:
    function = FUNCTIONS[name]
    parameters = parameters_of(function, hints_of(function))
    shows_context = parameters.pop("context", None) is not None
    arguments, handler = Arguments(parameters), handler_of_annotations(function)
    given_context = {"context": CONTEXT} if shows_context else {}
    expected = outcome(lambda: function(**arguments.bind(params), **given_context))
    for form in (params, Raw(dumps(params))):
        assert outcome(lambda form=form: handler.invoke(form, CONTEXT)) == expected


@pytest.mark.parametrize("name", TYPES)
@given(params=PARAMS | VALUES)
def test_one_pass_gives_what_the_conversion_of_one_type_gives(name: str, params: Any) -> None:
    handler, type_ = handler_of_type(lambda value: value, TYPES[name]), type_of(TYPES[name])
    expected = outcome(lambda: type_.convert({} if params is None else params))
    for form in (params, Raw(dumps(params))) if params is not None else (params,):
        assert outcome(lambda form=form: handler.invoke(form, None)) == expected


def test_defaults_of_a_dataclass_are_set_in_what_is_decoded() -> None:
    handlers = Handlers()
    handlers.register("m", lambda point: vars(point), params=Point)
    handlers.register("each", typed=True)(place)
    for method, params in (("m", '{"x":1}'), ("each", '[{"x":1}]')):
        for raw in (False, True):
            request = decode(f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}', raw=raw)
            assert b'{"x":1,"y":5}' in handlers.dispatch(request)


@rows(
    ("method", "params", "problems"),
    [
        ("add", [1], [("/b", "is required")]),
        ("add", [], [("/a", "is required"), ("/b", "is required")]),
        ("add", {"b": 1}, [("/a", "is required")]),
        ("add", {"c": 1}, [("/a", "is required"), ("/b", "is required"), ("", "has an unknown member")]),
        ("add", [1, 2, 3], [("", "must have at most 2 items")]),
        ("add", ["x", "y"], [("/a", 'is not of type "integer"'), ("/b", 'is not of type "integer"')]),
        (
            "place",
            {"point": {"y": 1}, "names": [1]},
            [("/point/x", "is required"), ("/names/0", 'is not of type "string"')],
        ),
        ("named", [1], [("", "must be an object")]),
        ("both", [{"x": "a"}, {}], [("/point/x", 'is not of type "integer"'), ("/model/x", "is required")]),
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


class Nested(BaseModel):
    inner: list[Nested] = Field([], max_length=2)


class Misplaced(BaseModel):
    inner: list[Misplaced] = []
    x: int = Field(0, max_length=1)


@rows(
    ("annotation", "name"),
    [
        (Annotated[str, Field(ge=1)], "str"),
        (list[Annotated[str, Field(multiple_of=2)]], "str"),
        (Annotated[list[int], Field(gt=1)], "list"),
        (Annotated[int, Field(min_length=1)], "int"),
        (Annotated[int, Field(pattern="a")], "int"),
        (Annotated[dict[str, int], Field(pattern="a")], "dict"),
        (Annotated[str, Field(allow_inf_nan=False)], "str"),
        (Annotated[str, Field(ge=1, max_length=3)], "str"),
        (Misplaced, "int"),
    ],
    ids=str,
)
def test_a_constraint_that_its_type_does_not_support_is_refused(annotation: Any, name: str) -> None:
    """Pydantic itself refuses it with each value."""

    def find(text: Any) -> None: ...

    find.__annotations__ = {"text": annotation}
    with pytest.raises(TypeError, match=rf"a pydantic constraint does not fit the type {name}$"):
        Handlers().register("find", find, typed=True)


@rows(
    ("annotation", "valid", "invalid"),
    [
        (Annotated[Sequence[int], Field(min_length=1)], [1], []),
        (Annotated[Mapping[str, int], Field(min_length=1)], {"a": 1}, {}),
        (Annotated[list[int] | str, Field(min_length=1)], "a", ""),
        (Annotated[int | float | None, Field(ge=1)], 1.5, 0.5),
        (Annotated[Literal[1, 2], Field(ge=2)], 2, 1),
        (Annotated[str, AfterValidator(str), Field(min_length=1)], "a", ""),
        (Annotated[str, AfterValidator(int), Field(ge=1)], "1", "0"),
        # An older pydantic itself ignores it.
        *([(Annotated[bytes, Field(pattern="a")], "a", "b")] if NEW_PYDANTIC else []),
        (Annotated[Decimal, Field(ge=1, max_digits=3)], "1.5", "0.5"),
        (Base64Str, "YWE=", "a"),
        (ByteSize, "1KB", "many"),
        (Nested, {"inner": [{"inner": []}]}, {"inner": [{}, {}, {}]}),
    ],
    ids=str,
)
def test_a_constraint_that_pydantic_checks_with_a_function_applies(annotation: Any, valid: Any, invalid: Any) -> None:
    kind = type_of(annotation)
    kind.convert(valid, strict=True)
    with pytest.raises(ValueError, match=r"^/\w*: "):
        kind.convert(invalid, strict=True)
