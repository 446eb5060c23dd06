"""Bytes to frames and back, without IO and without knowing what a message is. Server-sent events are read by `sse.py`.

Rules of newline framing:
  - a frame ends at byte 0x0A and nowhere else: U+0085, U+2028, U+2029 and a bare 0x0D are data;
  - one 0x0D before the 0x0A is dropped;
  - a byte order mark at the very start of the stream is dropped;
  - a blank line (space, tab, carriage return) is no frame;
  - a line over the limit is one frame with the beginning of its text, told at once; the rest of it is dropped as it
    comes;
  - what is left at the end of the stream is a frame of its own.

Rules of Content-Length framing (LSP 3.17, base protocol; names and values as in RFC 9110, section 5):
  - header lines `name: value` in any order and case, then a blank line, then the body; a line ends at 0x0A, one 0x0D
    before it is dropped, and so are spaces and tabs around a value;
  - Content-Length is there once, in decimal digits: the bytes of the body, or 0 for no frame at all;
  - the charset of a Content-Type, if it names one, is utf-8 or utf8; other headers are not read;
  - a byte order mark at the very start of the stream is dropped, and so are blank lines before the headers;
  - a body over the limit is one frame with the beginning of its text, told as soon as that has come; the body is
    dropped as it comes, and the stream goes on;
  - nobody knows where the next frame begins after headers that break these rules, are larger than MAX_HEADER_BYTES or
    announce more than MAX_SKIPPED_BYTES (where that is more than the limit): such a fault ends the stream.

`auto` tells the two from each other: JSON, `{` or `[`, stands at the start of newline framing; header lines,
of which one is Content-Length or Content-Type, at the start of Content-Length framing. Anything else is read as newline
framing, where a bad line costs itself alone.
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, get_args

from .codes import Hint, ParseErrorCode
from .hints import hint_of_header, looks_like
from .profile import HEAD_BYTES
from .sse import Event, EventDecoder, OversizedEvent, encode_event

Framing = Literal["newline", "content-length", "sse", "auto"]
FRAMINGS: Final[tuple[Framing, ...]] = get_args(Framing)

MAX_HEADER_BYTES: Final = 8192
"""The largest header section of Content-Length framing, its blank line included."""

MAX_SKIPPED_BYTES: Final = 2**32 - 1
"""The largest body over the limit that is skipped; announcing more ends the stream."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r"
_SHORT_BLANK: Final = 64
# `re` remembers each turn of a repeated group, so their number is bounded.
_blank_lines = re.compile(rb"(?:[ \t\r]{0,%d}\n){0,1000}" % _SHORT_BLANK).match

_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]*")
_NOT_IN_A_VALUE: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_CONTENT_TYPE: Final = rb"(?:content-type:[ \t]?application/vscode-jsonrpc;[ \t]?charset=utf-?8\r?\n)?"
_USUAL_SECTION: Final = re.compile(
    _CONTENT_TYPE + rb"content-length:[ \t]?([0-9]{1,9})\r?\n" + _CONTENT_TYPE + rb"\r?\n", re.IGNORECASE
)
_PARAMETER: Final = re.compile(rb';([^;="]*)=([ \t]*"(?:[^"\\]|\\.)*"|[^;]*)')
_EVENT_NAMES: Final = frozenset({b"data", b"event", b"id", b"retry"})
_BLANKS: Final = re.compile(rb"[ \t\r\n]*")


class Frame(NamedTuple):
    """One frame of a stream.

    text    the bytes, without their framing; for MESSAGE_TOO_LARGE the first HEAD_BYTES within the limit, for
            TRUNCATED what had come, None for INVALID_FRAMING
    line    the line it stands on, counted from 1; None where frames are not lines
    offset  the byte of the stream at which the text begins, or the header line at fault, counted from 0
    fault   what is wrong with the framing: MESSAGE_TOO_LARGE, TRUNCATED, INVALID_FRAMING, or None
    hint    what more is known of the fault
    """

    text: bytes | None
    line: int | None
    offset: int
    fault: ParseErrorCode | None = None
    hint: Hint | None = None


