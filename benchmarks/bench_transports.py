"""Compare echo servers on TCP: `python -m benchmarks.bench_transports`.

Each server is a process. One connection keeps 64 requests in flight. This process only counts the line feeds that it
receives and sends that many new requests, so the server uses most of the time. The servers take turns, round by round,
and the best round is reported. After some rounds all servers are restarted, because the memory layout of a process
changes its speed.

The rate is what a client sees, and includes the work of both processes. The processor time of the server, which the
system measures, varies less.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import jsonrpc_fast
from jsonrpc_fast import codec

from .echo_servers import AIORPCX, BARE, FAST, HOST, JSONRPCSERVER, PJRPC, SERVERS
from .tables import markdown

IN_FLIGHT: Final = 64
LINE: Final = b'{"jsonrpc":"2.0","id":12345,"method":"echo","params":{"name":"add","arguments":{"a":1,"b":2.5}}}\n'
RING: Final = 4096
LINES: Final = memoryview(
    b"".join([LINE.replace(b"12345", b"%d" % number) for number in range(10_000, 10_000 + RING + IN_FLIGHT)])
)
"""Requests with different ids. `IN_FLIGHT` are appended, so that a slice never wraps around."""
BAR: Final = 0.85
"""The minimum rate, as a fraction of the bare protocol's."""


@dataclass
class Server:
    """The process of a server and a connection to it."""

    name: str
    process: subprocess.Popen[bytes]
    connection: socket.socket

    def time_requests(self, requests: int) -> float:
        """Send requests, and return the seconds until the last response."""
        connection = self.connection
        buffer = bytearray(256 * 1024)
        is_refused = False
        started = time.perf_counter()
        sent = received = 0
        while received < requests:
            more = min(IN_FLIGHT - (sent - received), requests - sent)
            if more:
                first = sent % RING
                connection.sendall(LINES[first * len(LINE) : (first + more) * len(LINE)])
                sent += more
            size = connection.recv_into(buffer)
            if not size:
                raise ConnectionError(f"{self.name} closed the connection")
            received += buffer.count(b"\n", 0, size)
            is_refused |= buffer.find(b'"error"', 0, size) >= 0
        seconds = time.perf_counter() - started
        if is_refused:
            raise RuntimeError(f"{self.name} refuses requests")
        return seconds

    def processor_seconds(self) -> float | None:
        """Return the processor time that the process has used, or None where the system is not Linux."""
        account = Path(f"/proc/{self.process.pid}/schedstat")
        return int(account.read_text().split()[0]) / 1e9 if account.exists() else None


@contextlib.contextmanager
def running(name: str, loop: str = "asyncio") -> Iterator[Server]:
    """Run a server, and check that it responds correctly."""
    command = [sys.executable, "-m", "benchmarks.echo_servers", name, loop]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]) as process:
        try:
            assert process.stdout is not None
            with socket.create_connection((HOST, int(process.stdout.readline())), timeout=30) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(LINE)
                response = orjson.loads(connection.recv(65536))
                request = orjson.loads(LINE)
                if response != {"jsonrpc": "2.0", "id": request["id"], "result": request["params"]}:
                    raise RuntimeError(f"{name} sends a wrong response")
                yield Server(name, process, connection)
        finally:
            process.kill()


@dataclass
class Figures:
    """The best of all rounds, in seconds per request."""

    wall: float = field(default=float("inf"))
    processor: float = field(default=float("inf"))


def measure(starts: int, rounds: int, requests: int) -> dict[str, Figures]:
    if jsonrpc_fast.BACKEND != "cython":
        raise RuntimeError(f"the benchmarks measure the compiled core, which is not in use: {codec.CORE_FAULT}")
    figures = {name: Figures() for name in SERVERS}
    for start in range(1, starts + 1):
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(running(name)) for name in SERVERS]
            for number in range(1, rounds + 1):
                print(f"\rstart {start} of {starts}, round {number} of {rounds} ", end="", file=sys.stderr, flush=True)
                for server in servers:
                    found = figures[server.name]
                    before = server.processor_seconds()
                    found.wall = min(found.wall, server.time_requests(requests) / requests)
                    after = server.processor_seconds()
                    if before is not None and after is not None:
                        found.processor = min(found.processor, (after - before) / requests)
    print(file=sys.stderr)
    return figures


def table(figures: dict[str, Figures]) -> str:
    """Return the figures as Markdown, and whether the bar is reached."""
    bare = figures[BARE]
    rows = [("server", "requests a second", "of the bare rate", "server's µs a request", "jsonrpc_fast is faster by")]
    for name, found in sorted(figures.items(), key=lambda item: item[1].wall):
        rows.append(
            (
                name,
                f"{1 / found.wall:,.0f}",
                f"{bare.wall / found.wall:.3f}",
                f"{found.processor * 1e6:.3f}" if found.processor < float("inf") else "",
                "" if name == FAST else f"{found.wall / figures[FAST].wall:.1f}x",
            )
        )
    ratio = bare.wall / figures[FAST].wall
    verdict = f"{FAST} reaches {ratio:.3f} of the bare rate; the bar is {BAR}: "
    verdict += "reached" if ratio >= BAR else "**MISSED**"
    if bare.processor < float("inf"):
        verdict += f". By the server's processor time it is {bare.processor / figures[FAST].processor:.3f}"
    return f"{markdown(rows)}\n\n{verdict}."


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(request.param) as found:
        yield found


@pytest.mark.benchmark(group="transports: 2,000 requests, 64 in flight", max_time=0.5)
def test_echo(benchmark: BenchmarkFixture, server: Server) -> None:
    benchmark(server.time_requests, 2000)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_transports",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--starts", type=int, default=5, help="starts of the servers (default: 5)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds after each start (default: 20)")
    parser.add_argument("--requests", type=int, default=4000, help="requests in one round (default: 4000)")
    arguments = parser.parse_args()
    figures = measure(arguments.starts, arguments.rounds, arguments.requests)
    print(f"## Echo on TCP, {IN_FLIGHT} requests of {len(LINE)} bytes in flight\n\n{table(figures)}\n")
    for name in ("orjson", PJRPC, AIORPCX, JSONRPCSERVER):
        print(f"- {name}: {importlib.metadata.version(name)}")
    print(f"- {platform.python_implementation()}: {platform.python_version()}, {platform.system()}")


if __name__ == "__main__":
    main()
