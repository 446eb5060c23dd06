"""The driver of an engine on asyncio: tasks, one timer, turns, and the wait for a peer that does not read.

Rules:
  - There is one timer, for the earliest deadline, one pending turn, and one task that waits for the peer to read.
  - The timer runs in the context of the session, not in that of the request that happens to set it: asyncio keeps a
    cancelled timer until its time comes, and with its context everything that this holds.
  - Each async handler is a task in its own context. From Python 3.12 on its first step runs at once (an eager task).
"""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Callable
from contextvars import Context
from math import inf
from types import CoroutineType
from typing import Any, Final, Literal, Protocol

from ..codec._backend import ServedCoroutine
from ..errors import CallTimeout, ConnectionLost, StateError
from ..handlers import RequestContext
from ..handlers.awaiting import OuterCoroutine
from ..support import Waiters, within
from ..transports.connection import Connection, turns
from ..transports.protocol import Transport
from .calls import Call
from .driver import Driver
from .engine import Engine
from .requests import Destination, InboundRequest, Run

_Task: Final[Callable[..., asyncio.Task[None]]] = asyncio.Task
_OPTIONS: Final[dict[str, Any]] = {"eager_start": True} if sys.version_info >= (3, 12) else {}


class Owner(Protocol):
    """The session of a driver, as the driver sees it."""

    _engine: Engine

    def _make_context(
        self, method: str, request: InboundRequest | None, destination: Destination | None
    ) -> RequestContext:
        """See `Driver.make_context`."""

    def _abort_soon(self) -> None:
        """See `Driver.abort`."""