def frame(payload: bytes, framing: Literal["newline", "content-length", "sse"] = "newline") -> bytes:
    """One JSON text as a frame: what goes on the wire. b"" stays b"", for nothing is to be sent.

    payload: with or without one `\\n` at its end, as `encode` gives it. Raises ValueError for another `\\n` in it where
    frames are lines, and for a framing that is none of the three.
    """
    if framing == "newline":
        feed = payload.find(b"\n")
        if feed == len(payload) - 1:
            return payload
        if feed < 0:
            return payload + b"\n"
        raise ValueError("payload must not hold a line break before its end")
    if framing not in ("content-length", "sse"):
        raise ValueError('framing must be "newline", "content-length" or "sse"')
    if payload.endswith(b"\n"):
        payload = payload[:-1]
    if not payload:
        return b""
    if framing == "sse":
        return encode_event(payload)
    return b"Content-Length: %d\r\n\r\n%b" % (len(payload), payload)


# An exception may come out of any line: from a signal handler, a trace function, too little stack or memory. `save`
# returns what `restore` then brings back. For that to be cheap, buffers grow at their end alone or are replaced.


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
        room = self._limit + 2 + len(_BYTE_ORDER_MARK) - len(buffer)
        buffer += chunk[start : min(end, start + room)]
        left = end - start - room
        if self._at_start:
            if _BYTE_ORDER_MARK.startswith(buffer) and len(buffer) < len(_BYTE_ORDER_MARK):
                return  # perhaps a mark, which does not count
            if buffer.startswith(_BYTE_ORDER_MARK):
                self._buffer = buffer = buffer[len(_BYTE_ORDER_MARK) :]
                self._offset += len(_BYTE_ORDER_MARK)
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


