"""Compare the MCP server over Streamable HTTP with the MCP SDK's: `python -m benchmarks.bench_mcp_http`.

All servers run under uvicorn, each in a process of its own, with the same tools, and take turns in every round. One
load tool sends the same calls to all, over 1 or 32 connections with one call in flight on each. If the revision has
sessions, each connection has its own. An application that only reads and writes the JSON shows the maximum that is
possible with uvicorn and the load tool. The processor time of the server is read from /proc, so Linux is needed. The
best round is reported.

The memory of a session is the growth of the server's process while many sessions begin, divided by their number. It is
measured after their connections are closed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import platform
import re
import selectors
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

import jsonrpc_fast
from jsonrpc_fast import codec

from .bench_http import HOST, processor_seconds, started
from .mcp_http_servers import CEILING, FACTORIES, FAST, SDK_JSON, SDK_STATELESS_JSON, SDK_STATELESS_STREAM, SDK_STREAM
from .tables import markdown

SPEED_BAR: Final = 3.0
"""The minimum number of calls per second, as a multiple of the SDK's."""
IN_FLIGHT: Final = (1, 32)

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SESSION: Final = re.compile(rb"\r\nmcp-session-id: *([^\r]+)", re.IGNORECASE)
_INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": "initialize",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    },
}
_INITIALIZED: Final = {"jsonrpc": "2.0", "method": "notifications/initialized"}
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
}


@dataclass(frozen=True)
class Work:
    """A call to measure, and the servers that are compared."""

    name: str
    tool: str
    is_modern: bool
    servers: tuple[str, ...]


WORKS: Final = (
    Work(
        "a call, 2025-11-25",
        "greet",
        False,
        (FAST, CEILING, SDK_JSON, SDK_STREAM, SDK_STATELESS_JSON, SDK_STATELESS_STREAM),
    ),
    Work("a call, 2026-07-28", "greet", True, (FAST, CEILING, SDK_JSON, SDK_STREAM)),
    Work("a call that sends a log message, 2025-11-25", "greet_and_log", False, (FAST, SDK_STREAM)),
)


@dataclass
class Connection:
    """A connection with at most one request in flight."""

    socket: socket.socket
    request: bytes = b""
    received: bytearray = field(default_factory=bytearray)
    end: int = 0  # of the response; 0: not known yet, -1: it is in chunks

    def begin(self) -> None:
        self.received.clear()
        self.end = 0
        self.socket.sendall(self.request)

    def has_answer(self) -> bool:
        """Receive, and return whether the response is complete."""
        chunk = self.socket.recv(1 << 18)
        if not chunk:
            raise ConnectionError("the server closed a connection")
        self.received += chunk
        if not self.end:
            head = self.received.find(b"\r\n\r\n")
            if head < 0:
                return False
            length = _LENGTH.search(self.received, 0, head + 2)
            self.end = head + 4 + int(length[1]) if length else -1
        return self.received.endswith(b"\r\n0\r\n\r\n") if self.end < 0 else len(self.received) >= self.end

    def exchange(self, request: bytes) -> bytes:
        """Send a request, and return the whole response."""
        self.request = request
        self.begin()
        while not self.has_answer():
            pass
        return bytes(self.received)


