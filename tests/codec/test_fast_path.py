"""The texts that the core's fast path reads, and those that it leaves. It stays inside a text and frees its memory."""

from __future__ import annotations

import ctypes
import gc
import json
import marshal
import random
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jsonrpc_fast.codec._core import Error, Notification, Raw, Request, Response

from jsonrpc_fast import JSONRPC, LENIENT, MCP_2025_11_25, Limits
from jsonrpc_fast.codec import _core

from ..support import guard_pages, memory
from ..support.forked import forked
from ..support.oracle import loads_exact, orjson
from ..support.tables import rows

RESULT = b'{"jsonrpc":"2.0","id":1,"result":%b}'

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
# Messages that are read without orjson.
TAKEN: list[tuple[bytes, object]] = [
    (b'{"jsonrpc":"2.0","id":1,"method":"hello"}', Request(1, "hello")),
    (b'{"method":"hello","jsonrpc":"2.0"}', Notification("hello")),
    (b' { "id" : "a-1" , "params" : [ 1 , 2 ] , "method" : "m" , "jsonrpc" : "2.0" } \n', Request("a-1", "m", [1, 2])),
    (b'{"params":{"a":{"b":[]}},"method":"m","jsonrpc":"2.0","id":-7}', Request(-7, "m", {"a": {"b": []}})),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","trace":{"x":[1.5]},"params":{}}', Request(1, "m", {})),
    (b'{"jsonrpc":"2.0","id":123456789012345678,"result":null}', Response(123456789012345678, None)),
    (b'{"jsonrpc":"2.0","id":-1234567890123456789,"method":"m"}', Request(-1234567890123456789, "m")),
    (b'{"jsonrpc":"2.0","id":18446744073709551615,"method":"m"}', Request(2**64 - 1, "m")),
    (b'{"jsonrpc":"2.0","id":1234567890123456789012345678901234567890,"method":"m"}',
     Request(1234567890123456789012345678901234567890, "m")),
    (b'{"jsonrpc":"2.0","id":-1.5,"method":"m"}', Request(-1.5, "m")),
    (b'{"jsonrpc":"2.0","id":0.12345678901234,"method":"m"}', Request(0.12345678901234, "m")),
    (b'{"jsonrpc":"2.0","id":null,"method":"m"}', Request(None, "m")),
    (b'{"jsonrpc":"2.0","id":"\xc3\xa9\\n","method":"\xe4\xb8\xad"}', Request("\xe9\n", "\u4e2d")),
    (b'{"jsonrpc":"2.0","id":1,"method":"\\u006d" , "params":[]}', Request(1, "m", [])),
    (RESULT % (b"[" * 65 + b"]" * 65), Response(1, json.loads("[" * 65 + "]" * 65))),
    (RESULT % (b'{"a":[' * 100 + b"1" + b"]}" * 100), Response(1, json.loads('{"a":[' * 100 + "1" + "]}" * 100))),
    (RESULT % b"18446744073709551615", Response(1, 2**64 - 1)),
    (RESULT % b'"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041"', Response(1, '"\\/\b\f\n\r\tA')),
    (RESULT % b'"caf\xc3\xa9 \\u00e9"', Response(1, "caf\xe9 \xe9")),
    (RESULT % b'"\xe4\xb8\xad\xe6\x96\x87\\u4e2d \xd0\x96"', Response(1, "\u4e2d\u6587\u4e2d \u0416")),
    (RESULT % b'"\xf0\x9f\x98\x80 \\ud83d\\ude00 \xe4\xb8\xad"', Response(1, "\U0001f600 \U0001f600 \u4e2d")),
    (RESULT % b"[0,-1,256,257,9223372036854775807,9223372036854775808,-9223372036854775808]",
     Response(1, [0, -1, 256, 257, 2**63 - 1, 2**63, -(2**63)])),
    (RESULT % b"[1.5,-0.0,1e2,0.1,123.456e-7,1E+10]", Response(1, [1.5, -0.0, 100.0, 0.1, 1.23456e-05, 1e10])),
    (RESULT % b'{"a":1,"b":2,"a":3}', Response(1, {"a": 3, "b": 2})),
    (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}', Response(1, error=Error(-32601, "no"))),
    (b'{"error":{"data":null,"x":1,"message":"\xc3\xa9","code":5},"id":1,"jsonrpc":"2.0"}',
     Response(1, error=Error(5, "\xe9", None))),
]  # fmt: skip

