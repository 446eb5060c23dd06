"""What all transports over a channel of bytes share.

Rules:
  - a transport is idle, connecting, connected, running, closing, closed, in this order; it may skip some, and never
    goes back, but for a `connect` that failed, which leaves it idle;
  - bytes may be sent while it is connected or running; messages are delivered while it is running;
  - frames are queued and handed to the channel in one write for each turn of the loop, or as soon as WRITE_BYTES of
    them have come together; a chunk that was received counts as a turn, so that the answers to it leave at once.
    With `linger_turns` they wait so many turns more, in their order;
  - a frame that was accepted by `send` leaves whole, or not at all when the channel breaks or is dropped;
  - while reading is paused nothing is delivered: what is left of a chunk that was decoded already is kept;
  - a fault in one message goes to `onerror`, and the next message is read; a fault of the framing ends the stream;
  - the peer's end of the stream closes the transport, once what was accepted is written, unless `onend` is set;
  - no callback is called from inside `send`, `connect`, `start`, `pause_reading` or `resume_reading`; `onclose` is
    called once, and nothing after it.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, TypedDict

from ..codec import Decoder, ParseError, encode
from ..errors import ConnectionLost, StateError
from ..framing import Framing, frame
from ..profile import JSONRPC, Limits, Profile
from . import debug
from .protocol import Received, Sendable, Transport

__all__ = ["ByteTransport", "Options", "Received", "Sendable", "State", "Transport"]

READ_BYTES: Final = 64 * 1024
"""How much is read from a channel at once."""
WRITE_BYTES: Final = 64 * 1024
"""How much is gathered in one turn of the loop before it is written."""
NEWLINE: Final = 0x0A
HIGH_WATER_BYTES: Final = 256 * 1024
"""So much that the channel has not taken yet blocks a transport."""
LOW_WATER_BYTES: Final = 64 * 1024
"""When the channel has no more than this left, the transport is blocked no longer."""


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
    drain_seconds: float


class ByteTransport:
    """A `Transport` over a channel of bytes. Its subclasses say what the channel is.

    framing, profile, limits, raw  as in `Decoder`. What is sent has the same framing; with "auto" it has the peer's,
                                   and newlines before that is known
    drain_seconds                  how long `close` waits for the peer to take what was accepted

    answers_after_end  whether the peer most likely waits for answers when it has ended its stream, as the client of a
                       process does that closes its stdin
    waits_for_peer     whether `close` waits for the peer's end, so that the peer loses nothing

    Beside the callbacks of the protocol there is `onend`. When it is set, the peer's end of the stream calls it and
    leaves the transport open for sending, until `close`: so answers that are still being worked on can leave.
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
        drain_seconds: float = 5.0,
    ) -> None:
        self._decoder = Decoder(framing, profile, limits, raw)
        self._feed: Callable[[Any], list[Any]] = self._decoder.feed
        self._limits = profile.limits if limits is None else limits
        self._drain_seconds = drain_seconds
        self.onmessage: Callable[[Received], None] | None = None
        self.onerror: Callable[[Exception], None] | None = None
        self.onclose: Callable[[], None] | None = None
        self.onend: Callable[[], None] | None = None
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
        self._is_resting = False  # by the user, or because it is blocked
        self._is_reading = False  # the channel is asked for bytes
        self._delivers = False  # it is running and does not rest
        self._held: list[Any] = []  # decoded while it rested
        self._has_ended = False  # the peer's side of the stream
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
        self._log = debug.log_for(self._label(), self._decoder, self._limits)
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
            self._end_sending(State.CLOSING)
            self._queue.clear()
            self._queue_bytes = 0
            self._abort()
            await self.wait_closed()

    async def wait_closed(self) -> None:
        """Waits until the transport is closed, and `onclose` has been called."""
        if self._state is not State.CLOSED:
            await self._wait(self._waiters)

    def _begin_closing(self, drain_seconds: float) -> None:
        if self._state in (State.IDLE, State.CONNECTING):
            self._lost(None)
        elif self._state in (State.CONNECTED, State.RUNNING):
            self.linger_turns = 0
            self._flush()
            self._end_sending(State.CLOSING)
            self._held.clear()
            self._closing_timer = self._loop.call_later(drain_seconds, self._abort)
            self._finish()

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
        if self._state is State.RUNNING:
            # These came before the fault, and an answer among them settles a call.
            held, self._held = self._held, []
            for item in held:
                self._deliver_one(item)
        self._end_sending(State.CLOSED)
        self._held.clear()
        if self._closing_timer is not None:
            self._closing_timer.cancel()
        if fault is not None:
            self._report(fault)
        if self._log is not None:
            self._log.closed(self._fault)
        if self.onclose is not None:
            try:
                self.onclose()
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                self._report_unhandled(error, "onclose")
        for waiters in (self._drainers, self._waiters):
            self._wake(waiters)

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
        self._is_resting = self._is_paused or (self._is_blocked and self.pauses_when_blocked)
        self._delivers = not self._is_resting
        if self._held or self._has_ended:
            self._loop.call_soon(self._deliver_held)
        elif self._is_reading is self._is_resting:
            self._is_reading = self._delivers
            self._read_channel(self._delivers)

    def _bytes_received(self, data: bytes | bytearray | memoryview) -> None:
        if self._state is not State.RUNNING:
            return
        items = self._feed(data)
        if items:
            self._deliver(items)
        if self._decoder.ended and not self._has_ended:
            self._has_ended = self._is_framing_broken = True
            self._judge_reading()

    def _end_received(self) -> None:
        """The peer's side of the stream has ended."""
        if self._state is State.RUNNING and not self._has_ended:
            self._has_ended = True
            self._deliver(self._decoder.close())
            self._judge_reading()

    def _deliver(self, items: Iterable[Any]) -> None:
        self._is_flush_due = True  # there is one write at the end of this
        pending = iter(items)
        try:
            for item in pending:
                if not self._delivers:
                    self._held += (item, *pending)
                    break
                # Written out twice, for a call would cost half as much as the decoding.
                if type(item) is ParseError or self.onmessage is None:
                    self._deliver_one(item)
                    continue
                try:
                    self.onmessage(item)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:  # a CancelledError would take the channel with it
                    self._report_fault_of_callback(error)
        finally:
            self._flush()

    def _deliver_one(self, item: Any) -> None:
        if isinstance(item, ParseError):
            self._report(item)
        elif self.onmessage is not None:
            try:
                self.onmessage(item)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                self._report_fault_of_callback(error)

    def _deliver_held(self) -> None:
        if not self._delivers:
            return
        held, self._held = self._held, []
        self._deliver(held)
        if not self._delivers or self._held:
            return
        if not self._has_ended:
            self._judge_reading()
        elif self.onend is None or self._is_framing_broken:
            self._begin_closing(self._drain_seconds)
        elif not self._was_end_told:
            self._was_end_told = True
            try:
                self.onend()
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                self._report_fault_of_callback(error)

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

    def _report_fault_of_callback(self, fault: BaseException) -> None:
        if self.onerror is None or not isinstance(fault, Exception):
            self._report_unhandled(fault, "onmessage")
        else:
            self._report(fault)

    def _report_unhandled(self, fault: BaseException, callback: str) -> None:
        context = {"message": f"an exception in {callback} of a transport", "exception": fault, "transport": self}
        asyncio.get_running_loop().call_exception_handler(context)
