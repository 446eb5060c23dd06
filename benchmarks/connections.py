"""Count what a connection costs: `python -m benchmarks.connections` writes it into docs/performance.md.

`--fairness` measures polite clients beside floods, and writes them there, too; `--scale` prints what sessions by the
thousand cost. Both need a quiet machine. All else are counts, not times: they are the same on a busy machine. Each
figure comes from a server process of its own, whose clients are plain sockets in another process.

Rules:
  - Instructions: callgrind counts the server between two marks, over connections that open, call
    once and close.
  - Memory of an idle session: tracemalloc, after each has served one call. OpenSSL and the kernel's pages are not in
    it, so the resident memory stands beside it.
  - Garbage: the objects in cycles, and the bytes, that closed connections leave while the collector is off.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.mcp.server import Server
from tests.support import loops
from tests.support.certificates import contexts
from tests.support.mcp_http import Exchange, begin_session
from tests.support.processes import resident_bytes

from .pages import DOCS, HERE, markdown, write

HOST: Final = "127.0.0.1"
WARM_UP: Final = 50
"""Connections before anything is counted: the first ones fill caches."""
CHURNED: Final = 200
IDLE: Final = 200
CLOSED: Final = 100

Address = tuple[str, int] | str
Counts = dict[str, float]
"""Figures by name, of one server."""

_CLIENT: Final = """
import base64, os, socket, ssl, sys
kind, host, port, churned, held = sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:6])
TEXT = b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}'
MASKED = bytes([0x81, 0x80 | len(TEXT)]) + b"abcd" + bytes(byte ^ b"abcd"[at % 4] for at, byte in enumerate(TEXT))
context = ssl._create_unverified_context()

def connect():
    if kind == "unix":
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(host)
    else:
        peer = socket.create_connection((host, int(port)))
    if kind in ("tls", "wss"):
        peer = context.wrap_socket(peer)
    if kind in ("websocket", "wss"):
        key = base64.b64encode(os.urandom(16))
        peer.sendall(
            b"GET / HTTP/1.1\\r\\nHost: x\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
            b"Sec-WebSocket-Key: " + key + b"\\r\\nSec-WebSocket-Version: 13\\r\\n\\r\\n"
        )
        assert peer.recv(4000).startswith(b"HTTP/1.1 101")
        peer.sendall(MASKED)
    else:
        peer.sendall(TEXT + b"\\n")
    assert b'"result"' in peer.recv(1000)
    return peer

def close(peer):
    if kind in ("websocket", "wss"):
        peer.sendall(b"\\x88\\x82abcd" + bytes([0x03 ^ 97, 0xE8 ^ 98]))
    if kind == "tls":
        peer = peer.unwrap()
    peer.close()

for line in sys.stdin:
    many = int(line)
    held_now = []
    for _ in range(many):
        peer = connect()
        if held:
            held_now.append(peer)
        else:
            close(peer)
    globals().setdefault("kept", []).append(held_now)
    print("done", flush=True)
"""

_POLITE: Final = """
import select, socket, sys, time
host, port, many, seconds, pause = sys.argv[1], *map(float, sys.argv[2:6])
TEXT = b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}\\n'
peers = {peer.fileno(): peer for peer in [socket.create_connection((host, int(port))) for _ in range(int(many))]}
began, taken, poll = {}, [], select.epoll()
for number in peers:
    poll.register(number, select.EPOLLIN)
def send(number):
    began[number] = time.perf_counter()
    peers[number].sendall(TEXT)
end = time.monotonic() + seconds
if pause == 0:  # one call in flight over each connection
    for number in peers:
        send(number)
while time.monotonic() < end:
    for number in [*peers] if pause else [number for number, _ in poll.poll(1)]:
        if pause:
            send(number)
        assert peers[number].recv(200).endswith(b"}\\n")
        taken.append(time.perf_counter() - began[number])
        if pause:
            time.sleep(pause)
        else:
            send(number)
