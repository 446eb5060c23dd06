"""What all transports over a channel of bytes share.

Rules:
  - a transport is idle, connecting, connected, running, closing, closed, in this order; it may skip some, and never
    goes back, but for a `connect` that failed, which leaves it idle;
  - bytes may be sent while it is connected or running; messages are delivered while it is running;
  - frames are queued and handed to the channel in one write for each turn of the loop, or as soon as WRITE_BYTES of
    them have come together; a chunk that was received counts as a turn, so that the answers to it leave at once.
    With `linger_turns` they wait so many turns more, in their order;
  - a frame that was accepted by `send` leaves whole, or not at all when the channel breaks or is dropped;
  - while reading is paused nothing is delivered; bytes and the end of the stream that come then, or before `start`,
    are kept;
  - one turn of the loop delivers for TURN_SECONDS, in steps of TURN_ITEMS. What is left is delivered in the next turns,
    in order, before more is read;
  - a fault in one message goes to `onerror`, and the next message is read; a fault of the framing ends the stream, and
    the transport closes after `max_faults` faults;
  - the peer's end of the stream closes the transport, once what was accepted is written, unless `onend` is set;
  - no callback is called from inside `send`, `connect`, `start`, `pause_reading` or `resume_reading`; `onclose` is
    called once, and nothing after it.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, Final, TypedDict

from ..codec import Decoder, ParseError, encode
from ..errors import ConnectionLost, StateError
from ..framing.frames import Framing, frame
from ..profile import JSONRPC, Limits, Profile, is_at_least_as_strict
from . import debug
from .options import check_count, check_seconds
from .protocol import Received, Sendable, Transport

__all__ = ["ByteTransport", "Options", "Received", "Sendable", "State", "Transport"]

READ_BYTES: Final = 64 * 1024
"""How much is read from a channel at once."""
WRITE_BYTES: Final = 64 * 1024
"""How much is gathered in one turn of the loop before it is written."""
NEWLINE: Final = 0x0A
TURN_ITEMS: Final = 64
"""How many messages and faults are decoded at once."""
TURN_SECONDS: Final = 0.005
"""After this time in one turn of the loop, delivering goes on in the next turn."""
SMALL_BYTES: Final = 256
"""A chunk of this size is decoded as a whole: it holds few items."""
HIGH_WATER_BYTES: Final = 256 * 1024
"""So much that the channel has not taken yet blocks a transport."""
LOW_WATER_BYTES: Final = 64 * 1024
"""When the channel has no more than this left, the transport is blocked no longer."""

SERVE_SECONDS: Final = 0.5
"""What `serve` has of time to return when its channel is closed, before it is cancelled."""
OVERDUE_SECONDS: Final = 1.0
"""After the time of grace, until who asked for the end of a transport closes it."""


class State(enum.Enum):
    IDLE = "not connected"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"


class Options(TypedDict, total=False):
    """What each transport may be given, see `ByteTransport`."""

    framing: Framing
    profile: Profile
    limits: Limits | None
    raw: bool
    drain_seconds: float | None
    max_faults: int | None


class ByteTransport:
    """A `Transport` over a channel of bytes. Its subclasses say what the channel is.

    framing, profile, limits, raw  as in `Decoder`. What is sent has the same framing; with "auto" it has the peer's,
                                   and newlines before that is known
    drain_seconds                  how long `close` waits for the peer to take what was accepted; None: as long as it
                                   takes
    max_faults                     faulty messages, after which the transport closes; None: no bound

    answers_after_end  whether the peer most likely waits for answers when it has ended its stream, as the client of a
                       process does that closes its stdin
    profile            the rules that messages are decoded by, with the limits
    waits_for_peer     whether `close` waits for the peer's end, so that the peer loses nothing

    Beside the callbacks of the protocol there are two more. When `onend` is set, the peer's end of the stream calls it
    and leaves the transport open for sending, until `close`: so answers that are still being worked on can leave.
    `onstop` is called when this side is to end, because its server closes or its process got a signal: whoever set it
    finishes its work within the seconds that it is given (None: as long as it takes) and closes the transport. Without
    it `onend` is called, and nothing more is read; without both the transport closes.
    """

    answers_after_end: ClassVar[bool] = False
    waits_for_peer: ClassVar[bool] = False

    def __init__(
        self,
        *,
        framing: Framing = "newline",
        profile: Profile = JSONRPC,
        limits: Limits | None = None,
        raw: bool = False,
        drain_seconds: float | None = 5.0,
        max_faults: int | None = None,
    ) -> None:
        check_seconds("drain_seconds", drain_seconds)
        check_count("max_faults", max_faults, 0)
        self._decoder = Decoder(framing, profile, limits, raw)
        self._feed: Callable[..., list[Any]] = self._decoder.feed
        self.profile: Final[Profile] = profile if limits is None else profile.replace(limits=limits)
        self._drain_seconds = drain_seconds
        self._max_faults = max_faults
        self.onmessage: Callable[[Received], None] | None = None
        self.onerror: Callable[[Exception], None] | None = None
        self.onclose: Callable[[], None] | None = None
        self.onend: Callable[[], None] | None = None
        self.onstop: Callable[[float | None], None] | None = None
        self.pauses_when_blocked = True
        self.unanswered = 0
        """How many requests its user left without an answer when it closed: set by a session, read by `run_stdio`."""
        self.linger_turns: int = 0
        """How many more turns of the loop frames wait for others to leave with: for who knows that more are coming."""

        self._loop: asyncio.AbstractEventLoop
        self._state = State.IDLE
        self._log: debug.Log | None = None
        self._waiters: list[asyncio.Future[None]] = []  # for the end of the channel
        self._closing_timer: asyncio.TimerHandle | None = None
        self._cut_off_bytes = 0  # which the peer did not take in time
        # Sending.
        self._may_send = False
        self._sends_lines = False  # it may send, without a word to the log, what ends in a line break
        self._fault: Exception | None = None  # what broke the channel
        self._queue: list[bytes] = []
        self._queue_bytes = 0
        self._is_flush_due = False
        self._turns_lingered = 0
        self._is_blocked = False
        self._drainers: list[asyncio.Future[None]] = []
        # Receiving.
        self._is_paused = False  # by the user
        self._is_reading = False  # the channel is asked for bytes
        self._delivers = False  # it is running, and neither paused nor blocked
        self._held: list[Any] = []  # decoded, and not yet delivered
        self._kept = bytearray()  # received, and not yet decoded
        self._is_behind = False  # something of these waits, or in the decoder
        self._is_turn_due = False
        self._faults = 0
        self._loss: tuple[Exception | None] | None = None  # the channel is gone, but it is behind
        self._has_ended = False  # the peer's side of the stream
        self._was_last_decoded = False  # what the end of the stream makes of the bytes before it
        self._is_framing_broken = False  # which is why
        self._was_end_told = False

    # What a subclass does.

    async def _open(self) -> None:
        """Opens the channel, without reading from it. Leaves nothing open when it raises."""
        raise NotImplementedError

    def _read_channel(self, wanted: bool) -> None:
        """Begins or stops to call `_bytes_received` and `_end_received`."""
        raise NotImplementedError

    def _write(self, data: bytes) -> None:
        """Takes bytes, and keeps those that the system does not take yet. Calls `_block` when they are too many."""
        raise NotImplementedError

    def _unwritten_bytes(self) -> int:
        """How many bytes it keeps."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Closes the channel when all is written; at last `_lost` is called."""
        raise NotImplementedError

    def _abort(self) -> None:
        """Closes the channel without writing; soon, but not at once, `_lost` is called with `_fault`."""
        raise NotImplementedError

    def _label(self) -> str:
        """What the channel is, for the log."""
        raise NotImplementedError

    # The states.

    @property
    def is_connected(self) -> bool:
        """The channel is open: messages may be sent."""
        return self._may_send

    async def connect(self) -> None:
        """Opens the channel. Raises StateError when it is open or was closed, OSError when it cannot be opened."""
        if self._state is not State.IDLE:
            raise StateError(f"the transport is {self._state.value}")
        self._state = State.CONNECTING
        self._loop = asyncio.get_running_loop()
        try:
            await self._open()
        finally:
            if self._state is State.CONNECTING:
                self._state = State.IDLE
        if self._state is not State.IDLE:
            self._abort()
            raise ConnectionLost("the transport was closed while it was connecting")
        self._state = State.CONNECTED
        self._log = debug.log_for(self._label(), self._decoder, self.profile.limits)
        if self._log is not None:
            self._feed = self._log.feed
        self._may_send = True
        self._sends_lines = self._decoder.framing == "newline" and self._log is None

    async def start(self) -> None:
        """Connects if that was not done, and begins to deliver. Raises StateError the second time."""
        if self._state is State.IDLE:
            await self.connect()
        if self._state is not State.CONNECTED:
            raise StateError(f"the transport is {self._state.value}")
        self._state = State.RUNNING
        self._judge_reading()

    async def close(self) -> None:
        """Writes what was accepted, for `drain_seconds` at the most, and closes the channel.

        What still arrives is dropped. A second call does nothing but wait for the first. A call that is cancelled goes
        on in the background.
        """
        self._begin_closing(self._drain_seconds)
        await self.wait_closed()

    async def disconnect(self) -> None:
        """Closes the channel at once. What was accepted and not yet written is dropped."""
        if self._state in (State.IDLE, State.CONNECTING):
            self._lost(None)
        elif self._state is not State.CLOSED:
            if self._loss is not None:
                self._stop_delivering()
            else:
                self._end_sending(State.CLOSING)
                self._queue.clear()
                self._queue_bytes = 0
                self._abort()
            await self.wait_closed()

    async def wait_closed(self) -> None:
        """Waits until the transport is closed, and `onclose` has been called."""
        if self._state is not State.CLOSED:
            await self._wait(self._waiters)

    def _begin_closing(self, drain_seconds: float | None) -> None:
        if self._state in (State.IDLE, State.CONNECTING):
            self._lost(None)
        elif self._loss is not None:
            self._stop_delivering()
        elif self._state in (State.CONNECTED, State.RUNNING):
            self.linger_turns = 0
            self._flush()
            self._end_sending(State.CLOSING)
            self._held.clear()
            self._kept.clear()
            if drain_seconds is not None:
                self._closing_timer = self._loop.call_later(drain_seconds, self._drained_too_long)
            self._finish()

    def _drained_too_long(self) -> None:
        self._cut_off_bytes = self._unwritten_bytes()
        self._abort()

    def _ask_to_end(self, grace_seconds: float | None, drain_seconds: float | None) -> None:
        """Has whoever uses the transport finish its work and close it; see `onstop`."""
        if self._state is not State.RUNNING:
            self._begin_closing(drain_seconds)
        elif self.onstop is not None:
            self._call_back(partial(self.onstop, grace_seconds), "onstop")
        elif self.onend is not None:
            self.pause_reading()
            if not self._was_end_told:
                self._was_end_told = True
                self._call_back(self.onend, "onend")
        else:
            self._begin_closing(drain_seconds)

    def _break(self, fault: Exception) -> None:
        """Nothing can be sent any more, because of `fault`. The state stays as it is, and `_lost` is to come."""
        if self._state is not State.CLOSED and self._fault is None:
            self._fault = fault
        self._stop_sending()

    def _stop_sending(self) -> None:
        self._may_send = self._sends_lines = False
        self._queue.clear()
        self._queue_bytes = 0
        self._is_blocked = False
        self._judge_reading()
        self._wake(self._drainers)

    def _read_failed(self, fault: OSError) -> None:
        self._break(fault)
        self._abort()

    def _end_sending(self, state: State) -> None:
        self._state = state
        self._may_send = self._sends_lines = self._delivers = False

    def _lost(self, fault: Exception | None) -> None:
        """The channel is closed; `fault` is what broke it, if this side did not close it."""
        if self._state is State.CLOSED:
            return
        self._fault = self._fault or fault
        self._may_send = self._sends_lines = False
        self._queue.clear()
        self._queue_bytes = 0
        if self._state is State.RUNNING and self._is_behind and self._loss is None:
            # What is left came before the fault, and an answer among it settles a call.
            self._loss = (fault,)
            self._delivers = True
            self._deliver([], has_more=True)
        if self._loss is not None and self._is_behind and self._delivers:
            return  # the turn that delivers the last of it comes back here
        self._end_sending(State.CLOSED)
        self._held.clear()
        self._kept.clear()
        if self._closing_timer is not None:
            self._closing_timer.cancel()
        if fault is not None:
            self._report(fault)
        if self._log is not None:
            self._log.closed(self._fault)
        if self.onclose is not None:
            self._call_back(self.onclose, "onclose")
        self._put_away()
        for waiters in (self._drainers, self._waiters):
            self._wake(waiters)

    def _put_away(self) -> None:
        """What a subclass does when the transport is closed."""

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
        """How many bytes `send` accepted that the system has not taken yet."""
        return self._queue_bytes + (self._unwritten_bytes() if self._may_send or self._state is State.CLOSING else 0)

    def send(self, message: Sendable) -> None:
        """Encodes a message, or a batch, and queues it. It never blocks.

        bytes are one JSON text, as `encode` gives it; one that ends in a line break has no other. What stands for no
        message (`b""`, an empty batch) is not sent.

        Raises StateError before the transport is connected, ConnectionLost afterwards, EncodeError, TypeError or
        ValueError for what cannot be written; then nothing is queued.
        """
        # What the encoders give is a frame already, most of the time.
        if self._sends_lines and type(message) is bytes and message and message[-1] == NEWLINE:
            framed = message
        else:
            framed = self._frame(message)
            if not framed:
                return
        self._queue.append(framed)
        self._queue_bytes = queued = self._queue_bytes + len(framed)
        if queued >= WRITE_BYTES:
            self._write_queue()
        elif not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    async def drain(self) -> None:
        """Waits until the write buffer is below its high-water mark. Raises StateError and ConnectionLost as `send`."""
        while self._may_send and self._is_blocked:
            await self._wait(self._drainers)
        if not self._may_send:
            raise self._refusal()

    def _refusal(self) -> Exception:
        if self._state in (State.IDLE, State.CONNECTING):
            return StateError(f"the transport is {self._state.value}")
        refusal = ConnectionLost("the transport is closed" if self._fault is None else "the channel broke")
        refusal.__cause__ = self._fault
        return refusal

    def _frame(self, message: Sendable) -> bytes:
        """A message as it goes out; b"" for none. Raises as `send` does."""
        if not self._may_send:
            raise self._refusal()
        if isinstance(message, bytes):
            text = message
        else:
            text = encode(list(message) if isinstance(message, tuple) else message)
        framing = self._decoder.framing
        framed = frame(text, "newline" if framing == "auto" else framing)  # the peer has not yet shown what it speaks
        if self._log is not None and framed:
            self._log.sent(framed, message)
        return framed

    def _flush(self) -> None:
        if self._turns_lingered < self.linger_turns and self._queue:
            self._turns_lingered += 1
            self._is_flush_due = True
            self._loop.call_soon(self._flush)
            return
        self._is_flush_due = False
        if self._queue:
            self._write_queue()

    def _write_queue(self) -> None:
        queue = self._queue
        data = queue[0] if len(queue) == 1 else b"".join(queue)
        queue.clear()
        self._queue_bytes = 0
        self._turns_lingered = 0
        self._write(data)

    def _block(self, is_blocked: bool) -> None:
        """Called when what the channel keeps goes over the high-water mark, and when it is below the low one again."""
        self._is_blocked = is_blocked
        self._judge_reading()
        if not is_blocked:
            self._wake(self._drainers)

    # Receiving.

    def pause_reading(self) -> None:
        """Nothing more is delivered until `resume_reading`."""
        self._is_paused = True
        self._judge_reading()

    def resume_reading(self) -> None:
        """Undoes `pause_reading`."""
        self._is_paused = False
        self._judge_reading()

    def _judge_reading(self) -> None:
        """Makes the channel read or rest, as the flags want it."""
        if self._state is not State.RUNNING:
            return
        if self._loss is not None:
            if self._is_behind and self._delivers:
                self._deliver_soon()
            return
        self._delivers = not self._is_paused and not (self._is_blocked and self.pauses_when_blocked)
        if self._is_behind or self._has_ended:
            if self._delivers:
                self._deliver_soon()
            if self._has_ended:
                return
        reads = self._delivers and not self._is_behind
        if self._is_reading is not reads:
            self._is_reading = reads
            self._read_channel(reads)

    def _bytes_received(self, data: bytes | bytearray | memoryview) -> None:
        if not self._delivers or self._is_behind:
            if self._state is not State.CLOSING and self._state is not State.CLOSED:
                self._kept += data
                self._is_behind = True
        elif len(data) <= SMALL_BYTES:
            items = self._feed(data)
            if items:
                self._deliver(items)
            if self._decoder.ended:
                self._framing_broke()
        else:
            items = self._feed(data, TURN_ITEMS)
            if items:
                self._deliver(items, has_more=self._decoder.has_more)
            if self._decoder.ended:
                self._framing_broke()

    def _end_received(self) -> None:
        """The peer's side of the stream has ended."""
        if self._has_ended or self._state is State.CLOSING or self._state is State.CLOSED:
            return
        self._has_ended = True
        if self._delivers and not self._is_behind:
            self._deliver(self._last_items())
        else:
            self._is_behind = True
        self._judge_reading()

    def _framing_broke(self) -> None:
        if not self._has_ended:
            self._has_ended = self._is_framing_broken = True
            self._judge_reading()

    def _last_items(self) -> list[Any]:
        self._was_last_decoded = True
        return self._decoder.close()

    def _deliver(self, items: list[Any], has_more: bool = False) -> None:
        """Delivers items. has_more: and what waits behind them, for the rest of this turn of the loop."""
        self._is_flush_due = True  # there is one write at the end of this
        try:
            end = self._loop.time() + TURN_SECONDS if has_more else 0.0
            self._hand_out(items)
            if has_more:
                while self._delivers and not (items and self._loop.time() >= end):
                    items = self._next_items()
                    if not items:
                        break
                    self._hand_out(items)
        finally:
            if has_more or self._held or self._kept:
                self._is_behind = self._is_anything_left()
                if self._decoder.ended:
                    self._framing_broke()
                self._judge_reading()
            self._flush()

    def _next_items(self) -> list[Any]:
        """The next of what waits, a few at a time; nothing when nothing waits."""
        while True:
            if self._held:
                items, self._held = self._held, []
            elif self._decoder.has_more:
                items = self._feed(b"", TURN_ITEMS)
            elif self._kept:
                data, self._kept = self._kept, bytearray()
                items = self._feed(data, TURN_ITEMS)
            elif self._has_ended and not self._was_last_decoded:
                items = self._last_items()
            else:
                return []
            if items:
                return items

    def _is_anything_left(self) -> bool:
        is_last_left = self._has_ended and not self._was_last_decoded and not self._is_framing_broken
        return bool(self._held or self._kept or self._decoder.has_more or is_last_left)

    def _hand_out(self, items: Iterable[Any]) -> None:
        pending = iter(items)
        try:
            for item in pending:
                if not self._delivers:
                    self._held.append(item)
                    return
                kind = type(item)
                # Written out twice, for a call would cost half as much as the decoding.
                if kind is ParseError or kind is list or self.onmessage is None:
                    self._deliver_one(item)
                    continue
                try:
                    self.onmessage(item)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:  # a CancelledError would take the channel with it
                    self._report_fault_of_callback(error)
        finally:
            self._held += pending

    def _deliver_one(self, item: Any) -> None:
        if isinstance(item, ParseError):
            self._report(item)
            self._count_faults(1)
            return
        if self.onmessage is not None:
            try:
                self.onmessage(item)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                self._report_fault_of_callback(error)
        if type(item) is list:
            self._count_faults(sum(type(one) is ParseError for one in item))

    def _deliver_soon(self) -> None:
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._deliver_more)

    def _deliver_more(self) -> None:
        """One more turn for what waits; then the end of the stream, if it has come."""
        self._is_turn_due = False
        if not self._delivers:
            return
        if self._is_behind:
            self._deliver([], has_more=True)
        if not self._delivers or self._is_behind:
            return
        if self._loss is not None:
            self._lost(self._loss[0])
        elif not self._has_ended:
            self._judge_reading()
        elif self.onend is None or self._is_framing_broken:
            self._begin_closing(self._drain_seconds)
        elif not self._was_end_told:
            self._was_end_told = True
            self._call_back(self.onend, "onend")

    def _stop_delivering(self) -> None:
        """The user closes a transport whose channel is gone, and that is behind."""
        if self._loss is not None and self._delivers:
            self._delivers = False
            self._loop.call_soon(self._lost, self._loss[0])

    # Faults.

    def _report(self, fault: Exception) -> None:
        if self._log is not None:
            self._log.fault(fault)
        if self.onerror is not None:
            try:
                self.onerror(fault)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                self._report_unhandled(error, "onerror")

    def _count_faults(self, count: int) -> None:
        self._faults += count
        if self._max_faults is not None and self._faults > self._max_faults and self._fault is None:
            self._fault = ConnectionLost(f"the peer sent more than {self._max_faults} faulty messages")
            self._begin_closing(self._drain_seconds)

    def _call_back(self, callback: Callable[[], None], name: str) -> None:
        try:
            callback()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._report_unhandled(error, name)

    def _report_fault_of_callback(self, fault: BaseException) -> None:
        if self.onerror is None or not isinstance(fault, Exception):
            self._report_unhandled(fault, "onmessage")
        else:
            self._report(fault)

    def _report_unhandled(self, fault: BaseException, callback: str) -> None:
        context = {"message": f"an exception in {callback} of a transport", "exception": fault, "transport": self}
        asyncio.get_running_loop().call_exception_handler(context)


def is_strict_enough(transport: Transport, profile: Profile) -> bool:
    """Return whether a transport lets no message pass that breaks `profile`; False if it does not tell its rules."""
    rules = getattr(transport, "profile", None)
    return isinstance(rules, Profile) and is_at_least_as_strict(rules, profile)
