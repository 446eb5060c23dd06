"""Hints for the bytes of a faulty stream."""

from __future__ import annotations

import json
from itertools import chain
from types import ModuleType

from hypothesis import example, given
from hypothesis import strategies as st

from jsonrpc_fast.codes import Hint
from jsonrpc_fast.framing.hints import LOOKED_AT_BYTES, hint_of_header, hint_of_line, looks_like

from ..support.tables import rows

LOOKS = [
    (b'{"jsonrpc":"2.0"}', "NEWLINE_FRAMING"),
    (b"{", "NEWLINE_FRAMING"),
    (b"[", "NEWLINE_FRAMING"),
    (b"[]", "NEWLINE_FRAMING"),
    (b" \t[ {", "NEWLINE_FRAMING"),
    (b"\xef\xbb\xbf{", "NEWLINE_FRAMING"),
    (b"Content-Length: 5", "CONTENT_LENGTH_FRAMING"),
    (b"content-length:5\r", "CONTENT_LENGTH_FRAMING"),
    (b"CONTENT-TYPE : x", "CONTENT_LENGTH_FRAMING"),
    (b"data: {}", "SSE_FRAMING"),
    (b"event:message", "SSE_FRAMING"),
    (b"id:", "SSE_FRAMING"),
    (b"retry: 5", "SSE_FRAMING"),
    (b"HTTP/1.1 400 Bad Request\r", "HTTP"),
    (b"<!DOCTYPE HTML>", "HTTP"),
    (b"<html>", "HTTP"),
    (b"<p>", "PRINTED_TEXT"),
    (b"HTTP/", "PRINTED_TEXT"),
    (b"HTTP/server ready", "PRINTED_TEXT"),
    (b"\x15\x03\x03\x00\x02\x02\x46", "TLS"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
    (b"\x17\x03", None),
    (b"database ready", "PRINTED_TEXT"),
    (b"[INFO] started", "PRINTED_TEXT"),
    (b"[2026-11-21 10:00:00] started", "PRINTED_TEXT"),
    (b"2026-11-21 10:00:00 started", "PRINTED_TEXT"),
    (b"INFO:root:started", "PRINTED_TEXT"),
    (b"\x1b[31mred\x1b[0m", "PRINTED_TEXT"),
    ("\u2713 ready".encode(), "PRINTED_TEXT"),
    (b"d\xe9marr\xe9", "PRINTED_TEXT"),
    (b"    at main.js:3", "PRINTED_TEXT"),
    (b"", None),
    (b" \r\n", None),
    (b"\x1f\x8b\x08gzip", None),
    (b"\xff\xfe{\x00", None),
    (b"text\x00", None),
]


@rows(("text", "expected"), LOOKS)
def test_looks_like(text: bytes, expected: str | None) -> None:
    assert looks_like(text) is (None if expected is None else Hint[expected])


def test_where_json_was_expected() -> None:
    assert hint_of_line(b"{]") is None
    assert hint_of_line(b"[1") is Hint.PRINTED_TEXT
    assert hint_of_line(b"Content-Length: 5") is Hint.CONTENT_LENGTH_FRAMING
    assert hint_of_line(b"data: {}") is Hint.SSE_FRAMING
    assert hint_of_line(b'print("{}")') is Hint.PRINTED_TEXT


def test_where_a_header_was_expected() -> None:
    assert hint_of_header(b"{}") is Hint.NEWLINE_FRAMING
    assert hint_of_header(b"Content-Length : 5") is None
    assert hint_of_header(b"started, listening") is Hint.PRINTED_TEXT
    for tail in (b'"2.0"}', b"}", b"]", b',"id":1}', b'ethod":"m"}Content-Length: 5', b'o"}}', b":1}"):
        assert hint_of_header(tail) is Hint.LENGTH_TOO_SMALL
    assert hint_of_header(b"\x00\x01") is None


@given(st.binary(max_size=200))
def test_only_the_beginning_counts(text: bytes) -> None:
    assert looks_like(text) is looks_like(text[:LOOKED_AT_BYTES])
    assert hint_of_line(text) is hint_of_line(text[:LOOKED_AT_BYTES])
    assert hint_of_header(text) is hint_of_header(text[:LOOKED_AT_BYTES])


PARTS = [b"content-length", b"Content-TYPE", b"content\rlength", b"data", b"event", b"id", b"retry", b"printed"]
PARTS += [b":", b" ", b"\t", b"\x0b", b"\x1b", b"\x00", b"\x7f", b"\xff", b"\xef\xbb\xbf", b"c", b"C", 30 * b"x"]
PARTS += [b"[", b"{", b"]", b"}", b'"', b"HTTP/", b"1", b"\x15", b"\x16", b"\x03", b"<!DOCtype", b"<html"]


@given(text=st.lists(st.sampled_from(PARTS), max_size=6).map(b"".join))
@example(text=b"[1]")
def test_hints_for_lines_in_a_stream(impl: ModuleType, text: bytes) -> None:
    items = impl.Decoder().feed(b"1\n" + text + b"\n")[1:]
    for item in chain.from_iterable(item if type(item) is list else [item] for item in items):
        is_of_text = item.code.name in ("MALFORMED_JSON", "INVALID_UTF8")
        expected = hint_of_line(text.removesuffix(b"\r")) if is_of_text else None
        if item.hint is Hint.SEVERAL_MESSAGES:
            assert type(json.loads(text[: item.offset])) is not list
            assert expected is None
        else:
            assert item.hint is expected
        assert str(item) == item.message == item.args[0]
