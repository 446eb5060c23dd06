"""A session on asyncio: both roles over any transport.

Rules:
  - it consists of a half that calls (calling.py) and a half that serves (serving.py);
  - everything runs on the loop's thread, except that `call_threadsafe` and `notify_threadsafe` may be called from
    another thread;
  - a batch that takes longer than TURN_SECONDS is served over several turns of the loop, before anything else is read;
  - when the peer ends its stream, the calls of this side are lost, but every received message is served before the
    transport is closed;
  - while the session closes, handlers that run or wait may finish, and new requests are refused (SERVER_BUSY). Before
    that it says goodbye, if a server stops, or if the peer has ever sent a request;
  - after `close`, and after the connection is lost, nothing remains: no call in flight, no handler, no task, no timer.
    Only a handler that calls `close` itself continues.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, overload

from .._checks import check_seconds
from ..codec import Notification, ParseError, Request, Response
from ..errors import ConnectionLost, HttpStatusError, InvalidResponse, StateError
from ..handlers import Function, HandlerOptions, Handlers
from ..transports.base import TURN_SECONDS
from ..transports.protocol import Received, Transport, check_transport
from ..types import UNSET, MessageId, Unset
from .calling import Caller
from .context import SessionContext
from .events import Cancelled, InboundRequest, Leaving, PeerEvent, PeerFault, Progressed
from .heartbeat import Heartbeat
from .hooks import FoundHooks
from .options import SessionOptions, check_options
from .peer import Peer
from .running import Run, current_run
from .serving import Dispatcher
from .tracker import Call

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


OWED_SECONDS: Final = 0.2
"""Seconds that `close` gives a peer to read and to end its stream while the peer still works on a call."""


_SMALL_BATCH: Final = 64
"""A batch of up to this many messages is served in one turn of the loop."""


class _State(enum.Enum):
    NEW = "not started"
    RUNNING = "running"
    CLOSING = "closing"  # handlers may finish, new requests are refused
    CLOSED = "closed"


_RUNNING: Final = _State.RUNNING  # looked up once: before Python 3.12 access to enum members is slow


class Session(Caller):
    """A session over one transport: calls the peer, and serves its requests.

        async with Session(transport, {"add": lambda a, b: a + b}) as session:
            print(await session.call("subtract", [42, 23]))

    Args:
        transport: Not started yet; the session starts and closes it.
        handlers: Functions by method, or a `Handlers`, which sessions may share: what `register` adds belongs to this
            session alone.
        options: See `SessionOptions`.

    Raises:
        TypeError: An option does not exist, or has a value of the wrong type.
        ValueError: The value of an option is out of range.
    """

    _own_handlers: Handlers | None = None  # what `register` adds

    # An instance has at most 30 attributes: CPython 3.11 finds those of an object with more of them in a slower way.
    def __init__(
        self,
        transport: Transport,
        handlers: Handlers | Mapping[str, Callable[..., Any]] | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        check_transport(transport)
        checked = check_options(**options)
        reply_policy = checked["reply_policy"]
        if isinstance(reply_policy, Unset):
            reply_policy = "always" if transport.answers_faults else "never"
        peer = Peer(
            convention=checked["convention"],
            reply_policy=reply_policy,
            id_factory=checked["id_factory"],
            max_pending=checked["max_pending"],
            unique_ids=checked["unique_ids"],
            default=checked["default"],
        )
        super().__init__(
            transport,
            peer,
            FoundHooks(checked["hooks"]),
            checked["timeout"],
            checked["errors"],
            checked["context"],
            checked["max_pending"],
        )
        self.handlers: Handlers = handlers if isinstance(handlers, Handlers) else Handlers(handlers)
        self._close_seconds = checked["close_seconds"]
        end_seconds = checked["end_seconds"]
        if isinstance(end_seconds, Unset):
            end_seconds = None if transport.answers_after_end else self._close_seconds
        self._end_seconds = end_seconds
        self._state = _State.NEW
        self._closed: asyncio.Future[None]
        self._closer: asyncio.Task[None] | None = None
        self._batch: Iterable[PeerEvent] | None = None  # the rest of a batch that takes several turns
        heartbeat = checked["heartbeat_seconds"]
        self._heartbeat = None if heartbeat is None else Heartbeat(heartbeat, transport, self._ping, self._on_silence)
        self._last_read: MessageId | Unset = UNSET  # the id of the last request that was read before this side closed
        self._dispatcher = Dispatcher(
            self.handlers,
            partial(SessionContext, self),
            lambda: self.is_connected,
            peer,
            transport,
            self._hooks,
            self._send,
            max_handlers=checked["max_handlers"],
            max_inbox=checked["max_inbox"],
            inbox_bytes=checked["inbox_bytes"],
            reply_bytes=checked["reply_bytes"],
            group=checked["group"],
        )

    # Starting and closing.

    async def start(self) -> None:
        """Start the transport.

        Raises:
            StateError: The session was started already.
            Exception: What the transport raises.
        """
        if self._state is not _State.NEW:
            raise StateError(f"the session is {self._state.value}")
        self._state = _State.RUNNING
        self._loop = asyncio.get_running_loop()
        self._closed = self._loop.create_future()
        self._left = self._loop.create_future()
        transport = self._transport
        callbacks: dict[str, Any] = {
            "onmessage": self._on_message,
            "onerror": self._on_error,
            "onclose": self._on_close,
            "onend": self._on_end,
            "onfail": self._on_fail,
            "onstop": self._on_stop,
            "kept_bytes": self._dispatcher.kept_bytes,
            "pauses_when_blocked": False,
        }
        before = {name: getattr(transport, name) for name in callbacks}
        for name, callback in callbacks.items():
            setattr(transport, name, callback)
        self._is_started = self._may_call = True
        try:
            await transport.start()
        except BaseException:
            # The transport may be in use elsewhere.
            for name, value in before.items():
                setattr(transport, name, value)
            self._on_close()
            raise
        if self._heartbeat is not None and self._state is _RUNNING:
            if transport.received_chunks is None:
                transport.onmessage = partial(self._count_message, self._heartbeat)
            self._heartbeat.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_connected(self) -> bool:
        """Whether the session is started and its connection is open."""
        return self._state is _RUNNING and self._transport.is_connected

    @property
    def is_idle(self) -> bool:
        """Whether the session is connected, and neither side waits for anything."""
        peer, dispatcher = self._peer, self._dispatcher
        return not (len(peer.calls) or len(peer.serving) or dispatcher.is_busy) and self.is_connected

    @property
    def unanswered(self) -> int:
        """The number of requests without an answer because the session was closed before their handlers finished."""
        return self._dispatcher.unanswered

    async def wait_closed(self) -> None:
        """Wait until the connection is closed, by either side or by a loss, and no handler is left."""
        if self._state is _State.NEW:
            raise StateError("the session is not started")
        if self._is_started:
            await asyncio.shield(self._closed)
            await self._wait_until_closed()

    async def close(self, grace_seconds: float | Unset | None = UNSET) -> None:
        """Let handlers finish, settle the calls, and close the transport.

        Requests that arrive meanwhile are refused with SERVER_BUSY. Handlers that do not finish in time are cancelled
        and counted in `unanswered`. A second call waits for the first, and the earlier deadline applies. Cancelling
        this ends the waiting for handlers.

        Args:
            grace_seconds: Seconds for the handlers to finish; None: no limit. The default is the option
                `close_seconds`.

        Raises:
            TypeError: `grace_seconds` is not a number.
            ValueError: `grace_seconds` is negative, infinite or NaN.
        """
        seconds = self._close_seconds if isinstance(grace_seconds, Unset) else grace_seconds
        check_seconds("grace_seconds", seconds)
        if self._state is _State.NEW:
            self._state = _State.CLOSED
            await self._transport.disconnect()
            return
        if self._last_read is not UNSET:
            self._say_goodbye()
        self._stop(seconds)
        await self._wait_until_closed()

    async def _wait_until_closed(self) -> None:
        """Wait for the task that closes, if any, or else for the handlers that were cancelled by the loss."""
        run = current_run.get()
        if run is not None:
            run.begin_wait()
        try:
            closer = self._closer
            if closer is None:
                await self._end_handlers(run)
                return
            try:
                # Not `await closer`: another waiter may cancel it.
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
        self._stop_heartbeat()
        self._dispatcher.finish_by(inf if seconds is None else self._loop.time() + seconds)
        if self._closer is None:
            self._closer = asyncio.Task(self._close(), loop=self._loop)  # never an eager task

    async def _close(self) -> None:
        try:
            await self._dispatcher.finish()
            self._finish_batch()
            is_owed = self._peer.calls.is_owed
            self._settle_all()
            await self._end_handlers()
            self._dispatcher.count_unanswered()
            self._transport.unanswered = self.unanswered
            await self._close_transport(is_owed)
        finally:
            if self._state is not _State.CLOSED:
                await self._transport.disconnect()
            await self._end_handlers()
            if self.unanswered:
                # A client that leaves before its answer is everyday life, and can be repeated at will.
                fault = StateError(f"the session was closed before it answered {self.unanswered} requests")
                self._hooks.peer_fault(fault)

    async def _close_transport(self, is_owed: bool) -> None:
        """Close the transport, without waiting long for a peer that still works on a call of this side."""
        if not is_owed or not self._transport.waits_for_peer:
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
        """Cancel the handlers that still run and wait for their end."""
        if tasks := self._dispatcher.cancel(but):
            _, left = await asyncio.wait(tasks, timeout=self._close_seconds)
            if left:
                self._hooks.fault(StateError("a handler continues although it was cancelled"))

    def _on_close(self) -> None:
        """Clean up after the loss of the connection."""
        self._stop_heartbeat()
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

    # Keeping alive.

    def _stop_heartbeat(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()

    def _count_message(self, heartbeat: Heartbeat, message: Received) -> None:
        heartbeat.count()
        self._on_message(message)

    def _ping(self, seconds: float) -> None:
        call, text = self._peer.ping(self._loop.time(), seconds)
        self._send(text)
        self._sent(call)

    def _on_silence(self) -> None:
        """End a connection whose peer gives no sign of life. There is nobody to close it with."""
        self._fault = ConnectionLost("the peer is silent")
        self._hooks.peer_fault(self._fault)
        self._state = _State.CLOSING
        self._settle_all()
        self._closer = asyncio.Task(self._abort(), loop=self._loop)

    async def _abort(self) -> None:
        await self._transport.disconnect()
        await self._end_handlers()

    def _on_end(self) -> None:
        """The peer half-closed: no more answers, but it may still expect ours."""
        self._settle_all()
        self._begin_closing(self._end_seconds)

    def _on_stop(self, grace_seconds: float | None) -> None:
        """Begin to close, because the server or the process ends."""
        self._say_goodbye()
        self._stop(grace_seconds)

    def _say_goodbye(self) -> None:
        if self._state is _RUNNING:
            self._send(self._peer.goodbye(None if isinstance(self._last_read, Unset) else self._last_read))

    def _stop(self, grace_seconds: float | None) -> None:
        """Begin to close. If a handler caused that, do not wait for the handler."""
        run = current_run.get()
        if run is not None and run.owner is self._dispatcher:
            self._dispatcher.spare(run)
        if self._state is not _State.CLOSED:
            self._begin_closing(grace_seconds)

    def _on_error(self, error: Exception) -> None:
        if isinstance(error, ParseError):
            self._handle(self._peer.receive(error, self._loop.time()))
        elif isinstance(error, OSError):
            self._fault = error
            self._hooks.peer_fault(error)
        elif isinstance(error, HttpStatusError | InvalidResponse):
            self._hooks.peer_fault(error)
        else:
            self._hooks.fault(error)

    def _on_fail(self, id: MessageId, error: Exception) -> None:
        """Settle a call whose answer cannot arrive, because the exchange that carries it failed."""
        call = self._peer.fail(id, error)
        if call is not None:
            self._settled(call)

    # Serving.

    @overload
    def register(self, method: str, **options: Unpack[HandlerOptions]) -> Callable[[Function], Function]: ...

    @overload
    def register(self, method: str, function: Function, **options: Unpack[HandlerOptions]) -> Function: ...

    def register(self, method: str, function: Any = None, **options: Unpack[HandlerOptions]) -> Any:
        """Register a function for a method of this session alone, as `Handlers.register`.

        Other sessions with the same `handlers` do not have it. Without a function, return a decorator.
        """
        own = self._own_handlers
        if own is None:
            own = self._own_handlers = self.handlers.child()
            self._dispatcher.find = own.finder()
        return own.register(method, function, **options)

    def _on_message(self, message: Any) -> None:  # a `Received`; `cast` would cost a call for each message
        if self._batch is not None:
            self._finish_batch()
        kind = type(message)
        # What nearly all messages are takes no event.
        if kind is Response:
            call = self._peer.settle(message)
            if call is not None:
                self._settled(call)
                return
        elif self._state is _RUNNING:
            if kind is Request:
                self._last_read = message.id
                if self._dispatcher.serve_at_once(message):
                    return
            elif kind is list:
                self._last_read = _last_request_of(message, self._last_read)
        events = self._peer.receive_lazily(message, self._loop.time())
        if type(message) is list and len(message) > _SMALL_BATCH:
            self._batch = events
            self._dispatcher.begin_batch()
            self._serve_batch()
        else:
            self._handle(events)

    def _serve_batch(self) -> None:
        """Serve a batch for one turn of the loop."""
        events = self._batch
        if events is None:
            return
        end = self._loop.time() + TURN_SECONDS
        is_left = True
        try:
            for event in events:
                # Everything received before this side began to close is served.
                if self._state is _State.CLOSING and isinstance(event, InboundRequest | Notification):
                    self._dispatcher.admit(event)
                else:
                    self._handle((event,))
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
        """Serve the rest of a batch at once, because another message has arrived or the session ends."""
        events, self._batch = self._batch, None
        if events is not None:
            self._handle(events)
            self._dispatcher.end_batch()

    def _handle(self, events: Iterable[PeerEvent]) -> None:
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
            elif type(event) is Leaving:
                self._is_leaving = True
                self._stop_calling(event.unserved)
            elif type(event) is Progressed and event.call.on_progress is not None:
                self._run_callback(event.call.on_progress, event.value)


def _last_request_of(batch: list[Any], earlier: MessageId | Unset) -> MessageId | Unset:
    """Return the id of the last request of a batch; `earlier` if there is none."""
    return next((message.id for message in reversed(batch) if type(message) is Request), earlier)
