"""The rules of `Connection` over a channel of bytes, on a pair of `MemoryTransport`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import (
    EncodeError,
    Error,
    Limits,
    Notification,
    ParseErrorCode,
    Request,
    Response,
    encode_notification,
    encode_result,
)
from jsonrpc_fast.errors import ConnectionLost, ParseError, StateError
from jsonrpc_fast.framing.frames import FRAMINGS, Framing
from jsonrpc_fast.support import Seldom
from jsonrpc_fast.transports import (
    Channel,
    Connection,
    Events,
    MemoryTransport,
    Transport,
    connection,
    memory_pair,
)
from jsonrpc_fast.transports.channel import HIGH_WATER_BYTES
from jsonrpc_fast.transports.connection import State
from jsonrpc_fast.transports.memory import MemoryChannel
from jsonrpc_fast.types import UNSET, Unset

from ..support.examples import scaled_examples
from ..support.tables import rows
from ..support.transports import Recorder

pytestmark = pytest.mark.usefixtures("each_loop")

TEXT = encode_notification("n")


async def started(**options: Any) -> tuple[MemoryTransport, MemoryTransport, Recorder, Recorder]:
    one, other = memory_pair(**options)
    ends = Recorder(one), Recorder(other)
    await one.start()
    await other.start()
    return one, other, *ends


async def turns(number: int = 5) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def test_is_a_transport() -> None:
    one, _ = memory_pair()
    assert isinstance(one, Transport)
    assert not isinstance(object(), Transport)


class SlowChannel(Channel):
    """A channel that opens when a test says so.

    Attributes:
        gate: Opens it.
        waits: Whether its opening ignores a cancellation.
        is_open: Whether it is open.
    """

    def __init__(self, waits: bool = False) -> None:
        self.gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waits = waits
        self.is_open = False

    async def open(self, events: Events) -> None:
        self._events = events
        try:
            await self.gate
        except asyncio.CancelledError:
            if not self.waits:
                raise
        self.is_open = True

    def abort(self) -> None:
        self.is_open = False
        self._events.lost(None)


@rows("how", ["close", "disconnect"])
@rows("step", ["connect", "start"])
@rows("moment", ["while it opens", "when it is open", "and it opens all the same"])
async def test_closing_ends_a_connection_that_is_connecting(how: str, step: str, moment: str) -> None:
    channel = SlowChannel(waits=moment == "and it opens all the same")
    transport = Connection(channel)
    connecting = asyncio.create_task(getattr(transport, step)())
    await turns()
    if moment == "when it is open":
        channel.gate.set_result(None)  # the task runs after this one
    await getattr(transport, how)()
    with pytest.raises(ConnectionLost, match="was closed while it was connecting"):
        await connecting
    assert not channel.is_open
    assert transport.state is State.CLOSED


@rows("is_closed", [False, True])
@rows("is_open", [False, True])
async def test_a_cancellation_of_connect_goes_on(is_closed: bool, is_open: bool) -> None:
    channel = SlowChannel()
    transport = Connection(channel)
    connecting = asyncio.create_task(transport.connect())
    await turns()
    if is_open:
        channel.gate.set_result(None)
    connecting.cancel()
    if is_closed:
        await transport.close()
    await asyncio.wait([connecting])
    assert connecting.cancelled()
    assert not channel.is_open
    assert transport.state is (State.CLOSED if is_closed else State.IDLE)


async def test_closing_while_connecting_leaves_the_task_as_it_was() -> None:
    """It continues after `connect`, and a timeout around it works."""
    channel = SlowChannel()
    transport = Connection(channel)

    async def connect() -> str:
        with pytest.raises(ConnectionLost):
            await transport.connect()
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        return "went on"

    connecting = asyncio.create_task(connect())
    await turns()
    with pytest.raises(StateError, match="connecting"):
        await transport.connect()
    await transport.close()
    assert await connecting == "went on"


async def test_messages_arrive_in_order_both_ways() -> None:
    one, other, at_one, at_other = await started()
    one.send(Request(1, "add", [1, 2]))
    one.send(Notification("seen"))
    one.send([Request("a", "x"), Notification("y")])
    one.send((Request("b", "x"),))
    one.send(encode_notification("ready"))
    one.send(encode_notification("ready", delimited=False))
    other.send(Response(1, 3))
    other.send(Response(None, error=Error(-1, "no")))
    await turns()
    assert at_other.events == [
        Request(1, "add", [1, 2]),
        Notification("seen"),
        [Request("a", "x"), Notification("y")],
        [Request("b", "x")],
        Notification("ready"),
        Notification("ready"),
    ]
    assert at_one.events == [Response(1, 3), Response(None, error=Error(-1, "no"))]
    await one.close()
    await other.wait_closed()


async def test_empty_texts_and_batches_are_not_sent() -> None:
    one, other, _, at_other = await started()
    one.send(b"")
    one.send(b"\n")
    one.send([])
    one.send(Notification("n"))
    await turns()
    assert at_other.events == [Notification("n")]
    await one.disconnect()
    await other.wait_closed()


async def test_one_write_for_each_turn(written: list[bytes]) -> None:
    one, other, at_one, _ = await started()
    other.onmessage = lambda message: other.send(encode_result(message.id, None))  # type: ignore[union-attr]
    for id in range(3):
        one.send(Request(id, "m"))
    assert written == []
    await turns(2)
    # The responses leave in the turn in which the requests arrived.
    assert [data.count(b"\n") for data in written] == [3, 3]
    await turns()
    assert at_one.events == [Response(0, None), Response(1, None), Response(2, None)]
    one.send(Notification("n", ["x" * 70_000]))
    assert len(written[2]) > 70_000  # that many bytes are written before the end of the turn
    await one.disconnect()
    await other.wait_closed()


async def test_a_lone_frame_leaves_inside_send(written: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryChannel, "writes_lone_frames", True)
    one, other, at_one, at_other = await started()

    async def exchange(*methods: str) -> list[int]:
        """Let something arrive, then send; return how many frames each write had inside `send`, and then in all."""
        other.send(Notification("go"))
        await turns()
        written.clear()
        for method in methods:
            one.send(Notification(method))
        inside = len(written)
        await turns()
        return [inside, *(data.count(b"\n") for data in written)]

    assert await exchange("a") == [0, 1]  # it is not yet known whether another one follows
    assert await exchange("b") == [1, 1]
    assert await exchange("c") == [1, 1]
    assert await exchange("d", "e", "f") == [1, 1, 2]
    assert await exchange("g", "h", "i") == [0, 3]
    assert await exchange("j") == [0, 1]
    assert await exchange("k") == [1, 1]
    one.send(Notification("l"))  # nothing has arrived since
    assert len(written) == 1
    one.linger_turns = 1
    assert await exchange("m") == [0, 1]
    await one.close()
    await other.wait_closed()
    assert at_other.events == [*[Notification(method) for method in "abcdefghijklm"], "closed"]
    assert at_one.events == [Notification("go")] * 8 + ["closed"]


async def test_frames_linger_to_leave_together(written: list[bytes]) -> None:
    one, other, _, at_other = await started()
    one.linger_turns = 3
    for number in range(3):
        one.send(Notification(str(number)))
        await turns(1)
    assert written == []
    await turns(3)
    assert [data.count(b"\n") for data in written] == [3]
    one.send(Notification("3"))
    one.linger_turns = 0
    await turns(1)
    assert [data.count(b"\n") for data in written] == [3, 1]
    one.linger_turns = 100
    one.send(Notification("4"))
    await one.close()  # waits for nothing
    await other.wait_closed()
    assert at_other.events == [*[Notification(str(number)) for number in range(5)], "closed"]


async def test_a_message_that_cannot_be_written_queues_nothing() -> None:
    one, other, _, at_other = await started()
    with pytest.raises(EncodeError):
        one.send(Notification("n", [object()]))
    with pytest.raises(EncodeError):
        one.send([Notification("n"), Notification("n", [object()])])
    with pytest.raises(TypeError):
        one.send("text")  # type: ignore[arg-type]
    for text in (b'{"jsonrpc":"2.0",\n"method":"n"}', TEXT + TEXT, TEXT + TEXT[:-1], TEXT + b"\n", b"\n" + TEXT):
        with pytest.raises(ValueError, match="line break"):
            one.send(text)
    assert one.write_buffer_bytes == 0
    one.send(Notification("good"))
    await turns()
    assert at_other.events == [Notification("good")]
    await one.disconnect()
    await other.wait_closed()


@rows("framing", FRAMINGS)
async def test_one_text_is_never_two_messages(framing: Framing) -> None:
    """Otherwise, whoever chooses a text that is passed on could add a message, such as a response to another call.

    It is refused, or arrives as one text, which is not JSON.
    """
    one, other, _, at_other = await started(framing=framing)
    if framing in ("newline", "auto", "concatenated", "json-seq"):
        with pytest.raises(ValueError, match="line break"):
            one.send(TEXT + TEXT)
    else:
        one.send(TEXT + TEXT)
        await turns()
        assert [fault.code for fault in at_other.events] == [ParseErrorCode.MALFORMED_JSON]
    at_other.events.clear()
    one.send(TEXT)
    await turns()
    assert at_other.events == [Notification("n")]
    await one.disconnect()
    await other.wait_closed()


@rows("fault", [RuntimeError("of a library"), MemoryError(), ValueError()])
async def test_a_channel_that_breaks_its_contract_ends_the_connection(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame was accepted and is lost: otherwise the calls in flight would not end."""
    one, other, recorder, _ = await started()

    def write(self: MemoryChannel, data: bytes) -> None:
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr(MemoryChannel, "write", write)
        one.send(TEXT)
        await recorder.wait_for(2)
    assert not one.is_connected
    assert recorder.events == [fault, "closed"]
    await other.wait_closed()


