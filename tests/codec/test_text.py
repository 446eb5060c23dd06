"""The byte at which a text stops being JSON, and the verdicts of JSONTestSuite."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast.profile import JSONRPC

from ..support.describe import describe, fault, fill, request, result, text_fault
from ..support.oracle import orjson
from ..support.tables import rows
from ..vectors import read

FAULTS = [(row["text"], row["fault"], row["offset"]) for row in read("faults_of_texts")]
NAMES = [f"{row['row']} {number}" for number, row in enumerate(read("faults_of_texts"))]
HEAD = b'{"jsonrpc":"2.0","id":"\xc3\xa9","method":"m","params":'


@rows(("text", "code", "offset"), FAULTS, ids=NAMES)
def test_faults(impl: ModuleType, text: bytes, code: str, offset: int) -> None:
    expected = text_fault(code, offset)
    assert describe(impl.decode(text)) == expected
    assert describe(impl.decode(text, JSONRPC.replace(big_ints="exact"))) == expected
    if code == "MALFORMED_JSON":
        assert describe(impl.decode(text.decode())) == expected


@rows(("text", "code", "offset"), FAULTS, ids=NAMES)
def test_faults_in_a_payload(impl: ModuleType, text: bytes, code: str, offset: int) -> None:
    if text in (b"{}}", b"{},"):
        return  # it continues like a message
    assert describe(impl.decode(HEAD + text)) == text_fault(code, len(HEAD) + offset)
    assert describe(impl.decode(b"[[]," + HEAD + text)) == text_fault(code, 4 + len(HEAD) + offset)


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
    assert repr(describe(impl.decode(message, JSONRPC.replace(big_ints="exact")))) == repr(result(1, row["value"]))


@rows("row", read("wide_numbers"), ids=lambda row: ascii(row["text"]))
def test_wide_numbers(impl: ModuleType, row: dict[str, Any]) -> None:
    for profile, offset in ((JSONRPC, row["offset"]), (JSONRPC.replace(big_ints="exact"), row["offset_exact"])):
        found = describe(impl.decode(row["text"], profile))
        if offset is None:
            assert "MALFORMED_JSON" not in repr(found)
        else:
            assert found == text_fault("MALFORMED_JSON", offset)


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
