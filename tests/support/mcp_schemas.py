"""The official MCP schemas, and checks against them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs

from jsonrpc_fast.mcp.protocol.records import Record, members_of


def definitions_of(corpora: Path, version: str) -> dict[str, Any]:
    schema = json.loads((corpora / f"mcp/schema/{version}.schema.json").read_text())
    return schema.get("definitions") or schema["$defs"]  # type: ignore[no-any-return]


def schema_of(corpora: Path, version: str, name: str, **options: Any) -> jsonschema_rs.Validator:
    definitions = definitions_of(corpora, version)
    keyword = "definitions" if version < "2025-11-25" else "$defs"
    draft = jsonschema_rs.Draft7Validator if keyword == "definitions" else jsonschema_rs.Draft202012Validator
    return draft({"$ref": f"#/{keyword}/{name}", keyword: definitions}, offline=True, **options)


def check_members(cls: type[Record], schema: dict[str, Any], definitions: dict[str, Any], version: str) -> None:
    """Check that a record and the records in it have the members of their schemas."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    members = members_of(cls, version)
    properties = schema.get("properties", {})
    assert members.keys() == properties.keys()
    assert {name for name, member in members.items() if member.is_required} == set(schema.get("required", []))
    for name, member in members.items():
        for kind in (member.type, *get_args(member.type)):
            if isinstance(kind, type) and issubclass(kind, Record):
                check_members(kind, properties[name].get("items", properties[name]), definitions, version)


class Schemas:
    """Checks values against the official schemas of all revisions."""

    def __init__(self, corpora: Path) -> None:
        self._corpora = corpora

    def check(self, version: str, kind: str, value: Any) -> None:
        schema_of(self._corpora, version, kind, validate_formats=False).validate(value)
