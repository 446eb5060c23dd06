"""The options of transports are checked when they are given."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import pytest

from jsonrpc_fast import Limits, ParseError, ParseErrorCode, decode
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import StdioClient, StdioServer, TcpClient, TcpServer, UnixClient, UnixServer, memory_pair
from jsonrpc_fast.transports.websocket import WebSocketServer

from ..support.tables import rows
from ..support.transports import echo


@rows("option", ["drain_seconds", "max_faults"])
@rows("value", [-1, float("nan"), float("inf"), "1", True])
def test_options_of_all_transports(option: str, value: Any) -> None:
    for make in (partial(TcpServer, echo, "127.0.0.1", 0), partial(TcpClient, "127.0.0.1", 1), StdioServer):
        with pytest.raises((TypeError, ValueError), match=option):
            make(**{option: value})


@rows(
    ("make", "said"),
    [
        (
            partial(TcpClient, "h", 1, timeout=3),
            "TcpClient has no option 'timeout': it belongs to Session, blocking or a call",
        ),
        (
            partial(TcpClient, "h", 1, conect_seconds=3),
            "TcpClient has no option 'conect_seconds'; did you mean 'connect_seconds'?",
        ),
        (partial(UnixClient, "/a", framin="newline"), "UnixClient has no option 'framin'; did you mean 'framing'?"),
        (
            partial(TcpServer, echo, timeout=3),
            "TcpServer has no option 'timeout': it belongs to Session, blocking or a call",
        ),
        (partial(UnixServer, echo, "/a", sockt=1), "UnixServer has no option 'sockt'; did you mean 'sock'?"),
        (
            partial(TcpServer, echo, max_connection=3),
            "TcpServer has no option 'max_connection'; did you mean 'max_connections'?",
        ),
        (partial(WebSocketServer, echo, framing="newline"), "WebSocketServer has no option 'framing'"),
        (partial(WebSocketServer, echo, origin=()), "WebSocketServer has no option 'origin'; did you mean 'origins'?"),
        (partial(StdioClient, ["true"], zzz=1), "StdioClient has no option 'zzz'"),
    ],
)
def test_an_option_that_does_not_exist(make: Any, said: str) -> None:
    with pytest.raises(TypeError) as raised:
        make()
    assert str(raised.value) == said


@rows("value", [None, 0, -1, 1.5, True, "1"])
def test_max_connections(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="max_connections"):
        TcpServer(echo, "127.0.0.1", 0, max_connections=value)


@rows("option", ["exit_seconds"])
@rows("value", [None, -1, float("nan"), "1"])
def test_durations_of_a_child(option: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=option):
        StdioClient(["true"], **{option: value})


@rows(
    ("options", "text"),
    [
        ({"command": ["true", "\ud800"]}, "a part of command must not contain a lone surrogate"),
        ({"command": ["true\0"]}, "a part of command must not contain a NUL"),
        ({"command": [""]}, "command must name a program"),
        ({"command": ["true"], "cwd": "\ud800"}, "cwd must not contain a lone surrogate"),
        ({"command": ["true"], "cwd": "a\0"}, "cwd must not contain a NUL"),
        ({"command": ["true"], "env": {"A": "\ud800"}}, "a value in env must not contain a lone surrogate"),
        ({"command": ["true"], "env": {"A\0": ""}}, "a name in env must not contain a NUL"),
        ({"command": ["true"], "env": {"A=": ""}}, "a name in env must not contain ="),
        ({"command": [b"true"]}, "a part of command must be a str or a PathLike, not bytes"),
        ({"command": ["true"], "cwd": b"/"}, "cwd must be a str or a PathLike, not bytes"),
    ],
)
def test_what_the_system_cannot_get_is_refused(options: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        StdioClient(**options)
    assert str(raised.value) == text


@rows(("path", "text"), [("\ud800", "a lone surrogate"), ("a\0", "a NUL after its first character")])
def test_paths_of_sockets(path: str, text: str) -> None:
    for make in (UnixClient, partial(UnixServer, echo)):
        with pytest.raises(ValueError, match=f"path must not contain {text}"):
            make(path)


@rows(
    ("value", "text"),
    [
        ("1", "must be a number of seconds, not str"),
        (True, "must be a number of seconds, not bool"),
        (-1, "must be 0 seconds or more"),
        (float("nan"), "must be 0 seconds or more"),
    ],
)
async def test_the_timeouts_of_calls_and_of_dispatching(value: Any, text: str) -> None:
    one, other = memory_pair()
    handlers = Handlers({"f": lambda: 1})
    async with Session(one) as session, Session(other, handlers):
        for call in (
            partial(session.call, "f", timeout=value),
            partial(session.call, "f", idle_timeout=value),
            partial(session.call_batch, [("f", None)], timeout=value),
            partial(handlers.dispatch_async, b'{"jsonrpc":"2.0","id":1,"method":"f"}', timeout=value),
        ):
            with pytest.raises((TypeError, ValueError), match=text):
                await call()
        assert await session.call("f", timeout=float("inf")) == 1


@rows("framing", ["newline", "content-length"])
async def test_another_function_reads_the_texts(framing: Literal["newline", "content-length"]) -> None:
    def read(text: bytes) -> Any:
        found = decode(text)
        return ("refused", text) if isinstance(found, ParseError) and b"NaN" in text else found

    one, other = memory_pair(framing=framing, limits=Limits(message_bytes=100), decode=read)
    received: list[Any] = []
    faults: list[Any] = []
    other.onmessage, other.onerror = received.append, faults.append
    await one.start()
    await other.start()
    for text in (b'{"id":1,"a":NaN}', b"{]", b'{"jsonrpc":"2.0","id":5,"method":"%s"}' % (b"x" * 100), b"5", b"[NaN]"):
        one.send(text)
    await one.close()
    await other.wait_closed()
    assert received == [("refused", b'{"id":1,"a":NaN}'), ("refused", b"[NaN]")]
    assert [(fault.code, fault.id) for fault in faults] == [
        (ParseErrorCode.MALFORMED_JSON, None),
        (ParseErrorCode.MESSAGE_TOO_LARGE, 5),
        (ParseErrorCode.NOT_AN_OBJECT, None),
    ]
