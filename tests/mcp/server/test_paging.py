"""Pages and cursors."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp.server.methods import paginate

from ...support.tables import rows

names = st.sets(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=20)


def page(items: Any, cursor: object = None, size: int = 2) -> tuple[list[str], str | None]:
    return paginate(items, cursor, key=str, page_size=size)


def test_pages() -> None:
    first, cursor = page(["c", "a", "b", "d"])
    assert first == ["a", "b"]
    assert page(["c", "a", "b", "d"], cursor) == (["c", "d"], None)
    assert page([]) == ([], None)
    assert page(["a", "b"]) == (["a", "b"], None)


def test_names_of_any_length() -> None:
    items = [letter * 100_000 for letter in "abc"]
    shown, cursor = page(items)
    assert shown == items[:2]
    assert page(items, cursor) == (items[2:], None)


def test_a_cursor_stays_valid_when_items_are_added_and_removed() -> None:
    _, cursor = page(["a", "b", "c", "d"])
    assert page(["a0", "c", "d"], cursor) == (["c", "d"], None)
    assert page(["a"], cursor) == ([], None)


@rows(
    "cursor",
    ["", "b", "SECRET", 5, {}, True, "a" * 10_000, "é", "YQ==", "YWZ0ZXI6YQ", base64.b64encode(b"after:\xff").decode()],
)
def test_invalid_cursors(cursor: object) -> None:
    with pytest.raises(RpcError) as caught:
        page(["a"], cursor)
    assert (caught.value.code, caught.value.message) == (-32602, "Invalid cursor")


@given(names, st.integers(1, 7))
def test_every_item_is_on_one_page(items: set[str], size: int) -> None:
    seen: list[str] = []
    cursor = None
    while True:
        shown, cursor = page(items, cursor, size)
        seen += shown
        if cursor is None:
            break
        assert len(shown) == size
    assert seen == sorted(items)
