"""Server-sent events, without IO: bytes to events and back.

The rules are those of WHATWG HTML, "Server-sent events", 9.2.5 and 9.2.6. For untrusted input:
  - Data stays bytes: the decoder of the data finds invalid UTF-8.
  - An event over the limit is reported at once, without its data; the rest is dropped.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ..profile import HEAD_BYTES
from ..types import BYTE_ORDER_MARK

KNOWN_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:")
_LINE_ENDINGS: Final = re.compile(rb"[\r\n]+")

SHOWN_BYTES: Final = 64
"""How many bytes of an ignored line are kept."""

MAX_FIELD_BYTES: Final = 8192
"""The maximum length of a line, except data. An event with a longer line is over the limit."""


class Event(NamedTuple):
    """An event.

    Attributes:
        type: "message" if the stream does not set it.
        data: The bytes, not decoded; None if they are over the limit.
        id: The last event id: of this event or of an earlier one, or "".
        retry: The reconnection time in milliseconds, if this event sets it.
    """

    type: str
    data: bytes | None
    id: str
    retry: int | None


class OversizedEvent(Event):
    """An event over the limit.

    Attributes:
        head: The beginning of its data: the first HEAD_BYTES within the limit.
    """

    head: bytes


class EventDecoder:
    """Decode a stream of events, chunk by chunk. Any chunking gives the same events, in linear time.

    It holds at most one event and the last chunk.

    Args:
        limit: The maximum size of the data of one event, in bytes.

    Attributes:
        last_event_id: The `Last-Event-ID` to send on reconnection.
        retry: The last reconnection time that the stream set, in milliseconds, or None.
    """

    __slots__ = (
        "_after_return",
        "_at_start",
        "_data",
        "_data_offset",
        "_dropping",
        "_id",
        "_limit",
        "_line",
        "_line_offset",
        "_offset",
        "_retry",
        "_too_large",
        "_type",
        "last_event_id",
        "retry",
    )

    def __init__(self, limit: int = 64 * 1024 * 1024) -> None:
        self._limit = limit
        self._at_start = True  # a byte order mark may follow
        self._after_return = False  # a 0x0A that follows belongs to the previous line
        self._offset = 0  # the offset of the chunk
        self._line = bytearray()  # the current line, without its ending
        self._line_offset = 0
        self._dropping = False  # inside a line that is ignored or over the limit
        # The id of the lines read so far becomes the last event id at the next blank line only (9.2.6): a client that
        # reconnects before it gets the event again.
        self.last_event_id: str = ""
        self.retry: int | None = None
        self._id = ""
        self._type = ""
        self._data = bytearray()  # of the current event, each value with a 0x0A after it
        self._data_offset: int | None = None
        self._retry: int | None = None
        self._too_large = False

    @property
    def is_between_events(self) -> bool:
        """Whether the next byte begins an event, or ends a blank line, which has no meaning here."""
        return (
            not (self._line or self._dropping or self._at_start or self._too_large)
            and self._data_offset is None
            and self._type == ""
        )

    def feed(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """Return the events that end in `data`. Raises TypeError if it is not bytes."""
        return [found for found, _ in self.read(data) if isinstance(found, Event)]

    def read(self, data: bytes | bytearray | memoryview) -> list[tuple[Event | bytes, int]]:
        """Return the events that end in `data`, and the beginnings of ignored lines that are not comments.

        Each has the offset in the stream, counted from 0, at which the first data of the event, or the line, begins.
        """
        found: list[tuple[Event | bytes, int]] = []
        chunk = data if type(data) is bytes else bytes(memoryview(data))  # `bytes(5)` would be five NULs
        at = 0
        # A CRLF may be split between two chunks: its CR has ended the line already.
        if chunk and self._after_return:
            self._after_return = False
            if chunk.startswith(b"\n"):
                at = 1
                self._line_offset += 1
        is_fresh = not (self._line or self._dropping or self._at_start)  # the line begins in this chunk
        feed = chunk.find(b"\n", at)
        carriage_return = chunk.find(b"\r", at)
        while feed >= 0 or carriage_return >= 0:
            end = feed if carriage_return < 0 or 0 <= feed < carriage_return else carriage_return
            if is_fresh and chunk.startswith(b"data: ", at) and self._read_event(chunk, at, end, found):
                at = end + (2 if end == feed else 4)  # the line ending, twice
            else:
                is_blank = is_fresh and end == at
                # A short line in one chunk needs no buffer.
                if is_fresh and end - at < SHOWN_BYTES:
                    self._read_line(chunk[at:end], found)
                else:
                    self._append(chunk, at, end, found)
                    self._end_line(found)
                    is_fresh = True
                at = end + 1
                if end == carriage_return:
                    if at == feed:
                        at += 1
                    elif at == len(chunk):
                        self._after_return = True
                blanks = _LINE_ENDINGS.match(chunk, at) if is_blank else None
                if blanks is not None:
                    # Further blank lines have no meaning.
                    at = blanks.end()
                    self._after_return = at == len(chunk) and chunk.endswith(b"\r")
            # Search for either ending again only when the last hit is passed: each byte is then examined at most once
            # for CR and once for LF, even in a stream that has only one of them.
            if 0 <= feed < at:
                feed = chunk.find(b"\n", at)
            if 0 <= carriage_return < at:
                carriage_return = chunk.find(b"\r", at)
            self._line_offset = self._offset + at
        self._append(chunk, at, len(chunk), found)
        self._offset += len(chunk)
        return found

    def skip(self, data: bytes) -> None:
        """Count `data`, which ends with a blank line, without what it sets."""
        self._at_start = False
        self._after_return = data.endswith(b"\r")
        self._offset += len(data)
        self._line = bytearray()
        self._line_offset = self._offset
        self._dropping = False
        self._begin_event()

    def rest(self) -> list[tuple[Event | bytes, int]]:
        """Return what the end of the stream cuts off, an event with data or an ignored line, in the form of `read`."""
        line = bytes(self._line)
        if self._dropping or not line.startswith(b"data:"):
            value = b""
            has_value = False
        else:
            value = line[len(b"data:") :].removeprefix(b" ")
            has_value = True
        if self._too_large or not (self._data or has_value):
            return [(line, self._line_offset)] if line and not line.startswith(KNOWN_FIELDS) else []
        data = bytes(self._data) + value if has_value else bytes(memoryview(self._data)[:-1])
        offset = self._line_offset + len(line) - len(value) if self._data_offset is None else self._data_offset
        return [(Event(self._type or "message", data, self._id, self._retry), offset)]

    def _read_event(self, chunk: bytes, start: int, end: int, found: list[tuple[Event | bytes, int]]) -> bool:
        """Fast path: read an event of one line of data that is in the chunk as a whole, with the blank line."""
        start += len(b"data: ")
        if (
            not chunk.startswith((b"\n\n", b"\r\n\r\n"), end)
            or end - start > self._limit
            or self._too_large
            or self._data_offset is not None
        ):
            return False
        self.last_event_id = self._id
        found.append((Event(self._type or "message", chunk[start:end], self._id, self._retry), self._offset + start))
        self._type = ""
        self._retry = None
        return True

    def _append(self, chunk: bytes, start: int, end: int, found: list[tuple[Event | bytes, int]]) -> None:
        """Append a part of the current line, or drop it if the line is ignored or over the limit."""
        if self._dropping:
            return
        line = self._line
        while len(line) < SHOWN_BYTES and start < end:
            first = min(end, start + SHOWN_BYTES - len(line))
            line += chunk[start:first]
            start = first
            if self._at_start and not (len(line) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(line)):
                self._drop_byte_order_mark()
                line = self._line
        # Fields with other names are ignored (9.2.6), so their lines are dropped beyond what a report shows.
        # The longest names and their colon have six bytes.
        if len(line) >= 6 and not line.startswith(KNOWN_FIELDS):
            self._dropping = len(line) == SHOWN_BYTES
            return
        is_data = line.startswith(b"data:")
        # The event is reported already: further lines of its data would only fill the buffer.
        if is_data and self._too_large:
            self._dropping = True
            return
        # The limit holds for the data of the event, which its earlier lines have used in part.
        longest = self._limit - len(self._data) + len(b"data: ") if is_data else MAX_FIELD_BYTES
        # One byte over the limit is enough.
        line += chunk[start : min(end, start + max(longest + 1 - len(line), 0))]
        if len(line) > longest:
            value = _end_of_name(line) if is_data else len(line)
            self._drop_event(found, bytes(memoryview(line)[value : value + HEAD_BYTES]))
            self._dropping = True
            self._line = bytearray(memoryview(line)[:SHOWN_BYTES])

    def _end_line(self, found: list[tuple[Event | bytes, int]]) -> None:
        if self._at_start:
            self._drop_byte_order_mark()
        line = bytes(self._line)
        self._line = bytearray()
        if self._dropping:
            self._dropping = False
            if not line.startswith(b":") and not line.startswith(KNOWN_FIELDS):
                found.append((line, self._line_offset))
        else:
            self._read_line(line, found)

    def _read_line(self, line: bytes, found: list[tuple[Event | bytes, int]]) -> None:
        if not line:
            self._end_event(found)
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            if self._data_offset is None:
                self._data_offset = self._line_offset + len(line) - len(value)
            if len(self._data) + len(value) > self._limit:
                self._drop_event(found, value)
            elif not self._too_large:
                self._data += value
                self._data += b"\n"
        elif name == b"event":
            self._type = value.decode(errors="replace")
        elif name == b"id":
            # 9.2.6: an id that contains U+0000 is ignored.
            if b"\x00" not in value:
                self._id = value.decode(errors="replace")
        elif name == b"retry":
            digits = value.lstrip(b"0")
            # More digits are more than 30,000 years in milliseconds.
            if value.isdigit() and len(digits) <= 15:
                self._retry = self.retry = int(digits or b"0")
        elif name:
            found.append((line, self._line_offset))

    def _drop_byte_order_mark(self) -> None:
        if self._line.startswith(BYTE_ORDER_MARK):
            self._line = bytearray(memoryview(self._line)[len(BYTE_ORDER_MARK) :])
            self._line_offset += len(BYTE_ORDER_MARK)
        self._at_start = False

    def _drop_event(self, found: list[tuple[Event | bytes, int]], value: bytes) -> None:
        """Report an event over the limit, once. `value` is the part of its last data line that has arrived."""
        if not self._too_large:
            offset = self._data_offset
            if offset is None:
                offset = self._line_offset + _end_of_name(self._line)
            event = OversizedEvent(self._type or "message", None, self.last_event_id, self._retry)
            event.head = (bytes(memoryview(self._data)[:HEAD_BYTES]) + value[:HEAD_BYTES])[
                : min(self._limit, HEAD_BYTES)
            ]
            found.append((event, offset))
        self._too_large = True
        self._data = bytearray()

    def _end_event(self, found: list[tuple[Event | bytes, int]]) -> None:
        self.last_event_id = self._id
        if self._data and self._data_offset is not None and not self._too_large:
            # The buffer has a line feed after each value. The last one is not a part of the data (9.2.6).
            data = bytes(memoryview(self._data)[:-1])
            found.append((Event(self._type or "message", data, self._id, self._retry), self._data_offset))
        self._begin_event()

    def _begin_event(self) -> None:
        self._type = ""
        self._data = bytearray()
        self._data_offset = None
        self._retry = None
        self._too_large = False


def encode_event(data: bytes, *, type: str | None = None, id: str | None = None, retry: int | None = None) -> bytes:
    """Return an event as bytes. The receiver reads line endings in `data` as LF.

    Args:
        data: UTF-8; b"" gives an event with empty data.
        type: None for "message".
        id: The peer sends it as `Last-Event-ID` on reconnection.
        retry: The reconnection time, in milliseconds.

    Raises:
        ValueError: The type or the id has a line ending, the id has a NUL, or the retry is below 0.
    """
    # A line ending in a field would end it, and begin a field that the sender has not written.
    head = b""
    if type is not None:
        head += b"event: " + _one_line("type", type) + b"\n"
    if id is not None:
        if "\0" in id:
            raise ValueError("id must not contain a NUL")
        head += b"id: " + _one_line("id", id) + b"\n"
    if retry is not None:
        if retry < 0:
            raise ValueError("retry must be 0 or more")
        head += b"retry: %d\n" % retry
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return b"%bdata: %b\n\n" % (head, data.replace(b"\n", b"\ndata: "))


def _end_of_name(line: bytearray) -> int:
    """Return where the value of a data field begins; 0 for any other field."""
    if not line.startswith(b"data:"):
        return 0
    return len(b"data: ") if line.startswith(b"data: ") else len(b"data:")


def _one_line(name: str, value: str) -> bytes:
    if "\n" in value or "\r" in value:
        raise ValueError(f"{name} must not contain a line ending")
    return value.encode()
