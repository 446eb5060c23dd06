"""The serving half of a session: runs handlers, queues what must wait, and refuses what has no room.

One class, although long: room, slots, the queue and the pause are one state machine, and a message goes through all of
them in one turn of the loop.

Rules:
  - responses and cancellations are always read, so a handler that waits for one can always continue;
  - messages are served in the order of arrival: each function is called when its message is read. A sync function has
    then served it. A coroutine gets a task and one of `max_handlers` slots, or waits for a slot in the queue. Another
    awaitable, such as a future, is already at work and needs no slot;
  - a request whose function answers at once is not registered as being served: nothing can arrive meanwhile. Batches,
    hooks and functions that take the context need its registration first;
  - a handler that waits in `Session.call`, of this or another session, holds no slot: the peer may ask for something
    else before it answers. When such handlers continue, more than `max_handlers` may run for a while;
  - the queue and the handlers that wait for the peer are bounded together: by `max_inbox` messages and `inbox_bytes` of
    memory. Beyond that a request of an async method is refused (SERVER_BUSY), and a notification is dropped and
    reported as a fault. Sync methods and unknown methods are always served. Handlers that need no slot have the same
    bounds of their own;
  - while more than `reply_bytes` wait in the transport's write buffer, the peer does not read, and nothing is served:
    messages are held, within the same bounds. At the bounds, reading pauses until the peer reads. If it reads nothing
    for PAUSE_SECONDS it may have paused as well, so reading resumes and messages are refused, until there are too many
    refusals for a peer that works;
  - sessions of a group (group.py) share further bounds of the same kinds;
  - each handler runs in a copy of the context (`contextvars`) in which the session was created;
  - an RpcError that a handler raises is the answer. Any other exception except KeyboardInterrupt, and a result that
    cannot be encoded, is answered with -32603 without details, and reported as a fault on this side;
  - a cancelled request is answered as the convention says, after its handler has ended. A handler that this side
    cancelled, as a loop does that ends, has not failed: the answer is -32603, and nothing is reported;
  - a notification is never answered.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from contextvars import Context
from functools import partial
from math import inf
from types import CoroutineType
from typing import Any, Final, cast

from ..codec import Request
from ..codes import BUSY_MESSAGE, RPC_MESSAGES, ErrorCode, SessionErrorCode
from ..errors import HANDLER_FAILURES, ConnectionLost, RpcError, StateError, standard_error
from ..handlers import NEVER_AWAITABLE, Handler, Handlers, RequestContext
from ..handlers.cancellation import is_stray
from ..handlers.replies import error_reply, failure_reply
from ..transports.protocol import Transport
from ..types import UNSET, MessageId, Unset
from .events import InboundRequest
from .group import SessionGroup
from .hooks import FoundHooks
from .peer import Peer
from .running import Item, Run, RunState, Trace, current_run
from .sizes import memory_of
from .tracker import Outcome

PAUSE_SECONDS: Final = 0.5
"""Seconds for which reading pauses for a peer that reads nothing."""

_REFUSAL_FACTOR: Final = 16
"""Beyond this multiple of `reply_bytes` in refusals and error replies, reading pauses until the peer reads."""

_INTERNAL_ERROR: Final = int(ErrorCode.INTERNAL_ERROR)

_TURN_MESSAGES: Final = 256
"""Maximum number of waiting messages to serve in one turn of the loop."""

_IS_EAGER: Final = sys.version_info >= (3, 12)
_Task: Final[Callable[..., asyncio.Task[None]]] = (
    partial(cast("Any", asyncio.Task), eager_start=True) if _IS_EAGER else asyncio.Task
)
_SHARES_CONTEXT: Final = sys.version_info[:2] == (3, 11)
"""Whether a task can run in an existing context: before, there is no such argument; an eager task needs a copy."""

# Looked up once: before Python 3.12 access to enum members is slow.
_RUNNING: Final = RunState.RUNNING
_ALONGSIDE: Final = RunState.ALONGSIDE
_ENDED: Final = RunState.ENDED
_RESULT: Final = Outcome.RESULT


class Dispatcher:
    """Serves the messages of one session.

    Args:
        handlers: The functions by method.
        make_context: Returns the context for a function that takes one. Its arguments are the method and the request;
            None for a notification.
        is_connected: Returns whether the session is started and its connection is open.
        peer: The protocol state of the session.
        transport: The transport of the session.
        hooks: The hooks of the session.
        send: Sends bytes, which may be b"", and never raises.
        max_handlers: As in `Session`, like the other options.

    Attributes:
        find: Returns the handler of a method, or None.
        deadline: Until when `finish` waits, in seconds by the loop's clock.
        unanswered: The number of requests that were dropped or cut off because the session was closed.
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
        group: SessionGroup | None = None,
    ) -> None:
        self.find: Callable[[str], Handler | None] = handlers.finder()
        self._make_context = make_context
        self._is_connected = is_connected
        self._peer = peer
        self._transport = transport
        self._hooks = hooks
        self._is_traced = any((hooks.request_started, hooks.request_received, hooks.request_served))
        peer.reads_trace = hooks.request_received is not None
        self._send = send
        self._max_handlers = max_handlers
        self._max_inbox = max_inbox
        self._max_bytes = inbox_bytes
        self._reply_bytes = reply_bytes
        self._group = group
        self._send_reply: Callable[[bytes, MessageId | Unset], None] | None = getattr(transport, "send_reply", None)
        # Where every message has a request of its own, as over HTTP, handlers run in the context of that request.
        self._new_context: Callable[[], Context] = (
            contextvars.copy_context().copy if self._send_reply is None else contextvars.copy_context
        )
        # The handlers.
        self._tasks: dict[asyncio.Task[None], Run] = {}  # of handlers that run or wait for the peer
        self._when_done = self._task_done  # one object, which a task finds quickly among its callbacks
        self._running = 0  # number with a slot
        self._waiting = 0  # number that wait for a peer, without a slot
        self._alongside = 0  # number that need no slot
        self._alongside_bytes = 0
        self._queue: OrderedDict[Run, None] = OrderedDict()  # called, but without a slot yet
        self._is_start_due = False
        self._is_overloaded = False
        # While the peer does not read.
        self._held: deque[tuple[Item, int, Context | None]] = deque()  # with their sizes in bytes
        self._refusal_bytes = 0
        self._is_paused = False
        self._is_in_batch = False  # nothing is read meanwhile
        self._reads_regardless = False  # reading continues although too much is held
        self._pause_timer: asyncio.TimerHandle | None = None
        self._pause_level = 0  # of the write buffer
        self._drainer: asyncio.Task[None] | None = None
        self._bytes = 0  # total size of everything that waits
        # The end.
        self.deadline: float = inf
        self.unanswered: int = 0
        self._closing: set[Run] = set()
        self._waker: asyncio.Future[None] | None = None  # while `finish` waits

    @property
    def inbox_items(self) -> int:
        """The number of messages that wait to be served."""
        return len(self._held) + len(self._queue)

    def kept_bytes(self) -> int:
        """Return the size of the messages that wait or are being served."""
        size = self._bytes + self._alongside_bytes
        for run in self._tasks.values():
            if run.state is _RUNNING:
                if run.size < 0:
                    run.size = memory_of(run.item.params, self._max_bytes)
                size += run.size
        return size

    @property
    def is_busy(self) -> bool:
        """Whether a handler runs, or a message waits."""
        return bool(self._tasks or self._held or self._queue or self._drainer)

    def tasks(self) -> set[asyncio.Task[None]]:
        """Return the tasks that have to end before every received message is served."""
        return set(self._tasks) if self._drainer is None else {*self._tasks, self._drainer}

    # Receiving.

    def admit(self, item: Item) -> None:
        """Serve a message now or as soon as there is room, or refuse it."""
        if self._held or self._transport.write_buffer_bytes > self._reply_bytes:
            self._hold(item)
        else:
            self._serve(item)

    def serve_at_once(self, message: Request) -> bool:
        """Serve a request that is not in a batch, and register it only if it is not answered at once.

        Returns:
            False if the request was not served: it has to wait, or its id has to be known while the function runs.
        """
        if self._held or self._is_traced or self._transport.write_buffer_bytes > self._reply_bytes:
            return False
        handler = self.find(message.method)
        if handler is None or handler.wants_context:
            return False
        serving = self._peer.serving
        if serving.requests and serving.find(message.id) is not None:
            return False
        context = self._new_context()
        context.run(self._call, handler, message, context)
        return True

    def _serve(self, item: Item) -> None:
        handler = self.find(item.method)
        if handler is not None:
            # Whatever made the transport read, such as another handler, has a context of its own.
            context = self._new_context()
            context.run(self._call, handler, item, context)
        elif type(item) is InboundRequest:
            self._refuse(item, None, standard_error(ErrorCode.METHOD_NOT_FOUND))

    def begin_batch(self) -> None:
        """Pause reading until `end_batch`, because a batch takes several turns of the loop."""
        self._is_in_batch = True
        if not self._is_paused:
            self._transport.pause_reading()

    def end_batch(self) -> None:
        """Resume reading: the whole batch has been admitted."""
        self._is_in_batch = False
        if not self._is_paused:
            self._transport.resume_reading()
        self._check_idle()

    def reply(self, text: bytes, request: InboundRequest | None = None) -> None:
        """Send a reply that no handler gave; `request` is None for a batch, and for a request that is not served."""
        if self._send_reply is not None:
            self._reply_to(request, text)
        elif text:
            if self._is_blocked():
                self._refusal_bytes += len(text)
                if self._refusal_bytes > _REFUSAL_FACTOR * self._reply_bytes:
                    self._pause()
                self._start_drainer()
            self._send(text)

    def refuse_busy(self, request: InboundRequest, trace: Trace = None) -> None:
        """Refuse a request that may be sent again later."""
        self._refuse(request, trace, RpcError(SessionErrorCode.SERVER_BUSY, BUSY_MESSAGE))

    def cancel_request(self, request: InboundRequest) -> None:
        """Cancel the handler of a request, or skip the request if it is held."""
        if request.task is not None:
            request.task.cancel()
        else:
            self._reply_to(request, self._peer.answer_cancelled(request))
            self._conclude(request, None, Outcome.CANCELLED)

    def _reply_to(self, request: InboundRequest | None, text: bytes) -> None:
        if self._send_reply is None:
            self._send(text)
        else:
            self._send_reply(text, UNSET if request is None else request.id)

    def _refuse_for_room(self, item: Item, trace: Trace = None) -> None:
        """Refuse a message because there is no room for it."""
        fault = StateError("too many messages wait to be served")
        if self._is_overloaded:
            self._hooks.peer_fault(fault)
        else:
            self._is_overloaded = True
            self._hooks.fault(fault)
        if type(item) is InboundRequest:
            self.refuse_busy(item, trace)
        else:
            self._conclude(item, trace, Outcome.ERROR, SessionErrorCode.SERVER_BUSY)

    def _keep(self, size: int) -> None:
        """Count a message that waits, or whose handler waits for the peer."""
        self._bytes += size
        if self._group is not None:
            self._group.keep(size)

    def _drop(self, size: int) -> None:
        """Count it no longer."""
        self._bytes -= size
        if self._group is not None:
            self._group.drop(size)

    def _has_room(self, size: int) -> bool:
        waiting = self.inbox_items + self._waiting
        if waiting >= self._max_inbox or (self._bytes and self._bytes + size > self._max_bytes):
            return False
        if waiting and self._group is not None and not self._group.has_room(size):
            return False
        if waiting <= self._max_inbox // 2:
            self._is_overloaded = False
        return True

    # Holding, while the peer does not read.

    def _is_blocked(self) -> bool:
        return self._transport.write_buffer_bytes > self._reply_bytes

    def _hold(self, item: Item) -> None:
        size = memory_of(item.params, self._max_bytes)
        if not self._has_room(size):
            if self._reads_regardless:
                self._refuse_for_room(item)
                return
            self._pause_for_a_while()
        self._held.append((item, size, None if self._send_reply is None else contextvars.copy_context()))
        self._keep(size)
        self._start_drainer()

    def _start_drainer(self) -> None:
        if self._drainer is None:
            self._drainer = asyncio.Task(self._drain(), loop=asyncio.get_running_loop())  # never an eager one

    async def _drain(self) -> None:
        """Serve the held messages as soon as the peer reads."""
        try:
            while self._held or self._refusal_bytes:
                await self._transport.drain()
                self._refusal_bytes = 0
                self._reads_regardless = False
                self._stop_pause_timer()
                for _ in range(_TURN_MESSAGES):
                    if not self._held:
                        break
                    item, size, context = self._held.popleft()
                    self._drop(size)
                    if type(item) is InboundRequest and item.is_cancelled:
                        continue
                    if context is None:
                        self._serve(item)
                    else:
                        context.run(self._serve, item)
                    # At least one, because the transport's high-water mark may be below `reply_bytes`.
                    if self._is_blocked():
                        break
                if self._is_paused and len(self._held) <= self._max_inbox // 2:
                    self._resume()
                await asyncio.sleep(0)
        except (ConnectionLost, StateError):
            pass
        finally:
            self._drainer = None
            self._check_idle()

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            if not self._is_in_batch:
                self._transport.pause_reading()

    def _resume(self) -> None:
        self._is_paused = False
        if not self._is_in_batch:
            self._transport.resume_reading()

    def _pause_for_a_while(self) -> None:
        """Stop reading until the peer reads, for PAUSE_SECONDS at least."""
        if not self._is_paused:
            self._pause()
            self._pause_level = self._transport.write_buffer_bytes
            self._pause_timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._check_pause)

    def _check_pause(self) -> None:
        level = self._transport.write_buffer_bytes
        if level < self._pause_level:
            self._pause_level = level
            self._pause_timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._check_pause)
        else:
            self._pause_timer = None
            self._reads_regardless = True
            self._resume()

    def _stop_pause_timer(self) -> None:
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None

    # Handlers.

    def _call(self, handler: Handler, item: Item | Request, context: Context) -> None:
        """Call a function. A `Request` is not registered yet."""
        request = item if type(item) is InboundRequest else None
        trace = self._started(item, request) if self._is_traced else None
        try:
            shown = self._make_context(item.method, request) if handler.wants_context else None
            result = handler.invoke(item.params, shown)
        except BaseException as error:
            if type(item) is Request:
                item = request = self._peer.register(item)
            self._failed(item, request, trace, error)
            if isinstance(error, KeyboardInterrupt):
                raise
            return
        kind = type(result)
        # As `is_awaitable`, without a call.
        if kind is CoroutineType or (kind not in NEVER_AWAITABLE and hasattr(kind, "__await__")):
            if type(item) is Request:
                item = request = self._peer.register(item)
            self._begin(Run(self, result, item, request, trace, context))
        elif type(item) is Request:
            try:
                text = self._peer.encode_result(item.id, result)
            except HANDLER_FAILURES as error:
                text, _ = self._failure_reply(self._peer.register(item), error)
            if self._send_reply is not None:
                self._send_reply(text, item.id)
                return
            try:  # noqa: SIM105  # as `_send`, without a call
                self._transport.send(text)
            except (ConnectionLost, StateError):
                pass
        else:
            self._succeeded(item, request, trace, result)

    def _begin(self, run: Run) -> None:
        """Start a handler that returned an awaitable, queue it, or refuse its message."""
        current_run.set(run)
        needs_slot = type(run.work) is CoroutineType or not asyncio.isfuture(run.work)
        has_slot = (
            self._running < self._max_handlers and not self._queue and (self._group is None or self._group.has_slot())
        )
        if needs_slot and not has_slot:
            run.size = memory_of(run.item.params, self._max_bytes)
            if self._has_room(run.size):
                if run.request is not None:
                    run.request.task = run
                self._queue[run] = None
                self._keep(run.size)
                if self._group is not None and self._running < self._max_handlers:
                    self._group.enqueue(self)
                return
        elif needs_slot:
            if not self._waiting or self._has_room(0):
                self._start(run)
                return
        elif self._alongside < self._max_inbox:
            run.size = memory_of(run.item.params, self._max_bytes)
            has_room = not self._alongside_bytes or self._alongside_bytes + run.size <= self._max_bytes
            if has_room and (not self._alongside or self._group is None or self._group.has_room(run.size)):
                run.state = _ALONGSIDE
                self._start(run)
                return
        run.state = _ENDED
        run.context = None
        self._discard(run)
        self._refuse_for_room(run.item, run.trace)

    def _start(self, run: Run) -> None:
        if run.state is _ALONGSIDE:
            self._alongside += 1
            self._alongside_bytes += run.size
            if self._group is not None:
                self._group.keep(run.size)
        else:
            run.state = _RUNNING
            self._running += 1
            if self._group is not None:
                self._group.running += 1
            if run.waits:
                self.run_waits(run)
        if _SHARES_CONTEXT:
            task = _Task(self._await(run), name=run.item.method, context=run.context)
        else:
            task = _Task(self._await(run), loop=asyncio.get_running_loop(), name=run.item.method)
        if _IS_EAGER and task.done():
            # An eager task that ended at once, without `_await` doing all of this.
            if run.state is not _ENDED:
                self._leave(run)
                self._conclude_task(run, task)
            return
        run.task = task
        task.add_done_callback(self._when_done, context=run.context)
        self._tasks[task] = run
        if run.request is not None:
            run.request.task = run

    def _start_queued(self) -> None:
        self._is_start_due = False
        for _ in range(_TURN_MESSAGES):
            if not self._queue or self._running >= self._max_handlers:
                return
            if self._group is not None:
                self._group.enqueue(self)
                return
            self.start_one()
        self._start_soon()

    def start_one(self) -> bool:
        """Start the first handler in the queue, if there is a slot. Return whether another one could start now."""
        if not self._queue or self._running >= self._max_handlers:
            return False
        run, _ = self._queue.popitem(last=False)
        self._drop(run.size)
        assert run.context is not None
        run.context.run(self._start, run)
        return bool(self._queue) and self._running < self._max_handlers

    def _start_soon(self) -> None:
        # Not at once: it would recurse when handlers that are started begin to wait.
        if self._queue and not self._is_start_due:
            self._is_start_due = True
            asyncio.get_running_loop().call_soon(self._start_queued)

    async def _await(self, run: Run) -> None:
        try:
            result = await run.work
        except GeneratorExit:
            raise  # the loop is gone; if the handler itself raised it, `_conclude_task` handles it
        except BaseException as error:
            run.is_concluded = True
            is_cancelled = isinstance(error, asyncio.CancelledError) and not is_stray(error)
            self._failed(run.item, run.request, run.trace, error, is_cancelled)
            if isinstance(error, KeyboardInterrupt):
                raise
        else:
            run.is_concluded = True
            self._succeeded(run.item, run.request, run.trace, result)
        # Here and not in `_task_done`, which would cost a turn of the loop: nothing can fail after this.
        task = run.task
        if task is not None:
            task.remove_done_callback(self._when_done)
            del self._tasks[task]
        if run.state is _RUNNING and not self._closing:  # as `_leave`, without a call
            self._running -= 1
            if self._group is not None:
                self._group.release()
            run.state = _ENDED
            run.task = run.context = None
            if run.request is not None:
                run.request.task = None
        else:
            self._leave(run)
        if self._queue:
            self._start_soon()
        if self._waker is not None:
            self._check_idle()

    def _task_done(self, task: asyncio.Task[None]) -> None:
        """Clean up after a task that did not reach its end, such as one cancelled before its first step."""
        run = self._tasks.pop(task)
        self._leave(run)
        self._conclude_task(run, task)
        if self._queue:
            self._start_queued()
        self._check_idle()

    def _leave(self, run: Run) -> None:
        if run.state is _RUNNING:
            self._running -= 1
            if self._group is not None:
                self._group.release()
        elif run.state is _ALONGSIDE:
            self._alongside -= 1
            self._alongside_bytes -= run.size
            if self._group is not None:
                self._group.drop(run.size)
        else:
            self._waiting -= 1
            self._drop(run.size)
        run.state = _ENDED
        if self._closing:
            self._closing.discard(run)
        # Break the cycle of task, context and run, so that they are freed at once.
        run.task = run.context = None
        if run.request is not None:
            run.request.task = None

    def _conclude_task(self, run: Run, task: asyncio.Task[None]) -> None:
        """Report the outcome of a task that could not do so itself."""
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if not run.is_concluded:
            # Usually cancelled before its first step: the handler's coroutine has not begun.
            self._discard(run)
            self._failed(run.item, run.request, run.trace, error or asyncio.CancelledError(), task.cancelled())
        elif error is not None and not isinstance(error, (asyncio.CancelledError, KeyboardInterrupt)):
            self._hooks.fault(error)

    def _discard(self, run: Run) -> None:
        """Drop the awaitable of a handler that has not begun."""
        work: Any = run.work
        if asyncio.iscoroutine(work):
            work.close()
        elif asyncio.isfuture(work):
            work.cancel()

    # Called by a `Run`.

    def run_waits(self, run: Run) -> None:
        """Take the slot of a handler that begins to wait for a peer."""
        run.state = RunState.WAITING
        if run.size < 0:
            run.size = memory_of(run.item.params, self._max_bytes)
        self._running -= 1
        if self._group is not None:
            self._group.release()
        self._waiting += 1
        self._keep(run.size)
        self._start_soon()

    def run_continues(self, run: Run) -> None:
        """Give a handler that waits no longer its slot back."""
        run.state = _RUNNING
        self._running += 1
        if self._group is not None:
            self._group.running += 1
        self._waiting -= 1
        self._drop(run.size)

    def abandon(self, run: Run) -> None:
        """End a handler that is in the queue."""
        if run not in self._queue:
            return
        del self._queue[run]
        self._drop(run.size)
        run.state = _ENDED
        self._discard(run)
        context, run.context = run.context, None
        assert context is not None
        context.run(self._failed, run.item, run.request, run.trace, asyncio.CancelledError(), True)
        if run.request is not None:
            run.request.task = None
        self._check_idle()

    # Closing.

    def spare(self, run: Run) -> None:
        """Neither wait for a handler nor cancel it, because it is the one that closes the session."""
        if run.state is not _ENDED:
            self._closing.add(run)

    def finish_by(self, deadline: float) -> None:
        """Let `finish` wait no longer than this."""
        self.deadline = min(self.deadline, deadline)
        self._wake()

    async def finish(self) -> None:
        """Wait until every received message is served, or until `deadline`."""
        loop = asyncio.get_running_loop()
        while not self._is_idle() and loop.time() < self.deadline:
            self._waker = loop.create_future()
            timer = None if self.deadline == inf else loop.call_at(self.deadline, self._wake)
            try:
                await self._waker
            finally:
                self._waker = None
                if timer is not None:
                    timer.cancel()

    def _is_idle(self) -> bool:
        return not self._is_in_batch and not self._held and not self._queue and len(self._tasks) <= len(self._closing)

    def _check_idle(self) -> None:
        if self._waker is not None and self._is_idle():
            self._wake()

    def _wake(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    def cancel(self, but: Run | None = None) -> set[asyncio.Task[None]]:
        """Drop waiting messages, cancel all handlers except those that close and `but`, and return their tasks."""
        held, self._held = self._held, deque()
        for item, size, _ in held:
            self._drop(size)
            if type(item) is InboundRequest and not item.is_cancelled:
                self._give_up(item, None)
        for run in list(self._queue):
            self.abandon(run)
        if self._group is not None:
            self._group.leave(self)
        self._stop_pause_timer()
        tasks = {task for task, run in self._tasks.items() if run is not but and run not in self._closing}
        if self._drainer is not None:
            tasks.add(self._drainer)
        for task in tasks:
            task.cancel()
        return tasks

    def count_unanswered(self) -> None:
        """Count the requests of handlers that continue although they were cancelled."""
        for run in self._tasks.values():
            request = run.request
            if request is not None and not request.is_cancelled and run not in self._closing:
                self.unanswered += 1

    # Outcomes.

    def _succeeded(self, item: Item, request: InboundRequest | None, trace: Trace, result: Any) -> None:
        outcome, code = _RESULT, None
        if request is not None:
            try:
                text = self._peer.answer(request, result)
            except HANDLER_FAILURES as error:  # an EncodeError, or what the methods of a payload raise
                outcome = Outcome.ERROR
                text, code = self._failure_reply(request, error)
            if self._send_reply is not None:
                self._send_reply(text, request.id)
            elif text:
                try:  # noqa: SIM105  # as `_send`, without a call
                    self._transport.send(text)
                except (ConnectionLost, StateError):
                    pass
        if self._hooks.request_served is not None:
            self._conclude(item, trace, outcome, code)

    def _failed(
        self,
        item: Item,
        request: InboundRequest | None,
        trace: Trace,
        error: BaseException,
        is_cancelled: bool = False,  # the task was, by whomever
    ) -> None:
        if isinstance(error, asyncio.CancelledError) and (
            request is None or request.is_cancelled or not self._is_connected()
        ):
            if request is not None:
                self._give_up(request, trace)
            else:
                self._conclude(item, trace, Outcome.CANCELLED)
        elif request is not None and is_cancelled:  # such as by the loop that ends: nothing has failed
            self.reply(
                self._peer.refuse(request, _INTERNAL_ERROR, RPC_MESSAGES[ErrorCode.INTERNAL_ERROR], UNSET), request
            )
            self._conclude(request, trace, Outcome.CANCELLED)
        elif request is not None:
            self._refuse(request, trace, error)
        else:
            self._hooks.handler_fault(error, item.method, None)
            self._conclude(item, trace, Outcome.ERROR, _INTERNAL_ERROR)

    def _refuse(self, request: InboundRequest, trace: Trace, error: BaseException) -> None:
        refuse = partial(self._peer.refuse, request)
        text, code = error_reply(error, request.method, request.id, refuse, self._hooks.handler_fault)
        self.reply(text, request)
        self._conclude(request, trace, Outcome.ERROR, code)

    def _failure_reply(self, request: InboundRequest, error: BaseException) -> tuple[bytes, int]:
        refuse = partial(self._peer.refuse, request)
        return failure_reply(error, request.method, request.id, refuse, self._hooks.handler_fault)

    def _give_up(self, request: InboundRequest, trace: Trace) -> None:
        """Conclude a request that the peer cancelled, or whose handler was cancelled because the session ends."""
        if request.is_cancelled:
            self._reply_to(request, self._peer.answer_cancelled(request))
        else:
            self.unanswered += self._peer.serving.has(request.id, request)
            self._reply_to(request, self._peer.drop(request))
        self._conclude(request, trace, Outcome.CANCELLED)

    def _started(self, item: Item | Request, request: InboundRequest | None) -> Trace:
        now = asyncio.get_running_loop().time()
        started = self._hooks.request_started
        id = None if request is None else request.id
        if self._hooks.request_received is not None:
            return self._hooks.request_received(id, item.method, self._peer.trace_of(item)), now
        return None if started is None else started(id, item.method), now

    def _conclude(self, item: Item, trace: Trace, outcome: Outcome, code: int | None = None) -> None:
        served = self._hooks.request_served
        if served is not None:
            id = item.id if isinstance(item, InboundRequest) else None
            shown, started = trace if trace is not None else (None, None)
            seconds = 0.0 if started is None else asyncio.get_running_loop().time() - started
            served(shown, id, item.method, outcome, code, seconds)
