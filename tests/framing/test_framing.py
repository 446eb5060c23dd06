"""Newline framing: the place of each line, and the bound on memory."""

from __future__ import annotations

import inspect
from functools import partial
from importlib.util import find_spec
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import BACKEND, Decoder
from jsonrpc_fast.codes import ParseErrorCode
from jsonrpc_fast.framing import FrameReader
from jsonrpc_fast.framing.detector import frames_of as frames_splitter
from jsonrpc_fast.framing.frames import FRAMINGS, STREAM_FRAMINGS, Frame, Framing, StreamFraming, frame
from jsonrpc_fast.framing.lines import LineFrames

from ..support.chunks import bytewise, cut
from ..support.memory import measured
from ..support.places import ROOT
from ..support.tables import rows
from ..support.timing import min_seconds, thread_seconds

DELIMITED = [name for name, row in FRAMINGS.items() if row.delimiter and name != "newline"]
"""The framings of which each message ends in a byte that no text of JSON has."""
BOM = b"\xef\xbb\xbf"
PIECES = st.lists(
    st.one_of(
        st.sampled_from([b"\n", b"\r\n", b"\r", b" ", b"\t", b"ab", b"\xef", b"\xef\xbb", BOM, b"\xc2\x85", b""]),
        st.binary(max_size=6),
    ),
    max_size=30,
)
CUTS = st.lists(st.integers(1, 8), max_size=60)


def frames_of(chunks: list[bytes], limit: int) -> list[Frame]:
    splitter = LineFrames(limit, b"\n")
    frames = [frame for chunk in chunks for frame in splitter.feed(chunk)]
    return frames + splitter.close()


def too_large(line: int | None, offset: int, head: bytes) -> Frame:
    return Frame(head, line, offset, ParseErrorCode.MESSAGE_TOO_LARGE)


def expected_frames(data: bytes, limit: int) -> list[Frame]:
    """A reference implementation, for a complete stream."""
    frames = []
    offset = 3 if data.startswith(BOM) else 0
    for number, line in enumerate(data[offset:].split(b"\n"), 1):
        text = line.removesuffix(b"\r")
        if len(text) > limit:
            frames.append(too_large(number, offset, text[:limit]))
        elif text.strip(b" \t\r"):
            frames.append(Frame(text, number, offset))
        offset += len(line) + 1
    return frames


def test_lines() -> None:
    data = b'{"a":1}\n\n 2 \r\n\xff\n\n3'
    assert frames_of([data], 100) == [
        Frame(b'{"a":1}', 1, 0),
        Frame(b" 2 ", 3, 9),
        Frame(b"\xff", 4, 14),
        Frame(b"3", 6, 17),
    ]


def test_bytes_that_are_data() -> None:
    for text in ("\u0085", "\u2028", "\u2029", "\x0b", "\x0c", "\x00", "a\rb", "\ra"):
        line = b"<" + text.encode()
        assert frames_of([line + b"\n" + line], 100) == [
            Frame(line, 1, 0),
            Frame(line.removesuffix(b"\r"), 2, len(line) + 1),
        ]


@rows(
    ("line", "text"),
    [(b"a\r\n", b"a"), (b"a\r\r\n", b"a\r"), (b"\ra\r\n", b"\ra"), (b"a\n", b"a"), (b"a \r\n", b"a "), (b"a\r", b"a")],
)
def test_one_carriage_return_is_dropped(line: bytes, text: bytes) -> None:
    assert frames_of([line], 100) == [Frame(text, 1, 0)]


@rows("data", [b"", b"\n", b"\r\n", b" \t\n\n", b"\r\r\n", b" ", BOM, BOM + b"\n", b"\n\n\n"])
def test_blank(data: bytes) -> None:
    assert frames_of([data], 100) == []
    assert frames_of([data[at : at + 1] for at in range(len(data))], 100) == []


