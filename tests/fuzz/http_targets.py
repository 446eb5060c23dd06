"""Fuzz targets of HTTP: the ASGI and the WSGI endpoint, and MCP's Streamable HTTP endpoint, without a server.

An input is `METHOD path`, lines of headers, an empty line and the body; the first byte selects the profile, the second
one the sizes of the parts in which the body arrives. For MCP an input has several requests, with lines of `---` between
them.
"""

from __future__ import annotations

import asyncio
import functools
import io
import json
import random
import re
from collections.abc import Hashable
from typing import Any, Final, NamedTuple

from jsonrpc_fast import JSONRPC, MCP_2025_11_25, Limits, decode
from jsonrpc_fast.framing.sse import EventDecoder
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.http import Endpoint, WsgiEndpoint
from jsonrpc_fast.mcp.http import McpEndpoint

from ..support.asgi import LEFT, Answer, Client
from ..support.mcp_sample import sample
from .codec_targets import chunks, head
from .differential import seeds
from .mcp_targets import make_client_stream
from .mutate import message
from .session_targets import HANDLERS
from .target import CANARY, Target, check
from .wire import Replies, check_replies, run

_SEEDS: Final = seeds()
_PROFILES: Final = (JSONRPC, MCP_2025_11_25, JSONRPC.replace(limits=Limits(message_bytes=300, depth=3, batch_items=2)))
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_STATUSES: Final = frozenset({200, 204, 400, 403, 405, 411, 413, 415, 421})
_MCP_STATUSES: Final = frozenset({200, 202, 204, 400, 403, 404, 405, 406, 409, 410, 413, 415, 421, 503})


class Parsed(NamedTuple):
    """A request as a server passes it on."""

    method: str
    path: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    is_cut: bool


def parse_request(text: bytes) -> Parsed | None:
    """Return a request as a server passes it to an application; None if a server refuses it."""
    top, _, body = text.replace(b"\r\n", b"\n", 40).partition(b"\n\n")
    first, *fields = top.split(b"\n")
    method, _, path = first.partition(b" ")
    if not _TOKEN.fullmatch(method.lower()) or not path.startswith(b"/"):
        return None
    headers = []
    for field in fields:
        name, colon, value = field.partition(b":")
        if not colon or not _TOKEN.fullmatch(name.lower()) or any(byte < 32 or byte == 127 for byte in value.strip()):
            return None
        headers.append((name.lower(), value.strip()))
    lengths = {value for name, value in headers if name == b"content-length"}
    if len(lengths) == 1 and (length := lengths.pop()).isdigit() and len(length) < 9:
        return Parsed(method.decode(), path.decode("latin-1"), headers, body[: int(length)], int(length) > len(body))
    return Parsed(method.decode(), path.decode("latin-1"), headers, body, False)


class _Exchange(Client):
    """A request to an ASGI application, and its response, whose headers must not show the input."""

    def __init__(self, parsed: Parsed, selector: int) -> None:
        parts: list[bytes | None] = [*chunks(parsed.body, selector)]
        super().__init__(
            [*parts, LEFT] if parsed.is_cut else parts,
            method=parsed.method,
            path=parsed.path,
            server=("127.0.0.1" if selector & 64 else "192.0.2.1", 80),
        )
        self.scope["headers"] = parsed.headers

    async def send(self, event: dict[str, Any]) -> None:
        await super().send(event)
        values = [value for _, value in event.get("headers", ())]
        check(all(b"\n" not in value and b"\r" not in value for value in values), "a line break", values)
        check(CANARY.encode() not in b"".join(values), "the input is in a header", values)

    @property
    def got(self) -> Answer:
        return self.answer or Answer()


@functools.cache
def _endpoints(number: int) -> tuple[Handlers, Endpoint, WsgiEndpoint]:
    profile = _PROFILES[number]
    return HANDLERS, Endpoint(HANDLERS, profile=profile), WsgiEndpoint(HANDLERS, profile=profile)


def http(data: bytes) -> Hashable:
    """Both endpoints give the same response, and the one that `Handlers` gives for the body."""
    return run(_http(data)) if len(data) >= 2 else None


