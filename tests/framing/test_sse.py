"""Server-sent events: the rules of the standard, in any chunks."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.codes import Hint, ParseErrorCode
from jsonrpc_fast.framing.events import EventFrames
from jsonrpc_fast.framing.frames import Frame
from jsonrpc_fast.framing.sse import MAX_FIELD_BYTES, Event, EventDecoder, encode_event

from ..support.chunks import bytewise, cut
from ..support.memory import measured
from ..support.tables import rows

BOM = b"\xef\xbb\xbf"
CUTS = st.lists(st.integers(1, 12), max_size=40)
LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"",
                b"",
                b"data: a",
                b"data:a",
                b"data",
                b"data:",
                b"data: " + 30 * b"x",
                b"event: message",
                b"event:other",
                b"event",
                b"id: 7",
                b"id",
                b"id: a\0b",
                b"retry: 12",
                b"retry: x",
                b": comment",
                b":",
                b"dat",
                b"dataa: x",
                b'{"jsonrpc":"2.0"}',
                b"Content-Length: 5",
                100 * b"y",
                BOM + b"data: m",
                b"\xef\xbb",
            ]
        ),
        st.binary(max_size=8).map(lambda line: re.sub(rb"[\r\n]", b"", line)),
    ),
    max_size=12,
)
ENDS = st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=12, max_size=12)


def events_of(chunks: list[bytes], limit: int = 1000) -> list[Event]:
    decoder = EventDecoder(limit)
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def frames_of(chunks: list[bytes], limit: int = 1000) -> list[Frame]:
    splitter = EventFrames(limit)
    frames = [frame for chunk in chunks for frame in splitter.feed(chunk)]
    return frames + splitter.close()


def message(data: bytes | None, id: str = "", retry: int | None = None) -> Event:
    return Event("message", data, id, retry)


STREAMS = [
    (b"", []),
    (b"data: a\n\n", [message(b"a")]),
    (b"data:a\n\n", [message(b"a")]),
    (b"data:  a\n\n", [message(b" a")]),
    (b"data\n\n", [message(b"")]),
    (b"data\ndata\n\n", [message(b"\n")]),
    (b"data:\n\n", [message(b"")]),
    # the examples of the standard
    (b"data: YHOO\ndata: +2\ndata: 10\n\n", [message(b"YHOO\n+2\n10")]),
    (
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        [message(b"first event", "1"), message(b"second event"), message(b" third event")],
    ),
    (b"data\n\ndata\ndata\n\ndata:", [message(b""), message(b"\n")]),
    (b"data:test\n\ndata: test\n\n", [message(b"test"), message(b"test")]),
    # line endings
    (b"data: a\r\rdata: b\r\n\r\ndata: c\n\n", [message(b"a"), message(b"b"), message(b"c")]),
    (b"data: a\rdata: b\ndata: c\r\n\r", [message(b"a\nb\nc")]),
    ("data: \u2028\x0b\x0c\u0085\n\n".encode(), [message("\u2028\x0b\x0c\u0085".encode())]),
    # byte order marks
    (BOM + b"data: a\n\n", [message(b"a")]),
    (BOM + b"\ndata: a\n\n", [message(b"a")]),
    (BOM + BOM + b"data: a\n\n", []),
    (b"\n" + BOM + b"data: a\n\n", []),
    # fields
    (b"event: ping\ndata: a\n\ndata: b\n\n", [Event("ping", b"a", "", None), message(b"b")]),
    (b"event: x\nevent: y\ndata: a\n\n", [Event("y", b"a", "", None)]),
    (b"event: x\nevent\ndata: a\n\n", [message(b"a")]),
    (b"event: x\n\ndata: a\n\n", [message(b"a")]),
    ("event: \u00e9\nid: \u2028\ndata: a\n\n".encode(), [Event("\u00e9", b"a", "\u2028", None)]),
    (b"event: \xff\ndata: \xff\n\n", [Event("\ufffd", b"\xff", "", None)]),
    (b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", [message(b"a", "1"), message(b"b", "1"), message(b"c")]),
    (b"id: 1\n\ndata: b\n\n", [message(b"b", "1")]),
    (b"id: 1\nid: 2\0\ndata: b\n\n", [message(b"b", "1")]),
    (b"retry: 10\ndata: b\n\ndata: c\n\n", [message(b"b", "", 10), message(b"c")]),
    (b"retry: 1x\ndata: b\n\nretry: -1\ndata: b\n\nretry\ndata: c\n\n", [message(b"b"), message(b"b"), message(b"c")]),
    ("retry: \u0661\ndata: b\n\n".encode(), [message(b"b")]),
    (b"retry: " + 5000 * b"9" + b"\ndata: b\n\n", [message(b"b")]),
    (b"Data: a\n data: b\ndata : c\ndata\0: c\ndatadata: d\n\n", []),
    (b": data: a\n:data: b\n\n", []),
    # cut off by the end
    (b"data: a\n", []),
    (b"data: a\n\ndata: b\n", [message(b"a")]),
]


@rows(("data", "expected"), STREAMS)
def test_streams(data: bytes, expected: list[Event]) -> None:
    assert events_of([data]) == expected
    assert events_of(bytewise(data)) == expected
    for at in range(min(len(data), 60)):
        assert events_of([data[:at], data[at:]]) == expected
    for ending in (b"\r", b"\r\n"):
        if b"\r" not in data:
            assert events_of([data.replace(b"\n", ending)]) == expected
            assert events_of(bytewise(data.replace(b"\n", ending))) == expected


def test_an_event_comes_with_the_chunk_that_ends_it() -> None:
    decoder = EventDecoder()
    assert decoder.feed(b"data: a\r\n") == []
    assert decoder.feed(b"\r") == [message(b"a")]
    assert decoder.feed(b"\ndata: b\n\r") == [message(b"b")]


def test_the_last_event_id() -> None:
    decoder = EventDecoder()
    assert decoder.last_event_id == ""
    decoder.feed(b"id: 1\n")
    assert decoder.last_event_id == ""
    decoder.feed(b"\n")
    assert decoder.last_event_id == "1"
    decoder.feed(b"id: 2\ndata: a")
    assert decoder.last_event_id == "1"
    decoder.feed(b"\n\nid\n\n")
    assert decoder.last_event_id == ""


RETRIES = [
    (b"retry: 10\n", 10),
    (b"retry: 10\n\n", 10),
    (b"retry: 10\ndata: a\n\ndata: b\n\n", 10),
    (b"retry: 10\n\nretry: 20\n\n", 20),
    (b"retry: 10\nretry: 20\ndata: a\n\n", 20),
    (b"retry:3000\nretry:1000x\ndata:x\n\n", 3000),
    (b"retry: 0\n\n", 0),
    (b"retry: 00\n\n", 0),
    (b"retry: " + 8000 * b"0" + b"5\n\n", 5),
    (b"retry: 999999999999999\n\n", 999999999999999),
    (b"retry: 1000000000000000\n\n", None),
    (b"retry\n\nretry:\n\nretry: -1\n\nretry: 1.5\n\nretry:  1\n\n", None),
    (b"retry: 10", None),
    (BOM + b"retry: 10\n", 10),
    (b": retry: 10\nRetry: 10\n", None),
    (b"data: " + 1001 * b"x" + b"\nretry: 10\n\n", 10),
]


@rows(("data", "expected"), RETRIES)
def test_retry(data: bytes, expected: int | None) -> None:
    endings = [b"\n"] if len(data) > 2000 else [b"\n", b"\r", b"\r\n"]
    for text in [data.replace(b"\n", ending) for ending in endings]:
        for chunks in ([text], bytewise(text), *([text[:at], text[at:]] for at in range(min(len(text), 60)))):
            decoder = EventDecoder(1000)
            assert decoder.retry is None
            for chunk in chunks:
                decoder.feed(chunk)
            assert decoder.retry == expected


def test_retry_is_valid_from_the_end_of_its_line() -> None:
    decoder = EventDecoder()
    decoder.feed(b"retry: 10")
    assert decoder.retry is None
    assert decoder.feed(b"\n") == []
    assert decoder.retry == 10
    assert decoder.feed(b"\ndata: a\n\n") == [message(b"a")]
    assert decoder.retry == 10


class TestLimit:
    @rows("size", [1, 2, 5, 1000])
    def test_bound(self, size: int) -> None:
        def events(data: bytes) -> list[Event]:
            return events_of([data[at : at + size] for at in range(0, len(data), size)], 5)

        after = b"data: b\n\n"
        assert events(b"data: abcde\n\n" + after) == [message(b"abcde"), message(b"b")]
        assert events(b"data:abcde\n\n" + after) == [message(b"abcde"), message(b"b")]
        assert events(b"data: abcdef\n\n" + after) == [message(None), message(b"b")]
        assert events(b"data:abcdef\n\n" + after) == [message(None), message(b"b")]
        assert events(b"data: ab\ndata: cd\n\n" + after) == [message(b"ab\ncd"), message(b"b")]
        assert events(b"data: abc\ndata: cd\n\n" + after) == [message(None), message(b"b")]
        assert events(b"data\ndata\ndata\ndata\ndata\ndata\n\n" + after) == [message(b"\n\n\n\n\n"), message(b"b")]
        assert events(b"data\ndata\ndata\ndata\ndata\ndata\ndata\n\n" + after) == [message(None), message(b"b")]
        assert events(b"id: 1\nevent: x\ndata: abcdef\ndata: " + 99 * b"x" + b"\nid: 2\n\n" + after) == [
            Event("x", None, "", None),
            message(b"b", "2"),
        ]
        assert events(b":" + 99 * b"x" + b"\n" + 99 * b"y" + b"\n" + after) == [message(b"b")]

    def test_reported_at_once_and_only_once(self) -> None:
        decoder = EventDecoder(5)
        assert decoder.feed(b"data: abcde") == []
        assert decoder.feed(b"f") == [message(None)]
        assert decoder.feed(100 * b"g") == []
        assert decoder.feed(b"\ndata: h\n\ndata: i\n\n") == [message(b"i")]

    @rows("name", [b"id", b"event", b"retry"])
    def test_other_fields(self, name: bytes) -> None:
        line = name + b": " + (MAX_FIELD_BYTES - len(name) - 2) * b"1"
        assert len(events_of([line + b"\ndata: a\n\n"])) == 1
        assert events_of([line + b"1\ndata: a\n\ndata: b\n\n"]) == [message(None), message(b"b")]
        assert events_of(bytewise(line + b"1\ndata: a\n\ndata: b\n\n")) == [message(None), message(b"b")]

    @rows("chunk", [b"x" * 65536, b"data: abc\n" * 6000, b"data\n" * 10000, b"id: y" * 13000])
    @pytest.mark.ci
    def test_memory_has_a_bound(self, chunk: bytes) -> None:
        decoder = EventDecoder(20_000)
        with measured() as memory:
            for _ in range(5):
                decoder.feed(chunk)
        assert memory.peak < 400_000

    def test_an_event_over_the_limit_keeps_nothing(self) -> None:
        decoder = EventDecoder(1_000_000)
        assert decoder.feed(b"data: " + 1_000_001 * b"x" + b"\n") == [message(None)]
        with measured() as memory:
            for _ in range(30):
                assert decoder.feed(b"data: " + 30_000 * b"x") == []
        assert memory.held < 100_000
        assert decoder.feed(b"\n\ndata: b\n\n") == [message(b"b")]


def reference(data: bytes) -> list[Event]:
    """A reference implementation of the standard, for a complete stream."""
    lines = re.split(rb"\r\n|\n|\r", data.removeprefix(BOM))[:-1]
    events: list[Event] = []
    last_id = ""
    values: list[bytes] = []
    type = ""
    retry = None
    for line in lines:
        name, colon, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if not line:
            if values:
                events.append(Event(type or "message", b"\n".join(values), last_id, retry))
            values, type, retry = [], "", None
        elif not colon or name:
            if name == b"data":
                values.append(value)
            elif name == b"event":
                type = value.decode(errors="replace")
            elif name == b"id" and b"\0" not in value:
                last_id = value.decode(errors="replace")
            elif name == b"retry" and value.isdigit():
                retry = int(value)
    return events


@given(lines=LINES, ends=ENDS, sizes=CUTS, tail=st.sampled_from([b"", b"\n", b"data: t"]))
def test_any_chunking(lines: list[bytes], ends: list[bytes], sizes: list[int], tail: bytes) -> None:
    data = b"".join([line + end for line, end in zip(lines, ends, strict=False)]) + tail
    assert events_of([data]) == reference(data)
    assert events_of(cut(data, sizes)) == reference(data)
    assert events_of(bytewise(data)) == reference(data)
    for limit in (1000, 20):
        expected = frames_of([data], limit)
        assert frames_of(cut(data, sizes), limit) == expected
        assert frames_of(bytewise(data), limit) == expected


# Writing


@rows("data", [5, "data: a\n\n", None, [100]])
def test_what_is_not_bytes_is_refused(data: Any) -> None:
    with pytest.raises(TypeError, match="bytes-like"):
        EventDecoder().feed(data)


def test_encode() -> None:
    assert encode_event(b"{}") == b"data: {}\n\n"
    assert encode_event(b"") == b"data: \n\n"
    assert encode_event(b"a\nb\r\nc\rd") == b"data: a\ndata: b\ndata: c\ndata: d\n\n"
    assert encode_event(b"a", type="ping", id="\u00e9", retry=0) == (
        b"event: ping\nid: \xc3\xa9\nretry: 0\ndata: a\n\n"
    )


@rows(
    ("fields", "text"),
    [
        ({"type": "a\nb"}, "type must not contain a line ending"),
        ({"id": "a\rb"}, "id must not contain a line ending"),
        ({"id": "a\0b"}, "id must not contain a NUL"),
        ({"retry": -1}, "retry must be 0 or more"),
    ],
)
def test_invalid_fields(fields: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        encode_event(b"a", **fields)  # type: ignore[arg-type]


FIELD = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=9)


@given(
    written=st.lists(st.tuples(st.binary(max_size=30), FIELD, FIELD, st.none() | st.integers(0, 10**14)), max_size=5),
    sizes=CUTS,
)
def test_encoded_events_decode(written: list[tuple[bytes, str, str, int | None]], sizes: list[int]) -> None:
    stream = b"".join([encode_event(data, type=type, id=id, retry=retry) for data, type, id, retry in written])
    expected = [
        Event(type or "message", re.sub(rb"\r\n|\r", b"\n", data), id, retry) for data, type, id, retry in written
    ]
    assert events_of(cut(stream, sizes)) == expected


# Frames


def fault(offset: int, hint: Hint) -> Frame:
    return Frame(None, None, offset, ParseErrorCode.INVALID_FRAMING, hint)


def too_large(offset: int) -> Frame:
    return Frame(None, None, offset, ParseErrorCode.MESSAGE_TOO_LARGE)


LONG_JSON = b'{"jsonrpc":"2.0","id":1,"method":"%b"}' % (100 * b"x")

FRAMES = [
    (b"data: {}\n\n: c\ndata:{}\ndata: {\n\n", [Frame(b"{}", None, 6), Frame(b"{}\n{", None, 19)]),
    (BOM + b"data: {}\n\n", [Frame(b"{}", None, 9)]),
    (b"event: message\r\ndata: {}\r\n\r\n", [Frame(b"{}", None, 22)]),
    (b"event: ping\ndata: {}\n\nid: 1\ndata:\n\nid: 1\ndata: \n\nretry: 5\n\n", []),
    (b"data: a\n", [Frame(b"a", None, 6, ParseErrorCode.TRUNCATED)]),
    (b"data: a\ndata: b", [Frame(b"a\nb", None, 6, ParseErrorCode.TRUNCATED)]),
    (b"data:", []),
    (b"data: a\nevent: x\n", []),
    (
        b"data: " + 1001 * b"x" + b"\n\ndata: a\n\n",
        [Frame(1000 * b"x", None, 6, ParseErrorCode.MESSAGE_TOO_LARGE), Frame(b"a", None, 1015)],
    ),
    (b"event: x\ndata: " + 1001 * b"x" + b"\n\n", []),
    (b'{"jsonrpc":"2.0"}\n{}\ndata: a\n\n', [fault(0, Hint.NEWLINE_FRAMING), Frame(b"a", None, 27)]),
    (b"data: a\n\n[{}]", [Frame(b"a", None, 6), fault(9, Hint.NEWLINE_FRAMING)]),
    (b"Content-Length: 5\r\n\r\n{}", [fault(0, Hint.CONTENT_LENGTH_FRAMING)]),
    (b"Content-Length: " + 2000 * b"5", [fault(0, Hint.CONTENT_LENGTH_FRAMING)]),
    (b"INFO started\n\n", []),
    (LONG_JSON + b"\ndata: a\n\n", [fault(0, Hint.NEWLINE_FRAMING), Frame(b"a", None, len(LONG_JSON) + 7)]),
]


@rows(("data", "expected"), FRAMES)
def test_frames(data: bytes, expected: list[Frame]) -> None:
    assert frames_of([data]) == expected
    assert frames_of(bytewise(data)) == expected
