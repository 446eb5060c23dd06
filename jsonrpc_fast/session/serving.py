"""Serving what the peer asks for: the handlers that run, what waits for them, and what is refused.

Rules:
  - responses and cancellations are always read, so a handler that waits for one goes on whatever else waits;
  - messages are served in the order of their coming: each function is called where its message is read. A sync one
    has served it then. A coroutine that it returned gets a task and a slot, of which there are `max_handlers`, or waits
    for a slot in the queue. Another awaitable, a future, is at work already and needs no slot;
  - a handler that waits in `Session.call`, of this session or of another one, holds no slot: the peer may ask for
    something else before it answers. When it goes on, more handlers than `max_handlers` may run for a while;
  - what waits is bounded, the queue and the handlers that wait for the peer together: by `max_inbox` messages and
    `inbox_bytes` of memory. Beyond that a request of an async method is refused (SERVER_BUSY), and a notification is
    dropped, which is a fault. Sync handlers and unknown methods are served all the same. What needs no slot has the
    same bounds for itself: it is not refused because others wait;
  - while more than `reply_bytes` wait in the transport's write buffer, the peer does not read, and nothing more is
    served: messages are held, within the same bounds. When these are reached, reading rests until the peer reads. If
    it reads nothing for REST_SECONDS it may be resting itself, so reading goes on and what comes is refused; until the
    refusals, too, are too many for a peer that works;
  - each handler runs in a copy of the context (`contextvars`) that the session was made in;
  - a handler's RpcError is its answer. Any other exception but KeyboardInterrupt, and a result that cannot be written,
    is -32603 without a word about it to the peer; here it is a fault;
  - a cancelled request is answered as the convention says, once its handler has ended;
  - a notification is never answered, whatever happens.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from itertools import chain
from math import inf
from sys import getsizeof
from types import CoroutineType
from typing import Any, Final, cast

from ..codec import Raw
from ..codes import BUSY_MESSAGE, RPC_MESSAGES, ErrorCode, SessionErrorCode
from ..errors import HANDLER_FAILURES, ConnectionLost, RpcError, StateError
from ..handlers import NEVER_AWAITABLE, Handler, Handlers, RequestContext
from ..transports.base import Transport
from .events import InboundRequest
from .hooks import FoundHooks
from .peer import Peer
from .running import Item, Run, RunState, Trace, current_run
from .tracker import Outcome

REST_SECONDS: Final = 0.5
"""How long reading rests for a peer that reads nothing, before it goes on."""

_REFUSAL_FACTOR: Final = 16
"""How many times `reply_bytes` the replies may take that no handler gave, before reading rests for good."""

_TURN: Final = 256
"""How many messages that waited are served in one turn of the loop."""

_Task: Final[Callable[..., asyncio.Task[None]]] = (
    partial(cast("Any", asyncio.Task), eager_start=True) if sys.version_info >= (3, 12) else asyncio.Task
)

# Looked up once: before Python 3.12 the members of an enum are slow to get at.
_RUNNING: Final = RunState.RUNNING
_ALONGSIDE: Final = RunState.ALONGSIDE
_ENDED: Final = RunState.ENDED
_RESULT: Final = Outcome.RESULT


class Dispatcher:
    """Serves the messages of one session.

    make_context  makes what a function is given that wants a context, from the method and the request, None for a
                  notification
    is_connected  whether the session is started, and neither closed nor cut off
    send          sends bytes that may be b"", and never raises
    deadline      by the loop's clock, in seconds: how long `finish` waits

    The others are options of `Session`.
    """

    def __init__(
        self,
        handlers: Handlers,
        make_context: Callable[[str, InboundRequest | None], RequestContext],
        is_connected: Callable[[], bool],
        peer: Peer,
        transport: Transport,
        hooks: FoundHooks,
        send: Callable[[bytes], None],
        *,
        max_handlers: int,
        max_inbox: int,
        inbox_bytes: int,
        reply_bytes: int,
    ) -> None:
        self._handlers = handlers
        self._make_context = make_context
        self._is_connected = is_connected
        self._peer = peer
        self._transport = transport
        self._hooks = hooks
        self._is_traced = hooks.request_started is not None or hooks.request_served is not None
        self._send = send
        self._max_handlers = max_handlers
        self._max_inbox = max_inbox
        self._max_bytes = inbox_bytes
        self._reply_bytes = reply_bytes
        self._context = contextvars.copy_context()
        # The handlers.
        self._tasks: dict[asyncio.Task[None], Run] = {}  # that run or wait for the peer
        self._running = 0  # that have a slot
        self._waiting = 0  # that have none
        self._alongside = 0  # that need none
        self._alongside_bytes = 0
        self._queue: OrderedDict[Run, None] = OrderedDict()  # that are called, but not begun
        self._is_start_due = False
        self._is_overloaded = False
        # While the peer does not read.
        self._held: deque[tuple[Item, int]] = deque()  # with the bytes that each takes
        self._refusal_bytes = 0
        self._is_paused = False
        self._is_in_batch = False  # so nothing is read
        self._is_pressing = False  # reading goes on although too much is held
        self._rest_timer: asyncio.TimerHandle | None = None
        self._rest_level = 0  # of the write buffer
        self._drainer: asyncio.Task[None] | None = None
        self._bytes = 0  # that all that waits takes
        # The end.
        self.deadline: float = inf
        self.unanswered: int = 0
        """How many requests were dropped or cut off because the session was closed."""
        self._closing: set[Run] = set()
        self._bell: asyncio.Future[None] | None = None

    @property
    def inbox_items(self) -> int:
        """How many messages wait to be served."""
        return len(self._held) + len(self._queue)

    def tasks(self) -> set[asyncio.Task[None]]:
        """What has to end before everything that came is served."""
        return set(self._tasks) if self._drainer is None else {*self._tasks, self._drainer}

    # What comes.

    def admit(self, item: Item) -> None:
        """Serves a message now, or as soon as there is room; or refuses it."""
        if self._held or self._is_blocked():
            self._hold(item)
        else:
            self._serve(item)

    def begin_batch(self) -> None:
        """A batch takes several turns of the loop: nothing else is read until `end_batch`."""
        self._is_in_batch = True
        if not self._is_paused:
            self._transport.pause_reading()

    def end_batch(self) -> None:
        """All of it has been admitted."""
        self._is_in_batch = False
        if not self._is_paused:
            self._transport.resume_reading()
        self._look_idle()

    def reply(self, text: bytes) -> None:
        """Sends what answers a message that no handler serves."""
        if text:
            if self._is_blocked():
                self._refusal_bytes += len(text)
                if self._refusal_bytes > _REFUSAL_FACTOR * self._reply_bytes:
                    self._pause()
                self._watch()
            self._send(text)

    def refuse_busy(self, request: InboundRequest, trace: Trace = None) -> None:
        """Answers that the request is not served, and may be sent again."""
        self._refuse(request, trace, RpcError(SessionErrorCode.SERVER_BUSY, BUSY_MESSAGE))

    def cancel_request(self, request: InboundRequest) -> None:
        """The peer has no use for the answer any more."""
        if request.task is not None:
            request.task.cancel()
        else:
            # It is held, and is passed over when its turn comes.
            self._send(self._peer.answer_cancelled(request))
            self._conclude(request, None, Outcome.CANCELLED)

    def _turn_away(self, item: Item, trace: Trace = None) -> None:
        """There is no room for the message."""
        fault = StateError("more messages wait than the session has room for")
        if self._is_overloaded:
            self._hooks.peer_fault(fault)
        else:
            self._is_overloaded = True
            self._hooks.fault(fault)
        if type(item) is InboundRequest:
            self.refuse_busy(item, trace)
        else:
            self._conclude(item, trace, Outcome.ERROR, SessionErrorCode.SERVER_BUSY)

    def _has_room(self, size: int) -> bool:
        waiting = self.inbox_items + self._waiting
        if waiting >= self._max_inbox or (self._bytes and self._bytes + size > self._max_bytes):
            return False
        if waiting <= self._max_inbox // 2:
            self._is_overloaded = False
        return True

    # While the peer does not read.

    def _is_blocked(self) -> bool:
        return self._transport.write_buffer_bytes > self._reply_bytes

    def _hold(self, item: Item) -> None:
        size = _size(item.params, self._max_bytes)
        if not self._has_room(size):
            if self._is_pressing:
                self._turn_away(item)
                return
            self._rest()
        self._held.append((item, size))
        self._bytes += size
        self._watch()

    def _watch(self) -> None:
        if self._drainer is None:
            self._drainer = asyncio.Task(self._drain(), loop=asyncio.get_running_loop())  # never an eager one

    async def _drain(self) -> None:
        """Serves what is held as soon as the peer reads."""
        try:
            while self._held or self._refusal_bytes:
                await self._transport.drain()
                self._refusal_bytes = 0
                self._is_pressing = False
                self._stop_rest_timer()
                for _ in range(_TURN):
                    if not self._held:
                        break
                    item, size = self._held.popleft()
                    self._bytes -= size
                    self._serve(item)
                    # One at least: the transport's idea of a full buffer may be another one.
                    if self._is_blocked():
                        break
                if self._is_paused and len(self._held) <= self._max_inbox // 2:
                    self._resume()
                await asyncio.sleep(0)
        except (ConnectionLost, StateError):
            pass
        finally:
            self._drainer = None
            self._look_idle()

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            if not self._is_in_batch:
                self._transport.pause_reading()

    def _resume(self) -> None:
        self._is_paused = False
        if not self._is_in_batch:
            self._transport.resume_reading()

    def _rest(self) -> None:
        """Stops reading until the peer reads, or for a while."""
        if not self._is_paused:
            self._pause()
            self._rest_level = self._transport.write_buffer_bytes
            self._rest_timer = asyncio.get_running_loop().call_later(REST_SECONDS, self._look_again)

    def _look_again(self) -> None:
        level = self._transport.write_buffer_bytes
        if level < self._rest_level:
            self._rest_level = level
            self._rest_timer = asyncio.get_running_loop().call_later(REST_SECONDS, self._look_again)
        else:
            self._rest_timer = None
            self._is_pressing = True
            self._resume()

    def _stop_rest_timer(self) -> None:
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._rest_timer = None

    # Handlers.

    def _serve(self, item: Item) -> None:
        request = item if type(item) is InboundRequest else None
        if request is not None and request.is_cancelled:
            return
        handler = self._handlers.find(item.method)
        if handler is None:
            if request is not None:
                self._refuse(request, None, RpcError(ErrorCode.METHOD_NOT_FOUND, "Method not found"))
        else:
            # Not in the context of whoever made the transport read, which may be another handler.
            self._context.copy().run(self._call, handler, item, request)

    def _call(self, handler: Handler, item: Item, request: InboundRequest | None) -> None:
        trace = self._started(item, request) if self._is_traced else None
        try:
            context = self._make_context(item.method, request) if handler.wants_context else None
            result = handler.invoke(item.params, context)
        except BaseException as error:
            self._failed(item, request, trace, error)
            if isinstance(error, KeyboardInterrupt):
                raise
        else:
            # As `is_awaitable`, without a call.
            if type(result) not in NEVER_AWAITABLE and hasattr(type(result), "__await__"):
                self._begin(Run(self, result, item, request, trace))
            else:
                self._succeeded(item, request, trace, result)

    def _begin(self, run: Run) -> None:
        """Starts a handler that has returned an awaitable, or puts it into the queue."""
        current_run.set(run)
        needs_slot = type(run.work) is CoroutineType or not asyncio.isfuture(run.work)
        has_slot = self._running < self._max_handlers and not self._queue
        if needs_slot and not has_slot:
            run.size = _size(run.item.params, self._max_bytes)
            if self._has_room(run.size):
                run.context = contextvars.copy_context()
                if run.request is not None:
                    run.request.task = run
                self._queue[run] = None
                self._bytes += run.size
                return
        elif needs_slot:
            if not self._waiting or self._has_room(0):
                self._start(run)
                return
        elif self._alongside < self._max_inbox:
            run.size = _size(run.item.params, self._max_bytes)
            if not self._alongside_bytes or self._alongside_bytes + run.size <= self._max_bytes:
                run.state = _ALONGSIDE
                self._start(run)
                return
        run.state = _ENDED
        self._discard(run)
        self._turn_away(run.item, run.trace)

    def _start(self, run: Run) -> None:
        if run.state is _ALONGSIDE:
            self._alongside += 1
            self._alongside_bytes += run.size
        else:
            run.state = _RUNNING
            self._running += 1
            if run.waits:
                self.run_waits(run)
        task = _Task(self._await(run), loop=asyncio.get_running_loop())
        if task.done():
            # An eager one. What of it was not left in `_await` is left here.
            if run.state is not _ENDED:
                self._leave(run)
                self._judge(run, task)
            return
        run.task = task
        run.when_done = when_done = partial(self._task_done, run)
        task.add_done_callback(when_done)
        self._tasks[task] = run
        if run.request is not None:
            run.request.task = run

    def _start_queued(self) -> None:
        self._is_start_due = False
        for _ in range(_TURN):
            if not self._queue or self._running >= self._max_handlers:
                return
            run, _ = self._queue.popitem(last=False)
            self._bytes -= run.size
            context, run.context = run.context, None
            assert context is not None
            context.run(self._start, run)
        self._start_soon()

    def _start_soon(self) -> None:
        # Not at once: a handler that begins to wait may have been started for one that began to wait.
        if self._queue and not self._is_start_due:
            self._is_start_due = True
            asyncio.get_running_loop().call_soon(self._start_queued)

    async def _await(self, run: Run) -> None:
        try:
            result = await run.work
        except GeneratorExit:
            raise  # thrown away together with its loop; if the handler itself raised it, `_judge` is going to see it
        except BaseException as error:
            run.is_concluded = True
            self._failed(run.item, run.request, run.trace, error)
            if isinstance(error, KeyboardInterrupt):
                raise
        else:
            run.is_concluded = True
            self._succeeded(run.item, run.request, run.trace, result)
        # Here and not in `_task_done`, which would cost a turn of the loop: nothing comes between this and the end.
        task = run.task
        if task is not None:
            task.remove_done_callback(run.when_done)
            del self._tasks[task]
        self._leave(run)
        if self._queue:
            self._start_soon()
        if self._bell is not None:
            self._look_idle()

    def _task_done(self, run: Run, task: asyncio.Task[None]) -> None:
        """A handler ended in another way than by its own: it was cancelled before its first step, for one."""
        del self._tasks[task]
        self._leave(run)
        self._judge(run, task)
        if self._queue:
            self._start_queued()
        self._look_idle()

    def _leave(self, run: Run) -> None:
        if run.state is _RUNNING:
            self._running -= 1
        elif run.state is _ALONGSIDE:
            self._alongside -= 1
            self._alongside_bytes -= run.size
        else:
            self._waiting -= 1
            self._bytes -= run.size
        run.state = _ENDED
        if self._closing:
            self._closing.discard(run)
        # The task refers to its context, and that to the run: what is garbage is to be freed at once.
        run.task = run.when_done = None
        if run.request is not None:
            run.request.task = None

    def _judge(self, run: Run, task: asyncio.Task[None]) -> None:
        """Concludes what could not do so itself."""
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if not run.is_concluded:
            # Cancelled before its first step, most often: then nothing of it has run.
            self._discard(run)
            self._failed(run.item, run.request, run.trace, error or asyncio.CancelledError())
        elif error is not None and not isinstance(error, (asyncio.CancelledError, KeyboardInterrupt)):
            self._hooks.fault(error)

    def _discard(self, run: Run) -> None:
        """Leaves the work of a handler that was not begun."""
        work: Any = run.work
        if asyncio.iscoroutine(work):
            work.close()
        elif asyncio.isfuture(work):
            work.cancel()

    # Called by a `Run`.

    def run_waits(self, run: Run) -> None:
        """A handler begins to wait for a peer."""
        run.state = RunState.WAITING
        if run.size < 0:
            run.size = _size(run.item.params, self._max_bytes)
        self._running -= 1
        self._waiting += 1
        self._bytes += run.size
        self._start_soon()

    def run_goes_on(self, run: Run) -> None:
        """It has its answer."""
        run.state = _RUNNING
        self._running += 1
        self._waiting -= 1
        self._bytes -= run.size

    def abandon(self, run: Run) -> None:
        """Ends a handler that is in the queue."""
        if run not in self._queue:
            return
        del self._queue[run]
        self._bytes -= run.size
        run.state = _ENDED
        self._discard(run)
        context, run.context = run.context, None
        assert context is not None
        context.run(self._failed, run.item, run.request, run.trace, asyncio.CancelledError())
        if run.request is not None:
            run.request.task = None
        self._look_idle()

    # The end.

    def spare(self, run: Run) -> None:
        """A handler ends the session: it is neither waited for nor cancelled."""
        if run.state is not _ENDED:
            self._closing.add(run)

    def finish_by(self, deadline: float) -> None:
        """Has `finish` wait no longer than that."""
        self.deadline = min(self.deadline, deadline)
        self._ring()

    async def finish(self) -> None:
        """Waits until all that came is served, or for `deadline`."""
        loop = asyncio.get_running_loop()
        while not self._is_idle() and loop.time() < self.deadline:
            self._bell = loop.create_future()
            timer = None if self.deadline == inf else loop.call_at(self.deadline, self._ring)
            try:
                await self._bell
            finally:
                self._bell = None
                if timer is not None:
                    timer.cancel()

    def _is_idle(self) -> bool:
        return not self._is_in_batch and not self._held and not self._queue and len(self._tasks) <= len(self._closing)

    def _look_idle(self) -> None:
        if self._bell is not None and self._is_idle():
            self._ring()

    def _ring(self) -> None:
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    def cancel(self, but: Run | None = None) -> set[asyncio.Task[None]]:
        """Drops what waits and cancels all handlers but those that close, and `but`. Returns the tasks to wait for."""
        held, self._held = self._held, deque()
        for item, size in held:
            self._bytes -= size
            if type(item) is InboundRequest and not item.is_cancelled:
                self._give_up(item, None)
        for run in list(self._queue):
            self.abandon(run)
        self._stop_rest_timer()
        tasks = {task for task, run in self._tasks.items() if run is not but and run not in self._closing}
        if self._drainer is not None:
            tasks.add(self._drainer)
        for task in tasks:
            task.cancel()
        return tasks

    def count_unanswered(self) -> None:
        """Counts the requests of handlers that go on although they were cancelled."""
        for run in self._tasks.values():
            request = run.request
            if request is not None and not request.is_cancelled and run not in self._closing:
                self.unanswered += 1

    # What came of it.

    def _succeeded(self, item: Item, request: InboundRequest | None, trace: Trace, result: Any) -> None:
        outcome, code = _RESULT, None
        if request is not None:
            try:
                text = self._peer.answer(request, result)
            except HANDLER_FAILURES as error:  # EncodeError, or what a payload's own methods raise
                self._hooks.handler_fault(error, item.method, request.id)
                outcome, code = Outcome.ERROR, int(ErrorCode.INTERNAL_ERROR)
                text = self._peer.refuse(request, code, RPC_MESSAGES[ErrorCode.INTERNAL_ERROR])
            self._send(text)
        if self._hooks.request_served is not None:
            self._conclude(item, trace, outcome, code)

    def _failed(self, item: Item, request: InboundRequest | None, trace: Trace, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError) and (
            request is None or request.is_cancelled or not self._is_connected()
        ):
            if request is not None:
                self._give_up(request, trace)
            else:
                self._conclude(item, trace, Outcome.CANCELLED)
        elif request is not None and isinstance(error, RpcError):
            self._refuse(request, trace, error)
        else:
            self._hooks.handler_fault(error, item.method, None if request is None else request.id)
            internal = RpcError(ErrorCode.INTERNAL_ERROR, RPC_MESSAGES[ErrorCode.INTERNAL_ERROR])
            if request is not None:
                self._refuse(request, trace, internal)
            else:
                self._conclude(item, trace, Outcome.ERROR, internal.code)

    def _refuse(self, request: InboundRequest, trace: Trace, error: RpcError) -> None:
        try:
            code = int(error.code)
            text = self._peer.refuse(request, code, error.message, error.data)
        except HANDLER_FAILURES as fault:  # data that cannot be written, or a subclass that lacks one of the others
            self._hooks.handler_fault(fault, request.method, request.id)
            code = int(ErrorCode.INTERNAL_ERROR)
            text = self._peer.refuse(request, code, RPC_MESSAGES[ErrorCode.INTERNAL_ERROR])
        self.reply(text)
        self._conclude(request, trace, Outcome.ERROR, code)

    def _give_up(self, request: InboundRequest, trace: Trace) -> None:
        """The request was cancelled, or its handler because the session ends."""
        if request.is_cancelled:
            self._send(self._peer.answer_cancelled(request))
        else:
            self.unanswered += self._peer.serving.has(request.id, request)
            self._send(self._peer.drop(request))
        self._conclude(request, trace, Outcome.CANCELLED)

    def _started(self, item: Item, request: InboundRequest | None) -> Trace:
        now = asyncio.get_running_loop().time()
        started = self._hooks.request_started
        return None if started is None else started(None if request is None else request.id, item.method), now

    def _conclude(self, item: Item, trace: Trace, outcome: Outcome, code: int | None = None) -> None:
        served = self._hooks.request_served
        if served is not None:
            id = item.id if isinstance(item, InboundRequest) else None
            shown, started = trace if trace is not None else (None, None)
            seconds = 0.0 if started is None else asyncio.get_running_loop().time() - started
            served(shown, id, item.method, outcome, code, seconds)


_LEAF_BYTES: Final = 32  # of a number or a short text, about


def _size(params: Any, enough: int) -> int:
    """About how many bytes of memory params take. It stops counting at `enough`, before it copies a long container."""
    if type(params) is Raw:
        return getsizeof(params) + len(params)
    size = 0
    level = [params] if type(params) is dict or type(params) is list else []
    while level:
        size += sum(map(getsizeof, level)) + _LEAF_BYTES * sum(map(len, level))
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