taken.sort()
print(taken[len(taken) // 2], taken[len(taken) * 99 // 100], len(taken) / seconds)
"""
"""A client of many connections: it prints p50 and p99 in seconds, and the calls in a second."""

_FLOODER: Final = """
import socket, sys, threading, time
peer = socket.create_connection((sys.argv[1], int(float(sys.argv[2]))))
TEXT = b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}\\n' * 2000
responses = 0
def read():
    global responses
    while data := peer.recv(1 << 16, socket.MSG_WAITALL):
        responses += data.count(b"\\n")
threading.Thread(target=read, daemon=True).start()
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    peer.sendall(TEXT)
print(responses / float(sys.argv[3]))
"""


def _add(a: int, b: int) -> int:
    return a + b


async def ours(kind: str, folder: str) -> Address:
    from jsonrpc_fast.session import serving
    from jsonrpc_fast.transports import TcpServer, UnixServer
    from jsonrpc_fast.transports.websocket import WebSocketServer

    serve: Any = serving({"add": _add})
    context = contexts()[0] if kind in ("tls", "wss") else None
    server: Any
    if kind == "unix":
        server = UnixServer(serve, f"{folder}/socket", max_connections=10_000)
        await server.start()
        return f"{folder}/socket"
    make: Any = WebSocketServer if kind in ("websocket", "wss") else TcpServer
    server = make(serve, HOST, 0, ssl=context, max_connections=10_000)
    await server.start()
    _servers.append(server)
    return tuple(server.address[:2])


async def ours_with_a_dict(kind: str, folder: str) -> Address:
    """Serve with a session whose handlers are given as a dict, for each connection."""
    from jsonrpc_fast.session import Session
    from jsonrpc_fast.transports import TcpServer

    async def serve(transport: Any) -> None:
        async with Session(transport, {"add": _add}) as session:
            await session.wait_closed()

    server = TcpServer(serve, HOST, 0, max_connections=10_000)
    await server.start()
    _servers.append(server)
    return tuple(server.address[:2])


async def streams(kind: str, folder: str) -> Address:
    """Serve with asyncio's streams and orjson, without any checks."""
    import orjson

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            message = orjson.loads(line)
            response = {"jsonrpc": "2.0", "id": message["id"], "result": sum(message["params"])}
            writer.write(orjson.dumps(response) + b"\n")
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    _servers.append(server)
    return tuple(server.sockets[0].getsockname()[:2])


async def aiorpcx(kind: str, folder: str) -> Address:
    import aiorpcx as library  # type: ignore[import-untyped]

    class Session(library.RPCSession):  # type: ignore[misc]
        async def handle_request(self, request: Any) -> Any:
            return await library.handler_invocation(_add_async, request)()

    server = await library.serve_rs(Session, HOST, 0)
    _servers.append(server)
    return tuple(server.sockets[0].getsockname()[:2])


async def _add_async(a: int, b: int) -> int:
    return a + b


_servers: list[Any] = []  # kept alive

SERVERS: Final[dict[str, Callable[[str, str], Awaitable[Address]]]] = {
    "jsonrpc_fast": ours,
    "jsonrpc_fast, a dict for each": ours_with_a_dict,
    "asyncio streams": streams,
    "aiorpcX": aiorpcx,
}

# MCP over HTTP has no sockets here: the application is called directly.


class McpSessions:
    """Sessions of MCP over HTTP, opened and ended by direct calls of the application."""

    def __init__(self) -> None:
        self._app = McpEndpoint(Server("w", "1"), max_sessions=10_000)

    async def open(self) -> bytes:
        return await begin_session(self._app)

    async def close(self, session: bytes) -> None:
        """End a session, as a client does with DELETE."""
        ended, *_ = await Exchange(self._app, session=session, method="DELETE").events()
        assert ended["status"] in (200, 204), ended


# The server process.


class Peers:
    """The clients of a server: a process of plain sockets, or the callers of an application."""

    def __init__(self, name: str, kind: str, folder: str, holds: bool) -> None:
        self._name = name
        self._kind = kind
        self._folder = folder
        self._holds = holds

    async def start(self) -> None:
        if self._kind == "mcp":
            self._sessions = McpSessions()
            self._kept: list[Any] = []
            return
        self.address = address = await SERVERS[self._name](self._kind, self._folder)
        host, port = (address, 0) if isinstance(address, str) else address
        command = (sys.executable, "-S", "-c", _CLIENT, self._kind, host, str(port), "0", str(int(self._holds)))
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)

    async def connect(self, many: int) -> None:
        """Open connections one after another, call once over each, and close them unless they are to be held."""
        if self._kind == "mcp":
            for _ in range(many):
                headers = await self._sessions.open()
                if not self._holds:
                    await self._sessions.close(headers)
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"%d\n" % many)
        if await self._process.stdout.readline() != b"done\n":
            raise RuntimeError("a client failed")
        await asyncio.sleep(0.3)  # the server sees the last end

    async def release(self) -> None:
        """Close the connections that are held; those that follow are not held."""
        self._process.terminate()
        await self._process.wait()
        self._holds = False
        await self.start()


