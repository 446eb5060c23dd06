"""The rules of `Connection` over a channel of texts, which delivers them to the other end."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from jsonrpc_fast import (
    EncodeError,
    Limits,
    Notification,
    ParseErrorCode,
    Request,
    Response,
    encode_notification,
    encode_result,
)
from jsonrpc_fast.errors import ConnectionLost, ParseError
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import Channel, Connection, Events, MemoryTransport, Transport, memory_pair

from ..support.transports import Recorder
from ..support.waiting import eventually

pytestmark = pytest.mark.usefixtures("each_loop")


class Texts(Channel):
    """One end of a pair. What it writes is recorded, and received by the other end in the next turn."""

    carries_texts = True
    partner: Texts
    events: Events

    def __init__(self) -> None:
        self.written: list[list[bytes]] = []
        self.reads: list[bool] = []

    async def open(self, events: Events) -> None:
        pass

    def set_reading(self, on: bool) -> None:
        self.reads.append(on)

    def write_texts(self, texts: list[bytes]) -> None:
        self.written.append(texts)
        for text in texts:
            asyncio.get_running_loop().call_soon(self.partner.events.received, text)

    def finish(self) -> None:
        self.abort()

    def abort(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(self.events.lost, None)
        loop.call_soon(self.partner.events.received, b"")


class End(Connection):
    channel: Texts

    def __init__(self, **options: Any) -> None:
        super().__init__(Texts(), **options)
        self.receive = self.channel_events.received
        self.channel.events = self.channel_events
        self.written = self.channel.written
        self.reads = self.channel.reads

    def receive_many(self, texts: list[bytes]) -> None:
        for text in texts:
            self.receive(text)


def pair(**options: Any) -> tuple[End, End]:
    one, other = End(**options), End(**options)
    one.channel.partner, other.channel.partner = other.channel, one.channel
    return one, other


async def started(**options: Any) -> tuple[End, Recorder]:
    """Return an end of a pair, and the recorder of what it receives."""
    one, _ = pair(**options)
    recorder = Recorder(one)
    await one.start()
    return one, recorder


async def turns(number: int = 5) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


NAMED = [encode_notification(str(number)) for number in range(2000)]


async def test_it_is_a_transport() -> None:
    one, _ = pair()
    assert isinstance(one, Transport)


async def test_each_text_is_one_message() -> None:
    one, recorder = await started()
    one.receive(b'{"jsonrpc":"2.0","method":"n"}')
    one.receive('{\r\n  "jsonrpc": "2.0",\n  "method": "é"\n}\n')
    one.receive(bytearray(b'\n\n [{"jsonrpc":"2.0","id":1,"method":"m"},\n 1]'))
    one.receive(memoryview(b'{"jsonrpc":"2.0","id":1,"result":[]}'))
    batch = recorder.events[2]
    assert recorder.events[:2] == [Notification("n"), Notification("é")]
    assert batch[0] == Request(1, "m")
    assert isinstance(batch[1], ParseError)
    assert recorder.events[3:] == [Response(1, [])]
    await one.disconnect()


async def test_a_text_that_is_not_one_message_is_a_fault_and_the_next_is_read() -> None:
    one, recorder = await started(limits=Limits(message_bytes=60))
    message = b'{"jsonrpc":"2.0","method":"n"}'
    one.receive_many([message + b"\n" + message[:-1], b" ", b"\xff", b'{"jsonrpc":"2.0","id":1}', b" " * 61, message])
    await recorder.wait_for(6)  # a busy machine needs several turns
    assert [event.code for event in recorder.events[:-1]] == [
        ParseErrorCode.MALFORMED_JSON,
        ParseErrorCode.MALFORMED_JSON,
        ParseErrorCode.INVALID_UTF8,
        ParseErrorCode.MISSING_METHOD,
        ParseErrorCode.MESSAGE_TOO_LARGE,
    ]
    assert recorder.events[-1] == Notification("n")
    await one.disconnect()


async def test_payloads_may_stay_raw() -> None:
    one, recorder = await started(raw=True)
    one.receive(b'{"jsonrpc":"2.0","method":"n","params":[1, 2]}')
    assert bytes(recorder.events[0].params) == b"[1, 2]"
    await one.disconnect()


async def test_messages_of_a_turn_are_written_together_without_line_breaks() -> None:
    one, _ = await started()
    one.send(Request(1, "m"))
    one.send(encode_notification("n"))
    one.send(encode_notification("n", delimited=False))
    one.send([Notification("x"), Notification("y")])
    one.send(b"")
    one.send([])
    with pytest.raises(EncodeError):
        one.send(Notification("n", [object()]))
    one.send(b'{"jsonrpc":"2.0",\n"method":"n"}')  # any JSON text is a frame
    assert one.written == []
    await turns(1)
    assert one.written == [
        [
            b'{"jsonrpc":"2.0","id":1,"method":"m"}',
            b'{"jsonrpc":"2.0","method":"n"}',
            b'{"jsonrpc":"2.0","method":"n"}',
            b'[{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","method":"y"}]',
            b'{"jsonrpc":"2.0",\n"method":"n"}',
        ]
    ]
    await one.disconnect()
    with pytest.raises(ConnectionLost):
        one.send(Notification("n"))


async def test_what_arrives_before_the_start_or_during_a_pause_is_kept_in_order() -> None:
    one, _ = pair()
    recorder = Recorder(one)
    await one.connect()
    one.receive(NAMED[0])
    await turns()
    assert recorder.events == []
    await one.start()
    await turns()
    one.receive(NAMED[1])
    assert recorder.events == [Notification("0"), Notification("1")]
    one.pause_reading()
    one.receive(NAMED[2])
    one.resume_reading()
    one.receive(NAMED[3])
    assert len(recorder.events) == 2
    await turns()
    assert recorder.events[2:] == [Notification("2"), Notification("3")]
    assert one.reads == [True, False, True]
    await one.disconnect()


async def test_many_messages_are_delivered_over_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsonrpc_fast.transports.connection.TURN_SECONDS", 0.0)
    one, recorder = await started()
    one.pause_reading()
    one.receive_many(NAMED)
    one.resume_reading()
    await turns(2)
    assert 0 < len(recorder.events) < len(NAMED)
    one.receive(encode_notification("last"))
    await recorder.wait_for(len(NAMED) + 1)
    assert [event.method for event in recorder.events] == [*map(str, range(len(NAMED))), "last"]
    assert one.reads == [True, False, True]
    await one.disconnect()


async def test_the_backlog_is_delivered_before_the_end_and_before_a_loss() -> None:
    broken = OSError("broken")
    for last in (lambda end: end.receive(b""), lambda end: end.channel_events.lost(broken)):
        one, recorder = await started()
        one.pause_reading()
        one.receive(NAMED[0])
        one.resume_reading()
        last(one)
        await one.wait_closed()
        assert recorder.events[0] == Notification("0")
        assert recorder.events[1:] in (["closed"], [broken, "closed"])


async def test_sessions_call_each_other_over_it() -> None:
    one, other = pair()
    async with Session(other, {"add": lambda a, b: a + b}), Session(one) as client:
        assert await asyncio.gather(*[client.call("add", [n, 1]) for n in range(100)]) == list(range(1, 101))
    assert [len(texts) for texts in one.written] == [100]


async def test_the_log_has_its_messages(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "jsonrpc_fast"):
        one, _ = await started()
        one.receive('{"jsonrpc":"2.0","method":"n"}')
        one.receive(b"{")
        one.send(Notification("x"))
        await one.disconnect()
    lines = [record.getMessage() for record in caplog.records if record.name == "jsonrpc_fast.transports"]
    assert lines[:4] == [
        "Texts connected, framing none",
        "Texts <- notification 'n', 30 bytes",
        "Texts <- invalid MALFORMED_JSON, 1 bytes",
        "Texts -> notification 'x', 31 bytes",
    ]
    assert lines[4].startswith("Texts closed after 0.0")


COUNTS = pytest.mark.parametrize("count", [1, 3], ids=["alone", "together"])


async def started_pair(transport: MemoryTransport, other: MemoryTransport) -> list[Any]:
    received: list[Any] = []

    def respond(message: Any) -> bytes | None:
        if isinstance(message, Request):
            return encode_result(message.id, message.params)
        received.append(message)
        return None

    transport.onmessage = respond
    await transport.start()
    await other.connect()
    return received


async def responses_of(other: MemoryTransport, count: int) -> list[Any]:
    found: list[Any] = []
    other.onmessage = found.append
    await other.start()
    for number in range(count):
        other.send(Request(number, "echo", [number]))
    await eventually(lambda: len(found) == count)
    return found


@COUNTS
async def test_responses_are_sent(count: int) -> None:
    left, right = memory_pair()
    received = await started_pair(left, right)
    assert await responses_of(right, count) == [Response(number, [number]) for number in range(count)]
    assert received == []
    right.send([Request(5, "echo"), Request(6, "echo")])  # a batch goes the other way
    await eventually(lambda: received == [[Request(5, "echo"), Request(6, "echo")]])
    await left.disconnect()


@COUNTS
async def test_another_send_is_not_passed_by(count: int) -> None:
    left, right = memory_pair()
    sent: list[Any] = []
    left.send = sent.append  # type: ignore[method-assign]
    await started_pair(left, right)
    await right.start()
    for number in range(count):
        right.send(Request(number, "echo"))
    await eventually(lambda: len(sent) == count)
    await left.disconnect()


async def test_a_response_to_a_closed_connection_is_dropped() -> None:
    left, right = memory_pair()
    faults: list[Exception] = []
    left.onerror = faults.append

    def close(message: Any) -> bytes:
        left.abort()
        return encode_result(message.id, None)

    left.onmessage = close
    await left.start()
    await right.start()
    right.send(Request(1, "close"))
    await left.wait_closed()
    assert faults == []
