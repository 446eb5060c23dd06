"""The room of an inbox: how many handlers run, how much waits, and whether there is room for more.

Rules:
  - A handler that runs has a slot, one that waits for its peer has none, and one that runs alongside needs none.
  - What waits is bounded together: messages that wait to be served, and handlers that wait for their peer.
  - A group of sessions has bounds of the same kinds, which hold as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from sys import getsizeof
from typing import Any, Final

from ..codec import Raw
from .group import Account, SessionGroup

_LEAF_BYTES: Final = 32  # estimate for a number or a short string


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of an inbox; see `SessionOptions`."""

    max_handlers: int = 256
    max_inbox: int = 32768
    inbox_bytes: int = 64 * 1024 * 1024
    response_bytes: int = 1024 * 1024
    group: SessionGroup | None = None


@dataclass(slots=True, eq=False, repr=False)
class Room:
    """The account of one inbox.

    Attributes:
        bounds: The bounds.
        running: The number of handlers with a slot.
        waiting: What waits: messages that are not served yet, and those whose handlers wait for their peer.
        alongside: The requests of handlers that need no slot.
        is_overloaded: Whether a message was refused, and nothing has shown since that there is room again.
    """

    bounds: Bounds
    running: int = 0
    waiting: Account = field(init=False)
    alongside: Account = field(init=False)
    is_overloaded: bool = False

    def __post_init__(self) -> None:
        bounds = self.bounds
        shared = None if bounds.group is None else bounds.group.messages
        self.waiting = Account(bounds.max_inbox, bounds.inbox_bytes, shared)
        self.alongside = Account(bounds.max_inbox, bounds.inbox_bytes, shared)

    def has_slot(self) -> bool:
        """Return whether one more handler may run."""
        bounds = self.bounds
        return self.running < bounds.max_handlers and (bounds.group is None or bounds.group.has_slot())

    def take_slot(self) -> None:
        """Count a handler that begins or continues to run."""
        self.running += 1
        if self.bounds.group is not None:
            self.bounds.group.running += 1

    def return_slot(self) -> None:
        """Undo `take_slot`."""
        self.running -= 1
        if self.bounds.group is not None:
            self.bounds.group.release()

    @property
    def is_half_empty(self) -> bool:
        """Whether at most half of the bounds is in use."""
        bounds, waiting = self.bounds, self.waiting
        return waiting.items <= bounds.max_inbox // 2 and waiting.size <= bounds.inbox_bytes // 2

    def has_room(self, size: int) -> bool:
        """Return whether one more message of this size may wait."""
        if not self.waiting.has_room(size):
            return False
        # At half of the bounds: an inbox at its bound would report the first refusal again and again.
        if self.is_half_empty:
            self.is_overloaded = False
        return True


def memory_of(params: Any, enough: int) -> int:
    """Estimate the memory of params in bytes. Counting stops beyond `enough`, before a large container is copied."""
    if type(params) is Raw:
        return getsizeof(params) + len(params)
    size = 0
    # Level by level and in C: a recursion would be slower, and end at the limit of Python for a deep payload.
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
