"""The HTTP requests of a client, on httpx2: sessions, redirects, limits, streams of events, and this package's errors.

Rules:
  - Redirects are followed only within the origin, so that credentials and messages never reach another one.
  - The body of an HTTP response is read in small pieces, decompressed. Each HTTP response is released, read or not.
  - The pool of an httpx2 client considers each of its connections for each request, and offers an idle one to every
    waiting request. Its cost grows with the square of the requests in flight, so each httpx2 client here has only one
    request. They share credentials, cookies and a TLS context, because making one reads all certificates.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from http.cookiejar import CookieJar
from typing import Any, Final, TypeAlias

from ...codec import Response
from ...errors import CallTimeout, ConnectionLost, HttpStatusError, InvalidResponse, SignInError
from ...framing.sse import Event, EventDecoder
from ...http.library import exchange_with, pieces_of
from ...support import is_failure, on_failure
from ..protocol.meta import object_members
from ..protocol.versions import HANDSHAKE_VERSIONS, since
from .headers import LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER

try:
    import httpx2 as httpx2
    from anyio import fail_after as fail_after
    from anyio import move_on_after as move_on_after

    from ...http.library import ERRORS, check_client, pieces_of, refuse_httpx, tls_context, translated, url_of
except ImportError as _error:
    raise ImportError('MCP over HTTP needs the extra `http`: pip install "jsonrpc_fast[http,mcp]"') from _error

TRANSIENT_STATUSES: Final = (408, 425, 429, 500, 502, 503, 504)
"""Statuses after which the same request may succeed."""
EVENT_STREAM: Final = "text/event-stream"

IDLE_SECONDS: Final = 30.0
"""How long a connection is kept without a request."""
MAX_IDLE: Final = 64
"""Maximum number of connections without a request."""

_CLIENT: Final = "jsonrpc_fast.client"  # the client of an HTTP response, among its extensions
SIGNING_IN: Final = "jsonrpc_fast.sign_in"
"""Among the extensions of a request that `auth` makes: what fails if it does, and the role of the server."""
STRAY: Final = "the sending of a request was cancelled"
"""The reason when httpx2 or `auth` raises a foreign cancellation."""

HttpAuth: TypeAlias = httpx2.Auth | Any
"""What httpx2 takes as `auth`, such as the `OAuthClientProvider` of the SDK."""


class Body:
    """The body of a request, which reports once that it was written."""

    __slots__ = ("_written", "data")

    def __init__(self, data: bytes, written: Callable[[int], None] | None) -> None:
        self.data: bytes = data
        self._written = written

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.data
        self.mark_written()

    def mark_written(self) -> None:
        """Report that the body was written, or never will be."""
        written, self._written = self._written, None
        if written is not None:
            written(len(self.data))


@dataclass(slots=True, eq=False, repr=False)
class ClientPool:
    """HTTP clients that share one configuration, each with one request in flight."""

    _auth: Any
    _begin: Callable[[Coroutine[Any, Any, None]], object]
    _cookies: CookieJar = field(default_factory=CookieJar)
    _clients: set[Any] = field(default_factory=set)
    _idle: deque[tuple[Any, float]] = field(default_factory=deque)  # with the time since when each is idle
    _closing: asyncio.Future[Any] | None = None

    def take(self) -> Any:
        """Return a client that has no request in flight. Raises ConnectionLost: the pool is closed."""
        if self._closing is not None:
            raise ConnectionLost("the connection is closed")
        now = asyncio.get_running_loop().time()
        # The server has probably closed these connections: sending on one would fail.
        while self._idle and self._idle[0][1] < now - IDLE_SECONDS:
            self._begin(self._close_one(self._idle.popleft()[0]))
        # The client that was used last: its connection is the least likely to be closed, and the others can expire.
        if self._idle:
            return self._idle.pop()[0]
        client = httpx2.AsyncClient(
            auth=self._auth,
            cookies=self._cookies,
            verify=tls_context(),
            limits=httpx2.Limits(keepalive_expiry=IDLE_SECONDS),
        )
        self._clients.add(client)
        return client

    def give_back(self, client: Any) -> None:
        """Accept a client whose request has ended."""
        if client not in self._clients:
            return
        if len(self._idle) < MAX_IDLE:
            self._idle.append((client, asyncio.get_running_loop().time()))
        else:
            self._begin(self._close_one(client))

    async def close(self, seconds: float | None = None) -> None:
        """Close all clients. If this is cancelled, closing continues, and another call waits for it.

        Args:
            seconds: How long this may take before it is given up; None: no limit.
        """
        if self._closing is None:
            self._idle.clear()
            clients, self._clients = self._clients, set()
            self._closing = asyncio.gather(*[client.aclose() for client in clients], return_exceptions=True)
        # Not `wait_for`, which would cancel the closing when this call is cancelled.
        _, late = await asyncio.wait([self._closing], timeout=seconds)
        for closing in late:
            closing.cancel()

    async def _close_one(self, client: Any) -> None:
        await client.aclose()
        self._clients.discard(client)


class HttpSender:
    """Sends requests to one URL.

    Args:
        auth: As in `StreamableHttpClient`; so are the other arguments before `begin`.

    Raises:
        TypeError: Both a client and `auth` are given, or an argument has the wrong type.
        ValueError: `url` is not an HTTP URL.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None,
        auth: HttpAuth | None,
        http_client: httpx2.AsyncClient | None,
        connect_seconds: float | None,
        read_seconds: float | None,
        begin: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        if http_client is not None and auth is not None:
            raise TypeError("pass auth to the HTTP client, or let this transport make the client")
        check_client(http_client, httpx2.AsyncClient)
        refuse_httpx(auth)
        self.url: httpx2.URL = url_of(url)
        self._headers = {name.lower(): value for name, value in (headers or {}).items()}
        self._http = http_client
        self._pool = ClientPool(auth, begin) if http_client is None else None
        self._timeout = httpx2.Timeout(connect_seconds, read=read_seconds, pool=None)

    async def close(self, seconds: float) -> None:
        """Close the connections, except those of a client that the user passed."""
        if self._pool is not None:
            await self._pool.close(seconds)

    async def send(self, method: str, headers: dict[str, str], body: Body | None = None) -> Any:
        """Send a request and return the HTTP response, whose body is not read. Follow redirects within the origin."""
        fields = {
            **self._headers,
            "accept": f"application/json, {EVENT_STREAM}" if method == "POST" else EVENT_STREAM,
            "accept-encoding": "gzip",
            **headers,
        }
        if body is not None:
            fields.update({"content-type": "application/json", "content-length": str(len(body.data))})
        for _ in range(6):
            http: Any = self._http if self._pool is None else self._pool.take()
            with on_failure(partial(self._give_back, http)):
                request = http.build_request(method, self.url, headers=fields, content=body, timeout=self._timeout)
                http_response = await sent_with_auth(http, request)
            http_response.extensions[_CLIENT] = http
            target = http_response.next_request
            # 303, and 301 or 302 after a POST, would become a GET, which has another meaning here.
            if target is None or target.method != method or not _is_same_origin(self.url, target.url):
                return http_response
            await self.release(http_response)
            self.url = target.url
        raise InvalidResponse("the server redirects too many times")

    async def release(self, http_response: Any) -> None:
        """Close an HTTP response, so that its connection can be used again."""
        http = http_response.extensions.pop(_CLIENT, None)
        try:
            await http_response.aclose()
        finally:
            if http is not None:
                self._give_back(http)

    def _give_back(self, http: Any) -> None:
        if self._pool is not None:
            self._pool.give_back(http)

    def translated(self, error: Exception | asyncio.CancelledError) -> Exception:
        """Return the exception of this package for one of httpx2. Other exceptions are returned unchanged.

        Raises CancelledError: it is the cancellation of the current task.
        """
        if isinstance(error, asyncio.CancelledError):
            if not is_failure(error):
                raise error
            return ConnectionLost(STRAY)
        if isinstance(error, ERRORS):
            made = translated(error)
        elif isinstance(error, TimeoutError) and not isinstance(error, CallTimeout):
            made = CallTimeout()
        else:
            return error
        if isinstance(made, CallTimeout):
            made = CallTimeout(f"the network took too long{made}")
        made.__cause__ = error
        return made


