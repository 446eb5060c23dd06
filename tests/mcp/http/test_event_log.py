"""Streams whose connection breaks: what is stored, who gets it, and what a failing store costs."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import httpx2
import pytest

from jsonrpc_fast.errors import ConnectionLost, EventsLost
from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.mcp.http.event_store import MemoryEventStore
from jsonrpc_fast.mcp.http.responses import EventLog
from jsonrpc_fast.mcp.http.transport import MessageStream

from ...support.failing import FAILING_ASYNC, FAILING_SYNC
from ...support.mcp_http import Gate, begin, call, client_of, events_of, message_of, request
from ...support.tables import rows
from ...support.waiting import eventually, settle

pytestmark = [pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")]


class Store(MemoryEventStore):
    """A store in memory with one method replaced by a function."""

    def __init__(self, method: str, function: Any) -> None:
        super().__init__()
        setattr(self, method, function)


def is_no_exit(function: Any) -> bool:
    """SystemExit of a store ends the process, like that of any callback of the loop."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return not any(isinstance(value, SystemExit) for value in cells)


FAILING = [function for function in (*FAILING_SYNC, *FAILING_ASYNC) if is_no_exit(function)]


async def gives_a_number(*arguments: Any) -> Any:
    return 5


def is_not_async(*arguments: Any) -> str:
    return "a/1-1"


async def yields_numbers(event_id: str) -> Any:
    yield 1, 2


async def yields_text(event_id: str) -> Any:
    yield "a/1-1", "{}"


