"""Checks of an HTTP request that carries JSON-RPC. The endpoints and MCP's Streamable HTTP share them.

A check that fails raises `Refusal`. A body is UTF-8 JSON without a content coding; what a browser sends without a CORS
preflight (a form, text/plain) is refused. A server that is reached through a loopback address accepts only the names of
that address as `Host` and in `Origin`, because a web page can point its own name at 127.0.0.1 (DNS rebinding).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from ..support import check_type

__all__ = [
    "Access",
    "Admitted",
    "Header",
    "Receive",
    "Refusal",
    "Scope",
    "Send",
    "check_content",
    "check_repeated",
    "declared_length",
    "is_loopback",
    "read_body",
    "refusal_response",
]

Scope: TypeAlias = "MutableMapping[str, Any]"
"""What ASGI says of a request."""
AsgiMessage: TypeAlias = "MutableMapping[str, Any]"
Receive: TypeAlias = "Callable[[], Awaitable[AsgiMessage]]"
"""ASGI's function that returns the next message of a request."""
Send: TypeAlias = "Callable[[AsgiMessage], Awaitable[None]]"
"""ASGI's function that sends a message of the response."""
Header: TypeAlias = "tuple[bytes, bytes]"
"""The name, in lower case, and the value of a header."""
HttpResponse: TypeAlias = "tuple[int, list[Header], bytes]"
"""The status, the headers and the body."""

LOOPBACK_NAMES: Final = frozenset({b"localhost", b"127.0.0.1", b"[::1]"})
"""The hosts of a URL that leads to this machine."""

MAX_HEADER_BYTES: Final = 512
"""The maximum size of a content type, host or origin."""

_SINGLE_HEADERS: Final = frozenset({b"host", b"origin", b"content-type", b"content-encoding", b"content-length"})


class Admitted(set["tuple[str | bytes | bool | None, ...]"]):
    """The header fields of requests that have passed the checks: clients repeat them with each request.

    Both the number and the size of the remembered fields are bounded, because the client chooses them.
    """

    def remember(self, fields: tuple[str | bytes | bool | None, ...]) -> None:
        """Remember fields, unless there are too many."""
        if len(self) < 64 and sum([len(part) for part in fields if part and part is not True]) < 512:
            self.add(fields)


class Refusal(Exception):
    """An HTTP request is refused: it was not decoded, and no function was called.

    Args:
        status: The HTTP status of the response, 400 to 599.
        reason: A sentence for the body of the response, as plain text.
        headers: Further headers of the response, as names in lower case and values. With the status 503, "retry-after"
            is 1 unless it is given.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `status` is out of range.
    """

    def __init__(self, status: int, reason: str, headers: Iterable[Header] = ()) -> None:
        check_status(status, 400)
        if not isinstance(reason, str):
            raise TypeError(f"reason must be a str, not {type(reason).__name__}")
        super().__init__(status, reason)
        self.status: int = status
        self.reason: str = reason
        self.headers: tuple[Header, ...] = checked_fields(headers)
        if status == 503 and not any(name.lower() == b"retry-after" for name, _ in self.headers):
            self.headers += ((b"retry-after", b"1"),)


def check_status(status: object, minimum: int) -> None:
    """Check the status of a response, at most 599. Raises TypeError or ValueError."""
    if not isinstance(status, int) or isinstance(status, bool):
        raise TypeError(f"the status must be an int, not {type(status).__name__}")
    if not minimum <= status <= 599:
        raise ValueError(f"the status must be {minimum} to 599")


def checked_fields(fields: Iterable[Header]) -> tuple[Header, ...]:
    """Return the headers of a response.

    Raises:
        TypeError: They are not pairs of bytes.
        ValueError: One has a line break or a NUL, or says how long the body is.
    """
    found = tuple(fields)
    for field in found:
        if type(field) not in (tuple, list) or [type(part) for part in field] != [bytes, bytes]:
            raise TypeError("headers must be pairs of bytes: name and value")
        # One of these would begin another header or the body (RFC 9110, section 5.5).
        if re.search(rb"[\r\n\0]", b"".join(field)) is not None:
            raise ValueError("headers must not contain a CR, LF or NUL")
        if field[0].lower() in (b"content-length", b"transfer-encoding"):
            raise ValueError(f"the endpoint sets the header {field[0].decode('ascii')} itself")
    return found


