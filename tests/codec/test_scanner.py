"""The scanner against orjson: it accepts the same texts, and finds the place of each member and fault."""

from __future__ import annotations

import enum
import json
import math
import random
import re
import struct
import sys
from array import array
from collections import OrderedDict
from decimal import Decimal, localcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.codec import _scanner
from jsonrpc_fast.codec._scanner import Envelope, Malformed, ScannedValue, scan
from jsonrpc_fast.profile import JSONRPC, Limits

from ..fuzz.mutate import mutants
from ..support.chunks import is_utf_8
from ..support.describe import Description, describe, fault, fill, notification, request, result, text_fault
from ..support.examples import scaled_examples
from ..support.oracle import orjson
from ..support.tables import rows
from ..support.timing import min_seconds, thread_seconds
from ..vectors import read
from .test_json import VALUES

JSON_TEXT = st.tuples(VALUES, st.booleans(), st.sampled_from([None, 0, 1])).map(
    lambda made: json.dumps(made[0], ensure_ascii=made[1], indent=made[2]).encode()
)
TORN = st.tuples(
    JSON_TEXT,
    st.lists(st.tuples(st.integers(0, 10_000), st.one_of(st.none(), st.integers(0, 255))), max_size=3),
    st.integers(0, 10_000),
)


def torn(text: bytes, edits: list[tuple[int, int | None]], end: int) -> bytes:
    """The text with bytes changed or removed, and perhaps cut."""
    raw = bytearray(text[:end])
    for at, byte in edits:
        if raw:
            raw[at % len(raw) : at % len(raw) + 1] = b"" if byte is None else bytes([byte])
    return bytes(raw)


def fault_of(text: bytes) -> int | None:
    """Where the scanner says that a text stops being JSON, or None."""
    try:
        scan(text, batch_items=10**9)
    except Malformed as malformed:
        return malformed.offset
    return None


def check_against_orjson(text: bytes) -> None:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        is_deep = "depth limit" in str(error)  # depth is counted from the members
        if is_utf_8(text):
            offset = fault_of(text)
            if offset is not None:
                check_offset(text, offset)
            else:
                # orjson refuses integers too large for a double.
                assert is_deep or re.search(rb"[0-9]{309}(?![.eE])", text)
    else:
        assert fault_of(text) is None
        assert fault_of(text) is None


def check_offset(text: bytes, offset: int) -> None:
    """The text before a fault can be continued to valid JSON; no further text can repair a fault before the end."""
    assert 0 <= offset <= len(text)
    assert fault_of(text[:offset]) in (None, offset)
    if offset < len(text):
        assert {fault_of(text + more) for more in (b" ", b'"', b"]", b"}", b",", b"x")} == {offset}


@given(text=JSON_TEXT)
def test_json(text: bytes) -> None:
    check_against_orjson(text)
    assert fault_of(text) is None


@scaled_examples(2)
@given(parts=TORN)
@pytest.mark.ci
def test_truncated_json(parts: tuple[bytes, list[tuple[int, int | None]], int]) -> None:
    check_against_orjson(torn(*parts))


@scaled_examples(2)
@given(text=mutants())
def test_mutated_messages(text: bytes) -> None:
    check_against_orjson(text)


@given(text=st.text(st.sampled_from('{}[]:,"\\u0123dDabefnrtlse+-. \n'), max_size=12))
def test_texts_of_significant_tokens(text: str) -> None:
    check_against_orjson(text.encode())


@given(token=st.from_regex(r"\A-?[0-9]{1,3}(\.[0-9]{0,3})?([eE][+-]?[0-9]{0,3})?\Z"))
@pytest.mark.slow
def test_numbers(token: str) -> None:
    check_against_orjson(token.encode())
    check_against_orjson(b'{"a":' + token.encode() + b"}")


