"""A relay between two peers: each message is checked, and its payload is passed on as the bytes that arrived.

    left = StdioServer(profile=MCP_2025_11_25, raw=True)
    right = StdioClient(["server"], profile=MCP_2025_11_25, raw=True)
    async with Relay(left, right) as relay:
        await relay.wait_closed()

Rules:
  - Both transports need `raw=True`: params, results and error data are then checked and copied verbatim. Without it
    they are decoded and encoded again.
  - The envelope is rewritten: unknown members are dropped.
  - Each request gets a new id on its way, and its response gets the original id back, of the same type. A request whose
    id is in flight on the same side is refused with -32600; the first request goes on.
  - Ids inside params are translated too: `notifications/cancelled` of MCP, `$/cancelRequest` of LSP, and the
    `subscriptionId` of MCP 2026-07-28. A cancellation that arrives after the response is dropped. After MCP's
    cancellation the request gets no response, after LSP's it does.
  - Progress tokens stay as they are: the side that made them is the only one that reads them.
  - A batch is split, since the other side may not support batches. Its responses are sent as one array.
  - A malformed message is never forwarded. It gets an error response if its id is known; otherwise `response_policy`
    decides. A malformed response gets none: the request it belongs to gets the error -32603. Where that is not certain,
    as in a text that is no JSON because of a NaN, the request waits on: the text may as well be a line of a log.
  - Reading from a side pauses while the write buffer of the other side is full, or its own is full of error responses.
    Its end is not noticed meanwhile, so a side that takes no byte for 300 seconds is disconnected.
  - Over HTTP a single request may fail: it gets the error -32000 with the reason in one sentence.
  - When one side is lost, the requests that wait for it get the error -32000, and the other side is closed once these
    are written. A side that half-closes still gets its responses first, except those that end subscriptions.

The relay uses the sessions' tracker, but not `Session`, which would decode the payloads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal

from .._logs import logger_of
from ..codec import (
    Notification,
    ParseError,
    Raw,
    Request,
    Response,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)
from ..codec._payloads import decoded
from ..codes import RPC_MESSAGES, ErrorCode
from ..errors import CallTimeout, ConnectionLost, EncodeError, HttpStatusError, InvalidResponse, StateError
from ..handlers.failures import on_failure
from ..session.budget import ResponseBudget, ResponsePolicy, budget_for
from ..session.requests import InboundBatch
from ..session.tracker import Call, Outcome, Serving, Tracker, id_in_flight, unknown_response
from ..transports.channel import HIGH_WATER_BYTES
from ..transports.protocol import Received, Transport
from ..types import TIMEOUT_SECONDS, UNSET, MessageId
from .protocol.meta import LISTEN_METHOD, SUBSCRIPTION_ID_KEY

if TYPE_CHECKING:
    from typing_extensions import Self

SideName = Literal["left", "right"]

RELAY_ERROR: Final = -32000
"""The code of the relay's own errors: the other side is closed, or too many requests wait for it."""

_CLOSED: Final = "the connection to the other side is closed"
_TOO_MANY: Final = "too many requests wait for the other side"
_FAILED: Final = "the request could not be sent to the other side"
_UNREADABLE: Final = "the other side sent an invalid response"
_ID_MEMBERS: Final = {"notifications/cancelled": "requestId", "$/cancelRequest": "id"}
_WITHOUT_SUBSCRIPTION: Final = frozenset({"notifications/message", "notifications/progress"})

_logger: Final = logger_of("relay")


class _Route:
    """Where the response to a request goes.

    Attributes:
        id: The id that the request arrived with.
        batch: The batch that the request arrived in, or None.
        index: The position of the request in its batch.
        is_subscription: Whether the request opens a subscription, so that no user waits for its response.
    """

    __slots__ = ("batch", "id", "index", "is_subscription")

    def __init__(self, request: Request, batch: InboundBatch | None, index: int) -> None:
        self.id = request.id
        self.batch = batch
        self.index = index
        self.is_subscription = request.method == LISTEN_METHOD


