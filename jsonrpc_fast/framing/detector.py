"""The framing "auto": detect newline framing or Content-Length framing from the first bytes.

A stream that begins with header lines, one of which is Content-Length or Content-Type, has Content-Length framing. Any
other stream is read as newline framing, in which a bad line affects no other line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ..types import BYTE_ORDER_MARK
from .content_length import HEADER_NAME, ContentLengthFrames, compiled
from .events import EventFrames
from .frames import MAX_HEADER_BYTES

if TYPE_CHECKING:
    from .concatenated import ConcatenatedFrames
    from .lines import LineFrames

# Both framings ignore blank lines at the start.
_BLANKS: Final = rb"[ \t\r\n]*"


class FramingDetector:
    """Detect newline framing or Content-Length framing from the first bytes. Any chunking gives the same result.

    Attributes:
        seen: All data fed: less than MAX_HEADER_BYTES, and the chunk that decided.
    """

    __slots__ = ("_at", "_in_value", "_line", "seen")

    def __init__(self) -> None:
        self.seen: bytearray = bytearray()
        self._at = 0  # the bytes before this are examined
        self._line: int | None = None  # where the current header line begins; None before the first
        self._in_value = False  # after the colon of the line

    def feed(self, data: bytes | bytearray | memoryview) -> Literal["newline", "content-length"] | None:
        """Return the framing, or None while it is unknown."""
        seen = self.seen
        seen += bytes(data)  # a memoryview with gaps cannot be appended
        end = min(len(seen), MAX_HEADER_BYTES)
        if self._line is None:
            # A byte order mark may still be incomplete.
            if len(seen) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(seen):
                return None
            begin = len(BYTE_ORDER_MARK) if seen.startswith(BYTE_ORDER_MARK) else 0
            self._at = _end_of(_BLANKS, seen, max(self._at, begin), end)
            if self._at < end:
                self._line = self._at
        # `_at` never goes back, so the detection takes linear time in any chunking.
        while self._line is not None and self._at < end:
            if self._in_value:
                feed = seen.find(b"\n", self._at, end)
                self._at = end if feed < 0 else feed + 1
                self._line = self._at
                self._in_value = feed < 0
                continue
            self._at = _end_of(HEADER_NAME, seen, self._at, end)
            if self._at < end:
                name = bytes(memoryview(seen)[self._line : self._at]).lower()
                # Not a name and a colon, so it is not a header: JSON begins with a bracket.
                if not name or seen[self._at] != 0x3A:
                    return "newline"
                if name in (b"content-length", b"content-type"):
                    return "content-length"
                self._in_value = True
        # A section of headers that is this long would be a fault in Content-Length framing.
        return "newline" if end == MAX_HEADER_BYTES else None


def _end_of(pattern: bytes, text: bytearray, start: int, end: int) -> int:
    """Return where the match of a pattern at `start` ends."""
    match = compiled(pattern).match(text, start, end)
    return start if match is None else match.end()


Frames: TypeAlias = "LineFrames | ContentLengthFrames | EventFrames | ConcatenatedFrames"


def frames_of(
    framing: Literal["newline", "content-length", "sse", "concatenated"], limit: int, resync: bool = False
) -> Frames:
    """Return the reader of a framing, for frames of at most `limit` bytes. resync: as in `ContentLengthFrames`."""
    if framing == "content-length":
        return ContentLengthFrames(limit, resync)
    if framing == "sse":
        return EventFrames(limit)
    # The core itself reads the other two, and needs no readers from these modules.
    if framing == "newline":
        from .lines import LineFrames

        return LineFrames(limit)
    from .concatenated import ConcatenatedFrames

    return ConcatenatedFrames(limit)
