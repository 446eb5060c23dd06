"""Ids: the response carries the same number, or the message is refused."""

from __future__ import annotations

import itertools
from decimal import Decimal
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.framing.frames import frame
from jsonrpc_fast.profile import JSONRPC, LSP, MCP_2025_11_25, PRESETS, Limits, Profile

from ..support.describe import Description, describe, fault, fill, request, result, text_fault
from ..support.oracle import orjson
from ..support.tables import rows

WIDEST = JSONRPC.replace(limits=Limits(id_bytes=640))
DIGITS = [1, 17, 18, 19, 20, 21, 40, 308, 309, 310, 400, 511, 512]


def text_with(id: str) -> str:
    return fill('{"jsonrpc":"2.0","id":%s,"method":"m","params":{"a":1}}', id)


def echo(impl: ModuleType, message: object) -> bytes:
    return impl.encode_result(message.id, None, delimited=False)  # type: ignore[attr-defined]


@rows("count", DIGITS)
@rows("digit", ["1", "9"])
def test_integers_of_any_width(impl: ModuleType, count: int, digit: str) -> None:
    token = count * digit
    for profile in PRESETS.values():
        message = impl.decode(text_with(token), profile)
        assert describe(message) == request(int(token), "m", {"a": 1})
        assert type(message.id) is int
    assert echo(impl, impl.decode(text_with(token))) == b'{"jsonrpc":"2.0","id":%b,"result":null}' % token.encode()


@rows("count", [count for count in DIGITS if count < 512])
def test_negative_integers_of_any_width(impl: ModuleType, count: int) -> None:
    token = "-" + count * "8"
    message = impl.decode(fill('{"jsonrpc":"2.0","id":%s,"result":1}', token))
    assert describe(message) == result(int(token), 1)
    [in_a_batch] = impl.decode(fill('[{"jsonrpc":"2.0","id":%s,"result":1}]', token))
    assert describe(in_a_batch) == result(int(token), 1)
    assert echo(impl, message) == b'{"jsonrpc":"2.0","id":%b,"result":null}' % token.encode()


def test_more_digits_than_the_limit(impl: ModuleType) -> None:
    for token in (513 * "1", "-" + 512 * "1", 5000 * "9", "1." + 511 * "0", "1e" + 511 * "0"):
        assert describe(impl.decode(text_with(token))) == fault("ID_TOO_LONG")
    assert describe(impl.decode(text_with(640 * "1"), WIDEST)) == request(int(640 * "1"), "m", {"a": 1})
    assert describe(impl.decode(text_with(641 * "1"), WIDEST)) == fault("ID_TOO_LONG")


def test_more_digits_than_the_interpreter_converts(impl: ModuleType) -> None:
    # This int cannot be converted from a text, but it can be computed.
    obj = {"jsonrpc": "2.0", "id": 10**5000, "method": "m"}
    assert describe(impl.parse(obj)) == fault("ID_TOO_LONG")
    assert describe(impl.parse({**obj, "id": -(10**5000)}, WIDEST)) == fault("ID_TOO_LONG")


@rows(
    "id", [2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64, 2**64 + 1, -(2**63), -(2**63) - 1, 2**53 + 1, 10**18, 10**19]
)
def test_around_64_bits(impl: ModuleType, id: int) -> None:
    assert describe(impl.decode(text_with(str(id)))) == request(id, "m", {"a": 1})
    assert describe(impl.parse({"jsonrpc": "2.0", "id": id, "method": "m"})) == request(id, "m")
    assert impl.encode_request(id, "m") == b'{"jsonrpc":"2.0","id":%d,"method":"m"}\n' % id


ECHOED = [
    ("0.1", 0.1),
    ("1.5", 1.5),
    ("-2.25", -2.25),
    ("1.0", 1.0),
    ("1.50", 1.5),
    ("1e2", 100.0),
    ("1E+2", 100.0),
    ("100e-2", 1.0),
    ("0.0", 0.0),
    ("0e5", 0.0),
    ("0.000e-7", 0.0),
    ("-0.0", -0.0),
    ("-0e1", -0.0),
    ("1e22", 1e22),
    ("1e0000000000000000022", 1e22),
    ("5e-324", 5e-324),
    ("1.7976931348623157e308", 1.7976931348623157e308),
    ("12345678901234568.0", 12345678901234568.0),
    ("18446744073709552000.0", 18446744073709551616.0),
    ("0.30000000000000004", 0.30000000000000004),
    ("12345678901234567.8", None),
    ("12345678901234567.0e0", None),
    ("0.1000000000000000055511151231257827", None),
    ("1.0000000000000001", None),
    ("9007199254740993.0", None),
    ("18446744073709551616.0", None),
    ("1e-400", None),
    ("1e-99999999999999999999", None),
    ("4e-324", None),
    ("1.23e-400", None),
]