@rows("digits", [17, 18, 307, 308, 309, 310, 400, 5000])
@rows("sign", ["", "-"])
@rows("first", ["1", "17976931348623157", "17976931348623159", "9"])
@rows("rest", ["0", "9"])
@rows("tail", ["", ".0", "e0", "e-10", "e+1", ".5e1"])
def test_numbers_around_the_largest_double(digits: int, sign: str, first: str, rest: str, tail: str) -> None:
    token = (sign + first.ljust(digits, rest)[: max(digits, len(first))] + tail).encode()
    check_against_orjson(token)
    check_against_orjson(b"[1," + token + b"]")


@rows("row", read("wide_numbers"), ids=lambda row: ascii(row["text"]))
def test_wide_numbers(row: dict[str, Any]) -> None:
    assert fault_of(row["text"]) == row["offset"]


@rows("row", read("faults_of_texts"), ids=lambda row: ascii(row["text"]))
def test_faults_of_texts(row: dict[str, Any]) -> None:
    if row["fault"] == "MALFORMED_JSON":
        assert fault_of(row["text"]) == row["offset"]


@rows("depth", [1, 254, 255, 1023, 1024, 1025, 5000, 100_000])
@pytest.mark.ci
def test_depth(depth: int) -> None:
    text = b'{"params":' + depth * b"[" + depth * b"]" + b"}"
    [envelope] = scan(text, batch_items=1).envelopes
    assert envelope.depth == depth
    assert fault_of(depth * b'{"a":') == 5 * depth
    assert fault_of(depth * b"[" + (depth - 1) * b"]") == 2 * depth - 1


def envelopes(text: bytes, batch_items: int = 10) -> Any:
    return scan(text, batch_items=batch_items)


class TestEnvelopes:
    def test_members(self) -> None:
        text = rb' {"jsonrpc":"2.0", "\u0069d" : 1 ,"method":"m","params":[[1],{}],"x":[[[]]]}'
        found = envelopes(text)
        assert not found.is_batch
        [envelope] = found.envelopes
        assert envelope.members is not None
        tokens = {name: text[value.start : value.end] for name, value in envelope.members.items()}
        assert tokens == {"jsonrpc": b'"2.0"', "id": b"1", "method": b'"m"', "params": b"[[1],{}]"}
        assert {name: value.depth for name, value in envelope.members.items()} == {
            "jsonrpc": 0,
            "id": 0,
            "method": 0,
            "params": 2,
        }
        assert (envelope.depth, envelope.duplicates, envelope.unexpected) == (3, False, True)

    def test_the_last_duplicate_counts(self) -> None:
        [envelope] = envelopes(b'{"id":[1],"id":2}').envelopes
        assert envelope == Envelope({"id": ScannedValue(15, 16, 0, False)}, 1, duplicates=2)
        [envelope] = envelopes(b'{"x":1,"x":2}').envelopes
        assert envelope == Envelope({}, 0, duplicates=0, unexpected=True)

    def test_wide_integers(self) -> None:
        text = b'{"params":[1,{"a":18446744073709551616}],"result":18446744073709551615,"error":"18446744073709551616"}'
        [envelope] = envelopes(text).envelopes
        assert envelope.members is not None
        assert {name: value.wide for name, value in envelope.members.items()} == {
            "params": True,
            "result": False,
            "error": False,
        }

    def test_values_that_are_not_objects(self) -> None:
        assert envelopes(b" 1 ").envelopes == [Envelope(None, 0)]
        assert envelopes(b"{}").envelopes == [Envelope({}, 0)]

    def test_batches(self) -> None:
        found = envelopes(b' [ {} , 1 , [[]] , {"id":1} ] ')
        assert found.is_batch
        assert not found.too_many
        assert found.envelopes == [
            Envelope({}, 0),
            Envelope(None, 0),
            Envelope(None, 2),
            Envelope({"id": ScannedValue(25, 26, 0, False)}, 0, start=19),
        ]
        assert envelopes(b"[]").envelopes == []

    def test_more_items_than_the_maximum(self) -> None:
        found = envelopes(b"[1,2,3]", batch_items=2)
        assert (len(found.envelopes), found.too_many) == (2, True)
        found = envelopes(b"[1,2]", batch_items=2)
        assert (len(found.envelopes), found.too_many) == (2, False)
        assert envelopes(b"[1,2,x", batch_items=2).too_many
        with pytest.raises(Malformed):
            envelopes(b"[1,x", batch_items=2)


