"""The contract of ASGI, and clients that read nothing, send slowly or leave at a bad moment."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Annotated, Any

import msgspec
import orjson
import pytest

from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.mcp.http.event_store import MemoryEventStore
from jsonrpc_fast.mcp.server import Context

from ...support.asgi import LEFT, events_of, events_of_a_lifespan
from ...support.mcp_http import Events, Exchange, Gate, begin_session, body_of, call, initialize, modern, request
from ...support.tables import rows
from ...support.waiting import eventually, results_of, settle

user: ContextVar[str] = ContextVar("user")


@pytest.fixture
def traced_memory() -> Iterator[None]:
    """What is allocated from now on is counted."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.virtual_time
async def test_a_body_that_stops_is_refused_and_one_that_breaks_off_is_dropped() -> None:
    app = McpEndpoint(Gate().server, body_seconds=0.05)
    chunked = {"transfer-encoding": "chunked"}
    start, _ = await Exchange(app, parts=[b"{", None], headers=chunked).events()
    assert (start["status"], (b"connection", b"close") in start["headers"]) == (408, True)
    broken = Exchange(app, parts=[b"{", LEFT], headers=chunked)
    broken.gone.set()
    assert await broken.events() == []
    await app.close()


@pytest.mark.virtual_time
async def test_a_client_that_reads_nothing_is_given_up_and_its_call_goes_on() -> None:
    gate = Gate()
    app = McpEndpoint(gate.server, write_seconds=0.05)
    session = await begin_session(app)
    stuck = Exchange(app, call(1, "wait"), session)
    stuck.is_stuck = True
    await asyncio.wait_for(stuck.events(), 20)
    assert stuck.sent == []
    assert gate.cancelled == 0
    gate.opened.set()
    await eventually(lambda: gate.ended == 1)
    await app.close()


@pytest.mark.virtual_time
async def test_a_stuck_subscription_is_given_up() -> None:
    gate = Gate()
    app = McpEndpoint(gate.server, write_seconds=0.05, keep_alive_seconds=0.01)
    listen = modern(request(1, "subscriptions/listen", notifications={}))
    exchange = Exchange(app, listen["json"], headers=listen["headers"])
    running = asyncio.ensure_future(exchange.events())
    await exchange.until(lambda sent: len(sent) > 1)
    exchange.is_stuck = True
    await asyncio.wait_for(running, 20)
    assert not gate.server.connections
    await app.close()


@rows("turns", range(16))
@pytest.mark.virtual_time
async def test_no_subscription_delays_the_end_of_the_endpoint(turns: int) -> None:
    """Whenever the endpoint closes: before the subscription is read, before its function begins, or after that."""
    app = McpEndpoint(Gate().server)
    listen = modern(request(1, "subscriptions/listen", notifications={}))
    exchange = Exchange(app, listen["json"], headers=listen["headers"])
    running = asyncio.ensure_future(exchange.events())
    await settle(turns)
    before = asyncio.get_running_loop().time()
    await app.close(5)
    await running
    assert asyncio.get_running_loop().time() - before < 1
    assert b"error" not in body_of(exchange.sent)


@rows("turns", range(16))
@pytest.mark.virtual_time
async def test_no_session_outlives_the_endpoint(turns: int) -> None:
    """Whenever the endpoint closes: what arrives later is refused, with the reason."""
    gate = Gate()
    app = McpEndpoint(gate.server)
    exchange = Exchange(app, initialize())
    running = asyncio.ensure_future(exchange.events())
    await settle(turns)
    await app.close(5)
    await running
    assert (app.sessions, gate.server.connections) == (0, set())
    assert exchange.sent[0]["status"] in (200, 503)
    late = await Exchange(app, initialize()).events()
    assert (late[0]["status"], body_of(late)) == (503, b"The server is closing.\n")


async def test_a_cancelled_task_of_the_server_leaves_nothing_behind() -> None:
    gate = Gate()
    app = McpEndpoint(gate.server)
    session = await begin_session(app)
    for message, name in ((call(1, "wait"), session), (None, session)):
        exchange = Exchange(app, message, name, "GET" if message is None else "POST")
        running = asyncio.ensure_future(exchange.events())
        await exchange.until(bool)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert app.requests == 0
    again = Exchange(app, None, session, "GET")
    running = asyncio.ensure_future(again.events())
    await again.until(bool)
    again.gone.set()
    await running
    gate.opened.set()
    await app.close()
    assert not gate.server.connections