# Texts that the slow path has to read: some are messages, others have a fault.
LEFT = [
    b"",
    b"[]",
    b"{}",
    b'{"jsonrpc":"2.0","id":1e2,"method":"m"}',
    b'{"jsonrpc":"2.0","id":1.5e2,"method":"m"}',
    b'{"jsonrpc":"2.0","id":0.123456789012345,"method":"m"}',
    b'{"jsonrpc":"2.0","id":1.,"method":"m"}',
    b'{"jsonrpc":"2.0","id":01,"method":"m"}',
    b'{"jsonrpc":"2.0","id":%d,"method":"m"}' % 10**512,
    b'{"jsonrpc":"2.0","id":-0,"method":"m"}',
    b'{"jsonrpc":"2.0","id":-0.5,"method":"m"}',
    b'{"jsonrpc":"2.0","id":"%b","method":"m"}' % (b"x" * 513),
    b'{"jsonrpc":"2.0","id":1,"method":"m",}',
    b'{"jsonrpc":"2.0","id":1,"method":"m" "params":[]}',
    b'{"jsonrpc":"2.0","id":1,"method":"m"',
    b'{"jsonrpc":"2.0","id":1,"method":"%b"}' % (b"x" * 1025),
    b'{"id":1,"method":"m","params":[1]}',
    b'{"id":1,"method":"m","params":{"a":1} } ',
    b'{"params":[1],"method":"m","id":1}',
    b'{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}',
    b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"m"}',
    b'{"jsonrpc":"2.0","\\u0069d":1,"method":"m"}',
    b'{"jsonrpc":"2.0","id":1,"method":"m","result":1}',
    b'{"jsonrpc":"2.0","id":1,"method":"m","params":1}',
    b'{"jsonrpc":"2.0","id":1,"result":1,"params":[]}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":2,"message":"m"}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1.0,"message":"m"}}',
    b'{"jsonrpc":"2.0","id":1,"error":null}',
    b'{"jsonrpc":"2.0","result":1}',
    b'{"jsonrpc":"2.0","id":1,"result":1} x',
    b'{"jsonrpc":"2.0","id":1,"result":1}}',
    RESULT % (b"[" * 1025 + b"]" * 1025),
    RESULT % b'"\\ud800"',
    RESULT % b'"\x00"',
    RESULT % b'"\xed\xa0\x80"',
    RESULT % b"01",
    RESULT % b"[1,]",
    RESULT % b'{"a":1,}',
    RESULT % b"nul",
    RESULT % b"1e400",
]

LONG = b"[%b0]" % (b'{"a":1,"b":2},' * 400)
LONG_AND_VALID = [
    (b'{"jsonrpc":"2.0","id":1,"result":%b}', 1),
    (b'{"result":%b,"jsonrpc":"2.0","id":1}', 1),
    (b' { "id" : 1 , "x":"\\"" , "result" : %b , "y":{} , "jsonrpc" : "2.0" } ', 1),
    (b'{"jsonrpc":"2.0","result":%b,"id":"a}b"}', "a}b"),
    (b'{"jsonrpc":"2.0","result":%b,"y":"]","id":null}', None),
]
LONG_AND_WRONG = [
    (b'{"jsonrpc":"2.0","id":1,"result":%b,"id":2}', "DUPLICATE_MEMBER"),
    (b'{"jsonrpc":"2.0","id":1,"result":%b,"jsonrpc":"2.0"}', "DUPLICATE_MEMBER"),
    (b'{"jsonrpc":"2.0","id":1,"result":%b,"result":1}', "DUPLICATE_MEMBER"),
    (b'{"id":1,"result":%b,"x":1}', "MISSING_JSONRPC"),
    (b'{"jsonrpc":"2.0","result":%b,"id":1x}', "MALFORMED_JSON"),
    (b'{"jsonrpc":"2.0","result":%b "id":1}', "MALFORMED_JSON"),
]


def test_messages_that_it_reads() -> None:
    for text, expected in TAKEN:
        found = _core._decode_fast(text, JSONRPC, False)
        assert (text, found) == (text, expected)
        assert repr(found) == repr(expected)


def test_messages_that_it_leaves() -> None:
    for text in LEFT:
        assert _core._decode_fast(text, JSONRPC, False) is None, text


def test_what_follows_a_long_payload(backends: tuple[ModuleType, ModuleType]) -> None:
    for backend in backends:
        for text, id in LONG_AND_VALID:
            assert backend.decode(text % LONG) == backend.Response(id, [{"a": 1, "b": 2}] * 400 + [0]), text
        for text, rule in LONG_AND_WRONG:
            assert repr(backend.decode(text % LONG)).startswith(f"ParseError({rule}, "), text


def test_a_long_payload_before_a_fault_is_not_made() -> None:
    for text, _ in LONG_AND_WRONG:
        _core._use_templates()
        _core.decode(text % LONG)
        assert _core._use_templates() in (0, None), text


