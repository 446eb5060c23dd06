"""Pages of a list, and the cursors between them.

A cursor names the last item of the page before, not a place in the list: what comes or goes meanwhile neither hides
an item nor shows one twice. It is opaque to clients (specification, "Pagination").
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ...codes import ErrorCode
from ...errors import RpcError

T = TypeVar("T")

_MARK: Final = b"after:"
_CURSOR_CHARACTERS: Final = 8192


def paginate(
    items: Iterable[T], cursor: object, *, key: Callable[[T], str], page_size: int = 100
) -> tuple[list[T], str | None]:
    """One page of a list, in the order of the keys, and the cursor of the next page or None.

    items      all of the list, in any order
    cursor     the member `cursor` of the request, or None for the first page
    key        what an item is named by; no two have the same
    page_size  items on a page, 1 or more

    Raises RpcError -32602 for a cursor that is none.
    """
    ordered = sorted(items, key=key)
    if cursor is not None:
        last = _read(cursor)
        ordered = [item for item in ordered if key(item) > last]
    page = ordered[:page_size]
    return page, _write(key(page[-1])) if len(ordered) > page_size else None


def _write(name: str) -> str:
    return base64.urlsafe_b64encode(_MARK + name.encode()).decode()


def _read(cursor: object) -> str:
    if isinstance(cursor, str) and len(cursor) <= _CURSOR_CHARACTERS:
        try:
            text = base64.b64decode(cursor.encode(), b"-_", validate=True)
            if text.startswith(_MARK):
                return text[len(_MARK) :].decode()
        except (binascii.Error, UnicodeError):
            pass
    raise RpcError(ErrorCode.INVALID_PARAMS, "Invalid cursor")
