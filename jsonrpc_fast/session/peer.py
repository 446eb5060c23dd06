"""One end of a conversation, client and server at once, without IO and without a clock.

    peer = Peer()
    call, data = peer.call("add", [1, 2], now)          # data goes to the other end
    for event in peer.receive_bytes(received, now):     # what came from there
        ...

Rules:
  - what looks like a response is never answered, whatever is wrong with it;
  - an answer settles the call that has its id; one that cannot be read settles it as well, by the fault, and so does
    one that has nothing but that id;
  - the answer to a call that was given up is dropped; an answer to no call is a fault;
  - a request whose id is being served already is refused with -32600, and the first one goes on; unless `unique_ids`
    is False;
  - a notification gets no reply;
  - a batch is answered by one array as soon as the last of its requests is, and not at all when nothing in it wants
    an answer (section 6);
  - an error without an id settles a batch of this side, if there is just one that nothing came back for: a peer that
    cannot read a batch answers so;
  - an unreadable message whose id is known is answered, since its sender waits. One without is answered as
    `reply_policy` says: two ends that answer all that they cannot read may go on with that for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, cast

from ..codec import (
    Decoder,
    Notification,
    ParseError,
    Raw,
    Request,
    Response,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)
from ..codes import RPC_MESSAGES, ErrorCode, ParseErrorCode
from ..errors import StateError
from ..types import UNSET
from .budget import ReplyBudget, ReplyPolicy
from .conventions import Cancellation, Convention, Progress, ProgressToken
from .events import Cancelled, Event, Fault, InboundBatch, InboundRequest, OutboundBatch, Progressed, Received
from .tracker import Call, Outcome, Serving, Tracker

_INVALID_REQUEST: Final = RPC_MESSAGES[ErrorCode.INVALID_REQUEST]


class Peer:
    """Both roles of one end.

    decoder         what `receive_bytes` reads with; the default takes one message a line
    convention      how the protocol cancels and tells progress
    reply_policy    whether unreadable messages without an id are answered; or a `ReplyBudget` of one's own
    id_factory, max_pending, max_tombstones   as for `Tracker`
    unique_ids      whether a request with an id that is in flight is refused

    All times are seconds from one clock, which never goes back. All bytes to be sent are one JSON text that ends in
    `\\n`, the only one in it; b"" is nothing to send.
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
    ) -> None:
        self.calls: Tracker = Tracker(id_factory=id_factory, max_pending=max_pending, max_tombstones=max_tombstones)
        self.serving: Serving[InboundRequest] = Serving()
        self.convention: Convention = Convention() if convention is None else convention
        self._decoder = Decoder() if decoder is None else decoder
        if reply_policy not in ("always", "never", "limited") and not isinstance(reply_policy, ReplyBudget):
            raise ValueError('reply_policy must be "always", "never", "limited" or a ReplyBudget')
        self._unique_ids = unique_ids
        self._replies_always = reply_policy == "always"
        self._budget = ReplyBudget() if reply_policy == "limited" else reply_policy
        self._convention_methods = self.convention.methods
        self._calls_by_token: dict[ProgressToken, Call] = {}
        self._open_batches: dict[OutboundBatch, None] = {}  # that nothing came back for

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
        """A call in flight, and its request.

        With an idle timeout or `on_progress` the request carries a progress token, where the convention has such.
        Raises as `Tracker.begin` does, and as `encode_request` does; then there is no call.
        """
        call = self.calls.begin(method, now, timeout, idle_timeout)
        try:
            if on_progress is not None or idle_timeout is not None:
                params = self._give_token(call, params, on_progress)
            return call, encode_request(call.id, method, params)
        except BaseException:
            self.withdraw(call)
            raise

    def call_batch(
        self, items: Iterable[tuple[str, Any] | Notification], now: float, timeout: float | None = None
    ) -> tuple[list[Call | None], bytes]:
        """Calls in flight that go out as one batch, each `(method, params)`; notifications among them give None.

        Raises as `call` does, and ValueError for no items; then there are no calls.
        """
        found: list[Call | None] = []
        texts = []
        try:
            for item in items:
                if isinstance(item, Notification):
                    found.append(None)
                    texts.append(item.to_bytes())
                else:
                    method, params = item
                    call = self.calls.begin(method, now, timeout)
                    found.append(call)
                    texts.append(encode_request(call.id, method, params, delimited=False))
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
        """A notification. Raises as `encode_notification` does."""
        return encode_notification(method, params)

    def cancel(self, call: Call, reason: str | None = None) -> bytes:
        """Settles a call as `CANCELLED`. Returns what tells the peer; b"" too when it has settled before."""
        if not self.calls.give_up(call, Outcome.CANCELLED):
            return b""
        self._leave(call)
        return self.cancellation_notice(call, reason)

    def cancellation_notice(self, call: Call, reason: str | None = None) -> bytes:
        """What tells the peer that a call was given up, as after `expire`; b"" where nothing does."""
        if call.method in self.convention.never_cancelled:
            return b""
        message = self.convention.cancellation(call.id, reason)
        return b"" if message is None else encode_notification(*message)

    def withdraw(self, call: Call) -> None:
        """Forgets a call whose request was not sent."""
        self.calls.settle(call.id, Outcome.CANCELLED)
        self._leave(call)

    def expire(self, now: float) -> list[Call]:
        """The calls whose deadline has come, settled as `TIMEOUT`."""
        expired = self.calls.expire(now)
        for call in expired:
            self._leave(call)
        return expired

    def lose_calls(self) -> list[Call]:
        """No answer can come any more: all calls in flight, settled as `LOST`. What is being served goes on."""
        self._calls_by_token.clear()
        self._open_batches.clear()
        return self.calls.lose()

    def lose(self) -> list[Call]:
        """The connection is gone: as `lose_calls`, and what was being served is forgotten."""
        self.serving.clear()
        return self.lose_calls()

    # Answers in, bytes out.

    def answer(self, request: InboundRequest, result: Any) -> bytes:
        """The answer that carries a result; b"" while others of its batch wait, and when none may be given any more.

        Raises EncodeError for a result that cannot be written; then the request is still being served.
        """
        return self._finish(request, encode_result(request.id, result, delimited=request.batch is None))

    def refuse(self, request: InboundRequest, code: int, message: str, data: Any = UNSET) -> bytes:
        """The answer that carries an error. As `answer`."""
        return self._finish(request, encode_error(request.id, code, message, data, delimited=request.batch is None))

    def answer_cancelled(self, request: InboundRequest) -> bytes:
        """What the convention answers to a cancelled request: its error, or nothing."""
        error = self.convention.cancelled_error
        return self.drop(request) if error is None else self.refuse(request, *error)

    def drop(self, request: InboundRequest) -> bytes:
        """Leaves a request without an answer. Returns that of its batch, if it was the last."""
        return self._finish(request, b"")

    def report_progress(self, request: InboundRequest, value: Any) -> bytes:
        """What tells the peer how far its request is; b"" when it asked for no progress."""
        token = self.convention.token(_plain(request.params))
        if token is None or not self.serving.has(request.id, request):
            return b""
        message = self.convention.progress(token, value)
        return b"" if message is None else encode_notification(*message)

    def _finish(self, request: InboundRequest, text: bytes) -> bytes:
        if not self.serving.end(request.id, request):
            return b""  # the connection is gone
        if request.is_cancelled and self.convention.cancelled_error is None:
            text = b""
        return text if request.batch is None else request.batch.finish(request.index, text)

    # Bytes in, events out.

    def receive_bytes(self, data: bytes, now: float) -> list[Event]:
        """What a chunk of any size brings."""
        return [event for message in self._decoder.feed(data) for event in self.receive(message, now)]

    def receive_end(self, now: float) -> list[Event]:
        """What the end of the stream brings: a last message without its ending. `lose` is to follow."""
        return [event for message in self._decoder.close() for event in self.receive(message, now)]

    def receive(
        self,
        message: Request
        | Notification
        | Response
        | ParseError
        | Sequence[Request | Notification | Response | ParseError],
        now: float,
    ) -> list[Event]:
        """What a decoded message or batch brings."""
        return list(self.receive_lazily(message, now))

    def receive_lazily(
        self,
        message: Request
        | Notification
        | Response
        | ParseError
        | Sequence[Request | Notification | Response | ParseError],
        now: float,
    ) -> Iterable[Event]:
        """As `receive`, but an item of a batch is judged when the events of the one before it were taken.

        So an id may be used again in a batch for a request that was answered at once.
        """
        events: list[Event] = []
        if type(message) is list:
            return self._receive_batch(message, now)
        self._take(cast("Any", message), now, events, None, 0)
        return events

    def _receive_batch(self, items: list[Received], now: float) -> Iterator[Event]:
        batch = InboundBatch(len(items) + 1)
        batch.wait()  # for the end of it
        for index, item in enumerate(items):
            events: list[Event] = []
            self._take(item, now, events, batch, index)
            yield from events
        # When no request of it waits, nobody else is going to send the replies.
        if text := batch.finish(len(items), b""):
            yield text

    def _take(
        self,
        message: Received,
        now: float,
        events: list[Event],
        batch: InboundBatch | None,
        index: int,
    ) -> None:
        kind = type(message)
        if kind is Response:
            self._take_answer(cast("Response", message), events)
        elif kind is Request:
            request = InboundRequest(cast("Request", message), batch, index)
            if not self.serving.begin(request.id, request):
                if self._unique_ids:
                    reply = encode_error(
                        request.id, ErrorCode.INVALID_REQUEST, _INVALID_REQUEST, delimited=batch is None
                    )
                    self._fault(StateError("the peer used an id that is in flight"), reply, events, batch, index)
                    return
                self.serving.begin_beside(request.id, request)
            if batch is not None:
                batch.wait()
            events.append(request)
        elif kind is Notification:
            self._take_notification(cast("Notification", message), now, events)
        else:
            self._take_fault(cast("ParseError", message), now, events, batch, index)

    def _take_answer(self, message: Response, events: list[Event]) -> None:
        error = message.error
        call = self.calls.settle(message.id, Outcome.RESULT if error is None else Outcome.ERROR)
        if call is not None:
            call.answer = message.result if error is None else error
            if call.batch is not None or call.token is not None:
                self._leave(call)
            events.append(call)
        elif self.calls.is_late_answer(message.id):
            pass
        elif message.id is None and error is not None and len(self._open_batches) == 1:
            [batch] = self._open_batches
            for call in batch.calls:
                if self.calls.settle(call.id, Outcome.ERROR) is call:
                    call.answer = error
                    self._leave(call)
                    events.append(call)
        else:
            events.append(Fault(StateError("the peer answered no call that is in flight"), b""))

    def _take_notification(self, message: Notification, now: float, events: list[Event]) -> None:
        if message.method not in self._convention_methods:
            events.append(message)
            return
        said = self.convention.read(message.method, _plain(message.params))
        if type(said) is Cancellation:
            request = self.serving.find(said.id)
            if request is None or request.is_cancelled or request.method in self.convention.never_cancelled:
                return  # it is over, or is being ended: to say so again must not cancel a handler that cleans up
            request.is_cancelled = True
            events.append(Cancelled(request, said.reason))
        elif type(said) is Progress and (call := self._calls_by_token.get(said.token)) is not None:
            self.calls.progress(call, now)
            if call.on_progress is not None:
                events.append(Progressed(call, said.value))
        else:
            events.append(message)

    def _take_fault(
        self, fault: ParseError, now: float, events: list[Event], batch: InboundBatch | None, index: int
    ) -> None:
        reply = b""
        # An answer with nothing but an id looks like a request without a method; servers send it for no result.
        if fault.id is not None and (not fault.reply_expected or fault.code is ParseErrorCode.MISSING_METHOD):
            call = self.calls.settle(fault.id, Outcome.FAULT)
            if call is not None:
                call.answer = fault
                self._leave(call)
                events.append(call)
                return
            if self.calls.is_late_answer(fault.id):
                return
        if fault.reply_expected and (fault.id is not None or self._may_reply(now)):
            reply = encode_error(fault.id, fault.rpc_code, RPC_MESSAGES[fault.rpc_code], delimited=batch is None)
        self._fault(fault, reply, events, batch, index)

    def _fault(
        self, error: Exception, reply: bytes, events: list[Event], batch: InboundBatch | None, index: int
    ) -> None:
        if batch is not None:
            batch.put(index, reply)
            reply = b""
        events.append(Fault(error, reply))

    def _may_reply(self, now: float) -> bool:
        if self._replies_always:
            return True
        return isinstance(self._budget, ReplyBudget) and self._budget.take(now)

    def _give_token(self, call: Call, params: Any, on_progress: Callable[[Any], object] | None) -> Any:
        """The params with a progress token: the caller's own, else the call's id, which no other call has."""
        token = self.convention.token(_plain(params))
        if token is None:
            params = self.convention.with_token(_plain(params), call.id)
            token = self.convention.token(params)
        if token is not None:
            call.token = token
            call.on_progress = on_progress
            self._calls_by_token[token] = call
        return params

    def _leave(self, call: Call) -> None:
        """Forgets what a call had beside its id."""
        if call.token is not None and self._calls_by_token.get(call.token) is call:
            del self._calls_by_token[call.token]
        batch = call.batch
        if batch is not None:
            batch.in_flight -= 1
            answered = call.outcome in (Outcome.RESULT, Outcome.ERROR, Outcome.FAULT)
            if answered or not batch.in_flight:
                self._open_batches.pop(batch, None)


def _plain(params: Any) -> Any:
    """Params that may have been left as bytes."""
    return params.decode() if type(params) is Raw else params
