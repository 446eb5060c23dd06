"""Compare the processor time of a request over HTTP, under uvicorn and granian with one worker.

    python -m benchmarks.bench_http

Each application runs in a process of its own, and all take turns in every round. One load tool sends the same requests
to all, over several connections with one request in flight on each. The processor time of the server's processes is
read from /proc, so Linux is needed. The best round is reported, because the minimum of many short rounds is robust on a
loaded machine. After some rounds all servers are restarted, because the memory layout of a process changes the time by
up to a fifth.

The upper limit is an application that receives the body and responds with constant bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import os
import platform
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

import jsonrpc_fast
from jsonrpc_fast import codec

from .http_servers import FACTORIES, FAST, FASTAPI, JSONRPCSERVER, PJRPC, RECEIVED
from .tables import markdown

HOST: Final = "127.0.0.1"
CEILING_BAR: Final = 1.3
"""The maximum processor time of a small call, as a multiple of an application that returns constant bytes."""
PEERS_BAR: Final = 2.5
"""The minimum processor time of the best other library, as a multiple of this package's."""
PEERS: Final = (PJRPC, JSONRPCSERVER, FASTAPI)


@dataclass(frozen=True)
class Load:
    """The request that is sent, and the response to it."""

    name: str
    body: bytes
    answer: bytes

    @property
    def is_small(self) -> bool:
        return len(self.body) < 200


def _load(name: str, value: object, count: int = 0) -> Load:
    request = {"jsonrpc": "2.0", "id": 12345, "method": "echo", "params": {"value": value}}
    answer = {"jsonrpc": "2.0", "id": 12345, "result": value}
    if not count:
        return Load(name, orjson.dumps(request), orjson.dumps(answer))
    requests = [{**request, "id": id} for id in range(count)]
    return Load(name, orjson.dumps(requests), orjson.dumps([{**answer, "id": id} for id in range(count)]))


_RECORD: Final = {"name": "add", "arguments": {"a": 1, "b": 2.5}}
LOADS: Final = (
    _load("small call", _RECORD),
    _load("batch of 10", _RECORD, 10),
    _load("80 kB", [{**_RECORD, "text": "0123456789" * 7, "number": number} for number in range(600)]),
)
OPTIONS: Final = {
    "uvicorn": "--http httptools --loop uvloop --no-access-log --log-level warning --timeout-keep-alive 600",
    "granian": "--interface asgi --loop uvloop --workers 1 --no-access-log --no-log --http1-header-read-timeout 60000",
}
"""The servers, and their options."""


def processes_of(pid: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += processes_of(int(child))
    return found


def processor_seconds(pid: int) -> float:
    """Return the processor time that all threads of a process and of its descendants have used."""
    total = 0
    for process in processes_of(pid):
        for task in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


class Server:
    """The process of a server, and connections to it."""

    def __init__(self, name: str, pid: int, port: int, load: Load, connections: int) -> None:
        self.name = name
        self._pid = pid
        self._request = (
            b"POST / HTTP/1.1\r\nHost: %s:%d\r\nUser-Agent: benchmark\r\nAccept: */*\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        ) % (HOST.encode(), port, len(load.body), load.body)
        self._connections = [socket.create_connection((HOST, port), 30) for _ in range(connections)]
        self._answer_size = 0
        for connection in self._connections:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._answer_size = self._check(connection, load)
            connection.setblocking(False)

    def _check(self, connection: socket.socket, load: Load) -> int:
        """Send a request, check the response, and return its size."""
        connection.sendall(self._request)
        received = b""
        end = -1
        while end < 0 or len(received) < end:
            chunk = connection.recv(1 << 18)
            if not chunk:
                break
            received += chunk
            head, found, _ = received.partition(b"\r\n\r\n")
            if found and end < 0:
                [length] = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                end = len(head) + 4 + int(length.partition(b":")[2])
        if orjson.loads(received.partition(b"\r\n\r\n")[2]) != orjson.loads(load.answer):
            raise RuntimeError(f"{self.name} sends a wrong answer: {received[:300]!r}")
        return len(received)

    def run(self, requests: int) -> float:
        """Send requests, and return the processor time of the server for each of them."""
        request, size = self._request, self._answer_size
        missing = dict.fromkeys(self._connections, 0)
        unsent = dict.fromkeys(self._connections, b"")
        begun = ended = 0
        before = processor_seconds(self._pid)
        deadline = time.monotonic() + 120

        def begin(connection: socket.socket) -> None:
            nonlocal begun
            begun += 1
            missing[connection] = size
            unsent[connection] = request
            send(connection)

        def send(connection: socket.socket) -> None:
            with contextlib.suppress(BlockingIOError):
                rest = unsent[connection] = unsent[connection][connection.send(unsent[connection]) :]
                if not rest:
                    return
            selector.modify(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)

        with selectors.DefaultSelector() as selector:
            for connection in self._connections:
                selector.register(connection, selectors.EVENT_READ)
                begin(connection)
            while ended < requests:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self.name} did not answer")
                for key, events in selector.select(10):
                    connection = key.fileobj  # type: ignore[assignment]
                    if events & selectors.EVENT_WRITE:
                        selector.modify(connection, selectors.EVENT_READ)
                        send(connection)
                    if events & selectors.EVENT_READ:
                        chunk = connection.recv(1 << 18)
                        if not chunk:
                            raise ConnectionError(f"{self.name} closed a connection")
                        missing[connection] -= len(chunk)
                        if missing[connection] <= 0:
                            ended += 1
                            if begun < requests:
                                begin(connection)
        return (processor_seconds(self._pid) - before) / requests

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(program: str, name: str, load: Load, connections: int = 16) -> Iterator[Server]:
    """Run an application under a server, and check that it responds correctly."""
    app = f"benchmarks.http_servers:{FACTORIES[name]}"
    with started(program, app, ANSWER=load.answer.decode()) as (pid, port):
        server = Server(name, pid, port, load, connections)
        try:
            yield server
        finally:
            server.close()


@contextlib.contextmanager
def started(program: str, app: str, **environment: str) -> Iterator[tuple[int, int]]:
    """Run an ASGI server. Yields its process and its port, on which it accepts connections."""
    port = free_port()
    target = "--factory", "--host", HOST, "--port", str(port)
    command = [sys.executable, "-m", program, *OPTIONS[program].split(), *target, app]
    folder = Path(__file__).parents[1]
    with subprocess.Popen(command, cwd=folder, env={**os.environ, **environment}) as process:
        try:
            yield process.pid, await_port(process, port)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def await_port(process: subprocess.Popen[bytes], port: int) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
            return port
        time.sleep(0.05)
    raise RuntimeError("the server does not start")


def measure(
    program: str, load: Load, names: Sequence[str], rounds: int, requests: int, starts: int = 1
) -> dict[str, float]:
    """Return the best processor time of a request, in seconds, by application."""
    found = dict.fromkeys(names, float("inf"))
    for start in range(1, starts + 1):
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(running(program, name, load)) for name in names]
            for number in range(rounds + 1):
                shown = f"start {start} of {starts}, round {number} of {rounds}"
                print(f"\r{program}, {load.name}, {shown} ", end="", file=sys.stderr, flush=True)
                for server in servers:
                    seconds = server.run(requests)
                    if number:  # the first round warms up
                        found[server.name] = min(found[server.name], seconds)
    print(file=sys.stderr)
    return found


