"""Why a connection broke, and what a response that cannot be read says: in exceptions, `session.fault` and the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jsonrpc_fast import ParseError, encode_request, encode_result, hooks
from jsonrpc_fast.codes import ParseErrorCode
from jsonrpc_fast.errors import CallTimeout, ConnectionLost, InvalidResponse, StateError
from jsonrpc_fast.hooks import log_broken
from jsonrpc_fast.session import ReconnectingSession, Session
from jsonrpc_fast.support import Seldom
from jsonrpc_fast.transports import TcpClient, memory_pair

from ..support.session_pairs import Faults, session_and_wire, slow
from ..support.tables import rows
from ..support.waiting import settle


@asynccontextmanager
async def answering(*texts: bytes) -> AsyncIterator[tuple[str, int]]:
    """Serve connections that answer the first line with these bytes and stay open; yield the address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        for text in texts:
            writer.write(text)
        if not texts or texts[-1] == b"":
            writer.close()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return the lines of the log, and forget them, and that there was one in this second."""
    found = [(record.levelname, record.getMessage()) for record in caplog.records]
    caplog.clear()
    hooks._broken = Seldom()  # type: ignore[misc]
    return found


BROKEN: Any = {
    "framing": (
        {"framing": "content-length"},
        [b'{"jsonrpc":"2.0","id":1,"result":1}\n'],
        "the framing is invalid; it looks like newline framing: one message per line, without headers",
        ParseErrorCode.INVALID_FRAMING,
        True,
    ),
    "faults": (
        {"max_faults": 1},
        [b"[1]\n{}\n"],
        "the peer sent more invalid messages than max_faults allows",
        ParseErrorCode.MISSING_JSONRPC,
        True,
    ),
    "cut off": ({}, [b'{"jsonrpc":"2.0",', b""], "the stream ended inside a message", ParseErrorCode.TRUNCATED, False),
    "cut off behind the id": (
        {},
        [b'{"jsonrpc":"2.0","id":1,"result":[1,', b""],
        "the stream ended inside a message",
        ParseErrorCode.TRUNCATED,
        False,
    ),
}


@rows("options, texts, reason, code, is_logged", list(BROKEN.values()), ids=list(BROKEN))
async def test_a_loss_says_why_to_callers_and_to_the_log(
    options: Any,
    texts: list[bytes],
    reason: str,
    code: ParseErrorCode,
    is_logged: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines(caplog)
    async with answering(*texts) as address, Session(TcpClient(*address, **options), timeout=5) as session:
        with pytest.raises(ConnectionLost) as raised:
            await session.call("m")
        assert str(raised.value) == f"the connection broke: {reason}"
        assert raised.value.__cause__ is session.fault
        assert isinstance(session.fault, ConnectionLost)
        assert str(session.fault) == reason
        assert isinstance(session.fault.__cause__, ParseError)
        assert session.fault.__cause__.code is code
        await session.wait_closed()
        with pytest.raises(ConnectionLost, match="the connection broke: ") as later:
            await session.call("m")
        assert later.value.was_sent is False
    assert lines(caplog) == ([("WARNING", f"a connection broke: {reason}")] if is_logged else [])


async def test_a_call_whose_peer_answers_with_something_else_and_closes_says_what_that_was() -> None:
    async with answering(b"HTTP/1.1 400 Bad Request\n", b"") as address, Session(TcpClient(*address)) as session:
        with pytest.raises(ConnectionLost, match="is closed, after a message that cannot be read: ") as raised:
            await session.call("m", timeout=5)
    assert isinstance(raised.value.__cause__, ParseError)
    assert raised.value.__cause__.code is ParseErrorCode.MALFORMED_JSON


TIMED_OUT = (
    "no response to 'm' came in 0.1 s, and nothing has arrived from the peer: it may still be busy, or speak another "
    "framing or protocol"
)
SILENCE = ", and nothing has arrived from the peer: it may speak another framing or protocol"
UNFINISHED = (
    ", and the last message of the peer has no end yet: it may be slow, or separate messages in another way "
    "(after each, newline framing needs a line feed)"
)
OTHER = ", and this side received a response with an unknown id"
ERROR = ", and this side received an error with an unknown id: code -3"
CURE = "a peer must return an id with its type and value"
UNREAD = ", after a message that cannot be read: the text is not JSON; "


@rows(
    "texts, error, reason",
    [
        ([b'{"jsonrpc":"2.0","id":1,"result":1}'], CallTimeout, UNFINISHED),  # without a line feed
        ([b'{"jsonrpc":"2.0","id":1,'], CallTimeout, UNFINISHED),
        ([b'{"jsonrpc":"2.0","method":"m"}\n'], CallTimeout, ""),
        ([b'{"jsonrpc":"2.0","id":"1","result":1}\n'], CallTimeout, f"{OTHER}; {CURE}"),
        ([b'{"jsonrpc":"2.0","id":1.5,"error":{"code":-3,"message":"no"}}\n'], CallTimeout, f"{ERROR}; {CURE}"),
        ([b'{"jsonrpc":"2.0","id":"1","result":1}\n', b""], ConnectionLost, f"{OTHER}; {CURE}"),
        ([b"Content-Length: 2\r\n"], CallTimeout, f"{UNREAD}it looks like a header of Content-Length framing"),
        ([b"HTTP/1.1 400 Bad Request\r\n"], CallTimeout, f"{UNREAD}it looks like the response of an HTTP server"),
        ([b"\x15\x03\x03\x00\x02\x02\x0a"], CallTimeout, f"{UNREAD}it looks like TLS"),
        ([b"\x15\x03\x03\x00\x02\x02\x46", b""], ConnectionLost, f"{UNREAD}it looks like TLS"),
        ([b""], ConnectionLost, SILENCE),
    ],
    ids=[
        "without end",
        "a part",
        "no response",
        "other id",
        "other error",
        "other id, then closed",
        "headers",
        "HTTP",
        "TLS",
        "TLS, then closed",
        "closed",
    ],
)
async def test_a_call_without_a_response_says_what_its_peer_sent_instead(
    texts: list[bytes], error: type[Exception], reason: str
) -> None:
    text = "no response to 'm' came in 0.1 s" if error is CallTimeout else "the connection is closed"
    async with answering(*texts) as address, Session(TcpClient(*address)) as session:
        with pytest.raises(error) as raised:
            await session.call("m", timeout=0.1 if error is CallTimeout else 5)
    assert str(raised.value) == text + reason
    assert isinstance(raised.value.__cause__, ParseError) is reason.startswith(UNREAD)
    assert isinstance(raised.value.__cause__, StateError) is reason.endswith(CURE)


@rows("is_started", [False, True])
async def test_a_call_behind_close_says_that_this_side_has_closed(is_started: bool) -> None:
    async with answering(b" ") as address:
        session = Session(TcpClient(*address))
        if is_started:
            await session.start()
        await session.close()
        for act in (lambda: session.call("m"), lambda: session.notify("m"), lambda: session.call_batch([("m", None)])):
            with pytest.raises(ConnectionLost, match="this session was closed by this side") as raised:
                await act()
            assert raised.value.was_sent is False


async def refused() -> tuple[str, int]:
    """Return an address at which nothing listens."""
    async with answering() as address:
        return address


@pytest.mark.usefixtures("each_loop")
async def test_a_call_behind_a_failed_start_says_why_it_failed() -> None:
    session = Session(TcpClient(*await refused()))
    with pytest.raises(ConnectionRefusedError) as failed:
        await session.start()
    for act in (lambda: session.call("m"), lambda: session.notify("m"), lambda: session.call_batch([("m", None)])):
        with pytest.raises(ConnectionLost) as raised:
            await act()
        assert str(raised.value) == f"the connection broke: the start failed: {failed.value}"
        assert raised.value.was_sent is False
    assert session.fault is not None
    assert session.fault.__cause__ is failed.value


async def test_a_call_behind_a_start_that_was_cancelled_says_so() -> None:
    session = Session(TcpClient(*await refused()))
    start = asyncio.ensure_future(session.start())
    await asyncio.sleep(0)
    start.cancel()
    await asyncio.wait([start])
    with pytest.raises(ConnectionLost, match=r"^the connection broke: the start failed: CancelledError$"):
        await session.call("m")


@pytest.mark.virtual_time
async def test_a_timeout_says_how_long_the_call_waited_to_be_sent() -> None:
    one, other = memory_pair()
    async with Session(other, {"slow": slow}), Session(one, max_calls=1) as session:
        first = asyncio.ensure_future(session.call("slow", [0.75], timeout=5))
        await settle()
        with pytest.raises(CallTimeout) as raised:
            await session.call("slow", [5], timeout=1)
        assert str(raised.value) == "no response to 'slow' came in 1 s, of which it waited 0.75 s to be sent"
        await first


async def test_a_callback_that_nothing_awaits_is_reported() -> None:
    async def note(result: Any) -> None:
        raise AssertionError("its coroutine runs")

    faults = Faults()
    async with session_and_wire(hooks=faults) as (session, wire):
        id = session.call_soon("m", on_result=note)
        await wire.next()
        wire.send(encode_result(id, 1))
        await settle()
        [fault] = faults.seen
        assert repr(fault) == "TypeError('a function whose result nothing awaits must not be async')"


async def test_a_message_that_gets_no_response_is_a_warning_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    hooks._unanswered = Seldom()  # type: ignore[misc]
    with caplog.at_level(logging.DEBUG, logger="jsonrpc_fast.session"):
        async with session_and_wire(response_policy="never") as (_, wire):
            for _ in range(3):
                wire.send(b"INFO ready\n")
            wire.send(encode_request(1, "m"))
            await wire.next()
    said = "the text is not JSON; it looks like a log line or printed text; a program on stdio must print to stderr"
    assert lines(caplog) == [
        ("WARNING", f"a message of the peer cannot be read, and gets no response: {said}"),
        ("DEBUG", f"ParseError: {said}"),
        ("DEBUG", f"ParseError: {said}"),
    ]


async def test_a_call_to_a_silent_peer_says_so() -> None:
    async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(be_silent, "127.0.0.1", 0)
    async with Session(TcpClient(*server.sockets[0].getsockname())) as session:
        with pytest.raises(
            CallTimeout,
            match=r"^no response to 'm' came in 0\.05 s, and nothing has arrived .* still be busy, or .* protocol$",
        ):
            await session.call("m", timeout=0.05)
    server.close()


async def test_connecting_again_to_a_peer_with_another_framing_is_neither_silent_nor_endless() -> None:
    failures: list[Exception] = []

    def retry(error: Exception) -> bool:
        failures.append(error)
        return True

    async with answering(b'{"jsonrpc":"2.0","id":1,"result":1}\n') as address:
        client = ReconnectingSession(
            lambda: TcpClient(*address, framing="content-length"),
            min_delay_seconds=0,
            max_attempts=2,
            retry=retry,
            timeout=5,
        )
        async with client:
            for _ in range(2):
                with pytest.raises(ConnectionLost, match="the connection broke: the framing is invalid"):
                    await client.call("m")
            with pytest.raises(ConnectionLost, match=r"no more connections are made: .*the framing is invalid"):
                await client.call("m")
    assert [str(error).split(";")[0] for error in failures] == ["the framing is invalid"]


async def test_a_timeout_for_want_of_a_connection_says_why_there_is_none() -> None:
    def refuse() -> TcpClient:
        raise ConnectionRefusedError("nobody is there")

    client = ReconnectingSession(refuse, min_delay_seconds=60, max_delay_seconds=60)
    starting = asyncio.ensure_future(client.start())
    await asyncio.sleep(0)
    with pytest.raises(CallTimeout, match=r"^there was no connection in 0\.01 s: .*nobody is there") as raised:
        await client.call("m", timeout=0.01)
    assert isinstance(raised.value.__cause__, ConnectionRefusedError)
    await client.close()
    with pytest.raises(ConnectionLost):
        await starting


@rows(
    "texts, reason",
    [
        ([b""], "'the connection is closed, and nothing"),
        ([b"HTTP/1.1 400 Bad Request\n", b""], "'the connection is closed, after a mes"),
    ],
    ids=["closes", "HTTP"],
)
async def test_a_timeout_says_how_the_last_connection_ended(texts: list[bytes], reason: str) -> None:
    async with answering(*texts) as address:
        client = ReconnectingSession(lambda: TcpClient(*address), min_delay_seconds=60, max_delay_seconds=60, timeout=5)
        async with client:
            with pytest.raises(ConnectionLost):
                await client.call("m")
            with pytest.raises(CallTimeout, match=f"^there was no connection in 0.05 s: {reason}"):
                await client.call("m", timeout=0.05)


def _lost(cause: Exception | None) -> ConnectionLost:
    error = ConnectionLost("the peer left")
    error.__cause__ = cause
    return error


@rows(
    "error, level",
    [
        (ConnectionResetError("x"), "DEBUG"),
        (_lost(EOFError("x")), "DEBUG"),
        (_lost(BrokenPipeError("x")), "DEBUG"),
        (_lost(None), "WARNING"),
        (_lost(ParseError(ParseErrorCode.INVALID_FRAMING)), "WARNING"),
        (OSError(5, "x"), "WARNING"),
    ],
    ids=["reset", "left", "reset below", "judged here", "unreadable", "of the system"],
)
def test_a_peer_that_leaves_is_no_warning(error: Exception, level: str, caplog: pytest.LogCaptureFixture) -> None:
    lines(caplog)
    with caplog.at_level(logging.DEBUG, logger="jsonrpc_fast"):
        log_broken(error)
    assert [name for name, _ in lines(caplog)] == [level]


def test_a_line_that_others_can_cause_is_logged_once_a_second_with_the_number_of_those_left_out() -> None:
    seldom = Seldom()
    assert [seldom.take(now) for now in (5.0, 5.1, 5.9, 6.0, 7.5)] == [
        "",
        None,
        None,
        " (2 more were not logged before)",
        "",
    ]


async def test_a_response_with_a_member_twice_fails_its_call() -> None:
    """Its id is there once: the call need not wait for its timeout."""
    text = b'{"jsonrpc":"2.0","id":1,"result":1,"result":2}\n'
    async with answering(text) as address, Session(TcpClient(*address)) as session:
        with pytest.raises(InvalidResponse, match=r"^the response is malformed: a member occurs more than once$"):
            await session.call("m", timeout=5)
