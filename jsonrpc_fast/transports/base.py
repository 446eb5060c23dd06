"""The base of all transports. `byte_transport` is that of transports over a channel of bytes.

One class, although long: connecting, delivering, sending and closing are one state machine, and share its state.

Rules:
  - A transport is idle, connecting, connected, running, closing, closed, in this order. It may skip states and never
    goes back, except that a `connect` that fails leaves it idle.
  - Messages may be sent while it is connected or running, and are delivered while it is running.
  - Frames are queued and written together, once in each turn of the loop or when WRITE_BYTES are queued. A received
    chunk counts as a turn, so that its replies leave at once. With `linger_turns` frames wait more turns, in order.
  - Where one frame follows each received chunk, a transport with `writes_lone_frames` writes it inside `send`: waiting
    for the end of the turn costs a turn. Two frames in a turn are written together, and so are the next ones.
  - A frame that `send` accepted is written whole, or not at all if the channel breaks or is dropped.
  - Nothing is delivered while reading is paused. Bytes, and the end of the stream, that arrive then or before `start`
    are kept.
  - One turn of the loop delivers for TURN_SECONDS. The rest is the backlog: it is decoded and delivered in the next
    turns, in order, before more is read. Whatever a channel has to do for what it received, such as taking frames
    apart, is done step by step in `_next_items`, so that no peer holds the loop for longer.
  - An invalid message goes to `onerror`, and the stream goes on. A framing fault ends the stream, and more than
    `max_faults` invalid messages close the transport. A peer that goes on sending after a fault is cut off when
    DROPPED_BYTES have arrived.
  - When the peer ends its stream, the transport writes what was accepted and closes, unless `onend` is set.
  - No callback runs inside `send`, `connect`, `start`, `pause_reading` or `resume_reading`. `onclose` is called once,
    and no callback after it.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, Final

from .._checks import check_callable, check_count, check_seconds, check_type
from ..codec import ParseError, encode
from ..errors import LOOP_EXITS, ConnectionLost, StateError
from ..profile import JSONRPC, Limits, Profile
from . import debug
from .protocol import Sendable, Transport

READ_BYTES: Final = 64 * 1024
"""How many bytes are read from a channel at a time."""
WRITE_BYTES: Final = 64 * 1024
"""When this many bytes are queued, they are written before the turn of the loop ends."""
NEWLINE: Final = 0x0A
TURN_ITEMS: Final = 64
"""How many messages and faults are decoded at a time. A batch ends such a step."""
TURN_SECONDS: Final = 0.005
"""After this time, delivering continues in the next turn of the loop."""
DROPPED_BYTES: Final = 1024 * 1024
"""How much may arrive after a fault, while the connection closes, before it is aborted."""
HIGH_WATER_BYTES: Final = 256 * 1024
"""With more unwritten bytes than this, a transport is blocked."""
LOW_WATER_BYTES: Final = 64 * 1024
"""A blocked transport is unblocked when no more than this is unwritten."""

SERVE_SECONDS: Final = 0.5
"""How long a `serve` function may go on after its channel is closed, before it is cancelled."""
OVERDUE_SECONDS: Final = 1.0
"""How long after the grace period a transport that does not close is closed."""


class State(enum.Enum):
    IDLE = "not connected"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"


class BaseTransport(Transport):
    """What `ByteTransport` and `MessageTransport` have in common: states, the queue of frames, and delivering.

    Args:
        profile: The rules for decoding.
        limits: Replace the limits of `profile` if given.
        raw: Whether payloads are left undecoded, as in `Decoder`.
        drain_seconds: How long `close` waits for the peer to take what was accepted; None: without limit.
        max_faults: The number of invalid messages after which one more closes the transport; None: without limit.
        decode: Reads each text in place of the codec. What it returns goes to `onmessage`, or to `onerror` if it is a
            `ParseError`. It must not raise. None: the codec reads.

    Attributes:
        profile: The rules for decoding, with the limits.
        linger_turns: How many more turns of the loop frames wait, so that more of them leave in one write.
        writes_lone_frames: Whether the channel may be written inside `send`, because it calls nothing back.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    writes_lone_frames: ClassVar[bool] = False

    def __init__(
        self,
        *,
        profile: Profile = JSONRPC,
        limits: Limits | None = None,
        raw: bool = False,
        drain_seconds: float | None = 5.0,
        max_faults: int | None = None,
        decode: Callable[[Any], Any] | None = None,
    ) -> None:
        check_type("profile", profile, Profile)
        check_type("limits", limits, Limits, may_be_none=True)
        check_callable("decode", decode)
        check_seconds("drain_seconds", drain_seconds)
        check_count("max_faults", max_faults, 0)
        self._raw = raw
        self.profile: Profile = profile if limits is None else profile.replace(limits=limits)
        self._drain_seconds = drain_seconds
        self._max_faults = max_faults
        self._decode_text = decode
        self.linger_turns: int = 0

        self._loop: asyncio.AbstractEventLoop
        self._state = State.IDLE
        self._log: debug.Log | None = None
        self._close_waiters: list[asyncio.Future[None]] = []
        self._closing_timer: asyncio.TimerHandle | None = None
        self._undrained_bytes = 0  # not taken by the peer within `drain_seconds`
        # Sending.
        self._may_send = False
        self._may_send_lines = False  # fast path: bytes that end in a line break are frames, and nothing is logged
        self._fault: Exception | None = None  # what broke the channel
        self._queue: list[bytes] = []
        self._queue_bytes = 0
        self._may_hold_bytes = False  # the channel
        self._is_flush_due = False
        self._turns_lingered = 0
        self._is_alone = False  # one frame follows each received chunk, like the calls of a loop that awaits each
        self._writes_at_once = False  # the next frame, because it is probably alone
        self._is_blocked = False
        self._drain_waiters: list[asyncio.Future[None]] = []
        # Receiving.
        self._chunks = 0
        self._is_paused = False  # by the user
        self._is_reading = False
        self._may_deliver = False  # running, and neither paused nor blocked
        self._undelivered: list[Any] = []  # decoded items
        self._has_backlog = False  # this is not empty, or there is more to decode
        self._is_delivery_due = False
        self._faults = 0
        self._dropped_bytes = 0
        self._pending_loss: tuple[Exception | None] | None = None  # the channel is closed, but there is a backlog
        self._has_ended = False  # the peer's side of the stream
        self._is_framing_broken = False  # the reason why the stream has ended
        self._is_end_reported = False

    # The channel, for subclasses to implement. All of these are called on the loop's thread.

    async def open_channel(self) -> None:
        """Open the channel without reading from it. Leave nothing open on failure.

        Raises:
            OSError: It cannot be opened.
        """
        raise NotImplementedError

    def set_reading(self, wanted: bool) -> None:
        """Start or stop reading from the channel. What arrives while reading is stopped is kept.

        The default does nothing: it is for channels that cannot stop, and what they keep has no bound.
        """

    def unwritten_bytes(self) -> int:
        """Return how many bytes were written to the channel and are not yet taken by the system. The default is 0."""
        return 0

    def finish_channel(self) -> None:
        """Close the channel when everything is written, then call `channel_lost`, during this call or later."""
        raise NotImplementedError

    def abort_channel(self) -> None:
        """Close the channel without writing; call `channel_lost` later, not during this call."""
        raise NotImplementedError

    def channel_name(self) -> str:
        """Return a name of the channel, for the log. The default is the name of the class."""
        return type(self).__name__

    def release_channel(self) -> None:
        """Release what the subclass holds; called once, after `onclose`. The default does nothing."""

    # Events of the channel, for subclasses to call on the loop's thread.

    def end_received(self) -> None:
        """Handle the end of what the peer sends."""
        if self._has_ended or self._state is State.CLOSING or self._state is State.CLOSED:
            return
        self._has_ended = True
        if self._may_deliver and not self._has_backlog:
            self._deliver(self._next_items())
        else:
            self._has_backlog = True
        self._update_reading()

    def set_blocked(self, is_blocked: bool) -> None:
        """Handle the unwritten bytes rising above the high-water mark (True), or falling to the low one (False)."""
        self._is_blocked = is_blocked
        self._update_reading()
        if not is_blocked:
            self._wake(self._drain_waiters)

    def channel_lost(self, fault: Exception | None = None) -> None:
        """Handle the end of the channel. Further calls do nothing.

        Args:
            fault: What broke it, for `onerror`; None if one of the sides closed it.
        """
        if self._state is State.CLOSED:
            return
        fault = fault or self._fault
        self._fault = self._fault or fault
        self._may_send = self._may_send_lines = False
        self._clear_queue()
        if self._state is State.RUNNING and self._has_backlog and self._pending_loss is None:
            # The backlog arrived before the fault, and a response in it settles a call.
            self._pending_loss = (fault,)
            self._may_deliver = True
            self._deliver([], has_more=True)
        if self._pending_loss is not None and self._has_backlog and self._may_deliver:
            return  # `_deliver_backlog` calls this again after the last item
        self._stop_traffic(State.CLOSED)
        self._clear_backlog()
        if self._closing_timer is not None:
            self._closing_timer.cancel()
        if fault is not None:
            self._report(fault)
        if self._log is not None:
            self._log.closed(self._fault)
        if self.onclose is not None:
            self._run_callback(self.onclose, "onclose")
        self.release_channel()
        for waiters in (self._drain_waiters, self._close_waiters):
            self._wake(waiters)

    def held_bytes(self) -> int:
        """Return about how many bytes are received but not delivered, kept by the user, or sent but not written."""
        return self.write_buffer_bytes + (0 if self.kept_bytes is None else self.kept_bytes())

    # What the two kinds of transports do differently.

    def _open_log(self) -> None:
        raise NotImplementedError

    def _framed(self, text: bytes) -> bytes:
        """Return a text, which ends in a line break or in none, as a frame; b"" if nothing is to be sent."""
        raise NotImplementedError

    def _write_queue(self) -> None:
        """Write all frames of the queue, which is not empty."""
        raise NotImplementedError

    def _next_items(self) -> list[Any]:
        """Take one step through the backlog. Return the items that it ended, if any."""
        raise NotImplementedError

    def _update_backlog(self) -> None:
        """Set `_has_backlog`: whether a step is left for `_next_items`."""
        raise NotImplementedError

    def _clear_backlog(self) -> None:
        self._undelivered.clear()

    # States.

    @property
    def is_connected(self) -> bool:
        return self._may_send

    @property
    def received_chunks(self) -> int:
        """How often something has arrived on the channel."""
        return self._chunks

    @property
    def is_reading(self) -> bool:
        """Whether the channel is read. It is not while the user, or a backlog, makes the peer wait."""
        return self._is_reading

    def _state_error(self) -> StateError:
        return StateError(f"the transport is {self._state.value}")

    async def connect(self) -> None:
        if self._state is not State.IDLE:
            raise self._state_error()
        self._state = State.CONNECTING
        self._loop = asyncio.get_running_loop()
        try:
            await self.open_channel()
        finally:
            if self._state is State.CONNECTING:
                self._state = State.IDLE
        if self._state is not State.IDLE:
            self.abort_channel()
            raise ConnectionLost("the transport was closed while it was connecting")
        self._state = State.CONNECTED
        self._open_log()
        self._may_send = True

    async def start(self) -> None:
        if self._state is State.IDLE:
            await self.connect()
        if self._state is not State.CONNECTED:
            raise self._state_error()
        self._state = State.RUNNING
        self._update_reading()

    async def close(self) -> None:
        self._begin_closing(self._drain_seconds)
        await self.wait_closed()

    async def disconnect(self) -> None:
        if self._state in (State.IDLE, State.CONNECTING):
            self.channel_lost(None)
        elif self._state is not State.CLOSED:
            if self._pending_loss is not None:
                self._drop_backlog()
            else:
                self._stop_traffic(State.CLOSING)
                self._clear_queue()
                self.abort_channel()
            await self.wait_closed()

    async def wait_closed(self) -> None:
        """Wait until the transport is closed and `onclose` has been called."""
        if self._state is not State.CLOSED:
            await self._wait(self._close_waiters)

    def _begin_closing(self, drain_seconds: float | None) -> None:
        if self._state in (State.IDLE, State.CONNECTING):
            self.channel_lost(None)
        elif self._pending_loss is not None:
            self._drop_backlog()
        elif self._state in (State.CONNECTED, State.RUNNING):
            self.linger_turns = 0
            self._flush()
            self._stop_traffic(State.CLOSING)
            self._clear_backlog()
            if drain_seconds is not None:
                self._closing_timer = self._loop.call_later(drain_seconds, self._on_drain_timeout)
            self.finish_channel()

    def _on_drain_timeout(self) -> None:
        self._undrained_bytes = self.unwritten_bytes()
        self.abort_channel()

    def _request_stop(self, grace_seconds: float | None, drain_seconds: float | None) -> None:
        """Ask the user of the transport to finish and close it; see `onstop`."""
        if self._state is not State.RUNNING:
            self._begin_closing(drain_seconds)
        elif self.onstop is not None:
            self._run_callback(partial(self.onstop, grace_seconds), "onstop")
        elif self.onend is not None:
            self.pause_reading()
            self._report_end()
        else:
            self._begin_closing(drain_seconds)

    def _break(self, fault: Exception) -> None:
        """Stop sending because of `fault`. The state does not change, and `channel_lost` follows."""
        if self._state is not State.CLOSED and self._fault is None:
            self._fault = fault
        self._stop_sending()

    def _stop_sending(self) -> None:
        self._may_send = self._may_send_lines = False
        self._clear_queue()
        self._is_blocked = False
        self._update_reading()
        self._wake(self._drain_waiters)

    def _read_failed(self, fault: OSError) -> None:
        self._break(fault)
        self.abort_channel()

    def _stop_traffic(self, state: State) -> None:
        self._state = state
        self._may_send = self._may_send_lines = self._may_deliver = False

    async def _wait(self, waiters: list[asyncio.Future[None]]) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in waiters:
                waiters.remove(waiter)

    def _wake(self, waiters: list[asyncio.Future[None]]) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        waiters.clear()

    # Sending.

    @property
    def write_buffer_bytes(self) -> int:
        # Sessions ask before each message: ask the channel only while it may hold bytes.
        if not self._may_hold_bytes:
            return self._queue_bytes
        unwritten = self.unwritten_bytes() if self._may_send or self._state is State.CLOSING else 0
        self._may_hold_bytes = unwritten > 0
        return self._queue_bytes + unwritten

    def send(self, message: Sendable) -> None:
        # The encoders usually return a whole frame.
        if self._may_send_lines and type(message) is bytes and message and message[-1] == NEWLINE:
            framed = message
        else:
            framed = self._frame(message)
            if not framed:
                return
        self._queue.append(framed)
        self._queue_bytes = queued = self._queue_bytes + len(framed)
        if queued >= WRITE_BYTES:
            self._may_hold_bytes = True
            self._write_queue()
        elif self._writes_at_once and not self.linger_turns:
            self._writes_at_once = False
            self._may_hold_bytes = True
            self._write_queue()
        elif not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush_turn)

    def _frame(self, message: Sendable) -> bytes:
        """Return a message as a frame, or b"" if nothing is to be sent. Raises like `send`."""
        if not self._may_send:
            raise self._closed_error()
        if isinstance(message, bytes):
            text = message
        else:
            text = encode(list(message) if isinstance(message, tuple) else message)
        framed = self._framed(text)
        if self._log is not None and framed:
            self._log.sent(framed, message)
        return framed

    async def drain(self) -> None:
        while self._may_send and self._is_blocked:
            await self._wait(self._drain_waiters)
        if not self._may_send:
            raise self._closed_error()

    def _closed_error(self) -> Exception:
        if self._state in (State.IDLE, State.CONNECTING):
            return self._state_error()
        error = ConnectionLost("the transport is closed" if self._fault is None else "the channel broke")
        error.__cause__ = self._fault
        return error

    def _flush_turn(self) -> None:
        # A second frame of a turn ends the writing at once: together they cost one call of the system.
        self._is_alone = self.writes_lone_frames and not self._is_alone and len(self._queue) == 1
        self._flush()

    def _flush(self) -> None:
        if self._turns_lingered < self.linger_turns and self._queue:
            self._turns_lingered += 1
            self._is_flush_due = True
            self._loop.call_soon(self._flush)
            return
        self._is_flush_due = False
        if self._queue:
            self._may_hold_bytes = True
            self._write_queue()

    def _clear_queue(self) -> None:
        self._queue.clear()
        self._queue_bytes = 0

    # Receiving.

    def pause_reading(self) -> None:
        self._is_paused = True
        self._update_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._update_reading()

    def _update_reading(self) -> None:
        """Start or stop reading and delivering, according to the state."""
        if self._state is not State.RUNNING:
            return
        if self._pending_loss is not None:
            if self._has_backlog and self._may_deliver:
                self._schedule_delivery()
            return
        self._may_deliver = not self._is_paused and not (self._is_blocked and self.pauses_when_blocked)
        if self._has_backlog or self._has_ended:
            if self._may_deliver:
                self._schedule_delivery()
            if self._has_ended:
                return
        reads = self._may_deliver and not self._has_backlog
        if self._is_reading is not reads:
            self._is_reading = reads
            self.set_reading(reads)

    def _deliver(self, items: list[Any], has_more: bool = False) -> None:
        """Deliver items; if `has_more`, also the backlog behind them. What takes too long is left to the next turn."""
        self._is_flush_due = True  # replies are queued, and written once at the end
        self._writes_at_once = False
        try:
            end = self._loop.time() + TURN_SECONDS
            self._deliver_items(items, end)
            takes_step = has_more and not (items and self._loop.time() >= end)
            while takes_step and self._may_deliver:
                items = self._next_items()
                if items:
                    self._deliver_items(items, end)
                else:
                    self._update_backlog()
                takes_step = (bool(items) or self._has_backlog) and self._loop.time() < end
        finally:
            if has_more or self._undelivered or self._has_backlog:
                self._update_backlog()
                self._update_reading()
            self._flush()
            self._writes_at_once = self._is_alone

    def _deliver_one(self, item: Any) -> None:
        """Deliver an item that is the whole chunk; otherwise as `_deliver`."""
        self._is_flush_due = True
        self._writes_at_once = False
        try:
            if type(item) is ParseError or type(item) is list or self.onmessage is None:
                self._deliver_item(item)
            else:
                try:
                    self.onmessage(item)
                except LOOP_EXITS:
                    raise
                except BaseException as error:  # a CancelledError would break the channel
                    self._report_callback_error(error)
        finally:
            if self._has_backlog:
                self._update_backlog()
                self._update_reading()
            if self._queue:
                self._flush()
            else:
                self._is_flush_due = False
            self._writes_at_once = self._is_alone

    def _deliver_items(self, items: Iterable[Any], end: float) -> None:
        """Deliver items until the loop's time is `end`, at least one. The others are `_undelivered`."""
        pending = iter(items)
        try:
            for item in pending:
                if not self._may_deliver:
                    self._undelivered.append(item)
                    return
                kind = type(item)
                # Inlined from `_deliver_item`: a call costs half as much as the decoding.
                if kind is ParseError or kind is list or self.onmessage is None:
                    self._deliver_item(item)
                else:
                    try:
                        self.onmessage(item)
                    except LOOP_EXITS:
                        raise
                    except BaseException as error:  # a CancelledError would break the channel
                        self._report_callback_error(error)
                if self._loop.time() >= end:
                    return
        finally:
            self._undelivered += pending

    def _deliver_item(self, item: Any) -> None:
        if isinstance(item, ParseError):
            self._report(item)
            self._count_faults(1)
            return
        if self.onmessage is not None:
            try:
                self.onmessage(item)
            except LOOP_EXITS:
                raise
            except BaseException as error:
                self._report_callback_error(error)
        if type(item) is list:
            self._count_faults(sum(type(one) is ParseError for one in item))

    def _schedule_delivery(self) -> None:
        if not self._is_delivery_due:
            self._is_delivery_due = True
            self._loop.call_soon(self._deliver_backlog)

    def _deliver_backlog(self) -> None:
        """Deliver the backlog for one turn, then handle the end of the stream or of the channel."""
        self._is_delivery_due = False
        if not self._may_deliver:
            return
        if self._has_backlog:
            self._deliver([], has_more=True)
        if not self._may_deliver or self._has_backlog:
            return
        if self._pending_loss is not None:
            self.channel_lost(self._pending_loss[0])
        elif not self._has_ended:
            self._update_reading()
        elif self.onend is None or self._is_framing_broken:
            self._begin_closing(self._drain_seconds)
        else:
            self._report_end()

    def _report_end(self) -> None:
        if self.onend is not None and not self._is_end_reported:
            self._is_end_reported = True
            self._run_callback(self.onend, "onend")

    def _drop_backlog(self) -> None:
        """Close a transport whose channel is closed already, without delivering its backlog."""
        if self._pending_loss is not None and self._may_deliver:
            self._may_deliver = False
            self._loop.call_soon(self.channel_lost, self._pending_loss[0])

    # Faults.

    def _report(self, fault: Exception) -> None:
        if self._log is not None:
            self._log.fault(fault)
        if self.onerror is not None:
            self._run_callback(partial(self.onerror, fault), "onerror")

    def _count_faults(self, count: int) -> None:
        self._faults += count
        if self._max_faults is not None and self._faults > self._max_faults and self._fault is None:
            self._fault = ConnectionLost(f"the peer sent more than {self._max_faults} invalid messages")
            self._begin_closing(self._drain_seconds)

    def _drop_received(self, size: int, is_fault: bool) -> None:
        """Count bytes that arrived too late. If that is the peer's fault, and it does not stop, abort."""
        if is_fault and self._dropped_bytes <= DROPPED_BYTES:
            self._dropped_bytes += size
            if self._dropped_bytes > DROPPED_BYTES:
                self.abort_channel()

    def _run_callback(self, callback: Callable[[], None], name: str) -> None:
        try:
            callback()
        except LOOP_EXITS:
            raise
        except BaseException as error:
            self._report_unhandled(error, name)

    def _report_callback_error(self, fault: BaseException) -> None:
        if self.onerror is None or not isinstance(fault, Exception):
            self._report_unhandled(fault, "onmessage")
        else:
            self._report(fault)

    def _report_unhandled(self, fault: BaseException, callback: str) -> None:
        context = {"message": f"exception in {callback} of a transport", "exception": fault, "transport": self}
        asyncio.get_running_loop().call_exception_handler(context)
