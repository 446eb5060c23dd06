"""The WSGI endpoint, driven as PEP 3333 says; `wsgiref.validate` checks both sides."""

from __future__ import annotations

import io
import re
import socket
import socketserver
import threading
import wsgiref.simple_server
import wsgiref.util
import wsgiref.validate
from typing import Any

import pytest

from jsonrpc_fast.handlers import RequestContext
from jsonrpc_fast.http import Refusal, WsgiEndpoint

from ..support.http_process import HOST, parse, read_all, request
from ..support.tables import rows

ADD = b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}'
SUM = b'{"jsonrpc":"2.0","id":1,"result":3}'


async def add_later(a: int, b: int) -> int:
    return a + b


def user(context: RequestContext) -> Any:
    return context.context["REMOTE_USER"]


FUNCTIONS: dict[str, Any] = {"add": lambda a, b: a + b, "add_later": add_later, "user": user}


class Answer:
    def __init__(self, endpoint: WsgiEndpoint, body: bytes = b"", **changes: Any) -> None:
        environ: dict[str, Any] = {
            "REQUEST_METHOD": "POST",
            "HTTP_HOST": "example.org",
            "SERVER_NAME": "192.0.2.1",
            "REMOTE_ADDR": "192.0.2.2",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "SCRIPT_NAME": "",
            "PATH_INFO": "/",
            "QUERY_STRING": "",
            "wsgi.input": io.BytesIO(body + b"behind the body"),
            **changes,
        }
        environ = {name: value for name, value in environ.items() if value is not None}
        wsgiref.util.setup_testing_defaults(environ)

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            self.status, self.headers = status, dict(headers)

        found: Any = wsgiref.validate.validator(endpoint)(environ, start_response)
        self.body = b"".join(found)
        found.close()


@pytest.fixture
def endpoint() -> WsgiEndpoint:
    return WsgiEndpoint(FUNCTIONS)


def test_a_request_and_a_batch(endpoint: WsgiEndpoint) -> None:
    answer = Answer(endpoint, ADD)
    assert (answer.status, answer.body) == ("200 OK", SUM)
    assert answer.headers == {"content-type": "application/json", "content-length": "35"}
    assert Answer(endpoint, b"[%s,%s]" % (ADD, ADD)).body == b"[%s,%s]" % (SUM, SUM)
    answer = Answer(endpoint, b'{"jsonrpc":"2.0","method":"add"}')
    assert (answer.status, answer.headers, answer.body) == ("204 No Content", {}, b"")


def test_an_async_function(endpoint: WsgiEndpoint) -> None:
    assert b'"code":-32603' in Answer(endpoint, ADD.replace(b"add", b"add_later")).body


