"""The files on docs/deploy/nginx.md: nginx before several workers of uvicorn."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("httpx2", reason="the extra `http` is not installed")

import httpx2

from jsonrpc_fast.errors import HttpStatusError
from jsonrpc_fast.http.client import HttpClient

from ..support import needs
from ..support.http_process import HOST, Server, parse, python, read_all, running
from ..support.nginx import write_nginx
from ..support.pages import write_scripts
from ..support.places import PACKAGE, ROOT
from ..support.processes import end_process
from ..support.waiting import accepts_at, free_port

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "deploy" / "nginx.md"
WORKERS = 3


def block(pattern: str) -> str:
    found = re.search(pattern, PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """nginx and its workers, with the paths and the port of the page replaced."""
    nginx = needs.require("nginx")
    folder = tmp_path_factory.mktemp("nginx")
    folder.chmod(0o755)
    port = free_port()
    socket = folder / "rpc.sock"
    write_scripts(PAGE, folder)
    command = block(r"^```\n(uvicorn .*?)\n```$").replace("/run/rpc/rpc.sock", str(socket)).replace('"', "").split()
    command[command.index("--workers") + 1] = str(WORKERS)
    rules = block(r"^```nginx\n(.*?)^```$").replace("/run/rpc/rpc.sock", str(socket))
    rules = rules.replace("listen 80;", f"listen {HOST}:{port};").replace("body_timeout 10s", "body_timeout 1s")
    path = os.pathsep.join([str(folder), str(PACKAGE.parent)])
    proxy = write_nginx(nginx, folder, rules)
    with running(proxy, port) as found, workers_at(socket, command, PYTHONPATH=path):
        yield found


@contextlib.contextmanager
def workers_at(socket: Path, command: list[str], **environment: str) -> Iterator[None]:
    """Run uvicorn until it is no longer needed."""
    process = subprocess.Popen(
        python(*command), env={**os.environ, **environment}, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        while not accepts_at(socket):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield
    finally:
        end_process(process)


def client_of(server: Server) -> HttpClient:
    return HttpClient(server.url, headers={"host": "example.org"}, timeout=30)


@pytest.fixture
def client(server: Server) -> Iterator[HttpClient]:
    with client_of(server) as found:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(HttpStatusError):  # 502: no worker yet
                if found.call("add", [1, 2]) == 3:
                    break
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield found


def workers(server: Server, calls: int = 300) -> set[int]:
    """Return the workers that serve calls from several threads."""
    found: set[int] = set()

    def work() -> None:
        with client_of(server) as client:
            for _ in range(calls // 10):
                with contextlib.suppress(HttpStatusError):
                    found.add(client.call("worker"))

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def test_calls(client: HttpClient) -> None:
    assert client.call_batch([("add", [1, 2]), ("add", {"a": 3, "b": 4})]) == [3, 7]
    assert client.call("client") == HOST
    client.notify("add", [1, 2])


def test_health(server: Server, client: HttpClient) -> None:
    assert httpx2.get(server.url + "health", headers={"host": "example.org"}).text == "ok\n"


def test_other_hosts_are_refused(server: Server, client: HttpClient) -> None:
    with pytest.raises(HttpStatusError) as caught:
        client.call("add", [1, 2], headers={"host": "evil.example"})
    assert caught.value.status == 421


def test_the_workers_share_the_load(server: Server, client: HttpClient) -> None:
    deadline = time.monotonic() + 60
    found: set[int] = set()
    while len(found) < 2:
        assert time.monotonic() < deadline
        found |= workers(server)


def test_a_large_body(client: HttpClient) -> None:
    with pytest.raises(HttpStatusError) as caught:
        client.call("add", ["x" * 1_100_000, ""])
    assert caught.value.status == 413
    text = "x" * 1_000_000
    assert client.call("add", [text, "y"]) == text + "y"


def test_endless_headers_and_a_slow_body(server: Server, client: HttpClient) -> None:
    with server.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: example.org\r\n")
        with contextlib.suppress(OSError):
            for _ in range(1000):
                connection.sendall(b"X-Header: " + b"x" * 1000 + b"\r\n")
        assert parse(read_all(connection))[0] == 400
    with server.connect() as connection:
        head = "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
        connection.sendall(head.encode())
        assert read_all(connection) == b""  # nginx logs 408, and closes the connection
    assert client.call("add", [1, 2]) == 3


def test_a_worker_that_dies(server: Server, client: HttpClient) -> None:
    """Its calls fail with an HTTP status, and another worker takes its place."""
    victim = client.call("worker")
    failed: list[int] = []
    answered: list[float] = []

    def work() -> None:
        with client_of(server) as own:
            try:
                own.call("sleep", [1.5])
                answered.append(1)
            except HttpStatusError as error:
                failed.append(error.status)

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    time.sleep(0.7)
    os.kill(victim, signal.SIGKILL)
    for thread in threads:
        thread.join(60)
    print(f"\n{len(answered)} of 20 calls answered, {len(failed)} failed with {sorted(set(failed))}")
    assert len(answered) + len(failed) == 20
    assert set(failed) <= {502}
    deadline = time.monotonic() + 60
    while len(workers(server) - {victim}) < 2:
        assert time.monotonic() < deadline
