"""The base of channels of texts over a library that reads and writes in coroutines: tasks of the channel await them."""

from __future__ import annotations

import asyncio
from collections import deque

from .channel import Channel, Events


class QueuedChannel(Channel):
    """A channel of texts whose subclass has a task that writes the queued texts, and reads while it may.

    The task that writes waits for `_may_write`, which it clears, then takes the texts off `_outgoing` and counts them
    off `_unwritten`. What reads waits for `_may_read`.
    """

    carries_texts = True
    _events: Events

    def __init__(self) -> None:
        self._outgoing: deque[bytes] = deque()
        self._unwritten = 0
        self._is_finishing = False
        self._may_read = asyncio.Event()
        self._may_write = asyncio.Event()

    def set_reading(self, on: bool) -> None:
        if on:
            self._may_read.set()
        else:
            self._may_read.clear()

    def write(self, data: bytes) -> None:
        self._outgoing.append(data)
        self._unwritten += len(data)
        self._may_write.set()

    @property
    def unwritten(self) -> int:
        return self._unwritten

    def finish(self) -> None:
        self._is_finishing = True
        # Reading continues, because the peer's end has to be noticed.
        self._may_read.set()
        self._may_write.set()
