"""The room of an inbox: how many handlers run, how much waits, and whether there is room for more.

Rules:
  - A handler that runs has a slot, one that waits for its peer has none, and one that runs alongside needs none.
  - What waits is bounded together: messages that wait to be served, and handlers that wait for their peer.
  - One message is always kept, however large it is. One that runs alongside is, too.
  - A group of sessions has bounds of the same kinds, which hold as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from sys import getsizeof
from typing import Any, Final, NamedTuple

from ..codec import Raw
from .group import SessionGroup

_LEAF_BYTES: Final = 32  # estimate for a number or a short string


class Bounds(NamedTuple):
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
        waiting: The number of handlers that wait for their peer.
        alongside: The number of handlers that need no slot.
        waiting_bytes: The size of everything that waits.
        alongside_bytes: The size of what is served alongside.
        is_overloaded: Whether a message was refused, and nothing has shown since that there is room again.
    """

    bounds: Bounds
    _group: SessionGroup | None = field(init=False)
    running: int = 0
    waiting: int = 0
    alongside: int = 0
    waiting_bytes: int = 0
    alongside_bytes: int = 0
    is_overloaded: bool = False

    def __post_init__(self) -> None:
        self._group = self.bounds.group

    # Slots.

    def has_slot(self) -> bool:
        """Return whether one more handler may run."""
        return self.running < self.bounds.max_handlers and (self._group is None or self._group.has_slot())

    def take_slot(self) -> None:
        """Count a handler that begins or continues to run."""
        self.running += 1
        if self._group is not None:
            self._group.running += 1

    def return_slot(self) -> None:
        """Undo `take_slot`."""
        self.running -= 1
        if self._group is not None:
            self._group.release()

    # What waits.

    def has_room(self, items: int, size: int) -> bool:
        """Return whether one more message may wait.

        Args:
            items: The number of messages that wait to be served.
            size: The size of the message, in bytes.
        """
        waiting = items + self.waiting
        bounds = self.bounds
        if waiting >= bounds.max_inbox or (self.waiting_bytes and self.waiting_bytes + size > bounds.inbox_bytes):
            return False
        if waiting and self._group is not None and not self._group.has_room(size):
            return False
        if waiting <= bounds.max_inbox // 2:
            self.is_overloaded = False
        return True

    def keep(self, size: int) -> None:
        """Count a message that waits, or whose handler waits for its peer."""
        self.waiting_bytes += size
        if self._group is not None:
            self._group.keep(size)

    def drop(self, size: int) -> None:
        """Undo `keep`."""
        self.waiting_bytes -= size
        if self._group is not None:
            self._group.drop(size)

    # Alongside.

    def begin_alongside(self, size: int) -> bool:
        """Count a handler that needs no slot. Return False, and do nothing, if there is no room for it."""
        bounds = self.bounds
        if self.alongside >= bounds.max_inbox:
            return False
        if self.alongside_bytes and self.alongside_bytes + size > bounds.inbox_bytes:
            return False
        if self._group is not None:
            if self.alongside and not self._group.has_room(size):
                return False
            self._group.keep(size)
        self.alongside += 1
        self.alongside_bytes += size
        return True

    def end_alongside(self, size: int) -> None:
        """Undo `begin_alongside`."""
        self.alongside -= 1
        self.alongside_bytes -= size
        if self._group is not None:
            self._group.drop(size)


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