# Consecutive usual values are one match of a pattern. The result is the same token by token.


def found(text: bytes, batch_items: int) -> object:
    try:
        return scan(text, batch_items=batch_items)
    except Malformed as malformed:
        return malformed.offset


@given(seed=st.integers(min_value=0))
def test_usual_values_in_a_row_are_read_as_token_by_token(seed: int) -> None:
    text = message_with_many_members(random.Random(seed))
    for batch_items in (1, 10):
        with pytest.MonkeyPatch.context() as patch:
            for pattern in ("_usual_items", "_usual_members", "_unknown_members"):
                patch.setattr(_scanner, pattern, re.compile(b"").match)
            expected = found(text, batch_items)
        assert found(text, batch_items) == expected


def message_with_many_members(rng: random.Random) -> bytes:
    """A text with many members of every kind, perhaps invalid."""
    names = [b'"id"', b'"a"', b'"\\u0069d"', b'"method"', b'"params"', b'""', b'"x\\"id"']
    values = [
        b"1",
        b"[]",
        b"{}",
        310 * b"9",
        b'{"id":[' + 320 * b"9" + b"]}",
        b"[[{}]]",
        b'[1,"a",true , 2.5e1,3]',
        b'{"a":1,"b" : "c","id":null}',
        b"[1, 1.5.2]",
        b"[12345678901234567890,1]",
        b"[1,]",
        b"[nul,1]",
        b'{"a":1,}',
        b"[1e999]",
        b'["a" "b"]',
        b"17e257",
        b'"\\n"',
        b"1.5",
    ]
    values += [b"[[[[]],[[]]]]", b"[[]]", b"[ ]", b"{ }", b"[[1]}"]
    members = [rng.choice(names) + rng.choice((b":", b" : ")) + rng.choice(values) for _ in range(rng.randrange(30))]
    text = b"{" + b",".join(members) + b"}"
    if rng.random() < 0.5:
        text = b"[" + text + b",[1]," + text + b"]"
    while rng.random() < 0.5:
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice((b",", b"}", b"]", b"[", b'"', b"e2", b":", b"1", b" ", b"")) + text[at + 1 :]
    return text


HEAD = b'{"jsonrpc":"2.0","id":1,"method":"m","params":['
HOSTILE = {
    "integers": lambda n: HEAD + n // 2 * b"1," + b"1]}x",
    "empty arrays": lambda n: HEAD + n // 3 * b"[]," + b"1]}x",
    "arrays": lambda n: n * b"[",
    "objects": lambda n: n // 5 * b'{"a":',
    "steps": lambda n: HEAD + n // 10 * b"[[[[[[[[],",
    "unknown members": lambda n: b"{" + n // 5 * b'"":1,',
    "ids": lambda n: b"{" + n // 9 * b'"id":[0],' + b'"x":1}x',
    "items": lambda n: b"[" + n // 11 * b'{"id":[0]},' + b"1]x",
    "escapes": lambda n: HEAD + b'"' + n // 2 * b"\\n" + b'"]}x',
    "arrays in arrays": lambda n: n // 2 * b"[" + n // 10 * b"[[]]," + b"x",
    "closing": lambda n: n // 2 * b"[" + n // 2 * b"]" + b"x",
    "wide ids": lambda n: b"[" + n // 320 * (b'{"id":' + 310 * b"9" + b"},") + b"1]x",
}


