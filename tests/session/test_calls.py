"""Each call settles exactly once, whatever happens in whatever order, and leaves nothing behind."""

from __future__ import annotations

import itertools
import random
from math import inf, nan
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from jsonrpc_fast.errors import StateError
from jsonrpc_fast.hooks import Outcome
from jsonrpc_fast.session import Convention, Rules, calls
from jsonrpc_fast.session.calls import Call, Calls

from ..support.examples import scaled_examples
from ..support.tables import rows
from ..support.timing import min_seconds, thread_seconds

ANSWERS = st.sampled_from([Outcome.RESULT, Outcome.ERROR, Outcome.FAULT])
SECONDS = st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 5.0]))


def new_calls(**options: Any) -> Calls:
    return Calls(Rules(convention=Convention(), **options))


class CallsMachine(RuleBasedStateMachine):
    """The calls compared with a model: calls in flight, calls given up, and how each call settled."""

    calls = Bundle("calls")

    @initialize(strings=st.booleans())
    def start(self, strings: bool) -> None:
        self.bound = pytest.MonkeyPatch()
        self.bound.setattr(calls, "_MAX_TOMBSTONES", 3)
        names = itertools.count(1)
        self.tracked = new_calls(id_factory=(lambda: f"c{next(names)}") if strings else None, max_calls=6)
        self.now = 100.0
        self.in_flight: dict[int | str, Call] = {}
        self.given_up: list[int | str] = []
        self.outcomes: dict[int, Outcome] = {}
        self.begun: list[Call] = []
        self.limits: dict[int, tuple[float, float, float]] = {}  # total, idle seconds, last progress

    def due(self, call: Call) -> float:
        total, idle, last = self.limits[call.number]
        return min(total, last + idle)

    def settled(self, call: Call, outcome: Outcome) -> None:
        assert call.number not in self.outcomes, "a call settled twice"
        assert call.outcome is outcome
        self.outcomes[call.number] = outcome
        del self.in_flight[call.id]
        if outcome in (Outcome.TIMEOUT, Outcome.CANCELLED):
            self.given_up.append(call.id)
            del self.given_up[:-3]

    @rule(target=calls, timeout=SECONDS, idle_timeout=SECONDS)
    def begin(self, timeout: float | None, idle_timeout: float | None) -> Call:
        if len(self.in_flight) == 6:
            assert not self.tracked.may_begin()
            with pytest.raises(StateError):
                self.tracked.begin("m", self.now, timeout, idle_timeout)
            return self.begun[-1]
        call = self.tracked.begin("m", self.now, timeout, idle_timeout)
        assert call.id not in self.in_flight
        self.in_flight[call.id] = call
        self.begun.append(call)
        total = inf if timeout is None else self.now + timeout
        self.limits[call.number] = total, inf if idle_timeout is None else idle_timeout, self.now
        return call

    @rule(call=calls, outcome=ANSWERS)
    def answer(self, call: Call, outcome: Outcome) -> None:
        """A first response, a late one, or another one."""
        found = self.tracked.settle(call.id, outcome)
        if call.id in self.in_flight:
            assert found is call
            self.settled(call, outcome)
        else:
            assert found is None
            late = call.id in self.given_up
            assert self.tracked.is_late_response(call.id) is late
            if late:
                self.given_up.remove(call.id)

    @rule(id=st.one_of(st.integers(-3, 40), st.floats(0, 9), st.booleans(), st.none(), st.text(max_size=3)))
    def answer_any(self, id: str | float | None) -> None:
        known = type(id) in (int, str) and (id in self.in_flight or id in self.given_up)
        if not known:
            assert self.tracked.settle(id, Outcome.RESULT) is None
            assert not self.tracked.is_late_response(id)
            assert self.tracked.find(id) is None

    @rule(call=calls)
    def cancel(self, call: Call) -> None:
        was_in_flight = call.id in self.in_flight
        assert self.tracked.give_up(call, Outcome.CANCELLED) is was_in_flight
        if was_in_flight:
            self.settled(call, Outcome.CANCELLED)

    @rule(call=calls)
    def progress(self, call: Call) -> None:
        if call.id in self.in_flight:
            call.progressed = self.now
            self.limits[call.number] = (*self.limits[call.number][:2], self.now)

    @rule(step=st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0, 10.0]))
    def pass_time(self, step: float) -> None:
        self.now += step
        due = [call for call in self.in_flight.values() if self.due(call) <= self.now]
        expired = self.tracked.expire(self.now)
        assert {call.number for call in expired} == {call.number for call in due}
        for call in expired:
            self.settled(call, Outcome.TIMEOUT)

    @rule()
    def lose(self) -> None:
        lost = self.tracked.lose()
        assert {call.number for call in lost} == {call.number for call in self.in_flight.values()}
        for call in lost:
            self.settled(call, Outcome.LOST)
        self.given_up.clear()

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "tracked"):
            return
        assert len(self.tracked) == len(self.in_flight)
        assert {id: self.tracked.find(id) for id in self.in_flight} == self.in_flight
        deadlines = [due for call in self.in_flight.values() if (due := self.due(call)) != inf]
        told = self.tracked.next_deadline()
        # Progress extends a deadline silently, so the reported one may be early.
        assert (told == inf) == (not deadlines)
        assert told <= min(deadlines, default=inf)

    def teardown(self) -> None:
        if not hasattr(self, "tracked"):
            return
        self.lose()
        assert len(self.outcomes) == len(self.begun)
        assert all(call.outcome is self.outcomes[call.number] for call in self.begun)
        assert len(self.tracked) == len(self.tracked._deadlines) == len(self.tracked._tombstones) == 0
        self.bound.undo()


