"""JSON Schemas (2020-12) of annotated types, written so that many clients understand them.

Rules:
  - There is a `type` beside each `enum` and `const`, because Gemini's API refuses a tool whose enum has none.
    Its values are in the order of their definition; msgspec sorts them.
  - An array has `items`, a tuple too, because VS Code and OpenAI's API refuse an array without.
  - `$defs` has no definition that nothing refers to.
  - `inlined` replaces references, which many hosts drop or refuse, except where a type refers to itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from ..errors import EncodeError
from .json_values import to_json
from .params.annotations import enum_values, parts_of
from .params.arguments import Arguments, last_line
from .params.types import MsgspecType, PydanticType, ValueType, msgspec_module

__all__ = ["arguments_schema", "inlined", "result_schema", "value_schema"]

_msgspec = msgspec_module()

DEFINITIONS: Final = "#/$defs/"
"""How a reference to a definition begins."""


def value_schema(type_: ValueType) -> dict[str, Any]:
    """Return the schema of values that a type converts."""
    return _portable(without_root_reference(type_.schema()), [type_])


def result_schema(type_: ValueType) -> dict[str, Any]:
    """Return the schema of values that were written as JSON."""
    schema = without_root_reference(type_.result_schema())
    if isinstance(type_, PydanticType):
        schema = without_time_formats(schema)
    return _portable(schema, [type_])


def arguments_schema(arguments: Arguments) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the arguments of a function: an object with a member for each.

    Raises:
        TypeError: Two different types have the same name, or a type has no schema.
    """
    defaults = {name: arguments.default_of(name) for name in arguments.parameters if name not in arguments.required}
    try:
        return _object_schema(arguments.types, defaults)
    except Exception as error:  # msgspec and pydantic raise many kinds
        raise TypeError(f"the types of the parameters are not supported: {last_line(error)}") from error


def _object_schema(fields: Mapping[str, ValueType], defaults: Mapping[str, Any]) -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    msgspecs = {name: field.annotation for name, field in fields.items() if isinstance(field, MsgspecType)}
    written, components = _msgspec.json.schema_components(msgspecs.values(), ref_template="#/$defs/{name}")
    schemas |= zip(msgspecs, written, strict=True)
    # Before they are compared with those of pydantic, which has the order and the types.
    orders = _orders_of(fields.values())
    definitions |= {name: _rewritten(part, lambda each: _typed(each, orders)) for name, part in components.items()}
    pydantics = [
        (name, "validation", field.adapter) for name, field in fields.items() if isinstance(field, PydanticType)
    ]
    if pydantics:
        inner, outer = type(pydantics[0][2]).json_schemas(pydantics)
        schemas |= {name: schema for (name, _), schema in inner.items()}
        for name, schema in outer.get("$defs", {}).items():
            schema = _rewritten(schema, lambda each: _typed(each, orders))
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
        "properties": {name: dict(schemas[name]) for name in fields},
        "required": [name for name in fields if name not in defaults],
        "additionalProperties": False,  # an argument that the function does not have is refused
    }
    return _portable({**schema, "$defs": definitions} if definitions else schema, fields.values())


def _portable(schema: dict[str, Any], types: Iterable[ValueType]) -> dict[str, Any]:
    """Return a schema in the form that this module promises, but with its references."""
    orders = _orders_of(types)
    portable: dict[str, Any] = _rewritten(without_closed_tuples(schema), lambda part: _typed(part, orders))
    return _without_unused(portable)


def _orders_of(types: Iterable[ValueType]) -> dict[frozenset[Any], dict[Any, int]]:
    """Return the values of the enumerations and Literals in types, in order, by their sets."""
    # The values in their order, by the set of values: two enums may have the same value.
    orders: dict[frozenset[Any], dict[Any, int]] = {}
    for type_ in types:
        if isinstance(type_, MsgspecType):
            for part, _ in parts_of(type_.annotation):
                for value in (values := enum_values(part) or ()):
                    key = frozenset([(type(each), each) for each in values])
                    orders.setdefault(key, {}).setdefault((type(value), value), len(orders.get(key, ())))
    return orders


def _typed(part: dict[str, Any], orders: Mapping[frozenset[Any], Mapping[Any, int]]) -> dict[str, Any]:
    """Return a part of a schema with the types of its values, which are in the order of their definition."""
    if part.get("type") == "array" and "items" not in part:
        alternatives = [dict(each) for each in part.get("prefixItems", ())]
        unique = [each for index, each in enumerate(alternatives) if each not in alternatives[:index]]
        part = {**part, "items": unique[0] if len(unique) == 1 else {"anyOf": unique} if unique else {}}
    values = part["enum"] if isinstance(part.get("enum"), list) else [part["const"]] if "const" in part else None
    if not values or any(isinstance(value, (list, dict)) for value in values):
        return part
    if "enum" in part:
        keys = [(type(value), value) for value in values]
        order = orders.get(frozenset(keys))
        if order is None:  # a union of several Literals is one enum
            order = {
                key: index for index, key in enumerate(dict.fromkeys(itertools.chain.from_iterable(orders.values())))
            }
        values = [value for _, value in sorted(keys, key=lambda key: order.get(key, len(order)))]
        part = {**part, "enum": values}
    if "type" in part:
        return part
    kinds = list(dict.fromkeys([_KINDS[type(value)] for value in values]))
    if len(kinds) == 1:
        return {"type": kinds[0], **part}
    # A list of types is not taken everywhere.
    del part["enum"]
    chosen = []
    for kind in kinds:
        own = [value for value in values if _KINDS[type(value)] == kind]
        chosen.append({"type": kind} if kind == "null" else {"type": kind, "enum": own})
    return {"anyOf": chosen, **part}


