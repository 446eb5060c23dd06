"""A session on asyncio: both roles over any transport.

An engine (engine.py) decides, and a driver (loop_driver.py) carries out its decisions on asyncio. This class has the
states of the connection, and `Calling` (calling.py) the ways to call.

Rules:
  - When the peer ends its stream, the calls of this side are lost, but every received message is served before the
    transport is closed.
  - While the session closes, handlers that run or wait may finish, and new requests are refused (SERVER_BUSY). Before
    that, the session says goodbye if a server stops, or if the peer has ever sent a request.
  - After `close`, and after the connection is lost, nothing remains: no call in flight, no handler, no task, no timer.
    Only a handler that calls `close` itself continues.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from math import inf
from operator import attrgetter
from typing import Any, Final, Self, TypeVar, Unpack, overload

from ..codec import Params, ParseError, Raw
from ..codec._backend import decoded
from ..codes import ParseErrorCode
from ..errors import ConnectionLost, HttpStatusError, InvalidResponse, StateError, lost
from ..handlers import Function, HandlerOptions, Handlers, RequestContext
from ..support import Waiters, check_seconds, shorten
from ..transports.connection import Connection
from ..transports.heartbeat import Heartbeat
from ..transports.protocol import CALLBACKS, Acceptor, Ending, Transport, check_transport
from ..types import TURN_SECONDS, UNSET, MessageId, Unset
from .calling import Calling
from .engine import Engine
from .inbound import Phase
from .loop_driver import LoopDriver
from .options import RULES, Rules, SessionOptions
from .requests import Destination, InboundRequest, Run, detached, running, waits_for_peer

S = TypeVar("S", bound=Calling)

_BOUND: Final = ("pauses_when_blocked", *CALLBACKS)
"""What a session sets of its transport."""
_BOUND_OF: Final = attrgetter(*_BOUND)


class _State(enum.Enum):
    NEW = "not started"
    RUNNING = "running"
    CLOSING = "closing"  # handlers may finish, new requests are refused
    CLOSED = "closed"


_RUNNING: Final = _State.RUNNING  # looked up once: before Python 3.12 access to enum members is slow


class Session(Calling):
    """A session over one transport: calls the peer, and serves its requests.

        async with Session(transport, {"add": lambda a, b: a + b}) as session:
            print(await session.call("subtract", [42, 23]))

    Args:
        transport: Not started yet; the session starts and closes it.
        handlers: Functions by method, or a `Handlers`, which sessions may share: what `register` adds belongs only to
            this session.
        options: See `SessionOptions`.

    Raises:
        TypeError: An option does not exist, or has a value of the wrong type.
        ValueError: The value of an option is out of range.
    """

    _own_handlers: Handlers | None = None  # what `register` adds
    _close_callbacks: tuple[Callable[[], object], ...] = ()

    # An instance has at most 30 attributes: CPython 3.11 looks up those of an object with more of them on a slower
    # path.
    def __init__(
        self,
        transport: Transport,
        handlers: Handlers | Mapping[str, Callable[..., Any]] | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        self._set_up(transport, handlers, Rules(**options) if options else RULES)

    def _set_up(
        self, transport: Transport, handlers: Handlers | Mapping[str, Callable[..., Any]] | None, rules: Rules
    ) -> None:
        check_transport(transport)
        driver = LoopDriver(transport, self)
        self.handlers: Handlers = handlers if isinstance(handlers, Handlers) else Handlers(handlers)
        if isinstance(transport, Connection) and transport.encoders is not rules.encoders:
            rules = rules.with_encoders(transport.encoders)
        super().__init__(driver, Engine(driver, self.handlers, rules))
        self._state = _State.NEW
        self._closer: asyncio.Task[None] | None = None
        self._deadline = inf  # until when `close` waits for handlers
        heartbeat = rules.heartbeat_seconds
        self._heartbeat = (
            None
            if heartbeat is None
            else Heartbeat(
                heartbeat, transport, self._ping, lambda: self._engine.give_up(ConnectionLost("the peer is silent"))
            )
        )

    def _make_context(
        self, method: str, request: InboundRequest | None, destination: Destination | None
    ) -> SessionContext:
        return SessionContext(self, method, request, destination)

    # Starting and closing.

    async def start(self) -> None:
        """Start the transport.

        Raises:
            StateError: The session was started already.
            Exception: What the transport raises.
        """
        before = self._begin()
        try:
            await self._transport.start()
        except BaseException as error:
            self._give_back(before, error)
            raise
        self._start_heartbeat()

    def _begin_accepted(self, connection: Connection) -> None:
        """Do what `start` does, at once, with a connection that a server has accepted: the transport."""
        before = self._begin()
        try:  # a context manager costs each connection seven calls
            connection.begin()
        except BaseException as error:
            self._give_back(before, error)
            raise
        if self._heartbeat is not None:
            self._start_heartbeat()

    def _begin(self) -> tuple[Any, ...]:
        """Set the callbacks of the transport, and return what they were before."""
        if self._state is not _State.NEW:
            raise StateError(f"the session is {self._state.value}")
        # Before the first `await`: the transport may deliver messages, or be lost, while it starts.
        self._state = _RUNNING
        self._driver.open(asyncio.get_running_loop())
        transport, engine = self._driver.transport, self._engine
        before: tuple[Any, ...] = _BOUND_OF(transport)
        transport.onmessage = self._receiver()
        transport.onlate = engine.be_late
        transport.onerror = self._on_error
        transport.onclose = self._on_close
        transport.onend = self._on_end
        transport.onstop = self._on_stop
        transport.onfail = engine.fail
        transport.kept_bytes = engine.kept_bytes
        transport.pauses_when_blocked = False
        transport.onread = engine.look_ahead if engine.rules.has_cancellations else None
        return before

    def _give_back(self, before: tuple[Any, ...], error: BaseException) -> None:
        """Undo `_begin`: the transport, which has refused to start, may be in use elsewhere."""
        self._engine.fault = lost("", "the start failed", error)
        for name, value in zip(_BOUND, before, strict=True):
            setattr(self._transport, name, value)
        self._on_close()

    def _start_heartbeat(self) -> None:
        transport, heartbeat = self._transport, self._heartbeat
        if heartbeat is not None and self._state is _RUNNING:
            if transport.received_chunks is None:
                transport.onmessage = partial(self._count_message, heartbeat, self._receiver())
                transport.onfail = partial(self._count_failure, heartbeat)
            # The pings would mark a handler that starts the session as waiting.
            detached(heartbeat.start)

    def __repr__(self) -> str:
        transport, engine = type(self._transport).__name__, self._engine
        counts = f"calls={len(engine.calls)} requests={len(engine.requests)}"
        return f"<{type(self).__name__} {self._state.value} transport={transport} {counts}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_connected(self) -> bool:
        """Whether the session is started and its connection is open."""
        return self._state is _RUNNING and self._transport.is_connected

    @property
    def is_idle(self) -> bool:
        """Whether the session is connected, and neither side waits for anything."""
        return self._engine.is_idle and self.is_connected

    @property
    def dropped_requests(self) -> int:
        """The number of requests without a response because the session was closed before their handlers finished."""
        return self._engine.dropped_requests

    async def wait_closed(self) -> None:
        """Wait until the connection is closed, by either side or by a loss, and all handlers have ended."""
        if self._state is _State.NEW:
            raise StateError("the session is not started")
        if self._driver.loop is not None:
            if self._state is not _State.CLOSED:
                # Not `changed`, which the end of the peer's stream wakes, too.
                waiters = Waiters()
                wake = waiters.wake
                self._close_callbacks += (wake,)
                try:
                    await waiters.wait()
                finally:
                    self._close_callbacks = tuple(each for each in self._close_callbacks if each is not wake)
            if (work := self._ending()) is not None:
                await work

    def add_close_callback(self, callback: Callable[[], object]) -> None:
        """Call a function of no arguments when the connection is closed, by either side or by a loss.

        Raises:
            StateError: The session is not started.
        """
        soon = partial(self._started_loop().call_soon, callback, context=copy_context())
        if self._state is _State.CLOSED:
            soon()
        else:
            self._close_callbacks += (soon,)

    async def close(self, grace_seconds: float | Unset | None = UNSET) -> None:
        """Let handlers finish, settle the calls, and close the transport.

        Requests that arrive meanwhile, or have not begun in time, are refused with SERVER_BUSY. Handlers that do not
        finish in time are cancelled and counted in `dropped_requests`. The peer is notified that calls in flight are
        cancelled, if the convention can say so. A second call waits for the first, and the earlier deadline applies.
        Cancelling this ends the waiting for handlers. A handler that calls this is not waited for: its own request gets
        no response, and is counted, too. To respond first, it lets a task close the session.

        Args:
            grace_seconds: Seconds for the handlers to finish; None: no limit. The default is the option
                `close_seconds`.

        Raises:
            TypeError: `grace_seconds` is not a number.
            ValueError: `grace_seconds` is negative, infinite or NaN.
        """
        seconds: float | None = self._engine.rules.close_seconds
        if not isinstance(grace_seconds, Unset):
            check_seconds("grace_seconds", grace_seconds)
            seconds = grace_seconds
        if self._state is _State.CLOSED and self._closer is None and not self._engine.runs:
            return
        if self._state is _State.NEW:
            self._state = _State.CLOSED
            self._engine.closes = True
            await self._transport.disconnect()
            return
        if self._engine.has_read_a_request:
            self._say_goodbye()
        self._stop(seconds)
        await self._wait_until_closed()

    async def _wait_until_closed(self) -> None:
        """Wait for the task that closes, if any, otherwise for the handlers that were cancelled by the loss."""
        with waits_for_peer():
            closer = self._closer
            if closer is None:
                await self._end_handlers(self._engine.ending(running()))
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

    def _ending(self) -> Coroutine[Any, Any, None] | None:
        """Return what is left to wait for when the connection is lost; None for nothing."""
        return self._wait_until_closed() if self._closer is not None or self._engine.runs else None

    def _begin_closing(self, seconds: float | None, phase: Phase = Phase.DRAINING) -> None:
        self._state = _State.CLOSING
        self._engine.begin_draining(phase)
        self._stop_heartbeat()
        self._finish_by(inf if seconds is None else self._driver.time() + seconds)
        if self._closer is None:
            self._closer = asyncio.Task(self._close(), loop=self._driver.loop)  # never an eager task

    async def _close(self) -> None:
        left: set[Any] = set()
        try:
            try:
                await self._wait_until_served()
                is_owed = self._engine.calls.is_owed  # asked before the calls are lost: afterwards it is unknown
                # Closing an exchange cancels its call.
                self._engine.lose_calls(tells_peer=not self._transport.has_exchanges)
                left = await self._end_handlers(self._engine.cancel_all())
            finally:  # a cancellation ends the waiting, and the requests get no response, either
                self._engine.count_dropped()
                self._transport.dropped_requests = self.dropped_requests
            await self._close_transport(is_owed)
        finally:
            if self._state is not _State.CLOSED:
                await self._transport.disconnect()
            await self._end_handlers(self._engine.cancel_all(), known=left)
            if self.dropped_requests:
                # Only at debug level: clients often leave early, and a hostile one could do so at will.
                fault = StateError(f"the session was closed before it responded to {self.dropped_requests} requests")
                self._engine.rules.hooks.peer_fault(fault)

    def _finish_by(self, deadline: float) -> None:
        """Set the latest time until which `close` waits for handlers."""
        self._deadline = min(self._deadline, deadline)
        self._driver.changed.wake()

    async def _wait_until_served(self) -> None:
        """Wait until every received message is served, or until the deadline."""
        while not self._engine.has_served and self._driver.time() < self._deadline:
            timer = None
            if self._deadline != inf:
                timer = self._started_loop().call_at(self._deadline, self._driver.changed.wake)
            try:
                await self._driver.changed.wait()
            finally:
                if timer is not None:
                    timer.cancel()
        self._engine.begin_draining()  # it is too late for what has not begun
        self._engine.finish_late()

    async def _close_transport(self, is_owed: bool) -> None:
        """Close the transport, without waiting long for a peer that still works on a call of this side."""
        if not is_owed or not self._transport.waits_for_peer:
            await self._transport.close()
            return
        closing = asyncio.Task(self._transport.close(), loop=self._driver.loop)
        try:
            # As long as the peer still reads, what was accepted is not dropped.
            # A peer that still works on a call has some time to read and to end its stream.
            while not (await asyncio.wait([closing], timeout=0.2))[0] and self._transport.write_buffer_bytes:
                pass
            if not closing.done():
                await self._transport.disconnect()
        except asyncio.CancelledError:
            closing.cancel()
            raise
        await closing

    async def _end_handlers(self, runs: Iterable[Run], known: Collection[Any] = ()) -> set[Any]:
        """Wait for the end of handlers that were cancelled, and return the tasks of those that continue.

        Those in `known` have had their time, and were reported.
        """
        tasks = {run.task: run.item.method for run in runs if run.task is not None and run.task not in known}
        if not tasks:
            return set()
        _, left = await asyncio.wait(tasks, timeout=self._engine.rules.close_seconds)
        if left:
            methods = ", ".join(map(shorten, sorted({tasks[task] for task in left})))
            self._engine.rules.hooks.fault(StateError(f"a handler continues although it was cancelled: {methods}"))
        return left

    def _on_close(self) -> None:
        """Clean up after the connection is lost."""
        self._stop_heartbeat()
        self._state = _State.CLOSED
        self._engine.lose()
        self._driver.stop()  # after `lose`, which may set a timer
        self._finish_by(0.0)
        callbacks, self._close_callbacks = self._close_callbacks, ()
        for soon in callbacks:
            soon()

    # Keeping alive.

    def _stop_heartbeat(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()

    def _count_message(self, heartbeat: Heartbeat, receive: Callable[..., bytes | None], *message: Any) -> bytes | None:
        heartbeat.count()
        return receive(*message)

    def _count_failure(self, heartbeat: Heartbeat, id: MessageId, error: Exception) -> None:
        if isinstance(error, HttpStatusError | InvalidResponse):  # something has responded
            heartbeat.count()
        self._engine.fail(id, error)

    def _ping(self, seconds: float) -> None:
        with suppress(ConnectionLost, StateError):  # the transport reports a lost connection itself
            self._engine.ping(seconds)

    def _abort_soon(self) -> None:
        """End a connection whose peer gives no sign of life. Such a peer would not take part in a close."""
        self._stop_heartbeat()
        self._state = _State.CLOSING
        if self._closer is not None:
            self._closer.cancel()
        self._closer = asyncio.Task(self._abort(), loop=self._driver.loop)

    async def _abort(self) -> None:
        await self._transport.disconnect()
        await self._end_handlers(self._engine.cancel_all())

    def _on_end(self) -> None:
        """The peer half-closed: no more responses, but it may still expect ours."""
        engine, transport = self._engine, self._driver.transport
        if isinstance(transport, Connection):
            engine.fault = engine.fault or transport.fault  # reported when the channel is lost, but calls are lost now
        if self._closer is None and isinstance(transport, Connection) and engine.is_idle and engine.has_served:
            # Only the writing is left, and that needs no task.
            self._state = _State.CLOSING
            engine.begin_draining()
            engine.lose_calls()
            if self._heartbeat is not None:
                self._stop_heartbeat()
            transport.begin_closing()
            return
        self._engine.lose_calls()
        end_seconds = engine.rules.end_seconds
        if isinstance(end_seconds, Unset):
            end_seconds = None if transport.responds_after_end else engine.rules.close_seconds
        self._begin_closing(end_seconds, Phase.ENDED)

    def _on_stop(self, grace_seconds: float | None) -> None:
        """Begin to close, because the server or the process ends."""
        self._say_goodbye()
        self._stop(grace_seconds)

    def _say_goodbye(self) -> None:
        if self._state is _RUNNING:
            self._engine.send(self._engine.goodbye(), None)

    def _stop(self, grace_seconds: float | None) -> None:
        """Begin to close. If a handler caused that, do not wait for the handler."""
        # It would wait for itself. A handler of another session may be waited for: it continues.
        run = running()
        if run is not None and run.owner is self._engine:
            self._engine.spare(run)
        if self._state is not _State.CLOSED:
            self._engine.closes = self._engine.closes or self._state is _RUNNING
            self._begin_closing(grace_seconds)

    def _on_error(self, error: Exception) -> None:
        if isinstance(error, ParseError):
            if error.code is ParseErrorCode.TRUNCATED:  # the end follows, and the calls are lost by it
                loss = ConnectionLost(str(error))
                loss.__cause__ = error
                self._engine.fault = loss
            self._engine.receive(error)
        elif isinstance(error, OSError):
            self._engine.broke(error)
        elif isinstance(error, HttpStatusError | InvalidResponse):
            self._engine.rules.hooks.peer_fault(error)
        else:
            self._engine.rules.hooks.fault(error)

    # Serving.

    @overload
    def register(self, method: str, **options: Unpack[HandlerOptions]) -> Callable[[Function], Function]: ...

    @overload
    def register(self, method: str, function: Function, **options: Unpack[HandlerOptions]) -> Function: ...

    def register(self, method: str, function: Any = None, **options: Unpack[HandlerOptions]) -> Any:
        """Register a function for a method of this session only, like `Handlers.register`.

        Other sessions with the same `handlers` do not have it. Without a function, return a decorator.
        """
        own = self._own_handlers
        if own is None:
            own = self._own_handlers = self.handlers.child()
            self._engine.find = own.finder()
        return own.register(method, function, **options)

    def _receiver(self) -> Callable[..., bytes | None]:
        """Return the function for received messages, which takes the message, and its destination if it has its own.

        It may return a response for the stream.
        """
        return self._engine.serve


def serving(
    handlers: Handlers | Mapping[str, Callable[..., Any]], **options: Unpack[SessionOptions]
) -> Callable[[Transport], Coroutine[Any, Any, None]]:
    """Return the function that a server takes: it serves each client in a session of its own, with the same handlers.

        raise SystemExit(run_stdio(serving({"add": lambda a, b: a + b})))

    `TcpServer`, `UnixServer`, `WebSocketServer` and `asgi` take it, too.

    Args:
        handlers: As in `Session`.
        options: See `SessionOptions`.

    Raises:
        TypeError: An option does not exist, or has a value of the wrong type.
        ValueError: The value of an option is out of range.
    """
    shared = handlers if isinstance(handlers, Handlers) else Handlers(handlers)
    return _Serving(shared, Rules(**options) if options else RULES)


class _Serving(Acceptor):
    def __init__(self, handlers: Handlers, rules: Rules) -> None:
        self._handlers = handlers
        self._rules = rules

    def _session_over(self, transport: Transport) -> Session:
        session = Session.__new__(Session)
        session._set_up(transport, self._handlers, self._rules)
        return session

    async def __call__(self, transport: Transport) -> None:
        async with self._session_over(transport) as session:
            await session.wait_closed()

    def begin(self, connection: Connection) -> Ending:
        session = self._session_over(connection)
        session._begin_accepted(connection)
        return session._ending


async def broadcast(sessions: Iterable[S], method: str, params: Params = None) -> list[S]:
    """Send a notification to many sessions.

        missed = await broadcast(clients, "price", {"symbol": "AB", "value": 7})

    It is encoded once for all sessions that write messages in the same way, not once for each. The loop serves its
    connections meanwhile.

    Args:
        sessions: The sessions. Which ones is decided when this is called.
        method: The method of the notification.
        params: A list (positional), a dict (named) or None. They must not be changed until this returns.

    Returns:
        The sessions to which nothing was sent, because they are closed, or because their peers do not read what was
        sent before. Nothing waits for these: one slow peer must not delay the others.

    Raises:
        EncodeError, TypeError: The params cannot be encoded.
    """
    time = asyncio.get_running_loop().time
    texts: dict[object, bytes] = {}
    missed = []
    end = time() + TURN_SECONDS
    for session in list(sessions):
        if not session.notify_as(method, params, texts):
            missed.append(session)
        if time() >= end:
            await asyncio.sleep(0)
            end = time() + TURN_SECONDS
    return missed


class SessionContext(RequestContext):
    """The message that a handler serves, and its session.

    Attributes:
        session: The session, for calls back to the peer.
        method: The method of the message.
        id: The id of the request; None for a notification.
        is_notification: Whether the message is a notification, which gets no response.
        context: The `context` of the session when the handler was called.
        destination: The exchange that brought the message, such as an HTTP request; None: the stream.
    """

    __slots__ = ("_request", "destination", "session")

    def __init__(
        self, session: Calling, method: str, request: InboundRequest | None, destination: Destination | None
    ) -> None:
        # Without `super().__init__`: it is made for each message.
        self.context: Any = session.context
        self.id: MessageId = None if request is None else request.id
        self.is_notification: bool = request is None
        self.method: str = method
        self.session: Calling = session
        self.destination: Destination | None = destination
        self._request = request

    @property
    def peer(self) -> Any:
        """The other end of the session: see `Session.peer`."""
        return self.session.peer

    @property
    def is_cancelled(self) -> bool:
        """Whether the peer has cancelled the request. An async handler is cancelled as well."""
        return self._request is not None and self._request.is_cancelled

    async def send_item(self, item: Any) -> bool:
        return self._request is not None and await self.session.send_item(self._request, item)

    def result_of(self, items: list[Any] | None) -> Any:
        return self.session.convention.result_of(items)

    def without_token(self, params: Any, taken: Collection[str]) -> Any:
        members = self.session.convention.token_members.difference(taken)
        if not isinstance(params, (dict, Raw)) or members.isdisjoint(params.keys()):
            return params
        return {name: value for name, value in decoded(params).items() if name not in members}

    def report_progress(self, value: Any) -> bool:
        """Report progress on the request to the peer.

        Args:
            value: The progress, as the session's convention defines it.

        Returns:
            False if the peer did not ask for progress.
        """
        return self._request is not None and self.session.report_progress(self._request, value)