@rows("name", HOSTILE)
@pytest.mark.slow
def test_a_hostile_text_takes_linear_time(name: str) -> None:
    def seconds(size: int) -> float:
        text = HOSTILE[name](size)
        return thread_seconds(lambda: faults.add(len(text) - (fault_of(text) or 0))) / len(text)

    faults: set[int] = set()
    short = long = math.inf
    for _ in range(10):
        once = min_seconds(lambda: seconds(100_000), lambda: seconds(800_000), rounds=1)
        short, long = min(short, once[0]), min(long, once[1])
        if long < 4 * short:
            break
    assert long < 4 * short
    assert faults <= {0, 1}


FAULTS = [(row["text"], row["fault"], row["offset"]) for row in read("faults_of_texts")]
NAMES = [f"{row['row']} {number}" for number, row in enumerate(read("faults_of_texts"))]
BEGIN = b'{"jsonrpc":"2.0","id":"\xc3\xa9","method":"m","params":'


@rows(("text", "code", "offset"), FAULTS, ids=NAMES)
def test_faults(impl: ModuleType, text: bytes, code: str, offset: int) -> None:
    expected = text_fault(code, offset)
    assert describe(impl.decode(text)) == expected
    if code == "MALFORMED_JSON":
        assert describe(impl.decode(text.decode())) == expected


@rows(("text", "code", "offset"), FAULTS, ids=NAMES)
def test_faults_in_a_payload(impl: ModuleType, text: bytes, code: str, offset: int) -> None:
    if text in (b"{}}", b"{},"):
        return  # it continues like a message
    assert describe(impl.decode(BEGIN + text)) == text_fault(code, len(BEGIN) + offset)
    assert describe(impl.decode(b"[[]," + BEGIN + text)) == text_fault(code, 4 + len(BEGIN) + offset)


@rows("row", read("utf_8"), ids=lambda row: ascii(row["text"]))
def test_valid_utf_8(impl: ModuleType, row: dict[str, bytes]) -> None:
    text = row["text"].decode()
    message = fill('{"jsonrpc":"2.0","id":"%s","method":"%s","params":["%s",{"%s":1}]}', *(4 * [text]))
    expected = ("Request", text, text, [text, {text: 1}])
    assert describe(impl.decode(message)) == expected
    assert describe(impl.decode(message.encode())) == expected


@rows("row", read("numbers"), ids=lambda row: row["token"])
def test_numbers_as_ids(impl: ModuleType, row: dict[str, Any]) -> None:
    """An id is the exact number, or a fault."""
    found = describe(impl.decode(fill('{"jsonrpc":"2.0","id":%s,"method":"m"}', row["token"])))
    if row["number"] is not None:
        assert repr(found) == repr(request(row["number"], "m"))
    elif "e400" in row["token"]:
        assert found == text_fault("MALFORMED_JSON", 22)
    else:
        assert found == fault("INVALID_ID_TYPE")


@rows("row", read("exact_values"), ids=lambda row: ascii(row["text"]))
def test_exact_values(impl: ModuleType, row: dict[str, Any]) -> None:
    message = b'{"jsonrpc":"2.0","id":1,"result":' + row["text"] + b"}"
    assert repr(describe(impl.decode(message, JSONRPC))) == repr(result(1, row["value"]))


@rows("row", read("wide_numbers"), ids=lambda row: ascii(row["text"]))
def test_wide_numbers_of_messages(impl: ModuleType, row: dict[str, Any]) -> None:
    found = describe(impl.decode(row["text"]))
    if row["offset"] is None:
        assert "MALFORMED_JSON" not in repr(found)
    else:
        assert found == text_fault("MALFORMED_JSON", row["offset"])


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


BRACKETS = ("n_structure_100000_opening_arrays.json", "n_structure_open_array_object.json")
"""Texts that have a test of their own."""


