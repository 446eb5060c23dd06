"""A WebSocket connection, the same for clients and servers.

Rules:
  - Each message is written as one text frame. A received text or binary message is one JSON text in UTF-8; fragments
    are joined.
  - The protocol is that of `websockets` without IO. Messages, pings and pongs are read and written here; close frames,
    violations and whatever an extension changes go through the library, one frame at a time.
  - The frames that have arrived are a part of the backlog: they are read step by step, after what came before them is
    delivered.
  - Violations close the connection: 1002 (protocol), 1007 (not UTF-8), 1009 (longer than `Limits.message_bytes`) and
    1008 (more than `max_faults` invalid messages). What came before is served, what follows is not (section 7.1.7). The
    peer can still read the code: reading goes on until it closes, or has sent DROPPED_BYTES more.
  - A client closes with 1000, a server that stops with 1001. If the peer closes with 1000, 1001 or without a code, the
    connection is closed without a fault; other codes are a `ConnectionLost`.
  - A connection is pinged when nothing arrives for `ping_seconds`, and lost when nothing arrives for another
    `ping_seconds` (see heartbeat.py).
  - Pings are answered unless the write buffer is above its high-water mark. Of several that arrive together, only the
    last one before a message is answered (section 5.5.3).
  - What arrives before `start` is read then, so that a request gets its reply although a close frame follows. A close
    frame is answered at once, so handlers that are still at work cannot reply.
"""

from __future__ import annotations

import asyncio
import codecs
import enum
import os
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from websockets.frames import Frame, Opcode, apply_mask  # type: ignore[attr-defined]
from websockets.protocol import Protocol
from websockets.protocol import State as WireState

from ..._checks import check_seconds
from ...codec import ParseError
from ...codes import ParseErrorCode
from ...errors import ConnectionLost
from ...profile import JSONRPC, Limits, Profile
from ..base import State
from ..heartbeat import Heartbeat
from ..message import MessageTransport
from ..stream.transport import MessageSocketOptions, SocketTransport, read_buffer

if TYPE_CHECKING:
    from typing_extensions import Unpack

PING_SECONDS: Final = 20.0
"""The default of `ping_seconds`."""
CLOSE_SECONDS: Final = 5.0
"""How long a connection that the peer or a violation closed may take to end."""

TEXT: Final = 0x81  # the first byte of a whole text message
BINARY: Final = 0x82
DATA: Final = frozenset((0x00, 0x01, 0x02, 0x80, TEXT, BINARY))  # without an extension
OPCODE: Final = 0x0F  # 0 in all fragments but the first
FIN: Final = 0x80  # the bit of a whole message, and of its last fragment
CLOSE: Final = 0x88
PING: Final = 0x89
PONG: Final = 0x8A
MASKED: Final = 0x80
SMALL_LENGTH: Final = 126  # shorter payloads have their length in the second byte
LARGE_LENGTH: Final = 65536  # longer payloads have eight bytes of length
SMALL_HEADS: Final = [bytes((TEXT, length)) for length in range(SMALL_LENGTH)]
MASKED_HEADS: Final = [bytes((TEXT, MASKED | length)) for length in range(SMALL_LENGTH)]
HEAD_BYTES: Final = 64 * 1024
"""The maximum size of the head of a handshake."""
KEYS: Final = 1024
"""How many masking keys are made at a time: each call of the system costs more than a small frame."""
UNFOLDED_BYTES: Final = 1024 * 1024
"""The default of `Limits.message_bytes` with compression: a frame of a thousandth of this size may unfold to it."""
FRAME_BYTES: Final = 2
"""The size of the smallest frame."""
STEP_FRAMES: Final = 1024
"""How many frames are read at a time."""


