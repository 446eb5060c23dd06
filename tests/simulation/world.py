"""A world in virtual time whose every event comes from one seed: clock, random numbers, tasks and futures.

Rules:
- There is no loop, thread, sleep or wall clock. Events happen in the order of their times; those of one time, in the
  order in which they were scheduled, or in random order if the seed says so.
- `World.fail` records the first violation of an invariant. It also raises, but an engine may catch that.
- The clock of a world may move while it is read, as a real one does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from heapq import heappop, heappush
from random import Random
from typing import Any, ClassVar, Final, NoReturn

START: Final = 1000.0
"""The time of a new world."""
MAX_STEPS: Final = 50_000
"""The number of events after which a conversation is taken for endless."""


class Violation(AssertionError):
    """An invariant does not hold."""


class World:
    """The clock, the events and the random numbers of one simulation.

    Args:
        seed: The seed that determines everything.
        is_traced: Whether to keep a line for each event, in `trace`.

    Attributes:
        random: The random numbers.
        now: The time in seconds.
        steps: The number of events so far.
        trace: The lines; None if nothing is traced.
        violation: The first violation; None without one.
        touched: What has changed since the last check.
    """

    current: ClassVar[World]
    """The world that runs now: handlers find their plans in it."""

    def __init__(self, seed: int, is_traced: bool = False) -> None:
        self.random = Random(seed)
        self.now = START
        self.steps = 0
        self.trace: list[str] | None = [] if is_traced else None
        self.violation: Violation | None = None
        self.clock_seconds = 0.0  # that pass when the clock is read
        self.is_shuffled = False
        self.plans: list[Any] = []
        self.touched: dict[Any, None] = {}
        self._scheduled = 0
        self._events: list[tuple[float, float, int, Callable[..., object], tuple[Any, ...]]] = []

    def clock(self) -> float:
        self.now += self.clock_seconds
        return self.now

    def at(self, time: float, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function at a time; soon, if the time has passed."""
        self._scheduled += 1
        order = self.random.random() if self.is_shuffled else 0.0
        heappush(self._events, (max(time, self.now), order, self._scheduled, function, arguments))

    def soon(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function later, at the present time."""
        self.at(self.now, function, *arguments)

    def sleep(self, seconds: float) -> Future:
        future = Future(self)
        self.at(self.now + seconds, future.set)
        return future

    def log(self, who: str, what: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now - START:.6f} {who}: {what}")

    def fail(self, what: str) -> NoReturn:
        """Record a violation, and raise it."""
        violation = Violation(what)
        if self.violation is None:
            self.violation = violation
        raise violation

    def run(self, check: Callable[[], object]) -> None:
        """Let everything happen, and call `check` after each event that touches something.

        Raises:
            Violation: An invariant does not hold.
        """
        World.current = self
        events = self._events
        while events:
            time, _, _, function, arguments = heappop(events)
            if time > self.now:
                self.now = time
            function(*arguments)
            if self.touched:
                check()
                self.touched.clear()
            if self.violation is not None:
                raise self.violation
            self.steps += 1
            if self.steps > MAX_STEPS:
                self.fail(f"more than {MAX_STEPS} events")


class Future:
    """What a handler of the simulation waits for. The engine treats it as one of asyncio's futures."""

    _asyncio_future_blocking = False
    __slots__ = ("_error", "_result", "_waiters", "_world", "is_done")

    def __init__(self, world: World) -> None:
        self.is_done = False
        self._world = world
        self._result: Any = None
        self._error: BaseException | None = None
        self._waiters: list[Task] = []

    def set(self, result: Any = None, error: BaseException | None = None) -> None:
        """Set the outcome, unless there is one."""
        if not self.is_done:
            self.is_done, self._result, self._error = True, result, error
            for task in self._waiters:
                task.wake(self)

    def cancel(self) -> None:
        self.set(error=asyncio.CancelledError())

    def wait(self, task: Task) -> None:
        """Wake a task when there is an outcome."""
        if self.is_done:
            task.wake(self)
        else:
            self._waiters.append(task)

    def __await__(self) -> Generator[Future, None, Any]:
        if not self.is_done:
            yield self
        if self._error is not None:
            raise self._error
        return self._result


class Task:
    """A coroutine that waits for futures of the simulation, like a task of asyncio.

    Args:
        world: Where it runs.
        coroutine: What to run.
        context: The context to run it in.
        ended: Called in the same context with the result, the exception or None, and whether the task was cancelled.
            Also called for a task that was cancelled before its first step.

    Attributes:
        is_begun: Whether its first step was made.
    """

    def __init__(
        self,
        world: World,
        coroutine: Coroutine[Any, Any, Any],
        context: Context,
        ended: Callable[[Any, BaseException | None, bool], object],
    ) -> None:
        self.is_begun = False
        self._world = world
        self._coroutine = coroutine
        self._context = context
        self._ended = ended
        self._is_done = False
        self._is_due = False
        self._is_cancelled = False
        self._must_throw = False
        self._waits_for: Future | None = None

    def start(self, at_once: bool) -> None:
        """Make the first step, at once in the context of the caller, or soon."""
        if at_once:
            self._step()
        else:
            self._schedule()

    def cancel(self) -> None:
        if not self._is_done:
            self._is_cancelled = self._must_throw = True
            self._schedule()

    def wake(self, future: Future) -> None:
        if future is self._waits_for:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_due and not self._is_done:
            self._is_due = True
            self._world.soon(self._context.run, self._step)

    def _step(self) -> None:
        self._is_due = False
        self._waits_for = None
        try:
            if not self._must_throw:
                self.is_begun = True
                waits_for = self._coroutine.send(None)
            elif self.is_begun:
                self._must_throw = False
                waits_for = self._coroutine.throw(asyncio.CancelledError())
            else:
                self._coroutine.close()
                raise asyncio.CancelledError
        except StopIteration as stop:
            self._is_done = True
            self._ended(stop.value, None, False)
        except BaseException as error:
            self._is_done = True
            self._ended(None, error, self._is_cancelled and isinstance(error, asyncio.CancelledError))
        else:
            if self._must_throw:  # it has cancelled itself
                self._schedule()
            else:
                self._waits_for = waits_for
                waits_for.wait(self)
