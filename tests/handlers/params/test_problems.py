"""The texts of problems: in terms of JSON Schema, whichever library finds the problem."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pydantic
import pytest

pytest.importorskip("jsonschema_rs", reason="the extra `mcp` is not installed")

from jsonrpc_fast.handlers.params.problems import Misfit
from jsonrpc_fast.handlers.params.types import MsgspecType, PydanticType, ValueType
from jsonrpc_fast.mcp.protocol.schemas import Schema

from ...support.tables import rows

Meta, Field = msgspec.Meta, pydantic.Field


def reasons_of(type_: ValueType, value: Any) -> tuple[list[Any], list[Any]]:
    """Return what is wrong with a value, according to its type and to the schema of its type."""
    with pytest.raises(Misfit) as caught:
        type_.convert(value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__  # it would show the value
    faults = Schema(type_.schema()).faults(value)
    return [tuple(each) for each in caught.value.problems], [(each.path, each.message) for each in faults]


@rows(
    ("annotation", "value", "place", "reason"),
    [
        (int, "x", "", 'is not of type "integer"'),
        (int, 1.5, "", 'is not of type "integer"'),
        (str, 1, "", 'is not of type "string"'),
        (float, None, "", 'is not of type "number"'),
        (bool, 5, "", 'is not of type "boolean"'),
        (type(None), 1, "", 'is not of type "null"'),
        (list[int], "x", "", 'is not of type "array"'),
        (list[int], [1, "x"], "/1", 'is not of type "integer"'),
        (dict[str, int], 5, "", 'is not of type "object"'),
    ],
)
def test_types_of_both_libraries(annotation: Any, value: Any, place: str, reason: str) -> None:
    for type_ in (MsgspecType(annotation), PydanticType(annotation)):
        assert reasons_of(type_, value) == ([(place, reason)], [(place, reason)])


@rows(
    ("types", "value", "reason"),
    [
        ((Annotated[int, Meta(ge=0)], Annotated[int, Field(ge=0)]), -1, "is less than the minimum of 0"),
        ((Annotated[int, Meta(le=5)], Annotated[int, Field(le=5)]), 6, "is greater than the maximum of 5"),
        ((Annotated[float, Meta(gt=1.5)],), 1.5, "is less than or equal to the minimum of 1.5"),
        ((Annotated[int, Field(gt=0)],), 0, "is less than or equal to the minimum of 0"),
        ((Annotated[float, Meta(lt=1.5)],), 1.5, "is greater than or equal to the maximum of 1.5"),
        ((Annotated[int, Field(lt=5)],), 5, "is greater than or equal to the maximum of 5"),
        ((Annotated[int, Meta(multiple_of=5)], Annotated[int, Field(multiple_of=5)]), 6, "is not a multiple of 5"),
        ((Annotated[str, Meta(min_length=1)], Annotated[str, Field(min_length=1)]), "", "is shorter than 1 character"),
        (
            (Annotated[str, Meta(max_length=2)], Annotated[str, Field(max_length=2)]),
            "abc",
            "is longer than 2 characters",
        ),
        (
            (Annotated[str, Meta(pattern=r"^\d$")], Annotated[str, Field(pattern=r"^\d$")]),
            "b",
            r'does not match "^\d$"',
        ),
        (
            (Annotated[list[int], Meta(min_length=2)], Annotated[list[int], Field(min_length=2)]),
            [1],
            "has less than 2 items",
        ),
        (
            (Annotated[list[int], Meta(max_length=1)], Annotated[list[int], Field(max_length=1)]),
            [1, 2],
            "has more than 1 item",
        ),
        (
            (Annotated[dict[str, int], Meta(min_length=1)], Annotated[dict[str, int], Field(min_length=1)]),
            {},
            "has less than 1 property",
        ),
        ((tuple[int, str],), [1], "has less than 2 items"),
        ((int | None,), "x", 'is not of type "integer" or "null"'),
        ((int | str | None,), [], 'is not of type "integer" or "string" or "null"'),
    ],
)
def test_bounds(types: tuple[Any, ...], value: Any, reason: str) -> None:
    for annotation in types:
        type_ = PydanticType(annotation) if "FieldInfo" in repr(annotation) else MsgspecType(annotation)
        assert reasons_of(type_, value) == ([("", reason)], [("", reason)])
