"""The engine: both sides of one conversation, without IO, tasks or timers.

It decides what follows from a message, from the end of the stream, or from the passage of time. A `Driver` carries that
out: `LoopDriver` (loop_driver.py) does so on asyncio.

    engine = Engine(driver, handlers)
    engine.receive(message)          # calls functions, settles calls, writes responses
    engine.call("add", [1, 2])       # writes a request

Rules:
  - A message that looks like a response never gets one, even if it is malformed.
  - A request whose id is being served already is refused with -32600, and the first one continues.
  - A malformed message whose id is certain gets an error response, because its sender waits. Without an id,
    `response_policy` decides: two ends that respond to everything they cannot read would never stop.
  - What a turn has no time for waits, in order, and so does what arrives behind it: `Serving.late`. It may be
    the rest of a large batch. Only the cancellation of a request that is being served does not wait.
  - Each item of a batch is received after the one before was handled, so a batch may use an id again if the request
    with that id was served at once.
  - While this side drains, new requests are refused (SERVER_BUSY), and what was received before is served. This side
    says goodbye first if it is asked to, or if the peer has ever sent a request.
  - After the peer's goodbye only responses are sent.

`Serving` (inbound.py) is the half that the peer calls, and `Calls` (calls.py) has the calls in flight of this side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableSequence
from contextlib import suppress
from math import inf
from typing import Any, Final

from ..codec import Error, Notification, ParseError, Request, Response
from ..codec._backend import decoded
from ..codes import RPC_MESSAGES, ErrorCode, ParseErrorCode
from ..errors import (
    CallCancelled,
    CallTimeout,
    ConnectionLost,
    RpcError,
    StateError,
    lost,
    malformed,
    no_response,
    run_callback,
)
from ..handlers import Handlers
from ..hooks import Outcome
from ..profile import CLIENT, is_at_least_as_strict
from ..support import cancelled_errors, shorten
from ..types import UNSET, MessageId, Unset
from .calls import Call, Calls
from .conventions import Cancellation, Goodbye, Progress, Withdrawn, look_ahead
from .driver import Driver
from .inbound import AHEAD_ITEMS, Phase, Serving
from .options import RULES, Rules
from .requests import Destination, InboundBatch, id_in_flight

_BURST: Final = 10.0
"""How many malformed messages without an id get a response at once, where it is "limited"; then it is 1 per second."""

_RESULT: Final = Outcome.RESULT  # looked up once: access to enum members is slow

_PART: Final = (
    ", and the last message of the peer has no end yet: it may be slow, or separate messages in another way "
    "(after each, newline framing needs a line feed)"
)
_SILENCE: Final = ", and nothing has arrived from the peer: it may {}speak another framing or protocol"


def _with_fault(text: str, fault: ParseError | StateError) -> str:
    """Add what came instead of a response."""
    reason = "after a message that cannot be read:" if isinstance(fault, ParseError) else "and this side"
    return f"{text}, {reason} {fault}"


class Engine(Serving):
    """Both sides of one conversation.

    Args:
        driver: Carries out the decisions.
        handlers: The functions by method.
        rules: The rules. `timeout`, `context` and the `..._seconds` are for the owner of the engine.

    Attributes:
        calls: The calls of this side.
        may_call: Whether calls may be sent; see also `may_notify`.
        is_leaving: Whether the peer has said goodbye.
        fault: What broke the connection; None while it is open, and after either side has closed it.
        closes: Whether this side has begun to close, and not because the peer has.
    """

    credit: int
    last_read: MessageId | Unset
    __slots__ = ("_faults_until", "_is_seen", "_unsettled", "calls", "closes", "fault", "is_leaving", "may_call")

    def __init__(self, driver: Driver, handlers: Handlers, rules: Rules = RULES) -> None:
        super().__init__(driver, handlers, rules)
        self.calls: Calls = Calls(rules)
        self.may_call: bool = True
        self.is_leaving: bool = False
        self.fault: Exception | None = None
        self.closes: bool = False
        # The last fault that no call was told: the next ones are lost by it.
        self._unsettled: ParseError | StateError | None = None
        # Whether what waits for a later turn was read ahead: not in each turn, since that reads all of it again.
        self._is_seen = False
        self._faults_until = -inf  # the time that is paid for by responses to malformed messages: see `_BURST`

    # What waits for a later turn.

    def be_late(self) -> None:
        """Keep what is received from now on for later turns, because this one is over."""
        if not self.is_late:
            self.enter_late()
            self.update_reading()

    def _wait(self, message: Any) -> None:
        """Keep a message for a later turn, but not the cancellation of a request that is being served."""
        if type(message) is Notification and message.method in self.rules.convention.methods:
            notice = self.run_callback(self.rules.convention.read, message.method, decoded(message.params))
            if type(notice) is Cancellation and self.find_request(notice.id) is not None:
                self._receive(message, None)
                return
        self.late.append(message)
        self._is_seen = False
        if len(self.late) == AHEAD_ITEMS:
            self.update_reading()

    def turn(self) -> None:
        if self.is_late and self.may_receive:
            self._receive_late(self.driver.turn_end())
        super().turn()

    def _receive_late(self, end: float) -> None:
        """Receive what waits until the time `end`, or as long as it may be received; with inf: all of it."""
        is_forced = end == inf
        self.be_in_time()
        try:
            if not self._is_seen and len(self.late) > 1 and type(self.late[0]) is not InboundBatch:
                self._is_seen = True
                self.look_ahead(self.late)
            while self.late and (is_forced or not self.is_late):
                if self.is_late:
                    self.be_in_time()
                message = self.late.popleft()
                if type(message) is list:
                    message = self._open(message)
                if type(message) is InboundBatch:
                    if message.is_large and message.left > 1:
                        self.late.appendleft(message)
                    self._receive_items(message, None)
                    if message.is_large and not message.left:
                        break  # what follows may be cancelled by what follows that
                elif message is not None:
                    self.receive(message)
                if self.driver.time() >= end:
                    break
        finally:
            if self.late:
                self.enter_late()
            else:
                self.be_in_time()
            self.update_reading()

    def finish_late(self) -> None:
        """Receive what waits at once, because the conversation ends."""
        while self.late:
            self._receive_late(inf)

    def _receive_now(self, is_wanted: Callable[[Any, bool], bool]) -> None:
        """Receive what waits for a later turn and is wanted now: `is_wanted(message, is_in_batch)`."""
        wanted: list[Any] = []

        def take(items: MutableSequence[Any], is_in_batch: bool) -> None:
            for index, item in enumerate(items):
                if type(item) is InboundBatch:
                    take(item.items, True)
                elif type(item) is list:
                    take(item, True)
                elif item is not None and is_wanted(item, is_in_batch):
                    wanted.append(item)
                    items[index] = None

        take(self.late, False)
        for item in wanted:
            self._receive(item, None)

    def _is_of_call(self, message: Any, is_in_batch: bool) -> bool:
        """Return whether a message is a response or the progress of a call, or a fault, which may be why it is lost."""
        if isinstance(message, ParseError):
            # In a batch, a response to it has its place among those to the other items.
            return not is_in_batch or not message.reply_expected
        if type(message) is not Notification or message.method not in self.rules.convention.methods:
            return type(message) is Response
        read = self.rules.convention.read
        return type(self.run_callback(read, message.method, decoded(message.params))) is Progress

    # Receiving.

    def look_ahead(self, items: MutableSequence[Any]) -> None:
        """Withdraw the requests that are cancelled among messages that were read together, before they are received."""
        self.run_callback(look_ahead, self.rules.convention, items)

    def receive(self, message: Any, destination: Destination | None = None) -> None:
        """Handle a decoded message or batch, like `serve`, and write the response that is known at once.

        Args:
            message: A value that the codec returned, or what `look_ahead` has put in its place. A `ParseError` is a
                fault of the peer.
            destination: The place for the responses; None: the stream.
        """
        text = self.serve(message, destination)
        if text is not None:
            with suppress(ConnectionLost, StateError):  # the driver itself learns of the loss
                self.driver.write(text)

    def receive_other(self, message: Any, destination: Destination | None) -> bytes | None:
        """Handle a message that is not plain (see `PlainServer`)."""
        if self.phase is Phase.LOST:
            return None
        if self.is_late and destination is None:
            self._wait(message)
            return None
        kind = type(message)
        # The credit is often 0 only because it was not counted yet, or was used up by responses that have been sent
        # since.
        if (kind is Request or kind is Notification) and destination is None and self.credit <= 0:
            has_credit = self.renew_credit()
            if has_credit and kind is Request:
                return self.serve(message)
        if kind is list:
            self._receive_batch(message, destination)
        elif kind is Notification:
            self._receive_notification(message, destination, None)
        else:
            if (kind is Request or kind is Withdrawn) and not self.is_draining:
                self.last_read = message.id
            self._receive(message, destination)
        return None

    def _receive(self, message: Any, destination: Destination | None, batch: InboundBatch | None = None) -> None:
        kind = type(message)
        if kind is Response:
            self._receive_response(message)
        elif kind is Request:
            self._receive_request(message, destination, batch)
        elif kind is Notification:
            self._receive_notification(message, destination, batch)
        elif kind is Withdrawn:
            # If its id is already in flight, the cancellation applies to the request that is being served.
            is_first = self.find_request(message.id) is None
            self._receive_request(message.request, destination, batch, is_first)
        else:
            self._receive_fault(message, destination, batch)

    def _open(self, items: list[Any]) -> InboundBatch:
        """Return a batch whose items are received one by one, because a large one takes several turns."""
        self.look_ahead(items)
        # The batch has been read as a whole, so a goodbye names its last request, although that may be received later.
        if not self.is_draining:
            ids = (item.id for item in reversed(items) if isinstance(item, (Request, Withdrawn)))
            self.last_read = next(ids, self.last_read)
        return InboundBatch(items, is_refused=self.is_draining)

    def _receive_batch(self, items: list[Any], destination: Destination | None) -> None:
        batch = self._open(items)
        if batch.is_large and destination is None:
            self.enter_late()
            self.late.append(batch)
            self._receive_late(self.driver.turn_end())
        else:
            while batch.left:
                self._receive_items(batch, destination)

    def _receive_items(self, batch: InboundBatch, destination: Destination | None) -> None:
        """Receive the next item of a large batch, or all of a small one."""
        self._receive_item(batch, destination)
        while batch.left and not batch.is_large:
            self._receive_item(batch, destination)

    def _receive_item(self, batch: InboundBatch, destination: Destination | None) -> None:
        item = batch.next()
        try:
            # The peer of a lost connection could get no response; but a response in the batch settles a call.
            if item is not None and (self.phase is not Phase.LOST or type(item) is Response):
                self._receive(item, destination, batch)
        finally:
            # If no request of the batch is being served, nothing else sends the responses.
            if not batch.left and (text := batch.end()):
                self.respond(destination, UNSET, text)

    def _receive_response(self, message: Response) -> None:
        call = self.calls.settle_by(message)
        if call is not None:
            self._unsettled = None
            self._settled(call)
            return
        settled = self.calls.settle_otherwise(message)
        for settled_call in settled.calls:
            self._settled(settled_call)
        if settled.is_fault:
            error = message.error
            cure = "" if message.id is None else "; a peer must return an id with its type and value"
            fault = StateError(f"received a response with an unknown id{cure}")
            if error is not None:
                fault = StateError(f"received an error with an unknown id: code {error.code}{cure}")
                fault.__cause__ = self._remote_error(error)
            self._unsettled = fault
            self.rules.hooks.peer_fault(fault)

    def _receive_request(
        self, message: Request, destination: Destination | None, batch: InboundBatch | None, is_withdrawn: bool = False
    ) -> None:
        request = self.register(message, destination, batch)
        if request is None:
            self.rules.hooks.peer_fault(id_in_flight())
            self._reject(message.id, ErrorCode.INVALID_REQUEST, destination, batch)
        elif self._refuses(batch):
            self.refuse_busy(request)
        elif is_withdrawn:
            self.cancel_request(request)
        else:
            self.admit(request, destination)

    def _refuses(self, batch: InboundBatch | None) -> bool:
        """Whether messages are refused: those of a batch by what held when it began, so that all have one fate."""
        return self.is_draining if batch is None else batch.is_refused

    def _receive_notification(
        self, message: Notification, destination: Destination | None, batch: InboundBatch | None
    ) -> None:
        if message.method in self.rules.convention.methods:
            notice = self.run_callback(self.rules.convention.read, message.method, decoded(message.params))
            if type(notice) is Cancellation:
                request = self.find_request(notice.id)
                if (
                    request is not None
                    and not request.is_cancelled  # a second one must not interrupt a handler that cleans up
                    and request.method not in self.rules.convention.never_cancelled
                ):
                    self.cancel_request(request)
                return
            if type(notice) is Goodbye:
                self.is_leaving = True
                self.may_call = False
                self.driver.left()
                for unserved in self.calls.give_up_behind(notice.last):
                    self._settled(unserved)
                return
            if (
                type(notice) is Progress
                and (call := self.calls.progress_with(notice.token, self.driver.time())) is not None
            ):
                if call.on_progress is not None:
                    self.run_callback(call.on_progress, notice.value)
                return
        # Even progress on an unknown call, or a notification that the convention cannot read: a handler may understand
        # it.
        if not self._refuses(batch):
            self.admit(message, destination)

    def _receive_fault(self, fault: ParseError, destination: Destination | None, batch: InboundBatch | None) -> None:
        # A response that was cut off is a lost connection: the peer's answer may be asked for again.
        if fault.code is not ParseErrorCode.TRUNCATED:
            settled = self.calls.settle_malformed(fault)
            for call in settled.calls:
                self._settled(call)
            if not settled.is_fault:
                return
        self._unsettled = fault
        is_owed = fault.reply_expected and (fault.id is not None or self._may_respond())
        hooks = self.rules.hooks
        (hooks.peer_fault if is_owed or not fault.reply_expected else hooks.unanswered)(fault)
        self._reject(fault.id, fault.rpc_code if is_owed else None, destination, batch)

    def _may_respond(self) -> bool:
        """Return whether one more malformed message without an id gets a response, and count it."""
        policy = self.rules.response_policy
        if isinstance(policy, Unset):
            policy = "always" if self.driver.responds_to_faults else "never"
        if policy == "limited":
            now = self.driver.time()
            until = max(self._faults_until, now - _BURST)
            if now - until < 0.999:  # not 1: sums of floats are rounded
                return False
            self._faults_until = until + 1.0
        return policy != "never"

    def _reject(
        self, id: MessageId, code: ErrorCode | None, destination: Destination | None, batch: InboundBatch | None
    ) -> None:
        """Respond with an error to an item that is not registered as a request; with no code, send no response."""
        text = b""
        if code is not None:
            text = self.encode_error(id, code, RPC_MESSAGES[code], delimited=batch is None)
        if batch is not None:
            batch.put(text)
        else:
            self.respond(destination, UNSET, text)

    def run_callback(self, callback: Callable[..., Any], *arguments: Any) -> Any:
        """Call a user's function, and report its exceptions as faults. Return what it returns, or None."""
        return run_callback(self.rules.hooks.fault, callback, *arguments)

    def _notice(self, write: Callable[..., bytes], *arguments: Any) -> bytes:
        """Return a notification that the convention makes; b"" if it raises: the convention may be user code."""
        return self.run_callback(write, *arguments) or b""

    def tick(self) -> None:
        """Settle the calls whose deadline has passed, and check whether a peer that does not read has paused, too."""
        now = self.driver.time()
        for call in self.calls.expire(now):
            self._settled(call)
            self.send(self._notice(self.calls.cancellation_notice, call, "timeout"), call.destination)
        if self._check_reading(now, len(self.calls) > 0):
            self.give_up(ConnectionLost("the peer reads none of the responses"))
            return
        deadline = min(self.calls.next_deadline(), self.deadline)
        if deadline != inf:
            self.driver.wake_at(deadline)

    # Calling.

    def call(
        self,
        method: str,
        params: Any = None,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        on_progress: Callable[[Any], object] | None = None,
        destination: Destination | None = None,
        waiter: Any = None,
        may_exceed: bool = False,
        is_stream: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> Call:
        """Begin a call. `Driver.settled` reports its outcome.

        Args:
            method: The method to call.
            params: A list (positional), a dict (named) or None.
            timeout: Seconds until the call expires; None: no deadline.
            idle_timeout: Maximum seconds without progress; None: no bound. The peer is asked for progress if the
                convention allows it.
            on_progress: Called with each progress value.
            destination: The `destination` of the peer's request that the call belongs to; None: the stream.
            waiter: Any object that the driver needs: see `Call.waiter`.
            may_exceed: Whether the call may exceed `max_calls`. The only call of a handler may: the bounds of handlers
                limit how many there are, and two peers whose calls in flight all wait for calls back would wait
                forever.
            is_stream: Whether the peer is asked for parts of the result as progress.
            extra: Further members of the message, beside those of the engine's `extra`.

        Returns:
            The call. It may have settled already, if a hook has cancelled it.

        Raises:
            StateError: `max_calls` calls are in flight, or the factory returned an id that is still in use.
            ConnectionLost: The connection is lost, or the peer is closing it. `was_sent` is False.
            EncodeError, TypeError, ValueError: The params cannot be encoded, or a timeout is negative or NaN.
        """
        if not self.may_call:
            raise self.refusal()
        call, text = self.calls.request(
            method, params, self.driver.time(), timeout, idle_timeout, on_progress, may_exceed, is_stream, extra
        )
        call.waiter = waiter  # before it is sent, when a hook may cancel it, and so settle it
        call.destination = destination
        self._send_calls([call], text, destination)
        return call

    def call_batch(
        self,
        items: Iterable[tuple[str, Any] | Notification],
        timeout: float | None = None,
        make_waiter: Callable[[int], Any] | None = None,
        may_exceed: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> list[Call | None]:
        """Begin several calls in one batch.

        Args:
            items: For each call `(method, params)`; or notifications.
            timeout: As in `call`, for each call.
            make_waiter: Returns the `waiter` of the call at an index.
            may_exceed: As in `call`, for all of them.
            extra: As in `call`, for each message of the batch.

        Returns:
            For each item its call, or None for a notification.

        Raises:
            ValueError: There are no items.
            Exception: As in `call`. Then none of the calls has begun.
        """
        if not self.may_call:
            raise self.refusal()
        found, text = self.calls.batch(items, self.driver.time(), timeout, may_exceed, extra)
        if make_waiter is not None:
            for index, call in enumerate(found):
                if call is not None:
                    call.waiter = make_waiter(index)
        self._send_calls([call for call in found if call is not None], text, None)
        return found

    def notify(
        self,
        method: str,
        params: Any = None,
        destination: Destination | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Send a notification. Raises what `call` raises."""
        if not (self.may_call or self.may_notify):
            raise self.refusal()
        self._send_calls([], self.calls.notify(method, params, extra), destination)

    def ping(self, timeout: float, method: str | None = None, params: Any = None) -> Call:
        """Begin a call that asks for any response, even if `max_calls` calls are in flight.

        Args:
            timeout: How long to wait for it.
            method: The method; None: that of the convention.
            params: The params.

        Raises:
            StateError: The convention has no ping.
            ConnectionLost: The connection is lost.
        """
        method = method or self.rules.convention.ping
        if method is None:
            raise StateError("the convention has no ping")
        call, text = self.calls.request(method, params, self.driver.time(), timeout, may_exceed=True)
        self._send_calls([call], text, None)
        return call

    def _send_calls(self, calls: list[Call], data: bytes, destination: Destination | None) -> None:
        try:
            if destination is None:
                self.credit -= len(data)  # a peer that does not read this gets no responses, either
                self.driver.write(data)
            else:
                destination.send(data)
        except (Exception, *cancelled_errors()) as error:  # type: ignore[misc]  # mypy knows no star here
            # Nothing was sent, so nothing will settle these calls. They leave no tombstone: no response can come late.
            for call in calls:
                self.calls.withdraw(call)
            if isinstance(error, ConnectionLost):
                error.was_sent = False
            raise
        started = self.rules.hooks.call_started
        for call in calls:
            if started is not None:  # it may cancel the call
                call.trace = started(call.id, call.method)
            self.driver.wake_at(call.expires if call.idle_seconds is None else call.deadline())

    def cancel(self, call: Call, reason: str | None = None) -> bool:
        """Cancel a call and notify the peer, if the convention allows it. Return False if it has settled already."""
        if call.outcome is not None:
            return False
        text = self._notice(self.calls.cancel, call, reason)
        self._settled(call)
        self.send(text, call.destination)
        return True

    def fail(self, id: MessageId, error: Exception) -> None:
        """Settle a call whose response cannot arrive, because the exchange that carries it failed."""
        if isinstance(error, CallTimeout) and (known := self.calls.find(id)) is not None:
            error = no_response(shorten(known.method), None, f": {error}")
        call = self.calls.fail(id, error)
        if call is not None:
            self._settled(call)

    @property
    def may_notify(self) -> bool:
        """Whether notifications may be sent: also at the end, while what was received is served, like its responses."""
        return self.may_call or (
            Phase.OPEN < self.phase < Phase.CUT_OFF and not self.is_leaving and not self.has_served
        )

    def refusal(self) -> ConnectionLost:
        """Return the error for a message that cannot be sent."""
        if self.is_leaving and not self.is_draining:
            return ConnectionLost("the peer is closing the session", was_sent=False)
        loss = self._loss()
        loss.was_sent = False
        return loss

    def _loss(self) -> ConnectionLost:
        if self.fault is None and self.closes:
            return ConnectionLost("this session was closed by this side")
        closed, fault, unsettled = "the connection is closed", self.fault, self._unsettled
        if self.driver.heard == "nothing":
            closed += _SILENCE.format("")
        loss = lost(closed, "the connection broke", fault)
        if unsettled is not None and (fault is None or not isinstance(fault.__cause__, ParseError)):
            loss = ConnectionLost(_with_fault(str(loss), unsettled))
            loss.__cause__ = fault or unsettled
        return loss

    def _timeout(self, call: Call) -> CallTimeout:
        seconds, text = call.expires - call.started + call.waited_seconds, ""
        if call.waited_seconds:
            text = f", of which it waited {call.waited_seconds:.3g} s to be sent"
        if call.idle_seconds is not None and call.deadline() < call.expires:
            seconds, text = call.idle_seconds, " without progress"
        if self._unsettled is not None:
            text = _with_fault(text, self._unsettled)
        elif self.driver.heard == "nothing":
            text += _SILENCE.format("still be busy, or ")
        elif self.driver.heard == "a part":
            text += _PART
        error = no_response(shorten(call.method), seconds, text)
        error.__cause__ = self._unsettled
        return error

    def _settled(self, call: Call) -> None:
        """Report the outcome of a call."""
        result: Any = None
        error: Exception | None = None
        outcome = call.outcome
        if outcome is _RESULT:
            result = call.settled_by
        elif outcome is Outcome.ERROR:
            error = self._remote_error(call.settled_by)
        elif outcome is Outcome.FAULT:
            fault = call.settled_by
            is_lenient = is_at_least_as_strict(CLIENT, self.rules.encoders.profile)
            error = malformed(fault, is_lenient) if isinstance(fault, ParseError) else fault
        elif outcome is Outcome.TIMEOUT:
            error = self._timeout(call)
        elif outcome is Outcome.CANCELLED:
            error = CallCancelled("the call was cancelled")
        else:
            error = call.settled_by or self._loss()
        if self.rules.hooks.call_settled is not None:
            code = call.settled_by.code if outcome is Outcome.ERROR else None
            seconds = self.driver.time() - call.started
            self.rules.hooks.call_settled(call.trace, call.id, call.method, outcome, code, seconds)
        self.driver.settled(call, result, error)

    def _remote_error(self, error: Error) -> RpcError:
        try:
            return self.rules.errors.get(error.code, RpcError)(error.code, error.message, error.data)
        except Exception as fault:  # the class takes other arguments
            self.rules.hooks.fault(fault)
            return RpcError(error.code, error.message, error.data)

    def send(self, data: bytes, destination: Destination | None) -> None:
        """Send a message, unless it is b"". Never raises."""
        if not data:
            return
        if destination is None:
            self._write(data)
        else:
            with suppress(ConnectionLost, StateError):  # the driver itself learns of the loss
                destination.send(data)

    # The end.

    def begin_draining(self, phase: Phase = Phase.DRAINING) -> None:
        """Call `Driver.idle` when what was received is served; refuse new requests, unless the phase is ENDED."""
        self.enter(phase)
        if self.is_late:
            self.driver.soon()

    @property
    def has_read_a_request(self) -> bool:
        """Whether the peer has sent a request while this side was not draining."""
        return self.last_read is not UNSET

    def goodbye(self) -> bytes:
        """Return the notification that this side begins to close.

        b"" if the convention has none, or if it cannot name the last request that was read: null would mean that none
        was.
        """
        last = self.last_read
        if last is None:
            return b""
        return self._notice(self.calls.goodbye, None if isinstance(last, Unset) else last)

    def give_up(self, fault: ConnectionLost) -> None:
        """Settle all calls as lost, and end the connection to a peer that gives no sign of life."""
        self.broke(fault)
        self.lose_calls()
        self.driver.abort()

    def broke(self, fault: Exception) -> None:
        """Note what broke the connection, for the calls that are lost, and report it."""
        self.fault = self.fault or fault
        self.rules.hooks.broken(fault)

    @property
    def is_idle(self) -> bool:
        """Whether neither side waits for anything."""
        return not (len(self.calls) or self.requests or self.runs or self.queue or self.refused_bytes)

    def lose_calls(self, tells_peer: bool = False) -> None:
        """Settle all calls as lost: there are no more responses. What was received is still being served.

        Args:
            tells_peer: Whether the peer is notified that it need not continue with them, if the convention allows it.
        """
        self.may_call = False
        if self.late:
            self._receive_now(self._is_of_call)
        self.driver.left()
        for call in self.calls.lose():
            self._settled(call)
            if tells_peer:
                self.send(self._notice(self.calls.cancellation_notice, call), call.destination)

    def lose(self) -> None:
        """Settle all calls as lost, and forget the requests being served: the connection is lost.

        What waits for a later turn is still received, except for requests: nobody would get their responses.
        """
        if self.late:
            self._receive_now(lambda message, _: isinstance(message, (Response, Notification, ParseError)))
            self.late.clear()
        self.enter(Phase.LOST)
        self.be_in_time()
        if not self.calls.is_lost:
            self.lose_calls()
        if self.closes and self.fault is None:  # not the peer has ended it
            self.count_dropped()
        self.requests.clear()
        self.cancel_all()
