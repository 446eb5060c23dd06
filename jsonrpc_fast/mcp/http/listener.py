"""The GET stream of a session, which carries the messages that belong to no request of the client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ...errors import CallTimeout
from ...framing.sse import Event
from .client_session import NegotiatedSession
from .event_reader import Cursor, EventReader, SessionEnded
from .sending import HttpSender


class Listener:
    """Reads the GET stream of the current session for as long as the server offers it.

    Args:
        sender: Sends the requests.
        events: Reads the streams.
        begin: Starts a task.
        on_event: Called with each event.
        report: Called with what breaks a stream.
        renew: Begins a new session in place of one that the server ended. It does not raise.
    """

    def __init__(
        self,
        sender: HttpSender,
        events: EventReader,
        *,
        begin: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        on_event: Callable[[Event], None],
        report: Callable[[Exception], None],
        renew: Callable[[NegotiatedSession], Awaitable[None]],
    ) -> None:
        self._sender = sender
        self._events = events
        self._begin = begin
        self._on_event = on_event
        self._report = report
        self._renew = renew
        self._task: asyncio.Task[None] | None = None
        self._lost: NegotiatedSession | None = None  # the session whose stream is lost

    def begin(self, session: NegotiatedSession) -> None:
        """Begin to read the stream of a session, and stop reading that of an earlier one."""
        if self._task is not None:
            self._task.cancel()
        self._lost = None
        self._task = self._begin(self._listen(session))

    def begin_if_lost(self, session: NegotiatedSession | None) -> None:
        """Try again if the stream of this session was lost: the server answers its requests."""
        if session is not None and self._lost is session:
            self.begin(session)

    async def _listen(self, session: NegotiatedSession) -> None:
        cursor = Cursor()
        try:
            http_response = await self._events.open(session)
            while http_response is not None:
                try:
                    fault = await self._events.read(http_response, cursor, self._on_event, _never)
                finally:
                    await self._sender.release(http_response)
                if fault is not None and not isinstance(fault, CallTimeout):
                    self._report(fault)
                http_response = await self._events.resume(cursor, session)
        except SessionEnded as error:
            self._report(error)
            self._task = None  # renewing begins the next one, and must not cancel this one
            await self._renew(session)
        except (Exception, asyncio.CancelledError) as error:
            fault = self._sender.translated(error)
            self._lost = session
            self._report(fault)


def _never() -> bool:
    return False
