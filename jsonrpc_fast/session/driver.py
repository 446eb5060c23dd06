"""A session on asyncio: both roles over any transport.

Rules:
  - it is made of the half that calls (driver_calls.py) and the half that serves (driver_dispatch.py);
  - everything runs on the loop's thread; `call_threadsafe` alone may be called from another one;
  - when the peer ends its stream, this side's calls are lost, but what came is served before the transport is closed;
  - after `close`, and when the connection is lost, nothing is left: no call in flight, no handler, no task, no timer.
    A handler that calls `close` itself goes on;
  - keep `max_pending` below the `max_inbox` of the peer, and what those calls carry below its `inbox_bytes`, and two
    busy sessions never wait for each other.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload

from ..codec import Notification, ParseError
from ..codes import UNSET, Unset
from ..errors import RpcError, StateError
from ..transports.base import Received, Transport
from .conventions import Convention
from .driver_calls import Caller
from .driver_dispatch import Dispatcher
from .handlers import Function, Handlers
from .hooks import FoundHooks, Hooks
from .options import DEFAULT_TIMEOUT, check_options
from .peer import Cancelled, Event, Fault, InboundRequest, Peer, Progressed, ReplyBudget, ReplyPolicy
from .tracker import Call

if TYPE_CHECKING:
    from typing_extensions import Self


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
    max_pending    calls in flight; more of them wait
    max_handlers   async handlers that run at one time
    max_inbox      messages that wait to be served, before reading is paused
    inbox_bytes    of memory that these take, about, before reading is paused
    reply_bytes    in the transport's write buffer, beyond which nothing more is served
    close_seconds  that `close` gives the handlers to finish
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
        max_inbox: int = 8192,
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
        peer = Peer(convention=convention, reply_policy=reply_policy, id_factory=id_factory, max_pending=max_pending)
        super().__init__(transport, peer, FoundHooks(hooks), timeout, errors)
        self.handlers: Handlers = handlers if isinstance(handlers, Handlers) else Handlers(handlers)
        self._close_seconds = close_seconds
        self._state = _State.NEW
        self._closed: asyncio.Future[None]
        self._closer: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[Any] | None] = set()  # who called `close`: perhaps a handler
        self._dispatcher = Dispatcher(
            self,
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
        before = (transport.onmessage, transport.onerror, transport.onclose, transport.pauses_when_blocked)
        onend = getattr(transport, "onend", None)
        transport.onmessage = self._on_message
        transport.onerror = self._on_error
        transport.onclose = self._on_close
        if hasattr(transport, "onend"):
            transport.onend = self._on_end
        transport.pauses_when_blocked = False
        self._is_started = self._may_call = True
        try:
            await transport.start()
        except BaseException:
            # It may be at work for someone else.
            transport.onmessage, transport.onerror, transport.onclose, transport.pauses_when_blocked = before
            if hasattr(transport, "onend"):
                transport.onend = onend
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

    async def wait_closed(self) -> None:
        """Waits until the connection is gone, whoever closed it, and no handler is left."""
        if self._state is _State.NEW:
            raise StateError("the session is not started")
        if self._is_started:
            await asyncio.shield(self._closed)
            await self._wait_for_the_rest()

    async def close(self) -> None:
        """Lets the handlers that run or wait finish, for `close_seconds`; settles the calls; closes the transport.

        Requests that come meanwhile get no answer. A second call waits for the first. One that is cancelled waits for
        no handler any more.
        """
        if self._state is _State.NEW:
            self._state = _State.CLOSED
            await self._transport.disconnect()
        else:
            self._closing.add(asyncio.current_task())
            if self._state is not _State.CLOSED:
                self._begin_closing()
            await self._wait_for_the_rest()

    async def _wait_for_the_rest(self) -> None:
        """Waits for the task that closes, if there is one; else for the handlers that the loss cancelled."""
        closer = self._closer
        if closer is None:
            await self._end_handlers()
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

    def _begin_closing(self) -> None:
        self._state = _State.CLOSING
        if self._closer is None:
            self._closer = self._loop.create_task(self._close())

    async def _close(self) -> None:
        try:
            end = self._loop.time() + self._close_seconds
            while (waited := self._dispatcher.tasks() - self._closing) and (left := end - self._loop.time()) > 0:
                await asyncio.wait(waited, timeout=left)
            self._settle_all()
            await self._end_handlers()
            await self._transport.close()
        finally:
            if self._state is not _State.CLOSED:
                await self._transport.disconnect()
            await self._end_handlers()

    async def _end_handlers(self) -> None:
        """Cancels what still runs and waits for its end."""
        but = self._closing | {asyncio.current_task()}
        self._dispatcher.cancel(but)
        if tasks := self._dispatcher.tasks() - but:
            _, left = await asyncio.wait(tasks, timeout=self._close_seconds)
            if left:
                self._hooks.fault(StateError("a handler goes on although it was cancelled"))

    def _on_close(self) -> None:
        """The channel is gone."""
        self._state = _State.CLOSED
        self._settle_all()
        self._peer.serving.clear()
        self._dispatcher.cancel(self._closing)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._closed.done():
            self._closed.set_result(None)

    def _on_end(self) -> None:
        """The peer has said its last: no answer can come any more, but it may still wait for this side's."""
        self._settle_all()
        self._begin_closing()

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

    def report_progress(self, request: InboundRequest, value: Any) -> bool:
        """Tells the peer how far its request is: see `RequestContext.report_progress`."""
        text = self._peer.report_progress(request, value)
        self._send(text)
        return bool(text)

    def _on_message(self, message: Received) -> None:
        self._take(self._peer.receive(message, self._loop.time()))

    def _take(self, events: list[Event]) -> None:
        for event in events:
            if type(event) is Call:
                self._settled(event)
            elif type(event) is InboundRequest or type(event) is Notification:
                if self._state is _State.RUNNING:
                    self._dispatcher.admit(event)
                elif type(event) is InboundRequest:
                    self._dispatcher.reply(self._peer.drop(event))
            elif type(event) is bytes:
                self._dispatcher.reply(event)
            elif type(event) is Fault:
                self._hooks.peer_fault(event.error)
                self._dispatcher.reply(event.reply)
            elif type(event) is Cancelled:
                self._dispatcher.cancel_request(event.request)
            elif type(event) is Progressed and event.call.on_progress is not None:
                self._run_callback(event.call.on_progress, event.value)
