"""Event stores of the user that fail: a request fails at most, the log says why, and the session goes on."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from jsonrpc_fast.errors import ConnectionLost, EventsLost
from jsonrpc_fast.mcp.http.event_store import MemoryEventStore

from ...support.failing import FAILING_ASYNC, FAILING_SYNC
from ...support.mcp_http import Gate, begin, call, client_of, request

pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]


class Store(MemoryEventStore):
    """A store in memory, one method of which is another function."""

    def __init__(self, method: str, function: Any) -> None:
        super().__init__()
        setattr(self, method, function)


def is_no_exit(function: Any) -> bool:
    """SystemExit of a store ends the process, as that of any callback of the loop does."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return not any(isinstance(value, SystemExit) for value in cells)


FAILING = [function for function in (*FAILING_SYNC, *FAILING_ASYNC) if is_no_exit(function)]


async def gives_a_number(*arguments: Any) -> Any:
    return 5


def is_not_async(*arguments: Any) -> str:
    return "a/1-1"


async def yields_numbers(event_id: str) -> Any:
    yield 1, 2


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
    async with client_of(Gate().server.asgi_app(event_store=Store("append", function))) as client:
        await begin(client)
        for number in range(2):
            answer = await client.post("/mcp", json=call(number, "count", to=2))
            assert answer.text.count('"progress"') == 2
            assert answer.text.count('"counted"') >= 1
    assert len(reported) == 2


@pytest.mark.parametrize("function", FAILING)
async def test_a_store_that_does_not_end_a_stream(function: Any, reported: list[str]) -> None:
    async with client_of(Gate().server.asgi_app(event_store=Store("end", function))) as client:
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "count", to=2))
        assert answer.text.count('"counted"') >= 1
        assert (await client.post("/mcp", json=request(2, "ping"))).status_code == 200
    assert len(reported) == 1


@pytest.mark.parametrize(
    ("method", "function"),
    [
        *[("stream_of", function) for function in (*FAILING, gives_a_number, is_not_async)],
        *[("follow", function) for function in (*FAILING, gives_a_number, yields_numbers, yields_sync)],
    ],
)
async def test_a_store_that_reads_nothing(method: str, function: Any, reported: list[str]) -> None:
    async with client_of(Gate().server.asgi_app(event_store=Store(method, function))) as client:
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

    async with client_of(Gate().server.asgi_app(event_store=Store("follow", follow))) as client:
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "count", to=2))
        id = answer.text.partition("id: ")[2].partition("\n")[0]
        assert (await client.get("/mcp", headers={"last-event-id": id})).status_code == status
    assert reported == []


@pytest.mark.parametrize("function", FAILING)
async def test_a_store_that_forgets_nothing(function: Any, reported: list[str]) -> None:
    async with client_of(Gate().server.asgi_app(event_store=Store("forget", function))) as client:
        await begin(client)
        assert (await client.delete("/mcp")).status_code == 200
        assert (await client.post("/mcp", json=request(2, "ping"))).status_code == 404
    assert len(reported) == 1


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before Python 3.11 tasks do not count cancellations")
async def test_the_failure_is_reported() -> None:
    reports: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))

    async def append(stream: str, data: bytes | None) -> str:
        raise asyncio.CancelledError("of a future")

    async with client_of(Gate().server.asgi_app(event_store=Store("append", append))) as client:
        await begin(client)
        await client.post("/mcp", json=call(1, "count", to=1))
    [report] = reports
    assert report["message"] == "an event store failed"
    assert repr(report["exception"]) == "CancelledError('of a future')"