@pytest.fixture(scope="module")
def suite(corpora: Path) -> dict[str, bytes]:
    files = {path.name: path.read_bytes() for path in (corpora / "jsontestsuite" / "test_parsing").iterdir()}
    assert len(files) == 318
    return files


def test_suite_accepts_as_params(impl: ModuleType, suite: dict[str, bytes]) -> None:
    accepted = 0
    for name, text in suite.items():
        if name.startswith("y_") and text.strip()[:1] in (b"{", b"["):
            message = impl.decode(BEGIN + text + b"}")
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
        if name.startswith("n_") and name not in BRACKETS:
            found = impl.decode(text)
            assert found.code.name == ("MALFORMED_JSON" if is_utf_8(text) else "INVALID_UTF8"), name
            assert found.rpc_code == -32700
            rejected += 1
    assert rejected == 186


def test_suite_rejects_as_a_payload(impl: ModuleType, suite: dict[str, bytes]) -> None:
    rejected = 0
    for name, text in suite.items():
        if name.startswith("n_") and name not in BRACKETS:
            found = impl.decode(BEGIN + text + b"}")
            assert describe(found)[0] == "ParseError", name
            assert found.code.name == ("MALFORMED_JSON" if is_utf_8(text) else "INVALID_UTF8"), name
            rejected += 1
    assert rejected == 186


def test_suite_agrees_with_orjson_where_either_is_allowed(impl: ModuleType, suite: dict[str, bytes]) -> None:
    accepted = set()
    for name, text in suite.items():
        if name.startswith("i_"):
            try:
                orjson.loads(text)
                value = json.loads(text)
            except orjson.JSONDecodeError:
                assert impl.decode(text).rpc_code == -32700, name
                assert impl.decode(BEGIN + text + b"}").rpc_code == -32700, name
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
    brackets, objects = map(suite.__getitem__, BRACKETS)
    assert describe(impl.decode(brackets)) == text_fault("MALFORMED_JSON", 100_000)
    assert describe(impl.decode(objects[:50_000])) == text_fault("MALFORMED_JSON", 50_000)
    assert impl.decode(objects[:50_000]).rpc_code == -32700
    assert impl.decode(BEGIN + objects[:50_000]).code.name == "MALFORMED_JSON"
    assert describe(impl.decode(BEGIN + brackets)) == text_fault("MALFORMED_JSON", len(BEGIN) + 100_000)
    closed = BEGIN + brackets + 100_000 * b"]" + b"}"
    assert describe(impl.decode(closed)) == fault("TOO_DEEP", "é")


TEXT = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":["\xc3\xa9"]}}'
EXPECTED = request(1, "m", {"a": ["é"]})


class Text(str):
    __slots__ = ()


class Bytes(bytes):
    __slots__ = ()


@rows(
    "data",
    [
        TEXT,
        bytearray(TEXT),
        memoryview(TEXT),
        memoryview(bytearray(TEXT)),
        memoryview(b"  " + TEXT)[2:],
        memoryview(bytes(byte for pair in zip(TEXT, TEXT, strict=True) for byte in pair))[::2],
        memoryview(TEXT[::-1])[::-1],
        memoryview(array("b", [byte - 256 if byte > 127 else byte for byte in TEXT])),
        TEXT.decode(),
        Text(TEXT.decode()),
        Bytes(TEXT),
    ],
    ids=lambda data: type(data).__name__,
)
def test_types_of_input(impl: ModuleType, data: Any) -> None:
    assert describe(impl.decode(data)) == EXPECTED
    assert impl.classify(data) == ("request", "m", 1)


def test_a_view_of_wider_items_is_read_as_bytes(impl: ModuleType) -> None:
    text = b'{"jsonrpc":"2.0","method":"four"}  \n'
    assert len(text) % 4 == 0
    words = array("I", text)
    assert describe(impl.decode(memoryview(words))) == notification("four")
    assert describe(impl.decode(memoryview(text).cast("B", (6, 6)))) == notification("four")


