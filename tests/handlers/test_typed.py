"""Params as types: the arguments of a function, its response, and that no value of the input is in a response."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import json
import subprocess
import sys
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired

import msgspec
import pydantic
import pytest
from typing_extensions import TypedDict

from jsonrpc_fast import JSONRPC, Raw, decode, encode_request
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.handlers import Handler, Handlers, RequestContext
from jsonrpc_fast.http import Endpoint, WsgiEndpoint
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import memory_pair

from ..support.tables import rows

SECRET = "SECRET-5551"
CALL = '{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}'


class Colour(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    y: Annotated[int, msgspec.Meta(le=100)] = 0


class Circle(msgspec.Struct, tag="circle"):
    radius: float


class Square(msgspec.Struct, tag="square"):
    side: float


class Shape(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    points: list[Point] = []
    colour: Colour | None = None
    size: Literal[1, 2] = 1
    form: Circle | Square | None = None
    by_name: dict[str, int] = {}
    at: datetime.datetime | None = None
    id: uuid.UUID | None = None

    def __post_init__(self) -> None:
        if self.name.startswith(SECRET):
            raise ValueError(f"Expected `a good name`, not {self.name} - at `$.points`")


@dataclasses.dataclass
class Pair:
    left: int
    right: int = 5


class Options(TypedDict):
    left: int
    right: NotRequired[str]


class Inner(pydantic.BaseModel):
    at: datetime.datetime
    id: uuid.UUID | None = None


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    name: str
    inner: list[Inner] = []
    age: Annotated[int, pydantic.Field(le=100)] = 0
    colour: Colour | None = None
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")] | None = None
    by_name: dict[str, int] = {}
    email: str = pydantic.Field("", alias="e-mail")

    @pydantic.field_validator("email")
    @classmethod
    def check(cls, value: str) -> str:
        if value.startswith("custom"):
            from pydantic_core import PydanticCustomError

            raise PydanticCustomError("my_error", f"bad value {value}")  # type: ignore[misc]
        if value.startswith("assert"):
            raise AssertionError(value)
        if value:
            raise ValueError(f"bad value {value}")
        return value


@pydantic.dataclasses.dataclass
class PydanticPair:
    left: int
    right: int = 5


class StrictModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    at: datetime.datetime
    pair: tuple[int, int]


AT = datetime.datetime(2026, 11, 22, 15, 0, tzinfo=datetime.UTC)

ways = pytest.mark.parametrize("raw", [False, True])


def decoded(type_: Any, params: Any, raw: bool) -> Any:
    """Return what a function gets as its argument."""
    received = []
    handlers = Handlers()
    handlers.register("m", received.append, params=type_)
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "m", **({} if params is ... else {"params": params})})
    reply = json.loads(handlers.dispatch(text, raw=raw))
    if "error" in reply:
        assert received == []
        assert (reply["error"]["code"], reply["error"]["message"]) == (-32602, "Invalid params")
        return [(problem["path"], problem["reason"]) for problem in reply["error"]["data"]]
    return received[0]


@ways
@rows(
    ("type_", "params", "expected"),
    [
        (Point, {"x": 1}, Point(1, 0)),
        (Point, {"x": 1, "y": 2, "z": 3}, Point(1, 2)),
        (Shape, {"name": "a", "points": [{"x": 1}], "colour": "red"}, Shape("a", [Point(1)], Colour.RED)),
        (Shape, {"name": "a", "at": "2026-11-22T15:00:00Z"}, Shape("a", at=AT)),
        (Circle | Square, {"type": "square", "side": 2}, Square(2.0)),
        (Pair, {"left": 1}, Pair(1, 5)),
        (Options, {"left": 1, "right": "r"}, {"left": 1, "right": "r"}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (list[Point], [{"x": 1}], [Point(1)]),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (dict[int, int], {"1": 2.0}, {1: 2}),
        (Model, {"name": "a", "inner": [{"at": "2026-11-22T15:00:00Z"}]}, Model(name="a", inner=[Inner(at=AT)])),
        (StrictModel, {"at": "2026-11-22T15:00:00Z", "pair": [1, 2]}, StrictModel(at=AT, pair=(1, 2))),
        (PydanticPair, {"left": 1}, PydanticPair(1, 5)),
        (list[Inner], [{"at": "2026-11-22T15:00:00Z"}], [Inner(at=AT)]),
        (pydantic.TypeAdapter(Pair), {"left": "1"}, Pair(1, 5)),  # pydantic converts, msgspec would not
        (Annotated[list[int], pydantic.Field(max_length=2)], [1, 2], [1, 2]),
        (Pair | None, ..., [("/left", "is required")]),
        (dict[str, int], ..., {}),
    ],
)
def test_what_the_function_gets(type_: Any, params: Any, expected: Any, raw: bool) -> None:
    found = decoded(type_, params, raw)
    assert found == expected
    assert type(found) is type(expected)


MSGSPEC_PROBLEMS = [
    ({"name": 5}, "/name", 'is not of type "string"'),
    ({}, "/name", "is required"),
    ([SECRET], "", 'is not of type "object"'),
    ({"name": "a", "points": [{"x": 1}, {"x": SECRET}]}, "/points/1/x", 'is not of type "integer"'),
    ({"name": "a", "points": [{"x": 1, "y": 5551}]}, "/points/0/y", "is greater than the maximum of 100"),
    ({"name": "a", "colour": SECRET}, "/colour", "Invalid enum value"),
    ({"name": "a", "form": {"type": SECRET}}, "/form/type", "Invalid value"),
    ({"name": "a", "size": 5551}, "/size", "Invalid enum value"),
    ({"name": "a", SECRET: 1}, "", "has an unknown member"),
    ({"name": "a", f"{SECRET} - at `$.points": 1}, "/points", "has an unknown member"),
    ({"name": "a", f"x - at `$.{SECRET}": 1}, "", "has an unknown member"),
    ({"name": "a", "by_name": {SECRET: "x"}}, "/by_name", 'is not of type "integer"'),
    ({"name": "a", "at": SECRET}, "/at", "Invalid RFC3339 encoded datetime"),
    ({"name": "a", "id": SECRET}, "/id", "Invalid UUID"),
    ({"name": SECRET}, "", "Invalid value"),
]


@ways
@rows(("params", "path", "reason"), MSGSPEC_PROBLEMS)
def test_problems_that_msgspec_finds(params: Any, path: str, reason: str, raw: bool) -> None:
    assert decoded(Shape, params, raw) == [(path, reason)]
    assert "5551" not in path + reason


NAME = {"name": "a"}
PYDANTIC_PROBLEMS = [
    ({}, [("/name", "is required")]),
    ({"name": 5}, [("/name", 'is not of type "string"')]),
    ([SECRET], [("", 'is not of type "object"')]),
    (
        {"name": 1, "inner": [{}, {"at": SECRET}], "age": 5551},
        [
            ("/name", 'is not of type "string"'),
            ("/inner/0/at", "is required"),
            ("/inner/1/at", "Datetime from date parsing"),
            ("/age", "is greater than the maximum of 100"),
        ],
    ),
    ({**NAME, "inner": [{"at": 0, "id": SECRET}]}, [("/inner/0/id", "Uuid parsing")]),
    ({**NAME, "colour": SECRET}, [("/colour", "Input should be 'red'")]),
    ({**NAME, "pet": {"kind": SECRET}}, [("/pet", "Union tag invalid")]),
    ({**NAME, SECRET: 1}, [("", "has an unknown member")]),
    ({**NAME, "by_name": {SECRET: "x"}}, [("/by_name", 'is not of type "integer"')]),
    ({**NAME, "e-mail": SECRET}, [("/e-mail", "Invalid value")]),
    ({**NAME, "e-mail": f"custom {SECRET}"}, [("/e-mail", "Invalid value")]),
    ({**NAME, "e-mail": f"assert {SECRET}"}, [("/e-mail", "Invalid value")]),
]


@ways
@rows(("params", "problems"), PYDANTIC_PROBLEMS)
def test_problems_that_pydantic_finds(params: Any, problems: Any, raw: bool) -> None:
    assert decoded(Model, params, raw) == problems
    assert "5551" not in str(problems)


class Node(msgspec.Struct):
    child: Node | None = None
    number: int = 0


CYCLIC: list[Any] = []
CYCLIC.append(CYCLIC)


class Cyclic(pydantic.BaseModel):
    child: Cyclic | None = None
    default: Any = CYCLIC
    number: int = 0


def test_types_and_defaults_that_hold_themselves() -> None:
    params = {"child": {"child": {"number": SECRET}}}
    reason = 'is not of type "integer"'
    assert decoded(Cyclic, params, raw=False) == [("/child/child/number", reason)]
    assert decoded(Node, params, raw=False) == [("/child/child/number", 'is not of type "integer"')]


def test_many_problems_are_cut() -> None:
    found = decoded(list[Inner], [1] * 20, raw=False)
    assert (len(found), found[16:]) == (17, [("", "has 4 more problems")])
    assert len(decoded(list[Inner], [1] * 16, raw=False)) == 16
    assert decoded(list[Inner], [1] * 17, raw=False)[16:] == [("", "has 1 more problem")]
    assert decoded(list[Inner], [1] * 100_000, raw=True) == [("", "100000 invalid values")]


@rows("type_", [dict[str, Any], pydantic.TypeAdapter(dict[str, Any])])
@ways
def test_deep_params_are_no_fault_of_this_side(type_: Any, raw: bool, caplog: pytest.LogCaptureFixture) -> None:
    handlers = Handlers()
    handlers.register("m", lambda params: 1, params=type_)
    for depth in (300, 1000):
        nested = '{"a":' + "[" * depth + "]" * depth + "}"
        reply = handlers.dispatch(CALL % ("m", nested), raw=raw)
        assert reply == b'{"jsonrpc":"2.0","id":1,"result":1}\n' or b"-32602" in reply
    assert caplog.records == []


# Annotations.


def move(point: Point, by: int = 1, *, unit: Literal["px", "cm"] = "px") -> Any:
    return [type(point).__name__, point.x + by, unit]


def invite(guest: Inner, count: pydantic.PositiveInt = 1) -> Any:
    return [type(guest).__name__, count]


TYPED = Handlers()
TYPED.register("move", move, typed=True)
TYPED.register("invite", invite, typed=True)
INVITATION: dict[str, Any] = {"guest": {"at": "2026-11-22T15:00:00Z"}}


@ways
@rows(
    ("method", "params", "expected"),
    [
        ("move", {"point": {"x": 1}}, ["Point", 2, "px"]),
        ("move", {"point": {"x": 1}, "by": 5, "unit": "cm"}, ["Point", 6, "cm"]),
        ("move", [{"x": 1}], ["Point", 2, "px"]),
        ("move", [{"x": 1}, 5], ["Point", 6, "px"]),
        ("move", [], [("/point", "is required")]),
        ("move", [{"x": 1}, SECRET], [("/by", 'is not of type "integer"')]),
        ("move", [{"x": 1}, 5, "cm"], [("", "must have at most 2 items")]),
        ("move", {"point": {"x": SECRET}}, [("/point/x", 'is not of type "integer"')]),
        ("move", {"point": {"x": 1}, SECRET: 1}, [("", "has an unknown member")]),
        ("move", {"point": {"x": 1}, "unit": SECRET}, [("/unit", "Invalid enum value")]),
        ("invite", INVITATION, ["Inner", 1]),
        ("invite", [INVITATION["guest"], 2], ["Inner", 2]),
        ("invite", [INVITATION["guest"], 0], [("/count", "is less than the minimum of 1")]),
        ("invite", {}, [("/guest", "is required")]),
        ("invite", {**INVITATION, SECRET: 1}, [("", "has an unknown member")]),
    ],
)
def test_arguments_by_their_annotations(method: str, params: Any, expected: Any, raw: bool) -> None:
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    reply = json.loads(TYPED.dispatch(text, raw=raw))
    if "error" in reply:
        assert reply["error"]["code"] == -32602
        assert [(problem["path"], problem["reason"]) for problem in reply["error"]["data"]] == expected
    else:
        assert reply["result"] == expected


def test_a_type_error_of_the_function_is_not_the_peers(caplog: pytest.LogCaptureFixture) -> None:
    def fail(x: int) -> None:
        raise TypeError("secret")

    handlers = Handlers()
    handlers.register("m", fail, typed=True)
    assert b"-32603" in handlers.dispatch('{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}')
    assert "secret" in caplog.text


def test_the_context_beside_typed_params() -> None:
    def first(context: RequestContext, point: Point) -> Any:
        return [context.context, point.x]

    first.__annotations__["context"] = RequestContext
    handlers = Handlers()
    handlers.register("whole", first, params=Point)
    handlers.register("each", first, typed=True)
    for method, params in (("whole", '{"x":1}'), ("each", '{"point":{"x":1}}'), ("each", '[{"x":1}]')):
        reply = handlers.dispatch(CALL % (method, params), context="me")
        assert reply == b'{"jsonrpc":"2.0","id":1,"result":["me",1]}\n'


def var_args(*numbers: int) -> None:
    raise AssertionError


def only_positional(a: int, /) -> None:
    raise AssertionError


class Unknown:
    pass


def unknown(a: list[Unknown]) -> None:
    raise AssertionError


def unresolved(a: Missing) -> None:  # type: ignore[name-defined]  # noqa: F821
    raise AssertionError


@rows(
    ("function", "options", "text"),
    [
        (var_args, {"typed": True}, r"\*numbers"),
        (only_positional, {"typed": True}, "a: int"),
        (unknown, {"typed": True}, "TypeAdapter"),
        (unresolved, {"typed": True}, "Missing"),
        (print, {"params": Unknown}, "TypeAdapter"),
        (print, {"params": 5}, "not supported"),
        (print, {"params": Point, "unpack": False}, "mutually exclusive"),
        (print, {"params": Point, "typed": True}, "mutually exclusive"),
    ],
)
def test_what_does_not_fit(function: Callable[..., Any], options: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        Handlers().register("m", function, **options)


@pytest.mark.usefixtures("each_loop")
@ways
async def test_sessions(raw: bool) -> None:
    async def later(shape: Shape) -> Any:
        await asyncio.sleep(0)
        return shape.points[0].x

    handlers = Handlers()
    handlers.register("shape", later, params=Shape)
    handlers.register("thread", lambda shape: shape.points[0].x, params=Shape, thread=True)
    one, other = memory_pair(raw=raw)
    async with Session(one, handlers), Session(other) as client:
        for method in ("shape", "thread"):
            reply: Any = await client.call(method, {"name": "a", "points": [{"x": 7}]})
            assert reply == 7 or reply == Raw(b"7")
            with pytest.raises(RpcError) as caught:
                await client.call(method, {"name": "a", "points": [{"x": SECRET}]})
            assert caught.value.code == -32602
            data = caught.value.data
            data = data.decode() if isinstance(data, Raw) else data
            assert data == [{"path": "/points/0/x", "reason": 'is not of type "integer"'}]


def test_unused_it_changes_nothing_and_imports_nothing() -> None:
    assert type(Handlers({"move": move}).find("move")) is Handler
    code = """
