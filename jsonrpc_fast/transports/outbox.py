"""What a connection sends: the queue of frames, the one account of unwritten bytes, and who waits for it to fall.

Rules:
  - Frames are queued and written together, once in each turn of the loop or when WRITE_BYTES are queued. A received
    chunk is a turn of its own, so that its responses leave at once. With `linger_turns` frames wait more turns, in
    order.
  - Where one frame follows each received chunk, a channel with `writes_lone_frames` gets it inside `send`: waiting for
    the end of the turn costs a turn. Two frames in a turn are written together, and so are the next ones.
  - A frame that `send` accepted is written whole, or not at all if the channel breaks or is dropped.
  - With more than HIGH_WATER_BYTES unwritten the outbox is blocked, until LOW_WATER_BYTES or fewer are left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..codec import encode
from ..framing.frames import frame
from .channel import HIGH_WATER_BYTES, LOW_WATER_BYTES
from .waiters import Waiters

if TYPE_CHECKING:
    from ..codec import ParseError
    from .channel import Channel, Events
    from .debug import WireLog
    from .protocol import Sendable
    from .readers import Reader

WRITE_BYTES: Final = 64 * 1024
"""When this many bytes are queued, they are written before the turn of the loop ends."""
NEWLINE: Final = 0x0A

# What `_lone` says of the frames since the last chunk arrived.
MANY: Final = 0
ONE: Final = 1  # one frame follows each chunk, like the calls of a loop that awaits each
NEXT: Final = 2  # as ONE, and the next frame has not been sent: it is written inside `send`


class Owner(Protocol):
    """What the inbox and the outbox need of the connection that they are parts of; it describes the members."""

    channel: Channel
    channel_events: Events
    fault: Exception | None
    onmessage: Callable[[Any], None] | None
    pauses_when_blocked: bool

    @property
    def is_closing(self) -> bool: ...
    def closed_error(self) -> Exception: ...
    def update_reading(self) -> None: ...
    def break_off(self, fault: Exception) -> None: ...
    def fail(self, error: Exception) -> None: ...
    def handle_end(self, is_fault: bool) -> None: ...
    def end_because_of_faults(self, maximum: int) -> None: ...
    def report_invalid(self, fault: ParseError) -> None: ...
    def report_callback_error(self, fault: BaseException) -> None: ...
    def run_callback(self, name: str, callback: Callable[..., object], *arguments: Any) -> None: ...


class Outbox:
    """What one connection sends.

    Args:
        connection: Is notified of faults, and when `is_blocked` has changed.
        channel: Where it goes.
        reader: Knows the framing, which with "auto" is that of the peer.

    Attributes:
        linger_turns: How many more turns of the loop frames wait, so that more of them leave in one write. The owner
            of the connection sets it.
        is_open: Whether frames are accepted: from `open` to `close`.
        is_blocked: Whether too much is unwritten. Set by `write`, reset by `drained` and `close`.
    """

    __slots__ = (
        "_channel",
        "_connection",
        "_drain_waiters",
        "_is_flush_due",  # by the loop, or at the end of the delivery of a chunk
        "_log",
        "_lone",
        "_loop",
        "_may_hold_bytes",  # the channel, so that it must be asked
        "_queue",
        "_queued_bytes",
        "_reader",
        "_takes_lines",  # fast path: bytes that end in a line break are frames, and nothing is logged
        "_turns_lingered",
        "is_blocked",
        "is_open",
        "linger_turns",
    )

    def __init__(self, connection: Owner, channel: Channel, reader: Reader) -> None:
        self._connection = connection
        self._channel = channel
        self._reader = reader
        self._loop: asyncio.AbstractEventLoop
        self._log: WireLog | None = None
        self._queue: list[bytes] = []
        self._queued_bytes = 0
        self._may_hold_bytes = False
        self._takes_lines = False
        self._is_flush_due = False
        self._lone = MANY
        self._turns_lingered = 0
        self._drain_waiters = Waiters()
        self.linger_turns: int = 0
        self.is_open: bool = False
        self.is_blocked: bool = False

    def open(self, log: WireLog | None) -> None:
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

    @property
    def unwritten(self) -> int:
        """How many accepted bytes the system has not taken yet."""
        if not self._may_hold_bytes:
            return self._queued_bytes
        unwritten = self._channel.unwritten
        self._may_hold_bytes = unwritten > 0
        return self._queued_bytes + unwritten

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

    def _frame(self, message: Sendable) -> bytes:
        """Return a message as a frame, or b"" if nothing is to be sent. Raises like `send`."""
        if not self.is_open:
            raise self._connection.closed_error()
        text = message
        if not isinstance(text, bytes):
            text = encode(list(text) if isinstance(text, tuple) else text)
        if text == b"\n":
            return b""
        framing = self._reader.framing
        if framing is not None:
            # A framing that does not mark the end would make several messages of several lines; that of "auto" is not
            # known yet.
            text = frame(text, framing if framing == "content-length" or framing == "sse" else "newline")
        if self._log is not None and text:
            self._log.sent(text, message)
        return text

    async def drain(self) -> None:
        """Wait until the outbox is not blocked; see `Transport.drain`."""
        while self.is_open and self.is_blocked:
            await self._drain_waiters.wait()
        if not self.is_open:
            raise self._connection.closed_error()

    def drained(self) -> None:
        """Handle the fall of the channel's unwritten bytes."""
        if self.is_blocked and self._channel.unwritten <= LOW_WATER_BYTES:
            self.is_blocked = False
            self._connection.update_reading()
            self._drain_waiters.wake()

    def begin_turn(self) -> None:
        """Begin to deliver what arrived: responses are queued until `end_turn`, and written once."""
        self._is_flush_due = True
        if self._lone == NEXT:
            self._lone = ONE

    def end_turn(self) -> None:
        """End what `begin_turn` began."""
        if self._queue:
            self.flush()
        else:
            self._is_flush_due = False
        if self._lone == ONE:
            self._lone = NEXT

    def flush(self) -> None:
        """Write what is queued, unless it lingers."""
        if self._turns_lingered < self.linger_turns and self._queue:
            self._turns_lingered += 1
            self._is_flush_due = True
            self._loop.call_soon(self.flush)
            return
        self._is_flush_due = False
        if self._queue:
            self._write()

    def _flush_turn(self) -> None:
        # With two frames in a turn, waiting for its end is cheaper: one system call for both.
        is_lone = self._lone == MANY and len(self._queue) == 1 and self._channel.writes_lone_frames
        self._lone = ONE if is_lone else MANY
        self.flush()

    def _write(self) -> None:
        """Write all frames of the queue, which is not empty."""
        queue, self._queue = self._queue, []
        self._queued_bytes = self._turns_lingered = 0
        channel = self._channel
        try:
            if channel.carries_texts:
                channel.write_texts([text[:-1] if text[-1] == NEWLINE else text for text in queue])
            else:
                channel.write(queue[0] if len(queue) == 1 else b"".join(queue))
        except OSError as fault:
            self._connection.break_off(fault)  # the channel reports the loss when what arrived is read
            return
        except Exception as fault:  # of a channel that breaks its contract: nothing else would end the connection
            self._connection.break_off(fault)
            channel.abort()
            return
        unwritten = channel.unwritten
        self._may_hold_bytes = unwritten > 0
        if unwritten > HIGH_WATER_BYTES and not self.is_blocked:
            self.is_blocked = True
            self._connection.update_reading()
