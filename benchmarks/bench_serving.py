"""Compare the processor time of a served request with a bare asyncio protocol: `python -m benchmarks.bench_serving`.

Each server is a process of its own and echoes params on TCP. This process keeps 64 requests in flight on one
connection. The figure is the processor time of the server, as the system measures it. The servers of a loop take turns,
round by round, and the best round is reported. After some rounds all servers are restarted, because the memory layout
of a process changes its speed.
"""

from __future__ import annotations

import argparse
import contextlib
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

import orjson

import jsonrpc_fast

from .echo_servers import BARE, HOST, SESSION, SESSION_ASYNC, SESSION_WAITING
from .tables import markdown

LOOPS: Final = ("asyncio", "uvloop")
NAMES: Final = (BARE, SESSION, SESSION_ASYNC, SESSION_WAITING)
BARS: Final = {SESSION: 1.5, SESSION_ASYNC: 6.0}
"""The maximum processor time, as a multiple of the bare protocol's on the same loop."""

IN_FLIGHT: Final = 64
LINE: Final = b'{"jsonrpc":"2.0","id":12345,"method":"echo","params":{"name":"add","arguments":{"a":1,"b":2.5}}}\n'
RING: Final = 4096
LINES: Final = memoryview(
    b"".join([LINE.replace(b"12345", b"%d" % number) for number in range(10_000, 10_000 + RING + IN_FLIGHT)])
)
"""Requests with different ids. `IN_FLIGHT` are appended, so that a slice never wraps around."""

Seconds = dict[tuple[str, str], float]
"""Processor time of a request by loop and server."""


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


def measure(starts: int, rounds: int, requests: int) -> Seconds:
    if jsonrpc_fast.BACKEND != "cython":
        raise SystemExit("the benchmarks measure the compiled core, which is not in use")
    found: Seconds = {}
    for start in range(1, starts + 1):
        for loop in LOOPS:
            with contextlib.ExitStack() as stack:
                servers = [stack.enter_context(running(name, loop)) for name in NAMES]
                print(f"\r{loop}, start {start} of {starts} ", end="", file=sys.stderr, flush=True)
                for _ in range(rounds):
                    for server in servers:
                        before = server.processor_seconds()
                        server.time_requests(requests)
                        after = server.processor_seconds()
                        if before is None or after is None:
                            raise SystemExit("the processor time of another process is known on Linux only")
                        key = loop, server.name
                        found[key] = min(found.get(key, float("inf")), (after - before) / requests)
    print(file=sys.stderr)
    return found


def table(found: Seconds) -> str:
    """Return the figures as Markdown, and whether the bars are reached."""
    rows = [("loop", "server", "server's µs a request", "times the bare protocol", "bar", "reached")]
    for (loop, name), seconds in found.items():
        ratio = seconds / found[loop, BARE]
        bar = BARS.get(name)
        reached = "" if bar is None else "yes" if ratio <= bar else "**MISSED**"
        rows.append(
            (loop, name, f"{seconds * 1e6:.2f}", f"{ratio:.2f}", "" if bar is None else f"at most {bar:g}", reached)
        )
    return markdown(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_serving",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--starts", type=int, default=5, help="starts of the servers (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds after each start (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=4096, help="requests in one round (default: %(default)s)")
    arguments = parser.parse_args()
    found = measure(arguments.starts, arguments.rounds, arguments.requests)
    print(f"## Served requests on TCP, {IN_FLIGHT} requests of {len(LINE)} bytes in flight\n\n{table(found)}\n")
    for name in ("orjson", "uvloop"):
        print(f"- {name}: {version(name)}")
    print(f"- {platform.python_implementation()}: {platform.python_version()}, {platform.system()}")


if __name__ == "__main__":
    main()
