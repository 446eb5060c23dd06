"""Wrong arguments are refused where they are given: every public constructor names the one that is wrong."""

from __future__ import annotations

import importlib
import inspect
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from jsonrpc_fast import Limits, mcp, transports
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.http import Endpoint, WsgiEndpoint
from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.session import ReconnectingSession, Session, SessionOptions
from jsonrpc_fast.transports import (
    Connection,
    MemoryTransport,
    StdioClient,
    StdioServer,
    TcpClient,
    TcpServer,
    Transport,
    UnixClient,
    UnixServer,
    memory_pair,
)
from jsonrpc_fast.transports.memory import MemoryChannel
from jsonrpc_fast.transports.protocol import MessageOptions, TransportOptions

from ..support.tables import table


class Wrong:
    """An object that is valid for no argument."""


def make(module: str, name: str) -> Any:
    return getattr(pytest.importorskip(module), name)


def transport() -> Any:
    return memory_pair()[0]


CONSTRUCTORS: list[tuple[str, Callable[[], Any], Callable[[], dict[str, Any]]]] = [
    ("Handlers", lambda: Handlers, dict),
    ("Session", lambda: Session, lambda: {"transport": transport()}),
    ("ReconnectingSession", lambda: ReconnectingSession, lambda: {"make_transport": transport}),
    ("Connection", lambda: Connection, lambda: {"channel": MemoryChannel.pair()[0]}),
    ("MemoryTransport", lambda: MemoryTransport, lambda: {"channel": MemoryChannel.pair()[0]}),
    ("TcpClient", lambda: TcpClient, lambda: {"host": "localhost", "port": 1}),
    ("UnixClient", lambda: UnixClient, lambda: {"path": "path"}),
    ("TcpServer", lambda: TcpServer, lambda: {"serve": len, "port": 0}),
    ("UnixServer", lambda: UnixServer, lambda: {"serve": len, "path": "path"}),
    (
        "WebSocketServer",
        lambda: make("jsonrpc_fast.transports.websocket", "WebSocketServer"),
        lambda: {"serve": len, "port": 0},
    ),
    ("StdioClient", lambda: StdioClient, lambda: {"command": ["program"]}),
    ("StdioServer", lambda: StdioServer, dict),
    (
        "WebSocketClient",
        lambda: make("jsonrpc_fast.transports.websocket", "WebSocketClient"),
        lambda: {"uri": "ws://localhost/"},
    ),
    ("Endpoint", lambda: Endpoint, lambda: {"handlers": {}}),
    ("WsgiEndpoint", lambda: WsgiEndpoint, lambda: {"handlers": {}}),
    ("HttpClient", lambda: make("jsonrpc_fast.http.client", "HttpClient"), lambda: {"url": "http://localhost/"}),
    (
        "AsyncHttpClient",
        lambda: make("jsonrpc_fast.http.client", "AsyncHttpClient"),
        lambda: {"url": "http://localhost/"},
    ),
    ("mcp.connect", lambda: mcp.connect, lambda: {"server": "program"}),
    ("mcp.connect with a URL", lambda: mcp.connect, lambda: {"server": "http://localhost/"}),
    ("Client", lambda: make("jsonrpc_fast.mcp.client", "Client"), lambda: {"transport": transport()}),
    ("Gateway", lambda: mcp.Gateway, lambda: {"servers": {"s": "program"}}),
    ("Server", lambda: make("jsonrpc_fast.mcp.server", "Server"), lambda: {"name": "n", "version": "1"}),
    (
        "StreamableHttpClient",
        lambda: make("jsonrpc_fast.mcp.http.client", "StreamableHttpClient"),
        lambda: {"url": "http://localhost/"},
    ),
    ("MemoryEventStore", lambda: make("jsonrpc_fast.mcp.http", "MemoryEventStore"), dict),
    ("Service", lambda: make("jsonrpc_fast.adapters.nats", "Service"), lambda: {**nats_target(), "handlers": {}}),
    ("ServiceClient", lambda: make("jsonrpc_fast.adapters.nats", "ServiceClient"), lambda: nats_target()),
    (
        "SubjectTransport",
        lambda: make("jsonrpc_fast.adapters.nats", "SubjectTransport"),
        lambda: {"receives": "a", "sends": "b"},
    ),
]
ANYTHING = {
    "auth": "the HTTP library takes functions and tuples, too",
    "context": "the value that the handlers get",
    "hooks": "an object with any of the hooks",
}
OTHER_TEXTS = {
    "allowed_hosts": "several names|allowed_hosts",
    "arguments": "apply to a program",
    "client": "the HTTP client must be",
    "cwd": "apply to a program|cwd",
    "env": "apply to a program|env",
    "functions": "handlers",
    "headers": "apply to a URL|headers",
    "http_client": "apply to a URL|the HTTP client must be",
    "max_restarts": "max_restarts",
    "stderr": "apply to a program|stderr",
    "uri": "uri",
    "url": "the URL must be a str",
}
"""What the error says instead of the argument's name."""