def test_the_message_does_not_reference_the_buffer(impl: ModuleType) -> None:
    large = TEXT.replace(b"[", b'["%b",' % (5000 * b"v"))
    for text in (TEXT, large, b"[%b,%b]" % (TEXT, large)):
        buffer = bytearray(text)
        messages = [impl.decode(buffer), impl.decode(buffer, raw=True), impl.decode(memoryview(buffer), raw=True)]
        messages += impl.Decoder().feed(buffer + b"\n") + impl.Decoder(raw=True).feed(memoryview(buffer + b"\n"))
        buffer[:] = b"x" * 3
        expected = [impl.decode(text), impl.decode(text, raw=True), impl.decode(text, raw=True)]
        assert messages == [*expected, impl.decode(text), impl.decode(text, raw=True)]


@rows("data", [None, 1, 1.5, [], {}, object(), array("b", b"{}"), [TEXT], iter(TEXT)])
def test_other_types_are_refused(impl: ModuleType, data: Any) -> None:
    expected = f"data must be bytes, bytearray, memoryview or str, not {type(data).__name__}"
    for function in (impl.decode, impl.classify):
        with pytest.raises(TypeError) as caught:
            function(data)
        assert str(caught.value) == expected
        assert type(caught.value) is TypeError


@rows(
    ("text", "offset"),
    [("\ud800", 0), ('{"é":"\udfff"}', 7), ("[1,\ud83d\ude00]", 3), ('{"jsonrpc":1,"x":"😀\ud800', 22)],
)
def test_lone_surrogates_are_not_utf_8(impl: ModuleType, text: str, offset: int) -> None:
    assert describe(impl.decode(text)) == text_fault("INVALID_UTF8", offset)
    assert impl.classify(text) == ("invalid", None, None)


@rows("obj", [None, 1, 1.5, "a", True, b"{}", object(), {1, 2}])
def test_parse_of_values_that_are_not_dicts(impl: ModuleType, obj: object) -> None:
    assert describe(impl.parse(obj)) == fault("NOT_AN_OBJECT")
    for cls in (impl.Request, impl.Notification, impl.Response, impl.Error):
        assert cls.from_dict(obj) is None


@rows("obj", [[], [{}], [{"jsonrpc": "2.0", "id": 1, "method": "m"}], [[]]])
def test_from_dict_does_not_accept_a_list(impl: ModuleType, obj: list[object]) -> None:
    assert isinstance(impl.parse(obj), list) or describe(impl.parse(obj)) == fault("EMPTY_BATCH")
    for cls in (impl.Request, impl.Notification, impl.Response, impl.Error):
        assert cls.from_dict(obj) is None


class Word(str, enum.Enum):  # noqa: UP042  # the pair of classes is what is tested
    VERSION = "2.0"
    METHOD = "m"


class Number(enum.IntEnum):
    SEVEN = 7


def test_parse_of_subclasses(impl: ModuleType) -> None:
    obj = OrderedDict(jsonrpc=Text("2.0"), id=Text("i"), method=Text("m"), params=OrderedDict(a=1))
    assert describe(impl.parse(obj)) == request("i", "m", {"a": 1})
    assert describe(impl.Request.from_dict(obj)) == request("i", "m", {"a": 1})
    numbered = {"jsonrpc": "2.0", "id": Number.SEVEN, "error": {"code": Number.SEVEN, "message": Text("e")}}
    message = impl.parse(numbered)
    assert message.id == 7
    assert (type(message.error.code), message.error.code) == (int, 7)


def test_parse_with_keys_of_other_types(impl: ModuleType) -> None:
    obj = {1: 2, None: 3, "jsonrpc": "2.0", "id": 1, "method": "m"}
    assert describe(impl.parse(obj)) == request(1, "m")
    assert describe(impl.parse(obj, JSONRPC.replace(extra_members=False))) == fault("UNEXPECTED_MEMBER", 1)


