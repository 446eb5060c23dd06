"""The fast path of the pure backend changes no result: `decode` returns what it returns without it."""

from __future__ import annotations

import inspect
import json
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.codec import _pure, _pure_fast
from jsonrpc_fast.codec._json import may_be_altered
from jsonrpc_fast.profile import CLIENT, JSONRPC, JSONRPC_1, LENIENT, MCP_2025_11_25, Limits, Profile

from ..fuzz.mutate import message
from ..support.comparison import plain
from ..support.examples import scaled_examples
from ..support.oracle import orjson
from ..support.places import WIRE
from ..support.tables import rows
from ..support.timing import min_seconds, thread_seconds

PROFILES: list[Profile] = [
    JSONRPC,
    LENIENT,
    CLIENT,
    JSONRPC_1,
    MCP_2025_11_25.replace(batches=True),
    JSONRPC.replace(extra_members=False),
    JSONRPC.replace(extra_members="keep"),
    JSONRPC,
    JSONRPC.replace(big_ints="reject"),
    JSONRPC.replace(floats="decimal"),
    JSONRPC.replace(floats="decimal", extra_members="keep"),
    JSONRPC.replace(limits=Limits(depth=2, id_bytes=32, method_bytes=4, batch_items=2)),
]
plain_decode: Any = inspect.unwrap(_pure.decode)
"""`decode` without its fast path."""

VALID: list[dict[str, Any]] = [
    {"jsonrpc": "2.0", "id": 1, "method": "m"},
    {"jsonrpc": "2.0", "method": "m"},
    {"method": "m", "params": [1, 2.5, None], "id": "x", "jsonrpc": "2.0"},
    {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"id": 1, "method": {"params": "id"}, "jsonrpc": ["jsonrpc"]}},
    {"jsonrpc": "2.0", "id": 1.5, "method": "m", "params": {"a:b": ['"', "\\", '\\"id":', "é\u2028\U0001f600"]}},
    {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"text": '{"id":1}', "type": "text"}], "result": "result"}},
    {"result": {"error": None}, "jsonrpc": "2.0", "id": "é"},
    {"jsonrpc": "2.0", "id": 1, "result": "params"},
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "id"}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "m", "data": {"message": [], "id": 0}}},
    {"jsonrpc": "2.0", "id": 1, "error": {"data": "d", "code": 1, "message": "m"}},
    {"jsonrpc": "2.0", "id": 1, "method": "m", "params": [], "x": {"id": 2}},
]


def shown(item: Any) -> object:
    return plain(_pure, item)


def assert_agreement(text: bytes, profiles: list[Profile] = PROFILES) -> None:
    for profile in profiles:
        for raw in (False, True):
            expected = shown(plain_decode(text, profile, raw=raw))
            assert shown(_pure.decode(text, profile, raw=raw)) == expected, (text, profile, raw)


def assert_fast_path_agrees(text: bytes, profiles: list[Profile] = PROFILES) -> bool:
    """Whether the fast path decodes `text`; if so, it must agree with the slow path."""
    taken = False
    if may_be_altered(text):  # `decode` leaves these to the plain one before the pattern is tried
        return False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_pure_fast, "MAX_DICT_BYTES", 0)
        for profile in profiles:
            for raw in (False, True):
                found = _pure_fast._read_by_pattern(text, _pure.rules_of(profile), raw)
                if found is not None:
                    taken = True
                    expected = shown(plain_decode(text, profile, raw=raw))
                    assert shown(found) == expected, (text, profile, raw)
    return taken


def spellings(value: Any) -> list[bytes]:
    """The same JSON compact, ended by a newline, spaced, indented, in ASCII, and with every letter escaped."""
    compact = orjson.dumps(value)
    escaped = json.dumps(value, separators=(",", ":")).encode()
    return [
        compact,
        compact + b"\n",
        json.dumps(value).encode(),
        b" \r\n" + json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\r\n").encode() + b"\t",
        escaped,
        escaped.replace(b"m", b"\\u006d").replace(b"i", b"\\u0069"),
        escaped.replace(b"\\\\", b"\\u005c").replace(b'\\"', b"\\u0022").replace(b"/", b"\\/"),
    ]


def test_no_valid_message_is_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = [orjson.loads(line) for file in sorted(WIRE.iterdir()) for line in file.read_bytes().splitlines()[:5]]
    values = (*VALID, *wire)
    batch = [value for value in VALID if type(value.get("id")) is not float]
    texts = [(text, False) for value in (*wire, *batch, batch) for text in spellings(value)]
    texts += [(orjson.dumps(value), False) for value in VALID]
    texts += [(orjson.dumps(value), True) for value in values if has_usual_members(value)]
    expected = [shown(plain_decode(text, JSONRPC, raw=raw)) for text, raw in texts]

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the slow path was taken")

    monkeypatch.setattr(_pure, "scan", fail)
    assert [shown(_pure.decode(text, raw=raw)) for text, raw in texts] == expected


