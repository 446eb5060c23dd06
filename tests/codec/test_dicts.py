"""`decode_dict` and `encode_dict`: messages as dicts, without loss."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.errors import EncodeError
from jsonrpc_fast.profile import JSONRPC, JSONRPC_1, LENIENT, Limits, Profile

from ..fuzz.mutate import mutants
from ..support.comparison import Backends, assert_same
from ..support.oracle import orjson
from ..support.tables import rows


@rows(
    ("text", "profile", "expected"),
    [
        (
            b'{"jsonrpc":"2.0","id":1,"method":"m","a":[1]}',
            JSONRPC,
            {"jsonrpc": "2.0", "id": 1, "method": "m", "a": [1]},
        ),
        (
            b' {"id": 1, "error": null, "jsonrpc": "2.0", "result": 3}\n',
            LENIENT,
            {"id": 1, "error": None, "jsonrpc": "2.0", "result": 3},
        ),
        (b'{"method":"m","params":null,"jsonrpc":"2.0"}', LENIENT, {"method": "m", "params": None, "jsonrpc": "2.0"}),
        (b'{"method":"m","params":[],"id":null}', JSONRPC_1, {"method": "m", "params": [], "id": None}),
        (
            b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"e","data":null,"hint":2}}',
            JSONRPC,
            {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "e", "data": None, "hint": 2}},
        ),
    ],
)
def test_decode_loses_nothing(impl: ModuleType, text: bytes, profile: Profile, expected: dict[str, Any]) -> None:
    for data in (text, bytearray(text), memoryview(text), text.decode()):
        found = impl.decode_dict(data, profile)
        assert found == expected
        assert list(found) == list(expected)


@rows("digits", [20, 40, 308, 309, 512])
def test_ids_of_any_width(impl: ModuleType, digits: int) -> None:
    id = 10**digits - 1
    text = b'{"jsonrpc":"2.0","\\u0069d":%d,"result":"\xc3\xa9"}' % id
    assert impl.decode_dict(text) == {"jsonrpc": "2.0", "id": id, "result": "é"}
    assert impl.decode_dict(b"[%b,1]" % text)[0]["id"] == id
    written = b'{"jsonrpc":"2.0","id":%d,"result":"\xc3\xa9"}' % id
    assert impl.encode_dict(impl.decode_dict(text), delimited=False) == written


def test_ids_with_a_fraction(impl: ModuleType) -> None:
    assert impl.decode_dict(b'{"jsonrpc":"2.0","id":1.50,"result":1}')["id"] == 1.5


def test_integers_in_payloads(impl: ModuleType) -> None:
    text = b'{"jsonrpc":"2.0","id":1,"result":[123456789012345678901],"a":123456789012345678901}'
    assert impl.decode_dict(text)["a"] == 1.2345678901234568e20
    exact = impl.decode_dict(text, JSONRPC.replace(big_ints="exact"))
    assert (exact["result"], exact["a"]) == ([123456789012345678901], 123456789012345678901)
    with pytest.raises(impl.ParseError, match="larger than the profile allows"):
        impl.decode_dict(text, JSONRPC.replace(big_ints="reject"))


@rows("around", [b"%b", b"[%b]"])
def test_as_deep_as_decode(impl: ModuleType, around: bytes) -> None:
    text = b'{"jsonrpc":"2.0","id":1,"b":{},"result":%b,"a":2}' % (b"[" * 1024 + b"]" * 1024)
    found = impl.decode_dict(around % text)
    message = found[0] if isinstance(found, list) else found
    assert list(message) == ["jsonrpc", "id", "b", "result", "a"]
    depth, value = 0, message["result"]
    while value:
        depth, value = depth + 1, value[0]
    assert depth == 1023


def test_faults_are_raised(impl: ModuleType) -> None:
    for text in (
        b"",
        b"x",
        b"[]",
        b"1",
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}',
        "\ud800",
    ):
        fault = impl.decode(text)
        with pytest.raises(impl.ParseError) as caught:
            impl.decode_dict(text)
        assert caught.value == fault
    with pytest.raises(impl.ParseError) as caught:
        impl.decode_dict(b'{"jsonrpc":"2.0","id":1,"method":"m","a":1}', JSONRPC.replace(extra_members=False))
    assert (caught.value.code.name, caught.value.id) == ("UNEXPECTED_MEMBER", 1)


def test_each_item_of_a_batch_on_its_own(impl: ModuleType) -> None:
    text = b'[{"jsonrpc":"2.0","method":"m","a":1},7,{"jsonrpc":"2.0","id":%b,"method":"m"}]'
    found = impl.decode_dict(text % b"1")
    assert found[0] == {"jsonrpc": "2.0", "method": "m", "a": 1}
    assert (found[1].code.name, found[1].index) == ("NOT_AN_OBJECT", 1)
    assert found[2] == {"jsonrpc": "2.0", "id": 1, "method": "m"}
    found = impl.decode_dict(text % (b"9" * 5000))
    assert found[0] == {"jsonrpc": "2.0", "method": "m", "a": 1}
    assert (found[2].code.name, found[2].index) == ("ID_TOO_LONG", 2)


def test_an_unknown_member_too_large_for_a_float(impl: ModuleType) -> None:
    for profile in (JSONRPC.replace(big_ints="exact"), JSONRPC.replace(big_ints="reject")):
        found = impl.decode_dict(b'{"jsonrpc":"2.0","id":1,"method":"m","a":[%b]}' % (b"9" * 310), profile)
        assert found == {"jsonrpc": "2.0", "id": 1, "method": "m", "a": [10**310 - 1]}


def test_encode(impl: ModuleType) -> None:
    message = {"id": 1, "jsonrpc": "2.0", "trace": {"a": "é"}, "method": "m"}
    assert impl.encode_dict(message) == '{"id":1,"jsonrpc":"2.0","trace":{"a":"é"},"method":"m"}\n'.encode()
    assert (
        impl.encode_dict([message, message], delimited=False)
        == (
            '[{"id":1,"jsonrpc":"2.0","trace":{"a":"é"},"method":"m"},{"id":1,"jsonrpc":"2.0","trace":{"a":"é"},"method":"m"}]'
        ).encode()
    )
    message = {"jsonrpc": "2.0", "id": 1, "result": {2, 1}}
    assert impl.encode_dict(message, default=sorted) == b'{"jsonrpc":"2.0","id":1,"result":[1,2]}\n'
    option = orjson.OPT_NON_STR_KEYS
    message = {"jsonrpc": "2.0", "id": 10**30, "result": {2: 1}, 3: 4}
    assert impl.encode_dict(message, option=option) == b'{"jsonrpc":"2.0","id":1%b,"result":{"2":1},"3":4}\n' % (
        b"0" * 30
    )


def test_encode_raw_payloads(impl: ModuleType) -> None:
    raw = impl.Raw(b'{"a":\n1.0}')
    assert impl.encode_dict({"params": raw, "jsonrpc": "2.0", "method": "m"}) == (
        b'{"params":{"a": 1.0},"jsonrpc":"2.0","method":"m"}\n'
    )
    error = {"code": 1, "message": "e", "data": raw, "hint": 2}
    assert impl.encode_dict({"jsonrpc": "2.0", "id": 1, "error": error}) == (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"e","data":{"a": 1.0},"hint":2}}\n'
    )


def test_encode_judges(impl: ModuleType) -> None:
    for message in ({}, [], None, 1, [{}], {"jsonrpc": "2.0", "id": True, "method": "m"}):
        fault = impl.parse(message)
        with pytest.raises(impl.ParseError) as caught:
            impl.encode_dict(message)
        assert caught.value == (fault[0] if isinstance(fault, list) else fault)
    with pytest.raises(impl.ParseError, match="does not define"):
        impl.encode_dict({"jsonrpc": "2.0", "method": "m", "a": 1}, JSONRPC.replace(extra_members=False))
    for value in ({1}, 2**64, "\ud800"):
        with pytest.raises(EncodeError):
            impl.encode_dict({"jsonrpc": "2.0", "id": 1, "result": value})
    with pytest.raises(EncodeError):
        impl.encode_dict({"jsonrpc": "2.0", "id": 1, "result": 1, 2: 3})


@given(text=mutants())
def test_agreement(backends: Backends, text: bytes) -> None:
    for profile in (JSONRPC, LENIENT.replace(big_ints="exact"), JSONRPC.replace(limits=Limits(depth=2, id_bytes=32))):
        assert_same(backends, lambda backend, profile=profile: backend.decode_dict(text, profile), lambda value: value)


@given(text=mutants(), spaces=st.sampled_from([b"", b" ", b"\n"]))
def test_what_is_written_is_read_again(impl: ModuleType, text: bytes, spaces: bytes) -> None:
    try:
        message = impl.decode_dict(spaces + text)
    except impl.ParseError:
        return
    if not (isinstance(message, list) and any(isinstance(item, impl.ParseError) for item in message)):
        assert impl.decode_dict(impl.encode_dict(message)) == message
