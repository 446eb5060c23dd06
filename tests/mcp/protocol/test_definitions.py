"""The records of tools, prompts and resources."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from jsonrpc_fast.mcp.protocol.definitions import Annotations, Prompt, Resource, ResourceTemplate, Tool, ToolAnnotations
from jsonrpc_fast.mcp.protocol.records import Record
from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS

from ...support.mcp_schemas import check_members, definitions_of
from ...support.tables import rows


@rows("version", RELEASED_VERSIONS)
@rows("cls", [Prompt, Resource, ResourceTemplate, Tool])
def test_members_match_the_schema(corpora: Path, cls: type[Record], version: str) -> None:
    definitions = definitions_of(corpora, version)
    check_members(cls, definitions[cls.__name__], definitions, version)


@rows("version", RELEASED_VERSIONS[1:])
def test_tool_annotations_match_the_schema(corpora: Path, version: str) -> None:
    definitions = definitions_of(corpora, version)
    check_members(ToolAnnotations, definitions["ToolAnnotations"], definitions, version)


def test_official_resources_round_trip(corpora: Path) -> None:
    examples = json.loads((corpora / "mcp/examples-2026-07-28.json").read_text())
    for name, list_name, cls in (
        ("ListResourcesResult/resources-list-with-cursor-and-ttl.json", "resources", Resource),
        (
            "ListResourceTemplatesResult/resource-templates-list-with-cursor-and-ttl.json",
            "resourceTemplates",
            ResourceTemplate,
        ),
    ):
        items = json.loads(examples[name])[list_name]
        assert items
        for item in items:
            assert json.dumps(cls.from_dict(item, "2026-07-28").to_dict()) == json.dumps(item)
    one = json.loads(examples["Resource/file-resource-with-annotations.json"])
    assert Resource.from_dict(one).to_dict() == one


def test_priority_may_be_written_as_an_integer() -> None:
    assert Annotations.from_dict({"priority": 1}).to_dict() == {"priority": 1}


@rows("priority", [math.nan, math.inf])
def test_a_priority_that_json_does_not_have_is_refused(priority: float) -> None:
    with pytest.raises(ValueError, match="priority must be finite"):
        Annotations(priority=priority)