async def sent_with_auth(http: Any, request: Any) -> Any:
    """Send a request with the `auth` of an HTTP client, and return the response, whose body is not read.

    Raises SignInError: a request that `auth` made itself failed, such as one to an authorization server.
    """
    try:
        return await http.send(request, stream=True, follow_redirects=False)
    except httpx2.RequestError as error:
        # Some make a new request to the server instead of adding a header to this one.
        if error.request is request or error.request.url == request.url:
            raise
        what, role = error.request.extensions.get(SIGNING_IN, ("sign-in failed", "which `auth` asked"))
        why = translated(error)
        text = f"the network took too long{why}" if isinstance(why, CallTimeout) else why
        raise SignInError(f"{what}: no response came{exchange_with(error.request.url)} ({role}): {text}") from error


async def read(http_response: Any, limit: int) -> bytes:
    """Return the body of an HTTP response.

    Raises InvalidResponse: it is larger than `limit` bytes, or cannot be decompressed.
    """
    received = bytearray()
    async with aclosing(pieces_of(http_response, is_whole=True)) as pieces:
        async for piece in pieces:
            received += piece
            if len(received) > limit:
                raise InvalidResponse(f"the response is larger than {limit} bytes")
    return bytes(received)


def content_type(http_response: Any) -> str:
    """Return the media type of an HTTP response, without parameters."""
    return str(http_response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def status_error(http_response: Any, method: str = "") -> HttpStatusError:
    """Return the exception for a status other than 2xx, without the body."""
    # Only these headers: others may hold secrets, such as a cookie, and an exception ends up in logs.
    shown = {
        name: http_response.headers[name][:1024]
        for name in ("allow", "content-type", "retry-after", "www-authenticate")
        if name in http_response.headers
    }
    exchange = f"{exchange_with(http_response.url)}{f' to {method!r}' if method else ''}"
    return HttpStatusError(http_response.status_code, shown, b"", exchange=exchange)


@dataclass(frozen=True, slots=True, eq=False)
class NegotiatedSession:
    """The session that `initialize` agreed on.

    Attributes:
        id: The session id; None if the server gave none.
    """

    id: str | None
    version: str


def session_headers(session: NegotiatedSession | None) -> dict[str, str]:
    """Return the headers of the requests of a session."""
    headers = {}
    if session is not None:
        if session.id is not None:
            headers[SESSION_ID_HEADER] = session.id
        if session.version in since("2025-06-18"):
            headers[PROTOCOL_VERSION_HEADER] = session.version
    return headers


def session_of(http_response: Any, response: Response) -> NegotiatedSession | None:
    """Return the session that a response to `initialize` begins; None if it begins none.

    Raises InvalidResponse: the session id is malformed.
    """
    version = object_members(response.result).get("protocolVersion")
    if response.error is not None or not isinstance(version, str) or version not in HANDSHAKE_VERSIONS:
        return None
    id = http_response.headers.get(SESSION_ID_HEADER)
    # Visible ASCII, as the specification requires. Bounded, because the client repeats the id with each request.
    if id is not None and not re.fullmatch(r"[!-~]{1,1024}", id):
        raise InvalidResponse("the session id of the server is malformed")
    return NegotiatedSession(id, version)


def _is_same_origin(url: Any, target: Any) -> bool:
    """Return whether a redirect stays within the origin, or only adds TLS on the default ports."""
    # Credentials in the redirect's URL would replace the user's.
    if target.userinfo and target.userinfo != url.userinfo:
        return False
    if target.host != url.host:
        return False
    if (target.scheme, target.port) == (url.scheme, url.port):
        return True
    # None is the default port of the scheme. A redirect to the same host over TLS is accepted.
    return (url.scheme, url.port, target.scheme, target.port) == ("http", None, "https", None)


MAX_ATTEMPTS: Final = 5
"""How many times in a row resuming a stream may fail."""
RETRY_SECONDS: Final = 1.0
"""How long to wait before a stream is resumed, unless the server sends a delay."""
BRIEF_SECONDS: Final = 1.0
"""How long to wait for a stream to open, to end after its response, and for connections to close."""

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
    """Reads the streams of events of one client, and resumes them after the last event when their connection breaks.

    The id of an event is kept only after the event was handled: otherwise an event could be lost. A stream is resumed
    after the delay that the server requests, within bounds, which doubles with each failed attempt. It ends after
    MAX_ATTEMPTS failures in a row, or at once for a status outside TRANSIENT_STATUSES; 404 means that the session has
    ended.

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

        Raises InvalidResponse: the stream is too large, or cannot be decompressed.
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

        Raises ConnectionLost: as in `resume`.
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
