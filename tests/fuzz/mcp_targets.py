"""Targets of MCP: a server with a hostile client, a client with a hostile server, schemas of tools, URI templates."""

from __future__ import annotations

import asyncio
import functools
import json
import random
from collections.abc import Hashable
from typing import Any, Final

from jsonrpc_fast import MCP_2025_11_25, Decoder, Notification, Request
from jsonrpc_fast.errors import CallTimeout, ConnectionLost, HandshakeError, RpcError, StateError
from jsonrpc_fast.mcp import connect
from jsonrpc_fast.mcp.protocol.schemas import Schema
from jsonrpc_fast.mcp.protocol.uris import UnsafePart, UriTemplate, uri_faults
from jsonrpc_fast.mcp.server import Server

from ..support.mcp_sample import sample
from ..support.places import WIRE
from ..support.waiting import results_of
from .codec_targets import head
from .mutate import message
from .target import CANARY, Target, check
from .wire import Replies, WireTransport, check_replies, id_key, lines, read_items, run

_MODERN_META: Final = (
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},'
    '"io.modelcontextprotocol/clientInfo":{"name":"c4n4ry","version":"1"}}'
)
_INITIALIZE: Final = (
    b'{"jsonrpc":"2.0","id":100,"method":"initialize","params":{"protocolVersion":"%s","capabilities":'
    b'{"sampling":{},"elicitation":{},"roots":{}},"clientInfo":{"name":"c4n4ry","version":"1"}}}\n'
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)
_VERSIONS: Final = (b"2025-11-25", b"2025-06-18", b"2025-03-26", b"2024-11-05")
_CALLS: Final = (
    ("tools/list", '"cursor":"Mg"'),
    ("tools/list", ""),
    ("tools/call", '"name":"add","arguments":{"a":1,"b":2}'),
    ("tools/call", '"name":"add","arguments":{"a":"c4n4ry","b":[]}'),
    ("tools/call", '"name":"echo","arguments":{"text":"c4n4ry"}'),
    ("tools/call", '"name":"fail","arguments":{}'),
    ("tools/call", '"name":"refuse"'),
    ("tools/call", '"name":"picture","arguments":{"wide":false}'),
    ("tools/call", '"name":"raw","arguments":{"n":1,"c4n4ry":[1]}'),
    ("tools/call", '"name":"work","arguments":{"steps":3},"_meta":{"progressToken":"c4n4ry"}'),
    ("tools/call", '"name":"c4n4ry","arguments":{}'),
    ("prompts/list", ""),
    ("prompts/get", '"name":"review","arguments":{"code":"c4n4ry"}'),
    ("prompts/get", '"name":"dialogue","arguments":{"count":"3"}'),
    ("resources/list", ""),
    ("resources/templates/list", ""),
    ("resources/read", '"uri":"notes://index"'),
    ("resources/read", '"uri":"notes://c4n4ry/12"'),
    ("resources/read", '"uri":"notes://%2e%2e/1"'),
    ("resources/read", '"uri":"resource://"'),
    ("resources/subscribe", '"uri":"notes://index"'),
    ("completion/complete", '"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"language","value":"P"}'),
    ("completion/complete", '"ref":{"type":"ref/resource","uri":"notes://{name}/{number}"},"argument":{"name":"name"}'),
    ("logging/setLevel", '"level":"debug"'),
    ("ping", ""),
    ("server/discover", ""),
    ("subscriptions/listen", '"notifications":{"toolsListChanged":true,"resourceSubscriptions":["notes://index"]}'),
    ("tasks/get", '"taskId":"c4n4ry"'),
    ("tasks/list", ""),
    ("c4n4ry", ""),
)  # fmt: skip


def _wire_lines(side: str) -> list[bytes]:
    names = [path for path in sorted(WIRE.iterdir()) if path.name.startswith("mcp-") and side in path.name]
    return [line for path in names for line in path.read_bytes().splitlines()]


_CLIENT_LINES: Final = _wire_lines("client")
_SERVER_LINES: Final = _wire_lines("server")


@functools.cache
def _sample() -> Server:
    return sample()


def server(data: bytes) -> Hashable:
    """Each request gets one response, whatever the handshake was, and no task is left."""
    return run(_server(data)) if len(data) >= 2 else None


