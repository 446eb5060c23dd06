"""The checks of a request: every entry point of an endpoint makes the same ones."""

from __future__ import annotations

import asyncio
import io
import wsgiref.util
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from jsonrpc_fast.handlers import RequestContext
from jsonrpc_fast.http import Endpoint, Refusal, WsgiEndpoint
from jsonrpc_fast.profile import JSONRPC_1, Profile

from ..handlers.test_handler import HANDLERS, TEXTS
from ..support.asgi import Client
from ..support.tables import rows

ADD = b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}'
SUM = b'{"jsonrpc":"2.0","id":1,"result":3}'
LENGTH = str(len(ADD))
MAX_BODY = 100

Found: TypeAlias = "tuple[int, dict[str, str], bytes]"


class Request:
    """A request, independent of any interface."""

    def __init__(self, method: str, headers: dict[str, str], body: bytes, peer: str, path: str) -> None:
        self.method = method
        self.headers = {"Host": "example.org", "Content-Type": "application/json", "Content-Length": LENGTH, **headers}
        self.headers = {name: value for name, value in self.headers.items() if value != "none"}
        self.body = body
        self.peer = peer
        self.path = path


def user_of(request: Any) -> Any:
    if request is REFUSED:
        raise Refusal(401, "Who are you?")
    return request


REFUSED = object()
FUNCTIONS: dict[str, Any] = {"add": lambda a, b: a + b}
ASGI = Endpoint(FUNCTIONS, max_body_bytes=MAX_BODY)
WSGI = WsgiEndpoint(FUNCTIONS, max_body_bytes=MAX_BODY)


def by_asgi(request: Request) -> Found:
    fields = [(name.lower().encode(), value.encode("latin-1")) for name, value in request.headers.items()]
    server = "127.0.0.1" if request.peer == "127.0.0.1" else "192.0.2.1"
    scope = {"method": request.method, "path": request.path, "server": (server, 80), "client": (request.peer, 5000)}
    client = Client(request.body, **scope)
    client.scope["headers"] = fields
    answer = asyncio.run(client.run(ASGI))
    headers = {name.decode(): value.decode() for name, value in answer.headers.items() if name != b"connection"}
    return answer.status, headers, answer.body


def by_serve(request: Request) -> Found:
    return asyncio.run(
        ASGI.serve(request.method, request.headers, request.body, client=(request.peer, 5000), path=request.path)
    )


def by_reading(request: Request) -> Found:
    async def read() -> bytes:
        await asyncio.sleep(0)
        return request.body

    pairs = [(name.upper(), value) for name, value in request.headers.items()]
    return asyncio.run(ASGI.serve(request.method, pairs, read, client=(request.peer,), path=request.path))


def environ_of(request: Request) -> dict[str, Any]:
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "PATH_INFO": request.path,
        "SERVER_NAME": "192.0.2.1",
        "REMOTE_ADDR": request.peer,
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.input_terminated": True,
    }
    for name, value in request.headers.items():
        key = name.upper().replace("-", "_")
        environ[key if key.startswith("CONTENT_") and key != "CONTENT_ENCODING" else f"HTTP_{key}"] = value
    has_host = "HTTP_HOST" in environ
    wsgiref.util.setup_testing_defaults(environ)
    if not has_host:
        del environ["HTTP_HOST"]
    return environ


def by_wsgi(request: Request) -> Found:
    found: list[Any] = []
    body = b"".join(WSGI(environ_of(request), lambda status, headers: found.append((int(status[:3]), dict(headers)))))
    return *found[0], body


def by_sync_reading(request: Request) -> Found:
    return WSGI.serve(request.method, request.headers, lambda: request.body, client=(request.peer,), path=request.path)


def by_sync_serve(request: Request) -> Found:
    return WSGI.serve(request.method, request.headers, request.body, client=(request.peer,), path=request.path)


WAYS: list[Callable[[Request], Found]] = [*(by_asgi, by_serve, by_reading, by_wsgi, by_sync_reading, by_sync_serve)]
PEER = "192.0.2.2"
LOCAL = "127.0.0.1"


