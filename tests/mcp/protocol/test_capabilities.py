"""Capability records against the official messages and schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.mcp.protocol.capabilities import (
    ClientCapabilities,
    Implementation,
    ServerCapabilities,
    required_capabilities,
)
from jsonrpc_fast.mcp.protocol.records import Record
from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS

from ...support.mcp_schemas import check_members, definitions_of, schema_of
from ...support.tables import rows

KEYS = {
    "clientInfo": "Implementation",
    "serverInfo": "Implementation",
    "io.modelcontextprotocol/clientInfo": "Implementation",
    "io.modelcontextprotocol/serverInfo": "Implementation",
    "io.modelcontextprotocol/clientCapabilities": "ClientCapabilities",
    "requiredCapabilities": "ClientCapabilities",
}
CLASSES: dict[str, type[Record]] = {
    "ClientCapabilities": ClientCapabilities,
    "ServerCapabilities": ServerCapabilities,
    "Implementation": Implementation,
}


def records_in(value: Any) -> list[tuple[str, Any]]:
    """Every capability object and implementation in a message, with the name of its definition."""
    found = []
    if isinstance(value, dict):
        for name, member in value.items():
            if name in KEYS:
                found.append((KEYS[name], member))
            elif name == "capabilities":
                found.append(("ClientCapabilities" if "clientInfo" in value else "ServerCapabilities", member))
            found += records_in(member)
    elif isinstance(value, list):
        for item in value:
            found += records_in(item)
    return found


def official_records(corpora: Path) -> list[tuple[str, str, Any]]:
    found = []
    for line in (corpora / "mcp/spec_messages.ndjson").read_text().splitlines():
        entry = json.loads(line)
        found += [(entry["version"], name, obj) for name, obj in records_in(json.loads(entry["raw"]))]
    for path, text in json.loads((corpora / "mcp/examples-2026-07-28.json").read_text()).items():
        obj = json.loads(text)
        name = path.partition("/")[0]
        found += [("2026-07-28", name, obj)] if name in CLASSES else []
        found += [("2026-07-28", *record) for record in records_in(obj)]
    return found


@pytest.mark.ci
def test_official_records_round_trip_and_match_their_schema(corpora: Path) -> None:
    records = official_records(corpora)
    assert len(records) > 60
    assert {version for version, _, _ in records} == set(RELEASED_VERSIONS)
    for version, name, obj in records:
        record = CLASSES[name].from_dict(obj, version)
        assert json.dumps(record.to_dict()) == json.dumps(obj)
        assert json.dumps(record.to_dict(version)) == json.dumps(obj)
        schema_of(corpora, version, name).validate(record.to_dict())


@rows("version", RELEASED_VERSIONS)
@rows("name", CLASSES)
def test_members_match_the_schema(corpora: Path, name: str, version: str) -> None:
    definitions = definitions_of(corpora, version)
    check_members(CLASSES[name], definitions[name], definitions, version)


FULL: dict[str, Any] = {
    "experimental": {"a.b": {"c": 1}},
    "roots": {"listChanged": True},
    "sampling": {"context": {}, "tools": {"more": 1}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {"list": {}, "cancel": {}, "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}},
    "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}},
}


@rows(
    ("obj", "path", "supported"),
    [
        (FULL, "roots", True),
        (FULL, "roots.listChanged", True),
        ({"roots": {"listChanged": False}}, "roots.listChanged", False),
        ({"roots": {}}, "roots.listChanged", False),
        (FULL, "tasks.requests.sampling.createMessage", True),
        (FULL, "tasks.requests.sampling.other", False),
        (FULL, "extensions", True),
        (FULL, "extensions.io.modelcontextprotocol/ui", True),
        (FULL, "extensions.io.modelcontextprotocol/tasks", False),
        (FULL, "experimental.a.b", True),
        ({}, "experimental.a.b", False),
        ({}, "elicitation.form", False),
        ({"elicitation": {}}, "elicitation.form", True),
        ({"elicitation": {}}, "elicitation.url", False),
        ({"elicitation": {"url": {}}}, "elicitation.form", False),
        ({"new": {"sub": True}}, "new.sub", True),
        ({"new": {"sub": True}}, "new.sub.more", False),
        ({"new": None}, "new", False),
    ],
)
def test_supports(obj: dict[str, Any], path: str, supported: bool) -> None:
    assert ClientCapabilities.from_dict(obj).supports(path) is supported


def test_required_capabilities(corpora: Path) -> None:
    for path, obj in {
        "elicitation": {"elicitation": {}},
        "elicitation.url": {"elicitation": {"url": {}}},
        "roots.listChanged": {"roots": {"listChanged": True}},
        "extensions.io.modelcontextprotocol/ui": {"extensions": {"io.modelcontextprotocol/ui": {}}},
        "tasks.requests.sampling.createMessage": {"tasks": {"requests": {"sampling": {"createMessage": {}}}}},
        "new.thing": {"new": {"thing": {}}},
    }.items():
        assert required_capabilities(path) == obj
        assert ClientCapabilities.from_dict(obj).supports(path)
        schema_of(corpora, "2026-07-28", "ClientCapabilities").validate(obj)


def test_a_required_flag_has_nothing_below_it() -> None:
    assert required_capabilities("roots.listChanged.more") == {"roots": {"listChanged": True}}
