"""Track calls in flight with their deadlines. No IO, no clock.

Rules:
  - A call settles exactly once: by a result, an error, a malformed response, its deadline, a cancellation on this side,
    or the loss of the connection.
  - `now` is passed in: seconds as a float, from any monotonic clock.
  - A call has up to two deadlines: the total one is fixed, progress extends the idle one.
  - A call that was given up (deadline, cancellation) leaves a tombstone, by which its late response is recognised and
    dropped. Only the newest `max_tombstones` are kept.
  - Ids are compared by type and value: 7, "7", 7.0 and True are four ids.
  - This side never uses an id for two calls at a time.

The deadlines are in a heap. A call that settles early leaves a dead entry there, and progress moves no entry: both are
noticed when the entry reaches the top. There are never more dead entries than calls in flight plus a constant, so
adding and expiring take O(log n). An entry does not refer to its call, which would keep the result alive.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Final

from .._checks import check_seconds
from ..codec._kinds import is_id_too_long
from ..errors import StateError
from ..hooks import Outcome
from ..profile import JSONRPC
from ..types import MessageId

_MAX_DEAD_ENTRIES: Final = 64  # heap entries of settled calls that are not worth a clean-up


class Call:
    """A call: a request that this side sent.

    Attributes:
        id: The id of the request.
        method: The method of the request.
        started: When the call began, in seconds.
        expires: The total deadline, in seconds; infinite without one.
        idle_seconds: The maximum time without progress; None without such a bound.
        outcome: How the call settled; None while it is in flight.
        settled_by: The result, the `Error`, the `ParseError` or the `ConnectionLost` that settled the call; otherwise
            None.
        waiter: The object that waits for the outcome; the driver of the engine chooses it.

    The other attributes belong to the engine and to the session.
    """

    __slots__ = (
        "batch",
        "destination",
        "expires",
        "id",
        "idle_seconds",
        "method",
        "number",
        "on_progress",
        "outcome",
        "progressed",
        "settled_by",
        "started",
        "token",
        "trace",
        "waiter",
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
        self.settled_by: Any = None
        self.token: int | str | None = None
        self.batch: Any = None
        self.on_progress: Callable[[Any], object] | None = None
        self.trace: Any = None
        self.waiter: Any = None
        self.destination: Any = None  # of the peer's request that the call belongs to

    def deadline(self) -> float:
        """Return the earlier of both deadlines, in seconds; infinite without one."""
        if self.idle_seconds is None:
            return self.expires
        return min(self.expires, self.progressed + self.idle_seconds)

    def __repr__(self) -> str:
        # Without the response: the peer's data may be large or secret.
        return f"<Call {self.id!r} {'in flight' if self.outcome is None else self.outcome.value}>"


class Tracker:
    """The calls in flight.

    Args:
        id_factory: Returns the id of the next call; by default ids count from 1.
        max_calls: Maximum number of calls in flight.
        max_tombstones: Maximum number of tombstones of calls that were given up.
    """

    __slots__ = (
        "_deadlines",
        "_id_factory",
        "_max_calls",
        "_max_tombstones",
        "_newest_given_up",
        "_numbers",
        "_pending",
        "_tombstones",
    )

    def __init__(
        self,
        *,
        id_factory: Callable[[], int | str] | None = None,
        max_calls: int = 100_000,
        max_tombstones: int = 10_000,
    ) -> None:
        self._numbers = itertools.count(1)
        self._id_factory = id_factory
        self._max_calls = max_calls
        self._max_tombstones = max_tombstones
        self._pending: dict[int | str, Call] = {}
        self._tombstones: OrderedDict[int | str, None] = OrderedDict()
        self._deadlines: list[tuple[float, int, int | str]] = []
        self._newest_given_up = 0  # the number of the latest call that ended without a response

    def __len__(self) -> int:
        """Return the number of calls in flight."""
        return len(self._pending)

    def has_room(self, calls: int = 1) -> bool:
        """Return whether this many more calls may be in flight."""
        return len(self._pending) + calls <= self._max_calls

    def lacks_room(self, calls: int) -> bool:
        """Return whether this many more calls have to wait for room."""
        return not self.has_room(calls)

    def begin(
        self,
        method: str,
        now: float,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        *,
        may_exceed: bool = False,
    ) -> Call:
        """Begin a call at the time `now`, with a total deadline and a maximum time without progress, in seconds.

        Raises:
            StateError: `max_calls` calls are in flight and the call may not exceed them, or the factory returned an id
                that is still in use.
            ValueError: A timeout is negative or NaN, or the id of the factory is longer than the default limit of ids.
            TypeError: A timeout is not a number, or the factory returned something other than an int or a str.
        """
        pending = self._pending
        if len(pending) >= self._max_calls and not may_exceed:
            raise StateError("too many calls are in flight")
        made = None if self._id_factory is None else self._made_id(self._id_factory())
        expires = inf
        if timeout is not None:
            if type(timeout) is not float or not timeout >= 0:  # usually it is one, and a call takes longer
                check_seconds("timeout", timeout, may_be_infinite=True)
            expires = now + timeout
        if idle_timeout is not None:
            check_seconds("idle_timeout", idle_timeout, may_be_infinite=True)
        number = next(self._numbers)  # last: each number belongs to a call
        id = number if made is None else made
        call = Call(id, method, number, now, expires, idle_timeout)
        if idle_timeout is not None:
            expires = call.deadline()
        if expires != inf:
            heappush(self._deadlines, (expires, number, id))
        pending[id] = call
        return call

    def _made_id(self, id: int | str) -> int | str:
        """Check an id of the factory.

        A subclass of int would come back as an int and never match. A peer refuses an id that is longer than its limit.
        """
        if type(id) is not int and type(id) is not str:
            raise TypeError(f"an id must be an int or a str, not {type(id).__name__}")
        if is_id_too_long(id, JSONRPC.limits.id_bytes):
            raise ValueError(f"an id must have at most {JSONRPC.limits.id_bytes} bytes")
        # A late response to the given-up call would be mistaken for the response to the new one.
        if id in self._pending or id in self._tombstones:
            raise StateError("the id belongs to another call")
        return id

    def find(self, id: MessageId) -> Call | None:
        """Return the call in flight with this id, or None."""
        if type(id) is not int and type(id) is not str:
            return None  # 7.0 and True equal 7 in a dict
        return self._pending.get(id)

    def settle(self, id: MessageId, outcome: Outcome) -> Call | None:
        """Settle the call with this id and return it; None if no such call is in flight (see `is_late_response`)."""
        if type(id) is not int and type(id) is not str:
            return None
        pending = self._pending
        call = pending.pop(id, None)
        if call is not None:
            call.outcome = outcome
            if len(self._deadlines) > 2 * len(pending) + _MAX_DEAD_ENTRIES:
                self._drop_dead_entries()
        return call

    def give_up(self, call: Call, outcome: Outcome) -> bool:
        """Settle a call without a response. Returns False, and does nothing, if it has already settled."""
        if call.outcome is not None or self.settle(call.id, outcome) is not call:
            return False
        self.note_no_response(call)
        tombstones = self._tombstones
        tombstones[call.id] = None
        # A peer that never responds must not fill the memory. Beyond the bound a late response is reported as unknown.
        if len(tombstones) > self._max_tombstones:
            tombstones.popitem(last=False)
        return True

    def is_late_response(self, id: MessageId) -> bool:
        """Return whether a response with this id is the first one to a call that was given up; forget that call."""
        if (type(id) is not int and type(id) is not str) or id not in self._tombstones:
            return False
        del self._tombstones[id]
        return True

    def note_no_response(self, call: Call) -> None:
        """Note that a call has ended without a response."""
        self._newest_given_up = max(self._newest_given_up, call.number)

    def only_awaited(self) -> Call | None:
        """Return the only call that an error without an id can be about; None if it may be about several.

        It may be about a call that was given up, unless a later call has had a response since: a peer reads messages in
        their order, and refuses at once what it cannot read.
        """
        if len(self._pending) != 1:
            return None
        call = next(iter(self._pending.values()))
        # Every number in between belongs to a call that has had a response.
        return call if not self._tombstones or call.number > self._newest_given_up + 1 else None

    @property
    def is_owed(self) -> bool:
        """Whether the peer may still be working on a call, in flight or given up."""
        return bool(self._pending or self._tombstones)

    def behind(self, id: MessageId) -> list[Call]:
        """Return the calls in flight that began after the one with this id; all if it is None, none if it is unknown.

        A call that has settled is known by its id only if the ids count.
        """
        if id is None:
            return list(self._pending.values())
        if type(id) is not int and type(id) is not str:
            return []
        call = self._pending.get(id)
        if call is not None:
            number = call.number
        elif self._id_factory is None and type(id) is int:
            number = id
        else:
            return []
        return [call for call in self._pending.values() if call.number > number]

    def progress(self, call: Call, now: float) -> None:
        """Restart the idle deadline of a call."""
        call.progressed = now

    def expire(self, now: float) -> list[Call]:
        """Settle the calls whose deadline has passed as `TIMEOUT` and return them."""
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

    def next_deadline(self) -> float:
        """Return when to call `expire` next, in seconds; infinite without deadlines. It may be early, never late."""
        deadlines = self._deadlines
        while deadlines:
            if self._call_of(deadlines[0]) is not None:
                return deadlines[0][0]
            heappop(deadlines)
        return inf

    def lose(self) -> list[Call]:
        """Settle all calls in flight as `LOST` and return them: no more responses come."""
        lost = list(self._pending.values())
        for call in lost:
            call.outcome = Outcome.LOST
        self._pending.clear()
        self._tombstones.clear()
        self._deadlines.clear()
        return lost

    def _drop_dead_entries(self) -> None:
        # In place: `expire` may be iterating over the list.
        self._deadlines[:] = [entry for entry in self._deadlines if self._call_of(entry) is not None]
        heapify(self._deadlines)

    def _call_of(self, entry: tuple[float, int, int | str]) -> Call | None:
        """Return the call of a heap entry if it is in flight; its id may belong to another call by now."""
        call = self._pending.get(entry[2])
        return call if call is not None and call.number == entry[1] else None


def unknown_response(code: int | None = None) -> StateError:
    """Return the fault of a response whose id belongs to no call; `code` is that of an error."""
    if code is not None:
        return StateError(f"received an error with an unknown id: code {code}")
    return StateError("received a response with an unknown id")


def id_in_flight() -> StateError:
    """Return the fault of a request whose id is in flight already."""
    return StateError("the peer reused an id that is in flight")
