"""The reader of any framing, and "auto": newline framing or Content-Length framing, detected from the first bytes.

A stream that begins with header lines, one of which is Content-Length or Content-Type, has Content-Length framing. Any
other stream is read as newline framing, in which a bad line affects no other line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never

from ..profile import Limits
from ..support import check_count
from ..types import BYTE_ORDER_MARK
from .frames import FRAMINGS, MAX_HEADER_BYTES, Frame, Framing, StreamFraming, unknown_framing

if TYPE_CHECKING:
    from .concatenated import ConcatenatedFrames
    from .content_length import ContentLengthFrames
    from .events import EventFrames
    from .lines import LineFrames


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
        from .content_length import HEADER_NAME

        seen = self.seen
        seen += bytes(data)  # a memoryview with gaps cannot be appended
        end = min(len(seen), MAX_HEADER_BYTES)
        if self._line is None:
            # A byte order mark may still be incomplete.
            if len(seen) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(seen):
                return None
            begin = len(BYTE_ORDER_MARK) if seen.startswith(BYTE_ORDER_MARK) else 0
            # Both framings ignore blank lines at the start.
            self._at = _end_of(rb"[ \t\r\n]*", seen, max(self._at, begin), end)
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
    from .content_length import compiled

    match = compiled(pattern).match(text, start, end)
    return start if match is None else match.end()


Frames: TypeAlias = "LineFrames | ContentLengthFrames | EventFrames | ConcatenatedFrames"


def frames_of(framing: StreamFraming, limit: int, resync: bool = False) -> Frames:
    """Return the reader of a framing, for frames of at most `limit` bytes. resync: as in `ContentLengthFrames`."""
    match framing:
        case "content-length":
            from .content_length import ContentLengthFrames

            return ContentLengthFrames(limit, resync=resync)
        case "sse":
            from .events import EventFrames

            return EventFrames(limit)
        case "newline" | "etx" | "nul":
            from .lines import LineFrames

            return LineFrames(limit, FRAMINGS[framing].delimiter)
        case "concatenated" | "json-seq":
            from .concatenated import ConcatenatedFrames

            return ConcatenatedFrames(limit, has_marks=framing == "json-seq")
        case _:
            assert_never(framing)


class FrameReader:
    """Split a stream into frames, without IO, whatever they hold. Any chunking gives the same frames, in linear time.

    Args:
        framing: As in `Decoder`.
        message_bytes: The maximum size of a frame; a larger one is a fault, and the stream goes on. None: as in
            `Limits`.
        resync: As in `Decoder`.

    Attributes:
        framing: The framing of the stream; "auto" until it is detected.

    Raises:
        TypeError: `message_bytes` is not an int.
        ValueError: `framing` is unknown, or `message_bytes` is below 1.
    """

    __slots__ = ("_detector", "_frames", "_is_closed", "_limit", "_resync", "framing")

    def __init__(self, framing: Framing = "newline", message_bytes: int | None = None, *, resync: bool = False) -> None:
        if framing not in FRAMINGS:
            raise unknown_framing(FRAMINGS)
        check_count("message_bytes", message_bytes, 1)
        self._limit: int = Limits.message_bytes if message_bytes is None else message_bytes
        self._resync = resync
        self._is_closed = False
        self.framing: Framing = framing
        self._detector = FramingDetector()  # for "auto" alone
        self._frames: Frames | None = None if framing == "auto" else frames_of(framing, self._limit, resync)

    @property
    def ended(self) -> bool:
        """Whether a fault of the framing ended the stream: nothing more is read."""
        return self._frames is not None and self._frames.ended

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Feed bytes of the stream, and return the frames that are complete.

        Raises:
            TypeError: `data` is not bytes.
            ValueError: The reader is closed.
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data must be bytes, bytearray or memoryview, not {type(data).__name__}")
        if self._is_closed:
            raise ValueError("the reader is closed")
        if self._frames is not None:
            return self._frames.feed(data)
        found = self._detector.feed(data)
        return [] if found is None else self._begin(found).feed(self._detector.seen)

    def close(self) -> list[Frame]:
        """End the stream. Return the frame without its ending, or its fault, if the stream ends inside one."""
        if self._is_closed:
            return []
        self._is_closed = True
        if self._frames is not None:
            return self._frames.close()
        frames = self._begin("newline")
        return frames.feed(self._detector.seen) + frames.close()

    def _begin(self, framing: StreamFraming) -> Frames:
        self.framing = framing
        self._frames = frames_of(framing, self._limit, self._resync)
        return self._frames
