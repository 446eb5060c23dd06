"""The revisions, checked against their schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import PRESETS
from jsonrpc_fast.mcp.protocol.versions import (
    DEFAULT_VERSIONS,
    HANDSHAKE_VERSIONS,
    MODERN_VERSIONS,
    RELEASED_VERSIONS,
    REVISIONS,
    VERSIONS,
    in_order,
    latest_common,
    since,
)

from ...support.mcp_schemas import definitions_of
from ...support.places import PACKAGE
from ...support.tables import rows


def methods_of(definitions: dict[str, Any], name: str) -> set[str]:
    found = set()
    for option in definitions.get(name, {"anyOf": []}).get("anyOf", [definitions.get(name)]):
        definition = definitions[option["$ref"].rpartition("/")[2]] if "$ref" in option else option
        found.add(definition["properties"]["method"]["const"])
    return found


def test_names() -> None:
    assert RELEASED_VERSIONS == ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
    assert RELEASED_VERSIONS == DEFAULT_VERSIONS == VERSIONS[: len(RELEASED_VERSIONS)]  # drafts follow
    assert VERSIONS == HANDSHAKE_VERSIONS + MODERN_VERSIONS
    assert (HANDSHAKE_VERSIONS[-1], MODERN_VERSIONS[0]) == ("2025-11-25", "2026-07-28")


def test_a_draft_is_a_row(tmp_path: Path) -> None:
    """A copy of the module with another row: it is known, and nobody offers it who has not named it."""
    text = (PACKAGE / "mcp" / "protocol" / "versions.py").read_text().replace("...profile", "jsonrpc_fast.profile")
    draft = 'replace(_2026_07_28, version="2099-01-01", is_released=False, is_default=False)'
    found = {"__name__": "versions"}
    exec(
        compile(
            text.replace("\nVERSIONS", f'\nREVISIONS["2099-01-01"] = {draft}\nVERSIONS', 1),
            "versions.py",
            "exec",
        ),
        found,
    )
    assert found["VERSIONS"] == (*VERSIONS, "2099-01-01")
    assert found["RELEASED_VERSIONS"] == found["DEFAULT_VERSIONS"] == RELEASED_VERSIONS
    assert found["in_order"](["2099-01-01", "2026-07-28"]) == ("2026-07-28", "2099-01-01")  # type: ignore[operator]


@rows("version", RELEASED_VERSIONS)
def test_methods_match_the_schema(corpora: Path, version: str) -> None:
    definitions, revision = definitions_of(corpora, version), REVISIONS[version]
    assert revision.client_requests == methods_of(definitions, "ClientRequest")
    assert revision.server_requests == methods_of(definitions, "ServerRequest")
    assert revision.server_notifications == methods_of(definitions, "ServerNotification")


@rows("version", RELEASED_VERSIONS)
def test_result_members_match_the_schema(corpora: Path, version: str) -> None:
    definitions, revision = definitions_of(corpora, version), REVISIONS[version]
    structured = definitions["CallToolResult"]["properties"].get("structuredContent")
    assert revision.structured_results is (structured is not None)
    assert revision.any_structured_results is (structured is not None and "type" not in structured)
    assert ("resultType" in definitions["Result"]["properties"]) is revision.is_modern
    cacheable = {name for name, shape in definitions.items() if "ttlMs" in shape.get("properties", {})}
    assert len(revision.cacheable) == len(cacheable - {"CacheableResult"})


@rows("version", RELEASED_VERSIONS)
def test_profile(version: str) -> None:
    assert REVISIONS[version].profile is PRESETS[f"mcp-{version}"]


def test_since() -> None:
    assert since("2025-11-25") == VERSIONS[3:]
    assert since("2025-11-25")[:2] == ("2025-11-25", "2026-07-28")


def test_latest_common() -> None:
    assert latest_common(["2025-11-25", "2024-11-05", "zzz"], HANDSHAKE_VERSIONS) == "2025-11-25"
    assert latest_common(["zzz"], HANDSHAKE_VERSIONS) is None


def test_in_order() -> None:
    assert in_order(["2026-07-28", "2024-11-05"]) == ("2024-11-05", "2026-07-28")
    for wrong in ([], ["2025-01-01"], "2025-11-25"):
        with pytest.raises(ValueError, match="versions must be some of 2024-11-05"):
            in_order(wrong)
