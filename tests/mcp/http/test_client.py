"""The transport of a client over Streamable HTTP: what it sends, and how it reads the responses."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import version
from typing import Any

import httpx2
import pytest

from jsonrpc_fast import mcp
from jsonrpc_fast.codec import Notification, Request, Response
from jsonrpc_fast.errors import CallTimeout, ConnectionLost, HandshakeError, HttpStatusError, InvalidResponse, RpcError
from jsonrpc_fast.mcp.http import sending
from jsonrpc_fast.mcp.http.client import MAX_OPEN_REQUESTS, StreamableHttpClient
from jsonrpc_fast.profile import MCP_2025_03_26, MCP_2025_11_25

from ...support.http_script import Answer, HttpRequest, Reply, http_script, legacy, modern
from ...support.mcp_script import DISCOVERED, INITIALIZED
from ...support.tables import rows
from ...support.waiting import eventually, settle

pytestmark = pytest.mark.usefixtures("each_loop")

TEXT = {"content": [{"type": "text", "text": "hi"}]}
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}'


class Faults:
    """Hooks that keep the faults of the server."""

    def __init__(self, faults: list[BaseException]) -> None:
        self.peer_fault = faults.append
        self.fault = faults.append


def shown(request: HttpRequest) -> dict[str, str]:
    """Return the headers of a request that the protocol defines."""
    return {name: value for name, value in request.headers.items() if name.startswith("mcp-")}


async def echo(request: HttpRequest, reply: Reply) -> None:
    if "id" in request.message:
        await reply.send(request.result(TEXT))
    else:
        await reply.accept()


async def test_the_headers_of_a_legacy_revision() -> None:
    async with http_script(legacy(echo)) as server:
        async with mcp.connect(server.url, headers={"X-Key": "k", "Accept": "nothing"}) as client:
            assert client.server.revision.version == "2025-11-25"
            assert await client.call_tool("add", {"a": 1}) == TEXT
        probe, initialize, initialized, call = (request for request in server.requests if request.body)
    session = {"mcp-session-id": "a-session", "mcp-protocol-version": "2025-11-25"}
    assert shown(probe) == {"mcp-protocol-version": "2026-07-28", "mcp-method": "server/discover"}
    assert [request.rpc for request in (initialize, initialized, call)] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    assert [shown(request) for request in (initialize, initialized, call)] == [{}, session, session]
    assert [shown(request) for request in server.sent("GET")] == [session]
    assert [shown(request) for request in server.sent("DELETE")] == [session]
    assert {request.headers["x-key"] for request in server.requests} == {"k"}
    assert call.headers["accept"] == "application/json, text/event-stream"
    assert server.sent("GET")[0].headers["accept"] == "text/event-stream"
    assert call.headers["content-type"] == "application/json"


async def test_what_follows_initialize_waits_for_its_session() -> None:
    """A program may write everything to a relay at once, as it may to a server on stdio."""
    received: list[Any] = []
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    async with http_script(legacy(echo)) as server:
        transport = StreamableHttpClient(server.url, profile=MCP_2025_11_25)
        transport.onmessage = received.append
        await transport.start()
        transport.send(Request(1, "initialize", params))
        transport.send(Notification("notifications/initialized"))
        transport.send(Request(2, "tools/call", {"name": "add"}))
        transport.send(Request(3, "tools/call", {"name": "add"}))
        transport.send(Notification("notifications/cancelled", {"requestId": 3}))
        await eventually(lambda: len(received) == 2)
        await transport.close()
        session = {"mcp-session-id": "a-session", "mcp-protocol-version": "2025-11-25"}
        sent = [(request.rpc, shown(request)) for request in server.requests if request.body]
        assert sent[:2] == [("initialize", {}), ("notifications/initialized", session)]
        assert sorted(sent[2:]) == [("notifications/cancelled", session), ("tools/call", session)]


async def test_the_headers_of_2026_07_28() -> None:
    async with http_script(modern(echo)) as server:
        async with mcp.connect(server.url) as client:
            await client.call_tool("größe", {})
            await client.call("resources/read", {"uri": "file:///a b"})
            await client.call("tools/list")
        assert [shown(request) for request in server.requests] == [
            {"mcp-protocol-version": "2026-07-28", "mcp-method": "server/discover"},
            {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "=?base64?Z3LDtsOfZQ==?="},
            {"mcp-protocol-version": "2026-07-28", "mcp-method": "resources/read", "mcp-name": "file:///a b"},
            {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"},
        ]


async def test_a_stream_of_events_answers_a_request() -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        await reply.begin()
        await reply.event(PROGRESS % request.message["params"]["_meta"]["progressToken"])
        await reply.event(request.result(TEXT))

    progress: list[Any] = []
    async with http_script(legacy(answer)) as server, mcp.connect(server.url, mode="legacy") as client:
        assert await client.call_tool("add", on_progress=progress.append) == TEXT
        assert progress == [{"progress": 1}]


async def test_an_error_in_an_event_of_type_error() -> None:
    """Some servers send it so. The specification has no such event, and one that is not a response is a fault."""
    errors = [
        b'event: error\ndata: {"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"quota"}}\n\n',
        b'event: error\ndata: {"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"quota"}}\n\n',
        b"event: error\ndata: quota\n\n",
    ]

    async def answer(request: HttpRequest, reply: Reply) -> None:
        await reply.begin()
        await reply.raw(events % request.id if b"%d" in events else events)

    for events in errors:
        for revision in (legacy, modern):
            faults: list[BaseException] = []
            async with (
                http_script(revision(answer)) as server,
                mcp.connect(server.url, hooks=Faults(faults)) as client,
            ):
                with pytest.raises((RpcError, ConnectionLost)) as caught:
                    await asyncio.wait_for(client.call_tool("add"), 20)
                assert str(caught.value) == (
                    "quota (-32000)" if b"code" in events else "the stream of the server ended before the response"
                )
            assert [str(fault) for fault in faults] == (
                [] if b"code" in events else ["the server sent an event of the type `error` that is no response"]
            )


async def test_calls_in_flight_are_as_many_posts() -> None:
    waiting: list[tuple[HttpRequest, Reply]] = []
    all_wait = asyncio.Event()

    async def answer(request: HttpRequest, reply: Reply) -> None:
        waiting.append((request, reply))
        if len(waiting) == 32:
            all_wait.set()
        await all_wait.wait()
        await reply.send(request.result({"content": [{"type": "text", "text": request.message["params"]["name"]}]}))

    async with http_script(modern(answer)) as server, mcp.connect(server.url) as client:
        results = await asyncio.gather(*[client.call_tool(f"tool {number}") for number in range(32)])
        assert [result["content"][0]["text"] for result in results] == [f"tool {number}" for number in range(32)]


async def test_the_error_in_the_body_of_a_refusal_is_raised() -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        error = {"code": -32602, "message": "no such tool"}
        await reply.send(json.dumps({"jsonrpc": "2.0", "id": request.id, "error": error}).encode(), 400)

    async with http_script(modern(answer)) as server, mcp.connect(server.url) as client:
        with pytest.raises(RpcError) as caught:
            await client.call_tool("add")
        assert (caught.value.code, caught.value.message) == (-32602, "no such tool")


# Streams that end too early, and sessions that end.


async def test_a_stream_that_breaks_is_resumed_after_its_last_event() -> None:
    progress: list[Any] = []
    calls: list[HttpRequest] = []

    async def answer(request: HttpRequest, reply: Reply) -> None:
        await reply.begin()
        if request.method == "POST":
            calls.append(request)
            await reply.event(id="e1", retry=60)  # SEP-1699: the server closes, the client polls
            return
        token = calls[0].message["params"]["_meta"]["progressToken"]
        if request.headers["last-event-id"] == "e1":
            await reply.event(PROGRESS % token, id="e2")
        else:
            await reply.event(calls[0].result(TEXT), id="e3")

    async with http_script(legacy(answer)) as server, mcp.connect(server.url, mode="legacy") as client:
        assert await client.call_tool("add", on_progress=progress.append) == TEXT
        resumed = [
            request.headers["last-event-id"] for request in server.sent("GET") if request.headers.get("last-event-id")
        ]
        assert resumed == ["e1", "e2"]
    assert progress == [{"progress": 1}]
    assert len(calls) == 1


async def test_resuming_a_stream_fails_after_some_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "_MAX_BACKOFF_SECONDS", 0.06)

    async def answer(request: HttpRequest, reply: Reply) -> None:
        if request.method == "POST":
            await reply.begin()
            await reply.event(id="e1", retry=1)
        else:
            await reply.send(b"busy", 503, "text/html")

    async with http_script(legacy(answer)) as server, mcp.connect(server.url, mode="legacy") as client:
        with pytest.raises(ConnectionLost, match="5 attempts to resume it failed") as caught:
            await client.call_tool("add")
        assert isinstance(caught.value.__cause__, HttpStatusError)
        assert len([request for request in server.sent("GET") if "last-event-id" in request.headers]) == 5


@pytest.mark.parametrize("revision", [legacy, modern])
async def test_a_stream_without_event_ids_is_not_resumed(revision: Callable[[Answer], Answer]) -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        await reply.begin()
        if revision is modern:
            await reply.event(id="e1", retry=1)

    async with http_script(revision(answer)) as server, mcp.connect(server.url) as client:
        with pytest.raises(ConnectionLost, match="ended before the response"):
            await client.call_tool("add")
        assert not any("last-event-id" in request.headers for request in server.requests)


async def test_the_get_stream_delivers_notifications_and_is_resumed() -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def answer(request: HttpRequest, reply: Reply) -> None:
        await reply.begin()
        last = request.headers.get("last-event-id", "0")
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": last}}
        await reply.event(json.dumps(note).encode(), id=f"{int(last) + 1}", retry=50)
        if last == "2":
            await reply.is_closed.wait()

    async with http_script(legacy(answer, listens=True)) as server:
        async with mcp.connect(
            server.url, mode="legacy", on_notification=lambda _, params: heard.put_nowait(params["data"])
        ):
            assert [await heard.get() for _ in range(3)] == ["0", "1", "2"]
        assert [request.rpc for request in server.requests][-1] == "DELETE"


@rows(
    ("status", "faults"),
    [
        (405, []),
        (403, ["HTTP status 403 (Forbidden)"]),
        (404, ["HTTP status 404 (Not Found)"]),
        (501, ["HTTP status 501 (Not Implemented)"]),
    ],
)
async def test_a_refused_get_stream_is_reported(status: int, faults: list[str]) -> None:
    """405 says that there is no such stream. Behind any other status there may be messages that are never heard."""
    found: list[BaseException] = []

    async def answer(request: HttpRequest, reply: Reply) -> None:
        await (reply.send(status=status) if request.rpc == "GET" else reply.send(request.result(TEXT)))

    async with http_script(legacy(answer, listens=True)) as server:
        async with mcp.connect(server.url, mode="legacy", hooks=Faults(found)) as client:
            await eventually(lambda: len(server.sent("GET")) == 1)
            assert await client.call_tool("add") == TEXT
        assert len(server.sent("GET")) == 1  # it is not asked again
    assert list(map(str, found)) == [f"{fault} from {server.url.removesuffix('/mcp')}" for fault in faults]


async def test_a_call_waits_until_the_get_stream_of_its_session_is_open() -> None:
    """Many servers drop a request or a notification that belongs to no call while there is no stream for it."""
    begun = iter(["first", "second"])
    ended: set[str] = set()
    order: list[tuple[str, str]] = []

    async def answer(request: HttpRequest, reply: Reply) -> None:
        session = request.headers.get("mcp-session-id", "")
        if request.rpc == "initialize":
            await reply.send(request.result(INITIALIZED), headers={"mcp-session-id": next(begun)})
        elif session in ended:
            await reply.send(status=404)
        elif request.rpc == "GET":
            await settle(200)  # a call that does not wait for it arrives first
            order.append((session, "listens"))
            await reply.begin()
            await reply.is_closed.wait()
        elif request.rpc == "tools/call":
            order.append((session, "calls"))
            await reply.send(request.result(TEXT))
        else:
            await reply.accept()

    async with http_script(answer) as server, mcp.connect(server.url, mode="legacy") as client:
        assert await client.call_tool("add") == TEXT
        ended.add("first")
        assert await client.call_tool("add") == TEXT
    assert order == [("first", "listens"), ("first", "calls"), ("second", "listens"), ("second", "calls")]


async def test_a_call_does_not_wait_for_long_for_the_get_stream() -> None:
    """Some servers send its head with the first message only."""
    called = asyncio.Event()

    async def answer(request: HttpRequest, reply: Reply) -> None:
        if request.rpc == "GET":
            await called.wait()
            await reply.begin()
            await reply.is_closed.wait()
        else:
            called.set()
            await reply.send(request.result(TEXT))

    async with http_script(legacy(answer, listens=True)) as server, mcp.connect(server.url, mode="legacy") as client:
        assert await client.call_tool("add", timeout=5) == TEXT


async def test_a_session_that_ended_is_begun_again() -> None:
    sessions = iter(["first", "second"])
    faults: list[BaseException] = []
    running = asyncio.Event()

    async def answer(request: HttpRequest, reply: Reply) -> None:
        session = request.headers.get("mcp-session-id")
        if request.rpc == "initialize":
            assert session is None
            await reply.send(request.result(INITIALIZED), headers={"mcp-session-id": next(sessions)})
        elif request.rpc == "notifications/initialized":
            await reply.accept()
        elif request.rpc != "tools/call":
            await reply.send(status=405)
        elif request.message["params"]["name"] == "long":
            await reply.begin()
            await reply.raw(b": alive\n\n")
            running.set()
            await reply.is_closed.wait()
        elif session == "first":
            await reply.send(b"gone", 404, "text/plain")
        else:
            await reply.send(request.result(TEXT))

    async with http_script(answer) as server:
        async with mcp.connect(server.url, mode="legacy", hooks=Faults(faults)) as client:
            accepted = asyncio.ensure_future(client.call_tool("long"))
            await running.wait()
            # Both find out at once, and one session is begun.
            assert await asyncio.gather(client.call_tool("a"), client.call_tool("b")) == [TEXT, TEXT]
            with pytest.raises(ConnectionLost, match="the server ended the session"):
                await accepted
        assert [request.message["id"] for request in server.sent("initialize")] == [1, 1]
        assert server.sent("DELETE")[0].headers["mcp-session-id"] == "second"
    assert len(server.sent("notifications/initialized")) == 2


async def test_a_session_that_cannot_be_begun_again_fails_the_call() -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        await reply.send(status=404)

    async with http_script(legacy(answer)) as server, mcp.connect(server.url, mode="legacy") as client:
        server.answer = answer
        with pytest.raises(HttpStatusError) as caught:
            await client.call_tool("add")
        assert caught.value.status == 404


async def test_a_get_stream_that_finds_the_session_ended_begins_another_one() -> None:
    sessions = iter(["first", "second"])
    renewed = asyncio.Event()

    async def answer(request: HttpRequest, reply: Reply) -> None:
        if request.rpc == "initialize":
            await reply.send(request.result(INITIALIZED), headers={"mcp-session-id": next(sessions)})
        elif request.rpc != "GET":
            await reply.accept()
        elif "last-event-id" in request.headers:
            await reply.send(status=404)
        else:
            await reply.begin()
            await reply.event(id="1", retry=1)
            if request.headers["mcp-session-id"] == "second":
                renewed.set()
                await reply.is_closed.wait()

    faults: list[BaseException] = []
    async with http_script(answer) as server, mcp.connect(server.url, mode="legacy", hooks=Faults(faults)):
        await renewed.wait()
    assert [str(fault) for fault in faults] == ["the server ended the session"]


async def test_a_get_stream_that_was_given_up_is_opened_again_with_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "_MAX_BACKOFF_SECONDS", 0.06)
    monkeypatch.setattr(sending, "RETRY_SECONDS", 0.05)
    given_up, opened = asyncio.Event(), asyncio.Event()
    is_down = True

    async def answer(request: HttpRequest, reply: Reply) -> None:
        if request.rpc != "GET":
            await reply.send(request.result(TEXT))
        elif is_down:
            await reply.send(status=503)
        else:
            await reply.begin()
            opened.set()
            await reply.is_closed.wait()

    class GivenUp:
        def fault(self, fault: BaseException) -> None:
            given_up.set()

    async with (
        http_script(legacy(answer, listens=True)) as server,
        mcp.connect(server.url, mode="legacy", hooks=GivenUp()) as client,
    ):
        await given_up.wait()
        is_down = False
        assert await client.call_tool("add") == TEXT
        await opened.wait()


async def test_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with http_script(modern(echo)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", "")
        async with mcp.connect("http://mcp.invalid/mcp") as client:
            assert await client.call_tool("add") == TEXT
        assert {request.path for request in proxy.requests} == {"http://mcp.invalid/mcp"}


# Cancellation.


async def test_a_cancelled_request_of_2026_07_28_only_closes_its_connection() -> None:
    closed = asyncio.Event()
    began = asyncio.Event()

    async def answer(request: HttpRequest, reply: Reply) -> None:
        await reply.begin()
        began.set()
        await reply.is_closed.wait()
        closed.set()

    async with http_script(modern(answer)) as server, mcp.connect(server.url) as client:
        call = asyncio.ensure_future(client.call_tool("add"))
        await began.wait()
        call.cancel()
        await closed.wait()
        assert [request.rpc for request in server.requests] == ["server/discover", "tools/call"]


async def test_a_request_that_times_out_before_2026_07_28_is_cancelled_by_a_notification() -> None:
    closed = asyncio.Event()

    async def answer(request: HttpRequest, reply: Reply) -> None:
        if request.rpc == "notifications/cancelled":
            await reply.accept()
            return
        await reply.is_closed.wait()
        closed.set()

    async with http_script(legacy(answer)) as server:
        async with mcp.connect(server.url, mode="legacy") as client:
            with pytest.raises(CallTimeout):
                await client.call_tool("add", timeout=0.5)  # the request arrives before
            await closed.wait()
        [call], [cancelled] = server.sent("tools/call"), server.sent("notifications/cancelled")
        assert cancelled.message["params"]["requestId"] == call.id


async def test_a_server_that_never_answers_the_probe_or_anything_else() -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        await reply.is_closed.wait()

    async with http_script(answer) as server:
        with pytest.raises(HandshakeError):
            async with mcp.connect(server.url, timeout=0.6):
                pass
        assert [request.rpc for request in server.requests] == ["server/discover", "initialize"]


# HTTP responses without a valid response in them.


@rows(
    ("status", "kind", "body", "error"),
    [
        (200, "text/html", b"<p>secret</p>", InvalidResponse),
        (200, "application/json", b"{", InvalidResponse),
        (200, "application/json", b"", InvalidResponse),
        (200, "application/json", b'{"jsonrpc":"2.0","id":77,"result":{}}', InvalidResponse),
        (200, "application/json", b'{"jsonrpc":"2.0","method":"notifications/x"}', InvalidResponse),
        (202, "application/json", b"", InvalidResponse),
        (204, "application/json", b"", InvalidResponse),
        (301, "text/html", b"moved", HttpStatusError),
        (401, "application/json", b'{"error":"secret"}', HttpStatusError),
        (403, "application/json", b'{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}', HttpStatusError),
        (404, "text/html", b"secret", HttpStatusError),
        (405, "text/html", b"secret", HttpStatusError),
        (429, "text/html", b"secret", HttpStatusError),
        (500, "text/html", b"secret" * 100_000, HttpStatusError),
        (503, "application/json", b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}', HttpStatusError),
    ],
)
async def test_an_answer_that_is_not_a_response(status: int, kind: str, body: bytes, error: type[Exception]) -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        await reply.send(body, status, kind, {"set-cookie": "secret=1", "retry-after": "3"})

    async with http_script(modern(answer)) as server, mcp.connect(server.url) as client:
        with pytest.raises(error) as caught:
            await client.call_tool("add")
        assert type(caught.value) is error
        assert "secret" not in f"{caught.value!r} {vars(caught.value)}"
        if isinstance(caught.value, HttpStatusError):
            assert (caught.value.status, caught.value.headers["retry-after"]) == (status, "3")


@rows(
    "data",
    [
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\ndata:",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {",
        b"not HTTP at all\r\n\r\n",
        b"",
    ],
)
async def test_a_connection_that_closes_in_the_middle(data: bytes) -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        await reply.raw(data)

    async with http_script(modern(answer)) as server, mcp.connect(server.url) as client:
        for _ in range(2):
            with pytest.raises(ConnectionLost):
                await client.call_tool("add")


async def test_a_server_that_is_not_there() -> None:
    async with http_script(echo) as server:
        url = server.url
    with pytest.raises(ConnectionLost):
        async with mcp.connect(url):
            pass


@rows("has_hook", [True, False])
async def test_a_response_settles_only_the_call_of_its_own_post(
    has_hook: bool, caplog: pytest.LogCaptureFixture
) -> None:
    first: list[HttpRequest] = []
    faults: list[BaseException] = []
    both = asyncio.Event()

    async def answer(request: HttpRequest, reply: Reply) -> None:
        if not first:
            first.append(request)
            await both.wait()
            await reply.send(request.result(TEXT))
            return
        await reply.begin()
        await reply.event(first[0].result({"content": []}))  # a response to the other call
        await reply.event(b'{"jsonrpc":"2.0","id":%d,"result":[]}' % first[0].id)  # and a malformed one
        await reply.event(request.result(TEXT))

    hooks = Faults(faults) if has_hook else None
    async with http_script(modern(answer)) as server, mcp.connect(server.url, hooks=hooks) as client:
        other = asyncio.ensure_future(client.call_tool("a"))
        while not first:
            await asyncio.sleep(0)
        assert await client.call_tool("b") == TEXT
        both.set()
        assert await other == TEXT
    assert [str(fault) for fault in faults] == ["a response belongs to no request of its stream"] * (2 * has_hook)
    assert not [record for record in caplog.records if record.levelno >= logging.INFO]  # a server can send any number


async def test_a_malformed_response_on_a_stream_fails_its_call() -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        await reply.begin()
        await reply.event(b'{"jsonrpc":"2.0","id":%d,"result":[]}' % request.id)

    async with http_script(modern(answer)) as server, mcp.connect(server.url) as client:
        with pytest.raises(InvalidResponse, match="result is not an object"):
            await client.call_tool("add")


async def test_the_limits_on_a_body_an_event_and_a_stream() -> None:
    limits = MCP_2025_11_25.limits.replace(message_bytes=1000)
    big = b'{"jsonrpc":"2.0","id":2,"result":{"x":"%s"}}' % (b"x" * 2000)
    packed = gzip.compress(b'{"jsonrpc":"2.0","id":2,"result":{"x":"%s"}}' % (b"x" * 10_000_000))
    answers: list[Callable[[Reply], Awaitable[None]]] = [
        lambda reply: reply.send(big),
        lambda reply: reply.send(packed, headers={"content-encoding": "gzip"}),
        lambda reply: reply.send(b"data: " + big + b"\n\n", kind="text/event-stream"),
        lambda reply: reply.send(b"data: {}\n\n" * 1000, kind="text/event-stream"),
        lambda reply: reply.send(b"xx", headers={"content-encoding": "gzip"}),
        lambda reply: reply.send(b"xx", headers={"content-encoding": "br"}),
    ]

    async def answer(request: HttpRequest, reply: Reply) -> None:
        await answers[len(server.requests) - 2](reply)

    async with http_script(modern(answer)) as server:
        transport = StreamableHttpClient(server.url, profile=MCP_2025_11_25, limits=limits, max_stream_bytes=5000)
        async with mcp.connect(transport) as client:
            for _ in answers:
                with pytest.raises(InvalidResponse):
                    await client.call_tool("add")
    assert len(server.requests) == 1 + len(answers)


async def test_a_compressed_answer() -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        assert request.headers["accept-encoding"] == "gzip"
        await reply.send(gzip.compress(request.result(TEXT)), headers={"content-encoding": "gzip"})

    async with http_script(modern(answer)) as server, mcp.connect(server.url) as client:
        assert await client.call_tool("add") == TEXT


@pytest.mark.ci
async def test_a_compressed_answer_does_not_stop_the_loop() -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        body = gzip.compress(b"\n" * (32 << 20) + b"data: " + request.result(TEXT) + b"\n\n")
        await reply.send(body, kind="text/event-stream", headers={"content-encoding": "gzip"})

    async with http_script(modern(answer)) as server, mcp.connect(server.url) as client:
        turns = 0
        call = asyncio.ensure_future(client.call_tool("add"))
        while not call.done():
            await asyncio.sleep(0)
            turns += server.requests[-1].rpc == "tools/call"
        assert await call == TEXT
        assert turns > 400  # 512 pieces


async def test_a_server_that_is_silent() -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        await reply.begin()
        await reply.is_closed.wait()

    async with http_script(modern(answer)) as server:
        transport = StreamableHttpClient(server.url, profile=MCP_2025_11_25, read_seconds=0.1)
        async with mcp.connect(transport) as client:
            with pytest.raises(ConnectionLost) as caught:
                await client.call_tool("add")
            assert isinstance(caught.value.__cause__, CallTimeout)


# Other origins.


@rows("status", [307, 308])
async def test_a_redirect_within_the_origin_is_followed_and_remembered(status: int) -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        if request.path == "/mcp":
            await reply.send(status=status, headers={"location": "/mcp/"})
        elif request.rpc == "server/discover":
            await reply.send(request.result(DISCOVERED))
        else:
            await reply.send(request.result(TEXT))

    async with http_script(answer) as server, mcp.connect(server.url, headers={"x-key": "k"}) as client:
        assert await client.call_tool("add") == TEXT
        assert [request.path for request in server.requests] == ["/mcp", "/mcp/", "/mcp/"]


@rows("follows", [False, True])
@rows("place", ["127.0.0.1", "localhost", "user:secret@127.0.0.1"])
@pytest.mark.ci
async def test_nothing_is_sent_to_another_origin(follows: bool, place: str) -> None:
    async with http_script(echo) as thief:

        async def answer(request: HttpRequest, reply: Reply) -> None:
            await reply.send(status=307, headers={"location": thief.url.replace("127.0.0.1", place)})

        async with (
            http_script(modern(answer)) as server,
            httpx2.AsyncClient(follow_redirects=follows, auth=("user", "secret")) as http,
            mcp.connect(server.url, http_client=http, headers={"x-key": "secret"}) as client,
        ):
            with pytest.raises(HttpStatusError) as caught:
                await client.call_tool("add")
            assert caught.value.status == 307
        assert thief.requests == []


async def test_redirects_that_never_end() -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        await reply.send(status=307, headers={"location": f"{request.path}x"})

    async with http_script(answer) as server:
        with pytest.raises(InvalidResponse, match="too many times"):
            async with mcp.connect(server.url):
                pass
        assert len(server.requests) == 6


# Headers that a tool requires.


async def test_arguments_are_repeated_in_headers_as_the_tool_asks() -> None:
    def tool(name: str, **properties: Any) -> dict[str, Any]:
        return {"name": name, "inputSchema": {"type": "object", "properties": properties}}

    region = {"type": "string", "x-mcp-header": "Region"}
    tools = [
        tool("query", region=region, limit={"type": "integer"}),
        tool("bad", a={"type": "number", "x-mcp-header": "A"}),
    ]
    faults: list[BaseException] = []

    async def answer(request: HttpRequest, reply: Reply) -> None:
        if request.rpc == "tools/list":
            await reply.send(request.result({"tools": tools}))
        elif "mcp-param-region" not in request.headers:
            error = {"code": -32020, "message": "Header mismatch"}
            await reply.send(json.dumps({"jsonrpc": "2.0", "id": request.id, "error": error}).encode(), 400)
        else:
            await reply.send(request.result(TEXT))

    async with http_script(modern(answer)) as server, mcp.connect(server.url, hooks=Faults(faults)) as client:
        assert await client.call_tool("query", {"region": "größe", "limit": 3}) == TEXT
        assert [tool["name"] for tool in await client.list_tools()] == ["query"]
        assert [request.rpc for request in server.requests[1:]] == [
            "tools/call",
            "tools/list",
            "tools/call",
            "tools/list",
        ]
        assert server.requests[3].headers["mcp-param-region"] == "=?base64?Z3LDtsOfZQ==?="
    assert "the tool 'bad' is left out" in str(faults[0])


# Ends.

OLD_ANYIO = tuple(int(number) for number in version("anyio").split(".")[:2]) < (4, 16)
"""Versions before 4.16 leave the socket open where a connect is cancelled in the turn in which it ends."""
leaves_no_socket = pytest.mark.filterwarnings(
    f"{'ignore' if OLD_ANYIO else 'error'}:Exception ignored in. <(socket.socket fd|function _SelectorTransport)"
    ":pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def everything_collected() -> Iterator[None]:
    """What the test has left open causes a warning, and so a failure, of this test."""
    yield
    gc.collect()


@leaves_no_socket
@pytest.mark.usefixtures("everything_collected")
@rows("turns", [0, 1, 2, 5, 10, 20, 30, 50, 80, 120, 200, 400])
async def test_cancelling_a_client_anywhere_leaves_nothing(turns: int) -> None:
    async def slowly(request: HttpRequest, reply: Reply) -> None:
        await settle(10)
        await reply.begin()
        await settle(10)
        if request.rpc == "tools/call":
            await reply.event(request.result(TEXT))

    async def use(url: str) -> None:
        async with mcp.connect(url) as client:
            await asyncio.gather(*[client.call_tool("add") for _ in range(4)])

    async with http_script(legacy(slowly, listens=True)) as server:
        task = asyncio.ensure_future(use(server.url))
        await settle(turns)
        task.cancel()
        await asyncio.wait([task])


@leaves_no_socket
@pytest.mark.usefixtures("everything_collected")
@pytest.mark.parametrize("revision", [legacy, modern])
async def test_a_call_that_is_cancelled_at_any_await_leaves_nothing(revision: Callable[[Answer], Answer]) -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        if request.rpc == "notifications/cancelled":
            await reply.accept()
            return
        await reply.begin()
        if request.rpc == "GET":
            id = int(request.headers["last-event-id"])
            await reply.event(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}' % id)
        elif revision is legacy and request.id % 2:
            await reply.event(id=str(request.id), retry=1)
        else:
            await asyncio.sleep(0)
            await reply.event(request.result({"content": []}))

    async with http_script(revision(answer)) as server:
        transport = StreamableHttpClient(server.url, profile=MCP_2025_11_25)
        async with mcp.connect(transport) as client:
            for turns in range(0, 80, 2):
                call = asyncio.ensure_future(client.call_tool("add"))
                for _ in range(turns):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.wait([call])
                gc.collect(0)
            assert await client.call_tool("add") == {"content": []}
        assert (len(transport._posts), len(transport._tasks), len(transport._notices)) == (0, 0, 0)
        assert (transport.write_buffer_bytes, transport._slots._value) == (0, 256)


async def test_a_batch_of_responses_ends_the_requests_of_its_batch() -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        results = [{"jsonrpc": "2.0", "id": item["id"], "result": {}} for item in request.message]
        await reply.send(json.dumps(results).encode())

    received: list[Any] = []
    failed: list[Any] = []
    async with http_script(answer) as server:
        transport = StreamableHttpClient(server.url, profile=MCP_2025_03_26)
        transport.onmessage = received.append
        transport.onerror = failed.append
        transport.onfail = lambda _, error: failed.append(error)
        await transport.start()
        transport.send([Request(1, "ping"), Request(2, "ping")])
        await eventually(lambda: bool(received) and not transport.write_buffer_bytes)
        await settle()
        await transport.close()
    assert (received, failed) == ([[Response(1, {}), Response(2, {})]], [])


async def test_the_client_of_the_user_is_not_closed() -> None:
    async with http_script(modern(echo)) as server, httpx2.AsyncClient(headers={"x-key": "own"}) as http:
        async with mcp.connect(server.url, http_client=http) as client:
            await client.ping()
        assert not http.is_closed
        assert server.requests[-1].headers["x-key"] == "own"


async def test_a_client_over_a_transport_of_the_user() -> None:
    """The same over a mock, whose responses are read already."""

    def answer(request: Any) -> Any:
        sent = json.loads(request.content)
        result = (
            DISCOVERED if sent["method"] == "server/discover" else {"tools": [], "resultType": "complete", "ttlMs": 0}
        )
        text = json.dumps({"jsonrpc": "2.0", "id": sent["id"], "result": result}).encode()
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        return httpx2.Response(200, content=gzip.compress(text), headers=headers)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    async with http, mcp.connect("http://server/mcp", http_client=http) as client:
        assert await client.list_tools() == []


async def test_arguments_that_do_not_belong_together() -> None:
    for arguments in ({"headers": {}}, {"auth": ("a", "b")}, {"http_client": object()}):
        with pytest.raises(TypeError, match="apply to a URL"):
            mcp.connect("program", **arguments)
    with pytest.raises(TypeError, match="apply to a program"):
        mcp.connect("http://127.0.0.1/mcp", "argument")
    with pytest.raises(TypeError, match="pass auth to the HTTP client"):
        async with httpx2.AsyncClient() as http:
            mcp.connect("http://127.0.0.1/mcp", auth=("a", "b"), http_client=http)
    for wrong in (object(), httpx2.Client(), "http://127.0.0.1"):
        with pytest.raises(TypeError, match="the HTTP client must be an "):
            mcp.connect("http://127.0.0.1/mcp", http_client=wrong)
    with pytest.raises(ValueError, match="have a host"):
        mcp.connect("http:///mcp")


def sampling(id: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"sampling/createMessage","params":{}}' % id


SAID = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "x"}}


@rows("accepts_responses", [True, False])
@pytest.mark.ci
async def test_a_server_that_asks_without_end_holds_nothing_up(accepts_responses: bool) -> None:
    asked = 0

    def sample(params: dict[str, Any]) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return SAID

    async def answer(request: HttpRequest, reply: Reply) -> None:
        if request.rpc == "tools/list":
            await reply.begin()
            for id in range(1_000_000):
                await reply.event(sampling(id))
        elif accepts_responses:
            await reply.accept()
        else:
            await reply.is_closed.wait()

    async with http_script(legacy(answer)) as server:
        client = mcp.connect(server.url, mode="legacy", handlers={"sampling/createMessage": sample})
        async with client:
            call = asyncio.ensure_future(client.list_tools())
            await eventually(lambda: asked >= (1 + accepts_responses) * MAX_OPEN_REQUESTS, seconds=60)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert accepts_responses or asked == MAX_OPEN_REQUESTS
        # Closing sends nothing to a server that floods.
        if not accepts_responses:
            assert server.sent("DELETE") == []


@pytest.mark.ci
async def test_many_requests_of_a_server_are_all_answered() -> None:
    count = MAX_OPEN_REQUESTS + 20
    everything = asyncio.Event()

    async def answer(request: HttpRequest, reply: Reply) -> None:
        if request.rpc == "tools/list":
            await reply.begin()
            reply.writer.write(b"".join([b"data: %b\n\n" % sampling(id) for id in range(count)]))
            cancelled = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1000000}}'
            for id in range(1_000_000, 1_000_000 + count):  # each is cancelled, and so gets no response
                await reply.event(sampling(id))
                await reply.event(cancelled.replace(b"1000000", b"%d" % id))
            await everything.wait()
            await reply.event(request.result({"tools": []}))
        else:
            await reply.accept()
            if {sent.id for sent in server.sent("response")} >= set(range(count)):
                everything.set()

    async def sample(params: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return SAID

    handlers = {"sampling/createMessage": sample}
    async with (
        http_script(legacy(answer)) as server,
        mcp.connect(server.url, mode="legacy", handlers=handlers, timeout=30) as client,
    ):
        assert await client.list_tools() == []


OLD_EVENT = b"event: endpoint\ndata: /messages?session=1\n\n"


@rows(
    ("status", "kind", "body", "is_old"),
    [
        (405, "text/event-stream", OLD_EVENT, True),
        (404, "text/event-stream; charset=utf-8", b": hello\n\n" + OLD_EVENT, True),
        (400, "text/event-stream", OLD_EVENT, True),
        (403, "text/event-stream", OLD_EVENT, False),
        (405, "text/event-stream", b"event: message\ndata: {}\n\n" + OLD_EVENT, False),
        (405, "text/event-stream", b"data: " + b"x" * 100_000, False),
        (405, "text/event-stream", b"", False),
        (405, "text/html", OLD_EVENT, False),
    ],
)
async def test_a_server_that_has_only_http_and_sse_is_named(status: int, kind: str, body: bytes, is_old: bool) -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        if request.rpc == "GET":
            await reply.send(body, kind=kind)
        else:
            await reply.send(b"secret", status, "text/plain")

    async with http_script(answer) as server:
        for mode in ("auto", "legacy"):
            with pytest.raises((HandshakeError, HttpStatusError)) as caught:
                await mcp.connect(server.url, mode=mode).__aenter__()
            assert isinstance(caught.value, HandshakeError) == is_old
            assert ("only HTTP+SSE of 2024-11-05" in str(caught.value)) == is_old
