"""What the bytes of a faulty stream look like: another framing, or text that a program printed. Guesses, for people."""

from __future__ import annotations

import re
from typing import Final

from ..codes import Hint
from ..types import BYTE_ORDER_MARK

LOOKED_AT_BYTES: Final = 64
"""How much of a line tells what it looks like."""

# One group for each of the three framings.
_START: Final = re.compile(rb"(\{|\[\s*(?:[{\[\]]|$))|((?i:content-(?:length|type))[ \t]*:)|((?:data|event|id|retry):)")
_STARTS: Final = (None, Hint.NEWLINE_FRAMING, Hint.CONTENT_LENGTH_FRAMING, Hint.SSE_FRAMING)
_INSIDE_JSON: Final = re.compile(rb"^[}\]\",:]|\"[,:}\]]")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")  # but white space, and ESC of coloured logs


def looks_like(text: bytes) -> Hint | None:
    """What the beginning of a line looks like: one of the framings, or printed text, or None."""
    start = text[:LOOKED_AT_BYTES].removeprefix(BYTE_ORDER_MARK).lstrip()
    framing = _START.match(start)
    if framing is not None and framing.lastindex is not None:
        return _STARTS[framing.lastindex]
    return Hint.PRINTED_TEXT if start and not _CONTROL.search(start) else None


def hint_of_line(text: bytes) -> Hint | None:
    """What a line that is no JSON looks like, where a JSON text was due."""
    hint = looks_like(text)
    return None if hint is Hint.NEWLINE_FRAMING else hint


def hint_of_header(line: bytes) -> Hint | None:
    """What a line that is no header looks like, where a header was due."""
    hint = looks_like(line)
    if hint is Hint.PRINTED_TEXT and _INSIDE_JSON.search(line[:LOOKED_AT_BYTES]):
        return Hint.LENGTH_TOO_SMALL
    return None if hint is Hint.CONTENT_LENGTH_FRAMING else hint
