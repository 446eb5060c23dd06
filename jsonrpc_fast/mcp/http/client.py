"""A connection to an MCP server over Streamable HTTP, on httpx2.

Rules:
  - Each message is one POST. Requests go out concurrently; a request waits for the notifications that were sent before
    it, and notifications wait for each other. Both wait for `initialize`, and briefly for the GET stream of a new
    session: many servers drop what belongs to no request while it is not open.
  - A request that gets no response affects no other, and fails through `onfail`. The exceptions of this package contain
    no part of a body.
  - A session that the server ended (404) is replaced by a new one. The request that got the 404 is sent again. The
    requests that the old session had accepted fail.
  - Cancelling a request frees its connection. In 2026-07-28 that cancels it; before, a notification is sent as well.
  - No stream is read while the responses to MAX_OPEN_REQUESTS requests of the server have not been sent. Closing never
    waits for these responses; if there are many, it waits for nothing.

Source: specification 2025-11-25 "Transports" and 2026-07-28 "Streamable HTTP".
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Unpack

from ...codec import Notification, ParseError, Request, Response, decode, encode_notification, encode_request
from ...errors import CallTimeout, ConnectionLost, HandshakeError, HttpStatusError, InvalidResponse
from ...framing.sse import Event
from ...profile import JSONRPC
from ...support import IdKey, check_count, check_headers, check_seconds, id_key
from ...transports import Channel, Connection, Events, MessageOptions, State
from ...types import MessageId
from ..protocol.meta import object_members
from .headers import OWN_STATUSES, RequestHeaders
from .sending import (
    BRIEF_SECONDS,
    EVENT_STREAM,
    STRAY,
    Body,
    Cursor,
    EventReader,
    HttpAuth,
    HttpSender,
    NegotiatedSession,
    SessionEnded,
    content_type,
    fail_after,
    httpx2,
    move_on_after,
    read,
    session_headers,
    session_of,
    status_error,
)

__all__ = ["HttpAuth", "StreamableHttpClient"]

MAX_OPEN_REQUESTS: Final = 100
"""With this number of requests of the server without a response, its streams are not read."""
_NOTICE_SECONDS: Final = 30.0  # until the server must have accepted a notification or a response


@dataclass(slots=True, eq=False)
class _Post:
    """A request, or a batch with requests, and the responses that it waits for.

    Attributes:
        method: The method; "" for a batch.
        ids: The ids of the requests that have no response yet.
        is_modern: The message belongs to a revision without sessions.
        session: The session that the message was sent in, or that it has begun; None before that, and without one.
        is_accepted: The server responded to the POST with a status of 2xx.
        is_renewal: It begins a session in place of an ended one, so only `_renew` waits for its response.
    """

    body: Body
    method: str
    ids: dict[IdKey, MessageId]
    headers: dict[str, str]
    is_modern: bool = False
    session: NegotiatedSession | None = None
    is_accepted: bool = False
    is_renewal: bool = False
    task: asyncio.Task[None] = field(init=False)


class _Channel(Channel):
    """The channel of a `StreamableHttpClient`: each message that is written becomes a POST."""

    carries_texts = True

    def __init__(self, client: StreamableHttpClient) -> None:
        self._client = client

    @property
    def name(self) -> str:
        return f"HTTP to {self._client._sender.url.host}"

    async def open(self, events: Events) -> None:
        pass  # each POST uses a connection of the HTTP client

    def write(self, data: bytes) -> None:
        self._client._write(data)

    @property
    def unwritten(self) -> int:
        return self._client._unsent_bytes

    def set_reading(self, on: bool) -> None:
        self._client._set_reading(on)

    def finish(self) -> None:
        self._client._begin_ending(self._client._finish())

    def abort(self) -> None:
        if self._client.state is not State.CLOSED:
            self._client._begin_ending(self._client._abort())


class StreamableHttpClient(Connection):
    """A connection to an MCP server over Streamable HTTP.

    `connect` sends nothing: a failure to reach the server fails the requests.

    Args:
        url: The URL of the MCP endpoint.
        headers: Further headers of every request.
        auth: Authorization, as `httpx2.AsyncClient` takes it.
        http_client: The client of httpx2 to use, which is not closed; by default one is made with the settings
            of the environment (proxies, certificates).
        connect_seconds: How long opening a connection and sending a message may take; None: no limit.
        read_seconds: How long the server may be silent while a response is awaited; None: no limit.
        max_stream_bytes: The maximum size of one stream of events; None: no limit. A single message is bounded by the
            limits of the profile.
        options: Options of `Connection`.

    Attributes:
        onfail: Called with the id of a request and the exception, when the request fails. If it is not set, `onerror`
            is called with the exception.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    has_exchanges = True
    """Whether each request has its own exchange: the server always responds in it, closing it cancels the request."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        auth: HttpAuth | None = None,
        http_client: httpx2.AsyncClient | None = None,
        connect_seconds: float | None = 30.0,
        read_seconds: float | None = 300.0,
        max_stream_bytes: int | None = 1024 * 1024 * 1024,
        **options: Unpack[MessageOptions],
    ) -> None:
        check_seconds("connect_seconds", connect_seconds)
        check_seconds("read_seconds", read_seconds)
        check_count("max_stream_bytes", max_stream_bytes, 1)
        check_headers(headers)
        super().__init__(_Channel(self), **options)
        self._raw = options.get("raw", False)
        self._sender = HttpSender(url, headers, auth, http_client, connect_seconds, read_seconds, self._begin_request)
        self._events = EventReader(self._sender, self.profile.limits.message_bytes, max_stream_bytes)
        self._headers = RequestHeaders()

        self._slots = asyncio.Semaphore(256)  # requests that are sent or awaited; further ones wait
        self._response_slots = asyncio.Semaphore(8)
        self._renewing = asyncio.Lock()

        self._posts: dict[IdKey, _Post] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._notices: set[asyncio.Task[None]] = set()  # of notifications
        self._open_requests: set[IdKey] = set()  # requests of the server
        self._is_reading_wanted = False
        self._last_notice: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None  # reads the GET stream
        self._unheard: NegotiatedSession | None = None  # the session whose GET stream is lost
        self._ender: asyncio.Task[None] | None = None
        self._session: NegotiatedSession | None = None
        self._initialize: Request[Any]
        self._unsent_bytes = 0

    # The channel.

    def _set_reading(self, on: bool) -> None:
        """Start or stop reading the streams of events."""
        # Reading stops for two reasons: the session is behind, or too many requests of the server have no response yet.
        self._is_reading_wanted = on
        if on and len(self._open_requests) < MAX_OPEN_REQUESTS:
            self._events.may_read.set()
        else:
            self._events.may_read.clear()

    def _begin_ending(self, work: Coroutine[Any, Any, None]) -> None:
        if self._ender is not None:
            self._ender.cancel()
        self._ender = self._task(work, None)

    async def _finish(self) -> None:
        """Send all accepted messages, end the session, and release everything."""
        for task in self._tasks:
            task.cancel()
        is_flooded = len(self._open_requests) > MAX_OPEN_REQUESTS // 2  # then no more responses are sent
        # `notifications/cancelled` is among them: without it the server would continue a cancelled call.
        if self._notices and not is_flooded:
            await asyncio.wait(self._notices)
        session = self._session
        if session is not None and session.id is not None and not is_flooded:
            try:
                with move_on_after(_NOTICE_SECONDS):
                    response = await self._sender.send("DELETE", session_headers(session))
                    await self._sender.release(response)
            except (Exception, asyncio.CancelledError) as error:  # the server will drop the session by its own timeout
                self._report_fault(self._sender.translated(error))
        await self._abort()

    async def _abort(self) -> None:
        # A request whose task ends closes its connection. From 2026-07-28 on this cancels the request.
        left = {task for task in self._notices if not task.done()} | self._tasks
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=BRIEF_SECONDS)
        await self._sender.close(BRIEF_SECONDS)
        self.channel_events.lost(None)

    def _begin_request(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._task(work, self._tasks)

    def _task(self, work: Any, tasks: set[asyncio.Task[None]] | None) -> asyncio.Task[None]:
        # An eager task would send inside `write`, and its exceptions would reach the caller of `send`.
        task: asyncio.Task[None] = asyncio.Task(work, loop=asyncio.get_running_loop())
        if tasks is not None:
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        return task

    # Sending messages.

    def _written(self, size: int) -> None:
        self._unsent_bytes -= size
        self.channel_events.drained()

    def _write(self, data: bytes) -> None:
        """Begin to send a message."""
        self._unsent_bytes += len(data)
        # Sent messages are valid. Only the kind and the ids matter here, so payloads stay undecoded.
        message: Any = decode(data, JSONRPC, raw=True)
        if isinstance(message, (Response, ParseError)):
            self._begin_request(self._run_response(data, id_key(message.id)))
            return
        if isinstance(message, list):
            method, headers = "", None
            ids = {id_key(item.id): item.id for item in message if isinstance(item, Request)}
        else:
            method = message.method
            # None: the message belongs to a revision with sessions.
            headers = None if self._session is not None or method == "initialize" else self._headers.of(message)
            ids = {id_key(message.id): message.id} if isinstance(message, Request) else {}
        if ids:
            post = _Post(Body(data, self._written), method, ids, headers or {}, is_modern=headers is not None)
            self._posts |= dict.fromkeys(ids, post)
            post.task = self._begin_request(self._run_request(post, self._last_notice))
            if method == "initialize":
                self._initialize = message
                self._last_notice = post.task  # its client may send more without waiting for the session
        elif method == "notifications/cancelled":
            self._cancel(message, data)
        else:
            notice = self._run_notice(data, method, headers or {}, self._last_notice)
            self._last_notice = self._task(notice, self._notices)

    def _cancel(self, message: Notification[Any], data: bytes) -> None:
        """Free the connection of a cancelled request, and notify the server if it needs that."""
        id = object_members(message.params).get("requestId")
        post = self._posts.pop(id_key(id), None)
        if post is not None:
            del post.ids[id_key(id)]
            if not post.ids:
                post.task.cancel()
        # A server of 2026-07-28 notices that the connection is closed; an earlier one must be notified.
        if self._session is None and (post is None or post.is_modern):
            self._written(len(data))
        else:
            before = None if self._session is not None else self._last_notice  # without a session, wait for it
            self._task(self._run_notice(data, message.method, {}, before), self._notices)

    # Requests.

    async def _run_request(self, post: _Post, notice: asyncio.Task[None] | None) -> None:
        try:
            if notice is not None and not notice.done():
                await asyncio.wait([notice], timeout=_NOTICE_SECONDS)
            async with self._slots:
                await self._exchange(post)
                if post.ids:
                    raise ConnectionLost("the stream of the server ended before the response")
        except Exception as error:
            self._fail(post, self._sender.translated(error))
        # Raised by httpx2 or `auth`: code that cancels this task has already settled its requests.
        except asyncio.CancelledError:
            self._fail(post, ConnectionLost(STRAY))
            raise
        finally:
            post.body.mark_written()

    def _fail(self, post: _Post, error: Exception) -> None:
        ids = list(post.ids.values())
        for key in post.ids:
            self._posts.pop(key, None)
        post.ids.clear()
        # The session already knows that its connection is lost, and has settled these calls itself.
        if self.is_closing:
            return
        for id in ids:
            if self.onfail is None:
                self._report_fault(error)
            else:
                self.run_callback("onfail", self.onfail, id, error)

    async def _exchange(self, post: _Post) -> None:
        """Send a request and read its response."""
        response = await self._open_post(post)
        try:
            kind = content_type(response)
            if not 200 <= response.status_code < 300:
                await self._read_refusal(response, post, kind)
                return
            post.is_accepted = True
            if post.session is not None and self._unheard is post.session:  # the server responds again
                self._begin_listening(post.session)
            if kind == "application/json":
                self._read_body(post, response, await read(response, self.profile.limits.message_bytes))
                return
            if kind != EVENT_STREAM:
                raise InvalidResponse("the response to a request is neither JSON nor a stream of events")
            cursor = Cursor()
            fault = await self._read_events(response, cursor, post)
        finally:
            await self._sender.release(response)
        while post.ids:
            if post.is_modern or not cursor.id:
                raise ConnectionLost("the stream of the server ended before the response") from fault
            fault = await self._read_events(await self._events.resume(cursor, post.session), cursor, post)

    async def _open_post(self, post: _Post) -> Any:
        """Send a POST in the current session, or in a new one if the server ended that."""
        renewals = 0
        while True:
            session = None if post.is_modern or post.method == "initialize" else self._session
            post.session = session
            headers = {**session_headers(session), **post.headers}
            response = await self._sender.send("POST", headers, post.body)
            # Only once: otherwise a server that ends each session at once would be queried endlessly.
            if response.status_code != 404 or session is None or session.id is None or renewals:
                return response
            await self._sender.release(response)
            renewals += 1
            await self._renew(session)

    async def _read_refusal(self, response: Any, post: _Post, kind: str) -> None:
        """Settle a request whose POST got no status of 2xx: with the error in the body, or with the status."""
        status = response.status_code
        error = status_error(response, post.method)
        if kind == "application/json" and status >= 400:
            try:
                found = decode(await read(response, 65536), self.profile, raw=self._raw)
            except (InvalidResponse, httpx2.HTTPError):
                raise error from None
            if isinstance(found, Response) and found.error is not None and len(post.ids) == 1:
                [id] = post.ids.values()
                # A server that could not read the message sends the id null. An error of a proxy (5xx) may have any id.
                if id_key(found.id) == id_key(id) or (status < 500 and status not in OWN_STATUSES):
                    self._on_item(post, Response(id, error=found.error), response)
                    return
        # A server of HTTP+SSE refuses the POST, because its endpoint is for GET. Only its first event identifies it.
        # Specification 2025-11-25, "Transports", "Backwards Compatibility".
        if post.method == "initialize" and status in (400, 404, 405) and await self._events.are_of_2024():
            raise HandshakeError(
                "the server speaks only HTTP+SSE of 2024-11-05: connect to it with sse_client of the MCP SDK, or ask "
                "its owner for Streamable HTTP"
            ) from error
        raise error

    def _read_body(self, post: _Post, response: Any, body: bytes) -> None:
        # 202 is for notifications: a server that sends it for a request will never respond.
        if response.status_code == 202 or not body:
            raise InvalidResponse("the server accepted a request without a response")
        item = decode(body, self.profile, raw=self._raw)
        if isinstance(item, ParseError) and (item.id is None or id_key(item.id) not in post.ids):
            where = "" if item.offset is None else f", at byte {item.offset}"
            raise InvalidResponse(f"the response is malformed: {item}{where}") from item
        self._on_item(post, item, response)
        if post.ids:
            raise InvalidResponse("the response does not belong to this request")

    # Streams of events.

    async def _read_events(self, response: Any, cursor: Cursor, post: _Post | None) -> Exception | None:
        """Read a stream until it ends, or has the responses to a POST, and release its HTTP response.

        Returns:
            The exception that broke the stream; None if it ended.
        """
        try:
            async with aclosing(self._events.events(response, cursor)) as events:
                async for event in events:
                    self._on_event(response, post, event)
                    if post is not None and not post.ids:
                        with move_on_after(BRIEF_SECONDS):  # so that the connection can be used again
                            await anext(events, None)
                        break
        except httpx2.HTTPError as error:
            return self._sender.translated(error)
        finally:
            await self._sender.release(response)
        return None

    def _on_event(self, response: Any, post: _Post | None, event: Event) -> None:
        # Some servers send an error as an event of this type, which the specification does not define.
        if event.type not in ("message", "error") or event.data == b"":
            return
        # The decoder has dropped the data of an event that is too large.
        if event.data is None:
            if post is not None:
                raise InvalidResponse(f"an event is larger than {self.profile.limits.message_bytes} bytes")
            self._report_fault(ParseError.message_too_large())
            return
        item = decode(event.data, self.profile, raw=self._raw)
        if event.type == "message" or isinstance(item, Response):
            self._on_item(post, item, response)
        else:
            self._report_fault(InvalidResponse("the server sent an event of the type `error` that is no response"))

    def _on_item(self, post: _Post | None, item: Any, response: Any) -> None:
        """Handle a message of the response to a request, or of the GET stream."""
        self._asked(item)
        if isinstance(item, list):
            items = [one for one in item if self._belongs(post, one)]
            if items:
                self._receive(items)
            return
        if isinstance(item, Response) and post is not None:
            if item.id is None and len(post.ids) == 1:  # the server could not read the id
                [id] = post.ids.values()
                item = Response(id, error=item.error)
            if post.method == "initialize" and (begun := session_of(response, item)) is not None:
                post.session = begun
                if not post.is_renewal:
                    self._session = begun
                    if self._last_notice is post.task:
                        self._last_notice = None
            # A call of such a tool would need headers that the client cannot write, so the caller must not see the
            # tool.
            if post.method == "tools/list" and post.is_modern and item.error is None:
                item = self._headers.without_invalid_tools(item, self._report_fault)
        if self._belongs(post, item) and not (isinstance(item, Response) and post is not None and post.is_renewal):
            self._receive(item)

    def _belongs(self, post: _Post | None, item: Any) -> bool:
        """Settle a request with its response. Return False for a response that belongs to no request of this POST."""
        # A malformed response with a certain id settles its call, too.
        if isinstance(item, ParseError):
            is_response = item.id is not None and id_key(item.id) in self._posts
        else:
            is_response = isinstance(item, Response)
        if is_response:
            key = id_key(item.id)
            if post is None or key not in post.ids:
                self._report_fault(InvalidResponse("a response belongs to no request of its stream"))
                return False
            del post.ids[key]
            self._posts.pop(key, None)
        return True

    def _receive(self, item: Any) -> None:
        """Deliver a message or a batch that arrived and is decoded."""
        if self._log is not None and not self.is_closing:
            self._log.received(item, None)
        self.deliver([item])

    # The GET stream of the session, which carries the messages that belong to no request of the client.

    def _begin_listening(self, session: NegotiatedSession) -> asyncio.Event:
        """Read the stream of a session for as long as the server offers it, and stop reading that of an earlier one.

        Returns:
            Set when the server has opened or refused the stream.
        """
        answered = asyncio.Event()
        if self.state is State.RUNNING:
            if self._listener is not None:
                self._listener.cancel()
            self._unheard = None
            self._listener = self._begin_request(self._listen(session, answered))
            self._listener.add_done_callback(lambda _: answered.set())
        else:
            answered.set()
        return answered

    async def _open_listener(self, session: NegotiatedSession) -> None:
        """Begin to read the stream of a session, and wait for a while until the server has opened or refused it."""
        answered = self._begin_listening(session)
        with move_on_after(BRIEF_SECONDS):  # some servers send the head of the stream with its first message only
            await answered.wait()

    async def _listen(self, session: NegotiatedSession, answered: asyncio.Event) -> None:
        cursor = Cursor()
        try:
            http_response = await self._events.open(session)
            answered.set()
            if isinstance(http_response, HttpStatusError):
                if http_response.status != 405:  # by which a server says that it has no such stream
                    self._report_fault(http_response)
                return
            while True:
                fault = await self._read_events(http_response, cursor, None)
                # An idle stream times out: that is not a fault, and the stream is opened again.
                if fault is not None and not isinstance(fault, CallTimeout):
                    self._report_fault(fault)
                http_response = await self._events.resume(cursor, session)
        except SessionEnded as error:
            self._report_fault(error)
            self._listener = None  # `_renew` starts the next listener, and must not cancel this task
            try:
                await self._renew(session)
            except (Exception, asyncio.CancelledError) as failure:  # the next request tries again
                self._report_fault(self._sender.translated(failure))
        except (Exception, asyncio.CancelledError) as error:
            fault = self._sender.translated(error)
            self._unheard = session
            self._report_fault(fault)

    async def _renew(self, session: NegotiatedSession) -> None:
        """Begin a new session, unless this has happened already.

        Raises ConnectionLost: the server did not respond as it did the first time.
        """
        async with self._renewing:
            if self._session is not session or self.state is not State.RUNNING:
                return
            # The new session does not know the requests that the old one had accepted. The tasks of the others send
            # them again.
            ended = [post for post in self._posts.values() if post.session is session and post.is_accepted]
            for post in ended:
                self._fail(post, ConnectionLost("the server ended the session"))
                post.task.cancel()
            # The same request as the first time, so that server and client agree on the same session parameters.
            id = self._initialize.id
            text = encode_request(id, "initialize", self._initialize.params, delimited=False)
            renewal = _Post(Body(text, None), "initialize", {id_key(id): id}, {}, is_renewal=True)
            await self._exchange(renewal)
            begun = renewal.session
            if begun is None or begun.version != session.version:
                raise ConnectionLost("the server ended the session, and does not begin one of the same version")
            notice = Body(encode_notification("notifications/initialized", delimited=False), None)
            await self._sender.release(await self._sender.send("POST", session_headers(begun), notice))
            # Only now, because a server may refuse messages that arrive before the notification.
            self._session = begun
            await self._open_listener(begun)

    # Notifications and responses.

    async def _run_response(self, data: bytes, key: IdKey) -> None:
        """Send the response to a request of the server, or to an invalid message."""
        try:
            async with self._response_slots:
                await self._run_notice(data, "", {}, None)
        finally:
            self._settle_request(key)

    def _asked(self, item: Any) -> None:
        """Note the requests of the server, and those that it cancels: they get no response."""
        for one in item if isinstance(item, list) else [item]:
            if isinstance(one, Request):
                self._open_requests.add(id_key(one.id))
            elif isinstance(one, Notification) and one.method == "notifications/cancelled":
                self._settle_request(id_key(object_members(one.params).get("requestId")))
        if len(self._open_requests) >= MAX_OPEN_REQUESTS:
            self._events.may_read.clear()

    def _settle_request(self, key: IdKey) -> None:
        self._open_requests.discard(key)
        if self._is_reading_wanted and len(self._open_requests) <= MAX_OPEN_REQUESTS // 2:
            self._events.may_read.set()

    async def _run_notice(
        self, data: bytes, method: str, headers: dict[str, str], before: asyncio.Task[None] | None
    ) -> None:
        """Send a notification or a response, after the notification before it."""
        body = Body(data, self._written)
        try:
            if before is not None and not before.done():
                await asyncio.wait([before], timeout=_NOTICE_SECONDS)
            with fail_after(_NOTICE_SECONDS):
                session = None if headers else self._session
                response = await self._sender.send("POST", {**session_headers(session), **headers}, body)
                await self._sender.release(response)
            if response.status_code == 404 and session is not None and session.id is not None and method:
                await self._renew(session)
            elif not 200 <= response.status_code < 300:
                raise status_error(response)
            elif method == "notifications/initialized" and session is not None:
                await self._open_listener(session)
        except (Exception, asyncio.CancelledError) as error:
            self._report_fault(self._sender.translated(error))
        finally:
            body.mark_written()

    def _report_fault(self, fault: Exception) -> None:
        if self.state in (State.RUNNING, State.CLOSING):
            self._report(fault)
