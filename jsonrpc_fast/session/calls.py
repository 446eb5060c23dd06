"""The calls of one side: the messages that they send and the ones that settle them. No IO and no clock.

Rules:
  - A call settles exactly once: by a result, an error, a malformed response, its deadline, a cancellation on this side,
    a goodbye of a peer that will not serve it, or the loss of the connection.
  - A call has up to two deadlines: the total one is fixed; progress extends the idle one.
  - A call that was given up (deadline, cancellation) leaves a tombstone, by which its late response is recognised and
    dropped; only the newest _MAX_TOMBSTONES are kept. After `lose` every response is dropped. Any other one with an
    unknown id is a fault.
  - Ids are compared by type and value: 7, "7", 7.0 and True are four ids. No two calls have the same id at a time.
  - A response settles the call with its id, even if the response is malformed or has no other valid member, or if its
    text cannot be read behind the id, or its batch is refused (`ParseError.settles`).
  - An error with the id null, and a malformed response without an id, settles a batch of this side if exactly one has
    had no response yet: this is how a peer refuses a batch that it cannot read. If there is no such batch, it settles
    the only call in flight, unless it may be about one that was given up (`Calls.only_awaited`). An error about the
    method or the params comes from a peer that could have read an id: it is a response to a notification, which some
    peers send although they must not, and settles nothing. An error about a notification that the peer cannot read, for
    example because it is too large, cannot be distinguished from one about a call: the call fails.
  - In a profile with `missing_ids=True` a result without an id settles the only call in flight, too.

Each message to send is one line of JSON with its newline; b"" means that there is nothing to send.

The deadlines are in a heap. A call that settles early leaves a dead entry there, and progress moves no entry: both are
noticed when the entry reaches the top. There are never more dead entries than calls in flight plus a constant, so
adding and expiring take O(log n). An entry does not refer to its call, which would keep the result alive.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Final, NamedTuple

from ..codec import Notification, ParseError, Response
from ..codec._backend import decoded
from ..codec._kinds import is_id_too_long
from ..codec.encoders import explained
from ..codes import ErrorCode, ParseErrorCode
from ..errors import ConnectionLost, EncodeError, StateError
from ..hooks import Outcome
from ..profile import JSONRPC
from ..support import cancelled_errors, check_callable, check_seconds
from ..types import UNSET, MessageId
from .conventions import ProgressToken
from .options import Rules

_RESULT: Final = Outcome.RESULT  # looked up once: before Python 3.12 access to enum members is slow
_MAX_TOMBSTONES: Final = 10_000


@dataclass(slots=True, eq=False, repr=False)
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
        waited_seconds: How much of its timeout had passed before it began, because it waited to be sent.
        waiter: The object that waits for the outcome; the driver of the engine chooses it.

    The other attributes belong to the engine and to the session.
    """

    id: int | str
    method: str
    number: int
    started: float
    progressed: float
    expires: float
    idle_seconds: float | None
    outcome: Outcome | None = None
    settled_by: Any = None
    token: int | str | None = None
    batch: OutboundBatch | None = None
    on_progress: Callable[[Any], object] | None = None
    trace: Any = None
    waited_seconds: float = 0.0
    waiter: Any = None
    destination: Any = None  # of the peer's request that the call belongs to

    def deadline(self) -> float:
        """Return the earlier of both deadlines, in seconds; infinite without one."""
        if self.idle_seconds is None:
            return self.expires
        return min(self.expires, self.progressed + self.idle_seconds)

    def __repr__(self) -> str:
        # Without the response: the peer's data may be large or secret.
        return f"<Call {self.id!r} {'in flight' if self.outcome is None else self.outcome.value}>"


class Settled(NamedTuple):
    """What a message has settled that has not the id of a call in flight.

    Attributes:
        calls: The calls that it has settled.
        is_fault: Whether it is a fault of the peer: it has settled none, and does not come too late for one either.
    """

    calls: list[Call]
    is_fault: bool = False


_NO_TOMBSTONES: Final[OrderedDict[int | str, None]] = OrderedDict()
"""The tombstones of a side that has given up no call."""


class OutboundBatch:
    """The calls of a batch that this side sent."""

    __slots__ = ("calls", "in_flight")

    def __init__(self, calls: list[Call]) -> None:
        self.calls: list[Call] = calls
        self.in_flight: int = len(calls)


