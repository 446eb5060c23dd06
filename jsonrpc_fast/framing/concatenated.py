"""The framing "concatenated": JSON values one after another, with or without white space or other text between them.

Rules:
  - A value that begins with a bracket ends with the bracket that closes it. Brackets in strings are ignored; matching
    the kinds of brackets is the decoder's job. A string between values ends with its quote.
  - Space, tabs and line breaks between values are skipped, and so is a byte order mark at the start of the stream. Any
    other text there is one frame, up to the end of its line or the next opening bracket.
  - A value over the limit is reported at once, as one frame with its beginning; the rest is dropped up to its end. A
    value that lacks a closing bracket extends over the following ones, up to the limit.
  - A control character in a string ends the frame: the value is malformed, and it is unknown where it ends. The stream
    continues at the next line that begins with an opening bracket, because a message may begin only there, not in the
    payload of the malformed value.

The framing "json-seq" (RFC 7464) has the byte RS, 0x1E, before each value and a line feed after it. It is read by the
same rules, except that RS is space between values, ends a value that is cut off, and alone ends a malformed one.
"""

from __future__ import annotations

import enum
import re
from typing import Final

from ..codes import ParseErrorCode
from ..profile import HEAD_BYTES
from ..types import BYTE_ORDER_MARK
from .frames import BLANK, Frame

_skip_space = re.compile(rb"[ \t\r\n]*").match
_find_structure = re.compile(rb'["{}\[\]]').search
_find_in_string = re.compile(rb'["\\\x00-\x1f]').search
_find_end_of_other = re.compile(rb"[\n{\[]").search
_find_line = re.compile(rb"\n(?=[{\[])").search
# `re` stores each repetition of a group, so their number is bounded.
_skip_strings = re.compile(rb'(?:[^"{}\[\]]*"[^"\\\x00-\x1f]*"){0,1000}').match
_skip_escapes = re.compile(rb'(?:[^"\\\x00-\x1f]*\\[^\x00-\x1f]){0,1000}').match
# The same, where RS begins a value.
_skip_space_and_marks = re.compile(rb"[ \t\r\n\x1e]*").match
_find_structure_or_mark = re.compile(rb'["{}\[\]\x1e]').search
_find_end_of_other_or_mark = re.compile(rb"[\n{\[\x1e]").search
_skip_strings_before_mark = re.compile(rb'(?:[^"{}\[\]\x1e]*"[^"\\\x00-\x1f]*"){0,1000}').match
_find_mark = re.compile(rb"(?=\x1e)").search
_QUOTE, _BACKSLASH, _LINE_FEED, _MARK = b'"\\\n\x1e'
_OPENING: Final = b"{["


class _Place(enum.Enum):
    """The part of the stream to which the next byte belongs."""

    BETWEEN = 0  # space, or the beginning of a value
    VALUE = 1
    STRING = 2
    ESCAPE = 3  # the byte after a backslash
    OTHER = 4  # text that is neither
    LOST = 5  # the rest of a malformed value


