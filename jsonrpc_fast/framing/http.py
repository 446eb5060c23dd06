"""Recognize an HTTP request at the start of a stream, which no framing can read."""

from __future__ import annotations

import re
from typing import Final

_HTTP: Final = b" HTTP/"
# The longest method that is registered has 17 characters (UPDATEREDIRECTREF). RFC 9112, section 2.2: a server ignores
# blank lines before the request line.
_METHOD: Final = re.compile(rb"[\r\n]*[A-Za-z-]{0,32}(?:\Z|( ))")
_TARGET: Final = re.compile(rb"[^ \r\n]*")


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
            method = _METHOD.match(self._seen + text)
            if method is None:
                return False
            if not method[1]:
                self._seen = method[0].lstrip(b"\r\n")  # there may be any number of blank lines
                return None
            text = (self._seen + text)[method.end() :]
            self._seen = b""
            self._in_target = True
        if not self._seen:
            end = _TARGET.match(text).end()  # type: ignore[union-attr]  # it always matches
            text = text[end:]
        self._seen = (self._seen + text)[: len(_HTTP)]
        if self._seen == _HTTP:
            return True
        return None if _HTTP.startswith(self._seen) else False
