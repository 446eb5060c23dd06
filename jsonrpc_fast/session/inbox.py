"""The serving half of an engine: calls functions, queues messages that must wait, and refuses those without room.

The accounts are in a `Room` (room.py), and a `Reading` (reading.py) says whether the stream is read.

Rules:
  - Responses and cancellations are always read, so a handler that waits for one can always continue.
  - Messages are served in the order of arrival: each function is called when its message is read. With a sync function,
    the message is then served. A coroutine gets one of `max_handlers` slots and is started, or waits for a slot in the
    queue. Any other awaitable, such as a future, is already running and needs no slot.
  - Messages that arrive after one whose method is ordered do not begin before its handler has ended: they are held, and
    refused for lack of room like messages in the queue. A handler that closes the session delays no other message.
  - Pings of the convention are outside this order: they overtake what is held and begin at once, or as soon as the peer
    reads. Their response says that this side is alive, not that it has served the messages before.
  - A request whose function returns at once is not registered as being served: nothing can arrive meanwhile. The same
    applies to an async function that returns in its first step, unless that needs its slot (running.py). Batches,
    hooks, ordered methods and functions that take the context need the registration first. A request with a destination
    of its own may be served in this way in the task of its exchange, where its handler continues if it waits.
  - A handler that waits for a call, of this or another session, holds no slot: the peer may call another
    method before it responds. When such handlers continue, more than `max_handlers` may run for a while.
  - The queue and the handlers that wait for the peer are bounded together: by `max_inbox` messages and `inbox_bytes` of
    memory. Beyond that a request of an async method is refused (SERVER_BUSY), and a notification is dropped and
    reported as a fault. Sync methods and unknown methods are always served. Handlers that need no slot have the same
    bounds of their own.
  - While more than `response_bytes` are unwritten, the peer does not read, and nothing is served: messages are held,
    within the same bounds. At the bounds, reading pauses (reading.py). If the peer reads nothing for a while, reading
    resumes and messages are refused, until there are more refusals than a working peer would leave unread.
  - A batch that is read when there is room for one message is held whole. The next one is refused until nothing is held
    or half of the room is empty again.
  - Sessions of a group (group.py) share further bounds of the same kinds.
  - Each function runs in a copy of the context (`contextvars`) in which the engine was made, or in which the message
    was received if it has a destination of its own.
  - An RpcError that a handler raises is the response. Any other exception except KeyboardInterrupt, and a result that
    cannot be encoded, becomes -32603 without details, and is reported as a fault on this side.
  - The convention says what a cancelled request gets, after its handler has ended; at once if it has not begun. A
    request whose cancellation was read together with it does not begin (ahead.py). A handler that this side cancelled,
    for example because the loop ends, has not failed: the response is -32603, and no fault is reported. If the session
    ends, only a request with a destination of its own, such as an HTTP response, gets that.
  - A request that has not begun when the session ends is refused (SERVER_BUSY), and is not a dropped request.
  - A notification never gets a response.
"""

from __future__ import annotations

import contextvars
import sys
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from functools import partial
from math import inf
from types import CoroutineType
from typing import Any, Final

from ..codec import Notification, Request
from ..codec._backend import PlainServer
from ..codes import BUSY_MESSAGE, RPC_MESSAGES, ErrorCode, SessionErrorCode
from ..errors import HANDLER_FAILURES, ConnectionLost, RpcError, StateError, run_callback, standard_error
from ..handlers import Handler, Handlers, RequestContext, is_awaitable
from ..handlers.awaiting import discard
from ..handlers.failures import CancelledError, is_foreign_cancellation, is_future
from ..handlers.results import response_to_error, response_to_failure
from ..hooks import FoundHooks, Outcome
from ..types import NEVER_AWAITABLE, MessageId, Unset
from .driver import Driver
from .reading import STALL_SECONDS, Reading
from .requests import Destination, InboundRequest, Requests
from .room import Bounds, Room, memory_of
from .running import Item, Run, RunState, Trace, current_run

_REFUSAL_FACTOR: Final = 16
"""Beyond this multiple of `response_bytes` in refusals and error responses, reading pauses until the peer reads, or the
connection ends (reading.py)."""

_INTERNAL_ERROR: Final = int(ErrorCode.INTERNAL_ERROR)

_TURN_MESSAGES: Final = 256
"""Maximum number of waiting messages to serve in one turn."""

