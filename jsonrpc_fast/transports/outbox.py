"""The sending half of a connection: it queues frames, and writes them together."""

from __future__ import annotations

import asyncio
from typing import Any, Final, assert_never

from ..codec import Decoder
from ..codec.encoders import Encoders
from ..framing.frames import frame
from ..support import Waiters
from .channel import HIGH_WATER_BYTES, LOW_WATER_BYTES, Channel
from .protocol import Sendable, Transport
from .readers import Reader, WireLog

WRITE_BYTES: Final = 64 * 1024
"""When this many bytes are queued, they are written before the turn of the loop ends."""

# The values of `_frames_after_chunk`. When one frame has followed a chunk, and the channel has `writes_lone_frames`,
# the next one is written inside `send`: waiting for the end of the turn would cost a turn. When two follow a chunk,
# they are written together, and so are the next ones. A caller that awaits each call sends one:
#
#     chunk   send, end of turn: ONE    chunk: NEXT   send: written at once, ONE    chunk: NEXT ...
MANY: Final = 0
ONE: Final = 1
NEXT: Final = 2  # like ONE, before the next frame: that one is written inside `send`


class Outbox(Transport):
    """The sending half of a `Connection`.

    Attributes:
        channel: Gets the frames.
        encoders: Write messages as the profile says, in the form of the peer.
        linger_turns: How many more turns of the loop frames wait, so that more of them leave in one write.
        is_open: Whether frames are accepted.
        is_blocked: Whether too much is unwritten: more than HIGH_WATER_BYTES, until LOW_WATER_BYTES or fewer are left.
    """

    __slots__ = (
        "_changed",
        "_decoder",
        "_frames_after_chunk",
        "_is_flush_due",
        "_log",
        "_loop",
        "_queue",
        "_queued_bytes",
        "_sent_bytes",
        "_takes_lines",
        "channel",
        "encoders",
        "is_blocked",
        "is_open",
        "linger_turns",
    )
    channel: Channel

    def __init__(
        self, channel: Channel, encoders: Encoders, decoder: Decoder[Any] | Reader, log: WireLog | None
    ) -> None:
        self.channel = channel
        self.encoders: Encoders = encoders
        self._decoder = decoder  # knows the framing: with "auto", that of the peer
        self._log = log
        self._loop: asyncio.AbstractEventLoop
        self._changed = Waiters()  # those who wait until it is neither blocked nor open, or until it is closed
        self._queue: list[bytes] = []
        self._queued_bytes = 0
        self._sent_bytes = 0  # unwritten at the last check, plus what was sent since: at least what the channel holds
        self._takes_lines = False  # fast path: bytes that end in a line break are frames, and nothing is logged
        self._is_flush_due = False  # the loop, or the end of a chunk's delivery, will write the queue
        self._frames_after_chunk = MANY
        self.linger_turns: int = 0
        self.is_open: bool = False
        self.is_blocked: bool = False

    # For subclasses.

    def break_off(self, fault: Exception) -> None:
        """Stop sending because of a fault."""
        raise NotImplementedError

    def closed_error(self) -> Exception:
        """Return the exception for a message that cannot be sent in this state."""
        raise NotImplementedError

    def update(self) -> None:
        """Called when `is_blocked` has changed."""
        raise NotImplementedError

    def open_outbox(self) -> None:
        """Accept frames from now on."""
        is_plain = self._log is None and not self._has_other_send
        self._takes_lines = is_plain and self._decoder.framing in ("newline", "concatenated", None)
        self.is_open = True

    @property
    def _has_other_send(self) -> bool:
        """Whether a `send` of a subclass, or one set on the object, stands before this one: nothing may pass it by."""
        return type(self).send is not Outbox.send or "send" in self.__dict__

    def close_outbox(self) -> None:
        """Accept no more frames, and drop those that are queued."""
        self.is_open = self._takes_lines = self.is_blocked = False
        self._queue.clear()
        self._queued_bytes = 0
        if self._changed:
            self._changed.wake()

    # Sending.

    @property
    def is_connected(self) -> bool:
        return self.is_open

    @property
    def write_buffer_bytes(self) -> int:
        if self._sent_bytes:
            self._sent_bytes = self.channel.unwritten
        return self._queued_bytes + self._sent_bytes

    def send(self, message: Sendable) -> None:
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
            self._write_queue()
        elif not self._is_flush_due:
            if self._frames_after_chunk == NEXT and not self.linger_turns:
                self._frames_after_chunk = ONE
                self._write_queue()
            else:
                self._is_flush_due = True
                self._loop.call_soon(self._flush_turn)

    def respond(self, line: bytes) -> None:
        """Queue what `onmessage` has returned during a turn, unless the connection is closed."""
        if self._takes_lines:
            self._queue.append(line)
            self._queued_bytes = queued = self._queued_bytes + len(line)
            if queued >= WRITE_BYTES:
                self._write_queue()
        elif self.is_open:
            self.send(line)

    def _frame(self, message: Sendable) -> bytes:
        """Return a message as a frame, or b"" if nothing is to be sent. Raises like `send`."""
        if not self.is_open:
            raise self.closed_error()
        text = message
        if not isinstance(text, bytes):
            text = self.encoders.encode(list(text) if isinstance(text, tuple) else text)
        if text == b"\n":
            return b""
        framing = self._decoder.framing
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

    async def drain(self) -> None:
        while self.is_open and self.is_blocked:
            await self._changed.wait()
        if not self.is_open:
            raise self.closed_error()

    def drained(self) -> None:
        """Handle a decrease of the channel's unwritten bytes."""
        if self.is_blocked and self.channel.unwritten <= LOW_WATER_BYTES:
            self.is_blocked = False
            self.update()
            self._changed.wake()

    def begin_turn(self) -> None:
        """Begin to deliver a chunk: responses are queued until `end_turn`, and written together."""
        self._is_flush_due = True
        if self._frames_after_chunk == NEXT:
            self._frames_after_chunk = ONE

    def end_turn(self) -> None:
        """Write the responses queued since `begin_turn`."""
        if self._queue and self.linger_turns:
            self.flush()
        else:
            self._is_flush_due = False
            if self._queue:
                self._write_queue()
        if self._frames_after_chunk == ONE:
            self._frames_after_chunk = NEXT

    def flush(self) -> None:
        """Write the queued frames now, not at the end of the turn of the loop, unless they linger."""
        if self.linger_turns and self._queue:
            self._is_flush_due = True
            self._loop.call_soon(self._linger, 1)
            return
        self._is_flush_due = False
        if self._queue:
            self._write_queue()

    def _linger(self, turns: int) -> None:
        if turns < self.linger_turns and self._queue:
            self._loop.call_soon(self._linger, turns + 1)
            return
        self._is_flush_due = False
        if self._queue:
            self._write_queue()

    def _flush_turn(self) -> None:
        # With two frames in a turn, it is cheaper to wait for its end: one system call for both.
        is_lone = self._frames_after_chunk == MANY and len(self._queue) == 1 and self.channel.writes_lone_frames
        self._frames_after_chunk = ONE if is_lone else MANY
        self.flush()

    def _write_queue(self) -> None:
        """Write all frames of the queue, which is not empty."""
        queue, self._queue = self._queue, []
        self._sent_bytes += self._queued_bytes
        self._queued_bytes = 0
        channel = self.channel
        try:
            if channel.carries_texts:
                channel.write_texts([text.removesuffix(b"\n") for text in queue])
            else:
                channel.write(queue[0] if len(queue) == 1 else b"".join(queue))
        except OSError as fault:
            # The peer may have sent responses before it closed: the channel reports the loss after they are read.
            self.break_off(fault)
            return
        except Exception as fault:  # the channel breaks its contract: nothing else would end the connection
            self.break_off(fault)
            channel.abort()
            return
        # Checking the channel after each small write would take longer than handling a message.
        if self._sent_bytes > HIGH_WATER_BYTES and not self.is_blocked and self.write_buffer_bytes > HIGH_WATER_BYTES:
            self.is_blocked = True
            self.update()
