"""The byte at which a text stops being JSON, and the verdicts of JSONTestSuite."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import orjson
import pytest

from jsonrpc_fast.profile import JSONRPC

from ..support.describe import describe, fault, fill, text_fault
from ..support.tables import rows

MALFORMED = [
    # literals
    ("nul", 3),
    ("nulx", 3),
    ("nULL", 1),
    ("Null", 0),
    ("tru", 3),
    ("trve", 2),
    ("falsy", 4),
    ("nan", 1),
    ("NaN", 0),
    ("Infinity", 0),
    ("undefined", 0),
    ("truetrue", 4),
    # numbers
    ("-", 1),
    ("--1", 1),
    ("-x", 1),
    ("+1", 0),
    (".5", 0),
    ("-.5", 1),
    ("01", 1),
    ("-01", 2),
    ("00", 1),
    ("1.", 2),
    ("1.x", 2),
    ("1.e1", 2),
    ("1e", 2),
    ("1e+", 3),
    ("1e-x", 3),
    ("1ee1", 2),
    ("1.2.3", 3),
    ("0x10", 1),
    ("1_000", 1),
    ("1 2", 2),
    ("1e309", 0),
    ("-1e309", 0),
    ("[1.0,1e999]", 5),
    ("-Infinity", 1),
    ("\uff11", 0),
    # strings
    ('"', 1),
    ('"a', 2),
    ('"\\"', 3),
    ('"a\\', 3),
    ('"a\\x"', 2),
    ('"\\U0041"', 1),
    ('"\\u"', 1),
    ('"\\u004"', 1),
    ('"\\u004g"', 1),
    ('"\\u', 3),
    ('"\\u00', 5),
    ('"\\ud800"', 1),
    ('"\\ud800', 7),
    ('"\\ud800\\', 8),
    ('"\\ud800\\u', 9),
    ('"\\ud800\\n"', 1),
    ('"\\ud800\\ud800"', 1),
    ('"\\ud800\\udc0"', 1),
    ('"\\ud800\\udc0', 12),
    ('"\\udc00\\ud800"', 1),
    ('"ab\\udfff"', 3),
    ('"ab\x00"', 3),
    ('"ab\n"', 3),
    ('"ab\x1f', 3),
    ("'a'", 0),
    ('"a"b', 3),
    # arrays
    ("[", 1),
    ("[1", 2),
    ("[1,", 3),
    ("[,", 1),
    ("[1,]", 3),
    ("[1 2]", 3),
    ("[1;2]", 2),
    ("[1}", 2),
    ("[]]", 2),
    ("]", 0),
    ("[1]x", 3),
    ("[//]", 1),
    # objects
    ("{", 1),
    ("{1:2}", 1),
    ("{a:1}", 1),
    ('{"a"', 4),
    ('{"a"}', 4),
    ('{"a" 1}', 5),
    ('{"a":', 5),
    ('{"a":}', 5),
    ('{"a"::1}', 5),
    ('{"a":1', 6),
    ('{"a":1,', 7),
    ('{"a":1,}', 7),
    ('{"a":1 "b":2}', 7),
    ('{"a":1]', 6),
    ("{}}", 2),
    ("}", 0),
    ("{,}", 1),
    ("{null:1}", 1),
    ('{"a\n":1}', 3),
    # around a message
    (":", 0),
    (",", 0),
    ("{}{}", 2),
    ("{} {}", 3),
    ("{},", 2),
    ("\x00", 0),
    ("{}\x00", 2),
    ("\x0b{}", 0),
    ("\xa0{}", 0),
    ("{}\u2028", 2),
    ("/**/{}", 0),
    ("é", 0),
    # after characters of two, three and four bytes
    ('{"é":é}', 6),
    ('["é€😀",]', 13),
    ('["é€😀\\x"]', 11),
    ('["é€😀\t"]', 11),
    ('"é€😀"é', 11),
    ('{"\\u00e9":nil}', 11),
]
INVALID = [
    (b"\xff", 0),
    (b'"\xc3', 1),
    (b'"\xc3"', 1),
    (b'"\xe2\x82', 1),
    (b'"\xe2\x82"', 1),
    (b'"\xf0\x9f\x98', 1),
    (b'"\xf0\x9f\x98"', 1),
    (b'"\xc3\xa9\x80"', 3),
    (b'"\xc0\x80"', 1),
    (b'"\xc1\xbf"', 1),
    (b'"\xe0\x9f\xbf"', 1),
    (b'"\xed\xa0\x80"', 1),
    (b'"\xed\xbf\xbf"', 1),
    (b'"\xf0\x8f\xbf\xbf"', 1),
    (b'"\xf4\x90\x80\x80"', 1),
    (b'"\xf5\x80\x80\x80"', 1),
    (b'"\xf8\x88\x80\x80\x80"', 1),
    (b'"\xfe\xff"', 1),
    # before other faults, wherever they are
    (b"{]\x80", 2),
    (b"1 2 \xc3", 4),
    (b'{"a":1,}\xe2\x82', 8),
    (b'["\xc3\xa9",nul\xff', 9),
    (b'"\x00\xff"', 2),
    (b"{}" + 300 * b" " + b"\xff", 302),
    (b'{"\xff":1}', 2),
    (b'{"\\u0069\xffd":1}', 8),
]
UTF_8 = [
    "\x7f",
    "\x80",
    "\u07ff",
    "\u0800",
    "\ud7ff",
    "\ue000",
    "\ufeff",
    "\uffff",
    "\U00010000",
    "\U0010ffff",
    "\u0085\u2028\u2029",
    "1234567é",
    "1234567\x7f",
    "123456é",
    "12345678é",
]
HEAD = b'{"jsonrpc":"2.0","id":"\xc3\xa9","method":"m","params":'


@rows(("text", "offset"), MALFORMED)
def test_malformed(impl: ModuleType, text: str, offset: int) -> None:
    expected = text_fault("MALFORMED_JSON", offset)
    assert describe(impl.decode(text)) == expected
    assert describe(impl.decode(text.encode())) == expected
    assert describe(impl.decode(text, JSONRPC.replace(big_ints="exact"))) == expected


@rows(("text", "offset"), [case for case in MALFORMED if case[0] not in ("{}}", "{},")])
def test_malformed_in_a_payload(impl: ModuleType, text: str, offset: int) -> None:
    # The two that are left out continue like a message.
    expected = text_fault("MALFORMED_JSON", len(HEAD) + offset)
    assert describe(impl.decode(HEAD + text.encode())) == expected
    assert describe(impl.decode(b"[[]," + HEAD + text.encode())) == text_fault("MALFORMED_JSON", expected[4] + 4)


@rows(("text", "offset"), INVALID)
def test_invalid_utf_8(impl: ModuleType, text: bytes, offset: int) -> None:
    assert describe(impl.decode(text)) == text_fault("INVALID_UTF8", offset)
    assert describe(impl.decode(HEAD + text)) == text_fault("INVALID_UTF8", len(HEAD) + offset)
    assert describe(impl.decode(b"[1," + text)) == text_fault("INVALID_UTF8", 3 + offset)


@rows("text", UTF_8, ids=ascii)
def test_valid_utf_8(impl: ModuleType, text: str) -> None:
    message = fill('{"jsonrpc":"2.0","id":"%s","method":"%s","params":["%s",{"%s":1}]}', *(4 * [text]))
    expected = ("Request", text, text, [text, {text: 1}])
    assert describe(impl.decode(message)) == expected
    assert describe(impl.decode(message.encode())) == expected


@rows("text", ["", " ", "\n", "\t\r\n ", 100 * " "])
def test_blank(impl: ModuleType, text: str) -> None:
    assert describe(impl.decode(text)) == text_fault("MALFORMED_JSON", len(text))


def test_only_streams_accept_a_byte_order_mark(impl: ModuleType) -> None:
    assert describe(impl.decode(b'\xef\xbb\xbf{"jsonrpc":"2.0","method":"m"}')) == text_fault("MALFORMED_JSON", 0)


WHOLE = rb"""{"jsonrpc" : "2.0", "id":-12.5e+1, "method":"\u00e9\ud83d\ude00\n\"", "x":[true, false,null ,[]],
"params":{"a":[1,{"b":{}}, 0.5E-2],"c":"tab\t"}}"""


def test_truncated_anywhere(impl: ModuleType) -> None:
    assert type(impl.decode(WHOLE)) is impl.Request
    for text in (WHOLE, b"[" + WHOLE + b", " + WHOLE + b"]"):
        for end in range(len(text)):
            assert describe(impl.decode(text[:end])) == text_fault("MALFORMED_JSON", end)


def test_truncated_inside_a_character(impl: ModuleType) -> None:
    text = '{"é€😀":1}'.encode()
    expected = [("MALFORMED_JSON", end) for end in range(len(text))]
    for end, start in ((3, 2), (5, 4), (6, 4), (8, 7), (9, 7), (10, 7)):
        expected[end] = ("INVALID_UTF8", start)
    for end, (code, offset) in enumerate(expected):
        assert describe(impl.decode(text[:end])) == text_fault(code, offset)


# JSONTestSuite


@pytest.fixture(scope="module")
def suite(corpora: Path) -> dict[str, bytes]:
    files = {path.name: path.read_bytes() for path in (corpora / "jsontestsuite" / "test_parsing").iterdir()}
    assert len(files) == 318
    return files


def test_suite_accepts_as_params(impl: ModuleType, suite: dict[str, bytes]) -> None:
    accepted = 0
    for name, text in suite.items():
        if name.startswith("y_") and text.strip()[:1] in (b"{", b"["):
            message = impl.decode(HEAD + text + b"}")
            assert repr(describe(message)) == repr(("Request", "é", "m", orjson.loads(text))), name
            accepted += 1
    assert accepted == 87


def test_suite_accepts_as_result(impl: ModuleType, suite: dict[str, bytes]) -> None:
    accepted = 0
    for name, text in suite.items():
        if name.startswith("y_"):
            message = impl.decode(b'{"result":' + text + b',"jsonrpc":"2.0","id":1}')
            assert repr(describe(message)) == repr(("Result", 1, orjson.loads(text))), name
            accepted += 1
    assert accepted == 95


def test_suite_rejects_as_a_whole(impl: ModuleType, suite: dict[str, bytes]) -> None:
    rejected = 0
    for name, text in suite.items():
        if name.startswith("n_"):
            found = impl.decode(text)
            assert found.code.name == ("MALFORMED_JSON" if is_utf_8(text) else "INVALID_UTF8"), name
            assert found.rpc_code == -32700
            rejected += 1
    assert rejected == 188


def test_suite_rejects_as_a_payload(impl: ModuleType, suite: dict[str, bytes]) -> None:
    rejected = 0
    for name, text in suite.items():
        if name.startswith("n_"):
            found = impl.decode(HEAD + text + b"}")
            assert describe(found)[0] == "ParseError", name
            assert found.code.name == ("MALFORMED_JSON" if is_utf_8(text) else "INVALID_UTF8"), name
            rejected += 1
    assert rejected == 188


def test_suite_agrees_with_orjson_where_either_is_allowed(impl: ModuleType, suite: dict[str, bytes]) -> None:
    accepted = set()
    for name, text in suite.items():
        if name.startswith("i_"):
            try:
                value = orjson.loads(text)
            except orjson.JSONDecodeError:
                assert impl.decode(text).rpc_code == -32700, name
                assert impl.decode(HEAD + text + b"}").rpc_code == -32700, name
            else:
                assert getattr(impl.decode(text), "rpc_code", -32600) == -32600, name
                message = impl.decode(b'{"result":' + text + b',"jsonrpc":"2.0","id":1}')
                assert repr(describe(message)) == repr(("Result", 1, value)), name
                accepted.add(name)
    assert accepted == {
        "i_number_double_huge_neg_exp.json",
        "i_number_real_underflow.json",
        "i_number_too_big_neg_int.json",
        "i_number_too_big_pos_int.json",
        "i_number_very_big_negative_int.json",
        "i_structure_500_nested_arrays.json",
    }


def test_hundred_thousand_brackets(impl: ModuleType, suite: dict[str, bytes]) -> None:
    brackets = suite["n_structure_100000_opening_arrays.json"]
    objects = suite["n_structure_open_array_object.json"]
    assert describe(impl.decode(brackets)) == text_fault("MALFORMED_JSON", 100_000)
    assert describe(impl.decode(objects)) == text_fault("MALFORMED_JSON", 250_001)
    assert describe(impl.decode(HEAD + brackets)) == text_fault("MALFORMED_JSON", len(HEAD) + 100_000)
    closed = HEAD + brackets + 100_000 * b"]" + b"}"
    assert describe(impl.decode(closed)) == fault("TOO_DEEP", "é")


def is_utf_8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
