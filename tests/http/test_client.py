"""The HTTP clients, sync and async, against endpoints and against made-up responses, over transports of both
libraries."""

from __future__ import annotations

import asyncio
import gzip
import importlib.util
import json
import pickle
import re
import subprocess
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from jsonrpc_fast import LENIENT, CallTimeout, ConnectionLost, EncodeError, Notification, ParseError, Raw, RpcError
from jsonrpc_fast.errors import HttpStatusError, InvalidResponse
from jsonrpc_fast.http import Endpoint, WsgiEndpoint
from jsonrpc_fast.http.client import AsyncHttpClient, HttpClient
from jsonrpc_fast.profile import LSP
from jsonrpc_fast.session.proxies import proxy

from ..support.memory import measured
from ..support.tables import rows
from ..support.waiting import results_of

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


def installed(name: str) -> Any:
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


class Way:
    """A kind of client and the library below it."""

    def __init__(self, is_async: bool, http: Any) -> None:
        self.is_async = is_async
        self.http = http

    def run(self, work: Do, transport: Any, **options: Any) -> Any:
        """Return what a function returns that gets a client, or the result of what it returns."""

        async def run() -> Any:
            async with AsyncHttpClient(URL, transport=transport, **options) as client:
                found = work(client)
                return await found if isinstance(found, Awaitable) else found

        if self.is_async:
            return asyncio.run(run())
        with HttpClient(URL, transport=transport, **options) as client:
            return work(client)

    def serve(self, work: Do, **options: Any) -> Any:
        """Run a function with a client of an endpoint."""
        if self.is_async:
            return self.run(work, self.http.ASGITransport(Endpoint(FUNCTIONS)), **options)
        return self.run(work, self.http.WSGITransport(WsgiEndpoint(FUNCTIONS)), **options)

    def answered(self, work: Do, answer: Any, status: int = 200, sent: Any = None, **options: Any) -> Any:
        """Run a function with a client whose server gives one response, or calls a function with the request.

        The body of the response may be several chunks.
        """

        def handle(request: Any) -> Any:
            if callable(answer):
                return answer(request)
            if isinstance(answer, bytes):
                return self.http.Response(status, headers=sent, content=answer)
            return self.http.Response(status, headers=sent, stream=self.stream(answer))

        return self.run(work, self.http.MockTransport(handle), **options)

    def stream(self, chunks: Iterable[bytes]) -> Any:
        """Return a body that is read as a stream, like that of a connection."""

        class Body(self.http.SyncByteStream, self.http.AsyncByteStream):  # type: ignore[misc, name-defined]
            def __iter__(self) -> Any:
                yield from chunks

            async def __aiter__(self) -> Any:
                for chunk in chunks:
                    yield chunk

        return Body()


WAYS = [
    pytest.param(Way(is_async, http), id=kind)
    for http in filter(None, [installed("httpx2")])
    for kind, is_async in (("sync", False), ("async", True))
]
every_way = rows("way", WAYS)


@every_way
def test_call(way: Way) -> None:
    assert way.serve(lambda client: client.call("add", [1, 2])) == 3
    assert way.serve(lambda client: client.call("add", {"a": "1", "b": "2"})) == "12"
    assert way.serve(lambda client: client.call("echo", [None])) is None


@every_way
def test_a_result_with_a_type(way: Way) -> None:
    pytest.importorskip("msgspec", reason="the extra `typed` is not installed")
    wide = 2**70  # exact in the text, a float once it is decoded
    assert way.answered(lambda client: client.call("m", returns=int), RESULT.replace(b"3", b"%d" % wide)) == wide
    assert way.serve(lambda client: client.call("echo", [[1, 2]], returns=set[int])) == {1, 2}
    with pytest.raises(InvalidResponse, match=r'^the result of echo has another type: /0: is not of type "string"'):
        way.serve(lambda client: client.call("echo", [[1, 2]], returns=list[str]))
    with pytest.raises(TypeError):
        way.serve(lambda client: client.call("unknown", returns=object))
    for raw, data in ((False, [1]), (True, Raw(b"[1]"))):
        with pytest.raises(RpcError) as caught:
            way.serve(lambda client: client.call("fail", returns=int), raw=raw)
        assert caught.value.data == data


class Calls(Protocol):
    def add(self, a: int, b: int = 2) -> int: ...

    def echo(self, value: list[int]) -> set[int]: ...