class _Side:
    """One of the two peers.

    Attributes:
        calls: The requests in flight to this side, by the relay's ids; `Call.trace` is the `_Route`.
        requests: The calls on the other side that stand for the requests of this side, by the original ids.
        waiting: Number of requests in `requests` that this side waits for: all but subscriptions.
        can_respond: Responses may still arrive: the stream of this side has not ended.
        drains: The sides whose write buffers must drain before this side is read again.
    """

    def __init__(
        self, name: SideName, transport: Transport, max_calls: int, response_policy: ResponsePolicy | ResponseBudget
    ):
        self.name = name
        self.transport = transport
        self.calls = Tracker(max_calls=max_calls)
        self.requests: Serving[Call] = Serving()
        self.waiting = 0
        self.budget = budget_for(response_policy)
        self.other: _Side
        self.can_respond = True
        self.closed: asyncio.Future[None]
        self.drains: dict[_Side, asyncio.Task[None]] = {}


class FaultLog:
    """An `on_fault` that logs the faults of a client on the left and of a server on the right, for programs.

    A side can cause any number of faults. So ten are logged at once and one each second, each with the number of those
    left out before it.
    """

    def __init__(self) -> None:
        self._budget = ResponseBudget()
        self._left_out = 0

    def __call__(self, side: SideName, fault: Exception) -> None:
        if not self._budget.take(asyncio.get_running_loop().time()):
            self._left_out += 1
            return
        before = f" ({self._left_out} more before)" if self._left_out else ""
        self._left_out = 0
        text = str(fault) or type(fault).__name__
        _logger.warning("%s: %s%s", "client" if side == "left" else "server", text, before)


