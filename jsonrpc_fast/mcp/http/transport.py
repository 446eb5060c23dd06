"""The transport of one session over HTTP, or of one request without a session.

Rules:
  - Each message of the client arrives by `deliver`. The messages that belong to a request go to the stream of its POST,
    others to the stream of the session, which a GET reads.
  - A message about a request that has had its response goes to the stream of the session, except a response, which is
    dropped.
  - Nothing here waits: an idle session has no task, no timer and no queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final

from ...codec import Notification, encode
from ...errors import LOOP_EXITS, ConnectionLost, StateError
from ...profile import Profile
from ...transports.channel import HIGH_WATER_BYTES
from ...transports.outbox import NEWLINE
from ...transports.protocol import Received, Sendable, Transport
from ...types import MessageId, Unset
from .streams import Exchange, MessageStream

MAX_KEPT_MESSAGES: Final = 100
"""Maximum number of messages that wait for a GET. Beyond it the oldest are dropped."""
MAX_KEPT_BYTES: Final = 64 * 1024
"""Maximum size of these messages: many clients never send a GET."""


class HttpTransport(Transport):
    """A `Transport` whose messages arrive and leave in the requests and responses of HTTP.

    Args:
        profile: The rules by which the messages were decoded.
        max_stream_bytes: Maximum size of the messages that wait in one stream.
        has_session: Whether there is a session. If not, all messages go to the stream of the only POST.

    Attributes:
        is_shared: Whether the requests of several clients use it, one after another.
        streams: The streams of requests without a response, by id.
        listener: The stream of the messages that belong to no request; None before the first one.
        is_listening: Whether a GET reads it.
        onlisten: If set, called when `is_listening` has changed.
    """

    def __init__(self, profile: Profile, max_stream_bytes: int, *, has_session: bool) -> None:
        self.profile: Profile = profile
        self.onmessage: Callable[..., None] | None = None
        self.onerror: Callable[[Exception], None] | None = None
        self.onclose: Callable[[], None] | None = None
        self.onstop: Callable[[float | None], None] | None = None
        self.pauses_when_blocked = False
        self.streams: dict[MessageId, MessageStream] = {}
        self.listener: MessageStream | None = None
        self.is_listening: bool = False
        self.onlisten: Callable[[], None] | None = None
        self._max_stream_bytes = max_stream_bytes
        self.is_shared: bool = not has_session
        self._receiving: Exchange | None = None  # of the message that is being delivered
        self._is_paused = False
        self._is_closed = False
        self._buffered = 0
        self._waiters: list[asyncio.Future[None]] = []

    # Receiving.

    def open_stream(
        self, ids: Collection[MessageId], exchange: Exchange, name: str | None = None, is_resumable: bool = False
    ) -> MessageStream | None:
        """Return the stream of a POST with these requests; None if an id is in flight already.

        The other arguments are as in `MessageStream`.
        """
        if not self.streams.keys().isdisjoint(ids):
            return None
        stream = MessageStream(ids, self._max_stream_bytes, self._on_change, name=name, is_resumable=is_resumable)
        stream.exchange, exchange.stream = exchange, stream
        for id in ids:
            self.streams[id] = stream
        return stream

    def deliver(self, message: Received, exchange: Exchange | None) -> None:
        """Deliver a message. Responses go to the stream of the exchange."""
        assert self.onmessage is not None
        self._receiving = exchange
        try:
            if exchange is None:
                self.onmessage(message)
            else:
                exchange.transport = self
                self.onmessage(message, exchange)
        except LOOP_EXITS:
            raise
        except Exception as error:
            if self.onerror is not None:
                self.onerror(error)
        finally:
            if not self._is_paused:
                self._received()

    def _received(self) -> None:
        exchange, self._receiving = self._receiving, None
        if exchange is not None and exchange.stream is not None and not exchange.stream.pending:
            exchange.stream.end()

    def cancel_requests(self) -> None:
        """Cancel the requests without a response, because their client does not wait for it."""
        for id in list(self.streams):
            self.deliver(Notification("notifications/cancelled", {"requestId": id}), None)

    @property
    def is_idle(self) -> bool:
        """Whether no request is without a response, and nothing waits."""
        return not self.streams and not self._buffered and not self._is_paused

    @property
    def is_paused(self) -> bool:
        """Whether nothing may be delivered now."""
        return self._is_paused

    async def wait_for_reading(self) -> None:
        """Wait until messages may be delivered."""
        while self._is_paused and not self._is_closed:
            await self._wait()

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._received()
        self._wake()

    # Sending.

    def respond(self, id: MessageId | Unset, data: bytes) -> None:
        """Send the response to a request, b"" for none; UNSET: to the batch or message that is being delivered."""
        if isinstance(id, Unset):
            if self._receiving is not None and self._receiving.stream is not None:
                self._receiving.stream.put_response(_line(data))
            return
        stream = self.streams.pop(id, None)
        if stream is None:
            return
        stream.pending.discard(id)
        stream.put_response(_line(data))
        if not stream.pending and stream.exchange is not self._receiving:
            stream.end()

    def send_about(self, stream: MessageStream | None, data: bytes) -> None:
        """Send a message that belongs to a request of a stream; None, or a stream that has ended: to an earlier one.

        Raises:
            ConnectionLost: The request has been answered, and there is no session.
        """
        if stream is not None and not stream.is_ended:
            stream.put(_line(data))
        elif self.is_shared:
            raise ConnectionLost("the request has been answered")
        else:
            self.send(data)

    def send(self, message: Sendable) -> None:
        if self._is_closed or self.onmessage is None:
            raise ConnectionLost("the session is closed") if self._is_closed else StateError("not started")
        text = _line(
            message if isinstance(message, bytes) else encode(list(message) if isinstance(message, tuple) else message)
        )
        if not text:
            return
        if self.is_shared:
            for stream in self.streams.values():
                stream.put(text)
            return
        listener = self.listener
        if listener is None:
            listener = self.open_listener()
        if not self.is_listening:
            while len(listener) and (listener.size + len(text) > MAX_KEPT_BYTES or len(listener) >= MAX_KEPT_MESSAGES):
                listener.drop_first()
        listener.put(text)

    def set_listening(self, is_listening: bool) -> None:
        """Note that a GET begins to read `listener`, or has ended."""
        self.is_listening = is_listening
        if self.onlisten is not None:
            self.onlisten()

    def open_listener(self) -> MessageStream:
        """Return the stream of the messages that belong to no request."""
        if self.listener is None:
            self.listener = MessageStream((), self._max_stream_bytes, None)
        return self.listener

    @property
    def write_buffer_bytes(self) -> int:
        return self._buffered

    async def drain(self) -> None:
        while self._buffered > HIGH_WATER_BYTES and not self._is_closed:
            await self._wait()
        if self._is_closed:
            raise ConnectionLost("the session is closed")

    def _on_change(self, size: int) -> None:
        self._buffered += size
        if size < 0 and self._waiters:
            self._wake()

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

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
            for stream in set(self.streams.values()):
                stream.end()
            if self.listener is not None:
                self.listener.end()
            if self.onclose is not None:
                self.onclose()
            self.streams.clear()
            self._wake()

    async def disconnect(self) -> None:
        await self.close()


def _line(text: Any) -> bytes:
    line: bytes = text[:-1] if text and text[-1] == NEWLINE else text
    return line