def has_usual_members(value: Any) -> bool:
    """Whether the pattern of the fast path reads a message: the version comes first, and the id is plain."""
    id = value.get("id", 0)
    is_plain = type(id) is int or (type(id) is str and id.isascii())
    known = {"jsonrpc", "id", "method", "params", "result", "error"}
    return is_plain and next(iter(value)) == "jsonrpc" and value.keys() <= known


UNUSUAL = [
    *[value for value in VALID if type(value.get("id")) is not float],
    {"jsonrpc": "2.0", "id": None, "method": "m"},
    {"x": {"id": 1}, "jsonrpc": "2.0", "id": "a", "method": "m", "y": ["id"]},
    {"jsonrpc": "2.0", "id": 1, "result": None, "z": 1},
]


@rows("order", [list, reversed, sorted])
@rows(
    "profile",
    [JSONRPC, LENIENT, MCP_2025_11_25, JSONRPC.replace(limits=Limits(depth=32)), JSONRPC],
    ids=["jsonrpc", "lenient", "mcp", "limits", "exact"],
)
def test_no_scanner_reads_a_valid_message(order: Any, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    for value in UNUSUAL:
        ordered = {name: value[name] for name in order(value)}
        padded = json.dumps(ordered, separators=(" ,\r\n  ", "\t:  "), ensure_ascii=False).encode()
        texts += [json.dumps(ordered, separators=(",", ":")).encode(), json.dumps(ordered, indent="\t").encode()]
        texts += [b"\n\t" + padded + b" " * 70, padded.replace(b"{", b"{" + b" " * 70)]
    expected = [shown(plain_decode(text, profile)) for text in texts]

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the scanner was used")

    monkeypatch.setattr(_pure, "scan", fail)
    assert [shown(_pure.decode(text, profile)) for text in texts] == expected


def test_an_exact_id_among_other_numbers() -> None:
    assert _pure.decode(b'{"jsonrpc":"2.0","id":0.1,"method":"m","params":{"id":0.1}}').id == 0.1  # type: ignore[union-attr]
    for text in [
        b'{"jsonrpc":"2.0","id":1e2,"method":"m","params":{"id":3}}',
        b'{"jsonrpc":"2.0","id":12345678901234567.8,"method":"m"}',
        b'{"jsonrpc":"2.0","id":18446744073709551616,"method":"m"}',
        b'{"jsonrpc":"2.0","id":18446744073709551616,"method":"m","params":{"id":18446744073709551617}}',
        b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % (b"9" * 308),
        b'{"jsonrpc":"2.0","id":1e-400,"method":"m","params":[1]}',
        b'{"jsonrpc":"2.0","id":-0.0,"method":"m"}',
        b'{"jsonrpc":"2.0","\\u0069d":1.25,"method":"m","params":{"id":1.5}}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"\\"id\\":2.5","params":["id"]}',
        b'[{"jsonrpc":"2.0","id":1.5,"method":"m"},{"jsonrpc":"2.0","id":2,"method":"m"}]',
        b'[{"jsonrpc":"2.0","id":1e400,"method":"m"}]',
    ]:
        assert_agreement(text)


HOSTILE = [
    b'"id"',
    b'"id"' + b" " * 40,
    b'{"id":1.5}',
    b'{"id" : -1e5 }',
    b'{"a":1,"a":2}',
    b'"\\\\"',
    b'"\\"\\""',
    b'"\\u0022id"',
]


SHORT = (
    *(b'{"id":1,"result":%b}', b'{"result":%b,"id":1}', b'{"id":%b,"method":"a"}', b'{"method":"a","x":%b}'),
    *(b'{"method":"a","params":[%b]}', b'[{"method":"a","params":[%b]}]', b'[{"id":1,"result":%b}]', b'{"error":%b}'),
)
LONG_NUMBERS = (b"-9223372036854775809", b"18446744073709551616", b"9223372036854775807.5", b"0.1234567890123456789")


@pytest.mark.parametrize("big_ints", ["exact", "reject"])
def test_a_number_that_orjson_alters_in_a_message_without_a_version(big_ints: Any) -> None:
    """Such a message is shorter than any with a version that holds such a number."""
    for profile in PROFILES:
        exact = profile.replace(big_ints=big_ints)
        for text in [form % number for form in SHORT for number in LONG_NUMBERS]:
            found, expected = _pure.decode(text, exact), inspect.unwrap(_pure.decode)(text, exact)
            assert plain(_pure, found) == plain(_pure, expected), (text, exact)
    response = _pure.decode(b'{"id":1,"result":18446744073709551616}', CLIENT)
    assert response == _pure.Response(1, 18446744073709551616)


@pytest.mark.slow
@rows("item", HOSTILE)
def test_a_hostile_payload_takes_linear_time(item: bytes) -> None:
    def seconds(count: int) -> float:
        items = b",".join([item] * count)
        text = b'{"x":[%b],"jsonrpc":"2.0","id":2.5,"method":"m","params":[{}, %b]}' % (items, items)
        return thread_seconds(lambda: _pure.decode(text)) / count

    short, long = min_seconds(lambda: seconds(1000), lambda: seconds(10_000), rounds=3)
    assert long < 4 * short


@pytest.mark.slow
def test_a_batch_with_many_unusual_ids_takes_linear_time() -> None:
    def seconds(count: int) -> float:
        text = b"[" + b",".join([b'{"jsonrpc":"2.0","id":1.5,"method":"m","params":{}}'] * count) + b"]"
        return thread_seconds(lambda: _pure.decode(text)) / count

    short, long = min_seconds(lambda: seconds(400), lambda: seconds(4000), rounds=3)
    assert long < 4 * short


@rows("value", [*VALID, VALID, VALID[:2], []])
@pytest.mark.ci
def test_spellings(value: Any) -> None:
    for text in spellings(value):
        assert_agreement(text)


@rows(
    "text",
    [
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"m","params":["\\u0022id"]}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"m","params":["\\"id"]}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"m","params":["\\\\u0022id","id"]}',
        b'{"jsonrpc":"2.0","id":1,"\\u0069d":2,"method":"m","params":[":"]}',
        b'{"jsonrpc":"2.0","id":1,"\\u0069\\u0064":2,"method":"id","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,"a":2}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"id":1,"id":2}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1},"params":{"a":"params"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"params","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"x":"params","method":"m","params":[]}',
        b'{"jsonrpc":"2.0","id":1,"error":{"message":"a","data":1,"code":1,"message":"b"}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"b","data":1,"data":2}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"data","d\\u0061ta":2}}',
        b'{"jsonrpc":"2.0","id":1,"result":1,"params":{"id":1}}',
        b'{"jsonrpc":"2.0","params":[],"id":1,"result":[1]}',
        b'{"jsonrpc":"2.0","id":12345678901234567890123,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":[12345678901234567890123]}',
        b'[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":1,"id":2,"result":"id"}]',
        b'[{"jsonrpc":"2.0","id":1,"method":"m"},{"id":2,"jsonrpc":"2.0","result":"id"},{}]',
        b'[{"jsonrpc":"2.0","result":{},"id":1} , { "id" : 2 , "result" : [ ] , "jsonrpc" : "2.0" }, 1]',
        b'[{"jsonrpc":"2.0","id":1,"result":5},{"jsonrpc":"2.0","id":2,"result":{"id":[{}]}},{"x":{}}]',
        b'{"":"","jsonrpc":"2.0","id":1,"result":""}',
        b'{"jsonrpc":"2.0","id":1,"result":"\\\\"}',
        b'{"jsonrpc":"2.0","id":1,"result":"}"} ',
        b'{"x":1,"jsonrpc":"2.0","id":1,"method":"m","params":[{"a":1}],"x":2}',
        b'[{"x":1,"jsonrpc":"2.0","id":1,"result":[{"a":1}],"x":2},{"jsonrpc":"2.0","id":1,"result":1}]',
        b"{}",
        b"[[]]",
        b"[{}]",
        b'"id"',
    ],
)
def test_faults_that_a_dict_does_not_show(text: bytes) -> None:
    assert_agreement(text)


HEADS = [
    b'"jsonrpc":"2.0","id":1,"method":"m","params":%b',
    b'"id":"a}","jsonrpc":"2.0","result":%b',
    b'"method":"m","params":%b,"jsonrpc":"2.0","id":-7',
    b'"jsonrpc":"2.0","method":"m","params":%b,"id":0',
    b'"result":%b,"jsonrpc":"2.0","id":1',
    b'"jsonrpc":"2.0","method":"m","params":%b',
    b'"jsonrpc":"2.0","id":1,"error":%b',
    b'"method":"m","params":%b,"jsonrpc":"2.0"',
    b'"id":"b","method":"m","jsonrpc":"2.0","params":%b',
    b'"method":"m","jsonrpc":"2.0","id":12,"params":%b',
]
PAYLOADS = [
    b"{}",
    b'{"id":1,"jsonrpc":"2.0"}',
    b'["\\u0069d",1.5,"},{\\"jsonrpc\\":"]',
    b'{"code":1,"message":"m"}',
    b'{"code":1,"message":"m","data":[{"a":"}"}]}',
    b'[{"a":1},{"jsonrpc":"2.0","id":1,"result":{}}]',
]
USUAL = [b"{" + head % payload + b"}" for head in HEADS for payload in PAYLOADS]


@rows("space", [b"", b" ", b"\r\n\t "])
@pytest.mark.ci
def test_messages_of_the_fast_path(space: bytes) -> None:
    for text in USUAL:
        spaced = re.sub(rb'("(?:[^"\\\\]|\\.)*")|([,:{}])', lambda m: m[1] or space + m[2] + space, text)
        is_error_payload = b'"code"' in text
        assert assert_fast_path_agrees(spaced) or (b'"error"' in text and not is_error_payload), spaced
        assert_fast_path_agrees(b"[" + spaced + b"," + spaced + b"]")
    plain = [text for text in USUAL if b'"error"' not in text and b"},{" not in text]
    assert assert_fast_path_agrees(space + b"[" + space + (space + b"," + space).join(plain[:9]) + space + b"]" + space)


@pytest.mark.parametrize("every_profile", [False, pytest.param(True, marks=pytest.mark.slow)])
@rows("message", USUAL)
@pytest.mark.ci
def test_messages_just_outside_the_fast_path(message: bytes, every_profile: bool) -> None:
    turn = USUAL.index(message)
    for wrong in [
        message[:-1],
        message + b"}",
        message + b"]",
        message[:-1] + b",}",
        message[:-1] + b',"id":2}',
        message[:-1] + b',"jsonrpc":"2.0"}',
        message[:-1] + b',"params":{}}',
        message[:-1] + b',"":1}',
        b'{"id":2,' + message[1:],
        b'{"jsonrpc":"2.0",' + message[1:],
        b'{"method":"n",' + message[1:],
        b'{"\\u0069d":2,' + message[1:],
        message.replace(b'"2.0"', b'"1.0"'),
        message.replace(b'"id":1', b'"id":12345678901234567890'),
        message.replace(b'"id":1', b'"id":1.0'),
        message.replace(b'"id":1', b'"id":01'),
        message.replace(b'"id":1', b'"id":null'),
        message.replace(b'"id":1', b'"id":"%b"' % (b"a" * 33)),
        message.replace(b'"m"', b'""'),
        message.replace(b'"m"', b'"mmmmm"'),
        message.replace(b'"m"', b'"\xff"'),
        message.replace(b"1.5", b"12345678901234567890"),
        message.replace(b":{", b":{},{"),
        message.replace(b":[", b":[],["),
        message.replace(b"[", b"[[[").replace(b"]", b"]]]"),
    ]:
        if wrong == message:
            continue
        for text in (wrong, b"[" + wrong + b"]", b"[" + message + b"," + wrong + b"]", b"[" + wrong + b",]"):
            turn += 1
            profiles = PROFILES if every_profile else [PROFILES[turn % len(PROFILES)]]
            assert_fast_path_agrees(text, profiles)
            assert_agreement(text, profiles)


@rows("depth", [1023, 1024, 1025])
@rows("batch", [False, True])
def test_depth_on_the_fast_path(depth: int, batch: bool) -> None:
    for head in HEADS[:2]:
        text = b"{" + head % (b"[" * depth + b"]" * depth) + b"}"
        text = b"[" + text + b"]" if batch else text
        for raw in (False, True):
            expected = plain_decode(text, JSONRPC, raw=raw)
            found = _pure_fast._read_by_pattern(text, _pure.rules_of(JSONRPC), raw)
            for decoded in (_pure.decode(text, raw=raw), *([] if found is None else [found])):
                assert type(decoded) is type(expected)
                for one, other in zip(
                    *[each if isinstance(each, list) else [each] for each in (decoded, expected)], strict=True
                ):
                    assert type(one) is type(other)
                    assert not raw or one == other


@scaled_examples(0.3)
@given(st.integers(min_value=0))
def test_texts_of_the_grammar(seed: int) -> None:
    rng = random.Random(seed)
    lines = [line for file in sorted(WIRE.iterdir()) for line in file.read_bytes().splitlines() if len(line) < 500]
    for _ in range(20):
        text = message(rng, lines)
        assert_fast_path_agrees(text)
        for raw in (False, True):
            profile = rng.choice(PROFILES)
            expected = shown(plain_decode(text, profile, raw=raw))
            assert shown(_pure.decode(text, profile, raw=raw)) == expected
