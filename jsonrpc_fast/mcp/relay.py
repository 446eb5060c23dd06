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
    id is in flight on the same side is refused with -32600; the first request continues.
  - Ids inside params are translated too: `notifications/cancelled` of MCP, `$/cancelRequest` of LSP, and the
    `subscriptionId` of MCP 2026-07-28. A cancellation that arrives after the response is dropped. After MCP's
    cancellation the request gets no response, after LSP's it does.
  - Progress tokens are not changed: only the side that made them reads them.
  - A batch is split, since the other side may not support batches. Its responses are sent as one array.
  - A malformed message is never forwarded. It gets an error response if its id is known; otherwise `response_policy`
    decides. A malformed response gets none: the request it belongs to gets the error -32603. Where that is not certain,
    as for input that is not JSON because of a NaN, the request keeps waiting: the input may be a line of a log.
  - Reading from a side pauses while the write buffer of the other side is full, or its own is full of error responses.
    The end of that side is not noticed meanwhile, so a side that reads no byte for 300 seconds is disconnected.
  - Over HTTP a single request may fail: it gets the error -32000 with the reason in one sentence.
  - When one side is lost, the requests that wait for it get the error -32000, and the other side is closed once these
    are written. A side that half-closes still gets its responses first, except those that end subscriptions.

Each side has an `Engine` (session/engine.py), whose only handler calls the other side. It returns the call of the other
engine in place of an awaitable, so no task is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, NoReturn, Self, cast

from .._logs import logger_of
from ..codec import ParseError, Raw, encode_notification
from ..codec._backend import decoded
from ..codes import RPC_MESSAGES, ErrorCode
from ..errors import CallTimeout, ConnectionLost, HttpStatusError, InvalidResponse, RpcError, StateError
from ..handlers.failures import on_failure
from ..hooks import Outcome
from ..session.budget import ResponseBudget, ResponsePolicy
from ..session.calls import Call
from ..session.conventions import Convention
from ..session.driver import Driver
from ..session.engine import Engine
from ..session.requests import Destination, InboundRequest
from ..session.room import Bounds
from ..session.running import Run
from ..transports.channel import HIGH_WATER_BYTES
from ..transports.protocol import Received, Transport
from ..types import TIMEOUT_SECONDS, UNSET, MessageId, Unset
from .protocol.meta import LISTEN_METHOD, SUBSCRIPTION_ID_KEY, method_not_found
from .session import SingleHandler

SideName = Literal["left", "right"]

RELAY_ERROR: Final = -32000
"""The code of the relay's own errors: the other side is closed, or too many requests wait for it."""

_CLOSED: Final = "the connection to the other side is closed"
_TOO_MANY: Final = "too many requests wait for the other side"
_FAILED: Final = "the request could not be sent to the other side"
_UNREADABLE: Final = "the other side sent an invalid response"
_ID_MEMBERS: Final = {"notifications/cancelled": "requestId", "$/cancelRequest": "id"}
_WITHOUT_SUBSCRIPTION: Final = frozenset({"notifications/message", "notifications/progress"})
_LOCAL_ERRORS: Final = (CallTimeout, ConnectionLost, HttpStatusError, InvalidResponse)
_UNBOUNDED: Final = Bounds(max_handlers=2**62, max_inbox=2**62, inbox_bytes=2**62, response_bytes=2**62)
"""`max_calls` and the pauses of reading are the bounds of a relay."""

_logger: Final = logger_of("relay")


class _Forwarded:
    """A request of one side that was sent to the other. The engine treats it as an awaitable, but it is never awaited.

    Attributes:
        side: The side that sent the request.
        request: The request.
        call: The call to the other side that passes it on.
        run: The run of the engine, which ends when the call has settled.
    """

    __slots__ = ("call", "request", "run", "side")
    call: Call
    run: Run

    def __init__(self, side: _Side, request: InboundRequest) -> None:
        self.side = side
        self.request = request

    def __await__(self) -> NoReturn:
        raise NotImplementedError

    def cancel(self) -> None:
        """Do nothing: the engine calls this when the side is lost, and the call is then no longer awaited."""


