"""Carry out the decisions of an engine on asyncio: tasks, one timer, turns, and the wait for a peer that does not read.

Rules:
  - Everything runs on the loop's thread.
  - There is one timer, for the earliest deadline, one pending turn, and one task that waits for the peer to read.
  - Each async handler is a task in its own context. From Python 3.12 on its first step runs at once (an eager task).
  - A handler that has begun in the task of its exchange (`Inbox.serve_at_once`) ends there, because what it has entered
    belongs to this task. Cancelling the handler cancels the task, and the cancellation ends with the handler.
"""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Callable
from math import inf
from typing import Any, Final

from ..errors import ConnectionLost, StateError
from ..handlers.cancellation import is_foreign_cancellation, resume
from ..transports.protocol import Transport
from .driver import Driver
from .engine import Engine
from .running import Run, RunState, current_run
from .tracker import Call

_IS_EAGER: Final = sys.version_info >= (3, 12)
_COUNTS_CANCELLATIONS: Final = sys.version_info >= (3, 11)
_Task: Final[Callable[..., asyncio.Task[bool]]] = asyncio.Task
_resumed: Final = types.coroutine(resume)
_SHARES_CONTEXT: Final = sys.version_info[:2] == (3, 11)
"""Whether a task can run in an existing context: before, there is no such argument; an eager task needs a copy."""

_ENDED: Final = RunState.ENDED  # looked up once: before Python 3.12 access to enum members is slow


class _Part(asyncio.Future[None]):
    """The part of a task that a handler runs in. It is done when the handler has ended."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        super().__init__(loop=task.get_loop())
        self._task = task
        self.cancellations: int = 0

    def cancel(self, msg: Any = None) -> bool:
        self.cancellations += 1
        return self._task.cancel()


class LoopDriver(Driver):
    """The driver of an engine on asyncio, over a transport.

    Args:
        transport: Carries the stream.
        settled: See `Driver`.
        left: See `Driver`.
        idle: See `Driver`.
        abort: See `Driver`.
        wake: Called when the peer has read, or the connection is lost.

    Attributes:
        engine: The engine; to be set before anything else is used.
        loop: The loop; to be set before anything else is used.
        may_pass: Whether the peer has read since this was last set to False.
    """

    __slots__ = (
        "_drainer",
        "_is_turn_due",
        "_must_drain",
        "_runs",
        "_timer",
        "_transport",
        "_wake",
        "_when_done",
        "abort",
        "engine",
        "idle",
        "left",
        "loop",
        "may_pass",
        "settled",
        "wakes_at",
        "write",
    )

    engine: Engine
    loop: asyncio.AbstractEventLoop

    def __init__(
        self,
        transport: Transport,
        settled: Callable[[Call, Any, Exception | None], None],
        left: Callable[[], None],
        idle: Callable[[], None],
        abort: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self.write: Callable[[bytes], None] = transport.send
        self.settled: Callable[[Call, Any, Exception | None], None] = settled
        self.left: Callable[[], None] = left
        self.idle: Callable[[], None] = idle
        self.abort: Callable[[], None] = abort
        self._wake = wake
        self._transport = transport
        self._runs: dict[asyncio.Task[bool], Run] = {}  # those whose tasks have not ended
        self._when_done = self._task_done  # one object, which a task finds quickly among its callbacks
        self._timer: asyncio.TimerHandle | None = None
        self.wakes_at: float = inf
        self._is_turn_due = False
        self._drainer: asyncio.Task[None] | None = None
        self._must_drain = False
        self.may_pass: bool = False

    @property
    def unwritten_bytes(self) -> int:
        return self._transport.write_buffer_bytes

    def set_reading(self, wanted: bool) -> None:
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # Turns and time.

    def soon(self) -> None:
        if not self._is_turn_due:
            self._is_turn_due = True
            self.loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        self.engine.turn()

    def wake_at(self, deadline: float) -> None:
        if deadline < self.wakes_at:
            if self._timer is not None:
                self._timer.cancel()
            self.wakes_at = deadline
            self._timer = self.loop.call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.wakes_at = inf
        self.engine.tick()

    def drain(self) -> None:
        # The task that waits already may be about to end, having seen the peer read: it then waits once more.
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
                self._wake()
                self.engine.drained()
        except (ConnectionLost, StateError):
            pass  # the next one to send gets the error
        finally:
            self._drainer = None
            self._wake()

    def stop(self) -> None:
        """Stop the timer, and the wait for a peer that does not read."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._drainer is not None:
            self._drainer.cancel()

    # Handlers.

    def start(self, run: Run) -> None:
        if _IS_EAGER:
            task = _Task(self._await(run), loop=self.loop, name=run.item.method, eager_start=True)
            if task.done():
                if run.state is not _ENDED:  # it ended at once, without `_await` doing all of this
                    self._cut_off(run, task)
                return
        elif _SHARES_CONTEXT:
            task = _Task(self._await(run), loop=self.loop, name=run.item.method, context=run.context)
        else:
            task = _Task(self._await(run), loop=self.loop, name=run.item.method)
        run.task = task
        task.add_done_callback(self._when_done, context=run.context)
        self._runs[task] = run

    async def finish(self, run: Run) -> None:
        """Continue a handler that has begun in this task (`Inbox.serve_at_once`), until it ends.

        Raises:
            asyncio.CancelledError: The handler has ended because something else has cancelled the task.
        """
        task: Any = asyncio.current_task()
        before = task.cancelling() if _COUNTS_CANCELLATIONS else 0
        run.task = part = _Part(task)
        run.work = _resumed(run.work, run.waiting)
        token = current_run.set(run)
        is_cancelled = False
        try:
            is_cancelled = await self._await(run)
        finally:
            current_run.reset(token)
            part.set_result(None)
            if _COUNTS_CANCELLATIONS:
                for _ in range(part.cancellations):
                    task.uncancel()
        if is_cancelled and _COUNTS_CANCELLATIONS and task.cancelling() > before:
            raise asyncio.CancelledError

    async def _await(self, run: Run) -> bool:
        """Await a handler. Return whether it was cancelled."""
        try:
            result = await run.work
        except GeneratorExit:
            raise  # the loop is gone; if the handler itself raised it, `_cut_off` handles it
        # Cancellations end here, too: each has its response, and nobody awaits the task. With asyncio a SystemExit of a
        # task ends the loop.
        except BaseException as error:
            is_cancelled = isinstance(error, asyncio.CancelledError) and not is_foreign_cancellation(error)
            # Here and not in `_task_done`, which would cost a turn of the loop.
            task = run.task
            if is_cancelled:
                self.engine.cancelled(run)
            else:
                self.engine.failed(run, error)
            if isinstance(error, KeyboardInterrupt):
                raise
        else:
            is_cancelled = False
            task = run.task
            self.engine.succeeded(run, result)
        if task is not None and self._runs.pop(task, None) is not None:
            task.remove_done_callback(self._when_done)
        return is_cancelled

    def _task_done(self, task: asyncio.Task[bool]) -> None:
        """Clean up after a task that did not reach its end, such as one cancelled before its first step."""
        self._cut_off(self._runs.pop(task), task)

    def _cut_off(self, run: Run, task: asyncio.Task[bool]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if not run.is_concluded:
            run.discard()
        elif error is not None and not isinstance(error, (asyncio.CancelledError, KeyboardInterrupt)):
            self.engine.hooks.fault(error)
        if run.state is not _ENDED:
            if task.cancelled():
                self.engine.cancelled(run)
            else:
                self.engine.failed(run, error or asyncio.CancelledError())
