"""The same hooks at every server and every client: real servers on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import Notification, hooks
from jsonrpc_fast.errors import CallTimeout, ConnectionLost, HttpStatusError, InvalidResponse, RpcError
from jsonrpc_fast.hooks import HOOKS, Outcome, outcome_of
from jsonrpc_fast.http import Endpoint, WsgiEndpoint
from jsonrpc_fast.mcp.http import McpEndpoint

from .support import needs
from .support.places import ROOT
from .support.recorder import Recorder
from .support.session_pairs import sessions
from .support.tables import rows
from .support.waiting import free_port

pytest.importorskip("anyio", reason="the extra `http` is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

import httpx2

from jsonrpc_fast.http.client import AsyncHttpClient, HttpClient

from .support.asgi_servers import serving


def refuse() -> None:
    raise RpcError(5, "no")


FUNCTIONS: dict[str, Callable[..., Any]] = {"add": lambda a, b: a + b, "refuse": refuse, "note": lambda: None}
CALLS = [
    ("call", 1, "add"),
    ("settled", 1, "add", Outcome.RESULT, None),
    ("call", 2, "refuse"),
    ("settled", 2, "refuse", Outcome.ERROR, 5),
    ("call", 3, "x"),
    ("settled", 3, "x", Outcome.ERROR, -32601),
]
REQUESTS = [
    ("request", 1, "add"),
    ("served", 1, "add", Outcome.RESULT, None),
    ("request", 2, "refuse"),
    ("served", 2, "refuse", Outcome.ERROR, 5),
    ("served without", 3, "x", Outcome.ERROR, -32601),
    ("request", None, "note"),
    ("served", None, "note", Outcome.RESULT, None),
]


async def use(client: Any) -> None:
    assert await client.call("add", [1, 2]) == 3
    for method in ("refuse", "x"):
        with pytest.raises(RpcError):
            await client.call(method)
    await client.notify("note")


def fail() -> None:
    raise ValueError("broken")


def only(kind: str, seen: list[str]) -> Any:
    """Return hooks with the one method of a row of the table, which takes what its protocol says."""
    name = HOOKS[kind]

    def hook(*arguments: Any) -> tuple[None, dict[str, str]]:
        signature.bind(*arguments)
        seen.append(kind)
        return None, {}

    signature = inspect.signature(getattr(getattr(hooks, kind), name))
    hook.__signature__ = signature  # type: ignore[attr-defined]
    return type("Only", (), {name: hook})()


def check_seen(kind: str, seen: list[str]) -> None:
    """Each end calls the hook that is its own: once for each call, or for each failure."""
    assert seen == [kind] * (1 if HOOKS[kind] == "fault" else 2)


@rows("kind", list(HOOKS))
async def test_each_hook_is_called_in_sessions(kind: str) -> None:
    seen: list[str] = []
    found = only(kind, seen)
    async with sessions({"add": max, "fail": fail}, hooks=found, client_options={"hooks": found}) as (client, _):
        assert await client.call("add", [1, 2]) == 2
        with pytest.raises(RpcError):
            await client.call("fail")
    check_seen(kind, seen)


async def test_each_hook_is_called_over_http() -> None:
    seen: dict[str, list[str]] = {f"/{kind}": [] for kind in HOOKS}
    found = {path: only(path[1:], events) for path, events in seen.items()}
    apps = {path: Endpoint({"add": max, "fail": fail}, hooks=one) for path, one in found.items()}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await apps[scope["path"]](scope, receive, send)

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app)) as carrier:
        for path, one in found.items():
            client = AsyncHttpClient(f"http://localhost{path}", carrier, hooks=one)
            assert await client.call("add", [1, 2]) == 2
            with pytest.raises(RpcError):
                await client.call("fail")
    for path, events in seen.items():
        check_seen(path[1:], events)


def test_each_hook_is_public_and_in_the_reference() -> None:
    assert {*hooks.__all__} == {*HOOKS, "Hooks", "Outcome"}, "hooks.__all__ has each member of the union Hooks"
    page = (ROOT / "docs/api/hooks.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"autoclass:: jsonrpc_fast\.hooks\.(\w+Hook)\n", page)) == sorted(HOOKS), (
        "docs/api/hooks.md"
    )


async def test_an_asgi_endpoint_and_its_client() -> None:
    served, called = Recorder(), Recorder()
    async with serving(Endpoint(FUNCTIONS, hooks=served)) as url, AsyncHttpClient(url, hooks=called) as client:
        await use(client)
        assert (called.events, served.events) == (CALLS, REQUESTS)
        called.events.clear()
        found = await client.call_batch([("add", [1, 2]), Notification("note"), ("refuse", None)])
        assert found[0] == 3
    assert called.events == [
        ("call", 4, "add"),
        ("call", 5, "refuse"),
        ("settled", 4, "add", Outcome.RESULT, None),
        ("settled", 5, "refuse", Outcome.ERROR, 5),
    ]
    assert len(served.events) == len(REQUESTS) + 6


@contextlib.contextmanager
def wsgi_server(app: Any) -> Iterator[str]:
    import threading
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    class Silent(WSGIRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with make_server("127.0.0.1", 0, app, handler_class=Silent) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def test_a_wsgi_endpoint_and_its_client() -> None:
    served, called = Recorder(), Recorder()
    with wsgi_server(WsgiEndpoint(FUNCTIONS, hooks=served)) as url, HttpClient(url, hooks=called) as client:
        assert client.call("add", [1, 2]) == 3
        for method in ("refuse", "x"):
            with pytest.raises(RpcError):
                client.call(method)
        client.notify("note")
        assert client.call_batch([("add", [1, 2])]) == [3]
    assert called.events[:-2] == CALLS
    assert called.events[-1] == ("settled", 4, "add", Outcome.RESULT, None)
    assert served.events[:-2] == REQUESTS


class Tracing:
    """Hooks that send a trace context, and keep those that arrive."""

    def __init__(self) -> None:
        self.seen: list[dict[str, str]] = []

    def call_prepared(self, id: Any, method: str) -> tuple[Any, dict[str, str]]:
        return None, {"traceparent": f"{method} {id}", "tracestate": "a=1"}

    def request_received(self, id: Any, method: str, context: dict[str, str]) -> None:
        self.seen.append(context)


SEEN = [{"traceparent": traceparent, "tracestate": "a=1"} for traceparent in ("add 1", "refuse 2", "note None")]


async def test_a_trace_context_in_headers() -> None:
    """Messages that are sent together carry none, and a header of the caller takes precedence."""
    hooks = Tracing()
    async with serving(Endpoint(FUNCTIONS, hooks=hooks)) as url, AsyncHttpClient(url, hooks=hooks) as client:
        await use(client)
        assert hooks.seen == SEEN
        await client.call_batch([("add", [1, 2]), ("add", [1, 2])])
        await client.call("add", [1, 2], headers={"traceparent": "own"})
    assert hooks.seen[3:5] == [{}, {}]
    assert hooks.seen[5]["traceparent"] == "own"
    hooks = Tracing()
    with wsgi_server(WsgiEndpoint(FUNCTIONS, hooks=hooks)) as url, HttpClient(url, hooks=hooks) as client:
        client.call("add", [1, 2])
    assert hooks.seen == SEEN[:1]


async def test_a_service_of_nats_and_its_client(tmp_path: Path) -> None:
    pytest.importorskip("nats", reason="the extra `nats` is not installed")
    needs.require("nats-server")
    from jsonrpc_fast.adapters.nats import Service, ServiceClient

    from .support.nats_server import connected, nats_server
    from .support.waiting import eventually

    with nats_server(tmp_path) as server:
        async with connected(server) as connection:
            served, called, tracing = Recorder(), Recorder(), Tracing()
            async with Service(connection, "s", FUNCTIONS, hooks=served):
                await use(ServiceClient(connection, "s", timeout=10, hooks=called))
                await eventually(lambda: len(served.events) == len(REQUESTS))
                with pytest.raises(ConnectionLost):
                    await ServiceClient(connection, "nobody", timeout=10, hooks=called).call("add")
            async with Service(connection, "t", FUNCTIONS, hooks=tracing):
                await use(ServiceClient(connection, "t", timeout=10, hooks=tracing))
                await eventually(lambda: len(tracing.seen) == len(SEEN))
    assert (called.events[:-2], served.events, tracing.seen) == (CALLS, REQUESTS, SEEN)
    assert called.events[-1] == ("settled", 1, "add", Outcome.LOST, None)


@contextlib.asynccontextmanager
async def mcp_clients(served: Recorder, called: Recorder) -> AsyncIterator[list[Any]]:
    from jsonrpc_fast.mcp import connect
    from jsonrpc_fast.mcp.server import Server

    server = Server("sums", "1.0")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    app = McpEndpoint(server, session_options={"hooks": served})
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(serving(app, lifespan="on"))
        yield [
            await stack.enter_async_context(connect(f"{url}/mcp", mode=version, hooks=called))
            for version in ("2025-11-25", "2026-07-28")
        ]


async def test_mcp_over_http() -> None:
    """With sessions, and in the revision without them."""
    pytest.importorskip("jsonschema_rs", reason="the extra `mcp` is not installed")
    served, called = Recorder(), Recorder()
    async with mcp_clients(served, called) as clients:
        for client in clients:
            for events in (called.events, served.events):
                events.clear()
            await client.call_tool("add", {"a": 1, "b": 2})
            for events, kind in ((called.events, "settled"), (served.events, "served")):
                found = [event for event in events if event[0] == kind]
                assert [event[2:] for event in found] == [("tools/call", Outcome.RESULT, None)]


@rows(
    "error, outcome",
    [
        (None, Outcome.RESULT),
        (RpcError(5, "no"), Outcome.ERROR),
        (InvalidResponse(), Outcome.FAULT),
        (HttpStatusError(500, {}, b""), Outcome.FAULT),
        (CallTimeout(), Outcome.TIMEOUT),
        (ConnectionLost(), Outcome.LOST),
        (asyncio.CancelledError(), Outcome.CANCELLED),
    ],
)
def test_outcomes(error: BaseException | None, outcome: Outcome) -> None:
    assert outcome_of(error) == (outcome, 5 if outcome is Outcome.ERROR else None)


async def test_calls_that_fail() -> None:
    """If an exchange fails, each of its calls settles; a call that is not sent is not reported."""
    called = Recorder()
    async with AsyncHttpClient(f"http://127.0.0.1:{free_port()}/", hooks=called) as client:
        with pytest.raises(ConnectionLost):
            await client.call_batch([("a", None), ("b", None)])
        with pytest.raises(CallTimeout):
            await client.call("c", timeout=1e-9)
        with pytest.raises(ValueError, match="timeout"):
            await client.call("e", timeout=0)
        with pytest.raises(TypeError):
            await client.call("d", 5)  # type: ignore[arg-type]
    assert [event[1:] for event in called.events if event[0] == "settled"] == [
        (1, "a", Outcome.LOST, None),
        (2, "b", Outcome.LOST, None),
        (3, "c", Outcome.TIMEOUT, None),
    ]
    assert len(called.events) == 6