TestCalls = CallsMachine.TestCase
TestCalls.settings = settings(scaled_examples(0.5), stateful_step_count=40)


def test_ids_count_from_one() -> None:
    tracked = new_calls()
    assert [tracked.begin("m", 0.0).id for _ in range(3)] == [1, 2, 3]


@rows("other", [7.0, "7", True, 1.0, None])
def test_ids_of_different_types_never_match(other: str | float | None) -> None:
    tracked = new_calls()
    calls = [tracked.begin("m", 0.0) for _ in range(7)]
    assert tracked.settle(other, Outcome.RESULT) is None
    assert not tracked.is_late_response(other)
    assert tracked.find(other) is None
    assert len(tracked) == 7
    assert tracked.settle(7, Outcome.RESULT) is calls[6]


def test_an_id_in_flight_is_refused() -> None:
    tracked = new_calls(id_factory=lambda: "same")
    first = tracked.begin("m", 0.0)
    with pytest.raises(StateError):
        tracked.begin("m", 0.0)
    assert first.outcome is None
    # Its late response would be mistaken for the response to the next call.
    tracked.give_up(first, Outcome.CANCELLED)
    with pytest.raises(StateError):
        tracked.begin("m", 0.0)
    assert tracked.is_late_response("same")
    second = tracked.begin("m", 0.0)
    assert tracked.settle("same", Outcome.RESULT) is second
    assert tracked.begin("m", 0.0).id == "same"


def test_the_only_call_that_the_peer_may_respond_to() -> None:
    tracked = new_calls()
    assert tracked.only_awaited() is None
    first = tracked.begin("m", 0.0)
    assert tracked.only_awaited() is first
    second = tracked.begin("m", 0.0)
    assert tracked.only_awaited() is None
    tracked.give_up(second, Outcome.CANCELLED)  # the peer may still respond to it
    assert tracked.only_awaited() is None
    assert tracked.is_late_response(second.id)
    assert tracked.only_awaited() is first


@rows("made", [None, 1.0, True, b"x", ["x"]])
def test_an_id_of_another_type_is_refused(made: object) -> None:
    tracked = new_calls(id_factory=lambda: made)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError):
        tracked.begin("m", 0.0)
    assert len(tracked) == 0


@rows("timeout", [-1, -0.001, nan])
def test_a_timeout_is_not_negative(timeout: float) -> None:
    tracked = new_calls()
    with pytest.raises(ValueError, match="0 seconds or more"):
        tracked.begin("m", 0.0, timeout)
    with pytest.raises(ValueError, match="0 seconds or more"):
        tracked.begin("m", 0.0, None, timeout)
    assert len(tracked) == 0


