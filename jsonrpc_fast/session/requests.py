"""The requests of the peer that are being served, and the responses to them.

Rules:
  - A batch gets one array of responses after the last of its requests, and none if it contains no requests (section 6).
  - The response to a request goes to the destination of the request; the array of a batch, to that of the batch.
  - The convention says what a cancelled request gets.
  - A request that is no longer registered, because the connection is lost, gets no response.
  - Ids are compared by type and value: 7, "7", 7.0 and True are four ids.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Protocol

from .._repr import shorten
from ..codec import Notification, Params, Request
from ..codec._backend import decoded
from ..codec._json import Default
from ..codec.encoders import PLAIN, Encoders
from ..errors import EncodeError, StateError
from ..handlers.results import encode_models
from ..types import UNSET, MessageId, Unset
from .conventions import Convention, ProgressToken


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

    def __init__(
        self, message: Request, destination: Destination | None = None, batch: InboundBatch | None = None
    ) -> None:
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

    def __init__(self, items: int, is_late: bool = False) -> None:
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


class Requests:
    """The requests that are being served, and the texts of their responses.

    Args:
        convention: How the protocol cancels requests and reports progress.
        default: As in `encode`. Without one, models of msgspec and pydantic are written by `to_jsonable`.
        encoders: Write the responses.

    Attributes:
        serving: The requests by their keys; read-only for callers.
        convention: The same as the argument.
        ordered: The `ordered` of the convention.
        encode_result: Like `jsonrpc_fast.encode_result`, with `default`.
        keeps_extra: Whether requests keep the members that JSON-RPC does not define, for `trace_of`.
    """

    def __init__(self, convention: Convention, default: Default, encoders: Encoders = PLAIN) -> None:
        self.serving: dict[Hashable, InboundRequest] = {}
        self.convention: Convention = convention
        self.ordered: tuple[str, ...] = convention.ordered
        self.keeps_extra: bool = False
        self._default = default
        self.encode_result: Callable[..., bytes] = with_default(encoders.encode_result, default)
        self._encoders = encoders

    def begin(
        self, message: Request, destination: Destination | None = None, batch: InboundBatch | None = None
    ) -> InboundRequest | None:
        """Register a request. Returns None, and keeps the first request, if its id is in flight already."""
        request = InboundRequest(message, destination, batch)
        if self.keeps_extra:
            request.extra = message.extra
        if self.serving.setdefault(request.key, request) is not request:
            return None
        if batch is not None:
            batch.wait()
        return request

    def register(self, message: Request, destination: Destination | None) -> InboundRequest:
        """Register a request whose function has already been called.

        Raises:
            StateError: Its id is in flight already.
        """
        request = self.begin(message, destination)
        if request is None:
            raise id_in_flight()
        return request

    def find(self, id: MessageId) -> InboundRequest | None:
        """Return the request with this id, or None."""
        kind = type(id)
        return self.serving.get(id if kind is int or kind is str else (kind, id))

    def has(self, request: InboundRequest) -> bool:
        """Return whether this request itself is being served."""
        return self.serving.get(request.key) is request

    def trace_of(self, item: InboundRequest | Request | Notification) -> dict[str, str]:
        """Return the trace context of a message; an `InboundRequest` needs `keeps_extra`."""
        return self.convention.trace(decoded(item.params), item.extra)

    def encode(self, id: MessageId, result: Any, *, delimited: bool) -> bytes:
        """Encode a response with a result. Raises EncodeError if the result cannot be encoded."""
        try:
            return self.encode_result(id, result, delimited=delimited)
        except EncodeError as error:
            return encode_models(error, self._default, self._encoders.encode_result, id, result, delimited=delimited)

    def encode_error(self, *members: Any, delimited: bool) -> bytes:
        """Encode a response with an error. Raises EncodeError if the data cannot be encoded.

        Args:
            members: As in `jsonrpc_fast.encode_error`, as is `delimited`.
        """
        return self._encode(self._encoders.encode_error, *members, delimited=delimited)

    def _encode(self, encode: Callable[..., bytes], *members: Any, delimited: bool = True) -> bytes:
        try:
            return encode(*members, delimited=delimited, default=self._default)
        except EncodeError as error:
            return encode_models(error, self._default, encode, *members, delimited=delimited)

    def respond(self, request: InboundRequest, result: Any) -> bytes:
        """Return the response with a result.

        Returns:
            The text to send; b"" while other requests of the batch wait, and if the request gets no response.

        Raises:
            EncodeError: The result cannot be encoded. The request is still being served.
        """
        # Encoded while the request is registered: if that fails, the peer still gets an error.
        text = self.encode(request.id, result, delimited=request.batch is None)
        if request.batch is None and not request.is_cancelled:  # like `_finish`, without calls
            if self.serving.get(request.key) is not request:
                return b""
            del self.serving[request.key]
            return text
        return self._finish(request, text)

    def refuse(self, request: InboundRequest, code: int, message: str, data: Any = UNSET) -> bytes:
        """Return the response with an error; otherwise like `respond`."""
        return self._finish(
            request, self.encode_error(request.id, code, message, data, delimited=request.batch is None)
        )

    def respond_cancelled(self, request: InboundRequest) -> bytes:
        """Return the response to a cancelled request as the convention says: with its error, or b""."""
        error = self.convention.cancelled_error
        return self.drop(request) if error is None else self.refuse(request, *error)

    def drop(self, request: InboundRequest) -> bytes:
        """Remove a request without a response. Returns the response to its batch if it was the last one there."""
        return self._finish(request, b"")

    def progress(self, request: InboundRequest, value: Any) -> bytes:
        """Return the notification that reports progress on a request; b"" if the peer did not ask for progress."""
        return self._progress(request, self.convention.token(decoded(request.params)), value)

    def item(self, request: InboundRequest, value: Any) -> bytes:
        """Return the notification with a part of the result; b"" if the peer did not ask for parts."""
        return self._progress(request, self.convention.item_token(decoded(request.params)), value)

    def _progress(self, request: InboundRequest, token: ProgressToken | None, value: Any) -> bytes:
        message = None if token is None or not self.has(request) else self.convention.progress(token, value)
        return b"" if message is None else self._encode(self._encoders.encode_notification, *message)

    def _finish(self, request: InboundRequest, data: bytes) -> bytes:
        if not self.has(request):
            return b""  # the connection is lost
        del self.serving[request.key]
        if request.is_cancelled and self.convention.cancelled_error is None:
            data = b""  # whatever the handler has returned: the peer expects no response any more
        return data if request.batch is None else request.batch.finish(request.index, data)


def with_default(encode: Callable[..., bytes], default: Default) -> Callable[..., bytes]:
    """Return an encoder that uses `default`."""
    return encode if default is None else partial(encode, default=default)


def id_in_flight() -> StateError:
    """Return the fault of a request whose id is in flight already."""
    return StateError("the peer reused an id that is in flight")