class TestByteOrderMark:
    @rows("size", [1, 2, 3, 4, 100])
    def test_at_the_start(self, size: int) -> None:
        data = BOM + b"ab\ncd\n"
        chunks = [data[at : at + size] for at in range(0, len(data), size)]
        assert frames_of(chunks, 100) == [Frame(b"ab", 1, 3), Frame(b"cd", 2, 6)]

    def test_elsewhere_it_is_data(self) -> None:
        assert frames_of([b"\n" + BOM + b"a\n"], 100) == [Frame(BOM + b"a", 2, 1)]
        assert frames_of([b" " + BOM], 100) == [Frame(b" " + BOM, 1, 0)]
        assert frames_of([BOM + BOM + b"a"], 100) == [Frame(BOM + b"a", 1, 3)]

    @rows("part", [b"\xef", b"\xef\xbb"])
    def test_a_part_of_it_is_data(self, part: bytes) -> None:
        assert frames_of([part], 100) == [Frame(part, 1, 0)]
        assert frames_of([part, b"\n"], 100) == [Frame(part, 1, 0)]
        assert frames_of([part, b"a\n"], 100) == [Frame(part + b"a", 1, 0)]

    def test_it_does_not_count_towards_the_limit(self) -> None:
        assert frames_of([BOM, b"abcde\r\n"], 5) == [Frame(b"abcde", 1, 3)]
        assert frames_of([BOM + b"abcdef\n"], 5) == [too_large(1, 3, b"abcde")]

    @rows("part", [b"\xef\xbb", b"\xef\xbb\n", b"\xef\xbb\r\n"])
    def test_a_part_of_it_over_the_limit(self, part: bytes) -> None:
        assert frames_of([part], 1) == [too_large(1, 0, b"\xef")]


class TestLimit:
    @pytest.mark.parametrize("end", [b"\n", b"\r\n", b"", b"\r"])
    @rows("size", [1, 2, 3, 100])
    def test_bound(self, end: bytes, size: int) -> None:
        def chunks(data: bytes) -> list[bytes]:
            return [data[at : at + size] for at in range(0, len(data), size)]

        assert frames_of(chunks(b"abcde" + end), 5) == [Frame(b"abcde", 1, 0)]
        assert frames_of(chunks(b"abcdef" + end), 5) == [too_large(1, 0, b"abcde")]
        expected = too_large(1, 0, b"abcde") if end.startswith(b"\r") else Frame(b"abcde", 1, 0)
        assert frames_of(chunks(b"abcde\r" + end), 5) == [expected]

    def test_reported_at_once_and_only_once(self) -> None:
        splitter = LineFrames(5, b"\n")
        assert splitter.feed(b"abcde") == []
        assert splitter.feed(b"\r") == []
        assert splitter.feed(b"f") == [too_large(1, 0, b"abcde")]
        assert splitter.feed(1000 * b"g") == []
        assert splitter.feed(b"\r\nabc\n") == [Frame(b"abc", 2, 1009)]
        assert splitter.close() == []

    def test_the_end_inside_a_dropped_line(self) -> None:
        splitter = LineFrames(5, b"\n")
        assert splitter.feed(b"abcdef") == [too_large(1, 0, b"abcde")]
        assert splitter.close() == []

    def test_space_counts(self) -> None:
        assert frames_of([b"     \n      \na\n"], 5) == [too_large(2, 6, b"     "), Frame(b"a", 3, 13)]


@given(pieces=PIECES, sizes=CUTS, limit=st.integers(1, 12))
def test_any_chunking(pieces: list[bytes], sizes: list[int], limit: int) -> None:
    data = b"".join(pieces)
    expected = expected_frames(data, limit)
    assert frames_of(cut(data, sizes), limit) == expected
    assert frames_of([data[at : at + 1] for at in range(len(data))], limit) == expected
    assert frames_of([data], limit) == expected


@given(pieces=PIECES, sizes=CUTS)
def test_empty_chunks_change_nothing(pieces: list[bytes], sizes: list[int]) -> None:
    data = b"".join(pieces)
    chunks = [each for chunk in cut(data, sizes) for each in (b"", chunk, b"")]
    assert frames_of(chunks, 8) == expected_frames(data, 8)


@rows("data", [bytearray(b"a\nb"), memoryview(b"a\nb"), memoryview(b"a_\n_b_")[::2]])
def test_types(data: bytes) -> None:
    splitter = LineFrames(5, b"\n")
    assert splitter.feed(data) == [Frame(b"a", 1, 0)]
    assert splitter.close() == [Frame(b"b", 2, 2)]


def test_a_fed_buffer_may_be_used_again() -> None:
    splitter = LineFrames(5, b"\n")
    buffer = bytearray(b"abc")
    splitter.feed(buffer)
    buffer[:] = b"\nx\n"
    assert splitter.feed(buffer) == [Frame(b"abc", 1, 0), Frame(b"x", 2, 4)]


@rows("chunk", [b"x" * 65536, b"x\r" * 32768, b"x" * 65535 + b"\r"])
def test_memory_has_a_bound(chunk: bytes) -> None:
    splitter = LineFrames(100_000, b"\n")
    with measured() as memory:
        reported = [frame for _ in range(200) for frame in splitter.feed(chunk)]
    assert reported == [too_large(1, 0, (2 * chunk)[:1024])]
    assert memory.peak < 600_000
    assert splitter.feed(b"\na\n") == [Frame(b"a", 2, 200 * 65536 + 1)]


