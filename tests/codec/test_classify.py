"""`classify`: the kind, method and id of a message."""

from __future__ import annotations

from types import ModuleType
from typing import get_args

from hypothesis import given

from jsonrpc_fast.types import Classification, Kind

from ..fuzz.mutate import mutants
from ..support.tables import rows

CASES = [
    ('{"jsonrpc":"2.0","id":1,"method":"m","params":{}}', ("request", "m", 1)),
    ('{"jsonrpc":"2.0","id":null,"method":""}', ("request", "", None)),
    ('{"jsonrpc":"2.0","id":18446744073709551616,"method":"m"}', ("request", "m", 18446744073709551616)),
    ('{"jsonrpc":"2.0","method":"é"}', ("notification", "é", None)),
    ('{"jsonrpc":"2.0","id":"x","result":null}', ("result", None, "x")),
    ('{"jsonrpc":"2.0","id":1.5,"error":{"code":1,"message":""}}', ("error", None, 1.5)),
    ('{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}', ("error", None, None)),
    ('[{"jsonrpc":"2.0","id":1,"method":"m"}]', ("batch", None, None)),
    ("[1]", ("batch", None, None)),
    ('{"id":7,"method":"m"}', ("invalid", None, 7)),
    ('{"jsonrpc":"2.0","id":7,"id":7,"method":"m"}', ("invalid", None, None)),
    ("[]", ("invalid", None, None)),
    ("1", ("invalid", None, None)),
    ("{", ("invalid", None, None)),
    ("", ("invalid", None, None)),
]


@rows(("text", "expected"), CASES)
def test_classify(impl: ModuleType, text: str, expected: tuple[object, ...]) -> None:
    for data in (text, text.encode()):
        found = impl.classify(data)
        assert type(found) is Classification
        assert repr(tuple(found)) == repr(expected)


def test_every_kind_is_covered() -> None:
    assert {expected[0] for _, expected in CASES} == set(get_args(Kind))


def test_fields() -> None:
    assert Classification("batch") == ("batch", None, None)
    assert Classification._fields == ("kind", "method", "id")


@given(text=mutants())
def test_classify_agrees_with_decode(impl: ModuleType, text: bytes) -> None:
    message = impl.decode(text)
    kind, method, id = impl.classify(text)
    assert repr(id) == repr(getattr(message, "id", None))
    if kind == "batch":
        assert type(message) is list
    elif kind == "invalid":
        assert type(message) is impl.ParseError
    else:
        assert method == getattr(message, "method", None)
        assert (kind in ("result", "error")) is (type(message) is impl.Response)
