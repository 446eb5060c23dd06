"""A transport over a channel: the only state machine of a connection.

A `Channel` moves bytes or texts, a decoder turns them into messages, and the `Outbox` (outbox.py), its base, queues
frames. `Connection` has the states, the turns in which messages are delivered, the ends and the user's callbacks.

Rules:
  - A connection is idle, connecting, connected, running, lost, closing, closed, in this order. It may skip states and
    never goes back, except that a `connect` that fails leaves it idle. Messages may be sent while it is connected or
    running, and are delivered while it is running or lost.
  - When the peer ends its stream, the connection writes all accepted messages and closes, unless `onend` is set.
  - No callback runs inside `send`, `connect`, `start`, `pause_reading` or `resume_reading`. `onclose` is called once,
    and no callback after it.

Received data:
  - What has arrived waits only as bytes, in the decoder or before it: while reading is paused, before `start`, and when
    a turn is over. A step decodes at most STEP_ITEMS messages (with `onread` four times as many), and all of them are
    delivered, unless one closes the connection.
  - One turn of the loop delivers for TURN_SECONDS. The rest is delivered in the next turns, in order, before more is
    read. Connections that have a rest share the time: ten peers that flood delay the others no longer than one.
  - `onread`, if set, gets the messages of a step before the first of them is delivered. `onlate`, if set, is called
    when the turn is over and messages of the step are left: they are delivered all the same.
  - An invalid message goes to `onerror`, and the stream continues. A framing fault ends the stream, and so do more than
    `max_faults` invalid messages: what came before is served. A peer that keeps sending after that is cut off when
    DROPPED_BYTES have arrived.
  - When the channel is lost, what has arrived is delivered first: a response in it settles a call.

Sent data:
  - Frames are queued and written together, once in each turn of the loop or when WRITE_BYTES are queued. A received
    chunk is a turn of its own, so that its responses leave at once.
  - A frame that `send` accepted is written whole, or not at all if the channel breaks or is dropped. The log says how
    many bytes a closing connection drops because the peer does not read.
"""

from __future__ import annotations

import asyncio
import enum
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from time import monotonic
from typing import Any, Final, Never

from ..codec import Decoder, ParseError, decode
from ..codec.encoders import PLAIN, Encoders
from ..errors import ConnectionLost, StateError, lost, run_callback
from ..framing.frames import Framing
from ..profile import JSONRPC, Limits, Profile, check_profile
from ..support import (
    Seldom,
    TaskPart,
    check_callable,
    check_count,
    check_seconds,
    check_type,
    logger_of,
    unknown_option,
)
from ..types import TURN_SECONDS, UNSET, Unset
from .channel import Channel, Events
from .outbox import Outbox
from .protocol import drop_callbacks
from .readers import Reader, StreamReader, TextReader, WireLog, log_for

SERVE_SECONDS: Final = 0.5
"""How long a `serve` function may continue after its channel is closed, before it is cancelled."""
STEP_ITEMS: Final = 64
"""How many messages and faults are decoded at a time, at most; a batch ends such a step."""
_SMALL_BYTES: Final = 256
"""Chunks of up to this size hold few items, which are decoded at once."""
DROPPED_BYTES: Final = 1024 * 1024
"""How much may arrive after a fault, while the connection closes, before it is aborted."""
CALLBACK_FAILURES: Final = (Exception, asyncio.CancelledError, GeneratorExit)
"""The exceptions that `onmessage` may raise: all except `errors.LOOP_EXITS`. CancelledError may come from a future's
`result`."""
_logger: Final = logger_of("transports")
_undrained: Final = Seldom()


class State(enum.Enum):
    """The states of a connection, in their order."""

    IDLE = "not connected"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RUNNING = "running"
    LOST = "lost"  # the channel is; what has arrived is being delivered
    CLOSING = "closing"
    CLOSED = "closed"


