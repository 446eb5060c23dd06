"""One end of a simulated connection: the driver of an engine, its hooks, its handlers and its application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, cast

from jsonrpc_fast import Decoder, Notification, ParseError, encode_request, encode_result
from jsonrpc_fast.errors import ConnectionLost, EncodeError, RpcError, StateError
from jsonrpc_fast.handlers import Handler, Handlers
from jsonrpc_fast.handlers.awaiting import discard
from jsonrpc_fast.session import Call, Convention, Goodbye, JsonRpcConvention, LspConvention, McpConvention, Outcome
from jsonrpc_fast.session.driver import Driver
from jsonrpc_fast.session.engine import Engine
from jsonrpc_fast.session.options import ResponsePolicy, Rules
from jsonrpc_fast.session.requests import Run, running

from .judge import Judge
from .plans import HANDLERS, RPC_ERROR, Plan
from .world import Future, Task, Violation, World

if TYPE_CHECKING:
    from .conversation import Link
    from .wire import Wire

TIMEOUTS: Final = (None, None, 0.0, 0.02, 1.0, 300.0)
IDLE_TIMEOUTS: Final = (None, None, None, 0.0, 0.06, 1.5, 60.0)
GRACES: Final = (0.0, 0.1, 5.0, None)
PADDINGS: Final = (0, 0, 0, 10, 300)
POLICIES: Final[tuple[ResponsePolicy, ...]] = ("always", "always", "never", "limited")
CANCEL_SECONDS: Final = 5.0
"""Seconds that cancelled handlers get before the connection is closed."""


class FullConvention(LspConvention):
    """Cancellations, progress and goodbyes."""

    methods = LspConvention.methods | {"$/goodbye"}

    def goodbye(self, last: Any) -> Any:
        return "$/goodbye", {"last": last}

    def read(self, method: str, params: Any) -> Any:
        return Goodbye(params["last"]) if method == "$/goodbye" else super().read(method, params)


CONVENTIONS: Final = (
    Convention(),
    JsonRpcConvention(says_goodbye=True),
    FullConvention(),
    FullConvention(),
    McpConvention(),
)


class Failure(Exception):
    """The exception of a handler that fails."""


class _Handlers(Handlers):
    def find(self, method: str) -> Handler | None:
        return HANDLERS.get(method)


class _Engine(Engine):
    """An engine that tells the judge when it receives a notification: that may be turns after it was read."""

    def _receive_notification(self, message: Notification, destination: Any, batch: Any) -> None:
        judge = cast("End", self.driver).judge
        if batch is None:
            judge.receives(message)
        super()._receive_notification(message, destination, batch)
        if batch is None:
            judge.received(message)


class _Traced:
    """Hooks that make the engine serve requests on the slower path."""

    def __init__(self, end: End) -> None:
        self._end = end
        self.served: set[int] = set()
        self._started = 0

    def fault(self, error: BaseException, method: str | None, id: Any) -> None:
        self._end.fault(error, method, id)

    def request_started(self, id: Any, method: str) -> int:
        self._started += 1
        self.served.add(self._started)
        return self._started

    def request_served(self, trace: Any, id: Any, method: str, outcome: Outcome, code: Any, seconds: float) -> None:
        if trace is not None:
            if trace not in self.served:
                self._end.world.fail(f"{self._end.name}: a handler has ended twice")
            self.served.remove(trace)


class End(Driver):
    """One end of a connection.

    Attributes:
        name: Its name in the trace.
        peer: The other end.
        engine: The engine under test.
        in_flight: The calls that were sent and have not settled, with their plans.
        settled_calls: The calls that have settled since the last message came.
        is_reading: Whether the engine wants to read.
        is_lost: Whether the engine knows that the connection is lost.
        has_stopped: Whether this end has begun to close, and cancelled what it served.
        wakes_at: The time of the timer.
        unwritten_before: The unwritten bytes before the last write.
        extra_room: How many items may be held beyond the bounds: those of one large batch.
        is_idle_told: Whether the engine said that it was idle, since the last check.
        is_turn_due: Whether the engine gets a turn soon.
        full_streams: The number of streams whose consumers are behind.
    """

    peer: End
    wire: Wire

    def __init__(self, world: World, link: Link, name: str) -> None:
        random = world.random
        self.world = world
        self.link = link
        self.name = name
        self.convention = link.convention
        self.response_policy = random.choice(POLICIES)
        is_small = link.is_tough or random.random() < 0.5
        bounds: dict[str, Any] = {
            "max_handlers": random.choice((1, 1, 2)) if is_small else 256,
            "max_inbox": random.choice((0, 1, 2, 3, 50)) if is_small else 32768,
            "inbox_bytes": random.choice((0, 400, 2000, 10**6)) if is_small else 10**6,
            "response_bytes": random.choice((0, 30, 200, 10**6)) if is_small else 10**6,
        }
        self._hooks = _Traced(self) if random.random() < 0.3 else None
        self.is_traced = self._hooks is not None
        self.rules = Rules(
            **bounds,
            hooks=self._hooks or self,
            convention=self.convention,
            response_policy=self.response_policy,
            id_factory=None if random.random() < 0.7 else self._next_id,
            max_calls=random.choice((1, 2, 5)) if random.random() < 0.2 else 4096,
        )
        self.engine = _Engine(self, _Handlers(), self.rules)
        self.judge = Judge(self)
        self.in_flight: dict[Call, Plan] = {}
        self.settled_calls: list[Call] = []
        self.is_reading = True
        self.is_lost = self.has_stopped = self.is_idle_told = False
        self.wakes_at = inf
        self.unwritten_before = self.extra_room = 0
        self._ids = 0
        self._decoder = Decoder()
        self._read: list[Any] = []  # messages that are decoded, but not received yet
        self._is_reading_due = False
        self._cancels: Call | None = None
        self.is_turn_due = self._must_drain = self._is_drain_due = False
        self.full_streams = 0
        # How often a turn ends before a message that was read, and a consumer is behind after an item.
        self._late_share = random.choice((0.0, 0.0, 0.1, 0.6))
        self._full_share = random.choice((0.0, 0.0, 0.2))
        self._low_water = random.choice((0, 0, 100, 10**6))
        self._is_eager = random.random() < 0.5
        self._looks_ahead = random.random() < 0.7
        self._reads_on = random.random() < 0.2  # what is decoded already, whatever the engine wants
        self._drops_writes = random.random() < 0.5  # after a loss that is not reported yet; or they raise
        self._saw_end = self._is_closing = self._has_finished = self._is_discarding = self._has_been_told = False

    def _next_id(self) -> str:
        self._ids += 1
        return f"id {self._ids}"

    def _log(self, what: str, *values: Any) -> None:
        self.world.touched[self] = None
        if self.world.trace is not None:
            self.world.log(self.name, what % values)

    # The driver.

    def time(self) -> float:
        return self.world.clock()

    @property
    def unwritten_bytes(self) -> int:
        return len(self.wire.unwritten)

    def write(self, data: bytes) -> None:
        if self._has_been_told:
            self.world.fail(f"{self.name}: {data!r} is written after the loss")
        if self.is_lost or self.wire.is_ended or (self.wire.is_cut and not self._drops_writes):
            raise ConnectionLost("the connection is lost")
        self._log("writes %r", data)
        self.unwritten_before = len(self.wire.unwritten)
        self.judge.wrote(data)
        if not self.wire.is_cut:
            self.wire.write(data)

    def start(self, run: Run) -> None:
        self._log("starts the handler of %s", run.item.method)
        self.judge.started(run)
        assert run.context is not None

        def ended(result: Any, error: BaseException | None, is_cancelled: bool) -> None:
            if not task.is_begun:
                discard(run.work)
            self.judge.ended(run)
            self._log("has ended the handler of %s", run.item.method)
            if is_cancelled:
                self.engine.cancelled(run)
            elif error is not None:
                self.engine.failed(run, error)
            else:
                self.engine.succeeded(run, result)

        task = Task(self.world, _await(run), run.context, ended)
        run.task = task
        task.start(self._is_eager)

    def settled(self, call: Call, result: Any, error: Exception | None) -> None:
        plan, callback = call.waiter
        is_in_flight = self.in_flight.pop(call, None) is plan
        self.settled_calls.append(call)
        self._log("%r of %r", call, plan)
        outcome = call.outcome
        if not is_in_flight or outcome is None:
            self.world.fail(f"{self.name}: {call} has settled before")
        if (outcome is Outcome.RESULT) != (error is None):
            self.world.fail(f"{self.name}: {call} with {error!r}")
        if outcome is Outcome.RESULT:
            if result != {"n": plan.number} or not plan.is_answered:
                self.world.fail(f"{self.name}: {result} is not the result of {plan}")
        elif outcome is Outcome.TIMEOUT:
            if self.judge.deadline_of(call) > self.world.now:
                self.world.fail(f"{self.name}: {call} has timed out before its deadline")
        elif outcome is Outcome.LOST:
            if isinstance(error, ConnectionLost) and error.was_sent is False:
                if plan.is_begun or plan.invocations:
                    self.world.fail(f"{self.name}: {plan} is served, and was disclaimed")
                plan.is_disclaimed = True
            elif self.judge.has_read_response(call):
                self.world.fail(f"{self.name}: {call} is lost, and its response was read")
            elif self.engine.may_call:
                self.world.fail(f"{self.name}: {call} is lost while the connection is open")
        elif outcome is Outcome.CANCELLED and call is not self._cancels:
            self.world.fail(f"{self.name}: the engine cancels {call}")
        if callback is not None:
            callback()

    def left(self) -> None:
        self._log("sends no more calls")

    def abort(self) -> None:
        self._log("gives the peer up")
        self.has_stopped = True
        self.world.soon(self.lose)

    def set_reading(self, wanted: bool) -> None:
        self._log("reads" if wanted else "rests")
        self.is_reading = wanted or self._is_discarding
        if wanted:
            self.peer.wire.schedule()
            if self._read and not self._is_reading_due:
                self._is_reading_due = True
                self.world.soon(self._receive)

    def soon(self) -> None:
        if not self.is_turn_due:
            self.is_turn_due = True
            self.world.soon(self._turn)

    def _turn(self) -> None:
        self.is_turn_due = False
        self._log("goes on with what is left")
        self.engine.turn()

    def drain(self) -> None:
        self._must_drain = True
        self.wrote()

    def wrote(self) -> None:
        """Record that the system has taken bytes."""
        if self._must_drain and not self._is_drain_due and self.unwritten_bytes <= self._low_water:
            self._is_drain_due = True
            self.world.soon(self._drained)
        self._lose_if_done()

    def _drained(self) -> None:
        self._is_drain_due = False
        if self._must_drain and not self.is_lost and self.unwritten_bytes <= self._low_water:
            self._must_drain = False
            self._log("the peer has read")
            self.judge.drained(self.engine.drained)

    def wake_at(self, deadline: float) -> None:
        if deadline < self.wakes_at and not self.is_lost:
            self.wakes_at = deadline
            self.world.at(deadline, self._tick, deadline)

    def _tick(self, deadline: float) -> None:
        if deadline == self.wakes_at and not self.is_lost:
            self.wakes_at = inf
            self._log("sees that time has passed")
            self.engine.tick()

    def idle(self) -> None:
        self.is_idle_told = True
        if self._is_closing:
            self.world.soon(self._finish)

    # The hooks.

    def fault(self, error: BaseException, method: str | None, id: Any) -> None:
        self._log("fault: %r", error)
        if isinstance(error, StateError) and str(error).startswith("too many"):
            self.judge.refused_for_room()
        is_of_handler = isinstance(error, (Failure, RpcError, EncodeError, asyncio.CancelledError))
        is_expected = isinstance(error, (StateError, ParseError, ConnectionLost)) or (
            is_of_handler and method is not None
        )
        if not is_expected and self.world.violation is None:
            self.world.violation = Violation(f"{self.name}: a fault of {method}: {error!r}")
            self.world.violation.__cause__ = error

    # Receiving.

    def receive(self, data: bytes) -> None:
        if not self._is_discarding:
            read: list[Any] = self._decoder.feed(data)
            if self._looks_ahead:
                self.judge.read_together(read)
                self.engine.look_ahead(read)
            self._read += read
            self._receive()

    def _receive(self) -> None:
        self._is_reading_due = False
        read = self._read
        while read and (self.is_reading or self._reads_on) and not self.is_lost:
            message = read.pop(0)
            self._log("reads %r", message)
            self.judge.read(message)
            if isinstance(message, list):
                self.extra_room = max(self.extra_room, len(message))
            if self.world.random.random() < self._late_share:
                self._log("has no time left in this turn")
                self.engine.be_late()
            self.settled_calls.clear()
            self.engine.receive(message)
            self.judge.settled(message)

    def receive_end(self) -> None:
        if self.is_lost:
            return
        self._log("the peer has ended its stream")
        for message in [] if self._is_discarding else self._decoder.close():
            self.judge.read(message)
            self.engine.receive(message)
        self._saw_end = True
        self.engine.lose_calls()
        self._begin_closing(None)
        self._lose_if_done()

    # Serving.

    def invoke(self, plan: Plan) -> Any:
        """Do what a plan says."""
        self._log("serves %r", plan)
        self.judge.invoked(plan)
        if plan.form == "coroutine":
            plan.work = self._work(plan)
            return plan.work
        plan.is_begun = True
        if plan.form == "future":
            plan.work = future = Future(self.world)
            seconds = sum(argument for step, argument in plan.steps if step == "sleep")
            self.world.at(self.world.now + seconds, self._finish_future, plan, future)
            return future
        for step, _ in plan.steps:
            self._do(step, plan)
        return self._conclude(plan)

    def _finish_future(self, plan: Plan, future: Future) -> None:
        try:
            future.set(self._conclude(plan))
        except (Exception, asyncio.CancelledError) as error:
            future.set(error=error)

    async def _work(self, plan: Plan) -> Any:
        plan.is_begun = True
        try:
            for step, seconds in plan.steps:
                if step == "sleep":
                    await self.world.sleep(seconds)
                elif step == "call":
                    await self._call_and_wait(plan)
                else:
                    self._do(step, plan)
        except asyncio.CancelledError:
            plan.is_cut_off = True
            self._log("cuts off %r", plan)
            if plan.on_cancel == "linger":
                await self.world.sleep(1.0)
            if plan.on_cancel == "fail":
                raise Failure from None
            if plan.on_cancel != "return":
                raise
        return self._conclude(plan)

    def _conclude(self, plan: Plan) -> Any:
        if plan.final == "rpc error":
            raise RpcError(RPC_ERROR, "as planned", plan.number)
        if plan.final == "failure":
            raise Failure
        if plan.final == "stray":
            raise asyncio.CancelledError
        return object() if plan.final == "unwritable" else {"n": plan.number}

    def _do(self, step: str, plan: Plan) -> None:
        """Do a step that waits for nothing."""
        if step == "call":
            self.call(plan.depth + 1)
        elif step == "notify":
            self.notify(plan.depth + 1)
        elif step == "cancel":
            self.cancel_any()
        elif step == "close":
            plan.is_ordered = False  # what came later may begin, since it would wait for the end of the session
            self.close()
        elif step == "progress":
            run = running()
            if run is not None and run.request is not None:
                self.engine.send(self.engine.progress(run.request, {"progress": 1}), None)

    async def _call_and_wait(self, plan: Plan) -> None:
        run = running()
        assert run is not None
        run.begin_wait()
        try:
            future = Future(self.world)
            call = self.call(plan.depth + 1, future.set, must_end=plan.is_ordered)
            if call is None:
                return
            try:
                await future
            except asyncio.CancelledError:
                self.cancel(call)
                raise
        finally:
            run.end_wait()

    # The application.

    def call(self, depth: int = 0, callback: Callable[[], object] | None = None, must_end: bool = False) -> Call | None:
        """Call the peer, with a timeout if it must end. Returns None if the call is refused."""
        random = self.world.random
        plan = Plan(self.world, self, True, depth)
        timeout, idle_timeout = random.choice(TIMEOUTS), random.choice(IDLE_TIMEOUTS)
        if plan.pace:
            timeout, idle_timeout = None, 1.5 * plan.pace
        if must_end and timeout is None:
            timeout = 100.0  # two ordered handlers may wait for each other
        on_progress = partial(self._on_progress, plan) if random.random() < 0.3 else None
        try:
            call = self.engine.call(
                plan.method, self._params(plan), timeout, idle_timeout, on_progress, waiter=(plan, callback)
            )
        except (ConnectionLost, StateError) as error:
            if isinstance(error, StateError) and self.engine.calls.may_begin():
                raise
            return None
        self.in_flight[call] = plan
        return call

    def _params(self, plan: Plan) -> dict[str, Any]:
        return {"n": plan.number, "padding": "x" * self.world.random.choice(PADDINGS)}

    def _on_progress(self, plan: Plan, value: Any) -> None:
        self._log("progress of %r", plan)
        if plan not in self.in_flight.values():
            self.world.fail(f"{self.name}: progress of {plan}, which has settled")
        if self.world.random.random() < 0.2:
            self.cancel_any()
        if self.world.random.random() < self._full_share:
            self._log("has a stream whose consumer is behind")
            self._count_full_stream(1)
            seconds = self.world.random.choice((0.0, 0.01, 1.0))
            self.world.at(self.world.now + seconds, self._count_full_stream, -1)

    def _count_full_stream(self, change: int) -> None:
        self.full_streams += change
        self.engine.full_streams += change
        self.engine.update_reading()

    def call_batch(self, size: int) -> None:
        random = self.world.random
        plans = [Plan(self.world, self, random.random() < 0.7) for _ in range(size)]
        items: list[Any] = []
        for plan in plans:
            params = self._params(plan)
            items.append((plan.method, params) if plan.is_request else Notification(plan.method, params))
        try:
            calls = self.engine.call_batch(items, random.choice(TIMEOUTS), lambda index: (plans[index], None))
        except (ConnectionLost, StateError) as error:
            if isinstance(error, StateError) and self.engine.calls.may_begin(size):
                raise
            return
        self.in_flight.update((call, plan) for call, plan in zip(calls, plans, strict=True) if call is not None)

    def notify(self, depth: int = 0) -> None:
        plan = Plan(self.world, self, False, depth)
        with suppress(ConnectionLost):
            self.engine.notify(plan.method, self._params(plan))

    def cancel_any(self) -> None:
        if self.in_flight:
            self.cancel(self.world.random.choice(list(self.in_flight)))

    def cancel(self, call: Call) -> None:
        is_in_flight = call in self.in_flight
        self._cancels = call
        if self.engine.cancel(call) != is_in_flight:
            self.world.fail(f"{self.name}: whether {call} was in flight")
        self._cancels = None

    def write_raw(self) -> None:
        """Write something that no engine writes."""
        random = self.world.random
        if not self.engine.may_call:
            return
        kind = random.choice(("bad", "bad id", "same id", "same ids", "strange response", "hollow", "null", "mixed"))
        id = f"raw {random.randint(1, 3)}"
        if kind == "bad":
            text = random.choice((b"{\n", b'"text"\n', b'{"jsonrpc":"2.0","method":1}\n', b"[]\n", b"\xff\n", b"\n"))
        elif kind == "bad id":
            text = b'{"jsonrpc":"2.0","id":"bad","method":1}\n'
        elif kind in ("same id", "same ids"):
            text = b"".join(self._raw_request(id) for _ in range(1 if kind == "same id" else 3))
        elif kind == "strange response":
            text = b'{"jsonrpc":"2.0","id":"strange","result":1}\n'
        elif kind == "hollow":
            numbers = [call.id for call in self.peer.in_flight]
            text = encode_result(random.choice(numbers), 1).replace(b',"result":1', b"") if numbers else b""
        elif kind == "null":
            text = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}\n'
        else:
            items = [self._raw_request(f"{id}, {number}").rstrip() for number in range(2)]
            text = b"[" + b",".join([items[0], b"1", items[1], b'{"jsonrpc":"2.0","id":"in","method":1}']) + b"]\n"
        if text and not self.wire.is_ended and not self.wire.is_cut:
            self._log("writes %r", text)
            self.unwritten_before = self.unwritten_bytes
            self.judge.wrote_around(len(text))
            self.wire.write(text)

    def _raw_request(self, id: str) -> bytes:
        plan = Plan(self.world, self, True)
        return encode_request(id, plan.method, self._params(plan))

    # The end.

    def close(self) -> None:
        """Close as a session does: say goodbye, serve what was received, cancel the rest, and end the stream."""
        if self.is_lost:
            return
        self._log("closes")
        if self.engine.has_read_a_request and not self._is_closing:
            self.engine.send(self.engine.goodbye(), None)
        run = running()
        if run is not None and run.owner is self.engine:
            self.engine.spare(run)
        self._begin_closing(self.world.random.choice(GRACES))

    def end_stream(self) -> None:
        """Write nothing more, and keep reading."""
        if not self.is_lost:
            self._log("ends its stream")
            self.engine.may_call = False
            self.has_stopped = True
            self.wire.end()

    def _begin_closing(self, grace: float | None) -> None:
        self.engine.begin_draining()
        self._is_closing = True
        if grace is not None:
            self.world.at(self.world.now + grace, self._finish)
        if self.engine.has_served:
            self.idle()

    def _finish(self) -> None:
        """Cancel what is left, then end the stream."""
        if self._has_finished or self.is_lost:
            return
        self._log("has served all, or must end")
        self._has_finished = self.has_stopped = True
        self.engine.finish_late()
        if self.engine.late:
            self.world.fail(f"{self.name}: not all that was read is received before the end")
        self.engine.lose_calls()
        self.engine.cancel_all()
        self._end_when_cancelled(self.world.now + CANCEL_SECONDS)

    def _end_when_cancelled(self, deadline: float) -> None:
        if self.engine.runs and self.world.now < deadline and not self.is_lost:
            self.world.at(self.world.now + 0.2, self._end_when_cancelled, deadline)
            return
        self.engine.count_dropped()
        self._is_discarding = True
        self.set_reading(True)
        self.wire.end()
        self._lose_if_done()

    def _lose_if_done(self) -> None:
        if self._saw_end and self.wire.is_ended and self.wire.is_empty:
            self.world.soon(self.lose)

    def lose(self) -> None:
        """Learn that the connection is lost."""
        if not self.is_lost:
            self._log("has lost the connection")
            self.is_lost = True
            self.judge.forget()
            self.engine.lose()
            self._has_been_told = True
            self.link.lost()

    def check_nothing_left(self) -> None:
        self.judge.check_settled()
        if self._hooks is not None and self._hooks.served:
            self.world.fail(f"{self.name}: a handler has begun, and its end was not reported")


async def _await(run: Run) -> Any:
    return await run.work
