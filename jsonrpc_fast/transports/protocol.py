"""What every transport is: a channel of messages in both directions, on asyncio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ..codec import Notification, ParseError, Request, Response

Received: TypeAlias = "Request | Notification | Response | list[Request | Notification | Response | ParseError]"
"""What `onmessage` gets: a message, or a batch, each item of which was judged alone."""

_Message: TypeAlias = Request[Any] | Notification[Any] | Response[Any]

Sendable: TypeAlias = _Message | list[_Message] | tuple[_Message, ...] | bytes
"""What `send` takes: a message, a batch, or one JSON text as `encode` and its like give it."""


@runtime_checkable
class Transport(Protocol):
    """A channel of messages in both directions. Callbacks are called on the loop's thread; so must the methods be."""

    onmessage: Callable[[Received], None] | None
    """Called for each frame."""
    onerror: Callable[[Exception], None] | None
    """Called with a ParseError for a faulty message, with an OSError or ConnectionLost for the channel."""
    onclose: Callable[[], None] | None
    """Called exactly once, after the last call of the others."""
    pauses_when_blocked: bool
    """Whether reading is paused while the write buffer is over its high-water mark: True at first.

    It bounds the memory of a side that sends in answer to what it gets. If both sides do this and send of their own
    accord, each may wait for the other to read.
    """

    @property
    def is_connected(self) -> bool:
        """The channel is open: messages may be sent."""
        ...

    @property
    def write_buffer_bytes(self) -> int:
        """How many bytes `send` accepted that the system has not taken yet."""
        ...

    async def connect(self) -> None:
        """Opens the channel. Raises StateError when it is open or was closed, OSError when it cannot be opened."""
        ...

    async def start(self) -> None:
        """Connects if that was not done, and begins to deliver. Raises StateError the second time."""
        ...

    def send(self, message: Sendable) -> None:
        """Encodes a message and queues it. It never blocks.

        Raises StateError before the transport is connected, ConnectionLost afterwards, EncodeError or TypeError for
        what cannot be written; then nothing is queued.
        """
        ...

    async def drain(self) -> None:
        """Waits until the write buffer is below its high-water mark. Raises ConnectionLost."""
        ...

    def pause_reading(self) -> None:
        """Nothing more is delivered until `resume_reading`."""
        ...

    def resume_reading(self) -> None:
        """Undoes `pause_reading`."""
        ...

    async def close(self) -> None:
        """Writes what was accepted, and closes the channel. A second call does nothing but wait for the first."""
        ...

    async def disconnect(self) -> None:
        """Closes the channel at once. What was accepted and not yet written is dropped."""
        ...
