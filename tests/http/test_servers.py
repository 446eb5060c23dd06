"""The endpoint under real ASGI servers."""

from __future__ import annotations

import contextlib
import gzip
import time
from collections.abc import Iterator

import pytest

from ..support.http_app import MAX_BODY
from ..support.http_process import COMMANDS, SECONDS, Server, parse, read_all, request, serving

pytestmark = pytest.mark.slow

ADD = b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}'
SUM = b'{"jsonrpc":"2.0","id":1,"result":3}'
JSON = "Content-Type: application/json"


@pytest.fixture(scope="module", params=COMMANDS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with serving(request.param) as found:
        yield found


def test_a_request_and_a_batch(server: Server) -> None:
    assert server.post(ADD) == (200, SUM)
    later = b'{"jsonrpc":"2.0","id":2,"method":"later","params":[[]]}'
    assert server.post(b"[%s,%s]" % (ADD, later)) == (200, b'[%s,{"jsonrpc":"2.0","id":2,"result":[]}]' % SUM)
    assert server.post(b'{"jsonrpc":"2.0","method":"add","params":[1,2]}') == (204, b"")


def test_the_context_is_the_scope(server: Server) -> None:
    assert server.call("client") == "127.0.0.1"


def test_requests_on_one_connection(server: Server) -> None:
    """Even after responses that were sent before the whole body was received."""
    text = request(ADD, JSON, f"Content-Length: {len(ADD)}")
    with server.connect() as connection:
        for _ in range(20):
            connection.sendall(text)
            received = b""
            while not received.endswith(SUM):
                chunk = connection.recv(65536)
                assert chunk, received
                received += chunk


def test_a_large_body_and_a_chunked_one(server: Server) -> None:
    value = "x" * (MAX_BODY - 1000)
    assert server.call("echo", value) == value
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (ADD[:7], ADD[7:])) + b"0\r\n\r\n"
    text = request(body, JSON, "Transfer-Encoding: chunked", "Connection: close")
    assert parse(server.send(text)) == (200, SUM)


def test_refusals(server: Server) -> None:
    assert server.post(ADD, "Host: evil.example")[0] in (400, 421)  # a server may refuse a second host itself
    assert server.post(ADD, "Origin: http://evil.example")[0] == 403
    assert server.post(gzip.compress(ADD), "Content-Encoding: gzip")[0] == 415
    text = request(ADD, "Content-Type: text/plain", f"Content-Length: {len(ADD)}", "Connection: close")
    assert parse(server.send(text))[0] == 415
    assert parse(server.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))[0] == 405
    health = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert parse(server.send(health)) == (200, b"ok\n")


def test_a_body_over_the_limit(server: Server) -> None:
    text = request(b"", JSON, f"Content-Length: {MAX_BODY + 1}")
    with server.connect() as connection:
        connection.sendall(text)
        assert parse(read_all(connection))[0] == 413


def test_an_endless_body(server: Server) -> None:
    chunk = b"8000\r\n%s\r\n" % (b" " * 0x8000)
    with server.connect() as connection:
        connection.sendall(request(b"", JSON, "Transfer-Encoding: chunked"))
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 50 * MAX_BODY:
                connection.sendall(chunk)
                sent += len(chunk)
    assert sent < 20 * MAX_BODY  # the rest is what buffers of the server and the system hold


def test_a_slow_body(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(request(b"", JSON, "Content-Length: 1000"))
        began = time.monotonic()
        assert parse(read_all(connection))[0] == 408
    assert 0.5 < time.monotonic() - began < 10


def test_functions_are_cancelled_when_the_client_goes(server: Server) -> None:
    name = f"{time.time()}"
    body = b'{"jsonrpc":"2.0","id":1,"method":"wait","params":["%s"]}' % name.encode()
    with server.connect() as connection:
        connection.sendall(request(body, JSON, f"Content-Length: {len(body)}"))
        time.sleep(0.3)
        assert name not in server.call("cancelled")
    deadline = time.monotonic() + SECONDS
    while name not in server.call("cancelled"):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_others_are_served_meanwhile() -> None:
    """While many bodies do not come to their end, and clients send requests and read nothing."""
    with serving("uvicorn") as server, contextlib.ExitStack() as stack:
        slow, floods = ([stack.enter_context(server.connect()) for _ in range(count)] for count in (500, 4))
        for connection in slow:
            connection.sendall(request(b"", JSON, "Content-Length: 100000"))
        for connection in floods:
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                for _ in range(1000):
                    connection.send(request(ADD, JSON, f"Content-Length: {len(ADD)}") * 100)
        for _ in range(50):
            assert server.call("add", 1, 2) == 3
        assert {parse(read_all(connection))[0] for connection in slow} == {408}
