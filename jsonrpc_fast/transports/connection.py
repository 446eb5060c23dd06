"""A transport over a channel: the only state machine of a connection.

It has four parts: a `Channel` moves bytes or texts, a `Reader` (readers.py) decodes them, the `Delivery` passes
messages on and the `Outbox` queues frames. `Connection` has the states, the ends and the user's callbacks.

Rules:
  - A connection is idle, connecting, connected, running, closing, closed, in this order. It may skip states and never
    goes back, except that a `connect` that fails leaves it idle.
  - Closing it while it is connecting ends the opening of the channel: `connect` raises ConnectionLost.
  - Messages may be sent while it is connected or running, and are delivered while it is running.
  - When the peer ends its stream, the connection writes all accepted messages and closes, unless `onend` is set.
  - No callback runs inside `send`, `connect`, `start`, `pause_reading` or `resume_reading`. `onclose` is called once,
    and no callback after it.
  - A fault of the channel stops sending at once; `onerror` gets it when the channel is lost.

Received data:
  - Messages are delivered while the connection runs. Nothing is delivered while reading is paused. Bytes, and the end
    of the stream, that arrive then or before `start` are kept.
  - One turn of the loop delivers for TURN_SECONDS. The rest is the backlog, which is decoded and delivered in the next
    turns, in order, before more is read. Connections that have one share the time: ten peers that flood delay the
    others no longer than one.
  - `onread`, if set, gets the decoded messages before each delivery, about AHEAD_ITEMS at most. For this, reading
    continues while fewer are undelivered and no data is undecoded.
  - An invalid message goes to `onerror`, and the stream continues. A framing fault ends the stream, and more than
    `max_faults` invalid messages close the connection. A peer that keeps sending after a fault is cut off when
    DROPPED_BYTES have arrived.
  - After an unexpected exception in the decoder, the connection is closed, because the state of the decoder is unknown.
  - When the channel is lost, the backlog is delivered first: a response in it settles a call.

Sent data:
  - Frames are queued and written together, once in each turn of the loop or when WRITE_BYTES are queued. A received
    chunk is a turn of its own, so that its responses leave at once. With `linger_turns` frames wait more turns, in
    order.
  - While one frame follows each received chunk, it is written inside `send` if the channel has `writes_lone_frames`:
    waiting for the end of the turn would cost a turn. When two frames follow a chunk, they are written together, and so
    are the next ones.
  - A frame that `send` accepted is written whole, or not at all if the channel breaks or is dropped. The log says how
    many bytes a closing connection drops because the peer does not read.
  - With more than HIGH_WATER_BYTES unwritten the outbox is blocked, until LOW_WATER_BYTES or fewer are left.
"""

from __future__ import annotations

import asyncio
import enum
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, assert_never

from .._parts import TaskPart
from ..codec import ParseError
from ..codec.encoders import PLAIN, Encoders
from ..errors import ConnectionLost, StateError, lost, run_callback
from ..framing.frames import Framing, frame
from ..profile import JSONRPC, Limits, Profile
from ..support import Seldom, Waiters, check_callable, check_count, check_seconds, check_type, logger_of
from ..types import TURN_SECONDS, UNSET, Unset
from . import debug, readers
from .channel import HIGH_WATER_BYTES, LOW_WATER_BYTES, Channel, Events
from .protocol import Sendable, Transport, drop_callbacks
from .readers import Reader, StreamReader, TextReader

SERVE_SECONDS: Final = 0.5
"""How long a `serve` function may continue after its channel is closed, before it is cancelled."""
OVERDUE_SECONDS: Final = 1.0
"""How long after the grace period a connection is closed that its user has not closed: a session needs some time to
count the requests without a response."""
AHEAD_ITEMS: Final = 1024
"""How many messages are read for `onread` before the first is delivered; there may be up to TURN_ITEMS more."""
_logger: Final = logger_of("transports")
_undrained: Final = Seldom()

DROPPED_BYTES: Final = 1024 * 1024
"""How much may arrive after a fault, while the connection closes, before it is aborted."""
WRITE_BYTES: Final = 64 * 1024
"""When this many bytes are queued, they are written before the turn of the loop ends."""
CALLBACK_FAILURES: Final = (Exception, asyncio.CancelledError, GeneratorExit)
"""The exceptions that `onmessage` may raise: all except LOOP_EXITS. CancelledError may come from a future's
`result`."""
NEWLINE: Final = 0x0A

# The values of `_lone`: how many frames have followed the last chunk.
MANY: Final = 0
ONE: Final = 1  # one frame follows each chunk, like the calls of a loop that awaits each
NEXT: Final = 2  # like ONE, before the next frame: that one is written inside `send`


