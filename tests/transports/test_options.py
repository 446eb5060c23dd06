"""The options of transports are checked when they are given."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import pytest

from jsonrpc_fast import Limits, ParseError, ParseErrorCode, decode
from jsonrpc_fast.transports import (
    StdioClient,
    StdioServer,
    TcpClient,
    TcpServer,
    memory_pair,
)

from ..support.tables import rows
from ..support.transports import echo


@rows("option", ["drain_seconds", "max_faults"])
@rows("value", [-1, float("nan"), float("inf"), "1", True])
def test_options_of_all_transports(option: str, value: Any) -> None:
    for make in (partial(TcpServer, echo, "127.0.0.1", 0), partial(TcpClient, "127.0.0.1", 1), StdioServer):
        with pytest.raises((TypeError, ValueError), match=option):
            make(**{option: value})


@rows("value", [None, 0, -1, 1.5, True, "1"])
def test_max_connections(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="max_connections"):
        TcpServer(echo, "127.0.0.1", 0, max_connections=value)


@rows("option", ["exit_seconds", "terminate_seconds"])
@rows("value", [None, -1, float("nan"), "1"])
def test_durations_of_a_child(option: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=option):
        StdioClient(["true"], **{option: value})


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
