"""Guess what the bytes of a faulty stream are, for people: another framing, HTTP, TLS, or printed text."""

from __future__ import annotations

import re
from typing import Final

from ..codes import Hint
from ..types import BYTE_ORDER_MARK

LOOKED_AT_BYTES: Final = 64
"""The bytes of a line that are examined."""


def looks_like(data: bytes) -> Hint | None:
    """Return what the beginning of a line looks like: a framing, another protocol, printed text, or None."""
    start = data[:LOOKED_AT_BYTES].removeprefix(BYTE_ORDER_MARK).lstrip()
    # The patterns are compiled when a stream has a fault, not when the codec is imported.
    for pattern, framing in (
        (rb"\{|\[\s*(?:[{\[\]]|$)", Hint.NEWLINE_FRAMING),
        (rb"(?i:content-(?:length|type))[ \t]*:", Hint.CONTENT_LENGTH_FRAMING),
        (rb"(?:data|event|id|retry):", Hint.SSE_FRAMING),
        (rb"HTTP/[0-9]|<(?i:!doctype|html)", Hint.HTTP),  # a status line, or a page without one
        (rb"[\x15\x16]\x03", Hint.TLS),  # an alert, or a handshake (RFC 8446, section 5.1)
    ):
        if re.match(pattern, start):
            return framing
    # Control characters, except white space, and ESC of coloured logs.
    is_binary = re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]", start)
    return Hint.PRINTED_TEXT if start and not is_binary else None


def hint_of_line(data: bytes) -> Hint | None:
    """Return a hint about a line that is not JSON, where a JSON text was expected."""
    hint = looks_like(data)
    return None if hint is Hint.NEWLINE_FRAMING else hint


def hint_of_header(line: bytes) -> Hint | None:
    """Return a hint about a line that is not a header, where a header was expected."""
    hint = looks_like(line)
    # The rest of a JSON text whose beginning was read as the end of another body: a closing bracket, or a quote next to
    # punctuation.
    if hint is Hint.PRINTED_TEXT and re.search(rb"^[}\]\",:]|\"[,:}\]]", line[:LOOKED_AT_BYTES]):
        return Hint.LENGTH_TOO_SMALL
    return None if hint is Hint.CONTENT_LENGTH_FRAMING else hint


class HttpDetector:
    """Detect a stream that begins like HTTP, by its first line: a method, a target, `HTTP/`.

    Any chunking gives the same result. The result is known before a message or a header can end.
    """

    __slots__ = ("_in_target", "_seen")

    def __init__(self) -> None:
        self._seen = b""  # the beginning of the method, or of the text after the target
        self._in_target = False

    def feed(self, data: bytes | bytearray | memoryview) -> bool | None:
        """Return whether the stream is HTTP; None while more bytes are needed."""
        text = bytes(data)
        if not self._in_target:
            # RFC 9112, section 3: request-line = method SP request-target SP HTTP-version.
            # The longest method that is registered has 17 characters (UPDATEREDIRECTREF). Section 2.2: a server ignores
            # blank lines before the request line.
            method = re.match(rb"[\r\n]*[A-Za-z-]{0,32}(?:\Z|( ))", self._seen + text)
            if method is None:
                return False
            if not method[1]:
                self._seen = method[0].lstrip(b"\r\n")  # there may be any number of blank lines
                return None
            text = (self._seen + text)[method.end() :]
            self._seen = b""
            self._in_target = True
        if not self._seen:
            text = re.sub(rb"\A[^ \r\n]*", b"", text)
        expected = b" HTTP/"
        self._seen = (self._seen + text)[: len(expected)]
        if self._seen == expected:
            return True
        return None if expected.startswith(self._seen) else False