def nats_target() -> dict[str, Any]:
    return {"connection": pytest.importorskip("nats.aio.client").Client(), "subject": "subject"}


def parameters(constructor: Any) -> Iterator[str]:
    """Yield the names of the parameters that are not flags, including those of its options."""
    for parameter in inspect.signature(constructor).parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD:
            if parameter.kind is not parameter.VAR_POSITIONAL and parameter.annotation not in ("bool", "Any"):
                yield parameter.name
        elif found := re.search(r"Unpack\[(\w+)\]", str(parameter.annotation)):
            yield from options_of(found[1])


def options_of(name: str) -> list[str]:
    known: dict[str, Mapping[str, Any]] = {
        "SessionOptions": SessionOptions.__annotations__,
        "MessageOptions": MessageOptions.__annotations__,
        "TransportOptions": {**MessageOptions.__annotations__, **TransportOptions.__annotations__},
    }
    for module, names in (
        ("jsonrpc_fast.http", ("EndpointOptions",)),
        ("jsonrpc_fast.adapters.nats.connection", ("CodecOptions",)),
        ("jsonrpc_fast.transports.stream.transport", ("SocketOptions", "MessageSocketOptions")),
        ("jsonrpc_fast.transports.stream.server", ("ServerOptions",)),
        ("jsonrpc_fast.transports.websocket.channel", ("WebSocketOptions",)),
        ("jsonrpc_fast.transports.websocket.server", ("WebSocketServerOptions",)),
    ):
        if name in names:
            kind = getattr(importlib.import_module(module), name)
            return [key for base in (kind,) for key, value in base.__annotations__.items() if "bool" not in str(value)]
    return [key for key, value in known[name].items() if "bool" not in str(value)]


def test_each_transport_has_a_row() -> None:
    """Those of `transports`, but the two bases that are not made by themselves."""
    kinds = {name: getattr(transports, name) for name in transports.__all__}
    found = {name for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Transport)}
    found -= {"Transport", "StreamTransport"}
    assert found - {name for name, _, _ in CONSTRUCTORS} == set(), "each needs a row in CONSTRUCTORS of this file"


def test_every_constructor_refuses_what_it_cannot_use() -> None:
    with table() as row:
        for name, found, good in CONSTRUCTORS:
            try:
                constructor = found()
            except pytest.skip.Exception as skipped:
                with row(name):
                    raise skipped
                continue
            constructor(**good())
            for parameter in parameters(constructor):
                if parameter in ANYTHING:
                    continue
                with row(f"{name}: {parameter}"):
                    with pytest.raises((TypeError, ValueError)) as caught:
                        constructor(**{**good(), parameter: Wrong()})
                    expected = OTHER_TEXTS.get(parameter, parameter)
                    assert re.search(expected, str(caught.value)), str(caught.value)
                    assert "must" in str(caught.value) or "apply" in str(caught.value), str(caught.value)


def test_what_people_mix_up() -> None:
    """The most common arguments of the wrong kind."""
    http = pytest.importorskip("jsonrpc_fast.http.client")
    library = pytest.importorskip("httpx2")
    server, tasks = (make("jsonrpc_fast.mcp.server", name) for name in ("Server", "TaskStore"))
    endpoint = make("jsonrpc_fast.transports.asgi", "WebSocketEndpoint")
    with table() as row:
        for make_it, text in (
            (lambda: Session({"add": lambda a, b: a + b}), "transport must be a Transport, not dict"),  # type: ignore[arg-type]
            (lambda: Session(transport(), [1]), "handlers must be a Mapping, not list"),  # type: ignore[arg-type]
            (lambda: Session("localhost:80"), "transport must be a Transport, not str"),  # type: ignore[arg-type]
            (lambda: Endpoint([len]), "handlers must be a Mapping, not list"),  # type: ignore[arg-type]
            (lambda: Endpoint(len), "handlers must be a Mapping, not builtin_function_or_method"),  # type: ignore[arg-type]
            (lambda: ReconnectingSession(transport()), "make_transport must be callable, not MemoryTransport"),
            (lambda: TcpClient("localhost", "80"), "port must be an int, not str"),  # type: ignore[arg-type]
            (lambda: StdioClient("program"), "command must be a sequence of strings: the program and its arguments"),
            (lambda: mcp.connect(5), "server must be a program, a URL, a Server or a transport, not int"),  # type: ignore[arg-type]
            (
                lambda: http.AsyncHttpClient("http://a/", library.Client()),
                "the HTTP client must be an httpx2.AsyncClient, not httpx2.Client",
            ),
            (lambda: RpcError("5", "text"), "code must be an int, not str"),  # type: ignore[arg-type]
            (lambda: endpoint(serve, subprotocols="jsonrpc"), "subprotocols must be a list or a tuple, not str"),
            (lambda: endpoint(serve, origins="https://a"), "origins must be a list or a tuple, not str"),
            (lambda: endpoint(serve, origins=[3]), "an item of origins must be a str or a Pattern, not int"),
            (lambda: McpEndpoint(server("n", "1"), path=None), "path must be a str, not NoneType"),
            (lambda: McpEndpoint(server("n", "1"), session_prefix=3), "session_prefix must be a str, not int"),
            (lambda: server("n", "1").tool("t", input_schema=3)(lambda: 1), "input_schema must be a dict, not int"),
            (lambda: tasks(max_tasks="1"), "max_tasks must be an int, not str"),
            (lambda: tasks(ttl_ms=None), "ttl_ms must be an int, not NoneType"),
        ):
            with row(text):
                with pytest.raises(TypeError) as caught:
                    make_it()
                assert str(caught.value) == text


