"""The input of `decode`, `parse`, `from_dict` and `classify`, and wide integers in payloads."""

from __future__ import annotations

import enum
import sys
from array import array
from collections import OrderedDict
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast.profile import JSONRPC, Limits

from ..support.describe import Description, describe, fault, fill, notification, request, result, text_fault
from ..support.tables import rows

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


@rows("obj", [None, 1, 1.5, "a", True, (), ({},), b"{}", object(), {1, 2}])
def test_parse_of_values_that_are_not_dicts(impl: ModuleType, obj: object) -> None:
    assert describe(impl.parse(obj)) == fault("NOT_AN_OBJECT")
    for cls in (impl.Request, impl.Notification, impl.Response, impl.Error):
        assert cls.from_dict(obj) is None


@rows("obj", [[], [{}], [{"jsonrpc": "2.0", "id": 1, "method": "m"}], [[]]])
def test_from_dict_does_not_accept_a_list(impl: ModuleType, obj: list[object]) -> None:
    assert isinstance(impl.parse(obj), list) or describe(impl.parse(obj)) == fault("EMPTY_BATCH")
    for cls in (impl.Request, impl.Notification, impl.Response, impl.Error):
        assert cls.from_dict(obj) is None


class Word(str, enum.Enum):
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


@rows("params", [(), (1,), {1, 2}, b"{}", 1j])
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
BIG_INTS: list[tuple[str, Description, Description, Description]] = [
    # params, and the message with "float", "exact" and "reject"
    (f"[{WIDE}]", request(1, "m", [1.2345678901234568e29]), request(1, "m", [int(WIDE)]), REJECTED),
    (
        f'{{"a":[-{WIDE}]}}',
        request(1, "m", {"a": [-1.2345678901234568e29]}),
        request(1, "m", {"a": [-int(WIDE)]}),
        REJECTED,
    ),
    ("[18446744073709551616]", request(1, "m", [2.0**64]), request(1, "m", [2**64]), REJECTED),
    ("[-9223372036854775809]", request(1, "m", [-float(2**63)]), request(1, "m", [-(2**63) - 1]), REJECTED),
    *(
        (f"[{value}]", request(1, "m", [value]), request(1, "m", [value]), request(1, "m", [value]))
        for value in (2**64 - 1, 2**63, 2**63 - 1, -(2**63), 10**18, 0)
    ),
    *(
        (params, request(1, "m", value), request(1, "m", value), request(1, "m", value))
        for params, value in (
            (f'["{WIDE}"]', [WIDE]),
            (f'{{"{WIDE}":1}}', {WIDE: 1}),
            (rf'["\"{WIDE}"]', [f'"{WIDE}']),
            (f"[{WIDE}.0]", [1.2345678901234568e29]),
            (f"[{WIDE}e1]", [1.2345678901234568e30]),
        )
    ),
    ("[" + 309 * "9" + "]", text_fault("MALFORMED_JSON", 47), request(1, "m", [10**309 - 1]), REJECTED),
    ("[" + 4301 * "9" + "]", text_fault("MALFORMED_JSON", 47), REJECTED, REJECTED),
    ("[1e400]", *(3 * [text_fault("MALFORMED_JSON", 47)])),
]


@rows(("params", "as_float", "exact", "rejected"), BIG_INTS, ids=[case[0][:30] for case in BIG_INTS])
def test_big_ints(
    impl: ModuleType, params: str, as_float: Description, exact: Description, rejected: Description
) -> None:
    text = fill('{"jsonrpc":"2.0","id":1,"method":"m","params":%s}', params)
    for mode, expected in (("float", as_float), ("exact", exact), ("reject", rejected)):
        assert repr(describe(impl.decode(text, JSONRPC.replace(big_ints=mode)))) == repr(expected)


@rows("place", range(20))
def test_a_wide_integer_is_found_at_any_place(impl: ModuleType, place: int) -> None:
    text = fill('{"jsonrpc":"2.0","id":1,"result":["%s",-9223372036854775809]}', "x" * place)
    assert impl.decode(text, JSONRPC.replace(big_ints="exact")).result[1] == -(2**63) - 1
    assert describe(impl.decode(text, JSONRPC.replace(big_ints="reject"))) == fault("INTEGER_TOO_LARGE", 1, reply=False)


def test_as_many_digits_as_the_interpreter_converts(impl: ModuleType) -> None:
    text = '{"jsonrpc":"2.0","id":1,"result":%s}'
    profile = JSONRPC.replace(big_ints="exact")
    assert impl.decode(text % (4300 * "9"), profile).result == 10**4300 - 1
    assert describe(impl.decode(text % (4301 * "9"), profile)) == fault("INTEGER_TOO_LARGE", 1, reply=False)
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert describe(impl.decode(text % (641 * "9"), profile)) == fault("INTEGER_TOO_LARGE", 1, reply=False)
        widest = JSONRPC.replace(limits=Limits(id_bytes=640))
        message = impl.decode(fill('{"jsonrpc":"2.0","id":%s,"result":1}', 640 * "9"), widest)
        assert message.to_bytes() == b'{"jsonrpc":"2.0","id":%b,"result":1}' % (640 * b"9")
    finally:
        sys.set_int_max_str_digits(before)


def test_big_ints_outside_payloads(impl: ModuleType) -> None:
    exact, reject = (JSONRPC.replace(big_ints=mode) for mode in ("exact", "reject"))
    code = fill('{"jsonrpc":"2.0","id":1,"error":{"code":%s,"message":"e"}}', WIDE)
    assert describe(impl.decode(code)) == fault("INVALID_ERROR_CODE", 1, reply=False)
    assert describe(impl.decode(code, exact)) == fault("INVALID_ERROR_CODE", 1, reply=False)
    assert describe(impl.decode(code, reject)) == fault("INTEGER_TOO_LARGE", 1, reply=False)
    unknown = fill('{"jsonrpc":"2.0","id":%s,"result":1,"x":%s}', WIDE, WIDE)
    for profile in (JSONRPC, exact, reject):
        assert describe(impl.decode(unknown, profile)) == result(int(WIDE), 1)
    batch = fill('[{"jsonrpc":"2.0","id":1,"result":%s},{"jsonrpc":"2.0","id":2,"result":1}]', WIDE)
    assert describe(impl.decode(batch, exact)) == [result(1, int(WIDE)), result(2, 1)]
    assert describe(impl.decode(batch, reject)) == [fault("INTEGER_TOO_LARGE", 1, reply=False, index=0), result(2, 1)]
