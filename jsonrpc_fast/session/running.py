"""Runs: async handlers that have begun, and how a call finds the handler in which it is made.

A handler that waits for its peer must not occupy a slot: the peer may need another handler before it responds. So
an operation that waits for a peer finds the handler that called it, by the context (`contextvars`), and marks it as
waiting. Tasks that a handler starts inherit the context, and so do threads of `asyncio.to_thread`. The handler may
belong to another session: in a gateway, the handler of one session waits for the peer of another.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from ..codec import Notification
from ..codec._backend import ServedCoroutine
from ..types import T
from .requests import InboundRequest

Item = InboundRequest | Notification
"""What is served."""
Trace = tuple[Any, float] | None
"""What `request_started` returned, and when the handler started; None without these hooks."""


RunState = Literal["queued", "running", "waiting", "alongside", "ended"]
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
        waits: The number of operations in it that wait for a peer.
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
    waits: int = 0
    destination: Any = None
    closes_session: bool = False

    @property
    def request(self) -> InboundRequest | None:
        """The message that it serves, if it is a registered request; otherwise None."""
        return self.item if isinstance(self.item, InboundRequest) else None

    def begin_wait(self) -> bool:
        """An operation in the handler begins to wait for a peer. Return whether it is the only one."""
        self.waits += 1
        if self.state == "running" and self.owner is not None:
            self.owner.run_waits(self)
        return self.waits == 1 and self.state != "ended"

    def end_wait(self) -> None:
        """The operation has finished waiting."""
        self.waits -= 1
        # A handler may wait for several calls at a time: only the end of the last wait takes a slot again.
        if not self.waits and self.state == "waiting" and self.owner is not None:
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


class waiting:  # named like a function, as is `contextlib.suppress`
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