class State(enum.Enum):
    """The states of a connection, in their order."""

    IDLE = "not connected"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"


class Connection(Transport):
    """A `Transport` over a channel.

    Args:
        channel: Moves the bytes or texts. It belongs only to this connection.
        framing: The framing of a stream of bytes, as in `Decoder`; "newline" by default. Sent messages have the same
            framing; with "auto" they have that of the peer, and are lines until it is known. None for a channel of
            texts.
        profile: The rules for decoding, and the form of what is sent (`Profile.writes`). If that is not "2.0", and the
            profile reads messages without `jsonrpc`, a peer whose first text has `jsonrpc` is sent 2.0.
        limits: Replace the limits of `profile` if given.
        raw: Whether payloads are left undecoded, as in `Decoder`.
        drain_seconds: How long `close` waits for the peer to take the accepted messages; None: without limit.
        max_faults: The number of invalid messages after which one more closes the connection; None: without limit.
        resync: Whether text between frames is skipped, as in `Decoder`.
        decode: Decodes each text in place of the codec, and must not raise. Its result goes to `onmessage`, or to
            `onerror` if it is a `ParseError`. None: the codec decodes.

    Attributes:
        channel: The same.
        channel_events: What the channel calls.
        encoders: Write messages as the profile says, in the form of the peer.
        fault: The exception that broke the connection, or None.
        undrained_bytes: How many bytes the peer had not taken after `drain_seconds`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    profile: Profile
    encoders: Encoders
    # An instance has at most 30 attributes, or CPython gives its dict keys of its own: 1.5 KB for each connection. So
    # these have no value of their own before they are set.
    fault: Exception | None = None
    undrained_bytes: int = 0
    _log: debug.WireLog | None = None
    _opening: TaskPart | None = None  # set while the connection is connecting
    _has_reported_end = False  # the end of the peer's stream was reported to `onend`
    # Limits the time until the connection begins to close, and then the time that closing takes: a user or a peer
    # that does nothing must not keep it open.
    _closing_timer: asyncio.TimerHandle | None = None
    _closed: Waiters | None = None  # those who wait for the state CLOSED

    def __init__(
        self,
        channel: Channel,
        *,
        framing: Framing | None = None,
        resync: bool = False,
        profile: Profile = JSONRPC,
        limits: Limits | None = None,
        raw: bool = False,
        drain_seconds: float | None = 5.0,
        max_faults: int | None = None,
        decode: Callable[[Any], Any] | None = None,
    ) -> None:
        check_type("channel", channel, Channel)
        check_type("profile", profile, Profile)
        check_type("limits", limits, Limits, may_be_none=True)
        check_callable("decode", decode)
        check_seconds("drain_seconds", drain_seconds)
        check_count("max_faults", max_faults, 0)
        self.profile = profile = profile if limits is None else profile.replace(limits=limits)
        self.encoders = PLAIN if profile is JSONRPC else Encoders(profile)
        listen = self.encoders.listener()
        reader: Reader
        if channel.carries_texts:
            if framing is not None:
                raise TypeError("a channel of texts has no framing")
            reader = TextReader(profile, raw, decode, listen)
        else:
            reader = StreamReader("newline" if framing is None else framing, profile, raw, decode, listen, resync)
        self.channel: Channel = channel
        self._drain_seconds = drain_seconds
        self._reader = reader
        self._outbox = Outbox(self, channel, reader)
        if type(self).send is Connection.send:
            self.send = self._outbox.send  # type: ignore[method-assign]  # saves a call for each message
        self._delivery = Delivery(self, self._outbox, reader, max_faults)
        self.channel_events: Events = Events(self._delivery.received, self._outbox.drained, self._lost)
        self._state = State.IDLE

    # Properties.

    @property
    def state(self) -> State:
        """The state. Only the methods of this class change it."""
        return self._state

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closing or closed."""
        return self._state is State.CLOSING or self._state is State.CLOSED

    @property
    def is_connected(self) -> bool:
        return self._outbox.is_open

    @property
    def write_buffer_bytes(self) -> int:
        return self._outbox.unwritten

    @property
    def received_chunks(self) -> int:
        return self._delivery.chunks

    @property
    def is_reading(self) -> bool:
        return self._delivery.is_reading

    @property
    def is_inside_message(self) -> bool:
        """Whether something has arrived that is not a whole message yet, or is not decoded."""
        return self._reader.held_bytes > 0

    def held_bytes(self) -> int:
        """About how many bytes are received but not delivered, kept by the user, or sent but not written."""
        kept = 0 if self.kept_bytes is None else self.kept_bytes()
        return self._reader.held_bytes + self._outbox.unwritten + kept

    @property
    def linger_turns(self) -> int:
        """How many more turns of the loop frames wait, so that more of them leave in one write. Initially 0."""
        return self._outbox.linger_turns

    @linger_turns.setter
    def linger_turns(self, turns: int) -> None:
        self._outbox.linger_turns = turns

    # Opening.

    async def connect(self) -> None:
        if self._state is not State.IDLE:
            raise self._state_error()
        self._state = State.CONNECTING
        is_open = False
        opening = self._opening = TaskPart()
        try:
            with opening:
                await self.channel.open(self.channel_events)
                is_open = True
        finally:
            del self._opening
            if self._state is State.CONNECTING:
                self._state = State.IDLE
        if self._state is not State.IDLE:
            if is_open:
                self.channel.abort()
            raise ConnectionLost("the transport was closed while it was connecting")
        self._state = State.CONNECTED
        log = debug.log_for(self.channel, self._reader.framing or "none")
        if log is not None:
            self._log = log
            self._reader.set_log(log)
        self._outbox.open(log)

    async def start(self) -> None:
        if self._state is State.IDLE:
            await self.connect()
        if self._state is not State.CONNECTED:
            raise self._state_error()
        self._state = State.RUNNING
        self._delivery.open()

    def _state_error(self) -> StateError:
        return StateError(f"the transport is {self._state.value}")

    # Sending and receiving.

    def send(self, message: Sendable) -> None:
        self._outbox.send(message)

    def flush(self) -> None:
        """Write the queued frames now, not at the end of the turn of the loop."""
        self._outbox.flush()

    async def drain(self) -> None:
        await self._outbox.drain()

    def pause_reading(self) -> None:
        self._delivery.set_paused(True)

    def resume_reading(self) -> None:
        self._delivery.set_paused(False)

    # Closing.

    async def close(self) -> None:
        self.begin_closing()
        await self.wait_closed()

    async def disconnect(self) -> None:
        self.abort()
        await self.wait_closed()

    async def wait_closed(self) -> None:
        """Wait until the transport is closed and `onclose` has been called."""
        if self._state is not State.CLOSED:
            if self._closed is None:
                self._closed = Waiters()
            await self._closed.wait()

    def begin_closing(self, drain_seconds: float | Unset | None = UNSET) -> None:
        """Begin what `close` does, without waiting.

        Args:
            drain_seconds: Replaces the option of the same name.
        """
        if self._state is State.IDLE or self._state is State.CONNECTING:
            self.abort()
        elif not self.is_closing and not self._delivery.drop_backlog():
            self._outbox.linger_turns = 0
            self._outbox.flush()
            self._stop(State.CLOSING)
            self._limit_closing(self._drain_seconds if isinstance(drain_seconds, Unset) else drain_seconds)
            self.finish_channel()

    def finish_channel(self) -> None:
        """Close the channel after everything is written. Subclasses whose channel needs more override this."""
        self.channel.finish()

    def abort(self, fault: Exception | None = None) -> None:
        """Begin what `disconnect` does, without waiting.

        Args:
            fault: The reason, for `onerror`.
        """
        if fault is not None:
            self.break_off(fault)
        if self._state is State.IDLE:
            self._lost(None)
            self.channel.abort()
        elif self._state is State.CONNECTING:
            self._lost(None)
            opening = self._opening
            # Otherwise the channel itself ends its opening.
            if opening is not None and opening.task is not asyncio.current_task():
                opening.cancel()
        elif self._state is not State.CLOSED and not self._delivery.drop_backlog():
            self._stop(State.CLOSING)
            self.channel.abort()

    def request_stop(self, grace_seconds: float | None, drain_seconds: float | Unset | None = UNSET) -> None:
        """Ask the user of the connection to finish and close it; see `onstop`.

        If the user does not, it is closed. If `onstop` is not set, `onend` is called and reading stops; if that is not
        set either, the connection closes.

        Args:
            grace_seconds: How long the user may take; None: without limit.
            drain_seconds: Replaces the option of the same name.
        """
        if not isinstance(drain_seconds, Unset):
            self._drain_seconds = drain_seconds  # `onstop` may call `close` later, which does not pass this limit
            if self._state is State.CLOSING:
                self._limit_closing(drain_seconds)
        if self._state is not State.RUNNING or (self.onstop is None and self.onend is None):
            self.begin_closing()
            return
        if grace_seconds is not None:
            self.keep_closing()
            loop = asyncio.get_running_loop()
            self._closing_timer = loop.call_later(grace_seconds + OVERDUE_SECONDS, self.begin_closing)
        if self.onstop is not None:
            self.run_callback("onstop", self.onstop, grace_seconds)
        else:
            self.pause_reading()
            self.report_end()

    def _limit_closing(self, seconds: float | None) -> None:
        self.keep_closing()
        if seconds is not None:
            self._closing_timer = asyncio.get_running_loop().call_later(seconds, self._on_drain_timeout)

    def keep_closing(self) -> None:
        """Cancel the timer of the closing. Channels that limit the rest of their end themselves use this."""
        if self._closing_timer is not None:
            self._closing_timer.cancel()

    def _on_drain_timeout(self) -> None:
        self.undrained_bytes = self.channel.unwritten
        if self.undrained_bytes and (left_out := _undrained.take(asyncio.get_running_loop().time())) is not None:
            _logger.warning(
                "the peer did not read all messages before the connection closed; dropped bytes: %d%s",
                self.undrained_bytes,
                left_out,
            )
        self.channel.abort()

    def _stop(self, state: State) -> None:
        self._state = state
        self._outbox.close()
        self._delivery.close()

    # Events of the channel and of the parts.

    def deliver(self, items: list[Any]) -> None:
        """Deliver decoded messages and faults; for subclasses whose channel has to decode them."""
        if not self.is_closing:
            self._delivery.add(items)

    def report_end(self) -> None:
        """Call `onend`, once: the peer has ended its stream, or this side has to end."""
        if self.onend is not None and not self._has_reported_end:
            self._has_reported_end = True
            self.run_callback("onend", self.onend)

    def break_off(self, fault: Exception) -> None:
        """Stop sending because of a fault. The state does not change: `lost` follows."""
        if self._state is not State.CLOSED and self.fault is None:
            self.fault = fault
        self._outbox.close()
        self._delivery.update()

    def note(self, fault: ConnectionLost, cause: Exception) -> None:
        """Note what breaks the connection, if nothing has before: it is reported when the channel is lost."""
        if self.fault is None:
            fault.__cause__ = cause
            self.fault = fault

    def _lost(self, fault: Exception | None) -> None:
        """Handle the end of the channel. Further calls do nothing."""
        if self._state is State.CLOSED:
            return
        fault = fault or self.fault
        self.fault = self.fault or fault
        self._outbox.close()
        # What arrived before the loss is delivered first: a call whose response is in it must not be sent again.
        if self._delivery.puts_off(fault):
            return  # the delivery reports the loss again after the last item
        self._stop(State.CLOSED)
        if self._closed is not None:
            self._closed.wake()  # they continue in a later turn
        self.keep_closing()
        if fault is not None:
            self._report(fault)
        if self._log is not None:
            self._log.closed(self.fault)
        if self.onclose is not None:
            self.run_callback("onclose", self.onclose)
        self.closed()
        # What is closed forms no cycle: it is freed although no garbage is collected. The frames of an error of the
        # system refer to the channel, and say nothing that its text does not.
        while isinstance(fault, (OSError, ConnectionLost)):
            fault.__traceback__ = None
            fault = fault.__cause__ or fault.__context__  # type: ignore[assignment]
        drop_callbacks(self)
        self.channel_events.end()
        vars(self).pop("send", None)
        self._delivery.end()
        self._outbox.end(self.closed_error())

    def closed(self) -> None:
        """Called once, after `onclose`; for subclasses."""

    # Faults and callbacks.

    def fail(self, error: Exception) -> None:
        """Close because of an unexpected exception, such as a MemoryError: the state is unknown after it."""
        if self.onerror is None:
            self.report_unhandled(error, "decode")
        self.abort(error)

    def closed_error(self) -> Exception:
        """Return the exception for a message that cannot be sent in this state."""
        if self._state is State.IDLE or self._state is State.CONNECTING:
            return self._state_error()
        return lost("the transport is closed", "the channel broke", self.fault)

    def report_invalid(self, fault: ParseError) -> None:
        """Report an invalid message. Subclasses whose channel closes because of some faults override this."""
        self._report(fault)

    def _report(self, fault: Exception) -> None:
        if self._log is not None:
            self._log.fault(fault)
        if self.onerror is not None:
            self.run_callback("onerror", self.onerror, fault)

    def run_callback(self, name: str, callback: Callable[..., object], *arguments: Any) -> None:
        """Call a user's function. Its exceptions are reported, and do not affect the connection."""
        run_callback(partial(self.report_callback_error, name=name), callback, *arguments)

    def report_callback_error(self, fault: BaseException, name: str = "onmessage") -> None:
        """Report the exception of a callback: to `onerror` if it was called for a received message, or to the loop."""
        if name not in ("onmessage", "stderr") or self.onerror is None or not isinstance(fault, Exception):
            self.report_unhandled(fault, name)
        else:
            self._report(fault)

    def report_unhandled(self, fault: BaseException, callback: str) -> None:
        """Report the exception of a user's function to the loop's exception handler."""
        context = {"message": f"exception in {callback} of a transport", "exception": fault, "transport": self}
        asyncio.get_running_loop().call_exception_handler(context)


