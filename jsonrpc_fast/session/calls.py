"""The calls of one side: what is sent for them, and what settles them. No IO and no clock.

Rules:
  - A response settles the call with its id, and so does a malformed response, or one that has nothing but that id.
  - The late response to a call that was given up is dropped, as is every response after `lose`; any other response with
    an unknown id is a fault.
  - An error without an id settles a batch of this side if exactly one has had no response yet: this is how a peer
    refuses a batch that it cannot read. If there is no such batch, it settles the only call in flight, unless it may be
    about one that was given up (`Tracker.only_awaited`). An error about the method or the params comes from a peer that
    could have read an id: it is a response to a notification, which some peers send although they must not, and settles
    nothing. An error about a notification that the peer cannot read, for example because it is too large, cannot be
    told from one about a call: the call fails.
  - A goodbye of the peer settles the calls that it will not serve.

Each message to send is one line of JSON with its newline; b"" stands for none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from .._checks import check_callable
from ..codec import Message, Notification, ParseError, Request, Response
from ..codec._json import Default
from ..codec._payloads import decoded
from ..codec.encoders import PLAIN, Encoders
from ..codec.unwritable import explained
from ..codes import ErrorCode, ParseErrorCode
from ..errors import ConnectionLost, EncodeError
from ..handlers.cancellation import CancelledError
from ..hooks import Outcome
from ..types import MessageId
from .conventions import Convention, ProgressToken, is_wide
from .requests import with_default
from .tracker import Call, Tracker

_RESULT: Final = Outcome.RESULT  # looked up once: before Python 3.12 access to enum members is slow
_ERRORS_OF_WHAT_WAS_READ: Final = (ErrorCode.METHOD_NOT_FOUND, ErrorCode.INVALID_PARAMS)


class OutboundBatch:
    """The calls of a batch that this side sent."""

    __slots__ = ("calls", "in_flight")

    def __init__(self, calls: list[Call]) -> None:
        self.calls: list[Call] = calls
        self.in_flight: int = len(calls)


class Calls(Tracker):
    """The calls of one side: those in flight, and the messages that are sent for them.

    All times are seconds from one monotonic clock.

    Args:
        convention: How the protocol cancels requests, reports progress, pings and says goodbye.
        id_factory: As in `Tracker`.
        max_calls: As in `Tracker`.
        default: As in `encode`.
        encoders: Write the messages.

    Attributes:
        convention: The same as the argument.
        prepare: Called with the id (None for a notification) and the method of the message to encode. Returns the
            trace for the call, and the trace context for the message.
    """

    def __init__(
        self,
        convention: Convention,
        id_factory: Callable[[], int | str] | None,
        max_calls: int,
        default: Default,
        encoders: Encoders = PLAIN,
    ) -> None:
        super().__init__(id_factory=id_factory, max_calls=max_calls)
        self.convention: Convention = convention
        self.prepare: Callable[[int | str | None, str], tuple[Any, dict[str, str]] | None] | None = None
        self._default = encoders.default_of(default)  # for errors that explain why a value cannot be written
        self._encode: Callable[..., bytes] = with_default(encoders.encode, default)
        self._encode_request: Callable[..., bytes] = with_default(encoders.encode_request, default)
        self._encode_notification: Callable[..., bytes] = with_default(encoders.encode_notification, default)
        self._by_token: dict[ProgressToken, Call] = {}
        self._open_batches: dict[OutboundBatch, None] = {}  # without any response yet
        self._is_lost = False  # this side closes: a late response can no longer be told from one with an unknown id

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
    ) -> tuple[Call, bytes]:
        """Begin a call as `Engine.call` describes it. Return the call and the request to send.

        With an idle timeout or `on_progress` the request carries a progress token, if the convention has them.

        Raises:
            StateError, ValueError, TypeError: As in `Tracker.begin`.
            EncodeError, TypeError: The params cannot be encoded.
        """
        call = self.begin(method, now, timeout, idle_timeout, may_exceed=may_exceed)
        try:
            if on_progress is not None or idle_timeout is not None:
                params = self._give_token(call, params, on_progress, is_stream)
            return call, self._request(call, method, params, True)
        except (Exception, CancelledError):
            self.withdraw(call)
            raise

    def batch(
        self,
        items: Iterable[tuple[str, Any] | Notification],
        now: float,
        timeout: float | None = None,
        may_exceed: bool = False,
    ) -> tuple[list[Call | None], bytes]:
        """Begin several calls in one batch as `Engine.call_batch` describes it. Return the calls and the batch to send.

        Raises:
            ValueError: There are no items.
            Exception: As in `request`. Then none of the calls has begun.
        """
        found: list[Call | None] = []
        texts = []
        try:
            for item in items:
                if isinstance(item, Notification):
                    found.append(None)
                    texts.append(self._notification(item.method, item.params, False))
                else:
                    method, params = item
                    call = self.begin(method, now, timeout, may_exceed=may_exceed)
                    found.append(call)
                    texts.append(self._request(call, method, params, False))
        except (Exception, CancelledError):
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

    def notify(self, method: str, params: Any = None) -> bytes:
        """Return a notification to send. Raises what `encode_notification` raises."""
        return self._notification(method, params, True)

    def _request(self, call: Call, method: str, params: Any, delimited: bool) -> bytes:
        if self.prepare is not None:
            return self._prepared(call, method, params, delimited)
        try:
            return self._encode_request(call.id, method, params, delimited=delimited)
        except EncodeError as error:
            raise explained(error, method, params, self._default) from error.__cause__

    def _notification(self, method: str, params: Any, delimited: bool) -> bytes:
        if self.prepare is not None:
            return self._prepared(None, method, params, delimited)
        try:
            return self._encode_notification(method, params, delimited=delimited)
        except EncodeError as error:
            raise explained(error, method, params, self._default) from error.__cause__

    def _prepared(self, call: Call | None, method: str, params: Any, delimited: bool) -> bytes:
        """Return a request or a notification with a trace context."""
        assert self.prepare is not None
        prepared = self.prepare(None if call is None else call.id, method)
        extra = None
        if prepared is not None:
            trace, context = prepared
            if call is not None:
                call.trace = trace
            if context:
                params, extra = self.convention.with_trace(decoded(params), context)
        message: Message
        if call is None:
            message = Notification(method, params, extra=cast("Any", extra))
        else:
            message = Request(call.id, method, params, extra=cast("Any", extra))
        try:
            return self._encode(message, delimited=delimited)
        except EncodeError as error:
            raise explained(error, method, params, self._default) from error.__cause__

    def cancel(self, call: Call, reason: str | None = None) -> bytes:
        """Settle a call as `CANCELLED`. Returns the notice to send; b"" also if the call has settled already."""
        return self.cancellation_notice(call, reason) if self.give_up(call, Outcome.CANCELLED) else b""

    def cancellation_notice(self, call: Call, reason: str | None = None) -> bytes:
        """Return the notice for a call that was given up, as after `expire`; b"" if the convention has none."""
        if call.method in self.convention.never_cancelled or is_wide(call.id):
            return b""
        message = self.convention.cancellation(call.id, reason)
        return b"" if message is None else self._encode_notification(*message)

    def goodbye(self, last: MessageId) -> bytes:
        """Return the notification that this side begins to close; b"" if the convention has none.

        Args:
            last: As in `Goodbye`.
        """
        message = self.convention.goodbye(last)
        return b"" if message is None else self._encode_notification(*message)

    def withdraw(self, call: Call) -> None:
        """Forget a call whose request was not sent."""
        self.settle(call.id, Outcome.CANCELLED)
        self.note_no_response(call)

    def fail(self, id: MessageId, error: Exception) -> Call | None:
        """Settle a call with an exception of this side and return it; None if no such call is in flight."""
        call = self.settle(id, Outcome.FAULT)
        if call is None:
            self.is_late_response(id)
        else:
            call.settled_by = error
        return call

    def lose(self) -> list[Call]:
        self._by_token.clear()
        self._open_batches.clear()
        self._is_lost = True
        return super().lose()

    # Responses.

    def settle(self, id: MessageId, outcome: Outcome) -> Call | None:
        call = super().settle(id, outcome)
        if call is not None and (call.batch is not None or call.token is not None):
            self._forget(call)
        return call

    def settle_by(self, message: Response) -> Call | None:
        """Settle the call with the id of a response and return it; None if no such call is in flight."""
        error = message.error
        call = self.settle(message.id, _RESULT if error is None else Outcome.ERROR)
        if call is not None:
            call.settled_by = message.result if error is None else error
        return call

    def settle_otherwise(self, message: Response) -> list[Call] | None:
        """Return the calls that a response without the id of one settles: [] if it is late, None if it is a fault."""
        if self._is_lost or self.is_late_response(message.id):
            return []
        error = message.error
        if message.id is not None or error is None or error.code in _ERRORS_OF_WHAT_WAS_READ:
            return None
        if len(self._open_batches) == 1:
            [batch] = self._open_batches
            calls = batch.calls
        else:
            only = self.only_awaited()
            calls = [] if only is None else [only]
        settled = [call for call in calls if self.settle(call.id, Outcome.ERROR) is call]
        for call in settled:
            call.settled_by = error
        return settled or None

    def settle_malformed(self, fault: ParseError) -> Call | bool:
        """Return the call that a malformed message settles; True if it is a late response, False if it is neither."""
        # Some servers send a response with nothing but an id, which looks like a request without a method.
        if fault.id is None or (fault.reply_expected and fault.code is not ParseErrorCode.MISSING_METHOD):
            return False
        call = self.settle(fault.id, Outcome.FAULT)
        if call is None:
            return self._is_lost or self.is_late_response(fault.id)
        call.settled_by = fault
        return call

    def progress_with(self, token: ProgressToken, now: float) -> Call | None:
        """Count progress on the call with a token and return it; None if there is no such call."""
        call = self._by_token.get(token)
        if call is not None:
            self.progress(call, now)
        return call

    def give_up_behind(self, last: MessageId) -> list[Call]:
        """Settle the calls that the peer does not serve, because it has said goodbye before it read them."""
        unserved = self.behind(last)
        for call in unserved:
            self.give_up(call, Outcome.LOST)  # the peer may refuse them as well
            call.settled_by = ConnectionLost("the peer closed the session before it read the request", was_sent=False)
        return unserved

    def _give_token(self, call: Call, params: Any, on_progress: Callable[[Any], object] | None, is_stream: bool) -> Any:
        """Return the params with a progress token: the caller's own, or else the call's id, which is unique."""
        check_callable("on_progress", on_progress)
        convention = self.convention
        token_of = convention.item_token if is_stream else convention.token
        token = token_of(decoded(params))
        if token is None:
            with_token = convention.with_item_token if is_stream else convention.with_token
            params = with_token(decoded(params), str(call.id) if is_wide(call.id) else call.id)
            token = token_of(params)
        if token is not None:
            call.token = token
            call.on_progress = on_progress
            self._by_token[token] = call
        return params

    def _forget(self, call: Call) -> None:
        """Forget the token and the batch of a call that has settled."""
        if call.token is not None and self._by_token.get(call.token) is call:
            del self._by_token[call.token]
        batch = call.batch
        if batch is not None:
            batch.in_flight -= 1
            has_response = call.outcome in (Outcome.RESULT, Outcome.ERROR, Outcome.FAULT)
            if has_response or not batch.in_flight:
                self._open_batches.pop(batch, None)
