"""The requests of the peer that are being served, the batches that they came in, and the handlers that serve them.

A handler that waits for its peer must not occupy a slot: the peer may need another handler before it responds. So
an operation that waits for a peer finds the handler that called it, by the context (`contextvars`), and marks it as
waiting. Tasks that a handler starts inherit the context, and so do threads of `asyncio.to_thread`. The handler may
belong to another session: in a gateway, the handler of one session waits for the peer of another.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from ..codec import Notification, Params, Request
from ..codec._backend import ServedCoroutine
from ..errors import StateError
from ..support import shorten
from ..types import MessageId, T, Unset


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
    """A batch that is being received, and the responses to its items, collected in their order.

    Attributes:
        items: The items that have not had their turn (None for one that was received all the same); in place of the
            others, their responses. One more is for the end.
        index: The index of the item that is being received.
        is_refused: Whether its reception began when this side no longer took requests.
    """

    __slots__ = ("_waiting", "index", "is_refused", "items")

    def __init__(self, items: list[Any], is_refused: bool) -> None:
        self.items: list[Any] = [*items, b""]
        self.index: int = -1
        self.is_refused: bool = is_refused
        self._waiting = 1  # for the end of the batch

    @property
    def is_large(self) -> bool:
        """Whether the items may take several turns."""
        return len(self.items) > 65

    @property
    def left(self) -> int:
        """The number of items that have not had their turn."""
        return len(self.items) - self.index - 2

    def next(self) -> Any:
        """Return the next item; None if it was received before its turn."""
        self.index += 1
        item, self.items[self.index] = self.items[self.index], b""
        return item

    def end(self) -> bytes:
        """Expect no more items. Returns what `finish` does."""
        return self.finish(-1, b"")

    def wait(self) -> None:
        """Expect one more response."""
        self._waiting += 1

    def put(self, response: bytes) -> None:
        """Store the response to the item that is being received, which `wait` did not announce."""
        self.items[self.index] = response

    def finish(self, index: int, response: bytes) -> bytes:
        """Store a response that `wait` announced; b"" for none. Returns the array after the last one, otherwise b""."""
        self.items[index] = response
        self._waiting -= 1
        if self._waiting:
            return b""
        # A batch of notifications gets nothing at all, not an empty array (section 6).
        responses = [one for one in self.items if one]
        return b"[" + b",".join(responses) + b"]\n" if responses else b""


def id_in_flight() -> StateError:
    """Return the fault of a request whose id is in flight already."""
    return StateError("the peer reused an id that is in flight")


Item = InboundRequest | Notification
"""What is served."""
Trace = tuple[Any, float] | None
"""What `request_started` returned, and when the handler started; None without these hooks."""


RunState = Literal["queued", "running", "waiting", "slotless", "ended"]
"""Of a `Run`: it has not begun, has a slot, waits for a peer without one, needs none, or has ended."""


class RunOwner(Protocol):
    """Starts runs and counts those that have a slot."""

    def run_waits(self, run: Run) -> None:
        """A handler begins to wait for a peer and gives up its slot."""

    def run_continues(self, run: Run) -> None:
        """A handler has stopped waiting and takes a slot."""

    def abandon(self, run: Run) -> None:
        """End a handler that is queued."""


@dataclass(slots=True, eq=False, repr=False)
class Run:
    """A message that waits or is being served by an async handler, until it ends.

    Attributes:
        owner: None when it has ended: timers that the handler has started may keep the run.
        work: What the handler returned; None while the message waits for its turn.
        item: The message that it serves.
        context: The context that it runs in; None when it has ended.
        size: Bytes of the params; -1 until they are counted.
        peer_waits: The number of operations in it that wait for a peer.
        destination: Of the message, while it waits for its turn.
        closes_session: Whether the handler closes its session, which does not wait for it.
    """

    owner: RunOwner | None
    work: Any
    item: Item
    trace: Trace
    context: Context | None
    state: RunState = "queued"
    size: int = -1
    task: Any = None
    peer_waits: int = 0
    destination: Any = None
    closes_session: bool = False

    @property
    def request(self) -> InboundRequest | None:
        """The message that it serves, if it is a registered request; otherwise None."""
        return self.item if isinstance(self.item, InboundRequest) else None

    def begin_wait(self) -> bool:
        """An operation in the handler begins to wait for a peer. Return whether it is the only one."""
        self.peer_waits += 1
        if self.state == "running" and self.owner is not None:
            self.owner.run_waits(self)
        return self.peer_waits == 1 and self.state != "ended"

    def end_wait(self) -> None:
        """The operation has finished waiting."""
        self.peer_waits -= 1
        # A handler may wait for several calls at a time: only the end of the last wait takes a slot again.
        if not self.peer_waits and self.state == "waiting" and self.owner is not None:
            self.owner.run_continues(self)

    def cancel(self) -> None:
        """Cancel the handler, because the peer cancelled its request."""
        if self.task is not None:
            self.task.cancel()
        elif self.owner is not None:
            self.owner.abandon(self)


current_run: Final[ContextVar[Run | ServedCoroutine | None]] = ContextVar(
    "jsonrpc_fast.session.current_run", default=None
)
"""The value of `running`, or the parts from which it is made at the first use."""


def running() -> Run | None:
    """Return the async handler, of any session, that the running code belongs to; it may have ended."""
    found = current_run.get()
    # A handler in its first step has no run yet. It needs one now, so its request is registered here.
    if isinstance(found, ServedCoroutine):
        run: Run | None = found.get_run()
        return run
    return found


def detached(function: Callable[..., T], *arguments: object) -> T:
    """Call a function that starts a task which belongs to no handler, and return its result.

    A task that outlives the handler that starts it, or that others wait for, too, must not make that handler give up
    its slot whenever the task waits for a peer.
    """
    context = copy_context()
    if current_run.get() is not None:
        context.run(current_run.set, None)
    return context.run(function, *arguments)


class waits_for_peer:  # named like a function, as is `contextlib.suppress`
    """A context manager that marks the handler to which the code belongs, if any, as waiting for a peer.

    It returns whether this is the only wait of a handler that has not ended.
    """

    __slots__ = ("_run",)

    def __enter__(self) -> bool:
        self._run = run = running()
        return run is not None and run.begin_wait()

    def __exit__(self, *_: object) -> None:
        if self._run is not None:
            self._run.end_wait()