async def _server(data: bytes) -> Hashable:
    served = _sample()
    wire = WireTransport(served.profile)
    prelude = _INITIALIZE % _VERSIONS[(data[0] >> 1) % 4] if data[0] & 1 else b""
    stream = prelude + data[2:]
    task = asyncio.ensure_future(served.run(wire, max_handlers=2 if data[0] & 8 else 256, timeout=None))
    while not wire.is_connected:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    await wire.play(stream, data[1])
    await task
    items = read_items(stream, served.profile)
    # The response policy is "never": faults without an id get no response.
    cancelled = [
        id_key(item.params.get("requestId"))
        for item in items
        if isinstance(item, Notification) and item.method == "notifications/cancelled" and isinstance(item.params, dict)
    ]
    # All that have the id: a hostile client uses one again while it is in flight.
    cancels = sum(isinstance(item, Request) and id_key(item.id) in cancelled for item in items)
    # Nor does a batch where the revision has none.
    decoder = Decoder("newline", served.profile)
    batches = [item for item in [*decoder.feed(stream), *decoder.close()] if isinstance(item, list)]
    batched = sum(isinstance(item, Request) for batch in batches for item in batch)
    check_replies(items, Replies(bytes(wire.sent)), cancels + batched)
    methods = {item.method for item in items if isinstance(item, Request) and item.method in _METHODS}
    codes = {str(getattr(item, "code", type(item).__name__)) for item in items}
    return data[0] & 1, tuple(sorted(methods)[:2]), tuple(sorted(codes)[:3])


_METHODS: Final = frozenset(method for method, _ in _CALLS)


def _make_call(rng: random.Random, is_modern: bool) -> bytes:
    if rng.random() < 0.1:
        return b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}' % rng.randrange(8)
    method, params = rng.choice(_CALLS)
    if is_modern and "_meta" not in params:
        params = f"{params},{_MODERN_META}" if params else _MODERN_META
    return f'{{"jsonrpc":"2.0","id":{rng.randrange(8)},"method":"{method}","params":{{{params}}}}}'.encode()


def make_client_stream(rng: random.Random) -> bytes:
    """Make what a client sends: calls of the sample server, captured lines, and other messages."""
    found = head(rng)
    is_modern = not found[0] & 1
    messages = []
    for _ in range(rng.randrange(1, 6)):
        choice = rng.random()
        if choice < 0.7:
            messages.append(_make_call(rng, is_modern))
        else:
            messages.append(rng.choice(_CLIENT_LINES) if choice < 0.9 else message(rng, _CLIENT_LINES))
    return found + lines(rng, messages)


_SERVER_INFO: Final = (
    b'{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},'
    b'"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{}},"serverInfo":{"name":"c4n4ry",'
    b'"version":"1"}}}\n'
)
_DISCOVERED: Final = (
    b'{"jsonrpc":"2.0","id":%d,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":'
    b'{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"c4n4ry","version":"1"},"ttlMs":0,'
    b'"cacheScope":"private"}}\n'
)
_RESULTS: Final = (
    b'{"tools":[{"name":"add","inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["a"]}}]}',
    b'{"tools":[],"nextCursor":"c4n4ry"}',
    b'{"tools":[{"name":"c4n4ry"}]}',
    b'{"resultType":"complete","tools":[],"ttlMs":1,"cacheScope":"public"}',
    b'{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"c4n4ry"}',
    b'{"content":[{"type":"text","text":"c4n4ry"}],"structuredContent":{"a":1}}',
    b'{"content":[{"type":"c4n4ry"}],"isError":true}',
    b'{"resultType":"complete","content":[]}',
    b'{"contents":[{"uri":"a:b","text":"c4n4ry"}]}',
    b'{"messages":[{"role":"user","content":{"type":"text","text":""}}]}',
    b'{"prompts":[{"name":"p"}]}',
    b'{"resources":[{"uri":"a:b","name":"c4n4ry"}]}',
    b"{}",
    b"null",
)
_REQUESTS: Final = (
    b'{"jsonrpc":"2.0","id":%d,"method":"roots/list"}',
    b'{"jsonrpc":"2.0","id":%d,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}',
    b'{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"message":"c4n4ry","requestedSchema":{}}}',
    b'{"jsonrpc":"2.0","id":%d,"method":"ping"}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1,"total":2}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}',
    b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}%.0d',
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"c4n4ry"}}%.0d',
    b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"c4n4ry"}}',
    b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32022,"message":"","data":{"supported":["2025-11-25"]}}}',
)
_ERRORS: Final = (RpcError, CallTimeout, ConnectionLost, HandshakeError, StateError, ValueError, asyncio.CancelledError)


