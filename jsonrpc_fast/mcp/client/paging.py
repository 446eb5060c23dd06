"""The pages of a list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from ...codec._backend import dumps
from ...errors import EncodeError
from ..protocol.meta import LIST_METHODS
from .results import check_items, invalid_result, named_fault

MAX_PAGES: Final = 1000
"""Maximum number of pages of one list. A server with more, or with pages that form a cycle, is faulty."""
MAX_LIST_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of all pages of one list together, as JSON. A single page may be as large as a message."""


async def all_pages(
    method: str, request: Callable[[Mapping[str, Any] | None], Awaitable[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Request all pages of a list and return its items.

    Args:
        method: The method, of LIST_METHODS.
        request: Takes the params of a page and returns the page.

    Raises:
        ValueError: A page is invalid, or the pages exceed MAX_PAGES or MAX_LIST_BYTES.
    """
    _, name, key = LIST_METHODS[method]
    found: list[dict[str, Any]] = []
    params: dict[str, str] | None = None
    cursors: set[str] = set()
    size = 0
    for _ in range(MAX_PAGES):
        page = await request(params)
        check_items(method, page, name, partial(named_fault, key))
        found += page[name]
        cursor = page.get("nextCursor")
        if cursor is None:
            return found
        if not isinstance(cursor, str):
            raise invalid_result(method, "/nextCursor must be a string")
        if cursor in cursors:
            raise invalid_result(method, "/nextCursor repeats an earlier cursor")
        try:
            size += len(dumps(page))
        except EncodeError:  # decoding allows four times the depth of encoding
            raise invalid_result(method, "a page is nested too deeply") from None
        if size > MAX_LIST_BYTES:
            raise invalid_result(method, f"the pages have more than {MAX_LIST_BYTES} bytes")
        # All of them and not the last one: a cycle may have any length.
        cursors.add(cursor)
        params = {"cursor": cursor}
    raise invalid_result(method, f"there are more than {MAX_PAGES} pages")
