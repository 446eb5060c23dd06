"""The core's fast path against its slow path and the pure backend, on texts that may reveal a difference."""

from __future__ import annotations

import gc
import random
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import JSONRPC, PRESETS, Limits

from ..fuzz.differential import PROFILES, disagreement, seeds, stream_disagreement
from ..fuzz.mutate import message
from ..support.oracle import orjson
from ..support.tables import rows

TAILS = [
    b'{"jsonrpc":"2.0","method":"m","params":["a,\\"id\\":7}"]}',
    b'{"jsonrpc":"2.0","method":"m","params":["]' + b',"id":7}',
    b'{"jsonrpc":"2.0","method":"m","params":{"a":1,"id":7}}',
    b'{"jsonrpc":"2.0","method":"m","params":{"a":1,"id":7}',
    b'{"jsonrpc":"2.0","method":"m","params":,"id":7}',
    b'{"jsonrpc":"2.0","method":"m","params":[] [],"id":7}',
    b'{"jsonrpc":"2.0","method":"m","params":[],[],"id":7}',
    b'{"jsonrpc":"2.0","method":"m","params":[],"id":7,"id":8}',
    b'{"jsonrpc":"2.0","id":1,"method":"m","params":[],"id":7}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","jsonrpc":"2.0"}',
    b'{"method":"m","params":[],"jsonrpc":"1.0","id":1}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":01}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":-0}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":-}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":1e2}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":1.5}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":123456789012345678}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":1234567890123456789}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":12345678901234567890}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":123456789012345678901}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":"a\\"b"}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":"a\nb"}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":"a\x7fb"}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":"a\x00b"}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":""}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":"' + b"i" * 63 + b'"}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":"' + b"i" * 600 + b'"}',
    b'{"method":"m","params":[] , "jsonrpc" : "2.0" , "id" : 1 } \r\n',
    b'{"method":"m","params":[],"jsonrpc":"2.0","\\u0069d":1}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","Xid":1}',
    b'{"method":"m","params":[],"jsonrpc":"2.0","id":null}',
    b'{"result":"0x36\\u0041","jsonrpc":"2.0","id":1}',
    b'{"result":"0x36","jsonrpc":"2.0","id":1}}',
    b'{"result":"0x36""","jsonrpc":"2.0","id":1}',
    b'{"result":-0,"jsonrpc":"2.0","id":1}',
    b'{"result":01,"jsonrpc":"2.0","id":1}',
    b'{"result":+1,"jsonrpc":"2.0","id":1}',
    b'{"result":truefalse,"jsonrpc":"2.0","id":1}',
    b'{"result":[1,],"jsonrpc":"2.0","id":1}',
    b'{"result":[,1],"jsonrpc":"2.0","id":1}',
    b'{"result":[ 1 , "a" , true ],"jsonrpc":"2.0","id":1}',
    b'{"result":[1 2],"jsonrpc":"2.0","id":1}',
    b'{"result":[1],[2],"jsonrpc":"2.0","id":1}',
    b'{"result":["a]","jsonrpc":"2.0","id":1}',
    b'{"result":[123456789012345678,1234567890123456789,18446744073709551616],"jsonrpc":"2.0","id":1}',
    b'{"result":[null,nul],"jsonrpc":"2.0","id":1}',
    b'{"result":["\xc3\xa9","\xff"],"jsonrpc":"2.0","id":1}',
    b"}",
    b"{}",
    b"{}}",
    b'{"',
    b'{"id"}',
    b'{"id":}',
    b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0",}',
]


def assert_agreement(text: bytes) -> None:
    for profile in dict.fromkeys(PROFILES):
        for raw in (False, True):
            found = disagreement(text, profile, raw)
            assert found is None, found


@rows("text", TAILS)
@pytest.mark.ci
def test_tails(backends: tuple[ModuleType, ModuleType], text: bytes) -> None:
    assert_agreement(text)