@pytest.mark.ci
async def test_a_stream_that_nobody_reads_is_bounded(traced_memory: None) -> None:
    gate = Gate()

    @gate.server.tool
    async def flood(context: Context) -> str:
        for number in range(20_000):
            context.report_progress(number, message="x" * 100)
        gate.entered.set()
        await gate.opened.wait()
        return "flooded"

    app = McpEndpoint(gate.server, max_stream_bytes=100_000, event_store=None)
    session = await begin_session(app)
    exchange = Exchange(app, call(1, "flood"), session)
    exchange.is_stuck = True
    running = asyncio.ensure_future(exchange.events())
    await gate.entered.wait()
    assert tracemalloc.get_traced_memory()[0] < 1_000_000  # of the 4 MB of progress
    gate.opened.set()
    await asyncio.sleep(0)
    exchange.gone.set()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    for number in range(20_000):
        gate.server.log("error", f"{number} {'x' * 100}")
    assert tracemalloc.get_traced_memory()[0] < 1_000_000
    listening = Exchange(app, None, session, "GET")
    reading = asyncio.ensure_future(listening.events())
    await listening.until(lambda sent: b"19999 x" in body_of(sent))
    assert (body_of(listening.sent).count(b"data: "), b"19899 x" in body_of(listening.sent)) == (100, False)
    listening.gone.set()
    await reading
    await app.close()


async def test_functions_run_in_the_context_of_their_own_request() -> None:
    gate = Gate()

    @gate.server.tool
    async def whose() -> str:
        await asyncio.sleep(0)
        return user.get()

    app = McpEndpoint(gate.server)
    user.set("nobody")
    session = await begin_session(app)

    async def ask(id: int, name: str) -> bytes:
        user.set(name)
        return body_of(await Exchange(app, call(id, "whose"), session).events())

    answers = await asyncio.gather(*[asyncio.ensure_future(ask(id, f"user {id}")) for id in range(5)])
    for id, answer in enumerate(answers):
        assert orjson.loads(answer)["result"]["structuredContent"] == {"result": f"user {id}"}
    await app.close()


@pytest.mark.virtual_time
async def test_many_sessions_and_half_open_streams_leave_nothing() -> None:
    gate = Gate()
    app = McpEndpoint(gate.server)
    exchanges = [Exchange(app, None, await begin_session(app), "GET") for _ in range(200)]
    running = [asyncio.ensure_future(exchange.events()) for exchange in exchanges]
    for exchange in exchanges:
        await exchange.until(bool)
    for exchange in exchanges[::2]:
        exchange.gone.set()
    await asyncio.wait(running[::2])
    await app.close()
    await asyncio.wait(running)
    assert (app.sessions, app.requests, gate.server.connections) == (0, 0, set())


async def test_a_websocket_is_refused_and_the_lifespan_answered() -> None:
    app = McpEndpoint(Gate().server)
    assert await events_of(app, "websocket") == ["websocket.close"]
    assert await events_of_a_lifespan(app) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    with pytest.raises(ValueError, match="unknown type"):
        await events_of(app, "other")


def first_event_id(events: Events) -> str:
    return body_of(events).split(b"id: ")[1].split(b"\n")[0].decode()


async def test_of_many_connections_that_resume_the_stream_of_a_get_one_is_left() -> None:
    gate = Gate()
    app = McpEndpoint(gate.server)
    session = await begin_session(app)
    first = Exchange(app, None, session, "GET")
    tasks = [asyncio.create_task(first.events())]
    await first.until(lambda sent: len(sent) > 1)
    last = {"last-event-id": first_event_id(first.sent)}
    resumed = [Exchange(app, None, session, "GET", headers=last) for _ in range(5)]
    tasks += [asyncio.create_task(exchange.events()) for exchange in resumed]
    _, listening = await asyncio.wait_for(wait_until_one_is_left(tasks), 20)
    gate.server.log("error", "late")
    [left] = [exchange for exchange, task in zip([first, *resumed], tasks, strict=True) if task in listening]
    await asyncio.wait_for(left.until(lambda sent: b"late" in body_of(sent)), 20)
    left.gone.set()
    await asyncio.wait_for(asyncio.gather(*tasks), 20)
    assert app.requests == 0
    await app.close()


