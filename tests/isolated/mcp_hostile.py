"""Hostile clients of an MCP server over HTTP: nothing hangs or leaks, or is served to another session.

    python -m tests.isolated.mcp_hostile

The server runs under uvicorn in a process of its own. Each attack runs against it while a well-behaved client makes
calls. After it the numbers of descriptors and the memory of the process must return to about what they were.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson

from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.mcp.server import Context, Server

from ..support.http_process import HOST, descriptors
from ..support.places import PACKAGE
from ..support.processes import resident_bytes
from ..support.waiting import free_port
from .mcp_resumption import Cut, Response, begin_session, exchange, message_of

SECONDS: Final = 60.0
KIB: Final = 1024


def make_app() -> Any:
    """Return the application that is attacked. Its bounds are small, so that the attacks are short."""
    server = Server("hostile", "1.0")

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def flood(count: int, context: Context) -> str:
        """Send large log messages."""
        for _ in range(count):
            context.log("error", "x" * 10_000)
            await asyncio.sleep(0)
        return "sent"

    return McpEndpoint(
        server,
        allowed_hosts=["example.org"],
        body_seconds=2.0,
        write_seconds=2.0,
        max_requests=20_000,
        max_sessions=11_000,
        keep_alive_seconds=15.0,
    )


class Target:
    """The process under attack."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port

    @property
    def memory(self) -> int:
        return resident_bytes(self.process.pid)

    @property
    def descriptors(self) -> int:
        return descriptors(self.process.pid)


