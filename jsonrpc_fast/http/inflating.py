"""Bodies of responses that are compressed with gzip.

Rules:
  - A body is decompressed in small pieces. gzip expands data to at most 1032 times its size, so the size of a
    piece bounds the memory that a few bytes from the server can take.
  - A body that ends before its checksum is refused: a part of it may be missing.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from ..errors import InvalidResponse

ACCEPTED: Final = "gzip"
"""The content codings that a request accepts. brotli and zstd expand data without a useful bound."""
PIECE_BYTES: Final = 64 * 1024
"""The maximum size of a piece of a body that was compressed."""

_GZIP: Final = zlib.MAX_WBITS | 16


class Inflater:
    """Decompresses the body of a response.

    Args:
        coding: The content coding: "gzip", or "" for none.

    Raises:
        InvalidResponse: The coding is not supported.
    """

    __slots__ = ("_has_begun", "_inflater")

    def __init__(self, coding: str) -> None:
        if coding not in ("", ACCEPTED):
            raise InvalidResponse("the content coding of the response is not supported")
        self._inflater = zlib.decompressobj(_GZIP) if coding else None
        self._has_begun = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Decompress a chunk of the body and yield the result in pieces. One of them may be empty.

        Raises:
            InvalidResponse: The chunk is malformed.
        """
        if self._inflater is None:
            yield chunk
            return
        while chunk:
            if self._inflater.eof:  # another member follows (RFC 1952, section 2.2)
                self._inflater = zlib.decompressobj(_GZIP)
            self._has_begun = is_full = True
            while is_full:  # zlib may hold more output although it has read all input
                try:
                    # `max_length` bounds each step, so that the caller can stop at its limit before a bomb has
                    # expanded.
                    piece = self._inflater.decompress(chunk, PIECE_BYTES)
                except zlib.error:
                    raise InvalidResponse("the content coding of the response is malformed") from None
                chunk = self._inflater.unconsumed_tail
                is_full = len(piece) == PIECE_BYTES and not self._inflater.eof
                yield piece
            # Data after the end of a member begins another one: gzip files may be concatenated.
            chunk = self._inflater.unused_data

    def finish(self) -> None:
        """Check that the body is complete.

        Raises:
            InvalidResponse: The body is incomplete.
        """
        if self._has_begun and self._inflater is not None and not self._inflater.eof:
            raise InvalidResponse("the compressed response is incomplete")