class AsyncCalls(Protocol):
    async def add(self, a: int, b: int = 2) -> int: ...

    async def echo(self, value: list[int]) -> set[int]: ...


@every_way
def test_calls_as_methods(way: Way) -> None:
    pytest.importorskip("msgspec", reason="the extra `typed` is not installed")
    interface: Any = AsyncCalls if way.is_async else Calls
    assert way.serve(lambda client: proxy(client, interface).add(1, b=2)) == 3
    assert way.serve(lambda client: proxy(client, interface).echo([1, 2])) == {1, 2}
    with pytest.raises(InvalidResponse, match=r"^the result of add has another type"):
        way.serve(lambda client: proxy(client, interface).add("a", "b"))
    with pytest.raises(TypeError, match=r"^add must (not )?be async def, like the caller's call$"):
        way.serve(lambda client: proxy(client, Calls if way.is_async else AsyncCalls))


@every_way
def test_params_that_cannot_be_written_are_named(way: Way) -> None:
    for name in ("call", "notify"):
        with pytest.raises(EncodeError, match=r": /a/0 of add$"):
            way.serve(lambda client, name=name: getattr(client, name)("add", {"a": [object()]}))
    with pytest.raises(EncodeError, match=r": /1 of add$"):
        way.serve(lambda client: client.call_batch([("echo", [1]), ("add", [1, object()])]))


@every_way
def test_an_error_of_the_server(way: Way) -> None:
    with pytest.raises(RpcError) as caught:
        way.serve(lambda client: client.call("fail"))
    assert (caught.value.code, caught.value.message, caught.value.data) == (5, "no", [1])
    with pytest.raises(RpcError, match="Method not found"):
        way.serve(lambda client: client.call("unknown"))


@every_way
def test_notify(way: Way) -> None:
    notified.clear()
    assert way.serve(lambda client: client.notify("notify", [1])) is None
    assert notified == [1]


@every_way
def test_batch(way: Way) -> None:
    notified.clear()
    items = [("add", [1, 2]), Notification("notify", [2]), ("fail", None), ("echo", {"value": "x"})]
    three, nothing, error, text = way.serve(lambda client: client.call_batch(items))
    assert (three, nothing, type(error), error.code, text, notified) == (3, None, RpcError, 5, "x", [2])


@every_way
def test_further_members(way: Way) -> None:
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(json.loads(request.content))
        sent = seen[-1] if isinstance(seen[-1], list) else [seen[-1]]
        results = [{"jsonrpc": "2.0", "id": message["id"], "result": 3} for message in sent if "id" in message]
        return way.http.Response(200, json=results if isinstance(seen[-1], list) else results[0] if results else None)

    members = {"auth": "a", "src": "user"}
    for send in (
        lambda client: client.call("m", [1]),
        lambda client: client.call("m", [1], extra={"auth": "b"}),
        lambda client: client.notify("m", extra={"n": 1}),
        lambda client: client.call_batch([("m", [1]), Notification("n", extra={"src": "own"})], extra={"auth": "b"}),
    ):
        way.answered(send, answer, extra=members)
    one, other, third, batch = seen
    assert one == {"jsonrpc": "2.0", "id": 1, "method": "m", "params": [1], **members}
    assert (other["auth"], other["src"]) == ("b", "user")
    assert third == {"jsonrpc": "2.0", "method": "m", **members, "n": 1}
    assert [(message["auth"], message["src"]) for message in batch] == [("b", "user"), ("b", "own")]
    with pytest.raises(ValueError, match=r"^id is not an extra member$"):
        way.answered(lambda client: None, answer, extra={"id": 1})


@every_way
def test_a_batch_with_types(way: Way) -> None:
    pytest.importorskip("msgspec", reason="the extra `typed` is not installed")
    types = [list[int], None, tuple[str]]
    items: Any = [("echo", [[1, 2]]), Notification("notify", [2]), ("echo", [["secret"]]), ("fail", None)]
    for raw in (False, True):
        one, _, other, failed = way.serve(lambda client: client.call_batch(items, returns=set[int]), raw=raw)
        assert (one, type(other), type(failed)) == ({1, 2}, InvalidResponse, RpcError)
        assert str(other) == 'the result of echo has another type: /0: is not of type "integer"'
        assert failed.data == (Raw(b"[1]") if raw else [1])
        found = way.serve(lambda client: client.call_batch(items[:3], returns=types), raw=raw)
        assert found == [[1, 2], None, ("secret",)]
    with pytest.raises(ValueError, match=r"^returns has 1 types for 3 items$"):
        way.serve(lambda client: client.call_batch(items[:3], returns=[int]))