async def _churn(peers: Peers) -> Counts:
    os.getppid()
    await peers.connect(CHURNED)
    os.getppid()
    return {}


async def _hold(peers: Peers) -> Counts:
    gc.collect()
    resident = resident_bytes()
    await peers.connect(IDLE)
    resident = resident_bytes() - resident
    gc.collect()
    tracemalloc.start()
    await peers.connect(IDLE)
    gc.collect()
    traced, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"kib": traced / IDLE / 1024, "resident_kib": resident / IDLE / 1024}


async def _close(peers: Peers) -> Counts:
    gc.collect()
    gc.disable()
    tracemalloc.start()
    await peers.connect(CLOSED)
    traced, _ = tracemalloc.get_traced_memory()
    found = gc.collect()
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"objects": found / CLOSED, "kib": (traced - left) / CLOSED / 1024}


async def _stay(peers: Peers) -> Counts:
    print(json.dumps(peers.address), flush=True)
    await asyncio.Event().wait()
    return {}


async def _scale(peers: Peers) -> Counts:
    """Return the latencies of 200 busy sessions alone and beside 5,000 idle ones, and the memory that is in use."""
    counts: Counts = {}

    def note(when: str) -> None:
        gc.collect()
        counts[f"{when}: resident MiB"] = resident_bytes() / 2**20
        counts[f"{when}: objects"] = len(gc.get_objects())

    for when, idle, seconds in (("alone", 0, 15), ("beside 5,000", 5000, 60)):
        await peers.connect(idle)
        note(f"idle {when}")
        p50, p99, rate = await asyncio.to_thread(_measured, _POLITE, peers.address, 200, seconds, 0)
        counts |= {f"busy {when}: p50 ms": p50 * 1e3, f"p99 ms {when}": p99 * 1e3, f"calls in a second {when}": rate}
    await peers.release()
    note("idle ones closed")
    for closed in (5000, 10_000):
        await peers.connect(5000)
        note(f"{closed:,} opened and closed")
    return counts


MODES: Final[dict[str, Callable[[Peers], Awaitable[Counts]]]] = {
    "churn": _churn,
    "hold": _hold,
    "close": _close,
    "stay": _stay,
    "scale": _scale,
}


