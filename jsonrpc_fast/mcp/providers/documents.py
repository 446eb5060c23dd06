"""Schemas in documents of OpenRPC and OpenAPI, as JSON Schemas of tools.

Rules:
  - References are followed only within the document; nothing is ever fetched.
  - A schema of OpenAPI 3.0 is written as in 2020-12: `nullable`, and `exclusiveMinimum: true`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from ...support import pointer_parts, reference_target
from ...types import UNSET
from ..protocol.schemas import DATA_KEYWORDS, SCHEMA_MAPS
from ..server.server import Server

_LIMITS: Final = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def tool_name(name: str) -> str:
    """Return the name of a tool for a name in a document: characters that a tool name must not contain become `_`."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_")[:128]


def description_of(item: Mapping[str, Any]) -> str | None:
    """Return the description of a tool for a method or an operation: its summary and its longer description."""
    texts = [item.get("summary"), item.get("description")]
    return "\n\n".join(dict.fromkeys(text for text in texts if isinstance(text, str) and text)) or None


class Document:
    """A document whose parts refer to each other.

    Args:
        content: The document, decoded.

    Raises:
        TypeError: `content` is not a mapping.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        if not isinstance(content, Mapping):
            raise TypeError(f"the document must be a mapping, not {type(content).__name__}")
        self._content = content

    def server(self, name: str) -> Server:
        """Return a server named after the service; without a title in the document, by `name`."""
        info = self._content.get("info")
        info = info if isinstance(info, dict) else {}
        return Server(str(info.get("title") or name), str(info.get("version") or "0"))

    def resolved(self, value: Any) -> dict[str, Any]:
        """Return the object that a value is or refers to.

        Raises:
            ValueError: It is not an object, or a reference leads nowhere, out of the document or back to itself.
        """
        # Bounded, because references may form a cycle.
        for _ in range(64):
            if not isinstance(value, dict):
                raise ValueError("a part of the document must be an object")
            if not isinstance(reference := value.get("$ref"), str):
                return value
            value = self._found(reference)
        raise ValueError("the references form a cycle")

    def object_schema(self, properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
        """Return the schema of an object with these properties and no others.

        Args:
            properties: Schemas of the document, by name.
            required: The names that are required.

        Raises:
            ValueError: A schema or a reference is invalid.
        """
        names: dict[str, str] = {}  # of the definitions, by reference
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: self._schema(each, names) for name, each in properties.items()},
            "additionalProperties": False,
        }
        if required:
            schema["required"] = required
        definitions: dict[str, Any] = {}
        # A definition may refer to others, which this loop adds to `names`.
        while len(definitions) < len(names):
            for reference, name in list(names.items()):
                if name not in definitions:
                    definitions[name] = self._schema(self._found(reference), names)
        return {**schema, "$defs": definitions} if definitions else schema

    def _found(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            raise ValueError("a reference to another document is not supported")
        found = reference_target(self._content, reference)
        if found is UNSET:
            raise ValueError("the target of a reference does not exist")
        return found

    def _schema(self, schema: Any, names: dict[str, str]) -> Any:
        """Return a schema whose references lead to definitions, whose names are added to `names`."""
        if isinstance(schema, list):
            return [self._schema(each, names) for each in schema]
        if not isinstance(schema, dict):
            return schema
        made: dict[str, Any] = {}
        for name, value in schema.items():
            if name == "$ref" and isinstance(value, str):
                if value not in names:
                    names[value] = _definition_name(value, {*names.values()})
                made[name] = f"#/$defs/{names[value]}"
            elif name in SCHEMA_MAPS and isinstance(value, dict):
                made[name] = {key: self._schema(each, names) for key, each in value.items()}
            elif name in DATA_KEYWORDS:
                made[name] = value
            elif name in _LIMITS and isinstance(value, bool):
                # OpenAPI 3.0 has the limit in `minimum`, and a flag that it is exclusive.
                if value and _LIMITS[name] in schema:
                    made[name] = schema[_LIMITS[name]]
            elif name != "nullable":
                made[name] = self._schema(value, names)
        return _with_null(made) if schema.get("nullable") is True else made


def _definition_name(reference: str, taken: set[str]) -> str:
    base = tool_name(pointer_parts(unquote(reference))[-1]) or "schema"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    return name


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}
