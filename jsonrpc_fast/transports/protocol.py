"""The interface of every transport: a channel of messages in both directions, on asyncio.

A transport subclasses `Transport` and defines the methods. What it does not define has the documented default, so that
the layers above set callbacks and read attributes of every transport in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final, TypeAlias, TypedDict

from ..codec import Notification, ParseError, Request, Response
from ..framing.frames import Framing
from ..profile import Limits, Profile, is_at_least_as_strict
from ..types import MessageId

Received: TypeAlias = "Request | Notification | Response | list[Request | Notification | Response | ParseError]"
"""What `onmessage` receives: a message, or a batch whose items were decoded one by one."""

_Message: TypeAlias = Request[Any] | Notification[Any] | Response[Any]

Sendable: TypeAlias = _Message | list[_Message] | tuple[_Message, ...] | bytes
"""What `send` accepts: a message, a batch, or one JSON text as returned by `encode` and the other encoders."""


class Transport:
    """A channel of messages in both directions.

    Callbacks run on the event loop's thread, and methods must be called on it.
    """

    onmessage: Callable[..., bytes | None] | None = None
    """Called with each message or batch (`Received`). It may return what to send: the bytes of a response, as
    `encode_result` returns it. If each request has its own exchange, a `Destination` of sessions may follow as the
    second argument: the place for the responses."""
    onread: Callable[[list[Any]], None] | None = None
    """If set, called with the messages that were read together, before any of them is delivered. It may replace
    items of the list, which then go to `onmessage`. A transport that reads one message at a time never calls it."""
    onlate: Callable[[], None] | None = None
    """If set, called when messages have been delivered for a whole turn of the loop, and more of those that were read
    together follow at once: the callee should keep them for later."""
    onerror: Callable[[Exception], None] | None = None
    """Called with a ParseError for an invalid message, with an OSError or ConnectionLost for the channel."""
    onclose: Callable[[], None] | None = None
    """Called exactly once, after the last call of the other callbacks."""
    onend: Callable[[], None] | None = None
    """If set, called when the peer ends its stream, or its faults do. The transport then stays open for sending until
    `close`, so that pending responses can still leave."""
    onstop: Callable[[float | None], None] | None = None
    """Called when this side must end, because its server closes or its process received a signal. The callee finishes
    its work within the given seconds (None: without limit) and closes the transport."""
    onfail: Callable[[MessageId, Exception], None] | None = None
    """Called with the id of a sent request and the reason, if only that request gets no response."""
    kept_bytes: Callable[[], int] | None = None
    """If set, returns about how many bytes of delivered messages the layer above keeps; servers count them."""
    dropped_requests: int = 0
    """How many requests were left without a response at the close: set by a session, told by servers."""
    pauses_when_blocked: bool = True
    """Whether reading pauses while the write buffer is above its high-water mark.

    This bounds the memory of a side that responds to received messages. If both sides do this and also send on
    their own initiative, each may wait for the other one to read.
    """
    profile: Profile | None = None
    """The rules that every delivered message obeys; None: not known, so the layer above checks each message."""
    responds_after_end: ClassVar[bool] = False
    """Whether a peer that ended its stream usually still waits for responses, like the client of a process."""
    responds_to_faults: ClassVar[bool] = True
    """Whether a session sends errors for malformed messages without a certain id, unless its option says otherwise."""
    waits_for_peer: ClassVar[bool] = False
    """Whether `close` waits until the peer ends its stream, so that the peer loses nothing."""

    has_exchanges: ClassVar[bool] = False
    """Whether each request has its own exchange: the server always responds, and closing the exchange cancels it."""

    @property
    def peer(self) -> Any:
        """The other end: an address, or the `PeerCredentials` of a Unix socket. None if unknown."""
        return None

    @property
    def received_chunks(self) -> int | None:
        """How many chunks have arrived, including parts of messages; None if the transport does not count them."""
        return None

    @property
    def is_reading(self) -> bool:
        """Whether data from the peer is read. It is not while the user has paused reading, or there is a backlog."""
        return True

    @property
    def is_connected(self) -> bool:
        """Whether the channel is open for sending."""
        raise NotImplementedError

    @property
    def write_buffer_bytes(self) -> int:
        """The number of accepted bytes that the system has not taken yet."""
        raise NotImplementedError

    async def connect(self) -> None:
        """Open the channel.

        Raises:
            StateError: It is open, or the transport was closed.
            ConnectionLost: The transport was closed meanwhile.
            OSError: It cannot be opened.
        """
        raise NotImplementedError

    async def start(self) -> None:
        """Begin to deliver messages; connect first if necessary.

        Raises:
            StateError: The transport was started before, or closed.
            OSError: The channel cannot be opened.
        """
        raise NotImplementedError

    def send(self, message: Sendable) -> None:
        """Encode a message or a batch and queue it, without blocking. No callback runs before it returns.

        Args:
            message: Bytes are one JSON text, with a line break only at its end. Nothing is sent for `b""` and for an
                empty batch.

        Raises:
            StateError: The transport is not connected yet.
            ConnectionLost: The transport is closed, or the channel broke.
            EncodeError, TypeError, ValueError: The message cannot be written. Nothing was queued.
        """
        raise NotImplementedError

    async def drain(self) -> None:
        """Wait until the write buffer is below its high-water mark.

        Raises:
            StateError: The transport is not connected yet.
            ConnectionLost: The transport is closed, or the channel broke.
        """
        raise NotImplementedError

    def pause_reading(self) -> None:
        """Stop reading until `resume_reading` is called.

        What is decoded already is still delivered: 63 messages at most, or 255 with `onread`.
        """
        raise NotImplementedError

    def resume_reading(self) -> None:
        """Resume reading after `pause_reading`."""
        raise NotImplementedError

    async def close(self) -> None:
        """Write all accepted messages, then close the channel.

        Messages that still arrive are dropped. A second call only waits for the first. Cancelling the call does not
        stop the closing.
        """
        raise NotImplementedError

    async def disconnect(self) -> None:
        """Close the channel at once. Accepted bytes that are not written yet are dropped."""
        raise NotImplementedError


Ending: TypeAlias = "Callable[[], Coroutine[Any, Any, object] | None]"
"""Returns what is left to wait for after the loss of a connection; None for nothing."""


class Acceptor:
    """A function that serves connections, and can also begin with one at once, without a task for each."""

    async def __call__(self, transport: Transport, /) -> object:
        """Serve a connection until it is closed."""
        raise NotImplementedError

    def begin(self, connection: Any, /) -> Ending:
        """Begin to serve a `Connection` that is open."""
        raise NotImplementedError


CALLBACKS: Final = tuple(name for name, type in Transport.__annotations__.items() if "Callable" in type)
"""The attributes of `Transport` that are functions of the layer above."""


def drop_callbacks(transport: Transport) -> None:
    """Drop the callbacks of a transport that is closed: with what they belong to, they would form a cycle."""
    for name in CALLBACKS:
        setattr(transport, name, None)


def check_transport(transport: object) -> None:
    """Check that an argument is a transport.

    Raises:
        TypeError: It is not a transport.
    """
    if not isinstance(transport, Transport):
        raise TypeError(f"transport must be a Transport, not {type(transport).__name__}")


def is_strict_enough(transport: Transport, profile: Profile) -> bool:
    """Return whether every message that a transport delivers is valid in `profile`."""
    return transport.profile is not None and is_at_least_as_strict(transport.profile, profile)


# The options of transports, and their defaults for peers that are not trusted.

MAX_FAULTS: Final = 1000
"""The default of `max_faults` for sockets and WebSockets, whose peers are not trusted: each fault costs a response."""


class MessageOptions(TypedDict, total=False):
    """Keyword options of every transport; `Connection` describes them."""

    profile: Profile
    limits: Limits | None
    raw: bool
    drain_seconds: float | None
    max_faults: int | None
    decode: Callable[[Any], Any] | None


class TransportOptions(MessageOptions, total=False):
    """Keyword options of every transport over bytes; `Connection` describes them."""

    framing: Framing | None
    resync: bool
