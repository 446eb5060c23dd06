"""Compare the adapter with the MCP SDK's own stdio transport: `python -m benchmarks.bench_mcp`.

Both run under the same servers of the SDK, each in a process of its own. This process writes tools/call lines to the
pipe, keeps 1 or 32 calls in flight, and only counts the line feeds that it receives. The two servers take turns, round
by round, are restarted several times, and the best round of each is reported.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import jsonrpc_fast
from jsonrpc_fast import codec

from .mcp_servers import TEXT
from .tables import markdown

SDK: Final = "sdk"
FAST: Final = "fast"
BARS: Final = {("session", 32): 4.0, ("session", 1): 1.5, ("echo", 32): None, ("echo", 1): None}
"""The minimum speed-up over the SDK's own transport, by the server's work and the number of calls in flight."""

INITIALIZE: Final = (
    b'{"jsonrpc":"2.0","id":"initialize","method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"benchmark","version":"1"}}}\n'
)
INITIALIZED: Final = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
CALL: Final = (
    b'{"method":"tools/call","params":{"name":"greet","arguments":{"text":"hello","count":3}},'
    b'"jsonrpc":"2.0","id":%d}\n'
)


class Server:
    """The process of a server and the pipes to it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input = process.stdin.fileno()
        self._output = process.stdout.fileno()
        self._next_id = 1

    def exchange(self, data: bytes) -> bytes:
        """Write a line and read one."""
        os.write(self._input, data)
        line = b""
        while not line.endswith(b"\n"):
            line += self._read()
        return line

    def time_calls(self, calls: int, in_flight: int) -> float:
        """Make calls, and return the seconds until the last response."""
        lines = [CALL % number for number in range(self._next_id, self._next_id + calls)]
        self._next_id += calls
        started = time.perf_counter()
        sent = received = 0
        while received < calls:
            more = min(in_flight - (sent - received), calls - sent)
            if more:
                os.write(self._input, b"".join(lines[sent : sent + more]))
                sent += more
            received += self._read().count(b"\n")
        return time.perf_counter() - started

    def _read(self) -> bytes:
        data = os.read(self._output, 1024 * 1024)
        if not data:
            raise ConnectionError("the server exited")
        return data


@contextlib.contextmanager
def running(work: str, transport: str) -> Iterator[Server]:
    """Run a server, and check that it responds correctly."""
    command = [sys.executable, "-m", "benchmarks.mcp_servers", work, transport]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], **pipes) as process:  # type: ignore[call-overload]
        try:
            server = Server(process)
            if work == "session":
                server.exchange(INITIALIZE)
                os.write(process.stdin.fileno(), INITIALIZED)
            response = orjson.loads(server.exchange(CALL % 0))
            if response["id"] != 0 or response["result"]["content"] != [{"type": "text", "text": TEXT}]:
                raise RuntimeError(f"{work} over {transport} sends a wrong response")
            yield server
        finally:
            process.kill()


def measure(starts: int, rounds: int, calls: int) -> dict[tuple[str, int], dict[str, float]]:
    """Return the best seconds per call, by the server's work, the calls in flight and the transport."""
    if jsonrpc_fast.BACKEND != "cython":
        raise RuntimeError(f"the benchmarks measure the compiled core, which is not in use: {codec.CORE_FAULT}")
    best = {case: dict.fromkeys((SDK, FAST), float("inf")) for case in BARS}
    for start in range(1, starts + 1):
        for work in ("session", "echo"):
            with contextlib.ExitStack() as stack:
                servers = {name: stack.enter_context(running(work, name)) for name in (SDK, FAST)}
                for number in range(1, rounds + 1):
                    progress = f"start {start} of {starts}, {work}, round {number} of {rounds}"
                    print(f"\r{progress}   ", end="", file=sys.stderr, flush=True)
                    for in_flight in (1, 32):
                        for name, server in servers.items():
                            seconds = server.time_calls(calls, in_flight) / calls
                            found = best[work, in_flight]
                            found[name] = min(found[name], seconds)
    print(file=sys.stderr)
    return best


def table(best: dict[tuple[str, int], dict[str, float]]) -> str:
    """Return the figures as Markdown, and whether the bars are reached."""
    rows = [("server", "in flight", "SDK's transport, calls a second", "the adapter's", "speed-up", "bar", "")]
    for (work, in_flight), bar in BARS.items():
        found = best[work, in_flight]
        ratio = found[SDK] / found[FAST]
        rows.append(
            (
                "the SDK's, one tool" if work == "session" else "echo on the streams",
                str(in_flight),
                f"{1 / found[SDK]:,.0f}",
                f"{1 / found[FAST]:,.0f}",
                f"{ratio:.2f}",
                "" if bar is None else f"{bar}",
                "" if bar is None else "reached" if ratio >= bar else "**MISSED**",
            )
        )
    return markdown(rows)


@pytest.fixture(scope="module", params=[(work, name) for work in ("session", "echo") for name in (SDK, FAST)], ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(*request.param) as found:
        yield found


@pytest.mark.parametrize("in_flight", [1, 32])
@pytest.mark.benchmark(group="mcp: 200 calls over stdio", max_time=0.5)
def test_calls(benchmark: BenchmarkFixture, server: Server, in_flight: int) -> None:
    benchmark(server.time_calls, 200, in_flight)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_mcp", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=3, help="starts of the servers (default: 3)")
    parser.add_argument("--rounds", type=int, default=6, help="rounds after each start (default: 6)")
    parser.add_argument("--calls", type=int, default=2000, help="calls in one round (default: 2000)")
    arguments = parser.parse_args()
    print(f"## Calls over stdio\n\n{table(measure(arguments.starts, arguments.rounds, arguments.calls))}\n")
    for name in ("mcp", "pydantic", "orjson"):
        print(f"- {name}: {importlib.metadata.version(name)}")
    print(f"- {platform.python_implementation()}: {platform.python_version()}, {platform.system()}")


if __name__ == "__main__":
    main()