@every_way
def test_a_batch_of_notifications(way: Way) -> None:
    notified.clear()
    items = [Notification("notify", [1]), Notification("notify", [2])]
    assert way.serve(lambda client: client.call_batch(items)) == [None, None]
    assert notified == [1, 2]


@every_way
def test_an_empty_batch(way: Way) -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        way.serve(lambda client: client.call_batch([]))


@every_way
def test_a_batch_whose_results_could_not_be_read_is_not_sent(way: Way) -> None:
    notified.clear()
    with pytest.raises(ValueError, match="the profile does not allow batches"):
        way.serve(lambda client: client.call_batch([Notification("notify", [1]), ("echo", [1])]), profile=LSP)
    assert notified == []
    assert way.serve(lambda client: client.call_batch([Notification("notify", [1])]), profile=LSP) == [None]
    assert notified == [1]


@rows("timeout", [0, -1, float("inf"), float("nan")])
def test_a_timeout_is_more_than_0(timeout: float) -> None:
    for parameter in WAYS:
        [way] = parameter.values
        for send in (
            lambda client: client.call("add", [1, 2], timeout=timeout),
            lambda client: client.notify("notify", [1], timeout=timeout),
            lambda client: client.call_batch([("add", [1, 2])], timeout=timeout),
        ):
            with pytest.raises(ValueError, match=r"^timeout must be more than 0 seconds, and finite$"):
                way.serve(send)
        with pytest.raises(ValueError, match=r"^timeout must be more than 0 seconds, and finite$"):
            way.serve(lambda client: client.call("add", [1, 2]), timeout=timeout)


@every_way
def test_params_that_cannot_be_encoded(way: Way) -> None:
    with pytest.raises(EncodeError):
        way.serve(lambda client: client.call("echo", [object()]))
    assert way.serve(lambda client: client.call("echo", [object()]), default=lambda value: "object") == "object"


@every_way
def test_raw_results(way: Way) -> None:
    assert way.serve(lambda client: client.call("echo", [[1]]), raw=True) == Raw(b"[1]")
    with pytest.raises(RpcError) as caught:
        way.serve(lambda client: client.call("fail"), raw=True)
    assert caught.value.data == Raw(b"[1]")


@every_way
def test_the_request(way: Way) -> None:
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(request)
        return way.http.Response(200, content=RESULT)

    options = {"auth": ("user", "password"), "headers": {"x-a": "1", "x-b": "1"}}
    assert way.answered(lambda client: client.call("m", [1], headers={"x-b": "2"}), answer, **options) == 3
    [request] = seen
    assert (request.method, str(request.url), request.content) == (
        "POST",
        URL,
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}',
    )
    assert request.headers["content-type"] == request.headers["accept"] == "application/json"
    assert request.headers["authorization"] == "Basic dXNlcjpwYXNzd29yZA=="
    assert (request.headers["x-a"], request.headers["x-b"]) == ("1", "2")


@rows(
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
        b"\xef\xbb\xbf" + RESULT,
    ],
)
@rows("status", [200, 404, 500])
@every_way
def test_an_answer_that_is_not_the_response(way: Way, answer: bytes, status: int) -> None:
    with pytest.raises(InvalidResponse if status == 200 else HttpStatusError) as caught:
        way.answered(lambda client: client.call("m"), answer, status)
    assert not isinstance(caught.value, RpcError)
    if isinstance(caught.value, HttpStatusError):
        assert (caught.value.status, caught.value.body) == (status, answer)
        reason = {404: "Not Found", 500: "Internal Server Error"}[status]
        assert str(caught.value) == f"HTTP status {status} ({reason}) from http://localhost to 'm'"


@every_way
def test_the_fault_of_a_response_is_the_cause(way: Way) -> None:
    with pytest.raises(InvalidResponse) as caught:
        way.answered(lambda client: client.call("m"), b'{"jsonrpc":"1.0","id":1,"result":3}')
    assert isinstance(caught.value.__cause__, ParseError)
    cure = "; the profile CLIENT accepts more forms"
    assert str(caught.value) == f'the response is malformed: jsonrpc is not the string "2.0"{cure}'
    with pytest.raises(InvalidResponse, match=r"^the response is malformed: the text is not JSON, at byte 33$"):
        way.answered(lambda client: client.call("m"), b'{"jsonrpc":"2.0","id":1,"result":NaN}')