def test_parse_shares_the_payload(impl: ModuleType) -> None:
    obj: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"a": []}}
    assert impl.parse(obj).params is obj["params"]
    assert impl.parse([obj])[0].params is obj["params"]


@rows("params", [{1, 2}, b"{}", 1j])
def test_parse_with_params_that_json_does_not_have(impl: ModuleType, params: object) -> None:
    obj = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": params}
    assert describe(impl.parse(obj)) == fault("INVALID_PARAMS_TYPE", 1)


def test_error_from_dict(impl: ModuleType) -> None:
    assert impl.Error.from_dict({"code": 1, "message": "m"}) == impl.Error(1, "m")
    assert impl.Error.from_dict({"code": 1, "message": "m", "data": None}) == impl.Error(1, "m", None)
    assert impl.Error.from_dict({"code": 1, "message": "m", "data": 0, "x": 1}) == impl.Error(1, "m", 0)
    for obj in ({}, {"code": 1}, {"message": "m"}, {"code": True, "message": "m"}, {"code": 1, "message": b"m"}):
        assert impl.Error.from_dict(obj) is None


WIDE = "123456789012345678901234567890"
REJECTED = fault("INTEGER_TOO_LARGE", 1)
BIG_INTS: list[tuple[str, Description, Description]] = [
    # params, and the message with "exact" and "reject"
    (f"[{WIDE}]", request(1, "m", [int(WIDE)]), REJECTED),
    (f'{{"a":[-{WIDE}]}}', request(1, "m", {"a": [-int(WIDE)]}), REJECTED),
    ("[18446744073709551616]", request(1, "m", [2**64]), REJECTED),
    ("[-9223372036854775809]", request(1, "m", [-(2**63) - 1]), REJECTED),
    *(
        (f"[{value}]", request(1, "m", [value]), request(1, "m", [value]))
        for value in (2**64 - 1, 2**63, 2**63 - 1, -(2**63), 10**18, 0)
    ),
    *(
        (params, request(1, "m", value), request(1, "m", value))
        for params, value in (
            (f'["{WIDE}"]', [WIDE]),
            (f'{{"{WIDE}":1}}', {WIDE: 1}),
            (rf'["\"{WIDE}"]', [f'"{WIDE}']),
            (f"[{WIDE}.0]", [1.2345678901234568e29]),
            (f"[{WIDE}e1]", [1.2345678901234568e30]),
        )
    ),
    ("[" + 309 * "9" + "]", request(1, "m", [10**309 - 1]), REJECTED),
    ("[" + 4301 * "9" + "]", REJECTED, REJECTED),
    ("[1e400]", *(2 * [text_fault("MALFORMED_JSON", 47)])),
]


@rows(("params", "exact", "rejected"), BIG_INTS, ids=[case[0][:30] for case in BIG_INTS])
def test_big_ints(impl: ModuleType, params: str, exact: Description, rejected: Description) -> None:
    text = fill('{"jsonrpc":"2.0","id":1,"method":"m","params":%s}', params)
    assert repr(describe(impl.decode(text))) == repr(exact)
    assert repr(describe(impl.decode(text, JSONRPC.replace(big_ints="reject")))) == repr(rejected)


@rows("place", range(20))
def test_a_wide_integer_is_found_at_any_place(impl: ModuleType, place: int) -> None:
    text = fill('{"jsonrpc":"2.0","id":1,"result":["%s",-9223372036854775809]}', "x" * place)
    assert impl.decode(text, JSONRPC).result[1] == -(2**63) - 1
    assert describe(impl.decode(text, JSONRPC.replace(big_ints="reject"))) == fault("INTEGER_TOO_LARGE", 1, reply=False)


