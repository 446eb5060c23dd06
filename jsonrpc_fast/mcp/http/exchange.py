"""One POST: its requests, the messages that belong to them, and the response. See `HttpExchange` in mcp/server/session.

Rules:
  - A tool without a context runs in the task of its POST, everything else in a task of its own, because it may send
    messages before its result.
  - An exchange ends with the last of its responses. Later messages about its requests go to the stream of the session.
  - From 2026-07-28 on a request is cancelled when its client disconnects. Up to 2025-11-25 it continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from types import CoroutineType
from typing import Any, ClassVar, Final

import msgspec

from ...codec import Notification, ParseError, Request, encode, encode_error, encode_result
from ...codes import ErrorCode, McpErrorCode
from ...errors import ConnectionLost, EncodeError, RpcError
from ...handlers import is_awaitable, to_jsonable
from ...http.guard import Cancellable
from ...http.requests import Header
from ...session import Destination, McpConvention, SessionOptions
from ...support import Waiters, is_failure
from ...types import MessageId
from ..protocol.sessions import SingleHandler
from ..server.serving import Served
from ..server.session import FrontSession
from ..server.subscriptions import ClientSubscriptions
from .options import HttpSettings
from .responses import NO_LENGTH, AsgiRequest, ResponseSender
from .transport import HIGH_WATER_BYTES, HttpSession, MessageStream

STATUSES: Final[dict[int, int]] = {
    ErrorCode.METHOD_NOT_FOUND: 404,
    McpErrorCode.HEADER_MISMATCH: 400,
    McpErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY: 400,
    McpErrorCode.UNSUPPORTED_PROTOCOL_VERSION: 400,
}
"""The status of an error response without a session, by code; 200 for others."""
_CONVENTION: Final = McpConvention()
_FAILURES: Final = (Exception, SystemExit, asyncio.CancelledError)  # `is_failure` tells which a function raised


class ServedRequest(msgspec.Struct, eq=False):
    """One request of a POST. See `Request` in mcp/server/session.

    Attributes:
        http: The session that it belongs to, if any.
        status: The status of the HTTP response, if it is the only request.
        is_cancelled: Whether the client has cancelled it, or has disconnected.
        part: Its task, or the part of the POST's task that serves it: what `cancel` cancels.
    """

    message: Request
    id: MessageId
    method: str
    exchanges: Exchanges
    asgi: AsgiRequest
    http: HttpSession | None = None
    session: FrontSession | None = None
    status: int = 200
    index: int = 0
    is_cancelled: bool = False
    work: Any = None
    part: asyncio.Task[None] | Cancellable[Any] | None = None
    exchange: Exchange | None = None
    is_notification: ClassVar[bool] = False
    peer: ClassVar[None] = None

    @property
    def destination(self) -> Exchange:
        """The exchange. Most calls of tools need none, and making it costs as much as some of them."""
        if self.exchange is None:
            self.exchange = self.exchanges.exchange(self.asgi, self.http)
            self.exchange.add(self)
        return self.exchange

    def refuse(self, error: BaseException) -> None:
        """Set the status for an error. Errors of a session have the status 200."""
        if self.session is not None or not isinstance(error, RpcError):
            return
        self.status = STATUSES.get(error.code, 200)
        if self.status != 200:
            try:
                encode_error(0, error.code, error.message, error.data, default=to_jsonable)
            except (Exception, SystemExit):  # the response is -32603
                self.status = 200

    def report_progress(self, value: Mapping[str, Any]) -> bool:
        """Report progress to the client. Return False if the client did not ask for it, or has its response."""
        token = _CONVENTION.token(self.message.params)
        if token is None or self not in self.destination.requests:  # it may have ended
            return False
        self.destination.push([Notification("notifications/progress", {"progressToken": token, **value})])
        return True

    def cancel(self) -> None:
        """Cancel it, without a response."""
        self.is_cancelled = True
        if self.part is not None:
            self.part.cancel()


@dataclass(slots=True, eq=False, repr=False)
class Exchange(MessageStream):
    """One POST with requests.

    Attributes:
        requests: The requests that have no response yet, in their order.
        is_beginning: Whether requests of its batch have not begun yet.
    """

    server: Served = field(kw_only=True)
    session: HttpSession | None = field(default=None, kw_only=True)
    default: Callable[[Any], Any] | None = field(default=None, kw_only=True)
    requests: dict[ServedRequest, None] = field(default_factory=dict, init=False)
    is_beginning: bool = field(default=False, init=False)
    _responses: list[bytes] | None = field(default=None, init=False)  # of a batch
    _subscriptions: ClientSubscriptions | None = field(default=None, init=False)
    _room: Waiters | None = field(default=None, init=False)

    # The way to the client; see `HttpExchange`.

    def send(self, data: bytes) -> None:
        """Send a message that belongs to a request of the exchange; after the end, to an earlier one.

        Raises ConnectionLost: the exchange has ended, and there is no session.
        """
        if not self.is_ended:
            self.put(data.rstrip(b"\n"))
        elif self.session is None:
            raise ConnectionLost("the request already has its response")
        else:
            # A task of a function may continue, and report progress, after its response.
            self.session.send(data)

    def respond(self, id: object, data: bytes) -> None:
        """Called for requests that the session serves; there are none."""
        raise NotImplementedError

    @property
    def is_blocked(self) -> bool:
        return False  # a full stream drops what is not a response

    def push(
        self, notifications: Any, destination: Destination | None = None, texts: dict[Any, bytes] | None = None
    ) -> None:
        for notification in notifications:
            if self.session is not None or not self.is_ended:
                self.send(encode(notification, default=self.default))

    def notifications_of(self, method: str, subject: str) -> Any:
        return self.subscriptions.changed(method, subject, is_legacy=False)

    async def tell_client(self, method: str, params: dict[str, Any] | None, destination: Destination | None) -> None:
        self.send(encode(Notification(method, params), default=self.default))
        self._room = self._room or Waiters()
        while self.size > HIGH_WATER_BYTES:
            await self._room.wait()

    @property
    def subscriptions(self) -> ClientSubscriptions:
        """The subscriptions of the request, if it has no session."""
        if self._subscriptions is None:
            self._subscriptions = ClientSubscriptions(self.server.capabilities(), self, self.server.announcer)
            self.server.connections.add(self)
        return self._subscriptions

    def end_streams(self) -> None:
        """End the subscriptions with their responses."""
        if self._subscriptions is not None:
            self._subscriptions.end()

    def log(self, level: str, data: Any, logger: str | None) -> None:
        """Drop a log message that belongs to no request: see `Server.log`."""

    # The responses.

    def add(self, request: ServedRequest) -> None:
        """Add a request, which gets its messages."""
        request.exchange = self
        self.requests[request] = None
        if self.session is not None:
            self.session.requests[request.id] = request

    def begin_batch(self, size: int) -> None:
        """Let the responses be one array, and do not end before all requests have begun."""
        self._responses = [b""] * size
        self.is_beginning = True

    def settle(self, request: ServedRequest, response: bytes) -> None:
        """End a request with its response, b"" for none, unless it has ended."""
        if request not in self.requests:
            return
        del self.requests[request]
        if self.session is not None and self.session.requests.pop(request.id, None) is not None:
            self.session.wake()
        if request.is_cancelled:
            response = b""
        if self._responses is not None:
            self.put_response(request.index, response)
        else:
            self._response = response
            self.status: int = request.status
        if not self.requests and not self.is_beginning:
            self.end()

    def put_response(self, index: int, response: bytes) -> None:
        """Store the response to an item of a batch."""
        assert self._responses is not None
        self._responses[index] = response

    def end(self) -> None:
        if self._responses is not None:
            responses = [response for response in self._responses if response]
            self._response = b"[" + b",".join(responses) + b"]" if responses else b""
        if self.is_detached:
            self._response = b""
        # Not `super()`: a dataclass with slots is another class.
        MessageStream.end(self)

    def abort(self) -> None:
        """End all requests with an error that says why."""
        text = "the server or the session was closed before the function ended"
        for request in [*self.requests]:
            self.settle(request, encode_error(request.id, ErrorCode.INTERNAL_ERROR, text, delimited=False))
            request.cancel()

    def cancel(self) -> None:
        """Cancel all requests: they get no response."""
        for request in [*self.requests]:
            request.cancel()

    def detach(self) -> None:
        MessageStream.detach(self)
        if self.session is None:  # the rest cannot be requested
            self.cancel()

    def _count(self, size: int) -> None:
        MessageStream._count(self, size)
        if self.session is not None:
            self.session.count(size)
        if self._room is not None:
            self._room.wake()


class Exchanges:
    """Serves the requests of an endpoint."""

    def __init__(
        self, server: Served, settings: HttpSettings, options: SessionOptions, responder: ResponseSender
    ) -> None:
        self.server: Served = server
        self._max_bytes = settings.max_stream_bytes
        self._responder = responder
        hooks = options.get("hooks")
        self._is_observed = hooks is not None
        self._is_traced = hasattr(hooks, "request_received")
        self._default = options.get("default")
        self._dispatch = SingleHandler(_serve).prepare(
            server.profile, hooks=hooks, raw=server.keeps_raw, delimited=False, default=self._default
        )
        self._running: set[Exchange] = set()

    def exchange(self, request: AsgiRequest, session: HttpSession | None) -> Exchange:
        """Return the exchange of a POST, which has no request yet."""
        if session is None:
            return Exchange(self._max_bytes, request, server=self.server, default=self._default)
        exchange = Exchange(self._max_bytes, request, server=self.server, session=session, default=self._default)
        # The name of a stream is never reused: an event id of an earlier stream must not lead into it.
        exchange.name = session.stream_name()
        exchange.is_resumable = self._responder.is_resumable(session.connection.revision)
        return exchange

    async def respond(
        self,
        request: AsgiRequest,
        message: Request | list[Any],
        session: HttpSession | None = None,
        begun: Callable[[], Collection[Header]] | None = None,
    ) -> None:
        """Serve the requests of a POST, and respond to it.

        Args:
            begun: Called after the functions were called. Returns further headers of the response.
        """
        work: Coroutine[Any, Any, None] | None = None
        if isinstance(message, list):
            exchange = await self._begin_batch(request, message, session)
            if exchange.is_finished:
                await request.send_whole(202, [NO_LENGTH], b"")
                return
        else:
            served = self._request(message, request, session)
            begin = None if self._is_observed else self._call_plain(served)
            if begin is None:
                begin = self._begin(served)
            if isinstance(begin, bytes):  # the path of most requests, without a stream or a task
                await request.send_json(served.status, begin, () if begun is None else begun())
                return
            work, exchange = begin, served.destination
        if begun is not None:
            exchange.fields = begun()
        self._running.add(exchange)
        try:
            await self._responder.respond(exchange, request, work)
        finally:
            self._running.discard(exchange)
            exchange.end_streams()
            self.server.connections.discard(exchange)

    async def _begin_batch(self, request: AsgiRequest, batch: list[Any], session: HttpSession | None) -> Exchange:
        exchange = self.exchange(request, session)
        exchange.begin_batch(len(batch))
        # In the order of the batch: a cancellation applies to a request before it, not to one after it.
        for index, each in enumerate(batch):
            if type(each) is Request:
                served = self._request(each, request, session)
                served.index = index
                exchange.add(served)
                self._begin(served)
            elif type(each) is ParseError:
                exchange.put_response(index, self._dispatch.serve(each))
            elif session is not None:
                await session.deliver_soon(each)
        exchange.is_beginning = False
        if not exchange.requests:
            exchange.end()
        return exchange

    def _request(self, message: Request, request: AsgiRequest, session: HttpSession | None) -> ServedRequest:
        connection = None if session is None else session.connection
        return ServedRequest(message, message.id, message.method, self, request, session, connection)

    def _call_plain(self, request: ServedRequest) -> Coroutine[Any, Any, None] | bytes | None:
        """Call a tool that takes no context, and so sends nothing before its result, in this task.

        Returns:
            The response; the rest of the work, if the tool waits; or None if the request needs a context.
        """
        try:
            owner = request.session or self.server
            result = owner.call_plain(request.message, request.asgi.subject)
            if type(result) is CoroutineType:
                try:
                    waiting = result.send(None)
                except StopIteration as end:
                    result = end.value
                else:
                    request.destination  # noqa: B018  # registered from here on
                    request.part = guarded = Cancellable(result, waiting)
                    return self._run(request, self._write(request, guarded))
            return None if result is None else encode_result(request.id, result, delimited=False)
        except _FAILURES as error:
            return self._failed(request, error)

    def _failed(self, request: ServedRequest, error: BaseException) -> bytes:
        """Return the response to a request whose function raised."""
        # A function may await a future that is cancelled elsewhere, or raise CancelledError.
        if not is_failure(error):
            raise error
        request.refuse(error)
        return self._dispatch.failed(request.message, error)

    def _encoded(self, request: ServedRequest, result: Any) -> bytes:
        try:
            return encode_result(request.id, result, delimited=False, default=self._default)
        except EncodeError:
            return encode_result(request.id, result, delimited=False, default=self._default or to_jsonable)

    async def _write(self, request: ServedRequest, work: Awaitable[Any]) -> bytes:
        try:
            return self._encoded(request, await work)
        except (Exception, SystemExit) as error:
            return self._failed(request, error)

    def _begin(self, request: ServedRequest) -> bytes | None:
        """Call the function of a request. Return the response, if it needs no exchange."""
        message = request.message
        response: Any
        try:
            if self._is_observed:
                dispatch = self._dispatch
                if self._is_traced:
                    dispatch = dispatch.continuing(_CONVENTION.trace(message.params, message.extra))
                response = dispatch.start(message, request)
            else:
                request.work = work = (request.session or self.server).serve(message.params, request)
                response = self._write(request, work) if is_awaitable(work) else self._encoded(request, work)
        except _FAILURES as error:
            response = self._failed(request, error)
        if type(response) is not bytes:
            request.destination  # noqa: B018  # registered before its task begins
            request.part = task = asyncio.create_task(self._run(request, response))
            task.add_done_callback(lambda _: _end(request, response))
        elif request.exchange is None:
            return response
        else:
            request.exchange.settle(request, response)
        return None

    async def _run(self, request: ServedRequest, work: Awaitable[bytes]) -> None:
        response: bytes = b""
        try:
            response = await work
        except asyncio.CancelledError as error:
            response = self._failed(request, error)
        finally:
            request.destination.settle(request, response)

    def end_streams(self) -> None:
        """End the subscriptions that are in progress, also those whose functions have not begun."""
        for exchange in [*self._running]:
            exchange.subscriptions.end()

    def abort(self) -> None:
        """End the requests that are in progress with an error."""
        for exchange in [*self._running]:
            exchange.abort()


def _serve(params: Any, context: Any) -> Any:
    """Serve a request whose calls hooks observe."""
    request: ServedRequest = context.context
    try:
        request.work = work = (request.session or request.exchanges.server).serve(params, request)
    except RpcError as error:
        request.refuse(error)
        raise
    return _refusing(request, work) if is_awaitable(work) else work


async def _refusing(request: ServedRequest, work: Awaitable[Any]) -> Any:
    try:
        return await work
    except RpcError as error:
        request.refuse(error)
        raise


def _end(request: ServedRequest, response: Coroutine[Any, Any, bytes]) -> None:
    """End a request whose task has ended, perhaps before its first step."""
    request.destination.settle(request, b"")
    response.close()
    if isinstance(request.work, Coroutine):
        request.work.close()
    request.part = None
