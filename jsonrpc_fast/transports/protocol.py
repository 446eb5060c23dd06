"""The interface of every transport: a channel of messages in both directions, on asyncio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable
from weakref import WeakSet

from ..codec import Notification, ParseError, Request, Response
from ..profile import Profile, is_at_least_as_strict

Received: TypeAlias = "Request | Notification | Response | list[Request | Notification | Response | ParseError]"
"""What `onmessage` receives: a message, or a batch whose items were decoded one by one."""

_Message: TypeAlias = Request[Any] | Notification[Any] | Response[Any]

Sendable: TypeAlias = _Message | list[_Message] | tuple[_Message, ...] | bytes
"""What `send` accepts: a message, a batch, or one JSON text as returned by `encode` and the other encoders."""


@runtime_checkable
class Transport(Protocol):
    """A channel of messages in both directions.

    Callbacks run on the event loop's thread, and methods must be called on it.
    """

    onmessage: Callable[[Received], None] | None
    """Called with each message or batch."""
    onerror: Callable[[Exception], None] | None
    """Called with a ParseError for an invalid message, with an OSError or ConnectionLost for the channel."""
    onclose: Callable[[], None] | None
    """Called exactly once, after the last call of the other callbacks."""
    pauses_when_blocked: bool
    """Whether reading pauses while the write buffer is above its high-water mark. Initially True.

    This bounds the memory of a side that replies to what it receives. If both sides do this and also send on their own
    initiative, each may wait for the other one to read.
    """

    @property
    def is_connected(self) -> bool:
        """Whether the channel is open for sending."""
        ...

    @property
    def write_buffer_bytes(self) -> int:
        """The number of accepted bytes that the system has not taken yet."""
        ...

    async def connect(self) -> None:
        """Open the channel.

        Raises:
            StateError: It is open, or the transport was closed.
            OSError: It cannot be opened.
        """
        ...

    async def start(self) -> None:
        """Begin to deliver messages; connect first if necessary.

        Raises:
            StateError: The transport was started before, or closed.
            OSError: The channel cannot be opened.
        """
        ...

    def send(self, message: Sendable) -> None:
        """Encode a message or a batch and queue it, without blocking. No callback runs before it returns.

        Args:
            message: bytes are one JSON text, with a line break only at its end. Nothing is sent for `b""` and for an
                empty batch.

        Raises:
            StateError: The transport is not connected yet.
            ConnectionLost: The transport is closed, or the channel broke.
            EncodeError, TypeError, ValueError: The message cannot be written. Nothing was queued.
        """
        ...

    async def drain(self) -> None:
        """Wait until the write buffer is below its high-water mark.

        Raises:
            StateError: The transport is not connected yet.
            ConnectionLost: The transport is closed, or the channel broke.
        """
        ...

    def pause_reading(self) -> None:
        """Stop delivering until `resume_reading` is called."""
        ...

    def resume_reading(self) -> None:
        """Resume delivering after `pause_reading`."""
        ...

    async def close(self) -> None:
        """Write what was accepted, then close the channel.

        Messages that still arrive are dropped. A second call only waits for the first. Cancelling the call does not
        stop the closing.
        """
        ...

    async def disconnect(self) -> None:
        """Close the channel at once. Accepted bytes that are not written yet are dropped."""
        ...


_MEMBERS: Final = sorted(name for name in {*Transport.__annotations__, *vars(Transport)} if not name.startswith("_"))
_transports: Final[WeakSet[type]] = WeakSet()


def is_transport(value: object) -> bool:
    """Return whether an object has what a `Transport` declares.

    It asks for each name, as `isinstance` does up to Python 3.11. Later versions do not see the attributes of a wrapper
    with `__getattr__`.
    """
    if type(value) not in _transports:
        if not all(hasattr(value, name) for name in _MEMBERS):
            return False
        _transports.add(type(value))
    return True


def check_transport(transport: object) -> None:
    """Check that an argument is a transport.

    Raises:
        TypeError: It lacks what a transport has.
    """
    if not is_transport(transport):
        raise TypeError(f"transport must be a Transport, not {type(transport).__name__}")


def is_strict_enough(transport: Transport, profile: Profile) -> bool:
    """Return whether every message that a transport delivers is valid in `profile`.

    Args:
        transport: A transport; one without a `profile` attribute counts as not strict enough.
        profile: The rules that the messages must obey.
    """
    rules = getattr(transport, "profile", None)
    return isinstance(rules, Profile) and is_at_least_as_strict(rules, profile)
