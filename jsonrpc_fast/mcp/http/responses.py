"""HTTP responses that carry the messages of a stream: JSON, or server-sent events; and the log of these events.

Rules:
  - A stream that contains only the response is sent as JSON. Any other is sent as events, and so is one without a
    message for as long as a keep-alive.
  - An event is stored before it is sent, and carries the id that the store gave it. When the client of a stored stream
    disconnects, the rest of the stream goes to the store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import CoroutineType
from typing import Any, Final

from ...errors import ConnectionLost, EventsLost
from ...http import Refusal
from ...http.guard import WATCH_SECONDS, Cancellable, awaited
from ...http.requests import Header, Receive, Send
from ...support import is_failure, on_failure
from ..protocol.versions import Revision, since
from .event_store import EventStore, MemoryEventStore
from .transport import MessageStream

_FAILURES: Final = (Exception, asyncio.CancelledError)  # `is_failure` tells which of these the store raised


class EventLog:
    """Stores the events of streams in the user's `EventStore`, and reads them again.

    When the store fails, by whatever exception, the stream continues without ids, and a client that tries to resume it
    is refused: with 410 if events are missing, otherwise with 503. A failure is reported, unless it is one of the two
    exceptions that `EventStore` names for reading.
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

        Raises Refusal: the store cannot be read (503).
        """
        with _reading():
            return _id(await self._store.stream_of(event_id))

    async def follow(self, event_id: str) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield the ids and data of the events after a given one, then of new ones, until the stream ends.

        Raises Refusal: events are missing (410), or the store cannot be read (503).
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


EVENT_TYPE: Final = b"text/event-stream"
NO_LENGTH: Final = (b"content-length", b"0")

_EVENT_HEADERS: Final[list[Header]] = [
    (b"content-type", EVENT_TYPE),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
_KEEP_ALIVE: Final = b": keep-alive\n\n"
_SENT: Final = object()


@dataclass(slots=True, eq=False, repr=False)
class AsgiRequest:
    """An HTTP request of ASGI, whether its client is still there, and how its response is sent.

    Args:
        receive: The application's `receive`; the body was received.
        write_seconds: How long a client may take to read the data that is written; None: no limit.

    Attributes:
        claims: The result of the check of the token; None without authorization.
        subject: The user or program that the token identifies; None without authorization.
        is_gone: Whether the client has disconnected, or has stopped reading.
        watcher: The task that watches for the disconnection of the client, if there is one.
    """

    receive: Receive
    _send: Send
    _write_seconds: float | None
    scope: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    claims: Any = None
    subject: object = None
    is_gone: bool = False
    is_begun: bool = False
    watcher: asyncio.Task[None] | None = None

    def watch(self, on_gone: Callable[[], None]) -> None:
        """Watch for the disconnection of the client."""

        async def wait() -> None:
            while (await self.receive())["type"] != "http.disconnect":
                pass
            self.is_gone = True
            on_gone()

        # Not earlier, because a task for each request would cost more than most calls.
        if self.watcher is None:
            self.watcher = asyncio.get_running_loop().create_task(wait())

    async def stop_watching(self) -> None:
        """End the watching task, if there is one."""
        watcher, self.watcher = self.watcher, None
        if watcher is not None:
            watcher.cancel()
            # With a timeout: the `receive` of a framework may ignore the cancellation.
            await asyncio.wait([watcher], timeout=1.0)
            if watcher.done() and not watcher.cancelled():
                watcher.exception()  # each ASGI server raises its own exceptions when the client has disconnected

    # Each of these returns an awaitable whose result is False if the client has disconnected.

    def begin(self, status: int, headers: list[Header]) -> Awaitable[bool]:
        """Send the status and the headers."""
        return self._write({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, data: bytes) -> Awaitable[bool]:
        """Send a part of the body."""
        return self._write({"type": "http.response.body", "body": data, "more_body": True})

    def end(self, data: bytes = b"") -> Awaitable[bool]:
        """Send the last part of the body."""
        return self._write({"type": "http.response.body", "body": data})

    def send_whole(self, status: int, headers: list[Header], body: bytes) -> Awaitable[bool]:
        """Send a response whose body is known."""
        start = {"type": "http.response.start", "status": status, "headers": headers}
        return self._write(start, {"type": "http.response.body", "body": body})

    def send_json(self, status: int, data: bytes, headers: Collection[Header] = ()) -> Awaitable[bool]:
        """Send a response of JSON-RPC."""
        data = data.rstrip(b"\n")
        fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data)), *headers]
        # Inlined `send_whole`, to save a call for each response.
        start = {"type": "http.response.start", "status": status, "headers": fields}
        return self._write(start, {"type": "http.response.body", "body": data})

    async def _write(self, *messages: dict[str, Any]) -> bool:
        self.is_begun = True
        for message in messages:
            if self.is_gone:
                return False
            try:
                sending: Any = self._send(message)
                if type(sending) is not CoroutineType:  # not every awaitable has `send`
                    sending = awaited(sending)
                # Unlike `send`, `next` ends without an exception, which would cost as much as the sending.
                waiting = next(sending.__await__(), _SENT)
                if waiting is not _SENT:
                    guarded = Cancellable(sending, waiting, seconds=self._write_seconds)
                    await guarded
                    self.is_gone |= guarded.is_cancelled
            # ASGI specifies that `send` raises it if the client has disconnected (spec 2.4).
            except OSError:
                self.is_gone = True
        return not self.is_gone


@dataclass(slots=True, eq=False, repr=False)
class ResponseSender:
    """Writes the messages of streams as responses.

    Args:
        log: Stores the events; None: streams cannot be resumed.
    """

    log: EventLog | None
    _retry_ms: int
    _keep_alive_seconds: float
    _pumps: set[asyncio.Task[None]] = field(default_factory=set)

    def is_resumable(self, revision: Revision | None) -> bool:
        """Return whether a client can reconnect although it has not received a message yet."""
        return self.log is not None and revision is not None and revision.version in since("2025-11-25")

    async def respond(self, stream: MessageStream, request: AsgiRequest, work: Awaitable[None] | None = None) -> None:
        """Respond to a POST with the messages of its stream. It may be watched afterwards.

        Args:
            work: The rest of a handler, which puts its response into the stream. It continues in this task; if it takes
                longer than WATCH_SECONDS, another task responds.
        """
        if work is None:
            await self._respond(stream, request)
            return
        loop = asyncio.get_running_loop()
        writers: list[asyncio.Task[None]] = []
        timer = loop.call_later(WATCH_SECONDS, lambda: writers.append(loop.create_task(self._respond(stream, request))))

        def give_up() -> None:  # the task was cancelled from outside
            for writer in writers:
                writer.cancel()

        try:
            with on_failure(give_up):
                await work
        finally:
            timer.cancel()
        await (writers[0] if writers else self._respond(stream, request))

    async def _respond(self, stream: MessageStream, request: AsgiRequest) -> None:
        try:
            if not stream.is_ended:
                await asyncio.sleep(0)  # most functions end in their first turn: then no timer is needed
            if not stream.is_ended:
                await stream.wait(WATCH_SECONDS)
            # Events show the client that the server is alive. Until the first event the response can still be JSON.
            if not stream.is_ended:
                request.watch(stream.wake)
                await stream.wait(self._keep_alive_seconds)
            # Nothing was sent before the response, so it can be JSON, which costs less on both sides.
            if text := stream.take_response():
                await request.send_json(stream.status, text, stream.fields)
                return
            await self._begin(stream, request)
            await self._write(stream, request)
            await request.end()
        finally:
            if stream.is_stored or not stream.is_finished:
                self._leave(stream)

    async def listen(self, stream: MessageStream, request: AsgiRequest) -> None:
        """Respond to a GET with the messages of a stream that outlives the GET, until either side closes the GET."""
        name = stream.name
        request.watch(stream.wake)
        try:
            await self._begin(stream, request)
            await self._write(stream, request)
            await request.end()
        finally:
            # The next GET gets a stream with another name, which begins with the remaining messages.
            await stream.wait_until_stored()
            await self._end(stream, name)

    async def resume(self, event_id: str, request: AsgiRequest) -> None:
        """Respond to a GET with the events after one that the client has received, until their stream ends.

        Raises Refusal: see `EventLog.follow`. If the response has begun, it was cut off.
        """
        assert self.log is not None
        events = self.log.follow(event_id)
        # A task, because it must outlive the keep-alive timeout: cancelling an async generator ends it.
        waiting: asyncio.Future[Any] = asyncio.ensure_future(_next(events))
        try:
            await asyncio.wait([waiting], timeout=WATCH_SECONDS)
            # A missing event must get a status, which cannot be sent after the response has begun.
            if waiting.done():
                waiting.result()  # raises before the response begins
            await request.begin(200, _EVENT_HEADERS)
            gone = asyncio.get_running_loop().create_future()
            request.watch(partial(gone.set_result, None))
            while not request.is_gone:
                await asyncio.wait(
                    [waiting, gone], timeout=self._keep_alive_seconds, return_when=asyncio.FIRST_COMPLETED
                )
                if not waiting.done():
                    await request.write(_KEEP_ALIVE)
                    continue
                event = waiting.result()
                if event is None:
                    return
                await request.write(_event(*event))
                waiting = asyncio.ensure_future(_next(events))
        finally:
            if not waiting.done():
                waiting.cancel()
                await asyncio.wait([waiting])
            elif not waiting.cancelled():
                waiting.exception()
            with contextlib.suppress(Refusal):
                await events.aclose()
            await request.stop_watching()

    async def _begin(self, stream: MessageStream, request: AsgiRequest) -> None:
        if not request.is_begun:
            await request.begin(200, [*_EVENT_HEADERS, *stream.fields])
        # With this event the client can reconnect before there is any message (SEP-1699).
        if stream.is_resumable and (id := await self._append(stream, None)) is not None:
            await request.write(b"id: %b\nretry: %d\ndata: \n\n" % (id.encode(), self._retry_ms))

    async def _write(self, stream: MessageStream, request: AsgiRequest) -> None:
        """Write the messages of a stream until it ends, is to be closed, or the connection is no longer used."""
        while not request.is_gone and stream.request is request:
            if len(stream):
                await request.write(await self._take(stream))
            elif stream.is_ended:
                if stream.is_stored:
                    await self._end(stream, stream.name)
                return
            elif stream.wants_close:
                return
            else:
                await stream.wait(self._keep_alive_seconds)
                is_silent = not len(stream) and not stream.is_ended and not stream.wants_close
                if is_silent and not request.is_gone and stream.request is request:
                    await request.write(_KEEP_ALIVE)

    async def _take(self, stream: MessageStream) -> bytes:
        """Remove some messages, store them as events, and return these."""
        events: list[bytes] = []
        size = 0
        # Several messages in one write cost little more than one message, but all of them wait for a slow client.
        while len(stream) and size < 65536:
            text = stream.take_first()  # a cancellation here must not store an event twice
            events.append(_event(await self._append(stream, text), text))
            size += len(text)
        return b"".join(events)

    async def _append(self, stream: MessageStream, data: bytes | None) -> str | None:
        return None if self.log is None else await self.log.append(stream, data)

    async def _end(self, stream: MessageStream, name: str | None) -> None:
        if self.log is not None:
            await self.log.end(stream, name)

    def _leave(self, stream: MessageStream) -> None:
        """Store or drop the rest of a stream whose connection is closed."""
        if not stream.is_stored:
            stream.detach()
            return
        # The client may reconnect for the rest, so the rest goes to the store now.
        stream.wants_close = stream.is_resumable = False
        pump = asyncio.get_running_loop().create_task(self._pump(stream))
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)

    async def _pump(self, stream: MessageStream) -> None:
        """Store the rest of a stream."""
        await stream.wait_until_stored()
        while stream.name is not None and not stream.is_finished:
            if len(stream):
                await self._take(stream)
            else:
                await stream.wait()
        if stream.name is None:
            stream.detach()
        await self._end(stream, stream.name)

    async def close(self) -> None:
        """Stop storing streams, all of which should have ended."""
        for pump in self._pumps:
            pump.cancel()
        if self._pumps:
            await asyncio.wait(self._pumps, timeout=5.0)


def _event(id: str | None, data: bytes) -> bytes:
    if id is None:
        return b"event: message\ndata: %b\n\n" % data
    return b"event: message\nid: %b\ndata: %b\n\n" % (id.encode(), data)


async def _next(events: AsyncIterator[tuple[str, bytes]]) -> tuple[str, bytes] | None:
    """Return the next event; None at the end."""
    return await anext(events, None)