class CloseCode(enum.IntEnum):
    """The close codes that this package sends (RFC 6455, section 7.4.1)."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    INVALID_TEXT = 1007
    POLICY_VIOLATION = 1008
    TOO_BIG = 1009


_Utf8Decoder: Final = codecs.getincrementaldecoder("utf-8")
_CLOSED_NORMALLY: Final = (1000, 1001, 1005)
_RUNNING: Final = State.RUNNING  # looked up once: before Python 3.12 access to enum members is slow


class WebSocketOptions(MessageSocketOptions, total=False):
    """Keyword options of every WebSocket; `WebSocketTransport` describes them."""

    ping_seconds: float | None


def limits_of(compression: bool, limits: Limits | None, profile: Profile = JSONRPC) -> Limits | None:
    """Return the limits of a connection that may be compressed; None: those of the profile."""
    if limits is not None or not compression:
        return limits
    return profile.limits.replace(message_bytes=min(profile.limits.message_bytes, UNFOLDED_BYTES))


class WebSocketTransport(SocketTransport, MessageTransport, asyncio.BufferedProtocol):
    """A WebSocket connection: a `WebSocketClient`, or a connection that a `WebSocketServer` accepted.

    Args:
        ping_seconds: After so long without anything from the peer it is pinged; after twice the time the connection is
            lost. None: never.
        options: Options of `SocketTransport` and `BaseTransport`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    _is_server: ClassVar[bool] = False

    def __init__(self, *, ping_seconds: float | None = PING_SECONDS, **options: Unpack[MessageSocketOptions]) -> None:
        super().__init__(**options)
        check_seconds("ping_seconds", ping_seconds)
        self._heartbeat = (
            None if ping_seconds is None else Heartbeat(ping_seconds, self, self._send_ping, self._on_silence)
        )
        self._buffer: memoryview
        self._wire = self._new_wire()
        self._is_head_read = False  # of the handshake
        self._is_open = False  # the handshake is done, and nobody closes
        self._awaits_close = False  # this side has sent a close frame, and the peer's has not arrived
        self._is_plain = True  # no extension changes the frames
        self._max_bytes = self.profile.limits.message_bytes
        self._unread: bytes | bytearray = b""  # frames, or the beginning of the handshake
        self._read_bytes = 0  # of `_unread`
        self._wanted_bytes = FRAME_BYTES  # how much must be unread for another step
        self._ping: bytes | None = None  # the last one that is not answered
        self._fragments: bytearray | None = None
        self._utf8 = _Utf8Decoder()  # of the fragments
        self._received_mask = MASKED if self._is_server else 0
        self._small_start = 6 if self._is_server else 2
        self._keys = b""
        self._next_key = 0
        self._close_code = CloseCode.NORMAL
        self._end_timer: asyncio.TimerHandle | None = None

    @property
    def close_code(self) -> int | None:
        """The close code that the peer sent; 1005 for a close without one, None if it sent no close frame."""
        received = self._wire.close_rcvd
        return None if received is None else int(received.code)

    @property
    def close_reason(self) -> str:
        """The reason that the peer sent with its close code; "" if there is none."""
        received = self._wire.close_rcvd
        return "" if received is None else received.reason

    @property
    def subprotocol(self) -> str | None:
        """The subprotocol that both sides agreed on."""
        return self._wire.subprotocol

    def _begin_frames(self) -> None:
        """The handshake is done: messages may be sent and received."""
        self._is_open = True
        self._is_plain = not self._wire.extensions
        if self._heartbeat is not None:
            self._heartbeat.start()

    def _new_wire(self) -> Protocol:
        """Return the state of a new connection in the library."""
        raise NotImplementedError

    def _handshake_received(self, data: bytes) -> None:
        """Handle the head of the handshake's request or response, or what follows it while `_is_open` is not set."""
        raise NotImplementedError

    def _read_handshake(self, data: bytes) -> None:
        """Split the handshake from the frames behind it, which the library would read as well."""
        if not self._is_head_read:
            self._unread += data
            end = self._unread.find(b"\r\n\r\n") + 4
            if end < 4:
                if len(self._unread) > HEAD_BYTES:
                    self._on_long_head()
                return
            head, data = bytes(self._unread[:end]), bytes(self._unread[end:])
            self._clear_unread()
            self._is_head_read = True
            self._handshake_received(head)
        if data and self._is_open:
            self._frames_received(data)
        elif data and not self._channel.is_closing():
            self._handshake_received(data)

    def _on_long_head(self) -> None:
        self._break(ConnectionLost("the head of the handshake is too long"))
        self.abort_channel()

    # asyncio.BufferedProtocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._buffer = read_buffer()
        self._begin_channel(cast("asyncio.Transport", transport))  # uvloop's class is not a subclass

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._buffer[:nbytes])
        self._chunks += 1
        if self._is_open:
            self._frames_received(data)
        elif self._wire.state is WireState.CONNECTING:
            self._read_handshake(data)
        elif self._awaits_close:
            self._drop_received(nbytes, self._fault is not None)
            self._keep(data)
            self._skip_frames()
        else:
            self._drop_received(nbytes, is_fault=True)
        if not self._may_deliver and self._state in (State.IDLE, State.CONNECTING, State.CONNECTED) and self._is_open:
            self._channel.pause_reading()

    def eof_received(self) -> bool:
        return False  # asyncio closes the socket

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_channel_lost = True
        self._is_open = self._awaits_close = False
        fault: Exception | None = exc
        if self._state is not State.CLOSING and self._fault is None and self.close_code is None:
            fault = ConnectionLost("the peer ended the connection without a close frame")
            fault.__cause__ = exc
        self.channel_lost(fault)

    def channel_lost(self, fault: Exception | None = None) -> None:
        # Called again after the backlog, which may have held a close frame.
        super().channel_lost(None if self._fault is not None or self.close_code is not None else fault)

    def pause_writing(self) -> None:
        self.set_blocked(True)

    def resume_writing(self) -> None:
        self.set_blocked(False)

    # Receiving.

    def held_bytes(self) -> int:
        return super().held_bytes() + len(self._unread) - self._read_bytes + len(self._fragments or b"")

    def _frames_received(self, data: bytes) -> None:
        if not self._may_deliver or self._has_backlog:
            self._keep(data)
            self._has_backlog = True
            return
        if self._unread:
            self._keep(data)
        else:
            length = len(data) - self._small_start
            # Most chunks are one small message.
            if (
                0 <= length < SMALL_LENGTH
                and data[0] == TEXT
                and data[1] == length | self._received_mask
                and length <= self._max_bytes
                and self._is_plain
                and self._fragments is None
            ):
                self.receive(apply_mask(data[6:], data[2:6]) if self._is_server else data[2:])
                return
            self._unread = data
        if self._has_unread_frames():
            self._has_backlog = True
            self._deliver([], has_more=True)

    def _keep(self, data: bytes) -> None:
        """Add to what is unread."""
        if self._read_bytes or type(self._unread) is not bytearray:
            self._unread = bytearray(self._unread[self._read_bytes :])
            self._read_bytes = 0
        self._unread += data

    def _clear_unread(self) -> None:
        self._unread = b""
        self._read_bytes = 0
        self._wanted_bytes = FRAME_BYTES

    def _has_unread_frames(self) -> bool:
        return len(self._unread) - self._read_bytes >= self._wanted_bytes

    def _update_backlog(self) -> None:
        super()._update_backlog()
        self._has_backlog = self._has_backlog or self._ping is not None or self._has_unread_frames()

    def _next_items(self) -> list[Any]:
        if not self._undelivered and not self._texts:
            if self._has_unread_frames():
                self._read_frames()
            else:
                self._answer_ping()
        return super()._next_items()

    def _read_frames(self) -> None:
        """Take one step through the frames. Whole messages end it before a frame that may end the connection."""
        texts = self._texts
        if self._is_plain and self._fragments is None:
            self._read_small_texts()
        for _ in range(STEP_FRAMES - len(texts)):
            frame = self._next_frame()
            if frame is None:
                break
            first, start, end = frame
            if first in (TEXT, BINARY) and self._is_plain and self._fragments is None:
                if not texts:
                    self._answer_ping()
                texts.append(self._payload(start, end))
            elif first in (PING, PONG) and end - start < SMALL_LENGTH:
                if first == PING:
                    self._ping = self._payload(start, end)
            elif texts:
                break
            elif first in DATA and self._is_plain:
                self._fragment_received(first & OPCODE, bool(first & FIN), self._payload(start, end))
            else:
                self._answer_ping()
                self._pass_on(end)
            if self._wire.state is not WireState.OPEN:
                return
            self._read_bytes = end
            if not self._is_plain:
                break  # it may have been much longer than its frame
        if self._read_bytes == len(self._unread):
            self._clear_unread()

    def _read_small_texts(self) -> None:
        """Fast path: read the small text messages that come next, if any."""
        data, at, head_bytes, mask_bit = self._unread, self._read_bytes, self._small_start, self._received_mask
        longest = min(self._max_bytes, SMALL_LENGTH - 1)
        texts = self._texts
        last = len(data) - head_bytes
        while at <= last and data[at] == TEXT and len(texts) < STEP_FRAMES:
            length = data[at + 1] ^ mask_bit
            start = at + head_bytes
            end = start + length
            if length > longest or end > len(data):
                break
            payload = bytes(data[start:end])
            texts.append(apply_mask(payload, data[start - 4 : start]) if mask_bit else payload)
            at = end
        if texts:
            self._read_bytes = at
            self._answer_ping()

    def _next_frame(self) -> tuple[int, int, int] | None:
        """Return the first byte of the next frame, and where its payload begins and ends; None if it has not arrived.

        A frame whose head violates the protocol is a close frame of all that has arrived: the library refuses it.
        """
        data, at, size = self._unread, self._read_bytes, len(self._unread)
        self._wanted_bytes = FRAME_BYTES
        if size - at < FRAME_BYTES:
            return None
        first, second = data[at], data[at + 1]
        start, length = at + 2, second & 0x7F
        if length >= SMALL_LENGTH:
            start += 2 if length == SMALL_LENGTH else 8
            if start > size:
                self._wanted_bytes = start - at
                return None
            length = int.from_bytes(data[at + 2 : start], "big")
        if second & MASKED:
            start += 4
        end = start + length
        if length > self._max_bytes or second & MASKED != self._received_mask:
            return CLOSE, start, size
        if end > size:
            self._wanted_bytes = end - at
            return None
        return first, start, end

    def _payload(self, start: int, end: int) -> bytes:
        payload = bytes(self._unread[start:end])
        return apply_mask(payload, self._unread[start - 4 : start]) if self._received_mask else payload

    def _answer_ping(self) -> None:
        ping, self._ping = self._ping, None
        if ping is not None and self._is_open and not self._is_blocked:
            self._wire.send_pong(ping)
            self._write_wire()

    def _pass_on(self, end: int) -> None:
        """Let the library read the next frame, after the responses to what came before are written."""
        if self._queue:
            self._write_queue()
        self._wire.receive_data(bytes(self._unread[self._read_bytes : end]))
        for frame in self._wire.events_received():
            assert isinstance(frame, Frame)
            if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                self._fragment_received(frame.opcode, frame.fin, bytes(frame.data))
        self._write_wire()
        if self._wire.state is not WireState.OPEN:
            self._on_wire_closing(self._wire.parser_exc)

    def _fragment_received(self, opcode: int, is_last: bool, payload: bytes) -> None:
        """Handle a frame of a message that may have several."""
        if (opcode == Opcode.CONT) is (self._fragments is None):
            self._fail(CloseCode.PROTOCOL_ERROR)
        elif self._fragments is None and is_last:
            self._texts.append(payload)
        else:
            fragments = bytearray() if self._fragments is None else self._fragments
            if len(fragments) + len(payload) > self._max_bytes:
                self._fail(CloseCode.TOO_BIG)
                return
            try:
                self._utf8.decode(payload, is_last)
            except UnicodeDecodeError as error:
                self._fail(CloseCode.INVALID_TEXT, error)
                return
            fragments += payload
            if is_last:
                self._texts.append(fragments)
            self._fragments = None if is_last else fragments

    def _skip_frames(self) -> None:
        """Take one step to the close frame of the peer. What comes before it is too late."""
        if not self._awaits_close:
            return
        for _ in range(STEP_FRAMES):
            frame = self._next_frame()
            if frame is None:
                break
            if frame[0] == CLOSE:
                self._awaits_close = False
                self._wire.receive_data(bytes(self._unread[self._read_bytes : frame[2]]))
                self._write_wire()
                self._clear_unread()
                return
            self._read_bytes = frame[2]
        if self._has_unread_frames():
            self._channel.pause_reading()
            self._loop.call_soon(self._skip_frames)
        else:
            self._channel.resume_reading()

    def _deliver_item(self, item: Any) -> None:
        if type(item) is ParseError and item.code is ParseErrorCode.INVALID_UTF8:
            self._fail(CloseCode.INVALID_TEXT, item)
        else:
            super()._deliver_item(item)

    # Sending.

    def write_messages(self, texts: list[bytes]) -> None:
        if not self._is_open or self._channel.is_closing():
            return  # the loss is about to be reported
        if self._is_plain:
            frame = self._frame_of_server if self._is_server else self._frame_of_client
            self._channel.write(frame(texts[0]) if len(texts) == 1 else b"".join(map(frame, texts)))
        else:
            for text in texts:
                self._wire.send_text(text)
            self._channel.write(b"".join(self._wire.data_to_send()))

    def _frame_of_server(self, text: bytes) -> bytes:
        length = len(text)
        return (SMALL_HEADS[length] if length < SMALL_LENGTH else _large_head(length, 0)) + text

    def _frame_of_client(self, text: bytes) -> bytes:
        """Return a frame masked with a key that is unpredictable (RFC 6455, section 10.3)."""
        at = self._next_key
        if at == len(self._keys):
            self._keys, at = os.urandom(4 * KEYS), 0
        self._next_key = at + 4
        key = self._keys[at : at + 4]
        length = len(text)
        head = MASKED_HEADS[length] if length < SMALL_LENGTH else _large_head(length, MASKED)
        return head + key + apply_mask(text, key)

    def _write_wire(self) -> None:
        """Write what the library has to send. An empty text means the end of the stream."""
        for data in self._wire.data_to_send():
            if self._is_channel_lost or self._channel.is_closing():
                return
            if data:
                self._channel.write(data)
            elif self._channel.can_write_eof():
                self._write_end_when_written()
            else:
                self._channel.close()

    # Closing.

    def finish_channel(self) -> None:
        if not self._is_open:
            self.abort_channel()
            return
        self._channel.resume_reading()
        self._send_close(CloseCode.POLICY_VIOLATION if self._fault is not None else self._close_code)

    def _send_close(self, code: CloseCode) -> None:
        self._wire.send_close(code)
        self._is_open = False
        self._write_wire()
        self._awaits_close = True
        self._skip_frames()

    def _fail(self, code: CloseCode, cause: Exception | None = None) -> None:
        """Close the connection because of a violation that the library does not see."""
        if self._queue:
            self._write_queue()
        self._wire.fail(code)
        self._write_wire()
        self._on_wire_closing(cause)

    def _on_wire_closing(self, cause: Exception | None) -> None:
        """Handle a close frame of the peer, or a violation: nothing more can be sent, and the connection ends soon."""
        wire = self._wire
        self._is_open = False
        self._fragments = self._ping = None
        self._texts.clear()
        self._clear_unread()
        if wire.close_rcvd is None:
            code = wire.close_sent.code if wire.close_sent is not None else CloseCode.PROTOCOL_ERROR
            fault = ConnectionLost(f"the peer violated the WebSocket protocol: closed with {int(code)}")
            fault.__cause__ = cause
            self._break(fault)
        elif wire.close_rcvd.code not in _CLOSED_NORMALLY:
            self._break(ConnectionLost(f"the peer closed the connection with {int(wire.close_rcvd.code)}"))
        else:
            self._stop_sending()
        if not self._is_channel_lost:
            self._channel.resume_reading()
            self._end_timer = self._loop.call_later(CLOSE_SECONDS, self.abort_channel)

    def release_channel(self) -> None:
        super().release_channel()
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None  # they refer to each other
        if self._end_timer is not None:
            self._end_timer.cancel()
        self._clear_unread()
        self._fragments = None

    # Keeping alive.

    def _abort_idle(self, fault: ConnectionLost) -> None:
        if self._is_open:  # the peer may be alive, and learns why
            self._send_close(CloseCode.POLICY_VIOLATION)
        super()._abort_idle(fault)

    def _send_ping(self, _: float) -> None:
        if self._is_open and not self._is_blocked:
            self._wire.send_ping(b"")
            self._write_wire()

    def _on_silence(self) -> None:
        if self._is_open:
            self._break(ConnectionLost("the peer does not answer pings"))
            self.abort_channel()


def _large_head(length: int, mask_bit: int) -> bytes:
    if length < LARGE_LENGTH:
        return bytes((TEXT, 126 | mask_bit, length >> 8, length & 255))
    return bytes((TEXT, 127 | mask_bit)) + length.to_bytes(8, "big")
