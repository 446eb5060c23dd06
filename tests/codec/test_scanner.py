"""The scanner against orjson: it accepts the same texts, and finds the place of each member."""

from __future__ import annotations

import json
import math
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.codec import _scanner
from jsonrpc_fast.codec._scanner import Envelope, Malformed, ScannedValue, scan

from ..fuzz.mutate import mutants
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


def is_utf_8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def fault_of(text: bytes, any_width: bool = False) -> int | None:
    """Where the scanner says that a text stops being JSON, or None."""
    try:
        scan(text, any_width=any_width, batch_items=10**9)
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
                # An id may be an integer too large for a double.
                assert is_deep or 309 * b"9" in text
    else:
        assert fault_of(text) is None
        assert fault_of(text, any_width=True) is None


def check_offset(text: bytes, offset: int) -> None:
    """The text before a fault can be continued to valid JSON; no more text can repair a fault before the end."""
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
    assert fault_of(row["text"], any_width=True) == row["offset_exact"]


@rows("row", read("faults_of_texts"), ids=lambda row: ascii(row["text"]))
def test_faults_of_texts(row: dict[str, Any]) -> None:
    if row["fault"] == "MALFORMED_JSON":
        assert fault_of(row["text"]) == row["offset"]


@rows("depth", [1, 254, 255, 1023, 1024, 1025, 5000, 100_000])
def test_depth(depth: int) -> None:
    text = b'{"params":' + depth * b"[" + depth * b"]" + b"}"
    [envelope] = scan(text, any_width=False, batch_items=1).envelopes
    assert envelope.depth == depth
    assert fault_of(depth * b'{"a":') == 5 * depth
    assert fault_of(depth * b"[" + (depth - 1) * b"]") == 2 * depth - 1


def envelopes(text: bytes, batch_items: int = 10) -> Any:
    return scan(text, any_width=False, batch_items=batch_items)


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
        assert envelope == Envelope({"id": ScannedValue(15, 16, 0, False)}, 1, duplicates=True)
        [envelope] = envelopes(b'{"x":1,"x":2}').envelopes
        assert envelope == Envelope({}, 0, duplicates=False, unexpected=True)

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


# Usual values in a row are one match of a pattern. The result is the same token by token.


def found(text: bytes, any_width: bool, batch_items: int) -> object:
    try:
        return scan(text, any_width=any_width, batch_items=batch_items)
    except Malformed as malformed:
        return malformed.offset


@given(seed=st.integers(min_value=0))
def test_usual_values_in_a_row_are_read_as_token_by_token(seed: int) -> None:
    text = message_with_many_members(random.Random(seed))
    for any_width in (False, True):
        for batch_items in (1, 10):
            with pytest.MonkeyPatch.context() as patch:
                for pattern in ("_usual_items", "_usual_members", "_unknown_members"):
                    patch.setattr(_scanner, pattern, re.compile(b"").match)
                expected = found(text, any_width, batch_items)
            assert found(text, any_width, batch_items) == expected


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
