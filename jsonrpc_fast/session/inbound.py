"""Serving: calls functions, queues messages that must wait, refuses those beyond its bounds, and writes the responses.

Words: a *slot* lets an async handler run, the *queue* holds what has not begun, and the *write credit* is how much may
be written until the unwritten bytes have to be counted again.

Order:
  - Messages begin in the order of arrival. A sync function is called when its message is read. A coroutine needs one of
    `max_handlers` slots, or waits for it in the queue. Any other awaitable, such as a future, is already running and
    needs no slot.
  - A handler that waits for a call, of this or another session, holds no slot: the peer may call another method before
    it responds. When such handlers continue, more than `max_handlers` may run for a while.
  - What arrived after a message whose method is ordered does not begin before its handler has ended, and nothing begins
    while more than `response_bytes` are unwritten. It waits in the queue, and what arrives then waits behind it. A
    handler that closes the session delays no other message.
  - Pings of the convention are outside this order, because their response says that this side is alive, not that it
    has served the messages before.
  - A request whose function returns at once is not registered as being served: nothing can arrive meanwhile. Batches,
    hooks, ordered methods and functions that take the context need the registration first.

Bounds:
  - The queue and the handlers that wait for the peer are at most `max_inbox` messages, and so are the handlers that
    need no slot. All of these take at most `inbox_bytes` of memory. Beyond that a request is refused (SERVER_BUSY), and
    a notification is dropped and reported as a fault. What need not wait is always served.

Reading:
  - Responses and cancellations are always read, so a handler that waits for one can always continue.
  - What was decoded is received by the same rule as bytes are read: not while the queue is full because the peer does
    not read (`Flow`), or while the consumer of a stream (streams.py) is behind and this side waits for nothing else. It
    waits in `late`. Behind a large batch, or AHEAD_ITEMS messages, nothing is read.

Outcomes:
  - A batch gets one array of responses after the last of its requests, and none if it contains no requests (section 6).
  - An RpcError that a handler raises is the response. Any other exception except KeyboardInterrupt, and a result that
    cannot be encoded, becomes -32603 without details, and is reported as a fault on this side.
  - The convention says what a cancelled request gets, after its handler has ended; at once if it has not begun. A
    handler that this side cancelled, for example because the loop ends, has not failed: the response is -32603. If the
    session ends, only a request with a destination of its own, such as an HTTP response, gets that.
  - A request that has not begun when the session ends is refused (SERVER_BUSY), and is not a dropped request.
  - A request that is no longer registered, because the connection is lost, and a notification get no response.
"""

from __future__ import annotations

import contextvars
import sys
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from contextvars import Context
from enum import Enum, IntEnum
from functools import partial
from itertools import chain, repeat
from math import inf
from sys import getsizeof
from types import CoroutineType
from typing import Any, Final

from ..codec import Notification, Raw, Request
from ..codec._backend import PlainServer, decoded
from ..codes import RPC_MESSAGES, ErrorCode, SessionErrorCode
from ..errors import ConnectionLost, EncodeError, RpcError, StateError, run_callback
from ..handlers import Handler, Handlers, is_awaitable
from ..handlers.awaiting import discard
from ..handlers.results import encode_models, response_to_error, response_to_failure, unwritable
from ..hooks import Outcome
from ..support import HANDLER_FAILURES, cancelled_errors, is_foreign_cancellation, is_future
from ..types import NEVER_AWAITABLE, UNSET, MessageId, Unset
from .conventions import ProgressToken
from .driver import Driver
from .options import Rules
from .requests import Destination, InboundBatch, InboundRequest, Item, Run, Trace, current_run, detached, id_in_flight

AHEAD_ITEMS: Final = 256
"""How many messages are read, at most, before those that a turn had no time for have begun."""
PAUSE_SECONDS: Final = 0.5
"""Seconds for which reading pauses for a peer that reads nothing."""
STALL_SECONDS: Final = 30.0
"""Seconds after which a peer that reads none of its refusals is no longer read, and then given up."""

_REFUSAL_FACTOR: Final = 16
"""Beyond this multiple of `response_bytes` in refusals and error responses, reading stops until the peer reads."""

_CONTAINER_BYTES: Final = 64  # of an empty container, where `getsizeof` does not know it: on PyPy

# Looked up once: access to enum members is slow.
_RESULT: Final = Outcome.RESULT

_NOTHING: Final[OrderedDict[Run, None]] = OrderedDict()
"""The queue of a session in which nothing has waited: most never need more."""


