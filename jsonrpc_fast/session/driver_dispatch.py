"""Serving what the peer asks for: the inbox, the handlers that run, and when reading has to pause.

Rules:
  - sync handlers run where their message is read; async ones in a task each, `max_handlers` at the most;
  - messages are served in the order of their coming. What cannot be served yet, because so many handlers run or because
    the peer does not take the answers, waits in the inbox, and reading goes on: answers to this side's calls settle
    them, and cancellations are heard;
  - what is answered without a handler, as a faulty message is, waits with them while the peer does not take answers;
  - each handler runs in a copy of the context (`contextvars`) that the session was made in;
  - reading is paused while the inbox holds more than `max_inbox` messages or `inbox_bytes`;
  - a handler's RpcError is its answer. Any other exception, and a result that cannot be written, is -32603 without
    a word about it to the peer; here it is a fault;
  - a cancelled request is answered as the convention says, once its handler has ended;
  - a notification is never answered, whatever happens.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import chain
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final, cast

from ..codec import Notification, Raw
from ..codes import RPC_MESSAGES, ErrorCode
from ..errors import ConnectionLost, RpcError, StateError
from ..transports.base import Transport
from .handlers import Handler, RequestContext
from .hooks import FoundHooks
from .peer import InboundRequest, Peer
from .tracker import Outcome

if TYPE_CHECKING:
    from .driver import Session

Item = InboundRequest | Notification
Waiting = InboundRequest | Notification | bytes
"""What may wait in the inbox: to be served, or to be sent."""
Trace = tuple[Any, float] | None
"""What `request_started` returned and when the handler started; None without such hooks."""

_ENDS: Final = (KeyboardInterrupt, SystemExit)
"""They end the loop, as they do wherever they are raised in it."""

_PLAIN: Final = frozenset({dict, list, str, int, float, bool, type(None)})
"""What most results are, and what is surely not to be awaited."""

_EAGER: Final[dict[str, Any]] = {"eager_start": True} if sys.version_info >= (3, 12) else {}


class _Run:
    """An async handler at work. `is_concluded`: what came of it has been told."""

    __slots__ = ("is_concluded", "item", "request", "trace", "work")

    def __init__(
        self, work: Awaitable[Any], item: InboundRequest | Notification, request: InboundRequest | None, trace: Trace
    ) -> None:
        self.work = work
        self.item = item
        self.request = request
        self.trace = trace
        self.is_concluded = False


class Dispatcher:
    """Serves the messages of one session.

    send          sends bytes that may be b"", and never raises
    max_handlers  async handlers that run at one time
    max_inbox     messages that wait, before reading is paused
    inbox_bytes   of memory that they take, before it is
    reply_bytes   in the transport's write buffer, beyond which nothing more is served
    """

    def __init__(
        self,
        session: Session,
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
        self._session = session
        self._peer = peer
        self._transport = transport
        self._hooks = hooks
        self._is_traced = hooks.request_started is not None or hooks.request_served is not None
        self._send = send
        self._max_handlers = max_handlers
        self._max_inbox = max_inbox
        self._most_bytes = inbox_bytes
        self._reply_bytes = reply_bytes
        self._context = contextvars.copy_context()
        self._inbox: deque[tuple[Waiting, int]] = deque()  # with the bytes that each takes
        self._inbox_bytes = 0
        self._is_paused = False
        self._drainer: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def inbox_items(self) -> int:
        """How many messages wait to be served."""
        return len(self._inbox)

    def tasks(self) -> set[asyncio.Task[None]]:
        """What has to end before everything that came is served."""
        return self._tasks if self._drainer is None else self._tasks | {self._drainer}

    def cancel(self, but: set[asyncio.Task[Any] | None]) -> None:
        """Forgets the inbox and cancels all handlers `but` some."""
        self._inbox.clear()
        self._inbox_bytes = 0
        for task in self.tasks() - but:
            task.cancel()

    def admit(self, item: Item) -> None:
        """Serves a message now, or as soon as there is room."""
        if not self._inbox and not self._is_busy():
            self._serve(item)
        else:
            self._put(item, _size(item.params, self._most_bytes))

    def reply(self, text: bytes) -> None:
        """Sends what answers a message that no handler serves; as soon as the peer takes answers."""
        if not text or self._transport.write_buffer_bytes <= self._reply_bytes:
            self._send(text)
        else:
            self._put(text, len(text))

    def _put(self, item: Waiting, size: int) -> None:
        self._inbox.append((item, size))
        self._inbox_bytes += size
        if not self._is_paused and (len(self._inbox) > self._max_inbox or self._inbox_bytes > self._most_bytes):
            self._is_paused = True
            self._transport.pause_reading()
        self._watch_inbox()

    def cancel_request(self, request: InboundRequest) -> None:
        """The peer has no use for the answer any more."""
        if request.task is not None:
            request.task.cancel()
        else:
            # It waits in the inbox, which passes over what is cancelled.
            self._send(self._peer.answer_cancelled(request))
            self._conclude(request, None, Outcome.CANCELLED)

    def _is_busy(self) -> bool:
        return len(self._tasks) >= self._max_handlers or self._transport.write_buffer_bytes > self._reply_bytes

    def _watch_inbox(self) -> None:
        """Where no handler's end is going to empty the inbox, the write buffer's is."""
        if self._drainer is None and len(self._tasks) < self._max_handlers:
            self._drainer = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        try:
            await self._transport.drain()
        except (ConnectionLost, StateError):
            return
        finally:
            self._drainer = None
        # One at least: the transport's idea of a full buffer may be another one.
        if self._inbox:
            self._take_one()
        self._empty_inbox()

    def _empty_inbox(self) -> None:
        while self._inbox and not self._is_busy():
            self._take_one()
        if self._inbox:
            self._watch_inbox()
        if self._is_paused and len(self._inbox) <= self._max_inbox // 2 and self._inbox_bytes <= self._most_bytes // 2:
            self._is_paused = False
            self._transport.resume_reading()

    def _take_one(self) -> None:
        item, size = self._inbox.popleft()
        self._inbox_bytes -= size
        if type(item) is bytes:
            self._send(item)
        else:
            self._serve(cast("Item", item))

    def _serve(self, item: Item) -> None:
        request = item if type(item) is InboundRequest else None
        if request is not None and request.is_cancelled:
            return
        handler = self._session.handlers.find(item.method)
        if handler is None:
            if request is not None:
                self._refuse(request, None, RpcError(ErrorCode.METHOD_NOT_FOUND, "Method not found"))
        else:
            # Not in the context of whoever made the transport read, which may be another handler.
            self._context.copy().run(self._run, handler, item, request)

    def _run(self, handler: Handler, item: Item, request: InboundRequest | None) -> None:
        trace = self._started(item, request) if self._is_traced else None
        try:
            context = RequestContext(self._session, item.method, request) if handler.wants_context else None
            result = handler.invoke(item.params, context)
        except BaseException as error:
            self._failed(item, request, trace, error)
            if isinstance(error, _ENDS):
                raise
        else:
            # Of the type, as `await` does: a result may have any attributes, and fail when it is asked for one.
            if type(result) not in _PLAIN and hasattr(type(result), "__await__"):
                self._spawn(_Run(result, item, request, trace))
            else:
                self._succeeded(item, request, trace, result)

    def _spawn(self, run: _Run) -> None:
        task = asyncio.Task(self._await(run), loop=asyncio.get_running_loop(), **_EAGER)
        if task.done():
            self._judge(run, task)
            return
        self._tasks.add(task)
        task.add_done_callback(partial(self._task_done, run))
        if run.request is not None:
            run.request.task = task

    async def _await(self, run: _Run) -> None:
        try:
            result = await run.work
        except GeneratorExit:
            raise  # thrown away together with its loop; if the handler itself raised it, `_judge` is going to see it
        except BaseException as error:
            run.is_concluded = True
            self._failed(run.item, run.request, run.trace, error)
            if isinstance(error, _ENDS):
                raise
        else:
            run.is_concluded = True
            self._succeeded(run.item, run.request, run.trace, result)

    def _task_done(self, run: _Run, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._judge(run, task)
        self._empty_inbox()

    def _judge(self, run: _Run, task: asyncio.Task[None]) -> None:
        """Concludes what could not do so itself."""
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if not run.is_concluded:
            # Cancelled before its first step, most often: then nothing of it has run.
            if asyncio.iscoroutine(run.work):
                run.work.close()
            self._failed(run.item, run.request, run.trace, error or asyncio.CancelledError())
        elif error is not None and not isinstance(error, (asyncio.CancelledError, *_ENDS)):
            self._hooks.fault(error)

    def _succeeded(self, item: Item, request: InboundRequest | None, trace: Trace, result: Any) -> None:
        outcome, code = Outcome.RESULT, None
        if request is not None:
            try:
                text = self._peer.answer(request, result)
            except Exception as error:  # EncodeError, or what a payload's own methods raise
                self._hooks.fault(error)
                outcome, code = Outcome.ERROR, int(ErrorCode.INTERNAL_ERROR)
                text = self._peer.refuse(request, code, RPC_MESSAGES[ErrorCode.INTERNAL_ERROR])
            self._send(text)
        if self._hooks.request_served is not None:
            self._conclude(item, trace, outcome, code)

    def _failed(self, item: Item, request: InboundRequest | None, trace: Trace, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError) and (
            request is None or request.is_cancelled or not self._session.is_connected
        ):
            if request is not None:
                self._give_up(request, trace)
            else:
                self._conclude(item, trace, Outcome.CANCELLED)
        elif request is not None and isinstance(error, RpcError):
            self._refuse(request, trace, error)
        else:
            self._hooks.fault(error)
            internal = RpcError(ErrorCode.INTERNAL_ERROR, RPC_MESSAGES[ErrorCode.INTERNAL_ERROR])
            if request is not None:
                self._refuse(request, trace, internal)
            else:
                self._conclude(item, trace, Outcome.ERROR, internal.code)

    def _refuse(self, request: InboundRequest, trace: Trace, error: RpcError) -> None:
        try:
            code = int(error.code)
            text = self._peer.refuse(request, code, error.message, error.data)
        except Exception as fault:  # data that cannot be written, or a subclass that lacks one of the others
            self._hooks.fault(fault)
            code = int(ErrorCode.INTERNAL_ERROR)
            text = self._peer.refuse(request, code, RPC_MESSAGES[ErrorCode.INTERNAL_ERROR])
        self._send(text)
        self._conclude(request, trace, Outcome.ERROR, code)

    def _give_up(self, request: InboundRequest, trace: Trace) -> None:
        """The request was cancelled, or its handler because the session ends."""
        cancelled = request.is_cancelled
        self._send(self._peer.answer_cancelled(request) if cancelled else self._peer.drop(request))
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
