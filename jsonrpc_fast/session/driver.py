"""The interface of what carries out the decisions of an engine, on an event loop or in a thread."""

from __future__ import annotations

from typing import Any, Protocol

from .running import Run
from .tracker import Call


class Driver(Protocol):
    """Carries out what an engine decides. No method may call the engine back before it returns, except `start`."""

    @property
    def unwritten_bytes(self) -> int:
        """The number of bytes of the stream that the peer, or the system, has not taken yet."""
        ...

    def write(self, data: bytes, /) -> None:
        """Send whole messages on the stream.

        Raises:
            ConnectionLost, StateError: The stream has ended. The message is dropped; `Engine.lose` reports the end.
        """
        ...

    def start(self, run: Run, /) -> None:
        """Await `run.work`, in the context `run.context`; then call `Engine.succeeded` or `Engine.failed`."""
        ...

    def settled(self, call: Call, result: Any, error: Exception | None, /) -> None:
        """Report the outcome of a call to what waits for it (`Call.waiter`): the error, or the result if it is None."""
        ...

    def left(self) -> None:
        """Note that no more calls can be sent: the peer has said goodbye, or the connection is lost."""
        ...

    def set_reading(self, wanted: bool, /) -> None:
        """Stop or go on reading the stream."""
        ...

    def soon(self) -> None:
        """Call `Engine.turn` soon, once for any number of these calls."""
        ...

    def drain(self) -> None:
        """Call `Engine.drained` when the peer has read what is unwritten. A second call before that does nothing."""
        ...

    def wake_at(self, deadline: float, /) -> None:
        """Call `Engine.tick` at this time at the latest."""
        ...

    def idle(self) -> None:
        """Note that an engine that drains has nothing more to serve."""
        ...
