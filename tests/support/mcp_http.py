"""A server for the tests of MCP over HTTP, and requests to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import orjson

from jsonrpc_fast.framing.sse import Event, EventDecoder
from jsonrpc_fast.mcp.http.endpoint import McpEndpoint
from jsonrpc_fast.mcp.server import Context, Server

from .asgi import Client
from .asgi_servers import serving
from .waiting import eventually

ACCEPT = {"accept": "application/json, text/event-stream"}
CLIENT = {"name": "client", "version": "1"}
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


Events = list[dict[str, Any]]


class Exchange(Client):
    """One request to an application of MCP.

    Args:
        app: The application.
        body: The message, or None.
        session: The id of the session.
        method: The method of HTTP.
        headers: Headers that are added to the usual ones, or replace them.
        parts: The parts of the body, if it is not the message.
        changes: Members of the scope that differ from the usual ones.
    """

    def __init__(
        self,
        app: McpEndpoint,
        body: Any = None,
        session: bytes | None = None,
        method: str = "POST",
        *,
        headers: dict[str, str] | None = None,
        parts: list[bytes | None] | None = None,
        **changes: Any,
    ) -> None:
        given = {"host": "localhost", "content-type": "application/json", **ACCEPT, **(headers or {})}
        self.headers = [(name.encode(), value.encode()) for name, value in given.items()]
        if session is not None:
            self.headers.append((b"mcp-session-id", session))
        text = b"" if body is None else orjson.dumps(body)
        scope = {"path": "/mcp", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 50000), **changes}
        super().__init__(text if parts is None else parts, method=method, **scope)
        self.scope["headers"] = self.headers
        self._app = app

    async def events(self) -> Events:
        """Run the request, and return the events that the application sends."""
        await self._app(self.scope, self.receive, self.send)
        return self.sent

    async def until(self, condition: Callable[[Events], bool]) -> None:
        """Wait until the events sent so far meet a condition."""
        await eventually(lambda: condition(self.sent))


async def begin_session(app: McpEndpoint) -> bytes:
    """Begin a session, and return its id."""
    start, _ = await Exchange(app, initialize()).events()
    session: bytes = dict(start["headers"])[b"mcp-session-id"]
    assert (await Exchange(app, INITIALIZED, session).events())[0]["status"] == 202
    return session


def body_of(events: Events) -> bytes:
    return b"".join([event.get("body", b"") for event in events])


class Gate:
    """A server whose tools wait until the test lets them continue.

    Attributes:
        server: The server.
        entered: An event that is set when the tool `wait` runs.
        opened: An event. When it is set, `wait` returns.
        cancelled: How many calls of `wait` were cancelled.
        ended: How many calls of `wait` returned.
    """

    def __init__(self, **options: Any) -> None:
        self.server = server = Server("sums", "1.0", **options)
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()
        self.cancelled = self.ended = 0

        @server.tool
        def add(a: int, b: int) -> int:
            return a + b

        @server.tool
        async def count(to: int, context: Context) -> str:
            for number in range(to):
                context.report_progress(number, to)
                await asyncio.sleep(0)
            return "counted"

        @server.tool
        async def wait(context: Context) -> str:
            context.report_progress(0)
            self.entered.set()
            try:
                await self.opened.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            context.report_progress(1)
            self.ended += 1
            return "waited"

        @server.tool
        async def ask(question: str, context: Context) -> str:
            schema = {"type": "object", "properties": {}}
            answer = await context.call("elicitation/create", {"message": question, "requestedSchema": schema})
            return str(answer["action"])

        @server.tool
        def who(context: Context) -> Any:
            return {"claims": context.claims, "path": context.http_scope and context.http_scope["path"]}

        @server.tool
        async def leave(context: Context) -> str:
            closed = context.close_stream()
            self.entered.set()
            await self.opened.wait()
            return "closed" if closed else "open"


def request(id: int | str, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(id: int | str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return a tools/call request with a progress token."""
    return request(id, "tools/call", name=tool, arguments=arguments, _meta={"progressToken": f"token {id}"})


def initialize(version: str = LEGACY, **capabilities: Any) -> dict[str, Any]:
    return request(0, "initialize", protocolVersion=version, capabilities=capabilities, clientInfo=CLIENT)


def modern(message: dict[str, Any], **headers: str | None) -> dict[str, Any]:
    """Return a request of 2026-07-28 with its headers, as arguments of `httpx2.AsyncClient.post`."""
    params = message["params"]
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": CLIENT,
        **params.get("_meta", {}),
    }
    sent = {"mcp-protocol-version": MODERN, "mcp-method": message["method"]}
    name = params.get("name", params.get("uri"))
    if name is not None:
        sent["mcp-name"] = name
    changed = {key.replace("_", "-"): value for key, value in headers.items()}
    final = {key: value for key, value in {**sent, **changed}.items() if value is not None}
    return {"json": {**message, "params": {**params, "_meta": meta}}, "headers": final}


@contextlib.asynccontextmanager
async def client_of(app: Any, **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Serve an application, and yield a client for it."""
    # Reading the certificates takes time.
    settings: dict[str, Any] = {"headers": ACCEPT, "timeout": 30, "verify": False}
    async with serving(app, **options) as url, httpx2.AsyncClient(base_url=url, **settings) as client:
        yield client


async def begin(client: httpx2.AsyncClient, version: str = LEGACY, **capabilities: Any) -> str:
    """Begin a session, which all later requests of the client use, and return its id."""
    client.headers.pop("mcp-session-id", None)
    answer = await client.post("/mcp", json=initialize(version, **capabilities))
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"]["protocolVersion"] == version
    client.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
    answer = await client.post("/mcp", json=INITIALIZED)
    assert (answer.status_code, answer.content) == (202, b"")
    return str(client.headers["mcp-session-id"])


async def events_of(answer: httpx2.Response) -> AsyncIterator[Event]:
    """Iterate over the events of a response, including those without data."""
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream"
    decoder = EventDecoder(1024 * 1024)
    async for chunk in answer.aiter_bytes():
        for event in decoder.feed(chunk):
            yield event


def message_of(event: Event) -> Any:
    assert event.data is not None
    return orjson.loads(event.data)
