"""The substitute for orjson, compared with orjson, and the codec without orjson."""

from __future__ import annotations

import datetime
import json
import random
import subprocess
import sys
from typing import Any

import pytest

from jsonrpc_fast.codec import _standard

from ..fuzz.engine_targets import OLD_ORJSON, Point, Slotted, found_by, standard
from ..fuzz.target import Finding
from ..support.command_line import environment
from ..support.oracle import loads_exact
from ..support.tables import rows

orjson = pytest.importorskip("orjson")

TEXTS = [
    *(b"", b" ", b"1", b" -0 ", b"-0.0", b"01", b"1.", b"-", b"+1", b"1e5", b"1E+5", b"1e400", b"-1e400", b"1e-400"),
    *(b"0e999", b"1" * 19, b"1" * 20, b"1" * 309, b"1" * 310, b"9" * 5000, b"18446744073709551615"),
    *(b"18446744073709551616", b"-9223372036854775808", b"-9223372036854775809", b"NaN", b"Infinity", b"-Infinity"),
    *(b"true", b"tru", b"truee", b"null", b"[1,]", b"[,1]", b"[1 2]", b"[1]x", b"{}", b'{"a"}', b'{"a":}', b'{"a":1,}'),
    *(b"{1:2}", b'{"a":1,"b":2,"a":3}', b'"\\u00e9"', b'"\\ud83d\\ude00"', b'"\\ud83d"', b'"\\ude00"'),
    *(b'"\\ud83d\\u0041"', b'"\\\\ud800"', b'"\\u12"', b'"\\u 123"', b'"\\x"', b'"\x01"', b'"\x7f"', b'"\n"', b'"a'),
    *(
        b"\xff",
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf1",
        b"[\xc2\xa01]",
        b"\xd9\xa1",
        b"[" * 2000,
        b'{"a":' * 2000,
    ),
]


@rows("text", TEXTS)
def test_texts(text: bytes) -> None:
    expected = found_by(loads_exact, text)
    for data in (text, bytearray(text), memoryview(text)):
        assert found_by(_standard.loads, data) == expected
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        return
    assert found_by(_standard.loads, decoded) == expected
    if b"\\" not in text:  # escapes are checked afterwards
        assert found_by(_standard._read_in_steps, decoded) == expected


@rows("data", [None, 1, [b"1"], "\ud800", "[\udfff]", memoryview(b"1234")[::2]])
def test_what_is_no_text(data: Any) -> None:
    for loads in (orjson.loads, _standard.loads):
        with pytest.raises(json.JSONDecodeError):
            loads(data)


@rows(("around", "inside"), [(b"[%b]", b"1"), (b'{"a":%b}', b"[]"), (b"[1,%b,[]]", b"{}")])
def test_depth(around: bytes, inside: bytes) -> None:
    text = inside
    for depth in range(1, 1030):
        text = around % text
        if depth in (100, 1000) or depth > 1020:
            assert found_by(_standard.loads, text) == found_by(loads_exact, text), depth


