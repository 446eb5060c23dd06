"""`Profile(floats="decimal")`: each number with a fraction or an exponent is a Decimal with the digits of its token."""

from __future__ import annotations

import decimal
import json
import pickle
import subprocess
import sys
import sysconfig
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jsonrpc_fast.codec._decimals import exact_decimal
from jsonrpc_fast.errors import EncodeError
from jsonrpc_fast.profile import JSONRPC, JSONRPC_1, Limits, Profile
from jsonrpc_fast.types import UNSET

from ..support import needs
from ..support.comparison import Backends, assert_same
from ..support.describe import describe, fault
from ..support.tables import rows

DECIMAL = JSONRPC.replace(floats="decimal")
RESULT = b'{"jsonrpc":"2.0","id":1,"result":%b}'
TOO_LARGE = "a Decimal is beyond a double, or its exponent is too large"
NOT_FINITE = "a Decimal that is not finite is not a JSON number"
WIDE = 2**64

PLACES = [
    b'{"jsonrpc":"2.0","id":1,"result":%b}',
    b'{"jsonrpc":"2.0","id":1,"method":"m","params":[%b]}',
    b' { "jsonrpc" : "2.0", "method" : "m", "params" : {"a": [{"b": %b}]} }',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m","data":%b}}',
    b'[{"jsonrpc":"2.0","id":1,"result":[%b]}]',
    b'{"result":[%b],"id":"\\u0061","jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 70 + b"%b" + b"]" * 70 + b"}",
]
"""Places for a payload that the fast paths and the slow paths read."""


def payload_of(item: Any, raw: bool) -> Any:
    """The innermost value of a message."""
    while isinstance(item, list):
        [item] = item
    value = getattr(item, "params", UNSET)
    if value is UNSET:
        value = item.result if item.error is None else item.error.data
    if raw:
        value = pickle.loads(pickle.dumps(value)).decode()
    while isinstance(value, (list, dict)):
        [value] = value.values() if isinstance(value, dict) else value
    return value


@rows(
    ("token", "value"),
    [
        ("1.10", "1.10"),
        ("0.1", "0.1"),
        ("-0.0", "-0.0"),
        ("0e5", "0E+5"),
        ("1e2", "1E+2"),
        ("1E+2", "1E+2"),
        ("20999999.97690000", "20999999.97690000"),
        ("12345678901234567890.123456789012345678901234567890", "12345678901234567890.123456789012345678901234567890"),
        ("0." + "1" * 400, "0." + "1" * 400),
        ("0." + "0" * 4999 + "1e5000", "1"),
        ("1e308", "1E+308"),
        ("1e-9999", "1E-9999"),
        ("1e-0000009", "1E-9"),
        ("0e9999", "0E+9999"),
    ],
)
def test_decimals(impl: ModuleType, token: str, value: str) -> None:
    for place in PLACES:
        text = place % token.encode()
        for raw in (False, True):
            found = payload_of(impl.decode(text, DECIMAL, raw=raw), raw)
            assert (type(found), repr(found)) == (Decimal, f"Decimal('{value}')"), (place, raw)


@rows(
    "token",
    ["0", "-0", "-7", str(2**64 - 1), str(-(2**63)), str(WIDE), str(-WIDE), '"1.5"', "true", "null", '"1e99999"'],
)
def test_other_values_are_as_they_were(impl: ModuleType, token: str) -> None:
    for place in PLACES:
        text = place % token.encode()
        for raw in (False, True):
            assert repr(payload_of(impl.decode(text, DECIMAL, raw=raw), raw)) == repr(
                payload_of(impl.decode(text, raw=raw), raw)
            )


def test_wide_integers(impl: ModuleType) -> None:
    text = RESULT % b"[18446744073709551616,1.5]"
    for raw in (False, True):
        found = impl.decode(text, DECIMAL, raw=raw).result
        assert repr(found.decode() if raw else found) == f"[{WIDE}, Decimal('1.5')]"
        refused = impl.decode(text, DECIMAL.replace(big_ints="reject"), raw=raw)
        assert describe(refused) == fault("INTEGER_TOO_LARGE", 1, reply=False)
    text = RESULT % b"9223372036854775807"
    assert impl.decode(text, DECIMAL.replace(big_ints="reject")).result == 2**63 - 1


