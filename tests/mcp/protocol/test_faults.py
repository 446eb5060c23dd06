"""The text about a value that does not match a schema: enough to fix it, bounded, and without the value."""

from __future__ import annotations

from typing import Any, Literal

import pydantic
import pytest

from jsonrpc_fast.mcp.protocol.schemas import Schema

from ...support.tables import rows

CIRCLE = {"type": "object", "title": "Circle", "properties": {"radius": {"type": "number"}}, "required": ["radius"]}
SQUARE = {"type": "object", "properties": {"side": {"type": "number"}}, "required": ["side"]}
CAT = {
    "type": "object",
    "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
    "required": ["kind", "lives"],
}
DOG = {
    "type": "object",
    "properties": {"kind": {"enum": ["dog", "wolf"]}, "bark": {"type": "string"}},
    "required": ["kind", "bark"],
}
DEFINITIONS = {"Circle": CIRCLE, "Square": SQUARE, "Cat": CAT, "Dog": DOG}
SHAPES = [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}]
PETS = [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]
INTEGER, STRING, NULL = {"type": "integer"}, {"type": "string"}, {"type": "null"}


@rows("keyword", ["anyOf", "oneOf"])
@rows(
    ("alternatives", "value", "faults"),
    [
        ([INTEGER, STRING], [], ['/x: is not of type "integer" or "string"']),
        ([{"type": ["integer", "string"]}, NULL], [], ['/x: is not of type "integer" or "string" or "null"']),
        ([{"enum": ["a", "b"]}, NULL], "SECRET", ['/x: is not one of "a" or "b", and is not of type "null"']),
        (
            [{"type": "integer", "minimum": 3}, NULL],
            1,
            ['/x: is less than the minimum of 3, and is not of type "null"'],
        ),
        (
            SHAPES,
            {"side": "SECRET"},
            ['/x: matches no alternative: Circle: /radius is required; Square: /side is not of type "number"'],
        ),
        ([*SHAPES, {"type": "array", "items": INTEGER}], [1, "SECRET"], ['/x/1: is not of type "integer"']),
        ([SHAPES[0], NULL], {"radius": "SECRET"}, ['/x/radius: is not of type "number"']),
        (PETS, {"kind": "dog", "bark": 1}, ['/x/bark: is not of type "string"']),
        (PETS, {"kind": "wolf"}, ["/x/bark: is required"]),
        (PETS, {"kind": "SECRET"}, ['/x/kind: is not one of "cat", "dog", "wolf"']),
        (PETS, {"lives": 1}, ['/x/kind: is required, one of "cat", "dog", "wolf"']),
        ([CAT, DOG], {"kind": "cat"}, ["/x/lives: is required"]),
        ([{"anyOf": PETS}, STRING], {"kind": "dog", "bark": {"SECRET": 1}}, ['/x/bark: is not of type "string"']),
        (
            [{"properties": {"a~/b": {"const": 1}}}, {"properties": {"a~/b": {"const": 2**70}}}],
            {"a~/b": "SECRET"},
            ["/x/a~0~1b: is not one of 1, 1180591620717411303424"],
        ),
        ([{"type": "string", "required": ["a"]}, {"type": "integer", "required": ["a"]}], {}, ["/x/a: is required"]),
        (
            [{"properties": {"a": INTEGER}}, {"$ref": "#/$defs/none/0"}],
            {"a": "SECRET"},
            ['/x: matches no alternative: alternative 1: /a is not of type "integer"; 0: is not allowed'],
        ),
    ],
)
def test_a_union(keyword: str, alternatives: list[Any], value: Any, faults: list[str]) -> None:
    definitions = {**DEFINITIONS, "none": {"0": False}}
    schema = {"properties": {"x": {keyword: alternatives}}, "$defs": definitions}
    assert [f"{fault.path}: {fault.message}" for fault in Schema(schema).faults({"x": value})] == faults


def test_a_value_for_several_alternatives_of_one_of() -> None:
    [fault] = Schema({"oneOf": [INTEGER, {"minimum": 1}]}).faults(2)
    assert fault == ("", "oneOf", "matches more than one alternative")


@rows(
    ("schema", "value", "message"),
    [
        ({"not": {"type": "object"}}, {"SECRET": 1}, 'must not match {"type": "object"}'),
        ({"propertyNames": {"maxLength": 3}}, {"SECRET": 1}, "has a member whose name is longer than 3 characters"),
        (
            {"properties": {"a": {}, "b": {}}, "additionalProperties": False},
            {"SECRET": 1},
            'has an unknown member; known are "a", "b"',
        ),
        ({"additionalProperties": False}, {"SECRET": 1}, "must not have members"),
        (False, {"SECRET": 1}, "is not allowed"),
        ({"contains": {"type": "string"}}, [1], "does not match contains"),
    ],
)
def test_other_keywords(schema: Any, value: Any, message: str) -> None:
    [fault] = Schema({"properties": {"x": schema}}).faults({"x": value})
    assert (fault.path, fault.message) == ("/x", message)


def test_a_message_is_short() -> None:
    words = {"properties": {f"name {n}": {"type": "object", "required": ["a" * 100]} for n in range(100)}}
    [fault] = Schema({"anyOf": [{**words, "title": str(n)} for n in range(20)]}).faults(
        {f"name {n}": "SECRET" for n in range(100)}
    )[:1] or [None]
    assert fault is not None
    assert len(fault.message) <= 501
    assert "SECRET" not in fault.message
    tags = [{"properties": {"kind": {"const": "x" * 300 + str(n)}}} for n in range(20)]
    [fault] = Schema({"anyOf": tags}).faults({"kind": "SECRET"})
    assert len(fault.message) == 501


def test_a_message_of_the_length_that_fits_is_whole() -> None:
    fixed = len('"" was expected')
    for length, end in [(500, "d"), (501, "…"), (502, "…")]:
        [fault] = Schema({"const": "x" * (length - fixed)}).faults(1)
        assert (len(fault.message), fault.message[-1]) == (min(length, 501), end)


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    bark: str


def test_a_union_of_models_names_at_least_what_pydantic_names() -> None:
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(Cat | Dog | list[Cat])
    schema = Schema(adapter.json_schema())
    for value in ({"kind": "dog", "bark": 1}, {"kind": "cat"}, [{"kind": "cat", "lives": "SECRET"}]):
        with pytest.raises(pydantic.ValidationError) as caught:
            adapter.validate_python(value)
        paths = {"/".join(str(part) for part in error["loc"]) for error in caught.value.errors()}
        [fault] = schema.faults(value)
        assert any(path.endswith(fault.path) for path in paths)
