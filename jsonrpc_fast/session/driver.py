"""The interface that carries out the decisions of an engine, on an event loop or in a thread."""

from __future__ import annotations

import time
from typing import Any, Literal

from ..handlers import RequestContext
from ..types import TURN_SECONDS
from .calls import Call
from .requests import Destination, InboundRequest, Run


class Driver:
    """The base of drivers.

    Every driver implements `write`, `settled` and `soon`; one that runs async functions also implements `start`, and
    one whose calls have deadlines `wake_at`. The defaults of the other methods suit a `write` that blocks until the
    system has taken the data.

    Only `start` may call the engine back before it returns.
    """

    responds_to_faults: bool = True
    """Whether malformed messages without an id get a response, unless the rules decide it."""

    heard: Literal["nothing", "a part", "messages"] = "messages"
    """What has arrived from the peer: nothing at all, or at last a message or a part of one; or that is unknown."""

    def time(self) -> float:
        """Return the current time, in seconds of a monotonic clock."""
        return time.monotonic()

    def turn_end(self) -> float:
        """Return until when the engine may continue in this turn."""
        return self.time() + TURN_SECONDS

    def make_context(
        self, method: str, request: InboundRequest | None, destination: Destination | None, /
    ) -> RequestContext:
        """Return the context for a function that takes one. `request` is None for a notification."""
        return RequestContext(method, None if request is None else request.id, request is None)

    @property
    def unwritten_bytes(self) -> int:
        """The number of bytes of the stream that the system has not taken yet."""
        return 0

    def write(self, data: bytes, /) -> None:
        """Send whole messages on the stream.

        Raises:
            ConnectionLost, StateError: The stream has ended. The message is dropped; `Engine.lose` reports the end.
        """
        raise NotImplementedError

    def settled(self, call: Call, result: Any, error: Exception | None, /) -> None:
        """Report the outcome of a call to what waits for it (`Call.waiter`): the error, or the result if it is None."""
        raise NotImplementedError

    def soon(self) -> None:
        """Call `Engine.turn` soon, once for any number of these calls."""
        raise NotImplementedError

    def start(self, run: Run, /) -> None:
        """Await `run.work` in the current context, and call `Engine.succeeded`, `failed` or `cancelled` at its end.

        `run.task` becomes an object whose method `cancel` cancels the handler.

        Raises:
            NotImplementedError: Async functions cannot run. The request gets the error -32603.
        """
        raise NotImplementedError("async functions cannot run here")

    def wake_at(self, deadline: float, /) -> None:
        """Call `Engine.tick` at this time of the engine's clock at the latest."""

    def left(self) -> None:
        """Record that no more calls can be sent: the peer has said goodbye, or the connection is lost."""

    def abort(self) -> None:
        """End the connection at once, because the peer gives no sign of life. `Engine.lose` reports the end."""

    def idle(self) -> None:
        """Record that an engine that drains has nothing more to serve."""

    def set_reading(self, wanted: bool, /) -> None:
        """Stop or resume reading the stream."""

    def drain(self) -> None:
        """Call `Engine.drained` when all unwritten bytes have been taken. A second call before that does nothing."""
