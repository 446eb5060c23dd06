"""A session on asyncio: both roles over any transport.

Rules:
  - it is made of the half that calls (driver_calls.py) and the half that serves (driver_dispatch.py);
  - everything runs on the loop's thread; `call_threadsafe` alone may be called from another one;
  - a batch that takes longer than TURN_SECONDS is served over several turns of the loop, before anything else is read;
  - when the peer ends its stream, this side's calls are lost, but what came is served before the transport is closed;
  - while it closes, what runs and what waits may finish, and new requests are refused (SERVER_BUSY);
  - after `close`, and when the connection is lost, nothing is left: no call in flight, no handler, no task, no timer.
    A handler that calls `close` itself goes on.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, overload

from ..codec import Notification, ParseError
from ..errors import RpcError, StateError
from ..handlers import Function, Handlers
from ..transports.base import TURN_SECONDS, Received, Transport
from ..transports.options import check_seconds
from ..types import UNSET, Unset
from .budget import ReplyBudget, ReplyPolicy
from .calling import Caller
from .context import SessionContext
from .conventions import Convention
from .events import Cancelled, InboundRequest, PeerEvent, PeerFault, Progressed
from .hooks import FoundHooks, Hooks
from .options import DEFAULT_TIMEOUT, check_options
from .peer import Peer
from .running import Run, current_run
from .serving import Dispatcher
from .tracker import Call

if TYPE_CHECKING:
    from typing_extensions import Self


OWED_SECONDS: Final = 0.2
"""How long a peer has to read what was sent and to end, if it works on a call that nobody waits for."""


_SMALL_BATCH: Final = 64
"""A batch of so many messages is served in one turn of the loop."""


class _State(enum.Enum):
    NEW = "not started"
    RUNNING = "running"
    CLOSING = "closing"  # handlers may finish, nothing new is served
    CLOSED = "closed"


class Session(Caller):
    """Both roles over one transport.

        async with Session(transport, {"add": lambda a, b: a + b}) as session:
            print(await session.call("subtract", [42, 23]))

    transport      not started yet; the session starts and closes it
    handlers       functions by method, or `Handlers`; see there
    timeout        seconds that a call may take, unless it says otherwise; None: for ever
    convention     how the protocol cancels and tells progress; none by default
    hooks          see `hooks.py`
    errors         exception classes by error code, for what a call raises: subclasses of RpcError that take the same
    reply_policy   for unreadable messages without an id; see `Peer`
    id_factory     gives the ids of calls, int or str; the default counts from 1
    unique_ids     whether a request with an id that is in flight is refused; otherwise it is served like any other
    max_pending    calls in flight; more of them wait
    max_handlers   async handlers that run at one time, those not counted that wait for a peer in `call`
    max_inbox      messages that wait: for a handler to end, or with their handler for the peer. More are refused
    inbox_bytes    of memory that the params of these take, about
    reply_bytes    in the transport's write buffer, beyond which nothing more is served until the peer reads
    close_seconds  that `close` gives the handlers to finish, and after the loss of the connection, to end
    end_seconds    that they have when the peer ended its stream; None: as long as it takes. By default None for a
                   `StdioServer`, whose client may wait for the answers, and `close_seconds` for other transports

    What is beyond the bounds, and what happens to it, driver_dispatch.py says.
    """

    def __init__(
        self,
        transport: Transport,
        handlers: Handlers | Mapping[str, Callable[..., Any]] | None = None,
        *,
        timeout: float | None = DEFAULT_TIMEOUT,
        convention: Convention | None = None,
        hooks: Hooks | None = None,
        errors: Mapping[int, type[RpcError]] | None = None,
        reply_policy: ReplyPolicy | ReplyBudget = "always",
        id_factory: Callable[[], int | str] | None = None,
        unique_ids: bool = True,
        max_pending: int = 4096,
        max_handlers: int = 256,
        max_inbox: int = 32768,
        inbox_bytes: int = 64 * 1024 * 1024,
        reply_bytes: int = 1024 * 1024,
        close_seconds: float = 5.0,
        end_seconds: float | Unset | None = UNSET,
    ) -> None:
        check_options(
            timeout=timeout,
            convention=convention,
            errors=errors,
            id_factory=id_factory,
            unique_ids=unique_ids,
            max_pending=max_pending,
            max_handlers=max_handlers,
            max_inbox=max_inbox,
            inbox_bytes=inbox_bytes,
            reply_bytes=reply_bytes,
            close_seconds=close_seconds,
            end_seconds=end_seconds,
        )
        peer = Peer(
            convention=convention,
            reply_policy=reply_policy,
            id_factory=id_factory,
            max_pending=max_pending,
            unique_ids=unique_ids,
        )
        super().__init__(transport, peer, FoundHooks(hooks), timeout, errors)
        self.handlers: Handlers = handlers if isinstance(handlers, Handlers) else Handlers(handlers)
        self._close_seconds = close_seconds
        if isinstance(end_seconds, Unset):
            end_seconds = None if getattr(transport, "answers_after_end", False) else close_seconds
        self._end_seconds = end_seconds
        self._state = _State.NEW
        self._closed: asyncio.Future[None]
        self._closer: asyncio.Task[None] | None = None
        self._is_cut_off_told = False
        self._batch: Iterable[PeerEvent] | None = None  # what is left of one that takes several turns
        self._dispatcher = Dispatcher(
            self.handlers,
            partial(SessionContext, self),
            lambda: self.is_connected,
            peer,
            transport,
            self._hooks,
            self._send,
            max_handlers=max_handlers,
            max_inbox=max_inbox,
            inbox_bytes=inbox_bytes,
            reply_bytes=reply_bytes,
        )

    # The life of a session.

    async def start(self) -> None:
        """Starts the transport. Raises StateError the second time, and what the transport raises."""
        if self._state is not _State.NEW:
            raise StateError(f"the session is {self._state.value}")
        self._state = _State.RUNNING
        self._loop = asyncio.get_running_loop()
        self._closed = self._loop.create_future()
        transport = self._transport
        callbacks: dict[str, Any] = {
            "onmessage": self._on_message,
            "onerror": self._on_error,
            "onclose": self._on_close,
            "onend": self._on_end,
            "onstop": self._on_stop,
            "pauses_when_blocked": False,
        }
        # A transport of another library may have neither `onend` nor `onstop`.
        before = {name: getattr(transport, name) for name in callbacks if hasattr(transport, name)}
        for name in before:
            setattr(transport, name, callbacks[name])
        self._is_started = self._may_call = True
        try:
            await transport.start()
        except BaseException:
            # It may be at work for someone else.
            for name, value in before.items():
                setattr(transport, name, value)
            self._on_close()
            raise

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_connected(self) -> bool:
        """Whether the session is started, and neither closed nor cut off."""
        return self._state is _State.RUNNING

    @property
    def unanswered(self) -> int:
        """How many requests got no answer because the session was closed before their handlers had finished."""
        return self._dispatcher.unanswered

    async def wait_closed(self) -> None:
        """Waits until the connection is gone, whoever closed it, and no handler is left."""
        if self._state is _State.NEW:
            raise StateError("the session is not started")
        if self._is_started:
            await asyncio.shield(self._closed)
            await self._wait_for_the_rest()

    async def close(self, grace_seconds: float | Unset | None = UNSET) -> None:
        """Lets the handlers that run or wait finish, settles the calls, and closes the transport.

        Requests that come meanwhile are refused with SERVER_BUSY. What is not finished in time is cancelled, and
        counted by `unanswered`. A second call waits for the first; the earlier end of the two counts. A call that is
        cancelled ends the waiting for handlers.

        Args:
            grace_seconds: How long the handlers may take, in seconds; None: as long as it takes. The default is
                the option `close_seconds`.

        Raises:
            TypeError, ValueError: `grace_seconds` is not a time.
        """
        seconds = self._close_seconds if isinstance(grace_seconds, Unset) else grace_seconds
        check_seconds("grace_seconds", seconds)
        if self._state is _State.NEW:
            self._state = _State.CLOSED
            await self._transport.disconnect()
            return
        self._on_stop(seconds)
        await self._wait_for_the_rest()

    async def _wait_for_the_rest(self) -> None:
        """Waits for the task that closes, if there is one; else for the handlers that the loss cancelled."""
        run = current_run.get()
        if run is not None:
            run.begin_wait()
        try:
            closer = self._closer
            if closer is None:
                await self._end_handlers(run)
                return
            try:
                # Not `await closer`: it may be cancelled by another one who waits here.
                await asyncio.wait([closer])
            except asyncio.CancelledError:
                if self._state is not _State.CLOSED:
                    closer.cancel()
                    await asyncio.wait([closer])
                raise
            if not closer.cancelled():
                closer.result()
        finally:
            if run is not None:
                run.end_wait()

    def _begin_closing(self, seconds: float | None) -> None:
        self._state = _State.CLOSING
        self._dispatcher.finish_by(inf if seconds is None else self._loop.time() + seconds)
        if self._closer is None:
            self._closer = asyncio.Task(self._close(), loop=self._loop)  # never an eager one

    async def _close(self) -> None:
        try:
            await self._dispatcher.finish()
            self._finish_batch()
            is_owed = self._peer.calls.is_owed
            self._settle_all()
            await self._end_handlers()
            self._dispatcher.count_unanswered()
            if hasattr(self._transport, "unanswered"):
                self._transport.unanswered = self.unanswered
            await self._close_transport(is_owed)
        finally:
            if self._state is not _State.CLOSED:
                await self._transport.disconnect()
            await self._end_handlers()
            if self.unanswered and not self._is_cut_off_told:
                self._is_cut_off_told = True
                self._hooks.fault(StateError(f"the session was closed before it answered {self.unanswered} requests"))

    async def _close_transport(self, is_owed: bool) -> None:
        """Closes the transport; without waiting for the end of a peer that still works on a call of this side."""
        if not is_owed or not getattr(self._transport, "waits_for_peer", False):
            await self._transport.close()
            return
        closing = asyncio.Task(self._transport.close(), loop=self._loop)
        try:
            await asyncio.wait([closing], timeout=OWED_SECONDS)
            while not closing.done() and self._transport.write_buffer_bytes:
                await asyncio.wait([closing], timeout=OWED_SECONDS)
            if not closing.done():
                await self._transport.disconnect()
        except asyncio.CancelledError:
            closing.cancel()
            raise
        await closing

    async def _end_handlers(self, but: Run | None = None) -> None:
        """Cancels what still runs and waits for its end."""
        if tasks := self._dispatcher.cancel(but):
            _, left = await asyncio.wait(tasks, timeout=self._close_seconds)
            if left:
                self._hooks.fault(StateError("a handler goes on although it was cancelled"))

    def _on_close(self) -> None:
        """The channel is gone."""
        self._finish_batch()
        self._state = _State.CLOSED
        self._settle_all()
        self._peer.serving.clear()
        self._dispatcher.finish_by(0.0)
        self._dispatcher.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._closed.done():
            self._closed.set_result(None)

    def _on_end(self) -> None:
        """The peer has said its last: no answer can come any more, but it may still wait for this side's."""
        self._settle_all()
        self._begin_closing(self._end_seconds)

    def _on_stop(self, grace_seconds: float | None) -> None:
        """This side is to end. The handler that has it end, if one does, is not waited for."""
        run = current_run.get()
        if run is not None and run.owner is self._dispatcher:
            self._dispatcher.spare(run)
        if self._state is not _State.CLOSED:
            self._begin_closing(grace_seconds)

    def _on_error(self, error: Exception) -> None:
        if isinstance(error, ParseError):
            self._take(self._peer.receive(error, self._loop.time()))
        elif isinstance(error, OSError):
            self._fault = error
            self._hooks.peer_fault(error)
        else:
            self._hooks.fault(error)

    # Serving.

    @overload
    def register(self, method: str, *, unpack: bool = True) -> Callable[[Function], Function]: ...

    @overload
    def register(self, method: str, function: Function, *, unpack: bool = True) -> Function: ...

    def register(self, method: str, function: Any = None, *, unpack: bool = True) -> Any:
        """Serves `method` by a function, or is a decorator that does. As `Handlers.register`."""
        return self.handlers.register(method, function, unpack=unpack)

    def _on_message(self, message: Received) -> None:
        if self._batch is not None:
            self._finish_batch()
        events = self._peer.receive_lazily(message, self._loop.time())
        if type(message) is list and len(message) > _SMALL_BATCH:
            self._batch = events
            self._dispatcher.begin_batch()
            self._serve_batch()
        else:
            self._take(events)

    def _serve_batch(self) -> None:
        """Serves a batch for one turn of the loop."""
        events = self._batch
        if events is None:
            return
        end = self._loop.time() + TURN_SECONDS
        is_left = True
        try:
            for event in events:
                # What came before this side began to close is served.
                if self._state is _State.CLOSING and isinstance(event, InboundRequest | Notification):
                    self._dispatcher.admit(event)
                else:
                    self._take((event,))
                if self._loop.time() >= end:
                    return
            is_left = False
        finally:
            if is_left:
                self._loop.call_soon(self._serve_batch)
            elif self._batch is events:
                self._batch = None
                self._dispatcher.end_batch()

    def _finish_batch(self) -> None:
        """Takes what is left of a batch at once: something comes behind it, in spite of all, or the session ends."""
        events, self._batch = self._batch, None
        if events is not None:
            self._take(events)
            self._dispatcher.end_batch()

    def _take(self, events: Iterable[PeerEvent]) -> None:
        for event in events:
            if type(event) is Call:
                self._settled(event)
            elif type(event) is InboundRequest or type(event) is Notification:
                if self._state is _State.RUNNING:
                    self._dispatcher.admit(event)
                elif type(event) is InboundRequest:
                    self._dispatcher.refuse_busy(event)
            elif type(event) is bytes:
                self._dispatcher.reply(event)
            elif type(event) is PeerFault:
                self._hooks.peer_fault(event.error)
                self._dispatcher.reply(event.reply)
            elif type(event) is Cancelled:
                self._dispatcher.cancel_request(event.request)
            elif type(event) is Progressed and event.call.on_progress is not None:
                self._run_callback(event.call.on_progress, event.value)
