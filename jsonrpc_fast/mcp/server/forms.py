"""Forms for `Context.elicit`: made from a type, filled in by the user, and checked.

Forms have no null: None is removed from the type of a field. Errors name the field but never show the user's input.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final, Generic, Literal, TypeVar, cast, get_args

import msgspec

from ...handlers.params import Misfit, MsgspecType, PydanticType, type_of
from ...handlers.schemas import value_schema
from ...support import pointer_parts
from ..protocol.schemas import Schema, SchemaFault
from .blocks import ToolError

T = TypeVar("T")

Action = Literal["accept", "decline", "cancel"]
_PLAIN: Final = ("string", "number", "integer", "boolean")


class Elicited(msgspec.Struct, Generic[T], frozen=True):
    """A user's reaction to a form or a URL.

    Attributes:
        action: "accept", "decline" (the user said no) or "cancel" (the user dismissed the question).
        content: The user's input; None unless the user accepted a form.
    """

    action: Action
    content: T | None = None


class InvalidInput(ToolError, ValueError):
    """The client's response to a form is invalid. A tool that does not catch it fails with the text, which says why."""


def without_unset(members: dict[str, Any], faults: list[SchemaFault], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return members without those that hosts send for what is not set, `""` and null, where a schema refuses them."""
    refused = {parts[0] for parts in (pointer_parts(fault.path) for fault in faults) if len(parts) == 1}
    unset = {name for name in refused if members.get(name, 0) in ("", None)} - {*schema.get("required", ())}
    return {name: value for name, value in members.items() if name not in unset} if unset else members


class Form:
    """A form: a schema, and the type that its contents are converted to.

    Args:
        value_type: The type of the contents; None: they stay dicts.

    Raises ValueError: the schema is invalid.
    """

    __slots__ = ("_schema", "_type", "schema")

    def __init__(self, schema: Mapping[str, Any], value_type: MsgspecType | PydanticType | None) -> None:
        self.schema: dict[str, Any] = dict(schema)
        self._schema = Schema(self.schema)
        self._type = value_type

    def read(self, content: Any) -> Any:
        """Check the user's input, and convert it to the type of the contents.

        Raises InvalidInput: it does not match the form.
        """
        faults = self._schema.faults(content)
        if faults and isinstance(content, dict):
            content = without_unset(content, faults, self.schema)
            faults = self._schema.faults(content)
        if faults:
            listed = "; ".join(f"{fault.path or '/'}: {fault.message}" for fault in faults)
            raise InvalidInput(f"the content of the form is invalid: {listed}")
        if self._type is None:
            return content
        try:
            return self._type.convert(content, strict=True)
        except Misfit:
            pass  # not chained: the text of this error may show the value
        raise InvalidInput("the content of the form does not match its type")


def form_of(type_: Any) -> Form:
    """Return the form of a dataclass, TypedDict, msgspec Struct or pydantic model, or of a JSON Schema (a dict).

    Raises:
        TypeError: The type is not supported, or a field of it cannot be in a form.
        ValueError: The schema is invalid.
    """
    return Form(type_, None) if isinstance(type_, Mapping) else _form_of_type(type_)


@functools.lru_cache(maxsize=256)
def _form_of_type(type_: Any) -> Form:
    value_type = type_of(type_)
    return Form(_form_schema(value_schema(value_type)), value_type)


def action_of(result: Mapping[str, Any]) -> Action:
    """Return the action in a client's response. Raises InvalidInput: the response has no valid action."""
    action = result.get("action")
    actions = get_args(Action)
    if action not in actions:
        raise InvalidInput(f"the client's response to elicitation/create is invalid: /action must be one of {actions}")
    return cast("Action", action)


def _form_schema(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("type") != "object" or "properties" not in schema:
        raise TypeError("a form must be a dataclass, a TypedDict, a Struct or a model")
    # Clients do not follow references, so they are replaced.
    definitions = schema.get("$defs", {})
    fields = {}
    for name, part in schema["properties"].items():
        fields[name] = _field(part, definitions)
        if not _is_field(fields[name]):
            raise TypeError(f"the field {name} of a form must be a string, a number, a boolean or an enum of strings")
    # Without `$defs` and `additionalProperties`, which the specification does not allow in a form.
    return {"type": "object", "properties": fields, "required": list(schema.get("required", ()))}


def _field(part: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a field, without references and without null."""
    part = dict(part)
    if "$ref" in part:
        target = definitions.get(part.pop("$ref").rpartition("/")[2], {})
        part = {**target, **part}
    if "anyOf" in part:
        choices = [choice for choice in part["anyOf"] if choice != {"type": "null"}]
        # `int | None` is a number in a form: the user leaves the field out.
        if len(choices) == 1:
            del part["anyOf"]
            part = {**_field(choices[0], definitions), **part}
    if isinstance(part.get("enum"), list):
        part["enum"] = [value for value in part["enum"] if value is not None]
    if isinstance(part.get("const"), str):
        # The specification has `enum`, but not `const`, so clients may not know `const`.
        part["enum"] = [part.pop("const")]
    if "enum" in part and all(isinstance(value, str) for value in part["enum"]):
        part["type"] = "string"
    if isinstance(part.get("items"), dict):
        part["items"] = _field(part["items"], definitions)
    if part.get("default", part) is None:
        del part["default"]
    if part.get("format") not in ("date", "date-time", "email", "uri"):
        part.pop("format", None)
    return part


def _is_field(part: dict[str, Any]) -> bool:
    if part.get("type") == "array":
        items = part.get("items", {})
        return items.get("type") == "string" and "enum" in items
    return part.get("type") in _PLAIN and (part["type"] == "string" or "enum" not in part)