import sys
from jsonrpc_fast.handlers import Handlers
Handlers({"m": lambda: 1}).dispatch('{"jsonrpc":"2.0","id":1,"method":"m"}')
assert not {"msgspec", "pydantic", "jsonrpc_fast.handlers.typed"} & sys.modules.keys()
sys.modules["msgspec"] = None
def function(a: int): pass
for options in ({"typed": True}, {"params": int}):
    try:
        Handlers().register("m", function, **options)
    except ImportError as error:
        assert str(error) == 'typed params need msgspec: pip install "jsonrpc_fast[typed]"'
    else:
        raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_typed_and_other_methods_in_one_table() -> None:
    handlers = Handlers()
    handlers.register("before", lambda params: params, unpack=False)
    handlers.register("typed", lambda values: values, params=list[int])
    handlers.register("arguments", lambda *values: values)
    handlers.register("whole", lambda params: type(params).__name__, unpack=False)

    @handlers.register("annotated", typed=True)
    def annotated(context: RequestContext, first: int, *, last: list[int] = [3]) -> object:  # noqa: B006
        return [context.method, first, last]

    def result(method: str, params: str, **options: Any) -> Any:
        return json.loads(handlers.dispatch(CALL % (method, params), **options))["result"]

    assert result("before", "[1,2]") == [1, 2]
    assert result("typed", "[1,2]") == [1, 2]
    assert result("arguments", "[1,2]") == [1, 2]
    assert result("whole", "[1,2]") == "list"
    assert result("whole", "[1,2]", raw=True) == "Raw"
    assert result("whole", "[1,2]", default=str) == "list"
    assert result("annotated", '{"first":1}') == ["annotated", 1, [3]]
    assert result("annotated", "[1]") == ["annotated", 1, [3]]
    assert result("annotated", '{"first":1,"last":[4]}') == ["annotated", 1, [4]]
    batch = json.loads(handlers.dispatch(f"[{CALL % ('whole', '[1]')},{CALL % ('typed', '[1]')}]"))
    assert [response["result"] for response in batch] == ["list", [1]]