class _Side(Driver):
    """One of the two peers, and the driver of its engine.

    Attributes:
        engine: Receives from the peer, and calls it.
        drains: The sides whose write buffers must drain before this side is read again.
    """

    other: _Side
    closed: asyncio.Future[None]

    def __init__(
        self,
        relay: Relay,
        name: SideName,
        transport: Transport,
        max_calls: int,
        response_policy: ResponsePolicy | ResponseBudget,
    ) -> None:
        self.name = name
        self.transport = transport
        # Bound once: it is called for each message.
        self.write = transport.send  # type: ignore[method-assign]
        self.drains: dict[_Side, asyncio.Task[None]] = {}
        self._relay = relay
        # There are two reasons to pause reading, each with its own flag: reading continues when neither applies.
        self._is_in_batch = False
        self.engine = Engine(
            self,
            SingleHandler(self._serve),
            # Set later, because the relay is made before its loop runs.
            clock=lambda: asyncio.get_running_loop().time(),
            hooks=self,
            make_context=cast("Any", lambda method, request, _: (method, request)),
            bounds=_UNBOUNDED,
            # The relay translates cancellations itself, because their ids are those of the other side.
            convention=Convention(),
            response_policy=response_policy,
            max_calls=max_calls,
        )

    def fault(self, error: BaseException) -> None:
        """Report a fault of this side. The hook of the engine."""
        self._relay.report(self.name, error)

    @property
    def has_waiting(self) -> bool:
        """Whether the peer waits for a response, other than that of a subscription."""
        return any(request.method != LISTEN_METHOD for request in self.engine.requests.serving.values())

    # The driver.

    def soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self.engine.turn()
        self.hold_back()

    def start(self, run: Run) -> None:
        forwarded = cast("_Forwarded", run.work)
        forwarded.run = run
        # The engine cancels `run.task` when the side is lost.
        run.task = forwarded

    def settled(self, call: Call, result: Any, error: Exception | None) -> None:
        forwarded: _Forwarded = call.waiter
        engine, run = forwarded.side.engine, forwarded.run
        if error is None:
            self._relay.on_response(self.name, call.method, result)
            if call.method == LISTEN_METHOD:
                # The result of a subscription names it by the id of its request.
                result = self._with_subscription(result, call)
            engine.succeeded(run, result)
        elif call.outcome is Outcome.CANCELLED:
            # The convention of the side decides whether the request still gets a response: after MCP's cancellation it
            # does not.
            forwarded.request.is_cancelled = True
            engine.cancelled(run)
        else:
            engine.failed(run, self._response_to(error, call.outcome))
        self._relay._end_if_served(forwarded.side)

    def _response_to(self, error: Exception, outcome: Outcome | None) -> RpcError:
        if isinstance(error, RpcError):
            return error
        if outcome is Outcome.LOST:
            return RpcError(RELAY_ERROR, _CLOSED)
        if isinstance(error, InvalidResponse) and isinstance(fault := error.__cause__, ParseError):
            self.fault(fault)
            return RpcError(ErrorCode.INTERNAL_ERROR, f"{_UNREADABLE}: {fault}")
        return RpcError(RELAY_ERROR, str(error) if isinstance(error, _LOCAL_ERRORS) else _FAILED)

    def set_reading(self, wanted: bool) -> None:
        self._is_in_batch = not wanted
        self._update_reading()

    # Receiving.

    def receive(self, message: Received | ParseError, destination: Destination | None = None) -> None:
        """Handle a message of the peer."""
        self.engine.receive(message, destination)
        self.hold_back()

    def on_error(self, error: Exception) -> None:
        """Handle a fault of the transport."""
        if isinstance(error, ParseError):
            self.receive(error)
        else:
            self.fault(error)

    def on_fail(self, id: MessageId, error: Exception) -> None:
        """End a request to this side with an error, because this side cannot serve it."""
        self.fault(error)
        self.engine.fail(id, error)

    def _serve(self, params: Any, context: tuple[str, InboundRequest | None]) -> _Forwarded | None:
        """Pass on a request or a notification."""
        method, request = context
        if request is None:
            self._pass_notification(method, params)
            return None
        if not method:
            self.fault(ParseError.empty_method(request.id))
            raise RpcError(ErrorCode.INVALID_REQUEST, RPC_MESSAGES[ErrorCode.INVALID_REQUEST])
        engine = self.other.engine
        # Over HTTP the other side may have no stream that this request could go to.
        destination = self._relay.destination_of(self.name, method, params, request.id)
        if isinstance(destination, Unset):
            raise method_not_found()
        # Refused, not queued: neither side would bound the memory of messages that wait here.
        if not engine.calls.has_room():
            raise RpcError(RELAY_ERROR, _TOO_MANY)
        forwarded = _Forwarded(self, request)
        try:
            forwarded.call = engine.call(method, params, destination=destination, waiter=forwarded)
        except (ConnectionLost, StateError):
            raise RpcError(RELAY_ERROR, _CLOSED) from None
        return forwarded

    def _pass_notification(self, method: str, params: Any) -> None:
        if not method:
            self.fault(ParseError.empty_method(reply_expected=False))
        elif method in _ID_MEMBERS:
            self._pass_cancellation(method, params)
        else:
            if method.startswith("notifications/") and method not in _WITHOUT_SUBSCRIPTION:
                params = self._with_subscription(params)
            self._notify(method, params)

    def _notify(self, method: str, params: Any) -> None:
        """Send a notification to the other side, which may still read although it has ended its stream."""
        destination = self._relay.destination_of(self.name, method, params, UNSET)
        if not isinstance(destination, Unset):
            self.other.engine.send(encode_notification(method, params), destination)

    def _pass_cancellation(self, method: str, params: Any) -> None:
        name = _ID_MEMBERS[method]
        members = decoded(params)
        if not isinstance(members, dict):
            return
        id = members.get(name)
        if type(id) is not int and type(id) is not str:
            return  # no convention cancels by any other type of id
        request = self.engine.requests.find(id)
        if request is not None:
            call: Call = request.run.work.call
            self._notify(method, {**members, name: call.id})
            # After MCP's cancellation the other side sends no response. After LSP's it does, so that call stays in
            # flight.
            if method != "$/cancelRequest" and call.method != "initialize":
                self.other.engine.cancel(call)
            return
        # On stdio a server ends a subscription by cancelling the client's request.
        subscription = self.engine.calls.find(id)
        if subscription is not None and subscription.method == LISTEN_METHOD:
            self._notify(method, {**members, name: subscription.waiter.request.id})
            self.engine.cancel(subscription)

    def _with_subscription(self, payload: Any, call: Call | None = None) -> Any:
        """Return a payload of this side with its `subscriptionId` translated to the other side's id."""
        # Usual payloads are passed on without being decoded.
        if type(payload) is Raw and b"subscriptionId" not in bytes(payload):
            return payload
        members = decoded(payload)
        meta = members.get("_meta") if isinstance(members, dict) else None
        if not isinstance(meta, dict):
            return payload
        id = meta.get(SUBSCRIPTION_ID_KEY)
        call = self.engine.calls.find(id) if call is None else call
        if call is None or call.id != id or call.method != LISTEN_METHOD:
            return payload
        return {**members, "_meta": {**meta, SUBSCRIPTION_ID_KEY: call.waiter.request.id}}

    # The end.

    def lose_calls(self) -> None:
        """End the requests that wait for this side with an error: it sends no more responses."""
        # The rest of the batch will not come: send the responses that have arrived.
        self.engine.finish_batch()
        self.engine.lose_calls()

    def lose(self) -> None:
        """Forget everything: the transport is closed."""
        self.engine.lose()
        for drained in self.drains.values():
            drained.cancel()
        if not self.closed.done():
            self.closed.set_result(None)

    # Flow control.

    def hold_back(self) -> None:
        """Stop reading this side while a side has not taken the messages that this side caused."""
        for side in (self, self.other):
            # Both sides: a message may fill the buffer of the other side, or the buffer of its sender by refusals.
            if side.transport.write_buffer_bytes > HIGH_WATER_BYTES and side not in self.drains:
                self.drains[side] = asyncio.get_running_loop().create_task(self._drain(side))
                self._update_reading()

    def _update_reading(self) -> None:
        if self.drains or self._is_in_batch:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    async def _drain(self, side: _Side) -> None:
        unwritten = side.transport.write_buffer_bytes
        try:
            with suppress(ConnectionLost, StateError):
                while not await _is_drained(side.transport):
                    before, unwritten = unwritten, side.transport.write_buffer_bytes
                    # Only a peer whose buffer has not shrunk during the whole time is disconnected, not a slow one that
                    # still reads.
                    if unwritten >= before:
                        side.fault(ConnectionLost("the side takes nothing"))
                        await side.transport.disconnect()
                        break
        finally:
            del self.drains[side]
            self._update_reading()