def yields_sync(event_id: str) -> Any:
    yield "a/1-1", b"{}"


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages that the exception handler of the loop got."""
    found: list[str] = []
    handle = "asyncio.BaseEventLoop.call_exception_handler"
    monkeypatch.setattr(handle, lambda loop, context: found.append(context["message"]))
    return found


@pytest.mark.parametrize("function", [*FAILING, gives_a_number, is_not_async])
async def test_a_store_that_stores_nothing(function: Any, reported: list[str]) -> None:
    async with client_of(McpEndpoint(Gate().server, event_store=Store("append", function))) as client:
        await begin(client)
        for number in range(2):
            answer = await client.post("/mcp", json=call(number, "count", to=2))
            assert answer.text.count('"progress"') == 2
            assert answer.text.count('"counted"') >= 1
    assert len(reported) == 2


@pytest.mark.parametrize("function", FAILING)
async def test_a_store_that_does_not_end_a_stream(function: Any, reported: list[str]) -> None:
    async with client_of(McpEndpoint(Gate().server, event_store=Store("end", function))) as client:
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "count", to=2))
        assert answer.text.count('"counted"') >= 1
        assert (await client.post("/mcp", json=request(2, "ping"))).status_code == 200
    assert len(reported) == 1


@pytest.mark.parametrize(
    ("method", "function"),
    [
        *[("stream_of", function) for function in (*FAILING, gives_a_number, is_not_async)],
        *[("follow", function) for function in (*FAILING, gives_a_number, yields_numbers, yields_text, yields_sync)],
    ],
)
async def test_a_store_that_reads_nothing(method: str, function: Any, reported: list[str]) -> None:
    async with client_of(McpEndpoint(Gate().server, event_store=Store(method, function))) as client:
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "count", to=2))
        id = answer.text.partition("id: ")[2].partition("\n")[0]
        answer = await client.get("/mcp", headers={"last-event-id": id})
        assert (answer.status_code, answer.text) == (503, "The store of events does not respond.\n")
        assert (await client.post("/mcp", json=request(2, "ping"))).status_code == 200
    assert len(reported) == 1


@pytest.mark.parametrize(("error", "status"), [(ConnectionLost("away"), 503), (EventsLost("dropped"), 410)])
async def test_what_a_store_may_raise(error: Exception, status: int, reported: list[str]) -> None:
    async def follow(event_id: str) -> Any:
        raise error
        yield

    async with client_of(McpEndpoint(Gate().server, event_store=Store("follow", follow))) as client:
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "count", to=2))
        id = answer.text.partition("id: ")[2].partition("\n")[0]
        assert (await client.get("/mcp", headers={"last-event-id": id})).status_code == status
    assert reported == []


@pytest.mark.parametrize("function", FAILING)
async def test_a_store_that_forgets_nothing(function: Any, reported: list[str]) -> None:
    async with client_of(McpEndpoint(Gate().server, event_store=Store("forget", function))) as client:
        await begin(client)
        assert (await client.delete("/mcp")).status_code == 200
        assert (await client.post("/mcp", json=request(2, "ping"))).status_code == 404
    assert len(reported) == 1


async def test_a_failure_of_an_earlier_name_leaves_the_stream_in_the_store(reported: list[str]) -> None:
    """The stream of a session gets a new name with each GET, perhaps while an event is stored under the old one."""
    failing = asyncio.Event()

    async def append(stream: str, data: bytes | None) -> str:
        if stream == "s/1":
            await failing.wait()
            raise ConnectionLost("away")
        return f"{stream}-1"

    log, stream = EventLog(Store("append", append)), MessageStream(1000)
    stream.name, stream.is_resumable = "s/1", True
    appending = asyncio.create_task(log.append(stream, b"{}"))
    await settle()
    stream.name = "s/2"
    failing.set()
    assert await appending is None
    assert (stream.name, stream.is_resumable) == ("s/2", True)
    assert await log.append(stream, b"{}") == "s/2-1"
    assert reported == ["an event store failed"]


async def test_a_stream_is_in_the_store_until_that_fails(reported: list[str]) -> None:
    answers: list[str | None] = []
    ended: list[str] = []

    async def append(stream: str, data: bytes | None) -> str | None:
        if not answers:
            raise ConnectionLost("away")
        return answers.pop()

    async def end(stream: str) -> None:
        ended.append(stream)

    store = Store("append", append)
    store.end = end  # type: ignore[method-assign]
    log, stream = EventLog(store), MessageStream(1000)
    stream.name, stream.is_resumable, stream.wants_close = "s/1", True, True
    for id in ("s/1-1", None, "s/1-3"):
        stream.is_stored = False
        answers.append(id)
        assert await log.append(stream, b"{}") == id
        assert stream.is_stored is (id is not None)
    await log.end(stream, "s/1")
    assert (ended, stream.is_stored) == (["s/1"], False)
    stream.is_stored = True
    assert await log.append(stream, b"{}") is None
    state: Any = (stream.name, stream.is_stored, stream.is_resumable, stream.wants_close)
    assert state == (None, False, False, False)
    await log.end(stream, "s/1")
    assert ended == ["s/1"]
    assert reported == ["an event store failed"]


async def test_the_failure_is_reported() -> None:
    reports: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))

    async def append(stream: str, data: bytes | None) -> str:
        raise asyncio.CancelledError("of a future")

    async with client_of(McpEndpoint(Gate().server, event_store=Store("append", append))) as client:
        await begin(client)
        await client.post("/mcp", json=call(1, "count", to=1))
    [report] = reports
    assert report["message"] == "an event store failed"
    assert repr(report["exception"]) == "CancelledError('of a future')"


def numbers(messages: list[Any]) -> list[Any]:
    """Return the progress in messages, and "reply" for a response."""
    return [message["params"]["progress"] if "method" in message else "reply" for message in messages]


async def test_a_cut_stream_is_resumed_after_its_last_event() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server, retry_ms=7)) as client:
        id = await begin(client)
        async with client.stream("POST", "/mcp", json=call(1, "wait")) as answer:
            events = events_of(answer)
            primer = await anext(events)
            assert (primer.data, primer.retry, primer.id) == (b"", 7, f"{id}/1-1")
            first = await anext(events)
            assert (numbers([message_of(first)]), first.id) == ([0], f"{id}/1-2")
        gate.opened.set()
        for last, left in ((primer.id, [0, 1, "reply"]), (first.id, [1, "reply"]), (first.id, [1, "reply"])):
            answer = await client.get("/mcp", headers={"last-event-id": last})
            assert numbers([message_of(event) async for event in events_of(answer)]) == left
        answer = await client.get("/mcp", headers={"last-event-id": f"{id}/1-4"})
        assert (answer.status_code, answer.content) == (200, b"")
        for last in (f"{id}/1-5", f"{id}/2-1", "x/1-1", "", "é"):
            answer = await client.get("/mcp", headers=[(b"last-event-id", last.encode())])
            assert answer.status_code == 410, last


async def test_a_resumed_stream_goes_on_live() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server, keep_alive_seconds=0.05)) as client:
        await begin(client)
        async with client.stream("POST", "/mcp", json=call(1, "wait")) as answer:
            events = events_of(answer)
            primer = await anext(events)
        async with client.stream("GET", "/mcp", headers={"last-event-id": primer.id}) as answer:
            chunks = answer.aiter_bytes()
            seen = b""
            while b": keep-alive\n\n" not in seen:
                seen += await anext(chunks)
            gate.opened.set()
            seen += b"".join([chunk async for chunk in chunks])
        assert seen.count(b'"progress":0') == seen.count(b'"progress":1') == seen.count(b'"id":1,"result"') == 1


async def test_a_function_closes_the_connection_of_its_call() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server)) as client:
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "leave"))
        [primer] = [event async for event in events_of(answer)]
        assert (primer.data, primer.retry) == (b"", 1000)
        gate.opened.set()
        answer = await client.get("/mcp", headers={"last-event-id": primer.id})
        [event] = [event async for event in events_of(answer)]
        assert message_of(event)["result"]["structuredContent"] == {"result": "closed"}


@pytest.mark.parametrize(("version", "store"), [("2025-06-18", MemoryEventStore()), ("2025-11-25", None)])
async def test_a_connection_that_cannot_be_resumed_is_not_closed(version: str, store: Any) -> None:
    gate = Gate()
    gate.opened.set()
    async with client_of(McpEndpoint(gate.server, event_store=store)) as client:
        await begin(client, version)
        answer = await client.post("/mcp", json=call(1, "leave"))
        assert answer.json()["result"]["content"][0]["text"] == "open"


async def test_a_client_before_2025_11_25_gets_ids_but_no_empty_event() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server)) as client:
        await begin(client, "2025-06-18")
        answer = await client.post("/mcp", json=call(1, "count", to=1))
        events = [event async for event in events_of(answer)]
        assert numbers([message_of(event) for event in events]) == [0, "reply"]
        assert [event.id.rpartition("-")[2] for event in events] == ["1", "2"]


async def test_the_stream_of_a_get_is_resumed_and_goes_on() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server)) as client:
        await begin(client)
        async with client.stream("GET", "/mcp") as first:
            events = events_of(first)
            primer = await anext(events)
            gate.server.log("error", 1)
            assert message_of(await anext(events))["params"]["data"] == 1
            # The server has not noticed that the first connection is dead.
            async with client.stream("GET", "/mcp", headers={"last-event-id": primer.id}) as second:
                resumed = events_of(second)
                assert message_of(await anext(resumed))["params"]["data"] == 1
                assert [event async for event in events] == []
                assert (await anext(resumed)).data == b""
                gate.server.log("error", 2)
                assert message_of(await anext(resumed))["params"]["data"] == 2


async def test_nothing_is_replayed_to_another_session() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server)) as client:
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "count", to=2))
        stolen, *_ = [event.id async for event in events_of(answer)]
        own = client.headers["mcp-session-id"]
        await begin(client)
        answer = await client.get("/mcp", headers={"last-event-id": stolen})
        assert (answer.status_code, answer.text) == (410, "The events after this one are no longer stored.\n")
        client.headers["mcp-session-id"] = own
        assert (await client.get("/mcp", headers={"last-event-id": stolen})).status_code == 200
        await client.delete("/mcp")
        assert (await client.get("/mcp", headers={"last-event-id": stolen})).status_code == 404


async def test_another_worker_with_the_same_store_resumes_a_stream() -> None:
    gate, store = Gate(), MemoryEventStore()
    async with (
        client_of(McpEndpoint(gate.server, event_store=store)) as client,
        client_of(McpEndpoint(Gate().server, event_store=store)) as other,
    ):
        id = await begin(client)
        async with client.stream("POST", "/mcp", json=call(1, "wait")) as answer:
            events = events_of(answer)
            primer = await anext(events)
        headers = {"mcp-session-id": id, "last-event-id": primer.id}
        async with other.stream("GET", "/mcp", headers=headers) as answer:
            events = events_of(answer)
            assert numbers([message_of(await anext(events))]) == [0]
            gate.opened.set()
            assert numbers([message_of(event) async for event in events]) == [1, "reply"]
        answer = await other.post("/mcp", json=request(1, "ping"), headers={"mcp-session-id": id})
        assert answer.status_code == 404


class BrokenStore(MemoryEventStore):
    """A store that fails after some events."""

    def __init__(self, events: int) -> None:
        super().__init__()
        self._left = events

    async def append(self, stream: str, data: bytes | None) -> str | None:
        self._left -= 1
        return await super().append(stream, data) if self._left >= 0 else None


async def test_a_store_that_fails_costs_the_ids_and_no_message() -> None:
    gate = Gate()
    async with client_of(McpEndpoint(gate.server, event_store=BrokenStore(2))) as client:
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "count", to=3))
        events = [event async for event in events_of(answer)][1:]
        assert numbers([message_of(event) for event in events]) == [0, 1, 2, "reply"]
        assert answer.content.count(b"\nid: ") + answer.content.startswith(b"id: ") == 2


async def test_messages_in_flight_survive_each_cut() -> None:
    """Each connection is cut after one event; together they carry each event once."""
    gate = Gate()
    async with client_of(McpEndpoint(gate.server)) as client:
        await begin(client)
        async with client.stream("POST", "/mcp", json=call(1, "count", to=20)) as answer:
            events = events_of(answer)
            last = (await anext(events)).id
        seen = []
        while True:
            async with client.stream("GET", "/mcp", headers={"last-event-id": last}) as answer:
                events = events_of(answer)
                event = await anext(events)
                last = event.id
                seen.append(message_of(event))
            if "result" in seen[-1]:
                break
        assert numbers(seen) == [*range(20), "reply"]
        await asyncio.sleep(0)


@rows("cut_at", [b'"id":1,"result"', b'"progress":0', b'"progress":1', b"retry:"])
async def test_a_client_that_goes_while_something_is_written_finds_the_end(cut_at: bytes) -> None:
    """Even if it disconnects while the last message is written."""
    gate = Gate()
    gate.opened.set()
    app = McpEndpoint(gate.server)

    async def cut(scope: Any, receive: Any, send: Any) -> None:
        async def send_until(message: Any) -> None:
            if scope["method"] == "POST" and cut_at in message.get("body", b""):
                await send({**message, "body": b""})
                raise OSError("the client is gone")
            await send(message)

        await app(scope, receive, send_until if scope["type"] == "http" else send)

    async with client_of(cut) as client:
        id = await begin(client)
        with contextlib.suppress(httpx2.RemoteProtocolError):
            await client.post("/mcp", json=call(1, "wait"))
        answer = await asyncio.wait_for(client.get("/mcp", headers={"last-event-id": f"{id}/1-1"}), 10)
        assert numbers([message_of(event) async for event in events_of(answer)]) == [0, 1, "reply"]


class RaisingStore(MemoryEventStore):
    """A store that raises after some events, or at the end of a stream."""

    def __init__(self, events: int, *, ends: bool = True) -> None:
        super().__init__()
        self._left = events
        self._ends = ends

    async def append(self, stream: str, data: bytes | None) -> str | None:
        self._left -= 1
        if self._left < 0:
            await asyncio.sleep(0)
            raise OSError("no space left")
        return await super().append(stream, data)

    async def end(self, stream: str) -> None:
        if not self._ends:
            raise OSError("no space left")
        await super().end(stream)


def collect_faults() -> list[Any]:
    """Return a list that gets the exceptions that the loop's handler gets."""
    found: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: found.append(context.get("exception")))
    return found


