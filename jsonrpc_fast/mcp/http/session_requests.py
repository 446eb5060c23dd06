"""Requests up to 2025-11-25, which belong to a session.

Rules:
  - `initialize` begins a session. Its id is in the header `Mcp-Session-Id` of all later requests. A DELETE ends it.
  - A request is answered with its response as JSON if nothing is sent before the response, otherwise with a stream of
    events that ends with the response. A notification or a response is answered with 202.
  - `MCP-Protocol-Version` must name a revision that the server supports. The one that the session agreed on counts,
    whichever it names: a client only should repeat that one, and the conformance suite does not.
  - A GET opens the stream of the messages that belong to no request, or resumes a stream whose connection broke.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ...codec import ParseError, Request, encode, encode_error
from ...codes import ErrorCode
from ...errors import ConnectionLost, EventsLost
from ...http.requests import Refusal
from ...session import SessionOptions
from ..applications import EventStore
from ..protocol.versions import HANDSHAKE_VERSIONS, Revision
from ..server.serving import ConnectionFactory
from .event_store import session_of
from .headers import LAST_EVENT_ID, SESSION_ID, VERSION, accepts, value_of
from .responses import EVENT_TYPE, NO_LENGTH, RETRY_SOON, AsgiRequest, Responder
from .sessions import HttpSession, SessionTable, belongs_to, new_id
from .settings import HttpSettings
from .transport import HttpTransport

_LISTENER: Final = "get"
"""The streams of GETs have names that begin so."""
_NO_SESSION_ID: Final = "The header Mcp-Session-Id is missing."
_NO_SESSION: Final = "There is no session with this id."
_NO_STORE: Final = "The store of events does not answer."
_NO_EVENTS: Final = "The events after this one are not there any more."


class SessionRequests:
    """Answers the requests with a session of one endpoint.

    Args:
        server: The server.
        settings: The options of the endpoint.
        options: Options of `Session` for each session.
        responder: Writes the responses.
        store: The event store; None: no stream can be resumed.

    Attributes:
        sessions: The sessions.
    """

    def __init__(
        self,
        server: ConnectionFactory,
        settings: HttpSettings,
        options: SessionOptions,
        responder: Responder,
        store: EventStore | None,
    ) -> None:
        self._server = server
        self._versions = frozenset(version.encode() for version in server.versions if version in HANDSHAKE_VERSIONS)
        self._settings = settings
        self._options = options
        self._responder = responder
        self._store = store
        self._prefix = "" if settings.session_prefix is None else f"{settings.session_prefix}."
        self._ending: set[asyncio.Task[None]] = set()
        self.sessions: SessionTable = SessionTable(settings.max_sessions, settings.idle_seconds, self._end_soon)

    async def begin(self, request: AsgiRequest, message: Request) -> None:
        """Respond to a POST of `initialize`.

        Raises:
            Refusal: There is no room for another session.
        """
        if not self.sessions.has_room():
            raise Refusal(503, "There are too many sessions.", [RETRY_SOON])
        transport = HttpTransport(self._server.profile, self._settings.max_stream_bytes, has_session=True)
        served = self._server.connection(transport, self._options)
        await served.start()
        stream = transport.open_stream(request, [message.id])
        transport.deliver(message, stream)
        if served.revision is None:  # the handshake has refused it
            await self._responder.respond(stream, request)
            await transport.close()
            return
        id, now = new_id(request.subject, self._prefix), asyncio.get_running_loop().time()
        session = HttpSession(id, request.subject, transport, served, now)
        self._server.connections.add(served)
        self.sessions.add(session)
        session.requests += 1
        try:
            await self._responder.respond(stream, request, [(SESSION_ID, session.id.encode())])
        finally:
            session.requests -= 1

    async def post(self, request: AsgiRequest, message: Any) -> None:
        """Respond to a POST in a session.

        Args:
            request: The HTTP request.
            message: The decoded body.

        Raises:
            Refusal: There is no such session, or it has too many requests in progress.
        """
        session = self._session(request)
        session.requests += 1
        try:
            transport, revision = session.transport, session.connection.revision
            if transport.is_paused:
                await transport.wait_for_reading()
            items = message if type(message) is list else [message]
            ids = [item.id for item in items if type(item) is Request]
            if type(message) is list and (revision is None or not revision.profile.batches or len(set(ids)) < len(ids)):
                await request.send_error(400, encode(ParseError.batch_not_allowed().to_response()))
            elif not transport.streams.keys().isdisjoint(ids):
                id = message.id if type(message) is Request else None
                await request.send_error(400, encode_error(id, ErrorCode.INVALID_REQUEST, "the id is in flight"))
            else:
                stream = transport.open_stream(request, ids)
                if ids:
                    stream.name, stream.is_resumable = session.stream_name(), self._is_resumable(revision)
                transport.deliver(message, stream)
                if ids:
                    await self._responder.respond(stream, request)
                else:
                    await request.send_whole(202, [NO_LENGTH], b"")
        finally:
            session.requests -= 1

    def _is_resumable(self, revision: Revision | None) -> bool:
        """Return whether a client can reconnect although it has got no message yet."""
        return self._store is not None and revision is not None and revision.version >= "2025-11-25"

    def _session(self, request: AsgiRequest, *, needs_room: bool = True) -> HttpSession:
        id = value_of(request.headers, SESSION_ID)
        if id is None:
            raise Refusal(400, _NO_SESSION_ID)
        session = self.sessions.find(id.decode("latin-1"), request.subject)
        if session is not None and not session.transport.is_connected:
            self.sessions.remove(session)
            self._end_soon(session)
            session = None
        if session is None:
            raise Refusal(404, _NO_SESSION)
        self._check_version(request)
        if needs_room:
            self._check_room(session)
        return session

    def _check_room(self, session: HttpSession) -> None:
        if session.requests >= self._settings.max_session_requests:
            raise Refusal(503, "The session has too many requests in progress.", [RETRY_SOON])

    def _check_version(self, request: AsgiRequest) -> None:
        version = value_of(request.headers, VERSION)
        if version is not None and version not in self._versions:
            raise Refusal(400, "This MCP-Protocol-Version is not supported.")

    async def get(self, request: AsgiRequest) -> None:
        """Respond to a GET: open the stream of a session, or resume a stream.

        Raises:
            Refusal: The request cannot be served.
        """
        if SESSION_ID not in request.headers:
            raise Refusal(400, _NO_SESSION_ID)
        if not accepts(value_of(request.headers, b"accept"), EVENT_TYPE):
            raise Refusal(406, "The client must accept text/event-stream.")
        event_id = value_of(request.headers, LAST_EVENT_ID)
        if event_id is not None and self._store is not None:
            await self._resume(self._store, event_id.decode("latin-1"), request)
            return
        session = self._session(request)
        if session.transport.listener.request is not None:
            raise Refusal(409, "The session has this stream open already.")
        await self._listen(session, request)

    async def _listen(self, session: HttpSession, request: AsgiRequest) -> None:
        session.replace_listener()  # several requests resumed the stream: the latest one goes on
        stream = session.transport.listener
        stream.name, stream.is_stored = session.stream_name(_LISTENER), False
        stream.is_resumable = self._is_resumable(session.connection.revision)
        session.requests += 1
        session.transport.set_listening(request)
        try:
            await self._responder.listen(stream, request)
        finally:
            session.requests -= 1
            if stream.request is request:
                session.transport.set_listening(None)

    async def _resume(self, store: EventStore, event_id: str, request: AsgiRequest) -> None:
        """Continue a stream after an event. The session may be one of another worker."""
        id = request.headers[SESSION_ID].strip(b" \t").decode("latin-1")
        self._check_version(request)
        session = self.sessions.find(id, request.subject)
        try:
            name = await store.stream_of(event_id)
        except ConnectionLost:
            raise Refusal(503, _NO_STORE, [RETRY_SOON]) from None
        if name is None or session_of(name) != id or not belongs_to(id, request.subject):
            if session is None:
                raise Refusal(404, _NO_SESSION)
            raise Refusal(410, _NO_EVENTS)
        is_listener = name.startswith(f"{id}/{_LISTENER}")
        if session is not None:
            self._check_room(session)
            session.requests += 1
            if is_listener:  # its client has disconnected, which was not noticed yet
                session.replace_listener()
        try:
            await self._responder.resume(event_id, request)
        except (EventsLost, ConnectionLost) as error:
            if request.is_begun:
                return
            if isinstance(error, ConnectionLost):
                raise Refusal(503, _NO_STORE, [RETRY_SOON]) from None
            raise Refusal(410, _NO_EVENTS) from None
        finally:
            if session is not None:
                session.requests -= 1
        if is_listener and session is not None and not request.is_gone:
            await self._listen(session, request)
        else:
            await request.end()

    async def delete(self, request: AsgiRequest) -> None:
        """Respond to a DELETE: end a session, and cancel what it has in flight.

        Raises:
            Refusal: There is no such session.
        """
        session = self._session(request, needs_room=False)
        self.sessions.remove(session)
        session.transport.cancel_requests()
        await self._end(session)
        await request.send_whole(200, [NO_LENGTH], b"")

    async def close(self, grace_seconds: float) -> None:
        """End all sessions. Their events stay in the store: a client can get the end of a stream from another worker.

        Args:
            grace_seconds: How long functions that run may take.
        """
        sessions = self.sessions.clear()
        closing = [asyncio.ensure_future(self._close_session(session, grace_seconds)) for session in sessions]
        if closing:
            await asyncio.wait(closing)

    def _end_soon(self, session: HttpSession) -> None:
        task = asyncio.get_running_loop().create_task(self._end(session))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, session: HttpSession) -> None:
        await self._close_session(session, 0.0)
        if self._store is not None:
            await self._store.forget(session.id)

    async def _close_session(self, session: HttpSession, seconds: float) -> None:
        self._server.connections.discard(session.connection)
        await session.connection.close(seconds)
