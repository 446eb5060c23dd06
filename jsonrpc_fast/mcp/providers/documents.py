"""Tools from a document of OpenRPC, each method one; and the schemas in documents of OpenRPC and OpenAPI.

    async with AsyncHttpClient("https://example.org/rpc") as client:
        server.mount(openrpc_server(await client.call("rpc.discover"), client.call), prefix="shop")

Rules:
  - An error response becomes a result with `isError`, with its code and message. Any other failure is logged; the
    client gets no details.
  - A result that is not an object has no structured content, and none is checked against the document; params are.
  - References are followed only within the document; nothing is ever fetched.
  - A schema of OpenAPI 3.0 is written as in 2020-12: `nullable`, and `exclusiveMinimum: true`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from ...errors import RpcError
from ...support import check_callable, pointer_parts, reference_target
from ...types import UNSET
from ..protocol.schemas import DATA_KEYWORDS, SCHEMA_MAPS
from ..server.blocks import ToolError
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


def openrpc_server(
    document: Mapping[str, Any],
    call: Callable[[str, Any], Awaitable[Any]],
    *,
    include: Callable[[str, Mapping[str, Any]], bool] | None = None,
) -> Server:
    """Return a server whose tools are the methods of a service, to be mounted or served.

    Args:
        document: The document of OpenRPC 1, decoded.
        call: Calls the service, such as the method `call` of a `Session` or an `AsyncHttpClient`.
        include: Takes the name of a tool and the method of the document; returns whether to offer it. By default all
            are offered.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The document is invalid, two methods have one name, or a schema cannot be used. The text names the
            method.
    """
    check_callable("call", call, may_be_none=False)
    check_callable("include", include)
    parts = Document(document)
    server = parts.server("OpenRPC")
    methods = document.get("methods")
    if not isinstance(methods, list):
        raise ValueError("the document has no methods")
    for item in methods:
        method = parts.resolved(item)
        if not isinstance(name := method.get("name"), str):
            raise ValueError("a method of the document has no name")
        # For example `rpc.discover`, which describes the service.
        if name.startswith("rpc.") or (include is not None and not include(tool_name(name), method)):
            continue
        try:
            _add(server, parts, method, call)
        except (TypeError, ValueError) as error:
            raise ValueError(f"method {name[:128]!a}: {error}") from error
    return server


def _add(
    server: Server, parts: Document, method: Mapping[str, Any], call: Callable[[str, Any], Awaitable[Any]]
) -> None:
    name = str(method["name"])
    params = [parts.resolved(each) for each in method.get("params") or ()]
    names = [str(each["name"]) for each in params if isinstance(each.get("name"), str)]
    if len(names) != len(params) or len({*names}) != len(names):
        raise ValueError("each param must have a unique name")
    properties: dict[str, Any] = {}
    for each in params:
        schema = each.get("schema", {})
        description = each.get("description") or each.get("summary")
        if isinstance(schema, dict) and isinstance(description, str):
            schema = {"description": description, **schema}
        properties[each["name"]] = schema
    required = [each["name"] for each in params if each.get("required") is True]
    is_by_position = method.get("paramStructure") == "by-position"

    async def run(**arguments: Any) -> Any:
        given: Any = arguments
        if is_by_position:
            # Up to the last given param; missing ones before it are null.
            count = max((index + 1 for index, each in enumerate(names) if each in arguments), default=0)
            given = [arguments.get(each) for each in names[:count]]
        try:
            return await call(name, given)
        except RpcError as error:
            # The model gets the reason, which often helps it to correct its call.
            raise ToolError(f"error {error.code}: {error.message}") from error

    schema = parts.object_schema(properties, required)
    server.tool(tool_name(name), description=description_of(method), input_schema=schema)(run)
