"""One stream of messages to a client: the response to one POST, or the messages that belong to no request.

Rules:
  - Messages are put without waiting; one writer at a time takes them out.
  - The stream of a POST ends with the response to its last request.
  - A stream keeps a bounded number of bytes. Beyond that messages are dropped, but no response is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from ...types import MessageId, Unset


class Delivering(Protocol):
    """The transport of the session that an HTTP request belongs to."""

    def send_about(self, stream: MessageStream | None, data: bytes) -> None: ...

    def respond(self, id: MessageId | Unset, data: bytes) -> None: ...


class Exchange:
    """One HTTP request with a message, as the functions that serve the message see it: see `HttpExchange`.

    Attributes:
        claims: What the check of the token returned.
        subject: Who the token stands for.
        scope: The scope of ASGI.
        stream: The stream of the response; None if the message needs no response.
        transport: The transport that delivers the message; None before.
    """

    __slots__ = ("claims", "scope", "stream", "subject", "transport")

    def __init__(self, scope: Mapping[str, Any], claims: Any = None, subject: object = None) -> None:
        self.scope: Mapping[str, Any] = scope
        self.claims: Any = claims
        self.subject: object = subject
        self.stream: MessageStream | None = None
        self.transport: Delivering | None = None

    def send(self, data: bytes) -> None:
        """Send a message that belongs to a request of the exchange; see `Destination`."""
        assert self.transport is not None
        self.transport.send_about(self.stream, data)

    def respond(self, id: MessageId | Unset, data: bytes) -> None:
        """Send the response to a request; see `Destination`."""
        assert self.transport is not None
        self.transport.respond(id, data)

    def close_stream(self) -> bool:
        """Close the connection of the response without ending the response, if the client can reconnect."""
        return self.stream is not None and self.stream.close_connection()


class MessageStream:
    """A stream of messages, each one JSON text without a line break.

    Args:
        ids: The ids of the requests whose messages it carries.
        max_bytes: Maximum size of the messages that wait.
        on_change: Called with the change of the size of what waits.
        name: Its name in the event store; None if it is not stored.
        is_resumable: Whether its client can reconnect although it has got no message yet.

    Attributes:
        pending: The ids of the requests without a response.
        exchange: The HTTP request that it answers; None for a stream of a session.
        name: The same as the argument.
        is_resumable: The same as the argument.
        is_stored: Whether the client has got the id of an event, so that the rest goes to the store if it disconnects.
        is_ended: Whether no message follows.
        is_detached: Whether no connection reads it any more, so that further messages are dropped.
        wants_close: Whether the connection is to be closed before the end.
        has_response: Whether the response was put.
        appending: The storing of an event that is in progress, or whose writer was cancelled.
        size: The size of the messages that wait.
    """

    __slots__ = (
        "_max_bytes",
        "_messages",
        "_on_change",
        "_response",
        "_waiter",
        "appending",
        "exchange",
        "has_response",
        "is_detached",
        "is_ended",
        "is_resumable",
        "is_stored",
        "name",
        "pending",
        "size",
        "wants_close",
    )

    def __init__(
        self,
        ids: Collection[MessageId],
        max_bytes: int,
        on_change: Callable[[int], None] | None,
        *,
        name: str | None = None,
        is_resumable: bool = False,
    ) -> None:
        self.pending: set[MessageId] = set(ids)
        self.exchange: Exchange | None = None
        self.name: str | None = name
        self.is_resumable: bool = is_resumable
        self.is_stored: bool = False
        self.is_ended: bool = False
        self.is_detached: bool = False
        self.wants_close: bool = False
        self.has_response: bool = False
        self.appending: asyncio.Future[str | None] | None = None
        self.size: int = 0
        self._messages: deque[bytes] | None = None  # an idle stream has none
        self._response = b""
        self._max_bytes = max_bytes
        self._on_change = on_change
        self._waiter: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._messages) if self._messages else 0

    def __bool__(self) -> bool:
        return True

    @property
    def is_single_response(self) -> bool:
        """Whether the stream has ended with its response, and nothing else waits."""
        return self.is_ended and self.has_response and self._messages is not None and len(self._messages) == 1

    @property
    def is_finished(self) -> bool:
        """Whether the stream has ended and nothing waits."""
        return self.is_ended and not self._messages

    def put(self, data: bytes) -> bool:
        """Add a message that is not a response. Return False if it was dropped."""
        if self.is_ended or self.is_detached or (self._messages and self.size + len(data) > self._max_bytes):
            return False
        self._put(data)
        self.wake()
        return True

    def put_response(self, data: bytes) -> None:
        """Add the response, b"" for none. It becomes the last message when the stream ends."""
        if data and not self.is_ended:
            self.has_response = True
            self._response = data

    def _put(self, data: bytes) -> None:
        if self._messages is None:
            self._messages = deque((data,))
        else:
            self._messages.append(data)
        self._resize(len(data))

    def _resize(self, change: int) -> None:
        self.size += change
        if self._on_change is not None:
            self._on_change(change)

    def first(self) -> bytes:
        """Return the message that has waited longest."""
        assert self._messages
        return self._messages[0]

    def drop_first(self) -> None:
        """Drop the message that has waited longest."""
        assert self._messages
        self._resize(-len(self._messages.popleft()))

    def take(self) -> list[bytes]:
        """Take out all messages that wait."""
        messages = list(self._messages or ())
        self._messages = None
        self._resize(-self.size)
        return messages

    def end(self) -> None:
        """Declare that no message follows."""
        if self._response and not self.is_detached:
            self._put(self._response)
        self._response = b""
        self.is_ended = True
        self.wake()

    def detach(self) -> None:
        """Drop waiting and further messages: no connection reads them."""
        self.is_detached = True
        self.take()

    def close_connection(self) -> bool:
        """Ask the writer to close the connection before the end. Return whether it can."""
        if not self.is_resumable or self.is_ended or self.is_detached:
            return False
        self.wants_close = True
        self.wake()
        return True

    async def wait_until_stored(self) -> None:
        """Wait for the end of the storing that a cancelled writer left."""
        appending, self.appending = self.appending, None
        if appending is not None:
            await asyncio.wait([appending])

    def wake(self) -> None:
        """Wake the writer."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float | None = None) -> None:
        """Wait for a message, for the end, for `close_connection`, for `wake` or for some seconds."""
        if self._messages or self.is_ended or self.wants_close:
            return
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        timer = None if seconds is None else loop.call_later(seconds, self.wake)
        try:
            await waiter
        finally:
            if self._waiter is waiter:
                self._waiter = None
            if timer is not None:
                timer.cancel()