def test_what_it_leaves_in_other_profiles() -> None:
    deep = RESULT % b"[[1]]"
    assert _core._decode_fast(deep, JSONRPC.replace(limits=Limits(depth=2)), False) == Response(1, [[1]])
    assert _core._decode_fast(deep, JSONRPC.replace(limits=Limits(depth=1)), False) is None
    data = b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":[]}}'
    assert _core._decode_fast(data, JSONRPC.replace(limits=Limits(depth=2)), False) is not None
    assert _core._decode_fast(data, JSONRPC.replace(limits=Limits(depth=1)), False) is None
    for big_ints in ("exact", "reject"):
        profile = JSONRPC.replace(big_ints=big_ints)
        assert _core._decode_fast(RESULT % b"18446744073709551615", profile, False) == Response(1, 2**64 - 1)
        for wide in (2**64, -(2**63) - 1, 10**4299, -(10**4298)):
            found = _core._decode_fast(RESULT % b"[%d]" % wide, profile, False)
            assert found == (Response(1, [wide]) if big_ints == "exact" else None)
        assert _core._decode_fast(RESULT % b"[1%d]" % 10**4299, profile, False) is None
        assert _core._decode_fast(RESULT % b"[18446744073709551616_0]", profile, False) is None
    assert _core._decode_fast(RESULT % b"1", MCP_2025_11_25, False) is None
    assert _core._decode_fast(b'{"jsonrpc":"2.0","id":1,"method":""}', MCP_2025_11_25, False) is None
    unknown = b'{"jsonrpc":"2.0","id":1,"method":"m","x":1}'
    assert _core._decode_fast(unknown, LENIENT, False) == Request(1, "m")
    assert _core._decode_fast(unknown, JSONRPC.replace(extra_members=False), False) is None


