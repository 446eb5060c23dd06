"""An ASGI application that serves an MCP server over Streamable HTTP.

A fault of the HTTP request gets a status and plain text; a fault of a message gets a status and an error response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Unpack

from ...codec import Notification, ParseError, Request, decode, encode, encode_error
from ...errors import RpcError, StateError
from ...http import Access, Refusal
from ...http.guard import closing_fields, serve_other, user_failures, within
from ...http.requests import (
    Admitted,
    Header,
    Receive,
    Scope,
    Send,
    check_content,
    check_repeated,
    declared_length,
    is_loopback,
    read_body,
    refusal_response,
)
from ...session import Rules, SessionOptions
from ...support import check_seconds, logger_of
from ...types import Unset
from ..protocol.meta import member_of
from ..protocol.versions import HANDSHAKE_VERSIONS
from ..server.lifespan import LifespanHolder
from ..server.serving import Served
from .authorization import Authorization
from .event_store import MemoryEventStore
from .exchange import Exchanges
from .headers import (
    NAME_MEMBERS,
    SESSION_ID,
    VERSION,
    Path,
    accepts,
    check_modern,
    check_parameters,
    check_version,
    is_modern,
    is_single,
    parameter_headers,
)
from .options import HttpOptions, HttpSettings
from .responses import EVENT_TYPE, NO_LENGTH, AsgiRequest, EventLog, ResponseSender
from .sessions import SessionRequests

_logger: Final = logger_of("mcp")
_LIFESPAN_FAILED: Final = "the lifespan of the server failed"


class McpEndpoint:
    """An ASGI application that serves an MCP server over Streamable HTTP. It needs asyncio.

        app = McpEndpoint(server)  # uvicorn module:app
        FastAPI().mount("/mcp", McpEndpoint(server))

    Args:
        server: A `Server` or a `Gateway`.
        session_options: Options of `Session`, for each session and each request without one.
        options: See `HttpOptions`.

    Attributes:
        requests: Number of HTTP requests in progress, including streams.
        is_closing: Whether new requests are refused, because it closes.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    def __init__(
        self, server: Served, session_options: SessionOptions | None = None, **options: Unpack[HttpOptions]
    ) -> None:
        self._settings = settings = HttpSettings(**options)
        # A malformed item of a batch gets a response: over HTTP no program prints by mistake.
        session_options = {"response_policy": "always", **(session_options or {})}
        Rules(**session_options)
        self._server = server
        self._profile = server.profile
        # A framework may remove the path at which an application is mounted, leaving "" or "/", or keep it.
        self._paths = frozenset({"", "/", settings.path, settings.path.rstrip("/")})
        self._access = Access(settings.allowed_hosts, settings.allowed_origins)
        self._admitted = Admitted()
        self._max_body_bytes = settings.max_body_bytes or self._profile.limits.message_bytes
        store = MemoryEventStore() if isinstance(settings.event_store, Unset) else settings.event_store
        log = None if store is None else EventLog(store)
        self._responder = ResponseSender(log, settings.retry_ms, settings.keep_alive_seconds)
        self._authorization: Authorization | None = settings.authorization
        legacy = [version for version in server.versions if version in HANDSHAKE_VERSIONS]
        self._has_legacy = bool(legacy)
        self._has_modern = len(legacy) < len(server.versions)
        self._exchanges = Exchanges(server, settings, session_options, self._responder)
        self._session_requests = SessionRequests(server, settings, session_options, self._responder, self._exchanges)
        self._named = Admitted()  # what `check_modern` has checked
        self._parameters: dict[str, tuple[Any, dict[str, Path]]] = {}  # by tool: its schema, and the headers for it
        self._idle: asyncio.Future[None] | None = None
        self._closed_by: asyncio.AbstractEventLoop | None = None
        self.requests: int = 0
        self.is_closing: bool = False
        self._lifespan = LifespanHolder(server.lifespan, settings.lifespan_seconds)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} path={self.path!r} sessions={self.sessions} open={self.exposure()}>"

    def exposure(self) -> list[str]:
        """Return what is open to whom if the server is reached from other machines; see `Access.exposure`."""
        if self._authorization is not None:
            return self._access.exposure()
        return ["whoever can reach it can use all of it: authorization", *self._access.exposure()]

    @property
    def path(self) -> str:
        """The path for clients."""
        return self._settings.path

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        return len(self._session_requests.sessions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a scope of ASGI: an HTTP request, or the lifespan of the server. A WebSocket is refused."""
        if scope["type"] != "http":
            await serve_other(scope["type"], receive, send, self._on_lifespan)
            return
        fields: list[Header] = list(scope["headers"])
        headers = dict(fields)
        request = AsgiRequest(receive, send, self._settings.write_seconds, scope, headers)
        if self.is_closing and asyncio.get_running_loop() is not self._closed_by:
            self.is_closing = False  # a framework that has closed it is served again, as by one test after another
        # Checked before anything is read, so that refusing a request is cheap.
        if self.is_closing or self.requests >= self._settings.max_requests:
            await _refuse(request, Refusal(503, f"The server is {'closing' if self.is_closing else 'busy'}."))
            return
        self.requests += 1
        try:
            if len(headers) != len(fields):
                check_repeated([(name, value.strip(b" \t")) for name, value in fields], is_single)
                if b"accept" in headers:  # a list header, which may be split over several lines (RFC 9110, section 5.3)
                    headers[b"accept"] = b",".join([value for name, value in fields if name == b"accept"])
            if not self._lifespan.is_entered:  # a mounted application gets no events of a lifespan
                await self._enter_lifespan()
            try:
                await self._serve(request)
            finally:
                # The client already has its response, and may send the next request meanwhile.
                if request.watcher is not None:
                    await request.stop_watching()
        except Refusal as refusal:
            await _refuse(request, refusal)
        finally:
            self.requests -= 1
            if self.is_closing and not self.requests and self._idle is not None and not self._idle.done():
                self._idle.set_result(None)

    async def _enter_lifespan(self) -> None:
        with user_failures("The server cannot begin.", _log_lifespan):
            try:
                await self._lifespan.enter()
            except TimeoutError as error:
                _log_lifespan(error)
                raise Refusal(503, "The server is not ready.") from None
            except StateError:
                raise Refusal(503, "The server is closing.") from None

    async def _serve(self, request: AsgiRequest) -> None:
        scope, headers, get = request.scope, request.headers, request.headers.get
        method, path, server = scope["method"], scope["path"], scope.get("server")
        # Clients repeat these with each request, and checking them costs more than serving most calls.
        content = get(b"content-type"), get(b"content-encoding"), get(b"accept")
        host = None if server is None else server[0]
        fields = (method, path, scope.get("root_path"), host, get(b"host"), get(b"origin"), *content)
        if fields not in self._admitted:
            path = path.removeprefix(scope.get("root_path") or "")
            if self._authorization is not None and path in self._authorization.paths:
                await _send_metadata(request, method, self._authorization.metadata_text)
                return
            # The metadata above is public, even for browsers of any origin. Everything else is checked.
            self._check(method, path, headers, host is not None and is_loopback(host))
            if _is_browser(method, headers):
                host_and_path = headers.get(b"host", b"").decode("latin-1") + scope.get("root_path", "") + self.path
                raise Refusal(
                    406, f"This is an MCP server. Connect an MCP client to {scope['scheme']}://{host_and_path}"
                )
            self._admitted.remember(fields)
        if self._authorization is not None:
            request.claims, request.subject = await self._authorization.authorize(method, headers)
        if method != "POST":
            await (self._session_requests.get if method == "GET" else self._session_requests.delete)(request)
            return
        length = get(b"content-length")
        declared = None if length is None else declared_length(length.strip(b" \t"), self._max_body_bytes)
        reading = read_body(request.receive, self._max_body_bytes, declared)
        body: Any = await within(self._settings.body_seconds, reading, 408, "The body did not arrive in time.")
        if body is None:  # the client has disconnected
            return
        message: Any = decode(body, self._profile, raw=self._server.keeps_raw)
        # With the id, if it is certain, so that the client can settle its call.
        if type(message) is ParseError:
            await request.send_json(400, encode(message.to_response()))
            return
        # Checked before the message begins a session, or reaches one.
        if self._authorization is not None or self._server.may_need_scopes:
            await self._check_scopes(request, message if type(message) is list else [message])
        # What it would begin now, such as a session or a subscription, `close` has already ended.
        if self.is_closing:
            raise Refusal(503, "The server is closing.")
        if self._has_modern and (not self._has_legacy or is_modern(message, get(VERSION))):
            await self._post_alone(request, message)
        # With a session id, this is a second `initialize`, which the session refuses.
        elif type(message) is Request and message.method == "initialize" and SESSION_ID not in headers:
            await self._session_requests.begin(request, message)
        else:
            await self._session_requests.post(request, message)

    def _check(self, method: str, path: str, headers: Mapping[bytes, bytes], is_local: bool) -> None:
        """Check the headers that clients repeat with each request."""
        headers = {name: value.strip(b" \t") for name, value in headers.items()}
        self._access.check(headers.get(b"host"), headers.get(b"origin"), is_local)
        if path not in self._paths:
            raise Refusal(404, "Nothing is served at this path.")
        allowed = ("GET", "POST", "DELETE") if self._has_legacy else ("POST",)
        if method not in allowed and not _is_browser(method, headers):
            raise Refusal(405, "Messages are sent with POST.", [(b"allow", ", ".join(allowed).encode())])
        if method == "POST":
            check_content(headers)
            if not accepts(headers.get(b"accept"), b"application/json", EVENT_TYPE):
                raise Refusal(406, "The client must accept application/json and text/event-stream.")

    async def _check_scopes(self, request: AsgiRequest, items: list[Any]) -> None:
        """Check the scopes that messages need."""
        for item in items:
            if type(item) is not Request and type(item) is not Notification:
                continue
            name = _name_of(item)
            scopes: frozenset[str] = frozenset()
            if name is not None and item.method == "tools/call":
                scopes = self._server.tool_scopes(name)
            if self._authorization is not None:
                await self._authorization.check_message(request.claims, item.method, name, scopes)
            elif scopes:
                raise Refusal(403, "The tool needs a scope, but this server checks no tokens.")

    async def _post_alone(self, request: AsgiRequest, message: Any) -> None:
        """Respond to a POST without a session."""
        id = message.id if type(message) is Request else None
        try:
            # A notification of a session with such a header would be dropped, and a batch refused for another reason.
            if type(message) is not Request:
                check_version(request.headers, self._server.versions)
            # A legacy-only client learns the supported revisions from the error of `initialize`.
            elif message.method != "initialize" or self._has_legacy:
                named = check_modern(request.headers, message, self._named, self._server.versions)
                if message.method == "tools/call" and isinstance(named, str):
                    self._check_parameters(request.headers, named, message.params)
        except RpcError as error:
            await request.send_json(400, encode_error(id, error.code, error.message, error.data))
            return
        # A notification belongs to no session, and a client cancels a request by closing the connection.
        if type(message) is Notification:
            await request.send_whole(202, [NO_LENGTH], b"")
        elif type(message) is list:
            await request.send_json(400, encode(ParseError.batch_not_allowed().to_response()))
        elif type(message) is Request:
            await self._exchanges.respond(request, message)
        else:
            raise Refusal(400, "The body must be a request or a notification.")

    def _check_parameters(self, headers: Mapping[bytes, bytes], name: str, params: object) -> None:
        if (schema := self._server.tool_schema(name)) is None:
            return
        known, expected = self._parameters.get(name, (None, {}))
        if known is not schema:
            try:
                expected = parameter_headers(schema)
            except ValueError as error:
                _logger.warning("the tool %.60r is left out by clients: %s", name, error)
                expected = {}
            if len(self._parameters) >= 1024:  # among them are tools that have been removed
                self._parameters.clear()
            self._parameters[name] = schema, expected  # cached with the schema, because a tool may be registered again
        if expected:
            check_parameters(headers, expected, member_of(params, "arguments"))

    # Ending.

    async def _on_lifespan(self, event: str) -> str | None:
        """Begin or end with the ASGI server. Return why that failed; None if it did not."""
        try:
            if event == "lifespan.startup":
                self.is_closing = False  # an application may be served again
                await self._lifespan.enter()
            else:
                await self.close()
        except Exception as error:
            _log_lifespan(error)
            return _LIFESPAN_FAILED
        return None

    async def close(self, grace_seconds: float = 5.0) -> None:
        """End all sessions, streams and subscriptions, and leave the lifespan of the server. New requests are refused.

        Args:
            grace_seconds: How long functions that run may take. The requests of those that do not end get an error.

        Raises:
            TypeError, ValueError: `grace_seconds` is not a duration.
        """
        check_seconds("grace_seconds", grace_seconds, may_be_none=False)
        self.is_closing = True
        self._closed_by = loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_seconds
        self._exchanges.end_streams()  # subscriptions never end on their own
        await self._session_requests.close(grace_seconds)
        await self._server.tasks.close()
        if self.requests:
            self._idle = loop.create_future()
            await asyncio.wait([self._idle], timeout=max(0.0, deadline - loop.time()))
            # The remaining requests get an error while their clients are still connected.
            self._exchanges.abort()
        await self._responder.close()
        try:
            await self._lifespan.leave()
        except TimeoutError as error:
            _log_lifespan(error)


def _log_lifespan(error: BaseException) -> None:
    _logger.error(_LIFESPAN_FAILED, exc_info=error)


def _is_browser(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a person has opened the URL: no client of MCP asks for HTML."""
    return method == "GET" and SESSION_ID not in headers and b"text/html" in headers.get(b"accept", b"")


async def _send_metadata(request: AsgiRequest, method: str, data: bytes) -> None:
    if method not in ("GET", "HEAD"):
        raise Refusal(405, "The metadata is read with GET.", [(b"allow", b"GET, HEAD")])
    fields = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(data)),
        (b"access-control-allow-origin", b"*"),
        (b"cache-control", b"max-age=3600"),
    ]
    await request.send_whole(200, fields, b"" if method == "HEAD" else data)


async def _refuse(request: AsgiRequest, refusal: Refusal) -> None:
    closing = closing_fields(request.scope, request.headers)
    await request.send_whole(*refusal_response(refusal, request.scope["method"], closing))


def _name_of(message: Request[Any] | Notification[Any]) -> str | None:
    """Return the target of a request: the name of a tool or a prompt, or the URI of a resource."""
    member = NAME_MEMBERS.get(message.method)
    name = None if member is None else member_of(message.params, member)
    return name if type(name) is str else None
