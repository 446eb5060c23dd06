"""Attack a server in another process, and measure how it serves a good client meanwhile.

    python -m tests.isolated.hostile_clients --kind tcp|websocket|asgi --idle 10000 [--loop uvloop|debug|eager]

`asgi` is a WebSocket endpoint under uvicorn, which has its own bounds: no more connections than its maximum are tried.

One after another, while the good client calls all the time:

    idle      many connections that send nothing (for WebSocket: after their handshake)
    refused   a flood of connections beyond the maximum
    slow      clients that send their messages a byte at a time, and clients that do not read their responses
    flood     clients that send requests without a pause and do not read
    large     clients that send the beginning of large messages

It prints the median and the worst time of a call of the good client in each phase, the server's processor time for a
refused connection, and its memory for an idle one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from statistics import median
from typing import Any

from jsonrpc_fast import encode_request
from jsonrpc_fast.profile import JSONRPC
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import TcpClient

from ..support import loops
from ..support.processes import resident_bytes

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
MAX_BUFFERED_BYTES = 64 * 1024 * 1024
PHASE_SECONDS = 3.0
LIMIT_SECONDS = 60.0
"""How long a phase may wait on a slow machine."""


def serve(kind: str, loop: str, max_connections: int) -> None:
    """Run the server; its port goes to stdout."""
    raise_file_limit()

    async def run() -> None:
        async def session(transport: Any) -> None:
            session = Session(transport, {"echo": lambda *values: values})
            await session.start()
            await session.wait_closed()

        if kind == "asgi":
            await serve_asgi(session)
        options: dict[str, Any] = {"max_connections": max_connections, "max_buffered_bytes": MAX_BUFFERED_BYTES}
        server: Any
        if kind == "tcp":
            from jsonrpc_fast.transports import TcpServer

            server = TcpServer(session, "127.0.0.1", 0, **options)
        else:
            from jsonrpc_fast.transports.websocket import WebSocketServer

            server = WebSocketServer(session, "127.0.0.1", 0, **options)
        await server.start()
        print(server.address[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        print(json.dumps({"refused": server.admission.refused, "dropped": server.admission.dropped}), flush=True)
        os._exit(0)

    with loops.running_on(loop):
        asyncio.run(run())


async def serve_asgi(session: Any) -> None:
    """Run uvicorn until stdin ends."""
    import uvicorn

    from jsonrpc_fast.transports.asgi import WebSocketEndpoint

    config = uvicorn.Config(WebSocketEndpoint(session), port=0, ws="websockets", lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        assert not serving.done()
        await asyncio.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(json.dumps({"refused": 0, "dropped": 0}), flush=True)
    os._exit(0)


def raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Target:
    """The server's process."""

    def __init__(self, kind: str, loop: str, max_connections: int) -> None:
        self.kind = kind
        self.has_dropped = asyncio.Event()  # a connection that sent a large message
        command = [sys.executable, "-m", __spec__.name, "--serve", "--kind", kind, "--loop", loop]
        self.process = subprocess.Popen(
            [*command, "--max-connections", str(max_connections)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def stop(self) -> dict[str, int]:
        """End the server and return its counts."""
        output, _ = self.process.communicate(timeout=30)
        counts: dict[str, int] = json.loads(output)
        return counts

    def processor_seconds(self) -> float:
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def client(self) -> Any:
        if self.kind == "tcp":
            return TcpClient("127.0.0.1", self.port)
        from jsonrpc_fast.transports.websocket import WebSocketClient

        return WebSocketClient(f"ws://127.0.0.1:{self.port}")

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=4096)
        if self.kind != "tcp":
            writer.write(HANDSHAKE)
            await reader.readuntil(b"\r\n\r\n")
        return reader, writer

    def frame(self, text: bytes, length: int | None = None) -> bytes:
        """Return a message as the peer writes it; `length` is the length that the frame claims."""
        if self.kind == "tcp":
            return text
        return b"\x81\xff" + (len(text) if length is None else length).to_bytes(8, "big") + bytes(4) + text


async def connect_many(target: Target, count: int) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    found: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    while len(found) < count:
        found += await asyncio.gather(*[target.connect() for _ in range(min(100, count - len(found)))])
    return found


async def refuse(target: Target, over: asyncio.Event) -> None:
    is_first = True
    while is_first or not over.is_set():
        is_first = False
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
            try:
                await reader.read()
            finally:
                writer.close()


async def send_slowly(target: Target, over: asyncio.Event) -> None:
    message = target.frame(encode_request(1, "echo", [1]))
    with contextlib.suppress(OSError):
        _, writer = await target.connect()
        while not over.is_set():
            for at in range(len(message)):
                writer.write(message[at : at + 1])
                await asyncio.sleep(0.02)
                if over.is_set():
                    break
        writer.close()


async def flood(target: Target, over: asyncio.Event) -> None:
    messages = target.frame(encode_request(1, "echo", ["x" * 100])) * 200
    with contextlib.suppress(OSError, asyncio.TimeoutError):
        _, writer = await target.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        try:
            while not over.is_set():
                writer.write(messages)
                await asyncio.wait_for(writer.drain(), PHASE_SECONDS)
                await asyncio.sleep(0)
        finally:
            writer.transport.abort()


async def send_large(target: Target, over: asyncio.Event) -> None:
    size = JSONRPC.limits.message_bytes // 4 * 3  # less than the size for which a WebSocket is closed at once
    reader, writer = await target.connect()
    closed = asyncio.ensure_future(reader.read())
    closed.add_done_callback(lambda _: target.has_dropped.set())
    with contextlib.suppress(OSError, RuntimeError):  # uvloop raises this for a connection that the server has closed
        writer.write(target.frame(b'{"jsonrpc":"2.0","method":"echo","params":["', size))
        for _ in range(size // (1024 * 1024) - 1):
            writer.write(b"x" * (1024 * 1024))
            await asyncio.wait_for(writer.drain(), LIMIT_SECONDS)
        await over.wait()
    writer.transport.abort()
    await asyncio.gather(closed, return_exceptions=True)


async def measure(session: Any, over: asyncio.Event) -> list[float]:
    """Call until it is over, and return the seconds of each call."""
    found = []
    while not over.is_set() or not found:
        before = time.perf_counter()
        assert await session.call("echo", [1], timeout=30) == [1]
        found.append(time.perf_counter() - before)
        await asyncio.sleep(0.002)
    return found


@contextlib.asynccontextmanager
async def phase(session: Any, report: dict[str, Any], name: str) -> AsyncIterator[asyncio.Event]:
    over = asyncio.Event()
    measuring = asyncio.ensure_future(measure(session, over))
    try:
        yield over
    finally:
        over.set()
        times = await measuring
        report[name] = {"calls": len(times), "median_ms": median(times) * 1e3, "worst_ms": max(times) * 1e3}


async def attack(kind: str, loop: str, idle: int, seconds: float = PHASE_SECONDS, clients: int = 20) -> dict[str, Any]:
    """Run all phases and return the figures."""
    raise_file_limit()
    target = Target(kind, loop, max_connections=idle + 1)
    report: dict[str, Any] = {}
    try:
        async with Session(target.client()) as session:
            async with phase(session, report, "alone"):
                await asyncio.sleep(seconds)
            memory = resident_bytes(target.process.pid)
            async with phase(session, report, "idle"):
                connections = await connect_many(target, idle)
                report["memory_of_an_idle_connection"] = (resident_bytes(target.process.pid) - memory) / idle
                await asyncio.sleep(seconds)
            before = target.processor_seconds()
            if kind != "asgi":
                async with phase(session, report, "at_limit") as over:
                    floods = [asyncio.ensure_future(refuse(target, over)) for _ in range(clients)]
                    await asyncio.sleep(seconds)
                await asyncio.gather(*floods)
            spent = target.processor_seconds() - before
            for _, writer in connections:
                writer.transport.abort()
            await asyncio.sleep(1)
            for name, hostile in (("slow", send_slowly), ("flood", flood), ("large", send_large)):
                async with phase(session, report, name) as over:
                    attacks = [asyncio.ensure_future(hostile(target, over)) for _ in range(clients)]
                    await asyncio.sleep(seconds)
                    if hostile is send_large:  # together they send more than the server keeps
                        await asyncio.wait_for(target.has_dropped.wait(), LIMIT_SECONDS)
                    report[name + "_memory"] = resident_bytes(target.process.pid)
                await asyncio.gather(*attacks)
    finally:
        report |= target.stop()
    report["refused_microseconds"] = spent / max(report["refused"], 1) * 1e6
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=["tcp", "websocket", "asgi"], default="tcp")
    parser.add_argument("--loop", choices=loops.LOOPS, default="asyncio")
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--max-connections", type=int, default=1000, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.kind, options.loop, options.max_connections)
        return
    for name, value in asyncio.run(attack(options.kind, options.loop, options.idle)).items():
        shown = {key: round(number, 2) for key, number in value.items()} if isinstance(value, dict) else round(value)
        print(f"{name}: {shown}")


if __name__ == "__main__":
    main()