def test_raw_payloads() -> None:
    request = _core._decode_fast(b'{"params": {"a": 1.50} ,"jsonrpc":"2.0","method":"m","id":1}', JSONRPC, True)
    assert request == Request(1, "m", Raw(b'{"a": 1.50}'))
    error = _core._decode_fast(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":[1]}}', JSONRPC, True)
    assert error == Response(1, error=Error(1, "m", Raw(b"[1]")))
    assert _core._decode_fast(RESULT % b'"\xff"', JSONRPC, True) is None


@pytest.mark.ci
def test_raw_strings_are_checked_to_the_byte() -> None:
    """Every first byte of a character, every digit of an escape, and every surrogate, in every place of a word."""
    bodies = [b"\\u%b" % digits for digits in (b"0000", b"d7fF", b"E000", b"ud800", b"d800", b"DBff", b"dc00", b"Dfff")]
    bodies += [b"\\ud83d\\ude00", b"\\ud83d\\u0041", b"\\ud83d", b"\\u12", b"\\U1234", b"\\x"]
    for place in range(4):
        for byte in range(256):
            digits = bytearray(b"1aF9")
            digits[place] = byte
            bodies.append(b"\\u" + digits)
    for first in range(0x80, 0x100):
        for second in (0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0):
            bodies += [
                bytes([first, second, *rest]) for rest in ((), (0x80,), (0xBF, 0x80), (0x80, 0xC0), (0x41, 0x80))
            ]
    pads = (b"", "\u4e2d".encode(), "\u0416".encode(), b"\\u4e2d", b"x")
    for body in bodies:
        for pad in pads:
            for text in (
                b'"%b%b%b"' % (pad, body, pad),
                b'["%b%b%b"]' % (pad, body, 4 * pad),
                b'["%b%b%b","%b"]' % (pad, body, pad, b"x" * 48),
            ):
                eager, raw = _core.decode(RESULT % text), _core.decode(RESULT % text, raw=True)
                try:
                    expected = loads_exact(text)
                except orjson.JSONDecodeError:
                    assert isinstance(raw, _core.ParseError), text
                    assert raw == eager, text
                else:
                    assert (eager.result, raw.result.decode(), bytes(raw.result)) == (expected, expected, text)


def test_items_of_a_batch() -> None:
    good = b",".join(text for text, _ in TAKEN)
    found = _core.decode(b"[" + good + b',{"jsonrpc":"1.0"},1]')
    assert found[: len(TAKEN)] == [expected for _, expected in TAKEN]
    assert [(item.code.name, item.index) for item in found[len(TAKEN) :]] == [
        ("INVALID_JSONRPC_VERSION", len(TAKEN)),
        ("NOT_AN_OBJECT", len(TAKEN) + 1),
    ]


def test_payloads_that_orjson_reads_as_a_whole() -> None:
    """Many floats, in a message, before other members, in an error, in a batch, and with a fault at the end."""
    numbers = [number / 7 for number in range(1, 400)]
    text = orjson.dumps(numbers)
    first = b'{"params":%b,"jsonrpc":"2.0","method":"m","id":"]"}' % text
    error = b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":%b}}' % text
    for message, expected in (
        (RESULT % text, Response(1, numbers)),
        (RESULT % text + b" \r\n", Response(1, numbers)),
        (first, Request("]", "m", numbers)),
        (error, Response(1, error=Error(1, "m", numbers))),
    ):
        assert _core.decode(message) == expected
        assert _core.decode(b"[%b,%b]" % (message, message)) == [expected, expected]
        for profile in (JSONRPC, JSONRPC.replace(limits=Limits(depth=3))):
            assert _core.decode(message, profile) == expected
    for fault in (text[:-1] + b",]", text[:-1], text + b"]", text + b'},"x":[1}'):
        assert isinstance(_core.decode(RESULT % fault), _core.ParseError)
    assert _core.decode(RESULT % (text + b',"result":[]')).code.name == "DUPLICATE_MEMBER"


def test_strings_of_every_kind_and_length() -> None:
    """Each change of the width of a string's characters, at every position in the blocks that are read at once."""
    characters = ["x", "\n", "\xe9", "\u0416", "\u4e2d", "\uffff", "\U0001f600"]
    for length in [*range(20), 31, 32, 33, 63, 64, 65, 4000, 4064, 4095, 4096, 4097, 9000]:
        for first in characters:
            for second in characters:
                text = first * length + second + "x" * 17
                for written in (orjson.dumps(text), json.dumps(text).encode()):
                    found = _core._decode_fast(RESULT % written, JSONRPC, False)
                    assert found.result == text
                    assert hash(found.result) == hash(text)


def test_characters_of_three_bytes_among_others() -> None:
    """The first and the last of each kind, and faults, at each place of the four that are read at once."""
    parts = [char.encode() for char in "\u0800\u0fff\u1000\ud7ff\ue000\uffffx\xe9\U0001f600"]
    parts += [b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xe4\xb8", b"\xe4\xb8\x41", b"\xe4\x41\x80"]
    parts += [b"\xe4\xc0\x80", b"\xf4\x80\x80", b"\x80\x80\x80", b"\xc4\x80\x80", b"\\n", b"\x00"]
    for part in parts:
        for before in range(16, 25):
            for behind in range(9):
                text = b'"%b%b%b"' % ("\u4e2d".encode() * before, part, "\u6587".encode() * behind)
                found = _core._decode_fast(RESULT % text, JSONRPC, False)
                try:
                    expected = loads_exact(text)
                except orjson.JSONDecodeError:
                    assert found is None, text
                else:
                    assert found.result == expected, text


def test_made_strings_and_integers_are_those_of_python() -> None:
    """Unchanged, and where more is done with them."""
    for number in (257, 32767, 32768, 2**30 - 1, 2**30, 2**30 + 1, 2**60, -257, -(2**30)):
        found = _core.decode(RESULT % b"%d" % number).result
        expected = int(str(number))
        assert (type(found), found, hash(found), found.bit_length()) == (int, number, hash(number), number.bit_length())
        assert (sys.getsizeof(found), sys.getrefcount(found)) == (sys.getsizeof(expected), sys.getrefcount(expected))
        assert (found + 1, -found, found * found, str(found)) == (number + 1, -number, number * number, str(number))
        assert marshal.dumps(found, 0) == marshal.dumps(expected, 0)
    for length in (1, 2, 15, 16, 17, 300):
        found = _core.decode(RESULT % b'"%b"' % (b"x" * length)).result
        expected = "".join(["x"] * length)
        assert (type(found), found, hash(found), found.isascii()) == (str, expected, hash(expected), True)
        assert sys.getsizeof(found) == len(expected) + sys.getsizeof("xy") - 2
        assert (found + "y", found.encode(), found[:-1]) == (expected + "y", expected.encode(), expected[:-1])
        assert sys.intern(found) == expected
        assert marshal.dumps(found, 0) in (marshal.dumps(expected, 0), marshal.dumps(sys.intern(expected), 0))
        found += "\u4e2d"
        assert found == expected + "\u4e2d"
        assert _core.decode(RESULT % b'"%b"' % (b"x" * length)).result == expected


@pytest.mark.ci
def test_strings_of_all_kinds_and_lengths() -> None:
    """Characters and escapes of all kinds in any order, and faults: short strings have functions of their own."""
    rng = random.Random(7)
    parts = [b"x", b"path", b"\\n", b'\\"', b"\\\\", b"\\/", b"\\u00e9", b"\\ud83d\\ude00", b"\x7f"]
    parts += [char.encode() for char in "\x80\xbf\xc0\xff\u0100\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"]
    latin = [b"x", b"path", b"\x7f", *(char.encode() for char in "\x80\xbf\xc0\xff")]
    faults = [b"\x00", b"\x1f", b"\\x", b"\\u12", b"\x80", b"\xc1\xbf", b"\xc3", b"\xe0\x9f\xbf"]
    faults += [b"\xed\xa0\x80", b"\xe4\xb8", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80", b"\xff"]
    for number in range(30_000):
        chosen = rng.sample(latin if number % 4 == 0 else parts, rng.randint(1, 4))
        pieces = rng.choices(chosen, k=rng.randint(1, 12 if number % 5 else 90))
        if number % 3 == 0:
            pieces[rng.randrange(len(pieces))] = rng.choice(faults)
        text = b'["%b","%b"]' % (b"".join(pieces), b"x" * rng.choice((0, 8, 30, 60)))
        found = _core._decode_fast(RESULT % text, JSONRPC, False)
        try:
            expected = loads_exact(text)
        except orjson.JSONDecodeError:
            assert found is None, text
        else:
            assert found.result == expected, text
            assert hash(found.result[0]) == hash(expected[0])
            if len(expected[0]) > 1:  # a single character is shared, and may have its UTF-8
                assert sys.getsizeof(found.result[0]) == sys.getsizeof("".join([*expected[0]])), text


WIRE = Path(__file__).parents[1] / "vectors" / "wire"


def names_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = value.values()
    if not isinstance(value, str):
        for item in value if isinstance(value, Iterable) else ():
            yield from names_in(item)


@pytest.mark.skipif(FREE_THREADED, reason="without the GIL the cache of a thread is smaller")
def test_the_names_of_real_messages_do_not_drive_each_other_out() -> None:
    lines = [line for path in sorted(WIRE.glob("*.ndjson")) for line in path.read_bytes().splitlines()]
    messages = [message for message in map(_core.decode, lines * 2) if isinstance(message, Request)]
    names = [(message.method, *names_in(message.params)) for message in messages]
    half = len(names) // 2
    first, second = ([name for found in part for name in found] for part in (names[:half], names[half:]))
    assert first == second
    assert len(first) > 100
    assert [name for name, again in zip(first, second, strict=True) if name is not again] == []


def test_names_of_every_length_stay_apart() -> None:
    names = ["n" * length + end for length in range(70) for end in ("", "a", "b", "ab")]
    names += [f"{first}{'-' * length}{last}" for first in "ab" for last in "ab" for length in range(70)]
    for _ in range(2):
        for name in names:
            assert list(_core._decode_fast(RESULT % orjson.dumps({name: 1}), JSONRPC, False).result) == [name]


def test_names_of_every_spelling_stay_apart() -> None:
    """Names beyond ASCII and with escapes, of each length, read twice: cached and not cached."""
    names = [
        f"{first}{'-' * length}{last}" for first in ("\xe9", "\n", "\u4e2d") for last in "ab" for length in range(60)
    ]
    names += [
        f"{'-' * length}{middle}{'-' * 20}"
        for middle in ("\xe9", "\xe8", '"', "\\", "\U0001f600")
        for length in range(30)
    ]
    for _ in range(3):
        for name in names:
            for written in (orjson.dumps(name), json.dumps(name).encode()):
                assert list(_core._decode_fast(RESULT % b"{%b:1}" % written, JSONRPC, False).result) == [name]
                request = b'{"jsonrpc":"2.0","id":1,"method":%b}' % written
                assert _core._decode_fast(request, JSONRPC, False) == Request(1, name)
    many = {f"\xe9{number}": number for number in range(3000)}
    for _ in range(3):
        assert _core._decode_fast(RESULT % orjson.dumps([many]), JSONRPC, False).result == [many]
    for fault in (b'"\xe9', b'"\xe9"', b'"\xc3\xa9', b'"\\"', b'"\\', b'"\xc3\xa9\n"', b'"\\ud800"', b'"\\x"'):
        for _ in range(3):
            assert _core._decode_fast(RESULT % b"{%b:1}" % fault, JSONRPC, False) is None


def numbers(corpora: Path) -> Iterator[str]:
    path = corpora / "outside" / "numbers.json"
    if path.exists():
        for listed in json.loads(path.read_bytes())["numbers"].values():
            yield from listed
    for number in (2**53, 2**53 + 1, 2**63, 2**64 - 1, 5**23, 10**18, 10**19 - 1):
        for power in range(-330, 310, 3):
            yield f"{number}e{power}"
            yield f"0.{number}e{power}"


def test_numbers_are_exact(corpora: Path) -> None:
    accepted = 0
    for token in numbers(corpora):
        message = _core.decode(RESULT % token.encode())
        try:
            expected = loads_exact(token.encode())
        except orjson.JSONDecodeError:
            assert isinstance(message, _core.ParseError), token
            continue
        accepted += 1
        assert (type(message.result), repr(message.result)) == (type(expected), repr(expected)), token
        if isinstance(expected, float):
            assert repr(message.result) == repr(float(token)), token
    assert accepted > 2000


def test_json_test_suite(corpora: Path) -> None:
    for path in sorted((corpora / "jsontestsuite" / "test_parsing").iterdir()):
        text = path.read_bytes()
        found = _core.decode(RESULT % text)
        try:
            expected = loads_exact(text)
        except orjson.JSONDecodeError:
            assert not path.name.startswith("y_")
            assert isinstance(found, _core.ParseError), path.name
        else:
            assert marshal.dumps(found.result, 0) == marshal.dumps(expected, 0), path.name


@rows("count", range(900, 1400, 17))
def test_valid_texts_that_orjson_refuses(impl: ModuleType, count: int) -> None:
    """orjson 3.13 refuses some arrays of many short values, if two white space characters follow the first bracket."""
    deep = b"[" * 70 + b"]" * 70  # left to orjson
    text = b"[ \n" + b"1," * count + deep + b"]"
    for data in (RESULT % text, b"[ \n%b]" % (RESULT % text), b'{"id":1, "result":%b,"jsonrpc":"2.0"}' % text):
        found = impl.decode(data)
        message = found[0] if isinstance(found, list) else found
        assert message.result == [1] * count + [orjson.loads(deep)]
    wide = b"[ \n" + b"1," * count + b"1" * 30 + b"]"
    assert impl.decode(RESULT % wide, JSONRPC).result[-1] == int("1" * 30)
    assert impl.Raw(text).decode()[0] == 1


# Memory


@pytest.fixture(scope="module")
def page() -> Iterator[tuple[int, int]]:
    """The address and the size of memory between two guard pages."""
    if not guard_pages.is_possible():
        pytest.skip("memory is guarded as Linux does it")
    with guard_pages.guarded_page() as found:
        yield found


def bytes_up_to(end: int, text: bytes) -> bytes:
    """Return a bytes object whose last byte is the one before the address `end`, with nothing after it."""
    head_and_text = ctypes.string_at(id(text), sys.getsizeof(text) - 1)
    address = end - len(head_and_text)
    ctypes.memmove(address, head_and_text, len(head_and_text))
    found: bytes = ctypes.cast(ctypes.c_void_p(address), ctypes.py_object).value
    return found


@pytest.mark.skipif(FREE_THREADED, reason="a copied object belongs to no thread")
@pytest.mark.ci
def test_no_byte_behind_the_text_is_read(page: tuple[int, int]) -> None:
    address, size = page
    texts = [text for text, _ in TAKEN] + LEFT
    texts += [b"[%b]" % text for text, _ in TAKEN]
    texts.append(RESULT % orjson.dumps([number / 7 for number in range(100)]))
    texts.append(RESULT % '["größe","\\\\\\n","标题内容","ok \U0001f600","größe und länge"]'.encode())
    texts.append(RESULT % '["标题内容标题内容标题内容标题内容标题内容标题内容"]'.encode())
    texts.append(RESULT % (b"[" + b",".join([b"\n" + b" " * size + b"1" * size for size in range(1, 40)]) + b"]"))
    for text in texts:
        for end in range(max(0, len(text) - 100), len(text) + 1):
            for closing in (b"", b"}", b"]", b"}]"):
                part = text[:end] + closing
                if sys.version_info >= (3, 14):
                    # The interpreter marks references in their lowest bits: an object must begin at a multiple of 8.
                    part = b" " * (-len(part) % 8) + part
                guarded = bytes_up_to(address + size, part)
                for raw in (False, True):
                    assert _core.decode(guarded, raw=raw) == _core.decode(part, raw=raw)
                del guarded


@pytest.mark.slow
@forked
def test_memory_that_is_not_there() -> None:
    """Each allocation fails in turn: the call raises MemoryError or returns the message, and no object is leaked."""
    import _testcapi as testcapi

    strings = [
        b'"\xe4\xb8\xad\\n"',
        b'"' + b"\\n" * 5000 + b'"',
        b'"\xc3\xa9\xf0\x9f\x98\x80"',
        b'"' + b"\xd0\x96" * 9000 + b'"',
    ]
    texts = [text for text, _ in TAKEN] + [
        RESULT % (b"[" + b",".join(strings * 2) + b"]"),
        RESULT % (b"[" + b",".join([b"1234567"] * 1000) + b"]"),
        RESULT % (b"{" + b",".join([b'"unseen-%d":%d' % (number, number) for number in range(300)]) + b"}"),
    ]
    for text in texts:
        texts_result = _core.decode(text)
        batch = b"[%b,%b]" % (text, text)
        for data, expected in ((text, texts_result), (batch, [texts_result] * 2)):
            memory.collect()
            before = sys.getallocatedblocks()
            failures = 0
            found = None
            for place in range(10_000):
                testcapi.set_nomemory(place, place + 1)
                try:
                    found = _core.decode(data)
                except MemoryError:
                    found = None
                finally:
                    testcapi.remove_mem_hooks()
                if found is not None:
                    assert found == expected
                    if place > failures:  # none failed in this call
                        break
                failures = place + 1 if found is None else failures
            else:
                pytest.fail("there is no end of allocations")
            found = None
            gc.collect()
            assert abs(sys.getallocatedblocks() - before) < 3000


def test_nothing_is_leaked() -> None:
    texts = [text for text, _ in TAKEN] + LEFT

    def work() -> None:
        for _ in range(100):
            for text in texts:
                _core.decode(text)

    assert memory.growth(work) < 50


# Messages and calls


def test_every_form_of_a_call_is_read_alike() -> None:
    text = b'{"jsonrpc":"2.0","id":1,"method":"m","params":null}'
    request = b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}'
    fault = _core.decode(text)
    for call in (
        lambda: _core.decode(text, LENIENT),
        lambda: _core.decode(text, profile=LENIENT),
        lambda: _core.decode(data=text, profile=LENIENT),
        lambda: _core.decode(profile=LENIENT, data=text),
        lambda: _core.decode(text, LENIENT, raw=False),
        lambda: _core.decode(text, raw=False, profile=LENIENT),
        lambda: _core.decode(text, LENIENT, raw=0),
        lambda: _core.decode(memoryview(text), LENIENT),
    ):
        assert call() == Request(1, "m")
    for raw in (True, 1, "x"):
        for found in (_core.decode(request, raw=raw), _core.decode(request, JSONRPC, raw=raw)):
            assert found == Request(1, "m", Raw(b"[1]"))
    assert fault.code.name == "INVALID_PARAMS_TYPE"


def test_calls_that_are_refused(impl: ModuleType) -> None:
    text = b"{}"
    for arguments, names, expected in (
        ((), {}, "missing|at least 1"),
        ((text, JSONRPC, True), {}, "takes"),
        ((text, JSONRPC), {"profile": JSONRPC}, "multiple values"),
        ((text,), {"data": text}, "multiple values"),
        ((text,), {"Raw": True}, "unexpected keyword argument 'Raw'"),
        ((text, 1), {}, "^profile must be a Profile, such as jsonrpc_fast.LENIENT, not int$"),
        ((text,), {"profile": None}, "^profile must be a Profile, such as jsonrpc_fast.LENIENT, not NoneType$"),
        ((1,), {}, "^data must be bytes, bytearray, memoryview or str, not int$"),
    ):
        with pytest.raises(TypeError, match=expected):
            impl.decode(*arguments, **names)


def test_more_profiles_than_places() -> None:
    """Profiles that replace one another in the table, also after they are freed."""
    text = b'{"jsonrpc":"2.0","id":1,"method":"mm","params":[]}'
    for _ in range(3):
        profiles = [JSONRPC.replace(limits=Limits(method_bytes=1 + number % 2)) for number in range(300)]
        for _ in range(2):
            for number, profile in enumerate(profiles):
                found = _core.decode(text, profile)
                assert (found == Request(1, "mm", [])) is (number % 2 == 1)


def test_the_garbage_collector_tracks_messages_that_can_be_in_cycles() -> None:
    for text, expected in (
        (b'{"jsonrpc":"2.0","id":1,"method":"m"}', False),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":[]}', True),
        (b'{"jsonrpc":"2.0","method":"m"}', False),
        (b'{"jsonrpc":"2.0","method":"m","params":{}}', True),
        (RESULT % b'"x"', False),
        (RESULT % b"[]", True),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}', True),
    ):
        assert gc.is_tracked(_core.decode(text)) is expected
        assert gc.is_tracked(_core.parse(json.loads(text))) is expected
        assert not gc.is_tracked(_core.decode(text, raw=True)) or b"error" in text
    assert gc.is_tracked(Request(1, "m", []))
    assert gc.is_tracked(Request(1, "m", params=None))

    class Id(str):
        pass

    assert gc.is_tracked(_core.parse({"jsonrpc": "2.0", "id": Id("x"), "method": "m"}))


@pytest.mark.ci
def test_freed_messages_are_made_again() -> None:
    """More messages of each class at once than a free list holds, decoded and constructed in turn."""
    texts = [text for text, _ in TAKEN]
    expected = [message for _, message in TAKEN]
    for _ in range(3):
        kept = [_core.decode(text) for _ in range(400) for text in texts]
        blank = [cls.__new__(cls) for cls in (Request, Notification, Response) for _ in range(1500)]
        assert all(getattr(message, name) is None for message in blank for name in message.__match_args__)
        made = [Request(1, "m"), Notification("m"), Response(1, 2)]
        assert kept == expected * 400
        del kept, blank
        assert made == [Request(1, "m"), Notification("m"), Response(1, 2)]


def test_what_waits_to_be_made_again_is_bounded() -> None:
    """Messages from a constructor enter the free list, as decoded ones do. Only `Response` takes one from it."""
    for make in (lambda: Request(1, "m", [1]), lambda: Notification("m", {}), lambda: Error(1, "m", None)):
        for _ in range(2100):
            make()
        before = sys.getallocatedblocks()
        for _ in range(500):
            make()
        assert sys.getallocatedblocks() - before < 100
    Response(1, 2)
    before = sys.getallocatedblocks()
    for _ in range(500):
        Response(1, 2)
    assert sys.getallocatedblocks() - before < 100
    for _ in range(2):
        before = sys.getallocatedblocks()
        kept = [call_with(number, b"1" + b",2" * (number % 6)) for number in range(1000, 13000)]
        del kept
    assert sys.getallocatedblocks() - before < 100


def call_with(number: int, items: bytes) -> Any:
    return _core.decode(b'{"jsonrpc":"2.0","id":%d,"method":"m","params":[%b]}' % (number, items))


def test_ids_and_lists_in_use_do_not_wait_to_be_made_again() -> None:
    texts = (b'"id":1000,"method":"m","params":[1,2]', b'"id":1048576,"result":[1,2]')
    for text, number in zip(texts, (1000, 1 << 20), strict=True):
        message: Any = _core.decode(b'{"jsonrpc":"2.0",%b}' % text)
        id, items = message.id, message.params if type(message) is Request else message.result
        del message
        others = [call_with(2000 + other, b"3,4") for other in range(3)]
        assert (id, id + 1, items, gc.is_tracked(items)) == (number, number + 1, [1, 2], True)
        del others
        items.append(call_with(3000, b"5,6"))
        assert items == [1, 2, Request(3000, "m", [5, 6])]


def test_a_list_that_is_made_again_is_as_a_new_one() -> None:
    changes: list[Callable[[list[Any]], object]] = [
        lambda items: items.append(1),
        lambda items: items.extend(range(9)),
        lambda items: items.clear(),
        lambda items: items.pop() if items else None,
        lambda items: items.insert(0, items),
        lambda items: items.append({"a": [1]}),
        lambda items: items.append((1, [2])),
        lambda items: items.append(object()),
    ]
    memory.collect()  # `gc.get_objects` then returns the few objects that are made here
    for change in (lambda items: None, *changes):
        for count in range(7):
            text = b",".join([b"%d" % (7000 + number) for number in range(count)])
            for round_ in range(3):
                message = call_with(5000 + round_, text)
                expected = [7000 + number for number in range(count)]
                assert (message.params, message.id) == (expected, 5000 + round_)
                assert message.params.__sizeof__() == ([None] * count).__sizeof__()
                assert gc.is_tracked(message.params)
                change(message.params)
                waiting = id(message.params)
                del message
                assert all(id(found) != waiting or found for found in gc.get_objects() if type(found) is list)
    gc.collect()


def test_code_that_runs_while_the_items_of_a_list_are_freed() -> None:
    class Item:
        def __del__(self) -> None:
            kept.append(call_with(len(kept) + 4000, b"1,2"))
            gc.collect()

    memory.collect()  # 400 full collections of everything that the process holds would take 19 seconds
    kept: list[Any] = []
    for count in range(1, 5):
        for _ in range(20):
            Request(9999, "m", [{"a": Item()} for _ in range(count)])
            Request(9999, "m", [[Item()] for _ in range(count)])
    assert kept == [Request(4000 + number, "m", [1, 2]) for number in range(400)]


@rows(
    "wrap",
    [
        lambda inner: _core.parse({"jsonrpc": "2.0", "id": 1, "result": inner}),
        lambda inner: Response(1, (inner,)),
        lambda inner: Response(1, [inner]),
        lambda inner: Request(1, "m", [inner]),
        lambda inner: Notification("m", {"a": inner}),
        lambda inner: Response(1, error=Error(1, "m", inner)),
    ],
)
@pytest.mark.ci
def test_long_chains_of_messages_are_freed(wrap: Any) -> None:
    message: Any = None
    for _ in range(60_000):
        message = wrap(message)
    del message
    assert _core.decode(TAKEN[0][0]) == TAKEN[0][1]
