"""HTTP servers as processes, and raw requests to them. Every wait has a time limit."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from .places import ROOT
from .waiting import HOST, accepts, blocking_eventually
from .waiting import free_port as free_port

SECONDS = 30
COMMANDS = {
    "uvicorn": "uvicorn --http httptools --loop asyncio --no-access-log --host {host} --port {port} {app}",
    "uvicorn-h11": "uvicorn --http h11 --loop asyncio --no-access-log --host {host} --port {port} {app}",
    "granian": "granian --interface asgi --workers 1 --no-access-log --host {host} --port {port} {app}",
    "hypercorn": "hypercorn --bind {host}:{port} {app}",
}
"""The arguments of `python -m` for each server."""


class Server:
    """A running server."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self.port = port
        self.process = process
        self.url = f"http://{HOST}:{port}/"

    def connect(self) -> socket.socket:
        return socket.create_connection((HOST, self.port), SECONDS)

    def send(self, data: bytes) -> bytes:
        """Send bytes on a new connection, and return what arrives until the server closes it."""
        with self.connect() as connection:
            connection.sendall(data)
            return read_all(connection)

    def post(self, body: bytes, *headers: str) -> tuple[int, bytes]:
        """Return the status of the response to a POST, and its body."""
        fields = ["Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
        return parse(self.send(request(body, *fields, "Connection: close")))

    def call(self, method: str, *params: Any) -> Any:
        """Return the result of a call."""
        text = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        status, body = self.post(text)
        assert status == 200, body
        return orjson.loads(body)["result"]


def request(body: bytes, *headers: str) -> bytes:
    """Return a POST request with the given headers and `Host`."""
    return "\r\n".join(["POST / HTTP/1.1", "Host: localhost", *headers, "", ""]).encode() + body


def parse(answer: bytes) -> tuple[int, bytes]:
    """Return the status and the body of a response that ends with its connection."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 "), answer[:200]
    if b"transfer-encoding: chunked" in head.lower():
        body = b"".join(body.split(b"\r\n")[1::2])
    return int(head.split()[1]), body


def read_all(connection: socket.socket) -> bytes:
    """Return what arrives until the peer closes the connection, or resets it after a response."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(1 << 16):
            received += chunk
    return received


@contextlib.contextmanager
def running(command: list[str], port: int, **environment: str) -> Iterator[Server]:
    """Run a server in a `with` block. It must not log an exception."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT, env={**os.environ, **environment}
        )
        try:
            server = Server(port, process)
            blocking_eventually(lambda: process.poll() is not None or accepts(port), SECONDS)
            if process.poll() is not None:
                log.seek(0)
                pytest.fail(f"the server does not start: {log.read().decode(errors='replace')}")
            yield server
            process.terminate()
            process.wait(SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        log.seek(0)
        text = log.read().decode(errors="replace")
    assert "Traceback" not in text, text
    assert "ERROR" not in text, text


def python(*arguments: str) -> list[str]:
    return [sys.executable, "-m", *arguments]


@contextlib.contextmanager
def serving(name: str, app: str = "tests.support.http_app:app", *options: str) -> Iterator[Server]:
    """Run an ASGI application under one of the servers in COMMANDS."""
    pytest.importorskip(name.partition("-")[0], reason=f"{name} is not installed")
    port = free_port()
    command = python(*COMMANDS[name].format(host=HOST, port=port, app=app).split(), *options)
    with running(command, port) as server:
        yield server


def descriptors(pid: int) -> int:
    """Return the number of descriptors that a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
