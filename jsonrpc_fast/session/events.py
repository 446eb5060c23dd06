"""What a peer reports about received messages, and what it keeps of batches and requests in progress."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..codec import Notification, Params, Request
from ..types import MessageId
from .tracker import Call


class InboundRequest:
    """A request of the peer that is being served; to be passed to `Peer.answer` or `Peer.refuse`.

    Attributes:
        id: The id of the request.
        method: Its method.
        params: Its params.
        is_cancelled: Whether the peer has cancelled it.
        extra: Its members that JSON-RPC does not define; set only if `Peer.reads_trace` is true.
    """

    extra: dict[str, Any] | None
    __slots__ = ("batch", "extra", "id", "index", "is_cancelled", "method", "params", "task")

    def __init__(self, message: Request, batch: InboundBatch | None = None, index: int = 0) -> None:
        self.id: MessageId = message.id
        self.method: str = message.method
        self.params: Params = message.params
        self.batch: InboundBatch | None = batch
        self.index: int = index
        self.is_cancelled: bool = False
        self.task: Any = None  # the `Run` or the task that serves it


class InboundBatch:
    """The replies to a received batch, collected in the order of the batch."""

    __slots__ = ("_replies", "_waiting")

    def __init__(self, items: int) -> None:
        self._replies: list[bytes] = [b""] * items
        self._waiting = 0

    def wait(self) -> None:
        """Expect one more reply."""
        self._waiting += 1

    def put(self, index: int, reply: bytes) -> None:
        """Store a reply that was not waited for."""
        self._replies[index] = reply

    def finish(self, index: int, reply: bytes) -> bytes:
        """Store a reply that was waited for; b"" for none. Returns the array after the last one, otherwise b""."""
        self._replies[index] = reply
        self._waiting -= 1
        return self.text()

    def text(self) -> bytes:
        """Return the array; b"" while replies are missing, and if there is nothing to reply."""
        if self._waiting:
            return b""
        replies = [reply for reply in self._replies if reply]
        return b"[" + b",".join(replies) + b"]\n" if replies else b""


class OutboundBatch:
    """The calls of a batch that this side sent."""

    __slots__ = ("calls", "in_flight")

    def __init__(self, calls: list[Call]) -> None:
        self.calls: list[Call] = calls
        self.in_flight: int = len(calls)


class Progressed(NamedTuple):
    """The peer reported progress on a call that has an `on_progress`."""

    call: Call
    value: Any


class Cancelled(NamedTuple):
    """The peer cancelled a request. The request still has to be answered or refused."""

    request: InboundRequest
    reason: str | None


class PeerFault(NamedTuple):
    """The peer sent something wrong. It was dropped; other messages are unaffected.

    Attributes:
        error: A ParseError; a StateError for an answer to no call, or for a request whose id is in flight already.
        reply: Bytes to send to the peer, or b"".
    """

    error: Exception
    reply: bytes


class Leaving(NamedTuple):
    """The peer has said goodbye. `unserved` are the calls that it does not serve, settled as `LOST`."""

    unserved: list[Call]


PeerEvent = Call | InboundRequest | Notification | Progressed | Cancelled | Leaving | PeerFault | bytes
"""What a message brings: a settled call, something to serve, a fault, or bytes to send to the peer."""