@rows("token", [b"1e-10000", b"0e10000", b"1E-99999999999999999999", b"0e+0010000"])
def test_large_exponents(impl: ModuleType, token: bytes) -> None:
    """Operations with such a Decimal could take all memory."""
    for place in PLACES[:4]:
        for raw in (False, True):
            found = impl.decode(place % token, DECIMAL, raw=raw)
            assert found.code.name == "INTEGER_TOO_LARGE", place
            assert impl.decode(place % token, raw=raw).__class__.__name__ != "ParseError"
    in_string = RESULT % (b'["%b",1.5]' % token)
    assert repr(impl.decode(in_string, DECIMAL).result[1]) == "Decimal('1.5')"


@rows("token", [b"1e400", b"1.8e308", b"1" * 310, b"NaN", b"Infinity", b"1.", b".5", b"01.5", b"1e", b"1e+", b"1.5e"])
def test_what_is_no_number(impl: ModuleType, token: bytes) -> None:
    """The texts that are JSON are the same."""
    assert describe(impl.decode(RESULT % token, DECIMAL)) == describe(impl.decode(RESULT % token))


@rows(("token", "profile"), [(b"1" * 5000, DECIMAL), (b"1e-99999", DECIMAL)])
def test_a_value_that_another_one_replaces_is_checked(impl: ModuleType, token: bytes, profile: Profile) -> None:
    """Otherwise some paths read it and others do not, and decoding raises."""
    for place in PLACES:
        for raw in (False, True):
            found = impl.decode(place % (b'{"a":%b,"a":1.5}' % token), profile, raw=raw)
            found = found[0] if isinstance(found, list) else found
            assert found.code.name == "INTEGER_TOO_LARGE", place


def test_ids_and_codes_keep_their_rules(impl: ModuleType) -> None:
    for id, expected in (
        (b"1.5", "1.5"),
        (b"1e2", "100.0"),
        (b"1e-5", "1e-05"),
        (b"123456789012345678901", "123456789012345678901"),
    ):
        found = impl.decode(b'{"jsonrpc":"2.0","id":%b,"method":"m","params":[0.10]}' % id, DECIMAL)
        assert (repr(found.id), repr(found.params)) == (expected, "[Decimal('0.10')]")
    assert describe(impl.decode(b'{"jsonrpc":"2.0","id":12345678901234567.8,"method":"m"}', DECIMAL)) == fault(
        "INVALID_ID_TYPE"
    )
    error = b'{"jsonrpc":"2.0","id":1,"error":{"code":%b,"message":"m"}}'
    assert impl.decode(error % b"-1", DECIMAL).error.code == -1
    assert describe(impl.decode(error % b"1.0", DECIMAL)) == fault("INVALID_ERROR_CODE", 1, reply=False)


def test_extra_members(impl: ModuleType) -> None:
    keep = DECIMAL.replace(extra_members="keep")
    text = b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","x":0.10},"y":[0.20],"params":[0.30]}'
    found = impl.decode(text, keep)
    assert repr((found.error.extra, found.extra)) == (
        "({'x': Decimal('0.10')}, {'y': [Decimal('0.20')], 'params': [Decimal('0.30')]})"
    )
    ignored = b'{"jsonrpc":"2.0","id":1,"method":"m","y":1e-99999}'
    assert describe(impl.decode(ignored, keep)) == fault("INTEGER_TOO_LARGE", 1)
    assert impl.decode(ignored, DECIMAL) == impl.Request(1, "m")


def test_members_of_raw(impl: ModuleType) -> None:
    raw = impl.decode(RESULT % b'{"a":[1.10,{"b":2.20}],"c":3.30}', DECIMAL, raw=True).result
    assert repr(raw.get("/a/1/b").decode()) == "Decimal('2.20')"
    assert repr([value.decode() for _, value in raw.items()]) == (
        "[[Decimal('1.10'), {'b': Decimal('2.20')}], Decimal('3.30')]"
    )
    assert repr(impl.Raw(b"1.10").decode()) == "1.1"  # it has no profile


def test_streams(impl: ModuleType) -> None:
    decoder = impl.Decoder("newline", DECIMAL)
    text = b'{"jsonrpc":"2.0","method":"m","params":[1.10]}\n{"jsonrpc":"2.0","method":"m","params":[1e-2]}\n'
    found = [item for at in range(len(text)) for item in decoder.feed(text[at : at + 1])]
    assert repr([item.params for item in found]) == "[[Decimal('1.10')], [Decimal('0.01')]]"


