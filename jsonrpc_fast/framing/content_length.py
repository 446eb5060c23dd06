"""Content-Length framing: header lines, then a body.

Rules (LSP 3.17, base protocol; names and values as in RFC 9110, section 5):
  - Header lines `name: value` in any order and case come first, then a blank line, then the body. A line ends at 0x0A;
    one 0x0D before it is dropped, and so are spaces and tabs around a value.
  - Content-Length occurs once, in decimal digits: the size of the body in bytes. With 0 there is no frame.
  - The charset of a Content-Type, if there is one, is utf-8 or utf8. Other headers are ignored, and so are blank lines
    before the headers, and a byte order mark at the start of the stream.
  - A body over the limit is reported as soon as its beginning has arrived, as one frame with that beginning. The rest
    is dropped, and the stream continues.
  - Headers that break these rules, are larger than MAX_HEADER_BYTES, or announce more than the limit and
    MAX_SKIPPED_BYTES end the stream, because it is unknown where the next frame begins.
  - With `resync` they do not: the next frame begins at the next line that ends in a Content-Length header, and all
    bytes before it are reported as one fault with their number. Only a stream that has had no frame and looks like
    another framing ends all the same.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from ..codes import Hint, ParseErrorCode
from ..profile import HEAD_BYTES
from ..types import BYTE_ORDER_MARK
from .frames import BLANK, MAX_HEADER_BYTES, MAX_SKIPPED_BYTES, Frame
from .hints import hint_of_header
from .sse import KNOWN_FIELDS

HEADER_NAME: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_HEADER: Final = rb"(%b)(?::([^\x00-\x08\x0a-\x1f\x7f]*))?" % HEADER_NAME
_CONTENT_TYPE: Final = rb"(?:content-type:[ \t]?application/vscode-jsonrpc;[ \t]?charset=utf-?8\r?\n)?"
_USUAL_SECTION: Final = rb"(?i)%bcontent-length:[ \t]?([0-9]{1,9})\r?\n%b\r?\n" % (_CONTENT_TYPE, _CONTENT_TYPE)
_LENGTH_AT_END: Final = rb"(?i)content-length:[ \t]{0,8}[0-9]{1,15}[ \t]{0,8}\r?\n\Z"
_LENGTH_BYTES: Final = 48  # the longest match


@functools.cache
def compiled(pattern: bytes) -> re.Pattern[bytes]:
    """Compile a pattern when a stream needs it: compiling takes a tenth of the time of importing the codec."""
    return re.compile(pattern)


class HeaderReader:
    """Read one header section, chunk by chunk, until it is complete or breaks a rule.

    With `resync`, a line that ends in a Content-Length header after other text is invalid.

    Attributes:
        length: The size of the body; None until the section is complete.
        is_bad: The section breaks a rule.
        hint: The broken rule, or what the bytes look like instead.
        at: The byte, counted from 0, at which the current or the invalid line begins.
        line: What has been read of that line.
        skipped: The number of bytes before the section that belong to no frame.
    """

    __slots__ = (
        "_at_start",
        "_content_length",
        "_is_event",
        "_longest",
        "_resync",
        "_room",
        "at",
        "hint",
        "is_bad",
        "length",
        "line",
    )
    skipped: Final = 0

    def __init__(self, limit: int, at_start: bool, *, resync: bool) -> None:
        self._resync = resync
        self._longest = max(limit, MAX_SKIPPED_BYTES)
        self._at_start = at_start  # a byte order mark may follow
        self.line: bytearray = bytearray()
        self._room = MAX_HEADER_BYTES
        self._content_length: int | None = None
        self._is_event: bool | None = None  # whether a header has the name of an event's field; None before the first
        self.length: int | None = None
        self.is_bad: bool = False
        self.hint: Hint | None = None
        self.at: int = 0

    def read(self, chunk: bytes, start: int) -> int:
        """Read from `chunk[start:]`. Return where the section, or the chunk, ends."""
        if self._is_event is None and not self.line:
            # Fast path: nearly every section is one Content-Length header that arrives as a whole.
            usual = compiled(_USUAL_SECTION).match(chunk, start)
            if usual is not None:
                self.length = int(usual[1])  # 9 digits are below MAX_SKIPPED_BYTES
                return usual.end()
        end = start
        while self.length is None and not self.is_bad:
            begin = end
            # `_room` bounds the whole section, so that a peer cannot make this side keep an endless header.
            feed = chunk.find(b"\n", begin, begin + self._room)
            end = feed + 1 if feed >= 0 else min(len(chunk), begin + self._room)
            self.line += chunk[begin:end]
            self._room -= end - begin
            if feed >= 0:
                self._end_line()
            elif self._room == 0:
                hint = hint_of_header(self._line_begun())
                self._fail(hint if hint is Hint.NEWLINE_FRAMING else Hint.HEADER_TOO_LARGE)
            else:
                # A header name cannot contain a brace, but a JSON object begins with one.
                if self._line_begun().startswith(b"{"):
                    # Reported at once, because a peer without headers may not write line endings either.
                    self._fail(Hint.NEWLINE_FRAMING)
                break
        return end

    def close(self) -> ParseErrorCode | None:
        """Return the fault of a stream that ends here; None if no header was begun."""
        line = self._line_begun().removesuffix(b"\r")
        if self._is_event is None and not line.strip(BLANK):
            return None
        # The beginning of a valid header was cut off; anything else would be invalid with more bytes, too.
        if not line or compiled(_HEADER).fullmatch(line):
            return ParseErrorCode.TRUNCATED
        self._fail(hint_of_header(line))
        return ParseErrorCode.INVALID_FRAMING

    def _line_begun(self) -> bytes:
        line = bytes(self.line)
        return line.removeprefix(BYTE_ORDER_MARK) if self._at_start else line

    def _end_line(self) -> None:
        line = self._line_begun()[:-1].removesuffix(b"\r")
        if self._is_event is None and not line.strip(BLANK):
            # Any number of blank lines may come before the headers, so they are not counted.
            self._room = MAX_HEADER_BYTES
        elif line:
            self._read_header(line)
        elif self._content_length is None:
            # "data: {…}" is a valid header line, so an event stream is only noticed at its blank line.
            self._fail(Hint.SSE_FRAMING if self._is_event else Hint.MISSING_LENGTH)
        else:
            self.length = self._content_length
        if not self.is_bad:
            self.at += len(self.line)
            self.line = bytearray()
        self._at_start = False

    def _read_header(self, line: bytes) -> None:
        header = compiled(_HEADER).fullmatch(line)
        if header is None or header[2] is None:
            self._fail(hint_of_header(line))
            return
        name, value = header[1].lower(), header[2]
        self._is_event = self._is_event or name + b":" in KNOWN_FIELDS
        if name == b"content-length":
            self._read_length(value.strip(b" \t"))
        elif self._resync and _length_at_end(bytes(self.line)) is not None:
            self._fail(Hint.PRINTED_TEXT)
        elif name == b"content-type" and not _has_known_charset(value):
            self._fail(Hint.UNKNOWN_CHARSET)

    def _read_length(self, digits: bytes) -> None:
        # Two lengths, even equal ones, are a fault: two readers may believe different ones (RFC 9112, section 6.3).
        if self._content_length is not None:
            self._fail(Hint.DUPLICATE_LENGTH)
        elif not digits.isdigit():
            self._fail(Hint.INVALID_LENGTH)
        else:
            # Converting thousands of digits is slow, and CPython may refuse it. One digit more than the largest length
            # has is enough to see that the length is larger.
            digits = digits.lstrip(b"0")[: len(str(self._longest)) + 1]
            self._content_length = int(digits or b"0")
            if self._content_length > self._longest:
                self._fail(Hint.LENGTH_TOO_LARGE)

    def _fail(self, hint: Hint | None) -> None:
        self.is_bad = True
        self.hint = hint


def _length_at_end(line: bytes) -> re.Match[bytes] | None:
    """Return the Content-Length header at the end of a line."""
    return compiled(_LENGTH_AT_END).search(line, max(0, len(line) - _LENGTH_BYTES))


def _has_known_charset(content_type: bytes) -> bool:
    for name, value in compiled(rb';([^;="]*)=([ \t]*"(?:[^"\\]|\\.)*"|[^;]*)').findall(content_type):
        if name.strip().lower() == b"charset" and value.strip().strip(b'"').lower() not in (b"utf-8", b"utf8"):
            return False
    return True


class HeaderSearch:
    """Do what `HeaderReader` does, but skip bytes that are no headers.

    The attributes are those of `HeaderReader`. Any chunking gives the same result, in linear time. `is_first`: the
    stream has had no frame yet.
    """

    __slots__ = ("_is_first", "_limit", "_section", "_size", "_tail", "at", "hint", "is_bad", "length", "skipped")

    def __init__(self, limit: int, at_start: bool, is_first: bool) -> None:
        self._limit = limit
        self._is_first = is_first
        self._section: HeaderReader | None = HeaderReader(limit, at_start, resync=True)  # None while a line is skipped
        self._size = 0  # of the section, as far as it is read
        self._tail = b""  # the end of the skipped line, which may be the beginning of a header
        self.skipped: int = 0
        self.length: int | None = None
        self.is_bad: bool = False
        self.hint: Hint | None = None
        self.at: int = 0  # of the skipped bytes, or of the line that ends the stream

    def read(self, chunk: bytes, start: int) -> int:
        """Read from `chunk[start:]`. Return where the section, or the chunk, ends."""
        at = start
        while at < len(chunk) and self.length is None and not self.is_bad:
            begin = at
            if self._section is None:
                at = chunk.find(b"\n", begin) + 1 or len(chunk)
                self._skip(chunk[begin:at])
            else:
                at = self._section.read(chunk, begin)
                self._size += at - begin
                self._judge(self._section)
        return at

    def close(self) -> ParseErrorCode | None:
        """Return the fault of a stream that ends here; None if no header was begun."""
        if self._section is None:
            self.skipped += len(self._tail)
            return ParseErrorCode.INVALID_FRAMING
        fault = self._section.close()
        if fault is ParseErrorCode.INVALID_FRAMING:
            self.skipped += self._size
            self.hint = self.hint or self._section.hint
        return fault

    def _judge(self, section: HeaderReader) -> None:
        self.length = section.length
        if not section.is_bad:
            return
        self.hint = self.hint or section.hint
        if self._is_first and section.hint in (Hint.NEWLINE_FRAMING, Hint.SSE_FRAMING):
            self.is_bad = True
            self.at = section.at
            return
        # The invalid line may end in a header, unless the header is the whole section: then it is the invalid line.
        line = bytes(section.line)[len(section.line) == self._size :]
        self.skipped += self._size - len(line)
        self._section = None
        self._skip(line)

    def _skip(self, part: bytes) -> None:
        """Skip a part of a line, up to a header at its end."""
        line = self._tail + part
        has_ended = line.endswith(b"\n")
        header = _length_at_end(line) if has_ended else None
        if header is not None:
            self.skipped += header.start()
            self._tail = b""
            self._section = HeaderReader(self._limit, False, resync=True)
            self._size = self._section.read(header[0], 0)
            self._judge(self._section)
        else:
            self._tail = b"" if has_ended else line[1 - _LENGTH_BYTES :]
            self.skipped += len(line) - len(self._tail)


def header_reader(limit: int, at_start: bool, is_first: bool, resync: bool) -> HeaderReader | HeaderSearch:
    """Return the reader of the next header section; the arguments are those of the two classes."""
    return HeaderSearch(limit, at_start, is_first) if resync else HeaderReader(limit, at_start, resync=False)


def _skipped(header: HeaderReader | HeaderSearch, start: int) -> Frame:
    return Frame(None, None, start, ParseErrorCode.INVALID_FRAMING, header.hint, header.skipped)


class ContentLengthFrames:
    """Split a stream into headers and bodies. Any chunking gives the same frames, in linear time.

    It holds one header section or one body of `limit` bytes, as far as it has arrived, and the last chunk. A large
    Content-Length allocates nothing. `resync`: skip what is no header, up to the next one.
    """

    # The next byte belongs to a body while `_left` is not 0, else to headers. The first `_wanted` bytes of a body
    # become a frame: all of it, or the beginning of one over the limit. Then `_wanted` is 0, and the rest is dropped.

    __slots__ = (
        "_at_start",
        "_body",
        "_fault",
        "_header",
        "_is_first",
        "_left",
        "_limit",
        "_offset",
        "_resync",
        "_start",
        "_wanted",
        "ended",
    )

    def __init__(self, limit: int, *, resync: bool) -> None:
        self.ended: bool = False
        self._limit = limit
        self._resync = resync
        self._at_start = True
        self._is_first = True  # no headers have been read yet
        self._header: HeaderReader | HeaderSearch | None = None  # the reader of the current headers
        self._left = 0  # missing bytes of the body
        self._body = bytearray()  # the part of the wanted bytes that has arrived
        self._wanted = 0
        self._fault: ParseErrorCode | None = None  # set if the body is over the limit
        self._offset = 0  # the offset of the next byte
        self._start = 0  # the offset of the current headers or body

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Return the frames that end in `data`; an empty list after a fault that ended the stream."""
        frames: list[Frame] = []
        chunk = bytes(data)
        at = 0
        while at < len(chunk) and not self.ended:
            if self._header is None and not self._left:
                at = self._read_whole(chunk, at, frames)
            if at < len(chunk):
                at = self._read_body(chunk, at, frames) if self._left else self._read_headers(chunk, at, frames)
        return frames

    def skip(self, data: bytes) -> None:
        """Count `data`, whose frames the caller has read itself. The last one ends with it."""
        self._offset += len(data)
        self._at_start = self._is_first = False
        self._header = None
        self._left = self._wanted = 0
        self._body = bytearray()

    def close(self) -> list[Frame]:
        """Return the fault of a stream that ends inside a frame, if it does."""
        if self._wanted:
            return [Frame(bytes(self._body), None, self._start, self._fault or ParseErrorCode.TRUNCATED)]
        if self.ended or self._left:  # the fault is reported
            return []
        header = self._header
        fault = None if header is None else header.close()
        if header is None:
            return []
        frames = [_skipped(header, self._start)] if header.skipped else []
        if fault is ParseErrorCode.TRUNCATED:
            frames.append(Frame(b"", None, self._offset, fault))
        elif fault is not None and not frames:
            frames.append(Frame(None, None, self._start + header.at, fault, header.hint))
        return frames

    def _read_whole(self, chunk: bytes, start: int, frames: list[Frame]) -> int:
        """Read frames that arrived as a whole, with usual headers, as nearly all do. Return where they end."""
        at = start
        match, size, limit, offset = compiled(_USUAL_SECTION).match, len(chunk), self._limit, self._offset - start
        while (usual := match(chunk, at)) is not None:
            body = usual.end()
            length = int(usual[1])
            if not 0 < length <= limit or body + length > size:
                break
            at = body + length
            frames.append(Frame(chunk[body:at], None, offset + body))
        if at > start:
            self._offset += at - start
            self._at_start = self._is_first = False
        return at

    def _read_headers(self, chunk: bytes, at: int, frames: list[Frame]) -> int:
        if self._header is None:
            self._header = header_reader(self._limit, self._at_start, self._is_first, self._resync)
            self._at_start = False
            self._start = self._offset
        header = self._header
        end = header.read(chunk, at)
        self._offset += end - at
        if header.is_bad:
            self.ended = True
            place = self._start + header.at
            frames.append(Frame(None, None, place, ParseErrorCode.INVALID_FRAMING, header.hint))
        elif header.length is not None:
            if header.skipped:
                frames.append(_skipped(header, self._start))
            self._header = None
            self._is_first = False
            # With a length of 0 the next bytes are headers again: an empty body is not a message.
            self._left = header.length
            self._start = self._offset
            # A body over the limit is skipped without being stored, except its beginning, for the id in the fault.
            is_too_large = header.length > self._limit
            self._wanted = min(self._limit, HEAD_BYTES) if is_too_large else header.length
            self._fault = ParseErrorCode.MESSAGE_TOO_LARGE if is_too_large else None
        return end

    def _read_body(self, chunk: bytes, at: int, frames: list[Frame]) -> int:
        size = min(self._left, len(chunk) - at)
        self._left -= size
        self._offset += size
        missing = self._wanted - len(self._body)
        if size < missing:
            self._body += chunk[at : at + size]
        elif missing:
            # A body in several chunks is collected; one that arrives whole is sliced once.
            text = chunk[at : at + missing]
            if self._body:
                self._body += text
                text = bytes(self._body)
                self._body = bytearray()
            frames.append(Frame(text, None, self._start, self._fault))
            self._wanted = 0
        return at + size
