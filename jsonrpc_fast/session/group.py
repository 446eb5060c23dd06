"""Groups of sessions that share bounds."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

from ..support import check_count

TURN_MESSAGES: Final = 256
"""Maximum number of waiting messages that begin in one turn of the loop."""


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
        waiting: The number of messages in the inboxes.
        waiting_bytes: The memory of their params, as an estimate.

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
        self._max_waiting = max_inbox
        self._max_bytes = inbox_bytes
        self.running: int = 0
        self.waiting: int = 0
        self.waiting_bytes: int = 0

    def has_room(self, size: int) -> bool:
        """Return whether one more message of this size may wait."""
        return self.waiting < self._max_waiting and not (
            self.waiting_bytes and self.waiting_bytes + size > self._max_bytes
        )

    def keep(self, items: int, size: int) -> None:
        """Count messages that wait; negative numbers undo it."""
        self.waiting += items
        self.waiting_bytes += size

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
        for _ in range(TURN_MESSAGES):
            if not self._queue or self.running >= self._max_handlers:
                return
            # One handler of each session in turn; a session with more goes to the end.
            member, _ = self._queue.popitem(last=False)
            if member.start_one():
                self._queue[member] = None
        self._start_soon()