@rows(
    ("changes", "status"),
    [
        ({"REQUEST_METHOD": "GET"}, "405 Method Not Allowed"),
        ({"REQUEST_METHOD": "GET", "SERVER_NAME": "127.0.0.1"}, "421 Misdirected Request"),
        ({"SERVER_NAME": "127.0.0.1"}, "421 Misdirected Request"),
        ({"REMOTE_ADDR": "::1", "HTTP_HOST": "localhost"}, "200 OK"),
        ({"REMOTE_ADDR": "::1", "HTTP_HOST": "localhost", "HTTP_ORIGIN": "http://example.org"}, "403 Forbidden"),
        ({"REMOTE_ADDR": "::1", "HTTP_HOST": "localhost", "HTTP_ORIGIN": ""}, "403 Forbidden"),
        ({"REMOTE_ADDR": "::1", "HTTP_HOST": ""}, "421 Misdirected Request"),
        ({"CONTENT_LENGTH": None}, "411 Length Required"),
        ({"CONTENT_LENGTH": None, "wsgi.input_terminated": True, "wsgi.input": io.BytesIO(ADD)}, "200 OK"),
        ({"wsgi.input_terminated": True}, "200 OK"),
        # What such a server passes on includes the framing of the chunks.
        ({"HTTP_TRANSFER_ENCODING": "chunked"}, "411 Length Required"),
        ({"HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": None}, "411 Length Required"),
        ({"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}, "200 OK"),
        ({"HTTP_X_CUSTOM": "é"}, "200 OK"),
        ({"HTTP_X_CUSTOM": "é", "HTTP_ORIGIN": "\u20ac"}, "403 Forbidden"),
    ],
)
def test_requests(endpoint: WsgiEndpoint, changes: Any, status: str) -> None:
    answer = Answer(endpoint, ADD, **changes)
    assert answer.status == status
    if status == "405 Method Not Allowed":
        assert answer.headers["allow"] == "POST, OPTIONS"


def test_a_body_over_the_limit() -> None:
    endpoint = WsgiEndpoint(FUNCTIONS, max_body_bytes=60)
    assert Answer(endpoint, ADD + b" " * 7).status.startswith("413 ")
    ended = {"CONTENT_LENGTH": None, "wsgi.input_terminated": True}
    assert Answer(endpoint, **ended, **{"wsgi.input": io.BytesIO(ADD)}).body == SUM
    assert Answer(endpoint, **ended, **{"wsgi.input": io.BytesIO(b" " * 61)}).status.startswith("413 ")


def test_a_body_that_ends_too_early(endpoint: WsgiEndpoint) -> None:
    answer = Answer(endpoint, CONTENT_LENGTH="99", **{"wsgi.input": io.BytesIO(ADD[:-1])})
    assert (answer.status, answer.body) == ("400 Bad Request", b"The body does not have its declared length.\n")


@pytest.mark.parametrize("length", [str(len(ADD)), None])
def test_a_client_that_is_gone(endpoint: WsgiEndpoint, length: str | None) -> None:
    """No traceback is in the server's log, and no text that happens to be complete is served."""

    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            text = super().read(size)
            if not text:
                raise OSError("the client is gone")
            return text

    source = Broken(ADD if length is None else ADD[:-1])
    answer = Answer(endpoint, CONTENT_LENGTH=length, **{"wsgi.input": source, "wsgi.input_terminated": True})
    assert (answer.status, answer.body) == ("400 Bad Request", b"The body was not received.\n")


def test_hooks() -> None:
    def context(environ: Any) -> Any:
        if "REMOTE_USER" not in environ:
            raise Refusal(401, "Who are you?")
        return environ

    endpoint = WsgiEndpoint(FUNCTIONS, context=context, respond=lambda _, reply: (299, [(b"x-a", b"1")]))
    text = b'{"jsonrpc":"2.0","id":1,"method":"user"}'
    assert Answer(endpoint, text).status == "401 Unauthorized"
    answer = Answer(endpoint, text, REMOTE_USER="Ada")
    assert (answer.status, answer.headers["x-a"]) == ("299 Unknown", "1")
    assert answer.body == b'{"jsonrpc":"2.0","id":1,"result":"Ada"}'


def test_a_server(endpoint: WsgiEndpoint) -> None:
    class Quiet(wsgiref.simple_server.WSGIRequestHandler):
        def log_message(self, *_: Any) -> None: ...

    class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
        daemon_threads = True

    with wsgiref.simple_server.make_server(HOST, 0, endpoint, Server, Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            with socket.create_connection((HOST, server.server_port), 20) as connection:
                connection.sendall(request(ADD, "Content-Type: application/json", f"Content-Length: {len(ADD)}"))
                received = read_all(connection)
            assert parse(received.replace(b"HTTP/1.0", b"HTTP/1.1", 1)) == (200, SUM)
        finally:
            server.shutdown()
            thread.join(20)


@rows(
    ("changes", "said"),
    [
        ({"REQUEST_METHOD": None}, "environ must be a WSGI environment: it lacks REQUEST_METHOD"),
        ({"SERVER_NAME": None}, "environ must be a WSGI environment: it lacks SERVER_NAME"),
        ({"REQUEST_METHOD": b"POST"}, "environ['REQUEST_METHOD'] must be a str, not bytes"),
        ({"CONTENT_LENGTH": 54}, "environ['CONTENT_LENGTH'] must be a str, not int"),
        ({"CONTENT_TYPE": b"application/json"}, "environ['CONTENT_TYPE'] must be a str, not bytes"),
        ({"REMOTE_ADDR": 7}, "environ['REMOTE_ADDR'] must be a str, not int"),
        ({"wsgi.input": None}, "environ must have a file as wsgi.input"),
        ({"wsgi.input": 7}, "environ must have a file as wsgi.input"),
        ({"wsgi.input": io.StringIO(ADD.decode())}, "wsgi.input must give bytes, not str"),
    ],
)
def test_a_broken_environment_is_refused(endpoint: WsgiEndpoint, changes: dict[str, Any], said: str) -> None:
    """The server is broken, not the request: the exception says what PEP 3333 requires."""
    environ: dict[str, Any] = {"CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(ADD)), "REMOTE_ADDR": "x"}
    environ |= {"REQUEST_METHOD": "POST", "SERVER_NAME": "x", "wsgi.input": io.BytesIO(ADD)} | changes
    environ = {name: value for name, value in environ.items() if value is not None}
    with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
        endpoint(environ, lambda *_: None)


@pytest.mark.parametrize("given", [b"", bytes])
def test_a_view_without_a_body_that_was_sent(endpoint: WsgiEndpoint, given: Any) -> None:
    """Django and Flask read no body without a declared length: the request is refused, not the text."""
    headers = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": ""}
    assert endpoint.serve("POST", headers, given)[::2] == (411, b"The request must declare the length of its body.\n")
    assert endpoint.serve("POST", {**headers, "Content-Length": "0"}, given)[0] == 200


def test_a_repeated_header_of_respond() -> None:
    endpoint = WsgiEndpoint(FUNCTIONS, respond=lambda *_: (200, [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]))
    environ: dict[str, Any] = {"CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(ADD))}
    sent: list[tuple[str, str]] = []

    def input_of(body: bytes) -> dict[str, Any]:
        made = {"REQUEST_METHOD": "POST", "wsgi.input": io.BytesIO(body), **environ}
        wsgiref.util.setup_testing_defaults(made)
        return made

    assert list(endpoint(input_of(ADD), lambda _, headers: sent.extend(headers))) == [SUM]
    assert [value for name, value in sent if name == "set-cookie"] == ["a=1", "b=2"]
    headers = {"Host": "localhost", "Content-Type": "application/json"}
    assert endpoint.serve("POST", headers, ADD)[1]["set-cookie"] == "a=1, b=2"
