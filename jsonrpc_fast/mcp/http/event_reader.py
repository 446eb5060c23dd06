"""Reading streams of events, and resuming them after the last event when their connection breaks.

Rules:
  - The id of an event is kept only after the event was handled: otherwise an event could be lost when the stream is
    resumed.
  - While `may_read` is not set, nothing is read from a connection, so that the server has to wait.
  - A stream is resumed with the id of its last event, after the delay that the server requests, within bounds. The
    delay doubles with each failed attempt, up to _MAX_BACKOFF_SECONDS. After MAX_ATTEMPTS failures in a row the stream
    is given up.
  - A status outside TRANSIENT_STATUSES gives the stream up at once; 404 means that the session has ended.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from ...errors import ConnectionLost, HttpStatusError, InvalidResponse
from ...framing.sse import Event, EventDecoder
from ...http.library import pieces_of
from .headers import LAST_EVENT_ID_HEADER
from .sending import (
    EVENT_STREAM,
    TRANSIENT_STATUSES,
    HttpSender,
    NegotiatedSession,
    content_type,
    httpx2,
    move_on_after,
    session_headers,
    status_error,
)

MAX_ATTEMPTS: Final = 5
"""How many times in a row resuming a stream may fail."""
RETRY_SECONDS: Final = 1.0
"""How long to wait before a stream is resumed, unless the server sends a delay."""
END_SECONDS: Final = 1.0
"""How long to wait for a stream to end after its response."""

_MAX_BACKOFF_SECONDS: Final = 30.0


class SessionEnded(ConnectionLost):
    """The server no longer knows the session."""


@dataclass(slots=True, eq=False)
class Cursor:
    """Where a stream of events can be resumed, and after how many seconds.

    Attributes:
        id: The id of the last event that has one; "" if the stream cannot be resumed.
        retry_seconds: The delay that the server requests; None if it requests none.
    """

    id: str = ""
    retry_seconds: float | None = None

    def advance(self, decoder: EventDecoder) -> None:
        """Move to the last event that was decoded."""
        # It is sent back in a header, which must not have line breaks or other bytes than these.
        if re.fullmatch(r"[ -~]{1,4096}", decoder.last_event_id):
            self.id = decoder.last_event_id
        if decoder.retry is not None:
            # With 0 the client would poll without a pause; a huge delay would never end.
            self.retry_seconds = min(max(decoder.retry / 1000, 0.05), 3600.0)

    def delay(self, failures: int) -> float:
        """Return how long to wait after this many failed attempts, in seconds."""
        base = RETRY_SECONDS if self.retry_seconds is None else self.retry_seconds
        return max(base, min(base * 2.0**failures, _MAX_BACKOFF_SECONDS))


@dataclass(slots=True, eq=False, repr=False)
class EventReader:
    """Reads the streams of one client.

    Args:
        max_stream_bytes: The maximum size of a stream; None: no limit.

    Attributes:
        may_read: Set while streams are read; otherwise the server has to wait.
    """

    _sender: HttpSender
    _max_event_bytes: int
    _max_stream_bytes: int | None
    may_read: asyncio.Event = field(default_factory=asyncio.Event)

    async def events(self, http_response: Any, cursor: Cursor) -> AsyncGenerator[Event, None]:
        """Yield the events of a stream until it ends, or breaks with an exception of httpx2.

        Raises:
            InvalidResponse: The stream is too large, or cannot be decompressed.
        """
        decoder = EventDecoder(self._max_event_bytes)
        size = 0
        async with aclosing(pieces_of(http_response)) as pieces:
            async for piece in pieces:
                size += len(piece)
                if self._max_stream_bytes is not None and size > self._max_stream_bytes:
                    raise InvalidResponse(f"the stream is larger than {self._max_stream_bytes} bytes")
                for event in decoder.feed(piece):
                    # Nothing is read from the connection meanwhile, so the server has to wait.
                    await self.may_read.wait()
                    yield event
                # Moved after the events of the piece were handled: an event that was not handled must be sent again.
                cursor.advance(decoder)
                await self.may_read.wait()

    async def open(self, session: NegotiatedSession) -> Any:
        """Open the GET stream of a session and return the HTTP response, or how a server refuses to open one.

        Raises:
            ConnectionLost: As in `resume`.
        """
        found = await self._get(session_headers(session))
        is_final = not isinstance(found, Exception) or (
            isinstance(found, HttpStatusError) and found.status not in TRANSIENT_STATUSES
        )
        return found if is_final else await self.resume(Cursor(), session)

    async def _get(self, headers: dict[str, str]) -> Any:
        """Send a GET. Return the HTTP response if it carries a stream of events; otherwise why it does not."""
        try:
            http_response = await self._sender.send("GET", headers)
        except httpx2.TransportError as error:
            return self._sender.translated(error)
        if http_response.status_code == 200 and content_type(http_response) == EVENT_STREAM:
            return http_response
        await self._sender.release(http_response)
        return status_error(http_response)

    async def are_of_2024(self) -> bool:
        """Return whether a GET opens a stream of HTTP+SSE of 2024-11-05, whose first event is an "endpoint"."""
        with move_on_after(5.0):
            http_response = await self._get({})
            if isinstance(http_response, Exception):
                return False
            try:
                async with aclosing(self.events(http_response, Cursor())) as events:
                    async for event in events:
                        return event.type == "endpoint"
            except (InvalidResponse, httpx2.HTTPError):
                pass
            finally:
                await self._sender.release(http_response)
        return False

    async def resume(self, cursor: Cursor, session: NegotiatedSession | None) -> Any:
        """Open a stream again after its last event and return the HTTP response.

        Raises:
            SessionEnded: The server ended the session.
            ConnectionLost: The server does not resume the stream, or too many attempts failed.
        """
        failures = 0
        while True:
            await asyncio.sleep(cursor.delay(failures))
            headers = session_headers(session)
            if cursor.id:
                headers[LAST_EVENT_ID_HEADER] = cursor.id
            fault = await self._get(headers)
            if not isinstance(fault, Exception):
                return fault
            if isinstance(fault, HttpStatusError):
                if fault.status == 404 and session is not None and session.id is not None:
                    raise SessionEnded("the server ended the session") from fault
                # For example 405 from a server without this stream, or 410 from one that has dropped the events.
                if fault.status not in TRANSIENT_STATUSES:
                    raise ConnectionLost("the stream ended, and the server does not resume it") from fault
            failures += 1
            if failures == MAX_ATTEMPTS:
                raise ConnectionLost(f"the stream ended, and {failures} attempts to resume it failed") from fault
