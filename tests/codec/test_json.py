"""The additions to orjson: exact numbers, and lengths."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.codec._json import (
    check_option,
    dumps,
    exact_number,
    has_surrogates,
    is_integer_longer,
    is_longer,
    is_wide_integer,
    loads_exact,
)
from jsonrpc_fast.codec._shared import DECIMALS, check_numbers

from ..support.oracle import orjson
from ..support.tables import rows
from ..vectors import read

NUMBER = st.from_regex(r"\A-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?\Z")
INTEGERS = st.one_of(
    st.integers(),
    st.integers(-(10**40), 10**40),
    st.sampled_from([2**63, 2**64, -(2**63), 10**18, 10**19]).flatmap(lambda edge: st.integers(edge - 2, edge + 2)),
)


@rows("row", read("numbers"), ids=lambda row: row["token"])
def test_exact_number(row: dict[str, Any]) -> None:
    assert repr(exact_number(row["token"].encode())) == repr(row["number"])


@given(token=NUMBER)
def test_exact_number_is_the_number_or_none(token: str) -> None:
    number = exact_number(token.encode())
    value = Decimal(token)
    if number is not None:
        assert Decimal(repr(number)) == value
        assert isinstance(number, int) is token.removeprefix("-").isdigit()
    else:
        assert Decimal(repr(float(token))) != value


@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_exact_number_accepts_every_written_float(number: float) -> None:
    assert repr(exact_number(orjson.dumps(number))) == repr(number)
    assert repr(exact_number(repr(number).encode())) == repr(number)


@given(number=INTEGERS)
def test_wide_integers(number: int) -> None:
    assert is_wide_integer(b"%d" % number) is not (-(2**63) <= number < 2**64)


@rows("token", [b'"' + 30 * b"9" + b'"', 30 * b"9" + b".0", 30 * b"9" + b"e1", b"-0", b"0", b"-"])
def test_tokens_that_are_not_wide_integers(token: bytes) -> None:
    assert not is_wide_integer(token)


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        INTEGERS,
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"])),
        INTEGERS.map(str),
        st.sampled_from(['"', "\\", '\\"', '"123456789012345678901234567890', "\\\\\\", "1234567890123456789012\\"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(
            st.one_of(st.text(st.characters(exclude_categories=["Cs"])), INTEGERS.map(str)), inner, max_size=5
        ),
    ),
    max_leaves=20,
)


@given(value=VALUES, escaped=st.booleans(), spaced=st.booleans())
def test_loads_exact(value: Any, escaped: bool, spaced: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped, indent=1 if spaced else None).encode()
    assert repr(loads_exact(text)) == repr(value)


@rows("row", read("exact_values"), ids=lambda row: ascii(row["text"]))
def test_loads_exact_literals(row: dict[str, Any]) -> None:
    assert repr(loads_exact(row["text"])) == repr(row["value"])


def test_loads_exact_within_its_bounds() -> None:
    assert loads_exact(1000 * b"[" + b"18446744073709551616" + 1000 * b"]") is not None
    with pytest.raises(ValueError, match="digits"):
        loads_exact(b"[" + 4301 * b"9" + b"]")


def test_check_numbers() -> None:
    for numbers in (0, DECIMALS):
        for text in (b"[" + 4300 * b"9" + b"]", b"[1." + 4301 * b"9" + b"]", b'["' + 4301 * b"9" + b'"]'):
            check_numbers(text, numbers)
        with pytest.raises(ValueError, match="digits"):
            check_numbers(b"[" + 4301 * b"9" + b"]", numbers)


@given(text=st.text(), limit=st.integers(1, 40))
def test_is_longer(text: str, limit: int) -> None:
    assert is_longer(text, limit) is (len(text.encode("utf-8", "surrogatepass")) > limit)


@given(number=st.one_of(INTEGERS, st.integers(-(10**60), 10**60)), limit=st.integers(32, 60))
def test_is_integer_longer(number: int, limit: int) -> None:
    assert is_integer_longer(number, limit) is (len(str(number)) > limit)


@given(text=st.text(st.characters(), max_size=5))
def test_has_surrogates(text: str) -> None:
    assert has_surrogates(text) is any("\ud800" <= character <= "\udfff" for character in text)


def test_dumps() -> None:
    assert dumps({"b": 1, "a": [None]}) == b'{"b":1,"a":[null]}'
    assert dumps({1: {2}}, sorted, orjson.OPT_NON_STR_KEYS) == b'{"1":[2]}'
    for option in (orjson.OPT_INDENT_2, orjson.OPT_APPEND_NEWLINE, orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS):
        with pytest.raises(ValueError, match="break the framing"):
            check_option(option)
