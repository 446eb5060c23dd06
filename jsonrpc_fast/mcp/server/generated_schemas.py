"""Generated JSON Schemas, rewritten so that more clients understand them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final


def without_closed_tuples(schema: Any) -> Any:
    """A schema without `"items": false`, which many clients cannot read, where `maxItems` means the same."""
    if isinstance(schema, list):
        return [without_closed_tuples(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    is_closed = schema.get("items") is False and schema.get("maxItems") == len(schema.get("prefixItems", ()))
    return {
        name: inner if name in _VALUES else without_closed_tuples(inner)
        for name, inner in schema.items()
        if not (is_closed and name == "items")
    }


_VALUES: Final = ("default", "enum", "const", "examples")
"""Keywords whose values are no schemas."""


def without_root_reference(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema whose root is not a reference: up to 2025-11-25 the root must have a type."""
    prefix = "#/$defs/"
    reference = schema.get("$ref", "")
    if not reference.startswith(prefix):
        return schema
    definitions = dict(schema["$defs"])
    name = reference.removeprefix(prefix)
    root = {**definitions[name], **{member: part for member, part in schema.items() if member not in ("$ref", "$defs")}}
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
    """A schema that also allows dates and times without a time zone, which RFC 3339 does not."""
    if isinstance(schema, list):
        return [without_time_formats(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    is_time = schema.get("type") == "string" and schema.get("format") in ("date-time", "time")
    return {
        name: inner if name in _VALUES else without_time_formats(inner)
        for name, inner in schema.items()
        if not (is_time and name == "format")
    }