class _Turns(threading.local):
    """The deliveries of each thread that the loop is about to continue: they share a turn."""

    due: int = 0


_turns: Final = _Turns()


@dataclass(slots=True, eq=False, repr=False)
class Delivery:
    """The receiving half of a connection.

    Args:
        connection: Has the callbacks.
        outbox: Is written at the end of each delivery.
        reader: Decodes the received data.
        max_faults: The number of invalid messages after which one more closes the connection; None: without limit.

    Attributes:
        chunks: How many times something has arrived on the channel.
        is_reading: Whether the channel is to be read. Only `update` changes it.
    """

    _connection: Connection
    _outbox: Outbox
    _reader: Reader
    _max_faults: int | None
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _time: Callable[[], float] = field(init=False)  # the loop's
    _respond: Callable[[Any], bytes | None] | None = None  # called in place of `_replaced`
    _replaced: Callable[..., None] | None = None  # the `onmessage` that was set at the start
    _is_open: bool = False  # from `open` to `close`
    _is_paused: bool = False  # by the user
    _may_deliver: bool = False  # open, and neither paused nor blocked
    _undelivered: list[Any] = field(default_factory=list)  # decoded items
    _has_backlog: bool = False  # something is undelivered: `_undelivered` or in the reader
    _has_ended: bool = False  # nothing more is read: the peer's stream has ended, or has a framing fault
    _is_delivery_due: bool = False  # `_deliver_backlog` is scheduled
    _loss: tuple[Exception | None] | None = None  # why the channel was lost: reported after the backlog
    _faults: int = 0
    _dropped_bytes: int = 0
    is_reading: bool = False
    chunks: int = 0

    # The state of the connection.

    def open(self) -> None:
        """Deliver from now on."""
        self._loop = loop = asyncio.get_running_loop()
        # `loop.time` of asyncio is a Python function, and costs as much as handling a small message: it returns this
        # clock.
        self._time = time.monotonic if type(loop).time is asyncio.BaseEventLoop.time else loop.time
        self._is_open = True
        if self._connection.send == self._outbox.send:  # otherwise a subclass or a user sends in another way
            self._respond, self._replaced = self._connection.respond, self._connection.onmessage
        self.update()

    def close(self) -> None:
        """Deliver nothing more, and drop all kept data."""
        self._is_open = self._may_deliver = self._has_backlog = False
        self._undelivered.clear()
        self._reader.clear()

    def end(self) -> None:
        """Forget the connection, which is closed."""
        del self._connection
        self._respond = self._replaced = None

    def set_paused(self, is_paused: bool) -> None:
        """Pause or resume delivering, for the user."""
        self._is_paused = is_paused
        self.update()

    def update(self) -> None:
        """Start or stop reading and delivering, according to the state."""
        if not self._is_open:
            return
        if self._loss is None:
            is_blocked = self._outbox.is_blocked and self._connection.pauses_when_blocked
            self._may_deliver = not self._is_paused and not is_blocked
        if self._may_deliver and (self._has_backlog or self._has_ended) and not self._is_delivery_due:
            self._is_delivery_due = True
            _turns.due += 1
            if self._has_backlog:
                # Two turns later: what is scheduled now runs before the loop serves the sockets that have become
                # readable meanwhile.
                self._loop.call_soon(self._loop.call_soon, self._deliver_backlog)
            else:
                self._loop.call_soon(self._deliver_backlog)
        if self._loss is None and not self._has_ended:
            reads = self._may_deliver and (not self._has_backlog or self._may_read_ahead())
            if self.is_reading is not reads:
                self.is_reading = reads
                self._connection.channel.set_reading(reads)

    def puts_off(self, fault: Exception | None) -> bool:
        """Deliver the backlog before the loss of the channel is reported. Return whether some of it is left."""
        if self._is_open and self._has_backlog and self._loss is None:
            self._loss = (fault,)
            self._may_deliver = True
            self._deliver()
        return self._loss is not None and self._has_backlog and self._may_deliver

    def drop_backlog(self) -> bool:
        """Drop the backlog if the channel is lost. Return whether the channel is lost."""
        if self._loss is not None and self._may_deliver:
            self._may_deliver = False
            self._loop.call_soon(self._connection.channel_events.lost, self._loss[0])
        return self._loss is not None

    # What arrives.

    def received(self, data: Any) -> None:
        """Handle data that arrived on the channel; see `Events`."""
        self.chunks += 1
        if not self._may_deliver or self._has_backlog or not data or type(data) is list:
            self._keep(data)
            return
        reader = self._reader
        is_small = len(data) <= reader.small_bytes
        try:
            items = reader.feed(data) if is_small else reader.feed(data, readers.TURN_ITEMS)
        except Exception as error:
            self._connection.fail(error)
            return
        if not items:
            reader.partial_bytes += len(data)
            return
        reader.partial_bytes = 0
        if len(items) > 1 or not is_small:
            self._undelivered = items
            self._deliver()
            return
        # One item is the whole chunk: like `_deliver`, without the budget.
        item = items[0]
        outbox, connection = self._outbox, self._connection
        outbox.begin_turn()
        try:
            if type(item) is ParseError or type(item) is list or connection.onmessage is None:
                self._deliver_item(item)
            else:
                # Inlined from `Connection.run_callback`: a call costs half as much as the decoding.
                try:
                    if self._respond is None or connection.onmessage is not self._replaced:
                        connection.onmessage(item)
                    elif (response := self._respond(item)) is not None:
                        outbox.respond(response)
                except CALLBACK_FAILURES as error:
                    connection.report_callback_error(error)
        finally:
            outbox.end_turn()

    def add(self, items: list[Any]) -> None:
        """Handle messages and faults that are already decoded."""
        self.chunks += 1
        self._undelivered += items
        self._extend_backlog()

    def _extend_backlog(self) -> None:
        """Deliver the backlog, unless it has to wait."""
        had_backlog, self._has_backlog = self._has_backlog, True
        if self._may_deliver and not had_backlog:
            self._deliver()

    def _keep(self, data: Any) -> None:
        """Handle data that cannot be delivered now, several texts, or the end of the stream."""
        if self._connection.is_closing or self._has_ended:
            self._drop(sum(map(len, data)) if type(data) is list else len(data))
        elif data:
            self._reader.keep(data)
            self._extend_backlog()
        else:
            self._has_ended = True
            self._reader.end()
            self._extend_backlog()
            self.update()

    def _drop(self, size: int) -> None:
        """Count bytes that arrived too late. If the peer keeps sending after its fault, abort."""
        is_fault = self._connection.fault is not None or self._reader.has_ended
        if is_fault and self._dropped_bytes <= DROPPED_BYTES:
            self._dropped_bytes += size
            if self._dropped_bytes > DROPPED_BYTES:
                self._connection.channel.abort()

    # Delivering.

    def _deliver(self) -> None:
        """Deliver the backlog. The rest is left to the next turn when this takes too long."""
        self._outbox.begin_turn()
        try:
            end = self._time() + TURN_SECONDS / (1 + _turns.due)
            while self._may_deliver:
                items, self._undelivered = self._undelivered, []
                items = items or self._next_items()
                if self._connection.onread is not None:
                    items = self._ahead(items)
                self._deliver_items(items, end)
                # A step may return no item although more is undecoded: it may be a part of a long message.
                if not (items or self._reader.has_more) or self._time() >= end:
                    break
        finally:
            self._has_backlog = bool(self._undelivered) or self._reader.has_more
            self.update()
            self._outbox.end_turn()

    def _may_read_ahead(self) -> bool:
        """Return whether to keep reading although items are undelivered: `onread` should see more at a time."""
        if self._connection.onread is None or self._reader.has_more:
            return False
        return len(self._undelivered) < AHEAD_ITEMS

    def _ahead(self, items: list[Any]) -> list[Any]:
        """Return these items and the ones that follow them, as changed by `onread`."""
        end = self._time() + TURN_SECONDS
        while self._may_deliver and self._reader.has_more and len(items) < AHEAD_ITEMS and self._time() < end:
            items += self._next_items()
        onread = self._connection.onread
        if onread is not None and len(items) > 1:
            self._connection.run_callback("onread", onread, items)
        return items

    def _next_items(self) -> list[Any]:
        try:
            return self._reader.next_items()
        except Exception as error:
            self._connection.fail(error)
            return []

    def _deliver_items(self, items: Iterable[Any], end: float) -> None:
        """Deliver items until the loop's time is `end`, but at least one. Keep the others in `_undelivered`."""
        connection, outbox, now, respond = self._connection, self._outbox, self._time, self._respond
        pending = iter(items)
        try:
            for item in pending:
                if not self._may_deliver:
                    self._undelivered.append(item)
                    return
                kind, onmessage = type(item), connection.onmessage
                if kind is ParseError or kind is list or onmessage is None:
                    self._deliver_item(item)
                else:
                    try:
                        if respond is None or onmessage is not self._replaced:
                            onmessage(item)
                        elif (response := respond(item)) is not None:
                            outbox.respond(response)
                    except CALLBACK_FAILURES as error:
                        connection.report_callback_error(error)
                if now() >= end:
                    return
        finally:
            self._undelivered += pending

    def _deliver_item(self, item: Any) -> None:
        connection = self._connection
        if type(item) is ParseError:
            connection.report_invalid(item)
            self._count_faults(1, item)
            if self._reader.has_ended:
                connection.note(ConnectionLost(str(item)), item)
                self._has_ended = True
                self.update()
            return
        if connection.onmessage is not None:
            connection.run_callback("onmessage", connection.onmessage, item)
        if type(item) is list:
            faults = [one for one in item if type(one) is ParseError]
            if faults:
                self._count_faults(len(faults), faults[-1])

    def _deliver_backlog(self) -> None:
        """Deliver the backlog for one turn, then handle the end of the stream or of the channel."""
        self._is_delivery_due = False
        _turns.due -= 1
        if not self._may_deliver:
            return
        if self._has_backlog:
            self._deliver()
        if not self._may_deliver or self._has_backlog:
            return
        if self._loss is not None:
            self._connection.channel_events.lost(self._loss[0])
        elif self._has_ended:
            # After a framing fault the peer cannot expect responses.
            if self._connection.onend is None or self._reader.has_ended:
                self._connection.begin_closing()
            else:
                self._connection.report_end()

    def _count_faults(self, count: int, last: ParseError) -> None:
        self._faults += count
        maximum, connection = self._max_faults, self._connection
        if maximum is not None and self._faults > maximum and connection.fault is None:
            # The last one says what the peer does.
            connection.note(ConnectionLost(f"the peer sent more than {maximum} invalid messages"), last)
            connection.begin_closing()


