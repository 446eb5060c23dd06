"""Paths into `Raw` payloads, for both backends."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ..support import INDEX_DIGITS, index_of, pointer_parts
from ..types import T


def find(
    raw: T, path: str | Sequence[str | int], default: Any, part_of: Callable[[T, str | None, int], T | None]
) -> Any:
    """Return what `Raw.get` does.

    Args:
        raw: The payload.
        path: A JSON pointer; or a list or tuple of names and indexes.
        default: The result if the path leads nowhere.
        part_of: Returns the member of an object with a name, or the item of an array with an index; or None. For a step
            that cannot be a name, the name is None; for one that cannot be an index, the index is -1.
    """
    found: T | None = raw
    for name, index in _steps_of(path):
        found = part_of(found, name, index)  # type: ignore[arg-type]  # not None
        if found is None:
            return default
    return found


def _steps_of(path: object) -> list[tuple[str | None, int]]:
    """The steps of a path, each as a name and as an index."""
    if isinstance(path, str):
        if path and not path.startswith("/"):
            raise ValueError('path must be "" or begin with "/"; or pass a list of names')
        if "~" in path and re.search(r"~(?![01])", path):
            raise ValueError('a "~" in a path must be written "~0"')
        return [(part, index_of(part)) for part in pointer_parts(path)]
    if not isinstance(path, (list, tuple)):
        raise TypeError(f"path must be a str, a list or a tuple, not {type(path).__name__}")
    steps: list[tuple[str | None, int]] = []
    for step in path:
        if isinstance(step, str):
            steps.append((step, -1))
        elif type(step) is int:
            steps.append((None, step if 0 <= step < 10**INDEX_DIGITS else -1))
        else:
            raise TypeError(f"a step of a path must be a str or an int, not {type(step).__name__}")
    return steps