async def _http(data: bytes) -> Hashable:
    parsed = parse_request(data[2:])
    if parsed is None:
        return "not HTTP"
    number = data[0] % len(_PROFILES)
    profile = _PROFILES[number]
    handlers, endpoint, wsgi = _endpoints(number)
    exchange = _Exchange(parsed, data[1])
    await endpoint(exchange.scope, exchange.receive, exchange.send)
    if parsed.is_cut and exchange.got.status == 0:
        return "disconnected"
    check(exchange.is_complete and exchange.got.status in _STATUSES, "status", exchange.got.status)
    if exchange.got.status == 200 and parsed.method == "POST":
        body = exchange.got.body
        expected = await handlers.dispatch_async(parsed.body, profile, delimited=False)
        check(body == expected, "not the reply of dispatch", body, expected)
        item = decode(parsed.body, profile)
        check_replies(item if isinstance(item, list) else [item], Replies(body + b"\n"), 0)
    else:
        check(CANARY.encode() not in exchange.got.body, "the input is in an answer", exchange.got.body)
    names = [name for name, _ in parsed.headers]
    # WSGI does not distinguish an empty length, which is malformed, from an absent one (PEP 3333). Its frameworks read
    # no body without a length, so an empty one is refused there.
    has_length = b"content-length" in names and (b"content-length", b"") not in parsed.headers
    is_comparable = len(set(names)) == len(names) and (has_length or (parsed.body and b"content-length" not in names))
    if is_comparable and not parsed.is_cut and data[0] & 128 == 0:
        _check_wsgi(wsgi, parsed, exchange)
    return exchange.got.status, number, len(exchange.got.body) > 0, parsed.method[:6]


def _check_wsgi(wsgi: WsgiEndpoint, parsed: Parsed, exchange: _Exchange) -> None:
    """Check that the WSGI endpoint responds alike, if its functions are sync and the length is known."""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": parsed.method,
        "PATH_INFO": parsed.path,
        "SERVER_NAME": exchange.scope["server"][0],
        "REMOTE_ADDR": "192.0.2.2",
        "wsgi.input": io.BytesIO(parsed.body),
        "wsgi.input_terminated": True,
    }
    for name, value in parsed.headers:
        key = name.decode("latin-1").upper().replace("-", "_")
        environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value.decode("latin-1")
    started: list[Any] = []
    body = b"".join(wsgi(environ, lambda *given: started.append(given)))
    status, headers = int(started[0][0][:3]), dict(started[0][1])
    check(status == exchange.got.status, "WSGI answers", status, "ASGI", exchange.got.status)
    if b'"error"' not in body and b'"error"' not in exchange.got.body:  # async functions are an error there
        check(body == exchange.got.body, "WSGI answers", body, "ASGI", exchange.got.body)
    check(CANARY not in str(headers), "the input is in a header", headers)
    fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in parsed.headers]
    client = exchange.scope["server"][:1]  # an address of this machine on one side is one on both sides
    served = wsgi.serve(parsed.method, fields, parsed.body, client=client, path=parsed.path)
    check(served == (status, headers, body), "serve answers", served, "WSGI", (status, headers, body))


_HEADERS: Final = (
    b"Content-Type: application/json; charset=utf-8", b"content-type: text/plain",
    b"Content-Length: 9223372036854775808", b"Content-Length: 5", b"Content-Length: -1",
    b"Content-Length: 0x10", b"Content-Encoding: gzip",
    b"Content-Encoding: identity", b"Host: example.org", b"Host: c4n4ry", b"Host: [::1]:80", b"Host: localhost:c4n4ry",
    b"Origin: null", b"Origin: http://c4n4ry", b"Origin: http://localhost", b"Accept: */*;q=0", b"Accept: c4n4ry",
    b"Transfer-Encoding: chunked", b"X-C4n4ry: c4n4ry", b"Content-Type: application/json; charset=c4n4ry",
)  # fmt: skip


def make_http(rng: random.Random) -> bytes:
    """Make a request, most often one that is accepted."""
    body = message(rng, _SEEDS)
    fields = [b"Content-Type: application/json", b"Host: localhost"]
    if rng.random() < 0.5:
        fields.append(b"Content-Length: %d" % len(body))
    while rng.random() < 0.3:
        fields[rng.randrange(len(fields)) :] = [rng.choice(_HEADERS)]
    first = rng.choice((b"POST /", b"POST /", b"POST /", b"POST /c4n4ry", b"GET /health", b"OPTIONS /", b"PUT /"))
    return head(rng) + b"\n".join([first, *fields, b"", body])


# MCP over HTTP.


async def _send(endpoint: McpEndpoint, parsed: Parsed, selector: int) -> _Exchange:
    """Send a request; the client disconnects from an endless stream after a while."""
    exchange = _Exchange(parsed, selector)
    task = asyncio.ensure_future(endpoint(exchange.scope, exchange.receive, exchange.send))
    for _ in range(400):
        if task.done():
            break
        await asyncio.sleep(0)
    exchange.gone.set()
    await task
    return exchange


_server: Final = functools.cache(sample)


_BEGIN: Final = (
    b'POST /mcp\ncontent-type: application/json\naccept: application/json, text/event-stream\nhost: localhost\n\n'
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"%s","capabilities":{},'
    b'"clientInfo":{"name":"c","version":"1"}}}'
)  # fmt: skip
_LEGACY: Final = (b"2025-11-25", b"2025-03-26")