@dataclass(slots=True, eq=False, repr=False)
class Outbox:
    """The sending half of a connection.

    Args:
        connection: Is notified of faults, and when `is_blocked` has changed.
        channel: Gets the frames.
        reader: Knows the framing: with "auto", that of the peer.

    Attributes:
        linger_turns: How many more turns of the loop frames wait, so that more of them leave in one write. The owner
            of the connection sets it.
        is_open: Whether frames are accepted: from `open` to `close`.
        is_blocked: Whether too much is unwritten. Set by `write`, reset by `drained` and `close`.
    """

    _connection: Connection
    _channel: Channel
    _reader: Reader
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _log: debug.WireLog | None = None
    _queue: list[bytes] = field(default_factory=list)
    _queued_bytes: int = 0
    # Unwritten at the last check, plus what was sent since: an upper bound of what the channel holds.
    _sent_bytes: int = 0
    _takes_lines: bool = False  # fast path: bytes that end in a line break are frames, and nothing is logged
    _is_flush_due: bool = False  # the loop, or the end of a chunk's delivery, will write the queue
    _lone: int = MANY
    _turns_lingered: int = 0
    _drain_waiters: Waiters = field(default_factory=Waiters)
    _loss: Exception | None = None  # the text and the cause of what `send` raises after the end
    linger_turns: int = 0
    is_open: bool = False
    is_blocked: bool = False

    def open(self, log: debug.WireLog | None) -> None:
        """Accept frames from now on."""
        self._loop = asyncio.get_running_loop()
        self._log = log
        self._takes_lines = log is None and self._reader.framing in ("newline", "concatenated", None)
        self.is_open = True

    def close(self) -> None:
        """Accept no more frames, and drop those that are queued."""
        self.is_open = self._takes_lines = self.is_blocked = False
        self._queue.clear()
        self._queued_bytes = 0
        self._drain_waiters.wake()

    def end(self, loss: Exception) -> None:
        """Forget the connection, which is closed, and raise this from now on."""
        self._loss = loss
        del self._connection

    @property
    def unwritten(self) -> int:
        """How many accepted bytes the system has not taken yet."""
        if self._sent_bytes:
            self._sent_bytes = self._channel.unwritten
        return self._queued_bytes + self._sent_bytes

    def send(self, message: Sendable) -> None:
        """Queue a message; see `Transport.send`."""
        # The encoders usually return a whole frame: one line.
        if self._takes_lines and type(message) is bytes and message.find(b"\n") == len(message) - 1 > 0:
            framed = message
        else:
            framed = self._frame(message)
            if not framed:
                return
        self._queue.append(framed)
        self._queued_bytes = queued = self._queued_bytes + len(framed)
        if queued >= WRITE_BYTES:
            self._write()
        elif not self._is_flush_due:
            if self._lone == NEXT and not self.linger_turns:
                self._lone = ONE
                self._write()
            else:
                self._is_flush_due = True
                self._loop.call_soon(self._flush_turn)

    def respond(self, line: bytes) -> None:
        """Queue what `Transport.respond` has returned, like `send`, unless the connection is closed."""
        if self._takes_lines:
            self._queue.append(line)
            self._queued_bytes = queued = self._queued_bytes + len(line)
            if queued >= WRITE_BYTES:
                self._write()
        elif self.is_open:
            self.send(line)

    def _frame(self, message: Sendable) -> bytes:
        """Return a message as a frame, or b"" if nothing is to be sent. Raises like `send`."""
        if not self.is_open:
            raise self._closed_error()
        text = message
        if not isinstance(text, bytes):
            text = self._connection.encoders.encode(list(text) if isinstance(text, tuple) else text)
        if text == b"\n":
            return b""
        framing = self._reader.framing
        if framing is not None:
            # Under a framing that does not mark the end, several lines would be several messages. With "auto", the
            # framing may not be known yet.
            match framing:
                case "content-length" | "sse" | "json-seq" | "etx" | "nul":
                    text = frame(text, framing)
                case "newline" | "concatenated" | "auto":
                    text = frame(text, "newline")
                case _:
                    assert_never(framing)
        if self._log is not None and text:
            self._log.sent(text, message)
        return text

    def _closed_error(self) -> Exception:
        if self._loss is None:
            return self._connection.closed_error()
        error = ConnectionLost(str(self._loss))
        error.__cause__ = self._loss.__cause__
        return error

    async def drain(self) -> None:
        """Wait until the outbox is not blocked; see `Transport.drain`."""
        while self.is_open and self.is_blocked:
            await self._drain_waiters.wait()
        if not self.is_open:
            raise self._closed_error()

    def drained(self) -> None:
        """Handle a decrease of the channel's unwritten bytes."""
        if self.is_blocked and self._channel.unwritten <= LOW_WATER_BYTES:
            self.is_blocked = False
            self._connection._delivery.update()
            self._drain_waiters.wake()

    def begin_turn(self) -> None:
        """Begin to deliver a chunk: responses are queued until `end_turn`, and written together."""
        self._is_flush_due = True
        if self._lone == NEXT:
            self._lone = ONE

    def end_turn(self) -> None:
        """Write the responses queued since `begin_turn`."""
        if self._queue and self.linger_turns:
            self.flush()
        else:
            self._is_flush_due = False
            if self._queue:
                self._write()
        if self._lone == ONE:
            self._lone = NEXT

    def flush(self) -> None:
        """Write the queue, unless it lingers."""
        if self._turns_lingered < self.linger_turns and self._queue:
            self._turns_lingered += 1
            self._is_flush_due = True
            self._loop.call_soon(self.flush)
            return
        self._is_flush_due = False
        if self._queue:
            self._write()

    def _flush_turn(self) -> None:
        # With two frames in a turn, it is cheaper to wait for its end: one system call for both.
        is_lone = self._lone == MANY and len(self._queue) == 1 and self._channel.writes_lone_frames
        self._lone = ONE if is_lone else MANY
        self.flush()

    def _write(self) -> None:
        """Write all frames of the queue, which is not empty."""
        queue, self._queue = self._queue, []
        self._sent_bytes += self._queued_bytes
        self._queued_bytes = self._turns_lingered = 0
        channel = self._channel
        try:
            if channel.carries_texts:
                channel.write_texts([text[:-1] if text[-1] == NEWLINE else text for text in queue])
            else:
                channel.write(queue[0] if len(queue) == 1 else b"".join(queue))
        except OSError as fault:
            # The peer may have sent responses before it closed: the channel reports the loss after they are read.
            self._connection.break_off(fault)
            return
        except Exception as fault:  # the channel breaks its contract: nothing else would end the connection
            self._connection.break_off(fault)
            channel.abort()
            return
        # Checking the channel after each small write would take longer than handling a message.
        if self._sent_bytes > HIGH_WATER_BYTES and self.unwritten > HIGH_WATER_BYTES and not self.is_blocked:
            self.is_blocked = True
            self._connection._delivery.update()
