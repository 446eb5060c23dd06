"""End, stop and disturb whole processes at each phase of a conversation, and see that everything ends and says why.

    python -m tests.isolated.rough_ends --only websocket

Each server is another process on the loopback interface. Its stderr is on a full disk, and in both processes the wall
clock jumps by years at each look. A tap, in front of some of them, has its log and its recording on a disk that becomes
full (Linux, where `unshare` may mount one). Each case has a time limit. In every case

- a call settles with its own result, or with an exception that says why;
- a process that gets SIGTERM ends by it, soon after its grace period, whatever its peers do or leave undone;
- a side that was stopped goes on, and a heartbeat notices it meanwhile;
- a tap passes on every message, says that it logs and records no more, and leaves whole lines of the first messages.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import re
import signal
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from jsonrpc_fast.errors import CallTimeout, ConnectionLost, RpcError
from jsonrpc_fast.mcp import connect
from jsonrpc_fast.mcp.http import McpEndpoint, run_http
from jsonrpc_fast.mcp.server import Server
from jsonrpc_fast.session import Session, serving
from jsonrpc_fast.testing.recordings import read_recording
from jsonrpc_fast.transports import StdioClient, TcpClient, TcpServer, UnixClient, UnixServer, run_stdio
from jsonrpc_fast.transports.websocket import WebSocketClient, WebSocketServer

from ..support.certificates import contexts_of, write_certificates
from ..support.places import ROOT
from ..support.waiting import accepts, accepts_at, free_port

KINDS: Final = ("tcp", "tls", "unix", "websocket", "wss", "stdio", "mcp")
FULL: Final = Path("/dev/full")
SMALL_DISK: Final = 'mount -t tmpfs -o size=64k tmpfs "$0" && exec "$@"'
"""Mounts a disk at a folder, for one command and whoever opens it through the command's `/proc`."""
SECONDS: Final = 30.0
"""How long a case may take on a busy machine, the start of its process not counted."""

Call = Callable[..., Awaitable[Any]]


def handlers() -> dict[str, Callable[..., Any]]:
    naps = []

    async def nap(value: float) -> float:
        naps.append(value)
        await asyncio.sleep(value)
        return value

    def fail(value: str) -> None:
        raise RuntimeError(value)

    def running(value: int) -> int:
        return len(naps)

    def large(value: int) -> str:
        return "x" * value

    return {function.__name__: function for function in (nap, fail, running, large)}


