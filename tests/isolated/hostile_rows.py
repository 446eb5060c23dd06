"""The hostile inputs that `hostile_inputs.py` measures, by layer: how each is made in any size, and what reads it."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable
from typing import Any, Final

from jsonrpc_fast import JSONRPC
from jsonrpc_fast.errors import InvalidResponse
from jsonrpc_fast.framing.sse import EventDecoder
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.http import Endpoint, WsgiEndpoint
from jsonrpc_fast.mcp.http.sending import read
from jsonrpc_fast.mcp.protocol.schemas import Schema
from jsonrpc_fast.mcp.protocol.uris import UriTemplate, uri_faults
from jsonrpc_fast.mcp.server import Server
from jsonrpc_fast.session import LspConvention, Session

from ..fuzz.wire import WireTransport
from ..support.asgi import post
from ..support.engines import End, Fault
from .hostile_codec import INPUTS, Input, call, fill, params

ROWS: Final[list[Input]] = [*INPUTS]


def row(
    layer: str, name: str, make: Callable[[int], bytes], run: Callable[[bytes], str], size: int = 32 * 1024
) -> None:
    ROWS.append(Input(layer, name, size, make, {"": lambda _, data: run(data)}))


SMALL: Final = 4 * 1024
# Peers and sessions.


def peer(data: bytes) -> str:
    """Receive, and count the bytes of responses."""
    end = End(convention=LspConvention())
    end.call("m", None, 0.0, on_progress=str)
    sent = 0
    kinds = set()
    for step in end.receive(data):
        kinds.add(type(step).__name__)
        sent += len(step) if isinstance(step, bytes) else len(step.response) if isinstance(step, Fault) else 0
        kinds.discard("bytes")
    return f"{', '.join(sorted(kinds)) or 'dropped'}; {sent / len(data):.0f} bytes of responses per byte"


def flood(unit: bytes) -> Callable[[int], bytes]:
    """Make lines with a number in each."""
    return lambda size: b"".join([unit % number for number in range(size // len(unit))])


REQUEST: Final = b'{"jsonrpc":"2.0","id":%d,"method":"wait"}\n'
row(
    "peer",
    "cancellations of unknown requests",
    flood(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":%d}}\n'),
    peer,
)
row(
    "peer",
    "progress of a call",
    fill(b'{"jsonrpc":"2.0","method":"$/progress","params":{"token":1,"value":0}}\n'),
    peer,
)
row(
    "peer",
    "progress of unknown calls",
    flood(b'{"jsonrpc":"2.0","method":"$/progress","params":{"token":"%d","value":0}}\n'),
    peer,
)
row("peer", "responses to unknown calls", flood(b'{"jsonrpc":"2.0","id":%d,"result":0}\n'), peer)
row("peer", "one id again and again", fill(b'{"jsonrpc":"2.0","id":1,"method":"m"}\n'), peer)
row("peer", "an error storm of `1`", fill(b"1\n"), peer)
row("peer", "a batch of `1`", lambda size: b"[" + b"1," * min(9999, size // 2) + b"1]\n", peer, 4000)


def session(reads: bool, **options: Any) -> Callable[[bytes], str]:
    """Return a function that serves a stream with a handler that waits."""

    async def serve(data: bytes) -> str:
        opened = asyncio.Event()

        async def wait() -> str:
            await opened.wait()
            return "x" * 100

        async def echo() -> str:
            await asyncio.sleep(0)
            return "x" * 100

        wire = WireTransport(JSONRPC)
        end = Session(wire, {"wait": wait, "echo": echo}, **options)
        await end.start()
        if not reads:
            wire.channel.is_taken = False
        taken = 0
        for start in range(0, len(data), 64 * 1024):
            if not wire.is_reading:  # reading has paused
                break
            wire.channel_events.received(data[start : start + 64 * 1024])
            taken = min(len(data), start + 64 * 1024)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        opened.set()
        for _ in range(20):
            await asyncio.sleep(0)
        sent = len(wire.sent)
        busy = wire.sent.count(b"-32000") + wire.sent.count(b'"error"')
        await end.close(0)
        share = "all read" if taken == len(data) else "reading pauses"
        return f"{share}, {'some' if busy else 'none'} refused" + (
            "" if reads else f", {sent >> 10} KiB of responses held"
        )

    return lambda data: asyncio.run(serve(data))


BIG: Final = 128 * 1024
row("session", "requests whose handlers wait, different ids", flood(REQUEST), session(True, max_inbox=1000), BIG)
row(
    "session",
    "one batch of such requests",
    lambda size: b"[" + b",".join([REQUEST.strip() % number for number in range(min(9999, size // 40))]) + b"]\n",
    session(True, max_inbox=1000),
    64 * 1024,
)
row(
    "session",
    "requests, and the peer never reads",
    flood(b'{"jsonrpc":"2.0","id":%d,"method":"echo"}\n'),
    session(False, response_bytes=65536),
    BIG,
)


# HTTP.

HANDLERS: Final = Handlers({"m": lambda *_, **__: None})


def asgi(part: int = 0, *headers: tuple[bytes, bytes]) -> Callable[[bytes], str]:
    """Return a function that posts a body in parts."""
    endpoint = Endpoint(HANDLERS)

    def run(data: bytes) -> str:
        parts = [data[start : start + part] for start in range(0, len(data), part)] if part else data
        answer = asyncio.run(post(endpoint, parts, *headers))
        return f"status {answer.status}"

    return run


def wsgi(length: bytes) -> Callable[[bytes], str]:
    endpoint = WsgiEndpoint(HANDLERS)

    def run(data: bytes) -> str:
        import io

        environ = {
            "REQUEST_METHOD": "POST",
            "SERVER_NAME": "192.0.2.1",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": length.decode(),
            "wsgi.input": io.BytesIO(data),
        }
        found: list[str] = []
        endpoint(environ, lambda status, headers: found.append(status))
        return f"status {found[0][:3]}"

    return run


async def _compressed(body: bytes) -> str:
    class Answer:
        headers = {"content-encoding": "gzip"}  # noqa: RUF012
        is_stream_consumed = False

        async def aiter_raw(self) -> Any:
            for start in range(0, len(body), 65536):
                yield body[start : start + 65536]

    try:
        return f"{len(await read(Answer(), 1 << 20))} bytes"
    except InvalidResponse:
        return "InvalidResponse at the limit of 1 MiB"


def bomb(size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return packer.compress(bytes(1000 * size)) + packer.flush()


def gzip(data: bytes) -> str:
    return asyncio.run(_compressed(data))


row("HTTP server", "a body in parts of one byte", params(b"1,", b"[", b"1]"), asgi(1), SMALL)
row("HTTP server", "`Content-Length` of 2^63", fill(b"a"), asgi(0, (b"content-length", b"9223372036854775808")))
row("HTTP server", "the same, WSGI", fill(b"a"), wsgi(b"9223372036854775808"))
row("HTTP server", "a gzip bomb", bomb, asgi(0, (b"content-encoding", b"gzip")), 4000)
row(
    "HTTP server",
    "a long content type",
    lambda size: b"a" * size,
    lambda data: asgi(0, (b"content-type", b"text/" + data))(b"{}"),
)
row("MCP client", "a gzip bomb in a response", bomb, gzip, 16_000)
row(
    "MCP client",
    "an event without an end",
    fill(b"data: x\n"),
    lambda data: f"{len(EventDecoder(10_000).feed(data))} events",
)


# MCP.


def schema(schema: dict[str, Any]) -> Callable[[bytes], str]:
    """Return a function that validates arguments."""

    def run(data: bytes) -> str:
        faults = compiled.faults(json.loads(data))
        return "valid" if not faults else f"fault: {faults[0].message[:40]}"

    compiled = Schema(schema)
    return run


def compiles(data: bytes) -> str:
    """Compile a schema."""
    try:
        Schema(json.loads(data))
    except ValueError as error:
        return f"ValueError: {str(error).rpartition(': ')[2][:40]}"
    return "compiles"


TREE: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "object", "additionalProperties": {"$ref": "#"}},
        {"const": 1},
    ]
}
row(
    "MCP schema",
    "`uniqueItems`, different numbers",
    lambda size: json.dumps(list(range(size // 6))).encode(),
    schema({"uniqueItems": True}),
)
row(
    "MCP schema",
    "`uniqueItems`, equal objects but the last",
    lambda size: json.dumps([{"a": [number % 7, number]} for number in range(size // 20)]).encode(),
    schema({"uniqueItems": True}),
)
row("MCP schema", "the pattern `^(a+)+$`", lambda size: b'"' + b"a" * size + b'!"', schema({"pattern": "^(a+)+$"}))
row(
    "MCP schema",
    "the pattern `(?=(a+))b|(a|aa)+$`, which backtracks",
    lambda size: b'"' + b"a" * size + b'!"',
    schema({"pattern": "(?=(a+))b|(a|aa)+$"}),
    4000,
)
row("MCP schema", "`anyOf` that refers to itself", lambda size: json.dumps(_nested(100, size)).encode(), schema(TREE))
row(
    "MCP schema",
    "nesting beyond the limit",
    lambda size: b"[" * 500 + b"0," * (size // 2) + b"0" + b"]" * 500,
    schema({}),
)
row(
    "MCP schema", "a schema whose branches multiply", lambda size: json.dumps(_branches(size)).encode(), compiles, SMALL
)
row(
    "MCP schema",
    "a schema with many patterns",
    lambda size: json.dumps({"allOf": [{"pattern": f"^{number}"} for number in range(size // 16)]}).encode(),
    compiles,
    SMALL,
)
row(
    "MCP schema",
    "a schema with references in a ring",
    lambda size: json.dumps(
        {
            "$ref": "#/$defs/0",
            "$defs": {str(n): {"$ref": f"#/$defs/{(n + 1) % (size // 40)}"} for n in range(size // 40)},
        }
    ).encode(),
    compiles,
    2000,
)


def _nested(depth: int, size: int) -> Any:
    value: Any = [2] * (size // 3)
    for _ in range(depth):
        value = [value]
    return value


def _branches(size: int) -> dict[str, Any]:
    count = size // 64
    levels = {str(level): {"anyOf": [{"$ref": f"#/$defs/{level + 1}"}] * 2} for level in range(count)}
    return {"$ref": "#/$defs/0", "$defs": {**levels, str(count): {}}}


def template(text: str) -> Callable[[bytes], str]:
    made = UriTemplate(text, unsafe_parts=True)
    return lambda data: "matches" if made.match(data.decode()) is not None else "does not match"


row("MCP URI", "a template of five variables", fill(b"a-", b"x:"), template("x:{a}-{b}-{c}-{d}-{e}!"))
row("MCP URI", "an exploded variable", fill(b"/a", b"x:"), template("x:{/a*}"))
row("MCP URI", "parameters of a query", fill(b"&a=1", b"x:?a=1"), template("x:{?a,b,c}"))
row("MCP URI", "escapes", fill(b"%41", b"x:"), template("x:{+a}"))
row("MCP URI", "a URI over the limit, checked", fill(b"a", b"x:"), lambda data: uri_faults(data.decode())[0])


def mcp(stream: bytes) -> str:
    """Serve a stream as an MCP server."""
    return asyncio.run(_mcp(stream))


async def _mcp(stream: bytes) -> str:
    server = Server("hostile", "1.0")

    @server.tool
    def add(a: list[int]) -> int:
        return sum(a)

    wire = WireTransport(server.profile)
    task = asyncio.ensure_future(server.run(wire))
    while not wire.is_connected:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    for start in range(0, len(stream), 64 * 1024):
        while not wire.is_reading:
            await asyncio.sleep(0)
        wire.channel_events.received(stream[start : start + 64 * 1024])
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    wire.channel_events.received(b"")
    await task
    errors = wire.sent.count(b'"error":') + wire.sent.count(b'"isError":true')
    return f"{'errors' if errors else 'no errors'}; {len(wire.sent) / len(stream):.1f} bytes of responses per byte"


HELLO: Final = (
    b'{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"c","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)


def mcp_flood(unit: bytes) -> Callable[[int], bytes]:
    made = flood(unit)
    return lambda size: HELLO + made(size)


row(
    "MCP server",
    "calls of unknown tools",
    mcp_flood(b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"no"}}\n'),
    mcp,
)
row(
    "MCP server",
    "arguments against the schema",
    lambda size: (
        HELLO
        + call(b'{"name":"add","arguments":{"a":[' + b'"x",' * (size // 4) + b"1]}}").replace(b'"m"', b'"tools/call"')
        + b"\n"
    ),
    mcp,
)
row("MCP server", "`initialize` again and again", fill(HELLO), mcp)
row("MCP server", "unknown methods", mcp_flood(b'{"jsonrpc":"2.0","id":%d,"method":"x"}\n'), mcp)
row(
    "MCP server",
    "cancellations of unknown requests",
    mcp_flood(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}\n'),
    mcp,
)
row("MCP server", "the same list again and again", mcp_flood(b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n'), mcp)
