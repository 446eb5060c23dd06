"""Guess what the bytes of a faulty stream are, for people: another framing, or text that a program printed."""

from __future__ import annotations

import re
from typing import Final

from ..codes import Hint
from ..types import BYTE_ORDER_MARK

LOOKED_AT_BYTES: Final = 64
"""The bytes of a line that are examined."""

# These are compiled when a stream has a fault, not when the codec is imported. One group for each framing.
_START: Final = rb"(\{|\[\s*(?:[{\[\]]|$))|((?i:content-(?:length|type))[ \t]*:)|((?:data|event|id|retry):)"
_STARTS: Final = (None, Hint.NEWLINE_FRAMING, Hint.CONTENT_LENGTH_FRAMING, Hint.SSE_FRAMING)
# The rest of a JSON text whose beginning was read as the end of another body: a closing bracket, or a quote next to
# punctuation.
_INSIDE_JSON: Final = rb"^[}\]\",:]|\"[,:}\]]"
_CONTROL: Final = rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]"  # except white space, and ESC of coloured logs


def looks_like(data: bytes) -> Hint | None:
    """Return what the beginning of a line looks like: one of the framings, printed text, or None."""
    start = data[:LOOKED_AT_BYTES].removeprefix(BYTE_ORDER_MARK).lstrip()
    framing = re.match(_START, start)
    if framing is not None and framing.lastindex is not None:
        return _STARTS[framing.lastindex]
    return Hint.PRINTED_TEXT if start and not re.search(_CONTROL, start) else None


def hint_of_line(data: bytes) -> Hint | None:
    """Return a hint about a line that is not JSON, where a JSON text was expected."""
    hint = looks_like(data)
    return None if hint is Hint.NEWLINE_FRAMING else hint


def hint_of_header(line: bytes) -> Hint | None:
    """Return a hint about a line that is not a header, where a header was expected."""
    hint = looks_like(line)
    if hint is Hint.PRINTED_TEXT and re.search(_INSIDE_JSON, line[:LOOKED_AT_BYTES]):
        return Hint.LENGTH_TOO_SMALL
    return None if hint is Hint.CONTENT_LENGTH_FRAMING else hint