@rows(
    ("method", "headers", "body", "peer", "path", "status", "text"),
    [
        ("POST", {}, ADD, PEER, "/", 200, SUM),
        ("POST", {"Content-Length": "none"}, ADD, PEER, "/", 200, SUM),
        ("POST", {}, b"{" + b" " * 53, PEER, "/", 200, b'"code":-32700'),
        ("POST", {}, ADD.replace(b'"id":1', b'"i":1 '), PEER, "/", 204, b""),
        ("GET", {}, b"", PEER, "/", 405, b"POST"),
        ("OPTIONS", {}, b"", PEER, "/", 204, b""),
        ("GET", {}, b"", PEER, "/health", 200, b"ok"),
        ("HEAD", {}, b"", PEER, "/health", 200, b""),
        ("GET", {}, b"", LOCAL, "/health", 421, b"host"),
        ("POST", {}, ADD, LOCAL, "/", 421, b"host"),
        ("POST", {"Host": "none"}, ADD, LOCAL, "/", 421, b"host"),
        ("POST", {"Host": "localhost:80"}, ADD, LOCAL, "/", 200, SUM),
        ("POST", {"Host": "localhost", "Origin": "http://evil.example"}, ADD, LOCAL, "/", 403, b"origin"),
        ("POST", {"Content-Type": "text/plain"}, ADD, PEER, "/", 415, b"application/json"),
        ("POST", {"Content-Type": "none"}, ADD, PEER, "/", 415, b"application/json"),
        ("POST", {"Content-Type": "application/json; charset=latin-1"}, ADD, PEER, "/", 415, b"application/json"),
        ("POST", {"Content-Encoding": "gzip"}, ADD, PEER, "/", 415, b"codings"),
        ("POST", {"Content-Length": "x"}, ADD, PEER, "/", 400, b"length"),
        ("POST", {"Content-Length": "101"}, ADD, PEER, "/", 413, b"at most 100 bytes"),
        ("POST", {"Content-Length": "none"}, b" " * 101, PEER, "/", 413, b"at most 100 bytes"),
        ("POST", {"Content-Length": "55"}, ADD, PEER, "/", 400, b"declared length"),
        ("POST", {}, b"", PEER, "/", 400, b"declared length"),
        ("POST", {"Content-Length": "0"}, b"", PEER, "/", 200, b'"code":-32700'),
    ],
)
def test_every_way_makes_the_same_checks(
    method: str, headers: dict[str, str], body: bytes, peer: str, path: str, status: int, text: bytes
) -> None:
    found = {way.__name__: way(Request(method, headers, body, peer, path)) for way in WAYS}
    assert {name: answer[0] for name, answer in found.items()} == dict.fromkeys(found, status)
    assert text in found["by_asgi"][2]
    assert {name: answer[1:] for name, answer in found.items()} == dict.fromkeys(found, found["by_asgi"][1:])


def test_the_body_is_read_when_the_headers_are_checked() -> None:
    def read() -> bytes:
        raise AssertionError("the body is read")

    headers = {"Content-Type": "application/json", "Host": "localhost"}
    for changes, status in (
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Length": "999"}, 413),
        ({"Host": ""}, 421),
    ):
        sent = {**headers, **changes}
        assert WSGI.serve("POST", sent, read)[0] == status
        assert asyncio.run(ASGI.serve("POST", sent, read))[0] == status
    for endpoint in (WsgiEndpoint(FUNCTIONS, context=user_of), Endpoint(FUNCTIONS, context=user_of)):
        answer: Any = endpoint.serve("POST", headers, read, request=REFUSED)
        assert (answer if isinstance(answer, tuple) else asyncio.run(answer))[0] == 401


def test_a_client_that_is_not_known_counts_as_local() -> None:
    for host, status in (("example.org", 421), ("localhost", 200)):
        headers = {"Content-Type": "application/json", "Host": host}
        for client in (None, (), (None,), ("",), ("::1", 5)):
            assert WSGI.serve("POST", headers, ADD, client=client)[0] == status
            assert asyncio.run(ASGI.serve("POST", headers, ADD, client=client))[0] == status


