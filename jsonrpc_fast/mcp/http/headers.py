"""The headers of MCP's Streamable HTTP, without IO: their names, how values are written, and which tools ask for more.

Source: specification 2026-07-28, "Streamable HTTP", "Request Metadata".
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

PROTOCOL_VERSION_HEADER: Final = "mcp-protocol-version"
SESSION_ID_HEADER: Final = "mcp-session-id"
LAST_EVENT_ID_HEADER: Final = "last-event-id"
METHOD_HEADER: Final = "mcp-method"
NAME_HEADER: Final = "mcp-name"
PARAM_HEADER_PREFIX: Final = "mcp-param-"

NAME_MEMBERS: Final[Mapping[str, str]] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/cancel": "taskId",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
}
"""By method: the member of the params that the header `Mcp-Name` repeats; for tasks see SEP-2663."""

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that a header may repeat, and the smallest one without its sign."""

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PLAIN: Final = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
_BASE64: Final = "=?base64?"
_BASE64_END: Final = "?="
_HEADER_KEY: Final = "x-mcp-header"
_TYPES: Final = ("string", "integer", "boolean")
_SCHEMAS: Final = frozenset(
    (
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    )
)
_SCHEMA_LISTS: Final = frozenset(("allOf", "anyOf", "items", "oneOf", "prefixItems"))
_SCHEMA_MAPS: Final = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties"))

Path = tuple[str, ...]


def encode_value(value: str | int | bool) -> str:
    """Return a value as text for a header: as it is if that is safe, otherwise in Base64 between markers."""
    text = value if isinstance(value, str) else str(value).lower()
    if _PLAIN.fullmatch(text) and not (text.startswith(_BASE64) and text.endswith(_BASE64_END)):
        return text
    return f"{_BASE64}{base64.b64encode(text.encode()).decode()}{_BASE64_END}"


def decode_value(text: str) -> str:
    """Return the value that `encode_value` wrote.

    Raises:
        ValueError: The text is not a value: it has forbidden characters, or its Base64 is invalid.
    """
    if not _PLAIN.fullmatch(text):
        raise ValueError("the header has forbidden characters")
    if not (text.startswith(_BASE64) and text.endswith(_BASE64_END)):
        return text
    try:
        return base64.b64decode(text[len(_BASE64) : -len(_BASE64_END)], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError("the Base64 of the header is invalid") from None


def parameter_headers(schema: Any) -> dict[str, Path]:
    """Return the headers that the input schema of a tool asks for.

    Args:
        schema: The schema, decoded.

    Returns:
        By the name of the header, in lower case: the names of the properties that lead to its value in the arguments.

    Raises:
        ValueError: An annotation `x-mcp-header` breaks the rules of the specification, so the tool must not be used.
    """
    found: dict[str, Path] = {}
    for path, part in _parts(schema):
        if _HEADER_KEY not in part:
            continue
        name = part[_HEADER_KEY]
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ValueError(f"{_HEADER_KEY} must be the name of a header")
        if not path:
            raise ValueError(f"{_HEADER_KEY} must belong to a property that only `properties` lead to")
        if part.get("type") not in _TYPES:
            raise ValueError(f"{_HEADER_KEY} must belong to a string, an integer or a boolean")
        header = PARAM_HEADER_PREFIX + name.lower()
        if header in found:
            raise ValueError(f"two properties have the same {_HEADER_KEY}")
        found[header] = path
    return found


def parameter_values(headers: Mapping[str, Path], arguments: Any) -> dict[str, str]:
    """Return the values of the headers for the arguments of a call. A header without a value is left out.

    Args:
        headers: As `parameter_headers` returns them.
        arguments: The arguments, decoded.
    """
    values = {}
    for header, path in headers.items():
        value = arguments
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, str) or (isinstance(value, int) and abs(value) <= MAX_SAFE_INTEGER):
            values[header] = encode_value(value)
    return values


def _parts(schema: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each subschema with the properties that lead to it; () if something else leads to it."""
    left: list[tuple[Path | None, Any]] = [((), schema)]
    while left:
        path, part = left.pop()
        if not isinstance(part, dict):
            continue
        yield path or (), part
        for keyword, value in part.items():
            if keyword == "properties" and isinstance(value, dict):
                left += [(None if path is None else (*path, name), sub) for name, sub in value.items()]
            elif keyword in _SCHEMA_MAPS and isinstance(value, dict):
                left += [(None, sub) for sub in value.values()]
            elif keyword in _SCHEMA_LISTS and isinstance(value, list):
                left += [(None, sub) for sub in value]
            elif keyword in _SCHEMAS:
                left.append((None, value))