def client(data: bytes) -> Hashable:
    """Each call ends in a result or a documented exception, and each request of the server gets one response."""
    return run(_client(data)) if len(data) >= 2 else None


async def _client(data: bytes) -> Hashable:
    profile = MCP_2025_11_25.replace(name="mcp", batches=True)
    wire = WireTransport(profile)
    mode = "modern" if data[0] & 1 else "legacy"
    prelude = b"" if data[0] & 2 else (_DISCOVERED if data[0] & 1 else _SERVER_INFO) % 1
    handlers: Any = {
        "roots/list": lambda _: {"roots": []},
        "sampling/createMessage": _sample_model,
        "elicitation/create": _elicit,
    }
    stream = prelude + data[2:]
    outcomes: list[Any] = []

    async def work() -> None:
        try:
            async with connect(wire, mode=mode, handlers=handlers, on_notification=_ignore, timeout=None) as end:
                calls = (
                    end.list_tools(),
                    end.call_tool("add", {"a": 1}, on_progress=_ignore),
                    end.read_resource("notes://index"),
                    end.get_prompt("p", {}),
                    end.list_prompts(),
                )
                outcomes.extend(await results_of(*calls))
        except Exception as error:
            outcomes.append(error)

    task = asyncio.ensure_future(work())
    while not wire.is_connected:
        await asyncio.sleep(0)
    for _ in range(3):
        await asyncio.sleep(0)
    if prelude:
        wire.channel_events.received(prelude)
        for _ in range(6):
            await asyncio.sleep(0)
    await wire.play(data[2:], data[1])
    await task
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            check(isinstance(outcome, _ERRORS), "not a documented exception", outcome)
            is_own = not isinstance(outcome, (RpcError, HandshakeError))  # these carry the peer's text
            check(not is_own or CANARY not in str(outcome), "the input is in an error", outcome)
    items = read_items(stream, profile)
    replies = Replies(bytes(wire.sent))
    check_replies(items, replies, len(items))
    return data[0] & 3, tuple(type(outcome).__name__ for outcome in outcomes)


async def _sample_model(_: Any) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}


async def _elicit(_: Any) -> dict[str, Any]:
    raise ValueError("failed")


def _ignore(*_: Any) -> None:
    pass


def make_server_stream(rng: random.Random) -> bytes:
    """Make what a server sends: results for the calls, requests, captured lines, and other messages."""
    messages = []
    for number in range(2, 2 + rng.randrange(1, 7)):
        choice = rng.random()
        if choice < 0.5:
            messages.append(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (number, rng.choice(_RESULTS)))
        elif choice < 0.8:
            messages.append(rng.choice(_REQUESTS) % rng.randrange(8))
        else:
            messages.append(rng.choice(_SERVER_LINES) if choice < 0.9 else message(rng, _SERVER_LINES))
    return head(rng) + lines(rng, messages)


def schema(data: bytes) -> Hashable:
    """A schema compiles or raises ValueError, and says what is wrong with a value without showing it."""
    names: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names.extend(name for name, _ in pairs)
        return dict(pairs)

    try:
        pair = json.loads(data, object_pairs_hook=members)
    except (ValueError, RecursionError):
        return "not JSON"
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], dict):
        return "not a pair"
    try:
        compiled = Schema(pair[0])
    except ValueError as error:
        return "ValueError", str(error)[:24]
    faults = compiled.faults(pair[1])
    check(len(faults) <= 21, "too many faults", len(faults))
    # A problem of an alternative is reported with its path, which consists of names.
    if CANARY not in json.dumps(pair[0]) and not any(CANARY in name for name in names):
        check(not any(CANARY in fault.message for fault in faults), "the value is in a fault", faults)
    return tuple(sorted({fault.keyword for fault in faults})[:3])