class TestFrame:
    def test_newline(self) -> None:
        payload = b"{}\n"
        assert frame(payload) is payload
        assert frame(b"{}") == b"{}\n"
        assert frame(b"") == b""
        assert frame(b"\n") == b"\n"
        for wrong in (b"{\n}", b"{}\n\n", b"\n{}", b"\n{}\n"):
            with pytest.raises(ValueError, match=r"^payload must not contain a line break before its end$"):
                frame(wrong)

    def test_content_length(self) -> None:
        assert frame(b"{}", "content-length") == b"Content-Length: 2\r\n\r\n{}"
        assert frame(b"{}\n", "content-length") == b"Content-Length: 2\r\n\r\n{}"
        assert frame(b"{\n}\n", "content-length") == b"Content-Length: 3\r\n\r\n{\n}"
        assert frame('"\u00e9"'.encode(), "content-length") == b'Content-Length: 4\r\n\r\n"\xc3\xa9"'
        assert frame(b"", "content-length") == frame(b"\n", "content-length") == b""

    def test_sse(self) -> None:
        assert frame(b"{}", "sse") == frame(b"{}\n", "sse") == b"data: {}\n\n"
        assert frame(b"{\n}\n", "sse") == b"data: {\ndata: }\n\n"
        assert frame(b"", "sse") == b""

    @rows("framing", ["auto", "lines", None])
    def test_wrong_framing(self, framing: Any) -> None:
        with pytest.raises(ValueError, match=f"^framing must be one of {', '.join(STREAM_FRAMINGS)}$"):
            frame(b"{}", framing)

    @rows("framing", STREAM_FRAMINGS)
    def test_buffers(self, framing: Any) -> None:
        """They are copied in full, whatever their shape, so that a frame does not change with them."""
        line = bytearray(b"{}\n")
        shapes = [line, memoryview(line), memoryview(b"{.}.\n.")[::2], memoryview(b"{}\n").cast("c")]
        found = [frame(shape, framing) for shape in shapes]
        line[:] = b"[]\n"
        assert found == [frame(b"{}\n", framing)] * 4
        for wrong in ("{}", 2, None, [123, 125]):
            with pytest.raises(TypeError, match="bytes-like"):
                frame(wrong, framing)  # type: ignore[arg-type]

    @rows("framing", STREAM_FRAMINGS)
    def test_frames_read_back(self, framing: Any) -> None:
        texts = [b"{}", b'{"a":"\xe2\x80\xa8"}', b"1", b"[" + 1000 * b" " + b"]"]
        splitter = frames_splitter(framing, 2000)
        data = b"".join([frame(text, framing) for text in texts])
        assert [found.text for found in splitter.feed(data)] == texts
        assert splitter.close() == []