class Relay:
    """Pass messages between two transports, which the relay starts and closes.

    Args:
        left: A transport that is not started, made with `raw=True`.
        right: Another one. Both sides are treated alike.
        response_policy: Which unreadable messages without an id get an error response: "always", "never", "limited" or
            a `ResponseBudget`.
        max_calls: Maximum number of requests that wait for one side. The next one gets the error -32000.
        close_seconds: How long a side that half-closed waits for its responses.
        on_fault: Called with "left" or "right" and the exception: a ParseError; a StateError for a response without a
            request, or for an id that is in flight; an EncodeError; an OSError of the transport. By default faults are
            logged for debugging.

    Raises:
        ValueError: `response_policy` is not one of these.
    """

    def __init__(
        self,
        left: Transport,
        right: Transport,
        *,
        response_policy: ResponsePolicy | ResponseBudget = "never",
        max_calls: int = 10_000,
        close_seconds: float = 5.0,
        on_fault: Callable[[SideName, Exception], object] | None = None,
    ) -> None:
        self._left = _Side("left", left, max_calls, response_policy)
        self._right = _Side("right", right, max_calls, response_policy)
        self._left.other, self._right.other = self._right, self._left
        self._close_seconds = close_seconds
        self._on_fault = on_fault
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closer: asyncio.Task[None] | None = None
        self._ending: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Connect and start both transports.

        Raises:
            StateError: The relay was started before.
            OSError: A transport cannot connect.
        """
        if self._loop is not None:
            raise StateError("the relay was started already")
        self._loop = asyncio.get_running_loop()
        sides = (self._left, self._right)
        for side in sides:
            transport = side.transport
            side.closed = self._loop.create_future()
            transport.onmessage = partial(self._on_message, side)
            transport.onerror = partial(self._on_error, side)
            transport.onclose = partial(self._on_close, side)
            transport.onend = partial(self._on_end, side)
            transport.onfail = partial(self._on_fail, side)
            transport.pauses_when_blocked = False
        async with on_failure(self._disconnect):
            # Both must be connected before either of them delivers messages.
            for side in sides:
                if not side.transport.is_connected:
                    await side.transport.connect()
            for side in sides:
                await side.transport.start()

    async def _disconnect(self) -> None:
        for side in (self._left, self._right):
            await side.transport.disconnect()
        if self._closer is not None:
            await self._closer

    async def close(self) -> None:
        """End the requests in flight with -32000, and close both transports once their buffers are written.

        A second call waits for the first. If the call is cancelled, unwritten data is dropped.
        """
        if self._loop is None:
            return
        self._begin_closing()
        try:
            await self.wait_closed()
        except asyncio.CancelledError:
            await asyncio.gather(self._left.transport.disconnect(), self._right.transport.disconnect())
            raise

    async def wait_closed(self) -> None:
        """Wait until both sides are closed, for whatever reason.

        Raises:
            StateError: The relay is not started.
        """
        if self._loop is None:
            raise StateError("the relay is not started")
        await asyncio.wait([self._left.closed, self._right.closed])
        if self._closer is not None:
            await asyncio.shield(self._closer)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def has_all_responses(self) -> bool:
        """Whether every request has its response from the right side; False after a cancelled request."""
        return not self._right.calls.is_owed

    def _begin_closing(self) -> None:
        if self._closer is not None or self._loop is None:
            return
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        self._lose(self._left)
        self._lose(self._right)
        self._closer = self._loop.create_task(self._close())

    async def _close(self) -> None:
        await asyncio.gather(self._left.transport.close(), self._right.transport.close())

    def _on_close(self, side: _Side) -> None:
        self._lose(side)
        side.requests.clear()
        for drained in side.drains.values():
            drained.cancel()
        if not side.closed.done():
            side.closed.set_result(None)
        self._begin_closing()

    def _on_fail(self, side: _Side, id: MessageId, error: Exception) -> None:
        """End a request to this side with an error, because this side cannot serve it."""
        self._report(side, error)
        call = side.calls.settle(id, Outcome.FAULT)
        if call is None:
            side.calls.is_late_response(id)
        else:
            is_local = isinstance(error, (CallTimeout, ConnectionLost, HttpStatusError, InvalidResponse))
            self._send_error(side.other, call.trace, RELAY_ERROR, str(error) if is_local else _FAILED)

    def _on_end(self, side: _Side) -> None:
        self._lose(side)
        if not side.waiting:
            self._begin_closing()
        elif self._closer is None and self._ending is None and self._loop is not None:
            self._ending = self._loop.call_later(self._close_seconds, self._begin_closing)

    def _lose(self, side: _Side) -> None:
        """End the requests that wait for this side with an error: it sends no more responses."""
        side.can_respond = False
        for call in side.calls.lose():
            self._send_error(side.other, call.trace, RELAY_ERROR, _CLOSED)

    def _on_message(self, side: _Side, message: Received) -> None:
        if type(message) is list:
            # One more than the batch has items: this slot keeps it open until all its requests are sent.
            batch = InboundBatch(len(message) + 1)
            batch.wait()
            for index, item in enumerate(message):
                self._on_item(side, item, batch, index)
            self._reply(side, batch.finish(len(message), b""))
        else:
            self._on_item(side, message, None, 0)

    def _on_error(self, side: _Side, error: Exception) -> None:
        if isinstance(error, ParseError):
            self._on_malformed(side, error, None, 0)
        else:
            self._report(side, error)

    def _on_item(self, side: _Side, message: Any, batch: InboundBatch | None, index: int) -> None:
        kind = type(message)
        if kind is Request:
            self._on_request(side, message, _Route(message, batch, index))
        elif kind is Response:
            self._on_response(side, message)
        elif kind is Notification:
            self._on_notification(side, message)
        else:
            self._on_malformed(side, message, batch, index)

    def _on_request(self, side: _Side, request: Request, route: _Route) -> None:
        other = side.other
        refusal: tuple[int, str]
        try:
            if not request.method:
                raise ParseError.empty_method(request.id)
            if side.requests.find(request.id) is not None:
                raise id_in_flight()
        except (ParseError, StateError) as error:
            refusal = ErrorCode.INVALID_REQUEST, RPC_MESSAGES[ErrorCode.INVALID_REQUEST]
            self._report(side, error)
        else:
            if not other.can_respond:
                refusal = RELAY_ERROR, _CLOSED
            elif not other.calls.has_room():
                refusal = RELAY_ERROR, _TOO_MANY
            else:
                call = other.calls.begin(request.method, 0.0)
                call.trace = route
                side.requests.begin(request.id, call)
                side.waiting += not route.is_subscription
                if route.batch is not None:
                    route.batch.wait()
                self._forward_request(side, call, request)
                return
        text = encode_error(request.id, *refusal, delimited=route.batch is None)
        if route.batch is None:
            self._reply(side, text)
        else:
            route.batch.put(route.index, text)

    def _forward_request(self, side: _Side, call: Call, request: Request) -> None:
        try:
            is_sent = self._forward(side, encode_request(call.id, call.method, request.params))
        except EncodeError as error:
            self._report(side, error)
            refusal = int(ErrorCode.INTERNAL_ERROR), RPC_MESSAGES[ErrorCode.INTERNAL_ERROR]
        else:
            if is_sent:
                return
            refusal = RELAY_ERROR, _CLOSED
        side.other.calls.settle(call.id, Outcome.LOST)
        self._send_error(side, call.trace, *refusal)

    def _on_response(self, side: _Side, response: Response) -> None:
        error = response.error
        call = side.calls.settle(response.id, Outcome.RESULT if error is None else Outcome.ERROR)
        if call is None:
            if not side.calls.is_late_response(response.id):
                self._report(side, unknown_response())
            return
        route: _Route = call.trace
        is_single = route.batch is None
        try:
            if error is not None:
                text = encode_error(route.id, error.code, error.message, error.data, delimited=is_single)
            else:
                result = response.result
                if call.method == LISTEN_METHOD:
                    result = self._with_subscription(side, result, call)
                text = encode_result(route.id, result, delimited=is_single)
        except EncodeError as fault:
            self._report(side, fault)
            self._send_error(side.other, route, ErrorCode.INTERNAL_ERROR, _UNREADABLE)
        else:
            self._finish(side.other, route, text)

    def _on_notification(self, side: _Side, notification: Notification) -> None:
        method, params = notification.method, notification.params
        if not method:
            self._report(side, ParseError.empty_method(reply_expected=False))
            return
        try:
            if method in _ID_MEMBERS:
                self._on_cancellation(side, method, params)
                return
            if method.startswith("notifications/") and method not in _WITHOUT_SUBSCRIPTION:
                params = self._with_subscription(side, params)
            self._forward(side, encode_notification(method, params))
        except EncodeError as error:
            self._report(side, error)

    def _on_cancellation(self, side: _Side, method: str, params: Any) -> None:
        name = _ID_MEMBERS[method]
        members = decoded(params)
        if not isinstance(members, dict):
            return
        id = members.get(name)
        if type(id) is not int and type(id) is not str:
            return  # no convention cancels by another kind of id
        call = side.requests.find(id)
        if call is not None:
            self._forward(side, encode_notification(method, {**members, name: call.id}))
            if method != "$/cancelRequest" and call.method != "initialize":
                side.other.calls.give_up(call, Outcome.CANCELLED)
                self._finish(side, call.trace, b"")
            return
        # On stdio a server ends a subscription by cancelling the client's request.
        call = side.calls.find(id)
        if call is not None and call.method == LISTEN_METHOD:
            side.calls.give_up(call, Outcome.CANCELLED)
            self._forward(side, encode_notification(method, {**members, name: call.trace.id}))
            self._finish(side.other, call.trace, b"")

    def _with_subscription(self, side: _Side, payload: Any, call: Call | None = None) -> Any:
        """Return a payload of this side with its `subscriptionId` translated to the other side's id."""
        if type(payload) is Raw and b"subscriptionId" not in bytes(payload):
            return payload
        members = decoded(payload)
        meta = members.get("_meta") if isinstance(members, dict) else None
        if not isinstance(meta, dict):
            return payload
        id = meta.get(SUBSCRIPTION_ID_KEY)
        call = side.calls.find(id) if call is None else call
        if call is None or call.id != id or call.method != LISTEN_METHOD:
            return payload
        return {**members, "_meta": {**meta, SUBSCRIPTION_ID_KEY: call.trace.id}}

    def _on_malformed(self, side: _Side, fault: ParseError, batch: InboundBatch | None, index: int) -> None:
        self._report(side, fault)
        if not fault.reply_expected:
            call = None if fault.id is None else side.calls.settle(fault.id, Outcome.FAULT)
            if call is not None:
                self._send_error(side.other, call.trace, ErrorCode.INTERNAL_ERROR, _UNREADABLE)
            elif fault.id is not None:
                side.calls.is_late_response(fault.id)
        elif fault.id is not None or side.budget.take(asyncio.get_running_loop().time()):
            text = encode_error(fault.id, fault.rpc_code, RPC_MESSAGES[fault.rpc_code], delimited=batch is None)
            if batch is None:
                self._reply(side, text)
            else:
                batch.put(index, text)

    def _report(self, side: _Side, error: Exception) -> None:
        if self._on_fault is not None:
            self._on_fault(side.name, error)
        else:
            _logger.debug("%s: %s: %s", side.name, type(error).__qualname__, error)

    def _send_error(self, side: _Side, route: _Route, code: int, message: str) -> None:
        """Send an error response to a request of this side."""
        self._finish(side, route, encode_error(route.id, code, message, UNSET, delimited=route.batch is None))

    def _finish(self, side: _Side, route: _Route, data: bytes) -> None:
        """End a request of this side and send its response; with b"" it gets none."""
        if side.requests.end(route.id):
            side.waiting -= not route.is_subscription
        self._forward(side.other, data if route.batch is None else route.batch.finish(route.index, data))
        if self._ending is not None and not side.can_respond and not side.waiting:
            self._begin_closing()

    def _forward(self, side: _Side, data: bytes) -> bool:
        """Send to the other side what this side caused. Returns False if the other side is closed."""
        return self._send(side.other, data, because_of=side)

    def _reply(self, side: _Side, data: bytes) -> None:
        """Send to this side what it caused itself."""
        self._send(side, data, because_of=side)

    def _send(self, side: _Side, data: bytes, because_of: _Side) -> bool:
        if not data:
            return True
        transport = side.transport
        try:
            transport.send(data)
        except (ConnectionLost, StateError):
            return False  # onclose follows
        if transport.write_buffer_bytes > HIGH_WATER_BYTES and side not in because_of.drains:
            because_of.transport.pause_reading()
            because_of.drains[side] = asyncio.get_running_loop().create_task(self._drain(side, because_of))
        return True

    async def _drain(self, side: _Side, because_of: _Side) -> None:
        unwritten = side.transport.write_buffer_bytes
        try:
            with suppress(ConnectionLost, StateError):
                while not await _is_drained(side.transport):
                    before, unwritten = unwritten, side.transport.write_buffer_bytes
                    if unwritten >= before:
                        self._report(side, ConnectionLost("the side takes nothing"))
                        await side.transport.disconnect()
                        break
        finally:
            del because_of.drains[side]
            if not because_of.drains:
                because_of.transport.resume_reading()


async def _is_drained(transport: Transport) -> bool:
    """Wait until a transport has drained, or for as long as its peer may take nothing."""
    try:
        await asyncio.wait_for(transport.drain(), TIMEOUT_SECONDS)
    except asyncio.TimeoutError:
        return False
    return True
