"""Wrap the user's event store, so that the endpoint sees only what `EventStore` allows.

Rules:
  - A foreign cancellation is treated as a store that does not respond: ConnectionLost.
  - So does any exception that `EventStore` does not name and that is raised by reading. It is reported here, while the
    caller reports what keeps events from being stored.
  - A result of another type is a TypeError.
  - Errors from `forget` are reported but not raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from ...errors import ConnectionLost, EventsLost
from ...handlers.cancellation import is_foreign_cancellation
from ..applications import EventStore


class GuardedStore:
    """An `EventStore` around the one of the user.

    Args:
        store: The store of the user.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store

    async def append(self, stream: str, data: bytes | None) -> str | None:
        try:
            return _id(await self._store.append(stream, data))
        except asyncio.CancelledError as error:
            raise _failure(error) from error

    async def end(self, stream: str) -> None:
        try:
            await self._store.end(stream)
        except asyncio.CancelledError as error:
            raise _failure(error) from error

    async def stream_of(self, event_id: str) -> str | None:
        try:
            return _id(await self._store.stream_of(event_id))
        except ConnectionLost:
            raise
        except (Exception, asyncio.CancelledError) as error:
            failure = _failure(error)
            report(error)
            raise failure from error

    async def follow(self, event_id: str) -> AsyncIterator[tuple[str, bytes]]:
        events: Any = None
        try:
            events = self._store.follow(event_id)
            async for id, data in events:
                if type(id) is not str or type(data) is not bytes:
                    raise TypeError("follow must yield pairs of a str and bytes")
                yield id, data
        except (ConnectionLost, EventsLost):
            raise
        except (Exception, asyncio.CancelledError) as error:
            failure = _failure(error)
            report(error)
            raise failure from error
        finally:
            if hasattr(events, "aclose"):
                await events.aclose()

    async def forget(self, session: str) -> None:
        try:
            await self._store.forget(session)
        except (Exception, asyncio.CancelledError) as error:
            _failure(error)
            report(error)


def _id(found: str | None) -> str | None:
    if found is not None and type(found) is not str:
        raise TypeError(f"an id must be a str, not {type(found).__name__}")
    return found


def _failure(error: BaseException) -> ConnectionLost:
    """Return the exception to raise in place of another one. The cancellation of the task itself is raised again."""
    if isinstance(error, asyncio.CancelledError) and not is_foreign_cancellation(error):
        raise error
    return ConnectionLost("the event store failed")


def report(error: BaseException) -> None:
    """Report a failure of a store to the exception handler of the loop."""
    asyncio.get_running_loop().call_exception_handler({"message": "an event store failed", "exception": error})
