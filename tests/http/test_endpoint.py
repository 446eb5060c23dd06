"""The ASGI endpoint, driven in this process. `test_servers` has real servers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jsonrpc_fast import JSONRPC, Limits, decode
from jsonrpc_fast.handlers import Handlers, RequestContext
from jsonrpc_fast.http import Endpoint, Refusal

from ..support.asgi import JSON, Answer, Client, events_of, events_of_a_lifespan, post
from ..support.tables import rows

ADD = b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}'
SUM = b'{"jsonrpc":"2.0","id":1,"result":3}'
pytestmark = pytest.mark.virtual_time


def add(a: int, b: int) -> int:
    return a + b


async def add_later(a: int, b: int) -> int:
    await asyncio.sleep(0.001)
    return a + b


FUNCTIONS: dict[str, Any] = {"add": add, "add_later": add_later}


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint(FUNCTIONS)


async def test_a_request(endpoint: Endpoint) -> None:
    answer = await post(endpoint, ADD)
    assert answer == Answer(200, {b"content-type": b"application/json", b"content-length": b"35"}, SUM)


@rows("kind", [tuple, iter])
async def test_headers_in_any_iterable(endpoint: Endpoint, kind: Any) -> None:
    """ASGI: the headers are an iterable."""
    client = Client(ADD)
    client.scope["headers"] = kind(client.scope["headers"])
    await endpoint(client.scope, client.receive, client.send)
    assert client.sent[-1]["body"] == SUM


async def test_a_request_of_an_async_function(endpoint: Endpoint) -> None:
    assert (await post(endpoint, ADD.replace(b"add", b"add_later"))).body == SUM


async def test_a_batch(endpoint: Endpoint) -> None:
    batch = b'[%s,{"jsonrpc":"2.0","method":"add"},1,%s]' % (ADD, ADD.replace(b"add", b"add_later"))
    invalid = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}'
    answer = await post(endpoint, batch)
    assert (answer.status, answer.body) == (200, b"[%s,%s,%s]" % (SUM, invalid, SUM))


@rows(
    "body",
    [
        b'{"jsonrpc":"2.0","method":"add","params":[1,2]}',
        b'[{"jsonrpc":"2.0","method":"add","params":[1,2]}]',
        b'{"jsonrpc":"2.0","id":1,"result":3}',
    ],
)
async def test_nothing_to_reply(endpoint: Endpoint, body: bytes) -> None:
    assert await post(endpoint, body) == Answer(204, {}, b"")


@rows(
    ("body", "code"),
    [(b"", -32700), (b"{", -32700), (b'"\xff"', -32700), (b"\xef\xbb\xbf" + ADD, -32700), (b"1", -32600)],
)
async def test_a_text_that_is_not_a_message(endpoint: Endpoint, body: bytes, code: int) -> None:
    answer = await post(endpoint, body)
    response: Any = decode(answer.body)
    assert (answer.status, response.id, response.error.code) == (200, None, code)


@rows("parts", [1, 2, 7, 54])
async def test_a_body_in_parts(endpoint: Endpoint, parts: int) -> None:
    size = -(-len(ADD) // parts)
    body = [ADD[at : at + size] for at in range(0, len(ADD), size)]
    assert (await post(endpoint, body)).body == SUM
    assert (await post(endpoint, [*body, b""], (b"content-length", b"%d" % len(ADD)))).body == SUM


async def test_the_end_of_a_declared_body_is_not_awaited(endpoint: Endpoint) -> None:
    client = Client([ADD, b""], [JSON, (b"content-length", b"%d" % len(ADD))])
    assert (await client.run(endpoint)).body == SUM
    assert client.received == 1


async def test_a_body_over_the_limit_is_not_received() -> None:
    endpoint = Endpoint(FUNCTIONS, max_body_bytes=100)
    assert (await post(endpoint, ADD + b" " * (100 - len(ADD)))).status == 200
    client = Client([b" " * 60] * 9)
    assert await client.run(endpoint) == refused(413, b"The body must have at most 100 bytes.\n")
    assert client.received == 2
    client = Client([b" " * 60] * 9, [JSON, (b"content-length", b"101")])
    assert (await client.run(endpoint)).headers[b"connection"] == b"close"
    assert client.received == 0


async def test_the_profile_limits_the_body() -> None:
    endpoint = Endpoint(FUNCTIONS, profile=JSONRPC.replace(limits=Limits(message_bytes=60)))
    assert (await post(endpoint, ADD)).status == 200
    assert (await post(endpoint, ADD + b" " * 60)).status == 413


def refused(status: int, text: bytes, **headers: bytes) -> Answer:
    fields = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    length = {b"content-length": b"%d" % len(text)} if text else {}
    return Answer(status, {b"content-type": b"text/plain; charset=utf-8", **length, **fields}, text)


@rows("length", [b"x", b"-1", b"", b"1_0", b"\xb2", b"9" * 5000])
async def test_an_invalid_length(endpoint: Endpoint, length: bytes) -> None:
    client = Client(ADD, [JSON, (b"content-length", length)])
    assert (await client.run(endpoint)).status in (400, 413)
    assert client.received == 0


async def test_a_slow_body_times_out() -> None:
    endpoint = Endpoint(FUNCTIONS, body_seconds=0.02)

    class Slow(Client):
        async def receive(self) -> dict[str, Any]:
            await asyncio.sleep(0.005)
            return {"type": "http.request", "body": b" ", "more_body": True}

    answer = await Slow(headers=[JSON, (b"transfer-encoding", b"chunked")]).run(endpoint)
    assert answer == refused(408, b"The body did not arrive in time.\n", connection=b"close")


async def test_a_client_that_disconnects_in_its_body(endpoint: Endpoint) -> None:
    client = Client([])
    client.gone.set()
    await endpoint(client.scope, client.receive, client.send)
    assert client.answer is None


async def test_other_methods(endpoint: Endpoint) -> None:
    allow = {b"allow": b"POST, OPTIONS"}
    assert await Client(method="OPTIONS").run(endpoint) == Answer(204, allow)
    for method in ("GET", "PUT", "DELETE", "post", "TRACE"):
        answer = await Client(method=method).run(endpoint)
        assert answer == refused(405, b"JSON-RPC messages are sent with POST.\n", allow=b"POST, OPTIONS")
    head = await Client(method="HEAD").run(endpoint)
    assert (head.status, head.headers[b"content-length"], head.body) == (405, b"38", b"")


async def test_health(endpoint: Endpoint) -> None:
    assert await Client(method="GET", path="/health").run(endpoint) == refused(200, b"ok\n")
    mounted = await Client(method="HEAD", path="/api/health", root_path="/api").run(endpoint)
    assert (mounted.status, mounted.headers[b"content-length"], mounted.body) == (200, b"3", b"")
    options = await Client(method="OPTIONS", path="/health").run(endpoint)
    assert (options.status, options.headers[b"allow"]) == (204, b"GET, HEAD, OPTIONS")
    assert (await Client(method="PUT", path="/health").run(endpoint)).status == 405
    assert (await Client(method="GET", path="/health").run(Endpoint(FUNCTIONS, health=None))).status == 405
    assert (await Client(method="GET", path="/up").run(Endpoint(FUNCTIONS, health="/up"))).status == 200


async def test_a_host_that_is_allowed(endpoint: Endpoint) -> None:
    local = {"server": ("127.0.0.1", 80)}
    assert (await post(endpoint, ADD, **local)).status == 421
    assert (await post(Endpoint(FUNCTIONS, allowed_hosts=["example.org"]), ADD, **local)).status == 200


async def test_a_refusal_closes_the_connection_of_an_unread_body(endpoint: Endpoint) -> None:
    text = (b"content-type", b"text/plain")
    length = (b"content-length", b"5")
    chunked = (b"transfer-encoding", b"chunked")
    assert b"connection" not in (await Client(b"", [text]).run(endpoint)).headers
    for header in (length, chunked):
        assert (await Client(b"", [text, header]).run(endpoint)).headers[b"connection"] == b"close"
        assert b"connection" not in (await Client(b"", [text, header], http_version="2").run(endpoint)).headers


async def test_the_scope_is_the_context() -> None:
    def user(context: RequestContext) -> Any:
        return [context.context["user"], context.method, context.id]

    answer = await post(Endpoint({"user": user}), b'{"jsonrpc":"2.0","id":7,"method":"user"}', user="Ada")
    assert answer.body == b'{"jsonrpc":"2.0","id":7,"result":["Ada","user",7]}'


@rows("is_async", [False, True])
async def test_a_context_of_ones_own(is_async: bool) -> None:
    def context(scope: Any) -> Any:
        if dict(scope["headers"]).get(b"authorization") != b"Bearer 1":
            raise Refusal(401, "Who are you?", [(b"www-authenticate", b"Bearer")])
        return "Ada"

    async def context_later(scope: Any) -> Any:
        await asyncio.sleep(0)
        return context(scope)

    def user(context: RequestContext) -> Any:
        return context.context

    endpoint = Endpoint({"user": user}, context=context_later if is_async else context)
    client = Client(b'{"jsonrpc":"2.0","id":1,"method":"user"}')
    assert await client.run(endpoint) == refused(401, b"Who are you?\n", www_authenticate=b"Bearer")
    assert client.received == 0
    answer = await post(endpoint, b'{"jsonrpc":"2.0","id":1,"method":"user"}', (b"authorization", b"Bearer 1"))
    assert answer.body == b'{"jsonrpc":"2.0","id":1,"result":"Ada"}'


async def test_respond_chooses_status_and_headers() -> None:
    def respond(context: Any, reply: bytes) -> Any:
        assert context == "context"
        if not reply:
            return 202, []
        return (404 if b"-32601" in reply else 200), [(b"x-size", b"%d" % len(reply))]

    endpoint = Endpoint(FUNCTIONS, respond=respond, context=lambda scope: "context")
    headers = {b"content-type": b"application/json", b"content-length": b"35", b"x-size": b"35"}
    assert await post(endpoint, ADD) == Answer(200, headers, SUM)
    assert (await post(endpoint, ADD.replace(b"add", b"no"))).status == 404
    assert await post(endpoint, b'{"jsonrpc":"2.0","method":"add"}') == Answer(202)


async def test_serve_refuses_every_other_method() -> None:
    for method in ("GET", "PUT", "post"):
        status, headers, body = await Endpoint(FUNCTIONS).serve(method, {"host": "localhost"}, ADD)
        assert (status, headers["allow"]) == (405, "POST, OPTIONS"), method
        assert body == b"JSON-RPC messages are sent with POST.\n"


async def test_an_exception_of_a_hook_goes_to_the_server() -> None:
    with pytest.raises(ZeroDivisionError):
        await post(Endpoint(FUNCTIONS, context=lambda scope: 1 / 0), ADD)
    with pytest.raises(ZeroDivisionError):
        await post(Endpoint(FUNCTIONS, respond=lambda *_: 1 / 0), ADD)  # type: ignore[arg-type,return-value]


@rows(
    "answer, text",
    [
        ((204, []), "a response with the status 204 has no body"),
        ((304, []), "a response with the status 304 has no body"),
        ((200, [(b"x", b"a\r\nset-cookie: b")]), "headers must not contain a CR, LF or NUL"),
        ((200, [(b"x\ny", b"a")]), "headers must not contain a CR, LF or NUL"),
        ((200, [(b"Content-Length", b"1")]), "the endpoint sets the header Content-Length itself"),
        ((200, [(b"transfer-encoding", b"chunked")]), "the endpoint sets the header transfer-encoding itself"),
    ],
)
async def test_an_answer_that_a_client_would_take_for_two_is_refused(answer: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        await post(Endpoint(FUNCTIONS, respond=lambda *_: answer), ADD)


async def test_options_of_the_codec() -> None:
    endpoint = Endpoint(Handlers({"set": lambda: {1, 2}}), default=sorted)
    assert b'"result":[1,2]' in (await post(endpoint, b'{"jsonrpc":"2.0","id":1,"method":"set"}')).body


@rows(
    ("options", "error"),
    [
        ({"max_body_bytes": 0}, ValueError),
        ({"max_body_bytes": 1.5}, TypeError),
        ({"body_seconds": -1}, ValueError),
        ({"timeout": -1}, ValueError),
        ({"max_handlers": 0}, ValueError),
        ({"max_handlers": None}, TypeError),
        ({"body_seconds": "1"}, TypeError),
        ({"allowed_hosts": "localhost"}, TypeError),
        ({"allowed_origins": "*"}, TypeError),
        ({"unknown": 1}, TypeError),
    ],
)
def test_options_are_checked(options: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Endpoint(FUNCTIONS, **options)


async def test_a_deadline() -> None:
    endpoint = Endpoint({"wait": asyncio.Event().wait, "add": add}, timeout=0.01)
    answer = await post(endpoint, b'{"jsonrpc":"2.0","id":1,"method":"wait"}')
    assert (answer.status, b'"code":-32008' in answer.body) == (200, True), answer.body
    assert (await post(endpoint, ADD)).body == SUM


async def test_lifespan(endpoint: Endpoint) -> None:
    assert await events_of_a_lifespan(endpoint) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert await events_of(endpoint, "websocket") == ["websocket.close"]
    with pytest.raises(ValueError, match="unknown type"):
        await events_of(endpoint, "other")


@rows("name", [b"host", b"origin", b"content-type", b"content-encoding", b"content-length"])
@rows("method", ["POST", "GET", "OPTIONS"])
async def test_a_header_with_two_values(name: bytes, method: str) -> None:
    valid = {b"host": b"example.org", b"content-type": JSON[1], b"content-length": b"54"}.get(name, b"identity")
    endpoint = Endpoint(FUNCTIONS, allowed_origins=["*"])
    for values in ([b"other", valid], [valid, b"other"]):
        headers = [JSON, *((name, value) for value in values)]
        assert (await Client(ADD, headers, method=method).run(endpoint)).status == 400
    answer = await Client(ADD, [JSON, (name, valid), (name, valid)]).run(endpoint)
    assert (answer.status, answer.body) == (200, SUM)


def test_what_is_shown_to_a_person() -> None:
    """What is open is told, and no password, and no path that may hold a key."""
    host = "any name in Host is accepted, so a page whose name is pointed here can use it: allowed_hosts"
    assert repr(Endpoint({})) == f"<Endpoint open=[{host!r}]>"
    assert repr(Endpoint({}, allowed_hosts=["a.example"])) == "<Endpoint open=[]>"
    http = pytest.importorskip("jsonrpc_fast.http.client")
    assert repr(http.HttpClient("http://u:secret@a.example:81/key")) == "<HttpClient of http://a.example:81>"
    assert repr(http.HttpClient("/key", base_url="http://a.example")) == "<HttpClient of http://a.example>"
    mcp = pytest.importorskip("jsonrpc_fast.mcp.server").Server("demo", "1")
    assert repr(mcp) == "<Server 'demo' tools=0 prompts=0 resources=0>"
    shown = repr(pytest.importorskip("jsonrpc_fast.mcp.http").McpEndpoint(mcp, allowed_hosts=["a.example"]))
    told = "whoever can reach it can use all of it: authorization"
    assert shown == f"<McpEndpoint path='/mcp' sessions=0 open=[{told!r}]>"
    asgi = pytest.importorskip("jsonrpc_fast.transports.asgi")

    async def serve(transport: Any) -> None: ...

    assert repr(asgi.WebSocketEndpoint(serve)) == "<WebSocketEndpoint origins=()>"
    assert repr(asgi.WebSocketEndpoint(serve, origins=None)) == "<WebSocketEndpoint origins=any>"
