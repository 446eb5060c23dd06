"""Hostile clients of the endpoint under uvicorn: others are served meanwhile. `pytest -s` prints how fast."""

from __future__ import annotations

import contextlib
import gzip
import resource
import statistics
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ..support.http_app import BODY_SECONDS
from ..support.http_process import Server, descriptors, parse, read_all, request, serving
from ..support.tables import rows

pytestmark = pytest.mark.slow

ADD = b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}'
SUM = b'{"jsonrpc":"2.0","id":1,"result":3}'
JSON = "Content-Type: application/json"
CALL = request(ADD, JSON, f"Content-Length: {len(ADD)}")
CALLS = 200
MAX_SECONDS = 2.0
"""How long the median call may take, on a loaded machine."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("uvicorn", "tests.support.http_app:app", "--timeout-keep-alive", "60", "--backlog", "64") as found:
        yield found


def serve_others(server: Server, attack: str) -> None:
    """Make calls on one connection, and check how long they take."""
    seconds = []
    with server.connect() as connection:
        for _ in range(CALLS):
            began = time.perf_counter()
            connection.sendall(CALL)
            received = b""
            while not received.endswith(SUM):
                chunk = connection.recv(65536)
                assert chunk, received
                received += chunk
            seconds.append(time.perf_counter() - began)
    middle, worst = statistics.median(seconds), max(seconds)
    print(f"\n{attack}: others wait {middle * 1000:.2f} ms (median), {worst * 1000:.1f} ms (maximum)")
    assert middle < MAX_SECONDS


@contextlib.contextmanager
def attacking(step: Callable[[], object]) -> Iterator[None]:
    """Call a function again and again in a thread."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            step()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)


def test_nothing(server: Server) -> None:
    """The figures to compare with."""
    serve_others(server, "no attack")


def test_idle_connections(server: Server) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = 10_000
    if hard != resource.RLIM_INFINITY and hard < count + 1000:
        pytest.skip(f"a process may open {hard} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 1000), hard))  # the server inherits it
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(serving("uvicorn", "tests.support.http_app:app", "--timeout-keep-alive", "60"))
        before = descriptors(other.process.pid)
        for number in range(count):
            connection = stack.enter_context(other.connect())
            if number % 2:
                connection.sendall(CALL[:40])  # the beginning of a header
        deadline = time.monotonic() + 60
        while descriptors(other.process.pid) < before + count - 100:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        serve_others(other, f"{count} idle connections")
        assert other.call("add", 1, 2) == 3


def test_slow_bodies(server: Server) -> None:
    connections = []

    def step() -> None:
        if len(connections) < 500:
            connection = server.connect()
            connection.sendall(request(b"", JSON, "Content-Length: 100000"))
            connection.setblocking(False)
            connections.append(connection)
            return
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.send(b" ")
        time.sleep(0.05)

    with attacking(step):
        time.sleep(0.3)
        serve_others(server, "500 slow bodies")
        time.sleep(2 * BODY_SECONDS)
    for connection in connections:
        connection.settimeout(30)
        assert parse(read_all(connection))[0] == 408
        connection.close()


@rows("name", ["uvicorn", "uvicorn-h11"])
def test_endless_headers(name: str) -> None:
    """Headers are the server's business: h11 limits them, httptools does not, so a proxy must."""
    line = b"X-Header: " + b"x" * 1000 + b"\r\n"
    with serving(name) as server, server.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\n")
        sent = 0

        def step() -> None:
            nonlocal sent
            with contextlib.suppress(OSError):
                if sent < 20_000_000:
                    connection.sendall(line)
                    sent += len(line)
                    return
            time.sleep(0.01)

        with attacking(step):
            serve_others(server, f"endless headers ({name})")
            time.sleep(0.5)
        if name == "uvicorn-h11":
            assert sent < 10_000_000


def test_a_flood_that_reads_nothing(server: Server) -> None:
    block = CALL * 100
    connections = [server.connect() for _ in range(4)]
    for connection in connections:
        connection.setblocking(False)

    def step() -> None:
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.send(block)
        time.sleep(0.0005)

    try:
        with attacking(step):
            serve_others(server, "4 connections that pipeline and read nothing")
    finally:
        for connection in connections:
            connection.close()
    serve_others(server, "after it")


def test_a_flood_of_connections(server: Server) -> None:
    def step() -> None:
        with contextlib.suppress(OSError), server.connect() as connection:
            connection.sendall(CALL)

    with attacking(step), attacking(step):
        serve_others(server, "connections that send a request and go")
    assert server.call("add", 1, 2) == 3


@rows(
    "body",
    [
        b"5\r\nhello\r\nzz\r\n",
        b"-1\r\n\r\n0\r\n\r\n",
        b"ffffffffffffffffff\r\n",
        b"5 hello",
        b"5\r\nhelloXX0\r\n\r\n",
    ],
)
def test_broken_chunks(server: Server, body: bytes) -> None:
    answer = server.send(request(body, JSON, "Transfer-Encoding: chunked"))
    assert answer == b"" or parse(answer)[0] in (400, 408), answer
    serve_others(server, "broken chunks")


def test_wrong_lengths(server: Server) -> None:
    short = server.send(request(ADD, JSON, "Content-Length: 20", "Connection: close"))
    assert b"-32700" in parse(short)[1]
    long = server.send(request(ADD, JSON, "Content-Length: 2000"))
    assert parse(long)[0] == 408
    both = server.send(request(ADD, JSON, "Content-Length: 20", "Transfer-Encoding: chunked"))
    assert parse(both)[0] == 400
    two = server.send(request(ADD, JSON, f"Content-Length: {len(ADD)}", "Content-Length: 20"))
    assert parse(two)[0] == 400
    assert server.call("add", 1, 2) == 3


@rows("body", [b'"\xff\xfe"', b"\xef\xbb\xbf" + ADD, ADD.decode().encode("utf-16"), b"\x00" * 10])
def test_texts_that_are_not_utf8(server: Server, body: bytes) -> None:
    status, answer = server.post(body)
    assert (status, b'"code":-32700' in answer) == (200, True)


def test_a_gzip_bomb(server: Server) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    assert server.post(bomb, "Content-Encoding: gzip")[0] == 415


def test_a_body_over_the_limit_that_is_sent_regardless(server: Server) -> None:
    """The response may get lost when the connection is closed, but the rest of the body is not read."""
    with server.connect() as connection:
        connection.sendall(request(b"", JSON, "Content-Length: 50000000"))
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 50_000_000:
                sent += connection.send(b" " * 65536)
    assert sent < 20_000_000
    serve_others(server, "after a body over the limit")