def test_integers_of_any_width_reach_a_typed_method() -> None:
    handlers = Handlers()
    handlers.register("m", lambda value: str(value), params=list[int])
    assert json.loads(handlers.dispatch(CALL % ("m", f"[{2**70}]")))["result"] == f"[{2**70}]"


async def test_every_way_reads_the_params_of_a_typed_method_from_the_text() -> None:
    text = CALL % ("m", f"[{2**70}]")
    expected = json.loads(text) | {"result": f"[{2**70}]"}
    expected = {name: expected[name] for name in ("jsonrpc", "id", "result")}
    handlers = Handlers()
    child = handlers.child()
    early, early_child = handlers.prepare(delimited=False), child.prepare()
    handlers.register("m", lambda value: str(value), params=list[int])
    served = {
        "prepared before": early.serve(text, None, None),
        "prepared before, of a child": early_child.serve(text, None, None),
        "prepared after": handlers.prepare().serve(text, None, None),
        "child": child.dispatch(text),
        "child made after": handlers.child().dispatch(text),
        "options": handlers.dispatch(text, default=str),
        "async": await handlers.dispatch_async(text),
        "Endpoint": (
            await Endpoint(handlers).serve(
                "POST", {"content-type": "application/json", "host": "localhost"}, text.encode()
            )
        )[2],
        "WsgiEndpoint": WsgiEndpoint(handlers).serve(
            "POST", {"content-type": "application/json", "host": "localhost"}, text.encode()
        )[2],
    }
    assert {way: json.loads(response) for way, response in served.items()} == dict.fromkeys(served, expected)


