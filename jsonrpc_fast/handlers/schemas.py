"""JSON Schemas (2020-12) of annotated types, written so that many clients understand them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ..errors import EncodeError
from .json_values import to_json
from .params.types import MsgspecType, PydanticType, ValueType, msgspec_module

_msgspec = msgspec_module()


def value_schema(type_: ValueType) -> dict[str, Any]:
    """Return the schema of values that a type converts."""
    schema: dict[str, Any] = without_closed_tuples(without_root_reference(type_.schema()))
    return schema


def result_schema(type_: ValueType) -> dict[str, Any]:
    """Return the schema of values that were written as JSON."""
    schema = without_root_reference(type_.result_schema())
    if isinstance(type_, PydanticType):
        schema = without_time_formats(schema)
    written: dict[str, Any] = without_closed_tuples(schema)
    return written


def object_schema(fields: Mapping[str, ValueType], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of an object.

    Args:
        fields: The types of the members, by name.
        defaults: The defaults of the members that are not required, by name.

    Raises:
        TypeError: Two different types have the same name.
    """
    schemas: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    msgspecs = {name: field.annotation for name, field in fields.items() if isinstance(field, MsgspecType)}
    written, components = _msgspec.json.schema_components(msgspecs.values(), ref_template="#/$defs/{name}")
    schemas |= zip(msgspecs, written, strict=True)
    definitions |= components
    pydantics = [
        (name, "validation", field.adapter) for name, field in fields.items() if isinstance(field, PydanticType)
    ]
    if pydantics:
        inner, outer = type(pydantics[0][2]).json_schemas(pydantics)
        schemas |= {name: schema for (name, _), schema in inner.items()}
        for name, schema in outer.get("$defs", {}).items():
            if definitions.setdefault(name, schema) != schema:
                raise TypeError(f"two types have the name {name}")
    for name, default in defaults.items():
        if "default" not in schemas[name]:
            # A mutable default is shared by all calls, so an earlier call may have changed it.
            try:
                if default.__hash__ is not None:
                    schemas[name] = {**schemas[name], "default": to_json(default)}
            except EncodeError:
                pass  # a default without a JSON form is not shown
    schema = {
        "type": "object",
        "properties": {name: dict(without_closed_tuples(schemas[name])) for name in fields},
        "required": [name for name in fields if name not in defaults],
        "additionalProperties": False,  # an argument that the function does not have is refused
    }
    return {**schema, "$defs": without_closed_tuples(definitions)} if definitions else schema


def without_closed_tuples(schema: Any) -> Any:
    """Drop `"items": false` from a schema where `maxItems` has the same effect, because many clients cannot read it."""
    return _without(
        "items",
        lambda part: part.get("items") is False and part.get("maxItems") == len(part.get("prefixItems", ())),
        schema,
    )


def _without(keyword: str, is_dropped: Callable[[dict[str, Any]], bool], schema: Any) -> Any:
    """Drop a keyword from the parts of a schema for which a function returns True."""
    if isinstance(schema, list):
        return [_without(keyword, is_dropped, inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = keyword if is_dropped(schema) else None
    return {
        name: inner if name in _VALUES else _without(keyword, is_dropped, inner)
        for name, inner in schema.items()
        if name != dropped
    }


_VALUES: Final = ("default", "enum", "const", "examples")
"""Keywords whose values are not schemas."""


def without_root_reference(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace a reference at the root of a schema: up to 2025-11-25 the root must have a type."""
    prefix = "#/$defs/"
    reference = schema.get("$ref", "")
    if not reference.startswith(prefix):
        return schema
    definitions = dict(schema["$defs"])
    name = reference.removeprefix(prefix)
    root = {**definitions[name], **{member: part for member, part in schema.items() if member not in ("$ref", "$defs")}}
    # A type that refers to itself still needs its definition.
    if not any(reference in _references(part) for part in definitions.values()):
        del definitions[name]
    return {**root, "$defs": definitions} if definitions else root


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        schema = list(schema.values())
    if isinstance(schema, list):
        for inner in schema:
            yield from _references(inner)


def without_time_formats(schema: Any) -> Any:
    """Let a schema also allow dates and times without a time zone, which RFC 3339 does not."""
    # Pydantic accepts and writes both, with the format of RFC 3339 in its schema.
    return _without(
        "format", lambda part: part.get("type") == "string" and part.get("format") in ("date-time", "time"), schema
    )
