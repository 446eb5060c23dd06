"""The judge of one end: what that end owes its peer, and the invariants that hold after every event.

Invariants:
- Each request that was read gets exactly one response, which its plan allows; a batch gets one array in the order of
  the batch. Nothing else gets a response, and a cancelled request only if the convention says so.
- No function is called if its request was cancelled before, or by a message that was read together with it.
- Functions are called in the order of arrival, each once, and coroutines get their slots in that order. Nothing that
  came after a message whose method is ordered is called before its function has ended. Nothing is called while the peer
  does not read, except for one message each time it has read.
- Slots, waiting messages, their bytes, and refusals to a peer that does not read are bounded.
- There is a timer for the earliest deadline, and a side that drains reports when it has served everything.
- At the end nothing is left: no call, request, handler, byte or count; and reading continues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, Final

from jsonrpc_fast import Notification, ParseError, Request, Response, decode
from jsonrpc_fast.codes import ParseErrorCode, SessionErrorCode
from jsonrpc_fast.session import Call, Cancellation, Goodbye, Progress
from jsonrpc_fast.session.conventions import Withdrawn
from jsonrpc_fast.session.requests import Run

from .plans import RPC_ERROR, Plan

if TYPE_CHECKING:
    from .end import End

BUSY: Final = int(SessionErrorCode.SERVER_BUSY)
CANCELLED: Final = -32800
REFUSALS: Final = (BUSY, -32600, -32700)
"""The errors that no handler raises."""
MANY_BYTES: Final = 10**6
"""More bytes than all messages of a conversation have."""
CLOCK_SECONDS: Final = 0.01
"""The time that may pass while an engine reads the clock."""
REFUSAL_FACTOR: Final = 16
"""The multiple of `response_bytes` that refusals may have before reading pauses."""


def key_of(id: Any) -> tuple[type, Any]:
    return type(id), id


class Judge:
    """What one end owes, and the rules that it must keep."""

    def __init__(self, end: End) -> None:
        self._end = end
        self._world = end.world
        self._owed: Counter[Any] = Counter()  # responses by the keys of their ids
        self._allowed: Counter[Any] = Counter()  # responses that may come, but need not
        self._faulty: set[Any] = set()  # the keys of malformed messages that were read
        self._batches: list[list[Any]] = []  # the keys of each batch that was read
        self._plans: dict[Any, list[Plan]] = {}  # of the requests that were read, by key
        self._progress: dict[Call, float] = {}  # when there was progress last
        self._arrivals = 0
        self._last_invoked = self._last_started = -1
        self._ordered: Plan | None = None  # the last one that was served
        self._may_invoke_one = self._is_told = False
        self._notifications = self._invoked_notifications = self._late_notifications = 0
        self._refusals_for_room = 0
        self._busy_responses = 0
        self._was_draining = False
        self._around_bytes = 0  # written without the engine, since everything was written
        self._refused_bytes = 0  # of refusals since the peer has read
        self._has_refused = False  # since the last check
        self._had_served = True
        self._unread_items = 0  # that were received since reading paused
        self._responses: set[Any] = set()  # the keys of those that were read
        self._received: dict[int, Notification] = {}

    # What is read.

    def read_together(self, items: list[Any]) -> None:
        """Note the requests that are cancelled among messages which are read together."""
        convention = self._end.convention
        plans = {}
        items = [one for item in items for one in (item if isinstance(item, list) else [item])]
        for item in items:
            if isinstance(item, Request):
                plans[item.id] = self._plan_of(item)
            elif isinstance(item, Notification) and item.method in convention.methods:
                notice = convention.read(item.method, item.params)
                if isinstance(notice, Cancellation) and notice.id in plans:
                    plan = plans.pop(notice.id)
                    plan.is_withdrawn = plan.method not in convention.never_cancelled

    def read(self, message: Any) -> None:
        """Note what the engine is about to receive."""
        if not self._end.is_reading:
            self._unread_items += len(message) if isinstance(message, list) else 1
        if isinstance(message, list):
            keys = [key for item in message if (key := self._read_item(item, True)) is not None]
            if keys:
                self._batches.append(keys)
        else:
            self._read_item(message, False)

    def _read_item(self, item: Any, is_in_batch: bool) -> Any:
        """Note an item, and return the key of the response that it may get."""
        self._arrivals += 1
        engine = self._end.engine
        if isinstance(item, (Request, Withdrawn)):
            key = key_of(item.id)
            plan = self._plan_of(item.request if isinstance(item, Withdrawn) else item)
            if plan.is_withdrawn is not isinstance(item, Withdrawn):
                self._fail(f"{item} of {plan}")
            plan.arrival, plan.key, plan.is_in_batch = self._arrivals, key, is_in_batch
            self._plans.setdefault(key, []).append(plan)
            plan.is_cancelled = plan.is_withdrawn
            if plan.is_withdrawn and self._end.convention.cancelled_error is None:
                self._allowed[key, is_in_batch] += 1  # if this side drains
            else:
                self._owed[key, is_in_batch] += 1
            return key
        if isinstance(item, Notification):
            if isinstance(item.params, dict) and "n" in item.params:
                self._plan_of(item).arrival = self._arrivals
                if engine.is_draining:
                    self._late_notifications += 1
                else:
                    self._notifications += item.method != "unknown"
            elif item.method in self._end.convention.methods and not is_in_batch:
                notice = self._end.convention.read(item.method, item.params)
                if isinstance(notice, Cancellation) and not self._read_cancellation(notice):
                    self._cancel_late(notice)
        elif isinstance(item, Response):
            self._responses.add(key_of(item.id))
        elif isinstance(item, ParseError) and item.reply_expected:
            key = key_of(item.id)
            self._faulty.add(key)
            is_hollow = item.code is ParseErrorCode.MISSING_METHOD and item.id is not None
            # What waits in front of it may settle the call.
            if is_hollow and engine.calls.find(item.id) is not None and not engine.is_late:
                return None
            policy = self._end.response_policy if item.id is None else "always"
            if policy == "always" and not is_hollow:
                self._owed[key, is_in_batch] += 1
            elif policy != "never":
                self._allowed[key, is_in_batch] += 1
            return key
        return None

    def has_read_response(self, call: Call) -> bool:
        """Whether the response to a call was read."""
        return key_of(call.id) in self._responses

    def deadline_of(self, call: Call) -> float:
        """Return when a call must time out."""
        if call.idle_seconds is None:
            return call.expires
        return min(call.expires, self._progress.get(call, call.started) + call.idle_seconds)

    def receives(self, message: Notification) -> None:
        """Note that the engine is about to receive a notification."""
        if id(message) in self._received:
            self._fail(f"{message} is received twice")
        self._received[id(message)] = message
        if message.method in self._end.convention.methods:
            notice = self._end.convention.read(message.method, message.params)
            if isinstance(notice, Cancellation):
                self._read_cancellation(notice)
            elif isinstance(notice, Progress):
                engine = self._end.engine
                if self._end.full_streams and engine.may_call and not engine.is_draining:
                    self._fail(f"{message} is received while a consumer is behind")
                self._read_progress(notice)

    def _cancel_late(self, notice: Cancellation) -> None:
        """Note that a request which waits for a later turn is cancelled, unless it is an item of a large batch."""
        convention = self._end.convention
        found: Any = None
        for message in self._end.engine.late:
            for item in message if isinstance(message, list) else [message]:
                if isinstance(item, (Request, Withdrawn)) and key_of(item.id) == key_of(notice.id):
                    found = item
                elif isinstance(item, Notification) and item.method in convention.methods:
                    other = convention.read(item.method, item.params)
                    if isinstance(other, Cancellation) and key_of(other.id) == key_of(notice.id):
                        found = None
        if isinstance(found, Request):
            plan = self._plan_of(found)
            if plan.method not in convention.never_cancelled:
                self._note_cancelled(plan, plan.key, plan.is_in_batch)
                self._allowed[plan.key, plan.is_in_batch] += convention.cancelled_error is None

    def _note_cancelled(self, plan: Plan, key: Any, is_in_batch: bool) -> None:
        plan.is_cancelled = True
        if self._end.convention.cancelled_error is None:
            # The response to a fault with this id, which need not come, may have been taken for that of the request.
            is_taken = self._owed[key, is_in_batch] == 0 and self._allowed[key, is_in_batch] > 0
            (self._allowed if is_taken else self._owed)[key, is_in_batch] -= 1

    def _read_progress(self, notice: Progress) -> None:
        for call in self._end.in_flight:
            if call.token == notice.token and type(call.token) is type(notice.token):
                self._progress[call] = self._world.now

    def settled(self, message: Any) -> None:
        """Check the calls that a message has settled."""
        end = self._end
        if isinstance(message, Response) and message.id is None and len(end.settled_calls) > 1:
            batches = {id(call.batch) for call in end.settled_calls}
            if len(batches) > 1 or end.settled_calls[0].batch is None:
                self._fail(f"{message} settles {end.settled_calls}")

    def received(self, message: Notification) -> None:
        """Note that the engine has received a notification."""
        end = self._end
        if message.method in end.convention.methods:
            notice = end.convention.read(message.method, message.params)
            if isinstance(notice, Goodbye):
                for call in end.in_flight:
                    last = notice.last
                    if last is None or (type(call.id) is int and type(last) is int and call.id > last):
                        self._fail(f"{call} is still in flight after the goodbye")

    def _read_cancellation(self, notice: Cancellation) -> bool:
        """Note that a request which is being served is cancelled. Return whether there is one."""
        engine, convention = self._end.engine, self._end.convention
        request = engine.find_request(notice.id)
        if request is None:
            return False
        plan = self._plan_of(request)
        if not (request.is_cancelled or plan.is_cancelled or request.method in convention.never_cancelled):
            self._note_cancelled(plan, key_of(request.id), request.batch is not None)
        return True

    def _plan_of(self, item: Any) -> Plan:
        plan: Plan = self._world.plans[item.params["n"]]
        if plan.receiver is not self._end:
            self._fail(f"{plan} has come to the wrong end")
        return plan

    # What is written.

    def wrote(self, data: bytes) -> None:
        message: Any = decode(data)
        if not data.endswith(b"\n"):
            self._fail(f"a line without an end: {data!r}")
        is_blocked = self._end.unwritten_before > self._end.rules.response_bytes
        for item in message if isinstance(message, list) else [message]:
            if isinstance(item, Request):  # a response with its id that was read before is to something else
                self._responses.discard(key_of(item.id))
        if isinstance(message, Response):
            self._wrote_response(message, False)
            is_refusal = message.error is not None and message.error.code in REFUSALS
            if is_blocked and is_refusal and not self._is_told:
                self._refused_bytes += len(data)
                self._has_refused = True
        elif isinstance(message, list) and isinstance(message[0], Response):
            for item in message:
                self._wrote_response(item, True)
            found = [key_of(item.id) for item in message]
            for keys in self._batches:
                rest = iter(keys)
                if all(key in rest for key in found):
                    self._batches.remove(keys)
                    break
            else:
                self._fail(f"an array that answers no batch in its order: {data!r}")
        elif isinstance(message, ParseError):
            self._fail(f"the engine wrote {data!r}: {message}")

    def wrote_around(self, size: int) -> None:
        """Note what was written without the engine, which checks the unwritten bytes after as many bytes of its own."""
        if not self._end.unwritten_before:
            self._around_bytes = 0
        self._around_bytes += size

    def _wrote_response(self, message: Any, is_in_batch: bool) -> None:
        if not isinstance(message, Response):
            self._fail(f"an array of responses and others: {message}")
        key = key_of(message.id)
        if self._owed[key, is_in_batch] > 0:
            self._owed[key, is_in_batch] -= 1
        elif self._allowed[key, is_in_batch] > 0:
            self._allowed[key, is_in_batch] -= 1
        else:
            self._fail(f"a response that is not owed: {message}")
        plans = self._plans.get(key, [])
        error = message.error
        if error is None:
            self._wrote_result(message, plans)
        elif error.code == RPC_ERROR:
            self._wrote_outcome(self._world.plans[error.data], plans, "rpc error")
        elif plans and not self._allows(error.code, plans):
            self._fail(f"{message} does not answer any of {plans}")

    def _wrote_result(self, message: Response, plans: list[Plan]) -> None:
        result: Any = message.result
        if not isinstance(result, dict) or not isinstance(result.get("n"), int):
            self._fail(f"no plan returns {message}")
        self._wrote_outcome(self._world.plans[result["n"]], plans, "value")

    def _wrote_outcome(self, plan: Plan, plans: list[Plan], final: str) -> None:
        if plan not in plans or plan.final != final or plan.is_answered or not plan.is_begun:
            self._fail(f"a response of {plan} among {plans}")
        plan.is_answered = True

    def _allows(self, code: int, plans: list[Plan]) -> bool:
        """Return whether one of the requests with an id may get this error."""
        if code == BUSY:
            self._busy_responses += 1
            return any(plan.form == "future" or not plan.is_begun for plan in plans)
        if code == -32601:
            return any(plan.method == "unknown" for plan in plans)
        if code == -32603:
            return any(plan.can_fail for plan in plans)
        if code == CANCELLED:
            return any(plan.is_cancelled for plan in plans)
        return code == -32600 and (len(plans) > 1 or plans[0].key in self._faulty)

    # What is served.

    def invoked(self, plan: Plan) -> None:
        """Note that the engine calls the function of a message."""
        plan.invocations += 1
        if plan.invocations > 1:
            self._fail(f"{plan} is served twice")
        if plan.is_cancelled:
            self._fail(f"{plan} is served although it was cancelled")
        if plan.is_disclaimed:
            self._fail(f"{plan} is served although the peer was told that it would not be")
        if plan.arrival <= self._last_invoked:
            self._fail(f"{plan} is served after what came later")
        if self._ordered is not None and self._ordered.is_ordered and self._ordered.is_at_work:
            self._fail(f"{plan} is served before {self._ordered} has ended")
        if plan.is_ordered:
            self._ordered = plan
        self._last_invoked = plan.arrival
        self._invoked_notifications += not plan.is_request
        unwritten = len(self._end.wire.unwritten) - self._around_bytes
        if unwritten > self._end.rules.response_bytes and not self._may_invoke_one:
            self._fail(f"{plan} is served while the peer does not read")
        self._may_invoke_one = False

    def started(self, run: Run) -> None:
        """Note that the engine starts a handler."""
        if run.state == "slotless":
            return
        plan = self._plan_of(run.item)
        if plan.arrival <= self._last_started:
            self._fail(f"{plan} gets its slot after what came later")
        self._last_started = plan.arrival
        bounds = self._end.rules
        running = sum(run.state == "running" for run in self._end.engine.runs)
        if run.state == "running" and running > bounds.max_handlers:
            self._fail(f"{running} handlers run")

    def ended(self, run: Run) -> None:
        """Note that a handler has ended."""
        self._plan_of(run.item).work = None

    def refused_for_room(self) -> None:
        """Note that the engine refuses a message because there is no room."""
        self._refusals_for_room += 1
        bounds, engine = self._end.rules, self._end.engine
        states = [run.state for run in engine.runs]
        waiting = len(engine.queue) + states.count("waiting")
        most = max(waiting, states.count("slotless"))
        if bounds.inbox_bytes >= MANY_BYTES and most < bounds.max_inbox:
            self._fail(f"there is room: {most} messages wait")

    def drained(self, drained: Callable[[], object]) -> None:
        """Tell the engine that the peer has read."""
        self._may_invoke_one = self._is_told = True
        self._refused_bytes = 0
        drained()
        self._may_invoke_one = self._is_told = False

    # After each event.

    def check(self) -> None:
        end = self._end
        engine, bounds = end.engine, end.rules
        deadline = engine.deadline
        for call in end.in_flight:
            if (expires := self.deadline_of(call)) < deadline:
                deadline = expires
        if deadline + CLOCK_SECONDS < end.wakes_at and not end.is_lost:
            self._fail(f"no timer for a deadline at {deadline}")
        states = [run.state for run in engine.runs]
        running, waiting = states.count("running"), len(engine.queue) + states.count("waiting")
        if (engine.running, engine.waiting_items) != (running, waiting):
            self._fail(
                f"{running} handlers run and {waiting} messages wait: {engine.running} and {engine.waiting_items}"
            )
        if end.is_reading and not engine.queue:
            self._unread_items = 0
        # All handlers that run may begin to wait when the queue is already full; and one more is held when reading
        # pauses.
        most = bounds.max_inbox + 1 + bounds.max_handlers + self._unread_items + end.extra_room
        if waiting > most:
            self._fail(f"{waiting} messages wait, and at most {most} may")
        is_resting = not end.is_reading and not end.is_lost and not end.is_turn_due and not end.full_streams
        if is_resting and engine.deadline == inf and not end.has_stopped:
            self._fail("nothing is read, without a limit")
        kept = engine.kept_bytes()
        if (kept > 0) != bool(engine.queue or engine.runs) or kept < 0:
            self._fail(f"{kept} bytes are kept of {len(engine.queue)} messages and {len(engine.runs)} handlers")
        has_refused_too_much = self._has_refused and self._refused_bytes > REFUSAL_FACTOR * bounds.response_bytes
        self._has_refused = False
        if has_refused_too_much and end.is_reading and not end.is_lost and not end.has_stopped:
            self._fail(f"{self._refused_bytes} bytes of refusals for a peer that does not read, and reading goes on")
        if engine.is_draining:
            has_served = engine.has_served
            is_news = has_served and not self._had_served
            if is_news and not end.is_idle_told and not end.has_stopped and not end.is_lost:
                self._fail("all is served, and nobody is told")
            self._had_served = has_served
            end.is_idle_told = False
            self._was_draining = True

    # The end.

    def check_settled(self) -> None:
        """Check an end whose peer has read everything, and whose handlers have ended."""
        end = self._end
        engine = end.engine
        if end.in_flight or len(engine.calls):
            self._fail(f"calls are in flight for ever: {end.in_flight}")
        if engine.runs or engine.queue or engine.requests:
            self._fail(f"requests are served for ever: {engine.runs}, {engine.queue}, {engine.requests}")
        if engine.late or engine.is_late:
            self._fail(f"messages are received never: {engine.late}")
        if engine.kept_bytes():
            self._fail(f"{engine.kept_bytes()} bytes are kept of nothing")
        if end.is_lost:
            return
        if not engine.is_idle:
            self._fail("the engine is not idle")
        if not end.is_reading:
            self._fail("nothing is read any more")
        if end.has_stopped:
            return
        owed = {key: count for key, count in self._owed.items() if count}
        if owed:
            self._fail(f"some requests were never answered: {owed}")
        if not self._was_draining:
            dropped = self._notifications - self._invoked_notifications
            refused = self._refusals_for_room - self._busy_responses
            if dropped > refused:
                self._fail(f"{dropped} notifications were dropped, and {refused} were reported")
            if self._busy_responses > self._refusals_for_room:
                self._fail(f"{self._busy_responses} refusals, and room was missing {self._refusals_for_room} times")

    def forget(self) -> None:
        """Note that the connection is lost: nothing is owed any more."""
        self._owed.clear()
        self._allowed.clear()
        self._batches.clear()

    def _fail(self, what: str) -> None:
        self._world.fail(f"{self._end.name}: {what}")
