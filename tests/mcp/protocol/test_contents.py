"""Faults of content blocks, contents of resources and messages of prompts."""

from __future__ import annotations

from typing import Any

from jsonrpc_fast.mcp.protocol.definitions import MAX_ITEMS, block_fault, contents_fault, items_fault, message_fault

from ...support.tables import rows

TEXT = {"type": "text", "text": "a"}
KINDS = "/0/type must be one of "


@rows(
    ("block", "fault"),
    [
        (TEXT, None),
        ({"type": "image", "data": "", "mimeType": "image/png"}, None),
        ({"type": "resource", "resource": {"uri": "a:b", "text": ""}}, None),
        ([], "/0 must be an object"),
        ({"type": 1}, "/0/type must be a string"),
        ({"text": "a"}, "/0/type must be a string"),
        ({"type": "text"}, "/0/text must be a string"),
        ({"type": "resource", "resource": {"uri": "a:b"}}, "/0/resource must have a text or a blob that is a string"),
    ],
)
def test_blocks(block: Any, fault: str | None) -> None:
    assert block_fault(block, "/0") == block_fault(block, "/0", allow_unknown=False) == fault


def test_a_type_that_no_revision_defines() -> None:
    assert block_fault({"type": "hologram"}, "/0") is None
    assert str(block_fault({"type": "hologram"}, "/0", allow_unknown=False)).startswith(f"{KINDS}text, ")


def test_contents_of_a_resource() -> None:
    assert contents_fault({"uri": "a:b", "blob": ""}, "/0") is None
    assert contents_fault({"text": ""}, "/0") == "/0/uri must be a string"
    assert contents_fault(None, "/0") == "/0 must be an object"


def test_messages() -> None:
    assert message_fault({"role": "user", "content": TEXT}, "/0") is None
    assert message_fault({"role": "robot", "content": TEXT}, "/0") == "/0/role must be one of user, assistant"
    assert message_fault({"role": "user", "content": {"type": "hologram"}}, "/0") is None


def test_a_list_has_a_bound() -> None:
    assert items_fault([TEXT], "/content") is None
    assert items_fault({}, "/content") == "/content must be an array"
    assert items_fault([TEXT] * MAX_ITEMS, "/content") is None
    assert items_fault([TEXT] * (MAX_ITEMS + 1), "/content") == "/content has more than 100000 items"