def test_dicts(impl: ModuleType) -> None:
    text = b'{"jsonrpc":"2.0","id":1.5,"method":"m","params":[1.10],"x":2.20}'
    found = impl.decode_dict(text, DECIMAL)
    assert repr(found) == (
        "{'jsonrpc': '2.0', 'id': 1.5, 'method': 'm', 'params': [Decimal('1.10')], 'x': Decimal('2.20')}"
    )
    assert impl.encode_dict(found, DECIMAL, delimited=False) == text
    with pytest.raises(EncodeError):
        impl.encode_dict(found)


@rows(
    ("text", "profile"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"m","x":1e-99999}', DECIMAL),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","x":%b}' % (b"1" * 5000), JSONRPC),
    ],
)
def test_dicts_hold_every_member(impl: ModuleType, text: bytes, profile: Profile) -> None:
    """`decode` drops the member that cannot be read; a dict would lack it."""
    assert impl.decode(text, profile) == impl.Request(1, "m")
    with pytest.raises(impl.ParseError) as caught:
        impl.decode_dict(text, profile)
    assert describe(caught.value) == fault("INTEGER_TOO_LARGE", 1)
    usual = b'{"jsonrpc":"2.0","method":"m"}'
    first, second = impl.decode_dict(b"[%b,%b]" % (usual, text), profile, faults="keep")
    assert first == {"jsonrpc": "2.0", "method": "m"}
    assert describe(second) == fault("INTEGER_TOO_LARGE", 1, index=1)
    assert describe(impl.decode_dict(b"[%b]" % text.replace(b'"id":1,', b""), profile, faults="keep")) == [
        fault("INTEGER_TOO_LARGE", reply=False, index=0)
    ]


@rows(
    ("number", "token"),
    [
        ("1.10", "1.10"),
        ("5", "5"),
        ("-0", "-0"),
        ("-0.00", "-0.00"),
        ("0E+5", "0E+5"),
        ("1E-7", "1E-7"),
        ("0.00000000", "0E-8"),
        ("1E+308", "1E+308"),
        ("1E-9999", "1E-9999"),
        ("1" * 308 + "." + "1" * 5000, "1" * 308 + "." + "1" * 5000),
        ("1E-10000", "0.1E-9999"),
        ("-1.50E-10001", "-0.0150E-9999"),
        ("-0E-10001", "-0.00E-9999"),
        ("1E-20001", "0." + "0" * 10001 + "1E-9999"),
    ],
)
def test_written(impl: ModuleType, number: str, token: str) -> None:
    value = exact_decimal(number)
    text = impl.encode(impl.Response(1, {"a": [value, (value,)]}), DECIMAL, delimited=False)
    assert text == RESULT % b'{"a":[%b,[%b]]}' % (token.encode(), token.encode())
    read = impl.decode(text, DECIMAL).result["a"][0]
    assert Decimal(read).as_tuple() == (Decimal(0) if number == "-0" else value).as_tuple()
    for other in (
        impl.encode(impl.Response(1, error=impl.Error(1, "m", value)), DECIMAL),
        impl.encode([impl.Request(1, "m", [value]), impl.Notification("m", {"a": value})], DECIMAL),
    ):
        assert token.encode() in other


@rows(
    ("number", "text"),
    [
        ("1E+1000000", TOO_LARGE),
        ("1E+309", TOO_LARGE),
        ("1.8E+308", TOO_LARGE),
        ("1E-110000", TOO_LARGE),
        ("0E+10000", TOO_LARGE),
        ("1E-425000000", TOO_LARGE),  # the smallest 32-bit exponent
        ("NaN", NOT_FINITE),
        ("sNaN", NOT_FINITE),
        ("-Infinity", NOT_FINITE),
    ],
)
def test_not_written(impl: ModuleType, number: str, text: str) -> None:
    profile = DECIMAL.replace(limits=Limits(message_bytes=100_000))
    for value in (Decimal(number), [Decimal(number)]):
        with pytest.raises(EncodeError) as caught:
            impl.encode(impl.Response(1, value), profile)
        assert str(caught.value) == text


def test_not_written_by_other_profiles(impl: ModuleType) -> None:
    for write in (impl.encode, lambda message: impl.encode(message, JSONRPC.replace(name="other"))):
        with pytest.raises(
            EncodeError, match=r"^Type is not JSON serializable: (decimal\.)?Decimal$"
        ):  # PyPy may implement it in Python
            write(impl.Response(1, Decimal("1.5")))