class Phase(IntEnum):
    """How far the end of a conversation has come."""

    OPEN = 0
    ENDED = 1  # the peer has ended its stream: what it sent before is served
    DRAINING = 2  # new requests are refused
    CUT_OFF = 3  # all handlers were cancelled, and get no response
    LOST = 4  # nothing more is received


class Flow(Enum):
    """How the stream is read, by what the peer does.

    From READS to RESTS when the queue is full. When that lasts, to STALLS if the peer reads nothing and this side waits
    for no response; otherwise to REFUSES, because the peer may have stopped for the same reason, or what runs may wait
    for a message. From REFUSES to STALLS when too many refusals are unread, or by the same rule. If a peer in STALLS
    reads nothing for STALL_SECONDS, it is given up: two ends that do this to each other would wait forever. When it has
    read, and half of the bounds is free, back to READS.
    """

    READS = "reads"
    RESTS = "does not read, for PAUSE_SECONDS"
    REFUSES = "reads, and refuses what is beyond the bounds"
    STALLS = "does not read, and ends the connection at last"


class Serving(PlainServer):
    """Serves the messages of one conversation: the half of an `Engine` that the peer calls.

    Args:
        driver: Carries out the decisions.
        handlers: The functions by method.
        rules: The rules.

    Attributes:
        requests: The requests that are being served, by `InboundRequest.key`; read-only for others.
        runs: The handlers that have begun and not ended; read-only for others.
        queue: What has not begun. A run without `work` waits for its turn; behind it, all do. Others wait for slots.
        running: The number of handlers that have a slot.
        slotless: The number of handlers that need no slot.
        waiting_bytes: The memory of what waits: the queue, and the handlers without a slot.
        phase: How far the end has come.
        dropped_requests: The number of requests that were dropped or cut off because the session was closed.
        flow: How the stream is read.
        deadline: When to call `tick`, in seconds; infinite if there is no need.
        refused_bytes: The size of the refusals that were written since the peer has read.
        full_streams: The number of streams that take no more items.
        late: The messages that a turn had no time for, in order. The first may be a batch that is received in part.
        is_late: Whether what arrives on the stream waits behind them.
    """

    credit: int

    # Slots, because CPython gives a subclass of a C type no keys that instances share.
    __slots__ = (
        "_barrier",
        "_is_overloaded",
        "_level",
        "deadline",
        "driver",
        "dropped_requests",
        "flow",
        "full_streams",
        "is_late",
        "late",
        "phase",
        "queue",
        "refused_bytes",
        "rules",
        "running",
        "slotless",
        "waiting_bytes",
    )

    def __init__(self, driver: Driver, handlers: Handlers, rules: Rules) -> None:
        # Functions run in the context in which the session was made, and belong to no handler of another session.
        context = detached(contextvars.copy_context)
        super().__init__(handlers.finder(), rules.encode_result, context, current_run)
        self.requests: dict[Hashable, InboundRequest]
        self.driver: Driver = driver
        self.rules: Rules = rules
        # Ordered, like `runs`: handlers start, and are cancelled, in the order of arrival.
        self.queue: OrderedDict[Run, None] = _NOTHING
        self.running: int = 0
        self.slotless: int = 0
        self.waiting_bytes: int = 0
        self._is_overloaded = False  # a message was refused, and the bounds have not been half free since
        self._barrier: Run | None = None  # the ordered handler that has not ended
        self.phase: Phase = Phase.OPEN
        self.dropped_requests: int = 0
        self.flow: Flow = Flow.READS
        self.deadline: float = inf
        self._level = 0  # of the unwritten bytes without refusals, when the peer was last seen to read
        self.refused_bytes: int = 0
        self.full_streams: int = 0
        self.late: deque[Any] = ()  # type: ignore[assignment]  # most sessions never need more
        self.is_late: bool = False

    @property
    def is_draining(self) -> bool:
        """Whether new requests are refused."""
        return self.phase >= Phase.DRAINING

    @property
    def waiting_items(self) -> int:
        """The number of messages that wait: the queue, and the handlers that wait for the peer."""
        return len(self.queue) + len(self.runs) - self.running - self.slotless

    def kept_bytes(self) -> int:
        """Return the size of the messages that wait or are being served."""
        size = self.waiting_bytes
        for run in self.runs:
            if run.state == "running":
                if run.size < 0:
                    run.size = self._size_of(run.item)
                size += run.size
        return size

    @property
    def has_served(self) -> bool:
        """Whether everything that was received is served, except by handlers that close the session."""
        return not self.late and not self.queue and all(run.closes_session for run in self.runs)

    # Receiving.

    def admit(self, item: Item, destination: Destination | None) -> None:
        """Serve a message now or as soon as it may begin, or refuse it."""
        if self.credit > 0:  # then the queue is empty, and no ordered handler is running
            self._serve(item, destination)
        elif self._is_blocked() or ((self._barrier is not None or self._has_order) and not self._is_ping(item)):
            self._hold(item, destination)
        else:
            self._serve(item, destination)

    @property
    def _has_order(self) -> bool:
        """Whether a message in the queue waits for its turn, and not only for a slot."""
        return bool(self.queue) and next(reversed(self.queue)).work is None

    @property
    def _may_skip_registration(self) -> bool:
        """Whether order and hooks allow serving a request without it. Asked only if this side is not late."""
        return not (self.queue or self._barrier is not None or self.rules.is_traced or self.phase is not Phase.OPEN)

    def renew_credit(self) -> bool:
        """Let requests be served without registration, if nothing prevents it. Return whether they may be.

        Counting the unwritten bytes for each message would cost as much as serving it.
        """
        if not self._may_skip_registration:
            return False
        # The core keeps it in a C integer, but the bound of a relay is larger.
        self.credit = min(self.rules.response_bytes - self.driver.unwritten_bytes, sys.maxsize)
        return self.credit > 0

    # What a `PlainServer` calls, which calls functions without registering their requests.

    def may_start(self) -> bool:
        return not self.waiting_items and self._has_slot()

    def begin(self, message: Request, work: Awaitable[Any], context: Context) -> None:
        self._begin(Run(self, work, self._register(message, None), None, context))

    def make_run(self, work: Awaitable[Any], message: Request, context: Context) -> Run:
        run = Run(self, work, self._register(message, None), None, context)
        self._count(run)
        return run

    def ended(self, run: Run, result: Any, error: BaseException | None) -> None:
        if error is None:
            self.succeeded(run, result)
        else:
            self._fail(run, error, isinstance(error, cancelled_errors()) and not is_foreign_cancellation(error))

    def conclude(self, message: Request, handler: Handler, result: Any, error: BaseException | None) -> None:
        request = self._register(message, None)
        if error is not None:
            self._failed(request, None, handler.explained(error, message.params))
        else:
            self._succeeded(request, None, result)

    def cancel_request(self, request: InboundRequest) -> None:
        """Cancel the handler of a request, or withdraw the request if it has not begun."""
        request.is_cancelled = True
        if request.run is None:
            self._give_up(request, None)
        else:
            request.run.cancel()

    def refuse_busy(self, request: InboundRequest, trace: Trace = None) -> None:
        """Refuse a request that may be sent again later."""
        self._refuse(request, trace, RpcError(SessionErrorCode.SERVER_BUSY, "Server busy"))

    @property
    def may_receive(self) -> bool:
        """Whether more is received: the queue takes more or refuses, and the consumer of no stream is behind."""
        is_read = self.flow is Flow.READS or self.flow is Flow.REFUSES
        return is_read and not (self.full_streams and self.phase is Phase.OPEN)

    def enter_late(self) -> None:
        """Let what arrives on the stream wait."""
        if not self.late:
            self.late = deque()
        self.is_late = True
        self.credit = 0

    def be_in_time(self) -> None:
        """Let what arrives on the stream wait no longer."""
        self.is_late = False
        if not self.late:
            self.late = ()  # type: ignore[assignment]

    def update_reading(self) -> None:
        """Stop or resume reading and receiving, after a change of what decides it."""
        may_receive = self.may_receive
        if not (may_receive or self.is_late):
            self.enter_late()
        # A cancellation is read although its request waits for a later turn, unless that is in a batch.
        is_behind = self.is_late and (
            not self.rules.has_cancellations
            or len(self.late) >= AHEAD_ITEMS
            or (len(self.late) > 0 and type(self.late[0]) is InboundBatch)
        )
        self.driver.set_reading(may_receive and not is_behind and not self.full_streams)
        if may_receive and self.is_late:
            self.driver.soon()

    # The requests that are being served.

    def register(
        self, message: Request, destination: Destination | None = None, batch: InboundBatch | None = None
    ) -> InboundRequest | None:
        """Register a request. Returns None, and keeps the first request, if its id is in flight already."""
        request = InboundRequest(message, destination, batch)
        if self.rules.hooks.request_received is not None:
            request.extra = message.extra
        if self.requests.setdefault(request.key, request) is not request:
            return None
        if batch is not None:
            batch.wait()
        return request

    def _register(self, message: Request, destination: Destination | None) -> InboundRequest:
        """Register a request whose function has already been called."""
        request = self.register(message, destination)
        if request is None:
            raise id_in_flight()
        return request

    def find_request(self, id: MessageId) -> InboundRequest | None:
        """Return the request with this id that is being served, or None. Its type counts: 7, "7" and 7.0 differ."""
        kind = type(id)
        return self.requests.get(id if kind is int or kind is str else (kind, id))

    def _is_registered(self, request: InboundRequest) -> bool:
        return self.requests.get(request.key) is request

    def progress(self, request: InboundRequest, value: Any) -> bytes:
        """Return the notification that reports progress on a request; b"" if the peer did not ask for progress."""
        return self._progress(request, self.rules.convention.token(decoded(request.params)), value)

    def item(self, request: InboundRequest, value: Any) -> bytes:
        """Return the notification with a part of the result; b"" if the peer did not ask for parts."""
        return self._progress(request, self.rules.convention.item_token(decoded(request.params)), value)

    def _progress(self, request: InboundRequest, token: ProgressToken | None, value: Any) -> bytes:
        convention = self.rules.convention
        message = None if token is None or not self._is_registered(request) else convention.progress(token, value)
        return b"" if message is None else self._encode_with_default(self.rules.encoders.encode_notification, *message)

    # Writing.

    def respond(self, destination: Destination | None, id: MessageId | Unset, data: bytes) -> None:
        """Send a response that is not the result of a handler; see `Destination.respond`.

        Reading stops for a peer that reads none of those on the stream.
        """
        if destination is not None:
            destination.respond(id, data)
        elif data:
            if self._is_blocked():
                self.refused_bytes += len(data)
                if self.refused_bytes > _REFUSAL_FACTOR * self.rules.response_bytes and self.flow is not Flow.STALLS:
                    self._set_flow(Flow.STALLS)
                self.driver.drain()
            self._write(data)

    def _write(self, data: bytes) -> None:
        """Write a message on the stream. Never raises: the driver itself learns of a loss."""
        self.credit -= len(data)  # a peer that does not read this gets no other responses, either
        try:  # noqa: SIM105  # a context manager would cost as much as the sending
            self.driver.write(data)
        except (ConnectionLost, StateError):
            pass

    def _encode_result(self, id: MessageId, result: Any, *, delimited: bool) -> bytes:
        rules = self.rules
        try:
            return rules.encode_result(id, result, delimited=delimited)
        except EncodeError as error:
            encode = rules.encoders.encode_result
            return encode_models(error, rules.default, encode, id, result, delimited=delimited)

    def encode_error(self, *members: Any, delimited: bool) -> bytes:
        """Encode a response with an error. Raises EncodeError if the data cannot be encoded.

        Args:
            members: As in `jsonrpc_fast.encode_error`, as is `delimited`.
        """
        return self._encode_with_default(self.rules.encoders.encode_error, *members, delimited=delimited)

    def _encode_with_default(self, encode: Callable[..., bytes], *members: Any, delimited: bool = True) -> bytes:
        """Encode with the option `default`, or else models of msgspec and pydantic by `to_jsonable`."""
        try:
            return encode(*members, delimited=delimited, default=self.rules.default)
        except EncodeError as error:
            return encode_models(error, self.rules.default, encode, *members, delimited=delimited)

    def _error_text(self, request: InboundRequest, code: int, message: str, data: Any = UNSET) -> bytes:
        """End a request with an error. Return what to send, like `_end_request`."""
        text = self.encode_error(request.id, code, message, data, delimited=request.batch is None)
        return self._end_request(request, text)

    def _cut_off_text(self, request: InboundRequest) -> bytes:
        """End a request whose handler this side has cancelled, like `_error_text`."""
        code = int(ErrorCode.INTERNAL_ERROR)
        return self._error_text(request, code, RPC_MESSAGES[ErrorCode.INTERNAL_ERROR])

    def _end_request(self, request: InboundRequest, text: bytes) -> bytes:
        """End a request. Return what to send.

        That is the response, b"" while other requests of the batch wait, and b"" if the request gets no response.
        """
        if not self._is_registered(request):
            return b""  # the connection is lost
        del self.requests[request.key]
        if request.is_cancelled and self.rules.convention.cancelled_error is None:
            text = b""  # whatever the handler has returned: the peer expects no response any more
        return text if request.batch is None else request.batch.finish(request.index, text)

    # The queue.

    def _size_of(self, item: Item) -> int:
        return memory_of(item.params, self.rules.inbox_bytes)

    def _is_blocked(self) -> bool:
        return self.driver.unwritten_bytes > self.rules.response_bytes

    def _is_ping(self, item: Item) -> bool:
        return item.method == self.rules.convention.ping and type(item) is InboundRequest

    def _may_begin(self, run: Run) -> bool:
        """Return whether the order allows a message to begin."""
        return self._barrier is None or self._is_ping(run.item)

    def _has_slot(self) -> bool:
        return self.running < self.rules.max_handlers

    def _has_space(self, size: int, items: int) -> bool:
        """Return whether one more message of this size may be kept beside this many of its kind."""
        rules = self.rules
        if items >= rules.max_inbox or (self.waiting_bytes and self.waiting_bytes + size > rules.inbox_bytes):
            return False
        # Not before half of the bounds is free: at its bound, a first refusal would be reported again and again.
        if self._is_half_empty:
            self._is_overloaded = False
        return True

    @property
    def _is_half_empty(self) -> bool:
        rules = self.rules
        return self.waiting_items <= rules.max_inbox // 2 and self.waiting_bytes <= rules.inbox_bytes // 2

    def _hold(self, item: Item, destination: Destination | None) -> None:
        """Queue a message whose function may not be called yet."""
        size = self._size_of(item)
        if not self._has_space(size, self.waiting_items):
            # The ordered handler may wait for a message that is still to be read.
            if self.flow is Flow.REFUSES or self._barrier is not None:
                self._refuse_for_space(item)
                return
            # This one is kept all the same, and so is a batch: it was read as a whole.
            if self.flow is Flow.READS:
                self._set_flow(Flow.RESTS)
        context = None if destination is None else contextvars.copy_context()
        run = Run(self, None, item, None, context, size=size, destination=destination)
        # The response to a ping says that this side is alive. After what waits, it could come too late.
        self._enqueue(run, self._is_ping(item))
        if self._is_blocked():
            self.driver.drain()

    def _enqueue(self, run: Run, at_front: bool) -> None:
        if self.queue is _NOTHING:
            self.queue = OrderedDict()
        self.queue[run] = None
        if at_front:
            self.queue.move_to_end(run, last=False)
        self.credit = 0
        self.waiting_bytes += run.size
        if type(run.item) is InboundRequest:
            run.item.run = run

    def _dequeue(self, run: Run) -> None:
        del self.queue[run]
        self.waiting_bytes -= run.size
        if type(run.item) is InboundRequest:
            run.item.run = None

    def turn(self) -> None:
        """Begin what waits; see `Driver.soon`."""
        self._go_on(not self._is_blocked())

    def drained(self) -> None:
        """Note that the peer has read; see `Driver.drain`."""
        self.refused_bytes = 0
        self.deadline = inf
        # At least one message, because the transport's high-water mark may be below `response_bytes`.
        self._go_on(True)
        if self._is_relieved:
            flow = Flow.READS
        else:  # an ordered handler may wait for what is read
            flow = Flow.RESTS if self._barrier is None else Flow.REFUSES
        if self.flow is not Flow.READS:
            self._set_flow(flow)

    @property
    def _is_relieved(self) -> bool:
        """Whether a batch may be held beyond the bounds. It must not be followed by another such batch."""
        return not self._has_order or self._is_half_empty

    def _go_on(self, may_call: bool) -> None:
        """Begin messages of the queue, in order, for one turn.

        Args:
            may_call: Whether the function of the first message may be called: the peer reads.
        """
        end = self.driver.turn_end()
        while self.queue:
            run = next(iter(self.queue))
            if run.work is None:
                if not may_call or not self._may_begin(run):
                    break
                self._dequeue(run)
                if run.context is None:
                    self._serve(run.item, run.destination)
                else:
                    run.context.run(self._serve, run.item, run.destination)
            elif self._has_slot():
                self._dequeue(run)
                assert run.context is not None
                run.context.run(self._start, run)
            else:
                break
            may_call = not self._is_blocked()
            if self.driver.time() >= end:
                self.driver.soon()
                break
        if self.refused_bytes or (not may_call and (self._has_order or self.flow is not Flow.READS)):
            self.driver.drain()
        elif self.flow is not Flow.READS and self._is_relieved:
            self._set_flow(Flow.READS)
        self._check_idle()

    def _lift(self) -> None:
        """Let what arrived after the ordered handler begin."""
        self._barrier = None
        if self._has_order:
            if self.flow is Flow.REFUSES:
                self._set_flow(Flow.RESTS)
            self.driver.soon()

    def _refuse_for_space(self, item: Item, trace: Trace = None) -> None:
        """Refuse a message because there is no room for it."""
        fault = StateError("too many messages wait to be served")
        if self._is_overloaded:
            self.rules.hooks.peer_fault(fault)
        else:
            self._is_overloaded = True
            self.rules.hooks.fault(fault)
        if type(item) is InboundRequest:
            self.refuse_busy(item, trace)
        else:
            self._conclude(item, trace, Outcome.ERROR, SessionErrorCode.SERVER_BUSY)

    # Reading.

    def _set_flow(self, flow: Flow) -> None:
        self.flow = flow
        self.update_reading()
        if flow is not Flow.READS:
            self._watch()

    def _watch(self) -> None:
        """Check in a few seconds whether the peer has read anything."""
        self._level = self.driver.unwritten_bytes - self.refused_bytes
        self.deadline = self.driver.time() + (PAUSE_SECONDS if self.flow is Flow.RESTS else STALL_SECONDS)
        self.driver.wake_at(self.deadline)

    def _check_reading(self, now: float, waits: bool) -> bool:
        """Change the flow if the peer has read nothing since the last check.

        Args:
            now: The time, in seconds.
            waits: Whether this side waits for a response, which must be read.

        Returns:
            Whether the peer must be given up.
        """
        if now < self.deadline:
            return False
        self.deadline = inf
        if self.driver.unwritten_bytes - self.refused_bytes < self._level:
            self._watch()  # a slow peer, which still reads
        elif self.flow is Flow.STALLS:
            return True
        elif self.flow is Flow.RESTS:
            self._set_flow(Flow.REFUSES if waits or not self._is_blocked() else Flow.STALLS)
        elif self.refused_bytes and not waits:
            self._set_flow(Flow.STALLS)
        elif self._is_relieved and not self.refused_bytes:
            self._set_flow(Flow.READS)
        else:
            self._watch()
        return False

    # Handlers.

    def _serve(self, item: Item, destination: Destination | None) -> None:
        """Find and call the function of a message."""
        handler = self.find(item.method)
        if handler is not None:
            # The code that made the transport read, such as another handler, has its own context. Messages with a
            # destination arrive in the context of their exchange.
            context = self.context.copy() if destination is None else contextvars.copy_context()
            context.run(self._call, handler, item, destination, context)
        elif type(item) is InboundRequest:
            self._refuse(item, None, RpcError(ErrorCode.METHOD_NOT_FOUND))

    def _call(self, handler: Handler, item: Item, destination: Destination | None, context: Context) -> None:
        """Call the function of a notification, or of a request that is registered."""
        trace = self._started(item) if self.rules.is_traced else None
        try:
            shown = None
            if handler.wants_context:
                request = item if type(item) is InboundRequest else None
                shown = self.driver.make_context(item.method, request, destination)
            result = handler.invoke(item.params, shown)
        # As in `PlainServer`: an exception of a function is a failure only of its own message.
        except BaseException as error:
            self._failed(item, trace, error)
            if isinstance(error, KeyboardInterrupt):
                raise
            return
        if type(result) not in NEVER_AWAITABLE and is_awaitable(result):
            run = Run(self, result, item, trace, context)
            # Most handlers need no more than this check.
            if (handler.wants_context or self.rules.convention.ordered) and self._is_ordered(handler, item):
                self._barrier = run
                self.credit = 0
            self._begin(run)
        else:
            self._succeeded(item, trace, result)

    def _is_ordered(self, handler: Handler, item: Item) -> bool:
        is_ordered = handler.is_ordered
        if is_ordered is None:
            return type(item) is Notification and item.method.startswith(self.rules.convention.ordered)
        return is_ordered and not self._is_ping(item)

    def _begin(self, run: Run) -> None:
        """Start a handler that returned an awaitable, queue it, or refuse its message."""
        current_run.set(run)  # in the context of the handler, where its calls find it
        needs_slot = type(run.work) is CoroutineType or not is_future(run.work)
        has_order = bool(self.queue) and self._has_order
        # Nobody overtakes a handler that waits for a slot.
        is_first = not self.queue or (has_order and next(iter(self.queue)).work is None)
        if needs_slot and not (is_first and self._has_slot()):
            run.size = self._size_of(run.item)
            if self._has_space(run.size, self.waiting_items):
                self._enqueue(run, at_front=has_order)
                return
        elif needs_slot:
            # The queue is not counted: this may be a ping, which overtakes it.
            if len(self.runs) == self.running + self.slotless or self._has_space(0, self.waiting_items):
                self._start(run)
                return
        else:
            run.size = self._size_of(run.item)
            if self._has_space(run.size, self.slotless):
                self.waiting_bytes += run.size
                self.slotless += 1
                run.state = "slotless"
                self._start(run)
                return
        run.state = "ended"
        run.context = None
        discard(run.work)
        if run is self._barrier:
            self._lift()
        self._refuse_for_space(run.item, run.trace)

    def _start(self, run: Run) -> None:
        self._count(run)
        try:
            self.driver.start(run)
        except NotImplementedError as error:
            discard(run.work)
            self._fail(run, error, False)

    def _count(self, run: Run) -> None:
        """Give a handler its slot, unless it needs none."""
        if type(run.item) is InboundRequest:
            run.item.run = run
        self.runs[run] = None
        if run.state != "slotless":
            run.state = "running"
            self.running += 1

    def succeeded(self, run: Run, result: Any) -> None:
        """Conclude a handler that has returned."""
        self._succeeded(run.item, run.trace, result)
        self._leave(run)

    def failed(self, run: Run, error: BaseException) -> None:
        """Conclude a handler that has raised."""
        self._fail(run, error, False)

    def cancelled(self, run: Run) -> None:
        """Conclude a handler that was cancelled by either side, as the convention says."""
        self._fail(run, GeneratorExit(), True)  # nobody sees it

    def _fail(self, run: Run, error: BaseException, is_cancelled: bool) -> None:
        self._failed(run.item, run.trace, error, is_cancelled)
        self._leave(run)

    def _leave(self, run: Run) -> None:
        """Forget a handler that has ended."""
        state, run.state = run.state, "ended"
        self.runs.pop(run, None)
        if state == "running":
            self.running -= 1
        elif state == "slotless" or state == "waiting":
            self.waiting_bytes -= run.size
            self.slotless -= state == "slotless"
        if run is self._barrier:
            self._lift()
        # Break the cycle of task, context and run, so that they are freed at once.
        run.task = run.context = run.owner = None
        if type(run.item) is InboundRequest:
            run.item.run = None
        if self.queue:
            self.driver.soon()
        if self.phase is not Phase.OPEN:
            self._check_idle()

    # Called by a `Run`.

    def run_waits(self, run: Run) -> None:
        """Take the slot of a handler that begins to wait for a peer."""
        run.state = "waiting"
        if run.size < 0:
            run.size = self._size_of(run.item)
        self.running -= 1
        self.waiting_bytes += run.size
        if self.queue:
            self.driver.soon()  # later, because a started handler may begin to wait at once, which would recurse

    def run_continues(self, run: Run) -> None:
        """Return its slot to a handler that has stopped waiting."""
        run.state = "running"
        self.running += 1
        self.waiting_bytes -= run.size

    def abandon(self, run: Run) -> None:
        """End a message in the queue, because its request was cancelled or the session ends."""
        if run not in self.queue:
            return  # it has ended, or its driver has given it no task
        self._dequeue(run)
        self._abandon(run)
        self._check_idle()

    def _abandon(self, run: Run) -> None:
        run.state = "ended"
        if run.work is not None:
            discard(run.work)
        context, run.context = run.context or contextvars.copy_context(), None
        if type(run.item) is InboundRequest:
            context.run(self._drop, run.item, run.trace)
        else:
            context.run(self._conclude, run.item, run.trace, Outcome.CANCELLED)
        if run is self._barrier:
            self._lift()

    # The end.

    def enter(self, phase: Phase) -> None:
        """Note that the end has come this far."""
        if phase > self.phase:
            self.phase = phase
            self.credit = 0

    def spare(self, run: Run) -> None:
        """Neither wait for a handler nor cancel it, because it closes the session."""
        if run.state != "ended":
            run.closes_session = True
            if run is self._barrier:
                self._lift()

    def _check_idle(self) -> None:
        if self.phase is not Phase.OPEN and self.has_served:
            self.driver.idle()

    def ending(self, but: Run | None = None) -> list[Run]:
        """Return the handlers that run, except `but` and those that close the session."""
        return [run for run in self.runs if run is not but and not run.closes_session]

    def cancel_all(self) -> list[Run]:
        """Refuse the queue, and cancel all handlers except those that close the session. Return those."""
        self.enter(Phase.CUT_OFF)
        waiting = list(self.queue)
        for run in waiting:  # removed first: the end of a handler must not let another message begin
            self._dequeue(run)
        for run in waiting:
            self._abandon(run)
        self.deadline = inf
        runs = self.ending()
        for run in runs:
            run.cancel()
        return runs

    def count_dropped(self) -> None:
        """Count the requests that get no response any more. On the stream, the rest of their batches is sent."""
        for request in list(self.requests.values()):
            self.dropped_requests += not request.is_cancelled
            if request.destination is None:
                self.respond(None, request.id, self._end_request(request, b""))

    # Outcomes.

    def _succeeded(self, item: Item, trace: Trace, result: Any) -> None:
        outcome, code = _RESULT, None
        if type(item) is InboundRequest:
            if self.rules.hooks.request_served is not None and not self._is_registered(item):
                outcome = Outcome.CANCELLED  # the session has ended before its handler
            try:
                # Encoded while the request is registered: if that fails, the peer still gets an error.
                text = self._encode_result(item.id, result, delimited=item.batch is None)
                text = self._end_request(item, text)
            except HANDLER_FAILURES as error:  # an EncodeError, or what the methods of a payload raise
                outcome = Outcome.ERROR
                refuse = partial(self._error_text, item)
                report = self.rules.hooks.handler_fault
                text, code = response_to_failure(unwritable(error), item.method, item.id, refuse, report)
            if item.destination is not None:
                item.destination.respond(item.id, text)
            elif text:
                self._write(text)
        if self.rules.hooks.request_served is not None:
            self._conclude(item, trace, outcome, code)

    def _failed(self, item: Item, trace: Trace, error: BaseException, is_cancelled: bool = False) -> None:
        request = item if type(item) is InboundRequest else None
        is_exit = is_cancelled or isinstance(error, cancelled_errors())
        if is_exit and (request is None or request.is_cancelled or self.phase >= Phase.CUT_OFF):
            if request is not None:
                self._give_up(request, trace)
            else:
                self._conclude(item, trace, Outcome.CANCELLED)
        elif request is None:
            self.rules.hooks.handler_fault(error, item.method, None)
            self._conclude(item, trace, Outcome.ERROR, int(ErrorCode.INTERNAL_ERROR))
        elif is_cancelled:  # for example because the loop ends: not a failure
            text = self._cut_off_text(request)
            self.respond(request.destination, request.id, text)
            self._conclude(request, trace, Outcome.CANCELLED)
        else:
            self._refuse(request, trace, error)

    def _refuse(self, request: InboundRequest, trace: Trace, error: BaseException) -> None:
        refuse = partial(self._error_text, request)
        text, code = response_to_error(error, request.method, request.id, refuse, self.rules.hooks.handler_fault)
        self.respond(request.destination, request.id, text)
        self._conclude(request, trace, Outcome.ERROR, code)

    def _drop(self, request: InboundRequest, trace: Trace) -> None:
        """Conclude a request that has not begun. A peer that can be notified of this may send it elsewhere."""
        if self._is_registered(request) and not request.is_cancelled:
            self.refuse_busy(request, trace)
        else:
            self._give_up(request, trace)

    def _give_up(self, request: InboundRequest, trace: Trace) -> None:
        """Conclude a request that the peer cancelled, or whose handler was cancelled because the session ends."""
        if request.is_cancelled:
            error = self.rules.convention.cancelled_error
            text = self._end_request(request, b"") if error is None else self._error_text(request, *error)
        else:
            self.dropped_requests += self._is_registered(request)
            if request.destination is None:
                text = self._end_request(request, b"")  # the end of the stream notifies the peer
            else:
                text = self._cut_off_text(request)
        self.respond(request.destination, request.id, text)
        self._conclude(request, trace, Outcome.CANCELLED)

    def _started(self, item: Item) -> Trace:
        hooks, now = self.rules.hooks, self.driver.time()
        id = item.id if isinstance(item, InboundRequest) else None
        if hooks.request_received is not None:
            read = self.rules.convention.trace
            trace = run_callback(hooks.fault, lambda: read(decoded(item.params), item.extra)) or {}
            return hooks.request_received(id, item.method, trace), now
        started = hooks.request_started
        return None if started is None else started(id, item.method), now

    def _conclude(self, item: Item, trace: Trace, outcome: Outcome, code: int | None = None) -> None:
        served = self.rules.hooks.request_served
        if served is not None:
            id = item.id if isinstance(item, InboundRequest) else None
            shown, started = trace if trace is not None else (None, None)
            seconds = 0.0 if started is None else self.driver.time() - started
            served(shown, id, item.method, outcome, code, seconds)


def memory_of(params: Any, enough: int) -> int:
    """Estimate the memory of params in bytes. Counting stops beyond `enough`, before a large container is copied."""
    if type(params) is Raw:
        return getsizeof(params, _CONTAINER_BYTES) + len(params)
    size = 0
    # Level by level, in C: recursion would be slower, and would hit Python's recursion limit on a deep payload.
    level = [params] if type(params) is dict or type(params) is list else []
    while level:
        # 32 for a number or a short string, as an estimate.
        size += sum(map(getsizeof, level, repeat(_CONTAINER_BYTES))) + 32 * sum(map(len, level))
        if size > enough:
            break
        values: list[Any] = list(chain.from_iterable([v for v in level if type(v) is list]))
        for container in level:
            if type(container) is dict:
                values += container
                values += container.values()
        size += sum([len(value) for value in values if type(value) is str])
        level = [value for value in values if type(value) is dict or type(value) is list]
    return size
