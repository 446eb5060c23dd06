"""The driver of an engine on asyncio: tasks, one timer, turns, and the wait for a peer that does not read.

Rules:
  - Everything runs on the loop's thread.
  - There is one timer, for the earliest deadline, one pending turn, and one task that waits for the peer to read.
  - The timer runs in the context in which the session started, not in that of the request that happens to set it:
    asyncio keeps a cancelled timer until its time comes, and with its context everything that this holds.
  - Each async handler is a task in its own context. From Python 3.12 on its first step runs at once (an eager task).
  - A handler that has begun in the task of its exchange (`Inbox.serve_at_once`) ends there, because what it has entered
    belongs to this task. Cancelling the handler cancels the task, and the cancellation ends with the handler.
"""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Callable
from contextvars import Context, copy_context
from math import inf
from types import CoroutineType
from typing import Any, Final

from .._parts import FuturePart
from ..codec._backend import ServedCoroutine
from ..errors import ConnectionLost, StateError
from ..handlers.awaiting import OuterCoroutine, resume
from ..transports.protocol import Transport
from ..transports.waiters import Waiters
from .calls import Call
from .driver import Driver
from .engine import Engine
from .running import Run, RunState, current_run, detached
from .wait_queue import WaitQueue

_Task: Final[Callable[..., asyncio.Task[None]]] = asyncio.Task
_OPTIONS: Final[dict[str, Any]] = {"eager_start": True} if sys.version_info >= (3, 12) else {}
_resumed: Final = types.coroutine(resume)
_SHARES_CONTEXT: Final = sys.version_info < (3, 12)
"""Whether a task can run in an existing context: an eager task, from Python 3.12 on, needs a copy."""

_ENDED: Final = RunState.ENDED  # looked up once: before Python 3.12 access to enum members is slow


def _nothing() -> None:
    pass


class LoopDriver(Driver):
    """The driver of an engine on asyncio, over a transport.

    Args:
        transport: Carries the stream.
        abort: See `Driver`.

    Attributes:
        engine: The engine, set by `open`; None when the conversation has ended.
        loop: The loop, set by `open`.
        changed: Those who wait until handlers have ended, no more calls can be sent, or the connection is lost.
        wait_queue: The calls and notifications that wait for room.
        may_pass: Whether the peer has read since this was last set to False.
    """

    engine: Engine | None = None
    loop: asyncio.AbstractEventLoop
    _context: Context

    def __init__(self, transport: Transport, abort: Callable[[], None]) -> None:
        self.write: Callable[[bytes], None] = transport.send
        self.abort: Callable[[], None] = abort
        self.changed: Waiters = Waiters()
        self.wait_queue: WaitQueue = WaitQueue()
        self._transport = transport
        self._timer: asyncio.TimerHandle | None = None
        self.wakes_at: float = inf
        self._is_turn_due = False
        self._drainer: asyncio.Task[None] | None = None
        self._must_drain = False
        self.may_pass: bool = False

    @property
    def unwritten_bytes(self) -> int:
        return self._transport.write_buffer_bytes

    def open(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        """Start to carry out the decisions of an engine, on this loop."""
        self.engine = engine
        self.loop = loop
        self._context = detached(copy_context)
        if _OPTIONS:
            plain = engine.inbox.plain
            plain.make_task, plain.loop = asyncio.Task, loop

    def set_reading(self, wanted: bool) -> None:
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def left(self) -> None:
        self.wait_queue.wake()
        self.changed.wake()

    def idle(self) -> None:
        self.changed.wake()

    def settled(self, call: Call, result: Any, error: Exception | None) -> None:
        """Report the outcome of a call to its future or its callback."""
        if self.wait_queue.waiters:
            self.wait_queue.wake()  # there is room for one more call
        waiter = call.waiter
        if waiter is None:
            return
        if callable(waiter):
            assert self.engine is not None  # all calls settle before the end
            self.engine.run_callback(waiter, result, error)
        elif waiter.done():
            pass  # the waiting task is being cancelled
        elif error is None:
            waiter.set_result(result)
        else:
            waiter.set_exception(error)

    # Turns and time.

    def time(self) -> float:
        """Return the time of the loop, the clock of the engine."""
        return self.loop.time()

    def soon(self) -> None:
        if not self._is_turn_due:
            self._is_turn_due = True
            if self.engine is not None and self.engine.inbox.reading.is_in_batch:
                # As in `Delivery.update`: first, the loop serves the sockets that have become readable meanwhile.
                self.loop.call_soon(self.loop.call_soon, self._turn)
            else:
                self.loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        if self.engine is not None:
            self.engine.turn()

    def wake_at(self, deadline: float) -> None:
        # A later deadline is noticed when the timer fires. Moving the timer for each call would cost more than the
        # call.
        if deadline < self.wakes_at:
            if self._timer is not None:
                self._timer.cancel()
            self.wakes_at = deadline
            self._timer = self.loop.call_at(deadline, self._tick, context=self._context)

    def _tick(self) -> None:
        self._timer = None
        self.wakes_at = inf
        if self.engine is not None:
            self.engine.tick()

    def drain(self) -> None:
        # The waiting task may be about to end because the peer has read; this makes it wait again.
        self._must_drain = True
        if self._drainer is None:
            self._drainer = asyncio.Task(self._drain(), loop=self.loop)  # never an eager one

    async def _drain(self) -> None:
        try:
            while self._must_drain:
                self._must_drain = False
                await asyncio.sleep(0)  # let the transport write what was queued in this turn of the loop
                await self._transport.drain()
                self.may_pass = True
                self.wait_queue.wake()
                if self.engine is not None:
                    self.engine.drained()
        except (ConnectionLost, StateError):
            pass  # the next one to send gets the error
        finally:
            self._drainer = None
            self.wait_queue.wake()

    def stop(self) -> None:
        """Stop the timer and the wait for a peer that does not read, and forget the engine and the session."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._drainer is not None:
            self._drainer.cancel()
        self.engine = None
        self.abort = _nothing

    # Handlers.

    def start(self, run: Run) -> None:
        work = run.work if isinstance(run.work, (CoroutineType, OuterCoroutine)) else OuterCoroutine(run.work)
        options = {"context": run.context} if _SHARES_CONTEXT else _OPTIONS
        owner: Any = run.owner
        served = ServedCoroutine(owner, work, run)
        task = _Task(served, loop=self.loop, name=run.item.method, **options)
        # An eager task may have ended by now. Keeping it would create a reference cycle.
        if run.state is not _ENDED:
            run.task = task

    async def finish(self, run: Run) -> None:
        """Continue a handler that has begun in this task (`Inbox.serve_at_once`), until it ends.

        Raises:
            asyncio.CancelledError: Something else has cancelled the task.
        """
        token = current_run.set(run)
        try:
            with FuturePart() as part:
                run.task = part
                owner: Any = run.owner
                await ServedCoroutine(owner, _resumed(run.work, run.waiting), run)
        finally:
            current_run.reset(token)
        if part.is_task_cancelled:
            raise asyncio.CancelledError
