"""Fail-over between servers: what is sent again, and to which; with both libraries, sync and async."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

pytest.importorskip("anyio", reason="the extra `http` is not installed")

from jsonrpc_fast.errors import CallTimeout, ConnectionLost, HttpStatusError
from jsonrpc_fast.http import Endpoint
from jsonrpc_fast.http import upstreams as module
from jsonrpc_fast.http.client import AsyncHttpClient, HttpClient
from jsonrpc_fast.http.upstreams import MAX_REST_SECONDS, Upstreams
from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.profile import JSONRPC, JSONRPC_1, Profile

from ..support.tables import rows
from ..support.waiting import free_port, settle

LIBRARIES = [pytest.importorskip("httpx2", reason="the extra `http` is not installed")]
RESULT = b'{"jsonrpc":"2.0","id":%d,"result":"%s"}'
FAR = "Mon, 99999999999999999999 Jan 2026 00:00:00 GMT"
REFUSED, BROKEN, SILENT = "ConnectError", "ReadError", "ReadTimeout"


class Clock:
    """A turned clock: waiting moves it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        monkeypatch.setattr(module, "time", self)
        monkeypatch.setattr(module, "anyio", self)
        self.monotonic = self.current_time = lambda: self.now

        self.sleep: Any = self._wait

    def use_async(self) -> None:
        self.sleep = self._wait_async

    def _wait(self, seconds: float) -> None:
        self.waits.append(round(seconds, 3))
        self.now += seconds

    async def _wait_async(self, seconds: float) -> None:
        self._wait(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Servers:
    """Servers that follow a script, one step for each request, and then respond.

    A step is the name of an exception of the library, a status, or a status with headers.

    Attributes:
        seen: The hosts of the requests, in order.
    """

    def __init__(self, http: Any, **scripts: list[Any]) -> None:
        self.http = http
        self.exceptions: dict[str, type[Exception]] = vars(http)
        self.seen: list[str] = []
        self.requests: list[Any] = []
        self.scripts: dict[str, Iterator[Any]] = {host: iter(steps) for host, steps in scripts.items()}

    def handle(self, request: Any) -> Any:
        host = request.url.host
        self.seen.append(host)
        self.requests.append(request)
        step: Any = next(self.scripts[host], 200)
        if isinstance(step, str):
            raise self.exceptions[step](step)
        status, headers = step if isinstance(step, tuple) else (step, {})
        content = RESULT % (1, host.encode()) if status == 200 else b"no"
        return self.http.Response(status, headers=headers, content=content)

    def upstreams(self, rest_seconds: float = 1.0, **options: Any) -> Upstreams:
        urls = [f"http://{host}/rpc" for host in self.scripts]
        return resting(Upstreams(*urls, transport=self.http.MockTransport(self.handle), **options), rest_seconds)


def resting(upstreams: Upstreams, seconds: float) -> Upstreams:
    """Let an upstream rest for so long after a failure."""
    upstreams._rest_seconds = seconds
    return upstreams


def call(clock: Clock, is_async: bool, upstreams: Upstreams, method: str = "get", **options: Any) -> Any:
    """Return the result of a call with a new client, whose first call has the id 1."""

    async def run() -> Any:
        clock.use_async()
        async with AsyncHttpClient("http://any/", transport=upstreams, **options) as client:
            return await client.call(method)

    if is_async:
        return asyncio.run(run())
    with HttpClient("http://any/", transport=upstreams, **options) as client:
        return client.call(method)


def may_repeat(method: str) -> bool:
    return method == "get"


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.__name__)
def http(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@rows(
    "a, b, method, seen, outcome",
    [
        # Nothing was served: any request moves on.
        ([REFUSED], [], "set", "ab", "b"),
        (["ConnectTimeout"], [], "set", "ab", "b"),
        ([429], [], "set", "ab", "b"),
        # It may have been served: only a request that may be repeated moves on.
        ([BROKEN], [], "get", "ab", "b"),
        ([503], [], "get", "ab", "b"),
        ([502], [], "get", "ab", "b"),
        ([SILENT], [], "get", "ab", "b"),
        ([BROKEN], [], "set", "a", ConnectionLost),
        ([503], [], "set", "a", HttpStatusError),
        ([SILENT], [], "set", "a", CallTimeout),
        # A response is a response.
        ([500], [], "get", "a", HttpStatusError),
        ([404], [], "get", "a", HttpStatusError),
        # No more attempts.
        ([REFUSED] * 2, [REFUSED] * 2, "get", "aba", ConnectionLost),
        ([429] * 2, [429] * 2, "get", "aba", HttpStatusError),
        # The third attempt waits for the first server.
        ([REFUSED], [REFUSED], "get", "aba", "a"),
    ],
)
def test_attempts(
    http: Any, is_async: bool, clock: Clock, a: list[Any], b: list[Any], method: str, seen: str, outcome: Any
) -> None:
    servers = Servers(http, a=a, b=b)
    upstreams = servers.upstreams(may_repeat=may_repeat)
    if isinstance(outcome, str):
        assert call(clock, is_async, upstreams, method) == outcome
    else:
        with pytest.raises(outcome):
            call(clock, is_async, upstreams, method)
    assert "".join(servers.seen) == seen


@rows("profile", [JSONRPC_1, JSONRPC.replace(optional_jsonrpc=True, writes="unversioned")])
def test_a_request_of_any_form_may_be_repeated(http: Any, is_async: bool, clock: Clock, profile: Profile) -> None:
    servers = Servers(http, a=[503], b=[])
    assert call(clock, is_async, servers.upstreams(may_repeat=may_repeat), profile=profile) == "b"


def test_an_exception_says_whether_the_request_may_have_been_served(http: Any, is_async: bool, clock: Clock) -> None:
    for script, was_sent in (
        ([REFUSED] * 3, False),
        ([BROKEN, REFUSED, REFUSED], "maybe"),
        ([503, REFUSED, REFUSED], "maybe"),
        ([REFUSED, 503, REFUSED], "maybe"),
        ([503, 429, 429], "maybe"),
        ([BROKEN, 429, 429], "maybe"),
        ([BROKEN, (429, {"retry-after": "600"})], "maybe"),
    ):
        servers = Servers(http, a=script)
        with pytest.raises(ConnectionLost) as caught:
            call(clock, is_async, servers.upstreams(may_repeat=may_repeat))
        assert caught.value.was_sent == was_sent
        assert len(servers.seen) == len(script)


def test_an_upstream_that_failed_rests(http: Any, is_async: bool, clock: Clock) -> None:
    """Twice as long after each failure in a row."""
    servers = Servers(http, a=[REFUSED, REFUSED, 200, REFUSED], b=[])
    upstreams = servers.upstreams(rest_seconds=10)
    for seconds, seen in ((0, "ab"), (9.9, "b"), (0.2, "ab"), (10.1, "b"), (10, "a"), (0, "ab"), (10.1, "a")):
        servers.seen.clear()
        clock.now += seconds
        call(clock, is_async, upstreams)
        assert "".join(servers.seen) == seen
    assert clock.waits == []


async def test_the_failures_of_calls_in_flight_are_one(http: Any, clock: Clock) -> None:
    gate = asyncio.Event()

    async def handle(request: Any) -> Any:
        if request.url.host == "a" and clock.now < 1010:
            await gate.wait()
            clock.now += 0.1
            raise http.ConnectError("refused")
        return http.Response(200, content=RESULT % (1, request.url.host.encode()))

    upstreams = resting(Upstreams("http://a/", "http://b/", transport=http.MockTransport(handle)), 9)

    async def call() -> Any:
        async with AsyncHttpClient("http://any/", transport=upstreams) as client:
            return await client.call("get")

    calls = [asyncio.ensure_future(call()) for _ in range(12)]
    await settle()
    gate.set()
    assert await asyncio.gather(*calls) == ["b"] * 12
    assert await call() == "b"
    clock.now = 1010.0
    assert await call() == "a"


@rows(
    "value, seconds",
    [("7", 7), ("date", 7), ("99999999999999999", MAX_REST_SECONDS), ("x", 1), ("-1", 1), ("0", 0), (FAR, 1)],
)
@rows("status", [429, 503])
def test_a_server_that_says_when(
    http: Any, is_async: bool, clock: Clock, value: str, seconds: float, status: int
) -> None:
    if value == "date":
        value = format_datetime(datetime.now(UTC) + timedelta(seconds=7), usegmt=True)
    clock.waits.clear()
    servers = Servers(http, a=[(status, {"retry-after": value})])
    assert call(clock, is_async, servers.upstreams(may_repeat=may_repeat), timeout=1000) == "a"
    assert clock.waits == ([pytest.approx(seconds, abs=1.01 if "GMT" in value else 0)] if seconds else [])


def test_a_server_that_asked_for_a_rest_gets_it_also_from_later_calls(http: Any, is_async: bool, clock: Clock) -> None:
    servers = Servers(http, a=[(429, {"retry-after": "20"})])
    upstreams = servers.upstreams(attempts=1)
    with pytest.raises(HttpStatusError):
        call(clock, is_async, upstreams)
    assert call(clock, is_async, upstreams) == "a"
    assert clock.waits == [20]


def test_a_server_that_failed_is_tried_where_there_is_no_other(http: Any, is_async: bool, clock: Clock) -> None:
    servers = Servers(http, a=[REFUSED])
    upstreams = servers.upstreams(attempts=1, rest_seconds=20)
    with pytest.raises(ConnectionLost):
        call(clock, is_async, upstreams)
    assert call(clock, is_async, upstreams) == "a"
    assert clock.waits == []


def test_nothing_waits_longer_than_the_call_may_take(http: Any, is_async: bool, clock: Clock) -> None:
    servers = Servers(http, a=[(429, {"retry-after": "20"})])
    with pytest.raises(HttpStatusError) as caught:
        call(clock, is_async, servers.upstreams(), timeout=19)
    assert (caught.value.status, clock.waits) == (429, [])


@rows("wait", ["0", "Mon, 05 Jan 2015 00:00:00 GMT"])
@rows("status", [429, 503])
def test_one_that_failed_is_asked_again_after_the_others(
    http: Any, is_async: bool, clock: Clock, wait: str, status: int
) -> None:
    """Even if it asks for no pause."""
    busy = (status, {"retry-after": wait})
    servers = Servers(http, a=[busy] * 9, b=[busy], c=[])
    assert call(clock, is_async, servers.upstreams(may_repeat=may_repeat)) == "c"
    assert (servers.seen, clock.waits) == (["a", "b", "c"], [])
    servers = Servers(http, a=[busy], b=[REFUSED])
    assert call(clock, is_async, servers.upstreams(may_repeat=may_repeat)) == "a"
    assert (servers.seen, clock.waits) == (["a", "b", "a"], [])


def test_the_others_are_waited_for_if_the_call_may_take_so_long(http: Any, is_async: bool, clock: Clock) -> None:
    for timeout, seen, waits in ((30, "ab", [20]), (20, "aa", [])):
        clock.waits.clear()
        servers = Servers(http, a=[REFUSED, 200, (429, {"retry-after": "0"})], b=[(429, {"retry-after": "20"})])
        upstreams = servers.upstreams(attempts=2, rest_seconds=0)
        with pytest.raises(HttpStatusError):
            call(clock, is_async, upstreams)
        call(clock, is_async, upstreams)
        servers.seen.clear()
        call(clock, is_async, upstreams, timeout=timeout)
        assert ("".join(servers.seen), clock.waits) == (seen, waits)


def test_if_all_rest_for_longer_than_the_call_may_take_nothing_is_sent(http: Any, is_async: bool, clock: Clock) -> None:
    servers = Servers(http, a=[(429, {"retry-after": "60"})], b=[(429, {"retry-after": "50"})])
    upstreams = servers.upstreams()
    with pytest.raises(HttpStatusError):
        call(clock, is_async, upstreams, timeout=10)
    servers.seen.clear()
    with pytest.raises(ConnectionLost, match=r"all upstreams rest, for 50\.0 s or more") as caught:
        call(clock, is_async, upstreams, timeout=10)
    assert (caught.value.was_sent, servers.seen, clock.waits) == (False, [], [])
    assert call(clock, is_async, upstreams, timeout=51) == "b"


def test_a_rest_that_no_server_asked_for_holds_no_new_request_up(http: Any, is_async: bool, clock: Clock) -> None:
    servers = Servers(http, a=[(429, {"retry-after": "20"})], b=[REFUSED])
    upstreams = servers.upstreams(rest_seconds=30)
    with pytest.raises(ConnectionLost):
        call(clock, is_async, upstreams, timeout=10)
    assert call(clock, is_async, upstreams, timeout=10) == "b"
    assert clock.waits == []


def test_a_failure_is_raised_before_a_rest_that_outlasts_the_call(http: Any, is_async: bool, clock: Clock) -> None:
    servers = Servers(http, a=[REFUSED])
    with pytest.raises(ConnectionLost, match="ConnectError"):
        call(clock, is_async, servers.upstreams(rest_seconds=20), timeout=10)
    assert clock.waits == []


def test_each_attempt_has_the_time_that_is_left(http: Any, is_async: bool, clock: Clock) -> None:
    servers = Servers(http, a=[(429, {"retry-after": "20"})])
    call(clock, is_async, servers.upstreams(), timeout=50)
    call(clock, is_async, servers.upstreams(attempt_seconds=5), timeout=50)
    call(clock, is_async, servers.upstreams(attempt_seconds=5), timeout=None)
    assert [request.extensions["timeout"]["read"] for request in servers.requests] == [50, 30, 5, 5]


def test_what_an_upstream_gets(http: Any, is_async: bool, clock: Clock) -> None:
    servers = Servers(http, a=[])
    upstreams = Upstreams("http://user:p%40ss@a:81/key?x=1", transport=http.MockTransport(servers.handle))
    assert call(clock, is_async, upstreams, headers={"x-own": "1"}, auth=("other", "x")) == "a"
    [request] = servers.requests
    assert str(request.url) == "http://user:p%40ss@a:81/key?x=1"
    assert request.headers["host"] == "a:81"
    assert request.headers.get_list("authorization") == [http_basic("user:p@ss")]
    assert (request.headers["x-own"], request.headers["content-type"]) == ("1", "application/json")
    assert request.headers.get_list("content-length") == [str(len(request.content))]


def http_basic(user: str) -> str:
    import base64

    return "Basic " + base64.b64encode(user.encode()).decode()


def test_batches(http: Any, clock: Clock) -> None:
    """A batch is repeated only if each of its methods may be."""

    def batch(items: list[Any]) -> str:
        servers = Servers(http, a=[BROKEN], b=[])
        with (
            HttpClient("http://any/", transport=servers.upstreams(may_repeat=may_repeat)) as client,
            pytest.raises(Exception, match=r"not a batch|connection broke"),
        ):
            client.call_batch(items)
        return "".join(servers.seen)

    assert batch([("get", None), ("get", None)]) == "ab"
    assert batch([("get", None), ("set", None)]) == "a"


def test_a_text_that_is_no_message_is_not_repeated(http: Any, clock: Clock) -> None:
    servers = Servers(http, a=[BROKEN], b=[])
    with http.Client(transport=servers.upstreams(may_repeat=lambda _: True)) as client, pytest.raises(http.ReadError):
        client.post("http://any/", content=b"x")
    assert servers.seen == ["a"]


def test_the_log_names_the_host_alone(http: Any, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    servers = Servers(http, a=[REFUSED])
    upstreams = resting(Upstreams("http://u:sesame@a/sesame", transport=http.MockTransport(servers.handle)), 0)
    call(clock, False, upstreams)
    assert [record.getMessage() for record in caplog.records if record.name == "jsonrpc_fast.http"] == [
        "the upstream a failed (ConnectError: ConnectError) and is not used for 0.0 s"
    ]


@rows(
    "make, error",
    [
        (lambda: Upstreams(), ValueError),
        (lambda: Upstreams("ftp://a"), ValueError),
        (lambda: Upstreams("http://a", attempts=0), ValueError),
        (lambda: Upstreams("http://a", may_repeat=1), TypeError),  # type: ignore[arg-type]
        (lambda: Upstreams(1), TypeError),  # type: ignore[arg-type]
        (lambda: Upstreams("http://a", transport=type("HTTPTransport", (), {"__module__": "httpx"})()), TypeError),
    ],
)
def test_wrong_arguments(make: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


async def test_real_servers() -> None:
    """One that is down, one that is busy, and one that serves; with the transport of the library."""
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    from ..support.asgi_servers import serving

    seen: list[str] = []

    async def busy(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append("busy")
            await send({"type": "http.response.start", "status": 429, "headers": [(b"retry-after", b"60")]})
            await send({"type": "http.response.body", "body": b""})

    async with serving(busy, lifespan="off") as one, serving(Endpoint({"add": lambda a, b: a + b})) as other:
        upstreams = resting(Upstreams(f"http://127.0.0.1:{free_port()}/", one, other), 60)
        async with AsyncHttpClient(one, transport=upstreams) as client:
            assert [await client.call("add", [1, 2]) for _ in range(3)] == [3, 3, 3]
        upstreams = Upstreams(f"http://127.0.0.1:{free_port()}/", other)
        with HttpClient(one, transport=upstreams) as blocking:
            assert await asyncio.to_thread(blocking.call, "add", [1, 2]) == 3
    assert seen == ["busy"]


async def test_mcp_without_sessions() -> None:
    """The MCP client takes a client of the library, and this is its transport."""
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    pytest.importorskip("jsonschema_rs", reason="the extra `mcp` is not installed")
    from jsonrpc_fast.mcp import connect
    from jsonrpc_fast.mcp.server import Server

    from ..support.asgi_servers import serving

    server = Server("sums", "1.0")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    async with serving(McpEndpoint(server), lifespan="on") as url:
        upstreams: Any = Upstreams(f"http://127.0.0.1:{free_port()}/mcp", f"{url}/mcp")
        async with (
            LIBRARIES[0].AsyncClient(transport=upstreams) as http_client,
            connect(f"{url}/mcp", mode="2026-07-28", http_client=http_client) as client,
        ):
            result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result["structuredContent"] == {"result": 3}