@rows(("token", "id"), ECHOED)
def test_fractions_and_exponents(impl: ModuleType, token: str, id: float | None) -> None:
    decoded = impl.decode(text_with(token))
    if id is None:
        assert describe(decoded) == fault("INVALID_ID_TYPE")
    else:
        assert repr(describe(decoded)) == repr(request(id, "m", {"a": 1}))
        assert repr(orjson.loads(echo(impl, decoded))["id"]) == repr(id)
    for profile in (LSP, MCP_2025_11_25):
        assert describe(impl.decode(text_with(token), profile)) == fault("INVALID_ID_TYPE")


@rows("token", ["1e309", "-1e309", "1e400", "1.8e308", "0.1e310", "1e99999999999999999999"])
def test_beyond_a_double(impl: ModuleType, token: str) -> None:
    assert impl.decode(text_with(token)).code.name == "MALFORMED_JSON"


def test_minus_zero(impl: ModuleType) -> None:
    assert repr(impl.decode(text_with("-0")).id) == "0"


@rows("id", [float("nan"), float("inf"), float("-inf")])
def test_a_dict_may_hold_values_that_json_cannot(impl: ModuleType, id: float) -> None:
    assert describe(impl.parse({"jsonrpc": "2.0", "id": id, "method": "m"})) == fault("INVALID_ID_TYPE")


@rows("id", ["\ud800", "a\udfff", b"bytes", (1,), object()])
def test_a_dict_may_hold_ids_that_cannot_be_echoed(impl: ModuleType, id: object) -> None:
    assert describe(impl.parse({"jsonrpc": "2.0", "id": id, "result": 1})) == fault("INVALID_ID_TYPE", reply=False)


@given(token=st.from_regex(r"\A-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?\Z"))
def test_an_accepted_number_is_echoed_unchanged(impl: ModuleType, token: str) -> None:
    message = impl.decode(text_with(token))
    if type(message) is impl.Request:
        id = echo(impl, message).removeprefix(b'{"jsonrpc":"2.0","id":').removesuffix(b',"result":null}')
        assert Decimal(id.decode()) == Decimal(token)
    else:
        assert message.code.name in ("INVALID_ID_TYPE", "MALFORMED_JSON")


@given(id=st.integers(-(10**511) + 1, 10**512 - 1))
def test_any_integer(impl: ModuleType, id: int) -> None:
    assert impl.decode(text_with(str(id))).id == id


@given(id=st.floats(allow_nan=False, allow_infinity=False))
def test_any_float(impl: ModuleType, id: float) -> None:
    text = orjson.dumps({"jsonrpc": "2.0", "id": id, "method": "m"})
    decoded = impl.decode(text).id
    assert repr(decoded) == repr(id)


@given(id=st.text(st.characters(exclude_categories=["Cs"]), max_size=100))
def test_any_text(impl: ModuleType, id: str) -> None:
    assert impl.decode(orjson.dumps({"jsonrpc": "2.0", "id": id, "method": "m"})).id == id


def decoded(impl: ModuleType, text: bytes, profile: Profile) -> Description:
    """The result of `decode`, which must be the same in every framing, eager and raw, in one chunk and byte by byte.

    After 150 bytes, seven by seven: that is the middle of a long string.
    """
    found = describe(impl.decode(text, profile))
    assert describe(impl.decode(text, profile, raw=True)) == found
    assert describe(impl.decode(text.decode("utf-8", "replace") if b"\xff" not in text else text, profile)) == found
    for framing in ("newline", "content-length", "sse"):
        data = frame(text, framing)
        for raw in (False, True):
            ends = [*range(min(150, len(data))), *range(150, len(data), 7), len(data)]
            for chunks in ([data], [data[start:end] for start, end in itertools.pairwise(ends)]):
                decoder = impl.Decoder(framing, profile, raw=raw)
                items = [item for chunk in chunks for item in decoder.feed(chunk)] + decoder.close()
                assert [describe(item) for item in items] == [found], framing
    return found


