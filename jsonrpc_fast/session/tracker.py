"""Which calls wait for an answer, until when, and which requests of the peer are being served. No IO, no clock.

Rules:
  - a call settles exactly once: by a result, an error, an unreadable answer, its deadline, a cancellation on this
    side, or the loss of the connection;
  - `now` is handed in: seconds as a float, from any clock that never goes back;
  - a call has up to two deadlines. The total one stands; the idle one moves with every sign of progress;
  - a call that was given up (deadline, cancellation) leaves a tombstone, so that its late answer is known and
    dropped. Of those only the newest `max_tombstones` are kept;
  - ids are compared by type and value: 7, "7", 7.0 and True are four ids;
  - an id is used for one call at a time by this side, and by the peer unless it is allowed to do otherwise.

Deadlines lie in a heap. What settles before its deadline stays there as a dead entry, and progress moves no entry: both
are seen when the entry comes up. Dead entries never outnumber the calls in flight by more than a constant, so adding
and expiring cost O(log n). An entry holds no call, for a call holds its result.
"""

from __future__ import annotations

import enum
import itertools
from collections import OrderedDict
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Final, Generic, TypeVar

from ..errors import StateError
from ..types import MessageId

T = TypeVar("T")

_IDLE_ENTRIES: Final = 64  # dead heap entries that are not worth a clean-up


class Outcome(enum.Enum):
    """How a call settled. `ERROR` alone came from the peer as an error."""

    RESULT = "result"
    ERROR = "error"
    FAULT = "fault"  # an answer came, but broke a rule
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    LOST = "lost"


class Call:
    """A call of this side. `outcome` is None while it is in flight.

    id            int or str
    method        str
    started       seconds, the `now` of its beginning
    expires       seconds, the total deadline; infinite when there is none
    idle_seconds  how long it may stay without progress, or None
    answer        the result, the `Error` or the `ParseError` that it settled by; None before, and for all else

    The rest belongs to the peer and to the driver.
    """

    __slots__ = (
        "answer",
        "batch",
        "callback",
        "expires",
        "future",
        "id",
        "idle_seconds",
        "method",
        "number",
        "on_progress",
        "outcome",
        "progressed",
        "started",
        "token",
        "trace",
    )

    def __init__(
        self, id: int | str, method: str, number: int, started: float, expires: float, idle_seconds: float | None
    ) -> None:
        self.id: int | str = id
        self.method: str = method
        self.number: int = number
        self.started: float = started
        self.progressed: float = started
        self.expires: float = expires
        self.idle_seconds: float | None = idle_seconds
        self.outcome: Outcome | None = None
        self.answer: Any = None
        self.token: int | str | None = None
        self.batch: Any = None
        self.future: Any = None
        self.callback: Any = None
        self.on_progress: Callable[[Any], object] | None = None
        self.trace: Any = None

    def deadline(self) -> float:
        """The earlier of both deadlines, in seconds; infinite when there is none."""
        if self.idle_seconds is None:
            return self.expires
        return min(self.expires, self.progressed + self.idle_seconds)

    def __repr__(self) -> str:
        # The answer is the peer's, and may be anything.
        return f"<Call {self.id!r} {'in flight' if self.outcome is None else self.outcome.value}>"


