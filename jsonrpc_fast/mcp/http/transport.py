"""The transport for one session over HTTP, or for requests without a session, one at a time.

Rules:
  - Each message from the client arrives through `deliver`, with the stream of its POST. Messages that belong to the
    POST's requests go to that stream; all others go to the stream of the session, which a GET reads.
  - An idle session has no task, no timer and no waiting coroutine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from ...codec import Notification, encode
from ...errors import LOOP_EXITS, ConnectionLost, StateError
from ...profile import Profile
from ...transports.channel import HIGH_WATER_BYTES
from ...transports.protocol import Received, Sendable, Transport
from ...transports.waiters import Waiters
from ...types import MessageId
from ..server.context import HttpRequest
from .streams import MessageStream, without_line_end

MAX_KEPT_MESSAGES: Final = 100
"""Maximum number of messages that are kept for a GET. Beyond it, the oldest are dropped."""
MAX_KEPT_BYTES: Final = 64 * 1024
"""Maximum size of these messages in bytes. It is small because many clients never send a GET."""


class HttpTransport(Transport):
    """A `Transport` whose messages travel in HTTP requests and responses.

    Args:
        profile: The rules by which the messages were decoded.
        max_stream_bytes: Maximum number of bytes buffered in one stream.
        has_session: Whether there is a session. Without one, all messages go to the stream of the current POST.

    Attributes:
        is_shared: Whether the requests of several clients use it, one after another.
        streams: The streams of the requests that have no response yet, by request id.
        receiving: The stream whose message is being delivered.
        buffered: The number of bytes buffered in the streams of requests.
        is_paused: Whether delivery is paused.
        listener: The stream for messages that belong to no request.
        is_listening: Whether a GET is reading `listener`.
        onlisten: If set, called when `is_listening` has changed.
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
        self.is_listening: bool = False
        self.onlisten: Callable[[], None] | None = None
        self.is_shared: bool = not has_session
        self.is_paused: bool = False
        self._is_closed = False
        self._max_stream_bytes = max_stream_bytes
        self._waiters = Waiters()

    # Receiving.

    def open_stream(self, request: HttpRequest, ids: Collection[MessageId]) -> MessageStream:
        """Return a new stream for a POST with these requests, none of them in flight. Without any it has ended."""
        stream = MessageStream(self, self._max_stream_bytes, ids, request)
        stream.is_ended = not ids
        for id in ids:
            self.streams[id] = stream
        return stream

    def deliver(self, message: Received, stream: MessageStream | None) -> None:
        """Deliver a message from the client; responses to it go to `stream`."""
        assert self.onmessage is not None
        self.receiving = stream
        try:
            if stream is None:
                self.onmessage(message)
            else:
                self.onmessage(message, stream)
        except LOOP_EXITS:
            raise
        except Exception as error:
            if self.onerror is not None:
                self.onerror(error)
        finally:
            if not self.is_paused:
                self._end_receiving()

    def _end_receiving(self) -> None:
        stream, self.receiving = self.receiving, None
        if stream is not None and not stream.pending and not stream.is_ended:
            stream.end()

    def cancel_requests(self) -> None:
        """Cancel the requests that have no response yet, because their client no longer waits."""
        for id in list(self.streams):
            self.deliver(Notification("notifications/cancelled", {"requestId": id}), None)

    @property
    def is_idle(self) -> bool:
        """Whether every request has its response, nothing is buffered, and delivery is not paused."""
        return not self.streams and not self.buffered and not self.is_paused

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
        text = without_line_end(message)
        if not text:
            return
        if self.is_shared:
            for stream in self.streams.values():
                stream.put(text)
            return
        listener = self.listener
        if not self.is_listening:
            while len(listener) and (listener.size + len(text) > MAX_KEPT_BYTES or len(listener) >= MAX_KEPT_MESSAGES):
                listener.drop_first()
        listener.put(text)

    def send_late(self, data: bytes) -> None:
        """Send a message that belongs to a request whose stream has ended.

        Raises:
            ConnectionLost: There is no session.
        """
        if self.is_shared:
            raise ConnectionLost("the request already has its response")
        self.send(data)

    def set_listening(self, is_listening: bool) -> None:
        """Record that a GET has begun or stopped reading `listener`."""
        self.is_listening = is_listening
        if self.onlisten is not None:
            self.onlisten()

    @property
    def write_buffer_bytes(self) -> int:
        return self.buffered

    async def drain(self) -> None:
        while self.buffered > HIGH_WATER_BYTES and self.is_connected:
            await self._waiters.wait()
        if not self.is_connected:
            raise ConnectionLost("the session is closed")

    def wake(self) -> None:
        """Wake the coroutines that wait for room or for reading."""
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
            self.streams.clear()
            self.wake()

    async def disconnect(self) -> None:
        await self.close()
