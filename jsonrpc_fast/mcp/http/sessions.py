"""Requests up to 2025-11-25, which belong to a session, and the table of sessions of one endpoint.

Rules:
  - The session keeps the revision that it agreed on, whatever `MCP-Protocol-Version` says: the specification says only
    "should", and the conformance suite sends other versions.
  - An id has the prefix of the worker, if there is one, 192 random bits, and a digest of the subject that began the
    session. Only that subject may use it, which any worker can check.
  - When the table is full, a new session ends the one that has been idle longest, if it has been idle for a while.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext, suppress
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Final

from ...codec import Notification, ParseError, Request, Response, encode, encode_error
from ...codes import ErrorCode
from ...http import Refusal
from ...http.requests import Header
from ...session import SessionOptions
from ..protocol.versions import HANDSHAKE_VERSIONS
from ..server.serving import Served
from .event_store import session_of
from .exchange import Exchanges
from .headers import LAST_EVENT_ID, SESSION_ID, VERSION, accepts, value_of
from .options import HttpSettings
from .responses import EVENT_TYPE, NO_LENGTH, AsgiRequest, EventLog, ResponseSender, no_events
from .transport import HttpSession

ID_BYTES: Final = 24
MIN_IDLE_SECONDS: Final = 10.0
"""How long a session must have been idle before it is ended to make room for another one."""

_MAX_SWEPT: Final = 1000  # in one turn of the loop
_LISTENER: Final = "get"
"""The prefix of the names of the streams that GETs open."""
_NO_SESSION: Final = "There is no session with this id."


def _id_in(request: AsgiRequest) -> str:
    """Return the id of the session that a request names."""
    id = value_of(request.headers, SESSION_ID)
    if id is None:
        raise Refusal(400, "The header Mcp-Session-Id is missing: a client gets it with the response to initialize.")
    return id.decode("latin-1")


def _new_id(subject: object, prefix: str | None) -> str:
    random = ("" if prefix is None else f"{prefix}.") + secrets.token_urlsafe(ID_BYTES)
    return random + _digest(random, subject)


def _digest(random: str, subject: object) -> str:
    """Return a digest of a subject, which differs in each session id; "" without authorization."""
    # Includes the random part, so that ids do not reveal that two sessions have the same subject.
    return "" if subject is None else hashlib.sha256(f"{random} {subject!r}".encode()).hexdigest()[:32]


def _belongs_to(id: str, subject: object) -> bool:
    """Return whether a session with this id was begun by this subject; None: the subject is unknown."""
    # Compared in constant time, so that the time does not reveal how much of a guess is right.
    random = id[: id.rfind(".") + 1 + ID_BYTES * 4 // 3]  # in base64
    return secrets.compare_digest(id.encode(), (random + _digest(random, subject)).encode())


@dataclass(slots=True, eq=False, repr=False)
class SessionTable:
    """The sessions, the least recently used first.

    Args:
        idle_seconds: How long a session may be idle; None: no limit.
    """

    _max_sessions: int
    _idle_seconds: float | None
    _on_end: Callable[[HttpSession], None]
    _sessions: OrderedDict[str, HttpSession] = field(default_factory=OrderedDict)
    _timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    def has_room(self) -> bool:
        """Return whether a session may begin, after ending one that is idle if necessary."""
        if len(self._sessions) < self._max_sessions:
            return True
        session = self._idle_for(MIN_IDLE_SECONDS)
        if session is not None:
            self.end(session)
        return session is not None

    def _idle_for(self, seconds: float) -> HttpSession | None:
        """Return the session that has been idle longest, if it has been idle for at least `seconds`."""
        now = asyncio.get_running_loop().time()
        for _ in range(_MAX_SWEPT):
            session = next(iter(self._sessions.values()), None)
            if session is None or session.used > now - seconds:
                break
            # `used` says when a request began: during a long one, or a call in flight, a session is not idle.
            if session.is_idle:
                return session
            self._use(session, now)  # moved to the end of the order, so that the next calls skip it
        return None

    def add(self, session: HttpSession) -> None:
        """Add a session that has begun."""
        self._sessions[session.id] = session
        if self._timer is None and self._idle_seconds is not None:
            self._sweep_at(session.used + self._idle_seconds)

    def find(self, id: str, subject: object) -> HttpSession | None:
        """Return the session with this id and subject and count it as used now; None if no such session exists."""
        session = self._sessions.get(id)
        if session is None or (session.subject is not subject and not _belongs_to(id, subject)):
            return None
        # As `_use`, without a call for each request.
        session.used = asyncio.get_running_loop().time()
        self._sessions.move_to_end(id)
        return session

    def _use(self, session: HttpSession, now: float) -> None:
        session.used = now
        self._sessions.move_to_end(session.id)

    def remove(self, session: HttpSession) -> None:
        """Remove a session."""
        del self._sessions[session.id]
        if not self._sessions:
            self._stop_timer()

    def end(self, session: HttpSession) -> None:
        """Remove a session, and end it."""
        self.remove(session)
        self._on_end(session)

    def clear(self) -> list[HttpSession]:
        """Remove and return all sessions."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        self._stop_timer()
        return sessions

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep_at(self, when: float) -> None:
        self._timer = asyncio.get_running_loop().call_at(when, self._sweep, context=Context())

    def _sweep(self) -> None:
        """End sessions that have been idle for too long."""
        self._timer = None
        assert self._idle_seconds is not None
        for _ in range(_MAX_SWEPT):
            session = self._idle_for(self._idle_seconds)
            if session is None:
                break
            self.end(session)
        # The next session that could expire. Sessions that were used since then come after it.
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None:  # sweeping all of them in one turn would delay the requests
            now = asyncio.get_running_loop().time()
            self._sweep_at(max(oldest.used + self._idle_seconds, now + 0.05))