class HeaderReader:
    """Reads one header section, chunk by chunk, until it is complete or breaks a rule.

    length  the bytes of the body, once the section is complete; None before
    is_bad  whether it breaks a rule
    hint    which one, or what the bytes look like instead
    at      the byte, counted from 0, at which the line begun or the line at fault begins
    """

    __slots__ = (
        "_at_start",
        "_content_length",
        "_is_event",
        "_line",
        "_longest",
        "_room",
        "at",
        "hint",
        "is_bad",
        "length",
    )

    def __init__(self, limit: int, at_start: bool) -> None:
        """limit: of a body, in bytes. at_start: this is the start of the stream."""
        self._longest = max(limit, MAX_SKIPPED_BYTES)
        self._at_start = at_start  # a byte order mark may still come
        self._line = bytearray()  # the line begun
        self._room = MAX_HEADER_BYTES
        self._content_length: int | None = None
        self._is_event: bool | None = None  # whether a header had the name of an event's field; None before any
        self.length: int | None = None
        self.is_bad: bool = False
        self.hint: Hint | None = None
        self.at: int = 0

    def save(self) -> tuple[Any, ...]:
        return self._line, len(self._line), _header_state(self)

    def restore(self, saved: tuple[Any, ...]) -> None:
        self._line, size, state = saved
        del self._line[size:]
        (
            self._at_start,
            self._room,
            self._content_length,
            self._is_event,
            self.length,
            self.is_bad,
            self.hint,
            self.at,
        ) = state

    def read(self, chunk: bytes, start: int) -> int:
        """Takes what is the section's from `chunk[start:]`. Returns where that ends."""
        if self._is_event is None and not self._line:
            usual = _USUAL_SECTION.match(chunk, start)
            if usual is not None:
                self.length = int(usual[1])  # below MAX_SKIPPED_BYTES, for want of digits
                return usual.end()
        end = start
        while self.length is None and not self.is_bad:
            begin = end
            feed = chunk.find(b"\n", begin, begin + self._room)
            end = feed + 1 if feed >= 0 else min(len(chunk), begin + self._room)
            self._line += chunk[begin:end]
            self._room -= end - begin
            if feed >= 0:
                self._end_line()
            elif self._room == 0:
                hint = hint_of_header(self._line_begun())
                self._fail(hint if hint is Hint.NEWLINE_FRAMING else Hint.HEADER_TOO_LARGE)
            else:
                if self._line_begun().startswith(b"{"):
                    # Told at once: a peer that writes no headers may write no line ending either.
                    self._fail(Hint.NEWLINE_FRAMING)
                break
        return end

    def close(self) -> ParseErrorCode | None:
        """What is wrong when the stream ends here; None if no header was begun."""
        line = self._line_begun().removesuffix(b"\r")
        if self._is_event is None and not line.strip(_BLANK):
            return None
        name, _, value = line.partition(b":")
        if (name or not line) and _NAME.fullmatch(name) and not _NOT_IN_A_VALUE.search(value):
            return ParseErrorCode.TRUNCATED
        self._fail(hint_of_header(line))
        return ParseErrorCode.INVALID_FRAMING

    def _line_begun(self) -> bytes:
        line = bytes(self._line)
        return line.removeprefix(_BYTE_ORDER_MARK) if self._at_start else line

    def _end_line(self) -> None:
        line = self._line_begun()[:-1].removesuffix(b"\r")
        if self._is_event is None and not line.strip(_BLANK):
            self._room = MAX_HEADER_BYTES
        elif line:
            self._take(line)
        elif self._content_length is None:
            self._fail(Hint.SSE_FRAMING if self._is_event else Hint.MISSING_LENGTH)
        else:
            self.length = self._content_length
        if not self.is_bad:
            self.at += len(self._line)
        self._line = bytearray()
        self._at_start = False

    def _take(self, line: bytes) -> None:
        name, colon, value = line.partition(b":")
        if not (name and colon and _NAME.fullmatch(name)) or _NOT_IN_A_VALUE.search(value):
            self._fail(hint_of_header(line))
            return
        name = name.lower()
        self._is_event = self._is_event or name in _EVENT_NAMES
        if name == b"content-length":
            self._take_length(value.strip(b" \t"))
        elif name == b"content-type" and not _has_known_charset(value):
            self._fail(Hint.UNKNOWN_CHARSET)

    def _take_length(self, digits: bytes) -> None:
        if self._content_length is not None:
            self._fail(Hint.DUPLICATE_LENGTH)
        elif not digits.isdigit():
            self._fail(Hint.INVALID_LENGTH)
        else:
            # An int is not made of thousands of digits: that takes long, and CPython may refuse to.
            digits = digits.lstrip(b"0")[: len(str(self._longest)) + 1]
            self._content_length = int(digits or b"0")
            if self._content_length > self._longest:
                self._fail(Hint.LENGTH_TOO_LARGE)

    def _fail(self, hint: Hint | None) -> None:
        self.is_bad = True
        self.hint = hint


def _has_known_charset(content_type: bytes) -> bool:
    for name, value in _PARAMETER.findall(content_type):
        if name.strip().lower() == b"charset" and value.strip().strip(b'"').lower() not in (b"utf-8", b"utf8"):
            return False
    return True


_header_state = attrgetter("_at_start", "_room", "_content_length", "_is_event", "length", "is_bad", "hint", "at")


