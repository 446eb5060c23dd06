"""Streams in every framing, in both backends: any chunking gives the same items, and only bad headers end a stream."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jsonrpc_fast.framing.frames import FRAMINGS, MAX_HEADER_BYTES, frame
from jsonrpc_fast.framing.sse import EventDecoder
from jsonrpc_fast.profile import LSP, Limits

from ..fuzz.mutate import LINES, MADE, mutants
from ..support.chunks import bytewise, cut
from ..support.comparison import Backends
from ..support.describe import Description, describe, notification, request, text_fault
from ..support.memory import measured
from ..support.tables import rows
from ..support.timing import min_seconds, thread_seconds

ONE = b'{"jsonrpc":"2.0","id":1,"method":"m"}'
TWO = b'{"jsonrpc":"2.0","method":"n"}'
REQUEST = request(1, "m")
NOTIFICATION = notification("n")
TOO_LARGE: Description = ("ParseError", "MESSAGE_TOO_LARGE", -32600, None, None, None, True, None)
TOO_LARGE_1: Description = ("ParseError", "MESSAGE_TOO_LARGE", -32600, 1, None, None, True, None)

FRAMED = ("newline", "content-length", "sse")


def shown(item: Any) -> Description:
    """A description with the hint of a fault."""
    if isinstance(item, list):
        return [shown(each) for each in item]
    found = describe(item)
    if found[0] == "ParseError":
        return (*found, item.hint and item.hint.name)
    return found


def fault(code: str, offset: int | None, hint: str | None = None) -> Description:
    return (*text_fault(code, offset), hint)


def invalid(hint: str | None) -> Description:
    return fault("INVALID_FRAMING", None, hint)


def decode_all(impl: ModuleType, chunks: list[bytes], framing: str, **options: Any) -> Description:
    decoder = impl.Decoder(framing, **options)
    items = [item for chunk in chunks for item in decoder.feed(chunk)]
    return [shown(item) for item in items + decoder.close()]


def headed(*texts: bytes) -> bytes:
    return b"".join([frame(text, "content-length") for text in texts])


CONTENT_LENGTH: list[tuple[bytes, Description]] = [
    (b"", []),
    (headed(ONE), [REQUEST]),
    (headed(ONE, TWO), [REQUEST, NOTIFICATION]),
    (b"\xef\xbb\xbf" + headed(ONE, TWO), [REQUEST, NOTIFICATION]),
    (b"Content-Length: 0\r\n\r\n" + headed(ONE), [REQUEST]),
    (b"Content-Length: 37\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n" + ONE, [REQUEST]),
    (
        b"Content-Length: 37\r\nContent-Type: application/vscode-jsonrpc; charset=utf-7\r\n\r\n" + ONE,
        [invalid("UNKNOWN_CHARSET")],
    ),
    (b"content-type: x\ncontent-length:37\n\n" + ONE + headed(TWO), [REQUEST, NOTIFICATION]),
    (headed(b"[" + ONE + b"," + TWO + b"]"), [[REQUEST, NOTIFICATION]]),
    (headed(b"{\n" + ONE[1:]), [REQUEST]),
    (headed(b"  "), [fault("MALFORMED_JSON", 2)]),
    (headed(b"nonsense", TWO), [fault("MALFORMED_JSON", 1), NOTIFICATION]),
    (headed(b"\xff", TWO), [fault("INVALID_UTF8", 0), NOTIFICATION]),
    (headed(ONE[:-1], TWO), [fault("MALFORMED_JSON", 36), NOTIFICATION]),
    (headed(ONE)[:-1], [fault("TRUNCATED", 36)]),
    (headed(ONE)[:-37], [fault("TRUNCATED", 0)]),
    (headed(ONE)[:-38], [fault("TRUNCATED", 0)]),
    (headed(ONE) + b"C", [REQUEST, fault("TRUNCATED", 0)]),
    (headed(ONE) + b"\r\n", [REQUEST]),
    # The header claims 36 of 37 bytes: the last one is read as a header.
    (b"Content-Length: 36\r\n\r\n" + ONE + headed(TWO), [fault("MALFORMED_JSON", 36), invalid("LENGTH_TOO_SMALL")]),
    (ONE + b"\n" + TWO + b"\n", [invalid("NEWLINE_FRAMING")]),
    (headed(ONE) + ONE + headed(TWO), [REQUEST, invalid("NEWLINE_FRAMING")]),
    (b"starting up\n" + headed(ONE), [invalid("PRINTED_TEXT")]),
    (b"data: {}\n\n", [invalid("SSE_FRAMING")]),
    (b"Content-Length: 0000000037\r\n\r\n" + ONE, [REQUEST]),
    (b"Content-Length: 999999999999\r\n\r\n" + ONE, [invalid("LENGTH_TOO_LARGE")]),
    (b"Content-Length: 4294967295\r\n\r\n" + ONE, [TOO_LARGE_1]),
    (b"Content-Length: 1000000000\r\n\r\n" + ONE, [TOO_LARGE_1]),
    (b"Content-Length: 999999999\r\n\r\n" + ONE, [TOO_LARGE_1]),
    (b"X: " + MAX_HEADER_BYTES * b"y" + b"\r\n" + headed(ONE), [invalid("HEADER_TOO_LARGE")]),
]


@rows(("data", "expected"), CONTENT_LENGTH)
@pytest.mark.ci
def test_content_length(impl: ModuleType, data: bytes, expected: Description) -> None:
    for framing in ("content-length", "auto") if data[:4].lower().endswith(b"cont") else ("content-length",):
        assert decode_all(impl, [data], framing) == expected
        assert decode_all(impl, bytewise(data), framing) == expected
        for at in range(min(len(data), 150)):
            assert decode_all(impl, [data[:at], data[at:]], framing) == expected


# Tests of other projects; `expect` is the project's own verdict.
COMPLETION = request(
    3, "textDocument/completion", {"textDocument": {"uri": "test:/main.cpp"}, "position": {"line": 3, "character": 5}}
)
VECTORS: list[Description] = [
    [request(1, "example")],
    [invalid("MISSING_LENGTH")],
    [invalid("INVALID_LENGTH")],
    [notification("test")],
    [notification("test")],
    [notification("test")],
    [notification("exit")],
    [notification("exit")],
    [notification("exit")],
    [invalid("UNKNOWN_CHARSET")],
    # Differs: a Content-Type without a charset means utf-8 (LSP 3.17, "Header Part").
    [notification("exit")],
    [notification("exit")],
    [],
    # Differs: it is unknown where the next frame begins, so the stream ends.
    [invalid("MISSING_LENGTH")],
    # Differs: two readers would read two different bodies.
    [invalid("DUPLICATE_LENGTH")],
    [COMPLETION],
    [fault("MALFORMED_JSON", 10), invalid("LENGTH_TOO_SMALL")],
    [fault("TRUNCATED", 146)],
    [TOO_LARGE],
]
DIFFERING = (10, 13, 14)


def test_vectors_of_other_implementations(impl: ModuleType, corpora: Path) -> None:
    vectors = json.loads((corpora / "framing_vectors.json").read_bytes())
    assert len(vectors) == len(VECTORS) == 19
    for place, (vector, expected) in enumerate(zip(vectors, VECTORS, strict=True)):
        data = vector["raw"].encode()
        assert decode_all(impl, [data], "content-length") == expected, vector
        assert decode_all(impl, bytewise(data), "content-length") == expected, vector
        if place not in DIFFERING:
            theirs = vector["expect"]
            if isinstance(theirs, str):
                assert expected[-1][0] == "ParseError"
            else:
                assert expected == [shown(impl.decode(text)) for text in theirs]


SSE: list[tuple[bytes, Description]] = [
    (b"", []),
    (b"data: " + ONE + b"\n\n", [REQUEST]),
    (
        b"event: message\r\nid: 1\r\ndata: " + ONE + b"\r\n\r\n: hi\r\n\r\ndata:" + TWO + b"\r\n\r\n",
        [REQUEST, NOTIFICATION],
    ),
    (b'data: {"jsonrpc":"2.0",\rdata: "method":"n"}\r\r', [NOTIFICATION]),
    (b"event: ping\ndata: nonsense\n\nid: 1\ndata:\n\ndata: " + TWO + b"\n\n", [NOTIFICATION]),
    (
        b"data: nonsense\n\ndata: \xff\n\ndata: " + TWO + b"\n\n",
        [fault("MALFORMED_JSON", 1), fault("INVALID_UTF8", 0), NOTIFICATION],
    ),
    (b"data: " + ONE + b"\n", [fault("TRUNCATED", 37)]),
    (b"data: " + ONE[:5], [fault("TRUNCATED", 5)]),
    (ONE + b"\n" + TWO + b"\n", [invalid("NEWLINE_FRAMING")]),
    (headed(ONE) + b"\n\ndata: " + TWO + b"\n\n", [invalid("CONTENT_LENGTH_FRAMING"), NOTIFICATION]),
]


@rows(("data", "expected"), SSE)
def test_sse(impl: ModuleType, data: bytes, expected: Description) -> None:
    assert decode_all(impl, [data], "sse") == expected
    for at in range(len(data)):
        assert decode_all(impl, [data[:at], data[at:]], "sse") == expected
    assert decode_all(impl, bytewise(data), "sse") == expected


EVENT_LINES = [
    b"",
    b"",
    b"",
    b"data: " + ONE,
    b"data:" + TWO,
    b"data: " + ONE[:16],
    b"data:" + ONE[16:],
    b"data: [1,",
    b"data: 2]",
    b"data:",
    b"data",
    b"data: " + 70 * b"x",
    b"event: message",
    b"event:message",
    b"event: ping",
    b"event:",
    b"event: " + 100 * b"e",
    b"id: 7",
    b"id: " + 100 * b"7",
    b"id",
    b"retry: 5",
    b": a comment",
    b":" + 9000 * b"c",
    b"event: " + 9000 * b"e",
    b"datax: 1",
    b" data: " + ONE,
    b"Content-Length: 5",
    ONE,
    "caf\u00e9".encode(),
    b"\xef\xbb\xbfdata: " + ONE,
]


@given(
    lines=st.lists(st.sampled_from(EVENT_LINES), max_size=14),
    endings=st.lists(st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"]), min_size=14, max_size=14),
    cuts=st.lists(st.integers(1, 60), max_size=20),
    limit=st.sampled_from([1, 38, 60, 1000]),
    raw=st.booleans(),
    max_items=st.sampled_from([None, 1, 2]),
)
def test_both_backends_read_the_same_events(
    backends: Backends,
    lines: list[bytes],
    endings: list[bytes],
    cuts: list[int],
    limit: int,
    raw: bool,
    max_items: int | None,
) -> None:
    data = b"".join([line + ending for line, ending in zip(lines, endings, strict=False)])
    found = []
    for backend, chunks in ((backends[1], [data]), (backends[0], [data]), (backends[0], cut(data, cuts))):
        decoder = backend.Decoder("sse", limits=Limits(message_bytes=limit), raw=raw)
        items = []
        for chunk in chunks:
            items += decoder.feed(chunk, max_items)
            while decoder.has_more:
                items += decoder.feed(b"", max_items)
        found.append([shown(item) for item in items + decoder.close()])
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_events_that_the_core_reads_itself(backends: Backends, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def spy(events: EventDecoder, data: bytes) -> Any:
        read.append(data)
        return original(events, data)

    original = EventDecoder.read
    monkeypatch.setattr(EventDecoder, "read", spy)
    decoder = backends[0].Decoder("sse")
    first = b"data: " + ONE + b"\n\n"
    assert len(decoder.feed(3 * first)) == 3
    assert read == [first]  # a byte order mark was possible
    for event in (
        first,
        b"\r\n: ping\r\n\r\nid: 7\r\nevent: message\r\nretry: 5\r\ndata:" + ONE + b"\r\n\r\n",
        b"data: " + ONE[:16] + b"\n" + b"data: " + ONE[16:] + b"\n\n",
    ):
        assert describe(decoder.feed(5 * event)[4]) == REQUEST
    assert decoder.feed(b"event: ping\ndata: 1\n\n") == []
    assert len(read) == 1
    assert len(decoder.feed(first + first[:20])) == 1
    assert read[1:] == [first[:20]]
    assert len(decoder.feed(first[20:] + first + b"x: y\n" + first)) == 3
    assert read[2:] == [first[20:], b"x: y\n" + first]


LOG_LINE = b"INFO listening on stdio"
NEWLINE: list[tuple[bytes, Description]] = [
    (LOG_LINE + b"\n" + ONE + b"\n", [fault("MALFORMED_JSON", 0, "PRINTED_TEXT"), REQUEST]),
    (b"[INFO] x\n" + TWO + b"\n", [fault("MALFORMED_JSON", 1, "PRINTED_TEXT"), NOTIFICATION]),
    (b"d\xe9marr\xe9\n" + TWO, [fault("INVALID_UTF8", 1, "PRINTED_TEXT"), NOTIFICATION]),
    (b"data: " + ONE + b"\n\n", [fault("MALFORMED_JSON", 0, "SSE_FRAMING")]),
    (headed(ONE) + b"\n", [fault("MALFORMED_JSON", 0, "CONTENT_LENGTH_FRAMING"), REQUEST]),
    (b'{"a":1,}\n{]\n', [fault("MALFORMED_JSON", 7), fault("MALFORMED_JSON", 1)]),
    (b"\x00\x01\n", [fault("MALFORMED_JSON", 0)]),
    (LOG_LINE, [fault("MALFORMED_JSON", 0, "PRINTED_TEXT")]),
    (b"12\n", [("ParseError", "NOT_AN_OBJECT", -32600, None, None, None, True, None)]),
    (ONE[:9], [fault("TRUNCATED", 9)]),
]


@rows(("data", "expected"), NEWLINE)
def test_hints_of_newline_framing(impl: ModuleType, data: bytes, expected: Description) -> None:
    for framing in ("newline", "auto") if not data.startswith(b"Content") else ("newline",):
        assert decode_all(impl, [data], framing) == expected
        assert decode_all(impl, bytewise(data), framing) == expected


def test_decode_gives_no_hint(impl: ModuleType) -> None:
    assert impl.decode(LOG_LINE).hint is None
    assert impl.decode(LOG_LINE) == impl.ParseError.malformed_json(offset=0)
    [item] = impl.Decoder().feed(LOG_LINE + b"\n")
    assert type(item) is impl.ParseError
    assert item.to_response() == impl.decode(LOG_LINE).to_response()
    assert item.message == (
        "the text is not JSON; it looks like a log line or printed text; a program on stdio must print to stderr"
    )


@rows(
    ("data", "offset", "is_several"),
    [
        (ONE + b"\n" + ONE, 38, True),
        (ONE + ONE, 37, True),
        (b" " + ONE + b" [1]", 39, True),
        (ONE + b"\n" + ONE[:5], 38, True),
        (b'{"a":[1][2]}', 8, False),
        (b'{"a":[1]\n{', 9, False),
        (b'{"a":1}}', 7, False),
        (ONE + b" x", 38, False),
        (b"[1]\n[2]", 4, False),
    ],
)
def test_several_messages_in_one_text(impl: ModuleType, data: bytes, offset: int, is_several: bool) -> None:
    fault = impl.decode(data)
    assert (fault.code.name, fault.offset) == ("MALFORMED_JSON", offset)
    cure = '; it looks like several messages: Decoder("concatenated") reads them one by one'
    assert fault.message == f"the text is not JSON{cure if is_several else ''}"
    if b"\n" not in data:
        assert impl.Decoder().feed(data + b"\n") == [fault]


AUTO: list[tuple[bytes, str, Description]] = [
    (b"", "newline", []),
    (ONE, "newline", [REQUEST]),
    (b"\xef\xbb\xbf \r\n" + ONE + b"\n" + TWO, "newline", [REQUEST, NOTIFICATION]),
    (b"[" + ONE + b"]\n", "newline", [[REQUEST]]),
    (headed(ONE, TWO), "content-length", [REQUEST, NOTIFICATION]),
    (b"\xef\xbb\xbf\r\n" + headed(ONE, TWO), "content-length", [REQUEST, NOTIFICATION]),
    (b"content-type: x\r\ncontent-length: 37\r\n\r\n" + ONE, "content-length", [REQUEST]),
    (b"X-Test: 1\r\nContent-Length: 37\r\n\r\n" + ONE, "content-length", [REQUEST]),
    (b"Content-Length: x\r\n\r\n" + ONE, "content-length", [invalid("INVALID_LENGTH")]),
    (b"Content-L", "newline", [fault("MALFORMED_JSON", 0, "PRINTED_TEXT")]),
    (b"INFO: up\n" + ONE + b"\n", "newline", [fault("MALFORMED_JSON", 0, "PRINTED_TEXT"), REQUEST]),
    (b"\xef\xbb", "newline", [fault("TRUNCATED", 2)]),
]


@rows(("data", "framing", "expected"), AUTO)
def test_auto(impl: ModuleType, data: bytes, framing: str, expected: Description) -> None:
    assert decode_all(impl, [data], "auto") == decode_all(impl, bytewise(data), "auto") == expected
    for at in range(len(data)):
        assert decode_all(impl, [data[:at], data[at:]], "auto") == expected
    decoder = impl.Decoder("auto")
    assert decoder.framing == "auto"
    decoder.feed(data)
    decoder.close()
    assert decoder.framing == framing


def test_auto_returns_items_at_once(impl: ModuleType) -> None:
    decoder = impl.Decoder("auto")
    assert decoder.feed(b"  ") == []
    assert [shown(item) for item in decoder.feed(ONE + b"\n")] == [REQUEST]
    assert decoder.framing == "newline"
    assert [shown(item) for item in decoder.feed(TWO + b"\n")] == [NOTIFICATION]


def test_framing_and_ended_are_read_only(impl: ModuleType) -> None:
    for framing in FRAMINGS:
        decoder = impl.Decoder(framing)
        assert (decoder.framing, decoder.ended) == (framing, False)
        for name in ("framing", "ended"):
            with pytest.raises(AttributeError):
                setattr(decoder, name, None)


@rows("framing", ["content-length", "auto"])
def test_feed_after_the_end(impl: ModuleType, framing: str) -> None:
    decoder = impl.Decoder(framing)
    assert not decoder.ended
    assert [shown(item) for item in decoder.feed(headed(ONE) + b"Content-Length: x\r\n" + headed(TWO))] == [
        REQUEST,
        invalid("INVALID_LENGTH"),
    ]
    assert decoder.ended
    assert decoder.feed(headed(TWO)) == []
    with pytest.raises(TypeError, match=r"^data must be bytes"):
        decoder.feed("")
    assert decoder.close() == []
    assert decoder.ended
    with pytest.raises(ValueError, match=r"^the decoder is closed$"):
        decoder.feed(b"")


class TestLimit:
    LIMITS = Limits(message_bytes=len(ONE))

    @rows("framing", FRAMED)
    def test_bound(self, impl: ModuleType, framing: Any) -> None:
        for text, expected in ((ONE, REQUEST), (ONE + b" ", TOO_LARGE_1), (100 * ONE, TOO_LARGE_1)):
            data = frame(text, framing) + frame(TWO, framing)
            for chunks in ([data], bytewise(data)):
                assert decode_all(impl, chunks, framing, limits=self.LIMITS) == [expected, NOTIFICATION]

    def test_reported_with_its_beginning_and_the_stream_continues(self, impl: ModuleType) -> None:
        decoder = impl.Decoder("content-length", limits=self.LIMITS)
        assert decoder.feed(b"Content-Length: 3700\r\n\r\n" + ONE[:-1]) == []
        assert [shown(item) for item in decoder.feed(ONE[-1:])] == [TOO_LARGE_1]
        assert decoder.feed(98 * ONE) == []
        assert [shown(item) for item in decoder.feed(ONE + headed(TWO))] == [NOTIFICATION]
        assert decoder.close() == []

    def test_a_large_content_length_allocates_nothing(self, impl: ModuleType) -> None:
        for limits in (Limits(), Limits(message_bytes=sys.maxsize // 2)):
            decoder = impl.Decoder("content-length", limits=limits)
            with measured() as memory:
                decoder.feed(b"Content-Length: 1000000000\r\n\r\n{")
            assert memory.peak < 50_000

    @rows("lines", [b"", b"\ndata: "])
    @pytest.mark.ci
    def test_memory_of_an_event_over_the_limit(self, impl: ModuleType, lines: bytes) -> None:
        decoder = impl.Decoder("sse", limits=Limits(message_bytes=2_000_000))
        chunk = 1000 * b"x" + lines
        with measured() as memory:
            decoder.feed(b"data: ")
            reported = [item for _ in range(4000) for item in decoder.feed(chunk)]
        assert [shown(item) for item in reported] == [TOO_LARGE]
        assert memory.peak < 2_600_000

    @rows("framing", FRAMED)
    @pytest.mark.ci
    def test_memory_of_many_messages_has_a_bound(self, impl: ModuleType, framing: Any) -> None:
        decoder = impl.Decoder(framing)
        chunk = 20 * frame(ONE, framing)
        with measured() as memory:
            for _ in range(150):
                assert len(decoder.feed(chunk)) == 20
        assert memory.peak < 100_000


@pytest.mark.slow
@rows("framing", [*FRAMED, "auto"])
def test_one_byte_at_a_time_is_linear(impl: ModuleType, framing: Any) -> None:
    def seconds(size: int) -> float:
        decoder = impl.Decoder(framing)
        text = b'{"jsonrpc":"2.0","id":1,"result":"' + size * b"x" + b'"}'
        pieces = bytewise(frame(text, "content-length" if framing == "auto" else framing))
        items: list[Any] = []
        taken = thread_seconds(lambda: items.extend(item for piece in pieces for item in decoder.feed(piece)))
        assert len(items) == 1
        return taken

    # Sixteen times the bytes; quadratic time would be 256 times.
    few, many = min_seconds(lambda: seconds(5_000), lambda: seconds(80_000))
    assert many < 64 * few


@rows("framing", FRAMED)
def test_arguments_are_passed_on(impl: ModuleType, framing: Any) -> None:
    text = b'{"jsonrpc":"2.0","id":null,"method":"m","params":[1]}'
    [item] = impl.Decoder(framing, LSP).feed(frame(text, framing))
    assert item.code.name == "INVALID_ID_TYPE"
    [item] = impl.Decoder(framing, raw=True).feed(memoryview(frame(text, framing)))
    assert bytes(item.params) == b"[1]"
    [item] = impl.Decoder(framing).feed(memoryview(b"".join([b"%c_" % byte for byte in frame(text, framing)]))[::2])
    assert item.params == [1]


@rows("framing", ["newline", "content-length"])
def test_auto_accepts_every_buffer(impl: ModuleType, framing: Any) -> None:
    framed = frame(b'{"jsonrpc":"2.0","method":"m"}', framing)
    with_gaps = memoryview(b"".join([b"%c_" % byte for byte in framed]))[::2]
    backwards = with_gaps[::-1][::-1] if sys.implementation.name == "cpython" else with_gaps  # PyPy crashes on it
    for buffer in (bytearray(framed), memoryview(framed), with_gaps, backwards):
        decoder = impl.Decoder("auto")
        [item] = decoder.feed(buffer)
        assert (item.method, decoder.framing) == ("m", framing)


# Any stream, in any chunks, in both backends

TEXT = st.one_of(
    st.sampled_from([*LINES, *MADE]),
    mutants(),
    st.sampled_from([b"1", b"[]", b"\xff", b" ", b"log line", b"x" * 300, ONE, TWO]),
)
NOISE = st.sampled_from(
    [
        b"",
        b"",
        b"\n",
        b"\r\n",
        b"\r",
        b"\xef\xbb\xbf",
        b"log\n",
        b"Content-Length: 5\r\n",
        b"Content-Type: x; charset=utf8\r\n",
        b"X: y\n",
        b"Content-Length: 400\r\n\r\n",
        b"data: {\n",
        b"event: e\n",
        b": c\n\n",
    ]
)


@given(
    pieces=st.lists(st.tuples(NOISE, TEXT, st.sampled_from(FRAMED)), max_size=5),
    same=st.booleans(),
    framing=st.sampled_from(list(FRAMINGS)),
    sizes=st.lists(st.integers(0, 300), max_size=12),
    raw=st.booleans(),
)
@example(pieces=[(b"", b"\0{}", "newline")], same=True, framing="nul", sizes=[], raw=False)
@pytest.mark.ci
def test_any_chunking(
    backends: Backends, pieces: list[tuple[bytes, bytes, Any]], same: bool, framing: str, sizes: list[int], raw: bool
) -> None:
    limits = Limits(message_bytes=250)
    data = b""
    for noise, text, own in pieces:
        used: Any = framing if same and framing != "auto" else own
        data += noise + frame(text.replace(FRAMINGS[used].delimiter or b"\n", b" "), used)
    core, pure = backends
    whole = repr(decode_all(pure, [data], framing, limits=limits, raw=raw))
    for impl in (core, pure):
        for chunks in ([data], cut(data, sizes), bytewise(data)):
            assert repr(decode_all(impl, chunks, framing, limits=limits, raw=raw)) == whole


@given(
    texts=st.lists(TEXT, max_size=5), framing=st.sampled_from(FRAMED), sizes=st.lists(st.integers(0, 300), max_size=9)
)
def test_a_stream_gives_the_items_of_its_texts(
    impl: ModuleType, texts: list[bytes], framing: Any, sizes: list[int]
) -> None:
    # A byte order mark is dropped at the start of a stream, and a fault in a text of its own.
    texts = [text.replace(b"\xef\xbb\xbf", b"") for text in texts]
    texts = [text.replace(b"\n", b" ").replace(b"\r", b" ").strip(b" \t") or b"{}" for text in texts]
    data = b"".join([frame(text, framing) for text in texts])
    expected = [describe(impl.decode(text)) for text in texts]
    decoder = impl.Decoder(framing)
    found = [describe(item) for chunk in cut(data, sizes) for item in decoder.feed(chunk)]
    assert repr(found) == repr(expected)
    assert decoder.close() == []


STREAMS = [
    *(
        (data, framing)
        for rows, framing in ((CONTENT_LENGTH, "content-length"), (SSE, "sse"), (NEWLINE, "newline"))
        for data, _ in rows
    )
]


def in_turns(impl: ModuleType, chunks: list[bytes], bounds: list[int], framing: str, **options: Any) -> list[Any]:
    """The items of a stream, read with one `max_items` after another."""
    decoder = impl.Decoder(framing, **options)
    items: list[Any] = []
    turn = 0
    for chunk in chunks:
        while True:
            bound = bounds[turn % len(bounds)]
            turn += 1
            some = decoder.feed(chunk, bound)
            weights = [max(1, len(item)) if type(item) is list else 1 for item in some]
            assert sum(weights[:-1]) < bound
            items += some
            if not decoder.has_more:
                break
            assert sum(weights) >= bound
            assert not decoder.ended
            chunk = b""
    items += decoder.close()
    assert not decoder.has_more
    return [shown(item) for item in items]


@rows(("data", "framing"), STREAMS)
@pytest.mark.ci
def test_max_items(impl: ModuleType, data: bytes, framing: str) -> None:
    whole = decode_all(impl, [data], framing)
    for bound in (1, 2, 10**30):
        assert in_turns(impl, [data], [bound], framing) == whole
        assert in_turns(impl, bytewise(data), [bound], framing) == whole


@rows("framing", FRAMINGS)
def test_waiting_items_are_returned_first(impl: ModuleType, framing: Any) -> None:
    decoder = impl.Decoder(framing)
    kind = "content-length" if framing == "auto" else framing
    one, two = frame(ONE, kind), frame(TWO, kind)
    assert decoder.has_more is False
    assert [shown(item) for item in decoder.feed(one + two + two + one[:9], 1)] == [REQUEST]
    assert decoder.has_more is True
    assert [shown(item) for item in decoder.feed(one[9:] + two, 2)] == [NOTIFICATION, NOTIFICATION]
    assert decoder.has_more is True
    assert [shown(item) for item in decoder.feed(b"")] == [REQUEST, NOTIFICATION]
    assert decoder.has_more is False
    assert decoder.feed(b"", 1) == []
    assert [shown(item) for item in decoder.feed(two + one + one, max_items=1)] == [NOTIFICATION]
    assert [shown(item) for item in decoder.close()] == [REQUEST, REQUEST]
    assert decoder.has_more is False


@rows("framing", FRAMINGS)
def test_a_batch_counts_as_its_messages(impl: ModuleType, framing: Any) -> None:
    decoder = impl.Decoder(framing)
    kind = "content-length" if framing == "auto" else framing
    batch = frame(b"[1,2,3]", kind)
    for bound, sizes in ((1, [1] * 6), (3, [1] * 6), (4, [2] * 3), (6, [2] * 3), (7, [3] * 2), (16, [6])):
        found = [len(decoder.feed(batch * 6, bound))]
        while decoder.has_more:
            found.append(len(decoder.feed(b"", bound)))
        assert found == sizes
    assert len(decoder.feed(frame(TWO, kind) + batch + frame(TWO, kind), 4)) == 2
    assert [shown(item) for item in decoder.feed(b"", 4)] == [NOTIFICATION]


@rows("framing", FRAMINGS)
def test_invalid_max_items(impl: ModuleType, framing: Any) -> None:
    decoder = impl.Decoder(framing)
    for bound in (True, 1.0, "1", b""):
        with pytest.raises(TypeError, match=f"^max_items must be an int, not {type(bound).__name__}$"):
            decoder.feed(b"", bound)
    for bound in (0, -1, -(10**30)):
        with pytest.raises(ValueError, match=r"^max_items must be 1 or more$"):
            decoder.feed(b"", bound)


def test_a_fault_that_ends_the_stream_is_returned_in_order(impl: ModuleType) -> None:
    decoder = impl.Decoder("content-length")
    assert [shown(item) for item in decoder.feed(headed(ONE) + b"nonsense\n" + headed(TWO), 1)] == [REQUEST]
    assert (decoder.has_more, decoder.ended) == (True, False)
    assert [shown(item) for item in decoder.feed(headed(TWO), 1)] == [invalid("PRINTED_TEXT")]
    assert (decoder.has_more, decoder.ended) == (False, True)
    assert decoder.feed(headed(ONE)) == []


@pytest.mark.slow
@rows("framing", FRAMED)
def test_many_small_calls_take_linear_time(impl: ModuleType, framing: Any) -> None:
    """A large chunk is not copied for each item that is read from it, nor for each chunk that follows."""

    def seconds(decoder: Any, fed: bytes) -> float:
        def turns() -> None:
            for _ in range(100):
                assert len(decoder.feed(fed, 1)) == 1

        return thread_seconds(turns)

    # A chunk of many messages that wait, or of one.
    few, many = (impl.Decoder(framing) for _ in range(2))
    few.feed(1000 * frame(TWO, framing), 1)
    many.feed(
        1000 * frame(TWO, framing) + frame(b'{"jsonrpc":"2.0","id":1,"result":"%b"}' % (30_000_000 * b"x"), framing), 1
    )
    for fed in (b"", frame(TWO, framing)):
        least, most = min_seconds(partial(seconds, few, fed), partial(seconds, many, fed), rounds=2)
        assert most < 20 * least + 0.1