def test_the_earlier_deadline_counts() -> None:
    tracked = new_calls()
    call = tracked.begin("m", 10.0, timeout=5.0, idle_timeout=2.0)
    assert tracked.next_deadline() == 12.0
    call.progressed = 11.5
    assert tracked.expire(12.0) == []
    assert tracked.next_deadline() == 13.5
    call.progressed = 13.4
    assert tracked.expire(14.9) == []
    # Progress does not extend the total deadline.
    call.progressed = 14.9
    assert tracked.expire(15.0) == [call]
    assert call.outcome is Outcome.TIMEOUT
    assert tracked.next_deadline() == inf


def test_an_infinite_timeout_sets_no_deadline() -> None:
    tracked = new_calls()
    tracked.begin("m", 0.0, inf, inf)
    tracked.begin("m", 0.0)
    assert tracked.next_deadline() == inf
    assert tracked.expire(1e12) == []


def test_tombstones_are_bounded_and_the_oldest_one_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_MAX_TOMBSTONES", 2)
    tracked = new_calls()
    for _ in range(3):
        tracked.give_up(tracked.begin("m", 0.0), Outcome.CANCELLED)
    assert [tracked.is_late_response(id) for id in (1, 2, 3, 3)] == [False, True, True, False]


def test_a_reused_id_keeps_its_own_deadline() -> None:
    """The heap still contains the entry of the first call with that id."""
    tracked = new_calls(id_factory=lambda: "same")
    tracked.begin("m", 0.0, 1.0)
    tracked.settle("same", Outcome.RESULT)
    second = tracked.begin("m", 0.0, 9.0)
    assert tracked.expire(1.0) == []
    assert tracked.next_deadline() == 9.0
    assert tracked.expire(9.0) == [second]


def test_settled_calls_leave_the_heap() -> None:
    tracked = new_calls()
    longest = 0
    for now in range(10_000):
        for call in [tracked.begin("m", now, 300.0) for _ in range(3)]:
            tracked.settle(call.id, Outcome.RESULT)
            longest = max(longest, len(tracked._deadlines))
    assert longest <= 75
    # It does not keep the calls alive either, which refer to their results.
    assert all(isinstance(part, (int, float)) for entry in tracked._deadlines for part in entry)


def test_which_calls_began_behind_another() -> None:
    counting, named = new_calls(), new_calls(id_factory=map(str, itertools.count(1)).__next__)
    for tracked, ids in ((counting, [1, 2, 3, 4]), (named, ["1", "2", "3", "4"])):
        for id in ids:
            assert tracked.begin("m", 0.0).id == id
        tracked.settle(ids[0], Outcome.RESULT)
        found = [[call.id for call in tracked.behind(last)] for last in (None, ids[0], ids[2], ids[3], 2.0, True)]
        # A call that got its response is known by its id only if ids are counted.
        behind_first = ids[1:] if tracked is counting else []
        assert found == [ids[1:], behind_first, ids[3:], [], [], []]


def test_a_repr_does_not_show_the_answer() -> None:
    call = new_calls().begin("m", 0.0)
    call.settled_by = "secret"
    assert repr(call) == "<Call 1 in flight>"


def seconds_per_call(pending: int) -> float:
    """Time to add and expire one call among `pending` others with random deadlines."""
    numbers = random.Random(pending)
    tracked = new_calls(max_calls=10**7)
    for _ in range(pending):
        tracked.begin("m", 0.0, numbers.uniform(1000, 2000))
    timeouts = [numbers.uniform(0, 900) for _ in range(2000)]

    def begin_and_expire() -> None:
        for timeout in timeouts:
            tracked.begin("m", 0.0, timeout)
        assert len(tracked.expire(950.0)) == 2000

    taken = thread_seconds(begin_and_expire)
    assert len(tracked) == pending
    return taken / 2000


@pytest.mark.slow
def test_the_cost_of_a_call_hardly_depends_on_the_number_in_flight() -> None:
    few, many = min_seconds(lambda: seconds_per_call(1_000), lambda: seconds_per_call(100_000))
    assert many < 5 * few
