"""Newline framing: one frame per line; and the framings in which another byte ends each frame.

Rules, where the delimiter is 0x0A (the others are control characters, which no JSON text contains):
  - A frame ends only at byte 0x0A: U+0085, U+2028, U+2029 and a bare 0x0D are data.
  - One 0x0D before the 0x0A is dropped, and so are blank lines (space, tab, carriage return, line feed) and a byte
    order mark at the start of the stream. The end of the stream ends a last frame.
  - A line over the limit is reported at once, as one frame with the beginning of its text; the rest is dropped.
"""

from __future__ import annotations

import re
from typing import Final

from ..codes import ParseErrorCode
from ..profile import HEAD_BYTES
from ..types import BYTE_ORDER_MARK
from .frames import BLANK, Frame

_SHORT_BLANK: Final = 64  # bytes; such lines are skipped many at a time
# `re` stores each repetition of a group, so their number is bounded.
_blank_lines = re.compile(rb"(?:[ \t\r]{0,%d}\n){0,1000}" % _SHORT_BLANK).match


class LineFrames:
    """Split a stream into lines, each of which ends in a delimiter. Any chunking gives the same frames, in linear time.

    It holds at most one line of `limit` bytes and the last chunk.
    """

    __slots__ = ("_at_start", "_buffer", "_delimiter", "_dropping", "_limit", "_line", "_offset")
    ended: Final = False  # no fault ends a stream of lines

    def __init__(self, limit: int, delimiter: bytes) -> None:
        self._limit = limit
        self._delimiter = delimiter
        self._buffer = bytearray()  # the current line, without its delimiter
        self._dropping = False  # inside a line over the limit
        self._line = 1
        self._offset = 0  # the offset of the current line
        self._at_start = True  # a byte order mark may follow

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Return the frames that end in `data`."""
        frames: list[Frame] = []
        chunk = bytes(data)
        start = 0
        has_lines = self._delimiter == b"\n"
        while (newline := chunk.find(self._delimiter, start)) >= 0:
            if has_lines and chunk[start] <= 0x20 and not (self._buffer or self._dropping or self._at_start):
                blank = _blank_lines(chunk, start).end()  # type: ignore[union-attr]
                # Under a lower limit a blank line may be a fault: it is too long.
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

    def skip(self, data: bytes) -> None:
        """Count `data`, whose frames the caller has read itself. The last one ends with it."""
        self._line += data.count(self._delimiter)
        self._offset += len(self._buffer) + len(data)
        self._buffer = bytearray()
        self._dropping = False
        self._at_start = False

    def close(self) -> list[Frame]:
        """Return the last frame, if the stream ends inside one."""
        frames: list[Frame] = []
        if not self._dropping:
            self._finish_line(frames)
        self._next_line()
        return frames

    def _append(self, chunk: bytes, start: int, end: int, frames: list[Frame]) -> None:
        """Append a part of the current line, or drop it if the line is over the limit."""
        if self._dropping:
            self._offset += end - start
            return
        buffer = self._buffer
        # Copy no more than needed: two bytes over the limit show that the line is too long, even if the last one is a
        # carriage return, and three more may be a byte order mark.
        room = self._limit + 2 + len(BYTE_ORDER_MARK) - len(buffer)
        buffer += chunk[start : min(end, start + room)]
        left = end - start - room
        if self._at_start:
            if BYTE_ORDER_MARK.startswith(buffer) and len(buffer) < len(BYTE_ORDER_MARK):
                return  # it may be a byte order mark, which is not data
            if buffer.startswith(BYTE_ORDER_MARK):
                self._buffer = buffer = bytearray(memoryview(buffer)[len(BYTE_ORDER_MARK) :])
                self._offset += len(BYTE_ORDER_MARK)
            self._at_start = False
        if len(buffer) > self._limit + 1 or (len(buffer) == self._limit + 1 and buffer[-1] != 0x0D):
            frames.append(self._frame(buffer, self._line, self._offset))
            self._dropping = True
            self._offset += len(buffer) + max(left, 0)
            self._buffer = bytearray()

    def _finish_line(self, frames: list[Frame]) -> None:
        text = bytes(self._buffer)
        if len(text) > self._limit + 1 or text.strip(BLANK + b"\n"):
            frames.append(self._frame(text, self._line, self._offset))

    def _frame(self, text: bytes | bytearray, number: int, offset: int) -> Frame:
        """Return the frame of a line without its delimiter, or that of the beginning of one over the limit."""
        size = len(text) - text.endswith(b"\r")
        line = number if self._delimiter == b"\n" else None
        if size <= self._limit:
            return Frame(bytes(memoryview(text)[:size]), line, offset)
        head = bytes(memoryview(text)[: min(self._limit, HEAD_BYTES)])
        return Frame(head, line, offset, ParseErrorCode.MESSAGE_TOO_LARGE)

    def _next_line(self) -> None:
        self._offset += len(self._buffer) + 1
        self._line += 1
        self._buffer = bytearray()
        self._dropping = False
        self._at_start = False