LONE = rb'"\ud800"'


@rows(
    ("text", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":["\\ud800"]}', (1, True)),
        (b'{"params":["\\ud800"],"method":"m","jsonrpc":"2.0","id":"x"}', ("x", True)),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\ud83d"}}', (1, False)),
        (b' {"result" : "\\ude00\\ud83d" , "id" : 1.5 } ', (1.5, False)),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"\\udfff"}}', (1, False)),
        (b'{"jsonrpc":"2.0","method":"m","params":["\\ud800"]}', (None, False)),
        (b'{"jsonrpc":"2.0","method":1,"params":["\\ud800"]}', (None, True)),
        (b'{"jsonrpc":"2.0","id":1,"x":"\\ud800"}', (1, True)),
        (b'{"jsonrpc":"2.0","id":1,"\\ud800":{"id":2}}', (1, True)),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":["\\\\","\\"","\\ud800"]}', (1, True)),
        (b'{"jsonrpc":"2.0","id":"a\\\\\\"\\n","method":"m","params":["\\ud800"]}', ('a\\"\n', True)),
        # no certain id
        (b'{"jsonrpc":"2.0","id":1,"id":2,"result":"\\ud800"}', (None, False)),
        (b'{"jsonrpc":"2.0","id":1,"\\u0069d":2,"result":"\\ud800"}', (None, False)),
        (b'{"jsonrpc":"2.0","id":"\\ud800","result":1}', (None, False)),
        (b'{"jsonrpc":"2.0","id":[],"result":"\\ud800"}', (None, False)),
        (b'{"jsonrpc":"2.0","id":null,"method":"\\ud800"}', (None, True)),
        (b'{"jsonrpc":"2.0","id":1,"result":"\\ud800"', (None, False)),
        (b'{"jsonrpc":"2.0","id":1,"result":"\\ud800"}}', (None, False)),
        (b'{"jsonrpc":"2.0","id":1,"result":["\\ud800",NaN]}', (None, False)),
        (b'{"jsonrpc":"2.0","id":1,"result":["\\ud800",1e999]}', (None, False)),
        (b'{"jsonrpc":"2.0","id":1,"result":["\\ud800","\\x"]}', (None, False)),
        (b'{"jsonrpc":"2.0","id":1,"result":["\\x","\\ud800"]}', (None, False)),
        (b'[{"jsonrpc":"2.0","id":1,"result":"\\ud800"}]', (None, False)),
        (b'["\\ud800"]', (None, True)),
    ],
)
def test_a_lone_surrogate_leaves_the_id_known(impl: ModuleType, text: bytes, expected: tuple[object, bool]) -> None:
    fault = decoded(impl, text, JSONRPC)
    assert fault[1] == "MALFORMED_JSON"
    assert (fault[3], fault[6]) == expected


def test_a_lone_surrogate_and_an_id_that_the_profile_refuses(impl: ModuleType) -> None:
    text = b'{"jsonrpc":"2.0","id":1.5,"result":"\\ud800"}'
    assert decoded(impl, text, LSP) == text_fault("MALFORMED_JSON", 36, reply=False)
    text = b'{"jsonrpc":"2.0","id":"%b","result":"\\ud800"}' % (513 * b"i")
    assert decoded(impl, text, JSONRPC) == text_fault("MALFORMED_JSON", 548, reply=False)


BLOB = 2000 * b"x"


