"""Newline framing: one frame a line.

Rules:
  - a frame ends at byte 0x0A and nowhere else: U+0085, U+2028, U+2029 and a bare 0x0D are data;
  - one 0x0D before the 0x0A is dropped;
  - a byte order mark at the very start of the stream is dropped;
  - a blank line (space, tab, carriage return) is no frame;
  - a line over the limit is one frame with the beginning of its text, told at once; the rest of it is dropped as it
    comes;
  - what is left at the end of the stream is a frame of its own.
"""

from __future__ import annotations

from typing import Any, Final

from ..codes import ParseErrorCode
from ..profile import HEAD_BYTES
from ..types import BYTE_ORDER_MARK
from .frames import _BLANK, _SHORT_BLANK, Frame, _blank_lines


class LineFrames:
    """Splits a stream into lines. Any chunking gives the same frames, in linear time.

    It holds at most one line of `limit` bytes and the chunk that it was fed last.
    """

    __slots__ = ("_at_start", "_buffer", "_dropping", "_limit", "_line", "_offset")
    ended: Final = False  # no fault ends a stream of lines

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()  # the line begun, with no 0x0A in it
        self._dropping = False  # inside a line that was over the limit
        self._line = 1
        self._offset = 0  # of the first byte of the line begun
        self._at_start = True  # a byte order mark may still come

    def save(self) -> tuple[Any, ...]:
        return self._buffer, len(self._buffer), self._dropping, self._line, self._offset, self._at_start

    def restore(self, saved: tuple[Any, ...]) -> None:
        self._buffer, size, self._dropping, self._line, self._offset, self._at_start = saved
        del self._buffer[size:]

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """The frames that end in `data`."""
        frames: list[Frame] = []
        chunk = bytes(data)
        start = 0
        while (newline := chunk.find(b"\n", start)) >= 0:
            if chunk[start] <= 0x20 and not (self._buffer or self._dropping or self._at_start):
                blank = _blank_lines(chunk, start).end()  # type: ignore[union-attr]
                if blank > start and self._limit >= _SHORT_BLANK:
                    self._line += chunk.count(b"\n", start, blank)
                    self._offset += blank - start
                    start = blank
                    continue
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
        room = self._limit + 2 + len(BYTE_ORDER_MARK) - len(buffer)
        buffer += chunk[start : min(end, start + room)]
        left = end - start - room
        if self._at_start:
            if BYTE_ORDER_MARK.startswith(buffer) and len(buffer) < len(BYTE_ORDER_MARK):
                return  # perhaps a mark, which does not count
            if buffer.startswith(BYTE_ORDER_MARK):
                self._buffer = buffer = buffer[len(BYTE_ORDER_MARK) :]
                self._offset += len(BYTE_ORDER_MARK)
            self._at_start = False
        if len(buffer) > self._limit + 1 or (len(buffer) == self._limit + 1 and buffer[-1] != 0x0D):
            frames.append(self._too_large(buffer))
            self._dropping = True
            self._offset += len(buffer) + max(left, 0)
            self._buffer = bytearray()

    def _finish_line(self, frames: list[Frame]) -> None:
        text = bytes(self._buffer)
        if text.endswith(b"\r"):
            text = text[:-1]
        if len(text) > self._limit:  # the beginning of a byte order mark that was none
            frames.append(self._too_large(text))
        elif text.strip(_BLANK):
            frames.append(Frame(text, self._line, self._offset))

    def _too_large(self, text: bytes | bytearray) -> Frame:
        head = bytes(text[: min(self._limit, HEAD_BYTES)])
        return Frame(head, self._line, self._offset, ParseErrorCode.MESSAGE_TOO_LARGE)

    def _next_line(self) -> None:
        self._offset += len(self._buffer) + 1
        self._line += 1
        self._buffer = bytearray()
        self._dropping = False
        self._at_start = False
