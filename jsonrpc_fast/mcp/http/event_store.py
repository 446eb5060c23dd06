"""The events of streams, kept for clients whose connection breaks, so that they can resume.

Rules:
  - A stream's name is the id of its session, "/" and a name within the session, which is used once. Only one worker
    appends to a stream, one event at a time.
  - An event's id is the name of its stream, "-" and its number in the stream. The session's id in it is a secret, and
    the id is useless without it. Before a stream is resumed, `session_of(stream)` must be the session of the request.
  - `follow` yields every event after the id, once and in order, or raises `EventsLost`. It never skips an event.
  - A store drops events from the beginning of a stream. A stream can be resumed from any event after that.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Protocol

from ...errors import EventsLost
from ...support import Waiters, check_count, check_seconds


class EventStore(Protocol):
    """Keeps the events of streams."""

    async def append(self, stream: str, data: bytes | None) -> str | None:
        """Store an event.

        Args:
            stream: The name of the stream. The first event of a name begins the stream.
            data: The data; None for an event that has only an id, from which a client can resume.

        Returns:
            The event's id; None if the store has no room for the stream, which is then sent without ids.
        """
        ...

    async def end(self, stream: str) -> None:
        """End a stream: it gets no more events, and its followers reach its end."""
        ...

    async def stream_of(self, event_id: str) -> str | None:
        """Return the name of the stream that can be resumed after an event, None if unknown.

        Raises:
            ConnectionLost: The store does not respond.
        """
        ...

    def follow(self, event_id: str) -> AsyncIterator[tuple[str, bytes]]:
        """Iterate over the ids and data of the events after a given one, then of new ones, until the stream ends.

        Raises:
            EventsLost: Events after that one were dropped, or the stream has been forgotten.
            ConnectionLost: The store does not respond.
        """
        ...

    async def forget(self, session: str) -> None:
        """Drop all streams of a session."""
        ...


def session_of(stream: str) -> str:
    """Return the id of the session to which a stream belongs."""
    return stream.partition("/")[0]


def parse_event_id(event_id: str) -> tuple[str, int]:
    """Return the name of the stream and the number in an event's id.

    Raises:
        EventsLost: It is not the id of an event.
    """
    stream, _, number = event_id.rpartition("-")
    # The client chose this text. `int` accepts "+1", "1_0" and, slowly, a million digits, which are not ids.
    is_number = number.isascii() and number.isdigit() and len(number) < 19 and number[0] != "0"
    if not is_number or "/" not in stream:
        raise EventsLost("not the id of an event")
    return stream, int(number)


@dataclass(slots=True, eq=False)
class _Stream:
    """The events of one stream.

    Attributes:
        before: The number of the event before the first one that is kept.
        waiters: The followers that wait for the next event, or for the end.
    """

    name: str
    before: int = 0
    last: int = 0
    events: dict[int, bytes | None] = field(default_factory=dict)
    is_ended: bool = False
    is_dropped: bool = False
    waiters: Waiters = field(default_factory=Waiters)

    def can_resume_after(self, number: int) -> bool:
        return self.before <= number <= self.last


class MemoryEventStore:
    """An `EventStore` in the memory of one process.

    Over a bound it drops the oldest events, whatever their stream.

    Args:
        max_events: The maximum number of events.
        max_bytes: The maximum size of all events together.
        max_age_seconds: Seconds that an event is kept. Old events are dropped when the store is used.
        max_streams: The maximum number of streams, which cost about 1 KiB each. Beyond it streams that ended are
            dropped, oldest first. If none has ended, a new stream is not stored.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    def __init__(
        self,
        *,
        max_events: int = 100_000,
        max_bytes: int = 64 * 1024 * 1024,
        max_age_seconds: float = 300.0,
        max_streams: int = 50_000,
    ) -> None:
        check_count("max_events", max_events, 1, may_be_none=False)
        check_count("max_bytes", max_bytes, 1, may_be_none=False)
        check_seconds("max_age_seconds", max_age_seconds, may_be_none=False)
        check_count("max_streams", max_streams, 1, may_be_none=False)
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._max_age_seconds = max_age_seconds
        self._max_streams = max_streams
        self._sessions: dict[str, dict[str, _Stream]] = {}
        self._order: deque[tuple[float, _Stream]] = deque()  # one item for each event, even of dropped streams
        self._ended: dict[_Stream, float] = {}  # when each stream ended, oldest first
        self._streams = 0
        self._bytes = 0

    async def append(self, stream: str, data: bytes | None) -> str | None:
        found = self._find(stream)
        if found is None:
            found = self._begin(stream)
            if found is None:
                return None
        elif found.is_ended:
            raise ValueError("the stream has ended")
        now = time.monotonic()
        found.last += 1
        found.events[found.last] = data
        self._order.append((now, found))
        self._bytes += _size(data)
        found.waiters.wake()
        # Dropped after the append: the newest event is dropped only if it alone is over a bound.
        self._drop(now)
        return f"{stream}-{found.last}"

    async def end(self, stream: str) -> None:
        found = self._find(stream)
        if found is not None and not found.is_ended:
            found.is_ended = True
            self._ended[found] = time.monotonic()
            found.waiters.wake()

    async def stream_of(self, event_id: str) -> str | None:
        self._drop(time.monotonic())
        try:
            return self._resumable(event_id)[0].name
        except EventsLost:
            return None

    async def follow(self, event_id: str) -> AsyncIterator[tuple[str, bytes]]:
        self._drop(time.monotonic())
        stream, number = self._resumable(event_id)
        while True:
            while number < stream.last:
                if not stream.can_resume_after(number):
                    raise EventsLost("events were dropped before they were read")
                number += 1
                data = stream.events[number]
                if data is not None:
                    yield f"{stream.name}-{number}", data
            if stream.is_ended:
                return
            if stream.is_dropped:
                raise EventsLost("the stream was dropped before it ended")
            # The store keeps nothing for a follower, which reads again from the event after its own number.
            await stream.waiters.wait()

    async def forget(self, session: str) -> None:
        for stream in list(self._sessions.get(session, {}).values()):
            self._remove(stream)

    def _find(self, stream: str) -> _Stream | None:
        return self._sessions.get(session_of(stream), {}).get(stream)

    def _resumable(self, event_id: str) -> tuple[_Stream, int]:
        name, number = parse_event_id(event_id)
        stream = self._find(name)
        if stream is None or not stream.can_resume_after(number):
            raise EventsLost("the events after this one are not stored")
        return stream, number

    def _begin(self, name: str) -> _Stream | None:
        # A stream in progress is never dropped for a new one, because its client may reconnect at any time.
        if self._streams >= self._max_streams:
            if not self._ended:
                return None
            self._remove(next(iter(self._ended)))
        stream = _Stream(name)
        self._sessions.setdefault(session_of(name), {})[name] = stream
        self._streams += 1
        return stream

    def _remove(self, stream: _Stream) -> None:
        session = session_of(stream.name)
        streams = self._sessions[session]
        del streams[stream.name]
        if not streams:
            del self._sessions[session]
        self._streams -= 1
        self._ended.pop(stream, None)
        self._bytes -= sum(map(_size, stream.events.values()))
        stream.before = stream.last
        stream.events.clear()
        stream.is_dropped = True
        stream.waiters.wake()

    def _drop(self, now: float) -> None:
        """Drop events and streams over a bound."""
        order = self._order
        oldest = now - self._max_age_seconds
        while order and (order[0][0] <= oldest or len(order) > self._max_events or self._bytes > self._max_bytes):
            stream = order.popleft()[1]
            if not stream.is_dropped:
                # The oldest event of all is the oldest one of its stream, because each stream is appended to in order.
                stream.before += 1
                self._bytes -= _size(stream.events.pop(stream.before))
        # An ended stream with no events left can be resumed from its last event only, and there is nothing after it.
        while self._ended:
            stream, ended = next(iter(self._ended.items()))
            if ended > oldest and stream.events:
                break
            self._remove(stream)


def _size(data: bytes | None) -> int:
    # About how much memory an event needs in addition to its data.
    return 100 + len(data or b"")
