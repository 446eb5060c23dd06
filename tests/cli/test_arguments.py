"""Addresses, headers and params as written on the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsonrpc_fast.cli.arguments import headers_of, params_of, parse_address

from ..support.tables import rows


def test_headers() -> None:
    given = ["Authorization: Bearer ${TOKEN}", "X-A:b", "X-Empty:"]
    assert headers_of(given, {"TOKEN": "t"}) == {"Authorization": "Bearer t", "X-A": "b", "X-Empty": ""}


@rows(
    ("header", "variable"), [("no colon", "v"), ("a b: c", "v"), (": c", "v"), ("A: ${V}", "a\r\nB: c"), ("A: ü", "v")]
)
def test_headers_that_are_malformed(header: str, variable: str) -> None:
    with pytest.raises(ValueError, match=r"^a header must be NAME: VALUE$"):
        headers_of([header], {"V": variable})


def test_a_variable_that_is_missing() -> None:
    with pytest.raises(ValueError, match=r"^the environment has no variable TOKEN$"):
        headers_of(["A: ${TOKEN}"], {})


@rows(
    ("text", "address"),
    [
        ("127.0.0.1:8000", ("127.0.0.1", 8000)),
        ("example.org:0", ("example.org", 0)),
        ("localhost:65535", ("localhost", 65535)),
        ("[::1]:8000", ("::1", 8000)),
        (":8000", ("127.0.0.1", 8000)),
        ("8000", ("127.0.0.1", 8000)),
    ],
)
def test_an_address(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@rows("text", ["", "localhost", "localhost:", "localhost:x", "::1:80", "a:65536", "a:-1", "a:8\n"])
def test_an_address_that_is_malformed(text: str) -> None:
    with pytest.raises(ValueError, match=r"^the address "):
        parse_address(text)


@rows(
    ("words", "params"),
    [
        ([], None),
        (["[1, 2]"], [1, 2]),
        ([' {"a": 1}'], {"a": 1}),
        (["a=1", "b=1.5", "c=null", "d=true"], {"a": 1, "b": 1.5, "c": None, "d": True}),
        (["name=Ada Lovelace"], {"name": "Ada Lovelace"}),
        (['id="3"'], {"id": "3"}),
        (["a=[1,{}]", "b="], {"a": [1, {}], "b": ""}),
        (["query=a=b"], {"query": "a=b"}),
        (["n=NaN", "m=01"], {"n": "NaN", "m": "01"}),
        (["wide=123456789012345678901234567890"], {"wide": 123456789012345678901234567890}),
    ],
)
def test_params(words: list[str], params: Any) -> None:
    found = params_of(words)
    assert (None if found is None else found.decode(json.loads)) == params


def test_params_keep_their_text() -> None:
    found = params_of(["wei=123456789012345678901234567890", "price=1.50", "name=1e999"])
    assert found is not None
    assert bytes(found) == b'{"wei":123456789012345678901234567890,"price":1.50,"name":"1e999"}'


@rows(
    ("words", "said"),
    [
        (["1"], "^1 is not NAME=VALUE, nor a JSON object or array$"),
        (["=1"], "is not NAME=VALUE"),
        (["a=1", "{}"], "^a JSON object or array must be the only word of the params$"),
        (['{"a": 1}', "b=2"], "^a JSON object or array must be the only word of the params$"),
        (["a=1", "a=2"], "^a is given twice$"),
        (["{a: 1}"], "^the params are not JSON$"),
        (["[NaN]"], "^the params are not JSON$"),
        (["[1e999]"], "^the params are not JSON$"),
        (["[" * 100_000], "^the params are not JSON$"),
        (["\ud800=1"], "^a name or a value is not text$"),
    ],
)
def test_params_that_are_malformed(words: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        params_of(words)