@dataclass(slots=True, eq=False, repr=False)
class SessionRequests:
    """Serves the requests with a session of one endpoint."""

    _server: Served
    _settings: HttpSettings
    _options: SessionOptions
    _responder: ResponseSender
    _exchanges: Exchanges
    sessions: SessionTable = field(init=False)
    _versions: frozenset[bytes] = field(init=False)
    _ending: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.sessions = SessionTable(self._settings.max_sessions, self._settings.idle_seconds, self._end_soon)
        self._versions = frozenset([version.encode() for version in HANDSHAKE_VERSIONS]).intersection(
            [version.encode() for version in self._server.versions]
        )

    async def begin(self, request: AsgiRequest, message: Request) -> None:
        """Respond to a POST of `initialize`. Raises Refusal: there is no room for another session."""
        if not self.sessions.has_room():
            raise Refusal(503, "There are too many sessions.")
        id, now = _new_id(request.subject, self._settings.session_prefix), asyncio.get_running_loop().time()
        session = HttpSession(self._server.profile, self._settings.max_stream_bytes, id, request.subject, now)
        session.connection = served = self._server.connection(session, self._options)
        await served.start()

        def begun() -> list[Header]:
            # Added only after the handshake was accepted, so that refused requests do not fill the table.
            if served.revision is None:
                return []
            self._server.connections.add(served)
            self.sessions.add(session)
            return [(SESSION_ID, session.id.encode())]

        with session:
            await self._exchanges.respond(request, message, session, begun)
        if served.revision is None:
            await session.close()
            del session.connection  # it refers to the session

    async def post(self, request: AsgiRequest, message: Any) -> None:
        """Respond to a POST in a session.

        Raises Refusal: there is no such session, or it has too many requests in progress.
        """
        session = self._session(request)
        connection = session.connection
        if type(message) is list:
            ids = [item.id for item in message if type(item) is Request]
            if connection.revision is None or not connection.revision.profile.batches or len(set(ids)) < len(ids):
                await request.send_json(400, encode(ParseError.batch_not_allowed().to_response()))
                return
        else:
            ids = [message.id] if type(message) is Request else []
        # Two responses with one id could not be distinguished. The first request continues.
        for id in ids:
            if id in session.requests:
                refused = None if type(message) is list else id
                await request.send_json(400, encode_error(refused, ErrorCode.INVALID_REQUEST, "the id is in flight"))
                return
        with session:
            if type(message) is Request or type(message) is list:
                await self._exchanges.respond(request, message, session)
                return
            if type(message) is Notification or type(message) is Response:
                await session.deliver_soon(message)
                await request.send_whole(202, [NO_LENGTH], b"")

    def _session(self, request: AsgiRequest, *, needs_room: bool = True) -> HttpSession:
        session = self.sessions.find(_id_in(request), request.subject)
        if session is not None and not session.is_connected:  # it has ended by itself, as a program may
            self.sessions.end(session)
            session = None
        if session is None:
            raise Refusal(404, _NO_SESSION)
        self._check_version(request)
        if needs_room:
            self._check_room(session)
        return session

    def _check_room(self, session: HttpSession) -> None:
        if session.posts >= self._settings.max_session_requests:
            # One client must not use up the requests that all sessions share.
            raise Refusal(503, "The session has too many requests in progress.")

    def _check_version(self, request: AsgiRequest) -> None:
        version = request.headers.get(VERSION)
        if version is not None and version not in self._versions and version.strip(b" \t") not in self._versions:
            supported = ", ".join(sorted(each.decode() for each in self._versions))
            raise Refusal(400, f"This MCP-Protocol-Version is not supported; a session may have {supported}.")

    async def get(self, request: AsgiRequest) -> None:
        """Respond to a GET: open the stream of a session, or resume a stream.

        Raises Refusal: the request cannot be served.
        """
        id = _id_in(request)
        if not accepts(value_of(request.headers, b"accept"), EVENT_TYPE):
            raise Refusal(406, "The client must accept text/event-stream.")
        event_id = value_of(request.headers, LAST_EVENT_ID)
        if event_id is not None and self._responder.log is not None:
            await self._resume(self._responder.log, id, event_id.decode("latin-1"), request)
            return
        session = self._session(request)
        if session.listener.request is not None:
            raise Refusal(409, "This stream of the session is already open.")
        await self._listen(session, request)

    async def _listen(self, session: HttpSession, request: AsgiRequest) -> None:
        session.replace_listener()  # several requests resumed the stream: the latest one continues
        stream = session.listener
        stream.name, stream.is_stored = session.stream_name(_LISTENER), False
        stream.is_resumable = self._responder.is_resumable(session.connection.revision)
        stream.request = request
        try:
            with session:
                await self._responder.listen(stream, request)
        finally:
            if stream.request is request:
                stream.request = None

    async def _resume(self, log: EventLog, id: str, event_id: str, request: AsgiRequest) -> None:
        """Continue a stream after an event. The session may be one of another worker."""
        self._check_version(request)
        session = self.sessions.find(id, request.subject)
        name = await log.stream_of(event_id)
        if name is None or session_of(name) != id or not _belongs_to(id, request.subject):
            # 404 makes a client begin a new session; after 410 it keeps this one.
            raise Refusal(404, _NO_SESSION) if session is None else no_events()
        is_listener = name.startswith(f"{id}/{_LISTENER}")
        if session is not None:
            self._check_room(session)
            if is_listener:  # its client has disconnected, which was not noticed yet
                session.replace_listener()
        try:
            with nullcontext() if session is None else session:
                await self._responder.resume(event_id, request)
        except Refusal:
            if not request.is_begun:
                raise
            return
        # Later events go to this GET as they occur.
        if is_listener and session is not None and session.is_connected and not request.is_gone:
            await self._listen(session, request)
        else:
            await request.end()

    async def delete(self, request: AsgiRequest) -> None:
        """Respond to a DELETE: end a session, and cancel what it has in flight.

        Raises Refusal: there is no such session.
        """
        session = self._session(request, needs_room=False)
        self.sessions.remove(session)
        for each in [*session.requests.values()]:
            each.cancel()  # otherwise their functions would keep running while the session closes
        await self._end(session)
        await request.send_whole(200, [NO_LENGTH], b"")

    async def close(self, grace_seconds: float) -> None:
        """End all sessions. Their events stay in the store, where another worker finds them."""
        sessions = self.sessions.clear()
        # Not `gather`: a session that fails to close must not keep the endpoint from closing.
        closing = [asyncio.ensure_future(self._close_session(session, grace_seconds)) for session in sessions]
        if closing:
            await asyncio.wait(closing)

    def _end_soon(self, session: HttpSession) -> None:
        task = asyncio.get_running_loop().create_task(self._end(session))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, session: HttpSession) -> None:
        await self._close_session(session, 0.0)
        if self._responder.log is not None:
            await self._responder.log.forget(session.id)

    async def _close_session(self, session: HttpSession, seconds: float) -> None:
        self._server.connections.discard(session.connection)
        session.connection.end_streams()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(session.wait_for_responses(), seconds)
        for each in [*session.requests.values()]:
            each.destination.abort()
        await session.connection.close(0.0)
        del session.connection  # it refers to the session