class Server:
    """The process of a server."""

    def __init__(self, name: str, pid: int, port: int) -> None:
        self.name = name
        self.pid = pid
        self._port = port
        self._loads: dict[tuple[Work, int], list[Connection]] = {}

    def post(self, message: dict[str, Any], *headers: bytes) -> bytes:
        """Return the request with a message."""
        body = orjson.dumps(message)
        lines = [
            b"POST /mcp HTTP/1.1",
            b"Host: %s:%d" % (HOST.encode(), self._port),
            b"Accept: application/json, text/event-stream",
            b"Content-Type: application/json",
            b"Content-Length: %d" % len(body),
            *headers,
        ]
        return b"\r\n".join(lines) + b"\r\n\r\n" + body

    def connect(self) -> Connection:
        connection = socket.create_connection((HOST, self._port), 60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Connection(connection)

    def begin_session(self, connection: Connection) -> list[bytes]:
        """Begin a session, and return the headers of its requests."""
        version = b"MCP-Protocol-Version: 2025-11-25"
        found = _SESSION.search(connection.exchange(self.post(_INITIALIZE)))
        headers = [version, b"Mcp-Session-Id: " + found[1]] if found else [version]
        answer = connection.exchange(self.post(_INITIALIZED, *headers))
        if not answer.startswith(b"HTTP/1.1 202"):
            raise RuntimeError(f"{self.name} refuses a session: {answer[:300]!r}")
        return headers

    def connections(self, work: Work, count: int) -> list[Connection]:
        """Return connections, and check that each gets the right response."""
        if (work, count) not in self._loads:
            self._loads[work, count] = [self._prepare(work, number) for number in range(count)]
        return self._loads[work, count]

    def _prepare(self, work: Work, number: int) -> Connection:
        connection = self.connect()
        params: dict[str, Any] = {"name": work.tool, "arguments": {"text": "hello", "count": number}}
        if work.is_modern:
            version = b"MCP-Protocol-Version: 2026-07-28"
            headers = [version, b"Mcp-Method: tools/call", b"Mcp-Name: " + work.tool.encode()]
            params["_meta"] = _META
        else:
            headers = self.begin_session(connection)
        call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        answer = connection.exchange(self.post(call, *headers))
        if not answer.startswith(b"HTTP/1.1 200") or b'"text":"hello %d"' % number not in answer:
            raise RuntimeError(f"{self.name} sends a wrong answer: {answer!r}")
        if (work.tool != "greet") is not (b'"greeting"' in answer):
            raise RuntimeError(f"{self.name} sends a wrong answer: {answer!r}")
        return connection

    def run(self, work: Work, in_flight: int, calls: int) -> tuple[float, float]:
        """Make calls, and return the seconds and the server's processor time for each of them."""
        connections = self.connections(work, in_flight)
        begun = ended = 0
        with selectors.DefaultSelector() as selector:
            for connection in connections:
                selector.register(connection.socket, selectors.EVENT_READ, connection)
            before = processor_seconds(self.pid)
            started = time.perf_counter()
            for connection in connections:
                connection.begin()
                begun += 1
            while ended < calls:
                ready = selector.select(60)
                if not ready:
                    raise TimeoutError(f"{self.name} did not answer")
                for key, _ in ready:
                    connection = key.data
                    if connection.has_answer():
                        ended += 1
                        if begun < calls:
                            begun += 1
                            connection.begin()
            seconds = time.perf_counter() - started
        return seconds / calls, (processor_seconds(self.pid) - before) / calls

    def memory(self) -> int:
        """Return the memory of the process in bytes."""
        [size] = re.findall(r"^Private_Dirty: +(\d+) kB$", Path(f"/proc/{self.pid}/smaps_rollup").read_text(), re.M)
        return int(size) * 1024

    def session_bytes(self, sessions: int) -> float:
        """Return the memory of an idle session, measured with this number of sessions."""

        def begin(count: int) -> None:
            for _ in range(count):
                connection = self.connect()
                self.begin_session(connection)
                connection.socket.close()

        begin(100)
        before = self.memory()
        begin(sessions)
        return (self.memory() - before) / sessions

    def close(self) -> None:
        for connections in self._loads.values():
            for connection in connections:
                connection.socket.close()


@contextlib.contextmanager
def running(name: str) -> Iterator[Server]:
    """Run a server."""
    app = f"benchmarks.mcp_http_servers:{FACTORIES[name]}"
    with started("uvicorn", app, PYTHONWARNINGS="ignore") as (pid, port):
        server = Server(name, pid, port)
        try:
            yield server
        finally:
            server.close()


Figures = dict[tuple[Work, int, str], tuple[float, float]]
"""Seconds and processor time of a call, by work, calls in flight and server."""


def measure(works: Sequence[Work], rounds: int, calls: int) -> Figures:
    """Return the best figures of all rounds."""
    found: Figures = {}
    with contextlib.ExitStack() as stack:
        names = dict.fromkeys(name for work in works for name in work.servers)
        servers = {name: stack.enter_context(running(name)) for name in names}
        for number in range(rounds + 1):
            for work in works:
                print(f"\r{work.name}, round {number} of {rounds} ", end="", file=sys.stderr, flush=True)
                for in_flight in IN_FLIGHT:
                    for name in work.servers:
                        figures = servers[name].run(work, in_flight, calls)
                        if number:  # the first round warms up
                            key = work, in_flight, name
                            seconds, processor = found.get(key, figures)
                            found[key] = min(seconds, figures[0]), min(processor, figures[1])
    print(file=sys.stderr)
    return found


def measure_memory(sessions: int) -> dict[str, float]:
    """Return the bytes of an idle session, by server."""
    found = {}
    for name in (FAST, SDK_JSON, SDK_STREAM):
        with running(name) as server:
            found[name] = server.session_bytes(sessions)
    return found


def table(figures: Figures) -> str:
    """Return the figures as Markdown, and whether the bar is reached."""
    rows = [("call", "in flight", "server", "calls a second", "server's µs a call", "ours to it", "bar", "")]
    for (work, in_flight, name), (seconds, processor) in figures.items():
        ratio = seconds / figures[work, in_flight, FAST][0]
        has_bar = name not in (FAST, CEILING)
        rows.append(
            (
                work.name,
                str(in_flight),
                name,
                f"{1 / seconds:,.0f}",
                f"{processor * 1e6:.0f}",
                "" if name == FAST else f"{ratio:.2f}",
                f"{SPEED_BAR}" if has_bar else "",
                "" if not has_bar else "reached" if ratio >= SPEED_BAR else "**MISSED**",
            )
        )
    return markdown(rows)


def memory_table(found: dict[str, float]) -> str:
    rows = [("server", "bytes of an idle session", "")]
    for name, size in found.items():
        rows.append((name, f"{size:,.0f}", "" if name == FAST else "reached" if found[FAST] < size else "**MISSED**"))
    return markdown(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_mcp_http",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=15, help="rounds (default: 15)")
    parser.add_argument("--calls", type=int, default=300, help="calls in one round (default: 300)")
    parser.add_argument("--sessions", type=int, default=2000, help="idle sessions (default: 2000)")
    arguments = parser.parse_args()
    if jsonrpc_fast.BACKEND != "cython":
        raise RuntimeError(f"the benchmarks measure the compiled core, which is not in use: {codec.CORE_FAULT}")
    print(f"## Calls over Streamable HTTP\n\n{table(measure(WORKS, arguments.rounds, arguments.calls))}\n", flush=True)
    print(f"## Memory\n\n{memory_table(measure_memory(arguments.sessions))}\n")
    for name in ("mcp", "pydantic", "starlette", "uvicorn", "httptools", "uvloop"):
        print(f"- {name}: {importlib.metadata.version(name)}")
    print(f"- {platform.python_implementation()}: {platform.python_version()}, {platform.system()}")


if __name__ == "__main__":
    main()