def test_default_is_for_other_values(impl: ModuleType) -> None:
    seen = []

    def default(value: object) -> object:
        seen.append(value)
        return Decimal("2.50")

    text = impl.encode(impl.Response(1, [Decimal("1.10"), 1j]), DECIMAL, default=default, delimited=False)
    assert (text, seen) == (RESULT % b"[1.10,2.50]", [1j])
    with pytest.raises(EncodeError, match=r"^Type is not JSON serializable: complex$") as caught:
        impl.encode(impl.Response(1, 1j), DECIMAL)
    assert caught.value.__cause__ is None


def test_neither_context_nor_subclass_changes_a_number(impl: ModuleType) -> None:
    class Shown(Decimal):
        def __str__(self) -> str:
            return "no number"

    with decimal.localcontext() as context:
        context.prec, context.capitals, context.Emax = 2, 0, 3
        for trap in context.traps:
            context.traps[trap] = False
        assert repr(impl.decode(RESULT % b"123456.7890e5", DECIMAL).result) == "Decimal('1.234567890e+10')"
        assert impl.encode(impl.Response(1, Shown("1.10E+30")), DECIMAL, delimited=False) == RESULT % b"1.10e+30"


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,6})?", fullmatch=True)


@given(NUMBERS, st.booleans(), st.sampled_from([DECIMAL, DECIMAL.replace(limits=Limits(depth=3))]))
def test_backends_agree_with_the_json_module(backends: Backends, token: str, raw: bool, profile: Profile) -> None:
    text = RESULT % b'[{"a":%b}]' % token.encode()
    assert_same(backends, lambda backend: repr(payload_of_any(backend.decode(text, profile, raw=raw), raw)), str)
    for backend in backends:
        found = backend.decode(text, profile)
        if isinstance(found, backend.Response):
            [expected] = json.loads(text, parse_float=Decimal)["result"][0].values()
            [value] = found.result[0].values()
            assert (value, str(value)) == (expected, str(expected))


ZEROS = st.sampled_from(["", "0", "0" * 9, "0" * 400, "0" * 20_000])
EXTREMES = st.builds(
    lambda sign, whole, zeros, digits, exponent: f"{sign}{whole}.{zeros}{digits}{exponent}",
    st.sampled_from(["", "-"]),
    st.sampled_from(["0", "1", "9" * 308, "1" + "0" * 308, "17976931348623157" + "0" * 292]),
    ZEROS,
    st.sampled_from(["0", "1", "10", "9" * 50]),
    st.sampled_from(["", "e0", "E+1", "e308", "e-1", "e-400", "e-0009999", "e9999", "e-9998", "e400"]),
)


@example("0E0", DECIMAL)
@example("-0E0", DECIMAL)
@example("1E0", DECIMAL)
@given(st.one_of(EXTREMES, NUMBERS), st.sampled_from([DECIMAL, JSONRPC, JSONRPC_1.replace(floats="decimal")]))
def test_what_is_read_can_be_written_and_is_the_same(backends: Backends, token: str, profile: Profile) -> None:
    texts = set()
    for backend in backends:
        message = backend.decode(RESULT % b'[{"a":%b}]' % token.encode(), profile)
        if isinstance(message, backend.ParseError):
            texts.add(b"")
            continue
        text = backend.encode(message, profile)
        texts.add(text)
        read = backend.decode(text, profile)
        assert read == message
        digits, digits_read = (str(payload_of(each, False)).removeprefix("-") for each in (message, read))
        assert digits_read == digits  # -0E0 is written as -0, which is the integer 0
        assert len(text) <= len(token) + 80
    assert len(texts) <= 1


def payload_of_any(item: Any, raw: bool) -> Any:
    return describe(item) if type(item).__name__ == "ParseError" else payload_of(item, raw)


@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="without the GIL the core loads it at once"
)
def test_the_module_is_loaded_only_for_such_profiles() -> None:
    needs.require_processes()
    code = (
        "import sys, jsonrpc_fast as j\n"
        'j.decode(b\'{"jsonrpc":"2.0","id":1,"method":"m","params":[1.5]}\')\n'
        "j.encode(j.Response(1, 1.5))\n"
        "assert 'jsonrpc_fast.codec._decimals' not in sys.modules and 'decimal' not in sys.modules, 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=needs.unmeasured())