class Far:
    """The far end: a server in another process (or in this one), and the ways to reach it."""

    def __init__(self, kind: str, folder: Path, place: str = "") -> None:
        self.kind = kind
        self.folder = folder
        self.place = place or (str(folder / "socket") if kind == "unix" else str(free_port()))
        self.is_web = kind in ("websocket", "wss")
        self.tls = contexts_of(folder) if kind in ("tls", "wss") else (None, None)
        self.process: Any = None
        self.link: Any = None
        self.before: list[str] = []  # a command that runs that of the server
        self.stderr: IO[bytes] = FULL.open("wb")

    def server(self, **options: Any) -> Any:
        if self.kind == "unix":
            return UnixServer(serving(handlers(), **options), self.place)
        made = WebSocketServer if self.is_web else TcpServer
        return made(serving(handlers(), **options), "127.0.0.1", int(self.place), ssl=self.tls[0])

    def run(self) -> int:
        if self.kind == "stdio":
            return run_stdio(serving(handlers()), grace_seconds=1)
        if self.kind == "mcp":
            server = Server("rough", "1")
            for function in handlers().values():
                server.tool(function)
            return run_http(McpEndpoint(server), port=int(self.place), grace_seconds=1)
        return int(self.server().run(grace_seconds=1))

    def command(self, role: str) -> list[str]:
        own = [sys.executable, "-m", __spec__.name, role, self.kind, "--at", str(self.folder), self.place]
        return [*self.before, *own]

    async def start(self) -> None:
        if self.kind == "stdio":
            await self.connect().start()
            await asyncio.sleep(1)  # until it handles signals
            return
        await self.run_process(self.command("--serve"))

    async def run_process(self, command: list[str]) -> None:
        self.process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stderr=self.stderr)
        while not (accepts_at(Path(self.place)) if self.kind == "unix" else accepts(int(self.place))):
            assert self.process.returncode is None, f"the server ended with {self.process.returncode}"
            await asyncio.sleep(0.02)

    def connect(self) -> Any:
        if self.kind == "unix":
            self.link = UnixClient(self.place)
        elif self.kind == "stdio":
            self.link = self.process = StdioClient(
                self.command("--serve"), cwd=ROOT, stderr=self.stderr, exit_seconds=5
            )
        elif self.is_web:
            scheme = "wss" if self.tls[1] else "ws"
            self.link = WebSocketClient(f"{scheme}://localhost:{self.place}/", ssl=self.tls[1])
        else:
            self.link = TcpClient("localhost", int(self.place), ssl=self.tls[1])
        return self.link

    @contextlib.asynccontextmanager
    async def calling(self, **options: Any) -> AsyncIterator[Call]:
        """Connect, and yield a function that calls a method with one value."""
        if self.kind == "mcp":
            async with connect(f"http://127.0.0.1:{self.place}/mcp", timeout=SECONDS) as client:

                async def call(method: str, value: Any, **how: Any) -> Any:
                    result = await client.call_tool(method, {"value": value}, **how)
                    if result.get("isError"):
                        raise RpcError(-32603, result["content"][0]["text"])
                    return result["structuredContent"]["result"]

                yield call
        else:
            async with Session(self.connect(), timeout=SECONDS, close_seconds=1, **options) as session:
                yield (
                    lambda method, value, **how: (
                        session.call_batch(value) if method == "" else session.call(method, [value], **how)
                    )
                )

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    async def status(self) -> int | None:
        while self.process.returncode is None:
            await asyncio.sleep(0.01)
        return int(self.process.returncode)


async def settled(call: Awaitable[Any]) -> str:
    """Return how a call settles, as a text."""
    try:
        return f"result {await call}"
    except (ConnectionLost, CallTimeout, RpcError) as error:
        if not str(error):
            raise  # it says nothing
        return f"{type(error).__name__}: {error}"


# What happens to a far end. Each ends it by SIGTERM, and returns how a call settled.


async def terminated_before_the_first_connection(far: Far) -> str:
    far.send(signal.SIGTERM)
    return ""


async def terminated_when_idle(far: Far) -> str:
    """What has a duration took that long before, although the wall clock jumps; a handler that fails is heard of."""
    async with far.calling() as call:
        started = time.monotonic()
        assert await call("nap", 0.3) == 0.3
        assert (await settled(call("nap", 0.6, timeout=0.3))).startswith("CallTimeout")
        assert time.monotonic() - started >= 0.6
        assert (await settled(call("fail", "its own fault"))).startswith("RpcError")
        assert await call("running", 1) == 2
        far.send(signal.SIGTERM)
        await far.status()
        return await settled(call("running", 2))


async def terminated_during_calls(far: Far) -> str:
    async with far.calling() as call:
        calls = [asyncio.ensure_future(settled(call("nap", value))) for value in (0.3, 1000)]
        if far.kind != "mcp":  # has no batches
            calls.append(asyncio.ensure_future(settled(call("", [("running", [1]), ("nap", [1000])]))))
        while await call("running", 0) < len(calls):
            await asyncio.sleep(0.01)
        far.send(signal.SIGTERM)
        short, *long = await asyncio.gather(*calls)
    assert short == "result 0.3", short
    assert all(each.startswith(("ConnectionLost", "RpcError", "result [0, ConnectionLost")) for each in long), long
    return long[0]


async def terminated_while_the_client_does_not_read(far: Far) -> str:
    async with far.calling() as call:
        assert await call("running", 1) == 0
        waiting = asyncio.ensure_future(settled(call("large", 15_000_000)))
        await asyncio.sleep(0)
        far.link.pause_reading()
        await asyncio.sleep(0.5)
        far.send(signal.SIGTERM)
        await far.status()
        far.link.resume_reading()
        return await waiting