class ConcatenatedFrames:
    """Split a stream into JSON values, each of which begins with RS if it has marks. Any chunking gives the same
    frames, in linear time. It holds at most one value of `limit` bytes and the last chunk."""

    __slots__ = (
        "_at_start",
        "_begins_line",
        "_buffer",
        "_depth",
        "_dropping",
        "_has_marks",
        "_limit",
        "_offset",
        "_place",
        "_start",
    )
    ended: Final = False  # no fault ends the stream

    def __init__(self, limit: int, has_marks: bool) -> None:
        self._limit = limit
        self._has_marks = has_marks
        self._at_start = True  # a byte order mark may follow, and the buffer may hold a part of it
        self._place = _Place.BETWEEN
        self._depth = 0  # open brackets
        self._buffer = bytearray()  # the current frame
        self._dropping = False  # inside a frame over the limit
        self._begins_line = False  # while lost: the last byte was a line feed
        self._offset = 0  # the offset of the next byte
        self._start = 0  # the offset of the current frame

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Return the frames that end in `data`."""
        frames: list[Frame] = []
        chunk = bytes(data)
        if self._at_start:
            chunk = self._without_mark(chunk)
        at = 0
        while at < len(chunk):
            end = self._read(chunk, at, frames)
            self._offset += end - at
            at = end
        return frames

    def skip(self, data: bytes) -> None:
        """Count `data`, whose frames the caller has read itself. The last one ends with it."""
        self._offset += len(data) + (len(self._buffer) if self._at_start else 0)
        self._at_start = False
        self._place = _Place.BETWEEN
        self._buffer = bytearray()
        self._dropping = False

    def close(self) -> list[Frame]:
        """Return the last frame, if the stream ends inside one."""
        frames: list[Frame] = []
        if self._buffer and not self._dropping:
            self._end_frame(frames)
        return frames

    def _without_mark(self, chunk: bytes) -> bytes:
        """Return the beginning of the stream without a byte order mark; b"" while that may be incomplete."""
        chunk = bytes(self._buffer) + chunk
        if len(chunk) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(chunk):
            self._buffer = bytearray(chunk)
            return b""
        self._buffer = bytearray()
        self._at_start = False
        if chunk.startswith(BYTE_ORDER_MARK):
            self._offset = len(BYTE_ORDER_MARK)
            return chunk[len(BYTE_ORDER_MARK) :]
        return chunk

    def _read(self, chunk: bytes, at: int, frames: list[Frame]) -> int:
        """Read from `chunk[at:]` to the end of a frame, or of the chunk. Return where."""
        # The end of a malformed value is unknown, because a bracket in it may or may not be in a string.
        if self._place is _Place.LOST:
            return self._find_line(chunk, at)
        if self._place is _Place.BETWEEN:
            skip = _skip_space_and_marks if self._has_marks else _skip_space
            begin = skip(chunk, at).end()  # type: ignore[union-attr]
            if begin == len(chunk):
                return begin
            self._start = self._offset + begin - at
            self._depth = 0
            first = chunk[begin]
            self._place = _Place.VALUE if first in _OPENING else _Place.STRING if first == _QUOTE else _Place.OTHER
            return self._read_frame(chunk, begin, begin + (first == _QUOTE), frames)
        return self._read_frame(chunk, at, at, frames)

    def _read_frame(self, chunk: bytes, begin: int, at: int, frames: list[Frame]) -> int:
        """Read the frame that begins, or continues, at `begin`, from `at` on."""
        if self._place is _Place.OTHER:
            found = (_find_end_of_other_or_mark if self._has_marks else _find_end_of_other)(chunk, at)
            # The bracket or the line feed that ends the text begins the next frame.
            end = len(chunk) if found is None else found.start()
            has_ended = found is not None
        else:
            end = self._find_end(chunk, at)
            has_ended = self._place is _Place.BETWEEN or self._place is _Place.LOST
        self._append(chunk, begin, end, frames)
        if has_ended:
            if not self._dropping:
                self._end_frame(frames)
            if self._place is _Place.OTHER:
                self._place = _Place.BETWEEN
            self._buffer = bytearray()
            self._dropping = False
        return end

    def _find_end(self, chunk: bytes, at: int) -> int:
        """Return where the value that continues at `at` ends, or the end of the chunk. Set the place there."""
        has_marks = self._has_marks
        skip_strings = _skip_strings_before_mark if has_marks else _skip_strings
        find_structure = _find_structure_or_mark if has_marks else _find_structure
        while at < len(chunk):
            if self._place is _Place.VALUE:
                # Whole strings without escapes are skipped in C; brackets and other strings are read one by one.
                at = skip_strings(chunk, at).end()  # type: ignore[union-attr]
                found = find_structure(chunk, at)
                if found is None:
                    return len(chunk)
                at = found.end()
                byte = chunk[at - 1]
                if byte == _QUOTE:
                    self._place = _Place.STRING
                elif byte == _MARK:
                    self._place = _Place.BETWEEN
                    return at - 1
                elif byte in _OPENING:
                    self._depth += 1
                else:
                    self._depth -= 1
                    if self._depth == 0:
                        self._place = _Place.BETWEEN
                        return at
            elif self._place is _Place.ESCAPE:
                self._place = _Place.STRING
                # A control character is left to the code for strings, because it makes the string malformed.
                if chunk[at] >= 0x20:
                    at += 1
            else:
                at = _skip_escapes(chunk, at).end()  # type: ignore[union-attr]
                found = _find_in_string(chunk, at)
                if found is None:
                    return len(chunk)
                at = found.end()
                byte = chunk[at - 1]
                if byte == _QUOTE:
                    self._place = _Place.VALUE if self._depth else _Place.BETWEEN
                    if not self._depth:
                        return at
                elif byte == _BACKSLASH:
                    self._place = _Place.ESCAPE
                elif byte == _MARK and has_marks:
                    self._place = _Place.BETWEEN
                    return at - 1
                else:
                    self._place = _Place.LOST
                    self._begins_line = byte == _LINE_FEED
                    return at
        return at

    def _find_line(self, chunk: bytes, at: int) -> int:
        """Drop the rest of a malformed value, up to a line that begins with an opening bracket, or up to RS."""
        if self._has_marks:
            mark = _find_mark(chunk, at)
            if mark is None:
                return len(chunk)
            self._place = _Place.BETWEEN
            return mark.start()
        if self._begins_line and chunk[at] in _OPENING:
            self._place = _Place.BETWEEN
            return at
        found = _find_line(chunk, at)
        if found is None:
            self._begins_line = chunk[-1] == _LINE_FEED
            return len(chunk)
        self._place = _Place.BETWEEN
        return found.end()

    def _append(self, chunk: bytes, begin: int, end: int, frames: list[Frame]) -> None:
        """Append a part of the current frame, or drop it if the frame is over the limit."""
        if self._dropping:
            return
        room = self._limit + 1 - len(self._buffer)  # one byte over the limit shows that the frame is too large
        self._buffer += chunk[begin : min(end, begin + room)]
        if len(self._buffer) > self._limit:
            head = bytes(memoryview(self._buffer)[: min(self._limit, HEAD_BYTES)])
            frames.append(Frame(head, None, self._start, ParseErrorCode.MESSAGE_TOO_LARGE))
            self._dropping = True
            self._buffer = bytearray()

    def _end_frame(self, frames: list[Frame]) -> None:
        text = bytes(self._buffer)
        # Space at the end of other text belongs to no frame. A value ends with its bracket or quote.
        if text[0] not in b'{["':
            text = text.rstrip(BLANK)
        frames.append(Frame(text, None, self._start))