def test_names_that_a_struct_has_itself() -> None:
    handlers = Handlers()

    @handlers.register("m", typed=True)
    def method(__struct_fields__: int, field_1: int = 2, field_0: int = 3) -> list[int]:
        return [__struct_fields__, field_1, field_0]

    assert json.loads(handlers.dispatch(CALL % ("m", '{"__struct_fields__":1,"field_0":5}')))["result"] == [1, 2, 5]


class TaggedCat(pydantic.BaseModel):
    kind: Literal["cat"]
    k: int


class TaggedDog(pydantic.BaseModel):
    kind: Literal["dog"]
    k: int


class Owner(pydantic.BaseModel):
    pet: TaggedCat | TaggedDog
    pets: list[Annotated[TaggedCat | TaggedDog, pydantic.Field(discriminator="kind")]] = []
    names: dict[str, TaggedCat] = {}
    age: int = pydantic.Field(0, alias="TaggedCat")  # as the class, which a location may also name


def test_the_path_of_a_union_of_models_is_a_pointer_into_the_params() -> None:
    wrong = {"kind": "cat", "k": "x"}
    for params, expected in (
        ({"pet": wrong}, {"/pet/k", "/pet/kind"}),
        ({"pet": {"kind": "cat"}}, {"/pet/k", "/pet/kind"}),
        ({"pet": {"kind": "cat", "k": 1}, "pets": [{"kind": "cat", "k": 1}, wrong]}, {"/pets/1/k"}),
        ({"pet": {"kind": "cat", "k": 1}, "names": {"secret": wrong}}, {"/names"}),
        ({"pet": {"kind": "cat", "k": 1}, "TaggedCat": "x"}, {"/TaggedCat"}),
    ):
        for as_raw in (False, True):
            request = decode(encode_request(1, "m", params), raw=as_raw)
            handlers = Handlers()
            handlers.register("m", lambda params: None, params=Owner)
            response: Any = decode(handlers.dispatch(request))
            assert {problem["path"] for problem in response.error.data} == expected