async def test_states() -> None:
    one, other = memory_pair()
    at_one = Recorder(one)
    assert not one.is_connected
    with pytest.raises(StateError, match="not connected"):
        one.send(Notification("n"))
    with pytest.raises(StateError, match="not connected"):
        await one.drain()
    await one.connect()
    assert one.is_connected
    one.send(Notification("n"))  # even before it is started
    await one.drain()
    with pytest.raises(StateError):
        await one.connect()
    await one.start()
    with pytest.raises(StateError, match="running"):
        await one.start()
    with pytest.raises(StateError):
        await one.connect()
    await other.start()
    await asyncio.gather(one.close(), one.close())
    assert not one.is_connected
    assert at_one.events == ["closed"]
    await one.close()
    await one.disconnect()
    for again in (one.connect, one.start):
        with pytest.raises(StateError, match="closed"):
            await again()
    with pytest.raises(ConnectionLost):
        one.send(Notification("n"))
    with pytest.raises(ConnectionLost):
        await one.drain()
    assert at_one.events == ["closed"]
    await other.wait_closed()


@rows("way", ["close", "disconnect"])
async def test_closing_a_transport_that_was_never_connected(way: str) -> None:
    one, other = memory_pair()
    at_one, at_other = Recorder(one), Recorder(other)
    await other.start()
    await getattr(one, way)()
    await getattr(one, way)()
    assert at_one.events == ["closed"]
    with pytest.raises(StateError):
        await one.connect()
    await other.wait_closed()
    assert at_other.events == ["closed"]


