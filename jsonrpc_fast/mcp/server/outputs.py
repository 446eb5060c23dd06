"""Structured content: the schema of a tool's result, from its annotation, and the check of the result.

Rules:
  - A type that is an object in JSON gives its own schema. Any other type is wrapped: `-> list[int]` has the schema of
    `{"result": [1, 2]}`, because a schema must describe an object up to 2025-11-25. The schema has the mark by which
    the client of fastmcp finds the value.
  - There is no schema for None, for types without information (`Any`, `list`), for content blocks and results
    (`ToolResult`, `WholeResult`), and for a type without a JSON Schema. `Annotated[ToolResult, T]` has the schema of T.
  - Each value is checked as the client receives it, after it was written as JSON.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Awaitable, Sequence
from inspect import Parameter
from math import isfinite
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

import msgspec

from ...codec import Raw, dumps
from ...handlers.params import MsgspecType, PydanticType, type_of
from ...handlers.schemas import result_schema
from ..protocol.faults import SchemaFault
from ..protocol.schemas import Schema
from .blocks import Block, ToolResult, WholeResult
from .sending import sendable, sendable_text

WRAPPED: Final = "x-fastmcp-wrap-result"
"""Marks the schema of a wrapped value: the client of fastmcp shows the value without the wrapper."""
_PLAIN: Final = (str, int, float, bool)
_MISSING: Final = SchemaFault("", "", "is missing")


class OutputType:
    """The schema of a tool's structured content.

    Args:
        schema: The schema.
        value_type: The type that the schema comes from, if any.
        is_wrapped: Whether values are wrapped as `{"result": value}`.
        plain: The class of the values, if it is `str`, `int`, `float` or `bool` without constraints.

    Attributes:
        schema: The schema.
        plain: The class of the values, or None.

    Raises:
        ValueError: The schema is invalid.
    """

    __slots__ = ("_decode", "_is_wrapped", "_pydantic", "_schema", "plain", "schema")

    def __init__(
        self,
        schema: dict[str, Any],
        value_type: MsgspecType | PydanticType | None = None,
        *,
        is_wrapped: bool = False,
        plain: type | None = None,
    ) -> None:
        self.schema: dict[str, Any] = schema
        self._schema = Schema(schema)
        self._is_wrapped = is_wrapped
        self.plain: type | None = plain
        self._pydantic = value_type if isinstance(value_type, PydanticType) else None
        self._decode = msgspec.json.Decoder(value_type.annotation).decode if type(value_type) is MsgspecType else None

    def structure(self, value: Any) -> tuple[str, Any, list[SchemaFault]]:
        """Return the text of a value, its structured content, and the faults of the content.

        Args:
            value: The value that the tool returned.

        Raises:
            NotSendable: The value cannot be written as JSON.
        """
        # Fast path: such a value needs neither a conversion nor a check. NaN and infinity have no JSON form.
        if type(value) is self.plain and (type(value) is not float or isfinite(value)):
            text = sendable_text(value) if type(value) is str else dumps(value).decode()
            return text, {"result": value}, []
        is_refused = False
        if self._pydantic is not None:
            try:
                value = self._pydantic.write(value)
            except ValueError:
                # The schema usually says why, below.
                is_refused = True
        value, encoded = sendable(value)
        text = value if isinstance(value, str) else encoded.decode()
        structured = {"result": value} if self._is_wrapped else value
        if self._decode is not None:
            try:
                self._decode(encoded)
            except (msgspec.DecodeError, ValueError, RecursionError):
                pass  # the schema names the fault
            else:
                return text, structured, []
        is_missing = not self._is_wrapped and encoded == b"null"
        faults = [_MISSING] if is_missing else self.faults(structured)
        return text, structured, faults or ([SchemaFault("", "", "does not match the type")] if is_refused else [])

    def faults(self, structured: Any) -> list[SchemaFault]:
        """Return the faults of structured content that a tool returned as such; UNSET without such content."""
        return [_MISSING] if structured is msgspec.UNSET else self._schema.faults(Raw(dumps(structured)).decode())


def output_type(annotation: Any, *, is_required: bool = False) -> OutputType | None:
    """Return the output type for the annotated result of a function.

    Args:
        annotation: The annotation; `Parameter.empty` without one.
        is_required: Whether a missing schema is an error.

    Returns:
        The type; None if the results have no schema.

    Raises:
        TypeError: There is no schema, but `is_required`.
    """
    annotation = _value_of(annotation)
    if _is_silent(annotation):
        if is_required:
            raise TypeError("structured output needs an annotated result that describes data")
        return None
    try:
        value_type = type_of(annotation)
        schema = result_schema(value_type)
        # Up to 2025-11-25 the schema of a result must describe an object.
        if schema.get("type") == "object":
            return OutputType(schema, value_type)
        plain = annotation if annotation in _PLAIN else None
        return OutputType(_wrapped(schema), value_type, is_wrapped=True, plain=plain)
    except Exception as error:  # pydantic and msgspec raise many kinds for a type that has no schema
        if is_required:
            raise TypeError(f"the result has no schema: {str(error).strip().rpartition(chr(10))[2]}") from error
        return None


def _value_of(annotation: Any) -> Any:
    """The part of an annotation that describes the structured content."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(origin, type) and issubclass(origin, Awaitable):
        return _value_of(arguments[-1])
    if origin is Annotated and annotation.__origin__ is ToolResult:
        return annotation.__metadata__[0]
    # A function may return a whole result in some cases; the schema describes the other cases.
    if origin is typing.Union or origin is types.UnionType:
        parts = tuple(part for part in arguments if part is not WholeResult)
        if parts and len(parts) < len(arguments):
            return typing.Union[parts]  # noqa: UP007
    return annotation


def _is_silent(annotation: Any) -> bool:
    """Whether an annotation has no schema: it is content, or has no information."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _is_silent(annotation.__origin__)
    if origin is typing.Union or origin is types.UnionType:
        return any(_is_silent(part) for part in arguments if part is not types.NoneType)
    kind = origin or annotation
    if kind in (Any, object, None, types.NoneType, Parameter.empty) or isinstance(annotation, TypeVar):
        return True
    if not isinstance(kind, type):
        return False
    if issubclass(kind, Sequence) and not issubclass(kind, (str, bytes, bytearray)) and not hasattr(kind, "_fields"):
        parts = [part for part in arguments if part is not Ellipsis]
        return not parts or any(_is_silent(part) and part not in (None, types.NoneType) for part in parts)
    return issubclass(kind, (Block, ToolResult, WholeResult))


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    inner = {name: part for name, part in schema.items() if name != "$defs"}
    wrapped: dict[str, Any] = {"type": "object", "properties": {"result": inner}, "required": ["result"], WRAPPED: True}
    return {**wrapped, "$defs": schema["$defs"]} if "$defs" in schema else wrapped
