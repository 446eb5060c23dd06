"""httpx2, the HTTP library of the clients: what they check in it, its failures as those of this package, and bodies.

Rule: no exception of the library reaches the caller, and no exception contains data that the server sent.
"""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from ..errors import CallTimeout, ConnectionLost, InvalidResponse
from ..support import MAX_PORT, check_count

try:
    import httpx2
except ImportError as _error:
    raise ImportError('the HTTP clients need the extra `http`: pip install "jsonrpc_fast[http]"') from _error

__all__ = [
    "ERRORS",
    "check_client",
    "exchange_with",
    "pieces_of",
    "refuse_httpx",
    "tls_context",
    "translated",
    "url_of",
]

ERRORS: Final = (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError)
"""The exceptions of the library. The last two report a malformed `Location` header, which it parses even if it does not
follow redirects."""

_TRANSLATIONS: Final[tuple[tuple[type[Exception], type[Exception], str], ...]] = (
    (httpx2.ConnectTimeout, CallTimeout, ": no connection was made"),
    (httpx2.PoolTimeout, CallTimeout, ": all connections of the HTTP client are in use"),
    (httpx2.TimeoutException, CallTimeout, ""),
    (httpx2.DecodingError, InvalidResponse, "the content coding of the response is malformed"),
    (httpx2.RemoteProtocolError, ConnectionLost, "the server closed the connection early, or its HTTP is malformed"),
    (httpx2.LocalProtocolError, ConnectionLost, "the HTTP request is malformed"),
    (
        httpx2.ReadError,
        ConnectionLost,
        "the connection broke before the response was complete: the server may have closed it as idle, or want TLS",
    ),
    (httpx2.WriteError, ConnectionLost, "the connection broke while the request was sent"),
)
"""The exceptions of the library, and those that replace them."""


def refuse_httpx(*given: object) -> None:
    """Refuse objects of httpx, the predecessor of the library, which does not accept them.

    Args:
        given: The objects. The values of mappings are searched, too.

    Raises:
        TypeError: One is an object of httpx, or of a class that is derived from one of its classes.
    """
    for value in given:
        for item in [value, *value.values()] if isinstance(value, Mapping) else [value]:
            if any(base.__module__.partition(".")[0] == "httpx" for base in type(item).__mro__):
                raise TypeError(f"an object of httpx ({type(item).__name__}) does not work here: use httpx2")


def url_of(url: object, *, may_be_relative: bool = False) -> httpx2.URL:
    """Return a URL as the library represents it.

    Args:
        url: The URL, as a str or an object of the library.
        may_be_relative: Whether a relative URL is allowed, because the HTTP client may have a base URL.

    Raises:
        TypeError: It is neither a str nor an object of the library.
        ValueError: It is malformed, or not an HTTP URL.
    """
    text = str(url) if isinstance(url, httpx2.URL) else url
    if not isinstance(text, str):
        raise TypeError(f"the URL must be a str, not {type(url).__name__}")
    try:
        parsed = httpx2.URL(text)
    except (httpx2.InvalidURL, UnicodeError):
        raise ValueError("the URL is malformed") from None
    if (parsed.scheme not in ("http", "https") or not parsed.host) and (parsed.scheme or not may_be_relative):
        raise ValueError("the URL must begin with http:// or https:// and have a host")
    check_count("the port of the URL", parsed.port, 0, MAX_PORT)
    return parsed


def check_client(client: object, kind: type) -> None:
    """Check the class of an HTTP client.

    Args:
        client: The client, or None.
        kind: The required class: `httpx2.Client` or `httpx2.AsyncClient`.

    Raises:
        TypeError: It is an object of another class.
    """
    if client is not None and not isinstance(client, kind):
        found = f"{type(client).__module__}.{type(client).__name__}"
        raise TypeError(f"the HTTP client must be an httpx2.{kind.__name__}, not {found}")


def translated(error: Exception) -> Exception:
    """Convert one of ERRORS to an exception of this package."""
    if isinstance(error, httpx2.ConnectError):
        place = error.request.url.netloc.decode()  # without user and password
        return ConnectionLost(f"the server at {place} cannot be reached: {error}", was_sent=False)
    for name, kind, text in _TRANSLATIONS:
        if isinstance(error, name):
            return kind(text)
    if not isinstance(error, httpx2.HTTPError):
        return InvalidResponse("the location of the response is malformed")
    return ConnectionLost(str(error) or type(error).__name__)


def exchange_with(url: httpx2.URL) -> str:
    """Return what the text of an HttpStatusError says of the server: not the path, which may be a key."""
    return f" from {url.scheme}://{url.netloc.decode()}"


def tls_context() -> Any:
    """Return the TLS context that all clients share."""
    return _tls_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=8)
def _tls_context(*environment: str | None) -> Any:
    """Return the TLS context of httpx2, which depends on these environment variables."""
    return httpx2.create_ssl_context()


PIECE_BYTES: Final = 64 * 1024
"""The maximum size of a piece of a body that was compressed."""


def received_chunks(response: Any) -> Iterator[bytes]:
    """Return the body of a streamed response in chunks, without decompressing it.

    The response of a mock transport has already been read and decompressed; its `coding_of` is "".
    """
    return response.iter_bytes() if response.is_stream_consumed else response.iter_raw()  # type: ignore[no-any-return]


def received_chunks_async(response: Any) -> AsyncIterator[bytes]:
    """Do the same as `received_chunks` for an async client."""
    return response.aiter_bytes() if response.is_stream_consumed else response.aiter_raw()  # type: ignore[no-any-return]


def coding_of(response: Any) -> str:
    """Return the content coding of the chunks of a response; "" without a coding."""
    coding = str(response.headers.get("content-encoding", "")).strip().lower()
    return "" if coding == "identity" or response.is_stream_consumed else coding


class Inflater:
    """Decompresses the body of a response.

    Args:
        coding: The content coding: "gzip", or "" for none.

    Raises:
        InvalidResponse: The coding is not supported.
    """

    __slots__ = ("_has_begun", "_inflater")

    def __init__(self, coding: str) -> None:
        if coding not in ("", "gzip"):  # brotli and zstd expand data without a useful bound
            raise InvalidResponse("the content coding of the response is not supported")
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 16) if coding else None
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
                self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
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


async def pieces_of(http_response: Any, *, is_whole: bool = False) -> AsyncGenerator[bytes, None]:
    """Yield the body of an HTTP response in small pieces, decompressed.

    Args:
        http_response: The HTTP response.
        is_whole: Whether a body that ends too early is a fault. A stream of events may end early.

    Raises:
        InvalidResponse: The body cannot be decompressed.
    """
    # httpx2 would decompress each chunk at once, however large the result is.
    inflater = Inflater(coding_of(http_response))
    async for chunk in received_chunks_async(http_response):
        for piece in inflater.feed(chunk):
            if piece:
                yield piece
            if len(piece) == PIECE_BYTES:
                await asyncio.sleep(0)  # a small chunk may expand to a large one
    if is_whole:
        inflater.finish()