async def test_a_fault_in_one_message_does_not_stop_the_stream() -> None:
    one, other, _, at_other = await started(limits=Limits(message_bytes=100))
    for line in (b"{]", b'{"jsonrpc":"2.0","id":7}', b"x" * 101, b"[]"):
        one.send(line)
    one.send(b'[1,{"jsonrpc":"2.0","method":"n"}]')
    one.send(Notification("n"))
    await turns()
    batch = at_other.events[4]
    assert [fault.code for fault in at_other.events[:4]] == [
        ParseErrorCode.MALFORMED_JSON,
        ParseErrorCode.MISSING_METHOD,
        ParseErrorCode.MESSAGE_TOO_LARGE,
        ParseErrorCode.EMPTY_BATCH,
    ]
    assert isinstance(batch[0], ParseError)
    assert batch[1] == at_other.events[5] == Notification("n")
    other.onerror = None  # without callbacks
    one.send(b"{]")
    one.send(Notification("last"))
    await turns()
    assert at_other.events[6:] == [Notification("last")]
    await one.disconnect()
    await other.wait_closed()


async def test_an_exception_of_a_callback_is_reported_and_reading_goes_on() -> None:
    contexts: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    one, other, _, at_other = await started()
    fault, second = KeyError("in onmessage"), KeyError("in onerror")

    def fail(message: object) -> None:
        raise fault

    def fail_again(error: Exception) -> None:
        raise second

    other.onmessage = fail
    one.send(Notification("a"))
    one.send(Notification("b"))
    await turns()
    assert at_other.events == [fault, fault]
    assert contexts == []
    other.onerror = fail_again
    one.send(Notification("c"))
    one.send(b"{]")
    await turns()
    assert [context["exception"] for context in contexts] == [second, second]
    other.onerror = None
    one.send(Notification("d"))
    await turns()
    assert [context["exception"] for context in contexts[2:]] == [fault]
    other.onclose = lambda: fail(None)
    await one.close()
    await other.wait_closed()
    assert [context["exception"] for context in contexts[3:]] == [fault]