@every_way
def test_an_error_without_an_id_belongs_to_its_exchange_in_every_profile(way: Way) -> None:
    answer = b'{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal Error"}}'
    for call in (lambda client: client.call("m"), lambda client: client.call_batch([("a", None), ("b", None)])):
        with pytest.raises(RpcError, match="Internal Error"):
            way.answered(call, answer)


@every_way
def test_the_profile_of_responses(way: Way) -> None:
    answer = b'{"jsonrpc":"2.0","id":1,"result":3,"error":null}'
    assert way.answered(lambda client: client.call("m"), answer, profile=LENIENT) == 3


@rows("status", [200, 400, 404, 500])
@rows("id", [b"1", b"null"])
@every_way
def test_an_error_response_counts_with_any_status(way: Way, status: int, id: bytes) -> None:
    with pytest.raises(RpcError) as caught:
        way.answered(lambda client: client.call("m"), ERROR % id, status)
    assert (caught.value.code, caught.value.data) == (5, [1])


@rows("status", [301, 308, 401, 403, 413, 429, 503])
@every_way
def test_an_http_status(way: Way, status: int) -> None:
    sent = {"location": "http://elsewhere/", "retry-after": "3"}
    for work, to in (
        (lambda client: client.call("m"), "'m'"),
        (lambda client: client.notify("m"), "'m'"),
        (lambda client: client.call_batch([("m", None)]), "a batch of 1"),
        (lambda client: client.call_batch([Notification("m")]), "a batch of 1"),
    ):
        with pytest.raises(HttpStatusError) as caught:
            way.answered(work, b"text" * 5000, status, sent)
        assert caught.value.status == status
        assert caught.value.headers["retry-after"] == "3"
        assert (caught.value.body, caught.value.body_bytes) == (b"text" * 1024, 20_000)
        assert re.fullmatch(
            rf"HTTP status {status} \([A-Z][A-Za-z ]+\) from http://localhost to {to}; "
            "the body is cut to 4096 of 20000 bytes",
            str(caught.value),
        )
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@every_way
def test_redirects_are_followed_if_httpx_is_told_to(way: Way) -> None:
    def answer(request: Any) -> Any:
        if request.url.path == "/rpc":
            return way.http.Response(307, headers={"location": "/other"})
        return way.http.Response(200, content=RESULT)

    assert way.answered(lambda client: client.call("m"), answer, follow_redirects=True) == 3


SECRET = "secret"
A, B = b'{"jsonrpc":"2.0","id":1,"result":"a"}', b'{"jsonrpc":"2.0","id":2,"result":"b"}'
NO_ID = ERROR % b"null"


@every_way
def test_the_responses_of_a_batch_in_another_order(way: Way) -> None:
    assert way.answered(lambda client: client.call_batch([("a", None), ("b", None)]), b"[%s,%s]" % (B, A)) == ["a", "b"]


