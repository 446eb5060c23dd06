"""Streams of MCP that are cut at random places and resumed, with two workers behind nginx and Redis.

    python -m tests.isolated.mcp_resumption --streams 1000

Each stream is a call that reports progress. Its connection is cut after a random number of bytes, by the client or, in
pauses, by nginx. The client resumes after the last event that it got completely, at either worker, and cuts again. In
the end it must have received every message once and in order.

Then as many streams each while Redis is in trouble:

killed       it is killed with SIGKILL, again and again, and started without its data, at once or later
frozen       it stands still, for up to four seconds
flushed      it loses its data
kept         it is killed again, and has its data when it starts (`appendonly`)

Then a stream is followed to its end, or the attempt to resume it gets 410 (events are lost; 404 from a worker that does
not have the session) or 503 (Redis does not respond). What came before has no gap and is in order. Nothing hangs.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import random
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson

from jsonrpc_fast.framing.sse import Event, EventDecoder

from ..support.http_process import HOST
from ..support.mcp_workers import Workers, mcp_workers
from ..support.redis_server import RedisServer

READ_TIMEOUT = "500ms"  # of nginx, less than some pauses of the function
SECONDS = 120.0
TROUBLES: Final = ("killed", "frozen", "flushed", "kept")
LOST: Final = {404: "lost: 404", 410: "lost: 410", 503: "lost: 503"}
"""The refusals to resume a stream: events are lost, at a worker without or with the session; Redis does not respond."""
_CHUNK = re.compile(rb"([0-9a-f]+)\r\n", re.IGNORECASE)


class Cut(Exception):
    """The connection was closed before the end of the response."""


class Response:
    """The response to a raw request, as far as it came."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.events: list[Event] = []
        self.body = b""
        self.is_cut_by_peer = False


