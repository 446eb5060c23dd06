"""Bytes to frames, without IO and without knowing what a message is.

Rules of newline framing:
  - a frame ends at byte 0x0A and nowhere else: U+0085, U+2028, U+2029 and a bare 0x0D are data;
  - one 0x0D before the 0x0A is dropped;
  - a byte order mark at the very start of the stream is dropped;
  - a blank line (space, tab, carriage return) is no frame;
  - a line over the limit is one frame without text, told at once; the rest of it is dropped as it comes;
  - what is left at the end of the stream is a frame of its own.
"""

from __future__ import annotations

from typing import NamedTuple

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Frame(NamedTuple):
    """One frame of a stream.

    text    the bytes, without their framing; None when they are over the limit
    line    the line it stands on, counted from 1
    offset  the byte of the stream at which it begins, counted from 0
    """

    text: bytes | None
    line: int
    offset: int


class LineFrames:
    """Splits a stream into lines. Any chunking gives the same frames, in linear time.

    It holds at most one line of `limit` bytes and the chunk that it was fed last.
    """

    __slots__ = ("_at_start", "_buffer", "_dropping", "_limit", "_line", "_offset")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()  # the line begun, with no 0x0A in it
        self._dropping = False  # inside a line that was over the limit
        self._line = 1
        self._offset = 0  # of the first byte of the line begun
        self._at_start = True  # a byte order mark may still come

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """The frames that end in `data`."""
        frames: list[Frame] = []
        chunk = bytes(data)
        start = 0
        while (newline := chunk.find(b"\n", start)) >= 0:
            self._append(chunk, start, newline, frames)
            if not self._dropping:
                self._finish_line(frames)
            self._next_line()
            start = newline + 1
        self._append(chunk, start, len(chunk), frames)
        return frames

    def close(self) -> list[Frame]:
        """The frame that the end of the stream ends, if there is one."""
        frames: list[Frame] = []
        if not self._dropping:
            self._finish_line(frames)
        self._next_line()
        return frames

    def _append(self, chunk: bytes, start: int, end: int, frames: list[Frame]) -> None:
        """Takes a part of the line begun, or drops it where the line is over the limit."""
        if self._dropping:
            self._offset += end - start
            return
        buffer = self._buffer
        # What cannot fit is not copied: two bytes past the limit tell that the line is over it, even if the last
        # one is a carriage return; three more may be a byte order mark.
        room = self._limit + 2 + len(_BYTE_ORDER_MARK) - len(buffer)
        buffer += chunk[start : min(end, start + room)]
        left = end - start - room
        if self._at_start:
            if _BYTE_ORDER_MARK.startswith(buffer) and len(buffer) < len(_BYTE_ORDER_MARK):
                return  # perhaps a mark, which does not count
            if buffer.startswith(_BYTE_ORDER_MARK):
                del buffer[: len(_BYTE_ORDER_MARK)]
                self._offset += len(_BYTE_ORDER_MARK)
            self._at_start = False
        if len(buffer) > self._limit + 1 or (len(buffer) == self._limit + 1 and buffer[-1] != 0x0D):
            frames.append(Frame(None, self._line, self._offset))
            self._dropping = True
            self._offset += len(buffer) + max(left, 0)
            self._buffer = bytearray()

    def _finish_line(self, frames: list[Frame]) -> None:
        text = bytes(self._buffer)
        if text.endswith(b"\r"):
            text = text[:-1]
        if len(text) > self._limit:  # the beginning of a byte order mark that was none
            frames.append(Frame(None, self._line, self._offset))
        elif text.strip(b" \t\r"):
            frames.append(Frame(text, self._line, self._offset))

    def _next_line(self) -> None:
        self._offset += len(self._buffer) + 1
        self._line += 1
        self._buffer = bytearray()
        self._dropping = False
        self._at_start = False