# Looked up once: before Python 3.12 access to enum members is slow.
_RUNNING: Final = RunState.RUNNING
_ALONGSIDE: Final = RunState.ALONGSIDE
_ENDED: Final = RunState.ENDED
_RESULT: Final = Outcome.RESULT


_Held = tuple[Item, int, "Destination | None", "Context | None"]
# The queues of an inbox in which nothing has waited: most never need more.
_NOTHING: Final[deque[_Held]] = deque()
_NO_RUNS: Final[OrderedDict[Run, None]] = OrderedDict()
_NOBODY: Final[frozenset[Run]] = frozenset()


class Inbox:
    """Serves the messages of one conversation.

    Args:
        driver: Carries out the decisions.
        handlers: The functions by method.
        hooks: The hooks of the session.
        make_context: As in `Engine`.
        clock: As in `Engine`.
        requests: The requests that are being served.
        bounds: The bounds of what waits and runs.
        receive: Receives what `plain` does not serve.

    Attributes:
        plain: Receives all messages, and serves those that need no registration.
        reading: Whether the stream is read.
        is_draining: Whether new requests are refused. Only `begin_draining` changes it.
        dropped_requests: The number of requests that were dropped or cut off because the session was closed.
    """

    def __init__(
        self,
        driver: Driver,
        handlers: Handlers,
        hooks: FoundHooks,
        make_context: Callable[[str, InboundRequest | None, Destination | None], RequestContext],
        clock: Callable[[], float],
        requests: Requests,
        bounds: Bounds,
        receive: Callable[[Any, Destination | None], bytes | None],
    ) -> None:
        self._driver = driver
        self._make_context = make_context
        self._clock = clock
        self._requests = requests
        self._hooks = hooks
        self._is_traced = any((hooks.request_started, hooks.request_received, hooks.request_served))
        self._group = bounds.group
        self._room = Room(bounds)
        self.reading: Reading = Reading(driver, clock)
        # The handlers. Ordered dicts as sets: they start, and are cancelled, in the order of arrival.
        self._runs: dict[Run, None] = {}  # running, or waiting for a peer
        self._queue: OrderedDict[Run, None] = _NO_RUNS  # called, but without a slot yet
        self._context = contextvars.copy_context()
        self.plain: PlainServer = PlainServer(
            handlers.finder(),
            requests.serving,
            self._runs if self._group is None else None,
            requests.encode_result,
            self._context,
            current_run,
            receive,
            self,
        )
        # Messages wait for an ordered handler, or while the peer does not read.
        self._barrier: Run | None = None  # the ordered handler that has not ended
        self._held: deque[_Held] = _NOTHING  # with their sizes in bytes
        # The end.
        self.is_draining: bool = False
        self._is_cut_off = False  # all handlers were cancelled, and get no response
        self.dropped_requests: int = 0
        self._spared: frozenset[Run] = _NOBODY  # handlers that close the session

    @property
    def items(self) -> int:
        """The number of messages that wait to be served."""
        return len(self._held) + len(self._queue)

    @property
    def runs(self) -> list[Run]:
        """The handlers that run, and those that wait for a peer."""
        return list(self._runs)

    def kept_bytes(self) -> int:
        """Return the size of the messages that wait or are being served."""
        size = self._room.waiting.size + self._room.alongside.size
        for run in self._runs:
            if run.state is _RUNNING:
                if run.size < 0:
                    run.size = self._size_of(run.item)
                size += run.size
        return size

    @property
    def is_busy(self) -> bool:
        """Whether a handler runs, or a message waits."""
        return bool(self._runs or self._held or self._queue or self.reading.refused_bytes)

    @property
    def has_served(self) -> bool:
        """Whether everything that was received is served, except by handlers that close the session."""
        return (
            not self.reading.is_in_batch and not self._held and not self._queue and len(self._runs) <= len(self._spared)
        )

    # Receiving.

    def admit(self, item: Item, destination: Destination | None) -> None:
        """Serve a message now or as soon as there is room, or refuse it."""
        if self.plain.room > 0:  # then nothing is held, and no ordered handler is running
            self._serve(item, destination)
        elif self._is_blocked() or ((self._held or self._barrier is not None) and not self._is_ping(item)):
            self._hold(item, destination)
        else:
            self._serve(item, destination)

    @property
    def _is_free(self) -> bool:
        """Whether order and hooks allow serving a request without registration."""
        return not (
            self._held
            or self._queue
            or self._barrier is not None
            or self._is_traced
            or self.is_draining
            or self.reading.is_in_batch
        )

    def make_room(self) -> bool:
        """Let requests be served without registration, if nothing prevents it. Return whether they may be.

        Checking how much is unwritten for each message would cost as much as serving it.
        """
        if not self._is_free:
            return False
        # The core keeps it in a C integer, but the bound of a relay is infinite.
        self.plain.room = min(self._room.bounds.response_bytes - self._driver.unwritten_bytes, sys.maxsize)
        return self.plain.room > 0

    def serve_at_once(self, message: Request, function: Callable[[], Any]) -> bytes | Run | None:
        """Serve a request that has its own destination without registration, if no rule forbids it.

        Args:
            message: The request.
            function: Returns the result, or a coroutine of it.

        Returns:
            The response, without a line break; the handler, if the coroutine waits; or None if
            the request must take the ordinary path. Then the function was not called.
        """
        if (
            not self._is_free
            or self._is_blocked()
            or not self.may_start()
            or (self._requests.serving and self._requests.find(message.id) is not None)
        ):
            return None
        run = None
        try:
            result = function()
            if type(result) is CoroutineType:
                run = Run(self, result, message, None, None)
                before = current_run.set(run)
                try:
                    run.waiting = result.send(None)
                    return run
                except StopIteration as end:
                    result = end.value
                    run.state = _ENDED
                    if self.is_draining:  # it has begun to close the session
                        self._leave(run)
                finally:
                    current_run.reset(before)
            return self._requests.encode(message.id, result, delimited=False)
        except BaseException as error:  # as in `_call`
            if run is not None:
                self._leave(run)
            refuse = partial(self._requests.encode_error, message.id, delimited=False)
            text, _ = response_to_error(error, message.method, message.id, refuse, self._hooks.handler_fault)
            if isinstance(error, KeyboardInterrupt):
                raise
            return text

    def keep(self, run: Run, destination: Destination) -> None:
        """Register the request of a handler that `serve_at_once` has returned, and give the handler a slot."""
        assert type(run.item) is Request
        run.item = self._requests.register(run.item, destination)
        self._count(run)
        if run.waits:  # it began to wait in its first step, when it had no slot to give up
            self.run_waits(run)

    # The interface for the `PlainServer`, which calls functions without registering their requests.

    def may_start(self) -> bool:
        return not self._room.waiting.items and self._room.has_slot()

    def begin(self, message: Request, work: Awaitable[Any], context: Context) -> None:
        self._begin(Run(self, work, self._requests.register(message, None), None, context))

    def make_run(self, work: Awaitable[Any], message: Request, context: Context) -> Run:
        run = Run(self, work, self._requests.register(message, None), None, context)
        self._count(run)
        return run

    def ended(self, run: Run, result: Any, error: BaseException | None) -> None:
        if error is None:
            self.succeeded(run, result)
        else:
            self.failed(run, error, isinstance(error, CancelledError) and not is_foreign_cancellation(error))

    def conclude(self, message: Request, handler: Handler, result: Any, error: BaseException | None) -> None:
        request = self._requests.register(message, None)
        if error is not None:
            self._failed(request, None, handler.explained(error, message.params))
        else:
            self._succeeded(request, None, result)

    def _serve(self, item: Item, destination: Destination | None) -> None:
        handler = self.plain.find(item.method)
        if handler is not None:
            # The code that made the transport read, such as another handler, has its own context. Messages with a
            # destination arrive in the context of their exchange.
            context = self._context.copy() if destination is None else contextvars.copy_context()
            context.run(self._call, handler, item, destination, context)
        elif type(item) is InboundRequest:
            self._refuse(item, None, standard_error(ErrorCode.METHOD_NOT_FOUND))

    def begin_draining(self) -> None:
        """Refuse new requests."""
        self.is_draining = True
        self.plain.room = 0

    def begin_batch(self) -> None:
        """Stop reading until `end_batch`, because a batch takes several turns."""
        self.plain.room = 0
        self.reading.is_in_batch = True
        self.reading.update()

    def end_batch(self) -> None:
        """Resume reading: the whole batch has been admitted."""
        self.reading.is_in_batch = False
        self.reading.update()
        self._check_idle()

    def cancel_request(self, request: InboundRequest) -> None:
        """Cancel the handler of a request, or skip the request if it is held."""
        if request.run is None:
            self.withdraw(request)
        else:
            request.is_cancelled = True
            request.run.cancel()

    def withdraw(self, request: InboundRequest) -> None:
        """Respond to a request that was cancelled before it began."""
        request.is_cancelled = True
        self.respond(request.destination, request.id, self._requests.respond_cancelled(request))
        self._conclude(request, None, Outcome.CANCELLED)

    def refuse_busy(self, request: InboundRequest, trace: Trace = None) -> None:
        """Refuse a request that may be sent again later."""
        self._refuse(request, trace, RpcError(SessionErrorCode.SERVER_BUSY, BUSY_MESSAGE))

    # Responses.

    def respond(self, destination: Destination | None, id: MessageId | Unset, data: bytes) -> None:
        """Send a response that comes from no handler; see `Destination.respond`.

        Reading stops for a peer that reads none of those on the stream.
        """
        if destination is not None:
            destination.respond(id, data)
        elif data:
            if self._is_blocked():
                self.reading.refused_bytes += len(data)
                if self.reading.refused_bytes > _REFUSAL_FACTOR * self._room.bounds.response_bytes:
                    self.reading.pause(STALL_SECONDS)
                self._driver.drain()
            self._write(data)

    def _respond(self, request: InboundRequest, data: bytes) -> None:
        if request.destination is not None:
            request.destination.respond(request.id, data)
        elif data:
            self._write(data)

    def _write(self, data: bytes) -> None:
        self.plain.room -= len(data)
        try:  # noqa: SIM105  # a context manager would cost as much as the sending
            self._driver.write(data)
        except (ConnectionLost, StateError):
            pass  # the driver itself learns of the loss

    def _refuse_for_room(self, item: Item, trace: Trace = None) -> None:
        """Refuse a message because there is no room for it."""
        fault = StateError("too many messages wait to be served")
        if self._room.is_overloaded:
            self._hooks.peer_fault(fault)
        else:
            self._room.is_overloaded = True
            self._hooks.fault(fault)
        if type(item) is InboundRequest:
            self.refuse_busy(item, trace)
        else:
            self._conclude(item, trace, Outcome.ERROR, SessionErrorCode.SERVER_BUSY)

    def _size_of(self, item: Item) -> int:
        return memory_of(item.params, self._room.bounds.inbox_bytes)

    # Holding messages, until an ordered handler has ended and while the peer does not read.

    def _is_blocked(self) -> bool:
        return self._driver.unwritten_bytes > self._room.bounds.response_bytes

    def _is_ping(self, item: Item) -> bool:
        return item.method == self._requests.convention.ping and type(item) is InboundRequest

    def _may_begin(self) -> bool:
        """Return whether the order allows the first held message to begin. Pings come first."""
        return bool(self._held) and (self._barrier is None or self._is_ping(self._held[0][0]))

    def _hold(self, item: Item, destination: Destination | None) -> None:
        size = self._size_of(item)
        if not self._room.has_room(size):
            # Its handler may wait for a message that is still to be read.
            if self.reading.ignores_bounds or self._barrier is not None:
                self._refuse_for_room(item)
                return
            self.reading.pause()
        context = None if destination is None else contextvars.copy_context()
        self.plain.room = 0
        held = (item, size, destination, context)
        if self._held is _NOTHING:
            self._held = deque()
        # Its response says that this side is alive. After the held messages, it could come too late.
        if self._is_ping(item):
            self._held.appendleft(held)
        else:
            self._held.append(held)
        self._room.waiting.keep(size)
        if self._may_begin():  # otherwise the end of the ordered handler is awaited
            self._driver.drain()

    def drained(self) -> None:
        """Serve held messages, because the peer has read."""
        self.reading.drained()
        # At least one, because the transport's high-water mark may be below `response_bytes`.
        self._serve_held(True)
        if self._is_relieved():
            self.reading.resume()
        elif self._barrier is not None:  # its handler may wait for what is read
            self.reading.resume(ignores_bounds=True)
        elif self.reading.is_paused:
            self.reading.watch()
        elif self.reading.ignores_bounds:
            self.reading.pause()

    def _is_relieved(self) -> bool:
        """Return whether a batch may be held beyond the bounds. It must not be followed by another such batch."""
        return not self._held or self._room.is_half_empty

    def turn(self) -> None:
        """Serve held messages, and start queued handlers for which there are slots now."""
        if self._held:
            self._serve_held(not self._is_blocked())
        self._start_queued()

    def _serve_held(self, may_serve: bool) -> None:
        for _ in range(_TURN_MESSAGES):
            if not may_serve or not self._may_begin():
                break
            item, size, destination, context = self._held.popleft()
            self._room.waiting.drop(size)
            if type(item) is InboundRequest and item.is_cancelled:
                continue
            if context is None:
                self._serve(item, destination)
            else:
                context.run(self._serve, item, destination)
            may_serve = not self._is_blocked()
        if (self._held and not may_serve) or self.reading.refused_bytes or self.reading.is_paused:
            self._driver.drain()
        if may_serve and self._may_begin():
            self._driver.soon()
        if self._is_relieved():
            self.reading.ignores_bounds = False
        self._check_idle()

    def _lift(self) -> None:
        """Let what arrived after the ordered handler begin."""
        self._barrier = None
        if self._held:
            if self.reading.ignores_bounds:
                self.reading.pause()
            self._driver.soon()

    # Handlers.

    def _call(self, handler: Handler, item: Item, destination: Destination | None, context: Context) -> None:
        """Call the function of a notification, or of a request that is registered."""
        trace = self._started(item) if self._is_traced else None
        try:
            shown = None
            if handler.wants_context:
                request = item if type(item) is InboundRequest else None
                shown = self._make_context(item.method, request, destination)
            result = handler.invoke(item.params, shown)
        # As in `Engine.receive`: an exception of a function is a failure only of its own message.
        except BaseException as error:
            self._failed(item, trace, error)
            if isinstance(error, KeyboardInterrupt):
                raise
            return
        if type(result) not in NEVER_AWAITABLE and is_awaitable(result):
            run = Run(self, result, item, trace, context)
            # Most handlers need no more than this check.
            if (handler.wants_context or self._requests.ordered) and self._is_ordered(handler, item):
                self._barrier = run
                self.plain.room = 0
            self._begin(run)
        else:
            self._succeeded(item, trace, result)

    def _is_ordered(self, handler: Handler, item: Item) -> bool:
        is_ordered = handler.is_ordered
        if is_ordered is None:
            return type(item) is Notification and item.method.startswith(self._requests.ordered)
        return is_ordered and not self._is_ping(item)

    def _begin(self, run: Run) -> None:
        """Start a handler that returned an awaitable, queue it, or refuse its message."""
        current_run.set(run)  # in the context of the handler, where its calls find it
        needs_slot = type(run.work) is CoroutineType or not is_future(run.work)
        if needs_slot and (self._queue or not self._room.has_slot()):
            run.size = self._size_of(run.item)
            if self._room.has_room(run.size):
                if type(run.item) is InboundRequest:
                    run.item.run = run
                if self._queue is _NO_RUNS:
                    self._queue = OrderedDict()
                self._queue[run] = None
                self.plain.room = 0
                self._room.waiting.keep(run.size)
                if self._group is not None and self._room.running < self._room.bounds.max_handlers:
                    self._group.add(self)
                    self._driver.soon()
                return
        elif needs_slot:
            # Held messages are not counted: this may be a ping, which overtakes them.
            if self._room.waiting.items == len(self._held) or self._room.has_room(0):
                self._start(run)
                return
        else:
            run.size = self._size_of(run.item)
            if self._room.alongside.has_room(run.size):
                self._room.alongside.keep(run.size)
                run.state = _ALONGSIDE
                self._start(run)
                return
        run.state = _ENDED
        run.context = None
        discard(run.work)
        if run is self._barrier:
            self._lift()
        self._refuse_for_room(run.item, run.trace)

    def _start(self, run: Run) -> None:
        self._count(run)
        try:
            self._driver.start(run)
        except NotImplementedError as error:
            discard(run.work)
            self.failed(run, error, False)

    def _count(self, run: Run) -> None:
        """Give a handler its slot, unless it needs none."""
        if type(run.item) is InboundRequest:
            run.item.run = run
        self._runs[run] = None
        if run.state is not _ALONGSIDE:
            run.state = _RUNNING
            self._room.take_slot()

    def _start_queued(self) -> None:
        if self._group is not None:
            if self._queue and self._room.running < self._room.bounds.max_handlers:
                self._group.add(self)
            self._group.start()
            return
        for _ in range(_TURN_MESSAGES):
            if not self.start_one():
                return
        self._start_soon()

    def start_one(self) -> bool:
        """Start the first handler in the queue, if there is a slot. Return whether another one could start now."""
        if not self._queue or self._room.running >= self._room.bounds.max_handlers:
            return False
        run, _ = self._queue.popitem(last=False)  # the oldest
        self._room.waiting.drop(run.size)
        assert run.context is not None
        run.context.run(self._start, run)
        return bool(self._queue) and self._room.running < self._room.bounds.max_handlers

    def wake(self) -> None:
        """Let handlers in the queue start soon: the group has a slot."""
        self._driver.soon()

    def _start_soon(self) -> None:
        # Later, because a started handler may begin to wait at once, which would recurse.
        if self._queue:
            self._driver.soon()

    def succeeded(self, run: Run, result: Any) -> None:
        """Conclude a handler that has returned."""
        self._succeeded(run.item, run.trace, result)
        self._leave(run)

    def failed(self, run: Run, error: BaseException, is_cancelled: bool) -> None:
        """Conclude a handler that has raised.

        Args:
            run: The handler.
            error: The exception; for a cancellation, the one that the event loop raises.
            is_cancelled: Whether the handler was cancelled, by either side.
        """
        self._failed(run.item, run.trace, error, is_cancelled)
        self._leave(run)

    def _leave(self, run: Run) -> None:
        """Forget a handler that has ended."""
        if run.state is _RUNNING:
            self._room.return_slot()
        elif run.state is _ALONGSIDE:
            self._room.alongside.drop(run.size)
        elif run.state is RunState.WAITING:
            self._room.waiting.drop(run.size)
        run.state = _ENDED
        self._runs.pop(run, None)
        if self._spared:
            self._spared -= {run}
        if run is self._barrier:
            self._lift()
        # Break the cycle of task, context and run, so that they are freed at once.
        run.task = run.context = run.owner = None
        if type(run.item) is InboundRequest:
            run.item.run = None
        if self._queue:
            self._driver.soon()
        if self.is_draining:
            self._check_idle()

    # Called by a `Run`.

    def run_waits(self, run: Run) -> None:
        """Take the slot of a handler that begins to wait for a peer."""
        run.state = RunState.WAITING
        if run.size < 0:
            run.size = self._size_of(run.item)
        self._room.return_slot()
        self._room.waiting.keep(run.size)
        self._start_soon()

    def run_continues(self, run: Run) -> None:
        """Return its slot to a handler that has stopped waiting."""
        run.state = _RUNNING
        self._room.take_slot()
        self._room.waiting.drop(run.size)

    def abandon(self, run: Run) -> None:
        """End a handler that is in the queue."""
        if run not in self._queue:
            return  # it has ended, or its driver has given it no task
        del self._queue[run]
        self._room.waiting.drop(run.size)
        run.state = _ENDED
        discard(run.work)
        context, run.context = run.context, None
        assert context is not None
        if type(run.item) is InboundRequest:
            run.item.run = None
            context.run(self._drop, run.item, run.trace)
        else:
            context.run(self._conclude, run.item, run.trace, Outcome.CANCELLED)
        if run is self._barrier:
            self._lift()
        self._check_idle()

    # Closing.

    def spare(self, run: Run) -> None:
        """Neither wait for a handler nor cancel it, because it closes the session."""
        if run.state is not _ENDED:
            self._spared |= {run}
            if run is self._barrier:
                self._lift()

    def _check_idle(self) -> None:
        if self.is_draining and self.has_served:
            self._driver.idle()

    def cancel(self, but: Run | None = None) -> list[Run]:
        """Refuse the waiting messages, and cancel all handlers except `but` and the spared ones. Return those."""
        self._is_cut_off = True
        # Removed first: the end of a handler must not let a held message begin.
        held, self._held = self._held, _NOTHING
        for item, size, _, _ in held:
            self._room.waiting.drop(size)
            if type(item) is InboundRequest and not item.is_cancelled:
                self._drop(item, None)
        for run in list(self._queue):  # a copy: `abandon` removes it
            self.abandon(run)
        if self._group is not None:
            self._group.leave(self)
        self.reading.deadline = inf
        runs = [run for run in self._runs if run is not but and run not in self._spared]
        for run in runs:
            run.cancel()
        return runs

    def end(self) -> None:
        """Drop the references to the session, because nothing more is served: they would form cycles."""
        self.plain.close()
        self._make_context = _no_context

    def count_dropped(self) -> None:
        """Count the requests of handlers that continue although they were cancelled."""
        for run in self._runs:
            if type(run.item) is InboundRequest and not run.item.is_cancelled and run not in self._spared:
                self.dropped_requests += 1

    # Outcomes.

    def _succeeded(self, item: Item, trace: Trace, result: Any) -> None:
        outcome, code = _RESULT, None
        if type(item) is InboundRequest:
            try:
                text = self._requests.respond(item, result)
            except HANDLER_FAILURES as error:  # an EncodeError, or what the methods of a payload raise
                outcome = Outcome.ERROR
                refuse = partial(self._requests.refuse, item)
                text, code = response_to_failure(error, item.method, item.id, refuse, self._hooks.handler_fault)
            self._respond(item, text)
        if self._hooks.request_served is not None:
            self._conclude(item, trace, outcome, code)

    def _failed(self, item: Item, trace: Trace, error: BaseException, is_cancelled: bool = False) -> None:
        request = item if type(item) is InboundRequest else None
        is_exit = is_cancelled or isinstance(error, CancelledError)
        if is_exit and (request is None or request.is_cancelled or self._is_cut_off):
            if request is not None:
                self._give_up(request, trace)
            else:
                self._conclude(item, trace, Outcome.CANCELLED)
        elif request is None:
            self._hooks.handler_fault(error, item.method, None)
            self._conclude(item, trace, Outcome.ERROR, _INTERNAL_ERROR)
        elif is_cancelled:  # for example because the loop ends: not a failure
            text = self._requests.refuse(request, _INTERNAL_ERROR, RPC_MESSAGES[ErrorCode.INTERNAL_ERROR])
            self.respond(request.destination, request.id, text)
            self._conclude(request, trace, Outcome.CANCELLED)
        else:
            self._refuse(request, trace, error)

    def _refuse(self, request: InboundRequest, trace: Trace, error: BaseException) -> None:
        refuse = partial(self._requests.refuse, request)
        text, code = response_to_error(error, request.method, request.id, refuse, self._hooks.handler_fault)
        self.respond(request.destination, request.id, text)
        self._conclude(request, trace, Outcome.ERROR, code)

    def _drop(self, request: InboundRequest, trace: Trace) -> None:
        """Conclude a request that has not begun. A peer that can be notified of this may send it elsewhere."""
        if self._requests.has(request) and not request.is_cancelled:
            self.refuse_busy(request, trace)
        else:
            self._give_up(request, trace)

    def _give_up(self, request: InboundRequest, trace: Trace) -> None:
        """Conclude a request that the peer cancelled, or whose handler was cancelled because the session ends."""
        if request.is_cancelled:
            self._respond(request, self._requests.respond_cancelled(request))
        else:
            self.dropped_requests += self._requests.has(request)
            if request.destination is None:
                text = self._requests.drop(request)  # the end of the stream notifies the peer
            else:
                text = self._requests.refuse(request, _INTERNAL_ERROR, RPC_MESSAGES[ErrorCode.INTERNAL_ERROR])
            self._respond(request, text)
        self._conclude(request, trace, Outcome.CANCELLED)

    def _started(self, item: Item) -> Trace:
        now = self._clock()
        id = item.id if isinstance(item, InboundRequest) else None
        if self._hooks.request_received is not None:
            trace = run_callback(self._hooks.fault, self._requests.trace_of, item) or {}
            return self._hooks.request_received(id, item.method, trace), now
        started = self._hooks.request_started
        return None if started is None else started(id, item.method), now

    def _conclude(self, item: Item, trace: Trace, outcome: Outcome, code: int | None = None) -> None:
        served = self._hooks.request_served
        if served is not None:
            id = item.id if isinstance(item, InboundRequest) else None
            shown, started = trace if trace is not None else (None, None)
            seconds = 0.0 if started is None else self._clock() - started
            served(shown, id, item.method, outcome, code, seconds)


def _no_context(method: str, *_: object) -> RequestContext:
    raise StateError(f"the session has ended before {method} was called")
