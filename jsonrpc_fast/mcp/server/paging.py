"""Pages of a list, and the cursors between them.

A list without pages is in the order of registration, by which authors steer models. Pages are in the order of the
names: a cursor names the last item of the previous page instead of a position, so items that are added or removed
between two pages neither hide nor repeat others. Cursors are opaque to clients (specification, "Pagination").
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ...errors import RpcError

T = TypeVar("T")

_PREFIX: Final = b"after:"


def paginate(
    items: Iterable[T], cursor: object, *, key: Callable[[T], str], page_size: int | None = None
) -> tuple[list[T], str | None]:
    """Return one page of a list.

    Args:
        items: All items, in their order.
        cursor: `cursor` of the request; None for the first page.
        key: A function that returns the unique name of an item. If there is a page size, or a cursor, items are sorted
            by it.
        page_size: Number of items on a page, at least 1; None: all of them.

    Returns:
        The items of the page, and the cursor of the next page or None.

    Raises:
        RpcError: The cursor is invalid (-32602).
    """
    if page_size is None and cursor is None:
        return [*items], None
    # Sorted by name: the order of registration changes when a tool is registered again, and cursors would skip items.
    ordered = sorted(items, key=key)
    if cursor is not None:
        last = _read(cursor)
        ordered = [item for item in ordered if key(item) > last]
    page = ordered[:page_size]
    return page, _write(key(page[-1])) if len(page) < len(ordered) else None


def _write(name: str) -> str:
    return base64.urlsafe_b64encode(_PREFIX + name.encode()).decode()


def _read(cursor: object) -> str:
    if isinstance(cursor, str):
        try:
            # Strict decoding: an altered cursor must not become another valid one.
            text = base64.b64decode(cursor.encode(), b"-_", validate=True)
            if text.startswith(_PREFIX):
                return text[len(_PREFIX) :].decode()
        except (binascii.Error, UnicodeError):
            pass
    raise RpcError.invalid_params("Invalid cursor")
