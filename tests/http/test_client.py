"""The HTTP clients, sync and async, against endpoints and against made-up answers, over transports of httpx."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

pytest.importorskip("httpx", reason="the extra `http` is not installed")

import httpx

from jsonrpc_fast import LENIENT, CallTimeout, ConnectionLost, EncodeError, Notification, ParseError, Raw, RpcError
from jsonrpc_fast.errors import HttpStatusError, InvalidResponse
from jsonrpc_fast.http import Endpoint, WsgiEndpoint
from jsonrpc_fast.http.client import AsyncHttpClient, HttpClient

URL = "http://localhost/rpc"
RESULT = b'{"jsonrpc":"2.0","id":1,"result":3}'
ERROR = b'{"jsonrpc":"2.0","id":%s,"error":{"code":5,"message":"no","data":[1]}}'

notified: list[Any] = []


def fail() -> None:
    raise RpcError(5, "no", [1])


FUNCTIONS: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "echo": lambda value: value,
    "fail": fail,
    "notify": notified.append,
}

Do = Callable[..., Any]


def in_sync(transport: Any, work: Do, **options: Any) -> Any:
    with HttpClient(URL, transport=transport, **options) as client:
        return work(client)


def in_async(transport: Any, work: Do, **options: Any) -> Any:
    async def run() -> Any:
        async with AsyncHttpClient(URL, transport=transport, **options) as client:
            found = work(client)
            return await found if isinstance(found, Awaitable) else found

    return asyncio.run(run())


@pytest.fixture(params=["sync", "async"])
def serve(request: pytest.FixtureRequest) -> Do:
    """Run a piece of work with a client of an endpoint."""
    if request.param == "sync":
        return lambda work, **options: in_sync(httpx.WSGITransport(WsgiEndpoint(FUNCTIONS)), work, **options)
    return lambda work, **options: in_async(httpx.ASGITransport(Endpoint(FUNCTIONS)), work, **options)  # type: ignore[arg-type]


@pytest.fixture(params=[in_sync, in_async])
def answered(request: pytest.FixtureRequest) -> Do:
    """Run a piece of work with a client whose server gives a certain answer, or calls a function with the request."""

    def run(work: Do, answer: Any, status: int = 200, sent: Any = None, **options: Any) -> Any:
        def handle(request: httpx.Request) -> httpx.Response:
            if callable(answer):
                return answer(request)
            return httpx.Response(status, headers=sent, content=answer)

        return request.param(httpx.MockTransport(handle), work, **options)

    return run


def test_call(serve: Do) -> None:
    assert serve(lambda client: client.call("add", [1, 2])) == 3
    assert serve(lambda client: client.call("add", {"a": "1", "b": "2"})) == "12"
    assert serve(lambda client: client.call("echo", [None])) is None


def test_an_error_of_the_server(serve: Do) -> None:
    with pytest.raises(RpcError) as caught:
        serve(lambda client: client.call("fail"))
    assert (caught.value.code, caught.value.message, caught.value.data) == (5, "no", [1])
    with pytest.raises(RpcError, match="Method not found"):
        serve(lambda client: client.call("unknown"))


def test_notify(serve: Do) -> None:
    notified.clear()
    assert serve(lambda client: client.notify("notify", [1])) is None
    assert notified == [1]


def test_batch(serve: Do) -> None:
    notified.clear()
    items = [("add", [1, 2]), Notification("notify", [2]), ("fail", None), ("echo", {"value": "x"})]
    three, error, text = serve(lambda client: client.batch(items))
    assert (three, type(error), error.code, text, notified) == (3, RpcError, 5, "x", [2])


def test_a_batch_of_notifications(serve: Do) -> None:
    notified.clear()
    assert serve(lambda client: client.batch([Notification("notify", [1]), Notification("notify", [2])])) == []
    assert notified == [1, 2]


def test_an_empty_batch(serve: Do) -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        serve(lambda client: client.batch([]))


def test_params_that_cannot_be_encoded(serve: Do) -> None:
    with pytest.raises(EncodeError):
        serve(lambda client: client.call("echo", [object()]))
    assert serve(lambda client: client.call("echo", [object()]), default=lambda value: "object") == "object"


def test_raw_results(serve: Do) -> None:
    assert serve(lambda client: client.call("echo", [[1]]), raw=True) == Raw(b"[1]")
    with pytest.raises(RpcError) as caught:
        serve(lambda client: client.call("fail"), raw=True)
    assert caught.value.data == Raw(b"[1]")


def test_the_request(answered: Do) -> None:
    seen: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, content=RESULT)

    options = {"auth": ("user", "password"), "headers": {"x-a": "1", "x-b": "1"}}
    assert answered(lambda client: client.call("m", [1], headers={"x-b": "2"}), answer, **options) == 3
    [request] = seen
    assert (request.method, str(request.url), request.content) == (
        "POST",
        URL,
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}',
    )
    assert request.headers["content-type"] == request.headers["accept"] == "application/json"
    assert request.headers["authorization"] == "Basic dXNlcjpwYXNzd29yZA=="
    assert (request.headers["x-a"], request.headers["x-b"]) == ("1", "2")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b"null",
        b"[]",
        b"[" + RESULT + b"]",
        b'{"jsonrpc":"2.0","id":2,"result":3}',
        b'{"jsonrpc":"2.0","id":"1","result":3}',
        b'{"jsonrpc":"2.0","id":1.0,"result":3}',
        b'{"jsonrpc":"2.0","id":null,"result":3}',
        b'{"jsonrpc":"2.0","id":true,"result":3}',
        b'{"jsonrpc":"2.0","id":1,"result":3,"error":{"code":1,"message":""}}',
        b'{"jsonrpc":"2.0","id":1,"id":1,"result":3}',
        b'{"id":1,"result":3}',
        b'{"jsonrpc":"2.0","id":1,"method":"m"}',
        ERROR % b"2",
        ERROR % b'"1"',
        RESULT + RESULT,
        RESULT.replace(b"3", b'"\xff"'),
    ],
)
@pytest.mark.parametrize("status", [200, 404, 500])
def test_an_answer_that_is_not_the_response(answered: Do, answer: bytes, status: int) -> None:
    with pytest.raises(InvalidResponse if status == 200 else HttpStatusError) as caught:
        answered(lambda client: client.call("m"), answer, status)
    assert not isinstance(caught.value, RpcError)
    if isinstance(caught.value, HttpStatusError):
        assert (caught.value.status, caught.value.body, str(caught.value)) == (status, answer, f"HTTP status {status}")


def test_the_fault_of_a_response_is_the_cause(answered: Do) -> None:
    with pytest.raises(InvalidResponse) as caught:
        answered(lambda client: client.call("m"), b'{"jsonrpc":"1.0","id":1,"result":3}')
    assert isinstance(caught.value.__cause__, ParseError)


def test_the_profile_of_responses(answered: Do) -> None:
    answer = b'{"jsonrpc":"2.0","id":1,"result":3,"error":null}'
    assert answered(lambda client: client.call("m"), answer, profile=LENIENT) == 3


@pytest.mark.parametrize("status", [200, 400, 404, 500])
@pytest.mark.parametrize("id", [b"1", b"null"])
def test_an_error_response_counts_with_any_status(answered: Do, status: int, id: bytes) -> None:
    with pytest.raises(RpcError) as caught:
        answered(lambda client: client.call("m"), ERROR % id, status)
    assert (caught.value.code, caught.value.data) == (5, [1])


@pytest.mark.parametrize("status", [301, 308, 401, 403, 413, 429, 503])
def test_an_http_status(answered: Do, status: int) -> None:
    sent = {"location": "http://elsewhere/", "retry-after": "3"}
    for work in (
        lambda client: client.call("m"),
        lambda client: client.notify("m"),
        lambda client: client.batch([("m", None)]),
        lambda client: client.batch([Notification("m")]),
    ):
        with pytest.raises(HttpStatusError) as caught:
            answered(work, b"text" * 5000, status, sent)
        assert caught.value.status == status
        assert caught.value.headers["retry-after"] == "3"
        assert caught.value.body == b"text" * 1024


def test_redirects_are_followed_if_httpx_is_told_to(answered: Do) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/rpc":
            return httpx.Response(307, headers={"location": "/other"})
        return httpx.Response(200, content=RESULT)

    assert answered(lambda client: client.call("m"), answer, follow_redirects=True) == 3


A, B = b'{"jsonrpc":"2.0","id":1,"result":"a"}', b'{"jsonrpc":"2.0","id":2,"result":"b"}'
NO_ID = ERROR % b"null"


def test_the_responses_of_a_batch_in_another_order(answered: Do) -> None:
    assert answered(lambda client: client.batch([("a", None), ("b", None)]), b"[%s,%s]" % (B, A)) == ["a", "b"]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        A,
        b"[%s,%s,%s]" % (A, B, A),
        b"[%s,%s]" % (A, B.replace(b"2,", b"3,")),
        b"[%s,%s]" % (A, B.replace(b"2,", b'"2",')),
        b'[%s,%s,{"jsonrpc":"2.0","method":"m"}]' % (A, B),
        b"[%s,%s" % (A, B),
    ],
)
@pytest.mark.parametrize("status", [200, 500])
def test_no_response_of_a_confused_batch_is_believed(answered: Do, answer: bytes, status: int) -> None:
    with pytest.raises(InvalidResponse if status == 200 else HttpStatusError):
        answered(lambda client: client.batch([("a", None), ("b", None)]), answer, status)


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (b"[%s]" % B, None),
        (b"[%s,%s]" % (NO_ID, B), RpcError),
        (b"[1,%s]" % B, ParseError),
        (b'[{"jsonrpc":"2.0","id":1},%s]' % B, ParseError),
    ],
)
def test_a_response_that_is_missing_in_a_batch(answered: Do, answer: bytes, cause: type | None) -> None:
    missing, b = answered(lambda client: client.batch([("a", None), ("b", None)]), answer)
    assert (type(missing), b) == (InvalidResponse, "b")
    inner = missing.__cause__
    while isinstance(inner, InvalidResponse):
        inner = inner.__cause__
    assert inner is None if cause is None else isinstance(inner, cause)


def test_a_batch_that_is_refused_as_a_whole(answered: Do) -> None:
    with pytest.raises(RpcError):
        answered(lambda client: client.batch([("a", None), ("b", None)]), NO_ID)


def test_a_notification_has_no_response(answered: Do) -> None:
    for answer in (b"", b"ok", NO_ID, RESULT):
        assert answered(lambda client: client.notify("m"), answer, 202) is None


def test_ids_are_never_used_twice(answered: Do) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        return httpx.Response(204)

    def work(client: Any) -> Any:
        async def run_async() -> None:
            await asyncio.gather(*[client.call("m") for _ in range(100)], return_exceptions=True)

        def call() -> None:
            for _ in range(25):
                with pytest.raises(InvalidResponse):
                    client.call("m")

        if isinstance(client, AsyncHttpClient):
            return run_async()
        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        return None

    bodies: list[bytes] = []
    answered(work, answer)
    assert len(bodies) == len(set(bodies)) == 100


@pytest.mark.parametrize("location", ["http://xn--/", "javascript:secret", "http://[secret]/", "http://\x7fsecret"])
def test_the_location_of_a_redirect_is_malformed(answered: Do, location: str) -> None:
    with pytest.raises((InvalidResponse, ConnectionLost), match="malformed") as caught:
        answered(lambda client: client.call("m"), b"", 302, {"location": location})
    assert "secret" not in str(caught.value)


def test_headers_replace_those_of_the_client_in_any_case(answered: Do) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        values = request.headers.get_list("content-type")
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": values})

    headers = {"Content-Type": "application/json-rpc"}
    assert answered(lambda client: client.call("m", headers=headers), answer) == ["application/json-rpc"]


@pytest.mark.parametrize("coding", ["gzip, gzip", "br", "zstd", "unknown"])
def test_codings_that_are_not_supported(answered: Do, coding: str) -> None:
    class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
        def __iter__(self) -> Any:
            raise AssertionError("the body is read")

        __aiter__ = __iter__

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept-encoding"] == "gzip, deflate"
        return httpx.Response(status, headers={"content-encoding": coding}, stream=Body())

    status = 200
    with pytest.raises(InvalidResponse, match="content coding"):
        answered(lambda client: client.call("m"), answer)
    status = 500
    with pytest.raises(HttpStatusError):
        answered(lambda client: client.call("m"), answer)


def test_a_bomb_takes_little_memory(answered: Do) -> None:
    bomb = gzip.compress(bytes(64 * 1024 * 1024))

    class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
        def __iter__(self) -> Any:
            yield bomb

        async def __aiter__(self) -> Any:
            yield bomb

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=Body())

    tracemalloc.start()
    try:
        with pytest.raises(InvalidResponse, match="larger than 1000 bytes"):
            answered(lambda client: client.call("m"), answer, max_response=1000)
        assert tracemalloc.get_traced_memory()[1] < 16 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_body_that_decompresses_to_nothing_times_out() -> None:
    class Body(httpx.SyncByteStream):
        def __iter__(self) -> Any:
            yield b"\x1f\x8b\x08\x08\0\0\0\0\0\xff"  # a name follows, up to a zero byte
            for _ in range(1000):
                time.sleep(0.05)
                yield b"a"

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=Body())

    began = time.monotonic()
    with pytest.raises(CallTimeout):
        in_sync(httpx.MockTransport(answer), lambda client: client.call("m"), timeout=0.1)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "raised", [httpx.RemoteProtocolError("secret"), httpx.LocalProtocolError("secret"), httpx.DecodingError("secret")]
)
def test_what_the_peer_sent_is_not_in_the_exception(answered: Do, raised: Exception) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise raised

    with pytest.raises((ConnectionLost, InvalidResponse)) as caught:
        answered(lambda client: client.call("m"), answer)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (httpx.ConnectTimeout("x"), CallTimeout),
        (httpx.ReadTimeout("x"), CallTimeout),
        (httpx.PoolTimeout("x"), CallTimeout),
        (httpx.ConnectError("x"), ConnectionLost),
        (httpx.ReadError(""), ConnectionLost),
        (httpx.RemoteProtocolError("x"), ConnectionLost),
        (httpx.ProxyError("x"), ConnectionLost),
    ],
)
def test_exceptions_of_httpx(answered: Do, raised: Exception, expected: type[Exception]) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise raised

    with pytest.raises(expected) as caught:
        answered(lambda client: client.call("m"), answer)
    assert caught.value.__cause__ is raised


def test_gzip(answered: Do) -> None:
    sent = {"content-encoding": "gzip"}
    assert answered(lambda client: client.call("m"), gzip.compress(RESULT), sent=sent) == 3
    with pytest.raises(InvalidResponse, match="content coding"):
        answered(lambda client: client.call("m"), RESULT, sent=sent)


def test_the_size_of_a_response_is_limited(answered: Do) -> None:
    fitting = RESULT + b" " * (100 - len(RESULT))
    assert answered(lambda client: client.call("m"), fitting, max_response=100) == 3
    with pytest.raises(InvalidResponse, match="larger than 100 bytes"):
        answered(lambda client: client.call("m"), fitting + b" ", max_response=100)
    bomb = gzip.compress(b" " * 10_000)
    with pytest.raises(InvalidResponse, match="larger than 1000 bytes"):
        answered(lambda client: client.call("m"), bomb, sent={"content-encoding": "gzip"}, max_response=1000)


def test_a_client_of_httpx() -> None:
    with httpx.Client(transport=httpx.WSGITransport(WsgiEndpoint(FUNCTIONS))) as inner:
        with HttpClient(URL, inner) as client:
            assert client.call("add", [1, 2]) == 3
        assert not inner.is_closed
        with pytest.raises(TypeError, match="not both"):
            HttpClient(URL, inner, headers={})


def test_the_extra_is_named_where_it_is_missing() -> None:
    script = "import sys; sys.modules['httpx'] = None\nimport jsonrpc_fast.http\nimport jsonrpc_fast.http.client"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert 'pip install "jsonrpc_fast[http]"' in run.stderr
