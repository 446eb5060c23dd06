"""An async handler at work, and how a call that it makes finds it.

A handler that waits for its peer must not keep others from running: the peer may need one of them before it answers.
So whatever waits for a peer looks up the handler that it is made in, by the context (`contextvars`), and says so.
Tasks that a handler starts inherit the context, and so do threads of `asyncio.to_thread`. The handler may be one of
another session: a gateway waits there for the peer here.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable
from contextvars import Context, ContextVar
from typing import Any, Final, Protocol

from ..codec import Notification
from .events import InboundRequest

Item = InboundRequest | Notification
Trace = tuple[Any, float] | None
"""What `request_started` returned and when the handler started; None without such hooks."""


class RunState(enum.Enum):
    QUEUED = enum.auto()
    RUNNING = enum.auto()  # it has a slot
    WAITING = enum.auto()  # it has none
    ALONGSIDE = enum.auto()  # it needs none
    ENDED = enum.auto()


_QUEUED: Final = RunState.QUEUED  # before Python 3.12 the members of an enum are slow to get at


class RunOwner(Protocol):
    """What starts and ends runs, and counts how many are at work."""

    def run_waits(self, run: Run) -> None:
        """A handler begins to wait for a peer."""

    def run_goes_on(self, run: Run) -> None:
        """It waits no longer."""

    def abandon(self, run: Run) -> None:
        """A handler is cancelled while it is queued."""


class Run:
    """An async handler, from its invocation to its end.

    work          what the handler returned
    context       that it runs in, while it is queued
    waits         how many things in it wait for a peer
    is_concluded  what came of it has been reported
    """

    __slots__ = (
        "context",
        "is_concluded",
        "item",
        "owner",
        "request",
        "size",
        "state",
        "task",
        "trace",
        "waits",
        "when_done",
        "work",
    )

    def __init__(
        self,
        owner: RunOwner,
        work: Awaitable[Any],
        item: Item,
        request: InboundRequest | None,
        trace: Trace,
    ) -> None:
        self.owner: RunOwner = owner
        self.work: Awaitable[Any] = work
        self.item: Item = item
        self.request: InboundRequest | None = request
        self.trace: Trace = trace
        self.state: RunState = _QUEUED
        self.context: Context | None = None
        self.size: int = -1  # bytes of the params, once they are counted
        self.task: Any = None
        self.when_done: Any = None
        self.is_concluded: bool = False
        self.waits: int = 0

    def begin_wait(self) -> None:
        """Something in the handler begins to wait for a peer."""
        self.waits += 1
        if self.state is RunState.RUNNING:
            self.owner.run_waits(self)

    def end_wait(self) -> None:
        """It waits no longer."""
        self.waits -= 1
        if not self.waits and self.state is RunState.WAITING:
            self.owner.run_goes_on(self)

    def cancel(self) -> None:
        """The peer has no use for the answer any more."""
        if self.task is not None:
            self.task.cancel()
        else:
            self.owner.abandon(self)


current_run: Final[ContextVar[Run | None]] = ContextVar("jsonrpc_fast.session.current_run", default=None)
"""The async handler that the code at work belongs to, of whichever session; it may have ended."""