WIDE = 123456789012345678901234567890


@rows(
    ("annotation", "text", "value"),
    [
        (Any, "1.50", Decimal("1.50")),
        (Any, "1e2", Decimal("1E+2")),
        (Any, "7", 7),
        (Any, f"{WIDE}", WIDE),
        (list[Any], "[[1.5]]", [[Decimal("1.5")]]),
        (dict[str, Any], '{"a":1.5}', {"a": Decimal("1.5")}),
        (int, f"{WIDE}", WIDE),
        (int, "1e2", 100),
        (int, "7", 7),
        (int, "1.5", None),
        (list[int], f"[{WIDE},2.0]", [WIDE, 2]),
        (float, "1.5", 1.5),
        (float, f"{WIDE}", 1.2345678901234568e29),
        (Decimal, "1.50", Decimal("1.50")),
        (Decimal | None, "7", Decimal(7)),
        (str, "1.5", None),
        (Annotated[int, pydantic.Field(ge=1)], "7", 7),
    ],
)
def test_numbers_are_those_of_the_profile_in_a_text_and_in_a_message(annotation: Any, text: str, value: Any) -> None:
    profile = JSONRPC.replace(name="money", floats="decimal")
    seen: list[Any] = []
    handlers = Handlers()

    def f(a: Any) -> None:
        seen.append(a)

    f.__annotations__["a"] = annotation
    handlers.register("f", f, typed=True)
    for params in (f"[{text}]", f'{{"a":{text}}}'):
        data = (CALL % ("f", params)).encode()
        responses = [
            handlers.dispatch(data, profile=profile),
            handlers.dispatch(decode(data, profile), profile=profile),
            handlers.dispatch(decode(data, profile, raw=True), profile=profile),
        ]
        assert len(set(responses)) == 1
    assert [(type(each), each) for each in seen] == ([] if value is None else [(type(value), value)] * 6)
