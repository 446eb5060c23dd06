"""The transport for one session over HTTP, or for requests without a session, one at a time, and its streams.

Rules:
  - Each message from the client arrives through `deliver`, with the stream of its POST. Messages that belong to the
    POST's requests go to that stream; all others go to the stream of the session, which a GET reads.
  - An idle session has no task, no timer and no waiting coroutine.
  - The stream of a POST is the destination of the messages that belong to its requests. It ends with the last of their
    responses.
  - A message about a request that already has its response goes to the stream of the session.
  - Messages are added without waiting; one writer at a time removes them. A stream keeps a bounded number of bytes.
    Beyond that, messages are dropped. Responses are never dropped, and their size is not counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from ...codec import Notification, encode
from ...errors import ConnectionLost, StateError
from ...http.requests import Header
from ...profile import Profile
from ...support import Waiters
from ...transports import Received, Sendable, Transport, drop_callbacks
from ...types import UNSET, MessageId, Unset
from ..server.context import HttpRequest

MAX_KEPT_MESSAGES: Final = 100
"""Maximum number of messages that are kept for a GET. Beyond it, the oldest are dropped."""
MAX_KEPT_BYTES: Final = 64 * 1024
"""Maximum size of these messages in bytes. It is small because many clients never send a GET."""


@dataclass(slots=True, eq=False, repr=False)
class MessageStream:
    """A stream of messages, each one JSON text without a line break. See `Destination` and `HttpExchange`.

    Args:
        owner: The transport that it belongs to; None for a stream that belongs to no request, which is not counted.
        max_bytes: Maximum size of the messages that wait.
        pending: The ids of the requests without a response, whose messages it carries.
        request: The HTTP request that carried them; for a stream that outlives its HTTP requests the GET that reads it,
            or None.

    Attributes:
        status_of: Returns the status of the HTTP response for a response that is sent as JSON.
        fields: Further headers of the HTTP response.
        name: Its name in the event store; None if it is not stored.
        is_resumable: Whether its client can reconnect although it has not received a message yet.
        is_stored: Whether the client has received an event id, so that the rest goes to the store if it disconnects.
        is_ended: Whether no more messages follow.
        is_detached: Whether no connection reads it any longer, so that further messages are dropped.
        wants_close: Whether the connection is to be closed before the end.
        appending: The storing of an event that is in progress, or whose writer was cancelled.
        size: The size of the messages that wait. The response is not counted: each request has one.
    """

    _owner: HttpTransport | None
    _max_bytes: int
    pending: set[MessageId] = field(default_factory=set)
    request: HttpRequest | None = None
    status_of: Callable[[bytes], int] = lambda _: 200
    fields: Collection[Header] = ()
    name: str | None = None
    is_resumable: bool = False
    is_stored: bool = False
    is_ended: bool = False
    is_detached: bool = False
    wants_close: bool = False
    appending: asyncio.Future[str | None] | None = None
    size: int = 0
    # A server may have 10,000 sessions, and most clients never read their listener.
    _messages: deque[bytes] | None = None  # an idle stream has none
    _response: bytes = b""  # after the messages
    _waiter: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return (0 if self._messages is None else len(self._messages)) + bool(self._response and self.is_ended)

    def __bool__(self) -> bool:  # an empty stream is a stream, too
        return True

    @property
    def is_finished(self) -> bool:
        """Whether the stream has ended and nothing waits."""
        return self.is_ended and not self._messages and not self._response

    # The destination.

    def send(self, data: bytes) -> None:
        """Send a message that belongs to a request of the stream; after the end of the stream, to an earlier one.

        Raises:
            ConnectionLost: The stream has ended, and there is no session.
        """
        if not self.is_ended:
            self.put(data.rstrip(b"\n"))
            return
        # A task of a function may continue, and report progress, after its response.
        assert self._owner is not None
        if self._owner.is_shared:
            raise ConnectionLost("the request already has its response")
        self._owner.send(data)

    def respond(self, id: MessageId | Unset, data: bytes) -> None:
        """Send the response to a request, b"" for none; UNSET: to the batch or message that is being delivered."""
        owner = self._owner
        assert owner is not None
        if id is not UNSET:
            if id not in self.pending:  # a second response, such as one from a relayed program
                return
            self.pending.discard(id)
            owner.streams.pop(id, None)
            if not owner.streams:
                owner.wake()
        if data and not self.is_ended and not self.is_detached:
            self._response = data.rstrip(b"\n")
        # While a batch is delivered its requests end one by one. Its response is one, after the last of them.
        if not self.pending and owner.receiving is not self:
            self.end()

    def close_stream(self) -> bool:
        """Ask the writer to close the connection of the response before the end. Return whether it can."""
        # A client without an event id could not reconnect for the response.
        if not self.is_resumable or self.is_ended or self.is_detached:
            return False
        self.wants_close = True
        self.wake()
        return True

    # Putting and taking.

    def put(self, data: bytes) -> None:
        """Add a message that is not a response, unless the stream is full or has ended."""
        # An empty stream accepts a message beyond the bound, which could never be sent otherwise.
        if self.is_ended or self.is_detached or (self._messages and self.size + len(data) > self._max_bytes):
            return
        if self._messages is None:
            self._messages = deque()
        self._messages.append(data)
        self._count(len(data))
        self.wake()

    def end(self) -> None:
        """Declare that no more messages follow. The response is the last one."""
        self.is_ended = True
        self.wake()

    def _count(self, size: int) -> None:
        self.size += size
        if self._owner is not None:
            self._owner.buffered += size
            if size < 0:
                self._owner.wake()

    def take_first(self) -> bytes:
        """Remove and return the message that has waited longest."""
        if not self._messages:
            return self.take_response()
        first = self._messages.popleft()
        self._count(-len(first))
        return first

    def take_response(self) -> bytes:
        """Remove and return the response if the stream has ended with it and no message waits; otherwise return b""."""
        if self._messages or not self.is_ended:
            return b""
        response, self._response = self._response, b""
        return response

    def detach(self) -> None:
        """Drop waiting and further messages: no connection reads them. Without a session, this cancels the requests."""
        self.is_detached = True
        self._messages, self._response = None, b""
        self._count(-self.size)
        if self._owner is not None and self._owner.is_shared:  # without a session the rest cannot be requested
            self._owner.cancel_requests()

    async def wait_until_stored(self) -> None:
        """Wait until an event that a cancelled writer was storing is stored."""
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
            if self._waiter is waiter:  # another writer may wait already
                self._waiter = None
            if timer is not None:
                timer.cancel()


class HttpTransport(Transport):
    """A `Transport` whose messages travel in HTTP requests and responses.

    Args:
        profile: The rules by which the messages were decoded.
        max_stream_bytes: Maximum number of bytes buffered in one stream.
        has_session: Whether there is a session. Without one, all messages go to the stream of the current POST.

    Attributes:
        is_shared: Whether the requests of several clients use it, one after another.
        streams: The streams of the requests that have no response yet, by request id.
        receiving: The stream whose batch is being delivered.
        buffered: The number of bytes that wait in the streams of requests.
        is_paused: Whether delivery is paused.
        listener: The stream for messages that belong to no request.
    """

    def __init__(self, profile: Profile, max_stream_bytes: int, *, has_session: bool) -> None:
        self.profile: Profile = profile
        self.onmessage: Callable[..., None] | None = None
        self.onerror: Callable[[Exception], None] | None = None
        self.onclose: Callable[[], None] | None = None
        self.pauses_when_blocked = False
        self.streams: dict[MessageId, MessageStream] = {}
        self.receiving: MessageStream | None = None
        self.buffered: int = 0
        self.listener: MessageStream = MessageStream(None, max_stream_bytes)
        self.is_shared: bool = not has_session
        self.is_paused: bool = False
        self._is_closed = False
        self._max_stream_bytes = max_stream_bytes
        self._waiters = Waiters()

    # Receiving.

    def open_stream(self, request: HttpRequest, ids: Collection[MessageId]) -> MessageStream:
        """Return a new stream for a POST with these requests, none of them in flight. Without any, it has ended."""
        # A POST with only notifications gets no messages: its stream has ended already.
        stream = MessageStream(self, self._max_stream_bytes, set(ids), request, is_ended=not ids)
        self.streams |= dict.fromkeys(ids, stream)
        return stream

    def deliver(self, message: Received, stream: MessageStream | None) -> None:
        """Deliver a message from the client; responses to it go to `stream`."""
        assert self.onmessage is not None
        if type(message) is list:
            self.receiving = stream
        try:
            self.onmessage(message, stream)
        except (KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            if self.onerror is not None:
                self.onerror(error)
        finally:
            if self.receiving is not None and not self.is_paused:
                self._end_receiving()

    def _end_receiving(self) -> None:
        stream, self.receiving = self.receiving, None
        if stream is not None and not stream.pending:
            stream.end()

    def cancel_requests(self) -> None:
        """Cancel the requests that have no response yet, because their client no longer waits."""
        for id in list(self.streams):  # a copy: a response removes its stream
            self.deliver(Notification("notifications/cancelled", {"requestId": id}), None)

    @property
    def is_idle(self) -> bool:
        """Whether every request has its response, nothing is buffered, and delivery is not paused."""
        return not self.streams and not self.buffered and not self.is_paused

    async def wait_for_responses(self) -> None:
        """Wait until every request has its response, or until the transport is closed."""
        while self.streams:
            await self._waiters.wait()

    async def wait_for_reading(self) -> None:
        """Wait until messages may be delivered."""
        while self.is_paused and self.is_connected:
            await self._waiters.wait()

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False
        self._end_receiving()
        self.wake()

    # Sending.

    def send(self, message: Sendable) -> None:
        if not self.is_connected or self.onmessage is None:
            raise StateError("not started") if self.is_connected else ConnectionLost("the session is closed")
        if not isinstance(message, bytes):
            message = encode(list(message) if isinstance(message, tuple) else message)
        text = message.rstrip(b"\n")
        if not text:
            return
        if self.is_shared:
            # There is one request at a time, so this is its stream.
            for stream in self.streams.values():
                stream.put(text)
            return
        listener = self.listener
        if listener.request is None:  # many clients never send a GET, so only the latest messages are kept
            while len(listener) and (listener.size + len(text) > MAX_KEPT_BYTES or len(listener) >= MAX_KEPT_MESSAGES):
                listener.take_first()
        listener.put(text)

    def set_listening(self, request: HttpRequest | None) -> None:
        """Record that a GET has begun to read `listener`, or that it has stopped."""
        self.listener.request = request

    @property
    def write_buffer_bytes(self) -> int:
        return self.buffered

    async def drain(self) -> None:
        while self.buffered > 64 * 1024 and self.is_connected:
            await self._waiters.wait()
        if not self.is_connected:
            raise ConnectionLost("the session is closed")

    def wake(self) -> None:
        """Wake the coroutines that wait for room, for reading or for responses."""
        self._waiters.wake()

    # States.

    @property
    def is_connected(self) -> bool:
        return not self._is_closed

    async def connect(self) -> None:
        pass

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            for stream in {*self.streams.values(), self.listener}:
                stream.end()
            if self.onclose is not None:
                self.onclose()
            drop_callbacks(self)
            self.streams.clear()
            self.wake()

    async def disconnect(self) -> None:
        await self.close()
