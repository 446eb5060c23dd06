"""Frames and the names of the framings, and how one frame is written. Each framing is read by a module of its own."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, get_args

from ..codes import Hint, ParseErrorCode
from .sse import encode_event

Framing = Literal["newline", "content-length", "sse", "auto"]
FRAMINGS: Final[tuple[Framing, ...]] = get_args(Framing)

MAX_HEADER_BYTES: Final = 8192
"""The largest header section of Content-Length framing, its blank line included."""

MAX_SKIPPED_BYTES: Final = 2**32 - 1
"""The largest body over the limit that is skipped; announcing more ends the stream."""

_BLANK: Final = b" \t\r"
_SHORT_BLANK: Final = 64
# `re` remembers each turn of a repeated group, so their number is bounded.
_blank_lines = re.compile(rb"(?:[ \t\r]{0,%d}\n){0,1000}" % _SHORT_BLANK).match


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