_RUNNING: Final = State.RUNNING  # looked up once: before Python 3.12 access to enum members is slow
_LOST: Final = State.LOST


class Turns(threading.local):
    """The turns that the loop of each thread is about to give to what is left: they share the time of one."""

    def __init__(self) -> None:
        self._loop: Callable[[], object] = lambda: None  # a weak reference
        self._due = 0

    def due(self, loop: asyncio.AbstractEventLoop, change: int = 0) -> int:
        """Return how many a loop is about to give, after a change. What an earlier loop of the thread owed is gone."""
        if self._loop() is not loop:
            self._loop, self._due = weakref.ref(loop), 0
        self._due = max(0, self._due + change)
        return self._due

    def seconds(self, loop: asyncio.AbstractEventLoop) -> float:
        """Return how long the present one may take."""
        return TURN_SECONDS / self._share(loop)

    def items(self, loop: asyncio.AbstractEventLoop) -> int:
        """Return how many messages and faults a step of the present one may decode."""
        return max(1, STEP_ITEMS // self._share(loop))

    def _share(self, loop: asyncio.AbstractEventLoop) -> int:
        # Shorter turns spend most of their time on writing: with ten floods they halve what a server serves.
        return min(4, 1 + self.due(loop))


turns: Final = Turns()


def _nothing() -> None:
    pass


def unknown_transport_option(owner: type, name: str, more: Iterable[str] = ()) -> TypeError:
    """Return the exception for an option that neither a class nor those above it have; `more` are known, too."""
    if name == "timeout":
        return TypeError(f"{owner.__name__} has no option 'timeout': it belongs to Session, blocking or a call")
    defaults = [getattr(vars(kind).get("__init__"), "__kwdefaults__", None) or () for kind in owner.__mro__]
    return unknown_option(owner.__name__, name, [*chain(*defaults), *more])


class Connection(Outbox):
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
        profile: The rules that every delivered message obeys.
        fault: The exception that broke the connection, or None.
        undrained_bytes: How many bytes the peer had not taken after `drain_seconds`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    __slots__ = (
        "_chunks",
        "_closing_timer",
        "_drain_seconds",
        "_faults_left",
        "_has_ended",
        "_is_paused",
        "_is_turn_due",
        "_kept",
        "_opening",
        "_reads",
        "_small_bytes",
        "_state",
        "_unread_bytes",
        "channel_events",
        "fault",
        "profile",
        "undrained_bytes",
    )
    profile: Profile
    onend: Callable[[], None] | None

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
        **unknown: Never,
    ) -> None:
        for name in unknown:
            raise unknown_transport_option(type(self), name)
        check_type("channel", channel, Channel)
        if profile is not JSONRPC:
            check_profile(profile)
        if limits is not None:
            check_type("limits", limits, Limits)
            profile = profile.replace(limits=limits)
        if decode is not None:
            check_callable("decode", decode)
        check_seconds("drain_seconds", drain_seconds)
        check_count("max_faults", max_faults, 0)
        if channel.carries_texts and framing is not None:
            raise TypeError("a channel of texts has no framing")
        self.profile = profile
        encoders = PLAIN if profile is JSONRPC else Encoders(profile)
        log = log_for(channel)
        decoder = _decoder_for(channel, framing or "newline", profile, raw, resync, decode, encoders, log)
        super().__init__(channel, encoders, decoder, log)
        self.channel_events: Events = Events(self.received, self.drained, self._on_loss)
        self.fault: Exception | None = None
        self.undrained_bytes: int = 0
        self._chunks = 0  # how many times something has arrived
        self._state = State.IDLE
        self._opening: TaskPart | None = None  # set while it is connecting
        # Limits the time until the connection begins to close, and then the time that closing takes: a user or a peer
        # that does nothing must not keep it open.
        self._closing_timer: asyncio.TimerHandle | None = None
        self._drain_seconds = drain_seconds
        self._faults_left = max_faults
        self._kept: deque[Any] | None = None  # what has arrived and is not fed to the decoder
        self._small_bytes = 0 if isinstance(decoder, StreamReader) else _SMALL_BYTES  # what is decoded as a whole
        self._unread_bytes = 0  # received since the last whole message; when it closes, since then
        self._reads = False  # the channel is read, and what arrives is delivered at once; only `update` sets it
        self._is_paused = False  # by the user
        self._is_turn_due = False  # `_turn` is scheduled
        self._has_ended = False  # nothing more is read: the peer's stream has ended, or has a framing fault

    # Properties.

    def __repr__(self) -> str:
        peer = f" peer={self.peer!r}" if self.is_connected else ""
        return f"<{type(self).__name__} {self._state.value}{peer}>"

    @property
    def state(self) -> State:
        """The state. Only the methods of this class change it."""
        return self._state

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closing or closed."""
        return self._state is State.CLOSING or self._state is State.CLOSED

    @property
    def received_chunks(self) -> int:
        return self._chunks

    @property
    def is_reading(self) -> bool:
        return self._reads or self.is_closing

    @property
    def is_inside_message(self) -> bool:
        """Whether something has arrived that is not a whole message yet, or is not decoded."""
        return self._unread_bytes > 0 or self._kept is not None

    def held_bytes(self) -> int:
        """About how many bytes are received but not delivered, kept by the user, or sent but not written."""
        kept = 0 if self.kept_bytes is None else self.kept_bytes()
        return self._unread_bytes + sum(map(len, self._kept or ())) + self.write_buffer_bytes + kept

    # Opening.

    async def connect(self) -> None:
        if self._state is not State.IDLE:
            raise self._state_error()
        if not self.channel.is_accepted:
            await self._open_channel()
        self._connected()

    async def _open_channel(self) -> None:
        self._state = State.CONNECTING
        is_open = False
        opening = self._opening = TaskPart()
        try:
            with opening:
                await self.channel.open(self.channel_events)
                is_open = True
        finally:
            self._opening = None
            if self._state is State.CONNECTING:
                self._state = State.IDLE
        if self._state is not State.IDLE:
            if is_open:
                self.channel.abort()
            raise ConnectionLost("the transport was closed while it was connecting")

    def _connected(self) -> None:
        self._state = State.CONNECTED
        self._loop = asyncio.get_running_loop()
        if self._log is not None:
            self._log.connected(self._decoder.framing)
        self.open_outbox()

    async def start(self) -> None:
        if self._state is State.IDLE and not self.channel.is_accepted:
            await self.connect()
        self.begin()

    def begin(self) -> None:
        """Do what `start` does, at once: the transport is connected, or its channel was accepted."""
        if self._state is State.IDLE and self.channel.is_accepted:
            self._connected()
        if self._state is not State.CONNECTED:
            raise self._state_error()
        self._state = _RUNNING
        self.update()

    def _state_error(self) -> StateError:
        return StateError(f"the transport is {self._state.value}")

    # Receiving.

    def pause_reading(self) -> None:
        self._is_paused = True
        self.update()

    def resume_reading(self) -> None:
        self._is_paused = False
        self.update()

    @property
    def _may_deliver(self) -> bool:
        is_held = self._is_paused or (self.is_blocked and self.pauses_when_blocked)
        return self._state is _LOST or (self._state is _RUNNING and not is_held)

    @property
    def _has_backlog(self) -> bool:
        """Whether something has arrived that may hold a whole message."""
        return (self._kept is not None or self._decoder.has_more) and not (self._has_ended and self._is_refused)

    @property
    def _is_refused(self) -> bool:
        """Whether the peer has sent more faults than `max_faults`: what follows is not read."""
        return self._faults_left is not None and self._faults_left < 0

    def update(self) -> None:
        """Start or stop reading and delivering, according to the state."""
        may_deliver, has_backlog = self._may_deliver, self._has_backlog
        if may_deliver and (has_backlog or self._has_ended) and not self._is_turn_due:
            self._is_turn_due = True
            turns.due(self._loop, 1)
            if has_backlog:
                # Two turns later: what is scheduled now runs before the loop serves the sockets that have become
                # readable meanwhile.
                self._loop.call_soon(self._loop.call_soon, self._turn)
            else:
                self._loop.call_soon(self._turn)
        reads = may_deliver and not has_backlog and not self._has_ended
        if reads is not self._reads and self._state is _RUNNING:
            self._reads = reads
            if not self._has_ended:
                self.channel.set_reading(reads)

    def received(self, data: Any) -> None:
        """Handle data that arrived on the channel; see `Events`."""
        self._chunks += bool(data)  # an end is no chunk
        if not self._reads or not data:
            if data or not self._reads or not self.channel.is_accepted:
                self._keep(data)  # the loss of a client's channel, which says why it ended, may follow its end at once
            else:
                self._has_ended, self._reads = True, False
                self._finish_reading()
            return
        is_small = len(data) <= self._small_bytes
        try:
            items = self._decoder.feed(data) if is_small else self._decoder.feed(data, turns.items(self._loop))
        except Exception as error:
            self.fail(error)
            return
        if not items:
            self._unread_bytes += len(data)
            return
        self._unread_bytes = 0
        self.begin_turn()
        try:
            if not is_small:
                end = self._end_of_turn()
                self._deliver(items, end)
                self._deliver_backlog(end)
            elif len(items) > 1 or type(items[0]) is ParseError or type(items[0]) is list:
                self._deliver(items, self._end_of_turn())
            # One message is the whole chunk: like `_deliver`, of which the call alone would cost a twentieth.
            elif (onmessage := self.onmessage) is not None:
                try:
                    response = onmessage(items[0])
                    if type(response) is bytes:
                        self.respond(response)
                except CALLBACK_FAILURES as error:
                    self.report_callback_error(error)
        finally:
            self.end_turn()
            if not is_small:
                self.update()

    def deliver(self, items: list[Any]) -> None:
        """Deliver decoded messages and faults; for subclasses whose channel has to decode them."""
        self._chunks += 1
        self.begin_turn()
        try:
            self._deliver(items)
        finally:
            self.end_turn()

    def _keep(self, data: Any) -> None:
        """Handle data that cannot be delivered now, or the end of the stream."""
        if self._has_ended or self.is_closing:
            # It has arrived too late. A peer that keeps sending after its fault is cut off.
            if self.fault is not None or self._decoder.ended:
                self._unread_bytes += sum(map(len, data)) if type(data) is list else len(data)
                if self._unread_bytes > DROPPED_BYTES:
                    self.channel.abort()
            return
        if data:
            if self._kept is None:
                self._kept = deque()
            self._kept.append(bytes(data) if type(data) is memoryview else data)
        else:
            self._has_ended = True
        self.update()

    def _end_of_turn(self) -> float:
        # Not the loop's time: that of uvloop has milliseconds.
        return monotonic() + turns.seconds(self._loop)

    def _turn(self) -> None:
        """Deliver what has arrived for one turn, then handle the end of the stream or of the channel."""
        self._is_turn_due = False
        turns.due(self._loop, -1)
        if not self._may_deliver:
            return
        self.begin_turn()
        try:
            end = self._end_of_turn()
            if self._has_backlog:
                self._deliver_step(end)
            self._deliver_backlog(end)
        finally:
            self.end_turn()
            if self._has_backlog or not self._may_deliver or not (self._has_ended or self._state is _LOST):
                self.update()
            else:
                self._finish_reading()

    def _finish_reading(self) -> None:
        """Handle the end of the stream or of the channel, behind which nothing is left to deliver."""
        if self._has_ended and not self._is_refused and (left := self._decoded(self._decoder.close)):  # a part of one
            self._deliver(left)
            if not self._may_deliver:
                self.update()
                return
        if self._state is _LOST:
            self._end()
        elif self.onend is None:
            self.begin_closing()
        else:
            self.report_end()

    def _deliver_backlog(self, end: float) -> None:
        """Deliver what has arrived until the time `end`."""
        while self._has_backlog and self._may_deliver and monotonic() < end:
            self._deliver_step(end)

    def _deliver_step(self, end: float) -> None:
        """Decode a step, and deliver it. It may be empty although more is left: it may be a part of a long message."""
        data: Any = b""
        if self._kept is not None and not self._decoder.has_more:
            data = self._kept.popleft()
            if not self._kept:
                self._kept = None
        items = self._decoded(self._decoder.feed, data, turns.items(self._loop))
        self._unread_bytes = 0 if items else self._unread_bytes + len(data)
        self._deliver(items, end)

    def _decoded(self, read: Callable[..., list[Any]], *arguments: Any) -> list[Any]:
        try:
            return read(*arguments)
        except Exception as error:
            self.fail(error)
            return []

    def _deliver(self, items: list[Any], end: float | None = None) -> None:
        """Deliver items, until one of them closes the connection. From the time `end` on, `onlate` knows about it."""
        if len(items) > 1 and self.onread is not None:
            # A cancellation may follow its request at some distance.
            while self._decoder.has_more and len(items) < 4 * STEP_ITEMS and (end is None or monotonic() < end):
                items += self._decoded(self._decoder.feed, b"", STEP_ITEMS)
            self.run_callback("onread", self.onread, items)
        respond, state = self.respond, self._state
        late = None  # the first is in time: a busy machine may take the whole turn from this process before it
        pending = iter(items)
        try:
            for item in pending:
                if late is not None and monotonic() >= late:
                    end = None
                    if self.onlate is not None:
                        self.run_callback("onlate", self.onlate)
                kind, onmessage = type(item), self.onmessage
                if kind is ParseError:
                    self._deliver_fault(item, self._decoder.ended and item is items[-1])
                elif onmessage is not None:
                    # Inlined from `run_callback`: a call costs half as much as the decoding.
                    try:
                        response = onmessage(item)
                        if type(response) is bytes:
                            respond(response)
                    except CALLBACK_FAILURES as error:
                        self.report_callback_error(error)
                    if kind is list:
                        self._count_faults([one for one in item if type(one) is ParseError])
                if self._state is not state or (self._has_ended and self._is_refused):
                    return
                late = end
        except BaseException:  # one of `errors.LOOP_EXITS`; the messages behind it are delivered all the same
            self._deliver(list(pending))
            raise

    def _deliver_fault(self, fault: ParseError, is_last: bool) -> None:
        self.report_invalid(fault)
        self._count_faults([fault])
        if is_last:  # of the stream: it is one of the framing
            self._break_by(str(fault), fault)
            self._has_ended = True
            self.update()

    def _count_faults(self, faults: list[ParseError]) -> None:
        if self._faults_left is not None and faults:
            self._faults_left -= len(faults)
            if self._faults_left < 0:
                # The last one says what the peer does.
                self._break_by("the peer sent more invalid messages than max_faults allows", faults[-1])
                # As behind the end of its stream: what came before is served, and no response will come.
                self._has_ended = True
                self.update()

    def report_end(self) -> None:
        """Call `onend`, once: the peer has ended its stream, or this side has to end."""
        if self.onend is not None:
            onend, self.onend = self.onend, _nothing
            self.run_callback("onend", onend)

    # Closing.

    async def close(self) -> None:
        self.begin_closing()
        await self.wait_closed()

    async def disconnect(self) -> None:
        self.abort()
        await self.wait_closed()

    async def wait_closed(self) -> None:
        """Wait until the transport is closed and `onclose` has been called."""
        while self._state is not State.CLOSED:
            await self._changed.wait()

    def begin_closing(self, drain_seconds: float | Unset | None = UNSET) -> None:
        """Begin what `close` does, without waiting.

        Args:
            drain_seconds: Replaces the option of the same name.
        """
        if self._state is State.CONNECTED or self._state is State.RUNNING:
            self.linger_turns = 0
            if self._queue:
                self.flush()
            self._stop(State.CLOSING)
            self._limit_closing(self._drain_seconds if isinstance(drain_seconds, Unset) else drain_seconds)
            self.finish_channel()
        elif not self.is_closing:
            self.abort()

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
            self._end()
            self.channel.abort()
        elif self._state is State.CONNECTING:
            opening = self._opening
            self._end()
            # Otherwise the channel itself ends its opening.
            if opening is not None and opening.task is not asyncio.current_task():
                opening.cancel()
        elif self._state is State.LOST:
            self._stop(State.CLOSING)
            self._loop.call_soon(self._end)
        elif self._state is not State.CLOSED:
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
            # One second more: a session needs some time to count the requests without a response.
            self._closing_timer = loop.call_later(grace_seconds + 1.0, self.begin_closing)
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
        self.close_outbox()
        self._reads = False
        self._kept = None
        self._unread_bytes = 0

    def break_off(self, fault: Exception) -> None:
        """Stop sending because of a fault. The state does not change: the loss follows."""
        if self._state is not State.CLOSED and self.fault is None:
            self.fault = fault
        self.close_outbox()
        self.update()

    def _break_by(self, text: str, cause: Exception) -> None:
        """Note what the peer has sent that breaks the connection: it is reported when the channel is lost."""
        # It arrived before the channel was lost, or before a write failed, although it is delivered later.
        if self.fault is None or not isinstance(self.fault.__cause__, ParseError):
            self.fault = ConnectionLost(text)
            self.fault.__cause__ = cause

    def _on_loss(self, fault: Exception | None) -> None:
        """Handle the end of the channel."""
        self.fault = self.fault or fault
        # What arrived before the loss is delivered first: a call whose response is in it must not be sent again.
        if self._state is _RUNNING and (self._has_ended or self._has_backlog):
            self.close_outbox()
            self._state = _LOST
            self.update()
        elif self._state is not State.LOST:
            self._end()

    def _end(self) -> None:
        """Close, because the channel is lost. Further calls do nothing."""
        if self._state is State.CLOSED:
            return
        self._stop(State.CLOSED)
        if self._closing_timer is not None:
            self._closing_timer.cancel()
        fault: BaseException | None = self.fault
        if self.fault is not None:
            self._report(self.fault)
        if self._log is not None:
            self._log.closed(self.fault)
        if self.onclose is not None:
            self.run_callback("onclose", self.onclose)
        self.closed()
        # What is closed forms no cycle: it is freed although no garbage is collected. The frames of an error of the
        # system refer to the channel, and say nothing that its text does not.
        while isinstance(fault, (OSError, ConnectionLost)):
            fault.__traceback__ = None
            fault = fault.__cause__ or fault.__context__
        drop_callbacks(self)
        self.channel_events.end()

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


def _decoder_for(
    channel: Channel,
    framing: Framing,
    profile: Profile,
    raw: bool,
    resync: bool,
    read: Callable[[Any], Any] | None,
    encoders: Encoders,
    log: WireLog | None,
) -> Decoder[Any] | Reader:
    listen = encoders.listener()
    if not channel.carries_texts and read is None and listen is None and log is None:
        return Decoder(framing, profile, raw=raw, resync=resync)
    # The backend's decoder cannot call a function for each text, so these split the stream in Python.
    read = partial(decode, profile=profile, raw=raw) if read is None else read
    if channel.carries_texts:
        return TextReader(read, listen, log)
    return StreamReader(framing, profile, resync, read, listen, log)