def call(tool: str, id: int = 1, **arguments: Any) -> bytes:
    return message_of(id, "tools/call", {"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}})


async def open_raw(target: Target, data: bytes) -> asyncio.StreamWriter:
    """Send bytes on a connection, and read nothing from it."""
    reader, writer = await asyncio.open_connection(HOST, target.port)
    reader._transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(data)
    return writer


def head(method: str, headers: dict[str, str], length: int | None = None) -> bytes:
    fields = {"Host": "example.org", "Accept": "application/json, text/event-stream", **headers}
    if length is not None:
        fields |= {"Content-Type": "application/json", "Content-Length": str(length)}
    return "\r\n".join([f"{method} /mcp HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items()), "", ""]).encode()


async def close_all(writers: list[asyncio.StreamWriter]) -> None:
    for writer in writers:
        writer.transport.abort()
    await asyncio.sleep(0)


async def in_groups(count: int, work: Callable[[int], Awaitable[Any]], size: int = 50) -> list[Any]:
    """Run something many times, some at a time."""
    found = []
    for begin in range(0, count, size):
        found += await asyncio.gather(*(work(number) for number in range(begin, min(count, begin + size))))
    return found


# The attacks. Each takes the target and a number.


async def slow_bodies(target: Target, count: int) -> str:
    """Bodies that never end get the status 408."""
    writers = [await open_raw(target, head("POST", {}, 1000) + b'{"jsonrpc"') for _ in range(count)]
    reader, writer = await asyncio.open_connection(HOST, target.port)
    writer.write(head("POST", {}, 1000) + b"{")
    answer = await asyncio.wait_for(reader.read(), SECONDS)
    assert answer.startswith(b"HTTP/1.1 408"), answer[:100]
    await close_all([*writers, writer])
    return f"{count} bodies that never end: 408"


async def half_open_streams(target: Target, count: int) -> str:
    """One stream per session, whose client neither reads nor sends."""
    sessions: list[dict[str, str]] = []

    async def attack(_: int) -> asyncio.StreamWriter:
        headers = await begin_session(target.port)
        sessions.append(headers)
        return await open_raw(target, head("GET", headers))

    before = target.descriptors
    writers = await in_groups(count, attack)
    headers = await begin_session(target.port)
    response = await exchange(target.port, "POST", headers, call("add", a=1, b=2), None)
    assert response.status == 200, response.status
    highest = target.descriptors - before
    assert highest >= count, highest
    await close_all(writers)
    await end_sessions(target, sessions)
    return f"{count} half-open streams: {highest} descriptors, a call was answered meanwhile"


async def end_sessions(target: Target, sessions: list[dict[str, str]]) -> None:
    async def end(number: int) -> int:
        return (await exchange(target.port, "DELETE", sessions[number], b"", None)).status

    assert set(await in_groups(len(sessions), end)) <= {200}


async def endless_headers(target: Target, count: int) -> str:
    """Connections that send only a part of the head."""

    async def attack(_: int) -> asyncio.StreamWriter:
        return await open_raw(target, b"POST /mcp HTTP/1.1\r\nHost: example.org\r\nX: ")

    writers = await in_groups(count, attack)
    response = await begin_session(target.port)
    assert response
    await close_all(writers)
    return f"{count} unfinished heads: sessions began meanwhile"


async def guessed_sessions(target: Target, count: int) -> str:
    """Ids that are guessed, changed or shortened find nothing."""
    headers = await begin_session(target.port)
    id = headers["Mcp-Session-Id"]
    guesses = [id[:-1], id + "x", id.swapcase(), id[::-1], "", "/", ".", "a." + id, "*", "x" * 5000, "%00"]

    async def attack(number: int) -> int:
        guess = guesses[number % len(guesses)] if number < 5 * len(guesses) else os.urandom(24).hex()
        method = ("POST", "GET", "DELETE")[number % 3]
        changed = {**headers, "Mcp-Session-Id": guess}
        body = call("add", a=1, b=2) if method == "POST" else b""
        return (await exchange(target.port, method, changed, body, None)).status

    statuses = set(await in_groups(count, attack))
    assert statuses <= {400, 404}, statuses
    assert (await exchange(target.port, "POST", headers, call("add", a=1, b=2), None)).status == 200
    return f"{count} guessed ids: {sorted(statuses)}"


async def replayed_events(target: Target, count: int) -> str:
    """Event ids of other sessions, forged ones, and those of a session that was deleted."""
    victim = await begin_session(target.port)
    response = await exchange(target.port, "POST", victim, call("flood", count=2), None)
    ids = [event.id for event in response.events]
    assert len(ids) == 4, ids
    attacker = await begin_session(target.port)
    own = await exchange(target.port, "POST", attacker, call("flood", count=2), None)
    stream, _, _ = own.events[0].id.rpartition("-")
    forged = [*ids, f"{stream}-0", f"{stream}-99", f"{stream}-", "-1", "1", f"{stream}/1-1", f"{stream}-01", "x" * 7000]

    async def attack(number: int) -> tuple[int, bytes]:
        sent = {**attacker, "Last-Event-ID": forged[number % len(forged)]}
        response = await exchange(target.port, "GET", sent, b"", None)
        return response.status, response.body

    for status, body in await in_groups(count, attack):
        assert (status, b"xxx" in body) == (410, False), (status, body[:100])
    mixed = {**attacker, "Mcp-Session-Id": victim["Mcp-Session-Id"], "Last-Event-ID": own.events[0].id}
    assert (await exchange(target.port, "GET", mixed, b"", None)).status == 410
    assert (await exchange(target.port, "GET", {**victim, "Last-Event-ID": ids[0]}, b"", None)).status == 200
    assert (await exchange(target.port, "DELETE", victim, b"", None)).status == 200
    assert (await exchange(target.port, "GET", {**victim, "Last-Event-ID": ids[0]}, b"", None)).status == 404
    return f"{count} event ids of others and forged: 410"


async def session_floods(target: Target, count: int) -> str:
    """Sessions beyond the maximum are refused; those in use stay."""
    mine = await begin_session(target.port)
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x" * 1000, "version": "1"}}

    async def attack(_: int) -> int:
        return (await exchange(target.port, "POST", {}, message_of(0, "initialize", params), None)).status

    statuses = await in_groups(count, attack)
    assert set(statuses) <= {200, 503}, set(statuses)
    response = await exchange(target.port, "POST", mine, call("add", a=1, b=2), None)
    assert response.status in (200, 404), response.status
    return f"{count} sessions begun: {statuses.count(503)} refused"


async def unread_streams(target: Target, count: int) -> str:
    """Clients that never read their stream, while the functions keep sending."""
    body = call("flood", count=2000)
    before = target.memory

    sessions: list[dict[str, str]] = []

    async def attack(_: int) -> asyncio.StreamWriter:
        headers = await begin_session(target.port)
        sessions.append(headers)
        return await open_raw(target, head("POST", headers, len(body)) + body)

    writers = await in_groups(count, attack)
    end = time.monotonic() + min(15, count)
    highest = 0
    while time.monotonic() < end:
        highest = max(highest, target.memory)
        await asyncio.sleep(0.2)
    headers = await begin_session(target.port)
    assert (await exchange(target.port, "POST", headers, call("add", a=1, b=2), None)).status == 200
    await close_all(writers)
    await end_sessions(target, sessions)
    assert highest - before < 512 * KIB * KIB, highest - before
    return f"{count} streams of 20 MB that nobody reads: at most {(highest - before) // KIB // KIB} MB more"


ATTACKS: Final[dict[Callable[[Target, int], Awaitable[str]], tuple[int, int]]] = {
    slow_bodies: (1000, 50),
    endless_headers: (1000, 100),
    half_open_streams: (10_000, 300),
    guessed_sessions: (2000, 100),
    replayed_events: (1200, 60),
    unread_streams: (50, 4),
    session_floods: (13_000, 100),
}
"""The attacks, with the number of connections in a whole run and in a short one."""


async def attack(target: Target, work: Callable[[Target, int], Awaitable[str]], count: int) -> str:
    """Run one attack while a well-behaved client makes calls, and wait until the descriptors are closed."""
    before, memory = target.descriptors, target.memory
    headers = await begin_session(target.port)
    slowest = 0.0
    is_over = False

    async def behave() -> None:
        nonlocal slowest, headers
        while not is_over:
            begin = time.monotonic()
            response: Response = await exchange(target.port, "POST", headers, call("add", a=1, b=2), None)
            if response.status == 200:
                assert orjson.loads(response.body)["result"]["structuredContent"] == {"result": 3}
            else:  # the flood of sessions may end one that was idle
                assert response.status in (404, 503), response.status
            slowest = max(slowest, time.monotonic() - begin)
            await asyncio.sleep(0.05)

    client = asyncio.ensure_future(behave())
    try:
        text = await asyncio.wait_for(work(target, count), 4 * SECONDS)
    finally:
        is_over = True
        await client
    end = time.monotonic() + SECONDS
    while target.descriptors > before + 5:
        assert time.monotonic() < end, (target.descriptors, before)
        await asyncio.sleep(0.05)
    grown = (target.memory - memory) / KIB / KIB
    return f"{text}; slowest call of another client {slowest:.2f} s; descriptors back, memory {grown:+.1f} MB"


def start() -> Target:
    """Run the server."""
    port = free_port()
    app = "tests.isolated.mcp_hostile:make_app"
    arguments = ["--factory", "--host", HOST, "--port", str(port), "--no-access-log", "--log-level", "critical"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    process = subprocess.Popen([sys.executable, "-m", "uvicorn", app, *arguments], env=environment)
    return Target(process, port)


async def run(*, is_short: bool) -> list[str]:
    """Run all attacks, and return what happened."""
    target = start()
    try:
        end = time.monotonic() + SECONDS
        while True:
            try:
                await begin_session(target.port)
                break
            except (OSError, Cut):
                assert time.monotonic() < end
                await asyncio.sleep(0.1)
        results = []
        for work, counts in ATTACKS.items():
            results.append(await attack(target, work, counts[is_short]))
            if not is_short:
                print(results[-1], flush=True)
        assert target.process.poll() is None
        return results
    finally:
        target.process.terminate()
        target.process.wait(60)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
    asyncio.run(run(is_short=False))


if __name__ == "__main__":
    main()
