"""Echo servers on TCP, each in a process of its own, asked by this one: `python -m benchmarks.bench_transports`.

One connection keeps 64 requests in flight. This process does nothing but count the line breaks that come back and send
as many requests more, so that the server is what takes the time. The servers take turns, round by round, and the best
round counts. Some rounds later all are started anew, for where a process's memory happens to lie makes a difference of
its own.

The rate is what a client sees. It has the work of both processes in it, while the processor time of the server alone,
as the system accounts for it, is the steadier figure of the two.
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
BAR: Final = 0.85
"""The least that the rate may be of that of the bare protocol."""


@dataclass
class Server:
    """A server's process, and a connection to it."""

    name: str
    process: subprocess.Popen[bytes]
    connection: socket.socket

    def ask(self, requests: int) -> float:
        """Makes that many requests. Returns the seconds until the last answer."""
        connection = self.connection
        block = LINE * IN_FLIGHT
        buffer = bytearray(256 * 1024)
        started = time.perf_counter()
        sent = min(IN_FLIGHT, requests)
        connection.sendall(block[: sent * len(LINE)])
        received = 0
        while received < requests:
            size = connection.recv_into(buffer)
            if not size:
                raise ConnectionError(f"{self.name} has closed the connection")
            answered = buffer.count(b"\n", 0, size)
            received += answered
            more = min(answered, requests - sent)
            if more:
                connection.sendall(block[: more * len(LINE)])
                sent += more
        return time.perf_counter() - started

    def processor_seconds(self) -> float | None:
        """What its process has used of a processor, by the system's own account (Linux)."""
        account = Path(f"/proc/{self.process.pid}/schedstat")
        return int(account.read_text().split()[0]) / 1e9 if account.exists() else None


@contextlib.contextmanager
def running(name: str) -> Iterator[Server]:
    """A server that was shown to give the right answer."""
    command = [sys.executable, "-m", "benchmarks.echo_servers", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]) as process:
        try:
            assert process.stdout is not None
            with socket.create_connection((HOST, int(process.stdout.readline())), timeout=30) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(LINE)
                answer = orjson.loads(connection.recv(65536))
                request = orjson.loads(LINE)
                if answer != {"jsonrpc": "2.0", "id": request["id"], "result": request["params"]}:
                    raise RuntimeError(f"{name} gives another answer")
                yield Server(name, process, connection)
        finally:
            process.kill()


@dataclass
class Figures:
    """The best of all rounds, in seconds for one request."""

    wall: float = field(default=float("inf"))
    processor: float = field(default=float("inf"))


def measure(starts: int, rounds: int, requests: int) -> dict[str, Figures]:
    if jsonrpc_fast.BACKEND != "cython":
        raise RuntimeError(f"the benchmarks are of the compiled core, which is not in use: {codec.CORE_FAULT}")
    figures = {name: Figures() for name in SERVERS}
    for start in range(1, starts + 1):
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(running(name)) for name in SERVERS]
            for number in range(1, rounds + 1):
                print(f"\rstart {start} of {starts}, round {number} of {rounds} ", end="", file=sys.stderr, flush=True)
                for server in servers:
                    found = figures[server.name]
                    before = server.processor_seconds()
                    found.wall = min(found.wall, server.ask(requests) / requests)
                    after = server.processor_seconds()
                    if before is not None and after is not None:
                        found.processor = min(found.processor, (after - before) / requests)
    print(file=sys.stderr)
    return figures


def table(figures: dict[str, Figures]) -> str:
    """The figures in Markdown, and whether the bar is reached."""
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
    benchmark(server.ask, 2000)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_transports",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--starts", type=int, default=5, help="how often all servers are started anew (5)")
    parser.add_argument("--rounds", type=int, default=20, help="how often each is asked after a start (20)")
    parser.add_argument("--requests", type=int, default=4000, help="in one round (4000)")
    arguments = parser.parse_args()
    figures = measure(arguments.starts, arguments.rounds, arguments.requests)
    print(f"## Echo on TCP, {IN_FLIGHT} requests of {len(LINE)} bytes in flight\n\n{table(figures)}\n")
    for name in ("orjson", PJRPC, AIORPCX, JSONRPCSERVER):
        print(f"- {name}: {importlib.metadata.version(name)}")
    print(f"- {platform.python_implementation()}: {platform.python_version()}, {platform.system()}")


if __name__ == "__main__":
    main()
