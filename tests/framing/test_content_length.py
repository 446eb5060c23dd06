"""Content-Length framing: valid headers, headers that end the stream, and the bound on memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.codes import Hint, ParseErrorCode
from jsonrpc_fast.framing.content_length import ContentLengthFrames, HeaderReader
from jsonrpc_fast.framing.detector import FramingDetector
from jsonrpc_fast.framing.frames import MAX_HEADER_BYTES, MAX_SKIPPED_BYTES, Frame

from ..support.chunks import bytewise, cut
from ..support.memory import measured
from ..support.tables import rows

BOM = b"\xef\xbb\xbf"
PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"Content-Length: 2\r\n\r\nab",
                b"content-length:3\n\nabc",
                b"Content-Length: 12\r\n\r\n" + 12 * b"x",
                b"Content-Length: 0\r\n\r\n",
                b"Content-Type: a; charset=utf8\r\n",
                b"content-type:application/vscode-jsonrpc;charset=utf8\n",
                b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n\r\nab",
                b"Content-Length: 4",
                b"X-Y: z\r\n",
                b"\r\n",
                b"\r",
                b"\n",
                b"{",
                BOM,
                b"\xef",
                b"abcd",
                b":",
            ]
        ),
        st.binary(max_size=4),
    ),
    max_size=12,
)
CUTS = st.lists(st.integers(1, 30), max_size=40)


def frames_of(chunks: list[bytes], limit: int = 100) -> list[Frame]:
    splitter = ContentLengthFrames(limit, resync=False)
    frames = [frame for chunk in chunks for frame in splitter.feed(chunk)]
    return frames + splitter.close()


def invalid(offset: int, hint: str | None) -> Frame:
    return Frame(None, None, offset, ParseErrorCode.INVALID_FRAMING, None if hint is None else Hint[hint])


def too_large(offset: int, head: bytes) -> Frame:
    return Frame(head, None, offset, ParseErrorCode.MESSAGE_TOO_LARGE)


def truncated(text: bytes, offset: int) -> Frame:
    return Frame(text, None, offset, ParseErrorCode.TRUNCATED)


GOOD = [
    (b"Content-Length: 2\r\n\r\nab", 21),
    (b"Content-Length:2\r\n\r\nab", 20),
    (b"content-length: 2\r\n\r\nab", 21),
    (b"CONTENT-LENGTH: \t 2 \t\r\n\r\nab", 25),
    (b"Content-Length: 0002\r\n\r\nab", 24),
    (b"Content-Length: 2\n\nab", 19),
    (b"Content-Length: 2\r\n\nab", 20),
    (b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n\r\nab", 78),
    (b"Content-Length: 2\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\nab", 78),
    (b'Content-Length: 2\r\nContent-Type: a/b; x=y; Charset = "UTF-8"\r\n\r\nab', 64),
    (b"Content-Length: 2\r\nContent-Type: a/b;charset=utf8\r\n\r\nab", 53),
    (b"Content-Length: 2\r\nContent-Type:\r\n\r\nab", 36),
    (b"Content-Type: application/vscode-jsonrpc;charset=UTF8\ncontent-length:000000002\n\nab", 80),
    (b'Content-Length: 2\r\nContent-Type: a; title="b; charset=c"; charset=utf-8\r\n\r\nab', 75),
    (b'Content-Length: 2\r\nContent-Type: a; title="\\";charset=c"\r\n\r\nab', 60),
    (b"X-Other: \xc3\xa9: {}\r\nContent-Length: 2\r\n\r\nab", 38),
    (b"\r\n\n \t\r\nContent-Length: 2\r\n\r\nab", 28),
    (BOM + b"Content-Length: 2\r\n\r\nab", 24),
    (BOM + b"\r\nContent-Length: 2\r\n\r\nab", 26),
]


@rows(("data", "offset"), GOOD)
def test_headers(data: bytes, offset: int) -> None:
    expected = [Frame(b"ab", None, offset)]
    assert frames_of([data]) == expected
    assert frames_of(bytewise(data)) == expected
    again = [Frame(b"ab", None, offset), Frame(b"c", None, len(data) + 21)]
    assert frames_of([data + b"Content-Length: 1\r\n\r\nc"]) == again


NEXT = b"\r\n\r\nContent-Length: 2\r\n\r\nab"
BAD = [
    (b"Content-Length: -2", 0, "INVALID_LENGTH"),
    (b"Content-Length: +2", 0, "INVALID_LENGTH"),
    (b"Content-Length: 2.0", 0, "INVALID_LENGTH"),
    (b"Content-Length: 0x2", 0, "INVALID_LENGTH"),
    (b"Content-Length: 2_0", 0, "INVALID_LENGTH"),
    (b"Content-Length: 2 2", 0, "INVALID_LENGTH"),
    (b"Content-Length: 2, 2", 0, "INVALID_LENGTH"),
    (b"Content-Length: NaN", 0, "INVALID_LENGTH"),
    ("Content-Length: \u0662".encode(), 0, "INVALID_LENGTH"),
    (b"Content-Length: \xb2", 0, "INVALID_LENGTH"),
    (b"Content-Length:", 0, "INVALID_LENGTH"),
    (b"Content-Length: 4294967296", 0, "LENGTH_TOO_LARGE"),
    (b"Content-Length: 18446744073709551618", 0, "LENGTH_TOO_LARGE"),
    (b"Content-Length: " + 5000 * b"9", 0, "LENGTH_TOO_LARGE"),
    (b"Content-Length: 2\r\nContent-Length: 2", 19, "DUPLICATE_LENGTH"),
    (b"Content-Length: 2\r\nX: y\r\ncontent-LENGTH: 3", 25, "DUPLICATE_LENGTH"),
    (
        b"Content-Length: 2\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2",
        76,
        "DUPLICATE_LENGTH",
    ),
    (b"Content-Length: 2\r\nContent-Type: a; charset=latin1", 19, "UNKNOWN_CHARSET"),
    (b'Content-Length: 2\r\nContent-Type: a; title="b;"; charset="c"', 19, "UNKNOWN_CHARSET"),
    (b"Content-Type: a; charset=utf-16", 0, "UNKNOWN_CHARSET"),
    (b"Content-Type: a; charset=", 0, "UNKNOWN_CHARSET"),
    (b"Content-Type: a; charset=utf-8", 32, "MISSING_LENGTH"),
    (b"Content-Lengths: 2", 20, "MISSING_LENGTH"),
    (b"event: message\r\ndata: {}", 26, "SSE_FRAMING"),
    (b"Content-Length : 2", 0, None),
    (b"Content-Length: 2\r\n folded: x", 19, "PRINTED_TEXT"),
    (b"Content-Length: 2\r\n\tx", 19, "PRINTED_TEXT"),
    (b": 2", 0, "LENGTH_TOO_SMALL"),
    (b"Content-Length: 2\rX", 0, None),
    (b"Content-Length: 2\0", 0, None),
    (b"X\0: y", 0, None),
    (b"INFO listening on stdio", 0, "PRINTED_TEXT"),
    (b"[2026-11-21] started", 0, "PRINTED_TEXT"),
    (b"\x1b[32mready\x1b[0m", 0, "PRINTED_TEXT"),
    (b"X: y\r\n" + b'{"jsonrpc":"2.0"}', 6, "NEWLINE_FRAMING"),
    (b'{"jsonrpc":"2.0","method":"m"}', 0, "NEWLINE_FRAMING"),
    (b"  {", 0, "NEWLINE_FRAMING"),
    (b'[{"jsonrpc":"2.0","method":"m"}]', 0, "NEWLINE_FRAMING"),
    (b'","method":"m"}', 0, "LENGTH_TOO_SMALL"),
    (b"}Content-Length: 2", 0, "LENGTH_TOO_SMALL"),
    (b"X: " + MAX_HEADER_BYTES * b"y", 0, "HEADER_TOO_LARGE"),
    (1000 * b"X: y\r\n" + 400 * b"Y: zz\r\n", 8191, "HEADER_TOO_LARGE"),
    (b"[{" + MAX_HEADER_BYTES * b" ", 0, "NEWLINE_FRAMING"),
]


@rows(("data", "offset", "hint"), BAD)
def test_faults_end_the_stream(data: bytes, offset: int, hint: str | None) -> None:
    expected = [invalid(offset, hint)]
    assert frames_of([data + NEXT]) == expected
    assert frames_of(bytewise(data + NEXT)) == expected
    before = b"Content-Length: 2\r\n\r\nab"
    splitter = ContentLengthFrames(100, resync=False)
    assert splitter.feed(before) == [Frame(b"ab", None, 21)]
    assert not splitter.ended
    assert splitter.feed(data + NEXT) == [invalid(len(before) + offset, hint)]
    assert splitter.ended
    assert splitter.feed(NEXT) == []
    assert splitter.close() == []


def test_json_is_reported_at_once() -> None:
    splitter = ContentLengthFrames(100, resync=False)
    assert splitter.feed(b"{") == [invalid(0, "NEWLINE_FRAMING")]
    splitter = ContentLengthFrames(100, resync=False)
    assert splitter.feed(BOM[:2]) == []
    assert splitter.feed(BOM[2:]) == []
    assert splitter.feed(b"{") == [invalid(0, "NEWLINE_FRAMING")]


def test_a_later_byte_order_mark_is_a_fault() -> None:
    before = b"Content-Length: 2\r\n\r\nab"
    assert frames_of([before + BOM + before]) == [Frame(b"ab", None, 21), invalid(23, None)]
    assert frames_of([b"\n" + BOM + before]) == [invalid(1, None)]


def test_the_largest_header_section() -> None:
    head = b"Content-Length: 2\r\nX: "
    end = b"\r\n\r\n"
    fitting = head + (MAX_HEADER_BYTES - len(head) - len(end)) * b"y" + end + b"ab"
    assert frames_of([fitting]) == [Frame(b"ab", None, MAX_HEADER_BYTES)]
    assert frames_of(bytewise(fitting)) == [Frame(b"ab", None, MAX_HEADER_BYTES)]
    longer = fitting.replace(b"X", b"XX")
    for chunks in ([longer], bytewise(longer)):
        assert frames_of(chunks) == [invalid(MAX_HEADER_BYTES - 1, "HEADER_TOO_LARGE")]


def test_length_zero_gives_no_frame() -> None:
    data = b"Content-Length: 0\r\n\r\n"
    assert frames_of([data]) == []
    assert frames_of([data + data + b"Content-Length: 1\r\n\r\nx"]) == [Frame(b"x", None, 63)]


class TestLimit:
    @rows("size", [1, 2, 7, 100])
    def test_bound(self, size: int) -> None:
        def chunks(data: bytes) -> list[bytes]:
            return [data[at : at + size] for at in range(0, len(data), size)]

        data = b"Content-Length: %d\r\n\r\n%bContent-Length: 2\r\n\r\nab"
        assert frames_of(chunks(data % (5, 5 * b"x")), 5) == [Frame(b"xxxxx", None, 21), Frame(b"ab", None, 47)]
        assert frames_of(chunks(data % (6, 6 * b"x")), 5) == [too_large(21, b"xxxxx"), Frame(b"ab", None, 48)]
        assert frames_of(chunks(data % (100, 100 * b"x")), 5) == [too_large(23, b"xxxxx"), Frame(b"ab", None, 144)]

    def test_reported_once_with_its_beginning(self) -> None:
        splitter = ContentLengthFrames(5, resync=False)
        assert splitter.feed(b"Content-Length: 6\r\n\r") == []
        assert splitter.feed(b"\nabcd") == []
        assert splitter.feed(b"e") == [too_large(21, b"abcde")]
        assert splitter.feed(b"f") == []
        assert splitter.close() == []

    def test_skipped_bodies(self) -> None:
        for limit, length, fault in (
            (5, MAX_SKIPPED_BYTES, "MESSAGE_TOO_LARGE"),
            (5, MAX_SKIPPED_BYTES + 1, "INVALID_FRAMING"),
            (MAX_SKIPPED_BYTES + 5, MAX_SKIPPED_BYTES + 6, "INVALID_FRAMING"),
            (MAX_SKIPPED_BYTES + 5, MAX_SKIPPED_BYTES + 5, None),
        ):
            frames = ContentLengthFrames(limit, resync=False).feed(b"Content-Length: %d\r\n\r\n" % length + b"xxxxx")
            assert [frame.fault for frame in frames] == ([] if fault is None else [ParseErrorCode[fault]])


END = [
    (b"", []),
    (b"\r\n", []),
    (b"\r", []),
    (BOM, []),
    (b"C", [truncated(b"", 1)]),
    (b"Content-Length", [truncated(b"", 14)]),
    (b"Content-Length: 2\r\n", [truncated(b"", 19)]),
    (b"Content-Length: 2\r\n\r", [truncated(b"", 20)]),
    (b"Content-Length: 2\r\n\r\n", [truncated(b"", 21)]),
    (b"Content-Length: 2\r\n\r\na", [truncated(b"a", 21)]),
    (b"Content-Length: 2\r\n\r\nab", [Frame(b"ab", None, 21)]),
    (b"Content-Length: 0\r\n\r\n", []),
    (b"Content-Length: 101\r\n\r\n", [too_large(23, b"")]),
    (b"Content-Length: 101\r\n\r\nab", [too_large(23, b"ab")]),
    (b"Content-Length: 2\r\n\r\nab\r\n", [Frame(b"ab", None, 21)]),
    (b"ready to", [invalid(0, "PRINTED_TEXT")]),
    (b"X: y\r\nready to", [invalid(6, "PRINTED_TEXT")]),
    (b"X: y\r\nready\rto", [invalid(6, "PRINTED_TEXT")]),
]


@rows(("data", "expected"), END)
def test_end_of_stream(data: bytes, expected: list[Frame]) -> None:
    assert frames_of([data]) == expected
    assert frames_of(bytewise(data)) == expected


@given(pieces=PIECES, sizes=CUTS, limit=st.integers(1, 12))
def test_any_chunking(pieces: list[bytes], sizes: list[int], limit: int) -> None:
    data = b"".join(pieces)
    expected = frames_of([data], limit)
    assert frames_of(cut(data, sizes), limit) == expected
    assert frames_of(bytewise(data), limit) == expected
    assert frames_of([each for chunk in cut(data, sizes) for each in (b"", chunk, b"")], limit) == expected


@given(bodies=st.lists(st.binary(min_size=1, max_size=40)), sizes=CUTS)
def test_frames_read_back(bodies: list[bytes], sizes: list[int]) -> None:
    data = b"".join([b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies])
    assert [frame.text for frame in frames_of(cut(data, sizes))] == bodies


def peak_bytes_of(chunks: list[bytes], limit: int) -> int:
    splitter = ContentLengthFrames(limit, resync=False)
    with measured() as memory:
        for chunk in chunks:
            splitter.feed(chunk)
    return memory.peak


@pytest.mark.slow
def test_memory_has_a_bound() -> None:
    assert peak_bytes_of([b"Content-Length: 1000000000\r\n\r\n"], 2**40) < 10_000
    assert peak_bytes_of([b"Content-Length: 13000000\r\n\r\n", *[65536 * b"x"] * 198], 100_000) < 300_000
    assert peak_bytes_of(3 * [65536 * b"\n"], 100) < 300_000
    assert peak_bytes_of([b"X: ", *[65536 * b"x"] * 200], 100_000_000) < 300_000


def test_header_reader_stops_at_the_body() -> None:
    reader = HeaderReader(100, True, resync=False)
    assert reader.read(b"__Content-Length: 7\r\n\r\nbody", 2) == 23
    assert (reader.length, reader.is_bad, reader.hint) == (7, False, None)


def resynced(chunks: list[bytes], limit: int = 100) -> list[Frame]:
    splitter = ContentLengthFrames(limit, resync=True)
    frames = [frame for chunk in chunks for frame in splitter.feed(chunk)]
    return frames + splitter.close()


def skipped(size: int, hint: str | None, offset: int = 0) -> Frame:
    return Frame(None, None, offset, ParseErrorCode.INVALID_FRAMING, None if hint is None else Hint[hint], size)


AB = b"Content-Length: 2\r\n\r\nab"


@rows(
    ("text", "hint"),
    [
        (b"Stop hook #1 added.\n", "PRINTED_TEXT"),
        (b"two lines:\n of text\n", "PRINTED_TEXT"),
        (b"Object(uri, position)", "PRINTED_TEXT"),
        (b"a: b\n\n", "MISSING_LENGTH"),
        (b"glued", "PRINTED_TEXT"),
        (b"INFO: glued ", "PRINTED_TEXT"),
        (b"INFO: a line\nINFO:", "PRINTED_TEXT"),
        (b'{"level":"info"}\n', "NEWLINE_FRAMING"),
        (b'{"level":"info"}', "NEWLINE_FRAMING"),
        (b"data: {}\n\n", "SSE_FRAMING"),
        (b"}\n", "LENGTH_TOO_SMALL"),
        (b"Content-Length: 7\r\n", "DUPLICATE_LENGTH"),
        (b"Content-Length: x\r\n", "INVALID_LENGTH"),
        (b"Content-Length: 999999999999999\r\n", "LENGTH_TOO_LARGE"),
        (3 * (b"Content-Length: 9" + 30 * b"9" + b"\r\n"), "LENGTH_TOO_LARGE"),
        (b"Content-Length: 4\r\nContent-Type: a; charset=latin1\r\n\r\nbody", "UNKNOWN_CHARSET"),
        (20_000 * b"x", "HEADER_TOO_LARGE"),
        (2000 * b"line: of text\n", "HEADER_TOO_LARGE"),
        (b"\x00\n", None),
    ],
)
def test_resync(text: bytes, hint: str | None) -> None:
    size = len(text)
    expected = [
        Frame(b"ab", None, 21),
        skipped(size, hint, 23),
        Frame(b"ab", None, 44 + size),
        Frame(b"ab", None, 67 + size),
    ]
    assert resynced([AB + text + AB + AB]) == expected
    assert resynced(bytewise(AB + text + AB + AB)) == expected


@rows(
    ("data", "expected"),
    [
        (b"Starting\n" + AB, [skipped(9, "PRINTED_TEXT"), Frame(b"ab", None, 30)]),
        # Another framing: it ends the stream, for its reader would wait for ever.
        (b'{"a":1}\n' + AB, [Frame(None, None, 0, ParseErrorCode.INVALID_FRAMING, Hint.NEWLINE_FRAMING)]),
        (b"id: 1\n\n" + AB, [Frame(None, None, 6, ParseErrorCode.INVALID_FRAMING, Hint.SSE_FRAMING)]),
        (b"a\nContent-Length: 3\r\n\r\nab", [skipped(2, "PRINTED_TEXT"), truncated(b"ab", 23)]),
        (b"a\nContent-Length: 3\r\n", [skipped(2, "PRINTED_TEXT"), truncated(b"", 21)]),
        (b"a\nContent-Len", [skipped(13, "PRINTED_TEXT")]),
        (b"a\nContent-Length: 3\r\n}", [skipped(22, "PRINTED_TEXT")]),
        (b"Segmentation fault", [skipped(18, "PRINTED_TEXT")]),
    ],
)
def test_resync_at_the_ends(data: bytes, expected: list[Frame]) -> None:
    assert resynced([data]) == expected
    assert resynced(bytewise(data)) == expected


@given(pieces=PIECES, sizes=CUTS, limit=st.integers(1, 12))
def test_resync_in_any_chunking(pieces: list[bytes], sizes: list[int], limit: int) -> None:
    data = b"".join(pieces)
    expected = resynced([data], limit)
    assert resynced(cut(data, sizes), limit) == resynced(bytewise(data), limit) == expected
    # What is valid without resync is read alike with it.
    if all(frame.fault is None for frame in frames_of([data], limit)):
        assert expected == frames_of([data], limit)


def test_skipped_text_takes_linear_time_and_no_memory() -> None:
    lines = 400 * b"Content-Length: 999999999999999\r\n" + 400 * b"a line\n"
    splitter = ContentLengthFrames(100, resync=True)
    splitter.feed(AB)
    with measured() as memory:
        for _ in range(4):
            assert splitter.feed(lines) == []
    assert memory.peak < 3 * len(lines)
    assert splitter.feed(AB) == [
        skipped(4 * len(lines), "LENGTH_TOO_LARGE", 23),
        Frame(b"ab", None, 4 * len(lines) + 44),
    ]


DETECTED = [
    (b"{", "newline"),
    (b"[", "newline"),
    (b" \r\n\t{", "newline"),
    (BOM + b"{", "newline"),
    (b"Content-Length:", "content-length"),
    (b"content-type:", "content-length"),
    (BOM + b"CONTENT-LENGTH:", "content-length"),
    (b"\r\nContent-Length:", "content-length"),
    (b"X-Test: 1\r\nAccept: {}\r\nContent-Length:", "content-length"),
    (b"Content-Length", None),
    (b"Content-Length :", "newline"),
    (b"Content-Lengths: 5\r\n", None),
    (b"Content-Lengths: 5\r\n\r", "newline"),
    (b"INFO: started\n{", "newline"),
    (b"INFO: started\nContent-Length:", "content-length"),
    (b"INFO started", "newline"),
    (b":", "newline"),
    (b"\xef", None),
    (b"\xef\xbb{", "newline"),
    (b"\xff", "newline"),
    (b"", None),
    (b"   ", None),
    (MAX_HEADER_BYTES * b" ", "newline"),
    ((MAX_HEADER_BYTES - 1) * b"x", None),
    (MAX_HEADER_BYTES * b"x", "newline"),
    (b"X:" + MAX_HEADER_BYTES * b"x" + b"\nContent-Length: 5", "newline"),
]


@rows(("data", "expected"), DETECTED)
def test_detector(data: bytes, expected: str | None) -> None:
    for chunks in ([data], bytewise(data), cut(data, [1]), cut(data, [4, 4, 4, 4])):
        detector = FramingDetector()
        framing = None
        fed = b""
        for chunk in chunks:
            framing = detector.feed(chunk)
            fed += chunk
            assert detector.seen == fed
            if framing is not None:
                break
        assert framing == expected


@given(pieces=PIECES, sizes=CUTS)
def test_any_chunking_detects_the_same(pieces: list[bytes], sizes: list[int]) -> None:
    data = b"".join(pieces)

    def detected(chunks: list[bytes]) -> str | None:
        detector = FramingDetector()
        return next((found for found in map(detector.feed, chunks) if found is not None), None)

    assert detected(cut(data, sizes)) == detected([data]) == detected(bytewise(data))