async def terminated_after_half_a_handshake(far: Far) -> str:
    """Or half a message, where there is no handshake."""
    data = b"GET / HTTP/1.1\r\nHost:" if far.kind in ("websocket", "mcp") else b'{"jsonrpc":"2.0","id":1,"me'
    if far.tls[1] is not None:
        written = ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            far.tls[1].wrap_bio(ssl.MemoryBIO(), written, server_hostname="localhost").do_handshake()
        data = written.read()[:100]
    with socket.socket(socket.AF_UNIX if far.kind == "unix" else socket.AF_INET) as client:
        client.connect(far.place if far.kind == "unix" else ("127.0.0.1", int(far.place)))
        client.sendall(data)
        await asyncio.sleep(0.2)
        far.send(signal.SIGTERM)
        await far.status()
    return ""


async def stopped_and_continued(far: Far) -> str:
    async with far.calling() as call:
        assert await call("running", 1) == 0
        far.send(signal.SIGSTOP)
        late = await settled(call("running", 2, timeout=0.5))
        assert late.startswith("CallTimeout"), late
        far.send(signal.SIGCONT)
        assert await call("running", 3) == 0
        far.send(signal.SIGTERM)
        return late


async def stopped_for_a_heartbeat(far: Far) -> str:
    async with far.calling(heartbeat_seconds=1) as call:
        assert await call("nap", 2.2) == 2.2  # a busy peer answers
        far.send(signal.SIGSTOP)
        lost = await settled(call("running", 2))
        assert lost.startswith("ConnectionLost"), lost
        far.send(signal.SIGCONT)
        far.send(signal.SIGTERM)
    return lost


CASES: Final = {
    terminated_before_the_first_connection: KINDS,
    terminated_when_idle: KINDS,
    terminated_during_calls: KINDS,
    terminated_while_the_client_does_not_read: KINDS[:-1],
    terminated_after_half_a_handshake: (*KINDS[:-2], "mcp"),
    stopped_and_continued: KINDS,
    stopped_for_a_heartbeat: KINDS[:-1],
}


async def served(case: Callable[[Far], Awaitable[str]], kind: str, folder: Path) -> str:
    far = Far(kind, folder)
    await far.start()
    try:
        async with asyncio.timeout(SECONDS):
            said = await case(far)
            status = await far.status()
        assert status == -signal.SIGTERM, f"exit status {status}; {said}"
        return said
    finally:
        with contextlib.suppress(ProcessLookupError):
            far.send(signal.SIGKILL)


async def stopped_client(kind: str, folder: Path) -> str:
    """The server's heartbeat ends the connection of a client that is stopped, which learns of it when it goes on."""
    far = Far(kind, folder)
    server = far.server(heartbeat_seconds=0.5)
    await server.start()
    pipe = asyncio.subprocess.PIPE
    far.process = await asyncio.create_subprocess_exec(*far.command("--call"), cwd=ROOT, stdout=pipe)
    assert await far.process.stdout.readline() == b"0\n"
    far.send(signal.SIGSTOP)
    while server.connections:
        await asyncio.sleep(0.01)
    far.send(signal.SIGCONT)
    said, _ = await far.process.communicate()
    await server.close()
    assert said.startswith(b"ConnectionLost: "), said
    return str(said.decode().strip())


async def call_until_lost(far: Far) -> None:
    async with far.calling() as call:
        print(await call("running", 0), flush=True)
        while (said := await settled(call("running", 0))) == "result 0":
            await asyncio.sleep(0.01)
        print(said)


async def tap_on_a_full_disk(kind: str, folder: Path) -> str:
    """Where stderr is full, too, nobody can be told; everything else is the same."""
    told = await tap_until_full(kind, folder, folder / "said")
    return f"{told}; {await tap_until_full(kind, folder, FULL)}"


