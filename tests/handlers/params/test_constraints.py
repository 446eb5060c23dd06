"""Constraints of annotated-types, and pydantic ones that fail for each value of their type, and those that work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal

import annotated_types
import pytest
from pydantic import AfterValidator, Base64Str, BaseModel, ByteSize, Field

from jsonrpc_fast.handlers.params.types import type_of
from jsonrpc_fast.mcp.server.server import Server

from ...support.tables import rows


class Misplaced(BaseModel):
    x: str = Field("", ge=1)


class MisplacedWithin(BaseModel):
    inner: list[MisplacedWithin] = []
    x: int = Field(0, max_length=1)


class Nested(BaseModel):
    inner: list[Nested] = Field([], max_length=2)


class Model(BaseModel):
    x: int = 1


@rows(
    ("annotation", "text"),
    [
        (Annotated[str, Field(ge=1)], "the constraint ge cannot be checked for a value of type str"),
        (list[Annotated[str, Field(ge=1)]], "the constraint ge cannot be checked"),
        (Annotated[int, Field(min_length=1)], "the constraint min_length cannot be checked for a value of type int"),
        (Annotated[int, Field(pattern="a")], "the constraint pattern cannot be checked for a value of type int"),
        (Annotated[str, Field(allow_inf_nan=False)], "the constraint allow_inf_nan cannot be checked"),
        (Annotated[str | int, Field(ge=1)], "the constraint ge cannot be checked for a value of type str"),
        (Annotated[Any, Field(ge=1)], "the constraint ge cannot be checked"),
        (Annotated[Literal["a"], Field(ge=1)], "the constraint ge cannot be checked"),
        (
            Annotated[Model, Field(min_length=1)],
            "the constraint min_length cannot be checked for a value of type Model",
        ),
        (Annotated[Model | None, Field(ge=1)], "the constraint ge cannot be checked"),
        (Misplaced, "the constraint ge cannot be checked for a value of type str"),
        (dict[str, MisplacedWithin], "the constraint max_length cannot be checked for a value of type int"),
    ],
    ids=str,
)
def test_a_constraint_that_its_type_does_not_support_is_refused(annotation: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        type_of(annotation)


def test_the_error_about_a_constraint_names_tool_and_parameter() -> None:
    def find(text: Annotated[str, Field(ge=1)]) -> None: ...

    with pytest.raises(TypeError, match=r"^tool find: the type of text is not supported: the constraint ge cannot be"):
        Server("fields", "1").tool(find)


@rows(
    ("annotation", "valid", "invalid"),
    [
        (Annotated[Sequence[int], Field(min_length=1)], [1], []),
        (Annotated[Mapping[str, int], Field(min_length=1)], {"a": 1}, {}),
        (Annotated[list[int] | str, Field(min_length=1)], "a", ""),
        (Annotated[int | float | None, Field(ge=1)], 1.5, 0.5),
        (Annotated[Literal[1, 2], Field(ge=2)], 2, 1),
        (Annotated[str, AfterValidator(str), Field(min_length=1)], "a", ""),
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


@rows(
    ("annotation", "valid", "invalid"),
    [
        (Annotated[int, annotated_types.Ge(2)], 2, 1),
        (Annotated[str, annotated_types.MaxLen(1)], "a", "ab"),
        (list[Annotated[int, annotated_types.Lt(2)]], [1], [2]),
    ],
    ids=str,
)
def test_a_constraint_of_annotated_types_applies(annotation: Any, valid: Any, invalid: Any) -> None:
    kind = type_of(annotation)
    assert kind.convert(valid, strict=True) == valid
    with pytest.raises(ValueError, match=r"^/?\w*: "):
        kind.convert(invalid, strict=True)
