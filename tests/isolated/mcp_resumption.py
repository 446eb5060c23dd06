"""Streams of MCP that are cut at random places and resumed, with two workers behind nginx and Redis.

    python -m tests.isolated.mcp_resumption --streams 1000

Each stream is a call that reports progress. Its connection is cut after a random number of bytes, by the client or, in
pauses, by nginx. The client resumes after the last event that it got completely, at either worker, and cuts again. In
the end it must have received every message once and in order.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import random
import re
import shutil
import sys
import time
from typing import Any

import orjson

from jsonrpc_fast.framing.sse import Event, EventDecoder

from ..support.http_process import HOST
from ..support.mcp_workers import Workers, mcp_workers

READ_TIMEOUT = "500ms"  # of nginx, less than some pauses of the function
SECONDS = 120.0
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


async def one_stream(workers: Workers, chance: random.Random, counts: collections.Counter[str]) -> None:
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
        elif response.status:
            assert response.status == 200, (response.status, response.body)
        got += response.events
        last = next((event.id for event in reversed(response.events) if event.id), last)
        if not is_cut:
            if response.headers["content-type"] == "application/json":
                counts["not streams"] += 1
                return await one_stream(workers, chance, counts)
            break
        if not last:  # cut before the first event: the call is lost
            return await one_stream(workers, chance, counts)
        counts["resumed"] += 1
        port, method, body = chance.choice([workers.port, workers.any_port]), "GET", b""
        sent = {**headers, "Last-Event-ID": last}
    messages = [orjson.loads(event.data or b"") for event in got if event.data]
    progress = [message["params"]["progress"] for message in messages[:-1]]
    assert progress == list(range(1, to + 1)), (progress, to)
    assert messages[-1]["result"]["content"][0]["text"] == f"counted to {to}", messages[-1]
    ids = [event.id for event in got]
    assert len(set(ids)) == len(ids), ids
    counts["streams"] += 1
    counts["events"] += len(messages)
    return None


async def check(workers: Workers, streams: int, seed: int, concurrency: int = 16) -> collections.Counter[str]:
    """Check a number of streams, some at a time. Return how many times each outcome occurred."""
    counts: collections.Counter[str] = collections.Counter()
    numbers = iter(range(streams))

    async def work() -> None:
        for number in numbers:
            await asyncio.wait_for(one_stream(workers, random.Random(seed * 1_000_003 + number), counts), SECONDS)

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
    begin = time.monotonic()
    with mcp_workers(nginx, READ_TIMEOUT) as workers:
        counts = asyncio.run(check(workers, arguments.streams, arguments.seed))
    print(f"{dict(counts)} in {time.monotonic() - begin:.0f} s: every message arrived once and in order")


if __name__ == "__main__":
    main()
