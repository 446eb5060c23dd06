"""The framing "concatenated": JSON values with any spacing, with the same frames for any chunking."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.codes import ParseErrorCode
from jsonrpc_fast.framing.concatenated import ConcatenatedFrames
from jsonrpc_fast.framing.frames import Frame, frame
from jsonrpc_fast.profile import HEAD_BYTES, JSONRPC, Limits

from ..fuzz.mutate import mutants
from ..support.chunks import bytewise, cut
from ..support.describe import describe, request, text_fault
from ..support.memory import measured
from ..support.tables import rows
from ..support.timing import min_seconds, thread_seconds

BOM = b"\xef\xbb\xbf"
ONE = b'{"jsonrpc":"2.0","id":1,"method":"m"}'
REQUEST = request(1, "m")


def frames_of(chunks: list[bytes], limit: int = 1000) -> list[Frame]:
    frames = ConcatenatedFrames(limit, has_marks=False)
    return [found for chunk in chunks for found in frames.feed(chunk)] + frames.close()


def reference(data: bytes, limit: int = 1000) -> list[Frame]:
    """The rules, byte by byte."""
    found: list[Frame] = []
    start = 3 if data.startswith(BOM) else 0
    text = b""
    place, depth, begin, previous = "between", 0, 0, 0
    for at in range(start, len(data) + 1):
        byte = data[at] if at < len(data) else -1
        if place == "other" and (byte == -1 or byte in b"\n{["):
            found.append(
                Frame(text.rstrip(b" \t\r"), None, begin) if len(text) <= limit else too_large(text, begin, limit)
            )
            place = "between"
        if byte == -1:
            break
        if place == "lost":
            if previous != 0x0A or byte not in b"{[":
                previous = byte
                continue
            place = "between"
        previous = byte
        if place == "between":
            if byte in b" \t\r\n":
                continue
            begin, text = at, data[at : at + 1]
            depth = 1
            place = "value" if byte in b"{[" else "top string" if byte in b'"' else "other"
            continue
        text += data[at : at + 1]
        ends = False
        if place.endswith("escape") and byte >= 0x20:
            place = place.removesuffix(" escape")
        elif "string" in place:
            place = place.removesuffix(" escape")
            if byte < 0x20:
                place, ends = "lost", True
            elif byte in b"\\":
                place += " escape"
            elif byte in b'"':
                ends = place == "top string"
                place = "between" if ends else "value"
        elif place == "value":
            depth += (byte in b"{[") - (byte in b"}]")
            ends = depth == 0
            place = "between" if ends else "string" if byte in b'"' else "value"
        if ends:
            found.append(Frame(text, None, begin) if len(text) <= limit else too_large(text, begin, limit))
    if place not in ("between", "lost"):
        found.append(Frame(text, None, begin) if len(text) <= limit else too_large(text, begin, limit))
    return found


def too_large(text: bytes, begin: int, limit: int) -> Frame:
    return Frame(text[: min(limit, HEAD_BYTES)], None, begin, ParseErrorCode.MESSAGE_TOO_LARGE)


@rows(
    ("data", "expected"),
    [
        (b"", []),
        (b" \r\n\t ", []),
        (b"{}{}", [(b"{}", 0), (b"{}", 2)]),
        (b"{}\n\n[]\r\n {}", [(b"{}", 0), (b"[]", 4), (b"{}", 9)]),
        (b'{\n  "a": [1, {"b": "}]\\"{"}]\n}\n[{}]', [(b'{\n  "a": [1, {"b": "}]\\"{"}]\n}', 0), (b"[{}]", 31)]),
        (b'{"a":"\\\\"}{"b":"\\\\\\""}', [(b'{"a":"\\\\"}', 0), (b'{"b":"\\\\\\""}', 10)]),
        (BOM + b"{}", [(b"{}", 3)]),
        (b"{}" + BOM + b"{}", [(b"{}", 0), (BOM, 2), (b"{}", 5)]),
        (BOM[:2], [(BOM[:2], 0)]),
        (BOM[:1] + b"{}", [(BOM[:1], 0), (b"{}", 1)]),
        (b"started up\r\n{}", [(b"started up", 0), (b"{}", 12)]),
        (b"started {} up", [(b"started", 0), (b"{}", 8), (b"up", 11)]),
        (b'1 "[]', [(b'1 "', 0), (b"[]", 3)]),
        (b'"{\\"}" []', [(b'"{\\"}"', 0), (b"[]", 7)]),
        (b"{}}{}", [(b"{}", 0), (b"}", 2), (b"{}", 3)]),
        (b"{]{}", [(b"{]", 0), (b"{}", 2)]),
        (b"[{]}", [(b"[{]}", 0)]),
        (b'{"a":1', [(b'{"a":1', 0)]),
        (b'{"a', [(b'{"a', 0)]),
        # A control character in a string: the rest of the line may be part of the malformed value.
        (b'{"a":"b\n{}', [(b'{"a":"b\n', 0), (b"{}", 8)]),
        (b'{"a":"b\n {}\n{}', [(b'{"a":"b\n', 0), (b"{}", 12)]),
        (b'{"a":"b\x00{}{}\n[]', [(b'{"a":"b\x00', 0), (b"[]", 13)]),
        (b'{"a":"b\\\n{}', [(b'{"a":"b\\\n', 0), (b"{}", 9)]),
        (b'{"a":"b\n', [(b'{"a":"b\n', 0)]),
    ],
)
def test_frames(data: bytes, expected: list[tuple[bytes, int]]) -> None:
    found = [Frame(text, None, offset) for text, offset in expected]
    assert reference(data) == found
    assert frames_of([data]) == found
    assert frames_of(bytewise(data)) == found
    for at in range(len(data)):
        assert frames_of([data[:at], data[at:]]) == found


SOUP = st.lists(
    st.sampled_from(
        [b"{", b"}", b"[", b"]", b'"', b"\\", b"\n", b" ", b"\r", b"\x00", b"a", b"{}", b'{"a":1}', b"\xff"]
    ),
    max_size=40,
).map(b"".join)


@given(
    data=st.one_of(SOUP, SOUP.map(BOM.__add__), mutants()), sizes=st.lists(st.integers(0, 9)), limit=st.integers(1, 30)
)
def test_any_chunking_gives_the_frames_of_the_rules(data: bytes, sizes: list[int], limit: int) -> None:
    expected = reference(data, limit)
    assert frames_of([data], limit) == expected
    assert frames_of(bytewise(data), limit) == expected
    assert frames_of(cut(data, sizes), limit) == expected


@given(
    data=st.one_of(SOUP, SOUP.map(BOM.__add__), mutants()), sizes=st.lists(st.integers(0, 9)), limit=st.integers(1, 30)
)
def test_both_decoders_give_the_items_of_the_frames(
    impl: ModuleType, data: bytes, sizes: list[int], limit: int
) -> None:
    """The last item may be TRUNCATED, which the frame does not show."""
    profile = JSONRPC.replace(limits=Limits(message_bytes=limit))
    expected = [
        describe(impl.decode(found.text + b" " if found.fault else found.text, profile))  # the text is over the limit
        for found in reference(data, limit)
    ]
    for chunks in ([data], bytewise(data), cut(data, sizes)):
        for maximum in (None, 1, 2):
            decoder = impl.Decoder("concatenated", profile)
            items = [item for chunk in chunks for item in decoder.feed(chunk, maximum)]
            items = [describe(item) for item in items + decoder.close()]
            assert len(items) == len(expected)
            assert items[:-1] == expected[:-1]


WHOLE = st.lists(
    st.sampled_from(
        [
            ONE,
            b'{"jsonrpc":"2.0","method":"m","params":{"a":[1,{"b":"}\\"\xe4\xb8\xad"}]}}',
            b'{"jsonrpc":"2.0",\n "id":1,\n "result":{\n }\n}',
            b'{"jsonrpc":"2.0","id":1,"result":null,"error":null}',
            b'{"jsonrpc":"2.0","id":1,"result":"\n{"}',
            b'{"jsonrpc":"2.0","id":1,"result":"\x1e"}',
            b'{"jsonrpc":"2.0","id":1,"result":2',
            b'[{"jsonrpc":"2.0","id":1,"method":"a"},{}]',
            *[b"\x1e", b"\n", b"\n", b"\r\n", b" ", b"{", b"}", b'"', b"x"],
        ]
    ),
    max_size=12,
).map(b"".join)


@given(data=WHOLE, sizes=st.lists(st.integers(0, 90)), limit=st.sampled_from([37, 60, 1000]))
def test_whole_messages_on_lines_or_not(impl: ModuleType, data: bytes, sizes: list[int], limit: int) -> None:
    """The core reads them on another path."""
    profile = JSONRPC.replace(limits=Limits(message_bytes=limit))
    for framing, has_marks in (("concatenated", False), ("json-seq", True)):
        frames = ConcatenatedFrames(limit, has_marks=has_marks)
        expected = [
            describe(impl.decode(found.text + b" " * limit if found.fault else found.text, profile))
            for found in frames.feed(data)
        ]
        for chunks in ([data], cut(data, sizes)):
            for maximum in (None, 1):
                decoder = impl.Decoder(framing, profile)
                items = [item for chunk in chunks for item in decoder.feed(chunk, maximum)]
                while decoder.has_more:
                    items += decoder.feed(b"", 1)
                assert [describe(item) for item in items] == expected


def test_a_value_over_the_limit_is_reported_at_once_and_the_next_is_read() -> None:
    frames = ConcatenatedFrames(5, has_marks=False)
    assert frames.feed(b' {"a":') == []
    assert frames.feed(b'"') == [Frame(b'{"a":', None, 1, ParseErrorCode.MESSAGE_TOO_LARGE)]
    assert frames.feed(b'}}}{{{"') == []
    assert frames.feed(b"}[1]\n") == [Frame(b"[1]", None, 15)]
    assert frames.close() == []


@pytest.mark.slow
@rows(
    "piece",
    [
        b"[",
        b"]",
        b"{}",
        b'"',
        b'\\"',
        b"\\\\",
        b"a",
        b"\n",
        b'"\n',
        b'{"a":1}',
        b"1,",
        b'"a"',
        b'{"\x00',
        b'"\\',
        b'["',
    ],
    ids=repr,
)
@rows("head", [b"", b"[", b'["', b'{"a":"\n'], ids=repr)
def test_hostile_texts_take_linear_time(head: bytes, piece: bytes) -> None:
    def seconds(size: int) -> float:
        data = head + piece * (size // len(piece))
        return thread_seconds(lambda: ConcatenatedFrames(1_000_000, has_marks=False).feed(data))

    short, long = min_seconds(lambda: seconds(10_000), lambda: seconds(80_000))
    assert long < 8 * 4 * short + 0.01


@pytest.mark.ci
def test_memory_is_bounded() -> None:
    frames = ConcatenatedFrames(10_000, has_marks=False)
    chunk = b'"a":[{},' * 8_000
    frames.feed(b"{")
    with measured() as memory:
        for _ in range(3):
            frames.feed(chunk)
    assert memory.peak < 500_000


class TestDecoder:
    def test_a_message_is_returned_with_its_last_byte(self, impl: ModuleType) -> None:
        decoder = impl.Decoder("concatenated")
        assert decoder.feed(ONE[:-1]) == []
        assert [describe(item) for item in decoder.feed(ONE[-1:])] == [REQUEST]

    def test_faults_and_the_messages_after_them(self, impl: ModuleType) -> None:
        decoder = impl.Decoder("concatenated", limits=Limits(message_bytes=60))
        data = (
            b'{"a":nul}'
            + ONE
            + b"{]"
            + ONE
            + b"["
            + b" " * 60
            + b"]"
            + ONE
            + b'{"a":"\n'
            + ONE
            + b"1"
            + ONE
            + b"["
            + ONE
        )
        assert [describe(item) for item in decoder.feed(data)] == [
            text_fault("MALFORMED_JSON", 8),
            REQUEST,
            text_fault("MALFORMED_JSON", 1),
            REQUEST,
            ("ParseError", "MESSAGE_TOO_LARGE", -32600, None, None, None, True),
            REQUEST,
            text_fault("MALFORMED_JSON", 6),
            REQUEST,
            ("ParseError", "NOT_AN_OBJECT", -32600, None, None, None, True),
            REQUEST,
        ]
        assert [describe(item) for item in decoder.close()] == [text_fault("TRUNCATED", 38)]
        assert decoder.framing == "concatenated"
        assert not decoder.ended


def test_written_frames() -> None:
    assert frame(ONE, "concatenated") == frame(ONE + b"\n", "concatenated") == ONE + b"\n"
    assert frame(b"", "concatenated") == b""
    assert frame(b"{\n}", "concatenated") == b"{\n}\n"


def test_go_ethereum_scripts(impl: ModuleType, corpora: Path) -> None:
    """Its codec reads values without delimiters: the same messages, with nothing between them, and indented."""
    scripts = corpora / "outside" / "geth_scripts.ndjson"
    if not scripts.is_file():
        pytest.skip("the corpora beside the repository have no such file")
    records = [json.loads(line) for line in scripts.read_bytes().split(b"\n") if line]
    texts = [text.encode() for record in records for _, text in record["steps"] if text[:1] in "[{"]
    assert len(texts) > 50
    expected = [describe(impl.decode(text)) for text in texts]
    for data in (b"".join(texts), b"".join([json.dumps(json.loads(text), indent=2).encode() for text in texts])):
        decoder = impl.Decoder("concatenated")
        found = decoder.feed(data[:777]) + decoder.feed(data[777:]) + decoder.close()
        assert [describe(item) for item in found] == expected


class TestSequences:
    """The framing "json-seq" (RFC 7464)."""

    def frames(self, chunks: list[bytes], limit: int = 100) -> list[Frame]:
        splitter = ConcatenatedFrames(limit, has_marks=True)
        found = [each for chunk in chunks for each in splitter.feed(chunk)]
        return found + splitter.close()

    @rows(
        ("data", "texts"),
        [
            (b"\x1e{}\n\x1e[1]\n", [b"{}", b"[1]"]),
            (b'\x1e{\n"a":1\n}\n', [b'{\n"a":1\n}']),
            (b"\x1e\x1e \x1e{}", [b"{}"]),
            (b"{}\n[]", [b"{}", b"[]"]),  # without the byte
            (b'\x1e{"a":\n\x1e{}\n', [b'{"a":\n', b"{}"]),  # cut off
            (b'\x1e{"a\x1e{}\n', [b'{"a', b"{}"]),
            (b'\x1e{"a\\\x1e{}\n', [b'{"a\\', b"{}"]),
            (b'\x1e"a\n{}\n\x1e{}', [b'"a\n', b"{}"]),  # malformed: up to the next byte, not to the next line
            (b"\x1eabc \x1e{}", [b"abc", b"{}"]),
            (b"\x1e1\n\x1e2\n", [b"1", b"2"]),
        ],
    )
    def test_texts(self, data: bytes, texts: list[bytes]) -> None:
        assert [found.text for found in self.frames([data])] == texts
        assert self.frames(bytewise(data)) == self.frames([data])

    @given(
        pieces=st.lists(st.sampled_from([b"\x1e", b"{", b"}", b'"', b"a", b"\n", b"\\", b"[", b"]", b" ", b"{}"])),
        sizes=st.lists(st.integers(1, 8), max_size=40),
        limit=st.integers(1, 9),
    )
    def test_any_chunking(self, pieces: list[bytes], sizes: list[int], limit: int) -> None:
        data = b"".join(pieces)
        expected = self.frames([data], limit)
        assert self.frames(cut(data, sizes), limit) == self.frames(bytewise(data), limit) == expected