@rows(
    ("text", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":["%b"]}', (1, True)),
        (b' {"method" : "m" , "id" : "x" , "params" : ["%b"] }', ("x", True)),
        (b'{"jsonrpc":"2.0","id":1,"params":["%b"]}', (1, True)),
        (b'{"jsonrpc":"2.0","id":-1,"result":"%b"}', (-1, False)),
        (b'{"jsonrpc":"2.0","id":1,"error":{"message":"%b"}}', (1, False)),
        (b'{"jsonrpc":"2.0","\\u0069d":1,"error":{"message":"%b"}}', (1, False)),
        (b'{"jsonrpc":"2.0","id":1,"result":["\\ud800","%b"]}', (1, False)),
        (b'{"jsonrpc":"2.0","id":"\\u00e9\xc3\xa9","result":"\xf0\x9f\x98\x80%b"}', ("éé", False)),
        (b'{"id":1,"result":%b', (None, True)),
        (b'{"id":1,"result":"%b', (1, False)),
        # it may be a request or a response
        (b'{"jsonrpc":"2.0","id":1,"x":"%b"}', (None, True)),
        (b'{"jsonrpc":"2.0","id":1}%b', (None, True)),
        # the id is not known
        (b'{"jsonrpc":"2.0","method":"m","params":["%b"],"id":1}', (None, True)),
        (b'{"result":"%b","jsonrpc":"2.0","id":1}', (None, False)),
        (b'{"id":1,"id":1,"result":"%b"}', (None, False)),
        (b'{"id":1,"result":1,"result":"%b"}', (None, False)),
        (b'{"id":1,"method":"m","id":"%b"}', (None, True)),
        (b'{"id":null,"method":"%b"}', (None, True)),
        (b'{"id":"\\ud800","method":"%b"}', (None, True)),
        (b'{"id":{"id":1},"method":"%b"}', (None, True)),
        (b'{"a":{"id":1},"method":"%b"}', (None, True)),
        # not the beginning of JSON
        (b'{"id":1,"method":m,"params":"%b"}', (None, True)),
        (b'{"id":1,"method":"\\x","params":"%b"}', (None, True)),
        (b'{"id":1,"method":"\xff","params":"%b"}', (None, True)),
        (b'[{"id":1,"method":"%b"}]', (None, True)),
        (b'"%b"', (None, True)),
    ],
)
@rows("limit", [1000, 2000])
@pytest.mark.ci
def test_the_id_in_the_beginning_of_a_text_over_the_limit(
    impl: ModuleType, text: bytes, expected: tuple[object, bool], limit: int
) -> None:
    fault = decoded(impl, text % BLOB, JSONRPC.replace(limits=Limits(message_bytes=limit)))
    assert fault[:3] == ("ParseError", "MESSAGE_TOO_LARGE", -32600)
    assert (fault[3], fault[6]) == expected


@pytest.mark.slow
def test_where_the_beginning_of_a_text_over_the_limit_ends(impl: ModuleType) -> None:
    """At every byte: in the id, in the names before and after it, in a character of several bytes."""
    text = b'{"method":"\xf0\x9f\x98\x80","id":123,"params":[]}' + 2000 * b" "
    certain = text.index(b",", 20)
    for size in range(1, 40):
        found = decoded(impl, text, JSONRPC.replace(limits=Limits(message_bytes=size)))
        assert (found[3], found[6]) == (123 if size > certain else None, True)
    # The limit may be larger than the part that is read.
    pad = 2000 * b" "
    for at, id in ((1024, 123), (1023, None)):
        padded = pad[: at - certain - 1] + text
        assert padded.index(b",", certain) <= at
        found = decoded(impl, padded, JSONRPC.replace(limits=Limits(message_bytes=1500)))
        assert found[3] == (123 if padded.index(b',"params') < 1024 else None), id


def test_the_end_of_the_stream_in_a_body_over_the_limit(impl: ModuleType) -> None:
    decoder = impl.Decoder("content-length", limits=Limits(message_bytes=100))
    text = b'{"jsonrpc":"2.0","id":1,"result":"'
    assert decoder.feed(b"Content-Length: 1000\r\n\r\n" + text) == []
    assert [describe(item) for item in decoder.close()] == [fault("MESSAGE_TOO_LARGE", 1, reply=False)]


def test_an_id_after_the_beginning_is_not_read(impl: ModuleType) -> None:
    """The id may occur again after the part that is read: the fault carries the first."""
    text = b'{"jsonrpc":"2.0","id":1,"result":"%b","id":2}' % BLOB
    limited = JSONRPC.replace(limits=Limits(message_bytes=1500))
    assert decoded(impl, text, limited) == fault("MESSAGE_TOO_LARGE", 1, reply=False)
