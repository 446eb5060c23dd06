"""What a peer reports for received bytes, and what it keeps of a request that it serves."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..codec import (
    Notification,
    Params,
    ParseError,
    Request,
    Response,
)
from ..types import MessageId
from .tracker import Call


class InboundRequest:
    """A request of the peer that is being served: to be handed to `answer` or `refuse`.

    id, method, params  those of the message
    is_cancelled        the peer told that it has no use for the answer
    """

    __slots__ = ("batch", "id", "index", "is_cancelled", "method", "params", "task")

    def __init__(self, message: Request, batch: InboundBatch | None = None, index: int = 0) -> None:
        self.id: MessageId = message.id
        self.method: str = message.method
        self.params: Params = message.params
        self.batch: InboundBatch | None = batch
        self.index: int = index
        self.is_cancelled: bool = False
        self.task: Any = None  # the driver's


class InboundBatch:
    """The answers to a batch as they come in, in the order of the batch."""

    __slots__ = ("_replies", "_waiting")

    def __init__(self, items: int) -> None:
        self._replies: list[bytes] = [b""] * items
        self._waiting = 0

    def wait(self) -> None:
        self._waiting += 1

    def put(self, index: int, reply: bytes) -> None:
        self._replies[index] = reply

    def finish(self, index: int, reply: bytes) -> bytes:
        """Takes the answer to a request, b"" where it gets none. Returns the array when it was the last."""
        self._replies[index] = reply
        self._waiting -= 1
        return self.text()

    def text(self) -> bytes:
        """The array, or b"" as long as a request waits and when there is nothing to say."""
        if self._waiting:
            return b""
        replies = [reply for reply in self._replies if reply]
        return b"[" + b",".join(replies) + b"]\n" if replies else b""


class OutboundBatch:
    """The calls of one batch of this side."""

    __slots__ = ("calls", "in_flight")

    def __init__(self, calls: list[Call]) -> None:
        self.calls: list[Call] = calls
        self.in_flight: int = len(calls)


class Progressed(NamedTuple):
    """The peer told the progress of a call that has an `on_progress`."""

    call: Call
    value: Any


class Cancelled(NamedTuple):
    """The peer has no use for the answer any more. The request still has to be answered or refused."""

    request: InboundRequest
    reason: str | None


class Fault(NamedTuple):
    """Something was wrong with what came. It was dropped, and the conversation goes on.

    error  a ParseError; a StateError for an answer to no call and for an id that is in flight already
    reply  what to send to the peer because of it, or b""
    """

    error: Exception
    reply: bytes


Received = Request | Notification | Response | ParseError


Event = Call | InboundRequest | Notification | Progressed | Cancelled | Fault | bytes
"""What came: a call that has settled, something to serve, or bytes that the other end is to be sent."""
