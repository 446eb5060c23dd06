"""`Raw.get`, `keys` and `items`: the members that the plain decode has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import JSONRPC

from ..support.tables import rows

NAMES = st.sampled_from(
    ["", "a", "b", "0", "a/b", "m~n", "~1", "\\", '"', "\u00e9", "\U0001f600", "x" * 40, "{", "]", ":,"]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False), NAMES
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4))
)
SPELLINGS: list[dict[str, Any]] = [
    {"separators": (",", ":"), "ensure_ascii": False},
    {},
    {"indent": "\t"},
    {"separators": (" ,\r\n ", "\t: ")},
]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every path of a value, with the value at that path."""
    yield path, value
    for step, part in value.items() if type(value) is dict else enumerate(value) if type(value) is list else ():
        yield from paths(part, (*path, step))


def pointer(path: tuple[Any, ...]) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


@given(value=VALUES, spelling=st.sampled_from(SPELLINGS))
@pytest.mark.ci
def test_members_are_those_of_the_plain_decode(impl: ModuleType, value: Any, spelling: dict[str, Any]) -> None:
    raw = impl.Raw(json.dumps(value, **spelling))
    for path, expected in paths(value):
        for each in (path, list(path), pointer(path)):
            found = raw.get(each)
            assert type(found) is impl.Raw
            assert json.dumps(found.decode()) == json.dumps(expected)
            assert impl.Raw(bytes(found)) == found
        members = expected if type(expected) is dict else {}
        inner = raw.get(path)
        assert inner.keys() == list(members)
        assert [(name, part.decode()) for name, part in inner.items()] == list(members.items())
        for absent in ((*path, "absent"), (*path, 4), (*path, -1), (*path, 10**30)):
            assert raw.get(absent) is None
        assert raw.get(f"{pointer(path)}/absent", 5) == 5


@rows(
    "text, path, found",
    [
        (b'{"a":1,"a":2}', "/a", b"2"),  # as `decode` reads it
        (b'{"a":1,"\\u0061":{"a":3}}', "/a/a", b"3"),
        (b'{"a":{"b":1},"a":5}', "/a/b", None),
        (b'{"0":1}', "/0", b"1"),
        (b'{"0":1}', [0], None),
        (b"[1,2]", "/1", b"2"),
        (b"[1,2]", ["1"], None),
        (b"[1,2]", "/01", None),
        (b"[1,2]", "/-", None),
        (b"[1,2]", "/9999999999999999999999", None),
        (b"[1,2]", "/\u0661", None),
        (b'{"":{"":1}}', "//", b"1"),
        (b'{"\xed\x95\x9c":1}', "/\ud55c", b"1"),
        (b'{"a":1}', ["\ud800"], None),
        (b'{"\\u00e9":1}', ["\ud800"], None),
        (b'"abc"', "/0", None),
        (b"5", "", b"5"),
        (b"[]", "/0", None),
        (b"{}", "/", None),
        (b'[ "\\\\" , "]\\"" , [ "[" ] ]', "/2/0", b'"["'),
        (b"[" + b'"a",' * 3000 + b'["b"]]', "/3000/0", b'"b"'),
        (b'{"a":[' + b'"a",' * 3000 + b'"]"],"b":1}', "/b", b"1"),
        (b"[" * 1000 + b"7" + b"]" * 1000, "/0" * 1000, b"7"),
    ],
)
@pytest.mark.ci
def test_paths(impl: ModuleType, text: bytes, path: Any, found: bytes | None) -> None:
    got = impl.Raw(text).get(path)
    assert (None if got is None else bytes(got)) == found


@rows(
    "path, error, said",
    [
        ("a", ValueError, 'path must be "" or begin with "/"; or pass a list of names'),
        ("/a~2", ValueError, 'a "~" in a path must be written "~0"'),
        ("/a~", ValueError, 'a "~" in a path must be written "~0"'),
        (5, TypeError, "path must be a str, a list or a tuple, not int"),
        (None, TypeError, "path must be a str, a list or a tuple, not NoneType"),
        ([b"a"], TypeError, "a step of a path must be a str or an int, not bytes"),
        ([True], TypeError, "a step of a path must be a str or an int, not bool"),
    ],
)
def test_bad_paths(impl: ModuleType, path: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        impl.Raw(b"[]").get(path)
    assert str(caught.value) == said


def test_wide_integers_stay_exact(impl: ModuleType) -> None:
    text = b'{"jsonrpc":"2.0","id":1,"result":{"a":[123456789012345678901234567890]}}'
    profile = JSONRPC
    result = impl.decode(text, profile, raw=True).result
    assert result.get("/a/0").decode() == 123456789012345678901234567890
    assert result.items()[0][1].decode() == [123456789012345678901234567890]
