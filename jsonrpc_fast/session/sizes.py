"""The memory of the params that a session keeps."""

from __future__ import annotations

from itertools import chain
from sys import getsizeof
from typing import Any, Final

from ..codec import Raw

_LEAF_BYTES: Final = 32  # estimate for a number or a short string


def memory_of(params: Any, enough: int) -> int:
    """Estimate the memory of params in bytes. Counting stops beyond `enough`, before a large container is copied."""
    if type(params) is Raw:
        return getsizeof(params) + len(params)
    size = 0
    level = [params] if type(params) is dict or type(params) is list else []
    while level:
        size += sum(map(getsizeof, level)) + _LEAF_BYTES * sum(map(len, level))
        if size > enough:
            break
        values: list[Any] = list(chain.from_iterable([v for v in level if type(v) is list]))
        for container in level:
            if type(container) is dict:
                values += container
                values += container.values()
        size += sum([len(value) for value in values if type(value) is str])
        level = [value for value in values if type(value) is dict or type(value) is list]
    return size
