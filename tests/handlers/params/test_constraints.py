"""Constraints of annotated-types and of pydantic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal

import annotated_types
import pytest
from pydantic import AfterValidator, Base64Str, BaseModel, ByteSize, Field

from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.handlers.params.types import type_of

from ...support.tables import rows


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
    with pytest.raises(TypeError, match=rf"a constraint of pydantic does not fit the type {name}$"):
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
        (Annotated[bytes, Field(pattern="a")], "a", "b"),
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