@rows("arrives", ["alone", "in a large chunk", "during a pause"])
async def test_an_exception_that_nobody_expects_closes_the_connection(arrives: str) -> None:
    contexts: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    fault = MemoryError()

    def read(text: bytes) -> Any:
        if text == b"2":
            raise fault
        return text

    for has_onerror in (True, False):
        one, other, _, at_other = await started(decode=read)
        if not has_onerror:
            other.onerror = None
        if arrives == "during a pause":
            other.pause_reading()
        other.channel_events.received(b"1\n")
        other.channel_events.received(b"2\n" + b"3\n" * (1 if arrives == "alone" else 1000))
        other.resume_reading()
        await other.wait_closed()
        await one.wait_closed()
        assert at_other.events == [b"1", *[fault] * has_onerror, "closed"]
        assert not other.is_connected
    assert [context["exception"] for context in contexts] == [fault]


async def test_pausing_holds_back_what_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "STEP_ITEMS", 4)
    monkeypatch.setattr(connection, "_SMALL_BYTES", 0)
    one, other, _, at_other = await started()

    def pause_at_two(message: Any) -> None:
        at_other.events.append(message)
        if message.method == "2":
            other.pause_reading()

    other.onmessage = pause_at_two
    for number in range(5):
        one.send(Notification(str(number)))
    await turns()
    # The rest of a step is delivered all the same.
    assert at_other.events == [Notification("0"), Notification("1"), Notification("2"), Notification("3")]
    one.send(Notification("5"))
    other.pause_reading()
    await turns()
    assert len(at_other.events) == 4
    other.resume_reading()
    other.resume_reading()
    assert len(at_other.events) == 4  # not from inside
    await turns()
    assert [message.method for message in at_other.events] == ["0", "1", "2", "3", "4", "5"]
    # What is held back is delivered before the end of the stream.
    other.pause_reading()
    one.send(Notification("6"))
    closing = asyncio.ensure_future(one.close())
    await turns()
    assert len(at_other.events) == 6
    other.resume_reading()
    await closing
    await other.wait_closed()
    assert at_other.events[6:] == [Notification("6"), "closed"]


