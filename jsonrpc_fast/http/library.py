"""The HTTP library of the clients: httpx2, or its predecessor httpx.

Rules:
  - Both have the same classes, but neither accepts objects of the other. A client uses the library of the objects that
    it gets: a client, a transport, `auth`. If it gets none, it uses httpx2 if that is installed, otherwise httpx.
  - No exception of the library reaches the caller, and no exception contains data that the server sent.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from .._checks import MAX_PORT, check_count
from ..errors import CallTimeout, ConnectionLost, InvalidResponse

if TYPE_CHECKING:
    import httpx
    import httpx2

SyncClient: TypeAlias = "httpx.Client | httpx2.Client"
AsyncClient: TypeAlias = "httpx.AsyncClient | httpx2.AsyncClient"

NAMES: Final = ("httpx2", "httpx")


_TRANSLATIONS: Final[tuple[tuple[str, type[Exception], str], ...]] = (
    ("TimeoutException", CallTimeout, "no response arrived in time"),
    ("DecodingError", InvalidResponse, "the content coding of the response is malformed"),
    ("RemoteProtocolError", ConnectionLost, "the server closed the connection early, or its HTTP is malformed"),
    ("LocalProtocolError", ConnectionLost, "the HTTP request is malformed"),
    (
        "ReadError",
        ConnectionLost,
        "the connection broke before the response was complete: the server may have closed it as idle",
    ),
    ("WriteError", ConnectionLost, "the connection broke while the request was sent"),
)
"""The exceptions that replace those of the library, by name."""


class OuterTransport:
    """A transport of this package around one of the library.

    Args:
        inner: A transport of httpx2 or httpx, or None.
    """

    def __init__(self, inner: Any) -> None:
        self.inner: Any = inner


def library_of(*given: object) -> ModuleType:
    """Return the library to which objects belong.

    Args:
        given: The objects. The values of mappings are searched, too; objects of other packages are ignored. If none
            remains, the library is httpx2 if that is installed, otherwise httpx.

    Raises:
        TypeError: There are objects of both libraries.
        ImportError: Neither library is installed.
    """
    names = {name for value in given for name in _names_in(value)}
    if len(names) > 1:
        raise TypeError("objects of httpx and of httpx2 cannot be used together")
    return import_module(names.pop()) if names else _default()


def url_of(url: object, library: ModuleType, *, may_be_relative: bool = False) -> Any:
    """Return a URL as the library represents it.

    Args:
        url: The URL, as a str or an object of the library.
        library: The result of `library_of`.
        may_be_relative: Whether a relative URL is allowed, because the HTTP client may have a base URL.

    Raises:
        TypeError: It is neither a str nor an object of the library.
        ValueError: It is malformed, or not an HTTP URL.
    """
    text = str(url) if _names_of(type(url)) else url
    if not isinstance(text, str):
        raise TypeError(f"the URL must be a str, not {type(url).__name__}")
    try:
        parsed = library.URL(text)
    except (library.InvalidURL, UnicodeError):
        raise ValueError("the URL is malformed") from None
    if (parsed.scheme not in ("http", "https") or not parsed.host) and (parsed.scheme or not may_be_relative):
        raise ValueError("the URL must begin with http:// or https:// and have a host")
    check_count("the port of the URL", parsed.port, 0, MAX_PORT)
    return parsed


def check_client(client: object, library: ModuleType, kind: str) -> None:
    """Check the class of an HTTP client.

    Args:
        client: The client, or None.
        library: The result of `library_of` for it.
        kind: The name of the required class: "Client" or "AsyncClient".

    Raises:
        TypeError: It is an object of another class.
    """
    if client is not None and not isinstance(client, getattr(library, kind)):
        found = f"{type(client).__module__}.{type(client).__name__}"
        raise TypeError(f"the HTTP client must be an httpx2.{kind} or an httpx.{kind}, not {found}")


def errors_of(library: ModuleType) -> tuple[type[Exception], ...]:
    """Return the exception classes of the library.

    The last two report a malformed `Location` header, which the library parses even if it does not follow redirects.
    """
    return library.HTTPError, library.InvalidURL, UnicodeError


def translated(error: Exception, library: ModuleType) -> Exception:
    """Convert an exception of `errors_of` to one of this package."""
    if isinstance(error, library.ConnectError):
        return ConnectionLost(f"the server cannot be reached: {error}", was_sent=False)
    for name, kind, text in _TRANSLATIONS:
        if isinstance(error, getattr(library, name)):
            return kind(text)
    if not isinstance(error, library.HTTPError):
        return InvalidResponse("the location of the response is malformed")
    return ConnectionLost(str(error) or type(error).__name__)


def tls_context(library: ModuleType) -> Any:
    """Return the TLS context that all clients of httpx or httpx2 share."""
    return _tls_context(library, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=8)
def _tls_context(library: ModuleType, *environment: str | None) -> Any:
    """Return the TLS context of httpx, which depends on these environment variables."""
    return library.create_ssl_context()


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


def _names_in(value: object) -> set[str]:
    values = [value, *value.values()] if isinstance(value, Mapping) else [value]
    values = [item.inner if isinstance(item, OuterTransport) else item for item in values]
    return {name for item in values for name in _names_of(type(item))}


def _names_of(kind: type) -> tuple[str, ...]:
    """Return the name of the library that defines a class or one of its bases, if any."""
    packages = (base.__module__.partition(".")[0] for base in kind.__mro__)
    return next(((name,) for name in packages if name in NAMES), ())


@lru_cache(1)
def _default() -> ModuleType:
    for name in NAMES:
        try:
            return import_module(name)
        except ImportError as error:
            missing = error
    raise ImportError('the HTTP clients need the extra `http`: pip install "jsonrpc_fast[http]"') from missing
