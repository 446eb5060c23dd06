"""The events of an endpoint's streams, in the user's `EventStore`.

Rules:
  - When the store fails, the stream continues without ids. A client that tries to resume it gets an error instead of a
    stream with a gap.
  - A failure is an exception, even one that `EventStore` does not name, a foreign cancellation, or a result of another
    type. It is reported, except for the two exceptions that `EventStore` defines for reading. SystemExit ends the
    process.
  - A request that reads the store is refused when that fails: 410 if events are missing, otherwise 503.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ...errors import ConnectionLost, EventsLost
from ...http import Refusal
from ...support import is_failure
from .event_store import EventStore, MemoryEventStore
from .transport import MessageStream

_FAILURES: Final = (Exception, asyncio.CancelledError)  # `is_failure` tells which of these the store raised


class EventLog:
    """Stores the events of streams, and reads them again.

    Args:
        store: The store.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._lost: OrderedDict[str, None] = OrderedDict()  # streams that are only partly in the store

    async def append(self, stream: MessageStream, data: bytes | None) -> str | None:
        """Store an event and return its id. If this is cancelled, the event is still stored."""
        name = stream.name
        if name is None:  # the store has failed
            return None
        if type(self._store) is MemoryEventStore:  # never waits
            id = await self._store.append(name, data)
            stream.is_stored |= id is not None
            return id
        # Shielded: a store that is cancelled in the middle may or may not have stored the event.
        was_stored, stream.is_stored = stream.is_stored, True
        stream.appending = asyncio.ensure_future(self._append(stream, name, data))
        id = await asyncio.shield(stream.appending)
        stream.appending = None
        stream.is_stored = stream.name is not None and (was_stored or id is not None)
        return id

    async def _append(self, stream: MessageStream, name: str, data: bytes | None) -> str | None:
        try:
            return _id(await self._store.append(name, data))
        except _FAILURES as error:
            self._lose(stream, name, error)
            return None

    async def end(self, stream: MessageStream, name: str | None) -> None:
        """End a stream in the store. If this is cancelled, the stream is treated as stored."""
        if name is None or name in self._lost:
            return
        try:
            await self._store.end(name)
        except _FAILURES as error:
            self._lose(stream, name, error)
        stream.is_stored = False

    def _lose(self, stream: MessageStream, name: str, error: BaseException) -> None:
        """Continue a stream without the store, because storing it has failed."""
        _report(error)
        if stream.name == name:  # a stream of a session gets a new name with each GET
            stream.name = None
            stream.is_stored = stream.is_resumable = stream.wants_close = False
        # Bounded, because the names of a store that fails for hours are never requested again.
        self._lost[name] = None
        if len(self._lost) > 10_000:
            self._lost.popitem(last=False)

    async def stream_of(self, event_id: str) -> str | None:
        """Return the name of the stream that can be resumed after an event; None if it is unknown.

        Raises:
            Refusal: The store cannot be read (503).
        """
        with _reading():
            return _id(await self._store.stream_of(event_id))

    async def follow(self, event_id: str) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield the ids and data of the events after a given one, then of new ones, until the stream ends.

        Raises:
            Refusal: Events are missing (410), or the store cannot be read (503).
        """
        with _reading():
            # The store may have later events of this stream, but sending them would hide the gap.
            if event_id.rpartition("-")[0] in self._lost:
                raise EventsLost("the store failed after this event")
            events: Any = self._store.follow(event_id)
            try:
                async for id, data in events:
                    if type(id) is not str or type(data) is not bytes:
                        raise TypeError("follow must yield pairs of a str and bytes")
                    yield id, data
            finally:
                if isinstance(events, AsyncGenerator):
                    await events.aclose()

    async def forget(self, session: str) -> None:
        """Drop all streams of a session."""
        try:
            await self._store.forget(session)
        except _FAILURES as error:
            _report(error)


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    # `EventStore` names two exceptions, by which a store says that it is unavailable, or has dropped the events.
    except EventsLost:
        raise no_events() from None
    except _FAILURES as error:
        if not isinstance(error, ConnectionLost):
            _report(error)
        raise Refusal(503, "The store of events does not respond.") from None


def no_events() -> Refusal:
    """Return the refusal of a client that has missed events."""
    return Refusal(410, "The events after this one are no longer stored.")


def _id(found: str | None) -> str | None:
    if found is not None and type(found) is not str:
        raise TypeError(f"an id must be a str, not {type(found).__name__}")
    return found


def _report(error: BaseException) -> None:
    """Report a failure of a store to the exception handler of the loop; any other exception is raised again."""
    if not is_failure(error):
        raise error
    asyncio.get_running_loop().call_exception_handler({"message": "an event store failed", "exception": error})