async def test_nothing_is_delivered_after_a_callback_closes() -> None:
    one, other, _, at_other = await started()
    closing: list[Awaitable[None]] = []

    def close_at_one(message: Any) -> None:
        at_other.events.append(message)
        closing.append(asyncio.ensure_future(other.disconnect()))

    other.onmessage = close_at_one
    one.send(Notification("1"))
    while not closing:
        await asyncio.sleep(0)
    one.send(Notification("2"))
    await closing[0]
    await turns()
    assert at_other.events == [Notification("1"), "closed"]
    await one.wait_closed()


async def test_drain_waits_for_the_reader() -> None:
    one, other, _, at_other = await started()
    other.pause_reading()
    line = encode_notification("n", ["x" * 1000])
    sent = 0
    while one.write_buffer_bytes <= HIGH_WATER_BYTES:
        await one.drain()
        one.send(line)
        sent += 1
    await turns()
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(one.drain(), 0.01)
    assert HIGH_WATER_BYTES < one.write_buffer_bytes <= HIGH_WATER_BYTES + 70_000
    other.resume_reading()
    await one.drain()
    assert one.write_buffer_bytes < HIGH_WATER_BYTES
    while len(at_other.events) < sent:
        await asyncio.sleep(0)
    assert one.write_buffer_bytes == 0
    other.pause_reading()
    while one.write_buffer_bytes <= HIGH_WATER_BYTES:
        one.send(line)
    waiting = asyncio.Task(one.drain())  # not an eager task, which would start too early
    await turns()
    await one.disconnect()
    with pytest.raises(ConnectionLost):
        await waiting
    other.resume_reading()
    await other.wait_closed()


@pytest.mark.usefixtures("loop")
async def test_an_echo_with_a_slow_reader_stays_bounded() -> None:
    async def most_buffered(pauses: bool) -> int:
        one, other, at_one, _ = await started()
        other.pauses_when_blocked = pauses
        one.pauses_when_blocked = False  # keeps reading: otherwise both may wait for each other
        other.onmessage = lambda message: other.send([message, message])  # type: ignore[list-item]
        one.pause_reading()
        line = encode_notification("n", ["x" * 1000])
        sent = 0
        most = 0
        for _ in range(3000):
            if one.write_buffer_bytes > HIGH_WATER_BYTES:
                break
            one.send(line)
            sent += 1
            await asyncio.sleep(0)
            most = max(most, other.write_buffer_bytes)
        one.resume_reading()
        while len(at_one.events) < sent:
            await asyncio.sleep(0)
        assert all(len(batch) == 2 for batch in at_one.events)
        await one.disconnect()
        await other.wait_closed()
        return most

    assert HIGH_WATER_BYTES < await most_buffered(True) < HIGH_WATER_BYTES + 140_000
    assert await most_buffered(False) > 4_000_000


@pytest.mark.virtual_time
async def test_close_writes_what_was_accepted() -> None:
    one, other, at_one, at_other = await started()
    other.pause_reading()
    for number in range(2000):
        one.send(Notification("n", [number, "x" * 1000]))
    closing = asyncio.ensure_future(one.close())
    await asyncio.sleep(0.05)
    assert not closing.done()
    with pytest.raises(ConnectionLost):
        one.send(Notification("late"))
    other.send(Notification("too late"))
    other.resume_reading()
    await closing
    assert [message.params[0] for message in at_other.events[:2000]] == list(range(2000))
    await other.wait_closed()
    assert at_other.events[2000:] == ["closed"]
    assert at_one.events == ["closed"]


