"""What the bytes of a faulty stream look like: another framing, or text that a program printed. Guesses, for people."""

from __future__ import annotations

import re
from typing import Final

from .codes import Hint

LOOKED_AT_BYTES: Final = 64
"""How much of a line tells what it looks like."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_JSON_START: Final = re.compile(rb"\{|\[\s*(?:[{\[\]]|$)")
_HEADER_START: Final = re.compile(rb"content-(?:length|type)[ \t]*:", re.IGNORECASE)
_EVENT_START: Final = re.compile(rb"(?:data|event|id|retry):")
_INSIDE_JSON: Final = re.compile(rb"^[}\]\",:]|\"[,:}\]]")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")  # but white space, and ESC of coloured logs


def looks_like(text: bytes) -> Hint | None:
    """What the beginning of a line looks like: one of the framings, or printed text, or None."""
    start = text[:LOOKED_AT_BYTES].removeprefix(_BYTE_ORDER_MARK).lstrip()
    if _JSON_START.match(start):
        return Hint.NEWLINE_FRAMING
    if _HEADER_START.match(start):
        return Hint.CONTENT_LENGTH_FRAMING
    if _EVENT_START.match(start):
        return Hint.SSE_FRAMING
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
