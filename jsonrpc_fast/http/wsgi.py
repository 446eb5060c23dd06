"""A WSGI application that serves JSON-RPC over POST, for Flask, Django and other WSGI servers and frameworks.

    app = WsgiEndpoint({"add": lambda a, b: a + b})  # gunicorn module:app

The rules are those of `Endpoint`. Functions are sync, so none can be cancelled. Body timeouts are left to the WSGI
server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from ..handlers import is_awaitable
from ..support import check_type
from .base import BaseEndpoint, HttpHeaders, checked_headers, joined, may_be_local
from .requests import HttpResponse, Refusal, check_body, is_loopback, refusal_response

_HEADERS: Final = {
    b"host": "HTTP_HOST",
    b"origin": "HTTP_ORIGIN",
    b"content-type": "CONTENT_TYPE",
    b"content-encoding": "HTTP_CONTENT_ENCODING",
    b"content-length": "CONTENT_LENGTH",
    b"accept": "HTTP_ACCEPT",
    b"traceparent": "HTTP_TRACEPARENT",
    b"tracestate": "HTTP_TRACESTATE",
}


class WsgiEndpoint(BaseEndpoint):
    """A WSGI application that serves JSON-RPC over POST, at any path.

    Args:
        handlers: A `Handlers`, or functions by method. A call to an async function gets the error -32603.
        options: See `EndpointOptions`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        """Serve a request as defined by PEP 3333.

        Raises:
            TypeError: `environ` lacks a variable that PEP 3333 requires, or has one of the wrong type.
        """
        _check_environ(environ)
        # PEP 3333: each character of a string in the environment is one byte.
        found = {name: environ[key].encode("latin-1", "replace") for name, key in _HEADERS.items() if key in environ}
        # Some servers do not provide the address that they listen on.
        is_local = is_loopback(environ["SERVER_NAME"]) or is_loopback(environ.get("REMOTE_ADDR", ""))
        peer = environ.get("REMOTE_ADDR"), environ.get("REMOTE_PORT")
        # Otherwise the server has not decoded the chunks.
        is_readable = "HTTP_TRANSFER_ENCODING" not in environ or environ.get("wsgi.input_terminated")
        read = partial(self._read, environ) if is_readable else _unread
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        status, fields, body = self._serve(method, path, found, is_local, environ, peer, read)
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields]
        start_response(f"{status} {_phrase(status)}", headers)
        return [body]

    def serve(
        self,
        method: str,
        headers: HttpHeaders,
        body: bytes | Callable[[], bytes],
        *,
        client: Sequence[Any] | None = None,
        request: Any = None,
        path: str = "",
    ) -> tuple[int, dict[str, str], bytes]:
        """Serve a request that any framework has received, as in a view of Flask or Django; see `Endpoint.serve`."""
        try:
            found = checked_headers(headers)
        except Refusal as refusal:
            return joined(refusal_response(refusal, method))
        read = partial(_given_body, body)
        return joined(self._serve(method, path, found, may_be_local(client), request, client, read))

    def _serve(
        self,
        method: str,
        path: str,
        headers: dict[bytes, bytes],
        is_local: bool,
        request: Any,
        peer: Any,
        read: Callable[[int | None], bytes],
    ) -> HttpResponse:
        """Serve a request. `read` returns the body; it gets the declared length."""
        for name in (b"content-type", b"content-length"):
            if not headers.get(name):  # PEP 3333 allows an empty string for a missing header
                headers.pop(name, None)
        try:
            if method != "POST":
                return self._respond_to_other_method(method, path, headers, is_local)
            declared = self._admit(headers, is_local)
            context = request if self._context is None else self._context(request)
            if self._context is not None and is_awaitable(context):
                raise TypeError("context must not be async")
            body = read(declared)
            check_body(body, self._max_body_bytes, declared)
            dispatch = self._dispatch_for(headers) if self._is_observed else self._dispatch
            return self._respond_with(context, dispatch.serve(body, context, peer))
        except Refusal as refusal:
            return refusal_response(refusal, method)

    def _read(self, environ: dict[str, Any], declared: int | None) -> bytes:
        """Read the body: to its declared length, or to its end where the server marks it."""
        try:
            read = environ["wsgi.input"].read
        except (KeyError, AttributeError):
            raise TypeError("environ must have a file as wsgi.input") from None
        if declared is None:
            # Without this promise of the server, reading up to the end of the input could wait forever.
            if not environ.get("wsgi.input_terminated"):
                return _unread(declared)
            # One byte more than the limit shows that the body is too large.
            declared = self._max_body_bytes + 1
        body = bytearray()
        while len(body) < declared:
            try:
                chunk = read(min(64 * 1024, declared - len(body)))
            except OSError:  # servers raise it if the client has disconnected, or a chunk is malformed
                raise Refusal(400, "The body was not received.") from None
            if not isinstance(chunk, bytes):
                raise TypeError(f"wsgi.input must give bytes, not {type(chunk).__name__}")
            if not chunk:
                break
            body += chunk
        return bytes(body)


def _given_body(body: bytes | Callable[[], bytes], declared: int | None) -> bytes:
    found = body() if callable(body) else body
    # WSGI frameworks give b"" for a body without a declared length.
    return _unread(declared) if declared is None and found == b"" else found


def _unread(_: int | None) -> bytes:
    """Refuse a body that cannot be read, such as a chunked one."""
    raise Refusal(411, "The request must declare the length of its body.")


def _check_environ(environ: dict[str, Any]) -> None:
    """Check the variables that PEP 3333 requires and this module uses. A fault is one of the server or the caller."""
    check_type("environ", environ, dict)
    for key in ("REQUEST_METHOD", "SERVER_NAME"):
        if key not in environ:
            raise TypeError(f"environ must be a WSGI environment: it lacks {key}")
    for key in ("REQUEST_METHOD", "SERVER_NAME", "PATH_INFO", "REMOTE_ADDR", *_HEADERS.values()):
        if key in environ:
            check_type(f"environ[{key!r}]", environ[key], str)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