class ContentLengthFrames:
    """Splits a stream into bodies behind headers. Any chunking gives the same frames, in linear time.

    It holds what has come of one header section or of one body of `limit` bytes, and the chunk that it was fed last:
    what headers announce costs nothing before it comes.
    """

    __slots__ = (
        "_at_start",
        "_body",
        "_dropping",
        "_head_left",
        "_header",
        "_left",
        "_limit",
        "_offset",
        "_start",
        "ended",
    )

    def __init__(self, limit: int) -> None:
        self.ended: bool = False
        self._limit = limit
        self._at_start = True
        self._header: HeaderReader | None = None  # what reads the headers begun
        self._left = 0  # bytes of the body still to come
        self._body = bytearray()
        self._dropping = False  # inside a body that is over the limit
        self._head_left = 0  # bytes still to come of its beginning
        self._offset = 0  # of the byte that comes next
        self._start = 0  # of the headers or of the body

    def save(self) -> tuple[Any, ...]:
        header = self._header
        return self._body, len(self._body), header, header and header.save(), _body_state(self)

    def restore(self, saved: tuple[Any, ...]) -> None:
        self._body, size, self._header, header, state = saved
        del self._body[size:]
        if self._header is not None:
            self._header.restore(header)
        self._at_start, self._left, self._dropping, self._head_left, self._offset, self._start, self.ended = state

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """The frames that end in `data`; none after a fault that ended the stream."""
        frames: list[Frame] = []
        chunk = bytes(data)
        at = 0
        while at < len(chunk) and not self.ended:
            at = self._read_body(chunk, at, frames) if self._left else self._read_headers(chunk, at, frames)
        return frames

    def close(self) -> list[Frame]:
        """The fault that the end of the stream makes inside a frame, if it is inside one."""
        if self.ended:
            return []
        if self._dropping:
            return [] if self._head_left == 0 else [self._too_large()]
        if self._left:
            return [Frame(bytes(self._body), None, self._start, ParseErrorCode.TRUNCATED)]
        fault = None if self._header is None else self._header.close()
        if self._header is None or fault is None:
            return []
        if fault is ParseErrorCode.TRUNCATED:
            return [Frame(b"", None, self._offset, fault)]
        return [Frame(None, None, self._start + self._header.at, fault, self._header.hint)]

    def _read_headers(self, chunk: bytes, at: int, frames: list[Frame]) -> int:
        if self._header is None:
            self._header = HeaderReader(self._limit, self._at_start)
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
            self._header = None
            self._left = header.length
            self._start = self._offset
            self._dropping = header.length > self._limit
            if self._dropping:
                self._head_left = min(self._limit, HEAD_BYTES)
        return end

    def _read_body(self, chunk: bytes, at: int, frames: list[Frame]) -> int:
        size = min(self._left, len(chunk) - at)
        self._left -= size
        self._offset += size
        if self._dropping:
            if self._head_left:
                head = chunk[at : at + min(size, self._head_left)]
                self._body += head
                self._head_left -= len(head)
                if self._head_left == 0:
                    frames.append(self._too_large())
            self._dropping = self._left > 0
        elif self._left or self._body:
            self._body += chunk[at : at + size]
            if not self._left:
                frames.append(Frame(bytes(self._body), None, self._start))
                self._body = bytearray()
        else:
            frames.append(Frame(chunk[at : at + size], None, self._start))
        return at + size

    def _too_large(self) -> Frame:
        head = bytes(self._body)
        self._body = bytearray()
        return Frame(head, None, self._start, ParseErrorCode.MESSAGE_TOO_LARGE)


_body_state = attrgetter("_at_start", "_left", "_dropping", "_head_left", "_offset", "_start", "ended")


class EventFrames:
    """Splits a stream of server-sent events into the data of those that are messages and have any.

    A line that looks like another framing is ignored as any unknown field is, but the first is told as a fault.
    """

    __slots__ = ("_events", "_told")
    ended: Final = False

    def __init__(self, limit: int) -> None:
        self._events = EventDecoder(limit)
        self._told = False

    def save(self) -> tuple[Any, ...]:
        return self._told, self._events.save()

    def restore(self, saved: tuple[Any, ...]) -> None:
        self._told, events = saved
        self._events.restore(events)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """The frames that end in `data`."""
        return self._frames_of(self._events.read(data))

    def close(self) -> list[Frame]:
        """What had come of an event that the end of the stream cuts off."""
        frames = self._frames_of(self._events.rest())
        return [found._replace(fault=ParseErrorCode.TRUNCATED) if found.fault is None else found for found in frames]

    def _frames_of(self, read: list[tuple[Event | bytes, int]]) -> list[Frame]:
        frames = []
        for found, offset in read:
            if not isinstance(found, Event):
                hint = looks_like(found)
                if not self._told and hint in (Hint.NEWLINE_FRAMING, Hint.CONTENT_LENGTH_FRAMING):
                    self._told = True
                    frames.append(Frame(None, None, offset, ParseErrorCode.INVALID_FRAMING, hint))
            elif found.type == "message" and found.data != b"":
                if isinstance(found, OversizedEvent):
                    frames.append(Frame(found.head, None, offset, ParseErrorCode.MESSAGE_TOO_LARGE))
                else:
                    frames.append(Frame(found.data, None, offset))
        return frames