class Access:
    """The hosts and origins from which a server may be reached.

    Args:
        allowed_hosts: Names for the `Host` header, with a port or for any port: "example.org", "[::1]:8000". "*" allows
            all. None: the names of the loopback interface if the server is reached through it, otherwise all.
        allowed_origins: Values for the `Origin` header, which browsers send: "https://example.org". "*" allows all.
            None: the names of the loopback interface if the server is reached through it, otherwise the name in `Host`,
            with any port. A request without `Origin` is always allowed.

    Raises:
        TypeError: A name is not a str, or one str was passed instead of several.
        ValueError: A name is empty.
    """

    __slots__ = ("_hosts", "_origins")

    def __init__(self, allowed_hosts: Iterable[str] | None, allowed_origins: Iterable[str] | None) -> None:
        self._hosts = _to_names("allowed_hosts", allowed_hosts)
        self._origins = _to_names("allowed_origins", allowed_origins)

    def check(self, host: bytes | None, origin: bytes | None, is_loopback: bool) -> None:
        """Check the two headers of a request.

        Args:
            host: The `Host` header.
            origin: The `Origin` header.
            is_loopback: Whether the request came through the loopback interface; see `is_loopback`.

        Raises:
            Refusal: The host (421) or the origin (403) is not allowed.
        """
        if not self._allows_host(host, is_loopback):
            raise Refusal(421, "This host is not allowed here: see allowed_hosts.")
        if origin is not None and not self._allows_origin(origin, host, is_loopback):
            raise Refusal(403, "This origin is not allowed here: see allowed_origins.")

    def _allows_host(self, host: bytes | None, is_loopback: bool) -> bool:
        if self._hosts is None and not is_loopback:
            return True
        # A host that is missing, as HTTP/1.0 allows, or too long is only accepted with "*".
        if host is None or len(host) > MAX_HEADER_BYTES:
            return self._hosts is not None and b"*" in self._hosts
        host = host.lower()
        name = host_name(host)
        if self._hosts is None:
            return name in LOOPBACK_NAMES
        return not self._hosts.isdisjoint((b"*", host, name))

    def _allows_origin(self, origin: bytes, host: bytes | None, is_loopback: bool) -> bool:
        if self._origins is not None:
            return not self._origins.isdisjoint((b"*", origin.lower()))
        # The origin "null", of a local file or a sandboxed frame, has no host, so it is refused.
        scheme, separator, own = origin.lower().partition(b"://")
        if scheme not in (b"http", b"https") or not separator:
            return False
        name = host_name(own)
        if is_loopback:
            return name in LOOPBACK_NAMES
        # A page of the same host: of another one, it would act with what its visitor may reach.
        return host is not None and (own == host.lower() or (name != b"" and name == host_name(host.lower())))

    def exposure(self) -> list[str]:
        """Return what is open to whom if the server is reached from other machines, for people; [] for nothing more.

        Each text names the option that closes it.
        """
        found = []
        if self._hosts is None or b"*" in self._hosts:
            found.append("any name in Host is accepted, so a page whose name is pointed here can use it: allowed_hosts")
        if self._origins is not None and b"*" in self._origins:
            found.append("pages of every origin can use it: allowed_origins")
        return found


def _to_names(option: str, names: Iterable[str] | None) -> frozenset[bytes] | None:
    if names is None:
        return None
    if isinstance(names, str):
        raise TypeError(f"{option} must be several names, not one str")
    check_type(option, names, Iterable)
    names = list(names)
    for name in names:
        check_type(f"a name in {option}", name, str)
    found = frozenset([name.lower().encode("latin-1") for name in names])
    if b"" in found:
        raise ValueError(f"{option} must not contain an empty name")
    return found


def host_name(host: bytes) -> bytes:
    """Return a host without its port: `localhost` of `localhost:80`, `[::1]` of `[::1]:80`; b"" if it is malformed."""
    name, separator, port = host.rpartition(b":")
    if not separator or host.endswith(b"]"):
        return host
    # An IPv6 address without brackets is malformed as a host, because it has colons (RFC 3986, section 3.2.2).
    return name if port.isdigit() and (b":" not in name or name.endswith(b"]")) else b""


@lru_cache(64)
def is_loopback(host: str) -> bool:
    """Return whether an address, as ASGI and WSGI give it, belongs to the loopback interface."""
    # IPv4 addresses arrive mapped into IPv6 on a dual-stack socket.
    return host.startswith(("127.", "::ffff:127.")) or host in ("::1", "localhost")


def check_content(headers: Mapping[bytes, bytes]) -> None:
    """Check that the body of a request is declared as JSON in UTF-8, without a content coding.

    Args:
        headers: The headers of the request, with names in lower case.

    Raises:
        Refusal: The content type, its charset or the content coding is not supported (415).
    """
    content_type = headers.get(b"content-type", b"")
    if len(content_type) > MAX_HEADER_BYTES or not is_json(content_type):
        raise Refusal(415, "The content type must be application/json, in UTF-8.", [(b"accept", b"application/json")])
    coding = headers.get(b"content-encoding")
    if coding is not None and coding.strip().lower() not in (b"identity", b""):
        raise Refusal(415, "Content codings are not supported.", [(b"accept-encoding", b"identity")])