async def tap_until_full(kind: str, folder: Path, stderr: Path) -> str:
    disk = folder / "disk"
    disk.mkdir(exist_ok=True)
    far, near = Far(kind, folder), Far(kind, folder)
    tap = ["unshare", "--map-root-user", "--mount", "sh", "-c", SMALL_DISK, str(disk), sys.executable, "-m"]
    tap += ["jsonrpc_fast", "tap", "--payloads", "--log", str(disk / "log"), "--record", str(disk / "record")]
    try:
        with stderr.open("wb") as near.stderr:
            if kind == "stdio":
                near.before = [*tap, "--"]
            else:
                await far.start()
                option, scheme = ("--http", "http") if kind == "mcp" else ("--listen", "tcp")
                path = "/mcp" if kind == "mcp" else ""
                target = f"{scheme}://127.0.0.1:{far.place}{path}"
                await near.run_process([*tap, option, f"127.0.0.1:{near.place}", target])
            async with asyncio.timeout(SECONDS):
                async with near.calling() as call:
                    for size in range(1000, 1100):
                        assert await call("large", size) == "x" * size
                        if size == 1000:
                            files = os.open(f"/proc/{near.process.pid}/root{disk}", os.O_RDONLY)
                            with open("other", "wb", opener=partial(os.open, dir_fd=files)) as other:
                                other.write(bytes(16_000))
                        elif size == 1080:  # there is room again, but a recording must not have a gap
                            os.unlink("other", dir_fd=files)
                    near.send(signal.SIGTERM)
                    status = await near.status()
        assert status in (-signal.SIGTERM, 128 + signal.SIGTERM), f"exit status {status}"
        with open("log", "rb", opener=partial(os.open, dir_fd=files)) as log:
            assert log.read().endswith(b"\n")
        with open("record", "rb", opener=partial(os.open, dir_fd=files)) as record:
            texts = [bytes(each.message or b"") for each in read_recording(record) if each.sender == "client"]
        os.close(files)
        sizes = [int(size) for size in re.findall(rb'(?:"params":\[|"value":)(\d{4})\b', b"\n".join(texts))]
        assert sizes == [*range(1000, 1000 + len(sizes))], sizes
        assert 5 < len(sizes) < 100, sizes
        if stderr is not FULL:
            said = stderr.read_text()
            assert "no more messages are logged: No space left on device" in said, said
            assert "no more messages are recorded: No space left on device" in said, said
            assert "Traceback" not in said, said
        return f"100 calls, {len(sizes)} recorded"
    finally:
        for each in (near, far):
            if each.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    each.send(signal.SIGKILL)


async def run(kinds: list[str], folder: Path) -> int:
    runs = [(f"{kind} {case.__name__}", partial(served, case, kind)) for case in CASES for kind in CASES[case]]
    runs += [(f"{kind} stopped_client", partial(stopped_client, kind)) for kind in KINDS[:-2]]
    runs += [(f"tap of_{kind}_on_a_full_disk", partial(tap_on_a_full_disk, kind)) for kind in ("stdio", "tcp", "mcp")]
    runs = [(name, start) for name, start in runs if name.partition(" ")[0] in kinds]
    wrong = 0
    for name, start in runs:
        begun = time.monotonic()
        try:
            async with asyncio.timeout(3 * SECONDS):
                said = await start(folder)
        except (Exception, asyncio.CancelledError) as error:
            wrong += 1
            said = f"WRONG: {error!r}"
        print(f"{name:55} {time.monotonic() - begun:4.1f} s  {said[:200]}", flush=True)
    print(f"{len(runs)} cases, {wrong} wrong")
    return int(wrong > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=(*KINDS, "tap"), action="append", help="only this kind")
    for name, count in (("--serve", None), ("--call", None), ("--at", 2)):
        parser.add_argument(name, nargs=count, help=argparse.SUPPRESS)
    options = parser.parse_args()
    wall, chance = time.time, random.Random(7)
    time.time = lambda: wall() + chance.uniform(-3e8, 3e8)
    if options.at:
        far = Far(options.serve or options.call, Path(options.at[0]), options.at[1])
        return far.run() if options.serve else int(bool(asyncio.run(call_until_lost(far))))
    with tempfile.TemporaryDirectory() as name:
        write_certificates(Path(name))
        return asyncio.run(run(options.only or [*KINDS, "tap"], Path(name)))


if __name__ == "__main__":
    sys.exit(main())