@rows("depth", [1, 2, 3, 1022, 1023, 1024, 1025, 1026, 5000])
@rows("brackets", [b"[]", b"{}"])
@pytest.mark.slow
def test_depth(backends: tuple[ModuleType, ModuleType], depth: int, brackets: bytes) -> None:
    opening = b'{"a":' if brackets == b"{}" else b"["
    payload = opening * (depth - 1) + brackets + brackets[1:] * (depth - 1)
    for text in (
        b'{"jsonrpc":"2.0","id":1,"result":' + payload + b"}",
        b'{"result":' + payload + b',"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"result":1,"other":' + payload + b"}",
        b'[{"jsonrpc":"2.0","id":1,"result":' + payload + b"}]",
        b'{"jsonrpc":"2.0","id":' + payload + b',"result":1}',
        payload,
    ):
        assert_agreement(text)
        for limit in {max(1, depth - 1), depth, depth + 1}:
            if limit <= 1024:
                found = disagreement(text, JSONRPC.replace(limits=Limits(depth=limit)), False)
                assert found is None, found


@rows("length", [*range(1, 18), 31, 32, 33, 63, 64, 65, 127, 128, 129])
@pytest.mark.ci
def test_strings_of_every_length(backends: tuple[ModuleType, ModuleType], length: int) -> None:
    """Blocks of bytes begin and end at every position of a string, and a fault is at every position."""
    text = b'{"jsonrpc":"2.0","method":"m","params":["%b",{"%b":"%b"}]}'
    plain = b"x" * length
    assert_agreement(text % (plain, plain, plain))
    for wrong in (b'"', b"\\", b"\n", b"\x7f", b"\x80", b"\xc3\xa9", b"\\n", b"\\u0041", b"\xf0\x9f\x98\x80"):
        for at in {0, 1, length // 2, length - 1}:
            odd = plain[:at] + wrong + plain[at + 1 :]
            for parts in ((odd, plain, plain), (plain, odd, plain), (plain, plain, odd)):
                found = disagreement(text % parts, JSONRPC, False)
                assert found is None, found
            found = disagreement(text % (plain, odd, odd), JSONRPC, True)
            assert found is None, found


@rows("length", [*range(1, 20), 31, 32, 33, 48])
@pytest.mark.ci
def test_numbers_and_space_of_every_length(backends: tuple[ModuleType, ModuleType], length: int) -> None:
    """Blocks of digits and of spaces begin and end at every position, and a fault is at every position."""
    text = b'{"jsonrpc":"2.0","method":"m","params":[%b]}'
    digits = (b"1234567890" * 5)[:length]
    numbers = [digits, b"-" + digits, b"0." + digits, digits + b"." + digits, b"1.5e" + digits[:2], b"0" + digits]
    for number in numbers:
        for behind in (b"", b",1", b" ", b"\n  ,2"):
            for raw in (False, True):
                found = disagreement(text % (number + behind), JSONRPC, raw)
                assert found is None, found
    for wrong in (b"/", b":", b".", b"e", b"-", b" ", b"\xb1"):
        for at in {0, 1, length // 2, length - 1}:
            odd = digits[:at] + wrong + digits[at + 1 :]
            for raw in (False, True):
                found = disagreement(text % b"%b,0.%b" % (odd, odd), JSONRPC, raw)
                assert found is None, found
    for space in (b"\n" + b" " * length, b" " * length, b"\t" * length, b"\r\n" + b" " * length + b"\t"):
        spaced = [
            space[:at] + wrong + space[at + 1 :] for wrong in (b"\x0b", b"\x00", b"\xa0", b"x") for at in (0, length)
        ]
        for odd in (space, *spaced):
            for raw in (False, True):
                found = disagreement(text % (odd + b'{"a"' + odd + b":" + odd + b"1" + odd + b"}" + odd), JSONRPC, raw)
                assert found is None, found


@rows("raw", [False, True])
@pytest.mark.ci
def test_every_truncation_and_every_byte(backends: tuple[ModuleType, ModuleType], raw: bool) -> None:
    for text in (
        b'{"jsonrpc":"2.0","id":12,"method":"a/b","params":{"a":[1,-2.5e3,"x\\n"],"b":null}}',
        b'{"result":{"a":true},"id":"x","jsonrpc":"2.0"}',
    ):
        for at in range(len(text)):
            assert disagreement(text[:at], JSONRPC, raw) is None
            for byte in (0, 0x20, 0x22, 0x2C, 0x30, 0x5C, 0x5D, 0x7B, 0x7D, 0x80, 0xC3, 0xFF):
                found = disagreement(text[:at] + bytes([byte]) + text[at + 1 :], JSONRPC, raw)
                assert found is None, found


@given(st.integers(min_value=0))
@pytest.mark.ci
def test_texts_of_the_grammar(backends: tuple[ModuleType, ModuleType], seed: int) -> None:
    rng = random.Random(seed)
    lines = seeds()
    for _ in range(20):
        profile = rng.choice(PROFILES)
        raw = rng.random() < 0.3
        found = disagreement(message(rng, lines), profile, raw)
        assert found is None, found
    texts = [message(rng, lines) for _ in range(rng.randrange(6))]
    found = stream_disagreement(rng, texts, rng.choice(PROFILES), rng.random() < 0.3)
    assert found is None, found


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=20,
)


def written(value: Any, spaced: bool, draw: random.Random) -> str:
    """`value` as JSON with varied escapes, spaces and orders of members."""
    space = draw.choice(["", " ", "\t", "\r\n "]) if spaced else ""
    if isinstance(value, dict):
        members = [f"{written(key, spaced, draw)}{space}:{written(item, spaced, draw)}" for key, item in value.items()]
        return f"{{{space}{f'{space},'.join(members)}}}"
    if isinstance(value, list):
        return f"[{space}{f',{space}'.join([written(item, spaced, draw) for item in value])}]"
    if isinstance(value, str):
        characters = []
        for character in value:
            surrogate = "\ud800" <= character <= "\udfff"
            if (draw.random() < 0.1 and ord(character) < 0x10000) or surrogate or character in '"\\' or character < " ":
                characters.append(f"\\u{ord(character):04x}")
            else:
                characters.append(character)
        return '"' + "".join(characters) + '"'
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return repr(value)


@given(
    st.lists(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"]), max_size=6),
    st.lists(JSON, min_size=6, max_size=6),
    st.booleans(),
    st.randoms(use_true_random=False),
    st.sampled_from(list(PRESETS)),
    st.booleans(),
)
@pytest.mark.ci
def test_members_in_any_order(
    backends: tuple[ModuleType, ModuleType],
    names: list[str],
    values: list[Any],
    spaced: bool,
    draw: random.Random,
    profile: str,
    raw: bool,
) -> None:
    usual: dict[str, list[Any]] = {"jsonrpc": ["2.0"], "id": [1, "a", None], "method": ["m"], "params": [[], {}]}
    members = []
    for name, value in zip(names, values, strict=False):
        chosen = draw.choice(usual[name]) if name in usual and draw.random() < 0.7 else value
        members.append(f"{written(name, spaced, draw)}:{written(chosen, spaced, draw)}")
    text = ("{" + ",".join(members) + "}").encode("utf-8", "surrogatepass")
    found = disagreement(text, PRESETS[profile], raw)
    assert found is None, found


def test_inputs_of_other_types(impl: ModuleType) -> None:
    text = b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}'
    expected = impl.Request(1, "m", [1])
    every_other = memoryview(bytes([byte for byte in text for _ in range(2)]))[::2]
    for data in (bytearray(text), memoryview(text), memoryview(text + b"x")[:-1], every_other, text.decode()):
        assert impl.decode(data) == expected


def test_a_bytearray_cannot_move_while_it_is_read(impl: ModuleType) -> None:
    data = bytearray(b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}')
    assert impl.decode(data).params == [1]
    data += b" " * 10_000  # and afterwards it is free
    assert impl.decode(data).params == [1]


def test_the_cache_of_method_names_is_bounded(backends: tuple[ModuleType, ModuleType]) -> None:
    core = backends[0]
    text = b'{"jsonrpc":"2.0","method":"%b"}'
    assert core.decode(text % b"tools/call").method is core.decode(text % b"tools/call").method

    def flood(start: int) -> int:
        for number in range(start, start + 20_000):
            name = b"method-%d" % number
            assert core.decode(text % name).method == name.decode()
        gc.collect()
        return sys.getallocatedblocks()

    first = flood(0)
    assert flood(1_000_000) - first < 1000


def test_payload_in_the_middle_is_the_same_object_tree(impl: ModuleType) -> None:
    payload = {"id": 1, "jsonrpc": "1.0", "method": [], "nested": {"result": None, "error": {"code": "x"}}}
    text = b'{"method":"m","params":%b,"jsonrpc":"2.0","id":"z"}' % orjson.dumps(payload)
    assert impl.decode(text) == impl.Request("z", "m", payload)