_SCHEMA_PARTS: Final = (
    '"type":"object"', '"type":["string","null"]', '"properties":{"a":%s,"b":%s}', '"required":["a","c"]',
    '"additionalProperties":%s', '"additionalProperties":false', '"items":%s', '"prefixItems":[%s,%s]',
    '"uniqueItems":true', '"anyOf":[%s,%s]', '"oneOf":[%s,%s,%s]', '"allOf":[%s]', '"not":%s', '"if":%s,"then":%s',
    '"pattern":"^(a+)+$"', '"pattern":"(a|aa)*b"', '"pattern":"[^x]{3,}"', '"patternProperties":{"^a":%s}',
    '"propertyNames":%s', '"contains":%s,"minContains":2', '"$ref":"#"', '"$ref":"#/properties/a"',
    '"$ref":"https://example.org/x"', '"$defs":{"d":%s}', '"$ref":"#/$defs/d"', '"$dynamicRef":"#x"',
    '"unevaluatedProperties":%s', '"enum":[1,"a",null]', '"const":{"a":[1]}', '"minimum":0', '"multipleOf":0.1',
    '"maxLength":3', '"format":"date-time"', '"format":"regex"', '"dependentSchemas":{"a":%s}', '"maxItems":2',
)  # fmt: skip


def _make_schema(rng: random.Random, level: int) -> str:
    if level > 3 or rng.random() < 0.1:
        return rng.choice(("true", "false", "{}", '{"type":"integer"}', '{"$ref":"#"}'))
    parts = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        part = rng.choice(_SCHEMA_PARTS)
        parts.append(part % tuple(_make_schema(rng, level + 1) for _ in range(part.count("%s"))))
    return "{" + ",".join(parts) + "}"


def _make_value(rng: random.Random, level: int) -> Any:
    choice = rng.random()
    if level < 5 and choice < 0.35:
        return {rng.choice(("a", "b", "c", CANARY)): _make_value(rng, level + 1) for _ in range(rng.randrange(4))}
    if level < 5 and choice < 0.6:
        return [_make_value(rng, level + 1) for _ in range(rng.choice((0, 1, 2, 30)))] if level < 3 else []
    return rng.choice((1, -1.5, "a" * 30 + "!", CANARY, True, None, "2026-11-22T00:00:00Z", 10**30, "é"))


def make_schema(rng: random.Random) -> bytes:
    """Make a schema and a value."""
    return f"[{_make_schema(rng, 0)},{json.dumps(_make_value(rng, 0))}]".encode()


def uri(data: bytes) -> Hashable:
    """A template is valid or raises ValueError, and matches a URI or not, in linear time."""
    template, _, text = data.decode("utf-8", "surrogateescape").partition("\n")
    is_valid = not uri_faults(text)
    try:
        made = UriTemplate(template)
    except ValueError as error:
        check(CANARY not in str(error), "the template is in an error", error)
        return str(error)[:40], is_valid
    try:
        found = made.match(text)
    except UnsafePart:
        return "unsafe", is_valid
    check(found is None or set(found) <= set(made.names), "names", found)
    return None if found is None else len(found), is_valid, len(made.names)


_TEMPLATE_PARTS: Final = (
    "file://", "/", "{a}", "{b*}", "{/c*}", "{?d,e}", "{&f}", "{+g}", "{#h}", "{.i}", "{;j}", "{k:3}", "-", "a", "%41",
    "{", "}", "{a,b}", "é",
)  # fmt: skip
_URI_PARTS: Final = (
    "file://", "/", "x", "c4n4ry", "..", "%2e%2e", "%00", "?d=1", "&e=2", "#", ".", ";j=1", "-", "a", "%41", "%zz",
    "\\", "é", "aaaaaaaaaaaaaaaa", "=", ",",
)  # fmt: skip


def make_uri(rng: random.Random) -> bytes:
    """Make a template and a URI."""
    template = "".join(rng.choices(_TEMPLATE_PARTS, k=rng.randrange(1, 8)))
    text = "".join(rng.choices(_URI_PARTS, k=rng.randrange(1, 30)))
    if rng.random() < 0.1:
        text *= 50
    return f"{template}\n{text}".encode()


TARGETS: Final[dict[str, Target]] = {
    "mcp-server": Target(server, make_client_stream),
    "mcp-client": Target(client, make_server_stream),
    "schema": Target(schema, make_schema),
    "uri": Target(uri, make_uri),
}
"""The targets of MCP, by name."""
