"""The lifespan of a server that is served over HTTP: once for all sessions and requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from jsonrpc_fast.mcp.http import McpEndpoint, run_http
from jsonrpc_fast.mcp.protocol.meta import TASKS_EXTENSION
from jsonrpc_fast.mcp.server import Context, Server

from ...support.asgi import events_of_a_lifespan
from ...support.asgi_servers import serving
from ...support.mcp_http import Exchange, begin_session, body_of, client_of, modern
from ...support.tables import rows
from ...support.waiting import eventually
from .test_endpoint import ACCEPT, begin, initialize, request


def counting(failure: Exception | None = None) -> tuple[Server, list[str]]:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        events.append("begin")
        await asyncio.sleep(0)
        if failure is not None:
            raise failure
        yield "value"
        events.append("end")

    server = Server("test", "1", lifespan=lifespan)

    @server.tool
    def value(context: Context) -> str:
        return str(context.lifespan)

    return server, events


async def call(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, headers=ACCEPT, timeout=30) as client:
        await begin(client)
        answer = await client.post("/mcp", json=request(1, "tools/call", name="value", arguments={}))
        assert '"result":"value"' in answer.text.replace(" ", "")


@rows("events_of_asgi", ["on", "off"])
@pytest.mark.ci
async def test_the_lifespan_begins_once(events_of_asgi: Any) -> None:
    server, events = counting()
    app = McpEndpoint(server)
    async with serving(app, lifespan=events_of_asgi) as url:
        assert events == (["begin"] if events_of_asgi == "on" else [])
        await asyncio.gather(*[call(url) for _ in range(5)])
        assert events == ["begin"]
    await app.close()
    assert events == ["begin", "end"]
    await app.close()
    assert events == ["begin", "end"]


@pytest.mark.ci
async def test_an_application_can_be_served_again() -> None:
    server, events = counting()
    app = McpEndpoint(server)
    for rounds in (1, 2):
        async with serving(app, lifespan="on") as url:
            await call(url)
            body = modern(request(1, "tools/call", name="value", arguments={}))
            async with httpx2.AsyncClient(base_url=url, headers=ACCEPT, timeout=30) as client:
                assert (await client.post("/mcp", **body)).status_code == 200
        assert events == ["begin", "end"] * rounds


def test_a_mounted_application_can_be_served_again_in_another_loop() -> None:
    """Its framework closes it at the end, but does not tell it of another begin."""
    server, events = counting()
    app = McpEndpoint(server)

    async def serve() -> None:
        start, _ = await Exchange(app, initialize()).events()
        assert start["status"] == 200
        await app.close()
        start, _ = await Exchange(app, initialize()).events()
        assert start["status"] == 503

    for rounds in (1, 2):
        asyncio.run(serve())
        assert events == ["begin", "end"] * rounds


async def test_a_lifespan_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    server, events = counting(OSError("no database"))
    async with serving(McpEndpoint(server), lifespan="off") as url, httpx2.AsyncClient(headers=ACCEPT) as client:
        for _ in range(2):
            answer = await client.post(f"{url}/mcp", json=initialize())
            assert (answer.status_code, answer.text) == (500, "The server cannot begin.\n")
    assert events == ["begin"] * 2

    caplog.clear()
    with caplog.at_level(logging.ERROR, "jsonrpc_fast.mcp"):
        assert await events_of_a_lifespan(McpEndpoint(server)) == ["lifespan.startup.failed"]
    assert [record.getMessage() for record in caplog.records] == ["the lifespan of the server failed"]


@pytest.mark.virtual_time
@rows("seconds", [0.0, 5.0])
async def test_calls_that_are_cut_off_by_the_end_get_an_error(seconds: float) -> None:
    begun: list[None] = []
    server = Server("test", "1")

    @server.tool
    async def wait() -> str:
        begun.append(None)
        await asyncio.Event().wait()
        return "never"

    app = McpEndpoint(server)
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "wait", "arguments": {}}}
    changed = modern(message)
    exchanges = [
        Exchange(app, changed["json"], headers=changed["headers"]),
        Exchange(app, message, await begin_session(app)),
    ]
    calling = [asyncio.create_task(exchange.events()) for exchange in exchanges]
    await eventually(lambda: len(begun) == 2)
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    await app.close(seconds)
    assert loop.time() == end  # one time for the calls of sessions and for those without one
    await asyncio.gather(*calling)
    for exchange in exchanges:
        text = b"the server or the session was closed before the function ended"
        assert b'{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"%b"}}' % text in body_of(exchange.sent)


async def test_a_lifespan_that_hangs_ends_when_the_application_is_closed() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        yield

    app = McpEndpoint(Server("test", "1", lifespan=lifespan))
    exchanges = [Exchange(app, initialize()) for _ in range(3)]
    requests = [asyncio.create_task(exchange.events()) for exchange in exchanges]
    await asyncio.wait_for(began.wait(), 20)
    await asyncio.wait_for(app.close(0.01), 20)
    await asyncio.wait_for(ended.wait(), 20)
    await asyncio.wait_for(asyncio.gather(*requests), 20)
    assert [(exchange.sent[0]["status"], body_of(exchange.sent)) for exchange in exchanges] == [
        (503, b"The server is closing.\n")
    ] * 3


@asynccontextmanager
async def cancelled_at_the_begin(server: Server) -> AsyncIterator[None]:
    raise asyncio.CancelledError
    yield


@asynccontextmanager
async def cancelled_at_the_end(server: Server) -> AsyncIterator[None]:
    yield
    raise asyncio.CancelledError


@asynccontextmanager
async def failing_at_the_end(server: Server) -> AsyncIterator[None]:
    yield
    raise OSError("no database")


def coroutine(server: Server) -> Coroutine[Any, Any, None]:
    """What an async function returns, closed: it would warn when it is freed, which may be in a later test."""
    made = asyncio.sleep(0)
    made.close()
    return made


async def generator(server: Server) -> AsyncIterator[None]:
    yield


@rows("lifespan", [cancelled_at_the_begin, coroutine, generator, lambda server: None])
async def test_a_lifespan_that_cannot_begin(lifespan: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = McpEndpoint(Server("test", "1", lifespan=lifespan))
    for _ in range(2):
        start, _ = await asyncio.wait_for(Exchange(app, initialize()).events(), 20)
        assert start["status"] == 500
    assert await events_of_a_lifespan(app) == ["lifespan.startup.failed"]
    await app.close()
    assert [record.getMessage() for record in caplog.records] == ["the lifespan of the server failed"] * 3


@rows("lifespan", [cancelled_at_the_end, failing_at_the_end])
async def test_a_lifespan_that_fails_at_the_end(lifespan: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = McpEndpoint(Server("test", "1", lifespan=lifespan))
    assert await events_of_a_lifespan(app) == ["lifespan.startup.complete", "lifespan.shutdown.failed"]
    assert [record.getMessage() for record in caplog.records] == ["the lifespan of the server failed"]
    other = McpEndpoint(Server("test", "1", lifespan=lifespan))
    await Exchange(other, initialize()).events()
    with pytest.raises((RuntimeError, OSError)):
        await other.close()


def hanging(*, at_begin: bool, ignores_cancelling: bool = False) -> tuple[Server, asyncio.Event, list[str]]:
    """Return a server whose lifespan hangs until the event is set, and what its lifespan has done."""
    opened, done = asyncio.Event(), list[str]()

    async def hang() -> None:
        while not opened.is_set():
            try:
                await opened.wait()
            except asyncio.CancelledError:
                done.append("cancelled")
                if not ignores_cancelling:
                    raise

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        done.append("begin")
        if at_begin:
            await hang()
        yield "value"
        if not at_begin:
            await hang()
        done.append("end")

    return Server("test", "1", lifespan=lifespan), opened, done


@pytest.mark.virtual_time
async def test_requests_do_not_wait_for_a_lifespan_that_hangs(caplog: pytest.LogCaptureFixture) -> None:
    server, opened, done = hanging(at_begin=True)
    app = McpEndpoint(server, lifespan_seconds=0.05)
    exchanges = [Exchange(app, initialize()) for _ in range(3)]
    await asyncio.wait_for(asyncio.gather(*[exchange.events() for exchange in exchanges]), 20)
    assert [exchange.sent[0]["status"] for exchange in exchanges] == [503] * 3
    assert dict(exchanges[0].sent[0]["headers"])[b"retry-after"] == b"1"
    assert done == ["begin", "cancelled"]
    assert {record.getMessage() for record in caplog.records} == {"the lifespan of the server failed"}
    opened.set()
    later = Exchange(app, initialize())
    await asyncio.wait_for(later.events(), 20)
    assert later.sent[0]["status"] == 200
    await app.close()
    assert done == ["begin", "cancelled", "begin", "end"]


@pytest.mark.virtual_time
@rows("ignores_cancelling", [False, True])
async def test_closing_does_not_wait_for_a_lifespan_that_hangs(
    ignores_cancelling: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jsonrpc_fast.mcp.server.lifespan._CANCEL_SECONDS", 0.1)
    server, opened, done = hanging(at_begin=False, ignores_cancelling=ignores_cancelling)
    app = McpEndpoint(server, lifespan_seconds=0.5)
    await Exchange(app, initialize()).events()
    await asyncio.wait_for(app.close(), 20)
    assert done == ["begin", "cancelled"]
    assert [record.getMessage() for record in caplog.records] == ["the lifespan of the server failed"]
    opened.set()
    await eventually(lambda: not ignores_cancelling or done[-1] == "end")


@rows("value", [-1, "1", float("nan"), 10**400])
async def test_durations_are_checked(value: Any) -> None:
    server = Server("test", "1")
    with pytest.raises((TypeError, ValueError), match="lifespan_seconds must be"):
        McpEndpoint(server, lifespan_seconds=value)
    with pytest.raises((TypeError, ValueError), match="grace_seconds must be"):
        await McpEndpoint(server).close(value)
    with pytest.raises((TypeError, ValueError), match="grace_seconds must be"):
        run_http(McpEndpoint(server), grace_seconds=value)


async def test_tasks_end_before_the_lifespan() -> None:
    """A task continues after its request, with the value of the lifespan, and ends before the lifespan does."""
    server, events = counting()
    seen = asyncio.Event()

    @server.tool(task_support="required")
    async def work(context: Context) -> str:
        try:
            seen.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            events.append(f"{context.lifespan} at the end of the task")
        return ""

    app = McpEndpoint(server)
    async with client_of(app, lifespan="off") as client:
        meta = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
        answer = await client.post("/mcp", **modern(request(1, "tools/call", name="work", arguments={}, _meta=meta)))
        assert "taskId" in answer.json()["result"], answer.text
        await asyncio.wait_for(seen.wait(), 20)
        await app.close()
    assert events == ["begin", "value at the end of the task", "end"]
