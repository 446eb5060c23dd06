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


def test_a_constraint_that_its_type_does_not_support_fails_each_call() -> None:
    """Pydantic says so when it checks a value, and the text stays on this side."""

    def find(text: Annotated[int, Field(max_length=1)]) -> None: ...

    handlers = Handlers()
    handlers.register("find", find, typed=True)
    response = handlers.dispatch(b'{"jsonrpc":"2.0","id":1,"method":"find","params":[1]}')
    assert response == b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}\n'


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
