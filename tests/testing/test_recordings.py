"""Recorded conversations: what is written for a message, and what is read from a line."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import Raw
from jsonrpc_fast.testing import recordings
from jsonrpc_fast.testing.recordings import Recorded, read_recording, record_line

from ..support.tables import rows

REQUEST = b'{"jsonrpc":"2.0","id":12345678901234567890123,"method":"add","params":[1.0,2]}'


def test_a_line() -> None:
    line = record_line(REQUEST, "client", time=1.5, connection=3)
    assert line == b'{"time":1.500000,"connection":3,"from":"client","message":' + REQUEST + b"}\n"
    assert list(read_recording(io.BytesIO(b"\n" + line + b" \n"))) == [Recorded(1.5, "client", Raw(REQUEST), 3, 2)]


def test_line_breaks_and_what_is_no_json() -> None:
    assert record_line(b'{\r\n "a": "\\n"}', "server", time=0).endswith(b'"message":{   "a": "\\n"}}\n')
    line = record_line(b'a\n"\xff', "server", time=0)
    assert line == b'{"time":0.000000,"connection":1,"from":"server","invalid":"a\\n\\"\\ufffd"}\n'
    assert list(read_recording(io.BytesIO(line))) == [Recorded(0, "server", None, 1, 1)]


@given(st.binary())
def test_any_bytes_are_one_line(text: bytes) -> None:
    line = record_line(text, "client", time=1)
    assert line.index(b"\n") == len(line) - 1
    assert len(list(read_recording(io.BytesIO(line)))) == 1


@rows(
    "line",
    [
        b"not json",
        b"[]",
        b"{}",
        b'{"time":0,"connection":1,"from":"client"}',
        b'{"time":0,"connection":1,"from":"client","invalid":1}',
        b'{"time":0,"connection":1,"from":"client","invalid":"","message":{}}',
        b'{"time":"0","connection":1,"from":"client","message":{}}',
        b'{"time":1' + b"0" * 400 + b',"connection":1,"from":"client","message":{}}',
        b'{"time":0,"connection":true,"from":"client","message":{}}',
        b'{"time":0,"connection":1,"from":[],"message":{}}',
        b'{"time":0,"connection":1,"from":"peer","message":{}}',
    ],
)
def test_other_lines(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"^line 2 is not a line of a recording$"):
        list(read_recording(io.BytesIO(b"\n" + line + b"\n")))


def test_a_line_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "MAX_LINE_BYTES", 100)
    with pytest.raises(ValueError, match=r"^line 1 of the recording is longer than 100 bytes$"):
        list(read_recording(io.BytesIO(b" " * 101)))
