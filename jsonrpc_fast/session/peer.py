"""One end of a connection, client and server at once, without IO and without a clock.

One class, because a message in one direction settles what went in the other, by its id, its token or its batch. What it
keeps is in tracker.py and events.py.

    peer = Peer()
    call, data = peer.call("add", [1, 2], now)          # send `data` to the other end
    for event in peer.receive_bytes(received, now):     # `received` came from there
        ...

Rules:
  - anything that looks like a response is never answered, even if it is malformed;
  - an answer settles the call with its id, and so does a malformed answer, or one that has nothing but that id;
  - the late answer to a call that was given up is dropped; an answer to no call is a fault;
  - a request whose id is being served already is refused with -32600, and the first one continues, unless
    `unique_ids` is False;
  - a notification is never answered;
  - a batch is answered by one array after the last of its requests, and not at all if there is nothing to answer
    (section 6);
  - an error without an id settles a batch of this side if exactly one has had no answer yet: this is how a peer
    refuses a batch that it cannot read. If there is no such batch, it settles the only call that has had no answer, in
    flight or given up. A peer that knows the method or the params has read the id, too: such an error is the response
    to a notification, which some peers send although they must not, and settles nothing. Nothing tells whether an error
    is about a notification that the peer cannot read, because it is too large for example: the call fails in its place;
  - a goodbye of the peer settles the calls that it will not serve;
  - a malformed message whose id is certain is answered, because its sender waits. Whether one without an id is answered
    is up to `reply_policy`: two ends that answer everything they cannot read could go on forever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, cast

from ..codec import (
    Decoder,
    Message,
    Notification,
    ParseError,
    Request,
    Response,
    encode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)
from ..codec._json import Default
from ..codec._payloads import decoded
from ..codes import RPC_MESSAGES, ErrorCode, ParseErrorCode
from ..errors import ConnectionLost, EncodeError, StateError
from ..handlers.results import encode_models
from ..types import UNSET, MessageId
from .budget import ReplyBudget, ReplyPolicy, budget_for
from .conventions import Cancellation, Convention, Goodbye, JsonRpcConvention, Progress, ProgressToken
from .events import Cancelled, InboundBatch, InboundRequest, Leaving, OutboundBatch, PeerEvent, PeerFault, Progressed
from .tracker import Call, Outcome, Serving, Tracker, id_in_flight, unknown_answer

_RESULT: Final = Outcome.RESULT  # looked up once: before Python 3.12 access to enum members is slow
_ERRORS_OF_WHAT_WAS_READ: Final = (ErrorCode.METHOD_NOT_FOUND, ErrorCode.INVALID_PARAMS)
_INVALID_REQUEST: Final = RPC_MESSAGES[ErrorCode.INVALID_REQUEST]


class Peer:
    """One end of a connection: calls the other end, and answers its requests.

    All times are seconds from one monotonic clock. All bytes to send are one line of JSON with its newline; b"" means
    nothing to send.

    Args:
        decoder: The decoder for `receive_bytes`; by default one message per line.
        convention: How the protocol cancels requests, reports progress, pings and says goodbye. `JsonRpcConvention` by
            default.
        reply_policy: Whether to answer malformed messages without a certain id; or a `ReplyBudget`.
        id_factory: As in `Tracker`.
        max_pending: As in `Tracker`.
        max_tombstones: As in `Tracker`.
        unique_ids: Whether to refuse a request whose id is in flight already.
        default: As in `encode`, for all payloads. Without one, models of msgspec and pydantic in results and error data
            are written by `to_jsonable`.

    Attributes:
        calls: The calls of this side.
        serving: The requests of the other end.
        convention: The convention.
        prepare: Called with the id (None for a notification) and the method of what is about to be encoded. Returns the
            trace for the call, and the trace context for the message.
        reads_trace: Whether requests keep their further members, for `trace_of`.

    Raises:
        ValueError: `reply_policy` is not a policy.
    """

    def __init__(
        self,
        *,
        decoder: Decoder | None = None,
        convention: Convention | None = None,
        reply_policy: ReplyPolicy | ReplyBudget = "always",
        id_factory: Callable[[], int | str] | None = None,
        max_pending: int = 100_000,
        max_tombstones: int = 10_000,
        unique_ids: bool = True,
        default: Default = None,
    ) -> None:
        self.calls: Tracker = Tracker(id_factory=id_factory, max_pending=max_pending, max_tombstones=max_tombstones)
        self.serving: Serving[InboundRequest] = Serving()
        self.convention: Convention = JsonRpcConvention() if convention is None else convention
        self._decoder = Decoder() if decoder is None else decoder
        self.prepare: Callable[[int | str | None, str], tuple[Any, dict[str, str]] | None] | None = None
        self.reads_trace: bool = False
        self._unique_ids = unique_ids
        self._default = default
        self._encode_request: Callable[..., bytes] = _with_default(encode_request, default)
        self._encode_notification: Callable[..., bytes] = _with_default(encode_notification, default)
        self._encode_result: Callable[..., bytes] = _with_default(encode_result, default)
        self._encode_error: Callable[..., bytes] = _with_default(encode_error, default)
        self._budget = budget_for(reply_policy)
        self._convention_methods = self.convention.methods
        self._calls_by_token: dict[ProgressToken, Call] = {}
        self._open_batches: dict[OutboundBatch, None] = {}  # without any answer yet

    # Calls in, bytes out.

    def call(
        self,
        method: str,
        params: Any,
        now: float,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        on_progress: Callable[[Any], object] | None = None,
    ) -> tuple[Call, bytes]:
        """Begin a call.

        With an idle timeout or `on_progress` the request carries a progress token, if the convention has them.

        Args:
            method: The method to call.
            params: A list, a dict or None.
            now: The current time.
            timeout: Seconds until the call expires; None: no deadline.
            idle_timeout: Maximum seconds without progress; None: no bound.
            on_progress: Kept in the call, for `Progressed` events.

        Returns:
            The call and the request to send.

        Raises:
            StateError, ValueError, TypeError: As in `Tracker.begin`.
            EncodeError, TypeError: The params cannot be encoded.
        """
        call = self.calls.begin(method, now, timeout, idle_timeout)
        try:
            if on_progress is not None or idle_timeout is not None:
                params = self._give_token(call, params, on_progress)
            if self.prepare is not None:
                return call, self._prepared(call, method, params, delimited=True)
            return call, self._encode_request(call.id, method, params)
        except BaseException:
            self.withdraw(call)
            raise

    def call_batch(
        self, items: Iterable[tuple[str, Any] | Notification], now: float, timeout: float | None = None
    ) -> tuple[list[Call | None], bytes]:
        """Begin several calls in one batch.

        Args:
            items: For each call `(method, params)`; or notifications.
            now: The current time.
            timeout: Seconds until the calls expire; None: no deadline.

        Returns:
            For each item its call, or None for a notification; and the batch to send.

        Raises:
            ValueError: There are no items.
            Exception: As in `call`. Then none of the calls has begun.
        """
        found: list[Call | None] = []
        texts = []
        try:
            for item in items:
                if isinstance(item, Notification):
                    found.append(None)
                    if self.prepare is not None:
                        texts.append(self._prepared(None, item.method, item.params, delimited=False))
                    else:
                        texts.append(self._encode_notification(item.method, item.params, delimited=False))
                else:
                    method, params = item
                    call = self.calls.begin(method, now, timeout)
                    found.append(call)
                    if self.prepare is not None:
                        texts.append(self._prepared(call, method, params, delimited=False))
                    else:
                        texts.append(self._encode_request(call.id, method, params, delimited=False))
        except BaseException:
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
        if self.prepare is not None:
            return self._prepared(None, method, params, delimited=True)
        return self._encode_notification(method, params)

    def _prepared(self, call: Call | None, method: str, params: Any, *, delimited: bool) -> bytes:
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
        return encode(message, delimited=delimited, default=self._default)

    def trace_of(self, item: InboundRequest | Request | Notification) -> dict[str, str]:
        """Return the trace context of a message of the other end; an `InboundRequest` needs `reads_trace`."""
        return self.convention.trace(decoded(item.params), item.extra)

    def cancel(self, call: Call, reason: str | None = None) -> bytes:
        """Settle a call as `CANCELLED`. Returns the notice to send; b"" also if the call has settled already."""
        if not self.calls.give_up(call, Outcome.CANCELLED):
            return b""
        self._forget(call)
        return self.cancellation_notice(call, reason)

    def cancellation_notice(self, call: Call, reason: str | None = None) -> bytes:
        """Return the notice that cancels a call that was given up, as after `expire`; b"" if there is none."""
        if call.method in self.convention.never_cancelled:
            return b""
        message = self.convention.cancellation(call.id, reason)
        return b"" if message is None else encode_notification(*message)

    def ping(self, now: float, timeout: float) -> tuple[Call, bytes]:
        """Begin the convention's call that asks for any answer, even if `max_pending` calls are in flight.

        Args:
            now: The current time.
            timeout: Seconds until the call expires.

        Returns:
            The call and the request to send.

        Raises:
            StateError: The convention has no ping.
        """
        method = self.convention.ping
        if method is None:
            raise StateError("the convention has no ping")
        call = self.calls.begin(method, now, timeout, may_exceed=True)
        if self.prepare is not None:
            return call, self._prepared(call, method, None, delimited=True)
        return call, self._encode_request(call.id, method)

    def goodbye(self, last: MessageId) -> bytes:
        """Return the notification that this side begins to close; b"" if there is none.

        Args:
            last: The id of the last request that this side has read; None: it has read none.
        """
        message = self.convention.goodbye(last)
        return b"" if message is None else encode_notification(*message)

    def withdraw(self, call: Call) -> None:
        """Forget a call whose request was not sent."""
        self.calls.settle(call.id, Outcome.CANCELLED)
        self._forget(call)

    def expire(self, now: float) -> list[Call]:
        """Settle the calls whose deadline has passed as `TIMEOUT` and return them."""
        expired = self.calls.expire(now)
        for call in expired:
            self._forget(call)
        return expired

    def fail(self, id: MessageId, error: Exception) -> Call | None:
        """Settle a call with an exception of this side and return it; None if no such call is in flight."""
        call = self.calls.settle(id, Outcome.FAULT)
        if call is None:
            self.calls.is_late_answer(id)
            return None
        call.answer = error
        self._forget(call)
        return call

    def lose_calls(self) -> list[Call]:
        """Settle all calls in flight as `LOST` and return them: no more answers. Requests are still being served."""
        self._calls_by_token.clear()
        self._open_batches.clear()
        return self.calls.lose()

    def lose(self) -> list[Call]:
        """Do as `lose_calls`, and forget the requests that are being served: the connection is lost."""
        self.serving.clear()
        return self.lose_calls()

    # Answers in, bytes out.

    def answer(self, request: InboundRequest, result: Any) -> bytes:
        """Answer a request with a result.

        Returns:
            The answer to send; b"" while other requests of the batch wait, and if the request must not be answered.

        Raises:
            EncodeError: The result cannot be encoded. The request is still being served.
        """
        try:
            text = self._encode_result(request.id, result, delimited=request.batch is None)
        except EncodeError as error:
            text = encode_models(
                error, self._default, encode_result, request.id, result, delimited=request.batch is None
            )
        if request.batch is None and not request.is_cancelled:  # as `_finish`, without a call
            return text if self.serving.end(request.id, request) else b""
        return self._finish(request, text)

    def encode_result(self, id: MessageId, result: Any, delimited: bool = True) -> bytes:
        """Return the response to a request that was never registered as being served. Raises as `answer`."""
        try:
            return self._encode_result(id, result, delimited=delimited)
        except EncodeError as error:
            return encode_models(error, self._default, encode_result, id, result, delimited=delimited)

    def refuse(self, request: InboundRequest, code: int, message: str, data: Any = UNSET) -> bytes:
        """Answer a request with an error; otherwise as `answer`."""
        try:
            text = self._encode_error(request.id, code, message, data, delimited=request.batch is None)
        except EncodeError as error:
            members = (request.id, code, message, data)
            text = encode_models(error, self._default, encode_error, *members, delimited=request.batch is None)
        return self._finish(request, text)

    def answer_cancelled(self, request: InboundRequest) -> bytes:
        """Answer a cancelled request as the convention says: with its error, or not at all."""
        error = self.convention.cancelled_error
        return self.drop(request) if error is None else self.refuse(request, *error)

    def drop(self, request: InboundRequest) -> bytes:
        """Leave a request unanswered. Returns the answer to its batch if the request was the last one there."""
        return self._finish(request, b"")

    def report_progress(self, request: InboundRequest, value: Any) -> bytes:
        """Return the notification that reports progress on a request; b"" if the peer did not ask for progress."""
        token = self.convention.token(decoded(request.params))
        if token is None or not self.serving.has(request.id, request):
            return b""
        message = self.convention.progress(token, value)
        return b"" if message is None else encode_notification(*message)

    def _finish(self, request: InboundRequest, text: bytes) -> bytes:
        if not self.serving.end(request.id, request):
            return b""  # the connection is lost
        if request.is_cancelled and self.convention.cancelled_error is None:
            text = b""
        return text if request.batch is None else request.batch.finish(request.index, text)

    # Bytes in, events out.

    def receive_bytes(self, data: bytes, now: float) -> list[PeerEvent]:
        """Return the events of a chunk of the stream, of any size."""
        return [event for message in self._decoder.feed(data) for event in self.receive(message, now)]

    def receive_end(self, now: float) -> list[PeerEvent]:
        """Return the events of a last message without its ending, at the end of the stream. Then call `lose`."""
        return [event for message in self._decoder.close() for event in self.receive(message, now)]

    def receive(
        self,
        message: Message | Sequence[Message],
        now: float,
    ) -> list[PeerEvent]:
        """Return the events of a decoded message or batch."""
        return list(self.receive_lazily(message, now))

    def receive_lazily(
        self,
        message: Message | Sequence[Message],
        now: float,
    ) -> Iterable[PeerEvent]:
        """Do as `receive`, but receive an item of a batch only after the events of the previous one were handled.

        So a batch may use the id of a request again that was answered at once.
        """
        events: list[PeerEvent] = []
        if type(message) is list:
            return self._receive_batch(message, now)
        self._receive(cast("Any", message), now, events, None, 0)
        return events

    def _receive_batch(self, items: list[Message], now: float) -> Iterator[PeerEvent]:
        batch = InboundBatch(len(items) + 1)
        batch.wait()  # for the end of the batch
        for index, item in enumerate(items):
            events: list[PeerEvent] = []
            self._receive(item, now, events, batch, index)
            yield from events
        # If no request of the batch is being served, nothing else sends the replies.
        if text := batch.finish(len(items), b""):
            yield text

    def _receive(
        self,
        message: Message,
        now: float,
        events: list[PeerEvent],
        batch: InboundBatch | None,
        index: int,
    ) -> None:
        kind = type(message)
        if kind is Response:
            self._receive_response(cast("Response", message), events)
        elif kind is Request:
            events.append(self.receive_request(cast("Request", message), batch, index))
        elif kind is Notification:
            self._receive_notification(cast("Notification", message), now, events)
        else:
            self._receive_fault(cast("ParseError", message), now, events, batch, index)

    def receive_request(
        self, message: Request, batch: InboundBatch | None = None, index: int = 0
    ) -> InboundRequest | PeerFault:
        """Return the event of a request: a fault if its id is in flight already."""
        request = InboundRequest(message, batch, index)
        if self.reads_trace:
            request.extra = message.extra
        if not self.serving.begin(request.id, request):
            if self._unique_ids:
                reply = encode_error(request.id, ErrorCode.INVALID_REQUEST, _INVALID_REQUEST, delimited=batch is None)
                return self._fault(id_in_flight(), reply, batch, index)
            self.serving.begin_beside(request.id, request)
        if batch is not None:
            batch.wait()
        return request

    def register(self, message: Request) -> InboundRequest:
        """Register a request that `receive` has not seen, so that it can be answered later.

        Raises:
            StateError: Its id is in flight already.
        """
        request = InboundRequest(message)
        if not self.serving.begin(request.id, request):
            raise id_in_flight()
        return request

    def settle(self, message: Response) -> Call | None:
        """Settle the call with the id of a response and return it; None if no such call is in flight."""
        error = message.error
        call = self.calls.settle(message.id, _RESULT if error is None else Outcome.ERROR)
        if call is not None:
            call.answer = message.result if error is None else error
            if call.batch is not None or call.token is not None:
                self._forget(call)
        return call

    def _receive_response(self, message: Response, events: list[PeerEvent]) -> None:
        error = message.error
        call = self.settle(message)
        if call is not None:
            events.append(call)
        elif self.calls.is_late_answer(message.id):
            pass
        elif message.id is not None or error is None or error.code in _ERRORS_OF_WHAT_WAS_READ:
            events.append(PeerFault(unknown_answer(), b""))
        elif len(self._open_batches) == 1:
            [batch] = self._open_batches
            for call in batch.calls:
                if self.calls.settle(call.id, Outcome.ERROR) is call:
                    call.answer = error
                    self._forget(call)
                    events.append(call)
        elif (only := self.calls.only_unanswered()) is not None:
            self.calls.settle(only.id, Outcome.ERROR)
            only.answer = error
            self._forget(only)
            events.append(only)
        else:
            events.append(PeerFault(unknown_answer(), b""))

    def _receive_notification(self, message: Notification, now: float, events: list[PeerEvent]) -> None:
        if message.method not in self._convention_methods:
            events.append(message)
            return
        notice = self.convention.read(message.method, decoded(message.params))
        if type(notice) is Cancellation:
            request = self.serving.find(notice.id)
            if request is None or request.is_cancelled or request.method in self.convention.never_cancelled:
                return  # a second cancellation must not interrupt a handler that cleans up
            request.is_cancelled = True
            events.append(Cancelled(request, notice.reason))
        elif type(notice) is Goodbye:
            events.append(Leaving(self._give_up_behind(notice.last)))
        elif type(notice) is Progress and (call := self._calls_by_token.get(notice.token)) is not None:
            self.calls.progress(call, now)
            if call.on_progress is not None:
                events.append(Progressed(call, notice.value))
        else:
            events.append(message)

    def _give_up_behind(self, last: MessageId) -> list[Call]:
        """Settle the calls that the peer does not serve, because it has said goodbye before it read them."""
        unserved = self.calls.behind(last)
        for call in unserved:
            self.calls.give_up(call, Outcome.LOST)  # it may refuse them as well
            call.answer = ConnectionLost("the peer closed the session before it read the request", was_sent=False)
            self._forget(call)
        return unserved

    def _receive_fault(
        self, fault: ParseError, now: float, events: list[PeerEvent], batch: InboundBatch | None, index: int
    ) -> None:
        reply = b""
        # Some servers answer "no result" with nothing but an id, which looks like a request without a method.
        if fault.id is not None and (not fault.reply_expected or fault.code is ParseErrorCode.MISSING_METHOD):
            call = self.calls.settle(fault.id, Outcome.FAULT)
            if call is not None:
                call.answer = fault
                self._forget(call)
                events.append(call)
                return
            if self.calls.is_late_answer(fault.id):
                return
        if fault.reply_expected and (fault.id is not None or self._budget.take(now)):
            reply = encode_error(fault.id, fault.rpc_code, RPC_MESSAGES[fault.rpc_code], delimited=batch is None)
        events.append(self._fault(fault, reply, batch, index))

    def _fault(self, error: Exception, reply: bytes, batch: InboundBatch | None, index: int) -> PeerFault:
        if batch is not None:
            batch.put(index, reply)
            reply = b""
        return PeerFault(error, reply)

    def _give_token(self, call: Call, params: Any, on_progress: Callable[[Any], object] | None) -> Any:
        """Return the params with a progress token: the caller's own, or else the call's id, which is unique."""
        token = self.convention.token(decoded(params))
        if token is None:
            params = self.convention.with_token(decoded(params), call.id)
            token = self.convention.token(params)
        if token is not None:
            call.token = token
            call.on_progress = on_progress
            self._calls_by_token[token] = call
        return params

    def _forget(self, call: Call) -> None:
        """Forget the token and the batch of a call."""
        if call.token is not None and self._calls_by_token.get(call.token) is call:
            del self._calls_by_token[call.token]
        batch = call.batch
        if batch is not None:
            batch.in_flight -= 1
            answered = call.outcome in (Outcome.RESULT, Outcome.ERROR, Outcome.FAULT)
            if answered or not batch.in_flight:
                self._open_batches.pop(batch, None)


def _with_default(encode: Callable[..., bytes], default: Default) -> Callable[..., bytes]:
    return encode if default is None else partial(encode, default=default)
