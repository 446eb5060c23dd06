"""WebSocket as a channel of texts over a socket, and the transport over it: the same for clients and servers.

Rules:
  - Each text is written as one text frame. A received text or binary message is one text; fragments are joined.
  - The protocol is that of `websockets` without IO. Messages, pings and pongs are read and written here; close frames,
    violations and whatever an extension changes go through the library, one frame at a time.
  - The frames that have arrived are read step by step, while reading is wanted, for TURN_SECONDS in one turn of the
    loop.
  - Violations close the connection: 1002 (protocol), 1007 (not UTF-8), 1009 (longer than `max_bytes`). Messages before
    the violation are reported, later ones are not (section 7.1.7). The peer can still read the code: reading continues
    until it closes, or has sent DROPPED_BYTES more.
  - A client closes with 1000, a server that stops with 1001, and both with 1008 after more than `max_faults` invalid
    messages. If the peer closes with 1000, 1001 or without a code, there is no fault; other codes are a
    `ConnectionLost`.
  - A ping gets a pong unless too much is unwritten. Of several that arrive together, only the last one before a message
    gets one (section 5.5.3).
  - Data that arrives before reading is wanted is kept until then, so that a request gets its response although a close
    frame follows. A close frame is answered at once, so handlers that still run then cannot respond.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from typing import Any, ClassVar, Final, Unpack

from websockets.frames import Frame as WireFrame
from websockets.frames import Opcode
from websockets.protocol import Protocol
from websockets.protocol import State as WireState

from ...codec import ParseError
from ...codes import ParseErrorCode
from ...errors import ConnectionLost
from ...profile import JSONRPC, Limits, Profile
from ...support import check_seconds
from ...types import TURN_SECONDS
from ..channel import HIGH_WATER_BYTES, CloseCode, fault_of
from ..connection import DROPPED_BYTES, State
from ..heartbeat import Heartbeat
from ..protocol import MessageOptions
from ..stream.transport import LayeredChannel, SocketOrLayer, SocketTransport
from .frames import (
    BINARY,
    CLOSE,
    FIN,
    OPCODE,
    PING,
    PONG,
    TEXT,
    Fragments,
    FrameReader,
    MaskedFrames,
    ReceivedFrame,
    server_frame,
)

CLOSE_SECONDS: Final = 5.0
"""How long a connection that the peer or a violation closed may take to end."""
HEAD_BYTES: Final = 64 * 1024
"""The maximum size of the head of a handshake request or response."""
UNFOLDED_BYTES: Final = 1024 * 1024
"""The default of `Limits.message_bytes` with compression: a frame a thousand times smaller may expand to this size."""


class Phase(enum.Enum):
    """The phases of a WebSocket, in their order."""

    HANDSHAKE = "before or in the handshake"
    OPEN = "open"
    CLOSING = "this side has sent a close frame, and waits for that of the peer"
    ENDING = "the protocol has ended, and the socket is about to end"


_OPEN: Final = Phase.OPEN  # looked up once: before Python 3.12 access to enum members is slow


class WebSocketChannel(LayeredChannel):
    """A WebSocket over a socket. Subclasses do the handshake.

    Attributes:
        max_bytes: The maximum size of a received message; set before the handshake.
        wire: The state of the connection in the library `websockets`; None before there is a connection.
        closing_code: The code with which this side closes.
        fault: Why the connection ends; None while it is open, or if it ends without a fault.
        refusal: Why the handshake has failed; None if it has not failed, or the reason is unknown.
    """

    carries_texts = True
    is_server: ClassVar[bool] = False
    max_bytes: int
    refusal: Exception | None = None

    def __init__(self, socket: SocketOrLayer) -> None:
        super().__init__(socket)
        self.chunks: int = 0
        self.wire: Any = None
        self.closing_code = CloseCode.NORMAL
        self.fault: ConnectionLost | None = None
        self._phase = Phase.HANDSHAKE
        self._head = b""  # the beginning of a handshake
        self._reader: FrameReader
        self._frame: Callable[[bytes], bytes] = server_frame if self.is_server else MaskedFrames()
        self._fragments: Fragments | None = None
        self._ping: bytes | None = None  # the last one without a pong
        self._reads = False
        self._is_read_due = False
        self._loss: tuple[Exception | None] | None = None  # why the socket was lost
        self._dropped_bytes = 0  # received after the end of the protocol: a peer must not continue forever
        self._timer: asyncio.TimerHandle | None = None  # limits the time for the end

    @property
    def held_bytes(self) -> int:
        """How many received bytes are not reported yet."""
        unread = len(self._head) if self._phase is Phase.HANDSHAKE else len(self._reader)
        return unread + (0 if self._fragments is None else len(self._fragments))

    # The methods of a channel.

    def write(self, data: bytes) -> None:
        self.write_texts([data])

    def write_texts(self, texts: list[bytes]) -> None:
        if self._phase is not _OPEN:
            if self.fault is not None:
                raise self.fault
            return  # the loss is about to be reported
        # An extension, such as compression, changes frames: then the library makes them, at ten times the cost.
        if self._reader.is_plain:
            frame = self._frame
            data = frame(texts[0]) if len(texts) == 1 else b"".join(map(frame, texts))
        else:
            for text in texts:
                self.wire.send_text(text)
            data = b"".join(self.wire.data_to_send())
        self.socket.write(data)

    def set_reading(self, on: bool) -> None:
        self._reads = on
        if on and self._phase is _OPEN and self._reader.may_have_frame:
            self._schedule_read()
        elif self._loss is None:
            self.socket.set_reading(on)

    def finish(self) -> None:
        if self._phase is _OPEN and self._loss is None:
            self.socket.set_reading(True)
            self._send_close(self.closing_code)
        else:
            self.abort()

    def abort(self) -> None:
        if self._phase is _OPEN:
            self._phase = Phase.CLOSING
            self._reader.clear()
        if self._loss is not None:
            asyncio.get_running_loop().call_soon(self._report_loss)
        else:
            self.socket.abort()

    # The handshake, for subclasses.

    def handshake_received(self, data: bytes) -> None:
        """Handle the head of the handshake's request or response, or data that follows it before the phase is OPEN."""
        raise NotImplementedError

    def head_too_long(self) -> None:
        """Refuse a handshake."""
        raise NotImplementedError

    def end_handshake(self, fault: Exception | None = None) -> None:
        """Let the handshake fail, unless it has ended."""
        if not self.handshake.done():
            self.refusal = fault
            self.handshake.set_result(False)

    def begin_handshake(self, wire: Protocol) -> None:
        """Begin with a new connection."""
        self.wire = wire
        self._phase = Phase.HANDSHAKE
        self._loss = None
        self.handshake: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._head = b""
        self._reader = FrameReader(self.is_server, self.max_bytes)

    def begin_frames(self) -> None:
        """The handshake is done: messages may be written and received."""
        self._phase = Phase.OPEN
        self._reader.is_plain = not self.wire.extensions
        self.socket.set_reading(self._reads)

    def write_wire(self) -> None:
        """Write the bytes that the library has to send. Empty bytes end the stream."""
        for data in self.wire.data_to_send():
            if self._loss is None:
                if data:
                    self.socket.write(data)
                else:
                    self.socket.finish()

    def _read_handshake(self, data: bytes) -> None:
        """Split the handshake from the frames after it, which the library would read as well."""
        if self.wire.handshake_exc is None and self.wire.state is WireState.CONNECTING:
            self._head += data
            end = self._head.find(b"\r\n\r\n") + 4
            if end < 4:
                if len(self._head) > HEAD_BYTES:
                    self._head = b""
                    self.head_too_long()
                return
            head, data, self._head = self._head[:end], self._head[end:], b""
            self.handshake_received(head)
        if data and self._phase is _OPEN:
            self._frames_received(data)
        elif data and self._phase is Phase.HANDSHAKE:  # such as the body of a response that refuses the handshake
            self.handshake_received(data)

    # The events of the socket.

    def _received(self, view: Any) -> None:
        data = bytes(view)
        self.chunks += 1
        if self._phase is _OPEN:
            text = self._reader.whole_text(data) if self._reads and self._fragments is None else None
            if text is not None:
                self.events.received(text or b" ")
            elif data:
                self._frames_received(data)
            else:
                self.socket.finish()
        elif not data:
            self.socket.finish()
        elif self._phase is Phase.HANDSHAKE:
            self._read_handshake(data)
        else:
            self._drop_late(len(data))
            if self._phase is Phase.CLOSING:
                self._frames_received(data)

    def _drop_late(self, size: int) -> None:
        """Count bytes that arrived too late. If that is the peer's fault, and it does not stop, abort."""
        # A peer that has not seen the close frame yet may send anything.
        if self._phase is Phase.CLOSING and self.closing_code is not CloseCode.POLICY_VIOLATION:
            return
        self._dropped_bytes += size
        if self._dropped_bytes > DROPPED_BYTES:
            self.socket.abort()

    def _socket_lost(self, fault: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._phase is Phase.HANDSHAKE:
            self.end_handshake(fault)
            if not self.is_server:
                return  # `open` raises: a channel that was not opened reports no loss
        self._loss = (fault,)
        if self._phase is _OPEN and self._reader.may_have_frame:
            self._schedule_read()
        else:
            self._report_loss()

    def _report_loss(self) -> None:
        if self._loss is None:
            return
        # The reason is, in this order: a fault that this side has noted; a close frame of the peer; or a socket that
        # ended without one (section 7.1.5, code 1006), which is not a fault if this side has begun to close.
        (fault,), self._loss = self._loss, None
        was_begun_here = self._phase is Phase.CLOSING
        self._phase = Phase.ENDING
        self._reader.clear()
        self._fragments = None
        if self.fault is not None or (self.wire is not None and self.wire.close_rcvd is not None):
            fault = self.fault
        elif not was_begun_here:
            cause, fault = fault, ConnectionLost("the peer ended the connection without a close frame")
            fault.__cause__ = cause or EOFError("the socket ended")
        self.events.lost(fault)
        self.socket_events.end()
        if self.wire is not None:
            self.wire.parser = None  # a generator that refers to `wire`

    # Receiving.

    def _frames_received(self, data: bytes) -> None:
        self._reader.feed(data)
        self._read_frames()

    def _schedule_read(self) -> None:
        if not self._is_read_due:
            self._is_read_due = True
            asyncio.get_running_loop().call_soon(self._read_scheduled)

    def _read_scheduled(self) -> None:
        self._is_read_due = False
        self._read_frames()
        if self._loss is None and not self._is_read_due:
            self.socket.set_reading(self._reads or self._phase is not _OPEN)

    def _may_read(self) -> bool:
        if self._phase is Phase.CLOSING:
            return self._loss is None
        return self._phase is _OPEN and (self._reads or self._loss is not None)

    def _read_frames(self) -> None:
        """Read frames for one turn of the loop. While this side closes, only the close frame of the peer matters."""
        reader, time = self._reader, asyncio.get_running_loop().time
        end = time() + TURN_SECONDS
        while self._may_read():
            texts = None if self._fragments is not None else reader.next_texts()
            if texts:
                if self._phase is _OPEN:
                    self._send_pong()
                    self.events.received(texts)
            else:
                frame = reader.next()
                if frame is None:
                    break
                self._frame_received(frame)
            if time() >= end:
                break
        # The rest is read in another turn. Until then the socket is not read, so that the unread frames have a bound.
        if reader.may_have_frame and self._may_read():
            if self._loss is None:
                self.socket.set_reading(False)
            self._schedule_read()
            return
        # However the loop has ended: no frame may follow for a long time.
        self._send_pong()
        if self._loss is not None and not reader.may_have_frame:
            self._report_loss()

    def _frame_received(self, frame: ReceivedFrame) -> None:
        first, data, is_raw = frame
        if self._phase is Phase.CLOSING:
            if first == CLOSE:
                self._phase = Phase.ENDING
                self._reader.clear()
                self.wire.receive_data(data)
                self.write_wire()
        elif is_raw:
            self._send_pong()
            self._pass_on(data)
        elif first == PING:
            self._ping = data
        elif first != PONG:
            if first in (TEXT, BINARY) and self._fragments is None:
                self._send_pong()
                self.events.received(data or b" ")
            else:
                self._fragment_received(first & OPCODE, bool(first & FIN), data)

    def _send_pong(self) -> None:
        ping, self._ping = self._ping, None
        if ping is not None and self._phase is _OPEN and self._loss is None and self.unwritten <= HIGH_WATER_BYTES:
            self.wire.send_pong(ping)
            self.write_wire()

    def _pass_on(self, data: bytes) -> None:
        """Let the library read a frame, after the responses to earlier frames are written."""
        wire = self.wire
        wire.receive_data(data)
        for frame in wire.events_received():
            assert isinstance(frame, WireFrame)
            if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                self._fragment_received(frame.opcode, frame.fin, bytes(frame.data))
        self.write_wire()
        if wire.state is not WireState.OPEN and self._phase is _OPEN:
            self._begin_ending(wire.parser_exc)

    def _fragment_received(self, opcode: int, is_last: bool, payload: bytes) -> None:
        """Handle a frame of a message that may have several."""
        # Section 5.4: a continuation needs a first fragment, and no other message may come between fragments.
        if (opcode == Opcode.CONT) is (self._fragments is None):
            self.fail(CloseCode.PROTOCOL_ERROR)
            return
        if self._fragments is None and is_last:
            self.events.received(payload or b" ")
            return
        fragments = self._fragments or Fragments(self.max_bytes)
        try:
            data = fragments.add(payload, is_last)
        except OverflowError:
            self.fail(CloseCode.TOO_BIG)
        except UnicodeDecodeError as error:
            self.fail(CloseCode.INVALID_TEXT, error)
        else:
            self._fragments = None if is_last else fragments
            if is_last:
                self.events.received(data or b" ")

    # Closing.

    def fail(self, code: CloseCode, cause: Exception | None = None) -> None:
        """Close the connection because of a violation that the library does not see."""
        if self._phase is _OPEN:
            self.wire.fail(code)
            self.write_wire()
            self._begin_ending(cause)

    def _begin_ending(self, cause: Exception | None) -> None:
        """Handle a close frame of the peer, or a violation: nothing more can be sent, and the connection ends soon."""
        wire = self.wire
        self._phase = Phase.ENDING
        self._fragments = self._ping = None
        self._reader.clear()
        if wire.close_rcvd is None:
            code = wire.close_sent.code if wire.close_sent is not None else CloseCode.PROTOCOL_ERROR
            reason = f": {cause}" if isinstance(cause, ParseError) else ""
            self.fault = ConnectionLost(f"the peer violated the WebSocket protocol: closed with {int(code)}{reason}")
            self.fault.__cause__ = cause
        else:
            self.fault = fault_of(int(wire.close_rcvd.code), wire.close_rcvd.reason)
        if self._loss is None:
            self.socket.set_reading(True)
            self.end_soon()

    def end_soon(self) -> None:
        """Abort the socket if it is not closed in CLOSE_SECONDS."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(CLOSE_SECONDS, self.socket.abort)

    def _send_close(self, code: CloseCode) -> None:
        self.wire.send_close(code)
        self._phase = Phase.CLOSING
        self.write_wire()
        self._read_frames()

    # Keeping alive.

    def ping(self) -> None:
        """Ping a peer from which nothing arrives, unless too much is unwritten."""
        if self._phase is _OPEN and self._loss is None and self.unwritten <= HIGH_WATER_BYTES:
            self.wire.send_ping(b"")
            self.write_wire()

    def abort_silent(self) -> None:
        """Abort because the peer does not respond to pings."""
        if self._phase is _OPEN:
            self.fault = ConnectionLost("the peer does not respond to pings")
            self.socket.abort()


class WebSocketOptions(MessageOptions, total=False):
    """Keyword options of every WebSocket; `WebSocketTransport` describes them."""

    ping_seconds: float | None


def limits_of(compression: bool, limits: Limits | None, profile: Profile = JSONRPC) -> Limits | None:
    """Return the limits of a connection that may be compressed; None: those of the profile."""
    if limits is not None or not compression:
        return limits
    return profile.limits.replace(message_bytes=min(profile.limits.message_bytes, UNFOLDED_BYTES))


class WebSocketTransport(SocketTransport):
    """A WebSocket connection: a `WebSocketClient`, or a connection that a `WebSocketServer` accepted.

    Args:
        channel: The channel.
        ping_seconds: How long nothing may arrive before the peer is pinged. After twice this time the connection is
            lost. None: no pings and no limit.
        options: Options of `Connection`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    channel: WebSocketChannel

    def __init__(
        self, channel: WebSocketChannel, *, ping_seconds: float | None = 20.0, **options: Unpack[MessageOptions]
    ) -> None:
        super().__init__(channel, **options)
        check_seconds("ping_seconds", ping_seconds)
        if ping_seconds is not None:
            self._heartbeat = Heartbeat(ping_seconds, self, lambda _: channel.ping(), channel.abort_silent)
        channel.max_bytes = self.profile.limits.message_bytes

    @property
    def close_code(self) -> int | None:
        """The close code that the peer sent; 1005 if its close frame had no code, None if it sent no close frame."""
        wire = self.channel.wire
        return None if wire is None or wire.close_rcvd is None else int(wire.close_rcvd.code)

    @property
    def close_reason(self) -> str:
        """The reason that the peer sent with its close code; "" without one."""
        wire = self.channel.wire
        return "" if wire is None or wire.close_rcvd is None else wire.close_rcvd.reason

    @property
    def subprotocol(self) -> str | None:
        """The subprotocol that both sides agreed on."""
        return None if self.channel.wire is None else self.channel.wire.subprotocol

    def held_bytes(self) -> int:
        return super().held_bytes() + self.channel.held_bytes

    @property
    def received_chunks(self) -> int:
        return self.channel.chunks

    def finish_channel(self) -> None:
        if self.fault is not None:
            self.channel.closing_code = CloseCode.POLICY_VIOLATION
        super().finish_channel()

    def report_invalid(self, fault: ParseError) -> None:
        if fault.code is ParseErrorCode.INVALID_UTF8:
            self.flush()  # send the responses to earlier messages first
            self.channel.fail(CloseCode.INVALID_TEXT, fault)
            self._stop(State.CLOSING)  # what follows is not delivered
        else:
            super().report_invalid(fault)
