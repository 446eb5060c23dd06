"""Frames, the names of the framings, and the function that writes one frame. Each framing has its own reader module.

Parts of a bytearray are copied through a memoryview. A slice or a method would create a new bytearray; if CPython
cannot allocate its bytes, it frees an object whose fields are not set, and may report "deallocated bytearray object
has exported buffers".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, assert_never, get_args

from ..codes import Hint, ParseErrorCode

StreamFraming = Literal["newline", "content-length", "sse", "concatenated", "json-seq", "etx", "nul"]
"""The framings of a stream that is known. Type checkers need them written out; `FRAMINGS` has what each of them is."""

Framing = Literal[StreamFraming, "auto"]
"""These, or one that is detected."""


class FramingRow(NamedTuple):
    """What a framing is, for people.

    Attributes:
        help: For the help of commands.
        sign: What a file of it looks like; "" if nothing needs to be said.
        delimiter: The byte that ends each message, if that is all there is to the framing.
    """

    help: str
    sign: str = ""
    delimiter: bytes = b""


FRAMINGS: Final[dict[Framing, FramingRow]] = {
    "newline": FramingRow("one message per line", delimiter=b"\n"),
    "content-length": FramingRow("headers as in LSP", "the messages have Content-Length headers"),
    "sse": FramingRow("server-sent events", "the messages are server-sent events"),
    "concatenated": FramingRow("JSON values in any spacing", "a message takes several lines"),
    "json-seq": FramingRow("byte 30 before each message (RFC 7464)", "byte 30 begins each message"),
    "etx": FramingRow("each message ends in byte 3, as with Klipper", "the messages end in byte 3", b"\x03"),
    "nul": FramingRow("each message ends in byte 0", "the messages end in byte 0", b"\0"),
    "auto": FramingRow("newline or content-length, whichever the stream begins with"),
}
"""Each framing. Its reader is in `frames_of`, its writer in `frame`, the core's reader in `_core_parts/decoder.pxi`."""

STREAM_FRAMINGS: Final[tuple[StreamFraming, ...]] = get_args(StreamFraming)

MAX_HEADER_BYTES: Final = 8192
"""The maximum size of a header section of Content-Length framing, with its blank line."""

MAX_SKIPPED_BYTES: Final = 2**32 - 1
"""The maximum size of a body over the limit that is skipped; a larger Content-Length ends the stream."""

BLANK: Final = b" \t\r"
"""A line that consists only of these bytes is blank."""


class Frame(NamedTuple):
    """A frame of a stream.

    Attributes:
        text: The bytes without their framing. For MESSAGE_TOO_LARGE, the first HEAD_BYTES within the limit; for
            TRUNCATED, the bytes that arrived; None for INVALID_FRAMING.
        line: The line number, counted from 1; None if frames are not lines.
        offset: The offset in the stream, counted from 0, of the text or of the invalid header line.
        fault: MESSAGE_TOO_LARGE, TRUNCATED, INVALID_FRAMING or None.
        hint: Details of the fault.
        skipped: For INVALID_FRAMING, the number of bytes up to the next frame; 0 if the stream ends with the fault.
    """

    text: bytes | None
    line: int | None
    offset: int
    fault: ParseErrorCode | None = None
    hint: Hint | None = None
    skipped: int = 0


def frame(payload: bytes | bytearray | memoryview, framing: StreamFraming = "newline") -> bytes:
    """Return one JSON text as a frame.

    Args:
        payload: One JSON text, with or without a final `\\n`, as `encode` returns it. b"" gives b"".
        framing: The framing of the stream.

    Raises:
        TypeError: `payload` is not bytes.
        ValueError: `framing` is "auto" or unknown, or `payload` contains its delimiter: for "newline", another `\\n`.
    """
    if not isinstance(payload, bytes):
        payload = bytes(memoryview(payload))
    if framing == "newline":
        feed = payload.find(b"\n")
        # `encode` writes the line feed already: the usual payload is returned unchanged.
        if feed == len(payload) - 1:
            return payload
        if feed < 0:
            return payload + b"\n"
        # A line break inside would make two frames of one message.
        raise ValueError("payload must not contain a line break before its end")
    if framing not in STREAM_FRAMINGS:
        raise unknown_framing(STREAM_FRAMINGS)
    if payload.endswith(b"\n"):
        payload = payload[:-1]
    if not payload:
        return b""
    match framing:
        case "concatenated":
            return payload + b"\n"
        case "sse":
            from .sse import encode_event

            return encode_event(payload)
        case "content-length":
            return b"Content-Length: %d\r\n\r\n%b" % (len(payload), payload)
        case "etx" | "nul":
            delimiter = FRAMINGS[framing].delimiter
            if delimiter in payload:
                raise ValueError("payload must not contain the byte that ends a message")
            return payload + delimiter
        case "json-seq":
            # One line, as for "newline": a reader that is as lenient as this one would take two lines for two values.
            return b"\x1e" + frame(payload, "newline")
        case _:
            assert_never(framing)


def unknown_framing(names: Iterable[str]) -> ValueError:
    """Return the exception for a framing that is none of these."""
    return ValueError(f"framing must be one of {', '.join(names)}")