class FaultLog:
    """An `on_fault` that logs the faults of a client on the left and of a server on the right, for programs.

    A side can cause any number of faults. So at most ten are logged at once, then one each second, with the number of
    faults that were left out before it.
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
        right: The other one, made in the same way. Both sides are treated alike.
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
        self._left = _Side(self, "left", left, max_calls, response_policy)
        self._right = _Side(self, "right", right, max_calls, response_policy)
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
            raise StateError("the relay was already started")
        self._loop = asyncio.get_running_loop()
        sides = (self._left, self._right)
        for side in sides:
            transport = side.transport
            side.closed = self._loop.create_future()
            transport.onmessage = side.receive
            transport.onerror = side.on_error
            transport.onclose = partial(self._on_close, side)
            transport.onend = partial(self._on_end, side)
            transport.onfail = side.on_fail
            # The relay pauses reading itself, for the buffers of both sides.
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
            # The caller does not wait: unwritten data is dropped.
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

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def has_all_responses(self) -> bool:
        """Whether every request has its response from the right side; False after a cancelled request."""
        return not self._right.engine.calls.is_owed

    def _begin_closing(self) -> None:
        if self._closer is not None or self._loop is None:
            return
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        self._left.lose_calls()
        self._right.lose_calls()
        # Both sides at once: each has responses to write, and neither should wait for a slow peer of the other.
        self._closer = self._loop.create_task(self._close())

    async def _close(self) -> None:
        await asyncio.gather(self._left.transport.close(), self._right.transport.close())

    def _on_close(self, side: _Side) -> None:
        side.lose()
        self._begin_closing()

    def _on_end(self, side: _Side) -> None:
        side.lose_calls()
        # A peer that has ended its stream may still read: it gets the responses that it waits for.
        if not side.has_waiting:
            self._begin_closing()
        elif self._closer is None and self._ending is None and self._loop is not None:
            self._ending = self._loop.call_later(self._close_seconds, self._begin_closing)

    def _end_if_served(self, side: _Side) -> None:
        """Close if a half-closed side has all its responses. The sides call this."""
        if self._ending is not None and not side.engine.may_call and not side.has_waiting:
            self._begin_closing()

    def report(self, side: SideName, error: BaseException) -> None:
        """Report a fault. The sides call this."""
        if self._on_fault is not None:
            self._on_fault(side, cast("Exception", error))
        else:
            _logger.debug("%s: %s: %s", side, type(error).__qualname__, error)

    # Relays whose transports have a destination for each request override these.

    def destination_of(
        self, side: SideName, method: str, params: Any, id: MessageId | Unset
    ) -> Destination | Unset | None:
        """Return the destination, at the other side, of a request; or of a notification, with UNSET as the id.

        None: the stream. UNSET: there is no destination; a request gets the error -32601.
        """
        return None

    def on_response(self, side: SideName, method: str, result: Any) -> None:
        """Called with each result that a side has sent, before it is passed on."""


async def _is_drained(transport: Transport) -> bool:
    """Wait until a transport has drained, or until its peer has read nothing for too long."""
    try:
        await asyncio.wait_for(transport.drain(), TIMEOUT_SECONDS)
    except TimeoutError:
        return False
    return True