@pytest.mark.virtual_time
async def test_close_gives_up_after_drain_seconds(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jsonrpc_fast.transports.connection._undrained", Seldom())  # other tests have used it
    one, other, at_one, at_other = await started(drain_seconds=0.1)
    other.pause_reading()
    one.send(Notification("n", ["x" * 1_000_000]))
    await one.close()
    assert at_one.events == ["closed"]
    assert one.undrained_bytes > 900_000
    [record] = caplog.records
    said = "the peer did not read all messages before the connection closed; dropped bytes: "
    assert (record.levelname, record.getMessage()) == ("WARNING", f"{said}{one.undrained_bytes}")
    other.resume_reading()
    await other.wait_closed()
    assert at_other.events == ["closed"]


@pytest.mark.virtual_time
@rows(
    "option, asked, seconds", [(5.0, 0.5, 0.5), (5.0, 60.0, 60.0), (5.0, 0.0, 0.0), (None, 7.0, 7.0), (3.0, UNSET, 3.0)]
)
@rows("closes", ["before", "at once", "later"])
async def test_a_stop_limits_the_writing(
    option: float | None, asked: float | Unset, seconds: float, closes: str
) -> None:
    """Also if a user, such as a session, closes the connection: 2 seconds later, at once, or before the stop."""
    loop = asyncio.get_running_loop()
    one, other, at_one, _ = await started(drain_seconds=option)
    other.pause_reading()
    one.send(Notification("n", ["x" * 1_000_000]))
    delay = 2.0 if closes == "later" else 0.0

    def on_stop(grace_seconds: float | None) -> None:
        if delay:
            loop.call_later(delay, one.begin_closing)
        else:
            one.begin_closing()

    one.onstop = on_stop
    began = loop.time()
    if closes == "before":
        one.begin_closing()
    one.request_stop(10.0, asked)
    await one.wait_closed()
    assert loop.time() - began == pytest.approx(delay + seconds, abs=0.01)
    assert at_one.events == ["closed"]
    other.resume_reading()
    await other.wait_closed()


async def test_a_cancelled_close_goes_on() -> None:
    one, other, at_one, _ = await started()
    other.pause_reading()
    one.send(Notification("n"))
    closing = asyncio.ensure_future(one.close())
    await turns(2)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert at_one.events == []
    other.resume_reading()
    await one.wait_closed()
    assert at_one.events == ["closed"]
    await other.wait_closed()


async def test_onend_leaves_time_for_replies() -> None:
    one, other, at_one, at_other = await started()
    other.onend = lambda: at_other.events.append("end")
    one.send(Request(1, "slow"))
    closing = asyncio.ensure_future(one.close())
    await turns()
    assert at_other.events == [Request(1, "slow"), "end"]
    assert other.is_connected
    other.pause_reading()
    other.resume_reading()
    other.send(Response(1, "done"))
    await other.close()
    await closing
    assert at_other.events == [Request(1, "slow"), "end", "closed"]
    assert at_one.events == ["closed"]


STEPS = st.lists(
    st.one_of(
        st.builds(Request, st.integers(0, 9), st.text(max_size=20)),
        st.builds(lambda text, count: Notification("n", [text * count]), st.text(max_size=5), st.integers(0, 40_000)),
        st.sampled_from(["pause", "resume", "turn"]),
    ),
    max_size=30,
)


@pytest.fixture
def tiny_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of the loop delivers one message, and every chunk is large."""
    monkeypatch.setattr(connection, "STEP_ITEMS", 1)
    monkeypatch.setattr(connection, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(connection, "_SMALL_BYTES", 0)


@pytest.mark.usefixtures("loop", "tiny_turns")
@scaled_examples(0.1)
@given(framing=st.sampled_from(list(FRAMINGS)), steps=STEPS, closes=st.booleans())
async def test_everything_arrives_in_tiny_turns(framing: Framing, steps: list[Any], closes: bool) -> None:
    await check_that_all_arrives(framing, steps, closes)


@pytest.mark.usefixtures("loop")
@scaled_examples(0.2)
@given(framing=st.sampled_from(list(FRAMINGS)), steps=STEPS, closes=st.booleans())
async def test_everything_arrives(framing: Framing, steps: list[Any], closes: bool) -> None:
    await check_that_all_arrives(framing, steps, closes)


async def check_that_all_arrives(framing: Framing, steps: list[Any], closes: bool) -> None:
    one, other, _, at_other = await started(framing=framing)
    sent: list[Any] = []
    is_paused = False
    for step in steps:
        if step in ("pause", "resume"):
            is_paused = step == "pause"
            (other.pause_reading if is_paused else other.resume_reading)()
        elif step == "turn":
            before = len(at_other.events)
            await turns(1)
            assert not is_paused or len(at_other.events) == before
        else:
            one.send(step)
            sent.append(step)
    other.resume_reading()
    if closes:
        await one.close()
        await other.wait_closed()
        assert at_other.events == [*sent, "closed"]
    else:
        while one.write_buffer_bytes or len(at_other.events) < len(sent):
            await asyncio.sleep(0)
        await one.disconnect()
        await other.wait_closed()
        assert at_other.events == [*sent, "closed"]


@rows("line", [b"x\n", b"{}\n", b'{"jsonrpc":"2.0","method":"n"}\n'])
async def test_one_chunk_is_delivered_in_many_turns(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TURN_SECONDS", 0.0)
    one, other, _, ends = await started()
    peak = before = 0
    other.channel_events.received(line * 1000)
    while len(ends.events) < 1000:
        peak = max(peak, len(ends.events) - before)
        before = len(ends.events)
        await asyncio.sleep(0)
    assert 0 < peak <= connection.STEP_ITEMS
    assert len(ends.events) == 1000
    await one.close()
    await other.wait_closed()


async def test_no_turn_delivers_two_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TURN_SECONDS", 0.0)
    one, other, _, ends = await started()
    other.channel_events.received((b"[" + b",".join([b"1"] * 1000) + b"]\n") * 10)
    counts = [len(ends.events)]
    while len(ends.events) < 10:
        await asyncio.sleep(0)
        counts.append(len(ends.events))
    assert sorted(set(counts)) == list(range(1, 11))
    await one.close()
    await other.wait_closed()


MANY = b"".join(encode_notification("n", [number]) for number in range(1000))


@pytest.mark.usefixtures("tiny_turns")
@rows("how", ["end", "loss", "end and loss", "pause"])
async def test_the_backlog_is_delivered_before_the_end(how: str) -> None:
    one, other, _, ends = await started()
    broken = BrokenPipeError()
    other.channel_events.received(MANY)
    if how == "pause":
        other.pause_reading()
        count = len(ends.events)
        await turns()
        assert len(ends.events) == count
        other.channel_events.received(encode_notification("last"))
        other.channel_events.received(b"")
        await turns()
        assert len(ends.events) == count
        other.resume_reading()
    if "end" in how:
        other.channel_events.received(encode_notification("last")[:-1])
        other.channel_events.received(b"")
    if "loss" in how:
        other.channel_events.lost(broken)
        assert len(ends.events) < 10
        with pytest.raises(ConnectionLost):
            other.send(Notification("n"))
    await other.wait_closed()
    last = [] if how == "loss" else [Notification("last")]
    fault = [broken] if "loss" in how else []
    assert ends.events == [*(Notification("n", [number]) for number in range(1000)), *last, *fault, "closed"]
    await one.disconnect()


@pytest.mark.usefixtures("tiny_turns")
@rows("is_lost", [False, True])
@rows("way", ["close", "disconnect"])
async def test_closing_drops_the_backlog(way: str, is_lost: bool) -> None:
    one, other, _, ends = await started()
    other.channel_events.received(MANY)
    if is_lost:
        other.channel_events.lost(None)
    await one.disconnect()
    await getattr(other, way)()
    assert len(ends.events) < 10
    assert ends.events[-1] == "closed"
