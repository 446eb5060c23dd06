"""The frames of WebSocket (RFC 6455, section 5), received and sent, without IO.

The library `websockets` reads close frames, violations and whatever an extension changes. Text messages, pings and
pongs are read and written here, because they are nearly all frames, and cost the library ten times as much.

Rules:
  - A frame that this module does not read is returned as it arrived, with its mask, for the library.
  - A frame that is too long, or has the wrong mask bit for its side (section 5.1), is returned as a close frame that
    contains all received bytes: the library then finds the violation and chooses the close code.
  - Fragments are joined up to `max_bytes`, and their UTF-8 is checked as they arrive (section 8.1).
"""

from __future__ import annotations

import codecs
import os
from typing import Final

from websockets.frames import apply_mask  # type: ignore[attr-defined]

# The first two bytes of a frame (section 5.2): FIN, three bits for extensions and the opcode; MASK and the length.
TEXT: Final = 0x81  # the first byte of a whole text message
BINARY: Final = 0x82
OPCODE: Final = 0x0F  # 0 in all fragments but the first
FIN: Final = 0x80  # the bit of a whole message, and of its last fragment
CLOSE: Final = 0x88
PING: Final = 0x89
PONG: Final = 0x8A
MASKED: Final = 0x80
SMALL_LENGTH: Final = 126  # shorter payloads have their length in the second byte
SMALL_HEADS: Final = [bytes((TEXT, length)) for length in range(SMALL_LENGTH)]
MASKED_HEADS: Final = [bytes((TEXT, MASKED | length)) for length in range(SMALL_LENGTH)]

_Utf8Decoder: Final = codecs.getincrementaldecoder("utf-8")


ReceivedFrame = tuple[int, bytes, bool]
"""The first byte of a received frame; its payload without the mask; whether the library has to read it. In that case
the second item is the whole frame, as it arrived."""


class FrameReader:
    """The bytes that have arrived and are not read yet.

    Args:
        is_server: Whether the peer masks its frames.
        max_bytes: The maximum size of a payload.

    Attributes:
        is_plain: Whether no extension changes the frames. Set when the handshake is done.
    """

    def __init__(self, is_server: bool, max_bytes: int) -> None:
        self.is_plain: bool = True
        self._mask_bit = MASKED if is_server else 0
        self._head_bytes = 6 if is_server else 2  # of a small frame
        self._max_bytes = max_bytes
        self._unread: bytes | bytearray = b""
        self._read_bytes = 0  # of `_unread`
        self._wanted_bytes = 2  # how much must be unread for the next frame; 2 is the smallest one

    def __len__(self) -> int:
        return len(self._unread) - self._read_bytes

    @property
    def may_have_frame(self) -> bool:
        """Whether enough has arrived to call `next`."""
        return len(self._unread) - self._read_bytes >= self._wanted_bytes

    def feed(self, data: bytes) -> None:
        """Add received data."""
        if not self._unread:
            self._unread = data
            return
        # Read bytes are cut off only when more arrive, so that each byte is moved at most once for each chunk.
        if self._read_bytes or type(self._unread) is not bytearray:
            self._unread = bytearray(self._unread[self._read_bytes :])
            self._read_bytes = 0
        self._unread += data

    def clear(self) -> None:
        """Drop received data."""
        self._unread = b""
        self._read_bytes = 0
        self._wanted_bytes = 2

    def whole_text(self, data: bytes) -> bytes | None:
        """Return the payload of a chunk that is one small text message, as most are; None for any other chunk."""
        length = len(data) - self._head_bytes
        if (
            0 <= length < SMALL_LENGTH
            and data[0] == TEXT
            and data[1] == length | self._mask_bit
            and length <= self._max_bytes
            and self.is_plain
            and not self._unread
        ):
            # Section 5.2: a masked frame has the key in the four bytes before the payload.
            return apply_mask(data[6:], data[2:6]) if self._mask_bit else data[2:]
        return None

    def next_texts(self) -> list[bytes]:
        """Return the payloads of up to 64 small text messages; an empty one becomes a blank."""
        data, at, head_bytes, mask_bit = self._unread, self._read_bytes, self._head_bytes, self._mask_bit
        # Only texts whose length is in the second byte: a longer one needs a call of its own anyway.
        longest = min(self._max_bytes, SMALL_LENGTH - 1)
        texts: list[bytes] = []
        size = len(data) if self.is_plain else 0
        while at + head_bytes <= size and data[at] == TEXT and len(texts) < 64:
            length = data[at + 1] ^ mask_bit
            start = at + head_bytes
            end = start + length
            if length > longest or end > size:
                break
            payload = bytes(data[start:end])
            texts.append((apply_mask(payload, data[start - 4 : start]) if mask_bit else payload) or b" ")
            at = end
        if texts:
            self._skip(at)
        return texts

    def next(self) -> ReceivedFrame | None:
        """Return the next frame; None if it has not arrived.

        A frame whose head violates the protocol is a close frame of everything that has arrived: the library refuses
        it.
        """
        data, at, size = self._unread, self._read_bytes, len(self._unread)
        self._wanted_bytes = 2
        if size - at < 2:
            return None
        first, second = data[at], data[at + 1]
        start, length = at + 2, second & 0x7F
        # Section 5.2: 126 announces a length of two bytes, 127 one of eight.
        if length >= SMALL_LENGTH:
            start += 2 if length == SMALL_LENGTH else 8
            if start > size:
                self._wanted_bytes = start - at
                return None
            length = int.from_bytes(data[at + 2 : start], "big")
        if second & MASKED:
            start += 4
        end = start + length
        # Section 5.1: clients mask their frames, and servers do not.
        if length > self._max_bytes or second & MASKED != self._mask_bit:
            first, end = CLOSE, size
        elif end > size:
            self._wanted_bytes = end - at
            return None
        # Section 5.5: a control frame is no longer than 125 bytes, and is not fragmented.
        is_raw = (
            end - start >= SMALL_LENGTH
            if first in (PING, PONG)
            else first not in (0x00, 0x01, 0x02, 0x80, TEXT, BINARY) or not self.is_plain
        )
        found = bytes(data[at:end] if is_raw else data[start:end])
        if self._mask_bit and not is_raw:
            found = apply_mask(found, data[start - 4 : start])
        self._skip(end)
        return first, found, is_raw

    def _skip(self, end: int) -> None:
        if end == len(self._unread):
            self.clear()
        else:
            self._read_bytes = end