def test_ranges() -> None:
    """An error names the argument and what it may be."""
    http = pytest.importorskip("jsonrpc_fast.http.client")
    server = make("jsonrpc_fast.mcp.server", "Server")
    positive = "must be more than 0 seconds, and finite"
    url_text = "the URL must begin with http:// or https:// and have a host"
    unbound, unbound_unix = socket.socket(), socket.socket(socket.AF_UNIX)
    cases: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: TcpServer(serve, port=65536), "port must be 0 to 65535"),
        (lambda: TcpServer(serve, port=-1), "port must be 0 to 65535"),
        (lambda: TcpClient("localhost", 65536), "port must be 1 to 65535"),
        (lambda: TcpClient("localhost", 0), "port must be 1 to 65535"),
        (lambda: TcpServer(serve, sock=unbound), "sock must listen, or be bound to an address"),
        (lambda: UnixServer(serve, sock=unbound_unix), "sock must listen, or be bound to an address"),
        (lambda: TcpServer(serve, port=0, max_buffered_bytes=0), "max_buffered_bytes must be 1 or more"),
        (
            lambda: TcpServer(serve, port=0, max_buffered_bytes=10**400),
            "max_buffered_bytes must be 1 to 9223372036854775807",
        ),
        (lambda: Limits(message_bytes=10**400), "message_bytes must be 1 to 4611686018427387903"),
        (lambda: Handlers(timeout=10**400), "timeout must be 0 seconds or more, and finite"),
        (lambda: Handlers(timeout=-1), "timeout must be 0 seconds or more"),
        (lambda: UnixServer(serve, "path", mode=0o1000), "mode must be 0o0 to 0o777"),
        (lambda: UnixServer(serve, "path", mode=-1), "mode must be 0o0 to 0o777"),
        (lambda: UnixServer(serve, ""), "path must not be empty"),
        (lambda: UnixServer(serve, b"path"), "path must be a str or a PathLike, not bytes"),  # type: ignore[arg-type]
        (lambda: UnixClient(""), "path must not be empty"),
        (lambda: UnixClient("a\0b"), "path must not contain a NUL after its first character"),
        (lambda: Session(transport(), heartbeat_seconds=0), f"heartbeat_seconds {positive}"),
        *[
            (partial(server, "n", "1", state_seconds=wrong), f"state_seconds {positive}")
            for wrong in (-1, 0, float("inf"), float("nan"), 10**400)
        ],
        *[
            (
                partial(mcp.connect, url),
                "server must be a program, or a URL that begins with http:// or https://: unknown scheme",
            )
            for url in ("ftp://localhost/", "WS://localhost/", "unix+http:///run/socket")
        ],
        (lambda: mcp.connect(""), "command must name a program"),
        (lambda: mcp.connect("http:///mcp"), url_text),
        (lambda: mcp.connect("http://localhost:65536/"), "the port of the URL must be 0 to 65535"),
        (lambda: http.HttpClient("ftp://localhost/"), url_text),
        (lambda: http.HttpClient("localhost/rpc"), url_text),
        (lambda: http.AsyncHttpClient(""), url_text),
        (lambda: http.HttpClient("http://localhost:65536/"), "the port of the URL must be 0 to 65535"),
        (lambda: mcp.connect("p", handlers={"roots/list": 5}), "a function in handlers must be callable, not int"),  # type: ignore[dict-item]
        (lambda: mcp.connect("p", handlers={5: len}), "a name in handlers must be a str, not int"),  # type: ignore[dict-item]
    )
    with table() as row, unbound, unbound_unix:
        for make_it, text in cases:
            with row(text):
                with pytest.raises((TypeError, ValueError)) as caught:
                    make_it()
                assert str(caught.value) == text


async def serve(transport: object) -> None:
    raise AssertionError("nobody connects")
