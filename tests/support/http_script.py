"""An HTTP server on loopback that responds as a test says, even byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from .mcp_script import DISCOVERED, INITIALIZED
from .waiting import eventually

SESSION = "a-session"


@dataclass
class HttpRequest:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def message(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> Any:
        return self.message.get("id")

    @property
    def rpc(self) -> str:
        """The method of the message, or the HTTP method if there is no message."""
        return str(self.message.get("method", "response")) if self.body else self.method

    def result(self, result: Any) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": self.id, "result": result}).encode()


class Reply:
    """The responses of a test to one request."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.is_closed = asyncio.Event()  # by the client
        self.must_close = False

    async def send(
        self,
        body: bytes = b"",
        status: int = 200,
        kind: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> None:
        fields = {"content-length": str(len(body)), **({"content-type": kind} if body else {}), **(headers or {})}
        self.writer.write(_head(status, fields) + body)
        await self.writer.drain()

    async def accept(self) -> None:
        await self.send(status=202)

    async def begin(self, headers: dict[str, str] | None = None) -> None:
        """Begin a stream of events, which ends with the connection."""
        self.must_close = True
        self.writer.write(_head(200, {"content-type": "text/event-stream", "connection": "close", **(headers or {})}))
        await self.writer.drain()

    async def event(self, data: bytes = b"", id: str | None = None, retry: int | None = None) -> None:
        lines = [f"id: {id}\n" if id is not None else "", f"retry: {retry}\n" if retry is not None else ""]
        self.writer.write("".join(lines).encode() + b"data: " + data + b"\n\n")
        await self.writer.drain()

    async def raw(self, data: bytes) -> None:
        self.must_close = True
        self.writer.write(data)
        await self.writer.drain()


Answer = Callable[[HttpRequest, Reply], Awaitable[None]]


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


@dataclass
class HttpScript:
    """The server: the requests that it received, and the function that responds."""

    answer: Answer
    port: int = 0
    requests: list[HttpRequest] = field(default_factory=list)
    connections: int = 0
    open: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def sent(self, rpc: str) -> list[HttpRequest]:
        return [request for request in self.requests if request.rpc == rpc]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        number = self.connections
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._serve_requests(reader, writer, number)
        except RuntimeError:
            if not writer.is_closing():  # uvloop raises it when the client has disconnected; asyncio discards the data
                raise
        finally:
            self.open -= 1
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _serve_requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ", 2)
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            request = HttpRequest(method, path, headers, body, number)
            self.requests.append(request)
            reply = Reply(writer)
            watcher = asyncio.create_task(_watch(reader, reply.is_closed))
            try:
                await self.answer(request, reply)
            finally:
                watcher.cancel()
                await asyncio.wait([watcher])
            if reply.must_close:
                return


async def _watch(reader: asyncio.StreamReader, is_closed: asyncio.Event) -> None:
    await eventually(lambda: reader.at_eof() or reader.exception() is not None, math.inf)
    is_closed.set()


@contextlib.asynccontextmanager
async def http_script(answer: Answer) -> AsyncIterator[HttpScript]:
    script = HttpScript(answer)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(script.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    script.port = server.sockets[0].getsockname()[1]
    try:
        yield script
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.sleep(0)


def legacy(answer: Answer, session: str | None = SESSION, listens: bool = False) -> Answer:
    """Respond to the handshake like a legacy server with a session, and pass the other requests to `answer`."""

    async def serve(request: HttpRequest, reply: Reply) -> None:
        if request.rpc == "server/discover":
            await reply.send(b"Bad Request", 400, "text/plain")
        elif request.rpc == "initialize":
            headers = {} if session is None else {"mcp-session-id": session}
            await reply.send(request.result(INITIALIZED), headers=headers)
        elif request.rpc == "notifications/initialized":
            await reply.accept()
        elif (
            request.rpc == "GET" and not listens and "last-event-id" not in request.headers
        ) or request.rpc == "DELETE":
            await reply.send(status=405)
        else:
            await answer(request, reply)

    return serve


def modern(answer: Answer) -> Answer:
    """Respond to the probe of a client, and pass the other requests to `answer`."""

    async def serve(request: HttpRequest, reply: Reply) -> None:
        if request.rpc == "server/discover":
            await reply.send(request.result(DISCOVERED))
        else:
            await answer(request, reply)

    return serve