_KINDS: Final = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def _rewritten(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a copy of a schema in which a function has changed each part, the innermost first."""
    if isinstance(schema, list):
        return [_rewritten(inner, change) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    made = {}
    for name, inner in schema.items():
        if name in _VALUES:
            made[name] = inner
        elif name in _MAPS and isinstance(inner, dict):
            made[name] = {key: _rewritten(each, change) for key, each in inner.items()}
        else:
            made[name] = _rewritten(inner, change)
    return change(made)


_MAPS: Final = ("properties", "patternProperties", "$defs", "dependentSchemas", "mapping")
"""Keywords whose members are named by the user."""


def _without_unused(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop the definitions that nothing refers to."""
    definitions: dict[str, Any] = schema.get("$defs", {})
    if not definitions:
        return schema
    rest = {name: part for name, part in schema.items() if name != "$defs"}
    used: dict[str, None] = {}
    waiting: list[Any] = [rest]
    while waiting:
        for reference in _references(waiting.pop()):
            name = reference.removeprefix(DEFINITIONS)
            if name in definitions and name not in used:
                used[name] = None
                waiting.append(definitions[name])
    kept = {name: part for name, part in definitions.items() if name in used}
    return {**rest, "$defs": kept} if kept else rest


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without references, except those of types that refer to themselves.

    It also drops `propertyNames` and the `discriminator` of OpenAPI, whose constraints the conversion checks: hosts do
    not know them. A schema that would become larger than MAX_INLINED parts keeps its references.
    """
    definitions: dict[str, Any] = schema.get("$defs", {})
    left = MAX_INLINED

    def inline(part: Any, inside: tuple[str, ...]) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise OverflowError
        if isinstance(part, list):
            return [inline(each, inside) for each in part]
        if not isinstance(part, dict):
            return part
        name = part["$ref"].removeprefix(DEFINITIONS) if isinstance(part.get("$ref"), str) else None
        beside = {key: each for key, each in part.items() if key != "$ref"}
        if name is not None and name in definitions and name not in recursive:
            return {**inline(definitions[name], (*inside, name)), **inline(beside, inside)}
        if name is not None and beside:
            # Gemini's API allows nothing beside a reference.
            return {"anyOf": [{"$ref": part["$ref"]}], **inline(beside, inside)}
        made = {}
        for key, each in part.items():
            if key in _VALUES:
                made[key] = each
            elif key in _MAPS and isinstance(each, dict):
                made[key] = {member: inline(inner, inside) for member, inner in each.items()}
            elif key not in ("propertyNames", "discriminator"):
                made[key] = inline(each, inside)
        return made

    recursive = {name for name in definitions if _reaches_itself(name, definitions)}
    try:
        return _without_unused(inline(schema, ()))
    except OverflowError:
        return schema


MAX_INLINED: Final = 20_000


def _reaches_itself(name: str, definitions: Mapping[str, Any]) -> bool:
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        for reference in _references(definitions.get(waiting.pop(), {})):
            found = reference.removeprefix(DEFINITIONS)
            if found == name:
                return True
            if found not in seen:
                seen.add(found)
                waiting.append(found)
    return False


def without_closed_tuples(schema: Any) -> Any:
    """Drop `"items": false` from a schema where `maxItems` has the same effect, because many clients cannot read it."""
    return _without(
        "items",
        lambda part: part.get("items") is False and part.get("maxItems") == len(part.get("prefixItems", ())),
        schema,
    )


def _without(keyword: str, is_dropped: Callable[[dict[str, Any]], bool], schema: Any) -> Any:
    """Drop a keyword from the parts of a schema for which a function returns True."""

    def change(part: dict[str, Any]) -> dict[str, Any]:
        return {name: inner for name, inner in part.items() if name != keyword} if is_dropped(part) else part

    return _rewritten(schema, change)


_VALUES: Final = ("default", "enum", "const", "examples")
"""Keywords whose values are not schemas."""


def without_root_reference(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace a reference at the root of a schema: up to 2025-11-25 the root must have a type."""
    reference = schema.get("$ref", "")
    if not reference.startswith(DEFINITIONS):
        return schema
    definitions = dict(schema["$defs"])
    name = reference.removeprefix(DEFINITIONS)
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
