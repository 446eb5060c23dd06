"""Texts that resemble JSON-RPC: real messages, shapes in any order and spacing, and mutations.

The functions take a generator of random numbers. `mutants` is the same for Hypothesis.
"""

from __future__ import annotations

import random
import re
from decimal import Decimal, localcontext

from hypothesis import strategies as st

from ..support.oracle import orjson
from ..support.places import WIRE

LINES = [line for path in sorted(WIRE.glob("*.ndjson")) for line in path.read_bytes().splitlines()]
"""Captured messages of other projects."""
MADE = [
    rb'{"jsonrpc":"2.0","id":18446744073709551616,"method":"m","params":[123456789012345678901234567890,-0,1e2]}',
    rb'{"jsonrpc":"2.0","\u0069d":"\ud83d\ude00","m\u0065thod":"\u00e9\n","params":{"a":{"b":[[[]]]}}}',
    rb'{"jsonrpc":"2.0","id":1.50,"error":{"code":-32000,"message":"","data":null},"x":{"id":1,"id":2}}',
    rb'[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":1,"result":null,"error":null},[],1]',
    b' [ {"id" : null , "result" : {} , "jsonrpc" : "2.0" } ,\r\n\t{"method":"","jsonrpc":"2.0","params":null} ] ',
]
"""Messages with features that captured ones rarely have."""
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[-+.0-9eE]+|[a-z]+|[ \t\r\n]+|.', re.DOTALL)
REPLACEMENTS = [
    *(b'"jsonrpc" "id" "method" "params" "result" "error" "code" "message" "data" "2.0" "" "x"'.split()),
    *(rb'"\u0069d" "\u006d\u0065thod" "json\u0072pc" "2\u002e0" "\ud83d\ude00" "\ud800" "\u12" "\x" "\/"'.split()),
    *(b"null true false nul 0 -0 1 -1 1.0 1.5 1e2 1e400 0.1e-7 -1e-400 12345678901234567.8 01 1. - NaN".split()),
    *(b"9223372036854775807 9223372036854775808 18446744073709551615 18446744073709551616".split()),
    *(b"-9223372036854775808 -9223372036854775809 123456789012345678901234567890123456789012".split()),
    *(310 * b"9", 309 * b"9", 308 * b"9", b"1" + 308 * b"0", 41 * b"1" + b".0", b'"' + 41 * b"i" + b'"'),
    *(b"{ } [ ] {} [] [[]] [[[]]] [[[[]]]] : , ,, :1 {]".split()),
    *(b"\xc3\xa9", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x00", b"\x1f", b"\x7f", b"\n", b" ", b""),
    *(
        b'{"a":1}',
        b'[1,"a"]',
        b'{"code":1,"message":"m"}',
        b'{"code":1.0,"message":"m"}',
        b'"a\xc3\xa9"',
        b'"\xf4\x90\x80\x80"',
    ),
]

# Members in every relevant spelling, with values that are valid, nearly valid and invalid.
_NAMES = {
    b"jsonrpc": [b'"jsonrpc"'] * 8 + [b'"\\u006asonrpc"', b'"jsonrp\\u0063"', b'"JSONRPC"', b'"jsonrpc "'],
    b"id": [b'"id"'] * 8 + [b'"\\u0069d"', b'"i\\u0064"', b'"Id"', b'"i\\d"', b'"id\\u0000"'],
    b"method": [b'"method"'] * 8 + [b'"m\\u0065thod"', b'"method\\n"'],
    b"params": [b'"params"'] * 8 + [b'"\\u0070arams"', b'"param"'],
    b"result": [b'"result"'] * 8 + [b'"resul\\u0074"'],
    b"error": [b'"error"'] * 8 + [b'"\\u0065rror"', b'"errors"'],
    b"other": [b'"extra"', b'""', b'"\xc3\xa9"', b'"a\\"b"', b'"\\ud83d\\ude00"'],
}
with localcontext(prec=800):
    _HALFWAY = format(Decimal(2) ** -1022 + Decimal(2) ** -1075, "f").encode()  # between two doubles, with 768 digits
_NUMBERS = [
    b"0", b"7", b"-1", b"-0", b"01", b"1.5", b"1.0", b"0.1", b"1e2", b"1E+2", b"1e-2", b"1e400", b"-1e400",
    b"1e-400", b"9007199254740993", b"999999999999999999", b"1000000000000000000", b"9223372036854775807",
    b"9223372036854775808", b"-9223372036854775808", b"-9223372036854775809", b"18446744073709551615",
    b"18446744073709551616", b"1" + b"0" * 39, b"9" * 308, b"9" * 309, b"9" * 600, b"1.", b".5", b"-", b"+1",
    b"1e", b"0x1", b"1_0", b"NaN", b"-Infinity", b"17976931348623157e292", b"17976931348623159e292",
    b"12345678901234567.8", b"00", b"--1", b"1e+",
    b"-18446744073709551616", b"12345678901234567890123", b"-" + b"7" * 640, b"7" * 641, b"3" * 4300, b"3" * 4301,
    b"0." + b"12345" * 5, b"12345678901234567890123.5e-7", b"-0." + b"0" * 30 + b"7" * 25, b"0." + b"1" * 800,
    b"1" * 400 + b"." + b"2" * 400, b"1." + b"0" * 20, b"9" * 25 + b"e280", _HALFWAY, _HALFWAY + b"0", _HALFWAY + b"1",
]  # fmt: skip
_STRINGS = [
    b'"2.0"', b'"2\\u002e0"', b'"1.0"', b'""', b'"a"', b'"tools/call"', b'"c4n4ry"', b'"eth_call"', b'"0x36"',
    b'"\xc3\xa9\xf0\x9f\x98\x80"', b'"\\u00e9"', b'"\\ud83d\\ude00"', b'"\\ud800"', b'"\\udc00"',
    b'"\\ud800\\u0041"', b'"\\u12"', b'"\\x"', b'"a\nb"', b'"\x7f"', b'"\x00"', b'"\xff"', b'"\xc0\xaf"',
    b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xe2\x82"', b'"' + b"m" * 70 + b'"', b'"' + b"k" * 600 + b'"',
    b'"' + b"n" * 1100 + b'"', b'"abcdefghijklmno\\n"', b'"abcdefghijklmn\\u0041pq"', b'"tail\\"',
    b'",\\"id\\":7}"', b'"\\",\\"id\\":7}"', b"'a'", b'"\\/"', b'"0123456789abcde"', b'"0123456789abcdef"',
]  # fmt: skip
_OTHERS = [b"null", b"true", b"false", b"nul", b"truE", b"", b"{}", b"[]", b"[1,]", b"{,}", b'{"a"}', b"[1 2]"]
_PARAMS = [
    b"{}",
    b"[]",
    b'["0x1","latest",true,null,7]',
    b'[1.5,"\xc3\xa9"]',
    b'{"id":1,"a":"\\n","b":[{"c":2}]}',
    b"[ 1 , 2 ]",
]
_SPACES = [b""] * 12 + [b" ", b"\t", b"\r", b"\n", b"  \r\n", b"\x0b", b"\xc2\xa0"]
_TOKENS = [
    b",", b":", b"{", b"}", b"[", b"]", b'"', b"\\", b" ", b"\n", b"\x00", b"\x7f", b"\xff", b"\xe2\x82\xac",
    b',"id":7}', b',"jsonrpc":"2.0"}', b',"jsonrpc":"2.0","id":1}', b'"id":', b'"result":', b'"params":',
    b"\xef\xbb\xbf", b'"c4n4ry"', b"c4n4ry", b"\n\n", b"\r\n",
]  # fmt: skip


def _is_json(token: bytes) -> bool:
    try:
        orjson.loads(token)
    except orjson.JSONDecodeError:
        return False
    return True


_VALID = [token for token in _NUMBERS + _STRINGS + _OTHERS if _is_json(token)]


def message(rng: random.Random, seeds: list[bytes]) -> bytes:
    """One text: a seed or one of the grammar, alone or in a batch, mutated or not."""
    choice = rng.random()
    if choice < 0.4:
        text = rng.choice(seeds)
    elif choice < 0.78:
        text = _object(rng)
    elif choice < 0.93:
        text = confusing(rng)
    else:
        items = [_object(rng) if rng.random() < 0.8 else _value(rng, 0) for _ in range(rng.randrange(5))]
        text = b"[" + b",".join(items) + b"]"
    while rng.random() < 0.35:
        text = mutated(rng, text)
    return text


def _object(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.6:
        names = [b"jsonrpc", b"id", b"method", b"params"]
    elif kind < 0.8:
        names = [b"jsonrpc", b"id", b"result"]
    elif kind < 0.85:
        names = [b"jsonrpc", b"id", b"result", b"error"]  # one of them may be null
    else:
        names = [b"jsonrpc", b"id", b"error"]
    while rng.random() < 0.25:
        if rng.random() < 0.5:
            names.append(rng.choice(list(_NAMES)))
        elif names:
            names.pop(rng.randrange(len(names)))
    if rng.random() < 0.6:
        rng.shuffle(names)
    space = _SPACES if rng.random() < 0.3 else [b""]
    members = [
        rng.choice(space) + rng.choice(_NAMES[name]) + rng.choice(space) + b":" + rng.choice(space) + _of(rng, name)
        for name in names
    ]
    return b"{" + (rng.choice(space) + b",").join(members) + rng.choice(space) + b"}" + rng.choice(space)


def _of(rng: random.Random, name: bytes) -> bytes:
    """A value for a member, most often one that fits."""
    if rng.random() < 0.12:
        return _value(rng, 0)
    if name == b"jsonrpc":
        return b'"2.0"'
    if name == b"id":
        return rng.choice(_NUMBERS[:4] if rng.random() < 0.5 else _NUMBERS + _STRINGS[:10])
    if name == b"method":
        return rng.choice(_STRINGS[3:12])
    if name in (b"result", b"error") and rng.random() < 0.2:
        return b"null"
    if name == b"error":
        return b'{"code":%b,"message":%b,"data":%b}' % (
            rng.choice(_NUMBERS[:3]),
            rng.choice(_STRINGS[:10]),
            _value(rng, 1),
        )
    return _value(rng, 0) if name == b"result" or rng.random() < 0.2 else rng.choice(_PARAMS)


_MEMBERS = ("jsonrpc", "id", "method", "params", "result", "error", "code", "message", "data", "x")


def confusing(rng: random.Random) -> bytes:
    """A message, or a batch, whose values are names of members, in which names are escaped, and whose payloads have the
    members of an envelope. Its members are those of a valid message, and sometimes one more."""
    if rng.random() < 0.15:
        return b"[" + b",".join([_confusing_message(rng) for _ in range(rng.randrange(1, 4))]) + b"]"
    return _confusing_message(rng)


def _confusing_message(rng: random.Random) -> bytes:
    members = [("jsonrpc", b'"2.0"')]
    kind = rng.randrange(4)
    if kind < 2:
        params = (_confusing_value(rng, 2), b"[%b]", b"{%b:%%b}" % _confusing_name(rng))[rng.randrange(3)]
        members.append(("method", _confusing_name(rng)))
        members.append(("params", params % _confusing_value(rng, 1) if b"%b" in params else params))
    elif kind == 2:
        members.append(("result", _confusing_value(rng, 2)))
    else:
        inside = [("code", b"1"), ("message", _confusing_name(rng))]
        inside += [(name, _confusing_value(rng, 1)) for name in ("data", "x") if rng.random() < 0.5]
        rng.shuffle(inside)
        members.append(("error", b"{%b}" % _confusing_members(rng, inside, b"")))
    if rng.random() < 0.8:
        members.append(("id", rng.choice((b"1", b"null", b"1.5", _confusing_name(rng)))))
    if rng.random() < 0.3:
        members.append((rng.choice(_MEMBERS), _confusing_value(rng, 2)))
    rng.shuffle(members)
    space = rng.choice((b"", b"", b" ", b"\n  ", b" " * 70))
    return b"{%b}" % _confusing_members(rng, members, space)


def _confusing_members(rng: random.Random, members: list[tuple[str, bytes]], space: bytes) -> bytes:
    written = [_escaped(rng, name) + space + b":" + space + value for name, value in members]
    return space + (space + b"," + space).join(written) + space


def _confusing_value(rng: random.Random, level: int) -> bytes:
    choice = rng.randrange(9)
    if choice < 3 or (level == 0 and choice < 8):
        return _confusing_name(rng)
    if choice == 3:
        return rng.choice((b"1", b"-2", b"null", b"true", b"1.5", b"[]", b"{}", b'":"', b'"}"', b'"],"'))
    if choice < 6:
        return b"[%b]" % b",".join([_confusing_value(rng, level - 1) for _ in range(rng.randrange(4))])
    if choice < 8:
        members = [(rng.choice(_MEMBERS), _confusing_value(rng, level - 1)) for _ in range(rng.randrange(3))]
        return b"{%b}" % _confusing_members(rng, members, b"")
    return b'"{\\"%b\\":1,\\"id\\":2}"' % rng.choice(_MEMBERS).encode()


def _confusing_name(rng: random.Random) -> bytes:
    return _escaped(rng, rng.choice(_MEMBERS))


def _escaped(rng: random.Random, name: str) -> bytes:
    """A string, occasionally with one letter escaped."""
    if rng.random() < 0.75:
        return b'"%b"' % name.encode()
    at = rng.randrange(len(name))
    return b'"%b\\u%04x%b"' % (name[:at].encode(), ord(name[at]), name[at + 1 :].encode())


def _value(rng: random.Random, level: int) -> bytes:
    choice = rng.random()
    if level < 4 and choice < 0.2:
        return b"[" + b",".join([_value(rng, level + 1) for _ in range(rng.randrange(5))]) + b"]"
    if level < 4 and choice < 0.4:
        members = [
            rng.choice(_STRINGS if rng.random() < 0.1 else _STRINGS[:10]) + b":" + _value(rng, level + 1)
            for _ in range(rng.randrange(4))
        ]
        return b"{" + rng.choice(_SPACES) + b",".join(members) + b"}"
    if choice < 0.41:
        depth = rng.choice((2, 3, 64, 65, 128, 1023, 1024, 1025))
        return b"[" * depth + b"]" * depth
    kinds = (_NUMBERS, _STRINGS, _STRINGS, _OTHERS) if rng.random() < 0.1 else (_VALID,)
    return rng.choice(rng.choice(kinds))


def mutants(lines: list[bytes] | None = None) -> st.SearchStrategy[bytes]:
    """Real messages with up to four mutations, for Hypothesis."""
    lines = lines or [*LINES, *MADE, *MADE, *MADE]
    return st.randoms(use_true_random=False).map(lambda rng: mutant(rng, lines))


def mutant(rng: random.Random, lines: list[bytes]) -> bytes:
    """One of the lines, or two as a batch, with up to four mutations."""
    text = rng.choice(lines)
    if rng.randrange(8) == 7:
        text = b"[" + text + b"," + rng.choice(LINES) + b"]"
    for _ in range(rng.randrange(5)):
        text = mutated(rng, text)
    return text


def mutated(rng: random.Random, text: bytes) -> bytes:
    """A text with one mutation, of its tokens or of its bytes."""
    return _with_other_tokens(rng, text) if rng.randrange(2) else _with_other_bytes(rng, text)


def _with_other_tokens(rng: random.Random, text: bytes) -> bytes:
    tokens = TOKEN.findall(text)
    at = rng.randrange(max(len(tokens), 1))
    choice = rng.randrange(5)
    if choice < 2:
        tokens[at : at + 1] = [rng.choice(REPLACEMENTS)]
    elif choice == 2:
        del tokens[at : at + rng.choice((1, 1, 2, 4))]
    elif choice == 3:
        # Whole members are four tokens: a name, a colon, a value, a comma.
        tokens[at:at] = tokens[at : at + rng.choice((1, 4, 4, 8))]
    elif tokens:
        other = rng.randrange(len(tokens))
        tokens[at], tokens[other] = tokens[other], tokens[at]
    return b"".join(tokens)


def _with_other_bytes(rng: random.Random, text: bytes) -> bytes:
    at = rng.randrange(len(text) + 1)
    to = min(len(text), at + rng.choice((1, 1, 2, 4, 8, 40)))
    choice = rng.randrange(7)
    if choice == 0:
        return text[:at] + text[to:]
    if choice == 1:
        return text[:at] + rng.choice(_TOKENS) + text[to:]
    if choice == 2:
        return text[:at] + rng.choice(_TOKENS) + text[at:]
    if choice == 3 and text:
        at = min(at, len(text) - 1)
        return text[:at] + bytes([text[at] ^ 1 << rng.randrange(8)]) + text[at + 1 :]
    if choice == 4:
        return text[:at]
    if choice == 5:
        return text[:at] + text[at:to] + text[at:]
    return text[:at] + _value(rng, 3) + text[to:]


_FRAGMENTS = [
    b"a", b" ", b"plain", b"0123456789abcdef", b"x" * 63, b"\\n", b"\\\"", b"\\\\", b"\\/", b"\\t", b"\\b\\f\\r",
    b"\\u0000", b"\\u0041", b"\\u00e9", b"\\u4e2d", b"\\ud83d\\ude00", b"\x7f", b"\xc2\x80", b"\xc3\xa9", b"\xd0\x96",
    b"\xd0\x96\xd0\xb8\xd0\xb2\xd0\xbe\xd0\xb9", b"\xe4\xb8\xad", b"\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97",
    b"\xe0\xa0\x80", b"\xed\x9f\xbf", b"\xee\x80\x80", b"\xef\xbf\xbf", b"\xf0\x9f\x98\x80", b"\xf0\x90\x80\x80",
    b"\xf4\x8f\xbf\xbf",
]  # fmt: skip
_STRING_FAULTS = [
    b"\\ud800", b"\\udc00", b"\\ud800\\u0041", b"\\ud83d\\ud83d", b"\\u12", b"\\u00g0", b"\\x", b"\\", b"\n", b"\x00",
    b"\x1f", b"\x80", b"\xc0\x80", b"\xc1\xbf", b"\xc3", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xe4\xb8",
    b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80", b"\xf0\x9f\x98", b"\xff", b'"',
]  # fmt: skip


_SCALARS = [b"true", b"false", b"null", b"{}", b"[]", b"[ ]"]


class Values:
    """JSON values: strings of all kinds of characters, numbers of all lengths, some of them damaged."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._random = rng.random
        self._left = 0

    def next(self) -> bytes:
        if self._left <= 0:
            # To make each anew would take most of the time. Other threads may draw values meanwhile.
            self._strings = [_any_string(self._rng) for _ in range(1000)]
            self._numbers = [_any_number(self._rng) for _ in range(1000)]
            self._floats = [b"%.*f" % (self._rng.randrange(1, 18), self._rng.uniform(-99, 99)) for _ in range(1000)]
            self._left = 5000
        self._left -= 1
        text = self._value(0)
        return mutated(self._rng, text) if self._random() < 0.15 else text

    def _value(self, level: int) -> bytes:
        random = self._random  # `choice` takes three times as long
        choice = random()
        if choice < 0.3:
            return self._strings[int(random() * 1000)]
        if choice < 0.6:
            return self._numbers[int(random() * 1000)]
        if choice < 0.7 or level > 3:
            return _SCALARS[int(random() * len(_SCALARS))]
        space = _SPACES[int(random() * len(_SPACES))]
        count = (1, 1, 2, 3, 5)[int(random() * 5)]
        values = [self._value(level + 1) for _ in range(count)]
        if level == 0 and random() < 0.03:
            # More numbers than the core reads itself, more values than fit into its first block.
            numbers = self._floats if random() < 0.3 else self._numbers
            start = int(random() * 500)
            values += numbers[start : start + (40 if random() < 0.7 else 300)]
            if random() < 0.5:
                values[-130:] = [b"[%b]" % value for value in values[-130:]]
        if choice < 0.85:
            return b"[" + (space + b",").join(values) + b"]"
        strings = self._strings
        members = [strings[int(random() * 1000)] + b":" + space + value for value in values]
        return b"{" + b",".join(members) + space + b"}"


def _any_string(rng: random.Random) -> bytes:
    fragments = rng.choices(_FRAGMENTS, k=rng.choice((0, 1, 1, 1, 2, 3, 8, 30)))
    if rng.random() < 0.02:
        fragments.insert(rng.randrange(len(fragments) + 1), rng.choice(_STRING_FAULTS))
    if rng.random() < 0.01:
        fragments *= rng.choice((20, 200))
    return b'"' + b"".join(fragments) + b'"'


def _any_number(rng: random.Random) -> bytes:
    choice = rng.random()
    if choice < 0.1:
        return rng.choice(_NUMBERS)
    sign = rng.choice((b"", b"", b"-"))
    whole = b"%d" % rng.randrange(10 ** rng.choice((1, 1, 2, 3, 5, 8, 9, 16, 17, 18, 19, 20, 21)))
    if choice < 0.5:
        return sign + whole
    fraction = b"" if choice < 0.6 else b".%d" % rng.randrange(10 ** rng.choice((1, 2, 3, 8, 15, 16, 17, 18)))
    exponent = (
        b"" if choice < 0.85 else rng.choice((b"e", b"E+", b"e-")) + b"%d" % rng.randrange(rng.choice((9, 25, 70, 400)))
    )
    return sign + whole + fraction + exponent