def test_the_callers_stack_does_not_matter() -> None:
    def call(levels: int) -> Any:
        return call(levels - 1) if levels else _standard.loads(b"[" * 1024 + b"]" * 1024)

    assert len(call(sys.getrecursionlimit() // 2)) == 1


def test_an_error_does_not_hold_the_text() -> None:
    for text in (b'{"secret":1', b'"secret', b'"secret\xff"', b'["secret",1e999]'):
        with pytest.raises(json.JSONDecodeError) as caught:
            _standard.loads(text)
        assert caught.value.doc == ""
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__


def test_random_texts_and_values() -> None:
    rng = random.Random(27)
    for _ in range(3000):
        standard(b"\x01" + rng.randbytes(8))


def test_the_comparison_finds_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_standard, "dumps", lambda *_: b"0")
    with pytest.raises(Finding):
        test_random_texts_and_values()


@rows(
    "option", [0, orjson.OPT_NAIVE_UTC, orjson.OPT_UTC_Z, orjson.OPT_OMIT_MICROSECONDS, 4095 & ~(1 | 16 | 1024 | 512)]
)
@rows("seconds", [None, 0, 29, 30, -30, 3569, 3570, 3599, -3600, 19800, 86399, -86399])
def test_offsets(seconds: int | None, option: int) -> None:
    zone = None if seconds is None else datetime.timezone(datetime.timedelta(seconds=seconds))
    value = datetime.datetime(2026, 11, 23, 1, 2, 3, 45, tzinfo=zone)
    assert _standard.dumps(value, None, option) == orjson.dumps(value, None, option)


@rows("depth", [1, 253, 254, 255, 256, 1000])
def test_written_depth(depth: int) -> None:
    shapes: list[Any] = [0, 0, 0]
    for _ in range(depth):
        shapes = [[shapes[0]], {"a": shapes[1]}, Point(shapes[2])]
    if OLD_ORJSON and depth == 255:
        shapes.pop()  # the dataclass
    for value in shapes:
        for option in (0, orjson.OPT_SORT_KEYS, orjson.OPT_NON_STR_KEYS):
            arguments = (value, repr, option)
            assert found_by(_standard.dumps, *arguments) == found_by(orjson.dumps, *arguments)


@rows("calls", [1, 254, 255, 256, 300])
def test_calls_of_default(calls: int) -> None:
    def default(value: list[Any]) -> Any:
        left.append(value)
        return 1 if len(left) == calls else value

    for dumps in (_standard.dumps, orjson.dumps):
        left: list[Any] = []
        found = found_by(dumps, object(), default)
        assert found == (b"1" if calls < 256 else ("default serializer exceeds recursion limit", "None"))


@rows("option", [4096, -1, True, "1", 1.0])
def test_options_that_there_are_not(option: Any) -> None:
    for dumps in (_standard.dumps, orjson.dumps):
        with pytest.raises(TypeError, match=r"^Invalid opts$"):
            dumps(1, None, option)


def test_the_options_have_the_numbers_of_orjson() -> None:
    names = [name for name in dir(orjson) if name.startswith("OPT_") and getattr(orjson, name)]  # 0 asks for nothing
    assert {name: getattr(_standard, name) for name in names} == {name: getattr(orjson, name) for name in names}


def test_numpy_values_need_orjson() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed (group `dev`)")
    value = Slotted(numpy.array([1, 2]))
    assert orjson.dumps(value, None, orjson.OPT_SERIALIZE_NUMPY) == b'{"x":[1,2]}'
    for default in (None, repr):
        with pytest.raises(TypeError, match=r"^orjson, which is not installed, is needed to write numpy\.ndarray$"):
            _standard.dumps(value, default, orjson.OPT_SERIALIZE_NUMPY)


USED = """
import sys
sys.modules["orjson"] = None  # as if it were not installed
import datetime
from jsonrpc_fast import decode, encode_dict, encode_result
from jsonrpc_fast.cli.main import main
from jsonrpc_fast.codec import _standard
text = encode_result(1, {"b": (1.5, "x"), "a": {2}}, default=list, option=32, delimited=False)
assert text == b'{"jsonrpc":"2.0","id":1,"result":{"a":[2],"b":[1.5,"x"]}}', text
assert decode(text).result == {"a": [2], "b": [1.5, "x"]}
times = [datetime.datetime(2026, 11, 21, 1, 2, 3, 4, tz) for tz in (None, datetime.timezone.utc)]
for value in (times[0], times, {"a": {"t": times[1]}}, [datetime.time(1, 2, 3, 4), 5]):
    for option in (0, 2, 8, 128, 138, 40, 2048):
        wanted = b'{"jsonrpc":"2.0","id":1,"result":%b}' % _standard.dumps(value, None, option)
        found = encode_result(1, value, option=option, delimited=False)
        again = encode_dict({"jsonrpc": "2.0", "id": 1, "result": value}, option=option, delimited=False)
        assert wanted == found and (wanted == again or option & 32), (option, found, again)
    assert b"!" in encode_result(1, value, option=512, default=lambda _: "!")
main(["info", "--json"])
"""


@rows("pure", ["", "1"])
@pytest.mark.ci
def test_the_codec_works_where_orjson_is_not_there(pure: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", USED],
        env=environment(JSONRPC_FAST_PURE=pure, JSONRPC_FAST_WITHOUT_ORJSON=""),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert facts["engine"] == ("the core" if facts["backend"] == "cython" else "json")
    assert facts["orjson_fault"] == "import of orjson halted; None in sys.modules"