@rows("events", range(6))
async def test_a_store_that_raises_costs_the_ids_and_no_message(events: int) -> None:
    faults = collect_faults()
    gate = Gate()
    async with client_of(McpEndpoint(gate.server, event_store=RaisingStore(events))) as client:
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "count", to=3))
        sent = [event async for event in events_of(answer)]
        assert numbers([message_of(event) for event in sent if event.data]) == [0, 1, 2, "reply"]
        ids = [event.id for event in sent if event.id]
        assert len(set(ids)) == events
        if events < 5:  # the primer, and four messages
            assert [str(fault) for fault in faults] == ["no space left"]
        # A client that resumes such a stream gets an error, rather than wait for events that are not stored.
        for id in ids if events < 5 else []:
            answer = await client.get("/mcp", headers={"last-event-id": id})
            assert answer.status_code == 410
        assert (await client.post("/mcp", json=request(2, "ping"))).json()["result"] == {}


async def test_a_store_that_raises_at_the_end_cuts_nothing() -> None:
    faults = collect_faults()
    async with client_of(McpEndpoint(Gate().server, event_store=RaisingStore(100, ends=False))) as client:
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "count", to=1))
        assert numbers([message_of(event) async for event in events_of(answer) if event.data]) == [0, "reply"]
        async with client.stream("GET", "/mcp") as answer:
            assert (await anext(events_of(answer))).id
        await client.delete("/mcp")
        await eventually(lambda: len(faults) == 2)
        assert [str(fault) for fault in faults] == ["no space left"] * 2


async def test_a_store_that_raises_after_its_client_has_gone() -> None:
    faults = collect_faults()
    gate = Gate()
    async with client_of(McpEndpoint(gate.server, event_store=RaisingStore(2))) as client:
        await begin(client)
        async with client.stream("POST", "/mcp", json=call(1, "wait")) as answer:
            events = events_of(answer)
            await anext(events)
            last = (await anext(events)).id
        gate.opened.set()
        await eventually(lambda: faults)
        answer = await client.get("/mcp", headers={"last-event-id": last})
        assert answer.status_code == 410
        assert [str(fault) for fault in faults] == ["no space left"]