class Tracker:
    """The calls of this side that wait for an answer.

    id_factory      gives the ids of calls, ints or strs; the default counts from 1
    max_pending     calls in flight at one time
    max_tombstones  of calls that were given up and not answered yet
    """

    __slots__ = ("_deadlines", "_id_factory", "_max_pending", "_max_tombstones", "_numbers", "_pending", "_tombstones")

    def __init__(
        self,
        *,
        id_factory: Callable[[], int | str] | None = None,
        max_pending: int = 100_000,
        max_tombstones: int = 10_000,
    ) -> None:
        self._numbers = itertools.count(1)
        self._id_factory = id_factory
        self._max_pending = max_pending
        self._max_tombstones = max_tombstones
        self._pending: dict[int | str, Call] = {}
        self._tombstones: OrderedDict[int | str, None] = OrderedDict()
        self._deadlines: list[tuple[float, int, int | str]] = []

    def __len__(self) -> int:
        """How many calls are in flight."""
        return len(self._pending)

    def has_room(self, calls: int = 1) -> bool:
        """Whether so many more may be in flight."""
        return len(self._pending) + calls <= self._max_pending

    def begin(self, method: str, now: float, timeout: float | None = None, idle_timeout: float | None = None) -> Call:
        """A new call in flight. The timeouts are seconds from now on; None for no such deadline.

        Raises StateError when `max_pending` calls are in flight, or when the factory gives an id that is still in
        use; ValueError for a timeout that is negative or no number; TypeError for an id that is no int or str.
        """
        pending = self._pending
        if len(pending) >= self._max_pending:
            raise StateError("too many calls are in flight")
        number = next(self._numbers)
        id = number if self._id_factory is None else self._made_id(self._id_factory())
        expires = inf
        if timeout is not None:
            if not timeout >= 0:
                raise ValueError("a timeout must be 0 seconds or more")
            expires = now + timeout
        call = Call(id, method, number, now, expires, idle_timeout)
        if idle_timeout is not None:
            if not idle_timeout >= 0:
                raise ValueError("a timeout must be 0 seconds or more")
            expires = call.deadline()
        if expires != inf:
            heappush(self._deadlines, (expires, number, id))
        pending[id] = call
        return call

    def _made_id(self, id: int | str) -> int | str:
        """What the factory made. A subclass of int would come back as another type, and never match."""
        if type(id) is not int and type(id) is not str:
            raise TypeError(f"an id must be an int or a str, not {type(id).__name__}")
        # An unanswered call counts as well: its late answer would be taken for the new one's.
        if id in self._pending or id in self._tombstones:
            raise StateError("the id is that of another call in flight")
        return id

    def find(self, id: MessageId) -> Call | None:
        """The call in flight that has this id."""
        if type(id) is not int and type(id) is not str:
            return None  # 7.0 and True equal 7 in a dict
        return self._pending.get(id)

    def settle(self, id: MessageId, outcome: Outcome) -> Call | None:
        """Takes the call that an answer came for. None when there is none: see `bury`."""
        if type(id) is not int and type(id) is not str:
            return None
        pending = self._pending
        call = pending.pop(id, None)
        if call is not None:
            call.outcome = outcome
            if len(self._deadlines) > 2 * len(pending) + _IDLE_ENTRIES:
                self._drop_dead_entries()
        return call

    def give_up(self, call: Call, outcome: Outcome) -> bool:
        """Settles a call that was not answered. False when it has settled already, and then nothing happens."""
        if call.outcome is not None or self.settle(call.id, outcome) is not call:
            return False
        tombstones = self._tombstones
        tombstones[call.id] = None
        if len(tombstones) > self._max_tombstones:
            tombstones.popitem(last=False)
        return True

    def bury(self, id: MessageId) -> bool:
        """Whether this is the late answer to a call that was given up. A second answer is not."""
        if (type(id) is not int and type(id) is not str) or id not in self._tombstones:
            return False
        del self._tombstones[id]
        return True

    @property
    def is_owed(self) -> bool:
        """Whether the peer may still work on a call, in flight or given up."""
        return bool(self._pending or self._tombstones)

    def progress(self, call: Call, now: float) -> None:
        """A sign of life: the idle deadline counts from now on."""
        call.progressed = now

    def expire(self, now: float) -> list[Call]:
        """The calls whose deadline has come, settled as `TIMEOUT`."""
        expired = []
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now:
            call = self._call_of(heappop(deadlines))
            if call is None:
                continue
            deadline = call.deadline()
            if deadline > now:
                heappush(deadlines, (deadline, call.number, call.id))
            elif self.give_up(call, Outcome.TIMEOUT):
                expired.append(call)
        return expired

    def next_deadline(self) -> float | None:
        """When to call `expire` again, in seconds; None when there is no need. It may come early, never late."""
        deadlines = self._deadlines
        while deadlines:
            if self._call_of(deadlines[0]) is not None:
                return deadlines[0][0]
            heappop(deadlines)
        return None

    def lose(self) -> list[Call]:
        """All the calls in flight, settled as `LOST`: no answer can come any more."""
        lost = list(self._pending.values())
        for call in lost:
            call.outcome = Outcome.LOST
        self._pending.clear()
        self._tombstones.clear()
        self._deadlines.clear()
        return lost

    def _drop_dead_entries(self) -> None:
        # In place: `expire` may be at work on the list.
        self._deadlines[:] = [entry for entry in self._deadlines if self._call_of(entry) is not None]
        heapify(self._deadlines)

    def _call_of(self, entry: tuple[float, int, int | str]) -> Call | None:
        """The call in flight that an entry of the heap is for; its id may be another one's by now."""
        call = self._pending.get(entry[2])
        return call if call is not None and call.number == entry[1] else None


class Serving(Generic[T]):
    """The peer's requests that are being served, by their ids."""

    __slots__ = ("_others", "_requests")

    def __init__(self) -> None:
        self._requests: dict[Hashable, T] = {}
        self._others: dict[Hashable, list[T]] = {}  # with an id that was in flight

    def __len__(self) -> int:
        return len(self._requests) + sum(map(len, self._others.values()))

    def begin(self, id: MessageId, request: T) -> bool:
        """Takes a request in. False when the id is in flight already, and then the first one stays."""
        return self._requests.setdefault(_key(id), request) is request

    def begin_beside(self, id: MessageId, request: T) -> None:
        """Takes a request in whose id is in flight. `find` finds the first one, as long as it is there."""
        self._others.setdefault(_key(id), []).append(request)

    def find(self, id: MessageId) -> T | None:
        return self._requests.get(_key(id))

    def has(self, id: MessageId, request: T) -> bool:
        """Whether this very request is being served."""
        key = _key(id)
        return self._requests.get(key) is request or any(other is request for other in self._others.get(key, ()))

    def end(self, id: MessageId, request: T | None = None) -> bool:
        """Takes a request out; the first of the id where `request` is None. False when it is not there."""
        key = _key(id)
        if not self._others:
            if request is not None and self._requests.get(key) is not request:
                return False
            return self._requests.pop(key, None) is not None
        others = self._others.get(key, [])
        if request is None or self._requests.get(key) is request:
            found = self._requests.pop(key, None) is not None
            if others:
                self._requests[key] = others.pop(0)
        else:
            found = request in others
            if found:
                others.remove(request)
        if not others:
            self._others.pop(key, None)
        return found

    def clear(self) -> list[T]:
        """Takes all requests out."""
        requests = [*self._requests.values(), *(other for others in self._others.values() for other in others)]
        self._requests.clear()
        self._others.clear()
        return requests


def _key(id: MessageId) -> Hashable:
    """Equal for two ids of one type and value only: 7 == 7.0 == True in Python."""
    kind = type(id)
    return id if kind is int or kind is str else (kind, id)