async def _serve(name: str, kind: str, mode: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        peers = Peers(name, kind, folder, mode in ("hold", "scale"))
        await peers.start()
        await peers.connect(WARM_UP)
        if mode == "stay":
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the clients have the last processor
        print(json.dumps(await MODES[mode](peers)), flush=True)
    os._exit(0)  # the connections that are held would take time to close


# The measuring process.


def count(mode: str, name: str = "jsonrpc_fast", kind: str = "tcp") -> Counts:
    """Return the figures of a server: of memory with the mode "hold", of garbage with "close"."""
    command = (sys.executable, "-m", "benchmarks.connections", "--serve", name, kind, mode)
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run(command, cwd=HERE.parent, env=environment, check=True, stdout=subprocess.PIPE, timeout=500)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def instructions(name: str) -> float | None:
    """Return the instructions of one connection over TCP in the server; None if valgrind is not installed.

    Callgrind writes a dump at each call of the C function `getppid`: the second one counts what is between the marks.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        output = f"{folder}/calls"
        options = ("--tool=callgrind", f"--callgrind-out-file={output}", "--dump-before=getppid")
        environment = {**os.environ, "PYTHONHASHSEED": "1"}
        serve = ("-m", "benchmarks.connections", "--serve", name, "tcp", "churn")
        run = (valgrind, "-q", *options, sys.executable, *serve)
        subprocess.run(run, cwd=HERE.parent, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=3600)
        total = re.search(r"^totals: (\d+)", Path(f"{output}.2").read_text(), re.MULTILINE)
    assert total is not None
    return int(total[1]) / CHURNED


KINDS: Final = {
    "tcp": "TCP",
    "unix": "Unix socket",
    "websocket": "WebSocket",
    "tls": "TLS",
    "wss": "WebSocket over TLS",
    "mcp": "MCP over HTTP, without the HTTP server",
}


def table() -> str:
    """Measure everything, and return the table."""
    rows: list[tuple[str, ...]] = [
        ("connection", "instructions, 1000", "of streams", "idle KiB", "resident KiB", "objects left", "KiB left")
    ]
    contestants = [("asyncio streams", "tcp"), ("aiorpcX", "tcp"), ("jsonrpc_fast, a dict for each", "tcp")]
    contestants += [("jsonrpc_fast", kind) for kind in KINDS]
    base: float | None = None
    for name, kind in contestants:
        total = instructions(name) if kind == "tcp" else None
        base = base or total
        cells = [f"{name}, {KINDS[kind]}", "", ""]
        if total is not None and base is not None:
            cells[1:] = [f"{total / 1000:,.0f}", f"{total / base:.2f}"]
        held, closed = count("hold", name, kind), count("close", name, kind)
        cells += [f"{held['kib']:.1f}", f"{held['resident_kib']:.1f}", f"{closed['objects']:.0f}"]
        rows.append((*cells, f"{closed['kib']:.1f}"))
    return markdown(rows)


def _started(program: str, *arguments: object) -> subprocess.Popen[bytes]:
    last = str(max(os.sched_getaffinity(0)))
    command = ("taskset", "-c", last, sys.executable, "-S", "-c", program, *map(str, arguments))
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _printed(process: subprocess.Popen[bytes]) -> list[float]:
    output, _ = process.communicate(timeout=100)
    return [float(word) for word in output.split()] if process.returncode == 0 else []


def _measured(program: str, address: Any, *arguments: object) -> list[float]:
    return _printed(_started(program, *address, *arguments))


FLOODED: Final = (("asyncio streams", "asyncio"), ("asyncio streams", "uvloop"), ("aiorpcX", "asyncio"))
FLOODERS: Final = (0, 1, 10)


def fairness(rounds: int) -> str:
    """Measure 50 polite clients beside floods: all servers in turn, and the median of the rounds."""
    servers = {}
    for name, loop in (*FLOODED, ("jsonrpc_fast", "asyncio"), ("jsonrpc_fast", "uvloop")):
        command = (sys.executable, "-m", "benchmarks.connections", "--loop", loop, "--serve", name, "tcp", "stay")
        process = subprocess.Popen(command, cwd=HERE.parent, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        servers[f"{name}, {loop}"] = process, json.loads(process.stdout.readline())
    found: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for _ in range(rounds):
        for name, (_, address) in servers.items():
            for many in FLOODERS:
                floods = [_started(_FLOODER, *address, 2.5) for _ in range(many)]
                time.sleep(0.5)
                p50, p99, _ = _measured(_POLITE, address, 50, 1.5, 0.002)
                total = sum(sum(_printed(flood)) for flood in floods)
                found.setdefault((name, many), []).append((p50, p99, total))
    for process, _ in servers.values():
        process.terminate()
    rows: list[tuple[str, ...]] = [
        ("server", "polite p50, µs", "beside 1, p50 (p99)", "beside 10", "of 1 flooder, in a second", "of 10")
    ]
    for name in servers:
        alone, one, ten = ([median(column) for column in zip(*found[name, many], strict=True)] for many in FLOODERS)
        ratios = [f"{beside[0] / alone[0]:.1f} ({beside[1] / alone[1]:.1f})" for beside in (one, ten)]
        rows.append((name, f"{alone[0] * 1e6:.0f}", *ratios, f"{one[2]:,.0f}", f"{ten[2]:,.0f}"))
    return markdown(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", nargs=3, metavar=("NAME", "KIND", "MODE"), help=argparse.SUPPRESS)
    parser.add_argument("--loop", default="asyncio", help=argparse.SUPPRESS)
    parser.add_argument("--fairness", type=int, metavar="ROUNDS", help="measure polite clients beside floods")
    parser.add_argument("--scale", action="store_true", help="measure 5,000 idle, 200 busy and 10,000 short sessions")
    options = parser.parse_args()
    if options.serve:
        with loops.running_on(options.loop):
            asyncio.run(_serve(*options.serve))
    elif options.fairness:
        write({"fairness": fairness(options.fairness)}, DOCS / "performance.md")
    elif options.scale:
        for name, figure in count("scale").items():
            print(f"{name:40} {figure:,.2f}")
    else:
        write({"connections": table()}, DOCS / "performance.md")


if __name__ == "__main__":
    main()