@rows(
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
@rows("status", [200, 500])
@every_way
def test_no_response_of_a_confused_batch_is_believed(way: Way, answer: bytes, status: int) -> None:
    with pytest.raises(InvalidResponse if status == 200 else HttpStatusError):
        way.answered(lambda client: client.call_batch([("a", None), ("b", None)]), answer, status)


@rows(
    ("answer", "cause"),
    [
        (b"[%s]" % B, None),
        (b"[%s,%s,%s]" % (NO_ID, NO_ID, B), RpcError),
        (b"[1,%s]" % B, ParseError),
        (b'[{"jsonrpc":"2.0","id":1},%s]' % B, ParseError),
    ],
)
@every_way
def test_a_response_that_is_missing_in_a_batch(way: Way, answer: bytes, cause: type | None) -> None:
    missing, b = way.answered(lambda client: client.call_batch([("a", None), ("b", None)]), answer)
    assert (type(missing), b) == (InvalidResponse, "b")
    inner = missing.__cause__
    while isinstance(inner, InvalidResponse):
        inner = inner.__cause__
    assert inner is None if cause is None else isinstance(inner, cause)


@every_way
def test_a_batch_that_is_refused_as_a_whole(way: Way) -> None:
    for answer in (NO_ID, b"[" + NO_ID + b"]"):
        for status in (200, 400):
            with pytest.raises(RpcError) as caught:
                way.answered(lambda client: client.call_batch([("a", None), ("b", None)]), answer, status)
            assert (caught.value.code, caught.value.message, caught.value.data) == (5, "no", [1])


@every_way
def test_an_error_without_an_id_belongs_to_the_only_call_without_a_response(way: Way) -> None:
    for answer in (b"[%s,%s]" % (NO_ID, B), b"[%s,%s]" % (B, NO_ID)):
        error, b = way.answered(lambda client: client.call_batch([("a", None), ("b", None)]), answer)
        assert (type(error), error.code, b) == (RpcError, 5, "b")
    items = [("a", None), ("b", None), ("c", None)]
    missing, b, other = way.answered(lambda client: client.call_batch(items), b"[%s,%s]" % (NO_ID, B))
    assert (type(missing), type(other), b) == (InvalidResponse, InvalidResponse, "b")
    assert isinstance(missing.__cause__, RpcError)


@every_way
def test_a_notification_has_no_response(way: Way) -> None:
    for answer in (b"", b"OK", b"{}", b"null", b'""', RESULT, b'{"jsonrpc":"2.0","id":null,"result":3}'):
        for status in (200, 202):
            assert way.answered(lambda client: client.notify("m"), answer, status) is None
    # PHP, Flask and Express call any text HTML, and a call reads JSON of any type.
    for answer in (b"", b"\r\n", b"OK", b"{}", b'"<a>"', RESULT):
        assert way.answered(lambda client: client.notify("m"), answer, sent={"content-type": "text/html"}) is None


@every_way
def test_a_page_is_no_server_that_has_taken_a_notification(way: Way) -> None:
    html = {"content-type": "Text/HTML; charset=utf-8"}
    sends = (
        lambda client: client.call("m"),
        lambda client: client.notify("m"),
        lambda client: client.call_batch([Notification("m")]),
    )
    for answer, sent in (
        (b"\xef\xbb\xbf\r\n <!doctype html>", None),
        (b"<a/>", None),
        (b"Please <a>sign in</a>", html),
    ):
        for send in sends:
            with pytest.raises(InvalidResponse, match=r"^the response is malformed: the text is not JSON, at byte "):
                way.answered(send, answer, sent=sent)
            with pytest.raises(HttpStatusError):
                way.answered(send, answer, 502, sent)


@every_way
def test_a_refused_notification_raises_the_error(way: Way) -> None:
    sends = (lambda client: client.notify("m"), lambda client: client.call_batch([Notification("m")]))
    for answer, status in ((NO_ID, 200), (NO_ID, 400), (b"[%b]" % NO_ID, 200)):
        for send in sends:
            with pytest.raises(RpcError) as caught:
                way.answered(send, answer, status)
            assert caught.value.code == json.loads(NO_ID)["error"]["code"]


@every_way
def test_ids_are_never_used_twice(way: Way) -> None:
    def answer(request: Any) -> Any:
        bodies.append(request.content)
        return way.http.Response(204)

    def work(client: Any) -> Any:
        async def run_async() -> None:
            await results_of(*[client.call("m") for _ in range(100)])

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
    way.answered(work, answer)
    assert len(bodies) == len(set(bodies)) == 100


@rows("location", ["http://xn--/", "javascript:secret", "http://[secret]/", "http://\x7fsecret"])
@every_way
def test_the_location_of_a_redirect_is_malformed(way: Way, location: str) -> None:
    def call(**options: Any) -> Any:
        return way.answered(lambda client: client.call("m"), b"", 302, {"location": location}, **options)

    with pytest.raises((InvalidResponse, ConnectionLost)) as caught:
        call(follow_redirects=True)
    assert SECRET not in str(caught.value)
    with pytest.raises((InvalidResponse, ConnectionLost, HttpStatusError)) as refused:  # httpx2 does not read it
        call()
    assert SECRET not in str(refused.value)


@every_way
def test_headers_replace_those_of_the_client_in_any_case(way: Way) -> None:
    def answer(request: Any) -> Any:
        values = request.headers.get_list("content-type")
        return way.http.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": values})

    headers = {"Content-Type": "application/json-rpc"}
    assert way.answered(lambda client: client.call("m", headers=headers), answer) == ["application/json-rpc"]


@rows("value", [f"{SECRET}\n", f"{SECRET}\r\nx: y", f" {SECRET}", f"{SECRET}\0", f"{SECRET}é"])
@every_way
def test_a_header_that_http_does_not_allow_is_refused_and_not_shown(
    way: Way, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The libraries, which refuse some of them, show the value in their errors and in their logs."""
    caplog.set_level(0)
    with pytest.raises(ValueError, match=r"^the header authorization must be") as caught:
        way.answered(lambda client: client.call("m", headers={"authorization": value}), lambda _: None)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in caplog.text


@rows("coding", ["gzip, gzip", "br", "zstd", "unknown"])
@every_way
def test_codings_that_are_not_supported(way: Way, coding: str) -> None:
    def answer(request: Any) -> Any:
        assert request.headers["accept-encoding"] == "gzip"
        return way.http.Response(status, headers={"content-encoding": coding}, stream=way.stream(unread()))

    def unread() -> Iterator[bytes]:
        yield pytest.fail("the body is read")

    status = 200
    with pytest.raises(InvalidResponse, match="content coding"):
        way.answered(lambda client: client.call("m"), answer)
    status = 500
    with pytest.raises(HttpStatusError):
        way.answered(lambda client: client.call("m"), answer)


GZIP = {"content-encoding": "gzip"}


@every_way
def test_gzip(way: Way) -> None:
    packed = gzip.compress(RESULT)
    for body in (
        packed,  # a mock has decompressed it
        [packed],
        [packed[at : at + 1] for at in range(len(packed))],
        [b"", packed[:9], b"", packed[9:], b""],
        [gzip.compress(RESULT[:9]), gzip.compress(b""), gzip.compress(RESULT[9:])],
        [packed + gzip.compress(b" " * 200_000)],
    ):
        assert way.answered(lambda client: client.call("m"), body, sent=GZIP) == 3
    assert way.answered(lambda client: client.call("m"), [packed], sent={"content-encoding": " GZip "}) == 3
    with pytest.raises(InvalidResponse, match="sent no response"):
        way.answered(lambda client: client.call("m"), [], sent=GZIP)


@every_way
def test_a_compressed_response_that_is_not_complete(way: Way) -> None:
    packed = gzip.compress(RESULT)
    for cut in (1, 10, len(packed) // 2, len(packed) - 8, len(packed) - 1):
        with pytest.raises(InvalidResponse, match="the compressed response is incomplete"):
            way.answered(lambda client: client.call("m"), [packed[:cut]], sent=GZIP)
    wrong = packed[:-8] + bytes(8)  # the checksum and the length
    for body in (RESULT, [RESULT], [wrong], [packed, b"xx"]):
        with pytest.raises(InvalidResponse, match="the content coding of the response is malformed"):
            way.answered(lambda client: client.call("m"), body, sent=GZIP)


@every_way
def test_a_bomb_takes_little_memory(way: Way) -> None:
    bomb = gzip.compress(bytes(8 * 1024 * 1024))
    with measured() as memory, pytest.raises(InvalidResponse, match="larger than 1000 bytes"):
        way.answered(lambda client: client.call("m"), [bomb], sent=GZIP, max_response_bytes=1000)
    assert memory.peak < 2 * 1024 * 1024


def test_a_body_that_decompresses_to_nothing_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0

    def body() -> Iterator[bytes]:
        nonlocal now
        yield b"\x1f\x8b\x08\x08\0\0\0\0\0\xff"  # a name follows, up to a zero byte
        for _ in range(1000):
            now += 0.05
            yield b"a"

    monkeypatch.setattr("jsonrpc_fast.http.client.time", SimpleNamespace(monotonic=lambda: now))
    for way in (param.values[0] for param in WAYS):
        if isinstance(way, Way) and not way.is_async:
            begun = now
            with pytest.raises(CallTimeout):
                way.answered(lambda client: client.call("m"), body(), sent=GZIP, timeout=1)
            assert now == pytest.approx(begun + 1.05)


@rows("name", ["RemoteProtocolError", "LocalProtocolError", "DecodingError", "ReadError", "WriteError", "InvalidURL"])
@every_way
def test_what_the_peer_sent_is_not_in_the_exception(way: Way, name: str) -> None:
    def answer(request: Any) -> Any:
        raise getattr(way.http, name)(SECRET)

    with pytest.raises((ConnectionLost, InvalidResponse)) as caught:
        way.answered(lambda client: client.call("m"), answer)
    assert SECRET not in str(caught.value)


@rows(
    ("name", "expected", "text"),
    [
        ("ConnectTimeout", CallTimeout, "no response to 'm' came in 300 s: no connection was made"),
        ("ReadTimeout", CallTimeout, "no response to 'm' came in 300 s"),
        (
            "PoolTimeout",
            CallTimeout,
            "no response to 'm' came in 300 s: all connections of the HTTP client are in use",
        ),
        ("ConnectError", ConnectionLost, "the server at localhost cannot be reached: detail"),
        (
            "ReadError",
            ConnectionLost,
            "the connection broke before the response was complete: the server may have closed it as idle, or want TLS",
        ),
        ("WriteError", ConnectionLost, "the connection broke while the request was sent"),
        ("ProxyError", ConnectionLost, "detail"),
        ("UnsupportedProtocol", ConnectionLost, "detail"),
    ],
)
@every_way
def test_exceptions_of_the_library(way: Way, name: str, expected: type[Exception], text: str) -> None:
    raised = getattr(way.http, name)("detail")

    def answer(request: Any) -> Any:
        raise raised

    with pytest.raises(expected) as caught:
        way.answered(lambda client: client.call("m"), answer)
    assert str(caught.value) == text
    assert caught.value.__cause__ is raised
    if isinstance(caught.value, ConnectionLost):
        assert caught.value.was_sent == (False if name == "ConnectError" else "maybe")


@every_way
def test_the_size_of_a_response_is_limited(way: Way) -> None:
    fitting = RESULT + b" " * (100 - len(RESULT))
    assert way.answered(lambda client: client.call("m"), fitting, max_response_bytes=100) == 3
    with pytest.raises(InvalidResponse, match="larger than 100 bytes"):
        way.answered(lambda client: client.call("m"), fitting + b" ", max_response_bytes=100)
    bomb = gzip.compress(b" " * 10_000)
    with pytest.raises(InvalidResponse, match="larger than 1000 bytes"):
        way.answered(lambda client: client.call("m"), bomb, sent={"content-encoding": "gzip"}, max_response_bytes=1000)


async def test_clients_and_transports_of_the_user() -> None:
    for way in (param.values[0] for param in WAYS):
        assert isinstance(way, Way)
        http = way.http
        if way.is_async:
            app: Any = Endpoint(FUNCTIONS)
            async with http.AsyncClient(transport=http.ASGITransport(app)) as given:
                async with AsyncHttpClient(URL, given) as client:
                    assert await client.call("add", [1, 2]) == 3
                assert not given.is_closed
            mounts = {"all://": http.ASGITransport(app)}
            async with AsyncHttpClient(http.URL(URL), mounts=mounts, auth=http.BasicAuth("a", "b")) as client:
                assert await client.call("add", [1, 2]) == 3
        else:
            with http.Client(transport=http.WSGITransport(WsgiEndpoint(FUNCTIONS))) as given:
                with HttpClient(URL, given) as sync_client:
                    assert sync_client.call("add", [1, 2]) == 3
                assert not given.is_closed
                with pytest.raises(TypeError, match="not both"):
                    HttpClient(URL, given, headers={})


def test_the_extra_is_named_where_it_is_missing() -> None:
    missing = "import sys; sys.modules['httpx2'] = None\n"
    script = missing + "import jsonrpc_fast.http\nimport jsonrpc_fast.http.client"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert 'pip install "jsonrpc_fast[http]"' in run.stderr


@rows("kind", [HttpClient, AsyncHttpClient])
def test_a_relative_url_needs_a_client_or_a_base(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"^the URL must begin with http:// or https:// and have a host$"):
        kind("/rpc")
    assert isinstance(kind("/rpc", base_url="http://localhost"), kind)


async def test_a_call_of_a_closed_client_says_so() -> None:
    client = HttpClient("http://localhost/rpc")
    client.close()
    other = AsyncHttpClient("http://localhost/rpc")
    await other.close()
    with pytest.raises(ConnectionLost, match=r"^the HTTP client is closed: make a new one$") as raised:
        client.call("m")
    assert raised.value.was_sent is False
    with pytest.raises(ConnectionLost, match=r"^the HTTP client is closed: make a new one$"):
        await other.call("m")