class Calls:
    """The calls of one side: those in flight, and the messages that are sent for them. All times are seconds from one
    monotonic clock."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._number = 0  # of the latest call
        self._pending: dict[int | str, Call] = {}
        self._tombstones: OrderedDict[int | str, None] = _NO_TOMBSTONES
        self._deadlines: list[tuple[float, int, int | str]] = []
        self._newest_given_up = 0  # the number of the latest call that ended without a response
        self._by_token: dict[ProgressToken, Call] = {}
        self._open_batches: dict[OutboundBatch, None] = {}  # without any response yet
        self.is_lost: bool = False  # this side closes: a late response can no longer be recognised

    # What is in flight.

    def __len__(self) -> int:
        """Return the number of calls in flight."""
        return len(self._pending)

    def may_begin(self, calls: int = 1) -> bool:
        """Return whether this many more calls may be in flight."""
        return len(self._pending) + calls <= self._rules.max_calls

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

        Raises StateError if `max_calls` calls are in flight and the call may not exceed them, or an id of the factory
        is still in use; ValueError and TypeError for a timeout or such an id that is none.
        """
        pending = self._pending
        if len(pending) >= self._rules.max_calls and not may_exceed:
            raise StateError("too many calls are in flight")
        id_factory = self._rules.id_factory
        made = None if id_factory is None else self._made_id(id_factory())
        expires = inf
        if timeout is not None:
            if type(timeout) is not float or not timeout >= 0:  # nearly always a valid float: saves a call
                check_seconds("timeout", timeout, may_be_infinite=True)
            expires = now + timeout
        if idle_timeout is not None:
            check_seconds("idle_timeout", idle_timeout, may_be_infinite=True)
        self._number = number = self._number + 1  # after the checks: every number belongs to a call
        id = number if made is None else made
        call = Call(id, method, number, now, now, expires, idle_timeout)
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
            if call.batch is not None or call.token is not None:
                self._forget(call)
            # 64 heap entries of settled calls are not worth a clean-up.
            if len(self._deadlines) > 2 * len(pending) + 64:
                self._drop_dead_entries()
        return call

    def give_up(self, call: Call, outcome: Outcome) -> bool:
        """Settle a call without a response. Returns False, and does nothing, if it has already settled."""
        if call.outcome is not None:
            return False
        self._end_without_response(call, outcome)
        # Only the id is kept: the call would keep its waiter alive.
        if self._tombstones is _NO_TOMBSTONES:
            self._tombstones = OrderedDict()
        tombstones = self._tombstones
        tombstones[call.id] = None
        # A peer that never responds must not fill the memory. Beyond the bound a late response is reported as unknown.
        if len(tombstones) > _MAX_TOMBSTONES:
            tombstones.popitem(last=False)
        return True

    def is_late_response(self, id: MessageId) -> bool:
        """Return whether a response with this id is the first one to a call that was given up; forget that call."""
        if (type(id) is not int and type(id) is not str) or id not in self._tombstones:
            return False
        del self._tombstones[id]
        return True

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

        Without an `id_factory`, the call may have settled already: its id says when it began.
        """
        if id is None:
            return list(self._pending.values())
        if type(id) is not int and type(id) is not str:
            return []
        call = self._pending.get(id)
        if call is not None:
            number = call.number
        elif self._rules.id_factory is None and type(id) is int:
            number = id
        else:
            return []
        return [call for call in self._pending.values() if call.number > number]

    def expire(self, now: float) -> list[Call]:
        """Settle the calls whose deadline has passed as `TIMEOUT` and return them."""
        expired = []
        # The call of an entry may have settled, or have got a later deadline by progress.
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
        # No tombstones either: after this every response is dropped.
        self._tombstones = _NO_TOMBSTONES
        for kept in (self._pending, self._deadlines, self._by_token, self._open_batches):
            kept.clear()
        self.is_lost = True
        return lost

    def _drop_dead_entries(self) -> None:
        # In place: `expire` may be iterating over the list.
        self._deadlines[:] = [entry for entry in self._deadlines if self._call_of(entry) is not None]
        heapify(self._deadlines)

    def _call_of(self, entry: tuple[float, int, int | str]) -> Call | None:
        """Return the call of a heap entry if it is in flight; its id may belong to another call by now."""
        call = self._pending.get(entry[2])
        return call if call is not None and call.number == entry[1] else None

    # What is sent.

    def request(
        self,
        method: str,
        params: Any,
        now: float,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        on_progress: Callable[[Any], object] | None = None,
        may_exceed: bool = False,
        is_stream: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> tuple[Call, bytes]:
        """Begin a call as `Engine.call` describes it. Return the call and the request to send. Raises like `begin`
        and the encoders.

        With an idle timeout or `on_progress` the request carries a progress token, if the convention has them.
        """
        call = self.begin(method, now, timeout, idle_timeout, may_exceed=may_exceed)
        try:
            if on_progress is not None or idle_timeout is not None:
                params = self._give_token(call, params, on_progress, is_stream)
            return call, self._text(call, method, params, True, extra)
        except (Exception, *cancelled_errors()):  # type: ignore[misc]  # mypy knows no star here
            self.withdraw(call)
            raise

    def batch(
        self,
        items: Iterable[tuple[str, Any] | Notification],
        now: float,
        timeout: float | None = None,
        may_exceed: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> tuple[list[Call | None], bytes]:
        """Begin several calls in one batch as `Engine.call_batch` describes it. Return the calls and the batch to send.

        Raises like `request`, and ValueError if there are no items. Then none of the calls has begun.
        """
        found: list[Call | None] = []
        texts = []
        try:
            for item in items:
                if isinstance(item, Notification):
                    found.append(None)
                    own = item.extra if extra is None else {**extra, **(item.extra or {})}
                    texts.append(self._text(None, item.method, item.params, False, own))
                else:
                    method, params = item
                    call = self.begin(method, now, timeout, may_exceed=may_exceed)
                    found.append(call)
                    texts.append(self._text(call, method, params, False, extra))
        except (Exception, *cancelled_errors()):  # type: ignore[misc]  # mypy knows no star here
            for begun in found:
                if begun is not None:
                    self.withdraw(begun)
            raise
        if not texts:
            raise ValueError("a batch must not be empty")
        calls = [call for call in found if call is not None]
        if calls:
            batch = OutboundBatch(calls)
            for call in calls:
                call.batch = batch
            self._open_batches[batch] = None
        return found, b"[" + b",".join(texts) + b"]\n"

    @property
    def form(self) -> tuple[int, int] | None:
        """What decides how a notification is written: the identities of the profile and of `default`, while they live.

        None if each one is written anew, because a hook adds its trace, or there are further members.
        """
        rules = self._rules
        if rules.hooks.call_prepared is not None or rules.extra:
            return None
        return id(rules.encoders.profile), id(rules.default)

    def notify(self, method: str, params: Any = None, extra: Mapping[str, Any] | None = None) -> bytes:
        """Return a notification to send. Raises what `encode_notification` raises."""
        return self._text(None, method, params, True, extra)

    def _text(
        self, call: Call | None, method: str, params: Any, delimited: bool, extra: Mapping[str, Any] | None
    ) -> bytes:
        """Return the request of a call, or a notification.

        Of its further members, those of the caller come before the trace context, and that before the session's.
        """
        rules, prepare = self._rules, self._rules.hooks.call_prepared
        prepared = None if prepare is None else prepare(None if call is None else call.id, method)
        if prepared is not None:
            trace, context = prepared
            if call is not None:
                call.trace = trace
            if context:
                params, traced = self._rules.convention.with_trace(decoded(params), context)
                if traced is not None:
                    extra = {**traced, **(extra or {})}
        if extra is not None or rules.extra:
            id = UNSET if call is None else call.id
            extra = {**(rules.extra or {}), **(extra or {})}
            return rules.encoders.encode_call(
                method, params, id, delimited=delimited, default=rules.default, extra=extra
            )
        try:
            if call is None:
                return rules.encode_notification(method, params, delimited=delimited)
            return rules.encode_request(call.id, method, params, delimited=delimited)
        except EncodeError as error:
            id, default = UNSET if call is None else call.id, rules.encoders.default_of(rules.default)
            raise explained(error, method, params, default, id=id) from error.__cause__

    def cancel(self, call: Call, reason: str | None = None) -> bytes:
        """Settle a call as `CANCELLED`. Returns the notification to send; b"" also if the call has settled already."""
        return self.cancellation_notice(call, reason) if self.give_up(call, Outcome.CANCELLED) else b""

    def cancellation_notice(self, call: Call, reason: str | None = None) -> bytes:
        """Return the notification about a call that was given up, as after `expire`; b"" if the convention has none."""
        if call.method in self._rules.convention.never_cancelled:
            return b""
        message = self._rules.convention.cancellation(call.id, reason)
        return b"" if message is None else self._notice(*message)

    def goodbye(self, last: MessageId) -> bytes:
        """Return the notification that this side begins to close; b"" if the convention has none.

        Args:
            last: As in `Goodbye`.
        """
        message = self._rules.convention.goodbye(last)
        return b"" if message is None else self._notice(*message)

    def _notice(self, method: str, params: Any) -> bytes:
        """Return a notification of the convention."""
        return self._rules.encoders.encode_call(method, params, default=self._rules.default, extra=self._rules.extra)

    def withdraw(self, call: Call) -> None:
        """Forget a call whose request was not sent."""
        self._end_without_response(call, Outcome.CANCELLED)

    def _end_without_response(self, call: Call, outcome: Outcome) -> None:
        self.settle(call.id, outcome)
        self._newest_given_up = max(self._newest_given_up, call.number)

    def fail(self, id: MessageId, error: Exception) -> Call | None:
        """Settle a call with an exception of this side and return it; None if no such call is in flight."""
        call = self.settle(id, Outcome.FAULT)
        if call is None:
            self.is_late_response(id)
        else:
            call.settled_by = error
        return call

    # Responses.

    def settle_by(self, message: Response) -> Call | None:
        """Settle the call with the id of a response and return it; None if no such call is in flight."""
        error = message.error
        call = self.settle(message.id, _RESULT if error is None else Outcome.ERROR)
        if call is not None:
            call.settled_by = message.result if error is None else error
        return call

    def settle_otherwise(self, message: Response) -> Settled:
        """Settle the calls that a response without the id of one is about."""
        if self.is_lost or self.is_late_response(message.id):
            return Settled([])
        error = message.error
        if message.id is None and error is None and self._rules.encoders.profile.missing_ids is True:
            only = None if self._open_batches else self.only_awaited()
            if only is None or self.settle(only.id, _RESULT) is not only:
                return Settled([], is_fault=True)
            only.settled_by = message.result
            return Settled([only])
        if (
            message.id is not None
            or error is None
            or error.code in (ErrorCode.METHOD_NOT_FOUND, ErrorCode.INVALID_PARAMS)  # the request was read
        ):
            return Settled([], is_fault=True)
        calls = self._settle_unnamed(Outcome.ERROR, error)
        return Settled(calls, is_fault=not calls)

    def _settle_unnamed(self, outcome: Outcome, settled_by: Any) -> list[Call]:
        """Settle the calls that a response without an id is about, if that is certain, and return them."""
        if len(self._open_batches) == 1:
            [batch] = self._open_batches
            calls = batch.calls
        else:
            only = self.only_awaited()
            calls = [] if only is None else [only]
        return self._settle_all(calls, outcome, settled_by)

    def _settle_all(self, calls: Iterable[Call], outcome: Outcome, settled_by: Any) -> list[Call]:
        settled = [call for call in calls if self.settle(call.id, outcome) is call]
        for call in settled:
            call.settled_by = settled_by
        return settled

    def settle_malformed(self, fault: ParseError) -> Settled:
        """Settle the calls that a malformed message is about."""
        if fault.code is ParseErrorCode.MISSING_ID:
            unnamed = self._settle_unnamed(Outcome.FAULT, fault)
            return Settled(unnamed, is_fault=not unnamed and not self.is_lost)
        settled: list[Call] = []
        is_late = False
        for id in fault.settles:
            call = self.settle(id, Outcome.FAULT)
            if call is None:
                is_late = self.is_lost or self.is_late_response(id) or is_late
            else:
                call.settled_by = fault
                settled.append(call)
        # Its end was not read, which answers the rest of the same batch.
        if fault.code is ParseErrorCode.BATCH_TOO_LARGE:
            rest = [each for call in settled if call.batch is not None for each in call.batch.calls]
            settled += self._settle_all(rest, Outcome.FAULT, fault)
        return Settled(settled, is_fault=not settled and not is_late)

    def progress_with(self, token: ProgressToken, now: float) -> Call | None:
        """Record progress on the call with this token, and return the call; None if there is no such call."""
        call = self._by_token.get(token)
        if call is not None:
            call.progressed = now
        return call

    def give_up_behind(self, last: MessageId) -> list[Call]:
        """Settle the calls that the peer does not serve, because it has said goodbye before it read them."""
        unserved = self.behind(last)
        for call in unserved:
            self.give_up(call, Outcome.LOST)  # the peer may refuse them as well
            call.settled_by = ConnectionLost("the peer closed the session before it read the request", was_sent=False)
        return unserved

    def _give_token(self, call: Call, params: Any, on_progress: Callable[[Any], object] | None, is_stream: bool) -> Any:
        """Return the params with a progress token: the caller's own, or the call's id, which is unique."""
        check_callable("on_progress", on_progress)
        convention = self._rules.convention
        token_of = convention.item_token if is_stream else convention.token
        token = token_of(decoded(params))
        if token is None:
            with_token = convention.with_item_token if is_stream else convention.with_token
            params = with_token(decoded(params), call.id)
            token = token_of(params)
        if token is not None:
            call.token = token
            call.on_progress = on_progress
            self._by_token[token] = call
        return params

    def _forget(self, call: Call) -> None:
        """Forget the token and the batch of a call that has settled."""
        # A later call may have the same token, if callers choose their tokens.
        if call.token is not None and self._by_token.get(call.token) is call:
            del self._by_token[call.token]
        batch = call.batch
        if batch is not None:
            batch.in_flight -= 1
            has_response = call.outcome in (Outcome.RESULT, Outcome.ERROR, Outcome.FAULT)
            if has_response or not batch.in_flight:
                self._open_batches.pop(batch, None)
