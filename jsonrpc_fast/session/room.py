"""The room of an inbox: how many handlers run, how much waits, and whether there is room for more.

Rules:
  - A handler that runs has a slot, one that waits for its peer has none, and one that runs alongside needs none.
  - What waits is bounded together: messages that wait to be served, and handlers that wait for their peer.
  - A group of sessions has bounds of the same kinds, which hold as well: see `SessionGroup`.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import chain, repeat
from sys import getsizeof
from typing import Any, Final, NamedTuple, Protocol

from .._checks import check_count
from ..codec import Raw

_LEAF_BYTES: Final = 32  # estimate for a number or a short string
_CONTAINER_BYTES: Final = 64  # of an empty container, where `getsizeof` does not know it: on PyPy


_TURN_HANDLERS: Final = 256
"""Maximum number of waiting handlers to start in one turn of the loop."""


class Account:
    """How many messages are kept, and how much memory their params take, as an estimate.

    Attributes:
        max_items: The maximum number of messages.
        max_bytes: The maximum memory. An account without any keeps one message, however large it is.
        shared: The account of all sessions of a group. If it is full, this account may still keep one message.
        items: The number of messages.
        size: Their memory in bytes.
    """

    __slots__ = ("items", "max_bytes", "max_items", "shared", "size")

    def __init__(self, max_items: int, max_bytes: int, shared: Account | None = None) -> None:
        self.max_items: int = max_items
        self.max_bytes: int = max_bytes
        self.shared: Account | None = shared
        self.items: int = 0
        self.size: int = 0

    def has_room(self, size: int) -> bool:
        """Return whether one more message of this size may be kept."""
        if self.items >= self.max_items or (self.size and self.size + size > self.max_bytes):
            return False
        # An account without items ignores the shared bound, or a full group would starve a new session.
        return not self.items or self.shared is None or self.shared.has_room(size)

    def keep(self, size: int) -> None:
        """Count a message."""
        self.items += 1
        self.size += size
        if self.shared is not None:
            self.shared.keep(size)

    def drop(self, size: int) -> None:
        """Undo `keep`."""
        self.items -= 1
        self.size -= size
        if self.shared is not None:
            self.shared.drop(size)


class GroupMember(Protocol):
    """The part of a session that its group uses."""

    def start_one(self) -> bool:
        """Start the first handler in the queue. Return whether another one could start now."""

    def wake(self) -> None:
        """Call `SessionGroup.start` soon, once for any number of these calls."""


class SessionGroup:
    """Sessions that share bounds.

        group = SessionGroup(max_handlers=1000)

        async def serve(transport):
            session = Session(transport, handlers, group=group)
            await session.start()
            await session.wait_closed()

    Rules:
      - When the handlers of the group have all slots, further ones wait in the queue of their session. A slot that
        becomes free goes to the sessions in turn, so that one of them cannot keep the others waiting.
      - When the inboxes of the group are full, a session may still keep one message, so that one session cannot shut
        out the others.
      - At a bound of the group, a session does the same as at its own bound, and its own bounds apply too.
      - All sessions of a group run on one loop, or in one thread.

    Args:
        max_handlers: Maximum number of async handlers that run at a time, not counting those that wait in `call`.
        max_inbox: Maximum number of messages that wait, or whose handlers wait for the peer.
        inbox_bytes: Maximum memory of the params of these messages, as an estimate.

    Attributes:
        running: The number of async handlers that run.
        messages: The messages in the inboxes.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value.
    """

    def __init__(
        self, *, max_handlers: int = 4096, max_inbox: int = 131_072, inbox_bytes: int = 512 * 1024 * 1024
    ) -> None:
        check_count("max_handlers", max_handlers, 1, may_be_none=False)
        check_count("max_inbox", max_inbox, 0, may_be_none=False)
        check_count("inbox_bytes", inbox_bytes, 0, may_be_none=False)
        self._max_handlers = max_handlers
        self._queue: OrderedDict[GroupMember, None] = OrderedDict()  # sessions whose handlers wait for a slot
        self.running: int = 0
        self.messages: Account = Account(max_inbox, inbox_bytes)

    @property
    def waiting(self) -> int:
        """The number of messages in the inboxes."""
        return self.messages.items

    @property
    def waiting_bytes(self) -> int:
        """The memory of their params, as an estimate."""
        return self.messages.size

    def has_slot(self) -> bool:
        """Return whether a handler may start at once: a slot is free, and no other handler waits."""
        # A handler that came later must not overtake those in the queues of other sessions.
        return self.running < self._max_handlers and not self._queue

    def release(self) -> None:
        """Take the slot of a handler back."""
        self.running -= 1
        self._start_soon()

    def add(self, member: GroupMember) -> None:
        """Let a session start its waiting handlers when there are slots, from the next call of `start` on."""
        self._queue[member] = None

    def leave(self, member: GroupMember) -> None:
        """Remove a session that has no more handlers to start."""
        self._queue.pop(member, None)
        self._start_soon()  # this member may be the one that was to do so

    def _start_soon(self) -> None:
        # Later, because a started handler may begin to wait at once, which would recurse.
        if self._queue and self.running < self._max_handlers:
            next(iter(self._queue)).wake()

    def start(self) -> None:
        """Start waiting handlers of the sessions in turn."""
        for _ in range(_TURN_HANDLERS):
            if not self._queue or self.running >= self._max_handlers:
                return
            # One handler of each session in turn; a session with more goes to the end.
            member, _ = self._queue.popitem(last=False)
            if member.start_one():
                self._queue[member] = None
        self._start_soon()


class Bounds(NamedTuple):
    """The bounds of an inbox; see `SessionOptions`."""

    max_handlers: int = 256
    max_inbox: int = 32768
    inbox_bytes: int = 64 * 1024 * 1024
    response_bytes: int = 1024 * 1024
    group: SessionGroup | None = None


BOUNDS: Final = Bounds()
"""The bounds of a session without options."""


class Room:
    """The account of one inbox.

    Attributes:
        bounds: The bounds.
        running: The number of handlers with a slot.
        waiting: What waits: messages that are not served yet, and those whose handlers wait for their peer.
        alongside: The requests of handlers that need no slot.
        is_overloaded: Whether a message was refused, and the room has not been half empty since.
    """

    __slots__ = ("alongside", "bounds", "is_overloaded", "running", "waiting")

    def __init__(self, bounds: Bounds) -> None:
        shared = None if bounds.group is None else bounds.group.messages
        self.bounds: Bounds = bounds
        self.running: int = 0
        self.waiting: Account = Account(bounds.max_inbox, bounds.inbox_bytes, shared)
        self.alongside: Account = Account(bounds.max_inbox, bounds.inbox_bytes, shared)
        self.is_overloaded: bool = False

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
        # Not before half of the bounds is free: an inbox at its bound would report a first refusal again and again.
        if self.is_half_empty:
            self.is_overloaded = False
        return True


def memory_of(params: Any, enough: int) -> int:
    """Estimate the memory of params in bytes. Counting stops beyond `enough`, before a large container is copied."""
    if type(params) is Raw:
        return getsizeof(params, _CONTAINER_BYTES) + len(params)
    size = 0
    # Level by level, in C: recursion would be slower, and would hit Python's recursion limit on a deep payload.
    level = [params] if type(params) is dict or type(params) is list else []
    while level:
        size += sum(map(getsizeof, level, repeat(_CONTAINER_BYTES))) + _LEAF_BYTES * sum(map(len, level))
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