class TestTable:
    """Each framing is known everywhere; a new row fails here until it is."""

    def test_names(self) -> None:
        assert tuple(FRAMINGS) == (*STREAM_FRAMINGS, "auto") == get_args(Framing)
        assert all(row.help for row in FRAMINGS.values())

    def test_readers(self) -> None:
        """Each has one, which reads its own frames."""
        for framing in STREAM_FRAMINGS:
            assert [found.text for found in frames_splitter(framing, 100).feed(frame(b"{}", framing))] == [b"{}"]

    @pytest.mark.skipif(BACKEND != "cython", reason="the core is not in use")
    def test_readers_of_the_core(self) -> None:
        from jsonrpc_fast.codec import _core

        assert tuple(_core.READERS) == STREAM_FRAMINGS
        for framing in STREAM_FRAMINGS:
            assert type(_core.Decoder(framing)._frames) is _core.READERS[framing]

    @pytest.mark.slow
    @pytest.mark.skipif(BACKEND != "cython", reason="the core is not in use")
    def test_the_core_reads_each_at_the_speed_of_lines(self) -> None:
        """64 KB of small messages. Server-sent events have several lines for each message."""
        for body in (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"%b"}}' % (b"a" * size) for size in (1, 270)):
            framings = [framing for framing in STREAM_FRAMINGS if framing != "sse"]

            def seconds(framing: StreamFraming, body: bytes = body) -> float:
                data = frame(body, framing) * (65536 // len(body))
                return thread_seconds(lambda: Decoder(framing).feed(data))

            lines, *others = min_seconds(*[partial(seconds, framing) for framing in framings], rounds=30)
            ratios = dict(zip(framings[1:], [other / lines for other in others], strict=True))
            assert max(ratios.values()) < 1.4, ratios

    def test_fuzz_targets_and_help(self) -> None:
        from tools import sanitized

        if find_spec("jsonrpc_fast.codec._core") is None:
            pytest.skip("the targets of the fuzzers need the core")
        from ..fuzz.codec_targets import TARGETS

        docstring = inspect.getdoc(Decoder) or ""
        page = (ROOT / "docs" / "codec.md").read_text(encoding="utf-8")
        for framing in STREAM_FRAMINGS:
            assert f"decoder-{framing}" in TARGETS
            assert f"decoder-{framing}" in sanitized.TARGETS
        for name in FRAMINGS:
            assert f'"{name}"' in docstring, "name it in the docstring of codec/_stream.py"
            assert f'`"{name}"`' in page, "name it in docs/codec.md"


class TestDelimiters:
    @rows("framing", DELIMITED)
    def test_frames(self, framing: Any) -> None:
        """Line breaks are space, and frames have no line numbers."""
        end = FRAMINGS[framing].delimiter
        data = BOM + b"{\n}" + end + b"\n" + end + b" a\r" + end + b"\n\n" + end + b"b\n"
        for chunks in ([data], bytewise(data)):
            splitter = frames_splitter(framing, 100)
            found = [each for chunk in chunks for each in splitter.feed(chunk)]
            assert found == [Frame(b"{\n}", None, 3), Frame(b" a", None, 9)]
            assert splitter.close() == [Frame(b"b\n", None, 16)]

    @rows("framing", DELIMITED)
    def test_a_payload_with_the_delimiter_is_refused(self, framing: Any) -> None:
        with pytest.raises(ValueError, match=r"^payload must not contain the byte that ends a message$"):
            frame(b"a" + FRAMINGS[framing].delimiter + b"b", framing)
        assert frame(b"{\n}\n", framing) == b"{\n}" + FRAMINGS[framing].delimiter
        assert frame(b"", framing) == frame(b"\n", framing) == b""


class TestFrameReader:
    @rows("framing", STREAM_FRAMINGS)
    def test_frames(self, framing: Any) -> None:
        """What they hold does not matter."""
        texts = [b'{"seq":1,"type":"request","command":"threads"}', b"1"]
        data = b"".join([frame(text, framing) for text in texts])
        for chunks in ([data], bytewise(data)):
            reader = FrameReader(framing)
            found = [frame for chunk in chunks for frame in reader.feed(chunk)]
            assert [frame.text for frame in found + reader.close()] == texts
            assert (reader.framing, reader.ended) == (framing, False)

    def test_detection(self) -> None:
        for framing in ("newline", "content-length"):
            data = frame(b"{}", framing)
            reader = FrameReader("auto")
            assert reader.framing == "auto"
            assert [found.text for chunk in bytewise(data) for found in reader.feed(chunk)] == [b"{}"]
            assert reader.framing == framing
        assert FrameReader("auto").close() == []
        undecided = FrameReader("auto")
        assert undecided.feed(b"Content-") == []
        assert [found.text for found in undecided.close()] == [b"Content-"]

    def test_faults(self) -> None:
        reader = FrameReader("content-length", 3)
        assert [found.fault for found in reader.feed(frame(b"abcd", "content-length"))] == [
            ParseErrorCode.MESSAGE_TOO_LARGE
        ]
        assert [found.fault for found in reader.feed(b"x\n")] == [ParseErrorCode.INVALID_FRAMING]
        assert reader.ended
        assert reader.feed(frame(b"a", "content-length")) == reader.close() == reader.close() == []
        resyncing = FrameReader("content-length", resync=True)
        found = resyncing.feed(b"x\n" + frame(b"a", "content-length"))
        assert [(each.text, each.skipped) for each in found] == [(None, 2), (b"a", 0)]

    def test_wrong_arguments(self) -> None:
        with pytest.raises(ValueError, match=f"^framing must be one of {', '.join(FRAMINGS)}$"):
            FrameReader("lines")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"^message_bytes must be "):
            FrameReader(message_bytes=0)
        with pytest.raises(TypeError, match=r"^data must be bytes, bytearray or memoryview, not str$"):
            FrameReader().feed("{}")  # type: ignore[arg-type]
        reader = FrameReader()
        assert [found.text for found in reader.feed(b"a\nb")] == [b"a"]
        assert [found.text for found in reader.close()] == [b"b"]
        with pytest.raises(ValueError, match=r"^the reader is closed$"):
            reader.feed(b"")
