"""A relay between two peers: what one sends reaches the other, checked, and with its payload as the bytes it came in.

    left = StdioServer(profile=MCP_2025_11_25, raw=True)
    right = StdioClient(["server"], profile=MCP_2025_11_25, raw=True)
    async with Relay(left, right) as relay:
        await relay.wait_closed()

Rules:
  - a message passes when its transport could decode it. Make both transports with `raw=True`: then params, results
    and error data are checked and passed on verbatim. Without `raw` they are decoded and written again;
  - the envelope is written anew: members that JSON-RPC does not name stay behind;
  - each request gets an id of the relay's own on its way, and its answer the id that it came with, of the same type.
    An id that is in flight from the same side is refused with -32600, and the first request goes on;
  - what names a request by its id is given the id of the other side: `notifications/cancelled` of MCP,
    `$/cancelRequest` of LSP, and the `subscriptionId` of MCP 2026-07-28. A cancellation that comes after the answer
    ends here. A request that MCP cancelled is forgotten, and a late answer to it dropped; LSP's are still answered;
  - progress tokens are passed as they are: the one side makes them, the other side uses them, and nobody else does;
  - a batch is taken apart, for the other side may know no batches, and is answered by one array;
  - a faulty message is never passed on. It is answered when its id is known, else as `reply_policy` says. What looks
    like an answer is never answered; when it has the id of a request in flight, that one is answered with -32603;
  - reading from one side rests while the other one's write buffer is full, and while its own one is full of errors that
    the relay itself answers with;
  - when one side is lost, what the other one still waits for is answered with -32000, and the other one is closed once
    that is written. When one side ends its stream, but still reads, it gets the answers that it waits for first, all
    but those of subscriptions.

It uses the tracker of the sessions, but is on asyncio itself: a session would decode what is only to pass.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal

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
from ..codes import RPC_MESSAGES, ErrorCode
from ..errors import ConnectionLost, EncodeError, StateError
from ..session.budget import ReplyBudget, ReplyPolicy, budget_for
from ..session.events import InboundBatch
from ..session.tracker import Call, Outcome, Serving, Tracker
from ..transports.base import HIGH_WATER_BYTES, Received, Transport
from ..types import UNSET
from .protocol.meta import LISTEN_METHOD, SUBSCRIPTION_ID_KEY

if TYPE_CHECKING:
    from typing_extensions import Self

SideName = Literal["left", "right"]

RELAY_ERROR: Final = -32000
"""The code of an answer that the relay itself gives: the other side is gone, or too many requests wait for it."""

_CLOSED: Final = "the connection to the other side is closed"
_TOO_MANY: Final = "too many requests wait for the other side"
_UNREADABLE: Final = "the answer of the other side broke a rule of the protocol"
_ID_MEMBERS: Final = {"notifications/cancelled": "requestId", "$/cancelRequest": "id"}
_WITHOUT_SUBSCRIPTION: Final = frozenset({"notifications/message", "notifications/progress"})

_logger: Final = logging.getLogger("jsonrpc_fast.relay")


class _Route:
    """Where the answer to a request has to go.

    id, index        those it came with; index: in its batch
    batch            the batch it came in, or None
    is_subscription  it is answered when somebody ends it, and not waited for
    """

    __slots__ = ("batch", "id", "index", "is_subscription")

    def __init__(self, request: Request, batch: InboundBatch | None, index: int) -> None:
        self.id = request.id
        self.batch = batch
        self.index = index
        self.is_subscription = request.method == LISTEN_METHOD


class _Side:
    """One of both peers.

    calls    the requests that it has to answer, by the ids that the relay gave them; `Call.trace` is the `_Route`
    asking   the calls that its own requests became on the other side, by the ids it gave them
    waiting  how many of those it waits for
    """

    def __init__(self, name: SideName, transport: Transport, max_pending: int, reply_policy: ReplyPolicy | ReplyBudget):
        self.name = name
        self.transport = transport
        self.calls = Tracker(max_pending=max_pending)
        self.asking: Serving[Call] = Serving()
        self.waiting = 0
        self.budget = budget_for(reply_policy)
        self.other: _Side
        self.answers = True  # it may still: its stream has not ended
        self.closed: asyncio.Future[None]
        self.waits_for: dict[_Side, asyncio.Task[None]] = {}  # for their write buffers, before it is read again


class Relay:
    """Passes messages between two transports, which it starts and closes.

    left, right    not started yet, made with `raw=True`; it makes no difference which is which
    reply_policy   whether unreadable messages without an id are answered: "always", "never", "limited", a `ReplyBudget`
    max_pending    requests that wait for one side. The next one is answered with -32000
    close_seconds  how long a side that has ended its stream is given for the answers that it still waits for
    on_fault       called with "left" or "right" and what was wrong there: a ParseError, a StateError for an answer to
                   no request or an id in flight, an EncodeError, an OSError of the channel. Without it they are logged
                   for debugging
    """

    def __init__(
        self,
        left: Transport,
        right: Transport,
        *,
        reply_policy: ReplyPolicy | ReplyBudget = "never",
        max_pending: int = 10_000,
        close_seconds: float = 5.0,
        on_fault: Callable[[SideName, Exception], object] | None = None,
    ) -> None:
        self._left = _Side("left", left, max_pending, reply_policy)
        self._right = _Side("right", right, max_pending, reply_policy)
        self._left.other, self._right.other = self._right, self._left
        self._close_seconds = close_seconds
        self._on_fault = on_fault
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closer: asyncio.Task[None] | None = None
        self._ending: asyncio.TimerHandle | None = None

    # The life of a relay.

    async def start(self) -> None:
        """Connects and starts both transports. Raises StateError the second time, and what they raise."""
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
            if hasattr(transport, "onend"):
                transport.onend = partial(self._on_end, side)
            transport.pauses_when_blocked = False
        try:
            # What one of them delivers has to find the other one connected.
            for side in sides:
                if not side.transport.is_connected:
                    await side.transport.connect()
            for side in sides:
                await side.transport.start()
        except BaseException:
            for side in sides:
                await side.transport.disconnect()
            if self._closer is not None:
                await self._closer
            raise

    async def close(self) -> None:
        """Answers with -32000 what is still in flight, and closes both transports once what they accepted is written.

        A second call waits for the first. One that is cancelled drops what is not yet written.
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
        """Waits until both sides are closed, whoever closed them. Raises StateError before `start`."""
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
        side.asking.clear()
        for drained in side.waits_for.values():
            drained.cancel()
        if not side.closed.done():
            side.closed.set_result(None)
        self._begin_closing()

    def _on_end(self, side: _Side) -> None:
        self._lose(side)
        if not side.waiting:
            self._begin_closing()
        elif self._closer is None and self._ending is None and self._loop is not None:
            self._ending = self._loop.call_later(self._close_seconds, self._begin_closing)

    def _lose(self, side: _Side) -> None:
        """No answer can come from this side any more."""
        side.answers = False
        for call in side.calls.lose():
            self._answer(side.other, call.trace, RELAY_ERROR, _CLOSED)

    # What comes.

    def _on_message(self, side: _Side, message: Received) -> None:
        if type(message) is list:
            # One more than there are: it waits with the requests until all of them are on their way.
            batch = InboundBatch(len(message) + 1)
            batch.wait()
            for index, item in enumerate(message):
                self._take(side, item, batch, index)
            self._reply(side, batch.finish(len(message), b""))
        else:
            self._take(side, message, None, 0)

    def _on_error(self, side: _Side, error: Exception) -> None:
        if isinstance(error, ParseError):
            self._take_fault(side, error, None, 0)
        else:
            self._fault(side, error)

    def _take(self, side: _Side, message: Any, batch: InboundBatch | None, index: int) -> None:
        kind = type(message)
        if kind is Request:
            self._take_request(side, message, _Route(message, batch, index))
        elif kind is Response:
            self._take_response(side, message)
        elif kind is Notification:
            self._take_notification(side, message)
        else:
            self._take_fault(side, message, batch, index)

    def _take_request(self, side: _Side, request: Request, route: _Route) -> None:
        other = side.other
        refusal: tuple[int, str]
        try:
            if not request.method:
                raise ParseError.empty_method(request.id)
            if side.asking.find(request.id) is not None:
                raise StateError("the peer used an id that is in flight")
        except (ParseError, StateError) as error:
            refusal = ErrorCode.INVALID_REQUEST, RPC_MESSAGES[ErrorCode.INVALID_REQUEST]
            self._fault(side, error)
        else:
            if not other.answers:
                refusal = RELAY_ERROR, _CLOSED
            elif not other.calls.has_room():
                refusal = RELAY_ERROR, _TOO_MANY
            else:
                call = other.calls.begin(request.method, 0.0)
                call.trace = route
                side.asking.begin(request.id, call)
                side.waiting += not route.is_subscription
                if route.batch is not None:
                    route.batch.wait()
                self._pass_request(side, call, request)
                return
        text = encode_error(request.id, *refusal, delimited=route.batch is None)
        if route.batch is None:
            self._reply(side, text)
        else:
            route.batch.put(route.index, text)

    def _pass_request(self, side: _Side, call: Call, request: Request) -> None:
        try:
            is_sent = self._pass(side, encode_request(call.id, call.method, request.params))
        except EncodeError as error:
            self._fault(side, error)
            refusal = int(ErrorCode.INTERNAL_ERROR), RPC_MESSAGES[ErrorCode.INTERNAL_ERROR]
        else:
            if is_sent:
                return
            refusal = RELAY_ERROR, _CLOSED
        side.other.calls.settle(call.id, Outcome.LOST)
        self._answer(side, call.trace, *refusal)

    def _take_response(self, side: _Side, response: Response) -> None:
        error = response.error
        call = side.calls.settle(response.id, Outcome.RESULT if error is None else Outcome.ERROR)
        if call is None:
            if not side.calls.is_late_answer(response.id):
                self._fault(side, StateError("the peer answered no request that is in flight"))
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
            self._fault(side, fault)
            self._answer(side.other, route, ErrorCode.INTERNAL_ERROR, _UNREADABLE)
        else:
            self._finish(side.other, route, text)

    def _take_notification(self, side: _Side, notification: Notification) -> None:
        method, params = notification.method, notification.params
        if not method:
            self._fault(side, ParseError.empty_method(reply_expected=False))
            return
        try:
            if method in _ID_MEMBERS:
                self._take_cancellation(side, method, params)
                return
            if method.startswith("notifications/") and method not in _WITHOUT_SUBSCRIPTION:
                params = self._with_subscription(side, params)
            self._pass(side, encode_notification(method, params))
        except EncodeError as error:
            self._fault(side, error)

    def _take_cancellation(self, side: _Side, method: str, params: Any) -> None:
        name = _ID_MEMBERS[method]
        members = params.decode() if type(params) is Raw else params
        if not isinstance(members, dict):
            return
        id = members.get(name)
        if type(id) is not int and type(id) is not str:
            return  # of no request that a convention could cancel
        call = side.asking.find(id)
        if call is not None:
            self._pass(side, encode_notification(method, {**members, name: call.id}))
            if method != "$/cancelRequest" and call.method != "initialize":
                side.other.calls.give_up(call, Outcome.CANCELLED)
                self._finish(side, call.trace, b"")
            return
        # On stdio a server ends a subscription, the one kind of request that it cancels instead of the client.
        call = side.calls.find(id)
        if call is not None and call.method == LISTEN_METHOD:
            side.calls.give_up(call, Outcome.CANCELLED)
            self._pass(side, encode_notification(method, {**members, name: call.trace.id}))
            self._finish(side.other, call.trace, b"")

    def _with_subscription(self, side: _Side, payload: Any, call: Call | None = None) -> Any:
        """A payload whose `subscriptionId`, the id of a request to this side, is the one the other side gave it."""
        members = payload
        if type(payload) is Raw:
            if b"subscriptionId" not in bytes(payload):
                return payload
            members = payload.decode()
        meta = members.get("_meta") if isinstance(members, dict) else None
        if not isinstance(meta, dict):
            return payload
        id = meta.get(SUBSCRIPTION_ID_KEY)
        call = side.calls.find(id) if call is None else call
        if call is None or call.id != id or call.method != LISTEN_METHOD:
            return payload
        return {**members, "_meta": {**meta, SUBSCRIPTION_ID_KEY: call.trace.id}}

    def _take_fault(self, side: _Side, fault: ParseError, batch: InboundBatch | None, index: int) -> None:
        self._fault(side, fault)
        if not fault.reply_expected:
            call = None if fault.id is None else side.calls.settle(fault.id, Outcome.FAULT)
            if call is not None:
                self._answer(side.other, call.trace, ErrorCode.INTERNAL_ERROR, _UNREADABLE)
            elif fault.id is not None:
                side.calls.is_late_answer(fault.id)
        elif fault.id is not None or side.budget.take(asyncio.get_running_loop().time()):
            text = encode_error(fault.id, fault.rpc_code, RPC_MESSAGES[fault.rpc_code], delimited=batch is None)
            if batch is None:
                self._reply(side, text)
            else:
                batch.put(index, text)

    def _fault(self, side: _Side, error: Exception) -> None:
        if self._on_fault is not None:
            self._on_fault(side.name, error)
        else:
            _logger.debug("%s: %s: %s", side.name, type(error).__qualname__, error)

    # What goes.

    def _answer(self, side: _Side, route: _Route, code: int, message: str) -> None:
        """Answers a request of this side with an error of the relay's own."""
        self._finish(side, route, encode_error(route.id, code, message, UNSET, delimited=route.batch is None))

    def _finish(self, side: _Side, route: _Route, text: bytes) -> None:
        """Sends the answer to a request of this side; b"" is none."""
        if side.asking.end(route.id):
            side.waiting -= not route.is_subscription
        self._pass(side.other, text if route.batch is None else route.batch.finish(route.index, text))
        if self._ending is not None and not side.answers and not side.waiting:
            self._begin_closing()

    def _pass(self, side: _Side, text: bytes) -> bool:
        """Sends to the other side what this one caused. False when it cannot be sent any more."""
        return self._send(side.other, text, because_of=side)

    def _reply(self, side: _Side, text: bytes) -> None:
        """Sends to this side what it caused itself."""
        self._send(side, text, because_of=side)

    def _send(self, side: _Side, text: bytes, because_of: _Side) -> bool:
        if not text:
            return True
        transport = side.transport
        try:
            transport.send(text)
        except (ConnectionLost, StateError):
            return False  # the channel tells so by itself, through onclose
        if transport.write_buffer_bytes > HIGH_WATER_BYTES and side not in because_of.waits_for:
            because_of.transport.pause_reading()
            because_of.waits_for[side] = asyncio.get_running_loop().create_task(self._drain(side, because_of))
        return True

    async def _drain(self, side: _Side, because_of: _Side) -> None:
        try:
            with suppress(ConnectionLost, StateError):
                await side.transport.drain()
        finally:
            del because_of.waits_for[side]
            if not because_of.waits_for:
                because_of.transport.resume_reading()