def rows_of(program: str, load: Load, found: dict[str, float]) -> tuple[list[tuple[str, ...]], str]:
    """Return the rows of a table, and a verdict."""
    ceiling, ours = found[RECEIVED], found[FAST]
    rows: list[tuple[str, ...]] = [("application", "server's µs a request", "of the ceiling", "more than jsonrpc_fast")]
    for name, seconds in sorted(found.items(), key=lambda item: item[1]):
        faster = f"{seconds / ours:.2f}x" if name in PEERS else ""
        rows.append((name, f"{seconds * 1e6:.1f}", f"{seconds / ceiling:.2f}", faster))
    verdicts = []
    peers = {name: found[name] for name in PEERS if name in found}
    if load.is_small:
        verdicts.append(_verdict(f"{ours / ceiling:.2f} of the ceiling", CEILING_BAR, ours / ceiling <= CEILING_BAR))
    if peers:
        best = min(peers, key=peers.__getitem__)
        ratio = peers[best] / ours
        verdicts.append(_verdict(f"{ratio:.2f} times less than {best}", PEERS_BAR, ratio >= PEERS_BAR))
    return rows, f"{program}, {load.name}: {FAST} needs " + "; ".join(verdicts)


def _verdict(text: str, bar: float, is_reached: bool) -> str:
    return f"{text} (the bar is {bar}: {'reached' if is_reached else '**MISSED**'})"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_http",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--starts", type=int, default=5, help="starts of the servers (default: 5)")
    parser.add_argument("--rounds", type=int, default=12, help="rounds after each start (default: 12)")
    parser.add_argument("--requests", type=int, default=500, help="small requests in one round (default: 500)")
    parser.add_argument("--programs", nargs="+", default=list(OPTIONS), choices=OPTIONS, help="default: all")
    arguments = parser.parse_args()
    if jsonrpc_fast.BACKEND != "cython":
        raise RuntimeError(f"the benchmarks measure the compiled core, which is not in use: {codec.CORE_FAULT}")
    for program in arguments.programs:
        for load in LOADS:
            requests = arguments.requests if load.is_small else arguments.requests // 4
            found = measure(program, load, list(FACTORIES), arguments.rounds, requests, arguments.starts)
            rows, verdict = rows_of(program, load, found)
            print(
                f"## {program}, {load.name}: {len(load.body):,} bytes\n\n{markdown(rows)}\n\n{verdict}.\n", flush=True
            )
    for name in (*OPTIONS, "uvloop", "pjrpc", "jsonrpcserver", "fastapi-jsonrpc", "starlette"):
        print(f"- {name}: {importlib.metadata.version(name)}")
    print(f"- {platform.python_implementation()}: {platform.python_version()}, {platform.system()}")


if __name__ == "__main__":
    main()