class Fragments:
    """The fragments of one message.

    Args:
        max_bytes: The maximum size of the message.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._data = bytearray()
        self._utf8 = _Utf8Decoder()

    def __len__(self) -> int:
        return len(self._data)

    def add(self, payload: bytes, is_last: bool) -> bytearray:
        """Add a fragment, and return all of them. Raises OverflowError if that is too long, and UnicodeDecodeError."""
        if len(self._data) + len(payload) > self._max_bytes:
            raise OverflowError
        # Section 5.6: a character may be split between fragments. Section 8.1: bad UTF-8 ends the connection at once.
        self._utf8.decode(payload, is_last)
        self._data += payload
        return self._data


def server_frame(data: bytes) -> bytes:
    """Return a text message of a server."""
    length = len(data)
    return (SMALL_HEADS[length] if length < SMALL_LENGTH else _large_head(length, 0)) + data


class MaskedFrames:
    """Makes the text messages of a client, masked with keys that are unpredictable (section 10.3)."""

    def __init__(self) -> None:
        self._keys = b""
        self._next_key = 0

    def __call__(self, data: bytes) -> bytes:
        """Return a text message."""
        at = self._next_key
        # Keys must be unpredictable (section 5.3), so they come from the system, and none is used twice. 1024 at a
        # time: a system call costs more than a small frame.
        if at == len(self._keys):
            self._keys, at = os.urandom(4 * 1024), 0
        self._next_key = at + 4
        key = self._keys[at : at + 4]
        length = len(data)
        head = MASKED_HEADS[length] if length < SMALL_LENGTH else _large_head(length, MASKED)
        return head + key + apply_mask(data, key)


def _large_head(length: int, mask_bit: int) -> bytes:
    if length < 65536:
        return bytes((TEXT, 126 | mask_bit, length >> 8, length & 255))
    return bytes((TEXT, 127 | mask_bit)) + length.to_bytes(8, "big")