def test_as_many_digits_as_the_interpreter_converts(impl: ModuleType) -> None:
    text = '{"jsonrpc":"2.0","id":1,"result":%s}'
    assert impl.decode(text % (4300 * "9")).result == 10**4300 - 1
    assert describe(impl.decode(text % (4301 * "9"))) == fault("INTEGER_TOO_LARGE", 1, reply=False)
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert describe(impl.decode(text % (641 * "9"))) == fault("INTEGER_TOO_LARGE", 1, reply=False)
        widest = JSONRPC.replace(limits=Limits(id_bytes=640))
        message = impl.decode(fill('{"jsonrpc":"2.0","id":%s,"result":1}', 640 * "9"), widest)
        assert message.to_bytes() == b'{"jsonrpc":"2.0","id":%b,"result":1}' % (640 * b"9")
    finally:
        sys.set_int_max_str_digits(before)


@rows("exponent", [1, 3, 40, 900, 1023, 2045])
def test_numbers_halfway_between_two_doubles(impl: ModuleType, exponent: int) -> None:
    """Of any number of digits, read as `float` reads them; orjson is one unit off for some of 769 digits and more."""
    for fraction in (0, 0xFFFFFFFFFFFFE):
        low, high = (struct.unpack("d", struct.pack("q", exponent << 52 | fraction + step))[0] for step in (0, 1))
        with localcontext(prec=1500):
            half = format((Decimal(low) + Decimal(high)) / 2, "f")
        half += "" if "." in half else ".0"
        for tail in ("", "0", "1", 300 * "0", 900 * "0" + "1"):
            for token in (half + tail, "-" + half + tail, half + tail + "e0"):
                text = fill('{"jsonrpc":"2.0","id":1,"result":[%s]}', token)
                found = impl.decode(text)
                for value in (
                    found.result,
                    impl.decode(text, raw=True).result.decode(),
                    impl.decode_dict(text)["result"],
                ):
                    assert [number.hex() for number in value] == [float(token).hex()]
                assert impl.Raw(token).decode() == float(token)


TINY = [
    *("9999999999999999999e-344", "99999999999999999999.9e-344", "9999999999999999999e-343", "1e-400", "-1e-400"),
    *("1e-99999", "1e-999999999", "1e-00000400", "1e-000000000400", "2.4703282292062327e-324", "4e-324"),
    *("2.4703282292062328e-324", "24703282292062327208e-343", "24703282292062327209e-343", "9.9e-310"),
    *(f"0.{400 * '0'}1", f"0.{400 * '0'}1e390", f"1{400 * '0'}e-744", f"1{400 * '0'}e-745"),
]
"""Numbers about the smallest double, on both sides of what is certainly nearer to zero."""


@rows("token", TINY, ids=[token[:30] for token in TINY])
def test_numbers_near_the_smallest_double(impl: ModuleType, token: str) -> None:
    found = impl.decode(fill('{"jsonrpc":"2.0","id":1,"result":%s}', token)).result
    assert found.hex() == float(token).hex()


def test_big_ints_outside_payloads(impl: ModuleType) -> None:
    reject = JSONRPC.replace(big_ints="reject")
    code = fill('{"jsonrpc":"2.0","id":1,"error":{"code":%s,"message":"e"}}', WIDE)
    assert describe(impl.decode(code)) == fault("INVALID_ERROR_CODE", 1, reply=False)
    assert describe(impl.decode(code, reject)) == fault("INTEGER_TOO_LARGE", 1, reply=False)
    unknown = fill('{"jsonrpc":"2.0","id":%s,"result":1,"x":%s}', WIDE, WIDE)
    for profile in (JSONRPC, reject):
        assert describe(impl.decode(unknown, profile)) == result(int(WIDE), 1)
    batch = fill('[{"jsonrpc":"2.0","id":1,"result":%s},{"jsonrpc":"2.0","id":2,"result":1}]', WIDE)
    assert describe(impl.decode(batch)) == [result(1, int(WIDE)), result(2, 1)]
    assert describe(impl.decode(batch, reject)) == [fault("INTEGER_TOO_LARGE", 1, reply=False, index=0), result(2, 1)]
