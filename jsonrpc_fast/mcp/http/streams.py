"""One stream of messages to a client: the response to one POST, or the messages that belong to no request.

Rules:
  - Messages are put without waiting; one writer at a time takes them out.
  - The stream of a POST is the destination of what belongs to its requests. It ends with the last of their responses.
  - A message about a request that has had its response goes to the stream of the session.
  - A stream keeps a bounded number of bytes. Beyond that messages are dropped, but no response is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from typing import Protocol

from ...transports.connection import NEWLINE
from ...types import MessageId, Unset
from ..server.context import HttpRequest


class StreamOwner(Protocol):
    """The transport that a stream belongs to.

    Attributes:
        buffered: The size of what waits in its streams.
        receiving: The stream whose message is being delivered.
        streams: The streams of requests without a response, by id.
    """

    buffered: int
    receiving: MessageStream | None
    streams: dict[MessageId, MessageStream]

    def wake(self) -> None:
        """Called after something was taken out of a stream."""

    def send_late(self, data: bytes) -> None:
        """Send a message that belongs to a request whose stream has ended."""


class MessageStream:
    """A stream of messages, each one JSON text without a line break. See `Destination` and `HttpExchange`.

    Args:
        owner: The transport that it belongs to; None for a stream that belongs to no request, which is not counted.
        max_bytes: Maximum size of the messages that wait.
        ids: The ids of the requests whose messages it carries.
        request: The HTTP request that carried them; None for a stream that outlives its HTTP requests.

    Attributes:
        request: The same as the argument.
        pending: The ids of the requests without a response.
        name: Its name in the event store; None if it is not stored.
        is_resumable: Whether its client can reconnect although it has got no message yet.
        is_stored: Whether the client has got the id of an event, so that the rest goes to the store if it disconnects.
        is_ended: Whether no message follows.
        is_detached: Whether no connection reads it any more, so that further messages are dropped.
        wants_close: Whether the connection is to be closed before the end.
        appending: The storing of an event that is in progress, or whose writer was cancelled.
        size: The size of the messages that wait.
    """

    __slots__ = (
        "_has_response",
        "_max_bytes",
        "_messages",
        "_owner",
        "_response",
        "_waiter",
        "appending",
        "is_detached",
        "is_ended",
        "is_resumable",
        "is_stored",
        "name",
        "pending",
        "request",
        "size",
        "wants_close",
    )

    def __init__(
        self,
        owner: StreamOwner | None,
        max_bytes: int,
        ids: Collection[MessageId] = (),
        request: HttpRequest | None = None,
    ) -> None:
        self.request: HttpRequest | None = request
        self.pending: set[MessageId] = set(ids)
        self.name: str | None = None
        self.is_resumable: bool = False
        self.is_stored: bool = False
        self.is_ended: bool = False
        self.is_detached: bool = False
        self.wants_close: bool = False
        self.appending: asyncio.Future[str | None] | None = None
        self.size: int = 0
        self._has_response = False
        self._messages: deque[bytes] | None = None  # an idle stream has none
        self._response = b""
        self._max_bytes = max_bytes
        self._owner = owner
        self._waiter: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._messages) if self._messages else 0

    def __bool__(self) -> bool:
        return True

    @property
    def is_single_response(self) -> bool:
        """Whether the stream has ended with its response, and nothing else waits."""
        return self.is_ended and self._has_response and self._messages is not None and len(self._messages) == 1

    @property
    def is_finished(self) -> bool:
        """Whether the stream has ended and nothing waits."""
        return self.is_ended and not self._messages

    # The destination.

    def send(self, data: bytes) -> None:
        """Send a message that belongs to a request of the stream; after the end of the stream, to an earlier one."""
        if self.is_ended:
            assert self._owner is not None
            self._owner.send_late(data)
        else:
            self.put(without_line_end(data))

    def respond(self, id: MessageId | Unset, data: bytes) -> None:
        """Send the response to a request, b"" for none; UNSET: to the batch or message that is being delivered."""
        assert self._owner is not None
        if not isinstance(id, Unset):
            if id not in self.pending:
                return
            self.pending.discard(id)
            self._owner.streams.pop(id, None)
        if data and not self.is_ended:
            self._has_response = True
            self._response = data[:-1] if data[-1] == NEWLINE else data
        if not self.pending and self._owner.receiving is not self:
            self.end()

    def close_stream(self) -> bool:
        """Ask the writer to close the connection of the response before the end. Return whether it can."""
        if not self.is_resumable or self.is_ended or self.is_detached:
            return False
        self.wants_close = True
        self.wake()
        return True

    # Putting and taking.

    def put(self, data: bytes) -> None:
        """Add a message that is not a response, unless the stream is full or has ended."""
        if self.is_ended or self.is_detached or (self._messages and self.size + len(data) > self._max_bytes):
            return
        self._append(data)
        self.wake()

    def end(self) -> None:
        """Declare that no message follows. The response is the last one."""
        if self._response and not self.is_detached:
            self._append(self._response)
        self._response = b""
        self.is_ended = True
        if self._waiter is not None:
            self.wake()

    def _append(self, data: bytes) -> None:
        if self._messages is None:
            self._messages = deque((data,))
        else:
            self._messages.append(data)
        self.size += len(data)
        if self._owner is not None:
            self._owner.buffered += len(data)

    def first(self) -> bytes:
        """Return the message that has waited longest."""
        assert self._messages
        return self._messages[0]

    def drop_first(self) -> None:
        """Drop the message that has waited longest."""
        assert self._messages
        self._taken(len(self._messages.popleft()))

    def take(self) -> list[bytes]:
        """Take out all messages that wait."""
        messages = list(self._messages or ())
        self._messages = None
        if messages:
            self._taken(self.size)
        return messages

    def _taken(self, size: int) -> None:
        self.size -= size
        if self._owner is not None:
            self._owner.buffered -= size
            self._owner.wake()

    def detach(self) -> None:
        """Drop waiting and further messages: no connection reads them."""
        self.is_detached = True
        self.take()

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
        """Wait for a message, for the end, for `close_stream`, for `wake` or for some seconds."""
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


def without_line_end(text: bytes) -> bytes:
    """Return a text without the line break at its end."""
    return text[:-1] if text and text[-1] == NEWLINE else text