async def wait_until_one_is_left(tasks: list[asyncio.Task[Any]]) -> tuple[set[Any], set[Any]]:
    done: set[Any] = set()
    left = set(tasks)
    while len(left) > 1:
        ended, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        done |= ended
    return done, left


async def test_streams_that_are_resumed_count_as_requests_of_their_session() -> None:
    gate = Gate()
    app = McpEndpoint(gate.server, max_session_requests=2)
    session = await begin_session(app)
    calling = Exchange(app, call(1, "wait"), session)
    tasks = [asyncio.create_task(calling.events())]
    await calling.until(lambda sent: len(sent) > 1)
    last = {"last-event-id": first_event_id(calling.sent)}
    second = Exchange(app, None, session, "GET", headers=last)
    tasks.append(asyncio.create_task(second.events()))
    await second.until(lambda sent: len(sent) > 1)
    for headers in (last, {}):
        start, _ = await asyncio.wait_for(Exchange(app, None, session, "GET", headers=headers).events(), 20)
        assert start["status"] == 503
    gate.opened.set()
    await asyncio.wait_for(asyncio.gather(*tasks), 20)
    await app.close()


@rows(("first", "status"), [("a", 400), ("b", 200)])
async def test_a_parameter_header_has_one_value(first: str, status: int) -> None:
    server = Gate().server

    @server.tool
    def find(region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})]) -> str:
        return region

    app = McpEndpoint(server)
    sent = modern(request(1, "tools/call", name="find", arguments={"region": "b"}), mcp_param_region="b")
    exchange = Exchange(app, sent["json"], headers=sent["headers"])
    exchange.headers.insert(0, (b"mcp-param-region", first.encode()))
    start, _ = await exchange.events()
    assert start["status"] == status
    await app.close()


async def test_a_list_of_accepted_types_may_stand_in_two_lines() -> None:
    app = McpEndpoint(Gate().server)
    exchange = Exchange(app, initialize(), headers={"accept": "application/json"})
    exchange.headers.append((b"accept", b"text/event-stream"))
    start, _ = await exchange.events()
    assert start["status"] == 200
    await app.close()


class SlowStore(MemoryEventStore):
    """A store that waits before and after each of its steps."""

    async def append(self, stream: str, data: bytes | None) -> str | None:
        await asyncio.sleep(0)
        id = await super().append(stream, data)
        await asyncio.sleep(0)
        return id

    async def end(self, stream: str) -> None:
        await asyncio.sleep(0)
        await super().end(stream)


@pytest.mark.parametrize("store", [MemoryEventStore, SlowStore])
async def test_a_response_that_is_cancelled_anywhere_is_resumed_without_a_lost_or_doubled_event(store: Any) -> None:
    gate = Gate()
    gate.opened.set()
    app = McpEndpoint(gate.server, event_store=store())
    cancelled = 0
    for steps in range(1, 40):
        session = await begin_session(app)
        calling = Exchange(app, call(1, "count", to=3), session)
        task = asyncio.create_task(calling.events())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await results_of(task)
        body = body_of(calling.sent)
        if task.cancelled() and b"id: " in body:
            cancelled += 1
            last = body.split(b"id: ")[-1].split(b"\n")[0].decode()
            resumed = Exchange(app, None, session, "GET", headers={"last-event-id": last})
            body += body_of(await asyncio.wait_for(resumed.events(), 20))
            found = [body.count(text) for text in (b'"progress":0', b'"progress":1', b'"progress":2', b'"result":{')]
            assert found == [1, 1, 1, 1], steps
    assert cancelled
    assert app.requests == 0
    await app.close()


async def test_a_session_that_is_deleted_during_calls_cancels_them_and_logs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = Gate()
    app = McpEndpoint(gate.server)
    session = await begin_session(app)
    quiet = request(2, "tools/call", name="wait", arguments={})
    calls = [Exchange(app, message, session) for message in (call(1, "wait"), quiet)]
    running = [asyncio.create_task(exchange.events()) for exchange in calls]
    await calls[0].until(lambda sent: b'"progress":0' in body_of(sent))
    deleting = Exchange(app, None, session, "DELETE")
    await asyncio.wait_for(deleting.events(), 20)
    assert deleting.sent[0]["status"] == 200
    await asyncio.wait_for(asyncio.gather(*running), 20)
    assert all(not exchange.sent[-1].get("more_body") for exchange in calls)
    assert (gate.cancelled, app.requests, gate.server.connections, caplog.records) == (2, 0, set(), [])
    await app.close()