def check_repeated(headers: Iterable[Header], is_single: Callable[[bytes], bool] | None = None) -> None:
    """Reject repeated single-value headers: a proxy or a framework may have read the other value.

    Args:
        headers: The headers of the request, with names in lower case.
        is_single: Returns whether a further header may have only one value, beside those that every endpoint reads.

    Raises:
        Refusal: One of these headers has two values (400).
    """
    # A set of fields: a header that is repeated with an equal value is not ambiguous.
    fields = set(headers)
    names = [name for name, _ in fields if name in _SINGLE_HEADERS or (is_single is not None and is_single(name))]
    if len(names) != len(set(names)):
        raise Refusal(400, "A header that may have one value has two.")


def is_json(content_type: bytes) -> bool:
    """Return whether a `Content-Type` is one of JSON-RPC's. Of its parameters, only a charset is checked."""
    # Two headers, which servers of WSGI join: a proxy may have read the other value. A comma in a quoted string (RFC
    # 9110, section 5.6.4) separates nothing.
    if b"," in content_type and b"," in re.sub(rb'"(?:[^"\\]|\\.)*"', b"", content_type):
        return False
    essence, *parameters = content_type.split(b";")
    # The media types of JSON-RPC over HTTP; all but the first are historic.
    if essence.strip().lower() not in (b"application/json", b"application/json-rpc", b"application/jsonrequest"):
        return False
    # JSON has no parameter `charset` (RFC 8259, section 11), but clients send one.
    for parameter in parameters:
        name, _, value = parameter.partition(b"=")
        # ASCII is a subset of UTF-8.
        is_utf8 = value.strip(b' \t"').lower() in (b"utf-8", b"utf8", b"us-ascii")
        if name.strip().lower() == b"charset" and not is_utf8:
            return False
    return True


def too_large(limit: int) -> Refusal:
    """Return the refusal of a body that is larger than `limit` bytes (413)."""
    return Refusal(413, f"The body must have at most {limit} bytes.")


def declared_length(length: bytes, limit: int) -> int:
    """Return the length that a `Content-Length` declares.

    Raises:
        Refusal: The length is not a number (400), or is larger than `limit` (413).
    """
    # Bounded, because converting a long row of digits is slow. Any length of 20 digits is above every limit.
    if not length.isdigit() or len(length) > 19:
        raise Refusal(400 if not length.isdigit() else 413, "The content length is invalid.")
    declared = int(length)
    if declared > limit:
        raise too_large(limit)
    return declared


def check_body(body: object, limit: int, declared: int | None) -> None:
    """Check a body that was received.

    Raises:
        Refusal: It is larger than `limit` (413), or a part of it was read earlier, or lost (400).
        TypeError: It is not bytes.
    """
    if not isinstance(body, (bytes, bytearray)):
        raise TypeError(f"the body must be bytes, not {type(body).__name__}")
    if len(body) > limit:
        raise too_large(limit)
    if declared is not None and len(body) != declared:
        raise Refusal(400, "The body does not have its declared length.")


async def read_body(receive: Receive, limit: int, declared: int | None) -> bytes | bytearray | None:
    """Receive the body of an ASGI request.

    Args:
        receive: The application's `receive`.
        limit: The maximum size of the body in bytes.
        declared: The length that the request declared. The rest is not awaited when it is reached.

    Returns:
        The body; None if the client disconnected.

    Raises:
        Refusal: The body is larger than `limit` (413), and nothing more was received; or it does not have its declared
            length (400).
    """
    message = await receive()
    body: bytes | bytearray = message.get("body", b"")
    while message["type"] == "http.request":
        if len(body) > limit:
            raise too_large(limit)
        if not message.get("more_body") or (len(body) == declared and declared):
            if len(body) != declared:
                check_body(body, limit, declared)
            return body
        if isinstance(body, bytes):
            body = bytearray(body)
        message = await receive()
        body += message.get("body", b"")
    return None


def text_response(status: int, data: bytes, method: str, fields: Iterable[Header] = ()) -> HttpResponse:
    """Return a response in plain text; without its body for HEAD."""
    # The headers of a response to HEAD are those of the GET (RFC 9110, section 9.3.2).
    length = b"content-length", b"%d" % len(data)
    return status, [*fields, (b"content-type", b"text/plain; charset=utf-8"), length], b"" if method == "HEAD" else data


def refusal_response(refusal: Refusal, method: str, fields: Iterable[Header] = ()) -> HttpResponse:
    """Return the response to a refused request."""
    return text_response(refusal.status, refusal.reason.encode() + b"\n", method, [*refusal.headers, *fields])