def mcp_http(data: bytes) -> Hashable:
    """Each request over MCP's Streamable HTTP has one response, and a session that ends leaves no task and no state."""
    return run(_mcp_http(data)) if len(data) >= 2 else None


async def _mcp_http(data: bytes) -> Hashable:
    endpoint = McpEndpoint(
        _server(),
        max_sessions=3,
        keep_alive_seconds=3600.0,
        body_seconds=None,
        write_seconds=None,
        max_session_requests=8,
    )
    try:
        return await _send_all(endpoint, data)
    finally:
        await endpoint.close(0.0)


async def _send_all(endpoint: McpEndpoint, data: bytes) -> Hashable:
    session = b"none"
    if data[0] & 1:
        begin = parse_request(_BEGIN % _LEGACY[(data[0] >> 1) % 2])
        assert begin is not None
        exchange = await _send(endpoint, begin, 0)
        check(exchange.got.status == 200, "initialize", exchange.got.status, exchange.got.body)
        session = exchange.got.headers[b"mcp-session-id"]
    kinds = []
    for text in data[2:].split(b"\n---\n")[:4]:
        parsed = parse_request(text.replace(b"{session}", session, 1))
        if parsed is None:
            continue
        exchange = await _send(endpoint, parsed, data[1])
        if exchange.got.status == 0:
            check(parsed.is_cut or parsed.method in ("GET", "POST"), "no answer")
            kinds.append("none")
            continue
        check(exchange.got.status in _MCP_STATUSES, "status", exchange.got.status)
        kinds.append(str(exchange.got.status))
        _check_mcp_body(parsed, exchange)
    return data[0] & 1, tuple(kinds)


def _check_mcp_body(parsed: Parsed, exchange: _Exchange) -> None:
    kind = exchange.got.headers.get(b"content-type", b"")
    if kind.startswith(b"application/json") and parsed.method == "POST":
        sent = json.dumps(json.loads(exchange.got.body)).encode() + b"\n"
    elif kind == b"text/event-stream":
        decoder = EventDecoder(1 << 20)
        texts = [event.data for event in decoder.feed(exchange.got.body) if event.data]
        sent = b"".join([json.dumps(json.loads(text)).encode() + b"\n" for text in texts])
    else:
        check(
            exchange.got.status in (400, 410) or CANARY.encode() not in exchange.got.body, "the input is in an answer"
        )
        return
    item = decode(parsed.body, MCP_2025_11_25.replace(batches=True))
    items = item if isinstance(item, list) else [item]
    replies = Replies(sent)
    if parsed.method == "POST" and exchange.got.status == 200 and exchange.is_complete:
        check_replies(items, replies, 0)


_MCP_HEADERS: Final = (
    b"mcp-session-id: {session}", b"mcp-session-id: {session}", b"mcp-session-id: c4n4ry",
    b"mcp-protocol-version: 2025-11-25", b"mcp-protocol-version: c4n4ry", b"mcp-protocol-version: 2026-07-28",
    b"mcp-method: tools/call", b"mcp-name: add", b"mcp-name: =?base64?YWRk?=", b"last-event-id: c4n4ry",
    b"last-event-id: get-1-1", b"accept: application/json", b"mcp-param-c4n4ry: 1",
)  # fmt: skip


def make_mcp_http(rng: random.Random) -> bytes:
    """Make up to three requests."""
    requests = []
    found = head(rng)
    for _ in range(rng.choice((1, 1, 2, 3))):
        fields = [b"content-type: application/json", b"host: localhost", b"accept: application/json, text/event-stream"]
        if found[0] & 1:
            fields.append(b"mcp-session-id: {session}")
        body = make_client_stream(rng)[2:].split(b"\n")[0].strip()
        if b"2026-07-28" in body and rng.random() < 0.8:
            try:
                value = json.loads(body)
            except ValueError:
                value = None
            if isinstance(value, dict) and isinstance(value.get("method"), str):
                fields += [b"mcp-protocol-version: 2026-07-28", b"mcp-method: " + value["method"].encode()]
                params = value.get("params")
                name = params.get("name", params.get("uri")) if isinstance(params, dict) else None
                if isinstance(name, str):
                    fields.append(b"mcp-name: " + name.encode())
        while rng.random() < 0.3:
            fields.insert(rng.randrange(len(fields)), rng.choice((*_MCP_HEADERS, *_HEADERS)))
        first = rng.choice((b"POST /mcp",) * 6 + (b"GET /mcp", b"DELETE /mcp", b"PUT /mcp", b"POST /c4n4ry"))
        requests.append(b"\n".join([first, *fields, b"", body]))
    return found + b"\n---\n".join(requests)


TARGETS: Final[dict[str, Target]] = {"http": Target(http, make_http), "mcp-http": Target(mcp_http, make_mcp_http)}
"""The targets of HTTP, by name."""
