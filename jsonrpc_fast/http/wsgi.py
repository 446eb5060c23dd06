"""A WSGI application that serves JSON-RPC over POST, for Flask, Django and other WSGI servers and frameworks.

    app = WsgiEndpoint({"add": lambda a, b: a + b})  # gunicorn module:app

The rules are those of `Endpoint`. Functions are sync: nothing can be cancelled, and the time for a body is the server's
matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final

from ..handlers import is_awaitable
from ..types import UNSET
from .base import BaseEndpoint, refusal_answer
from .requests import Refusal, is_loopback, too_large

_HEADERS: Final = {
    b"host": "HTTP_HOST",
    b"origin": "HTTP_ORIGIN",
    b"content-type": "CONTENT_TYPE",
    b"content-encoding": "HTTP_CONTENT_ENCODING",
    b"content-length": "CONTENT_LENGTH",
}
_READ_BYTES: Final = 64 * 1024


class WsgiEndpoint(BaseEndpoint):
    """A WSGI application that serves JSON-RPC over POST, at every path that it gets.

    Args:
        handlers: A `Handlers`, or functions by method. A call of an async function is answered with -32603.
        options: See `EndpointOptions`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        """Serve a request, as PEP 3333 says."""
        status, headers, body = self._serve(environ, UNSET)
        start_response(f"{status} {_phrase(status)}", headers)
        return [body]

    def answer(self, environ: dict[str, Any], context: Any = UNSET) -> tuple[int, dict[str, str], bytes]:
        """Serve a request in a view of a framework.

        Args:
            environ: The WSGI environment, whose `wsgi.input` has not been read.
            context: `RequestContext.context` for the functions, such as the framework's request. By default that is
                what the hook `context` returns.

        Returns:
            The status, the headers and the body of the answer. The values of a repeated header are joined with a comma.
        """
        status, headers, body = self._serve(environ, context)
        joined: dict[str, str] = {}
        for name, value in headers:
            joined[name] = f"{joined[name]}, {value}" if name in joined else value
        return status, joined, body

    def _serve(self, environ: dict[str, Any], context: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        headers = {name: environ[key].encode("latin-1") for name, key in _HEADERS.items() if key in environ}
        for name in (b"content-type", b"content-length"):
            if not headers.get(name):  # an empty one may mean that there is none (PEP 3333)
                headers.pop(name, None)
        method: str = environ["REQUEST_METHOD"]
        try:
            # Some servers do not name the address that they listen on.
            is_local = is_loopback(environ["SERVER_NAME"]) or is_loopback(environ.get("REMOTE_ADDR", ""))
            if method == "POST":
                declared = self._admit(headers, is_local)
                if context is UNSET:
                    context = environ if self._context is None else self._context(environ)
                    if is_awaitable(context):
                        raise TypeError("context must not be async")
                text = self._read(environ, declared)
                peer = environ.get("REMOTE_ADDR"), environ.get("REMOTE_PORT")
                status, fields, body = self._answer_reply(context, self._dispatch.serve(text, context, peer))
            else:
                self._access.check(headers.get(b"host"), headers.get(b"origin"), is_local)
                status, fields, body = self._answer_other_method(method, environ.get("PATH_INFO", ""))
        except Refusal as refusal:
            status, fields, body = refusal_answer(refusal, method)
        return status, [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields], body

    def _read(self, environ: dict[str, Any], declared: int | None) -> bytes:
        """Read the body: to its declared length, or to its end where the server marks it."""
        source = environ["wsgi.input"]
        if declared is None:
            if not environ.get("wsgi.input_terminated"):
                raise Refusal(411, "The request must declare the length of its body.")
            declared = self._max_body + 1
        body = bytearray()
        while len(body) < declared:
            chunk = source.read(min(_READ_BYTES, declared - len(body)))
            if not chunk:
                break
            body += chunk
        if len(body) > self._max_body:
            raise too_large(self._max_body)
        return bytes(body)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