def test_a_repeated_header() -> None:
    headers = [("Host", "localhost"), ("host", "evil.example"), ("content-type", "application/json")]
    assert WSGI.serve("POST", headers, ADD)[0] == 400
    assert asyncio.run(ASGI.serve("POST", headers, ADD))[0] == 400
    headers[1] = ("X-Any", "a")
    assert WSGI.serve("POST", [*headers, ("x-any", "ä€")], ADD)[0] == 200


@pytest.mark.virtual_time
async def test_a_body_that_takes_too_long() -> None:
    endpoint = Endpoint(FUNCTIONS, body_seconds=0.01)
    headers = {"Content-Type": "application/json", "Host": "localhost"}
    assert (await endpoint.serve("POST", headers, asyncio.Event().wait))[0] == 408  # type: ignore[arg-type]


async def test_contexts() -> None:
    def show(context: RequestContext) -> Any:
        return [context.context, context.peer]

    async def name_of(request: Any) -> Any:
        return f"user {request}"

    text = b'{"jsonrpc":"2.0","id":1,"method":"show"}'
    headers = {"Content-Type": "application/json", "Host": "localhost"}
    shown = b'{"jsonrpc":"2.0","id":1,"result":["%s",["::1",5]]}'
    endpoint: Any = Endpoint({"show": show})
    assert (await endpoint.serve("POST", headers, text, client=("::1", 5), request="r"))[2] == shown % b"r"
    endpoint = Endpoint({"show": show}, context=name_of)
    assert (await endpoint.serve("POST", headers, text, client=("::1", 5), request="r"))[2] == shown % b"user r"
    endpoint = WsgiEndpoint({"show": show}, context=lambda request: f"user {request}")
    assert endpoint.serve("POST", headers, text, client=("::1", 5), request="r")[2] == shown % b"user r"


def test_an_option_that_does_not_exist() -> None:
    wrong: Any = {"max_size": 5}
    for kind in (Endpoint, WsgiEndpoint):
        with pytest.raises(TypeError, match="an endpoint has no option 'max_size'"):
            kind({}, **wrong)


async def test_bodies_that_are_not_bytes() -> None:
    headers = {"Content-Type": "application/json", "Host": "localhost"}
    wrong: Any
    for wrong in ("{}", None, memoryview(b"{}"), lambda: "{}"):
        with pytest.raises(TypeError, match="the body must be bytes, not "):
            WSGI.serve("POST", headers, wrong)
        with pytest.raises(TypeError, match="the body must be bytes, not "):
            await ASGI.serve("POST", headers, wrong)


HEADERS = {"content-type": "application/json", "host": "localhost"}


@rows(("profile", "text", "response"), TEXTS)
async def test_each_text(profile: Profile, text: str, response: str) -> None:
    expected = 200 if response else 204, response
    endpoint = Endpoint(HANDLERS, profile=profile, max_body_bytes=1000)
    status, _, body = await endpoint.serve("POST", HEADERS, text.encode())
    assert (status, body.decode()) == expected
    if "later" not in text:
        status, _, body = WsgiEndpoint(HANDLERS, profile=profile, max_body_bytes=1000).serve(
            "POST", {**HEADERS, "content-length": str(len(text))}, text.encode()
        )
        assert (status, body.decode()) == expected


async def test_a_function_that_is_cancelled_by_itself() -> None:
    async def cancel() -> None:
        raise asyncio.CancelledError

    endpoint = Endpoint({"cancel": cancel}, profile=JSONRPC_1)
    for version, expected in (
        ("", '{"id":1,"error":{"code":-32603,"message":"Internal error"},"result":null}'),
        ('"jsonrpc":"2.0",', '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}'),
    ):
        text = "{" + version + '"id":1,"method":"cancel"}'
        _, _, body = await endpoint.serve("POST", HEADERS, text.encode())
        assert body.decode() == expected
