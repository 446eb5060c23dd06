"""The rules of models' APIs and of hosts for the schemas of tools, as far as they are published.

Each rule is a fact with its source. A host may convert schemas before it sends them; these rules are for a schema as it
is. `faults(schema)` returns the faults of an input schema by all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

# https://ai.google.dev/api/caching#Schema and #FunctionDeclaration (`parametersJsonSchema`): the keywords that are
# read; beside `$ref` no keyword but those that begin with `$` may stand; `enum` is for strings and numbers.
GEMINI_KEYWORDS: Final = {
    *("$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems"),
    *("minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required"),
    *("default", "nullable", "minLength", "maxLength", "pattern", "minProperties", "maxProperties", "propertyOrdering"),
}
# Keywords that are only ignored: the description says the same, or the server checks it.
IGNORED: Final = {"const", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems", "contentEncoding"}
# https://platform.claude.com/docs: property names, and no combination at the top level (anthropics/claude-code#5973,
# #44788).
ANTHROPIC_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
COMBINATIONS: Final = ("oneOf", "anyOf", "allOf", "enum", "not", "$ref")
TYPES: Final = ("string", "integer", "number", "boolean", "array", "object", "null")


def faults(schema: dict[str, Any]) -> list[str]:
    """Return the faults of the input schema of a tool, with the API or the host that refuses it."""
    found = []
    if schema.get("type") != "object" or "properties" not in schema:
        found.append("OpenAI, Anthropic: the schema must be an object with properties")
    found += [f"OpenAI, Anthropic: {name} at the top level" for name in COMBINATIONS if name in schema]
    for path, part in parts(schema, ""):
        found += [f"{path}: {fault}" for fault in _faults(part)]
    used = {part["$ref"] for _, part in parts(schema, "") if "$ref" in part}
    defined = {f"#/$defs/{name}" for name in schema.get("$defs", {})}
    found += [f"dangling {reference}" for reference in sorted(used - defined)]
    found += [f"unused {reference}" for reference in sorted(defined - used)]
    # VS Code, Claude Desktop and Bedrock drop what is behind a reference (fastmcp#2808, python-sdk#2586): only types
    # that refer to themselves may have one.
    found += [
        f"{reference} could be inlined" for reference in sorted(used & defined) if not _is_ring(schema, reference)
    ]
    return found


def _faults(part: dict[str, Any]) -> Iterator[str]:
    # gemini-cli#4400, notion-mcp-server#42: "enum: only allowed for STRING type" where the type is missing.
    if ("enum" in part or "const" in part) and part.get("type") not in ("string", "integer", "number", "boolean"):
        yield "Gemini: an enum or const needs a type beside it"
    values = part.get("enum", [])
    if any(isinstance(value, (list, dict)) or value is None for value in values):
        yield "Gemini: a value of an enum must be a string or a number"
    # microsoft/vscode#246119: "tool parameters array type must have items"; OpenAI: "array schema missing items".
    if part.get("type") == "array" and not isinstance(part.get("items"), dict):
        yield "VS Code, OpenAI: an array must have items, an object"
    if "type" in part and part["type"] not in TYPES:
        yield "Gemini: the type must be one name"
    if "$ref" in part and any(not name.startswith("$") for name in part):
        yield "Gemini: nothing may stand beside $ref"
    if isinstance(part.get("additionalProperties"), dict) and not part["additionalProperties"]:
        yield "additionalProperties without content"
    for name in part.keys() - GEMINI_KEYWORDS - IGNORED:
        yield f"unknown keyword {name}"
    for name in part.get("properties", {}):
        if not ANTHROPIC_NAME.fullmatch(name):
            yield f"Anthropic: the name {name!r}"
    if not set(part.get("required", ())) <= set(part.get("properties", {})):
        yield "OpenAI: required names an unknown property"


def parts(schema: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all parts of a schema that are schemas, with their paths."""
    yield path, schema
    for name in ("properties", "$defs", "patternProperties"):
        for key, part in schema.get(name, {}).items():
            yield from parts(part, f"{path}/{name}/{key}")
    for name in ("items", "additionalProperties", "propertyNames", "not"):
        if isinstance(schema.get(name), dict):
            yield from parts(schema[name], f"{path}/{name}")
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for index, part in enumerate(schema.get(name, ())):
            yield from parts(part, f"{path}/{name}/{index}")


def _is_ring(schema: dict[str, Any], reference: str) -> bool:
    seen: set[str] = set()
    waiting = [reference]
    while waiting:
        part = schema["$defs"].get(waiting.pop().removeprefix("#/$defs/"), {})
        for _, inner in parts(part, ""):
            if inner.get("$ref") == reference:
                return True
            if "$ref" in inner and inner["$ref"] not in seen:
                seen.add(inner["$ref"])
                waiting.append(inner["$ref"])
    return False