class FramingDetector:
    """Tells newline framing from Content-Length framing by the first bytes. Any chunking tells the same.

    seen  what it was fed: less than MAX_HEADER_BYTES, and the chunk that told
    """

    __slots__ = ("_at", "_in_value", "_line", "seen")

    def __init__(self) -> None:
        self.seen: bytearray = bytearray()
        self._at = 0  # what is before this was looked at
        self._line: int | None = None  # where the header line begun begins; None in front of the first
        self._in_value = False  # behind the line's colon

    def save(self) -> tuple[Any, ...]:
        return len(self.seen), self._at, self._line, self._in_value

    def restore(self, saved: tuple[Any, ...]) -> None:
        size, self._at, self._line, self._in_value = saved
        del self.seen[size:]

    def feed(self, data: bytes | bytearray | memoryview) -> Literal["newline", "content-length"] | None:
        """The framing, once it is known."""
        seen = self.seen
        seen += bytes(data)  # a memoryview with gaps is no buffer that can be appended
        end = min(len(seen), MAX_HEADER_BYTES)
        if self._line is None:
            if len(seen) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(seen):
                return None
            begin = len(_BYTE_ORDER_MARK) if seen.startswith(_BYTE_ORDER_MARK) else 0
            self._at = _end_of(_BLANKS, seen, max(self._at, begin), end)
            if self._at < end:
                self._line = self._at
        while self._line is not None and self._at < end:
            if self._in_value:
                feed = seen.find(b"\n", self._at, end)
                self._at = end if feed < 0 else feed + 1
                self._line = self._at
                self._in_value = feed < 0
                continue
            self._at = _end_of(_NAME, seen, self._at, end)
            if self._at < end:
                name = seen[self._line : self._at].lower()
                if not name or seen[self._at] != 0x3A:
                    return "newline"
                if bytes(name) in (b"content-length", b"content-type"):
                    return "content-length"
                self._in_value = True
        return "newline" if end == MAX_HEADER_BYTES else None


_METHOD: Final = re.compile(rb"[\r\n]*[A-Za-z-]{0,32}(?:\Z|( ))")
_TARGET: Final = re.compile(rb"[^ \r\n]*")
_HTTP: Final = b" HTTP/"


class HttpDetector:
    """Tells a stream that begins like HTTP from others, by its first line: a method, a target, `HTTP/`.

    Any chunking tells the same. No message ends before it is known: the line has none, and no valid header in it.
    """

    __slots__ = ("_in_target", "_seen")

    def __init__(self) -> None:
        self._seen = b""  # of the method, or of what follows the target
        self._in_target = False

    def feed(self, data: bytes | bytearray | memoryview) -> bool | None:
        """Whether it is HTTP; None when more bytes are needed to know."""
        text = bytes(data)
        if not self._in_target:
            method = _METHOD.match(self._seen + text)
            if method is None:
                return False
            if not method[1]:
                self._seen = method[0]
                return None
            text = (self._seen + text)[method.end() :]
            self._seen = b""
            self._in_target = True
        if not self._seen:
            end = _TARGET.match(text).end()  # type: ignore[union-attr]  # it matches nothing at the least
            text = text[end:]
        self._seen = (self._seen + text)[: len(_HTTP)]
        if self._seen == _HTTP:
            return True
        return None if _HTTP.startswith(self._seen) else False


def _end_of(pattern: re.Pattern[bytes], text: bytearray, start: int, end: int) -> int:
    """Where what a pattern finds at `start` ends; the pattern finds nothing at the least."""
    match = pattern.match(text, start, end)
    return start if match is None else match.end()


Frames = LineFrames | ContentLengthFrames | EventFrames


def frames_of(framing: Literal["newline", "content-length", "sse"], limit: int) -> Frames:
    """What splits a stream into frames of at most `limit` bytes."""
    if framing == "newline":
        return LineFrames(limit)
    return ContentLengthFrames(limit) if framing == "content-length" else EventFrames(limit)