async def exchange(port: int, method: str, headers: dict[str, str], body: bytes, limit: int | None) -> Response:
    """Send a request and read the response, at most some bytes of it. Then the connection is cut."""
    reader, writer = await asyncio.open_connection(HOST, port)
    response = Response()
    try:
        fields = {"Host": "example.org", "Accept": "application/json, text/event-stream", **headers}
        if method == "POST":
            fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        lines = [f"{method} /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        received = b""
        while True:
            rest = 65536 if limit is None else limit - len(received)
            if rest <= 0:
                break
            data = await reader.read(min(rest, 65536))
            if not data:
                response.is_cut_by_peer = True
                break
            received += data
            if _read(response, received):
                return response
        _read(response, received)
        raise _cut(response)
    finally:
        writer.transport.abort()


def _cut(response: Response) -> Cut:
    return Cut(response)


def _read(response: Response, received: bytes) -> bool:
    """Fill in a response with what was received, and return whether it is complete."""
    head, found, rest = received.partition(b"\r\n\r\n")
    if not found:
        return False
    status, *fields = head.decode().split("\r\n")
    response.status = int(status.split()[1])
    response.headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    if "content-length" in response.headers:
        response.body = rest
        return len(rest) >= int(response.headers["content-length"])
    body, is_complete = b"", False
    while (chunk := _CHUNK.match(rest)) is not None:
        size = int(chunk[1], 16)
        data = rest[chunk.end() : chunk.end() + size]
        body += data
        if not size:
            is_complete = True
            break
        if len(data) < size:
            break
        rest = rest[chunk.end() + size + 2 :]
    response.body = body
    response.events = [event for event, _ in EventDecoder().read(body) if isinstance(event, Event)]
    return is_complete


def message_of(id: int, method: str, params: dict[str, Any]) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


async def begin_session(port: int) -> dict[str, str]:
    """Begin a session, and return the headers of its requests."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "client", "version": "1"}}
    response = await post(port, {}, message_of(0, "initialize", params))
    assert response.status == 200, response.status
    headers = {"Mcp-Session-Id": response.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
    notification = orjson.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    response = await post(port, headers, notification)
    assert response.status == 202, response.status
    return headers


async def post(port: int, headers: dict[str, str], body: bytes) -> Response:
    """Send a POST, again while the workers are starting or too slow for the timeout of nginx."""
    while True:
        response = await exchange(port, "POST", headers, body, None)
        if response.status not in (502, 504):
            return response
        await asyncio.sleep(0.1)


async def one_stream(
    workers: Workers, chance: random.Random, counts: collections.Counter[str], may_lose: bool = False
) -> None:
    """Make a call whose stream is cut several times, and check what comes."""
    headers = await begin_session(workers.port)
    to = chance.randrange(1, 12)
    seconds = chance.choice([0.0, 0.001, 0.01, 0.05, 0.6])
    if seconds > 0.5:
        to = min(to, 3)
    params = {"name": "count", "arguments": {"to": to, "seconds": seconds}, "_meta": {"progressToken": "p"}}
    got: list[Event] = []
    last = ""
    cuts = chance.randrange(1, 5)
    port, method, body = workers.port, "POST", message_of(1, "tools/call", params)
    sent = dict(headers)
    while True:
        limit = chance.randrange(0 if last else 500, 1600) if cuts > 0 else None
        cuts -= 1
        try:
            response = await exchange(port, method, sent, body, limit)
            is_cut = False
        except Cut as cut:
            response = cut.args[0]
            is_cut = True
            counts["cut by nginx" if response.is_cut_by_peer else "cut by the client"] += 1
        if response.status == 504:  # nginx waited too long for the headers
            counts["status 504"] += 1
            is_cut = True
        elif response.status and not (may_lose and response.status in LOST and method == "GET"):
            assert response.status == 200, (response.status, response.body)
        got += response.events
        last = next((event.id for event in reversed(response.events) if event.id), last)
        if response.status in LOST:
            assert response.status != 404 or port == workers.any_port  # nginx asks the worker of the session otherwise
            check_messages(got, to, is_whole=False)
            counts[LOST[response.status]] += 1
            return None
        if not is_cut:
            if response.headers["content-type"] == "application/json":
                counts["not streams"] += 1
                return await one_stream(workers, chance, counts, may_lose)
            break
        if not last:  # cut before the first event: the call is lost
            return await one_stream(workers, chance, counts, may_lose)
        counts["resumed"] += 1
        port, method, body = chance.choice([workers.port, workers.any_port]), "GET", b""
        sent = {**headers, "Last-Event-ID": last}
    counts["events"] += check_messages(got, to, is_whole=True)
    counts["streams"] += 1
    return None


def check_messages(got: list[Event], to: int, *, is_whole: bool) -> int:
    """Check that messages came once and in order, up to the result or to any place. Return how many there are."""
    messages = [orjson.loads(event.data or b"") for event in got if event.data]
    results = [message["result"] for message in messages if "result" in message]
    progress = [message["params"]["progress"] for message in messages[: len(messages) - len(results)]]
    assert progress == list(range(1, len(progress) + 1)), (progress, to)
    if is_whole or results:
        assert len(progress) == to, (progress, to)
        assert [result["content"][0]["text"] for result in results] == [f"counted to {to}"], messages[-1]
    ids = [event.id for event in got]
    assert len(set(ids)) == len(ids), ids
    return len(messages)


@contextlib.asynccontextmanager
async def troubled(redis: RedisServer, how: str, chance: random.Random) -> AsyncIterator[collections.Counter[str]]:
    """Trouble Redis in one of the ways meanwhile. Yield how many times that has been done."""
    counts: collections.Counter[str] = collections.Counter()
    if how == "kept":
        redis.kill()
        redis.start("appendonly yes")

    async def trouble() -> None:
        while True:
            await asyncio.sleep(chance.uniform(0.2, 1.5))
            counts[how] += 1
            if how == "flushed":
                flush(redis)
            elif how == "frozen":
                redis.send_signal(signal.SIGSTOP)
                await asyncio.sleep(chance.choice([0.3, 1.5, 4]))
                redis.send_signal(signal.SIGCONT)
            else:
                redis.kill()
                await asyncio.sleep(chance.choice([0, 0.3, 1.5]))
                redis.start()

    troubling = asyncio.create_task(trouble())
    try:
        yield counts
    finally:
        assert not troubling.done(), troubling
        troubling.cancel()
        await asyncio.wait([troubling])
        redis.kill()  # it may be stopped, or not running
        redis.start()


def flush(redis: RedisServer) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(redis.socket))
        connection.sendall(b"FLUSHALL\r\n")
        assert connection.recv(100) == b"+OK\r\n"


async def check(
    workers: Workers, streams: int, seed: int, concurrency: int = 16, trouble: str = ""
) -> collections.Counter[str]:
    """Check a number of streams, some at a time. Return how many times each outcome occurred."""
    counts: collections.Counter[str] = collections.Counter()
    numbers = iter(range(streams))

    async def work() -> None:
        for number in numbers:
            chance = random.Random(seed * 1_000_003 + number)
            begin = time.monotonic()
            await asyncio.wait_for(one_stream(workers, chance, counts, bool(trouble)), SECONDS)
            counts["slowest ms"] = max(counts["slowest ms"], round(1000 * (time.monotonic() - begin)))

    async with contextlib.AsyncExitStack() as stack:
        if trouble:
            counts = await stack.enter_async_context(troubled(workers.redis, trouble, random.Random(seed)))
        await asyncio.gather(*(work() for _ in range(concurrency)))
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if nginx is None:
        sys.exit("nginx is not installed")
    with mcp_workers(nginx, READ_TIMEOUT) as workers:
        for trouble in ("", *TROUBLES):
            begin = time.monotonic()
            counts = asyncio.run(check(workers, arguments.streams, arguments.seed, trouble=trouble))
            print(f"{trouble or 'calm':8} {dict(counts)} in {time.monotonic() - begin:.0f} s", flush=True)
            assert counts["streams"] + sum(counts[lost] for lost in LOST.values()) == arguments.streams, counts
    print("every message arrived once and in order, and every stream that was not whole said so")


if __name__ == "__main__":
    main()
