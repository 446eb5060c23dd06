"""The requests of the peer that are being served, and the batches that they came in."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

from ..codec import Params, Request
from ..errors import StateError
from ..support import shorten
from ..types import MessageId, Unset


class Destination(Protocol):
    """The place for the messages of one exchange, such as the response to one HTTP request."""

    def send(self, data: bytes, /) -> None:
        """Send a message that belongs to a request of the exchange."""

    def respond(self, id: MessageId | Unset, data: bytes, /) -> None:
        """Send the response to a request, b"" for none. With UNSET: the response to a batch or to a malformed message.

        It is called once for each request of the exchange.
        """


class InboundRequest:
    """A request of the peer that is being served.

    Attributes:
        id: The id of the request.
        key: Equal only for ids of the same type and value, although 7 == 7.0 == True in Python.
        method: Its method.
        params: Its params.
        destination: The place for its response; None: the stream.
        is_cancelled: Whether the peer has cancelled it.
        extra: Its members that JSON-RPC does not define; set only where a hook reads the trace context.
    """

    extra: dict[str, Any] | None
    __slots__ = ("batch", "destination", "extra", "id", "index", "is_cancelled", "key", "method", "params", "run")

    def __init__(self, message: Request, destination: Destination | None, batch: InboundBatch | None) -> None:
        self.id: MessageId = message.id
        kind = type(message.id)
        # An int or a str is its own key: most ids are one of them, and an int never equals a str.
        self.key: Hashable = message.id if kind is int or kind is str else (kind, message.id)
        self.method: str = message.method
        self.params: Params = message.params
        self.destination: Destination | None = destination
        self.batch: InboundBatch | None = batch
        self.index: int = 0 if batch is None else batch.index
        self.is_cancelled: bool = False
        self.run: Any = None  # the `Run` of its handler

    def __repr__(self) -> str:
        names = ("id", "method", "params", "is_cancelled")
        return f"InboundRequest({', '.join([f'{name}={shorten(getattr(self, name))}' for name in names])})"


class InboundBatch:
    """The responses to a received batch, collected in the order of the batch.

    Attributes:
        index: The index of the item that is being received.
        is_late: Whether it arrived when this side no longer took requests.
    """

    __slots__ = ("_responses", "_waiting", "index", "is_late")

    def __init__(self, items: int, *, is_late: bool) -> None:
        self.index: int = 0
        self.is_late: bool = is_late
        self._responses: list[bytes] = [b""] * items
        self._waiting = 0

    def wait(self) -> None:
        """Expect one more response."""
        self._waiting += 1

    def put(self, response: bytes) -> None:
        """Store the response to the item that is being received, which `wait` did not announce."""
        self._responses[self.index] = response

    def finish(self, index: int, response: bytes) -> bytes:
        """Store a response that `wait` announced; b"" for none. Returns the array after the last one, otherwise b""."""
        self._responses[index] = response
        self._waiting -= 1
        if self._waiting:
            return b""
        # A batch of notifications gets nothing at all, not an empty array (section 6).
        responses = [one for one in self._responses if one]
        return b"[" + b",".join(responses) + b"]\n" if responses else b""


def id_in_flight() -> StateError:
    """Return the fault of a request whose id is in flight already."""
    return StateError("the peer reused an id that is in flight")
