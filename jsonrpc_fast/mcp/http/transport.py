"""A session over HTTP, up to 2025-11-25, and streams of messages.

Rules:
  - An idle session has no task, no timer and no waiting coroutine.
  - Messages are added without waiting; one writer at a time removes them. A stream keeps a bounded number of bytes.
    Beyond that, messages are dropped. Responses are never dropped, and their size is not counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

from ...codec import Notification, Response, encode
from ...errors import ConnectionLost, StateError
from ...http.requests import Header
from ...profile import Profile
from ...support import Waiters
from ...transports import Received, Sendable, Transport, drop_callbacks
from ...types import MessageId
from ..protocol.meta import member_of
from ..server.session import FrontSession, HttpRequest

HIGH_WATER_BYTES: Final = 256 * 1024
"""Above it, as in other transports, a sender waits for the client to read."""


@dataclass(slots=True, eq=False, repr=False)
class MessageStream:
    """A stream of messages, each one JSON text without a line break.

    Args:
        request: The HTTP request that reads it; None for the stream of a session without a GET.

    Attributes:
        status: The status of the HTTP response for a response that is sent as JSON.
        name: Its name in the event store; None if it is not stored.
        is_resumable: Whether its client can reconnect although it has not received a message yet.
        is_stored: Whether the client has received an event id, so that the rest goes to the store if it disconnects.
        is_detached: Whether no connection reads it any longer, so that further messages are dropped.
        wants_close: Whether the connection is to be closed before the end.
        appending: The storing of an event that is in progress, or whose writer was cancelled.
        size: The size of the messages that wait. The response is not counted: each request has one.
    """

    _max_bytes: int
    request: HttpRequest | None = None
    status: int = field(default=200, init=False)
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
        """Drop waiting and further messages: no connection reads them."""
        self.is_detached = True
        self._messages, self._response = None, b""
        self._count(-self.size)

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


class HttpSession(Transport):
    """A session of 2025-11-25 or earlier, and its `Transport`, whose messages travel in HTTP requests and responses.

    Attributes:
        streams: The number of streams that it has had.
        requests: The client's requests that have no response yet, by id.
        buffered: The number of bytes that wait in the exchanges.
        listener: The stream for messages that belong to no request.
    """

    connection: FrontSession

    def __init__(self, profile: Profile, max_stream_bytes: int, id: str, subject: object, used: float) -> None:
        self.profile: Profile = profile
        self.id: str = id
        self.subject: object = subject
        self.used: float = used
        self.posts: int = 0
        self.streams: int = 0
        self.onmessage: Callable[..., None] | None = None
        self.onerror: Callable[[Exception], None] | None = None
        self.onclose: Callable[[], None] | None = None
        self.pauses_when_blocked = False
        self.requests: dict[MessageId, Any] = {}
        self.buffered: int = 0
        self.listener: MessageStream = MessageStream(max_stream_bytes)
        self.is_paused: bool = False
        self._is_closed = False
        self._waiters = Waiters()

    def __enter__(self) -> None:
        """Begin an HTTP request of the session."""
        self.posts += 1

    def __exit__(self, *_: object) -> None:
        self.posts -= 1

    def stream_name(self, kind: str = "") -> str:
        """Return the name of a new stream for the event store."""
        self.streams += 1
        return f"{self.id}/{kind}{self.streams}"

    def replace_listener(self) -> None:
        """Let a GET in progress leave the stream of the session to another one."""
        if self.listener.request is not None:
            self.listener.request = None
            self.listener.wake()

    @property
    def is_idle(self) -> bool:
        """Whether no request of the session is in progress."""
        return not self.posts and not self.requests

    # Receiving.

    def deliver(self, message: Received) -> None:
        """Deliver a notification or a response of the client."""
        assert self.onmessage is not None
        try:
            self.onmessage(message)
        except (KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            if self.onerror is not None:
                self.onerror(error)

    async def deliver_soon(self, message: Notification | Response) -> None:
        """Deliver a message once the session reads, and cancel the request that it names, if it is a cancellation."""
        # The session holds as much as it may, so a POST waits.
        while self.is_paused and self.is_connected:
            await self._waiters.wait()
        if type(message) is Notification and message.method == "notifications/cancelled":
            id = member_of(message.params, "requestId")
            # By type: True equals 1 in Python.
            if type(id) in (int, str) and (cancelled := self.requests.get(id)) is not None:
                cancelled.cancel()
        self.deliver(message)

    def count(self, size: int) -> None:
        """Count bytes that wait in an exchange; fewer, if negative."""
        self.buffered += size
        if size < 0:
            self.wake()

    async def wait_for_responses(self) -> None:
        """Wait until every request has its response, or until the transport is closed."""
        while self.requests:
            await self._waiters.wait()

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False
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
        listener = self.listener
        if listener.request is None:
            # Many clients never send a GET, so only the latest messages are kept: 100, of 64 KiB.
            while len(listener) and (listener.size + len(text) > 64 * 1024 or len(listener) >= 100):
                listener.take_first()
        listener.put(text)

    @property
    def write_buffer_bytes(self) -> int:
        return self.buffered

    async def drain(self) -> None:
        while self.buffered > HIGH_WATER_BYTES and self.is_connected:
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
            self.listener.end()
            if self.onclose is not None:
                self.onclose()
            drop_callbacks(self)
            self.wake()

    async def disconnect(self) -> None:
        await self.close()