class LoopDriver(Driver):
    """The driver of an engine on asyncio, over a transport.

    Attributes:
        session: The owner; None when the conversation has ended.
        loop: The loop, set by `open`.
        changed: Those who wait until handlers have ended, no more calls can be sent, or the connection is lost.
        wait_queue: The calls and notifications that may not be sent yet.
        handler_queue: The notifications of handlers, which wait only until the peer reads.
    """

    loop: asyncio.AbstractEventLoop | None = None

    def __init__(self, transport: Transport, session: Owner) -> None:
        self.transport: Transport = transport
        self.session: Owner | None = session
        self.changed: Waiters = Waiters()
        self.wait_queue: WaitQueue = WaitQueue()
        self.handler_queue: WaitQueue = WaitQueue()
        # With its time: for one that has passed, uvloop returns a handle that has none.
        self._timer: tuple[asyncio.Handle, float] | None = None
        self._is_turn_due = False
        self._drainer: asyncio.Task[None] | None = None
        self._must_drain = False

    @property
    def responds_to_faults(self) -> bool:  # type: ignore[override]
        return self.transport.responds_to_faults

    @property
    def heard(self) -> Literal["nothing", "a part", "messages"]:  # type: ignore[override]
        transport = self.transport
        if transport.received_chunks == 0:
            return "nothing"
        is_part = isinstance(transport, Connection) and transport.is_inside_message and transport.is_reading
        return "a part" if is_part else "messages"

    @property
    def unwritten_bytes(self) -> int:
        return self.transport.write_buffer_bytes

    def write(self, data: bytes, /) -> None:
        self.transport.send(data)

    def make_context(
        self, method: str, request: InboundRequest | None, destination: Destination | None, /
    ) -> RequestContext:
        if self.session is None:
            raise StateError(f"the session has ended before {method} was called")
        return self.session._make_context(method, request, destination)

    def abort(self) -> None:
        if self.session is not None:
            self.session._abort_soon()

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to carry out the decisions of the engine, on this loop."""
        self.loop = loop
        if _OPTIONS and self.session is not None:
            engine = self.session._engine
            engine.make_task, engine.loop = asyncio.Task, loop

    def set_reading(self, wanted: bool) -> None:
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def has_waiters(self) -> bool:
        """Return whether something waits to be sent."""
        return bool(self.wait_queue.waiters or self.handler_queue.waiters)

    def _wake_senders(self, has_drained: bool = False) -> None:
        self.wait_queue.wake(has_drained)
        self.handler_queue.wake(has_drained)

    def left(self) -> None:
        self._wake_senders()
        self.changed.wake()

    def idle(self) -> None:
        self.changed.wake()

    def settled(self, call: Call, result: Any, error: Exception | None) -> None:
        """Report the outcome of a call to its future or its callback."""
        if self.wait_queue.waiters:
            self.wait_queue.wake()  # one more call may be sent
        waiter = call.waiter
        if waiter is None:
            return
        if callable(waiter):
            assert self.session is not None  # all calls settle before the end
            self.session._engine.run_callback(waiter, result, error)
        elif waiter.done():
            pass  # the waiting task is being cancelled
        elif error is None:
            waiter.set_result(result)
        else:
            waiter.set_exception(error)

    # Turns and time.

    def time(self) -> float:
        assert self.loop is not None
        return self.loop.time()

    def turn_end(self) -> float:
        assert self.loop is not None
        return self.loop.time() + turns.seconds(self.loop)

    def soon(self) -> None:
        if not self._is_turn_due and self.session is not None:
            assert self.loop is not None
            self._is_turn_due = True
            turns.due(self.loop, 1)
            engine = self.session._engine
            if engine.is_late:
                # As in `Connection.update`: first, the loop serves the sockets that have become readable meanwhile.
                self.loop.call_soon(self.loop.call_soon, self._turn)
            else:
                self.loop.call_soon(self._turn)

    def _turn(self) -> None:
        assert self.loop is not None
        self._is_turn_due = False
        turns.due(self.loop, -1)
        if self.session is not None:
            self.session._engine.turn()

    def wake_at(self, deadline: float) -> None:
        # A later deadline is noticed when the timer fires. Moving the timer for each call would cost more than the
        # call.
        timer = self._timer
        if (timer is None or deadline < timer[1]) and self.session is not None:
            if timer is not None:
                timer[0].cancel()
            assert self.loop is not None
            handle = self.loop.call_at(deadline, self._tick, context=self.session._engine.context)
            self._timer = handle, deadline

    def _tick(self) -> None:
        self._timer = None
        if self.session is not None:
            self.session._engine.tick()

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
                await self.transport.drain()
                self._wake_senders(has_drained=True)
                if self.session is not None:
                    self.session._engine.drained()
        except (ConnectionLost, StateError):
            pass  # the next one to send gets the error
        finally:
            self._drainer = None
            self._wake_senders()

    def stop(self) -> None:
        """Stop the timer and the wait for a peer that does not read, and forget the engine and the session."""
        if self._timer is not None:
            self._timer[0].cancel()
            self._timer = None
        if self._drainer is not None:
            self._drainer.cancel()
        self.session = None

    # Handlers.

    def start(self, run: Run) -> None:
        work = run.work if isinstance(run.work, (CoroutineType, OuterCoroutine)) else OuterCoroutine(run.work, None)
        # An eager task, from Python 3.12 on, cannot run in an existing context: it needs a copy.
        options = _OPTIONS or {"context": run.context}
        owner: Any = run.owner
        served = ServedCoroutine(owner, work, run)
        task = _Task(served, loop=self.loop, name=run.item.method, **options)
        # An eager task may have ended by now. Keeping it would create a reference cycle.
        if run.state != "ended":
            run.task = task


_NONE: Final[OrderedDict[object, asyncio.Future[bool] | None]] = OrderedDict()
"""The waiters of a queue that has had none: most sessions never need more."""


class WaitQueue:
    """A first-in, first-out queue: only the first waiter checks whether it may pass.

    It creates no tasks, so no cancellation gets lost. `waiters`: in order of arrival; read-only for callers.
    """

    waiters: OrderedDict[object, asyncio.Future[bool] | None] = _NONE

    def __len__(self) -> int:
        return len(self.waiters)

    async def wait(self, may_pass: Callable[[bool], bool], seconds: float | None = None, what: str = "") -> None:
        """Wait until all earlier waiters have left and `may_pass` returns True.

        It is called when the caller becomes the first waiter, and after each `wake`, with the `has_drained` of that.
        The next waiter checks only after the caller has yielded to the loop. Raises CallTimeout after this many
        seconds, if any: `what` could not be sent.
        """
        loop = asyncio.get_running_loop()
        place = object()
        if self.waiters is _NONE:
            self.waiters = OrderedDict()
        self.waiters[place] = None
        is_late = False

        def expire() -> None:
            # A wake-up in the same turn of the loop must not hide the deadline.
            nonlocal is_late
            is_late = True
            self._wake(place)

        timer = None if seconds is None or seconds == inf else loop.call_later(seconds, expire, context=Context())
        try:
            has_drained = False
            while next(iter(self.waiters)) is not place or not may_pass(has_drained):
                waiter = self.waiters[place] = loop.create_future()
                has_drained = await waiter
                if is_late:
                    reason = "too many calls are in flight, or the peer does not read"
                    raise CallTimeout(f"{what} could not be sent {within(seconds)}: {reason}")
        finally:
            # Even after a cancellation: otherwise the next waiter would not get its turn.
            del self.waiters[place]
            if timer is not None:
                timer.cancel()
            self.wake()

    def wake(self, has_drained: bool = False) -> None:
        """Let the first waiter check again. `has_drained`: because the peer has read."""
        if self.waiters:
            self._wake(next(iter(self.waiters)), has_drained)

    def _wake(self, place: object, has_drained: bool = False) -> None:
        waiter = self.waiters[place]
        if waiter is not None and not waiter.done():
            waiter.set_result(has_drained)
